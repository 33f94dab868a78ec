//! Values that are known without being said: the `StateStore` of the A2S text.

use a2s::InputField;
use a2s::api::CapabilityRef;
use async_trait::async_trait;
use serde_json::{Map, Value};

/// Knows values that a capability lacks. What an executor remembers of a session, or for good, it
/// fills in by itself; this is what only the agent's own side knows.
#[async_trait]
pub trait StateStore: Send + Sync {
    /// Values by name, for as many of `fields` as are known. The rest is asked for.
    async fn resolve(
        &self,
        capability: &CapabilityRef,
        fields: &[InputField],
    ) -> Map<String, Value>;
}

/// Knows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct EmptyState;

#[async_trait]
impl StateStore for EmptyState {
    async fn resolve(&self, _: &CapabilityRef, _: &[InputField]) -> Map<String, Value> {
        Map::new()
    }
}

/// Values by name, the same for every capability.
#[async_trait]
impl StateStore for Map<String, Value> {
    async fn resolve(&self, _: &CapabilityRef, fields: &[InputField]) -> Self {
        let known = |field: &InputField| Some((field.name.clone(), self.get(&field.name)?.clone()));
        fields.iter().filter_map(known).collect()
    }
}
