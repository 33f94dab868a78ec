use serde_json::{Value, json};

use super::world::{World, document, document_of, graphql_step, http_step, tool_step, use_step};
use crate::bm25::document_vector;
use crate::embed::BuiltIn;
use crate::store::{ChangeSeq, LiveVersionQuery};
use crate::vectors::{IndexChange, IndexPoint};

/// One capability for each thing that is filtered by; all of them fit the same intent.
fn shelf() -> Vec<String> {
    let about = "Weather forecast for a city";
    let get = http_step("a", "get", "api.example.com", "Weather");
    let post = http_step("a", "post", "api.example.com", "Weather");
    vec![
        document_of("Plain", about, &json!([get]), &json!({})),
        document_of("Writes", about, &json!([post]), &json!({"permissions": ["weather.write"]})),
        document_of(
            "NeedsTwo",
            about,
            &json!([get]),
            &json!({"permissions": ["weather.read", "weather.history"]}),
        ),
        document_of(
            "Asks",
            about,
            &json!([graphql_step("a", "{ weather }", "graph.example.com")]),
            &json!({
                "domains": ["graph.example.com"],
                "version": "2.3.0",
                "authors": [{"name": "Ada", "organization": "Weather Inc.", "github": "ada-w"}],
            }),
        ),
        document_of(
            "Mutates",
            about,
            &json!([graphql_step("a", "mutation { forget }", "graph.example.com")]),
            &json!({"domains": ["graph.example.com"], "version": "3.0.0-beta.1"}),
        ),
        document_of(
            "Long",
            about,
            &json!(
                (0..3)
                    .map(|n| http_step(&format!("s{n}"), "get", "api.example.com", "W"))
                    .collect::<Vec<_>>()
            ),
            &json!({"version": "1.9.9"}),
        ),
        document_of(
            "Mixed",
            about,
            &json!([get, graphql_step("b", "{ weather }", "graph.example.com")]),
            &json!({"domains": ["api.example.com", "graph.example.com"], "version": "4.0.0"}),
        ),
        document_of(
            "UsesReader",
            about,
            &json!([use_step("b", "NeedsTwo")]),
            &json!({
                "permissions": ["weather.read", "weather.history"],
                "dependencies": [{"capability": "NeedsTwo", "version": "^1"}],
            }),
        ),
        document_of(
            "UsesWriter",
            about,
            &json!([use_step("b", "Writes"), get]),
            &json!({
                "permissions": ["weather.write"],
                "dependencies": [{"capability": "Writes", "version": "^1"}],
            }),
        ),
    ]
}

async fn names(world: &World, filters: &Value) -> Vec<String> {
    let request = json!({"intent": "weather forecast for Rome", "limit": 100, "filters": filters});
    let mut names = world.post("/v1/search", &request).await.names();
    names.sort();
    names
}

#[tokio::test]
async fn every_filter_holds_for_every_hit() {
    let world = World::new().await;
    world.publish_all(shelf()).await;
    let all = [
        "Asks",
        "Long",
        "Mixed",
        "Mutates",
        "NeedsTwo",
        "Plain",
        "UsesReader",
        "UsesWriter",
        "Writes",
    ];
    for (filters, expected) in [
        (json!({}), &all[..]),
        (json!({"domains": ["Graph.Example.com"]}), &["Asks", "Mixed", "Mutates"]),
        (json!({"services": ["graph.example.com"]}), &["Asks", "Mixed", "Mutates"]),
        (json!({"domains": ["nobody.example"]}), &[]),
        (json!({"permissions": []}), &["Asks", "Long", "Mixed", "Mutates", "Plain"]),
        (
            json!({"permissions": ["weather.write", "unheard.of"]}),
            &["Asks", "Long", "Mixed", "Mutates", "Plain", "UsesWriter", "Writes"],
        ),
        (json!({"permissions": ["weather.read"]}), &["Asks", "Long", "Mixed", "Mutates", "Plain"]),
        (json!({"permissions": ["weather.read", "weather.history", "weather.write"]}), &all),
        (json!({"read_only": true}), &["Asks", "Long", "Mixed", "NeedsTwo", "Plain", "UsesReader"]),
        (json!({"read_only": false}), &all),
        (json!({"formats": ["GraphQL"]}), &["Asks", "Mixed", "Mutates"]),
        (
            json!({"formats": ["OpenAPI"]}),
            &["Long", "Mixed", "NeedsTwo", "Plain", "UsesReader", "UsesWriter", "Writes"],
        ),
        (json!({"formats": ["OpenAPI", "GraphQL"]}), &all),
        (
            json!({"max_complexity": "low"}),
            &[
                "Asks",
                "Mixed",
                "Mutates",
                "NeedsTwo",
                "Plain",
                "UsesReader",
                "UsesWriter",
                "Writes",
            ],
        ),
        (json!({"author": "ADA"}), &["Asks"]),
        (json!({"author": "weather inc."}), &["Asks"]),
        (json!({"author": "@ada-w"}), &["Asks"]),
        (json!({"author": "ad"}), &[]),
        (json!({"version": "^2"}), &["Asks"]),
        (json!({"version": ">=1.9, <3"}), &["Asks", "Long"]),
        (json!({"version": ">=3.0.0-alpha, <4"}), &["Mutates"]),
        (json!({"version": "^7"}), &[]),
        (
            json!({"read_only": true, "permissions": [], "formats": ["OpenAPI"], "author": "jane smith"}),
            &["Long", "Mixed", "Plain"],
        ),
    ] {
        assert_eq!(names(&world, &filters).await, expected, "{filters}");
        // What does not pass is not counted either.
        let request = json!({"intent": "weather forecast", "limit": 1, "filters": filters});
        let answer = world.post("/v1/search", &request).await.json();
        assert_eq!(answer["metadata"]["total_matches"], expected.len(), "{filters}");
    }
}

#[tokio::test]
async fn mcp_tools_are_found_by_format_and_effect() {
    let world = World::new().await;
    world.publish_all(shelf()).await;
    for (name, hints) in [("Calls", json!({})), ("Looks", json!({"readOnlyHint": true}))] {
        let step = tool_step("a", "get_forecast", "mcp.example.com", &hints);
        let more = json!({"domains": ["mcp.example.com"]});
        let about = "Weather forecast for a city";
        world.publish_all([document_of(name, about, &json!([step]), &more)]).await;
    }
    for (filters, expected) in [
        (json!({"formats": ["MCP"]}), &["Calls", "Looks"][..]),
        (json!({"formats": ["MCP"], "read_only": true}), &["Looks"]),
        (json!({"formats": ["GraphQL", "MCP"], "read_only": true}), &["Asks", "Looks", "Mixed"]),
    ] {
        assert_eq!(names(&world, &filters).await, expected, "{filters}");
    }
    let service = world.get("/v1/services/mcp.example.com").await.json();
    assert_eq!(service["service"]["formats"], json!(["MCP"]), "{service}");
}

#[tokio::test]
async fn an_index_that_is_behind_offers_nothing_that_does_not_pass() {
    let world = World::new().await;
    world.publish_all(shelf()).await;
    let catalog = &world.app.shared.catalog;
    let entries =
        catalog.versions.store.live_versions(LiveVersionQuery::AfterName(None, 100)).await.unwrap();
    let entry = entries.iter().find(|entry| entry.name.as_str() == "Writes").unwrap();
    let about = "Weather forecast for a city";
    let behind = IndexPoint {
        capability: entry.capability,
        dense: BuiltIn::new().embed(about),
        sparse: document_vector(about),
        domains: Vec::new(),
        permissions: Vec::new(),
        read_only: true,
        formats: Vec::new(),
        complexity: 0,
        authors: Vec::new(),
        version: entry.version.clone(),
        card: None,
    };
    catalog
        .search
        .vectors
        .apply(vec![IndexChange::Upsert(Box::new(behind))], ChangeSeq(1_000))
        .await
        .unwrap();
    for (filters, is_offered) in [
        (json!({}), true),
        (json!({"read_only": true}), false),
        (json!({"permissions": []}), false),
        (json!({"permissions": ["weather.write"]}), true),
    ] {
        let names = names(&world, &filters).await;
        assert_eq!(names.contains(&"Writes".to_owned()), is_offered, "{filters}: {names:?}");
    }
}

#[tokio::test]
async fn a_hit_says_what_its_caller_must_hold() {
    let world = World::new().await;
    world.publish_all(shelf()).await;
    let request =
        json!({"intent": "weather forecast", "filters": {"permissions": ["weather.write"]}});
    let answer = world.post("/v1/search", &request).await.json();
    for hit in answer["capabilities"].as_array().unwrap() {
        let needed = if hit["name"].as_str().unwrap().contains("Write") {
            json!(["weather.write"])
        } else {
            json!([])
        };
        assert_eq!(hit["required_permissions"], needed, "{hit}");
    }
}

#[tokio::test]
async fn what_a_capability_amounts_to_follows_what_it_uses() {
    let world = World::new().await;
    world.publish_all(shelf()).await;
    let read_only = json!({"read_only": true});
    assert!(names(&world, &read_only).await.contains(&"UsesReader".to_owned()));
    // The next version of what it uses writes, and wants less.
    let next = document_of(
        "NeedsTwo",
        "Weather forecast for a city",
        &json!([http_step("a", "delete", "api.example.com", "Weather")]),
        &json!({"version": "1.1.0"}),
    );
    world.publish_all([next]).await;
    assert_eq!(names(&world, &read_only).await, ["Asks", "Long", "Mixed", "Plain"]);
}

#[tokio::test]
async fn a_filter_leaves_as_many_hits_as_there_are() {
    let world = World::new().await;
    // More than the candidates of a search fit better than the one that passes.
    for index in 0..110 {
        let name = format!("Weather{index}");
        world.publish_all([document(&name, "1.0.0", "Weather forecast for a city")]).await;
    }
    let step = json!([http_step("a", "get", "rare.example", "Rare")]);
    let more = json!({"domains": ["rare.example"]});
    world.publish_all([document_of("TellRain", "Tells whether it will rain", &step, &more)]).await;
    assert_eq!(names(&world, &json!({"domains": ["rare.example"]})).await, ["TellRain"]);
}

#[tokio::test]
async fn filters_that_make_no_sense_are_refused() {
    let world = World::new().await;
    let many = |text: &'static str| vec![text; 1001];
    for (filters, code, named) in [
        (json!({"domains": ["https://x.example/"]}), "A2S230", "filters.domains"),
        (json!({"domains": many("x.example")}), "A2S230", "filters.domains"),
        (json!({"permissions": many("a.b")}), "A2S230", "filters.permissions"),
        (json!({"formats": many("OpenAPI")}), "A2S230", "filters.formats"),
        (json!({"author": " "}), "A2S230", "filters.author"),
        (json!({"permissions": ["Not A Permission"]}), "A2S205", "permission"),
        (json!({"formats": ["SOAP"]}), "A2S205", "SOAP"),
        (json!({"version": "newest"}), "A2S205", "version"),
        (json!({"colour": "red"}), "A2S205", "colour"),
    ] {
        let answer = world.post("/v1/search", &json!({"intent": "x", "filters": filters})).await;
        assert_eq!(answer.code(), code, "{filters}");
        assert!(answer.text().contains(named), "{}", answer.text());
    }
}
