//! A guardian with scripted answers, a service that counts, and everything in between.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use a2s::{HttpMethod, InputLocation, Secret, Task};
use a2s_api::{GuardianChange, GuardianPhase};
use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use indexmap::IndexMap;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use test_support::{serve, unused_address};
use url::Url;

use super::*;
use crate::config::{Config, FailMode, GuardianConfig, HttpEndpoint};
use crate::error::ErrorKind;
use crate::outbound::OutboundClient;
use crate::registry_client::RegistryClient;
use crate::request::TaskContract;
use crate::request::test_fixtures::{Still, inputs, openapi};
use crate::vault::Vault;

const CLOSED: FailMode = FailMode::Closed;
const OPEN: FailMode = FailMode::Open;

/// The most bytes of a response: answers of guardians may be as large as a message about it.
const SMALL_RESPONSE: usize = 64 << 10;

/// A guardian that answers each question with `answer`, and keeps the questions.
async fn start_guardian(
    answer: impl Fn(Value) -> Response + Clone + Send + Sync + 'static,
) -> (GuardianConfig, Arc<Mutex<Vec<Value>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    let handler = async move |body: Bytes| {
        let question: Value = serde_json::from_slice(&body).unwrap();
        kept.lock().unwrap().push(question.clone());
        answer(question)
    };
    let address = serve(Router::new().fallback(handler)).await;
    let config = GuardianConfig::new(Url::parse(&format!("http://{address}/aos")).unwrap());
    // Long, so that only a fault runs into it: a late answer may be let pass.
    let timeout = Duration::from_secs(60);
    (GuardianConfig { timeout, max_response_bytes: SMALL_RESPONSE, ..config }, asked)
}

fn gate(config: GuardianConfig, fail: FailMode) -> GuardianGate {
    open_gate(&GuardianSettings::Chain(vec![GuardianConfig { fail: fail.into(), ..config }]))
        .unwrap()
}

fn open_gate(guardian: &GuardianSettings) -> Result<GuardianGate, Error> {
    let metrics = Metrics::register(&mut Registry::default());
    let vault = Arc::new(Vault::in_memory(Arc::new(Still), Arc::new(Still)));
    GuardianGate::new(guardian, metrics, vault, Arc::new(Still), Arc::new(Still))
}

impl GuardianGate {
    /// A gate that nobody guards.
    pub(crate) fn for_all() -> Self {
        open_gate(&GuardianSettings::Off).unwrap()
    }
}

/// What the only guardian has decided.
fn only(mut decisions: Vec<DecisionRecord>) -> DecisionRecord {
    assert_eq!(decisions.len(), 1, "{decisions:?}");
    decisions.remove(0)
}

fn pin(name: &str) -> CapabilityRef {
    let (version, checksum) = (semver::Version::new(1, 2, 3), a2s::Digest::of_bytes(b"x"));
    CapabilityRef { name: name.parse().unwrap(), version, checksum }
}

fn asker<'a>(capability: &'a CapabilityRef, root: &'a CapabilityRef) -> GuardedStep<'a> {
    GuardedStep {
        principal: &OWNER,
        run: Uuid::from_u128(1),
        session: "session-1",
        execution_id: Uuid::from_u128(2),
        step: "checkWeather/getWeather",
        capability,
        root,
        description: "Post the weather",
        permissions: &[],
        domains: &[],
        sources: None,
        secrets: &NO_SECRETS,
        trace: &NO_TRACE,
    }
}

static OWNER: LazyLock<Principal> = LazyLock::new(Principal::owner);
static NO_TRACE: LazyLock<HeaderMap> = LazyLock::new(HeaderMap::new);
static NO_SECRETS: LazyLock<RunSecrets> = LazyLock::new(RunSecrets::default);

fn task() -> Task {
    let places = ["pathParameters.city", "queryParameters.units", "queryParameters.lang"];
    openapi(HttpMethod::Get, "https://api.example/v1", "/current/{city}", &places)
}

fn contract() -> TaskContract {
    TaskContract::new(Arc::new(task()))
}

fn given() -> IndexMap<InputLocation, Value> {
    inputs([("pathParameters.city", json!("Paris")), ("queryParameters.units", json!("metric"))])
}

fn result(question: &Value, result: &Value) -> Response {
    axum::Json(json!({"jsonrpc": "2.0", "id": question["id"], "result": result})).into_response()
}

fn decide(question: &Value, decision: &str) -> Response {
    let reasons = ["policy.weather"];
    result(question, &json!({"decision": decision, "message": "because", "reasonCode": reasons}))
}

/// `modify` with the question changed by `change`.
fn modify(question: &Value, change: impl Fn(&mut Value)) -> Response {
    let mut modified = question.clone();
    change(&mut modified);
    let answer = json!({"decision": "modify", "message": "because", "modifiedRequest": modified});
    result(question, &answer)
}

fn set_inputs(question: &Value, inputs: &Value) -> Response {
    modify(question, |modified| modified["params"]["toolCallRequest"]["inputs"] = inputs.clone())
}

fn set_result(question: &Value, text: &str, is_error: bool) -> Response {
    let outputs = json!({"outputs": [{"kind": "text", "text": text}], "isError": is_error});
    modify(question, |modified| modified["params"]["toolCallResult"]["result"] = outputs.clone())
}

/// What a request's way through gate and connection looks like from outside.
#[derive(Debug, PartialEq)]
struct Seen {
    decision: String,
    source: DecisionSource,
    /// The address that was sent to, or why nothing was.
    came_to: Result<String, ErrorKind>,
    /// How many requests the service got.
    hits: usize,
}

/// A service that counts its requests, and the way to it.
struct Service {
    outbound: OutboundClient,
    hits: Arc<AtomicUsize>,
}

impl Service {
    async fn start() -> Self {
        let hits = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&hits);
        let count = async move || {
            counted.fetch_add(1, Ordering::SeqCst);
            "{}"
        };
        let address = serve(Router::new().fallback(count)).await;
        let registry = Url::parse("http://127.0.0.1:1").unwrap();
        let mut config = Config::new(PathBuf::new(), registry, GuardianSettings::Off);
        let upstream = Url::parse(&format!("http://{address}")).unwrap();
        config.upstreams.insert("api.example".parse().unwrap(), upstream);
        let vault = Vault::in_memory(Arc::new(Still), Arc::new(Still));
        let registry = Arc::new(RegistryClient::new(&config.registry, None).unwrap());
        let outbound =
            OutboundClient::new(&config, Arc::new(vault), registry, Arc::new(Still)).unwrap();
        Self { outbound, hits }
    }

    /// Asks for the request, and sends it if that is permitted.
    async fn pass(&self, gate: &GuardianGate) -> (Seen, DecisionRecord, Option<Error>) {
        let (seen, decisions, error) = self.pass_all(gate).await;
        (seen, only(decisions), error)
    }

    /// The same with every decision; what is seen is the last.
    async fn pass_all(&self, gate: &GuardianGate) -> (Seen, Vec<DecisionRecord>, Option<Error>) {
        let before = self.hits.load(Ordering::SeqCst);
        let (capability, root) = (pin("GetWeather"), pin("PostWeatherTweet"));
        let asked =
            gate.ask_request(&asker(&capability, &root), &contract(), &given().into()).await;
        let (came_to, error) = match asked.verdict {
            Ok(request) => {
                self.outbound.send_now(&request).await.unwrap();
                (Ok(request.url().to_string()), None)
            }
            Err(error) => (Err(error.kind), Some(error)),
        };
        let decision = asked.decisions.last().unwrap();
        let seen = Seen {
            decision: decision.decision.to_string(),
            source: decision.source,
            came_to,
            hits: self.hits.load(Ordering::SeqCst) - before,
        };
        (seen, asked.decisions, error)
    }
}

#[track_caller]
fn check_stopped(seen: &Seen, source: DecisionSource, kind: ErrorKind, case: &str) {
    let decision = "deny".to_owned();
    assert_eq!(*seen, Seen { decision, source, came_to: Err(kind), hits: 0 }, "{case}");
}

#[track_caller]
fn check_sent(seen: &Seen, decision: &str, source: DecisionSource, url: &str, case: &str) {
    let (decision, came_to) = (decision.to_owned(), Ok(url.to_owned()));
    assert_eq!(*seen, Seen { decision, source, came_to, hits: 1 }, "{case}");
}

const AS_ASKED: &str = "https://api.example/v1/current/Paris?units=metric";

#[tokio::test]
async fn allow_sends_and_deny_does_not() {
    let service = Service::start().await;
    for fail in [CLOSED, OPEN] {
        let (config, _) = start_guardian(|question| decide(&question, "allow")).await;
        let (seen, ..) = service.pass(&gate(config, fail)).await;
        check_sent(&seen, "allow", DecisionSource::Guardian, AS_ASKED, "allow");

        let (config, _) = start_guardian(|question| decide(&question, "deny")).await;
        let (seen, decision, error) = service.pass(&gate(config, fail)).await;
        check_stopped(&seen, DecisionSource::Guardian, ErrorKind::GuardianDeniedRequest, "deny");
        assert_eq!(decision.reason_codes, ["policy.weather"]);
        assert_eq!(decision.message, "because");
        assert_eq!(error.unwrap().message, "the guardian denied the request: because");
    }
}

#[tokio::test]
async fn modify_sends_what_the_guardian_wants() {
    let service = Service::start().await;
    let cases = [
        (
            json!([{"name": "pathParameters.city", "value": "London/../x"}]),
            "https://api.example/v1/current/London%2F..%2Fx",
            // The changed request is asked about once more.
            vec![
                vec![
                    ("pathParameters.city", json!("Paris"), json!("London/../x")),
                    ("queryParameters.units", json!("metric"), json!(null)),
                ],
                vec![],
            ],
        ),
        (
            json!([
                {"name": "queryParameters.lang", "value": "fr"},
                {"name": "pathParameters.city", "value": "Paris"},
                {"name": "queryParameters.units", "value": "metric"},
            ]),
            "https://api.example/v1/current/Paris?units=metric&lang=fr",
            vec![vec![("queryParameters.lang", json!(null), json!("fr"))], vec![]],
        ),
        (
            json!([
                {"name": "pathParameters.city", "value": "Paris"},
                {"name": "queryParameters.units", "value": "metric"},
            ]),
            AS_ASKED,
            vec![vec![]],
        ),
    ];
    for (wanted, url, expected) in cases {
        let inputs = wanted.clone();
        let (config, asked) = start_guardian(move |question| set_inputs(&question, &inputs)).await;
        let (seen, decisions, _) = service.pass_all(&gate(config, CLOSED)).await;
        check_sent(&seen, "modify", DecisionSource::Guardian, url, &wanted.to_string());
        assert!(decisions.iter().all(|decision| decision.decision == "modify"), "{decisions:?}");
        let recorded = decisions.iter().map(|decision| {
            let changes = decision.changes.iter();
            changes.map(|c| (c.name.as_str(), c.from.clone(), c.to.clone())).collect::<Vec<_>>()
        });
        assert_eq!(recorded.collect::<Vec<_>>(), expected, "{wanted}");
        // The last question is about what is sent.
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), expected.len(), "{wanted}");
        assert_eq!(asked.last().unwrap()["params"]["context"]["request"]["url"], url);
    }
}

#[tokio::test]
async fn a_request_that_guardians_keep_changing_is_denied() {
    let service = Service::start().await;
    for fail in [CLOSED, OPEN] {
        let farther = |question: Value| {
            let city = &question["params"]["toolCallRequest"]["inputs"][0]["value"];
            let city = format!("{}x", city.as_str().unwrap());
            set_inputs(&question, &json!([{"name": "pathParameters.city", "value": city}]))
        };
        let (config, asked) = start_guardian(farther).await;
        let (seen, decisions, error) = service.pass_all(&gate(config, fail)).await;
        check_stopped(
            &seen,
            DecisionSource::FailedClosed,
            ErrorKind::GuardianModification,
            "farther",
        );
        let decided: Vec<_> = decisions.iter().map(|decision| &*decision.decision).collect();
        assert_eq!(decided, ["modify", "modify", "modify", "deny"]);
        let message = error.unwrap().message;
        assert!(message.contains("still changed the request"), "{message}");
        let asked = asked.lock().unwrap();
        let asks_again: Vec<_> = asked
            .iter()
            .map(|question| question["params"]["context"]["request"]["asksAgain"] == true)
            .collect();
        assert_eq!(asks_again, [true, true, true, false]);
    }
}

#[tokio::test]
async fn a_modification_that_cannot_be_used_is_a_deny_in_either_mode() {
    let service = Service::start().await;
    let city = || json!({"name": "pathParameters.city", "value": "London"});
    let cases = [
        ("unknown name", json!([city(), {"name": "city", "value": "x"}])),
        ("unknown place", json!([city(), {"name": "queryParameters.appid", "value": "x"}])),
        ("place of another format", json!([city(), {"name": "variables.x", "value": "x"}])),
        ("twice", json!([city(), city()])),
        ("required input gone", json!([{"name": "queryParameters.units", "value": "metric"}])),
        ("required input null", json!([{"name": "pathParameters.city", "value": null}])),
        ("value that changes the path", json!([{"name": "pathParameters.city", "value": ".."}])),
        ("value that ends the path", json!([{"name": "pathParameters.city", "value": "."}])),
        ("nothing", json!([])),
    ];
    for fail in [CLOSED, OPEN] {
        for (case, wanted) in &cases {
            let wanted = wanted.clone();
            let (config, _) = start_guardian(move |question| set_inputs(&question, &wanted)).await;
            let (seen, decision, error) = service.pass(&gate(config, fail)).await;
            check_stopped(
                &seen,
                DecisionSource::FailedClosed,
                ErrorKind::GuardianModification,
                case,
            );
            assert_eq!(decision.message, error.unwrap().message, "{case}");
            assert!(decision.message.starts_with("the guardian's modification cannot be used"));
        }
    }
}

#[tokio::test]
async fn a_modification_of_something_else_is_a_deny_in_either_mode() {
    let service = Service::start().await;
    type Change = fn(&mut Value);
    let cases: [(&str, Change); 4] = [
        ("another tool", |q| q["params"]["toolCallRequest"]["toolId"] = json!("Other.tool")),
        ("another execution", |q| q["params"]["toolCallRequest"]["executionId"] = json!("other")),
        ("another method", |q| {
            q["method"] = json!("steps/memoryStore");
            q["params"]["memory"] = json!(["x"]);
        }),
        ("no request", |q| *q = json!(null)),
    ];
    for fail in [CLOSED, OPEN] {
        for (case, change) in cases {
            let (config, _) = start_guardian(move |question| modify(&question, change)).await;
            let (seen, ..) = service.pass(&gate(config, fail)).await;
            check_stopped(
                &seen,
                DecisionSource::FailedClosed,
                ErrorKind::GuardianModification,
                case,
            );
        }
    }
}

type Script = fn(Value) -> Response;

/// Ways of giving no usable answer, and whether they may pass when the mode is open: the guardian
/// was silent or broken, as opposed to having said something that cannot be followed.
fn failures() -> Vec<(&'static str, bool, Script)> {
    fn text(content_type: &'static str, body: impl Into<String>) -> Response {
        ([("content-type", content_type)], body.into()).into_response()
    }
    vec![
        ("status 500", true, |_| StatusCode::INTERNAL_SERVER_ERROR.into_response()),
        ("status 503", true, |_| StatusCode::SERVICE_UNAVAILABLE.into_response()),
        ("content type", true, |question| {
            text("text/html", json!({"jsonrpc": "2.0", "id": question["id"]}).to_string())
        }),
        ("not JSON", true, |_| text("application/json", "allow")),
        ("cut JSON", true, |_| text("application/json", "{\"jsonrpc\": \"2.0\", \"id\": ")),
        ("internal error", true, |question| {
            let error = json!({"code": -32603, "message": "Internal error"});
            let answer = json!({"jsonrpc": "2.0", "id": question["id"], "error": error});
            axum::Json(answer).into_response()
        }),
        ("status 404", false, |_| StatusCode::NOT_FOUND.into_response()),
        ("redirect", false, |_| {
            (StatusCode::FOUND, [("location", "http://127.0.0.1:1/")]).into_response()
        }),
        ("wrong id", false, |_| {
            let allow = json!({"decision": "allow", "message": "m"});
            axum::Json(json!({"jsonrpc": "2.0", "id": "other", "result": allow})).into_response()
        }),
        ("unknown decision", false, |question| decide(&question, "ask")),
        ("no decision", false, |question| result(&question, &json!({"message": "m"}))),
        ("huge answer", false, |question| {
            let allow = json!({"decision": "allow", "message": "m".repeat(5 << 20)});
            result(&question, &allow)
        }),
    ]
}

#[tokio::test]
async fn request_without_verdict_is_not_sent_by_default() {
    let service = Service::start().await;
    for (case, may_pass, answer) in failures() {
        let (config, _) = start_guardian(answer).await;
        let (seen, ..) = service.pass(&gate(config.clone(), CLOSED)).await;
        check_stopped(&seen, DecisionSource::FailedClosed, ErrorKind::GuardianUnreachable, case);
        let (seen, ..) = service.pass(&gate(config, OPEN)).await;
        if may_pass {
            check_sent(&seen, "allow", DecisionSource::FailedOpen, AS_ASKED, case);
        } else {
            check_stopped(
                &seen,
                DecisionSource::FailedClosed,
                ErrorKind::GuardianUnreachable,
                case,
            );
        }
    }
}

#[tokio::test]
async fn a_silent_guardian_means_no_unless_configured_otherwise() {
    let service = Service::start().await;
    let silent = serve(Router::new().fallback(async || std::future::pending::<()>().await)).await;
    for (case, address) in [("timeout", silent), ("unreachable", unused_address())] {
        let url = Url::parse(&format!("http://{address}/aos")).unwrap();
        let timeout = Duration::from_millis(50);
        let config = || GuardianConfig { timeout, ..GuardianConfig::new(url.clone()) };
        let (seen, decision, error) = service.pass(&gate(config(), CLOSED)).await;
        check_stopped(&seen, DecisionSource::FailedClosed, ErrorKind::GuardianUnreachable, case);
        assert_eq!(decision.reason_codes, [format!("guardian_{case}")]);
        assert!(error.unwrap().message.ends_with("so the executor sent nothing"));
        let (seen, ..) = service.pass(&gate(config(), OPEN)).await;
        check_sent(&seen, "allow", DecisionSource::FailedOpen, AS_ASKED, case);
    }
}

#[tokio::test]
async fn without_a_guardian_steps_pass_and_the_record_says_so() {
    let service = Service::start().await;
    let gate = GuardianGate::for_all();
    let (seen, ..) = service.pass(&gate).await;
    check_sent(&seen, "unguarded", DecisionSource::Unguarded, AS_ASKED, "off");
    let (capability, root) = (pin("GetWeather"), pin("PostWeatherTweet"));
    let asked = gate.ask_result(&asker(&capability, &root), &task(), &mut Ok(json!(1)), None).await;
    assert_eq!(only(asked.decisions).decision, "unguarded");
    assert_eq!(asked.verdict.unwrap().into_inner().0, json!(1));
}

#[tokio::test]
async fn inputs_that_fit_no_request_are_not_asked_about() {
    let (config, asked) = start_guardian(|question| decide(&question, "allow")).await;
    let gate = gate(config, CLOSED);
    let (capability, root) = (pin("GetWeather"), pin("PostWeatherTweet"));
    let answer =
        gate.ask_request(&asker(&capability, &root), &contract(), &inputs([]).into()).await;
    assert_eq!(answer.decisions, []);
    assert_eq!(answer.verdict.unwrap_err().kind, ErrorKind::InvalidInput);
    assert!(asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn guardian_sees_each_request_and_its_result() {
    let (mut config, asked) = start_guardian(|question| decide(&question, "allow")).await;
    config.http().token = Some(Secret::new("canary"));
    let gate = gate(config, CLOSED);
    let (capability, root) = (pin("GetWeather"), pin("PostWeatherTweet"));
    let permissions = ["weather.read".parse().unwrap()];
    let asker = GuardedStep { permissions: &permissions, ..asker(&capability, &root) };
    gate.ask_request(&asker, &contract(), &given().into()).await.verdict.unwrap();
    let value = json!({"temperature": 21});
    gate.ask_result(&asker, &task(), &mut Ok(value.clone()), None).await.verdict.unwrap();
    let failure = Error::new(ErrorKind::StatusError, "the service responded with status 500");
    gate.ask_result(&asker, &task(), &mut Err(failure.clone()), None).await.verdict.unwrap_err();
    let asked = asked.lock().unwrap();
    let [request, result, failed] = asked.as_slice() else { panic!("three questions") };

    assert_eq!(request["method"], "steps/toolCallRequest");
    let call = json!({
        "executionId": asker.execution_id,
        "toolId": "GetWeather.getWeather",
        "inputs": [
            {"name": "pathParameters.city", "value": "Paris"},
            {"name": "queryParameters.units", "value": "metric"},
        ],
    });
    assert_eq!(request["params"]["toolCallRequest"], call);
    let context = &request["params"]["context"];
    assert_eq!(context["session"]["id"], "session-1");
    assert_eq!(context["turnId"], json!(asker.run));
    assert_eq!(context["stepId"], "checkWeather/getWeather");
    assert_eq!(context["timestamp"], "2026-08-01T12:00:00Z");
    let expected = json!({
        "name": "GetWeather",
        "version": "1.2.3",
        "checksum": capability.checksum,
        "run": asker.run,
        "root": {"name": "PostWeatherTweet", "version": "1.2.3", "checksum": root.checksum},
        "format": "OpenAPI",
        "method": "GET",
        "url": "https://api.example/v1/current/{city}",
        "host": "api.example",
        "readOnly": true,
        "permissions": ["weather.read"],
    });
    assert_eq!(context["capability"], expected);
    let expected = json!({
        "method": "GET",
        "url": AS_ASKED,
        "host": "api.example",
        "path": "/v1/current/Paris",
        "query": "units=metric",
        "headers": {"accept": "application/json, */*;q=0.1"},
        "body": {
            "checksum": a2s::Digest::of_bytes(b""), "bytes": 0, "text": "", "truncated": false,
        },
        "asksAgain": true,
    });
    assert_eq!(context["request"], expected);
    assert_eq!(context.get("hidden"), None);
    assert_eq!(context["user"], json!({"id": "owner"}));
    for member in ["id", "name", "url", "instructions", "version", "provider"] {
        assert!(!context["agent"][member].is_null(), "{member}");
    }

    assert_eq!(result["method"], "steps/toolCallResult");
    assert_eq!(result["params"]["toolId"], "GetWeather.getWeather");
    // The context of the result is the same, without the request.
    let mut context = context.clone();
    context.as_object_mut().unwrap().remove("request");
    assert_eq!(result["params"]["context"], context);
    let told = |question: &Value| {
        let call = &question["params"]["toolCallResult"];
        assert_eq!(call["executionId"], json!(asker.execution_id));
        assert_eq!(call["result"]["outputs"].as_array().unwrap().len(), 1);
        let text = call["result"]["outputs"][0]["text"].as_str().unwrap().to_owned();
        (text, call["result"]["isError"].as_bool().unwrap())
    };
    assert_eq!(told(result), (value.to_string(), false));
    assert_eq!(told(failed), (failure.message, true));
    assert!(!json!(*asked).to_string().contains("canary"));
}

/// Asks about a result, and gives the record and what may be used.
async fn pass_result(
    fail: FailMode,
    mut result: Result<Value, Error>,
    answer: impl Fn(Value) -> Response + Clone + Send + Sync + 'static,
) -> (DecisionRecord, Result<Value, Error>) {
    let (config, _) = start_guardian(answer).await;
    let (capability, root) = (pin("GetWeather"), pin("PostWeatherTweet"));
    let gate = gate(config, fail);
    let asked = gate.ask_result(&asker(&capability, &root), &task(), &mut result, None).await;
    (only(asked.decisions), asked.verdict.map(|allowed| allowed.into_inner().0))
}

fn failure() -> Error {
    Error::new(ErrorKind::StatusError, "status 500: secret").with_hint("Try later.")
}

#[tokio::test]
async fn a_result_is_used_when_allowed_and_withheld_when_denied() {
    let value = json!({"a": 1});
    for fail in [CLOSED, OPEN] {
        let allow = |question| decide(&question, "allow");
        let (decision, verdict) = pass_result(fail, Ok(value.clone()), allow).await;
        assert_eq!((decision.phase, &*decision.decision), (GuardianPhase::Result, "allow"));
        assert_eq!(verdict, Ok(value.clone()));
        let (_, verdict) = pass_result(fail, Err(failure()), allow).await;
        assert_eq!(verdict, Err(failure()));

        let deny = |question| decide(&question, "deny");
        for result in [Ok(value.clone()), Err(failure())] {
            let (decision, verdict) = pass_result(fail, result, deny).await;
            assert_eq!(decision.decision, "deny");
            let error = verdict.unwrap_err();
            assert_eq!(error.kind, ErrorKind::GuardianDeniedResult);
            assert!(!error.message.contains("secret"));
        }
    }
}

#[tokio::test]
async fn a_modified_result_is_used_and_what_it_hides_is_not_recorded() {
    let value = json!({"user": {"mail": "canary@example.org", "id": 7}, "tags": ["canary", "b"]});
    let redacted = json!({"user": {"mail": "[redacted]", "id": 7}, "tags": ["x", "b"], "n": null});
    let text = redacted.to_string();
    let answer = move |question: Value| set_result(&question, &text, false);
    let (decision, verdict) = pass_result(CLOSED, Ok(value), answer).await;
    assert_eq!(verdict, Ok(redacted));
    assert_eq!(decision.decision, "modify");
    assert!(!serde_json::to_string(&decision).unwrap().contains("canary"));
    let change = |name: &str, to: &str| GuardianChange {
        name: name.to_owned(),
        from: json!("(withheld)"),
        to: json!(to),
    };
    let expected = [change("outputs.user.mail", "[redacted]"), change("outputs.tags[0]", "x")];
    assert_eq!(decision.changes, expected);
}

#[tokio::test]
async fn a_failure_stays_one_but_a_guardian_may_change_its_words() {
    let answer = |question: Value| set_result(&question, "status 500:\n[redacted]", true);
    let (decision, verdict) = pass_result(CLOSED, Err(failure()), answer).await;
    assert_eq!(decision.decision, "modify");
    let expected = Error { message: "status 500: [redacted]".to_owned(), ..failure() };
    assert_eq!(verdict, Err(expected));

    let answer = |question: Value| set_result(&question, "{}", false);
    let (decision, verdict) = pass_result(CLOSED, Err(failure()), answer).await;
    assert_eq!(decision.decision, "deny");
    assert_eq!(verdict.unwrap_err().kind, ErrorKind::GuardianModification);

    let answer = |question: Value| set_result(&question, "blocked", true);
    let (_, verdict) = pass_result(CLOSED, Ok(json!({"a": 1})), answer).await;
    assert_eq!(verdict.unwrap_err().kind, ErrorKind::GuardianDeniedResult);
}

#[tokio::test]
async fn unreadable_modified_result_is_denied_in_both_modes() {
    let cases: [(&str, Script); 3] = [
        ("not JSON", |question| set_result(&question, "plain words", false)),
        ("no output", |question| {
            modify(&question, |q| q["params"]["toolCallResult"]["result"]["outputs"] = json!([]))
        }),
        ("two outputs", |question| {
            let part = json!({"kind": "text", "text": "1"});
            modify(&question, |q| {
                q["params"]["toolCallResult"]["result"]["outputs"] = json!([part, part]);
            })
        }),
    ];
    for fail in [CLOSED, OPEN] {
        for (case, answer) in cases {
            let (decision, verdict) = pass_result(fail, Ok(json!({"a": 1})), answer).await;
            assert_eq!(decision.decision, "deny", "{case}");
            assert_eq!(verdict.unwrap_err().kind, ErrorKind::GuardianModification, "{case}");
        }
    }
}

#[tokio::test]
async fn result_without_verdict_is_dropped_by_default() {
    for (case, may_pass, answer) in failures() {
        let (decision, verdict) = pass_result(CLOSED, Ok(json!({"a": 1})), answer).await;
        assert_eq!(decision.source, DecisionSource::FailedClosed, "{case}");
        let error = verdict.unwrap_err();
        assert_eq!(error.kind, ErrorKind::GuardianUnreachable, "{case}");
        assert!(
            error.message.ends_with("so the executor does not use the response of the service")
        );
        let (decision, verdict) = pass_result(OPEN, Ok(json!({"a": 1})), answer).await;
        if may_pass {
            assert_eq!(decision.source, DecisionSource::FailedOpen, "{case}");
            assert_eq!(verdict, Ok(json!({"a": 1})), "{case}");
        } else {
            assert_eq!(verdict.unwrap_err().kind, ErrorKind::GuardianUnreachable, "{case}");
        }
    }
}

#[tokio::test]
async fn a_token_that_fits_no_header_is_refused() {
    let url = Url::parse("http://127.0.0.1:1/").unwrap();
    let token = Some(Secret::new("a\r\nb"));
    let endpoint = HttpEndpoint { token, ..url.into() };
    let guardian = GuardianSettings::Chain(vec![GuardianConfig::from_endpoint(endpoint)]);
    let refused = open_gate(&guardian).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Configuration);
}
