//! One step of a workflow.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::criteria::{self, Criterion};
use super::expression::Expression;
use super::scope::{Outputs, Scope};
use super::{Importer, actions};
use crate::author::import::jsonpath;
use crate::author::import::openapi::{Cut, Flaw, Operation, operations};
use crate::author::import::source::{Source, shown};
use crate::author::import::variable::Variable;
use crate::author::names;
use crate::document::ValueType;

/// A step of a document, before its task is written.
pub(super) struct Step<'a> {
    /// Its id in the document, which is also the variable that holds its outputs.
    pub(super) id: String,
    /// Its id in the workflow.
    own_id: &'a str,
    pub(super) action: Action<'a>,
    pub(super) inputs: Map<String, Value>,
    /// The outputs, by name: how each is taken, and whether it can be missing.
    outputs: Vec<(String, Taken)>,
    pub(super) retry: Option<Value>,
    /// What must hold afterwards for the next step to run, and the id of the step that checks it.
    pub(super) condition: Option<(String, String)>,
}

pub(super) enum Action<'a> {
    Task(Box<Cut<'a>>),
    Capability { name: String, dependency: Value, domains: Vec<String> },
}

/// How an output is taken.
enum Taken {
    Body(String),
    Header(String),
    Status,
}

impl<'a> Step<'a> {
    pub(super) fn read(
        importer: &Importer<'a>,
        workflow: &'a Value,
        raw: &'a Value,
        scope: &mut Scope<'a>,
    ) -> Result<Self, Flaw> {
        let own_id = raw.get("stepId").and_then(Value::as_str).unwrap_or_default();
        let place = format!("steps.{}", shown(own_id));
        let plain = names::variable_name(if own_id.is_empty() { "step" } else { own_id });
        let id = scope.taken.take_one_of(&[plain.clone(), format!("step_{plain}")]);
        let mut step = Self {
            id,
            own_id,
            action: Action::find(importer, raw, &place)?,
            inputs: Map::new(),
            outputs: Vec::new(),
            retry: None,
            condition: None,
        };
        let parameters = parameters_of(importer.source, workflow, raw);
        match &step.action {
            Action::Task(cut) => {
                step.inputs = task_inputs(cut, &parameters, raw, &step.id, &place, scope);
                step.retry = actions::retry(importer.source, raw, workflow, &place, scope);
            }
            Action::Capability { .. } => {
                let used = raw.get("workflowId").and_then(Value::as_str).unwrap_or_default();
                let known = importer.used(used).map(|used| &used.inputs);
                for (name, _, value) in &parameters {
                    let Some(input) = known.and_then(|known| known.get(*name)) else {
                        let told = format!("the workflow takes no input `{}`", shown(name));
                        scope.remark(&place, told);
                        continue;
                    };
                    let value =
                        scope.value(value, Some(input), &format!("{}_{name}", step.id), &place);
                    step.inputs.insert(input.name.clone(), value);
                }
            }
        }
        step.read_outputs(importer, raw, &place, scope);
        step.read_criteria(raw, &place, scope);
        Ok(step)
    }

    fn read_outputs(
        &mut self,
        importer: &Importer<'a>,
        raw: &'a Value,
        place: &str,
        scope: &mut Scope<'a>,
    ) {
        let mut known = Outputs::default();
        let mut taken = names::Taken::default();
        let declared = raw.get("outputs").and_then(Value::as_object);
        for (name, text) in declared.into_iter().flatten() {
            let text = text.as_str().unwrap_or_default();
            let expression = Expression::parse_output(text);
            if let Some(Expression::Input(_) | Expression::StepOutput { .. }) = expression {
                // Another name of something that is known already.
                match scope.reference(text, None, place) {
                    Ok(reference) => {
                        known.read.insert(name.clone(), reference);
                    }
                    Err(reason) => scope.remark(place, format!("`{}` {reason}", shown(text))),
                }
                continue;
            }
            let Some(how) = self.output(expression, importer, raw, place, scope) else {
                let told = format!(
                    "the output `{}` is `{}`, which cannot be carried over",
                    shown(name),
                    shown(text)
                );
                scope.remark(place, told);
                continue;
            };
            let kind = match (&self.action, expression, &how) {
                (Action::Task(cut), Some(Expression::Body(pointer)), Taken::Body(_)) => {
                    let tokens = pointer.strip_prefix('/').map(|rest| rest.split('/'));
                    let tokens: Vec<&str> = tokens.into_iter().flatten().collect();
                    cut.kind_at(&tokens)
                }
                _ => None,
            };
            known.kinds.extend(kind.map(|kind| (name.clone(), kind)));
            let member = taken.take(&names::variable_name(name));
            known.read.insert(name.clone(), format!("{}.{member}", self.id));
            self.outputs.push((member, how));
        }
        // Outputs of a used workflow may be read without being declared again.
        if let Action::Capability { .. } = self.action {
            let used = raw.get("workflowId").and_then(Value::as_str).unwrap_or_default();
            for (name, member) in importer.used(used).into_iter().flat_map(|used| &used.outputs) {
                if known.read.contains_key(name) {
                    continue;
                }
                let own = taken.take(&names::variable_name(name));
                known.read.insert(name.clone(), format!("{}.{own}", self.id));
                let query = jsonpath::of_member(member).unwrap_or_else(|| "$".to_owned());
                self.outputs.push((own, Taken::Body(query)));
            }
        }
        scope.add_step(self.own_id, known);
    }

    fn output(
        &self,
        expression: Option<Expression<'_>>,
        importer: &Importer<'a>,
        raw: &'a Value,
        place: &str,
        scope: &mut Scope<'a>,
    ) -> Option<Taken> {
        match (&self.action, expression?) {
            (Action::Task(cut), Expression::Body(pointer)) => {
                query(cut, pointer, place, scope).map(Taken::Body)
            }
            (Action::Task(_), Expression::Header(name)) => {
                let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
                let fits = name.len() <= 100 && name.chars().all(token);
                fits.then(|| Taken::Header(name.to_owned()))
            }
            (Action::Task(_), Expression::Status) => Some(Taken::Status),
            (Action::Capability { .. }, Expression::WorkflowOutput(name)) => {
                let used = raw.get("workflowId").and_then(Value::as_str).unwrap_or_default();
                let member = importer.used(used)?.outputs.get(name)?;
                jsonpath::of_member(member).map(Taken::Body)
            }
            _ => None,
        }
    }

    /// Reads the success criteria. What they look at in the answer becomes outputs of the step.
    fn read_criteria(&mut self, raw: &'a Value, place: &str, scope: &mut Scope<'a>) {
        let mut conditions = Vec::new();
        let criteria = raw.get("successCriteria").and_then(Value::as_array);
        for raw in criteria.into_iter().flatten() {
            let mut looked_at: Vec<(String, Taken)> = Vec::new();
            let criterion = criteria::read(raw, |text| {
                let how = match (&self.action, Expression::parse_output(text)) {
                    (Action::Task(cut), Some(Expression::Body(pointer))) => {
                        query(cut, pointer, place, scope).map(Taken::Body)
                    }
                    (Action::Task(_), Some(Expression::Header(name))) => {
                        Some(Taken::Header(name.to_owned()))
                    }
                    (Action::Task(_), Some(Expression::Status)) => Some(Taken::Status),
                    (_, Some(Expression::Input(_) | Expression::StepOutput { .. })) => {
                        return scope.reference(text, None, place);
                    }
                    _ => None,
                };
                let how = how.ok_or_else(|| format!("`{}` is not known there", shown(text)))?;
                let member = format!("criterion{}", self.outputs.len() + looked_at.len() + 1);
                let reference = format!("{}.{member}", self.id);
                looked_at.push((member, how));
                Ok(reference)
            });
            match criterion {
                // A step fails by any other status than success.
                Criterion::Status(met) if met.iter().any(|status| *status < 300) => {}
                Criterion::Status(_) => {
                    scope.remark(
                        place,
                        "a step succeeds with a status of 2xx only; its criterion asks for another",
                    );
                }
                Criterion::Condition(condition) => {
                    self.outputs.extend(looked_at);
                    conditions.push(condition);
                }
                Criterion::Other(reason) => {
                    let condition =
                        raw.get("condition").and_then(Value::as_str).unwrap_or_default();
                    let told = format!(
                        "the criterion `{}` is not carried over: {reason}",
                        shown(condition)
                    );
                    scope.remark(place, told);
                }
            }
        }
        let condition = match conditions.len() {
            0 => return,
            1 => conditions.remove(0),
            _ => conditions.iter().map(|c| format!("({c})")).collect::<Vec<_>>().join(" && "),
        };
        self.condition = Some((condition, scope.taken.take(&format!("{}-met", self.id))));
    }

    /// The outputs as the document has them. Those that no later step reads may be missing; when
    /// the workflow has outputs of its own, those that nothing reads are left out.
    pub(super) fn output_mapping(&self, scope: &Scope<'_>, has_output: bool) -> Map<String, Value> {
        let known = scope.outputs_of(self.own_id);
        let is_among = |names: &BTreeSet<String>, member: &str| {
            let reference = format!("{}.{member}", self.id);
            let mut read = names.iter().filter_map(|name| known?.read.get(name));
            read.any(|read| *read == reference)
        };
        let is_needed = |member: &str| known.is_some_and(|known| is_among(&known.needed, member));
        let is_kept = |(member, _): &&(String, Taken)| {
            let is_used = known.is_some_and(|known| is_among(&known.used, member));
            let in_condition = self.condition.as_ref();
            let is_checked = in_condition.is_some_and(|(condition, _)| {
                condition.contains(&format!("${{{}.{member}}}", self.id))
            });
            !has_output || is_used || is_checked
        };
        let output = |(member, how): &(String, Taken)| {
            let value = match how {
                Taken::Body(query) if query == "$" || is_needed(member) => json!(query),
                Taken::Body(query) => json!({ "path": query, "optional": true }),
                Taken::Header(name) => json!({ "from": "header", "path": name, "optional": true }),
                Taken::Status => json!({ "from": "status" }),
            };
            (format!("{}.{member}", self.id), value)
        };
        self.outputs.iter().filter(is_kept).map(output).collect()
    }
}

impl<'a> Action<'a> {
    fn find(importer: &Importer<'a>, raw: &'a Value, place: &str) -> Result<Self, Flaw> {
        let text = |key: &str| raw.get(key).and_then(Value::as_str);
        if let Some(id) = text("workflowId") {
            let Some(used) = importer.used(id) else {
                let reason = format!("it uses the workflow `{}`, which is not imported", shown(id));
                return Err(Flaw::new(place, reason));
            };
            let name = used.document.name.clone();
            let checksum = used.document.checksum;
            let dependency =
                json!({ "capability": name, "version": "^1.0.0", "checksum": checksum });
            return Ok(Self::Capability { name, dependency, domains: used.domains.clone() });
        }
        let (operation, base) = match (text("operationId"), text("operationPath")) {
            (Some(id), _) => by_id(importer, id),
            (None, Some(path)) => by_path(importer, path),
            (None, None) => return Err(Flaw::new(place, "it names no operation and no workflow")),
        }
        .ok_or_else(|| {
            let named = text("operationId").or_else(|| text("operationPath")).unwrap_or_default();
            Flaw::new(
                place,
                format!("no description that could be read has the operation `{}`", shown(named)),
            )
        })?;
        let body = raw.get("requestBody");
        let media_type = body.and_then(|body| body.get("contentType")).and_then(Value::as_str);
        let cut = Cut::of(operation, None, base, media_type).map_err(|flaw| Flaw {
            place: format!("{place}: {}", flaw.place),
            hint: None,
            ..flaw
        })?;
        Ok(Self::Task(Box::new(cut)))
    }
}

/// An operation, and where its description was read from.
type Found<'a> = (Operation<'a>, Option<&'a url::Url>);

fn by_id<'a>(importer: &Importer<'a>, id: &str) -> Option<Found<'a>> {
    // `$sourceDescriptions.NAME.ID`, or the id alone.
    let (source, id) = match id.strip_prefix("$sourceDescriptions.") {
        Some(rest) => {
            let (source, id) = rest.split_once('.')?;
            (Some(source), id)
        }
        None => (None, id),
    };
    find(importer, source, |operation| operation.id() == Some(id))
}

fn by_path<'a>(importer: &Importer<'a>, path: &str) -> Option<Found<'a>> {
    let (source, pointer) = path.split_once('#')?;
    let named = source.trim_start_matches("{$sourceDescriptions.").trim_end_matches(".url}");
    let known = importer.sources.contains_key(named).then_some(named);
    let (path, method) = pointer.strip_prefix("/paths/")?.rsplit_once('/')?;
    let decoded = percent_encoding(path).replace("~1", "/").replace("~0", "~");
    let plain = path.replace("~1", "/").replace("~0", "~");
    find(importer, known, |operation| {
        operation.method == method && (operation.path == plain || operation.path == decoded)
    })
}

/// `%7B` in a pointer is `{`, and `%7D` is `}`: what paths have and addresses must not.
fn percent_encoding(path: &str) -> String {
    let braces = [("%7B", "{"), ("%7b", "{"), ("%7D", "}"), ("%7d", "}"), ("%20", " ")];
    braces.iter().fold(path.to_owned(), |path, (code, letter)| path.replace(code, letter))
}

fn find<'a>(
    importer: &Importer<'a>,
    source: Option<&str>,
    is_meant: impl Fn(&Operation<'_>) -> bool,
) -> Option<Found<'a>> {
    let sources = importer.sources.iter();
    let mut sources = sources.filter(|(name, _)| source.is_none_or(|source| *name == source));
    sources.find_map(|(_, source)| {
        let (operations, _) = operations(Source::new(&source.description));
        let operation = operations.into_iter().find(|operation| is_meant(operation))?;
        Some((operation, source.base.as_ref()))
    })
}

/// Name, place and value of the parameters of a step and of its workflow; those of the step win.
fn parameters_of<'v>(
    source: Source<'v>,
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

/// The `input_mapping` of a task.
fn task_inputs<'a>(
    cut: &Cut<'a>,
    parameters: &[(&str, Option<&str>, &Value)],
    raw: &Value,
    id: &str,
    at: &str,
    scope: &mut Scope<'a>,
) -> Map<String, Value> {
    let mut inputs = Map::new();
    let mut given = Vec::new();
    for (name, place, value) in parameters {
        let declared = cut.parameters().iter().find(|parameter| {
            parameter.is_called(name) && place.is_none_or(|place| parameter.place.word() == place)
        });
        let Some(parameter) = declared else {
            scope.remark(
                at,
                format!("the operation takes no parameter `{}`; it is not sent", shown(name)),
            );
            continue;
        };
        let wanted = parameter.variable(cut.source(), names::variable_name(name));
        let fallback = format!("{id}_{}", wanted.name);
        let value = scope.value(value, Some(&wanted), &fallback, at);
        let group = inputs.entry(parameter.place.group()).or_insert_with(|| json!({}));
        group[parameter.name.as_str()] = value;
        given.push((parameter.place, parameter.name.clone()));
    }
    for parameter in cut.parameters() {
        let is_given =
            given.iter().any(|(place, name)| *place == parameter.place && *name == parameter.name);
        if is_given || !parameter.required {
            continue;
        }
        let value = match &parameter.constant {
            Some(constant) => json!(constant.replace("${", "$${")),
            None => {
                let plain = names::variable_name(&parameter.name);
                let names = [plain.clone(), format!("{id}_{plain}")];
                let name = scope.add_input(&names, |name| parameter.variable(cut.source(), name));
                scope.remark(at, format!("the operation needs `{}`, which the step does not give; it became an input", shown(&parameter.name)));
                json!(format!("${{{name}}}"))
            }
        };
        let group = inputs.entry(parameter.place.group()).or_insert_with(|| json!({}));
        group[parameter.name.as_str()] = value;
    }
    if let Some(body) = body_input(cut, raw, id, at, scope) {
        inputs.insert("body".to_owned(), body);
    }
    inputs
}

fn body_input<'a>(
    cut: &Cut<'a>,
    raw: &Value,
    id: &str,
    at: &str,
    scope: &mut Scope<'a>,
) -> Option<Value> {
    let given = raw.get("requestBody");
    let Some(body) = cut.body() else {
        if given.is_some() {
            scope.remark(at, "the operation takes no body; none is sent");
        }
        return None;
    };
    let payload = given.and_then(|given| given.get("payload"));
    let (variables, _) = body.plan(cut.source(), 0, &mut names::Taken::default());
    let whole = variables.into_iter().next()?;
    let Some(payload) = payload else {
        if !body.is_required() {
            return None;
        }
        let names = ["body".to_owned(), format!("{id}_body")];
        let name = scope.add_input(&names, |name| Variable { name, ..whole.clone() });
        scope.remark(
            at,
            "the operation needs a body, which the step does not give; it became an input",
        );
        return Some(json!(format!("${{{name}}}")));
    };
    // A text that is JSON as a whole stands for its value.
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
        let input = scope.add_input(&[fallback], |name| Variable { name, ..whole.clone() });
        let (written, wanted) = (written.describe(), wanted.describe());
        scope.remark(at, format!("the payload is {written}, and the operation takes {wanted}; `{input}` became an input instead"));
        return Some(json!(format!("${{{input}}}")));
    }
    let Value::Object(members) = &payload else {
        return Some(scope.value(&payload, Some(&whole), &fallback, at));
    };
    let mut filled = Map::new();
    for (name, value) in members {
        let wanted = body.property(cut.source(), name);
        let fallback = format!("{id}_{}", names::variable_name(name));
        filled.insert(name.clone(), scope.value(value, wanted.as_ref(), &fallback, at));
    }
    for (name, wanted) in body.required(cut.source()) {
        if members.contains_key(name) {
            continue;
        }
        let plain = names::variable_name(name);
        let names = [plain.clone(), format!("{id}_{plain}")];
        let input = scope.add_input(&names, |name| Variable { name, ..wanted.clone() });
        scope.remark(at, format!("the body needs `{}`, which the step does not give; it became an input", shown(name)));
        filled.insert(name.to_owned(), json!(format!("${{{input}}}")));
    }
    Some(Value::Object(filled))
}

/// Puts the replacements of a request body into its payload.
fn replace(payload: &mut Value, body: Option<&Value>, at: &str, scope: &mut Scope<'_>) {
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
            None => scope.remark(at, format!("the payload has no place `{}`", shown(target))),
        }
    }
}

/// The JSONPath of what a pointer into the answer means.
fn query<'a>(cut: &Cut<'a>, pointer: &str, at: &str, scope: &mut Scope<'a>) -> Option<String> {
    let token = pointer.strip_prefix('/').unwrap_or(pointer);
    let looks_like_path = token.contains(['.', '[']) && !token.contains('/');
    if looks_like_path && !cut.answers_with(token) {
        // `#/a.b` names one member `a.b`; nearly always, the way `a`, then `b` is meant.
        let path = format!("$.{}", token.replace("[]", "[*]"));
        if crate::query::Query::parse(&path).is_ok() {
            scope.remark(at, format!("`#{}` is read as the path `{path}`", shown(pointer)));
            return Some(path);
        }
    }
    jsonpath::of_pointer(pointer)
}
