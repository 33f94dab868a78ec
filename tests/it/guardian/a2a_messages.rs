//! What a guardian of others is asked about messages between agents.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Heard, faults, listen};
use crate::harness::World;
use crate::http;

/// The hooks of A2A.
const HOOKS: [&str; 5] =
    ["message/send", "message/stream", "task/get", "tasks/cancel", "tasks/resubscribe"];

fn ask(world: &World, method: &str, params: &Value) -> String {
    let token = format!("Bearer {}", world.token());
    let headers = [("authorization", token.as_str()), ("content-type", "application/json")];
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let url = format!("{}a2a", world.url());
    let (status, body) = http::send("POST", &url, &headers, Some(body.to_string()));
    assert_eq!(status, 200, "{body}");
    body
}

/// Holds all that was heard of agents to the schema, of whose official file these definitions do not
/// compile, and gives the hooks and the ways that messages went: from and to.
fn check(heard: &Heard) -> BTreeSet<(String, String)> {
    let heard = heard.lock().unwrap();
    let mut seen = BTreeSet::new();
    for message in heard.iter() {
        let method = message["method"].as_str().unwrap();
        if !HOOKS.contains(&method) {
            continue;
        }
        let repaired = faults("aos_schema.repaired.json", "ASOPRequest", message);
        assert_eq!(repaired, [""; 0], "{message}");
        let context = &message["params"]["context"];
        let way = format!("{} to {}", context["from"]["role"], context["to"]["role"]);
        seen.insert((method.to_owned(), way.replace('"', "")));
    }
    seen
}

#[test]
fn every_message_of_other_agents_is_valid_aos() {
    let (url, heard) = listen();
    let world = World::up(&["--guardian", &url]);
    let old = |text: &str| json!({"message": {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": text}]}});
    let new = |text: &str| json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}});
    ask(&world, "message/send", &old("tell me a joke"));
    ask(&world, "message/stream", &old("tell me a joke"));
    ask(&world, "SendStreamingMessage", &new("tell me a joke"));
    let asks = ask(&world, "SendMessage", &new("tweet the weather in Paris"));
    let asks: Value = serde_json::from_str(&asks).unwrap();
    let id = json!({"id": asks["result"]["task"]["id"]});
    for method in ["tasks/get", "GetTask", "ListTasks", "tasks/resubscribe", "SubscribeToTask"] {
        ask(&world, method, &id);
    }
    for method in ["CancelTask", "tasks/cancel"] {
        ask(&world, method, &id);
    }
    let seen = check(&heard);
    for hook in HOOKS {
        for way in ["client to server", "server to client"] {
            assert!(seen.contains(&(hook.to_owned(), way.to_owned())), "{hook} {way}: {seen:?}");
        }
    }
}

#[test]
fn every_message_to_another_agent_is_valid_aos() {
    let (url, heard) = listen();
    let peer = World::up(&[]);
    let mut world = World::down(&["--guardian", &url]);
    let token = world.write("peer.token", &peer.token());
    let peers = format!("[[agent.peers]]\nurl = '{}'\ntoken-file = '{token}'\n", peer.url());
    let config = world.write("a2s.toml", &peers);
    world.add_flags(&["--config", &config]);
    world.start();
    // What is published here is withdrawn, so that the peer is asked.
    world.a2s(&["yank", "GetJoke@1.0.0"]).exits(0);
    world.a2s(&["chat", "tell me a random joke with setup and punchline", "--yes", "--json"]);
    let ways: BTreeSet<_> = check(&heard).into_iter().map(|(_, way)| way).collect();
    assert_eq!(ways, ["client to server", "server to client"].map(str::to_owned).into());
}
