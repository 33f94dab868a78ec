//! An MCP client that says what it is told to say, be it right or wrong.

use std::time::Duration;

use axum::body::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::time::timeout;

/// The protocol that it speaks: the newest one with sessions.
const VERSION: &str = "2025-11-25";
/// The first one without.
const STATELESS: &str = "2026-07-28";
/// No more than a bound: nothing waits for it that goes well.
pub(crate) const LONG: Duration = Duration::from_secs(60);
const ACCEPTED: &str = "application/json, text/event-stream";

/// A session.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
    token: Option<String>,
    session: String,
}

/// What came back: the answer, and what came before it.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) answer: Value,
    pub(crate) before: Vec<Value>,
}

impl Told {
    /// The text of a tool's result.
    pub(crate) fn text(&self) -> &str {
        self.answer["result"]["content"][0]["text"].as_str().unwrap()
    }

    /// Its structured content.
    pub(crate) fn content(&self) -> &Value {
        &self.answer["result"]["structuredContent"]
    }

    /// Whether it is an error that a model sees.
    pub(crate) fn is_error(&self) -> bool {
        self.answer["result"]["isError"] == true
    }
}

impl Client {
    /// Opens a session with these capabilities of a client.
    pub(crate) async fn open(url: &str, token: Option<&str>, capabilities: Value) -> Self {
        let mut client = Self {
            http: crate::http::client(),
            url: format!("{url}mcp"),
            token: token.map(str::to_owned),
            session: String::new(),
        };
        let response = client.post(&hello(VERSION, &capabilities)).await;
        client.session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let told = read(response, &json!(0), async |_| {}).await;
        assert_eq!(told.answer["result"]["serverInfo"]["name"], "a2s", "{told:?}");
        client.tell("notifications/initialized", json!({})).await;
        client
    }

    /// The same session by somebody who shows another token.
    pub(crate) fn shown(&self, token: Option<&str>) -> Self {
        Self { token: token.map(str::to_owned), ..self.clone() }
    }

    /// Posts a message.
    pub(crate) async fn post(&self, message: &Value) -> Response {
        self.post_bytes(message.to_string().into_bytes()).await
    }

    /// Posts anything.
    pub(crate) async fn post_bytes(&self, body: Vec<u8>) -> Response {
        let request = self.http.post(&self.url).body(body);
        let request = request.header(CONTENT_TYPE, "application/json").header(ACCEPT, ACCEPTED);
        self.known(request).send().await.unwrap()
    }

    /// Puts on who calls, and in which session.
    fn known(&self, request: RequestBuilder) -> RequestBuilder {
        let request = match self.session.as_str() {
            "" => request,
            session => {
                request.header("mcp-session-id", session).header("mcp-protocol-version", VERSION)
            }
        };
        match &self.token {
            Some(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
            None => request,
        }
    }

    /// What the server says by itself.
    pub(crate) async fn listen(&self) -> Heard {
        let request = self.http.get(&self.url).header(ACCEPT, "text/event-stream");
        let response = self.known(request).send().await.unwrap();
        assert_eq!(response.status(), 200);
        Heard::of(response)
    }

    /// Ends the session.
    pub(crate) async fn close(&self) {
        let response = self.known(self.http.delete(&self.url)).send().await.unwrap();
        // Official SDKs take 200 and 204 for the end of a session, and no other status.
        assert_eq!(response.status(), 204, "{response:?}");
    }

    /// Tells something that has no answer.
    pub(crate) async fn tell(&self, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        assert_eq!(self.post(&message).await.status(), 202);
    }

    /// Asks, and answers what the server asks meanwhile as `person` does.
    pub(crate) async fn ask_with(
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

    pub(crate) async fn ask(&self, id: u64, method: &str, params: Value) -> Told {
        self.ask_with(id, method, params, async |asked: &Value| panic!("asked {asked}")).await
    }

    /// Calls a tool.
    pub(crate) async fn call(&self, id: u64, tool: &str, arguments: Value) -> Told {
        self.ask(id, "tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Calls a tool whose run has to be confirmed, and confirms it when that is asked for.
    pub(crate) async fn call_confirmed(&self, id: u64, tool: &str, mut arguments: Value) -> Told {
        let asked = self.call(id, tool, arguments.clone()).await;
        assert!(asked.is_error() && asked.text().contains("the user must confirm it"), "{asked:?}");
        let error = &asked.answer["result"]["_meta"]["a2s/error"];
        arguments["a2s_confirm"] = error["details"]["a2s_confirm"].clone();
        self.call(id, tool, arguments).await
    }
}

/// A client of the protocol without sessions.
#[derive(Debug, Clone)]
pub(crate) struct Stateless {
    http: reqwest::Client,
    url: String,
    token: String,
    capabilities: Value,
}

impl Stateless {
    pub(crate) fn new(url: &str, token: &str, capabilities: Value) -> Self {
        let (http, url) = (crate::http::client(), format!("{url}mcp"));
        Self { http, url, token: token.to_owned(), capabilities }
    }

    /// Posts a request.
    pub(crate) async fn post(&self, id: u64, method: &str, mut params: Value) -> Response {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
        });
        let mut request = self.http.post(&self.url).bearer_auth(&self.token);
        if let Some(name) = params["name"].as_str() {
            request = request.header("mcp-name", name);
        }
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let request = request.header(ACCEPT, ACCEPTED).header("mcp-protocol-version", STATELESS);
        request.header("mcp-method", method).json(&body).send().await.unwrap()
    }

    /// Calls a tool, and gives its result.
    pub(crate) async fn call(&self, tool: &str, arguments: Value, more: Value) -> Value {
        let mut params = json!({"name": tool, "arguments": arguments});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let response = self.post(1, "tools/call", params).await;
        let is_json = response.headers()[CONTENT_TYPE] == "application/json";
        let mut answer: Value = match is_json {
            true => response.json().await.unwrap(),
            false => read(response, &json!(1), async |_| {}).await.answer,
        };
        answer["result"].take()
    }
}

/// The request that opens a session.
pub(crate) fn hello(version: &str, capabilities: &Value) -> Value {
    json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        },
    })
}

/// Reads a stream up to the answer.
async fn read(response: Response, id: &Value, hear: impl AsyncFn(&Value)) -> Told {
    let mut before = Vec::new();
    let mut heard = Heard::of(response);
    loop {
        let message = heard.next().await.expect("an answer comes");
        if message["id"] == *id && message.get("method").is_none() {
            return Told { answer: message, before };
        }
        hear(&message).await;
        before.push(message);
    }
}

/// The messages of a stream of events.
pub(crate) struct Heard {
    chunks: BoxStream<'static, reqwest::Result<Bytes>>,
    buffer: String,
}

impl Heard {
    pub(crate) fn of(response: Response) -> Self {
        Self { chunks: response.bytes_stream().boxed(), buffer: String::new() }
    }

    /// The next message; none when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some((block, rest)) = self.buffer.split_once("\n\n") {
                let data = block.lines().find_map(|line| line.strip_prefix("data: "));
                let message = data.filter(|data| !data.is_empty()).map(serde_json::from_str);
                self.buffer = rest.to_owned();
                if let Some(message) = message {
                    return Some(message.unwrap());
                }
            }
            let chunk = timeout(LONG, self.chunks.next()).await.expect("somebody says something");
            let chunk = chunk?.unwrap();
            self.buffer.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next message with this method.
    pub(crate) async fn until(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().await.expect("it is told");
            if message["method"] == method {
                return message;
            }
        }
    }
}
