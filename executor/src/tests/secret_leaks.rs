//! Canaries: values of every kind of credential, sent to services that give back whatever they get.
//! Then every surface is searched for them, in every spelling.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use a2s::Domain;
use a2s_api::{EventKind, RunStatus};
use aho_corasick::AhoCorasick;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::ServiceExt as _;
use tracing_subscriber::fmt::MakeWriter;
use uuid::Uuid;

use super::credentials::{guarded, set};
use super::world::{
    World, allow, call, cancel, deny, events, run, sequence, serve, start, task, wait_for, with,
};
use crate::{App, FailMode, OcsfFile};

/// Each has characters that are spelt differently in addresses, JSON and base64 where its kind
/// allows that, and a core that every spelling of the first two keeps.
const KEY: &str = "k\"/ +&%é>CanaryApiKey";
const COOKIE_KEY: &str = "c/+&%>CanaryCookie";
const PASSWORD: &str = "p:\"\\/ é?CanaryPassword";
const BEARER: &str = "b/+==.~CanaryBearer";
const CLIENT_SECRET: &str = "s&%:é CanaryClientSecret";
const REFRESH: &str = "r/+CanaryRefresh";
const NEW_REFRESH: &str = "R/+CanaryNewRefresh";
const ACCESS: &str = "a/+.CanaryAccess";
/// A key of digits alone: services answer it as a number.
const DIGITS: &str = "7310926458";

const CANARIES: [&str; 9] =
    [KEY, COOKIE_KEY, PASSWORD, BEARER, CLIENT_SECRET, REFRESH, NEW_REFRESH, ACCESS, DIGITS];

/// Every spelling that is searched for.
fn spellings() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for canary in CANARIES {
        let core = canary.find("Canary").map_or(canary, |at| &canary[at..]);
        let mut add = |how: &str, text: String| all.push((format!("{core}, {how}"), text));
        add("raw", core.to_owned());
        add("in JSON", serde_json::to_string(canary).unwrap().trim_matches('"').to_owned());
        let percent = percent_encoding::NON_ALPHANUMERIC;
        add("percent-encoded", percent_encoding::utf8_percent_encode(canary, percent).to_string());
        for before in ["", "x", "xy"] {
            let text = format!("{before}{canary}");
            // Without the characters that depend on what is around.
            let cut = |text: String| text[4..text.len() - 4].to_owned();
            add("base64", cut(STANDARD.encode(&text)));
            add("base64 for addresses", cut(URL_SAFE.encode(&text)));
        }
    }
    let pair = STANDARD.encode(format!("canary-user:{PASSWORD}"));
    all.push(("the header of basic".to_owned(), pair.trim_end_matches('=').to_owned()));
    all
}

#[track_caller]
fn search(surface: &str, bytes: &[u8]) {
    static LOOKED_FOR: LazyLock<(AhoCorasick, Vec<String>)> = LazyLock::new(|| {
        let (names, texts): (Vec<_>, Vec<_>) = spellings().into_iter().unzip();
        (AhoCorasick::new(texts).unwrap(), names)
    });
    let (finder, names) = &*LOOKED_FOR;
    if let Some(found) = finder.find(bytes) {
        let around = &bytes[found.start().saturating_sub(150)..(found.end() + 50).min(bytes.len())];
        let what = &names[found.pattern().as_usize()];
        panic!("{surface} tells {what}: …{}…", String::from_utf8_lossy(around));
    }
}

/// A service that gives back what it gets, in the body, in headers, in pages and in redirects.
#[derive(Default)]
struct Parrot {
    heard: Mutex<Vec<u8>>,
    /// What steps carried from one answer to the next request.
    carried: Mutex<Vec<u8>>,
    flaky: AtomicUsize,
    tokens: AtomicUsize,
    /// A request to `/hold`, which gets no answer.
    arrived: Notify,
}

async fn parrot(State(parrot): State<Arc<Parrot>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let (method, uri, headers) = (parts.method, parts.uri, parts.headers);
    let said = repeat(&method, &uri, &headers, &body);
    if matches!(uri.path(), "/carry" | "/tell") {
        parrot.carried.lock().unwrap().extend_from_slice(&body);
    }
    {
        let mut heard = parrot.heard.lock().unwrap();
        heard.extend_from_slice(said.to_string().as_bytes());
        heard.extend_from_slice(&body);
    }
    let all = said.to_string();
    match uri.path() {
        "/token" => {
            let number = parrot.tokens.fetch_add(1, Ordering::SeqCst);
            if number == 1 {
                let refusal = json!({"error": "invalid_grant", "error_description": all});
                return (StatusCode::BAD_REQUEST, axum::Json(refusal)).into_response();
            }
            axum::Json(json!({
                "access_token": ACCESS, "token_type": "bearer", "expires_in": 3600,
                "refresh_token": NEW_REFRESH, "said": said,
            }))
            .into_response()
        }
        "/fail" => (StatusCode::BAD_REQUEST, Html(format!("<p>{all}</p>"))).into_response(),
        // In another charset, with bytes that are no text, twice under one name, and as an encoding.
        "/wide" => {
            let wide: Vec<u8> = all.encode_utf16().flat_map(u16::to_le_bytes).collect();
            ([(header::CONTENT_TYPE, "text/plain; charset=utf-16le")], wide).into_response()
        }
        "/broken" => {
            let escape = |text: &str| text.replace('&', "&amp;").replace('"', "&quot;");
            let broken = [b"\xff", uri.to_string().as_bytes(), escape(&all).as_bytes()].concat();
            ([(header::CONTENT_TYPE, "text/plain")], broken).into_response()
        }
        "/twice" => format!(r#"{{"a": {all}, "a": 1, "list": [1]}}"#).into_response(),
        "/packed" => {
            let word = HeaderValue::from_str(&ascii(&all)).unwrap();
            ([(header::CONTENT_ENCODING, word)], all).into_response()
        }
        "/hold" => {
            parrot.arrived.notify_one();
            std::future::pending().await
        }
        "/page" => Html(format!("<h1>{all}</h1>")).into_response(),
        "/down" => (
            StatusCode::SERVICE_UNAVAILABLE,
            [(header::RETRY_AFTER, HeaderValue::from_str(&ascii(&all)).unwrap())],
            all,
        )
            .into_response(),
        "/flaky" if parrot.flaky.fetch_add(1, Ordering::SeqCst) == 0 => {
            (StatusCode::SERVICE_UNAVAILABLE, all).into_response()
        }
        "/away" => {
            let query = uri.query().unwrap_or_default();
            Redirect::temporary(&format!("/echo?again={query}")).into_response()
        }
        "/abroad" => {
            let query = uri.query().unwrap_or_default();
            Redirect::temporary(&format!("https://CanaryApiKey.example/?{query}")).into_response()
        }
        "/cut" => {
            let parts = futures::stream::iter([Ok(Bytes::from(all)), Err(io::Error::other("cut"))]);
            let length = [(header::CONTENT_LENGTH, "100000")];
            (length, Body::from_stream(parts)).into_response()
        }
        _ => {
            let whole = HeaderValue::from_str(&ascii(&all)).unwrap();
            ([("x-said", whole)], axum::Json(said)).into_response()
        }
    }
}

/// JSON as a header takes it.
fn ascii(json: &str) -> String {
    let spell = |c: char| match c {
        ' '..='~' => c.to_string(),
        c => format!("\\u{:04x}", u32::from(c)),
    };
    json.chars().map(spell).collect::<String>().chars().take(8_000).collect()
}

/// What was said, in many spellings.
fn repeat(method: &Method, uri: &Uri, headers: &HeaderMap, body: &Bytes) -> Value {
    let uri = uri.to_string();
    let plain = percent_encoding::percent_decode_str(&uri).decode_utf8_lossy().into_owned();
    let headers = headers.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.to_string(), Value::String(value))
    });
    let headers: serde_json::Map<_, _> = headers.collect();
    let authorization = headers.get("authorization").and_then(Value::as_str).unwrap_or_default();
    let pair = authorization.strip_prefix("Basic ").and_then(|text| STANDARD.decode(text).ok());
    let pair = pair.map(|pair| String::from_utf8_lossy(&pair).into_owned());
    let body = String::from_utf8_lossy(body).into_owned();
    let number: Option<u64> =
        headers.get("x-digits").and_then(Value::as_str).and_then(|text| text.parse().ok());
    let inner = json!({"uri": uri, "plain": plain, "headers": headers, "pair": pair, "body": body});
    let packed = STANDARD.encode(inner.to_string());
    let quoted = inner.to_string();
    json!({
        "method": method.as_str(), "said": inner, "quoted": quoted, "packed": packed,
        "list": [URL_SAFE.encode(format!("!{plain}")), authorization], "number": number,
        plain: "as a name",
    })
}

/// Everything that is logged, at the finest level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// What the whole process logs. There is one for all tests: one for a thread alone misses what other
/// threads met first.
fn log() -> Log {
    static LOG: LazyLock<Log> = LazyLock::new(|| {
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(log.clone())
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
        log
    });
    LOG.clone()
}

/// A world with a parrot for a service, and a capability for each of `paths`.
async fn world(paths: &[&str]) -> (World, Arc<Parrot>) {
    let mut world = World::new().await;
    let file = world.file("events.jsonl");
    world.config.telemetry.ocsf_file = Some(OcsfFile::new(file));
    let service = Arc::new(Parrot::default());
    let address = serve(Router::new().fallback(parrot).with_state(Arc::clone(&service))).await;
    let upstream = format!("http://{address}/").parse().unwrap();
    world.config.upstreams.insert(Domain::new("api.example").unwrap(), upstream);
    for path in paths {
        let mut execution = sequence(steps(path));
        // A step that fails leaves its outputs as they are here.
        for number in 0..4 {
            execution["variables"]["shared"][format!("all{number}")] = json!("object");
            execution["variables"]["shared"][format!("header{number}")] = json!("string");
        }
        world.registry.publish_newer(&name(path), &json!({"execution": execution}));
    }
    (world, service)
}

fn name(path: &str) -> String {
    format!("{}{}", path[..1].to_uppercase(), &path[1..])
}

/// Searches everything that is told of a run.
async fn search_run(app: &App, world: &World, run: Uuid) {
    search("a run", &get(app, &format!("/v1/executions/{run}")).await);
    search("events", &get(app, &format!("/v1/executions/{run}/events")).await);
    let replay = format!("/v1/executions/{run}/replay");
    let replay = call(app, Method::POST, &replay, &[], json!({})).await;
    search("a replay", replay.body.to_string().as_bytes());
    search("guardian messages", json!(world.guardian.asked()).to_string().as_bytes());
    search("an outcome", world.registry.outcome().await.0.to_string().as_bytes());
}

/// Searches what is left when everything has ended.
async fn search_rest(app: App, world: &World) {
    search("metrics", world.metrics().as_bytes());
    search("a database in use", &world.database_bytes().await);
    app.shutdown(std::time::Duration::from_secs(5)).await;
    search("the database", &world.database_bytes().await);
    let file = world.config.telemetry.ocsf_file.as_ref().unwrap();
    let events = std::fs::read(&file.path).unwrap();
    assert!(!events.is_empty(), "no security event was written");
    search("security events", &events);
    let log = log().0.lock().unwrap().clone();
    assert!(log.len() > 10_000, "nothing was logged");
    search("the log", &log);
}

fn schemes() -> Value {
    json!({
        "key": {"type": "apiKey", "in": "query", "name": "key"},
        "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
        "digits": {"type": "apiKey", "in": "header", "name": "X-Digits"},
        "basic": {"type": "http", "scheme": "basic"},
        "bearer": {"type": "http", "scheme": "bearer"},
        "client": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "/token", "scopes": {}}}},
        "refresh": {"type": "oauth2", "flows": {"authorizationCode": {
            "authorizationUrl": "/ask", "tokenUrl": "/token", "scopes": {},
        }}},
    })
}

async fn plant(app: &App) {
    let host = "api.example";
    set(app, host, "key", json!({"kind": "api_key", "value": KEY})).await;
    set(app, host, "cookie", json!({"kind": "api_key", "value": COOKIE_KEY})).await;
    set(app, host, "digits", json!({"kind": "api_key", "value": DIGITS})).await;
    set(app, host, "basic", json!({"kind": "basic", "user": "canary-user", "password": PASSWORD}))
        .await;
    set(app, host, "bearer", json!({"kind": "bearer", "token": BEARER})).await;
    let client = |refresh: Option<&str>, how: &str| {
        json!({
            "kind": "oauth2", "client_id": "me", "client_secret": CLIENT_SECRET,
            "refresh_token": refresh, "client_authentication": how,
        })
    };
    set(app, host, "client", client(None, "basic")).await;
    set(app, host, "refresh", client(Some(REFRESH), "body")).await;
}

/// Steps that call `path` with each way to be let in, one after another, whatever fails.
fn steps(path: &str) -> Value {
    let ways = [
        json!({"key": [], "cookie": [], "digits": [], "basic": []}),
        json!({"bearer": [], "digits": []}),
        json!({"client": []}),
        json!({"refresh": []}),
    ];
    let mut steps = Vec::new();
    for (number, way) in ways.into_iter().enumerate() {
        let id = format!("s{number}");
        let mut step = guarded(&id, &format!("GET /{path}"), json!([way]), schemes());
        step["output_mapping"] = json!({
            (format!("all{number}")): "$",
            (format!("header{number}")): {"from": "header", "path": "x-said", "default": ""},
        });
        let told = format!("t{number}");
        let tell = with(
            task(&told, "POST /tell", json!({"body": "${error.message}"}), json!({})),
            json!({"on_error": "continue"}),
        );
        steps.push(with(step, json!({"catch": {"steps": [tell]}})));
        // Whatever an answer gave is carried to the next service.
        let carry = task(
            &format!("c{number}"),
            "POST /carry",
            json!({"body": [format!("${{all{number}}}"), format!("${{header{number}}}")]}),
            json!({}),
        );
        steps.push(with(carry, json!({"on_error": "continue"})));
    }
    Value::Array(steps)
}

/// The bytes of an answer, headers included.
async fn get(app: &App, path: &str) -> Vec<u8> {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let router = app.router().merge(app.probes());
    let response = router.oneshot(request).await.unwrap();
    let headers = format!("{:?}", response.headers());
    let body = axum::body::to_bytes(response.into_body(), 64 << 20).await.unwrap();
    [headers.as_bytes(), &body].concat()
}

#[tokio::test]
async fn no_surface_tells_a_credential() {
    log();
    let paths = [
        "echo", "fail", "page", "down", "flaky", "away", "abroad", "cut", "wide", "broken",
        "twice", "packed",
    ];
    let (world, service) = world(&paths).await;
    let app = world.open().await;
    plant(&app).await;

    let mut succeeded = 0;
    for path in paths {
        let plan = call(&app, Method::POST, "/v1/plans", &[], json!({"name": name(path)})).await;
        search("a plan", plan.body.to_string().as_bytes());
        let ended = run(&app, &name(path), json!({})).await;
        succeeded += usize::from(ended.status == RunStatus::Succeeded);
        search("a run that was waited for", json!(ended).to_string().as_bytes());
        search_run(&app, &world, ended.id).await;
    }
    assert!(succeeded >= 6, "{succeeded} of the runs succeeded");
    for path in ["/v1/executions", "/v1/secrets", "/v1/hosts", "/healthz", "/readyz"] {
        search(path, &get(&app, path).await);
    }
    let wrong = json!({"kind": "api_key", "value": [KEY], "x": BEARER, "password": PASSWORD});
    let answer = call(&app, Method::PUT, "/v1/secrets/api.example/key", &[], wrong).await;
    search("a problem", answer.body.to_string().as_bytes());

    // The services did get them, so that there was something to be kept; what was carried from one
    // answer to the next request had none.
    let heard = service.heard.lock().unwrap().clone();
    for canary in [COOKIE_KEY, BEARER, ACCESS, REFRESH, DIGITS] {
        let text = serde_json::to_string(canary).unwrap();
        let sent = heard.windows(text.len() - 2).any(|w| w == &text.as_bytes()[1..text.len() - 1]);
        let form = canary.replace('/', "%2F").replace('+', "%2B");
        let sent = sent || heard.windows(form.len()).any(|w| w == form.as_bytes());
        assert!(sent, "{canary} was not sent");
    }
    let carried = service.carried.lock().unwrap().clone();
    assert!(carried.len() > 10_000, "nothing was carried");
    search("the next request", &carried);
    search_rest(app, &world).await;
}

/// What a guardian makes of the first step of each capability, and of what is carried on.
fn interfere(question: &Value) -> Value {
    let context = &question["params"]["context"];
    let capability = context["capability"]["name"].as_str().unwrap_or_default();
    let is_request = question["method"] == "steps/toolCallRequest";
    let step = context["stepId"].as_str().unwrap_or_default();
    let mut modified = question.clone();
    match (capability, step, is_request) {
        ("Refused", "s1", true) | ("Unused", "s1", false) => return deny(),
        ("Garbled", "s1", _) => return json!({"decision": "perhaps"}),
        ("Changed", "c0", true) => {
            modified["params"]["toolCallRequest"]["inputs"][0]["value"][1] = json!("another");
        }
        ("Changed", "s0", false) => {
            let text = &mut modified["params"]["toolCallResult"]["result"]["outputs"][0]["text"];
            let mut value: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
            value["list"] = json!("gone");
            *text = json!(value.to_string());
        }
        _ => return allow(),
    }
    json!({"decision": "modify", "message": "so", "modifiedRequest": modified})
}

#[tokio::test]
async fn no_surface_tells_a_credential_when_somebody_steps_in() {
    log();
    let paths = ["refused", "unused", "garbled", "changed", "hold", "silent"];
    let (mut world, service) = world(&paths).await;
    world.guardian.decide(interfere);
    let app = world.open().await;
    plant(&app).await;
    for (path, status, changes) in [
        ("refused", RunStatus::Denied, 0),
        ("unused", RunStatus::Denied, 0),
        ("garbled", RunStatus::Denied, 0),
        ("changed", RunStatus::Succeeded, 2),
    ] {
        let ended = run(&app, &name(path), json!({})).await;
        assert_eq!(ended.status, status, "{path}: {:?}", ended.error);
        let decisions = ended.steps.iter().flat_map(|step| &step.decisions);
        assert_eq!(decisions.map(|decision| decision.changes.len()).sum::<usize>(), changes);
        search("a run that was waited for", json!(ended).to_string().as_bytes());
        search_run(&app, &world, ended.id).await;
    }
    let id = start(&app, "Hold", json!({})).await;
    wait_for(&app, id, |event| matches!(event, EventKind::Sending { .. })).await;
    service.arrived.notified().await;
    cancel(&app, id).await;
    let last = events(&app, id).await.pop().unwrap();
    assert!(matches!(last.kind, EventKind::RunFinished { status: RunStatus::Cancelled, .. }));
    search_run(&app, &world, id).await;
    app.shutdown(std::time::Duration::from_secs(5)).await;

    // Away, once with either choice.
    for (fail, status) in
        [(FailMode::Closed, RunStatus::Denied), (FailMode::Open, RunStatus::Succeeded)]
    {
        let guardian = world.guarded_by();
        (guardian.endpoint, guardian.fail) = (World::silent(), fail.into());
        let app = world.open().await;
        let ended = run(&app, "Silent", json!({})).await;
        assert_eq!(ended.status, status, "{:?}", ended.error);
        search("a run that was waited for", json!(ended).to_string().as_bytes());
        search_run(&app, &world, ended.id).await;
        app.shutdown(std::time::Duration::from_secs(5)).await;
    }
    let heard = service.heard.lock().unwrap().clone();
    assert!(heard.windows(12).any(|window| window == b"CanaryCookie"), "nothing was sent");
    search("the next request", &service.carried.lock().unwrap().clone());
    search_rest(world.open().await, &world).await;
}
