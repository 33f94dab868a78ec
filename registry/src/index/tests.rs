//! What becomes of an index that another registry changes, too.

use std::collections::BTreeMap;
use std::sync::Mutex;

use a2s_api::Caller;
use async_trait::async_trait;
use jiff::Timestamp;

use super::*;
use crate::documents::CapabilityFacts;
use crate::store::lifecycle::AuditActor;
use crate::store::{self, NewVersion, PublicationResult};
use crate::tests::database::Folder;
use crate::tests::embedders::until;
use crate::tests::endpoint::{Mood, SOON, StandIn};
use crate::tests::world::document;
use crate::vectors::{
    IndexIdentity, IndexPoint, IndexReader, IndexState, PointFilter, QueryResults, SearchQuery,
};

/// An index on a server.
#[derive(Debug, Default)]
struct Server {
    live: Mutex<Option<IndexIdentity>>,
    next: Mutex<Option<IndexIdentity>>,
    points: Mutex<BTreeMap<CapabilityId, IndexPoint>>,
    /// How often somebody has looked which index answers.
    looks: watch::Sender<u32>,
}

impl Server {
    fn put(&self, point: IndexPoint) {
        self.points.lock().unwrap().insert(point.capability, point);
    }

    /// The point of the capability that came last.
    fn last(&self) -> IndexPoint {
        self.points.lock().unwrap().last_key_value().unwrap().1.clone()
    }

    /// Waits until a look that begins now is over.
    async fn looked(&self) {
        let mut looks = self.looks.subscribe();
        let before = *looks.borrow();
        tokio::time::timeout(SOON, looks.wait_for(|looks| *looks > before + 1))
            .await
            .unwrap()
            .unwrap();
    }
}

#[async_trait]
impl VectorIndex for Server {
    fn current_reader(&self) -> Result<Arc<dyn IndexReader>, vectors::Error> {
        let identity = self.live.lock().unwrap().clone().ok_or(vectors::Error::NotReady)?;
        Ok(Arc::new(Reader(identity)))
    }

    async fn refresh(&self) -> Result<(), vectors::Error> {
        self.looks.send_modify(|looks| *looks += 1);
        Ok(())
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn apply(&self, changes: Vec<IndexChange>, _: ChangeSeq) -> Result<(), vectors::Error> {
        for change in changes {
            match change {
                IndexChange::Upsert(point) => self.put(*point),
                IndexChange::Remove(id) => drop(self.points.lock().unwrap().remove(&id)),
            }
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), vectors::Error> {
        Ok(())
    }

    async fn begin(&self, identity: IndexIdentity) -> Result<(), vectors::Error> {
        *self.next.lock().unwrap() = Some(identity);
        Ok(())
    }

    async fn stage(
        &self,
        changes: Vec<IndexChange>,
        as_of: ChangeSeq,
    ) -> Result<(), vectors::Error> {
        self.apply(changes, as_of).await
    }

    async fn commit(&self) -> Result<(), vectors::Error> {
        *self.live.lock().unwrap() = self.next.lock().unwrap().take();
        Ok(())
    }

    async fn status(&self) -> Result<IndexState, vectors::Error> {
        let points = Some(self.points.lock().unwrap().len());
        Ok(IndexState { points, fresh: 0, as_of: None })
    }
}

/// An index that nobody searches in.
#[derive(Debug)]
struct Reader(IndexIdentity);

#[async_trait]
impl IndexReader for Reader {
    fn identity(&self) -> &IndexIdentity {
        &self.0
    }

    async fn query(
        &self,
        _: Vec<SearchQuery>,
        _: PointFilter,
        _: usize,
    ) -> Result<QueryResults, vectors::Error> {
        Err(vectors::Error::NotReady)
    }

    async fn cards(
        &self,
        _: Vec<CapabilityId>,
    ) -> Result<BTreeMap<CapabilityId, String>, vectors::Error> {
        Err(vectors::Error::NotReady)
    }
}

fn start(
    store: &Arc<dyn RegistryStore>,
    server: &Arc<Server>,
    embedder: Embedder,
) -> IndexerHandle {
    let metrics = Metrics::register(&mut prometheus_client::registry::Registry::default());
    let documents = DocumentReader::new(Arc::clone(store), metrics.damaged.clone());
    let meaning = EmbeddingService::new(
        embedder,
        crate::QUERY_TIMEOUT,
        false,
        Arc::clone(store),
        metrics.clone(),
    )
    .unwrap();
    IndexerHandle::start(
        Arc::clone(store),
        Arc::new(LiveVersionCache::new(Arc::clone(store))),
        Arc::new(documents),
        Arc::clone(server) as Arc<dyn VectorIndex>,
        Arc::new(meaning),
        metrics,
        "the store".to_owned(),
    )
}

async fn publish(store: &Arc<dyn RegistryStore>, name: &str, version: &str) -> ChangeSeq {
    let source = document(name, version, "Walks the dog");
    let compiled = a2s::compile(source.as_bytes()).document.unwrap();
    let facts = CapabilityFacts::from_document(&compiled);
    let new = NewVersion {
        relations: facts.to_relation_rows(),
        name: facts.name,
        version: facts.version,
        digest: compiled.digest(),
        source,
        complexity: facts.complexity,
        permissions: 0,
    };
    let by = AuditActor::from_caller(&Caller::owner(), Timestamp::UNIX_EPOCH);
    match store.publish(&new, &by).await.unwrap() {
        PublicationResult::Created(seq) => seq,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn late_vector_keeps_newer_changes() {
    let folder = Folder::with_file();
    let store = store::open(&folder.config(None).database).await.unwrap();
    let (endpoint, server) = (StandIn::start().await, Arc::default());
    let index = start(&store, &server, endpoint.embedder("mini"));
    index.wait_until_built().await;
    let id = server.current_reader().unwrap().identity().id.clone();

    for (name, is_followed_first) in [("WalkDog", true), ("FeedDog", false)] {
        // The embedder fails once, and does not answer the second time.
        endpoint.allow(1);
        endpoint.set_next(&[Mood::Says(503, None)]);
        let before = endpoint.requests().len();
        let first = publish(&store, name, "1.0.0").await;
        assert!(index.wait_for(first, SOON).await);
        until(async || endpoint.requests().len() == before + 2).await;
        let by_words = server.last();
        assert_eq!(by_words.dense, None);

        // Another registry publishes, and its embedder answers. It says so ahead, so that nobody
        // does its work before it can.
        let second = ChangeSeq(first.0 + 1);
        store.advance_index(&id, second).await.unwrap();
        server.looked().await;
        let newer = IndexPoint {
            version: semver::Version::new(2, 0, 0),
            dense: Some(vec![1.0]),
            ..by_words
        };
        server.put(newer.clone());
        assert_eq!(publish(&store, name, "2.0.0").await, second);
        if is_followed_first {
            assert!(index.wait_for(second, SOON).await);
        }
        endpoint.allow(1_000);
        assert!(index.wait(SOON, |progress| progress.applied == second).await);
        // The index counts as being on disk up to here only when nothing is late any more.
        let last = publish(&store, &format!("{name}Again"), "1.0.0").await;
        assert!(index.wait_for(last, SOON).await);
        until(async || store.load_indexed_seq(&id).await.unwrap() == Some(last)).await;
        let points = server.points.lock().unwrap().clone();
        assert_eq!(points.get(&newer.capability), Some(&newer), "{name}");
    }
    index.close().await;
    store.close().await;
}
