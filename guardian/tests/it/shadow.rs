//! A policy that is only tried.

use guardian::PolicySource;
use serde_json::json;

use crate::world::{World, call, result};

const LIVE: &str = "
version: 1
default: allow
rules:
  - {id: mail, on: toolCallResult, decision: modify, modify: {redact: [{pattern: email}]}}
";
const TRIED: &str = "
version: 1
default: allow
rules:
  - {id: mail, on: toolCallResult, decision: modify, modify: {redact: [{pattern: email}]}}
  - {id: no-shell, tool: shell, decision: deny, reason_codes: shell}
  - {id: two, on: toolCallRequest, tool: dogs, limit: {calls: 2}, decision: deny}
";

#[tokio::test]
async fn what_would_have_been_decided_is_recorded_and_does_nothing() {
    let world = World::with(PolicySource::Text(LIVE.to_owned()), |config| {
        config.shadow = Some(PolicySource::Text(TRIED.to_owned()));
    });
    assert_eq!(world.ask(&call("shell", &json!({}))).await["decision"], "allow");
    for _ in 0..3 {
        assert_eq!(world.ask(&call("dogs", &json!({}))).await["decision"], "allow");
    }
    assert_eq!(world.ask(&result("dogs", &["a@b.example"])).await["decision"], "modify");
    let records = world.records();
    let events: Vec<_> = records.iter().map(|record| record["event"].as_str().unwrap()).collect();
    assert_eq!(events[..2], ["policy", "shadow_policy"]);
    let would: Vec<_> = records
        .iter()
        .filter(|record| record["event"] == "decision")
        .map(|record| {
            let shadow = &record["shadow"];
            assert_eq!(shadow["policy"], records[1]["policy"]);
            (shadow["decision"].as_str().unwrap(), shadow["differs"].as_bool().unwrap())
        })
        .collect();
    assert_eq!(
        would,
        [("deny", true), ("allow", false), ("allow", false), ("deny", true), ("modify", false)]
    );
    assert_eq!(records[2]["shadow"]["reason_codes"], json!(["shell"]));
    let metrics = world.metrics();
    let line = r#"shadow_decisions_total{method="steps/toolCallRequest",decision="allow",shadow="deny"} 2"#;
    assert!(metrics.contains(line), "{metrics}");
}

/// Two policies with the same rule count apart.
#[tokio::test]
async fn what_is_only_tried_uses_nothing_up() {
    let policy = |calls: u32| {
        PolicySource::Text(format!(
            "
version: 1
default: allow
rules: [{{id: few, on: toolCallRequest, limit: {{calls: {calls}}}, decision: deny}}]
"
        ))
    };
    let world = World::with(policy(2), |config| config.shadow = Some(policy(3)));
    let mut told = Vec::new();
    for _ in 0..4 {
        told.push(world.ask(&call("t", &json!({}))).await["decision"].clone());
    }
    assert_eq!(told, ["allow", "allow", "deny", "deny"]);
    let would: Vec<_> =
        world.records()[2..].iter().map(|r| r["shadow"]["decision"].clone()).collect();
    assert_eq!(would, ["allow", "allow", "allow", "deny"]);
}

#[tokio::test]
async fn it_is_read_again_like_the_one_in_force() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tried.yaml");
    std::fs::write(&path, "version: 1\ndefault: allow\n").unwrap();
    let world = World::with(PolicySource::AllowAll, |config| {
        config.shadow = Some(PolicySource::File(path.clone()));
    });
    let shadow_of_next = async || {
        world.ask(&call("t", &json!({}))).await;
        world.records().pop().unwrap()["shadow"]["decision"].clone()
    };
    assert_eq!(shadow_of_next().await, "allow");
    std::fs::write(&path, "version: 1\ndefault: deny\n").unwrap();
    assert!(world.app.reload_policy().await.unwrap());
    assert_eq!(shadow_of_next().await, "deny");
    std::fs::write(&path, "version: 1\n").unwrap();
    assert!(world.app.reload_policy().await.is_err());
    assert_eq!(shadow_of_next().await, "deny", "the old one stays");
}
