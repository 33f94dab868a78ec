//! Parameters: styles, mistakes, and those that are none.

use super::*;

#[track_caller]
fn parameter(parameter: &Value) -> OperationParameter {
    let mut parameters = read(&get(json!({"parameters": [parameter]}))).parameters;
    assert_eq!(parameters.len(), 1);
    parameters.remove(0)
}

#[test]
fn styles_have_the_defaults_of_their_places() {
    for (place, style, explode) in [
        ("query", ParameterStyle::Form, true),
        ("header", ParameterStyle::Simple, false),
        ("cookie", ParameterStyle::Form, true),
    ] {
        let read = parameter(&json!({"name": "p", "in": place, "schema": {}}));
        assert_eq!(read.style, ValueStyle { style, explode, allow_reserved: false });
        assert!(!read.required && !read.allow_empty_value);
    }
    let deep = json!({"name": "p", "in": "query", "style": "deepObject", "schema": {}});
    let read = parameter(&deep);
    assert_eq!((read.style.style, read.style.explode), (ParameterStyle::DeepObject, false));
    let all = json!({
        "name": "p", "in": "query", "required": true, "style": "pipeDelimited", "explode": true,
        "allowReserved": true, "allowEmptyValue": true, "schema": {"type": "array", "items": {}},
        "example": {"schema": 1}, "x-anything": {"required": "yes"},
    });
    let read = parameter(&all);
    let style =
        ValueStyle { style: ParameterStyle::PipeDelimited, explode: true, allow_reserved: true };
    assert_eq!((read.style, read.required, read.allow_empty_value), (style, true, true));
}

#[test]
fn a_style_of_another_place_is_refused() {
    for (place, style, known) in [
        ("query", "simple", "Write `form` or `spaceDelimited` or `pipeDelimited` or `deepObject`."),
        ("header", "form", "Write `simple`."),
        ("cookie", "simple", "Write `form`."),
        ("query", "Form", "Write `form` or `spaceDelimited` or `pipeDelimited` or `deepObject`."),
    ] {
        let parameter = json!({"name": "p", "in": place, "style": style, "schema": {}});
        let task = get(json!({"parameters": [parameter]}));
        let message = format!("the parameter `p` cannot have the style `{style}` at this location");
        check_refused(&task, &message, ".paths[\"/a\"].get.parameters[0].style");
        let (_, diagnostics) = read_with_remarks(&task);
        assert_eq!(diagnostics[0].hint.as_deref(), Some(known));
    }
}

#[test]
fn a_mistake_in_a_parameter_is_shown_where_it_stands() {
    let refused = |parameter: Value, message: &str, below: &str| {
        let mut task = get(json!({"parameters": [{"$ref": "#/components/parameters/P"}]}));
        task["components"] = json!({"parameters": {"P": parameter}});
        check_refused(&task, message, &format!(".components.parameters.P{below}"));
    };
    let message = "`required` is a string; `true` or `false` is required here";
    refused(json!({"name": "p", "in": "query", "required": "true"}), message, ".required");
    let message = "the parameter `p` has both `schema` and `content`";
    let both = json!({"name": "p", "in": "query", "schema": {}, "content": {"a/b": {}}});
    refused(both, message, ".content");
    let message = "the `content` of the parameter `p` must have one media type, not 2";
    let two = json!({"name": "p", "in": "query", "content": {"a/b": {}, "a/c": {}}});
    refused(two, message, ".content");
    let odd = json!({"name": "p", "in": "query", "content": {"json": {}}});
    refused(odd, "`json` is not a media type", ".content.json");
    refused(json!(["p"]), "a parameter must be a mapping, not a list", "");
    refused(json!({"name": "", "in": "query"}), "a parameter has no name", "");
    refused(json!({"name": "a b", "in": "header"}), "`a b` is not a header name", "");
    refused(json!({"name": "p", "in": "body"}), "the parameter `p` has no `in`", "");
    let task = get(json!({"parameters": {"p": {"in": "query"}}}));
    let message = "`parameters` is a mapping; a list is required here";
    check_refused(&task, message, ".paths[\"/a\"].get.parameters");
}

#[test]
fn parameter_without_schema_or_with_media_type() {
    assert_eq!(parameter(&json!({"name": "p", "in": "query"})).schema, Value::Null);
    let schema = json!({"type": "object"});
    let content = json!({"application/json; charset=utf-8": {"schema": schema, "example": 1}});
    let read = parameter(&json!({"name": "p", "in": "query", "content": content}));
    assert!(read.content.unwrap().is_json());
    assert_eq!(read.schema, schema);
}

#[test]
fn headers_that_are_no_inputs_are_left_out_with_a_warning() {
    for name in ["Authorization", "accept", "Content-Type"] {
        let parameter = json!({"name": name, "in": "header", "required": true, "schema": {}});
        let task = get(json!({"parameters": [parameter]}));
        let message = format!("OpenAPI ignores the header parameter `{name}`");
        let read = check_warned(&task, &message, ".paths[\"/a\"].get.parameters[0]");
        assert_eq!(read.parameters, []);
    }
    for name in ["Host", "Content-Length", "cookie", "Accept-Encoding"] {
        let task = get(json!({"parameters": [{"name": name, "in": "header", "schema": {}}]}));
        let message = format!("the header `{name}` cannot be an input of a request");
        let read = check_warned(&task, &message, ".paths[\"/a\"].get.parameters[0]");
        assert_eq!(read.parameters, []);
    }
    // The same names elsewhere are parameters like others.
    assert_eq!(parameter(&json!({"name": "Accept", "in": "query"})).name, "Accept");
}

#[test]
fn operation_parameters_override_those_of_the_path() {
    let mut task = get(json!({"parameters": [
        {"name": "q", "in": "query", "description": "Of the operation"},
        {"name": "X-T", "in": "header", "description": "Of the operation"},
    ]}));
    task["paths"]["/a"]["parameters"] = json!([
        {"name": "q", "in": "query", "description": "Of the path"},
        {"name": "q", "in": "cookie", "description": "Of the path"},
        {"name": "x-t", "in": "header", "description": "Of the path"},
    ]);
    let found = read(&task).parameters;
    let described: Vec<_> = found
        .iter()
        .map(|p| (p.name.as_str(), p.location, p.description.as_deref().unwrap()))
        .collect();
    assert_eq!(
        described,
        [
            ("q", ParameterLocation::Query, "Of the operation"),
            ("X-T", ParameterLocation::Header, "Of the operation"),
            ("q", ParameterLocation::Cookie, "Of the path"),
        ]
    );
    let twice = json!({"name": "q", "in": "query"});
    let task = get(json!({"parameters": [twice, twice]}));
    let message = "the parameter `q` is declared twice";
    let read = check_warned(&task, message, ".paths[\"/a\"].get.parameters[1]");
    assert_eq!(read.parameters.len(), 1);
}

#[test]
fn executor_fills_in_an_idempotency_key() {
    let operation = |name: &str| {
        let key = json!({"name": name, "in": "header", "required": true,
            "schema": {"type": "string"}});
        specification("/a", "post", json!({"parameters": [key]}))
    };
    let missing = |name: &str| compile_with(&operation(name), &json!({})).1.len();
    assert_eq!((missing("Idempotency-Key"), missing("IDEMPOTENCY-KEY")), (0, 0));
    assert_eq!((missing("Idempotency-Keys"), missing("X-Key")), (1, 1));
    let (task, _) = compile_with(&operation("idempotency-key"), &json!({}));
    let place =
        Task::OpenApi(Box::new(task.unwrap())).idempotency_key().map(|key| key.input_location());
    assert_eq!(place.unwrap().to_string(), "headerParameters.idempotency-key");
}
