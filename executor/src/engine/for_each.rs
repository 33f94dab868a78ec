//! A step that runs once for each item of a list.
//!
//! Each iteration is a separate step in the journal, `step[3]` for the item of index 3. It is guarded,
//! retried, timed, caught and resumed like any other step. The outer step only knows the list. At the end
//! it records the list of the values that each iteration set. An error in the list itself fails the outer
//! step before anything is sent; `on_error` and `catch` of the step apply to iterations.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use a2s::{ForEach, OutputMapping, Step};
use futures::FutureExt as _;
use serde_json::Value;

use super::recorder::StepFrame;
use super::step::used_capability;
use super::{CancelReason, CancelToken, Engine, Outputs, StepError, WalkPosition};
use crate::error::{Error, ErrorKind};
use crate::scope::VariableScope;

/// Runs a step once for each item of its list.
pub(super) struct IterationRunner<'a, 'r> {
    engine: &'a Engine<'r>,
    /// The position of the step.
    at: WalkPosition<'a, 'r>,
    step: &'r Step,
    for_each: &'r ForEach,
    /// The outputs of each iteration. The step sets the lists of their values.
    outputs: Vec<&'r OutputMapping>,
    /// Set when an iteration waits for a person.
    waits: AtomicBool,
}

impl<'a, 'r> IterationRunner<'a, 'r> {
    /// Creates a runner of the iterations of a step.
    pub(super) fn new(
        engine: &'a Engine<'r>,
        at: WalkPosition<'a, 'r>,
        step: &'r Step,
        for_each: &'r ForEach,
    ) -> Self {
        let outputs = outputs_within(step);
        Self { engine, at, step, for_each, outputs, waits: AtomicBool::new(false) }
    }

    /// Runs the step, unless its end is recorded.
    pub(super) async fn run(&self, scope: &mut VariableScope<'r>) -> Result<(), StepError> {
        let WalkPosition { unit, path, cancel } = self.at;
        let recorder = &self.engine.recorder;
        if let Some(lists) = recorder.recorded_outputs(path)? {
            scope.restore(self.outputs.iter().copied(), lists);
            return Ok(());
        }
        let frame = StepFrame {
            path,
            kind: self.step.action.kind().as_str(),
            label: "for_each",
            counts: false,
            uses: used_capability(self.step, unit),
        };
        let lists = recorder.record_step(frame, cancel, self.run_iterations(scope)).await?;
        lists.into_iter().for_each(|(output, list)| scope.set(output, list));
        Ok(())
    }

    async fn run_iterations(
        &self,
        scope: &mut VariableScope<'r>,
    ) -> Result<Outputs<'r>, StepError> {
        let items = self.take_items(scope)?;
        let cancel = self.at.cancel.child();
        let entry = scope.snapshot();
        let walks = items.into_iter().enumerate().map(|(index, item)| {
            let iteration = self.run_iteration(index, item, &entry, &cancel);
            iteration.map(move |values| (index, values)).boxed()
        });
        let width = self.for_each.max_concurrency.min(self.engine.max_parallel);
        let rows = self.engine.run_side_by_side(walks, width, &cancel).await?;
        let mut lists: Vec<Vec<Value>> =
            self.outputs.iter().map(|_| Vec::with_capacity(rows.len())).collect();
        for row in rows {
            lists.iter_mut().zip(row).for_each(|(list, value)| list.push(value));
        }
        let lists = lists.into_iter().map(Value::Array);
        Ok(self.outputs.iter().copied().zip(lists).collect())
    }

    /// Runs one iteration, and returns the values of its outputs.
    async fn run_iteration(
        &self,
        index: usize,
        item: Value,
        entry: &VariableScope<'r>,
        cancel: &CancelToken,
    ) -> Result<Vec<Value>, StepError> {
        let path = format!("{}[{index}]", self.at.path);
        // An iteration that began is always visited: its outcome may be in doubt. The others do not
        // start, not even when an earlier one waits for a person.
        let why = match self.waits.load(Ordering::Relaxed) {
            true => Some(CancelReason::SiblingFailed),
            false => cancel.reason_if_cancelled(),
        };
        if let Some(why) = why
            && self.engine.recorder.recorded(&path).is_none()
        {
            return Err(StepError::Cancelled(why));
        }
        let mut scope = entry.view();
        scope.set_local(&self.for_each.name, item);
        let at = WalkPosition { unit: self.at.unit, path: &path, cancel };
        let ended = self.engine.run_once(at, self.step, true, &mut scope).await;
        if matches!(ended, Err(StepError::Waiting(_))) {
            self.waits.store(true, Ordering::Relaxed);
        }
        ended?;
        let value = |output: &&OutputMapping| scope.find_written(output).cloned();
        Ok(self.outputs.iter().map(|output| value(output).unwrap_or_default()).collect())
    }

    /// Returns the items, after checking that their number is allowed.
    fn take_items(&self, scope: &VariableScope<'_>) -> Result<Vec<Value>, StepError> {
        let recorder = &self.engine.recorder;
        let size = scope.estimate_size(&self.for_each.items);
        let checked = recorder.budget.check_bytes(size);
        let items = checked.and_then(|()| self.render_items(scope)).and_then(|items| {
            recorder.record_items(self.at.path, items.len())?;
            Ok(items)
        });
        items.map_err(|error| recorder.fail_step(self.at.path, error.with_context("`for_each`")))
    }

    fn render_items(&self, scope: &VariableScope<'_>) -> Result<Vec<Value>, Error> {
        let most = self.for_each.max_items;
        let value = scope
            .render_optional(&self.for_each.items)
            .map_err(|missing| Error::new(ErrorKind::TemplateError, missing.to_string()))?;
        let found = match value {
            Some(Value::Array(items)) if items.len() <= most => return Ok(items),
            Some(Value::Array(items)) => {
                let message =
                    format!("the list has {} items, but `max_items` is {most}", items.len());
                return Err(Error::new(ErrorKind::ItemsRefused, message));
            }
            None | Some(Value::Null) => "nothing",
            Some(Value::Bool(_)) => "a boolean",
            Some(Value::Number(_)) => "a number",
            Some(Value::String(_)) => "a text",
            Some(Value::Object(_)) => "an object",
        };
        let message = format!("the value is {found}, but a list is required");
        Err(Error::new(ErrorKind::ItemsRefused, message))
    }
}

/// Every output that is set inside a step, once: its own outputs, or those of the steps below it. A whole
/// output includes its parts.
fn outputs_within(step: &Step) -> Vec<&OutputMapping> {
    let mut all: Vec<&OutputMapping> = Vec::new();
    let mut waiting = vec![step];
    while let Some(step) = waiting.pop() {
        all.extend(step.action.outputs());
        waiting.extend(step.children().into_iter().rev());
    }
    let names: BTreeSet<&[String]> = all.iter().map(|output| output.name.as_slice()).collect();
    let is_part = |name: &[String]| (1..name.len()).any(|length| names.contains(&name[..length]));
    let mut seen = BTreeSet::new();
    all.retain(|output| !is_part(&output.name) && seen.insert(output.name.as_slice()));
    all
}
