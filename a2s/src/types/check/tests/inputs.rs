use serde_json::{Value, json};

use super::{NOTHING, get, post, steps, with_header};

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
    told(&integer, json!("abc"), "`queryParameters.x` accepts a whole number, not the text `abc`");
    told(&integer, json!(5.5), "`queryParameters.x` accepts a whole number, not `5.5`");
    told(&integer, json!(true), "`queryParameters.x` accepts a whole number, not `true`");
    told(&integer, json!({"a": 1}), "`queryParameters.x` accepts a whole number, not an object");
    told(
        &integer,
        json!("${thing}"),
        "`queryParameters.x` accepts a whole number, but `${thing}` is an object",
    );
    let text = json!({"type": "string"});
    for fits in [json!(5), json!(true), json!("${count}"), json!([]), json!("")] {
        assert_eq!(check_parameter(&text, &fits), NOTHING, "{fits}");
    }
    told(&text, json!(["a", "b"]), "`queryParameters.x` accepts a string, not a list");
    told(&text, json!("${list}"), "`queryParameters.x` accepts a string, but `${list}` is a list");
    let boolean = json!({"type": "boolean"});
    assert_eq!(check_parameter(&boolean, &json!("true")), NOTHING);
    told(&boolean, json!("yes"), "`queryParameters.x` accepts a boolean, not the text `yes`");
    let list = json!({"type": "array", "items": {"type": "integer"}});
    for fits in [json!([1, "2"]), json!("1,2"), json!(7), json!("${list}"), json!("${text}")] {
        assert_eq!(check_parameter(&list, &fits), NOTHING, "{fits}");
    }
    assert_eq!(
        check_parameter(&list, &json!([1, "two"])),
        ["`queryParameters.x[1]` accepts a whole number, not the text `two` @[1]"]
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
        "`queryParameters.x` accepts one of `metric`, `standard`, not `metrik`",
    );
    let unit = json!({"enum": ["standard"]});
    told(
        &unit,
        json!("${unit}"),
        "`queryParameters.x` accepts only `standard`, but `${unit}` never has such a value",
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
    told(json!({"count": 1}), &["`body` requires the member `item`, which is missing"]);
    let pair = json!({"type": "object", "required": ["a", "b"]});
    assert_eq!(
        check_body(&pair, &json!({})),
        ["a", "b"].map(|name| format!("`body` requires the member `{name}`, which is missing"))
    );
    told(json!("${text}"), &["`body` accepts an object, but `${text}` is a string"]);
    told(json!(null), &["`body` accepts an object, not `null`"]);
    told(
        json!({"item": 5, "count": "5", "size": "L", "tags": ["a", 5], "note": "in ${count}"}),
        &[
            "`body.item` accepts a string, not `5` @.item",
            "`body.count` accepts a whole number, not the text `5` @.count",
            "`body.size` accepts one of `S`, `M`, not `L` @.size",
            "`body.tags[1]` accepts a string, not `5` @.tags[1]",
        ],
    );
    told(
        json!({"item": "${count}"}),
        &["`body.item` accepts a string, but `${count}` is a whole number @.item"],
    );
    told(
        json!({"item": "${maybe}"}),
        &["error A2S048: `body.item` requires a value, but `maybe` is optional @.item"],
    );
    let closed =
        json!({"type": "object", "properties": {"name": {}}, "additionalProperties": false});
    assert_eq!(
        check_body(&closed, &json!({"nam": 1})),
        ["`body` does not accept a member `nam` @.nam"]
    );
    let list = json!({"type": "array", "items": {"$ref": "#/components/schemas/Node"}});
    assert_eq!(check_body(&list, &json!([{"id": 1, "next": {"id": 2}}])), NOTHING);
    assert_eq!(
        check_body(&list, &json!([{"id": 1, "next": {"id": "2"}}])),
        ["`body[0].next.id` accepts a whole number, not the text `2` @[0].next.id"]
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
    assert_eq!(check_body(&schema, &json!(5)), ["`body` accepts an object or a string, not `5`"]);
    // The closest form is meant.
    assert_eq!(
        check_body(&schema, &json!({})),
        ["`body` requires the member `a`, which is missing"]
    );
    let even = json!({"anyOf": [
        {"type": "object", "required": ["a"]}, {"type": "object", "required": ["b"]},
    ]});
    assert_eq!(
        check_body(&even, &json!({})),
        ["`body` does not match any of the 2 forms that the specification allows"]
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
        ("Int!", json!("5"), "`variables.x` accepts a whole number, not the text `5`"),
        ("Int", json!(1.5), "`variables.x` accepts a whole number, not `1.5`"),
        (
            "String!",
            json!("${count}"),
            "`variables.x` accepts a string, but `${count}` is a whole number",
        ),
        ("String!", json!(null), "`variables.x` accepts a string, not `null`"),
        (
            "Color!",
            json!(null),
            "`variables.x` accepts an object, a list, a string, a number or a boolean, not `null`",
        ),
        ("[Int!]", json!(["a"]), "`variables.x[0]` accepts a whole number, not the text `a` @[0]"),
        ("[Int!]!", json!([null]), "`variables.x[0]` accepts a whole number, not `null` @[0]"),
        ("String", json!("${list}"), "`variables.x` accepts a string, but `${list}` is a list"),
        ("Boolean!", json!("true"), "`variables.x` accepts a boolean, not the text `true`"),
    ] {
        assert_eq!(check_variable(declared, &template), [expected], "{declared} {template}");
    }
}

/// The schema of a service with input types.
const SERVICE: &str = "type Query { a(x: Int): Int, \
    one(x: Filter!): Int, many(x: [Filter!]): Int, shade(x: Shade): Int }\n\
    enum Shade { DARK LIGHT }\n\
    input Filter { color: Shade!, words: [String!], size: Size, key: ID = 1, note: Note }\n\
    input Size { width: Int!, height: Float }\n\
    scalar Note";

/// A step that calls `field` with the variable `x`, whose types the task's schema defines.
fn schema_step(field: &str, declared: &str, template: &Value) -> Value {
    let query = format!("query ($x: {declared}) {{ {field}(x: $x) }}");
    json!({
        "id": "ask", "format": "GraphQL",
        "task": {"endpoint": "https://api.example", "query": query, "schema": SERVICE},
        "input_mapping": {"variables": {"x": template}},
    })
}

/// The messages about a variable whose types the task's schema defines. Each is a warning in a draft.
fn check_schema_variable(field: &str, declared: &str, template: &Value) -> Vec<String> {
    let parameters = json!([
        {"name": "text", "type": "string"}, {"name": "count", "type": "integer"},
        {"name": "thing", "type": "object"}, {"name": "maybe", "type": "string", "required": false},
    ]);
    let told = steps(&parameters, &[schema_step(field, declared, template)]);
    let told = told.into_iter().map(|told| told.replacen("warning A2S057", "error A2S057", 1));
    without_place(told.collect(), "execution.steps[0].input_mapping.variables.x")
}

#[test]
fn graphql_input_objects_fit_the_schema() {
    for fits in [
        json!({"color": "DARK"}),
        json!({"color": "${text}", "words": ["${text}", "b"], "size": {"width": "${count}"}}),
        json!({"color": "DARK", "words": "one", "size": null, "key": "7", "note": {"any": 1}}),
        json!({"color": "DARK", "size": {"width": 1, "height": 2}, "key": 7}),
        json!("${thing}"),
    ] {
        assert_eq!(check_schema_variable("one", "Filter!", &fits), NOTHING, "{fits}");
    }
    let told = |template: Value, expected: &str| {
        assert_eq!(check_schema_variable("one", "Filter!", &template), [expected], "{template}");
    };
    told(
        json!({"color": "DARK", "wrods": []}),
        "`variables.x` does not accept a member `wrods` @.wrods",
    );
    told(json!({"words": ["a"]}), "`variables.x` requires the member `color`, which is missing");
    told(
        json!({"color": "DARK", "size": {"width": "wide"}}),
        "`variables.x.size.width` accepts a whole number, not the text `wide` @.size.width",
    );
    told(
        json!({"color": "DARK", "size": {"height": 1.5}}),
        "`variables.x.size` requires the member `width`, which is missing @.size",
    );
    told(
        json!({"color": "DARKK"}),
        "`variables.x.color` accepts one of `DARK`, `LIGHT`, not `DARKK` @.color",
    );
    told(
        json!({"color": "DARK", "size": "${text}"}),
        "`variables.x.size` accepts an object, but `${text}` is a string @.size",
    );
}

#[test]
fn graphql_lists_and_enumerations_fit_the_schema() {
    let many = |template: Value| check_schema_variable("many", "[Filter!]", &template);
    for fits in [json!(null), json!({"color": "DARK"}), json!([{"color": "DARK"}]), json!([])] {
        assert_eq!(many(fits.clone()), NOTHING, "{fits}");
    }
    assert_eq!(
        many(json!([{"color": "DARK"}, {"color": "LIGHT", "sice": {"width": 1}}])),
        ["`variables.x[1]` does not accept a member `sice` @[1].sice"]
    );
    assert_eq!(
        many(json!({"size": null})),
        ["`variables.x` requires the member `color`, which is missing"]
    );
    assert_eq!(check_schema_variable("shade", "Shade", &json!(null)), NOTHING);
    assert_eq!(
        check_schema_variable("shade", "Shade", &json!("dark")),
        ["`variables.x` accepts one of `DARK`, `LIGHT`, `null`, not `dark`"]
    );
    // A built-in type is checked by its name alone.
    assert_eq!(
        check_schema_variable("a", "Int", &json!("5")),
        ["`variables.x` accepts a whole number, not the text `5`"]
    );
}

/// Older versions did not compare input objects with the schema, so a published version may not fit.
#[test]
fn input_object_of_a_published_version_is_not_compared() {
    let step = schema_step("one", "Filter!", &json!({"colour": "DARK"}));
    let mut document = with_header(&json!({
        "execution": {"type": "sequence", "steps": [step]},
    }));
    let digest = crate::compile(document.to_string().as_bytes()).digest.unwrap();
    document["checksum"] = json!(digest.to_string());
    let text = document.to_string();
    let errors = |compilation: crate::Compilation| -> Vec<String> {
        let found = compilation.diagnostics.into_iter().filter(crate::Diagnostic::is_error);
        found.map(|found| format!("{} {}", found.code, found.hint.unwrap_or_default())).collect()
    };
    assert_eq!(errors(crate::compile_with_checksum(text.as_bytes())), NOTHING);
    assert_eq!(errors(crate::compile(text.as_bytes())), NOTHING);
    let refused = errors(crate::compile_to_publish(text.as_bytes()));
    assert!(refused.contains(&"A2S057 Did you mean `color`?".to_owned()), "{refused:?}");
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
        assert!(
            told[0].contains("`body.n` accepts a whole number, not the text `five`"),
            "{told:?}"
        );
        let told = check(&mut task, media_type, json!({"file": "a"}));
        assert!(told[0].contains("`body` requires the member `n`"), "{told:?}");
        let told = check(&mut task, media_type, json!("n=5"));
        assert!(told[0].contains("`body` accepts an object, not the text `n=5`"), "{told:?}");
    }
}
