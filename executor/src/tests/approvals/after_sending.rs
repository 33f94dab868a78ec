//! Approvals for what comes after a request was sent: redirects, results and answers of MCP servers. Nothing
//! is sent again, whatever happens between the question and the decision.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2s_api::{ApprovalSubject, EventKind, GuardianPhase, Run, RunEvent, RunStatus};
use serde_json::{Value, json};

use super::{Desk, ended, execution_of, requested, until};
use crate::App;
use crate::tests::world::{
    World, allow, assert_gapless, assert_succeeded, cancel, deny, events as read_events, output,
    read, run, sequence, start, task, tool, transcript, until_recorded,
};

/// The questions that a test wants approved.
type IsMeant = fn(&Value) -> bool;

fn redirects(question: &Value) -> bool {
    question["params"]["context"]["request"]["redirect"].is_u64()
}

fn results(question: &Value) -> bool {
    question["method"] == "steps/toolCallResult"
        && question["params"]["context"]["stepId"] != "tell"
}

fn answers(question: &Value) -> bool {
    question["method"] == "protocols/MCP" && question["params"]["message"].get("method").is_none()
}

/// One step, and one that is held after it.
fn publish(world: &World, step: Value) {
    let tell = task("tell", "POST /hold/tell", json!({"body": "1"}), json!({"told": "$.value"}));
    let document = json!({"execution": sequence(json!([step, tell]))});
    world.registry.publish_newer("Pay", &document);
}

fn pay(call: &str) -> Value {
    let inputs = if call.starts_with("GET") { json!({}) } else { json!({"body": "5"}) };
    task("pay", call, inputs, json!({"paid": "$.value"}))
}

fn subjects(events: &[RunEvent]) -> Vec<ApprovalSubject> {
    let about = events.iter().filter_map(|event| match event.kind {
        EventKind::ApprovalRequested { about, .. } => Some(about),
        _ => None,
    });
    about.collect()
}

async fn waiting(app: &App) -> Run {
    let run = run(app, "Pay", json!({})).await;
    assert_eq!(run.status, RunStatus::Waiting, "{run:#?}");
    assert_eq!(run.steps[0].status, "waiting");
    run
}

/// Waits until the guardian was asked what it wants approved once more.
async fn asked_again(world: &World, is_meant: IsMeant) -> Value {
    let asked = || world.guardian.asked().into_iter().filter(is_meant).collect::<Vec<_>>();
    let before = asked().len();
    until("the guardian is asked", || async { asked().len() > before }).await;
    asked().pop().unwrap()
}

/// The number of requests that the service was asked for the step.
fn sent(world: &World) -> usize {
    world.service.asked().iter().filter(|(call, _)| !call.ends_with("/tell")).count()
}

/// The places at which a step may wait after it has sent something.
struct Place {
    step: fn() -> Value,
    is_meant: IsMeant,
    about: ApprovalSubject,
    /// Requests that were sent before it waits, and after.
    sent: (usize, usize),
    /// The code of a denial.
    denied: &'static str,
}

fn places() -> Vec<Place> {
    let redirect = ApprovalSubject::new(GuardianPhase::Request, Some(1));
    let result = ApprovalSubject::new(GuardianPhase::Result, None);
    let place = |step, is_meant, about, sent, denied| Place { step, is_meant, about, sent, denied };
    vec![
        place(|| pay("GET /hop/302/echo/x"), redirects, redirect, (1, 2), "A2S340"),
        place(|| pay("POST /hop/303/echo/x"), redirects, redirect, (1, 2), "A2S340"),
        place(|| pay("PUT /hop/307/echo/x"), redirects, redirect, (1, 2), "A2S340"),
        place(|| pay("GET /echo/x"), results, result, (1, 1), "A2S341"),
        place(|| pay("POST /echo/x"), results, result, (1, 1), "A2S341"),
        place(
            || {
                let paid = json!({"paid": "$.body.text"});
                let step = tool("note", json!({"text": "x"}), paid);
                let Value::Object(mut step) = step else { panic!("{step}") };
                step["id"] = json!("pay");
                Value::Object(step)
            },
            answers,
            ApprovalSubject::new(GuardianPhase::McpInbound, None),
            (1, 1),
            "A2S341",
        ),
    ]
}

#[tokio::test]
async fn approved_run_goes_on_without_resending() {
    for durability in [crate::Durability::Full, crate::Durability::Memory] {
        for Place { step, is_meant, about, sent: (before, after), .. } in places() {
            let mut world = World::new().await;
            world.config.durability = durability;
            publish(&world, step());
            let desk = Desk::for_questions(&world, is_meant);
            let app = world.open().await;
            let run = waiting(&app).await;
            let error = run.error.unwrap();
            assert_eq!((error.code.as_str(), error.step.as_deref()), ("A2S346", Some("pay")));
            assert!(error.message.contains("`a2s guardian approve ap-pay`"), "{}", error.message);
            let events = read_events(&app, run.id).await;
            assert_eq!(subjects(&events), [about]);
            let asked = asked_again(&world, is_meant).await;
            assert_eq!(json!(requested(&events)[0].2), *execution_of(&asked));
            assert_eq!(read_events(&app, run.id).await, events);
            assert_eq!(sent(&world), before);

            desk.settle("approved");
            world.service.arrived("POST /hold/tell", 1).await;
            assert_eq!(sent(&world), after);
            if durability == crate::Durability::Full {
                assert_eq!(world.count_rows("sealed").await, 0, "it goes with the end of its step");
            }
            world.service.release("tell");
            let run = ended(&app, run.id).await;
            assert_succeeded(&run);
            assert_eq!(output(&run)["paid"], "x");
            let events = read_events(&app, run.id).await;
            assert_gapless(&events);
            assert_eq!(subjects(&events), [about], "{:#?}", transcript(&events));
            assert_eq!(run.steps[0].attempts, 1);
        }
    }
}

#[tokio::test]
async fn a_rejection_and_the_end_of_the_time_end_the_run() {
    for is_late in [false, true] {
        for Place { step, is_meant, sent: (before, _), denied, .. } in places() {
            let world = World::new().await;
            publish(&world, step());
            let desk = Desk::for_questions(&world, is_meant);
            let app = world.open().await;
            let id = waiting(&app).await.id;
            match is_late {
                true => world.pass(Duration::from_secs(31 * 60)),
                false => desk.settle("rejected"),
            }
            let run = ended(&app, id).await;
            assert_eq!((run.status, run.steps[0].status.as_str()), (RunStatus::Denied, "denied"));
            let error = run.error.unwrap();
            assert_eq!((error.code.as_str(), error.step.as_deref()), (denied, Some("pay")));
            assert_eq!(sent(&world), before);
            assert_eq!(world.count_rows("sealed").await, 0);
            if is_late {
                assert!(error.message.contains("was not given"), "{}", error.message);
                let last = world.guardian.asked().into_iter().rfind(is_meant).unwrap();
                assert_eq!(last["params"]["context"]["capability"]["preview"], true, "{last}");
            }
        }
    }
}

#[tokio::test]
async fn a_wait_survives_its_executor() {
    for Place { step, is_meant, sent: (before, after), .. } in places() {
        for is_used in [false, true] {
            let world = World::new().await;
            publish(&world, step());
            let desk = Desk::for_questions(&world, is_meant);
            let app = world.open().await;
            let id = waiting(&app).await.id;
            let execution = requested(&read_events(&app, id).await)[0].2;
            app.crash().await;
            // It may have asked, and died before it recorded the yes that used the approval up.
            let used_by = is_used.then(|| json!(execution));
            *desk.0.lock().unwrap() = super::Standing { word: "approved", used_by };
            assert_eq!(sent(&world), before);
            world.service.release("tell");
            let app = world.open().await;
            assert_succeeded(&ended(&app, id).await);
            assert_eq!(sent(&world), after);
            let events = read_events(&app, id).await;
            assert_eq!(requested(&events).len(), 1);
        }
    }
}

#[tokio::test]
async fn crash_after_approved_redirect_repeats_only_the_redirect() {
    for (call, first) in [
        ("POST /hop/303/hold/x", "POST /hop/303/hold/x"),
        ("GET /hop/302/hold/x", "GET /hop/302/hold/x"),
    ] {
        let world = World::new().await;
        publish(&world, pay(call));
        let desk = Desk::for_questions(&world, redirects);
        let app = world.open().await;
        let id = waiting(&app).await.id;
        desk.settle("approved");
        world.service.arrived("GET /hold/x", 1).await;
        until_recorded(&app, id, "GET /hold/x", 1).await;
        let app = world.crash_and_open(app).await;
        world.service.arrived("GET /hold/x", 2).await;
        world.service.release("x");
        world.service.release("tell");
        assert_succeeded(&ended(&app, id).await);
        assert_eq!(world.service.count(first), 1);
        assert_eq!(requested(&read_events(&app, id).await).len(), 1);
    }
}

#[tokio::test]
async fn each_redirect_of_a_chain_and_the_result_wait_in_turn() {
    let world = World::new().await;
    publish(&world, pay("POST /hop/303/hop/302/echo/x"));
    let given = Arc::new(Mutex::new(Vec::new()));
    let own = Arc::clone(&given);
    world.guardian.decide(move |question| {
        let execution = execution_of(question);
        if !(redirects(question) || results(question)) || own.lock().unwrap().contains(execution) {
            return allow();
        }
        let id = execution.as_str().unwrap();
        json!({
            "decision": "deny", "message": "A person.", "reasonCode": ["approval_required"],
            "data": {"approval": {"id": id, "status": "pending"}},
        })
    });
    let app = world.open().await;
    let id = waiting(&app).await.id;
    world.service.release("tell");
    for count in 1..=3 {
        until("it waits", || async {
            let waits = read(&app, id).await.status == RunStatus::Waiting;
            waits && subjects(&read_events(&app, id).await).len() == count
        })
        .await;
        assert_eq!(sent(&world), count, "one more request was let go each time");
        assert_eq!(world.count_rows("sealed").await, 1, "the place before has gone");
        let events = read_events(&app, id).await;
        let (_, wanted, execution) = *requested(&events).last().unwrap();
        assert_eq!(wanted, execution.to_string());
        given.lock().unwrap().push(json!(execution));
    }
    assert_succeeded(&ended(&app, id).await);
    let subjects = subjects(&read_events(&app, id).await);
    let expected = [
        ApprovalSubject::new(GuardianPhase::Request, Some(1)),
        ApprovalSubject::new(GuardianPhase::Request, Some(2)),
        ApprovalSubject::new(GuardianPhase::Result, None),
    ];
    assert_eq!(subjects, expected);
    assert_eq!(sent(&world), 3);
}

#[tokio::test]
async fn failed_approved_redirect_is_retried_where_safe() {
    for (call, ends, first) in [
        ("GET /hop/302/script", RunStatus::Succeeded, 2),
        ("POST /hop/303/script", RunStatus::Failed, 1),
    ] {
        let world = World::new().await;
        world.service.script([(503, json!({})), (200, json!({"value": "x"}))]);
        publish(&world, pay(call));
        let desk = Desk::for_questions(&world, redirects);
        let app = world.open().await;
        let id = waiting(&app).await.id;
        world.service.release("tell");
        desk.settle("approved");
        let run = ended(&app, id).await;
        assert_eq!(run.status, ends, "{:?}", run.error);
        assert_eq!(world.service.count(call), first);
    }
}

#[tokio::test]
async fn a_result_is_kept_as_it_came_and_sealed() {
    let world = World::new().await;
    let canary = "canary-of-the-response";
    let answer = json!({"value": "x", "deep": [{"b": 1, "a": canary}], "big": 1.5e300});
    world.service.answer("/echo/x", answer.clone());
    publish(&world, pay("POST /echo/x"));
    let desk = Desk::for_questions(&world, results);
    let app = world.open().await;
    let id = waiting(&app).await.id;
    let bytes = world.database_bytes().await;
    assert!(!bytes.windows(canary.len()).any(|window| window == canary.as_bytes()));
    assert_eq!(world.count_rows("sealed").await, 1);
    world.service.answer("/echo/x", json!({"value": "another one"}));
    app.crash().await;
    let app = world.open().await;
    let asked = asked_again(&world, results).await;
    let text = &asked["params"]["toolCallResult"]["result"]["outputs"][0]["text"];
    let text = text.as_str().unwrap_or_else(|| panic!("{asked}"));
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), answer);
    desk.settle("approved");
    world.service.release("tell");
    assert_eq!(output(&ended(&app, id).await)["paid"], "x");
}

#[tokio::test]
async fn an_approved_failure_stays_a_failure() {
    let world = World::new().await;
    publish(&world, pay("POST /status/500"));
    let desk = Desk::for_questions(&world, results);
    let app = world.open().await;
    let id = waiting(&app).await.id;
    app.crash().await;
    desk.settle("approved");
    let app = world.open().await;
    let run = ended(&app, id).await;
    let error = run.error.unwrap();
    assert_eq!((run.status, error.code.as_str()), (RunStatus::Failed, "A2S357"));
    assert!(error.message.contains("status 500"), "{}", error.message);
    assert!(!error.repeat_safe);
    assert_eq!(world.service.count("POST /status/500"), 1);
}

#[tokio::test]
async fn a_place_that_is_lost_leaves_the_step_in_doubt() {
    for (call, is_meant, repeats) in [
        ("POST /echo/x", results as IsMeant, false),
        ("POST /hop/303/echo/x", redirects, false),
        ("GET /echo/x", results, true),
    ] {
        let world = World::new().await;
        publish(&world, pay(call));
        let desk = Desk::for_questions(&world, is_meant);
        let app = world.open().await;
        let id = waiting(&app).await.id;
        app.crash().await;
        world.change_database("DELETE FROM sealed").await;
        desk.settle("approved");
        world.service.release("tell");
        let app = world.open().await;
        let code = |run: &Run| run.error.as_ref().map(|error| error.code.clone());
        until("it is looked at", || async {
            let run = read(&app, id).await;
            run.status.is_final() || code(&run).is_some_and(|code| code == "A2S371")
        })
        .await;
        let run = read(&app, id).await;
        let expected = if repeats { RunStatus::Succeeded } else { RunStatus::Waiting };
        assert_eq!(run.status, expected, "{:?}", run.error);
        assert_eq!(world.service.count(call), if repeats { 2 } else { 1 });
    }
}

#[tokio::test]
async fn a_step_that_still_waits_beside_another_is_not_sealed_again() {
    let world = World::new().await;
    let steps = json!([
        task("pay", "POST /echo/a", json!({"body": "1"}), json!({"a": "$.value"})),
        task("payToo", "POST /echo/b", json!({"body": "1"}), json!({"b": "$.value"})),
    ]);
    let rest = json!({"execution": {"type": "parallel", "steps": steps}});
    world.registry.publish_newer("Pay", &rest);
    let desk = Desk::for_questions(&world, results);
    let app = world.open().await;
    let id = run(&app, "Pay", json!({})).await.id;
    assert_eq!(world.count_rows("sealed").await, 2);
    let before = world.query("SELECT CAST(seq AS TEXT) FROM sealed ORDER BY seq").await;
    // This desk lets the first execution pass that asks.
    desk.settle("approved");
    until("one of them is done", || async {
        let run = read(&app, id).await;
        let done = run.steps.iter().filter(|step| step.status == "succeeded").count();
        run.status == RunStatus::Waiting && done == 1
    })
    .await;
    let left = world.query("SELECT CAST(seq AS TEXT) FROM sealed").await;
    assert!(left.len() == 1 && before.contains(&left[0]), "{before:?} {left:?}");
    app.crash().await;
    *desk.0.lock().unwrap() = super::Standing { word: "approved", used_by: None };
    let app = world.open().await;
    let run = ended(&app, id).await;
    assert_succeeded(&run);
    assert_eq!((&output(&run)["a"], &output(&run)["b"]), (&json!("a"), &json!("b")));
    assert_eq!(world.service.asked().len(), 2);
}

#[tokio::test]
async fn what_a_guardian_changed_before_the_wait_is_sent_after_it() {
    let world = World::new().await;
    let step = task("pay", "PUT /hop/307/say", json!({"body": "given"}), json!({"paid": "$.body"}));
    publish(&world, step);
    let desk = Desk::for_questions(&world, redirects);
    let decide = desk.clone();
    world.guardian.decide(move |question| {
        let is_redirect = redirects(question);
        let mut modified = question.clone();
        match modified.pointer_mut("/params/toolCallRequest/inputs/0/value") {
            Some(value) if *value == json!("given") && !is_redirect => {
                *value = json!("changed");
                json!({"decision": "modify", "message": "x", "modifiedRequest": modified})
            }
            Some(_) if is_redirect && decide.0.lock().unwrap().word == "pending" => json!({
                "decision": "deny", "message": "A person.", "reasonCode": ["approval_required"],
                "data": {"approval": {"id": "ap-1", "status": "pending"}},
            }),
            Some(_) if is_redirect && decide.0.lock().unwrap().word == "rejected" => deny(),
            _ => allow(),
        }
    });
    let app = world.open().await;
    let id = waiting(&app).await.id;
    app.crash().await;
    desk.settle("approved");
    world.service.release("tell");
    let app = world.open().await;
    let run = ended(&app, id).await;
    assert_succeeded(&run);
    assert_eq!(output(&run)["paid"], "changed");
    assert_eq!((world.service.count("PUT /hop/307/say"), world.service.count("PUT /say")), (1, 1));
}

#[tokio::test]
async fn a_cancelled_run_waits_no_more_and_keeps_nothing() {
    let world = World::new().await;
    publish(&world, pay("POST /echo/x"));
    let _desk = Desk::for_questions(&world, results);
    let app = world.open().await;
    let id = start(&app, "Pay", json!({})).await;
    until("it waits", || async { read(&app, id).await.status == RunStatus::Waiting }).await;
    cancel(&app, id).await;
    assert_eq!(read(&app, id).await.status, RunStatus::Cancelled);
    assert_eq!(world.count_rows("sealed").await, 0);
}
