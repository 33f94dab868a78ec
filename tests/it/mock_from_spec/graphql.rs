//! Requests and answers of a GraphQL operation. There is no schema to hold them to, so the query
//! is held to the grammar, the variables to their definitions, and a made-up answer has what was
//! selected, with lists where the document looks for them.

use std::collections::BTreeMap;

use a2s::{ExampleResponse, GraphqlTask, InputLocation, OutputMapping};
use async_graphql::parser::parse_query;
use axum::response::Response;
use serde_json::{Map, Value};

use super::{Misfit, Request, Values, respond};

/// Holds a request to the task.
pub(super) fn check(task: &GraphqlTask, request: &Request) -> Result<Values, Misfit> {
    let is_host = request.host.covers(&task.endpoint);
    if !is_host || request.method != "POST" || request.path != task.endpoint.path() {
        return Err(Misfit::Elsewhere);
    }
    let wrong = |reason: String| Err(Misfit::Wrong(reason));
    if request.media_type() != "application/json" {
        return wrong(format!("the body is {:?}", request.media_type()));
    }
    let body = request.json()?;
    let query = body["query"].as_str().unwrap_or_default();
    if let Err(error) = parse_query(query) {
        return wrong(format!("the query cannot be read: {error}"));
    }
    if query != task.query {
        return Err(Misfit::Elsewhere);
    }
    if body.get("operationName").and_then(Value::as_str) != task.operation_name.as_deref() {
        return wrong("another operation is named".to_owned());
    }
    for (name, value) in &task.headers {
        if request.headers.get(name).is_none_or(|sent| sent != value.as_str()) {
            return wrong(format!("the header `{name}` is not {value:?}"));
        }
    }
    let none = Map::new();
    let sent = body.get("variables").and_then(Value::as_object).unwrap_or(&none);
    let mut values = Values::new();
    for (name, value) in sent {
        let Some(definition) = task.variables.iter().find(|known| known.name == *name) else {
            return wrong(format!("the query has no variable `{name}`"));
        };
        if !admits(&definition.kind, value) {
            return wrong(format!("`{name}` is {value}, but {} is wanted", definition.kind));
        }
        values.insert(InputLocation::Variable(name.clone()), value.clone());
    }
    match task.variables.iter().find(|known| known.required && !sent.contains_key(&known.name)) {
        Some(missing) => wrong(format!("the variable `{}` is missing", missing.name)),
        None => Ok(values),
    }
}

/// Whether a value is of a type, as far as its name tells.
fn admits(kind: &str, value: &Value) -> bool {
    if value.is_null() {
        return !kind.ends_with('!');
    }
    match (kind.trim_end_matches('!'), value) {
        ("String", value) => value.is_string(),
        ("ID", value) => value.is_string() || value.is_i64() || value.is_u64(),
        ("Int", value) => value.is_i64() || value.is_u64(),
        ("Float", value) => value.is_number(),
        ("Boolean", value) => value.is_boolean(),
        _ => true,
    }
}

/// The answer of an example, or a made-up one.
pub(super) fn answer(
    task: &GraphqlTask,
    answer: Option<&ExampleResponse>,
    outputs: &[OutputMapping],
) -> Result<Response, String> {
    if let Some(answer) = answer {
        let body = Some(&answer.body);
        return Ok(respond(answer.status, &answer.headers, "application/json", body));
    }
    let sample = task
        .sample(outputs.iter().filter_map(OutputMapping::query))
        .ok_or("the query cannot be read")?;
    Ok(respond(200, &BTreeMap::new(), "application/json", Some(&sample)))
}
