//! The check of the target `redirect`.

use http::{HeaderValue, Method, StatusCode};
use url::Url;

use crate::outbound::redirect;
use crate::request::RedirectTarget;

/// The longest address, in bytes.
const MAX_URL: usize = 16 * 1024;
/// The longest reason, in bytes.
const MAX_REASON: usize = 1_000;

/// Checks one input of the target.
pub fn check(data: &[u8]) {
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
        match redirect::next_target(status, Some(&location), &method, &url, None) {
            Ok(Some(RedirectTarget { method: next, url: to, .. })) => {
                assert_eq!((to.scheme(), to.host_str()), ("https", Some("api.example")));
                assert!(to.port().is_none() && to.username().is_empty() && to.password().is_none());
                assert!(to.as_str().len() <= MAX_URL && to.fragment().is_none());
                (method, url) = (next, to);
            }
            Ok(None) => return,
            Err(reason) => {
                assert!(reason.len() <= MAX_REASON);
                return;
            }
        }
    }
}
