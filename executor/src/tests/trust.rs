//! Trust on first use: a version keeps the checksum that it had when it was first run or planned.

use a2s::Digest;
use a2s::Secret;
use axum::http::Method;
use serde_json::{Value, json};

use super::world::{Answer, World, assert_succeeded, call, document, run, sequence, task};
use crate::{App, Durability};

const NAME: &str = "Say";

/// What the registry could publish as version 1.0.0: it says this word.
fn saying(word: &str) -> Value {
    let say = task("say", "POST /say", json!({"body": word}), json!({"said": "$.body"}));
    json!({"execution": sequence(json!([say])), "output": "${said}"})
}

/// Lets the registry give another document for version 1.0.0, with a checksum that fits it.
fn replace(world: &World, name: &str, rest: &Value) -> Digest {
    let source = document(name, "1.0.0", rest);
    let digest = a2s::Document::open(&source).unwrap().digest();
    world.registry.tamper(name, |published| {
        published.source = source;
        published.checksum = digest;
        published.etag = digest;
    });
    digest
}

async fn try_run(app: &App, name: &str) -> Answer {
    let body = json!({"name": name, "wait": true});
    call(app, Method::POST, "/v1/executions", &[], body).await
}

async fn list(app: &App) -> Value {
    call(app, Method::GET, "/v1/trust", &[], Value::Null).await.body
}

#[tokio::test]
async fn changed_checksum_is_refused_until_accepted() {
    let world = World::new().await;
    let first = world.registry.publish(NAME, "1.0.0", &saying("hello"));
    let app = world.open().await;
    assert_succeeded(&run(&app, NAME, json!({})).await);
    let other = replace(&world, NAME, &saying("evil"));
    // The program is started again: the database remembers.
    app.crash().await;
    let app = world.open().await;
    let sent = world.service.count("POST /say");

    for path in ["/v1/executions", "/v1/plans"] {
        let answer = call(&app, Method::POST, path, &[], json!({"name": NAME})).await;
        let (status, code, problem) = answer.problem();
        assert_eq!((status, code.as_str()), (409, "A2S395"), "{path}");
        let told = problem.detail;
        for part in ["`Say` 1.0.0", &first.to_string(), &other.to_string(), "first seen at 2025-"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let command = format!("`a2s trust accept Say@1.0.0 --checksum {other}`");
        assert!(problem.hint.unwrap().contains(&command));
    }
    assert_eq!(world.service.count("POST /say"), sent, "nothing is sent");

    let path = "/v1/trust/Say/1.0.0";
    let accepted = call(&app, Method::PUT, path, &[], json!({"checksum": other})).await;
    assert_eq!(accepted.body["accepted_by"], "owner", "{}", accepted.body);
    let ended = run(&app, NAME, json!({})).await;
    assert_eq!(ended.output, Some(json!("evil")));
    let listed = list(&app).await;
    assert_eq!(listed["versions"], json!([accepted.body]));

    // The first one is another checksum now, until the version is forgotten.
    replace(&world, NAME, &saying("hello"));
    let (_, code, problem) = try_run(&app, NAME).await.problem();
    assert_eq!(code, "A2S395");
    assert!(problem.detail.contains("`owner` accepted"), "{}", problem.detail);
    for status in [204, 404] {
        let answer = call(&app, Method::DELETE, path, &[], Value::Null).await;
        assert_eq!(answer.status.as_u16(), status);
    }
    assert_succeeded(&run(&app, NAME, json!({})).await);
}

#[tokio::test]
async fn checksums_of_dependencies_are_remembered_at_first_use() {
    let mut world = World::new().await;
    world.config.durability = Durability::Memory;
    let used = world.registry.publish(NAME, "1.0.0", &saying("hello"));
    let step =
        json!({"id": "use", "type": "capability", "use": NAME, "output_mapping": {"got": "$"}});
    world.registry.publish_newer(
        "User",
        &json!({
            "dependencies": [{"capability": NAME, "version": "^1.0.0"}],
            "execution": sequence(json!([step])),
        }),
    );
    let app = world.open().await;
    let planned = call(&app, Method::POST, "/v1/plans", &[], json!({"name": "User"})).await;
    assert!(planned.status.is_success(), "{}", planned.body);
    let token = planned.body["token"].clone();
    let listed = list(&app).await;
    let names: Vec<_> = listed["versions"].as_array().unwrap().iter().map(|v| &v["name"]).collect();
    assert_eq!(names, ["Say", "User"]);
    assert_eq!(listed["versions"][0]["checksum"], json!(used));
    assert_eq!(listed["versions"][0]["accepted_by"], Value::Null);

    replace(&world, NAME, &saying("evil"));
    // The capability that is asked for has not changed.
    for body in [json!({"name": "User"}), json!({"plan": token})] {
        let (status, code, problem) =
            call(&app, Method::POST, "/v1/executions", &[], body).await.problem();
        assert_eq!((status, code.as_str()), (409, "A2S395"), "{}", problem.detail);
    }
    // Nothing of a refused closure is remembered, and an unused version is not.
    world.registry.publish("Other", "1.0.0", &saying("x"));
    assert_eq!(list(&app).await, listed);
}

#[tokio::test]
async fn a_run_of_known_versions_writes_no_checksum() {
    let world = World::new().await;
    world.registry.publish(NAME, "1.0.0", &saying("hello"));
    let app = world.open().await;
    assert_succeeded(&run(&app, NAME, json!({})).await);
    let first = list(&app).await;
    // From here on the table takes no row.
    let refuse = match &world.config.database {
        crate::ExecutorDatabase::File(_) => {
            "CREATE TRIGGER refuse BEFORE INSERT ON trusted_version
             BEGIN SELECT RAISE(ABORT, 'no row'); END"
        }
        crate::ExecutorDatabase::Postgres(_) => {
            "ALTER TABLE trusted_version ADD CONSTRAINT refuse CHECK (FALSE) NOT VALID"
        }
    };
    world.change_database(refuse).await;
    assert_succeeded(&run(&app, NAME, json!({})).await);
    assert_eq!(list(&app).await, first);
    world.registry.publish("New", "1.0.0", &saying("x"));
    assert_eq!(try_run(&app, "New").await.status.as_u16(), 500);
}

#[tokio::test]
async fn of_two_executors_that_remember_at_once_one_is_first() {
    let world = World::new().await;
    let first = world.registry.publish(NAME, "1.0.0", &saying("hello"));
    let app = world.open().await;
    let trust = app.runs().trust();
    let pin = |checksum| a2s_api::CapabilityRef {
        name: NAME.parse().unwrap(),
        version: "1.0.0".parse().unwrap(),
        checksum,
    };
    let (one, other) = (pin(first), pin(Digest::of_bytes(b"other")));
    // Both have looked before either has written.
    for pin in [&one, &other] {
        assert_eq!(
            trust.check(std::slice::from_ref(pin)).await.unwrap(),
            std::slice::from_ref(pin)
        );
    }
    trust.remember(std::slice::from_ref(&one)).await.unwrap();
    let late = trust.remember(std::slice::from_ref(&other)).await.unwrap_err();
    assert_eq!(late.kind, crate::ErrorKind::ChecksumChanged);
    trust.remember(&[one]).await.unwrap();
}

#[tokio::test]
async fn administrators_see_and_accept_checksums() {
    let mut world = World::new().await;
    world.config.token = Some(Secret::new("owner-token".to_owned()));
    let app = world.open().await;
    let owner = [("authorization", "Bearer owner-token")];
    let body = json!({"checksum": Digest::of_bytes(b"x")});
    for version in ["1.0.0", "1.1.0", "2.0.0-rc.1"] {
        let path = format!("/v1/trust/Say/{version}");
        let refused = call(&app, Method::PUT, &path, &[], body.clone()).await;
        assert_eq!(refused.status.as_u16(), 401);
        let accepted = call(&app, Method::PUT, &path, &owner, body.clone()).await;
        assert_eq!(accepted.status.as_u16(), 200, "{}", accepted.body);
    }
    let mut seen = Vec::new();
    let mut path = "/v1/trust?limit=2".to_owned();
    loop {
        let page = call(&app, Method::GET, &path, &owner, Value::Null).await.body;
        let versions = page["versions"].as_array().unwrap();
        assert!(versions.len() <= 2);
        seen.extend(versions.iter().map(|v| v["version"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/trust?limit=2&after={next}");
    }
    assert_eq!(seen, ["1.0.0", "1.1.0", "2.0.0-rc.1"]);
    for (path, body) in [
        ("/v1/trust/Say/1", body.clone()),
        ("/v1/trust/1Say/1.0.0", body.clone()),
        ("/v1/trust/Say/1.0.0", json!({"checksum": "sha256:12"})),
        ("/v1/trust/Say/1.0.0", json!({})),
    ] {
        let answer = call(&app, Method::PUT, path, &owner, body).await;
        assert_eq!(answer.status.as_u16(), 400, "{path}: {}", answer.body);
    }
    for query in ["limit=0", "limit=1001", "after=Say", "other=1"] {
        let path = format!("/v1/trust?{query}");
        assert_eq!(call(&app, Method::GET, &path, &owner, Value::Null).await.status.as_u16(), 400);
    }
}
