//! A registry in a temporary folder, and documents to put into it.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use serde_json::{Value, json};
use test_support::{fill_checksum, fixture_document};
use tower::ServiceExt as _;

use super::database::{Behind, Folder};
use crate::{App, Clock, Config};

pub(crate) const TOKEN: &str = "the owner token";

pub(crate) struct World {
    pub(crate) app: App,
    pub(crate) folder: Folder,
    metrics: prometheus_client::registry::Registry,
}

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The code of a problem; every error has to be one.
    #[track_caller]
    pub(crate) fn code(&self) -> String {
        assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.text());
        let problem = self.json();
        assert_eq!(problem["status"], self.status.as_u16());
        assert!(!problem["title"].as_str().unwrap().is_empty());
        assert!(!problem["hint"].as_str().unwrap().is_empty());
        problem["code"].as_str().unwrap().to_owned()
    }

    /// The names of the hits, best first.
    #[track_caller]
    pub(crate) fn names(&self) -> Vec<String> {
        assert_eq!(self.status, 200, "{}", self.text());
        let answer = self.json();
        let hits = answer["capabilities"].as_array().unwrap();
        hits.iter().map(|hit| hit["name"].as_str().unwrap().to_owned()).collect()
    }
}

pub(crate) fn clock() -> Clock {
    Arc::new(|| "2026-03-01T12:00:00Z".parse().unwrap())
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::open(Folder::new().await).await
    }

    /// One whose index is in memory, whatever the environment says.
    pub(crate) async fn with_index() -> Self {
        Self::open(Folder::with_index().await).await
    }

    pub(crate) async fn open(folder: Folder) -> Self {
        Self::open_with(folder, |_| {}).await
    }

    /// Opens a registry that is configured otherwise.
    pub(crate) async fn open_with(folder: Folder, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = folder.config(Some(TOKEN));
        // A machine that is busy with other tests is slow, and not wrong.
        config.limits.request_time = Duration::from_secs(300);
        config.limits.index_wait = Duration::from_secs(120);
        change(&mut config);
        let mut metrics = prometheus_client::registry::Registry::default();
        let app = App::open(config, clock(), &mut metrics).await.unwrap();
        Self { app, folder, metrics }
    }

    /// An app that was opened otherwise.
    pub(crate) fn around(app: App, folder: Folder) -> Self {
        Self { app, folder, metrics: prometheus_client::registry::Registry::default() }
    }

    /// Stops it, and gives its folder.
    pub(crate) async fn close(self) -> Folder {
        self.app.close().await;
        self.folder
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        static DESCRIPTION: LazyLock<Value> =
            LazyLock::new(|| serde_json::to_value(App::openapi()).unwrap());
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let response = self.app.router().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let status = parts.status.as_u16();
        let is_described = a2s_api::has_status(&DESCRIPTION, method.as_str(), &path, status);
        assert!(is_described, "{status} is described nowhere for {method} {path}");
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap().to_vec();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn get_with(&self, path: &str, header: &str, value: &str) -> Answer {
        self.send(Request::get(path).header(header, value).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        let request = Request::post(path)
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {TOKEN}"))
            .body(Body::from(body.to_string()));
        self.send(request.unwrap()).await
    }

    pub(crate) async fn publish(&self, document: impl Into<Body>) -> Answer {
        let request = Request::post("/v1/capabilities")
            .header("content-type", "application/yaml")
            .header("authorization", format!("Bearer {TOKEN}"))
            .body(document.into());
        self.send(request.unwrap()).await
    }

    /// Publishes documents that have to be good.
    #[track_caller]
    pub(crate) fn publish_all(
        &self,
        documents: impl IntoIterator<Item = String>,
    ) -> impl Future<Output = ()> {
        let documents: Vec<_> = documents.into_iter().collect();
        async move {
            for document in documents {
                let answer = self.publish(document).await;
                assert_eq!(answer.status, 201, "{}", answer.text());
            }
        }
    }

    /// Sends JSON, or nothing, with a token of one's own, or with none.
    pub(crate) async fn ask(
        &self,
        token: Option<&str>,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let body = match body {
            Some(body) => {
                request = request.header("content-type", "application/json");
                Body::from(body.to_string())
            }
            None => Body::empty(),
        };
        self.send(request.body(body).unwrap()).await
    }

    /// Publishes with a token of one's own.
    pub(crate) async fn publish_as(&self, token: &str, document: &str) -> Answer {
        let request = Request::post("/v1/capabilities")
            .header("content-type", "application/yaml")
            .header("authorization", format!("Bearer {token}"))
            .body(Body::from(document.to_owned()));
        self.send(request.unwrap()).await
    }

    /// Makes a token.
    pub(crate) async fn token(&self, name: &str, scopes: &[&str]) -> String {
        let made = self.post("/v1/tokens", &json!({"name": name, "scopes": scopes})).await;
        assert_eq!(made.status, 201, "{}", made.text());
        made.json()["token"].as_str().unwrap().to_owned()
    }

    /// Does something to a version with the owner's token; it has to be good.
    pub(crate) async fn turn(&self, target: &str, verb: &str) -> Value {
        let path = format!("/v1/capabilities/{target}/{verb}");
        let answer = self.ask(Some(TOKEN), "POST", &path, None).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    pub(crate) async fn search(&self, intent: &str) -> Answer {
        self.post("/v1/search", &json!({"intent": intent})).await
    }

    /// The database, as someone with a shell on the machine has it.
    pub(crate) async fn database(&self) -> Behind {
        self.folder.database().await
    }

    /// Changes one text of the stored document behind the registry's back.
    pub(crate) async fn tamper(&self, from: &'static str, to: &'static str) {
        let database = self.database().await;
        let sql = "UPDATE document SET source = replace(source, $1, $2) \
                   WHERE source <> replace(source, $1, $2)";
        let changed = database.execute(sql, &[from, to]).await;
        assert_eq!(changed, 1, "one document has {from:?}");
        database.close().await;
    }

    pub(crate) fn metric(&self, name: &str) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.metrics).unwrap();
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
            .unwrap_or("absent")
            .to_owned()
    }
}

/// A document with one request, and its checksum filled in.
pub(crate) fn document(name: &str, version: &str, description: &str) -> String {
    document_for(name, version, description, "api.example.com", &["q"])
}

/// The same for a host and query parameters.
pub(crate) fn document_for(
    name: &str,
    version: &str,
    description: &str,
    host: &str,
    inputs: &[&str],
) -> String {
    let parameters: Vec<_> = inputs
        .iter()
        .map(|input| json!({"name": input, "in": "query", "schema": {"type": "string"}}))
        .collect();
    let mapping: serde_json::Map<_, _> =
        inputs.iter().map(|input| ((*input).to_owned(), json!(format!("${{{input}}}")))).collect();
    let task = json!({
        "openapi": "3.0.1",
        "info": {"title": name, "version": "1.0.0"},
        "servers": [{"url": format!("https://{host}")}],
        "paths": {"/": {"get": {
            "parameters": parameters,
            "responses": {"200": {"description": "An answer"}},
        }}},
    });
    fill_checksum(&format!(
        "a2s: 1.0.0\nname: {name}\ndescription: {}\ndomains: [\"{host}\"]\nversion: \"{version}\"\n\
         checksum: \"<sha256>\"\nauthors: [{{name: Jane Smith}}]\nexecution:\n  type: sequence\n  \
         steps:\n    - id: ask\n      format: OpenAPI\n      task: {task}\n      input_mapping: \
         {{queryParameters: {}}}\n      output_mapping: {{answer: \"$.data\"}}\n",
        json!(description),
        json!(mapping),
    ))
}

/// A document that uses others.
pub(crate) fn chain(name: &str, version: &str, uses: &[(&str, &str)], domains: &str) -> String {
    let dependencies: String = uses
        .iter()
        .map(|(used, range)| format!("  - capability: {used}\n    version: \"{range}\"\n"))
        .collect();
    let steps: String = (0..)
        .zip(uses)
        .map(|(index, (used, _)): (usize, _)| {
            format!(
                "    - {{id: step{index}, type: capability, use: {used}, input_mapping: {{q: \"${{q}}\"}}, \
                 output_mapping: {{answer{index}: \"$.answer\"}}}}\n"
            )
        })
        .collect();
    fill_checksum(&format!(
        "a2s: 1.0.0\nname: {name}\ndescription: Uses others\ndomains: [{domains}]\nversion: \"{version}\"\n\
         checksum: \"<sha256>\"\nauthors: [{{name: Jane Smith}}]\ndependencies:\n{dependencies}\
         execution:\n  type: sequence\n  steps:\n{steps}"
    ))
}

/// A document of a2s 1.1 with these steps and further fields.
pub(crate) fn document_of(name: &str, description: &str, steps: &Value, more: &Value) -> String {
    let mut members = json!({
        "a2s": "1.1.0",
        "description": description,
        "domains": ["api.example.com"],
        "authors": [{"name": "Jane Smith"}],
        "execution": {"type": "sequence", "steps": steps},
    });
    members.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    fixture_document(name, &members)
}

/// A step that asks an HTTP API.
pub(crate) fn http_step(id: &str, method: &str, host: &str, title: &str) -> Value {
    json!({
        "id": id,
        "format": "OpenAPI",
        "task": {
            "openapi": "3.0.3",
            "info": {"title": title, "version": "1.0.0"},
            "servers": [{"url": format!("https://{host}")}],
            "paths": {"/": {method: {"responses": {"200": {"description": "An answer"}}}}},
        },
        "output_mapping": {id: "$.data"},
    })
}

/// A step that asks a GraphQL endpoint.
pub(crate) fn graphql_step(id: &str, query: &str, host: &str) -> Value {
    json!({
        "id": id,
        "format": "GraphQL",
        "task": {"endpoint": format!("https://{host}/graphql"), "query": query},
        "output_mapping": {id: "$.data"},
    })
}

/// A step that calls a tool of an MCP server.
pub(crate) fn tool_step(id: &str, tool: &str, host: &str, hints: &Value) -> Value {
    json!({
        "id": id,
        "format": "MCP",
        "task": {"server": format!("https://{host}/mcp"), "tool": tool, "annotations": hints},
        "output_mapping": {id: "$"},
    })
}

/// A step that uses another capability.
pub(crate) fn use_step(id: &str, name: &str) -> Value {
    json!({"id": id, "type": "capability", "use": name, "output_mapping": {id: "$.a"}})
}

/// The same answer without what has no place in a snapshot: digests, numbers that depend on the
/// embedding table, and digits in which the mathematics of two processors differ.
pub(crate) fn settled(mut answer: Value) -> Value {
    fn settle(value: &mut Value) {
        match value {
            Value::String(text) if text.starts_with("sha256:") => *text = "[digest]".to_owned(),
            Value::Array(items) => items.iter_mut().for_each(settle),
            Value::Object(members) => {
                for (name, value) in members {
                    if matches!(
                        name.as_str(),
                        "score" | "rank_score" | "similarity" | "value" | "contribution"
                    ) {
                        assert!((0.0..=1.0).contains(&value.as_f64().unwrap()), "{name}: {value}");
                        *value = json!("[0 to 1]");
                    }
                    if name == "total_matches" {
                        assert!(value.as_u64().unwrap() > 0);
                        *value = json!("[count]");
                    }
                    settle(value);
                }
            }
            Value::Number(number) if number.is_f64() => {
                let number = number.as_f64().unwrap_or_default();
                *value = json!((number * 1e6).round() / 1e6);
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    settle(&mut answer);
    answer
}
