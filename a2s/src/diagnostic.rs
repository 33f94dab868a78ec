//! Diagnostics of a document: the problem, its place and its fix.

mod bounded;

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error_code::ErrorCode;

pub(crate) use bounded::{DiagnosticList, MAX_NAME_CHARS};

/// An error or a warning about a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Diagnostic {
    /// Stable code, such as `A2S011`; `docs/errors.md` has a page for each.
    pub code: String,
    /// An error prevents publication and runs of the document; a warning does not.
    pub severity: DiagnosticSeverity,
    /// The problem in this case.
    pub message: String,
    /// The path in the document: `execution.steps[0].task`; empty for the whole document.
    pub path: String,
    /// The position in the text, if it has one.
    #[serde(flatten)]
    pub position: SourcePosition,
    /// The suggested fix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Other positions that belong to it: for example, the first occurrence of a name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<RelatedPosition>,
}

/// The maximum number of related positions of one diagnostic.
pub(crate) const MAX_RELATED: usize = 4;

/// A related position of a diagnostic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Related)]
pub struct RelatedPosition {
    /// A short description of the location.
    pub message: String,
    /// The position in the text.
    #[serde(flatten)]
    pub position: SourcePosition,
}

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Severity)]
pub enum DiagnosticSeverity {
    /// The document cannot be published or run.
    Error,
    /// The document can be published and run, but something in it is not right.
    Warning,
}

/// A position in a text. Lines and columns count from 1, columns in characters; 0 means unknown.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[schema(as = Position)]
pub struct SourcePosition {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// A location in a document: its path, and its position in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceLocation {
    pub(crate) path: String,
    pub(crate) position: SourcePosition,
}

impl<P: Into<String>> From<(P, SourcePosition)> for SourceLocation {
    fn from((path, position): (P, SourcePosition)) -> Self {
        Self { path: path.into(), position }
    }
}

impl Diagnostic {
    /// Creates an error with the remedy of its code as the hint.
    pub(crate) fn error(
        code: ErrorCode,
        location: impl Into<SourceLocation>,
        message: impl Into<String>,
    ) -> Self {
        let SourceLocation { path, position } = location.into();
        Self {
            code: code.id.to_owned(),
            severity: DiagnosticSeverity::Error,
            message: message.into(),
            path,
            position,
            hint: Some(code.remedy.to_owned()),
            related: Vec::new(),
        }
    }

    /// Returns the diagnostic as a warning.
    pub(crate) fn into_warning(self) -> Self {
        Self { severity: DiagnosticSeverity::Warning, ..self }
    }

    /// Returns the diagnostic with a more exact hint.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Returns the diagnostic with a related position, if that position is known.
    pub(crate) fn with_related(
        mut self,
        position: SourcePosition,
        message: impl Into<String>,
    ) -> Self {
        if position.line > 0 {
            self.related.push(RelatedPosition { message: message.into(), position });
        }
        self
    }

    /// An error prevents publication and runs of the document; a warning does not.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == DiagnosticSeverity::Error
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            DiagnosticSeverity::Error => "error",
            DiagnosticSeverity::Warning => "warning",
        };
        write!(f, "{severity}[{}]: {}", self.code, self.message)?;
        if self.position.line > 0 {
            write!(f, " at line {}, column {}", self.position.line, self.position.column)?;
        }
        if !self.path.is_empty() {
            write!(f, " ({})", self.path)?;
        }
        Ok(())
    }
}

/// Returns the candidate that `word` most likely meant, if one is similar enough.
#[must_use]
pub fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let letters = word.chars().count();
    let is_near = |candidate: &&str| {
        letters.abs_diff(candidate.len()) <= 1 + candidate.len().min(letters) / 4
    };
    candidates
        .into_iter()
        .filter(is_near)
        .map(|candidate| {
            let distance = strsim::damerau_levenshtein(
                &word.to_ascii_lowercase(),
                &candidate.to_ascii_lowercase(),
            );
            (distance, candidate)
        })
        .min()
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().min(word.len()) / 4)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_close_word_is_suggested_and_the_far_one_is_not() {
        let fields = ["input_mapping", "output_mapping", "format"];
        assert_eq!(did_you_mean("inputmapping", fields), Some("input_mapping"));
        assert_eq!(did_you_mean("fromat", fields), Some("format"));
        assert_eq!(did_you_mean("retry", fields), None);
    }
}
