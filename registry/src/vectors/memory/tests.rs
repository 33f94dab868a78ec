use std::collections::BTreeSet;

use proptest::prelude::*;
use semver::Version;

use super::*;
use crate::bm25::{SparseVector, rarity};
use crate::embed::{BuiltIn, cosine};
use crate::store::indexes::IndexId;
use crate::tests::database::Folder;
use crate::vectors::{IndexPoint, VectorHit};

const DIMENSIONS: usize = 11;

fn vector() -> impl Strategy<Value = Option<Vec<f32>>> {
    let number = prop_oneof![Just(0.0), Just(0.5), -1.0_f32..1.0];
    proptest::option::weighted(0.9, proptest::collection::vec(number, DIMENSIONS))
}

fn terms() -> impl Strategy<Value = SparseVector> {
    proptest::collection::btree_map(0_u32..20, 0.1_f32..2.0, 0..6).prop_map(|terms| {
        let (indices, values) = terms.into_iter().unzip();
        SparseVector { indices, values }
    })
}

fn point(capability: i64) -> IndexPoint {
    IndexPoint {
        capability: CapabilityId(capability),
        dense: Some(vec![0.0; DIMENSIONS]),
        sparse: SparseVector::default(),
        domains: Vec::new(),
        permissions: Vec::new(),
        read_only: capability % 2 == 0,
        formats: Vec::new(),
        complexity: 0,
        authors: Vec::new(),
        version: Version::new(1, 0, 0),
        card: None,
    }
}

fn change() -> impl Strategy<Value = IndexChange> {
    let upsert = (1_i64..40, vector(), terms()).prop_map(|(capability, dense, sparse)| {
        IndexChange::Upsert(Box::new(IndexPoint { dense, sparse, ..point(capability) }))
    });
    let remove = (1_i64..40).prop_map(|capability| IndexChange::Remove(CapabilityId(capability)));
    prop_oneof![4 => upsert, 1 => remove]
}

/// The same by comparing and sorting everything.
fn expected(
    points: &[IndexPoint],
    probe: &SearchQuery,
    is_read_only: bool,
    limit: usize,
) -> Vec<VectorHit> {
    let passing = points.iter().filter(|point| !is_read_only || point.read_only);
    let score = |point: &IndexPoint| {
        let weight = |(term, wanted): (&u32, &f32)| {
            let with = points.iter().filter(|point| point.sparse.weight(*term).is_some()).count();
            Some(wanted * point.sparse.weight(*term)? * rarity(points.len(), with))
        };
        probe.sparse.indices.iter().zip(&probe.sparse.values).filter_map(weight).sum::<f32>()
    };
    let hit = |point: &IndexPoint| VectorHit {
        capability: point.capability,
        cosine: cosine(probe.dense.as_deref(), point.dense.as_deref()),
        bm25: score(point),
        sentence: None,
    };
    let hits: Vec<_> = passing.map(|point| (hit(point), point.dense.is_some())).collect();
    let best = |score: &dyn Fn(&VectorHit) -> f32, counts: &dyn Fn(&(VectorHit, bool)) -> bool| {
        let mut best: Vec<_> = hits.iter().filter(|hit| counts(hit)).map(|(hit, _)| *hit).collect();
        best.sort_by(|a, b| score(b).total_cmp(&score(a)).then(a.capability.cmp(&b.capability)));
        best.into_iter().take(limit).map(|hit| hit.capability).collect::<BTreeSet<_>>()
    };
    let near = best(&|hit| hit.cosine, &|hit| probe.dense.is_some() && hit.1);
    let by_words = best(&|hit| hit.bm25, &|hit| hit.0.bm25 > 0.0);
    let mut found: Vec<_> = hits.iter().map(|(hit, _)| *hit).collect();
    found.retain(|hit| near.contains(&hit.capability) || by_words.contains(&hit.capability));
    for hit in &mut found {
        hit.bm25 = if by_words.contains(&hit.capability) { hit.bm25 } else { 0.0 };
    }
    found.sort_by_key(|hit| hit.capability);
    found
}

proptest! {
    #[test]
    fn queries_find_what_comparing_everything_finds(
        changes in proptest::collection::vec(change(), 0..120),
        dense in vector(),
        sparse in terms(),
        is_read_only: bool,
        limit in 0_usize..12,
    ) {
        let mut table = PointTable::new(DIMENSIONS);
        let mut points: BTreeMap<_, IndexPoint> = BTreeMap::new();
        for change in changes {
            match change {
                IndexChange::Upsert(point) => {
                    points.insert(point.capability, (*point).clone());
                    table.insert(*point).unwrap();
                }
                IndexChange::Remove(capability) => {
                    points.remove(&capability);
                    table.remove(capability);
                }
            }
        }
        for (capability, point) in &points {
            let stored = table.get(*capability);
            prop_assert_eq!(stored.as_ref(), Some(point));
        }
        let points: Vec<_> = points.into_values().collect();
        let probe = SearchQuery { dense, sparse };
        let filter = PointFilter { read_only: is_read_only, ..PointFilter::default() };
        let answer = table.query(vec![probe.clone()], &filter, limit);
        let matching = points.iter().filter(|point| !is_read_only || point.read_only).count();
        prop_assert_eq!(answer.matching_points, matching);
        prop_assert_eq!(&answer.found[0], &expected(&points, &probe, is_read_only, limit));
    }
}

fn identity(id: IndexId) -> IndexIdentity {
    IndexIdentity {
        id,
        store: "the store".to_owned(),
        embedder: "mini".to_owned(),
        dimensions: DIMENSIONS,
        scale: BuiltIn::new().scale(),
        format: FORMAT,
    }
}

struct Opened {
    _folder: Folder,
    store: Arc<dyn RegistryStore>,
}

impl Opened {
    async fn new() -> Self {
        let folder = Folder::new().await;
        let store = store::open(&folder.config(None).database).await.unwrap();
        Self { _folder: folder, store }
    }

    fn index(&self) -> MemoryIndex {
        let embedders = vec!["mini".to_owned()];
        MemoryIndex::open(Arc::clone(&self.store), "the store".to_owned(), embedders).unwrap()
    }

    /// The number of points of an index that is made from the copy.
    async fn loaded(&self) -> Option<usize> {
        let index = self.index();
        index.refresh().await.unwrap();
        index.status().await.unwrap().points
    }
}

fn upsert(capability: i64) -> IndexChange {
    IndexChange::Upsert(Box::new(point(capability)))
}

#[tokio::test]
async fn copy_is_complete_when_it_is_committed_and_follows_at_a_flush() {
    let opened = Opened::new().await;
    let index = opened.index();
    assert!(matches!(index.current_reader(), Err(Error::NotReady)));
    index.begin(identity(opened.store.create_index_id().await.unwrap())).await.unwrap();
    index.stage(vec![upsert(1)], ChangeSeq(1)).await.unwrap();
    assert_eq!(opened.loaded().await, None);
    index.commit().await.unwrap();
    // No capability of the database has these points.
    assert_eq!(opened.loaded().await, Some(0));
    index.apply(vec![upsert(2), IndexChange::Remove(CapabilityId(1))], ChangeSeq(2)).await.unwrap();
    assert_eq!(index.status().await.unwrap().points, Some(1));
    index.flush().await.unwrap();
    assert!(index.current().unwrap().unsaved().is_empty());
    opened.store.close().await;
    index.apply(vec![upsert(3)], ChangeSeq(3)).await.unwrap();
    assert!(matches!(index.flush().await, Err(Error::Unavailable(_))));
    // It is saved when the database responds again.
    let unsaved = index.current().unwrap().unsaved().clone();
    assert_eq!(unsaved, BTreeMap::from([(CapabilityId(3), ChangeSeq(3))]));
}

#[tokio::test]
async fn one_copy_of_an_embedder_is_kept_and_others_follow_it() {
    let opened = Opened::new().await;
    let (one, other) = (opened.index(), opened.index());
    let build = async |index: &MemoryIndex| {
        index.begin(identity(opened.store.create_index_id().await.unwrap())).await.unwrap();
        index.commit().await.unwrap();
        index.current_reader().unwrap().identity().id.clone()
    };
    let _ = build(&one).await;
    let newer = build(&other).await;
    let copies = opened.store.list_index_copies().await.unwrap();
    assert_eq!(copies.len(), 1, "{copies:?}");
    one.refresh().await.unwrap();
    // A registry with a database file of its own does not look for other copies.
    let id = one.current_reader().unwrap().identity().id.clone();
    assert_eq!(id == newer, opened.store.is_shared());
}

#[tokio::test]
async fn point_of_other_dimensions_is_refused() {
    let opened = Opened::new().await;
    let index = opened.index();
    index.begin(identity(opened.store.create_index_id().await.unwrap())).await.unwrap();
    let longer = IndexPoint { dense: Some(vec![1.0; DIMENSIONS + 1]), ..point(1) };
    let staged = index.stage(vec![IndexChange::Upsert(Box::new(longer))], ChangeSeq(1)).await;
    assert!(matches!(staged, Err(Error::Failed(_))));
}
