//! Loads the capabilities that a document uses from the registry.

use std::collections::BTreeSet;
use std::sync::Arc;

use a2s::{
    Capability, CapabilityName, DependencyIndex, DependencyInterface, Document, MissingDependency,
    VersionInfo,
};
use agent::RemoteRegistry;

use super::version_spec::VersionSpec;
use crate::cli_error::{BAD_ANSWER, CliError, CliExitCode};
use crate::client::ServiceClient;

/// The registry's code for a name that is not published.
const NOT_PUBLISHED: &str = "A2S220";

/// Adds the registry's data about all dependencies of `capability` to the index. `asked` contains the names
/// that were requested from the registry before; `keep` receives every loaded document.
///
/// # Errors
/// Fails when the registry does not respond, or when its responses contradict each other.
pub(super) async fn load_dependencies(
    index: &mut DependencyIndex,
    asked: &mut BTreeSet<CapabilityName>,
    capability: &Capability,
    client: &ServiceClient,
    mut keep: impl FnMut(Document),
) -> Result<(), CliError> {
    loop {
        let needs = index.missing_dependencies(&capability.dependencies);
        let mut names: BTreeSet<CapabilityName> =
            index.closure(&capability.dependencies).into_iter().map(|pin| pin.name).collect();
        names.extend(capability.dependencies.iter().map(|below| below.capability.clone()));
        names.extend(needs.iter().map(|need| need.name().clone()));
        names.retain(|name| !asked.contains(name));
        if needs.is_empty() && names.is_empty() {
            return Ok(());
        }
        for name in names {
            index.add_versions(&name, fetch_versions(&name, client).await?);
            asked.insert(name);
        }
        for need in needs {
            let MissingDependency::Document(name, listing) = need else { continue };
            if index.len() >= a2s::MAX_PINS {
                let message = format!("`{}` has too many dependencies", capability.name);
                return Err(CliError::new(CliExitCode::Bad, BAD_ANSWER, message)
                    .with_hint("Use fewer dependencies in these capabilities."));
            }
            let (version, digest) = (listing.version.to_string(), Some(listing.checksum));
            // It must match the list of versions.
            let registry = RemoteRegistry::new(client.clone());
            let (document, _) = registry.get_document(&name, &version, digest).await?;
            index.add_interface(
                listing.checksum,
                Arc::new(DependencyInterface::from_capability(document.capability())),
            );
            keep(document);
        }
    }
}

/// Returns the published versions of a capability; the list is empty when it is not published.
async fn fetch_versions(
    name: &CapabilityName,
    client: &ServiceClient,
) -> Result<Vec<VersionInfo>, CliError> {
    let versions = match RemoteRegistry::new(client.clone()).versions(name).await {
        Ok(answer) => answer.versions,
        Err(error) if error.code() == Some(NOT_PUBLISHED) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let listing = |version: a2s_api::CapabilitySummary| VersionInfo {
        version: version.version,
        checksum: version.checksum,
        yanked: version.yanked,
        deprecated: version.deprecated,
    };
    Ok(versions.into_iter().map(listing).collect())
}

/// Fetches the version that the registry chooses. An exact one may be yanked.
///
/// # Errors
/// There is no such version, or the registry does not answer.
pub(super) async fn fetch_document(
    target: &VersionSpec,
    client: &ServiceClient,
) -> Result<(Vec<u8>, Document), CliError> {
    let VersionSpec { name, range } = target;
    let range = range.as_deref().unwrap_or("latest");
    let (document, source) =
        RemoteRegistry::new(client.clone()).get_document(name, range, None).await?;
    Ok((source, document))
}
