use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use semver::Version;
use test_support::copy_folder;

use super::*;
use crate::embed::BuiltIn;
use crate::store::ChangeSeq;
use crate::store::indexes::IndexId;
use crate::tests::endpoint::SOON;
use crate::vectors::FORMAT;

const DIMENSIONS: usize = 8;

/// A graph is made again and again, whatever there is.
const RESTLESS: GraphPolicy = GraphPolicy {
    min_points: 1,
    min_changes: 1,
    idle_time: Duration::from_millis(1),
    points_per_change: 1,
};

fn identity() -> IndexIdentity {
    IndexIdentity {
        id: IndexId("test".to_owned()),
        store: "test".to_owned(),
        embedder: "test".to_owned(),
        dimensions: DIMENSIONS,
        scale: BuiltIn::new().scale(),
        format: FORMAT,
    }
}

/// A point that no other is like.
fn point(id: i64, round: u32) -> IndexPoint {
    let mut dense: Vec<f32> =
        (0..DIMENSIONS).map(|place| ((id * 31 + place as i64 * 17) % 97) as f32 + 1.0).collect();
    let length = dense.iter().map(|number| number * number).sum::<f32>().sqrt();
    dense.iter_mut().for_each(|number| *number /= length);
    IndexPoint {
        capability: CapabilityId(id),
        dense: Some(dense),
        sparse: SparseVector { indices: vec![u32::try_from(id).unwrap()], values: vec![1.0] },
        domains: Vec::new(),
        permissions: Vec::new(),
        read_only: true,
        formats: Vec::new(),
        complexity: 0,
        authors: Vec::new(),
        version: Version::new(1, 0, 0),
        card: Some(format!("{id} in round {round}")),
    }
}

async fn open(folder: &Path, habits: GraphPolicy) -> EdgeIndex {
    let disk = IndexDisk::for_path(folder).with_reserve(0);
    EdgeIndex::open_with(folder.to_owned(), "test".to_owned(), habits, disk).await.unwrap()
}

/// Everything that is in the index, by its cards.
async fn everything(edge: &EdgeIndex) -> BTreeMap<CapabilityId, String> {
    let index = edge.current_reader().unwrap();
    let dense = Some(point(1, 0).dense.unwrap());
    let probe =
        SearchQuery { dense, sparse: SparseVector { indices: Vec::new(), values: Vec::new() } };
    let answers = index.query(vec![probe], PointFilter::default(), 10_000).await.unwrap();
    let ids: Vec<_> = answers.found[0].iter().map(|found| found.capability).collect();
    let cards = index.cards(ids.clone()).await.unwrap();
    assert_eq!((ids.len(), edge.status().await.unwrap().points), (cards.len(), Some(cards.len())));
    cards
}

/// Waits until every change is in the graph and on disk.
async fn settle(edge: &EdgeIndex) {
    while edge.status().await.unwrap().fresh > 0 || !edge.flush().await.unwrap() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn changes_are_kept_while_the_graph_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let edge = open(folder.path(), RESTLESS).await;
    edge.begin(identity()).await.unwrap();
    edge.commit().await.unwrap();
    let (mut expected, mut has_waited) = (BTreeMap::new(), false);
    for round in 0..30u32 {
        let upserts = (0..40).map(|step| point((i64::from(round) * 7 + step) % 211 + 1, round));
        let removals = (0..5).map(|step| CapabilityId((i64::from(round) * 13 + step) % 211 + 1));
        let mut changes = Vec::new();
        for point in upserts {
            expected.insert(point.capability, point.card.clone().unwrap());
            changes.push(IndexChange::Upsert(Box::new(point)));
        }
        for id in removals {
            expected.remove(&id);
            changes.push(IndexChange::Remove(id));
        }
        edge.apply(changes, ChangeSeq::default()).await.unwrap();
        has_waited |= !edge.flush().await.unwrap();
        assert_eq!(everything(&edge).await, expected, "round {round}");
    }
    assert!(has_waited, "no flush met a graph in the making");
    tokio::time::timeout(SOON, settle(&edge)).await.unwrap();
    // As a crash would leave it.
    let copy = tempfile::tempdir().unwrap();
    copy_folder(folder.path(), copy.path());
    edge.close().await;
    for folder in [folder, copy] {
        let edge = open(folder.path(), GraphPolicy::default()).await;
        assert_eq!(everything(&edge).await, expected);
        edge.close().await;
    }
}

#[tokio::test]
async fn what_a_crash_left_of_a_graph_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let edge = open(folder.path(), GraphPolicy::default()).await;
    edge.begin(identity()).await.unwrap();
    edge.commit().await.unwrap();
    edge.close().await;
    let rubbish = folder.path().join("generation-1/temp_segments/half");
    std::fs::create_dir_all(&rubbish).unwrap();
    open(folder.path(), GraphPolicy::default()).await.close().await;
    assert!(!rubbish.exists());
}

async fn open_on(folder: &Path, disk: IndexDisk) -> EdgeIndex {
    EdgeIndex::open_with(folder.to_owned(), "test".to_owned(), GraphPolicy::default(), disk)
        .await
        .unwrap()
}

#[tokio::test]
async fn low_disk_stops_index_writes_not_queries() {
    let folder = tempfile::tempdir().unwrap();
    let disk = IndexDisk::for_path(folder.path());
    let full = disk.clone().with_reserve(u64::MAX / 2);
    let upsert = |id| vec![IndexChange::Upsert(Box::new(point(id, 0)))];
    let edge = open_on(folder.path(), full.clone()).await;
    assert!(matches!(edge.begin(identity()).await, Err(Error::DiskFull(_))));
    edge.close().await;

    let edge = open_on(folder.path(), disk.clone().with_reserve(0)).await;
    edge.begin(identity()).await.unwrap();
    edge.stage(upsert(1), ChangeSeq::default()).await.unwrap();
    edge.commit().await.unwrap();
    edge.close().await;

    let edge = open_on(folder.path(), full).await;
    assert!(matches!(edge.apply(upsert(2), ChangeSeq::default()).await, Err(Error::DiskFull(_))));
    assert!(matches!(edge.begin(identity()).await, Err(Error::DiskFull(_))));
    assert_eq!(everything(&edge).await.len(), 1);
    edge.close().await;
}

#[tokio::test]
async fn an_index_remembers_what_its_store_has_had() {
    let folder = tempfile::tempdir().unwrap();
    let edge = open(folder.path(), GraphPolicy::default()).await;
    let upsert = |id| vec![IndexChange::Upsert(Box::new(point(id, 0)))];
    edge.begin(identity()).await.unwrap();
    edge.stage(upsert(1), ChangeSeq(5)).await.unwrap();
    edge.commit().await.unwrap();
    assert_eq!(edge.status().await.unwrap().as_of, Some(ChangeSeq(5)));
    edge.apply(upsert(2), ChangeSeq(7)).await.unwrap();
    edge.close().await;
    let edge = open(folder.path(), GraphPolicy::default()).await;
    assert_eq!(edge.status().await.unwrap().as_of, Some(ChangeSeq(7)));
    // Another one was made from what the store has then.
    edge.begin(identity()).await.unwrap();
    edge.stage(upsert(1), ChangeSeq(3)).await.unwrap();
    edge.commit().await.unwrap();
    edge.close().await;
    let edge = open(folder.path(), GraphPolicy::default()).await;
    assert_eq!(edge.status().await.unwrap().as_of, Some(ChangeSeq(3)));
    edge.close().await;
}

#[tokio::test]
async fn what_the_engine_maps_is_allocated() {
    use fs4::FileExt as _;
    fn sparse(folder: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(sparse(&path));
                continue;
            }
            let file = std::fs::File::open(&path).unwrap();
            if file.allocated_size().unwrap() < file.metadata().unwrap().len() {
                found.push(path);
            }
        }
        found
    }
    let folder = tempfile::tempdir().unwrap();
    let edge = open(folder.path(), GraphPolicy::default()).await;
    edge.begin(identity()).await.unwrap();
    assert_eq!(sparse(&folder.path().join("generation-1/segments")), Vec::<PathBuf>::new());
    edge.commit().await.unwrap();
    edge.apply(vec![IndexChange::Upsert(Box::new(point(1, 0)))], ChangeSeq::default())
        .await
        .unwrap();
    assert_eq!(sparse(&folder.path().join("generation-1/segments")), Vec::<PathBuf>::new());
    edge.close().await;
}
