//! `a2s secrets`, as a user types it: set, see what is missing, list, remove, and the key at rest;
//! and that nothing which the command prints, logs or writes tells any of them.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, Uri};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use test_support::mock_services::MockServiceBuilder;

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
    assert_eq!(
        stored.stdout,
        "stored key (api-key) for api.guarded.example, used by the owner's runs\n"
    );
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
        refused.stderr.contains("users other than its owner") && refused.stderr.contains("0644"),
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

/// Credentials of every kind; each has a core that percent-encoding and JSON leave as it is.
const KEY: &str = "k+/CanaryApiKey";
const PASSWORD: &str = "p/&CanaryPassword";
const CLIENT: &str = "c/+CanaryClientSecret";
const REFRESH: &str = "r/+CanaryRefresh";
const TOKEN: &str = "t/+CanaryAccessToken";

/// Gives back what it gets; `/token` gives a token with it, and `/page` is a failure.
async fn parrot(uri: Uri, headers: HeaderMap, body: Bytes) -> (StatusCode, axum::Json<Value>) {
    let headers: BTreeMap<String, String> = headers
        .iter()
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into()))
        .collect();
    let body = String::from_utf8_lossy(&body).into_owned();
    let said = json!({"uri": uri.to_string(), "headers": headers, "body": body});
    let packed = STANDARD.encode(said.to_string());
    let mut answer = json!({"said": said, "packed": packed});
    if uri.path() == "/token" {
        // It has no life: each request gets another one.
        answer["access_token"] = json!(TOKEN);
        answer["refresh_token"] = json!(format!("{REFRESH}2"));
        answer["expires_in"] = json!(0);
    }
    let status = if uri.path() == "/page" { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    (status, axum::Json(answer))
}

/// A capability whose steps want each kind of credential, one after another.
fn wants_all(name: &str, path: &str) -> String {
    let flow = |kind: &str| {
        json!({"type": "oauth2", "flows": {kind: {
            "authorizationUrl": "/ask", "tokenUrl": "/token", "scopes": {},
        }}})
    };
    let steps: Vec<_> = ["query", "header", "basic", "client", "refresh"]
        .map(|scheme| {
            json!({
                "id": scheme, "format": "OpenAPI", "output_mapping": {(scheme): "$"},
                "task": {
                    "openapi": "3.0.3", "info": {"title": "All", "version": "1"},
                    "servers": [{"url": "https://api.guarded.example"}],
                    "security": [{(scheme): []}],
                    "components": {"securitySchemes": {
                        "query": {"type": "apiKey", "in": "query", "name": "key"},
                        "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
                        "basic": {"type": "http", "scheme": "basic"},
                        "client": flow("clientCredentials"),
                        "refresh": flow("authorizationCode"),
                    }},
                    "paths": {path: {"get": {"responses": {"200": {"description": "Good"}}}}},
                },
            })
        })
        .into();
    json!({
        "a2s": "1.0.0", "name": name, "description": "Ask with every kind of credential",
        "domains": ["api.guarded.example"], "version": "1.0.0",
        "authors": [{"name": "Test"}], "execution": {"type": "sequence", "steps": steps},
    })
    .to_string()
}

#[track_caller]
fn assert_free_of_canaries(what: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for canary in [KEY, PASSWORD, CLIENT, REFRESH, TOKEN] {
        let core = canary[canary.find("Canary").unwrap()..].to_owned();
        let packed = ["", "x", "xy"].map(|before| {
            let packed = STANDARD.encode(format!("{before}{canary}"));
            packed[4..packed.len() - 4].to_owned()
        });
        for spelling in [vec![core], packed.to_vec()].concat() {
            if let Some(at) = text.find(&spelling) {
                let start = text.floor_char_boundary(at.saturating_sub(200));
                panic!("{what} tells {canary}: …{}", &text[start..at + spelling.len()]);
            }
        }
    }
}

/// Every file of a folder, and of those in it.
fn for_each_file(folder: &Path, look: &mut impl FnMut(&Path)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { for_each_file(&path, look) } else { look(&path) }
    }
}

#[test]
fn nothing_that_is_printed_logged_or_written_tells_a_credential() {
    let router = Router::new().fallback(parrot);
    let service = MockServiceBuilder::for_host("api.guarded.example", router);
    let mut world = World::among(vec![service], &[]);
    let log = world.folder().join("log");
    // The most that anybody can ask for.
    let rules = "trace,hyper=trace,hyper::proto=trace,hyper_util=trace,h2=trace,reqwest=trace,\
                 reqwest::connect=trace,rustls=trace,sqlx=trace,executor=trace";
    world.start_talking(rules, &log);
    for (name, path) in [("GetAll", "/all"), ("FailAll", "/page")] {
        let file = world.write(&format!("{name}.json"), &wants_all(name, path));
        world.a2s(&["checksum", "--write", &file]).exits(0);
        world.a2s(&["publish", &file]).exits(0);
    }
    let client = ["--kind", "oauth2", "--client-id", "me"];
    let mut printed = Vec::new();
    for (scheme, input, options) in [
        ("query", format!("{KEY}\n"), &[][..]),
        ("header", format!("{KEY}\n"), &[]),
        ("basic", format!("{PASSWORD}\n"), &["--kind", "basic", "--user", "jane"]),
        ("client", format!("{CLIENT}\n"), &client),
        (
            "refresh",
            format!("{CLIENT}\n{REFRESH}\n"),
            &[&client[..], &["--refresh-token", "--client-auth", "body"]].concat(),
        ),
    ] {
        let set = [&["secrets", "set", "api.guarded.example", scheme][..], options].concat();
        printed.push(world.a2s_reading(&input, &set).exits(0));
    }
    printed.push(world.a2s(&["run", "GetAll", "--dry-run"]).exits(0));
    let ran = world.a2s(&["run", "GetAll"]).exits(0);
    assert!(ran.stdout.contains("a token for client from api.guarded.example"), "{ran:?}");
    printed.push(ran);
    let ran = world.a2s(&["run", "GetAll", "--json"]).exits(0);
    assert!(ran.stdout.contains("(secret)"), "{ran:?}");
    printed.push(ran);
    printed.push(world.a2s(&["run", "FailAll"]).exits(1));
    for arguments in [&["runs", "--json"][..], &["secrets", "list"], &["state", "list"]] {
        printed.push(world.a2s(arguments).exits(0));
    }
    let heard = format!("{:?}", world.standin("api.guarded.example").received());
    for (canary, form) in [(KEY, "k%2B%2FCanaryApiKey"), (REFRESH, "r%2F%2BCanaryRefresh2")] {
        assert!(heard.contains(form), "{canary} was not sent: {heard}");
    }
    for ran in &printed {
        assert_free_of_canaries("a command", format!("{}{}", ran.stdout, ran.stderr).as_bytes());
    }
    let mut files = 0;
    let mut search = |path: &Path| {
        files += 1;
        assert_free_of_canaries(&path.display().to_string(), &std::fs::read(path).unwrap());
    };
    for_each_file(&world.data(), &mut search);
    assert_free_of_canaries("standard output", world.stop().as_bytes());
    for_each_file(&world.data(), &mut search);
    assert!(files > 6, "{files} files");
    let log = std::fs::read(log).unwrap();
    assert!(String::from_utf8_lossy(&log).contains("fetching a token"), "nothing was logged");
    assert_free_of_canaries("the log", &log);
}
