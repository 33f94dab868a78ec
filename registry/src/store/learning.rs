//! The store of accepted intents, as vectors.

use std::collections::BTreeMap;

use a2s::{CapabilityName, Digest};
use a2s_api::TokenSubject;
use async_trait::async_trait;
use jiff::Timestamp;

use super::lifecycle::AuditActor;
use super::{CapabilityId, ChangeSeq, Error};
use crate::learned_intents::LearnedMean;

/// An intent that was accepted for a capability.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewIntent {
    pub(crate) name: CapabilityName,
    /// The slot of the executor.
    pub(crate) reporter: u8,
    /// The slot of the intent, among those of the executor.
    pub(crate) slot: u8,
    /// Its vectors, each of length one, by the ids of their embedders.
    pub(crate) vectors: BTreeMap<String, Vec<f32>>,
    pub(crate) at: Timestamp,
}

/// The result of the removal of intents.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ForgetResult {
    /// The index has to follow the change with this number.
    Forgotten(ChangeSeq),
    /// There was nothing to remove.
    Unchanged,
    /// The name belongs to others; nothing changed.
    NotOwner(Vec<TokenSubject>),
    /// There is no such capability; nothing changed.
    Unknown,
}

/// A store of accepted intents.
#[async_trait]
pub(crate) trait LearningStore: Send + Sync {
    /// Stores an intent in the place of an earlier one with the same slots. Returns true when the mean of
    /// the capability's intents has changed, and the index has to follow.
    async fn learn_intent(&self, new: &NewIntent) -> Result<bool, Error>;

    /// Returns the means of capabilities by an embedder.
    async fn load_learned(
        &self,
        capabilities: &[CapabilityId],
        embedder: &str,
    ) -> Result<BTreeMap<CapabilityId, LearnedMean>, Error>;

    /// Returns the means of the capabilities of documents by an embedder.
    async fn load_learned_of_documents(
        &self,
        documents: &[Digest],
        embedder: &str,
    ) -> Result<BTreeMap<Digest, LearnedMean>, Error>;

    /// Removes all intents of a capability, and records that.
    async fn forget_learned(
        &self,
        name: &CapabilityName,
        by: &AuditActor,
    ) -> Result<ForgetResult, Error>;

    /// Records if the index uses the means. When this is new, it appends a change for each capability that
    /// has one.
    async fn set_learning(&self, is_on: bool, at: Timestamp) -> Result<(), Error>;
}
