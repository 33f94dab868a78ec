//! Clients that show a certificate of their own: one for each host, so that no other host sees it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use a2s::Domain;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use zeroize::Zeroizing;

use super::address::AllowedTargets;
use super::resolve::AddressResolver;
use super::service_client::{ServiceClient, tls_config};
use crate::config::{ClientCertificate, Config};
use crate::error::{Error, ErrorKind};
use crate::thread_local_clients::PerThread;

/// Creates a client for each host to which the executor presents a certificate.
pub(super) fn build_clients(
    config: &Config,
    allowed: &Arc<AllowedTargets>,
) -> Result<BTreeMap<Domain, PerThread<ServiceClient>>, Error> {
    let mut clients = BTreeMap::new();
    for (domain, files) in &config.client_certificates {
        let tls = load_tls(domain, files)?;
        // An upstream is configuration, as for the other clients.
        let resolver = match config.upstreams.contains_key(domain) {
            true => AddressResolver::unrestricted(),
            false => AddressResolver::restricted(Arc::clone(allowed)),
        };
        let limits = config.limits.clone();
        let make =
            move || Ok::<_, Error>(ServiceClient::new(Arc::clone(&tls), resolver.clone(), &limits));
        clients.insert(domain.clone(), PerThread::new(make()?, make));
    }
    Ok(clients)
}

/// Reads the certificate for a host, and the authorities that verify the host in place of those that the
/// system trusts.
fn load_tls(domain: &Domain, files: &ClientCertificate) -> Result<Arc<ClientConfig>, Error> {
    let mut pem = Zeroizing::new(read_file(domain, &files.key)?);
    pem.push(b'\n');
    pem.extend_from_slice(&read_file(domain, &files.certificate)?);
    let certificates = read_certificates(&pem);
    // Its words are about the form of the files; they do not quote them.
    let identity = certificates
        .zip(PrivateKeyDer::from_pem_slice(&pem).ok())
        .ok_or_else(|| unusable(domain, "the files must contain a key and a certificate as PEM"))?;
    let authorities = files.authorities.as_deref().map(|path| {
        let mut authorities = RootCertStore::empty();
        let read = read_certificates(&read_file(domain, path)?);
        read.and_then(|read| read.into_iter().try_for_each(|one| authorities.add(one)).ok())
            .map(|()| authorities)
            .ok_or_else(|| unusable(domain, "the authorities must be certificates as PEM"))
    });
    tls_config(authorities.transpose()?, Some(identity)).map_err(|error| unusable(domain, error))
}

/// Reads the certificates of a file; `None` when it has none, or a broken one.
fn read_certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()?;
    (!certificates.is_empty()).then_some(certificates)
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
