//! The index on a Qdrant server or cluster, which several registries can share.
//!
//! An index is a collection. Queries and changes go by an alias, one for each embedder, so that a new
//! collection takes the place of an old one in one step for everybody, and no query meets vectors of
//! another embedder. What a collection is, is written beside it; whoever commits last wins, and the
//! collection of whoever lost is gone, which that registry notices.
//!
//! The server acknowledges a change when it can be seen and is in its own log, so nothing has to be
//! flushed. One that was not acknowledged may be made all the same, and late; so each point knows the
//! last change of the store that it was made with, and none as of an older one takes its place.

mod collection_names;
mod connection;
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

use self::collection_names::Names;
pub use self::connection::QdrantConfig;
use self::connection::{FOR_CHANGES, FOR_COLLECTIONS, FOR_QUERIES, Link, within};
use self::messages::{AS_OF, failed, point_id};
use self::search::Reader;
use super::filter::{FIELDS, Kind};
use super::{Change, Error, Identity, Status};
use crate::store::{CapabilityId, Seq};

/// Points of one request, and about their bytes.
const MOST_POINTS: usize = 64;
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// An index that answers.
#[derive(Debug)]
struct Live {
    alias: String,
    collection: String,
    identity: Identity,
}

#[derive(Debug)]
pub(super) struct Qdrant {
    link: Link,
    config: QdrantConfig,
    store: String,
    names: Names,
    /// The embedders whose indexes are of use, the wanted one first.
    embedders: Vec<String>,
    /// The index that answers, or why none does.
    live: RwLock<Result<Arc<Live>, Error>>,
    /// The index that is being built, and its collection.
    next: Mutex<Option<(String, Identity)>>,
}

impl Qdrant {
    /// Finds out whether the server can be used. One that is away may come back: that is no error.
    pub(super) async fn open(
        config: QdrantConfig,
        store: String,
        embedders: Vec<String>,
    ) -> Result<Self, Error> {
        let qdrant = Self {
            link: Link::new(&config)?,
            config,
            names: Names::of(&store),
            store,
            embedders,
            live: RwLock::new(Err(Error::NotReady)),
            next: Mutex::default(),
        };
        let first = async {
            qdrant.link.check().await?;
            super::Vectors::refresh(&qdrant).await
        };
        match first.await {
            Ok(()) => {}
            Err(error @ Error::Away(_)) => {
                tracing::warn!(%error, "the search index is away; searches fail until it is back");
                qdrant.answer_from(Err(error));
            }
            Err(error) => return Err(error),
        }
        Ok(qdrant)
    }

    fn live(&self) -> Result<Arc<Live>, Error> {
        // It is replaced whole or not at all, so a panic elsewhere harms nothing.
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        live.as_ref().map(Arc::clone).map_err(Error::again)
    }

    fn answer_from(&self, live: Result<Live, Error>) {
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = live.map(Arc::new);
    }

    async fn change(
        &self,
        collection: &str,
        changes: Vec<Change>,
        as_of: Seq,
    ) -> Result<(), Error> {
        let mut batch = Batch::default();
        for change in changes {
            let (bytes, is_removal) = match &change {
                Change::Upsert(point) => (messages::length(point), false),
                Change::Remove(_) => (0, true),
            };
            if !batch.takes(bytes, is_removal) {
                self.send(collection, std::mem::take(&mut batch), as_of).await?;
            }
            batch.bytes += bytes;
            match change {
                Change::Upsert(point) => batch.points.push(messages::to_point(*point, as_of)?),
                Change::Remove(capability) => batch.removed.push(capability),
            }
        }
        self.send(collection, batch, as_of).await
    }

    /// Sends changes, which leave alone what is as of a later one.
    async fn send(&self, collection: &str, batch: Batch, as_of: Seq) -> Result<(), Error> {
        let Batch { points, removed, .. } = batch;
        let mut client = self.link.points();
        if !points.is_empty() {
            let upsert = UpsertPoints {
                collection_name: collection.to_owned(),
                wait: Some(true),
                points,
                update_filter: Some(messages::older(as_of)),
                ..UpsertPoints::default()
            };
            is_done(&within(FOR_CHANGES, client.upsert(upsert)).await?)?;
        }
        if !removed.is_empty() {
            let those = Condition::has_id(removed.into_iter().map(point_id));
            let delete = DeletePoints {
                collection_name: collection.to_owned(),
                wait: Some(true),
                points: Some(PointsSelector {
                    points_selector_one_of: Some(PointsSelectorOneOf::Filter(Filter {
                        must: vec![those],
                        ..messages::older(as_of)
                    })),
                }),
                ..DeletePoints::default()
            };
            is_done(&within(FOR_CHANGES, client.delete(delete)).await?)?;
        }
        Ok(())
    }

    /// Removes a collection, if there is one.
    async fn remove(&self, collection: &str) -> Result<(), Error> {
        let delete = DeleteCollection { collection_name: collection.to_owned(), timeout: None };
        match within(FOR_COLLECTIONS, self.link.collections().delete(delete)).await {
            Ok(_) | Err(Error::NotReady) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes every collection behind an alias but one.
    async fn remove_others(&self, alias: &str, kept: &str) -> Result<(), Error> {
        let list = self.link.collections();
        let all =
            within(FOR_COLLECTIONS, { list }.list(ListCollectionsRequest {})).await?.collections;
        for other in all.into_iter().map(|collection| collection.name) {
            if Names::is_behind(alias, &other) && other != kept {
                self.remove(&other).await?;
            }
        }
        Ok(())
    }

    /// The index that a collection is, when it can answer.
    async fn identify(&self, collection: &str) -> Result<Option<Identity>, Error> {
        let request = GetCollectionInfoRequest { collection_name: collection.to_owned() };
        match within(FOR_QUERIES, self.link.collections().get(request)).await {
            Ok(answer) => {
                Ok(answer.result.and_then(|info| messages::to_identity(&info, &self.store)))
            }
            Err(Error::NotReady) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Finds the index that answers.
    async fn find(&self) -> Result<(), Error> {
        let mut client = self.link.collections();
        let aliases =
            within(FOR_QUERIES, client.list_aliases(ListAliasesRequest {})).await?.aliases;
        let mut behind: BTreeMap<String, String> =
            aliases.into_iter().map(|alias| (alias.alias_name, alias.collection_name)).collect();
        let names: Vec<_> = behind.keys().cloned().collect();
        for alias in self.names.order(&names, &self.embedders) {
            let Some(collection) = behind.remove(alias) else { continue };
            if self.live().is_ok_and(|live| live.alias == alias && live.collection == collection) {
                return Ok(());
            }
            if let Some(identity) = self.identify(&collection).await? {
                self.answer_from(Ok(Live { alias: alias.to_owned(), collection, identity }));
                return Ok(());
            }
            tracing::warn!(alias, collection, "this is no search index that can be used");
        }
        self.answer_from(Err(Error::NotReady));
        Ok(())
    }
}

/// Changes that go in one request.
#[derive(Debug, Default)]
struct Batch {
    points: Vec<PointStruct>,
    removed: Vec<CapabilityId>,
    bytes: usize,
}

impl Batch {
    /// Whether it has room for one more of so many bytes. Changes stay in their order.
    fn takes(&self, bytes: usize, is_removal: bool) -> bool {
        let (alike, unlike) = match is_removal {
            true => (self.removed.len(), self.points.len()),
            false => (self.points.len(), self.removed.len()),
        };
        unlike == 0 && alike < MOST_POINTS && (alike == 0 || self.bytes + bytes <= MOST_BYTES)
    }
}

#[async_trait]
impl super::Vectors for Qdrant {
    fn answering(&self) -> Result<Arc<dyn super::Answering>, Error> {
        Ok(Arc::new(Reader { link: self.link.clone(), live: self.live()? }))
    }

    async fn refresh(&self) -> Result<(), Error> {
        let found = self.find().await;
        // An index that is known answers again when the server does.
        if let Err(error) = &found
            && self.live().is_err()
        {
            self.answer_from(Err(error.again()));
        }
        found
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn apply(&self, changes: Vec<Change>, as_of: Seq) -> Result<(), Error> {
        let live = self.live()?;
        self.change(&live.alias, changes, as_of).await
    }

    async fn flush(&self) -> Result<bool, Error> {
        Ok(true)
    }

    async fn begin(&self, identity: Identity) -> Result<(), Error> {
        let mut next = self.next.lock().await;
        if let Some((abandoned, _)) = next.take() {
            self.remove(&abandoned).await?;
        }
        let alias = self.names.alias(&identity.embedder);
        let name = Names::collection(&alias, &identity.id);
        let create = messages::to_collection(&name, &identity, &self.config)?;
        within(FOR_COLLECTIONS, self.link.collections().create(create)).await?;
        for (field, kind) in FIELDS.into_iter().chain([(AS_OF, Kind::Integer)]) {
            let index = CreateFieldIndexCollection {
                collection_name: name.clone(),
                wait: Some(true),
                field_name: field.to_owned(),
                field_type: Some(messages::to_field_type(kind).into()),
                ..CreateFieldIndexCollection::default()
            };
            is_done(&within(FOR_COLLECTIONS, self.link.points().create_field_index(index)).await?)?;
        }
        *next = Some((name, identity));
        Ok(())
    }

    async fn stage(&self, changes: Vec<Change>, as_of: Seq) -> Result<(), Error> {
        let next = self.next.lock().await;
        let (name, _) = next.as_ref().ok_or_else(|| failed("nothing is being built"))?;
        self.change(name, changes, as_of).await
    }

    async fn commit(&self) -> Result<(), Error> {
        let next = self.next.lock().await.take();
        let (collection, identity) = next.ok_or_else(|| failed("nothing is being built"))?;
        let alias = self.names.alias(&identity.embedder);
        let delete = Action::DeleteAlias(DeleteAlias { alias_name: alias.clone() });
        let create = Action::CreateAlias(CreateAlias {
            collection_name: collection.clone(),
            alias_name: alias.clone(),
        });
        // Both at once, for everybody. An alias that is not there is as good as deleted.
        let actions = [delete, create].map(|action| AliasOperations { action: Some(action) });
        let change = ChangeAliases { actions: actions.into(), timeout: None };
        within(FOR_COLLECTIONS, self.link.collections().update_aliases(change)).await?;
        let live = Live { alias: alias.clone(), collection: collection.clone(), identity };
        self.answer_from(Ok(live));
        if let Err(error) = self.remove_others(&alias, &collection).await {
            // They are in nobody's way, and the next new index tries again.
            tracing::warn!(%error, "old search indexes could not be removed");
        }
        Ok(())
    }

    async fn status(&self) -> Result<Status, Error> {
        const NOTHING: Status = Status { points: None, fresh: 0, is_worn: false, as_of: None };
        let Ok(live) = self.live() else { return Ok(NOTHING) };
        let count = CountPoints {
            collection_name: live.alias.clone(),
            exact: Some(true),
            ..CountPoints::default()
        };
        let counted = match within(FOR_QUERIES, self.link.points().count(count)).await {
            Ok(counted) => counted.result.map_or(0, |result| result.count),
            Err(Error::NotReady) => return Ok(NOTHING),
            Err(error) => return Err(error),
        };
        let request = GetCollectionInfoRequest { collection_name: live.alias.clone() };
        let info = within(FOR_QUERIES, self.link.collections().get(request)).await?.result;
        // Its words are indexed as soon as a point is there, and counted; the rest are in a graph.
        let indexed = info.and_then(|info| info.indexed_vectors_count).unwrap_or(0);
        let in_graph = indexed.saturating_sub(counted);
        let to_count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let fresh = to_count(counted.saturating_sub(in_graph));
        let last = messages::last(&live.alias);
        let last = within(FOR_QUERIES, self.link.points().scroll(last)).await?.result;
        let as_of = last.first().and_then(|point| point.payload.get(AS_OF)?.as_integer()).map(Seq);
        Ok(Status { points: Some(to_count(counted)), fresh, is_worn: false, as_of })
    }

    async fn close(&self) {}
}

/// Whether a change can be seen.
fn is_done(answer: &PointsOperationResponse) -> Result<(), Error> {
    let status = answer.result.as_ref().map(UpdateResult::status);
    match status {
        Some(UpdateStatus::Completed) => Ok(()),
        other => Err(Error::Away(format!("the Qdrant server has not made a change: {other:?}"))),
    }
}
