//! The order in which documents can be published.

use std::collections::BTreeMap;

use a2s::{CapabilityName, Document};

/// Sorts documents so that each comes after those that it depends on. Documents that cannot be read keep
/// their position: the registry reports their errors.
pub(crate) fn sort_by_dependency<N>(documents: Vec<(N, Vec<u8>)>) -> Vec<(N, Vec<u8>)> {
    let needs: Vec<(Option<CapabilityName>, Vec<CapabilityName>)> = documents
        .iter()
        .map(|(_, source)| match Document::open(source) {
            Ok(document) => {
                let capability = document.capability();
                let needs = capability.dependencies.iter().map(|d| d.capability.clone());
                (Some(capability.name.clone()), needs.collect())
            }
            Err(_) => (None, Vec::new()),
        })
        .collect();
    let places: BTreeMap<&CapabilityName, usize> = needs
        .iter()
        .enumerate()
        .filter_map(|(place, (name, _))| Some((name.as_ref()?, place)))
        .collect();
    let mut ranks = vec![0_usize; documents.len()];
    // A chain is at most as long as there are documents; a cycle stops rising then, and the
    // registry refuses it.
    for _ in 0..documents.len() {
        for (place, (_, names)) in needs.iter().enumerate() {
            let below = names.iter().filter_map(|name| places.get(name)).map(|&p| ranks[p] + 1);
            ranks[place] = below.max().unwrap_or(0).min(documents.len());
        }
    }
    let mut ranked: Vec<_> = ranks.into_iter().zip(documents).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, document)| document).collect()
}
