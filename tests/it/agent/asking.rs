//! What the agent asks about a match: weak ones, equal ones, and inputs that another capability finds.

use axum::Router;
use axum::extract::Path;
use axum::routing::get;
use serde_json::{Value, json};
use test_support::mock_services::MockServiceBuilder;
use test_support::{fixture_document, http_step};

use super::Turn;
use crate::harness::{RUNTIME, World};
use crate::http::client;

const HOST: &str = "places.example.com";

fn parameter(name: &str, patterns: &[&str]) -> Value {
    json!({"name": name, "patterns": patterns})
}

/// A capability with one request, whose parameters are parts of its path.
fn lookup(name: &str, description: &str, path: &str, parameters: &Value, outputs: Value) -> String {
    let mut inputs = serde_json::Map::new();
    for parameter in parameters.as_array().unwrap() {
        let name = parameter["name"].as_str().unwrap();
        inputs.insert(name.to_owned(), json!(format!("${{{name}}}")));
    }
    let step = http_step(HOST, "read", &format!("GET {path}"), inputs.into(), outputs);
    let members = json!({
        "description": description,
        "domains": [HOST],
        "parameters": parameters,
        "execution": {"type": "sequence", "steps": [step]},
    });
    fixture_document(name, &members)
}

fn world() -> World {
    let weather = async |Path(position): Path<String>| axum::Json(json!({"asked": position}));
    let router = Router::new()
        .route("/place/{town}", get(async || axum::Json(json!({"lat": "59.9", "lon": "10.8"}))))
        .route("/weather/{*position}", get(weather))
        .route("/artist/{name}", get(async || axum::Json(json!({"id": "7"}))))
        .route(
            "/concerts/{artist}",
            get(async |Path(artist): Path<String>| axum::Json(json!({"asked": artist}))),
        )
        .route("/tide", get(async || axum::Json(json!({"asked": "tide"}))));
    let service = MockServiceBuilder::for_host(HOST, router);
    let mut world = World::among(vec![service], &["--no-examples"]);
    world.start();
    world
}

/// Takes a turn over HTTP.
fn post(world: &World, body: &Value) -> Value {
    let request = client().post(format!("{}v1/agent", world.url())).bearer_auth(world.token());
    RUNTIME.block_on(async { request.json(body).send().await.unwrap().json().await.unwrap() })
}

fn forecast() -> String {
    let parameters = json!([parameter("latitude", &[]), parameter("longitude", &[])]);
    lookup(
        "GetForecast",
        "Gets the weather forecast of a position",
        "/weather/{latitude}/{longitude}",
        &parameters,
        json!({"asked": "$.asked"}),
    )
}

fn find_place() -> String {
    lookup(
        "FindPlace",
        "Finds the latitude and longitude of a town",
        "/place/{town}",
        &json!([parameter("town", &["in *", "for *"])]),
        json!({"latitude": "$.lat", "longitude": "$.lon"}),
    )
}

#[test]
fn missing_inputs_are_found_by_another_capability() {
    let world = world();
    world.publish(&forecast());
    let sentence = "get the weather forecast for Oslo";
    let asked = Turn::take(&world, sentence, &[]);
    assert_eq!(asked.answer()["status"], "input_required", "{:?}", asked.ran);

    world.publish(&find_place());
    let turn = Turn::take(&world, sentence, &[]);
    let answer = turn.answer();
    assert_eq!(answer["status"], "completed", "{:?}", turn.ran);
    let runs: Vec<_> =
        answer["runs"].as_array().unwrap().iter().map(|run| &run["capability"]["name"]).collect();
    assert_eq!(runs, ["FindPlace", "GetForecast"]);
    let told = answer["runs"][1]["output"]["asked"].as_str().unwrap();
    assert_eq!(told, "59.9/10.8");
}

#[test]
fn an_id_comes_from_the_search_for_it() {
    let world = world();
    let asked = json!({"asked": "$.asked"});
    world.publish(&lookup(
        "GetConcerts",
        "Gets the concerts of an artist",
        "/concerts/{artist_id}",
        &json!([parameter("artist_id", &[])]),
        asked,
    ));
    world.publish(&lookup(
        "SearchArtist",
        "Looks up musicians",
        "/artist/{name}",
        &json!([parameter("name", &["of *"])]),
        json!({"id": "$.id"}),
    ));
    let sentence = "get the concerts of Coldplay";
    let found = world.a2s(&["search", sentence, "--explain"]).exits(0);
    assert!(found.stdout.contains("needed by GetConcerts"), "{found:?}");
    assert!(found.stdout.contains("prerequisite"), "{found:?}");
    let graph = world.a2s(&["graph", "GetConcerts"]).exits(0);
    assert!(graph.stdout.contains("SearchArtist  id → artist_id"), "{graph:?}");

    let chain = world.a2s(&["compose", sentence]).exits(0);
    assert!(chain.stderr.contains("SearchArtist.id -> GetConcerts.artist_id"), "{chain:?}");

    let turn = Turn::take(&world, sentence, &[]);
    let answer = turn.answer();
    assert_eq!(answer["status"], "completed", "{:?}", turn.ran);
    assert_eq!(answer["runs"][1]["output"]["asked"], "7", "{answer}");
    let events = client()
        .get(format!(
            "{}v1/executions/{}/events",
            world.url(),
            answer["runs"][1]["id"].as_str().unwrap()
        ))
        .bearer_auth(world.token());
    let events = RUNTIME.block_on(async { events.send().await.unwrap().text().await.unwrap() });
    assert!(events.contains(&format!(r#""intent":"{sentence}""#)), "{events}");
}

#[test]
fn a_weak_match_runs_only_after_a_yes() {
    let world = World::up(&[]);
    // Consent to actions is no consent to something else than was meant.
    let turn = Turn::take(&world, "synonyms for happy?", &["--yes"]);
    let answer = turn.answer();
    assert_eq!(answer["status"], "input_required", "{:?}", turn.ran);
    assert_eq!(answer["question"]["choices"][0]["match"], "weak");
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("The closest is DefineWord 1.0.0"), "{message}");
    let reply = |message: &str| {
        post(&world, &json!({"message": message, "pending": answer["question"]["pending"]}))
    };
    assert_eq!(reply("no")["status"], "cancelled");
    let done = reply("yes");
    // It runs now, and fails without a word.
    assert_eq!(done["skipped"][0]["capability"]["name"], "DefineWord", "{done}");
    assert!(done["skipped"][0]["run"].is_string(), "{done}");
}

#[test]
fn a_yes_to_an_action_covers_its_secret_inputs() {
    let mut world = World::among(vec![super::conversations::keeper()], &[]);
    world.start();
    let act = super::conversations::VAULT.replace("get:\n", "post:\n");
    world.publish(&act);
    let sentence = "open the bank vault for Ada";
    let asked = post(&world, &json!({"message": sentence, "inputs": {"code": "opensesame"}}));
    assert!(asked["question"]["actions"].is_array(), "{asked}");
    let reply = |code: &str| {
        let pending = &asked["question"]["pending"];
        post(&world, &json!({"message": "yes", "pending": pending, "inputs": {"code": code}}))
    };
    assert_eq!(reply("another")["status"], "input_required");
    assert_eq!(world.standin("vault.example.com").requests(), 0);
    assert_eq!(reply("opensesame")["status"], "completed");
}

#[test]
fn of_two_equal_capabilities_the_user_chooses() {
    let world = world();
    for (name, side) in [("GetTideNorth", "north"), ("GetTideSouth", "south")] {
        world.publish(&lookup(
            name,
            &format!("Gets the height of the tide in the {side}"),
            "/tide",
            &json!([]),
            json!({"asked": "$.asked"}),
        ));
    }
    let asked = Turn::take(&world, "get the height of the tide", &[]);
    let answer = asked.answer();
    assert_eq!(answer["status"], "input_required", "{:?}", asked.ran);
    let names: Vec<_> = answer["question"]["choices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|choice| choice["capability"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names.len(), 2);
    let body = json!({"message": "the south one", "pending": answer["question"]["pending"]});
    let chosen = post(&world, &body);
    assert_eq!(chosen["status"], "completed", "{chosen}");
    assert_eq!(chosen["runs"][0]["capability"]["name"], "GetTideSouth");
}

#[test]
fn values_are_kept_for_messages_that_refer_to_them() {
    let world = world();
    world.publish(&find_place());
    let first = Turn::take(&world, "find the latitude and longitude of the town, town: Oslo", &[]);
    let values = first.answer()["values"].clone();
    assert_eq!(values, json!({"town": "Oslo"}), "{:?}", first.ran);
    let status = |message: &str| {
        let body = json!({"message": message, "context": values});
        post(&world, &body)["status"].clone()
    };
    assert_eq!(status("again, find the latitude and longitude of the town"), "completed");
    assert_eq!(status("find the latitude and longitude of a town"), "input_required");
}
