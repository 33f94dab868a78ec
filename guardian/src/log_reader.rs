//! Reading the own log for callers: records, a check of the chain, trials of policies.

use std::path::{Path, PathBuf};

use tokio::sync::Mutex;

use crate::audit::{
    self, LogStart, NewestRecords, RecordFilter, RecordRange, RecordReader, VerifiedLog,
    read_newest,
};
use crate::error::RejectionCode;
use crate::policy::Policy;
use crate::policy_trial::PolicyTrial;

/// Reads the audit log of a guardian, one read after another.
pub(crate) struct LogReader {
    /// The current segment of the log; closed ones are in the same folder.
    path: PathBuf,
    /// The lock that is held during a read, so that callers cannot use up memory and threads together.
    lock: Mutex<()>,
}

impl LogReader {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, lock: Mutex::default() }
    }

    /// Returns the latest records that a filter chooses, the newest first.
    pub(crate) async fn read_records(
        &self,
        range: RecordRange,
        filter: RecordFilter,
    ) -> Result<NewestRecords, RejectionCode> {
        self.read(move |path| read_newest(path, range, &filter)).await
    }

    /// Checks the chain of the log from its oldest segment. Returns what was read, and the first error.
    pub(crate) async fn verify(&self) -> Result<(VerifiedLog, Option<String>), RejectionCode> {
        let check = |path: &Path| {
            let mut records = match RecordReader::open(path, &LogStart::Oldest) {
                Ok(records) => records,
                Err(audit::LogCorruption::Unreadable(error)) => return Err(error),
                Err(broken) => return Ok((VerifiedLog::default(), Some(broken.to_string()))),
            };
            let broken = records.by_ref().find_map(Result::err);
            Ok((records.verified().clone(), broken.map(|broken| broken.to_string())))
        };
        self.read(check).await
    }

    /// Tries a policy on the latest decisions, at most `limit` of them.
    pub(crate) async fn try_policy(
        &self,
        policy: Policy,
        limit: usize,
    ) -> Result<PolicyTrial, RejectionCode> {
        let filter = RecordFilter { event: Some("decision".to_owned()), ..RecordFilter::default() };
        let range = RecordRange { before: None, after: 0, limit };
        let run = move |path: &Path| {
            let NewestRecords { mut records, .. } = read_newest(path, range, &filter)?;
            // A preview of a plan is no step.
            records.retain(|record| record["capability"]["preview"] != true);
            records.reverse();
            Ok(PolicyTrial::run(&policy, &records))
        };
        self.read(run).await
    }

    /// Reads the log on a thread where that may take long.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Path) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, RejectionCode> {
        let _one = self.lock.lock().await;
        let path = self.path.clone();
        let result = tokio::task::spawn_blocking(move || read(&path)).await;
        result.unwrap_or_else(|panic| Err(std::io::Error::other(panic))).map_err(|error| {
            tracing::warn!(%error, "the audit log cannot be read");
            RejectionCode::LogUnreadable
        })
    }
}
