use std::collections::VecDeque;
use std::future::pending;
use std::sync::atomic::AtomicBool;

use axum::routing::{get, post};
use futures::StreamExt as _;
use futures::stream;
use tokio::io::BufReader;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::*;

/// A deadline that a test waits for.
const SOON: Duration = Duration::from_millis(50);
/// A deadline that none waits for.
const LATE: Duration = Duration::from_secs(3_600);
/// The time after which a test fails.
const GUARD: Duration = Duration::from_secs(30);

fn patient() -> ConnectionLimits {
    ConnectionLimits {
        header_timeout: LATE,
        idle_timeout: LATE,
        body_timeout: LATE,
        ..ConnectionLimits::default()
    }
}

struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    metrics: ConnectionMetrics,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(limits: ConnectionLimits, router: Router) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        Self::start_at(address, listener, limits, router)
    }

    fn start_at(
        address: SocketAddr,
        listener: impl ConnectionSource + 'static,
        limits: ConnectionLimits,
        router: Router,
    ) -> Self {
        let (stop, metrics) = (CancellationToken::new(), ConnectionMetrics::default());
        let server = HttpServer::new(router, limits, metrics.clone(), stop.clone());
        let task = tokio::spawn(server.serve(listener));
        Self { address, stop, metrics, task }
    }

    async fn connect(&self) -> Client {
        Client(BufReader::new(TcpStream::connect(self.address).await.unwrap()))
    }
}

struct Client(BufReader<TcpStream>);

impl Client {
    async fn write(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).await.unwrap();
    }

    /// The head and the body of the next response.
    async fn read(&mut self) -> (String, String) {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            let count = timeout(GUARD, self.0.read_line(&mut line)).await.unwrap().unwrap();
            if count == 0 || line == "\r\n" {
                break;
            }
            if let Some(bytes) = line.strip_prefix("content-length: ") {
                length = bytes.trim().parse().unwrap();
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        timeout(GUARD, self.0.read_exact(&mut body)).await.unwrap().unwrap();
        (head, String::from_utf8(body).unwrap())
    }

    async fn get(&mut self, path: &str) -> (String, String) {
        self.write(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await;
        self.read().await
    }

    /// Waits until the server closes the connection.
    async fn closed(mut self) -> bool {
        let mut rest = Vec::new();
        timeout(GUARD, self.0.read_to_end(&mut rest)).await.is_ok()
    }
}

fn router() -> Router {
    let echo = async |body: String| body;
    Router::new().route("/healthz", get(async || "ok\n")).route("/echo", post(echo))
}

#[tokio::test]
async fn the_head_of_a_request_has_a_deadline() {
    let server =
        Running::start(ConnectionLimits { header_timeout: SOON, ..patient() }, router()).await;
    let silent = server.connect().await;
    let mut slow = server.connect().await;
    slow.write("GET /healthz HTTP/1.1\r\nx-slow: ").await;
    let mut second = server.connect().await;
    assert!(second.get("/healthz").await.0.contains(" 200 "));
    second.write("GET /heal").await;
    for client in [silent, slow, second] {
        assert!(client.closed().await);
    }
    assert_eq!(server.metrics.timed_out.get(), 3);
}

#[tokio::test]
async fn a_connection_without_requests_has_a_deadline() {
    let server =
        Running::start(ConnectionLimits { idle_timeout: SOON, ..patient() }, router()).await;
    let mut client = server.connect().await;
    assert!(client.get("/healthz").await.0.contains(" 200 "));
    assert!(client.closed().await);
    assert_eq!(server.metrics.timed_out.get(), 1);
}

#[tokio::test]
async fn connection_beyond_the_limit_gets_503() {
    let limits = ConnectionLimits { max_connections: 2, ..patient() };
    let server = Running::start(limits, router()).await;
    let (mut first, mut idle) = (server.connect().await, server.connect().await);
    assert!(first.get("/healthz").await.0.contains(" 200 "));
    assert!(idle.get("/healthz").await.0.contains(" 200 "));
    let mut third = server.connect().await;
    let (head, body) = third.get("/healthz").await;
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    assert!(head.contains("retry-after: 1\r\n") && head.contains(PROBLEM_JSON), "{head}");
    let problem: Problem = serde_json::from_str(&body).unwrap();
    assert_eq!((problem.status, problem.code.as_str()), (503, "A2S514"));
    assert!(third.closed().await);
    assert_eq!((server.metrics.refused.get(), server.metrics.open.get()), (1, 2));
    assert_eq!(first.get("/healthz").await.1, "ok\n");
    drop(idle);
    // The server learns of the end in its own time.
    let served = async {
        while !server.connect().await.get("/healthz").await.0.contains(" 200 ") {
            tokio::task::yield_now().await;
        }
    };
    timeout(GUARD, served).await.unwrap();
}

#[tokio::test]
async fn the_body_of_a_request_has_a_deadline() {
    let server =
        Running::start(ConnectionLimits { body_timeout: SOON, ..patient() }, router()).await;
    let mut client = server.connect().await;
    let head = "POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\n";
    client.write(&format!("{head}hello")).await;
    assert_eq!(client.read().await.1, "hello");
    client.write(&format!("{head}h")).await;
    let (head, body) = client.read().await;
    assert!(head.starts_with("HTTP/1.1 408 ") && head.contains("connection: close"), "{head}");
    assert!(body.contains("A2S515"), "{body}");
    assert!(client.closed().await);
}

#[tokio::test]
async fn a_stream_outlives_the_deadlines_of_idle_connections() {
    let go = Arc::new(Notify::new());
    let waits = Arc::clone(&go);
    let route = get(async move || {
        let first = stream::once(async { Ok::<_, io::Error>("one\n") });
        let second = stream::once(async move {
            waits.notified().await;
            Ok("two\n")
        });
        Body::from_stream(first.chain(second))
    });
    let limits = ConnectionLimits { header_timeout: SOON, idle_timeout: SOON, ..patient() };
    let server = Running::start(limits, Router::new().route("/stream", route)).await;
    let mut client = server.connect().await;
    client.write("GET /stream HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
    client.read().await;
    // One that began later has ended at its deadline.
    assert!(server.connect().await.closed().await);
    go.notify_one();
    let mut rest = String::new();
    timeout(GUARD, client.0.read_to_string(&mut rest)).await.unwrap().unwrap();
    assert!(rest.contains("one\n") && rest.contains("two\n"), "{rest}");
}

/// Reports that it was dropped.
struct Dropped(Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_its_response_has_a_deadline() {
    let gone = Arc::new(Notify::new());
    let dropped = Arc::clone(&gone);
    let route = get(async move || {
        let guard = Dropped(Arc::clone(&dropped));
        Body::from_stream(stream::repeat_with(move || {
            let _held = &guard;
            Ok::<_, io::Error>(vec![0; 64 << 10])
        }))
    });
    let limits = ConnectionLimits { idle_timeout: SOON, ..patient() };
    let server = Running::start(limits, Router::new().route("/endless", route)).await;
    let mut client = server.connect().await;
    client.write("GET /endless HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    timeout(GUARD, gone.notified()).await.unwrap();
    assert_eq!(server.metrics.timed_out.get(), 1);
}

/// A listener with errors in front of its connections.
struct Faulty(VecDeque<io::Error>, TcpListener);

impl ConnectionSource for Faulty {
    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        match self.0.pop_front() {
            Some(error) => Err(error),
            None => TcpListener::accept(&self.1).await,
        }
    }
}

#[tokio::test]
async fn errors_of_accept_do_not_end_the_server() {
    const EMFILE: i32 = 24;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let errors = [io::Error::from_raw_os_error(EMFILE), io::ErrorKind::ConnectionAborted.into()];
    let server = Running::start_at(address, Faulty(errors.into(), listener), patient(), router());
    assert_eq!(server.connect().await.get("/healthz").await.1, "ok\n");
}

#[tokio::test]
async fn requests_under_way_end_when_the_server_is_stopped() {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, waits) = (Arc::clone(&begun), Arc::clone(&go));
    let route = get(async move || {
        begins.notify_one();
        waits.notified().await;
        "done"
    });
    let router = router().route("/slow", route);
    let server = Running::start(patient(), router).await;
    let (mut busy, mut idle) = (server.connect().await, server.connect().await);
    assert_eq!(idle.get("/healthz").await.1, "ok\n");
    busy.write("GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    timeout(GUARD, begun.notified()).await.unwrap();
    server.stop.cancel();
    assert!(idle.closed().await);
    assert!(TcpStream::connect(server.address).await.is_err());
    go.notify_one();
    assert_eq!(busy.read().await.1, "done");
    timeout(GUARD, server.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_server_that_is_dropped_closes_its_connections() {
    let held = Arc::new(AtomicBool::new(false));
    let begun = Arc::clone(&held);
    let route = get(async move || {
        begun.store(true, Ordering::Relaxed);
        pending::<&str>().await
    });
    let server = Running::start(patient(), Router::new().route("/never", route)).await;
    let mut client = server.connect().await;
    client.write("GET /never HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    while !held.load(Ordering::Relaxed) {
        tokio::task::yield_now().await;
    }
    server.task.abort();
    assert!(client.closed().await);
}

#[tokio::test]
async fn http2_is_served() {
    let server = Running::start(patient(), router()).await;
    let client = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let url = format!("http://{}/echo", server.address);
    let response = client.post(url).body("hello").send().await.unwrap();
    assert_eq!(response.version(), Version::HTTP_2);
    assert_eq!(response.text().await.unwrap(), "hello");
}

#[test]
fn half_of_the_file_descriptors_are_left() {
    let of = |descriptors| ConnectionLimits::default().within(descriptors).max_connections;
    assert_eq!((of(Some(512)), of(Some(1)), of(Some(1 << 20)), of(None)), (256, 1, 1_024, 1_024));
}

#[test]
fn the_page_has_every_limit_of_connections_with_its_default() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/limits.md"));
    let page = page.unwrap();
    let limits = serde_json::to_value(ConnectionLimits::default()).unwrap();
    for (name, value) in limits.as_object().unwrap() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        assert!(page.contains(&format!("| `{name}` | {value} |")), "{name} {value}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn lost_client_is_found_within_the_idle_timeout() {
    let limit = Duration::from_secs(42);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    detect_lost_client(&stream, limit).unwrap();
    let socket = SockRef::from(&stream);
    assert_eq!(socket.tcp_user_timeout().unwrap(), Some(limit));
    assert!(socket.keepalive().unwrap());
    assert_eq!(socket.tcp_keepalive_time().unwrap(), limit);
}
