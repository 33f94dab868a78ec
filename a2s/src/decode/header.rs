//! The header of a document: everything but its steps.

use std::borrow::Cow;
use std::fmt::Display;

use semver::{Version, VersionReq};

use crate::checksum::Digest;
use crate::diagnostic::{Diagnostic, SourcePosition};
use crate::display_safe::to_single_line;
use crate::document::{Author, Dependency};
use crate::error_code;
use crate::field_reader::{CompileMode, DiagnosticSink, shorten_for_message};
use crate::field_reader::{DocumentField, ExpectedType, ObjectReader, is_placeholder};
use crate::name::{CapabilityName, InvalidName};
use crate::tree::NodeValue;

pub(super) const MAX_DESCRIPTION: usize = 200;
pub(super) const MAX_LIST: usize = 100;
const MAX_TEXT: usize = 1_000;

pub(super) fn decode_language(
    field: Option<DocumentField<'_>>,
    findings: &mut DiagnosticSink,
) -> Option<Version> {
    let field = field?;
    let version = decode_version(&field, findings)?;
    if !matches!((version.major, version.minor), (1, 0 | 1)) {
        let message = format!("this compiler supports a2s 1.0 and 1.1, not {version}");
        findings.error(error_code::LANGUAGE_VERSION, field.at_value(), message);
        return None;
    }
    Some(version)
}

pub(super) fn decode_name(
    field: Option<DocumentField<'_>>,
    findings: &mut DiagnosticSink,
) -> Option<CapabilityName> {
    let field = field?;
    if let Some(text) = field.node.as_str().filter(|text| !is_placeholder(text))
        && let Err(error) = CapabilityName::new(text)
    {
        let rule = capitalise(&error.to_string());
        let hint = match CapabilityName::suggest(text) {
            Some(name) => format!("{rule} Use for example `{name}`."),
            None => rule,
        };
        bad_name(&field, "capability name", text, hint, findings);
        return None;
    }
    parse_named(&field, "capability name", CapabilityName::new, findings)
}

pub(super) fn decode_description(
    field: Option<DocumentField<'_>>,
    findings: &mut DiagnosticSink,
) -> Option<String> {
    let field = field?;
    let text = field.string(findings)?;
    let length = text.chars().count();
    if text.trim().is_empty() || length > MAX_DESCRIPTION {
        let message = if text.trim().is_empty() {
            "the description is empty".to_owned()
        } else {
            format!(
                "the description has {length} characters; at most {MAX_DESCRIPTION} are allowed"
            )
        };
        let hint = "Describe in one sentence what the capability does.";
        findings.error_with_hint(error_code::BAD_VALUE, field.at_value(), message, hint);
    } else if is_placeholder(text) {
        findings.placeholder(&field, text);
    }
    Some(to_single_line(text, usize::MAX))
}

pub(super) fn decode_charset(field: Option<DocumentField<'_>>, findings: &mut DiagnosticSink) {
    let Some(field) = field else { return };
    if let Some(text) = field.string(findings)
        && !text.eq_ignore_ascii_case("utf-8")
    {
        let message = format!("unsupported charset `{text}`; documents must be utf-8");
        let hint = "Write `charset: utf-8`, or leave the field out.";
        findings.error_with_hint(error_code::BAD_VALUE, field.at_value(), message, hint);
    }
}

pub(super) fn decode_authors(
    field: Option<DocumentField<'_>>,
    findings: &mut DiagnosticSink,
) -> Vec<Author> {
    let Some(field) = field else { return Vec::new() };
    bounded_items(&field, "author", findings)
        .iter()
        .filter_map(|item| decode_author(item, findings))
        .collect()
}

fn decode_author(item: &DocumentField<'_>, findings: &mut DiagnosticSink) -> Option<Author> {
    let mut fields = ObjectReader::open(item, "an author", findings)?;
    let name = fields.require("name", findings).and_then(|name| short_text(&name, findings));
    let mut optional = |key| fields.take(key).and_then(|field| short_text(&field, findings));
    let (email, organization, github) =
        (optional("email"), optional("organization"), optional("github"));
    fields.finish(findings);
    Some(Author { name: name?, email, organization, github })
}

pub(super) fn decode_dependencies(
    field: Option<DocumentField<'_>>,
    mode: CompileMode,
    findings: &mut DiagnosticSink,
) -> Vec<Dependency> {
    let Some(field) = field else { return Vec::new() };
    let mut dependencies: Vec<Dependency> = Vec::new();
    for item in field.items(findings).into_iter().take(MAX_LIST) {
        let Some(dependency) = decode_dependency(&item, mode, findings) else { continue };
        let mut known = dependencies.iter();
        match known.find(|known| known.capability == dependency.capability) {
            Some(first) => {
                let message = format!("`{}` is declared already", dependency.capability);
                twice(&item, first.position, message, findings);
            }
            None => dependencies.push(dependency),
        }
    }
    dependencies
}

fn decode_dependency(
    item: &DocumentField<'_>,
    mode: CompileMode,
    findings: &mut DiagnosticSink,
) -> Option<Dependency> {
    let mut fields = ObjectReader::open(item, "a dependency", findings)?;
    let capability = fields
        .require("capability", findings)
        .and_then(|field| parse_named(&field, "capability name", CapabilityName::new, findings));
    let range = fields.require("version", findings).and_then(|field| {
        let text = field.string(findings)?;
        let range = text.parse::<VersionReq>();
        if range.is_err() {
            let message = format!("`{text}` is not a range of versions");
            let hint = "Write a semver range such as `^1.0.0` or `>=1.2, <2`.";
            findings.error_with_hint(error_code::BAD_VERSION, field.at_value(), message, hint);
        }
        range.ok()
    });
    let checksum = fields.take("checksum").and_then(|field| decode_pin(&field, mode, findings));
    fields.finish(findings);
    Some(Dependency {
        capability: capability?,
        range: range.unwrap_or(VersionReq::STAR),
        checksum,
        pointer: item.path.clone(),
        position: item.node.position,
    })
}

fn decode_pin(
    field: &DocumentField<'_>,
    mode: CompileMode,
    findings: &mut DiagnosticSink,
) -> Option<Digest> {
    let text = field.string(findings)?;
    if is_placeholder(text) {
        let message = "the pinned checksum is a placeholder";
        match mode {
            CompileMode::Draft => {
                findings.warning(error_code::DEPENDENCY_PIN, field.at_value(), message);
            }
            CompileMode::Final | CompileMode::Publish => {
                findings.error(error_code::DEPENDENCY_PIN, field.at_value(), message);
            }
        }
        return None;
    }
    decode_digest(field, text, "`a2s show` prints", findings)
}

/// Reads a checksum. `source` names the source of the right checksum, for the hint.
pub(crate) fn decode_digest(
    field: &DocumentField<'_>,
    text: &str,
    source: &str,
    findings: &mut DiagnosticSink,
) -> Option<Digest> {
    text.parse()
        .map_err(|error: crate::DigestError| {
            let message = format!("`{}` is not a checksum; {error}", shorten_for_message(text));
            let hint = format!("Write the checksum that {source}.");
            findings.error_with_hint(error_code::BAD_VALUE, field.at_value(), message, hint);
        })
        .ok()
}

/// Reports an item that the list already contains, at `first`.
fn twice(
    item: &DocumentField<'_>,
    first: SourcePosition,
    message: String,
    findings: &mut DiagnosticSink,
) {
    let code = error_code::DUPLICATE_ID;
    let diagnostic = Diagnostic::error(code, item.at_value(), message)
        .with_hint("Remove one of the two.")
        .with_related(first, "first written here");
    findings.diagnostics.push(diagnostic);
}

/// Reads a semantic version. It accepts `1.0` for `1.0.0`, as in the published examples.
pub(super) fn decode_version(
    field: &DocumentField<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Version> {
    let text = match &field.node.kind {
        NodeValue::String(text) => text,
        NodeValue::Number(number) => {
            let message =
                format!("{number} is a number, not a text: as a number, `1.10` would be `1.1`");
            let full =
                if number.is_f64() { format!("{number}.0") } else { format!("{number}.0.0") };
            let hint = format!("Write the version in quotes: \"{full}\".");
            findings.error_with_hint(error_code::BAD_VERSION, field.at_value(), message, hint);
            return None;
        }
        _ => {
            findings.wrong_type(field, ExpectedType::Text, "a version in quotes is required here");
            return None;
        }
    };
    if is_placeholder(text) {
        findings.placeholder(field, text);
        return None;
    }
    let full =
        if text.split('.').count() == 2 && text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            Cow::Owned(format!("{text}.0"))
        } else {
            text.clone()
        };
    Version::parse(&full)
        .map_err(|error| {
            let message = format!("`{text}` is not a semantic version: {error}");
            findings.error(error_code::BAD_VERSION, field.at_value(), message);
        })
        .ok()
}

/// Reads a list of names. Reports a name that appears twice.
pub(super) fn named_list<T: PartialEq + Display>(
    field: &DocumentField<'_>,
    what: &str,
    make: impl Fn(&str) -> Result<T, InvalidName>,
    findings: &mut DiagnosticSink,
) -> Vec<T> {
    let mut names: Vec<(T, SourcePosition)> = Vec::new();
    for item in bounded_items(field, what, findings) {
        let Some(name) = parse_named(&item, what, &make, findings) else { continue };
        match names.iter().find(|(known, _)| *known == name) {
            Some((_, first)) => {
                let message = format!("`{name}` is in the list already");
                twice(&item, *first, message, findings);
            }
            None => names.push((name, item.node.position)),
        }
    }
    names.into_iter().map(|(name, _)| name).collect()
}

/// Reads a string, and checks it with the constructor of a name type.
pub(super) fn parse_named<T>(
    field: &DocumentField<'_>,
    what: &str,
    make: impl Fn(&str) -> Result<T, InvalidName>,
    findings: &mut DiagnosticSink,
) -> Option<T> {
    let text = field.string(findings)?;
    if is_placeholder(text) {
        findings.placeholder(field, text);
        return None;
    }
    make(text)
        .map_err(|error| bad_name(field, what, text, capitalise(&error.to_string()), findings))
        .ok()
}

fn bad_name(
    field: &DocumentField<'_>,
    what: &str,
    text: &str,
    hint: String,
    findings: &mut DiagnosticSink,
) {
    let message = format!("`{}` is not a valid {what}", shorten_for_message(text));
    findings.error_with_hint(error_code::BAD_NAME, field.at_value(), message, hint);
}

fn capitalise(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

/// Returns the items of a list. Reports an empty list, and a list of more than [`MAX_LIST`] items.
fn bounded_items<'n>(
    field: &DocumentField<'n>,
    what: &str,
    findings: &mut DiagnosticSink,
) -> Vec<DocumentField<'n>> {
    let mut items = field.items(findings);
    if matches!(field.node.kind, NodeValue::Array(_))
        && (items.is_empty() || items.len() > MAX_LIST)
    {
        let (message, hint) = if items.is_empty() {
            (format!("the list does not name any {what}"), format!("Name at least one {what}."))
        } else {
            let message =
                format!("the list has {} {what}s; at most {MAX_LIST} are allowed", items.len());
            (message, format!("Name fewer {what}s."))
        };
        findings.error_with_hint(error_code::BAD_VALUE, field.at_value(), message, hint);
        items.truncate(MAX_LIST);
    }
    items
}

/// Reads a text, which must be neither empty nor too long.
pub(super) fn short_text(
    field: &DocumentField<'_>,
    findings: &mut DiagnosticSink,
) -> Option<String> {
    let text = field.string(findings)?;
    if is_placeholder(text) {
        findings.placeholder(field, text);
        return None;
    }
    if text.trim().is_empty() || text.len() > MAX_TEXT {
        let message = format!("a text of 1 to {MAX_TEXT} bytes is required here");
        findings.error(error_code::BAD_VALUE, field.at_value(), message);
        return None;
    }
    Some(to_single_line(text, usize::MAX))
}
