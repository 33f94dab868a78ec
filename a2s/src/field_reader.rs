//! Readers of the fields of a document, and the diagnostics that they report.

mod object_reader;

use crate::diagnostic::{
    Diagnostic, DiagnosticList, MAX_RELATED, RelatedPosition, SourceLocation, did_you_mean,
};
use crate::error_code::{self, ErrorCode};
use crate::tree::NodeValue;

pub use object_reader::is_placeholder;
pub(crate) use object_reader::{DocumentField, ExpectedType, ObjectReader};

/// The purpose of decoding, which decides if placeholders may still stand in place of checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompileMode {
    /// For a document that is being written: a placeholder is a warning.
    Draft,
    /// For a run: a placeholder is an error.
    Final,
    /// For publication: content that a new version may not have is also an error.
    Publish,
}

impl CompileMode {
    /// Returns a finding about content that a new version must not have: an error for publication, otherwise
    /// a warning.
    pub(crate) fn refuse_when_new(self, found: Diagnostic) -> Diagnostic {
        if self == Self::Publish { found } else { found.into_warning() }
    }
}

/// The diagnostics so far.
#[derive(Debug, Default)]
pub(crate) struct DiagnosticSink {
    pub(crate) diagnostics: DiagnosticList,
    /// True when something required is missing. The error that reports it may follow.
    pub(crate) incomplete: bool,
    /// True when the document states a2s 1.0, without the fields of 1.1.
    pub(crate) older: bool,
}

impl DiagnosticSink {
    /// Adds an error with the remedy of its code.
    pub(crate) fn error(
        &mut self,
        code: ErrorCode,
        location: impl Into<SourceLocation>,
        message: impl Into<String>,
    ) {
        self.diagnostics.push(Diagnostic::error(code, location, message));
    }

    /// Adds an error with a specific hint.
    pub(crate) fn error_with_hint(
        &mut self,
        code: ErrorCode,
        location: impl Into<SourceLocation>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.diagnostics.push(Diagnostic::error(code, location, message).with_hint(hint));
    }

    /// Adds a warning.
    pub(crate) fn warning(
        &mut self,
        code: ErrorCode,
        location: impl Into<SourceLocation>,
        message: impl Into<String>,
    ) {
        self.diagnostics.push(Diagnostic::error(code, location, message).into_warning());
    }

    /// Adds a warning with a specific hint.
    pub(crate) fn warning_with_hint(
        &mut self,
        code: ErrorCode,
        location: impl Into<SourceLocation>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let diagnostic = Diagnostic::error(code, location, message).with_hint(hint);
        self.diagnostics.push(diagnostic.into_warning());
    }

    /// Adds an error for a feature of a2s 1.1 in a document of 1.0. One error covers all such locations,
    /// because one line fixes them all.
    pub(crate) fn require_version(&mut self, location: SourceLocation, what: &str) {
        if !self.older {
            return;
        }
        let code = error_code::NEWER_FIELD;
        match self.diagnostics.iter_mut().find(|known| known.code == code.id) {
            None => self.error(code, location, format!("{what} requires a2s 1.1")),
            Some(first) if first.related.len() < MAX_RELATED => {
                first.related.push(RelatedPosition {
                    message: format!("{what} requires it too"),
                    position: location.position,
                });
            }
            Some(_) => {}
        }
    }

    /// Adds the error for a word that is not one of the `known` words. `what` names the kind of word.
    pub(crate) fn unknown_word(
        &mut self,
        field: &DocumentField<'_>,
        what: &str,
        found: &str,
        known: &[&str],
    ) {
        if is_placeholder(found) {
            self.placeholder(field, found);
            return;
        }
        let hint = match did_you_mean(found, known.iter().copied()) {
            Some(close) => format!("Did you mean `{close}`?"),
            None => {
                let list: Vec<_> = known.iter().map(|kind| format!("`{kind}`")).collect();
                format!("Write one of {}.", list.join(", "))
            }
        };
        let message = format!("`{}` is not a valid {what}", shorten_for_message(found));
        self.error_with_hint(error_code::BAD_VALUE, field.at_value(), message, hint);
    }

    /// Adds the error for a value of the wrong type. `demand` describes the required value.
    pub(crate) fn wrong_type(
        &mut self,
        field: &DocumentField<'_>,
        wanted: ExpectedType,
        demand: &str,
    ) {
        // The beginning of a collection says less than the key it belongs to.
        let (at, found) = match &field.node.kind {
            NodeValue::Null => (field.key, "the value is missing".to_owned()),
            NodeValue::Array(_) | NodeValue::Object(_) => {
                (field.key, format!("this is {}", field.node.describe()))
            }
            _ => (field.node.position, format!("this is {}", field.node.describe())),
        };
        let hint = match (wanted, &field.node.kind) {
            (_, NodeValue::Null) => "Add a value.",
            (ExpectedType::Text, NodeValue::Number(_) | NodeValue::Bool(_)) => {
                "Put the value in quotes."
            }
            (ExpectedType::Text, _) => "Write a single text.",
            (ExpectedType::Integer | ExpectedType::Boolean, NodeValue::String(_)) => {
                "Write the value without quotes."
            }
            (ExpectedType::Integer, _) => "Write a whole number.",
            (ExpectedType::Boolean, _) => "Write `true` or `false`.",
            (ExpectedType::List, NodeValue::Object(_)) => {
                "Write a list: start each item with `- `."
            }
            (ExpectedType::List, _) => "Write a list: put each item on its own line after `- `.",
            (ExpectedType::Mapping, NodeValue::Array(_)) => {
                "Write a mapping: fields without `- ` before them."
            }
            (ExpectedType::Mapping, _) => {
                "Write a mapping: put each field on a line `field: value`."
            }
        };
        let message = format!("{found}; {demand}");
        self.error_with_hint(error_code::WRONG_TYPE, (&field.path, at), message, hint);
    }

    /// Adds the error of a placeholder that was not replaced.
    pub(crate) fn placeholder(&mut self, field: &DocumentField<'_>, text: &str) {
        let message = format!("the placeholder `{}` was not replaced", shorten_for_message(text));
        self.error(error_code::PLACEHOLDER, field.at_value(), message);
    }

    /// Returns true when the findings contain an error.
    pub(crate) fn has_errors(&self) -> bool {
        self.diagnostics.error_count() > 0
    }
}

/// Shortens a text from outside to a length that fits into a message.
pub(crate) fn shorten_for_message(text: &str) -> String {
    if text.chars().count() <= 60 {
        text.to_owned()
    } else {
        text.chars().take(59).chain(['…']).collect()
    }
}
