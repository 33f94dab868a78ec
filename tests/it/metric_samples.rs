//! Any number of capabilities that are told apart by one word each, and a registry as whoever publishes
//! and searches for them sees it.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use uuid::Uuid;

/// How long a client waits for an answer: longer than a registry takes over any request.
const PATIENCE: Duration = Duration::from_secs(35);

/// A word of no language, different for each number.
fn word(mut number: usize) -> String {
    let mut word = String::from("zq");
    for _ in 0..4 {
        word.push(char::from(b'a' + u8::try_from(number % 20).unwrap()));
        number /= 20;
    }
    word.push('x');
    word
}

/// The name of the capability of a number.
pub(crate) fn name(number: usize) -> String {
    let word = word(number);
    format!("ReadZ{}", &word[1..])
}

/// Its document and digest.
fn document(number: usize) -> (String, String) {
    let mut document = json!({
        "a2s": "1.0.0",
        "name": name(number),
        "description": format!("Read the water level at the gauge {}", word(number)),
        "domains": ["gauges.example"],
        "version": "1.0.0",
        "authors": [{"name": "Jane Smith"}],
        "execution": {"type": "sequence", "steps": [{
            "id": "read",
            "format": "OpenAPI",
            "task": {
                "openapi": "3.0.3",
                "info": {"title": "Gauges", "version": "1"},
                "servers": [{"url": "https://gauges.example"}],
                "paths": {"/level": {"get": {"responses": {"200": {"description": "The level"}}}}},
            },
            "output_mapping": {"level": "$.level"},
        }]},
    });
    let digest = a2s::compile(document.to_string().as_bytes()).digest.unwrap().to_string();
    document["checksum"] = json!(digest);
    (document.to_string(), digest)
}

/// What came of a request.
#[derive(Debug)]
pub(crate) enum End {
    /// It was done; the status alone has said so.
    Well(Vec<u8>),
    /// It was refused with this status and code.
    Refused(u16, String),
    /// No answer came.
    Silence(String),
}

impl End {
    /// The answer, which has to be there.
    #[track_caller]
    pub(crate) fn body(self) -> Vec<u8> {
        match self {
            Self::Well(body) => body,
            other => panic!("{other:?}"),
        }
    }

    /// The same as JSON.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        serde_json::from_slice(&self.body()).unwrap()
    }
}

/// A registry, as whoever publishes and searches sees it.
#[derive(Debug, Clone)]
pub(crate) struct Registry {
    client: Client,
    url: String,
    token: String,
}

impl Registry {
    pub(crate) fn at(url: &str, token: &str) -> Self {
        let client = Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        Self { client, url: url.to_owned(), token: token.to_owned() }
    }

    pub(crate) async fn publish(&self, number: usize) -> End {
        self.publish_json(document(number).0).await
    }

    pub(crate) async fn publish_json(&self, document: String) -> End {
        let request = self.post("capabilities").header("content-type", "application/json");
        end(request.body(document)).await
    }

    /// Asks for what the capability of a number does.
    pub(crate) async fn search(&self, number: usize) -> End {
        self.search_for(&format!("water level at the gauge {}", word(number)), 3).await
    }

    pub(crate) async fn search_for(&self, intent: &str, limit: usize) -> End {
        end(self.post("search").json(&json!({"intent": intent, "limit": limit}))).await
    }

    /// Reports that a run of the capability of a number went well.
    pub(crate) async fn report(&self, number: usize, run: Uuid) -> End {
        let report = json!({
            "run": run,
            "name": name(number),
            "version": "1.0.0",
            "checksum": document(number).1,
            "success": true,
            "duration_ms": 12,
        });
        end(self.post("outcomes").json(&report)).await
    }

    pub(crate) async fn get(&self, path: &str) -> End {
        let request = self.client.get(format!("{}v1/{path}", self.url));
        end(request.bearer_auth(&self.token)).await
    }

    /// Whether the capability of a number is there; every byte of it is and it is found then.
    pub(crate) async fn has(&self, number: usize) -> bool {
        let (document, digest) = document(number);
        match self.get(&format!("capabilities/{}/1.0.0", name(number))).await {
            End::Refused(404, _) => return false,
            fetched => assert_eq!(fetched.body(), document.as_bytes()),
        }
        let verified = end(self.post("verify").json(&json!({"name": name(number)}))).await.json();
        assert_eq!((&verified["valid"], &verified["checksum"]), (&json!(true), &json!(digest)));
        let found = self.search(number).await.json();
        let hit = hit(&found, number);
        assert_eq!(hit.unwrap_or_else(|| panic!("{}: {found}", word(number)))["checksum"], digest);
        true
    }

    /// How many runs of the capability of a number are counted.
    pub(crate) async fn runs(&self, number: usize) -> u64 {
        let stats = self.get(&format!("capabilities/{}/1.0.0/stats", name(number))).await.json();
        stats["runs"].as_u64().unwrap()
    }

    /// The names of all capabilities that are not shipped.
    pub(crate) async fn names(&self) -> BTreeSet<String> {
        let (mut names, mut after) = (BTreeSet::new(), String::new());
        loop {
            let page = self.get(&format!("capabilities?limit=100{after}")).await.json();
            let listed = page["capabilities"].as_array().unwrap().iter();
            let listed = listed.map(|one| one["name"].as_str().unwrap().to_owned());
            names.extend(listed.filter(|name| name.starts_with("ReadZ")));
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => return names,
            }
        }
    }

    fn post(&self, path: &str) -> RequestBuilder {
        self.client.post(format!("{}v1/{path}", self.url)).bearer_auth(&self.token)
    }
}

/// The hit of a number in the answer to a search.
pub(crate) fn hit(found: &Value, number: usize) -> Option<&Value> {
    let name = name(number);
    found["capabilities"].as_array()?.iter().find(|hit| hit["name"] == name.as_str())
}

async fn end(request: RequestBuilder) -> End {
    let answer = match request.send().await {
        Ok(answer) => answer,
        Err(error) => return End::Silence(format!("{error:?}")),
    };
    let status = answer.status();
    let body = answer.bytes().await;
    if status.is_success() {
        return End::Well(body.map(Vec::from).unwrap_or_default());
    }
    let problem: Value =
        body.ok().and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
    End::Refused(status.as_u16(), problem["code"].as_str().unwrap_or("no code").to_owned())
}
