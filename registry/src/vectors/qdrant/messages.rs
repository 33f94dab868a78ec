//! Messages of Qdrant's API: indexes as collections, points, filters, queries. Pure.

use qdrant_client::Payload;
use qdrant_client::qdrant::quantization_config::Quantization;
use qdrant_client::qdrant::query::Variant;
use qdrant_client::qdrant::vectors::VectorsOptions;
use qdrant_client::qdrant::vectors_config::Config;
use qdrant_client::qdrant::{
    CollectionInfo, Condition, CreateCollection, Direction, Distance, FieldType, Filter, Modifier,
    NamedVectors, OrderBy, PointId, PointStruct, QuantizationConfig, QuantizationSearchParams,
    QuantizationType, Query, QueryPoints, Range, ScalarQuantization, ScrollPoints, SearchParams,
    SparseVectorConfig, SparseVectorParams, Value, Vector, VectorInput, VectorParams,
    VectorParamsMap, Vectors, VectorsConfig,
};

use super::super::{Error, IndexIdentity, IndexPoint};
use super::QdrantConfig;
use super::filter::{PayloadType, payload};
use crate::bm25::SparseVector;
use crate::store::{CapabilityId, ChangeSeq};

pub(super) const DENSE: &str = "dense";
const SPARSE: &str = "sparse";
/// The metadata key of a collection's properties.
const IDENTITY: &str = "a2s";
/// The payload field with the last change that a point knows.
pub(super) const AS_OF: &str = "as_of";
/// The oversampling factor. The server finds this many times the requested number of points by short
/// vectors, and then compares them by their full vectors.
const OVERSAMPLING: f64 = 2.0;

/// Builds the request that creates a collection for an index.
pub(super) fn to_collection(
    name: &str,
    identity: &IndexIdentity,
    config: &QdrantConfig,
) -> Result<CreateCollection, Error> {
    let dense = VectorParams {
        size: identity.dimensions as u64,
        // Of vectors of length one it is the cosine.
        distance: Distance::Dot.into(),
        // The first comparison uses one byte a number.
        quantization_config: Some(QuantizationConfig {
            quantization: Some(Quantization::Scalar(ScalarQuantization {
                r#type: QuantizationType::Int8.into(),
                ..ScalarQuantization::default()
            })),
        }),
        ..VectorParams::default()
    };
    let sparse = SparseVectorParams { index: None, modifier: Some(Modifier::Idf.into()) };
    let identity_json = serde_json::to_string(identity).map_err(failed)?;
    Ok(CreateCollection {
        collection_name: name.to_owned(),
        vectors_config: Some(VectorsConfig {
            config: Some(Config::ParamsMap(VectorParamsMap {
                map: [(DENSE.to_owned(), dense)].into(),
            })),
        }),
        sparse_vectors_config: Some(SparseVectorConfig {
            map: [(SPARSE.to_owned(), sparse)].into(),
        }),
        shard_number: config.shards,
        replication_factor: config.replicas,
        metadata: [(IDENTITY.to_owned(), Value::from(identity_json))].into(),
        ..CreateCollection::default()
    })
}

/// The properties of a collection from its metadata; none when it is not an index of this store and format,
/// or its configuration does not match.
pub(super) fn to_identity(info: &CollectionInfo, store: &str) -> Option<IndexIdentity> {
    let config = info.config.as_ref()?;
    let identity_json = config.metadata.get(IDENTITY)?.as_str()?;
    let identity: IndexIdentity = serde_json::from_str(identity_json).ok()?;
    if identity.store != store || identity.format != super::super::FORMAT {
        return None;
    }
    let params = config.params.as_ref()?;
    let Some(Config::ParamsMap(dense)) = params.vectors_config.as_ref()?.config.as_ref() else {
        return None;
    };
    let dense = dense.map.get(DENSE)?;
    let sparse = params.sparse_vectors_config.as_ref()?.map.get(SPARSE)?;
    let is_sound = dense.size == identity.dimensions as u64
        && dense.distance() == Distance::Dot
        && sparse.modifier() == Modifier::Idf;
    is_sound.then_some(identity)
}

pub(super) fn to_field_type(kind: PayloadType) -> FieldType {
    match kind {
        PayloadType::Keyword => FieldType::Keyword,
        PayloadType::Bool => FieldType::Bool,
        PayloadType::Integer => FieldType::Integer,
    }
}

pub(super) fn to_point(point: IndexPoint, as_of: ChangeSeq) -> Result<PointStruct, Error> {
    let mut payload = Payload::try_from(payload(&point)).map_err(failed)?;
    payload.insert(AS_OF, as_of.0);
    let mut vectors: Vec<(String, Vector)> = Vec::new();
    if let Some(dense) = point.dense {
        vectors.push((DENSE.to_owned(), Vector::new_dense(dense)));
    }
    if !point.sparse.is_empty() {
        let SparseVector { indices, values } = point.sparse;
        vectors.push((SPARSE.to_owned(), Vector::new_sparse(indices, values)));
    }
    let vectors = NamedVectors { vectors: vectors.into_iter().collect() };
    Ok(PointStruct {
        id: Some(point_id(point.capability)),
        payload: payload.into(),
        vectors: Some(Vectors { vectors_options: Some(VectorsOptions::Vectors(vectors)) }),
    })
}

/// Estimates the size of a point in a request, in bytes.
pub(super) fn estimate_bytes(point: &IndexPoint) -> usize {
    let texts = [&point.domains, &point.permissions, &point.authors];
    let texts: usize = texts.into_iter().flatten().map(|text| text.len() + 8).sum();
    point.dense.as_ref().map_or(0, Vec::len) * 4
        + point.sparse.indices.len() * 8
        + point.card.as_ref().map_or(0, String::len)
        + texts
        + 256
}

/// A filter for points without a later change.
pub(super) fn not_newer_than(as_of: ChangeSeq) -> Filter {
    // A range is of numbers that are exact up to 2^53: there are fewer changes.
    let later = Range { gt: Some(as_of.0 as f64), ..Range::default() };
    Filter::must_not([Condition::range(AS_OF, later)])
}

/// Builds the request for the point with the last change.
pub(super) fn newest_point(collection: &str) -> ScrollPoints {
    ScrollPoints {
        collection_name: collection.to_owned(),
        limit: Some(1),
        with_payload: Some(vec![AS_OF].into()),
        with_vectors: Some(false.into()),
        order_by: Some(OrderBy {
            key: AS_OF.to_owned(),
            direction: Some(Direction::Desc.into()),
            start_from: None,
        }),
        ..ScrollPoints::default()
    }
}

pub(super) fn any_of(field: &str, values: Vec<String>) -> Condition {
    Condition::matches(field, values)
}

pub(super) fn is(field: &str, value: bool) -> Condition {
    Condition::matches(field, value)
}

pub(super) fn at_most(field: &str, most: u8) -> Condition {
    Condition::range(field, Range { lte: Some(f64::from(most)), ..Range::default() })
}

/// Builds the query for the nearest points by cosine.
pub(super) fn nearest(vector: Vec<f32>) -> QueryPoints {
    let quantization = QuantizationSearchParams {
        ignore: None,
        rescore: Some(true),
        oversampling: Some(OVERSAMPLING),
    };
    let params = SearchParams { quantization: Some(quantization), ..SearchParams::default() };
    let query = query(VectorInput::new_dense(vector), DENSE);
    QueryPoints { params: Some(params), ..query }
}

/// Builds the query for the best points by BM25.
pub(super) fn best(vector: SparseVector) -> QueryPoints {
    query(VectorInput::new_sparse(vector.indices, vector.values), SPARSE)
}

fn query(vector: VectorInput, using: &str) -> QueryPoints {
    QueryPoints {
        query: Some(Query { variant: Some(Variant::Nearest(vector)) }),
        using: Some(using.to_owned()),
        with_payload: Some(false.into()),
        with_vectors: Some(false.into()),
        ..QueryPoints::default()
    }
}

pub(super) fn point_id(capability: CapabilityId) -> PointId {
    capability.0.unsigned_abs().into()
}

pub(super) fn to_capability(id: Option<PointId>) -> Result<CapabilityId, Error> {
    use qdrant_client::qdrant::point_id::PointIdOptions;
    match id.and_then(|id| id.point_id_options) {
        Some(PointIdOptions::Num(id)) => i64::try_from(id).map(CapabilityId).map_err(failed),
        Some(PointIdOptions::Uuid(_)) | None => Err(failed("a foreign point")),
    }
}

pub(super) fn failed(error: impl std::fmt::Display) -> Error {
    Error::Failed(error.to_string())
}
