//! Loops and handled failures that outlive the executor that began them.

use std::time::Duration;

use a2s_api::{EventKind, RunEvent, RunStatus};
use serde_json::{Value, json};

use super::world::{
    World, assert_gapless, assert_succeeded, events, execution_ids, output, read, sequence, start,
    task, transcript, wait_for, with,
};

/// Loops of tasks and of blocks, a failure that is caught and one that is ignored.
fn publish(world: &World) {
    let each = |step: Value, items: Value| with(step, json!({"for_each": items}));
    let fall =
        task("fall", "POST /fell", json!({"body": "${error.step}"}), json!({"even": "$.body"}));
    let even = task("evens", "GET /even/{n}", json!({"n": "${item}"}), json!({"even": "$.value"}));
    world.registry.publish_newer(
        "All",
        &json!({"execution": {"type": "sequence", "variables": {"shared": {"lost": "string"}}, "steps": [
            each(task("each", "POST /say", json!({"body": "${item}"}), json!({"said": "$.body"})), json!(["a", "${b}"])),
            with(each(even, json!([0, 1])), json!({"catch": {"steps": [fall]}})),
            with(task("lost", "GET /status/404", json!({}), json!({"lost": "$.value"})), json!({"on_error": "continue"})),
            {"id": "block", "type": "sequence", "for_each": {"in": ["x", "y"], "as": "letter"}, "steps": [
                task("tell", "POST /tell", json!({"body": "${letter}"}), json!({"told": "$.body"})),
            ]},
            task("done", "POST /done", json!({"body": "${said} ${even} ${told}"}), json!({"done": "$.body"})),
        ]}}),
    );
}

/// The step and the call of every request, in order.
fn calls(events: &[RunEvent]) -> Vec<(String, String)> {
    let call = |event: &RunEvent| match &event.kind {
        EventKind::Sending { step, method, url, .. } => {
            let path = url.strip_prefix("https://api.example").unwrap();
            Some((step.clone(), format!("{method} {path}")))
        }
        _ => None,
    };
    events.iter().filter_map(call).collect()
}

fn has_ended(events: &[RunEvent], path: &str) -> bool {
    events.iter().any(|event| match &event.kind {
        EventKind::StepFinished { step, .. } | EventKind::StepFailed { step, .. } => step == path,
        _ => false,
    })
}

#[tokio::test]
async fn crash_at_any_event_repeats_no_finished_iteration() {
    let world = World::new().await;
    publish(&world);
    let app = world.open().await;
    let id = start(&app, "All", json!({"b": "b"})).await;
    let whole = events(&app, id).await;
    let expected = read(&app, id).await;
    assert_succeeded(&expected);
    let result = output(&expected);
    assert_eq!(result["done"], r#"["a","b"] ["0","evens[1]"] ["x","y"]"#);
    app.shutdown(Duration::from_secs(30)).await;
    drop(app);
    let all = calls(&whole);
    assert_eq!(all.len(), 9);
    for cut in 1..whole.len() {
        let before = world.service.asked().len();
        let kept = &whole[..cut];
        world.rewrite_journal(kept).await;
        let app = world.open().await;
        let told = events(&app, id).await;
        assert_gapless(&told);
        let run = read(&app, id).await;
        let asked = &world.service.asked()[before..];
        let sent: Vec<_> = asked.iter().map(|(call, _)| call.clone()).collect();
        let in_doubt = calls(kept).pop().filter(|(step, _)| !has_ended(kept, step));
        if let Some((step, _)) = in_doubt.filter(|(_, call)| call.starts_with("POST")) {
            assert_eq!(run.status, RunStatus::Waiting, "cut {cut}");
            assert_eq!(run.error.unwrap().step, Some(step), "cut {cut}");
            assert_eq!(sent, [""; 0], "cut {cut}");
        } else {
            assert_succeeded(&run);
            let left = all.iter().filter(|(step, _)| !has_ended(kept, step));
            let left: Vec<_> = left.map(|(_, call)| call.clone()).collect();
            assert_eq!(sent, left, "cut {cut}");
            assert_eq!(output(&run), result, "cut {cut}");
            // Whoever reads the journal later sees the same steps, whether it was cut or not.
            let shown = |run: &a2s_api::Run| {
                let steps = run.steps.iter();
                let steps =
                    steps.map(|s| (s.step.clone(), s.status.clone(), s.handled, s.iterations));
                steps.collect::<Vec<_>>()
            };
            assert_eq!(shown(&run), shown(&expected), "cut {cut}");
        }
        app.shutdown(Duration::from_secs(30)).await;
        drop(app);
    }
}

#[tokio::test]
async fn after_a_crash_open_iterations_keep_their_ids() {
    let world = World::new().await;
    let each =
        task("each", "GET /hold/{word}", json!({"word": "${item}"}), json!({"heard": "$.value"}));
    let each = with(each, json!({"for_each": {"in": "${words}", "max_concurrency": 2}}));
    world.registry.publish_newer("Held", &json!({"execution": sequence(json!([each]))}));
    let app = world.open().await;
    let id = start(&app, "Held", json!({"words": ["a", "b", "c", "d"]})).await;
    world.service.release("b");
    // Two at a time: b has ended, a and c are open, and d has not begun.
    world.service.arrived("GET /hold/c", 1).await;
    wait_for(
        &app,
        id,
        |kind| matches!(kind, EventKind::StepFinished { step, .. } if step == "each[1]"),
    )
    .await;
    let app = world.crash_and_open(app).await;
    for word in ["a", "c", "d"] {
        world.service.release(word);
    }
    let told = events(&app, id).await;
    let run = read(&app, id).await;
    assert_succeeded(&run);
    assert_eq!(output(&run)["heard"], json!(["a", "b", "c", "d"]));
    for (word, times) in [("a", 2), ("b", 1), ("c", 2), ("d", 1)] {
        assert_eq!(world.service.count(&format!("GET /hold/{word}")), times, "{word}");
    }
    let ids = execution_ids(&told, "each[2]");
    assert_eq!(ids.len(), 2);
    assert_eq!(ids[0], ids[1]);
    let taken = transcript(&told).iter().filter(|line| *line == "each: over 4 items").count();
    assert_eq!(taken, 1);
}

#[tokio::test]
async fn an_iteration_in_doubt_waits_and_no_further_one_begins() {
    let world = World::new().await;
    let each = task("each", "POST /hold/x", json!({"body": "${item}"}), json!({"heard": "$.body"}));
    let each = with(each, json!({"for_each": [1, 2, 3], "on_error": "continue"}));
    world.registry.publish_newer("Held", &json!({"execution": sequence(json!([each]))}));
    let (app, id) = world.open_until("Held", json!({}), "POST /hold/x").await;
    let app = world.crash_and_open(app).await;
    events(&app, id).await;
    let run = read(&app, id).await;
    assert_eq!(run.status, RunStatus::Waiting);
    assert_eq!(run.error.unwrap().step.as_deref(), Some("each[0]"));
    let steps: Vec<_> = run.steps.iter().map(|s| (s.step.as_str(), s.status.as_str())).collect();
    assert_eq!(steps, [("each", "running"), ("each[0]", "waiting")]);
    assert_eq!(world.service.count("POST /hold/x"), 1);
}

#[tokio::test]
async fn what_a_tolerant_block_ignored_stays_ignored() {
    let world = World::new().await;
    world.registry.publish_newer(
        "Both",
        &json!({"execution": {"type": "sequence", "variables": {"shared": {"a": "string", "b": "string"}}, "steps": [
            {"id": "both", "type": "parallel", "on_error": "continue", "steps": [
                task("bad", "GET /status/404", json!({}), json!({"a": "$.value"})),
                task("open", "GET /hold/open", json!({}), json!({"b": "$.value"})),
            ]},
        ]}}),
    );
    let app = world.open().await;
    let id = start(&app, "Both", json!({})).await;
    wait_for(&app, id, |kind| matches!(kind, EventKind::ErrorHandled { .. })).await;
    world.service.arrived("GET /hold/open", 1).await;
    let app = world.crash_and_open(app).await;
    world.service.release("open");
    let lines = transcript(&events(&app, id).await);
    let run = read(&app, id).await;
    assert_succeeded(&run);
    assert_eq!(run.output, Some(json!({"a": null, "b": "open"})));
    assert_eq!(world.service.count("GET /status/404"), 1);
    assert_eq!(lines.iter().filter(|line| line.contains("handled")).count(), 1);
}
