//! The request that a redirect asks for.

use http::Method;
use serde::{Deserialize, Serialize};
use url::Url;

/// The next request that a redirect asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RedirectTarget {
    /// Its method.
    #[serde(with = "super::stored::method")]
    pub(crate) method: Method,
    /// The address in the form that documents use.
    pub(crate) url: Url,
    /// Set when it repeats the request, with its method and body.
    pub(crate) keeps_body: bool,
}
