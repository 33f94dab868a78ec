//! The services of the demo: servers on loopback that respond like the real ones, with made-up content.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use a2s::Domain;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use url::Url;

/// A running mock service.
pub(super) struct MockService {
    /// The host that the service replaces.
    pub(super) host: Domain,
    pub(super) url: Url,
    bodies: Arc<Mutex<Vec<String>>>,
}

impl MockService {
    /// Starts the mock of `api.weather.com`: it knows every city except `Atlantis`.
    pub(super) async fn start_weather() -> io::Result<Self> {
        Self::start("api.weather.com", |uri, _, _| {
            let city = uri.path().rsplit('/').next().unwrap_or_default();
            if city == "Atlantis" {
                let error = json!({ "error": { "message": "There is no such city." } });
                return (StatusCode::NOT_FOUND, Json(error)).into_response();
            }
            let description = "Sunny with light clouds, high of 24 °C";
            Json(json!({ "city": city, "weather": { "description": description } })).into_response()
        })
        .await
    }

    /// Starts the mock of `api.twitter.com`: it accepts every post.
    pub(super) async fn start_social() -> io::Result<Self> {
        Self::start("api.twitter.com", |_, body, number| {
            let request: Value = serde_json::from_str(body).unwrap_or_default();
            let id = (129_384_755 + number).to_string();
            let tweet = json!({ "id": id, "text": request["variables"]["text"] });
            Json(json!({ "data": { "createTweet": tweet } })).into_response()
        })
        .await
    }

    /// Starts a service on a free port. `respond` receives the address and the body of a request, and its
    /// number.
    async fn start(host: &str, respond: fn(&Uri, &str, usize) -> Response) -> io::Result<Self> {
        let host = Domain::new(host).map_err(io::Error::other)?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}/", listener.local_addr()?);
        let url = Url::parse(&url).map_err(io::Error::other)?;
        let bodies = Arc::<Mutex<Vec<String>>>::default();
        let recorded = Arc::clone(&bodies);
        let router = Router::new().fallback(async move |uri: Uri, body: String| {
            let mut bodies = recorded.lock().unwrap_or_else(PoisonError::into_inner);
            let response = respond(&uri, &body, bodies.len() + 1);
            bodies.push(body);
            response
        });
        // The end of the process ends the service.
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { host, url, bodies })
    }

    /// The number of requests so far.
    pub(super) fn requests(&self) -> usize {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The body of the last request.
    pub(super) fn last_body(&self) -> String {
        let bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        bodies.last().cloned().unwrap_or_default()
    }
}
