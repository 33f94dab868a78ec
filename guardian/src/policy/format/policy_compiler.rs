//! Compiles the parsed policy file into rules.

use std::collections::BTreeSet;

use aos::message::Method;
use jiff::SignedDuration;
use regex::Regex;

use super::super::expression::CelExpression;
use super::super::message_facts::VARIABLES;
use super::super::path::MessagePath;
use super::super::policy_state::MAX_WITHIN;
use super::super::rate_limit::{LimitScope, MessageCost, RateLimit, UNIT};
use super::super::redact_and_set::{Modification, Redaction};
use super::super::redaction::RedactionPattern;
use super::super::rule::{PolicyRule, RuleEffect, RuleSubject};
use super::ErrorCollector;
use super::node::{PositionedValue, YamlNode};
use super::policy_yaml::{
    ApprovalText, LimitText, ModifyText, PatternKeyword, PerKeyword, RuleDecision, RuleText,
    TextList,
};

const MAX_CHANGES: usize = 64;
/// The default time that a person has to decide, and that their approval is valid afterwards.
const DEFAULT_APPROVAL_TIME: SignedDuration = SignedDuration::from_hours(1);

/// Returns the rule, or `None` if an error in it was recorded.
pub(super) fn read_rule(
    node: &PositionedValue<YamlNode>,
    ids: &mut BTreeSet<String>,
    faults: &mut ErrorCollector,
) -> Option<PolicyRule> {
    let before = faults.0.len();
    let text = RuleText::read(node, faults)?;
    let id = read_id(&text, ids, faults);
    let methods = text.on.as_ref().map(|on| read_texts(on, &id, "on", faults, parse_hook));
    let mut named = Vec::new();
    for (subject, field, globs) in &text.named {
        // An identity provider may pass what a person typed. What permits stays exact.
        let is_user_restriction =
            *subject == RuleSubject::User && text.decision != Some(RuleDecision::Allow);
        let ignores_case = *subject == RuleSubject::Host || is_user_restriction;
        let read = |glob: &str| match glob.trim_end_matches('.') {
            bare if is_user_restriction && !bare.is_empty() => read_glob(bare, ignores_case),
            _ => read_glob(glob, ignores_case),
        };
        named.push((*subject, read_texts(globs, &id, field, faults, read)));
    }
    let when = text.when.as_ref().and_then(|when| {
        let condition = CelExpression::compile(&when.value, &VARIABLES);
        faults.record_error(when.place, &id, "when", condition)
    });
    let limit = text.limit.as_ref().and_then(|limit| {
        if text.on.is_none() {
            let message = "limit requires on, otherwise a call and its result would both count";
            faults.add(limit.place, format!("rule {id}: {message}"));
        }
        faults.record_error(limit.place, &id, "limit", read_limit(&limit.value))
    });
    let effect = read_effect(&text, &id, before, faults)?;
    let reason_codes = text.reason_codes.as_ref().map(TextList::texts).unwrap_or_default();
    let reason_codes = reason_codes.into_iter().map(|(_, code)| code.to_owned()).collect();
    let message = text.message;
    let rule = PolicyRule { id, methods, named, when, limit, effect, message, reason_codes };
    (faults.0.len() == before).then_some(rule)
}

/// Returns the id, or the words that stand for a missing id in messages.
fn read_id(text: &RuleText, ids: &mut BTreeSet<String>, faults: &mut ErrorCollector) -> String {
    let Some(PositionedValue { value: id, place }) = &text.id else {
        return "without an id".to_owned();
    };
    if !ids.insert(id.clone()) {
        faults.add(*place, format!("rule {id}: duplicate id"));
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !(1..=64).contains(&id.len()) || !id.chars().all(is_allowed) {
        let rule = "an id must have 1 to 64 letters, digits, dots, dashes or underscores";
        faults.add(*place, format!("rule {id:?}: {rule}"));
    }
    id.clone()
}

/// Reads each text of a list that must not be empty.
fn read_texts<T>(
    list: &PositionedValue<TextList>,
    rule: &str,
    field: &str,
    faults: &mut ErrorCollector,
    read: impl Fn(&str) -> Result<T, String>,
) -> Vec<T> {
    let texts = TextList::texts(list);
    if texts.is_empty() {
        let message = format!("rule {rule}: {field} is empty, so the rule would never apply");
        faults.add(list.place, message);
    }
    let read = |(place, text)| faults.record_error(place, rule, field, read(text));
    texts.into_iter().filter_map(read).collect()
}

/// Returns the effect of a rule from its decision, and from the `modify` or `approval` that belongs to it.
fn read_effect(
    text: &RuleText,
    rule: &str,
    before: usize,
    faults: &mut ErrorCollector,
) -> Option<RuleEffect> {
    let place = text.id.as_ref().map_or(text.place, |id| id.place);
    // A decision that is missing or unknown was recorded.
    let decision = text.decision?;
    if decision != RuleDecision::Approve
        && let Some(approval) = &text.approval
    {
        faults.add(approval.place, format!("rule {rule}: approval requires decision approve"));
    }
    match (decision, &text.modify) {
        (RuleDecision::Allow, None) => return Some(RuleEffect::Allow),
        (RuleDecision::Deny, None) => return Some(RuleEffect::Deny),
        (RuleDecision::Approve, None) => {
            let within = match &text.approval {
                None => DEFAULT_APPROVAL_TIME,
                Some(PositionedValue { value: ApprovalText { within }, place }) => {
                    let within = read_duration(within.as_ref()?);
                    faults.record_error(*place, rule, "approval.within", within)?
                }
            };
            return Some(RuleEffect::Approve { within });
        }
        (RuleDecision::Modify, Some(modify)) => {
            let modification = read_modification(modify, rule, faults);
            let changes =
                modification.set.len() + modification.remove.len() + modification.redact.len();
            if (1..=MAX_CHANGES).contains(&changes) {
                return Some(RuleEffect::Modify(modification));
            }
            if faults.0.len() == before {
                faults
                    .add(place, format!("rule {rule}: modify requires 1 to {MAX_CHANGES} changes"));
            }
        }
        (RuleDecision::Modify, None) if text.has_invalid_modify => {}
        (RuleDecision::Modify, None) => {
            faults.add(place, format!("rule {rule}: decision modify requires modify"));
        }
        (_, Some(_)) => faults.add(place, format!("rule {rule}: modify requires decision modify")),
    }
    None
}

/// Parses a method from its name, or from the part after `steps/`, unchanged or in snake case.
pub(crate) fn parse_hook(name: &str) -> Result<Method, String> {
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
            Err(format!("{name:?} is not one of {}", known.join(", ")))
        }
    }
}

/// Compiles a pattern for names: `*` matches any text, `?` one character.
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

fn read_limit(text: &LimitText) -> Result<RateLimit, String> {
    let (cost, most) = match (text.calls, &text.spend, text.most) {
        (Some(calls), None, None) => (MessageCost::Call, calls.checked_mul(UNIT)),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is between nothing and a thousand billions"
        )]
        (None, Some(spend), Some(most)) if (0.0..=1e12).contains(&most) => {
            let expression = CelExpression::compile(spend, &VARIABLES);
            let expression = expression.map_err(|fault| format!("spend {fault}"))?;
            (MessageCost::Spend(expression), Some((most * 1e6).round() as u64))
        }
        (None, Some(_), Some(_)) => return Err("most is not between 0 and 10^12".to_owned()),
        (None, Some(_), None) => return Err("spend requires most".to_owned()),
        _ => return Err("requires either calls, or spend and most".to_owned()),
    };
    let most = most.ok_or("calls is too large")?;
    let per = match text.per {
        Some(PerKeyword::Session) | None => LimitScope::Session,
        Some(PerKeyword::All) => LimitScope::All,
        Some(PerKeyword::User) => LimitScope::User,
        Some(PerKeyword::Caller) => LimitScope::Caller,
        Some(PerKeyword::Agent) => LimitScope::Agent,
        Some(PerKeyword::Capability) => LimitScope::Capability,
        Some(PerKeyword::Tool) => LimitScope::Tool,
    };
    let within = match &text.within {
        None => MAX_WITHIN,
        Some(within) => read_duration(within).map_err(|fault| format!("within {fault}"))?,
    };
    Ok(RateLimit { cost, most, per, within })
}

/// Parses a duration such as `90s`, `30m`, `24h` or `7d`.
pub(crate) fn read_duration(text: &str) -> Result<SignedDuration, String> {
    let fault =
        || format!("{text:?} is not a duration from 1s to 31d, such as 90s, 30m, 24h or 7d");
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

fn read_modification(text: &ModifyText, rule: &str, faults: &mut ErrorCollector) -> Modification {
    let mut modification = Modification::default();
    if let Some(set) = &text.set {
        for (path, (place, value)) in &set.value {
            if let Some(path) =
                faults.record_error(*place, rule, "modify.set", MessagePath::parse(path))
            {
                modification.set.push((path, value.clone()));
            }
        }
    }
    for (place, path) in text.remove.as_ref().map(TextList::texts).unwrap_or_default() {
        modification.remove.extend(faults.record_error(
            place,
            rule,
            "modify.remove",
            MessagePath::parse(path),
        ));
    }
    for PositionedValue { value: redact, place } in &text.redact {
        let path = redact.path.as_ref().and_then(|path| {
            faults.record_error(
                path.place,
                rule,
                "modify.redact.path",
                MessagePath::parse(&path.value),
            )
        });
        let own = redact.regex.as_ref().and_then(|regex| {
            let pattern = RedactionPattern::from_regex(&regex.value);
            faults.record_error(regex.place, rule, "modify.redact.regex", pattern)
        });
        let message = match (redact.pattern, &redact.regex, &redact.path) {
            (Some(_), Some(_), _) => "modify.redact must have either pattern or regex, not both",
            (None, None, None) => "modify.redact requires a path, a pattern or a regex",
            _ => "",
        };
        if !message.is_empty() {
            faults.add(*place, format!("rule {rule}: {message}"));
        }
        let named = redact.pattern.map(|word| match word {
            PatternKeyword::Email => RedactionPattern::Email,
            PatternKeyword::Card => RedactionPattern::Card,
            PatternKeyword::Key => RedactionPattern::Key,
        });
        let replacement = redact.replacement.clone().unwrap_or_else(|| "[redacted]".to_owned());
        let pattern = named.or(own);
        modification.redact.push(Redaction { path, pattern, replacement, is_for_record: false });
    }
    modification
}
