//! `kill -9` in the middle of a run: finished steps are not repeated, and one whose outcome is
//! unknown is repeated only where that is safe. And a stop that is asked for, which ends no run.

mod every_step;
mod publishing;

use std::sync::{Arc, Mutex};

use axum::Json;
use axum::extract::{Request, State};
use serde_json::{Value, json};
use test_support::{fixture_document, http_step};
use tokio::sync::{Notify, mpsc};

use crate::harness::{RUNTIME, World, serve};
use crate::http;

/// A service whose path `/slow` answers the first time when it is let.
pub(crate) struct Slow {
    pub(crate) url: String,
    released: Arc<Notify>,
    /// Method and path of each request, as they come in.
    log: Arc<Mutex<Vec<String>>>,
    arrived: mpsc::UnboundedReceiver<String>,
}

type Shared = (Arc<Mutex<Vec<String>>>, mpsc::UnboundedSender<String>, Arc<Notify>);

impl Slow {
    pub(crate) fn start() -> Self {
        let log = Arc::new(Mutex::new(Vec::new()));
        let (tell, arrived) = mpsc::unbounded_channel();
        let released = Arc::new(Notify::new());
        let state = (Arc::clone(&log), tell, Arc::clone(&released));
        let router = axum::Router::new().fallback(Self::answer).with_state(state);
        let url = serve(router);
        Self { url, released, log, arrived }
    }

    async fn answer(State((log, tell, released)): State<Shared>, request: Request) -> Json<Value> {
        let line = format!("{} {}", request.method(), request.uri().path());
        let times = {
            let mut log = log.lock().unwrap();
            log.push(line.clone());
            log.iter().filter(|known| **known == line).count()
        };
        tell.send(line.clone()).unwrap();
        if line.ends_with("/slow") && times == 1 {
            released.notified().await;
        }
        Json(json!({ "value": times }))
    }

    /// Waits until a request has come in.
    pub(crate) fn wait_for(&mut self, line: &str) {
        while RUNTIME.block_on(self.arrived.recv()).unwrap() != line {}
    }

    fn count(&self, line: &str) -> usize {
        self.log.lock().unwrap().iter().filter(|known| *known == line).count()
    }
}

pub(crate) fn document(method: &str) -> String {
    let step = |id: &str, call: &str| {
        http_step("slow.example", id, call, json!({}), json!({id: "$.value"}))
    };
    let steps = json!([
        step("first", "POST /first"),
        step("second", &format!("{method} /slow")),
        step("third", "GET /third"),
    ]);
    let members = json!({
        "description": "Asks a slow service",
        "domains": ["slow.example"],
        "execution": {"type": "sequence", "steps": steps},
    });
    fixture_document("Slow", &members)
}

/// A run whose second step is under way, by its id.
fn start(method: &str, slow: &mut Slow) -> (World, String) {
    let upstream = format!("slow.example={}", slow.url);
    let world = World::up(&["--upstream", &upstream]);
    let path = world.write("slow.json", &document(method));
    world.a2s(&["publish", &path]).exits(0);
    let (status, run) = start_another(world.url(), &world.token());
    assert_eq!(status, 202, "{run}");
    slow.wait_for(&format!("{} /slow", method.to_uppercase()));
    (world, run["id"].as_str().unwrap().to_owned())
}

fn start_another(url: &str, token: &str) -> (u16, Value) {
    let owner = format!("Bearer {token}");
    let headers = [("authorization", owner.as_str()), ("content-type", "application/json")];
    let body = Some(r#"{"name": "Slow"}"#.to_owned());
    let (status, answer) = http::send("POST", &format!("{url}v1/executions"), &headers, body);
    (status, serde_json::from_str(&answer).unwrap())
}

/// The run as it ends.
fn end(world: &World, id: &str) -> Value {
    let owner = format!("Bearer {}", world.token());
    let headers = [("authorization", owner.as_str())];
    // The stream ends when the run does.
    let url = format!("{}v1/executions/{id}", world.url());
    let (status, events) = http::get(&format!("{url}/events"), &headers);
    assert_eq!(status, 200, "{events}");
    serde_json::from_str(&http::get(&url, &headers).1).unwrap()
}

/// Kills the services while the second step is under way, starts them again, and gives the run as
/// it ends.
fn crash_in(method: &str, slow: &mut Slow) -> (World, Value) {
    let (mut world, id) = start(method, slow);
    // What ended before is on the disk as soon as the writer answers.
    assert_eq!(http::get(&format!("{}readyz", world.url()), &[]).0, 200);
    world.kill();
    world.start();
    let run = end(&world, &id);
    (world, run)
}

#[test]
fn a_run_ends_well_in_services_that_are_asked_to_stop() {
    let mut slow = Slow::start();
    let (mut world, id) = start("post", &mut slow);
    let (url, token) = (world.url().to_owned(), world.token());
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| world.stop());
        // Nothing begins any more, but what has begun may still ask the guardian.
        let refused = loop {
            match start_another(&url, &token) {
                (202, _) => {}
                refused => break refused,
            }
        };
        assert_eq!((refused.0, &refused.1["code"]), (503, &json!("A2S307")));
        slow.released.notify_one();
        stopping.join().unwrap();
    });
    world.start();
    let run = end(&world, &id);
    assert_eq!(run["status"], "succeeded", "{run}");
    assert_eq!(slow.count("POST /slow"), 1);
}

#[test]
fn a_read_that_was_under_way_is_repeated_and_nothing_else_is() {
    let mut slow = Slow::start();
    let (_world, run) = crash_in("get", &mut slow);
    assert_eq!(run["status"], "succeeded", "{run}");
    assert_eq!(run["output"], json!({"first": 1, "second": 2, "third": 1}));
    assert_eq!(slow.count("POST /first"), 1);
    assert_eq!(slow.count("GET /slow"), 2);
    assert_eq!(slow.count("GET /third"), 1);
}

#[test]
fn a_write_whose_outcome_is_unknown_waits_for_a_person() {
    let mut slow = Slow::start();
    let (world, run) = crash_in("post", &mut slow);
    assert_eq!(run["status"], "waiting", "{run}");
    assert_eq!(run["error"]["code"], "A2S371");
    assert_eq!(run["error"]["step"], "second");
    assert_eq!(run["error"]["repeat_safe"], false);
    assert_eq!(slow.count("POST /first"), 1);
    assert_eq!(slow.count("POST /slow"), 1, "never twice");
    assert_eq!(slow.count("GET /third"), 0);
    let cancelled = world.a2s(&["cancel", run["id"].as_str().unwrap(), "--json"]).exits(0).one();
    assert_eq!(cancelled["status"], "cancelled");
}

#[test]
fn a_person_says_what_became_of_a_request_and_the_run_goes_on() {
    let mut slow = Slow::start();
    let (world, run) = crash_in("post", &mut slow);
    let id = run["id"].as_str().unwrap();
    let undecided = world.a2s(&["runs", "resume", id]).exits(2);
    assert!(undecided.stderr.contains("--repeat"), "{}", undecided.stderr);
    let wrong = world.a2s(&["runs", "resume", id, "--set", "third=7"]).exits(1);
    assert!(wrong.stderr.contains("The outputs of the step are `second`."), "{}", wrong.stderr);
    let resumed = world.a2s(&["runs", "resume", id, "--set", "second=7"]);
    insta::assert_snapshot!("resume", resumed.transcript());
    assert_eq!(slow.count("POST /slow"), 1, "never twice");
    let again = world.a2s(&["runs", "resume", id, "--repeat"]).exits(1);
    assert!(again.stderr.contains("A2S305"), "{}", again.stderr);
}
