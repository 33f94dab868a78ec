//! The keyed digest of a request that guardians see only in part: `context.request.sealed`. An approval of the
//! request covers its secrets by it.

use serde_json::{Map, Value, json};

use super::GuardianGate;
use crate::error::Error;
use crate::request::PreparedRequest;

impl GuardianGate {
    /// Adds the digest of the true request to its description when a part of it is masked.
    ///
    /// # Errors
    /// Returns [`ErrorKind::VaultKey`](crate::error::ErrorKind::VaultKey) without a key.
    pub(super) fn add_sealed_digest(
        &self,
        members: &mut Map<String, Value>,
        prepared: &PreparedRequest,
        is_masked: bool,
    ) -> Result<(), Error> {
        if is_masked || members.get("url") != Some(&json!(prepared.url().as_str())) {
            let sealed = self.vault.keyed_digest("request", prepared.digest())?;
            members.insert("sealed".to_owned(), json!(sealed.to_hex()));
        }
        Ok(())
    }
}
