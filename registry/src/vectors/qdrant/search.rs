//! Queries: every list of every probe in one request, and what they lack in a second one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use qdrant_client::qdrant::facet_value;
use qdrant_client::qdrant::{
    Condition, CountPoints, FacetCounts, GetPoints, QueryBatchPoints, QueryPoints, ScoredPoint,
};

use super::super::{
    Error, IndexIdentity, IndexReader, PointFilter, QueryResults, SearchQuery, merge_hits,
};
use super::LiveCollection;
use super::connection::{PointsService, QUERY_CALL_TIMEOUT, QdrantConnection, call_within};
use super::filter::{CARD, FieldCondition, FieldTest, MAX_VALUES, to_field_conditions};
use super::messages::{self, failed, point_id, to_capability};
use crate::store::CapabilityId;

/// A reader of an index on a server.
#[derive(Debug)]
pub(super) struct QdrantReader {
    pub(super) connection: QdrantConnection,
    pub(super) live: Arc<LiveCollection>,
}

#[async_trait]
impl IndexReader for QdrantReader {
    fn identity(&self) -> &IndexIdentity {
        &self.live.identity
    }

    async fn query(
        &self,
        probes: Vec<SearchQuery>,
        filter: PointFilter,
        limit: usize,
    ) -> Result<QueryResults, Error> {
        let Some(conditions) = self.conditions(&filter).await? else {
            return Ok(QueryResults { found: vec![Vec::new(); probes.len()], matching_points: 0 });
        };
        let filter =
            (!conditions.is_empty()).then(|| qdrant_client::qdrant::Filter::must(conditions));
        let bounded = |query: QueryPoints| QueryPoints {
            filter: filter.clone(),
            limit: Some(limit as u64),
            ..query
        };
        let mut queries = Vec::new();
        for probe in &probes {
            queries.extend(probe.dense.clone().map(messages::nearest).map(bounded));
            if !probe.sparse.is_empty() {
                queries.push(bounded(messages::best(probe.sparse.clone())));
            }
        }
        let (lists, matching_points) =
            futures::future::try_join(self.run_queries(queries), self.count(filter.clone()))
                .await?;
        let mut lists = lists.into_iter();
        let lists: Vec<_> = probes
            .iter()
            .map(|probe| {
                let nearest = probe.dense.as_ref().and_then(|_| lists.next()).unwrap_or_default();
                let best = if probe.sparse.is_empty() { None } else { lists.next() };
                (nearest, best.unwrap_or_default())
            })
            .collect();
        let far = self.find_missing_cosines(&probes, &lists).await?;
        let merged = lists.into_iter().zip(far).map(|((nearest, best), far)| {
            let near = nearest.into_iter().chain(far);
            merge_hits(near.map(to_pair), best.into_iter().map(to_pair))
        });
        Ok(QueryResults { found: merged.collect::<Result<_, _>>()?, matching_points })
    }

    async fn cards(
        &self,
        capabilities: Vec<CapabilityId>,
    ) -> Result<BTreeMap<CapabilityId, String>, Error> {
        let request = GetPoints {
            collection_name: self.live.alias.clone(),
            ids: capabilities.into_iter().map(point_id).collect(),
            with_payload: Some(vec![CARD].into()),
            with_vectors: Some(false.into()),
            ..GetPoints::default()
        };
        let found = self
            .retry_once(request, |mut client, request| async move { client.get(request).await })
            .await?;
        let cards = found.result.into_iter().filter_map(|mut point| {
            let card = point.payload.remove(CARD)?.as_str()?.to_owned();
            Some(to_capability(point.id).map(|id| (id, card)))
        });
        cards.collect()
    }
}

impl QdrantReader {
    /// Sends a request, and repeats it once when the connection broke, for example because the server was
    /// restarted.
    async fn retry_once<Q: Clone, T, F>(
        &self,
        request: Q,
        ask: impl Fn(PointsService, Q) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    {
        let asked = async {
            match ask(self.connection.points(), request.clone()).await {
                Err(status) if status.code() == tonic::Code::Unavailable => {
                    ask(self.connection.points(), request).await
                }
                answer => answer,
            }
        };
        call_within(QUERY_CALL_TIMEOUT, asked).await
    }

    /// Converts a filter to the server's form; `None` when no point can match.
    async fn conditions(&self, filter: &PointFilter) -> Result<Option<Vec<Condition>>, Error> {
        let mut conditions = Vec::new();
        for demand in to_field_conditions(filter) {
            conditions.push(match demand {
                FieldCondition::AnyOf(field, values) => messages::any_of(field, values),
                FieldCondition::Is(field, value) => messages::is(field, value),
                FieldCondition::AtMost(field, most) => messages::at_most(field, most),
                FieldCondition::Matching(field, passes) => {
                    let values = self.matching_values(field, &passes).await?;
                    if values.is_empty() {
                        return Ok(None);
                    }
                    messages::any_of(field, values)
                }
            });
        }
        Ok(Some(conditions))
    }

    /// Returns the values of a field that pass the test.
    async fn matching_values(
        &self,
        field: &str,
        passes: &FieldTest<'_>,
    ) -> Result<Vec<String>, Error> {
        let request = FacetCounts {
            collection_name: self.live.alias.clone(),
            key: field.to_owned(),
            limit: Some(MAX_VALUES as u64),
            exact: Some(false),
            ..FacetCounts::default()
        };
        let hits = self
            .retry_once(request, |mut client, request| async move { client.facet(request).await })
            .await?
            .hits;
        let values = hits.into_iter().filter_map(|hit| match hit.value?.variant? {
            facet_value::Variant::StringValue(value) => Some(value),
            facet_value::Variant::IntegerValue(_) | facet_value::Variant::BoolValue(_) => None,
        });
        Ok(values.filter(|value| passes(value)).collect())
    }

    async fn count(&self, filter: Option<qdrant_client::qdrant::Filter>) -> Result<usize, Error> {
        let request = CountPoints {
            collection_name: self.live.alias.clone(),
            filter,
            exact: Some(false),
            ..CountPoints::default()
        };
        let counted = self
            .retry_once(request, |mut client, request| async move { client.count(request).await })
            .await?;
        let count = counted.result.map_or(0, |result| result.count);
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// The hits of each query, in one request.
    async fn run_queries(&self, queries: Vec<QueryPoints>) -> Result<Vec<Vec<ScoredPoint>>, Error> {
        if queries.is_empty() {
            return Ok(Vec::new());
        }
        let asked = queries.len();
        let collection_name = self.live.alias.clone();
        let query_points = queries
            .into_iter()
            .map(|query| QueryPoints { collection_name: collection_name.clone(), ..query });
        let request = QueryBatchPoints {
            collection_name: collection_name.clone(),
            query_points: query_points.collect(),
            timeout: Some(QUERY_CALL_TIMEOUT.as_secs()),
            ..QueryBatchPoints::default()
        };
        let answer =
            self.retry_once(request, |mut client, request| async move {
                client.query_batch(request).await
            })
            .await?;
        let lists: Vec<_> = answer.result.into_iter().map(|list| list.result).collect();
        if lists.len() != asked {
            return Err(failed(format!("{asked} queries have {} responses", lists.len())));
        }
        Ok(lists)
    }

    /// Returns the cosines of the points that each probe found by its words alone.
    async fn find_missing_cosines(
        &self,
        probes: &[SearchQuery],
        lists: &[(Vec<ScoredPoint>, Vec<ScoredPoint>)],
    ) -> Result<Vec<Vec<ScoredPoint>>, Error> {
        let mut queries = Vec::new();
        let mut places = Vec::new();
        for (place, (probe, (nearest, best))) in probes.iter().zip(lists).enumerate() {
            let Some(dense) = probe.dense.clone() else { continue };
            let near = nearest
                .iter()
                .map(|point| to_capability(point.id.clone()))
                .collect::<Result<BTreeSet<_>, _>>()?;
            let mut others = Vec::new();
            for point in best {
                let capability = to_capability(point.id.clone())?;
                if !near.contains(&capability) {
                    others.push(point_id(capability));
                }
            }
            if !others.is_empty() {
                let limit = Some(others.len() as u64);
                let those = qdrant_client::qdrant::Filter::must([Condition::has_id(others)]);
                queries.push(QueryPoints {
                    filter: Some(those),
                    limit,
                    ..messages::nearest(dense)
                });
                places.push(place);
            }
        }
        let mut far = vec![Vec::new(); probes.len()];
        for (place, list) in places.into_iter().zip(self.run_queries(queries).await?) {
            far[place] = list;
        }
        Ok(far)
    }
}

/// Converts a found point to its capability and score.
fn to_pair(point: ScoredPoint) -> Result<(CapabilityId, f32), Error> {
    Ok((to_capability(point.id)?, point.score))
}
