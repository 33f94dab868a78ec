//! Responses of an authorization server.

use std::time::Duration;

use a2s::Secret;
use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::Value;

use crate::request::{RawResponse, parse_json};

/// The maximum lifetime of a token that is accepted, in seconds.
const MAX_LIFE: f64 = 365.0 * 86_400.0;
/// The maximum length of a token, in bytes.
const MAX_TOKEN: usize = 16 << 10;

/// The response of an authorization server with a token (RFC 6749, section 5.1).
#[derive(Debug)]
pub(super) struct TokenGrant {
    pub(super) access_token: Secret,
    pub(super) refresh_token: Option<Secret>,
    pub(super) life: Option<SignedDuration>,
}

/// The reason for a missing token. It contains no text of the server, because that may repeat the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenError {
    /// The server cannot respond now; contains the status.
    Busy(u16),
    /// The server refuses the client; contains the status, and the error code if it is a known one.
    Refused(u16, Option<&'static str>),
    /// The server responds with a status that no token has, and that is no refusal.
    Status(u16),
    /// The defect of the response.
    Unusable(&'static str),
}

#[derive(Deserialize)]
struct TokenResponseBody {
    access_token: Option<Secret>,
    token_type: Option<String>,
    expires_in: Option<Value>,
    refresh_token: Option<Secret>,
    error: Option<Value>,
}

/// The error codes of servers (RFC 6749, section 5.2; RFC 8707, section 2), and codes that some servers use
/// in their place.
const CODES: [&str; 10] = [
    "access_denied",
    "bad_verification_code",
    "invalid_client",
    "invalid_grant",
    "invalid_request",
    "invalid_scope",
    "invalid_target",
    "server_error",
    "unauthorized_client",
    "unsupported_grant_type",
];

/// Reads the response of a token endpoint.
pub(super) fn parse_token_response(response: &RawResponse) -> Result<TokenGrant, TokenError> {
    let status = response.status;
    if status == 429 || (500..600).contains(&status) {
        return Err(TokenError::Busy(status));
    }
    // The words of the parser could quote the token.
    let answer = parse_json::<TokenResponseBody>(&response.body).ok();
    let error = answer.as_ref().and_then(|answer| answer.error.as_ref());
    let code = error.and_then(Value::as_str);
    let code = code.and_then(|code| CODES.into_iter().find(|known| *known == code));
    // Some servers refuse with the status of success.
    if code.is_some() || matches!(status, 400 | 401 | 403) {
        return Err(TokenError::Refused(status, code));
    }
    let unusable = |why| Err(TokenError::Unusable(why));
    if status != 200 {
        return Err(TokenError::Status(status));
    }
    let Some(answer) = answer else {
        return unusable("returned no token: its response is not the response of a token endpoint");
    };
    if !answer.token_type.as_deref().unwrap_or("bearer").eq_ignore_ascii_case("bearer") {
        return unusable("returned a token of an unsupported type; only `bearer` is supported");
    }
    let fits = |token: &Secret, extra: &[u8]| {
        let text = token.expose_secret();
        let is_visible = |byte: u8| byte.is_ascii_graphic() || extra.contains(&byte);
        (1..=MAX_TOKEN).contains(&text.len()) && text.bytes().all(is_visible)
    };
    let Some(access_token) = answer.access_token.filter(|token| fits(token, b"")) else {
        return unusable("returned a token that is not allowed in a header");
    };
    Ok(TokenGrant {
        access_token,
        // It goes into a form, so it may have spaces (RFC 6749, appendix A.17).
        refresh_token: answer.refresh_token.filter(|token| fits(token, b" ")),
        life: answer.expires_in.as_ref().and_then(parse_lifetime),
    })
}

/// Reads a number of seconds, which some servers send as a string.
fn parse_lifetime(value: &Value) -> Option<SignedDuration> {
    let seconds = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    let seconds = if seconds.is_nan() { 0.0 } else { seconds.clamp(0.0, MAX_LIFE) };
    SignedDuration::try_from(Duration::from_secs_f64(seconds)).ok()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;
    use serde_json::json;

    use super::*;

    fn read(status: u16, body: &str) -> Result<TokenGrant, TokenError> {
        let body = Bytes::copy_from_slice(body.as_bytes());
        parse_token_response(&RawResponse { status, headers: HeaderMap::new(), body, redirects: 0 })
    }

    #[test]
    fn answers_of_token_endpoints_are_read_with_care() {
        let life = |value: Value| {
            let body = json!({"access_token": "t", "expires_in": value});
            read(200, &body.to_string()).unwrap().life
        };
        assert_eq!(life(json!(3600)), Some(SignedDuration::from_secs(3_600)));
        assert_eq!(life(json!("60")), Some(SignedDuration::from_secs(60)));
        assert_eq!(life(json!(-5)), Some(SignedDuration::ZERO));
        assert_eq!(life(json!(1e300)), Some(SignedDuration::from_secs(365 * 86_400)));
        assert_eq!((life(json!("NaN")), life(json!([]))), (Some(SignedDuration::ZERO), None));
        let not_one = TokenError::Unusable(
            "returned no token: its response is not the response of a token endpoint",
        );
        let none_fits = TokenError::Unusable("returned a token that is not allowed in a header");
        let other_type = TokenError::Unusable(
            "returned a token of an unsupported type; only `bearer` is supported",
        );
        let long = json!({"access_token": "t".repeat(MAX_TOKEN + 1)}).to_string();
        for (status, body, expected) in [
            (
                400,
                r#"{"error": "invalid_client", "error_description": "canary"}"#,
                TokenError::Refused(400, Some("invalid_client")),
            ),
            // The secret itself could be such a word.
            (401, r#"{"error": "canary_secret"}"#, TokenError::Refused(401, None)),
            (400, r#"{"error": ["canary"]}"#, TokenError::Refused(400, None)),
            (403, "<p>canary</p>", TokenError::Refused(403, None)),
            (
                200,
                r#"{"error": "bad_verification_code"}"#,
                TokenError::Refused(200, Some("bad_verification_code")),
            ),
            (503, "canary", TokenError::Busy(503)),
            (500, r#"{"error": "invalid_client"}"#, TokenError::Busy(500)),
            (429, r#"{"access_token": "canary"}"#, TokenError::Busy(429)),
            (201, r#"{"access_token": "canary"}"#, TokenError::Status(201)),
            (202, "", TokenError::Status(202)),
            (404, "", TokenError::Status(404)),
            (200, "<p>canary</p>", not_one),
            (200, r#"{"access_token": 12}"#, not_one),
            (200, r#"{"access_token": "a", "access_token": "b"}"#, not_one),
            (200, r#"["canary"]"#, not_one),
            (200, r#"{"token": "canary"}"#, none_fits),
            (200, r#"{"access_token": "can ary"}"#, none_fits),
            (200, r#"{"access_token": "can\r\nary: x"}"#, none_fits),
            (200, r#"{"access_token": ""}"#, none_fits),
            (200, &long, none_fits),
            (200, r#"{"access_token": "canary", "token_type": "DPoP"}"#, other_type),
        ] {
            assert_eq!(read(status, body).map(|_| ()), Err(expected), "{body:.100}");
        }
        let marked = read(200, "\u{feff}{\"access_token\": \"t\"}").unwrap();
        assert_eq!(marked.access_token, Secret::new("t"));
        let granted =
            read(200, r#"{"access_token": "t", "token_type": "Bearer", "refresh_token": "r 1"}"#);
        assert_eq!(granted.unwrap().refresh_token, Some(Secret::new("r 1")));
    }
}
