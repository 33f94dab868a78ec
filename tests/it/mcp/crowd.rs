//! Many calls at the same time, and clients that go away.

use std::sync::Arc;

use axum::Router;
use serde_json::{Value, json};
use test_support::mock_services::{self, MockServiceBuilder};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::client::{Client, LONG};
use crate::harness::{RUNTIME, World};
use crate::http;

const CALLS: u64 = 500;
const SESSIONS: u64 = 10;
/// How much the services may grow by while that many calls are under way, in MiB.
const MOST_GROWTH: u64 = 400;

#[test]
fn of_five_hundred_calls_at_the_same_time_none_is_lost() {
    let mut world = World::down(&["--durability", "normal", "--consent", "off"]);
    // That no call is lost is what is tried, and not how quick a busy machine is.
    let patient = "[[guardian]]\nurl = \"builtin\"\ntimeout = \"2m\"\n";
    let config = world.write("a2s.toml", patient);
    world.add_flags(&["--config", &config]);
    world.start();
    let (url, token) = (world.url().to_owned(), world.token());
    let memory = || world.memory().map(|bytes| bytes >> 20);
    let before = memory();
    RUNTIME.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..SESSIONS {
            clients.push(Client::open(&url, Some(&token), json!({})).await);
        }
        let calls = (0..CALLS).map(async |number| {
            let client = &clients[usize::try_from(number % SESSIONS).unwrap()];
            let text = format!("number {number}");
            let arguments = json!({"name": "PostTweet", "inputs": {"text": text}});
            let ran = client.call(number + 1, "execute_capability", arguments).await;
            assert_eq!(ran.content()["output"]["tweet_text"], text, "{ran:?}");
            ran.content()["run"].as_str().unwrap().to_owned()
        });
        let runs = futures::future::join_all(calls).await;
        let runs: std::collections::BTreeSet<_> = runs.into_iter().collect();
        assert_eq!(runs.len(), usize::try_from(CALLS).unwrap());
    });
    let mut texts: Vec<_> = world.standin("api.twitter.com").received();
    texts.sort_by(|one, other| one.body.cmp(&other.body));
    texts.dedup_by(|one, other| one.body == other.body);
    assert_eq!(texts.len(), usize::try_from(CALLS).unwrap(), "each was sent, and once");
    let most = world.most_memory().map(|bytes| bytes >> 20);
    eprintln!("{CALLS} calls in {SESSIONS} sessions: {before:?} MiB before, {most:?} at the most");
    if let (Some(before), Some(most)) = (before, most) {
        assert!(most - before < MOST_GROWTH, "{before} MiB became {most} MiB");
    }
}

/// A world whose dog service says when it was asked, and answers never.
fn silent() -> (World, Arc<Notify>) {
    let asked = Arc::new(Notify::new());
    let told = Arc::clone(&asked);
    let router = Router::new().fallback(move || {
        told.notify_one();
        std::future::pending::<()>()
    });
    let dogs = MockServiceBuilder::for_host("dogapi.dog", router);
    let mut world = World::among(mock_services::all_with(dogs), &[]);
    world.start();
    (world, asked)
}

/// How the only run ended. It waits for that, but not for ever.
fn how_it_ended(world: &World) -> Value {
    let (token, http) = (world.token(), http::client());
    let get = async |path: &str| {
        let request = http.get(format!("{}v1/executions{path}", world.url()));
        request.bearer_auth(&token).send().await.unwrap().text().await.unwrap()
    };
    let ended = async {
        let runs: Value = serde_json::from_str(&get("").await).unwrap();
        let id = runs["executions"][0]["id"].as_str().unwrap();
        // The stream of its events ends when it does.
        get(&format!("/{id}/events")).await;
        let run: Value = serde_json::from_str(&get(&format!("/{id}")).await).unwrap();
        run["status"].clone()
    };
    RUNTIME.block_on(async { timeout(LONG, ended).await }).expect("the run ends")
}

/// Begins a run, and gives the connection that waits for its answer.
async fn begin(client: &Client, asked: &Notify) -> reqwest::Response {
    let call = json!({
        "jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {"name": "execute_capability", "arguments": {"name": "ListDogBreeds"}},
    });
    let response = client.post(&call).await;
    asked.notified().await;
    response
}

#[test]
fn a_call_that_is_cancelled_stops_its_run() {
    let (world, asked) = silent();
    let (url, token) = (world.url().to_owned(), world.token());
    let (client, open) = RUNTIME.block_on(async {
        let client = Client::open(&url, Some(&token), json!({})).await;
        let open = (client.listen().await, begin(&client, &asked).await);
        client.tell("notifications/cancelled", json!({"requestId": 7})).await;
        (client, open)
    });
    assert_eq!(how_it_ended(&world), "cancelled");
    // Until then the client listened: going away would have stopped it, too.
    drop((client, open));
}

#[test]
fn a_client_that_disappears_stops_its_run() {
    let (world, asked) = silent();
    let (url, token) = (world.url().to_owned(), world.token());
    RUNTIME.block_on(async {
        let client = Client::open(&url, Some(&token), json!({})).await;
        drop(begin(&client, &asked).await);
    });
    assert_eq!(how_it_ended(&world), "cancelled");
}

#[test]
fn the_end_of_standard_input_stops_its_run() {
    let (world, asked) = silent();
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    });
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let call = json!({
        "jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {"name": "execute_capability", "arguments": {"name": "ListDogBreeds"}},
    });
    let mut bridge = world.bridge();
    bridge.say(&hello);
    assert_eq!(bridge.hear()["result"]["serverInfo"]["name"], "a2s");
    bridge.say(&ready);
    bridge.say(&call);
    RUNTIME.block_on(asked.notified());
    let ended = bridge.end();
    assert!(ended.success(), "{ended:?}");
    assert_eq!(how_it_ended(&world), "cancelled");
}

#[test]
fn a_bridge_to_nowhere_says_what_to_do() {
    let world = World::down(&[]);
    let ran = world.a2s(&["mcp"]).exits(4);
    assert!(ran.stderr.contains("Start `a2s up`"), "{ran:?}");
}
