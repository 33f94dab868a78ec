//! A service on loopback, `a2s up` beside it, and what it runs.

use std::ffi::OsStr;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::{allow, fixture_document, rpc_result};

use crate::itself::Itself;
use crate::program::Program;

/// The two requests of chains: one that reads, and one that writes a body of a kilobyte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Post,
}

/// What a guardian is asked about a step.
#[derive(Debug)]
pub(crate) struct Questions {
    /// Before its request leaves.
    pub(crate) request: Value,
    /// Before its answer is used.
    pub(crate) result: Value,
}

/// A service that counts, and answers at once, or behind 200 ms. It is a process of its own.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) url: String,
    _process: Itself,
}

impl Service {
    /// Starts this program again, as the service.
    pub(crate) fn start() -> Self {
        let process = Itself::start();
        Self { url: process.said.clone(), _process: process }
    }

    /// What a guardian is asked about a step of a chain.
    pub(crate) async fn questions(&self, client: &reqwest::Client, method: Method) -> Questions {
        let guardian = format!("{}/recording", self.url);
        let process = Process::start(self, &["--durability", "memory", "--guardian", &guardian]);
        process.publish(&chain(method, 1));
        process.run(client, &chain_name(method, 1)).await;
        let request = client.get(format!("{}/recorded", self.url));
        let [request, result] = request.send().await.unwrap().json().await.unwrap();
        Questions { request, result }
    }

    /// Requests to things so far.
    pub(crate) async fn count(&self, client: &reqwest::Client) -> usize {
        let request = client.get(format!("{}/count", self.url));
        request.send().await.unwrap().json().await.unwrap()
    }
}

/// Is the service, until standard input ends.
pub(crate) async fn serve() {
    let count = Arc::new(AtomicUsize::new(0));
    let read = async |State(count): State<Arc<AtomicUsize>>| {
        count.fetch_add(1, Ordering::Relaxed);
        Json(json!({ "value": "x" }))
    };
    let write = async |State(count): State<Arc<AtomicUsize>>, Json(_): Json<Value>| {
        count.fetch_add(1, Ordering::Relaxed);
        Json(json!({ "value": "x" }))
    };
    let slow = async || {
        tokio::time::sleep(Duration::from_millis(200)).await;
        Json(json!({ "value": "x" }))
    };
    let allow_all = async move |Json(question): Json<Value>| rpc_result(&question, allow());
    let recorded = Arc::<Mutex<Vec<Value>>>::default();
    let records = Arc::clone(&recorded);
    let record = async move |Json(question): Json<Value>| {
        let answer = rpc_result(&question, allow());
        records.lock().unwrap().push(question);
        answer
    };
    let tell = async move || Json(std::mem::take(&mut *recorded.lock().unwrap()));
    let counted = async |State(count): State<Arc<AtomicUsize>>| Json(count.load(Ordering::Relaxed));
    let router = Router::new()
        .route("/things/{id}", get(read))
        .route("/things", post(write))
        .route("/slow", get(slow))
        .route("/post", post(async || Json(json!({ "decision": "allow" }))))
        .route("/guardian", post(allow_all))
        .route("/recording", post(record))
        .route("/recorded", get(tell))
        .route("/count", get(counted))
        .with_state(count);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    println!("http://{}", listener.local_addr().unwrap());
    let server = axum::serve(listener, router).into_future();
    let orphaned = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
    tokio::select! {
        served = server => served.unwrap(),
        _ = orphaned => {}
    }
}

/// `a2s up` on a folder of its own.
#[derive(Debug)]
pub(crate) struct Process {
    program: Program,
    pub(crate) token: String,
    folder: TempDir,
}

impl Process {
    pub(crate) fn start(service: &Service, flags: &[&str]) -> Self {
        Self::start_in(TempDir::new().unwrap(), service, flags)
    }

    fn start_in(folder: TempDir, service: &Service, flags: &[&str]) -> Self {
        let upstream = format!("things.example={}", service.url);
        let mut arguments = vec![OsStr::new("up"), OsStr::new("--upstream"), upstream.as_ref()];
        arguments.extend([OsStr::new("--data-dir"), folder.path().as_ref()]);
        arguments.extend(flags.iter().map(OsStr::new));
        let program = Program::start(arguments);
        let token = std::fs::read_to_string(folder.path().join("token")).unwrap();
        Self { program, token: token.trim().to_owned(), folder }
    }

    pub(crate) fn url(&self) -> &str {
        &self.program.url
    }

    /// Where its own guardian answers over HTTP.
    pub(crate) fn guardian(&self) -> String {
        format!("{}aos", self.url())
    }

    /// From its start until it said that it is ready.
    pub(crate) fn ready(&self) -> Duration {
        self.program.ready
    }

    /// Ends it, and starts it again on the same folder.
    pub(crate) fn restart(mut self, service: &Service, flags: &[&str]) -> Self {
        let folder = std::mem::replace(&mut self.folder, TempDir::new().unwrap());
        drop(self);
        Self::start_in(folder, service, flags)
    }

    pub(crate) fn publish(&self, documents: &[String]) {
        documents.iter().for_each(|document| self.publish_one(document));
    }

    fn publish_one(&self, document: &str) {
        let file = self.folder.path().join("document.json");
        std::fs::write(&file, document).unwrap();
        let published = Command::new(env!("CARGO_BIN_EXE_a2s"))
            .args(["publish", "--url", self.url(), "--data-dir"])
            .args([self.folder.path(), &file])
            .output()
            .unwrap();
        assert!(published.status.success(), "{published:?}");
    }

    /// Runs a capability, and gives how long it took until the finished run was there.
    pub(crate) async fn run(&self, client: &reqwest::Client, name: &str) -> Duration {
        let begin = Instant::now();
        let request = client.post(format!("{}v1/executions", self.url())).bearer_auth(&self.token);
        let request = request.json(&json!({ "name": name, "wait": true }));
        let run: Value = request.send().await.unwrap().json().await.unwrap();
        let took = begin.elapsed();
        assert_eq!(run["status"], "succeeded", "{run}");
        took
    }

    /// The most memory that it has had, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        self.program.memory("VmHWM")
    }
}

/// What is written: the id, and text around it.
pub(crate) fn thing(id: &str) -> Value {
    json!({ "id": id, "text": "text ".repeat(200) })
}

/// The most steps of one document that a chain is made of.
const MOST: usize = 200;

/// A capability of so many steps, each of which sends what the one before was answered. One that is
/// longer than a document may be uses another several times; that one comes first.
pub(crate) fn chain(method: Method, steps: usize) -> Vec<String> {
    let step = |index: usize| {
        let id = match index.checked_sub(1) {
            None => "a".to_owned(),
            Some(before) => format!("${{out{before}}}"),
        };
        let inputs = match method {
            Method::Get => json!({ "id": id }),
            Method::Post => json!({ "body": thing(&id) }),
        };
        task(&format!("step{index}"), &format!("{method:?}"), &inputs, &format!("out{index}"))
    };
    let name = chain_name(method, steps);
    if steps > MOST {
        let part = chain_name(method, MOST);
        let uses: Vec<_> = (0..steps / MOST)
            .map(|index| json!({"id": format!("part{index}"), "type": "capability", "use": part}))
            .collect();
        let whole = json!({
            "dependencies": [{"capability": part, "version": "^1.0.0"}],
            "execution": {"type": "sequence", "steps": uses},
        });
        return chain(method, MOST).into_iter().chain([document(&name, whole)]).collect();
    }
    let tasks = json!({format!("{method:?}"): operation(&match method {
        Method::Get => reading(),
        Method::Post => writing(),
    })});
    let steps: Vec<_> = (0..steps).map(step).collect();
    let execution = json!({ "type": "sequence", "steps": steps });
    vec![document(&name, json!({ "tasks": tasks, "execution": execution }))]
}

pub(crate) fn chain_name(method: Method, steps: usize) -> String {
    format!("{method:?}Chain{steps}")
}

pub(crate) fn task(id: &str, task: &str, inputs: &Value, output: &str) -> Value {
    json!({
        "id": id,
        "format": "OpenAPI",
        "task": {"$ref": format!("#/tasks/{task}")},
        "input_mapping": inputs,
        "output_mapping": {output: "$.value"},
    })
}

/// A document that sends requests to the service.
pub(crate) fn document(name: &str, mut members: Value) -> String {
    members["domains"] = json!(["things.example"]);
    fixture_document(name, &members)
}

pub(crate) fn operation(paths: &Value) -> Value {
    json!({
        "openapi": "3.0.3",
        "info": {"title": "Things", "version": "1"},
        "servers": [{"url": "https://things.example"}],
        "paths": paths,
    })
}

fn reading() -> Value {
    let id = json!({"name": "id", "in": "path", "required": true, "schema": {"type": "string"}});
    json!({"/things/{id}": {"get": {
        "parameters": [id],
        "responses": {"200": {"description": "A thing"}},
    }}})
}

fn writing() -> Value {
    let schema = json!({
        "type": "object",
        "required": ["id", "text"],
        "properties": {"id": {"type": "string"}, "text": {"type": "string", "maxLength": 2_000}},
    });
    json!({"/things": {"post": {
        "requestBody": {"required": true, "content": {"application/json": {"schema": schema}}},
        "responses": {"200": {"description": "A thing"}},
    }}})
}

/// The mean without the slowest tenth. Where a wake-up takes a few microseconds or a hundred, as the
/// scheduler likes, a median is one or the other by chance.
pub(crate) fn mean(times: &mut [Duration]) -> Duration {
    times.sort();
    let kept = (times.len() * 9).div_ceil(10);
    times[..kept].iter().sum::<Duration>() / kept as u32
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
