//! The prepared request that a message shows in `context.request`, as conditions read it. Pure.
//!
//! Every part is brought into one spelling first, so that percent-encoding, case, `//`, `.` and
//! `..` cannot lead past a rule. It holds for the messages of every agent.

use std::borrow::Cow;

use aos::message::{Object, StepContext};
use bounded_cel::CelValue;

/// Returns the variable `request`. Its members are empty when the message has no prepared request.
pub(super) fn request(context: Option<&StepContext>) -> CelValue<'_> {
    let given = context.and_then(|context| context.extra.get("request"));
    let text =
        |name: &str| given.and_then(|members| members.get(name)?.as_str()).unwrap_or_default();
    let path = text("path");
    let known = [
        ("method", CelValue::from(Cow::Owned(text("method").to_ascii_uppercase()))),
        ("host", CelValue::from(Cow::Owned(normalize_host(text("host"))))),
        ("path", CelValue::from(Cow::Owned(normalize_path(path)))),
        ("segments", CelValue::list(path_segments(path).into_iter().map(Cow::Owned))),
        ("url", CelValue::from(Cow::Owned(normalize_url(text("url"))))),
        ("query", CelValue::from(Cow::Owned(normalize_encoding(text("query"))))),
        ("headers", headers(given)),
        ("body", body(given)),
    ];
    let names = known.each_ref().map(|(name, _)| *name);
    let others = given.into_iter().flatten().filter(|(name, _)| !names.contains(&name.as_str()));
    let others = others.map(|(name, value)| (name.as_str(), CelValue::from(value)));
    CelValue::object(others.collect::<Vec<_>>().into_iter().chain(known))
}

/// Returns the headers with their names in lower case.
fn headers(given: Option<&Object>) -> CelValue<'_> {
    let headers = given.and_then(|members| members.get("headers")?.as_object());
    let headers = headers.into_iter().flatten();
    CelValue::object(
        headers.map(|(name, value)| (Cow::Owned(name.to_ascii_lowercase()), CelValue::from(value))),
    )
}

fn body(given: Option<&Object>) -> CelValue<'_> {
    let body = given.and_then(|members| members.get("body")?.as_object());
    let absent = [
        ("text", CelValue::from("")),
        ("checksum", CelValue::from("")),
        ("bytes", CelValue::from(0_i64)),
        ("truncated", CelValue::from(false)),
    ];
    let given = body.into_iter().flatten();
    let given = given.map(|(name, value)| (name.as_str(), CelValue::from(value)));
    CelValue::object(absent.into_iter().chain(given))
}

/// Returns the host in lower case, with its port if it has one, without the dot at its end.
pub(super) fn normalize_host(host: &str) -> String {
    let host = normalize_encoding(host).to_ascii_lowercase();
    let host = host.trim_end_matches('.');
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) && !name.ends_with(':') => {
            format!("{}:{port}", name.trim_end_matches('.'))
        }
        _ => host.to_owned(),
    }
}

/// Normalises a path (RFC 3986, section 6.2.2): decodes unreserved characters, reads `\` as `/`, removes
/// empty segments and `.`, and resolves `..`. An empty path stays empty.
pub(super) fn normalize_path(path: &str) -> String {
    if path.is_empty() {
        return String::new();
    }
    let path = normalize_encoding(path).replace('\\', "/");
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let leads_on = ["/", "/.", "/.."].iter().any(|end| path.ends_with(end));
    let end = if leads_on && !segments.is_empty() { "/" } else { "" };
    format!("/{}{end}", segments.join("/"))
}

/// Returns the segments of a path as the most lenient service reads it: `%2F`, `\` and `%5C` separate, path
/// parameters (`;x=1`) are cut, then `.` and `..` are resolved. The segments are decoded once.
fn path_segments(path: &str) -> Vec<String> {
    let path = normalize_encoding(path).replace("%2F", "/").replace("%5C", "/").replace('\\', "/");
    let mut segments: Vec<String> = Vec::new();
    for segment in path.split('/') {
        let segment = segment.replace("%3B", ";");
        let segment = segment.split(';').next().unwrap_or_default();
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(decode_percent(segment)),
        }
    }
    segments
}

/// Decodes every percent-encoded byte. Bytes that are not UTF-8 become the replacement character.
fn decode_percent(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = |digit: &u8| char::from(*digit).to_digit(16);
        let decoded = match (first, after) {
            (b'%', [high, low, ..]) => {
                hex(high).zip(hex(low)).and_then(|(high, low)| u8::try_from(high * 16 + low).ok())
            }
            _ => None,
        };
        bytes.push(decoded.unwrap_or(*first));
        rest = if decoded.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Normalises the host and the path of an address. It removes the fragment, which is never sent.
pub(super) fn normalize_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return normalize_path(url) };
    let rest = rest.split('#').next().unwrap_or_default();
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, format!("?{}", normalize_encoding(query))),
        None => (rest, String::new()),
    };
    let start = rest.find(['/', '\\']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(start);
    let path = if path.is_empty() { "/" } else { path };
    let scheme = scheme.to_ascii_lowercase();
    format!("{scheme}://{}{}{query}", normalize_host(host), normalize_path(path))
}

/// Decodes percent-encoded unreserved characters, writes other encodings in upper case, and encodes a `%`
/// that does not begin an encoding. A second call changes nothing.
fn normalize_encoding(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        made.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let digits = after.as_bytes().first_chunk::<2>();
        let hex = |digit: u8| char::from(digit).to_digit(16);
        let byte = digits.and_then(|[high, low]| Some(hex(*high)? * 16 + hex(*low)?));
        let Some(byte) = byte else {
            made.push_str("%25");
            rest = after;
            continue;
        };
        match char::from_u32(byte) {
            Some(c) if c.is_ascii_alphanumeric() || "-._~".contains(c) => made.push(c),
            _ => {
                made.push('%');
                made.push_str(&after[..2].to_ascii_uppercase());
            }
        }
        rest = &after[2..];
    }
    made.push_str(rest);
    made
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_path_has_one_spelling() {
        for path in [
            "/admin/x",
            "/%61dmin/x",
            "//admin//x",
            "/x/../admin/x",
            "/%2e%2E/admin/./x",
            "\\admin\\x",
            "/../../admin/x",
            "admin/x",
            "/a/b/%2e%2e/../%61%64%6d%69%6E/%78",
        ] {
            assert_eq!(normalize_path(path), "/admin/x", "{path}");
        }
        for (path, expected) in [
            ("", ""),
            ("/", "/"),
            ("/a/", "/a/"),
            ("/a/..", "/"),
            ("/a/b/.", "/a/b/"),
            ("/a%2fb", "/a%2Fb"),
            ("/%2561dmin", "/%2561dmin"),
            ("/%%36%31", "/%2561"),
            ("/100%", "/100%25"),
            ("/ä%c3%a4", "/ä%C3%A4"),
        ] {
            assert_eq!(normalize_path(path), expected, "{path}");
        }
    }

    #[test]
    fn a_host_and_an_address_have_one_spelling() {
        for (host, expected) in [
            ("API.Example.", "api.example"),
            ("api.example.:8443", "api.example:8443"),
            ("[::1]", "[::1]"),
            ("%61pi.example", "api.example"),
            ("", ""),
        ] {
            assert_eq!(normalize_host(host), expected, "{host}");
        }
        for url in [
            "https://api.example/admin?x=%7e",
            "HTTPS://API.example./x/../%61dmin?x=~#f",
            "https://api.example\\admin?x=~",
        ] {
            assert_eq!(normalize_url(url), "https://api.example/admin?x=~", "{url}");
        }
    }

    #[test]
    fn segments_are_those_of_the_most_lenient_service() {
        for path in [
            "/admin/x",
            "/pub/..;/admin/x",
            "/%2Fadmin/x",
            "/%2fadmin%5cx",
            "/a/%2e%2e;a=b/admin;c=d/x;e",
            "//admin\\x/",
            "/;a/admin%3Bb/x/.;/",
            "/%61dmin/%78",
        ] {
            assert_eq!(path_segments(path), ["admin", "x"], "{path}");
        }
        assert_eq!(path_segments("/"), Vec::<String>::new());
        assert_eq!(path_segments("/caf%c3%a9/100%/%ff"), ["café", "100%", "\u{fffd}"]);
    }

    proptest! {
        #[test]
        fn normalizing_again_changes_nothing(text in "[a-zA-Z0-9%./\\\\:?#~ä-]{0,40}") {
            let path = normalize_path(&text);
            prop_assert_eq!(&normalize_path(&path), &path);
            prop_assert!(!path.contains("//") && !path.contains("/../") && !path.contains("/./"));
            let host = normalize_host(&text);
            prop_assert_eq!(normalize_host(&host), host);
        }

        #[test]
        fn no_spelling_of_a_segment_leads_past_its_rule(
            encoded in prop::collection::vec(any::<bool>(), 5),
            before in prop::sample::select(&["/", "//", "/./", "/x/../", "/%2e/", "/x/%2E%2e/"][..]),
        ) {
            let admin = "admin".bytes().zip(encoded);
            let admin: String = admin
                .map(|(byte, encoded)| match encoded {
                    true => format!("%{byte:02x}"),
                    false => char::from(byte).to_string(),
                })
                .collect();
            prop_assert_eq!(normalize_path(&format!("{before}{admin}/users")), "/admin/users");
        }
    }
}
