//! What an authorization server answers.

use std::time::Duration;

use a2s::Secret;
use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, Kind};
use crate::request::RawResponse;

/// The longest life of a token that is believed, in seconds.
const MAX_LIFE: f64 = 365.0 * 86_400.0;
/// The longest token.
const MAX_TOKEN: usize = 16 << 10;
/// What an authorization server gives (RFC 6749, section 5.1).
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) access_token: Secret,
    pub(super) refresh_token: Option<Secret>,
    pub(super) life: Option<SignedDuration>,
}

#[derive(Deserialize)]
struct Answer {
    access_token: Option<Secret>,
    token_type: Option<String>,
    expires_in: Option<Value>,
    refresh_token: Option<Secret>,
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
}

pub(super) fn read_grant(response: &RawResponse, host: &str) -> Result<Granted, Error> {
    let refused = |why: String| Error::new(Kind::TokenRefused, format!("{host} {why}"));
    if response.status != 200 {
        // Words of the server may repeat what it was sent; its code is one of a few.
        let refusal = serde_json::from_slice::<Refusal>(&response.body).ok();
        let known = |c: char| c.is_ascii_lowercase() || c == '_';
        let code = refusal.map(|refusal| refusal.error);
        let code = code.filter(|code| code.len() <= 40 && code.chars().all(known));
        let code = code.map_or_else(String::new, |code| format!(" and says `{code}`"));
        return Err(refused(format!(
            "gave none: it answered with status {}{code}",
            response.status
        )));
    }
    // The words of the parser could quote the token.
    let answer: Answer = serde_json::from_slice(&response.body)
        .map_err(|_| refused("gave none: its answer is not that of a token endpoint".to_owned()))?;
    let kind = answer.token_type.as_deref().unwrap_or("bearer");
    if !kind.eq_ignore_ascii_case("bearer") {
        return Err(refused("gave one of a type that is not sent; only `bearer` is".to_owned()));
    }
    let fits = |token: &Secret| {
        let text = token.reveal();
        (1..=MAX_TOKEN).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let access_token = answer.access_token.filter(fits);
    let access_token =
        access_token.ok_or_else(|| refused("gave none that can stand in a header".to_owned()))?;
    Ok(Granted {
        access_token,
        refresh_token: answer.refresh_token.filter(fits),
        life: answer.expires_in.as_ref().and_then(read_life),
    })
}

/// Seconds, as a number or, as some servers have it, a string.
fn read_life(value: &Value) -> Option<SignedDuration> {
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

    fn read(status: u16, body: &Value) -> Result<Granted, String> {
        let body = Bytes::from(body.to_string());
        let response = RawResponse { status, headers: HeaderMap::new(), body, redirects: 0 };
        read_grant(&response, "login.example").map_err(|error| error.message)
    }

    #[test]
    fn answers_of_token_endpoints_are_read_with_care() {
        let life = |value: Value| {
            read(200, &json!({"access_token": "t", "expires_in": value})).unwrap().life
        };
        assert_eq!(life(json!(3600)), Some(SignedDuration::from_secs(3_600)));
        assert_eq!(life(json!("60")), Some(SignedDuration::from_secs(60)));
        assert_eq!(life(json!(-5)), Some(SignedDuration::ZERO));
        assert_eq!(life(json!(1e300)), Some(SignedDuration::from_secs(365 * 86_400)));
        assert_eq!((life(json!("NaN")), life(json!([]))), (Some(SignedDuration::ZERO), None));
        for (status, body, expected) in [
            (
                400,
                json!({"error": "invalid_client", "error_description": "canary"}),
                "status 400 and says `invalid_client`",
            ),
            (
                400,
                json!({"error": "Canary is wrong"}),
                "login.example gave none: it answered with status 400",
            ),
            (503, json!("canary"), "status 503"),
            (201, json!({"access_token": "canary"}), "status 201"),
            (200, json!({"access_token": 12}), "not that of a token endpoint"),
            (200, json!({"token": "canary"}), "none that can stand"),
            (200, json!({"access_token": "can ary"}), "none that can stand"),
            (200, json!({"access_token": "canary", "token_type": "mac"}), "only `bearer` is"),
        ] {
            let message = read(status, &body).unwrap_err();
            assert!(message.contains(expected) && !message.contains("anary"), "{message}");
        }
        let granted =
            read(200, &json!({"access_token": "t", "token_type": "Bearer", "refresh_token": "r"}));
        assert_eq!(granted.unwrap().refresh_token, Some(Secret::new("r")));
    }
}
