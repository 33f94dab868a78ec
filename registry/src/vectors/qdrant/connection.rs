//! The way to the server: one connection over HTTP/2, made when it is needed and again when it broke.
//!
//! The messages and clients are those of `qdrant-client`; the connection is ours, so that answers are
//! bounded, every call has its time, and no error repeats the key.

use std::time::Duration;

use qdrant_client::qdrant::HealthCheckRequest;
use qdrant_client::qdrant::collections_client::CollectionsClient;
use qdrant_client::qdrant::points_client::PointsClient;
use qdrant_client::qdrant::qdrant_client::QdrantClient;
use reqwest::Url;
use semver::Version;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Response, Status};

use super::super::{Error, QdrantConfig};

const KEY_HEADER: &str = "api-key";
/// The maximum size of a response, in bytes.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The interval of pings on an idle connection, and the time without a reply after which it is closed.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The timeout of calls that a caller waits for.
pub(super) const QUERY_CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of changes.
pub(super) const CHANGE_CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The timeout of creating, naming and removing collections: a cluster has to agree on them.
pub(super) const COLLECTION_CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The oldest server version that stores metadata of a collection.
const MIN_SERVER_VERSION: Version = Version::new(1, 16, 0);

/// A service of the server with the key.
type KeyedService = InterceptedService<Channel, ApiKeyInterceptor>;
/// The service for points.
pub(super) type PointsService = PointsClient<KeyedService>;

/// An interceptor that adds the key to requests.
#[derive(Debug, Clone)]
pub(super) struct ApiKeyInterceptor(Option<MetadataValue<Ascii>>);

impl Interceptor for ApiKeyInterceptor {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(key) = &self.0 {
            request.metadata_mut().insert(KEY_HEADER, key.clone());
        }
        Ok(request)
    }
}

#[derive(Debug, Clone)]
pub(super) struct QdrantConnection {
    channel: Channel,
    key: ApiKeyInterceptor,
}

impl QdrantConnection {
    /// Creates the connection without a request.
    ///
    /// # Errors
    /// When requests are not possible with this configuration.
    pub(super) fn new(config: &QdrantConfig) -> Result<Self, Error> {
        let unusable = |why: &str| Error::Unusable(format!("the Qdrant server: {why}"));
        let url = &config.url;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(unusable("its address is not an HTTP address"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(unusable(
                "its address contains a user name or password; set the key separately",
            ));
        }
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(unusable("its address must have only a host and a port"));
        }
        if config.shards == Some(0) || config.replicas == Some(0) {
            return Err(unusable("an index must have at least one shard and one replica"));
        }
        let is_tls = url.scheme() == "https";
        let key = match &config.key {
            Some(key) => {
                let mut key: MetadataValue<Ascii> = key.expose_secret().parse().map_err(|_| {
                    unusable("its key has characters that are not allowed in a header")
                })?;
                key.set_sensitive(true);
                if !is_tls && !is_loopback(url) {
                    tracing::warn!(
                        "the key of the Qdrant server is sent without TLS: others on the network can read it; use https"
                    );
                }
                Some(key)
            }
            None => None,
        };
        let mut endpoint = Endpoint::from_shared(url.to_string())
            .and_then(|endpoint| {
                endpoint.user_agent(concat!("a2s-registry/", env!("CARGO_PKG_VERSION")))
            })
            .map_err(|error| unusable(&error.to_string()))?
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true);
        if is_tls {
            endpoint = endpoint
                .tls_config(ClientTlsConfig::new().with_native_roots())
                .map_err(|error| unusable(&error.to_string()))?;
        }
        Ok(Self { channel: endpoint.connect_lazy(), key: ApiKeyInterceptor(key) })
    }

    fn keyed(&self) -> KeyedService {
        InterceptedService::new(self.channel.clone(), self.key.clone())
    }

    pub(super) fn points(&self) -> PointsService {
        PointsClient::new(self.keyed()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(super) fn collections(&self) -> CollectionsClient<KeyedService> {
        CollectionsClient::new(self.keyed()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    /// Checks the version of the server.
    ///
    /// # Errors
    /// Fails when the server does not respond, or is too old.
    pub(super) async fn check(&self) -> Result<(), Error> {
        let mut client =
            QdrantClient::new(self.keyed()).max_decoding_message_size(MAX_RESPONSE_BYTES);
        let response =
            call_within(QUERY_CALL_TIMEOUT, client.health_check(HealthCheckRequest {})).await?;
        // One that is built from no release says no version that could be compared.
        if let Ok(version) = Version::parse(&response.version)
            && version < MIN_SERVER_VERSION
        {
            let why = format!(
                "the Qdrant server has version {version}, but at least {MIN_SERVER_VERSION} is required"
            );
            return Err(Error::Unusable(why));
        }
        Ok(())
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        None => false,
    }
}

/// The result of a call, within a time limit.
pub(super) async fn call_within<T>(
    limit: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Error> {
    match tokio::time::timeout(limit, call).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => Err(to_error(&status)),
        Err(_) => {
            Err(Error::Unavailable(format!("the Qdrant server did not respond within {limit:?}")))
        }
    }
}

/// Translates a failure. The server's message may repeat the key, unless it is about the request itself; a
/// failure at this end has a source.
fn to_error(status: &Status) -> Error {
    let text = || format!("{:?}: {}", status.code(), status.message());
    let away = || match std::error::Error::source(status) {
        Some(cause) => format!("{}: {cause}", text()),
        None => format!("the Qdrant server reports {:?}", status.code()),
    };
    match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => Error::Unusable(
            "the Qdrant server rejects the key, or the key lacks a permission".to_owned(),
        ),
        Code::NotFound => Error::NotReady,
        // It understood, and this is wrong: asking again gives the same.
        Code::InvalidArgument
        | Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::OutOfRange => Error::Failed(text()),
        _ => Error::Unavailable(away()),
    }
}
