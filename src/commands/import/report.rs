//! Writes the imported documents, and reports the rest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use a2s_authoring::{ImportRejection, ImportResult, ImportWarning, ImportedDocument};
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::ImportArgs;
use crate::cli_error::{CliError, CliExitCode};
use crate::commands::document;
use crate::output::{BAD, CommandOutput, DIM, GOOD, NAME, WARN, count};

/// The most operations that one line names. A remark about more of them is printed once, at the end.
const MAX_SOURCES: usize = 3;

/// The result for the file of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum WriteOutcome {
    /// The file did not exist.
    New,
    /// The file existed with this content.
    Unchanged,
    /// The file existed with other content, and was replaced.
    Replaced,
    /// The file exists with other content, and stays unchanged.
    Kept,
}

/// Writes the documents into the folder and prints a report. Succeeds when all requested documents are
/// written.
pub(super) fn write_all(
    imported: &ImportResult,
    arguments: &ImportArgs,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let folder = &arguments.out;
    if !imported.documents.is_empty() {
        std::fs::create_dir_all(folder).map_err(|error| CliError::file_error(folder, &error))?;
    }
    let common = find_common_warnings(&imported.documents);
    let mut all = Vec::new();
    for document in &imported.documents {
        // A capability name is letters and digits: it leads to no other folder.
        let file = folder.join(format!("{}.yaml", document.name));
        let written = write(&file, document, arguments.force)?;
        if !output.is_json() {
            print(document, &file, written, &common, output);
        }
        all.push((document, file, written));
    }
    let number =
        |wanted: WriteOutcome| all.iter().filter(|(_, _, written)| *written == wanted).count();
    let counts = [
        ("written", number(WriteOutcome::New) + number(WriteOutcome::Replaced)),
        ("unchanged", number(WriteOutcome::Unchanged)),
        ("kept", number(WriteOutcome::Kept)),
        ("refused", imported.refused.len()),
        ("cannot_work", all.iter().filter(|(document, _, _)| !document.can_work).count()),
    ];
    if output.is_json() {
        let documents: Vec<Value> = all.iter().map(to_json).collect();
        let summary: serde_json::Map<String, Value> =
            counts.iter().map(|(name, number)| ((*name).to_owned(), json!(number))).collect();
        let refused = &imported.refused;
        output.json_line(&json!({
            "documents": documents,
            "refused": refused,
            "remarks": imported.remarks,
            "summary": summary,
        }));
    } else {
        for remark in &imported.remarks {
            output.line(format_args!("{WARN}note{WARN:#}  {}", with_place(remark)));
        }
        print_common_warnings(&common, output);
        print_end(imported, folder, &counts, output);
    }
    let failed = number(WriteOutcome::Kept) + imported.refused.len();
    if failed > 0 { Err(CliError::already_printed(CliExitCode::Bad)) } else { Ok(()) }
}

/// Prints the remarks about a description beside the result of the command.
pub(super) fn note_all(remarks: &[ImportWarning], output: &mut CommandOutput) {
    for remark in remarks {
        output.note(format_args!("{WARN}note{WARN:#} {}", with_place(remark)));
    }
}

/// Returns the reason of a remark after its location.
fn with_place(ImportWarning { place, reason }: &ImportWarning) -> String {
    let place = if place.is_empty() { String::new() } else { format!("{DIM}{place}: {DIM:#}") };
    format!("{place}{reason}")
}

fn write(file: &Path, document: &ImportedDocument, force: bool) -> Result<WriteOutcome, CliError> {
    let written = match std::fs::read(file) {
        Ok(known) if known == document.text.as_bytes() => return Ok(WriteOutcome::Unchanged),
        Ok(_) if !force => return Ok(WriteOutcome::Kept),
        Ok(_) => WriteOutcome::Replaced,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => WriteOutcome::New,
        Err(error) => return Err(CliError::file_error(file, &error)),
    };
    document::write(file, document.text.as_bytes())?;
    Ok(written)
}

fn to_json((document, file, written): &(&ImportedDocument, PathBuf, WriteOutcome)) -> Value {
    json!({
        "name": document.name,
        "source": document.source,
        "file": file.display().to_string(),
        "checksum": document.checksum,
        "can_work": document.can_work,
        "written": written,
        "remarks": document.remarks,
    })
}

/// Finds the warnings that many documents share, each with the names of these documents.
fn find_common_warnings(documents: &[ImportedDocument]) -> BTreeMap<&str, Vec<&str>> {
    let mut about = BTreeMap::<&str, Vec<&str>>::new();
    for document in documents {
        let mut reasons: Vec<&str> = document.remarks.iter().map(|r| r.reason.as_str()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        for reason in reasons {
            about.entry(reason).or_default().push(&document.name);
        }
    }
    about.retain(|_, documents| documents.len() > MAX_SOURCES);
    about
}

fn print_common_warnings(common: &BTreeMap<&str, Vec<&str>>, output: &mut CommandOutput) {
    for (reason, documents) in common {
        let (shown, more) = shorten_list(documents);
        output.line(format_args!("{WARN}note{WARN:#}  {reason}"));
        output.line(format_args!("      {DIM}{shown}{more}{DIM:#}"));
    }
}

/// Returns the first names of a list, and the number of the others as text.
fn shorten_list(names: &[&str]) -> (String, String) {
    let shown = names.iter().take(MAX_SOURCES).copied().collect::<Vec<_>>().join(", ");
    let more = match names.len().saturating_sub(MAX_SOURCES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (shown, more)
}

fn print(
    document: &ImportedDocument,
    file: &Path,
    written: WriteOutcome,
    common: &BTreeMap<&str, Vec<&str>>,
    output: &mut CommandOutput,
) {
    let (style, word) = match written {
        WriteOutcome::New => (GOOD, "new "),
        WriteOutcome::Replaced => (GOOD, "over"),
        WriteOutcome::Unchanged => (DIM, "same"),
        WriteOutcome::Kept => (BAD, "kept"),
    };
    let (file, source) = (file.display(), &document.source);
    output.line(format_args!("{style}{word}{style:#}  {file}  {DIM}{source}{DIM:#}"));
    if written == WriteOutcome::Kept {
        output.line(format_args!("      the file has other content; --force replaces it"));
    }
    if !document.can_work {
        output.line(format_args!(
            "      {WARN}cannot work{WARN:#} in this form: a step reads a value that no response has"
        ));
    }
    let own = document.remarks.iter().filter(|r| !common.contains_key(r.reason.as_str()));
    for remark in own {
        output.line(format_args!("      {WARN}note{WARN:#} {}", with_place(remark)));
    }
}

fn print_end(
    imported: &ImportResult,
    folder: &Path,
    counts: &[(&str, usize)],
    output: &mut CommandOutput,
) {
    // A problem of the whole description rejects every operation: it is reported once.
    let mut groups: Vec<(&ImportRejection, Vec<&str>)> = Vec::new();
    for refusal in &imported.refused {
        match groups.iter_mut().find(|(known, _)| known.reason == refusal.reason) {
            Some((_, sources)) => sources.push(&refusal.source),
            None => groups.push((refusal, vec![&refusal.source])),
        }
    }
    for (refusal, sources) in groups {
        let (shown, more) = shorten_list(&sources);
        output.line(format_args!("{BAD}bad {BAD:#}  {NAME}{shown}{NAME:#}{more}"));
        let place =
            if refusal.place.is_empty() { String::new() } else { format!("{}: ", refusal.place) };
        output.line(format_args!("      {DIM}{place}{DIM:#}{}", refusal.reason));
        if let Some(hint) = &refusal.hint {
            output.line(format_args!("      {DIM}help:{DIM:#} {hint}"));
        }
    }
    let parts = counts.iter().filter(|(_, number)| *number > 0);
    let parts = parts.map(|(name, number)| format!("{number} {}", name.replace('_', " ")));
    let parts: Vec<String> = parts.collect();
    let all = count(imported.documents.len() + imported.refused.len(), "document");
    output.line(format_args!("{DIM}{all}: {} ({}){DIM:#}", parts.join(", "), folder.display()));
}
