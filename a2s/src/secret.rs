//! A text that is never shown: tokens of services, and the values stored for them.

use std::fmt;

use serde::{Deserialize, Deserializer, Serializer};
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

/// Serializes the text of a secret. Use it only for the fields that carry a secret to its storage.
pub(crate) fn reveal<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose_secret())
}

/// Serializes the text of a secret that may be missing.
#[expect(clippy::ref_option, reason = "this is how serde hands a field over")]
pub(crate) fn reveal_some<S: Serializer>(
    secret: &Option<Secret>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match secret {
        Some(secret) => serializer.serialize_some(secret.expose_secret()),
        None => serializer.serialize_none(),
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
