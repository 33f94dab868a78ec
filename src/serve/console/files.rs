//! The built files of the console. They are compressed when they are built (`console/README.md`).

use std::borrow::Cow;
use std::io::Read as _;

use axum::Router;
use axum::extract::Path;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use flate2::read::GzDecoder;
use rust_embed::Embed;

use crate::cli_error::NO_ROUTE;
use crate::serve::middleware::{problem, text};

/// The paths of the console's views. The page finds its view by the path.
const VIEWS: [&str; 10] = [
    "approvals",
    "capabilities",
    "connect",
    "guardian",
    "overview",
    "publish",
    "runs",
    "search",
    "settings",
    "sign-in",
];
/// The content security policy of the console: its own files, its own API, nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; \
                      frame-ancestors 'none'";

#[derive(Embed)]
#[folder = "console/dist"]
struct Built;

/// The routes of the files. Every view has the same page.
pub(super) fn routes() -> Router {
    let page = async |headers: HeaderMap| file("index.html", "no-cache", &headers);
    let asset = async |Path(name): Path<String>, headers: HeaderMap| {
        // The name changes with the content.
        file(&format!("assets/{name}"), "public, max-age=31536000, immutable", &headers)
    };
    let mut routes = Router::new().route("/", get(page)).route("/assets/{name}", get(asset));
    for view in VIEWS {
        routes = routes.route(&format!("/{view}"), get(page));
        routes = routes.route(&format!("/{view}/{{*rest}}"), get(page));
    }
    routes
}

/// Returns the page of a run as a file, without the run.
pub(crate) fn run_page() -> String {
    let page = compressed("run.html").and_then(|bytes| decompress(&bytes)).unwrap_or_default();
    String::from_utf8_lossy(&page).into_owned()
}

fn compressed(name: &str) -> Option<Cow<'static, [u8]>> {
    Some(Built::get(&format!("{name}.gz"))?.data)
}

fn decompress(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut plain).ok()?;
    Some(plain)
}

fn file(name: &str, cache: &'static str, headers: &HeaderMap) -> Response {
    let Some(bytes) = compressed(name) else {
        return problem(StatusCode::NOT_FOUND, &NO_ROUTE, "the console has no such file");
    };
    let kind = match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    };
    let heads = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, cache),
        (CONTENT_SECURITY_POLICY, POLICY),
        (VARY, "accept-encoding"),
    ];
    // Every browser accepts it; other programs may not.
    let accepts_gzip = text(headers, ACCEPT_ENCODING).is_some_and(|it| it.contains("gzip"));
    if accepts_gzip {
        return (heads, [(CONTENT_ENCODING, "gzip")], bytes).into_response();
    }
    match decompress(&bytes) {
        Some(plain) => (heads, plain).into_response(),
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_file_can_be_read() {
        let names: Vec<_> = Built::iter().collect();
        assert!(names.iter().any(|name| name == "index.html.gz"), "{names:?}");
        for name in names {
            let plain =
                name.strip_suffix(".gz").unwrap_or_else(|| panic!("{name} is not compressed"));
            assert!(decompress(&compressed(plain).unwrap()).is_some_and(|it| !it.is_empty()));
        }
    }
}
