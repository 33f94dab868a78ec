//! `kill -9` at every boundary of a capability of twenty steps, and inside each of them.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use axum::Json;
use axum::extract::{Request, State};
use axum::routing::post;
use serde_json::{Value, json};
use test_support::{allow, fixture_document, rpc_result};
use tokio::sync::mpsc;

use crate::harness::{RUNTIME, Server, World, assert_page, serve};
use crate::http;

const STEPS: usize = 20;

/// Where the executor is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The guardian is asked about the request of the step: the one before is over.
    Boundary,
    /// The service has the request, and does not answer.
    Sent,
    /// The service has answered, and the guardian is asked about that.
    Answered,
}

const PLACES: [Place; 3] = [Place::Boundary, Place::Sent, Place::Answered];

/// What a step sends. Every kind comes five times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Get,
    Put,
    PostWithKey,
    Post,
}

impl Kind {
    fn of(step: usize) -> Self {
        [Self::Get, Self::Put, Self::PostWithKey, Self::Post][step % 4]
    }

    fn words(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::PostWithKey => "POST, takes `Idempotency-Key`",
            Self::Post => "POST",
        }
    }
}

/// Service and guardian in one: both count, and hold what the executor is to be killed in.
struct Stage {
    stop: Mutex<Option<(Place, usize)>>,
    /// Each request of a step, with its idempotency key.
    requests: Mutex<Vec<(usize, Option<String>)>>,
    stopped: mpsc::UnboundedSender<()>,
}

impl Stage {
    async fn pass(&self, place: Place, step: usize) {
        if *self.stop.lock().unwrap() == Some((place, step)) {
            self.stopped.send(()).unwrap();
            std::future::pending::<()>().await;
        }
    }

    async fn answer(State(stage): State<Arc<Self>>, request: Request) -> Json<Value> {
        let step: usize = request.uri().path().trim_start_matches('/').parse().unwrap();
        let key = request.headers().get("idempotency-key");
        let key = key.map(|key| key.to_str().unwrap().to_owned());
        stage.requests.lock().unwrap().push((step, key));
        stage.pass(Place::Sent, step).await;
        Json(json!({ "value": step }))
    }

    async fn permit(State(stage): State<Arc<Self>>, Json(asked): Json<Value>) -> Json<Value> {
        let step = asked["params"]["context"]["stepId"].as_str().unwrap();
        let place = match asked["method"].as_str() {
            Some("steps/toolCallRequest") => Place::Boundary,
            _ => Place::Answered,
        };
        stage.pass(place, step.trim_start_matches("step").parse().unwrap()).await;
        rpc_result(&asked, allow())
    }

    fn start() -> (Arc<Self>, String, mpsc::UnboundedReceiver<()>) {
        let (stopped, held) = mpsc::unbounded_channel();
        let stage = Arc::new(Self { stop: Mutex::default(), requests: Mutex::default(), stopped });
        let router = axum::Router::new()
            .route("/aos", post(Self::permit))
            .fallback(Self::answer)
            .with_state(Arc::clone(&stage));
        let url = serve(router);
        (stage, url, held)
    }

    fn stop_at(&self, stop: Option<(Place, usize)>) {
        *self.stop.lock().unwrap() = stop;
    }

    /// The idempotency keys of the requests of a step, in order.
    fn keys(&self, step: usize) -> Vec<Option<String>> {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|(of, _)| *of == step).map(|(_, key)| key.clone()).collect()
    }
}

fn document() -> String {
    let step = |number: usize| {
        let kind = Kind::of(number);
        let key = json!({"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}});
        let before = json!({"name": "before", "in": "query", "schema": {"type": "integer"}});
        let parameters = match kind {
            Kind::PostWithKey => json!([before, key]),
            Kind::Get | Kind::Put | Kind::Post => json!([before]),
        };
        let method = match kind {
            Kind::Get => "get",
            Kind::Put => "put",
            Kind::PostWithKey | Kind::Post => "post",
        };
        let operation =
            json!({"parameters": parameters, "responses": {"200": {"description": "Done"}}});
        let mut inputs = json!({});
        if let Some(before) = number.checked_sub(1) {
            inputs = json!({"before": format!("${{out{before}}}")});
        }
        json!({
            "id": format!("step{number}"),
            "format": "OpenAPI",
            "task": {
                "openapi": "3.0.3",
                "info": {"title": "Counting", "version": "1"},
                "servers": [{"url": "https://counting.example"}],
                "paths": {format!("/{number}"): {method: operation}},
            },
            "input_mapping": inputs,
            "output_mapping": {format!("out{number}"): "$.value"},
        })
    };
    let steps: Vec<_> = (0..STEPS).map(step).collect();
    let members = json!({
        "domains": ["counting.example"], "execution": {"type": "sequence", "steps": steps},
    });
    fixture_document("Twenty", &members)
}

/// A run that was killed at one place of each of its steps.
struct Survivor {
    stage: Arc<Stage>,
    /// How often the end of each step is on its journal.
    finished: Vec<usize>,
    /// The steps that a person decided about.
    decided: Vec<usize>,
    /// How often the executor went on with it.
    resumed: usize,
    output: Value,
}

fn kill_at_every(place: Place) -> Survivor {
    let (stage, url, mut held) = Stage::start();
    let world = World::down(&[]);
    let registry = world.service("registry", &[]);
    let path = world.write("twenty.json", &document());
    registry.a2s(&["publish", &path]).exits(0);
    let guardian = format!("{url}/aos");
    let upstream = format!("counting.example={url}");
    let executor = || -> Server {
        world.service(
            "executor",
            &["--registry", registry.url(), "--guardian", &guardian, "--upstream", &upstream],
        )
    };
    let owner = format!("Bearer {}", world.token());
    let headers = [("authorization", owner.as_str()), ("content-type", "application/json")];

    stage.stop_at(Some((place, 0)));
    let mut server = executor();
    let start = format!("{}v1/executions", server.url());
    let (status, run) =
        http::send("POST", &start, &headers, Some(r#"{"name": "Twenty"}"#.to_owned()));
    assert_eq!(status, 202, "{run}");
    let id = serde_json::from_str::<Value>(&run).unwrap()["id"].as_str().unwrap().to_owned();
    let address = |server: &Server, rest: &str| format!("{}v1/executions/{id}{rest}", server.url());
    let mut decided = Vec::new();
    for step in 0..STEPS {
        RUNTIME.block_on(held.recv()).unwrap();
        // The end of the step before follows within milliseconds: a kill in between is another test.
        assert_eq!(http::get(&format!("{}readyz", server.url()), &[]).0, 200);
        drop(server);
        stage.stop_at(Some((place, step + 1)));
        server = executor();
        if place != Place::Boundary && Kind::of(step) == Kind::Post {
            // The stream ends when the run waits. Somebody has asked the service, which has done it.
            http::get(&address(&server, "/events"), &headers);
            let (_, run) = http::get(&address(&server, ""), &headers);
            let run: Value = serde_json::from_str(&run).unwrap();
            assert_eq!(
                (&run["status"], &run["error"]["code"]),
                (&"waiting".into(), &"A2S371".into())
            );
            assert_eq!(run["error"]["step"], format!("step{step}"));
            let decision = json!({"decision": "set", "outputs": {format!("out{step}"): step}});
            let resume = address(&server, "/resume");
            let (status, answer) =
                http::send("POST", &resume, &headers, Some(decision.to_string()));
            assert_eq!(status, 202, "{answer}");
            decided.push(step);
        }
    }
    let (status, events) = http::get(&address(&server, "/events"), &headers);
    assert_eq!(status, 200, "{events}");
    let (_, run) = http::get(&address(&server, ""), &headers);
    let run: Value = serde_json::from_str(&run).unwrap();
    assert_eq!(run["status"], "succeeded", "{run}");
    let count = |kind: &str, step: Option<usize>| {
        let events = events.lines().filter_map(|line| line.strip_prefix("data:"));
        let events = events.map(|data| serde_json::from_str::<Value>(data).unwrap());
        let wanted = |event: &Value| {
            let of_step = step.is_none_or(|step| event["step"] == format!("step{step}"));
            event["type"] == kind && of_step
        };
        events.filter(wanted).count()
    };
    let finished = |step| count("step_finished", Some(step)) + count("step_resolved", Some(step));
    let finished = (0..STEPS).map(finished).collect();
    let resumed = count("run_resumed", None);
    Survivor { stage, finished, decided, resumed, output: run["output"].clone() }
}

#[test]
fn a_run_that_is_killed_at_every_step_does_nothing_twice() {
    let survivors = std::thread::scope(|scope| {
        let threads = PLACES.map(|place| scope.spawn(move || kill_at_every(place)));
        threads.map(|thread| thread.join().unwrap())
    });
    let outputs: serde_json::Map<_, _> =
        (0..STEPS).map(|step| (format!("out{step}"), json!(step))).collect();
    let mut table = String::new();
    for step in 0..STEPS {
        let kind = Kind::of(step);
        let _ = write!(table, "| {} | {} |", step + 1, kind.words());
        for (place, survivor) in PLACES.iter().zip(&survivors) {
            assert_eq!(survivor.finished[step], 1, "{place:?} {step}");
            let keys = survivor.stage.keys(step);
            let by_hand = survivor.decided.contains(&step);
            let again = *place != Place::Boundary && kind != Kind::Post;
            assert_eq!(keys.len(), if again { 2 } else { 1 }, "{place:?} {step}");
            assert_eq!(by_hand, *place != Place::Boundary && kind == Kind::Post);
            assert!(keys.iter().all(|key| key.is_some() == (kind == Kind::PostWithKey)));
            assert!(keys.iter().all(|key| *key == keys[0]), "another key: {keys:?}");
            let how = match (kind, again, by_hand) {
                (Kind::PostWithKey, true, _) => ", the same key",
                (_, _, true) => ", then a person",
                _ => "",
            };
            let _ = write!(table, " {}{how} |", keys.len());
        }
        table.push('\n');
    }
    for survivor in &survivors {
        assert_eq!(survivor.output, Value::Object(outputs.clone()));
        // Once more for each answer that a person gave.
        assert_eq!(survivor.resumed, STEPS + survivor.decided.len());
    }
    assert_page("docs/crashes.md", &page(&table));
}

fn page(table: &str) -> String {
    format!(
        "# Killed at every step\n\n\
         This page is generated: `UPDATE_DOCS=1 cargo test --test it`.\n\n\
         A capability of twenty steps runs against a service that counts its requests. The test kills the \
         executor (`kill -9`) once in every step and starts it again, twenty times in a run. There are three \
         runs, one for each point of the kill:\n\n\
         - **before**: the executor asks the guardian about the request; the previous step is over.\n\
         - **sent**: the service has the request, and has not responded.\n\
         - **answered**: the service has responded, and the executor asks the guardian about the response.\n\n\
         The table has the requests that the service counted. The executor repeats a request that is safe to \
         repeat. A POST that is not safe waits for a person, who asks the service and decides \
         (`a2s runs resume --set`).\n\n\
         | step | | before | sent | answered |\n\
         |---|---|---|---|---|\n\
         {table}\n\
         Each of the 60 steps has one end in its journal, and no request was sent again after this end was \
         on the disk. The end of a step that is safe to repeat (a GET, a PUT, a POST that takes \
         `Idempotency-Key`) may reach the disk after the service has requests of later steps: a crash in \
         that time repeats the step.\n"
    )
}
