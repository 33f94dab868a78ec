//! The policy file: YAML to rules, with every fault found.

mod node;
mod policy_compiler;
mod policy_yaml;

use std::collections::BTreeSet;
use std::fmt;

use serde::de::DeserializeOwned;
use serde_saphyr::budget::BudgetBreach;

use super::PolicyRule;
use node::{PositionedValue, YamlNode};
use policy_yaml::PolicyFileText;

pub(crate) use node::FilePosition;
pub(crate) use policy_compiler::{parse_hook, read_duration};
pub(super) use policy_yaml::DefaultDecision;

/// The maximum length of a policy, in bytes.
pub(crate) const MAX_BYTES: usize = 256 << 10;
const MAX_RULES: usize = 500;

/// An error in a policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The line, counted from 1, if it is known.
    pub line: Option<u64>,
    /// The column in it, counted from 1, if it is known.
    pub column: Option<u64>,
    /// The problem, as a sentence with the rule that it is in.
    pub message: String,
}

impl PolicyError {
    /// Creates an error at a position in the file.
    pub(crate) fn new(place: FilePosition, message: String) -> Self {
        Self { line: Some(place.line), column: Some(place.column), message }
    }

    /// Creates an error about the whole file.
    fn without_position(message: String) -> Self {
        Self { line: None, column: None, message }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (Some(line), Some(column)) => {
                write!(f, "line {line}, column {column}: {}", self.message)
            }
            (Some(line), None) => write!(f, "line {line}: {}", self.message),
            (None, _) => f.write_str(&self.message),
        }
    }
}

/// The errors of a policy file, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyErrors(pub Vec<PolicyError>);

impl fmt::Display for PolicyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, fault) in self.0.iter().enumerate() {
            if 0 < place {
                f.write_str("\n")?;
            }
            fault.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyErrors {}

/// Reads a policy file.
///
/// # Errors
/// Every error that can be found. If the file is not YAML, that is the only one, since the rest of the file
/// cannot be trusted.
pub(super) fn read_policy(text: &str) -> Result<(DefaultDecision, Vec<PolicyRule>), PolicyErrors> {
    let file: serde_saphyr::Spanned<YamlNode> = read_yaml(text, MAX_BYTES)?;
    let file: PositionedValue<YamlNode> = file.into();
    let mut faults = ErrorCollector(Vec::new());
    let Some(file) = PolicyFileText::read(&file, &mut faults) else {
        return Err(faults.into_sorted());
    };
    if let Some(version) = file.version.as_ref().filter(|version| version.value != 1) {
        let message = format!("unknown version {}; use version 1", version.value);
        faults.add(version.place, message);
    }
    if MAX_RULES < file.rules.len() {
        let message = format!("the policy has more than {MAX_RULES} rules");
        faults.0.push(PolicyError::without_position(message));
    }
    let mut ids = BTreeSet::new();
    let mut rules = Vec::new();
    for node in file.rules.iter().take(MAX_RULES + 1) {
        rules.extend(policy_compiler::read_rule(node, &mut ids, &mut faults));
    }
    match file.default {
        Some(default) if faults.0.is_empty() => Ok((default, rules)),
        _ => Err(faults.into_sorted()),
    }
}

/// Reads YAML of a known form, within limits.
///
/// # Errors
/// Returns the first position where the text is not YAML or does not have that form.
pub(crate) fn read_yaml<T: DeserializeOwned>(
    text: &str,
    max_bytes: usize,
) -> Result<T, PolicyErrors> {
    if max_bytes < text.len() {
        let message = format!("the file is longer than {max_bytes} bytes");
        return Err(PolicyErrors(vec![PolicyError::without_position(message)]));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_documents: 1, max_depth: 32, max_nodes: 50_000, max_aliases: 0, max_anchors: 0 },
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        merge_keys: serde_saphyr::options::MergeKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error.location().map(|location| (location.line(), location.column()));
        let mut message = match &error {
            serde_saphyr::Error::DuplicateMappingKey { .. } => "duplicate name".to_owned(),
            serde_saphyr::Error::Budget { breach, .. } => describe_breach(breach).to_owned(),
            other => other.to_string(),
        };
        if let Some((line, column)) = place {
            let suffix = format!(" at line {line}, column {column}");
            message = message.strip_suffix(&suffix).unwrap_or(&message).to_owned();
        }
        if let Some(improved) = improve_message(&message) {
            message = improved;
        }
        let (line, column) = place.unzip();
        PolicyErrors(vec![PolicyError { line, column, message }])
    })
}

/// Returns a message that says how to fix the problem, where there is a better one than that of the YAML
/// reader.
fn improve_message(message: &str) -> Option<String> {
    let rest =
        ["unknown field `", "unknown variant `"].iter().find_map(|w| message.strip_prefix(w));
    if let Some((given, known)) = rest.and_then(|rest| rest.split_once("`, expected one of ")) {
        let near = known.split(", ").map(|name| (strsim::damerau_levenshtein(given, name), name));
        let (_, name) = near.min().filter(|(far, name)| *far <= 1 + name.len() / 4)?;
        return Some(format!("{message}; did you mean `{name}`?"));
    }
    match message {
        "missing field `version`" => {
            return Some("missing field `version`: start with `version: 1`".to_owned());
        }
        "missing field `default`" => {
            return Some("missing field `default`: write `default: deny`, or `allow`".to_owned());
        }
        _ => {}
    }
    if message.contains("expected sequence start") {
        return Some(
            "a list is required here: write each item after `- `, or all items in [ ]".to_owned(),
        );
    }
    if message.contains("expected mapping start") {
        return Some("names with values are required here, as in `name: value`".to_owned());
    }
    None
}

const fn describe_breach(breach: &BudgetBreach) -> &'static str {
    match breach {
        BudgetBreach::Anchors { .. } | BudgetBreach::Aliases { .. } => {
            "anchors and aliases are not allowed"
        }
        BudgetBreach::Documents { .. } => "the file has more than one document",
        _ => "the file is too large or has too many levels",
    }
}

/// The errors found so far.
struct ErrorCollector(Vec<PolicyError>);

impl ErrorCollector {
    fn add(&mut self, place: FilePosition, message: String) {
        self.0.push(PolicyError::new(place, message));
    }

    /// Returns the errors, in the order of their positions.
    fn into_sorted(mut self) -> PolicyErrors {
        self.0.sort_by_key(|fault| (fault.line, fault.column));
        PolicyErrors(self.0)
    }

    /// Returns the value, or records its error under the name of the rule and the field.
    fn record_error<T>(
        &mut self,
        place: FilePosition,
        rule: &str,
        field: &str,
        value: Result<T, String>,
    ) -> Option<T> {
        value.map_err(|message| self.add(place, format!("rule {rule}: {field} {message}"))).ok()
    }
}
