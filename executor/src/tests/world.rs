//! A registry, a guardian and a service on loopback, and an executor between them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use a2s::{Digest, Domain, Secret};
use a2s_api::{BoxFuture, Caller, TokenIntrospector, TokenScope, TokenSubject};
use a2s_api::{CapabilityVersions, EventKind, Problem, Run, RunEvent, RunStatus};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::StreamExt as _;
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use test_support::{
    PostgresDatabase, RecordingGuardian, fixture_document, http_step, unused_address,
};
pub(crate) use test_support::{allow, deny, serve};
use tokio::sync::{Barrier, Notify};
use tower::ServiceExt as _;
use url::Url;
use uuid::Uuid;

use super::database::make;
use crate::clock::{Clock, RandomSource};
use crate::{App, Config, GuardianConfig, GuardianEndpoint, GuardianSettings};

mod database;
mod readers;
mod registry;

use registry::registry_routes;
pub(crate) use registry::{Published, RegistryDouble};

/// How long a test waits for something that should have come; long, so that only a fault runs into
/// it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct World {
    pub(crate) registry: Arc<RegistryDouble>,
    pub(crate) guardian: Arc<RecordingGuardian>,
    pub(crate) service: Arc<ServiceDouble>,
    pub(crate) config: Config,
    pub(crate) clock: Arc<TestClock>,
    metrics: Mutex<Registry>,
    folder: TempDir,
    _made: Option<PostgresDatabase>,
}

impl World {
    pub(crate) async fn new() -> Self {
        let mut world = Self::in_file().await;
        let file = world.folder.path().join("data/executor.sqlite");
        (world.config.database, world._made) = make(file).await;
        world
    }

    /// One with the database in a file, whatever the environment says.
    pub(crate) async fn in_file() -> Self {
        let folder = TempDir::new().unwrap();
        let registry = Arc::new(RegistryDouble::default());
        let (guardian, guardian_config) = start_guardian().await;
        let service = Arc::new(ServiceDouble::default());
        let registry_at = serve(registry_routes(Arc::clone(&registry))).await;
        let service_at =
            serve(Router::new().fallback(answer_task).with_state(Arc::clone(&service))).await;

        let url = |at: SocketAddr, path: &str| format!("http://{at}{path}").parse().unwrap();
        let mut config = Config::new(
            folder.path().join("data/executor.sqlite"),
            url(registry_at, "/"),
            GuardianSettings::Chain(vec![guardian_config]),
        );
        // Where its key is, wherever its database is.
        std::fs::create_dir(folder.path().join("data")).unwrap();
        config.upstreams.insert(Domain::new("api.example").unwrap(), url(service_at, "/"));
        config.telemetry.propagate = true;
        // Pauses between attempts are not what is tested here.
        config.limits.max_pause = Duration::ZERO;
        let clock = Arc::new(TestClock::default());
        Self {
            registry,
            guardian,
            service,
            config,
            clock,
            metrics: Mutex::default(),
            folder,
            _made: None,
        }
    }

    /// The guardian that is asked first.
    pub(crate) fn guarded_by(&mut self) -> &mut GuardianConfig {
        match &mut self.config.guardian {
            GuardianSettings::Chain(guardians) => &mut guardians[0],
            GuardianSettings::Off => panic!("nobody guards"),
        }
    }

    pub(crate) async fn open(&self) -> App {
        self.try_open().await.unwrap()
    }

    pub(crate) async fn try_open(&self) -> Result<App, crate::Error> {
        let clock: Arc<dyn Clock> = self.clock.clone();
        let ids: Arc<dyn RandomSource> = self.clock.clone();
        let mut metrics = Registry::default();
        let app = App::open(self.config.clone(), clock, ids, &mut metrics).await?;
        *self.metrics.lock().unwrap() = metrics;
        Ok(app)
    }

    /// Opens an executor and starts a run in it, which has sent the request `sent` then.
    pub(crate) async fn open_until(&self, name: &str, inputs: Value, sent: &str) -> (App, Uuid) {
        let app = self.open().await;
        let id = start(&app, name, inputs).await;
        self.service.arrived(sent, 1).await;
        until_recorded(&app, id, sent, 1).await;
        (app, id)
    }

    /// Ends an executor as a killed process does.
    pub(crate) async fn crash(&self, app: App) {
        app.crash().await;
        self.service.idle().await;
    }

    /// The same, and opens the next one on the same database.
    pub(crate) async fn crash_and_open(&self, app: App) -> App {
        self.crash(app).await;
        self.open().await
    }

    /// The metrics of the executor that was opened last, as text.
    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.metrics.lock().unwrap())
            .unwrap();
        text
    }

    /// Lets time pass on the executor's clock.
    pub(crate) fn pass(&self, time: Duration) {
        let milliseconds = i64::try_from(time.as_millis()).unwrap();
        self.clock.milliseconds.fetch_add(milliseconds, Ordering::Relaxed);
    }

    /// An address where nobody listens.
    pub(crate) fn nowhere() -> Url {
        format!("http://{}/", unused_address()).parse().unwrap()
    }

    /// A guardian that does not answer.
    pub(crate) fn silent() -> GuardianEndpoint {
        GuardianEndpoint::Http(Self::nowhere().into())
    }
}

/// A guardian, and how it is asked.
pub(crate) async fn start_guardian() -> (Arc<RecordingGuardian>, GuardianConfig) {
    let guardian = Arc::new(RecordingGuardian::default());
    let url = format!("http://{}/aos", serve(guardian.router()).await);
    let usual = GuardianConfig::new(url.parse().unwrap());
    // A test that takes it away wants to see what follows.
    (guardian, GuardianConfig { timeout: PATIENCE, retry_for: Duration::ZERO, ..usual })
}

/// Each look at the clock is a millisecond later than the last; each id is the next number.
#[derive(Debug, Default)]
pub(crate) struct TestClock {
    milliseconds: AtomicI64,
    ids: AtomicU64,
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let passed = self.milliseconds.fetch_add(1, Ordering::Relaxed);
        Timestamp::from_millisecond(1_760_000_000_000 + passed).unwrap()
    }
}

impl RandomSource for TestClock {
    fn random_bytes(&self) -> [u8; 16] {
        u128::from(self.ids.fetch_add(1, Ordering::Relaxed)).to_le_bytes()
    }
}

/// Accepts each token as the name of its principal, with the scopes that the function gives it; a token
/// without scopes is unknown.
#[derive(Debug)]
pub(crate) struct NamedTokens(pub(crate) fn(&str) -> &'static [TokenScope]);

impl TokenIntrospector for NamedTokens {
    fn introspect<'a>(
        &'a self,
        token: &'a Secret,
    ) -> BoxFuture<'a, Result<Option<Caller>, String>> {
        let scopes: BTreeSet<_> = self.0(token.expose_secret()).iter().copied().collect();
        let subject = TokenSubject::new(token.expose_secret()).ok().filter(|_| !scopes.is_empty());
        let caller = subject.map(|subject| Caller { subject, end_user: None, scopes });
        Box::pin(async move { Ok(caller) })
    }
}

// ---- The executor, over HTTP ----

/// An answer: its status and its body, parsed where it is JSON.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn run(self) -> Run {
        assert!(self.status.is_success(), "{} {}", self.status, self.body);
        serde_json::from_value(self.body).unwrap()
    }

    /// The problem that must be the answer: status, code, and the whole of it.
    pub(crate) fn problem(self) -> (u16, String, Problem) {
        let kind = self.headers[header::CONTENT_TYPE].to_str().unwrap();
        assert_eq!(kind, "application/problem+json", "{}", self.body);
        let problem: Problem = serde_json::from_value(self.body).unwrap();
        assert_eq!(problem.status, self.status.as_u16());
        (problem.status, problem.code.clone(), problem)
    }
}

pub(crate) async fn call(
    app: &App,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: Value,
) -> Answer {
    let mut request = Request::builder().method(&method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let router = app.router().merge(app.probes());
    let response = router.oneshot(request.body(body).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    static DESCRIPTION: LazyLock<Value> =
        LazyLock::new(|| serde_json::to_value(App::openapi()).unwrap());
    let status = parts.status.as_u16();
    let is_described = a2s_api::has_status(
        &DESCRIPTION,
        method.as_str(),
        path.split('?').next().unwrap_or_default(),
        status,
    );
    assert!(is_described, "{status} is described nowhere for {method} {path}");
    let body = axum::body::to_bytes(body, 16 << 20).await.unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Answer { status: parts.status, headers: parts.headers, body }
}

/// Starts a run and gives its id at once.
pub(crate) async fn start(app: &App, name: &str, inputs: Value) -> Uuid {
    let body = json!({"name": name, "inputs": inputs});
    let answer = call(app, Method::POST, "/v1/executions", &[], body).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED, "{}", answer.body);
    answer.run().id
}

/// Runs a capability to its end.
pub(crate) async fn run(app: &App, name: &str, inputs: Value) -> Run {
    let body = json!({"name": name, "inputs": inputs, "wait": true});
    let answer = call(app, Method::POST, "/v1/executions", &[], body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    answer.run()
}

/// Asks to cancel a run.
pub(crate) async fn cancel(app: &App, run: Uuid) -> Answer {
    let path = format!("/v1/executions/{run}/cancel");
    call(app, Method::POST, &path, &[], Value::Null).await
}

/// A run as it is now.
pub(crate) async fn read(app: &App, run: Uuid) -> Run {
    call(app, Method::GET, &format!("/v1/executions/{run}"), &[], Value::Null).await.run()
}

/// All events of a run, once nothing more will happen in it.
pub(crate) async fn events(app: &App, run: Uuid) -> Vec<RunEvent> {
    events_after(app, run, 0).await
}

/// All events of a run for a caller with this header, once nothing more will happen in it.
pub(crate) async fn events_as(app: &App, header: &[&str; 2], run: Uuid) -> Vec<RunEvent> {
    let path = format!("/v1/executions/{run}/events");
    let answer = call(app, Method::GET, &path, &[(header[0], header[1])], Value::Null).await;
    parse_stream(answer.body.as_str().expect("a stream of events"))
}

/// Waits until a run has so many requests with this method and path on the disk, and everything before them.
pub(crate) async fn until_recorded(app: &App, run: Uuid, sent: &str, times: usize) {
    let recorded = async {
        let events = app.runs().follow(run, 0, &Caller::owner()).await.unwrap().unwrap();
        let mut events = std::pin::pin!(events);
        let mut found = 0;
        while let Some(event) = events.next().await {
            if let EventKind::Sending { method, url, .. } = &event.unwrap().kind {
                let url: Url = url.parse().unwrap();
                found += usize::from(sent == format!("{method} {}", url.path()));
                if found == times {
                    return;
                }
            }
        }
        panic!("`{sent}` is not in the journal");
    };
    tokio::time::timeout(PATIENCE, recorded).await.expect("the request is recorded");
}

/// The events behind number `after`, once nothing more will happen.
pub(crate) async fn events_after(app: &App, run: Uuid, after: u64) -> Vec<RunEvent> {
    let path = format!("/v1/executions/{run}/events");
    let id = after.to_string();
    let headers = [("last-event-id", id.as_str())];
    let stream = call(app, Method::GET, &path, &headers, Value::Null);
    let answer = tokio::time::timeout(PATIENCE, stream).await.expect("the stream ends");
    if answer.status == StatusCode::NO_CONTENT {
        return Vec::new();
    }
    let text = answer.body.as_str().expect("a stream of events").to_owned();
    parse_stream(&text)
}

/// Parses server-sent events, and checks that id and type are those of the data.
fn parse_stream(text: &str) -> Vec<RunEvent> {
    let blocks = text.split("\n\n").filter(|block| !block.trim().is_empty());
    let blocks = blocks.filter(|block| !block.starts_with(':'));
    let parse = |block: &str| {
        let fields: BTreeMap<&str, &str> =
            block.lines().filter_map(|line| line.split_once(": ")).collect();
        let event: RunEvent = serde_json::from_str(fields["data"]).unwrap();
        assert_eq!(fields["id"], event.seq.to_string());
        let kind = serde_json::to_value(&event).unwrap()["type"].clone();
        assert_eq!(fields["event"], kind);
        event
    };
    blocks.map(parse).collect()
}

/// The events of a run so far, up to the last request that was sent.
pub(crate) async fn read_events(app: &App, run: Uuid) -> Vec<RunEvent> {
    let mut attempts = 0;
    for step in read(app, run).await.steps {
        attempts += step.attempts;
    }
    collect_until(app, run, |events| {
        let sent = events.iter().filter(|e| matches!(e.kind, EventKind::Sending { .. })).count();
        sent == attempts as usize
    })
    .await
}

/// Waits until an event of the run is one that is looked for. The stream is closed then.
pub(crate) async fn wait_for(app: &App, run: Uuid, wanted: impl Fn(&EventKind) -> bool) {
    collect_until(app, run, |events| events.iter().any(|event| wanted(&event.kind))).await;
}

/// The events of a run until they are enough. The stream is closed then.
async fn collect_until(
    app: &App,
    run: Uuid,
    enough: impl Fn(&[RunEvent]) -> bool,
) -> Vec<RunEvent> {
    use futures::StreamExt as _;
    let request = Request::get(format!("/v1/executions/{run}/events")).body(Body::empty());
    let response = app.router().oneshot(request.unwrap()).await.unwrap();
    let mut stream = response.into_body().into_data_stream();
    let mut text = String::new();
    let found = async {
        while let Some(chunk) = stream.next().await {
            text += std::str::from_utf8(&chunk.unwrap()).unwrap();
            let whole = text.rfind("\n\n").map_or(0, |end| end + 2);
            let events = parse_stream(&text[..whole]);
            if enough(&events) {
                return events;
            }
        }
        panic!("the run ended without the event: {text}");
    };
    tokio::time::timeout(PATIENCE, found).await.expect("the event comes")
}

/// What a run did, a line for each event.
pub(crate) fn transcript(events: &[RunEvent]) -> Vec<String> {
    let line = |event: &RunEvent| match &event.kind {
        EventKind::RunStarted(started) => {
            let capability = &started.capability;
            format!("run {} {}", capability.name, capability.version)
        }
        EventKind::RunQueued {} => "queued".to_owned(),
        EventKind::RunResumed {} => "resumed".to_owned(),
        EventKind::StepResolved { step, decision, .. } => format!("{step}: {decision:?}"),
        EventKind::StepStarted { step, kind, .. } => format!("{step}: {kind}"),
        EventKind::BranchTaken { step, value } => format!("{step}: is {value}"),
        EventKind::ItemsTaken { step, items } => format!("{step}: over {items} items"),
        EventKind::Decided { step, decision, .. } => {
            let phase = serde_json::to_value(decision.phase).unwrap();
            format!("{step}: {} {}", phase.as_str().unwrap(), decision.decision)
        }
        EventKind::Sending { step, attempt, method, url, redirect, .. } => {
            let hop = redirect.map_or_else(String::new, |hop| format!(", redirect {hop}"));
            format!("{step}: {attempt} {method} {url}{hop}")
        }
        EventKind::Requesting { step, attempt, purpose, method, url } => {
            let purpose = format!("{purpose:?}").to_lowercase();
            format!("{step}: {attempt} {method} {url} for a {purpose}")
        }
        EventKind::Received { step, attempt, status, .. } => {
            format!("{step}: {attempt} got {status}")
        }
        EventKind::Throttled { step, reason, .. } => format!("{step}: waits, {}", reason.as_str()),
        EventKind::TokenRequested { step, attempt, host, scheme, renewed, failure, .. } => {
            let what = if *renewed { "renews" } else { "gets" };
            let failed = failure.as_ref().map_or_else(String::new, |f| format!(", {}", f.code));
            format!("{step}: {attempt} {what} {scheme} from {host}{failed}")
        }
        EventKind::SessionOpened { step, attempt, revision, failure, .. } => {
            let failed = failure.as_ref().map_or_else(String::new, |f| format!(", {}", f.code));
            let revision = revision.as_deref().unwrap_or("none");
            format!("{step}: {attempt} session {revision}{failed}")
        }
        EventKind::Warned { step, warning } => format!("{step}: warned {}", warning.code),
        EventKind::Retrying { step, attempt, .. } => format!("{step}: {attempt} failed, again"),
        EventKind::StepFinished { step, outputs, .. } => {
            format!("{step}: set {}", Value::Object(outputs.clone()))
        }
        EventKind::StepSkipped { step, reason } => format!("{step}: skipped, {reason}"),
        EventKind::StepFailed { step, error, .. } => format!("{step}: failed {}", error.code),
        EventKind::ErrorHandled { step, handler: by } => format!("{step}: handled, {by:?}"),
        EventKind::ApprovalRequested { step, id, .. } => format!("{step}: needs approval {id}"),
        EventKind::RunWaiting { error } => format!("waiting {}", error.code),
        EventKind::RunFinished { status, output, error, .. } => {
            let output = output.as_ref().map_or_else(String::new, |o| format!(" {o}"));
            let code = error.as_ref().map_or_else(String::new, |e| format!(" {}", e.code));
            format!("{}{output}{code}", status.as_str())
        }
    };
    events.iter().map(line).collect()
}

/// The ids of the requests of a step, in order.
pub(crate) fn execution_ids(events: &[RunEvent], of: &str) -> Vec<Uuid> {
    let id = |event: &RunEvent| match &event.kind {
        EventKind::Sending { step, execution_id, .. } if step == of => Some(*execution_id),
        _ => None,
    };
    events.iter().filter_map(id).collect()
}

#[track_caller]
pub(crate) fn assert_gapless(events: &[RunEvent]) {
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event.seq, index as u64 + 1);
    }
}

#[track_caller]
pub(crate) fn assert_succeeded(run: &Run) {
    assert_eq!(run.status, RunStatus::Succeeded, "{:?}", run.error);
}

// ---- Documents ----

/// A document with a header that the test does not care about, its checksum filled in.
pub(crate) fn document(name: &str, version: &str, rest: &Value) -> Vec<u8> {
    let mut members = json!({ "version": version });
    members.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    fixture_document(name, &members).into_bytes()
}

/// A step of [`http_step`] at the usual host.
pub(crate) fn task(id: &str, call: &str, inputs: Value, outputs: Value) -> Value {
    http_step("api.example", id, call, inputs, outputs)
}

/// A step that calls a tool of the server of MCP at `/mcp`.
pub(crate) fn tool(id: &str, arguments: Value, outputs: Value) -> Value {
    json!({
        "id": id,
        "format": "MCP",
        "task": {"server": "https://api.example/mcp", "tool": id},
        "input_mapping": {"arguments": arguments},
        "output_mapping": outputs,
    })
}

/// A step with more fields.
pub(crate) fn with(mut step: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("{more}") };
    step.as_object_mut().unwrap().extend(more);
    step
}

/// An execution of steps one after another.
pub(crate) fn sequence(steps: Value) -> Value {
    json!({"type": "sequence", "steps": steps})
}

// ---- The service ----

/// What the service was asked: `GET /echo/x`, and the body.
pub(crate) type Asked = (String, Value);

#[derive(Default)]
pub(crate) struct ServiceDouble {
    asked: Mutex<Vec<Asked>>,
    /// The same with everything that was sent: address and headers.
    heard: Mutex<Vec<String>>,
    /// How many requests are being answered, and how many were at the most.
    busy: AtomicU64,
    busiest: AtomicU64,
    /// Paths under `/hold` that may be answered.
    released: Mutex<BTreeMap<String, usize>>,
    changed: Notify,
    meeting: Mutex<Option<Arc<Barrier>>>,
    /// Answers for `/script`, in order.
    script: Mutex<VecDeque<(u16, Value)>>,
    /// What other paths answer.
    answers: Mutex<BTreeMap<String, Value>>,
}

impl ServiceDouble {
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Address and headers of every request, as text.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    /// The most requests that were answered at the same time.
    pub(crate) fn busiest(&self) -> u64 {
        self.busiest.load(Ordering::SeqCst)
    }

    /// How often a method and path were asked for.
    pub(crate) fn count(&self, call: &str) -> usize {
        self.asked().iter().filter(|(asked, _)| asked == call).count()
    }

    /// Waits until a call has arrived `times` times.
    pub(crate) async fn arrived(&self, call: &str, times: usize) {
        self.until(|| self.count(call) >= times, "the request arrives").await;
    }

    /// Waits until no request is being answered: one whose sender has crashed is not at once known
    /// to be, and would take what is released for its successor.
    pub(crate) async fn idle(&self) {
        self.idle_but(0).await;
    }

    /// The same for all but so many.
    pub(crate) async fn idle_but(&self, most: u64) {
        let is_idle = || self.busy.load(Ordering::SeqCst) <= most;
        self.until(is_idle, "every request is answered or given up").await;
    }

    async fn until(&self, is_so: impl Fn() -> bool, what: &str) {
        let wait = async {
            loop {
                let changed = self.changed.notified();
                let mut changed = std::pin::pin!(changed);
                changed.as_mut().enable();
                if is_so() {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect(what);
    }

    /// Lets one request to `/hold/NAME` be answered.
    pub(crate) fn release(&self, name: &str) {
        *self.released.lock().unwrap().entry(name.to_owned()).or_default() += 1;
        self.changed.notify_waiters();
    }

    /// Takes back what was released and not used.
    pub(crate) fn forget_releases(&self) {
        self.released.lock().unwrap().clear();
    }

    /// Lets `/meet` answer when so many have come.
    pub(crate) fn let_meet(&self, number: usize) {
        *self.meeting.lock().unwrap() = Some(Arc::new(Barrier::new(number)));
    }

    pub(crate) fn script(&self, answers: impl IntoIterator<Item = (u16, Value)>) {
        self.script.lock().unwrap().extend(answers);
    }

    /// Sets what a path answers.
    pub(crate) fn answer(&self, path: &str, answer: Value) {
        self.answers.lock().unwrap().insert(path.to_owned(), answer);
    }

    async fn hold(&self, name: &str) {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if let Some(left @ 1..) = self.released.lock().unwrap().get_mut(name) {
                *left -= 1;
                return;
            }
            changed.await;
        }
    }
}

/// Counts a request as long as it is being answered.
struct Busy(Arc<ServiceDouble>);

impl Busy {
    fn begin(service: &Arc<ServiceDouble>) -> Self {
        let busy = service.busy.fetch_add(1, Ordering::SeqCst) + 1;
        service.busiest.fetch_max(busy, Ordering::SeqCst);
        Self(Arc::clone(service))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }
}

/// Answers by path: `/echo/X` gives X, `/hold/X` waits until it is released, `/meet/X` until all
/// have come, `/status/N` fails with that status, `/script` gives what was scripted, `/even/N` fails
/// for odd numbers, `/hop/N/X` redirects to `/X` with status N, `/mcp` is a server of MCP whose tools give their arguments, and `/mcp/X` one
/// that waits until `X` is released. Each answer has the number of the request in `X-Number`.
async fn answer_task(
    State(service): State<Arc<ServiceDouble>>,
    method: Method,
    uri: http::Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let _busy = Busy::begin(&service);
    service.heard.lock().unwrap().push(format!("{method} {uri} {headers:?}"));
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let number = {
        let mut asked = service.asked.lock().unwrap();
        asked.push((format!("{method} {}", uri.path()), body.clone()));
        asked.len()
    };
    service.changed.notify_waiters();
    let path = percent_encoding::percent_decode_str(&uri.path()[1..]).decode_utf8_lossy();
    let (kind, name) = path.split_once('/').unwrap_or((&path, ""));
    match kind {
        "hold" => service.hold(name).await,
        "meet" => {
            let meeting = service.meeting.lock().unwrap().clone().unwrap();
            meeting.wait().await;
        }
        "status" => {
            let status = StatusCode::from_u16(name.parse().unwrap()).unwrap();
            return (status, axum::Json(json!({"error": "no luck"}))).into_response();
        }
        "mcp" => {
            if !name.is_empty() {
                service.hold(name).await;
            }
            let content = json!({"body": body["params"]["arguments"]});
            let result = json!({"content": [], "structuredContent": content});
            let answer = json!({"jsonrpc": "2.0", "id": body["id"], "result": result});
            return axum::Json(answer).into_response();
        }
        "hop" => {
            let (status, location) = name.split_once('/').unwrap();
            let status = StatusCode::from_u16(status.parse().unwrap()).unwrap();
            return (status, [("location", format!("/{location}"))]).into_response();
        }
        "page" => return axum::response::Html("<h1>Welcome</h1>").into_response(),
        "script" => {
            let (status, answer) = service.script.lock().unwrap().pop_front().unwrap();
            let status = StatusCode::from_u16(status).unwrap();
            return (status, axum::Json(answer)).into_response();
        }
        "even" if name.parse::<u32>().unwrap() % 2 == 1 => {
            let refused = json!({"error": format!("{name} is odd")});
            return (StatusCode::UNPROCESSABLE_ENTITY, axum::Json(refused)).into_response();
        }
        _ => {}
    }
    let set = service.answers.lock().unwrap().get(uri.path()).cloned();
    let answer = set.unwrap_or_else(|| json!({"value": name, "number": number, "body": body}));
    ([("x-number", number.to_string())], axum::Json(answer)).into_response()
}

/// The member `name` of a run's output.
pub(crate) fn output(run: &Run) -> Map<String, Value> {
    run.output.as_ref().and_then(Value::as_object).cloned().unwrap_or_default()
}
