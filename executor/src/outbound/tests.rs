//! Real servers on loopback, reached as upstreams of documents' hosts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use a2s::{Domain, HttpMethod, Task};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use futures::StreamExt as _;
use indexmap::IndexMap;
use serde_json::{Value, json};
use test_support::serve;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use uuid::Uuid;

use super::resolve::AddressResolver;
use super::service_client::{ServiceClient, tls_config};
use super::*;
use crate::config::GuardianSettings;
use crate::gate::{GuardedStep, GuardianGate};
use crate::request::TaskContract;
use crate::request::test_fixtures::{Still, inputs, openapi};
use crate::secrets::RunSecrets;
use crate::thread_local_clients::PerThread;

/// A configuration with a test's limits. `https://api.example` leads to `upstream`.
pub(super) fn config(upstream: Option<SocketAddr>, path: &str) -> Config {
    let registry = Url::parse("http://127.0.0.1:1").unwrap();
    let mut config = Config::new("unused".into(), registry, GuardianSettings::Off);
    if let Some(address) = upstream {
        let url = Url::parse(&format!("http://{address}{path}")).unwrap();
        config.upstreams.insert(Domain::new("api.example").unwrap(), url);
    }
    config.limits.max_response_bytes = 1_000;
    config
}

pub(super) fn open(config: &Config) -> Result<OutboundClient, Error> {
    let vault = Vault::in_memory(Arc::new(Still), Arc::new(Still));
    let registry = Arc::new(RegistryClient::new(&config.registry, None)?);
    OutboundClient::new(config, Arc::new(vault), registry, Arc::new(Still))
}

impl OutboundClient {
    /// Sends a request in the next turn.
    pub(crate) async fn send_now(
        &self,
        request: &Permitted<PreparedRequest>,
    ) -> Result<RawResponse, SendError> {
        self.reply_now(request).await.and_then(|reply| reply.into_response(request.url()))
    }

    /// Sends a request in the next turn, and gives what it replies.
    async fn reply_now(
        &self,
        request: &Permitted<PreparedRequest>,
    ) -> Result<ServiceReply, SendError> {
        let turn = self.acquire_permit(request.url(), None, &|_| {}).await?;
        self.transmit(request, turn, &WireAdditions::default(), None).await
    }
}

pub(super) async fn permit(task: &Task, given: &[(&str, Value)]) -> Permitted<PreparedRequest> {
    let gate = GuardianGate::for_all();
    let pin = a2s_api::CapabilityRef {
        name: "Test".parse().unwrap(),
        version: semver::Version::new(1, 0, 0),
        checksum: a2s::Digest::of_bytes(b""),
    };
    let principal = a2s_api::Principal::owner();
    let asker = GuardedStep {
        principal: &principal,
        run: Uuid::nil(),
        session: "s",
        execution_id: Uuid::nil(),
        step: "step",
        capability: &pin,
        root: &pin,
        description: "Test",
        permissions: &[],
        domains: &[],
        sources: None,
        secrets: &RunSecrets::default(),
        trace: &&HeaderMap::new(),
    };
    let given = given.iter().flat_map(|(place, value)| inputs([(place, value.clone())]));
    let given = given.collect::<IndexMap<_, _>>().into();
    gate.ask_request(&asker, &TaskContract::new(Arc::new(task.clone())), &given)
        .await
        .verdict
        .unwrap()
}

pub(super) async fn get(outbound: &OutboundClient, url: &str) -> Result<RawResponse, SendError> {
    let url = Url::parse(url).unwrap();
    let task = openapi(HttpMethod::Get, url.as_str(), url.path(), &[]);
    // The fixture appends the path to the server: take it from there.
    let Task::OpenApi(mut task) = task else { unreachable!("made just now") };
    task.server.set_path("");
    outbound.send_now(&permit(&Task::OpenApi(task), &[]).await).await
}

/// What a server saw of a request.
async fn tell(request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 10_000).await.unwrap();
    let header = |name: &str| parts.headers.get(name).map(|v| v.to_str().unwrap().to_owned());
    axum::Json(json!({
        "method": parts.method.as_str(),
        "target": parts.uri.to_string(),
        "host": header("host"),
        "agent": header("user-agent"),
        "encoding": header("accept-encoding"),
        "type": header("content-type"),
        "length": header("content-length"),
        "body": String::from_utf8_lossy(&body),
    }))
    .into_response()
}

fn json_of(response: &RawResponse) -> Value {
    serde_json::from_slice(&response.body).unwrap()
}

#[tokio::test]
async fn upstream_changes_the_connection_not_the_host() {
    let server = serve(Router::new().fallback(tell)).await;
    let outbound = open(&config(Some(server), "/stand-in/")).unwrap();
    let places = ["pathParameters.city", "queryParameters.q", "body"];
    let task = openapi(HttpMethod::Post, "https://api.example/v1", "/a/{city}", &places);
    let given = [
        ("pathParameters.city", json!("x/y")),
        ("queryParameters.q", json!("1")),
        ("body", json!({"a": 1})),
    ];
    let request = permit(&task, &given).await;
    assert_eq!(request.url().as_str(), "https://api.example/v1/a/x%2Fy?q=1");
    let upstream = outbound.upstream_of(request.url());
    assert_eq!(upstream, Some(format!("http://{server}/stand-in/")));
    let response = outbound.send_now(&request).await.unwrap();
    assert_eq!((response.status, response.redirects), (200, 0));
    assert_eq!(response.content_type(), Some("application/json"));
    let expected = json!({
        "method": "POST",
        "target": "/stand-in/v1/a/x%2Fy?q=1",
        "host": server.to_string(),
        "agent": concat!("a2s-executor/", env!("CARGO_PKG_VERSION")),
        "encoding": "identity",
        "type": "application/json",
        "length": "7",
        "body": r#"{"a":1}"#,
    });
    assert_eq!(json_of(&response), expected);
}

#[tokio::test]
async fn a_request_that_could_have_a_body_says_that_it_has_none() {
    let server = serve(Router::new().fallback(tell)).await;
    let outbound = open(&config(Some(server), "/")).unwrap();
    let cases = [
        (HttpMethod::Post, json!("0")),
        (HttpMethod::Put, json!("0")),
        (HttpMethod::Patch, json!("0")),
        (HttpMethod::Get, json!(null)),
        (HttpMethod::Delete, json!(null)),
    ];
    for (method, length) in cases {
        let task = openapi(method, "https://api.example", "/a", &[]);
        let response = outbound.send_now(&permit(&task, &[]).await).await.unwrap();
        assert_eq!(json_of(&response)["length"], length, "{method:?}");
    }
}

#[tokio::test]
async fn an_upstream_is_for_its_domain_only() {
    let server = serve(Router::new().fallback(tell)).await;
    let outbound = open(&config(Some(server), "")).unwrap();
    let upstream = |url: &str| outbound.upstream_of(&Url::parse(url).unwrap());
    assert!(upstream("https://api.example/x").is_some());
    assert!(upstream("https://api.example:8443/x").is_none());
    assert!(upstream("https://www.api.example/x").is_none());
    // The upstream's own address is no more allowed than before.
    let failure = get(&outbound, &format!("http://{server}/x")).await.unwrap_err();
    assert_eq!((failure.error.kind, failure.sent), (ErrorKind::AddressRefused, false));
}

/// Spellings of addresses that may not be reached; `{}` is the port of a server that listens on
/// every local address.
const HOSTILE: &[&str] = &[
    // Loopback, in every spelling that address parsers know.
    "http://127.0.0.1:{}/",
    "http://127.1:{}/",
    "http://127.0.1:{}/",
    "http://127.255.255.254:{}/",
    "http://2130706433:{}/",
    "http://017700000001:{}/",
    "http://0x7f000001:{}/",
    "http://0x7f.0.0.1:{}/",
    "http://0x7f.1:{}/",
    "http://0177.0.0.1:{}/",
    "http://0177.0.0.01:{}/",
    "http://127.0.0.1.:{}/",
    "http://127.0.0.1:{}/?x=http://public.example",
    "http://%31%32%37.0.0.1:{}/",
    "http://１２７.0.0.1:{}/",
    "http://127。0。0。1:{}/",
    "http://localhost:{}/",
    "http://LOCALHOST:{}/",
    "http://localhost.:{}/",
    "http://loc%61lhost:{}/",
    "http://any.localhost:{}/",
    "http://[::1]:{}/",
    "http://[0:0:0:0:0:0:0:1]:{}/",
    "http://[::0001]:{}/",
    "http://[::127.0.0.1]:{}/",
    "http://[::ffff:127.0.0.1]:{}/",
    "http://[::ffff:7f00:1]:{}/",
    "http://[0:0:0:0:0:ffff:127.0.0.1]:{}/",
    "http://[::ffff:0:127.0.0.1]:{}/",
    "http://[64:ff9b::127.0.0.1]:{}/",
    "http://[64:ff9b::7f00:1]:{}/",
    "http://[64:ff9b:1::7f00:1]:{}/",
    "http://[2002:7f00:1::]:{}/",
    "http://[2001:0:7f00:1::]:{}/",
    // This host.
    "http://0.0.0.0:{}/",
    "http://0:{}/",
    "http://0x0:{}/",
    "http://[::]:{}/",
    "http://0.0.0.1:{}/",
    // Metadata of clouds.
    "http://169.254.169.254/latest/meta-data/",
    "http://2852039166/",
    "http://0xa9fea9fe/",
    "http://0251.0376.0251.0376/",
    "http://169.254.43518/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[fd00:ec2::254]/",
    "http://100.100.100.200/",
    "http://192.0.0.192/",
    "http://168.63.129.16/",
    // Private, link-local, shared.
    "http://10.0.0.1/",
    "http://10.1/",
    "http://0xa.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.0.1/",
    "http://192.168.257/",
    "http://3232235521/",
    "http://169.254.1.1/",
    "http://100.64.0.1/",
    "http://[fc00::1]/",
    "http://[fd12:3456::1]/",
    "http://[fe80::1]/",
    "http://[fec0::1]/",
    // Multicast, broadcast, reserved, documentation.
    "http://224.0.0.1/",
    "http://239.255.255.250/",
    "http://255.255.255.255/",
    "http://240.0.0.1/",
    "http://192.0.2.1/",
    "http://198.51.100.1/",
    "http://203.0.113.1/",
    "http://198.18.0.1/",
    "http://[ff02::1]/",
    "http://[2001:db8::1]/",
    "http://[3fff::1]/",
    "http://[100::1]/",
    // Users, schemes, ports.
    "http://api.example@127.0.0.1:{}/",
    "http://user:secret@api.example:{}/",
    "http://127.0.0.1:{}\\@api.example/",
    "http://api.example:0/",
    "ftp://127.0.0.1:{}/",
    "ws://127.0.0.1:{}/",
];

#[tokio::test]
async fn no_spelling_of_a_hostile_address_connects() {
    assert!(60 <= HOSTILE.len());
    // Accepts IPv4 as well where the machine has both families.
    let listener = match TcpListener::bind("[::]:0").await {
        Ok(listener) => listener,
        Err(_) => TcpListener::bind("0.0.0.0:0").await.unwrap(),
    };
    let port = listener.local_addr().unwrap().port().to_string();
    // An upstream that is there changes nothing for other hosts.
    let outbound = open(&config(Some(([127, 0, 0, 1], 9).into()), "")).unwrap();
    for spelling in HOSTILE {
        let target = spelling.replace("{}", &port);
        let failure = get(&outbound, &target).await.expect_err(&target);
        assert_eq!(
            failure.error.kind,
            ErrorKind::AddressRefused,
            "{target}: {}",
            failure.error.message
        );
        assert!(!failure.sent, "{target}");
        assert!(!failure.error.message.contains("secret"), "{target}");
    }
    let knocked = timeout(Duration::from_millis(1), listener.accept()).await;
    assert!(knocked.is_err(), "a connection was made");
}

#[tokio::test]
async fn a_name_that_resolves_to_a_hostile_address_is_refused() {
    let server = serve(Router::new().fallback(tell)).await;
    let outbound = open(&config(None, "")).unwrap();
    // What a name such as this one resolves to is checked, too, not only its spelling.
    let url = Url::parse(&format!("http://localhost:{}/", server.port())).unwrap();
    let client = outbound.clients.guarded.current();
    let address = (&Method::GET, &url, &url);
    let failure = client.execute(address, HeaderMap::new(), Bytes::new()).await.unwrap_err();
    assert_eq!((failure.error.kind, failure.sent), (ErrorKind::AddressRefused, false));
    assert!(failure.error.message.contains("is a loopback address"), "{}", failure.error.message);
}

/// A name whose addresses change from question to question.
struct Fickle(AtomicUsize);

impl reqwest::dns::Resolve for Fickle {
    fn resolve(&self, _: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let address = |last: u8| SocketAddr::from(([127, 0, 0, last], 0));
        let answers = [vec![address(2)], vec![address(1)], vec![address(1), address(2)], vec![]];
        let answer = answers[self.0.fetch_add(1, Ordering::SeqCst) % answers.len()].clone();
        Box::pin(async { Ok(Box::new(answer.into_iter()) as reqwest::dns::Addrs) })
    }
}

#[tokio::test]
async fn rebound_dns_name_reaches_only_checked_addresses() {
    let forbidden = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = forbidden.local_addr().unwrap().port();
    let allowed = TcpListener::bind(("127.0.0.2", port)).await.unwrap();
    // Each answer ends its connection, so that each request asks for the name again.
    let answer = async || ([("connection", "close")], "{}");
    tokio::spawn(
        async move { axum::serve(allowed, Router::new().fallback(answer)).await.unwrap() },
    );
    let mut config = config(None, "");
    config.allowed_addresses = vec!["127.0.0.2".to_owned()];
    let mut outbound = open(&config).unwrap();
    let fickle = Arc::new(Fickle(AtomicUsize::new(0)));
    let resolver =
        AddressResolver::with_names(fickle.clone(), Arc::clone(&outbound.clients.allowed));
    let client = ServiceClient::new(tls_config(None, None).unwrap(), resolver, &config.limits);
    outbound.clients.guarded = PerThread::new(client.clone(), move || Ok(client.clone()));
    let mut ends = BTreeMap::<_, usize>::new();
    for _ in 0..20 {
        let end = get(&outbound, &format!("http://fickle.example:{port}/")).await;
        *ends.entry(end.map(|r| r.status).map_err(|f| f.error.kind)).or_default() += 1;
    }
    assert_eq!(fickle.0.load(Ordering::SeqCst), 20);
    let expected =
        [(Ok(200), 10), (Err(ErrorKind::AddressRefused), 5), (Err(ErrorKind::ConnectFailed), 5)];
    assert_eq!(ends, expected.into());
    let knocked = timeout(Duration::from_millis(1), forbidden.accept()).await;
    assert!(knocked.is_err(), "a connection was made");
}

#[tokio::test]
async fn loopback_is_reached_when_the_configuration_says_so() {
    let server = serve(Router::new().fallback(tell)).await;
    let port = server.port();
    let status = async |allowed: &[&str], target: String| {
        let mut config = config(None, "");
        config.allowed_addresses = allowed.iter().map(|text| (*text).to_owned()).collect();
        let outbound = open(&config).unwrap();
        get(&outbound, &target).await.map(|r| r.status).map_err(|f| f.error.kind)
    };
    let by_address = || format!("http://127.0.0.1:{port}/");
    let by_name = || format!("http://localhost:{port}/");
    assert_eq!(status(&["127.0.0.1"], by_address()).await, Ok(200));
    assert_eq!(status(&["127.0.0.0/8"], by_address()).await, Ok(200));
    assert_eq!(status(&["127.0.0.0/8"], by_name()).await, Ok(200));
    assert_eq!(status(&["localhost"], by_name()).await, Ok(200));
    assert_eq!(status(&["localhost"], by_address()).await, Err(ErrorKind::AddressRefused));
    assert_eq!(status(&["10.0.0.0/8"], by_address()).await, Err(ErrorKind::AddressRefused));
    assert_eq!(status(&["10.0.0.0/8"], by_name()).await, Err(ErrorKind::AddressRefused));
}

#[tokio::test]
async fn a_redirect_is_given_back_and_not_followed() {
    let leads = |status: u16, to: &str| {
        let (status, to) = (StatusCode::from_u16(status).unwrap(), to.to_owned());
        any(async move || (status, [("location", to)]))
    };
    let followed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&followed);
    let server = serve(
        Router::new()
            .route("/found", leads(302, "/told?x=1"))
            .route("/kept", leads(307, "told"))
            .route("/seen", leads(303, "/told"))
            .route("/away", leads(302, "http://127.0.0.1:1/secret"))
            .route("/metadata", leads(302, "http://169.254.169.254/"))
            .route("/downgrade", leads(302, "http://api.example/told"))
            .fallback(async move || count.fetch_add(1, Ordering::SeqCst).to_string()),
    )
    .await;
    let outbound = open(&config(Some(server), "")).unwrap();
    let post = async |path: &str| {
        let task = openapi(HttpMethod::Post, "https://api.example", path, &["body"]);
        outbound.reply_now(&permit(&task, &[("body", json!(1))]).await).await
    };
    for (path, method, url, keeps_body) in [
        ("/found", "GET", "https://api.example/told?x=1", false),
        ("/seen", "GET", "https://api.example/told", false),
        ("/kept", "POST", "https://api.example/told", true),
    ] {
        let ServiceReply::Redirect(_, hop) = post(path).await.unwrap() else { panic!("{path}") };
        let told = (hop.method.as_str(), hop.url.as_str(), hop.keeps_body);
        assert_eq!(told, (method, url, keeps_body), "{path}");
    }
    for (path, reason) in [
        ("/away", "another host"),
        ("/metadata", "another host"),
        ("/downgrade", "from https to http"),
    ] {
        let failure = post(path).await.unwrap_err();
        assert_eq!(
            (failure.error.kind, failure.sent),
            (ErrorKind::RedirectRefused, true),
            "{path}"
        );
        assert!(failure.error.message.contains(reason), "{}", failure.error.message);
    }
    assert_eq!(followed.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_answer_without_end_is_cut_off() {
    let stream = || {
        let chunks =
            futures::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from("x".repeat(100))));
        Body::from_stream(chunks.take(1_000_000))
    };
    let many_headers = || {
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_str(&"x".repeat(10_000)).unwrap();
        for index in 0..7 {
            headers.insert(HeaderName::try_from(format!("x-{index}")).unwrap(), value.clone());
        }
        headers
    };
    let server = serve(
        Router::new()
            .route("/fits", any(async || "x".repeat(1_000)))
            .route("/announced", any(async || "x".repeat(1_001)))
            .route("/stream", any(async move || stream()))
            .route("/headers", any(async move || many_headers())),
    )
    .await;
    let outbound = open(&config(Some(server), "")).unwrap();
    let size = async |path: &str| {
        let answer = get(&outbound, &format!("https://api.example{path}")).await;
        answer
            .map(|response| response.bytes())
            .map_err(|failure| (failure.error.kind, failure.sent))
    };
    assert_eq!(size("/fits").await, Ok(1_000));
    for path in ["/announced", "/stream", "/headers"] {
        assert_eq!(size(path).await, Err((ErrorKind::ResponseTooLarge, true)), "{path}");
    }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, text).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_compressed_response_is_decoded_within_the_limit() {
    let packed = |status: u16, text: &[u8]| {
        let status = StatusCode::from_u16(status).unwrap();
        (status, [("content-encoding", "gzip")], gzip(text))
    };
    let (fits, bomb) = (packed(200, b"[1, 2]"), packed(200, &vec![b' '; 5_000_000]));
    let (refused, large) = (packed(400, b"no such city"), packed(500, &vec![b' '; 5_000_000]));
    let server = serve(
        Router::new()
            .route("/fits", any(async move || fits))
            .route("/bomb", any(async move || bomb))
            .route("/refused", any(async move || refused))
            .route("/large", any(async move || large))
            .route("/plain", any(async || ([("content-encoding", "aws-chunked, ")], "[1, 2]")))
            .route("/br", any(async || ([("content-encoding", "br")], "x")))
            .route(
                "/missing",
                any(async || (StatusCode::NOT_FOUND, [("content-encoding", "br")], "x")),
            ),
    )
    .await;
    let mut config = config(Some(server), "");
    config.limits.max_response_bytes = 1_000_000;
    let outbound = open(&config).unwrap();
    let read = async |path: &str| get(&outbound, &format!("https://api.example{path}")).await;
    for path in ["/fits", "/plain"] {
        assert_eq!(&read(path).await.unwrap().body[..], b"[1, 2]", "{path}");
    }
    let headers = read("/fits").await.unwrap().headers;
    assert!(!headers.contains_key("content-encoding") && !headers.contains_key("content-length"));
    let failure = read("/bomb").await.unwrap_err();
    assert_eq!(failure.error.kind, ErrorKind::ResponseTooLarge);
    let failure = read("/br").await.unwrap_err();
    assert_eq!(failure.error.kind, ErrorKind::NotJson);
    assert!(failure.error.message.contains("`br`") && failure.error.hint.contains("operator"));
    // An error status is known, whatever the body is.
    for (path, status, body) in
        [("/refused", 400, &b"no such city"[..]), ("/large", 500, b""), ("/missing", 404, b"")]
    {
        let response = read(path).await.unwrap();
        assert_eq!((response.status, &response.body[..]), (status, body), "{path}");
    }
}

/// A body that breaks off, is late or is too large does not hide the status before it.
#[tokio::test]
async fn an_error_keeps_its_status_whatever_its_body_is() {
    let stalled = || {
        let first = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from("x"))]);
        Body::from_stream(futures::StreamExt::chain(first, futures::stream::pending()))
    };
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let server = serve(
        Router::new()
            .route("/stalled", any(async move || (status, [("retry-after", "7")], stalled())))
            .route(
                "/large",
                any(async move || (status, [("retry-after", "7")], vec![b'x'; 2_000])),
            ),
    )
    .await;
    let mut config = config(Some(server), "");
    config.limits.max_response_bytes = 1_000;
    config.limits.read_timeout = Duration::from_millis(200);
    let half = b"HTTP/1.1 503 Busy\r\nretry-after: 7\r\ncontent-length: 10\r\n\r\nhalf";
    let (cut, _) = serve_raw(half).await;
    for (server, path) in [(server, "/stalled"), (server, "/large"), (cut, "/cut")] {
        let upstream = Url::parse(&format!("http://{server}")).unwrap();
        config.upstreams.insert(Domain::new("api.example").unwrap(), upstream);
        let outbound = open(&config).unwrap();
        let response = get(&outbound, &format!("https://api.example{path}")).await.unwrap();
        assert_eq!((response.status, &response.body[..]), (503, &b""[..]), "{path}");
        assert_eq!(response.headers["retry-after"], "7", "{path}");
    }
}

#[tokio::test]
async fn a_request_larger_than_the_limit_does_not_leave() {
    let mut config = config(Some(([127, 0, 0, 1], 9).into()), "");
    config.limits.max_request_bytes = 10;
    let outbound = open(&config).unwrap();
    let task = openapi(HttpMethod::Post, "https://api.example", "/", &["body"]);
    let request = permit(&task, &[("body", json!("12345678901"))]).await;
    let failure = outbound.send_now(&request).await;
    let failure = failure.unwrap_err();
    assert_eq!((failure.error.kind, failure.sent), (ErrorKind::RequestTooLarge, false));
}

#[tokio::test]
async fn a_service_that_is_not_there_got_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = listener.local_addr().unwrap();
    drop(listener);
    let outbound = open(&config(Some(nobody), "")).unwrap();
    let failure = get(&outbound, "https://api.example/x?token=secret").await.unwrap_err();
    assert_eq!((failure.error.kind, failure.sent), (ErrorKind::ConnectFailed, false));
    assert!(failure.error.message.starts_with("no connection to api.example: "));
    assert!(!failure.error.message.contains("secret"));
    // A name that no resolver knows.
    let outbound = open(&config(None, "")).unwrap();
    let failure = get(&outbound, "https://nobody.invalid/").await.unwrap_err();
    assert_eq!((failure.error.kind, failure.sent), (ErrorKind::ConnectFailed, false));
}

#[tokio::test]
async fn a_service_that_does_not_answer_may_have_got_the_request() {
    let server = serve(Router::new().fallback(async || std::future::pending::<()>().await)).await;
    let mut config = config(Some(server), "");
    config.limits.request_timeout = Duration::from_millis(50);
    let outbound = open(&config).unwrap();
    let failure = get(&outbound, "https://api.example/").await.unwrap_err();
    assert_eq!((failure.error.kind, failure.sent), (ErrorKind::Timeout, true));
}

/// A small response.
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

/// Accepts connections, reads something, answers `answer` and closes; counts the connections.
async fn serve_raw(answer: &'static [u8]) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(answer).await;
        }
    });
    (address, count)
}

#[tokio::test]
async fn a_broken_answer_is_an_error_and_is_asked_for_once() {
    for answer in [
        b"".as_slice(),
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"no http at all\r\n\r\n",
    ] {
        let (server, connections) = serve_raw(answer).await;
        let outbound = open(&config(Some(server), "")).unwrap();
        let failure = get(&outbound, "https://api.example/").await.unwrap_err();
        let shown = String::from_utf8_lossy(answer);
        assert_eq!(
            (failure.error.kind, failure.sent),
            (ErrorKind::ConnectionLost, true),
            "{shown:?}"
        );
        assert_eq!(connections.load(Ordering::SeqCst), 1, "{shown:?}");
    }
}

/// Only a person who knows the limit can give the service more time.
#[tokio::test]
async fn a_silent_service_is_a_timeout_that_names_its_limit() {
    let silent = || async {
        std::future::pending::<()>().await;
    };
    let half = || async {
        let first = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from("half"))]);
        Body::from_stream(futures::StreamExt::chain(first, futures::stream::pending()))
    };
    let server = serve(Router::new().route("/silent", any(silent)).route("/half", any(half))).await;
    let mut config = config(Some(server), "");
    config.limits.read_timeout = Duration::from_millis(200);
    let outbound = open(&config).unwrap();
    for (path, words) in [("/silent", "no response"), ("/half", "no more data after 4 bytes")] {
        let url = format!("https://api.example{path}");
        let failure = get(&outbound, &url).await.unwrap_err();
        assert_eq!((failure.error.kind, failure.sent), (ErrorKind::Timeout, true), "{path}");
        let error = failure.error;
        assert!(error.message.contains(words) && error.message.contains("0.2 s"), "{error}");
        assert!(error.hint.contains("`read-timeout`"), "{}", error.hint);
    }
}

#[tokio::test]
async fn a_few_informational_responses_precede_a_response() {
    let response = [b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(20).as_slice(), RESPONSE].concat();
    let (server, _) = serve_raw(response.leak()).await;
    let outbound = open(&config(Some(server), "")).unwrap();
    assert_eq!(get(&outbound, "https://api.example/").await.unwrap().status, 200);
}

#[tokio::test]
async fn endless_informational_responses_end_only_their_request() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endless = listener.local_addr().unwrap();
    // As fast as it can, on a thread of its own.
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let heads = b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(4096);
        while stream.write_all(&heads).is_ok() {}
    });
    let outbound = open(&config(Some(endless), "")).unwrap();
    let other = open(&config(Some(serve_raw(RESPONSE).await.0), "")).unwrap();
    let url = "https://api.example/";
    let (ended, response) = tokio::join!(get(&outbound, url), get(&other, url));
    assert_eq!(response.unwrap().status, 200);
    let failure = ended.unwrap_err();
    assert_eq!((failure.error.kind, failure.sent), (ErrorKind::ResponseTooLarge, true));
    let message = "api.example sent more than 20 informational responses (1xx)";
    assert!(failure.error.message.starts_with(message), "{}", failure.error.message);
}

#[tokio::test]
async fn an_answer_that_announces_too_much_is_not_read() {
    let (server, _) = serve_raw(b"HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\nx").await;
    let outbound = open(&config(Some(server), "")).unwrap();
    let failure = get(&outbound, "https://api.example/").await.unwrap_err();
    assert_eq!((failure.error.kind, failure.sent), (ErrorKind::ResponseTooLarge, true));
}

/// Two retries of the request later the host has a rest, and its answers tell for how long.
#[tokio::test]
async fn what_a_service_answers_decides_how_it_is_treated() {
    let status = Arc::new(AtomicUsize::new(500));
    let answering = Arc::clone(&status);
    let answer = async move || {
        let status = StatusCode::from_u16(answering.load(Ordering::SeqCst) as u16).unwrap();
        (status, [("retry-after", "7")])
    };
    let mut config = config(Some(serve(Router::new().fallback(answer)).await), "");
    config.hosts.default.breaker_failures = 2;
    let outbound = open(&config).unwrap();
    let url = "https://api.example/";
    for expected in [1, 2] {
        assert_eq!(get(&outbound, url).await.unwrap().status, 500);
        assert_eq!(outbound.host_states()[0].failures, expected);
    }
    let failure = get(&outbound, url).await.unwrap_err();
    assert_eq!((failure.error.kind, failure.sent), (ErrorKind::HostPaused, false));
    let host = &outbound.host_states()[0];
    assert_eq!((host.host.as_str(), host.breaker.as_str()), ("api.example", "open"));
    assert_eq!(host.in_flight, 0);

    // Another executor: the service asks for a rest, which is none of a failure.
    let outbound = open(&config).unwrap();
    status.store(429, Ordering::SeqCst);
    assert_eq!(get(&outbound, url).await.unwrap().status, 429);
    let host = &outbound.host_states()[0];
    assert_eq!((host.breaker.as_str(), host.failures), ("closed", 0));
    assert!((6_000..=7_000).contains(&host.paused_ms.unwrap()), "{host:?}");
}

#[tokio::test]
async fn a_configuration_that_cannot_be_meant_is_refused() {
    let refused = |change: &dyn Fn(&mut Config)| {
        let mut config = config(None, "");
        change(&mut config);
        open(&config).unwrap_err().kind
    };
    let configured = ErrorKind::Configuration;
    assert_eq!(refused(&|c| c.allowed_addresses.push("10.0.0.0/99".to_owned())), configured);
    for upstream in ["ftp://x/", "http://user@x/", "http://x/?a", "http://x/#a", "data:x"] {
        let url = Url::parse(upstream).unwrap();
        let domain = Domain::new("api.example").unwrap();
        let insert = |config: &mut Config| {
            config.upstreams.insert(domain.clone(), url.clone());
        };
        assert_eq!(refused(&insert), configured, "{upstream}");
    }
}
