//! Tasks, inputs and a clock for tests.

use std::collections::BTreeMap;

use a2s::{
    GraphqlTask, Method, OpenApiTask, OperationParameter, ParameterPlace, Place, RequestBody,
    Style, Task, VariableDefinition,
};
use indexmap::IndexMap;
use jiff::Timestamp;
use serde_json::{Value, json};
use url::Url;

use crate::clock::{Clock, Ids};

/// A clock that stands still, and ids that are all alike.
#[derive(Debug)]
pub(crate) struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        "2026-08-01T12:00:00Z".parse().unwrap()
    }
}

impl Ids for Still {
    fn random(&self) -> [u8; 16] {
        [7; 16]
    }
}

/// An operation whose parameters are the given places, path parameters required, others not. A
/// `body` among them is a required JSON body.
pub(crate) fn operation(method: Method, server: &str, path: &str, places: &[&str]) -> OpenApiTask {
    let places: Vec<Place> = places.iter().map(|text| text.parse().unwrap()).collect();
    let schema = json!({});
    let parameter = |place: &Place| {
        let (name, place, style) = match place.clone() {
            Place::Path(name) => (name, ParameterPlace::Path, Style::Simple),
            Place::Query(name) => (name, ParameterPlace::Query, Style::Form),
            Place::Header(name) => (name, ParameterPlace::Header, Style::Simple),
            Place::Cookie(name) => (name, ParameterPlace::Cookie, Style::Form),
            Place::Body | Place::Variable(_) => return None,
        };
        let (required, explode) = (place == ParameterPlace::Path, style == Style::Form);
        let schema = schema.clone();
        Some(OperationParameter {
            name,
            place,
            required,
            description: None,
            style,
            explode,
            schema,
        })
    };
    let body = RequestBody {
        required: true,
        media_type: "application/json".to_owned(),
        schema: json!({}),
    };
    OpenApiTask {
        server: Url::parse(server).unwrap(),
        method,
        path: path.to_owned(),
        operation_id: None,
        summary: None,
        parameters: places.iter().filter_map(parameter).collect(),
        body: places.contains(&Place::Body).then_some(body),
        responses: Vec::new(),
        components: Value::Null,
        specification: Value::Null,
    }
}

/// The same as a task.
pub(crate) fn openapi(method: Method, server: &str, path: &str, places: &[&str]) -> Task {
    Task::OpenApi(Box::new(operation(method, server, path, places)))
}

/// A GraphQL operation with variables by name and type.
pub(crate) fn graphql(endpoint: &str, query: &str, variables: &[(&str, &str)]) -> GraphqlTask {
    let variable = |(name, kind): &(&str, &str)| VariableDefinition {
        name: (*name).to_owned(),
        kind: (*kind).to_owned(),
        required: kind.ends_with('!'),
    };
    GraphqlTask {
        endpoint: Url::parse(endpoint).unwrap(),
        query: query.to_owned(),
        operation_name: None,
        is_mutation: query.starts_with("mutation"),
        variables: variables.iter().map(variable).collect(),
        headers: BTreeMap::new(),
    }
}

/// Inputs by dotted place.
pub(crate) fn inputs<const N: usize>(given: [(&str, Value); N]) -> IndexMap<Place, Value> {
    given.into_iter().map(|(place, value)| (place.parse().unwrap(), value)).collect()
}
