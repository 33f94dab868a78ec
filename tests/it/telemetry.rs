//! How a journal is written and who learns of runs, as an operator sets it.

use std::sync::mpsc;

use axum::body::Bytes;
use axum::extract::{Request, State};

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
}

#[test]
fn what_cannot_be_a_setting_is_refused() {
    for flags in [["--durability", "some"], ["--otlp-endpoint", "nowhere"]] {
        let refused = a2s(&["up", "--listen", "127.0.0.1:0", flags[0], flags[1]]).exits(2);
        assert!(refused.stderr.contains(flags[0]), "{refused:?}");
    }
}
