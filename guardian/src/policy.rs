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
//!     on: steps/toolCallRequest    # or a list; all hooks if left out; also toolCallRequest, tool_call_request
//!     tool: "bank.*"               # `*` any text, `?` one character; all tools if left out
//!     host: "*.bank.example"       # likewise `capability`, `user` (id or e-mail), `agent`, `session`
//!     when: inputs.body.amount > 100 && user.email == ""
//!     decision: deny               # allow, deny, modify or approve
//!     message: Amounts above 100 need a person.
//!     reason_codes: [amount]
//!   - id: metric
//!     on: toolCallRequest
//!     decision: modify
//!     modify:
//!       set: {queryParameters.units: metric}
//!       remove: [headerParameters.X-Debug]
//!   - id: private-data
//!     on: steps/toolCallResult
//!     decision: modify
//!     modify:
//!       redact:
//!         - pattern: email         # email, card or key
//!         - regex: 'ACME-\d+'
//!           replacement: "[account]"
//!         - path: people[*].address
//!   - id: ten-an-hour
//!     on: toolCallRequest
//!     limit: {calls: 10, per: session, within: 1h}
//!     decision: deny
//!   - id: budget
//!     on: toolCallRequest
//!     tool: "bank.*"
//!     limit: {spend: inputs.body.amount, most: 500, per: user, within: 24h}
//!     decision: approve            # a person has to agree to what goes beyond it
//!     approval: {within: 30m}
//! ```
//!
//! # How it is read
//!
//! The rules are gone through in order. A rule applies if its hook, its names, its condition and its
//! limit fit. The first `allow`, `deny` or `approve` that applies decides. A `modify` changes the
//! message and the going through continues with the changed message, so that a redaction never hides
//! a message from the denials after it, and several redactions add up. If no rule applies, `default`
//! decides; if only modifications apply, the message goes on as they left it.
//!
//! A rule with `tool` is about messages that name a tool: tool calls, results that carry `toolId`
//! (the A2S executor sends it), and MCP `tools/call`. A rule with `capability` or `host` is about
//! messages of the A2S executor, which says both. A message that does not say what a rule asks for
//! by name is none that the rule is about.
//!
//! `user` is the id or the e-mail address of the user, `context.user.id` or `context.user.email`. What a
//! token does for an end user has the end user as `user` and the token as `caller`: a rule that
//! denies, changes or asks a person applies if either fits, one that allows only by the user. A
//! message without a user fits every rule by user that denies or changes, and none that allows; one
//! that would ask a person denies it with the reason `user_unknown`. A condition that reads `user`
//! or `caller` is a rule by user likewise.
//!
//! A condition is CEL over `method`, `tool`, `inputs`, `outputs`, `is_error`, `texts`, `reasoning`,
//! `session`, `metadata` (of the session), `agent`, `user`, `caller`, `capability`, `turn`, `step` and `params`
//! (the whole message). Texts that a message does not have are empty; a member of `inputs` that is
//! not there is an error, so ask `has(inputs.city)` first. A condition that fails at a message
//! denies it with the reason `policy_error`.
//!
//! A rule with `limit` counts the messages that it is about, and applies to those beyond the limit.
//! What is denied in the end is not counted. `spend` is CEL like a condition, and gives a number.
//! Counts are `per` session unless it says user (with the caller), agent, capability, tool or all, and look back
//! `within` a time of at most 31 days, which is what is meant without it.
//!
//! `approve` denies with the reason `approval_required` and an id, until a person has agreed to
//! exactly this: the same tool, inputs, capability, agent, user and caller. Then the same message is allowed,
//! once, within the time that `approval` says, else an hour.
//!
//! `capability.preview` is true when somebody plans a run of the A2S executor and only wants to know
//! what would be said: nothing is executed then, whatever the answer, `capability.run` is empty, and
//! a run asks again. The record in the log has it. A preview uses nothing up and asks nobody. That it
//! is one is what the agent says, so it is not believed any further than it has to be: what an
//! execution would use up, of a limit or of an approval, is never allowed to a preview. It is denied
//! with the reason `preview_only`, and `data.preview` says what would be decided. So what is allowed
//! to a preview is allowed to any number of executions, and nobody gains by the mark.
//!
//! A path names a place in the part that the hook covers: for a tool call a dotted input such as
//! `body.city`; for results, memory and messages a place in each text that is JSON. Patterns are
//! searched in every text, in keys too, and in numbers.

mod approval;
mod expression;
mod format;
mod message_facts;
mod path;
mod policy_state;
mod rate_limit;
mod redact_and_set;
mod redaction;
mod request_facts;
mod rule;

use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aos::message::{Answer, Call, Decision, Object, Request};
use data_encoding::HEXLOWER;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use approval::Wanted;
use format::DefaultWord;
use message_facts::{Facts, Names};
use policy_state::Standing;
use rate_limit::Limit;
use redact_and_set::Modification;
use rule::{Effect, Rule};

pub use approval::{Approval, ApprovalDecision, ApprovalState};
pub(crate) use format::{MAX_BYTES, Place, method_of, read_duration, read_yaml};
pub use format::{PolicyError, PolicyErrors};
pub(crate) use message_facts::{caller_of, texts, tool_of, user_of};
pub(crate) use policy_state::{ApprovalTrace, Charge, Kept, Memory, Traces};
pub(crate) use redact_and_set::Opened;

/// Rules that were checked.
#[derive(Debug)]
pub struct Policy {
    default: DefaultWord,
    rules: Vec<Rule>,
    /// Every redaction of every rule, for records.
    redactions: Modification,
    digest: String,
}

/// A decision, and the rules that made it.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyDecision {
    /// The answer to give.
    pub answer: Answer,
    /// The ids of the rules that applied, in order.
    pub rules: Vec<String>,
    /// Those of them that would have changed the message, and found nothing to change.
    pub(crate) idle: Vec<String>,
    /// What the decision leaves behind.
    pub(crate) traces: Traces,
}

impl PolicyDecision {
    /// Whether another comes to the same: the same decision, and the same message where it is changed.
    pub(crate) fn decides_like(&self, other: &Self) -> bool {
        match (&self.answer.decision, &other.answer.decision) {
            (Decision::Modify(mine), Decision::Modify(theirs)) => mine.call == theirs.call,
            (mine, theirs) => mine.as_str() == theirs.as_str(),
        }
    }
}

impl Policy {
    /// Read a policy file.
    ///
    /// # Errors
    /// Every fault that was found, with its line.
    pub fn parse(text: &str) -> Result<Self, PolicyErrors> {
        let (default, rules) = format::read(text)?;
        let redactions = rules.iter().filter_map(|rule| match &rule.effect {
            Effect::Modify(modification) => Some(modification.redact.clone()),
            Effect::Allow | Effect::Deny | Effect::Approve { .. } => None,
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

    /// The ids of the rules that depend on the user of a message.
    pub fn rules_by_user(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().filter(|rule| rule.is_by_user()).map(|rule| rule.id.as_str())
    }

    /// Decide on a message as if none had been before it. The same message always gets the same
    /// decision; only rules with a limit and those that ask a person look back.
    pub fn decide(&self, request: &Request) -> PolicyDecision {
        let mut opened = Opened::default();
        self.decide_within(request, &mut opened, &Mutex::default(), Timestamp::UNIX_EPOCH)
    }

    /// Decide on a message with what is remembered of those before it. What is read of its texts is
    /// in `opened`.
    pub(crate) fn decide_within(
        &self,
        request: &Request,
        opened: &mut Opened,
        memory: &Mutex<Memory>,
        now: Timestamp,
    ) -> PolicyDecision {
        let mut judging = Judging {
            memory,
            now,
            is_preview: message_facts::is_preview(&request.call),
            applied: Applied::default(),
        };
        let mut ruling = judging.judge(self, request, opened);
        if ruling.answer.decision == Decision::Deny {
            let charges = std::mem::take(&mut ruling.traces.charges);
            judging.remember().undo(&Traces { charges, approval: None });
        }
        ruling
    }

    /// The message with everything redacted that any rule redacts anywhere.
    pub(crate) fn redact<'c>(&self, call: &'c Call, opened: &mut Opened) -> Cow<'c, Call> {
        let mut call = Cow::Borrowed(call);
        if !self.redactions.redact.is_empty() {
            self.redactions.apply(&mut call, opened);
        }
        call
    }
}

/// One message on its way through the rules.
struct Judging<'a> {
    memory: &'a Mutex<Memory>,
    now: Timestamp,
    is_preview: bool,
    applied: Applied,
}

impl Judging<'_> {
    fn remember(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn judge(&mut self, policy: &Policy, request: &Request, opened: &mut Opened) -> PolicyDecision {
        let mut call = Cow::Borrowed(&request.call);
        let mut facts = Facts::of(&call);
        for rule in &policy.rules {
            match self.applies(rule, &mut facts) {
                Ok(false) => continue,
                Ok(true) => {}
                Err(reason) => return self.applied.fail(rule, &reason),
            }
            self.applied.rules.push(rule.id.clone());
            match &rule.effect {
                Effect::Deny => return self.applied.deny(rule),
                Effect::Allow => {
                    self.applied.explain(rule);
                    break;
                }
                Effect::Approve { .. } if rule.is_by_user() && !facts.names().has_user() => {
                    return self.applied.refuse_without_user(rule);
                }
                Effect::Approve { within } => match self.ask_person(rule, *within, &call) {
                    Ok(()) => {
                        self.applied.explain(rule);
                        break;
                    }
                    Err(ruling) => return *ruling,
                },
                Effect::Modify(modification) => {
                    if let Some(changed) = modification.changed(&call, opened) {
                        drop(facts);
                        changed.put_into(call.to_mut());
                        facts = Facts::of(&call);
                        self.applied.is_changed = true;
                        self.applied.explain(rule);
                    } else {
                        self.applied.idle.push(rule.id.clone());
                    }
                }
            }
        }
        drop(facts);
        if self.applied.rules.is_empty() && policy.default == DefaultWord::Deny {
            let codes = vec!["default_deny".to_owned()];
            let message = "No rule allows this, and the policy denies what no rule is about.";
            return self.applied.refuse(codes, message.to_owned(), []);
        }
        self.applied.go_on(request, call)
    }

    fn applies(&mut self, rule: &Rule, facts: &mut Facts<'_>) -> Result<bool, String> {
        if !rule.is_about(facts)? {
            return Ok(false);
        }
        let Some(limit) = &rule.limit else { return Ok(true) };
        self.is_beyond(limit, &rule.id, facts)
    }

    /// Whether a message goes beyond a limit. If it does not, it is counted.
    fn is_beyond(
        &mut self,
        limit: &Limit,
        rule: &str,
        facts: &mut Facts<'_>,
    ) -> Result<bool, String> {
        let charge = limit.charge(rule, facts)?;
        if self.is_preview {
            let fits = self.remember().would_fit(&charge, limit.most, limit.within, self.now);
            if fits {
                self.applied.would_use(format!("the rule {rule} would count it"));
            }
            return Ok(!fits);
        }
        let fits = self.remember().take(&charge, limit.most, limit.within, self.now)?;
        if fits {
            self.applied.traces.charges.push(charge);
        }
        Ok(!fits)
    }

    /// Whether a person has agreed to this, or how it is denied.
    fn ask_person(
        &mut self,
        rule: &Rule,
        within: SignedDuration,
        call: &Call,
    ) -> Result<(), Box<PolicyDecision>> {
        let wanted = Wanted::of(&rule.id, call, within);
        let words = rule.message.clone().unwrap_or_else(|| "A person has to approve this.".into());
        let required = vec!["approval_required".to_owned()];
        if self.is_preview {
            let state = self.remember().would_stand(&wanted, self.now).map(|known| known.state);
            return match state {
                Some(ApprovalState::Approved | ApprovalState::Used) => {
                    self.applied
                        .would_use("the approval of a person would be used by it".to_owned());
                    Ok(())
                }
                Some(ApprovalState::Rejected) => Err(self.applied.reject(&words, [])),
                Some(ApprovalState::Waiting | ApprovalState::Expired) | None => {
                    Err(Box::new(self.applied.refuse(required, words, [])))
                }
            };
        }
        let standing = self.remember().stand(wanted, self.now);
        match standing {
            Standing::Used(trace) => {
                self.applied.traces.approval = Some(trace);
                Ok(())
            }
            Standing::Waiting(approval, trace) => {
                self.applied.traces.approval = Some(trace);
                let Approval { id, expires_at: until, .. } = &approval;
                let message = format!("{words} It waits for the approval {id} until {until:.0}.");
                let data = [
                    ("approval_id", json!(id)),
                    ("approval_until", json!(until)),
                    ("approval", data_of(&approval)),
                ];
                Err(Box::new(self.applied.refuse(required, message, data)))
            }
            Standing::Rejected(approval) => {
                let id = approval.id.clone();
                self.applied.traces.approval = Some(ApprovalTrace::Known { id });
                let data = [("approval_id", json!(approval.id)), ("approval", data_of(&approval))];
                Err(self.applied.reject(&words, data))
            }
            Standing::Full => {
                let message =
                    format!("{words} So many approvals wait already that no person can be asked.");
                let codes = vec!["approvals_full".to_owned()];
                Err(Box::new(self.applied.refuse(codes, message, [])))
            }
            Standing::QuotaReached(most) => {
                let who = match Names::of(call).has_user() {
                    true => "this user",
                    false => "those who state no user",
                };
                let message = format!(
                    "{words} {most} approvals wait for {who} already; wait until some are decided."
                );
                let codes = vec!["approvals_quota".to_owned()];
                Err(Box::new(self.applied.refuse(codes, message, [])))
            }
        }
    }
}

/// What has happened to a message so far.
#[derive(Default)]
struct Applied {
    rules: Vec<String>,
    /// Rules that would have changed the message, and found nothing to change.
    idle: Vec<String>,
    is_changed: bool,
    messages: Vec<String>,
    reason_codes: Vec<String>,
    /// What an execution would use up, and a preview may not: see [`Applied::go_on`].
    would_use: Vec<String>,
    traces: Traces,
}

impl Applied {
    fn explain(&mut self, rule: &Rule) {
        self.messages.extend(rule.message.clone());
        self.reason_codes.extend(rule.reason_codes.iter().cloned());
    }

    fn go_on(&mut self, request: &Request, call: Cow<'_, Call>) -> PolicyDecision {
        let (decision, message) = if self.is_changed {
            let changed = Request { id: request.id.clone(), call: call.into_owned() };
            (Decision::Modify(Box::new(changed)), "Changed by policy.")
        } else {
            (Decision::Allow, "Allowed by policy.")
        };
        if !self.would_use.is_empty() {
            return self.withhold(&decision);
        }
        let message =
            if self.messages.is_empty() { message.to_owned() } else { self.messages.join(" ") };
        let reason_codes = std::mem::take(&mut self.reason_codes);
        self.rule(decision, message, reason_codes, [])
    }

    /// What a preview is told instead of a yes that would be worth something: an agent that calls a
    /// step a preview and takes it all the same would get around every limit and approval.
    fn withhold(&mut self, would: &Decision) -> PolicyDecision {
        let what = if self.is_changed { "changed and allowed" } else { "allowed" };
        let uses = std::mem::take(&mut self.would_use).join(", and ");
        let message = format!("This is only a preview. It would be {what} now, and {uses}.");
        let data = [("preview", json!(would.as_str()))];
        self.refuse(vec!["preview_only".to_owned()], message, data)
    }

    fn would_use(&mut self, what: String) {
        self.would_use.push(what);
    }

    /// A denial has its own reasons only, and always at least one.
    fn deny(&mut self, rule: &Rule) -> PolicyDecision {
        let message =
            rule.message.clone().unwrap_or_else(|| format!("Denied by the rule {}.", rule.id));
        let reason_codes = if rule.reason_codes.is_empty() {
            vec![rule.id.clone()]
        } else {
            rule.reason_codes.clone()
        };
        self.refuse(reason_codes, message, [])
    }

    /// A rule that asks a person about some users can neither be passed over without knowing the
    /// user, nor be granted.
    fn refuse_without_user(&mut self, rule: &Rule) -> PolicyDecision {
        let codes = vec!["user_unknown".to_owned()];
        let id = &rule.id;
        let message = format!("The rule {id} depends on the user, and the message states none.");
        self.refuse(codes, message, [])
    }

    fn fail(&mut self, rule: &Rule, reason: &str) -> PolicyDecision {
        self.rules.push(rule.id.clone());
        let codes = vec!["policy_error".to_owned()];
        let field = if reason == policy_state::FULL { "limit" } else { "condition" };
        let message = format!("The {field} of the rule {} failed: {reason}.", rule.id);
        self.refuse(codes, message, [])
    }

    fn reject(
        &mut self,
        words: &str,
        data: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Box<PolicyDecision> {
        let codes = vec!["approval_rejected".to_owned()];
        Box::new(self.refuse(codes, format!("{words} A person has rejected it."), data))
    }

    fn refuse(
        &mut self,
        reason_codes: Vec<String>,
        message: String,
        data: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> PolicyDecision {
        self.rule(Decision::Deny, message, reason_codes, data)
    }

    fn rule(
        &mut self,
        decision: Decision,
        message: String,
        reason_codes: Vec<String>,
        more: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> PolicyDecision {
        let rules = std::mem::take(&mut self.rules);
        let mut data = Object::new();
        if !rules.is_empty() {
            data.insert("rules".to_owned(), rules.clone().into());
        }
        data.extend(more.into_iter().map(|(name, value)| (name.to_owned(), value)));
        let data = Some(data).filter(|data| !data.is_empty());
        let answer = Answer { reason_codes, data, ..Answer::new(decision, message) };
        let (idle, traces) = (std::mem::take(&mut self.idle), std::mem::take(&mut self.traces));
        PolicyDecision { answer, rules, idle, traces }
    }
}

/// What an agent learns of an approval that it waits for.
fn data_of(approval: &Approval) -> Value {
    let status = approval.state.status();
    json!({"id": approval.id, "status": status, "expiresAt": approval.expires_at})
}

/// `sha256:` and lowercase hex.
fn digest_of(text: &str) -> String {
    format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(text)))
}
