//! Notifications between executors of one database: hints to look at once at what they would look at
//! after a while anyway. Whatever is missed is seen then.

use sqlx::postgres::{PgListener, PgPool};
use uuid::Uuid;

use super::{RunStore, StoreBackend};
use crate::database::{DatabasePool, to_store_error};
use crate::error::Error;

/// The channel of the notifications.
pub(super) const CHANNEL: &str = "a2s_run";
/// Notifies that a run is to be cancelled, by its id.
pub(super) const NOTIFY_CANCEL: &str = "SELECT pg_notify('a2s_run', 'cancel ' || $1)";
/// Notifies that a run has ended or waits.
pub(super) const NOTIFY_REST: &str = "SELECT pg_notify('a2s_run', 'rest')";
/// Notifies that there are runs that no executor drives.
pub(super) const NOTIFY_FREE: &str = "SELECT pg_notify('a2s_run', 'free')";

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
pub(crate) struct NotificationListener(PgListener);

impl RunStore {
    /// Listens to the other executors. Returns `None` when there can be no other executors.
    ///
    /// # Errors
    /// Fails when the database does not respond.
    pub(crate) async fn listen(&self) -> Result<Option<NotificationListener>, Error> {
        let StoreBackend::Sql { reads: DatabasePool::Postgres(pool), .. } = &self.backend else {
            return Ok(None);
        };
        connect(pool).await.map(Some).map_err(to_store_error(super::WHAT))
    }
}

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

/// Reads a notification; `None` for an unknown one, which a newer executor has sent.
fn parse_notification(text: &str) -> Option<Notification> {
    match text.split_once(' ') {
        Some(("cancel", run)) => run.parse().ok().map(Notification::Cancel),
        None if text == "rest" => Some(Notification::RunAtRest),
        None if text == "free" => Some(Notification::RunsAvailable),
        _ => None,
    }
}
