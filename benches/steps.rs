//! Time per step of a run beside a bare `reqwest` loop over the same loopback service, and time
//! until the services are ready.
//!
//! Everything is measured in one run, in turns, so that a machine that changes its speed changes
//! both sides: read the ratios. `cargo bench --bench steps` (or `-- --quick` for a look).

#![expect(clippy::unwrap_used, reason = "a bench that cannot set up its world has to fail")]
#![expect(clippy::print_stdout, reason = "the table is what a bench is for")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use axum::Json;
use axum::routing::{get, post};
use serde_json::{Value, json};
use tempfile::TempDir;

const CHAINS: [usize; 3] = [1, 10, 100];
/// The two requests of a chain: one that reads, and one that writes a body of a kilobyte.
const METHODS: [&str; 2] = ["Get", "Post"];

#[tokio::main]
async fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let rounds = if quick { 5 } else { 40 };
    let service = start_service().await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();

    println!("a2s {}, {} rounds, median of each", env!("CARGO_PKG_VERSION"), rounds);
    println!();
    println!("ready after start, with the shipped documents");
    let folder = TempDir::new().unwrap();
    let (first, mut child, _) = start(folder.path(), &service, "builtin");
    child.kill().unwrap();
    child.wait().unwrap();
    let (again, mut child, _) = start(folder.path(), &service, "builtin");
    child.kill().unwrap();
    child.wait().unwrap();
    println!("  empty folder, publishing them  {:>8.1} ms", milliseconds(first));
    println!("  same folder again              {:>8.1} ms", milliseconds(again));

    for guardian in ["off", "builtin"] {
        let folder = TempDir::new().unwrap();
        let (_, mut child, url) = start(folder.path(), &service, guardian);
        let token = std::fs::read_to_string(folder.path().join("token")).unwrap();
        publish_chains(folder.path(), &url);
        println!();
        println!("time per step, guardian {guardian}, journal full");
        println!("  {:<6} {:>5}  {:>10}  {:>10}  {:>6}", "", "steps", "a2s", "bare", "ratio");
        for (method, steps) in chains() {
            let (mut ours, mut bare) = (Vec::new(), Vec::new());
            let rounds = (rounds / steps.min(4)).max(3);
            for _ in 0..rounds {
                ours.push(run_chain(&client, &url, token.trim(), method, steps).await);
                bare.push(run_bare(&client, &service, method, steps, guardian == "builtin").await);
            }
            let (ours, bare) = (median(&mut ours) / steps as u32, median(&mut bare) / steps as u32);
            let ratio = ours.as_secs_f64() / bare.as_secs_f64();
            println!(
                "  {method:<6} {steps:>5}  {:>7.3} ms  {:>7.3} ms  {ratio:>5.2}×",
                milliseconds(ours),
                milliseconds(bare)
            );
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    println!();
    println!(
        "bare: one request per step with its JSON read; with a guardian, two bare POSTs more."
    );
}

/// Every method with every length.
fn chains() -> impl Iterator<Item = (&'static str, usize)> {
    METHODS.into_iter().flat_map(|method| CHAINS.map(|steps| (method, steps)))
}

/// What is written: the id, and text around it.
fn thing(id: &str) -> Value {
    json!({ "id": id, "text": "text ".repeat(200) })
}

/// A service that answers at once.
async fn start_service() -> String {
    let router = axum::Router::new()
        .route("/things/{id}", get(async || Json(json!({ "value": "x" }))))
        .route("/things", post(async |Json(_): Json<Value>| Json(json!({ "value": "x" }))))
        .route("/post", post(async || Json(json!({ "decision": "allow" }))));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

/// `a2s up`, and how long it took until it said that it is ready.
fn start(folder: &Path, service: &str, guardian: &str) -> (Duration, Child, String) {
    let begin = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_a2s"))
        .args(["up", "--json", "--log", "error", "--listen", "127.0.0.1:0", "--guardian", guardian])
        .args(["--upstream", &format!("things.example={service}"), "--data-dir"])
        .arg(folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ready: Value = serde_json::from_str(&line).unwrap();
    (begin.elapsed(), child, ready["url"].as_str().unwrap().to_owned())
}

fn publish_chains(folder: &Path, url: &str) {
    for (method, steps) in chains() {
        let is_get = method == "Get";
        let step = |index: usize| {
            let id = match index.checked_sub(1) {
                None => "a".to_owned(),
                Some(before) => format!("${{out{before}}}"),
            };
            json!({
                "id": format!("step{index}"),
                "format": "OpenAPI",
                "task": {"$ref": format!("#/tasks/{method}")},
                "input_mapping": if is_get { json!({"id": id}) } else { json!({"body": thing(&id)}) },
                "output_mapping": {format!("out{index}"): "$.value"},
            })
        };
        let mut document = json!({
            "a2s": "1.0.0",
            "name": format!("{method}Chain{steps}"),
            "description": "A chain of requests",
            "domains": ["things.example"],
            "version": "1.0.0",
            "authors": [{"name": "Bench"}],
            "tasks": {method: {
                "openapi": "3.0.3",
                "info": {"title": "Things", "version": "1"},
                "servers": [{"url": "https://things.example"}],
                "paths": if is_get { reading() } else { writing() },
            }},
            "execution": {"type": "sequence", "steps": (0..steps).map(step).collect::<Vec<_>>()}
        });
        let digest = a2s::compile(document.to_string().as_bytes()).digest.unwrap();
        document["checksum"] = json!(digest);
        let file = folder.join("chain.json");
        std::fs::write(&file, document.to_string()).unwrap();
        let published = Command::new(env!("CARGO_BIN_EXE_a2s"))
            .args(["publish", "--url", url, "--data-dir"])
            .args([folder, &file])
            .output()
            .unwrap();
        assert!(published.status.success(), "{published:?}");
    }
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

async fn run_chain(
    client: &reqwest::Client,
    url: &str,
    token: &str,
    method: &str,
    steps: usize,
) -> Duration {
    let begin = Instant::now();
    let run: Value = client
        .post(format!("{url}v1/executions"))
        .bearer_auth(token)
        .json(&json!({ "name": format!("{method}Chain{steps}"), "wait": true }))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    let took = begin.elapsed();
    assert_eq!(run["status"], "succeeded", "{run}");
    took
}

async fn run_bare(
    client: &reqwest::Client,
    service: &str,
    method: &str,
    steps: usize,
    guarded: bool,
) -> Duration {
    let begin = Instant::now();
    let mut id = "a".to_owned();
    for _ in 0..steps {
        if guarded {
            post_bare(client, service, &id).await;
        }
        let request = match method {
            "Get" => client.get(format!("{service}/things/{id}")),
            _ => client.post(format!("{service}/things")).json(&thing(&id)),
        };
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        if guarded {
            post_bare(client, service, &id).await;
        }
        id = answer["value"].as_str().unwrap().to_owned();
    }
    begin.elapsed()
}

async fn post_bare(client: &reqwest::Client, service: &str, id: &str) {
    let request = client.post(format!("{service}/post")).json(&json!({ "id": id }));
    let answer: Value = request.send().await.unwrap().json().await.unwrap();
    assert_eq!(answer["decision"], "allow");
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
