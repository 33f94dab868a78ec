//! Requests and answers of a GraphQL operation. There is no schema to hold them to, so the query
//! is held to the grammar, the variables to their definitions, and a made-up answer has what was
//! selected, with lists where the document looks for them.

use std::collections::{BTreeMap, BTreeSet};

use a2s::{Answer, GraphqlTask, Output, OutputSource, Place};
use async_graphql::parser::parse_query;
use async_graphql::parser::types::{ExecutableDocument, Selection, SelectionSet};
use axum::response::Response;
use serde_json::{Map, Value, json};

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
        values.insert(Place::Variable(name.clone()), value.clone());
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
    answer: Option<&Answer>,
    outputs: &[Output],
) -> Result<Response, String> {
    if let Some(answer) = answer {
        let body = Some(&answer.body);
        return Ok(respond(answer.status, &answer.headers, "application/json", body));
    }
    let document = parse_query(&task.query).map_err(|error| error.to_string())?;
    let wanted = task.operation_name.as_deref();
    let mut operations = document.operations.iter();
    let operation =
        operations.find(|(name, _)| wanted.is_none() || name.map(|n| n.as_str()) == wanted);
    let (_, operation) = operation.ok_or("there is no such operation")?;
    let lists = lists(outputs);
    let place = vec!["data".to_owned()];
    let data = select(&document, &operation.node.selection_set.node, &place, &lists);
    let body = json!({ "data": data });
    Ok(respond(200, &BTreeMap::new(), "application/json", Some(&body)))
}

/// The places where the outputs of a step look for lists: in front of each index, wildcard or
/// filter.
fn lists(outputs: &[Output]) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    for output in outputs {
        let OutputSource::Body(query) = &output.source else { continue };
        let mut place = Vec::new();
        for piece in query.source().trim_start_matches('$').split('.').skip(1) {
            let (name, index) =
                piece.split_once('[').map_or((piece, false), |(name, _)| (name, true));
            place.push(name.to_owned());
            if index {
                found.insert(place.clone());
            }
        }
    }
    found
}

fn select(
    document: &ExecutableDocument,
    set: &SelectionSet,
    place: &[String],
    lists: &BTreeSet<Vec<String>>,
) -> Value {
    let mut members = Map::new();
    for selection in &set.items {
        match &selection.node {
            Selection::Field(field) => {
                let name = field.node.response_key().node.to_string();
                let mut place = place.to_vec();
                place.push(name.clone());
                let inner = &field.node.selection_set.node;
                let value = match inner.items.is_empty() {
                    true => Value::String(name.clone()),
                    false => select(document, inner, &place, lists),
                };
                let value = if lists.contains(&place) { json!([value]) } else { value };
                members.insert(name, value);
            }
            Selection::InlineFragment(fragment) => {
                let inner = select(document, &fragment.node.selection_set.node, place, lists);
                members.extend(inner.as_object().cloned().unwrap_or_default());
            }
            Selection::FragmentSpread(spread) => {
                let fragment = document.fragments.get(&spread.node.fragment_name.node);
                if let Some(fragment) = fragment {
                    let inner = select(document, &fragment.node.selection_set.node, place, lists);
                    members.extend(inner.as_object().cloned().unwrap_or_default());
                }
            }
        }
    }
    Value::Object(members)
}
