//! A plan as a person or a program reads it.

use std::cell::Cell;

use a2s::{CapabilityName, OnError, Step, StepAction, StepBlock, Template};
use a2s_api::{ErrorHandlerKind, PlannedForEach, PlannedStep, PlannedStepKind};
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::{PlanUnit, join_path};
use crate::request;
use crate::scope::size_of;
use crate::secrets::secret_placeholder;

/// The most bytes that the values in one plan may take. Beyond that, templates stay unfilled, because a
/// document may name one long value many times.
pub(super) const MAX_FILLED_BYTES: usize = 4 << 20;

/// The values that are known before a run.
struct KnownValues<'k> {
    /// The variables that no step sets.
    variables: Map<String, Value>,
    /// The inputs that earlier steps will have set.
    awaited: &'k [&'k str],
    /// The capability.
    unit: &'k PlanUnit,
    /// The number of bytes that may still be filled in.
    remaining_bytes: &'k Cell<usize>,
}

impl PlanUnit {
    /// Renders the steps, with the values known from inputs that may be shown. The `awaited` inputs get
    /// their values later and are not known yet.
    pub(super) fn to_planned_steps(
        &self,
        path: &str,
        inputs: &Map<String, Value>,
        awaited: &[&str],
        left: &Cell<usize>,
    ) -> Vec<PlannedStep> {
        // The value of a variable that steps set depends on when it is read: it counts as unknown.
        let mut variables = inputs.clone();
        let capability = self.document.capability();
        capability.for_each_step(|step| {
            for output in step.action.outputs() {
                variables.shift_remove(output.variable());
            }
        });
        variables.retain(|name, _| !awaited.contains(&name.as_str()));
        let known = KnownValues { variables, awaited, unit: self, remaining_bytes: left };
        match &capability.execution {
            StepBlock::Sequence(steps) => known.plan_steps(steps, path),
            block @ (StepBlock::Parallel { .. } | StepBlock::Condition { .. }) => {
                let kind = known.plan_block(block, path);
                let step = PlannedStep {
                    max_concurrency: block.max_concurrency(),
                    ..once_step(path, kind)
                };
                vec![step]
            }
        }
    }
}

impl KnownValues<'_> {
    fn plan_steps(&self, steps: &[Step], path: &str) -> Vec<PlannedStep> {
        steps.iter().map(|step| self.plan_step(step, path)).collect()
    }

    fn plan_step(&self, step: &Step, around: &str) -> PlannedStep {
        let path = join_path(around, step.id.as_str());
        let kind = match &step.action {
            StepAction::Task { task, inputs, .. } => {
                let (method, url) = request::method_and_url(task);
                let shown = inputs.iter().filter_map(|(place, template)| {
                    Some((place.to_string(), self.known_value(template)?))
                });
                let (format, method) = (task.format().to_string(), method.to_owned());
                let tool = task.tool().map(str::to_owned);
                PlannedStepKind::Task { format, method, url, tool, inputs: shown.collect() }
            }
            StepAction::Capability { capability, inputs, .. } => {
                self.plan_capability(capability, inputs, &path)
            }
            StepAction::Block(block) => self.plan_block(block, &path),
        };
        let control = &step.control;
        let max_concurrency = step.action.as_block().and_then(StepBlock::max_concurrency);
        let milliseconds = |time: std::time::Duration| time.as_millis().try_into();
        PlannedStep {
            for_each: control.for_each.as_ref().map(|for_each| PlannedForEach {
                items: self.known_value(&for_each.items).unwrap_or_default(),
                name: for_each.name.clone(),
                max_items: for_each.max_items,
                max_concurrency: for_each.max_concurrency,
            }),
            max_concurrency,
            max_attempts: control.retry.as_ref().map(|retry| retry.max_attempts),
            timeout_ms: control.timeout.map(|time| milliseconds(time).unwrap_or(u64::MAX)),
            on_error: match &control.on_error {
                OnError::Stop => None,
                OnError::Continue => Some(ErrorHandlerKind::Continue),
                OnError::Catch { .. } => Some(ErrorHandlerKind::Catch),
            },
            catch: self.plan_steps(control.on_error.caught(), &path),
            ..once_step(&path, kind)
        }
    }

    fn plan_capability(
        &self,
        name: &CapabilityName,
        inputs: &IndexMap<String, Template>,
        path: &str,
    ) -> PlannedStepKind {
        let Some(child) = self.unit.uses.get(name) else {
            // The survey has seen to it that every capability step has a unit.
            return PlannedStepKind::Sequence { steps: Vec::new() };
        };
        let mut shown = Map::new();
        let mut given = Map::new();
        let mut awaited = Vec::new();
        for (name, template) in inputs {
            let Some(preview) = self.known_value(template) else { continue };
            if child.inputs.get(name).is_some_and(|input| input.secret) {
                shown.insert(name.clone(), secret_placeholder());
                given.insert(name.clone(), secret_placeholder());
                continue;
            }
            shown.insert(name.clone(), preview);
            if self.reserve_bytes(template)
                && let Ok(value) = template.render(&self.variables)
            {
                given.insert(name.clone(), value);
            } else {
                awaited.push(name.as_str());
            }
        }
        for (name, input) in Self::unmapped_inputs(child, inputs) {
            let value = self.variables.get(name).cloned();
            let value = if input { value.map(|_| secret_placeholder()) } else { value };
            given.extend(value.clone().map(|value| (name.to_owned(), value)));
            let reference = || Value::String(format!("${{{name}}}"));
            shown.insert(name.to_owned(), value.unwrap_or_else(reference));
        }
        let given = child.with_defaults(&given);
        PlannedStepKind::Capability {
            capability: child.pin.clone(),
            inputs: shown,
            steps: child.to_planned_steps(path, &given, &awaited, self.remaining_bytes),
        }
    }

    /// Returns the unmapped inputs of `child`, each with true when it is secret.
    fn unmapped_inputs<'c>(
        child: &'c PlanUnit,
        inputs: &'c IndexMap<String, Template>,
    ) -> impl Iterator<Item = (&'c str, bool)> {
        let needs = PlanUnit::unmapped_inputs(child, |name| inputs.contains_key(name));
        needs.map(|(name, input)| (name, input.secret))
    }

    fn plan_block(&self, block: &StepBlock, path: &str) -> PlannedStepKind {
        match block {
            StepBlock::Sequence(steps) => {
                PlannedStepKind::Sequence { steps: self.plan_steps(steps, path) }
            }
            StepBlock::Parallel { steps, .. } => {
                PlannedStepKind::Parallel { steps: self.plan_steps(steps, path) }
            }
            StepBlock::Condition { condition, if_true, if_false } => PlannedStepKind::Condition {
                condition: condition.source().to_owned(),
                if_true: self.plan_steps(if_true, path),
                if_false: self.plan_steps(if_false, path),
            },
        }
    }

    /// The known values of a template; `None` when it would be left out.
    fn known_value(&self, template: &Template) -> Option<Value> {
        Some(match template {
            Template::Reference(reference) if self.is_absent(reference.variable()) => return None,
            Template::Array(items) => {
                items.iter().filter_map(|item| self.known_value(item)).collect()
            }
            Template::Object(members) => members
                .iter()
                .filter_map(|(name, member)| Some((name.clone(), self.known_value(member)?)))
                .collect::<Map<_, _>>()
                .into(),
            other if self.reserve_bytes(other) => other.preview(&self.variables),
            other => other.preview(&Map::new()),
        })
    }

    /// Returns true when the known values of a template may be filled in.
    fn reserve_bytes(&self, template: &Template) -> bool {
        let references = template.references().into_iter();
        let sizes = references.filter_map(|r| r.resolve(&self.variables).ok()).map(size_of);
        let left = self.remaining_bytes.get().checked_sub(sizes.sum());
        left.inspect(|left| self.remaining_bytes.set(*left)).is_some()
    }

    /// Returns true when a name is that of an optional parameter without a value.
    fn is_absent(&self, name: &str) -> bool {
        let parameter = self.unit.document.capability().parameter(name);
        let set_by_a_step = || {
            let mut found = false;
            self.unit.document.capability().for_each_step(|step| {
                found |= step.action.outputs().iter().any(|output| output.variable() == name);
            });
            found
        };
        !self.variables.contains_key(name)
            && !self.awaited.contains(&name)
            && parameter.is_some_and(|parameter| !parameter.required)
            && !set_by_a_step()
    }
}

/// Creates a step that runs once, until it ends or fails.
fn once_step(path: &str, kind: PlannedStepKind) -> PlannedStep {
    PlannedStep {
        step: path.to_owned(),
        kind,
        for_each: None,
        max_concurrency: None,
        max_attempts: None,
        timeout_ms: None,
        on_error: None,
        catch: Vec::new(),
        preview: None,
    }
}
