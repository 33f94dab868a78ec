//! What the registry knows of the capabilities that a document uses.

use std::collections::BTreeSet;
use std::sync::Arc;

use a2s::api::CapabilityVersions;
use a2s::{Capability, CapabilityName, Document, Listing, Need, Shelf, Unit};
use reqwest::Method;
use reqwest::header::ACCEPT;

use crate::client::Client;
use crate::failure::{BAD_ANSWER, Exit, Failure};

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
            let document = open(&name, &listing, client).await?;
            shelf.open(listing.checksum, Arc::new(Unit::of(document.capability())));
            keep(document);
        }
    }
}

/// The published versions of a capability: none when it is not published.
async fn versions(name: &CapabilityName, client: &Client) -> Result<Vec<Listing>, Failure> {
    let answer = client.get::<CapabilityVersions>(&["v1", "capabilities", name.as_str()]).await;
    let versions = match answer {
        Ok(answer) => answer.versions,
        Err(failure) if failure.code == NOT_PUBLISHED => Vec::new(),
        Err(failure) => return Err(failure),
    };
    let listing = |version: a2s::api::CapabilitySummary| Listing {
        version: version.version,
        checksum: version.checksum,
        yanked: version.yanked,
    };
    Ok(versions.into_iter().map(listing).collect())
}

/// The document of a version, which has to be what the list of versions says.
async fn open(
    name: &CapabilityName,
    listing: &Listing,
    client: &Client,
) -> Result<Document, Failure> {
    let Listing { version, checksum, .. } = listing;
    let path = ["v1", "capabilities", name.as_str(), &version.to_string()];
    let request = client.request(Method::GET, &path).header(ACCEPT, a2s::api::YAML);
    let document = read(&client.bytes(request).await?, name)?;
    let capability = document.capability();
    if document.digest() != *checksum || capability.name != *name {
        let message = format!(
            "the registry lists `{name}` {version} with {checksum}, but gives {}",
            document.digest()
        );
        return Err(Failure::new(Exit::Bad, BAD_ANSWER, message)
            .with_hint("The registry's data was changed; `a2s verify NAME@VERSION` says more."));
    }
    Ok(document)
}

/// The document that a registry gave.
///
/// # Errors
/// When it has errors: it could not have been published here.
pub(super) fn read(source: &[u8], name: &CapabilityName) -> Result<Document, Failure> {
    Document::open(source).map_err(|diagnostics| {
        let message = format!("the registry gave a document of {name} that is not valid");
        Failure { diagnostics, ..Failure::new(Exit::Bad, BAD_ANSWER, message) }
    })
}
