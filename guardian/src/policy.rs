//! Policy: rules that decide on messages. Pure: no clock, no file, no network.
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
//! The guardian checks the rules in order. A rule applies if its hook, its names, its condition and its
//! limit match. The first `allow`, `deny` or `approve` that applies decides. A `modify` changes the
//! message, and the following rules see the changed message: so a redaction never hides a message from the
//! denials after it, and several redactions add up. If no rule applies, `default` decides; if only
//! modifications apply, the message continues as they left it.
//!
//! A rule with `tool` matches messages that name a tool: tool calls, results that carry `toolId` (the A2S
//! executor sends it), and MCP `tools/call`. A rule with `capability` or `host` matches messages of the A2S
//! executor, which states both. A message that does not state a name does not match a rule that asks for
//! it.
//!
//! `user` is the id or the e-mail address of the user, `context.user.id` or `context.user.email`. When a
//! token acts for an end user, the end user is the `user` and the token is the `caller`: a rule that
//! denies, changes or asks a person applies if either matches, a rule that allows only by the user. For the
//! former, case and a dot at the end do not count. The user of a message without one is unknown; a rule by
//! user that would ask a person denies such a message with the reason `user_unknown`. A rule with a condition
//! that reads `user` or `caller` is a rule by user, too.
//!
//! A fact that the message hides or does not state is unknown (`unknown_facts.rs`). A rule whose result is
//! unknown applies if it denies, asks or changes, and not if it allows. One that asks or changes does not
//! replace a denial by a later rule or by `default`. Once a rule has changed a request, the request that the
//! message shows is stale. If the agent states `asksAgain`, a rule that needs the request or asks a person
//! waits for the next round, and the decision is `modify`; otherwise the request is unknown.
//!
//! A condition is CEL over `method`, `tool`, `inputs`, `outputs`, `is_error`, `texts`, `reasoning`,
//! `session`, `metadata` (of the session), `agent`, `user`, `caller`, `capability`, `turn`, `step` and
//! `params` (the whole message). Texts that a message does not have are empty; a missing member of `inputs`
//! is an error, so ask `has(inputs.city)` first. A condition that fails at a message denies it with the
//! reason `policy_error`.
//!
//! A rule with `limit` counts the messages that it matches, and applies to those beyond the limit. A
//! message that is denied in the end is not counted. `spend` is CEL like a condition, and returns a number.
//! Counts are `per` session unless it says user (with the caller), caller, agent, capability, tool or all,
//! and look back `within` a time of at most 31 days, which is the default.
//!
//! `approve` denies with the reason `approval_required` and an id, until a person has agreed to exactly
//! this: the same tool, inputs, capability, agent, user and caller. Then the same message is allowed, once,
//! within the time of `approval`, by default an hour.
//!
//! `capability.preview` is true when a client plans a run of the A2S executor and only asks for the
//! decision: nothing is executed then, whatever the response, `capability.run` is empty, and a run asks
//! again. The record in the log has it. A preview uses up nothing and asks no person. Only the agent states
//! that a message is a preview, so the guardian relies on it as little as possible: if an execution would
//! use up part of a limit or an approval, the preview is never allowed. It is denied with the reason
//! `preview_only`, and `data.preview` has the decision that an execution would get. So everything that a
//! preview is allowed, any number of executions is allowed, too, and the mark gives no advantage.
//!
//! A path names a location in the part that the hook covers: for a tool call a dotted input such as
//! `body.city`; for results, memory and messages a location in each text that is JSON. Patterns are
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
mod round_credits;
mod rule;
mod unknown_facts;

use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aos::message::{Decision, DecisionResponse, MethodCall, Object, Request};
use data_encoding::HEXLOWER;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use approval::{ApprovalQuota, ApprovalRequest};
use format::DefaultDecision;
use message_facts::MessageFacts;
use policy_state::ApprovalCheck;
use rate_limit::RateLimit;
use redact_and_set::{Modification, Redaction};
use round_credits::RoundCredit;
use rule::{PolicyRule, RuleEffect};
use unknown_facts::{Truth, UnknownFacts};

pub(crate) use approval::ApprovalSettlement;
pub use approval::{Approval, ApprovalDecision, ApprovalState};
pub(crate) use format::{FilePosition, MAX_BYTES, parse_hook, read_duration, read_yaml};
pub use format::{PolicyError, PolicyErrors};
pub(crate) use message_facts::{caller_of, is_read_only, texts, tool_of, user_of};
pub(crate) use policy_state::{
    ApprovalEffect, PolicyState, QuotaCharge, SavedPolicyState, SideEffects,
};
pub(crate) use redact_and_set::ParsedTexts;

/// The reason code of a rule that applies, or does not allow, because a fact is unknown.
const FACT_UNKNOWN: &str = "fact_unknown";

/// A policy: rules that were parsed and checked.
#[derive(Debug)]
pub struct Policy {
    default: DefaultDecision,
    rules: Vec<PolicyRule>,
    /// Every redaction of every rule, for records.
    redactions: Modification,
    /// The text that it was parsed from.
    text: String,
    digest: String,
}

/// A decision, and the rules that made it.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyDecision {
    /// The response to the agent.
    pub response: DecisionResponse,
    /// The ids of the rules that applied, in order.
    pub rules: Vec<String>,
    /// The ids of those that would have changed the message, and found nothing to change.
    pub(crate) idle: Vec<String>,
    /// The side effects of the decision.
    pub(crate) effects: SideEffects,
    /// The changed message, if an approval is about that and not about the message itself.
    pub(crate) approved_message: Option<Box<Request>>,
}

impl PolicyDecision {
    /// Returns true for a permission that no later decision depends on: it counts for no limit, and uses and
    /// asks for no approval.
    pub(crate) fn has_no_consequence(&self) -> bool {
        let SideEffects { charges, approval } = &self.effects;
        self.response.decision == Decision::Allow && charges.is_empty() && approval.is_none()
    }

    /// Returns true when another decision has the same effect: the same decision, and for a change the same
    /// message.
    pub(crate) fn has_same_effect(&self, other: &Self) -> bool {
        match (&self.response.decision, &other.response.decision) {
            (Decision::Modify(mine), Decision::Modify(theirs)) => mine.call == theirs.call,
            (mine, theirs) => mine.as_str() == theirs.as_str(),
        }
    }
}

impl Policy {
    /// Parses the text of a policy file.
    ///
    /// # Errors
    /// All errors in the text, each with its line.
    pub fn parse(text: &str) -> Result<Self, PolicyErrors> {
        let (default, rules) = format::read_policy(text)?;
        let redactions = rules.iter().filter_map(|rule| match &rule.effect {
            RuleEffect::Modify(modification) => {
                Some(modification.redact.iter().map(Redaction::for_record))
            }
            RuleEffect::Allow | RuleEffect::Deny | RuleEffect::Approve { .. } => None,
        });
        let redactions =
            Modification { redact: redactions.flatten().collect(), ..Modification::default() };
        Ok(Self { default, rules, redactions, text: text.to_owned(), digest: digest_of(text) })
    }

    /// Creates the policy without rules that allows everything.
    pub fn allow_all() -> Self {
        let text = "version: 1\ndefault: allow\n";
        Self {
            default: DefaultDecision::Allow,
            rules: Vec::new(),
            redactions: Modification::default(),
            text: text.to_owned(),
            digest: digest_of(text),
        }
    }

    /// Returns the text of the policy.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the digest of the text of the policy, as `sha256:` and hex.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The number of its rules.
    pub fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// Returns the ids of its rules, in order.
    pub fn rule_ids(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.id.as_str())
    }

    /// Returns the ids of the rules that depend on the user of a message.
    pub fn rules_by_user(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().filter(|rule| rule.depends_on_user()).map(|rule| rule.id.as_str())
    }

    /// Decides on a message as if there were no earlier messages. The same message always gets the same
    /// decision. Only rules with a limit and rules that ask a person depend on earlier messages.
    pub fn decide(&self, request: &Request) -> PolicyDecision {
        let mut opened = ParsedTexts::default();
        self.decide_within(request, &mut opened, &Mutex::default(), Timestamp::UNIX_EPOCH)
    }

    /// Decides on a message with the state that earlier messages left. `opened` has the parsed texts of the
    /// message.
    pub(crate) fn decide_within(
        &self,
        request: &Request,
        opened: &mut ParsedTexts,
        memory: &Mutex<PolicyState>,
        now: Timestamp,
    ) -> PolicyDecision {
        let mut judging = Evaluation {
            memory,
            now,
            is_preview: message_facts::is_preview(&request.call),
            asks_again: message_facts::asks_again(&request.call),
            credit: None,
            state: EvaluationState::default(),
        };
        let execution = judging.take_credit(&request.call);
        let mut ruling = judging.evaluate(self, request, opened);
        let mut state = judging.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let is_allowed = ruling.response.decision == Decision::Allow;
        // A denied message is not counted, and a changed one when the agent asks about it again.
        if ruling.response.decision == Decision::Deny || (judging.asks_again && !is_allowed) {
            let charges = std::mem::take(&mut ruling.effects.charges);
            state.undo_effects(&SideEffects { charges, approval: None });
            state.credits.restore(judging.credit);
        } else if let Some(execution) = execution.filter(|_| judging.asks_again) {
            state.credits.store(execution, judging.credit, &ruling.effects.charges);
        }
        drop(state);
        ruling
    }

    /// Returns the message with every redaction of every rule applied.
    pub(crate) fn redact<'c>(
        &self,
        call: &'c MethodCall,
        opened: &mut ParsedTexts,
    ) -> Cow<'c, MethodCall> {
        let mut call = Cow::Borrowed(call);
        if !self.redactions.redact.is_empty() {
            self.redactions.apply(&mut call, opened);
        }
        call
    }
}

/// The evaluation of one message by the rules.
struct Evaluation<'a> {
    memory: &'a Mutex<PolicyState>,
    now: Timestamp,
    is_preview: bool,
    /// Set when the agent asks about the request again that a change leads to.
    asks_again: bool,
    /// The charges of the execution in an earlier round of this step.
    credit: Option<RoundCredit>,
    state: EvaluationState,
}

impl Evaluation<'_> {
    fn lock_state(&self) -> MutexGuard<'_, PolicyState> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what the execution of a message has paid in an earlier round. Returns the execution, if its
    /// charges can count for a later one.
    fn take_credit(&mut self, call: &MethodCall) -> Option<String> {
        let execution = approval::execution_of(call).filter(|_| !self.is_preview)?;
        let execution = format!("{} {execution}", call.method());
        let credit = self.lock_state().credits.take(&execution);
        self.credit = credit;
        Some(execution)
    }

    fn evaluate(
        &mut self,
        policy: &Policy,
        request: &Request,
        opened: &mut ParsedTexts,
    ) -> PolicyDecision {
        let mut call = Cow::Borrowed(&request.call);
        let mut unknown = UnknownFacts::from_call(&call);
        let mut facts = MessageFacts::new(&call, &unknown);
        // The first rule that would ask a person if a fact were known. A rule after it may deny all the same.
        let mut pending = None;
        for rule in &policy.rules {
            let truth = match self.rule_applies(rule, &mut facts) {
                Ok(Truth::False) => continue,
                Ok(truth) => truth,
                Err(reason) => return self.state.deny_failed_rule(rule, &reason),
            };
            if self.is_for_next_round(rule, &truth) {
                break;
            }
            let fact = match &truth {
                Truth::Unknown(fact) if unknown.is_absent_user(fact) => Some(""),
                Truth::Unknown(fact) => Some(fact.as_str()),
                Truth::True | Truth::False => None,
            };
            match &rule.effect {
                RuleEffect::Deny => return self.state.deny(rule, fact),
                RuleEffect::Allow => match fact {
                    Some(fact) => self.state.skip(rule, fact),
                    None => {
                        self.state.apply(rule, None);
                        self.state.add_reasons(rule);
                        break;
                    }
                },
                RuleEffect::Approve { .. }
                    if rule.depends_on_user() && !facts.names().has_user() =>
                {
                    return self.state.deny_unknown_user(rule);
                }
                RuleEffect::Approve { within } => {
                    let is_certain = fact.is_none();
                    let fact = fact.map(str::to_owned);
                    pending.get_or_insert(PendingApproval { rule, within: *within, fact });
                    if is_certain {
                        self.state.is_decided = true;
                        break;
                    }
                }
                RuleEffect::Modify(modification) => {
                    let changed = modification.modified_part(&call, opened, &unknown);
                    let noted = if changed.is_some() { fact } else { fact.map(|_| "") };
                    self.state.apply(rule, noted);
                    let Some(changed) = changed else {
                        self.state.idle.push(rule.id.clone());
                        continue;
                    };
                    drop(facts);
                    changed.put_into(call.to_mut());
                    unknown = unknown.after_change(&call, modification.known_paths());
                    facts = MessageFacts::new(&call, &unknown);
                    self.state.is_changed = true;
                    self.state.add_reasons(rule);
                }
            }
        }
        drop(facts);
        self.conclude(policy, request, call, pending)
    }

    /// Returns the decision after the rules.
    fn conclude(
        &mut self,
        policy: &Policy,
        request: &Request,
        call: Cow<'_, MethodCall>,
        pending: Option<PendingApproval<'_>>,
    ) -> PolicyDecision {
        let waits_for_next = self.state.is_changed
            && self.asks_again
            && (self.state.is_stopped || pending.is_some());
        if waits_for_next {
            return self.state.finish(request, call);
        }
        if !self.state.is_decided && policy.default == DefaultDecision::Deny {
            let codes = vec!["default_deny".to_owned()];
            let message = "No rule allows this, and the default of the policy is to deny.";
            self.state.unknown = self.state.skipped.take();
            return self.state.deny_with(codes, message.to_owned(), []);
        }
        if let Some(PendingApproval { rule, within, fact }) = pending {
            self.state.apply(rule, fact.as_deref());
            if let Err(ruling) = self.check_approval(rule, within, request, &call) {
                return *ruling;
            }
            self.state.add_reasons(rule);
        }
        self.state.finish(request, call)
    }

    /// Returns true when a rule can decide only about the request that the changes lead to, which the agent
    /// will show: the rule asks a person, or its result depends on the request.
    fn is_for_next_round(&mut self, rule: &PolicyRule, truth: &Truth) -> bool {
        let is_for_next = self.state.is_changed
            && self.asks_again
            && match (truth, &rule.effect) {
                (Truth::False, _) => false,
                (_, RuleEffect::Approve { .. }) => true,
                (truth, _) => *truth != Truth::True && rule.reads_request(),
            };
        self.state.is_stopped |= is_for_next;
        is_for_next
    }

    /// Returns the result of a rule on a message. If the rule has a limit, the message is counted.
    fn rule_applies(
        &mut self,
        rule: &PolicyRule,
        facts: &mut MessageFacts<'_>,
    ) -> Result<Truth, String> {
        let truth = rule.matches_message(facts)?;
        let Some(limit) = &rule.limit else { return Ok(truth) };
        let is_counted = match &truth {
            Truth::True => true,
            Truth::False => false,
            Truth::Unknown(_) => rule.effect.is_restriction(),
        };
        if !is_counted || self.is_for_next_round(rule, &truth) {
            return Ok(truth);
        }
        Ok(truth.and(self.exceeds_limit(limit, &rule.id, facts)?))
    }

    /// Returns true when a message exceeds a limit. Otherwise the message is counted.
    fn exceeds_limit(
        &mut self,
        limit: &RateLimit,
        rule: &str,
        facts: &mut MessageFacts<'_>,
    ) -> Result<Truth, String> {
        let mut charge = match limit.compute_charge(rule, facts)? {
            Ok(charge) => charge,
            Err(fact) => return Ok(Truth::Unknown(fact)),
        };
        if self.is_preview {
            let fits = self.lock_state().has_quota_for(&charge, limit.most, limit.within, self.now);
            if fits {
                self.state.would_use(format!("the rule {rule} would count the step"));
            }
            return Ok((!fits).into());
        }
        let paid = self.credit.as_ref().map_or(0, |credit| credit.paid_for(&charge));
        charge.amount = charge.amount.saturating_sub(paid);
        if 0 < paid && charge.amount == 0 {
            return Ok(Truth::False);
        }
        let fits = self.lock_state().reserve_quota(&charge, limit.most, limit.within, self.now)?;
        if fits {
            self.state.effects.charges.push(charge);
        }
        Ok((!fits).into())
    }

    /// Returns `Ok` when a person has agreed to this, else the denial.
    fn check_approval(
        &mut self,
        rule: &PolicyRule,
        within: SignedDuration,
        request: &Request,
        call: &MethodCall,
    ) -> Result<(), Box<PolicyDecision>> {
        if self.state.is_changed {
            // The request that the message shows is not the one that the person approves.
            let mut call = call.clone();
            let context = match &mut call {
                MethodCall::ToolCallRequest(step) => Some(&mut step.context),
                MethodCall::Mcp(step) => step.context.as_mut(),
                _ => None,
            };
            if let Some(context) = context {
                context.extra.remove("request");
            }
            let changed = Request { id: request.id.clone(), call };
            self.state.approved_message = Some(Box::new(changed));
        }
        let wanted = ApprovalRequest::new(&rule.id, call, within);
        let words = rule.message.clone().unwrap_or_else(|| "A person must approve this.".into());
        let required = vec!["approval_required".to_owned()];
        if self.is_preview {
            let state = self.lock_state().find_approval(&wanted, self.now).map(|known| known.state);
            return match state {
                Some(ApprovalState::Approved | ApprovalState::Used) => {
                    self.state.would_use("the step would use the approval of a person".to_owned());
                    Ok(())
                }
                Some(ApprovalState::Rejected) => Err(self.state.deny_rejected(&words, [])),
                Some(
                    ApprovalState::Waiting | ApprovalState::Expired | ApprovalState::Withdrawn,
                )
                | None => Err(Box::new(self.state.deny_with(required, words, []))),
            };
        }
        let standing = self.lock_state().request_approval(wanted, self.now);
        match standing {
            ApprovalCheck::Used(trace) => {
                self.state.effects.approval = Some(trace);
                Ok(())
            }
            ApprovalCheck::Waiting(approval, trace) => {
                self.state.effects.approval = Some(trace);
                let Approval { id, expires_at: until, .. } = &approval;
                let message = format!("{words} The approval {id} is pending until {until:.0}.");
                let data = [
                    ("approval_id", json!(id)),
                    ("approval_until", json!(until)),
                    ("approval", approval_data(&approval)),
                ];
                Err(Box::new(self.state.deny_with(required, message, data)))
            }
            ApprovalCheck::Rejected(approval) => {
                let id = approval.id.clone();
                self.state.effects.approval = Some(ApprovalEffect::Known { id });
                let data =
                    [("approval_id", json!(approval.id)), ("approval", approval_data(&approval))];
                Err(self.state.deny_rejected(&words, data))
            }
            ApprovalCheck::Full => {
                let message = format!("{words} Too many approvals are pending; try again later.");
                let codes = vec!["approvals_full".to_owned()];
                Err(Box::new(self.state.deny_with(codes, message, [])))
            }
            ApprovalCheck::QuotaReached(ApprovalQuota { most, scope }) => {
                let message = format!(
                    "{words} {most} approvals are already pending for {scope}; wait until some are decided."
                );
                let codes = vec!["approvals_quota".to_owned()];
                Err(Box::new(self.state.deny_with(codes, message, [])))
            }
        }
    }
}

/// An approval that a rule requires, unless another rule denies the message.
struct PendingApproval<'p> {
    rule: &'p PolicyRule,
    within: SignedDuration,
    /// The unknown fact that the result of the rule depends on.
    fact: Option<String>,
}

/// The effects of the rules on a message so far.
#[derive(Default)]
struct EvaluationState {
    rules: Vec<String>,
    /// The rules that would have changed the message, but found nothing to change.
    idle: Vec<String>,
    is_changed: bool,
    /// Set when a rule has decided, and not only because a fact is unknown. Otherwise the default decides.
    is_decided: bool,
    /// Set when the remaining rules are for the next round.
    is_stopped: bool,
    /// The sentence about the unknown fact because of which a rule applies.
    unknown: Option<String>,
    /// The sentence about the unknown fact because of which a rule does not allow the message.
    skipped: Option<String>,
    approved_message: Option<Box<Request>>,
    messages: Vec<String>,
    reason_codes: Vec<String>,
    /// The limits and approvals that an execution would use up, but a preview must not: see
    /// [`EvaluationState::finish`].
    would_use: Vec<String>,
    effects: SideEffects,
}

impl EvaluationState {
    fn add_reasons(&mut self, rule: &PolicyRule) {
        self.messages.extend(rule.message.clone());
        self.reason_codes.extend(rule.reason_codes.iter().cloned());
    }

    /// Records that a rule applies, if `fact` is given because that fact is unknown.
    fn apply(&mut self, rule: &PolicyRule, fact: Option<&str>) {
        self.rules.push(rule.id.clone());
        self.is_decided |= fact.is_none();
        if let Some(fact) = fact.filter(|fact| !fact.is_empty()) {
            let id = &rule.id;
            let sentence = format!("The rule {id} applies because {fact} is hidden or not stated.");
            self.unknown.get_or_insert(sentence);
        }
    }

    /// Records that a rule does not allow the message because a fact is unknown.
    fn skip(&mut self, rule: &PolicyRule, fact: &str) {
        if !fact.is_empty() {
            let id = &rule.id;
            let sentence =
                format!("The rule {id} does not apply because {fact} is hidden or not stated.");
            self.skipped.get_or_insert(sentence);
        }
    }

    fn finish(&mut self, request: &Request, call: Cow<'_, MethodCall>) -> PolicyDecision {
        let (decision, message) = if self.is_changed {
            let changed = Request { id: request.id.clone(), call: call.into_owned() };
            (Decision::Modify(Box::new(changed)), "Changed by policy.")
        } else {
            (Decision::Allow, "Allowed by policy.")
        };
        if !self.would_use.is_empty() {
            return self.deny_preview(&decision);
        }
        let message =
            if self.messages.is_empty() { message.to_owned() } else { self.messages.join(" ") };
        let reason_codes = std::mem::take(&mut self.reason_codes);
        self.build_decision(decision, message, reason_codes, [])
    }

    /// Denies a preview when the execution would use up a limit or an approval. Otherwise an agent that
    /// marks a step as a preview and executes it all the same would bypass every limit and approval.
    fn deny_preview(&mut self, would: &Decision) -> PolicyDecision {
        let what = if self.is_changed { "changed and allowed" } else { "allowed" };
        let uses = std::mem::take(&mut self.would_use).join(", and ");
        let message = format!("This is only a preview. The step would now be {what}, and {uses}.");
        let data = [("preview", json!(would.as_str()))];
        self.deny_with(vec!["preview_only".to_owned()], message, data)
    }

    fn would_use(&mut self, what: String) {
        self.would_use.push(what);
    }

    /// Denies the message. A denial has only its own reasons, and at least one.
    fn deny(&mut self, rule: &PolicyRule, fact: Option<&str>) -> PolicyDecision {
        self.unknown = None;
        self.apply(rule, fact);
        let message =
            rule.message.clone().unwrap_or_else(|| format!("Denied by the rule {}.", rule.id));
        let reason_codes = if rule.reason_codes.is_empty() {
            vec![rule.id.clone()]
        } else {
            rule.reason_codes.clone()
        };
        self.deny_with(reason_codes, message, [])
    }

    /// Denies a message without a user, when the rule requires an approval for some users. Without a known
    /// user, such a rule can be neither skipped nor granted.
    fn deny_unknown_user(&mut self, rule: &PolicyRule) -> PolicyDecision {
        self.unknown = None;
        self.rules.push(rule.id.clone());
        let codes = vec!["user_unknown".to_owned()];
        let id = &rule.id;
        let message = format!("The rule {id} depends on the user, but the message has no user.");
        self.deny_with(codes, message, [])
    }

    fn deny_failed_rule(&mut self, rule: &PolicyRule, reason: &str) -> PolicyDecision {
        self.unknown = None;
        self.rules.push(rule.id.clone());
        let codes = vec!["policy_error".to_owned()];
        let field = if reason == policy_state::STATE_FULL { "limit" } else { "condition" };
        let message = format!("The {field} of the rule {} failed: {reason}.", rule.id);
        self.deny_with(codes, message, [])
    }

    fn deny_rejected(
        &mut self,
        words: &str,
        data: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Box<PolicyDecision> {
        let codes = vec!["approval_rejected".to_owned()];
        Box::new(self.deny_with(codes, format!("{words} A person rejected it."), data))
    }

    fn deny_with(
        &mut self,
        reason_codes: Vec<String>,
        message: String,
        data: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> PolicyDecision {
        self.build_decision(Decision::Deny, message, reason_codes, data)
    }

    fn build_decision(
        &mut self,
        decision: Decision,
        mut message: String,
        mut reason_codes: Vec<String>,
        more: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> PolicyDecision {
        if let Some(sentence) = self.unknown.take() {
            message = format!("{message} {sentence}");
            reason_codes.push(FACT_UNKNOWN.to_owned());
        }
        let rules = std::mem::take(&mut self.rules);
        let mut data = Object::new();
        if !rules.is_empty() {
            data.insert("rules".to_owned(), rules.clone().into());
        }
        data.extend(more.into_iter().map(|(name, value)| (name.to_owned(), value)));
        let data = Some(data).filter(|data| !data.is_empty());
        let answer =
            DecisionResponse { reason_codes, data, ..DecisionResponse::new(decision, message) };
        let (idle, traces) = (std::mem::take(&mut self.idle), std::mem::take(&mut self.effects));
        let approved_message = self.approved_message.take();
        PolicyDecision { response: answer, rules, idle, effects: traces, approved_message }
    }
}

/// Returns the data of an approval for the agent that waits for it.
fn approval_data(approval: &Approval) -> Value {
    let status = approval.state.status();
    json!({"id": approval.id, "status": status, "expiresAt": approval.expires_at})
}

/// Returns the digest of a text, as `sha256:` and lowercase hex.
fn digest_of(text: &str) -> String {
    format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(text)))
}
