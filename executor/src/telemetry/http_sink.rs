//! Posting to a receiver over HTTP, again where it may take the same later.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use url::Url;

use crate::config::OtlpExport;
use crate::control_plane;
use crate::error::{Error, ErrorKind};

/// The timeout for one batch, as in OpenTelemetry's exporters.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The most attempts to send a batch that the receiver may accept later.
const ATTEMPTS: u32 = 3;
/// The pause after the first attempt; the next is twice as long.
const PAUSE: Duration = Duration::from_millis(500);
/// The maximum size of a response that is read, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// An HTTP endpoint that receives exports.
#[derive(Debug)]
pub(super) struct HttpReceiver {
    http: reqwest::Client,
    endpoint: Url,
    headers: HeaderMap,
}

impl HttpReceiver {
    /// Creates the receiver from the configuration. Errors call it `what`, and bodies have this content
    /// type. Nothing is sent yet.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Configuration`] when its address or a header cannot be used, or when a client
    /// cannot be created.
    pub(super) fn new(
        export: &OtlpExport,
        what: &str,
        content_type: &'static str,
    ) -> Result<Self, Error> {
        let unusable = |why: String| {
            Error::new(ErrorKind::Configuration, format!("the receiver of {what}: {why}"))
        };
        if !matches!(export.endpoint.scheme(), "http" | "https") || !export.endpoint.has_host() {
            let scheme = export.endpoint.scheme();
            return Err(unusable(format!(
                "an address that starts with `{scheme}:` is not an HTTP address"
            )));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &export.headers {
            let header = HeaderName::from_bytes(name.as_bytes());
            let header = header.map_err(|_| unusable(format!("`{name}` is not a header")))?;
            let mut value = HeaderValue::from_str(value.expose_secret()).map_err(|_| {
                unusable(format!("the value of `{name}` is not allowed in a header"))
            })?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        let http = control_plane::client(TIMEOUT)
            .user_agent(concat!("a2s-executor/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| unusable(error.to_string()))?;
        Ok(Self { http, endpoint: export.endpoint.clone(), headers })
    }

    /// Sends a body, and returns the response.
    ///
    /// # Errors
    /// Returns the reason why the receiver did not accept it.
    pub(super) async fn send(&self, body: Vec<u8>) -> Result<Vec<u8>, String> {
        let body = Bytes::from(body);
        let mut attempt = 1;
        loop {
            let (why, later) = match self.post(body.clone()).await {
                Ok((status, answer)) if status.is_success() => return Ok(answer),
                Ok((status, _)) => {
                    (format!("the receiver responded with status {status}"), is_retryable(status))
                }
                // The address may have a name and a password in it.
                Err(error) => (error.without_url().to_string(), true),
            };
            if !later || attempt >= ATTEMPTS {
                return Err(why);
            }
            tokio::time::sleep(PAUSE * 2_u32.pow(attempt - 1)).await;
            attempt += 1;
        }
    }

    async fn post(&self, body: Bytes) -> reqwest::Result<(StatusCode, Vec<u8>)> {
        let request = self.http.post(self.endpoint.clone()).headers(self.headers.clone());
        let mut response = request.body(body).send().await?;
        let status = response.status();
        let mut answer = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if MAX_ANSWER < answer.len() + chunk.len() {
                // Whatever it is, the receiver has taken the body.
                answer.clear();
                break;
            }
            answer.extend_from_slice(&chunk);
        }
        Ok((status, answer))
    }
}

/// Returns true when a receiver with this response may accept the same later (OTLP over HTTP, retryable
/// codes).
fn is_retryable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_sent_to_is_refused_at_the_start() {
        let new = |endpoint: &str, name: &str, value: &str| {
            let export = OtlpExport {
                endpoint: endpoint.parse().unwrap(),
                headers: vec![(name.to_owned(), a2s::Secret::new(value))],
            };
            let error = HttpReceiver::new(&export, "traces", "text/plain").unwrap_err();
            assert!(!error.message.contains("s3cret"), "{error}");
            error.kind
        };
        let refused = ErrorKind::Configuration;
        assert_eq!(new("ftp://me:s3cret@a.example/", "a", "b"), refused);
        assert_eq!(new("http://a.example/", "a b", "s3cret"), refused);
        assert_eq!(new("http://a.example/", "a", "s3cret\nc"), refused);
    }
}
