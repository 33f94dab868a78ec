//! Clients that show a certificate of their own: one for each host, so that no other host sees it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use a2s::Domain;
use zeroize::Zeroizing;

use super::address::AllowedTargets;
use super::client::build_client;
use super::resolve::AddressResolver;
use crate::config::{ClientCertificate, Config};
use crate::error::{Error, ErrorKind};
use crate::thread_local_clients::PerThread;

/// Creates a client for each host to which the executor presents a certificate.
pub(super) fn build_clients(
    config: &Config,
    allowed: &Arc<AllowedTargets>,
) -> Result<BTreeMap<Domain, PerThread<reqwest::Client>>, Error> {
    let mut clients = BTreeMap::new();
    for (domain, files) in &config.client_certificates {
        let shown = TlsSetup::load(domain, files)?;
        // An upstream is configuration, as for the other clients.
        let is_configured = config.upstreams.contains_key(domain);
        let (allowed, limits) = (Arc::clone(allowed), config.limits.clone());
        let make = move || {
            let resolver = match is_configured {
                true => AddressResolver::unrestricted(),
                false => AddressResolver::restricted(Arc::clone(&allowed)),
            };
            build_client(shown.builder(), resolver, &limits)
        };
        clients.insert(domain.clone(), PerThread::new(make()?, make));
    }
    Ok(clients)
}

/// The certificate for a host, and the authorities that verify the host.
struct TlsSetup {
    identity: reqwest::Identity,
    /// The authorities for the host, in place of those that the system trusts.
    authorities: Option<Vec<reqwest::Certificate>>,
}

impl TlsSetup {
    fn load(domain: &Domain, files: &ClientCertificate) -> Result<Self, Error> {
        let mut pem = Zeroizing::new(read_file(domain, &files.key)?);
        pem.push(b'\n');
        pem.extend_from_slice(&read_file(domain, &files.certificate)?);
        let identity = reqwest::Identity::from_pem(&pem)
            // Its words are about the form of the files; they do not quote them.
            .map_err(|_| {
                unusable(domain, "the files must contain a key and a certificate as PEM")
            })?;
        let authorities = files.authorities.as_deref().map(|path| {
            let pem = read_file(domain, path)?;
            reqwest::Certificate::from_pem_bundle(&pem)
                .ok()
                .filter(|authorities| !authorities.is_empty())
                .ok_or_else(|| unusable(domain, "the authorities must be certificates as PEM"))
        });
        Ok(Self { identity, authorities: authorities.transpose()? })
    }

    fn builder(&self) -> reqwest::ClientBuilder {
        let builder = reqwest::Client::builder().identity(self.identity.clone());
        match &self.authorities {
            Some(authorities) => builder.tls_certs_only(authorities.iter().cloned()),
            None => builder,
        }
    }
}

fn read_file(domain: &Domain, path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path)
        .map_err(|error| unusable(domain, format_args!("{}: {error}", path.display())))
}

fn unusable(domain: &Domain, why: impl Display) -> Error {
    let message = format!("the client certificate for {domain} cannot be used: {why}");
    Error::new(ErrorKind::Configuration, message)
}

#[cfg(test)]
mod tests;
