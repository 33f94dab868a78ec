//! Registries and executors that lie.

use super::*;

/// Records calls whose responses are not what was asked for.
pub(super) fn record(recorder: &mut Recorder<'_>) {
    words(recorder);
    versions(recorder);
    executors(recorder);
}

/// Hits whose words are not those of their documents.
fn words(recorder: &mut Recorder<'_>) {
    let found = recorder
        .exchange(&Sent::post("/v1/search", json!({"intent": "tell me a joke", "limit": 1})));
    let hit = found.body["capabilities"][0].clone();
    let fetched = recorder.exchange(&Sent::get("/v1/capabilities/GetJoke/1.0.0"));
    let verify = |recorder: &mut Recorder<'_>,
                  title: &str,
                  capability: &Value,
                  fetched: &Exchange,
                  ending| {
        let arguments = json!({"capability": capability});
        recorder.record(&format!("lies/{title}"), "verify_checksum", arguments, &[fetched], ending);
    };
    verify(recorder, "a hit that is true", &hit, &fetched, json!({"result": fetched.body}));
    let drifted = json!({"error": {"class": "Drifted", "code": null}});
    for (title, member, value) in [
        ("a hit with other words", "description", json!("Transfers all money")),
        ("a hit with another input", "parameters", json!([{"name": "amount", "required": true}])),
    ] {
        let mut lie = hit.clone();
        lie[member] = value;
        verify(recorder, title, &lie, &fetched, drifted.clone());
    }
    // A document whose permission the hit hides.
    let mut document = fetched.body.clone();
    document["permissions"] = json!(["payments:write"]);
    let checksum = a2s::Digest::of_document(&document).unwrap().to_string();
    document["checksum"] = json!(checksum);
    let mut lie = hit;
    lie["checksum"] = json!(checksum);
    let served = served(&fetched, &document);
    verify(recorder, "a hit without a permission", &lie, &served, drifted);
}

/// Documents of other versions, and texts that are not documents.
fn versions(recorder: &mut Recorder<'_>) {
    let fetched = recorder.exchange(&Sent::get("/v1/capabilities/GetJoke/1.0.0"));
    let good = |served: &Exchange| json!({"result": served.recorded["response"]["body"]});
    let drifted = json!({"error": {"class": "Drifted", "code": null}});
    let document = |version: &str, name: &str| {
        let mut document = fetched.body.clone();
        document["version"] = json!(version);
        document["name"] = json!(name);
        document["checksum"] = json!(a2s::Digest::of_document(&document).unwrap().to_string());
        document
    };
    for (wanted, version, is_good) in [
        ("1.0.0", "1.0.0", true),
        ("1.0.0", "1.0", true),
        ("1.0.0", "0.9.0", false),
        ("1.0.0", "1.0.1", false),
        ("^1.0", "1.7.2", true),
        ("^1.0", "2.0.0", false),
        ("1.1", "1.0.9", false),
        ("~1.2.3", "1.2.9", true),
        ("~1.2.3", "1.3.0", false),
        ("0.2", "0.3.0", false),
        ("1.x", "1.9.0", true),
        (">=1, <3", "2.5.0", true),
        (">=1, <3", "3.0.0", false),
        ("^1.0", "1.1.0-beta", false),
        ("^1.1.0-alpha", "1.1.0-beta", true),
        ("latest", "7.0.0", true),
    ] {
        let sent = percent_encoded(wanted);
        let mut exchange = served(&fetched, &document(version, "GetJoke"));
        exchange.recorded["request"]["path"] = json!(format!("/v1/capabilities/GetJoke/{sent}"));
        let ending = if is_good { good(&exchange) } else { drifted.clone() };
        recorder.record(
            &format!("lies/the version {version} for {wanted}"),
            "get_capability",
            json!({"name": "GetJoke", "version": wanted}),
            &[&exchange],
            ending,
        );
    }
    let other = served(&fetched, &document("1.0.0", "PostTweet"));
    let arguments = json!({"name": "GetJoke", "version": "1.0.0"});
    recorder.record(
        "lies/the document of another name",
        "get_capability",
        arguments.clone(),
        &[&other],
        drifted,
    );
    for (title, text) in [
        ("a list", "[]"),
        (
            "a name that occurs twice",
            r#"{"name": "GetJoke", "version": "1.0.0", "name": "GetJoke"}"#,
        ),
        ("a number that no double holds", r#"{"name": "GetJoke", "version": "1.0.0", "x": 1e999}"#),
        (
            "half of a pair of surrogates",
            r#"{"name": "GetJoke", "version": "1.0.0", "x": "\ud800"}"#,
        ),
    ] {
        let headers = json!({"content-type": "application/json"});
        let exchange =
            answered_with(&fetched, json!({"status": 200, "headers": headers, "text": text}));
        recorder.record(
            &format!("lies/{title} for a document"),
            "get_capability",
            arguments.clone(),
            &[&exchange],
            json!({"error": {"class": "InvalidDocument", "code": null}}),
        );
    }
}

/// The text as one segment of a path.
fn percent_encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// Executors that take other content than they were given.
fn executors(recorder: &mut Recorder<'_>) {
    let joke = reference(recorder.world, "GetJoke");
    let other = format!("sha256:{}", "1".repeat(64));
    let drifted = json!({"error": {"class": "Drifted", "code": null}});
    let planned = recorder.exchange(&Sent::post("/v1/plans", joke.clone()));
    let mut lie = planned.body.clone();
    lie["capability"]["checksum"] = json!(other);
    let arguments = json!({"capability": joke});
    let exchange = served(&planned, &lie);
    let title = "lies/a plan of other content";
    recorder.record(title, "plan", arguments.clone(), &[&exchange], drifted.clone());
    let started = recorder.exchange(&runs::start(joke));
    let mut lie = started.body.clone();
    lie["checksum"] = json!(other);
    let exchange = served(&started, &lie);
    recorder.record("lies/a run of other content", "run", arguments.clone(), &[&exchange], drifted);
    let mut newer = started.body.clone();
    newer["status"] = json!("paused");
    let exchange = served(&started, &newer);
    let error = json!({"error": {"class": "RunFailed", "code": null, "run": newer["id"]}});
    recorder.record("lies/a status that no SDK knows", "run", arguments, &[&exchange], error);
}
