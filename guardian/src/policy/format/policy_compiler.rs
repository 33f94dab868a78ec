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
use super::node::{FilePosition, PositionedValue, YamlNode};
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
    let (id, place) = match &text.id {
        Some(id) => (id.value.clone(), id.place),
        None => ("without an id".to_owned(), text.place),
    };
    if text.id.is_some() && !ids.insert(id.clone()) {
        faults.add(place, format!("rule {id}: duplicate id"));
    }
    let is_id = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_id = !id.is_empty() && id.len() <= 64 && id.chars().all(is_id);
    if text.id.is_some() && !is_id {
        faults.add(
            place,
            format!(
                "rule {id:?}: an id must have 1 to 64 letters, digits, dots, dashes or underscores"
            ),
        );
    }
    let methods = text.on.as_ref().map(|on| {
        let names = TextList::texts(on);
        if names.is_empty() {
            faults.add(on.place, format!("rule {id}: on is empty, so the rule would never apply"));
        }
        let read = |(place, name): &(FilePosition, &str)| {
            faults.record_error(*place, &id, "on", parse_hook(name))
        };
        names.iter().filter_map(read).collect::<Vec<_>>()
    });
    let mut named = Vec::new();
    for (field, subject, listed) in [
        ("tool", RuleSubject::Tool, &text.tool),
        ("capability", RuleSubject::Capability, &text.capability),
        ("host", RuleSubject::Host, &text.host),
        ("user", RuleSubject::User, &text.user),
        ("agent", RuleSubject::Agent, &text.agent),
        ("session", RuleSubject::Session, &text.session),
    ] {
        let Some(listed) = listed else { continue };
        let globs = TextList::texts(listed);
        if globs.is_empty() {
            let message = format!("rule {id}: {field} is empty, so the rule would never apply");
            faults.add(listed.place, message);
        }
        let read = |(place, glob): (FilePosition, &str)| {
            faults.record_error(place, &id, field, read_glob(glob, subject == RuleSubject::Host))
        };
        named.push((subject, globs.into_iter().filter_map(read).collect()));
    }
    let when = text.when.as_ref().and_then(|when| {
        faults.record_error(
            when.place,
            &id,
            "when",
            CelExpression::compile(&when.value, &VARIABLES),
        )
    });
    let limit = text.limit.as_ref().and_then(|limit| {
        if text.on.is_none() {
            let message = "limit requires on, otherwise a call and its result would both count";
            faults.add(limit.place, format!("rule {id}: {message}"));
        }
        faults.record_error(limit.place, &id, "limit", read_limit(&limit.value))
    });
    let effect = match (text.decision, text.modify) {
        // That it is missing or unknown was noted.
        (None, _) => RuleEffect::Deny,
        (Some(RuleDecision::Allow), None) => RuleEffect::Allow,
        (Some(RuleDecision::Deny), None) => RuleEffect::Deny,
        (Some(RuleDecision::Approve), None) => RuleEffect::Approve {
            within: text.approval.as_ref().map_or(Some(DEFAULT_APPROVAL_TIME), |approval| {
                let ApprovalText { within } = &approval.value;
                let within = read_duration(within.as_ref()?);
                faults.record_error(approval.place, &id, "approval.within", within)
            })?,
        },
        (Some(RuleDecision::Modify), Some(modify)) => {
            let modification = read_modification(modify, &id, faults);
            let changes =
                modification.set.len() + modification.remove.len() + modification.redact.len();
            if !(1..=MAX_CHANGES).contains(&changes) && faults.0.len() == before {
                faults.add(place, format!("rule {id}: modify requires 1 to {MAX_CHANGES} changes"));
            }
            RuleEffect::Modify(modification)
        }
        (Some(RuleDecision::Modify), None) if text.has_invalid_modify => RuleEffect::Deny,
        (Some(RuleDecision::Modify), None) => {
            faults.add(place, format!("rule {id}: decision modify requires modify"));
            RuleEffect::Deny
        }
        (_, Some(_)) => {
            faults.add(place, format!("rule {id}: modify requires decision modify"));
            RuleEffect::Deny
        }
    };
    if text.decision.is_some_and(|decision| decision != RuleDecision::Approve)
        && let Some(approval) = &text.approval
    {
        faults.add(approval.place, format!("rule {id}: approval requires decision approve"));
    }
    let reason_codes = text.reason_codes.as_ref().map(TextList::texts).unwrap_or_default();
    let rule = PolicyRule {
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

fn read_modification(text: ModifyText, rule: &str, faults: &mut ErrorCollector) -> Modification {
    let mut modification = Modification::default();
    if let Some(set) = text.set {
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
    for PositionedValue { value: redact, place } in text.redact {
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
            faults.add(place, format!("rule {rule}: {message}"));
        }
        let named = redact.pattern.map(|word| match word {
            PatternKeyword::Email => RedactionPattern::Email,
            PatternKeyword::Card => RedactionPattern::Card,
            PatternKeyword::Key => RedactionPattern::Key,
        });
        let replacement = redact.replacement.unwrap_or_else(|| "[redacted]".to_owned());
        modification.redact.push(Redaction { path, pattern: named.or(own), replacement });
    }
    modification
}
