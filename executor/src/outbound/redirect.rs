//! The target of a redirect, and the way to an upstream and back. Pure.

use http::{HeaderValue, Method, StatusCode};
use percent_encoding::{AsciiSet, percent_encode};
use url::Url;

use crate::request::RedirectTarget;
use crate::request::authority;

/// The encode set that leaves ASCII as it is.
const RAW: &AsciiSet = &AsciiSet::EMPTY;

/// The maximum length of a `Location` header, in bytes.
const MAX_LOCATION: usize = 4 * 1024;

/// The maximum length of a host or scheme in an error, in bytes: a host name has at most 253 characters,
/// and perhaps a port.
const MAX_QUOTED: usize = 260;

/// The maximum length of the target address of a redirect, in bytes.
const MAX_URL: usize = 16 * 1024;

/// The next request after a response, if the response redirects (RFC 9110, section 15.4).
///
/// `url` is the requested address in the document's terms. `upstream` is the address that is configured in
/// its place, and the requested address in the upstream's terms.
///
/// # Errors
/// The reason for which the redirect is not followed: it must stay on the same host, and must not go from
/// https to http.
pub(crate) fn next_target(
    status: StatusCode,
    location: Option<&HeaderValue>,
    method: &Method,
    url: &Url,
    upstream: Option<(&Url, &Url)>,
) -> Result<Option<RedirectTarget>, String> {
    let Some(location) = location else { return Ok(None) };
    let becomes_get = match status {
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => *method == Method::POST,
        StatusCode::SEE_OTHER => *method != Method::HEAD,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => false,
        _ => return Ok(None),
    };
    let host = authority(url);
    let malformed = || format!("{host} redirects to a malformed address");
    let location = Some(location.as_bytes()).filter(|bytes| bytes.len() <= MAX_LOCATION);
    let location = &encode_raw(location.ok_or_else(malformed)?);
    let mut next = url.join(location).map_err(|_| malformed())?;
    if let Some((base, asked)) = upstream
        && let Ok(meant) = asked.join(location)
        && let Some(documented) = from_upstream(&meant, base, url)
    {
        next = documented;
    }
    next.set_fragment(None);
    if MAX_URL < next.as_str().len() {
        return Err(format!("{host} redirects to an address of more than {MAX_URL} bytes"));
    }
    check_target(url, &next)?;
    let method = if becomes_get { Method::GET } else { method.clone() };
    Ok(Some(RedirectTarget { method, url: next, keeps_body: !becomes_get }))
}

/// Returns a location in which bytes other than ASCII are percent-encoded, as browsers do: services send
/// addresses as they are written.
fn encode_raw(location: &[u8]) -> String {
    percent_encode(location, RAW).to_string()
}

fn check_target(url: &Url, next: &Url) -> Result<(), String> {
    let host = authority(url);
    if !next.username().is_empty() || next.password().is_some() {
        return Err(format!("{host} redirects to an address with a user name or a password"));
    }
    if !matches!(next.scheme(), "http" | "https") {
        return Err(format!("{host} redirects to {}", quote("the scheme", next.scheme())));
    }
    if url.host() != next.host() {
        let other = quote("another host,", &authority(next));
        return Err(format!("{host} redirects to {other}, which requires a separate task"));
    }
    let is_default = |url: &Url| url.port().is_none();
    match (url.scheme(), next.scheme()) {
        ("https", "http") => Err(format!("{host} redirects from https to http")),
        ("http", "https") if is_default(url) && is_default(next) => Ok(()),
        _ if url.port_or_known_default() == next.port_or_known_default() => Ok(()),
        _ => Err(format!("{host} redirects to another port, `{}`", authority(next))),
    }
}

/// Quotes a word of a service in full or not at all: it may be a credential, and a part of one could not be
/// found and masked.
fn quote(what: &str, word: &str) -> String {
    if word.len() <= MAX_QUOTED {
        format!("{what} `{word}`")
    } else {
        format!("{what} too long to show")
    }
}

/// The address at an upstream that corresponds to `url`: the upstream's path is put in front.
pub(super) fn to_upstream(url: &Url, base: &Url) -> Url {
    let mut target = base.clone();
    target.set_path(&format!("{}{}", base.path().trim_end_matches('/'), url.path()));
    target.set_query(url.query());
    target
}

/// The address in the document's terms that corresponds to `target` at an upstream; `None` when `target` is
/// elsewhere.
fn from_upstream(target: &Url, base: &Url, url: &Url) -> Option<Url> {
    let prefix = base.path().trim_end_matches('/');
    let path = target.path().strip_prefix(prefix)?;
    if target.origin() != base.origin() || !path.starts_with('/') {
        return None;
    }
    let mut documented = url.clone();
    documented.set_path(path);
    documented.set_query(target.query());
    Some(documented)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn follow(from: &str, location: &str) -> Result<String, String> {
        let location = HeaderValue::from_str(location).unwrap();
        let hop = next_target(StatusCode::FOUND, Some(&location), &Method::GET, &url(from), None)?;
        Ok(hop.unwrap().url.to_string())
    }

    #[test]
    fn a_raw_location_is_percent_encoded() {
        let follow = |location: &[u8]| {
            let (url, location) =
                (url("https://api.example/"), HeaderValue::from_bytes(location).unwrap());
            let hop = next_target(StatusCode::FOUND, Some(&location), &Method::GET, &url, None)?;
            Ok(hop.unwrap().url.to_string())
        };
        let expected = "https://api.example/a%20b/%C3%BC?q=%C3%BC%20x".to_owned();
        assert_eq!(follow("/a b/ü?q=ü x".as_bytes()), Ok(expected));
        assert_eq!(follow(b"/\xfc"), Ok("https://api.example/%FC".to_owned()));
        let kept = "https://api.example/%C3%BC".to_owned();
        assert_eq!(follow(b"/%C3%BC"), Ok(kept));
        // An address of another host stays one, however it is written.
        let other: Result<String, String> = follow("https://bücher.example/".as_bytes());
        assert!(other.unwrap_err().contains("another host"));
        assert!(follow(b"https://api.example\xff/").is_err());
        assert!(follow(b"https://api.example@\xc3\xbc.example/").is_err());
    }

    #[test]
    fn a_redirect_is_followed_on_the_same_host() {
        let from = "https://api.example/a/b?x=1#f";
        for (location, expected) in [
            ("/c?y=2", "https://api.example/c?y=2"),
            ("c", "https://api.example/a/c"),
            ("../c", "https://api.example/c"),
            ("?y=2", "https://api.example/a/b?y=2"),
            ("https://API.example:443/c#f", "https://api.example/c"),
            ("//api.example/c", "https://api.example/c"),
        ] {
            assert_eq!(follow(from, location).as_deref(), Ok(expected), "{location}");
        }
        let upgraded = follow("http://api.example/a", "https://api.example/a");
        assert_eq!(upgraded.as_deref(), Ok("https://api.example/a"));
    }

    #[test]
    fn a_redirect_elsewhere_is_refused() {
        let from = "https://api.example/a";
        for (location, reason) in [
            ("https://evil.example/", "another host, `evil.example`"),
            ("//evil.example/", "another host"),
            ("https://api.example.evil.example/", "another host"),
            ("https://www.api.example/", "another host"),
            ("http://169.254.169.254/latest/meta-data", "another host, `169.254.169.254`"),
            ("https://[::1]/", "another host"),
            ("http://api.example/a", "from https to http"),
            ("https://api.example:8443/", "another port"),
            ("https://user@api.example/", "user name"),
            ("https://api.example@evil.example/", "user name"),
            ("https://:secret@api.example/", "password"),
            ("ftp://api.example/", "scheme `ftp`"),
            ("javascript:alert(1)", "scheme `javascript`"),
            ("file:///etc/passwd", "scheme `file`"),
            ("https://", "a malformed address"),
            (&format!("https://{}/", "canary".repeat(50)), "another host, too long to show"),
            (&format!("/{}", "x".repeat(MAX_LOCATION)), "a malformed address"),
        ] {
            let refused = follow(from, location).unwrap_err();
            assert!(refused.contains(reason), "{location}: {refused}");
        }
        let refused = follow("http://api.example:8080/a", "https://api.example:8443/a");
        assert!(refused.unwrap_err().contains("another port"));
    }

    #[test]
    fn the_method_of_the_next_request_follows_the_status() {
        let becomes = |status: u16, method: Method| {
            let location = HeaderValue::from_static("/b");
            let status = StatusCode::from_u16(status).unwrap();
            let from = url("https://api.example/a");
            let hop = next_target(status, Some(&location), &method, &from, None).unwrap();
            hop.map(|hop| (hop.method, hop.keeps_body))
        };
        for status in [301, 302] {
            assert_eq!(becomes(status, Method::POST), Some((Method::GET, false)));
            assert_eq!(becomes(status, Method::PUT), Some((Method::PUT, true)));
            assert_eq!(becomes(status, Method::GET), Some((Method::GET, true)));
        }
        assert_eq!(becomes(303, Method::PUT), Some((Method::GET, false)));
        assert_eq!(becomes(303, Method::HEAD), Some((Method::HEAD, true)));
        for status in [307, 308] {
            assert_eq!(becomes(status, Method::POST), Some((Method::POST, true)));
        }
        for status in [200, 201, 300, 304, 305, 404] {
            assert_eq!(becomes(status, Method::GET), None, "{status}");
        }
        let nowhere =
            next_target(StatusCode::FOUND, None, &Method::GET, &url("https://api.example/a"), None);
        assert_eq!(nowhere, Ok(None));
    }

    proptest::proptest! {
        #[test]
        fn no_chain_leads_off_the_host_or_grows_without_end(
            status in proptest::sample::select(&[301_u16, 302, 303, 307, 308][..]),
            locations in proptest::collection::vec("[ -~]{0,60}|(//|\\\\|https:)?[a-z@:./?#%]{0,40}", 0..8),
        ) {
            let status = StatusCode::from_u16(status).unwrap();
            let mut from = url("https://api.example/a");
            for location in locations {
                let location = HeaderValue::from_str(&location).unwrap();
                let Ok(hop) = next_target(status, Some(&location), &Method::GET, &from, None) else { break };
                from = hop.unwrap().url;
                proptest::prop_assert_eq!(from.origin(), url("https://api.example").origin());
                proptest::prop_assert!(from.as_str().len() <= MAX_URL && from.fragment().is_none());
                proptest::prop_assert!(from.username().is_empty() && from.password().is_none());
            }
        }
    }

    #[test]
    fn the_way_to_an_upstream_and_back() {
        let documented = url("https://api.example/v1/a%2Fb?x=%20");
        for base in ["http://127.0.0.1:9101", "http://127.0.0.1:9101/weather/"] {
            let base = url(base);
            let target = to_upstream(&documented, &base);
            assert!(target.as_str().ends_with("/v1/a%2Fb?x=%20"), "{target}");
            assert_eq!(from_upstream(&target, &base, &documented), Some(documented.clone()));
        }
        let base = url("http://127.0.0.1:9101/weather");
        for elsewhere in ["http://127.0.0.1:9102/weather/a", "http://127.0.0.1:9101/weatherman/a"] {
            assert_eq!(from_upstream(&url(elsewhere), &base, &documented), None, "{elsewhere}");
        }
        let asked = to_upstream(&documented, &base);
        let follow = |location: &str| {
            let location = HeaderValue::from_str(location).unwrap();
            let upstream = Some((&base, &asked));
            let hop = next_target(
                StatusCode::FOUND,
                Some(&location),
                &Method::GET,
                &documented,
                upstream,
            );
            hop.map(|hop| hop.unwrap().url.to_string())
        };
        let expected = Ok("https://api.example/c".to_owned());
        for location in
            ["http://127.0.0.1:9101/weather/c", "/weather/c", "/c", "https://api.example/c"]
        {
            assert_eq!(follow(location), expected, "{location}");
        }
        assert!(follow("http://127.0.0.1:9102/weather/c").is_err());
        assert!(follow("http://api.example/c").is_err());
    }
}
