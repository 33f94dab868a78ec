//! A text that is never shown: tokens of services, and the values stored for them.

use std::fmt;

use serde::{Deserialize, Deserializer};
use zeroize::Zeroizing;

use crate::checksum::Digest;

/// The text in place of a secret.
pub const HIDDEN: &str = "(secret)";

/// A text that is never shown, and is overwritten in memory when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Creates a secret from `text`.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// Returns the secret text. Pass it only to the recipient that requires it.
    #[must_use]
    pub fn expose_secret(&self) -> &str {
        &self.0
    }

    /// Returns true when `given` is the same text. The time for it does not reveal where they differ.
    #[must_use]
    pub fn matches(&self, given: &str) -> bool {
        let expected = Digest::of_bytes(self.0.as_bytes());
        let given = Digest::of_bytes(given.as_bytes());
        let pairs = expected.as_bytes().iter().zip(given.as_bytes());
        pairs.fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_nothing_and_knows_itself() {
        let secret = Secret::new("canary");
        assert!(!format!("{secret:?}").contains("canary"));
        assert!(secret.matches("canary"));
        assert!(!secret.matches("canarx") && !secret.matches("") && !secret.matches("canary "));
    }
}
