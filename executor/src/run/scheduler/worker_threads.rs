//! The threads on which runs are driven.
//!
//! A run stays on one thread, and so do its connections: a response then wakes only this thread. If threads
//! shared their work, each response would wake a second one that finds nothing to do, which costs a good
//! part of the time of a short step.

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::error::{Error, ErrorKind};
use crate::journal::lock;

/// One thread for each processor. When this value is dropped, they end, with the runs that are left on
/// them.
#[derive(Debug)]
pub(super) struct WorkerPool(Vec<Worker>);

#[derive(Debug)]
struct Worker {
    runtime: Handle,
    /// The counter of runs on this thread: each run holds a clone.
    runs: Arc<()>,
    /// The thread, until it is asked to end.
    thread: Mutex<Option<WorkerThread>>,
}

#[derive(Debug)]
struct WorkerThread {
    /// The thread ends when this sender is dropped.
    alive: oneshot::Sender<Infallible>,
    handle: JoinHandle<()>,
}

impl WorkerPool {
    /// Starts the threads.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Internal`] when the system cannot start them.
    pub(super) fn start() -> Result<Self, Error> {
        let count = thread::available_parallelism().map_or(1, usize::from);
        let drivers = (0..count).map(|_| Worker::start(thread::Builder::new()));
        let drivers: Result<_, std::io::Error> = drivers.collect();
        drivers.map(Self).map_err(|error| {
            Error::new(ErrorKind::Internal, format!("cannot start a thread for runs: {error}"))
                .with_hint(
                    "Give the process more memory, or raise its limits of memory and threads \
                 (`ulimit -v`, `ulimit -u`).",
                )
        })
    }

    /// Drives a run on the thread with the fewest runs.
    pub(super) fn spawn(
        &self,
        tasks: &mut JoinSet<()>,
        run: impl Future<Output = ()> + Send + 'static,
    ) {
        let idlest = self.0.iter().min_by_key(|driver| Arc::strong_count(&driver.runs));
        let Some(driver) = idlest else { return };
        let place = Arc::clone(&driver.runs);
        let task = async move {
            run.await;
            drop(place);
        };
        tasks.spawn_on(task, &driver.runtime);
    }

    /// Ends the threads, and waits until everything on them has ended, including connections.
    pub(super) async fn shut_down(&self) {
        let threads = self.0.iter().filter_map(|driver| lock(&driver.thread).take());
        let stop = |WorkerThread { alive, handle }| {
            drop(alive);
            handle
        };
        let handles: Vec<_> = threads.map(stop).collect();
        let ended =
            tokio::task::spawn_blocking(|| handles.into_iter().try_for_each(JoinHandle::join));
        if !matches!(ended.await, Ok(Ok(()))) {
            tracing::error!("a worker thread for runs failed");
        }
    }
}

impl Worker {
    fn start(thread: thread::Builder) -> Result<Self, std::io::Error> {
        let (alive, ended) = oneshot::channel();
        let (started, start) = mpsc::sync_channel(1);
        // The runtime is made on its own thread: where the system gives none, a runtime would be
        // dropped within another one, which panics.
        let handle = thread.name("a2s-run".to_owned()).spawn(move || {
            let runtime = match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(started.send(Err(error))),
            };
            drop(started.send(Ok(runtime.handle().clone())));
            let ended: Result<Infallible, _> = runtime.block_on(ended);
            drop(ended);
            runtime.shutdown_background();
        })?;
        let runtime = start.recv().map_err(std::io::Error::other)??;
        let thread = Mutex::new(Some(WorkerThread { alive, handle }));
        Ok(Self { runtime, runs: Arc::default(), thread })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[tokio::test]
    async fn a_thread_that_the_system_does_not_give_is_an_error() {
        // More than there are addresses.
        let thread = thread::Builder::new().stack_size(usize::MAX / 4);
        Worker::start(thread).unwrap_err();
    }

    #[tokio::test]
    async fn runs_are_spread_over_the_threads_and_end_with_them() {
        let drivers = WorkerPool::start().unwrap();
        let mut tasks = JoinSet::new();
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        for _ in 0..3 * drivers.0.len() {
            let sender = sender.clone();
            drivers.spawn(&mut tasks, async move {
                sender.send(thread::current().id()).unwrap();
                std::future::pending::<()>().await;
            });
        }
        drop(sender);
        let mut runs = BTreeMap::new();
        for _ in 0..3 * drivers.0.len() {
            *runs.entry(format!("{:?}", receiver.recv().await.unwrap())).or_insert(0) += 1;
        }
        assert_eq!(runs.len(), drivers.0.len());
        assert!(runs.values().all(|count| *count == 3), "{runs:?}");
        drivers.shut_down().await;
        // Running tasks are gone, and the slots of ended ones are free again.
        assert!(receiver.recv().await.is_none());
        while tasks.join_next().await.is_some() {}
        assert!(drivers.0.iter().all(|driver| Arc::strong_count(&driver.runs) == 1));
    }
}
