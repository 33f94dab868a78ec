//! The HTTP clients for services, and the checks of responses that a client itself would accept.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use a2s::Domain;
use http::HeaderMap;
use rustls::RootCertStore;
use url::Url;

use super::address::{self, AllowedTargets};
use super::resolve::AddressResolver;
use super::send_error::{SendError, blocked_target};
use super::service_client::{MAX_HEADER_BYTES, ServiceClient, tls_config};
use super::{certificate, redirect};
use crate::config::Config;
use crate::error::{Error, ErrorKind};
use crate::thread_local_clients::PerThread;

/// The HTTP clients, and the rules that choose one of them for an address.
#[derive(Debug)]
pub(super) struct HttpClients {
    /// The client for the hosts of documents: names resolve only to allowed addresses.
    pub(super) guarded: PerThread<ServiceClient>,
    /// The client for upstreams, which the configuration names; `None` without upstreams.
    configured: Option<PerThread<ServiceClient>>,
    /// The clients for hosts to which the executor presents a certificate.
    certified: BTreeMap<Domain, PerThread<ServiceClient>>,
    upstreams: BTreeMap<Domain, Url>,
    pub(super) allowed: Arc<AllowedTargets>,
}

impl HttpClients {
    /// Creates the clients for the limits, upstreams, certificates and allowed addresses of the
    /// configuration.
    pub(super) fn new(config: &Config) -> Result<Self, Error> {
        let allowed = Arc::new(AllowedTargets::parse(&config.allowed_addresses)?);
        config.upstreams.iter().try_for_each(|(domain, url)| check_upstream(domain, url))?;
        let clients = |authorities: Option<RootCertStore>, resolver: AddressResolver| {
            let tls = tls_config(authorities, None).map_err(unusable_tls)?;
            let limits = config.limits.clone();
            let make = move || {
                Ok::<_, Error>(ServiceClient::new(Arc::clone(&tls), resolver.clone(), &limits))
            };
            Ok::<_, Error>(PerThread::new(make()?, make))
        };
        // Reading the roots that the system trusts takes longer than all the rest.
        let is_plain = config.upstreams.values().all(|url| url.scheme() == "http");
        let configured =
            || clients(is_plain.then(RootCertStore::empty), AddressResolver::unrestricted());
        Ok(Self {
            guarded: clients(None, AddressResolver::restricted(Arc::clone(&allowed)))?,
            configured: (!config.upstreams.is_empty()).then(configured).transpose()?,
            certified: certificate::build_clients(config, &allowed)?,
            upstreams: config.upstreams.clone(),
            allowed,
        })
    }

    /// The replacement address for connections to the host of `url`.
    pub(super) fn upstream(&self, url: &Url) -> Option<&Url> {
        self.upstreams.iter().find(|(domain, _)| domain.covers(url)).map(|(_, base)| base)
    }

    /// The hosts to which the executor presents a certificate.
    pub(super) fn certified_hosts(&self) -> impl Iterator<Item = &Domain> {
        self.certified.keys()
    }

    /// Returns the client and the address for a connection to the host of `url`.
    pub(super) fn select(&self, url: &Url) -> Result<(&ServiceClient, Url), SendError> {
        let certified = self.certified.iter().find(|(domain, _)| domain.covers(url));
        let certified = certified.map(|(_, client)| client);
        if let (Some(base), Some(client)) =
            (self.upstream(url), certified.or(self.configured.as_ref()))
        {
            return Ok((client.current(), redirect::to_upstream(url, base)));
        }
        match address::check(url, &self.allowed) {
            Ok(()) => Ok((certified.unwrap_or(&self.guarded).current(), url.clone())),
            Err(rule) => Err(blocked_target(url, &rule)),
        }
    }
}

fn check_upstream(domain: &Domain, url: &Url) -> Result<(), Error> {
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if is_plain {
        return Ok(());
    }
    let message = format!(
        "the upstream of {domain} must be an http or https address without user, query and fragment"
    );
    Err(Error::new(ErrorKind::Configuration, message))
}

/// The error for a TLS configuration that cannot be used.
fn unusable_tls(error: impl Display) -> Error {
    let message = format!("cannot create the HTTP client for services: {error}");
    Error::new(ErrorKind::Configuration, message)
}

/// Rejects a response that the client accepts: one with too many headers.
pub(super) fn check_headers(
    headers: &HeaderMap,
    host: impl Fn() -> String,
) -> Result<(), SendError> {
    let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if MAX_HEADER_BYTES < size {
        let host = host();
        let message =
            format!("the response of {host} has more than {MAX_HEADER_BYTES} bytes of headers");
        return Err(SendError::after_send(ErrorKind::ResponseTooLarge, message));
    }
    Ok(())
}
