//! Reads the body of a response within its limits.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::timeout;
use url::Url;

use super::content_coding::{ContentDecoder, DecodeError};
use super::send_error::{SendError, innermost};
use crate::error::{Error, ErrorKind};
use crate::request::{EventStreamReader, authority};

/// A reader of the body of a response from the host of `url`.
pub(super) struct BodyReader<'r> {
    /// The address of the request.
    pub(super) url: &'r Url,
    /// The maximum size of the body, as received and as decoded.
    pub(super) limit: usize,
    /// The maximum time without any bytes.
    pub(super) read_timeout: Duration,
}

impl BodyReader<'_> {
    /// Reads the body after `headers` of the response to a request with `method`, and decodes it. The
    /// headers do not name its coding any more then. Of a stream of events it reads as much as `listener`
    /// wants, and returns the event that ends the stream.
    pub(super) async fn read(
        &self,
        headers: &mut HeaderMap,
        method: &Method,
        mut incoming: Incoming,
        mut listener: Option<EventStreamReader>,
    ) -> Result<Bytes, SendError> {
        let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        let announced = announced.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        if *method != Method::HEAD && (self.limit as u64) < announced {
            return Err(self.too_large());
        }
        let explain = |error| self.explain_coding(error);
        let mut decoder = ContentDecoder::from_headers(headers, self.limit).map_err(explain)?;
        if decoder.is_some() {
            headers.remove(http::header::CONTENT_ENCODING);
            headers.remove(CONTENT_LENGTH);
        }
        let mut body = BytesMut::new();
        // Of a stream that is listened to, what has come so far counts, and the response is kept.
        let mut read = 0;
        loop {
            let frame = timeout(self.read_timeout, incoming.frame()).await.map_err(|_| {
                let what = format!("no more data after {read} bytes of its response");
                SendError::silent(&authority(self.url), &what, self.read_timeout)
            })?;
            let frame = match frame {
                Some(frame) => {
                    let frame =
                        frame.map_err(|error| self.ended_early(read, &innermost(&error)))?;
                    let Ok(chunk) = frame.into_data() else { continue };
                    Some(chunk)
                }
                None => None,
            };
            let is_last = frame.is_none();
            let chunk = frame.unwrap_or_default();
            read += chunk.len();
            if self.limit < read {
                return Err(self.too_large());
            }
            let chunk = match &mut decoder {
                None => chunk,
                Some(decoder) if is_last => decoder.finish().map_err(explain)?.into(),
                Some(decoder) => decoder.push(&chunk).map_err(explain)?.into(),
            };
            match &mut listener {
                None => body.extend_from_slice(&chunk),
                Some(listener) => {
                    if let Some(event) = listener.push_bytes(&chunk) {
                        return Ok(event);
                    }
                }
            }
            if is_last {
                break;
            }
        }
        if listener.is_some() {
            let host = authority(self.url);
            let message = format!("{host} ended its stream of events without a response");
            return Err(SendError::after_send(ErrorKind::ConnectionLost, message));
        }
        Ok(body.freeze())
    }

    fn too_large(&self) -> SendError {
        let message =
            format!("the response of {} has more than {} bytes", authority(self.url), self.limit);
        SendError::after_send(ErrorKind::ResponseTooLarge, message)
    }

    fn ended_early(&self, read: usize, cause: &str) -> SendError {
        let host = authority(self.url);
        let message = format!("the response of {host} ended early after {read} bytes: {cause}");
        SendError::after_send(ErrorKind::ConnectionLost, message)
    }

    fn explain_coding(&self, error: DecodeError) -> SendError {
        if error == DecodeError::TooLarge {
            return self.too_large();
        }
        let message = format!("{} responded with {error}", authority(self.url));
        let error = Error::new(ErrorKind::NotJson, message).with_hint(CODING_HINT);
        SendError { sent: true, ..SendError::before_send(error) }
    }
}

/// The hint for a body that cannot be decoded.
const CODING_HINT: &str = "Ask the operator of the service to respond without compression to a request with `Accept-Encoding: identity`, or with a valid body in `gzip`.";
