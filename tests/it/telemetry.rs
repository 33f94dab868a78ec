//! How a journal is written and who learns of runs, as an operator sets it.

use std::collections::BTreeSet;
use std::sync::mpsc;

use axum::body::Bytes;
use axum::extract::{Request, State};
use serde_json::{Value, json};

use crate::harness::{World, a2s, asked_others, serve};
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
    let url = serve(router);
    (url, told)
}

#[test]
fn runs_are_exported_and_flushed_at_shutdown() {
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
    for expected in [&b"mine"[..], b"acs.turn", b"execute_tool ", b"acs.decision", &id] {
        assert!(body.windows(expected.len()).any(|part| part == expected), "{expected:?}");
    }
    assert!(metrics.contains("a2s_executor_spans"), "{metrics}");
    if let Some(request) = asked_others("read_traces.py", &body) {
        check_as_read(&serde_json::from_str(&request).unwrap(), &run);
    }
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
fn security_events_are_written_as_others_read_them() {
    let mut world = World::down(&[]);
    let policy = r#"
version: 1
default: allow
rules:
  - id: no-tweets
    on: toolCallRequest
    tool: PostWeatherTweet.postTweet
    decision: deny
    message: Nobody tweets today.
    reason_codes: policy.social
  - id: other-city
    on: toolCallRequest
    tool: PostWeatherTweet.getWeather
    decision: modify
    modify:
      set: {pathParameters.city: Rome}
"#;
    let policy = world.write("policy.yaml", policy);
    let file = world.folder().join("events.jsonl");
    world.add_flags(&["--policy", &policy, "--ocsf-file", file.to_str().unwrap()]);
    world.start();
    world.a2s(&["run", "ListDogBreeds"]).exits(0);
    world.a2s(&["state", "set", "location=Paris"]).exits(0);
    world.a2s(&["run", "PostWeatherTweet", "--input", "message=Now:"]).exits(3);
    world.stop();
    let events = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<Value> =
        events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let titles: Vec<_> = lines.iter().map(|event| event["message"].as_str().unwrap()).collect();
    for title in [
        "ListDogBreeds.listBreeds succeeded",
        "steps/memoryStore: allow",
        "steps/memoryContextRetrieval: allow",
        "The guardian changed the request of PostWeatherTweet.getWeather",
        "PostWeatherTweet.postTweet failed: A2S340",
    ] {
        assert!(titles.contains(&title), "{title} is not among {titles:#?}");
    }
    let denied = lines.iter().find(|event| event["severity"] == "High").unwrap();
    assert_eq!(denied["finding_info"]["desc"], "Nobody tweets today.");
    if let Some(checked) = asked_others("check_events.py", events.as_bytes()) {
        let checked: Vec<_> = checked.lines().map(str::to_owned).collect();
        let told = |event: &Value| format!("{} {}", event["class_uid"], event["type_uid"]);
        assert_eq!(checked, lines.iter().map(told).collect::<Vec<_>>());
        for class in ["6003 600302", "6003 600399", "2004 200401"] {
            assert!(checked.iter().any(|told| told == class), "{class} is not among {checked:?}");
        }
    }
}

#[test]
fn what_cannot_be_a_setting_is_refused() {
    for flags in
        [["--durability", "some"], ["--otlp-endpoint", "nowhere"], ["--ocsf-endpoint", "nowhere"]]
    {
        let refused = a2s(&["up", "--listen", "127.0.0.1:0", flags[0], flags[1]]).exits(2);
        assert!(refused.stderr.contains(flags[0]), "{refused:?}");
    }
}
