//! Another embedder than the built-in one, as an operator sets it.

use std::path::Path;

use axum::routing::post;
use axum::{Json, Router, http::HeaderMap};
use serde_json::{Value, json};

use crate::harness::{World, a2s_in, root, serve};
use crate::http::get;

const KEY: &str = "the key of the endpoint";

/// An embeddings API to which everything means the same, until the runtime ends.
fn endpoint() -> String {
    let answer = async |headers: HeaderMap, Json(request): Json<Value>| {
        assert_eq!(headers["authorization"], format!("Bearer {KEY}"));
        assert_eq!((&request["model"], &request["dimensions"]), (&json!("mini"), &json!(3)));
        let texts = request["input"].as_array().unwrap().len();
        let data: Vec<_> =
            (0..texts).map(|index| json!({"index": index, "embedding": [1, 2, 2]})).collect();
        Json(json!({"data": data}))
    };
    format!("{}/v1", serve(Router::new().route("/v1/embeddings", post(answer))))
}

fn config(world: &World, base: &str) -> String {
    let text =
        format!("[embedder]\nuse = '{base}'\nmodel = 'mini'\nkey = '{KEY}'\ndimensions = 3\n");
    world.write("a2s.toml", &text)
}

fn reindex(world: &World, flags: &[&str]) -> crate::harness::Ran {
    let data = world.data();
    let environment = [("A2S_DATA_DIR", data.to_str().unwrap())];
    let arguments: Vec<_> = ["--json", "reindex"].iter().chain(flags).copied().collect();
    a2s_in(Path::new("."), &environment, &arguments)
}

fn index(world: &World) -> Value {
    let (status, body) = get(&format!("{}v1/index", world.url()), &[]);
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

#[test]
fn embedders_come_and_go_with_their_index() {
    let mut world = World::up(&[]);
    let documents = index(&world)["points"].as_u64().unwrap();
    assert!(documents > 0);
    world.stop();

    // Made while nothing runs, so that the services begin with it.
    let config = config(&world, &endpoint());
    let indexed = reindex(&world, &["--config", &config]).exits(0);
    assert_eq!(indexed.one(), json!({"indexed": documents}));
    world.add_flags(&["--config", &config]);
    world.start();
    let found = index(&world);
    assert!(found["embedder"].as_str().unwrap().starts_with("endpoint-mini-"), "{found}");
    assert_eq!((&found["dimensions"], &found["building"]), (&json!(3), &Value::Null));
    let hits = world.a2s(&["--json", "search", "list of dog breeds"]).exits(0).one();
    assert_eq!(hits["capabilities"][0]["name"], "ListDogBreeds");
    world.stop();

    // A flag wins over the file; a model in a folder needs no network.
    let folder = root().join("registry/data/local");
    let folder = folder.to_str().unwrap();
    let indexed = reindex(&world, &["--config", &config, "--embedder", folder]).exits(0);
    assert_eq!(indexed.one(), json!({"indexed": documents}));
    world.add_flags(&["--embedder", folder]);
    world.start();
    let found = index(&world);
    assert!(found["embedder"].as_str().unwrap().starts_with("local-16-"), "{found}");
}

#[test]
fn services_start_without_their_endpoint() {
    // Nobody listens there.
    let down = ["--embedder", "http://127.0.0.1:9/v1", "--embedding-model", "mini"];
    let mut world = World::up(&down);
    let found = index(&world);
    assert!(found["embedder"].as_str().unwrap().starts_with("builtin-"), "{found}");
    let hits = world.a2s(&["--json", "search", "list of dog breeds"]).exits(0).one();
    assert_eq!(hits["capabilities"][0]["name"], "ListDogBreeds");
    world.stop();
    let refused = reindex(&world, &down).exits(1);
    assert!(refused.transcript().contains("the embedder did not respond"), "{refused:?}");
    assert_eq!(refused.one()["error"]["code"], "A2S253");
}

#[test]
fn an_embedder_that_cannot_be_used_is_refused_at_the_start() {
    let world = World::down(&[]);
    for (flags, told, code) in [
        (&["--embedder", "/nowhere/at/all"][..], "/nowhere/at/all", "A2S264"),
        (&["--embedder", "http://127.0.0.1:9/v1"], "requires a model", "A2S504"),
        (&["--embedding-model", "mini"], "requires an embeddings endpoint", "A2S504"),
        (
            &["--embedder", "ftp://127.0.0.1", "--embedding-model", "mini"],
            "not an HTTP address",
            "A2S264",
        ),
    ] {
        let refused = reindex(&world, flags).exits(2);
        assert!(refused.transcript().contains(told), "{refused:?}");
        assert_eq!(refused.one()["error"]["code"], code);
    }
}
