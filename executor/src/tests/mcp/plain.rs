//! Calls of tools as any step: planned, guarded, resumed, replayed, and told without secrets.

use a2s_api::{ReplayResponse, RunStatus};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::gave;
use crate::tests::world::{
    World, allow, assert_succeeded, call, deny, events, read, run, sequence, start, tool,
    transcript,
};

fn publish(world: &World, name: &str, step: &Value) {
    let document = json!({
        "parameters": [{"name": "token", "secret": true, "required": false}],
        "execution": sequence(json!([step])),
        "output": "${said}",
    });
    world.registry.publish_newer(name, &document);
}

fn note(text: Value) -> Value {
    tool("note", json!({"text": text}), json!({"said": "$.body"}))
}

/// The same on a server that waits, and a word on what a call does.
fn held(hints: Value) -> Value {
    let mut step = note(json!("x"));
    step["task"]["server"] = json!("https://api.example/mcp/held");
    step["task"]["annotations"] = hints;
    step
}

#[tokio::test]
async fn a_call_in_doubt_waits_for_a_person_unless_it_only_reads() {
    let world = World::new().await;
    publish(&world, "Writes", &held(json!({})));
    publish(&world, "Reads", &held(json!({"readOnlyHint": true})));
    for (name, ends, sent) in
        [("Writes", RunStatus::Waiting, 1), ("Reads", RunStatus::Succeeded, 2)]
    {
        let before = world.service.count("POST /mcp/held");
        let app = world.open().await;
        let id = start(&app, name, json!({})).await;
        world.service.arrived("POST /mcp/held", before + 1).await;
        let app = world.crash_and_open(app).await;
        if ends == RunStatus::Succeeded {
            world.service.arrived("POST /mcp/held", before + 2).await;
            world.service.release("held");
        }
        events(&app, id).await;
        let ended = read(&app, id).await;
        assert_eq!(ended.status, ends, "{name}: {:?}", ended.error);
        assert_eq!(world.service.count("POST /mcp/held") - before, sent, "{name}");
        app.crash().await;
    }
}

#[tokio::test]
async fn denied_message_is_not_sent_nor_denied_answer_used() {
    for (outbound, code, sent) in [(true, "A2S340", 0), (false, "A2S341", 1)] {
        let world = World::new().await;
        publish(&world, "Note", &note(json!("x")));
        world.guardian.decide(move |question| {
            let message = &question["params"]["message"];
            let is_meant = message.is_object() && message.get("method").is_some() == outbound;
            if is_meant { deny() } else { allow() }
        });
        let app = world.open().await;
        let run = run(&app, "Note", json!({})).await;
        assert_eq!(run.status, RunStatus::Denied);
        assert_eq!(run.error.as_ref().unwrap().code, code, "{:?}", run.error);
        assert_eq!(world.service.asked().len(), sent);
        let asked = world.guardian.asked();
        let last = asked.last().unwrap();
        assert_eq!(last["method"], "protocols/MCP", "nothing more is asked about");
    }
}

/// Lets a guardian change the message of a call, or its answer, and runs it.
async fn changed(change: fn(&mut Value)) -> (World, a2s_api::Run) {
    let world = World::new().await;
    publish(&world, "Note", &note(json!("given")));
    world.guardian.decide(move |question| {
        let mut modified = question.clone();
        change(&mut modified["params"]["message"]);
        if modified == *question {
            return allow();
        }
        json!({"decision": "modify", "message": "less", "modifiedRequest": modified})
    });
    let app = world.open().await;
    let run = run(&app, "Note", json!({})).await;
    (world, run)
}

#[tokio::test]
async fn guardian_modifies_only_arguments_of_a_message() {
    let (world, run) = changed(|message| {
        if let Some(arguments) = message.pointer_mut("/params/arguments") {
            *arguments = json!({"text": "changed", "more": 1});
        }
    })
    .await;
    assert_eq!(gave(&run), json!({"text": "changed", "more": 1}));
    let changes = &run.steps[0].decisions[1].changes;
    let changes: Vec<_> = changes.iter().map(|change| change.name.as_str()).collect();
    assert_eq!(changes, ["arguments.text", "arguments.more"]);
    assert_eq!(world.service.asked()[0].1["params"]["arguments"]["text"], "changed");
    let tricks: [fn(&mut Value); 5] = [
        |message| {
            if let Some(name) = message.pointer_mut("/params/name") {
                *name = json!("drop_tables");
            }
        },
        |message| {
            if let Some(method) = message.get_mut("method") {
                *method = json!("resources/read");
            }
        },
        |message| {
            if let Some(params) = message.get_mut("params") {
                params["_meta"] = json!({});
            }
        },
        |message| {
            if let Some(params) = message.get_mut("params") {
                params["arguments"] = json!(["x"]);
            }
        },
        |message| {
            if message.get("result").is_some() {
                message["id"] = json!(2);
            }
        },
    ];
    for (number, trick) in tricks.into_iter().enumerate() {
        let (_, run) = changed(trick).await;
        assert_eq!(run.error.unwrap().code, "A2S343", "{number}");
    }
}

#[tokio::test]
async fn an_answer_that_a_guardian_changed_is_what_the_step_reads() {
    let (_, run) = changed(|message| {
        if let Some(content) = message.pointer_mut("/result/structuredContent/body") {
            *content = json!("redacted");
        }
    })
    .await;
    assert_eq!(gave(&run), json!("redacted"));
    let change = &run.steps[0].decisions[2].changes[0];
    assert_eq!(change.name, "message.result.structuredContent.body");
    assert_eq!(change.from, json!("(withheld)"), "what was taken away is in no record");
    let (_, failed) = changed(|message| {
        if let Some(result) = message.get_mut("result") {
            *result = json!({"isError": true, "content": [{"type": "text", "text": "kept back"}]});
        }
    })
    .await;
    let error = failed.error.unwrap();
    assert_eq!((error.code.as_str(), error.message.contains("kept back")), ("A2S361", true));
}

#[tokio::test]
async fn a_failed_call_cannot_be_made_to_succeed() {
    let world = World::new().await;
    publish(&world, "Note", &note(json!("x")));
    world.service.answer("/mcp", json!({}));
    let mut step = note(json!("x"));
    step["task"]["server"] = json!("https://api.example/tool");
    publish(&world, "Fails", &step);
    let failed = json!({"jsonrpc": "2.0", "id": 1, "result": {"isError": true}});
    world.service.answer("/tool", failed);
    world.guardian.decide(|question| {
        let mut modified = question.clone();
        match modified.pointer_mut("/params/message/result") {
            Some(result) => *result = json!({"structuredContent": {"body": "fine"}}),
            None => return allow(),
        }
        json!({"decision": "modify", "message": "m", "modifiedRequest": modified})
    });
    let app = world.open().await;
    let run = run(&app, "Fails", json!({})).await;
    assert_eq!(run.error.unwrap().code, "A2S343");
}

#[tokio::test]
async fn a_secret_argument_is_sent_and_told_to_nobody() {
    let world = World::new().await;
    publish(&world, "Note", &note(json!("my ${token}")));
    // What a guardian leaves in place stands for the true value.
    world.guardian.decide(|question| {
        let mut modified = question.clone();
        match modified.pointer_mut("/params/message/params/arguments") {
            Some(arguments) => arguments["more"] = json!(1),
            None => return allow(),
        }
        json!({"decision": "modify", "message": "m", "modifiedRequest": modified})
    });
    let app = world.open().await;
    let run = run(&app, "Note", json!({"token": "canarycore"})).await;
    assert_succeeded(&run);
    let sent = &world.service.asked()[0].1["params"]["arguments"];
    assert_eq!(*sent, json!({"text": "my canarycore", "more": 1}));
    let asked = world.guardian.asked();
    let asked: Vec<_> = asked.iter().map(Value::to_string).collect();
    assert_eq!(asked.len(), 6, "the changed call is asked about once more");
    assert!(asked[1].contains("my (secret)") && asked[4].contains("my (secret)"), "{asked:?}");
    let told = serde_json::to_string(&events(&app, run.id).await).unwrap();
    for text in asked.iter().chain([&told]) {
        assert!(!text.contains("canarycore"), "{text}");
    }
}

#[tokio::test]
async fn a_call_is_planned_asked_about_and_replayed() {
    let world = World::new().await;
    publish(&world, "Note", &note(json!("x")));
    let app = world.open().await;
    let body = json!({"name": "Note", "preview": true});
    let plan = call(&app, Method::POST, "/v1/plans", &[], body).await;
    assert_eq!(plan.status, StatusCode::OK, "{}", plan.body);
    let planned = plan.body.to_string();
    for words in [r#""format":"MCP""#, "https://api.example/mcp", "arguments.text"] {
        assert!(planned.contains(words), "{words} {planned}");
    }
    let asked = world.guardian.asked();
    let methods: Vec<_> = asked.iter().map(|asked| asked["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["steps/toolCallRequest", "protocols/MCP"]);
    assert!(asked.iter().all(|asked| {
        asked["params"]["context"]["capability"]["preview"] == true
            && asked["params"]["reasoning"].as_str().unwrap().starts_with("Preview")
    }));
    assert_eq!(world.service.asked().len(), 0, "nothing was sent");

    let run = run(&app, "Note", json!({})).await;
    assert_succeeded(&run);
    let before = (world.service.asked().len(), world.guardian.asked().len());
    let path = format!("/v1/executions/{}/replay", run.id);
    let replay = call(&app, Method::POST, &path, &[], json!({})).await;
    let replay: ReplayResponse = serde_json::from_value(replay.body).unwrap();
    assert!(replay.unchanged, "{:?}", replay.steps);
    assert_eq!((world.service.asked().len(), world.guardian.asked().len()), before);
}

#[tokio::test]
async fn without_a_guardian_the_record_says_so() {
    let mut world = World::new().await;
    world.config.guardian = crate::GuardianSettings::Off;
    publish(&world, "Note", &note(json!("x")));
    let app = world.open().await;
    let run = run(&app, "Note", json!({})).await;
    assert_succeeded(&run);
    let lines = transcript(&events(&app, run.id).await);
    let decided: Vec<_> = lines.iter().filter(|line| line.ends_with("unguarded")).collect();
    let expected = ["request", "mcp_outbound", "mcp_inbound", "result"];
    assert_eq!(
        decided,
        expected.map(|phase| format!("note: {phase} unguarded")).iter().collect::<Vec<_>>()
    );
}
