//! Requests and responses as JSON, the form in which they are sealed while their step waits for an
//! approval. They contain everything that has to be sent or read again. The credentials of a request are
//! not included, because they are selected again.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};
use url::Url;

use super::{PreparedRequest, RawResponse};

/// Bytes, written in Base64.
struct Base64Bytes(Bytes);

impl Serialize for Base64Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(|bytes| Self(bytes.into())).map_err(de::Error::custom)
    }
}

/// The serialization of a method as its name.
pub(super) mod method {
    use http::Method;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(in crate::request) fn serialize<S: Serializer>(
        method: &Method,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(method.as_str())
    }

    pub(in crate::request) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Method, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(de::Error::custom)
    }
}

/// The serialization of headers as names and values, in their order.
pub(crate) mod headers {
    use serde::ser::SerializeSeq as _;

    use super::{
        Base64Bytes, Bytes, Deserialize, Deserializer, HeaderMap, HeaderName, HeaderValue,
        Serializer, de,
    };

    pub(crate) fn serialize<S: Serializer>(
        headers: &HeaderMap,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(headers.len()))?;
        for (name, value) in headers {
            let value = Base64Bytes(Bytes::copy_from_slice(value.as_bytes()));
            list.serialize_element(&(name.as_str(), value))?;
        }
        list.end()
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<HeaderMap, D::Error> {
        let mut headers = HeaderMap::new();
        for (name, value) in Vec::<(String, Base64Bytes)>::deserialize(deserializer)? {
            let name: HeaderName = name.parse().map_err(de::Error::custom)?;
            let value = HeaderValue::from_maybe_shared(value.0).map_err(de::Error::custom)?;
            headers.append(name, value);
        }
        Ok(headers)
    }
}

/// A request without the credentials that it requires.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredRequest {
    #[serde(with = "method")]
    method: http::Method,
    url: Url,
    #[serde(with = "headers")]
    headers: HeaderMap,
    body: Option<Base64Bytes>,
    repeat_safe: bool,
    own_trace: bool,
    shown: Option<Map<String, Value>>,
}

impl From<PreparedRequest> for StoredRequest {
    fn from(request: PreparedRequest) -> Self {
        let PreparedRequest { method, url, headers, body, repeat_safe, own_trace, shown, .. } =
            request;
        let shown = shown.map(|shown| {
            shown.iter().map(|(place, value)| (place.to_string(), value.clone())).collect()
        });
        Self { method, url, headers, body: body.map(Base64Bytes), repeat_safe, own_trace, shown }
    }
}

impl TryFrom<StoredRequest> for PreparedRequest {
    type Error = String;

    fn try_from(stored: StoredRequest) -> Result<Self, String> {
        let StoredRequest { method, url, headers, body, repeat_safe, own_trace, shown } = stored;
        let place = |(name, value): (String, Value)| match name.parse() {
            Ok(place) => Ok((place, value)),
            Err(()) => Err(format!("`{name}` is not a location of a request")),
        };
        let shown = shown.map(|shown| shown.into_iter().map(place).collect::<Result<_, _>>());
        Ok(Self {
            method,
            url,
            headers,
            body: body.map(|body| body.0),
            whole_body: None,
            session_body: None,
            repeat_safe,
            own_trace,
            access: None,
            shown: shown.transpose()?.map(Arc::new),
        })
    }
}

/// A complete response.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredResponse {
    status: u16,
    #[serde(with = "headers")]
    headers: HeaderMap,
    body: Base64Bytes,
    redirects: u32,
}

impl From<RawResponse> for StoredResponse {
    fn from(response: RawResponse) -> Self {
        let RawResponse { status, headers, body, redirects } = response;
        Self { status, headers, body: Base64Bytes(body), redirects }
    }
}

impl From<StoredResponse> for RawResponse {
    fn from(stored: StoredResponse) -> Self {
        let StoredResponse { status, headers, body, redirects } = stored;
        Self { status, headers, body: body.0, redirects }
    }
}

#[cfg(test)]
mod tests {
    use a2s::InputLocation;
    use http::Method;
    use serde_json::json;

    use super::*;

    fn stored<T: Serialize + de::DeserializeOwned>(value: &T) -> T {
        serde_json::from_slice(&serde_json::to_vec(value).unwrap()).unwrap()
    }

    #[test]
    fn a_request_is_the_same_after_it_was_stored() {
        let mut headers = HeaderMap::new();
        headers.append("x-a", HeaderValue::from_bytes(b"\xff\xfe").unwrap());
        headers.append("x-a", HeaderValue::from_static("second"));
        headers.append("idempotency-key", HeaderValue::from_static("k"));
        let places = ["pathParameters.city", "queryParameters.a.b", "headerParameters.X-Y", "body"];
        let shown =
            places.map(|place| (place.parse::<InputLocation>().unwrap(), json!([place, null])));
        let request = PreparedRequest {
            method: Method::from_bytes(b"PURGE").unwrap(),
            url: Url::parse("https://api.example/a%2Fb?x=%20").unwrap(),
            headers,
            body: Some(Bytes::from_static(b"\x00\xff{}")),
            whole_body: None,
            session_body: None,
            repeat_safe: false,
            own_trace: true,
            access: None,
            shown: Some(Arc::new(shown.into_iter().collect())),
        };
        assert_eq!(stored(&request), request);
        let bare =
            PreparedRequest { body: None, shown: None, headers: HeaderMap::new(), ..request };
        assert_eq!(stored(&bare), bare);
    }

    #[test]
    fn a_response_is_the_same_after_it_was_stored() {
        let mut headers = HeaderMap::new();
        headers.append("set-cookie", HeaderValue::from_static("a=b"));
        headers.append("set-cookie", HeaderValue::from_static("c=d"));
        let body = Bytes::from_static(b"\xef\xbb\xbf{\"a\": 1e400}");
        let response = RawResponse { status: 207, headers, body, redirects: 3 };
        let again = stored(&response);
        assert_eq!(
            (again.status, &again.headers, &again.body, again.redirects),
            (207, &response.headers, &response.body, 3)
        );
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for text in [
            r#"{"method": "GET /", "url": "https://a.example", "headers": [], "repeat_safe": true, "own_trace": false}"#,
            r#"{"method": "GET", "url": "no", "headers": [], "repeat_safe": true, "own_trace": false}"#,
            r#"{"method": "GET", "url": "https://a.example", "headers": [["a", "Cg=="]], "repeat_safe": true, "own_trace": false}"#,
        ] {
            assert!(serde_json::from_str::<PreparedRequest>(text).is_err(), "{text}");
        }
    }
}
