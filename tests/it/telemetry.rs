//! How a journal is written and who learns of runs, as an operator sets it.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use axum::body::Bytes;
use axum::extract::{Request, State};
use serde_json::{Value, json};

use crate::harness::{RUNTIME, World, a2s};
use crate::http;

/// A receiver of OTLP: its address, and the path and body of each request.
fn collector() -> (String, mpsc::Receiver<(String, Bytes)>) {
    let (tell, told) = mpsc::channel();
    let take = async |State(tell): State<mpsc::Sender<_>>, request: Request| {
        let path = request.uri().path().to_owned();
        let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
        tell.send((path, body)).unwrap();
    };
    let router = axum::Router::new().fallback(take).with_state(tell);
    let url = RUNTIME.block_on(async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    });
    (url, told)
}

#[test]
fn runs_are_exported_as_the_file_says_and_sent_when_the_services_stop() {
    let (url, told) = collector();
    let mut world = World::down(&[]);
    let config = format!(
        "durability = \"normal\"\n\n[telemetry]\notlp-endpoint = \"{url}/otel\"\nservice-name = \"mine\"\n"
    );
    let config = world.write("a2s.toml", &config);
    world.add_flags(&["--config", &config]);
    world.start();
    let run = world.a2s(&["run", "ListDogBreeds", "--json"]).exits(0).one();
    let (_, metrics) = http::get(&format!("{}metrics", world.url()), &[]);
    world.stop();
    let (path, body) = told.recv().unwrap();
    assert_eq!(path, "/otel/v1/traces");
    // Texts stand in protobuf as they are; the trace of a run without a caller has its id.
    let id = run["id"].as_str().unwrap().replace('-', "");
    let id: Vec<u8> =
        (0..16).map(|at| u8::from_str_radix(&id[2 * at..2 * at + 2], 16).unwrap()).collect();
    for expected in [&b"mine"[..], b"acs.turn", b"gen_ai.tool.call", b"acs.decision", &id] {
        assert!(body.windows(expected.len()).any(|part| part == expected), "{expected:?}");
    }
    assert!(metrics.contains("a2s_executor_spans"), "{metrics}");
    if let Some(request) = read_by_others(&body) {
        check_as_read(&request, &run);
    }
}

/// A request of OTLP as the classes say that OpenTelemetry makes for Python; none without them.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn read_by_others(body: &[u8]) -> Option<Value> {
    let Some(folder) = std::env::var_os("A2S_TEST_PYTHON") else {
        eprintln!("SKIPPED: A2S_TEST_PYTHON names no folder, so no reader of others was asked");
        return None;
    };
    let mut reader = Command::new(Path::new(&folder).join("bin/python"))
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/read_traces.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    reader.stdin.take().unwrap().write_all(body).unwrap();
    let read = reader.wait_with_output().unwrap();
    assert!(read.status.success(), "it cannot be read");
    Some(serde_json::from_slice(&read.stdout).unwrap())
}

/// One trace with one root, of which every other span descends, each within the time of the root.
fn check_as_read(request: &Value, run: &Value) {
    let resource = &request["resourceSpans"][0];
    let service = json!({"key": "service.name", "value": {"stringValue": "mine"}});
    assert!(resource["resource"]["attributes"].as_array().unwrap().contains(&service));
    let spans = resource["scopeSpans"][0]["spans"].as_array().unwrap();
    let text = |span: &Value, name: &str| span[name].as_str().unwrap_or_default().to_owned();
    let time = |span: &Value, name: &str| text(span, name).parse::<u64>().unwrap();
    let (roots, others): (Vec<_>, Vec<_>) =
        spans.iter().partition(|span| text(span, "parentSpanId").is_empty());
    let [root] = roots.as_slice() else { panic!("{roots:?}") };
    let ids: BTreeSet<_> = spans.iter().map(|span| text(span, "spanId")).collect();
    assert_eq!(ids.len(), spans.len());
    for span in &others {
        assert!(ids.contains(&text(span, "parentSpanId")), "{span}");
        assert_eq!(text(span, "traceId"), text(root, "traceId"));
        let (begin, end) = (time(span, "startTimeUnixNano"), time(span, "endTimeUnixNano"));
        assert!(begin <= end && time(root, "startTimeUnixNano") <= begin, "{span}");
        assert!(end <= time(root, "endTimeUnixNano"), "{span}");
    }
    let told = spans.iter().filter_map(|span| span["events"].as_array()).flatten();
    let decisions = told.filter(|event| event["name"] == "acs.decision").count();
    let steps = run["steps"].as_array().unwrap().len();
    assert_eq!(decisions, 2 * steps, "one before and one after each step");
}

#[test]
fn what_cannot_be_a_setting_is_refused() {
    for flags in [["--durability", "some"], ["--otlp-endpoint", "nowhere"]] {
        let refused = a2s(&["up", "--listen", "127.0.0.1:0", flags[0], flags[1]]).exits(2);
        assert!(refused.stderr.contains(flags[0]), "{refused:?}");
    }
}
