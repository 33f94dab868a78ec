//! Stand-ins made from the tasks inside documents: real servers on loopback that hold every
//! request to the specification that it was written for.
//!
//! A request that does not fit is refused, and the refusal is kept for the test to see. One that
//! fits is answered by an example of the document, else by an example of the specification, else
//! by a value made up from the schema of the answer.

mod graphql;
mod mcp;
mod openapi;
mod schema;
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use a2s::{
    Capability, CapabilityExample, Document, Domain, ExampleResponse, InputLocation, OutputMapping,
    StepAction, Task, TaskInputs, VariableSource,
};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Map, Value, json};
use test_support::mock_services::MockServiceBuilder;

/// The largest request body that is read.
const MAX_BODY: usize = 1 << 20;

/// What is played: the steps that may send requests, and what came of it. The stand-ins of all
/// hosts share one.
#[derive(Clone, Default)]
pub(crate) struct Stage(Arc<Mutex<Play>>);

#[derive(Default)]
struct Play {
    lines: Vec<Line>,
    refusals: Vec<String>,
    reached: BTreeSet<(String, String)>,
    answered: BTreeSet<String>,
}

/// A task step that may send a request.
struct Line {
    document: String,
    step: String,
    task: Task,
    inputs: TaskInputs,
    outputs: Vec<OutputMapping>,
    given: Given,
    answer: Option<ExampleResponse>,
}

/// The variables of a step that are known before a run.
#[derive(Clone, Default)]
struct Given {
    values: Map<String, Value>,
    absent: BTreeSet<String>,
}

/// A request as a stand-in sees it.
struct Request {
    host: Domain,
    method: Method,
    path: String,
    query: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

/// What a request gives for each place of a task.
type Values = BTreeMap<InputLocation, Value>;

/// Why a request is none of a task.
enum Misfit {
    /// It goes elsewhere.
    Elsewhere,
    /// It goes there, but is wrong.
    Wrong(String),
}

impl Stage {
    /// A stand-in for each host.
    pub(crate) fn services(
        &self,
        hosts: impl IntoIterator<Item = Domain>,
    ) -> Vec<MockServiceBuilder> {
        let service = |host: Domain| {
            let state = (self.clone(), host.clone());
            MockServiceBuilder::new(host, Router::new().fallback(serve).with_state(state))
        };
        hosts.into_iter().map(service).collect()
    }

    /// Prepares for a run of `name`: with `example`, or with anything.
    pub(crate) fn set(
        &self,
        name: &str,
        example: Option<&CapabilityExample>,
        documents: &BTreeMap<String, Document>,
    ) {
        let mut lines = lines(documents[name].capability(), example);
        for below in used(documents[name].capability(), documents) {
            // The requests of the examples of a capability that is used get the answers that they
            // have there; others are answered all the same.
            lines.extend(
                below.examples.iter().flat_map(|example| self::lines(below, Some(example))),
            );
            lines.extend(self::lines(below, None));
        }
        let mut play = self.play();
        play.lines = lines;
        play.answered.clear();
    }

    /// Holds the requests of a step to another specification than that of its document. What it
    /// sends may be spelt differently there, so the inputs are not compared.
    pub(crate) fn replace(&self, step: &str, task: &Task) {
        for line in self.play().lines.iter_mut().filter(|line| line.step == step) {
            line.task = task.clone();
            line.inputs.clear();
        }
    }

    /// What was refused so far, and why.
    pub(crate) fn refusals(&self) -> Vec<String> {
        self.play().refusals.clone()
    }

    /// The steps that have sent requests so far: document and id.
    pub(crate) fn reached(&self) -> BTreeSet<(String, String)> {
        self.play().reached.clone()
    }

    /// The answers of the example of `name` that were given since it was set.
    pub(crate) fn answered(&self) -> BTreeSet<String> {
        self.play().answered.clone()
    }

    fn play(&self) -> MutexGuard<'_, Play> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The capabilities that a capability uses, directly or not.
fn used<'d>(
    capability: &Capability,
    documents: &'d BTreeMap<String, Document>,
) -> Vec<&'d Capability> {
    let mut found = BTreeMap::new();
    let mut waiting: Vec<_> = capability.dependencies.iter().collect();
    while let Some(dependency) = waiting.pop() {
        let below = documents[dependency.capability.as_str()].capability();
        if found.insert(below.name.as_str(), below).is_none() {
            waiting.extend(&below.dependencies);
        }
    }
    found.into_values().collect()
}

/// The task steps of a capability.
fn lines(capability: &Capability, example: Option<&CapabilityExample>) -> Vec<Line> {
    let given = example.map_or_else(Given::default, |example| Given::of(capability, example));
    let mut lines = Vec::new();
    capability.for_each_step(|step| {
        if let StepAction::Task { task, inputs, outputs } = &step.action {
            lines.push(Line {
                document: capability.name.to_string(),
                step: step.id.to_string(),
                task: Task::clone(task),
                inputs: inputs.clone(),
                outputs: outputs.clone(),
                given: given.clone(),
                answer: example
                    .and_then(|example| example.answers.get(&step.id.clone().into()))
                    .cloned(),
            });
        }
    });
    lines
}

impl Given {
    fn of(capability: &Capability, example: &CapabilityExample) -> Self {
        let mut given = Self { values: example.inputs.clone(), absent: BTreeSet::new() };
        for parameter in &capability.parameters {
            if given.values.contains_key(&parameter.name) {
                continue;
            }
            match &parameter.default {
                Some(default) => {
                    given.values.insert(parameter.name.clone(), default.clone());
                }
                None => {
                    given.absent.insert(parameter.name.clone());
                }
            }
        }
        given
    }
}

impl VariableSource for Given {
    fn variable(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    fn is_absent(&self, name: &str) -> bool {
        self.absent.contains(name)
    }
}

impl Line {
    /// Document and step.
    fn key(&self) -> (String, String) {
        (self.document.clone(), self.step.clone())
    }

    /// Whether the request is one that this step sends, with the inputs that it is given.
    fn check(&self, request: &Request) -> Result<(), Misfit> {
        let values = match &self.task {
            Task::OpenApi(task) => openapi::check(task, request)?,
            Task::Graphql(task) => graphql::check(task, request)?,
            Task::Mcp(task) => mcp::check(task, request)?,
        };
        for (place, template) in &self.inputs {
            // What is not known before the run may be anything.
            let Ok(expected) = template.render_input(place, &self.given) else { continue };
            let sent = values.get(place).cloned();
            let expected = expected.filter(|value| !value.is_null());
            if !is_same(expected.as_ref(), sent.as_ref()) {
                let [expected, sent] = [expected, sent].map(Option::unwrap_or_default);
                return Err(Misfit::Wrong(format!("{place} should be {expected}, not {sent}")));
            }
        }
        Ok(())
    }

    fn answer(&self) -> Result<Response, String> {
        match &self.task {
            Task::OpenApi(task) => openapi::answer(task, self.answer.as_ref()),
            Task::Graphql(task) => graphql::answer(task, self.answer.as_ref(), &self.outputs),
            Task::Mcp(task) => mcp::answer(task, self.answer.as_ref()),
        }
    }
}

/// Whether a value arrived: a path or query tells no text from a number.
fn is_same(expected: Option<&Value>, sent: Option<&Value>) -> bool {
    match (expected, sent) {
        (None, None) => true,
        (Some(Value::Array(expected)), Some(Value::Array(sent))) => {
            let mut pairs = expected.iter().zip(sent);
            expected.len() == sent.len() && pairs.all(|(e, s)| is_same(Some(e), Some(s)))
        }
        (Some(Value::Object(expected)), Some(Value::Object(sent))) => {
            let mut members = expected.iter();
            expected.len() == sent.len() && members.all(|(k, e)| is_same(Some(e), sent.get(k)))
        }
        (Some(expected), Some(sent)) => text(expected) == text(sent),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

async fn serve(
    State((stage, host)): State<(Stage, Domain)>,
    request: axum::extract::Request,
) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, MAX_BODY).await.unwrap_or_default().to_vec();
    let request = Request {
        host,
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers,
        body,
    };
    let mut play = stage.play();
    play.answer(&request).unwrap_or_else(|reason| {
        let Request { host, method, path, query, .. } = &request;
        play.refusals.push(format!("{method} {host}{path}?{query}: {reason}"));
        (StatusCode::BAD_REQUEST, axum::Json(json!({ "refused": reason }))).into_response()
    })
}

impl Play {
    fn answer(&mut self, request: &Request) -> Result<Response, String> {
        let mut fitting: Vec<&Line> = Vec::new();
        let mut reasons = Vec::new();
        for line in &self.lines {
            match line.check(request) {
                Ok(()) => fitting.push(line),
                Err(Misfit::Elsewhere) => {}
                Err(Misfit::Wrong(reason)) => {
                    reasons.push(format!("{}.{}: {reason}", line.document, line.step));
                }
            }
        }
        // One that knows the answer comes first, then one that has not sent a request yet.
        fitting.sort_by_key(|line| (line.answer.is_none(), self.reached.contains(&line.key())));
        let Some(line) = fitting.first() else {
            let nothing = || "no step sends such a request".to_owned();
            return Err(if reasons.is_empty() { nothing() } else { reasons.join("; ") });
        };
        self.reached.insert(line.key());
        if line.answer.is_some() {
            self.answered.insert(line.step.clone());
        }
        line.answer().map_err(|reason| format!("{}.{}: {reason}", line.document, line.step))
    }
}

impl Request {
    /// The media type of the body, without its parameters.
    fn media_type(&self) -> String {
        let value = self.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let essence = value.unwrap_or_default().split(';').next().unwrap_or_default();
        essence.trim().to_ascii_lowercase()
    }

    fn json(&self) -> Result<Value, Misfit> {
        let not_json = |error| Misfit::Wrong(format!("the body is not JSON: {error}"));
        serde_json::from_slice(&self.body).map_err(not_json)
    }
}

/// The answer that an example gives, or a made-up one.
fn respond(
    status: u16,
    headers: &BTreeMap<String, String>,
    media_type: &str,
    body: Option<&Value>,
) -> Response {
    let is_json = a2s::MediaType::parse(media_type).is_some_and(|media| media.is_json());
    let bytes = match body {
        None => Vec::new(),
        Some(Value::String(text)) if !is_json => text.clone().into_bytes(),
        Some(value) => value.to_string().into_bytes(),
    };
    let mut response = Response::builder().status(status);
    if body.is_some() && !headers.keys().any(|name| name.eq_ignore_ascii_case("content-type")) {
        response = response.header(header::CONTENT_TYPE, media_type);
    }
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(bytes.into()).unwrap()
}
