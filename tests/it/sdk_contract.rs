//! The contract of the SDKs: exchanges with the real services, which each SDK replays. `sdk/README.md` has
//! the format.

#![expect(clippy::needless_pass_by_value, reason = "callers pass literals")]

mod administration;
mod broken_streams;
mod conversations;
mod documents;
mod failures;
mod lies;
mod runs;
mod searches;
mod tokens;

use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::{get, post};
use reqwest::Method;
use serde_json::{Map, Value, json};
use test_support::mock_services::{self, MockServiceBuilder};
use test_support::{fixture_document, http_step};

use crate::examples::Stable;
use crate::harness::{RUNTIME, World, assert_page};

/// The host of the service of the test.
const HOST: &str = "contract.example";
/// A host that no service answers for.
const DEAD_HOST: &str = "dead.example";
/// The number of idempotency keys so far: each start has one of its own.
static KEYS: AtomicU32 = AtomicU32::new(0);
const POLICY: &str = "version: 1
default: allow
rules:
  - {id: dogs, on: toolCallRequest, tool: ListDogBreeds.*, decision: approve, message: Dogs need a person.}
  - {id: grammar, on: toolCallRequest, tool: CheckGrammar.*, decision: deny, message: Grammar is private.}
";
const CONFIG: &str = "[tenants.\"batch\"]\nmax-runs = 1\nmax-queued = 0\n";

/// One request and its response.
struct Exchange {
    recorded: Value,
    status: u16,
    /// The body of the response: null when it has none, a string when it is no JSON.
    body: Value,
}

/// Records the calls of one file.
struct Recorder<'w> {
    world: &'w World,
    /// The token of the requests.
    token: String,
    calls: Vec<Value>,
}

/// A request that an SDK sends.
struct Sent<'a> {
    method: Method,
    path: &'a str,
    headers: Vec<(&'a str, &'a str)>,
    body: Value,
}

impl<'a> Sent<'a> {
    fn new(method: Method, path: &'a str, body: Value) -> Self {
        Self { method, path, headers: Vec::new(), body }
    }

    fn get(path: &'a str) -> Self {
        Self::new(Method::GET, path, Value::Null)
    }

    fn post(path: &'a str, body: Value) -> Self {
        Self::new(Method::POST, path, body)
    }

    fn with(mut self, name: &'a str, value: &'a str) -> Self {
        self.headers.push((name, value));
        self
    }
}

impl<'w> Recorder<'w> {
    fn new(world: &'w World) -> Self {
        Self { world, token: world.token(), calls: Vec::new() }
    }

    /// Sends a request and records it with its response.
    fn exchange(&self, sent: &Sent<'_>) -> Exchange {
        let Sent { method, path, headers, body } = sent;
        let url = format!("{}{}", self.world.url(), path.trim_start_matches('/'));
        let mut request = crate::http::client().request(method.clone(), url);
        if self.token != "none" {
            request = request.bearer_auth(&self.token);
        }
        let streams = headers.iter().any(|(name, _)| *name == "accept");
        if !streams {
            request = request.header("accept", "application/json");
        }
        let mut shown = Map::new();
        shown.insert("accept".to_owned(), json!("application/json"));
        for (name, value) in headers {
            // A wildcard of the record is a value of its own here.
            let sent = if *value == "*" {
                format!("key-{}", KEYS.fetch_add(1, Ordering::Relaxed))
            } else {
                (*value).to_owned()
            };
            request = request.header(*name, sent);
            shown.insert((*name).to_owned(), json!(value));
        }
        let mut recorded = Map::new();
        recorded.insert("method".to_owned(), json!(method.as_str()));
        recorded.insert("path".to_owned(), json!(path));
        match body {
            Value::Null => {}
            Value::String(text) => {
                request = request.header("content-type", "application/yaml").body(text.clone());
                shown.insert("content-type".to_owned(), json!("application/yaml"));
                recorded.insert("text".to_owned(), json!(text));
            }
            body => {
                request = request.json(body);
                recorded.insert("body".to_owned(), body.clone());
            }
        }
        recorded.insert("headers".to_owned(), shown.into());
        let (status, kind, wait, text) = RUNTIME.block_on(async {
            let response = request.send().await.unwrap();
            let header = |name: &str| {
                response.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
            };
            let (kind, wait) = (header("content-type"), header("retry-after"));
            (response.status().as_u16(), kind, wait, response.text().await.unwrap())
        });
        let mut response = Map::new();
        response.insert("status".to_owned(), json!(status));
        let mut answered = Map::new();
        if let Some(kind) = &kind {
            answered.insert("content-type".to_owned(), json!(kind));
        }
        if let Some(wait) = wait {
            answered.insert("retry-after".to_owned(), json!(wait));
        }
        response.insert("headers".to_owned(), answered.into());
        let is_json = kind.as_deref().is_some_and(|kind| kind.contains("json"));
        let body = match (text.is_empty(), is_json) {
            (true, _) => Value::Null,
            (false, true) => {
                let body: Value = serde_json::from_str(&text).unwrap();
                response.insert("body".to_owned(), body.clone());
                body
            }
            (false, false) => {
                let text = json!(rounded_events(&text));
                response.insert("text".to_owned(), text.clone());
                text
            }
        };
        let recorded = json!({"request": recorded, "response": response});
        Exchange { recorded, status, body }
    }

    /// Returns when the slow operation of this method has got its request.
    fn wait_for_service(&self, method: &str) {
        let service = self.world.standin(HOST);
        while !service.received().iter().any(|it| it.method == method && it.target == "/slow") {
            std::thread::yield_now();
        }
    }

    /// Records a call with one request, whose result is the body of the response, or its error.
    #[track_caller]
    fn call(&mut self, name: &str, call: &str, arguments: Value, sent: &Sent<'_>) -> Value {
        let exchange = self.exchange(sent);
        assert!(exchange.status < 400, "{name}: {} {}", exchange.status, exchange.body);
        self.record(name, call, arguments, &[&exchange], json!({"result": exchange.body}));
        exchange.body
    }

    /// The same for a call that fails with an error of this class.
    #[track_caller]
    fn fails(&mut self, name: &str, class: &str, call: (&str, Value), sent: &Sent<'_>) -> Value {
        let exchange = self.exchange(sent);
        assert!(exchange.status >= 400, "{name}: {} {}", exchange.status, exchange.body);
        let error = problem_error(class, &exchange.body);
        self.record(name, call.0, call.1, &[&exchange], json!({"error": error}));
        exchange.body
    }

    /// Records a call with these exchanges. `ending` has `result` or `error`, and perhaps `then`.
    fn record(
        &mut self,
        name: &str,
        call: &str,
        arguments: Value,
        exchanges: &[&Exchange],
        ending: Value,
    ) {
        let is_good = exchanges.last().is_none_or(|last| last.status < 400);
        assert!(is_good || ending["result"].is_null(), "{name}: {ending}");
        let exchanges: Vec<_> =
            exchanges.iter().map(|exchange| exchange.recorded.clone()).collect();
        let mut recorded = json!({
            "name": name, "call": call, "arguments": arguments, "exchanges": exchanges,
        });
        recorded.as_object_mut().unwrap().extend(ending.as_object().unwrap().clone());
        self.calls.push(recorded);
    }

    /// Adds a member to the last call: the settings of its registry, or its environment.
    fn add(&mut self, member: &str, value: Value) {
        self.calls.last_mut().unwrap()[member] = value;
    }

    /// Compares the file with what was recorded, or writes it.
    fn finish(self, file: &str) {
        assert!(!self.calls.is_empty());
        let mut stable = Stable::default();
        let calls = stable_texts(rounded(self.calls.into()), &mut stable);
        let text = stable.text(&serde_json::to_string(&calls).unwrap());
        let stable: Value = serde_json::from_str(&text).unwrap();
        let page = serde_json::to_string_pretty(&stable).unwrap() + "\n";
        assert_page(&format!("sdk/contract/{file}.json"), &page);
    }
}

/// A call on what another call gave, for `then`.
fn then(call: &str, arguments: Value, exchanges: &[&Exchange], ending: Value) -> Value {
    let exchanges: Vec<_> = exchanges.iter().map(|exchange| exchange.recorded.clone()).collect();
    let mut recorded = json!({"call": call, "arguments": arguments, "exchanges": exchanges});
    recorded.as_object_mut().unwrap().extend(ending.as_object().unwrap().clone());
    recorded
}

/// The error that an SDK makes of a problem.
fn problem_error(class: &str, problem: &Value) -> Value {
    let mut error = json!({"class": class, "code": problem["code"], "status": problem["status"]});
    for member in ["missing", "differences", "diagnostics"] {
        if !problem[member].is_null() {
            error[member] = problem[member].clone();
        }
    }
    error
}

/// The error that an SDK makes of a run that did not succeed.
fn run_error(class: &str, run: &Value) -> Value {
    let mut error = json!({"class": class, "code": run["error"]["code"], "run": run["id"]});
    if !run["approvals"].is_null() {
        error["approvals"] = run["approvals"].clone();
    }
    error
}

/// The search result as SDKs return it.
fn hits(response: &Value) -> Value {
    let metadata = &response["metadata"];
    let mut result = json!({"hits": response["capabilities"], "metadata": metadata});
    for (name, value) in [("nearest", &metadata["nearest"]), ("next", &response["next"])] {
        if !value.is_null() {
            result[name] = value.clone();
        }
    }
    result
}

/// An exchange whose connection ends before a response, for the same request.
fn cut(exchange: &Exchange) -> Exchange {
    let mut recorded = exchange.recorded.clone();
    recorded["response"] = json!({"cut": true});
    Exchange { recorded, status: 0, body: Value::Null }
}

/// An exchange with another response, for the same request.
fn answered_with(exchange: &Exchange, response: Value) -> Exchange {
    let mut recorded = exchange.recorded.clone();
    recorded["response"] = response;
    Exchange { recorded, status: 0, body: Value::Null }
}

/// An exchange whose response is this JSON, for the same request.
fn served(exchange: &Exchange, body: &Value) -> Exchange {
    let headers = json!({"content-type": "application/json"});
    answered_with(exchange, json!({"status": 200, "headers": headers, "body": body}))
}

/// The events of a stream.
fn events(stream: &Value) -> Vec<Value> {
    let text = stream.as_str().unwrap_or_default();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Fractions with two digits: processors differ in the last ones. Documents have none.
fn rounded(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(rounded).collect(),
        Value::Number(number) if number.is_f64() => {
            json!(number.as_f64().map(|number| (number * 100.0).round() / 100.0))
        }
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(name, value)| (name, rounded(value))).collect())
        }
        other => other,
    }
}

/// The same in the data of a stream of events.
fn rounded_events(text: &str) -> String {
    let line = |line: &str| match line.strip_prefix("data: ") {
        Some(data) => {
            let data: Value = serde_json::from_str(data).unwrap();
            format!("data: {}\n", rounded(data))
        }
        None => line.to_owned(),
    };
    text.split_inclusive('\n').map(line).collect()
}

/// The value with stable texts: what is within a text is not seen from outside.
fn stable_texts(value: Value, stable: &mut Stable) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(|item| stable_texts(item, stable)).collect(),
        Value::String(text) => Value::String(stable.text(&text)),
        Value::Object(members) => {
            let members = members.into_iter();
            Value::Object(
                members.map(|(name, value)| (name, stable_texts(value, stable))).collect(),
            )
        }
        other => other,
    }
}

/// A capability with one request to the service of the test.
fn capability(name: &str, version: &str, description: &str, call: &str, outputs: Value) -> String {
    let host = if name == "CallDeadHost" { DEAD_HOST } else { HOST };
    let inputs = if call.contains("{city}") { json!({"city": "${city}"}) } else { json!({}) };
    let parameters = if call.contains("{city}") {
        json!([{"name": "city", "description": "Name of the city", "type": "string"}])
    } else {
        json!([])
    };
    let step = http_step(host, "call", call, inputs, outputs);
    fixture_document(
        name,
        &json!({
            "a2s": "1.1.0", "version": version, "description": description, "domains": [host],
            "parameters": parameters, "execution": {"type": "sequence", "steps": [step]},
        }),
    )
}

fn service() -> MockServiceBuilder {
    let city = async |Path(city): Path<String>| axum::Json(json!({"city": city, "sky": "clear"}));
    let router = Router::new()
        .route("/sky/{city}", get(city))
        .route("/broken", get(async || StatusCode::INTERNAL_SERVER_ERROR))
        .route("/slow", get(std::future::pending::<String>))
        .route("/slow", post(std::future::pending::<String>));
    MockServiceBuilder::for_host(HOST, router)
}

/// Services with the policy of the contract and the capabilities of the service of the test.
fn world() -> World {
    let mut world = World::among(mock_services::all_with(service()), &["--no-examples"]);
    let upstream = format!("{DEAD_HOST}=http://127.0.0.1:1/");
    let (policy, config) = (world.write("policy.yaml", POLICY), world.write("a2s.toml", CONFIG));
    world.add_flags(&["--upstream", &upstream, "--policy", &policy, "--config", &config]);
    world.start();
    for name in ["GetCountry", "ListDogBreeds", "CheckGrammar", "GetJoke", "PostTweet"] {
        world.publish(&std::fs::read_to_string(crate::harness::shipped(name)).unwrap());
    }
    for (name, description, call, outputs) in [
        ("ReadSky", "Reads the sky over a city", "GET /sky/{city}", json!({"sky": "$.sky"})),
        ("CallBroken", "Calls a broken service", "GET /broken", json!({})),
        ("CallDeadHost", "Calls a service that is away", "GET /sky", json!({})),
        ("CallSlowly", "Waits for a slow service", "GET /slow", json!({})),
        ("ChangeSlowly", "Changes something slowly", "POST /slow", json!({})),
    ] {
        world.publish(&capability(name, "1.0.0", description, call, outputs));
    }
    world
}

/// The reference to a published version.
fn reference(world: &World, name: &str) -> Value {
    let versions = crate::http::get(&format!("{}v1/capabilities/{name}", world.url()), &[]).1;
    let versions: Value = serde_json::from_str(&versions).unwrap();
    json!({
        "name": name, "version": versions["latest"],
        "checksum": versions["versions"][0]["checksum"],
    })
}
