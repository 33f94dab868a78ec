//! Following the events of a run as they come.

use std::collections::VecDeque;
use std::sync::Arc;

use a2s_api::{EventKind, RunEvent, StreamPermit};
use futures::stream::{self, Stream};
use tokio::sync::watch;
use uuid::Uuid;

use super::context::RunContext;
use super::scheduler::{RunScheduler, RunWatch};
use super::{PAGE, POLL};
use crate::error::Error;

/// Returns the events of a run after number `after`, including future ones. The stream ends when the run
/// cannot proceed by itself, and holds `permit` until then.
pub(super) fn follow_events(
    (context, scheduler): (Arc<RunContext>, Arc<RunScheduler>),
    run: Uuid,
    after: u64,
    permit: StreamPermit,
) -> impl Stream<Item = Result<RunEvent, Error>> + Send + use<> {
    let follower = EventFollower {
        _permit: permit,
        run_watch: scheduler.watchers().watch(run),
        context,
        scheduler,
        run,
        last: after,
        read: VecDeque::new(),
        watch: None,
        over: false,
    };
    stream::try_unfold(follower, |mut follower| async {
        Ok(follower.next().await?.map(|event| (event, follower)))
    })
}

/// A reader of the events of a run as they come.
///
/// Events are always read from the database; the watch only signals when to read again. So no event is
/// delivered twice or left out, however slow the reader is, and no events wait for it in memory.
struct EventFollower {
    _permit: StreamPermit,
    context: Arc<RunContext>,
    scheduler: Arc<RunScheduler>,
    run_watch: RunWatch,
    run: Uuid,
    last: u64,
    read: VecDeque<RunEvent>,
    watch: Option<watch::Receiver<u64>>,
    over: bool,
}

impl EventFollower {
    async fn next(&mut self) -> Result<Option<RunEvent>, Error> {
        loop {
            if let Some(event) = self.read.pop_front() {
                self.last = event.seq;
                self.over = matches!(event.kind, EventKind::RunFinished { .. });
                return Ok(Some(event));
            }
            if self.over {
                return Ok(None);
            }
            let more = self.run_watch.changed();
            // The watches start before the read: a commit in between is seen next time.
            if self.watch.is_none() {
                let active = self.scheduler.active().get(self.run);
                self.watch = active.map(|active| active.journal.watch());
            }
            let running = match &self.watch {
                Some(_) => true,
                None => {
                    let row = self.context.store.read_run(self.run).await?;
                    row.is_some_and(|row| row.status.is_in_progress())
                }
            };
            let page = self.context.store.read_events(self.run, self.last, PAGE).await?;
            if !page.is_empty() {
                self.read = page.into();
                continue;
            }
            match &mut self.watch {
                Some(watch) => {
                    if watch.changed().await.is_err() {
                        self.watch = None;
                    }
                }
                None if running && !self.scheduler.is_closing() => {
                    tokio::select! {
                        () = more => {}
                        _ = tokio::time::timeout(POLL, self.scheduler.watchers().changed_elsewhere()) => {}
                    }
                }
                None => return Ok(None),
            }
        }
    }
}
