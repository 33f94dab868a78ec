//! The request for a token of OAuth 2.0, but for the client's credentials.

use std::sync::LazyLock;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use url::Url;
use url::form_urlencoded::Serializer;

use super::PreparedRequest;
use crate::credential_requirements::GrantType;

static HEADERS: LazyLock<HeaderMap> = LazyLock::new(|| {
    HeaderMap::from_iter([
        (ACCEPT, HeaderValue::from_static("application/json")),
        (CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded")),
    ])
});

/// Creates a request to the token endpoint at `url` (RFC 6749, sections 4.4.2 and 6).
pub(crate) fn token_request(url: &Url, grant: GrantType, scopes: &[String]) -> PreparedRequest {
    let grant = match grant {
        GrantType::Client => "client_credentials",
        GrantType::Refresh => "refresh_token",
    };
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", grant);
    if !scopes.is_empty() {
        form.append_pair("scope", &scopes.join(" "));
    }
    PreparedRequest {
        method: http::Method::POST,
        url: url.clone(),
        headers: HEADERS.clone(),
        body: Some(Bytes::from(form.finish())),
        whole_body: None,
        session_body: None,
        // The server decides about a refresh token that it sees twice.
        repeat_safe: false,
        own_trace: false,
        shown: None,
        access: None,
    }
}
