use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::routing::get;
use insta::assert_json_snapshot;
use serde_json::json;
use tower::ServiceExt as _;

use super::database::Folder;
use super::world::{World, clock, document, settled};
use crate::App;

#[tokio::test]
async fn a_document_is_given_as_published_or_as_json() {
    let world = World::new().await;
    let source = format!("# a remark\n{}", document("ListDogBreeds", "1.0.0", "List dog breeds"));
    world.publish_all([source.clone()]).await;
    let path = "/v1/capabilities/ListDogBreeds/1.0.0";

    let answer = world.get(path).await;
    assert_eq!((answer.status.as_u16(), answer.text()), (200, source.as_str()));
    assert_eq!(answer.header("content-type"), "application/yaml");

    let json = world.get_with(path, "accept", "application/json").await;
    assert_eq!(json.header("content-type"), "application/json");
    assert_eq!(json.header("etag"), answer.header("etag"));
    let reread = a2s::Document::open(&json.body).unwrap();
    assert_eq!(answer.header("etag"), format!("W/\"{}\"", reread.digest()));

    assert_eq!(world.get_with(path, "accept", "image/png").await.code(), "A2S203");
    let known = world.get_with(path, "if-none-match", answer.header("etag")).await;
    assert_eq!((known.status.as_u16(), known.body.len()), (304, 0));
    let other = world.get_with(path, "if-none-match", "W/\"sha256:0\"").await;
    assert_eq!(other.status, 200);
}

#[tokio::test]
async fn a_range_gives_the_newest_stable_version_that_is_not_yanked() {
    let world = World::new().await;
    let versions = ["1.0.0", "1.2.0", "1.10.0", "2.0.0-beta.1", "0.9.0"];
    world.publish_all(versions.map(|v| document("Tool", v, &format!("Version {v}")))).await;
    let resolve = async |selector: &str| {
        let answer = world.get(&format!("/v1/capabilities/Tool/{selector}")).await;
        match answer.status.as_u16() {
            200 => answer.header("content-location").rsplit('/').next().unwrap().to_owned(),
            _ => answer.code(),
        }
    };
    assert_eq!(resolve("latest").await, "1.10.0");
    assert_eq!(resolve("*").await, "1.10.0");
    assert_eq!(resolve("^1.0").await, "1.10.0");
    assert_eq!(resolve("1.2").await, "1.10.0");
    assert_eq!(resolve("~1.2").await, "1.2.0");
    assert_eq!(resolve("%3C1.0.0").await, "0.9.0");
    assert_eq!(resolve("2.0.0-beta.1").await, "2.0.0-beta.1");
    assert_eq!(resolve("%5E2").await, "A2S221");
    assert_eq!(resolve("1.3.0").await, "A2S221");
    assert_eq!(resolve("newest%20one").await, "A2S206");

    let database = world.database().await;
    let yank = "UPDATE version SET yanked = TRUE WHERE version = '1.10.0'";
    database.execute(yank, &[]).await;
    assert_eq!(resolve("^1.0").await, "1.2.0");
    // Who pins it still gets it.
    assert_eq!(resolve("1.10.0").await, "1.10.0");
}

#[tokio::test]
async fn versions_are_listed_newest_first() {
    let world = World::new().await;
    let versions = ["1.9.0", "1.10.0", "2.0.0-rc.1"];
    world.publish_all(versions.map(|v| document("Tool", v, &format!("Version {v}")))).await;
    let answer = world.get("/v1/capabilities/Tool").await.json();
    assert_json_snapshot!(settled(answer), @r#"
    {
      "name": "Tool",
      "latest": "1.10.0",
      "versions": [
        {
          "name": "Tool",
          "version": "2.0.0-rc.1",
          "checksum": "[digest]",
          "description": "Version 2.0.0-rc.1",
          "domains": [
            "api.example.com"
          ],
          "published_at": "2026-03-01T12:00:00Z",
          "yanked": false
        },
        {
          "name": "Tool",
          "version": "1.10.0",
          "checksum": "[digest]",
          "description": "Version 1.10.0",
          "domains": [
            "api.example.com"
          ],
          "published_at": "2026-03-01T12:00:00Z",
          "yanked": false
        },
        {
          "name": "Tool",
          "version": "1.9.0",
          "checksum": "[digest]",
          "description": "Version 1.9.0",
          "domains": [
            "api.example.com"
          ],
          "published_at": "2026-03-01T12:00:00Z",
          "yanked": false
        }
      ]
    }
    "#);
}

#[tokio::test]
async fn a_capability_of_pre_releases_only_is_still_there() {
    let world = World::new().await;
    world.publish_all([document("Tool", "0.1.0-alpha", "Waters the plants")]).await;
    assert_eq!(world.get("/v1/capabilities/Tool").await.json()["latest"], "0.1.0-alpha");
    assert_eq!(world.search("water my plants").await.names(), ["Tool"]);
}

#[tokio::test]
async fn the_list_is_cut_into_pages_without_gaps() {
    let world = World::new().await;
    let mut names: Vec<_> = (0..7).map(|n| format!("Tool{n}")).collect();
    world.publish_all(names.iter().rev().map(|n| document(n, "1.0.0", &format!("Tool {n}")))).await;
    let mut listed: Vec<String> = Vec::new();
    let mut path = "/v1/capabilities?limit=3".to_owned();
    loop {
        let page = world.get(&path).await.json();
        let capabilities = page["capabilities"].as_array().unwrap();
        assert!(capabilities.len() <= 3);
        listed.extend(capabilities.iter().map(|c| c["name"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => path = format!("/v1/capabilities?limit=3&after={next}"),
            None => break,
        }
    }
    names.sort();
    assert_eq!(listed, names);
    // An exact last page promises no other.
    let page = world.get("/v1/capabilities?limit=7").await.json();
    assert_eq!(page["next"], json!(null));
    for query in ["limit=0", "limit=101", "limit=x", "after=not+a+name", "colour=red"] {
        let answer = world.get(&format!("/v1/capabilities?{query}")).await;
        assert_eq!((answer.status.as_u16(), answer.code().as_str()), (400, "A2S206"), "{query}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_a_problem_too() {
    let world = World::new().await;
    world.publish_all([document("Tool", "1.0.0", "Waters the plants")]).await;
    assert_eq!(world.get("/").await.code(), "A2S200");
    assert_eq!(world.get("/v1/nothing").await.code(), "A2S200");
    let wrong_method = world.get("/v1/search").await;
    assert_eq!((wrong_method.status.as_u16(), wrong_method.header("allow")), (405, "POST"));
    assert_eq!(wrong_method.code(), "A2S201");
    assert_eq!(world.get("/v1/capabilities/Missing").await.code(), "A2S220");
    assert_eq!(world.get("/v1/capabilities/Missing/1.0.0").await.code(), "A2S220");
    assert_eq!(world.get("/v1/capabilities/not%20a%20name").await.code(), "A2S220");
    assert_eq!(world.get("/v1/capabilities/%ff/1.0.0").await.code(), "A2S206");
    let missing = world.get("/v1/capabilities/Tool/3.0.0").await;
    assert!(missing.json()["detail"].as_str().unwrap().contains("known versions: 1.0.0"));
}

#[tokio::test]
async fn verify_tells_whether_the_content_is_what_was_published() {
    let world = World::new().await;
    world.publish_all([document("Tool", "1.0.0", "Waters the plants")]).await;
    let answer = world.post("/v1/verify", &json!({"name": "Tool"})).await;
    let verified = answer.json();
    assert_eq!(verified["valid"], true);
    assert_eq!(verified["version"], "1.0.0");
    assert_eq!(verified["computed"], verified["checksum"]);
    let missing = json!({"name": "Tool", "version": "9.0.0"});
    assert_eq!(world.post("/v1/verify", &missing).await.code(), "A2S221");
    assert_eq!(world.post("/v1/verify", &json!({"name": "Other"})).await.code(), "A2S220");
}

#[tokio::test]
async fn the_routes_go_together_with_those_of_another_service() {
    let world = World::new().await;
    let other = Router::new()
        .route("/v1/executions", get(|| async { "runs" }))
        .route("/healthz", get(|| async { "well" }));
    let router = world.app.routes().merge(other).fallback(crate::not_found);
    let status = async |path: &str| {
        let request = Request::get(path).body(Body::empty()).unwrap();
        router.clone().oneshot(request).await.unwrap().status().as_u16()
    };
    assert_eq!(status("/v1/capabilities").await, 200);
    assert_eq!(status("/v1/executions").await, 200);
    assert_eq!(status("/healthz").await, 200);
    assert_eq!(status("/v1/search").await, 405);
    assert_eq!(status("/v1/nothing").await, 404);
}

#[tokio::test]
async fn a_body_that_never_ends_is_given_up() {
    let folder = Folder::new().await;
    let mut config = folder.config(None);
    config.limits.request_time = Duration::from_millis(20);
    let mut metrics = prometheus_client::registry::Registry::default();
    let app = App::open(config, clock(), &mut metrics).await.unwrap();
    let body = Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let request = Request::post("/v1/search").body(body).unwrap();
    let answer = app.router().oneshot(request).await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["retry-after"]),
        (503, &"1".parse().unwrap())
    );
    let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    assert!(String::from_utf8_lossy(&body).contains("A2S208"));
}

#[test]
fn the_description_of_the_interface_names_every_route() {
    let openapi = serde_json::to_value(App::openapi()).unwrap();
    let routes: Vec<_> = openapi["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(move |method| format!("{method} {path}"))
        })
        .collect();
    insta::assert_debug_snapshot!(routes, @r#"
    [
        "get /v1/audit",
        "post /v1/audit/trim",
        "get /v1/capabilities",
        "post /v1/capabilities",
        "get /v1/capabilities/{name}",
        "get /v1/capabilities/{name}/graph",
        "delete /v1/capabilities/{name}/learned",
        "get /v1/capabilities/{name}/owners",
        "post /v1/capabilities/{name}/owners",
        "get /v1/capabilities/{name}/{version}",
        "post /v1/capabilities/{name}/{version}/deprecate",
        "get /v1/capabilities/{name}/{version}/graph",
        "get /v1/capabilities/{name}/{version}/stats",
        "post /v1/capabilities/{name}/{version}/unyank",
        "post /v1/capabilities/{name}/{version}/yank",
        "get /v1/changes",
        "post /v1/drafts",
        "post /v1/findability",
        "get /v1/index",
        "get /v1/mirrors",
        "post /v1/outcomes",
        "post /v1/search",
        "get /v1/search-counts",
        "get /v1/services",
        "get /v1/services/{host}",
        "get /v1/tokens",
        "post /v1/tokens",
        "post /v1/tokens/introspect",
        "delete /v1/tokens/{name}",
        "post /v1/verify",
    ]
    "#);
}
