//! The token request that a permitted request needs for its credentials. It belongs to the same step, so
//! the same verdict applies. It is made here, from the data of the permitted request itself, so that no
//! other value can become permitted.

use a2s::SecurityRequirement;

use super::Permitted;
use crate::credential_requirements::GrantType;
use crate::error::{Error, ErrorKind};
use crate::request::{PreparedRequest, token_request};
use a2s::to_single_line;

impl Permitted<PreparedRequest> {
    /// Creates the request for a token that one of its own requirements needs, without the client's
    /// credentials.
    ///
    /// # Errors
    /// Returns [`ErrorKind::CredentialRefused`] when the document does not state the token URL, or the URL
    /// is not among its domains.
    pub(crate) fn token_request(
        &self,
        wanted: &SecurityRequirement,
        grant: GrantType,
    ) -> Result<Self, Error> {
        let name = to_single_line(&wanted.name, 100);
        let access = self.access();
        let url = access.and_then(|access| access.token_url(wanted, grant)).ok_or_else(|| {
            let (what, hint) = match grant {
                GrantType::Client => (
                    "without a refresh token",
                    "Store the credential with a refresh token, or store your own token with \
                     `--kind bearer`.",
                ),
                GrantType::Refresh => {
                    ("with a refresh token", "Store your own token with `--kind bearer`.")
                }
            };
            let message = format!("the document has no token address for `{name}` {what}");
            Error::new(ErrorKind::CredentialRefused, message).with_hint(hint)
        })?;
        if !access.is_some_and(|access| access.covers(url)) {
            let host = to_single_line(url.host_str().unwrap_or_default(), 100);
            let message = format!(
                "the tokens for `{name}` come from {host}, which the document's `domains` do not list"
            );
            let hint = "Ask the author of the document to add the host to `domains`.";
            return Err(Error::new(ErrorKind::CredentialRefused, message).with_hint(hint));
        }
        Ok(Self(token_request(url, grant, &wanted.scopes)))
    }
}
