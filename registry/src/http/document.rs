//! Content negotiation of documents.

use a2s::Digest;
use a2s_api::YAML;
use axum::http::{HeaderMap, HeaderValue, header};

use crate::Error;

const JSON: &str = "application/json";

/// A form of a document in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DocumentRepresentation {
    /// The source text, which is YAML even when it is JSON.
    Yaml,
    /// The content as JSON.
    Json,
}

impl DocumentRepresentation {
    /// Returns the form that the caller prefers, and the source text when both are equal (RFC 9110, section
    /// 12.5.1).
    ///
    /// # Errors
    /// Fails when the caller accepts neither.
    pub(super) fn from_accept_header(headers: &HeaderMap) -> Result<Self, Error> {
        let values: Vec<_> = headers
            .get_all(header::ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .collect();
        if values.is_empty() {
            return Ok(Self::Yaml);
        }
        let accept = values.join(",");
        let yaml = [YAML, "application/x-yaml", "text/yaml", "text/x-yaml"]
            .into_iter()
            .map(|media_type| quality(&accept, media_type))
            .fold(0.0, f32::max);
        let json = quality(&accept, JSON);
        match (yaml, json) {
            (yaml, json) if yaml > 0.0 && yaml >= json => Ok(Self::Yaml),
            (_, json) if json > 0.0 => Ok(Self::Json),
            _ => Err(Error::NotAcceptable(accept.chars().take(120).collect())),
        }
    }

    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::Yaml => YAML,
            Self::Json => JSON,
        }
    }
}

/// The preference for a media type; the most exact range decides.
fn quality(accept: &str, media_type: &str) -> f32 {
    let group = media_type.split('/').next().unwrap_or_default();
    let mut best = (0, 0.0);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let exactness = match name.split_once('/') {
            _ if name == media_type => 3,
            Some((this, "*")) if this == group => 2,
            Some(("*", "*")) => 1,
            _ => continue,
        };
        let quality = parts
            .find_map(|part| part.strip_prefix("q=")?.parse().ok())
            .filter(|quality| (0.0..=1.0).contains(quality))
            .unwrap_or(1.0);
        if exactness > best.0 {
            best = (exactness, quality);
        }
    }
    best.1
}

/// Creates a weak tag, because both forms of one document have the same tag.
pub(super) fn etag(digest: Digest) -> HeaderValue {
    HeaderValue::try_from(format!("W/\"{digest}\"")).unwrap_or(HeaderValue::from_static("W/\"\""))
}

/// Returns true when the caller already has this representation (RFC 9110, section 13.1.2).
pub(super) fn matches_etag(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let Ok(tag) = tag.to_str() else { return false };
    headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|known| known.trim() == "*" || opaque(known) == opaque(tag))
}

/// Converts a document to JSON. A document that is JSON stays unchanged.
///
/// # Errors
/// Fails when the source is not a document, although it was one when it was opened.
pub(super) fn to_json(source: Vec<u8>) -> Result<Vec<u8>, Error> {
    if serde_json::from_slice::<serde::de::IgnoredAny>(&source).is_ok() {
        return Ok(source);
    }
    let document = a2s::compile(&source)
        .document
        .ok_or_else(|| Error::Internal("a verified document does not compile".into()))?;
    serde_json::to_vec(document.content()).map_err(|e| Error::Internal(e.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(accept: &str, expected: Option<DocumentRepresentation>) {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        assert_eq!(DocumentRepresentation::from_accept_header(&headers).ok(), expected, "{accept}");
    }

    #[test]
    fn the_caller_gets_the_form_it_likes_best() {
        check("*/*", Some(DocumentRepresentation::Yaml));
        check("application/*", Some(DocumentRepresentation::Yaml));
        check("application/json", Some(DocumentRepresentation::Json));
        check("application/json, */*;q=0.1", Some(DocumentRepresentation::Json));
        check("application/yaml;q=0.5, application/json;q=0.4", Some(DocumentRepresentation::Yaml));
        check("text/yaml", Some(DocumentRepresentation::Yaml));
        check("*/*, application/yaml;q=0", Some(DocumentRepresentation::Yaml));
        check("application/json;q=0", None);
        check("text/html", None);
        check("", None);
    }

    #[test]
    fn a_tag_is_known_in_its_weak_and_strong_spelling() {
        let tag = etag(Digest::of_bytes(b""));
        let known = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, value.parse().unwrap());
            matches_etag(&headers, &tag)
        };
        let text = tag.to_str().unwrap();
        assert!(known(text) && known(&text[2..]) && known("*"));
        assert!(known(&format!("\"other\", {text}")));
        assert!(!known("\"other\"") && !known(""));
    }
}
