//! Notifications between executors of one database: hints to look at once at what they would look at
//! after a while anyway. Whatever is missed is seen then.

use sqlx::postgres::{PgListener, PgPool};
use uuid::Uuid;

use super::{Home, Store};
use crate::database::{Pool, failed};
use crate::error::Error;

/// Where it is told.
pub(super) const CHANNEL: &str = "a2s_run";
/// Tells that a run is to be cancelled, by its id.
pub(super) const TELL_CANCEL: &str = "SELECT pg_notify('a2s_run', 'cancel ' || $1)";
/// Tells that something has ended or waits.
pub(super) const TELL_REST: &str = "SELECT pg_notify('a2s_run', 'rest')";
/// Tells that there are runs which nobody drives.
pub(super) const TELL_FREE: &str = "SELECT pg_notify('a2s_run', 'free')";

/// What was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// Somebody wants this run to end.
    Cancel(Uuid),
    /// A run has ended or waits.
    Rest,
    /// Runs are there that nobody drives.
    Free,
    /// The connection was lost: anything may have been told.
    Missed,
}

/// Somebody who listens.
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
    /// What is told next. A connection that was lost is made anew.
    ///
    /// # Errors
    /// When it cannot be made now.
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

/// What a text means; none when a newer executor has told it.
fn read(text: &str) -> Option<Word> {
    match text.split_once(' ') {
        Some(("cancel", run)) => run.parse().ok().map(Word::Cancel),
        None if text == "rest" => Some(Word::Rest),
        None if text == "free" => Some(Word::Free),
        _ => None,
    }
}
