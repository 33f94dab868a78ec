//! Tree to model: reads each part of a document, and reports everything that is not as the
//! language says. Reading goes on after an error, so that one answer names them all.

mod fields;
mod header;
mod steps;

use semver::Version;

use crate::code::{self, Code};
use crate::diagnostic::{Diagnostic, Position};
use crate::document::Capability;
use crate::name::CapabilityName;
use crate::template::Template;
use crate::tree::{Kind, Node};

pub(crate) use fields::{Fields, Shape, Taken, is_placeholder};
pub(crate) use header::decode_digest;
pub(crate) use steps::short;

/// Whether placeholders may still stand where checksums go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// While writing: a placeholder is a warning.
    Draft,
    /// To publish or run: a placeholder is an error.
    Final,
}

/// A place in a document: its path, and where that stands in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) path: String,
    pub(crate) position: Position,
}

/// What was found wrong so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Whether something required is missing. The error that says so may follow.
    pub(crate) incomplete: bool,
}

impl Findings {
    /// Adds an error with the remedy of its code.
    pub(crate) fn error(
        &mut self,
        code: Code,
        path: &str,
        at: Position,
        message: impl Into<String>,
    ) {
        self.diagnostics.push(Diagnostic::error(code, path, at, message.into()));
    }

    /// Adds an error with a hint of its own.
    pub(crate) fn error_with_hint(
        &mut self,
        code: Code,
        path: &str,
        at: Position,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.diagnostics.push(Diagnostic::error(code, path, at, message.into()).with_hint(hint));
    }

    /// Adds a warning.
    pub(crate) fn warning(
        &mut self,
        code: Code,
        path: &str,
        at: Position,
        message: impl Into<String>,
    ) {
        self.diagnostics.push(Diagnostic::error(code, path, at, message.into()).into_warning());
    }

    /// Adds a warning with a hint of its own.
    pub(crate) fn warning_with_hint(
        &mut self,
        code: Code,
        path: &str,
        at: Position,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let diagnostic = Diagnostic::error(code, path, at, message.into()).with_hint(hint);
        self.diagnostics.push(diagnostic.into_warning());
    }

    /// Adds the error of a wrong kind of value. `demand` says what belongs there.
    pub(crate) fn wrong_type(&mut self, field: &Taken<'_>, wanted: Shape, demand: &str) {
        // The beginning of a collection says less than the key it belongs to.
        let (at, found) = match &field.node.kind {
            Kind::Null => (field.key, "nothing stands here".to_owned()),
            Kind::Array(_) | Kind::Object(_) => {
                (field.key, format!("this is {}", field.node.describe()))
            }
            _ => (field.node.position, format!("this is {}", field.node.describe())),
        };
        let hint = match (wanted, &field.node.kind) {
            (_, Kind::Null) => "Fill it in.",
            (Shape::Text, Kind::Number(_) | Kind::Bool(_)) => "Put it in quotes.",
            (Shape::Text, _) => "Write one text.",
            (Shape::List, Kind::Object(_)) => "Write a list: each item begins with `- `.",
            (Shape::List, _) => "Write a list: each item on a line of its own after `- `.",
            (Shape::Mapping, Kind::Array(_)) => "Write a mapping: fields without `- ` before them.",
            (Shape::Mapping, _) => "Write a mapping: a line `field: value` for each field.",
        };
        let message = format!("{found}; {demand}");
        self.error_with_hint(code::WRONG_TYPE, &field.path, at, message, hint);
    }

    /// Adds the error of a placeholder that was not replaced.
    pub(crate) fn placeholder(&mut self, field: &Taken<'_>, text: &str) {
        let message = format!("the placeholder `{}` was not replaced", short(text));
        self.error(code::PLACEHOLDER, &field.path, field.node.position, message);
    }

    /// Whether an error is among the findings.
    pub(crate) fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Reads a whole document. What cannot be read has a substitute, so that the rest is still
/// checked; only `findings` tells that there were errors.
pub(crate) fn decode_capability(
    root: &Node,
    mode: Mode,
    findings: &mut Findings,
) -> Option<Capability> {
    if matches!(root.kind, Kind::Null) {
        let hint = "Begin with `a2s: 1.0.0` and the `name` of the capability.";
        let message = "the document is empty";
        findings.error_with_hint(code::MISSING_FIELD, "", root.position, message, hint);
        return None;
    }
    let mut fields = Fields::open(&Taken::root(root), "a capability", findings)?;
    let language = header::decode_language(fields.require("a2s", findings), findings);
    let name = header::decode_name(fields.require("name", findings), findings);
    let description = header::decode_description(fields.require("description", findings), findings);
    header::decode_charset(fields.take("charset"), findings);
    let domains = header::decode_domains(fields.require("domains", findings), findings);
    let version = header::decode_version(fields.require("version", findings), findings);
    // Compared with the digest by the compiler.
    fields.take("checksum");
    let authors = header::decode_authors(fields.require("authors", findings), findings);
    let parameters = header::decode_parameters(fields.take("parameters"), findings);
    let dependencies = header::decode_dependencies(fields.take("dependencies"), mode, findings);
    let tasks = fields.take("tasks");
    let execution = fields.require("execution", findings);
    let output =
        fields.take("output").map(|field| Template::decode(field.node, &field.path, findings));
    fields.finish(findings);

    let mut steps = steps::Decoder::new(tasks, &domains, findings);
    let (variables, execution) = steps.decode_execution(&execution?)?;
    Some(Capability {
        language: language.unwrap_or(Version::new(1, 0, 0)),
        name: name.unwrap_or_else(CapabilityName::substitute),
        description: description.unwrap_or_default(),
        domains,
        version: version.unwrap_or(Version::new(1, 0, 0)),
        authors,
        parameters,
        dependencies,
        variables,
        execution,
        output,
    })
}
