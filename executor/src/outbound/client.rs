//! The HTTP client for services, and the checks of responses that the client itself would accept.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use super::resolve::AddressResolver;
use super::send_error::{SendError, innermost};
use crate::config::Limits;
use crate::error::{Error, ErrorKind};

/// The maximum size of the headers of a response, in bytes.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// The time for which an unused connection is kept. Common servers close theirs after five seconds; a
/// request on such a closed connection would be reported as possibly sent.
const POOL_IDLE: Duration = Duration::from_secs(4);

pub(super) fn build_client(
    builder: reqwest::ClientBuilder,
    resolver: AddressResolver,
    limits: &Limits,
) -> Result<reqwest::Client, Error> {
    builder
        .user_agent(concat!("a2s-executor/", env!("CARGO_PKG_VERSION")))
        .dns_resolver(Arc::new(resolver))
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        // Other crates may have compiled these in; an answer that unpacks has no size.
        .no_gzip()
        .no_brotli()
        .no_deflate()
        .no_zstd()
        .connect_timeout(limits.connect_timeout)
        .read_timeout(limits.read_timeout)
        .pool_idle_timeout(POOL_IDLE)
        .http2_max_header_list_size(MAX_HEADER_BYTES as u32)
        .build()
        .map_err(|error| {
            let message =
                format!("cannot create the HTTP client for services: {}", innermost(&error));
            Error::new(ErrorKind::Configuration, message)
        })
}

/// Rejects responses that the client accepts: with too many headers, or with a compressed body.
pub(super) fn check_headers(
    headers: &HeaderMap,
    host: impl Fn() -> String,
) -> Result<(), SendError> {
    let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if MAX_HEADER_BYTES < size {
        let host = host();
        let message =
            format!("the response of {host} has more than {MAX_HEADER_BYTES} bytes of headers");
        return Err(SendError::after_send(ErrorKind::ResponseTooLarge, message));
    }
    let encodings = headers.get_all(CONTENT_ENCODING).iter();
    match encodings.into_iter().find(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity")) {
        Some(encoding) => {
            // Another word may be a sent secret: a shortened one would escape masking.
            let known = ["br", "compress", "deflate", "gzip", "x-gzip", "zstd"];
            let known = known
                .into_iter()
                .find(|known| encoding.as_bytes().eq_ignore_ascii_case(known.as_bytes()));
            let which = match known {
                Some(known) => format!("the encoding `{known}`"),
                None => "an unknown encoding".to_owned(),
            };
            let host = host();
            let message =
                format!("{host} responded in {which}, although the request allows no encoding");
            Err(SendError::after_send(ErrorKind::NotJson, message))
        }
        None => Ok(()),
    }
}
