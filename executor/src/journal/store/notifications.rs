//! Notifications between executors of one database: hints to look at once at what they would look at
//! after a while anyway. Whatever is missed is seen then.

#[cfg(feature = "postgres")]
mod listener;
#[cfg(not(feature = "postgres"))]
mod listener_left_out;

use database::Transaction;
use database::dialect::Engine;
use uuid::Uuid;

#[cfg(feature = "postgres")]
pub(super) use listener::NotificationListener;
#[cfg(not(feature = "postgres"))]
pub(super) use listener_left_out::NotificationListener;

/// The channel of the notifications.
pub(super) const CHANNEL: &str = "a2s_run";

/// A notification from another executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notification {
    /// A caller wants this run to end.
    Cancel(Uuid),
    /// A run has ended or waits.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "only executors of a server send it")
    )]
    RunAtRest,
    /// There are runs that no executor drives.
    RunsAvailable,
    /// The connection was lost: any notification may have been missed.
    Missed,
}

impl Notification {
    /// The text on the channel. `None` for a notification that no executor sends.
    pub(super) fn to_payload(self) -> Option<String> {
        match self {
            Self::Cancel(run) => Some(format!("cancel {run}")),
            Self::RunAtRest => Some("rest".to_owned()),
            Self::RunsAvailable => Some("free".to_owned()),
            Self::Missed => None,
        }
    }
}

/// Notifies the other executors when the transaction is committed. A file has none.
pub(super) async fn notify(
    transaction: &mut Transaction<'_>,
    notification: Notification,
) -> Result<(), sqlx::Error> {
    if transaction.engine() == Engine::Postgres
        && let Some(payload) = notification.to_payload()
    {
        let query = transaction.query("SELECT pg_notify($1, $2)");
        query.bind(CHANNEL).bind(payload).execute().await?;
    }
    Ok(())
}
