//! An MCP client that says what it is told to say, be it right or wrong.

use futures::StreamExt as _;
use reqwest::Response;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use serde_json::{Value, json};

/// The protocol that it speaks: the newest one with sessions.
const VERSION: &str = "2025-11-25";

/// A session.
#[derive(Debug, Clone)]
pub(super) struct Client {
    http: reqwest::Client,
    url: String,
    token: Option<String>,
    session: String,
}

/// What came back: the answer, and what came before it.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) answer: Value,
    pub(super) before: Vec<Value>,
}

impl Told {
    /// The text of a tool's result.
    pub(super) fn text(&self) -> &str {
        self.answer["result"]["content"][0]["text"].as_str().unwrap()
    }

    /// Its structured content.
    pub(super) fn content(&self) -> &Value {
        &self.answer["result"]["structuredContent"]
    }

    /// Whether it is an error that a model sees.
    pub(super) fn is_error(&self) -> bool {
        self.answer["result"]["isError"] == true
    }
}

impl Client {
    /// Opens a session with these capabilities of a client.
    pub(super) async fn open(url: &str, token: Option<&str>, capabilities: Value) -> Self {
        let mut client = Self {
            http: crate::http::client(),
            url: format!("{url}mcp"),
            token: token.map(str::to_owned),
            session: String::new(),
        };
        let hello = json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {
                "protocolVersion": VERSION,
                "capabilities": capabilities,
                "clientInfo": {"name": "test", "version": "1"},
            },
        });
        let response = client.post(&hello).await;
        client.session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let told = read(response, &json!(0), async |_| {}).await;
        assert_eq!(told.answer["result"]["serverInfo"]["name"], "a2s", "{told:?}");
        client.tell("notifications/initialized", json!({})).await;
        client
    }

    /// Posts a message.
    pub(super) async fn post(&self, message: &Value) -> Response {
        self.post_bytes(message.to_string().into_bytes()).await
    }

    /// Posts anything.
    pub(super) async fn post_bytes(&self, body: Vec<u8>) -> Response {
        let request = self.http.post(&self.url).body(body);
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
        let request = match self.session.as_str() {
            "" => request,
            session => {
                request.header("mcp-session-id", session).header("mcp-protocol-version", VERSION)
            }
        };
        let request = match &self.token {
            Some(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
            None => request,
        };
        request.send().await.unwrap()
    }

    /// Tells something that has no answer.
    pub(super) async fn tell(&self, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        assert_eq!(self.post(&message).await.status(), 202);
    }

    /// Asks, and answers what the server asks meanwhile as `person` does.
    pub(super) async fn ask_with(
        &self,
        id: u64,
        method: &str,
        params: Value,
        person: impl AsyncFn(&Value) -> Value,
    ) -> Told {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let response = self.post(&message).await;
        assert_eq!(response.status(), 200);
        read(response, &json!(id), async |asked: &Value| {
            if asked.get("id").is_some() && asked.get("method").is_some() {
                let result = person(&asked["params"]).await;
                let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
                assert_eq!(self.post(&answer).await.status(), 202);
            }
        })
        .await
    }

    pub(super) async fn ask(&self, id: u64, method: &str, params: Value) -> Told {
        self.ask_with(id, method, params, async |asked: &Value| panic!("asked {asked}")).await
    }

    /// Calls a tool.
    pub(super) async fn call(&self, id: u64, tool: &str, arguments: Value) -> Told {
        self.ask(id, "tools/call", json!({"name": tool, "arguments": arguments})).await
    }
}

/// Reads a stream up to the answer.
async fn read(response: Response, id: &Value, hear: impl AsyncFn(&Value)) -> Told {
    let mut before = Vec::new();
    let mut buffer = String::new();
    let mut chunks = response.bytes_stream();
    loop {
        while let Some((block, rest)) = buffer.split_once("\n\n") {
            let data = block.lines().find_map(|line| line.strip_prefix("data: "));
            let message: Option<Value> = data
                .filter(|data| !data.is_empty())
                .map(|data| serde_json::from_str(data).unwrap());
            buffer = rest.to_owned();
            let Some(message) = message else { continue };
            if message["id"] == *id && message.get("method").is_none() {
                return Told { answer: message, before };
            }
            hear(&message).await;
            before.push(message);
        }
        let chunk = chunks.next().await.expect("an answer comes").unwrap();
        buffer.push_str(std::str::from_utf8(&chunk).unwrap());
    }
}
