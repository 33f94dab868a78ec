//! The limits of an executor, as an operator sets them.

use serde_json::Value;

use crate::harness::{World, a2s, root};
use crate::http::{get, send};

/// `| name | default | …` for each limit.
fn rows(limits: &impl serde::Serialize) -> Vec<String> {
    let Value::Object(limits) = serde_json::to_value(limits).unwrap() else { unreachable!() };
    let shown = |value: Value| match value {
        Value::String(text) => text,
        Value::Null => "none".to_owned(),
        other => other.to_string(),
    };
    limits.into_iter().map(|(name, value)| format!("| `{name}` | {} |", shown(value))).collect()
}

#[test]
fn the_page_has_every_limit_with_its_default() {
    let page = std::fs::read_to_string(root().join("docs/limits.md")).unwrap();
    // The limits of connections have a test beside their type.
    let (page, _) = page.split_once("## Of connections").unwrap();
    let listed = page.lines().filter(|line| line.starts_with("| `")).count();
    let rows = [rows(&executor::Limits::default()), rows(&executor::HostLimits::default())];
    for row in rows.iter().flatten() {
        assert!(page.contains(row.as_str()), "{row}");
    }
    assert_eq!(listed, rows.iter().map(Vec::len).sum::<usize>());
}

const DOGS: &str = "dogapi.dog";

#[test]
fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
    let world = World::down(&[]);
    let config =
        "[limits]\nmax-response-bytes = 10\n\n[hosts.\"dogapi.dog\"]\nmax-concurrency = 3\n";
    let config = world.write("a2s.toml", config);
    let mut world = world;
    world.add_flags(&["--config", &config, "--host-limit", "max-concurrency=5"]);
    world.start();
    let refused = world.a2s(&["run", "ListDogBreeds"]).exits(1);
    assert!(refused.transcript().contains("A2S355"), "{}", refused.transcript());
    world.a2s(&["run", "GetJoke"]).exits(1);

    let token = format!("Bearer {}", world.token());
    let (status, hosts) =
        get(&format!("{}v1/hosts", world.url()), &[("authorization", token.as_str())]);
    let hosts: Value = serde_json::from_str(&hosts).unwrap();
    assert_eq!(status, 200);
    for host in hosts["hosts"].as_array().unwrap() {
        let most = if host["host"] == DOGS { 3 } else { 5 };
        assert_eq!(host["max_concurrency"], most, "{host}");
        assert_eq!((&host["breaker"], &host["in_flight"]), (&"closed".into(), &0.into()));
    }
    assert!(hosts["hosts"].as_array().is_some_and(|hosts| hosts.len() == 2), "{hosts}");

    world.stop();
    world.add_flags(&["--limit", "max-response-bytes=1000000"]);
    world.start();
    world.a2s(&["run", "ListDogBreeds"]).exits(0);
}

#[test]
fn a_limit_that_does_not_exist_is_refused_with_those_that_do() {
    for (flags, told) in [
        (["--limit", "max-atempts=3"], ["max-atempts", "max-attempts"]),
        (["--host-limit", "breaker-pause=9000h"], ["at most 366 days", "in `breaker-pause`"]),
        (["--limit", "request-timeout=soon"], ["`limits`", "in `request-timeout`"]),
        (["--host-limit", "max-concurrency=0"], ["nonzero", "in `max-concurrency`"]),
    ] {
        let refused = a2s(&["up", "--listen", "127.0.0.1:0", flags[0], flags[1]]).exits(2);
        let transcript = refused.transcript();
        assert!(told.iter().all(|word| transcript.contains(word)), "{transcript}");
    }
}

#[test]
fn configured_tenant_has_its_own_limits() {
    let mut world = World::down(&["--limit", "max-runs=0", "--limit", "max-tenant-queued=0"]);
    let config = world.write("a2s.toml", "[tenants.\"owner\"]\nmax-queued = 1\n");
    world.add_flags(&["--config", &config]);
    world.start();
    let token = format!("Bearer {}", world.token());
    let start = || {
        let headers = [("authorization", token.as_str()), ("content-type", "application/json")];
        let body = r#"{"name": "GetJoke"}"#.to_owned();
        send("POST", &format!("{}v1/executions", world.url()), &headers, Some(body))
    };
    let (status, run) = start();
    let run: Value = serde_json::from_str(&run).unwrap();
    assert_eq!((status, &run["status"]), (202, &"queued".into()), "{run}");
    let (status, refused) = start();
    assert!(status == 429 && refused.contains("A2S306"), "{status} {refused}");
    let id = run["id"].as_str().unwrap();
    let listed = world.a2s(&["runs", "--status", "queued", "--tenant", "owner"]).exits(0);
    assert!(listed.transcript().contains("queued"), "{}", listed.transcript());
    let listed = world.a2s(&["runs", "--tenant", "somebody"]).exits(0);
    assert!(listed.transcript().contains("no matching runs"), "{}", listed.transcript());
    world.a2s(&["cancel", id]).exits(0);
    assert_eq!(start().0, 202);

    let refused = world.write("b.toml", "[tenants.\"owner\"]\nmax-run = 1\n");
    let refused = a2s(&["up", "--listen", "127.0.0.1:0", "--config", &refused]).exits(2);
    let transcript = refused.transcript();
    assert!(transcript.contains("max-run") && transcript.contains("max-runs"), "{transcript}");
}
