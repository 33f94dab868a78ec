//! `a2s checksum`: print the checksum of a document, or fill it in, and with it the pins of its
//! dependencies.

use std::path::Path;

use a2s::{CapabilityName, DeclaredChecksum, Diagnostic, Digest, SourcePosition};
use semver::VersionReq;
use serde_json::{Value, json};

use super::version_spec::VersionSpec;
use super::{dependency_loader, document};
use crate::cli_error::{BAD_ARGUMENT, CliError, CliExitCode};
use crate::client::ServiceClient;
use crate::output::CommandOutput;

/// The code of a pin that is still a placeholder.
const UNFILLED_PIN: &str = "A2S068";

pub(super) async fn checksum(
    file: &Path,
    write: bool,
    client: impl FnOnce() -> Result<ServiceClient, CliError>,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let mut source = document::read(file)?;
    let mut pinned = 0;
    if write {
        let pins: Vec<Diagnostic> = a2s::compile(&source)
            .diagnostics
            .into_iter()
            .filter(|d| d.code == UNFILLED_PIN)
            .collect();
        if !pins.is_empty() {
            source = fill_pins(&source, &pins, &client()?).await?;
            pinned = pins.len();
        }
    }
    let compilation = a2s::compile(&source);
    let Some(digest) = compilation.digest else {
        let name = file.display().to_string();
        if output.is_json() {
            output.json_line(&json!({ "file": name, "issues": compilation.diagnostics }));
        } else {
            let errors = compilation.diagnostics.iter().filter(|d| d.is_error());
            output.print_diagnostics(&name, &source, errors);
        }
        return Err(CliError::already_printed(CliExitCode::Bad));
    };
    let filled = compilation.declared_checksum == Some(DeclaredChecksum::Given(digest));
    if write && (pinned > 0 || !filled) {
        write_checksum(file, &source, digest)?;
    }
    if output.is_json() {
        output.json_line(&json!({
            "file": file.display().to_string(),
            "checksum": digest,
            "written": write && (pinned > 0 || !filled),
            "pinned": pinned,
        }));
    } else {
        output.line(format_args!("{digest}"));
    }
    Ok(())
}

/// Replaces the placeholders of pins in the document with the digests of the published versions.
async fn fill_pins(
    source: &[u8],
    pins: &[Diagnostic],
    client: &ServiceClient,
) -> Result<Vec<u8>, CliError> {
    let content = a2s::parse_value(source).unwrap_or_default();
    let mut text = String::from_utf8_lossy(source).into_owned();
    // From the last to the first, so that an insertion moves none of the remaining ones.
    for pin in pins.iter().rev() {
        let dependency = pin
            .path
            .strip_prefix("dependencies[")
            .and_then(|rest| rest.split_once(']'))
            .and_then(|(index, _)| content["dependencies"].get(index.parse::<usize>().ok()?));
        let member = |name| dependency.and_then(|d| d[name].as_str());
        let (Some(name), Some(range)) = (member("capability"), member("version")) else { continue };
        let digest = published_digest(name, range, client).await?;
        let placeholder = dependency.map_or(&Value::Null, |d| &d["checksum"]);
        if let (Some(at), Some(placeholder)) =
            (offset_of(&text, pin.position), placeholder.as_str())
        {
            let filled = text[at..].replacen(placeholder, &digest.to_string(), 1);
            text.replace_range(at.., &filled);
        }
    }
    Ok(text.into_bytes())
}

/// Asks the registry for the digest of the version that an unpinned dependency would get.
async fn published_digest(
    name: &str,
    range: &str,
    client: &ServiceClient,
) -> Result<Digest, CliError> {
    let wrong = |what: String| CliError::new(CliExitCode::Bad, BAD_ARGUMENT, what);
    let name: CapabilityName = name
        .parse()
        .map_err(|error| wrong(format!("`{name}` is not a capability name: {error}")))?;
    // Written as a range, or `1.0.0` would mean that version alone.
    let range = range
        .parse::<VersionReq>()
        .map_err(|error| wrong(format!("`{range}` is not a range of versions: {error}")))?
        .to_string();
    let target = VersionSpec { name, range: Some(range) };
    let fetched =
        dependency_loader::fetch_document(&target, client).await.map_err(
            |failure| match failure.exit {
                CliExitCode::Bad => {
                    let name = &target.name;
                    let hint = format!(
                        "Publish a version, or list the published versions with `a2s show {name}`."
                    );
                    failure.with_hint(hint)
                }
                CliExitCode::Usage | CliExitCode::Denied | CliExitCode::Unreachable => failure,
            },
        )?;
    Ok(fetched.1.digest())
}

/// Returns the text of a document with the checksum of its content, if it states a different one.
pub(super) fn refresh_checksum(source: &[u8]) -> Option<Vec<u8>> {
    let compilation = a2s::compile(source);
    let digest = compilation.digest?;
    match compilation.declared_checksum? {
        DeclaredChecksum::Given(stated) if stated != digest => {
            insert_checksum(std::str::from_utf8(source).ok()?, digest).map(String::into_bytes)
        }
        DeclaredChecksum::Given(_) | DeclaredChecksum::Missing => None,
    }
}

/// Writes the checksum of its content into a document with another checksum or none. Returns the text of
/// the document.
///
/// # Errors
/// The file cannot be written, or has no position for the checksum that the command understands.
pub(super) fn update_checksum(file: &Path, source: Vec<u8>) -> Result<Vec<u8>, CliError> {
    let compilation = a2s::compile(&source);
    match compilation.digest {
        Some(digest) if compilation.declared_checksum != Some(DeclaredChecksum::Given(digest)) => {
            write_checksum(file, &source, digest)?;
            document::read(file)
        }
        // The registry reports document errors.
        Some(_) | None => Ok(source),
    }
}

/// Writes the checksum into the file.
fn write_checksum(file: &Path, source: &[u8], digest: Digest) -> Result<(), CliError> {
    if file == Path::new("-") {
        return Err(CliError::invalid_argument("a checksum cannot be written to standard input"));
    }
    let filled = insert_checksum(&String::from_utf8_lossy(source), digest).ok_or_else(|| {
        let message = format!("cannot find the location for the checksum in {}", file.display());
        let hint = format!("Write this at the top level: checksum: \"{digest}\"");
        CliError::new(CliExitCode::Bad, BAD_ARGUMENT, message).with_hint(hint)
    })?;
    document::write(file, filled.as_bytes())
}

/// Inserts the checksum into the text; a text that already has it stays the same. Each method may misread
/// some texts, so the function compiles the result before it accepts it.
fn insert_checksum(text: &str, digest: Digest) -> Option<String> {
    let value = format!("\"{digest}\"");
    let content = a2s::parse_value(text.as_bytes()).ok()?;
    let ways: [fn(&str, &str) -> Option<String>; 2] = match content.get("checksum") {
        Some(_) => [replace_value, replace_line],
        None => [insert_member, insert_line],
    };
    let is_filled = |filled: &String| {
        let compilation = a2s::compile(filled.as_bytes());
        // A key that is there twice has no digest.
        compilation.digest == Some(digest)
            && compilation.declared_checksum == Some(DeclaredChecksum::Given(digest))
    };
    let given = Some(text.to_owned());
    given.into_iter().chain(ways.iter().filter_map(|way| way(text, &value))).find(is_filled)
}

/// Replaces the value of the top-level `checksum` at its position: in block or flow style, quoted or plain,
/// in YAML or JSON.
fn replace_value(text: &str, value: &str) -> Option<String> {
    let diagnostics = a2s::compile(text.as_bytes()).diagnostics;
    let stated = diagnostics.iter().find(|diagnostic| diagnostic.path == "checksum")?;
    let at = offset_of(text, stated.position)?;
    let end = at + length_of_scalar(&text[at..])?;
    Some(format!("{}{value}{}", &text[..at], &text[end..]))
}

/// Returns the number of bytes of the scalar at the start of the text; a plain scalar ends where it would
/// end in flow style.
fn length_of_scalar(text: &str) -> Option<usize> {
    let mut characters = text.char_indices();
    let quote =
        characters.next().map(|(_, first)| first).filter(|first| matches!(first, '"' | '\''));
    let Some(quote) = quote else {
        let end = text.find([',', '}', '\r', '\n']).unwrap_or(text.len());
        let end = text[..end].find(" #").unwrap_or(end);
        return Some(text[..end].trim_end().len());
    };
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' if quote == '"' => drop(characters.next()),
            _ if character == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Replaces the value in the top-level `checksum` line, in YAML block style; the comment of the line stays.
fn replace_line(text: &str, value: &str) -> Option<String> {
    let (before, line, after) = split_at_line(text, "checksum")?;
    let (key, rest) = line.split_once(':')?;
    let comment = comment_of(rest).map_or_else(String::new, |comment| format!("  {comment}"));
    let ending = &line[line.trim_end_matches(['\r', '\n']).len()..];
    Some(format!("{before}{key}: {value}{comment}{ending}{after}"))
}

/// Inserts a member into a mapping in flow style, or into a JSON object.
fn insert_member(text: &str, value: &str) -> Option<String> {
    let inside = text.trim_start_matches('\u{feff}').trim_start().strip_prefix('{')?;
    let before = &text[..text.len() - inside.len()];
    Some(format!("{before}\"checksum\": {value},{inside}"))
}

/// Inserts a new line after `version`, in YAML block style.
fn insert_line(text: &str, value: &str) -> Option<String> {
    let (before, version, after) = split_at_line(text, "version")?;
    let ending = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let version = version.trim_end_matches(['\r', '\n']);
    Some(format!("{before}{version}{ending}checksum: {value}{ending}{after}"))
}

/// Returns the text before, in and after the top-level line of a key, in YAML block style.
fn split_at_line<'t>(text: &'t str, key: &str) -> Option<(&'t str, &'t str, &'t str)> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let bare = line.strip_prefix('"').map(|rest| rest.replacen('"', "", 1));
        let rest = bare.as_deref().unwrap_or(line).strip_prefix(key);
        if rest.is_some_and(|rest| rest.trim_start().starts_with(':')) {
            return Some((&text[..start], line, &text[start + line.len()..]));
        }
        start += line.len();
    }
    None
}

/// Returns the offset of a position in a text, in bytes.
fn offset_of(text: &str, place: SourcePosition) -> Option<usize> {
    let lines = text.split_inclusive('\n').take(place.line.checked_sub(1)?);
    let start: usize = lines.map(str::len).sum();
    // The mark of the byte order is not counted.
    let start =
        if start == 0 { text.len() - text.trim_start_matches('\u{feff}').len() } else { start };
    let column = text[start..].char_indices().nth(place.column.checked_sub(1)?)?.0;
    Some(start + column)
}

/// Returns the comment after a scalar, if there is one.
fn comment_of(rest: &str) -> Option<&str> {
    let rest = rest.trim_start();
    let after = match rest.chars().next()? {
        quote @ ('"' | '\'') => rest[1..].split_once(quote)?.1,
        _ => rest,
    };
    let at = after.find(" #").map(|at| at + 1).or_else(|| after.starts_with('#').then_some(0))?;
    Some(after[at..].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_takes_its_place_and_nothing_else_changes() {
        let check = |before: &str, after: &str| {
            let digest = a2s::compile(before.as_bytes()).digest.unwrap();
            let filled = insert_checksum(before, digest).unwrap();
            assert_eq!(filled, after.replace('@', &format!("\"{digest}\"")));
            assert_eq!(insert_checksum(&filled, digest).unwrap(), filled, "filled in already");
        };
        // YAML in block style.
        check("a: 1\nchecksum: \"<x>\"  # why\nb: 2\n", "a: 1\nchecksum: @  # why\nb: 2\n");
        check("a: 1\nchecksum: <x, y> # why\nb: 2\n", "a: 1\nchecksum: @  # why\nb: 2\n");
        check("\"checksum\": '<it''s x>'\r\nb: 2\r\n", "\"checksum\": @\r\nb: 2\r\n");
        check("checksum:\nb: 2", "checksum: @\nb: 2");
        check("checksum: # why\nb: 2", "checksum: @  # why\nb: 2");
        check("version: \"1\"\r\nb: 2\r\n", "version: \"1\"\r\nchecksum: @\r\nb: 2\r\n");
        // In flow style.
        check("{a: 1, checksum: <x>, b: 2}\n", "{a: 1, checksum: @, b: 2}\n");
        check("{a: 1, checksum: '<x>'} # why\n", "{a: 1, checksum: @} # why\n");
        check(
            "---\n{a: {checksum: <y>},\n checksum: <x>}",
            "---\n{a: {checksum: <y>},\n checksum: @}",
        );
        check("{a: é}", "{\"checksum\": @,a: é}");
        // JSON on one line, and on many.
        check("{\"a\": \"é\", \"checksum\": \"<x>\"}", "{\"a\": \"é\", \"checksum\": @}");
        check("{\"checksum\":null,\"a\":1}", "{\"checksum\":@,\"a\":1}");
        check("\u{feff}{\"checksum\":\"\\\"x\",\"a\":1}", "\u{feff}{\"checksum\":@,\"a\":1}");
        check("{\"a\": 1}", "{\"checksum\": @,\"a\": 1}");
        check(
            "{\n  \"a\": [{\n    \"checksum\": \"<y>\"\n  }],\n  \"checksum\": \"x\",\n  \"b\": 1\n}\n",
            "{\n  \"a\": [{\n    \"checksum\": \"<y>\"\n  }],\n  \"checksum\": @,\n  \"b\": 1\n}\n",
        );
    }

    #[test]
    fn a_text_that_is_not_understood_stays_as_it_is() {
        let digest = |text: &str| a2s::compile(text.as_bytes()).digest.unwrap();
        for text in ["a: 1\n", "checksum: >\n  <x>\nb: 2\n", "? checksum\n: <x>, y\n"] {
            assert_eq!(insert_checksum(text, digest(text)), None, "{text}");
        }
    }
}
