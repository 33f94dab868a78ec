use serde_json::{Value, json};

use crate::compile;
use crate::interface::{CapabilityInterface, Complexity};

fn interface(members: &Value) -> CapabilityInterface {
    let mut document = json!({
        "a2s": "1.1.0", "name": "Test", "description": "A test", "domains": ["api.example"],
        "version": "1.0.0", "checksum": "<checksum>", "authors": [{"name": "A"}],
    });
    for (key, member) in members.as_object().unwrap() {
        document[key] = member.clone();
    }
    let compilation = compile(document.to_string().as_bytes());
    let document = compilation.document;
    document.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics)).interface().clone()
}

#[test]
fn people_see_outputs_as_the_author_wrote_them_and_runs_do_not() {
    let text = r#"{
        "a2s": "1.1.0", "name": "Test", "description": "A test", "domains": ["api.example"],
        "version": "1.0.0", "checksum": "<checksum>", "authors": [{"name": "A"}],
        "execution": {"type": "sequence", "steps": [{
            "id": "ask", "format": "OpenAPI", "output_mapping": {"a": "$.a", "b": "$.b", "c": "$.c"},
            "task": {"openapi": "3.0.3", "info": {"title": "T", "version": "1"},
                "servers": [{"url": "https://api.example"}],
                "paths": {"/": {"get": {"responses": {"200": {"description": ""}}}}}}
        }]},
        "output": {"title": "${b}", "body": "${c}", "about": "${a}"}
    }"#;
    let document = compile(text.as_bytes()).document.unwrap();
    let names = |interface: &CapabilityInterface| -> Vec<String> {
        interface.outputs.iter().map(|output| output.name.clone()).collect()
    };
    assert_eq!(names(&document.interface_as_written()), ["title", "body", "about"]);
    assert_eq!(names(document.interface()), ["about", "body", "title"]);
}

/// `POST /{id}` that takes and gives an order.
fn task() -> Value {
    let content = json!({"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}});
    json!({
        "openapi": "3.0.3",
        "info": {"title": "Test", "version": "1"},
        "servers": [{"url": "https://api.example"}],
        "paths": {"/{id}": {"post": {
            "parameters": [
                {"name": "id", "in": "path", "required": true, "description": "Which one",
                 "schema": {"type": "integer", "minimum": 0, "exclusiveMinimum": true, "example": 3, "default": 9}},
                {"name": "unit", "in": "query", "schema": {"type": "string", "enum": ["kg", "lb"]}},
                {"name": "size", "in": "query", "schema": {"type": "string", "enum": ["S", "M"]}},
            ],
            "requestBody": {"content": content},
            "responses": {"200": {"description": "", "content": content}},
        }}},
        "components": {"schemas": {"Order": {
            "type": "object",
            "required": ["number", "lines", "token"],
            "properties": {
                "number": {"type": "string", "readOnly": true, "description": "Given by the shop"},
                "token": {"type": "string", "writeOnly": true},
                "note": {"type": "string", "nullable": true},
                "parent": {"nullable": true, "allOf": [{"$ref": "#/components/schemas/Order"}]},
                "lines": {"type": "array", "items": {
                    "type": "object", "properties": {"sku": {"type": "string"}}, "x-internal": 1,
                }},
            },
            "discriminator": {"propertyName": "number"},
        }}},
    })
}

fn step(inputs: &Value, outputs: &Value) -> Value {
    json!({
        "execution": {"type": "sequence", "steps": [{
            "id": "order", "format": "OpenAPI", "task": task(), "input_mapping": inputs, "output_mapping": outputs,
        }]},
    })
}

/// The schema of one input of a step with these.
#[track_caller]
fn check_input(inputs: &Value, name: &str, expected: &Value) {
    let mut inputs = inputs.clone();
    if inputs.get("id").is_none() {
        inputs["id"] = json!(1);
    }
    let found = interface(&step(&inputs, &json!({})));
    let field = found.inputs.iter().find(|field| field.name == name).unwrap();
    assert_eq!(field.schema, *expected);
}

#[test]
fn an_input_is_what_the_place_takes_where_it_ends_up() {
    check_input(
        &json!({"id": "${which}"}),
        "which",
        &json!({"type": "integer", "exclusiveMinimum": 0, "examples": [3], "description": "Which one"}),
    );
    check_input(
        &json!({"unit": "${unit}"}),
        "unit",
        &json!({"type": "string", "enum": ["kg", "lb"]}),
    );
    check_input(
        &json!({"body": {"note": "${text}", "token": "t", "lines": []}}),
        "text",
        &json!({"type": ["string", "null"]}),
    );
    check_input(
        &json!({"body": {"lines": ["${line}"], "token": "t"}}),
        "line",
        &json!({"type": "object", "properties": {"sku": {"type": "string"}}}),
    );
    // In a text, everything has a place.
    check_input(&json!({"unit": "a ${unit}"}), "unit", &json!({}));
    // Several uses: what they agree on.
    check_input(&json!({"unit": "${one}", "size": "${one}"}), "one", &json!({"type": "string"}));
    check_input(&json!({"unit": "${one}", "id": "${one}"}), "one", &json!({}));
}

#[test]
fn a_body_shows_what_is_sent_and_an_answer_what_comes_back() {
    let found = interface(&step(
        &json!({"id": 1, "body": "${order}"}),
        &json!({"order_made": "$", "lines": "$.lines"}),
    ));
    let order = &found.inputs[0].schema;
    assert_eq!(order["required"], json!(["lines", "token"]), "{order}");
    assert_eq!(order["properties"]["number"], Value::Null);
    assert_eq!(order["properties"]["token"]["type"], "string");
    // Around in circles by a definition.
    let parent = &order["properties"]["parent"]["anyOf"];
    assert_eq!(parent[1], json!({"type": "null"}));
    assert_eq!(parent[0]["allOf"][0], json!({"$ref": "#/$defs/Order"}));
    let again = &order["$defs"]["Order"];
    assert_eq!(again["properties"]["note"], json!({"type": ["string", "null"]}));
    assert_eq!(again["required"], order["required"]);
    assert!(order.to_string().len() < 2_000);
    assert!(
        !order.to_string().contains("discriminator") && !order.to_string().contains("x-internal")
    );
    let (lines, made) = (&found.outputs[0], &found.outputs[1]);
    assert_eq!((&*lines.name, &*made.name), ("lines", "order_made"));
    assert_eq!(lines.schema["items"]["properties"]["sku"], json!({"type": "string"}));
    assert_eq!(made.schema["required"], json!(["lines", "number"]));
    assert_eq!(made.schema["properties"]["token"], Value::Null);
}

#[test]
fn what_is_declared_counts() {
    let mut document = step(
        &json!({"id": "${id}", "unit": "${unit}", "size": "${size}", "body": "${key}"}),
        &json!({}),
    );
    document["parameters"] = json!([
        {"name": "id", "type": "number", "description": "A number"},
        {"name": "unit", "default": "kg"},
        {"name": "size", "enum": ["S"], "required": false},
        {"name": "key", "secret": true, "type": "object"},
    ]);
    document["permissions"] = json!(["orders.write"]);
    let found = interface(&document);
    let schemas: Vec<_> = found.inputs.iter().map(|field| field.schema.clone()).collect();
    assert_eq!(
        schemas[..3],
        [
            json!({"type": "integer", "exclusiveMinimum": 0, "examples": [3], "description": "A number"}),
            json!({"type": "string", "enum": ["kg", "lb"], "default": "kg"}),
            json!({"enum": ["S"]}),
        ]
    );
    // The members of an object are shown, as in a body that nobody declares.
    let key = &schemas[3];
    assert_eq!((&key["type"], &key["writeOnly"]), (&json!("object"), &json!(true)));
    assert_eq!(key["required"], json!(["lines", "token"]));
    assert_eq!(key["properties"]["token"]["type"], "string");
    let required: Vec<_> = found.inputs.iter().map(|field| field.required).collect();
    assert_eq!(required, [true, false, false, true]);
    assert_eq!(found.inputs[1].default, Some(json!("kg")));
    assert!(found.inputs[3].secret);
    assert_eq!(found.permissions[0].to_string(), "orders.write");
    assert_eq!((found.complexity, found.read_only), (Complexity::Low, false));
}

#[test]
fn a_loop_takes_a_list_of_what_its_steps_take() {
    let mut document = step(&json!({"id": "${number}"}), &json!({"made": {"from": "status"}}));
    document["execution"]["steps"][0]["for_each"] = json!({"in": "${numbers}", "as": "number"});
    let found = interface(&document);
    assert_eq!(found.inputs.len(), 1);
    assert_eq!(found.inputs[0].name, "numbers");
    assert_eq!(found.inputs[0].schema["type"], "array");
    assert_eq!(found.inputs[0].schema["items"]["type"], "integer");
    assert_eq!(found.outputs[0].schema, json!({"type": "array", "items": {"type": "integer"}}));
}

#[test]
fn graphql_inputs_and_outputs_are_what_the_query_says() {
    let found = interface(&json!({
        "execution": {"type": "sequence", "steps": [{
            "id": "ask", "format": "GraphQL",
            "task": {"endpoint": "https://api.example", "query": "query ($a: [ID!]!, $b: Kind) { all(a: $a, b: $b) { id owner { name } } }"},
            "input_mapping": {"variables": {"a": "${ids}", "b": "${kind}"}},
            "output_mapping": {"all": "$.data.all", "id": "$.data.all[0].id"},
        }]},
        "output": {"found": "${all}", "first": {"id": "${id}"}, "text": "see ${id}"},
    }));
    assert_eq!(
        found.inputs[0].schema,
        json!({"type": "array", "items": {"type": ["string", "integer"]}})
    );
    assert_eq!(found.inputs[1].schema, json!({}));
    let outputs: Vec<_> =
        found.outputs.iter().map(|output| (&*output.name, &output.schema)).collect();
    assert_eq!(
        outputs,
        [
            (
                "first",
                &json!({
                    "type": "object", "properties": {"id": {}}, "required": ["id"], "additionalProperties": false,
                })
            ),
            ("found", &json!({"properties": {"id": {}, "owner": {"properties": {"name": {}}}}})),
            ("text", &json!({"type": "string"})),
        ]
    );
}

#[test]
fn the_whole_is_one_json_schema() {
    let mut document = step(&json!({"id": "${id}"}), &json!({"note": "$.note"}));
    document["parameters"] = json!([{"name": "id", "description": "Its number"}]);
    let found = interface(&document);
    let about = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Order", "description": "Makes an order", "type": "object", "additionalProperties": false,
    });
    let with = |properties: Value, required: Value| {
        let mut schema = about.clone();
        schema["properties"] = properties;
        schema["required"] = required;
        schema
    };
    let id = json!({"type": "integer", "exclusiveMinimum": 0, "examples": [3], "description": "Its number"});
    assert_eq!(
        found.to_json_schema("Order", "Makes an order"),
        json!({
            "input": with(json!({"id": id}), json!(["id"])),
            "output": with(json!({"note": {"type": ["string", "null"]}}), json!([])),
        })
    );
    // Others may want more than what is listed here.
    let open = CapabilityInterface { uses_others: true, ..found };
    assert_eq!(open.to_json_schema("Order", "")["input"]["additionalProperties"], json!(true));
}

/// The schema of the declared input `it` of `POST /` with this specification of its body.
#[track_caller]
fn check_body(version: &str, content: &Value, mapping: &Value, kind: &str, expected: &Value) {
    let found = interface(&json!({
        "parameters": [{"name": "it", "type": kind}],
        "execution": {"type": "sequence", "steps": [{
            "id": "send", "format": "OpenAPI", "input_mapping": {"body": mapping},
            "task": {
                "openapi": version, "info": {"title": "T", "version": "1"},
                "servers": [{"url": "https://api.example"}],
                "paths": {"/": {"post": {
                    "requestBody": {"required": true, "content": content},
                    "responses": {"200": {"description": ""}},
                }}},
            },
        }]},
    }));
    assert_eq!(found.inputs[0].schema, *expected);
}

#[test]
fn nullable_takes_nothing_from_what_is_known() {
    let schema = json!({"type": "object", "properties": {
        "it": {"type": "string", "nullable": true, "format": "date", "enum": ["2026-01-01"]},
    }});
    let content = json!({"application/json": {"schema": schema}});
    let expected = json!({"type": "string", "format": "date", "enum": ["2026-01-01"]});
    check_body("3.0.3", &content, &json!({"it": "${it}"}), "string", &expected);
}

#[test]
fn values_that_mean_those_of_the_type_are_shown_in_the_type() {
    let many: Vec<String> = (0..300).map(|n| format!("kind{n}")).collect();
    let schema = json!({"type": "object", "properties": {
        "it": {"type": "integer", "enum": ["6", "12", null]},
        "many": {"type": "string", "enum": many},
    }});
    let content = json!({"application/json": {"schema": schema}});
    let expected = json!({"type": "integer", "enum": [6, 12]});
    check_body("3.0.3", &content, &json!({"it": "${it}"}), "integer", &expected);
    let expected = json!({"type": "string", "enum": many});
    check_body("3.0.3", &content, &json!({"many": "${it}"}), "string", &expected);
}

#[test]
fn fields_of_forms_and_files_are_shown() {
    let schema = json!({"type": "object", "required": ["method", "tags"], "properties": {
        "method": {"type": "string", "nullable": true, "enum": ["GET", "POST"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "file": {"type": "string", "format": "binary"},
    }});
    let form = json!({"application/x-www-form-urlencoded": {"schema": schema}});
    let expected = json!({"type": "string", "enum": ["GET", "POST"]});
    check_body("3.0.3", &form, &json!({"method": "${it}", "tags": ["a"]}), "string", &expected);
    // A list without items is not sent.
    let expected = json!({"type": "array", "items": {"type": "string"}, "minItems": 1});
    check_body("3.0.3", &form, &json!({"method": "GET", "tags": "${it}"}), "array", &expected);
    let parts = json!({"multipart/form-data": {"schema": schema}});
    let whole = json!({
        "type": "object", "required": ["method", "tags"],
        "properties": {
            "method": {"type": "string", "enum": ["GET", "POST"]},
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "file": {"anyOf": [{"type": "string", "format": "binary"}, {
                "type": "object", "required": ["base64"],
                "properties": {
                    "base64": {
                        "type": "string", "contentEncoding": "base64",
                        "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
                    },
                    "filename": {"type": "string"},
                },
            }]},
        },
    });
    check_body("3.0.3", &parts, &json!("${it}"), "object", &whole);
}

#[test]
fn what_only_the_service_sets_is_not_asked_for_in_another_part() {
    let schema = json!({"allOf": [
        {"required": ["id", "name"]},
        {"type": "object", "additionalProperties": false, "properties": {
            "id": {"type": "string", "readOnly": true}, "name": {"type": "string"},
        }},
        {"properties": {"note": {"type": "string"}}},
    ]});
    let content = json!({"application/json": {"schema": schema}});
    let found = |expected: &Value| {
        check_body("3.1.0", &content, &json!("${it}"), "object", expected);
    };
    // The second part would forbid the note of the third.
    found(&json!({"type": "object", "allOf": [
        {"required": ["name"]},
        {"type": "object", "properties": {"name": {"type": "string"}}},
        {"properties": {"note": {"type": "string"}}},
    ]}));
}

#[test]
fn several_uses_hold_together() {
    check_input(
        &json!({"unit": "${one}", "body": {"note": "${one}", "token": "t", "lines": []}}),
        "one",
        &json!({"type": "string", "enum": ["kg", "lb"]}),
    );
}

#[test]
fn a_schema_of_graphql_shows_inputs_and_outputs() {
    let found = interface(&json!({
        "parameters": [{"name": "filter", "type": "object"}],
        "execution": {"type": "sequence", "steps": [{
            "id": "ask", "format": "GraphQL",
            "task": {
                "endpoint": "https://api.example",
                "query": "query ($f: Filter!) { all(filter: $f) { id color owner { name } } }",
                "schema": "enum Color { RED GREEN } type Person { name: String } \
                           type Thing { id: ID! color: Color! owner: Person } \
                           input Filter { \"Words in it\" words: [String!], color: Color = RED, and: [Filter!] } \
                           type Query { all(filter: Filter!): [Thing!]! }",
            },
            "input_mapping": {"variables": {"f": "${filter}"}},
            "output_mapping": {"all": "$.data.all", "first": "$.data.all[0].color"},
        }]},
    }));
    let filter = &found.inputs[0].schema;
    assert_eq!(filter["additionalProperties"], json!(false));
    let words = json!({"type": ["array", "null"], "items": {"type": "string"}});
    let mut shown = filter["properties"]["words"].clone();
    assert_eq!(
        shown.as_object_mut().unwrap().shift_remove("description"),
        Some(json!("Words in it"))
    );
    assert!(shown == words || shown["anyOf"][0]["items"] == json!({"type": "string"}), "{shown}");
    assert_eq!(filter["properties"]["color"]["enum"], json!(["RED", "GREEN", null]));
    assert!(filter["properties"]["and"].to_string().contains("#/$defs/Filter"), "{filter}");
    assert_eq!(
        found.outputs[0].schema,
        json!({"type": "array", "items": {
            "type": "object", "required": ["id", "color", "owner"],
            "properties": {
                "id": {"type": "string"},
                "color": {"type": "string", "enum": ["RED", "GREEN"]},
                "owner": {
                    "type": ["object", "null"], "required": ["name"],
                    "properties": {"name": {"type": ["string", "null"]}},
                },
            },
        }})
    );
    assert_eq!(found.outputs[1].schema, json!({"type": "string", "enum": ["RED", "GREEN"]}));
    // The definitions of all inputs stand at the top of the whole.
    let whole = found.to_json_schema("Test", "")["input"].clone();
    assert_eq!(whole["properties"]["filter"]["$defs"], Value::Null);
    assert!(whole["$defs"]["Filter"].is_object());
}
