//! The data folder of an earlier program (`tests/fixtures/old`), opened by this one: everything in it is
//! there, and what was under way goes on. `expected.json` is what the services of that time returned.
#![cfg(target_os = "linux")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::harness::{RUNTIME, World, printed, root, serve};
use crate::http;

/// The credential in the folder.
const SECRET: &str = "the-key-of-the-vault";

/// Requests to the service of the documents: method, path and key.
type Requests = Arc<Mutex<Vec<(String, String)>>>;

/// A copy of the folder with the services of this program, a minute after its program was killed.
struct OldFolder {
    world: World,
    expected: Value,
    requests: Requests,
}

fn fixture(name: &str) -> PathBuf {
    root().join("tests/fixtures/old").join(name)
}

/// Returns what the service returned in the time of the folder.
async fn respond(State(requests): State<Requests>, request: Request) -> (StatusCode, Json<Value>) {
    let line = format!("{} {}", request.method(), request.uri().path());
    let key = request.headers().get("x-key").map_or("", |key| key.to_str().unwrap());
    requests.lock().unwrap().push((line.clone(), key.to_owned()));
    (StatusCode::OK, Json(json!({ "value": line })))
}

impl OldFolder {
    #[expect(
        clippy::disallowed_methods,
        reason = "the old folder is moved to the clock of the test"
    )]
    fn open() -> Self {
        let requests = Requests::default();
        let router = axum::Router::new().fallback(respond).with_state(Arc::clone(&requests));
        let upstream = format!("old.example={}", serve(router));
        let policy = fixture("policy.yaml");
        let flags =
            ["--no-examples", "--upstream", &upstream, "--policy", policy.to_str().unwrap()];
        let mut world = World::among(Vec::new(), &flags);
        let mut extract = Command::new("tar");
        printed(extract.arg("-xzf").arg(fixture("data.tar.gz")).arg("-C").arg(world.folder()));
        let expected = std::fs::read(fixture("expected.json")).unwrap();
        let expected: Value = serde_json::from_slice(&expected).unwrap();

        // Approvals expire and ended runs are deleted, by the clock.
        let clock = world.folder().join("clock.so");
        let mut compile = Command::new("cc");
        printed(compile.args(["-shared", "-fPIC", "-o"]).arg(&clock).arg(fixture("clock.c")));
        let made_at: Timestamp = expected["made_at"].as_str().unwrap().parse().unwrap();
        let moved = made_at + SignedDuration::from_mins(1);
        let seconds = moved.duration_since(Timestamp::now()).as_secs().to_string();
        let clock = clock.to_str().unwrap();
        world.start_with(&[("LD_PRELOAD", clock), ("A2S_TEST_CLOCK", &seconds)]);
        Self { world, expected, requests }
    }

    /// Sends a request with a token, for an end user if one is named.
    fn send(
        &self,
        method: &str,
        path: &str,
        token: &str,
        user: &str,
        body: &Value,
    ) -> (u16, Value) {
        let authorization = format!("Bearer {token}");
        let mut headers = vec![("authorization", &*authorization)];
        if !user.is_empty() {
            headers.push((a2s_api::ON_BEHALF_OF, user));
        }
        let body = (!body.is_null()).then(|| body.to_string());
        if body.is_some() {
            headers.push(("content-type", "application/json"));
        }
        let url = format!("{}{path}", self.world.url());
        let (status, text) = http::send(method, &url, &headers, body);
        (status, serde_json::from_str(&text).unwrap_or_default())
    }

    /// Returns the response to a request of the owner that succeeds.
    #[track_caller]
    fn owner(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, value) = self.send(method, path, &self.world.token(), "", body);
        assert!((200..300).contains(&status), "{method} {path}: {status} {value}");
        value
    }

    fn get(&self, path: &str) -> Value {
        self.owner("GET", path, &Value::Null)
    }

    fn token(&self, name: &str) -> &str {
        self.expected["tokens"][name].as_str().unwrap()
    }

    /// The path of a run by its name in `expected.json`.
    fn run_path(&self, name: &str) -> String {
        format!("v1/executions/{}", self.expected["runs"][name]["run"]["id"].as_str().unwrap())
    }

    /// The events of a run so far, or until it ends or waits.
    fn events(&self, name: &str) -> Vec<Value> {
        let owner = format!("Bearer {}", self.world.token());
        let url = format!("{}{}/events", self.world.url(), self.run_path(name));
        let (status, events) = http::get(&url, &[("authorization", &owner)]);
        assert_eq!(status, 200, "{events}");
        let data = events.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|event| serde_json::from_str(event).unwrap()).collect()
    }

    /// Returns a run as soon as it has this status.
    fn wait_for(&self, name: &str, status: &str) -> Value {
        loop {
            self.events(name);
            let run = self.get(&self.run_path(name));
            if run["status"] == status {
                return run;
            }
            let is_open =
                ["queued", "running", "waiting"].contains(&run["status"].as_str().unwrap());
            assert!(is_open, "{name}: {run}");
        }
    }

    /// The number of requests with this method and path.
    fn count(&self, line: &str) -> usize {
        self.requests.lock().unwrap().iter().filter(|(known, _)| known == line).count()
    }
}

/// Checks that `new` says everything that `old` says. It may say more.
#[track_caller]
fn assert_contains(new: &Value, old: &Value, path: &str) {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            for (name, old) in old {
                let path = format!("{path}.{name}");
                let new = new.get(name).unwrap_or_else(|| panic!("{path} is gone; it was {old}"));
                assert_contains(new, old, &path);
            }
        }
        (Value::Array(new), Value::Array(old)) => {
            assert_eq!(new.len(), old.len(), "{path}: {new:?}");
            for (at, (new, old)) in new.iter().zip(old).enumerate() {
                assert_contains(new, old, &format!("{path}[{at}]"));
            }
        }
        _ => assert_eq!(new, old, "{path}"),
    }
}

#[test]
fn old_data_folder_has_its_documents_in_search_and_by_name() {
    let old = OldFolder::open();
    let capabilities = old.get("v1/capabilities");
    assert_contains(&capabilities, &old.expected["capabilities"], "capabilities");
    for file in std::fs::read_dir(fixture("documents")).unwrap() {
        let path = file.unwrap().path();
        let (name, version) = path.file_stem().unwrap().to_str().unwrap().split_once('-').unwrap();
        let url = format!("{}v1/capabilities/{name}/{version}", old.world.url());
        let published = std::fs::read_to_string(&path).unwrap();
        assert_eq!(http::get(&url, &[]), (200, published), "{name} {version}");
    }
    for (intent, name, version) in [
        ("read a note of the office", "ReadNote", "1.1.0"),
        ("pay an invoice", "PayInvoice", "1.0.0"),
        ("open a drawer of the vault", "OpenVault", "1.0.0"),
    ] {
        let found = old.world.a2s(&["search", "--json", intent]).exits(0).one();
        let hit = &found["capabilities"][0];
        assert_eq!((&hit["name"], &hit["version"]), (&json!(name), &json!(version)), "{intent}");
    }
    let versions = old.get("v1/capabilities/ReadNote");
    let yanked = versions["versions"].as_array().unwrap().iter().filter(|v| v["yanked"] == true);
    assert_eq!(yanked.map(|version| &version["version"]).collect::<Vec<_>>(), ["0.9.0"]);
    assert!(versions.to_string().contains("use 1.1.0"), "{versions}");
    assert_contains(&old.get("v1/trust"), &old.expected["trust"], "trust");
}

#[test]
fn old_data_folder_has_its_tokens_values_and_credentials() {
    let old = OldFolder::open();
    for (token, user, method, path, status) in [
        ("publisher", "", "GET", "v1/executions", 403),
        ("runner", "", "GET", "v1/executions", 200),
        ("proxy", "ann", "GET", "v1/executions", 200),
        ("runner", "ann", "GET", "v1/executions", 403),
        ("boss", "", "GET", "v1/tokens", 200),
        ("runner", "", "GET", "v1/tokens", 403),
    ] {
        let response = old.send(method, path, old.token(token), user, &Value::Null);
        assert_eq!(response.0, status, "{token} {user} {path}: {}", response.1);
    }
    assert_eq!(old.send("POST", "aos", old.token("agent"), "", &json!({})).0, 200);
    assert_eq!(old.send("POST", "aos", old.token("runner"), "", &json!({})).0, 403);

    assert_contains(&old.get("v1/state"), &old.expected["values"], "values");
    let trip = old.get("v1/sessions/trip/state");
    assert_contains(&trip, &old.expected["values_of_trip"], "values of the session");

    assert_contains(&old.get("v1/secrets"), &old.expected["secrets"], "secrets");
    let body = json!({"name": "OpenVault", "inputs": {"number": "5"}, "wait": true});
    let run = old.send("POST", "v1/executions", old.token("runner"), "", &body).1;
    assert_eq!(run["status"], "succeeded", "{run}");
    let key = (String::from("POST /vault/5"), SECRET.to_owned());
    assert_eq!(*old.requests.lock().unwrap().last().unwrap(), key);
}

#[test]
fn old_data_folder_has_its_runs_with_outputs_and_events() {
    let old = OldFolder::open();
    for (name, expected) in old.expected["runs"].as_object().unwrap() {
        let Some(events) = expected.get("events") else { continue };
        assert_contains(&old.get(&old.run_path(name)), &expected["run"], name);
        assert_contains(&json!(old.events(name)), events, name);
    }
    let of_ann = old.run_path("of ann");
    assert_eq!(old.send("GET", &of_ann, old.token("proxy"), "ann", &Value::Null).0, 200);
    assert_eq!(old.send("GET", &of_ann, old.token("proxy"), "bob", &Value::Null).0, 404);

    // The key of the request still names its run.
    let body = json!({"name": "AnswerNote", "inputs": {"number": "1"}, "wait": true});
    let again = RUNTIME.block_on(async {
        let request = http::client().post(format!("{}v1/executions", old.world.url()));
        let request = request.bearer_auth(old.world.token()).header("idempotency-key", "once");
        request.json(&body).send().await.unwrap().json::<Value>().await.unwrap()
    });
    assert_eq!(again["id"], old.expected["runs"]["succeeded"]["run"]["id"], "{again}");
    assert_eq!(old.count("POST /letters/1"), 0);
}

#[test]
fn old_data_folder_continues_its_open_runs() {
    let old = OldFolder::open();
    // It was queued, and so has sent nothing.
    old.wait_for("queued", "succeeded");
    assert_eq!(old.count("POST /letters/9"), 1);
    // It was killed while it read, which is safe to repeat.
    let run = old.wait_for("running", "succeeded");
    assert_eq!(run["output"]["note"], "GET /notes/slow", "{run}");

    let waiting = old.wait_for("waiting", "waiting");
    assert_contains(&waiting, &old.expected["runs"]["waiting"]["run"], "waiting");
    assert_eq!(old.count("POST /payments/4"), 0);
    let approvals = old.get("v1/approvals");
    let id = waiting["id"].as_str().unwrap();
    let mut approvals = approvals["approvals"].as_array().unwrap().iter();
    let approval = approvals.find(|approval| approval.to_string().contains(id)).unwrap();
    let approve = format!("v1/approvals/{}/approve", approval["id"].as_str().unwrap());
    old.owner("POST", &approve, &json!({}));
    old.wait_for("waiting", "succeeded");
    assert_eq!(old.count("POST /payments/4"), 1);
}

#[test]
fn old_data_folder_leaves_a_run_in_doubt_to_a_person() {
    let old = OldFolder::open();
    let run = old.wait_for("in doubt", "waiting");
    assert_contains(&run, &old.expected["runs"]["in doubt"]["run"], "in doubt");
    assert_eq!(run["error"]["code"], "A2S371");
    let resume = format!("{}/resume", old.run_path("in doubt"));
    old.owner("POST", &resume, &json!({"decision": "set", "outputs": {"receipt": "seen"}}));
    let run = old.wait_for("in doubt", "succeeded");
    assert_eq!(run["output"]["receipt"], "seen", "{run}");
    assert_eq!(old.count("POST /letters/slow"), 0);
}

#[test]
fn old_data_folder_has_its_approvals_and_a_whole_audit_log() {
    let old = OldFolder::open();
    let approvals = old.get("v1/approvals?status=all");
    let approvals = approvals["approvals"].as_array().unwrap();
    for expected in old.expected["approvals"].as_array().unwrap() {
        let same = approvals.iter().find(|approval| approval["id"] == expected["id"]);
        assert_contains(same.unwrap(), expected, "approval");
    }
    let log = &old.expected["log"];
    let head = log["head"].as_str().unwrap();
    let verify = ["guardian", "audit", "verify", "--head", head, "--json"];
    let verified = old.world.a2s(&verify).exits(0).one();
    assert!(verified["records"].as_u64() > log["records"].as_u64(), "{verified}");
    assert!(verified["segments"].as_u64() >= log["segments"].as_u64(), "{verified}");
    assert_eq!(old.get("v1/guardian/verification")["valid"], true);
}
