//! Registry, guardian, executor and agent as on machines of their own: each with a data folder and an owner of its own,
//! set up as docs/operations.md says, with everything between them recorded.

use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::harness::{RUNTIME, Ran, Server, World, a2s_in};
use crate::http;
use crate::mcp::client::Client;

/// A request between two services.
#[derive(Debug, Clone)]
struct Recorded {
    line: String,
    authorization: Option<String>,
    /// Headers and body.
    whole: String,
}

/// A proxy in front of a service that records every request.
#[derive(Clone)]
struct Recorder {
    url: String,
    target: String,
    requests: Arc<Mutex<Vec<Recorded>>>,
    /// How many requests were answered.
    answered: watch::Sender<usize>,
}

impl Recorder {
    fn before(target: &str) -> Self {
        RUNTIME.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let recorder = Self {
                url: format!("http://{}/", listener.local_addr().unwrap()),
                target: target.to_owned(),
                requests: Arc::default(),
                answered: watch::Sender::new(0),
            };
            let router = Router::new().fallback(forward).with_state(recorder.clone());
            tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
            recorder
        })
    }

    fn requests(&self) -> Vec<Recorded> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits until a request with this line was answered.
    fn wait_for(&self, line: &str) {
        let mut answered = self.answered.subscribe();
        let is_there = |_: &usize| self.requests().iter().any(|request| request.line == line);
        RUNTIME.block_on(answered.wait_for(is_there)).unwrap();
    }
}

async fn forward(State(recorder): State<Recorder>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let path = parts.uri.path_and_query().unwrap().as_str().trim_start_matches('/');
    let url = format!("{}{path}", recorder.target);
    let mut headers = parts.headers.clone();
    headers.remove(HOST);
    headers.remove(CONTENT_LENGTH);
    let sent = http::client().request(parts.method.clone(), url).headers(headers);
    let answer = sent.body(body.clone()).send().await.unwrap();
    let mut response = Response::builder().status(answer.status());
    for (name, value) in answer.headers() {
        if ![CONTENT_LENGTH, TRANSFER_ENCODING].contains(name) {
            response = response.header(name, value);
        }
    }
    let response = response.body(Body::from(answer.bytes().await.unwrap())).unwrap();
    let authorization = parts.headers.get(AUTHORIZATION);
    recorder.requests.lock().unwrap().push(Recorded {
        line: format!("{} {}", parts.method, parts.uri.path()),
        authorization: authorization.map(|value| value.to_str().unwrap().to_owned()),
        whole: format!("{:?} {}", parts.headers, String::from_utf8_lossy(&body)),
    });
    recorder.answered.send_modify(|answered| *answered += 1);
    response.into_response()
}

/// Runs the command at a service with a token, as a person of another machine does.
fn a2s_with(token: &str, url: &str, arguments: &[&str]) -> Ran {
    let environment = [("A2S_URL", url), ("A2S_TOKEN", token), ("A2S_DATA_DIR", "/nonexistent")];
    a2s_in(Path::new("."), &environment, arguments)
}

#[test]
fn separate_services_never_share_owner_tokens() {
    let world = World::down(&[]);
    let machine = |name: &str| world.folder().join(name);
    let registry = Server::alone("registry", machine("registry"), &[]);
    let between = Recorder::before(registry.url());
    // The tokens that the registry makes, each in a file.
    let make = |name: &str, scopes: &str| {
        let token = registry.a2s(&["tokens", "create", name, "--scope", scopes]).exits(0).stdout;
        let path = world.write(&format!("{name}.token"), &token);
        (token.trim().to_owned(), path)
    };
    let (executor_token, executor_file) = make("executor-1", "service");
    let (guardian_token, guardian_file) = make("guardian-1", "service");
    let (asking, asking_file) = make("executor-1-asks", "guard");
    let (ann, _) = make("ann", "publish,execute");

    let flags = ["--registry", &*between.url, "--registry-token-file", &guardian_file];
    let guardian = Server::alone("guardian", machine("guardian"), &flags);
    let asked = Recorder::before(guardian.url());
    let config = format!("[[guardian]]\nurl = '{}aos'\ntoken-file = '{asking_file}'\n", asked.url);
    let config = world.write("executor.toml", &config);
    let mut flags = vec!["--config", &config, "--registry", &*between.url];
    flags.extend(["--registry-token-file", &executor_file]);
    flags.extend(world.upstreams());
    let executor = Server::alone("executor", machine("executor"), &flags);
    let owners = ["registry", "guardian", "executor"].map(|name| {
        let token = std::fs::read_to_string(machine(name).join("token")).unwrap();
        token.trim().to_owned()
    });
    assert!(owners[0] != owners[1] && owners[1] != owners[2] && owners[0] != owners[2]);

    // A person of the registry runs a capability, and so does the executor's owner.
    let run = a2s_with(&ann, executor.url(), &["run", "ListDogBreeds", "--json"]).exits(0).one();
    assert_eq!(run["status"], "succeeded", "{run}");
    between.wait_for("POST /v1/outcomes");
    executor.a2s(&["run", "ListDogBreeds"]).exits(0);
    let stats = registry.a2s(&["stats", "ListDogBreeds", "--json"]).exits(0).one();
    assert!(stats["runs"].as_u64().unwrap() >= 1, "{stats}");

    // Whoever owns one service is nobody at the others.
    for owner in [&owners[0], &owners[1]] {
        a2s_with(owner, executor.url(), &["runs"]).exits(1);
    }
    a2s_with(&owners[2], registry.url(), &["tokens", "list"]).exits(1);

    // The registry hears of services by their own tokens, and documents are read without any.
    let requests = between.requests();
    let services = [&executor_token, &guardian_token].map(|token| format!("Bearer {token}"));
    for request in &requests {
        let shown = request.authorization.as_ref();
        match request.line.as_str() {
            "POST /v1/tokens/introspect" => {
                assert!(services.contains(shown.unwrap()), "{request:?}")
            }
            "POST /v1/outcomes" => assert_eq!(shown, Some(&services[0]), "{request:?}"),
            _ => assert_eq!(shown, None, "{request:?}"),
        }
    }
    // The guardian is asked with the token of the scope `guard`, and with no other.
    let questions = asked.requests();
    assert!(questions.iter().filter(|request| request.line == "POST /aos").count() >= 4);
    let shown = format!("Bearer {asking}");
    assert!(questions.iter().all(|request| request.authorization.as_ref() == Some(&shown)));
    // An owner's token crosses from one service to another in no request. One that a caller shows at the
    // wrong service is asked about there, as any token is.
    let crossed = requests.iter().chain(&questions).filter(|request| {
        let is_asked_about = request.line == "POST /v1/tokens/introspect";
        let owners = if is_asked_about { &owners[2..] } else { &owners[..] };
        owners.iter().any(|owner| request.whole.contains(owner.as_str()))
    });
    assert_eq!(crossed.count(), 0);

    // Without a token, with one of another scope and with none of the guardian's, nobody asks it.
    let aos = format!("{}aos", guardian.url());
    let ping = |token: Option<&str>| {
        let shown = token.map(|token| format!("Bearer {token}"));
        let shown = shown.as_ref().map(|shown| ("authorization", shown.as_str()));
        let headers: Vec<_> =
            shown.into_iter().chain([("content-type", "application/json")]).collect();
        let body = r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}"#;
        let (status, answer) = http::send("POST", &aos, &headers, Some(body.to_owned()));
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        (status, answer["code"].as_str().map(str::to_owned))
    };
    assert_eq!(ping(None), (401, Some("A2S301".to_owned())));
    assert_eq!(ping(Some(&owners[2])).0, 401);
    assert_eq!(ping(Some(&ann)), (403, Some("A2S318".to_owned())));
    assert_eq!(ping(Some(&executor_token)).0, 403);
    assert_eq!(ping(Some(&asking)).0, 200);
}

#[test]
fn an_agent_on_its_own_acts_with_the_tokens_of_its_callers() {
    let world = World::up(&[]);
    // One process in three roles: what goes to each is recorded apart.
    let [registry, executor, guardian] = [(); 3].map(|()| Recorder::before(world.url()));
    let make = |name: &str, scopes: &str| {
        let token = world.a2s(&["tokens", "create", name, "--scope", scopes]).exits(0).stdout;
        let path = world.write(&format!("{name}.token"), &token);
        (token.trim().to_owned(), path)
    };
    let (own, own_file) = make("agent-1", "service");
    let (asking, asking_file) = make("agent-1-asks", "guard");
    let (ann, _) = make("ann", "publish,execute");
    let config = format!(
        "[agent]\nexecutor = '{}'\n[[guardian]]\nurl = '{}aos'\ntoken-file = '{asking_file}'\n",
        executor.url, guardian.url
    );
    let config = world.write("agent.toml", &config);
    let data = world.folder().join("agent");
    let flags = ["--config", &config, "--registry", &registry.url];
    let flags = [&flags[..], &["--registry-token-file", &own_file, "--mcp-tool", "read-only"]];
    let agent = Server::alone("agent", data.clone(), &flags.concat());
    assert!(!data.join("token").exists(), "an agent on its own has no owner");
    agent.a2s(&["ready", "--deep"]).exits(0);

    // A conversation, by a token of the registry and by its owner.
    a2s_with(&ann, agent.url(), &["chat", "list dog breeds"]).exits(0);
    let runs = a2s_with(&ann, world.url(), &["runs", "--json"]).exits(0).one();
    assert_eq!(runs["executions"][0]["name"], "ListDogBreeds", "{runs}");
    a2s_with(&world.token(), agent.url(), &["chat", "list dog breeds"]).exits(0);
    a2s_with("wrong", agent.url(), &["chat", "list dog breeds"]).exits(1);

    // MCP and A2A.
    RUNTIME.block_on(async {
        let client =
            Client::open(&format!("{}/", agent.url().trim_end_matches('/')), Some(&ann), json!({}))
                .await;
        let found =
            client.call(1, "search_capabilities", json!({"intent": "list dog breeds"})).await;
        assert_eq!(found.content()["capabilities"][0]["name"], "ListDogBreeds", "{found:?}");
    });
    let (status, card) = http::get(&format!("{}.well-known/agent-card.json", agent.url()), &[]);
    assert!(status == 200 && card.contains("A2S agent"), "{card}");
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": {
        "kind": "message", "messageId": "m-1", "role": "user",
        "parts": [{"kind": "text", "text": "list dog breeds"}],
    }}});
    let shown = format!("Bearer {ann}");
    let headers = [("authorization", shown.as_str()), ("content-type", "application/json")];
    let url = format!("{}a2a", agent.url());
    let (status, task) = http::send("POST", &url, &headers, Some(message.to_string()));
    assert!(status == 200 && task.contains(r#""state":"completed""#), "{task}");

    // The registry is asked about callers with the agent's token; all else is the callers' own.
    let owner = format!("Bearer {}", world.token());
    for request in registry.requests().iter().chain(&executor.requests()) {
        let token = request.authorization.as_deref();
        match request.line.as_str() {
            "POST /v1/tokens/introspect" => assert_eq!(token, Some(&*format!("Bearer {own}"))),
            _ => assert!(token.is_none_or(|token| token == shown || token == owner), "{request:?}"),
        }
    }
    let lines: Vec<_> = executor.requests().into_iter().map(|request| request.line).collect();
    assert!(lines.contains(&"POST /v1/executions".to_owned()), "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains("search")), "{lines:?}");
    let questions = guardian.requests();
    let asking = format!("Bearer {asking}");
    assert!(questions.len() >= 4, "{questions:?}");
    assert!(questions.iter().all(|request| request.authorization.as_ref() == Some(&asking)));
}

#[test]
fn ready_asks_the_other_services_when_it_is_told_to() {
    let world = World::down(&[]);
    let registry = Server::alone("registry", world.folder().join("registry"), &[]);
    let away = ["--guardian", "http://127.0.0.1:1/aos"];
    let start = |name: &str, url: &str| {
        let registry = ["--registry", url, "--registry-token", "of-another-registry"];
        Server::alone("executor", world.folder().join(name), &[&registry[..], &away].concat())
    };
    for (name, url, found) in [
        ("one", registry.url(), "it does not accept the token of this service"),
        ("other", "http://127.0.0.1:1/", "does not respond"),
    ] {
        let executor = start(name, url);
        executor.a2s(&["ready"]).exits(0);
        let ran = executor.a2s(&["ready", "--deep"]).exits(4);
        assert!(ran.stderr.contains(&format!("registry at {url}")), "{ran:?}");
        assert!(ran.stderr.contains(found) && ran.stderr.contains("guardian http"), "{ran:?}");
        let (status, lines) = http::get(&format!("{}readyz?deep&verbose", executor.url()), &[]);
        assert!(status == 503 && lines.starts_with("executor: ready\n"), "{lines}");
        assert_eq!(lines.lines().count(), 3, "{lines}");
    }
    registry.a2s(&["ready", "--deep"]).exits(0);
    // A command that has come to the wrong service says where it is.
    let ran = registry.a2s(&["runs"]).exits(1);
    assert!(ran.stderr.contains("unknown path `/v1/executions`: this is a registry"), "{ran:?}");
}

#[test]
fn an_agent_on_its_own_says_what_it_lacks() {
    let world = World::down(&[]);
    let data = world.data();
    let start = |flags: &[&str]| {
        let start = [&["serve", "agent", "--listen", "127.0.0.1:0"], flags].concat();
        a2s_in(Path::new("."), &[("A2S_DATA_DIR", data.to_str().unwrap())], &start).exits(2).stderr
    };
    assert!(start(&[]).contains("a2s tokens create agent --scope service"));
    let far = start(&["--registry-token", "x", "--executor", "http://executor.example:8742"]);
    assert!(
        far.contains("the token of a caller") && far.contains("--allow-insecure-tokens"),
        "{far}"
    );
    assert!(start(&["--registry-token", "x", "--guardian", "builtin"]).contains("a2s up"));
}

#[test]
fn an_owners_token_is_refused_as_a_token_for_another_service() {
    let world = World::down(&[]);
    let secret = "of-the-owner";
    let data = world.data();
    let data = data.to_str().unwrap();
    for (service, flags) in [
        ("registry", &["--service-token", secret][..]),
        ("executor", &["--registry-token", secret, "--guardian", "off"]),
        ("executor", &["--guardian-token", secret]),
        ("guardian", &["--guardian-token", secret]),
    ] {
        let start = [&["serve", service, "--listen", "127.0.0.1:0", "--token", secret], flags];
        let ran = a2s_in(Path::new("."), &[("A2S_DATA_DIR", data)], &start.concat()).exits(2);
        assert!(ran.stderr.contains("is the owner's"), "{service} {flags:?} {ran:?}");
    }
    for flags in [
        &["--registry", "http://registry.example:8741", "--registry-token", "x"][..],
        &["--guardian", "http://guardian.example:8743/aos", "--guardian-token", "x"],
    ] {
        let start = [&["serve", "executor", "--listen", "127.0.0.1:0"], flags].concat();
        let ran = a2s_in(Path::new("."), &[("A2S_DATA_DIR", data)], &start).exits(2);
        assert!(ran.stderr.contains("--allow-insecure-tokens"), "{flags:?} {ran:?}");
    }
}

#[test]
fn a_guardian_beside_its_executor_asks_for_a_token_on_loopback() {
    let world = World::up(&[]);
    let make = |scope: &str| {
        let name = format!("only-{scope}");
        let made = world.a2s(&["tokens", "create", &name, "--scope", scope]).exits(0);
        made.stdout.trim().to_owned()
    };
    let ask = |token: Option<&str>| {
        let shown = token.map(|token| format!("Bearer {token}"));
        let shown = shown.as_ref().map(|shown| ("authorization", shown.as_str()));
        let headers: Vec<_> =
            shown.into_iter().chain([("content-type", "application/json")]).collect();
        let body = r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}"#;
        http::send("POST", &format!("{}aos", world.url()), &headers, Some(body.to_owned())).0
    };
    assert_eq!(ask(None), 401);
    assert_eq!(ask(Some("wrong")), 401);
    for (scope, expected) in [("execute", 403), ("admin", 403), ("service", 403), ("guard", 200)] {
        assert_eq!(ask(Some(&make(scope))), expected, "{scope}");
    }
    assert_eq!(ask(Some(&world.token())), 200);
    // Runs are guarded without any of it, and their outcomes arrive.
    world.a2s(&["run", "ListDogBreeds"]).exits(0);
}
