//! Embedders that may be slow, fail or change: what users notice of it.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::database::Folder;
use super::endpoint::{DIMENSIONS, KEY, Mood, SOON, StandIn};
use super::world::{Answer, World, document, document_for};
use crate::embed::{EmbedDeadline, EmbedPurpose, Embedder, Error, PromptPrefixes, VectorEncoding};

fn shelf() -> Vec<String> {
    vec![
        document_for("ListDogBreeds", "1.0.0", "Retrieve a list of dog breeds", "dogapi.dog", &[]),
        document("GetForecast", "1.0.0", "Weather of the next days"),
        document("ConvertAmount", "1.0.0", "Change money from one currency to another"),
        document("Publish", "1.0.0", "Send a short tweet"),
    ]
}

/// Finds the dogs by meaning alone: no word of it is in the document.
const BY_MEANING: &str = "pooch kinds";
/// The same for the built-in embedder without its sentence encoder.
const BY_MEANING_OF_THE_TABLE: &str = "hound varieties";
/// Finds them by words.
const BY_WORDS: &str = "dog breeds";

impl World {
    async fn with(embedder: Embedder) -> Self {
        Self::reopen(Folder::new().await, embedder).await
    }

    /// The same with the index in memory, whatever the environment says.
    async fn with_files(embedder: Embedder) -> Self {
        Self::reopen(Folder::with_index().await, embedder).await
    }

    async fn reopen(folder: Folder, embedder: Embedder) -> Self {
        Self::open_with(folder, |config| {
            config.embedder = embedder;
            config.query_timeout = Duration::from_millis(300);
        })
        .await
    }

    async fn built(&self) {
        let built = self.app.shared.catalog.search.index.wait_until_built();
        tokio::time::timeout(SOON, built).await.unwrap();
    }

    async fn index(&self) -> Value {
        self.get("/v1/index").await.json()
    }

    async fn first(&self, intent: &str) -> (Option<String>, Value) {
        let answer = self.search(intent).await;
        let name = answer.names().first().cloned();
        (name, answer.json()["metadata"]["degraded"].clone())
    }

    #[track_caller]
    fn assert_first(&self, intent: &str, name: &str) -> impl Future<Output = ()> {
        let place = std::panic::Location::caller();
        async move {
            let found = self.first(intent).await;
            assert_eq!(found, (Some(name.to_owned()), Value::Null), "{intent} at {place}");
        }
    }
}

fn degraded(answer: &Answer) -> String {
    answer.json()["metadata"]["degraded"].as_str().unwrap_or_default().to_owned()
}

/// Tries again and again, without the clock, until something is so.
pub(crate) async fn until(what: impl AsyncFn() -> bool) {
    let tries = async {
        while !what().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, tries).await.expect("it comes about");
}

fn ids(world: &World) -> [String; 2] {
    let meaning = &world.app.shared.catalog.search.embedding_service;
    [meaning.configured().id().to_owned(), meaning.built_in().id().to_owned()]
}

#[tokio::test]
async fn an_endpoint_gives_vectors_for_documents_and_queries() {
    let endpoint = StandIn::start().await;
    let world = World::with(endpoint.embedder("mini")).await;
    world.built().await;
    world.publish_all(shelf()).await;
    world.assert_first(BY_MEANING, "ListDogBreeds").await;
    world.assert_first("will it rain?", "GetForecast").await;
    let [wanted, _] = ids(&world);
    let expected = json!({"embedder": wanted, "dimensions": DIMENSIONS, "points": 4, "fresh": 0, "building": null});
    assert_eq!(world.index().await, expected);
    for request in endpoint.requests() {
        assert_eq!(request["model"], "mini");
        assert_eq!(request["encoding_format"], "float");
        assert_eq!(request.get("dimensions"), None);
    }
    // The next page of an answer costs nothing.
    let before = endpoint.requests().len();
    world.assert_first(BY_MEANING, "ListDogBreeds").await;
    assert_eq!(endpoint.requests().len(), before);
}

#[tokio::test]
async fn nothing_is_embedded_twice() {
    let endpoint = StandIn::start().await;
    let world = World::with_files(endpoint.embedder("mini")).await;
    world.built().await;
    world.publish_all(shelf()).await;
    let asked = endpoint.texts();
    assert_eq!(world.app.reindex().await.unwrap(), 4);
    assert_eq!(endpoint.texts(), asked);
    let from = |from| world.metric(&format!("embedded_texts_total{{from=\"{from}\"}}"));
    let paid: usize = from("embedder").parse().unwrap();
    // One more was sent to learn how long vectors are.
    assert_eq!(paid + 1, asked.len());
    assert!(from("cache").parse::<usize>().unwrap() >= paid);

    // Nor after the index is lost, nor by another process.
    let folder = world.close().await;
    folder.forget_indexes().await;
    let world = World::reopen(folder, endpoint.embedder("mini")).await;
    world.built().await;
    let again = endpoint.texts();
    assert_eq!(again[asked.len()..], ["dimensions"]);
    world.assert_first(BY_MEANING, "ListDogBreeds").await;

    // Another model knows nothing of it.
    let before = endpoint.texts().len();
    let folder = world.close().await;
    let world = World::reopen(folder, endpoint.embedder("other")).await;
    world.built().await;
    assert_eq!(endpoint.texts().len(), before + paid + 1);
}

#[tokio::test]
async fn a_search_is_answered_by_words_when_the_endpoint_is_not() {
    let endpoint = StandIn::start().await;
    let world = World::with(endpoint.embedder("mini")).await;
    world.built().await;
    world.publish_all(shelf()).await;
    let moods = [
        Mood::Silent,
        Mood::Says(500, None),
        Mood::Says(401, None),
        Mood::Says(400, None),
        Mood::Longer,
        Mood::Body("<html>"),
        Mood::Body(r#"{"data": []}"#),
    ];
    for (number, mood) in (0..).zip(moods) {
        endpoint.set(Mood::Good);
        world.assert_first(&format!("pooch number {number}"), "ListDogBreeds").await;
        endpoint.set(mood);
        // Other words each time, because answers of before are remembered.
        let answer = world.search(&format!("{BY_WORDS} number {number}")).await;
        let told = degraded(&answer);
        if mood == Mood::Says(400, None) {
            // It refuses this text: then it has no meaning, as a text of punctuation has none.
            assert_eq!(told, "");
        } else {
            assert_eq!(told, "found by words only: the embedder does not respond", "{mood:?}");
        }
        assert_eq!(answer.names(), ["ListDogBreeds"], "{mood:?}");
        assert_eq!(world.get("/readyz").await.status, 204);
    }
    let failing: usize = world.metric("degraded_searches_total").parse().unwrap();
    assert_eq!(failing, moods.len() - 1);
}

#[tokio::test]
async fn failing_embedding_endpoint_is_left_alone() {
    let endpoint = StandIn::start().await;
    let world = World::with(endpoint.embedder("mini")).await;
    world.built().await;
    world.publish_all(shelf()).await;
    let before = endpoint.requests().len();
    endpoint.set(Mood::Says(503, None));
    for number in 0..10 {
        let answer = world.search(&format!("dog breeds {number}")).await;
        assert_eq!(answer.names(), ["ListDogBreeds"]);
        assert_ne!(degraded(&answer), "");
    }
    assert_eq!(endpoint.requests().len(), before + 3);
}

#[tokio::test]
async fn a_registry_starts_while_its_endpoint_is_down() {
    let endpoint = StandIn::start().await;
    endpoint.set(Mood::Says(503, None));
    // There was none before: the built-in embedder stands in.
    let world = World::with(endpoint.embedder("mini")).await;
    world.publish_all(shelf()).await;
    world.assert_first(BY_MEANING_OF_THE_TABLE, "ListDogBreeds").await;
    assert_eq!(world.get("/readyz").await.status, 204);
    let [wanted, built_in] = ids(&world);
    until(async || world.index().await["building"]["waiting"] == true).await;
    let index = world.index().await;
    assert_eq!((&index["embedder"], &index["points"]), (&json!(built_in), &json!(4)));
    assert_eq!(index["building"]["embedder"], wanted);
    // Whoever asks for a new index is told; the build waits on.
    let refused = world.app.reindex().await.unwrap_err();
    assert_eq!(refused.code().id, "A2S253");

    endpoint.set(Mood::Good);
    world.built().await;
    assert_eq!(world.index().await["embedder"], wanted);
    world.assert_first(BY_MEANING, "ListDogBreeds").await;

    // There is one from before: it answers by words until the endpoint is back.
    let folder = world.close().await;
    endpoint.set(Mood::Says(503, None));
    let world = World::reopen(folder, endpoint.embedder("mini")).await;
    let answer = world.search(BY_WORDS).await;
    assert_eq!(answer.names().first().map(String::as_str), Some("ListDogBreeds"));
    assert_ne!(degraded(&answer), "");
    assert_eq!(world.index().await["embedder"], wanted);
}

#[tokio::test]
async fn the_old_index_answers_while_the_new_one_is_built() {
    let endpoint = StandIn::start().await;
    let world = World::new().await;
    world.publish_all(shelf()).await;
    let folder = world.close().await;

    // One request is answered, that for the length of vectors.
    endpoint.allow(1);
    let world = World::reopen(folder, endpoint.embedder("mini")).await;
    let [wanted, built_in] = ids(&world);
    until(async || endpoint.requests().len() == 2).await;
    world.assert_first(BY_MEANING_OF_THE_TABLE, "ListDogBreeds").await;
    assert_eq!(world.get("/readyz").await.status, 204);
    let building = json!({"embedder": wanted, "done": 0, "total": 4, "waiting": false});
    let index = world.index().await;
    assert_eq!((&index["embedder"], &index["building"]), (&json!(built_in), &building));
    assert_eq!(world.metric("index_build_size"), "4");

    // What is published meanwhile is found at once, and is in the new index, too.
    world.publish_all([document("WalkTheDog", "1.0.0", "Takes somebody out for a walk")]).await;
    world.assert_first("go out walking", "WalkTheDog").await;
    endpoint.allow(1000);
    world.built().await;
    let index = world.index().await;
    assert_eq!((&index["embedder"], &index["points"]), (&json!(wanted), &json!(5)));
    assert_eq!(world.metric("index_build_size"), "0");
    world.assert_first("walk", "WalkTheDog").await;

    // Back again: the index was made by an embedder that is gone, so words have to do for a moment.
    let folder = world.close().await;
    let world = World::open(folder).await;
    world.built().await;
    world.assert_first(BY_MEANING, "ListDogBreeds").await;
    assert_eq!(world.index().await["embedder"], built_in);
}

#[tokio::test]
async fn crash_during_index_rebuild_loses_nothing() {
    let endpoint = StandIn::start().await;
    let many: Vec<_> = (0..130)
        .map(|number| {
            document(&format!("Tool{number}"), "1.0.0", &format!("Does the thing number {number}"))
        })
        .chain(shelf())
        .collect();
    let world = World::with_index().await;
    world.publish_all(many).await;
    let folder = world.close().await;

    // The length of vectors, two for what cosines are worth, and those of the first batch of
    // capabilities.
    endpoint.allow(6);
    let world = World::reopen(folder, endpoint.embedder("mini")).await;
    until(async || world.index().await["building"]["done"].as_u64() > Some(0)).await;
    let crashed = world.folder.copy().await;
    let embedded: usize = world.metric("embedded_texts_total{from=\"embedder\"}").parse().unwrap();
    assert!(embedded > 0);
    let paid: Vec<_> = endpoint.texts().into_iter().take(embedded + 1).collect();
    drop(world);

    endpoint.allow(0);
    let before = endpoint.texts().len();
    let world = World::reopen(crashed, endpoint.embedder("mini")).await;
    world.assert_first(BY_WORDS, "ListDogBreeds").await;
    endpoint.allow(1000);
    world.built().await;
    assert_eq!(world.index().await["points"], 134);
    world.assert_first(BY_WORDS, "ListDogBreeds").await;
    let (probe, paid) = paid.split_first().unwrap();
    assert_eq!(probe, "dimensions");
    let after = &endpoint.texts()[before..];
    assert!(paid.iter().all(|text| !after.contains(text)));
}

#[tokio::test]
async fn version_published_without_endpoint_gets_vector_later() {
    let endpoint = StandIn::start().await;
    let world = World::with_files(endpoint.embedder("mini")).await;
    world.built().await;
    endpoint.set(Mood::Says(503, None));
    world.publish_all(shelf()).await;
    let answer = world.search(BY_WORDS).await;
    assert_eq!(answer.names(), ["ListDogBreeds"], "{}", answer.text());

    // It gets there without another change, and after a restart, too, though all is on disk.
    let crashed = world.folder.copy().await;
    let stopped = world.close().await;
    endpoint.set(Mood::Good);
    for folder in [crashed, stopped] {
        let world = World::reopen(folder, endpoint.embedder("mini")).await;
        until(async || {
            world.first(BY_MEANING).await == (Some("ListDogBreeds".to_owned()), Value::Null)
        })
        .await;
    }
}

#[tokio::test]
async fn missing_vectors_are_filled_when_endpoint_returns() {
    let endpoint = StandIn::start().await;
    let world = World::with(endpoint.embedder("mini")).await;
    world.built().await;
    // Only this one request fails.
    endpoint.set_next(&[Mood::Says(503, None)]);
    world.publish_all(shelf()).await;
    until(async || {
        world.first(BY_MEANING).await == (Some("ListDogBreeds".to_owned()), Value::Null)
    })
    .await;
}

#[tokio::test]
async fn requests_are_bounded_repeated_and_spaced_as_asked() {
    let endpoint = StandIn::start().await;
    let config = |change: &dyn Fn(&mut crate::embed::EndpointConfig)| {
        let mut config = endpoint.config("mini");
        change(&mut config);
        Embedder::endpoint(config).unwrap()
    };
    let embedder = config(&|_| {});
    let texts: Vec<_> = (0..150).map(|number| format!("dog number {number}")).collect();
    // It fails twice, and asks for a pause of no time; then it is good.
    endpoint.set_next(&[Mood::Says(429, Some(0)), Mood::Body("{}"), Mood::Good]);
    let vectors = embedder.embed(texts, EmbedPurpose::Document, EmbedDeadline::Long).await.unwrap();
    assert!(vectors.len() == 150 && vectors.iter().all(Option::is_some));
    let sizes: Vec<_> =
        endpoint.requests().iter().map(|r| r["input"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [64, 64, 64, 64, 22]);

    // Large texts go in smaller requests, and only their beginning.
    let before = endpoint.requests().len();
    let large = vec!["dog ".repeat(100_000); 40];
    embedder.embed(large, EmbedPurpose::Document, EmbedDeadline::Long).await.unwrap();
    for request in &endpoint.requests()[before..] {
        assert!(request.to_string().len() < 140_000);
    }
    assert_eq!(endpoint.requests().len(), before + 3);

    // Empty texts are not sent, and come back in their places.
    let before = endpoint.texts().len();
    let texts = ["", "dog", "  \n"].map(str::to_owned).to_vec();
    let vectors = embedder.embed(texts, EmbedPurpose::Document, EmbedDeadline::Long).await.unwrap();
    let present: Vec<_> = vectors.iter().map(Option::is_some).collect();
    assert_eq!(present, [false, true, false]);
    assert_eq!(endpoint.texts()[before..], ["dog"]);

    // Prefixes, Base64 and the length of vectors are sent as configured.
    let embedder = config(&|config| {
        config.encoding = VectorEncoding::Base64;
        config.dimensions = Some(DIMENSIONS);
        config.prefixes = PromptPrefixes {
            query: Some("query: ".to_owned()),
            document: Some("passage: ".to_owned()),
        };
    });
    assert_eq!(embedder.dimensions().await, Ok(DIMENSIONS));
    for (purpose, sent) in
        [(EmbedPurpose::Query, "query: dog"), (EmbedPurpose::Document, "passage: dog")]
    {
        let vectors =
            embedder.embed(vec!["dog".to_owned()], purpose, EmbedDeadline::Long).await.unwrap();
        assert!(vectors[0].as_ref().unwrap()[0] > 0.99);
        let request = endpoint.requests().last().cloned().unwrap();
        assert_eq!(request["input"], json!([sent]));
        assert_eq!(request["encoding_format"], "base64");
        assert_eq!(request["dimensions"], DIMENSIONS);
    }
}

#[tokio::test]
async fn neither_a_redirect_nor_an_endless_answer_is_followed() {
    let endpoint = StandIn::start().await;
    let embedder = endpoint.embedder("mini");
    let refused = async || {
        let asked = vec!["dog".to_owned()];
        let answer = embedder.embed(asked, EmbedPurpose::Query, EmbedDeadline::Short(SOON)).await;
        answer.unwrap_err().to_string()
    };
    endpoint.set_next(&[Mood::Moved]);
    assert!(refused().await.contains("307"));
    assert_eq!(endpoint.requests().len(), 1);
    let large: &'static str = Box::leak(" ".repeat(17 * 1024 * 1024).into_boxed_str());
    endpoint.set(Mood::Body(large));
    assert!(refused().await.contains("larger than"));
}

#[tokio::test]
async fn vectors_of_another_length_are_refused() {
    let endpoint = StandIn::start().await;
    let world = World::with(endpoint.embedder("mini")).await;
    world.built().await;
    world.publish_all(shelf()).await;
    let folder = world.close().await;
    // The model has changed behind its name, and this process has not seen another vector of it.
    endpoint.set(Mood::Longer);
    let world = World::reopen(folder, endpoint.embedder("mini")).await;
    let answer = world.search(BY_WORDS).await;
    assert_eq!(answer.names(), ["ListDogBreeds"]);
    assert_ne!(degraded(&answer), "");
}

#[tokio::test]
async fn one_text_that_is_refused_costs_no_other_its_vector() {
    let endpoint = StandIn::start().await;
    let embedder = endpoint.embedder("mini");
    assert_eq!(embedder.dimensions().await, Ok(DIMENSIONS));
    endpoint.set(Mood::Dislikes("secret"));
    let mut texts: Vec<_> = (0..20).map(|number| format!("dog {number}")).collect();
    texts[13] = "a secret dog".to_owned();
    // Shortened, this one is taken.
    texts[17] = format!("{} secret", "dog ".repeat(500));
    let vectors = embedder.embed(texts, EmbedPurpose::Document, EmbedDeadline::Long).await.unwrap();
    let missing: Vec<_> = (0..20).filter(|place| vectors[*place].is_none()).collect();
    assert_eq!(missing, [13]);

    // When it never took any text, it is not the text.
    let fresh = endpoint.embedder("fresh");
    let refused = fresh
        .embed(vec!["a secret dog".to_owned()], EmbedPurpose::Document, EmbedDeadline::Long)
        .await
        .unwrap_err();
    assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
}

#[tokio::test]
async fn nothing_that_is_told_has_the_key_in_it() {
    let endpoint = StandIn::start().await;
    let embedder = endpoint.embedder("mini");
    assert!(!format!("{embedder:?} {}", embedder.id()).contains(KEY));
    for mood in [Mood::Says(403, None), Mood::Body("the key of the endpoint")] {
        endpoint.set(mood);
        let refused = embedder
            .embed(vec!["dog".to_owned()], EmbedPurpose::Query, EmbedDeadline::Short(SOON))
            .await
            .unwrap_err();
        assert!(!refused.to_string().contains(KEY), "{refused}");
    }
}

#[tokio::test]
async fn a_local_model_judges_by_its_own_vectors() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/local");
    let local = || Embedder::local(&folder, PromptPrefixes::default()).unwrap();
    let world = World::new().await;
    world.publish_all(shelf()).await;
    let same = world.close().await;
    let world = World::reopen(same, local()).await;
    world.built().await;
    let index = world.index().await;
    assert_eq!((&index["embedder"], &index["dimensions"]), (&json!(local().id()), &json!(16)));
    // It knows nothing and finds most texts alike, so that with it nothing fits, near as it all is.
    let answer = world.search("Send a short tweet").await;
    assert_eq!(answer.names(), [""; 0]);
    let nearest = &answer.json()["metadata"]["nearest"][0];
    assert!(nearest["similarity"].as_f64() > Some(0.3), "{nearest}");
    assert_eq!(degraded(&answer), "");
    assert_eq!(world.app.reindex().await.unwrap(), 4);
    let embedded = world.metric("embedded_texts_total{from=\"embedder\"}");
    assert_eq!(world.metric("embedded_texts_total{from=\"cache\"}"), embedded);
}
