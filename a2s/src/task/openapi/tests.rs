//! What is read from specifications, and what is refused.

use serde_json::{Value, json};

use super::*;
use crate::diagnostic::{Diagnostic, Severity};
use crate::document::Action;
use crate::task::{MediaType, Task};

/// A specification with one operation.
fn specification(path: &str, method: &str, operation: Value) -> Value {
    let mut operation = operation;
    let responses = json!({"200": {"description": "Good"}});
    operation.as_object_mut().unwrap().entry("responses").or_insert(responses);
    json!({
        "openapi": "3.0.3",
        "info": {"title": "Test", "version": "1"},
        "servers": [{"url": "https://api.example/v1"}],
        "paths": {path: {method: operation}},
    })
}

fn get(operation: Value) -> Value {
    specification("/a", "get", operation)
}

/// The specification as the task of a document that maps `inputs`.
fn compile_with(task: &Value, inputs: &Value) -> (Option<OpenApiTask>, Vec<Diagnostic>) {
    let document = json!({
        "a2s": "1.0.0",
        "name": "Test",
        "description": "A test",
        "domains": ["api.example"],
        "version": "1.0.0",
        "authors": [{"name": "Tester"}],
        "execution": {"type": "sequence", "steps": [
            {"id": "step", "format": "OpenAPI", "task": task, "input_mapping": inputs},
        ]},
    });
    let compilation = crate::compile(document.to_string().as_bytes());
    let mut diagnostics = compilation.diagnostics;
    diagnostics.retain(|diagnostic| diagnostic.path != "checksum");
    let mut task = None;
    if let Some(document) = &compilation.document {
        document.capability().for_each_step(|step| {
            if let Action::Task { task: Task::OpenApi(found), .. } = &step.action {
                task = Some((**found).clone());
            }
        });
    }
    (task, diagnostics)
}

/// The task of a specification without any remark. Every parameter and the body are mapped.
#[track_caller]
fn read(task: &Value) -> OpenApiTask {
    let (task, diagnostics) = read_with_remarks(task);
    assert_eq!(diagnostics, []);
    task.unwrap()
}

#[track_caller]
fn read_with_remarks(task: &Value) -> (Option<OpenApiTask>, Vec<Diagnostic>) {
    // First without inputs, to learn what there is to map.
    let (_, diagnostics) = compile_with(task, &json!({}));
    let mut inputs = json!({});
    for diagnostic in &diagnostics {
        if diagnostic.code != "A2S055" {
            continue;
        }
        let place = diagnostic.message.split('`').nth(1).unwrap();
        match place.split_once('.') {
            Some((group, name)) => inputs[group][name] = json!("x"),
            None => inputs[place] = json!({}),
        }
    }
    compile_with(task, &inputs)
}

/// The one remark about a specification: severity, message and path below the task.
#[track_caller]
fn remark(task: &Value) -> (Severity, String, String) {
    let (_, diagnostics) = read_with_remarks(task);
    let [diagnostic] = diagnostics.as_slice() else { panic!("one remark: {diagnostics:?}") };
    assert!(diagnostic.hint.as_ref().is_some_and(|hint| !hint.is_empty()), "{diagnostic:?}");
    let path = diagnostic.path.strip_prefix("execution.steps[0].task").unwrap();
    (diagnostic.severity, diagnostic.message.clone(), path.to_owned())
}

#[track_caller]
fn check_refused(task: &Value, message: &str, path: &str) {
    assert_eq!(remark(task), (Severity::Error, message.to_owned(), path.to_owned()));
}

#[track_caller]
fn check_warned(task: &Value, message: &str, path: &str) -> OpenApiTask {
    assert_eq!(remark(task), (Severity::Warning, message.to_owned(), path.to_owned()));
    read_with_remarks(task).0.unwrap()
}

#[track_caller]
fn parameter(parameter: Value) -> OperationParameter {
    let mut parameters = read(&get(json!({"parameters": [parameter]}))).parameters;
    assert_eq!(parameters.len(), 1);
    parameters.remove(0)
}

#[track_caller]
fn body(content: Value) -> RequestBody {
    let task = specification("/a", "post", json!({"requestBody": {"content": content}}));
    read(&task).body.unwrap()
}

fn media(text: &str) -> MediaType {
    MediaType::parse(text).unwrap()
}

#[test]
fn both_versions_are_read_and_no_other() {
    let mut task = get(json!({}));
    for (version, expected) in [
        ("3.0.0", OpenApiVersion::V3_0),
        ("3.0.4", OpenApiVersion::V3_0),
        ("3.1.0", OpenApiVersion::V3_1),
        ("3.1.2", OpenApiVersion::V3_1),
    ] {
        task["openapi"] = json!(version);
        assert_eq!(read(&task).version, expected);
    }
    for version in ["3.2.0", "3", "2.0", "4.0.0"] {
        task["openapi"] = json!(version);
        let message = format!("OpenAPI `{version}` is not read; 3.0 and 3.1 are");
        check_refused(&task, &message, ".openapi");
    }
}

#[test]
fn what_is_new_in_3_1_is_no_mistake() {
    let schema = json!({"type": ["string", "null"], "$ref": "#/components/schemas/A", "const": 1});
    let task = json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://spec.openapis.org/oas/3.1/dialect/base",
        "info": {
            "title": "T", "version": "1", "summary": "S", "termsOfService": "/terms",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{
            "url": "https://{place}.example",
            "variables": {"place": {"enum": ["api", "test"], "default": "api"}},
        }],
        "webhooks": {"new": {"post": {}}},
        "paths": {"/a": {"get": {"parameters": [
            {"$ref": "#/components/parameters/P", "description": "Of the reference"},
            {"name": "q", "in": "query", "schema": true},
        ]}}},
        "components": {
            "pathItems": {},
            "parameters": {"P": {"name": "p", "in": "query", "description": "D", "schema": schema}},
            "schemas": {"A": {"type": "string"}},
        },
    });
    let task = read(&task);
    assert_eq!(task.server.as_str(), "https://api.example/");
    assert_eq!(task.parameters[0].schema, schema);
    assert_eq!(task.parameters[0].description.as_deref(), Some("Of the reference"));
    assert_eq!(task.responses, []);
}

#[test]
fn a_path_item_may_stand_elsewhere_in_the_task() {
    let mut task = get(json!({}));
    let item = json!({"get": {
        "responses": {"204": {"description": "Nothing"}}, "parameters": [{"name": "q", "in": "query"}],
    }});
    task["components"] = json!({"pathItems": {"A": {"$ref": "#/x-items/~1a"}}});
    task["x-items"] = json!({"/a": item});
    task["paths"]["/a"] = json!({
        "$ref": "#/components/pathItems/A", "servers": [{"url": "https://api.example/other"}],
    });
    let read = read(&task);
    assert_eq!(read.responses[0].0, "204");
    assert_eq!(read.parameters[0].name, "q");
    assert_eq!(read.server.path(), "/other");
    task["x-items"] = json!({"/a": {"$ref": "#/components/pathItems/A"}});
    check_refused(&task, "more than 32 `$ref`s lead to one another", ".paths[\"/a\"]");
}

#[test]
fn references_lead_anywhere_in_the_task_and_cycles_of_schemas_are_fine() {
    let schema = json!({"type": "object", "properties": {"next": {"$ref": "#/components/schemas/A"}}});
    let mut task = specification("/a", "post", json!({
        "requestBody": {"$ref": "#/components/requestBodies/B"},
        "responses": {"200": {"$ref": "#/components/responses/R"}},
    }));
    task["components"] = json!({
        "schemas": {"A": schema, "B": {"$ref": "#/components/schemas/B"}},
        "requestBodies": {"B": {"content": {"multipart/form-data": {
            "schema": {"$ref": "#/components/schemas/A"},
        }}}},
        "responses": {"R": {"description": "D", "content": {"application/json": {
            "schema": {"$ref": "#/paths/~1a/post/x-schemas/0"},
        }}}},
    });
    task["paths"]["/a"]["post"]["x-schemas"] = json!([schema]);
    let task = read(&task);
    let [(status, media_type, reference)] = task.success_schemas()[..] else { panic!() };
    assert_eq!((status, media_type), ("200", "application/json"));
    let target = task.schema_at(reference["$ref"].as_str().unwrap());
    assert_eq!(target, Some(&schema));
    assert_eq!(task.schema_at("#/components/schemas/A"), Some(&schema));
    assert_eq!(task.schema_at("#/components/schemas/%41"), Some(&schema));
    assert_eq!(task.schema_at("#/components"), Some(&*task.components));
    let own = json!({"$ref": "#/components/schemas/B"});
    assert_eq!(task.schema_at("#/components/schemas/B"), Some(&own));
    for nowhere in ["#/components/schemas/C", "A", "other.json#/A", "#/componentsA", "#A", ""] {
        assert_eq!(task.schema_at(nowhere), None, "{nowhere}");
    }
}

#[test]
fn answers_that_mean_success_are_those_of_2xx_or_else_the_default() {
    let answer = |title: &str| {
        json!({"description": "", "content": {"application/json": {"schema": {"title": title}}}})
    };
    let task = get(json!({"responses": {
        "404": answer("404"), "201": answer("201"), "2XX": answer("2XX"), "default": answer("else"),
        "204": {"description": "Nothing"},
    }}));
    let task = read(&task);
    let found: Vec<_> = task.success_schemas().iter().map(|(s, _, v)| (*s, &v["title"])).collect();
    assert_eq!(found, [("201", &json!("201")), ("2XX", &json!("2XX"))]);
    let task = read(&get(json!({"responses": {"404": answer("404"), "default": answer("else")}})));
    assert_eq!(task.success_schemas(), [("default", "application/json", &json!({"title": "else"}))]);
}

#[test]
fn a_task_that_grows_by_references_is_refused() {
    let words: Vec<_> = (0..2000).map(|number| format!("word {number}")).collect();
    let response = json!({"$ref": "#/components/responses/R"});
    let responses: serde_json::Map<_, _> =
        (100..600).map(|status| (status.to_string(), response.clone())).collect();
    let mut task = get(json!({"responses": responses}));
    task["components"] = json!({"responses": {"R": {"description": "D", "x-words": words}}});
    let (_, diagnostics) = read_with_remarks(&task);
    assert_eq!(diagnostics.len(), 1);
    assert_eq!(diagnostics[0].code, "A2S004");
    assert_eq!(diagnostics[0].message, "the task is too large once its `$ref`s are followed");
}

#[test]
fn schemas_that_branch_for_ever_are_looked_into_for_a_bounded_time() {
    let twice = |name: &str| {
        let below = json!({"$ref": format!("#/components/schemas/{name}")});
        json!({"allOf": [below, below], "anyOf": [below, below]})
    };
    let names: Vec<String> = (0..40).map(|level| format!("S{level}")).collect();
    let mut schemas: serde_json::Map<_, _> =
        names.windows(2).map(|pair| (pair[0].clone(), twice(&pair[1]))).collect();
    schemas.insert("S39".to_owned(), twice("S0"));
    let content = json!({"multipart/form-data": {"schema": {
        "properties": {"a": {"$ref": "#/components/schemas/S0"}},
        "allOf": [{"$ref": "#/components/schemas/S0"}],
    }}});
    let mut task = specification("/a", "post", json!({"requestBody": {"content": content}}));
    task["components"] = json!({"schemas": schemas});
    assert_eq!(read(&task).body.unwrap().format, BodyFormat::Multipart);
}

#[test]
fn server_variables_are_replaced_once_by_their_defaults() {
    let mut task = get(json!({}));
    task["servers"] = json!([
        {
            "url": "https://{host}{base}/{version}",
            "variables": {
                "host": {"default": "api.example"},
                "base": {"default": "/x"},
                "version": {"default": "v1", "enum": ["v1", "v2"]},
                "unused": {"default": "u"},
            },
        },
        {"url": "https://other.example"},
    ]);
    assert_eq!(read(&task).server.as_str(), "https://api.example/x/v1");
    let server = |url: &str, variables: Value| {
        let mut task = task.clone();
        task["servers"] = json!([{"url": url, "variables": variables}]);
        task
    };
    let address = "https://api.example/{v}";
    check_refused(
        &server(address, json!({})),
        "the server's address has `{v}`, but no variable `v`",
        ".servers[0].url",
    );
    check_refused(
        &server(address, json!({"v": {"enum": ["a"]}})),
        "the server variable `v` has no `default`",
        ".servers[0].variables.v",
    );
    check_refused(
        &server(address, json!({"v": {"default": 1}})),
        "the default of the server variable `v` is a number, and a string belongs here",
        ".servers[0].variables.v.default",
    );
    // What a default holds is no variable again.
    let twice = server("https://api.example/{a}", json!({"a": {"default": "{b}"}, "b": {"default": ""}}));
    assert_eq!(read(&twice).server.as_str(), "https://api.example/%7Bb%7D");
    let long = json!({"v": {"default": "x".repeat(1000)}});
    let many = format!("https://api.example/{}", "{v}".repeat(600));
    check_refused(
        &server(&many, long),
        "the server's address has more than 2048 bytes",
        ".servers[0].url",
    );
    let stray = server(address, json!({"v": {"default": "c", "enum": ["a", "b"]}}));
    let message = "the default `c` of the server variable `v` is none of its `enum`";
    check_warned(&stray, message, ".servers[0].variables.v.default");
    let mut stray = stray;
    stray["openapi"] = json!("3.1.0");
    check_refused(&stray, message, ".servers[0].variables.v.default");
}

#[test]
fn the_nearest_server_counts_and_an_empty_list_is_none() {
    let mut task = get(json!({"servers": [{"url": "https://api.example/operation"}]}));
    task["paths"]["/a"]["servers"] = json!([{"url": "https://api.example/path"}]);
    assert_eq!(read(&task).server.path(), "/operation");
    task["paths"]["/a"]["get"]["servers"] = json!([]);
    assert_eq!(read(&task).server.path(), "/path");
    task["paths"]["/a"]["servers"] = json!([]);
    assert_eq!(read(&task).server.path(), "/v1");
    task["servers"] = json!([]);
    check_refused(&task, "the specification names no server", "");
}

#[test]
fn path_templates_may_have_several_names_in_a_segment_or_one_name_twice() {
    let path = "/x/{a}.{b}/%7Bc%7D/{a}";
    let parameter = |name: &str| json!({"name": name, "in": "path", "required": true});
    let task = specification(path, "get", json!({"parameters": [parameter("a"), parameter("b")]}));
    assert_eq!(read(&task).path, path);
    for path in ["/x/../y", "/x/%2e%2E", "/./x"] {
        let task = specification(path, "get", json!({}));
        check_refused(&task, "the path has a segment `.` or `..`", &format!(".paths[{path:?}]"));
    }
    let long = format!("/{}", "x".repeat(5000));
    let task = specification(&long, "get", json!({}));
    let message = "the path has 5001 bytes; 4096 is the most";
    check_refused(&task, message, &format!(".paths[{long:?}]"));
}

#[test]
fn styles_have_the_defaults_of_their_places() {
    for (place, style, explode) in
        [("query", Style::Form, true), ("header", Style::Simple, false), ("cookie", Style::Form, true)]
    {
        let read = parameter(json!({"name": "p", "in": place, "schema": {}}));
        assert_eq!(read.style, ValueStyle { style, explode, allow_reserved: false });
        assert!(!read.required && !read.allow_empty_value);
    }
    let deep = json!({"name": "p", "in": "query", "style": "deepObject", "schema": {}});
    let read = parameter(deep);
    assert_eq!((read.style.style, read.style.explode), (Style::DeepObject, false));
    let all = json!({
        "name": "p", "in": "query", "required": true, "style": "pipeDelimited", "explode": true,
        "allowReserved": true, "allowEmptyValue": true, "schema": {"type": "array", "items": {}},
        "example": {"schema": 1}, "x-anything": {"required": "yes"},
    });
    let read = parameter(all);
    let style = ValueStyle { style: Style::PipeDelimited, explode: true, allow_reserved: true };
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
        let message = format!("the parameter `p` cannot have the style `{style}` where it stands");
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
    let message = "`required` is a string; `true` or `false` belongs here";
    refused(json!({"name": "p", "in": "query", "required": "true"}), message, ".required");
    let message = "the parameter `p` has both `schema` and `content`";
    let both = json!({"name": "p", "in": "query", "schema": {}, "content": {"a/b": {}}});
    refused(both, message, ".content");
    let message = "the `content` of the parameter `p` has one media type; there are 2";
    let two = json!({"name": "p", "in": "query", "content": {"a/b": {}, "a/c": {}}});
    refused(two, message, ".content");
    let odd = json!({"name": "p", "in": "query", "content": {"json": {}}});
    refused(odd, "`json` is no media type", ".content.json");
    refused(json!(["p"]), "a parameter is a mapping, not a list", "");
    refused(json!({"name": "", "in": "query"}), "a parameter has no name", "");
    refused(json!({"name": "a b", "in": "header"}), "`a b` is no header name", "");
    refused(json!({"name": "p", "in": "body"}), "the parameter `p` has no `in`", "");
    let task = get(json!({"parameters": {"p": {"in": "query"}}}));
    let message = "`parameters` is a mapping, and a list belongs here";
    check_refused(&task, message, ".paths[\"/a\"].get.parameters");
}

#[test]
fn a_parameter_may_say_nothing_of_its_value_or_have_a_media_type() {
    assert_eq!(parameter(json!({"name": "p", "in": "query"})).schema, Value::Null);
    let schema = json!({"type": "object"});
    let content = json!({"application/json; charset=utf-8": {"schema": schema, "example": 1}});
    let read = parameter(json!({"name": "p", "in": "query", "content": content}));
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
        let message = format!("the header `{name}` is no input of a request");
        let read = check_warned(&task, &message, ".paths[\"/a\"].get.parameters[0]");
        assert_eq!(read.parameters, []);
    }
    // The same names elsewhere are parameters like others.
    assert_eq!(parameter(json!({"name": "Accept", "in": "query"})).name, "Accept");
}

#[test]
fn the_operation_overrides_its_path_and_a_second_declaration_is_noticed() {
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
    let described: Vec<_> =
        found.iter().map(|p| (p.name.as_str(), p.place, p.description.as_deref().unwrap())).collect();
    assert_eq!(described, [
        ("q", ParameterPlace::Query, "Of the operation"),
        ("X-T", ParameterPlace::Header, "Of the operation"),
        ("q", ParameterPlace::Cookie, "Of the path"),
    ]);
    let twice = json!({"name": "q", "in": "query"});
    let task = get(json!({"parameters": [twice, twice]}));
    let message = "the parameter `q` is declared twice";
    let read = check_warned(&task, message, ".paths[\"/a\"].get.parameters[1]");
    assert_eq!(read.parameters.len(), 1);
}

#[test]
fn one_media_type_of_a_body_is_sent() {
    for (offered, sent, format) in [
        (&["text/plain", "application/json-patch+json", "application/json"][..],
            "application/json", BodyFormat::Json),
        (&["text/json", "application/*+json"], "text/json", BodyFormat::Json),
        (&["application/*+json"], "application/json", BodyFormat::Json),
        (&["*/*", "application/vnd.api+json; v=1"], "application/vnd.api+json; v=1", BodyFormat::Json),
        (&["application/xml", "multipart/form-data", "application/x-www-form-urlencoded"],
            "application/x-www-form-urlencoded", BodyFormat::Form),
        (&["text/csv", "multipart/mixed"], "multipart/mixed", BodyFormat::Multipart),
        (&["multipart/*"], "multipart/form-data", BodyFormat::Multipart),
        (&["image/png", "application/xml"], "application/xml", BodyFormat::Text),
        (&["text/*"], "text/plain", BodyFormat::Text),
        (&["*/*", "application/octet-stream"], "application/octet-stream", BodyFormat::Other),
        (&["*/*"], "*/*", BodyFormat::Other),
        (&["codecs=opus", "audio/ogg"], "audio/ogg", BodyFormat::Other),
    ] {
        let content: serde_json::Map<_, _> = offered
            .iter()
            .map(|name| ((*name).to_owned(), json!({"schema": {"title": name}})))
            .collect();
        let body = body(Value::Object(content));
        assert_eq!((body.media_type.as_str(), body.format), (sent, format), "{offered:?}");
        if !sent.starts_with("text/plain") && offered.contains(&sent) {
            assert_eq!(body.schema["title"], sent);
        }
        assert_eq!(body.value_schema().is_some(), format == BodyFormat::Json);
    }
}

#[test]
fn a_body_without_a_media_type_is_none() {
    let post = |body: Value| specification("/a", "post", json!({"requestBody": body}));
    let place = ".paths[\"/a\"].post.requestBody";
    let empty = post(json!({"content": {}, "required": true}));
    let message = "the request body names no media type, so none is sent";
    assert_eq!(check_warned(&empty, message, &format!("{place}.content")).body, None);
    check_refused(&post(json!({})), "the request body has no `content`", place);
    let odd = post(json!({"content": {"json": {}}}));
    check_refused(&odd, "`json` is no media type", &format!("{place}.content.json"));
    let task = specification("/a", "trace", json!({"requestBody": {"content": {"a/b": {}}}}));
    let message = "a TRACE request has no body";
    assert_eq!(check_warned(&task, message, ".paths[\"/a\"].trace.requestBody").body, None);
}

#[test]
fn schemas_and_encoding_tell_what_the_fields_are() {
    let schema = json!({
        "properties": {
            "name": {"type": "string"},
            "photo": {"type": "string", "format": "binary"},
            "files": {"type": "array", "items": {"type": "string", "format": "binary"}},
            "address": {"type": "object", "properties": {"text": {}}},
            "scan": {"type": "string"},
            "ids": {"type": "array", "items": {"type": "integer"}},
        },
        "allOf": [{"properties": {"either": {"anyOf": [
            {"type": "string"}, {"type": "string", "format": "binary"},
        ]}}}],
    });
    let encoding = json!({
        "scan": {"contentType": "image/png, image/*"},
        "address": {"contentType": "application/json; charset=utf-8"},
        "ids": {"style": "pipeDelimited"},
        "photo": {"headers": {
            "X-Kind": {"schema": {"enum": ["portrait"]}, "required": true},
            "X-Id": {"schema": {"type": "integer", "default": 7}},
            "X-Free": {"schema": {"type": "string"}},
            "content-type": {"schema": {"const": "a/b"}},
        }},
    });
    let read = |version: &str, media_type: &str| {
        let content = json!({media_type: {"schema": schema, "encoding": encoding}});
        let mut task = specification("/a", "post", json!({"requestBody": {"content": content}}));
        task["openapi"] = json!(version);
        self::read(&task).body.unwrap().fields
    };
    let fields = read("3.0.3", "multipart/form-data");
    let kinds: Vec<_> = fields.iter().map(|(name, field)| (name.as_str(), field.kind)).collect();
    assert_eq!(kinds, [
        ("address", FieldKind::Json),
        ("either", FieldKind::File),
        ("files", FieldKind::File),
        ("ids", FieldKind::ByValue),
        ("photo", FieldKind::File),
        ("scan", FieldKind::File),
    ]);
    assert_eq!(fields["scan"].content_types, [media("image/png"), media("image/*")]);
    let header = |name: &str, required, value: Option<&str>| FieldHeader {
        name: name.to_owned(),
        required,
        value: value.map(str::to_owned),
    };
    assert_eq!(fields["photo"].headers, [
        header("X-Kind", true, Some("portrait")),
        header("X-Id", false, Some("7")),
        header("X-Free", false, None),
    ]);
    // Styles belong to forms, and since 3.1 to multipart forms.
    assert_eq!(fields["ids"].style, None);
    let style = ValueStyle { style: Style::PipeDelimited, explode: false, allow_reserved: false };
    assert_eq!(read("3.1.0", "multipart/form-data")["ids"].style, Some(style));
    let form = read("3.0.3", "application/x-www-form-urlencoded");
    assert_eq!(form["ids"].style, Some(style));
    assert_eq!(form["photo"].headers, []);
}

#[test]
fn a_schema_that_says_nothing_is_binary_since_3_1() {
    let schema = json!({"properties": {
        "any": {"description": "A file"},
        "image": {"type": "string", "contentMediaType": "image/png"},
        "encoded": {"type": "string", "contentMediaType": "image/png", "contentEncoding": "base64"},
        "note": {"type": "string", "contentMediaType": "text/html"},
        "many": {"type": "array", "items": {}},
        "nothing": {"type": ["object", "null"]},
    }});
    let content = json!({"multipart/form-data": {"schema": schema}});
    let mut task = specification("/a", "post", json!({"requestBody": {"content": content}}));
    let fields = read(&task).body.unwrap().fields;
    assert_eq!(fields.keys().collect::<Vec<_>>(), ["nothing"]);
    task["openapi"] = json!("3.1.0");
    let fields = read(&task).body.unwrap().fields;
    let files: Vec<_> =
        fields.iter().filter(|(_, f)| f.kind == FieldKind::File).map(|(name, _)| name).collect();
    assert_eq!(files, ["any", "image", "many"]);
    assert_eq!(fields["nothing"].kind, FieldKind::Json);
}

#[test]
fn security_is_read_into_types() {
    let mut task = get(json!({}));
    task["security"] = json!([
        {"key": [], "login": []},
        {"flows": ["read", "write"]},
        {"identity": ["openid"]},
        {"token": []},
        {"digest": []},
        {"certificate": []},
        {},
    ]);
    task["components"] = json!({"securitySchemes": {
        "key": {"type": "apiKey", "in": "cookie", "name": "sid"},
        "login": {"$ref": "#/components/securitySchemes/basic"},
        "basic": {"type": "http", "scheme": "Basic"},
        "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
        "digest": {"type": "http", "scheme": "Digest"},
        "certificate": {"type": "mutualTLS", "description": "A card"},
        "identity": {"type": "openIdConnect", "openIdConnectUrl": "/.well-known"},
        "flows": {"type": "oauth2", "flows": {
            "clientCredentials": {"tokenUrl": "/token", "scopes": {"read": "Read"}},
            "authorizationCode": {
                "authorizationUrl": "/ask", "tokenUrl": "/token", "refreshUrl": "/again", "scopes": {},
            },
        }},
    }});
    // Everybody is let in by the last way, so nothing is missing.
    let security = read(&task).security;
    let scheme = |way: usize, index: usize| security[way][index].scheme.clone().unwrap();
    let key = SecurityScheme::ApiKey { place: ApiKeyPlace::Cookie, name: "sid".to_owned() };
    assert_eq!(scheme(0, 0), key);
    assert_eq!(security[0][1].name, "login");
    let http = |scheme, format: Option<&str>| SecurityScheme::Http {
        scheme,
        bearer_format: format.map(str::to_owned),
    };
    assert_eq!(scheme(0, 1), http(HttpScheme::Basic, None));
    assert_eq!(security[1][0].scopes, ["read", "write"]);
    let SecurityScheme::OAuth2(flows) = scheme(1, 0) else { panic!() };
    let machine = flows.client_credentials.unwrap();
    assert_eq!((machine.token_url.as_deref(), machine.authorization_url), (Some("/token"), None));
    assert_eq!(machine.scopes["read"], "Read");
    let person = flows.authorization_code.unwrap();
    assert_eq!(person.refresh_url.as_deref(), Some("/again"));
    assert_eq!((flows.implicit, flows.password), (None, None));
    assert_eq!(scheme(2, 0), SecurityScheme::OpenIdConnect { url: "/.well-known".to_owned() });
    assert_eq!(scheme(3, 0), http(HttpScheme::Bearer, Some("JWT")));
    assert_eq!(scheme(4, 0), http(HttpScheme::Other("digest".to_owned()), None));
    assert_eq!(scheme(5, 0), SecurityScheme::MutualTls);
    assert_eq!(security[6], []);
}

#[test]
fn what_is_wrong_with_security_is_a_warning() {
    let mut task = get(json!({"security": [{"none": []}, {}]}));
    let place = ".paths[\"/a\"].get.security[0].none";
    let read = check_warned(&task, "no security scheme `none` is defined", place);
    assert_eq!(read.security[0][0].scheme, None);
    task["components"] = json!({"securitySchemes": {"none": {"type": "apiKey", "name": "x"}}});
    let (severity, message, path) = remark(&task);
    assert_eq!((severity, path.as_str()), (Severity::Warning, ".components.securitySchemes.none"));
    assert!(message.starts_with("the security scheme `none` is malformed: "), "{message}");
    // An empty list of an operation takes back what holds for the others.
    task["security"] = json!([{"none": []}]);
    task["paths"]["/a"]["get"]["security"] = json!([]);
    assert_eq!(self::read(&task).security, Vec::<Vec<_>>::new());
    task["components"]["securitySchemes"]["none"]["in"] = json!("query");
    task["paths"]["/a"]["get"].as_object_mut().unwrap().shift_remove("security");
    check_warned(&task, "the operation wants credentials, and none are sent yet", "");
}

#[test]
fn fields_of_other_kinds_than_known_are_ignored_when_they_are_extensions() {
    let mut task = get(json!({
        "x-a": 1, "parameters": [{"name": "q", "in": "query", "x-b": {}}],
        "responses": {"200": {"description": "", "x-c": 1}, "x-d": {"a": 1}},
        "requestBody": {"x-e": 1, "content": {"application/json": {"x-f": 1, "schema": {"x-g": 1}}}},
    }));
    task["x-h"] = json!({"$ref": "#/nowhere"});
    task["paths"]["x-i"] = json!({"get": 1});
    task["paths"]["/a"]["x-j"] = json!(1);
    task["servers"][0]["x-k"] = json!(1);
    task["info"]["x-l"] = json!(1);
    let task = read(&task);
    assert_eq!(task.responses.len(), 1);
    assert_eq!(task.body.unwrap().schema, json!({"x-g": 1}));
}
