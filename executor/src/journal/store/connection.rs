//! The only connection that writes runs to a file, and its replacement after a failure.

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};

use super::append::WriterTarget;
use super::batch_writer::{TaskOutcome, WriterJob};
use super::tasks::commit;

/// A small write that changes nothing.
const PROOF: &str = "UPDATE executor SET identity = identity";

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
}

impl WriterConnection {
    pub(super) fn new(connection: SqliteConnection, options: SqliteConnectOptions) -> Self {
        // A file that has gone meanwhile must not be replaced by an empty one.
        Self { options: options.create_if_missing(false), connection: Some(connection) }
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
        if committed.is_ok() {
            self.connection = Some(connection);
        } else {
            tracing::warn!(
                "a transaction failed; the executor replaces the connection that writes runs"
            );
            close(connection).await;
        }
        committed
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

/// Closes the connection, and waits until it has released its lock on the file.
async fn close(connection: SqliteConnection) {
    if let Err(error) = connection.close().await {
        tracing::warn!(%error, "the run database could not be closed cleanly");
    }
}
