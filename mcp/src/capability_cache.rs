//! A cache of capabilities by checksum. The content of a checksum never changes, so each capability is read
//! only once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use a2s::{CapabilityInterface, CapabilityName, Digest, Document, InputField, TaskStep};
use a2s_api::CapabilityRef;
use semver::Version;

use super::tool_result::ToolError;
use agent::RemoteRegistry;

/// The most capabilities in the cache. When it is full, it is emptied.
const MAX_CACHED: usize = 2_000;

/// The known properties of a capability, from its document.
#[derive(Debug)]
pub(super) struct CapabilityInfo {
    pub(super) name: CapabilityName,
    pub(super) version: Version,
    pub(super) digest: Digest,
    pub(super) description: String,
    pub(super) interface: CapabilityInterface,
    /// Set when none of its own tasks changes anything.
    pub(super) own_read_only: bool,
    /// Set when each of its own tasks may be repeated.
    pub(super) own_idempotent: bool,
}

impl CapabilityInfo {
    fn from_document(document: &Document) -> Self {
        let capability = document.capability();
        let (mut own_read_only, mut own_idempotent) = (true, true);
        capability.for_each_task(|_, TaskStep { task, .. }| {
            own_read_only &= task.is_read_only();
            own_idempotent &= task.is_idempotent();
        });
        Self {
            name: capability.name.clone(),
            version: capability.version.clone(),
            digest: document.digest(),
            description: capability.description.clone(),
            interface: document.interface_as_written(),
            own_read_only,
            own_idempotent,
        }
    }

    /// Returns the reference to this version.
    pub(super) fn pin(&self) -> CapabilityRef {
        CapabilityRef {
            name: self.name.clone(),
            version: self.version.clone(),
            checksum: self.digest,
        }
    }

    /// One of its own inputs.
    pub(super) fn field(&self, name: &str) -> Option<&InputField> {
        self.interface.inputs.iter().find(|field| field.name == name)
    }

    /// Returns the names of its own inputs that are not secret.
    pub(super) fn open_inputs(&self) -> impl Iterator<Item = &str> {
        self.interface.inputs.iter().filter(|field| !field.secret).map(|field| field.name.as_str())
    }
}

/// The known capabilities. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct CapabilityCache(Arc<Mutex<BTreeMap<Digest, Arc<CapabilityInfo>>>>);

impl CapabilityCache {
    /// Finds a version, or the newest in a range. Asks the registry for its document unless the content is
    /// already known.
    pub(super) async fn find(
        &self,
        registry: &RemoteRegistry,
        name: &CapabilityName,
        version: Option<&str>,
        digest: Option<Digest>,
    ) -> Result<Arc<CapabilityInfo>, ToolError> {
        if let Some(known) = digest.and_then(|digest| self.known(digest))
            && known.name == *name
            && version.is_none_or(|version| version == known.version.to_string())
        {
            return Ok(known);
        }
        let (document, _) = registry.get_document(name, version.unwrap_or(LATEST), digest).await?;
        let fact = Arc::new(CapabilityInfo::from_document(&document));
        self.remember(&fact);
        Ok(fact)
    }

    /// Finds the capability of an exact version.
    pub(super) async fn find_pinned(
        &self,
        registry: &RemoteRegistry,
        pin: &CapabilityRef,
    ) -> Result<Arc<CapabilityInfo>, ToolError> {
        let version = pin.version.to_string();
        self.find(registry, &pin.name, Some(&version), Some(pin.checksum)).await
    }

    fn known(&self, digest: Digest) -> Option<Arc<CapabilityInfo>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&digest).cloned()
    }

    fn remember(&self, fact: &Arc<CapabilityInfo>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_CACHED {
            known.clear();
        }
        known.insert(fact.digest, Arc::clone(fact));
    }
}

/// The selector of the newest version.
pub(super) const LATEST: &str = "latest";
