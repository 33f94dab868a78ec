//! Yanked, brought back, deprecated: what is found, chosen and told then.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use semver::Version;
use serde_json::{Value, json};
use test_support::fill_checksum;

use super::world::{TOKEN, World, chain, document};
use crate::store::ChangeSeq;

async fn deprecate(world: &World, target: &str, words: &Value) -> super::world::Answer {
    world.post(&format!("/v1/capabilities/{target}/deprecate"), words).await
}

fn versions_of(list: &Value) -> Vec<(String, bool)> {
    let versions = list["versions"].as_array().unwrap().iter();
    let told = versions
        .map(|v| (v["version"].as_str().unwrap().to_owned(), v["yanked"].as_bool().unwrap()));
    told.collect()
}

#[tokio::test]
async fn yanked_version_is_only_fetched_by_exact_version() {
    let world = World::new().await;
    world
        .publish_all([
            document("Dogs", "1.0.0", "Retrieve a list of dog breeds"),
            document("Dogs", "1.1.0", "Retrieve a list of all dog breeds"),
        ])
        .await;
    let answer = world.turn("Dogs/1.1.0", "yank").await;
    assert_eq!((&answer["changed"], &answer["yanked"]), (&json!(true), &json!(true)));
    assert_eq!(answer["latest"], "1.0.0");
    assert_eq!(answer["impact"], json!({"broken": [], "changed": [], "pinned": []}));

    let list = world.get("/v1/capabilities/Dogs").await.json();
    assert_eq!(list["latest"], "1.0.0");
    assert_eq!(versions_of(&list), [("1.1.0".to_owned(), true), ("1.0.0".to_owned(), false)]);
    let hits = world.search("list of dog breeds").await.json();
    assert_eq!(hits["capabilities"][0]["version"], "1.0.0");
    for (range, chosen) in [("latest", "1.0.0"), ("^1", "1.0.0"), ("1.1.0", "1.1.0")] {
        let got = world.get(&format!("/v1/capabilities/Dogs/{range}")).await;
        let place = format!("/v1/capabilities/Dogs/{chosen}");
        assert_eq!(got.header("content-location"), place, "{range}");
    }
    assert_eq!(world.get("/v1/capabilities/Dogs/^1.1").await.code(), "A2S221");

    // Again changes nothing; and when all are gone, nothing is found.
    assert_eq!(world.turn("Dogs/1.1.0", "yank").await["changed"], false);
    let answer = world.turn("Dogs/1.0.0", "yank").await;
    assert_eq!(answer["latest"], Value::Null);
    assert_eq!(world.search("list of dog breeds").await.names(), [""; 0]);
    assert_eq!(world.get("/v1/capabilities").await.json()["capabilities"], json!([]));

    let answer = world.turn("Dogs/1.1.0", "unyank").await;
    assert_eq!((&answer["changed"], &answer["latest"]), (&json!(true), &json!("1.1.0")));
    assert_eq!(world.search("list of dog breeds").await.names(), ["Dogs"]);
    assert_eq!(world.turn("Dogs/1.1.0", "unyank").await["changed"], false);
}

#[tokio::test]
async fn yank_that_breaks_dependents_needs_force() {
    let world = World::new().await;
    world
        .publish_all([
            document("Base", "1.0.0", "Does one thing"),
            document("Base", "1.1.0", "Does one thing"),
            chain("Exact", "1.0.0", &[("Base", "=1.1.0")], "api.example.com"),
            chain("Loose", "1.0.0", &[("Base", "^1")], "api.example.com"),
        ])
        .await;
    let path = "/v1/capabilities/Base/1.1.0/yank";
    let refused = world.ask(Some(TOKEN), "POST", path, None).await;
    assert_eq!(
        (refused.status.as_u16(), refused.code().as_str()),
        (409, "A2S224"),
        "{}",
        refused.text()
    );
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("would break Exact@1.0.0 (no live version of `Base`"), "{detail}");
    assert!(!detail.contains("Loose"), "{detail}");
    assert_eq!(world.get("/v1/capabilities/Base").await.json()["latest"], "1.1.0");
    let impact = world.turn("Base/1.1.0", "yank?force=true").await["impact"].take();
    assert_eq!(impact["broken"][0]["id"], "Exact@1.0.0", "{impact}");
    assert_eq!(impact["changed"][0]["id"], "Loose@1.0.0", "{impact}");
    // What leads to a hole cannot be published any more; what was, is mended with its dependency.
    let again = chain("Exact", "1.0.1", &[("Base", "=1.1.0")], "api.example.com");
    assert_eq!(world.publish(again.clone()).await.json()["diagnostics"][0]["code"], "A2S062");
    world.turn("Base/1.1.0", "unyank").await;
    assert_eq!(world.publish(again).await.status, 201);
}

#[tokio::test]
async fn a_damaged_version_can_be_yanked() {
    let world = World::new().await;
    world.publish_all([document("Dogs", "1.0.0", "Retrieve a list of dog breeds")]).await;
    world.tamper("dog breeds", "cat breeds").await;
    let answer = world.turn("Dogs/1.0.0", "yank").await;
    assert_eq!((&answer["changed"], &answer["impact"]), (&json!(true), &Value::Null));
}

#[tokio::test]
async fn a_deprecated_version_is_found_and_says_so() {
    let world = World::new().await;
    world
        .publish_all([
            document("Dogs", "1.0.0", "Retrieve a list of dog breeds"),
            document("Pets", "2.0.0", "Retrieve everything about animals at home"),
        ])
        .await;
    let words = json!({"message": "ends in May", "successor": "Pets@^2"});
    let answer = deprecate(&world, "Dogs/1.0.0", &words).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["deprecated"], words);
    assert_eq!(answer.json()["latest"], "1.0.0");
    assert_eq!(deprecate(&world, "Dogs/1.0.0", &words).await.json()["changed"], false);

    let hit = world.search("list of dog breeds").await.json()["capabilities"][0].take();
    assert_eq!((&hit["name"], &hit["deprecated"]), (&json!("Dogs"), &words));
    let list = world.get("/v1/capabilities/Dogs").await.json();
    assert_eq!(list["versions"][0]["deprecated"], words);

    // Who depends on it is told, and may.
    let user = chain("User", "1.0.0", &[("Dogs", "^1")], "api.example.com");
    let answer = world.publish(user).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let warning = answer.json()["warnings"][0].take();
    assert_eq!((&warning["code"], &warning["severity"]), (&json!("A2S073"), &json!("warning")));
    let message = "version 1.0.0 of `Dogs` is deprecated; use Pets@^2 instead: ends in May";
    assert_eq!(warning["message"], message);

    // Without words, with others, and not any more.
    assert_eq!(deprecate(&world, "Dogs/1.0.0", &json!({})).await.json()["deprecated"], json!({}));
    let answer = deprecate(&world, "Dogs/1.0.0", &json!({"undo": true})).await.json();
    assert_eq!((&answer["changed"], &answer["deprecated"]), (&json!(true), &Value::Null));
    let hit = world.search("list of dog breeds").await.json()["capabilities"][0].take();
    assert_eq!(hit["deprecated"], Value::Null);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let world = World::new().await;
    world.publish_all([document("Dogs", "1.0.0", "Retrieve a list of dog breeds")]).await;
    let long = "x".repeat(501);
    for (words, code) in [
        (json!({"message": ""}), "A2S215"),
        (json!({"message": long}), "A2S215"),
        (json!({"undo": true, "message": "no"}), "A2S215"),
        (json!({"successor": "Dogs@=1.0.0"}), "A2S215"),
        (json!({"successor": "Dogs@^1"}), "A2S215"),
        (json!({"successor": "Dogs@^2"}), "A2S221"),
        (json!({"successor": "Cats"}), "A2S220"),
        (json!({"successor": "no name"}), "A2S205"),
        (json!({"reason": "x"}), "A2S205"),
    ] {
        assert_eq!(deprecate(&world, "Dogs/1.0.0", &words).await.code(), code, "{words}");
    }
    for (target, code) in [
        ("Dogs/^1", "A2S206"),
        ("Dogs/latest", "A2S206"),
        ("Dogs/2.0.0", "A2S221"),
        ("Cats/1.0.0", "A2S220"),
    ] {
        for verb in ["yank", "unyank", "deprecate"] {
            let path = format!("/v1/capabilities/{target}/{verb}");
            assert_eq!(world.post(&path, &json!({})).await.code(), code, "{path}");
        }
    }
    let changes = world.get("/v1/changes").await.json();
    assert_eq!(changes["changes"].as_array().unwrap().len(), 1, "{changes}");
}

#[tokio::test]
async fn a_pin_on_a_yanked_version_is_told_by_its_number_alone() {
    let world = World::new().await;
    let low = document("Low", "1.0.0", "Does one thing");
    let digest = a2s::compile(low.as_bytes()).digest.unwrap();
    world.publish_all([low]).await;
    world.turn("Low/1.0.0", "yank").await;
    let pinned = fill_checksum(
        &chain("Top", "1.0.0", &[("Low", "^1")], "api.example.com")
            .replace(
                "    version: \"^1\"\n",
                &format!("    version: \"^1\"\n    checksum: \"{digest}\"\n"),
            )
            .replace(
                &a2s::compile(
                    chain("Top", "1.0.0", &[("Low", "^1")], "api.example.com").as_bytes(),
                )
                .digest
                .unwrap()
                .to_string(),
                "<sha256>",
            ),
    );
    assert_eq!(world.publish(pinned).await.json()["diagnostics"][0]["code"], "A2S065");
}

/// The version that an unpinned user gets, by the words of the documentation.
fn head_by_words(versions: &BTreeMap<Version, bool>) -> Option<&Version> {
    let live = || versions.iter().filter(|(_, yanked)| !**yanked).map(|(version, _)| version);
    let stable = live().filter(|version| version.pre.is_empty()).max();
    stable.or_else(|| live().max())
}

const NUMBERS: [&str; 6] =
    ["0.9.0", "1.0.0-rc.1", "1.0.0", "1.2.0-beta", "1.10.0", "2.0.0-alpha.1"];

#[derive(Debug, Clone)]
enum Deed {
    Publish(usize),
    Yank(usize),
    Unyank(usize),
}

fn any_deed() -> impl Strategy<Value = Deed> {
    let number = 0..NUMBERS.len();
    prop_oneof![
        number.clone().prop_map(Deed::Publish),
        number.clone().prop_map(Deed::Yank),
        number.prop_map(Deed::Unyank),
    ]
}

/// Whatever is published, withdrawn and brought back in whatever order: list, fetch and search
/// agree with the rule, and the feed leads to the same.
#[test]
fn the_live_version_is_the_one_of_the_rule_whatever_was_done() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut runner = TestRunner::new(ProptestConfig { cases: 12, ..ProptestConfig::default() });
    runner
        .run(&prop::collection::vec(any_deed(), 1..14), |deeds| {
            runtime.block_on(async {
                let world = World::new().await;
                let mut versions = BTreeMap::<Version, bool>::new();
                for deed in deeds {
                    let (Deed::Publish(at) | Deed::Yank(at) | Deed::Unyank(at)) = deed;
                    let (number, version) = (NUMBERS[at], NUMBERS[at].parse::<Version>().unwrap());
                    match deed {
                        Deed::Publish(_) => {
                            let words = "Retrieve a list of dog breeds";
                            let answer = world.publish(document("Dogs", number, words)).await;
                            let created = answer.json()["created"].as_bool();
                            prop_assert_eq!(created, Some(!versions.contains_key(&version)));
                            versions.entry(version).or_insert(false);
                        }
                        Deed::Yank(_) | Deed::Unyank(_) if !versions.contains_key(&version) => {
                            continue;
                        }
                        Deed::Yank(_) | Deed::Unyank(_) => {
                            let yanked = matches!(deed, Deed::Yank(_));
                            let verb = if yanked { "yank" } else { "unyank" };
                            let answer = world.turn(&format!("Dogs/{number}"), verb).await;
                            let before = versions.insert(version, yanked);
                            prop_assert_eq!(&answer["changed"], &json!(before != Some(yanked)));
                        }
                    }
                    let head = head_by_words(&versions).map(ToString::to_string);
                    let list = world.get("/v1/capabilities/Dogs").await.json();
                    prop_assert_eq!(&list["latest"], &json!(head));
                    let hits = world.search("list of dog breeds").await.json();
                    prop_assert_eq!(&hits["capabilities"][0]["version"], &json!(head));
                    let latest = world.get("/v1/capabilities/Dogs/latest").await;
                    let place = head.map(|head| format!("/v1/capabilities/Dogs/{head}"));
                    prop_assert_eq!(
                        latest.header("content-location"),
                        place.as_deref().unwrap_or_default()
                    );
                }
                // The feed, told again, leads to the same.
                let mut told = BTreeMap::new();
                let page = world.get("/v1/changes?limit=1000").await.json();
                for change in page["changes"].as_array().unwrap() {
                    let version: Version = change["version"].as_str().unwrap().parse().unwrap();
                    told.insert(version, change["action"] == "yank");
                }
                prop_assert_eq!(told, versions);
                Ok(())
            })
        })
        .unwrap();
}

#[tokio::test]
async fn another_process_learns_of_a_yank_by_the_outbox() {
    let world = World::new().await;
    world
        .publish_all([
            document("Base", "1.0.0", "Does one thing"),
            chain("Top", "1.0.0", &[("Base", "^1")], "api.example.com"),
        ])
        .await;
    let store = &world.app.shared.catalog.versions.store;
    let before = store.read_outbox(ChangeSeq::default(), 0).await.unwrap().latest;
    world.turn("Base/1.0.0", "yank?force=true").await;
    let changes = store.read_outbox(before, 10).await.unwrap().changes;
    let mut touched: Vec<_> = changes.iter().map(|(_, capability)| capability.0).collect();
    touched.sort_unstable();
    assert_eq!(touched, [1, 2], "the capability, and the one that leads to it");
    let path = "/v1/capabilities/Base/1.0.0/yank";
    assert_eq!(world.ask(Some(TOKEN), "POST", path, None).await.json()["changed"], false);
    assert_eq!(store.read_outbox(before, 10).await.unwrap().changes, changes);
}
