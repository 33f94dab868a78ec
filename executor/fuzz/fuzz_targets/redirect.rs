//! Any statuses and locations as a chain of redirects: every hop stays on the host, never goes from
//! https to http, and no address grows beyond its bound.
//!
//! The first line has status and method; each further line is one `Location`.

#![no_main]

use http::{HeaderValue, Method, StatusCode};
use libfuzzer_sys::fuzz_target;
use url::Url;

use self::parts::{outbound, request};

// The files that decide about redirects, not the crate, which would take minutes to build.
#[path = "../../src"]
#[allow(dead_code, unused_imports, reason = "much of these files is for the rest of the crate")]
mod parts {
    pub(crate) mod request {
        mod hop;
        pub(crate) use hop::Hop;
    }

    pub(crate) mod outbound {
        pub(crate) mod redirect;

        pub(crate) fn authority(url: &url::Url) -> String {
            let host = url.host_str().unwrap_or_default();
            url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
        }
    }
}

/// The longest address, and the longest error.
const MAX_URL: usize = 16 * 1024;
const MAX_WORDS: usize = 1_000;

fuzz_target!(|data: &[u8]| {
    let mut lines = data.split(|byte| *byte == b'\n');
    let head = lines.next().unwrap_or_default();
    let Some((status, method)) = std::str::from_utf8(head).ok().and_then(|t| t.split_once(' '))
    else {
        return;
    };
    let Some(status) = status.parse().ok().and_then(|code| StatusCode::from_u16(code).ok()) else {
        return;
    };
    let Ok(mut method) = Method::from_bytes(method.as_bytes()) else { return };
    let mut url = Url::parse("https://api.example/a/b?x=1").expect("an address");
    for location in lines.take(8) {
        let Ok(location) = HeaderValue::from_bytes(location) else { return };
        match outbound::redirect::next(status, Some(&location), &method, &url, None) {
            Ok(Some(request::Hop { method: next, url: to, .. })) => {
                assert_eq!((to.scheme(), to.host_str()), ("https", Some("api.example")));
                assert!(to.port().is_none() && to.username().is_empty() && to.password().is_none());
                assert!(to.as_str().len() <= MAX_URL && to.fragment().is_none());
                (method, url) = (next, to);
            }
            Ok(None) => return,
            Err(reason) => {
                assert!(reason.len() <= MAX_WORDS);
                return;
            }
        }
    }
});
