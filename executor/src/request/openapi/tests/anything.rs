//! Any operation with any value: an answer, never a panic.

use a2s::{
    BodyField, BodyFormat, FieldHeader, FieldType, MediaType, OperationParameter, ParameterStyle,
    RequestBody, ValueStyle,
};
use indexmap::IndexMap;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// JSON of every shape, with texts that mean something to one writer or another.
fn value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "(?s).{0,12}",
        select(vec!["base64", "text", "filename", "content_type", "headers", "aGk=", "image/png"])
            .prop_map(str::to_owned),
        "[\r\n\\x00&=;,%{}\\[\\]\"./+ ]{0,8}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            btree_map(text.clone(), inner, 0..5)
                .prop_map(|members| members.into_iter().collect::<Value>()),
        ]
    })
}

fn media_type() -> impl Strategy<Value = MediaType> {
    let known = [
        "application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "multipart/mixed; boundary=x",
        "text/plain",
        "text/csv; charset=latin1",
        "application/xml",
        "application/yaml",
        "image/png",
        "image/*",
        "*/*",
        "application/*",
        "application/*+json",
    ];
    select(known.to_vec()).prop_map(|text| MediaType::parse(text).unwrap())
}

fn style() -> impl Strategy<Value = ValueStyle> {
    let styles = vec![
        ParameterStyle::Simple,
        ParameterStyle::Form,
        ParameterStyle::Label,
        ParameterStyle::Matrix,
        ParameterStyle::SpaceDelimited,
        ParameterStyle::PipeDelimited,
        ParameterStyle::DeepObject,
    ];
    (select(styles), any::<bool>(), any::<bool>())
        .prop_map(|(style, explode, allow_reserved)| ValueStyle { style, explode, allow_reserved })
}

fn parameter() -> impl Strategy<Value = OperationParameter> {
    let places = vec![
        ParameterLocation::Path,
        ParameterLocation::Query,
        ParameterLocation::Header,
        ParameterLocation::Cookie,
    ];
    let name = prop_oneof!["[a-c]", "(?s).{1,6}"];
    (name, select(places), any::<(bool, bool)>(), style(), option::of(media_type())).prop_map(
        |(name, place, (required, allow_empty_value), style, content)| OperationParameter {
            name,
            location: place,
            required,
            description: None,
            style,
            allow_empty_value,
            content,
            schema: Value::Null,
        },
    )
}

fn field() -> impl Strategy<Value = BodyField> {
    let kinds = vec![FieldType::ByValue, FieldType::Json, FieldType::File];
    let header = ("X-[A-C]", any::<bool>(), option::of("(?s).{0,4}"))
        .prop_map(|(name, required, value)| FieldHeader { name, required, value });
    (select(kinds), vec(media_type(), 0..3), option::of(style()), vec(header, 0..2)).prop_map(
        |(kind, content_types, style, headers)| BodyField { kind, content_types, style, headers },
    )
}

fn body() -> impl Strategy<Value = RequestBody> {
    let formats = vec![
        BodyFormat::Json,
        BodyFormat::Form,
        BodyFormat::Multipart,
        BodyFormat::Text,
        BodyFormat::Other,
    ];
    (any::<bool>(), media_type(), select(formats), btree_map("[a-c]", field(), 0..3)).prop_map(
        |(required, media_type, format, fields)| RequestBody {
            required,
            media_type,
            format,
            fields,
            order: Vec::new(),
            schema: Value::Null,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_request_is_built_or_refused(
        parameters in vec((parameter(), value()), 0..4),
        body in option::of(body()),
        sent in value(),
        path in "(/|\\{a\\}|\\{b\\}|[.%{}]|(?s).){0,8}",
    ) {
        let mut operation = operation(HttpMethod::Post, "https://api.example/v1", "/", &[]);
        operation.path = format!("/{path}");
        let mut given = IndexMap::new();
        for (parameter, value) in parameters {
            given.insert(parameter.input_location(), value);
            operation.parameters.push(parameter);
        }
        if body.is_some() {
            given.insert(InputLocation::Body, sent);
        }
        operation.body = body;
        let task = Task::OpenApi(Box::new(operation));
        if let Ok(request) = prepare(&task, &given) {
            // Whatever was given, it went to the one host, in headers that are none but their own.
            prop_assert_eq!(request.url().host_str(), Some("api.example"));
            prop_assert!(request.url().path().starts_with("/v1/"));
            prop_assert_eq!(request.url().fragment(), None);
            for (_, value) in request.headers() {
                prop_assert!(value.to_str().is_ok());
            }
            // The same inputs are the same request.
            prop_assert_eq!(request.digest(), prepare(&task, &given).unwrap().digest());
        }
    }
}
