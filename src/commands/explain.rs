//! `a2s explain`: the page of an error code.

use serde_json::json;

use crate::cli_error::CliError;
use crate::errors::{self, ErrorLesson, MistakeExample};
use crate::output::{BOLD, CommandOutput, NAME};

pub(super) fn explain(code: &str, output: &mut CommandOutput) -> Result<(), CliError> {
    let code = errors::find(code).ok_or_else(|| {
        CliError::invalid_argument(format!("unknown code `{code}`"))
            .with_hint("Codes look like A2S011; docs/errors.md lists them.")
    })?;
    let lesson = errors::find_lesson(code.id);
    let about = lesson.and_then(|lesson| lesson.about.as_deref());
    let shown = lesson.and_then(|ErrorLesson { example: shown, .. }| shown.as_ref());
    if output.is_json() {
        let mut line = json!({ "code": code.id, "title": code.title, "remedy": code.remedy });
        if let Some(about) = about {
            line["about"] = json!(about);
        }
        if let Some(MistakeExample { mistake, repair, diagnosis: said }) = shown {
            line["mistake"] = json!(mistake);
            line["said"] = json!(said);
            line["repair"] = json!(repair);
        }
        output.json_line(&line);
        return Ok(());
    }
    output.line(format_args!("{NAME}{}{NAME:#}  {BOLD}{}{BOLD:#}", code.id, code.title));
    output.line(format_args!("{}", code.remedy));
    if let Some(about) = about {
        output.lines(&format!("\n{about}"));
    }
    if let Some(MistakeExample { mistake, repair, diagnosis: said }) = shown {
        output.lines(&format!("\n{BOLD}Mistake{BOLD:#}\n{}", indented(mistake)));
        output.lines(&format!("\n{said}"));
        output.lines(&format!("\n{BOLD}Fix{BOLD:#}\n{}", indented(repair)));
    }
    Ok(())
}

/// Indents lines of a document, so that they differ from the text around them.
fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}
