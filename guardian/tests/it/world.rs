//! Messages, and a guardian that listens.

use aos::message::{
    Agent, AgentProvider, Limits, Request, Session, StepContext, TextPart, ToolArgumentValue,
    ToolCallRequest, ToolCallRequestStep, ToolCallResultStep, ToolResult,
};
use aos::{GuardianClient, Options};
use axum::body::{Body, to_bytes};
use axum::http::Request as HttpRequest;
use guardian::{App, Config, PolicySource};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tempfile::TempDir;
use tower::ServiceExt as _;
use url::Url;

/// When tests begin.
pub(crate) const NOW: &str = "2026-05-06T07:08:09Z";

pub(crate) fn context() -> StepContext {
    let provider = AgentProvider::new("Example".to_owned(), "https://example.org/".to_owned());
    let [id, name, instructions, version] =
        ["agent-1", "Travel desk", "Help.", "1.0.0"].map(str::to_owned);
    let agent =
        Agent::new(id, name, instructions, version, provider, "https://agent.example/".to_owned());
    let mut context = StepContext::new(
        agent,
        Session::new("s-1".to_owned()),
        "t-1",
        "st-1",
        NOW.parse().unwrap(),
    );
    let capability = json!({"name": "PostWeatherTweet", "version": "1.0.0", "checksum": "sha256:00", "run": "r-1"});
    context.extra.insert("capability".to_owned(), capability.as_object().unwrap().clone());
    context
}

/// A call of `tool` with these inputs.
pub(crate) fn call(tool: &str, inputs: &Value) -> Request {
    let inputs = inputs.as_object().unwrap().iter();
    let inputs =
        inputs.map(|(name, value)| ToolArgumentValue::new(name.clone(), value.clone())).collect();
    let call = ToolCallRequest::new("x-1".to_owned(), tool.to_owned(), inputs);
    Request::new("q-1", ToolCallRequestStep::new(context(), call))
}

/// The result of `tool` with these outputs.
pub(crate) fn result(tool: &str, outputs: &[&str]) -> Request {
    let result = ToolResult::new(outputs.iter().copied().map(TextPart::new).collect(), false);
    let step = ToolCallResultStep::new(context(), "x-1", result);
    Request::new("q-1", ToolCallResultStep { tool_id: Some(tool.to_owned()), ..step })
}

/// Any method with these params beside the context.
pub(crate) fn message(method: &str, mut params: Value) -> Request {
    params["context"] = serde_json::to_value(context()).unwrap();
    let message = json!({"jsonrpc": "2.0", "id": "q-1", "method": method, "params": params});
    Request::from_slice(message.to_string().as_bytes(), Limits::default()).unwrap()
}

/// A guardian with a folder of its own.
pub(crate) struct World {
    pub(crate) app: App,
    pub(crate) registry: Registry,
    pub(crate) dir: TempDir,
    config: Config,
    /// Seconds since [`NOW`].
    clock: Arc<AtomicI64>,
}

/// A clock that is moved by hand.
fn open(config: Config, clock: &Arc<AtomicI64>, registry: &mut Registry) -> App {
    let clock = Arc::clone(clock);
    let now = move || {
        let since = jiff::SignedDuration::from_secs(clock.load(Ordering::Relaxed));
        NOW.parse::<jiff::Timestamp>().unwrap() + since
    };
    App::open(config, now, registry).unwrap()
}

impl World {
    pub(crate) fn new(policy: &str) -> Self {
        Self::with(PolicySource::Text(policy.to_owned()), |_| ())
    }

    pub(crate) fn with(policy: PolicySource, configure: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::new(policy, dir.path().join("guardian"));
        config.sync = false;
        configure(&mut config);
        let mut registry = Registry::default();
        let clock = Arc::default();
        let app = open(config.clone(), &clock, &mut registry);
        Self { app, registry, dir, config, clock }
    }

    /// Let time pass.
    pub(crate) fn wait(&self, seconds: i64) {
        self.clock.fetch_add(seconds, Ordering::Relaxed);
    }

    /// End it and begin it again over the same folder.
    pub(crate) fn restart(self) -> Self {
        let Self { app, dir, config, clock, .. } = self;
        drop(app);
        let mut registry = Registry::default();
        // The log is free once its thread has written everything and ended.
        let mut app = None;
        for _ in 0..1_000 {
            let path = config.audit_path();
            if std::fs::File::open(&path).unwrap().try_lock().is_ok() {
                app = Some(open(config.clone(), &clock, &mut registry));
                break;
            }
            std::thread::yield_now();
        }
        Self { app: app.unwrap(), registry, dir, config, clock }
    }

    /// What it answers to a message.
    pub(crate) async fn ask(&self, question: &Request) -> Value {
        let (_, answer) = self.send("POST", "/aos", None, question.to_vec()).await;
        answer["result"].clone()
    }

    /// What it answers to any request.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: Vec<u8>,
    ) -> (u16, Value) {
        let mut request = HttpRequest::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Body::from(body)).unwrap();
        let response = self.app.router().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 1 << 22).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    /// Serve it on a free port until the test ends.
    pub(crate) async fn serve(&self) -> Url {
        Url::parse(&format!("http://{}/", test_support::serve(self.app.router()).await)).unwrap()
    }

    pub(crate) async fn client(&self) -> GuardianClient {
        let url = self.serve().await.join("aos").unwrap();
        GuardianClient::new(url, Options::default()).unwrap()
    }

    /// The path of the audit log.
    pub(crate) fn log(&self) -> std::path::PathBuf {
        self.dir.path().join("guardian/audit.jsonl")
    }

    /// The records of the audit log, after its chain was checked.
    pub(crate) fn records(&self) -> Vec<Value> {
        let path = self.log();
        guardian::audit::verify(&path).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }
}
