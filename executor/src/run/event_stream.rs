//! Following the events of a run as they come.

use std::sync::Arc;

use a2s_api::{EventKind, RunEvent, StreamPermit};
use futures::stream::{self, Stream};
use tokio::sync::watch;
use uuid::Uuid;

use super::context::RunContext;
use super::scheduler::{EventPage, RunScheduler, RunWatch};
use super::{PAGE, POLL};
use crate::error::Error;

/// Returns the events of a run after number `after`, including future ones. The stream ends when the run
/// cannot proceed by itself, and holds `permit` until then. It ends with an error when an event cannot be
/// read, when the run is deleted before its last event was read, or when the executor stops before the run
/// does.
pub(super) fn follow_events(
    (context, scheduler): (Arc<RunContext>, Arc<RunScheduler>),
    run: Uuid,
    after: u64,
    permit: StreamPermit,
) -> impl Stream<Item = Result<Arc<RunEvent>, Error>> + Send + use<> {
    let follower = EventFollower {
        _permit: permit,
        run_watch: scheduler.watchers().watch(run),
        context,
        scheduler,
        run,
        last: after,
        read: EventPage::new(),
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
/// delivered twice or left out, however slow the reader is. Followers of a run share what one of them reads.
struct EventFollower {
    _permit: StreamPermit,
    context: Arc<RunContext>,
    scheduler: Arc<RunScheduler>,
    run_watch: RunWatch,
    run: Uuid,
    last: u64,
    read: EventPage,
    watch: Option<watch::Receiver<u64>>,
    over: bool,
}

impl EventFollower {
    async fn next(&mut self) -> Result<Option<Arc<RunEvent>>, Error> {
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
            let (store, run, last) = (&self.context.store, self.run, self.last);
            let committed = self.watch.as_mut().map(|watch| *watch.borrow_and_update());
            let running = match committed {
                Some(_) => true,
                None => {
                    let row = self.run_watch.limit_reads(self.context.read_row(run)).await?;
                    row.status.is_in_progress()
                }
            };
            if committed.is_none_or(|committed| last < committed) {
                let read = store.read_events(run, last, PAGE);
                self.read = self.run_watch.share_page(last, read).await?;
                if !self.read.is_empty() {
                    continue;
                }
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
                None => {
                    // The run may have been deleted between the two reads.
                    self.context.read_row(run).await?;
                    if running {
                        self.scheduler.check_open()?;
                    }
                    return Ok(None);
                }
            }
        }
    }
}
