//! A plan as a person or a program reads it.

use std::cell::Cell;

use a2s::api::{ErrorHandlerKind, PlannedForEach, PlannedStep, PlannedStepKind};
use a2s::{Action, Block, CapabilityName, OnError, Step, Template};
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::{Unit, join};
use crate::request;
use crate::scope::size_of;
use crate::secrets::hidden;

/// The most bytes that the values in one plan may take. Beyond that, templates stay unfilled, because a
/// document may name one long value many times.
pub(super) const MAX_FILLED: usize = 4 << 20;

/// The values that are known before a run.
struct Known<'k> {
    /// The variables that no step sets.
    variables: Map<String, Value>,
    /// Inputs that steps before will have set.
    awaited: &'k [&'k str],
    /// The capability.
    unit: &'k Unit,
    /// The number of bytes that may still be filled in.
    left: &'k Cell<usize>,
}

impl Unit {
    /// Renders the steps, with the values known from inputs that may be shown. The `awaited` inputs get
    /// their values later and are not known yet.
    pub(super) fn render(
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
        let known = Known { variables, awaited, unit: self, left };
        match &capability.execution {
            Block::Sequence(steps) => known.steps(steps, path),
            block @ (Block::Parallel { .. } | Block::Condition { .. }) => {
                let kind = known.block(block, path);
                let step = PlannedStep { max_concurrency: width_of(block), ..plain(path, kind) };
                vec![step]
            }
        }
    }
}

impl Known<'_> {
    fn steps(&self, steps: &[Step], path: &str) -> Vec<PlannedStep> {
        steps.iter().map(|step| self.step(step, path)).collect()
    }

    fn step(&self, step: &Step, around: &str) -> PlannedStep {
        let path = join(around, step.id.as_str());
        let kind = match &step.action {
            Action::Task { task, inputs, .. } => {
                let (method, url) = request::address(task);
                let shown = inputs.iter().filter_map(|(place, template)| {
                    Some((place.to_string(), self.preview(template)?))
                });
                let (format, method) = (task.format().to_string(), method.to_owned());
                let tool = task.tool().map(str::to_owned);
                PlannedStepKind::Task { format, method, url, tool, inputs: shown.collect() }
            }
            Action::Capability { capability, inputs, .. } => self.using(capability, inputs, &path),
            Action::Block(block) => self.block(block, &path),
        };
        let control = &step.control;
        let max_concurrency = match &step.action {
            Action::Block(block) => width_of(block),
            Action::Task { .. } | Action::Capability { .. } => None,
        };
        let milliseconds = |time: std::time::Duration| time.as_millis().try_into();
        PlannedStep {
            for_each: control.for_each.as_ref().map(|for_each| PlannedForEach {
                items: self.preview(&for_each.items).unwrap_or_default(),
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
            catch: self.steps(control.on_error.caught(), &path),
            ..plain(&path, kind)
        }
    }

    fn using(
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
            let Some(preview) = self.preview(template) else { continue };
            if child.inputs.get(name).is_some_and(|input| input.secret) {
                shown.insert(name.clone(), hidden());
                given.insert(name.clone(), hidden());
                continue;
            }
            shown.insert(name.clone(), preview);
            if self.fill(template)
                && let Ok(value) = template.render(&self.variables)
            {
                given.insert(name.clone(), value);
            } else {
                awaited.push(name.as_str());
            }
        }
        for (name, input) in Self::unmapped(child, inputs) {
            let value = self.variables.get(name).cloned();
            let value = if input { value.map(|_| hidden()) } else { value };
            given.extend(value.clone().map(|value| (name.to_owned(), value)));
            let reference = || Value::String(format!("${{{name}}}"));
            shown.insert(name.to_owned(), value.unwrap_or_else(reference));
        }
        let given = child.complete(&given);
        PlannedStepKind::Capability {
            capability: child.pin.clone(),
            inputs: shown,
            steps: child.render(path, &given, &awaited, self.left),
        }
    }

    /// The needs of `child` that are not mapped, and whether each is secret.
    fn unmapped<'c>(
        child: &'c Unit,
        inputs: &'c IndexMap<String, Template>,
    ) -> impl Iterator<Item = (&'c str, bool)> {
        let needs = Unit::unmapped(child, |name| inputs.contains_key(name));
        needs.map(|(name, input)| (name, input.secret))
    }

    fn block(&self, block: &Block, path: &str) -> PlannedStepKind {
        match block {
            Block::Sequence(steps) => PlannedStepKind::Sequence { steps: self.steps(steps, path) },
            Block::Parallel { steps, .. } => {
                PlannedStepKind::Parallel { steps: self.steps(steps, path) }
            }
            Block::Condition { condition, if_true, if_false } => PlannedStepKind::Condition {
                condition: condition.source().to_owned(),
                if_true: self.steps(if_true, path),
                if_false: self.steps(if_false, path),
            },
        }
    }

    /// The known values of a template; `None` when it would be left out.
    fn preview(&self, template: &Template) -> Option<Value> {
        Some(match template {
            Template::Reference(reference) if self.is_absent(reference.variable()) => return None,
            Template::Array(items) => items.iter().filter_map(|item| self.preview(item)).collect(),
            Template::Object(members) => members
                .iter()
                .filter_map(|(name, member)| Some((name.clone(), self.preview(member)?)))
                .collect::<Map<_, _>>()
                .into(),
            other if self.fill(other) => other.preview(&self.variables),
            other => other.preview(&Map::new()),
        })
    }

    /// Returns true when the known values of a template may be filled in.
    fn fill(&self, template: &Template) -> bool {
        let references = template.references().into_iter();
        let sizes = references.filter_map(|r| r.resolve(&self.variables).ok()).map(size_of);
        let left = self.left.get().checked_sub(sizes.sum());
        left.inspect(|left| self.left.set(*left)).is_some()
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

/// A step that runs once, until it ends or fails.
fn plain(path: &str, kind: PlannedStepKind) -> PlannedStep {
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

fn width_of(block: &Block) -> Option<usize> {
    match block {
        Block::Parallel { max_concurrency, .. } => *max_concurrency,
        Block::Sequence(_) | Block::Condition { .. } => None,
    }
}
