//! Policy tests: cases of requests, each with the expected decision of the rules.
//!
//! ```yaml
//! cases:
//!   - name: small amounts pass
//!     request: {tool: bank.pay, inputs: {body: {amount: 20}}, user: ada@example.org}
//!     expect: allow
//!   - name: large ones wait for a person, once
//!     steps:
//!       - request: {tool: bank.pay, inputs: {body: {amount: 900}}}
//!         expect: {decision: deny, reason_codes: approval_required}
//!       - approve: true                  # or false: what waits is approved or rejected
//!         request: {tool: bank.pay, inputs: {body: {amount: 900}}}
//!         expect: allow
//!       - request: {tool: bank.pay, inputs: {body: {amount: 900}}}
//!         expect: deny
//!   - name: no more than ten an hour
//!     steps:
//!       - {times: 10, request: {tool: mail.send}, expect: allow}
//!       - {request: {tool: mail.send}, expect: {decision: deny, rules: ten-an-hour}}
//!       - {after: 1h, request: {tool: mail.send}, expect: allow}
//!   - name: addresses do not come back
//!     request: {hook: toolCallResult, tool: crm.find, outputs: ["to ada@example.org"]}
//!     expect: {decision: modify, outputs: ["to [redacted]"]}
//! ```
//!
//! Every case begins without counts and approvals. A request is a tool call unless `hook` names another
//! hook; members that it does not state have default values. `aos` takes a complete message in place of
//! everything else. Members that `expect` does not state may have any value.

mod request;
mod text;

use std::collections::BTreeMap;
use std::sync::Mutex;

use aos::message::{ContentPart, DataContent, Decision, MethodCall, Request};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::policy::{
    ApprovalDecision, ApprovalEffect, ApprovalSettlement, FilePosition, ParsedTexts, Policy,
    PolicyDecision, PolicyError, PolicyErrors, PolicyState, read_yaml, texts, user_of,
};
use text::{CaseFileText, CaseText, ExpectText, StepText};

/// The maximum length of a file of test cases, in bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// The maximum number of times that one step is repeated.
const MAX_TIMES: u32 = 10_000;

/// The test cases of a policy, parsed from a file.
#[derive(Debug)]
pub struct PolicyTestSuite(Vec<PolicyTestCase>);

/// A test case.
#[derive(Debug)]
struct PolicyTestCase {
    name: String,
    steps: Vec<TestStep>,
}

/// A step of a test case.
#[derive(Debug)]
struct TestStep {
    /// The time after the step before it.
    after: jiff::SignedDuration,
    /// The decision on the approval that waits for a person.
    approve: Option<bool>,
    times: u32,
    request: Request,
    expect: ExpectText,
}

/// The result of one case.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseResult {
    /// The name of the case.
    pub name: String,
    /// The differences from the expected decision; empty if the case passed.
    pub differences: Vec<ExpectationMismatch>,
}

/// A difference between the expected and the actual decision.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpectationMismatch {
    /// The step, counted from 1.
    pub step: usize,
    /// The member that differs: `decision`, `reason_codes`, `rules`, `message`, `inputs`, `outputs`,
    /// `texts`.
    pub what: &'static str,
    /// The expected value.
    pub expected: Value,
    /// The actual value.
    pub found: Value,
    /// The message of the policy for the step.
    pub message: String,
}

impl CaseResult {
    /// Returns true when everything is as expected.
    pub fn has_passed(&self) -> bool {
        self.differences.is_empty()
    }
}

impl PolicyTestSuite {
    /// Parses a file of test cases.
    ///
    /// # Errors
    /// When the text is not YAML, or has an unknown field or an invalid request.
    pub fn parse(text: &str) -> Result<Self, PolicyErrors> {
        let file: CaseFileText = read_yaml(text, MAX_BYTES)?;
        let mut faults = Vec::new();
        let cases = file.cases.into_iter().filter_map(|case| read_case(case, &mut faults));
        let cases: Vec<_> = cases.collect();
        if faults.is_empty() { Ok(Self(cases)) } else { Err(PolicyErrors(faults)) }
    }

    /// The number of cases.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true when there are no cases.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true when a case states the user that the agent acts for.
    pub fn has_user(&self) -> bool {
        let mut requests = self.0.iter().flat_map(|case| &case.steps).map(|step| &step.request);
        requests.any(|request| user_of(&request.call).is_some())
    }

    /// Runs the cases that have `filter` in their name, in order.
    pub fn run<'a>(
        &'a self,
        policy: &'a Policy,
        filter: Option<&'a str>,
    ) -> impl Iterator<Item = CaseResult> + 'a {
        let filter = filter.map(str::to_lowercase);
        let is_wanted = move |case: &&PolicyTestCase| {
            filter.as_ref().is_none_or(|filter| case.name.to_lowercase().contains(filter))
        };
        self.0.iter().filter(is_wanted).map(|case| case.run(policy))
    }
}

fn read_case(text: CaseText, faults: &mut Vec<PolicyError>) -> Option<PolicyTestCase> {
    let place = FilePosition::from_spanned(&text.name);
    let name = text.name.value;
    let mut fault = |message: String| {
        faults.push(PolicyError::new(place, format!("case {name:?}: {message}")));
    };
    let steps = match (text.request, text.expect, text.steps) {
        (Some(request), Some(expect), None) => {
            vec![StepText { after: None, approve: None, times: None, request, expect }]
        }
        (None, None, Some(steps)) if !steps.is_empty() => steps,
        _ => {
            fault("needs either request and expect, or steps".to_owned());
            return None;
        }
    };
    let mut read = Vec::new();
    for (place, step) in steps.into_iter().enumerate() {
        let step_fault = |message: String| format!("step {}: {message}", place + 1);
        let after = step.after.as_deref().map(crate::policy::read_duration).transpose();
        let times = step.times.unwrap_or(1);
        if !(1..=MAX_TIMES).contains(&times) {
            fault(step_fault(format!("times is not from 1 to {MAX_TIMES}")));
        }
        match (after, request::build_message(&step.request)) {
            (Ok(after), Ok(request)) => read.push(TestStep {
                after: after.unwrap_or_default(),
                approve: step.approve,
                times,
                request,
                expect: step.expect,
            }),
            (Err(message), _) => fault(step_fault(format!("after {message}"))),
            (_, Err(message)) => fault(step_fault(message)),
        }
    }
    Some(PolicyTestCase { name, steps: read })
}

impl PolicyTestCase {
    fn run(&self, policy: &Policy) -> CaseResult {
        let memory = Mutex::<PolicyState>::default();
        let mut now = Timestamp::UNIX_EPOCH;
        let mut differences = Vec::new();
        let mut waiting: Option<String> = None;
        let mut executions = 0;
        // A request that needs an approval waits: the same request again is the same execution.
        let mut pending: Vec<(&Request, u32)> = Vec::new();
        for (place, step) in self.steps.iter().enumerate() {
            now = now.saturating_add(step.after).unwrap_or(Timestamp::MAX);
            if let Some(is_approved) = step.approve {
                let decided = ApprovalDecision { is_approved, decided_by: None, reason: None };
                let mut memory = memory.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                match waiting.take().and_then(|id| memory.settle_approval(&id, &decided, now)) {
                    Some(ApprovalSettlement::Decided(approval)) => memory.set_approval(approval),
                    _ => differences.push(ExpectationMismatch {
                        step: place + 1,
                        what: "approve",
                        expected: "something that waits for a person".into(),
                        found: Value::Null,
                        message: String::new(),
                    }),
                }
            }
            for _ in 0..step.times {
                let is_same = |(request, _): &&(&Request, u32)| **request == step.request;
                let execution = pending.iter().find(is_same).map(|(_, number)| *number);
                let execution = execution.unwrap_or_else(|| {
                    executions += 1;
                    executions
                });
                let request = request::with_execution_id(&step.request, execution);
                let ruling =
                    policy.decide_within(&request, &mut ParsedTexts::default(), &memory, now);
                match &ruling.effects.approval {
                    Some(ApprovalEffect::Asked(asked)) => {
                        waiting = Some(asked.id.clone());
                        pending.push((&step.request, execution));
                    }
                    Some(ApprovalEffect::Used { .. }) => {
                        pending.retain(|(_, number)| *number != execution);
                    }
                    Some(ApprovalEffect::Known { .. }) | None => {}
                }
                let before = differences.len();
                step.expect.compare(place + 1, &request, &ruling, &mut differences);
                // One of several equal mismatches is enough.
                if before < differences.len() {
                    break;
                }
            }
        }
        CaseResult { name: self.name.clone(), differences }
    }
}

impl ExpectText {
    fn compare(
        &self,
        step: usize,
        request: &Request,
        ruling: &PolicyDecision,
        differences: &mut Vec<ExpectationMismatch>,
    ) {
        let answer = &ruling.response;
        let message = answer.message.clone();
        let mut check = |what, expected: Option<Value>, found: Value| {
            let Some(expected) = expected.filter(|expected| *expected != found) else { return };
            let message = message.clone();
            differences.push(ExpectationMismatch { step, what, expected, found, message });
        };
        let left = match &answer.decision {
            Decision::Modify(modified) => &modified.call,
            Decision::Allow | Decision::Deny => &request.call,
        };
        check("decision", Some(self.decision.as_str().into()), answer.decision.as_str().into());
        let listed = |list: &Option<text::OneOrMany>| list.as_ref().map(|list| json!(list.texts()));
        check("reason_codes", listed(&self.reason_codes), json!(answer.reason_codes));
        // A rule that found nothing to change may be named, and need not be.
        let expected = self.rules.as_ref().map(text::OneOrMany::texts).unwrap_or_default();
        let is_meant = |rule: &&String| expected.contains(*rule) || !ruling.idle.contains(*rule);
        let rules: Vec<_> = ruling.rules.iter().filter(is_meant).collect();
        check("rules", listed(&self.rules), json!(rules));
        if let Some(part) = self.message.as_ref().filter(|part| !answer.message.contains(*part)) {
            check("message", Some(part.as_str().into()), answer.message.clone().into());
        }
        check("inputs", self.inputs.clone().map(Value::Object), inputs_of(left));
        check("outputs", self.outputs.as_ref().map(|texts| json!(texts)), texts_of(left));
        check("texts", self.texts.as_ref().map(|texts| json!(texts)), texts_of(left));
    }
}

/// Returns the inputs of a tool call, by name.
fn inputs_of(call: &MethodCall) -> Value {
    match call {
        MethodCall::ToolCallRequest(step) => {
            let inputs = step.tool_call_request.inputs.iter();
            inputs
                .map(|input| (input.name.clone(), input.value.clone()))
                .collect::<BTreeMap<_, _>>()
        }
        _ => BTreeMap::new(),
    }
    .into_iter()
    .collect::<serde_json::Map<_, _>>()
    .into()
}

/// Returns the texts that a hook covers. Data becomes its JSON.
fn texts_of(call: &MethodCall) -> Value {
    let of_part = |part: &ContentPart| match part {
        ContentPart::Text(part) => Value::from(part.text.clone()),
        ContentPart::Data(part) => match &part.data {
            DataContent::Object(object) => Value::Object(object.clone()).to_string().into(),
            DataContent::Array(items) => Value::Array(items.clone()).to_string().into(),
        },
        ContentPart::File(_) => Value::Null,
    };
    match call {
        MethodCall::ToolCallResult(step) => {
            step.result.outputs.iter().map(|part| Value::from(part.text.clone())).collect()
        }
        MethodCall::Message(step) => step.message.content.iter().map(of_part).collect(),
        MethodCall::AgentTrigger(step) => step.trigger.content.iter().map(of_part).collect(),
        MethodCall::KnowledgeRetrieval(step) => {
            step.knowledge_step.results.iter().map(|r| Value::from(r.content.clone())).collect()
        }
        MethodCall::MemoryStore(step) | MethodCall::MemoryContextRetrieval(step) => {
            json!(step.memory)
        }
        MethodCall::Mcp(step) => json!([Value::Object(step.message.clone()).to_string()]),
        MethodCall::A2a(..) => json!(texts(call)),
        MethodCall::ToolCallRequest(_) | MethodCall::Ping(_) => json!([]),
    }
}
