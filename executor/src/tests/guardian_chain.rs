//! Several guardians: in which order they are asked, whose word counts, and what each is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use a2s::Secret;
use a2s_api::{DecisionRecord, DecisionSource, EventKind, Run, RunStatus, StepPreview};
use axum::http::Method;
use serde_json::{Value, json};
use test_support::RecordingGuardian;
use tokio::net::TcpListener;

use super::world::{
    World, allow, assert_succeeded, call, deny, events, run, sequence, start_guardian, task, with,
};
use crate::{
    App, ErrorKind, FailMode, FailModes, GuardianConfig, GuardianHook, GuardianSettings,
    HttpEndpoint,
};

const REQUEST: &str = "steps/toolCallRequest";
const RESULT: &str = "steps/toolCallResult";

/// A world with a second guardian: `company` is asked first, then `team`.
async fn two() -> (World, Arc<RecordingGuardian>) {
    let mut world = World::new().await;
    let (team, mut config) = start_guardian().await;
    "company".clone_into(&mut world.guarded_by().name);
    "team".clone_into(&mut config.name);
    guardians(&mut world).push(config);
    publish(&world);
    (world, team)
}

fn guardians(world: &mut World) -> &mut Vec<GuardianConfig> {
    match &mut world.config.guardian {
        GuardianSettings::Chain(guardians) => guardians,
        GuardianSettings::Off => panic!("nobody guards"),
    }
}

/// A capability that says a word to a service, and gives back what that has made of it.
fn publish(world: &World) {
    let inputs = json!({"body": {"text": "${word}"}});
    let tell = task("tell", "POST /say", inputs, json!({"said": "$.body.text"}));
    let rest = json!({
        "parameters": [{"name": "word", "type": "string"}],
        "execution": sequence(json!([tell])),
        "output": "${said}",
    });
    world.registry.publish_newer("Tell", &rest);
}

async fn tell(app: &App, word: &str) -> Run {
    run(app, "Tell", json!({"word": word})).await
}

/// Guardian and decision of each, in order.
fn said(decisions: &[DecisionRecord]) -> Vec<(&str, &str)> {
    let said = decisions
        .iter()
        .map(|decision| (decision.guardian.as_deref().unwrap_or_default(), &*decision.decision));
    said.collect()
}

fn modify(modified: Value) -> Value {
    json!({"decision": "modify", "message": "softer", "modifiedRequest": modified})
}

/// Puts `add` behind what is said to the service, or behind what it has answered, once.
fn append(method: &'static str, add: &'static str) -> impl Fn(&Value) -> Value + Send + 'static {
    move |question| {
        if question["method"] != method {
            return allow();
        }
        let mut modified = question.clone();
        let params = &mut modified["params"];
        if method == REQUEST {
            let text = &mut params["toolCallRequest"]["inputs"][0]["value"]["text"];
            if text.as_str().unwrap().contains(add) {
                return allow();
            }
            *text = json!(format!("{}{add}", text.as_str().unwrap()));
        } else {
            let text = &mut params["toolCallResult"]["result"]["outputs"][0]["text"];
            let mut body: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
            let said = &mut body["body"]["text"];
            *said = json!(format!("{}{add}", said.as_str().unwrap()));
            *text = json!(body.to_string());
        }
        modify(modified)
    }
}

#[tokio::test]
async fn modifications_add_up_and_name_their_guardian() {
    let (world, team) = two().await;
    for (method, output, sent) in [(REQUEST, "hi, you!", "hi, you!"), (RESULT, "hi, you!", "hi")] {
        world.guardian.decide(append(method, ", you"));
        team.decide(append(method, "!"));
        let app = world.open().await;
        let before = world.service.asked().len();
        let run = tell(&app, "hi").await;
        assert_eq!(run.output, Some(json!(output)), "{method}");
        assert_eq!(world.service.asked()[before].1["text"], sent, "{method}");
        let decisions = &run.steps[0].decisions;
        let (changed, left) = ("modify", "allow");
        let expected =
            if method == REQUEST { vec![changed, left, left] } else { vec![left, changed] };
        let expected = expected.into_iter().flat_map(|said| [("company", said), ("team", said)]);
        assert_eq!(said(decisions), expected.collect::<Vec<_>>(), "{method}");
        // What each has changed is what it was shown and what it made of that.
        let changes: Vec<_> = decisions.iter().flat_map(|decision| &decision.changes).collect();
        let told: Vec<_> = changes.iter().map(|change| (&change.from, &change.to)).collect();
        if method == REQUEST {
            let text = |text: &str| json!({ "text": text });
            let [hi, you, all] = [text("hi"), text("hi, you"), text("hi, you!")];
            assert_eq!(told, [(&hi, &you), (&you, &all)]);
        } else {
            let [was, you, all] = ["(withheld)", "hi, you", "hi, you!"].map(|text| json!(text));
            assert_eq!(told, [(&was, &you), (&was, &all)]);
        }
        app.shutdown(std::time::Duration::ZERO).await;
    }
    // Both questions have one id and one execution: they are about one step.
    let (first, second) = (&world.guardian.asked()[0], &team.asked()[0]);
    for pointer in ["/id", "/params/toolCallRequest/executionId", "/params/context/capability"] {
        assert_eq!(first.pointer(pointer), second.pointer(pointer), "{pointer}");
    }
    // The second judges the request that the change of the first results in.
    let text = |question: &Value| {
        question.pointer("/params/context/request/body/text").cloned().unwrap_or_default()
    };
    assert_eq!([text(first), text(second)], [r#"{"text":"hi"}"#, r#"{"text":"hi, you"}"#]);
}

#[tokio::test]
async fn the_first_denial_wins_and_nobody_behind_it_is_asked() {
    let (world, team) = two().await;
    let app = world.open().await;
    world.guardian.decide(|_| deny());
    let run = tell(&app, "hi").await;
    assert_eq!(run.status, RunStatus::Denied);
    assert_eq!(said(&run.steps[0].decisions), [("company", "deny")]);
    let message = run.error.unwrap().message;
    assert_eq!(message, "the guardian `company` denied the request: not today");
    assert_eq!(team.asked(), [Value::Null; 0]);

    world.guardian.decide(append(REQUEST, ", you"));
    team.decide(|_| deny());
    let run = tell(&app, "hi").await;
    let error = run.error.unwrap();
    assert_eq!(error.code, "A2S340");
    assert_eq!(error.message, "the guardian `team` denied the request: not today");
    assert_eq!(said(&run.steps[0].decisions), [("company", "modify"), ("team", "deny")]);
    // It has judged what would have happened.
    let inputs = &team.asked()[0]["params"]["toolCallRequest"]["inputs"];
    assert_eq!(inputs[0]["value"]["text"], "hi, you");
    assert_eq!(world.service.asked(), []);
}

#[tokio::test]
async fn unusable_modification_is_a_denial_of_its_guardian() {
    let (world, team) = two().await;
    let app = world.open().await;
    world.guardian.decide(|question| {
        let mut modified = question.clone();
        modified["params"]["toolCallRequest"]["inputs"][0]["name"] = json!("queryParameters.none");
        modify(modified)
    });
    let run = tell(&app, "hi").await;
    let error = run.error.unwrap();
    assert_eq!(error.code, "A2S343");
    assert!(error.message.ends_with("(guardian `company`)"), "{}", error.message);
    assert_eq!(said(&run.steps[0].decisions), [("company", "deny")]);
    assert_eq!(run.steps[0].decisions[0].reason_codes, ["guardian_bad_modification"]);
    assert_eq!((team.asked(), world.service.asked()), (vec![], vec![]));

    // An event that the first would change into something that does not fit reaches nobody else.
    let trigger = async |inputs: Value| {
        world.guardian.decide(move |question| {
            let mut modified = question.clone();
            modified["params"]["trigger"]["content"][0]["data"] = inputs.clone();
            modify(modified)
        });
        let execution = json!({"name": "Tell", "inputs": {"word": "hi"}, "wait": true});
        let body = json!({"event": {"type": "email", "id": "1"}, "execution": execution});
        call(&app, Method::POST, "/v1/triggers", &[], body).await.problem().1
    };
    assert_eq!(trigger(json!({"word": 7})).await, "A2S343");
    assert_eq!(trigger(json!({"word": "hi", "more": 1})).await, "A2S343");
    // And neither does what it would leave of memory.
    world.guardian.decide(|question| {
        let mut modified = question.clone();
        modified["params"]["memory"] = json!([]);
        modify(modified)
    });
    let stored = call(&app, Method::PUT, "/v1/state/word", &[], json!("hi")).await;
    assert_eq!(stored.problem().1, "A2S343");
    assert_eq!(team.asked(), [Value::Null; 0]);
}

#[tokio::test]
async fn each_guardian_fails_in_its_own_way_hook_by_hook() {
    let own = |hook, mode| FailModes { default: FailMode::Closed, by_hook: [(hook, mode)].into() };
    for (away, status, expected) in [
        // The first may be silent about requests alone; the second is asked all the same.
        (0, RunStatus::Denied, vec![("company", "allow"), ("team", "allow"), ("company", "deny")]),
        (1, RunStatus::Denied, vec![("company", "allow"), ("team", "deny")]),
    ] {
        let (mut world, _) = two().await;
        guardians(&mut world)[0].fail = own(GuardianHook::ToolCallRequest, FailMode::Open);
        guardians(&mut world)[1].fail = own(GuardianHook::ToolCallResult, FailMode::Open);
        guardians(&mut world)[away].endpoint = World::silent();
        let app = world.open().await;
        let run = tell(&app, "hi").await;
        assert_eq!(run.status, status, "{away}");
        assert_eq!(run.error.as_ref().unwrap().code, "A2S342", "{away}");
        let decisions = &run.steps[0].decisions;
        assert_eq!(said(decisions), expected, "{away}");
        let failed = |decision: &&DecisionRecord| decision.source != DecisionSource::Guardian;
        let failed: Vec<_> = decisions.iter().filter(failed).collect();
        let name = ["company", "team"][away];
        assert!(failed.iter().all(|d| d.guardian.as_deref() == Some(name)), "{decisions:?}");
        assert!(run.error.unwrap().message.contains(&format!("(guardian `{name}`)")));
        let text = world.metrics();
        let failure = format!(
            "guardian_failures_total{{hook=\"{REQUEST}\",guardian=\"{name}\",\
             reason=\"guardian_unreachable\"}} 1"
        );
        assert!(text.contains(&failure), "{text}");
        app.shutdown(std::time::Duration::ZERO).await;
    }
}

#[tokio::test]
async fn what_one_guardian_took_away_no_other_brings_back() {
    let (world, team) = two().await;
    let inputs = json!({"body": {"text": "${word}", "pin": "${pin}"}});
    let rest = json!({
        "parameters": [
            {"name": "word", "type": "string"},
            {"name": "pin", "type": "string", "secret": true},
        ],
        "execution": sequence(json!([task("tell", "POST /say", inputs, json!({"x": "$"}))])),
        "output": "${word}",
    });
    world.registry.publish_newer("Hush", &rest);
    let set_pin = |pin: &'static str| {
        move |question: &Value| {
            if question["method"] != REQUEST {
                return allow();
            }
            let mut modified = question.clone();
            modified["params"]["toolCallRequest"]["inputs"][0]["value"]["pin"] = json!(pin);
            modify(modified)
        }
    };
    let app = world.open().await;
    let given = json!({"word": "hi", "pin": "48151623"});
    // What both leave alone is the true value.
    world.guardian.decide(set_pin("(secret)"));
    team.decide(set_pin("(secret)"));
    assert_succeeded(&run(&app, "Hush", given.clone()).await);
    assert_eq!(world.service.asked()[0].1["pin"], "48151623");
    // What the first takes away is gone for the second, too.
    world.guardian.decide(set_pin("none"));
    team.decide(|_| allow());
    assert_succeeded(&run(&app, "Hush", given.clone()).await);
    assert_eq!(world.service.asked()[1].1["pin"], "none");
    team.decide(set_pin("(secret)"));
    assert_eq!(run(&app, "Hush", given.clone()).await.error.unwrap().code, "A2S343");
    assert_eq!(world.service.asked().len(), 2);

    // Of an event likewise.
    let set_content = |pin: &'static str| {
        move |question: &Value| {
            if question["method"] != "steps/agentTrigger" {
                return allow();
            }
            let mut modified = question.clone();
            modified["params"]["trigger"]["content"][0]["data"]["pin"] = json!(pin);
            modify(modified)
        }
    };
    world.guardian.decide(set_content("none"));
    team.decide(set_content("(secret)"));
    let execution = json!({"name": "Hush", "inputs": given, "wait": true});
    let body = json!({"event": {"type": "email", "id": "1"}, "execution": execution});
    let refused = call(&app, Method::POST, "/v1/triggers", &[], body).await;
    assert_eq!(refused.problem().1, "A2S343");

    // And a result that was made a failure stays one.
    world.guardian.decide(|question| {
        if question["method"] != RESULT {
            return allow();
        }
        let mut modified = question.clone();
        let outputs = json!({"outputs": [{"kind": "text", "text": "no"}], "isError": true});
        modified["params"]["toolCallResult"]["result"] = outputs;
        modify(modified)
    });
    team.decide(|question| {
        if question["method"] != RESULT {
            return allow();
        }
        let mut modified = question.clone();
        let outputs = json!({"outputs": [{"kind": "text", "text": "{}"}], "isError": false});
        modified["params"]["toolCallResult"]["result"] = outputs;
        modify(modified)
    });
    let run = tell(&app, "hi").await;
    assert_eq!((run.status, run.error.unwrap().code.as_str()), (RunStatus::Denied, "A2S343"));
}

#[tokio::test]
async fn each_guardian_gets_its_own_token_and_no_other() {
    let (mut world, team) = two().await;
    guardians(&mut world)[0].http().token = Some(Secret::new("of-the-company"));
    guardians(&mut world)[1].http().token = Some(Secret::new("of-the-team"));
    let app = world.open().await;
    assert_succeeded(&tell(&app, "hi").await);
    for (guardian, token) in [(&world.guardian, "of-the-company"), (&team, "of-the-team")] {
        let expected = Some(format!("Bearer {token}"));
        assert_eq!(guardian.headers("authorization"), [expected.clone(), expected]);
    }
}

#[tokio::test]
async fn plans_events_and_previews_name_every_guardian() {
    let (mut world, team) = two().await;
    world.guardian.set_policy("strict");
    team.set_policy("lax");
    guardians(&mut world)[1].fail = FailModes {
        default: FailMode::Closed,
        by_hook: [(GuardianHook::ToolCallResult, FailMode::Open)].into(),
    };
    team.decide(|question| if question["method"] == REQUEST { deny() } else { allow() });
    let app = world.open().await;
    let body = json!({"name": "Tell", "inputs": {"word": "hi"}, "preview": true});
    let plan = call(&app, Method::POST, "/v1/plans", &[], body).await.body;
    let addresses: Vec<_> = guardians(&mut world).iter().map(|g| g.address().unwrap()).collect();
    let guarding = json!([
        {"guardian": "company", "address": addresses[0], "fail_mode": "closed"},
        {
            "guardian": "team", "address": addresses[1], "fail_mode": "closed",
            "fail_mode_by_hook": {RESULT: "open"},
        },
    ]);
    assert_eq!(plan["guardians"], guarding);
    assert_eq!(plan["policies"], json!({"company": "strict", "team": "lax"}));
    let preview: StepPreview = serde_json::from_value(plan["steps"][0]["preview"].clone()).unwrap();
    let StepPreview::Decided { decisions } = preview else { panic!("{plan}") };
    assert_eq!(said(&decisions), [("company", "allow"), ("team", "deny")]);
    // What is only planned is no decision about a step.
    assert!(!world.metrics().contains("decisions_total{"), "{}", world.metrics());

    let run = tell(&app, "hi").await;
    let events = events(&app, run.id).await;
    let EventKind::RunStarted(started) = &events[0].kind else { panic!() };
    assert_eq!(json!(started.guardians), guarding);
    let trace = crate::telemetry::trace_of(&events).unwrap();
    let told = format!("{trace:?}");
    for (name, value) in [
        ("a2s.guardian", "company, team"),
        ("a2s.guardian.fail", "closed; closed, open for steps/toolCallResult"),
        ("acs.evaluator", "company"),
        ("acs.evaluator", "team"),
    ] {
        assert!(told.contains(&format!("(\"{name}\", Text(\"{value}\"))")), "{name}: {told}");
    }
}

#[tokio::test]
async fn a_guardian_is_asked_over_one_connection() {
    let mut world = World::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/aos", listener.local_addr().unwrap());
    world.guarded_by().http().url = url.parse().unwrap();
    let opened = Arc::new(AtomicUsize::new(0));
    let counting = Counting { listener, opened: Arc::clone(&opened) };
    let routes = world.guardian.router();
    tokio::spawn(async move { axum::serve(counting, routes).await });
    let step = |id: &str| with(task(id, "GET /echo/x", json!({}), json!({id: "$"})), json!({}));
    let steps = ["a", "b", "c", "d"].map(step);
    world.registry.publish("Four", "1.0.0", &json!({"execution": sequence(json!(steps))}));
    let app = world.open().await;
    assert_succeeded(&run(&app, "Four", json!({})).await);
    assert_eq!(world.guardian.asked().len(), 8);
    assert_eq!(opened.load(Ordering::SeqCst), 1);
}

/// Counts the connections that were made.
struct Counting {
    listener: TcpListener,
    opened: Arc<AtomicUsize>,
}

impl axum::serve::Listener for Counting {
    type Io = tokio::net::TcpStream;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            if let Ok(connection) = self.listener.accept().await {
                self.opened.fetch_add(1, Ordering::SeqCst);
                return connection;
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

#[tokio::test]
async fn unusable_guardians_are_refused_at_start() {
    let world = World::new().await;
    let endpoint = |url: &str| HttpEndpoint::from(url.parse::<url::Url>().unwrap());
    let named = |name: &str| GuardianConfig {
        name: name.to_owned(),
        ..GuardianConfig::from_endpoint(endpoint("http://a.example/"))
    };
    let identity = |url: &str| {
        let file = || "/nowhere/at-all.pem".into();
        let identity = Some(crate::ExecutorCertificate { certificate: file(), key: file() });
        GuardianConfig::from_endpoint(HttpEndpoint { identity, ..endpoint(url) })
    };
    let authorities = |url: &str| {
        let authorities = Some(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml").into());
        GuardianConfig::from_endpoint(HttpEndpoint { authorities, ..endpoint(url) })
    };
    let no_time = GuardianConfig { timeout: std::time::Duration::ZERO, ..named("a") };
    let nine = (0..9).map(|n| named(&n.to_string())).collect();
    for (guardians, words) in [
        (vec![], "neither names a guardian nor turns the guardian off"),
        (nine, "the configuration has 9 guardians; at most 8 are allowed"),
        (vec![named("a"), named("b"), named("a")], "two guardians have the name `a`"),
        (vec![named("")], "a name must have 1 to 100 characters"),
        (vec![named("a\nb")], "no control characters"),
        (vec![no_time], "its timeout must be greater than zero"),
        (vec![identity("http://a.example/")], "an address that starts with https"),
        (vec![authorities("http://a.example/")], "an address that starts with https"),
        (vec![identity("https://a.example/")], "/nowhere/at-all.pem: No such file"),
        (vec![authorities("https://a.example/")], "must be certificates as PEM"),
    ] {
        let mut config = world.config.clone();
        config.guardian = GuardianSettings::Chain(guardians);
        let ids: Arc<dyn crate::RandomSource> = world.clock.clone();
        let clock: Arc<dyn crate::Clock> = world.clock.clone();
        let mut metrics = prometheus_client::registry::Registry::default();
        let error = App::open(config, clock, ids, &mut metrics).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Configuration, "{words}");
        assert!(error.message.contains(words), "{words}: {}", error.message);
    }
}

#[test]
fn hooks_are_known_by_their_names() {
    for hook in GuardianHook::ALL {
        let name = hook.as_str();
        assert_eq!(name.parse(), Ok(hook));
        let (_, short) = name.split_once('/').unwrap();
        assert_eq!(short.parse(), Ok(hook));
    }
    for text in ["", "steps/", "steps/message", "message", "toolcallrequest", "steps/MCP"] {
        let error = text.parse::<GuardianHook>().unwrap_err();
        assert!(error.contains("steps/toolCallResult"), "{error}");
    }
}
