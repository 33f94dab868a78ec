use super::*;

/// A description with an operation that has optional parameters, and one that requires `X-Trace`.
fn orders() -> Value {
    let schema = json!({"type": "string"});
    let parameter =
        |name: &str, place: &str| json!({"name": name, "in": place, "schema": schema.clone()});
    let ok = json!({"200": {"description": "OK"}});
    description(
        &json!({
            "/orders": {
                "parameters": [parameter("X-Request-Id", "header")],
                "get": {
                    "operationId": "listOrders",
                    "parameters": [
                        parameter("X-Trace", "header"),
                        parameter("lang", "query"),
                        parameter("session", "cookie"),
                        parameter("cursor", "query"),
                    ],
                    "responses": ok,
                },
            },
            "/orders/{id}": {
                "get": {
                    "operationId": "getOrder",
                    "parameters": [
                        {"name": "id", "in": "path", "required": true, "schema": schema.clone()},
                        {"name": "X-Trace", "in": "header", "required": true, "schema": schema.clone()},
                    ],
                    "responses": ok,
                },
            },
        }),
        &json!({}),
    )
}

fn import_without(names: &[&str]) -> Result<ImportResult, ImportError> {
    let without = names.iter().map(|name| (*name).to_owned()).collect();
    import_openapi(&orders(), &OpenApiOptions { without, ..OpenApiOptions::default() })
}

#[test]
fn unwanted_parameters_are_left_out_of_task_and_interface() {
    let imported = import_without(&["x-request-id", "lang", "session"]).unwrap();
    assert_eq!(imported.refused, []);
    let content = a2s::parse_value(imported.documents[0].text.as_bytes()).unwrap();
    assert_eq!(imported.documents[0].name, "ListOrders");
    let parameters = content["parameters"].as_array().unwrap();
    let names: Vec<_> = parameters.iter().map(|parameter| &parameter["name"]).collect();
    assert_eq!(names, ["X-Trace", "cursor"]);
    let step = &content["execution"]["steps"][0];
    assert_eq!(
        step["input_mapping"],
        json!({
            "headerParameters": {"X-Trace": "${X-Trace}"},
            "queryParameters": {"cursor": "${cursor}"},
        })
    );
    let declared = step["task"]["paths"]["/orders"]["get"]["parameters"].as_array().unwrap();
    let declared: Vec<_> = declared.iter().map(|parameter| &parameter["name"]).collect();
    assert_eq!(declared, ["X-Trace", "cursor"]);
}

#[test]
fn required_parameter_cannot_be_left_out() {
    let imported = import_without(&["X-Trace"]).unwrap();
    let names: Vec<_> = imported.documents.iter().map(|document| &document.name).collect();
    assert_eq!(names, ["ListOrders"]);
    let [refused] = imported.refused.as_slice() else { panic!("{:?}", imported.refused) };
    assert_eq!(refused.source, "GET /orders/{id}");
    assert!(refused.reason.contains("requires the header parameter `X-Trace`"), "{refused:?}");
    let imported = import_without(&["id"]).unwrap();
    assert!(imported.refused[0].reason.contains("path parameter `id`"), "{:?}", imported.refused);
}

#[test]
fn unknown_parameter_to_leave_out_is_an_error_with_close_names() {
    let error = import_without(&["lang", "X-Request-ld"]).unwrap_err();
    assert_eq!(error.message, "no imported operation has a parameter `X-Request-ld`");
    assert_eq!(error.hint, "Did you mean `X-Request-Id`?");
    let error = import_without(&["Accept-Encoding"]).unwrap_err();
    assert_eq!(
        error.hint,
        "The optional parameters are `X-Request-Id`, `X-Trace`, `cursor`, `lang`, `session`."
    );
    // A name of an operation that is not imported is unknown, too.
    let options = OpenApiOptions {
        operations: vec!["getOrder".to_owned()],
        without: vec!["lang".to_owned()],
        ..OpenApiOptions::default()
    };
    let error = import_openapi(&orders(), &options).unwrap_err();
    assert_eq!(error.hint, "The operations have no optional parameters.");
}
