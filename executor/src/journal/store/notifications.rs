//! Notifications between executors of one database: hints to look at once at what they would look at
//! after a while anyway. Whatever is missed is seen then.

use sqlx::postgres::{PgListener, PgPool};
use uuid::Uuid;

use super::{Home, Store};
use crate::database::{Pool, failed};
use crate::error::Error;

/// The channel of the notifications.
pub(super) const CHANNEL: &str = "a2s_run";
/// Notifies that a run is to be cancelled, by its id.
pub(super) const TELL_CANCEL: &str = "SELECT pg_notify('a2s_run', 'cancel ' || $1)";
/// Notifies that a run has ended or waits.
pub(super) const TELL_REST: &str = "SELECT pg_notify('a2s_run', 'rest')";
/// Notifies that there are runs that no executor drives.
pub(super) const TELL_FREE: &str = "SELECT pg_notify('a2s_run', 'free')";

/// A notification from another executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// A caller wants this run to end.
    Cancel(Uuid),
    /// A run has ended or waits.
    Rest,
    /// There are runs that no executor drives.
    Free,
    /// The connection was lost: any notification may have been missed.
    Missed,
}

/// A listener for notifications.
pub(crate) struct Listener(PgListener);

impl Store {
    /// Listens to the other executors; none where there can be no others.
    ///
    /// # Errors
    /// When the database does not answer.
    pub(crate) async fn listen(&self) -> Result<Option<Listener>, Error> {
        let Home::Database { reads: Pool::Postgres(pool), .. } = &self.home else {
            return Ok(None);
        };
        connect(pool).await.map(Some).map_err(failed(super::WHAT))
    }
}

async fn connect(pool: &PgPool) -> Result<Listener, sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(CHANNEL).await?;
    Ok(Listener(listener))
}

impl Listener {
    /// Waits for the next notification. A lost connection is opened again.
    ///
    /// # Errors
    /// When it cannot be opened now.
    pub(crate) async fn hear(&mut self) -> Result<Word, Error> {
        loop {
            let Some(told) = self.0.try_recv().await.map_err(failed(super::WHAT))? else {
                return Ok(Word::Missed);
            };
            if let Some(word) = read(told.payload()) {
                return Ok(word);
            }
        }
    }
}

/// Reads a notification; `None` for an unknown one, which a newer executor has sent.
fn read(text: &str) -> Option<Word> {
    match text.split_once(' ') {
        Some(("cancel", run)) => run.parse().ok().map(Word::Cancel),
        None if text == "rest" => Some(Word::Rest),
        None if text == "free" => Some(Word::Free),
        _ => None,
    }
}
