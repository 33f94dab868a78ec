//! Values against schemas.

use std::sync::Arc;

use a2s::{HttpMethod, OpenApiTask, OpenApiVersion};
use serde_json::json;

use super::*;
use crate::request::test_fixtures::operation;

fn task(version: OpenApiVersion, components: Value) -> OpenApiTask {
    let mut task = operation(HttpMethod::Post, "https://api.example", "/", &[]);
    task.version = version;
    task.components = Arc::new(components);
    task
}

fn check_of(version: OpenApiVersion, schema: &Value) -> Option<SchemaCheck> {
    SchemaCheck::from_task_schema(&task(version, Value::Null), schema, ValueDirection::Request)
}

fn told(check: Option<SchemaCheck>, value: &Value) -> Vec<String> {
    check.unwrap().violations(value).iter().map(ToString::to_string).collect()
}

/// Whether both versions of OpenAPI take and refuse these values.
#[track_caller]
fn check(schema: &Value, fitting: &[Value], misfitting: &[Value]) {
    for version in [OpenApiVersion::V3_0, OpenApiVersion::V3_1] {
        let check = check_of(version, schema).unwrap();
        for value in fitting {
            assert!(
                check.violations(value).is_empty(),
                "{version:?} {value} {:?}",
                check.violations(value)
            );
        }
        for value in misfitting {
            assert!(!check.violations(value).is_empty(), "{version:?} {value}");
        }
    }
}

#[test]
fn what_the_schema_forbids_is_found_with_its_place_and_rule() {
    let pet = json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "maxLength": 5},
            "age": {"type": "integer", "minimum": 0},
            "kind": {"enum": ["dog", "cat"]},
        },
        "additionalProperties": false,
    });
    let task = task(OpenApiVersion::V3_0, json!({"schemas": {"Pet": pet}}));
    let schema = json!({"type": "array", "items": {"$ref": "#/components/schemas/Pet"}});
    let pets = SchemaCheck::from_task_schema(&task, &schema, ValueDirection::Request);
    let value = json!([{"name": "Rex"}, {"name": "a secret", "age": -1, "kind": "cow", "x": 1}]);
    assert_eq!(
        told(pets, &value),
        [
            "`[1].name` is longer than 5 characters (schema: #/components/schemas/Pet/properties/name/maxLength)",
            "`[1].age` is less than 0 (schema: #/components/schemas/Pet/properties/age/minimum)",
            r#"`[1].kind` is not one of ["dog","cat"] (schema: #/components/schemas/Pet/properties/kind/enum)"#,
            "`[1]` has unknown members: `x` (schema: #/components/schemas/Pet/additionalProperties)",
        ]
        .map(str::to_owned)
    );
    let number = check_of(OpenApiVersion::V3_0, &json!({"type": "number"}));
    assert_eq!(told(number, &json!("x")), ["it is not of the type number (schema: type)"]);
}

#[test]
fn the_words_of_3_0_are_read() {
    let version = OpenApiVersion::V3_0;
    let nullable = json!({"type": "string", "nullable": true, "enum": ["a"]});
    assert!(told(check_of(version, &nullable), &json!(null)).is_empty());
    assert!(!told(check_of(version, &nullable), &json!("b")).is_empty());
    let either = json!({"nullable": true, "oneOf": [{"type": "string"}, {"type": "integer"}]});
    assert!(told(check_of(version, &either), &json!(null)).is_empty());
    assert_eq!(told(check_of(version, &either), &json!(true)).len(), 1);
    let open = json!({"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 9});
    assert_eq!(
        told(check_of(version, &open), &json!(0)),
        ["it is not more than 0 (schema: exclusiveMinimum)"]
    );
    assert!(told(check_of(version, &open), &json!(9)).is_empty());
    let below = told(check_of(version, &open), &json!(-1));
    assert_eq!(below, ["it is not more than 0 (schema: exclusiveMinimum)"]);
    // `const` is not one of its words, and neither is what stands beside a `$ref`.
    assert!(told(check_of(version, &json!({"const": 1, "type": "integer"})), &json!(2)).is_empty());
    let beside = json!({"$ref": "#/components/schemas/Any", "maxLength": 1});
    let told_by = |version| {
        let task = task(version, json!({"schemas": {"Any": {"type": "string"}}}));
        told(SchemaCheck::from_task_schema(&task, &beside, ValueDirection::Request), &json!("ab"))
    };
    assert_eq!(told_by(OpenApiVersion::V3_0), [""; 0]);
    let longer = "it is longer than 1 characters (schema: maxLength)";
    assert_eq!(told_by(OpenApiVersion::V3_1), [longer]);
}

#[test]
fn a_discriminator_tells_which_alternative_is_meant() {
    let either = |more: Value| {
        let mut schema = json!({"oneOf": [
            {"type": "object", "required": ["kind"]}, {"type": "object", "required": ["kind", "n"]},
        ]});
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    let both = json!({"kind": "x", "n": 1});
    check(&either(json!({})), &[json!({"kind": "x"})], &[both.clone(), json!({})]);
    check(&either(json!({"discriminator": {"propertyName": "kind"}})), &[both], &[json!({})]);
}

#[test]
fn only_what_surely_fits_is_counted() {
    let most =
        |format: &str| json!({"contains": {"type": "string", "format": format}, "maxContains": 1});
    let two = json!(["2026-11-22", "2026-11-23"]);
    check(&most("date"), &[json!(["2026-11-22", "x"])], std::slice::from_ref(&two));
    check(&most("email"), &[two], &[]);
}

#[test]
fn a_large_value_is_told_of_once_and_others_in_part() {
    let numbers = check_of(OpenApiVersion::V3_1, &json!({"items": {"type": "integer"}})).unwrap();
    let wrong = |count| numbers.violations(&Value::Array(vec![json!("x"); count])).len();
    assert_eq!((wrong(3), wrong(9), wrong(60_000)), (3, 4, 1));
}

#[test]
fn names_of_members_are_shown_whole_or_not_at_all() {
    let closed = json!({
        "properties": {"a/b~c": {"type": "integer"}, "d": {"additionalProperties": {"type": "null"}}},
        "additionalProperties": false,
    });
    let told = |value: Value| told(check_of(OpenApiVersion::V3_1, &closed), &value);
    let at = "`.a/b~c` is not of the type integer (schema: properties/a~1b~0c/type)";
    assert_eq!(told(json!({"a/b~c": "x"})), [at]);
    let long = "n".repeat(61);
    let unknown = json!({"p": 1, "q\u{1b}[2J": 1, (long.clone()): 1, "s": 1, "t": 1});
    let unknown = told(unknown).remove(0);
    assert!(unknown.starts_with("it has unknown members: `"), "{unknown}");
    assert!(unknown.contains(" and 2 more (schema: additionalProperties)"), "{unknown}");
    assert!(!unknown.contains("2J") && !unknown.contains("nnn"), "{unknown}");
    let hidden = told(json!({"d": {(long): 1}})).remove(0);
    assert!(hidden.starts_with("`.d.…` is not of the type null"), "{hidden}");
}

#[test]
fn the_words_of_3_1_are_read() {
    let version = OpenApiVersion::V3_1;
    let check = |schema: Value, value: Value| told(check_of(version, &schema), &value).is_empty();
    assert!(check(json!({"type": ["string", "null"]}), json!(null)));
    assert!(!check(json!({"const": 1}), json!(2)));
    assert!(!check(json!({"exclusiveMinimum": 0}), json!(0)));
    assert!(!check(json!({"prefixItems": [{"type": "string"}], "items": false}), json!(["a", 1])));
    assert!(!check(json!({"type": "object", "unevaluatedProperties": false}), json!({"a": 1})));
    let choice = json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}});
    assert!(!check(choice.clone(), json!({"a": 1})) && check(choice, json!({})));
}

#[test]
fn common_words_mean_the_same_in_both() {
    check(&json!({"multipleOf": 0.01}), &[json!(1.23)], &[json!(1.234)]);
    check(&json!({"pattern": "^[a-z]+$"}), &[json!("abc"), json!(1)], &[json!("ABC")]);
    check(&json!({"uniqueItems": true}), &[json!([1, 2])], &[json!([1, 1])]);
    check(&json!({"type": "string", "format": "date"}), &[json!("2026-11-22")], &[json!("today")]);
    check(&json!({"type": "string", "format": "house-number"}), &[json!("x")], &[]);
    check(&json!({"not": {"type": "string"}}), &[json!(1)], &[json!("x")]);
    check(
        &json!({"additionalProperties": {"type": "integer"}}),
        &[json!({"a": 1})],
        &[json!({"a": "x"})],
    );
    // Words without quotes in YAML.
    check(
        &json!({"type": "string", "enum": [1, true, "x"]}),
        &[json!("1"), json!("true")],
        &[json!("2")],
    );
    // Texts of numbers, as tools write them.
    check(
        &json!({"type": "integer", "enum": ["6", "12"]}),
        &[json!(6), json!(12)],
        &[json!(7), json!("6")],
    );
    check(&json!({"type": "boolean", "enum": ["0", true]}), &[json!(true)], &[json!(false)]);
    // The values of the items, which no list can be one of.
    check(&json!({"type": "array", "enum": ["a", "b"]}), &[json!(["a"])], &[json!("a")]);
}

#[test]
fn parts_of_one_whole_are_not_closed_to_each_other() {
    let base = json!({"properties": {"a": {"type": "integer"}}, "additionalProperties": false});
    let both = json!({"allOf": [base, {"properties": {"b": {"type": "boolean"}}}]});
    let around = json!({
        "allOf": [{"properties": {"a": {"type": "integer"}}}],
        "properties": {"b": {"type": "boolean"}},
        "additionalProperties": {"type": "object"},
    });
    for schema in [&both, &around] {
        check(schema, &[json!({"a": 1, "b": true})], &[json!({"a": "x"}), json!({"b": 1})]);
    }
    // Alone, a part is as closed as it says.
    check(&json!({"allOf": [base]}), &[json!({"a": 1})], &[json!({"b": true})]);
    // One of two wholes is still one of them, when both let more pass.
    let either = json!({"oneOf": [both, {"allOf": [base, {"properties": {"c": {}}}]}]});
    check(&either, &[json!({"a": 1, "b": true})], &[json!({"a": "x"})]);
}

#[test]
fn unquoted_words_are_texts_where_null_is_allowed() {
    let check = check_of(OpenApiVersion::V3_1, &json!({"type": ["string", "null"], "enum": [1]}));
    assert_eq!(told(check, &json!("1")), [""; 0]);
}

#[test]
fn what_is_read_only_is_not_missed_beside_another_property() {
    let schema = json!({
        "properties": {"id": {"readOnly": true}},
        "dependentRequired": {"a": ["id", "b"]},
    });
    let told = |value| told(check_of(OpenApiVersion::V3_1, &schema), &value);
    assert_eq!(told(json!({"a": 1, "b": 1})), [""; 0]);
    assert_eq!(told(json!({"a": 1})).len(), 1);
}

#[test]
fn what_is_malformed_says_nothing() {
    check(
        &json!({"type": "file", "required": true, "enum": [], "maximum": "9"}),
        &[json!(10)],
        &[],
    );
    check(
        &json!({"type": "string", "pattern": "(?<=a)b(", "maxLength": 2}),
        &[json!("zz")],
        &[json!("zzz")],
    );
    check(&json!({"$ref": "#/components/schemas/Missing"}), &[json!(1)], &[]);
    // Nothing may follow from what could not be read.
    check(&json!({"not": {"pattern": "(?!x)"}}), &[json!("a")], &[]);
    let lost = json!({"oneOf": [{"pattern": "(?!x)"}, {"type": "string"}]});
    check(&lost, &[json!("a")], &[]);
    assert!(check_of(OpenApiVersion::V3_0, &json!({})).is_none());
    assert!(check_of(OpenApiVersion::V3_0, &Value::Null).is_none());
}

#[test]
fn what_only_the_service_sets_is_not_sent_and_not_missed() {
    let user = json!({
        "type": "object",
        "required": ["id", "name", "password"],
        "properties": {
            "id": {"type": "string", "readOnly": true},
            "name": {"type": "string"},
            "password": {"$ref": "#/components/schemas/Password"},
        },
    });
    let components =
        json!({"schemas": {"User": user, "Password": {"type": "string", "writeOnly": true}}});
    let task = task(OpenApiVersion::V3_0, components);
    let schema = json!({"$ref": "#/components/schemas/User"});
    let request = || SchemaCheck::from_task_schema(&task, &schema, ValueDirection::Request);
    assert!(told(request(), &json!({"name": "a", "password": "b"})).is_empty());
    let sent = told(request(), &json!({"id": "1", "name": "a", "password": "b"}));
    assert!(sent[0].starts_with("`.id` must not be sent: only the service sets it"), "{sent:?}");
    assert_eq!(told(request(), &json!({"name": "a"})).len(), 1);
    let response = || SchemaCheck::from_task_schema(&task, &schema, ValueDirection::Response);
    assert!(told(response(), &json!({"id": "1", "name": "a"})).is_empty());
    assert!(told(response(), &json!({"id": "1", "name": "a", "password": "b"})).is_empty());
    assert_eq!(told(response(), &json!({"name": "a"})).len(), 1);
    // One part may require what another describes.
    let parts = json!({"allOf": [{"$ref": "#/components/schemas/User"}, {"required": ["id"]}]});
    let parts = SchemaCheck::from_task_schema(&task, &parts, ValueDirection::Request);
    assert!(told(parts, &json!({"name": "a", "password": "b"})).is_empty());
}

#[test]
fn a_schema_may_refer_to_itself() {
    let tree = json!({
        "type": "object",
        "required": ["value"],
        "properties": {
            "value": {"type": "integer"},
            "children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
        },
    });
    let task = task(OpenApiVersion::V3_1, json!({"schemas": {"Tree": tree}}));
    let schema = json!({"$ref": "#/components/schemas/Tree"});
    let check = SchemaCheck::from_task_schema(&task, &schema, ValueDirection::Request).unwrap();
    let mut value = json!({"value": 1});
    for _ in 0..30 {
        value = json!({"value": 1, "children": [value]});
    }
    assert!(check.violations(&value).is_empty());
    let wrong = json!({"value": 1, "children": [{"value": 2, "children": [{"value": "x"}]}]});
    let told = check.violations(&wrong)[0].to_string();
    assert!(
        told.starts_with("`.children[0].children[0].value` is not of the type integer"),
        "{told}"
    );
}

#[test]
fn hostile_schemas_end() {
    let circle = json!({"schemas": {
        "A": {"$ref": "#/components/schemas/B"},
        "B": {"allOf": [{"$ref": "#/components/schemas/A"}]},
        "C": {"anyOf": [
            {"properties": {"x": {"$ref": "#/components/schemas/C"}}, "required": ["x", "y"]},
            {"properties": {"x": {"$ref": "#/components/schemas/C"}}, "required": ["x", "z"]},
        ]},
    }});
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!({ "x": deep });
    }
    for version in [OpenApiVersion::V3_0, OpenApiVersion::V3_1] {
        let task = task(version, circle.clone());
        for name in ["A", "B", "C"] {
            let schema = json!({"$ref": format!("#/components/schemas/{name}")});
            if let Some(check) =
                SchemaCheck::from_task_schema(&task, &schema, ValueDirection::Request)
            {
                assert_eq!(check.violations(&deep), []);
            }
        }
    }
    let mut nested = json!({"type": "string"});
    for _ in 0..120 {
        nested = json!({"items": nested});
    }
    check_of(OpenApiVersion::V3_0, &nested);
    let huge = json!({"pattern": "((((a{100}){100}){100}){100}){100}"});
    check(&huge, &[json!("b")], &[]);
}

#[test]
fn the_alternative_that_was_meant_is_told_of() {
    let schema = json!({"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 2}]});
    let told = told(check_of(OpenApiVersion::V3_1, &schema), &json!("abc"));
    assert_eq!(told, ["it is longer than 2 characters (schema: anyOf/1/maxLength)"]);
}

#[test]
fn what_only_a_format_tells_apart_is_not_told_apart() {
    // Neither format is checked, so both alternatives seem to fit.
    let formats = |key: &str| {
        json!({key: [
            {"type": "string", "format": "email"}, {"type": "string", "format": "uri"},
        ]})
    };
    check(&formats("oneOf"), &[json!("a@b.example")], &[json!(1)]);
    check(&json!({"not": {"type": "string", "format": "email"}}), &[json!("x")], &[]);
    let choice = json!({"if": {"format": "email"}, "then": {"maxLength": 2}});
    check(&choice, &[json!("abc")], &[]);
    // Where nothing is left unchecked, exactly one has to fit.
    let lengths = json!({"oneOf": [{"type": "string", "maxLength": 3}, {"minLength": 3}]});
    check(&lengths, &[json!("ab"), json!("abcd")], &[json!("abc")]);
    let reached = json!({"schemas": {"Mail": {"type": "string", "format": "email"}}});
    let reached = task(OpenApiVersion::V3_1, reached);
    let schema = json!({"oneOf": [{"$ref": "#/components/schemas/Mail"}, {"type": "string"}]});
    let check = SchemaCheck::from_task_schema(&reached, &schema, ValueDirection::Request);
    assert_eq!(told(check, &json!("x")), [""; 0]);
}

#[test]
fn a_name_may_match_a_pattern_that_cannot_be_read() {
    let closed = |pattern: &str| {
        json!({
            "patternProperties": {pattern: {"type": "integer"}},
            "additionalProperties": false,
        })
    };
    check(&closed("^x-"), &[json!({"x-a": 1})], &[json!({"y": 1}), json!({"x-a": "1"})]);
    check(&closed("^(?!y)"), &[json!({"x-a": 1}), json!({"y": 1})], &[]);
}

#[test]
fn nested_read_only_members_are_found() {
    let part = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let components = json!({"schemas": {
        "Base": {"properties": {"id": {"type": "string", "readOnly": true}}},
        "One": {"allOf": [part("Base")]},
        "Two": {"allOf": [part("One")]},
        "Three": {"allOf": [part("Two")], "required": ["id"]},
        "Either": {"required": ["id"], "oneOf": [part("Base")]},
    }});
    for version in [OpenApiVersion::V3_0, OpenApiVersion::V3_1] {
        let task = task(version, components.clone());
        for name in ["Three", "Either"] {
            let schema = part(name);
            let check = SchemaCheck::from_task_schema(&task, &schema, ValueDirection::Request);
            assert_eq!(told(check, &json!({})), [""; 0], "{name}");
        }
    }
}

#[test]
fn read_only_beside_a_reference_is_a_word_of_3_1() {
    let schema = json!({
        "type": "object",
        "required": ["id"],
        "properties": {"id": {"$ref": "#/components/schemas/Id", "readOnly": true}},
    });
    let components = json!({"schemas": {"Id": {"type": "string"}}});
    let told = |version, value: Value| {
        let task = task(version, components.clone());
        told(SchemaCheck::from_task_schema(&task, &schema, ValueDirection::Request), &value)
    };
    assert_eq!(
        told(OpenApiVersion::V3_1, json!({"id": "1"})),
        ["`.id` must not be sent: only the service sets it (schema: properties/id/readOnly)"]
    );
    // There it is ignored, but whoever wrote it meant it: neither way is refused.
    assert_eq!(told(OpenApiVersion::V3_0, json!({"id": "1"})), [""; 0]);
    for version in [OpenApiVersion::V3_0, OpenApiVersion::V3_1] {
        assert_eq!(told(version, json!({})), [""; 0]);
    }
}

#[test]
fn what_may_not_be_there_is_not_said_to_be_the_services() {
    let pair = json!({"type": "array", "prefixItems": [{}], "items": false});
    let task = task(OpenApiVersion::V3_1, Value::Null);
    let told =
        told(SchemaCheck::from_task_schema(&task, &pair, ValueDirection::Response), &json!([1, 2]));
    assert_eq!(told, ["`[1]` is not allowed (schema: items)"]);
}

#[test]
fn decimal_fractions_are_multiples() {
    for (unit, value) in [(0.01, 19.99), (0.01, 4.35), (0.1, 0.3), (0.1, 1.1), (0.001, 8.291)] {
        check(&json!({"multipleOf": unit}), &[json!(value)], &[json!(value + unit / 2.0)]);
    }
    check(&json!({"multipleOf": 0.01}), &[json!(1_234_567.89), json!(100), json!(1e20)], &[]);
}

#[test]
fn long_chains_of_references_end() {
    let name = |n: usize| format!("S{n}");
    let reference = |n: usize| json!({"$ref": format!("#/components/schemas/{}", name(n))});
    for link in ["ref", "property", "all"] {
        let schemas: serde_json::Map<_, _> = (0..4_000)
            .map(|n| {
                let next = reference(n + 1);
                let schema = match link {
                    "ref" => next,
                    "property" => json!({"properties": {"x": next}}),
                    _ => json!({"allOf": [next]}),
                };
                (name(n), schema)
            })
            .collect();
        let task = task(OpenApiVersion::V3_1, json!({ "schemas": schemas }));
        let schema = reference(0);
        let check = SchemaCheck::from_task_schema(&task, &schema, ValueDirection::Request);
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!({ "x": deep });
        }
        assert_eq!(check.map_or(0, |check| check.violations(&deep).len()), 0, "{link}");
    }
}

#[test]
fn of_many_large_patterns_the_first_are_checked() {
    let patterns = |pattern: &str| {
        let property =
            |n| (format!("p{n}"), json!({"pattern": pattern.replace("N", &format!("{n}"))}));
        json!({"properties": (0..300).map(property).collect::<serde_json::Map<_, _>>()})
    };
    let violations = |schema: Value, name: &str| {
        check_of(OpenApiVersion::V3_1, &schema).unwrap().violations(&json!({name: "?"})).len()
    };
    let large = patterns("^\\pL{5}N$");
    assert_eq!((violations(large.clone(), "p0"), violations(large, "p299")), (1, 0));
    let small = patterns("^[a-z]{1,9}N$");
    assert_eq!((violations(small.clone(), "p0"), violations(small, "p299")), (1, 1));
}
