use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::{World, document};

async fn filled(count: usize) -> World {
    let world = World::new().await;
    for index in 0..count {
        let name = format!("Weather{index}");
        let about = format!("Weather forecast for a city, by station {index}");
        world.publish_all([document(&name, "1.0.0", &about)]).await;
    }
    world.publish_all([document("ListDogBreeds", "1.0.0", "Retrieve a list of dog breeds")]).await;
    world
}

const INTENT: &str = "weather forecast for Rome";

async fn page(world: &World, limit: usize, cursor: Option<&str>) -> (Vec<String>, Option<String>) {
    let mut request = json!({"intent": INTENT, "limit": limit});
    if let Some(cursor) = cursor {
        request["cursor"] = json!(cursor);
    }
    let answer = world.post("/v1/search", &request).await;
    let next = answer.json()["next"].as_str().map(str::to_owned);
    (answer.names(), next)
}

/// Every page from the first to the last.
async fn walk(world: &World, limits: impl Iterator<Item = usize>) -> Vec<Vec<String>> {
    let (mut pages, mut cursor) = (Vec::new(), None);
    for limit in limits {
        let (names, next) = page(world, limit, cursor.as_deref()).await;
        assert!(names.len() == limit || next.is_none(), "only the last page may be short");
        pages.push(names);
        cursor = next;
        if cursor.is_none() {
            return pages;
        }
    }
    panic!("the walk does not end: {} pages", pages.len());
}

#[test]
fn a_walk_gives_each_hit_exactly_once() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = runtime.block_on(filled(120));
    let expected: BTreeSet<_> = (0..120).map(|index| format!("Weather{index}")).collect();
    let whole = runtime.block_on(page(&world, 100, None)).0;
    let config =
        ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let limits = prop::collection::vec(1usize..=100, 1..8);
    runner
        .run(&limits, |limits| {
            let pages = runtime.block_on(walk(&world, limits.iter().copied().cycle().take(200)));
            let all: Vec<_> = pages.concat();
            let different: BTreeSet<_> = all.iter().cloned().collect();
            prop_assert_eq!(all.len(), different.len(), "a hit came twice");
            prop_assert_eq!(&different, &expected);
            // Pages that end before the hundredth hit are slices of one list.
            let ends = pages.iter().scan(0, |end, page| {
                *end += page.len();
                Some(*end)
            });
            let fine = ends.take_while(|end| *end <= 100).last().unwrap_or(0);
            prop_assert_eq!(&all[..fine], &whole[..fine]);
            Ok(())
        })
        .unwrap();
    // What is looked at ends with a page, and more fits behind it.
    let pages = runtime.block_on(walk(&world, std::iter::repeat_n(100, 3)));
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [100, 20]);
    runtime.block_on(world.app.close());
}

#[tokio::test]
async fn a_page_is_full_although_everything_in_front_is_damaged() {
    let world = filled(110).await;
    let (front, _) = page(&world, 100, None).await;
    let database = world.database().await;
    for name in &front {
        let damage = "UPDATE document SET source = 'garbage: [' WHERE version = \
                      (SELECT head FROM capability WHERE name = $1)";
        database.execute(damage, &[name]).await;
    }
    let (names, next) = page(&world, 4, None).await;
    assert!(names.len() == 4 && names.iter().all(|name| !front.contains(name)), "{names:?}");
    let (rest, next) = page(&world, 100, next.as_deref()).await;
    assert_eq!((rest.len(), next), (6, None));
}

#[tokio::test]
async fn a_walk_stands_changes_and_a_restart() {
    let world = filled(30).await;
    let (first, cursor) = page(&world, 10, None).await;
    // Somebody publishes what fits best of all, and outcomes turn the order around.
    world.publish_all([document("WeatherRome", "1.0.0", "Weather forecast for Rome")]).await;
    let versions = world.get("/v1/capabilities/Weather29").await.json();
    for run in 0..20 {
        let report = json!({
            "run": uuid::Uuid::from_u128(run),
            "name": "Weather29",
            "version": "1.0.0",
            "checksum": versions["versions"][0]["checksum"],
            "success": true,
            "duration_ms": 1,
        });
        assert_eq!(world.post("/v1/outcomes", &report).await.status, 204);
    }
    world.app.close().await;
    let World { app, folder, .. } = world;
    drop(app);
    let world = World::open(folder).await;

    let (second, cursor) = page(&world, 10, cursor.as_deref()).await;
    let (third, cursor) = page(&world, 100, cursor.as_deref()).await;
    assert_eq!(cursor, None);
    assert_eq!(second[0], "WeatherRome", "what is new is in the rest");
    let all: BTreeSet<_> =
        [first.clone(), second.clone(), third.clone()].concat().into_iter().collect();
    assert_eq!(all.len(), first.len() + second.len() + third.len(), "none came twice");
    assert_eq!(all.len(), 31, "and none is missing");
}

/// Withdraws every version of a capability, as somebody with a shell does.
async fn withdraw(world: &World, names: &[String]) {
    let database = world.database().await;
    for name in names {
        for change in [
            "UPDATE version SET yanked = TRUE \
             WHERE capability = (SELECT id FROM capability WHERE name = $1)",
            "UPDATE capability SET head = NULL WHERE name = $1",
            "INSERT INTO change (capability, at) SELECT id, 0 FROM capability WHERE name = $1",
        ] {
            database.execute(change, &[name]).await;
        }
    }
    database.close().await;
}

#[tokio::test]
async fn what_vanishes_meanwhile_hides_nothing_else() {
    let world = filled(16).await;
    let (first, cursor) = page(&world, 8, None).await;
    withdraw(&world, &first[..5]).await;
    // Wakes up the index.
    world.publish_all([document("FeedCat", "1.0.0", "Gives food to the cat")]).await;
    let (mut rest, mut cursor) = (Vec::new(), cursor);
    while cursor.is_some() {
        let (names, next) = page(&world, 1, cursor.as_deref()).await;
        rest.extend(names);
        cursor = next;
    }
    assert_eq!(rest.len(), 8, "{rest:?}");
    assert!(rest.iter().all(|name| !first.contains(name)), "{rest:?}");
}

#[tokio::test]
async fn a_cursor_of_another_search_is_refused() {
    let world = filled(12).await;
    let cursor = page(&world, 3, None).await.1.unwrap();
    for other in [
        json!({"intent": "weather forecast for Oslo"}),
        json!({"intent": INTENT, "strategy": "simplest"}),
        json!({"intent": INTENT, "filters": {"read_only": true}}),
    ] {
        let mut request = other.clone();
        request["cursor"] = json!(cursor);
        let answer = world.post("/v1/search", &request).await;
        assert_eq!(answer.code(), "A2S233", "{other}");
        assert!(answer.text().contains("belongs to a search with another intent"));
    }
    for malformed in ["", "x", "AAAA", &"A".repeat(50_000)] {
        let request = json!({"intent": INTENT, "cursor": malformed});
        assert_eq!(world.post("/v1/search", &request).await.code(), "A2S233", "{malformed:.9}");
    }
    for (member, value) in [("intents", json!([INTENT])), ("level", json!("services"))] {
        let mut request = json!({"cursor": cursor, member: value});
        if member == "level" {
            request["intent"] = json!(INTENT);
        }
        assert_eq!(world.post("/v1/search", &request).await.code(), "A2S230", "{member}");
    }
    // Another store has other ids.
    let elsewhere = filled(12).await;
    let request = json!({"intent": INTENT, "cursor": cursor});
    assert_eq!(elsewhere.post("/v1/search", &request).await.code(), "A2S233");
}

#[tokio::test]
async fn several_intents_get_the_answers_that_each_would_get_alone() {
    let world = filled(12).await;
    let intents = [
        INTENT,
        "which kinds of dogs are there",
        "play the violin",
        "look up the weather forecast, and then list all dog breeds",
        "dog breeds",
    ];
    let request = json!({"intents": intents, "limit": 3, "filters": {"max_complexity": "low"}});
    let answers = world.post("/v1/search", &request).await.json();
    let answers = answers["responses"].as_array().unwrap();
    assert_eq!(answers.len(), intents.len());
    for (intent, answer) in intents.iter().zip(answers) {
        let alone = json!({"intent": intent, "limit": 3, "filters": {"max_complexity": "low"}});
        let alone = world.post("/v1/search", &alone).await.json();
        let mut members = answer.as_object().unwrap().clone();
        assert_eq!(members.remove("intent").unwrap(), json!(intent));
        assert_eq!(Value::Object(members), alone);
    }
    assert_eq!(answers[1]["capabilities"][0]["name"], "ListDogBreeds");
    assert!(answers[2]["metadata"]["message"].is_string());
    // One of the answers goes on alone.
    let request = json!({
        "intent": INTENT,
        "filters": {"max_complexity": "low"},
        "cursor": answers[0]["next"],
    });
    assert_eq!(world.post("/v1/search", &request).await.names().len(), 9);
}

#[tokio::test]
async fn intents_that_make_no_sense_are_refused() {
    let world = World::new().await;
    for (request, named) in [
        (json!({}), "`intent` is empty"),
        (json!({"intents": []}), "`intent` is empty"),
        (json!({"intent": "x", "intents": ["y"]}), "not both"),
        (json!({"intents": ["x", " "]}), "`intents[1]` is empty"),
        (json!({"intents": ["x", "y".repeat(2001)]}), "`intents[1]` is longer"),
        (json!({"intents": vec!["x"; 17]}), "more than 16"),
        (json!({"intents": ["x"], "level": "services"}), "a single `intent`"),
    ] {
        let answer = world.post("/v1/search", &request).await;
        assert_eq!(answer.code(), "A2S230", "{request}");
        assert!(answer.text().contains(named), "{}", answer.text());
    }
}
