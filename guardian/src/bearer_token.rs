//! The token of who may approve.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// A token, kept as its digest: what is compared tells nothing of what was expected.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// The token as it is sent after `Bearer `.
    pub fn new(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Whether this is it.
    pub fn matches(&self, given: &str) -> bool {
        *self == Self::new(given)
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}
