//! Runs as traces: what services and the guardian are told, and what a receiver of OTLP gets.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2s::Secret;
use a2s_api::{EventKind, RunStatus};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::world::{
    World, assert_succeeded, call, cancel, deny, run, sequence, serve, task, until_recorded,
    wait_for, with,
};
use crate::config::{OtlpExport, TelemetryConfig};
use crate::{App, ErrorKind};

const GRACE: Duration = Duration::from_secs(10);
const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A receiver of OTLP: what it got, and what it is to answer.
#[derive(Default)]
struct Collector {
    got: Mutex<Vec<(HeaderMap, ExportTraceServiceRequest)>>,
    /// Statuses with bodies; 200 with nothing when there are none.
    answers: Mutex<VecDeque<(u16, Vec<u8>)>>,
    /// Whether it answers at all.
    silent: bool,
    arrived: Notify,
}

impl Collector {
    /// Makes it the receiver of a world.
    async fn of(self, world: &mut World) -> Arc<Self> {
        let collector = Arc::new(self);
        let routes = Router::new().fallback(Self::take).with_state(Arc::clone(&collector));
        let address = serve(routes).await;
        world.config.telemetry.spans = Some(OtlpExport {
            endpoint: format!("http://{address}/v1/traces").parse().unwrap(),
            headers: vec![("x-api-key".to_owned(), Secret::new("open-sesame"))],
        });
        world.config.telemetry.service = "test".to_owned();
        collector
    }

    async fn take(State(collector): State<Arc<Self>>, headers: HeaderMap, body: Bytes) -> Response {
        let request = ExportTraceServiceRequest::decode(body).unwrap();
        collector.got.lock().unwrap().push((headers, request));
        collector.arrived.notify_one();
        if collector.silent {
            std::future::pending::<()>().await;
        }
        let answer = collector.answers.lock().unwrap().pop_front();
        let (status, body) = answer.unwrap_or((200, Vec::new()));
        (StatusCode::from_u16(status).unwrap(), body).into_response()
    }

    fn spans(&self) -> Vec<Span> {
        let got = self.got.lock().unwrap();
        let resources = got.iter().flat_map(|(_, request)| &request.resource_spans);
        let scopes = resources.flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn find<'s>(span: &'s Span, name: &str) -> Option<&'s Any> {
    let found = span.attributes.iter().find(|attribute| attribute.key == name)?;
    found.value.as_ref()?.value.as_ref()
}

fn text(span: &Span, name: &str) -> String {
    match find(span, name) {
        Some(Any::StringValue(text)) => text.clone(),
        other => format!("{other:?}"),
    }
}

/// `name step < parent's name step` of each span, sorted: who is below whom.
fn arrows(spans: &[Span]) -> Vec<String> {
    let by_id: BTreeMap<&[u8], &Span> = spans.iter().map(|s| (&s.span_id[..], s)).collect();
    assert_eq!(by_id.len(), spans.len(), "an id was used twice");
    let called = |span: &Span| match find(span, "a2s.step") {
        Some(_) => format!("{} {}", span.name, text(span, "a2s.step")),
        None => span.name.clone(),
    };
    let arrow = |span: &Span| {
        let parent = by_id.get(&span.parent_span_id[..]).map(|parent| called(parent));
        let parent = parent.unwrap_or_else(|| hex(&span.parent_span_id));
        format!("{} < {parent}", called(span))
    };
    let mut arrows: Vec<_> = spans.iter().map(arrow).collect();
    arrows.sort();
    arrows
}

/// A header of each request that the service got, in order; empty where there was none.
fn heard(world: &World, name: &str) -> Vec<String> {
    let start = format!("\"{name}\": \"");
    let value = |heard: String| {
        let behind = heard.split_once(&start).map(|(_, behind)| behind.to_owned());
        behind.and_then(|text| Some(text.split_once('"')?.0.to_owned())).unwrap_or_default()
    };
    world.service.heard().into_iter().map(value).collect()
}

/// The headers that lead to the attempts among the spans, sorted.
fn parents(spans: &[Span]) -> Vec<String> {
    let attempts = spans.iter().filter(|span| find(span, "http.request.method").is_some());
    let mut parents: Vec<_> = attempts
        .map(|span| format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id)))
        .collect();
    parents.sort();
    parents
}

fn metric(world: &World, status: &str) -> u64 {
    let start = format!("spans_total{{status=\"{status}\"}} ");
    let metrics = world.metrics();
    let line = metrics.lines().find_map(|line| line.strip_prefix(&start));
    line.map_or(0, |count| count.parse().unwrap())
}

#[tokio::test]
async fn receiver_gets_spans_and_services_get_their_parents() {
    let mut world = World::new().await;
    let collector = Collector::default().of(&mut world).await;
    world.registry.publish("Inner", "1.0.0", &json!({
        "execution": sequence(json!([task("get", "GET /echo/in", json!({}), json!({"inner": "$.value"}))])),
    }));
    let each = with(
        task("each", "GET /echo/{n}", json!({"n": "${n}"}), json!({"said": "$.value"})),
        json!({"for_each": {"in": "${words}", "as": "n"}}),
    );
    world.registry.publish_newer("Outer", &json!({
        "dependencies": [{"capability": "Inner", "version": "*"}],
        "execution": {"type": "parallel", "steps": [
            each,
            {"id": "use", "type": "capability", "use": "Inner", "output_mapping": {"got": "$.inner"}},
            task("busy", "GET /script", json!({}), json!({"late": "$.value"})),
        ]},
    }));
    world.service.script([(503, json!({})), (200, json!({"value": 1}))]);
    let app = world.open().await;

    let run = run(&app, "Outer", json!({"words": ["x", "y"]})).await;
    assert_succeeded(&run);
    app.shutdown(GRACE).await;

    let spans = collector.spans();
    assert_eq!(
        arrows(&spans),
        [
            "GET < execute_tool Inner.get use/get",
            "GET < execute_tool Outer.busy busy",
            "GET < execute_tool Outer.busy busy",
            "GET < execute_tool Outer.each each[0]",
            "GET < execute_tool Outer.each each[1]",
            "a2s.capability use < acs.turn",
            "a2s.for_each each < acs.turn",
            "acs.tool.result < execute_tool Inner.get use/get",
            "acs.tool.result < execute_tool Outer.busy busy",
            "acs.tool.result < execute_tool Outer.each each[0]",
            "acs.tool.result < execute_tool Outer.each each[1]",
            "acs.turn < ",
            "execute_tool Inner.get use/get < a2s.capability use",
            "execute_tool Outer.busy busy < acs.turn",
            "execute_tool Outer.each each[0] < a2s.for_each each",
            "execute_tool Outer.each each[1] < a2s.for_each each",
        ]
    );
    assert!(spans.iter().all(|span| hex(&span.trace_id) == run.id.simple().to_string()));
    let mut told = heard(&world, "traceparent");
    told.sort();
    assert_eq!(told, parents(&spans));
    // The guardian is asked on behalf of steps.
    let steps: Vec<_> =
        spans.iter().filter(|span| span.name.starts_with("execute_tool ")).collect();
    for trace in world.guardian.headers("traceparent") {
        let trace = trace.unwrap();
        assert!(steps.iter().any(|span| trace.contains(&hex(&span.span_id))), "{trace}");
    }
    assert_eq!(world.guardian.headers("traceparent").len(), 2 * steps.len());
    let names: Vec<_> = steps.iter().map(|span| text(span, "gen_ai.tool.name")).collect();
    assert!(names.contains(&"Inner.get".to_owned()), "{names:?}");
    assert_eq!(metric(&world, "exported"), spans.len() as u64);
    let got = collector.got.lock().unwrap();
    let (headers, request) = &got[0];
    assert_eq!(headers["content-type"], "application/x-protobuf");
    assert_eq!(headers["x-api-key"], "open-sesame");
    let resource = request.resource_spans[0].resource.as_ref().unwrap();
    assert_eq!(resource.attributes[0].key, "service.name");
    assert!(format!("{:?}", resource.attributes[0].value).contains("test"));
}

fn one_step() -> Value {
    json!({"execution": sequence(json!([task("a", "GET /hold/a", json!({}), json!({"x": "$.value"}))]))})
}

#[tokio::test]
async fn the_trace_of_a_caller_goes_on_behind_a_crash() {
    let mut world = World::new().await;
    let collector = Collector::default().of(&mut world).await;
    world.registry.publish("Held", "1.0.0", &one_step());
    let app = world.open().await;
    let headers = [("traceparent", CALLER), ("tracestate", "vendor=1")];
    let body = json!({"name": "Held"});
    let id = call(&app, Method::POST, "/v1/executions", &headers, body).await.run().id;
    world.service.arrived("GET /hold/a", 1).await;
    until_recorded(&app, id, "GET /hold/a", 1).await;
    world.crash(app).await;
    world.pass(Duration::from_secs(60));

    let app = world.open().await;
    world.service.arrived("GET /hold/a", 2).await;
    world.service.release("a");
    world.service.release("a");
    wait_for(&app, id, |kind| matches!(kind, EventKind::RunFinished { .. })).await;
    app.shutdown(GRACE).await;

    let spans = collector.spans();
    assert_eq!(
        arrows(&spans),
        [
            "GET < execute_tool Held.a a",
            "GET < execute_tool Held.a a",
            "acs.tool.result < execute_tool Held.a a",
            "acs.turn < 00f067aa0ba902b7",
            "execute_tool Held.a a < acs.turn",
        ]
    );
    let mut told = heard(&world, "traceparent");
    told.sort();
    assert_eq!(told, parents(&spans));
    assert!(told.iter().all(|parent| parent.contains("4bf92f3577b34da6a3ce929d0e0e4736")));
    assert_eq!(heard(&world, "tracestate"), ["vendor=1", "vendor=1"]);
    assert!(spans.iter().all(|span| span.trace_state == "vendor=1"));
    // Sampled, and its parent is known to be elsewhere.
    let root = spans.iter().find(|span| span.name == "acs.turn").unwrap();
    assert_eq!(root.flags, 0x301);
}

#[tokio::test]
async fn unsampled_trace_is_propagated_and_not_exported() {
    let mut world = World::new().await;
    let collector = Collector::default().of(&mut world).await;
    world.registry.publish("Echo", "1.0.0", &echo(json!({}), json!([])));
    let app = world.open().await;
    let parent = CALLER.replace("-01", "-00");
    let body = json!({"name": "Echo", "wait": true});
    let headers = [("traceparent", parent.as_str())];
    assert_succeeded(&call(&app, Method::POST, "/v1/executions", &headers, body).await.run());
    app.shutdown(GRACE).await;
    let [told] = &heard(&world, "traceparent")[..] else { panic!() };
    assert!(told.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && told.ends_with("-00"));
    assert_eq!(collector.spans(), []);
}

fn echo(inputs: Value, parameters: Value) -> Value {
    let mut step = task("a", "GET /echo/a", inputs, json!({"x": "$.value"}));
    step["task"]["paths"]["/echo/a"]["get"]["parameters"] = parameters;
    json!({"execution": sequence(json!([step]))})
}

#[tokio::test]
async fn a_document_that_speaks_of_traces_itself_is_left_alone() {
    let mut world = World::new().await;
    let header = json!([{"name": "TraceParent", "in": "header", "schema": {"type": "string"}}]);
    let own = json!({"headerParameters": {"TraceParent": "mine"}});
    world.registry.publish("Own", "1.0.0", &echo(own, header.clone()));
    world.registry.publish("Unset", "1.0.0", &echo(json!({}), header));
    world.registry.publish("Plain", "1.0.0", &echo(json!({}), json!([])));
    let app = world.open().await;
    for name in ["Own", "Unset", "Plain"] {
        assert_succeeded(&run(&app, name, json!({})).await);
    }
    let told = heard(&world, "traceparent");
    assert_eq!(told[..2], ["mine", ""]);
    // Nobody records it, and it leads to the run all the same.
    assert!(told[2].ends_with("-00"), "{told:?}");
    app.shutdown(GRACE).await;

    // No service is told unless the configuration says so; guardians are.
    world.config.telemetry = TelemetryConfig::default();
    let app = world.open().await;
    let before = world.guardian.headers("traceparent").len();
    assert_succeeded(&run(&app, "Plain", json!({})).await);
    assert_eq!(
        [heard(&world, "traceparent")[3].as_str(), &heard(&world, "tracestate")[3]],
        ["", ""]
    );
    assert!(world.guardian.headers("traceparent")[before..].iter().all(Option::is_some));
}

#[tokio::test]
async fn redirects_carry_the_trace_only_when_enabled() {
    let mut world = World::new().await;
    let steps = json!([task("a", "GET /hop/302/echo/end", json!({}), json!({"x": "$.value"}))]);
    world.registry.publish("Hop", "1.0.0", &json!({"execution": sequence(steps)}));
    for (propagate, carried) in [(true, [true, true]), (false, [false, false])] {
        world.config.telemetry.propagate = propagate;
        let before = heard(&world, "traceparent").len();
        let app = world.open().await;
        assert_succeeded(&run(&app, "Hop", json!({})).await);
        app.shutdown(GRACE).await;
        let told = heard(&world, "traceparent");
        let told: Vec<_> = told[before..].iter().map(|trace| !trace.is_empty()).collect();
        assert_eq!(told, carried, "{propagate}");
    }
}

/// Runs something for a receiver, and gives the executor when the run is over.
async fn run_for(world: &World) -> App {
    world.registry.publish("Echo", "1.0.0", &echo(json!({}), json!([])));
    let app = world.open().await;
    assert_succeeded(&run(&app, "Echo", json!({})).await);
    app
}

/// The spans of what [`run_for`] runs.
const SPANS: u64 = 4;

#[tokio::test]
async fn a_receiver_that_is_not_there_changes_nothing_for_a_run() {
    let mut world = World::new().await;
    Collector::default().of(&mut world).await;
    world.config.telemetry.spans.as_mut().unwrap().endpoint = World::nowhere();
    run_for(&world).await.shutdown(GRACE).await;
    assert_eq!((metric(&world, "exported"), metric(&world, "dropped")), (0, SPANS));
}

#[tokio::test]
async fn a_receiver_that_never_answers_changes_nothing_for_a_run() {
    let mut world = World::new().await;
    let collector = Collector { silent: true, ..Collector::default() }.of(&mut world).await;
    let app = run_for(&world).await;
    collector.arrived.notified().await;
    // Others go on while it is waited for.
    assert_succeeded(&run(&app, "Echo", json!({})).await);
    assert_eq!(collector.got.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn busy_receiver_is_retried_and_refusing_one_is_not() {
    for (answers, exported, attempts) in [
        (vec![(503, Vec::new()), (200, Vec::new())], SPANS, 2),
        (vec![(400, vec![b'x'; 1 << 20])], 0, 1),
        // More than anybody reads, and no protobuf at all.
        (vec![(200, vec![b'x'; 1 << 20])], SPANS, 1),
        (vec![(200, vec![0xff; 64])], SPANS, 1),
        (vec![(200, refusal(1))], SPANS - 1, 1),
        (vec![(200, refusal(i64::MAX))], 0, 1),
        (vec![(200, refusal(-1))], SPANS, 1),
        (vec![(307, Vec::new())], 0, 1),
    ] {
        let mut world = World::new().await;
        let told = format!("{:?}", answers.iter().map(|(status, _)| status).collect::<Vec<_>>());
        let collector = Collector { answers: Mutex::new(answers.into()), ..Collector::default() };
        let collector = collector.of(&mut world).await;
        run_for(&world).await.shutdown(GRACE).await;
        let counts = (metric(&world, "exported"), metric(&world, "dropped"));
        assert_eq!(counts, (exported, SPANS - exported), "{told}");
        assert_eq!(collector.got.lock().unwrap().len(), attempts, "{told}");
    }
}

fn refusal(rejected_spans: i64) -> Vec<u8> {
    let partial = ExportTracePartialSuccess { rejected_spans, error_message: "no".to_owned() };
    ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec()
}

#[tokio::test]
async fn spans_tell_names_and_codes_and_never_values() {
    let mut world = World::new().await;
    let collector = Collector::default().of(&mut world).await;
    world.guardian.decide(|_| deny());
    let step = task("say", "POST /say", json!({"body": {"text": "${words}"}}), json!({"x": "$.x"}));
    world.registry.publish("Say", "1.0.0", &json!({"execution": sequence(json!([step]))}));
    let app = world.open().await;
    let denied = run(&app, "Say", json!({"words": "plain words"})).await;
    assert_eq!(denied.status, RunStatus::Denied);
    app.shutdown(GRACE).await;

    let spans = collector.spans();
    let told = format!("{spans:?}");
    assert!(!told.contains("plain words"), "{told}");
    let call = spans.iter().find(|span| span.name.starts_with("execute_tool ")).unwrap();
    let status = call.status.as_ref().unwrap();
    let code = ErrorKind::GuardianDeniedRequest.code().id;
    assert_eq!((status.code, status.message.as_str()), (2, code));
    assert_eq!(text(call, "error.type"), code);
    let decision = &call.events[0];
    assert_eq!(decision.name, "acs.decision");
    // The guardian's own words, as the journal has them.
    let why = decision.attributes.iter().find(|attribute| attribute.key == "acs.reasoning");
    assert!(format!("{why:?}").contains("not today"), "{decision:?}");
}

#[tokio::test]
async fn events_and_memories_are_spans_with_their_decisions() {
    let mut world = World::new().await;
    let collector = Collector::default().of(&mut world).await;
    let step = task("say", "POST /say", json!({"body": {"text": "${words}"}}), json!({"x": "$"}));
    world.registry.publish("Say", "1.0.0", &json!({"execution": sequence(json!([step]))}));
    let app = world.open().await;
    call(&app, Method::PUT, "/v1/state/words", &[], json!("plain words")).await;
    let trigger = async |id: &str| {
        let execution = json!({"name": "Say", "wait": true});
        let body = json!({"event": {"type": "email", "id": id}, "execution": execution});
        let headers = [("traceparent", CALLER)];
        call(&app, Method::POST, "/v1/triggers", &headers, body).await
    };
    assert_succeeded(&trigger("m1").await.run());
    world.guardian.decide(|_| deny());
    assert_eq!(trigger("m2").await.problem().1, "A2S345");
    app.shutdown(GRACE).await;

    let spans = collector.spans();
    let told = |span: &Span| {
        let decisions = span.events.iter().filter(|event| event.name == "acs.decision").count();
        let error = span.status.as_ref().map(|status| status.message.clone());
        format!("{} {decisions} {}", span.name, error.unwrap_or_default())
    };
    let mut asides: Vec<_> = spans
        .iter()
        .map(told)
        .filter(|told| told.contains("trigger") || told.contains("memory"))
        .collect();
    asides.sort();
    assert_eq!(
        asides,
        [
            "acs.agent.trigger 1 ",
            // Of what is refused there is no run.
            "acs.agent.trigger 1 refused",
            "acs.memory.retrieval 1 ",
            "acs.memory.store 1 ",
        ]
    );
    let (refused, spans): (Vec<_>, Vec<_>) = spans
        .into_iter()
        .partition(|span| span.status.as_ref().is_some_and(|status| status.message == "refused"));
    let find = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let root = find("acs.turn");
    assert!(root.events.is_empty(), "{root:?}");
    let event = find("acs.agent.trigger");
    assert_eq!(event.parent_span_id, root.span_id);
    assert_eq!(text(event, "acs.agent.id"), "a2s-executor");
    assert_eq!(text(event, "acs.trigger.type"), "external_event");
    assert_eq!(text(event, "a2s.trigger.event.id"), "m1");
    let memory = find("acs.memory.retrieval");
    assert_eq!(text(memory, "acs.memory_store.name"), "a2s.state");
    assert_eq!(text(memory, "acs.results.count"), "Some(IntValue(1))");
    let refused = &refused[0];
    assert_eq!(hex(&refused.parent_span_id), "00f067aa0ba902b7");
    assert_ne!(refused.span_id, event.span_id);
    assert!(!format!("{spans:?} {refused:?}").contains("plain words"));
}

#[tokio::test]
async fn a_run_that_waited_and_is_cancelled_is_a_trace_too() {
    let mut world = World::new().await;
    let collector = Collector::default().of(&mut world).await;
    let step = task("pay", "POST /hold/pay", json!({"body": {}}), json!({"x": "$.value"}));
    world.registry.publish("Pay", "1.0.0", &json!({"execution": sequence(json!([step]))}));
    let (app, id) = world.open_until("Pay", json!({}), "POST /hold/pay").await;
    world.crash(app).await;
    world.pass(Duration::from_secs(60));
    let app = world.open().await;
    wait_for(&app, id, |kind| matches!(kind, EventKind::RunWaiting { .. })).await;
    cancel(&app, id).await.run();
    app.shutdown(GRACE).await;
    let root = collector.spans().into_iter().find(|span| span.name == "acs.turn").unwrap();
    assert_eq!(text(&root, "a2s.run.status"), "cancelled");
    let events: Vec<_> = root.events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(events, ["a2s.resumed", "a2s.waiting"]);
}
