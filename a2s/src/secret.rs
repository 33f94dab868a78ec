//! A text that is never shown: tokens of services.

use std::fmt;

use crate::checksum::Digest;

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text`.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, to be put where it belongs and nowhere else.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether `given` is the same text. The time it takes tells nothing about where they differ.
    #[must_use]
    pub fn matches(&self, given: &str) -> bool {
        let expected = Digest::of_bytes(self.0.as_bytes());
        let given = Digest::of_bytes(given.as_bytes());
        let pairs = expected.as_bytes().iter().zip(given.as_bytes());
        pairs.fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
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
