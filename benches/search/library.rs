//! A registry in this process.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use registry::embed::Embedder;
use registry::{App, Config};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::corpus::Corpus;

/// Publishers at the same time.
const PUBLISHERS: usize = 32;

pub(crate) struct Shelf {
    app: App,
    router: Router,
}

impl Shelf {
    pub(crate) async fn open(folder: &Path, embedder: Embedder) -> Self {
        let config = Config { embedder, ..Config::in_folder(folder, None) };
        #[expect(
            clippy::disallowed_methods,
            reason = "a bench is the program that gives the clock"
        )]
        let clock = Arc::new(jiff::Timestamp::now);
        let mut metrics = prometheus_client::registry::Registry::default();
        let app = App::open(config, clock, &mut metrics).await.unwrap();
        let router = app.router();
        Self { app, router }
    }

    pub(crate) async fn publish(&self, corpus: &Corpus, count: usize) {
        let next = AtomicUsize::new(0);
        let publisher = async || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return;
                }
                let mut document = corpus.document(number);
                let compiled = a2s::compile(document.to_string().as_bytes());
                let digest = compiled.digest.expect("a document has a digest");
                document["checksum"] = json!(digest.to_string());
                let (status, body) = self.post("/v1/capabilities", &document).await;
                assert_eq!(status, StatusCode::CREATED, "{body} {document}");
            }
        };
        futures::future::join_all((0..PUBLISHERS).map(|_| publisher())).await;
    }

    /// Waits until searches see everything.
    pub(crate) async fn settle(&self) {
        while self.app.index_lag().await.unwrap() > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Whether a search is answered.
    pub(crate) async fn search(&self, intent: &str) -> bool {
        let (status, _) = self.post("/v1/search", &json!({ "intent": intent })).await;
        status == StatusCode::OK
    }

    async fn post(&self, path: &str, body: &Value) -> (StatusCode, String) {
        let request = Request::post(path)
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let status = answer.status();
        let bytes = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) async fn close(self) {
        self.app.close().await;
    }
}
