//! The connections of a server: how many there are, and how long each may take.
//!
//! The accept loop gives each connection a slot. A connection beyond the limits is answered with
//! `503` and closed. Every open connection has a deadline unless a request is under way; the body of
//! a request has a deadline of its own. Responses may take as long as they do, because some are
//! streams, but their client has to read them.

mod activity;
mod body;
mod slots;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use a2s_api::{PROBLEM_JSON, Problem};
use axum::Router;
use axum::body::Body;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use self::activity::{ConnectionActivity, WatchedStream};
use self::body::{DeadlineBody, ExchangeBody};
use self::slots::{ConnectionSlot, ConnectionSlots};
use super::middleware::problem;
use crate::cli_error::{SLOW_REQUEST, TOO_MANY_CONNECTIONS};
use crate::settings::ConnectionLimits;

/// The pause of the accept loop after an error that is not the client's, such as a lack of file
/// descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// The maximum number of rejections that the server writes at the same time; it closes a further connection
/// without a response.
const MAX_REJECTIONS: usize = 32;
/// The longest time for the client of a refused connection to read the reason.
const REJECTION_TIMEOUT: Duration = Duration::from_secs(1);
/// The maximum number of bytes that the server reads and discards from a rejected connection.
const MAX_DISCARDED: usize = 64 << 10;

impl ConnectionLimits {
    /// Returns the limits with at most half of the file descriptors as connections: databases, indexes and
    /// requests to services need the others.
    fn within(self, descriptors: Option<u32>) -> Self {
        let most = descriptors.map_or(u32::MAX, |descriptors| descriptors / 2).max(1);
        if most < self.max_connections {
            tracing::warn!(
                connections = most,
                configured = self.max_connections,
                "fewer connections than configured, because the process can open too few files (ulimit -n)"
            );
        }
        Self { max_connections: self.max_connections.min(most), ..self }
    }
}

/// Returns the maximum number of files that this process may open, if the system reports it.
fn max_descriptors() -> Option<u32> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The counters of a server's connections.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionMetrics {
    open: Gauge,
    refused: Counter,
    timed_out: Counter,
}

impl ConnectionMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("connections", "Open connections", metrics.open.clone());
        let help = "Connections rejected because of the limits";
        registry.register("connections_refused", help, metrics.refused.clone());
        let help = "Connections closed at a deadline";
        registry.register("connections_timed_out", help, metrics.timed_out.clone());
        metrics
    }
}

/// The source of connections.
pub(super) trait ConnectionSource: Send {
    /// Waits for the next connection. No connection is lost when the future is dropped.
    fn accept(&mut self) -> impl Future<Output = io::Result<(TcpStream, SocketAddr)>> + Send;
}

impl ConnectionSource for TcpListener {
    fn accept(&mut self) -> impl Future<Output = io::Result<(TcpStream, SocketAddr)>> + Send {
        Self::accept(self)
    }
}

/// A server of one router.
#[derive(Debug, Clone)]
pub(super) struct HttpServer {
    router: Router,
    limits: ConnectionLimits,
    metrics: ConnectionMetrics,
    /// The signal to shut down: requests in progress end, and the server accepts no more connections.
    stop: CancellationToken,
}

impl HttpServer {
    pub(super) fn new(
        router: Router,
        limits: ConnectionLimits,
        metrics: ConnectionMetrics,
        stop: CancellationToken,
    ) -> Self {
        Self { router, limits: limits.within(max_descriptors()), metrics, stop }
    }

    /// Serves connections until the server is stopped and the last connection has ended. Dropping the
    /// future closes all of them.
    pub(super) async fn serve(self, mut listener: impl ConnectionSource) {
        let slots = ConnectionSlots::new(&self.limits);
        let refusals = Arc::new(Semaphore::new(MAX_REJECTIONS));
        let mut tasks = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                () = self.stop.cancelled() => break,
                Some(_) = tasks.join_next(), if !tasks.is_empty() => continue,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, address)) => match slots.take(address.ip()) {
                    Some(slot) => {
                        tasks.spawn(self.clone().serve_connection(stream, slot));
                    }
                    None => {
                        self.metrics.refused.inc();
                        if let Ok(permit) = Arc::clone(&refusals).try_acquire_owned() {
                            tasks.spawn(async move {
                                // A client that does not read why is closed without it.
                                let _ = timeout(REJECTION_TIMEOUT, reject_connection(stream)).await;
                                drop(permit);
                            });
                        }
                    }
                },
                Err(error) if is_client_error(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "cannot accept a connection; the service tries again");
                    tokio::select! {
                        () = self.stop.cancelled() => break,
                        () = tokio::time::sleep(ACCEPT_PAUSE) => {}
                    }
                }
            }
        }
        // The port is free for the next process while requests under way end.
        drop(listener);
        while tasks.join_next().await.is_some() {}
    }

    /// Serves one connection until it ends or exceeds a deadline.
    async fn serve_connection(self, stream: TcpStream, slot: ConnectionSlot) {
        self.metrics.open.inc();
        if let Err(error) = detect_lost_client(&stream, self.limits.idle_timeout) {
            tracing::debug!(%error, "a lost client of this connection is found late");
        }
        let activity =
            ConnectionActivity::new(self.limits.header_timeout, self.limits.idle_timeout);
        let io = TokioIo::new(WatchedStream::new(stream, Arc::clone(&activity)));
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.limits.max_streams)
            .keep_alive_interval(self.limits.idle_timeout / 2)
            .keep_alive_timeout(self.limits.header_timeout);
        let server = Arc::new(self);
        let service = {
            let (server, activity) = (Arc::clone(&server), Arc::clone(&activity));
            service_fn(move |request| {
                let (server, activity) = (Arc::clone(&server), Arc::clone(&activity));
                async move { server.answer(request, &activity).await }
            })
        };
        {
            let mut connection = pin!(builder.serve_connection(io, service));
            let mut stopping = false;
            loop {
                tokio::select! {
                    ended = connection.as_mut() => {
                        if let Err(error) = ended {
                            tracing::trace!(%error, "a connection ended with an error");
                        }
                        break;
                    }
                    () = server.stop.cancelled(), if !stopping => {
                        stopping = true;
                        connection.as_mut().graceful_shutdown();
                    }
                    () = activity.expire() => {
                        server.metrics.timed_out.inc();
                        break;
                    }
                }
            }
        }
        server.metrics.open.dec();
        drop(slot);
    }

    /// Answers one request.
    async fn answer(
        &self,
        request: Request<Incoming>,
        activity: &Arc<ConnectionActivity>,
    ) -> Result<Response<Body>, Infallible> {
        let exchange = activity.begin(request.version());
        let is_http2 = request.version() == Version::HTTP_2;
        let late = Arc::new(AtomicBool::new(false));
        let request = request
            .map(|body| DeadlineBody::wrap(body, self.limits.body_timeout, Arc::clone(&late)));
        let Ok(mut response) = self.router.clone().call(request).await;
        if late.load(Ordering::Relaxed) {
            let seconds = self.limits.body_timeout.as_secs_f32();
            let detail = format!("the body of the request did not arrive within {seconds} s");
            response = problem(StatusCode::REQUEST_TIMEOUT, &SLOW_REQUEST, &detail);
            if !is_http2 {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
        }
        Ok(response.map(|body| Body::new(ExchangeBody::new(body, exchange))))
    }
}

/// Has the system end the connection when its client has not confirmed data for `limit`: the client may be
/// gone without a sign, and small events of a stream only fill a buffer of the system.
fn detect_lost_client(stream: &TcpStream, limit: Duration) -> io::Result<()> {
    let socket = SockRef::from(stream);
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(limit))?;
    // The client of a quiet connection confirms a probe. The system counts in seconds.
    let pause = limit.max(Duration::from_secs(1));
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(pause).with_interval(pause))
}

/// Returns true when an error of `accept` is about one connection that its client has closed again.
fn is_client_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Answers a connection with `503` and closes it. Before that it reads the bytes that the client still
/// sends, because closing with unread bytes would discard the response.
async fn reject_connection(mut stream: TcpStream) -> io::Result<()> {
    let detail = "the server has reached its limit of connections";
    let problem = Problem::new(503, &TOO_MANY_CONNECTIONS, detail);
    let body = serde_json::to_string(&problem).unwrap_or_default();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: {PROBLEM_JSON}\r\n\
         content-length: {}\r\nretry-after: {}\r\nconnection: close\r\n\r\n{body}",
        body.len(),
        problem.retry_after().unwrap_or("1"),
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    let (mut buffer, mut discarded) = ([0; 4_096], 0);
    while discarded < MAX_DISCARDED {
        match stream.read(&mut buffer).await? {
            0 => break,
            count => discarded += count,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
