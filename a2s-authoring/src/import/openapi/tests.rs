mod omission;
mod tolerant_reading;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::format_document;
use crate::import::mutate::{mangle, mistakes};
use a2s::{Document, compile_with_checksum};

/// A description with one path, and the members that are given beside it.
fn description(paths: &Value, more: &Value) -> Value {
    let mut description = json!({
        "openapi": "3.0.3",
        "info": {"title": "Shop", "version": "2"},
        "servers": [{"url": "https://api.shop.example/v1"}],
        "paths": paths,
    });
    let members = description.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    description
}

/// Imports a description that gives one document, and checks what holds for each.
#[track_caller]
fn import_one(description: &Value) -> (ImportedDocument, Document) {
    let mut imported = import_openapi(description, &OpenApiOptions::default()).unwrap();
    assert_eq!(imported.refused, []);
    assert_eq!(imported.documents.len(), 1);
    let imported = imported.documents.remove(0);
    let compilation = compile_with_checksum(imported.text.as_bytes());
    let document = compilation.document.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics));
    assert_eq!(document.digest(), imported.checksum);
    assert_eq!(document.capability().name.as_str(), imported.name);
    assert_eq!(format_document(imported.text.as_bytes()).as_ref(), Ok(&imported.text));
    (imported, document)
}

/// The reasons of the remarks.
fn reasons(imported: &ImportedDocument) -> Vec<&str> {
    imported.remarks.iter().map(|remark| remark.reason.as_str()).collect()
}

/// A description with something of everything.
fn items() -> Value {
    description(
        &json!({
            "/items/{id}": {
                "parameters": [{"$ref": "#/components/parameters/Id"}],
                "get": {
                    "operationId": "get_item",
                    "summary": "Gets an item by its number",
                    "tags": ["items"],
                    "x-internal": true,
                    "parameters": [
                        {"name": "lang", "in": "query", "schema": {"type": "string", "default": "en", "enum": ["en", "de"], "example": "en"}},
                    ],
                    "responses": {
                        "201": {"description": "Other"},
                        "200": {"description": "The item", "content": {
                            "text/html": {},
                            "application/json": {"schema": {"$ref": "#/components/schemas/Item"}, "example": {}},
                        }},
                        "404": {"$ref": "#/components/responses/Missing"},
                        "302": {"description": "Elsewhere"},
                    },
                },
                "delete": {"responses": {"204": {"description": "Gone"}}},
            },
        }),
        &json!({"components": {
            "parameters": {"Id": {"name": "id", "in": "path", "required": true, "description": "Number of the item", "schema": {"type": "integer", "format": "int64"}}},
            "responses": {"Missing": {"description": "No such item", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}},
            "schemas": {
                "Item": {"type": "object", "required": ["id"], "x-go": 1, "properties": {
                    "id": {"type": "integer"},
                    "example": {"type": "string", "example": "kept as a property"},
                    "parent": {"$ref": "#/components/schemas/Item"},
                    "secret": {"type": "string", "writeOnly": true},
                }},
                "Error": {"type": "object", "properties": {"message": {"type": "string"}}},
                "Unrelated": {"type": "object"},
            },
        }}),
    )
}

#[test]
fn callbacks_and_webhooks_are_reported() {
    let mut description = items();
    let post = json!({"post": {"responses": {"200": {"description": "Got"}}}});
    description["paths"]["/items/{id}"]["get"]["callbacks"] =
        json!({"moved": {"{$request.query.url}": post}, "x-note": {}});
    let hooks: Map<String, Value> = (1..=7).map(|n| (format!("hook{n}"), post.clone())).collect();
    description["webhooks"] = Value::Object(hooks);
    let imported = import_openapi(&description, &OpenApiOptions::default()).unwrap();
    let hooks = "the import drops `hook1`, `hook2`, `hook3`, `hook4`, `hook5` and 2 more: ";
    let [remark] = imported.remarks.as_slice() else { panic!("{:?}", imported.remarks) };
    assert!(remark.place == "webhooks" && remark.reason.starts_with(hooks), "{remark:?}");
    let own = &imported.documents[0].remarks;
    let is_meant = |it: &ImportWarning| {
        it.place == "paths./items/{id}.get.callbacks" && it.reason.contains("drops `moved`:")
    };
    assert!(own.iter().any(is_meant), "{own:?}");

    description["paths"] = json!({});
    let error = import_openapi(&description, &OpenApiOptions::default()).unwrap_err();
    assert!(error.message.contains("only webhooks (`hook1`"), "{error}");
}

#[test]
fn operation_is_extracted_with_its_references_only() {
    let description = items();
    let options = OpenApiOptions { operations: vec!["get_item".to_owned()], ..Default::default() };
    let imported = import_openapi(&description, &options).unwrap();
    let [document] = imported.documents.as_slice() else { panic!("one document") };
    let content = a2s::parse_value(document.text.as_bytes()).unwrap();
    assert_eq!(content["name"], "GetItem");
    assert_eq!(content["description"], "Gets an item by its number");
    assert_eq!(content["domains"], json!(["api.shop.example"]));
    assert_eq!(
        content["parameters"],
        json!([
            {"name": "id", "description": "Number of the item", "type": "integer"},
            {"name": "lang", "type": "string", "default": "en", "enum": ["en", "de"]},
        ])
    );
    let step = &content["execution"]["steps"][0];
    assert_eq!(
        step["input_mapping"],
        json!({"pathParameters": {"id": "${id}"}, "queryParameters": {"lang": "${lang}"}})
    );
    // `id` is a parameter already; the item may lack the rest.
    assert_eq!(
        step["output_mapping"],
        json!({
            "result_id": "$.id",
            "example": {"path": "$.example", "optional": true},
            "parent": {"path": "$.parent", "optional": true},
        })
    );
    let task = &step["task"];
    let operation = &task["paths"]["/items/{id}"]["get"];
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&task["paths"]["/items/{id}"]), ["get"]);
    assert_eq!(keys(operation), ["operationId", "summary", "parameters", "responses"]);
    assert_eq!(keys(&operation["responses"]), ["200", "404"]);
    assert_eq!(keys(&operation["responses"]["200"]["content"]), ["application/json"]);
    assert_eq!(keys(&task["components"]), ["schemas"]);
    assert_eq!(
        task["components"]["schemas"],
        json!({
            "Item": {"type": "object", "required": ["id"], "properties": {
                "id": {"type": "integer"},
                "example": {"type": "string"},
                "parent": {"$ref": "#/components/schemas/Item"},
                "secret": {"type": "string", "writeOnly": true},
            }},
            "Error": {"type": "object", "properties": {"message": {"type": "string"}}},
        })
    );
}

#[test]
fn the_members_of_a_body_become_parameters() {
    let description = description(
        &json!({"/orders/{id}": {"put": {
            "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
            "requestBody": {"required": true, "content": {"application/json": {"schema": {
                "allOf": [
                    {"$ref": "#/components/schemas/Base"},
                    {"type": "object", "required": ["count"], "properties": {
                        "count": {"type": "integer", "default": 1},
                        "kind": {"type": "string", "enum": ["order"]},
                        "password": {"type": "string", "default": "x"},
                        "made": {"type": "string", "readOnly": true},
                    }},
                ],
            }}}},
            "responses": {"204": {"description": "Done"}},
        }}}),
        &json!({"components": {"schemas": {"Base": {
            "type": "object",
            "required": ["id", "kind", "unsaid"],
            "properties": {"id": {"type": "string"}},
        }}}}),
    );
    let (imported, document) = import_one(&description);
    assert_eq!(imported.name, "PutOrdersById");
    let parameters: Vec<_> = document
        .capability()
        .parameters
        .iter()
        .map(|p| (p.name.as_str(), p.required, p.default.clone(), p.secret))
        .collect();
    assert_eq!(
        parameters,
        [
            ("id", true, None, false),
            ("body_id", true, None, false),
            ("unsaid", true, None, false),
            ("count", false, Some(json!(1)), false),
            ("kind", false, Some(json!("order")), false),
            ("password", false, None, true),
        ]
    );
    let content = a2s::parse_value(imported.text.as_bytes()).unwrap();
    let step = &content["execution"]["steps"][0];
    assert_eq!(
        step["input_mapping"]["body"],
        json!({"id": "${body_id}", "count": "${count}", "kind": "${kind}", "password": "${password}", "unsaid": "${unsaid}"})
    );
    // Nothing is answered but the status.
    assert_eq!(step["output_mapping"], json!({"status": {"from": "status"}}));
}

#[test]
fn a_body_that_is_no_plain_object_is_one_parameter() {
    let many: Map<String, Value> =
        (0..40).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    for schema in [
        json!({"type": "array", "items": {"type": "string"}}),
        json!({"oneOf": [{"type": "object"}, {"type": "array", "items": {}}]}),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "properties": many}),
    ] {
        let description = description(
            &json!({"/x": {"post": {
                "requestBody": {"content": {"application/json": {"schema": schema}}},
                "responses": {"200": {"description": "", "content": {"application/json": {"schema": {"type": "array", "items": {}}}}}},
            }}}),
            &json!({}),
        );
        let (imported, _) = import_one(&description);
        let content = a2s::parse_value(imported.text.as_bytes()).unwrap();
        let step = &content["execution"]["steps"][0];
        assert_eq!(step["input_mapping"], json!({"body": "${body}"}));
        assert_eq!(step["output_mapping"], json!({"x": "$"}));
        assert_eq!(content["parameters"][0]["required"], json!(false));
    }
}

#[test]
fn names_are_made_fit_and_told_apart() {
    let operation =
        |id: &str| json!({"operationId": id, "responses": {"200": {"description": ""}}});
    let description = description(
        &json!({
            "/a": {"get": operation("list-all"), "post": operation("list_all")},
            "/b/{x}": {"get": {"responses": {"200": {"description": ""}}}},
            "/c": {"get": operation("取得")},
        }),
        &json!({}),
    );
    let options = OpenApiOptions { prefix: Some("my shop".to_owned()), ..Default::default() };
    let names: Vec<String> =
        list_openapi(&description, &options).unwrap().into_iter().map(|o| o.name).collect();
    assert_eq!(names, ["MyShopListAll", "MyShopListAll2", "MyShopGetBByX", "MyShopGetC"]);
    // One that is imported alone has the name that it has among all.
    let options = OpenApiOptions { operations: vec!["post /a".to_owned()], ..options };
    let imported = import_openapi(&description, &options).unwrap();
    assert_eq!(imported.documents[0].name, "MyShopListAll2");
}

/// A description of `POST /a` with a body of the component `A0`.
fn with_components(schemas: &Value) -> Value {
    let body = json!({"required": true, "content": {"application/json": {
        "schema": {"$ref": "#/components/schemas/A0"},
    }}});
    let operation = json!({"requestBody": body, "responses": {"200": {"description": "a"}}});
    description(&json!({"/a": {"post": operation}}), &json!({ "schemas": schemas }))
}

#[test]
fn schemas_that_multiply_are_imported_within_bounds() {
    let import = |schemas: &Value| {
        let imported = import_openapi(&with_components(schemas), &OpenApiOptions::default());
        imported.unwrap().documents.len()
    };
    // 300 members of the schema itself: 300 to the power of its depth.
    let names: Vec<_> = (0..300).map(|n| format!("p{n}")).collect();
    let members: Map<_, _> = names
        .iter()
        .map(|name| (name.clone(), json!({"$ref": "#/components/schemas/A0"})))
        .collect();
    let fan = json!({"A0": {"type": "object", "required": names, "properties": members}});
    assert_eq!(import(&fan), 1);
    // Eight levels of which each combines the next one 300 times.
    let parts = |level: usize| match level {
        8 => json!({"type": "object", "properties": {"a": {"type": "string"}}}),
        _ => {
            let next = json!({"$ref": format!("#/components/schemas/A{}", level + 1)});
            json!({"allOf": vec![next; 300]})
        }
    };
    let levels: Map<_, _> = (0..=8).map(|level| (format!("A{level}"), parts(level))).collect();
    assert_eq!(import(&json!(levels)), 1);
}

#[test]
fn long_enumeration_is_imported_within_bounds() {
    let values: Vec<_> = (0..100_000).map(|n| format!("v{n}")).collect();
    let parameter = json!({"name": "q", "in": "query", "schema": {"enum": values}});
    let operation = json!({"parameters": [parameter], "responses": {"200": {"description": "a"}}});
    let description = description(&json!({"/a": {"get": operation}}), &json!({}));
    let imported = import_openapi(&description, &OpenApiOptions::default()).unwrap();
    assert_eq!(imported.documents.len() + imported.refused.len(), 1);
}

#[test]
fn stopped_import_ends_before_its_next_operation() {
    let stop = ImportStop::default();
    stop.stop();
    let error = import_openapi(&items(), &OpenApiOptions { stop, ..Default::default() });
    assert_eq!(error.unwrap_err().message, "the import was stopped");
}

#[test]
fn what_a_document_may_not_have_is_told() {
    let description = description(
        &json!({"/do?action=run#now": {"get": {
            "parameters": [
                {"name": "Authorization", "in": "header", "required": true, "schema": {"type": "string"}},
                {"name": "X-Api-Key", "in": "header", "required": true, "schema": {"type": "string", "default": "k"}},
                {"name": "gone", "in": "path", "required": true, "schema": {"type": "string"}},
                {"name": "plain", "in": "query", "type": "integer"},
                {"name": "big", "in": "query", "schema": {"type": "integer", "maximum": 9_223_372_036_854_775_807_u64}},
                {"name": "odd[name]", "in": "query", "style": "simple", "schema": {"$ref": "other.json#/x"}},
            ],
            "security": [{"undescribed": []}],
            "responses": {"2xx": {"description": "", "content": {"application/xml": {"schema": {"type": "object", "properties": {"a": {"type": "string"}}}}}}, "20x": {"description": ""}},
        }}}),
        &json!({}),
    );
    let (imported, document) = import_one(&description);
    let content = a2s::parse_value(imported.text.as_bytes()).unwrap();
    let step = &content["execution"]["steps"][0];
    assert_eq!(
        step["input_mapping"],
        json!({
            "headerParameters": {"X-Api-Key": "${X-Api-Key}"},
            "queryParameters": {
                "plain": "${plain}", "big": "${big}", "odd[name]": "${odd_name}", "action": "run",
            },
        })
    );
    assert!(document.capability().parameters[0].secret);
    assert_eq!(document.capability().parameters[0].default, None);
    assert!(step["task"]["paths"]["/do"]["get"]["responses"]["2XX"].is_object());
    let told = reasons(&imported).join("\n");
    for reason in [
        "`Authorization` became a security scheme (HTTP bearer)",
        "the path has no `{gone}`",
        "the parameter has no schema; the import accepts a whole number",
        "9223372036854775807 is a number that is not allowed in a document",
        "refers to another file",
        "cannot have the style `simple`",
        "no security scheme with this name",
        "a response of `application/xml` has no members; the output is the whole response",
        "not a response status",
        "the text after `#`",
    ] {
        assert!(told.contains(reason), "{reason} in {told}");
    }
}

#[test]
fn the_address_comes_from_where_it_is_said() {
    let paths = json!({"/x": {"get": {"responses": {"200": {"description": ""}}}}});
    let url = |servers: Value, options: &OpenApiOptions| {
        let description = description(&paths, &json!({ "servers": servers }));
        let imported = import_openapi(&description, options).unwrap();
        match imported.documents.first() {
            Some(document) => {
                let content = a2s::parse_value(document.text.as_bytes()).unwrap();
                let task = &content["execution"]["steps"][0]["task"];
                (content["domains"][0].clone(), task["servers"][0].clone())
            }
            None => (Value::Null, json!(imported.refused[0].reason)),
        }
    };
    let none = OpenApiOptions::default();
    let base = Url::parse("https://docs.shop.example/spec/openapi.json").unwrap();
    let based = OpenApiOptions { base: Some(base), ..none.clone() };
    let told =
        OpenApiOptions { server: Url::parse("https://told.example:8443/x").ok(), ..none.clone() };

    let relative = json!([{"url": "/v1"}]);
    assert!(url(relative.clone(), &none).1.as_str().unwrap().contains("`/v1` is relative"));
    let joined = json!({"url": "https://docs.shop.example/v1"});
    assert_eq!(url(relative.clone(), &based), (json!("docs.shop.example"), joined));
    let told_url = json!({"url": "https://told.example:8443/x"});
    assert_eq!(url(relative, &told), (json!("told.example:8443"), told_url));
    assert_eq!(url(json!([]), &based).0, "docs.shop.example");
    // The first that can be addressed.
    let several = json!([{"url": "ftp://first.example/"}, {"url": "https://second.example"}]);
    assert_eq!(url(several, &none).0, "second.example");
    assert_eq!(url(json!([{"url": "http://10.0.0.5:8080"}]), &none).0, "10.0.0.5:8080");
    let variables = json!([{"url": "https://{host}.example/{v}", "variables": {
        "host": {"default": "eu", "enum": ["eu", "us"], "description": "where"}, "v": {"default": 2},
    }}]);
    let kept = json!({"url": "https://{host}.example/{v}", "variables": {
        "host": {"default": "eu", "enum": ["eu", "us"]}, "v": {"default": "2"},
    }});
    assert_eq!(url(variables, &none), (json!("eu.example"), kept));
    for bad in ["ftp://x.example", "https://u:p@x.example", "https://x.example/?a=1", "https://{x}"]
    {
        assert_eq!(url(json!([{ "url": bad }]), &none).0, Value::Null, "{bad}");
    }
}

#[test]
fn security_schemes_are_kept_with_the_scopes_that_are_demanded() {
    let description = description(
        &json!({"/x": {"get": {
            "security": [{"login": ["read"]}, {"key": []}],
            "responses": {"200": {"description": ""}},
        }}}),
        &json!({"components": {"securitySchemes": {
            "login": {"type": "oauth2", "description": "long", "flows": {"clientCredentials": {
                "tokenUrl": "https://api.shop.example/token", "scopes": {"read": "Read", "write": "Write"},
            }}},
            "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "unused": {"type": "http", "scheme": "basic"},
        }}}),
    );
    let (imported, _) = import_one(&description);
    let content = a2s::parse_value(imported.text.as_bytes()).unwrap();
    let task = &content["execution"]["steps"][0]["task"];
    assert_eq!(task["paths"]["/x"]["get"]["security"], json!([{"login": ["read"]}, {"key": []}]));
    assert_eq!(
        task["components"]["securitySchemes"],
        json!({
            "login": {"type": "oauth2", "flows": {"clientCredentials": {
                "tokenUrl": "https://api.shop.example/token", "scopes": {"read": "Read"},
            }}},
            "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
        })
    );
}

#[test]
fn hosts_of_tokens_are_domains() {
    let flow = |more: &Value| {
        let mut flow = json!({"tokenUrl": "https://api.shop.example/token", "scopes": {}});
        flow.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        flow
    };
    let import = |flows: &Value| {
        let description = description(
            &json!({"/x": {"get": {
                "security": [{"login": []}],
                "responses": {"200": {"description": ""}},
            }}}),
            &json!({"components": {"securitySchemes": {"login": {"type": "oauth2", "flows": flows}}}}),
        );
        import_one(&description)
    };
    let domains = |document: &Document| -> Vec<String> {
        document.capability().domains.iter().map(|domain| domain.as_str().to_owned()).collect()
    };
    let elsewhere = flow(&json!({"tokenUrl": "https://auth.shop.example:8443/token"}));
    let (imported, document) = import(&json!({ "clientCredentials": elsewhere }));
    assert_eq!(domains(&document), ["api.shop.example", "auth.shop.example:8443"]);
    let reason = "`domains` lists `auth.shop.example:8443`, because the executor gets tokens there";
    assert_eq!(reasons(&imported), [reason]);
    let renewal = flow(&json!({
        "authorizationUrl": "https://people.example/", "refreshUrl": "https://renew.example/",
    }));
    let (_, document) = import(&json!({ "authorizationCode": renewal }));
    assert_eq!(domains(&document), ["api.shop.example", "renew.example"]);
    for same in [json!({}), json!({"tokenUrl": "/token"})] {
        let (imported, document) = import(&json!({ "clientCredentials": flow(&same) }));
        assert_eq!(domains(&document), ["api.shop.example"]);
        assert_eq!(imported.remarks, []);
    }
}

#[test]
fn a_large_answer_is_cut_off_where_it_is_deep() {
    // A chain of schemas. Those at its end have more text than a document holds.
    let level = |n: usize| {
        let mut members: Map<String, Value> = (0..if n < 9 { 0 } else { 4_000 })
            .map(|m| (format!("{}{m}", "long_name_".repeat(8)), json!({"type": "string"})))
            .collect();
        members
            .insert("next".to_owned(), json!({"$ref": format!("#/components/schemas/L{}", n + 1)}));
        json!({"type": "object", "properties": members})
    };
    let mut schemas: Map<String, Value> = (0..12).map(|n| (format!("L{n}"), level(n))).collect();
    schemas.insert("L12".to_owned(), json!({"type": "object"}));
    let description = description(
        &json!({"/x": {"get": {"responses": {"200": {"description": "", "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/L0"}},
        }}}}}}),
        &json!({"components": {"schemas": schemas}}),
    );
    let (imported, _) = import_one(&description);
    assert!(imported.text.len() < 1 << 20);
    assert!(
        reasons(&imported).iter().any(|reason| reason.contains("cuts off")),
        "{:?}",
        reasons(&imported)
    );
}

#[test]
fn hostile_text_becomes_a_line() {
    let nasty = "\u{1b}[31mred\u{202e}\n# comment: x\n---\n${city} <calculated>";
    let description = description(
        &json!({"/x": {"get": {
            "operationId": "a",
            "summary": nasty,
            "parameters": [{"name": nasty.replace(['\n', '\u{1b}'], ""), "in": "query", "description": nasty, "schema": {"type": "string", "default": nasty}}],
            "responses": {"200": {"description": nasty}},
        }}}),
        &json!({"info": {"title": nasty, "version": nasty, "contact": {"name": nasty, "email": "no address"}}}),
    );
    let (imported, document) = import_one(&description);
    assert!(imported.text.lines().next().unwrap().starts_with("# Imported from [31mred # comment"));
    for text in [&document.capability().description, &document.capability().authors[0].name] {
        assert!(!text.contains(['\u{1b}', '\u{202e}', '\n']), "{text:?}");
    }
    assert!(imported.remarks.iter().all(|remark| !remark.reason.contains(['\u{1b}', '\n'])));
}

#[test]
fn other_descriptions_are_refused_with_what_to_do() {
    let refuse =
        |description: Value| import_openapi(&description, &OpenApiOptions::default()).unwrap_err();
    assert!(refuse(json!({"swagger": "2.0"})).hint.contains("swagger2openapi"));
    assert!(refuse(json!({"openapi": "4.0.0"})).message.contains("OpenAPI 4.0.0"));
    assert!(refuse(json!({"arazzo": "1.0.0"})).message.contains("not an OpenAPI description"));
    assert!(refuse(json!([])).message.contains("not an OpenAPI description"));
    assert!(refuse(json!({"openapi": "3.1.0", "info": {}})).message.contains("no operations"));
    let options = OpenApiOptions { operations: vec!["getItm".to_owned()], ..Default::default() };
    let paths = json!({"/x": {"get": {"operationId": "getItem", "responses": {}}}});
    let unknown = import_openapi(&description(&paths, &json!({})), &options).unwrap_err();
    assert_eq!(unknown.hint, "Did you mean `getItem`?");
}

#[test]
fn references_in_circles_and_into_nothing_end() {
    let description = description(
        &json!({
            "/a": {"$ref": "#/paths/~1a"},
            "/b": {"get": {"parameters": [{"$ref": "#/components/parameters/Loop"}], "responses": {}}},
            "/c": {"get": {"responses": {"200": {"$ref": "#/nothing"}}}},
            "/d": {"post": {"requestBody": {"$ref": "elsewhere.yaml"}, "responses": {}}},
            "/e": {"get": {"responses": {"200": {"description": "", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Loop"}}}}}}},
        }),
        &json!({"components": {
            "parameters": {"Loop": {"$ref": "#/components/parameters/Loop"}},
            "schemas": {"Loop": {"$ref": "#/components/schemas/Loop"}},
        }}),
    );
    let imported = import_openapi(&description, &OpenApiOptions::default()).unwrap();
    let refused: Vec<_> = imported.refused.iter().map(|refusal| refusal.source.as_str()).collect();
    assert_eq!(refused, ["/a", "GET /b", "POST /d"]);
    assert!(imported.refused.iter().all(|refusal| refusal.hint.is_some()));
    let names: Vec<_> = imported.documents.iter().map(|document| document.name.as_str()).collect();
    assert_eq!(names, ["GetC", "GetE"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever is wrong with a description, what comes out of it is good.
    #[test]
    fn mistakes_are_refused_or_mended(mistakes in mistakes()) {
        let description = mangle(items(), &mistakes);
        if let Ok(imported) = import_openapi(&description, &OpenApiOptions::default()) {
            for document in &imported.documents {
                let compiled = compile_with_checksum(document.text.as_bytes()).document;
                prop_assert!(compiled.is_some(), "{}", document.text);
            }
            let again = import_openapi(&description, &OpenApiOptions::default());
            let texts = |imported: &ImportResult| -> Vec<String> {
                imported.documents.iter().map(|document| document.text.clone()).collect()
            };
            prop_assert_eq!(again.map(|again| texts(&again)), Ok(texts(&imported)));
        }
    }
}

#[test]
fn files_may_be_given_with_what_is_known_of_them() {
    let kind_of = |media: &str, schema: Value| {
        let operation = json!({"post": {
            "requestBody": {"content": {media: {"schema": schema}}},
            "responses": {"200": {"description": ""}},
        }});
        let (_, document) = import_one(&description(&json!({"/x": operation}), &json!({})));
        document.capability().parameters[0].kind.map(a2s::ValueType::as_str)
    };
    let file = || json!({"type": "string", "format": "binary"});
    let form = || json!({"type": "object", "properties": {"file": file()}});
    assert_eq!(kind_of("application/octet-stream", file()), None);
    assert_eq!(kind_of("application/octet-stream", json!({"type": "array", "items": {}})), None);
    assert_eq!(kind_of("multipart/form-data", form()), None);
    assert_eq!(kind_of("application/json", form()), Some("string"));
    assert_eq!(kind_of("text/plain", json!({"type": "string"})), Some("string"));
    assert_eq!(kind_of("text/plain", json!({"type": "object"})), None);
}

#[test]
fn slashes_stay_where_the_path_lets_them_through() {
    let parent =
        json!({"name": "parent", "in": "path", "required": true, "schema": {"type": "string"}});
    let paths = json!({"/v1/{+parent}/items": {"get": {
        "parameters": [parent], "responses": {"200": {"description": ""}},
    }}});
    let (imported, document) = import_one(&description(&paths, &json!({})));
    assert_eq!(reasons(&imported), Vec::<&str>::new());
    let content = a2s::parse_value(imported.text.as_bytes()).unwrap();
    let step = &content["execution"]["steps"][0];
    assert!(step["task"]["paths"]["/v1/{+parent}/items"].is_object(), "{step}");
    assert_eq!(step["input_mapping"], json!({"pathParameters": {"parent": "${parent}"}}));
    assert_eq!(document.interface().inputs[0].name, "parent");
}

#[test]
fn a_header_for_credentials_becomes_a_security_scheme() {
    let header = |description: &str, required: bool| {
        let header = json!({
            "name": "Authorization", "in": "header", "required": required,
            "description": description, "schema": {"type": "string"},
        });
        let paths = json!({"/x": {"get": {
            "parameters": [header], "responses": {"200": {"description": ""}},
        }}});
        let (imported, _) = import_one(&description_of_paths(&paths));
        let content = a2s::parse_value(imported.text.as_bytes()).unwrap();
        content["execution"]["steps"][0]["task"].clone()
    };
    let task = header("A token", true);
    let scheme = |task: &Value| task["components"]["securitySchemes"]["Authorization"].clone();
    assert_eq!(scheme(&task), json!({"type": "http", "scheme": "bearer"}));
    assert_eq!(task["paths"]["/x"]["get"]["security"], json!([{"Authorization": []}]));
    let task = header("Basic base64(user:password)", false);
    assert_eq!(scheme(&task), json!({"type": "http", "scheme": "basic"}));
    assert_eq!(task["paths"]["/x"]["get"]["security"], json!([{"Authorization": []}, {}]));
}

fn description_of_paths(paths: &Value) -> Value {
    description(paths, &json!({}))
}

#[test]
fn a_description_whose_operations_are_elsewhere_says_so() {
    let paths =
        json!({"/x": {"get": {"$ref": "resources/x.yml"}, "put": {"$ref": "resources/y.yml"}}});
    let error = import_openapi(&description_of_paths(&paths), &OpenApiOptions::default());
    let message = error.unwrap_err().message;
    assert!(
        message.starts_with(
            "none of the 2 operations of the description can be imported; the first error: GET /x: "
        ),
        "{message}"
    );
    assert!(message.contains("refers to another file"), "{message}");
}

#[test]
fn a_draft_comes_with_an_example_and_patterns() {
    let paths = json!({"/weather": {"get": {
        "summary": "Gets the weather in a city",
        "parameters": [
            {"name": "city", "in": "query", "required": true, "schema": {"type": "string", "example": "Paris"}},
            {"name": "days", "in": "query", "schema": {"type": "integer"}},
        ],
        "responses": {"200": {"description": ""}},
    }}});
    let (imported, document) = import_one(&description_of_paths(&paths));
    let content = a2s::parse_value(imported.text.as_bytes()).unwrap();
    assert_eq!(
        content["examples"],
        json!([{"intent": "gets the weather in a city", "inputs": {"city": "Paris"}}])
    );
    assert_eq!(document.capability().parameters[0].patterns, ["in *", "for *"]);
    assert!(imported.can_work);
}

#[test]
fn an_empty_description_does_not_hide_that_of_the_path() {
    let paths = json!({"/weather": {
        "summary": "Weather of today in a city",
        "get": {"summary": "", "description": " ", "responses": {"200": {"description": ""}}},
    }});
    let (_, document) = import_one(&description_of_paths(&paths));
    assert_eq!(document.capability().description, "Weather of today in a city");
}

#[test]
fn an_idempotency_key_of_another_form_becomes_an_input() {
    let description_with = |key: &Value| {
        let header = json!({"name": "Idempotency-Key", "in": "header", "schema": key});
        let operation = json!({"operationId": "pay", "parameters": [header], "responses": {"200": {"description": ""}}});
        let more =
            json!({"components": {"schemas": {"Short": {"type": "string", "maxLength": 20}}}});
        description(&json!({"/pay": {"post": operation}}), &more)
    };
    for (key, rule) in [
        (json!({"$ref": "#/components/schemas/Short"}), "maxLength: 20"),
        (json!({"type": "string", "pattern": "^[0-9]{12}$"}), "pattern: ^[0-9]{12}$"),
        (json!({"type": "integer"}), "type: integer"),
    ] {
        let (imported, document) = import_one(&description_with(&key));
        let parameters = &document.capability().parameters;
        assert_eq!(parameters.len(), 1, "{key}");
        let name = parameters[0].name.to_ascii_lowercase();
        assert!(parameters[0].required && name.contains("idempotency"), "{key} {name}");
        let reason = format!("rejects the keys that the executor makes (`{rule}`)");
        assert!(reasons(&imported).iter().any(|found| found.contains(&reason)), "{imported:?}");
    }
    let (_, document) = import_one(&description_with(&json!({"type": "string"})));
    assert!(document.capability().parameters.is_empty());
}
