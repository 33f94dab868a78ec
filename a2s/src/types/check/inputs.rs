//! Inputs: checks that a value mapped to a task may fit its location.

use serde_json::Value;

use super::TypeChecker;
use super::mismatch_message::{CheckedInput, describe_mismatch};
use super::references::check_reads;
use crate::diagnostic::Diagnostic;
use crate::document::{Step, TaskInputs, find_task_input};
use crate::error_code;
use crate::field_reader::CompileMode;
use crate::task::{
    BodyFormat, InputLocation, OpenApiTask, SchemaResolver, Task, find_key_conflict,
};
use crate::template::Template;
use crate::tree::TreeNode;
use crate::types::assignable::{MismatchReason, TypeMismatch, WireForm, find_mismatches};
use crate::types::{InferredType, JsonTypes, SchemaContext, variable_type};

/// The requirements of a location in a task.
struct InputTarget<'n> {
    expected_type: InferredType<'n>,
    form: WireForm,
    /// True when null is not a value there, and a value is needed.
    needed: bool,
}

/// Checks the inputs of a step with a task.
pub(super) fn check_inputs<'n>(
    checker: &mut TypeChecker<'n, '_>,
    step: &'n Step,
    task: &'n Task,
    inputs: &'n TaskInputs,
    node: &'n TreeNode<'n>,
) {
    for (place, template) in inputs {
        let Some((path, node)) = find_task_input(step, node, place) else { continue };
        check_reads(checker, template, node, &path);
        let Some(target) = find_target(checker, task, place) else { continue };
        let value = checker.names.template(template, &checker.scope);
        let mut found = find_mismatches(&value, &target.expected_type, target.form);
        if target.needed && found.is_empty() && *template == Template::Literal(Value::Null) {
            let wanted = target.expected_type.kinds().without(JsonTypes::NULL);
            let reason = MismatchReason::Kind { found: JsonTypes::NULL, wanted };
            found.push(TypeMismatch {
                path: Vec::new(),
                reason,
                certain: true,
                from_declaration: false,
            });
        }
        let is_known = !found.is_empty();
        if !is_known {
            found = find_schema_mismatches(checker, task, place, &value);
        }
        let input = CheckedInput { place, template, node, path: &path, form: target.form };
        for mismatch in found {
            let Some((finding, read)) = describe_mismatch(&input, &mismatch) else { continue };
            let finding = if is_known { finding } else { checker.mode.refuse_when_new(finding) };
            let sources = read.map_or_else(Vec::new, |read| checker.sources(read.variable()));
            checker.report(finding, sources);
        }
    }
    check_made_key(checker, step, task, inputs);
}

/// Reports an unmapped `Idempotency-Key` whose schema rejects every key that the executor makes: no run of
/// the step could succeed. A version that was published before is not rejected.
fn check_made_key(
    checker: &mut TypeChecker<'_, '_>,
    step: &Step,
    task: &Task,
    inputs: &TaskInputs,
) {
    let (Task::OpenApi(operation), Some(key)) = (task, task.idempotency_key()) else { return };
    if checker.mode == CompileMode::Final || inputs.keys().any(|place| key.is_at(place)) {
        return;
    }
    let schemas = SchemaResolver::OpenApi(operation);
    let resolve = |reference: &str| schemas.resolve(reference);
    let Some(rule) = find_key_conflict(&key.schema, &resolve) else { return };
    let place = key.input_location();
    let message = format!(
        "the executor makes a key of 36 characters for `{place}`, but the schema of the header rejects it (`{rule}`)"
    );
    let hint = format!(
        "Map `{place}` in `input_mapping` to a key that the service accepts, or correct the schema in the task."
    );
    let found = Diagnostic::error(error_code::WRONG_KIND, (&step.pointer, step.position), message);
    checker.report(checker.mode.refuse_when_new(found.with_hint(hint)), Vec::new());
}

/// The requirements of a location; `None` when they are not known.
fn find_target<'n>(
    checker: &TypeChecker<'n, '_>,
    task: &'n Task,
    place: &InputLocation,
) -> Option<InputTarget<'n>> {
    match (task, place) {
        (Task::OpenApi(task), InputLocation::Body) => body_target(checker, task),
        (Task::OpenApi(task), _) => {
            let book = SchemaContext { schemas: (&**task).into(), budget: checker.names.budget };
            let parameter = task.parameters.iter().find(|p| p.is_at(place))?;
            let form = match &parameter.content {
                None => WireForm::Text,
                Some(media_type) if media_type.is_json() => WireForm::Json,
                Some(_) => return None,
            };
            let takes = InferredType::from_schema(&parameter.schema, book);
            // Null is not sent.
            let takes = if parameter.required { takes } else { takes.or_null() };
            Some(InputTarget { expected_type: takes, form, needed: parameter.required })
        }
        (Task::Graphql(task), _) => {
            let mut variables = task.variables.iter();
            let variable = variables.find(|v| InputLocation::Variable(v.name.clone()) == *place)?;
            let takes = variable_type(&variable.kind);
            Some(InputTarget { expected_type: takes, form: WireForm::Json, needed: false })
        }
        (Task::Mcp(task), InputLocation::Argument(name)) => {
            let book = SchemaContext { schemas: task.inputs(), budget: checker.names.budget };
            let takes = InferredType::from_schema(task.argument_schema(name)?, book);
            Some(InputTarget { expected_type: takes, form: WireForm::Json, needed: false })
        }
        (Task::Mcp(_), _) => None,
    }
}

/// Returns the parts of a value that do not fit the type that the `schema` of a GraphQL task declares for a
/// variable: an enumeration or an input object. A version that was published before may contain them.
fn find_schema_mismatches<'n>(
    checker: &TypeChecker<'n, '_>,
    task: &'n Task,
    place: &InputLocation,
    value: &InferredType<'n>,
) -> Vec<TypeMismatch> {
    let (Task::Graphql(task), InputLocation::Variable(name)) = (task, place) else {
        return Vec::new();
    };
    if checker.mode == CompileMode::Final {
        return Vec::new();
    }
    let variable = task.variables.iter().find(|variable| variable.name == *name);
    let Some(variable) = variable.filter(|variable| names_type_of_schema(&variable.schema)) else {
        return Vec::new();
    };
    let schemas = SchemaResolver::Definitions(&task.definitions);
    let book = SchemaContext { schemas, budget: checker.names.budget };
    let accepted = InferredType::from_schema(&variable.schema, book);
    find_mismatches(value, &accepted, WireForm::Json)
}

/// Returns true when the schema of a variable contains a type that only the schema of the service defines.
fn names_type_of_schema(schema: &Value) -> bool {
    let below = |key: &str| match schema.get(key) {
        Some(Value::Array(parts)) => parts.iter().any(names_type_of_schema),
        Some(part) => names_type_of_schema(part),
        None => false,
    };
    schema.get("$ref").is_some() || schema.get("enum").is_some() || below("anyOf") || below("items")
}

fn body_target<'n>(
    checker: &TypeChecker<'n, '_>,
    task: &'n OpenApiTask,
) -> Option<InputTarget<'n>> {
    let body = task.body.as_ref()?;
    let form = match body.format {
        BodyFormat::Json => WireForm::Json,
        BodyFormat::Form | BodyFormat::Multipart => WireForm::Fields,
        BodyFormat::Text | BodyFormat::Other => return None,
    };
    let takes = InferredType::from_schema(
        &body.schema,
        SchemaContext { schemas: task.into(), budget: checker.names.budget },
    );
    // Null is not sent.
    let takes = if body.required { takes } else { takes.or_null() };
    Some(InputTarget { expected_type: takes, form, needed: body.required })
}
