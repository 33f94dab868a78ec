//! A registry whose search index is on a Qdrant server: that of `A2S_TEST_QDRANT_URL`, and one of a
//! test's own where the server is stopped. Without them these tests say that they were skipped; what
//! is the same for a server that never answers is tried in any case.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use test_support::{fill_checksum, postgres_server};

use super::database::{Folder, qdrant};
use super::world::{TOKEN, World, clock, document, document_of, http_step};
use crate::bm25::document_vector;
use crate::embed::{BuiltIn, CAPABILITIES, Embedder, EmbeddingSource, index_text};
use crate::retrieval::BuiltInEmbedders;
use crate::store::indexes::IndexId;
use crate::store::{CapabilityId, ChangeSeq};
use crate::vectors::{
    self, IndexChange, IndexIdentity, IndexLocation, IndexPoint, IndexReader, PointFilter,
    QdrantConfig, VectorHit, VectorIndex,
};
use crate::{App, Secret};

/// The server that tests are told, or nothing, said aloud.
fn told() -> Option<QdrantConfig> {
    let told = qdrant();
    if told.is_none() {
        eprintln!("SKIPPED: A2S_TEST_QDRANT_URL names no server");
    }
    told
}

fn nowhere() -> QdrantConfig {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", nobody.local_addr().unwrap()).parse().unwrap();
    QdrantConfig { url, key: None, shards: None, replicas: None }
}

async fn open_at(folder: Folder, place: QdrantConfig) -> World {
    World::open_with(folder, |config| {
        config.index = IndexLocation::Qdrant(place);
        config.limits.index_wait = Duration::ZERO;
    })
    .await
}

#[tokio::test]
async fn registry_without_index_keeps_all_and_finds_later() {
    let world = open_at(Folder::with_index().await, nowhere()).await;
    world.publish_all([document("FeedCat", "1.0.0", "Gives food to the cat")]).await;
    assert_eq!(world.get("/v1/capabilities/FeedCat/1.0.0").await.status, 200);
    let missed = world.search("give food to the cat").await;
    assert_eq!((missed.status.as_u16(), missed.code().as_str()), (503, "A2S252"));
    assert_eq!(world.get("/readyz").await.status, 503);
    // Somebody who waits for a new index is told that there will be none.
    let error = world.app.reindex().await.unwrap_err();
    assert_eq!(error.code().id, "A2S252", "{error}");

    let folder = world.close().await;
    let world = World::open(folder).await;
    assert_eq!(world.search("give food to the cat").await.names(), ["FeedCat"]);
}

/// A point that means nothing.
fn point(id: i64) -> IndexPoint {
    IndexPoint {
        capability: CapabilityId(id),
        dense: None,
        sparse: document_vector(""),
        domains: vec![format!("api{}.example.com", id % 3)],
        permissions: (0..id % 3).map(|number| format!("may:{number}")).collect(),
        read_only: id % 2 == 0,
        formats: a2s::TaskFormat::ALL[..usize::try_from(id % 2).unwrap() + 1].to_vec(),
        complexity: u8::try_from(id % 3).unwrap(),
        authors: vec![format!("Author {}", id % 4)],
        version: semver::Version::new(1, id.unsigned_abs() % 5, 0),
        card: Some(format!("card {id}")),
    }
}

/// The index of an identity; that in memory has its copy in a database that is gone soon.
async fn opened(place: IndexLocation, identity: &IndexIdentity) -> Arc<dyn VectorIndex> {
    let database = Folder::with_file().config(None).database;
    let store = crate::store::open(&database).await.unwrap();
    let embedders = vec![identity.embedder.clone()];
    vectors::open(place, store, identity.store.clone(), embedders).await.unwrap()
}

/// An index of this store with the built-in embedder, over the capabilities of the embedder's tests.
async fn filled(place: IndexLocation, store: &str, id: &str) -> Arc<dyn VectorIndex> {
    let embedder = BuiltIn::new();
    let identity = IndexIdentity {
        id: IndexId(id.to_owned()),
        store: store.to_owned(),
        embedder: Embedder::built_in().id().to_owned(),
        dimensions: embedder.dimensions(),
        scale: embedder.scale(),
        format: vectors::FORMAT,
    };
    let vectors = opened(place, &identity).await;
    vectors.begin(identity).await.unwrap();
    let points = (1..).zip(CAPABILITIES).map(|(id, (name, description))| {
        let text = index_text(&EmbeddingSource { name, description, ..EmbeddingSource::default() });
        let dense = embedder.embed_parts(&text.dense);
        let point = IndexPoint { dense, sparse: document_vector(&text.sparse), ..point(id) };
        IndexChange::Upsert(Box::new(point))
    });
    vectors.stage(points.collect(), ChangeSeq(1)).await.unwrap();
    vectors.commit().await.unwrap();
    vectors
}

/// A name that no other run of a test has.
#[expect(clippy::disallowed_methods, reason = "a server may have indexes of other tests")]
fn fresh() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

#[tokio::test]
async fn a_server_finds_what_the_index_in_memory_finds() {
    let Some(config) = told() else { return };
    let store = fresh();
    let memory = filled(IndexLocation::Memory, &store, "memory").await;
    let server = filled(IndexLocation::Qdrant(config), &store, "server").await;
    let held = |held: &[&str]| Some(held.iter().map(|text| (*text).to_owned()).collect());
    let filters = [
        PointFilter::default(),
        PointFilter { domains: vec!["api1.example.com".to_owned()], ..PointFilter::default() },
        PointFilter { held_permissions: held(&["may:0"]), ..PointFilter::default() },
        PointFilter { held_permissions: held(&[]), read_only: true, ..PointFilter::default() },
        PointFilter { formats: vec![a2s::TaskFormat::ALL[1]], ..PointFilter::default() },
        PointFilter { max_complexity: Some(1), ..PointFilter::default() },
        PointFilter { author: Some("Author 2".to_owned()), ..PointFilter::default() },
        PointFilter { version: Some("^1.2".parse().unwrap()), ..PointFilter::default() },
        PointFilter { version: Some("^9".parse().unwrap()), ..PointFilter::default() },
    ];
    let (memory, server) = (memory.current_reader().unwrap(), server.current_reader().unwrap());
    let intents =
        ["pooch kinds", "Convert 20 dollars to yen, and then send a message", "xkcd 中文", "…"];
    for (intent, filter) in intents.iter().flat_map(|i| filters.iter().map(move |f| (i, f))) {
        for limit in [3, 100] {
            let ask = async |index: &Arc<dyn IndexReader>| {
                let probes = BuiltInEmbedders::fast().probes(intent);
                let probes = probes.into_iter().map(|probe| probe.query).collect();
                let mut answers = index.query(probes, filter.clone(), limit).await.unwrap();
                for found in &mut answers.found {
                    found.sort_by_key(|found| found.capability);
                }
                answers
            };
            let (one, other) = (ask(&memory).await, ask(&server).await);
            let alike = |(a, b): (&VectorHit, &VectorHit)| {
                a.capability == b.capability
                    && (a.cosine - b.cosine).abs() < 1e-4
                    && (a.bm25 - b.bm25).abs() < 1e-3
            };
            let of =
                |a: &[VectorHit], b: &[VectorHit]| a.len() == b.len() && a.iter().zip(b).all(alike);
            let same = one.found.iter().zip(&other.found).all(|(a, b)| of(a, b));
            // The server estimates it where there is a filter; its logarithm is what counts, so twice as many
            // are about as many.
            let about = one.matching_points <= 2 * other.matching_points
                && other.matching_points <= 2 * one.matching_points;
            assert!(same && about, "{intent} {filter:?} {limit}: {one:#?} {other:#?}");
        }
    }
    let ids = vec![CapabilityId(1), CapabilityId(3), CapabilityId(9999)];
    assert_eq!(memory.cards(ids.clone()).await.unwrap(), server.cards(ids).await.unwrap());
}

#[tokio::test]
async fn a_change_that_comes_late_leaves_what_is_as_of_a_later_one() {
    let Some(config) = told() else { return };
    let vectors = filled(IndexLocation::Qdrant(config), &fresh(), "late").await;
    let cards = async || {
        let ids = vec![CapabilityId(1), CapabilityId(2)];
        let cards = vectors.current_reader().unwrap().cards(ids).await.unwrap();
        cards.into_values().collect::<Vec<_>>()
    };
    let put = |id, card: &str| {
        IndexChange::Upsert(Box::new(IndexPoint { card: Some(card.to_owned()), ..point(id) }))
    };
    let remove = IndexChange::Remove(CapabilityId(1));
    for (changes, as_of, expected) in [
        (vec![put(1, "newer")], 6, &["newer", "card 2"][..]),
        (vec![put(1, "older"), put(2, "older")], 5, &["newer", "older"]),
        (vec![remove.clone()], 5, &["newer", "older"]),
        (vec![put(1, "the same time")], 6, &["the same time", "older"]),
        (vec![remove], 6, &["older"]),
    ] {
        vectors.apply(changes, ChangeSeq(as_of)).await.unwrap();
        assert_eq!(cards().await, expected);
    }
    assert_eq!(vectors.status().await.unwrap().as_of, Some(ChangeSeq(5)));
}

#[tokio::test]
async fn an_index_that_knows_of_more_than_its_database_is_replaced() {
    if told().is_none() {
        return;
    }
    let world = World::new().await;
    world.publish_all([document("FeedCat", "1.0.0", "Gives food to the cat")]).await;
    let vectors = Arc::clone(&world.app.shared.catalog.search.vectors);
    // As it is when the database is restored from a backup, and the index is not.
    let ahead = IndexChange::Upsert(Box::new(point(1)));
    vectors.apply(vec![ahead], ChangeSeq(1_000)).await.unwrap();
    let world = World::open(world.close().await).await;
    world.app.shared.catalog.search.index.wait_until_built().await;
    assert_eq!(world.metric("index_rebuilds_total"), "1");
    world.publish_all([document("FeedCat", "1.1.0", "Waters the plants")]).await;
    assert_eq!(world.search("water the plants").await.names(), ["FeedCat"]);
}

#[tokio::test]
async fn a_collection_of_other_dimensions_is_no_index_and_is_replaced() {
    let Some(config) = told() else { return };
    let world = World::new().await;
    world.publish_all([document("FeedCat", "1.0.0", "Gives food to the cat")]).await;
    let identity =
        world.app.shared.catalog.search.vectors.current_reader().unwrap().identity().clone();
    let folder = world.close().await;
    // Something puts a collection with longer vectors, which says what the old one said, in its place.
    let other = IndexIdentity {
        id: IndexId("other".to_owned()),
        dimensions: identity.dimensions + 1,
        ..identity.clone()
    };
    let vectors = opened(IndexLocation::Qdrant(config), &identity).await;
    vectors.begin(other).await.unwrap();
    vectors.commit().await.unwrap();
    let world = World::open(folder).await;
    world.app.shared.catalog.search.index.wait_until_built().await;
    assert_eq!(world.search("give food to the cat").await.names(), ["FeedCat"]);
    assert_eq!(world.metric("index_rebuilds_total"), "1");
}

#[tokio::test]
async fn hostile_documents_are_found_like_others() {
    if told().is_none() {
        return;
    }
    let world = World::new().await;
    let authors: Vec<_> =
        (0..100).map(|number| json!({"name": format!("{number} {}", "x".repeat(200))})).collect();
    let step = http_step("a", "get", "api.example.com", "'; DROP \u{0} \u{1F600} title");
    let more = json!({"authors": authors});
    let huge = document_of("FeedCat", "Gives food \u{1F408} to the \"cat\"", &json!([step]), &more);
    world.publish_all([fill_checksum(&huge)]).await;
    let many =
        (0..300).map(|n| document(&format!("Tool{n}"), "1.0.0", &format!("Waters plant {n}")));
    world.publish_all(many).await;
    assert_eq!(world.search("give food to the cat").await.names()[0], "FeedCat");
    let last = format!("99 {}", "x".repeat(200));
    let by = json!({"intent": "give food to the cat", "author": last});
    let answer = world.post("/v1/search", &by).await;
    assert!(answer.status.as_u16() != 500, "{}", answer.text());
}

/// A server of one test's own, which is stopped and started on one folder.
struct Own {
    folder: tempfile::TempDir,
    key: &'static str,
}

impl Own {
    fn script(&self, name: &str) -> Command {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/qdrant");
        let mut command = Command::new(scripts.join(name));
        command.arg(self.folder.path().join("server")).env("QDRANT_KEY", self.key);
        command
    }

    fn start(&self) -> QdrantConfig {
        let started = self.script("start").output().unwrap();
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        let url = String::from_utf8(started.stdout).unwrap().trim().parse().unwrap();
        QdrantConfig { url, key: Some(Secret::new(self.key)), shards: None, replicas: None }
    }

    fn stop(&self) {
        assert!(self.script("stop").status().unwrap().success());
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.script("stop").arg("--remove").status();
    }
}

/// Asks until the answer is this; a server that comes back is noticed soon.
async fn until_first(world: &World, intent: &str, expected: &str) {
    let found = async {
        loop {
            let answer = world.search(intent).await;
            if answer.status == 200 && answer.names().first().is_some_and(|name| name == expected) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), found).await.expect(expected);
}

#[tokio::test]
async fn backend_outage_loses_no_acknowledged_write() {
    if told().is_none() {
        return;
    }
    let own = Own { folder: tempfile::tempdir().unwrap(), key: "the right key" };
    let config = own.start();
    own.stop();
    // Away at the start.
    let world = open_at(Folder::with_index().await, config.clone()).await;
    world.publish_all([document("FeedCat", "1.0.0", "Gives food to the cat")]).await;
    assert_eq!(world.search("give food to the cat").await.status, 503);
    own.start();
    until_first(&world, "give food to the cat", "FeedCat").await;

    // Killed while it is in use.
    own.stop();
    let missed = world.search("give food to the cat").await;
    assert_eq!((missed.status.as_u16(), missed.code().as_str()), (503, "A2S252"));
    world.publish_all([document("WaterPlants", "1.0.0", "Waters the plants")]).await;
    own.start();
    until_first(&world, "water the plants", "WaterPlants").await;
    until_first(&world, "give food to the cat", "FeedCat").await;
    // What was there was used again.
    assert_eq!(world.metric("index_rebuilds_total"), "1");

    // Everything that it had is gone.
    own.stop();
    std::fs::remove_dir_all(own.folder.path().join("server/storage")).unwrap();
    own.start();
    until_first(&world, "water the plants", "WaterPlants").await;
    assert_eq!(world.metric("index_rebuilds_total"), "2");

    // With another key nobody gets in, and it is not told.
    let folder = world.close().await;
    for key in [Some("another key"), None] {
        let mut wrong = folder.config(Some(TOKEN));
        let key = key.map(Secret::new);
        wrong.index = IndexLocation::Qdrant(QdrantConfig { key, ..config.clone() });
        let mut metrics = prometheus_client::registry::Registry::default();
        let error = App::open(wrong, clock(), &mut metrics).await.unwrap_err();
        assert_eq!(error.code().id, "A2S265");
        assert!(!format!("{error:?}").contains("another key"), "{error:?}");
    }
}

#[tokio::test]
async fn two_registries_share_database_and_index() {
    let (Some(config), Some(_)) = (told(), postgres_server()) else {
        eprintln!("SKIPPED: this needs A2S_TEST_QDRANT_URL and A2S_TEST_POSTGRES_URL");
        return;
    };
    let one = open_at(Folder::new().await, config.clone()).await;
    one.publish_all([document("FeedCat", "1.0.0", "Gives food to the cat")]).await;
    until_first(&one, "give food to the cat", "FeedCat").await;
    let mut metrics = prometheus_client::registry::Registry::default();
    let app = App::open(one.folder.config(Some(TOKEN)), clock(), &mut metrics).await.unwrap();
    let other = World::around(app, Folder::with_file());
    until_first(&other, "give food to the cat", "FeedCat").await;
    other.publish_all([document("WaterPlants", "1.0.0", "Waters the plants")]).await;
    until_first(&one, "water the plants", "WaterPlants").await;
    // A new index in place of the old one is noticed, and followed.
    assert_eq!(other.app.reindex().await.unwrap(), 2);
    one.publish_all([document("PaintWall", "1.0.0", "Paints a wall blue")]).await;
    for world in [&one, &other] {
        until_first(world, "paint a wall", "PaintWall").await;
        until_first(world, "water the plants", "WaterPlants").await;
    }
    other.app.close().await;
}
