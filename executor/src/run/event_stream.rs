//! Following the events of a run as they come.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use a2s_api::{Caller, StreamPermit};
use a2s_api::{EventKind, RunEvent};
use futures::stream::{self, Stream};
use tokio::sync::watch;
use uuid::Uuid;

use super::run_watchers::RunWatch;
use super::{PAGE, POLL, RunService, lock};
use crate::error::{Error, ErrorKind};

impl RunService {
    /// Returns the events of a run after number `after`, including future ones. The stream ends when the
    /// run cannot proceed by itself. Returns `None` when this is already the case.
    ///
    /// # Errors
    /// Returns [`ErrorKind::TooManyFollowers`] when the caller, or all callers together, follow too many
    /// runs.
    pub(crate) async fn follow(
        self: &Arc<Self>,
        run: Uuid,
        after: u64,
        caller: &Caller,
    ) -> Result<Option<impl Stream<Item = Result<RunEvent, Error>> + Send + use<>>, Error> {
        let row = self.find(run, caller).await?;
        let over = !row.status.is_in_progress();
        if over && self.store.read_events(run, after, 1).await?.is_empty() {
            return Ok(None);
        }
        let permit = self.followers.reserve(Some(caller.principal()));
        let permit = permit
            .map_err(|refusal| Error::new(ErrorKind::TooManyFollowers, refusal.to_string()))?;
        let following = EventFollower {
            _permit: permit,
            runs: Arc::clone(self),
            run_watch: self.watchers.watch(run),
            run,
            last: after,
            read: VecDeque::new(),
            watch: None,
            over: false,
        };
        Ok(Some(stream::try_unfold(following, |mut following| async {
            Ok(following.next().await?.map(|event| (event, following)))
        })))
    }
}

/// A reader of the events of a run as they come.
///
/// Events are always read from the database; the watch only signals when to read again. So no event is
/// delivered twice or left out, however slow the reader is, and no events wait for it in memory.
struct EventFollower {
    _permit: StreamPermit,
    runs: Arc<RunService>,
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
                let live = lock(&self.runs.active);
                self.watch = live.get(&self.run).map(|live| live.journal.watch());
            }
            let running = match &self.watch {
                Some(_) => true,
                None => {
                    let row = self.runs.store.read_run(self.run).await?;
                    row.is_some_and(|row| row.status.is_in_progress())
                }
            };
            let page = self.runs.store.read_events(self.run, self.last, PAGE).await?;
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
                None if running && !self.runs.closing.load(Ordering::SeqCst) => {
                    tokio::select! {
                        () = more => {}
                        _ = tokio::time::timeout(POLL, self.runs.wake.notified()) => {}
                    }
                }
                None => return Ok(None),
            }
        }
    }
}
