//! Outputs of GraphQL steps, as the schema of the service declares them.

use crate::document::{OutputSource, TaskStep};
use jsonpath_rust::parser::model::{Segment, Selector};
use serde_json::Value;

use crate::task::Task;
use crate::types::TypeEnv;

/// Returns the schema of a variable that one GraphQL step sets from its response; `None` when the task does
/// not have a `schema`, or the output is not a simple path in the data.
pub(super) fn declared_output(names: &TypeEnv<'_>, variable: &str) -> Option<Value> {
    let (step, output) = names.only_output(variable)?;
    let TaskStep { task, .. } = step.action.as_task()?;
    let (Task::Graphql(task), OutputSource::Body(query)) = (&**task, &output.source) else {
        return None;
    };
    if output.default.is_some() || task.data.is_null() || !query.is_singular() {
        return None;
    }
    let segments = query.segments();
    let (first, below) = segments.split_first()?;
    if !matches!(first, Segment::Selector(Selector::Name(name)) if name == "data") {
        return None;
    }
    let found = below.iter().try_fold(&task.data, |at, segment| match segment {
        Segment::Selector(Selector::Name(name)) => at.get("properties")?.get(name),
        Segment::Selector(Selector::Index(_)) => at.get("items"),
        _ => None,
    });
    found.cloned()
}
