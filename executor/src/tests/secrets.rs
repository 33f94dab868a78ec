//! Secret inputs: the service gets them, and nobody else is told.

use std::time::Duration;

use a2s::Secret;
use a2s_api::{EventKind, RunStatus};
use axum::http::Method;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use uuid::Uuid;

use super::world::{
    World, allow, assert_succeeded, call, cancel, events, output, read, run, sequence, start, task,
    with,
};
use crate::SecretKeySource;

/// Whatever spelling the rest of it is written in, this part stays as it is.
const CORE: &str = "canarycore";
/// Every place that it goes to spells it in another way.
const TOKEN: &str = "k/ +\"canarycore%41&";

/// A step that sends the token in the path, the query, a header and the body, and gets it back.
fn send() -> Value {
    let body = json!({"auth": "Bearer ${token}", "pin": "${pin}", "n": ["${token}", 1]});
    let mut step = task(
        "send",
        "POST /echo/{t}",
        json!({"pathParameters": {"t": "${token}"}, "queryParameters": {"key": "${token}"},
               "headerParameters": {"X-Key": "${token}"}, "body": body}),
        json!({"path": "$.value", "body": "$.body"}),
    );
    let operation = &mut step["task"]["paths"]["/echo/{t}"]["post"];
    let place = |name, place| json!({"name": name, "in": place, "schema": {"type": "string"}});
    let parameters = operation["parameters"].as_array_mut().unwrap();
    parameters.extend([place("key", "query"), place("X-Key", "header")]);
    step
}

fn publish(world: &World) {
    let failing =
        task("failing", "POST /script", json!({"body": {"t": "${token}"}}), json!({"x": "$.x"}));
    let tell =
        task("tell", "POST /tell", json!({"body": "${error.message}"}), json!({"x": "$.body"}));
    world.registry.publish_newer(
        "Keep",
        &json!({
            "parameters": [
                {"name": "token", "type": "string", "secret": true},
                {"name": "pin", "required": false, "secret": true},
                {"name": "note", "default": "none"},
            ],
            "execution": sequence(json!([
                send(),
                with(failing, json!({"catch": {"steps": [tell]}})),
                task("note", "POST /note", json!({"body": "${note} ${path}"}), json!({"noted": "$.body"})),
            ])),
            "output": {"path": "${path}", "body": "${body}", "noted": "${noted}"},
        }),
    );
}

fn key(byte: u8) -> SecretKeySource {
    SecretKeySource::Given(Secret::new(STANDARD.encode([byte; 32])))
}

async fn database(world: &World) -> String {
    String::from_utf8_lossy(&world.database_bytes().await).into_owned()
}

#[track_caller]
fn assert_untold(what: &str, text: &str) {
    if let Some(at) = text.find(CORE) {
        panic!(
            "{what} tells the secret: …{}…",
            &text[text.floor_char_boundary(at.saturating_sub(200))..at]
        );
    }
}

#[tokio::test]
async fn the_service_gets_the_secret_and_nobody_else_is_told() {
    let world = World::new().await;
    publish(&world);
    let quote = |text: &str| format!("{}{}", "x".repeat(185), text);
    // An error quotes the start of an answer; this one ends in the middle of the secret.
    world.service.script([(400, json!({"error": quote(TOKEN), "again": TOKEN}))]);
    let app = world.open().await;
    let inputs = json!({"token": TOKEN, "note": format!("see {TOKEN}")});
    let plan = json!({"name": "Keep", "inputs": inputs});
    let plan = call(&app, Method::POST, "/v1/plans", &[], plan).await;
    assert_eq!(plan.status, http::StatusCode::OK);
    assert_untold("the plan", &plan.body.to_string());
    let run = run(&app, "Keep", inputs).await;
    assert_succeeded(&run);

    // It went where it should.
    let (path, body) = &world.service.asked()[0];
    assert_eq!(path, "POST /echo/k%2F%20%2B%22canarycore%2541%26");
    assert_eq!(*body, json!({"auth": format!("Bearer {TOKEN}"), "n": [TOKEN, 1]}));
    let heard = &world.service.heard()[0];
    assert!(heard.contains("x-key") && heard.matches(CORE).count() == 3, "{heard}");
    let noted = format!("see {TOKEN} {TOKEN}");
    assert_eq!(world.service.asked()[3], ("POST /note".to_owned(), json!(noted)));

    // What is told has a placeholder in its place.
    let shown = output(&run);
    assert_eq!(shown["path"], "(secret)");
    assert_eq!(shown["body"], json!({"auth": "Bearer (secret)", "n": ["(secret)", 1]}));
    assert_eq!(shown["noted"], "see (secret) (secret)");
    let told = events(&app, run.id).await;
    let EventKind::RunStarted(started) = &told[0].kind else { panic!() };
    assert_eq!(json!(started.inputs), json!({"token": "(secret)", "note": "see (secret)"}));
    assert_eq!(started.secrets, ["token"]);
    let url = told.iter().find_map(|event| match &event.kind {
        EventKind::Sending { url, .. } => Some(url.clone()),
        _ => None,
    });
    assert_eq!(url.as_deref(), Some("https://api.example/echo/(secret)?key=(secret)"));
    let asked = world.guardian.asked();
    let first = &asked[0]["params"]["toolCallRequest"]["inputs"];
    let body = json!({"auth": "Bearer (secret)", "n": ["(secret)", 1]});
    assert_eq!(first[0], json!({"name": "body", "value": body}));
    // A catch may send the error to anybody.
    let (_, message) = &world.service.asked()[2];
    assert!(message.as_str().unwrap().ends_with("(secr…"), "{message}");
    assert_untold("the error", &message.to_string());

    assert_untold("the run", &json!(run).to_string());
    assert_untold("an event", &json!(told).to_string());
    assert_untold("a guardian's message", &json!(asked).to_string());
    assert_untold("the metrics", &world.metrics());
    let (outcome, _) = world.registry.outcome().await;
    assert_untold("the outcome", &outcome.to_string());
    app.shutdown(Duration::from_secs(30)).await;
    let stored = database(&world).await;
    assert!(stored.contains("run_finished"), "the database was read");
    assert_untold("the database", &stored);
}

#[tokio::test]
async fn what_is_too_short_to_be_found_hides_its_place() {
    let world = World::new().await;
    let mut step = task(
        "send",
        "POST /echo/x",
        json!({"queryParameters": {"pin": "${pin}"}, "body": {"pin": "${pin}", "n": 1}}),
        json!({"n": "$.body.n"}),
    );
    step["task"]["paths"]["/echo/x"]["post"]["parameters"] =
        json!([{"name": "pin", "in": "query", "schema": {"type": "integer"}}]);
    world.registry.publish_newer(
        "Pin",
        &json!({"parameters": [{"name": "pin", "type": "integer", "secret": true}], "execution": sequence(json!([step]))}),
    );
    let app = world.open().await;
    let first = run(&app, "Pin", json!({"pin": 713})).await;
    assert_succeeded(&first);
    assert_eq!(first.output, Some(json!({"n": 1})));
    assert!(world.service.heard()[0].starts_with("POST /echo/x?pin=713 "));
    let inputs = &world.guardian.asked()[0]["params"]["toolCallRequest"]["inputs"];
    assert_eq!(
        *inputs,
        json!([
            {"name": "body", "value": {"n": 1, "pin": "(secret)"}},
            {"name": "queryParameters.pin", "value": "(secret)"},
        ])
    );
    let sending = async |run: Uuid| {
        let told = events(&app, run).await;
        told.into_iter().find_map(|event| match event.kind {
            EventKind::Sending { url, request_digest, .. } => Some((url, request_digest)),
            _ => None,
        })
    };
    let (url, digest) = sending(first.id).await.unwrap();
    assert_eq!(url, "https://api.example/echo/x?pin=(secret)");
    // Nobody can guess the number from the digest: it is another one in each run.
    let second = run(&app, "Pin", json!({"pin": 713})).await;
    assert_ne!(sending(second.id).await.unwrap().1, digest);
}

fn modify_inputs(question: &Value, change: impl Fn(&mut Value)) -> Value {
    let mut modified = question.clone();
    change(&mut modified["params"]["toolCallRequest"]["inputs"]);
    json!({"decision": "modify", "message": "so", "modifiedRequest": modified})
}

#[tokio::test]
async fn a_guardian_changes_what_is_around_a_secret() {
    let world = World::new().await;
    publish(&world);
    let is_send = |question: &Value| question["params"]["context"]["stepId"] == "send";
    world.service.script([(200, json!({"x": 1}))]);
    world.guardian.decide(move |question| match question["method"].as_str() {
        Some("steps/toolCallRequest") if is_send(question) => {
            modify_inputs(question, |inputs| inputs[0]["value"]["n"][1] = json!(2))
        }
        Some("steps/toolCallResult") if is_send(question) => {
            let mut modified = question.clone();
            let text = &mut modified["params"]["toolCallResult"]["result"]["outputs"][0]["text"];
            let mut value: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
            value["body"]["n"] = json!("gone");
            *text = json!(value.to_string());
            json!({"decision": "modify", "message": "so", "modifiedRequest": modified})
        }
        _ => allow(),
    });
    let app = world.open().await;
    let changed = run(&app, "Keep", json!({"token": TOKEN})).await;
    assert_succeeded(&changed);
    let (_, body) = &world.service.asked()[0];
    assert_eq!(*body, json!({"auth": format!("Bearer {TOKEN}"), "n": [TOKEN, 2]}));
    assert_eq!(output(&changed)["body"], json!({"auth": "Bearer (secret)", "n": "gone"}));
    // The true path went on to the next step.
    assert_eq!(world.service.asked()[2].1, json!(format!("none {TOKEN}")));
    let changes = &changed.steps[0].decisions[0].changes[0];
    assert_untold("a change", &json!(changes).to_string());

    // A placeholder elsewhere is nothing that could be sent.
    for move_it in [
        (|inputs: &mut Value| inputs[0]["value"]["other"] = json!("(secret)")) as fn(&mut Value),
        |inputs| inputs[0]["value"]["auth"] = json!("Basic (secret)"),
    ] {
        world.guardian.decide(move |question| {
            if question["method"] == "steps/toolCallRequest" {
                modify_inputs(question, move_it)
            } else {
                allow()
            }
        });
        let before = world.service.asked().len();
        let moved = run(&app, "Keep", json!({"token": TOKEN})).await;
        assert_eq!(moved.status, RunStatus::Denied);
        assert_eq!(moved.error.unwrap().code, "A2S343");
        assert_eq!(world.service.asked().len(), before);
    }
}

#[tokio::test]
async fn a_guardian_gets_a_keyed_digest_of_a_masked_request() {
    let world = World::new().await;
    let rest = json!({
        "parameters": [{"name": "account", "secret": true}, {"name": "note", "default": "-"}],
        "execution": sequence(json!([
            task("pay", "POST /pay", json!({"body": ["${account}", "${note}"]}), json!({})),
            task("tell", "POST /tell", json!({"body": "${note}"}), json!({})),
        ])),
    });
    world.registry.publish_newer("Pay", &rest);
    let mut app = world.open().await;
    for inputs in [
        json!({"account": "GOOD-VENDOR"}),
        json!({"account": "EVIL-VENDOR"}),
        json!({"account": "GOOD-VENDOR"}),
    ] {
        assert_succeeded(&run(&app, "Pay", inputs).await);
        app = world.crash_and_open(app).await;
    }
    let asked = world.guardian.asked();
    let requests = |step: &str| -> Vec<&Value> {
        let requests = asked.iter().filter(|question| {
            question["method"] == "steps/toolCallRequest"
                && question["params"]["context"]["stepId"] == step
        });
        requests.map(|question| &question["params"]["context"]["request"]).collect()
    };
    let [good, evil, again] = requests("pay")[..] else { panic!("{asked:?}") };
    assert_eq!(good["body"]["checksum"], evil["body"]["checksum"], "the shown body is the same");
    assert_ne!(good["sealed"], evil["sealed"]);
    assert_eq!(good["sealed"], again["sealed"], "also after a restart");
    assert_eq!(good["sealed"].as_str().map(str::len), Some(64));
    assert!(requests("tell").iter().all(|request| request.get("sealed").is_none()));
}

/// A capability whose parameter `key` is secret.
fn publish_inner(world: &World) {
    world.registry.publish_newer(
        "Inner",
        &json!({
            "parameters": [{"name": "key", "secret": true}],
            "execution": sequence(json!([
                task("use", "POST /use", json!({"body": "${key}"}), json!({"used": "$.body"})),
            ])),
        }),
    );
}

fn using(mapping: Value) -> Value {
    json!({"id": "call", "type": "capability", "use": "Inner", "input_mapping": mapping, "output_mapping": {"used": "$.used"}})
}

#[tokio::test]
async fn input_of_a_secret_parameter_is_secret() {
    let world = World::new().await;
    publish_inner(&world);
    let dependencies = json!([{"capability": "Inner", "version": "*"}]);
    let publish = |name: &str, steps: Value| {
        let rest = json!({"dependencies": dependencies, "execution": sequence(steps)});
        world.registry.publish_newer(name, &rest);
    };
    publish("Mapped", json!([using(json!({"key": "Key ${mine}"}))]));
    publish("Left", json!([using(json!({}))]));
    publish(
        "Listed",
        json!([with(using(json!({"key": "${item.key}"})), json!({"for_each": "${keys}"}))]),
    );
    let login = task(
        "login",
        "POST /login",
        json!({"body": "me"}),
        json!({"session": "$.session", "user": "$.user"}),
    );
    publish("Login", json!([login, using(json!({"key": "${session.token}"}))]));
    world
        .service
        .answer("/login", json!({"session": {"token": TOKEN, "kind": "bearer"}, "user": "jane"}));
    let app = world.open().await;
    for (name, inputs, secret) in [
        ("Mapped", json!({"mine": TOKEN}), &["mine"][..]),
        ("Left", json!({"key": TOKEN}), &["key"]),
        ("Listed", json!({"keys": [{"key": TOKEN}]}), &["keys"]),
        ("Login", json!({}), &[]),
    ] {
        let before = world.guardian.asked().len();
        let run = run(&app, name, inputs.clone()).await;
        assert_succeeded(&run);
        assert!(world.service.asked().last().unwrap().1.as_str().unwrap().contains(TOKEN));
        let told = events(&app, run.id).await;
        let EventKind::RunStarted(started) = &told[0].kind else { panic!() };
        assert_eq!(started.secrets, secret, "{name}");
        assert_untold(name, &json!([told, run, world.guardian.asked()[before..]]).to_string());
        let plan = json!({"name": name, "inputs": inputs});
        let plan = call(&app, Method::POST, "/v1/plans", &[], plan).await;
        assert_untold(name, &plan.body.to_string());
    }
    // Only the part that is mapped is secret.
    let shown = json!(world.guardian.asked()).to_string();
    assert!(shown.contains("bearer") && shown.contains("jane"));
    app.shutdown(Duration::from_secs(30)).await;
    assert_untold("the database", &database(&world).await);
}

/// The bodies of the requests `POST path`.
fn sent(world: &World, path: &str) -> Vec<Value> {
    let asked = world.service.asked().into_iter();
    asked.filter(|(call, _)| *call == format!("POST {path}")).map(|(_, body)| body).collect()
}

/// A run that sends its token before and after a request that is held.
fn publish_holding(world: &World, name: &str, held: &str) {
    let said = json!({"body": "${token}: ${said[1]}"});
    let steps = json!([
        task("send", "POST /say", json!({"body": ["${token}", "x"]}), json!({"said": "$.body"})),
        task("held", held, json!({}), json!({"x": "$.value"})),
        task("after", "POST /after", said, json!({"last": "$.body"})),
    ]);
    let parameters = json!([{"name": "token", "secret": true}]);
    let rest = json!({"parameters": parameters, "execution": sequence(steps)});
    world.registry.publish_newer(name, &rest);
}

/// A run that holds its token and has died.
async fn died(world: &World, name: &str, held: &str) -> Uuid {
    publish_holding(world, name, held);
    let (app, id) = world.open_until(name, json!({"token": TOKEN}), held).await;
    world.crash(app).await;
    id
}

#[tokio::test]
async fn a_run_with_secrets_goes_on_after_a_crash_and_keeps_them() {
    let world = World::new().await;
    let id = died(&world, "Hold", "GET /hold/x").await;
    assert_untold("the database", &database(&world).await);
    world.service.release("x");
    let app = world.open().await;
    let told = events(&app, id).await;
    assert_succeeded(&read(&app, id).await);
    assert_eq!(sent(&world, "/say"), [json!([TOKEN, "x"])]);
    assert_eq!(sent(&world, "/after"), [json!(format!("{TOKEN}: x"))]);
    assert_untold("the events", &json!(told).to_string());
    assert_untold("the guardian", &json!(world.guardian.asked()).to_string());
    app.shutdown(Duration::from_secs(30)).await;
    assert_untold("the database", &database(&world).await);
    // The same request has the same digest in both lives of the run.
    let digests = told.iter().filter_map(|event| match &event.kind {
        EventKind::Sending { step, request_digest, .. } if step == "held" => Some(request_digest),
        _ => None,
    });
    let [first, second] = digests.collect::<Vec<_>>()[..] else { panic!("{told:?}") };
    assert_eq!(first, second);
}

#[tokio::test]
async fn what_lies_sealed_goes_when_the_run_is_over() {
    let world = World::new().await;
    publish_holding(&world, "Hold", "GET /hold/x");
    let (app, id) = world.open_until("Hold", json!({"token": TOKEN}), "GET /hold/x").await;
    assert_eq!(world.count_rows("sealed").await, 2);
    world.service.release("x");
    events(&app, id).await;
    assert_eq!(world.count_rows("sealed").await, 0);
    // One that is too short to be found again.
    world.service.release("x");
    let id = start(&app, "Hold", json!({"token": "abc"})).await;
    events(&app, id).await;
    assert_succeeded(&read(&app, id).await);
}

#[tokio::test]
async fn a_run_whose_key_is_gone_ends_and_says_so() {
    let mut world = World::new().await;
    for (name, held, doubt) in [("Get", "GET /hold/x", false), ("Post", "POST /hold/x", true)] {
        world.config.secret_key = key(1);
        world.forget_key().await;
        let id = died(&world, name, held).await;
        world.config.secret_key = key(2);
        world.forget_key().await;
        let app = world.open().await;
        events(&app, id).await;
        let run = read(&app, id).await;
        let error = run.error.unwrap();
        assert_eq!((run.status, error.code.as_str()), (RunStatus::Failed, "A2S325"));
        assert!(error.message.contains("was sealed with the key"), "{}", error.message);
        let in_doubt = error.message.contains("`POST https://api.example/hold/x`");
        assert_eq!((in_doubt, error.repeat_safe), (doubt, false), "{}", error.message);
        assert_untold("the database", &database(&world).await);
    }
    assert_eq!(sent(&world, "/after"), [] as [Value; 0]);
}

#[tokio::test]
async fn missing_sealed_value_is_not_its_placeholder() {
    let world = World::new().await;
    let id = died(&world, "Hold", "GET /hold/x").await;
    world.change_database("DELETE FROM sealed").await;
    let app = world.open().await;
    events(&app, id).await;
    assert_eq!(read(&app, id).await.error.unwrap().code, "A2S325");
    assert_eq!(sent(&world, "/after"), [] as [Value; 0]);
}

#[tokio::test]
async fn a_masked_output_comes_back_as_it_was() {
    let world = World::new().await;
    publish_inner(&world);
    world.service.answer("/login", json!({"token": TOKEN}));
    world.registry.publish_newer(
        "Login",
        &json!({
            "dependencies": [{"capability": "Inner", "version": "*"}],
            "execution": sequence(json!([
                task("login", "POST /login", json!({"body": "me"}), json!({"token": "$.token"})),
                task("held", "GET /hold/x", json!({}), json!({})),
                using(json!({"key": "${token}"})),
            ])),
        }),
    );
    let (app, id) = world.open_until("Login", json!({}), "GET /hold/x").await;
    world.crash(app).await;
    assert_untold("the database", &database(&world).await);
    world.service.release("x");
    let app = world.open().await;
    let told = events(&app, id).await;
    assert_succeeded(&read(&app, id).await);
    assert_eq!(sent(&world, "/use"), [json!(TOKEN)]);
    assert_untold("the events", &json!(told).to_string());
}

#[tokio::test]
async fn a_lost_run_that_was_to_be_cancelled_is_cancelled() {
    let mut world = World::new().await;
    world.config.secret_key = key(1);
    let held = task("held", "POST /hold/x", json!({"body": "${token}"}), json!({}));
    let parameters = json!([{"name": "token", "secret": true}]);
    let rest = json!({"parameters": parameters, "execution": sequence(json!([held]))});
    world.registry.publish_newer("Held", &rest);
    let (app, id) = world.open_until("Held", json!({"token": TOKEN}), "POST /hold/x").await;
    cancel(&app, id).await;
    world.crash(app).await;
    world.config.secret_key = key(2);
    world.forget_key().await;
    let app = world.open().await;
    events(&app, id).await;
    let run = read(&app, id).await;
    assert_eq!((run.status, run.error.unwrap().repeat_safe), (RunStatus::Cancelled, false));
}

#[tokio::test]
async fn a_refused_value_is_not_told_and_a_key_finds_its_run() {
    let world = World::new().await;
    publish(&world);
    world.service.script([(200, json!({"x": 1}))]);
    let app = world.open().await;
    let post = async |inputs: Value| {
        let body = json!({"name": "Keep", "inputs": inputs, "wait": true});
        call(&app, Method::POST, "/v1/executions", &[("idempotency-key", "one")], body).await
    };
    let (_, code, problem) = post(json!({"token": {"canarycore": "canarycore"}})).await.problem();
    assert_eq!(code, "A2S324");
    assert!(
        problem.detail.contains("`token`") && problem.detail.contains("`string`"),
        "{}",
        problem.detail
    );
    assert_untold("the problem", &json!(problem).to_string());
    let first = post(json!({"token": TOKEN})).await.run();
    assert_succeeded(&first);
    assert_eq!(post(json!({"token": TOKEN})).await.run().id, first.id);
    assert_eq!(post(json!({"token": "another"})).await.problem().1, "A2S303");
    assert_eq!(post(json!({"token": TOKEN, "note": "x"})).await.problem().1, "A2S303");
}

#[tokio::test]
async fn secrets_are_bounded() {
    let world = World::new().await;
    publish(&world);
    let app = world.open().await;
    let body = json!({"name": "Keep", "inputs": {"token": "x".repeat(70_000)}});
    let (status, code, _) = call(&app, Method::POST, "/v1/executions", &[], body).await.problem();
    assert_eq!((status, code.as_str()), (422, "A2S323"));
}
