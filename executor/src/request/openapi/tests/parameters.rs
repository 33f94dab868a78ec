//! Parameters: content types, empty values, and several in one segment.

use a2s::{MediaType, OperationParameter, ParameterStyle, ValueStyle};
use serde_json::json;

use super::*;
use crate::request::test_fixtures::parameter;

/// The request of an operation with one parameter, changed by `change`.
fn request_of(
    place: &str,
    change: impl Fn(&mut OperationParameter),
    value: Value,
) -> Result<PreparedRequest, PrepareError> {
    let mut operation = operation(HttpMethod::Get, "https://api.example", "/a", &[]);
    let mut declared = parameter(&place.parse().unwrap()).unwrap();
    change(&mut declared);
    if declared.location == ParameterLocation::Path {
        operation.path = format!("/a/{{{}}}", declared.name);
    }
    operation.parameters = vec![declared];
    prepare(&Task::OpenApi(Box::new(operation)), &inputs([(place, value)]))
}

fn of_type(media_type: &str) -> impl Fn(&mut OperationParameter) {
    let media_type = MediaType::parse(media_type).unwrap();
    move |parameter| parameter.content = Some(media_type.clone())
}

#[test]
fn a_parameter_with_a_media_type_is_written_in_it() {
    let value = json!({"a": ["é,b"], "c": null});
    let json = of_type("application/problem+json");
    let query = request_of("queryParameters.q", &json, value.clone()).unwrap();
    let encoded = "%7B%22a%22%3A%5B%22%C3%A9%2Cb%22%5D%2C%22c%22%3Anull%7D";
    assert_eq!(query.url().query(), Some(&*format!("q={encoded}")));
    let path = request_of("pathParameters.q", &json, value.clone()).unwrap();
    assert_eq!(path.url().path(), format!("/a/{encoded}"));
    let header = request_of("headerParameters.q", &json, value.clone()).unwrap();
    assert_eq!(header.headers()["q"], r#"{"a":["\u00e9,b"],"c":null}"#);
    let cookie = request_of("cookieParameters.q", &json, value).unwrap();
    assert_eq!(cookie.headers()["cookie"], format!("q={encoded}"));
    // JSON of text has quotes, and an empty array is something.
    let text = request_of("queryParameters.q", &json, json!("x")).unwrap();
    assert_eq!(text.url().query(), Some("q=%22x%22"));
    let empty = request_of("queryParameters.q", &json, json!([])).unwrap();
    assert_eq!(empty.url().query(), Some("q=%5B%5D"));
    assert_eq!(request_of("queryParameters.q", &json, json!(null)).unwrap().url().query(), None);
}

#[test]
fn a_parameter_of_another_type_is_text() {
    let plain = of_type("text/plain");
    let query = request_of("queryParameters.q", &plain, json!("a b")).unwrap();
    assert_eq!(query.url().query(), Some("q=a%20b"));
    let cookie = request_of("cookieParameters.q", &plain, json!("a=b/c")).unwrap();
    assert_eq!(cookie.headers()["cookie"], "q=a=b/c");
    for value in ["a; b=c", "a,b", "a b", "\"a\"", "é"] {
        let refused = request_of("cookieParameters.q", &plain, json!(value)).unwrap_err();
        assert!(refused.to_string().contains("a cookie must have"), "{refused}");
    }
    let refused = request_of("queryParameters.q", &plain, json!({"a": 1})).unwrap_err();
    assert!(refused.to_string().contains("`queryParameters.q`"), "{refused}");
    assert!(refused.to_string().contains("it is sent as text"), "{refused}");
}

#[test]
fn json_in_a_header_is_ascii_beyond_the_first_plane_too() {
    let json = of_type("application/json");
    let sent = request_of("headerParameters.q", &json, json!("\u{1F600}\u{7f}\n")).unwrap();
    let sent = sent.headers()["q"].to_str().unwrap().to_owned();
    assert_eq!(sent, r#""\ud83d\ude00\u007f\n""#);
    assert_eq!(serde_json::from_str::<Value>(&sent).unwrap(), json!("\u{1F600}\u{7f}\n"));
}

#[test]
fn an_empty_value_is_sent_where_that_is_allowed() {
    let allowed = |parameter: &mut OperationParameter| {
        parameter.allow_empty_value = true;
        parameter.required = true;
    };
    for nothing in [json!([]), json!({}), json!("")] {
        let request = request_of("queryParameters.q", allowed, nothing).unwrap();
        assert_eq!(request.url().query(), Some("q="));
    }
    let required = |parameter: &mut OperationParameter| parameter.required = true;
    for nothing in [json!([]), json!({}), json!(null)] {
        let refused = request_of("queryParameters.q", required, nothing).unwrap_err();
        assert!(matches!(refused, PrepareError::Missing(_)), "{refused}");
    }
}

#[test]
fn nested_values_are_written_in_a_query_only() {
    let unchanged = |_: &mut OperationParameter| {};
    for nested in [json!([[1]]), json!([{"a": 1}]), json!({"a": {"b": 1}}), json!({"a": [1]})] {
        for place in ["pathParameters.q", "headerParameters.q", "cookieParameters.q"] {
            let refused = request_of(place, unchanged, nested.clone()).unwrap_err();
            assert!(refused.to_string().contains("only texts, numbers and booleans"), "{refused}");
        }
        assert!(request_of("queryParameters.q", unchanged, nested).is_ok());
    }
}

#[test]
fn several_names_share_a_segment_and_one_name_may_stand_twice() {
    let places = ["pathParameters.a", "pathParameters.b"];
    let task = openapi(HttpMethod::Get, SERVER, "/x-{a}.{b}/{a}/%7Ba%7D", &places);
    let given = inputs([(places[0], json!("1/2")), (places[1], json!("{a}"))]);
    let path = prepare(&task, &given).unwrap().url().path().to_owned();
    assert_eq!(path, "/v1/x-1%2F2.%7Ba%7D/1%2F2/%7Ba%7D");
}

#[test]
fn delimited_and_deep_object_styles_match_the_table() {
    let styled = |style, explode| {
        move |parameter: &mut OperationParameter| {
            parameter.style = ValueStyle { style, explode, allow_reserved: false };
        }
    };
    let sent = |style, explode, value| {
        let request = request_of("queryParameters.color", styled(style, explode), value).unwrap();
        request.url().query().unwrap().to_owned()
    };
    let array = json!(["blue", "black", "brown"]);
    let object = json!({"R": 100, "G": 200, "B": 150});
    let spaces = sent(ParameterStyle::SpaceDelimited, false, array.clone());
    assert_eq!(spaces, "color=blue%20black%20brown");
    assert_eq!(sent(ParameterStyle::PipeDelimited, false, array), "color=blue%7Cblack%7Cbrown");
    let deep = sent(ParameterStyle::DeepObject, true, object);
    assert_eq!(deep, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150");
}
