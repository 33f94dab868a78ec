use serde_json::{Value, json};

use super::{NOTHING, document, get, steps};
use crate::compile;

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
            "error A2S057: `queryParameters.x` accepts a whole number, but `${order}` is an object",
        ),
        (
            &text,
            "${lines}",
            "error A2S057: `queryParameters.x` accepts a string, but `${lines}` is a list",
        ),
        // It may be null, and is not sent then.
        (
            &text,
            "${buyer}",
            "warning A2S057: `queryParameters.x` accepts a string, but `${buyer}` is an object",
        ),
        (
            &json!({"type": "boolean"}),
            "${status}",
            "error A2S057: `queryParameters.x` accepts a boolean, but `${status}` is a whole number",
        ),
        // Services do not always keep to what they say.
        (
            &json!({"type": "boolean"}),
            "${id}",
            "warning A2S057: `queryParameters.x` accepts a boolean, but `${id}` is a whole number",
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
            "error A2S057: `queryParameters.x` accepts a whole number, but `${{got}}` is a list {place}"
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
    assert!(told[0].contains("but `${got}` is a whole number"), "{told:?}");
    looped["input_mapping"]["x"] = json!("${item.price}");
    let told = after_order(&[looped.clone()]);
    assert!(
        told[0].starts_with("warning A2S058: `${item.price}` finds nothing: `item` has no `price`"),
        "{told:?}"
    );
    for (items, what) in [("${id}", "a whole number"), ("${order}", "an object")] {
        looped["for_each"] = json!(items);
        looped["input_mapping"]["x"] = json!(1);
        let message = format!("error A2S012: `{items}` is {what}; `for_each` requires a list");
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
        ["warning A2S012: `n` is declared as a string, but this is a whole number \
          (execution.steps[0].output_mapping.n)"]
    );
    assert_eq!(
        check(json!({"n": "string"}), json!({"n.a": "$.n"}), "${n.a}"),
        ["warning A2S012: `n` is declared as a string, but this makes it an object \
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
