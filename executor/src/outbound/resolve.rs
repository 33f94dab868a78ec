//! Names to addresses, with those left out that may not be reached.

use std::fmt;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::{Allowed, check_address};

/// The most addresses of one name that are tried.
const MAX_ADDRESSES: usize = 16;

/// Resolves the names of one client.
#[derive(Debug)]
pub(super) struct Resolver {
    /// None when every address will do.
    allowed: Option<Arc<Allowed>>,
}

impl Resolver {
    /// Gives allowed addresses only.
    pub(super) fn guarded(allowed: Arc<Allowed>) -> Self {
        Self { allowed: Some(allowed) }
    }

    /// Gives every address.
    pub(super) fn open() -> Self {
        Self { allowed: None }
    }
}

/// No address of a name may be reached.
#[derive(Debug)]
pub(super) struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        let allowed = self.allowed.clone().filter(|allowed| !allowed.has_host(&name));
        Box::pin(async move {
            // The port is put in by the client.
            let found = tokio::net::lookup_host((name, 0)).await?.take(MAX_ADDRESSES);
            let mut addresses = Vec::new();
            let mut refused = None;
            for address in found {
                let checked = allowed.as_ref().map(|allowed| check_address(address.ip(), allowed));
                match checked.unwrap_or(Ok(())) {
                    Ok(()) => addresses.push(address),
                    Err(rule) => refused = Some(Refused(rule)),
                }
            }
            match refused {
                Some(refused) if addresses.is_empty() => Err(refused.into()),
                Some(_) | None => Ok(Box::new(addresses.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn resolve(resolver: &Resolver) -> Result<usize, String> {
        let found = resolver.resolve("localhost".parse().unwrap()).await;
        found.map(Iterator::count).map_err(|error| error.to_string())
    }

    fn guarded(allowed: &[&str]) -> Resolver {
        let allowed: Vec<String> = allowed.iter().map(|text| (*text).to_owned()).collect();
        Resolver::guarded(Arc::new(Allowed::read(&allowed).unwrap()))
    }

    #[tokio::test]
    async fn a_name_resolves_to_allowed_addresses_only() {
        let refused = resolve(&guarded(&[])).await.unwrap_err();
        assert!(refused.ends_with("is a loopback address"), "{refused}");
        assert!(resolve(&guarded(&["127.0.0.0/8", "::1"])).await.unwrap() > 0);
        assert!(resolve(&guarded(&["localhost"])).await.unwrap() > 0);
        assert!(resolve(&Resolver::open()).await.unwrap() > 0);
    }
}
