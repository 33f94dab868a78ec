//! The token of who may approve.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// A token, kept as its digest: what is compared tells nothing of what was expected.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; 32]);

impl Token {
    /// The token as it is sent after `Bearer `.
    pub fn new(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Whether this is it.
    pub fn matches(&self, given: &str) -> bool {
        *self == Self::new(given)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}
