//! Requests of mirrors: a mirror changes only what it has copied from its source.
//!
//! A mirror names its source in the header [`MIRROR`]. The registry records it as the origin of each name
//! and version that the mirror creates. A mirror may publish under a name that is free or that the same
//! source created here, and may yank, unyank or deprecate a version that it copied from the same source
//! with the same checksum. Mirrors must not use tokens with `admin`, because these own the names of others.

use a2s::Digest;
use a2s_api::{Caller, TokenScope};
use a2s_api::{MIRROR, MIRROR_CHECKSUM};
use axum::http::HeaderMap;

use crate::Error;

/// The maximum length of the name of a source, in bytes.
const MAX_SOURCE: usize = 1_024;

/// The source of a mirror's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MirrorSource {
    /// The address of the registry that the mirror copies.
    pub(crate) source: String,
    /// The checksum that the source states for the version of the request.
    pub(crate) checksum: Option<Digest>,
}

impl MirrorSource {
    /// Reads the headers of a request. Returns `None` when no mirror sent it.
    ///
    /// # Errors
    /// Fails when a header is malformed, or the caller's token has the scope `admin`.
    pub(crate) fn from_headers(
        headers: &HeaderMap,
        caller: &Caller,
    ) -> Result<Option<Self>, Error> {
        let bad = |text: &str| Error::MalformedParameter(text.to_owned());
        let mut values = headers.get_all(MIRROR).iter();
        let Some(source) = values.next() else { return Ok(None) };
        let source = source.to_str().ok().filter(|text| {
            (1..=MAX_SOURCE).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
        });
        let (Some(source), None) = (source, values.next()) else {
            return Err(bad(
                "`A2S-Mirror` must be one address of 1 to 1024 visible ASCII characters",
            ));
        };
        if caller.has_scope(TokenScope::Admin) {
            return Err(Error::MirrorPrivileged(caller.subject.clone()));
        }
        let checksum = match headers.get(MIRROR_CHECKSUM) {
            None => None,
            Some(text) => {
                let digest = text.to_str().ok().and_then(|text| text.parse().ok());
                Some(digest.ok_or_else(|| bad("`A2S-Mirror-Checksum` is not a checksum"))?)
            }
        };
        Ok(Some(Self { source: source.to_owned(), checksum }))
    }

    /// Returns true when the mirror has copied the item with this origin.
    pub(crate) fn is_origin(&self, origin: Option<&str>) -> bool {
        origin == Some(self.source.as_str())
    }
}
