//! Tasks, inputs and a clock for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use a2s::{
    BodyFormat, GraphqlTask, HttpMethod, InputLocation, MediaType, OpenApiTask, OpenApiVersion,
    OperationParameter, ParameterLocation, RequestBody, Task, ValueStyle, VariableDefinition,
};
use indexmap::IndexMap;
use jiff::Timestamp;
use serde_json::{Value, json};
use url::Url;

use super::{PrepareError, PreparedRequest, TaskContract};
use crate::clock::{Clock, RandomSource};

/// Prepares the request of a task, for tests that need only one.
pub(crate) fn prepare(
    task: &Task,
    inputs: &IndexMap<InputLocation, Value>,
) -> Result<PreparedRequest, PrepareError> {
    super::prepare(&TaskContract::new(Arc::new(task.clone())), inputs)
}

/// A clock that always returns the same time, and a source of equal ids.
#[derive(Debug)]
pub(crate) struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        "2026-08-01T12:00:00Z".parse().unwrap()
    }
}

impl RandomSource for Still {
    fn random_bytes(&self) -> [u8; 16] {
        [7; 16]
    }
}

/// Creates an operation with the given locations as parameters: path parameters are required, others are
/// not. A `body` among them is a required JSON body.
pub(crate) fn operation(
    method: HttpMethod,
    server: &str,
    path: &str,
    places: &[&str],
) -> OpenApiTask {
    let places: Vec<InputLocation> = places.iter().map(|text| text.parse().unwrap()).collect();
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
        body: places.contains(&InputLocation::Body).then_some(body),
        responses: Vec::new(),
        security: Vec::new(),
        components: Arc::new(Value::Null),
        specification: Arc::new(Value::Null),
    }
}

/// Creates a parameter in the style of its location, required only in a path; `None` for locations that are
/// not parameters.
pub(crate) fn parameter(place: &InputLocation) -> Option<OperationParameter> {
    let (name, place) = match place.clone() {
        InputLocation::Path(name) => (name, ParameterLocation::Path),
        InputLocation::Query(name) => (name, ParameterLocation::Query),
        InputLocation::Header(name) => (name, ParameterLocation::Header),
        InputLocation::Cookie(name) => (name, ParameterLocation::Cookie),
        InputLocation::Body | InputLocation::Variable(_) | InputLocation::Argument(_) => {
            return None;
        }
    };
    Some(OperationParameter {
        name,
        location: place,
        required: place == ParameterLocation::Path,
        description: None,
        style: ValueStyle::default_for(place),
        allow_empty_value: false,
        content: None,
        schema: json!({}),
    })
}

/// Creates such an operation as a task.
pub(crate) fn openapi(method: HttpMethod, server: &str, path: &str, places: &[&str]) -> Task {
    Task::OpenApi(Box::new(operation(method, server, path, places)))
}

/// Creates a GraphQL operation with variables by name and type.
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

/// Creates inputs by dotted location.
pub(crate) fn inputs<const N: usize>(given: [(&str, Value); N]) -> IndexMap<InputLocation, Value> {
    given.into_iter().map(|(place, value)| (place.parse().unwrap(), value)).collect()
}
