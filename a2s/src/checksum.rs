//! The digest of a document: RFC 8785 canonical JSON of its content, then SHA-256.
//!
//! The content is the parsed document without its top-level `checksum`. How it is written (YAML
//! or JSON, quoting, comments, key order) does not change the digest; every name and value does.

mod canonical;

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use sha2::{Digest as _, Sha256};
use utoipa::ToSchema;

use self::canonical::{CanonicalMembers, CanonicalValue};

pub(crate) use self::canonical::compare_names;

/// A SHA-256 digest, written `sha256:<64 lower-case hex digits>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, pattern = "^sha256:[0-9a-f]{64}$")]
pub struct Digest([u8; 32]);

/// The error for a text that is not a digest, or a value that has none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// The text is neither `sha256:` and 64 hex digits nor 64 hex digits.
    #[error("a checksum is `sha256:` followed by 64 lower-case hexadecimal digits")]
    Malformed,
    /// An integer that other languages cannot represent (RFC 8785, section 3.2.2.3 and appendix D).
    #[error(
        "the number {0} is outside ±(2^53 − 1) and has no canonical form; write it as a string"
    )]
    UnsafeInteger(String),
    /// The canonicalizer rejected the value.
    #[error("the document has no canonical form: {0}")]
    NotCanonical(String),
}

/// The largest integer that every JSON implementation represents exactly: 2^53 − 1.
pub(crate) const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

impl Digest {
    /// Computes the digest of raw bytes.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Computes the digest of everything that `reader` returns.
    ///
    /// # Errors
    /// Fails when reading fails.
    pub fn of_reader(mut reader: impl std::io::Read) -> std::io::Result<Self> {
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(Self(hasher.finalize().into())),
                count => hasher.update(&buffer[..count]),
            }
        }
    }

    /// Computes the digest of a document's content: `value` without its top-level member `checksum`.
    ///
    /// # Errors
    /// Fails when the value has no canonical form (RFC 8785), see [`canonical_json`].
    pub fn of_document(value: &Value) -> Result<Self, DigestError> {
        let Value::Object(members) = value else {
            return Ok(Self::of_bytes(&canonical_json(value)?));
        };
        let content = || members.iter().filter(|(name, _)| is_content(name));
        content().try_for_each(|(_, member)| check_numbers(member))?;
        Self::of_canonical(&CanonicalMembers::new(content()))
    }

    /// Computes the digest of a value that has only safe numbers and serializes its members in canonical
    /// order.
    pub(crate) fn of_canonical(value: &impl Serialize) -> Result<Self, DigestError> {
        Ok(Self::of_bytes(&canonical::write(value)?))
    }

    /// Returns the 64 hexadecimal digits.
    #[must_use]
    pub fn to_hex(&self) -> String {
        HEXLOWER.encode(&self.0)
    }

    /// Returns the 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// The canonical JSON of a value (RFC 8785), in UTF-8.
///
/// # Errors
/// When an integral number is beyond ±(2^53 − 1): rounding would be silent, and two different documents
/// would have the same checksum.
pub fn canonical_json(value: &Value) -> Result<Vec<u8>, DigestError> {
    check_numbers(value)?;
    canonical::write(&CanonicalValue(value))
}

/// Returns true when the digest of a document covers its top-level member `name`.
pub(crate) fn is_content(name: &str) -> bool {
    name != "checksum"
}

/// Returns an error for a number without a canonical form.
pub(crate) fn check_number(number: &Number) -> Result<(), DigestError> {
    let float = number.as_f64().unwrap_or(f64::INFINITY);
    if !float.is_finite() || (float.fract() == 0.0 && float.abs() > MAX_SAFE_INTEGER) {
        return Err(DigestError::UnsafeInteger(number.to_string()));
    }
    Ok(())
}

fn check_numbers(value: &Value) -> Result<(), DigestError> {
    match value {
        Value::Number(number) => check_number(number),
        Value::Array(items) => items.iter().try_for_each(check_numbers),
        Value::Object(members) => members.values().try_for_each(check_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let hex = text.strip_prefix("sha256:").unwrap_or(text);
        // The alphabet has lower-case digits alone.
        let digits = HEXLOWER.decode(hex.as_bytes()).map_err(|_| DigestError::Malformed)?;
        let bytes = digits.try_into().map_err(|_| DigestError::Malformed)?;
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_digest_ignores_order_and_checksum_but_no_content() {
        let one =
            Digest::of_document(&json!({"a": 1, "b": [true, null], "checksum": "x"})).unwrap();
        let other = Digest::of_document(&json!({"b": [true, null], "a": 1.0})).unwrap();
        assert_eq!(one, other);
        let nested = Digest::of_document(&json!({"a": {"checksum": "x"}})).unwrap();
        assert_ne!(nested, Digest::of_document(&json!({"a": {}})).unwrap());
        assert_ne!(one, Digest::of_document(&json!({"a": "1", "b": [true, null]})).unwrap());
    }

    #[test]
    fn a_digest_is_read_with_and_without_its_prefix() {
        let digest = Digest::of_bytes(b"");
        let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest.to_string(), format!("sha256:{hex}"));
        assert_eq!(hex.parse(), Ok(digest));
        assert_eq!(digest.to_string().parse(), Ok(digest));
        for bad in ["", "sha256:", &hex[1..], &hex.to_uppercase(), &format!("md5:{hex}")] {
            assert_eq!(bad.parse::<Digest>(), Err(DigestError::Malformed), "{bad}");
        }
    }

    #[test]
    fn integers_that_would_be_rounded_are_refused() {
        assert!(Digest::of_document(&json!({"n": 9_007_199_254_740_991_u64})).is_ok());
        assert!(Digest::of_document(&json!({"n": [9_007_199_254_740_992_u64]})).is_err());
        assert!(Digest::of_document(&json!({"n": -9_007_199_254_740_993_i64})).is_err());
        assert!(Digest::of_document(&json!({"n": 1e300})).is_err());
        assert!(Digest::of_document(&json!({"n": 0.1})).is_ok());
    }
}
