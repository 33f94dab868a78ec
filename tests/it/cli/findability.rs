//! The findability of documents, as `a2s publish` and `a2s validate --registry` report it.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use insta::assert_snapshot;
use serde_json::{Value, json};

use super::DOCUMENT;
use crate::harness::{World, serve};

/// Writes a document with example intents, and its checksum.
fn write(world: &World, name: &str, description: &str, intents: &[&str]) -> String {
    let mut text = DOCUMENT
        .replace("a2s: 1.0.0", "a2s: 1.1.0")
        .replace("GetThing", name)
        .replace("Gets a thing by its id", description);
    if !intents.is_empty() {
        let answers = "{getThing: {body: {weather: {description: mild}}}}";
        let example = |intent: &&str| {
            format!("  - {{intent: {intent}, inputs: {{city: Paris}}, answers: {answers}}}\n")
        };
        text.push_str("examples:\n");
        text.extend(intents.iter().map(example));
    }
    let path = world.write(&format!("{name}.yaml"), &text);
    world.a2s(&["checksum", "--write", &path]).exits(0);
    path
}

fn kennels(world: &World) -> String {
    let description = "Retrieves the kennels of hounds in a city";
    write(world, "ListHoundKennels", description, &["the kennels of Paris"])
}

fn breeds(world: &World) -> String {
    let description = "Retrieves the breeds of hounds of a city";
    let intents = ["all breeds of hounds", "the kennels of Paris"];
    write(world, "ListHoundBreeds", description, &intents)
}

#[test]
fn publish_reports_the_rank_for_each_example_intent() {
    let world = World::up(&["--no-examples"]);
    let (kennels, breeds) = (kennels(&world), breeds(&world));
    let alone = world.a2s(&["publish", &breeds]).exits(0).stdout;
    let alone: Vec<_> = alone.lines().skip(1).collect();
    assert_eq!(alone, ["first      all breeds of hounds", "first      the kennels of Paris"]);

    let joke = write(&world, "TellJoke", "Tells a joke", &[]);
    let all = world.a2s(&["publish", &breeds, &kennels, &joke]).exits(0).stdout;
    let report: Vec<_> = all.lines().skip(3).collect();
    assert_snapshot!(report.join("\n"), @r"
    ListHoundBreeds
    first      all breeds of hounds
    rank 2     the kennels of Paris
               before it: rank 1  ListHoundKennels 1.0.0  Retrieves the kennels of hounds in a city
               words that the description lacks: kennels
               words that only this capability has: breeds
    first      ListHoundKennels for 1 intent
    first      TellJoke for its description
    ");

    let lines = world.a2s(&["publish", "--json", &breeds, &joke]).exits(0).json();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["created"], false);
    let text = &lines[0]["findability"]["texts"][1];
    assert_eq!((&text["from"], &text["rank"]), (&json!("intent"), &json!(2)));
    assert_eq!(text["confused_with"][0]["name"], "ListHoundKennels");
    assert_eq!(lines[1]["findability"]["texts"][0]["from"], "description");
}

#[test]
fn validate_reports_the_rank_of_a_draft_when_asked() {
    let world = World::up(&["--no-examples"]);
    world.a2s(&["publish", &kennels(&world)]).exits(0);
    let breeds = breeds(&world);
    let silent = world.a2s(&["validate", "--json", &breeds]).exits(0).json();
    assert_eq!(silent[0]["findability"], Value::Null);
    let asked = world.a2s(&["validate", "--registry", "--json", &breeds]).exits(0).json();
    assert_eq!(asked[0]["findability"]["texts"][1]["rank"], 2);
    let shown = world.a2s(&["validate", "--registry", "ListHoundBreeds.yaml"]).exits(0).stdout;
    assert!(shown.contains("rank 2     the kennels of Paris"), "{shown}");
    let quiet = world.a2s(&["validate", "--registry", "--quiet", &breeds]).exits(0);
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
    world.a2s(&["show", "ListHoundBreeds"]).exits(1);

    // A caller that may not publish gets a note, and the validation of the files.
    let refused = world.a2s(&["validate", "--registry", &breeds, "--token", "unknown"]).exits(0);
    assert!(refused.stderr.contains("reports no findability"), "{refused:?}");
    assert_eq!(refused.stdout.lines().filter(|line| line.starts_with("good")).count(), 2);
}

#[test]
fn a_registry_without_reports_is_no_error() {
    let world = World::down(&[]);
    let file = kennels(&world);
    let publish = |status: u16, code: &str| {
        let published = json!({
            "name": "ListHoundKennels", "version": "1.0.0", "created": true,
            "checksum": format!("sha256:{}", "0".repeat(64)),
        });
        let problem = json!({
            "type": "about:blank", "title": "no", "status": status, "code": code, "detail": "no", "hint": "",
        });
        let status = StatusCode::from_u16(status).unwrap();
        let problem = ([("content-type", "application/problem+json")], problem.to_string());
        let router = Router::new()
            .route("/v1/capabilities", post(async move || axum::Json(published)))
            .fallback(async move || (status, problem));
        world.a2s(&["publish", &file, "--url", &serve(router)]).exits(0)
    };
    let older = publish(404, "A2S200");
    assert_eq!((older.stdout.lines().count(), older.stderr.as_str()), (1, ""));
    let failed = publish(503, "A2S232");
    assert_eq!(failed.stdout, older.stdout);
    assert!(failed.stderr.contains("note: the registry reports no findability"), "{failed:?}");
}
