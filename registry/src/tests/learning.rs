//! Accepted intents, and what comes of them for those who search.

use serde_json::{Value, json};

use super::database::Folder;
use super::world::{TOKEN, World, document};
use crate::embed::Embedder;

const INTENT: &str = "which pups suit my flat";

async fn kennel(embedder: Embedder) -> World {
    let world = open(Folder::with_index().await, embedder, true).await;
    let documents = [
        document("ListDogBreeds", "1.0.0", "Retrieves a list of dog breeds"),
        document("FindApartments", "1.0.0", "Finds flats for rent in a city"),
        document("GetRiverLevel", "1.0.0", "Gets the latest water level at a gauge"),
    ];
    world.publish_all(documents).await;
    world
}

async fn open(folder: Folder, embedder: Embedder, learn: bool) -> World {
    World::open_with(folder, |config| (config.embedder, config.learn) = (embedder, learn)).await
}

/// The hits, with their scores.
async fn hits(world: &World, intent: &str) -> Value {
    let answer = world.search(intent).await.json();
    let hits = answer["capabilities"].as_array().unwrap().iter();
    hits.map(|hit| json!([hit["name"], hit["similarity"]])).collect()
}

async fn similarity(world: &World, name: &str) -> f64 {
    let hits = hits(world, INTENT).await;
    let of = hits.as_array().unwrap().iter().find(|hit| hit[0] == name);
    of.map_or(0.0, |hit| hit[1].as_f64().unwrap())
}

/// A report on a successful run with an intent.
async fn report(world: &World, run: u128, name: &str, more: Value) {
    let checksum = world.get(&format!("/v1/capabilities/{name}/latest/stats")).await.json();
    let mut report = json!({
        "run": uuid::Uuid::from_u128(run),
        "name": name,
        "version": "1.0.0",
        "checksum": checksum["checksum"],
        "success": true,
        "duration_ms": 12,
        "intent": INTENT,
    });
    report.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let answer = world.post("/v1/outcomes", &report).await;
    assert_eq!(answer.status, 204, "{}", answer.text());
}

/// Waits until the index has every change.
async fn settle(world: &World) {
    let document = document("GetRiverLevel", "1.0.1", "Gets the latest water level at a gauge");
    let verb = if world.publish(document).await.status == 201 { "yank" } else { "unyank" };
    world.turn("GetRiverLevel/1.0.1", verb).await;
    if verb == "unyank" {
        world.turn("GetRiverLevel/1.0.1", "yank").await;
    }
}

/// The number of stored vectors.
async fn stored(world: &World) -> u64 {
    let database = world.database().await;
    let count = database.execute("UPDATE learned SET at = at", &[]).await;
    database.close().await;
    count
}

async fn is_found_better(embedder: Embedder, vectors: u64) {
    let world = kennel(embedder).await;
    settle(&world).await;
    let before = similarity(&world, "ListDogBreeds").await;
    // Of a reporter, one byte of a keyed hash is kept: two may be alike.
    for run in 0..10 {
        let reporter = json!({"reporter": format!("executor {run}")});
        report(&world, run, "ListDogBreeds", reporter).await;
        if stored(&world).await == vectors {
            break;
        }
    }
    settle(&world).await;
    let after = similarity(&world, "ListDogBreeds").await;
    assert!(after > before + 0.1, "{before} {after}");
    assert_eq!(hits(&world, INTENT).await[0][0], "ListDogBreeds");
    assert_eq!(stored(&world).await, vectors);
}

#[tokio::test]
async fn accepted_intents_are_found_by_the_table() {
    is_found_better(Embedder::fast(), 3).await;
}

#[tokio::test]
async fn accepted_intents_are_found_by_the_encoder() {
    is_found_better(Embedder::built_in(), 6).await;
}

#[tokio::test]
async fn nothing_is_learned_unless_it_is_wanted() {
    let world = kennel(Embedder::built_in()).await;
    settle(&world).await;
    let world = open(world.close().await, Embedder::built_in(), false).await;
    let before = hits(&world, INTENT).await;
    report(&world, 1, "ListDogBreeds", json!({})).await;
    settle(&world).await;
    assert_eq!(hits(&world, INTENT).await, before);
    assert_eq!(stored(&world).await, 0);
}

#[tokio::test]
async fn only_successful_runs_teach() {
    let world = kennel(Embedder::fast()).await;
    report(&world, 1, "ListDogBreeds", json!({"success": false})).await;
    assert_eq!(stored(&world).await, 0);
    report(&world, 2, "ListDogBreeds", json!({})).await;
    // A run counts once.
    report(&world, 2, "ListDogBreeds", json!({"intent": "other words"})).await;
    assert_eq!(stored(&world).await, 1);
}

#[tokio::test]
async fn learned_vectors_count_while_learning_is_on() {
    let world = kennel(Embedder::built_in()).await;
    settle(&world).await;
    let before = hits(&world, INTENT).await;
    report(&world, 1, "ListDogBreeds", json!({})).await;
    settle(&world).await;
    let after = hits(&world, INTENT).await;
    assert_ne!(before, after);
    let mut folder = world.close().await;
    for (learn, expected) in [(true, &after), (false, &before), (true, &after)] {
        let world = open(folder, Embedder::built_in(), learn).await;
        settle(&world).await;
        assert_eq!(hits(&world, INTENT).await, *expected, "{learn}");
        folder = world.close().await;
    }
}

#[tokio::test]
async fn a_new_version_keeps_what_was_learned() {
    let world = kennel(Embedder::built_in()).await;
    let before = similarity(&world, "ListDogBreeds").await;
    report(&world, 1, "ListDogBreeds", json!({})).await;
    let next = document("ListDogBreeds", "1.1.0", "Retrieves a list of dog breeds");
    world.publish_all([next]).await;
    assert!(similarity(&world, "ListDogBreeds").await > before + 0.05);
    // Nor does a new index lose it.
    let after = hits(&world, INTENT).await;
    world.app.reindex().await.unwrap();
    assert_eq!(hits(&world, INTENT).await, after);
}

#[tokio::test]
async fn a_reporter_has_a_bounded_number_of_vectors() {
    let world = kennel(Embedder::fast()).await;
    for (run, intent) in [INTENT, "Which  Pups suit my\tflat "].iter().cycle().take(4).enumerate() {
        let same = json!({"reporter": "one", "intent": intent});
        report(&world, run as u128, "ListDogBreeds", same).await;
    }
    assert_eq!(stored(&world).await, 1);
    for run in 10..80 {
        let other = json!({"reporter": "one", "intent": format!("words number {run}")});
        report(&world, run, "ListDogBreeds", other).await;
    }
    // Two intents may share a slot.
    assert!((8..=16).contains(&stored(&world).await));
}

#[tokio::test]
async fn a_capability_has_a_bounded_number_of_vectors() {
    let world = kennel(Embedder::fast()).await;
    report(&world, 1, "ListDogBreeds", json!({"reporter": "quiet"})).await;
    // As many as never come, of a reporter that may or may not be one of those of the reports.
    let database = world.database().await;
    let many = "WITH RECURSIVE n (n) AS (SELECT 100 UNION ALL SELECT n + 1 FROM n WHERE n < 400) \
                INSERT INTO learned (capability, embedder, reporter, slot, vector, at) \
                SELECT capability, embedder, 7, n, vector, 0 \
                FROM (SELECT * FROM learned LIMIT 1) AS one, n";
    assert_eq!(database.execute(many, &[]).await, 301);
    database.close().await;
    report(&world, 100, "ListDogBreeds", json!({"reporter": "another"})).await;
    assert_eq!(stored(&world).await, 256);
    // The one with few vectors still has them.
    let database = world.database().await;
    let quiet = "UPDATE learned SET at = at WHERE slot < 100";
    assert_eq!(database.execute(quiet, &[]).await, 2);
    database.close().await;
}

#[tokio::test]
async fn owners_forget_what_was_learned() {
    let world = kennel(Embedder::built_in()).await;
    settle(&world).await;
    let before = hits(&world, INTENT).await;
    report(&world, 1, "ListDogBreeds", json!({})).await;
    settle(&world).await;
    let path = "/v1/capabilities/ListDogBreeds/learned";
    let other = world.token("other", &["publish"]).await;
    let service = world.token("reporter", &["service"]).await;
    assert_eq!(world.ask(None, "DELETE", path, None).await.code(), "A2S207");
    assert_eq!(world.ask(Some(&service), "DELETE", path, None).await.code(), "A2S209");
    assert_eq!(world.ask(Some(&other), "DELETE", path, None).await.status, 403);
    assert_ne!(hits(&world, INTENT).await, before);

    let forget = async || world.ask(Some(TOKEN), "DELETE", path, None).await.json();
    assert_eq!(forget().await, json!({"name": "ListDogBreeds", "changed": true}));
    // At once, and for good.
    assert_eq!(hits(&world, INTENT).await, before);
    assert_eq!(stored(&world).await, 0);
    assert_eq!(forget().await, json!({"name": "ListDogBreeds", "changed": false}));
    let unknown = "/v1/capabilities/UnknownName/learned";
    assert_eq!(world.ask(Some(TOKEN), "DELETE", unknown, None).await.code(), "A2S220");
    let audit = world.ask(Some(TOKEN), "GET", "/v1/audit?name=ListDogBreeds", None).await.json();
    assert_eq!(audit["entries"][0]["action"], "forget_intents", "{audit:#}");
}

#[tokio::test]
async fn the_words_of_an_intent_are_stored_nowhere() {
    let world = open(Folder::with_file(), Embedder::built_in(), true).await;
    world.publish_all([document("ListDogBreeds", "1.0.0", "Retrieves a list of breeds")]).await;
    report(&world, 1, "ListDogBreeds", json!({"intent": "xylophone for Wolfgang"})).await;
    assert_eq!(stored(&world).await, 2);
    let folder = world.close().await;
    let mut folders = vec![folder.path().to_owned()];
    while let Some(path) = folders.pop() {
        for entry in std::fs::read_dir(path).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
                continue;
            }
            let bytes = std::fs::read(entry.path()).unwrap().to_ascii_lowercase();
            for word in ["xylophone", "wolfgang"] {
                let found = bytes.windows(word.len()).any(|part| part == word.as_bytes());
                assert!(!found, "{word} in {}", entry.path().display());
            }
        }
    }
}
