use serde_json::{Value, json};

use super::{NOTHING, document, get};

/// What is said of one example of a capability with one step, `a`, and this schema of its answers.
fn of(step: &Value, example: &Value) -> Vec<String> {
    let answer = json!({
        "type": "object", "required": ["id"],
        "properties": {"id": {"type": "integer"}, "kind": {"enum": ["x", "y"]}, "tags": {"type": "array", "items": {"type": "string"}}},
    });
    let mut whole = json!({
        "id": "a", "format": "OpenAPI", "task": get(&json!({"type": "string"}), &answer),
        "output_mapping": {"id": "$.id", "kind": {"path": "$.kind", "optional": true}},
    });
    for (key, member) in step.as_object().unwrap() {
        whole[key] = member.clone();
    }
    document(&json!({
        "execution": {"type": "sequence", "steps": [whole], "variables": {"shared": {"id": "integer", "kind": "string"}}},
        "examples": [example],
    }))
}

#[track_caller]
fn check(answer: &Value, expected: &[&str]) {
    let told = of(&json!({}), &json!({"answers": {"a": answer}}));
    let expected: Vec<_> = expected
        .iter()
        .map(|text| format!("error A2S059: {text} (examples[0].answers.a)"))
        .collect();
    assert_eq!(told, expected, "{answer}");
}

#[test]
fn answers_that_are_as_declared_or_that_fail_are_fine() {
    check(&json!({"body": {"id": 1, "kind": "x", "more": true}}), &[]);
    check(&json!({"status": 503}), &[]);
    check(&json!({"status": 404, "body": {"id": "of another form"}}), &[]);
    check(
        &json!({"headers": {"content-type": "image/png"}, "body": {"id": 1, "base64": "aGk="}}),
        &[],
    );
}

#[test]
fn an_answer_that_is_not_as_declared_is_an_error() {
    check(
        &json!({"body": {"id": "one"}}),
        &["the answer has a string at `body.id`, where a whole number is required"],
    );
    check(&json!({"body": {"kind": "x"}}), &["the answer lacks `id` at `body`"]);
    check(
        &json!({"body": {"id": 1, "kind": "z"}}),
        &["the answer has a value at `body.kind` that is not one of \"x\", \"y\""],
    );
    check(
        &json!({"body": {"id": 1, "tags": ["a", 7]}}),
        &["the answer has a whole number at `body.tags[1]`, where a string is required"],
    );
    check(&json!({"status": 201, "body": {"id": 1}}), &["the operation declares no status 201"]);
}

#[test]
fn missing_output_fails_the_step_unless_handled() {
    let more = json!({"output_mapping": {"id": "$.id", "kind": "$.kind", "left": {"path": "x-left", "from": "header"}}});
    let told = |step: &Value, answer: &Value| of(step, &json!({"answers": {"a": answer}}));
    let lacking = told(&more, &json!({"body": {"id": 1}}));
    assert_eq!(lacking.len(), 1, "{lacking:?}");
    assert!(
        lacking[0].contains("the step sets `kind` from the answer, but `$.kind` finds nothing"),
        "{lacking:?}"
    );
    let headless = told(&more, &json!({"body": {"id": 1, "kind": "x"}}));
    assert!(
        headless[0].contains(
            "the step sets `left` from the answer, but the response has no header `x-left`"
        ),
        "{headless:?}"
    );
    let mut handled = more;
    handled["on_error"] = json!("continue");
    assert_eq!(told(&handled, &json!({"body": {"id": 1}})), NOTHING);
}

#[test]
fn an_output_that_the_capability_never_gives_is_an_error() {
    let told = |output: Value| of(&json!({}), &json!({"output": output}));
    assert_eq!(told(json!({"id": 1, "kind": "x"})), NOTHING);
    assert_eq!(told(json!({"id": 1})), NOTHING);
    let error = |text: &str| {
        [format!(
            "error A2S059: the capability never returns this result: the example {text} (examples[0].output)"
        )]
    };
    assert_eq!(
        told(json!({"id": 1, "name": "x"})),
        error("has `name` at `output`, which does not exist there")
    );
    assert_eq!(told(json!([1])), error("has a list at `output`, where an object is required"));
    assert_eq!(
        told(json!({"id": "one"})),
        error("has a string at `output.id`, where a whole number or null is required")
    );
}

#[test]
fn ways_lead_to_task_steps() {
    let told = |way: &str| {
        let told = of(&json!({}), &json!({"answers": {way: {"body": {"id": 1}}}}));
        told.first().cloned().unwrap_or_default()
    };
    assert_eq!(told("a"), "");
    assert!(told("a[0]").contains("`a` has no `for_each`, so it has no iterations"));
    assert!(told("b").contains("unknown task step `b`"));
    assert!(told("a/b").contains("unknown task step `a/b`"));
    assert!(told("a b").contains("`a b` is not the path of a step"));
}
