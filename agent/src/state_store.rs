//! Values that are known without being said: the `StateStore` of the A2S text.

use a2s::InputField;
use a2s_api::CapabilityRef;
use async_trait::async_trait;
use serde_json::{Map, Value};

/// A source of values for missing inputs of a capability. The executor itself adds the values that it
/// stores for a session or for all runs; this store has values that only the agent's host knows.
#[async_trait]
pub trait StateStore: Send + Sync {
    /// Returns values by name, for those of the `fields` that it knows. The agent asks the user for the
    /// others.
    async fn resolve(
        &self,
        capability: &CapabilityRef,
        fields: &[InputField],
    ) -> Map<String, Value>;
}

/// A store without values.
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
