//! What a guardian says of a plan, and that nothing comes of it.

use a2s_api::{DecisionSource, PlanResponse, PlannedStepKind, StepPreview};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::world::{World, allow, call, deny, run, sequence, task, with};
use crate::{App, FailMode, GuardianSettings};

async fn preview(app: &App, name: &str, inputs: Value) -> PlanResponse {
    let body = json!({"name": name, "inputs": inputs, "preview": true});
    let answer = call(app, Method::POST, "/v1/plans", &[], body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    serde_json::from_value(answer.body).unwrap()
}

/// What is said of each step, those inside others included.
fn said(plan: &PlanResponse) -> Vec<(String, String)> {
    fn hear(step: &str, preview: Option<&StepPreview>, said: &mut Vec<(String, String)>) {
        let heard = match preview {
            None => return,
            Some(StepPreview::Decided { decisions }) => {
                assert_eq!(decisions.len(), 1);
                decisions[0].decision.to_string()
            }
            Some(StepPreview::Unknown { needs }) => format!("needs {}", needs.join(", ")),
            Some(StepPreview::NotAsked { reason }) => reason.clone(),
            Some(StepPreview::Each { items }) => {
                return items.iter().for_each(|item| hear(&item.step, Some(&item.preview), said));
            }
        };
        said.push((step.to_owned(), heard));
    }

    fn visit(steps: &[a2s_api::PlannedStep], said: &mut Vec<(String, String)>) {
        for step in steps {
            hear(&step.step, step.preview.as_ref(), said);
            match &step.kind {
                PlannedStepKind::Task { .. } => assert!(step.preview.is_some(), "{}", step.step),
                PlannedStepKind::Capability { steps, .. }
                | PlannedStepKind::Sequence { steps }
                | PlannedStepKind::Parallel { steps } => visit(steps, said),
                PlannedStepKind::Condition { if_true, if_false, .. } => {
                    visit(if_true, said);
                    visit(if_false, said);
                }
            }
            visit(&step.catch, said);
        }
    }
    let mut all = Vec::new();
    visit(&plan.steps, &mut all);
    all
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(step, said)| ((*step).to_owned(), (*said).to_owned())).collect()
}

/// A step of each kind of knowledge.
fn publish(world: &World) {
    let inner = sequence(json!([
        task("given", "GET /echo/{a}", json!({"a": "${a}"}), json!({})),
        task("defaulted", "GET /echo/{b}", json!({"b": "${b}"}), json!({})),
    ]));
    world.registry.publish_newer(
        "Inner",
        &json!({"parameters": [{"name": "a"}, {"name": "b", "default": "d"}], "execution": inner}),
    );
    let mapped = |id: &str, inputs: Value| json!({"id": id, "type": "capability", "use": "Inner", "input_mapping": inputs});
    let caught = task("caught", "POST /say", json!({"body": "${error.message}"}), json!({}));
    let each = with(
        task("each", "GET /echo/{x}", json!({"x": "${x}"}), json!({})),
        json!({"for_each": {"in": "${list}", "as": "x"}}),
    );
    let of_answers = with(
        task("ofAnswers", "GET /echo/{x}", json!({"x": "${x}"}), json!({})),
        json!({"for_each": {"in": ["${city}", "${heard}"], "as": "x"}}),
    );
    let nested = with(
        mapped("nested", json!({"a": "${x}", "b": "${heard}"})),
        json!({"for_each": {"in": "${list}", "as": "x"}}),
    );
    let mut execution = sequence(json!([
        with(
            task(
                "known",
                "GET /echo/{city}",
                json!({"city": "${city}"}),
                json!({"heard": "$.value"})
            ),
            json!({"catch": {"steps": [caught]}}),
        ),
        task("later", "POST /say", json!({"body": "${heard} of ${city}"}), json!({})),
        mapped("first", json!({"a": "${city}"})),
        mapped("second", json!({"a": "x", "b": "${heard}"})),
        each,
        of_answers,
        nested,
    ]));
    execution["variables"]["shared"]["heard"] = json!("string");
    world.registry.publish_newer(
        "Many",
        &json!({
            "dependencies": [{"capability": "Inner", "version": "^1"}],
            "parameters": [{"name": "city"}, {"name": "list"}],
            "execution": execution,
        }),
    );
}

#[tokio::test]
async fn preview_asks_the_guardian_and_sends_nothing() {
    let world = World::new().await;
    publish(&world);
    world.guardian.decide(|question| {
        let step = question["params"]["context"]["stepId"].as_str().unwrap();
        if matches!(step, "first/given" | "each[1]") { deny() } else { allow() }
    });
    let app = world.open().await;
    let inputs = json!({"city": "Paris", "list": ["u", "v"]});
    let plan = preview(&app, "Many", inputs.clone()).await;
    assert_eq!(
        said(&plan),
        pairs(&[
            ("known", "allow"),
            ("known/caught", "needs error"),
            ("later", "needs heard"),
            ("first/given", "deny"),
            ("first/defaulted", "allow"),
            ("second/given", "allow"),
            ("second/defaulted", "needs b"),
            ("each[0]", "allow"),
            ("each[1]", "deny"),
            ("ofAnswers", "needs x"),
            ("nested[0]/given", "allow"),
            ("nested[1]/given", "allow"),
            ("nested[0]/defaulted", "needs b"),
            ("nested[1]/defaulted", "needs b"),
        ])
    );
    // What comes from an earlier answer is shown as that, and not as the default in its place.
    let PlannedStepKind::Capability { steps, .. } = &plan.steps[3].kind else { panic!() };
    let PlannedStepKind::Task { inputs: shown, .. } = &steps[1].kind else { panic!() };
    assert_eq!(shown["pathParameters.b"], "${b}");

    let asked = world.guardian.asked();
    assert_eq!(asked.len(), 8);
    for question in &asked {
        assert_eq!(question["method"], "steps/toolCallRequest");
        let context = &question["params"]["context"];
        assert_eq!(context["capability"]["preview"], true);
        assert_eq!(context["capability"].get("run"), None, "there is no run");
        let reasoning = question["params"]["reasoning"].as_str().unwrap();
        assert!(reasoning.starts_with("Preview: the executor sends nothing. Step "), "{reasoning}");
    }
    // It has a token, whatever was said; and a run asks again, without the mark.
    assert!(world.service.asked().is_empty() && plan.token.is_some());
    let ended = run(&app, "Many", inputs).await;
    assert_eq!(ended.error.unwrap().step.as_deref(), Some("first/given"));
    let of_run = &world.guardian.asked()[8..];
    assert!(!of_run.is_empty());
    for question in of_run {
        let capability = &question["params"]["context"]["capability"];
        assert_eq!(capability["run"], json!(ended.id));
        assert_eq!(capability.get("preview"), None);
    }
    // Nobody is asked without being told to.
    let before = world.guardian.asked().len();
    let body = json!({"name": "Many", "inputs": {"city": "Paris", "list": []}});
    let plan = call(&app, Method::POST, "/v1/plans", &[], body).await;
    assert!(!plan.body.to_string().contains("\"preview\""));
    assert_eq!(world.guardian.asked().len(), before);
}

fn echo(world: &World, steps: usize) {
    let step = |n: usize| {
        let inputs = json!({"city": "${city}"});
        task(&format!("s{n}"), "GET /echo/{city}", inputs, json!({}))
    };
    let steps: Vec<_> = (0..steps).map(step).collect();
    world.registry.publish("Echo", "1.0.0", &json!({"execution": sequence(json!(steps))}));
}

#[tokio::test]
async fn a_modification_is_shown_and_changes_nothing() {
    let world = World::new().await;
    echo(&world, 1);
    world.guardian.decide(|question| {
        let mut modified = question.clone();
        modified["params"]["toolCallRequest"]["inputs"][0]["value"] = json!("Oslo");
        json!({
            "decision": "modify", "message": "elsewhere", "reasonCode": ["moved"],
            "modifiedRequest": modified,
        })
    });
    let app = world.open().await;
    let plan = preview(&app, "Echo", json!({"city": "Paris"})).await;
    let Some(StepPreview::Decided { decisions }) = &plan.steps[0].preview else { panic!() };
    // The request goes to another path, so the guardian is asked once more, and changes nothing then.
    let [decision, again] = &decisions[..] else { panic!("{decisions:?}") };
    assert_eq!((&*again.decision, again.changes.len()), ("modify", 0));
    assert_eq!((&*decision.decision, &*decision.message), ("modify", "elsewhere"));
    assert_eq!(decision.reason_codes, ["moved"]);
    let change = &decision.changes[0];
    assert_eq!(
        (change.name.as_str(), &change.from, &change.to),
        ("pathParameters.city", &json!("Paris"), &json!("Oslo"))
    );
    let PlannedStepKind::Task { inputs, .. } = &plan.steps[0].kind else { panic!() };
    assert_eq!(inputs["pathParameters.city"], "Paris");
    assert!(world.service.asked().is_empty());
}

#[tokio::test]
async fn a_guardian_that_does_not_answer_is_shown_as_that() {
    let mut world = World::new().await;
    echo(&world, 1);
    for (fail, decided, source) in [
        (FailMode::Closed, "deny", DecisionSource::FailedClosed),
        (FailMode::Open, "allow", DecisionSource::FailedOpen),
    ] {
        let guardian = world.guarded_by();
        guardian.endpoint = World::silent();
        guardian.fail = fail.into();
        let app = world.open().await;
        let plan = preview(&app, "Echo", json!({"city": "Paris"})).await;
        let Some(StepPreview::Decided { decisions }) = &plan.steps[0].preview else { panic!() };
        let [decision] = &decisions[..] else { panic!("{decisions:?}") };
        assert_eq!((&*decision.decision, decision.source), (decided, source));
        assert!(decision.message.contains("cannot be reached"), "{}", decision.message);
        assert!(decision.reason_codes.contains(&"guardian_unreachable".to_owned()));
        world.crash(app).await;
    }
    world.config.guardian = GuardianSettings::Off;
    let app = world.open().await;
    let plan = preview(&app, "Echo", json!({"city": "Paris"})).await;
    assert_eq!(said(&plan), pairs(&[("s0", "unguarded")]));
    assert!(world.service.asked().is_empty() && world.guardian.asked().is_empty());
}

#[tokio::test]
async fn a_preview_asks_so_many_questions_and_no_more() {
    let mut world = World::new().await;
    echo(&world, 5);
    world.config.limits.max_previews = 3;
    let app = world.open().await;
    let plan = preview(&app, "Echo", json!({"city": "Paris"})).await;
    let refused = "the guardian previews at most 3 steps";
    let expected =
        [("s0", "allow"), ("s1", "allow"), ("s2", "allow"), ("s3", refused), ("s4", refused)];
    assert_eq!(said(&plan), pairs(&expected));
    assert_eq!(world.guardian.asked().len(), 3);
    // What is not known takes none of them.
    let plan = preview(&app, "Echo", json!({})).await;
    assert!(said(&plan).iter().all(|(_, said)| said == "needs city"));
    assert_eq!(world.guardian.asked().len(), 3);
}

#[tokio::test]
async fn a_list_is_gone_through_when_it_is_not_too_long() {
    let world = World::new().await;
    let each = |id: &str| {
        with(
            task(id, "GET /echo/{x}", json!({"x": "${x}"}), json!({})),
            json!({"for_each": {"in": "${list}", "as": "x", "max_items": 1000}}),
        )
    };
    let execution = sequence(json!([each("each"), each("again")]));
    world
        .registry
        .publish_newer("Each", &json!({"parameters": [{"name": "list"}], "execution": execution}));
    let app = world.open().await;
    let of = async |count: usize| {
        let items: Vec<_> = (0..count).map(|n| n.to_string()).collect();
        let plan = preview(&app, "Each", json!({"list": items})).await;
        let asked = world.guardian.asked().len();
        (said(&plan), asked)
    };
    assert_eq!(of(0).await, (Vec::new(), 0));
    let (known, asked) = of(500).await;
    assert_eq!((known.len(), asked), (1000, 50));
    assert_eq!(known[49], ("each[49]".to_owned(), "allow".to_owned()));
    assert_eq!(known[50].1, "the guardian previews at most 50 steps");
    let (known, _) = of(501).await;
    assert_eq!(known.len(), 502);
    assert_eq!(known[501], ("again".to_owned(), "needs x".to_owned()));
}

#[tokio::test]
async fn a_preview_tells_no_secret() {
    const SECRET: &str = "hunter2-canary";
    let world = World::new().await;
    let say = |id: &str, body: Value| task(id, "POST /say", json!({"body": body}), json!({}));
    world.registry.publish_newer(
        "Keep",
        &json!({
            "parameters": [{"name": "token", "secret": true}, {"name": "note"}],
            "execution": sequence(json!([
                say("note", json!("${note}")), say("token", json!(["${token}", 1])),
            ])),
        }),
    );
    // A guardian that says what it was told, and more than that.
    world.guardian.decide(|question| {
        json!({"decision": "deny", "message": format!("{SECRET} {}", question["params"])})
    });
    let app = world.open().await;
    let plan =
        preview(&app, "Keep", json!({"token": SECRET, "note": format!("see {SECRET}")})).await;
    assert_eq!(said(&plan), pairs(&[("note", "deny"), ("token", "deny")]));
    let asked = json!(world.guardian.asked()).to_string();
    assert!(asked.contains("see (secret)"), "{asked}");
    for text in [asked, json!(plan).to_string()] {
        assert!(!text.contains("canary"), "{text}");
    }
}
