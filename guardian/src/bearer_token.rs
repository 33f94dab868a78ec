//! The token of who may approve.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// A token, stored as its digest, so that a comparison reveals nothing about the expected token.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// Creates the token from the text that is sent after `Bearer `.
    pub fn new(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Returns true when `given` is this token.
    pub fn matches(&self, given: &str) -> bool {
        *self == Self::new(given)
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}
