//! The lifecycle of names and versions after they were published.

use a2s::api::{DeprecateRequest, Deprecation, LifecycleResponse, OwnerList, OwnerUpdate};
use a2s::{Caller, CapabilityName};

use super::{Catalog, Selector};
use crate::Error;
use crate::mirror::Mirror;
use crate::store::life::{Actor, Owned, Turn, Turned};

/// The longest message of a deprecation, in characters.
const LONGEST_MESSAGE: usize = 500;

impl Catalog {
    /// Withdraws a version, or brings it back. What would break is told, and stops nothing: who
    /// withdraws a version has a reason.
    ///
    /// # Errors
    /// When there is no such version, or its name belongs to others.
    pub(crate) async fn yank(
        &self,
        name: &CapabilityName,
        selector: &Selector,
        yanked: bool,
        caller: &Caller,
        mirror: Option<&Mirror>,
    ) -> Result<LifecycleResponse, Error> {
        let impact = match yanked {
            // Even of what is damaged or hangs together with too much to be followed.
            true => self.graph(name, selector, 0, true).await.ok().and_then(|graph| graph.impact),
            false => None,
        };
        let answer = self.turn(name, selector, &Turn::Yanked(yanked), caller, mirror).await?;
        let impact = impact.filter(|_| answer.changed);
        Ok(LifecycleResponse { impact, ..answer })
    }

    /// Deprecates a version, or takes that back.
    ///
    /// # Errors
    /// When there is no such version, its name belongs to others, or the request makes no sense.
    pub(crate) async fn deprecate(
        &self,
        name: &CapabilityName,
        selector: &Selector,
        request: DeprecateRequest,
        caller: &Caller,
        mirror: Option<&Mirror>,
    ) -> Result<LifecycleResponse, Error> {
        let DeprecateRequest { message, successor, undo } = request;
        let bad = |text: String| Err(Error::BadDeprecation(text));
        let words = match undo {
            true if message.is_some() || successor.is_some() => {
                return bad("what is taken back has no message and no successor".to_owned());
            }
            true => None,
            false => Some(Deprecation { message, successor }),
        };
        if let Some(Deprecation { message: Some(message), .. }) = &words
            && (message.trim().is_empty() || message.chars().count() > LONGEST_MESSAGE)
        {
            return bad(format!("`message` has 1 to {LONGEST_MESSAGE} characters"));
        }
        if let Some(Deprecation { successor: Some(successor), .. }) = &words {
            let is_itself = successor.name == *name
                && matches!((selector, &successor.range), (Selector::Exact(version), Some(range))
                    if range.to_string() == format!("={version}"));
            if is_itself {
                return bad("a version does not succeed itself".to_owned());
            }
        }
        self.turn(name, selector, &Turn::Deprecated(words), caller, mirror).await
    }

    async fn turn(
        &self,
        name: &CapabilityName,
        selector: &Selector,
        turn: &Turn,
        caller: &Caller,
        mirror: Option<&Mirror>,
    ) -> Result<LifecycleResponse, Error> {
        let Selector::Exact(version) = selector else { return Err(Error::NotExact(name.clone())) };
        let by = Actor::of(caller, (self.clock)()).for_mirror(mirror);
        let changed = match self.store.turn(name, version, turn, &by).await? {
            Turned::Done(seq) => {
                self.live.changed(name);
                self.feed.note();
                if !self.index.wait_for(seq, self.limits.index_wait).await {
                    tracing::warn!(%name, %version, "changed, but not in the search index yet");
                }
                true
            }
            Turned::Same => false,
            Turned::NotOwner(owners) => {
                return Err(Error::NotOwner { name: name.clone(), owners });
            }
            Turned::OtherOrigin(origin) => {
                let version = Some(version.clone());
                return Err(Error::NotMirrored { name: name.clone(), version, origin });
            }
            Turned::Unknown => return Err(self.missing(name, selector).await),
        };
        let entries = self.versions(name).await?;
        let latest = Selector::Latest.choose(&entries).map(|entry| entry.version.clone());
        let Some(entry) = selector.choose(&entries) else {
            return Err(selector.missing_error(name, &entries));
        };
        Ok(LifecycleResponse {
            name: name.clone(),
            version: version.clone(),
            checksum: entry.digest,
            changed,
            yanked: entry.yanked,
            deprecated: entry.deprecated.clone(),
            latest,
            impact: None,
        })
    }

    /// Who may publish under a name.
    ///
    /// # Errors
    /// When there is no such capability.
    pub(crate) async fn owners(&self, name: &CapabilityName) -> Result<OwnerList, Error> {
        let owners = self.store.owners(name).await?;
        if owners.is_empty() {
            return Err(Error::CapabilityMissing(name.to_string()));
        }
        Ok(OwnerList { name: name.clone(), owners })
    }

    /// Changes who may.
    ///
    /// # Errors
    /// When the caller may not do that, or nobody would be left.
    pub(crate) async fn change_owners(
        &self,
        name: &CapabilityName,
        change: &OwnerUpdate,
        caller: &Caller,
    ) -> Result<OwnerList, Error> {
        let by = Actor::of(caller, (self.clock)());
        match self.store.change_owners(name, change, &by).await? {
            Owned::Owners(owners) => Ok(OwnerList { name: name.clone(), owners }),
            Owned::NotOwner(owners) => Err(Error::NotOwner { name: name.clone(), owners }),
            Owned::Last => Err(Error::LastOwner(name.clone())),
            Owned::NoSubject(subject) => Err(Error::TokenMissing(subject)),
            Owned::Unknown => Err(Error::CapabilityMissing(name.to_string())),
        }
    }
}
