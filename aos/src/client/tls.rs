//! TLS between agent and guardian: the client's certificate, and the roots that it trusts.

use std::fmt;

use super::BuildError;

/// A certificate of the agent and its key, for guardians that ask for one (mutual TLS). The key is
/// never printed.
#[derive(Clone)]
pub struct ClientIdentity(pub(super) reqwest::Identity);

impl ClientIdentity {
    /// Reads a certificate, the certificates of its issuers, and its key, in PEM.
    ///
    /// # Errors
    /// Fails when the text does not contain both a key and a certificate.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, BuildError> {
        let pem = [key, b"\n", certificate].concat();
        reqwest::Identity::from_pem(&pem).map(Self).map_err(|_| BuildError::Identity)
    }
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(…)")
    }
}

/// The certificates to trust for the guardian, instead of those of the system.
#[derive(Clone, Debug)]
pub struct TrustRoots(pub(super) Vec<reqwest::Certificate>);

impl TrustRoots {
    /// Reads a list of certificates in PEM.
    ///
    /// # Errors
    /// Fails when the text does not contain a certificate.
    pub fn from_pem(pem: &[u8]) -> Result<Self, BuildError> {
        match reqwest::Certificate::from_pem_bundle(pem) {
            Ok(certificates) if !certificates.is_empty() => Ok(Self(certificates)),
            Ok(_) | Err(_) => Err(BuildError::TrustRoots),
        }
    }
}
