//! Who may do what: tokens with scopes, and names with owners.

use futures::future::join_all;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::database::Folder;
use super::world::{TOKEN, World, document};
use crate::{App, PublisherShare};

fn dogs(version: &str) -> String {
    document("Dogs", version, "Retrieve a list of dog breeds")
}

fn outcome() -> Value {
    json!({
        "run": "0199aaaa-0000-7000-8000-000000000001", "name": "Dogs", "version": "1.0.0",
        "checksum": a2s::compile(dogs("1.0.0").as_bytes()).digest.unwrap(),
        "success": true, "duration_ms": 5,
    })
}

#[tokio::test]
async fn each_route_asks_for_its_scope() {
    let world = World::new().await;
    world.publish_all([dogs("1.0.0")]).await;
    world.token("someone", &["admin"]).await;
    let mut tokens = Vec::new();
    for scope in ["publish", "execute", "admin", "delegate", "service", "guard"] {
        tokens.push((scope, world.token(&format!("only-{scope}"), &[scope]).await));
    }
    let at = "/v1/capabilities/Dogs";
    let routes: [(&str, &str, String, Option<Value>); 12] = [
        ("publish", "POST", "/v1/capabilities".to_owned(), Some(json!({}))),
        ("publish", "POST", format!("{at}/1.0.0/yank"), None),
        ("publish", "POST", format!("{at}/1.0.0/unyank"), None),
        ("publish", "POST", format!("{at}/1.0.0/deprecate"), Some(json!({}))),
        ("publish", "POST", format!("{at}/owners"), Some(json!({"add": "owner"}))),
        ("service", "POST", "/v1/outcomes".to_owned(), Some(outcome())),
        ("admin", "GET", "/v1/tokens".to_owned(), None),
        ("admin", "POST", "/v1/tokens".to_owned(), Some(json!({"name": "x", "scopes": ["admin"]}))),
        ("admin", "DELETE", "/v1/tokens/nobody".to_owned(), None),
        ("admin", "GET", "/v1/audit".to_owned(), None),
        ("service", "POST", "/v1/tokens/introspect".to_owned(), Some(json!({"token": "x"}))),
        ("none", "GET", "/v1/changes".to_owned(), None),
    ];
    for (scope, method, path, body) in &routes {
        for (held, token) in &tokens {
            let answer = world.ask(Some(token), method, path, body.as_ref()).await;
            let opens = held == scope || *scope == "none";
            if opens {
                // What is behind the door may still refuse: a name of another, a bad document.
                assert!(answer.status != 401, "{path} {held}");
                let lacks = answer.status == 403 && answer.code() == "A2S209";
                assert!(!lacks, "{path} {held}: {}", answer.text());
            } else {
                assert_eq!(answer.status, 403, "{path} {held}");
                assert_eq!(answer.code(), "A2S209", "{path} {held}");
                let hint = answer.json()["hint"].as_str().unwrap().to_owned();
                assert!(hint.contains("a2s tokens create"), "{hint}");
                let detail = answer.json()["detail"].as_str().unwrap().to_owned();
                assert!(detail.contains(&format!("`{scope}`")), "{detail}");
            }
        }
        for wrong in [None, Some("wrong"), Some("a2s_0000"), Some("")] {
            let answer = world.ask(wrong, method, path, body.as_ref()).await;
            if *scope == "none" {
                assert_eq!(answer.status, 200);
                continue;
            }
            assert_eq!((answer.status.as_u16(), answer.code().as_str()), (401, "A2S207"), "{path}");
            assert_eq!(answer.header("www-authenticate"), "Bearer");
        }
    }
}

#[tokio::test]
async fn a_token_is_shown_once_and_kept_as_a_digest() {
    let world = World::new().await;
    let token = world.token("ci", &["publish"]).await;
    assert!(token.starts_with("a2s_") && token.len() == 68, "{token}");
    assert_ne!(token, world.token("other", &["publish"]).await);
    let list = world.ask(Some(TOKEN), "GET", "/v1/tokens", None).await;
    assert!(!list.text().contains(&token[4..]), "{}", list.text());
    assert_eq!(list.json()["tokens"][0]["name"], "ci");
    assert_eq!(list.json()["tokens"][0]["scopes"], json!(["publish"]));
    let audit = world.ask(Some(TOKEN), "GET", "/v1/audit", None).await;
    assert!(!audit.text().contains(&token[4..]));
    let folder = world.close().await;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes.windows(64).any(|window| window == &token.as_bytes()[4..]);
            assert!(!found, "{}", path.display());
        }
    }
}

#[tokio::test]
async fn service_token_introspects_and_reports_only() {
    let folder = Folder::new().await;
    let mut config = folder.config(Some(TOKEN));
    config.service_token = Some(a2s::Secret::new("of-services"));
    let mut metrics = prometheus_client::registry::Registry::default();
    let clock: crate::Clock = Arc::new(|| Timestamp::from_second(1_000_000).unwrap());
    let app = App::open(config, clock, &mut metrics).await.unwrap();
    let callers = app.token_introspector();
    let world = World::around(app, folder);
    world.publish_all([dogs("1.0.0")]).await;
    let ci = world.token("ci", &["execute"]).await;
    let ask = async |path: &str, body: Value| {
        world.ask(Some("of-services"), "POST", path, Some(&body)).await
    };
    let told = ask("/v1/tokens/introspect", json!({"token": ci})).await;
    assert_eq!(told.json(), json!({"active": true, "sub": "ci", "scope": "execute"}));
    assert_eq!(ask("/v1/outcomes", outcome()).await.status, 204);
    let new = json!({"name": "x", "scopes": ["service"]});
    for (path, body) in [("/v1/tokens", new), ("/v1/capabilities/Dogs/1.0.0/yank", Value::Null)] {
        assert_eq!(ask(path, body).await.code(), "A2S209", "{path}");
    }

    // Services in the same process ask without HTTP; the owner's token is no token for them.
    let identify = async |token: &str| callers.introspect(&a2s::Secret::new(token)).await.unwrap();
    assert_eq!(identify(&ci).await.unwrap().subject.as_str(), "ci");
    assert_eq!(
        identify("of-services").await.unwrap().scopes,
        [a2s_api::TokenScope::Service].into()
    );
    assert_eq!(identify(TOKEN).await, None);
    assert_eq!(identify("wrong").await, None);
}

#[tokio::test]
async fn what_was_revoked_or_has_ended_opens_nothing() {
    let now = Arc::new(AtomicI64::new(1_000_000));
    let folder = Folder::new().await;
    let clock: crate::Clock = {
        let now = Arc::clone(&now);
        Arc::new(move || Timestamp::from_second(now.load(Ordering::Relaxed)).unwrap())
    };
    let config = folder.config(Some(TOKEN));
    let mut metrics = prometheus_client::registry::Registry::default();
    let app = App::open(config, clock, &mut metrics).await.unwrap();
    let world = World::around(app, folder);
    let brief = json!({"name": "brief", "scopes": ["publish"], "expires_in_s": 60});
    let made = world.post("/v1/tokens", &brief).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let brief = made.json()["token"].as_str().unwrap().to_owned();
    let lasting = world.token("lasting", &["publish"]).await;
    assert_eq!(world.publish_as(&brief, &dogs("1.0.0")).await.status, 201);

    let introspect = async |token: &str| {
        world.post("/v1/tokens/introspect", &json!({"token": token})).await.json()
    };
    let told = introspect(&brief).await;
    let expected = json!({"active": true, "sub": "brief", "scope": "publish", "exp": 1_000_060});
    assert_eq!(told, expected);
    let told = introspect(TOKEN).await;
    let scope = "publish execute admin delegate service guard";
    let all = json!({"active": true, "sub": "owner", "scope": scope});
    assert_eq!(told, all);
    now.fetch_add(59, Ordering::Relaxed);
    assert_eq!(world.publish_as(&brief, &dogs("1.0.1")).await.status, 201);
    now.fetch_add(1, Ordering::Relaxed);
    assert_eq!(world.publish_as(&brief, &dogs("1.0.2")).await.code(), "A2S207");
    assert_eq!(introspect(&brief).await, json!({"active": false}));
    let list = world.ask(Some(TOKEN), "GET", "/v1/tokens", None).await.json();
    assert_eq!(
        (&list["tokens"][0]["name"], &list["tokens"][0]["expired"]),
        (&json!("brief"), &json!(true))
    );

    assert_eq!(world.publish_as(&lasting, &document("Cats", "1.0.0", "Cats")).await.status, 201);
    assert_eq!(world.ask(Some(TOKEN), "DELETE", "/v1/tokens/lasting", None).await.status, 204);
    assert_eq!(
        world.publish_as(&lasting, &document("Cats", "1.0.1", "Cats")).await.code(),
        "A2S207"
    );
    assert_eq!(introspect(&lasting).await, json!({"active": false}));
    assert_eq!(world.ask(Some(TOKEN), "DELETE", "/v1/tokens/lasting", None).await.code(), "A2S272");
    // A new token of the name stands for whoever had the old one.
    let again = world.token("lasting", &["publish"]).await;
    assert_eq!(world.publish_as(&again, &document("Cats", "1.0.1", "Cats")).await.status, 201);
}

#[tokio::test]
async fn tokens_that_make_no_sense_are_not_made() {
    let world = World::new().await;
    world.token("ci", &["publish"]).await;
    for (request, code) in [
        (json!({"name": "ci", "scopes": ["admin"]}), "A2S271"),
        (json!({"name": "x", "scopes": []}), "A2S270"),
        (json!({"name": "owner", "scopes": ["admin"]}), "A2S270"),
        (json!({"name": "anonymous", "scopes": ["execute"]}), "A2S270"),
        (json!({"name": "asking", "scopes": ["guard"]}), "A2S270"),
        (json!({"name": "Service", "scopes": ["service"]}), "A2S270"),
        (json!({"name": "x", "scopes": ["admin"], "expires_in_s": 0}), "A2S270"),
        (json!({"name": "x", "scopes": ["admin"], "expires_in_s": u64::MAX}), "A2S270"),
        (json!({"name": "x", "scopes": ["root"]}), "A2S205"),
        (json!({"name": "two words", "scopes": ["admin"]}), "A2S205"),
        (json!({"scopes": ["admin"]}), "A2S205"),
    ] {
        assert_eq!(world.post("/v1/tokens", &request).await.code(), code, "{request}");
    }
    let list = world.ask(Some(TOKEN), "GET", "/v1/tokens", None).await.json();
    assert_eq!(list["tokens"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_token_makes_tokens_with_scopes_that_it_has() {
    let world = World::new().await;
    let admin = world.token("root", &["admin"]).await;
    let make = async |token: &str, name: &str, scopes: &[&str]| {
        let request = json!({"name": name, "scopes": scopes});
        world.ask(Some(token), "POST", "/v1/tokens", Some(&request)).await
    };
    for scope in ["publish", "execute", "delegate", "service", "guard"] {
        let refused = make(&admin, "more", &["admin", scope]).await;
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), (403, "A2S209"), "{scope}");
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(&format!("`{scope}`")), "{detail}");
    }
    assert_eq!(make(&admin, "same", &["admin"]).await.status, 201);
    let both = world.token("both", &["admin", "publish"]).await;
    assert_eq!(make(&both, "less", &["publish"]).await.status, 201);
    assert_eq!(make(&both, "other", &["execute"]).await.status, 403);
    assert_eq!(make(TOKEN, "all", &["publish", "execute", "service"]).await.status, 201);
}

#[tokio::test]
async fn a_name_belongs_to_its_first_publisher() {
    let world = World::new().await;
    let (ann, bob) =
        (world.token("ann", &["publish"]).await, world.token("bob", &["publish"]).await);
    let root = world.token("root", &["publish", "admin"]).await;
    assert_eq!(world.publish_as(&ann, &dogs("1.0.0")).await.status, 201);
    let owners = world.get("/v1/capabilities/Dogs/owners").await.json();
    assert_eq!(owners, json!({"name": "Dogs", "owners": ["ann"]}));

    // Nothing of it is for others, and they are told whose it is.
    let answer = world.publish_as(&bob, &dogs("1.0.1")).await;
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (403, "A2S214"));
    assert!(answer.json()["detail"].as_str().unwrap().contains("`ann`"), "{}", answer.text());
    let other = document("Dogs", "1.0.0", "Something else");
    assert_eq!(world.publish_as(&bob, &other).await.code(), "A2S214");
    for (verb, body) in [("yank", None), ("unyank", None), ("deprecate", Some(json!({})))] {
        let path = format!("/v1/capabilities/Dogs/1.0.0/{verb}");
        let answer = world.ask(Some(&bob), "POST", &path, body.as_ref()).await;
        assert_eq!(answer.code(), "A2S214", "{verb}");
    }
    let path = "/v1/capabilities/Dogs/owners";
    let change = async |token: &str, change: Value| {
        world.ask(Some(token), "POST", path, Some(&change)).await
    };
    assert_eq!(change(&bob, json!({"add": "bob"})).await.code(), "A2S214");
    // The very same content changes nothing, whoever sends it.
    assert_eq!(world.publish_as(&bob, &dogs("1.0.0")).await.status, 200);

    // Owners, and admins, decide who else may.
    assert_eq!(change(&ann, json!({"add": "nobody"})).await.code(), "A2S272");
    assert_eq!(change(&ann, json!({"remove": "ann"})).await.code(), "A2S273");
    assert_eq!(change(&ann, json!({"add": "bob"})).await.json()["owners"], json!(["ann", "bob"]));
    assert_eq!(world.publish_as(&bob, &dogs("1.0.1")).await.status, 201);
    assert_eq!(change(&bob, json!({"remove": "ann"})).await.json()["owners"], json!(["bob"]));
    assert_eq!(world.publish_as(&ann, &dogs("1.0.2")).await.code(), "A2S214");
    assert_eq!(world.publish_as(&root, &dogs("1.0.2")).await.status, 201);
    assert_eq!(
        change(&root, json!({"transfer": "owner"})).await.json()["owners"],
        json!(["owner"])
    );
    assert_eq!(world.publish_as(&bob, &dogs("1.0.3")).await.code(), "A2S214");
    assert_eq!(world.publish(dogs("1.0.3")).await.status, 201);
    for (body, code) in [
        (json!({}), "A2S205"),
        (json!({"add": "ann", "remove": "bob"}), "A2S205"),
        (json!({"steal": "ann"}), "A2S205"),
    ] {
        assert_eq!(change(TOKEN, body.clone()).await.code(), code, "{body}");
    }
    assert_eq!(world.get("/v1/capabilities/Cats/owners").await.code(), "A2S220");
}

#[tokio::test]
async fn of_many_that_claim_a_name_at_once_exactly_one_gets_it() {
    let world = World::new().await;
    let mut claimants = Vec::new();
    for number in 0..8 {
        let name = format!("claimant-{number}");
        let token = world.token(&name, &["publish"]).await;
        let version = format!("1.0.{number}");
        claimants.push((name, token, dogs(&version)));
    }
    let claims = claimants.iter().map(|(_, token, document)| world.publish_as(token, document));
    let answers = join_all(claims).await;
    let won: Vec<_> = (0..8).filter(|&at| answers[at].status == 201).collect();
    assert_eq!(won.len(), 1, "one has it");
    for (at, answer) in answers.iter().enumerate().filter(|(at, _)| *at != won[0]) {
        assert_eq!(answer.code(), "A2S214", "{at}");
    }
    let owners = world.get("/v1/capabilities/Dogs/owners").await.json();
    assert_eq!(owners["owners"], json!([claimants[won[0]].0]));
    let versions = world.get("/v1/capabilities/Dogs").await.json();
    assert_eq!(versions["versions"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_name_that_looks_like_that_of_another_owner_is_refused() {
    let world = World::new().await;
    let (ann, bob) =
        (world.token("ann", &["publish"]).await, world.token("bob", &["publish"]).await);
    let joke = |name: &str| document(name, "1.0.0", "Tells a joke");
    assert_eq!(world.publish_as(&ann, &joke("GetJoke")).await.status, 201);
    for name in ["GETJOKE", "GetJ0ke", "GetJoKe"] {
        let answer = world.publish_as(&bob, &joke(name)).await;
        assert_eq!((answer.status.as_u16(), answer.code().as_str()), (409, "A2S218"), "{name}");
        assert!(answer.json()["detail"].as_str().unwrap().contains("`GetJoke`"), "{name}");
    }
    // One owner may have both, and other names are free.
    assert_eq!(world.publish_as(&ann, &joke("GetJoKe")).await.status, 201);
    assert_eq!(world.publish_as(&bob, &joke("GetJokes")).await.status, 201);
}

#[tokio::test]
async fn a_description_that_turns_text_around_is_refused() {
    let world = World::new().await;
    let ann = world.token("ann", &["publish"]).await;
    let turned = document("Turned", "1.0.0", "Sends \u{202e}money");
    let answer = world.publish_as(&ann, &turned).await;
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (422, "A2S210"));
    assert_eq!(answer.json()["diagnostics"][0]["code"], "A2S022", "{}", answer.text());
}

/// A registry in which a token publishes at most so many versions and bytes.
async fn open_with_share(folder: Folder, versions: u32, bytes: i64) -> World {
    let share = PublisherShare { versions, bytes };
    World::open_with(folder, |config| config.limits.publisher_share = share).await
}

#[tokio::test]
async fn token_publishes_up_to_its_share_and_the_owner_more() {
    let world = open_with_share(Folder::new().await, 2, i64::MAX).await;
    let token = world.token("ci", &["publish"]).await;
    for version in ["1.0.0", "1.0.1"] {
        assert_eq!(world.publish_as(&token, &dogs(version)).await.status, 201);
    }
    let refused = world.publish_as(&token, &dogs("1.0.2")).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (413, "A2S274"));
    assert_eq!(world.publish_as(&token, &dogs("1.0.1")).await.status, 200);
    for name in ["Cats", "Birds", "Fish"] {
        assert_eq!(world.publish(document(name, "1.0.0", "Feeds the pet")).await.status, 201);
    }
    // A share has a size as well.
    let world = open_with_share(world.close().await, 9, 100).await;
    let refused = world.publish_as(&token, &dogs("1.0.2")).await;
    assert_eq!(refused.code(), "A2S274");
}

/// The sums of a share are derived: a row may be missing, or older than what an older program published.
#[tokio::test]
async fn each_version_counts_once_for_a_share() {
    let world = open_with_share(Folder::new().await, 5, i64::MAX).await;
    let token = world.token("ci", &["publish"]).await;
    let other = world.token("nightly", &["publish"]).await;
    let database = world.database().await;
    for (at, change) in [
        "SELECT 1",
        "SELECT 1",
        "DELETE FROM publisher_usage",
        // As of the first version.
        "UPDATE publisher_usage SET versions = 1, counted = (SELECT min(seq) FROM event WHERE action = 'publish')",
        "SELECT 1",
    ]
    .iter()
    .enumerate()
    {
        database.execute(change, &[]).await;
        let answer = world.publish_as(&token, &dogs(&format!("1.0.{at}"))).await;
        assert_eq!(answer.status, 201, "{at}: {}", answer.text());
    }
    database.close().await;
    let refused = world.publish_as(&token, &dogs("1.0.5")).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (413, "A2S274"));
    let cats = document("Cats", "1.0.0", "Feeds the cat");
    assert_eq!(world.publish_as(&other, &cats).await.status, 201);
}
