//! Notifications in a build without PostgreSQL: a database has only one executor, so there are none.
#![expect(clippy::needless_pass_by_ref_mut, clippy::unused_async, reason = "as with PostgreSQL")]

use super::super::StoreBackend;
use super::Notification;
use crate::error::Error;

/// A listener for notifications, which a build without PostgreSQL does not have.
pub(crate) enum NotificationListener {}

impl NotificationListener {
    /// Returns `None`: there are no other executors.
    ///
    /// # Errors
    /// Never.
    pub(in crate::journal::store) async fn open(
        _backend: &StoreBackend,
    ) -> Result<Option<Self>, Error> {
        Ok(None)
    }

    /// Waits for the next notification. There is none.
    ///
    /// # Errors
    /// Never, because there is no listener.
    pub(crate) async fn next_notification(&mut self) -> Result<Notification, Error> {
        match *self {}
    }
}
