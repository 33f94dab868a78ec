//! The writer of the log: one thread, so that all waiting callers share its flush. Without a flush each
//! caller writes itself, because that takes less time than handing a record over.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::sync::{mpsc, oneshot};

use super::audit_record::AuditRecord;
use super::hash_chain::HashChain;

/// The most records that may wait. Later callers wait for a free slot, which slows the agents down instead
/// of filling the memory.
const MAX_WAITING: usize = 1024;

/// The writer of the log. The log is closed when the last copy is dropped and everything is written.
#[derive(Clone, Debug)]
pub(crate) enum AuditWriter {
    /// The thread that writes and flushes.
    Thread(mpsc::Sender<WriteJob>),
    /// The file, which the operating system flushes at a time of its choice.
    File(Arc<Mutex<HashChain>>),
}

#[derive(Debug)]
pub(crate) struct WriteJob {
    entries: Vec<AuditRecord>,
    done: oneshot::Sender<bool>,
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
        thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || write_jobs(chain, waiting))?;
        Ok(Self::Thread(jobs))
    }

    /// Writes records, all or none. When this returns `Ok`, they are in the log.
    pub(crate) async fn append(&self, entries: Vec<AuditRecord>) -> Result<(), AppendError> {
        match self {
            Self::Thread(jobs) => {
                let (done, written) = oneshot::channel();
                jobs.send(WriteJob { entries, done }).await.map_err(|_| AppendError)?;
                if written.await.unwrap_or(false) { Ok(()) } else { Err(AppendError) }
            }
            Self::File(chain) => {
                // A panic within leaves a chain that knows what of its file is whole.
                let mut chain = chain.lock().unwrap_or_else(PoisonError::into_inner);
                append(&mut chain, &entries).map_err(|_| AppendError)
            }
        }
    }
}

fn append(chain: &mut HashChain, entries: &[AuditRecord]) -> std::io::Result<()> {
    chain.append(entries).inspect_err(|error| {
        let records = entries.len();
        tracing::error!(%error, records, "the audit log cannot be written; the guardian denies all steps");
    })
}

fn write_jobs(mut chain: HashChain, mut waiting: mpsc::Receiver<WriteJob>) {
    let mut jobs = Vec::new();
    while waiting.blocking_recv_many(&mut jobs, MAX_WAITING) != 0 {
        let (entries, done): (Vec<_>, Vec<_>) =
            jobs.drain(..).map(|job: WriteJob| (job.entries, job.done)).unzip();
        let entries: Vec<AuditRecord> = entries.into_iter().flatten().collect();
        let written = append(&mut chain, &entries).is_ok();
        for done in done {
            // Who asked may have gone; the record stays.
            let _ = done.send(written);
        }
    }
}
