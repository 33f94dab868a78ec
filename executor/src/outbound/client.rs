//! The HTTP clients for services, and the checks of responses that a client itself would accept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use a2s::Domain;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use url::Url;

use super::address::{self, AllowedTargets};
use super::resolve::AddressResolver;
use super::send_error::{SendError, blocked_target, innermost};
use super::{certificate, redirect};
use crate::config::{Config, Limits};
use crate::error::{Error, ErrorKind};
use crate::thread_local_clients::PerThread;

/// The maximum size of the headers of a response, in bytes.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// The time for which an unused connection is kept. Common servers close theirs after five seconds; a
/// request on such a closed connection would be reported as possibly sent.
const POOL_IDLE: Duration = Duration::from_secs(4);

/// The HTTP clients, and the rules that choose one of them for an address.
#[derive(Debug)]
pub(super) struct HttpClients {
    /// The client for the hosts of documents: names resolve only to allowed addresses.
    pub(super) guarded: PerThread<reqwest::Client>,
    /// The client for upstreams, which the configuration names; `None` without upstreams.
    configured: Option<PerThread<reqwest::Client>>,
    /// The clients for hosts to which the executor presents a certificate.
    certified: BTreeMap<Domain, PerThread<reqwest::Client>>,
    upstreams: BTreeMap<Domain, Url>,
    pub(super) allowed: Arc<AllowedTargets>,
}

impl HttpClients {
    /// Creates the clients for the limits, upstreams, certificates and allowed addresses of the
    /// configuration.
    pub(super) fn new(config: &Config) -> Result<Self, Error> {
        let allowed = Arc::new(AllowedTargets::parse(&config.allowed_addresses)?);
        config.upstreams.iter().try_for_each(|(domain, url)| check_upstream(domain, url))?;
        let (addresses, of_guarded) = (Arc::clone(&allowed), config.limits.clone());
        let guarded = move || {
            let resolver = AddressResolver::restricted(Arc::clone(&addresses));
            build_client(reqwest::Client::builder(), resolver, &of_guarded)
        };
        let is_plain = config.upstreams.values().all(|url| url.scheme() == "http");
        let of_configured = config.limits.clone();
        let configured = move || {
            let mut builder = reqwest::Client::builder();
            if is_plain {
                // Reading the roots that the system trusts takes longer than all the rest.
                builder = builder.tls_certs_only([]);
            }
            build_client(builder, AddressResolver::unrestricted(), &of_configured)
        };
        let configured = match config.upstreams.is_empty() {
            true => None,
            false => Some(PerThread::new(configured()?, configured)),
        };
        Ok(Self {
            guarded: PerThread::new(guarded()?, guarded),
            configured,
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
    pub(super) fn select(&self, url: &Url) -> Result<(&reqwest::Client, Url), SendError> {
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

pub(super) fn build_client(
    builder: reqwest::ClientBuilder,
    resolver: AddressResolver,
    limits: &Limits,
) -> Result<reqwest::Client, Error> {
    builder
        .user_agent(concat!("a2s-executor/", env!("CARGO_PKG_VERSION")))
        .dns_resolver(Arc::new(resolver))
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        // Other crates may have compiled these in; an answer that unpacks has no size.
        .no_gzip()
        .no_brotli()
        .no_deflate()
        .no_zstd()
        .connect_timeout(limits.connect_timeout)
        .read_timeout(limits.read_timeout)
        .pool_idle_timeout(POOL_IDLE)
        .http2_max_header_list_size(MAX_HEADER_BYTES as u32)
        .build()
        .map_err(|error| {
            let message =
                format!("cannot create the HTTP client for services: {}", innermost(&error));
            Error::new(ErrorKind::Configuration, message)
        })
}

/// Rejects responses that the client accepts: with too many headers, or with a compressed body.
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
    let encodings = headers.get_all(CONTENT_ENCODING).iter();
    match encodings.into_iter().find(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity")) {
        Some(encoding) => {
            // Another word may be a sent secret: a shortened one would escape masking.
            let known = ["br", "compress", "deflate", "gzip", "x-gzip", "zstd"];
            let known = known
                .into_iter()
                .find(|known| encoding.as_bytes().eq_ignore_ascii_case(known.as_bytes()));
            let which = match known {
                Some(known) => format!("the encoding `{known}`"),
                None => "an unknown encoding".to_owned(),
            };
            let host = host();
            let message =
                format!("{host} responded in {which}, although the request allows no encoding");
            Err(SendError::after_send(ErrorKind::NotJson, message))
        }
        None => Ok(()),
    }
}
