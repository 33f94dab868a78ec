//! The index on a Qdrant server or cluster, which several registries can share.
//!
//! An index is a collection. Queries and changes use an alias, one for each embedder, so that a new
//! collection replaces an old one in one step for all registries, and a query is never compared with
//! vectors of another embedder. The metadata of a collection describes it. The last commit wins: it removes
//! the other collections, and their registries notice that.
//!
//! The server acknowledges a change when it is visible and in the server's own log, so a flush is not
//! needed. A change without acknowledgement may still be applied, and late; so each point records the last
//! change of the store that it was made with, and a point of an older change never replaces it.

mod collection_names;
mod connection;
mod filter;
mod messages;
mod search;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use qdrant_client::qdrant::alias_operations::Action;
use qdrant_client::qdrant::points_selector::PointsSelectorOneOf;
use qdrant_client::qdrant::{
    AliasOperations, ChangeAliases, Condition, CountPoints, CreateAlias,
    CreateFieldIndexCollection, DeleteAlias, DeleteCollection, DeletePoints, Filter,
    GetCollectionInfoRequest, ListAliasesRequest, ListCollectionsRequest, PointStruct,
    PointsOperationResponse, PointsSelector, UpdateResult, UpdateStatus, UpsertPoints,
};
use tokio::sync::Mutex;

use self::collection_names::CollectionNames;
use self::connection::{
    CHANGE_CALL_TIMEOUT, COLLECTION_CALL_TIMEOUT, QUERY_CALL_TIMEOUT, QdrantConnection, call_within,
};
use self::filter::{FIELDS, PayloadType};
use self::messages::{AS_OF, failed, point_id};
use self::search::QdrantReader;
use super::{Error, IndexChange, IndexIdentity, IndexState, QdrantConfig};
use crate::store::{CapabilityId, ChangeSeq};

/// Points of one request, and about their bytes.
const MAX_POINTS: usize = 64;
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// An index that answers.
#[derive(Debug)]
struct LiveCollection {
    alias: String,
    collection: String,
    identity: IndexIdentity,
}

#[derive(Debug)]
pub(super) struct QdrantIndex {
    connection: QdrantConnection,
    config: QdrantConfig,
    store: String,
    names: CollectionNames,
    /// The embedders whose indexes can be used, the configured one first.
    embedders: Vec<String>,
    /// The index that answers, or why none does.
    live: RwLock<Result<Arc<LiveCollection>, Error>>,
    /// The index that is being built, and its collection.
    next: Mutex<Option<(String, IndexIdentity)>>,
}

impl QdrantIndex {
    /// Finds out whether the server can be used. One that is away may come back: that is no error.
    pub(super) async fn open(
        config: QdrantConfig,
        store: String,
        embedders: Vec<String>,
    ) -> Result<Self, Error> {
        let qdrant = Self {
            connection: QdrantConnection::new(&config)?,
            config,
            names: CollectionNames::for_store(&store),
            store,
            embedders,
            live: RwLock::new(Err(Error::NotReady)),
            next: Mutex::default(),
        };
        let first = async {
            qdrant.connection.check().await?;
            super::VectorIndex::refresh(&qdrant).await
        };
        match first.await {
            Ok(()) => {}
            Err(error @ Error::Unavailable(_)) => {
                tracing::warn!(%error, "the search index is not available; searches fail until it is available again");
                qdrant.set_live(Err(error));
            }
            Err(error) => return Err(error),
        }
        Ok(qdrant)
    }

    fn live(&self) -> Result<Arc<LiveCollection>, Error> {
        // It is replaced whole or not at all, so a panic elsewhere harms nothing.
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        live.as_ref().map(Arc::clone).map_err(Error::duplicate)
    }

    fn set_live(&self, live: Result<LiveCollection, Error>) {
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = live.map(Arc::new);
    }

    async fn change(
        &self,
        collection: &str,
        changes: Vec<IndexChange>,
        as_of: ChangeSeq,
    ) -> Result<(), Error> {
        let mut batch = ChangeBatch::default();
        for change in changes {
            let (bytes, is_removal) = match &change {
                IndexChange::Upsert(point) => (messages::estimate_bytes(point), false),
                IndexChange::Remove(_) => (0, true),
            };
            if !batch.has_room_for(bytes, is_removal) {
                self.send(collection, std::mem::take(&mut batch), as_of).await?;
            }
            batch.bytes += bytes;
            match change {
                IndexChange::Upsert(point) => batch.points.push(messages::to_point(*point, as_of)?),
                IndexChange::Remove(capability) => batch.removed.push(capability),
            }
        }
        self.send(collection, batch, as_of).await
    }

    /// Sends changes, which do not replace points of a later change.
    async fn send(
        &self,
        collection: &str,
        batch: ChangeBatch,
        as_of: ChangeSeq,
    ) -> Result<(), Error> {
        let ChangeBatch { points, removed, .. } = batch;
        let mut client = self.connection.points();
        if !points.is_empty() {
            let upsert = UpsertPoints {
                collection_name: collection.to_owned(),
                wait: Some(true),
                points,
                update_filter: Some(messages::not_newer_than(as_of)),
                ..UpsertPoints::default()
            };
            check_completed(&call_within(CHANGE_CALL_TIMEOUT, client.upsert(upsert)).await?)?;
        }
        if !removed.is_empty() {
            let those = Condition::has_id(removed.into_iter().map(point_id));
            let delete = DeletePoints {
                collection_name: collection.to_owned(),
                wait: Some(true),
                points: Some(PointsSelector {
                    points_selector_one_of: Some(PointsSelectorOneOf::Filter(Filter {
                        must: vec![those],
                        ..messages::not_newer_than(as_of)
                    })),
                }),
                ..DeletePoints::default()
            };
            check_completed(&call_within(CHANGE_CALL_TIMEOUT, client.delete(delete)).await?)?;
        }
        Ok(())
    }

    /// Removes a collection, if there is one.
    async fn remove(&self, collection: &str) -> Result<(), Error> {
        let delete = DeleteCollection { collection_name: collection.to_owned(), timeout: None };
        match call_within(COLLECTION_CALL_TIMEOUT, self.connection.collections().delete(delete))
            .await
        {
            Ok(_) | Err(Error::NotReady) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes every collection of an alias except one.
    async fn remove_others(&self, alias: &str, kept: &str) -> Result<(), Error> {
        let list = self.connection.collections();
        let all = call_within(COLLECTION_CALL_TIMEOUT, { list }.list(ListCollectionsRequest {}))
            .await?
            .collections;
        for other in all.into_iter().map(|collection| collection.name) {
            if CollectionNames::belongs_to(alias, &other) && other != kept {
                self.remove(&other).await?;
            }
        }
        Ok(())
    }

    /// The index that a collection is, when it can answer.
    async fn read_identity(&self, collection: &str) -> Result<Option<IndexIdentity>, Error> {
        let request = GetCollectionInfoRequest { collection_name: collection.to_owned() };
        match call_within(QUERY_CALL_TIMEOUT, self.connection.collections().get(request)).await {
            Ok(answer) => {
                Ok(answer.result.and_then(|info| messages::to_identity(&info, &self.store)))
            }
            Err(Error::NotReady) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Finds the index that answers.
    async fn find_live(&self) -> Result<(), Error> {
        let mut client = self.connection.collections();
        let aliases = call_within(QUERY_CALL_TIMEOUT, client.list_aliases(ListAliasesRequest {}))
            .await?
            .aliases;
        let mut behind: BTreeMap<String, String> =
            aliases.into_iter().map(|alias| (alias.alias_name, alias.collection_name)).collect();
        let names: Vec<_> = behind.keys().cloned().collect();
        for alias in self.names.order(&names, &self.embedders) {
            let Some(collection) = behind.remove(alias) else { continue };
            if self.live().is_ok_and(|live| live.alias == alias && live.collection == collection) {
                return Ok(());
            }
            if let Some(identity) = self.read_identity(&collection).await? {
                self.set_live(Ok(LiveCollection { alias: alias.to_owned(), collection, identity }));
                return Ok(());
            }
            tracing::warn!(alias, collection, "the collection is not a usable search index");
        }
        self.set_live(Err(Error::NotReady));
        Ok(())
    }
}

/// Changes that go in one request.
#[derive(Debug, Default)]
struct ChangeBatch {
    points: Vec<PointStruct>,
    removed: Vec<CapabilityId>,
    bytes: usize,
}

impl ChangeBatch {
    /// Returns true when the batch has room for a change of `bytes` bytes. Changes stay in their order.
    fn has_room_for(&self, bytes: usize, is_removal: bool) -> bool {
        let (alike, unlike) = match is_removal {
            true => (self.removed.len(), self.points.len()),
            false => (self.points.len(), self.removed.len()),
        };
        unlike == 0 && alike < MAX_POINTS && (alike == 0 || self.bytes + bytes <= MAX_BATCH_BYTES)
    }
}

#[async_trait]
impl super::VectorIndex for QdrantIndex {
    fn current_reader(&self) -> Result<Arc<dyn super::IndexReader>, Error> {
        Ok(Arc::new(QdrantReader { connection: self.connection.clone(), live: self.live()? }))
    }

    async fn refresh(&self) -> Result<(), Error> {
        let found = self.find_live().await;
        // An index that is known answers again when the server does.
        if let Err(error) = &found
            && self.live().is_err()
        {
            self.set_live(Err(error.duplicate()));
        }
        found
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn apply(&self, changes: Vec<IndexChange>, as_of: ChangeSeq) -> Result<(), Error> {
        let live = self.live()?;
        self.change(&live.alias, changes, as_of).await
    }

    async fn flush(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn begin(&self, identity: IndexIdentity) -> Result<(), Error> {
        let mut next = self.next.lock().await;
        if let Some((abandoned, _)) = next.take() {
            self.remove(&abandoned).await?;
        }
        let alias = self.names.alias(&identity.embedder);
        let name = CollectionNames::collection(&alias, &identity.id);
        let create = messages::to_collection(&name, &identity, &self.config)?;
        call_within(COLLECTION_CALL_TIMEOUT, self.connection.collections().create(create)).await?;
        for (field, kind) in FIELDS.into_iter().chain([(AS_OF, PayloadType::Integer)]) {
            let index = CreateFieldIndexCollection {
                collection_name: name.clone(),
                wait: Some(true),
                field_name: field.to_owned(),
                field_type: Some(messages::to_field_type(kind).into()),
                ..CreateFieldIndexCollection::default()
            };
            check_completed(
                &call_within(
                    COLLECTION_CALL_TIMEOUT,
                    self.connection.points().create_field_index(index),
                )
                .await?,
            )?;
        }
        *next = Some((name, identity));
        Ok(())
    }

    async fn stage(&self, changes: Vec<IndexChange>, as_of: ChangeSeq) -> Result<(), Error> {
        let next = self.next.lock().await;
        let (name, _) =
            next.as_ref().ok_or_else(|| failed("no build of the index is in progress"))?;
        self.change(name, changes, as_of).await
    }

    async fn commit(&self) -> Result<(), Error> {
        let next = self.next.lock().await.take();
        let (collection, identity) =
            next.ok_or_else(|| failed("no build of the index is in progress"))?;
        let alias = self.names.alias(&identity.embedder);
        let delete = Action::DeleteAlias(DeleteAlias { alias_name: alias.clone() });
        let create = Action::CreateAlias(CreateAlias {
            collection_name: collection.clone(),
            alias_name: alias.clone(),
        });
        // Both at once, for everybody. An alias that is not there is as good as deleted.
        let actions = [delete, create].map(|action| AliasOperations { action: Some(action) });
        let change = ChangeAliases { actions: actions.into(), timeout: None };
        call_within(COLLECTION_CALL_TIMEOUT, self.connection.collections().update_aliases(change))
            .await?;
        let live =
            LiveCollection { alias: alias.clone(), collection: collection.clone(), identity };
        self.set_live(Ok(live));
        if let Err(error) = self.remove_others(&alias, &collection).await {
            // They do no harm, and the next new index tries again.
            tracing::warn!(%error, "old search indexes could not be removed");
        }
        Ok(())
    }

    async fn status(&self) -> Result<IndexState, Error> {
        const NOTHING: IndexState = IndexState { points: None, fresh: 0, as_of: None };
        let Ok(live) = self.live() else { return Ok(NOTHING) };
        let count = CountPoints {
            collection_name: live.alias.clone(),
            exact: Some(true),
            ..CountPoints::default()
        };
        let counted =
            match call_within(QUERY_CALL_TIMEOUT, self.connection.points().count(count)).await {
                Ok(counted) => counted.result.map_or(0, |result| result.count),
                Err(Error::NotReady) => return Ok(NOTHING),
                Err(error) => return Err(error),
            };
        let request = GetCollectionInfoRequest { collection_name: live.alias.clone() };
        let info = call_within(QUERY_CALL_TIMEOUT, self.connection.collections().get(request))
            .await?
            .result;
        // Its words are indexed as soon as a point is there, and counted; the rest are in a graph.
        let indexed = info.and_then(|info| info.indexed_vectors_count).unwrap_or(0);
        let in_graph = indexed.saturating_sub(counted);
        let to_count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let fresh = to_count(counted.saturating_sub(in_graph));
        let last = messages::newest_point(&live.alias);
        let last =
            call_within(QUERY_CALL_TIMEOUT, self.connection.points().scroll(last)).await?.result;
        let as_of =
            last.first().and_then(|point| point.payload.get(AS_OF)?.as_integer()).map(ChangeSeq);
        Ok(IndexState { points: Some(to_count(counted)), fresh, as_of })
    }
}

/// Checks that a change is visible.
fn check_completed(answer: &PointsOperationResponse) -> Result<(), Error> {
    let status = answer.result.as_ref().map(UpdateResult::status);
    match status {
        Some(UpdateStatus::Completed) => Ok(()),
        other => Err(Error::Unavailable(format!(
            "the Qdrant server did not complete a change: {other:?}"
        ))),
    }
}
