//! The policy file: YAML to rules, with every fault found.

use std::collections::BTreeSet;
use std::fmt;

use aos::message::Method;
use indexmap::IndexMap;
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;
use serde_saphyr::budget::BudgetBreach;

use super::expression::Expression;
use super::facts::VARIABLES;
use super::modification::{Modification, Redaction};
use super::path::Path;
use super::redaction::Pattern;
use super::{Effect, Rule};

/// The longest policy, in bytes.
pub(crate) const MAX_BYTES: usize = 256 << 10;
const MAX_RULES: usize = 500;
const MAX_CHANGES: usize = 64;

/// One fault of a policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line, counted from 1, if it is known.
    pub line: Option<u64>,
    /// What is wrong, as a sentence with the rule it is in.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// The faults of a policy file, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for Faults {
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

impl std::error::Error for Faults {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    version: Spanned<u64>,
    default: DefaultWord,
    #[serde(default)]
    rules: Vec<RuleText>,
}

/// The decision on what no rule is about.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum DefaultWord {
    Allow,
    Deny,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum DecisionWord {
    Allow,
    Deny,
    Modify,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    id: Spanned<String>,
    /// For people who read the file.
    #[serde(rename = "description")]
    _description: Option<String>,
    on: Option<Vec<Spanned<String>>>,
    tool: Option<Spanned<String>>,
    when: Option<Spanned<String>>,
    decision: DecisionWord,
    message: Option<String>,
    #[serde(default)]
    reason_codes: Vec<String>,
    modify: Option<ModifyText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModifyText {
    set: Option<Spanned<IndexMap<String, Value>>>,
    #[serde(default)]
    remove: Vec<Spanned<String>>,
    #[serde(default)]
    redact: Vec<RedactText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RedactText {
    path: Option<Spanned<String>>,
    pattern: Option<PatternWord>,
    regex: Option<Spanned<String>>,
    replacement: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PatternWord {
    Email,
    Card,
    Key,
}

/// Read a policy file.
///
/// # Errors
/// Every fault that can be found. A file that is not YAML, or has a field that is not known, is
/// told alone, since nothing after it can be trusted.
pub(super) fn read(text: &str) -> Result<(DefaultWord, Vec<Rule>), Faults> {
    if MAX_BYTES < text.len() {
        return Err(Faults(vec![Fault {
            line: None,
            message: format!("the file is longer than {MAX_BYTES} bytes"),
        }]));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_documents: 1, max_depth: 32, max_nodes: 50_000, max_aliases: 0, max_anchors: 0 },
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        merge_keys: serde_saphyr::options::MergeKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    let file: FileText = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error.location().map(|location| (location.line(), location.column()));
        let mut message = match &error {
            serde_saphyr::Error::DuplicateMappingKey { .. } => "a name is there twice".to_owned(),
            serde_saphyr::Error::Budget { breach, .. } => told_of(breach).to_owned(),
            other => other.to_string(),
        };
        if let Some((line, column)) = place {
            let told = format!(" at line {line}, column {column}");
            message = message.strip_suffix(&told).unwrap_or(&message).to_owned();
        }
        Faults(vec![Fault { line: place.map(|(line, _)| line), message }])
    })?;
    let mut faults = Collected(Vec::new());
    if file.version.value != 1 {
        faults.add(
            &file.version,
            format!("version {} is not known here, use version 1", file.version.value),
        );
    }
    if MAX_RULES < file.rules.len() {
        faults
            .0
            .push(Fault { line: None, message: format!("there are more than {MAX_RULES} rules") });
    }
    let mut ids = BTreeSet::new();
    let mut rules = Vec::new();
    for rule in file.rules {
        if !ids.insert(rule.id.value.clone()) {
            faults.add(&rule.id, format!("rule {}: the id is there twice", rule.id.value));
        }
        rules.extend(read_rule(rule, &mut faults));
    }
    if faults.0.is_empty() {
        return Ok((file.default, rules));
    }
    faults.0.sort_by_key(|fault| fault.line);
    Err(Faults(faults.0))
}

const fn told_of(breach: &BudgetBreach) -> &'static str {
    match breach {
        BudgetBreach::Anchors { .. } | BudgetBreach::Aliases { .. } => {
            "anchors and aliases are not allowed"
        }
        BudgetBreach::Documents { .. } => "there is more than one document",
        _ => "the file is too large or too deep",
    }
}

struct Collected(Vec<Fault>);

impl Collected {
    fn add<T>(&mut self, place: &Spanned<T>, message: String) {
        self.0.push(Fault { line: Some(place.referenced.line()), message });
    }

    /// The value, or its fault noted under the name of the rule and the field.
    fn keep<T, U>(
        &mut self,
        place: &Spanned<U>,
        rule: &str,
        field: &str,
        value: Result<T, String>,
    ) -> Option<T> {
        value.map_err(|message| self.add(place, format!("rule {rule}: {field} {message}"))).ok()
    }
}

/// The rule, or `None` if a fault in it was noted.
fn read_rule(text: RuleText, faults: &mut Collected) -> Option<Rule> {
    let before = faults.0.len();
    let id = text.id.value.clone();
    let is_id = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if id.is_empty() || 64 < id.len() || !id.chars().all(is_id) {
        faults.add(
            &text.id,
            format!("rule {id:?}: an id has 1 to 64 letters, digits, dots, dashes or underscores"),
        );
    }
    if text.on.as_ref().is_some_and(Vec::is_empty) {
        faults.add(&text.id, format!("rule {id}: on is empty, so it would never apply"));
    }
    let mut read_method =
        |name: &Spanned<String>| faults.keep(name, &id, "on", method_of(&name.value));
    let methods = text.on.map(|names| names.iter().filter_map(&mut read_method).collect());
    let tool =
        text.tool.as_ref().and_then(|tool| faults.keep(tool, &id, "tool", read_glob(&tool.value)));
    let when = text.when.as_ref().and_then(|when| {
        faults.keep(when, &id, "when", Expression::compile(&when.value, &VARIABLES))
    });
    let effect = match (text.decision, text.modify) {
        (DecisionWord::Allow, None) => Effect::Allow,
        (DecisionWord::Deny, None) => Effect::Deny,
        (DecisionWord::Modify, Some(modify)) => {
            let modification = read_modification(modify, &text.id, faults);
            let changes =
                modification.set.len() + modification.remove.len() + modification.redact.len();
            if !(1..=MAX_CHANGES).contains(&changes) && faults.0.len() == before {
                faults.add(&text.id, format!("rule {id}: modify needs 1 to {MAX_CHANGES} changes"));
            }
            Effect::Modify(modification)
        }
        (DecisionWord::Modify, None) => {
            faults.add(&text.id, format!("rule {id}: decision modify needs modify"));
            Effect::Deny
        }
        (_, Some(_)) => {
            faults.add(&text.id, format!("rule {id}: modify needs decision modify"));
            Effect::Deny
        }
    };
    let rule = Rule {
        id,
        methods,
        tool,
        when,
        effect,
        message: text.message,
        reason_codes: text.reason_codes,
    };
    (faults.0.len() == before).then_some(rule)
}

/// A method by its name, or by the part after `steps/` as it is or in snake case.
fn method_of(name: &str) -> Result<Method, String> {
    let judged = || Method::ALL.iter().copied().filter(|method| *method != Method::Ping);
    let short = |method: Method| method.as_str().strip_prefix("steps/").unwrap_or_default();
    let snake = |text: &str| -> String {
        let spell = |c: char| {
            if c.is_ascii_uppercase() {
                format!("_{}", c.to_ascii_lowercase())
            } else {
                c.to_string()
            }
        };
        text.chars().map(spell).collect()
    };
    let by_short_name =
        || judged().find(|method| [short(*method), &snake(short(*method))].contains(&name));
    match Method::from_name(name).filter(|method| *method != Method::Ping).or_else(by_short_name) {
        Some(method) => Ok(method),
        None => {
            let known: Vec<_> = judged().map(Method::as_str).collect();
            Err(format!("{name:?} is none of {}", known.join(", ")))
        }
    }
}

/// A pattern for names: `*` stands for any text, `?` for one character.
fn read_glob(glob: &str) -> Result<Regex, String> {
    let pattern: String = glob
        .chars()
        .map(|c| match c {
            '*' => ".*".to_owned(),
            '?' => ".".to_owned(),
            other => regex::escape(other.encode_utf8(&mut [0; 4])),
        })
        .collect();
    if glob.is_empty() {
        return Err("is empty, so it would never match".to_owned());
    }
    Regex::new(&format!("(?s)^{pattern}$")).map_err(|_| "is too large".to_owned())
}

fn read_modification(
    text: ModifyText,
    id: &Spanned<String>,
    faults: &mut Collected,
) -> Modification {
    let rule = id.value.as_str();
    let mut modification = Modification::default();
    if let Some(set) = text.set {
        for (path, value) in &set.value {
            if let Some(path) = faults.keep(&set, rule, "modify.set", Path::parse(path)) {
                modification.set.push((path, value.clone()));
            }
        }
    }
    for path in &text.remove {
        modification.remove.extend(faults.keep(
            path,
            rule,
            "modify.remove",
            Path::parse(&path.value),
        ));
    }
    for redact in text.redact {
        let path = redact.path.as_ref().and_then(|path| {
            faults.keep(path, rule, "modify.redact.path", Path::parse(&path.value))
        });
        let own = redact.regex.as_ref().and_then(|regex| {
            faults.keep(regex, rule, "modify.redact.regex", Pattern::of_regex(&regex.value))
        });
        let message = match (redact.pattern, &redact.regex, &redact.path) {
            (Some(_), Some(_), _) => "modify.redact takes either pattern or regex",
            (None, None, None) => "modify.redact needs a path, a pattern or a regex",
            _ => "",
        };
        if !message.is_empty() {
            faults.add(id, format!("rule {rule}: {message}"));
        }
        let named = redact.pattern.map(|word| match word {
            PatternWord::Email => Pattern::Email,
            PatternWord::Card => Pattern::Card,
            PatternWord::Key => Pattern::Key,
        });
        let replacement = redact.replacement.unwrap_or_else(|| "[redacted]".to_owned());
        modification.redact.push(Redaction { path, pattern: named.or(own), replacement });
    }
    modification
}
