//! One thread writes; whoever waits for it shares its flush.

use std::thread;

use tokio::sync::{mpsc, oneshot};

use super::chain::Chain;
use super::record::Entry;

/// How many records may wait. Who comes later waits for a place, which slows the agents down
/// instead of filling the memory.
const WAITING: usize = 1024;

/// A handle on the thread that writes the log. The thread ends when the last handle is gone and
/// everything is written.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    jobs: mpsc::Sender<Job>,
}

#[derive(Debug)]
struct Job {
    entry: Entry,
    done: oneshot::Sender<bool>,
}

/// The record is not in the log.
#[derive(Debug)]
pub(crate) struct NotWritten;

impl Writer {
    pub(crate) fn start(chain: Chain) -> std::io::Result<Self> {
        let (jobs, waiting) = mpsc::channel(WAITING);
        thread::Builder::new().name("audit".to_owned()).spawn(move || write(chain, waiting))?;
        Ok(Self { jobs })
    }

    /// Write one record. When this returns `Ok`, it is in the log.
    pub(crate) async fn append(&self, entry: Entry) -> Result<(), NotWritten> {
        let (done, written) = oneshot::channel();
        self.jobs.send(Job { entry, done }).await.map_err(|_| NotWritten)?;
        if written.await.unwrap_or(false) { Ok(()) } else { Err(NotWritten) }
    }
}

fn write(mut chain: Chain, mut waiting: mpsc::Receiver<Job>) {
    let mut jobs = Vec::new();
    while waiting.blocking_recv_many(&mut jobs, WAITING) != 0 {
        let (entries, done): (Vec<_>, Vec<_>) =
            jobs.drain(..).map(|job: Job| (job.entry, job.done)).unzip();
        let written = chain.append(&entries);
        if let Err(error) = &written {
            tracing::error!(%error, records = entries.len(), "the audit log cannot be written, steps are denied");
        }
        for done in done {
            // Who asked may have gone; the record stays.
            let _ = done.send(written.is_ok());
        }
    }
}
