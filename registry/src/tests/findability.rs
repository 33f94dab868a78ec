//! The report about the ranks of a document, and its agreement with the search.

use serde_json::{Value, json};

use super::world::{Answer, TOKEN, World, document, document_of, http_step};
use crate::embed::{CAPABILITIES, Embedder};

/// A document with example intents.
fn example_document(name: &str, description: &str, host: &str, intents: &[&str]) -> String {
    let examples: Vec<_> = intents.iter().map(|intent| json!({"intent": intent})).collect();
    let more = json!({"domains": [host], "examples": examples});
    document_of(name, description, &json!([http_step("ask", "get", host, name)]), &more)
}

async fn report(world: &World, document: &str) -> Value {
    let answer = world.report_findability(Some(TOKEN), document).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

impl World {
    async fn report_findability(&self, token: Option<&str>, document: &str) -> Answer {
        let mut request =
            axum::http::Request::post("/v1/findability").header("content-type", "application/yaml");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        self.send(request.body(document.to_owned().into()).unwrap()).await
    }
}

fn breeds() -> String {
    example_document(
        "ListHoundBreeds",
        "Retrieves the breeds of hounds",
        "dogs.example",
        &["which pooches are there", "the kennels of Paris", "list all breeds of hounds"],
    )
}

fn kennels(intents: &[&str]) -> String {
    let description = "Retrieves the kennels of hounds";
    example_document("ListHoundKennels", description, "kennels.example", intents)
}

/// Publishes the capabilities of the embedder's tests, two on each host, with the same intents.
async fn shelf(embedder: Embedder) -> (World, Vec<String>) {
    let folder = super::database::Folder::new().await;
    let world = World::open_with(folder, |config| config.embedder = embedder).await;
    let intents = ["the weather of tomorrow", "Convert dollars to yen, and then send a message"];
    let documents: Vec<_> = (0..)
        .zip(CAPABILITIES)
        .map(|(number, (name, description))| {
            let host = format!("api{}.example", number / 2);
            example_document(name, description, &host, &[intents[0], intents[1], description])
        })
        .collect();
    world.publish_all(documents.clone()).await;
    (world, documents)
}

async fn ranks_agree_with_the_search(embedder: Embedder) {
    let (world, documents) = shelf(embedder).await;
    for document in &documents {
        let report = report(&world, document).await;
        for text in report["texts"].as_array().unwrap() {
            let request = json!({"intent": text["text"], "strategy": "most_similar", "limit": 100});
            let hits = world.post("/v1/search", &request).await.json();
            let hits = hits["capabilities"].as_array().unwrap();
            let place = hits.iter().position(|hit| hit["name"] == report["name"]);
            let context = format!("{}: {text:#}", report["name"]);
            assert_eq!(text["fits"], place.is_some(), "{context}");
            let Some(place) = place else { continue };
            assert_eq!(text["rank"], place + 1, "{context}");
            for member in ["score", "similarity"] {
                let number = |value: &Value| value[member].as_f64().unwrap();
                assert!((number(text) - number(&hits[place])).abs() < 1e-4, "{context}");
            }
            let names: Vec<_> = hits.iter().map(|hit| &hit["name"]).collect();
            for rival in text["confused_with"].as_array().into_iter().flatten() {
                let rank = usize::try_from(rival["rank"].as_u64().unwrap()).unwrap();
                assert_eq!(&rival["name"], names[rank - 1], "{context}");
            }
        }
    }
}

#[tokio::test]
async fn ranks_by_the_table_are_those_of_the_search() {
    ranks_agree_with_the_search(Embedder::fast()).await;
}

#[tokio::test]
async fn ranks_by_the_sentence_encoder_are_those_of_it() {
    ranks_agree_with_the_search(Embedder::built_in()).await;
}

#[tokio::test]
async fn a_report_before_publishing_is_that_after_it() {
    let (world, _) = shelf(Embedder::built_in()).await;
    world.publish_all([kennels(&["the kennels of Paris"])]).await;
    let changes = world.get("/v1/changes").await.json();
    let before = report(&world, &breeds()).await;
    assert_eq!(world.get("/v1/changes").await.json(), changes);
    assert_eq!(world.get("/v1/capabilities/ListHoundBreeds").await.status, 404);
    // Another version does not compete with it.
    let other = document("ListHoundBreeds", "0.9.0", "The kennels of Paris");
    world.publish_all([other]).await;
    let instead = report(&world, &breeds()).await;
    world.publish_all([breeds()]).await;
    let after = report(&world, &breeds()).await;
    let shown = |report: &Value| {
        let texts = report["texts"].as_array().unwrap().iter();
        texts
            .map(|text| {
                // The engine rounds.
                let score = (text["score"].as_f64().unwrap() * 1e6).round();
                (text["rank"].clone(), score, text["confused_with"].clone())
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(shown(&before), shown(&after));
    assert_eq!(shown(&instead), shown(&after));
}

#[tokio::test]
async fn a_report_names_rivals_and_the_words_that_differ() {
    let world = World::new().await;
    world.publish_all([kennels(&["the kennels of Paris"])]).await;
    let report = report(&world, &breeds()).await;
    assert_eq!(report["name"], "ListHoundBreeds");
    let text = |index: usize| &report["texts"][index];
    assert_eq!((&text(0)["rank"], &text(0)["confused_with"]), (&json!(1), &Value::Null));
    assert_eq!((&text(1)["rank"], &text(1)["fits"]), (&json!(2), &json!(true)), "{report:#}");
    let rival = json!({
        "name": "ListHoundKennels", "version": "1.0.0", "rank": 1,
        "description": "Retrieves the kennels of hounds",
    });
    assert_eq!(text(1)["confused_with"], json!([rival]));
    assert_eq!(text(1)["missing_words"], json!(["kennels", "paris"]));
    assert_eq!(text(1)["distinct_words"], json!(["breeds"]));
    assert_eq!(text(2)["rank"], 1);
    assert_eq!(text(2)["missing_words"], Value::Null);
}

#[tokio::test]
async fn without_intents_the_description_is_searched() {
    let world = World::new().await;
    world.publish_all([kennels(&[])]).await;
    let found = report(&world, &kennels(&[])).await;
    let text = &found["texts"][0];
    assert_eq!(
        (&text["text"], &text["from"], &text["rank"]),
        (&json!("Retrieves the kennels of hounds"), &json!("description"), &json!(1))
    );
    assert_eq!(found["texts"].as_array().unwrap().len(), 1);
    let many = vec!["dogs"; 50];
    let many = example_document("ListDogs", "Retrieves dogs", "dogs.example", &many);
    let found = report(&world, &many).await;
    assert_eq!(found["texts"].as_array().unwrap().len(), 20);
    assert_eq!(found["texts"][19]["from"], "intent");
}

#[tokio::test]
async fn an_unfinished_document_gets_a_report() {
    let world = World::new().await;
    let draft = document("FeedCat", "1.0.0", "Gives food to the cat");
    let checksum = draft.lines().find(|line| line.starts_with("checksum")).unwrap().to_owned();
    let draft = draft.replace(&checksum, "checksum: \"<calculated_checksum>\"");
    assert_eq!(report(&world, &draft).await["texts"][0]["rank"], 1);
}

#[tokio::test]
async fn a_report_requires_the_scope_of_publishing() {
    let world = World::new().await;
    assert_eq!(world.report_findability(None, &kennels(&[])).await.code(), "A2S207");
    let runner = world.token("runner", &["execute"]).await;
    assert_eq!(world.report_findability(Some(&runner), &kennels(&[])).await.code(), "A2S209");
    let publisher = world.token("publisher", &["publish"]).await;
    assert_eq!(world.report_findability(Some(&publisher), &kennels(&[])).await.status, 200);
    let refused = world.report_findability(Some(TOKEN), "a: 1").await;
    assert_eq!(refused.code(), "A2S210");
    assert!(!refused.json()["diagnostics"].as_array().unwrap().is_empty());
}
