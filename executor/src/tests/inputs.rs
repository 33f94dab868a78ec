//! Parameters: what they take, what stands for those that are not given, and what is left out.

use a2s_api::{PlanResponse, PlannedStepKind, RunStatus};
use axum::http::Method;
use serde_json::{Value, json};

use super::world::{World, assert_succeeded, call, run, sequence, task, with};

/// `GET /echo/x` with optional query parameters.
fn search() -> Value {
    let mut step = task(
        "step",
        "POST /echo/x",
        json!({"body": {"q": "${q}", "tags": ["a", "${tag}"]}}),
        json!({"sent": "$.body"}),
    );
    let operation = &mut step["task"]["paths"]["/echo/x"]["post"];
    operation["parameters"] =
        json!([{"name": "lang", "in": "query", "schema": {"type": "string"}}]);
    step["input_mapping"]["queryParameters"] = json!({"lang": "${lang}"});
    step
}

fn publish(world: &World) {
    world.registry.publish_newer(
        "Search",
        &json!({
            "parameters": [
                {"name": "q", "type": "string"},
                {"name": "tag", "type": "string", "required": false},
                {"name": "lang", "enum": ["en", "de"], "required": false},
                {"name": "unit", "type": "string", "default": "celsius"},
            ],
            "execution": sequence(json!([
                search(),
                {"id": "tagged", "type": "condition", "condition": "${tag} == null", "if_true": {"steps": [
                    task("untagged", "POST /say", json!({"body": "${unit} ${tag}"}), json!({"said": "$.body"})),
                ]}},
            ])),
            "output": {"sent": "${sent}"},
        }),
    );
}

#[tokio::test]
async fn defaults_are_filled_in_and_what_is_absent_is_left_out() {
    let world = World::new().await;
    publish(&world);
    let app = world.open().await;
    let bare = run(&app, "Search", json!({"q": "x"})).await;
    assert_succeeded(&bare);
    assert_eq!(bare.output, Some(json!({"sent": {"q": "x", "tags": ["a"]}})));
    // In a condition and inside a text it reads as null.
    assert_eq!(world.service.asked()[1], ("POST /say".to_owned(), json!("celsius null")));
    assert!(world.service.heard()[0].starts_with("POST /echo/x {"), "no query");
    let inputs = &world.guardian.asked()[0]["params"]["toolCallRequest"]["inputs"];
    assert_eq!(*inputs, json!([{"name": "body", "value": {"q": "x", "tags": ["a"]}}]));
    let given = run(&app, "Search", json!({"q": "x", "tag": "t", "lang": "de"})).await;
    assert_eq!(given.output, Some(json!({"sent": {"q": "x", "tags": ["a", "t"]}})));
    assert!(world.service.heard()[2].starts_with("POST /echo/x?lang=de {"));
}

/// `POST /echo/x` with a text that contains `${token}` in each kind of parameter. The header `X-Required`
/// is required.
fn texts() -> Value {
    let parameter = |name: &str, place: &str, required: bool| json!({"name": name, "in": place, "required": required, "schema": {"type": "string"}});
    let mut step =
        task("step", "POST /echo/x", json!({"body": "b ${token}"}), json!({"sent": "$.body"}));
    step["task"]["paths"]["/echo/x"]["post"]["parameters"] = json!([
        parameter("filter", "query", false),
        parameter("sort", "query", false),
        parameter("X-T", "header", false),
        parameter("X-Required", "header", true),
        parameter("seen", "cookie", false),
    ]);
    step["input_mapping"]["queryParameters"] =
        json!({"filter": "owner:${owner} ${token}", "sort": "by ${owner}"});
    step["input_mapping"]["headerParameters"] =
        json!({"X-T": "Bearer ${token}", "X-Required": "for ${owner}"});
    step["input_mapping"]["cookieParameters"] = json!({"seen": "${token}-1"});
    step
}

#[tokio::test]
async fn a_parameter_whose_text_lacks_its_input_is_not_sent() {
    let world = World::new().await;
    for (name, is_secret) in [("Texts", false), ("SecretTexts", true)] {
        let token = json!({"name": "token", "required": false, "secret": is_secret});
        let owner = json!({"name": "owner", "required": false});
        let members =
            json!({"parameters": [token, owner], "execution": sequence(json!([texts()]))});
        world.registry.publish_newer(name, &members);
    }
    let app = world.open().await;
    for name in ["Texts", "SecretTexts"] {
        let before = world.service.heard().len();
        let without = run(&app, name, json!({"owner": "ann"})).await;
        assert_succeeded(&without);
        let bare = &world.service.heard()[before];
        assert!(bare.starts_with("POST /echo/x?sort=by%20ann {"), "{bare}");
        assert!(!bare.contains("x-t") && !bare.contains("cookie"), "{bare}");
        // A body is a text of its own, in which the input is null.
        assert_eq!(world.service.asked()[before].1, json!("b null"));
        assert_succeeded(&run(&app, name, json!({"owner": "ann", "token": "t0ken"})).await);
        let full = &world.service.heard()[before + 1];
        let filter = "POST /echo/x?filter=owner%3Aann%20t0ken&sort=by%20ann {";
        assert!(full.starts_with(filter), "{full}");
        for part in ["\"x-t\": \"Bearer t0ken\"", "\"cookie\": \"seen=t0ken-1\""] {
            assert!(full.contains(part), "{part} is not in {full}");
        }
    }
    let sent = world.service.asked().len();
    let lacks_required = run(&app, "Texts", json!({"token": "t0ken"})).await;
    let error = lacks_required.error.unwrap();
    assert_eq!(error.code, "A2S322");
    assert!(error.message.contains("headerParameters.X-Required"), "{}", error.message);
    assert_eq!(world.service.asked().len(), sent);
}

#[tokio::test]
async fn values_that_do_not_fit_are_refused_before_anything_begins() {
    let world = World::new().await;
    publish(&world);
    let app = world.open().await;
    for (inputs, words) in [
        (json!({"q": 7}), &["`Search`", "`q`", "a string", "a number"][..]),
        (json!({"q": "x", "lang": "fr"}), &["`lang`", "\"en\"", "\"de\""]),
        (json!({"q": "x", "unit": 5, "tag": []}), &["`unit`", "`tag`"]),
    ] {
        for path in ["/v1/executions", "/v1/plans"] {
            let body = json!({"name": "Search", "inputs": inputs});
            let (status, code, problem) = call(&app, Method::POST, path, &[], body).await.problem();
            assert_eq!((status, code.as_str()), (422, "A2S324"), "{}", problem.detail);
            for word in words {
                assert!(problem.detail.contains(word), "{word} is not in {}", problem.detail);
            }
        }
    }
    assert!(world.service.asked().is_empty());
}

#[tokio::test]
async fn a_capability_step_is_held_to_the_parameters_of_what_it_uses() {
    let world = World::new().await;
    world.registry.publish_newer(
        "Inner",
        &json!({
            "parameters": [
                {"name": "city", "type": "string"},
                {"name": "unit", "default": "celsius", "enum": ["celsius", "kelvin"]},
                {"name": "lang", "required": false},
            ],
            "execution": sequence(json!([
                task("ask", "POST /say", json!({"body": {"c": "${city}", "u": "${unit}", "l": "${lang}"}}), json!({"sent": "$.body"})),
            ])),
        }),
    );
    let using = |mapping: Value| {
        json!({
            "dependencies": [{"capability": "Inner", "version": "*"}],
            "parameters": [{"name": "where"}, {"name": "unit", "required": false}],
            "execution": sequence(json!([
                {"id": "use", "type": "capability", "use": "Inner", "input_mapping": mapping, "output_mapping": {"sent": "$.sent"}},
            ])),
        })
    };
    let mapping = json!({"city": "${where}", "unit": "${unit}"});
    world.registry.publish_newer("Outer", &using(mapping));
    let app = world.open().await;
    // An input that is absent here is not given there, so that its default stands.
    let run_default = run(&app, "Outer", json!({"where": "Rome"})).await;
    assert_succeeded(&run_default);
    assert_eq!(run_default.output, Some(json!({"sent": {"c": "Rome", "u": "celsius"}})));
    let given = run(&app, "Outer", json!({"where": "Rome", "unit": "kelvin"})).await;
    assert_eq!(given.output, Some(json!({"sent": {"c": "Rome", "u": "kelvin"}})));
    for (inputs, word) in [
        (json!({"where": 7}), "`city` accepts a string"),
        (json!({"where": "Rome", "unit": "feet"}), "`unit` accepts only"),
    ] {
        let run = run(&app, "Outer", inputs).await;
        assert_eq!(run.status, RunStatus::Failed);
        let error = run.error.unwrap();
        assert_eq!((error.code.as_str(), error.step.as_deref()), ("A2S324", Some("use")));
        assert!(error.message.contains(word), "{}", error.message);
    }
    // What is left to the caller is checked where the caller is.
    world.registry.publish_newer("Plain", &json!({
        "dependencies": [{"capability": "Inner", "version": "*"}],
        "execution": sequence(json!([{"id": "use", "type": "capability", "use": "Inner", "output_mapping": {"sent": "$.sent"}}])),
    }));
    let body = json!({"name": "Plain", "inputs": {"city": 7}});
    let (_, code, problem) = call(&app, Method::POST, "/v1/executions", &[], body).await.problem();
    assert_eq!(code, "A2S324", "{}", problem.detail);
}

#[tokio::test]
async fn a_plan_tells_what_a_run_would_do_with_these_inputs() {
    let world = World::new().await;
    world.registry.publish_newer(
        "Shown",
        &json!({
            "permissions": ["weather.read", "social:write"],
            "parameters": [
                {"name": "q"},
                {"name": "tag", "required": false},
                {"name": "unit", "default": "celsius"},
            ],
            "execution": sequence(json!([
                with(
                    task("each", "POST /say", json!({"body": {"q": "${q}", "t": "${tag}", "u": "${unit}", "i": "${item}"}}), json!({"a": "$.body"})),
                    json!({
                        "for_each": {"in": ["x", "${q}"], "max_concurrency": 2, "max_items": 7},
                        "timeout": "2s",
                        "catch": {"as": "e", "steps": [task("fall", "POST /say", json!({"body": "${e.code}"}), json!({"a": "$.body"}))]},
                    }),
                ),
                {"id": "both", "type": "parallel", "max_concurrency": 3, "on_error": "continue", "steps": [
                    with(task("get", "GET /echo/1", json!({}), json!({"b": "$.value"})), json!({"retry": {"max_attempts": 4}})),
                ]},
            ])),
        }),
    );
    let app = world.open().await;
    let plan = async |inputs: Value| -> PlanResponse {
        let body = json!({"name": "Shown", "inputs": inputs});
        let answer = call(&app, Method::POST, "/v1/plans", &[], body).await;
        serde_json::from_value(answer.body).unwrap()
    };
    let answer = plan(json!({})).await;
    assert_eq!(answer.missing, ["q"]);
    let permissions: Vec<_> = answer.permissions.iter().map(ToString::to_string).collect();
    assert_eq!(permissions, ["weather.read", "social:write"]);
    let plan = plan(json!({"q": "x"})).await;
    let shown = json!(plan.steps[0]);
    assert_eq!(shown["inputs"], json!({"body": {"q": "x", "u": "celsius", "i": "${item}"}}));
    let expected =
        json!({"items": ["x", "x"], "name": "item", "max_items": 7, "max_concurrency": 2});
    assert_eq!(shown["for_each"], expected);
    assert_eq!((&shown["timeout_ms"], &shown["on_error"]), (&json!(2000), &json!("catch")));
    assert_eq!(shown["catch"][0]["step"], "each/fall");
    let shown = json!(plan.steps[1]);
    assert_eq!((&shown["max_concurrency"], &shown["on_error"]), (&json!(3), &json!("continue")));
    let PlannedStepKind::Parallel { steps } = &plan.steps[1].kind else { panic!() };
    assert_eq!((steps[0].step.as_str(), steps[0].max_attempts), ("both/get", Some(4)));
}

#[tokio::test]
async fn a_value_that_its_schema_rejects_is_named_by_its_input() {
    let world = World::new().await;
    let number = json!({"type": "integer", "maximum": 9});
    let mut read =
        task("read", "POST /echo/x", json!({"body": {"n": 70}}), json!({"n": "$.body.n"}));
    read["task"]["paths"]["/echo/x"]["post"]["parameters"] =
        json!([{"name": "y", "in": "query", "schema": number}]);
    read["input_mapping"]["queryParameters"] = json!({"y": "${year}"});
    let mut write = task("write", "POST /say", json!({}), json!({}));
    let list = json!({"type": "array", "items": {"type": "object", "properties": {"v": number}}});
    write["task"]["paths"]["/say"]["post"]["requestBody"] = json!({"content": {"application/json": {
        "schema": {"type": "object", "properties": {"list": list, "read": number}},
    }}});
    write["input_mapping"] = json!({"body": {
        "list": [{"v": 1}, {"v": "${count}"}], "read": "${n}",
    }});
    let parameters =
        json!([{"name": "year", "type": "integer"}, {"name": "count", "type": "integer"}]);
    let members = json!({"parameters": parameters, "execution": sequence(json!([read, write]))});
    world.registry.publish_newer("Rejected", &members);
    let app = world.open().await;
    for (inputs, words) in [
        (
            json!({"year": 10, "count": 1}),
            "input `year`: the value of `queryParameters.y` does not",
        ),
        (json!({"year": 1, "count": 10}), "input `count`: the value of `body` does not"),
        // The result of the first step is at fault, and not an input.
        (json!({"year": 1, "count": 1}), "`${n}`: the value of `body` does not"),
    ] {
        let error = run(&app, "Rejected", inputs).await.error.unwrap();
        assert_eq!(error.code, "A2S328");
        assert!(error.message.starts_with(words), "{}", error.message);
    }
    assert_eq!(world.service.count("POST /say"), 0);
}
