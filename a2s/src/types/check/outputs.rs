//! Outputs: checks that each JSONPath may match the declared response, and that set values fit their
//! declarations.

use crate::document::{OutputMapping, OutputSource, Step, TaskStep};
use jsonpath_rust::parser::model::{Segment, Selector};

use super::{TypeChecker, names_there};
use crate::diagnostic::{Diagnostic, SourcePosition};
use crate::error_code;
use crate::query::JsonPathQuery;
use crate::task::Task;
use crate::tree::{NodeValue, TreeNode, member_path};
use crate::types::type_path::PathNotFound;
use crate::types::{InferredType, JsonTypes, LoopScope};

/// Warns of outputs that the declared response of a task never contains.
pub(super) fn check_outputs<'n>(
    checker: &mut TypeChecker<'n, '_>,
    step: &'n Step,
    node: &'n TreeNode<'n>,
) {
    for output in step.action.outputs() {
        let OutputSource::Body(query) = &output.source else { continue };
        let answer = checker.names.answer(step);
        if answer.is_unknown() {
            return;
        }
        if let Err(leaves) = answer.select(&query.segments()) {
            report_missing_path(checker, step, node, output, query, &answer, &leaves);
        }
    }
}

fn report_missing_path<'n>(
    checker: &mut TypeChecker<'n, '_>,
    step: &'n Step,
    node: &'n TreeNode<'n>,
    output: &OutputMapping,
    query: &JsonPathQuery,
    answer: &InferredType<'n>,
    leaves: &PathNotFound,
) {
    let segments = query.segments();
    let walked: String = segments.iter().take(leaves.matched_keys).map(write_segment).collect();
    let missed = segments.get(leaves.matched_keys);
    let name = match missed {
        Some(Segment::Selector(Selector::Name(name))) => Some(name.as_str()),
        _ => None,
    };
    let Some(TaskStep { task, .. }) = step.action.as_task() else { return };
    let is_query = matches!(**task, Task::Graphql(_));
    let miss = missed.map(write_segment).unwrap_or_default();
    let miss = miss.trim_start_matches('.');
    let source = query.source();
    let needed = match missed {
        Some(Segment::Selector(Selector::Index(_) | Selector::Slice(..))) => JsonTypes::ARRAY,
        _ => JsonTypes::OBJECT,
    };
    let (message, hint) = if leaves.kinds.overlaps(needed) {
        let whose = if is_query { "the query selects" } else { "the response declares" };
        let message = format!("`{source}` finds nothing: {whose} no `{miss}` at `${walked}`");
        (message, names_there(leaves, name))
    } else {
        let kinds = leaves.kinds;
        let message =
            format!("`{source}` finds nothing: the response declares `${walked}` as {kinds}");
        let first = format!(
            "Select one item of the list with `${walked}[0]`, or all items with `${walked}[*]`."
        );
        (message, (kinds == JsonTypes::ARRAY && name.is_some()).then_some(first))
    };
    let data = [Segment::name("data")].into_iter().chain(segments.iter().cloned());
    let hint = if is_query && walked.is_empty() && answer.select(&data.collect::<Vec<_>>()).is_ok()
    {
        Some(format!("Did you mean `$.data{}`?", source.trim_start_matches('$')))
    } else {
        hint
    };
    let hint = match hint {
        Some(hint) if hint.ends_with('?') => hint,
        Some(hint) => format!("{hint} {}", error_code::QUERY_MISS.remedy),
        None => error_code::QUERY_MISS.remedy.to_owned(),
    };
    let (path, position) = output_site(step, node, output);
    let found = Diagnostic::error(error_code::QUERY_MISS, (path, position), message);
    let declared =
        find_declaration(checker.root, node, task).map(|at| (at, "declared here".to_owned()));
    checker.report(found.into_warning().with_hint(hint), declared.into_iter().collect());
}

/// The position of the response declaration in a step's task.
fn find_declaration(
    root: &TreeNode<'_>,
    step: &TreeNode<'_>,
    task: &Task,
) -> Option<SourcePosition> {
    let mut node = step.get("task").or_else(|| step.get("definition"))?;
    if let Some(name) = node.get("$ref").and_then(TreeNode::as_str) {
        let name = name.strip_prefix("#/tasks/")?.replace("~1", "/").replace("~0", "~");
        node = root.get("tasks")?.get(&name)?;
    }
    match task {
        Task::Graphql(_) => Some(node.member("query")?.position),
        Task::Mcp(_) => Some(node.member("outputSchema")?.position),
        Task::OpenApi(task) => {
            let item = node.get("paths")?.get(&task.path)?;
            let operation = item.get(&task.method.as_str().to_ascii_lowercase())?;
            Some(operation.member("responses")?.position)
        }
    }
}

/// Warns of outputs that set a shared variable to a value of another type.
pub(super) fn check_shared(checker: &mut TypeChecker<'_, '_>) {
    let names = checker.names;
    for (name, kind) in &names.capability.variables {
        for setter in names.bindings(name) {
            let sets_member = setter.output.name.len() > 1;
            let value = match sets_member {
                true => JsonTypes::OBJECT,
                false => names
                    .visible_type(setter, &LoopScope::default())
                    .kinds()
                    .without(JsonTypes::NULL),
            };
            if value.is_empty() || value.overlaps((*kind).into()) {
                continue;
            }
            let Some(node) = checker.root.at(&setter.step.pointer) else { continue };
            let (path, position) = output_site(setter.step, node, setter.output);
            let declared = kind.describe();
            let message = match sets_member {
                true => {
                    format!("`{name}` is declared as {declared}, but this makes it {value}")
                }
                false => format!("`{name}` is declared as {declared}, but this is {value}"),
            };
            let hint = "Declare the type of the value, or set another name.";
            let found = Diagnostic::error(error_code::WRONG_TYPE, (path, position), message);
            let shared = checker.root.at("execution.variables.shared");
            let declared = shared.and_then(|shared| shared.member(name));
            let declared = declared.map(|member| (member.position, "declared here".to_owned()));
            checker.report(found.into_warning().with_hint(hint), declared.into_iter().collect());
        }
    }
}

/// The location of an output's query or source.
fn output_site(
    step: &Step,
    node: &TreeNode<'_>,
    output: &OutputMapping,
) -> (String, SourcePosition) {
    let mapping = member_path(&step.pointer, "output_mapping");
    let name = output.dotted();
    let path = member_path(&mapping, &name);
    let Some(member) = node.get("output_mapping").and_then(|mapping| mapping.member(&name)) else {
        return (path, step.position);
    };
    match (&member.value.kind, member.value.get("path")) {
        (NodeValue::Object(_), Some(query)) => (member_path(&path, "path"), query.position),
        (NodeValue::Object(_), None) => (path, member.position),
        _ => (path, member.value.position),
    }
}

/// Writes a segment in the syntax of queries.
fn write_segment(segment: &Segment) -> String {
    let write = |selector: &Selector| match selector {
        Selector::Name(name) => format!("'{name}'"),
        Selector::Index(index) => index.to_string(),
        Selector::Wildcard => "*".to_owned(),
        Selector::Slice(..) => "…:…".to_owned(),
        Selector::Filter(_) => "?…".to_owned(),
    };
    match segment {
        Segment::Selector(Selector::Name(name))
            if name.chars().all(|c| c.is_alphanumeric() || c == '_') =>
        {
            format!(".{name}")
        }
        Segment::Selector(selector) => format!("[{}]", write(selector)),
        Segment::Selectors(selectors) => {
            format!("[{}]", selectors.iter().map(write).collect::<Vec<_>>().join(", "))
        }
        Segment::Descendant(inner) => format!("..{}", write_segment(inner).trim_start_matches('.')),
    }
}
