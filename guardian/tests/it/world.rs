//! Messages, and a guardian that listens.

use aos::message::{
    Agent, AgentProvider, Limits, Request, Session, StepContext, TextPart, ToolArgumentValue,
    ToolCallRequest, ToolCallRequestStep, ToolCallResultStep, ToolResult,
};
use aos::{GuardianClient, Options};
use guardian::{App, Config, PolicySource};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tempfile::TempDir;
use url::Url;

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
    let capability = json!({"name": "PostWeatherTweet", "version": "1.0.0", "digest": "sha256:00", "run": "r-1"});
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
        let app = App::open(config, || NOW.parse().unwrap(), &mut registry).unwrap();
        Self { app, registry, dir }
    }

    /// Serve it on a free port until the test ends.
    pub(crate) async fn serve(&self) -> Url {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let router = self.app.router();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        url
    }

    pub(crate) async fn client(&self) -> GuardianClient {
        let url = self.serve().await.join("aos").unwrap();
        GuardianClient::new(url, Options::default()).unwrap()
    }

    /// The records of the audit log, after its chain was checked.
    pub(crate) fn records(&self) -> Vec<Value> {
        let path = self.dir.path().join("guardian/audit.jsonl");
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
