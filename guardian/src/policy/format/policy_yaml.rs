//! The form of a policy file, as it is written. What does not have the form is noted and left out, and
//! the rest is read all the same.

use indexmap::IndexMap;
use serde_json::Value;

use super::super::rule::RuleSubject;
use super::node::{FilePosition, PositionedValue, YamlNode};
use super::{ErrorCollector, improve_message};

pub(super) struct PolicyFileText<'n> {
    pub(super) version: Option<PositionedValue<u64>>,
    pub(super) default: Option<DefaultDecision>,
    pub(super) rules: &'n [PositionedValue<YamlNode>],
}

/// The decision when no rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum DefaultDecision {
    Allow,
    Deny,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleDecision {
    Allow,
    Deny,
    Modify,
    Approve,
}

/// The kinds of names that a rule may match, each with its field.
const SUBJECTS: [(&str, RuleSubject); 6] = [
    ("tool", RuleSubject::Tool),
    ("capability", RuleSubject::Capability),
    ("host", RuleSubject::Host),
    ("user", RuleSubject::User),
    ("agent", RuleSubject::Agent),
    ("session", RuleSubject::Session),
];

pub(super) struct RuleText {
    pub(super) id: Option<PositionedValue<String>>,
    /// The position of the rule.
    pub(super) place: FilePosition,
    pub(super) on: Option<PositionedValue<TextList>>,
    /// The names that the rule requires, each with the field that lists them.
    pub(super) named: Vec<(RuleSubject, &'static str, PositionedValue<TextList>)>,
    pub(super) when: Option<PositionedValue<String>>,
    pub(super) limit: Option<PositionedValue<LimitText>>,
    pub(super) decision: Option<RuleDecision>,
    pub(super) message: Option<String>,
    pub(super) reason_codes: Option<PositionedValue<TextList>>,
    pub(super) modify: Option<ModifyText>,
    /// Set when there is a `modify` in a wrong form, which was recorded as an error.
    pub(super) has_invalid_modify: bool,
    pub(super) approval: Option<PositionedValue<ApprovalText>>,
}

pub(super) struct LimitText {
    pub(super) calls: Option<u64>,
    pub(super) spend: Option<String>,
    pub(super) most: Option<f64>,
    pub(super) per: Option<PerKeyword>,
    pub(super) within: Option<String>,
}

#[derive(Clone, Copy)]
pub(super) enum PerKeyword {
    All,
    Session,
    User,
    Caller,
    Agent,
    Capability,
    Tool,
}

pub(super) struct ApprovalText {
    pub(super) within: Option<String>,
}

pub(super) struct ModifyText {
    pub(super) set: Option<PositionedValue<IndexMap<String, (FilePosition, Value)>>>,
    pub(super) remove: Option<PositionedValue<TextList>>,
    pub(super) redact: Vec<PositionedValue<RedactText>>,
}

pub(super) struct RedactText {
    pub(super) path: Option<PositionedValue<String>>,
    pub(super) pattern: Option<PatternKeyword>,
    pub(super) regex: Option<PositionedValue<String>>,
    pub(super) replacement: Option<String>,
}

#[derive(Clone, Copy)]
pub(super) enum PatternKeyword {
    Email,
    Card,
    Key,
}

/// One text, or a list of them.
pub(super) struct TextList(Vec<PositionedValue<String>>);

impl TextList {
    /// Returns each text with its position.
    pub(super) fn texts(listed: &PositionedValue<Self>) -> Vec<(FilePosition, &str)> {
        listed.value.0.iter().map(|text| (text.place, text.value.as_str())).collect()
    }
}

/// The members of a mapping, with known names.
struct YamlMembers<'n> {
    place: FilePosition,
    members: &'n [(PositionedValue<String>, PositionedValue<YamlNode>)],
}

impl<'n> YamlMembers<'n> {
    /// Returns the value of a name. A null value counts as absent.
    fn get(&self, name: &str) -> Option<&'n PositionedValue<YamlNode>> {
        let found = self.members.iter().find(|(known, _)| known.value == name);
        let node = found.map(|(_, node)| node)?;
        (!matches!(node.value, YamlNode::Scalar(Value::Null))).then_some(node)
    }

    /// Returns the value of a name, or records an error if it is missing.
    fn require(
        &self,
        name: &str,
        faults: &mut ErrorCollector,
    ) -> Option<&'n PositionedValue<YamlNode>> {
        let found = self.get(name);
        if found.is_none() {
            faults.add_form_error(self.place, format!("missing field `{name}`"));
        }
        found
    }
}

impl ErrorCollector {
    /// Records an error for a value of the wrong form.
    fn add_form_error(&mut self, place: FilePosition, message: String) {
        self.add(place, improve_message(&message).unwrap_or(message));
    }

    fn read_members<'n>(
        &mut self,
        node: &'n PositionedValue<YamlNode>,
        known: &[&str],
    ) -> Option<YamlMembers<'n>> {
        let YamlNode::Members(members) = &node.value else {
            self.add_form_error(node.place, "expected mapping start".to_owned());
            return None;
        };
        for (name, _) in members {
            let given = name.value.as_str();
            if !known.contains(&given) {
                let known = known.join(", ");
                let message = format!("unknown field `{given}`, expected one of {known}");
                self.add_form_error(name.place, message);
            }
        }
        Some(YamlMembers { place: node.place, members })
    }

    fn read_list<'n>(
        &mut self,
        node: &'n PositionedValue<YamlNode>,
    ) -> &'n [PositionedValue<YamlNode>] {
        let YamlNode::List(items) = &node.value else {
            self.add_form_error(node.place, "expected sequence start".to_owned());
            return &[];
        };
        items
    }

    fn read_text(&mut self, node: &PositionedValue<YamlNode>) -> Option<PositionedValue<String>> {
        let value = match &node.value {
            YamlNode::Scalar(Value::String(text)) => text.clone(),
            YamlNode::Scalar(value @ (Value::Number(_) | Value::Bool(_))) => value.to_string(),
            YamlNode::Scalar(_) | YamlNode::List(_) | YamlNode::Members(_) => {
                self.add(node.place, "a text is required here".to_owned());
                return None;
            }
        };
        Some(PositionedValue { value, place: node.place })
    }

    fn read_text_list(
        &mut self,
        node: &PositionedValue<YamlNode>,
    ) -> Option<PositionedValue<TextList>> {
        let texts: Vec<_> = match &node.value {
            YamlNode::List(items) => items.iter().filter_map(|item| self.read_text(item)).collect(),
            YamlNode::Scalar(Value::String(_)) => self.read_text(node).into_iter().collect(),
            YamlNode::Scalar(_) | YamlNode::Members(_) => {
                self.add(node.place, "a text or a list of texts is required here".to_owned());
                return None;
            }
        };
        // A list of which nothing could be read is not an empty one.
        let is_lost = matches!(&node.value, YamlNode::List(items) if items.len() != texts.len());
        (!is_lost).then_some(PositionedValue { value: TextList(texts), place: node.place })
    }

    fn read_keyword<T: Copy>(
        &mut self,
        node: &PositionedValue<YamlNode>,
        words: &[(&str, T)],
    ) -> Option<T> {
        let given = self.read_text(node)?.value;
        let found = words.iter().find(|(word, _)| *word == given);
        if found.is_none() {
            let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            let known = known.join(", ");
            let message = format!("unknown variant `{given}`, expected one of {known}");
            self.add_form_error(node.place, message);
        }
        found.map(|(_, value)| *value)
    }

    fn read_number<T>(
        &mut self,
        node: &PositionedValue<YamlNode>,
        read: impl Fn(&Value) -> Option<T>,
        what: &str,
    ) -> Option<T> {
        let found = match &node.value {
            YamlNode::Scalar(value) => read(value),
            YamlNode::List(_) | YamlNode::Members(_) => None,
        };
        if found.is_none() {
            self.add(node.place, format!("{what} is required here"));
        }
        found
    }
}

impl<'n> PolicyFileText<'n> {
    pub(super) fn read(
        node: &'n PositionedValue<YamlNode>,
        faults: &mut ErrorCollector,
    ) -> Option<Self> {
        let members = faults.read_members(node, &["version", "default", "rules"])?;
        let version = members.require("version", faults).and_then(|node| {
            let value = faults.read_number(node, Value::as_u64, "a whole number")?;
            Some(PositionedValue { value, place: node.place })
        });
        let words = [("allow", DefaultDecision::Allow), ("deny", DefaultDecision::Deny)];
        let default = members.require("default", faults);
        let default = default.and_then(|node| faults.read_keyword(node, &words));
        let rules = members.get("rules").map(|node| faults.read_list(node)).unwrap_or_default();
        Some(Self { version, default, rules })
    }
}

impl RuleText {
    pub(super) fn read(
        node: &PositionedValue<YamlNode>,
        faults: &mut ErrorCollector,
    ) -> Option<Self> {
        const KNOWN: &[&str] = &[
            "id",
            "description",
            "on",
            "tool",
            "capability",
            "host",
            "user",
            "agent",
            "session",
            "when",
            "limit",
            "decision",
            "message",
            "reason_codes",
            "modify",
            "approval",
        ];
        let members = faults.read_members(node, KNOWN)?;
        let words = [
            ("allow", RuleDecision::Allow),
            ("deny", RuleDecision::Deny),
            ("modify", RuleDecision::Modify),
            ("approve", RuleDecision::Approve),
        ];
        let id = members.require("id", faults).and_then(|node| faults.read_text(node));
        // For people who read the file.
        members.get("description").and_then(|node| faults.read_text(node));
        let mut listed = |name| members.get(name).and_then(|node| faults.read_text_list(node));
        let (on, reason_codes) = (listed("on"), listed("reason_codes"));
        let named = SUBJECTS.into_iter();
        let named = named.filter_map(|(field, subject)| Some((subject, field, listed(field)?)));
        let named = named.collect();
        let when = members.get("when").and_then(|node| faults.read_text(node));
        let limit = members.get("limit").and_then(|node| read_limit(node, faults));
        let decision = members.require("decision", faults);
        let decision = decision.and_then(|node| faults.read_keyword(node, &words));
        let message = members.get("message").and_then(|node| faults.read_text(node));
        let modify = members.get("modify").and_then(|node| read_modify(node, faults));
        let approval = members.get("approval").and_then(|node| {
            let members = faults.read_members(node, &["within"])?;
            let within = members.require("within", faults).and_then(|node| faults.read_text(node));
            let value = ApprovalText { within: within.map(|within| within.value) };
            Some(PositionedValue { value, place: node.place })
        });
        Some(Self {
            id,
            place: node.place,
            on,
            named,
            when,
            limit,
            decision,
            message: message.map(|message| message.value),
            reason_codes,
            has_invalid_modify: modify.is_none() && members.get("modify").is_some(),
            modify,
            approval,
        })
    }
}

fn read_limit(
    node: &PositionedValue<YamlNode>,
    faults: &mut ErrorCollector,
) -> Option<PositionedValue<LimitText>> {
    let before = faults.0.len();
    let members = faults.read_members(node, &["calls", "spend", "most", "per", "within"])?;
    let words = [
        ("all", PerKeyword::All),
        ("session", PerKeyword::Session),
        ("user", PerKeyword::User),
        ("caller", PerKeyword::Caller),
        ("agent", PerKeyword::Agent),
        ("capability", PerKeyword::Capability),
        ("tool", PerKeyword::Tool),
    ];
    let whole = "a whole number";
    let calls = members.get("calls");
    let calls = calls.and_then(|node| faults.read_number(node, Value::as_u64, whole));
    let most = members.get("most");
    let most = most.and_then(|node| faults.read_number(node, Value::as_f64, "a number"));
    let per = members.get("per").and_then(|node| faults.read_keyword(node, &words));
    let mut text = |name| members.get(name).and_then(|node| faults.read_text(node));
    let (spend, within) = (text("spend"), text("within"));
    let (spend, within) = (spend.map(|text| text.value), within.map(|text| text.value));
    // Invalid members would seem missing too.
    let value = LimitText { calls, spend, most, per, within };
    (faults.0.len() == before).then_some(PositionedValue { value, place: node.place })
}

fn read_modify(
    node: &PositionedValue<YamlNode>,
    faults: &mut ErrorCollector,
) -> Option<ModifyText> {
    let members = faults.read_members(node, &["set", "remove", "redact"])?;
    let set = members.get("set").and_then(|node| {
        let YamlNode::Members(entries) = &node.value else {
            faults.add_form_error(node.place, "expected mapping start".to_owned());
            return None;
        };
        let entries = entries.iter();
        let entries =
            entries.map(|(name, node)| (name.value.clone(), (name.place, node.value.to_value())));
        Some(PositionedValue { value: entries.collect(), place: node.place })
    });
    let remove = members.get("remove").and_then(|node| faults.read_text_list(node));
    let redact = members.get("redact").map(|node| faults.read_list(node)).unwrap_or_default();
    let redact = redact.iter().filter_map(|node| read_redact(node, faults)).collect();
    Some(ModifyText { set, remove, redact })
}

fn read_redact(
    node: &PositionedValue<YamlNode>,
    faults: &mut ErrorCollector,
) -> Option<PositionedValue<RedactText>> {
    let before = faults.0.len();
    let members = faults.read_members(node, &["path", "pattern", "regex", "replacement"])?;
    let words = [
        ("email", PatternKeyword::Email),
        ("card", PatternKeyword::Card),
        ("key", PatternKeyword::Key),
    ];
    let pattern = members.get("pattern").and_then(|node| faults.read_keyword(node, &words));
    let mut text = |name| members.get(name).and_then(|node| faults.read_text(node));
    let (path, regex) = (text("path"), text("regex"));
    let replacement = text("replacement").map(|text| text.value);
    let value = RedactText { path, pattern, regex, replacement };
    (faults.0.len() == before).then_some(PositionedValue { value, place: node.place })
}
