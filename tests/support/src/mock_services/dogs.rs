//! `dogapi.dog`: breeds of dogs.

use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::MockServiceBuilder;

/// The dog service: one page of breeds in the JSON:API shape.
#[must_use]
pub fn dogs() -> MockServiceBuilder {
    MockServiceBuilder::for_host(
        "dogapi.dog",
        Router::new().route("/api/v2/breeds", get(list_breeds)),
    )
}

async fn list_breeds() -> Json<Value> {
    let breeds = [
        ("Beagle", "A merry hound that follows its nose.", false),
        ("Bichon Frise", "A white cloud with a mind of its own.", true),
        ("Border Collie", "A herder that needs work every day.", false),
        ("Poodle", "A clever dog under a coat that never stops growing.", true),
    ];
    let data: Vec<Value> = breeds
        .iter()
        .enumerate()
        .map(|(number, (name, description, hypoallergenic))| {
            json!({
                "id": format!("00000000-0000-4000-8000-00000000000{number}"),
                "type": "breed",
                "attributes": {
                    "name": name, "description": description, "hypoallergenic": hypoallergenic
                }
            })
        })
        .collect();
    let page = "https://dogapi.dog/api/v2/breeds?page[number]=1";
    Json(json!({ "data": data, "links": { "self": page, "current": page, "last": page } }))
}
