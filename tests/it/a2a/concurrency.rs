//! Many messages at the same time: none is lost, and what there is no room for is told so.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{SLOW, call, gated, old, request};
use crate::harness::{RUNTIME, World};
use crate::http;

const MESSAGES: usize = 200;
const CLIENTS: usize = 8;
/// The most turns that are taken at once, and the most tasks of one principal that are kept.
const MAX_TURNS: usize = 64;
const MAX_TASKS: usize = 64;

/// The answers to many messages, which several clients send at once.
async fn say(world: &World, text: &str, blocking: bool, count: usize) -> Vec<Value> {
    let clients: Vec<_> = (0..CLIENTS).map(|_| http::client()).collect();
    let (url, token) = (format!("{}a2a", world.url()), world.token());
    let messages = (0..count).map(async |number| {
        let mut message = old(text);
        message["message"]["messageId"] = json!(format!("m-{number}"));
        message["configuration"] = json!({ "blocking": blocking });
        let body = request("message/send", &message).to_string();
        let client = &clients[number % CLIENTS];
        let answer = client.post(&url).bearer_auth(&token).body(body).send().await.unwrap();
        answer.json::<Value>().await.unwrap()
    });
    futures::future::join_all(messages).await
}

fn ids<'a>(answers: impl IntoIterator<Item = &'a Value>) -> BTreeSet<String> {
    let id = |answer: &Value| answer["result"]["id"].as_str().map(str::to_owned);
    answers.into_iter().filter_map(id).collect()
}

#[test]
fn each_concurrent_message_is_a_task_or_gets_503() {
    let (world, gate) = gated(&["--durability", "normal"]);
    // While nothing ends, there is room for so many and no more.
    let first = RUNTIME.block_on(say(&world, "meditate in silence", false, MESSAGES));
    let mut tasks = ids(&first);
    assert_eq!(tasks.len(), MAX_TURNS);
    for answer in first.iter().filter(|answer| answer.get("error").is_some()) {
        assert_eq!(answer["error"]["code"], -32000, "{answer}");
        assert_eq!(answer["error"]["data"][0]["reason"], "TOO_MANY_TASKS", "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("try again"), "{answer}");
    }
    gate.add_permits(1);
    // Whoever is told to come again does, until all are done.
    while tasks.len() < MESSAGES {
        let more =
            RUNTIME.block_on(say(&world, "meditate in silence", true, MESSAGES - tasks.len()));
        for answer in &more {
            let done = answer["result"]["status"]["state"] == "completed";
            let busy = answer["error"]["data"][0]["reason"] == "TOO_MANY_TASKS";
            assert!(done || busy, "{answer}");
        }
        tasks.extend(ids(&more));
    }
    // Those that were begun first are over when nothing more happens to them, and have made room for
    // later ones then.
    for id in &tasks {
        let id = json!({ "id": id });
        loop {
            let told = call(&world, "tasks/get", &id);
            if told["result"]["status"]["state"] == "completed" {
                break;
            }
            if let Some(error) = told.get("error") {
                assert_eq!(error["data"][0]["reason"], "TASK_NOT_FOUND", "{told}");
                break;
            }
        }
    }
    assert_eq!(world.standin(SLOW).requests(), MESSAGES, "each was done, and once");
}

#[test]
fn oldest_ended_tasks_make_room() {
    let mut world = World::down(&[]);
    let rules = "version: 1\ndefault: allow\nrules: [{id: no, on: message/send, when: has(params.payload.params), decision: deny}]\n";
    let policy = world.write("policy.yaml", rules);
    world.add_flags(&["--policy", &policy]);
    world.start();
    let mut told = Vec::new();
    for _ in 0..MAX_TASKS + 20 {
        let task = call(&world, "message/send", &old("tell me a joke"))["result"].take();
        assert_eq!(task["status"]["state"], "rejected", "{task}");
        told.push(json!({"id": task["id"]}));
    }
    let known = |id: &Value| call(&world, "tasks/get", id).get("result").is_some();
    let kept: Vec<bool> = told.iter().map(known).collect();
    assert_eq!(kept.iter().filter(|kept| **kept).count(), MAX_TASKS);
    assert!(kept[20..].iter().all(|kept| *kept), "{kept:?}");
}
