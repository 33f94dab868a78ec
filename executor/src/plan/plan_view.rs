//! A plan as a person or a program reads it.

use std::cell::Cell;
use std::collections::BTreeSet;

use a2s::{CapabilityName, OnError, Step, StepAction, StepBlock, Template, VariableSource};
use a2s_api::{ErrorHandlerKind, PlannedForEach, PlannedStep, PlannedStepKind};
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::{PlanUnit, add_outputs, join_path};
use crate::request;
use crate::scope::size_of;
use crate::secrets::secret_placeholder;

/// The most bytes that the values in one plan may take. Beyond that, templates stay unfilled, because a
/// document may name one long value many times.
pub(super) const MAX_FILLED_BYTES: usize = 4 << 20;

/// The values at a step that are known before a run.
#[derive(Clone)]
struct KnownValues<'k> {
    inputs: &'k Map<String, Value>,
    /// The variables that earlier steps set, and the inputs that get their values later.
    unknown: BTreeSet<&'k str>,
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
        let unknown = awaited.iter().copied().collect();
        let known = KnownValues { inputs, unknown, unit: self, remaining_bytes: left };
        match &self.document.capability().execution {
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

impl VariableSource for KnownValues<'_> {
    fn variable(&self, name: &str) -> Option<&Value> {
        self.inputs.get(name).filter(|_| !self.unknown.contains(name))
    }

    fn is_absent(&self, name: &str) -> bool {
        let parameter = self.unit.document.capability().parameter(name);
        !self.inputs.contains_key(name)
            && !self.unknown.contains(name)
            && parameter.is_some_and(|parameter| !parameter.required)
    }
}

impl<'k> KnownValues<'k> {
    /// Renders steps that run one after another.
    fn plan_steps(&self, steps: &'k [Step], path: &str) -> Vec<PlannedStep> {
        let mut known = self.clone();
        let plan = |step| {
            let planned = known.plan_step(step, path);
            add_outputs(step, &mut known.unknown);
            planned
        };
        steps.iter().map(plan).collect()
    }

    fn plan_step(&self, step: &'k Step, around: &str) -> PlannedStep {
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
            catch: self.plan_caught(step, &path),
            ..once_step(&path, kind)
        }
    }

    /// Renders the steps that run after a failure. A part of the failed step may have set its outputs.
    fn plan_caught(&self, step: &'k Step, path: &str) -> Vec<PlannedStep> {
        let mut known = self.clone();
        add_outputs(step, &mut known.unknown);
        known.plan_steps(step.control.on_error.caught(), path)
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
                && let Ok(value) = template.render(self)
            {
                given.insert(name.clone(), value);
            } else {
                awaited.push(name.as_str());
            }
        }
        for (name, input) in Self::unmapped_inputs(child, inputs) {
            let value = self.variable(name).cloned();
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

    fn plan_block(&self, block: &'k StepBlock, path: &str) -> PlannedStepKind {
        match block {
            StepBlock::Sequence(steps) => {
                PlannedStepKind::Sequence { steps: self.plan_steps(steps, path) }
            }
            StepBlock::Parallel { steps, .. } => {
                let steps = steps.iter().map(|step| self.plan_step(step, path)).collect();
                PlannedStepKind::Parallel { steps }
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
            other if self.reserve_bytes(other) => other.preview(self),
            other => other.preview(&Map::new()),
        })
    }

    /// Returns true when the known values of a template may be filled in.
    fn reserve_bytes(&self, template: &Template) -> bool {
        let references = template.references().into_iter();
        let sizes = references.filter_map(|r| r.resolve(self).ok()).map(size_of);
        let left = self.remaining_bytes.get().checked_sub(sizes.sum());
        left.inspect(|left| self.remaining_bytes.set(*left)).is_some()
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
