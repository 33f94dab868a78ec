//! Removes credentials from responses.
//!
//! A service that echoes its request would turn a credential into data, which a later step could send to
//! another host. So credentials are removed from responses before any use; the secret values of inputs stay
//! in, because steps work with them.

use std::collections::BTreeSet;

use a2s::HIDDEN;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use encoding_rs::WINDOWS_1252;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use url::form_urlencoded::byte_serialize;

use super::{MIN_CHARS, RunSecrets, SecretIndex, build, text_encodings};
use crate::error::{Error, ErrorKind};
use crate::request::{RawResponse, decode_header, decode_text, parse_json};

/// The maximum total size of the credentials of one run, in all their spellings, in bytes. Tokens change
/// during a long run.
const MAX_BYTES: usize = 512 << 10;
/// The encode set for addresses: it keeps the unreserved characters of RFC 3986.
pub(crate) const ADDRESS: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The longest credential that is also searched for in other encodings: self-contained tokens (RFC 9068)
/// have a thousand bytes and more.
const MAX_ENCODED_LENGTH: usize = 2 << 10;

impl RunSecrets {
    /// Treats `text` as a credential from now on: it is never revealed, and is removed from responses.
    ///
    /// # Errors
    /// Returns [`ErrorKind::BudgetExceeded`] when there are more credentials than can be searched for.
    pub(crate) fn learn_credential(&self, text: &str) -> Result<(), Error> {
        let mut known = self.write();
        let mut texts = encoded_forms(text);
        texts.retain(|text| !known.credentials.contains(text));
        if texts.is_empty() {
            return Ok(());
        }
        known.credential_bytes += texts.iter().map(String::len).sum::<usize>();
        if known.credential_bytes > MAX_BYTES {
            let message =
                format!("the credentials of the run have more than {MAX_BYTES} bytes in total");
            return Err(Error::new(ErrorKind::BudgetExceeded, message));
        }
        known.credentials.extend(texts);
        known.credential_finder = Some(build(&known.credentials)?);
        known.rebuild()
    }

    /// Removes credentials from the headers and body of a response.
    pub(crate) fn remove_credentials(&self, mut response: RawResponse) -> RawResponse {
        let known = self.read();
        let Some(finder) = &known.credential_finder else { return response };
        for value in response.headers.values_mut() {
            let text = decode_header(value.as_bytes());
            let scrubbed = text_encodings::replace_found(finder, &text);
            if scrubbed != text {
                let placeholder = || HeaderValue::from_static(HIDDEN);
                *value = HeaderValue::from_str(&scrubbed).unwrap_or_else(|_| placeholder());
            }
        }
        // As it will be read: another charset is another spelling.
        let media_type = response.media_type();
        let text = decode_text(media_type.as_ref(), &response.body);
        let is_utf8 = text.as_bytes() == &response.body[..];
        if let Some(scrubbed) = known.remove_from_text(&text) {
            response.body = scrubbed.into();
            if let Some(media_type) = media_type.filter(|_| !is_utf8) {
                let now = format!("{}; charset=utf-8", media_type.essence());
                response.headers.remove(CONTENT_TYPE);
                response.headers.extend(HeaderValue::try_from(now).map(|now| (CONTENT_TYPE, now)));
            }
        } else if !is_utf8
            && let Some(scrubbed) = known.remove_from_text(&String::from_utf8_lossy(&response.body))
        {
            response.body = scrubbed.into();
        }
        response
    }
}

impl SecretIndex {
    /// `text` without credentials; `None` when it contains none. JSON stays JSON: a number that is a
    /// credential becomes a string.
    fn remove_from_text(&self, text: &str) -> Option<String> {
        let finder = self.credential_finder.as_ref()?;
        let Ok(value) = parse_json::<Value>(text.as_bytes()) else {
            return Some(text_encodings::replace_found(finder, text))
                .filter(|scrubbed| scrubbed != text);
        };
        let scrubbed = super::mask_with(finder, &self.credentials, &value);
        // Of members with one name the last one was read, and the others are in the text all the
        // same, which may be used as such.
        let is_clean = || scrubbed == value && text_encodings::replace_found(finder, text) == text;
        (!is_clean()).then(|| scrubbed.to_string())
    }
}

/// Returns a text in the spellings that a response may contain. The search itself decodes percent-encoding
/// and the escapes of JSON; it searches for base64 and hexadecimal digits directly.
fn encoded_forms(text: &str) -> BTreeSet<String> {
    let mut texts = BTreeSet::from([text.to_owned()]);
    // UTF-8 is often declared as another charset. Without one, a single invalid byte makes the text
    // Windows-1252.
    let (misread, _) = WINDOWS_1252.decode_without_bom_handling(text.as_bytes());
    texts.insert(misread.into_owned());
    if text.len() <= MAX_ENCODED_LENGTH {
        // Whole addresses and JSON texts are packed into base64 as well.
        let quoted = Value::from(text).to_string();
        let in_json = quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned();
        let in_form = byte_serialize(text.as_bytes()).collect();
        let in_address = utf8_percent_encode(text, ADDRESS).to_string();
        for form in BTreeSet::from([text.to_owned(), in_json, in_form, in_address]) {
            texts.extend(base64_forms(form.as_bytes()));
        }
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        texts.insert(hex.to_uppercase());
        texts.insert(hex);
    }
    texts.retain(|text| text.chars().count() >= MIN_CHARS);
    texts
}

/// The characters that encode `bytes` in base64, at any position in a longer text, without those that
/// depend on the text around them.
fn base64_forms(bytes: &[u8]) -> Vec<String> {
    let mut texts = Vec::new();
    for offset in 0..3 {
        let mut padded = vec![0; offset];
        padded.extend_from_slice(bytes);
        // Each character encodes six bits.
        let (first, end) = ((offset * 8).div_ceil(6), padded.len() * 8 / 6);
        for text in [STANDARD_NO_PAD.encode(&padded), URL_SAFE_NO_PAD.encode(&padded)] {
            texts.extend(text.get(first..end).map(str::to_owned));
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;

    fn scrub(credential: &str, body: &[u8]) -> String {
        scrub_as(credential, "text/plain", body)
    }

    /// The body as it is read afterwards.
    fn scrub_as(credential: &str, media_type: &str, body: &[u8]) -> String {
        let secrets = RunSecrets::default();
        secrets.learn_credential(credential).unwrap();
        let media_type = HeaderValue::from_str(media_type).unwrap();
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, media_type)]);
        let body = Bytes::copy_from_slice(body);
        let response = RawResponse { status: 200, headers, body, redirects: 0 };
        let scrubbed = secrets.remove_credentials(response);
        let media_type = scrubbed.media_type();
        decode_text(media_type.as_ref(), &scrubbed.body)
    }

    #[test]
    fn a_credential_is_taken_out_in_every_spelling() {
        let key = "k/ +\"canary?>~";
        let json = serde_json::to_string(key).unwrap();
        assert_eq!(scrub(key, format!("{{\"a\":{json}}}").as_bytes()), r#"{"a":"(secret)"}"#);
        assert_eq!(scrub(key, b"x=k%2F%20%2B%22canary%3F%3E~&y=1"), "x=(secret)&y=1");
        for before in ["", "a", "ab", "user:"] {
            for (text, rest) in [
                (STANDARD.encode(format!("{before}{key}")), "standard"),
                (URL_SAFE_NO_PAD.encode(format!("{before}{key}, and more")), "for addresses"),
            ] {
                let scrubbed = scrub(key, format!("<p>{text}</p>").as_bytes());
                assert!(scrubbed.contains(HIDDEN), "{before} {rest}: {scrubbed}");
            }
        }
        let hex: String = key.bytes().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(scrub(key, hex.as_bytes()), HIDDEN);
        let entities = "<p>k/ +&quot;canary?&gt;~</p>";
        assert_eq!(scrub_as(key, "text/xml", entities.as_bytes()), "<p>(secret)</p>");
        assert_eq!(scrub(key, b"nothing here"), "nothing here");
    }

    #[test]
    fn a_credential_is_found_under_several_layers() {
        let key = "k\"\\/ canary";
        let mut text = key.to_owned();
        for layer in 1..=3 {
            text = serde_json::to_string(&text).unwrap();
            let scrubbed = scrub(key, format!("<p>{text}</p>").as_bytes());
            assert!(!scrubbed.contains("canary"), "{layer}: {scrubbed}");
            let scrubbed = scrub(key, serde_json::json!([text]).to_string().as_bytes());
            assert!(!scrubbed.contains("canary"), "{layer}, in JSON: {scrubbed}");
        }
        let once = utf8_percent_encode(key, NON_ALPHANUMERIC);
        let once = once.to_string();
        let twice = utf8_percent_encode(&once, NON_ALPHANUMERIC);
        assert_eq!(scrub(key, format!("x={twice}").as_bytes()), "x=(secret)");
    }

    #[test]
    fn another_charset_hides_nothing() {
        let key = "pé+canary";
        let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
        let marked = [&b"\xff\xfe"[..], &utf16("ß pé+canary")].concat();
        for (media_type, body, expected) in [
            ("text/plain; charset=utf-16le", &utf16("ß pé+canary")[..], "ß (secret)"),
            ("text/plain; charset=utf-8", &marked, "ß (secret)"),
            ("text/plain; charset=iso-8859-1", b"\xdf p\xe9+canary", "ß (secret)"),
            ("text/plain", b"\xdf p\xe9+canary", "ß (secret)"),
            ("text/plain; charset=iso-8859-1", "ß pé+canary".as_bytes(), "Ã\u{178} (secret)"),
            // A byte that is not text does not make the rest unreadable.
            ("text/plain", b"\xdf p%C3%A9%2Bcanary", "ß (secret)"),
            ("application/octet-stream", b"\xff\x00\xc3 p\xc3\xa9+canary", "ÿ\0Ã (secret)"),
        ] {
            assert_eq!(scrub_as(key, media_type, body), expected, "{media_type}");
        }
        let json = utf16(r#"{"a": "pé+canary", "n": 1}"#);
        let scrubbed = scrub_as(key, "application/json; charset=utf-16le", &json);
        assert_eq!(scrubbed, r#"{"a":"(secret)","n":1}"#);
        // In ISO-2022-JP a letter may follow any number of meaningless sequences.
        let body = b"c\x1b(Banary";
        assert_eq!(scrub_as("canary", "text/plain; charset=iso-2022-jp", body), "(secret)");
        // What has no credential in it stays as it is, to the byte.
        let bytes = b"\xff\xd8\x00 100% of + it";
        let response = RawResponse {
            status: 200,
            headers: HeaderMap::new(),
            body: Bytes::from_static(bytes),
            redirects: 0,
        };
        let secrets = RunSecrets::default();
        secrets.learn_credential("canary").unwrap();
        assert_eq!(&secrets.remove_credentials(response).body[..], bytes);
    }

    #[test]
    fn a_credential_in_a_header_in_latin_1_is_removed() {
        let secrets = RunSecrets::default();
        secrets.learn_credential("canär-y").unwrap();
        let echoed = HeaderValue::from_bytes(b"key=can\xe4r-y").unwrap();
        let headers = HeaderMap::from_iter([(http::header::WARNING, echoed)]);
        let response = RawResponse { status: 200, headers, body: Bytes::new(), redirects: 0 };
        let scrubbed = secrets.remove_credentials(response);
        assert_eq!(scrubbed.headers[http::header::WARNING], "key=(secret)");
    }

    #[test]
    fn a_long_token_is_found_when_it_is_packed() {
        let token = "eyJhbGciOiJSUzI1NiJ9.".repeat(60);
        let packed = STANDARD.encode(format!("{{\"authorization\":\"Bearer {token}\"}}"));
        assert!(!scrub(&token, packed.as_bytes()).contains(&packed[200..300]));
    }

    #[test]
    fn what_stands_twice_is_taken_out_twice() {
        let text = r#"{"a": "canary", "a": 1, "b": [true]}"#;
        assert_eq!(scrub("canary", text.as_bytes()), r#"{"a":1,"b":[true]}"#);
        let spelt = r#"{"a": "\u0063anary", "a": "x"}"#;
        assert_eq!(scrub("canary", spelt.as_bytes()), r#"{"a":"x"}"#);
    }

    #[test]
    fn json_stays_json() {
        assert_eq!(scrub("12345", br#"{"n":12345,"m":912345}"#), r#"{"n":"(secret)","m":912345}"#);
        assert_eq!(scrub("true", br#"[true, "true"]"#), r#"[true,"(secret)"]"#);
        // Untouched to the letter where there is nothing to be taken out.
        assert_eq!(scrub("canary", b"{ \"a\" : 1.0e5 }"), "{ \"a\" : 1.0e5 }");
    }

    #[test]
    fn credentials_do_not_blind_digests_and_inputs_stay_in_answers() {
        let secrets = RunSecrets::new([7; 16]);
        secrets.learn(&serde_json::json!("an input")).unwrap();
        secrets.learn_credential("a credential").unwrap();
        let headers = HeaderMap::from_iter([(
            http::header::LOCATION,
            HeaderValue::from_static("/x?key=a+credential&q=an+input"),
        )]);
        let body = Bytes::from_static(b"an input, a credential");
        let response = RawResponse { status: 200, headers, body, redirects: 0 };
        let scrubbed = secrets.remove_credentials(response);
        assert_eq!(&scrubbed.body[..], b"an input, (secret)");
        assert_eq!(scrubbed.headers[http::header::LOCATION], "/x?key=(secret)&q=an+input");
        assert_eq!(secrets.mask_text("an input, a credential"), "(secret), (secret)");
        let only = RunSecrets::new([7; 16]);
        only.learn_credential("a credential").unwrap();
        let digest = a2s::Digest::of_bytes(b"request");
        assert_eq!(only.blind_digest(digest), digest);
        assert_ne!(secrets.blind_digest(digest), digest);
        assert!(!only.is_empty());
    }
}
