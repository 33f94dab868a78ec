//! What is meant although it is not said so, what is named, and how much is read.

use serde_json::{Map, Value, json};

use super::*;

#[test]
fn what_is_meant_is_read_and_told() {
    let description = description(
        &json!({"/do?q={term}&page={page}&sort=a%20b&id={id}": {"get": {
            "parameters": [
                {"name": "term", "in": "path", "required": true, "schema": {"type": "integer"}},
                {"name": "page", "in": "query", "required": "true", "schema": {
                    "type": ["string", "null"], "minLength": "3", "uniqueItems": "true",
                }},
            ],
            "requestBody": {"required": "true", "content": {"application/json": {"schema": {
                "properties": {"a": {"type": "date"}, "made": {"readOnly": "true"}},
            }}}},
            "responses": {"200": {"description": ""}},
        }}}),
        &json!({}),
    );
    let (imported, document) = import_one(&description);
    let content = a2s::parse_value(imported.text.as_bytes()).unwrap();
    let step = &content["execution"]["steps"][0];
    assert_eq!(
        step["input_mapping"],
        json!({
            "queryParameters": {"q": "${q}", "page": "${page}", "sort": "a b", "id": "${id}"},
            "body": {"a": "${a}"},
        })
    );
    let required: Vec<_> = document.capability().parameters.iter().map(|p| p.required).collect();
    assert_eq!(required, [true, true, true, false]);
    let operation = &step["task"]["paths"]["/do"]["get"];
    let page = json!({"name": "page", "in": "query", "required": true, "schema": {
        "type": "string", "uniqueItems": true, "nullable": true,
    }});
    assert!(operation["parameters"].as_array().unwrap().contains(&page), "{operation}");
    assert_eq!(operation["requestBody"]["required"], json!(true));
    let told = reasons(&imported).join("\n");
    for reason in [
        "the value of `{term}` after `?` comes from the caller",
        "`required` is a text; the import reads it as `true`",
        "the import reads it as `string`",
        "the import drops `minLength: \"3\"`",
        "`uniqueItems` is a text",
        "the import drops `type: \"date\"`",
    ] {
        assert!(told.contains(reason), "{reason} in {told}");
    }
}

#[test]
fn null_is_a_type_in_newer_descriptions() {
    let mut description = description(
        &json!({"/x/{id}": {"get": {
            "parameters": [
                {"name": "id", "in": "path", "schema": {"type": "integer", "nullable": "true"}},
            ],
            "responses": {"200": {"description": ""}},
        }}}),
        &json!({}),
    );
    description["openapi"] = json!("3.1.0");
    let (imported, _) = import_one(&description);
    let content = a2s::parse_value(imported.text.as_bytes()).unwrap();
    let task = &content["execution"]["steps"][0]["task"];
    let schema = &task["paths"]["/x/{id}"]["get"]["parameters"][0]["schema"];
    assert_eq!(*schema, json!({"type": ["integer", "null"]}));
    let told = reasons(&imported).join("\n");
    assert!(told.contains("adds null to its types") && told.contains("always required"), "{told}");
}

#[test]
fn long_paths_are_told_apart_and_names_may_be_given() {
    let long = |end: &str| format!("/{}{end}", "part/".repeat(30));
    let operation = json!({"responses": {"200": {"description": ""}}});
    let mut paths = Map::new();
    for path in [long("one"), long("two"), "/Case".to_owned(), "/case".to_owned()] {
        paths.insert(path, json!({"get": operation}));
    }
    let description = description(&Value::from(paths), &json!({}));
    let import = |wanted: &str| {
        let operations = vec![wanted.to_owned()];
        let options = OpenApiOptions { operations, ..Default::default() };
        import_openapi(&description, &options).map(|i| i.documents[0].text.clone())
    };
    assert!(import(&format!("GET {}", long("two"))).unwrap().contains("part/two"));
    assert!(import("get /case").unwrap().contains("/case:"));
    assert!(import("GetCase").unwrap().contains("/Case:"));
    assert!(import("GetCase2").unwrap().contains("/case:"));
    assert_eq!(import("GetCas").unwrap_err().hint, "Did you mean `GetCase`?");
}

#[test]
fn a_prefix_or_author_without_a_name_is_refused() {
    let refuse = |options: OpenApiOptions| import_openapi(&items(), &options).unwrap_err().message;
    let none = OpenApiOptions::default();
    let prefix = refuse(OpenApiOptions { prefix: Some("42".to_owned()), ..none.clone() });
    assert_eq!(prefix, "the prefix `42` has no letter");
    let author = refuse(OpenApiOptions { author: Some(" ".to_owned()), ..none });
    assert_eq!(author, "the author `` has no name");
}

#[test]
fn more_operations_than_are_read_are_told() {
    let operation = json!({"responses": {"200": {"description": ""}}});
    let paths: Map<String, Value> =
        (0..20_001).map(|n| (format!("/{n}"), json!({"get": operation}))).collect();
    let description = description(&Value::from(paths), &json!({}));
    let (operations, refused) = operations(RefResolver::new(&description));
    assert_eq!(operations.len(), 20_000);
    assert_eq!(refused[0].source, "/20000");
}
