//! What is sent for an operation and its inputs.

mod anything;
mod bodies;
mod parameters;

use a2s::Task;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::request::test_fixtures::{inputs, openapi, operation, prepare};
use crate::request::{MAX_BODY_BYTES, MAX_URL_BYTES};

const SERVER: &str = "https://api.example/v1/";

fn path_of(template: &str, value: Value) -> Result<String, PrepareError> {
    let task = openapi(HttpMethod::Get, SERVER, template, &["pathParameters.city"]);
    let request = prepare(&task, &inputs([("pathParameters.city", value)]))?;
    assert_eq!(request.url().host_str(), Some("api.example"));
    assert_eq!((request.url().query(), request.url().fragment()), (None, None));
    Ok(request.url().path().to_owned())
}

#[test]
fn every_value_stands_at_its_place() {
    let places = ["pathParameters.city", "queryParameters.units", "queryParameters.days"];
    let more = ["headerParameters.X-Trace", "cookieParameters.theme", "body"];
    let task = openapi(HttpMethod::Post, SERVER, "/current/{city}", &[places, more].concat());
    let request = prepare(
        &task,
        &inputs([
            ("body", json!({"note": "a&b"})),
            ("cookieParameters.theme", json!("dark; secure")),
            ("headerParameters.x-trace", json!(7)),
            ("queryParameters.days", json!([1, 2])),
            ("queryParameters.units", json!("metric & more")),
            ("pathParameters.city", json!("São Paulo")),
        ]),
    )
    .unwrap();
    assert_eq!(request.method(), http::Method::POST);
    assert_eq!(
        request.url().as_str(),
        "https://api.example/v1/current/S%C3%A3o%20Paulo?units=metric%20%26%20more&days=1&days=2"
    );
    let header = |name: &str| request.headers().get(name).map(|v| v.to_str().unwrap());
    assert_eq!(header("x-trace"), Some("7"));
    assert_eq!(header("cookie"), Some("theme=dark%3B%20secure"));
    assert_eq!(header("content-type"), Some("application/json"));
    assert_eq!(header("accept"), Some("application/json, */*;q=0.1"));
    assert_eq!(request.body().unwrap().as_ref(), br#"{"note":"a&b"}"#);
    assert!(!request.is_repeat_safe());
}

#[test]
fn a_hostile_path_value_stays_one_segment() {
    let path = |value: &str| path_of("/a/{city}/b", json!(value)).unwrap();
    assert_eq!(path("../x?y#z"), "/v1/a/..%2Fx%3Fy%23z/b");
    assert_eq!(path("a%2e%2e"), "/v1/a/a%252e%252e/b");
    assert_eq!(path("%2e%2e"), "/v1/a/%252e%252e/b");
    assert_eq!(path("..\\..\\x"), "/v1/a/..%5C..%5Cx/b");
    assert_eq!(path("a\r\nHost: evil\0"), "/v1/a/a%0D%0AHost%3A%20evil%00/b");
    assert_eq!(path("//evil.example/"), "/v1/a/%2F%2Fevil.example%2F/b");
    assert_eq!(path("..."), "/v1/a/.../b");
}

#[test]
fn a_path_value_that_would_address_something_else_is_refused() {
    for (template, value) in [
        ("/a/{city}", ""),
        ("/a/{city}/b", ""),
        ("/a/{city}", "."),
        ("/a/{city}/b", ".."),
        ("/a/.{city}", "."),
        ("/a/{city}.", "."),
    ] {
        let refused = path_of(template, json!(value)).unwrap_err();
        assert!(matches!(refused, PrepareError::Value { .. }), "{template} {value:?}: {refused}");
        assert!(refused.to_string().contains("`pathParameters.city`"));
    }
    assert_eq!(path_of("/a/x{city}", json!("..")).unwrap(), "/v1/a/x..");
}

proptest! {
    #[test]
    fn a_path_value_never_changes_the_segments_and_reads_back(value in "(?s).{1,40}") {
        prop_assume!(value != "." && value != "..");
        let path = path_of("/a/{city}/b", json!(value)).unwrap();
        let segments: Vec<&str> = path.split('/').collect();
        prop_assert_eq!(segments.len(), 5, "{}", path);
        let read = percent_decode_str(segments[3]).decode_utf8().unwrap();
        prop_assert_eq!(read, value);
    }

    #[test]
    fn a_query_value_never_makes_another_and_reads_back(value in "(?s).{0,40}") {
        let (q, r) = ("queryParameters.q&=", "queryParameters.r");
        let task = openapi(HttpMethod::Get, SERVER, "/a", &[q, r]);
        let given = inputs([(q, json!(value)), (r, json!("1"))]);
        let url = prepare(&task, &given).unwrap().url().clone();
        let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        let expected = [("q&=".to_owned(), value), ("r".to_owned(), "1".to_owned())];
        prop_assert_eq!(pairs, expected);
        prop_assert_eq!((url.path(), url.fragment()), ("/v1/a", None));
    }

    #[test]
    fn a_header_holds_its_value_or_is_refused(value in "(?s).{0,40}") {
        let task = openapi(HttpMethod::Get, SERVER, "/a", &["headerParameters.X-Note"]);
        match prepare(&task, &inputs([("headerParameters.X-Note", json!(value))])) {
            Ok(request) => {
                let sent = &request.headers()["x-note"];
                prop_assert_eq!(sent.to_str().unwrap(), &value);
                prop_assert!(value.chars().all(|c| c == '\t' || (' '..='~').contains(&c)));
            }
            Err(refused) => {
                prop_assert!(value.chars().any(|c| c != '\t' && !(' '..='~').contains(&c)));
                prop_assert!(refused.to_string().contains("`headerParameters.X-Note`"));
            }
        }
    }
}

#[test]
fn a_header_value_cannot_begin_another_header() {
    let task = openapi(HttpMethod::Get, SERVER, "/a", &["headerParameters.X-Note"]);
    for value in ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\0b", "caf\u{e9}", "\u{7f}"] {
        let refused = prepare(&task, &inputs([("headerParameters.X-Note", json!(value))]));
        let refused = refused.unwrap_err();
        assert!(matches!(refused, PrepareError::Value { .. }), "{value:?}");
        assert!(!refused.to_string().contains("Evil"), "an error shows no value");
    }
}

#[test]
fn headers_of_the_connection_and_credentials_are_no_inputs() {
    for name in ["Host", "content-length", "Transfer-Encoding", "Connection", "Cookie"] {
        let place = format!("headerParameters.{name}");
        let task = openapi(HttpMethod::Get, SERVER, "/a", &[&place]);
        assert!(prepare(&task, &inputs([(&place, json!("x"))])).is_err(), "{name}");
    }
    // OpenAPI says that these are ignored.
    let names = ["Authorization", "Content-Type", "Accept"];
    let places = names.map(|name| format!("headerParameters.{name}"));
    let places = places.each_ref().map(String::as_str);
    let task = openapi(HttpMethod::Get, SERVER, "/a", &places);
    let request = prepare(&task, &inputs(places.map(|place| (place, json!("x"))))).unwrap();
    assert!(!request.headers().contains_key("authorization"));
    assert!(!request.headers().contains_key("content-type"));
    assert_ne!(request.headers()["accept"], "x");
}

#[track_caller]
fn check_refused(task: &Task, given: &IndexMap<InputLocation, Value>, expected: &str) {
    assert_eq!(prepare(task, given).unwrap_err().to_string(), expected);
}

#[test]
fn what_is_missing_or_unknown_is_named() {
    let places = ["pathParameters.city", "queryParameters.units", "body"];
    let task = openapi(HttpMethod::Post, SERVER, "/a/{city}", &places);
    let missing = "the required input `pathParameters.city` has no value";
    check_refused(&task, &inputs([("body", json!(1))]), missing);
    let null = inputs([("body", json!(1)), ("pathParameters.city", json!(null))]);
    check_refused(&task, &null, missing);
    let missing = "the required input `body` has no value";
    check_refused(&task, &inputs([("pathParameters.city", json!("x"))]), missing);
    for unknown in ["queryParameters.city", "variables.city", "pathParameters.City"] {
        let expected = format!("the task has no input `{unknown}`");
        check_refused(&task, &inputs([(unknown, json!("x"))]), &expected);
    }
    let nested = inputs([("pathParameters.city", json!([[1]])), ("body", json!(1))]);
    assert!(matches!(prepare(&task, &nested), Err(PrepareError::Value { .. })));
}

#[test]
fn an_optional_parameter_without_value_is_not_sent() {
    let mut operation = operation(HttpMethod::Get, SERVER, "/a", &["queryParameters.units"]);
    operation.parameters[0].schema = json!({"default": "metric"});
    let task = Task::OpenApi(Box::new(operation));
    for given in [inputs([]), inputs([("queryParameters.units", json!(null))])] {
        let request = prepare(&task, &given).unwrap();
        assert_eq!(request.url().as_str(), "https://api.example/v1/a");
    }
}

#[test]
fn a_template_is_encoded_but_what_is_encoded_in_it_stays() {
    let task = openapi(HttpMethod::Get, "https://api.example", "/a b/%7Bx%7D/@:;,", &[]);
    assert_eq!(prepare(&task, &inputs([])).unwrap().url().path(), "/a%20b/%7Bx%7D/@:;,");
    let task = openapi(HttpMethod::Get, "https://api.example/x", "/../admin", &[]);
    assert!(matches!(prepare(&task, &inputs([])), Err(PrepareError::Task(_))));
}

#[test]
fn the_query_of_a_server_stays_and_its_fragment_goes() {
    let server = "https://api.example/v1?key=a#part";
    let task = openapi(HttpMethod::Get, server, "/b", &["queryParameters.q"]);
    let url = |given| prepare(&task, &given).unwrap().url().to_string();
    assert_eq!(url(inputs([])), "https://api.example/v1/b?key=a");
    let given = inputs([("queryParameters.q", json!(1))]);
    assert_eq!(url(given), "https://api.example/v1/b?key=a&q=1");
}

#[test]
fn what_success_is_declared_as_is_asked_for_json_first() {
    let mut operation = operation(HttpMethod::Get, SERVER, "/a", &[]);
    let types = |types: &[&str]| {
        let content: serde_json::Map<_, _> =
            types.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
        json!({"content": content})
    };
    operation.responses = vec![
        ("200".to_owned(), types(&["text/html", "application/vnd.github+json"])),
        ("404".to_owned(), types(&["application/problem+json"])),
    ];
    let accepted = |operation: &OpenApiTask| {
        let task = Task::OpenApi(Box::new(operation.clone()));
        let request = prepare(&task, &inputs([])).unwrap();
        request.headers()["accept"].to_str().unwrap().to_owned()
    };
    let json_first = "application/vnd.github+json, text/html;q=0.5, */*;q=0.1";
    assert_eq!(accepted(&operation), json_first);
    // What would be read as several types, or has a weight of its own, is left to `*/*`.
    let odd = ["text/csv;q=1", "text/x; a=\"b, c\"", "*/*", "text/plain"];
    operation.responses = vec![("2XX".to_owned(), types(&odd))];
    assert_eq!(accepted(&operation), "text/plain, */*;q=0.1");
    let many: Vec<String> = (0..20).map(|n| format!("text/x{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    operation.responses = vec![("default".to_owned(), types(&many))];
    assert_eq!(accepted(&operation).split(", ").count(), 9);
}

#[test]
fn what_no_service_takes_is_refused() {
    let task = openapi(HttpMethod::Post, SERVER, "/a", &["queryParameters.q", "body"]);
    let long =
        inputs([("queryParameters.q", json!("x".repeat(MAX_URL_BYTES))), ("body", json!(1))]);
    assert!(matches!(prepare(&task, &long), Err(PrepareError::TooLarge { .. })));
    let large = inputs([("body", json!("x".repeat(MAX_BODY_BYTES)))]);
    assert!(matches!(prepare(&task, &large), Err(PrepareError::TooLarge { .. })));
}

#[test]
fn the_digest_covers_every_part_of_a_request() {
    let places = ["pathParameters.a", "queryParameters.b", "headerParameters.c", "body"];
    let task = |method| openapi(method, SERVER, "/x/{a}", &places);
    let digest = |method, values: [&str; 4]| {
        let [a, b, c, d] = values.map(Value::from);
        let given = inputs([
            ("pathParameters.a", a),
            ("queryParameters.b", b),
            ("headerParameters.c", c),
            ("body", d),
        ]);
        prepare(&task(method), &given).unwrap().digest()
    };
    let all = [
        digest(HttpMethod::Post, ["1", "2", "3", "4"]),
        digest(HttpMethod::Put, ["1", "2", "3", "4"]),
        digest(HttpMethod::Post, ["9", "2", "3", "4"]),
        digest(HttpMethod::Post, ["1", "9", "3", "4"]),
        digest(HttpMethod::Post, ["1", "2", "9", "4"]),
        digest(HttpMethod::Post, ["1", "2", "3", "9"]),
    ];
    let different: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(different.len(), all.len());
    assert_eq!(all[0], digest(HttpMethod::Post, ["1", "2", "3", "4"]));
}
