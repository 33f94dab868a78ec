//! Media types and ranges of them: `application/json`, `text/*`.

use std::fmt;

/// The maximum length of a media type with its parameters, in bytes.
const MAX_LENGTH: usize = 255;

/// A media type (RFC 9110, 8.3.1), or a range of them (12.5.1).
///
/// ```
/// let range = a2s::MediaType::parse("image/*").unwrap();
/// let png = a2s::MediaType::parse("image/PNG").unwrap();
/// assert!(range.is_range() && range.covers(&png));
/// assert!(a2s::MediaType::parse("image").is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MediaType {
    text: String,
    kind: String,
    subtype: String,
}

impl MediaType {
    /// Reads a media type; `None` when the text is not one. Type and subtype are tokens, and parameters are
    /// visible ASCII, so that the media type is valid in a header.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let essence = text.split(';').next().unwrap_or_default().trim_end();
        let (kind, subtype) = essence.split_once('/')?;
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        let is_token = |part: &str| !part.is_empty() && part.chars().all(token);
        let visible = text.chars().all(|c| (' '..='~').contains(&c));
        let fits = is_token(kind) && is_token(subtype) && visible && text.len() <= MAX_LENGTH;
        let [kind, subtype] = [kind, subtype].map(str::to_ascii_lowercase);
        // Of a type, only all of them may be meant: `*/json` is nothing.
        let range = !kind.contains('*') || (kind == "*" && subtype == "*");
        (fits && range).then(|| Self { text: text.to_owned(), kind, subtype })
    }

    /// Returns the media type as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns type and subtype in lower case, without parameters.
    #[must_use]
    pub fn essence(&self) -> String {
        format!("{}/{}", self.kind, self.subtype)
    }

    /// Returns a parameter in lower case, such as the `utf-8` of `text/csv; charset=utf-8`.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<String> {
        let mut parameters = self.text.split(';').skip(1).filter_map(|part| part.split_once('='));
        let (_, value) = parameters.find(|(key, _)| key.trim().eq_ignore_ascii_case(name))?;
        Some(value.trim().trim_matches('"').to_ascii_lowercase())
    }

    /// Returns true when it is the media type `essence`, given in lower case.
    #[must_use]
    pub fn is(&self, essence: &str) -> bool {
        essence.split_once('/') == Some((&self.kind, &self.subtype))
    }

    /// Returns true when it stands for several types: `image/*`, `application/*+json`, `*/*`.
    #[must_use]
    pub fn is_range(&self) -> bool {
        self.kind == "*" || self.subtype.starts_with('*')
    }

    /// Returns true when its content is JSON: `application/json`, `text/json`, `…+json`.
    #[must_use]
    pub fn is_json(&self) -> bool {
        let named = matches!(self.kind.as_str(), "application" | "text") && self.subtype == "json";
        named || self.subtype.ends_with("+json")
    }

    /// Returns true when its content is text that people could read: `text/…`, XML, YAML and the like.
    #[must_use]
    pub fn is_text(&self) -> bool {
        const TEXTS: [&str; 9] = [
            "ecmascript",
            "graphql",
            "javascript",
            "jsonl",
            "sql",
            "x-ndjson",
            "x-yaml",
            "xml",
            "yaml",
        ];
        self.kind == "text"
            || (self.kind == "application" && TEXTS.contains(&self.subtype.as_str()))
            || self.subtype.ends_with("+xml")
            || self.subtype.ends_with("+yaml")
    }

    /// Returns true when it does not identify its content, so that services often send JSON under it:
    /// `text/plain`, `application/octet-stream`.
    #[must_use]
    pub fn is_vague(&self) -> bool {
        self.is("text/plain") || self.is("application/octet-stream")
    }

    /// Returns true when `other` is this media type or is in this range; parameters do not count.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let kind = self.kind == "*" || self.kind == other.kind;
        let subtype = match self.subtype.strip_prefix('*') {
            Some(suffix) => other.subtype.ends_with(suffix),
            None => self.subtype == other.subtype,
        };
        kind && subtype
    }
}

impl fmt::Display for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media(text: &str) -> MediaType {
        MediaType::parse(text).unwrap()
    }

    #[test]
    fn only_media_types_are_read() {
        for text in
            ["json", "", "/", "a/", "/b", "a b/c", "a/b/c", "a/b;\u{e9}", "*/json", "a/b\n;c"]
        {
            assert_eq!(MediaType::parse(text), None, "{text}");
        }
        assert_eq!(MediaType::parse(&format!("a/{}", "b".repeat(300))), None);
        assert_eq!(media(" Text/CSV ; Charset=\"UTF-8\"").essence(), "text/csv");
        assert_eq!(
            media("text/csv; header=x; Charset=\"UTF-8\"").parameter("charset").unwrap(),
            "utf-8"
        );
    }

    #[test]
    fn ranges_cover_what_they_name() {
        for (range, inside, outside) in [
            ("*/*", "image/png", None),
            ("image/*", "IMAGE/png; q=1", Some("text/plain")),
            ("application/*+json", "application/problem+json", Some("application/json")),
            ("text/csv", "text/csv; charset=utf-8", Some("text/plain")),
        ] {
            assert!(media(range).covers(&media(inside)), "{range} {inside}");
            assert!(!outside.is_some_and(|other| media(range).covers(&media(other))), "{range}");
        }
        assert!(media("application/*+json").is_range() && media("application/*+json").is_json());
        assert!(!media("application/vnd.api+json").is_range());
        assert!(media("image/svg+xml").is_text() && !media("image/png").is_text());
    }
}
