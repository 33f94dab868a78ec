//! Credentials: chosen, put where the document says, fetched, renewed, and refused.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2s::Domain;
use a2s::api::{EventKind, RunStatus};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::world::{
    World, assert_succeeded, call, events, output, run, sequence, serve, task, transcript,
};
use crate::App;

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
            return (StatusCode::from_u16(status).unwrap(), axum::Json(answer)).into_response();
        }
        let number = bouncer.tokens.fetch_add(1, Ordering::SeqCst) + 1;
        let token = json!({"access_token": format!("token-{number}"), "token_type": "Bearer", "expires_in": 600});
        return axum::Json(token).into_response();
    }
    if let Some(number) = authorization.strip_prefix("Bearer token-")
        && number.parse::<usize>().unwrap() < bouncer.refuses_below.load(Ordering::SeqCst)
    {
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")]).into_response();
    }
    axum::Json(json!({"said": authorization, "path": uri.path()})).into_response()
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

async fn start(app: &App, name: &str) -> (u16, String, a2s::api::Problem) {
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
async fn a_run_without_its_credential_is_refused_before_anything_is_sent() {
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
        "step `Wants.second`: there is no credential `my key` for api.example"
    );
    assert_eq!(
        problem.hint.unwrap(),
        "Store it: `a2s secrets set api.example 'my key' --kind bearer`."
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
            "stored": false, "hint": "Store it: `a2s secrets set api.example 'my key' --kind bearer`.",
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
    assert_eq!(members, ["host", "scheme", "kind", "set_at"]);
    for (path, body) in [
        ("/v1/secrets/api.example/key", json!({"kind": "canary"})),
        ("/v1/secrets/api.example/key", json!({"kind": "api_key", "value": "canary", "canary": 1})),
        (
            "/v1/secrets/api.example/key",
            json!({"kind": "basic", "user": "canary", "password": ["canary"]}),
        ),
        ("/v1/secrets/api.example/key", json!("canary")),
        ("/v1/secrets/10.0.0.1/key", key()),
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
async fn a_token_that_was_taken_back_is_replaced_once_where_repeating_is_safe() {
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
async fn a_document_cannot_send_a_client_secret_where_nobody_meant_it_to_go() {
    let (world, bouncer) = world().await;
    let hostile = flow_step("get", "GET /a", "https://evil.example/token");
    let document = json!({"domains": ["api.example", "evil.example"], "execution": sequence(json!([hostile.clone()]))});
    world.registry.publish("Hostile", "1.0.0", &document);
    world.registry.publish("Careless", "1.0.0", &json!({"execution": sequence(json!([hostile]))}));
    let app = world.open().await;
    set(&app, "api.example", "flow", client()).await;
    for (name, says) in
        [("Hostile", "not stored for that host"), ("Careless", "`domains` do not name")]
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
async fn a_refresh_token_that_the_server_changes_is_the_one_that_is_used_next() {
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

#[tokio::test]
async fn a_refusal_of_the_authorization_server_is_told_without_what_it_was_sent() {
    let (world, bouncer) = world().await;
    publish_flow(&world, "Get", flow_step("get", "GET /a", "https://login.example/token"));
    let app = world.open().await;
    set(&app, "api.example", "flow", client()).await;
    let refusal = json!({"error": "invalid_client", "error_description": "s canary is wrong"});
    bouncer.answers.lock().unwrap().push_back((401, refusal));
    let error = run(&app, "Get", json!({})).await.error.unwrap();
    assert_eq!(error.code, "A2S382");
    assert_eq!(
        error.message,
        "the token for `flow`: login.example gave none: it answered with status 401 and says `invalid_client`"
    );
    assert_eq!(bouncer.count("GET /a"), 0);
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
