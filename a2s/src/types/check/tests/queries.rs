use serde_json::{Value, json};

use super::{NOTHING, get, steps};

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
        json!({"anyOf": [{"type": "null"}, part]}),
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
