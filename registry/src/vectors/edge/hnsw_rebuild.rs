//! The engine's graph of neighbours, which lets a search compare only some of the points.
//!
//! New points are not in it and are compared one by one. So it is rebuilt from time to time, in a thread of
//! its own: the engine takes changes and answers during that, but its files must not be flushed.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use qdrant_edge::{EdgeOptimizersConfig, EdgeShard};

use super::{CurrentGeneration, Error, IndexGeneration, guard};

/// The number of checks, and the pause between them, while closing waits for a graph rebuild.
const CLOSE_ATTEMPTS: u32 = 500;
const CLOSE_PAUSE: Duration = Duration::from_millis(10);

/// The conditions for a graph rebuild.
#[derive(Debug, Clone, Copy)]
pub(super) struct GraphPolicy {
    /// The minimum number of points for a graph. With fewer points, comparing all is as fast.
    pub(super) min_points: usize,
    /// The minimum number of changes that the graph lacks. The rebuild starts when no other change comes
    /// for a while …
    pub(super) min_changes: usize,
    /// … which is this long,
    pub(super) idle_time: Duration,
    /// or when the graph lacks at least one change for this number of points.
    pub(super) points_per_change: usize,
}

impl Default for GraphPolicy {
    fn default() -> Self {
        // Two thousand are compared in about the time that the graph takes for all the others.
        Self {
            min_points: 10_000,
            min_changes: 2_000,
            idle_time: Duration::from_secs(5),
            points_per_change: 4,
        }
    }
}

impl GraphPolicy {
    /// Returns true when a graph that lacks `fresh` changes should be rebuilt.
    fn is_due(&self, points: usize, fresh: usize, rest: Duration) -> bool {
        let are_many = fresh >= points / self.points_per_change;
        points >= self.min_points
            && fresh >= self.min_changes
            && (rest >= self.idle_time || are_many)
    }
}

/// The graph of the current generation.
#[derive(Debug)]
pub(super) struct HnswGraph {
    policy: GraphPolicy,
    /// The number of changes that the graph lacks.
    fresh: usize,
    changed_at: Instant,
    /// The thread that rebuilds it, and the number of changes that the rebuild adds.
    rebuild_thread: Option<(JoinHandle<()>, usize)>,
}

impl HnswGraph {
    pub(super) fn new(habits: GraphPolicy) -> Self {
        Self { policy: habits, fresh: 0, changed_at: Instant::now(), rebuild_thread: None }
    }

    /// Resets the state for a new current generation.
    pub(super) fn reset(&mut self, shard: &EdgeShard) {
        let info = shard.info();
        // The engine counts a point twice, for its dense vector and its sparse one.
        self.fresh = info.points_count.saturating_sub(info.indexed_vectors_count / 2);
    }

    pub(super) fn add_changes(&mut self, changes: usize) {
        self.fresh += changes;
        self.changed_at = Instant::now();
    }

    /// The number of changes that are not in it, including those of a running rebuild.
    pub(super) fn fresh(&self) -> usize {
        self.fresh + self.rebuilding_changes().unwrap_or_default()
    }

    pub(super) fn is_rebuilding(&self) -> bool {
        self.rebuilding_changes().is_some()
    }

    fn rebuilding_changes(&self) -> Option<usize> {
        self.rebuild_thread
            .as_ref()
            .filter(|(thread, _)| !thread.is_finished())
            .map(|(_, fresh)| *fresh)
    }

    /// Returns the interval after which the writer calls [`Self::rebuild_if_due`], even when nothing
    /// happens.
    pub(super) fn check_interval(&self) -> Duration {
        self.policy.idle_time
    }

    /// Starts a rebuild if it is due and the disk has room for a generation.
    pub(super) fn rebuild_if_due(
        &mut self,
        current: &CurrentGeneration,
        has_room: impl FnOnce(u64) -> bool,
    ) {
        if self.fresh < self.policy.min_changes || self.is_rebuilding() {
            return;
        }
        let Some(generation) = current.get() else { return };
        let points = generation.shard.info().points_count;
        if !self.policy.is_due(points, self.fresh, self.changed_at.elapsed()) {
            return;
        }
        if !has_room(generation.number) {
            return;
        }
        let fresh = std::mem::take(&mut self.fresh);
        let make = move || {
            let began = Instant::now();
            let result = optimize(&generation, fresh);
            let took = began.elapsed();
            match result {
                Ok(()) => {
                    tracing::info!(points, fresh, ?took, "the graph of the index was rebuilt")
                }
                // There will be another attempt when there are more changes.
                Err(error) => tracing::warn!(%error, "the graph of the index could not be rebuilt"),
            }
        };
        let maker = std::thread::Builder::new().name("search-graph".to_owned()).spawn(make);
        self.rebuild_thread = maker
            .map(|thread| (thread, fresh))
            .inspect_err(|error| tracing::warn!(%error, "cannot start the thread for the graph of the index"))
            .ok();
    }

    /// Waits for a running rebuild of the graph, but not for long: the next start rebuilds it.
    pub(super) fn wait(&self) {
        for _ in 0..CLOSE_ATTEMPTS {
            if !self.is_rebuilding() {
                return;
            }
            std::thread::sleep(CLOSE_PAUSE);
        }
    }
}

/// Lets the engine rebuild the graph with `fresh` points that are not in it.
fn optimize(generation: &IndexGeneration, fresh: usize) -> Result<(), Error> {
    // It goes on until less than this is left. Changes that arrive meanwhile must be fewer, or
    // publishing would keep it running.
    let left = fresh / 2 * generation.identity.dimensions * size_of::<f32>() / 1024;
    let optimizers = EdgeOptimizersConfig {
        indexing_threshold: Some(left.max(1)),
        ..EdgeOptimizersConfig::default()
    };
    guard(|| generation.shard.set_optimizers_config(optimizers))?;
    guard(|| generation.shard.optimize()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_is_made_when_changes_rest_or_are_many() {
        let (busy, rest) = (Duration::ZERO, Duration::from_secs(5));
        for (points, fresh, since, is_called_for) in [
            (9_999, 9_999, rest, false),
            (10_000, 10_000, busy, true),
            (100_000, 24_999, busy, false),
            (100_000, 25_000, busy, true),
            (100_000, 2_000, rest, true),
            (100_000, 1_999, rest, false),
            (100_000, 2_000, Duration::from_secs(4), false),
        ] {
            let called_for = GraphPolicy::default().is_due(points, fresh, since);
            assert_eq!(called_for, is_called_for, "{fresh} of {points} after {since:?}");
        }
    }
}
