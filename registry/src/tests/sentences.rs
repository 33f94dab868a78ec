//! Search with the sentence encoder, and what the graph adds to it.

use serde_json::{Value, json};

use super::database::Folder;
use super::embedders::until;
use super::world::{Answer, World, document, document_for};
use crate::embed::Embedder;

async fn zoo(embedder: Embedder) -> World {
    let folder = Folder::with_index().await;
    let world = World::open_with(folder, |config| config.embedder = embedder).await;
    let documents = [
        document("ListDogBreeds", "1.0.0", "Retrieves a list of dog breeds"),
        document("GetRiverLevel", "1.0.0", "Gets the latest water level at a gauge"),
        document_for(
            "GetMovieCredits",
            "1.0.0",
            "Gets the movies in which a person acted",
            "api.films.example",
            &["person_id"],
        ),
        document_for(
            "SearchPerson",
            "1.0.0",
            "Looks up people by their names",
            "api.films.example",
            &["query"],
        ),
        document_for(
            "FindPerson",
            "1.0.0",
            "Looks up employees by their names",
            "api.staff.example",
            &["query"],
        ),
    ];
    world.publish_all(documents).await;
    world
}

/// The names of the hits, each with the hit that needs it.
fn hits(answer: &Answer) -> Vec<(String, Option<String>)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let answer = answer.json();
    let hits = answer["capabilities"].as_array().unwrap();
    hits.iter().map(|hit| (text(&hit["name"]).unwrap(), text(&hit["needed_by"]["name"]))).collect()
}

fn mode(answer: &Answer) -> Value {
    answer.json()["metadata"]["mode"].clone()
}

#[tokio::test]
async fn other_words_for_the_same_are_understood() {
    let world = zoo(Embedder::built_in()).await;
    let answer = world.search("what kinds of pooches are there").await;
    assert_eq!(mode(&answer), "quality");
    assert_eq!(hits(&answer).first(), Some(&("ListDogBreeds".to_owned(), None)));
}

#[tokio::test]
async fn a_long_intent_is_answered_by_the_table() {
    let world = zoo(Embedder::built_in()).await;
    let answer = world.search(&"a list of dog breeds ".repeat(60)).await;
    assert_eq!(mode(&answer), "fast");
    assert_eq!(hits(&answer).first(), Some(&("ListDogBreeds".to_owned(), None)));
}

#[tokio::test]
async fn the_sentence_encoder_can_be_left_out() {
    let world = zoo(Embedder::fast()).await;
    let answer = world.search("a list of dog breeds").await;
    assert_eq!(mode(&answer), "fast");
    assert_eq!(hits(&answer).first(), Some(&("ListDogBreeds".to_owned(), None)));
}

#[tokio::test]
async fn a_hit_brings_the_search_for_what_it_takes() {
    let world = zoo(Embedder::built_in()).await;
    let answer = world.search("in which movies did this person act").await;
    let credits = "GetMovieCredits".to_owned();
    // The one of another service finds other persons.
    assert_eq!(
        hits(&answer)[..2],
        [(credits.clone(), None), ("SearchPerson".to_owned(), Some(credits))]
    );
    let search = answer.json()["capabilities"][1].clone();
    assert_eq!(search["needed_by"]["input"], "person_id");
    assert_eq!(search["explanation"][0]["term"], "prerequisite");
    let graph = world.get("/v1/capabilities/GetMovieCredits/graph").await.json();
    let expected =
        json!([{"capability": "SearchPerson", "version": "1.0.0", "input": "person_id"}]);
    assert_eq!(graph["prerequisites"], expected);
    assert!(
        hits(&answer)
            .iter()
            .all(|(name, needed_by)| { name != "FindPerson" || needed_by.is_none() })
    );
}

#[tokio::test]
async fn a_filter_holds_for_prerequisites_too() {
    let world = zoo(Embedder::built_in()).await;
    let filters = json!({"author": "Nobody"});
    let asked = json!({"intent": "in which movies did this person act", "filters": filters});
    assert_eq!(hits(&world.post("/v1/search", &asked).await), []);
}

#[tokio::test]
async fn searches_after_a_restart_have_the_same_scores() {
    let world = zoo(Embedder::built_in()).await;
    let before = world.search("what kinds of pooches are there").await;
    let world =
        World::open_with(world.close().await, |config| config.embedder = Embedder::built_in())
            .await;
    let after = world.search("what kinds of pooches are there").await;
    assert_eq!(before.json()["capabilities"], after.json()["capabilities"]);
    assert_eq!(mode(&after), "quality");
}

#[tokio::test]
async fn the_encoder_reads_what_was_published_without_it() {
    let fresh = zoo(Embedder::built_in()).await;
    let intent = "what kinds of pooches are there";
    let expected = fresh.search(intent).await.json()["capabilities"].clone();
    let without = zoo(Embedder::fast()).await;
    let world =
        World::open_with(without.close().await, |config| config.embedder = Embedder::built_in())
            .await;
    // It reads in the background.
    until(async || scores(&world.search(intent).await.json()["capabilities"]) == scores(&expected))
        .await;
}

fn scores(hits: &Value) -> Vec<Value> {
    hits.as_array().unwrap().iter().map(|hit| hit["score"].clone()).collect()
}
