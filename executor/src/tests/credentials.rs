//! Credentials: chosen, put where the document says, fetched, renewed, and refused.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2s::{Domain, Secret};
use a2s_api::TokenScope;
use a2s_api::{EventKind, NextAction, Run, RunStatus};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::world::{
    NamedTokens, World, assert_succeeded, call, events, output, run, sequence, serve, task,
    transcript, wait_for,
};
use crate::App;

mod granting;

/// A service that lets in who has what it wants, and gives tokens.
#[derive(Default)]
pub(super) struct Bouncer {
    /// `METHOD address` and headers and body of each request, as text.
    heard: Mutex<Vec<String>>,
    /// How many tokens were given.
    tokens: AtomicUsize,
    /// Tokens below this number are refused.
    refuses_below: AtomicUsize,
    /// What the token endpoint answers next, instead of a token.
    answers: Mutex<VecDeque<(u16, Value)>>,
    /// The only refresh token that is good, once there is one; each is good for one use.
    refresh: Mutex<Option<usize>>,
    /// Lets answers to `/held` go, which are failures.
    release: Notify,
}

impl Bouncer {
    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    fn count(&self, beginning: &str) -> usize {
        self.heard().iter().filter(|heard| heard.starts_with(beginning)).count()
    }
}

async fn bounce(
    State(bouncer): State<Arc<Bouncer>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (authorization, cookie) = (text("authorization"), text("cookie"));
    let (key, body) = (text("x-key"), String::from_utf8_lossy(&body).into_owned());
    let heard = format!("{method} {uri} | {authorization} | {cookie} | {key} | {body}");
    bouncer.heard.lock().unwrap().push(heard);
    if uri.path() == "/token" {
        if let Some((status, answer)) = bouncer.answers.lock().unwrap().pop_front() {
            let header = match status {
                302 => (header::LOCATION, "/stolen"),
                429 => (header::RETRY_AFTER, "7"),
                _ => (header::CACHE_CONTROL, "no-store"),
            };
            let status = StatusCode::from_u16(status).unwrap();
            return (status, [header], axum::Json(answer)).into_response();
        }
        let number = bouncer.tokens.fetch_add(1, Ordering::SeqCst) + 1;
        let mut token = json!({"access_token": format!("token-{number}"), "token_type": "Bearer", "expires_in": 600});
        if let Some(good) = &mut *bouncer.refresh.lock().unwrap() {
            if !heard_ends_with(&bouncer, &format!("refresh_token=refresh-{good}")) {
                let refusal = axum::Json(json!({"error": "invalid_grant"}));
                return (StatusCode::BAD_REQUEST, refusal).into_response();
            }
            *good += 1;
            token["refresh_token"] = json!(format!("refresh-{good}"));
        }
        return axum::Json(token).into_response();
    }
    if uri.path() == "/away" {
        let elsewhere = [(header::LOCATION, "https://evil.example/stolen")];
        return (StatusCode::FOUND, elsewhere).into_response();
    }
    if uri.path() == "/held" {
        bouncer.release.notified().await;
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    if let Some(number) = authorization.strip_prefix("Bearer token-")
        && number.parse::<usize>().unwrap() < bouncer.refuses_below.load(Ordering::SeqCst)
    {
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")]).into_response();
    }
    axum::Json(json!({"said": authorization, "path": uri.path()})).into_response()
}

fn heard_ends_with(bouncer: &Bouncer, end: &str) -> bool {
    bouncer.heard.lock().unwrap().iter().any(|heard| heard.ends_with(end))
}

/// A world whose services are a bouncer.
async fn world() -> (World, Arc<Bouncer>) {
    let mut world = World::new().await;
    let bouncer = Arc::new(Bouncer::default());
    let address = serve(Router::new().fallback(bounce).with_state(Arc::clone(&bouncer))).await;
    for host in ["api.example", "login.example", "evil.example"] {
        let url = format!("http://{address}/").parse().unwrap();
        world.config.upstreams.insert(Domain::new(host).unwrap(), url);
    }
    (world, bouncer)
}

/// A task step that wants to be let in.
pub(super) fn guarded(id: &str, call: &str, security: Value, schemes: Value) -> Value {
    let mut step = task(id, call, json!({}), json!({}));
    step["task"]["security"] = security;
    step["task"]["components"] = json!({"securitySchemes": schemes});
    step
}

fn client_flow(url: &str) -> Value {
    json!({"flow": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": url, "scopes": {"read": "Read"}}}}})
}

pub(super) async fn set(app: &App, host: &str, scheme: &str, credential: Value) {
    let path = format!("/v1/secrets/{host}/{scheme}");
    let answer = call(app, Method::PUT, &path, &[], credential).await;
    assert!(answer.status.is_success(), "{} {}", answer.status, answer.body);
    assert!(!answer.body.to_string().contains("canary"));
}

async fn start(app: &App, name: &str) -> (u16, String, a2s_api::Problem) {
    let body = json!({"name": name, "wait": true});
    call(app, Method::POST, "/v1/executions", &[], body).await.problem()
}

#[tokio::test]
async fn each_credential_goes_where_its_scheme_says() {
    let (world, bouncer) = world().await;
    let steps = json!([
        guarded(
            "header",
            "GET /header",
            json!([{"k": []}]),
            json!({"k": {"type": "apiKey", "in": "header", "name": "X-Key"}})
        ),
        guarded(
            "query",
            "GET /query",
            json!([{"k": []}]),
            json!({"k": {"type": "apiKey", "in": "query", "name": "key"}})
        ),
        guarded(
            "cookie",
            "GET /cookie",
            json!([{"c": []}]),
            json!({"c": {"type": "apiKey", "in": "cookie", "name": "sid"}})
        ),
        guarded(
            "basic",
            "GET /basic",
            json!([{"b": []}]),
            json!({"b": {"type": "http", "scheme": "Basic"}})
        ),
        guarded(
            "bearer",
            "GET /bearer",
            json!([{"none": []}, {"t": [], "k": []}]),
            json!({
                "t": {"type": "http", "scheme": "bearer"}, "k": {"type": "apiKey", "in": "header", "name": "X-Key"},
                "none": {"type": "http", "scheme": "basic"},
            })
        ),
        guarded(
            "open",
            "GET /open",
            json!([{"none": []}, {}]),
            json!({"none": {"type": "http", "scheme": "basic"}})
        ),
    ]);
    world.registry.publish("All", "1.0.0", &json!({"execution": sequence(steps)}));
    let app = world.open().await;
    set(&app, "api.example", "k", json!({"kind": "api_key", "value": "k/1 canary"})).await;
    set(&app, "api.example", "c", json!({"kind": "api_key", "value": "c-canary"})).await;
    set(&app, "api.example", "b", json!({"kind": "basic", "user": "me", "password": "p canary"}))
        .await;
    set(&app, "api.example", "t", json!({"kind": "bearer", "token": "t-canary"})).await;
    let ended = run(&app, "All", json!({})).await;
    assert_succeeded(&ended);
    assert_eq!(
        bouncer.heard(),
        [
            "GET /header |  |  | k/1 canary | ",
            "GET /query?key=k%2F1%20canary |  |  |  | ",
            "GET /cookie |  | sid=c-canary |  | ",
            "GET /basic | Basic bWU6cCBjYW5hcnk= |  |  | ",
            "GET /bearer | Bearer t-canary |  | k/1 canary | ",
            "GET /open |  |  |  | ",
        ]
    );
    let told = events(&app, ended.id).await;
    let told = format!("{} {}", json!(told), json!(world.guardian.asked()));
    assert!(!told.contains("canary") && !told.contains("bWU6c"), "{told}");
}

#[tokio::test]
async fn missing_credential_refuses_the_run_before_sending() {
    let (world, bouncer) = world().await;
    let first = task("first", "POST /first", json!({}), json!({}));
    let second = guarded(
        "second",
        "GET /second",
        json!([{"my key": []}]),
        json!({"my key": {"type": "http", "scheme": "bearer"}}),
    );
    let document = json!({"execution": sequence(json!([first, second]))});
    world.registry.publish("Wants", "1.0.0", &document);
    let app = world.open().await;
    let (status, code, problem) = start(&app, "Wants").await;
    assert_eq!((status, code.as_str()), (422, "A2S380"));
    assert_eq!(
        problem.detail,
        "step `Wants.second`: the credential `my key` for api.example is missing"
    );
    assert_eq!(
        problem.hint.unwrap(),
        "Store the credential: `a2s secrets set api.example 'my key' --kind bearer`."
    );
    assert!(bouncer.heard().is_empty() && world.guardian.asked().is_empty());
    let plan = async || {
        let plan = call(&app, Method::POST, "/v1/plans", &[], json!({"name": "Wants"})).await;
        plan.body["credentials"][0].clone()
    };
    let planned = plan().await;
    assert_eq!(
        planned,
        json!({
            "host": "api.example", "scheme": "my key", "kind": "bearer", "steps": ["Wants.second"],
            "stored": false, "hint": "Store the credential: `a2s secrets set api.example 'my key' --kind bearer`.",
        })
    );
    // One for another host, or of another kind, does not do.
    set(&app, "other.example", "my%20key", json!({"kind": "bearer", "token": "canary"})).await;
    set(&app, "api.example", "my%20key", json!({"kind": "api_key", "value": "canary"})).await;
    assert_eq!(start(&app, "Wants").await.1, "A2S380");
    set(&app, "api.example", "my%20key", json!({"kind": "bearer", "token": "canary"})).await;
    assert_eq!(plan().await["stored"], true);
    assert_succeeded(&run(&app, "Wants", json!({})).await);
}

#[tokio::test]
async fn secrets_are_set_listed_and_removed_and_never_told() {
    let (world, _) = world().await;
    let app = world.open().await;
    let put = async |path: &str, body: Value| call(&app, Method::PUT, path, &[], body).await;
    let key = || json!({"kind": "api_key", "value": "canary"});
    assert_eq!(put("/v1/secrets/API.example/key", key()).await.status, 201);
    assert_eq!(put("/v1/secrets/api.example/key", key()).await.status, 200);
    let list = call(&app, Method::GET, "/v1/secrets", &[], Value::Null).await.body;
    assert_eq!(list["secrets"].as_array().unwrap().len(), 1);
    let members: Vec<_> = list["secrets"][0].as_object().unwrap().keys().cloned().collect();
    assert_eq!(members, ["host", "scheme", "kind", "set_at", "users"]);
    for (path, body) in [
        ("/v1/secrets/api.example/key", json!({"kind": "canary"})),
        ("/v1/secrets/api.example/key", json!({"kind": "api_key", "value": "canary", "canary": 1})),
        (
            "/v1/secrets/api.example/key",
            json!({"kind": "basic", "user": "canary", "password": ["canary"]}),
        ),
        ("/v1/secrets/api.example/key", json!("canary")),
        ("/v1/secrets/10.0.0.01/key", key()),
        ("/v1/secrets/api.example/-key", key()),
    ] {
        let (status, code, problem) = put(path, body).await.problem();
        assert_eq!((status, code.as_str()), (400, "A2S300"), "{path}");
        assert!(!json!(problem).to_string().contains("canary"), "{problem:?}");
    }
    let remove =
        async || call(&app, Method::DELETE, "/v1/secrets/api.example/key", &[], Value::Null).await;
    assert_eq!(remove().await.status, 204);
    assert_eq!(remove().await.problem().1, "A2S384");
}

fn flow_step(id: &str, call: &str, url: &str) -> Value {
    guarded(id, call, json!([{"flow": ["read"]}]), client_flow(url))
}

fn client() -> Value {
    json!({"kind": "oauth2", "client_id": "me", "client_secret": "s canary", "token_hosts": ["login.example"]})
}

fn publish_flow(world: &World, name: &str, step: Value) {
    let document =
        json!({"domains": ["api.example", "login.example"], "execution": sequence(json!([step]))});
    world.registry.publish(name, "1.0.0", &document);
}

#[tokio::test]
async fn a_token_is_fetched_once_kept_and_renewed_before_its_end() {
    let (world, bouncer) = world().await;
    let many: Vec<_> = (0..8)
        .map(|n| flow_step(&format!("s{n}"), "GET /a", "https://login.example/token"))
        .collect();
    world.registry.publish(
        "Many",
        "1.0.0",
        &json!({
            "domains": ["api.example", "login.example"],
            "execution": {"type": "parallel", "steps": many},
        }),
    );
    let app = world.open().await;
    set(&app, "api.example", "flow", client()).await;
    assert_succeeded(&run(&app, "Many", json!({})).await);
    assert_eq!(bouncer.count("POST /token"), 1, "{:#?}", bouncer.heard());
    // `me` and `s canary`, encoded as in a form first (RFC 6749, section 2.3.1).
    let asked =
        "POST /token | Basic bWU6cytjYW5hcnk= |  |  | grant_type=client_credentials&scope=read";
    assert!(bouncer.heard().contains(&asked.to_owned()), "{:#?}", bouncer.heard());
    assert_eq!(bouncer.count("GET /a | Bearer token-1"), 8);
    // Of ten minutes of life the last 30 seconds are not used.
    world.pass(Duration::from_secs(560));
    assert_succeeded(&run(&app, "Many", json!({})).await);
    assert_eq!(bouncer.count("POST /token"), 1);
    world.pass(Duration::from_secs(11));
    assert_succeeded(&run(&app, "Many", json!({})).await);
    assert_eq!((bouncer.count("POST /token"), bouncer.count("GET /a | Bearer token-2")), (2, 8));
    // A credential that is set anew gets a token of its own.
    set(&app, "api.example", "flow", client()).await;
    assert_succeeded(&run(&app, "Many", json!({})).await);
    assert_eq!(bouncer.count("POST /token"), 3);
}

#[tokio::test]
async fn revoked_token_is_replaced_once_where_safe() {
    let (world, bouncer) = world().await;
    publish_flow(&world, "Get", flow_step("get", "GET /a", "https://login.example/token"));
    publish_flow(&world, "Post", flow_step("post", "POST /a", "https://login.example/token"));
    let app = world.open().await;
    set(&app, "api.example", "flow", client()).await;
    assert_succeeded(&run(&app, "Get", json!({})).await);
    bouncer.refuses_below.store(2, Ordering::SeqCst);
    let ended = run(&app, "Get", json!({})).await;
    assert_succeeded(&ended);
    let told = transcript(&events(&app, ended.id).await);
    assert!(told.contains(&"get: 1 failed, again".to_owned()), "{told:#?}");
    assert!(told.contains(&"get: 2 got 200".to_owned()), "{told:#?}");
    // What may not be repeated fails, and the next run gets a new token.
    bouncer.refuses_below.store(3, Ordering::SeqCst);
    let ended = run(&app, "Post", json!({})).await;
    assert_eq!(ended.status, RunStatus::Failed);
    assert_eq!(bouncer.count("POST /a"), 1);
    assert_succeeded(&run(&app, "Post", json!({})).await);
    // A service that refuses every token is not asked for ever.
    bouncer.refuses_below.store(1_000, Ordering::SeqCst);
    let before = bouncer.heard().len();
    assert_eq!(run(&app, "Get", json!({})).await.status, RunStatus::Failed);
    assert_eq!(bouncer.heard().len() - before, 3, "two attempts and one token");
}

#[tokio::test]
async fn document_cannot_redirect_a_client_secret() {
    let (world, bouncer) = world().await;
    let hostile = flow_step("get", "GET /a", "https://evil.example/token");
    let document = json!({"domains": ["api.example", "evil.example"], "execution": sequence(json!([hostile.clone()]))});
    world.registry.publish("Hostile", "1.0.0", &document);
    world.registry.publish("Careless", "1.0.0", &json!({"execution": sequence(json!([hostile]))}));
    let app = world.open().await;
    set(&app, "api.example", "flow", client()).await;
    for (name, says) in
        [("Hostile", "not stored for that host"), ("Careless", "`domains` do not list")]
    {
        let ended = run(&app, name, json!({})).await;
        let error = ended.error.unwrap();
        assert_eq!(error.code, "A2S381");
        assert!(error.message.contains(says) && error.repeat_safe, "{}", error.message);
    }
    assert!(bouncer.heard().is_empty(), "{:?}", bouncer.heard());
    // Unless somebody says so, tokens come from the host of the API.
    let mut own = client();
    own["token_hosts"] = json!([]);
    set(&app, "api.example", "flow", own).await;
    publish_flow(&world, "Own", flow_step("get", "GET /a", "/token"));
    publish_flow(&world, "Other", flow_step("get", "GET /a", "https://login.example/token"));
    assert_succeeded(&run(&app, "Own", json!({})).await);
    assert_eq!(run(&app, "Other", json!({})).await.error.unwrap().code, "A2S381");
}

#[tokio::test]
async fn rotated_refresh_token_is_used_next() {
    let (world, bouncer) = world().await;
    let flows = json!({"flow": {"type": "oauth2", "flows": {"authorizationCode": {
        "authorizationUrl": "https://login.example/ask", "tokenUrl": "https://login.example/token", "scopes": {},
    }}}});
    publish_flow(&world, "Get", guarded("get", "GET /a", json!([{"flow": []}]), flows));
    let app = world.open().await;
    set(&app, "api.example", "flow", json!({
        "kind": "oauth2", "client_id": "me", "client_secret": "secret", "refresh_token": "refresh-1",
        "token_hosts": ["login.example"], "client_authentication": "body",
    })).await;
    let grant = |token: &str, refresh: &str| {
        (200, json!({"access_token": token, "expires_in": 60, "refresh_token": refresh}))
    };
    bouncer
        .answers
        .lock()
        .unwrap()
        .extend([grant("token-1", "refresh-2"), grant("token-2", "refresh-3")]);
    assert_succeeded(&run(&app, "Get", json!({})).await);
    app.shutdown(Duration::from_secs(5)).await;
    let app = world.open().await;
    assert_succeeded(&run(&app, "Get", json!({})).await);
    let asked = |refresh: &str| {
        format!(
            "POST /token |  |  |  | grant_type=refresh_token&client_id=me&client_secret=secret&refresh_token={refresh}"
        )
    };
    assert_eq!(bouncer.count(&asked("refresh-1")), 1, "{:#?}", bouncer.heard());
    assert_eq!(bouncer.count(&asked("refresh-2")), 1, "{:#?}", bouncer.heard());
}

/// The record of the first request for a token, before it leaves.
const ASKS: &str = "get: 1 POST https://login.example/token for a token";

/// What is told of tokens in the events of a run.
async fn told_of_tokens(app: &App, run: &Run) -> Vec<String> {
    let mut told = transcript(&events(app, run.id).await);
    told.retain(|line| line.contains("login.example") || line.contains("again"));
    told
}

#[tokio::test]
async fn authorization_error_is_reported_without_secrets() {
    let (world, bouncer) = world().await;
    publish_flow(&world, "Get", flow_step("get", "GET /a", "https://login.example/token"));
    let flows = json!({"flow": {"type": "oauth2", "flows": {"authorizationCode": {
        "authorizationUrl": "https://login.example/ask", "tokenUrl": "https://login.example/token", "scopes": {},
    }}}});
    publish_flow(&world, "Renew", guarded("get", "GET /a", json!([{"flow": []}]), flows));
    let app = world.open().await;
    let mut refreshing = client();
    refreshing["refresh_token"] = json!("r canary");
    for (name, credential, status, said, says, options, advice) in [
        (
            "Get",
            client(),
            401,
            "invalid_client",
            " and `invalid_client`",
            "",
            "Store the credential again",
        ),
        ("Get", client(), 401, "s canary", "", "", "Store the credential again"),
        (
            "Renew",
            refreshing,
            400,
            "invalid_grant",
            " and `invalid_grant`",
            " --refresh-token",
            "Get a new refresh token, and store it",
        ),
    ] {
        set(&app, "api.example", "flow", credential).await;
        let refusal = json!({"error": said, "error_description": "s canary is wrong"});
        bouncer.answers.lock().unwrap().push_back((status, refusal));
        let ended = run(&app, name, json!({})).await;
        let told = told_of_tokens(&app, &ended).await;
        let expected = [ASKS, "get: 1 gets flow from login.example, A2S382"];
        assert_eq!(told, expected);
        let error = ended.error.unwrap();
        assert_eq!((error.code.as_str(), error.next), ("A2S382", Some(NextAction::AskOperator)));
        let message = format!(
            "login.example rejected the credential `flow` of api.example with the status {status}{says}"
        );
        assert_eq!(error.message, message);
        let command = "a2s secrets set api.example flow --kind oauth2 --client-id ID --token-host login.example";
        assert_eq!(error.hint, format!("{advice}: `{command}{options}`."));
    }
    assert_eq!((bouncer.count("GET /a"), bouncer.count("POST /token")), (0, 3));
}

#[tokio::test]
async fn each_token_that_is_asked_for_is_an_event() {
    let (world, bouncer) = world().await;
    publish_flow(&world, "Get", flow_step("get", "GET /a", "https://login.example/token"));
    let app = world.open().await;
    set(&app, "api.example", "flow", client()).await;
    let told = async || told_of_tokens(&app, &run(&app, "Get", json!({})).await).await;
    assert_eq!(told().await, [ASKS, "get: 1 gets flow from login.example"]);
    assert_eq!(told().await, [""; 0], "it is kept");
    world.pass(Duration::from_secs(600));
    assert_eq!(told().await, [ASKS, "get: 1 renews flow from login.example"]);
    bouncer.refuses_below.store(3, Ordering::SeqCst);
    let asks_again = "get: 2 POST https://login.example/token for a token";
    let expected = ["get: 1 failed, again", asks_again, "get: 2 renews flow from login.example"];
    assert_eq!(told().await, expected);
    let all = json!(events(&app, run(&app, "Get", json!({})).await.id).await).to_string();
    assert!(!all.contains("token-"), "{all}");
}

#[tokio::test]
async fn an_authorization_server_that_is_busy_or_away_is_asked_again() {
    let (mut world, bouncer) = world().await;
    // What may be sent once alone has not been sent when there is no token for it.
    publish_flow(&world, "Post", flow_step("post", "POST /a", "https://login.example/token"));
    let away = json!({"domains": ["api.example", "away.example"], "execution": sequence(json!([
        flow_step("post", "POST /a", "https://away.example/token"),
    ]))});
    world.registry.publish("Gone", "1.0.0", &away);
    world.config.upstreams.insert(Domain::new("away.example").unwrap(), World::nowhere());
    let app = world.open().await;
    let mut both = client();
    both["token_hosts"] = json!(["login.example", "away.example"]);
    set(&app, "api.example", "flow", both).await;
    let busy = (503, json!({"error": "invalid_client"}));
    bouncer.answers.lock().unwrap().extend([busy.clone(), (500, json!("s canary"))]);
    let ended = run(&app, "Post", json!({})).await;
    assert_succeeded(&ended);
    assert_eq!(
        told_of_tokens(&app, &ended).await,
        [
            "post: 1 POST https://login.example/token for a token",
            "post: 1 gets flow from login.example, A2S385",
            "post: 1 failed, again",
            "post: 2 POST https://login.example/token for a token",
            "post: 2 gets flow from login.example, A2S385",
            "post: 2 failed, again",
            "post: 3 POST https://login.example/token for a token",
            "post: 3 gets flow from login.example",
        ]
    );
    assert_eq!((bouncer.count("POST /token"), bouncer.count("POST /a")), (3, 1));
    // Not more often than any request, and no sooner than it asks: seven seconds are too long here.
    world.pass(Duration::from_secs(600));
    bouncer.answers.lock().unwrap().extend([busy.clone(), busy.clone(), busy]);
    let error = run(&app, "Post", json!({})).await.error.unwrap();
    assert_eq!((error.code.as_str(), error.attempt), ("A2S385", Some(3)));
    assert_eq!(error.next, Some(NextAction::Repeat));
    bouncer.answers.lock().unwrap().push_back((429, Value::Null));
    let error = run(&app, "Post", json!({})).await.error.unwrap();
    assert_eq!((error.code.as_str(), error.attempt), ("A2S385", Some(1)));
    assert_eq!((bouncer.count("POST /token"), bouncer.count("POST /a")), (7, 1));
    let error = run(&app, "Gone", json!({})).await.error.unwrap();
    assert_eq!((error.code.as_str(), error.attempt), ("A2S351", Some(3)));
    assert!(error.message.starts_with("the token for `flow`: no connection to away.example"));
}

#[tokio::test]
async fn hostile_authorization_server_gains_nothing() {
    let (world, bouncer) = world().await;
    publish_flow(&world, "Get", flow_step("get", "GET /a", "https://login.example/token"));
    let app = world.open().await;
    set(&app, "api.example", "flow", client()).await;
    for (answer, code) in [
        ((302, Value::Null), "A2S356"),
        ((200, json!("<p>s canary</p>")), "A2S382"),
        ((200, json!({"access_token": "s\r\nX-Evil: canary"})), "A2S382"),
        ((200, json!({"access_token": "canary", "token_type": "mac"})), "A2S382"),
        ((200, json!({"access_token": "canary", "padding": "x".repeat(9 << 20)})), "A2S355"),
    ] {
        bouncer.answers.lock().unwrap().push_back(answer);
        let error = run(&app, "Get", json!({})).await.error.unwrap();
        assert_eq!(error.code, code, "{}", error.message);
        assert!(!error.message.contains("canary"), "{}", error.message);
    }
    assert!(
        !bouncer.heard().iter().any(|heard| heard.contains("/stolen")),
        "{:?}",
        bouncer.heard()
    );
    // A token without life is used once; one whose life is not told is not kept for ever.
    let spent = |life: Value| json!({"access_token": "token-0", "expires_in": life});
    let lives = [json!(0), json!(-1), json!("0"), json!(1e-300), Value::Null];
    bouncer.answers.lock().unwrap().extend(lives.map(|life| (200, spent(life))));
    let before = bouncer.count("POST /token");
    for _ in 0..6 {
        assert_succeeded(&run(&app, "Get", json!({})).await);
    }
    assert_eq!(bouncer.count("POST /token") - before, 5);
    world.pass(Duration::from_secs(3_600));
    assert_succeeded(&run(&app, "Get", json!({})).await);
    assert_eq!(bouncer.count("POST /token") - before, 6);
}

#[tokio::test]
async fn a_refresh_token_that_is_good_for_one_use_is_used_once() {
    let (world, bouncer) = world().await;
    let flows = || {
        json!({"flow": {"type": "oauth2", "flows": {"authorizationCode": {
            "authorizationUrl": "https://login.example/ask", "tokenUrl": "https://login.example/token",
            "scopes": {"a": "", "b": "", "c": ""},
        }}}})
    };
    // Each of them needs a token of its own.
    let steps: Vec<_> = ["a", "b", "c"]
        .map(|scope| guarded(scope, "GET /a", json!([{"flow": [scope]}]), flows()))
        .into();
    world.registry.publish(
        "Scopes",
        "1.0.0",
        &json!({
            "domains": ["api.example", "login.example"],
            "execution": {"type": "parallel", "steps": steps},
        }),
    );
    let app = world.open().await;
    let mut refreshing = client();
    refreshing["refresh_token"] = json!("refresh-1");
    set(&app, "api.example", "flow", refreshing).await;
    *bouncer.refresh.lock().unwrap() = Some(1);
    assert_succeeded(&run(&app, "Scopes", json!({})).await);
    assert_eq!(*bouncer.refresh.lock().unwrap(), Some(4));
}

#[tokio::test]
async fn a_credential_that_is_removed_is_not_sent_again() {
    let (world, bouncer) = world().await;
    let step = guarded(
        "get",
        "GET /held",
        json!([{"t": []}]),
        json!({"t": {"type": "http", "scheme": "bearer"}}),
    );
    world.registry.publish("Held", "1.0.0", &json!({"execution": sequence(json!([step]))}));
    let app = world.open().await;
    set(&app, "api.example", "t", json!({"kind": "bearer", "token": "canary"})).await;
    let id = super::world::start(&app, "Held", json!({})).await;
    wait_for(&app, id, |event| matches!(event, EventKind::Sending { .. })).await;
    call(&app, Method::DELETE, "/v1/secrets/api.example/t", &[], Value::Null).await;
    bouncer.release.notify_one();
    let last = events(&app, id).await.pop().unwrap();
    let EventKind::RunFinished { error: Some(error), .. } = last.kind else { panic!("{last:?}") };
    assert_eq!((error.code.as_str(), error.attempt), ("A2S380", Some(2)));
    assert_eq!(bouncer.count("GET /held"), 1);
}

#[tokio::test]
async fn key_is_sent_only_at_its_stored_location() {
    let (world, bouncer) = world().await;
    let publish = |name: &str, place: &str, parameter: &str| {
        let key = json!({"type": "apiKey", "in": place, "name": parameter});
        let step = guarded("get", "GET /a", json!([{"k": []}]), json!({"k": key}));
        world.registry.publish(name, "1.0.0", &json!({"execution": sequence(json!([step]))}));
    };
    publish("Good", "header", "x-key");
    // What a service shows to everybody is no place for a key.
    publish("Public", "query", "status");
    publish("Other", "header", "X-Comment");
    let app = world.open().await;
    let (_, _, problem) = start(&app, "Public").await;
    let command = "a2s secrets set api.example k --kind api-key --in query:status";
    assert_eq!(problem.hint.unwrap(), format!("Store the credential: `{command}`."));
    let key = json!({"kind": "api_key", "value": "canary", "place": "header:X-Key"});
    set(&app, "api.example", "k", key).await;
    assert_succeeded(&run(&app, "Good", json!({})).await);
    for name in ["Public", "Other"] {
        let error = run(&app, name, json!({})).await.error.unwrap();
        assert_eq!(error.code, "A2S381");
        assert!(error.message.contains("was stored for `header:X-Key`"), "{}", error.message);
    }
    assert_eq!(bouncer.heard(), ["GET /a |  |  | canary | "]);
}

#[tokio::test]
async fn two_keys_do_not_share_a_place() {
    let (world, bouncer) = world().await;
    for place in ["query", "cookie", "header"] {
        let key = json!({"type": "apiKey", "in": place, "name": "X-Key"});
        let schemes = json!({"k": key.clone(), "l": key});
        let step = guarded("get", "GET /a", json!([{"k": [], "l": []}]), schemes);
        let name = format!("Two{}", &place[..1].to_uppercase());
        world.registry.publish(&name, "1.0.0", &json!({"execution": sequence(json!([step]))}));
    }
    let app = world.open().await;
    for scheme in ["k", "l"] {
        set(&app, "api.example", scheme, json!({"kind": "api_key", "value": "canary"})).await;
    }
    for name in ["TwoQ", "TwoC", "TwoH"] {
        let error = run(&app, name, json!({})).await.error.unwrap();
        assert_eq!(error.code, "A2S381");
        assert!(error.message.contains("two credentials use the"), "{}", error.message);
    }
    assert!(bouncer.heard().is_empty(), "{:?}", bouncer.heard());
}

#[tokio::test]
async fn a_credential_that_a_service_answers_is_no_data() {
    let (world, _) = world().await;
    let mut step = guarded(
        "get",
        "GET /a",
        json!([{"t": []}]),
        json!({"t": {"type": "http", "scheme": "bearer"}}),
    );
    step["output_mapping"] = json!({"said": "$.said"});
    world.registry.publish("Echo", "1.0.0", &json!({"execution": sequence(json!([step]))}));
    let app = world.open().await;
    set(&app, "api.example", "t", json!({"kind": "bearer", "token": "canary"})).await;
    let ended = run(&app, "Echo", json!({})).await;
    assert_eq!(output(&ended)["said"], "Bearer (secret)");
    let told = events(&app, ended.id).await;
    assert!(matches!(told.last().unwrap().kind, EventKind::RunFinished { .. }));
}

#[tokio::test]
async fn a_graphql_task_goes_with_its_credential() {
    let (world, bouncer) = world().await;
    let step = json!({
        "id": "ask", "format": "GraphQL", "output_mapping": {},
        "task": {
            "endpoint": "https://api.example/graphql", "query": "{ a }",
            "security": [{"t": []}],
            "securitySchemes": {"t": {"type": "http", "scheme": "bearer"}},
        },
    });
    world.registry.publish_newer("Ask", &json!({"execution": sequence(json!([step]))}));
    let app = world.open().await;
    assert_eq!(start(&app, "Ask").await.1, "A2S380");
    set(&app, "api.example", "t", json!({"kind": "bearer", "token": "canary"})).await;
    run(&app, "Ask", json!({})).await;
    assert_eq!(bouncer.count("POST /graphql | Bearer canary"), 1, "{:?}", bouncer.heard());
}

#[tokio::test]
async fn a_redirect_to_another_host_carries_no_credential() {
    let (world, bouncer) = world().await;
    let step = guarded(
        "get",
        "GET /away",
        json!([{"t": []}]),
        json!({"t": {"type": "http", "scheme": "bearer"}}),
    );
    let document =
        json!({"domains": ["api.example", "evil.example"], "execution": sequence(json!([step]))});
    world.registry.publish("Away", "1.0.0", &document);
    let app = world.open().await;
    set(&app, "api.example", "t", json!({"kind": "bearer", "token": "canary"})).await;
    let error = run(&app, "Away", json!({})).await.error.unwrap();
    assert_eq!(error.code, "A2S356");
    assert!(error.message.contains("another host, `evil.example`"), "{}", error.message);
    assert_eq!(bouncer.heard(), ["GET /away | Bearer canary |  |  | "]);
}

#[tokio::test]
async fn a_request_for_a_token_is_in_the_journal_before_it_leaves() {
    let (mut world, _) = world().await;
    let arrived = Arc::new(Notify::new());
    let notified = Arc::clone(&arrived);
    // An authorization server that never answers.
    let silent = Router::new().fallback(async move || {
        notified.notify_one();
        std::future::pending::<()>().await;
    });
    let url = format!("http://{}/", serve(silent).await).parse().unwrap();
    world.config.upstreams.insert(Domain::new("login.example").unwrap(), url);
    publish_flow(&world, "Get", flow_step("get", "GET /a", "https://login.example/token"));
    let app = world.open().await;
    set(&app, "api.example", "flow", client()).await;
    let id = super::world::start(&app, "Get", json!({})).await;
    arrived.notified().await;
    app.crash().await;
    let told = world.query("SELECT type FROM event ORDER BY seq").await;
    assert!(told.contains(&"requesting".to_owned()), "{id}: {told:?}");
}
