//! Steps that a person has to approve: the run waits, and goes on at that step.

mod after_sending;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2s_api::{EventKind, NextAction, Run, RunEvent, RunStatus};
use axum::http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::world::{
    PATIENCE, World, allow, assert_gapless, assert_succeeded, call, cancel, deny,
    events as read_events, output, read, run, sequence, task, transcript, with,
};
use crate::App;
use crate::clock::Clock as _;

/// How the approval of what a guardian wants approved stands.
#[derive(Clone)]
struct Desk(Arc<Mutex<Standing>>);

#[derive(Clone)]
struct Standing {
    word: &'static str,
    /// The execution that has used the approval.
    used_by: Option<Value>,
}

impl Desk {
    /// A guardian that wants every request of a step approved whose id begins with `pay`.
    fn open(world: &World) -> Self {
        Self::for_questions(world, |question| {
            let step = question["params"]["context"]["stepId"].as_str().unwrap_or_default();
            question["method"] == "steps/toolCallRequest" && step.starts_with("pay")
        })
    }

    /// A guardian that wants approved within half an hour what some questions are about.
    fn for_questions(world: &World, is_meant: impl Fn(&Value) -> bool + Send + 'static) -> Self {
        let desk = Self(Arc::new(Mutex::new(Standing { word: "pending", used_by: None })));
        let (own, clock) = (desk.clone(), Arc::clone(&world.clock));
        let begun = clock.now();
        let expires_at = begun + Duration::from_secs(30 * 60);
        world.guardian.decide(move |question| {
            let step = question["params"]["context"]["stepId"].as_str().unwrap_or_default();
            if !is_meant(question) {
                return allow();
            }
            let is_preview = question["params"]["context"]["capability"]["preview"] == true;
            let mut standing = own.0.lock().unwrap();
            let execution = execution_of(question);
            match standing.word {
                "approved" if is_preview => json!({
                    "decision": "deny", "message": "only a preview", "reasonCode": ["preview_only"],
                }),
                "approved" if standing.used_by.is_none() => {
                    standing.used_by = Some(execution.clone());
                    allow()
                }
                "approved" if standing.used_by.as_ref() == Some(execution) => allow(),
                "rejected" => deny(),
                "silent" => json!({"nothing": "usable"}),
                _ => json!({
                    "decision": "deny",
                    "message": "Payments need a person.",
                    "reasonCode": ["approval_required"],
                    "data": {"approval": {
                        "id": format!("ap-{}", step.replace(['[', ']'], "-")), "status": "pending", "expiresAt": expires_at,
                    }},
                }),
            }
        });
        desk
    }

    fn settle(&self, word: &'static str) {
        self.0.lock().unwrap().word = word;
    }
}

fn pay(id: &str) -> Value {
    task(id, "POST /pay", json!({"body": "5"}), json!({(id): "$.value"}))
}

/// Says something, pays, and tells.
fn publish(world: &World) {
    let steps = json!([
        task("say", "POST /say", json!({"body": "hello"}), json!({"said": "$.body"})),
        pay("pay"),
        task("tell", "POST /tell", json!({"body": "${said}"}), json!({"told": "$.body"})),
    ]);
    world.registry.publish_newer("Pay", &json!({"execution": sequence(steps)}));
}

/// A run that waits for its payment to be approved.
async fn waiting(world: &World, app: &App) -> Run {
    let run = run(app, "Pay", json!({})).await;
    assert_eq!(run.status, RunStatus::Waiting, "{run:#?}");
    assert_eq!(world.service.count("POST /pay"), 0);
    run
}

/// A run that waits so, where a desk decides.
async fn waiting_run() -> (World, Desk, App, Uuid) {
    let world = World::new().await;
    publish(&world);
    let desk = Desk::open(&world);
    let app = world.open().await;
    let id = waiting(&world, &app).await.id;
    (world, desk, app, id)
}

/// The execution that a question names.
fn execution_of(question: &Value) -> &Value {
    let params = &question["params"];
    match question["method"].as_str().unwrap_or_default() {
        "steps/toolCallRequest" => &params["toolCallRequest"]["executionId"],
        "steps/toolCallResult" => &params["toolCallResult"]["executionId"],
        _ => &params["executionId"],
    }
}

/// The questions about a step's request so far.
fn questions(world: &World, step: &str) -> Vec<Value> {
    let is_about = |question: &Value| {
        question["method"] == "steps/toolCallRequest"
            && question["params"]["context"]["stepId"] == step
    };
    world.guardian.asked().into_iter().filter(is_about).collect()
}

/// Waits until something is so.
async fn until<F: Future<Output = bool>>(what: &str, is_so: impl Fn() -> F) {
    let waits = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waits).await.unwrap_or_else(|_| panic!("{what}"));
}

/// The run once it is over.
async fn ended(app: &App, id: Uuid) -> Run {
    until("the run ends", || async { read(app, id).await.status.is_final() }).await;
    read(app, id).await
}

/// Waits until the guardian was asked about the payment again, and the run stood as it was.
async fn asked_again(world: &World, times: usize) {
    let before = questions(world, "pay").len();
    until("the guardian is asked", || async { questions(world, "pay").len() >= before + times })
        .await;
}

fn requested(events: &[RunEvent]) -> Vec<(&str, &str, Uuid)> {
    let requested = |event| match event {
        &RunEvent {
            kind: EventKind::ApprovalRequested { ref step, ref id, execution_id, .. },
            ..
        } => Some((step.as_str(), id.as_str(), execution_id)),
        _ => None,
    };
    events.iter().filter_map(requested).collect()
}

#[tokio::test]
async fn an_approval_lets_the_run_go_on_at_its_step() {
    let world = World::new().await;
    publish(&world);
    let desk = Desk::open(&world);
    let app = world.open().await;
    let run = waiting(&world, &app).await;
    let error = run.error.unwrap();
    assert_eq!((error.code.as_str(), error.step.as_deref()), ("A2S346", Some("pay")));
    assert!(error.message.contains("`a2s guardian approve ap-pay`"), "{}", error.message);
    assert!(error.message.contains("Payments need a person."), "{}", error.message);
    assert_eq!(error.next, Some(NextAction::Approve));
    assert_eq!(run.steps[1].status, "waiting");

    // It is asked about by itself, and what is asked leaves no events.
    let before = read_events(&app, run.id).await;
    asked_again(&world, 1).await;
    assert_eq!(read_events(&app, run.id).await, before);
    desk.settle("approved");
    let run = ended(&app, run.id).await;
    assert_succeeded(&run);
    assert_eq!(output(&run)["told"], "hello");
    for call in ["POST /say", "POST /pay", "POST /tell"] {
        assert_eq!(world.service.count(call), 1, "{call}");
    }
    let events = read_events(&app, run.id).await;
    assert_gapless(&events);
    let ids: Vec<_> = questions(&world, "pay")
        .iter()
        .map(|question| question["params"]["toolCallRequest"]["executionId"].clone())
        .collect();
    let requested = requested(&events);
    assert_eq!(requested.len(), 1, "{:#?}", transcript(&events));
    assert!(ids.len() >= 3 && ids.iter().all(|id| *id == json!(requested[0].2)), "{ids:?}");
}

#[tokio::test]
async fn a_rejection_ends_the_run() {
    let (world, desk, app, id) = waiting_run().await;
    desk.settle("rejected");
    let run = ended(&app, id).await;
    assert_eq!(run.status, RunStatus::Denied);
    assert_eq!(run.error.unwrap().code, "A2S340");
    assert_eq!(run.steps[1].status, "denied");
    assert_eq!((world.service.count("POST /say"), world.service.count("POST /pay")), (1, 0));
}

#[tokio::test]
async fn the_end_of_the_time_ends_the_run() {
    let world = World::new().await;
    publish(&world);
    let _desk = Desk::open(&world);
    let app = world.open().await;
    let id = waiting(&world, &app).await.id;
    world.pass(Duration::from_secs(29 * 60));
    asked_again(&world, 1).await;
    assert_eq!(read(&app, id).await.status, RunStatus::Waiting);
    world.pass(Duration::from_secs(2 * 60));
    let run = ended(&app, id).await;
    assert_eq!(run.status, RunStatus::Denied);
    let error = run.error.unwrap();
    assert_eq!((error.code.as_str(), error.step.as_deref()), ("A2S340", Some("pay")));
    assert!(error.message.contains("`ap-pay` was not given"), "{}", error.message);
    assert_eq!(run.steps[1].status, "denied");
    assert_eq!(world.service.count("POST /pay"), 0);
    // Behind its time nothing is asked for anew.
    let last = questions(&world, "pay").pop().unwrap();
    assert_eq!(last["params"]["context"]["capability"]["preview"], true, "{last}");
}

#[tokio::test]
async fn what_was_approved_while_nobody_asked_holds_behind_its_time() {
    let (world, desk, app, id) = waiting_run().await;
    app.crash().await;
    desk.settle("approved");
    world.pass(Duration::from_secs(31 * 60));
    let app = world.open().await;
    assert_succeeded(&ended(&app, id).await);
    assert_eq!((world.service.count("POST /say"), world.service.count("POST /pay")), (1, 1));
}

#[tokio::test]
async fn a_run_that_waits_survives_its_executor() {
    let (world, desk, app, id) = waiting_run().await;
    app.crash().await;
    let app = world.open().await;
    asked_again(&world, 1).await;
    assert_eq!(read(&app, id).await.status, RunStatus::Waiting);
    desk.settle("approved");
    assert_succeeded(&ended(&app, id).await);
    assert_eq!((world.service.count("POST /say"), world.service.count("POST /pay")), (1, 1));
}

#[tokio::test]
async fn a_crash_between_approved_and_sent_loses_no_approval() {
    let (world, desk, app, id) = waiting_run().await;
    desk.settle("approved");
    ended(&app, id).await;
    let events = read_events(&app, id).await;
    app.crash().await;
    // As if it had died behind the guardian's yes, which has used the approval up.
    let allowed = transcript(&events).iter().position(|line| line == "pay: request allow").unwrap();
    world.rewrite_journal(&events[..=allowed]).await;
    let app = world.open().await;
    let run = ended(&app, id).await;
    assert_succeeded(&run);
    assert_eq!(requested(&read_events(&app, id).await).len(), 1);
    assert_eq!(world.service.count("POST /say"), 1);
}

#[tokio::test]
async fn a_crash_behind_the_answer_to_a_question_loses_no_approval() {
    let (world, desk, app, id) = waiting_run().await;
    let execution = requested(&read_events(&app, id).await)[0].2;
    app.crash().await;
    // It has asked, was answered yes, which used the approval up, and died before it recorded that.
    *desk.0.lock().unwrap() = Standing { word: "approved", used_by: Some(json!(execution)) };
    let app = world.open().await;
    assert_succeeded(&ended(&app, id).await);
    assert_eq!(requested(&read_events(&app, id).await).len(), 1);
    assert_eq!(world.service.count("POST /say"), 1);
}

#[tokio::test]
async fn a_run_that_is_cancelled_waits_no_more() {
    let (world, desk, app, id) = waiting_run().await;
    let execution_id = requested(&read_events(&app, id).await)[0].2;
    let cancelled = cancel(&app, id).await;
    assert_eq!(cancelled.run().status, RunStatus::Cancelled);
    let reason = "the run was cancelled";
    let withdrawal = json!({"id": "ap-pay", "executionId": execution_id, "reason": reason});
    assert_eq!(world.guardian.withdrawals(), [withdrawal]);
    desk.settle("approved");
    let path = format!("/v1/executions/{id}/resume");
    let refused = call(&app, Method::POST, &path, &[], json!({"decision": "repeat"})).await;
    assert_eq!(refused.problem().1, "A2S305");
    assert_eq!(world.service.count("POST /pay"), 0);
}

#[tokio::test]
async fn a_guardian_that_missed_a_withdrawal_gets_it_again() {
    let (world, _desk, app, id) = waiting_run().await;
    world.guardian.set_ready(false);
    cancel(&app, id).await.run();
    assert_eq!(world.guardian.withdrawals().len(), 1);
    app.crash().await;
    world.guardian.set_ready(true);
    let app = world.open().await;
    until("it is withdrawn", || async { world.guardian.withdrawals().len() == 2 }).await;
    app.shutdown(Duration::ZERO).await;
    let app = world.open().await;
    waiting(&world, &app).await;
    assert_eq!(world.guardian.withdrawals().len(), 2, "it was recorded");
}

#[tokio::test]
async fn every_end_of_a_run_withdraws_its_approvals() {
    let (world, desk, app, id) = waiting_run().await;
    desk.settle("rejected");
    ended(&app, id).await;
    desk.settle("pending");
    waiting(&world, &app).await;
    world.pass(Duration::from_secs(31 * 60));
    let reasons = || -> Vec<Value> {
        world.guardian.withdrawals().iter().map(|withdrawal| withdrawal["reason"].clone()).collect()
    };
    until("both are withdrawn", || async { reasons().len() == 2 }).await;
    assert_eq!(reasons(), ["the run was denied"; 2]);
}

#[tokio::test]
async fn steps_beside_one_that_waits_come_to_their_end() {
    let world = World::new().await;
    let steps = json!([
        pay("pay"),
        task("slow", "POST /hold/slow", json!({"body": "1"}), json!({"slow": "$.value"})),
        pay("payToo"),
    ]);
    let rest = json!({"execution": {"type": "parallel", "steps": steps}});
    world.registry.publish_newer("Pay", &rest);
    let desk = Desk::open(&world);
    let (app, id) = world.open_until("Pay", json!({}), "POST /hold/slow").await;
    assert_eq!(read(&app, id).await.status, RunStatus::Running);
    world.service.release("slow");
    until("it waits", || async { read(&app, id).await.status == RunStatus::Waiting }).await;
    assert_eq!(world.service.count("POST /pay"), 0);
    desk.settle("rejected");
    let run = ended(&app, id).await;
    assert_eq!(run.status, RunStatus::Denied);
    assert_eq!(world.service.count("POST /hold/slow"), 1);
}

#[tokio::test]
async fn a_person_has_it_asked_at_once() {
    let (world, desk, app, id) = waiting_run().await;
    let path = format!("/v1/executions/{id}/resume");
    let refused = call(&app, Method::POST, &path, &[], json!({"decision": "skip"})).await;
    assert_eq!(refused.problem().1, "A2S300");
    call(&app, Method::POST, &path, &[], json!({"decision": "repeat"})).await.run();
    until("it waits again", || async { read(&app, id).await.status == RunStatus::Waiting }).await;
    desk.settle("approved");
    call(&app, Method::POST, &path, &[], json!({"decision": "repeat"})).await.run();
    assert_succeeded(&ended(&app, id).await);
    assert_eq!((world.service.count("POST /say"), world.service.count("POST /pay")), (1, 1));
}

#[tokio::test]
async fn a_guardian_that_is_silent_meanwhile_decides_nothing() {
    let (world, desk, app, id) = waiting_run().await;
    desk.settle("silent");
    asked_again(&world, 1).await;
    assert_eq!(read(&app, id).await.status, RunStatus::Waiting);
    desk.settle("approved");
    assert_succeeded(&ended(&app, id).await);
}

#[tokio::test]
async fn an_approval_of_no_plain_id_is_a_denial() {
    let world = World::new().await;
    publish(&world);
    world.guardian.decide(|question| match question["method"].as_str() {
        Some("steps/toolCallRequest") => json!({
            "decision": "deny",
            "message": "no",
            "reasonCode": ["approval_required"],
            "data": {"approval": {"id": "x`; rm -rf ~`", "status": "pending"}},
        }),
        _ => allow(),
    });
    let app = world.open().await;
    let run = run(&app, "Pay", json!({})).await;
    assert_eq!((run.status, run.error.unwrap().code.as_str()), (RunStatus::Denied, "A2S340"));
}

#[tokio::test]
async fn an_iteration_waits_as_a_step_does() {
    let world = World::new().await;
    let each = task("pay", "POST /pay", json!({"body": "${item}"}), json!({"paid": "$.body"}));
    let each = with(each, json!({"for_each": {"in": ["a", "b"]}}));
    world.registry.publish_newer("Pay", &json!({"execution": sequence(json!([each]))}));
    let desk = Desk::open(&world);
    let app = world.open().await;
    let id = waiting(&world, &app).await.id;
    // Each iteration is an execution of its own: the other one is refused by this guardian.
    desk.settle("approved");
    until("it pays once", || async { world.service.count("POST /pay") == 1 }).await;
    until("it waits again", || async { read(&app, id).await.status == RunStatus::Waiting }).await;
    let error = read(&app, id).await.error.unwrap();
    assert_eq!(error.step.as_deref(), Some("pay[1]"));
}

#[tokio::test]
async fn run_cancelled_on_its_way_to_a_wait_does_not_wait() {
    let world = World::new().await;
    let steps = json!([
        task("hold", "GET /hold/{word}", json!({"word": "a"}), json!({"held": "$.value"})),
        pay("pay"),
    ]);
    world.registry.publish_newer("Pay", &json!({"execution": sequence(steps)}));
    let _desk = Desk::open(&world);
    let (app, id) = world.open_until("Pay", json!({}), "GET /hold/a").await;
    // As another executor records it: the one that drives the run has not seen it.
    world.change_database("UPDATE run SET cancel_requested = 1").await;
    world.service.release("a");
    let all = read_events(&app, id).await;
    assert_gapless(&all);
    let ended = read(&app, id).await;
    assert_eq!(ended.status, RunStatus::Cancelled, "{ended:#?}");
    assert!(!all.iter().any(|event| matches!(event.kind, EventKind::RunWaiting { .. })));
    assert_eq!(world.service.count("POST /pay"), 0);
}

#[tokio::test]
async fn cancel_beside_resumes_always_ends_the_run() {
    let world = World::new().await;
    publish(&world);
    let _desk = Desk::open(&world);
    let app = world.open().await;
    for _ in 0..10 {
        let id = waiting(&world, &app).await.id;
        let path = format!("/v1/executions/{id}/resume");
        let resume = || call(&app, Method::POST, &path, &[], json!({"decision": "repeat"}));
        let (first, cancelled, second, third) =
            tokio::join!(resume(), cancel(&app, id), resume(), resume());
        assert_eq!(cancelled.status, 202, "{}", cancelled.body);
        for resumed in [first, second, third] {
            assert!([202, 409].contains(&resumed.status.as_u16()), "{}", resumed.body);
        }
        assert_gapless(&read_events(&app, id).await);
        assert_eq!(read(&app, id).await.status, RunStatus::Cancelled);
    }
    assert_eq!(world.service.count("POST /pay"), 0);
}
