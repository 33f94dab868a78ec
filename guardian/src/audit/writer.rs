//! The writer of the log: one thread, so that all waiting callers share its flush. Without a flush each
//! caller writes itself, because that takes less time than handing a record over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::runtime;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::audit_record::AuditRecord;
use super::hash_chain::HashChain;

/// The most records that may wait. Later callers wait for a free slot, which slows the agents down instead
/// of filling the memory.
const MAX_WAITING: usize = 1024;
/// The longest time that records without a waiting caller are kept back.
const BATCH_DELAY: Duration = Duration::from_millis(2);

/// The writer of the log. The log is closed when the last copy is dropped and everything is written.
#[derive(Clone, Debug)]
pub(crate) enum AuditWriter {
    /// The thread that writes and flushes.
    Thread {
        jobs: mpsc::Sender<WriteJob>,
        /// Notifies that a caller waits for a job.
        urgent: Arc<Notify>,
        /// Set while the last records could not be written.
        is_failing: Arc<AtomicBool>,
    },
    /// The file, which the operating system flushes at a time of its choice.
    File(Arc<Mutex<HashChain>>),
}

#[derive(Debug)]
pub(crate) struct WriteJob {
    entries: Vec<AuditRecord>,
    /// Told when the records are in the log, or cannot be written; none when no caller waits.
    done: Option<oneshot::Sender<bool>>,
}

/// The error that records were not written to the log.
#[derive(Debug)]
pub(crate) struct AppendError;

impl AuditWriter {
    pub(crate) fn start(chain: HashChain) -> std::io::Result<Self> {
        if !chain.is_flushed() {
            return Ok(Self::File(Arc::new(Mutex::new(chain))));
        }
        let (jobs, waiting) = mpsc::channel(MAX_WAITING);
        let (urgent, is_failing) = (Arc::<Notify>::default(), Arc::<AtomicBool>::default());
        let thread = WriterThread {
            chain,
            urgent: Arc::clone(&urgent),
            is_failing: Arc::clone(&is_failing),
            unwritten: Vec::new(),
        };
        let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
        let run = move || runtime.block_on(thread.run(waiting));
        thread::Builder::new().name("audit".to_owned()).spawn(run)?;
        Ok(Self::Thread { jobs, urgent, is_failing })
    }

    /// Writes records, all or none. When this returns `Ok`, they are in the log.
    pub(crate) async fn append(&self, entries: Vec<AuditRecord>) -> Result<(), AppendError> {
        match self {
            Self::Thread { jobs, urgent, .. } => {
                let (done, written) = oneshot::channel();
                let job = WriteJob { entries, done: Some(done) };
                jobs.send(job).await.map_err(|_| AppendError)?;
                urgent.notify_one();
                if written.await.unwrap_or(false) { Ok(()) } else { Err(AppendError) }
            }
            Self::File(chain) => {
                // A panic within leaves a chain that knows what of its file is whole.
                let mut chain = chain.lock().unwrap_or_else(PoisonError::into_inner);
                append(&mut chain, &entries).map_err(|_| AppendError)
            }
        }
    }

    /// Writes records within some milliseconds, before all that are written later. While the log cannot be
    /// written, this waits, as [`append`](Self::append) does.
    pub(crate) async fn append_soon(&self, entries: Vec<AuditRecord>) -> Result<(), AppendError> {
        match self {
            Self::Thread { jobs, is_failing, .. } if !is_failing.load(Ordering::Acquire) => {
                jobs.send(WriteJob { entries, done: None }).await.map_err(|_| AppendError)
            }
            Self::Thread { .. } | Self::File(_) => self.append(entries).await,
        }
    }
}

fn append(chain: &mut HashChain, entries: &[AuditRecord]) -> std::io::Result<()> {
    if entries.is_empty() {
        return Ok(());
    }
    chain.append(entries).inspect_err(|error| {
        let records = entries.len();
        tracing::error!(%error, records, "the audit log cannot be written; the guardian denies all steps");
    })
}

/// The thread that writes.
struct WriterThread {
    chain: HashChain,
    urgent: Arc<Notify>,
    is_failing: Arc<AtomicBool>,
    /// Records of steps that were allowed already, which could not be written yet.
    unwritten: Vec<AuditRecord>,
}

impl WriterThread {
    async fn run(mut self, mut waiting: mpsc::Receiver<WriteJob>) {
        let mut jobs = Vec::new();
        while waiting.recv_many(&mut jobs, MAX_WAITING).await != 0 {
            self.wait_for_caller(&mut jobs, &mut waiting).await;
            self.write(&mut jobs);
        }
    }

    /// While no caller waits, takes further jobs for two milliseconds: one flush is enough for all. They do
    /// not even wake the thread.
    async fn wait_for_caller(
        &self,
        jobs: &mut Vec<WriteJob>,
        waiting: &mut mpsc::Receiver<WriteJob>,
    ) {
        let end = Instant::now() + BATCH_DELAY;
        let mut is_over = false;
        while !is_over && jobs.len() < MAX_WAITING && jobs.iter().all(|job| job.done.is_none()) {
            // Also true at once for a caller whose job was taken without this.
            is_over = timeout_at(end, self.urgent.notified()).await.is_err();
            while let Ok(job) = waiting.try_recv() {
                jobs.push(job);
            }
        }
    }

    fn write(&mut self, jobs: &mut Vec<WriteJob>) {
        let mut entries = self.unwritten.clone();
        entries.extend(jobs.iter().flat_map(|job| &job.entries).cloned());
        let written = append(&mut self.chain, &entries).is_ok();
        // A flush that has nothing to write does not show that the log can be written.
        if !entries.is_empty() {
            self.is_failing.store(!written, Ordering::Release);
        }
        if written {
            self.unwritten.clear();
        }
        for WriteJob { entries, done } in jobs.drain(..) {
            match done {
                // Who asked may have gone; the record stays.
                Some(done) => drop(done.send(written)),
                // What is denied instead has no record; what was allowed gets one as soon as that is possible.
                None if !written => self.unwritten.extend(entries),
                None => {}
            }
        }
    }
}
