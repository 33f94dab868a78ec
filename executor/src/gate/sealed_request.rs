//! The keyed digest of a request that guardians see only in part: `context.request.sealed`. An approval of the
//! request covers its secrets by it.

use super::GuardianGate;
use super::sent::RequestFacts;
use crate::error::Error;
use crate::request::PreparedRequest;

impl GuardianGate {
    /// Adds the digest of the true request to its facts when a part of them is masked.
    ///
    /// # Errors
    /// Returns [`ErrorKind::VaultKey`](crate::error::ErrorKind::VaultKey) without a key.
    pub(super) fn seal(
        &self,
        facts: RequestFacts,
        prepared: &PreparedRequest,
    ) -> Result<RequestFacts, Error> {
        if !facts.is_masked() {
            return Ok(facts);
        }
        Ok(facts.with_sealed(self.vault.keyed_digest("request", prepared.digest())?))
    }
}
