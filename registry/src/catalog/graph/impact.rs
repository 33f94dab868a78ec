//! The impact of a yank.

use std::sync::Arc;

use a2s::{Dependency, DependencyIndex, Diagnostic, VersionInfo};
use a2s_api::{BrokenDependent, ChangedDependency, YankImpact};

use super::{GraphVersion, MAX_DOCUMENTS};
use crate::Error;
use crate::documents::DocumentReader;

/// The resolver's error for a pinned version that was yanked. A document that pins it can run, but cannot
/// be published.
const PINS_YANKED: &str = "A2S065";

/// Computes the impact of a yank: links each dependent with the current versions, and as if the root
/// were yanked.
///
/// # Errors
/// Fails when the store does not respond, or a document that a dependent falls back to is damaged.
pub(super) async fn compute_impact(
    documents: &DocumentReader,
    root: &GraphVersion,
    dependants: &[GraphVersion],
    today: &DependencyIndex,
    dependencies: &[Dependency],
) -> Result<YankImpact, Error> {
    let mut then = today.clone();
    let (version, checksum) = (root.entry.version.clone(), root.entry.digest);
    let yanked = VersionInfo { version, checksum, yanked: true, deprecated: None };
    then.add_versions(&root.entry.name, [yanked]);
    // The fallback versions are not loaded yet.
    documents.load_missing(&mut then, dependencies, MAX_DOCUMENTS).await?;
    let (today, then) = (Arc::new(today.clone()), Arc::new(then));
    let mut impact = YankImpact::default();
    for known in dependants {
        let source = known.document.source.clone();
        let (before, after) = (Arc::clone(&today), Arc::clone(&then));
        let link = move || {
            let document = a2s::compile(&source).document?;
            let capability = document.capability();
            Some(new_errors(
                before.check_dependencies(capability),
                after.check_dependencies(capability),
            ))
        };
        let Some(new) = documents.compute(link).await? else { continue };
        let because: Vec<_> = new
            .iter()
            .filter(|error| error.code != PINS_YANKED)
            .map(|error| error.message.clone())
            .collect();
        let (before, after) =
            (today.closure(known.dependencies()), then.closure(known.dependencies()));
        if !because.is_empty() {
            impact.broken.push(BrokenDependent { id: known.id(), because });
        } else if after.iter().any(|pin| pin.checksum == checksum) {
            impact.pinned.push(known.id());
        } else {
            let instead = after.into_iter().filter(|pin| !before.contains(pin)).collect();
            impact.changed.push(ChangedDependency { id: known.id(), replacements: instead });
        }
    }
    impact.broken.sort_by(|a, b| a.id.cmp(&b.id));
    impact.changed.sort_by(|a, b| a.id.cmp(&b.id));
    impact.pinned.sort();
    Ok(impact)
}

/// Returns the errors that were not there before. Two errors are the same when their code and path are
/// equal, whatever versions they list.
fn new_errors(before: Vec<Diagnostic>, after: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut known: Vec<_> = before.into_iter().filter(Diagnostic::is_error).collect();
    let mut is_new = |error: &Diagnostic| {
        let same = |other: &Diagnostic| other.code == error.code && other.path == error.path;
        known.iter().position(same).map(|at| known.swap_remove(at)).is_none()
    };
    after.into_iter().filter(|error| error.is_error() && is_new(error)).collect()
}
