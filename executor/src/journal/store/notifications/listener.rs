//! Notifications that PostgreSQL delivers.

use database::Pool;
use sqlx::postgres::PgListener;

use super::super::{StoreBackend, WHAT};
use super::{CHANNEL, Notification};
use crate::database::to_store_error;
use crate::error::Error;

/// A listener for notifications.
pub(crate) struct NotificationListener(PgListener);

impl NotificationListener {
    /// Starts to listen. Returns `None` on a database that only one executor can have.
    ///
    /// # Errors
    /// Fails when the database does not respond.
    pub(in crate::journal::store) async fn open(
        backend: &StoreBackend,
    ) -> Result<Option<Self>, Error> {
        let StoreBackend::Sql { reads: Pool::Postgres(pool), .. } = backend else {
            return Ok(None);
        };
        let to_error = to_store_error(WHAT);
        let mut listener = PgListener::connect_with(pool).await.map_err(&to_error)?;
        listener.listen(CHANNEL).await.map_err(to_error)?;
        Ok(Some(Self(listener)))
    }

    /// Waits for the next notification. A lost connection is opened again.
    ///
    /// # Errors
    /// When it cannot be opened now.
    pub(crate) async fn next_notification(&mut self) -> Result<Notification, Error> {
        loop {
            let Some(notification) = self.0.try_recv().await.map_err(to_store_error(WHAT))? else {
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
