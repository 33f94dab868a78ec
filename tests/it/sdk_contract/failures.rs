//! Lost connections, services that are busy, and responses that are none.

use super::*;

const BUSY: &str = r#"{"type":"/errors/A2S394","title":"run database does not respond","status":503,"code":"A2S394","detail":"the run database does not respond"}"#;

/// A response that says that the service is away for now.
fn away() -> Value {
    let body: Value = serde_json::from_str(BUSY).unwrap();
    let headers = json!({"content-type": "application/problem+json", "retry-after": "1"});
    json!({"status": 503, "headers": headers, "body": body})
}

#[test]
fn failures() {
    let mut world = world();
    let mut recorder = Recorder::new(&world);
    repeat(&mut recorder);
    lose(&mut recorder);
    misunderstand(&mut recorder);
    wait_for_room(&mut recorder);
    lies::record(&mut recorder);
    broken_streams::record(&mut recorder);
    tokens::record(&mut recorder);
    let mut calls = recorder.calls;

    // A crash while a request that changes something is under way.
    let recorder = Recorder::new(&world);
    let started = recorder.exchange(&Sent::post("/v1/executions", json!({"name": "ChangeSlowly"})));
    let id = started.body["id"].as_str().unwrap().to_owned();
    recorder.wait_for_service("POST");
    drop(recorder);
    world.kill();
    world.start();
    let mut recorder = Recorder::new(&world);
    let path = format!("/v1/executions/{id}");
    let stream = format!("{path}/events");
    recorder.exchange(&Sent::get(&stream).with("accept", "text/event-stream"));
    let waiting = recorder.exchange(&Sent::get(&path));
    assert_eq!(waiting.body["error"]["code"], "A2S371", "{}", waiting.body);
    let resumed =
        recorder.exchange(&Sent::post(&format!("{path}/resume"), json!({"decision": "skip"})));
    // The run may have ended before this response.
    let mut running = waiting.body.clone();
    running["status"] = json!("running");
    running.as_object_mut().unwrap().remove("error");
    let headers = json!({"content-type": "application/json"});
    let response = json!({"status": 202, "headers": headers, "body": running});
    let resumed = answered_with(&resumed, response);
    let mut error = json!({"error": run_error("OutcomeUnknown", &waiting.body)});
    let result = json!({"result": running});
    error["then"] = json!([then("resume", json!({"decision": "skip"}), &[&resumed], result)]);
    let wait = then("wait", json!({}), &[], error);
    let ending = json!({"result": waiting.body, "then": [wait]});
    recorder.record(
        "failures/an unknown outcome",
        "get_run",
        json!({"id": id}),
        &[&waiting],
        ending,
    );
    calls.append(&mut recorder.calls);
    recorder.calls = calls;
    recorder.finish("failures");
}

/// What is safe to repeat is repeated.
fn repeat(recorder: &mut Recorder<'_>) {
    let versions = recorder.exchange(&Sent::get("/v1/capabilities/GetJoke"));
    let name = json!({"name": "GetJoke"});
    let busy = answered_with(&versions, away());
    let lost = cut(&versions);
    for (title, exchanges) in [
        ("a read after a 503", [&busy, &versions].as_slice()),
        ("a read after two 503", &[&busy, &busy, &versions]),
        ("a read after a lost connection", &[&lost, &versions]),
        ("a read after both", &[&lost, &busy, &versions]),
    ] {
        let ending = json!({"result": versions.body});
        recorder.record(
            &format!("failures/{title}"),
            "list_versions",
            name.clone(),
            exchanges,
            ending,
        );
    }
    let error = json!({"error": {"class": "NotReachable", "code": "A2S394", "status": 503}});
    let exchanges = [&busy, &busy, &busy];
    recorder.record(
        "failures/a service that stays away",
        "list_versions",
        name.clone(),
        &exchanges,
        error,
    );
    let error = json!({"error": {"class": "NotReachable", "code": null}});
    let exchanges = [&lost, &lost, &lost];
    recorder.record(
        "failures/connections that stay lost",
        "list_versions",
        name.clone(),
        &exchanges,
        error,
    );

    for status in [408, 500, 502, 504] {
        let page = json!({"status": status, "headers": {"content-type": "text/html"}, "text": ""});
        let broken = answered_with(&versions, page);
        recorder.record(
            &format!("failures/a read after a {status}"),
            "list_versions",
            name.clone(),
            &[&broken, &versions],
            json!({"result": versions.body}),
        );
    }
    let mut long = away();
    long["headers"]["retry-after"] = json!("61");
    let error = json!({"class": "NotReachable", "code": "A2S394", "status": 503});
    recorder.record(
        "failures/a pause that is too long",
        "list_versions",
        name,
        &[&answered_with(&versions, long)],
        json!({"error": error}),
    );

    let body = json!({"name": "GetCountry", "inputs": {"country_code": "FR"}});
    let sent = Sent::post("/v1/executions", body).with("idempotency-key", "order-18");
    let started = recorder.exchange(&sent);
    let id = runs::id_of(&started.body);
    let stream = runs::follow(recorder, &id, None);
    let ended = runs::read_run(recorder, &id);
    let lost = cut(&started);
    let page = json!({"status": 502, "headers": {"content-type": "text/html"}, "text": ""});
    let broken = answered_with(&started, page);
    let arguments = json!({
        "capability": "GetCountry", "inputs": {"country_code": "FR"}, "idempotency_key": "order-18",
    });
    let ending = json!({"result": ended.body});
    recorder.record(
        "failures/a start after a lost connection and a 502",
        "run",
        arguments,
        &[&lost, &broken, &started, &stream, &ended],
        ending,
    );
    let search = json!({"intent": "tell me a joke", "limit": 1});
    let found = recorder.exchange(&Sent::post("/v1/search", search.clone()));
    let (busy, lost) = (answered_with(&found, away()), cut(&found));
    let ending = json!({"result": hits(&found.body)});
    let exchanges = [&busy, &lost, &found];
    recorder.record(
        "failures/a search after both",
        "search_capabilities",
        search,
        &exchanges,
        ending,
    );
}

/// What is not safe to repeat is not repeated after a lost connection.
fn lose(recorder: &mut Recorder<'_>) {
    let run = "0199c82c-c002-7100-8000-00000000abcd";
    let error = json!({"error": {"class": "NotReachable", "code": null}});
    for (title, call, arguments, path, body) in [
        (
            "a yes",
            "approve",
            json!({"id": "a1b2c3d4e5f6"}),
            "/v1/approvals/a1b2c3d4e5f6/approve".to_owned(),
            json!({}),
        ),
        (
            "a resume",
            "resume_run",
            json!({"id": run, "decision": "skip"}),
            format!("/v1/executions/{run}/resume"),
            json!({"decision": "skip"}),
        ),
        (
            "a token",
            "create_token",
            json!({"name": "x", "scopes": ["publish"]}),
            "/v1/tokens".to_owned(),
            json!({"name": "x", "scopes": ["publish"]}),
        ),
    ] {
        let request = json!({
            "method": "POST", "path": path, "headers": {"accept": "application/json"}, "body": body,
        });
        let recorded = json!({"request": request, "response": {"cut": true}});
        let lost = Exchange { recorded, status: 0, body: Value::Null };
        let name = format!("failures/{title} over a lost connection");
        recorder.record(&name, call, arguments.clone(), &[&lost], error.clone());
        let page = json!({"status": 502, "headers": {"content-type": "text/html"}, "text": ""});
        let broken = answered_with(&lost, page);
        let name = format!("failures/{title} before a 502");
        recorder.record(&name, call, arguments, &[&broken], error.clone());
    }
}

/// Responses that are not from A2S.
fn misunderstand(recorder: &mut Recorder<'_>) {
    let versions = recorder.exchange(&Sent::get("/v1/capabilities/GetJoke"));
    let html = json!({"content-type": "text/html"});
    let kind = json!({"content-type": "application/json"});
    for (title, class, response) in [
        (
            "a page instead of JSON",
            "A2SError",
            json!({"status": 200, "headers": html, "text": "<html></html>"}),
        ),
        (
            "a body that is no JSON",
            "A2SError",
            json!({"status": 200, "headers": kind, "text": "{\"name\": "}),
        ),
        (
            "a page with the status 404",
            "NotFound",
            json!({"status": 404, "headers": html, "text": "<html></html>"}),
        ),
        (
            "a redirect",
            "A2SError",
            json!({"status": 302, "headers": {"location": "http://127.0.0.1:1/"}}),
        ),
    ] {
        let exchange = answered_with(&versions, response);
        let error = json!({"error": {"class": class, "code": null}});
        let name = json!({"name": "GetJoke"});
        recorder.record(&format!("failures/{title}"), "list_versions", name, &[&exchange], error);
    }
}

/// A tenant without room for another run.
fn wait_for_room(recorder: &mut Recorder<'_>) {
    let token = json!({"name": "batch", "scopes": ["execute"]});
    let made = recorder.exchange(&Sent::post("/v1/tokens", token)).body;
    let owner = std::mem::replace(&mut recorder.token, made["token"].as_str().unwrap().to_owned());
    let slow = recorder.exchange(&Sent::post("/v1/executions", json!({"name": "CallSlowly"})));
    let body = json!({"name": "GetJoke"});
    let sent = Sent::post("/v1/executions", body).with("idempotency-key", "*");
    let full = recorder.exchange(&sent);
    assert_eq!(full.status, 429, "{}", full.body);
    let id = slow.body["id"].as_str().unwrap();
    let path = format!("/v1/executions/{id}/cancel");
    recorder.exchange(&Sent::new(Method::POST, &path, Value::Null));
    let path = format!("/v1/executions/{id}/events");
    recorder.exchange(&Sent::get(&path).with("accept", "text/event-stream"));
    let started = recorder.exchange(&sent);
    let id = runs::id_of(&started.body);
    let stream = runs::follow(recorder, &id, None);
    let ended = runs::read_run(recorder, &id);
    assert_eq!(ended.body["status"], "succeeded", "{}", ended.body);
    let arguments = json!({"capability": "GetJoke"});
    let ending = json!({"result": ended.body});
    recorder.record(
        "failures/a start when there is room again",
        "run",
        arguments.clone(),
        &[&full, &started, &stream, &ended],
        ending,
    );
    let mut error = problem_error("Busy", &full.body);
    error["retry_after"] = json!(5);
    let exchanges = [&full, &full, &full];
    recorder.record(
        "failures/a start without room",
        "run",
        arguments,
        &exchanges,
        json!({"error": error}),
    );
    recorder.token = owner;
}
