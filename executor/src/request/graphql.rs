//! GraphQL tasks: one operation posted as JSON (GraphQL over HTTP, "Request").

use std::collections::BTreeMap;

use a2s::{Digest, GraphqlTask, InputLocation};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use indexmap::IndexMap;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{PrepareError, PreparedRequest, header_value, is_reserved_header};

/// The body of a request. `graphql_client::QueryBody` requires queries that are part of the program; these
/// come from documents.
#[derive(Debug, Serialize)]
struct QueryBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<&'a str>,
    #[serde(rename = "operationName", skip_serializing_if = "Option::is_none")]
    operation_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    variables: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extensions: Option<Value>,
}

pub(super) fn prepare(
    task: &GraphqlTask,
    inputs: &IndexMap<InputLocation, Value>,
) -> Result<PreparedRequest, PrepareError> {
    let mut headers = HeaderMap::new();
    let accepted = "application/graphql-response+json, application/json;q=0.9";
    headers.insert(ACCEPT, HeaderValue::from_static(accepted));
    write_headers(&task.headers, &mut headers)?;
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let variables = collect_variables(task, inputs)?;
    // A persisted query is named by its SHA-256 first; the service asks for the rest.
    let extensions = task.persisted_query.then(|| {
        let hash = Digest::of_bytes(task.query.as_bytes()).to_hex();
        json!({"persistedQuery": {"version": 1, "sha256Hash": hash}})
    });
    let write = |query| {
        let body = QueryBody {
            query,
            operation_name: task.operation_name.as_deref(),
            variables: &variables,
            extensions: extensions.clone(),
        };
        let body =
            serde_json::to_vec(&body).map_err(|error| PrepareError::Task(error.to_string()))?;
        Ok(Bytes::from(body))
    };
    let whole = write(Some(&*task.query))?;
    let (body, whole_body) = match task.persisted_query {
        true => (write(None)?, Some(whole)),
        false => (whole, None),
    };
    let mut url = task.endpoint.clone();
    url.set_fragment(None);
    Ok(PreparedRequest {
        method: Method::POST,
        url,
        headers,
        body: Some(body),
        whole_body,
        session_body: None,
        repeat_safe: false,
        own_trace: false,
        shown: None,
        access: None,
    })
}

/// Returns the variables by name. Null is a value in GraphQL: it is sent, unless the type excludes it.
fn collect_variables(
    task: &GraphqlTask,
    inputs: &IndexMap<InputLocation, Value>,
) -> Result<Map<String, Value>, PrepareError> {
    let mut variables = Map::new();
    for (place, value) in inputs {
        let declared = match place {
            InputLocation::Variable(name) => {
                task.variables.iter().find(|variable| variable.name == *name)
            }
            InputLocation::Path(_)
            | InputLocation::Query(_)
            | InputLocation::Header(_)
            | InputLocation::Cookie(_)
            | InputLocation::Argument(_)
            | InputLocation::Body => None,
        };
        let declared = declared.ok_or_else(|| PrepareError::Unknown(place.clone()))?;
        if declared.kind.ends_with('!') && value.is_null() {
            return Err(PrepareError::Missing(place.clone()));
        }
        variables.insert(declared.name.clone(), value.clone());
    }
    let mut required = task.variables.iter().filter(|variable| variable.required);
    match required.find(|variable| !variables.contains_key(&variable.name)) {
        Some(variable) => {
            Err(PrepareError::Missing(InputLocation::Variable(variable.name.clone())))
        }
        None => Ok(variables),
    }
}

/// Writes the headers that a document sets.
pub(super) fn write_headers(
    own: &BTreeMap<String, String>,
    headers: &mut HeaderMap,
) -> Result<(), PrepareError> {
    for (name, text) in own {
        let known = HeaderName::from_bytes(name.as_bytes()).ok();
        let known = known.filter(|name| !is_reserved_header(name));
        match (known, header_value(text)) {
            (Some(name), Some(value)) => headers.insert(name, value),
            _ => {
                return Err(PrepareError::Task(format!("a task must not set the header {name:?}")));
            }
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::test_fixtures::{graphql, inputs, prepare};
    use a2s::Task;

    const ENDPOINT: &str = "https://social.example/graphql";
    const MUTATION: &str = "mutation Post($text: String!, $lang: String) { post(text: $text) }";

    fn task() -> GraphqlTask {
        graphql(ENDPOINT, MUTATION, &[("text", "String!"), ("lang", "String")])
    }

    fn body_of(task: GraphqlTask, given: &IndexMap<InputLocation, Value>) -> Value {
        let request = prepare(&Task::Graphql(Box::new(task)), given).unwrap();
        serde_json::from_slice(request.body().unwrap()).unwrap()
    }

    #[test]
    fn an_operation_is_posted_with_its_variables() {
        let task = GraphqlTask { operation_name: Some("Post".to_owned()), ..task() };
        let given = inputs([("variables.text", json!("\"}) { evil }"))]);
        let request = prepare(&Task::Graphql(Box::new(task.clone())), &given).unwrap();
        assert_eq!((request.method(), request.url().as_str()), (&Method::POST, ENDPOINT));
        assert_eq!(request.headers()["content-type"], "application/json");
        let accepted = "application/graphql-response+json, application/json;q=0.9";
        assert_eq!(request.headers()["accept"], accepted);
        assert!(!request.is_repeat_safe());
        let expected = json!({
            "query": MUTATION,
            "operationName": "Post",
            "variables": {"text": "\"}) { evil }"},
        });
        assert_eq!(body_of(task, &given), expected);
    }

    #[test]
    fn null_is_a_value_where_the_type_allows_it() {
        let given = inputs([("variables.text", json!("x")), ("variables.lang", json!(null))]);
        assert_eq!(body_of(task(), &given)["variables"], json!({"text": "x", "lang": null}));
        let task = Task::Graphql(Box::new(task()));
        for given in [inputs([]), inputs([("variables.text", json!(null))])] {
            let missing = PrepareError::Missing(InputLocation::Variable("text".to_owned()));
            assert_eq!(prepare(&task, &given), Err(missing));
        }
        let unknown = inputs([("variables.text", json!("x")), ("body", json!(1))]);
        assert_eq!(prepare(&task, &unknown), Err(PrepareError::Unknown(InputLocation::Body)));
    }

    #[test]
    fn a_persisted_query_is_named_by_its_hash_first() {
        let task = Task::Graphql(Box::new(GraphqlTask { persisted_query: true, ..task() }));
        let request = prepare(&task, &inputs([("variables.text", json!("x"))])).unwrap();
        let whole = request.with_full_body().unwrap();
        let read = |request: &PreparedRequest| -> Value {
            serde_json::from_slice(request.body().unwrap()).unwrap()
        };
        let hash = Digest::of_bytes(MUTATION.as_bytes()).to_hex();
        let named = json!({"persistedQuery": {"version": 1, "sha256Hash": hash}});
        let short = json!({"variables": {"text": "x"}, "extensions": named});
        assert_eq!(read(&request), short);
        assert_eq!(read(&whole)["query"], MUTATION);
        assert_eq!(read(&whole)["extensions"], named);
        assert_eq!(whole.with_full_body(), None);
    }

    #[test]
    fn a_query_may_be_repeated() {
        let task = graphql(ENDPOINT, "{ countries { name } }", &[]);
        assert!(prepare(&Task::Graphql(Box::new(task)), &inputs([])).unwrap().is_repeat_safe());
    }

    #[test]
    fn headers_of_the_document_are_sent_but_no_reserved_ones() {
        let with = |name: &str, text: &str| {
            let mut task = task();
            task.headers.insert(name.to_owned(), text.to_owned());
            prepare(&Task::Graphql(Box::new(task)), &inputs([("variables.text", json!("x"))]))
        };
        assert_eq!(with("X-Client", "a2s").unwrap().headers()["x-client"], "a2s");
        assert_eq!(
            with("Content-Type", "x").unwrap().headers()["content-type"],
            "application/json"
        );
        for (name, text) in [("Host", "x"), ("authorization", "x"), ("a b", "x"), ("A", "x\r\ny")] {
            assert!(matches!(with(name, text), Err(PrepareError::Task(_))), "{name}");
        }
    }
}
