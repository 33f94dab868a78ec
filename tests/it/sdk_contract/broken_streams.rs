//! Streams that are cut, silent or not streams, outputs that are large, and callers who stop waiting.

use super::*;

const START: &str = "/v1/executions";

/// Records runs whose events do not come as they should.
pub(super) fn record(recorder: &mut Recorder<'_>) {
    let body = json!({"name": "GetCountry", "inputs": {"country_code": "FR"}});
    let arguments = json!({"capability": "GetCountry", "inputs": {"country_code": "FR"}});
    let started = recorder.exchange(&runs::start(body));
    let id = runs::id_of(&started.body);
    let stream = runs::follow(recorder, &id, None);
    let ended = runs::read_run(recorder, &id);
    let good = json!({"result": ended.body});

    // A restart takes longer than the tries of an ordinary request.
    let first = runs::cut_after(&stream, 2);
    let rest = runs::follow(recorder, &id, Some(2));
    let (lost, unread) = (cut(&rest), cut(&ended));
    let page = json!({"status": 502, "headers": {"content-type": "text/html"}, "text": ""});
    let proxy = answered_with(&rest, page);
    let restart = [
        &started, &first, &lost, &lost, &proxy, &lost, &lost, &rest, &unread, &unread, &unread,
        &unread, &ended,
    ];
    recorder.record(
        "streams/a restart during a run",
        "run",
        arguments.clone(),
        &restart,
        good.clone(),
    );

    // An orderly end before the last event is a lost connection that a proxy has hidden.
    let mut short = first.recorded.clone();
    short["response"]["cut"] = json!(false);
    let short = Exchange { recorded: short, status: 0, body: Value::Null };
    let exchanges = [&started, &short, &rest, &ended];
    recorder.record("streams/an end that is too early", "run", arguments.clone(), &exchanges, good);

    // What was received comes again.
    let again = Exchange { recorded: rest.recorded.clone(), status: 0, body: Value::Null };
    let mut again = again;
    again.recorded["response"]["text"] = stream.recorded["response"]["text"].clone();
    let listed = json!({"result": events(&stream.body)});
    let call = json!({"id": id});
    recorder.record(
        "streams/events that come twice",
        "events",
        call.clone(),
        &[&first, &again],
        listed,
    );

    let html = json!({"status": 200, "headers": {"content-type": "text/html"}, "text": "<p>"});
    let page = answered_with(&stream, html);
    let error = json!({"error": {"class": "A2SError", "code": null}});
    recorder.record("streams/a page instead of a stream", "events", call, &[&page], error);

    silence(recorder, &arguments, [&started, &first, &rest, &ended]);
    large(recorder, &arguments, [&started, &stream, &ended]);
    aborts(recorder);
}

/// A connection on which nothing comes any more.
fn silence(recorder: &mut Recorder<'_>, arguments: &Value, exchanges: [&Exchange; 4]) {
    let [started, first, rest, ended] = exchanges;
    let mut silent = first.recorded.clone();
    silent["response"]["cut"] = json!(false);
    silent["response"]["stall"] = json!(true);
    let silent = Exchange { recorded: silent, status: 0, body: Value::Null };
    recorder.record(
        "streams/a stream that falls silent",
        "run",
        arguments.clone(),
        &[started, &silent, rest, ended],
        json!({"result": ended.body}),
    );
    recorder.add("settings", json!({"idle_timeout": 1}));
}

/// The last event of a run carries its output.
fn large(recorder: &mut Recorder<'_>, arguments: &Value, exchanges: [&Exchange; 3]) {
    let [started, stream, ended] = exchanges;
    let mut padded = stream.recorded.clone();
    let text = padded["response"]["text"].as_str().unwrap();
    let text =
        text.replace("\"type\":\"run_finished\"", "\"pad\":\"(pad)\",\"type\":\"run_finished\"");
    assert!(text.contains("(pad)"), "{text}");
    padded["response"]["text"] = json!(text);
    padded["response"]["pad"] = json!(9_000_000);
    let padded = Exchange { recorded: padded, status: 0, body: Value::Null };
    recorder.record(
        "streams/an output of nine megabytes",
        "run",
        arguments.clone(),
        &[started, &padded, ended],
        json!({"result": ended.body}),
    );
}

/// A caller who does not wait any more.
fn aborts(recorder: &mut Recorder<'_>) {
    for (title, fate) in [("is cancelled", "cancel"), ("goes on", "detach")] {
        let started = recorder.exchange(&runs::start(json!({"name": "CallSlowly"})));
        let id = runs::id_of(&started.body);
        recorder.wait_for_service("GET");
        let path = format!("{START}/{id}/cancel");
        let cancelled = recorder.exchange(&Sent::new(Method::POST, &path, Value::Null));
        let mut held = runs::follow(recorder, &id, None).recorded;
        held["response"]["text"] = json!("");
        held["response"]["hold"] = json!(true);
        let held = Exchange { recorded: held, status: 0, body: Value::Null };
        let exchanges = [&started, &held, &cancelled];
        let count = if fate == "cancel" { 3 } else { 2 };
        recorder.record(
            &format!("streams/a run {title} when its caller leaves"),
            "run",
            json!({"capability": "CallSlowly", "on_abort": fate}),
            &exchanges[..count],
            json!({"error": {"class": "Interrupted", "code": null, "run": id}}),
        );
    }
}
