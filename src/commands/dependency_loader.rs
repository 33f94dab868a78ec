//! Loads the capabilities that a document uses from the registry.

use std::collections::BTreeSet;
use std::sync::Arc;

use a2s::{Capability, CapabilityName, Document, Listing, Need, Shelf, Unit};
use agent::Registry;

use super::version_spec::Target;
use crate::cli_error::{BAD_ANSWER, Exit, Failure};
use crate::client::Client;

/// The registry's code for a name that is not published.
const NOT_PUBLISHED: &str = "A2S220";

/// Puts everything on the shelf that the registry knows of what `capability` leads to. `asked`
/// are the names that it was asked for before; `keep` is given every document that came.
///
/// # Errors
/// When the registry does not answer, or its answers do not fit each other.
pub(super) async fn fill(
    shelf: &mut Shelf,
    asked: &mut BTreeSet<CapabilityName>,
    capability: &Capability,
    client: &Client,
    mut keep: impl FnMut(Document),
) -> Result<(), Failure> {
    loop {
        let needs = shelf.needs(&capability.dependencies);
        let mut names: BTreeSet<CapabilityName> =
            shelf.closure(&capability.dependencies).into_iter().map(|pin| pin.name).collect();
        names.extend(capability.dependencies.iter().map(|below| below.capability.clone()));
        names.extend(needs.iter().map(|need| need.name().clone()));
        names.retain(|name| !asked.contains(name));
        if needs.is_empty() && names.is_empty() {
            return Ok(());
        }
        for name in names {
            shelf.list(&name, versions(&name, client).await?);
            asked.insert(name);
        }
        for need in needs {
            let Need::Document(name, listing) = need else { continue };
            if shelf.len() >= a2s::lock::MAX_PINS {
                let message = format!("`{}` leads to too many capabilities", capability.name);
                return Err(Failure::new(Exit::Bad, BAD_ANSWER, message)
                    .with_hint("Let capabilities use fewer others."));
            }
            let (version, digest) = (listing.version.to_string(), Some(listing.checksum));
            // It has to be what the list of versions says.
            let registry = Registry::new(client.clone());
            let (document, _) = registry.document(&name, &version, digest).await?;
            shelf.open(listing.checksum, Arc::new(Unit::of(document.capability())));
            keep(document);
        }
    }
}

/// The published versions of a capability: none when it is not published.
async fn versions(name: &CapabilityName, client: &Client) -> Result<Vec<Listing>, Failure> {
    let versions = match Registry::new(client.clone()).versions(name).await {
        Ok(answer) => answer.versions,
        Err(error) if error.code() == Some(NOT_PUBLISHED) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let listing = |version: a2s::api::CapabilitySummary| Listing {
        version: version.version,
        checksum: version.checksum,
        yanked: version.yanked,
        deprecated: version.deprecated,
    };
    Ok(versions.into_iter().map(listing).collect())
}

/// The version that the registry chooses. An exact one may be yanked: whoever names it has it.
///
/// # Errors
/// When there is none, or the registry does not answer.
pub(super) async fn fetch(
    target: &Target,
    client: &Client,
) -> Result<(Vec<u8>, Document), Failure> {
    let Target { name, range } = target;
    let range = range.as_deref().unwrap_or("latest");
    let (document, source) = Registry::new(client.clone()).document(name, range, None).await?;
    Ok((source, document))
}
