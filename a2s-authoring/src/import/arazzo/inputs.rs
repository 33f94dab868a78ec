//! Values for the operation of a step.

use a2s::ValueType;
use serde_json::{Map, Value, json};

use super::value_scope::WorkflowScope;
use crate::import::openapi::{ExtractedOperation, OperationBody, ParameterIn};
use crate::import::ref_resolver::{RefResolver, quote_for_message};
use crate::import::variable::DocumentParameter;
use crate::naming;

/// Returns name, location and value of the parameters of a step and of its workflow. Those of the step have
/// precedence.
pub(super) fn parameters_of<'v>(
    source: RefResolver<'v>,
    workflow: &'v Value,
    step: &'v Value,
) -> Vec<(&'v str, Option<&'v str>, &'v Value)> {
    let mut parameters: Vec<(&str, Option<&str>, &Value)> = Vec::new();
    for owner in [step, workflow] {
        let list = owner.get("parameters").and_then(Value::as_array);
        for raw in list.into_iter().flatten() {
            let component = raw.get("reference").and_then(Value::as_str).and_then(|reference| {
                let name = reference.strip_prefix("$components.parameters.")?;
                source.get("components")?.get("parameters")?.get(name)
            });
            let field = |key: &str| {
                let own = raw.get(key);
                own.or_else(|| component.and_then(|component| component.get(key)))
            };
            let (Some(name), Some(value)) = (field("name").and_then(Value::as_str), field("value"))
            else {
                continue;
            };
            let place = field("in").and_then(Value::as_str);
            if !parameters.iter().any(|(known, at, _)| *known == name && *at == place) {
                parameters.push((name, place, value));
            }
        }
    }
    parameters
}

/// Builds the `input_mapping` of a task.
pub(super) fn task_inputs<'a>(
    cut: &ExtractedOperation<'a>,
    parameters: &[(&str, Option<&str>, &Value)],
    raw: &Value,
    id: &str,
    at: &str,
    scope: &mut WorkflowScope<'a>,
) -> Map<String, Value> {
    let mut inputs = Map::new();
    let mut given = Vec::new();
    for (name, place, value) in parameters {
        let declared = cut.parameters().iter().find(|parameter| {
            parameter.is_called(name)
                && place.is_none_or(|place| parameter.location.as_str() == place)
        });
        let Some(parameter) = declared else {
            let name = quote_for_message(name);
            let reason = match place.filter(|place| ParameterIn::from_name(place).is_none()) {
                Some(place) => format!(
                    "a parameter in `{}` is not supported; the import drops `{name}`",
                    quote_for_message(place)
                ),
                None => format!("the operation has no parameter `{name}`; the import drops it"),
            };
            scope.add_warning(at, reason);
            continue;
        };
        let wanted = parameter.variable(cut.source(), naming::variable_name(name));
        let fallback = format!("{id}_{}", wanted.name);
        let value = scope.value(value, Some(&wanted), &fallback, at);
        let group = inputs.entry(parameter.location.mapping_group()).or_insert_with(|| json!({}));
        group[parameter.name.as_str()] = value;
        given.push((parameter.location, parameter.name.clone()));
    }
    for parameter in cut.parameters() {
        let is_given = given
            .iter()
            .any(|(place, name)| *place == parameter.location && *name == parameter.name);
        if is_given || !parameter.required {
            continue;
        }
        let value = match &parameter.constant {
            Some(constant) => json!(constant.replace("${", "$${")),
            None => {
                let plain = naming::variable_name(&parameter.name);
                let names = [plain.clone(), format!("{id}_{plain}")];
                let name = scope.add_input(&names, |name| parameter.variable(cut.source(), name));
                scope.add_warning(at, format!("the operation requires `{}`, which the step does not set; it became an input", quote_for_message(&parameter.name)));
                json!(format!("${{{name}}}"))
            }
        };
        let group = inputs.entry(parameter.location.mapping_group()).or_insert_with(|| json!({}));
        group[parameter.name.as_str()] = value;
    }
    if let Some(body) = body_input(cut, raw, id, at, scope) {
        inputs.insert("body".to_owned(), body);
    }
    inputs
}

fn body_input<'a>(
    cut: &ExtractedOperation<'a>,
    raw: &Value,
    id: &str,
    at: &str,
    scope: &mut WorkflowScope<'a>,
) -> Option<Value> {
    let given = raw.get("requestBody");
    let Some(body) = cut.body() else {
        if given.is_some() {
            scope.add_warning(at, "the operation does not accept a body; the import drops it");
        }
        return None;
    };
    let payload = given.and_then(|given| given.get("payload"));
    let (variables, _) = body.plan(cut.source(), 0, &mut naming::UsedNames::default());
    let whole = variables.into_iter().next()?;
    let Some(payload) = payload else {
        if !body.is_required() {
            return None;
        }
        let names = ["body".to_owned(), format!("{id}_body")];
        let name = scope.add_input(&names, |name| DocumentParameter { name, ..whole.clone() });
        scope.add_warning(
            at,
            "the operation requires a body, which the step does not set; it became an input",
        );
        return Some(json!(format!("${{{name}}}")));
    };
    // A text that is entirely JSON means its value.
    let parsed = payload.as_str().filter(|text| text.trim_start().starts_with(['{', '[']));
    let parsed: Option<Value> = parsed.and_then(|text| serde_json::from_str(text).ok());
    let mut payload = parsed.unwrap_or_else(|| payload.clone());
    replace(&mut payload, given, at, scope);
    let fallback = format!("{id}_body");
    let written = match &payload {
        Value::Object(_) => Some(ValueType::Object),
        Value::Array(_) => Some(ValueType::Array),
        _ => None,
    };
    if let (Some(written), Some(wanted)) = (written, whole.kind)
        && written != wanted
    {
        let input =
            scope.add_input(&[fallback], |name| DocumentParameter { name, ..whole.clone() });
        let (written, wanted) = (written.describe(), wanted.describe());
        scope.add_warning(at, format!("the payload is {written}, but the operation accepts {wanted}; `{input}` became an input instead"));
        return Some(json!(format!("${{{input}}}")));
    }
    let Value::Object(members) = &payload else {
        return Some(scope.value(&payload, Some(&whole), &fallback, at));
    };
    Some(fill_members(cut, body, members, id, at, scope))
}

/// Fills the members of a body: those of the payload, and an input for each other one that it requires.
fn fill_members<'a>(
    cut: &ExtractedOperation<'a>,
    body: &OperationBody<'a>,
    members: &Map<String, Value>,
    id: &str,
    at: &str,
    scope: &mut WorkflowScope<'a>,
) -> Value {
    let mut filled = Map::new();
    for (name, value) in members {
        let wanted = body.property(cut.source(), name);
        if wanted.is_none() && body.forbids(cut.source(), name) {
            scope.add_warning(
                at,
                format!(
                    "the body does not accept a member `{}`; the import drops it",
                    quote_for_message(name)
                ),
            );
            continue;
        }
        let fallback = format!("{id}_{}", naming::variable_name(name));
        filled.insert(name.clone(), scope.value(value, wanted.as_ref(), &fallback, at));
    }
    for (name, wanted) in body.required(cut.source()) {
        if members.contains_key(name) {
            continue;
        }
        let plain = naming::variable_name(name);
        let names = [plain.clone(), format!("{id}_{plain}")];
        let input = scope.add_input(&names, |name| DocumentParameter { name, ..wanted.clone() });
        scope.add_warning(
            at,
            format!(
                "the body requires `{}`, which the step does not set; it became an input",
                quote_for_message(name)
            ),
        );
        filled.insert(name.to_owned(), json!(format!("${{{input}}}")));
    }
    Value::Object(filled)
}

/// Applies the replacements of a request body to its payload.
fn replace(payload: &mut Value, body: Option<&Value>, at: &str, scope: &mut WorkflowScope<'_>) {
    let list = body.and_then(|body| body.get("replacements")).and_then(Value::as_array);
    for replacement in list.into_iter().flatten() {
        let target = replacement.get("target").and_then(Value::as_str).unwrap_or_default();
        let value = replacement.get("value").cloned().unwrap_or_default();
        if let Some(place) = payload.pointer_mut(target) {
            *place = value;
            continue;
        }
        let parent = target
            .rsplit_once('/')
            .and_then(|(parent, name)| Some((payload.pointer_mut(parent)?.as_object_mut()?, name)));
        match parent {
            Some((members, name)) => {
                members.insert(name.replace("~1", "/").replace("~0", "~"), value);
            }
            None => scope.add_warning(
                at,
                format!("the payload has no location `{}`", quote_for_message(target)),
            ),
        }
    }
}
