//! What leaves, and what is remarked about answers.

use a2s::{
    BodyField, BodyFormat, FieldType, HttpMethod, MediaType, OpenApiVersion, ParameterStyle,
    RequestBody, ValueStyle,
};
use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderValue};

use super::*;
use crate::request::prepare;
use crate::request::test_fixtures::{graphql, inputs, operation};

fn of(task: OpenApiTask) -> TaskContract {
    TaskContract::new(Arc::new(Task::OpenApi(Box::new(task))))
}

fn searching() -> TaskContract {
    let places =
        ["queryParameters.limit", "queryParameters.kinds", "headerParameters.X-Mode", "body"];
    let mut task = operation(HttpMethod::Post, "https://api.example", "/search", &places);
    task.parameters[0].schema = json!({"type": "integer", "maximum": 100, "default": 20});
    task.parameters[1].schema = json!({"type": "array", "items": {"enum": ["dog", "cat"]}});
    task.parameters[2].schema = json!({"type": "string", "pattern": "^[a-z]+$"});
    task.body.as_mut().unwrap().schema = json!({
        "type": "object",
        "properties": {"note": {"type": "string"}},
        "required": ["note"],
    });
    of(task)
}

fn refused<const N: usize>(contract: &TaskContract, given: [(&str, Value); N]) -> String {
    prepare(contract, &inputs(given)).map_or_else(|error| error.to_string(), |_| "sent".to_owned())
}

#[test]
fn what_the_service_would_refuse_is_not_sent() {
    let contract = searching();
    let note = ("body", json!({"note": "x"}));
    let limit = |limit: Value| refused(&contract, [("queryParameters.limit", limit), note.clone()]);
    assert_eq!(limit(json!(100)), "sent");
    assert_eq!(limit(json!("100")), "sent");
    assert_eq!(
        limit(json!(101)),
        "the value of `queryParameters.limit` does not match its schema: \
         it is more than 100 (schema: maximum)"
    );
    let kinds =
        refused(&contract, [("queryParameters.kinds", json!(["dog", "cow"])), note.clone()]);
    assert!(kinds.contains(r#"`[1]` is not one of ["dog","cat"] (schema: items/enum)"#), "{kinds}");
    let mode = refused(&contract, [("headerParameters.x-mode", json!("A1")), note.clone()]);
    assert!(mode.contains("does not match the pattern ^[a-z]+$"), "{mode}");
    let body = refused(&contract, [("body", json!({"note": 7}))]);
    assert!(
        body.contains("`body`") && body.contains("`.note` is not of the type string"),
        "{body}"
    );
}

/// An operation whose body has this media type; `fields` are known as an import knows them.
fn taking(media_type: &str, schema: Value, fields: &[(&str, BodyField)]) -> TaskContract {
    let mut task = operation(HttpMethod::Post, "https://api.example", "/", &["body"]);
    task.version = OpenApiVersion::V3_1;
    let media_type = MediaType::parse(media_type).unwrap();
    let format = match media_type.essence().as_str() {
        "application/x-www-form-urlencoded" => BodyFormat::Form,
        "multipart/form-data" => BodyFormat::Multipart,
        "application/octet-stream" | "*/*" | "image/png" => BodyFormat::Other,
        _ => BodyFormat::Text,
    };
    let fields = fields.iter().map(|(name, field)| ((*name).to_owned(), field.clone()));
    let fields = fields.collect();
    task.body =
        Some(RequestBody { required: true, media_type, format, fields, order: Vec::new(), schema });
    task.components = Arc::new(json!({"schemas": {"Short": {"type": "string", "maxLength": 3}}}));
    of(task)
}

#[track_caller]
fn check_body(contract: &TaskContract, value: Value, expected: &str) {
    let told = refused(contract, [("body", value)]);
    let told =
        told.strip_prefix("the value of `body` does not match its schema: ").unwrap_or(&told);
    assert_eq!(told, expected);
}

const FORM: &str = "application/x-www-form-urlencoded";
const MULTIPART: &str = "multipart/form-data";

fn file() -> BodyField {
    BodyField { kind: FieldType::File, ..BodyField::default() }
}

fn of_type(media_type: &str) -> BodyField {
    let content_types = vec![MediaType::parse(media_type).unwrap()];
    BodyField { content_types, ..BodyField::default() }
}

#[test]
fn fields_are_held_to_their_schemas() {
    let schema = json!({
        "type": "object",
        "required": ["title"],
        "properties": {
            "title": {"$ref": "#/components/schemas/Short"},
            "count": {"type": "integer", "minimum": 1},
            "tags": {"type": "array", "maxItems": 2, "items": {"enum": ["a", "b", "1"]}},
            "id": {"type": "string", "readOnly": true},
            "address": {"type": "object", "properties": {"zip": {"type": "string"}}},
        },
        "additionalProperties": false,
    });
    for media_type in [FORM, MULTIPART] {
        let contract = taking(media_type, schema.clone(), &[]);
        let check = |value, expected| check_body(&contract, value, expected);
        // What is sent as text has lost its type, and a list of one its list.
        check(json!({"title": 123, "count": "2", "tags": ["a", 1]}), "sent");
        check(json!({"title": "abc", "count": null, "tags": "b"}), "sent");
        let at = "#/components/schemas/Short/maxLength";
        let expected = format!("`.title` is longer than 3 characters (schema: {at})");
        check(json!({"title": "abcd"}), &expected);
        check(json!({"title": 1234, "count": "2"}), &expected);
        let expected = "`.count` is less than 1 (schema: properties/count/minimum)";
        check(json!({"title": "a", "count": "0"}), expected);
        // Nothing is sent for null and for an empty list.
        for nothing in [json!(null), json!([]), json!([null])] {
            let expected = r#"it lacks the member "title" (schema: required)"#;
            check(json!({"title": nothing}), expected);
        }
        check(json!({"title": "a", "tags": ["a", null, "b"]}), "sent");
        let expected = "`.tags` has more than 2 items (schema: properties/tags/maxItems)";
        check(json!({"title": "a", "tags": ["a", "b", "1"]}), expected);
        let expected =
            r#"`.tags[0]` is not one of ["a","b","1"] (schema: properties/tags/items/enum)"#;
        check(json!({"title": "a", "tags": ["c"]}), expected);
        let expected = "it has unknown members: `x` (schema: additionalProperties)";
        check(json!({"title": "a", "x": 1}), expected);
        let expected =
            "`.id` must not be sent: only the service sets it (schema: properties/id/readOnly)";
        check(json!({"title": "a", "id": "7"}), expected);
        // An object is sent as JSON, so what stands in it keeps its type; its text is the same.
        let expected = "`.address.zip` is not of the type string (schema: properties/address/properties/zip/type)";
        check(json!({"title": "a", "address": {"zip": 8000}}), expected);
        check(json!({"title": "a", "address": {"zip": "8000"}}), "sent");
        check(json!({"title": "a", "address": "{\"zip\": \"8000\"}"}), "sent");
        let expected = "`.address` is not of the type object (schema: properties/address/type)";
        check(json!({"title": "a", "address": "8000"}), expected);
    }
}

#[test]
fn fields_are_read_as_their_encoding_writes_them() {
    let style =
        ValueStyle { style: ParameterStyle::DeepObject, explode: true, allow_reserved: false };
    let fields = [
        ("json/~", of_type("application/json")),
        ("deep", BodyField { style: Some(style), ..BodyField::default() }),
    ];
    let schema = json!({"properties": {
        "json/~": {"type": "array", "items": {"type": "integer"}},
        "deep": {
            "type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}},
        },
    }});
    for media_type in [FORM, MULTIPART] {
        let contract = taking(media_type, schema.clone(), &fields);
        let check = |value, expected| check_body(&contract, value, expected);
        check(json!({"json/~": [1, 2], "deep": {"n": "5"}}), "sent");
        let expected =
            "`.json/~[0]` is not of the type integer (schema: properties/json~1~0/items/type)";
        check(json!({"json/~": ["1"]}), expected);
        let expected =
            "`.deep.n` is not of the type integer (schema: properties/deep/properties/n/type)";
        check(json!({"deep": {"n": "x"}}), expected);
        let expected = r#"`.deep` lacks the member "n" (schema: properties/deep/required)"#;
        check(json!({"deep": {"n": null, "o": 1}}), expected);
    }
}

#[test]
fn files_are_held_to_what_is_said_of_them() {
    let scan = json!({"type": "string", "format": "binary", "maxLength": 3});
    let schema = json!({
        "type": "object",
        "required": ["scan"],
        "properties": {
            "scan": scan,
            "pages": {"type": "array", "minItems": 2, "items": {"contentMediaType": "image/png"}},
            "icon": {"type": "string", "contentEncoding": "base64", "maxLength": 8},
            "any": {},
            "note": {"type": "integer"},
        },
    });
    let fields = [("scan", file()), ("pages", file()), ("any", file())];
    let contract = taking(MULTIPART, schema, &fields);
    let check = |value, expected| check_body(&contract, value, expected);
    let png = json!({"base64": "/wCA", "filename": "a.png", "content_type": "image/png"});
    check(json!({"scan": png, "pages": [png, "b"], "any": {"text": "x"}}), "sent");
    check(json!({"scan": "abc", "icon": "aGkhaGkh"}), "sent");
    check(json!({"scan": 123}), "sent");
    // The length of a file is that of its bytes.
    let expected = "`.scan` is longer than 3 characters (schema: properties/scan/maxLength)";
    check(json!({"scan": {"base64": "/wCAAA=="}}), expected);
    check(json!({"scan": {"text": "éé"}}), expected);
    check(json!({"scan": "éé"}), expected);
    let expected = "`.icon` is longer than 8 characters (schema: properties/icon/maxLength)";
    check(json!({"scan": "a", "icon": "aGkhaGkha"}), expected);
    let expected = "`.pages` has fewer than 2 items (schema: properties/pages/minItems)";
    check(json!({"scan": "a", "pages": [png]}), expected);
    check(json!({"scan": "a", "pages": [png, null]}), expected);
    let expected = r#"it lacks the member "scan" (schema: required)"#;
    check(json!({"any": png}), expected);
    // A file is no number.
    let expected = "`.note` is not of the type integer (schema: properties/note/type)";
    check(json!({"scan": "a", "note": png}), expected);
    // A form is text: what is sent is the Base64.
    let schema = json!({"properties": {"icon": {"type": "string", "maxLength": 4}}});
    let form = taking(FORM, schema, &[]);
    check_body(&form, json!({"icon": {"base64": "aGkh"}}), "sent");
    let expected = "`.icon` is longer than 4 characters (schema: properties/icon/maxLength)";
    check_body(&form, json!({"icon": {"base64": "aGkhaA=="}}), expected);
}

#[test]
fn text_is_held_to_the_schema_of_a_text() {
    let short = json!({"$ref": "#/components/schemas/Short"});
    let expected = "it is longer than 3 characters (schema: #/components/schemas/Short/maxLength)";
    for media_type in ["text/plain", "application/xml", "*/*"] {
        let contract = taking(media_type, short.clone(), &[]);
        check_body(&contract, json!("abc"), "sent");
        check_body(&contract, json!("abcd"), expected);
    }
    let text = taking("text/plain", short, &[]);
    check_body(&text, json!(123), "sent");
    check_body(&text, json!(1234), expected);
    check_body(&text, json!({"text": "abcd"}), expected);
    let part = json!({"allOf": [{"$ref": "#/components/schemas/Short"}, {"pattern": "^[a-z]*$"}]});
    let told = "it does not match the pattern ^[a-z]*$ (schema: allOf/1/pattern)";
    check_body(&taking("text/plain", part, &[]), json!("AB"), told);
    let number = taking("text/plain", json!({"type": "integer"}), &[]);
    check_body(&number, json!("12"), "sent");
    check_body(&number, json!("x"), "it is not of the type integer (schema: type)");
    // XML stands for what its schema describes.
    let object = json!({"type": "object", "required": ["a"]});
    for schema in [object.clone(), json!({"allOf": [object]}), json!({"maxLength": 1})] {
        let xml = taking("application/xml", schema, &[]);
        check_body(&xml, json!("<a>b</a>"), "sent");
    }
    let bytes = json!({"type": "string", "format": "binary", "maxLength": 2});
    let told = "it is longer than 2 characters (schema: maxLength)";
    check_body(&taking("image/png", bytes.clone(), &[]), json!({"base64": "/wCA"}), told);
    check_body(&taking("image/png", bytes, &[]), json!("é"), "sent");
}

#[test]
fn json_under_another_media_type_is_checked() {
    let schema =
        json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    for media_type in ["application/yaml", "*/*"] {
        let contract = taking(media_type, schema.clone(), &[]);
        check_body(&contract, json!({"n": 1}), "sent");
        let told = "`.n` is not of the type integer (schema: properties/n/type)";
        check_body(&contract, json!({"n": "1"}), told);
        check_body(&contract, json!("n: 1"), "sent");
    }
    let any = taking("*/*", json!({"type": "object"}), &[]);
    check_body(&any, json!({"base64": "aGk="}), "sent");
}

#[test]
fn a_parameter_that_is_json_keeps_its_type() {
    let mut task = operation(HttpMethod::Get, "https://a.example", "/", &["queryParameters.q"]);
    task.parameters[0].schema = json!({"type": "integer"});
    for (content, expected) in [(None, "sent"), (Some("application/json"), "refused")] {
        task.parameters[0].content = content.and_then(MediaType::parse);
        let told = refused(&of(task.clone()), [("queryParameters.q", json!("5"))]);
        assert_eq!(told == "sent", expected == "sent", "{told}");
    }
}

#[test]
fn a_body_that_is_not_sent_is_held_to_nothing() {
    let mut task = operation(HttpMethod::Post, "https://api.example", "/", &["body"]);
    let body = task.body.as_mut().unwrap();
    body.required = false;
    body.schema = json!({"type": "object"});
    let contract = of(task);
    assert_eq!(refused(&contract, [("body", json!(null))]), "sent");
    assert_ne!(refused(&contract, [("body", json!(1))]), "sent");
}

#[test]
fn what_may_be_empty_is_held_to_nothing() {
    let mut task = operation(HttpMethod::Get, "https://a.example", "/", &["queryParameters.q"]);
    task.parameters[0].schema = json!({"type": "array", "minItems": 1, "items": {"minLength": 1}});
    let tell =
        |task: &OpenApiTask, value| refused(&of(task.clone()), [("queryParameters.q", value)]);
    assert_ne!(tell(&task, json!([""])), "sent");
    task.parameters[0].allow_empty_value = true;
    for nothing in [json!(""), json!([]), json!({})] {
        assert_eq!(tell(&task, nothing), "sent");
    }
}

#[test]
fn a_default_is_left_to_the_service() {
    let request = prepare(&searching(), &inputs([("body", json!({"note": "x"}))])).unwrap();
    assert_eq!(request.url().query(), None);
}

#[test]
fn variables_are_held_to_their_types() {
    let mut task = graphql("https://api.example", "query($n: Int!) { a }", &[("n", "Int!")]);
    task.variables[0].schema = json!({"$ref": "#/$defs/N"});
    task.definitions = json!({"N": {"type": "integer", "maximum": 5}});
    let contract = TaskContract::new(Arc::new(Task::Graphql(Box::new(task))));
    assert_eq!(refused(&contract, [("variables.n", json!(5))]), "sent");
    let told = refused(&contract, [("variables.n", json!(6))]);
    assert!(
        told.ends_with("does not match its schema: it is more than 5 (schema: #/N/maximum)"),
        "{told}"
    );
}

#[test]
fn a_shared_task_is_compiled_once() {
    let contracts = ContractCache::default();
    let task = Arc::new(Task::OpenApi(Box::new(operation(
        HttpMethod::Get,
        "https://a.example",
        "/",
        &[],
    ))));
    assert!(Arc::ptr_eq(
        &contracts.contract_for(&task),
        &contracts.contract_for(&Arc::clone(&task))
    ));
    let other = Arc::new((*task).clone());
    assert!(!Arc::ptr_eq(&contracts.contract_for(&task), &contracts.contract_for(&other)));
}

fn answering() -> TaskContract {
    let mut task = operation(HttpMethod::Get, "https://api.example", "/", &[]);
    task.version = OpenApiVersion::V3_1;
    let media = |schema: Value| json!({"content": {"application/json": {"schema": schema}}});
    task.responses = vec![
        ("200".to_owned(), media(json!({"type": "object", "required": ["id"]}))),
        ("204".to_owned(), json!({"description": "nothing"})),
        (
            "2xx".to_owned(),
            json!({"content": {
                "text/*": {"schema": {"type": "array"}},
                "application/*": {"schema": {"type": "string"}},
                "application/json": {"schema": {"type": "array"}},
            }}),
        ),
    ];
    of(task)
}

#[track_caller]
fn check_answer(status: u16, content_type: &'static str, body: &str, expected: &[&str]) {
    let mut headers = HeaderMap::new();
    if !content_type.is_empty() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    let body = Bytes::from(body.to_owned());
    let response = RawResponse { status, headers, body, redirects: 0 };
    let value = serde_json::from_slice(&response.body).unwrap_or_default();
    let told = answering().check_response(&response, &value);
    assert_eq!(told.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
}

#[test]
fn an_answer_without_a_body_by_its_method_is_no_misfit() {
    for (method, violations) in [(HttpMethod::Head, 0), (HttpMethod::Get, 1)] {
        let mut task = operation(method, "https://api.example", "/", &[]);
        task.responses = vec![("200".to_owned(), json!({"content": {"text/plain": {}}}))];
        let (headers, body) = (HeaderMap::new(), Bytes::new());
        let response = RawResponse { status: 200, headers, body, redirects: 0 };
        assert_eq!(of(task).check_response(&response, &Value::Null).len(), violations);
    }
}

#[test]
fn answers_are_held_to_what_is_declared() {
    let json = "application/json; charset=utf-8";
    check_answer(200, json, r#"{"id": 1}"#, &[]);
    check_answer(200, json, "{}", &[r#"it lacks the member "id" (schema: required)"#]);
    check_answer(201, json, "[]", &[]);
    check_answer(201, json, "{}", &["it is not of the type array (schema: type)"]);
    check_answer(202, "text/csv", "a,b", &[]);
    check_answer(204, "", "", &[]);
    check_answer(
        200,
        "",
        "",
        &["it is empty, which is not declared (schema: responses/200/content)"],
    );
    let told =
        "it is of the media type text/html, which is not declared (schema: responses/200/content)";
    check_answer(200, "text/html", "<p>", &[told]);
    check_answer(
        304,
        json,
        "",
        &["it has the status 304, which is not declared (schema: responses)"],
    );
}
