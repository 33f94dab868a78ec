//! The order of keys in a document changes no byte of its requests.

use std::path::Path;
use std::sync::Arc;

use a2s::{Capability, InputLocation, StepAction, Task, TaskInputs, Template};
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use crate::request::{PreparedRequest, TaskContract, prepare_unchecked};

/// `value` with the members of every object in an order that `seed` chooses.
fn shuffle(value: &Value, seed: &mut u64) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| shuffle(item, seed)).collect(),
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            for at in (1..members.len()).rev() {
                *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                members.swap(at, (*seed >> 33) as usize % (at + 1));
            }
            let member = |(name, value): (&String, &Value)| (name.clone(), shuffle(value, seed));
            Value::Object(members.into_iter().map(member).collect())
        }
        other => other.clone(),
    }
}

/// A value for an input of a task: its template with one text for every variable.
fn fill(template: &Template) -> Value {
    let names = template.references().into_iter().map(|reference| reference.variable().to_owned());
    let variables: Map<String, Value> = names.map(|name| (name, json!("7"))).collect();
    template.render(&variables).unwrap_or_else(|_| json!("7"))
}

/// The requests of all tasks of a document, in the order of their ids. None for a task that the made-up
/// inputs do not fit.
fn prepare_all(content: &Value) -> Vec<(String, Option<PreparedRequest>)> {
    let compilation = a2s::compile(content.to_string().as_bytes());
    let document = compilation.document.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics));
    let mut prepared = Vec::new();
    let capability: &Capability = document.capability();
    capability.for_each_step(|step| {
        if let StepAction::Task { task, inputs, .. } = &step.action {
            prepared.push((step.id.to_string(), prepare_one(task, inputs)));
        }
    });
    prepared.sort_by(|a, b| a.0.cmp(&b.0));
    prepared
}

fn prepare_one(task: &Arc<Task>, inputs: &TaskInputs) -> Option<PreparedRequest> {
    let values: IndexMap<InputLocation, Value> =
        inputs.iter().map(|(place, template)| (place.clone(), fill(template))).collect();
    prepare_unchecked(&TaskContract::new(Arc::clone(task)), &values).ok()
}

#[test]
fn the_order_of_keys_changes_no_request_of_a_shipped_document() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capabilities");
    let (mut tasks, mut requests) = (0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let content = a2s::parse_value(&std::fs::read(&path).unwrap()).unwrap();
        let expected = prepare_all(&content);
        tasks += expected.len();
        requests += expected.iter().filter(|(_, request)| request.is_some()).count();
        for mut seed in 1..4 {
            let shuffled = prepare_all(&shuffle(&content, &mut seed));
            assert_eq!(shuffled, expected, "{}", path.display());
            // The order of headers is on the wire, too.
            assert_eq!(format!("{shuffled:?}"), format!("{expected:?}"), "{}", path.display());
        }
    }
    assert!(tasks >= 30 && requests * 10 >= tasks * 9, "{requests} requests of {tasks} tasks");
}
