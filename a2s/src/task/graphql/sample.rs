//! Sample responses, built from the selections of a query.

use std::collections::BTreeSet;

use jsonpath_rust::parser::model::{Segment, Selector};
use serde_json::{Map, Value, json};

use super::selection::FieldSelection;
use super::{GraphqlTask, MAX_DEPTH};
use crate::query::JsonPathQuery;

/// A path of names from the top of a response.
type Spot = Vec<String>;

impl GraphqlTask {
    /// A sample response with everything that the query selects, always the same one. A query does not
    /// state types: each field without selections of its own gets its name as a text, and there are lists
    /// of one item where `queries` look for lists. `None` when the query cannot be read.
    #[must_use]
    pub fn sample<'q>(
        &self,
        queries: impl IntoIterator<Item = &'q JsonPathQuery>,
    ) -> Option<Value> {
        let selection = self.selection()?;
        let lists = queries.into_iter().flat_map(|query| lists_of(&query.segments())).collect();
        Some(json!({ "data": below(&selection, &mut vec!["data".to_owned()], &lists) }))
    }
}

/// Returns the locations where a query expects a list: before each index, wildcard, slice or filter.
fn lists_of(segments: &[Segment]) -> BTreeSet<Spot> {
    let mut lists = BTreeSet::new();
    let mut spot = Spot::new();
    for segment in segments {
        match segment {
            Segment::Selector(Selector::Name(name)) => spot.push(name.clone()),
            Segment::Selector(_) => {
                lists.insert(spot.clone());
            }
            // The selected values may be anywhere.
            Segment::Selectors(_) | Segment::Descendant(_) => break,
        }
    }
    lists
}

fn below(selection: &FieldSelection, spot: &mut Spot, lists: &BTreeSet<Spot>) -> Value {
    let mut members = Map::new();
    for name in selection.names() {
        spot.push(name.clone());
        let value = match selection.below(&name) {
            Some(selection) if spot.len() <= MAX_DEPTH => below(&selection, spot, lists),
            Some(_) => Value::Null,
            None => json!(name),
        };
        let value = if lists.contains(spot) { json!([value]) } else { value };
        spot.pop();
        members.insert(name, value);
    }
    Value::Object(members)
}

#[cfg(test)]
mod tests {
    use crate::document::{OutputMapping, StepAction};

    #[track_caller]
    fn check(query: &str, outputs: &str, expected: &str) {
        let document = format!(
            "a2s: 1.1.0\nname: A\ndescription: a\ndomains: [a.example]\nversion: 1.0.0\nauthors: [{{name: A}}]\n\
             execution:\n  type: sequence\n  steps:\n    - id: a\n      format: GraphQL\n\
             \x20     task: {{endpoint: \"https://a.example\", query: \"{query}\"}}\n      output_mapping: {outputs}\n"
        );
        let document = crate::compile(document.as_bytes()).document.unwrap();
        let block = &document.capability().execution;
        let StepAction::Task { task, outputs, .. } = &block.children()[0].action else { panic!() };
        let crate::Task::Graphql(task) = &**task else { panic!() };
        assert_eq!(
            task.sample(outputs.iter().filter_map(OutputMapping::query)).unwrap().to_string(),
            expected
        );
    }

    #[test]
    fn graphql_sample_has_aliases_and_lists() {
        check("{ a b: c { d } }", "{x: $.data.a}", r#"{"data":{"a":"a","b":{"d":"d"}}}"#);
        check(
            "{ rows { id tags } ...F } fragment F on Q { rows { name } }",
            "{x: \"$.data.rows[*].tags[0]\", y: \"$.data.rows[?@.id == 'id'].name\"}",
            r#"{"data":{"rows":[{"id":"id","tags":["tags"],"name":"name"}]}}"#,
        );
        check("{ rows { id } }", "{x: \"$..id\"}", r#"{"data":{"rows":{"id":"id"}}}"#);
    }
}
