//! Drafts from the description of a service, and counts of searches.

use serde_json::{Value, json};

use super::world::{TOKEN, World, document};

fn description(operations: usize) -> String {
    let paths = (0..operations).map(|number| {
        let operation = json!({"get": {
            "operationId": format!("readThing{number}"), "summary": format!("Reads the things of kind {number}"),
            "responses": {"200": {"description": "Things"}},
        }});
        (format!("/things/{number}"), operation)
    });
    let paths: serde_json::Map<String, Value> = paths.collect();
    json!({
        "openapi": "3.1.0", "info": {"title": "Things", "version": "1"},
        "servers": [{"url": "https://things.example"}], "paths": paths,
    })
    .to_string()
}

#[tokio::test]
async fn a_description_becomes_documents_that_can_be_published() {
    let world = World::new().await;
    let answer = world.post("/v1/drafts", &json!({"description": description(3)})).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let list = answer.json();
    assert_eq!(list["skipped"], json!([]));
    for draft in list["drafts"].as_array().unwrap() {
        let published = world.publish(draft["document"].as_str().unwrap().to_owned()).await;
        assert_eq!(published.status, 201, "{}", published.text());
        assert_eq!(published.json()["checksum"], draft["checksum"]);
    }
    assert_eq!(list["drafts"].as_array().unwrap().len(), 3);
    let one = json!({"description": description(3), "operations": ["readThing1"], "prefix": "Own"});
    let one = world.post("/v1/drafts", &one).await.json();
    let names: Vec<_> = one["drafts"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["OwnReadThing1"]);
}

#[tokio::test]
async fn too_many_operations_and_other_texts_are_told() {
    let world = World::new().await;
    let list = world.post("/v1/drafts", &json!({"description": description(203)})).await.json();
    assert_eq!(list["drafts"].as_array().unwrap().len(), 200);
    let skipped = list["skipped"].as_array().unwrap();
    assert_eq!((skipped.len(), &skipped[0]["operation"]), (3, &json!("GET /things/200")));
    for (status, code, wrong) in [
        (422, "A2S219", json!({"description": "{}"})),
        (422, "A2S219", json!({"description": ": ["})),
        (422, "A2S219", json!({"description": description(1), "operations": ["none"]})),
        (422, "A2S219", json!({"description": description(1), "server": "not an address"})),
        (400, "A2S205", json!({"description": 5})),
        (400, "A2S205", json!({})),
        (400, "A2S205", json!([])),
    ] {
        let answer = world.post("/v1/drafts", &wrong).await;
        assert_eq!((answer.status.as_u16(), answer.code().as_str()), (status, code), "{wrong}");
    }
    let large = json!({"description": "x".repeat(5 << 20)});
    assert_eq!(world.post("/v1/drafts", &large).await.status, 413);
    let request = json!({"description": description(1)});
    assert_eq!(world.ask(None, "POST", "/v1/drafts", Some(&request)).await.status, 401);
}

#[tokio::test]
async fn caller_has_one_import_at_a_time() {
    let world = World::new().await;
    let request = json!({"description": description(200)});
    let (first, second) =
        tokio::join!(world.post("/v1/drafts", &request), world.post("/v1/drafts", &request));
    assert_eq!(first.status, 200);
    assert_eq!((second.status.as_u16(), second.code().as_str()), (429, "A2S255"));
    assert_eq!(world.post("/v1/drafts", &request).await.status, 200);
}

#[tokio::test]
async fn searches_are_counted_for_administrators() {
    let world = World::with_index().await;
    let dogs = document("ListDogs", "1.0.0", "Retrieve a list of dog breeds");
    assert_eq!(world.publish(dogs).await.status, 201);
    for intent in ["list dog breeds", "book a flight to the moon"] {
        assert_eq!(world.search(intent).await.status, 200);
    }
    let counts = world.ask(Some(TOKEN), "GET", "/v1/search-counts", None).await.json();
    let hours = counts["hours"].as_array().unwrap();
    let sum = |name: &str| hours.iter().map(|hour| hour[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("searches"), sum("without_hit")), (2, 1), "{counts}");
    let ci = world.token("ci", &["publish"]).await;
    assert_eq!(world.ask(Some(&ci), "GET", "/v1/search-counts", None).await.status, 403);
}
