//! Names to addresses, with those left out that may not be reached.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use tower::{BoxError, Service};

use super::address::{AllowedTargets, check_address};

/// The maximum number of addresses of one name that are tried.
const MAX_ADDRESSES: usize = 16;

/// The name resolver of one client.
#[derive(Clone)]
pub(super) struct AddressResolver {
    /// The resolver that returns the addresses of a name.
    names: Arc<dyn Resolve>,
    /// The allowed addresses; `None` when all addresses are allowed.
    allowed: Option<Arc<AllowedTargets>>,
}

/// A resolver with the names that the system knows.
struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        Box::pin(async move {
            // The port is put in by the client.
            let found: Vec<_> = tokio::net::lookup_host((name, 0)).await?.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

impl AddressResolver {
    /// Creates a resolver that returns only allowed addresses.
    pub(super) fn restricted(allowed: Arc<AllowedTargets>) -> Self {
        Self::with_names(Arc::new(SystemResolver), allowed)
    }

    /// Creates such a resolver for the names that `names` knows.
    pub(super) fn with_names(names: Arc<dyn Resolve>, allowed: Arc<AllowedTargets>) -> Self {
        Self { names, allowed: Some(allowed) }
    }

    /// Creates a resolver that returns every address.
    pub(super) fn unrestricted() -> Self {
        Self { names: Arc::new(SystemResolver), allowed: None }
    }
}

/// The error for a name without an allowed address.
#[derive(Debug)]
pub(super) struct NoAllowedAddress(String);

impl fmt::Display for NoAllowedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoAllowedAddress {}

impl Resolve for AddressResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = self.allowed.clone().filter(|allowed| !allowed.has_host(name.as_str()));
        let found = self.names.resolve(name);
        Box::pin(async move {
            let found = found.await?.take(MAX_ADDRESSES);
            let mut addresses = Vec::new();
            let mut refused = None;
            for address in found {
                let checked = allowed.as_ref().map(|allowed| check_address(address.ip(), allowed));
                match checked.unwrap_or(Ok(())) {
                    Ok(()) => addresses.push(address),
                    Err(rule) => refused = Some(NoAllowedAddress(rule)),
                }
            }
            match refused {
                Some(refused) if addresses.is_empty() => Err(refused.into()),
                Some(_) | None => Ok(Box::new(addresses.into_iter()) as Addrs),
            }
        })
    }
}

impl Service<dns::Name> for AddressResolver {
    type Response = Addrs;
    type Error = BoxError;
    type Future = Resolving;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: dns::Name) -> Resolving {
        match name.as_str().parse::<Name>() {
            Ok(name) => self.resolve(name),
            Err(error) => Box::pin(std::future::ready(Err(BoxError::from(error)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn resolve(resolver: &AddressResolver) -> Result<usize, String> {
        let found = resolver.resolve("localhost".parse().unwrap()).await;
        found.map(Iterator::count).map_err(|error| error.to_string())
    }

    fn guarded(allowed: &[&str]) -> AddressResolver {
        let allowed: Vec<String> = allowed.iter().map(|text| (*text).to_owned()).collect();
        AddressResolver::restricted(Arc::new(AllowedTargets::parse(&allowed).unwrap()))
    }

    #[tokio::test]
    async fn a_name_resolves_to_allowed_addresses_only() {
        let refused = resolve(&guarded(&[])).await.unwrap_err();
        assert!(refused.ends_with("is a loopback address"), "{refused}");
        assert!(resolve(&guarded(&["127.0.0.0/8", "::1"])).await.unwrap() > 0);
        assert!(resolve(&guarded(&["localhost"])).await.unwrap() > 0);
        assert!(resolve(&AddressResolver::unrestricted()).await.unwrap() > 0);
    }
}
