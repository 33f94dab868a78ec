//! The form of a policy file, as it is written. What does not have the form is noted and left out, and
//! the rest is read all the same.

use indexmap::IndexMap;
use serde_json::Value;

use super::node::{Node, Place, Placed};
use super::{Collected, mended};

pub(super) struct FileText<'n> {
    pub(super) version: Option<Placed<u64>>,
    pub(super) default: Option<DefaultWord>,
    pub(super) rules: &'n [Placed<Node>],
}

/// The decision on what no rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum DefaultWord {
    Allow,
    Deny,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DecisionWord {
    Allow,
    Deny,
    Modify,
    Approve,
}

pub(super) struct RuleText {
    pub(super) id: Option<Placed<String>>,
    /// The place of the rule.
    pub(super) place: Place,
    pub(super) on: Option<Placed<Listed>>,
    pub(super) tool: Option<Placed<Listed>>,
    pub(super) capability: Option<Placed<Listed>>,
    pub(super) host: Option<Placed<Listed>>,
    pub(super) user: Option<Placed<Listed>>,
    pub(super) agent: Option<Placed<Listed>>,
    pub(super) session: Option<Placed<Listed>>,
    pub(super) when: Option<Placed<String>>,
    pub(super) limit: Option<Placed<LimitText>>,
    pub(super) decision: Option<DecisionWord>,
    pub(super) message: Option<String>,
    pub(super) reason_codes: Option<Placed<Listed>>,
    pub(super) modify: Option<ModifyText>,
    /// Whether there is a `modify` that has not the form of one, which was noted.
    pub(super) is_modify_lost: bool,
    pub(super) approval: Option<Placed<ApprovalText>>,
}

pub(super) struct LimitText {
    pub(super) calls: Option<u64>,
    pub(super) spend: Option<String>,
    pub(super) most: Option<f64>,
    pub(super) per: Option<PerWord>,
    pub(super) within: Option<String>,
}

#[derive(Clone, Copy)]
pub(super) enum PerWord {
    All,
    Session,
    User,
    Agent,
    Capability,
    Tool,
}

pub(super) struct ApprovalText {
    pub(super) within: Option<String>,
}

pub(super) struct ModifyText {
    pub(super) set: Option<Placed<IndexMap<String, (Place, Value)>>>,
    pub(super) remove: Option<Placed<Listed>>,
    pub(super) redact: Vec<Placed<RedactText>>,
}

pub(super) struct RedactText {
    pub(super) path: Option<Placed<String>>,
    pub(super) pattern: Option<PatternWord>,
    pub(super) regex: Option<Placed<String>>,
    pub(super) replacement: Option<String>,
}

#[derive(Clone, Copy)]
pub(super) enum PatternWord {
    Email,
    Card,
    Key,
}

/// One text, or a list of them.
pub(super) struct Listed(Vec<Placed<String>>);

impl Listed {
    /// Each text with its place.
    pub(super) fn texts(listed: &Placed<Self>) -> Vec<(Place, &str)> {
        listed.value.0.iter().map(|text| (text.place, text.value.as_str())).collect()
    }
}

/// Names with their values, as far as the names are known.
struct Members<'n> {
    place: Place,
    members: &'n [(Placed<String>, Placed<Node>)],
}

impl<'n> Members<'n> {
    /// The value of a name; null is none.
    fn get(&self, name: &str) -> Option<&'n Placed<Node>> {
        let found = self.members.iter().find(|(known, _)| known.value == name);
        let node = found.map(|(_, node)| node)?;
        (!matches!(node.value, Node::Scalar(Value::Null))).then_some(node)
    }

    /// The same, or a fault where it is missing.
    fn need(&self, name: &str, faults: &mut Collected) -> Option<&'n Placed<Node>> {
        let found = self.get(name);
        if found.is_none() {
            faults.add_form(self.place, format!("missing field `{name}`"));
        }
        found
    }
}

impl Collected {
    /// A value that does not have the form that belongs at its place.
    fn add_form(&mut self, place: Place, message: String) {
        self.add(place, mended(&message).unwrap_or(message));
    }

    fn members<'n>(&mut self, node: &'n Placed<Node>, known: &[&str]) -> Option<Members<'n>> {
        let Node::Members(members) = &node.value else {
            self.add_form(node.place, "expected mapping start".to_owned());
            return None;
        };
        for (name, _) in members {
            let given = name.value.as_str();
            if !known.contains(&given) {
                let known = known.join(", ");
                let message = format!("unknown field `{given}`, expected one of {known}");
                self.add_form(name.place, message);
            }
        }
        Some(Members { place: node.place, members })
    }

    fn list<'n>(&mut self, node: &'n Placed<Node>) -> &'n [Placed<Node>] {
        let Node::List(items) = &node.value else {
            self.add_form(node.place, "expected sequence start".to_owned());
            return &[];
        };
        items
    }

    fn text(&mut self, node: &Placed<Node>) -> Option<Placed<String>> {
        let value = match &node.value {
            Node::Scalar(Value::String(text)) => text.clone(),
            Node::Scalar(value @ (Value::Number(_) | Value::Bool(_))) => value.to_string(),
            Node::Scalar(_) | Node::List(_) | Node::Members(_) => {
                self.add(node.place, "a text belongs here".to_owned());
                return None;
            }
        };
        Some(Placed { value, place: node.place })
    }

    fn listed(&mut self, node: &Placed<Node>) -> Option<Placed<Listed>> {
        let texts: Vec<_> = match &node.value {
            Node::List(items) => items.iter().filter_map(|item| self.text(item)).collect(),
            Node::Scalar(Value::String(_)) => self.text(node).into_iter().collect(),
            Node::Scalar(_) | Node::Members(_) => {
                self.add(node.place, "a text or a list of texts belongs here".to_owned());
                return None;
            }
        };
        // A list of which nothing could be read is not an empty one.
        let is_lost = matches!(&node.value, Node::List(items) if items.len() != texts.len());
        (!is_lost).then_some(Placed { value: Listed(texts), place: node.place })
    }

    fn word<T: Copy>(&mut self, node: &Placed<Node>, words: &[(&str, T)]) -> Option<T> {
        let given = self.text(node)?.value;
        let found = words.iter().find(|(word, _)| *word == given);
        if found.is_none() {
            let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            let known = known.join(", ");
            let message = format!("unknown variant `{given}`, expected one of {known}");
            self.add_form(node.place, message);
        }
        found.map(|(_, value)| *value)
    }

    fn number<T>(
        &mut self,
        node: &Placed<Node>,
        read: impl Fn(&Value) -> Option<T>,
        what: &str,
    ) -> Option<T> {
        let found = match &node.value {
            Node::Scalar(value) => read(value),
            Node::List(_) | Node::Members(_) => None,
        };
        if found.is_none() {
            self.add(node.place, format!("{what} belongs here"));
        }
        found
    }
}

impl<'n> FileText<'n> {
    pub(super) fn read(node: &'n Placed<Node>, faults: &mut Collected) -> Option<Self> {
        let members = faults.members(node, &["version", "default", "rules"])?;
        let version = members.need("version", faults).and_then(|node| {
            let value = faults.number(node, Value::as_u64, "a whole number")?;
            Some(Placed { value, place: node.place })
        });
        let words = [("allow", DefaultWord::Allow), ("deny", DefaultWord::Deny)];
        let default = members.need("default", faults);
        let default = default.and_then(|node| faults.word(node, &words));
        let rules = members.get("rules").map(|node| faults.list(node)).unwrap_or_default();
        Some(Self { version, default, rules })
    }
}

impl RuleText {
    pub(super) fn read(node: &Placed<Node>, faults: &mut Collected) -> Option<Self> {
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
        let members = faults.members(node, KNOWN)?;
        let words = [
            ("allow", DecisionWord::Allow),
            ("deny", DecisionWord::Deny),
            ("modify", DecisionWord::Modify),
            ("approve", DecisionWord::Approve),
        ];
        let id = members.need("id", faults).and_then(|node| faults.text(node));
        // For people who read the file.
        members.get("description").and_then(|node| faults.text(node));
        let mut listed = |name| members.get(name).and_then(|node| faults.listed(node));
        let (on, tool, capability) = (listed("on"), listed("tool"), listed("capability"));
        let (host, user) = (listed("host"), listed("user"));
        let (agent, session) = (listed("agent"), listed("session"));
        let reason_codes = listed("reason_codes");
        let when = members.get("when").and_then(|node| faults.text(node));
        let limit = members.get("limit").and_then(|node| read_limit(node, faults));
        let decision = members.need("decision", faults);
        let decision = decision.and_then(|node| faults.word(node, &words));
        let message = members.get("message").and_then(|node| faults.text(node));
        let modify = members.get("modify").and_then(|node| read_modify(node, faults));
        let approval = members.get("approval").and_then(|node| {
            let members = faults.members(node, &["within"])?;
            let within = members.need("within", faults).and_then(|node| faults.text(node));
            let value = ApprovalText { within: within.map(|within| within.value) };
            Some(Placed { value, place: node.place })
        });
        Some(Self {
            id,
            place: node.place,
            on,
            tool,
            capability,
            host,
            user,
            agent,
            session,
            when,
            limit,
            decision,
            message: message.map(|message| message.value),
            reason_codes,
            is_modify_lost: modify.is_none() && members.get("modify").is_some(),
            modify,
            approval,
        })
    }
}

fn read_limit(node: &Placed<Node>, faults: &mut Collected) -> Option<Placed<LimitText>> {
    let before = faults.0.len();
    let members = faults.members(node, &["calls", "spend", "most", "per", "within"])?;
    let words = [
        ("all", PerWord::All),
        ("session", PerWord::Session),
        ("user", PerWord::User),
        ("agent", PerWord::Agent),
        ("capability", PerWord::Capability),
        ("tool", PerWord::Tool),
    ];
    let whole = "a whole number";
    let calls = members.get("calls");
    let calls = calls.and_then(|node| faults.number(node, Value::as_u64, whole));
    let most = members.get("most");
    let most = most.and_then(|node| faults.number(node, Value::as_f64, "a number"));
    let per = members.get("per").and_then(|node| faults.word(node, &words));
    let mut text = |name| members.get(name).and_then(|node| faults.text(node));
    let (spend, within) = (text("spend"), text("within"));
    let (spend, within) = (spend.map(|text| text.value), within.map(|text| text.value));
    // What was left out would be missed next.
    let value = LimitText { calls, spend, most, per, within };
    (faults.0.len() == before).then_some(Placed { value, place: node.place })
}

fn read_modify(node: &Placed<Node>, faults: &mut Collected) -> Option<ModifyText> {
    let members = faults.members(node, &["set", "remove", "redact"])?;
    let set = members.get("set").and_then(|node| {
        let Node::Members(entries) = &node.value else {
            faults.add_form(node.place, "expected mapping start".to_owned());
            return None;
        };
        let entries = entries.iter();
        let entries =
            entries.map(|(name, node)| (name.value.clone(), (name.place, node.value.to_value())));
        Some(Placed { value: entries.collect(), place: node.place })
    });
    let remove = members.get("remove").and_then(|node| faults.listed(node));
    let redact = members.get("redact").map(|node| faults.list(node)).unwrap_or_default();
    let redact = redact.iter().filter_map(|node| read_redact(node, faults)).collect();
    Some(ModifyText { set, remove, redact })
}

fn read_redact(node: &Placed<Node>, faults: &mut Collected) -> Option<Placed<RedactText>> {
    let before = faults.0.len();
    let members = faults.members(node, &["path", "pattern", "regex", "replacement"])?;
    let words =
        [("email", PatternWord::Email), ("card", PatternWord::Card), ("key", PatternWord::Key)];
    let pattern = members.get("pattern").and_then(|node| faults.word(node, &words));
    let mut text = |name| members.get(name).and_then(|node| faults.text(node));
    let (path, regex) = (text("path"), text("regex"));
    let replacement = text("replacement").map(|text| text.value);
    let value = RedactText { path, pattern, regex, replacement };
    (faults.0.len() == before).then_some(Placed { value, place: node.place })
}
