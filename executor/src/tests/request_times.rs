//! The time that it takes to make a request and to check its values against their schemas, without a
//! network: for a small and for a large specification, the first time (schemas are compiled) and then
//! again. `docs/benchmarks.md` has the figures.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use a2s::{Document, InputLocation, StepAction, Task};
use indexmap::IndexMap;
use serde_json::{Map, Value, json};
use test_support::fixture_document;

use crate::request::{self, TaskContract};

/// The number of rounds.
const ROUNDS: usize = 500;

#[test]
#[ignore = "prints times: cargo test --release -p executor --lib -- --ignored --nocapture times_of_requests"]
fn times_of_requests() {
    let rounds = ROUNDS;
    println!("{rounds} rounds, median of each");
    println!("  {:<44} {:>10} {:>10}", "", "first", "again");
    let (task, inputs) = small();
    measure("GET, a path and a query parameter", &task, &inputs, rounds);
    let (task, inputs) = large(1);
    measure("POST, 300 schemas, an order of 1 line", &task, &inputs, rounds);
    let (task, inputs) = large(1_000);
    measure("POST, 300 schemas, an order of 1,000 lines", &task, &inputs, rounds.min(100));
}

fn measure(name: &str, task: &Arc<Task>, inputs: &IndexMap<InputLocation, Value>, rounds: usize) {
    let mut first: Vec<Duration> =
        (0..rounds.min(50)).map(|_| time(&TaskContract::new(Arc::clone(task)), inputs)).collect();
    let requests = TaskContract::new(Arc::clone(task));
    request::prepare(&requests, inputs).unwrap();
    let mut again: Vec<Duration> = (0..rounds).map(|_| time(&requests, inputs)).collect();
    let microseconds = |times: &mut Vec<Duration>| {
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1e6
    };
    let (first, again) = (microseconds(&mut first), microseconds(&mut again));
    println!("  {name:<44} {first:>7.1} µs {again:>7.1} µs");
}

fn time(contract: &TaskContract, inputs: &IndexMap<InputLocation, Value>) -> Duration {
    let begin = Instant::now();
    black_box(request::prepare(contract, black_box(inputs)).unwrap());
    begin.elapsed()
}

/// The task of a document with one step.
fn task(specification: &Value, mapping: &Value) -> Arc<Task> {
    let step = json!({
        "id": "send", "format": "OpenAPI", "task": specification,
        "input_mapping": mapping, "output_mapping": {"answer": "$"},
    });
    let members = json!({"execution": {"type": "sequence", "steps": [step]}});
    let document = Document::open(fixture_document("Bench", &members).as_bytes()).unwrap();
    let mut found = None;
    document.capability().for_each_step(|step| {
        if let StepAction::Task { task, .. } = &step.action {
            found = Some(Arc::clone(task));
        }
    });
    found.unwrap()
}

fn specification(path: &str, item: &Value, components: &Value) -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Bench", "version": "1"},
        "servers": [{"url": "https://api.example/v1"}],
        "paths": {path: item},
        "components": components,
    })
}

fn inputs<const N: usize>(given: [(&str, Value); N]) -> IndexMap<InputLocation, Value> {
    given.into_iter().map(|(place, value)| (place.parse().unwrap(), value)).collect()
}

fn small() -> (Arc<Task>, IndexMap<InputLocation, Value>) {
    let parameters = json!([
        {"name": "city", "in": "path", "required": true, "schema": {"type": "string", "maxLength": 80}},
        {"name": "days", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 16}},
    ]);
    let answers = json!({"200": {"description": "The weather"}});
    let item = json!({"get": {"parameters": parameters, "responses": answers}});
    let task = task(
        &specification("/weather/{city}", &item, &json!({})),
        &json!({"city": "Paris", "days": 3}),
    );
    (task, inputs([("pathParameters.city", json!("Paris")), ("queryParameters.days", json!(3))]))
}

/// An order whose lines refer to one another's schemas, three hundred of them.
fn large(lines: usize) -> (Arc<Task>, IndexMap<InputLocation, Value>) {
    let mut schemas = Map::new();
    for number in 0..299 {
        let next = format!("#/components/schemas/Part{}", (number + 1) % 299);
        schemas.insert(
            format!("Part{number}"),
            json!({
                "type": "object",
                "required": ["sku"],
                "properties": {
                    "sku": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"},
                    "count": {"type": "integer", "minimum": 1},
                    "color": {"enum": ["blue", "black", "brown"]},
                    "next": {"$ref": next},
                },
            }),
        );
    }
    let part = json!({"type": "array", "items": {"$ref": "#/components/schemas/Part0"}});
    schemas.insert("Order".to_owned(), json!({"type": "object", "properties": {"lines": part}}));
    let content = json!({"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}});
    let item = json!({"post": {
        "requestBody": {"required": true, "content": content},
        "responses": {"201": {"description": "Taken"}},
    }});
    let components = json!({ "schemas": schemas });
    let line = json!({"sku": "ABC-1234", "count": 2, "color": "blue", "next": {"sku": "DEF-5678"}});
    let order = json!({ "lines": vec![line; lines] });
    let task = task(&specification("/orders", &item, &components), &json!({"body": {}}));
    (task, inputs([("body", order)]))
}
