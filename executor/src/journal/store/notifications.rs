//! Notifications between executors of one database: hints to look at once at what they would look at
//! after a while anyway. Whatever is missed is seen then.

use database::dialect::Engine;
use database::{Pool, Transaction};
#[cfg(feature = "postgres")]
use sqlx::postgres::{PgListener, PgPool};
use uuid::Uuid;

use super::{RunStore, StoreBackend};
use crate::database::to_store_error;
use crate::error::Error;

/// The channel of the notifications.
const CHANNEL: &str = "a2s_run";

/// A notification from another executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notification {
    /// A caller wants this run to end.
    Cancel(Uuid),
    /// A run has ended or waits.
    RunAtRest,
    /// There are runs that no executor drives.
    RunsAvailable,
    /// The connection was lost: any notification may have been missed.
    Missed,
}

/// A listener for notifications.
#[cfg(feature = "postgres")]
pub(crate) struct NotificationListener(PgListener);

/// A listener for notifications, which a build without PostgreSQL does not have.
#[cfg(not(feature = "postgres"))]
pub(crate) enum NotificationListener {}

impl RunStore {
    /// Listens to the other executors. Returns `None` when there can be no other executors.
    ///
    /// # Errors
    /// Fails when the database does not respond.
    pub(crate) async fn listen(&self) -> Result<Option<NotificationListener>, Error> {
        #[cfg(feature = "postgres")]
        if let StoreBackend::Sql { reads: Pool::Postgres(pool), .. } = &self.backend {
            return connect(pool).await.map(Some).map_err(to_store_error(super::WHAT));
        }
        Ok(None)
    }
}

#[cfg(feature = "postgres")]
async fn connect(pool: &PgPool) -> Result<NotificationListener, sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(CHANNEL).await?;
    Ok(NotificationListener(listener))
}

impl NotificationListener {
    /// Waits for the next notification. A lost connection is opened again.
    ///
    /// # Errors
    /// When it cannot be opened now.
    pub(crate) async fn next_notification(&mut self) -> Result<Notification, Error> {
        #[cfg(not(feature = "postgres"))]
        match *self {}
        #[cfg(feature = "postgres")]
        loop {
            let Some(notification) =
                self.0.try_recv().await.map_err(to_store_error(super::WHAT))?
            else {
                return Ok(Notification::Missed);
            };
            if let Some(word) = parse_notification(notification.payload()) {
                return Ok(word);
            }
        }
    }
}

/// Notifies the other executors when the transaction is committed. A file has none.
pub(super) async fn notify(
    transaction: &mut Transaction<'_>,
    notification: Notification,
) -> Result<(), sqlx::Error> {
    if transaction.engine() == Engine::Postgres {
        let text = match notification {
            Notification::Cancel(run) => format!("cancel {run}"),
            Notification::RunAtRest => "rest".to_owned(),
            Notification::RunsAvailable => "free".to_owned(),
            // Nobody sends that.
            Notification::Missed => return Ok(()),
        };
        let query = transaction.query("SELECT pg_notify($1, $2)");
        query.bind(CHANNEL).bind(text).execute().await?;
    }
    Ok(())
}

/// Reads a notification; `None` for an unknown one, which a newer executor has sent.
fn parse_notification(text: &str) -> Option<Notification> {
    match text.split_once(' ') {
        Some(("cancel", run)) => run.parse().ok().map(Notification::Cancel),
        None if text == "rest" => Some(Notification::RunAtRest),
        None if text == "free" => Some(Notification::RunsAvailable),
        _ => None,
    }
}
