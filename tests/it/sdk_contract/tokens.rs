//! Tokens, which go to their own origin, and not over plain HTTP to other machines.

use super::*;

/// Records which addresses get a token.
pub(super) fn record(recorder: &mut Recorder<'_>) {
    let refused = json!({"error": {"class": "InvalidInput", "code": null}});
    for (title, settings) in [
        ("a token over plain HTTP", json!({"url": "http://a2s.example", "token": "secret"})),
        (
            "a token over plain HTTP that is not allowed",
            json!({"url": "http://192.0.2.1:80", "token": "secret", "allow_insecure_tokens": false}),
        ),
        ("an address with another scheme", json!({"url": "ftp://a2s.example"})),
    ] {
        let name = format!("tokens/{title}");
        recorder.record(&name, "check_health", json!({}), &[], refused.clone());
        recorder.add("settings", settings);
    }
    let mut health = recorder.exchange(&Sent::get("/healthz"));
    let nowhere = "/nonexistent";
    for (title, url, header) in [
        ("the token of another origin", "https://a2s.example", Value::Null),
        ("the token of this origin", "{server}", json!("Bearer secret")),
        ("the token of this machine", "", json!("Bearer secret")),
    ] {
        health.recorded["request"]["headers"]["authorization"] = header;
        let ending = json!({"result": true});
        recorder.record(&format!("tokens/{title}"), "check_health", json!({}), &[&health], ending);
        recorder.add("settings", json!({"token": null}));
        let environment = json!({"A2S_URL": url, "A2S_TOKEN": "secret", "A2S_DATA_DIR": nowhere});
        recorder.add("environment", environment);
    }
}
