//! GraphQL tasks: one operation posted as JSON (GraphQL over HTTP, "Request").

use a2s::{GraphqlTask, Place};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use indexmap::IndexMap;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Error, PreparedRequest, header_value, is_reserved_header};

/// The body of a request. `graphql_client::QueryBody` wants queries that are part of the program;
/// ours come from documents.
#[derive(Debug, Serialize)]
struct QueryBody<'a> {
    query: &'a str,
    #[serde(rename = "operationName", skip_serializing_if = "Option::is_none")]
    operation_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    variables: Map<String, Value>,
}

pub(super) fn prepare(
    task: &GraphqlTask,
    inputs: &IndexMap<Place, Value>,
) -> Result<PreparedRequest, Error> {
    let mut headers = HeaderMap::new();
    let accepted = "application/graphql-response+json, application/json;q=0.9";
    headers.insert(ACCEPT, HeaderValue::from_static(accepted));
    write_headers(task, &mut headers)?;
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let body = QueryBody {
        query: &task.query,
        operation_name: task.operation_name.as_deref(),
        variables: collect_variables(task, inputs)?,
    };
    let body = serde_json::to_vec(&body).map_err(|error| Error::Task(error.to_string()))?;
    let mut url = task.endpoint.clone();
    url.set_fragment(None);
    Ok(PreparedRequest {
        method: Method::POST,
        url,
        headers,
        body: Some(Bytes::from(body)),
        repeat_safe: false,
        access: None,
    })
}

/// The variables by name. Null is a value in GraphQL: it is sent, unless the type excludes it.
fn collect_variables(
    task: &GraphqlTask,
    inputs: &IndexMap<Place, Value>,
) -> Result<Map<String, Value>, Error> {
    let mut variables = Map::new();
    for (place, value) in inputs {
        let declared = match place {
            Place::Variable(name) => task.variables.iter().find(|variable| variable.name == *name),
            Place::Path(_)
            | Place::Query(_)
            | Place::Header(_)
            | Place::Cookie(_)
            | Place::Body => None,
        };
        let declared = declared.ok_or_else(|| Error::Unknown(place.clone()))?;
        if declared.kind.ends_with('!') && value.is_null() {
            return Err(Error::Missing(place.clone()));
        }
        variables.insert(declared.name.clone(), value.clone());
    }
    let mut required = task.variables.iter().filter(|variable| variable.required);
    match required.find(|variable| !variables.contains_key(&variable.name)) {
        Some(variable) => Err(Error::Missing(Place::Variable(variable.name.clone()))),
        None => Ok(variables),
    }
}

fn write_headers(task: &GraphqlTask, headers: &mut HeaderMap) -> Result<(), Error> {
    for (name, text) in &task.headers {
        let known = HeaderName::from_bytes(name.as_bytes()).ok();
        let known = known.filter(|name| !is_reserved_header(name));
        match (known, header_value(text)) {
            (Some(name), Some(value)) => headers.insert(name, value),
            _ => return Err(Error::Task(format!("its header {name:?} is not one to set"))),
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use a2s::Task;
    use serde_json::json;

    use super::*;
    use crate::request::fixture::{graphql, inputs};
    use crate::request::prepare;

    const ENDPOINT: &str = "https://social.example/graphql";
    const MUTATION: &str = "mutation Post($text: String!, $lang: String) { post(text: $text) }";

    fn task() -> GraphqlTask {
        graphql(ENDPOINT, MUTATION, &[("text", "String!"), ("lang", "String")])
    }

    fn body_of(task: GraphqlTask, given: &IndexMap<Place, Value>) -> Value {
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
        assert!(!request.repeat_safe());
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
            let missing = Error::Missing(Place::Variable("text".to_owned()));
            assert_eq!(prepare(&task, &given), Err(missing));
        }
        let unknown = inputs([("variables.text", json!("x")), ("body", json!(1))]);
        assert_eq!(prepare(&task, &unknown), Err(Error::Unknown(Place::Body)));
    }

    #[test]
    fn a_query_may_be_repeated() {
        let task = graphql(ENDPOINT, "{ countries { name } }", &[]);
        assert!(prepare(&Task::Graphql(Box::new(task)), &inputs([])).unwrap().repeat_safe());
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
            assert!(matches!(with(name, text), Err(Error::Task(_))), "{name}");
        }
    }
}
