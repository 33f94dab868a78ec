//! The lifecycle of names and versions after they were published.

use a2s::CapabilityName;
use a2s_api::Caller;
use a2s_api::{
    DeprecateRequest, Deprecation, ForgetResponse, LifecycleResponse, OwnerList, OwnerUpdate,
};

use super::VersionWriter;
use crate::Error;
use crate::catalog::{VersionSelection, build_graph};
use crate::mirror::MirrorSource;
use crate::store::learning::ForgetResult;
use crate::store::lifecycle::{AuditActor, LifecycleChange, LifecycleResult, OwnerResult};

/// The maximum length of the message of a deprecation, in characters.
const MAX_MESSAGE_LENGTH: usize = 500;

impl VersionWriter {
    /// Yanks a version, or brings it back. The response lists the dependents that would break, but they do
    /// not prevent the yank.
    ///
    /// # Errors
    /// When there is no such version, or its name belongs to others.
    pub(crate) async fn yank(
        &self,
        name: &CapabilityName,
        selector: &VersionSelection,
        yanked: bool,
        caller: &Caller,
        mirror: Option<&MirrorSource>,
    ) -> Result<LifecycleResponse, Error> {
        let impact = match yanked {
            // A damaged version, or one with too large a graph, can be yanked too.
            true => build_graph(&self.versions, name, selector, 0, true)
                .await
                .ok()
                .and_then(|graph| graph.impact),
            false => None,
        };
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
        if let Some(Deprecation { successor: Some(successor), .. }) = &words {
            let is_itself = successor.name == *name
                && matches!((selector, &successor.range), (VersionSelection::Exact(version), Some(range))
                    if range.to_string() == format!("={version}"));
            if is_itself {
                return bad("a version cannot be its own successor".to_owned());
            }
        }
        self.change_lifecycle(name, selector, &LifecycleChange::Deprecated(words), caller, mirror)
            .await
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
