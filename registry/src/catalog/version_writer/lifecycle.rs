//! The lifecycle of names and versions after they were published.

use a2s::CapabilityName;
use a2s_api::Caller;
use a2s_api::{
    DeprecateRequest, Deprecation, ForgetResponse, LifecycleResponse, OwnerList, OwnerUpdate,
    SuccessorRef,
};

use super::VersionWriter;
use crate::Error;
use crate::catalog::{VersionSelection, build_graph};
use crate::mirror::MirrorSource;
use crate::store::learning::ForgetResult;
use crate::store::lifecycle::{AuditActor, LifecycleChange, LifecycleResult, OwnerResult};

/// The maximum length of the message of a deprecation, in characters.
const MAX_MESSAGE_LENGTH: usize = 500;

/// A change of the visibility of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum YankAction {
    /// Yank the version if no published version breaks.
    Yank,
    /// Yank the version even if published versions break.
    ForceYank,
    /// Bring the version back.
    Unyank,
}

impl VersionWriter {
    /// Yanks a version, or brings it back. Dependents that would break prevent the yank without `force`. A
    /// mirror repeats the decision of its source, so they do not prevent its yank.
    ///
    /// # Errors
    /// Fails when the version does not exist, its name belongs to others, or published versions would break.
    pub(crate) async fn yank(
        &self,
        name: &CapabilityName,
        selector: &VersionSelection,
        action: YankAction,
        caller: &Caller,
        mirror: Option<&MirrorSource>,
    ) -> Result<LifecycleResponse, Error> {
        let yanked = action != YankAction::Unyank;
        let impact = match yanked {
            // A damaged version, or one with too large a graph, can be yanked too.
            true => build_graph(&self.versions, name, selector, 0, true)
                .await
                .ok()
                .and_then(|graph| graph.impact),
            false => None,
        };
        if let (YankAction::Yank, None, VersionSelection::Exact(version)) = (action, mirror, selector)
            && let Some(broken) = impact.as_ref().map(|impact| &impact.broken)
            && !broken.is_empty()
            // The store refuses all others, whatever breaks.
            && AuditActor::from_caller(caller, (self.clock)())
                .owns(&self.versions.store.list_owners(name).await?)
        {
            let (name, version) = (name.clone(), version.clone());
            return Err(Error::YankBreaks { name, version, broken: broken.clone() });
        }
        let answer = self
            .change_lifecycle(name, selector, &LifecycleChange::Yanked(yanked), caller, mirror)
            .await?;
        let impact = impact.filter(|_| answer.changed);
        Ok(LifecycleResponse { impact, ..answer })
    }

    /// Deprecates a version, or removes its deprecation.
    ///
    /// # Errors
    /// Fails when the version does not exist, its name belongs to others, or the request is invalid.
    pub(crate) async fn deprecate(
        &self,
        name: &CapabilityName,
        selector: &VersionSelection,
        request: DeprecateRequest,
        caller: &Caller,
        mirror: Option<&MirrorSource>,
    ) -> Result<LifecycleResponse, Error> {
        let DeprecateRequest { message, successor, undo } = request;
        let bad = |text: String| Err(Error::BadDeprecation(text));
        let words = match undo {
            true if message.is_some() || successor.is_some() => {
                return bad("`undo` must not have `message` or `successor`".to_owned());
            }
            true => None,
            false => Some(Deprecation { message, successor }),
        };
        if let Some(Deprecation { message: Some(message), .. }) = &words
            && (message.trim().is_empty() || message.chars().count() > MAX_MESSAGE_LENGTH)
        {
            return bad(format!("`message` must have 1 to {MAX_MESSAGE_LENGTH} characters"));
        }
        if let Some(Deprecation { successor: Some(successor), .. }) = &words
            // A mirror may copy the deprecation before it copies the successor.
            && mirror.is_none()
        {
            self.check_successor(successor, name, selector).await?;
        }
        self.change_lifecycle(name, selector, &LifecycleChange::Deprecated(words), caller, mirror)
            .await
    }

    /// Checks that a published version other than the deprecated one fits the successor.
    async fn check_successor(
        &self,
        successor: &SuccessorRef,
        deprecated: &CapabilityName,
        deprecated_version: &VersionSelection,
    ) -> Result<(), Error> {
        let mut entries = self.versions.store.list_versions(&successor.name).await?;
        let selection = match &successor.range {
            Some(range) => VersionSelection::Range(range.clone()),
            None => VersionSelection::Latest,
        };
        if selection.select(&entries).is_none() {
            return Err(selection.missing_error(&successor.name, &entries));
        }
        if let (true, VersionSelection::Exact(version)) =
            (successor.name == *deprecated, deprecated_version)
        {
            entries.retain(|entry| entry.version != *version);
        }
        match selection.select(&entries) {
            Some(_) => Ok(()),
            None => Err(Error::BadDeprecation("a version cannot be its own successor".to_owned())),
        }
    }

    async fn change_lifecycle(
        &self,
        name: &CapabilityName,
        selector: &VersionSelection,
        turn: &LifecycleChange,
        caller: &Caller,
        mirror: Option<&MirrorSource>,
    ) -> Result<LifecycleResponse, Error> {
        let VersionSelection::Exact(version) = selector else {
            return Err(Error::NotExact(name.clone()));
        };
        let by = AuditActor::from_caller(caller, (self.clock)()).for_mirror(mirror);
        let changed = match self.versions.store.change_lifecycle(name, version, turn, &by).await? {
            LifecycleResult::Changed(seq) => {
                if !self.announce(name, seq).await {
                    tracing::warn!(%name, %version, "the version is changed, but the search index does not have the change yet");
                }
                true
            }
            LifecycleResult::Unchanged => false,
            LifecycleResult::NotOwner(owners) => {
                return Err(Error::NotOwner { name: name.clone(), owners });
            }
            LifecycleResult::OtherOrigin(origin) => {
                let version = Some(version.clone());
                return Err(Error::NotMirrored { name: name.clone(), version, origin });
            }
            LifecycleResult::Unknown => {
                return Err(self.versions.version_missing_error(name, selector).await);
            }
        };
        let entries = self.versions.known_versions(name).await?;
        let latest = VersionSelection::Latest.select(&entries).map(|entry| entry.version.clone());
        let Some(entry) = selector.select(&entries) else {
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

    /// Removes the accepted intents of a capability.
    ///
    /// # Errors
    /// Fails when the capability does not exist or belongs to others.
    pub(crate) async fn forget_intents(
        &self,
        name: &CapabilityName,
        caller: &Caller,
    ) -> Result<ForgetResponse, Error> {
        let by = AuditActor::from_caller(caller, (self.clock)());
        let changed = match self.versions.store.forget_learned(name, &by).await? {
            ForgetResult::Forgotten(seq) => {
                if !self.announce(name, seq).await {
                    tracing::warn!(%name, "the accepted intents are removed, but the search index does not have the change yet");
                }
                true
            }
            ForgetResult::Unchanged => false,
            ForgetResult::NotOwner(owners) => {
                return Err(Error::NotOwner { name: name.clone(), owners });
            }
            ForgetResult::Unknown => return Err(Error::CapabilityMissing(name.to_string())),
        };
        Ok(ForgetResponse { name: name.clone(), changed })
    }

    /// The owners of a name: the subjects that may publish under it.
    ///
    /// # Errors
    /// When there is no such capability.
    pub(crate) async fn list_owners(&self, name: &CapabilityName) -> Result<OwnerList, Error> {
        let owners = self.versions.store.list_owners(name).await?;
        if owners.is_empty() {
            return Err(Error::CapabilityMissing(name.to_string()));
        }
        Ok(OwnerList { name: name.clone(), owners })
    }

    /// Changes the owners of a name.
    ///
    /// # Errors
    /// When the caller is not allowed to, or the name would have no owner.
    pub(crate) async fn change_owners(
        &self,
        name: &CapabilityName,
        change: &OwnerUpdate,
        caller: &Caller,
    ) -> Result<OwnerList, Error> {
        let by = AuditActor::from_caller(caller, (self.clock)());
        match self.versions.store.change_owners(name, change, &by).await? {
            OwnerResult::Owners(owners) => Ok(OwnerList { name: name.clone(), owners }),
            OwnerResult::NotOwner(owners) => Err(Error::NotOwner { name: name.clone(), owners }),
            OwnerResult::LastOwner => Err(Error::LastOwner(name.clone())),
            OwnerResult::UnknownSubject(subject) => Err(Error::TokenMissing(subject)),
            OwnerResult::Unknown => Err(Error::CapabilityMissing(name.to_string())),
        }
    }
}
