//! Runs that outlive the executor that started them.

use std::time::Duration;

use a2s_api::{EventKind, RunEvent, RunStatus};
use axum::http::{Method, Request};
use futures::StreamExt as _;
use serde_json::{Value, json};

use super::world::{
    World, assert_gapless, assert_succeeded, call, cancel, events, events_after, execution_ids,
    read, read_events, run, sequence, start, task, transcript,
};
use crate::ExecutorDatabase;

fn publish(world: &World, held: &str) {
    let call = format!("{held} /hold/middle");
    world.registry.publish(
        "Three",
        "1.0.0",
        &json!({"execution": sequence(json!([
            task("before", "POST /say", json!({"body": "${word}"}), json!({"said": "$.body"})),
            task("middle", &call, json!({}), json!({"held": "$.value"})),
            task("after", "POST /tell", json!({"body": "${said} ${held}"}), json!({"told": "$.body"})),
        ]))}),
    );
}

#[tokio::test]
async fn after_a_crash_only_unconfirmed_reads_are_repeated() {
    let world = World::new().await;
    publish(&world, "GET");
    let (app, id) = world.open_until("Three", json!({"word": "hello"}), "GET /hold/middle").await;
    world.crash(app).await;
    // It needs no registry to go on: what was started is what is resumed.
    world.registry.tamper("Three", |published| published.source = b"gone".to_vec());

    let app = world.open().await;
    world.service.arrived("GET /hold/middle", 2).await;
    world.service.release("middle");

    let events = events(&app, id).await;
    assert_gapless(&events);
    let run = read(&app, id).await;
    assert_succeeded(&run);
    assert_eq!(
        run.output,
        Some(json!({"said": "hello", "held": "middle", "told": "hello middle"}))
    );
    assert_eq!(world.service.count("POST /say"), 1);
    assert_eq!(world.service.count("POST /tell"), 1);
    assert_eq!(run.steps[1].attempts, 2);
    let lines = transcript(&events);
    let at = lines.iter().position(|line| line == "resumed").unwrap();
    assert_eq!(lines[at - 1], "middle: 1 GET https://api.example/hold/middle");
    assert_eq!(lines[at + 1], "middle: request allow");
    // The same question as before the crash, by its id.
    let ids = execution_ids(&events, "middle");
    assert_eq!(ids.len(), 2);
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test]
async fn after_a_crash_a_post_in_doubt_waits_for_a_person() {
    let world = World::new().await;
    publish(&world, "POST");
    let (app, id) = world.open_until("Three", json!({"word": "hello"}), "POST /hold/middle").await;
    world.crash(app).await;

    let app = world.open().await;
    let told = events(&app, id).await;
    assert_gapless(&told);
    let run = read(&app, id).await;
    assert_eq!(run.status, RunStatus::Waiting);
    let error = run.error.unwrap();
    assert_eq!((error.code.as_str(), error.step.as_deref()), ("A2S371", Some("middle")));
    assert!(!error.repeat_safe && error.message.contains("POST https://api.example/hold/middle"));
    assert_eq!(run.steps[1].status, "waiting");
    assert_eq!(world.service.count("POST /hold/middle"), 1);
    assert_eq!(world.service.count("POST /tell"), 0);

    // It waits through restarts, until somebody ends it.
    let app = world.crash_and_open(app).await;
    assert_eq!(read(&app, id).await.status, RunStatus::Waiting);
    let run = cancel(&app, id).await.run();
    assert_eq!(run.status, RunStatus::Cancelled);
    assert!(!run.error.unwrap().repeat_safe);
    let rest = events_after(&app, id, told.len() as u64).await;
    assert_eq!(transcript(&rest), ["cancelled A2S370"]);
}

#[tokio::test]
async fn a_parallel_block_goes_on_where_it_was() {
    let world = World::new().await;
    world.registry.publish(
        "Wide",
        "1.0.0",
        &json!({"execution": {"type": "sequence", "steps": [
            {"id": "both", "type": "parallel", "steps": [
                task("done", "POST /say", json!({"body": 1}), json!({"a": "$.body"})),
                task("open", "GET /hold/open", json!({}), json!({"b": "$.value"})),
            ]},
            {"id": "decide", "type": "condition", "condition": "${a} == 1",
             "if_true": {"steps": [task("last", "POST /tell", json!({"body": "${a} ${b}"}), json!({"c": "$.body"}))]}},
        ]}}),
    );
    let (app, id) = world.open_until("Wide", json!({}), "GET /hold/open").await;
    super::world::wait_for(
        &app,
        id,
        |kind| matches!(kind, EventKind::StepFinished { step, .. } if step == "both/done"),
    )
    .await;
    let app = world.crash_and_open(app).await;
    world.service.release("open");
    assert_gapless(&events(&app, id).await);
    let run = read(&app, id).await;
    assert_succeeded(&run);
    assert_eq!(run.output, Some(json!({"a": 1, "b": "open", "c": "1 open"})));
    assert_eq!(world.service.count("POST /say"), 1);
}

#[tokio::test]
async fn a_branch_in_doubt_waits_while_the_branch_beside_it_ends() {
    let world = World::new().await;
    world.registry.publish(
        "Wide",
        "1.0.0",
        &json!({"execution": {"type": "parallel", "steps": [
            task("doubt", "POST /hold/doubt", json!({}), json!({"a": "$.value"})),
            task("open", "GET /hold/open", json!({}), json!({"b": "$.value"})),
        ]}}),
    );
    let (app, id) = world.open_until("Wide", json!({}), "POST /hold/doubt").await;
    world.service.arrived("GET /hold/open", 1).await;
    let app = world.crash_and_open(app).await;
    world.service.release("open");
    let lines = transcript(&events(&app, id).await);
    assert!(lines.contains(&"open: set {\"b\":\"open\"}".to_owned()), "{lines:#?}");
    assert_eq!(lines.last().map(String::as_str), Some("waiting A2S371"));
    let run = read(&app, id).await;
    let statuses: Vec<_> = run.steps.iter().map(|s| (s.step.as_str(), s.status.as_str())).collect();
    assert_eq!(statuses, [("doubt", "waiting"), ("open", "succeeded")]);
}

#[tokio::test]
async fn crash_at_any_event_repeats_no_finished_step() {
    // The journal of a whole run, cut after each event, is what a crash at that place leaves.
    let world = World::new().await;
    publish(&world, "GET");
    let app = world.open().await;
    let id = start(&app, "Three", json!({"word": "w"})).await;
    world.service.release("middle");
    let whole = events(&app, id).await;
    app.shutdown(Duration::from_secs(30)).await;
    drop(app);
    let expected = whole.len();
    for cut in 1..expected {
        let before = world.service.asked().len();
        let kept = &whole[..cut];
        world.rewrite_journal(kept).await;
        let finished = |name: &str| {
            kept.iter().any(
                |event| matches!(&event.kind, EventKind::StepFinished { step, .. } if step == name),
            )
        };
        let in_doubt = kept.iter().rev().find_map(|event| match &event.kind {
            EventKind::Sending { step, repeat_safe, .. } => Some((step.clone(), *repeat_safe)),
            _ => None,
        });
        let in_doubt = in_doubt.filter(|(step, _)| !finished(step));
        world.service.release("middle");
        let app = world.open().await;
        assert_gapless(&events(&app, id).await);
        let run = read(&app, id).await;
        let sent: Vec<_> =
            world.service.asked()[before..].iter().map(|(call, _)| call.clone()).collect();
        match in_doubt {
            Some((step, false)) => {
                assert_eq!(run.status, RunStatus::Waiting, "cut {cut}");
                assert_eq!(run.error.unwrap().step, Some(step), "cut {cut}");
                assert_eq!(sent, [""; 0], "cut {cut}");
            }
            _ => {
                assert_succeeded(&run);
                let left = [
                    ("before", "POST /say"),
                    ("middle", "GET /hold/middle"),
                    ("after", "POST /tell"),
                ];
                let left: Vec<_> =
                    left.iter().filter(|(s, _)| !finished(s)).map(|(_, call)| *call).collect();
                assert_eq!(sent, left, "cut {cut}");
            }
        }
        app.shutdown(Duration::from_secs(30)).await;
        drop(app);
        world.service.forget_releases();
    }
}

#[tokio::test]
async fn what_is_in_doubt_is_told_even_when_the_run_was_cancelled() {
    let world = World::new().await;
    publish(&world, "POST");
    let (app, id) = world.open_until("Three", json!({"word": "hello"}), "POST /hold/middle").await;
    // The post is awaited, so the run is still under way when the executor dies.
    cancel(&app, id).await;
    let app = world.crash_and_open(app).await;
    events(&app, id).await;
    // What is in doubt goes before what is wished: somebody must look.
    assert_eq!(read(&app, id).await.status, RunStatus::Waiting);
    assert_eq!(world.service.count("POST /tell"), 0);
}

#[tokio::test]
async fn a_wish_to_cancel_outlives_a_crash() {
    let world = World::new().await;
    publish(&world, "POST");
    let (app, id) = world.open_until("Three", json!({"word": "hello"}), "POST /hold/middle").await;
    let before = read_events(&app, id).await;
    cancel(&app, id).await;
    world.crash(app).await;
    // As if it had died a moment earlier, before the second post left.
    let sending = |event: &RunEvent| matches!(&event.kind, EventKind::Sending { step, .. } if step == "middle");
    let at = before.iter().position(sending).unwrap();
    world.rewrite_journal(&before[..at]).await;
    let app = world.open().await;
    let lines = transcript(&events(&app, id).await);
    assert_eq!(lines[at..], ["resumed", "cancelled A2S370"]);
    assert_eq!(read(&app, id).await.steps[1].status, "cancelled");
    assert_eq!(world.service.count("POST /hold/middle"), 1);
}

#[tokio::test]
async fn a_shutdown_leaves_runs_that_go_on_later() {
    let world = World::new().await;
    publish(&world, "GET");
    let (app, id) = world.open_until("Three", json!({"word": "hello"}), "GET /hold/middle").await;
    app.shutdown(Duration::ZERO).await;
    let body = json!({"name": "Three", "inputs": {"word": "x"}});
    let refused = call(&app, Method::POST, "/v1/executions", &[], body).await;
    assert_eq!(refused.headers["retry-after"], "1");
    let (status, code, _) = refused.problem();
    assert_eq!((status, code.as_str()), (503, "A2S307"));
    let ready = call(&app, Method::GET, "/readyz", &[], Value::Null).await;
    assert_eq!(ready.problem().0, 503);
    assert_eq!(read(&app, id).await.status, RunStatus::Running);
    drop(app);

    let app = world.open().await;
    world.service.release("middle");
    events(&app, id).await;
    assert_succeeded(&read(&app, id).await);
    assert_eq!(world.service.count("POST /say"), 1);
}

#[tokio::test]
async fn a_shutdown_awaits_runs_that_end_in_time() {
    let world = World::new().await;
    publish(&world, "POST");
    let (app, id) = world.open_until("Three", json!({"word": "hello"}), "POST /hold/middle").await;
    let shutdown = tokio::spawn({
        let app = app.clone();
        async move { app.shutdown(Duration::from_secs(30)).await }
    });
    world.service.release("middle");
    shutdown.await.unwrap();
    assert_succeeded(&read(&app, id).await);
}

#[tokio::test]
async fn a_run_that_another_executor_drives_is_left_alone() {
    let world = World::new().await;
    publish(&world, "GET");
    let one = world.open().await;
    let id = start(&one, "Three", json!({"word": "hello"})).await;
    world.service.arrived("GET /hold/middle", 1).await;
    let other = world.open().await;
    // The other one can tell of the run, and start its own.
    assert_eq!(read(&other, id).await.status, RunStatus::Running);
    world.service.release("middle");
    world.service.release("middle");
    let own = run(&other, "Three", json!({"word": "mine"})).await;
    assert_succeeded(&own);
    let events = events(&other, id).await;
    assert_succeeded(&read(&other, id).await);
    assert!(!transcript(&events).contains(&"resumed".to_owned()));
    assert_eq!(world.service.count("GET /hold/middle"), 2);
}

#[tokio::test]
async fn a_changed_document_in_the_database_is_not_resumed() {
    let world = World::new().await;
    publish(&world, "GET");
    let (app, id) = world.open_until("Three", json!({"word": "hello"}), "GET /hold/middle").await;
    world.crash(app).await;
    world.change_stored_document("Three for tests", "three for tests").await;
    let app = world.open().await;
    events(&app, id).await;
    let run = read(&app, id).await;
    assert_eq!((run.status, run.error.unwrap().code.as_str()), (RunStatus::Failed, "A2S313"));
    assert_eq!(world.service.count("GET /hold/middle"), 1);
}

#[tokio::test]
async fn a_database_of_a_newer_program_is_refused() {
    let world = World::new().await;
    drop(world.open().await);
    let (truth, bytes) = match &world.config.database {
        ExecutorDatabase::File(_) => ("1", "x'00'"),
        ExecutorDatabase::Postgres(_) => ("TRUE", "'\\x00'"),
    };
    world
        .change_database(&format!(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
             VALUES (9999, 'from the future', {truth}, {bytes}, 0)",
        ))
        .await;
    let error = world.try_open().await.unwrap_err();
    assert_eq!(error.kind, crate::ErrorKind::DatabaseNewer);
    assert!(error.message.contains("run database"), "{}", error.message);
}

#[tokio::test]
async fn stream_that_cannot_be_read_does_not_end_in_order() {
    let world = World::new().await;
    world.registry.publish(
        "Say",
        "1.0.0",
        &json!({"execution": sequence(json!([
            task("say", "POST /say", json!({"body": "hello"}), json!({"said": "$.body"})),
        ]))}),
    );
    let app = world.open().await;
    let (unreadable, deleted) =
        (run(&app, "Say", json!({})).await.id, run(&app, "Say", json!({})).await.id);
    world
        .change_database(&format!(
            "UPDATE event SET event = '{{' WHERE run = '{unreadable}' AND seq = 3"
        ))
        .await;
    let request = Request::get(format!("/v1/executions/{unreadable}/events"));
    let request = request.body(axum::body::Body::empty()).unwrap();
    let response = tower::ServiceExt::oneshot(app.router(), request).await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(axum::body::to_bytes(response.into_body(), 1 << 20).await.is_err());

    let caller = a2s_api::Caller::owner();
    let events = app.runs().follow(deleted, 0, &caller).await.unwrap().unwrap();
    app.runs().delete(deleted, &caller).await.unwrap();
    let first = std::pin::pin!(events).next().await.unwrap();
    assert_eq!(first.unwrap_err().kind, crate::error::ErrorKind::RunNotFound);
}

#[tokio::test]
async fn clock_that_jumps_deletes_no_run() {
    let world = World::new().await;
    world.registry.publish(
        "Say",
        "1.0.0",
        &json!({"execution": sequence(json!([
            task("say", "POST /say", json!({"body": "hello"}), json!({"said": "$.body"})),
        ]))}),
    );
    let app = world.open().await;
    let id = run(&app, "Say", json!({})).await.id;
    app.shutdown(Duration::from_secs(30)).await;
    drop(app);
    world.pass(Duration::from_secs(40 * 24 * 60 * 60));
    let app = world.open().await;
    assert_succeeded(&read(&app, id).await);
}
