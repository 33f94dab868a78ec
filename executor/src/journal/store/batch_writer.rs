//! The writer: jobs in, outcomes out, in the order in which they were sent.

use std::sync::Arc;
use std::time::Duration;

use database::server_types::PgPool;
use jiff::Timestamp;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use super::append::WriterTarget;
use super::connection::WriterConnection;
use super::persisted_item::{JournalItem, notify_followers};
use super::tasks::commit;
use super::{
    ClaimedRun, CreateResult, LeaseEpoch, LeaseTerms, NewPlan, NewRun, RenewedRun, TenantCaps, WHAT,
};
use crate::database::to_store_error;
use crate::error::Error;

/// The maximum number of jobs in one transaction. It limits the time for which the first job waits.
pub(super) const MAX_BATCH: usize = 256;
/// The longest delay of an event that no caller waits for.
const BATCH_DELAY: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(super) struct WriterJob {
    pub(super) task: WriterTask,
    reply: Option<ReplySender>,
}

pub(super) type ReplySender = oneshot::Sender<Result<TaskOutcome, Error>>;

/// The queue of the writer. The writer ends when the last clone is dropped.
#[derive(Debug, Clone)]
pub(super) struct WriterQueue {
    /// The queue needs no limit, because its senders are limited: a step waits for a commit after at most a
    /// few events, and the limits of runs bound the number of steps under way.
    queue: mpsc::UnboundedSender<WriterJob>,
    /// Notifies that a caller waits for a job.
    urgent: Arc<Notify>,
}

impl WriterQueue {
    /// Sends a job to the writer. Returns false when the writer has ended.
    pub(super) fn send(&self, task: WriterTask, reply: Option<ReplySender>) -> bool {
        let is_urgent = reply.is_some();
        let sent = self.queue.send(WriterJob { task, reply }).is_ok();
        if is_urgent {
            self.urgent.notify_one();
        }
        sent
    }
}

/// The connections that perform jobs.
#[derive(Debug)]
pub(super) enum WriterBackend {
    /// The only connection that writes.
    Sqlite(Box<WriterConnection>),
    Postgres(PgPool),
}

/// Starts the writer.
pub(super) fn start_writer(writer: WriterBackend) -> WriterQueue {
    let (queue, jobs) = mpsc::unbounded_channel();
    let urgent = Arc::new(Notify::new());
    tokio::spawn(run_writer(writer, jobs, Arc::clone(&urgent)));
    WriterQueue { queue, urgent }
}

#[derive(Debug)]
pub(super) enum WriterTask {
    Create {
        run: Box<NewRun>,
        /// Notifies that the run begins, as soon as this is certain unless the commit fails. Later tasks of
        /// the run are performed after it.
        decided: Arc<Notify>,
    },
    Append(JournalItem),
    StorePlan(Box<NewPlan>),
    SweepPlans(Timestamp),
    RequestCancel(Uuid),
    MarkReported(Vec<Uuid>),
    Delete(Uuid),
    Forget {
        before: Timestamp,
        limit: usize,
    },
    Claim {
        lease: LeaseTerms,
        live: Vec<Uuid>,
        caps: Arc<TenantCaps>,
        limit: usize,
    },
    Renew {
        lease: LeaseTerms,
        live: Vec<(Uuid, LeaseEpoch)>,
    },
    Release {
        owner: Uuid,
    },
    /// Checks that the database can be written.
    Probe,
}

impl WriterTask {
    /// Returns the item when the task writes an event or exchange without sealed values: many of them are
    /// written together.
    pub(super) fn plain_item(&self) -> Option<&JournalItem> {
        match self {
            Self::Append(item) if item.is_plain() => Some(item),
            _ => None,
        }
    }

    /// Returns true when it must be done in the order in which it was sent, even where other tasks need not
    /// be: items of runs, and leases, which are in the same rows.
    pub(super) fn is_in_order(&self) -> bool {
        matches!(self, Self::Append(_) | Self::Renew { .. })
    }
}

#[derive(Debug)]
pub(super) enum TaskOutcome {
    Done,
    /// The event does not follow the last one, the run has ended, or it belongs to another executor now.
    OutOfTurn,
    Created(CreateResult),
    /// The run is not recorded: a version that was not remembered has another checksum by now.
    ChecksumChanged,
    /// The maximum number is reached.
    Full,
    Runs(Vec<Uuid>),
    Claimed(Vec<ClaimedRun>, bool),
    Held(Vec<RenewedRun>),
}

/// The writer: performs jobs until there are no senders left.
async fn run_writer(
    mut writer: WriterBackend,
    mut jobs: mpsc::UnboundedReceiver<WriterJob>,
    urgent: Arc<Notify>,
) {
    let mut batch = Vec::with_capacity(MAX_BATCH);
    while jobs.recv_many(&mut batch, MAX_BATCH).await > 0 {
        // Events without a waiter join the next commit that has one, if it comes soon: that saves
        // most of the writes to the disk. They do not even wake the writer.
        let end = Instant::now() + BATCH_DELAY;
        let mut is_over = false;
        while !is_over && batch.len() < MAX_BATCH && batch.iter().all(|job| job.reply.is_none()) {
            // Also true at once for a caller whose job was taken without this.
            is_over = timeout_at(end, urgent.notified()).await.is_err();
            while batch.len() < MAX_BATCH
                && let Ok(job) = jobs.try_recv()
            {
                batch.push(job);
            }
        }
        let committed = match &mut writer {
            WriterBackend::Sqlite(connection) => connection.commit(&batch).await,
            WriterBackend::Postgres(pool) => commit(WriterTarget::Postgres(pool), &batch).await,
        };
        match committed {
            Ok(outcomes) => {
                for (job, outcome) in batch.drain(..).zip(outcomes) {
                    if let (
                        WriterTask::Append(JournalItem::Event { event, committed, .. }),
                        TaskOutcome::Done,
                    ) = (&job.task, &outcome)
                    {
                        notify_followers(committed, event.seq);
                    }
                    if let Some(reply) = job.reply {
                        // The waiter may be gone; the commit remains valid.
                        let _ = reply.send(Ok(outcome));
                    }
                }
            }
            Err(error) => {
                let error = to_store_error(WHAT)(error);
                for reply in batch.drain(..).filter_map(|job| job.reply) {
                    let _ = reply.send(Err(error.clone()));
                }
            }
        }
    }
    if let WriterBackend::Sqlite(connection) = writer {
        connection.close().await;
    }
}
