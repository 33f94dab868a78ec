//! Every hook with every answer of a guardian, closed and open: what reaches the service, what the
//! journal and the metrics have, and what the caller gets.
//!
//! What is expected stands in two tables. [`ANSWERS`] says what an answer means in either mode, and
//! [`Verdict::meets`] what that does at a hook. Silence (a timeout, a 5xx, an answer that is no
//! JSON-RPC) is what a mode is about; what a guardian has said and cannot be followed (another id,
//! another method, more than is read) is a denial in both, because a step could bring it about.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2s_api::{DecisionRecord, DecisionSource, EventKind, GuardianPhase, RunStatus};
use axum::Router;
use axum::body::Bytes;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use serde_json::{Value, json};

use super::world::{World, allow, call, deny, events, sequence, serve, task, tool};
use crate::{App, Durability, FailMode, FailModes, GuardianConfig, GuardianHook};

/// How long a guardian that never answers is waited for.
const SHORT: Duration = Duration::from_millis(300);
/// The same where the other question at this hook has to be answered in time.
const LESS_SHORT: Duration = Duration::from_secs(3);
/// The most bytes of a response: answers of guardians may be as large as a message about it, which the
/// huge one exceeds.
const SMALL_RESPONSE: usize = 64 << 10;
/// Cells at the same time.
const AT_ONCE: usize = 6;

/// When guardians are asked: the hook, and what the record says.
type Point = (GuardianHook, GuardianPhase);

const POINTS: [Point; 7] = [
    (GuardianHook::AgentTrigger, GuardianPhase::Trigger),
    (GuardianHook::MemoryContextRetrieval, GuardianPhase::Memory),
    (GuardianHook::MemoryStore, GuardianPhase::Memory),
    (GuardianHook::ToolCallRequest, GuardianPhase::Request),
    (GuardianHook::ToolCallResult, GuardianPhase::Result),
    (GuardianHook::Mcp, GuardianPhase::McpOutbound),
    (GuardianHook::Mcp, GuardianPhase::McpInbound),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Allow,
    Deny,
    Modify,
    Timeout,
    Status500,
    Malformed,
    WrongId,
    WrongMethod,
    Huge,
}

/// What an answer comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The step goes on as it was meant.
    Passes,
    /// It goes on with what the guardian wants.
    Changes,
    /// It goes on because nobody said anything, which the record says.
    Opens,
    /// The guardian denies.
    Denies,
    /// There is no answer that can be followed.
    Fails,
    /// There is a modification that cannot be followed.
    Misfits,
}
use Verdict::{Changes, Denies, Fails, Misfits, Opens, Passes};

/// Each answer with what it comes to when the hook fails closed, when it fails open, and the reason
/// that is recorded.
const ANSWERS: [(Answer, Verdict, Verdict, Option<&str>); 9] = [
    (Answer::Allow, Passes, Passes, None),
    (Answer::Deny, Denies, Denies, Some("test")),
    (Answer::Modify, Changes, Changes, None),
    (Answer::Timeout, Fails, Opens, Some("guardian_timeout")),
    (Answer::Status500, Fails, Opens, Some("guardian_status")),
    (Answer::Malformed, Fails, Opens, Some("guardian_malformed")),
    (Answer::WrongId, Fails, Fails, Some("guardian_wrong_id")),
    (Answer::WrongMethod, Misfits, Misfits, Some("guardian_bad_modification")),
    (Answer::Huge, Fails, Fails, Some("guardian_answer_too_large")),
];

/// What a caller gets.
#[derive(Debug, PartialEq)]
enum Caller {
    /// The result of a run.
    Output(Value),
    /// A run that was denied, with its code.
    Denied(String),
    /// No run: status and code.
    Refused(u16, String),
}

/// What came of one cell.
#[derive(Debug, PartialEq)]
struct Cell {
    /// The texts that the service was sent.
    sent: Vec<Value>,
    /// What the journal has of the hook; none where there is no run, or the hook belongs to none.
    recorded: Option<(String, DecisionSource, Vec<String>)>,
    caller: Caller,
}

impl Verdict {
    /// How the record of it reads.
    fn record(self) -> (&'static str, DecisionSource) {
        match self {
            Passes => ("allow", DecisionSource::Guardian),
            Changes => ("modify", DecisionSource::Guardian),
            Opens => ("allow", DecisionSource::FailedOpen),
            Denies => ("deny", DecisionSource::Guardian),
            Fails | Misfits => ("deny", DecisionSource::FailedClosed),
        }
    }

    fn is_failure(self) -> bool {
        matches!(self, Opens | Fails | Misfits)
    }

    /// What it does at a hook.
    fn meets(self, (hook, phase): Point, reason: Option<&str>) -> Cell {
        let (given, changed) = (json!("given"), json!("changed"));
        let (decision, source) = self.record();
        let reasons = reason.iter().map(|&reason| reason.to_owned()).collect();
        let record = Some((decision.to_owned(), source, reasons));
        let code = |denied: &str| {
            let code = match self {
                Fails => "A2S342",
                Misfits => "A2S343",
                Passes | Changes | Opens | Denies => denied,
            };
            code.to_owned()
        };
        let status = if self == Fails { 503 } else { 403 };
        match (phase, self) {
            // A result that is changed or withheld was sent all the same.
            (GuardianPhase::Result | GuardianPhase::McpInbound, Changes) => {
                Cell { sent: vec![given], recorded: record, caller: Caller::Output(changed) }
            }
            (GuardianPhase::Result | GuardianPhase::McpInbound, Denies | Fails | Misfits) => {
                let caller = Caller::Denied(code("A2S341"));
                Cell { sent: vec![given], recorded: record, caller }
            }
            // What is written belongs to no run, so the metrics alone have it.
            (GuardianPhase::Memory, Passes | Opens) if hook == GuardianHook::MemoryStore => {
                Cell { sent: vec![given.clone()], recorded: None, caller: Caller::Output(given) }
            }
            (GuardianPhase::Memory, Changes) if hook == GuardianHook::MemoryStore => {
                let caller = Caller::Output(changed.clone());
                Cell { sent: vec![changed], recorded: None, caller }
            }
            (_, Passes | Opens) => {
                let caller = Caller::Output(given.clone());
                Cell { sent: vec![given], recorded: record, caller }
            }
            (_, Changes) => {
                let caller = Caller::Output(changed.clone());
                Cell { sent: vec![changed], recorded: record, caller }
            }
            (GuardianPhase::Request | GuardianPhase::McpOutbound, Denies | Fails | Misfits) => {
                Cell { sent: vec![], recorded: record, caller: Caller::Denied(code("A2S340")) }
            }
            // Nothing has begun, so there is nothing to be recorded in.
            (GuardianPhase::Trigger, Denies | Fails | Misfits) => {
                let caller = Caller::Refused(status, code("A2S345"));
                Cell { sent: vec![], recorded: None, caller }
            }
            (GuardianPhase::Memory, Denies | Fails | Misfits) => {
                let caller = Caller::Refused(status, code("A2S344"));
                Cell { sent: vec![], recorded: None, caller }
            }
        }
    }
}

/// What a guardian wants instead, of any hook.
fn change(question: &Value) -> Value {
    let mut modified = question.clone();
    let params = &mut modified["params"];
    match question["method"].as_str().unwrap() {
        "steps/toolCallRequest" => {
            params["toolCallRequest"]["inputs"][0]["value"] = json!({"text": "changed"});
        }
        "steps/toolCallResult" => {
            let text = &mut params["toolCallResult"]["result"]["outputs"][0]["text"];
            *text = json!(text.as_str().unwrap().replace("given", "changed"));
        }
        "steps/agentTrigger" => params["trigger"]["content"][0]["data"]["word"] = json!("changed"),
        "steps/memoryStore" | "steps/memoryContextRetrieval" => {
            params["memory"] = json!([json!({"name": "word", "value": "changed"}).to_string()]);
        }
        "protocols/MCP" => {
            let message = &mut params["message"];
            let holder = match message.get("method") {
                Some(_) => "/params/arguments",
                None => "/result/structuredContent/body",
            };
            message.pointer_mut(holder).unwrap()["text"] = json!("changed");
        }
        other => panic!("{other}"),
    }
    modified
}

/// The same question under another method.
fn rename(question: &Value) -> Value {
    let mut modified = question.clone();
    let other = if question["method"] == "steps/memoryStore" {
        "steps/memoryContextRetrieval"
    } else {
        modified["params"]["memory"] = json!(["x"]);
        "steps/memoryStore"
    };
    modified["method"] = json!(other);
    modified
}

async fn answer(answer: Answer, question: Value) -> Response {
    let respond = |id: &Value, result: Value| {
        axum::Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response()
    };
    let modify = |request: Value| {
        let result = json!({"decision": "modify", "message": "less", "modifiedRequest": request});
        respond(&question["id"], result)
    };
    match answer {
        Answer::Allow => respond(&question["id"], allow()),
        Answer::Deny => respond(&question["id"], deny()),
        Answer::Modify => modify(change(&question)),
        Answer::Timeout => std::future::pending().await,
        Answer::Status500 => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Answer::Malformed => ([("content-type", "application/json")], "{\"deci").into_response(),
        Answer::WrongId => respond(&json!("another"), allow()),
        Answer::WrongMethod => modify(rename(&question)),
        Answer::Huge => {
            let result = json!({"decision": "allow", "message": "m".repeat(5 << 20)});
            respond(&question["id"], result)
        }
    }
}

/// A guardian that answers at a point in one way, and allows everything else. It counts how often
/// it was asked there.
async fn start((hook, phase): Point, given: Answer) -> (GuardianConfig, Arc<Mutex<u32>>) {
    let asked = Arc::new(Mutex::new(0));
    let kept = Arc::clone(&asked);
    let handler = async move |body: Bytes| {
        let question: Value = serde_json::from_slice(&body).unwrap();
        let is_call = question.pointer("/params/message/method").is_some();
        let is_meant = question["method"] == hook.as_str()
            && (phase != GuardianPhase::McpOutbound || is_call)
            && (phase != GuardianPhase::McpInbound || !is_call);
        *kept.lock().unwrap() += u32::from(is_meant);
        answer(if is_meant { given } else { Answer::Allow }, question).await
    };
    let url = format!("http://{}/aos", serve(Router::new().fallback(handler)).await);
    let config = GuardianConfig::new(url.parse().unwrap());
    (GuardianConfig { max_response_bytes: SMALL_RESPONSE, ..config }, asked)
}

/// Does what asks about `hook`, and then what shows its effect.
async fn provoke(app: &App, hook: GuardianHook) -> Caller {
    let remember = async || call(app, Method::PUT, "/v1/state/word", &[], json!("given")).await;
    let with_word = json!({"name": "Tell", "inputs": {"word": "given"}, "wait": true});
    let without = json!({"name": "Tell", "wait": true});
    let run = async |body: Value| call(app, Method::POST, "/v1/executions", &[], body).await;
    let answer = match hook {
        GuardianHook::ToolCallRequest | GuardianHook::ToolCallResult | GuardianHook::Mcp => {
            run(with_word).await
        }
        GuardianHook::AgentTrigger => {
            let body = json!({"event": {"type": "email", "id": "1"}, "execution": with_word});
            call(app, Method::POST, "/v1/triggers", &[], body).await
        }
        GuardianHook::MemoryContextRetrieval => {
            assert_eq!(remember().await.status, StatusCode::OK);
            run(without).await
        }
        GuardianHook::MemoryStore => {
            let stored = remember().await;
            if !stored.status.is_success() {
                // Nothing is remembered, so a run lacks it.
                assert_eq!(run(without).await.problem().1, "A2S320");
                let (status, code, _) = stored.problem();
                return Caller::Refused(status, code);
            }
            run(without).await
        }
    };
    if !answer.status.is_success() {
        let (status, code, _) = answer.problem();
        return Caller::Refused(status, code);
    }
    let run = answer.run();
    match run.status {
        RunStatus::Succeeded => Caller::Output(run.output.unwrap()),
        RunStatus::Denied => {
            assert_eq!(run.output, None);
            Caller::Denied(run.error.unwrap().code)
        }
        other => panic!("{other:?}: {:?}", run.error),
    }
}

/// What the journals have of a point.
async fn recorded(app: &App, (hook, phase): Point) -> Vec<DecisionRecord> {
    if hook == GuardianHook::MemoryStore {
        return Vec::new();
    }
    let list = call(app, Method::GET, "/v1/executions", &[], Value::Null).await.body;
    let mut found = Vec::new();
    for run in list["executions"].as_array().unwrap() {
        for event in events(app, run["id"].as_str().unwrap().parse().unwrap()).await {
            match event.kind {
                EventKind::RunStarted(started) => found.extend(started.decisions),
                EventKind::Decided { decision, .. } => found.push(decision),
                _ => {}
            }
        }
    }
    found.retain(|decision| decision.phase == phase);
    found
}

async fn check(point: Point, given: Answer, fail: FailMode) {
    let (hook, phase) = point;
    let case = format!("{hook}, {phase:?}, {given:?}, {}", fail.as_str());
    let row = ANSWERS.into_iter().find(|(answer, ..)| *answer == given).unwrap();
    let (_, closed, open, reason) = row;
    let (verdict, other) = match fail {
        FailMode::Closed => (closed, FailMode::Open),
        FailMode::Open => (open, FailMode::Closed),
    };
    // More of them at once than a server has connections for.
    let mut world = World::in_file().await;
    let inputs = json!({"body": {"text": "${word}"}});
    let outputs = json!({"said": "$.body.text"});
    let tell = match hook {
        GuardianHook::Mcp => tool("tell", inputs["body"].clone(), outputs),
        _ => task("tell", "POST /say", inputs, outputs),
    };
    let document = json!({"execution": sequence(json!([tell])), "output": "${said}"});
    world.registry.publish_newer("Tell", &document);
    // How safely a journal lies on the disk is not what is tested here.
    world.config.durability = Durability::Normal;
    let (guardian, asked) = start(point, given).await;
    // The mode is this hook's own: every other fails the other way. Where the time is short, the
    // others may be late, too, and that is not what is looked at.
    let (timeout, other) = match given {
        Answer::Timeout if hook == GuardianHook::Mcp => (LESS_SHORT, FailMode::Open),
        Answer::Timeout => (SHORT, FailMode::Open),
        _ => (world.guarded_by().timeout, other),
    };
    *world.guarded_by() = GuardianConfig {
        name: "company".to_owned(),
        timeout,
        fail: FailModes { default: other, by_hook: [(hook, fail)].into() },
        ..guardian
    };
    let app = world.open().await;
    let caller = provoke(&app, hook).await;
    let recorded = recorded(&app, point).await;
    assert!(recorded.iter().all(|decision| decision.guardian.as_deref() == Some("company")));
    // A changed request is asked about once more.
    let rounds = if is_outgoing(phase) && verdict == Changes { 2 } else { 1 };
    assert!(recorded.is_empty() || recorded.len() == rounds, "{case}: {recorded:?}");
    let first = recorded.into_iter().next();
    let sent = world.service.asked().into_iter().map(|(_, mut body)| match hook {
        GuardianHook::Mcp => body["params"]["arguments"]["text"].take(),
        _ => body["text"].take(),
    });
    let cell = Cell {
        sent: sent.collect(),
        recorded: first.map(|d| (d.decision.into_owned(), d.source, d.reason_codes)),
        caller,
    };
    assert_eq!(cell, verdict.meets(point, reason), "{case}");
    let times = *asked.lock().unwrap() as usize;
    // A question that comes in late is not waited for.
    assert!(
        times == rounds || (times == 0 && given == Answer::Timeout),
        "{case}: asked {times} times"
    );
    check_metrics(&world.metrics(), point, (verdict, rounds), reason, &case);
    app.shutdown(Duration::ZERO).await;
}

fn is_outgoing(phase: GuardianPhase) -> bool {
    matches!(phase, GuardianPhase::Request | GuardianPhase::McpOutbound)
}

/// A decision is counted once in a round, and a failure besides. At the hook of MCP the other question is
/// counted as well, if it comes to that.
#[track_caller]
fn check_metrics(
    text: &str,
    (hook, phase): Point,
    (verdict, rounds): (Verdict, usize),
    reason: Option<&str>,
    case: &str,
) {
    let goes_on = matches!(verdict, Passes | Changes | Opens);
    let is_asked_twice =
        hook == GuardianHook::Mcp && (goes_on || phase == GuardianPhase::McpInbound);
    let mut decisions = vec![(verdict.record(), rounds)];
    if is_asked_twice {
        match &mut decisions[0] {
            (record, times) if *record == Passes.record() => *times += 1,
            _ => decisions.push((Passes.record(), 1)),
        }
    }
    let of = |name: &str| {
        let start = format!("{name}_total{{hook=\"{hook}\"");
        let lines = text.lines().filter(|line| line.starts_with(&start));
        lines.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let labels = format!("hook=\"{hook}\",guardian=\"company\"");
    let counted = decisions.into_iter().map(|((decision, source), times)| {
        let source = json!(source);
        let source = source.as_str().unwrap();
        format!("decisions_total{{{labels},decision=\"{decision}\",source=\"{source}\"}} {times}")
    });
    assert_eq!(of("decisions"), counted.collect(), "{case}");
    let failures = reason.filter(|_| verdict.is_failure());
    let failures =
        failures.map(|reason| format!("guardian_failures_total{{{labels},reason=\"{reason}\"}} 1"));
    assert_eq!(of("guardian_failures"), failures.into_iter().collect(), "{case}");
}

#[tokio::test]
async fn every_answer_at_every_hook_in_either_mode() {
    let modes = [FailMode::Closed, FailMode::Open];
    let answers = || ANSWERS.into_iter().map(|(answer, ..)| answer);
    assert!(GuardianHook::ALL.iter().all(|hook| POINTS.iter().any(|(known, _)| known == hook)));
    let cells = POINTS
        .into_iter()
        .flat_map(|at| answers().flat_map(move |answer| modes.map(|fail| (at, answer, fail))));
    let cells: Vec<_> = cells.collect();
    assert_eq!(cells.len(), 7 * 9 * 2);
    futures::stream::iter(cells)
        .for_each_concurrent(AT_ONCE, |(at, answer, fail)| check(at, answer, fail))
        .await;
}
