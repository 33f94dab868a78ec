//! Mocks of services on the internet: real servers on loopback that respond in the shape of the real
//! ones, with made-up content. The tests run capabilities against them.

mod alerts;
mod books;
mod code;
mod countries;
mod currency;
mod dictionary;
mod dogs;
mod earthquakes;
mod encyclopedia;
mod forecast;
mod holidays;
mod jokes;
mod push;
mod rivers;
mod social;
mod weather;

use std::sync::{Arc, Mutex};

use a2s::Domain;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use url::Url;

pub use alerts::alerts;
pub use books::books;
pub use code::code;
pub use countries::countries;
pub use currency::currency;
pub use dictionary::dictionary;
pub use dogs::dogs;
pub use earthquakes::earthquakes;
pub use encyclopedia::encyclopedia;
pub use forecast::{forecast, geocoding};
pub use holidays::holidays;
pub use jokes::jokes;
pub use push::push_notifications;
pub use rivers::rivers;
pub use social::social;
pub use weather::weather;

/// The maximum size of a recorded request body, in bytes.
const MAX_BODY: usize = 1 << 20;

/// A mock service that is not started yet.
#[derive(Debug)]
pub struct MockServiceBuilder {
    host: Domain,
    router: Router,
}

/// A running mock service. It stops when it is dropped.
#[derive(Debug)]
pub struct MockService {
    host: Domain,
    url: Url,
    log: Arc<Mutex<Vec<RecordedRequest>>>,
    server: AbortHandle,
}

/// A request that a mock service received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedRequest {
    /// `GET`, `POST`, …
    pub method: String,
    /// Path and query, as received.
    pub target: String,
    /// The body as text.
    pub body: String,
}

/// Returns all mock services that are written by hand. The tests create the mocks of other hosts from the
/// specifications in the shipped documents.
#[must_use]
pub fn all() -> Vec<MockServiceBuilder> {
    vec![
        alerts(),
        books(),
        code(),
        countries(),
        currency(),
        dictionary(),
        dogs(),
        earthquakes(),
        encyclopedia(),
        forecast(),
        geocoding(),
        holidays(),
        jokes(),
        push_notifications(),
        rivers(),
        social(),
        weather(),
    ]
}

/// Returns the same services, with `service` in the place of the one for its host.
#[must_use]
pub fn all_with(service: MockServiceBuilder) -> Vec<MockServiceBuilder> {
    let mut services = all();
    services.retain(|other| other.host != service.host);
    services.push(service);
    services
}

impl MockServiceBuilder {
    /// Creates a mock service for `host` that responds with `router`.
    #[must_use]
    pub fn new(host: Domain, router: Router) -> Self {
        Self { host, router }
    }

    /// Creates a mock service for a host that a test names.
    #[must_use]
    pub fn for_host(host: &str, router: Router) -> Self {
        Self::new(Domain::new(host).unwrap(), router)
    }

    /// Returns the host that this service replaces.
    #[must_use]
    pub fn host(&self) -> &Domain {
        &self.host
    }

    /// Starts the service on a free loopback port.
    pub async fn start(self) -> MockService {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let router = self.router.layer(from_fn_with_state(Arc::clone(&log), record_request));
        let server = tokio::spawn(async move {
            // A mock service that accepts no more connections leaves its clients without responses,
            // as a test of that expects.
            let _ = axum::serve(listener, router).await;
        });
        MockService { host: self.host, url, log, server: server.abort_handle() }
    }
}

impl MockService {
    /// Returns the host that this service replaces.
    #[must_use]
    pub fn host(&self) -> &Domain {
        &self.host
    }

    /// The address of the service.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The number of requests that it has received.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.received().len()
    }

    /// Returns the received requests, oldest first.
    #[must_use]
    pub fn received(&self) -> Vec<RecordedRequest> {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for MockService {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Records the request, and passes it on.
async fn record_request(
    State(log): State<Arc<Mutex<Vec<RecordedRequest>>>>,
    request: Request,
    next: Next,
) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, MAX_BODY).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let received = RecordedRequest {
        method: head.method.to_string(),
        target: head.uri.path_and_query().map_or_else(String::new, ToString::to_string),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    log.lock().unwrap().push(received);
    next.run(Request::from_parts(head, Body::from(body))).await
}
