//! What is left of a session that has ended.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::yield_now;
use tokio::time::timeout;
use uuid::Uuid;

use super::*;
use crate::{Limits, ListedTools, over_http};
use agent::ServiceClient;

/// No more than a bound: nothing waits for it that goes well.
const LONG: Duration = Duration::from_secs(30);

#[tokio::test]
async fn nothing_waits_for_a_session_that_has_ended() {
    let client = ServiceClient::new(&"http://127.0.0.1:1".parse().unwrap(), None).unwrap();
    let outside = ClockAndIds::new(|| jiff::Timestamp::UNIX_EPOCH, Uuid::nil);
    let (facts, stop) = (CapabilityCache::default(), CancellationToken::new());
    let wanted = vec![ListedTools::ReadOnly];
    let listing = ToolListing::start(wanted, client.clone(), facts.clone(), stop.clone());
    let guard = Guard::new(None, outside.clone());
    let shared = McpServerState::new(client.clone().into(), guard, outside, facts, listing.clone());
    let shared = Arc::new(shared);
    let router = over_http(move || McpServer::new(Arc::clone(&shared)), Limits::default(), stop);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });

    let http = client.http();
    let say = async |session: Option<&str>, message: Value| {
        let request = http.post(&url).header("accept", "application/json, text/event-stream");
        let request = match session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        };
        let response = request.json(&message).send().await.unwrap();
        assert!(response.status().is_success(), "{response:?}");
        response
    };
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    });
    let opened = say(None, hello).await;
    let session = opened.headers()["mcp-session-id"].to_str().unwrap();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    say(Some(session), ready).await;
    let watched = async {
        while listing.snapshot.receiver_count() == 0 {
            yield_now().await;
        }
    };
    timeout(LONG, watched).await.expect("the session waits for changes");
    let ended = http.delete(&url).header("mcp-session-id", session).send().await.unwrap();
    assert!(ended.status().is_success(), "{ended:?}");
    timeout(LONG, listing.snapshot.closed()).await.expect("nobody waits for changes any more");
}
