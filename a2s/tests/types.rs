//! Types, held against values: what fits a schema is never reported, and the interface allows it.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its case has to fail")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use a2s::{Compilation, compile};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// The codes of this crate's findings about types.
const TYPES: [&str; 3] = ["A2S012", "A2S057", "A2S058"];

/// A schema, and values that fit it.
type Pair = (Value, Vec<Value>);

/// Schemas as OpenAPI 3.0 and 3.1 write them. What is marked by `x-apart` is put under
/// `components`.
fn any_schema() -> impl Strategy<Value = Pair> {
    let text = proptest::sample::select(vec!["a", "b", "", "5", "true", "x y"]);
    let leaf = prop_oneof![
        proptest::collection::vec(text, 1..4)
            .prop_map(|texts| pair(json!({"type": "string"}), texts)),
        proptest::collection::vec(-9..9_i64, 1..4)
            .prop_map(|all| pair(json!({"type": "integer"}), all)),
        proptest::collection::vec(-9..9_i64, 1..4).prop_map(|all| {
            pair(
                json!({"type": "number"}),
                all.into_iter().map(|n| json!(n as f64 / 4.0)).collect::<Vec<_>>(),
            )
        }),
        Just(pair(json!({"type": "boolean"}), [true, false])),
        Just(pair(json!({"type": "string", "enum": ["a", "b", null]}), ["a", "b"])),
        Just(pair(json!({"enum": ["a", 1, {"x": 1}]}), [json!("a"), json!({"x": 1})])),
        Just(pair(json!({"const": 7}), [7])),
        Just(pair(json!({}), [json!(1), json!({"x": ["y"]}), json!("a")])),
        Just(pair(json!({"type": "object"}), [json!({}), json!({"x": {"y": 1}})])),
        Just(pair(json!({"type": "array"}), [json!([]), json!([{"x": 1}, 2])])),
        Just(pair(json!({"type": ["integer", "object"]}), [json!(1), json!({"x": 1})])),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        let members = proptest::collection::btree_map("[a-d]", inner.clone(), 0..4);
        let object = (members, 0..4_u8, any::<[bool; 8]>()).prop_map(any_object);
        let list = proptest::collection::vec(inner.clone(), 1..3).prop_map(|pairs| {
            let (schemas, values): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            if let ([schema], [values]) = (schemas.as_slice(), values.as_slice()) {
                let lists = [json!([]), json!(values), json!([values[0]])];
                return (json!({"type": "array", "items": schema}), lists.to_vec());
            }
            let first: Vec<_> = values.iter().map(|values| values[0].clone()).collect();
            let schema = json!({"type": "array", "prefixItems": schemas, "items": false});
            (schema, vec![json!(first), json!([first[0]])])
        });
        let variants = (proptest::collection::vec(inner.clone(), 1..4), any::<bool>());
        let variants = variants.prop_map(|(pairs, all)| {
            let (schemas, values): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let values = values.concat();
            // What fits several fits `oneOf` of them no more.
            let of_one: Vec<_> =
                values.iter().filter(|value| fitting(&schemas, value) == 1).cloned().collect();
            match all || of_one.is_empty() {
                true => (json!({"anyOf": schemas}), values),
                false => (json!({"oneOf": schemas}), of_one),
            }
        });
        let merged = (inner.clone(), "[e-g]", inner.clone()).prop_map(
            |((one, values), name, (other, more))| {
                let object = json!({"type": "object", "properties": {&*name: other}});
                let with = |value: &Value| match value {
                    Value::Object(members) if !members.contains_key(&name) => {
                        let mut members = members.clone();
                        members.insert(name.clone(), more[0].clone());
                        Some(Value::Object(members))
                    }
                    _ => None,
                };
                let both: Vec<_> = values.iter().filter_map(with).collect();
                let open =
                    matches!(one.get("additionalProperties"), None | Some(Value::Bool(true)));
                if both.is_empty() || !open || one["type"] != "object" {
                    return (one, values);
                }
                (json!({"allOf": [one, object], "description": "Both"}), both)
            },
        );
        let nullable = inner.clone().prop_map(|(mut schema, mut values)| {
            match schema.get_mut("type") {
                Some(Value::Array(names)) => names.push(json!("null")),
                Some(_) => schema["nullable"] = json!(true),
                None => schema = json!({"anyOf": [schema, {"type": "null"}]}),
            }
            values.push(Value::Null);
            (schema, values)
        });
        let apart = inner.prop_map(|(schema, values)| (json!({"x-apart": schema}), values));
        prop_oneof![3 => object, 2 => list, 1 => variants, 1 => merged, 1 => nullable, 1 => apart]
    })
}

/// How many of these schemas a value fits.
fn fitting(schemas: &[Value], value: &Value) -> usize {
    let fits = |schema: &&Value| jsonschema::is_valid(&plain(schema), value);
    schemas.iter().filter(fits).count()
}

/// The schema as JSON Schema 2020-12 writes it, without what is marked here.
fn plain(schema: &Value) -> Value {
    match schema {
        Value::Object(members) if members.contains_key("x-apart") => plain(&members["x-apart"]),
        Value::Object(members) => {
            let rest = members.iter().filter(|(name, _)| *name != "nullable");
            let rest: Map<_, _> = rest.map(|(name, part)| (name.clone(), plain(part))).collect();
            match members.contains_key("nullable") {
                true => json!({"anyOf": [rest, {"type": "null"}]}),
                false => Value::Object(rest),
            }
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        other => other.clone(),
    }
}

fn pair<V: Into<Value>>(schema: Value, values: impl IntoIterator<Item = V>) -> Pair {
    (schema, values.into_iter().map(Into::into).collect())
}

/// An object of these members, some of which are required and some not there.
fn any_object((members, more, flags): (BTreeMap<String, Pair>, u8, [bool; 8])) -> Pair {
    let mut schema = json!({"type": "object"});
    let (mut properties, mut required) = (Map::new(), Vec::new());
    let (mut all, mut least) = (Map::new(), Map::new());
    for (index, (name, (member, values))) in members.into_iter().enumerate() {
        all.insert(name.clone(), values[0].clone());
        if flags[index] {
            least.insert(name.clone(), values[values.len() - 1].clone());
            required.push(json!(name));
        }
        properties.insert(name, member);
    }
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema["properties"] = json!(properties);
    match more {
        0 => schema["additionalProperties"] = json!(false),
        1 => {
            schema["additionalProperties"] = json!(true);
            all.insert("more".to_owned(), json!({"x": 1}));
        }
        2 => {
            schema["additionalProperties"] = json!({"type": "integer"});
            all.insert("more".to_owned(), json!(1));
        }
        _ => {}
    }
    (schema, vec![json!(all), json!(least)])
}

/// Moves what is marked under `components`.
fn take_apart(schema: &mut Value, components: &mut Map<String, Value>) {
    match schema {
        Value::Object(members) => {
            members.values_mut().for_each(|member| take_apart(member, components));
            if let Some(inner) = members.shift_remove("x-apart") {
                let name = format!("Part{}", components.len());
                members.insert("$ref".to_owned(), json!(format!("#/components/schemas/{name}")));
                components.insert(name, inner);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| take_apart(item, components)),
        _ => {}
    }
}

/// A document whose one step sends `body` and maps `queries`; both sides have the same schema.
fn document(schema: &Value, body: &Value, queries: &BTreeSet<String>) -> Value {
    let mut schema = schema.clone();
    let mut components = Map::new();
    take_apart(&mut schema, &mut components);
    let content = json!({"application/json": {"schema": schema}});
    let operation = json!({
        "requestBody": {"content": content},
        "responses": {"200": {"description": "Done", "content": content}},
    });
    let task = json!({
        "openapi": "3.0.3",
        "info": {"title": "Test", "version": "1"},
        "servers": [{"url": "https://api.example"}],
        "paths": {"/": {"post": operation}},
        "components": {"schemas": components},
    });
    whole(&json!({
        "id": "call", "format": "OpenAPI", "task": task,
        "input_mapping": {"body": body}, "output_mapping": outputs(queries),
    }))
}

fn outputs(queries: &BTreeSet<String>) -> Value {
    queries.iter().take(190).enumerate().map(|(index, q)| (format!("o{index}"), json!(q))).collect()
}

fn whole(step: &Value) -> Value {
    json!({
        "a2s": "1.1.0", "name": "Test", "description": "A test", "domains": ["api.example"],
        "version": "1.0.0", "checksum": "<checksum>", "authors": [{"name": "A"}],
        "execution": {"type": "sequence", "steps": [step]},
    })
}

/// The queries that select something in a value.
fn queries(value: &Value, at: &str, found: &mut BTreeSet<String>) {
    found.insert(at.to_owned());
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                queries(member, &format!("{at}['{name}']"), found);
                queries(member, &format!("{at}.*"), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                queries(item, &format!("{at}[{index}]"), found);
                queries(item, &format!("{at}[*]"), found);
                queries(item, &format!("{at}[{}]", index as i64 - items.len() as i64), found);
            }
        }
        _ => {}
    }
}

/// What is said about types, each with its place.
fn findings(compilation: &Compilation) -> Vec<String> {
    let found = compilation.diagnostics.iter().filter(|found| TYPES.contains(&&*found.code));
    found.map(ToString::to_string).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_fits_a_schema_is_never_reported((schema, values) in any_schema()) {
        for value in &values {
            let mut paths = BTreeSet::new();
            queries(value, "$", &mut paths);
            let document = document(&schema, value, &paths);
            let compilation = compile(document.to_string().as_bytes());
            prop_assert!(compilation.document.is_some(), "{:?}", compilation.diagnostics);
            prop_assert_eq!(findings(&compilation), [""; 0], "{} for {}", value, schema);
        }
    }

    /// The schema of an input or output is one of JSON Schema 2020-12 that allows what fits the
    /// schema it was made of.
    #[test]
    fn the_interface_allows_what_the_specification_does((schema, values) in any_schema()) {
        let query = BTreeSet::from(["$".to_owned()]);
        let document = document(&schema, &json!("${given}"), &query);
        let compilation = compile(document.to_string().as_bytes());
        let document = compilation.document.unwrap();
        let interface = document.interface();
        let both = interface.to_json_schema("Test", "A test");
        for (part, name) in [("input", "given"), ("output", "o0")] {
            prop_assert!(jsonschema::meta::is_valid(&both[part]), "{}", both[part]);
            let validator = jsonschema::validator_for(&both[part]).unwrap();
            for value in &values {
                let value = json!({name: value});
                prop_assert!(validator.is_valid(&value), "{} for {}", value, both[part]);
            }
        }
    }

    #[test]
    fn what_a_query_selects_is_never_reported(
        (selection, answer) in any_selection(),
    ) {
        let mut paths = BTreeSet::new();
        queries(&answer, "$.data", &mut paths);
        let query = format!("query {{ {selection} }} fragment Shared on Some {{ shared {{ deep }} }}");
        let document = whole(&json!({
            "id": "call", "format": "GraphQL",
            "task": {"endpoint": "https://api.example", "query": query},
            "output_mapping": outputs(&paths),
        }));
        let compilation = compile(document.to_string().as_bytes());
        prop_assert!(compilation.document.is_some(), "{:?}", compilation.diagnostics);
        prop_assert_eq!(findings(&compilation), [""; 0], "{} for {}", answer, query);
    }
}

/// Selections of a GraphQL query, and an object that they give.
fn any_selection() -> impl Strategy<Value = (String, Value)> {
    let leaf = prop_oneof![
        Just((String::new(), json!({}))),
        Just(("id".to_owned(), json!({"id": {"any": [1]}}))),
        Just(("key: id".to_owned(), json!({"key": 1}))),
        Just(("...Shared".to_owned(), json!({"shared": [{"deep": 1}, null]}))),
    ];
    let fields = leaf.prop_recursive(3, 20, 4, |inner| {
        let parts = proptest::collection::vec((inner, 0..5_u8), 1..4);
        parts.prop_map(|parts| {
            let mut text = String::new();
            let mut answer = Map::new();
            for (index, ((below, value), form)) in parts.into_iter().enumerate() {
                let (below, value) = if below.is_empty() {
                    ("x".to_owned(), json!({"x": null}))
                } else {
                    (below, value)
                };
                match form {
                    0 => {
                        text.extend([format!(" f{index} {{ {below} }}")]);
                        answer.insert(format!("f{index}"), value);
                    }
                    1 => {
                        text.extend([format!(" a{index}: f {{ {below} }}")]);
                        answer.insert(format!("a{index}"), json!([value, null]));
                    }
                    2 => {
                        text.extend([format!(" ... on Some {{ {below} }}")]);
                        answer.extend(value.as_object().unwrap().clone());
                    }
                    3 => {
                        text.extend([format!(" ... @include(if: true) {{ {below} }}")]);
                        answer.extend(value.as_object().unwrap().clone());
                    }
                    _ => text.extend([format!(" n{index} {{ {below} }}")]),
                }
            }
            (text, Value::Object(answer))
        })
    });
    fields.prop_filter("it selects something", |(text, _)| !text.trim().is_empty())
}

#[test]
fn any_bomb_of_schemas_is_looked_at_in_bounded_time() {
    let link = |name: usize| json!({"$ref": format!("#/components/schemas/S{name}")});
    let bomb = |combine: &dyn Fn(usize) -> Value| {
        let mut schemas: Map<String, Value> =
            (0..60).map(|n| (format!("S{n}"), combine(n + 1))).collect();
        schemas.insert("S60".to_owned(), json!({"type": "object", "properties": {"a": {}}}));
        let queries = (1..150).map(|n| format!("${}", ".a".repeat(n))).collect();
        let mut document = document(&json!({}), &json!({"a": {"a": {"a": {"a": 1}}}}), &queries);
        let task = &mut document["execution"]["steps"][0]["task"];
        task["components"]["schemas"] = json!(schemas);
        let content = json!({"application/json": {"schema": link(0)}});
        task["paths"]["/"]["post"]["requestBody"]["content"] = content.clone();
        task["paths"]["/"]["post"]["responses"]["200"]["content"] = content;
        let compilation = compile(document.to_string().as_bytes());
        let document = compilation.document.unwrap();
        let interface = document.interface();
        assert!(interface.to_json_schema("Bomb", "").to_string().len() < 1_000_000);
    };
    bomb(&|next| json!({"allOf": [link(next), link(next)]}));
    bomb(&|next| json!({"oneOf": [link(next), link(next), {"type": "string"}]}));
    bomb(
        &|next| json!({"properties": {"a": link(next), "b": link(next)}, "anyOf": [link(next), link(0)]}),
    );
    bomb(
        &|_| json!({"anyOf": vec![link(0); 40], "properties": {"a": {"oneOf": vec![link(0); 40]}}}),
    );
    bomb(
        &|_| json!({"items": link(0), "additionalProperties": link(0), "allOf": vec![link(0); 90]}),
    );
}

/// Specifications whose own examples are not what they say: a text for a number, a member that is
/// misspelt or was forgotten. Each was looked at.
const CONTRADICTED: [&str; 13] = [
    "ably.io",
    "codat.io",
    "jokes.one",
    "museum",
    "nytimes.com",
    "spotify",
    "tmdb",
    "transitapp.com",
    "twilio.com",
    "vmware.local",
    "whatsapp.local",
    "windows.net",
    "xero.com",
];

/// The examples of real specifications are what their schemas say, and so nothing is reported.
#[test]
fn the_examples_of_real_specifications_are_not_reported() {
    let Some(folder) = data_set("openapi") else { return };
    let (mut operations, mut tried, mut surprises) = (0, 0, Vec::new());
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let specification: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for operation in operations_of(&specification) {
            operations += 1;
            let compilation = compile(operation.document.to_string().as_bytes());
            tried += operation.examples;
            let found = findings(&compilation);
            if !found.is_empty() && !CONTRADICTED.contains(&&*name) {
                surprises.push(format!("{name} {}: {found:?}", operation.name));
            }
            let Some(document) = compilation.document else { continue };
            let both = document.interface().to_json_schema("Test", "A test");
            for part in ["input", "output"] {
                assert!(jsonschema::meta::is_valid(&both[part]), "{name} {}", operation.name);
            }
        }
    }
    assert_eq!(surprises, [""; 0]);
    assert!(operations > 2_000 && tried > 1_000, "{operations} operations, {tried} examples");
}

/// A data set that others published, when its folder is named.
#[expect(clippy::disallowed_methods, reason = "this is the one setting of these tests")]
#[expect(clippy::print_stderr, reason = "a test that is skipped has to be heard")]
fn data_set(name: &str) -> Option<PathBuf> {
    let Ok(folder) = std::env::var("A2S_TEST_DATA") else {
        eprintln!("SKIPPED: A2S_TEST_DATA names no folder, so nothing was held against `{name}`");
        return None;
    };
    let folder = PathBuf::from(folder).join(name);
    assert!(folder.is_dir(), "A2S_TEST_DATA is set, but {} is no folder", folder.display());
    Some(folder)
}

/// An operation as a document that is filled with its own examples.
struct Operation {
    name: String,
    document: Value,
    examples: usize,
}

fn operations_of(specification: &Value) -> Vec<Operation> {
    let mut operations = Vec::new();
    for (path, item) in specification["paths"].as_object().into_iter().flatten() {
        for method in ["get", "post", "put", "patch", "delete"] {
            if item.get(method).is_some() {
                operations.push(operation(specification, path, method));
            }
        }
    }
    operations
}

fn operation(specification: &Value, path: &str, method: &str) -> Operation {
    let item = &specification["paths"][path];
    let operation = &item[method];
    let mut examples = 0;
    let mut paths = BTreeSet::new();
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let content = follow(specification, response)["content"].as_object();
        for media in json_media(content).filter(|_| status.starts_with('2')) {
            for example in examples_of(specification, media) {
                examples += 1;
                queries(&example, "$", &mut paths);
            }
        }
    }
    // Names with quotes would have to be escaped.
    paths.retain(|query| {
        query.matches('\'').count() % 2 == 0 && !query.contains("\\") && query.len() < 900
    });
    let mut inputs = Map::new();
    let parameters = [operation, item].into_iter().filter_map(|from| from["parameters"].as_array());
    for parameter in parameters.flatten() {
        let parameter = follow(specification, parameter);
        let (Some(name), Some(place)) = (parameter["name"].as_str(), parameter["in"].as_str())
        else {
            continue;
        };
        let schema = follow(specification, &parameter["schema"]);
        let example = [parameter.get("example"), schema.get("example"), schema.get("default")];
        let example = example.into_iter().flatten().next();
        examples += usize::from(example.is_some());
        let value = example.map_or_else(|| json!("${anything}"), as_template);
        let group = inputs.entry(format!("{place}Parameters")).or_insert(json!({}));
        group[name] = value;
    }
    if let Some(body) = operation.get("requestBody") {
        let content = follow(specification, body)["content"].as_object();
        let example = json_media(content).find_map(|media| examples_of(specification, media).pop());
        examples += usize::from(example.is_some());
        inputs.insert(
            "body".to_owned(),
            example.as_ref().map_or_else(|| json!("${anything}"), as_template),
        );
    }
    let mut document = whole(&json!({
        "id": "call", "format": "OpenAPI", "task": cut_out(specification, path, method),
        "input_mapping": inputs, "output_mapping": outputs(&paths),
    }));
    document["domains"] = json!(["api.example"]);
    Operation { name: format!("{method} {path}"), document, examples }
}

/// The specification with one operation, and the components that it leads to.
fn cut_out(specification: &Value, path: &str, method: &str) -> Value {
    let item = &specification["paths"][path];
    let mut kept = Map::from_iter([(method.to_owned(), item[method].clone())]);
    kept.extend(item.get("parameters").map(|shared| ("parameters".to_owned(), shared.clone())));
    let kept = Value::Object(kept);
    let mut components = json!({});
    let (mut waiting, mut met) = (references(&kept), BTreeSet::new());
    while let Some(reference) = waiting.pop() {
        let Some(pointer) = reference.strip_prefix('#').filter(|_| met.insert(reference.clone()))
        else {
            continue;
        };
        let target = specification.pointer(pointer);
        let [_, _, kind, name, ..] = *pointer.splitn(4, '/').collect::<Vec<_>>() else { continue };
        let Some(target) = target.filter(|_| pointer.starts_with("/components/")) else { continue };
        let name = name.replace("~1", "/").replace("~0", "~");
        components[kind][name] = target.clone();
        waiting.extend(references(target));
    }
    json!({
        "openapi": specification["openapi"], "info": {"title": "Test", "version": "1"},
        "servers": [{"url": "https://api.example"}], "paths": {path: kept}, "components": components,
    })
}

fn references(value: &Value) -> Vec<String> {
    match value {
        Value::Object(members) => {
            let own = members.get("$ref").and_then(Value::as_str).map(str::to_owned);
            own.into_iter().chain(members.values().flat_map(references)).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

fn follow<'v>(specification: &'v Value, mut value: &'v Value) -> &'v Value {
    while let Some(reference) = value.get("$ref").and_then(Value::as_str) {
        value = specification.pointer(reference.trim_start_matches('#')).unwrap_or(&Value::Null);
    }
    value
}

fn json_media(content: Option<&Map<String, Value>>) -> impl Iterator<Item = &Value> {
    content.into_iter().flatten().filter(|(name, _)| name.contains("json")).map(|(_, media)| media)
}

/// The objects and lists that are given as examples of a body.
fn examples_of(specification: &Value, media: &Value) -> Vec<Value> {
    let named = media["examples"].as_object().into_iter().flatten();
    let named = named.filter_map(|(_, example)| follow(specification, example).get("value"));
    let schema = follow(specification, &media["schema"]);
    let all = media.get("example").into_iter().chain(named).chain(schema.get("example"));
    all.filter(|example| example.is_object() || example.is_array()).cloned().collect()
}

/// A value as it stands in a template.
fn as_template(value: &Value) -> Value {
    match value {
        Value::String(text) => json!(text.replace("${", "$${")),
        Value::Array(items) => items.iter().map(as_template).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, member)| (name.clone(), as_template(member))).collect()
        }
        scalar => scalar.clone(),
    }
}
