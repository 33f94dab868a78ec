//! What an answer of a server means, whatever server that is: a stand-in says one thing to everything.

use std::sync::{Arc, Mutex};

use axum::http::{HeaderMap, Response};
use qdrant_client::qdrant::qdrant_server::{self, QdrantServer};
use qdrant_client::qdrant::{
    CollectionConfig, CollectionInfo, CollectionParams, HealthCheckReply, HealthCheckRequest,
};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Code;
use tonic::service::Routes;

use super::*;
use crate::Secret;
use crate::embed::BuiltIn;
use crate::store::indexes::IndexId;
use crate::vectors::{FORMAT, VectorIndex as _};

const KEY: &str = "s3cret";

/// A server that gives one status, and remembers the keys that it was shown.
struct StandIn {
    url: reqwest::Url,
    keys: Arc<Mutex<Vec<String>>>,
    _stop: DropGuard,
}

impl StandIn {
    async fn says(code: Code) -> Self {
        let keys = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&keys);
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
        Self::serve(Routes::from(axum::Router::new().fallback(answer)), keys).await
    }

    /// One that says which version it is, and does nothing else.
    async fn of_version(version: &'static str) -> Self {
        Self::serve(Routes::new(QdrantServer::new(OfVersion(version))), Arc::default()).await
    }

    async fn serve(routes: Routes, keys: Arc<Mutex<Vec<String>>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        let stop = CancellationToken::new();
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

struct OfVersion(&'static str);

#[async_trait]
impl qdrant_server::Qdrant for OfVersion {
    async fn health_check(
        &self,
        _: tonic::Request<HealthCheckRequest>,
    ) -> Result<tonic::Response<HealthCheckReply>, tonic::Status> {
        let version = self.0.to_owned();
        Ok(tonic::Response::new(HealthCheckReply { version, ..HealthCheckReply::default() }))
    }
}

fn config(url: reqwest::Url) -> QdrantConfig {
    QdrantConfig { url, key: Some(Secret::new(KEY)), shards: None, replicas: None }
}

async fn open(config: QdrantConfig) -> Result<QdrantIndex, Error> {
    QdrantIndex::open(config, "store".to_owned(), vec!["embedder".to_owned()]).await
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
        assert!(matches!(qdrant.current_reader(), Err(Error::Unavailable(_))));
        assert!(matches!(qdrant.refresh().await, Err(Error::Unavailable(_))));
        assert!(!format!("{qdrant:?}").contains(KEY), "{qdrant:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_too_old_is_refused_with_its_version() {
    let open_of = async |version| open(StandIn::of_version(version).await.config()).await;
    let error = open_of("1.15.9").await.unwrap_err();
    assert!(matches!(&error, Error::Unusable(why) if why.contains("1.15.9")), "{error:?}");
    for version in ["1.16.0", "2.0.0", "built by hand"] {
        open_of(version).await.unwrap();
    }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a server may have indexes of other tests")]
async fn nothing_is_left_of_an_index_that_was_replaced_or_given_up() {
    let Some(config) = crate::tests::database::qdrant() else {
        return eprintln!("SKIPPED: A2S_TEST_QDRANT_URL names no server");
    };
    let store = uuid::Uuid::new_v4().simple().to_string();
    let config = QdrantConfig { shards: Some(2), ..config };
    let qdrant =
        QdrantIndex::open(config, store.clone(), vec!["embedder".to_owned()]).await.unwrap();
    for (id, is_wanted) in [("first", true), ("given-up", false), ("last", true)] {
        let identity = IndexIdentity {
            id: IndexId(id.to_owned()),
            store: store.clone(),
            embedder: "embedder".to_owned(),
            dimensions: 4,
            scale: BuiltIn::new().scale(),
            format: FORMAT,
        };
        qdrant.begin(identity).await.unwrap();
        if is_wanted {
            qdrant.commit().await.unwrap();
            assert_eq!(qdrant.current_reader().unwrap().identity().id.0, id);
        }
    }
    let mut client = qdrant.connection.collections();
    let all = client.list(ListCollectionsRequest {}).await.unwrap().into_inner().collections;
    let left: Vec<_> =
        all.into_iter().map(|one| one.name).filter(|name| name.contains(&store)).collect();
    let alias = qdrant.names.alias("embedder");
    assert_eq!(left, [CollectionNames::collection(&alias, &IndexId("last".to_owned()))]);
    let asked = GetCollectionInfoRequest { collection_name: alias };
    let info = client.get(asked).await.unwrap().into_inner().result.unwrap();
    assert_eq!(info.config.unwrap().params.unwrap().shard_number, 2);
    qdrant.remove(&left[0]).await.unwrap();
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
        ("ftp://127.0.0.1:1", "not an HTTP address"),
        ("http://me:s3cret@127.0.0.1:1", "name or password"),
        ("http://127.0.0.1:1/s3cret", "only a host"),
        ("http://127.0.0.1:1?key=s3cret", "only a host"),
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
fn a_collection_is_an_index_only_as_it_was_made() {
    let told = |dimensions, format| IndexIdentity {
        id: IndexId("one".to_owned()),
        store: "store".to_owned(),
        embedder: "embedder".to_owned(),
        dimensions,
        scale: BuiltIn::new().scale(),
        format,
    };
    let config = config("http://127.0.0.1:1".parse().unwrap());
    // One with vectors of a length that says of itself what another one would.
    let identify = |length, says: &IndexIdentity, store| {
        let made = messages::to_collection("name", &told(length, FORMAT), &config).unwrap();
        let metadata = messages::to_collection("name", says, &config).unwrap().metadata;
        let params = CollectionParams {
            vectors_config: made.vectors_config,
            sparse_vectors_config: made.sparse_vectors_config,
            ..CollectionParams::default()
        };
        let config =
            CollectionConfig { params: Some(params), metadata, ..CollectionConfig::default() };
        let info = CollectionInfo { config: Some(config), ..CollectionInfo::default() };
        messages::to_identity(&info, store)
    };
    let good = told(4, FORMAT);
    assert_eq!(identify(4, &good, "store"), Some(good.clone()));
    assert_eq!(identify(5, &good, "store"), None);
    assert_eq!(identify(4, &good, "another"), None);
    assert_eq!(identify(4, &told(4, FORMAT + 1), "store"), None);
}

#[test]
fn requests_are_bounded_and_keep_the_order_of_changes() {
    let full = |points, removed, bytes| ChangeBatch {
        points: vec![PointStruct::default(); points],
        removed: vec![CapabilityId(1); removed],
        bytes,
    };
    // (what is in it, one more point of so many bytes, one more removal)
    for (batch, bytes, takes) in [
        (full(0, 0, 0), 100 * MAX_BATCH_BYTES, true),
        (full(1, 0, 10), MAX_BATCH_BYTES, false),
        (full(1, 0, 10), MAX_BATCH_BYTES - 10, true),
        (full(MAX_POINTS, 0, 0), 1, false),
        (full(0, 1, 0), 1, false),
    ] {
        assert_eq!(batch.has_room_for(bytes, false), takes, "{batch:?}");
    }
    assert!(full(0, 1, 0).has_room_for(0, true));
    assert!(!full(1, 0, 0).has_room_for(0, true));
    assert!(!full(0, MAX_POINTS, 0).has_room_for(0, true));
}
