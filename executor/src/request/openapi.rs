//! OpenAPI tasks: parameters and body, each at its place in the request.

use a2s::{Method, OpenApiTask, OperationParameter, ParameterPlace, Place, Style};
use bytes::Bytes;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, COOKIE, HeaderName, HeaderValue};
use indexmap::IndexMap;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::Value;
use url::Url;

use super::style::{self, Shape};
use super::{Error, PreparedRequest, header_value, is_json, is_reserved_header};

/// The characters of a path template that are not part of a segment: everything but those that
/// RFC 3986 allows in one, and the `%` of what is encoded already.
const LITERAL: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@')
    .remove(b'%');

pub(super) fn prepare(
    task: &OpenApiTask,
    inputs: &IndexMap<Place, Value>,
) -> Result<PreparedRequest, Error> {
    check_places(task, inputs)?;
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, accepted_types(task));
    write_headers(task, inputs, &mut headers)?;
    let body = write_body(task, inputs, &mut headers)?;
    Ok(PreparedRequest {
        method: method(task.method),
        url: write_url(task, inputs)?,
        headers,
        body,
        repeat_safe: false,
    })
}

/// The method and the address, with parameters in braces.
pub(super) fn address(task: &OpenApiTask) -> (&'static str, String) {
    let server = task.server.as_str().trim_end_matches('/');
    (task.method.as_str(), format!("{server}/{}", task.path.trim_start_matches('/')))
}

fn method(method: Method) -> http::Method {
    match method {
        Method::Get => http::Method::GET,
        Method::Put => http::Method::PUT,
        Method::Post => http::Method::POST,
        Method::Delete => http::Method::DELETE,
        Method::Options => http::Method::OPTIONS,
        Method::Head => http::Method::HEAD,
        Method::Patch => http::Method::PATCH,
        Method::Trace => http::Method::TRACE,
    }
}

/// The input for a place. Header names are alike in upper and lower case.
fn input<'a>(inputs: &'a IndexMap<Place, Value>, place: &Place) -> Option<&'a Value> {
    inputs.iter().find(|(given, _)| is_same(given, place)).map(|(_, value)| value)
}

fn is_same(one: &Place, other: &Place) -> bool {
    match (one, other) {
        (Place::Header(one), Place::Header(other)) => one.eq_ignore_ascii_case(other),
        _ => one == other,
    }
}

fn check_places(task: &OpenApiTask, inputs: &IndexMap<Place, Value>) -> Result<(), Error> {
    let known = |given: &Place| match given {
        Place::Body => task.body.is_some(),
        place => task.parameters.iter().any(|parameter| is_same(&parameter.input_place(), place)),
    };
    match inputs.keys().find(|place| !known(place)) {
        Some(place) => Err(Error::Unknown(place.clone())),
        None => Ok(()),
    }
}

/// The parameters of one place that have a value, in the order of the operation.
///
/// A parameter without value is left out, or an error when it is required. A default in its schema
/// is what the server assumes, so it is not sent.
fn given<'a>(
    task: &'a OpenApiTask,
    inputs: &IndexMap<Place, Value>,
    wanted: ParameterPlace,
) -> Result<Vec<(&'a OperationParameter, Place, Shape)>, Error> {
    let mut found = Vec::new();
    for parameter in task.parameters.iter().filter(|parameter| parameter.place == wanted) {
        // OpenAPI leaves these three to the operation itself and to its security schemes.
        if wanted == ParameterPlace::Header && is_ignored_header(&parameter.name) {
            continue;
        }
        let place = parameter.input_place();
        let value = input(inputs, &place).unwrap_or(&Value::Null);
        match Shape::of(value).map_err(|reason| Error::value(&place, reason))? {
            Some(shape) => found.push((parameter, place, shape)),
            None if parameter.required => return Err(Error::Missing(place)),
            None => {}
        }
    }
    Ok(found)
}

/// `Content-Type` and `Authorization` are never parameters (OpenAPI 3.0.4, "Parameter Object").
/// `Accept` should not be one either, but real services version themselves by it.
fn is_ignored_header(name: &str) -> bool {
    name.eq_ignore_ascii_case("content-type") || name.eq_ignore_ascii_case("authorization")
}

fn write_url(task: &OpenApiTask, inputs: &IndexMap<Place, Value>) -> Result<Url, Error> {
    let mut url = task.server.clone();
    let path = format!("{}{}", url.path().trim_end_matches('/'), write_path(task, inputs)?);
    url.set_path(&path);
    if url.path() != path {
        // The parser of addresses would have read the path differently from us.
        return Err(Error::Task(format!("its path {:?} is not one of an address", task.path)));
    }
    url.set_fragment(None);
    url.set_query(None);
    let mut query: Vec<String> = task.server.query().map(str::to_owned).into_iter().collect();
    for (parameter, place, shape) in given(task, inputs, ParameterPlace::Query)? {
        let pairs = style::write_query(&parameter.name, shape, parameter.style, parameter.explode)
            .map_err(|reason| Error::value(&place, reason))?;
        query.extend(pairs.into_iter().map(|(name, value)| format!("{name}={value}")));
    }
    if !query.is_empty() {
        url.set_query(Some(&query.join("&")));
    }
    Ok(url)
}

/// Fills the path template, segment by segment: a value never makes or removes one.
fn write_path(task: &OpenApiTask, inputs: &IndexMap<Place, Value>) -> Result<String, Error> {
    let values = given(task, inputs, ParameterPlace::Path)?;
    let mut path = String::new();
    for segment in task.path.trim_start_matches('/').split('/') {
        path.push('/');
        path.push_str(&write_segment(segment, &values)?);
    }
    Ok(path)
}

fn write_segment(
    template: &str,
    values: &[(&OperationParameter, Place, Shape)],
) -> Result<String, Error> {
    let mut written = String::new();
    let mut filled_by = None;
    let mut rest = template;
    while let Some((literal, name, behind)) = next_expression(rest) {
        written.extend(utf8_percent_encode(literal, LITERAL));
        let (parameter, place, shape) = values
            .iter()
            .find(|(parameter, ..)| parameter.name == name)
            .ok_or_else(|| Error::Missing(Place::Path(name.to_owned())))?;
        let (style, explode) = (parameter.style, parameter.explode);
        let value = style::write_path(name, shape.clone(), style, explode);
        written.push_str(&value.map_err(|reason| Error::value(place, reason))?);
        filled_by = Some(place);
        rest = behind;
    }
    written.extend(utf8_percent_encode(rest, LITERAL));
    let decoded = percent_decode_str(&written).decode_utf8_lossy();
    match filled_by {
        // Every parser of addresses removes such segments, however they are encoded.
        Some(place) if matches!(&*decoded, "." | "..") => {
            Err(Error::value(place, "`.` and `..` would change the path"))
        }
        Some(place) if decoded.is_empty() => {
            Err(Error::value(place, "an empty segment would address something else"))
        }
        Some(_) | None => Ok(written),
    }
}

/// The text before the next `{name}`, the name, and the text behind.
fn next_expression(text: &str) -> Option<(&str, &str, &str)> {
    let (literal, rest) = text.split_once('{')?;
    let (name, behind) = rest.split_once('}')?;
    Some((literal, name, behind))
}

fn write_headers(
    task: &OpenApiTask,
    inputs: &IndexMap<Place, Value>,
    headers: &mut HeaderMap,
) -> Result<(), Error> {
    for (parameter, place, shape) in given(task, inputs, ParameterPlace::Header)? {
        let name = HeaderName::from_bytes(parameter.name.as_bytes())
            .map_err(|_| Error::value(&place, "its name is not one of a header"))?;
        if is_reserved_header(&name) {
            let reason = "this header belongs to the connection or to credentials";
            return Err(Error::value(&place, reason));
        }
        let value = header_value(&style::write_header(shape, parameter.explode));
        let reason = "a header holds visible ASCII characters on one line";
        headers.insert(name, value.ok_or_else(|| Error::value(&place, reason))?);
    }
    let mut cookies = Vec::new();
    for (parameter, place, shape) in given(task, inputs, ParameterPlace::Cookie)? {
        let pairs = style::write_query(&parameter.name, shape, Style::Form, parameter.explode)
            .map_err(|reason| Error::value(&place, reason))?;
        cookies.extend(pairs.into_iter().map(|(name, value)| format!("{name}={value}")));
    }
    // Names and values are encoded, so they are always fit for a header.
    if let Some(value) = header_value(&cookies.join("; ")).filter(|value| !value.is_empty()) {
        headers.insert(COOKIE, value);
    }
    Ok(())
}

fn write_body(
    task: &OpenApiTask,
    inputs: &IndexMap<Place, Value>,
    headers: &mut HeaderMap,
) -> Result<Option<Bytes>, Error> {
    let Some(declared) = &task.body else { return Ok(None) };
    let Some(value) = inputs.get(&Place::Body).filter(|value| !value.is_null()) else {
        return if declared.required { Err(Error::Missing(Place::Body)) } else { Ok(None) };
    };
    let media_type = header_value(&declared.media_type).filter(|_| is_json(&declared.media_type));
    let media_type = media_type.ok_or_else(|| {
        Error::Task(format!("a body of type {:?} is not JSON", declared.media_type))
    })?;
    headers.insert(CONTENT_TYPE, media_type);
    Ok(Some(Bytes::from(value.to_string())))
}

/// The JSON types that the operation declares for success, or JSON, and anything else at the end
/// of the queue: what cannot be read is better explained by us than refused by the service.
fn accepted_types(task: &OpenApiTask) -> HeaderValue {
    let mut types: Vec<&str> = Vec::new();
    for (status, response) in &task.responses {
        let content = response.get("content").and_then(Value::as_object);
        let success = status.starts_with('2') || status == "default";
        for (media_type, _) in content.into_iter().flatten().filter(|_| success) {
            if is_json(media_type) && !media_type.contains(',') && !types.contains(&&**media_type) {
                types.push(media_type);
            }
        }
    }
    if types.is_empty() {
        types.push("application/json");
    }
    types.truncate(4);
    let accepted = header_value(&format!("{}, */*;q=0.1", types.join(", ")));
    accepted.unwrap_or(HeaderValue::from_static("application/json, */*;q=0.1"))
}

#[cfg(test)]
mod tests {
    use a2s::Task;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::request::fixture::{inputs, openapi, operation};
    use crate::request::{MAX_BODY_BYTES, MAX_URL_BYTES, prepare};

    const SERVER: &str = "https://api.example/v1/";

    fn path_of(template: &str, value: Value) -> Result<String, Error> {
        let task = openapi(Method::Get, SERVER, template, &["pathParameters.city"]);
        let request = prepare(&task, &inputs([("pathParameters.city", value)]))?;
        assert_eq!(request.url().host_str(), Some("api.example"));
        assert_eq!((request.url().query(), request.url().fragment()), (None, None));
        Ok(request.url().path().to_owned())
    }

    #[test]
    fn every_value_stands_at_its_place() {
        let places = ["pathParameters.city", "queryParameters.units", "queryParameters.days"];
        let more = ["headerParameters.X-Trace", "cookieParameters.theme", "body"];
        let task = openapi(Method::Post, SERVER, "/current/{city}", &[places, more].concat());
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
        assert!(!request.repeat_safe());
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
            assert!(matches!(refused, Error::Value { .. }), "{template} {value:?}: {refused}");
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
            let task = openapi(Method::Get, SERVER, "/a", &[q, r]);
            let given = inputs([(q, json!(value)), (r, json!("1"))]);
            let url = prepare(&task, &given).unwrap().url().clone();
            let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
            let expected = [("q&=".to_owned(), value), ("r".to_owned(), "1".to_owned())];
            prop_assert_eq!(pairs, expected);
            prop_assert_eq!((url.path(), url.fragment()), ("/v1/a", None));
        }

        #[test]
        fn a_header_holds_its_value_or_is_refused(value in "(?s).{0,40}") {
            let task = openapi(Method::Get, SERVER, "/a", &["headerParameters.X-Note"]);
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
        let task = openapi(Method::Get, SERVER, "/a", &["headerParameters.X-Note"]);
        for value in ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\0b", "caf\u{e9}", "\u{7f}"] {
            let refused = prepare(&task, &inputs([("headerParameters.X-Note", json!(value))]));
            let refused = refused.unwrap_err();
            assert!(matches!(refused, Error::Value { .. }), "{value:?}");
            assert!(!refused.to_string().contains("Evil"), "an error shows no value");
        }
    }

    #[test]
    fn headers_of_the_connection_and_credentials_are_no_inputs() {
        for name in ["Host", "content-length", "Transfer-Encoding", "Connection", "Cookie"] {
            let place = format!("headerParameters.{name}");
            let task = openapi(Method::Get, SERVER, "/a", &[&place]);
            assert!(prepare(&task, &inputs([(&place, json!("x"))])).is_err(), "{name}");
        }
        // OpenAPI says that these are ignored.
        let places = ["headerParameters.Authorization", "headerParameters.Content-Type"];
        let task = openapi(Method::Get, SERVER, "/a", &places);
        let request = prepare(&task, &inputs(places.map(|place| (place, json!("x"))))).unwrap();
        assert!(!request.headers().contains_key("authorization"));
        assert!(!request.headers().contains_key("content-type"));
    }

    #[track_caller]
    fn check_refused(task: &Task, given: &IndexMap<Place, Value>, expected: &str) {
        assert_eq!(prepare(task, given).unwrap_err().to_string(), expected);
    }

    #[test]
    fn what_is_missing_or_unknown_is_named() {
        let places = ["pathParameters.city", "queryParameters.units", "body"];
        let task = openapi(Method::Post, SERVER, "/a/{city}", &places);
        let missing = "the input `pathParameters.city` is required and has no value";
        check_refused(&task, &inputs([("body", json!(1))]), missing);
        let null = inputs([("body", json!(1)), ("pathParameters.city", json!(null))]);
        check_refused(&task, &null, missing);
        let missing = "the input `body` is required and has no value";
        check_refused(&task, &inputs([("pathParameters.city", json!("x"))]), missing);
        for unknown in ["queryParameters.city", "variables.city", "pathParameters.City"] {
            let expected = format!("the task takes no input `{unknown}`");
            check_refused(&task, &inputs([(unknown, json!("x"))]), &expected);
        }
        let nested = inputs([("pathParameters.city", json!([[1]])), ("body", json!(1))]);
        assert!(matches!(prepare(&task, &nested), Err(Error::Value { .. })));
    }

    #[test]
    fn an_optional_parameter_without_value_is_not_sent() {
        let mut operation = operation(Method::Get, SERVER, "/a", &["queryParameters.units"]);
        operation.parameters[0].schema = json!({"default": "metric"});
        let task = Task::OpenApi(Box::new(operation));
        for given in [inputs([]), inputs([("queryParameters.units", json!(null))])] {
            let request = prepare(&task, &given).unwrap();
            assert_eq!(request.url().as_str(), "https://api.example/v1/a");
        }
    }

    #[test]
    fn a_template_is_encoded_but_what_is_encoded_in_it_stays() {
        let task = openapi(Method::Get, "https://api.example", "/a b/%7Bx%7D/@:;,", &[]);
        assert_eq!(prepare(&task, &inputs([])).unwrap().url().path(), "/a%20b/%7Bx%7D/@:;,");
        let task = openapi(Method::Get, "https://api.example/x", "/../admin", &[]);
        assert!(matches!(prepare(&task, &inputs([])), Err(Error::Task(_))));
    }

    #[test]
    fn the_json_types_of_success_are_asked_for() {
        let mut operation = operation(Method::Get, SERVER, "/a", &[]);
        let types = |types: &[&str]| {
            let content: serde_json::Map<_, _> =
                types.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
            json!({"content": content})
        };
        operation.responses = vec![
            ("200".to_owned(), types(&["text/html", "application/vnd.github+json"])),
            ("404".to_owned(), types(&["application/problem+json"])),
        ];
        let request = prepare(&Task::OpenApi(Box::new(operation)), &inputs([])).unwrap();
        assert_eq!(request.headers()["accept"], "application/vnd.github+json, */*;q=0.1");
    }

    #[test]
    fn what_no_service_takes_is_refused() {
        let task = openapi(Method::Post, SERVER, "/a", &["queryParameters.q", "body"]);
        let long =
            inputs([("queryParameters.q", json!("x".repeat(MAX_URL_BYTES))), ("body", json!(1))]);
        assert!(matches!(prepare(&task, &long), Err(Error::TooLarge { .. })));
        let large = inputs([("body", json!("x".repeat(MAX_BODY_BYTES)))]);
        assert!(matches!(prepare(&task, &large), Err(Error::TooLarge { .. })));
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
            digest(Method::Post, ["1", "2", "3", "4"]),
            digest(Method::Put, ["1", "2", "3", "4"]),
            digest(Method::Post, ["9", "2", "3", "4"]),
            digest(Method::Post, ["1", "9", "3", "4"]),
            digest(Method::Post, ["1", "2", "9", "4"]),
            digest(Method::Post, ["1", "2", "3", "9"]),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(all[0], digest(Method::Post, ["1", "2", "3", "4"]));
    }
}
