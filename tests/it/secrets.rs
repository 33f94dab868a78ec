//! `a2s secrets`, as a user types it: set, see what is missing, list, remove, and the key at rest.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::harness::{World, a2s_reading};

/// A capability that wants a key in a header.
const DOCUMENT: &str = r#"
a2s: 1.0.0
name: GetGuarded
description: Ask a service that wants a key
domains: [api.guarded.example]
version: "1.0.0"
checksum: "<checksum>"
authors: [{name: Test}]
execution:
  type: sequence
  steps:
    - id: ask
      format: OpenAPI
      task:
        openapi: 3.0.3
        info: {title: Guarded, version: "1"}
        servers: [{url: "https://api.guarded.example"}]
        security: [{key: []}]
        components:
          securitySchemes:
            key: {type: apiKey, in: header, name: X-Key}
        paths:
          /a:
            get: {responses: {200: {description: Good}}}
"#;

fn world() -> World {
    World::among(Vec::new(), &["--guardian", "off"])
}

/// Every byte of the data folder but the key's.
fn data(world: &World) -> String {
    let files = std::fs::read_dir(world.data()).unwrap().map(|file| file.unwrap().path());
    let files = files.filter(|path| path.is_file() && !path.ends_with("secrets.key"));
    let bytes: Vec<u8> = files.flat_map(|path| std::fs::read(path).unwrap()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn a_secret_is_stored_from_standard_input_and_never_shown() {
    let mut world = world();
    world.start();
    let file = world.write("guarded.yaml", DOCUMENT);
    world.a2s(&["checksum", "--write", &file]).exits(0);
    let published = world.a2s(&["publish", &file]).exits(0);
    assert!(!published.stdout.contains("A2S056"), "{published:?}");

    let plan = world.a2s(&["run", "GetGuarded", "--dry-run"]).exits(0);
    let command = "a2s secrets set api.guarded.example key --kind api-key";
    assert!(
        plan.stdout.contains("lacks a credential") && plan.stdout.contains(command),
        "{plan:?}"
    );
    let refused = world.a2s(&["run", "GetGuarded"]).exits(1);
    assert!(refused.stderr.contains("A2S380") && refused.stderr.contains(command), "{refused:?}");

    let set = ["secrets", "set", "api.guarded.example", "key"];
    let stored = world.a2s_reading("canary-secret\n", &set).exits(0);
    assert_eq!(stored.stdout, "stored key (api-key) for api.guarded.example\n");
    let plan = world.a2s(&["run", "GetGuarded", "--dry-run"]).exits(0);
    assert!(plan.stdout.contains("sends the credential key to api.guarded.example"), "{plan:?}");

    let list = world.a2s(&["secrets", "list", "--json"]).exits(0).one();
    let stored = &list["secrets"][0];
    assert_eq!(stored["host"], "api.guarded.example");
    assert_eq!(
        (&stored["scheme"], &stored["kind"]),
        (&Value::from("key"), &Value::from("api_key"))
    );
    assert!(!list.to_string().contains("canary"));
    let key = world.data().join("secrets.key");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!data(&world).contains("canary"));

    // What an argument could carry is not taken from there.
    world.a2s_reading("", &set).exits(2);
    world.a2s_reading("one\ntwo\n", &set).exits(2);
    world.a2s_reading("x", &[&set[..], &["--kind", "oauth2"]].concat()).exits(2);
    let oauth =
        ["secrets", "set", "api.crm.example", "oauth", "--kind", "oauth2", "--client-id", "me"];
    let oauth = [&oauth[..], &["--refresh-token", "--token-host", "login.crm.example"]].concat();
    world.a2s_reading("canary-secret\ncanary-refresh\n", &oauth).exits(0);
    let short = world.a2s_reading("abc\n", &set).exits(1);
    assert!(short.stderr.contains("fewer than 4 characters"), "{short:?}");

    // It outlives the process, and goes when it is told to.
    world.stop();
    world.start();
    assert_eq!(world.a2s(&["secrets", "list"]).exits(0).stdout.lines().count(), 2);
    world.a2s(&["secrets", "remove", "api.guarded.example", "key"]).exits(0);
    let gone = world.a2s(&["secrets", "remove", "api.guarded.example", "key"]).exits(1);
    assert!(gone.stderr.contains("A2S384"), "{gone:?}");
    world.stop();
    assert!(!data(&world).contains("canary"));
}

#[test]
fn a_key_that_others_can_read_is_refused_at_the_start() {
    let mut world = world();
    world.start();
    world
        .a2s_reading("canary-secret\n", &["secrets", "set", "api.guarded.example", "key"])
        .exits(0);
    world.stop();
    let key = world.data().join("secrets.key");
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(&key, open).unwrap();
    let data = world.data();
    let up = ["up", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()];
    let refused = a2s_reading("", &[], &up).exits(1);
    assert!(
        refused.stderr.contains("others than its owner") && refused.stderr.contains("0644"),
        "{refused:?}"
    );
    let env = [&up[..], &["--secret-key", "env"]].concat();
    let missing = a2s_reading("", &[], &env).exits(2);
    assert!(missing.stderr.contains("A2S_SECRET_KEY"), "{missing:?}");
    let wrong = a2s_reading("", &[("A2S_SECRET_KEY", "canary")], &env).exits(1);
    assert!(
        wrong.stderr.contains("32 bytes in base64") && !wrong.stderr.contains("canary"),
        "{wrong:?}"
    );
}

#[test]
fn secrets_do_not_leave_this_machine_over_http() {
    let environment = [("A2S_URL", "http://a2s.example:8740")];
    let set = ["secrets", "set", "api.guarded.example", "key"];
    let refused = a2s_reading("canary\n", &environment, &set).exits(2);
    assert!(refused.stderr.contains("over http"), "{refused:?}");
}
