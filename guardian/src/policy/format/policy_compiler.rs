//! From what is written to rules that can be followed.

use std::collections::BTreeSet;

use aos::message::Method;
use jiff::SignedDuration;
use regex::Regex;

use super::super::expression::Expression;
use super::super::message_facts::VARIABLES;
use super::super::path::Path;
use super::super::policy_state::MAX_WITHIN;
use super::super::rate_limit::{Cost, Limit, Per, UNIT};
use super::super::redact_and_set::{Modification, Redaction};
use super::super::redaction::Pattern;
use super::super::rule::{Effect, Rule, Subject};
use super::Collected;
use super::node::{Node, Place, Placed};
use super::policy_yaml::{
    ApprovalText, DecisionWord, LimitText, Listed, ModifyText, PatternWord, PerWord, RuleText,
};

const MAX_CHANGES: usize = 64;
/// How long a person has, and how long what they approve is good, unless the rule says.
const APPROVAL_WITHIN: SignedDuration = SignedDuration::from_hours(1);

/// The rule, or `None` if a fault in it was noted.
pub(super) fn read_rule(
    node: &Placed<Node>,
    ids: &mut BTreeSet<String>,
    faults: &mut Collected,
) -> Option<Rule> {
    let before = faults.0.len();
    let text = RuleText::read(node, faults)?;
    let (id, place) = match &text.id {
        Some(id) => (id.value.clone(), id.place),
        None => ("without an id".to_owned(), text.place),
    };
    if text.id.is_some() && !ids.insert(id.clone()) {
        faults.add(place, format!("rule {id}: the id is there twice"));
    }
    let is_id = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_id = !id.is_empty() && id.len() <= 64 && id.chars().all(is_id);
    if text.id.is_some() && !is_id {
        faults.add(
            place,
            format!("rule {id:?}: an id has 1 to 64 letters, digits, dots, dashes or underscores"),
        );
    }
    let methods = text.on.as_ref().map(|on| {
        let names = Listed::texts(on);
        if names.is_empty() {
            faults.add(on.place, format!("rule {id}: on is empty, so it would never apply"));
        }
        let read = |(place, name): &(Place, &str)| faults.keep(*place, &id, "on", method_of(name));
        names.iter().filter_map(read).collect::<Vec<_>>()
    });
    let mut named = Vec::new();
    for (field, subject, listed) in [
        ("tool", Subject::Tool, &text.tool),
        ("capability", Subject::Capability, &text.capability),
        ("host", Subject::Host, &text.host),
        ("user", Subject::User, &text.user),
        ("agent", Subject::Agent, &text.agent),
        ("session", Subject::Session, &text.session),
    ] {
        let Some(listed) = listed else { continue };
        let globs = Listed::texts(listed);
        if globs.is_empty() {
            let message = format!("rule {id}: {field} is empty, so it would never apply");
            faults.add(listed.place, message);
        }
        let read = |(place, glob): (Place, &str)| {
            faults.keep(place, &id, field, read_glob(glob, subject == Subject::Host))
        };
        named.push((subject, globs.into_iter().filter_map(read).collect()));
    }
    let when = text.when.as_ref().and_then(|when| {
        faults.keep(when.place, &id, "when", Expression::compile(&when.value, &VARIABLES))
    });
    let limit = text.limit.as_ref().and_then(|limit| {
        if text.on.is_none() {
            let message = "limit needs on, or a call and its result would both be counted";
            faults.add(limit.place, format!("rule {id}: {message}"));
        }
        faults.keep(limit.place, &id, "limit", read_limit(&limit.value))
    });
    let effect = match (text.decision, text.modify) {
        // That it is missing or unknown was noted.
        (None, _) => Effect::Deny,
        (Some(DecisionWord::Allow), None) => Effect::Allow,
        (Some(DecisionWord::Deny), None) => Effect::Deny,
        (Some(DecisionWord::Approve), None) => Effect::Approve {
            within: text.approval.as_ref().map_or(Some(APPROVAL_WITHIN), |approval| {
                let ApprovalText { within } = &approval.value;
                let within = read_duration(within.as_ref()?);
                faults.keep(approval.place, &id, "approval.within", within)
            })?,
        },
        (Some(DecisionWord::Modify), Some(modify)) => {
            let modification = read_modification(modify, &id, faults);
            let changes =
                modification.set.len() + modification.remove.len() + modification.redact.len();
            if !(1..=MAX_CHANGES).contains(&changes) && faults.0.len() == before {
                faults.add(place, format!("rule {id}: modify needs 1 to {MAX_CHANGES} changes"));
            }
            Effect::Modify(modification)
        }
        (Some(DecisionWord::Modify), None) if text.is_modify_lost => Effect::Deny,
        (Some(DecisionWord::Modify), None) => {
            faults.add(place, format!("rule {id}: decision modify needs modify"));
            Effect::Deny
        }
        (_, Some(_)) => {
            faults.add(place, format!("rule {id}: modify needs decision modify"));
            Effect::Deny
        }
    };
    if text.decision.is_some_and(|decision| decision != DecisionWord::Approve)
        && let Some(approval) = &text.approval
    {
        faults.add(approval.place, format!("rule {id}: approval needs decision approve"));
    }
    let reason_codes = text.reason_codes.as_ref().map(Listed::texts).unwrap_or_default();
    let rule = Rule {
        id,
        methods,
        named,
        when,
        limit,
        effect,
        message: text.message,
        reason_codes: reason_codes.into_iter().map(|(_, code)| code.to_owned()).collect(),
    };
    (faults.0.len() == before).then_some(rule)
}

/// A method by its name, or by the part after `steps/` as it is or in snake case.
pub(crate) fn method_of(name: &str) -> Result<Method, String> {
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
fn read_glob(glob: &str, ignores_case: bool) -> Result<Regex, String> {
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
    let flags = if ignores_case { "si" } else { "s" };
    Regex::new(&format!("(?{flags})^{pattern}$")).map_err(|_| "is too large".to_owned())
}

fn read_limit(text: &LimitText) -> Result<Limit, String> {
    let (cost, most) = match (text.calls, &text.spend, text.most) {
        (Some(calls), None, None) => (Cost::Call, calls.checked_mul(UNIT)),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is between nothing and a thousand billions"
        )]
        (None, Some(spend), Some(most)) if (0.0..=1e12).contains(&most) => {
            let expression = Expression::compile(spend, &VARIABLES);
            let expression = expression.map_err(|fault| format!("spend {fault}"))?;
            (Cost::Spend(expression), Some((most * 1e6).round() as u64))
        }
        (None, Some(_), Some(_)) => return Err("most is not between 0 and 10^12".to_owned()),
        (None, Some(_), None) => return Err("spend needs most".to_owned()),
        _ => return Err("needs either calls, or spend and most".to_owned()),
    };
    let most = most.ok_or("calls is too large")?;
    let per = match text.per {
        Some(PerWord::Session) | None => Per::Session,
        Some(PerWord::All) => Per::All,
        Some(PerWord::User) => Per::User,
        Some(PerWord::Agent) => Per::Agent,
        Some(PerWord::Capability) => Per::Capability,
        Some(PerWord::Tool) => Per::Tool,
    };
    let within = match &text.within {
        None => MAX_WITHIN,
        Some(within) => read_duration(within).map_err(|fault| format!("within {fault}"))?,
    };
    Ok(Limit { cost, most, per, within })
}

/// A time such as `90s`, `30m`, `24h` or `7d`.
pub(crate) fn read_duration(text: &str) -> Result<SignedDuration, String> {
    let fault = || format!("{text:?} is no time from 1s to 31d, such as 90s, 30m, 24h or 7d");
    let unit = text.chars().last().ok_or_else(fault)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(fault()),
    };
    let number: u32 = text.trim_end_matches(unit).parse().map_err(|_| fault())?;
    let duration = SignedDuration::from_secs(i64::from(number) * seconds);
    if SignedDuration::ZERO < duration && duration <= MAX_WITHIN {
        Ok(duration)
    } else {
        Err(fault())
    }
}

fn read_modification(text: ModifyText, rule: &str, faults: &mut Collected) -> Modification {
    let mut modification = Modification::default();
    if let Some(set) = text.set {
        for (path, (place, value)) in &set.value {
            if let Some(path) = faults.keep(*place, rule, "modify.set", Path::parse(path)) {
                modification.set.push((path, value.clone()));
            }
        }
    }
    for (place, path) in text.remove.as_ref().map(Listed::texts).unwrap_or_default() {
        modification.remove.extend(faults.keep(place, rule, "modify.remove", Path::parse(path)));
    }
    for Placed { value: redact, place } in text.redact {
        let path = redact.path.as_ref().and_then(|path| {
            faults.keep(path.place, rule, "modify.redact.path", Path::parse(&path.value))
        });
        let own = redact.regex.as_ref().and_then(|regex| {
            let pattern = Pattern::of_regex(&regex.value);
            faults.keep(regex.place, rule, "modify.redact.regex", pattern)
        });
        let message = match (redact.pattern, &redact.regex, &redact.path) {
            (Some(_), Some(_), _) => "modify.redact takes either pattern or regex",
            (None, None, None) => "modify.redact needs a path, a pattern or a regex",
            _ => "",
        };
        if !message.is_empty() {
            faults.add(place, format!("rule {rule}: {message}"));
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
