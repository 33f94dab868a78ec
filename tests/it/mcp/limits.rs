//! How many sessions there may be, and how long they last.

use std::time::Duration;

use mcp::Limits;
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};

use super::client::{Client, Heard, hello};
use super::everything;
use crate::harness::{RUNTIME, World};

/// How many sessions `a2s up` keeps for one principal, and for all callers without one together.
const OF_PRINCIPAL: usize = 64;
const OF_ANONYMOUS: usize = 16;

/// Tries to open one more session, in the words of a version.
async fn open(url: &str, version: &str, header: bool) -> Response {
    let request = crate::http::client().post(url).json(&hello(version, &json!({})));
    let request = request.header("accept", "application/json, text/event-stream");
    let request = match header {
        true => request.header("mcp-protocol-version", version),
        false => request,
    };
    request.send().await.unwrap()
}

#[test]
fn session_beyond_the_limit_is_told_to_retry() {
    let world = World::up(&[]);
    let (url, mcp) = (world.url().to_owned(), format!("{}mcp", world.url()));
    RUNTIME.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..OF_ANONYMOUS {
            clients.push(Client::open(&url, None, json!({})).await);
        }
        // `initialize` opens a session whatever version it names.
        for (version, header) in [("2025-11-25", false), ("2025-11-25", true), ("2026-07-28", true)]
        {
            let refused = open(&mcp, version, header).await;
            assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "{version}");
            assert!(refused.headers().contains_key("retry-after"), "{refused:?}");
            assert!(!refused.headers().contains_key("mcp-session-id"), "{refused:?}");
            let refused: Value = refused.json().await.unwrap();
            let words = refused["error"]["message"].as_str().unwrap();
            assert!(words.contains("too many sessions"), "{words}");
        }
        // Those that there are go on.
        let tools = clients[0].ask(1, "tools/list", json!({})).await;
        assert!(tools.answer["result"]["tools"].is_array(), "{tools:?}");
        clients[1].close().await;
        Client::open(&url, None, json!({})).await;
        assert_eq!(open(&mcp, "2025-11-25", false).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    });
}

#[test]
fn whoever_has_too_many_sessions_takes_no_place_of_another() {
    let world = World::up(&[]);
    let (url, owner) = (world.url().to_owned(), world.token());
    let made = world.a2s(&["tokens", "create", "maker", "--scope", "execute"]).exits(0).stdout;
    RUNTIME.block_on(async {
        let request = |token: Option<&str>| {
            let request = crate::http::client().post(format!("{url}mcp"));
            let request = request.header("accept", "application/json, text/event-stream");
            let request = request.json(&hello("2025-11-25", &json!({})));
            match token {
                Some(token) => request.bearer_auth(token),
                None => request,
            }
        };
        for (token, sessions) in [(Some(made.trim()), OF_PRINCIPAL), (None, OF_ANONYMOUS)] {
            for _ in 0..sessions {
                assert_eq!(request(token).send().await.unwrap().status(), StatusCode::OK);
            }
            let refused = request(token).send().await.unwrap();
            assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        }
        Client::open(&url, Some(&owner), json!({})).await;
    });
}

#[test]
fn a_session_is_its_openers_alone() {
    let world = World::up(&[]);
    let (url, owner) = (world.url().to_owned(), world.token());
    let made = world.a2s(&["tokens", "create", "maker", "--scope", "execute"]).exits(0).stdout;
    RUNTIME.block_on(async {
        let client = Client::open(&url, Some(&owner), json!({})).await;
        for other in [Some(made.trim()), None, Some("wrong")] {
            let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
            let taken = client.shown(other).post(&ping).await;
            assert_eq!(taken.status(), StatusCode::NOT_FOUND, "{other:?}");
        }
        client.ask(2, "tools/list", json!({})).await;
    });
}

#[test]
fn of_many_that_come_at_once_no_more_are_taken() {
    let limits = Limits { sessions: 3, ..Limits::default() };
    let url = everything::serve(limits);
    RUNTIME.block_on(async {
        let opening = (0..40).map(|_| open(&url, "2025-11-25", false));
        let opened = futures::future::join_all(opening).await;
        let taken = opened.iter().filter(|response| response.status() == StatusCode::OK).count();
        assert!(taken <= 3, "{taken}");
    });
}

#[test]
fn a_session_in_which_nothing_happens_ends() {
    let limits = Limits { idle: Duration::from_millis(50), ..Limits::default() };
    let url = everything::serve(limits);
    RUNTIME.block_on(async {
        let opened = open(&url, "2025-11-25", false).await;
        assert_eq!(opened.status(), StatusCode::OK);
        let session = opened.headers()["mcp-session-id"].clone();
        let http = crate::http::client();
        let in_session = |request: reqwest::RequestBuilder| {
            let request = request.header("mcp-session-id", session.clone());
            let request = request.header("accept", "application/json, text/event-stream");
            request.header("mcp-protocol-version", "2025-11-25").send()
        };
        // What the server says by itself ends with the session, unless it has ended already.
        let told = in_session(http.get(&url)).await.unwrap();
        if told.status() == StatusCode::OK {
            assert_eq!(Heard::of(told).next().await, None);
        }
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        // It is forgotten a moment after it has ended.
        loop {
            let late = in_session(http.post(&url).json(&ping)).await.unwrap().status();
            if late == StatusCode::NOT_FOUND {
                break;
            }
            assert_eq!(late, StatusCode::INTERNAL_SERVER_ERROR);
        }
    });
}
