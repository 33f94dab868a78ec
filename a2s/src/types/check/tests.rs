use serde_json::{Value, json};

use crate::compile;

/// A document of 1.1 with these members; declares no more than it must.
fn document(members: &Value) -> Vec<String> {
    let mut document = json!({
        "a2s": "1.1.0",
        "name": "Test",
        "description": "A test",
        "domains": ["api.example"],
        "version": "1.0.0",
        "checksum": "<checksum>",
        "authors": [{"name": "A"}],
    });
    for (key, member) in members.as_object().unwrap() {
        document[key] = member.clone();
    }
    let compilation = compile(document.to_string().as_bytes());
    let told = compilation.diagnostics.into_iter().filter(|found| {
        !["A2S030", "A2S045", "A2S049", "A2S048"].contains(&&*found.code) || found.is_error()
    });
    told.map(|found| {
        let severity = if found.is_error() { "error" } else { "warning" };
        format!("{severity} {}: {} ({})", found.code, found.message, found.path)
    })
    .collect()
}

/// A document with one step after another.
fn steps(parameters: &Value, steps: &[Value]) -> Vec<String> {
    document(&json!({
        "parameters": parameters,
        "execution": {"type": "sequence", "steps": steps},
    }))
}

/// `GET /` with a query parameter `x`, and an answer of this schema.
fn get(parameter: &Value, answer: &Value) -> Value {
    json!({
        "openapi": "3.0.3",
        "info": {"title": "Test", "version": "1"},
        "servers": [{"url": "https://api.example"}],
        "paths": {"/": {"get": {
            "parameters": [{"name": "x", "in": "query", "schema": parameter}],
            "responses": {"200": {
                "description": "An answer",
                "content": {"application/json": {"schema": answer}},
            }},
        }}},
        "components": {"schemas": {
            "Node": {"type": "object", "required": ["id"], "properties": {
                "id": {"type": "integer"},
                "next": {"$ref": "#/components/schemas/Node"},
                "more": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}},
            }},
            "Loop": {"$ref": "#/components/schemas/Loop"},
            "Pet": {
                "type": "object",
                "discriminator": {"propertyName": "kind"},
                "properties": {"kind": {"type": "string"}},
            },
            "Cat": {"allOf": [
                {"$ref": "#/components/schemas/Pet"},
                {"type": "object", "properties": {"lives": {"type": "integer"}}},
            ]},
        }},
    })
}

/// `POST /` with a body of this schema.
fn post(body: &Value) -> Value {
    let mut task = get(&json!({}), &json!({}));
    let operation = json!({
        "requestBody": {"required": true, "content": {"application/json": {"schema": body}}},
        "responses": {"200": {"description": "Done"}},
    });
    task["paths"]["/"] = json!({"post": operation});
    task
}

/// What a query over an answer of this schema is told, without the place.
fn check_query(schema: &Value, query: &str) -> Option<String> {
    let step = json!({
        "id": "ask", "format": "OpenAPI", "task": get(&json!({}), schema),
        "output_mapping": {"found": query},
    });
    let mut told = steps(&json!([]), &[step]);
    assert!(told.len() <= 1, "{told:?}");
    let told = told.pop()?;
    let told = told.strip_prefix("warning A2S058: ").unwrap_or_else(|| panic!("{told}"));
    Some(told.strip_suffix(" (execution.steps[0].output_mapping.found)").unwrap().to_owned())
}

#[track_caller]
fn check_miss(schema: &Value, query: &str, there: &str) {
    assert_eq!(check_query(schema, query), Some(format!("`{query}` finds nothing: {there}")));
}

/// What an input of the query parameter `x` with this schema is told.
fn check_parameter(schema: &Value, template: &Value) -> Vec<String> {
    let step = json!({
        "id": "ask", "format": "OpenAPI", "task": get(schema, &json!({})),
        "input_mapping": {"x": template},
    });
    let parameters = json!([
        {"name": "free"}, {"name": "text", "type": "string"}, {"name": "count", "type": "integer"},
        {"name": "size", "type": "number"}, {"name": "thing", "type": "object"},
        {"name": "list", "type": "array"}, {"name": "unit", "enum": ["metric", "imperial"]},
    ]);
    without_place(steps(&parameters, &[step]), "execution.steps[0].input_mapping.x")
}

/// What a body is told, where the operation wants this schema.
fn check_body(schema: &Value, template: &Value) -> Vec<String> {
    let step = json!({
        "id": "ask", "format": "OpenAPI", "task": post(schema), "input_mapping": {"body": template},
    });
    let parameters = json!([
        {"name": "free"}, {"name": "text", "type": "string"}, {"name": "count", "type": "integer"},
        {"name": "maybe", "type": "string", "required": false},
    ]);
    without_place(steps(&parameters, &[step]), "execution.steps[0].input_mapping.body")
}

/// What a GraphQL variable of this type is told.
fn check_variable(declared: &str, template: &Value) -> Vec<String> {
    let query = format!("query ($x: {declared}) {{ a(x: $x) }}");
    let step = json!({
        "id": "ask", "format": "GraphQL",
        "task": {"endpoint": "https://api.example", "query": query},
        "input_mapping": {"variables": {"x": template}},
    });
    let parameters = json!([
        {"name": "text", "type": "string"}, {"name": "count", "type": "integer"},
        {"name": "list", "type": "array"},
    ]);
    without_place(steps(&parameters, &[step]), "execution.steps[0].input_mapping.variables.x")
}

fn without_place(told: Vec<String>, place: &str) -> Vec<String> {
    let strip = |told: String| {
        let told = told.strip_prefix("error A2S057: ").map(str::to_owned).unwrap_or(told);
        let end = told.rfind(" (").unwrap();
        let (message, at) = told.split_at(end);
        let below = at.trim_matches([' ', '(', ')']).strip_prefix(place).map(str::to_owned);
        match below.as_deref() {
            Some("") => message.to_owned(),
            Some(below) => format!("{message} @{below}"),
            None => told,
        }
    };
    told.into_iter().map(strip).collect()
}

const NOTHING: [&str; 0] = [];

#[test]
fn a_query_leaves_a_declared_answer() {
    let weather = json!({"type": "object", "properties": {
        "current": {"type": "object", "properties": {
            "temperature": {"type": "number"}, "text": {"type": "string"},
        }},
        "days": {"type": "array", "items": {"type": "object", "properties": {"high": {"type": "number"}}}},
    }});
    for query in [
        "$",
        "$.current",
        "$.current.text",
        "$['days'][0].high",
        "$.days[*].high",
        "$.days[-1]",
        "$.days[1:3]",
        "$..temperature",
        "$.days[?@.high > 3].high",
        "$.*",
        "$.current['text', 'nothing']",
        "$.current.*",
    ] {
        assert_eq!(check_query(&weather, query), None, "{query}");
    }
    check_miss(&weather, "$.current.txt", "the response declares no `txt` at `$.current`");
    check_miss(&weather, "$.now.text", "the response declares no `now` at `$`");
    check_miss(&weather, "$.days.high", "the response declares `$.days` as a list");
    check_miss(&weather, "$[0]", "the response declares `$` as an object");
    check_miss(&weather, "$.days[*].low", "the response declares no `low` at `$.days[*]`");
    check_miss(
        &weather,
        "$.days[?@.high > 3].low",
        "the response declares no `low` at `$.days[?…]`",
    );
    check_miss(
        &weather,
        "$.current.temperature.value",
        "the response declares `$.current.temperature` as a number",
    );
}

#[test]
fn what_a_schema_leaves_open_is_no_miss() {
    let part = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let with = |key: &str, value: Value| {
        let mut schema = part.clone();
        schema[key] = value;
        schema
    };
    for open in [
        json!({}),
        json!({"type": "object"}),
        json!({"type": "object", "properties": {}}),
        json!({"description": "Anything"}),
        with("additionalProperties", json!(true)),
        with("additionalProperties", json!({})),
        with("additionalProperties", json!({"type": "string"})),
        with("unevaluatedProperties", json!({"type": "string"})),
        with("patternProperties", json!({"^x": {}})),
        with("discriminator", json!({"propertyName": "a"})),
        with("if", json!({"properties": {"a": {"const": "b"}}})),
        with("allOf", json!([{"$ref": "https://elsewhere.example/schema"}])),
        with("oneOf", json!([{"properties": {"x": {}}}, {"properties": {"y": {}}}])),
        json!({"anyOf": [part, {"type": "object"}]}),
        json!({"$ref": "#/components/schemas/Missing"}),
        json!({"allOf": [part, {"type": "object"}]}),
        json!({"$ref": "#/components/schemas/Loop"}),
        json!({"$ref": "#/components/schemas/Pet"}),
        json!({"$ref": "#/components/schemas/Node", "properties": {"x": {}}}),
        json!({"type": "array", "items": {}, "properties": {"x": {}}, "nullable": true, "oneOf": [{"type": "object"}]}),
        json!(true),
    ] {
        assert_eq!(check_query(&open, "$.x"), None, "{open}");
    }
    for known in [
        part.clone(),
        with("additionalProperties", json!(false)),
        with("oneOf", json!([{"required": ["a"]}, {"properties": {"y": {}}}])),
        with("nullable", json!(true)),
        json!({"type": ["object", "null"], "properties": {"a": {}}}),
        json!({"allOf": [part, {"description": "More words"}, {"properties": {"b": {}}}]}),
        json!({"oneOf": [part, {"type": "null"}]}),
        json!({"$ref": "#/components/schemas/Cat"}),
        json!({"properties": {"a": {}}}),
    ] {
        let told = check_query(&known, "$.x");
        assert_eq!(
            told,
            Some("`$.x` finds nothing: the response declares no `x` at `$`".to_owned()),
            "{known}"
        );
    }
}

#[test]
fn schemas_may_refer_to_themselves() {
    let node = json!({"$ref": "#/components/schemas/Node"});
    assert_eq!(check_query(&node, "$.next.next.more[0].next.id"), None);
    check_miss(
        &node,
        "$.next.next.more[0].nxt",
        "the response declares no `nxt` at `$.next.next.more[0]`",
    );
    let deep = format!("${}.id", ".next".repeat(150));
    assert_eq!(check_query(&node, &deep), None);
}

#[test]
fn answers_without_a_schema_are_not_known() {
    let check = |responses: Value| {
        let mut task = get(&json!({}), &json!({}));
        task["paths"]["/"]["get"]["responses"] = responses;
        let step = json!({
            "id": "ask", "format": "OpenAPI", "task": task, "output_mapping": {"found": "$.x"},
        });
        steps(&json!([]), &[step]).len()
    };
    let closed = json!({"schema": {"type": "object", "properties": {"a": {}}}});
    let json = |media: &Value| json!({"description": "", "content": {"application/json": media}});
    assert_eq!(check(json!({"200": json(&closed)})), 1);
    assert_eq!(check(json!({"200": json(&closed), "204": {"description": ""}})), 1);
    assert_eq!(check(json!({"2XX": json(&closed), "default": json(&json!({}))})), 1);
    assert_eq!(check(json!({"200": json(&closed), "201": {"description": ""}})), 0);
    assert_eq!(check(json!({"200": json(&json!({}))})), 0);
    assert_eq!(check(json!({"200": {"description": "", "content": {"text/csv": closed}}})), 0);
    assert_eq!(check(json!({"400": json(&closed)})), 0);
    assert_eq!(check(json!({"default": json(&closed)})), 1);
}

#[test]
fn a_query_leaves_what_graphql_selects() {
    let check = |query: &str| {
        let task = json!({
            "endpoint": "https://api.example",
            "query": "query { me { id: key ...names friends { name } ... on Bot { maker } } } \
                      fragment names on User { name nick: nickname }",
        });
        let step = json!({"id": "ask", "format": "GraphQL", "task": task, "output_mapping": {"found": query}});
        steps(&json!([]), &[step])
    };
    for query in [
        "$.data.me.id",
        "$.data.me.name.first",
        "$.data.me.nick",
        "$.data.me.maker",
        "$.data.me[0].id",
        "$.data.me.friends[*].name",
        "$.data",
        "$.errors[0].message",
        "$.extensions.cost",
        "$.data..x",
    ] {
        assert_eq!(check(query), NOTHING, "{query}");
    }
    let told = |query: &str, what: &str| {
        let message = format!("warning A2S058: `{query}` finds nothing: {what}");
        let place = "(execution.steps[0].output_mapping.found)";
        assert_eq!(check(query), [format!("{message} {place}")]);
    };
    told("$.data.me.key", "the query selects no `key` at `$.data.me`");
    told("$.data.me.nickname", "the query selects no `nickname` at `$.data.me`");
    told("$.data.me.friends[0].id", "the query selects no `id` at `$.data.me.friends[0]`");
    told("$.me.name", "the query selects no `me` at `$`");
}

#[test]
fn text_in_an_address_is_what_it_reads_as() {
    let integer = json!({"type": "integer"});
    for fits in [
        json!(5),
        json!(5.0),
        json!("5"),
        json!("-7"),
        json!("${free}"),
        json!("${text}"),
        json!("${count}"),
        json!("${size}"),
        json!("a${text}"),
        json!(null),
    ] {
        assert_eq!(check_parameter(&integer, &fits), NOTHING, "{fits}");
    }
    let told = |schema: &Value, template: Value, expected: &str| {
        assert_eq!(check_parameter(schema, &template), [expected], "{template}");
    };
    told(&integer, json!("abc"), "`queryParameters.x` takes a whole number, not the text `abc`");
    told(&integer, json!(5.5), "`queryParameters.x` takes a whole number, not `5.5`");
    told(&integer, json!(true), "`queryParameters.x` takes a whole number, not `true`");
    told(&integer, json!({"a": 1}), "`queryParameters.x` takes a whole number, not an object");
    told(
        &integer,
        json!("${thing}"),
        "`queryParameters.x` takes a whole number, and `${thing}` is an object",
    );
    let text = json!({"type": "string"});
    for fits in [json!(5), json!(true), json!("${count}"), json!([]), json!("")] {
        assert_eq!(check_parameter(&text, &fits), NOTHING, "{fits}");
    }
    told(&text, json!(["a", "b"]), "`queryParameters.x` takes a string, not a list");
    told(&text, json!("${list}"), "`queryParameters.x` takes a string, and `${list}` is a list");
    let boolean = json!({"type": "boolean"});
    assert_eq!(check_parameter(&boolean, &json!("true")), NOTHING);
    told(&boolean, json!("yes"), "`queryParameters.x` takes a boolean, not the text `yes`");
    let list = json!({"type": "array", "items": {"type": "integer"}});
    for fits in [json!([1, "2"]), json!("1,2"), json!(7), json!("${list}"), json!("${text}")] {
        assert_eq!(check_parameter(&list, &fits), NOTHING, "{fits}");
    }
    assert_eq!(
        check_parameter(&list, &json!([1, "two"])),
        ["`queryParameters.x[1]` takes a whole number, not the text `two` @[1]"]
    );
    let unit = json!({"type": "string", "enum": ["metric", "standard", 1]});
    assert_eq!(
        check_parameter(&unit, &json!("anything")),
        NOTHING,
        "the list contradicts the type"
    );
    let unit = json!({"type": "string", "enum": ["metric", "standard"]});
    for fits in [json!("metric"), json!("${unit}"), json!("${text}")] {
        assert_eq!(check_parameter(&unit, &fits), NOTHING, "{fits}");
    }
    told(
        &unit,
        json!("metrik"),
        "`queryParameters.x` takes one of `metric`, `standard`, not `metrik`",
    );
    let unit = json!({"enum": ["standard"]});
    told(
        &unit,
        json!("${unit}"),
        "`queryParameters.x` takes only `standard`, and `${unit}` is never that",
    );
    assert_eq!(check_parameter(&json!({"enum": [1, 2]}), &json!("2")), NOTHING);
}

#[test]
fn a_body_fits_its_schema_in_every_part() {
    let order = json!({
        "type": "object",
        "required": ["item", "id"],
        "properties": {
            "id": {"type": "string", "readOnly": true},
            "item": {"type": "string"},
            "count": {"type": "integer"},
            "note": {"type": "string", "nullable": true},
            "size": {"type": "string", "enum": ["S", "M"]},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
    });
    for fits in [
        json!({"item": "hat"}),
        json!({"item": "${text}", "count": "${count}", "note": null, "tags": ["a", "${free}"]}),
        json!({"item": "${free}", "size": "${text}", "other": 1, "note": "${maybe}"}),
        json!("${free}"),
    ] {
        assert_eq!(check_body(&order, &fits), NOTHING, "{fits}");
    }
    let told = |template: Value, expected: &[&str]| {
        assert_eq!(check_body(&order, &template), expected, "{template}");
    };
    told(json!({"count": 1}), &["`body` needs the member `item`, which is not there"]);
    let pair = json!({"type": "object", "required": ["a", "b"]});
    assert_eq!(
        check_body(&pair, &json!({})),
        ["a", "b"].map(|name| format!("`body` needs the member `{name}`, which is not there"))
    );
    told(json!("${text}"), &["`body` takes an object, and `${text}` is a string"]);
    told(json!(null), &["`body` takes an object, not `null`"]);
    told(
        json!({"item": 5, "count": "5", "size": "L", "tags": ["a", 5], "note": "in ${count}"}),
        &[
            "`body.item` takes a string, not `5` @.item",
            "`body.count` takes a whole number, not the text `5` @.count",
            "`body.size` takes one of `S`, `M`, not `L` @.size",
            "`body.tags[1]` takes a string, not `5` @.tags[1]",
        ],
    );
    told(
        json!({"item": "${count}"}),
        &["`body.item` takes a string, and `${count}` is a whole number @.item"],
    );
    told(
        json!({"item": "${maybe}"}),
        &["error A2S048: `body.item` is required, and `maybe` is optional @.item"],
    );
    let closed =
        json!({"type": "object", "properties": {"name": {}}, "additionalProperties": false});
    assert_eq!(check_body(&closed, &json!({"nam": 1})), ["`body` takes no member `nam` @.nam"]);
    let list = json!({"type": "array", "items": {"$ref": "#/components/schemas/Node"}});
    assert_eq!(check_body(&list, &json!([{"id": 1, "next": {"id": 2}}])), NOTHING);
    assert_eq!(
        check_body(&list, &json!([{"id": 1, "next": {"id": "2"}}])),
        ["`body[0].next.id` takes a whole number, not the text `2` @[0].next.id"]
    );
}

#[test]
fn a_body_fits_one_of_several_forms() {
    let schema = json!({"oneOf": [
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}},
        {"type": "object", "required": ["b", "c"], "properties": {"b": {"type": "integer"}}},
        {"type": "string"},
    ]});
    for fits in [json!({"a": 1}), json!({"b": 1, "c": 1}), json!("x"), json!("${free}")] {
        assert_eq!(check_body(&schema, &fits), NOTHING, "{fits}");
    }
    assert_eq!(check_body(&schema, &json!(5)), ["`body` takes an object or a string, not `5`"]);
    // The closest form is meant.
    assert_eq!(
        check_body(&schema, &json!({})),
        ["`body` needs the member `a`, which is not there"]
    );
    let even = json!({"anyOf": [
        {"type": "object", "required": ["a"]}, {"type": "object", "required": ["b"]},
    ]});
    assert_eq!(
        check_body(&even, &json!({})),
        ["`body` fits none of the 2 forms that the specification allows"]
    );
}

#[test]
fn graphql_variables_have_types() {
    for (declared, fits) in [
        ("Int!", json!(5)),
        ("Int", json!(null)),
        ("Float", json!(5)),
        ("ID!", json!(5)),
        ("ID!", json!("a")),
        ("[Int!]!", json!([1, "${count}"])),
        ("[Int!]", json!(1)),
        ("[String]", json!([null])),
        ("Color!", json!("RED")),
        ("Filter", json!({"a": 1})),
        ("String!", json!("n: ${count}")),
        ("[ID!]!", json!("${list}")),
        ("Boolean", json!(true)),
    ] {
        assert_eq!(check_variable(declared, &fits), NOTHING, "{declared} {fits}");
    }
    for (declared, template, expected) in [
        ("Int!", json!("5"), "`variables.x` takes a whole number, not the text `5`"),
        ("Int", json!(1.5), "`variables.x` takes a whole number, not `1.5`"),
        (
            "String!",
            json!("${count}"),
            "`variables.x` takes a string, and `${count}` is a whole number",
        ),
        ("String!", json!(null), "`variables.x` takes a string, not `null`"),
        (
            "Color!",
            json!(null),
            "`variables.x` takes an object, a list, a string, a number or a boolean, not `null`",
        ),
        ("[Int!]", json!(["a"]), "`variables.x[0]` takes a whole number, not the text `a` @[0]"),
        ("[Int!]!", json!([null]), "`variables.x[0]` takes a whole number, not `null` @[0]"),
        ("String", json!("${list}"), "`variables.x` takes a string, and `${list}` is a list"),
        ("Boolean!", json!("true"), "`variables.x` takes a boolean, not the text `true`"),
    ] {
        assert_eq!(check_variable(declared, &template), [expected], "{declared} {template}");
    }
}

/// A step that gives an `order`, and others behind it.
fn after_order(others: &[Value]) -> Vec<String> {
    let order = json!({"type": "object", "properties": {
        "id": {"type": "integer"},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
        "buyer": {"type": "object", "nullable": true, "properties": {"name": {"type": "string"}}},
    }});
    let first = json!({
        "id": "order", "format": "OpenAPI", "task": get(&json!({}), &order),
        "output_mapping": {
            "order": "$", "id": "$.id", "lines": "$.lines", "skus": "$.lines[*].sku",
            "buyer": {"path": "$.buyer", "optional": true},
            "status": {"from": "status"}, "etag": {"from": "header", "path": "ETag"},
        },
    });
    let mut all = vec![first];
    all.extend_from_slice(others);
    steps(&json!([]), &all)
}

fn ask(id: &str, parameter: &Value, template: &Value) -> Value {
    json!({
        "id": id, "format": "OpenAPI", "task": get(parameter, &json!({})),
        "input_mapping": {"x": template},
    })
}

#[test]
fn what_steps_give_has_types() {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer"});
    let list = json!({"type": "array", "items": {"type": "string"}});
    for (parameter, template) in [
        (&number, "${id}"),
        (&text, "${id}"),
        (&number, "${order.id}"),
        (&list, "${skus}"),
        (&text, "${lines[0].sku}"),
        (&number, "${status}"),
        (&text, "${etag}"),
        (&text, "${buyer.name}"),
        (&text, "${order}!"),
    ] {
        let told = after_order(&[ask("next", parameter, &json!(template))]);
        assert_eq!(told, NOTHING, "{template}");
    }
    for (parameter, template, expected) in [
        (
            &number,
            "${order}",
            "error A2S057: `queryParameters.x` takes a whole number, and `${order}` is an object",
        ),
        (
            &text,
            "${lines}",
            "error A2S057: `queryParameters.x` takes a string, and `${lines}` is a list",
        ),
        // It may be null, and is not sent then.
        (
            &text,
            "${buyer}",
            "warning A2S057: `queryParameters.x` takes a string, and `${buyer}` is an object",
        ),
        (
            &json!({"type": "boolean"}),
            "${status}",
            "error A2S057: `queryParameters.x` takes a boolean, and `${status}` is a whole number",
        ),
        // Services do not always keep to what they say.
        (
            &json!({"type": "boolean"}),
            "${id}",
            "warning A2S057: `queryParameters.x` takes a boolean, and `${id}` is a whole number",
        ),
        (
            &text,
            "${id.value}",
            "warning A2S058: `${id.value}` finds nothing: `id` is a whole number and has no members",
        ),
        (
            &text,
            "${order.idd}",
            "warning A2S058: `${order.idd}` finds nothing: `order` has no `idd`",
        ),
        (
            &text,
            "${status.code}",
            "error A2S012: `${status.code}` finds nothing: `status` is a whole number and has no members",
        ),
        (
            &text,
            "${lines.sku}",
            "warning A2S058: `${lines.sku}` finds nothing: `lines` is a list and has no members",
        ),
        (
            &text,
            "${etag[0]}",
            "error A2S012: `${etag[0]}` finds nothing: `etag` is a string and has no items",
        ),
    ] {
        let told = after_order(&[ask("next", parameter, &json!(template))]);
        assert_eq!(
            told,
            [format!("{expected} (execution.steps[1].input_mapping.x)")],
            "{template}"
        );
    }
}

#[test]
fn a_loop_gives_items_inside_and_lists_outside() {
    let number = json!({"type": "integer"});
    let list = json!({"type": "array", "items": {"type": "string"}});
    let mut looped = ask("each", &number, &json!("${item.sku}"));
    looped["for_each"] = json!("${lines}");
    looped["output_mapping"] = json!({"got": {"from": "status"}});
    assert_eq!(after_order(&[looped.clone(), ask("next", &list, &json!("${got}"))]), NOTHING);
    let place = "(execution.steps[2].input_mapping.x)";
    assert_eq!(
        after_order(&[looped.clone(), ask("next", &number, &json!("${got}"))]),
        [format!(
            "error A2S057: `queryParameters.x` takes a whole number, and `${{got}}` is a list {place}"
        )]
    );
    let inner = ask("inner", &json!({"type": "boolean"}), &json!("${got}"));
    let block = json!({
        "id": "block", "type": "sequence", "for_each": "${lines}",
        "steps": [
            {"id": "set", "format": "OpenAPI", "task": get(&json!({}), &json!({})), "output_mapping": {"got": {"from": "status"}}},
            inner,
        ],
    });
    let told = after_order(&[block]);
    assert!(told[0].contains("and `${got}` is a whole number"), "{told:?}");
    looped["input_mapping"]["x"] = json!("${item.price}");
    let told = after_order(&[looped.clone()]);
    assert!(
        told[0].starts_with("warning A2S058: `${item.price}` finds nothing: `item` has no `price`"),
        "{told:?}"
    );
    for (items, what) in [("${id}", "a whole number"), ("${order}", "an object")] {
        looped["for_each"] = json!(items);
        looped["input_mapping"]["x"] = json!(1);
        let message = format!("error A2S012: `{items}` is {what}, and a step runs over a list");
        assert_eq!(
            after_order(&[looped.clone()]),
            [format!("{message} (execution.steps[1].for_each)")]
        );
    }
}

#[test]
fn the_error_of_a_catch_has_four_members() {
    let step = |template: &str| {
        let mut step = ask("next", &json!({}), &json!(1));
        step["catch"] = json!({"as": "why", "steps": [ask("tell", &json!({"type": "string"}), &json!(template))]});
        after_order(&[step])
    };
    assert_eq!(step("${why.message}"), NOTHING);
    assert_eq!(step("${why.status}"), NOTHING);
    let told = step("${why.text}");
    assert!(
        told[0].starts_with("error A2S012: `${why.text}` finds nothing: `why` has no `text`"),
        "{told:?}"
    );
    assert!(step("${why}")[0].contains("`${why}` is an object"));
}

#[test]
fn shared_variables_are_what_they_are_declared_to_be() {
    let check = |shared: Value, output: Value, read: &str| {
        let set = json!({
            "id": "set", "format": "OpenAPI",
            "task": get(&json!({}), &json!({"type": "object", "properties": {"n": {"type": "integer"}, "any": {}}})),
            "output_mapping": output,
        });
        document(&json!({
            "execution": {
                "type": "sequence", "variables": {"shared": shared},
                "steps": [set, ask("next", &json!({"type": "integer"}), &json!(read))],
            },
        }))
    };
    assert_eq!(check(json!({"n": "number"}), json!({"n": "$.n"}), "${n}"), NOTHING);
    assert_eq!(check(json!({"n": "string"}), json!({"n": "$.any"}), "${n}"), NOTHING);
    assert_eq!(check(json!({"o": "object"}), json!({"o.n": "$.n"}), "${o.n}"), NOTHING);
    assert_eq!(
        check(json!({"n": "string"}), json!({"n": "$.n"}), "${n}"),
        ["warning A2S012: `n` is declared as a string, and this is a whole number \
          (execution.steps[0].output_mapping.n)"]
    );
    assert_eq!(
        check(json!({"n": "string"}), json!({"n.a": "$.n"}), "${n.a}"),
        ["warning A2S012: `n` is declared as a string, and this makes it an object \
          (execution.steps[0].output_mapping[\"n.a\"])"]
    );
    let told = check(json!({"o": "object"}), json!({"o.n": "$.n"}), "${o.m}");
    assert_eq!(
        told,
        [
            "error A2S012: `${o.m}` finds nothing: `o` has no `m` (execution.steps[1].input_mapping.x)"
        ]
    );
    // Declared, and set by nobody: an input of that type.
    assert!(
        check(json!({"o": "object"}), json!({"n": "$.n"}), "${o}")[0]
            .contains("`${o}` is an object")
    );
}

#[test]
fn a_mistake_that_was_told_is_not_told_again() {
    let told = after_order(&[ask("next", &json!({"type": "integer"}), &json!("${order"))]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("error A2S040"));
    let mut own = ask("next", &json!({"type": "boolean"}), &json!("${code}"));
    own["output_mapping"] = json!({"code": {"from": "status"}});
    let told = after_order(&[own]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("error A2S043"), "{told:?}");
}

#[test]
fn the_places_that_belong_together_are_shown() {
    let source = json!({
        "a2s": "1.1.0", "name": "Test", "description": "A test", "domains": ["api.example"], "version": "1.0.0",
        "checksum": "<checksum>", "authors": [{"name": "A"}],
        "parameters": [{"name": "thing", "type": "object"}],
        "execution": {"type": "sequence", "steps": [ask("one", &json!({"type": "integer"}), &json!("${thing}"))]},
    });
    let text = serde_json::to_string_pretty(&source).unwrap();
    let found = compile(text.as_bytes()).diagnostics;
    let found = found.iter().find(|found| found.code == "A2S057").unwrap();
    let line = |line: usize| text.lines().nth(line - 1).unwrap().trim().to_owned();
    assert_eq!(line(found.position.line), "\"x\": \"${thing}\"");
    assert_eq!(found.related[0].message, "`thing` is declared here");
    assert_eq!(line(found.related[0].position.line + 1), "\"name\": \"thing\",");
    assert_eq!(found.hint.as_deref(), Some("Map one of its members, such as `${thing.id}`."));
}

#[test]
fn conditions_and_results_read_what_is_there() {
    let branch = json!({
        "id": "choose", "type": "condition", "condition": "${order.idd} > 3",
        "if_true": {"steps": [ask("next", &json!({}), &json!(1))]},
    });
    assert_eq!(
        after_order(&[branch]),
        [
            "warning A2S058: `${order.idd}` finds nothing: `order` has no `idd` (execution.steps[1].condition)"
        ]
    );
    let told = document(&json!({
        "parameters": [{"name": "city", "type": "string"}],
        "execution": {"type": "sequence", "steps": [ask("one", &json!({}), &json!("${city}"))]},
        "output": {"about": ["in ${city.name}"]},
    }));
    assert_eq!(
        told,
        [
            "error A2S012: `${city.name}` finds nothing: `city` is a string and has no members (output.about[0])"
        ]
    );
}

#[test]
fn a_form_is_an_object_of_texts() {
    let mut task = post(&json!({}));
    let schema = json!({"type": "object", "required": ["n"], "properties": {
        "n": {"type": "integer"}, "file": {"type": "string", "format": "binary"},
    }});
    let check = |task: &mut Value, media_type: &str, template: Value| {
        task["paths"]["/"]["post"]["requestBody"]["content"] =
            json!({media_type: {"schema": schema}});
        let step = json!({"id": "ask", "format": "OpenAPI", "task": task, "input_mapping": {"body": template}});
        steps(&json!([]), &[step])
    };
    for media_type in ["application/x-www-form-urlencoded", "multipart/form-data"] {
        for fits in [json!({"n": "5"}), json!({"n": 5, "file": {"text": "a"}}), json!("${any}")] {
            assert_eq!(check(&mut task, media_type, fits), NOTHING);
        }
        let told = check(&mut task, media_type, json!({"n": "five"}));
        assert!(told[0].contains("`body.n` takes a whole number, not the text `five`"), "{told:?}");
        let told = check(&mut task, media_type, json!({"file": "a"}));
        assert!(told[0].contains("`body` needs the member `n`"), "{told:?}");
        let told = check(&mut task, media_type, json!("n=5"));
        assert!(told[0].contains("`body` takes an object, not the text `n=5`"), "{told:?}");
    }
}
