//! What an answer of a server means, whatever server that is: a stand-in says one thing to everything.

use std::sync::{Arc, Mutex};

use axum::http::{HeaderMap, Response};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Code;

use super::*;
use crate::Secret;
use crate::vectors::Vectors as _;

const KEY: &str = "s3cret";

/// A server that gives one status, and remembers the keys that it was shown.
struct StandIn {
    url: reqwest::Url,
    keys: Arc<Mutex<Vec<String>>>,
    _stop: DropGuard,
}

impl StandIn {
    async fn says(code: Code) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let keys = Arc::new(Mutex::new(Vec::new()));
        let (seen, stop) = (Arc::clone(&keys), CancellationToken::new());
        let answer = move |headers: HeaderMap| {
            let key = headers.get("api-key").map(|key| key.to_str().unwrap().to_owned());
            seen.lock().unwrap().extend(key);
            async move {
                Response::builder()
                    .header("content-type", "application/grpc")
                    .header("grpc-status", i32::from(code).to_string())
                    // A server may repeat what it was shown.
                    .header("grpc-message", format!("no {KEY}"))
                    .body(axum::body::Body::empty())
                    .unwrap()
            }
        };
        let routes = tonic::service::Routes::from(axum::Router::new().fallback(answer));
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        let stopped = stop.clone().cancelled_owned();
        tokio::spawn(
            tonic::transport::Server::builder()
                .add_routes(routes)
                .serve_with_incoming_shutdown(incoming, stopped),
        );
        Self { url, keys, _stop: stop.drop_guard() }
    }

    fn config(&self) -> QdrantConfig {
        config(self.url.clone())
    }
}

fn config(url: reqwest::Url) -> QdrantConfig {
    QdrantConfig { url, key: Some(Secret::new(KEY)), shards: None, replicas: None }
}

async fn open(config: QdrantConfig) -> Result<Qdrant, Error> {
    Qdrant::open(config, "store".to_owned(), vec!["embedder".to_owned()]).await
}

#[tokio::test]
async fn a_server_that_refuses_the_key_is_refused_without_showing_it() {
    for code in [Code::Unauthenticated, Code::PermissionDenied] {
        let server = StandIn::says(code).await;
        let error = open(server.config()).await.unwrap_err();
        assert!(matches!(error, Error::Unusable(_)), "{error:?}");
        assert!(!format!("{error} {error:?}").contains(KEY), "{error:?}");
        // It was this key that was shown.
        assert_eq!(*server.keys.lock().unwrap(), [KEY]);
    }
}

#[tokio::test]
async fn a_server_that_is_away_may_come_back() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: reqwest::Url = format!("http://{}", nobody.local_addr().unwrap()).parse().unwrap();
    drop(nobody);
    let busy = StandIn::says(Code::Unavailable).await;
    for config in [config(url), busy.config()] {
        let qdrant = open(config).await.unwrap();
        assert!(matches!(qdrant.answering(), Err(Error::Away(_))));
        assert!(matches!(qdrant.refresh().await, Err(Error::Away(_))));
        assert!(!format!("{qdrant:?}").contains(KEY), "{qdrant:?}");
    }
}

#[tokio::test]
async fn what_can_never_work_is_refused_before_anybody_is_asked() {
    let refused = async |config: QdrantConfig| match open(config).await {
        Err(Error::Unusable(why)) => {
            assert!(!why.contains(KEY), "{why}");
            why
        }
        other => panic!("{other:?}"),
    };
    for (url, why) in [
        ("ftp://127.0.0.1:1", "no HTTP address"),
        ("http://me:s3cret@127.0.0.1:1", "name or password"),
        ("http://127.0.0.1:1/s3cret", "more than a host"),
        ("http://127.0.0.1:1?key=s3cret", "more than a host"),
    ] {
        let told = refused(config(url.parse().unwrap())).await;
        assert!(told.contains(why), "{told}");
    }
    let good = config("http://127.0.0.1:1".parse().unwrap());
    let told = refused(QdrantConfig { key: Some(Secret::new("s3cret\n")), ..good.clone() }).await;
    assert!(told.contains("header"), "{told}");
    for config in [
        QdrantConfig { shards: Some(0), ..good.clone() },
        QdrantConfig { replicas: Some(0), ..good },
    ] {
        refused(config).await;
    }
}

#[test]
fn requests_are_bounded_and_keep_the_order_of_changes() {
    let full = |points, removed, bytes| Batch {
        points: vec![PointStruct::default(); points],
        removed: vec![CapabilityId(1); removed],
        bytes,
    };
    // (what is in it, one more point of so many bytes, one more removal)
    for (batch, bytes, takes) in [
        (full(0, 0, 0), 100 * MOST_BYTES, true),
        (full(1, 0, 10), MOST_BYTES, false),
        (full(1, 0, 10), MOST_BYTES - 10, true),
        (full(MOST_POINTS, 0, 0), 1, false),
        (full(0, 1, 0), 1, false),
    ] {
        assert_eq!(batch.takes(bytes, false), takes, "{batch:?}");
    }
    assert!(full(0, 1, 0).takes(0, true));
    assert!(!full(1, 0, 0).takes(0, true));
    assert!(!full(0, MOST_POINTS, 0).takes(0, true));
}
