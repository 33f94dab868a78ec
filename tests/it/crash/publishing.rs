//! `kill -9` while capabilities are published: what was acknowledged is there and is found, and
//! nothing is there by half.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::harness::{RUNTIME, World};
use crate::metric_samples::{End, Registry, name};

/// Publishers at the same time: so many requests are under way when the end comes.
const PUBLISHERS: usize = 8;
/// Acknowledged between two ends, on average.
const ACKNOWLEDGED: usize = 100;

/// Kills, and capabilities at least.
#[expect(clippy::disallowed_methods, reason = "how long a test takes is set where it is run")]
fn extent() -> (usize, usize) {
    let kills = std::env::var("A2S_TEST_KILLS").ok();
    let kills = kills.map_or(4, |text| text.parse().expect("A2S_TEST_KILLS is a number"));
    (kills, kills * ACKNOWLEDGED)
}

#[test]
fn what_was_acknowledged_is_there_and_is_found_behind_a_kill() {
    let (kills, least) = extent();
    let mut world = World::among(Vec::new(), &[]);
    let next = Arc::new(AtomicUsize::new(0));
    // What is known of each number: whether it was acknowledged.
    let mut known: BTreeMap<usize, bool> = BTreeMap::new();
    let mut random = 7_usize;
    for _ in 0..kills {
        world.start();
        let registry = Registry::at(world.url(), &world.token());
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let moment = 1 + (random >> 33) % (2 * ACKNOWLEDGED);
        let (tell, mut told) = mpsc::unbounded_channel();
        let mut publishers = JoinSet::new();
        RUNTIME.block_on(async {
            for _ in 0..PUBLISHERS {
                let (registry, next, tell) = (registry.clone(), Arc::clone(&next), tell.clone());
                publishers.spawn(async move {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let acknowledged = match registry.publish(number).await {
                            End::Well(_) => true,
                            End::Silence(_) => false,
                            refused @ End::Refused(..) => panic!("{refused:?}"),
                        };
                        tell.send((number, acknowledged)).unwrap();
                        if !acknowledged {
                            return;
                        }
                    }
                });
            }
            drop(tell);
            for _ in 0..moment {
                let (number, acknowledged) = told.recv().await.unwrap();
                known.insert(number, acknowledged);
            }
        });
        world.kill();
        let fresh: Vec<_> = RUNTIME.block_on(async {
            let mut fresh: Vec<_> = known.keys().rev().take(moment).copied().collect();
            while let Some((number, acknowledged)) = told.recv().await {
                known.insert(number, acknowledged);
                fresh.push(number);
            }
            publishers.join_all().await;
            fresh
        });
        world.start();
        let registry = Registry::at(world.url(), &world.token());
        RUNTIME.block_on(async {
            for number in fresh {
                let there = registry.has(number).await;
                assert!(there || !known[&number], "{} was acknowledged", name(number));
            }
        });
        world.kill();
    }
    world.start();
    let registry = Registry::at(world.url(), &world.token());
    let acknowledged = known.values().filter(|acknowledged| **acknowledged).count();
    RUNTIME.block_on(async {
        let mut there = BTreeSet::new();
        for (number, acknowledged) in &known {
            let is_there = registry.has(*number).await;
            assert!(is_there || !acknowledged, "{} was acknowledged", name(*number));
            if is_there {
                there.insert(name(*number));
            }
        }
        assert_eq!(registry.names().await, there, "what is listed is whole and is found");
    });
    println!(
        "{kills} kills: {acknowledged} acknowledged, all there and found, of {} sent",
        known.len()
    );
    assert!(acknowledged * 4 > least, "{acknowledged}");
}
