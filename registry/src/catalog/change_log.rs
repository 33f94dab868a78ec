//! The changes in order: a feed for everybody, an audit for admins.

use std::sync::Arc;

use a2s::CapabilityName;
use a2s_api::Caller;
use a2s_api::{AuditEntry, AuditPage, ChangePage, MirroredRegistry};
use jiff::Timestamp;

use crate::change_feed::ChangeFeed;
use crate::store::lifecycle::{AuditActor, HistoryQuery};
use crate::store::{ChangeSeq, RegistryStore};
use crate::{Clock, Error};

/// The log of changes.
pub(crate) struct ChangeLog {
    pub(crate) store: Arc<dyn RegistryStore>,
    pub(crate) feed: Arc<ChangeFeed>,
    pub(crate) clock: Clock,
}

impl ChangeLog {
    /// At most `limit` changes after `since`.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(crate) async fn changes(&self, since: u64, limit: u32) -> Result<ChangePage, Error> {
        let after = ChangeSeq(i64::try_from(since).unwrap_or(i64::MAX));
        let mut entries =
            self.store.list_history(HistoryQuery::FeedAfter(after), limit + 1).await?;
        let more = entries.len() > limit as usize;
        entries.truncate(limit as usize);
        Ok(ChangePage {
            feed: self.feed.name.clone(),
            next: entries.last().map_or(since, |last| last.seq),
            changes: entries.into_iter().filter_map(AuditEntry::into_change).collect(),
            has_more: more,
        })
    }

    /// Returns at most `limit` audit entries before a number, of one capability or of all, the newest
    /// first.
    ///
    /// # Errors
    /// Fails when the store does not respond.
    pub(crate) async fn audit(
        &self,
        before: Option<u64>,
        name: Option<&CapabilityName>,
        limit: u32,
    ) -> Result<AuditPage, Error> {
        let before = before.map(|before| ChangeSeq(i64::try_from(before).unwrap_or(i64::MAX)));
        let mut entries =
            self.store.list_history(HistoryQuery::AuditBefore(before, name), limit + 1).await?;
        let has_more = entries.len() > limit as usize;
        entries.truncate(limit as usize);
        let next = entries.last().map(|last| last.seq).filter(|_| has_more);
        Ok(AuditPage { entries, next })
    }

    /// Returns the registries that versions were copied from.
    ///
    /// # Errors
    /// Fails when the store does not respond.
    pub(crate) async fn mirrors(&self) -> Result<Vec<MirroredRegistry>, Error> {
        Ok(self.store.list_mirrors().await?)
    }

    /// Removes audit entries from before a time, and returns the number of removed entries.
    ///
    /// # Errors
    /// When the time is in the future, or the store does not answer.
    pub(crate) async fn trim_audit(&self, before: Timestamp, by: &Caller) -> Result<u64, Error> {
        let now = (self.clock)();
        if before > now {
            let message = format!("`before` is {before}, which is in the future");
            return Err(Error::BadTrim(message));
        }
        Ok(self.store.trim_history(before, &AuditActor::from_caller(by, now)).await?)
    }
}
