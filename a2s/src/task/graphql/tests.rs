//! GraphQL tasks with the schema of their service.

use serde_json::{Value, json};

use super::GraphqlTask;
use crate::document::StepAction;
use crate::task::Task;

const SCHEMA: &str = "
    enum Color { RED GREEN }
    scalar Date
    input Filter { color: Color! sizes: [Int!] parent: Filter since: Date limit: Int! = 10 }
    input Key @oneOf { id: ID name: String }
    type Query { things(filter: Filter, key: Key): [String] }
";

fn document(version: &str, task: &Value) -> Vec<u8> {
    let variables = json!({"filter": "${filter}"});
    json!({
        "a2s": version,
        "name": "Things",
        "description": "Things",
        "domains": ["api.example"],
        "version": "1.0.0",
        "authors": [{"name": "A"}],
        "execution": {"type": "sequence", "steps": [{
            "id": "ask", "format": "GraphQL", "task": task,
            "input_mapping": {"variables": variables}, "output_mapping": {"all": "$.data"},
        }]},
    })
    .to_string()
    .into_bytes()
}

fn task(more: &Value) -> Value {
    let mut task = json!({
        "endpoint": "https://api.example/graphql",
        "query": "query($filter: Filter, $key: Key, $n: [[Int!]!]) { things(filter: $filter, key: $key) }",
    });
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    task
}

fn errors(version: &str, task: &Value) -> Vec<String> {
    let compilation = crate::compile(&document(version, task));
    let errors = compilation.diagnostics.iter().filter(|diagnostic| diagnostic.is_error());
    errors.map(|error| format!("{} {}", error.code, error.message)).collect()
}

fn read(task: &Value) -> GraphqlTask {
    let compilation = crate::compile(&document("1.1.0", task));
    let document = compilation.document.unwrap_or_else(|| panic!("{:#?}", compilation.diagnostics));
    let mut found = None;
    document.capability().for_each_step(|step| {
        if let StepAction::Task { task, .. } = &step.action
            && let Task::Graphql(task) = &**task
        {
            found = Some((**task).clone());
        }
    });
    found.unwrap()
}

#[test]
fn variables_have_the_types_of_the_schema() {
    // `$n` is used by nothing, which a schema does not allow.
    let query = "query($filter: Filter, $key: Key) { things(filter: $filter, key: $key) }";
    let read = read(&task(&json!({"schema": SCHEMA, "query": query})));
    let schema = json!({"allOf": [read.variables[0].schema], "$defs": read.definitions});
    let filter = jsonschema::validator_for(&schema).unwrap();
    for good in [
        json!(null),
        json!({"color": "RED"}),
        json!({"color": "RED", "sizes": [1], "since": {"any": 1}, "limit": 2, "parent": null}),
        json!({"color": "RED", "sizes": 1, "parent": {"color": "GREEN"}}),
    ] {
        assert!(filter.is_valid(&good), "{good}");
    }
    for bad in [
        json!({}),
        json!({"color": "BLUE"}),
        json!({"color": "RED", "sizes": ["1"]}),
        json!({"color": "RED", "sizes": [null]}),
        json!({"color": "RED", "limit": null}),
        json!({"color": "RED", "colour": "RED"}),
        json!({"color": "RED", "parent": {}}),
        json!({"color": "RED", "limit": 3_000_000_000_i64}),
    ] {
        assert!(!filter.is_valid(&bad), "{bad}");
    }
    let schema = json!({"allOf": [read.variables[1].schema], "$defs": read.definitions});
    let key = jsonschema::validator_for(&schema).unwrap();
    assert!(key.is_valid(&json!({"id": 1})) && !key.is_valid(&json!({"id": 1, "name": "x"})));
}

#[test]
fn without_a_schema_the_types_of_the_language_are_known() {
    let read = read(&task(&json!({})));
    assert_eq!(read.definitions, Value::Null);
    assert_eq!(read.variables[0].schema, json!(true));
    let lists = jsonschema::validator_for(&read.variables[2].schema).unwrap();
    for (value, fits) in [
        (json!([[1]]), true),
        (json!([1]), true),
        (json!(1), true),
        (json!(null), true),
        (json!([["1"]]), false),
        (json!([null]), false),
    ] {
        assert_eq!(lists.is_valid(&value), fits, "{value}");
    }
}

#[test]
fn the_hint_for_an_unknown_name_suggests_a_similar_one() {
    let schema = "enum Color { RED GREEN } input Filter { color: Color limit: Int } \
                  type Thing { id: ID name: String } type Query { things(filter: Filter): [Thing] }";
    for (schema, query, close) in [
        (schema, "{ things { idd } }", "id"),
        (schema, "{ thing { id } }", "things"),
        (schema, "{ things(filtr: {}) { id } }", "filter"),
        (schema, "{ things(filter: {limt: 1}) { id } }", "limit"),
        (schema, "{ things(filter: {color: GREN}) { id } }", "GREEN"),
        ("type Thing { id: ID } type Query { a: Thng }", "{ a }", "Thing"),
    ] {
        let task =
            json!({"endpoint": "https://api.example/graphql", "query": query, "schema": schema});
        let compilation = crate::compile(&document("1.1.0", &task));
        let hints: Vec<_> =
            compilation.diagnostics.iter().filter_map(|found| found.hint.as_deref()).collect();
        let hint = format!("Did you mean `{close}`? Correct line 1 at column ");
        assert!(hints.iter().any(|found| found.starts_with(&hint)), "{query}: {hints:?}");
    }
}

#[test]
fn the_query_is_held_to_the_schema() {
    let misspelt = task(&json!({"schema": SCHEMA, "query": "{ thing }"}));
    let told = errors("1.1.0", &misspelt);
    assert!(told[0].starts_with("A2S051 the query does not match the schema"), "{told:?}");
    let broken = task(&json!({"schema": "type Query {", "query": "{ things }"}));
    let told = errors("1.1.0", &broken);
    assert!(told[0].starts_with("A2S051 the schema is not valid GraphQL"), "{told:?}");
    let odd = task(&json!({"schema": "type Query { a: Missing }", "query": "{ a }"}));
    let told = errors("1.1.0", &odd);
    assert!(told[0].starts_with("A2S051 the schema is not valid"), "{told:?}");
    let deep = format!("type Query {{ a(b: {}Int{}): Int }}", "[".repeat(5000), "]".repeat(5000));
    assert!(!errors("1.1.0", &task(&json!({"schema": deep, "query": "{ a }"}))).is_empty());
    let large = format!("type Query {{ a: Int }} # {}", "x".repeat(600 << 10));
    let told = errors("1.1.0", &task(&json!({"schema": large, "query": "{ a }"})));
    assert!(told[0].contains("at most 524288 are allowed"), "{told:?}");
}

#[test]
fn the_fields_of_1_1_are_read_and_belong_to_it() {
    let newer = task(&json!({"persisted_query": true, "partial_data": true}));
    let flags = read(&newer);
    assert!(flags.persisted_query && flags.partial_data);
    let plain = read(&task(&json!({})));
    assert!(!plain.persisted_query && !plain.partial_data);
    assert!(errors("1.0.0", &newer)[0].starts_with("A2S021"), "{:?}", errors("1.0.0", &newer));
    let wrong = errors("1.1.0", &task(&json!({"partial_data": "yes"})));
    assert_eq!(wrong.len(), 1, "{wrong:?}");
}

#[test]
fn subscriptions_are_refused() {
    let told = errors("1.1.0", &task(&json!({"query": "subscription { things }"})));
    assert_eq!(
        told[0],
        "A2S051 a step cannot be a subscription: a step is one request and one response"
    );
}
