//! The only connection that writes runs to a file, and its replacement after a failure.

use database::CommitRecorder;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};
use uuid::Uuid;

use super::CreateResult;
use super::append::WriterTarget;
use super::batch_writer::{TaskOutcome, WriterJob, WriterTask};
use super::persisted_item::JournalItem;
use super::tasks::commit;

/// Two transactions that change nothing and write more pages than the start of a run: a disk may have room
/// for one page, and not for that. The tenant is longer than any principal.
const PROOF: &str = "INSERT OR REPLACE INTO turn (tenant, number) VALUES (hex(zeroblob(32768)), 0);
     DELETE FROM turn WHERE tenant = hex(zeroblob(32768))";

/// The connection that writes.
///
/// When a disk is full or fails, SQLite rolls the transaction back by itself. The driver counts open
/// transactions on its own and does not notice this, so it rejects every later transaction. A connection
/// with a failed transaction is therefore closed, and the next job opens another one.
#[derive(Debug)]
pub(super) struct WriterConnection {
    options: SqliteConnectOptions,
    /// None after a failure, until a new connection has written something.
    connection: Option<SqliteConnection>,
    /// None when a power failure may lose commits.
    recorder: Option<CommitRecorder>,
}

impl WriterConnection {
    pub(super) fn new(
        connection: SqliteConnection,
        options: SqliteConnectOptions,
        recorder: Option<CommitRecorder>,
    ) -> Self {
        // A file that has gone meanwhile must not be replaced by an empty one.
        let options = options.create_if_missing(false);
        Self { options, connection: Some(connection), recorder }
    }

    /// Performs jobs in order and together.
    pub(super) async fn commit(
        &mut self,
        jobs: &[WriterJob],
    ) -> Result<Vec<TaskOutcome>, sqlx::Error> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.reconnect().await?,
        };
        let committed = commit(WriterTarget::Sqlite(&mut connection), jobs).await;
        if let Ok(outcomes) = &committed {
            self.connection = Some(connection);
            self.record_commit(jobs, outcomes);
        } else {
            tracing::warn!(
                "a transaction failed; the executor replaces the connection that writes runs"
            );
            close(connection).await;
        }
        committed
    }

    /// Records the last event of a batch, so that the next start notices when the database lacks it. After a
    /// batch that deletes runs no event has to be there.
    fn record_commit(&mut self, jobs: &[WriterJob], outcomes: &[TaskOutcome]) {
        let Some(recorder) = &mut self.recorder else { return };
        let last = jobs.iter().zip(outcomes).rev().find_map(|job| match job {
            (WriterJob { task: WriterTask::Append(item), .. }, TaskOutcome::Done) => {
                let JournalItem::Event { event, .. } = item else { return None };
                Some(Some((event.run, event.seq)))
            }
            (WriterJob { task: WriterTask::Create { run, .. }, .. }, outcome) => {
                use CreateResult::{New, Queued};
                let is_new = matches!(outcome, TaskOutcome::Created(New | Queued));
                is_new.then_some(Some((run.first.run, run.first.seq)))
            }
            (_, TaskOutcome::Runs(deleted)) if !deleted.is_empty() => Some(None),
            _ => None,
        });
        let Some(last) = last else { return };
        let commit = last.map(|(run, seq)| format_commit(run, seq));
        if let Err(error) = recorder.record(commit.as_deref()) {
            tracing::warn!(%error, "the last commit could not be recorded in the lock file");
        }
    }

    /// Opens a connection, and tests with a write whether the disk accepts it.
    async fn reconnect(&self) -> Result<SqliteConnection, sqlx::Error> {
        let mut connection = self.options.connect().await?;
        if let Err(error) = sqlx::query(PROOF).execute(&mut connection).await {
            close(connection).await;
            return Err(error);
        }
        tracing::info!("the executor can write runs again");
        Ok(connection)
    }

    pub(super) async fn close(self) {
        if let Some(connection) = self.connection {
            close(connection).await;
        }
    }
}

/// Returns the text of an event in the record of the last commit. All texts have the same length.
fn format_commit(run: Uuid, seq: u64) -> String {
    format!("{run} {seq:020}")
}

/// Returns the event of a text of [`format_commit`].
pub(super) fn parse_commit(text: &str) -> Option<(Uuid, u64)> {
    let (run, seq) = text.split_once(' ')?;
    Some((run.parse().ok()?, seq.parse().ok()?))
}

/// Closes the connection, and waits until it has released its lock on the file.
async fn close(connection: SqliteConnection) {
    if let Err(error) = connection.close().await {
        tracing::warn!(%error, "the run database could not be closed cleanly");
    }
}

#[cfg(test)]
mod tests {
    use sqlx::sqlite::SqliteSynchronous;

    use super::*;
    use crate::config::{Durability, ExecutorDatabase};
    use crate::database::options;
    use crate::journal::store::RunStore;

    #[tokio::test]
    async fn disk_with_room_for_one_page_is_not_ready() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("executor.sqlite");
        let database = ExecutorDatabase::File(path.clone());
        let _store = RunStore::open(&database, Durability::Full).await.unwrap();
        let mut connection = options(&path, SqliteSynchronous::Full).connect().await.unwrap();
        let pages: i64 =
            sqlx::query_scalar("PRAGMA page_count").fetch_one(&mut connection).await.unwrap();
        for (room, is_ready) in [(0, false), (1, false), (100, true)] {
            let options = options(&path, SqliteSynchronous::Full)
                .pragma("max_page_count", (pages + room).to_string());
            let writer = WriterConnection { options, connection: None, recorder: None };
            let connected = writer.reconnect().await;
            assert_eq!(connected.is_ok(), is_ready, "{room}");
            if let Ok(connection) = connected {
                close(connection).await;
            }
        }
        let left: i64 = sqlx::query_scalar("SELECT count(*) FROM turn")
            .fetch_one(&mut connection)
            .await
            .unwrap();
        assert_eq!(left, 0);
    }
}
