//! `a2s checksum`: print the checksum of a document, or fill it in, and with it the pins of its
//! dependencies.

use std::path::Path;

use a2s::{CapabilityName, Diagnostic, Digest, StatedChecksum};
use semver::VersionReq;
use serde_json::{Value, json};

use super::target::Target;
use super::{document, shelf};
use crate::client::Client;
use crate::failure::{BAD_ARGUMENT, Exit, Failure};
use crate::output::Output;

/// The code of a pin that is still a placeholder.
const PIN: &str = "A2S068";

pub(super) async fn checksum(
    file: &Path,
    write: bool,
    client: impl FnOnce() -> Result<Client, Failure>,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut source = document::read(file)?;
    let mut pinned = 0;
    if write {
        let pins: Vec<Diagnostic> =
            a2s::compile(&source).diagnostics.into_iter().filter(|d| d.code == PIN).collect();
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
            output.diagnostics(&name, &source, errors);
        }
        return Err(Failure::told(Exit::Bad));
    };
    let filled = compilation.stated == Some(StatedChecksum::Given(digest));
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

/// The document with the digests of the published versions in place of the placeholders of pins.
async fn fill_pins(
    source: &[u8],
    pins: &[Diagnostic],
    client: &Client,
) -> Result<Vec<u8>, Failure> {
    let content = a2s::parse_value(source).unwrap_or_default();
    let mut lines: Vec<String> =
        String::from_utf8_lossy(source).split('\n').map(str::to_owned).collect();
    for pin in pins {
        let dependency = pin
            .path
            .strip_prefix("dependencies[")
            .and_then(|rest| rest.split_once(']'))
            .and_then(|(index, _)| content["dependencies"].get(index.parse::<usize>().ok()?));
        let member = |name| dependency.and_then(|d| d[name].as_str());
        let (Some(name), Some(range)) = (member("capability"), member("version")) else { continue };
        let digest = published_digest(name, range, client).await?;
        let placeholder = dependency.map_or(&Value::Null, |d| &d["checksum"]);
        if let (Some(line), Some(placeholder)) =
            (lines.get_mut(pin.position.line.saturating_sub(1)), placeholder.as_str())
        {
            let column = pin.position.column.saturating_sub(1);
            let at = line.char_indices().nth(column).map_or(0, |(at, _)| at);
            let filled = line[at..].replacen(placeholder, &digest.to_string(), 1);
            line.replace_range(at.., &filled);
        }
    }
    Ok(lines.join("\n").into_bytes())
}

/// The digest of the version that an unpinned dependency would get, as the registry says.
async fn published_digest(name: &str, range: &str, client: &Client) -> Result<Digest, Failure> {
    let wrong = |what: String| Failure::new(Exit::Bad, BAD_ARGUMENT, what);
    let name: CapabilityName =
        name.parse().map_err(|error| wrong(format!("`{name}` names no capability: {error}")))?;
    // Written as a range, or `1.0.0` would mean that version alone.
    let range = range
        .parse::<VersionReq>()
        .map_err(|error| wrong(format!("`{range}` is no range of versions: {error}")))?
        .to_string();
    let target = Target { name, range: Some(range) };
    let fetched = shelf::fetch(&target, client).await.map_err(|failure| match failure.exit {
        Exit::Bad => {
            let name = &target.name;
            let hint = format!("Publish one, or see `a2s show {name}` for those there are.");
            failure.with_hint(hint)
        }
        Exit::Usage | Exit::Denied | Exit::Unreachable => failure,
    })?;
    Ok(fetched.1.digest())
}

/// Puts the checksum into the file.
fn write_checksum(file: &Path, source: &[u8], digest: Digest) -> Result<(), Failure> {
    if file == Path::new("-") {
        return Err(Failure::argument("standard input cannot be written to"));
    }
    let text = String::from_utf8_lossy(source);
    let filled = fill(&text, digest)
        .filter(|filled| {
            a2s::compile(filled.as_bytes()).stated == Some(StatedChecksum::Given(digest))
        })
        .ok_or_else(|| {
            Failure::new(
                Exit::Bad,
                BAD_ARGUMENT,
                format!("{} has no line for the checksum that can be replaced", file.display()),
            )
            .with_hint(format!("Write this line at the top level: checksum: \"{digest}\""))
        })?;
    document::write(file, filled.as_bytes())
}

/// The text with the checksum in its place: the top-level line that has it, or a new line behind
/// `version`, in YAML block style; or the member of a JSON object.
fn fill(text: &str, digest: Digest) -> Option<String> {
    let ending = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let is_json = text.trim_start().starts_with('{');
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = |key: &str| {
        lines.iter().position(|line| {
            let line = if is_json { line.trim_start() } else { line.as_str() };
            let bare = line.strip_prefix('"').map(|rest| rest.replacen('"', "", 1));
            let line = bare.as_deref().unwrap_or(line);
            line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(':'))
        })
    };
    let value = format!("\"{digest}\"");
    match at("checksum") {
        Some(index) => {
            let line = &lines[index];
            let (key, rest) = line.split_once(':')?;
            let comment =
                comment_of(rest).map_or_else(String::new, |comment| format!("  {comment}"));
            let comma = if is_json && rest.trim_end().ends_with(',') { "," } else { "" };
            lines[index] = format!("{key}: {value}{comma}{comment}");
        }
        None if is_json => {
            let open = lines.iter().position(|line| line.trim_start().starts_with('{'))?;
            lines[open] = lines[open].replacen('{', &format!("{{\"checksum\": {value},"), 1);
        }
        None => {
            let version = at("version")?;
            lines.insert(version + 1, format!("checksum: {value}"));
        }
    }
    let mut filled = lines.join(ending);
    if text.ends_with('\n') {
        filled.push_str(ending);
    }
    Some(filled)
}

/// The comment behind a scalar, when there is one.
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
        let digest = Digest::of_bytes(b"x");
        let check = |before: &str, after: &str| {
            assert_eq!(fill(before, digest).unwrap(), after.replace('@', &format!("\"{digest}\"")));
        };
        check("a: 1\nchecksum: \"<x>\"  # why\nb: 2\n", "a: 1\nchecksum: @  # why\nb: 2\n");
        check("checksum:\nb: 2", "checksum: @\nb: 2");
        check("version: \"1\"\r\nb: 2\r\n", "version: \"1\"\r\nchecksum: @\r\nb: 2\r\n");
        check(
            "{\n  \"checksum\": \"x\",\n  \"a\": 1\n}\n",
            "{\n  \"checksum\": @,\n  \"a\": 1\n}\n",
        );
        check("{\"a\": 1}", "{\"checksum\": @,\"a\": 1}");
        assert_eq!(fill("a: 1\n", digest), None);
    }
}
