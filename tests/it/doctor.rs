//! `a2s doctor`: what it finds, and the remedy beside it.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Ran, World, a2s_in};

/// The findings by name, each with its state, message and remedy.
fn findings(ran: &Ran) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let told = ran.json().remove(0);
    let findings = told["findings"].as_array().unwrap().iter();
    let row = |it: &Value| (text(&it["check"]), text(&it["state"]), text(&it["remedy"]));
    findings.map(row).collect()
}

fn state(ran: &Ran, check: &str) -> String {
    let found = findings(ran).into_iter().find(|(name, ..)| name == check);
    found.unwrap_or_else(|| panic!("{check}: {ran:?}")).1
}

fn doctor(data: &Path, url: &str, more: &[&str]) -> Ran {
    let flags = ["doctor", "--json", "--data-dir", data.to_str().unwrap(), "--url", url];
    a2s_in(Path::new("."), &[], &[&flags, more].concat())
}

#[test]
fn services_that_work_have_nothing_to_fix() {
    let world = World::up(&[]);
    let ran = doctor(&world.data(), world.url(), &["--resolve", "localhost"]).exits(0);
    for check in ["data folder", "service", "time", "version", "name"] {
        assert_eq!(state(&ran, check), "good", "{ran:?}");
    }
    let shown = world.a2s(&["doctor"]).exits(0);
    assert!(shown.stdout.contains("✓ service"), "{shown:?}");
}

#[test]
fn everything_that_has_to_be_fixed_has_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("http://{}/", taken.local_addr().unwrap());
    // A port that nobody listens at any more.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let free = format!("http://{free}/");
    let set = |mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(folder.path(), mode).unwrap();
    };
    for (mode, expected, code) in [(0o700, "good", 0), (0o750, "warning", 0), (0o770, "bad", 1)] {
        set(mode);
        let ran = doctor(folder.path(), &free, &[]).exits(code);
        assert_eq!(state(&ran, "data folder"), expected, "{mode:o}");
        assert_eq!(state(&ran, "port"), "good");
    }
    set(0o700);
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    set(0o700);
    let ran = doctor(&file, &free, &["--guardian", &free]).exits(1);
    assert_eq!(state(&ran, "guardian"), "bad");
    assert_ne!(state(&ran, "data folder"), "good");
    for (name, state, remedy) in findings(&ran) {
        assert_eq!(state == "good", remedy.is_empty(), "{name}");
    }
    let missing = folder.path().join("not/yet/there");
    assert_eq!(state(&doctor(&missing, &free, &[]).exits(0), "data folder"), "good");
    let ran = doctor(&missing, &taken, &[]);
    assert!(["port", "service"].iter().any(|check| {
        findings(&ran).iter().any(|(name, state, _)| name == check && state != "good")
    }));
}
