//! Policy: rules decide on messages. Pure: no clock, no file, no network.
//!
//! # The file
//!
//! ```yaml
//! version: 1
//! default: deny                    # what no rule is about
//! rules:
//!   - id: no-transfers
//!     description: Money is moved by people.
//!     on: [steps/toolCallRequest]  # all hooks if left out; also toolCallRequest, tool_call_request
//!     tool: "bank.*"               # `*` any text, `?` one character; all tools if left out
//!     when: inputs.body.amount > 100 && user.email == ""
//!     decision: deny               # allow, deny or modify
//!     message: Amounts above 100 need a person.
//!     reason_codes: [amount]
//!   - id: metric
//!     on: [tool_call_request]
//!     decision: modify
//!     modify:
//!       set: {queryParameters.units: metric}
//!       remove: [headerParameters.X-Debug]
//!   - id: private-data
//!     on: [steps/toolCallResult]
//!     decision: modify
//!     modify:
//!       redact:
//!         - pattern: email         # email, card or key
//!         - regex: 'ACME-\d+'
//!           replacement: "[account]"
//!         - path: people[*].address
//! ```
//!
//! # How it is read
//!
//! The rules are gone through in order. A rule applies if its hook, its tool and its condition fit.
//! The first `allow` or `deny` that applies decides. A `modify` changes the message and the going
//! through continues with the changed message, so that a redaction never hides a message from the
//! denials after it, and several redactions add up. If no rule applies, `default` decides; if only
//! modifications apply, the message goes on as they left it.
//!
//! A rule with `tool` is about messages that name a tool: tool calls, results that carry `toolId`
//! (the A2S executor sends it), and MCP `tools/call`.
//!
//! A condition is CEL over `method`, `tool`, `inputs`, `outputs`, `is_error`, `texts`, `reasoning`,
//! `session`, `metadata` (of the session), `agent`, `user`, `capability`, `turn`, `step` and `params`
//! (the whole message). Texts that a message does not have are empty; a member of `inputs` that is
//! not there is an error, so ask `has(inputs.city)` first. A condition that fails at a message
//! denies it with the reason `policy_error`.
//!
//! `capability.preview` is true when somebody plans a run of the A2S executor and only wants to know
//! what would be said: nothing is executed then, whatever the answer, `capability.run` is empty, and
//! a run asks again. The record in the log has it.
//!
//! A path names a place in the part that the hook covers: for a tool call a dotted input such as
//! `body.city`; for results, memory and messages a place in each text that is JSON. Patterns are
//! searched in every text, in keys too, and in numbers.

mod expression;
mod facts;
mod format;
mod modification;
mod path;
mod redaction;

use aos::message::{Answer, Call, Decision, Method, Object, Request};
use regex::Regex;
use sha2::{Digest, Sha256};

use expression::Expression;
use facts::Facts;
use format::DefaultWord;
use modification::Modification;

pub(crate) use facts::tool_of;
pub(crate) use format::MAX_BYTES;
pub use format::{Fault, Faults};

/// Rules that were checked.
#[derive(Debug)]
pub struct Policy {
    default: DefaultWord,
    rules: Vec<Rule>,
    /// Every redaction of every rule, for records.
    redactions: Modification,
    digest: String,
}

/// One rule.
#[derive(Debug)]
struct Rule {
    id: String,
    /// The hooks it is about; all of them if `None`.
    methods: Option<Vec<Method>>,
    tool: Option<Regex>,
    when: Option<Expression>,
    effect: Effect,
    message: Option<String>,
    reason_codes: Vec<String>,
}

/// What a rule does with a message.
#[derive(Debug)]
enum Effect {
    Allow,
    Deny,
    Modify(Modification),
}

/// A decision, and the rules that made it.
#[derive(Clone, Debug, PartialEq)]
pub struct Ruling {
    /// The answer to give.
    pub answer: Answer,
    /// The ids of the rules that applied, in order.
    pub rules: Vec<String>,
}

impl Policy {
    /// Read a policy file.
    ///
    /// # Errors
    /// Every fault that was found, with its line.
    pub fn parse(text: &str) -> Result<Self, Faults> {
        let (default, rules) = format::read(text)?;
        let redactions = rules.iter().filter_map(|rule| match &rule.effect {
            Effect::Modify(modification) => Some(modification.redact.clone()),
            Effect::Allow | Effect::Deny => None,
        });
        let redactions =
            Modification { redact: redactions.flatten().collect(), ..Modification::default() };
        Ok(Self { default, rules, redactions, digest: digest_of(text) })
    }

    /// The policy without rules that allows everything.
    pub fn allow_all() -> Self {
        let digest = digest_of("version: 1\ndefault: allow\n");
        Self {
            default: DefaultWord::Allow,
            rules: Vec::new(),
            redactions: Modification::default(),
            digest,
        }
    }

    /// `sha256:` of the text it was read from.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// How many rules it has.
    pub fn rules(&self) -> usize {
        self.rules.len()
    }

    /// Decide on a message. The same message always gets the same decision.
    pub fn decide(&self, request: &Request) -> Ruling {
        let mut call = request.call.clone();
        let mut applied = Applied::default();
        for rule in &self.rules {
            match rule.applies_to(&call) {
                Ok(false) => continue,
                Ok(true) => {}
                Err(reason) => return applied.fail(rule, &reason),
            }
            applied.rules.push(rule.id.clone());
            match &rule.effect {
                Effect::Deny => return applied.deny(rule),
                Effect::Allow => {
                    applied.explain(rule);
                    return applied.go_on(request, call);
                }
                Effect::Modify(modification) => {
                    if modification.apply(&mut call) {
                        applied.is_changed = true;
                        applied.explain(rule);
                    }
                }
            }
        }
        if applied.rules.is_empty() && self.default == DefaultWord::Deny {
            let answer = Answer {
                reason_codes: vec!["default_deny".to_owned()],
                ..Answer::new(
                    Decision::Deny,
                    "No rule allows this, and the policy denies what no rule is about.",
                )
            };
            return Ruling { answer, rules: Vec::new() };
        }
        applied.go_on(request, call)
    }

    /// The message with everything redacted that any rule redacts anywhere.
    pub(crate) fn redact(&self, call: &Call) -> Call {
        let mut call = call.clone();
        self.redactions.apply(&mut call);
        call
    }
}

impl Rule {
    fn applies_to(&self, call: &Call) -> Result<bool, String> {
        let is_about = |methods: &Vec<Method>| methods.contains(&call.method());
        if !self.methods.as_ref().is_none_or(is_about) {
            return Ok(false);
        }
        let is_tool = |tool: &Regex| tool_of(call).is_some_and(|name| tool.is_match(name));
        if !self.tool.as_ref().is_none_or(is_tool) {
            return Ok(false);
        }
        let Some(when) = &self.when else { return Ok(true) };
        let mut facts = Facts::of(call);
        if when.variables().any(|name| name == "inputs") && !facts.are_inputs_clear() {
            return Err("an input is there twice".to_owned());
        }
        when.holds(&mut |name| facts.get(name))
    }
}

/// What has happened to a message so far.
#[derive(Default)]
struct Applied {
    rules: Vec<String>,
    is_changed: bool,
    messages: Vec<String>,
    reason_codes: Vec<String>,
}

impl Applied {
    fn explain(&mut self, rule: &Rule) {
        self.messages.extend(rule.message.clone());
        self.reason_codes.extend(rule.reason_codes.iter().cloned());
    }

    fn go_on(self, request: &Request, call: Call) -> Ruling {
        let (decision, message) = if self.is_changed {
            (
                Decision::Modify(Box::new(Request { id: request.id.clone(), call })),
                "Changed by policy.",
            )
        } else {
            (Decision::Allow, "Allowed by policy.")
        };
        let message =
            if self.messages.is_empty() { message.to_owned() } else { self.messages.join(" ") };
        let answer = Answer {
            reason_codes: self.reason_codes,
            data: data_of(&self.rules),
            ..Answer::new(decision, message)
        };
        Ruling { answer, rules: self.rules }
    }

    /// A denial has its own reasons only, and always at least one.
    fn deny(self, rule: &Rule) -> Ruling {
        let message =
            rule.message.clone().unwrap_or_else(|| format!("Denied by the rule {}.", rule.id));
        let reason_codes = if rule.reason_codes.is_empty() {
            vec![rule.id.clone()]
        } else {
            rule.reason_codes.clone()
        };
        let answer = Answer {
            reason_codes,
            data: data_of(&self.rules),
            ..Answer::new(Decision::Deny, message)
        };
        Ruling { answer, rules: self.rules }
    }

    fn fail(mut self, rule: &Rule, reason: &str) -> Ruling {
        self.rules.push(rule.id.clone());
        let answer = Answer {
            reason_codes: vec!["policy_error".to_owned()],
            data: data_of(&self.rules),
            ..Answer::new(
                Decision::Deny,
                format!("The condition of the rule {} failed: {reason}.", rule.id),
            )
        };
        Ruling { answer, rules: self.rules }
    }
}

fn data_of(rules: &[String]) -> Option<Object> {
    (!rules.is_empty()).then(|| [("rules".to_owned(), rules.into())].into_iter().collect())
}

/// `sha256:` and lowercase hex.
fn digest_of(text: &str) -> String {
    format!("sha256:{}", crate::hex(&Sha256::digest(text)))
}
