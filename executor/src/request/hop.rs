//! The request that a redirect asks for.

use http::Method;
use url::Url;

/// The next request that a redirect asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hop {
    /// Its method.
    pub(crate) method: Method,
    /// Its address, in the document's terms.
    pub(crate) url: Url,
    /// Whether it repeats the request, with its method and body.
    pub(crate) keeps_body: bool,
}
