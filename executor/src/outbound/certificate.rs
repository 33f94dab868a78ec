//! Clients that show a certificate of their own: one for each host, so that no other host sees it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use a2s::Domain;
use zeroize::Zeroizing;

use super::address::Allowed;
use super::client::build_client;
use super::resolve::Resolver;
use crate::config::{ClientCertificate, Config};
use crate::error::{Error, Kind};

/// A client for each host that is shown a certificate.
pub(super) fn clients(
    config: &Config,
    allowed: &Arc<Allowed>,
) -> Result<BTreeMap<Domain, reqwest::Client>, Error> {
    let mut clients = BTreeMap::new();
    for (domain, files) in &config.client_certificates {
        // An upstream is configuration, as for the other clients.
        let resolver = match config.upstreams.contains_key(domain) {
            true => Resolver::open(),
            false => Resolver::guarded(Arc::clone(allowed)),
        };
        let builder = identify(domain, files)?;
        let client = build_client(builder, resolver, &config.limits)?;
        clients.insert(domain.clone(), client);
    }
    Ok(clients)
}

fn identify(domain: &Domain, files: &ClientCertificate) -> Result<reqwest::ClientBuilder, Error> {
    let mut pem = Zeroizing::new(read(domain, &files.key)?);
    pem.push(b'\n');
    pem.extend_from_slice(&read(domain, &files.certificate)?);
    let identity = reqwest::Identity::from_pem(&pem)
        // Its words are about the form of the files; they do not quote them.
        .map_err(|_| unusable(domain, "key and certificate are not both there as PEM"))?;
    let mut builder = reqwest::Client::builder().identity(identity);
    if let Some(path) = &files.authorities {
        let pem = read(domain, path)?;
        let authorities = reqwest::Certificate::from_pem_bundle(&pem)
            .ok()
            .filter(|authorities| !authorities.is_empty())
            .ok_or_else(|| unusable(domain, "the authorities are not certificates as PEM"))?;
        builder = builder.tls_certs_only(authorities);
    }
    Ok(builder)
}

fn read(domain: &Domain, path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path)
        .map_err(|error| unusable(domain, format_args!("{}: {error}", path.display())))
}

fn unusable(domain: &Domain, why: impl Display) -> Error {
    let message = format!("the client certificate for {domain} cannot be used: {why}");
    Error::new(Kind::Configuration, message)
}

#[cfg(test)]
mod tests;
