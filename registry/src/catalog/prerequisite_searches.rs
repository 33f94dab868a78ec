//! The searches for the ids that a capability takes.

use a2s::{CapabilityName, Domain, InputField};
use a2s_intent::entity::{Entity, SEARCH_WORDS};

use crate::Error;
use crate::store::{RegistryStore, VersionEntry};

/// The most capabilities of a service, for each word for a search, among which prerequisites are looked for.
const MAX_SEARCHES_OF_SERVICE: u32 = 100;

/// Returns the searches of the same services for what the parameters of a capability take the id of, each
/// with the parameter.
pub(crate) async fn find_prerequisite_searches(
    store: &dyn RegistryStore,
    name: &CapabilityName,
    domains: &[Domain],
    parameters: &[InputField],
) -> Result<Vec<(VersionEntry, String)>, Error> {
    let needs: Vec<_> = parameters
        .iter()
        .filter_map(|field| Some((Entity::of_parameter(&field.name)?, &field.name)))
        .collect();
    if needs.is_empty() || domains.is_empty() {
        return Ok(Vec::new());
    }
    let entries =
        store.live_versions_with_word(domains, &SEARCH_WORDS, MAX_SEARCHES_OF_SERVICE).await?;
    let mut searches: Vec<(VersionEntry, String)> = Vec::new();
    for entry in entries.into_iter().filter(|entry| entry.name != *name) {
        let Some(found) = Entity::of_search(entry.name.as_str()) else { continue };
        let is_known = searches.iter().any(|(known, _)| known.capability == entry.capability);
        let need = needs.iter().find(|(entity, _)| *entity == found);
        if let Some((_, input)) = need.filter(|_| !is_known) {
            searches.push((entry, (*input).clone()));
        }
    }
    searches.sort_by_key(|(entry, _)| entry.capability);
    Ok(searches)
}
