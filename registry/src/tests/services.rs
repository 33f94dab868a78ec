use serde_json::{Value, json};

use super::world::{World, document_of, graphql_step, http_step, use_step};

fn shelf() -> Vec<String> {
    let weather = |id: &str| http_step(id, "get", "api.weather.example", "Weather Service");
    let post = http_step("b", "post", "social.example", "Social");
    let both = json!(["api.weather.example", "social.example"]);
    vec![
        document_of(
            "GetForecast",
            "Weather forecast for a city",
            &json!([weather("a")]),
            &json!({"domains": ["api.weather.example"], "permissions": ["weather.read"]}),
        ),
        document_of(
            "GetRainRadar",
            "Where it rains now",
            &json!([weather("a")]),
            &json!({"domains": ["api.weather.example"]}),
        ),
        document_of(
            "PostMessage",
            "Publish a short message for followers",
            &json!([post]),
            &json!({"domains": ["social.example"], "permissions": ["social.write"]}),
        ),
        document_of(
            "PostForecast",
            "Publish the weather forecast as a message",
            &json!([use_step("a", "GetForecast"), post]),
            &json!({
                "domains": both,
                "permissions": ["weather.read", "social.write"],
                "dependencies": [{"capability": "GetForecast", "version": "^1"}],
            }),
        ),
        document_of(
            "ListBooks",
            "The books of a library",
            &json!([graphql_step("a", "{ books }", "books.example")]),
            &json!({"domains": ["books.example"]}),
        ),
    ]
}

async fn filled() -> World {
    let world = World::new().await;
    world.publish_all(shelf()).await;
    world
}

#[tokio::test]
async fn services_are_listed_with_what_is_known_of_them() {
    let world = filled().await;
    let weather = json!({
        "host": "api.weather.example",
        "titles": ["Weather Service"],
        "capabilities": 3,
        "formats": ["OpenAPI"],
        "permissions": ["social.write", "weather.read"],
    });
    let answer = world.get("/v1/services").await.json();
    assert_eq!(answer["services"][0], weather);
    assert_eq!(
        answer["services"][1],
        json!({"host": "books.example", "titles": [], "capabilities": 1, "formats": ["GraphQL"], "permissions": []})
    );
    assert_eq!(answer["next"], Value::Null);
    // Page by page.
    let (mut hosts, mut path) = (Vec::new(), "/v1/services?limit=1".to_owned());
    loop {
        let page = world.get(&path).await.json();
        hosts.push(page["services"][0]["host"].as_str().unwrap().to_owned());
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/services?limit=1&after={next}");
    }
    assert_eq!(hosts, ["api.weather.example", "books.example", "social.example"]);

    let one = world.get("/v1/services/API.weather.example?limit=2").await;
    assert_eq!(one.names(), ["GetForecast", "GetRainRadar"]);
    assert_eq!(one.json()["service"], weather);
    let rest = world.get("/v1/services/api.weather.example?after=GetRainRadar").await;
    assert_eq!(
        (rest.names(), &rest.json()["next"]),
        (vec!["PostForecast".to_owned()], &Value::Null)
    );
    assert_eq!(world.get("/v1/services/nobody.example").await.code(), "A2S223");
    assert_eq!(world.get("/v1/services/no%20host").await.code(), "A2S223");
    assert_eq!(world.get("/v1/services?after=no%20host").await.code(), "A2S206");
    assert_eq!(world.get("/v1/services?limit=0").await.code(), "A2S206");
}

#[tokio::test]
async fn only_live_versions_count() {
    let world = filled().await;
    let moved = document_of(
        "ListBooks",
        "The books of a library",
        &json!([http_step("a", "get", "library.example", "Library")]),
        &json!({"domains": ["library.example"], "version": "2.0.0"}),
    );
    world.publish_all([moved]).await;
    assert_eq!(world.get("/v1/services/books.example").await.code(), "A2S223");
    assert_eq!(world.get("/v1/services/library.example").await.names(), ["ListBooks"]);
}

#[tokio::test]
async fn services_are_found_by_what_their_capabilities_do() {
    let world = filled().await;
    let hosts = async |intent: &str, filters: Value| {
        let request = json!({"intent": intent, "level": "services", "filters": filters});
        let answer = world.post("/v1/search", &request).await.json();
        let services = answer["services"].as_array().unwrap().clone();
        assert_eq!(answer["metadata"]["total_matches"], services.len());
        services
    };
    let found = hosts("weather forecast for Rome", json!({})).await;
    assert_eq!(found[0]["host"], "api.weather.example");
    assert_eq!(found[0]["matches"][0]["name"], "GetForecast");
    assert_eq!(found[0]["titles"], json!(["Weather Service"]));
    assert_eq!(found[0]["score"], found[0]["matches"][0]["score"]);
    // What posts forecasts speaks for both of its services.
    let social = found.iter().find(|service| service["host"] == "social.example").unwrap();
    let half = social["matches"].as_array().unwrap();
    let half = half.iter().find(|hit| hit["name"] == "PostForecast").unwrap();
    let hits = world.search("weather forecast for Rome").await.json();
    let hits = hits["capabilities"].as_array().unwrap();
    let whole = hits.iter().find(|hit| hit["name"] == "PostForecast").unwrap();
    assert_eq!(half["score"], whole["score"]);

    let books = hosts("which books does the library have", json!({})).await;
    assert_eq!(books[0]["host"], "books.example");
    let held = hosts("publish a message", json!({"permissions": []})).await;
    assert!(held.iter().all(|service| service["host"] != "social.example"), "{held:?}");
    let one = hosts("weather forecast", json!({"domains": ["social.example"]})).await;
    assert!(one.iter().all(|service| service["host"] == "social.example"), "{one:?}");
    assert!(hosts("play the violin", json!({})).await.is_empty());
}

#[tokio::test]
async fn equal_services_rank_by_number_of_capabilities() {
    let world = World::new().await;
    let on = |name: &str, about: &str, hosts: &[&str]| {
        let step = json!([http_step("a", "get", hosts[0], "Tides")]);
        document_of(name, about, &step, &json!({ "domains": hosts }))
    };
    world
        .publish_all([
            on("GetTide", "High and low tide of a harbour", &["a.example", "z.example"]),
            on("ListHarbours", "Harbours of which the tide is known", &["y.example", "z.example"]),
            on("GetTideChart", "High and low tide as a chart", &["y.example", "z.example"]),
            on("GetTideAlarm", "An alarm before low tide", &["y.example", "z.example"]),
        ])
        .await;
    let request = json!({"intent": "high and low tide of a harbour", "level": "services"});
    let answer = world.post("/v1/search", &request).await.json();
    let told: Vec<_> = answer["services"]
        .as_array()
        .unwrap()
        .iter()
        .map(|service| {
            let named = service["matches"].as_array().unwrap().len();
            (
                service["host"].as_str().unwrap(),
                service["matching_capabilities"].as_u64().unwrap(),
                named,
            )
        })
        .collect();
    // Both speak with half of the best voice; three of those that fit are named.
    assert_eq!(answer["services"][0]["score"], answer["services"][1]["score"]);
    assert_eq!(told, [("z.example", 4, 3), ("a.example", 1, 1), ("y.example", 3, 3)]);
}

#[tokio::test]
async fn relations_of_old_rows_are_filled_at_start() {
    let world = filled().await;
    let before = world.get("/v1/services").await.json();
    world.app.close().await;
    let database = world.database().await;
    for table in ["dependency", "service", "permission", "port", "derived"] {
        database.execute(&format!("DELETE FROM {table}"), &[]).await;
    }
    database.close().await;
    let World { app, folder, .. } = world;
    drop(app);
    let world = World::open(folder).await;
    // Searches wait for the index, and it for the rows.
    world.search("books").await;
    assert_eq!(world.get("/v1/services").await.json(), before);
    // Rows that were changed by hand are made anew with the index.
    let database = world.database().await;
    database.execute("UPDATE service SET title = 'Lies'", &[]).await;
    world.app.reindex().await.unwrap();
    assert_eq!(world.get("/v1/services").await.json(), before);
}
