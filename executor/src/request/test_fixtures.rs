//! Tasks, inputs and a clock for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use a2s::{
    BodyFormat, GraphqlTask, MediaType, Method, OpenApiTask, OpenApiVersion, OperationParameter,
    ParameterPlace, Place, RequestBody, Task, ValueStyle, VariableDefinition,
};
use indexmap::IndexMap;
use jiff::Timestamp;
use serde_json::{Value, json};
use url::Url;

use super::{Contract, Error, PreparedRequest};
use crate::clock::{Clock, Ids};

/// The request that a task means, for tests that ask for one only.
pub(crate) fn prepare(
    task: &Task,
    inputs: &IndexMap<Place, Value>,
) -> Result<PreparedRequest, Error> {
    super::prepare(&Contract::new(Arc::new(task.clone())), inputs)
}

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
    let parameters = places.iter().filter_map(parameter).collect();
    let body = RequestBody {
        required: true,
        media_type: MediaType::parse("application/json").unwrap(),
        format: BodyFormat::Json,
        fields: BTreeMap::new(),
        order: Vec::new(),
        schema: json!({}),
    };
    OpenApiTask {
        version: OpenApiVersion::V3_0,
        server: Url::parse(server).unwrap(),
        method,
        path: path.to_owned(),
        operation_id: None,
        summary: None,
        parameters,
        body: places.contains(&Place::Body).then_some(body),
        responses: Vec::new(),
        security: Vec::new(),
        components: Arc::new(Value::Null),
        specification: Arc::new(Value::Null),
    }
}

/// A parameter in the style of its place, required in a path and nowhere else; none for places
/// that are no parameters.
pub(crate) fn parameter(place: &Place) -> Option<OperationParameter> {
    let (name, place) = match place.clone() {
        Place::Path(name) => (name, ParameterPlace::Path),
        Place::Query(name) => (name, ParameterPlace::Query),
        Place::Header(name) => (name, ParameterPlace::Header),
        Place::Cookie(name) => (name, ParameterPlace::Cookie),
        Place::Body | Place::Variable(_) | Place::Argument(_) => return None,
    };
    Some(OperationParameter {
        name,
        place,
        required: place == ParameterPlace::Path,
        description: None,
        style: ValueStyle::default_of(place),
        allow_empty_value: false,
        content: None,
        schema: json!({}),
    })
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
        schema: Value::Null,
    };
    GraphqlTask {
        endpoint: Url::parse(endpoint).unwrap(),
        query: query.to_owned(),
        operation_name: None,
        is_mutation: query.starts_with("mutation"),
        variables: variables.iter().map(variable).collect(),
        headers: BTreeMap::new(),
        security: Vec::new(),
        definitions: Value::Null,
        data: Value::Null,
        persisted_query: false,
        partial_data: false,
    }
}

/// Inputs by dotted place.
pub(crate) fn inputs<const N: usize>(given: [(&str, Value); N]) -> IndexMap<Place, Value> {
    given.into_iter().map(|(place, value)| (place.parse().unwrap(), value)).collect()
}
