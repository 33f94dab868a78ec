//! What leaves, and what is remarked about answers.

use a2s::{Method, OpenApiVersion};
use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderValue};

use super::*;
use crate::request::fixture::{graphql, inputs, operation};
use crate::request::prepare;

fn of(task: OpenApiTask) -> Contract {
    Contract::new(Arc::new(Task::OpenApi(Box::new(task))))
}

fn searching() -> Contract {
    let places =
        ["queryParameters.limit", "queryParameters.kinds", "headerParameters.X-Mode", "body"];
    let mut task = operation(Method::Post, "https://api.example", "/search", &places);
    task.parameters[0].schema = json!({"type": "integer", "maximum": 100, "default": 20});
    task.parameters[1].schema = json!({"type": "array", "items": {"enum": ["dog", "cat"]}});
    task.parameters[2].schema = json!({"type": "string", "pattern": "^[a-z]+$"});
    task.body.as_mut().unwrap().schema = json!({
        "type": "object",
        "properties": {"note": {"type": "string"}},
        "required": ["note"],
    });
    of(task)
}

fn refused<const N: usize>(contract: &Contract, given: [(&str, Value); N]) -> String {
    prepare(contract, &inputs(given)).map_or_else(|error| error.to_string(), |_| "sent".to_owned())
}

#[test]
fn what_the_service_would_refuse_is_not_sent() {
    let contract = searching();
    let note = ("body", json!({"note": "x"}));
    let limit = |limit: Value| refused(&contract, [("queryParameters.limit", limit), note.clone()]);
    assert_eq!(limit(json!(100)), "sent");
    assert_eq!(limit(json!("100")), "sent");
    assert_eq!(
        limit(json!(101)),
        "the value of `queryParameters.limit` does not fit its schema: \
         it is more than 100 (schema: maximum)"
    );
    let kinds =
        refused(&contract, [("queryParameters.kinds", json!(["dog", "cow"])), note.clone()]);
    assert!(kinds.contains(r#"`[1]` is none of ["dog","cat"] (schema: items/enum)"#), "{kinds}");
    let mode = refused(&contract, [("headerParameters.x-mode", json!("A1")), note.clone()]);
    assert!(mode.contains("does not match the pattern ^[a-z]+$"), "{mode}");
    let body = refused(&contract, [("body", json!({"note": 7}))]);
    assert!(
        body.contains("`body`") && body.contains("`.note` is not of the type string"),
        "{body}"
    );
}

#[test]
fn a_default_is_left_to_the_service() {
    let request = prepare(&searching(), &inputs([("body", json!({"note": "x"}))])).unwrap();
    assert_eq!(request.url().query(), None);
}

#[test]
fn variables_are_held_to_their_types() {
    let mut task = graphql("https://api.example", "query($n: Int!) { a }", &[("n", "Int!")]);
    task.variables[0].schema = json!({"$ref": "#/$defs/N"});
    task.definitions = json!({"N": {"type": "integer", "maximum": 5}});
    let contract = Contract::new(Arc::new(Task::Graphql(Box::new(task))));
    assert_eq!(refused(&contract, [("variables.n", json!(5))]), "sent");
    let told = refused(&contract, [("variables.n", json!(6))]);
    assert!(
        told.starts_with("the value of `variables.n` does not fit its schema: it is more than 5"),
        "{told}"
    );
}

#[test]
fn a_shared_task_is_compiled_once() {
    let contracts = Contracts::default();
    let task =
        Arc::new(Task::OpenApi(Box::new(operation(Method::Get, "https://a.example", "/", &[]))));
    assert!(Arc::ptr_eq(&contracts.of(&task), &contracts.of(&Arc::clone(&task))));
    let other = Arc::new((*task).clone());
    assert!(!Arc::ptr_eq(&contracts.of(&task), &contracts.of(&other)));
}

fn answering() -> Contract {
    let mut task = operation(Method::Get, "https://api.example", "/", &[]);
    task.version = OpenApiVersion::V3_1;
    let media = |schema: Value| json!({"content": {"application/json": {"schema": schema}}});
    task.responses = vec![
        ("200".to_owned(), media(json!({"type": "object", "required": ["id"]}))),
        ("204".to_owned(), json!({"description": "nothing"})),
        (
            "2XX".to_owned(),
            json!({"content": {"text/*": {}, "application/json": {"schema": {"type": "array"}}}}),
        ),
    ];
    of(task)
}

#[track_caller]
fn check_answer(status: u16, content_type: &'static str, body: &str, expected: &[&str]) {
    let mut headers = HeaderMap::new();
    if !content_type.is_empty() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    let body = Bytes::from(body.to_owned());
    let response = RawResponse { status, headers, body, redirects: 0 };
    let value = serde_json::from_slice(&response.body).unwrap_or_default();
    let told = answering().check_answer(&response, &value);
    assert_eq!(told.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
}

#[test]
fn answers_are_held_to_what_is_declared() {
    let json = "application/json; charset=utf-8";
    check_answer(200, json, r#"{"id": 1}"#, &[]);
    check_answer(200, json, "{}", &[r#"it has no member "id" (schema: required)"#]);
    check_answer(201, json, "[]", &[]);
    check_answer(201, json, "{}", &["it is not of the type array (schema: type)"]);
    check_answer(202, "text/csv", "a,b", &[]);
    check_answer(204, "", "", &[]);
    check_answer(
        200,
        "",
        "",
        &["it is empty, which is not declared (schema: responses/200/content)"],
    );
    let told =
        "it is of the media type text/html, which is not declared (schema: responses/200/content)";
    check_answer(200, "text/html", "<p>", &[told]);
    check_answer(
        304,
        json,
        "",
        &["it has the status 304, which is not declared (schema: responses)"],
    );
}
