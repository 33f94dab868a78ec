//! What changed, in order: the feed that everybody may follow, and the audit.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use futures::StreamExt as _;
use serde_json::{Value, json};
use sqlx::migrate::Migrator;
use tower::ServiceExt as _;

use super::database::Folder;
use super::world::{TOKEN, World, document};

fn dogs(version: &str) -> String {
    document("Dogs", version, "Retrieve a list of dog breeds")
}

/// Each change in a few words.
fn words(page: &Value) -> Vec<String> {
    let changes = page["changes"].as_array().unwrap().iter();
    let text = |change: &Value, member: &str| change[member].as_str().unwrap().to_owned();
    changes.map(|c| format!("{} {}", text(c, "action"), text(c, "version"))).collect()
}

/// Something of everything, by several.
async fn busy() -> World {
    let world = World::new().await;
    let ann = world.token("ann", &["publish"]).await;
    assert_eq!(world.publish_as(&ann, &dogs("1.0.0")).await.status, 201);
    assert_eq!(world.publish_as(&ann, &dogs("1.1.0")).await.status, 201);
    world.turn("Dogs/1.1.0", "yank").await;
    world.post("/v1/capabilities/Dogs/1.0.0/deprecate", &json!({"message": "ends in May"})).await;
    world.post("/v1/capabilities/Dogs/owners", &json!({"add": "owner"})).await;
    world.turn("Dogs/1.1.0", "unyank").await;
    world.post("/v1/capabilities/Dogs/1.0.0/deprecate", &json!({"undo": true})).await;
    world.ask(Some(TOKEN), "DELETE", "/v1/tokens/ann", None).await;
    world
}

#[tokio::test]
async fn the_feed_has_every_change_of_a_version_in_order_once() {
    let world = busy().await;
    let all = [
        "publish 1.0.0",
        "publish 1.1.0",
        "yank 1.1.0",
        "deprecate 1.0.0",
        "unyank 1.1.0",
        "undeprecate 1.0.0",
    ];
    let page = world.get("/v1/changes").await.json();
    assert_eq!(words(&page), all);
    assert_eq!(page["has_more"], false);
    let changes = page["changes"].as_array().unwrap();
    assert_eq!(changes[3]["deprecated"], json!({"message": "ends in May"}));
    let digest = a2s::compile(dogs("1.0.0").as_bytes()).digest.unwrap();
    assert_eq!(changes[0]["checksum"], json!(digest));
    assert!(!page.to_string().contains("ann"), "who did it is not for everybody: {page}");

    // Page by page it is the same, wherever the pages end.
    for limit in 1..=7 {
        let (mut since, mut told) = (0, Vec::new());
        loop {
            let page = world.get(&format!("/v1/changes?since={since}&limit={limit}")).await.json();
            assert_eq!(page["feed"].as_str().unwrap().len(), 64);
            told.extend(words(&page));
            let next = page["next"].as_u64().unwrap();
            if page["has_more"] == false {
                break;
            }
            assert!(since < next);
            since = next;
        }
        assert_eq!(told, all, "{limit}");
    }
    for beyond in [i64::MAX.unsigned_abs(), 1_000_000] {
        let page = world.get(&format!("/v1/changes?since={beyond}")).await.json();
        assert_eq!((&page["changes"], &page["next"]), (&json!([]), &json!(beyond)));
    }
    for bad in
        ["since=-1", "since=x", "since=9223372036854775808", "limit=0", "limit=1001", "from=1"]
    {
        assert_eq!(world.get(&format!("/v1/changes?{bad}")).await.code(), "A2S206", "{bad}");
    }
    let stream = [("accept", "text/event-stream"), ("last-event-id", "soon")];
    let request = stream.iter().fold(Request::get("/v1/changes"), |r, (n, v)| r.header(*n, *v));
    assert_eq!(world.send(request.body(Body::empty()).unwrap()).await.code(), "A2S206");
}

/// The next events of a stream: number, type and version.
async fn next(
    stream: &mut (impl futures::Stream<Item = String> + Unpin),
    count: usize,
) -> Vec<String> {
    let (mut text, mut found) = (String::new(), Vec::new());
    while found.len() < count {
        text += &stream.next().await.expect("the stream goes on");
        while let Some(end) = text.find("\n\n") {
            let block: String = text.drain(..end + 2).collect();
            let line = |name: &str| {
                block.lines().find_map(|line| line.strip_prefix(name)).map(|l| l.trim().to_owned())
            };
            let (Some(id), Some(event), Some(data)) = (line("id:"), line("event:"), line("data:"))
            else {
                continue;
            };
            let change: Value = serde_json::from_str(&data).unwrap();
            assert_eq!((change["seq"].to_string(), &change["action"]), (id, &json!(event)));
            found.push(format!("{event} {}", change["version"].as_str().unwrap()));
        }
    }
    found
}

async fn follow(
    world: &World,
    path: &str,
    last: Option<&str>,
) -> impl futures::Stream<Item = String> + Unpin + use<> {
    let mut request = Request::get(path).header("accept", "text/event-stream");
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    let response = world.app.router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    let chunks = response.into_body().into_data_stream();
    Box::pin(chunks.map(|chunk| String::from_utf8(chunk.unwrap().to_vec()).unwrap()))
}

#[tokio::test]
async fn a_follower_gets_what_was_and_what_comes() {
    let world = World::new().await;
    world.publish_all([dogs("1.0.0"), dogs("1.0.1")]).await;
    let mut stream = follow(&world, "/v1/changes", None).await;
    assert_eq!(next(&mut stream, 2).await, ["publish 1.0.0", "publish 1.0.1"]);
    world.turn("Dogs/1.0.0", "yank").await;
    assert_eq!(next(&mut stream, 1).await, ["yank 1.0.0"]);

    // Who comes back gets what is behind the last number, wherever the address began.
    let page = world.get("/v1/changes").await.json();
    let first = page["changes"][0]["seq"].to_string();
    let mut again = follow(&world, "/v1/changes?since=0", Some(&first)).await;
    assert_eq!(next(&mut again, 2).await, ["publish 1.0.1", "yank 1.0.0"]);
    let mut behind = follow(&world, &format!("/v1/changes?since={}", page["next"]), None).await;
    world.publish_all([dogs("1.0.2")]).await;
    assert_eq!(next(&mut behind, 1).await, ["publish 1.0.2"]);

    // A registry that stops lets its followers go.
    world.app.end_streams();
    while stream.next().await.is_some() {}
}

#[tokio::test]
async fn followers_are_bounded_and_leave_their_places() {
    let world = World::new().await;
    let mut streams = Vec::new();
    // Before a body is read: a stream would not end.
    let mut ask = async |token: Option<&str>| {
        let mut request = Request::get("/v1/changes").header("accept", "text/event-stream");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Body::empty()).unwrap();
        let response = world.app.router().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        if status == 200 {
            streams.push(response);
        }
        status
    };
    // Callers without a known token have one small share together.
    for turn in 0..16 {
        let token = (turn % 2 == 0).then_some("unknown");
        assert_eq!(ask(token).await, 200);
    }
    assert_eq!((ask(None).await, ask(Some("unknown")).await), (429, 429));
    // A caller has a share that others cannot take, up to the total.
    for name in ["ann", "bob", "eve"] {
        let token = world.token(name, &["execute"]).await;
        for _ in 0..64 {
            assert_eq!(ask(Some(&token)).await, 200);
        }
        assert_eq!(ask(Some(&token)).await, 429);
    }
    for _ in 0..48 {
        assert_eq!(ask(Some(TOKEN)).await, 200);
    }
    assert_eq!(ask(Some(TOKEN)).await, 503);
    drop(streams.drain(..16));
    drop(follow(&world, "/v1/changes", None).await);
}

#[tokio::test]
async fn the_audit_tells_who_did_what() {
    let world = busy().await;
    let audit = world.ask(Some(TOKEN), "GET", "/v1/audit", None).await.json();
    let told: Vec<_> = audit["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let text = |member: &str| entry[member].as_str().unwrap_or("-").to_owned();
            assert_eq!(entry["at"], "2026-03-01T12:00:00Z");
            ["actor", "action", "name", "version", "subject"].map(text).join(" ")
        })
        .collect();
    assert_eq!(
        told,
        [
            "owner revoke_token - - ann",
            "owner undeprecate Dogs 1.0.0 -",
            "owner unyank Dogs 1.1.0 -",
            "owner add_owner Dogs - owner",
            "owner deprecate Dogs 1.0.0 -",
            "owner yank Dogs 1.1.0 -",
            "ann publish Dogs 1.1.0 -",
            "ann publish Dogs 1.0.0 -",
            "owner create_token - - ann",
        ]
    );
    assert_eq!(audit["entries"][8]["detail"], json!({"scopes": ["publish"]}));
    assert_eq!(audit["next"], Value::Null);

    // Page by page, and of one name.
    let (mut before, mut count) = (String::new(), 0);
    loop {
        let path = format!("/v1/audit?limit=2{before}");
        let page = world.ask(Some(TOKEN), "GET", &path, None).await.json();
        count += page["entries"].as_array().unwrap().len();
        let Some(next) = page["next"].as_u64() else { break };
        before = format!("&before={next}");
    }
    assert_eq!(count, 9);
    let page = world.ask(Some(TOKEN), "GET", "/v1/audit?name=Dogs", None).await.json();
    assert_eq!(page["entries"].as_array().unwrap().len(), 7);
    let page = world.ask(Some(TOKEN), "GET", "/v1/audit?name=Cats", None).await.json();
    assert_eq!(page["entries"], json!([]));
}

#[tokio::test]
async fn what_was_not_done_is_not_told() {
    let world = World::new().await;
    let bob = world.token("bob", &["publish"]).await;
    world.publish_all([dogs("1.0.0")]).await;
    let count = async || {
        let audit = world.ask(Some(TOKEN), "GET", "/v1/audit", None).await.json();
        audit["entries"].as_array().unwrap().len()
    };
    let before = count().await;
    world.publish(dogs("1.0.0")).await;
    world.publish(document("Dogs", "1.0.0", "Another")).await;
    world.publish_as(&bob, &dogs("1.0.1")).await;
    world.turn("Dogs/1.0.0", "unyank").await;
    world.ask(Some(&bob), "POST", "/v1/capabilities/Dogs/1.0.0/yank", None).await;
    world.post("/v1/capabilities/Dogs/owners", &json!({"add": "owner"})).await;
    world.post("/v1/capabilities/Dogs/owners", &json!({"remove": "owner"})).await;
    world.post("/v1/tokens", &json!({"name": "bob", "scopes": ["admin"]})).await;
    world.ask(Some(TOKEN), "DELETE", "/v1/tokens/nobody", None).await;
    assert_eq!(count().await, before);
}

/// A database as the version before had it, with two capabilities, one of them withdrawn by hand.
#[tokio::test]
async fn an_older_database_is_brought_up_to_date() {
    let world = World::open(Folder::with_file()).await;
    let cats = document("Cats", "2.0.0", "Retrieve a list of cat breeds");
    world.publish_all([dogs("1.0.0"), cats.clone()]).await;
    let folder = world.close().await;
    // What these two come to, in the older schema.
    let file = folder.path().join("registry.sqlite");
    let kept = {
        let world = World::open(folder).await;
        let database = world.folder.file().await;
        let rows: Vec<(i64, String, String, String, String)> = sqlx::query_as(
            "SELECT v.id, c.name, c.slug, v.version, v.digest FROM version v \
             JOIN capability c ON c.id = v.capability ORDER BY v.id",
        )
        .fetch_all(&database)
        .await
        .unwrap();
        let sources: Vec<(i64, String)> = sqlx::query_as("SELECT version, source FROM document")
            .fetch_all(&database)
            .await
            .unwrap();
        database.close().await;
        (rows, sources, world.close().await)
    };
    let (rows, sources, folder) = kept;
    for ending in ["", "-wal", "-shm", ".lock"] {
        let _ = std::fs::remove_file(format!("{}{ending}", file.display()));
    }
    let address = format!("sqlite:{}?mode=rwc", file.display());
    let database = sqlx::SqlitePool::connect(&address).await.unwrap();
    let all: Migrator = sqlx::migrate!("migrations/sqlite");
    let older = all.iter().filter(|migration| migration.version <= 4).cloned().collect();
    Migrator::with_migrations(older).run(&database).await.unwrap();
    for (id, name, slug, version, digest) in rows {
        let yanked = name == "Cats";
        let head = (!yanked).then_some(id);
        sqlx::query("INSERT INTO capability (id, name, slug) VALUES (?, ?, ?)")
            .bind(id)
            .bind(name)
            .bind(slug)
            .execute(&database)
            .await
            .unwrap();
        sqlx::query(
            "INSERT INTO version (id, capability, version, digest, complexity, published_at, yanked) \
             VALUES (?, ?, ?, ?, 0, 1000, ?)",
        )
        .bind(id)
        .bind(id)
        .bind(version)
        .bind(digest)
        .bind(yanked)
        .execute(&database)
        .await
        .unwrap();
        sqlx::query("UPDATE capability SET head = ? WHERE id = ?")
            .bind(head)
            .bind(id)
            .execute(&database)
            .await
            .unwrap();
        sqlx::query("INSERT INTO change (capability, at) VALUES (?, 1000)")
            .bind(id)
            .execute(&database)
            .await
            .unwrap();
    }
    for (version, source) in sources {
        sqlx::query("INSERT INTO document (version, source) VALUES (?, ?)")
            .bind(version)
            .bind(source)
            .execute(&database)
            .await
            .unwrap();
    }
    database.close().await;

    let world = World::open(folder).await;
    assert_eq!(world.search("list of dog breeds").await.names(), ["Dogs"]);
    let page = world.get("/v1/changes").await.json();
    assert_eq!(words(&page), ["publish 1.0.0", "publish 2.0.0", "yank 2.0.0"]);
    let owners = world.get("/v1/capabilities/Cats/owners").await.json();
    assert_eq!(owners["owners"], json!(["owner"]));
    let audit = world.ask(Some(TOKEN), "GET", "/v1/audit", None).await.json();
    assert_eq!(audit["entries"][0]["actor"], Value::Null, "unknown it was");
    assert_eq!(world.turn("Cats/2.0.0", "unyank").await["latest"], "2.0.0");
    assert_eq!(world.search("list of cat breeds").await.names()[0], "Cats");
    let bob = world.token("bob", &["publish"]).await;
    assert_eq!(world.publish_as(&bob, &dogs("1.0.1")).await.code(), "A2S214");
    assert_eq!(world.publish(dogs("1.0.1")).await.status, 201);
}

#[tokio::test]
async fn a_trimmed_audit_keeps_what_mirrors_need_and_says_so() {
    let folder = busy().await.close().await;
    // A minute later.
    let clock: crate::Clock = Arc::new(|| "2026-03-01T12:01:00Z".parse().unwrap());
    let mut metrics = prometheus_client::registry::Registry::default();
    let app = crate::App::open(folder.config(Some(TOKEN)), clock, &mut metrics).await.unwrap();
    let world = World::around(app, folder);
    let feed = async || {
        let page = world.get("/v1/changes").await.json();
        let text = |change: &Value, member: &str| change[member].as_str().unwrap().to_owned();
        let words = |change: &Value| [text(change, "action"), text(change, "version")].join(" ");
        page["changes"].as_array().unwrap().iter().map(words).collect::<Vec<_>>()
    };
    let trim = async |token: &str, before: &str| {
        let body = json!({ "before": before });
        world.ask(Some(token), "POST", "/v1/audit/trim", Some(&body)).await
    };
    let bob = world.token("bob", &["publish", "execute"]).await;
    let all = feed().await;
    assert_eq!(all.len(), 6);

    // By administrators alone, of the past alone, and nothing that is newer.
    assert_eq!(trim(&bob, "2026-03-01T12:00:30Z").await.status, 403);
    assert_eq!(trim(TOKEN, "2026-03-01T12:01:01Z").await.status, 422);
    assert_eq!(trim(TOKEN, "2026-03-01T12:00:00Z").await.json(), json!({"removed": 0}));
    assert_eq!(feed().await, all);

    // Ann's token twice, an owner, and what was taken back.
    assert_eq!(trim(TOKEN, "2026-03-01T12:00:30Z").await.json(), json!({"removed": 5}));
    let kept = ["publish 1.0.0", "publish 1.1.0", "unyank 1.1.0", "undeprecate 1.0.0"];
    assert_eq!(feed().await, kept);
    let audit = world.ask(Some(TOKEN), "GET", "/v1/audit", None).await.json();
    let newest = &audit["entries"][0];
    assert_eq!((&newest["action"], &newest["actor"]), (&json!("trim_audit"), &json!("owner")));
    assert_eq!(newest["detail"]["removed"], 5);
    assert_eq!(audit["entries"].as_array().unwrap().len(), 6);
    assert_eq!(trim(TOKEN, "2026-03-01T12:00:30Z").await.json(), json!({"removed": 0}));
    // What is published is found as before.
    assert_eq!(world.search("Dogs").await.names(), ["Dogs"]);
}
