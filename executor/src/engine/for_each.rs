//! A step that runs once for each item of a list.
//!
//! Each iteration is a separate step in the journal, `step[3]` for the item of index 3. It is guarded,
//! retried, timed, caught and resumed like any other step. The outer step only knows the list. At the end
//! it records the list of the values that each iteration set. An error in the list itself fails the outer
//! step before anything is sent; `on_error` and `catch` of the step apply to iterations.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use a2s::{ForEach, OutputMapping, Step};
use a2s_api::EventKind;
use futures::future::BoxFuture;
use serde_json::Value;

use super::step::{StepFrame, used_capability};
use super::{CancelReason, CancelToken, Engine, Outputs, StepError};
use crate::error::{Error, ErrorKind};
use crate::plan::PlanUnit;
use crate::scope::VariableScope;

impl<'r> Engine<'r> {
    /// Runs a step for each item of its list, unless the end of the step is recorded.
    pub(super) async fn run_for_each(
        &self,
        unit: &'r PlanUnit,
        path: &str,
        step: &'r Step,
        for_each: &'r ForEach,
        scope: &mut VariableScope<'r>,
        halt: &CancelToken,
    ) -> Result<(), StepError> {
        let outputs = outputs_within(step);
        if let Some(lists) = self.recorded_outputs(path)? {
            scope.restore(outputs, lists);
            return Ok(());
        }
        let frame = StepFrame {
            path,
            kind: step.action.kind().as_str(),
            label: "for_each",
            counts: false,
            uses: used_capability(step, unit),
        };
        let work = self.run_iterations(unit, path, step, for_each, &outputs, scope, halt);
        let lists = self.record_step(frame, halt, work).await?;
        lists.into_iter().for_each(|(output, list)| scope.set(output, list));
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "a step, its list, and where it runs")]
    async fn run_iterations(
        &self,
        unit: &'r PlanUnit,
        path: &str,
        step: &'r Step,
        for_each: &'r ForEach,
        outputs: &[&'r OutputMapping],
        scope: &mut VariableScope<'r>,
        halt: &CancelToken,
    ) -> Result<Outputs<'r>, StepError> {
        let items = self.take_items(path, for_each, scope)?;
        let halt = halt.child();
        let entry = scope.snapshot();
        let waits = AtomicBool::new(false);
        let walks = items.into_iter().enumerate().map(|(index, item)| {
            let (entry, halt, waits) = (&entry, &halt, &waits);
            let walk: BoxFuture<'_, _> = Box::pin(async move {
                let path = format!("{path}[{index}]");
                // An iteration that began is always visited: its outcome may be in doubt. The
                // others do not start, not even when an earlier one waits for a person.
                let why = match waits.load(Ordering::Relaxed) {
                    true => Some(CancelReason::SiblingFailed),
                    false => halt.reason_if_cancelled(),
                };
                if let (Some(why), false) = (why, self.progress.steps.contains_key(&path)) {
                    return (index, Err(StepError::Cancelled(why)));
                }
                let mut scope = entry.view();
                scope.set_local(&for_each.name, item);
                let ended = self.run_once(unit, &path, step, true, &mut scope, halt).await;
                if matches!(ended, Err(StepError::Waiting(_))) {
                    waits.store(true, Ordering::Relaxed);
                }
                let values = ended.map(|()| {
                    let value = |output: &&OutputMapping| scope.find_written(output).cloned();
                    outputs.iter().map(|output| value(output).unwrap_or_default()).collect()
                });
                (index, values)
            });
            walk
        });
        let width = for_each.max_concurrency.min(self.max_parallel);
        let rows: Vec<Vec<Value>> = self.run_side_by_side(walks, width, &halt).await?;
        let mut lists: Vec<Vec<Value>> =
            outputs.iter().map(|_| Vec::with_capacity(rows.len())).collect();
        for row in rows {
            lists.iter_mut().zip(row).for_each(|(list, value)| list.push(value));
        }
        Ok(outputs.iter().copied().zip(lists.into_iter().map(Value::Array)).collect())
    }

    /// Returns the items, after checking that their number is allowed.
    fn take_items(
        &self,
        path: &str,
        for_each: &ForEach,
        scope: &VariableScope<'_>,
    ) -> Result<Vec<Value>, StepError> {
        let taken = self.budget.check_bytes(scope.estimate_size(&for_each.items)).and_then(|()| {
            let value = scope.render_optional(&for_each.items);
            let value = value
                .map_err(|missing| Error::new(ErrorKind::TemplateError, missing.to_string()))?;
            let found = match value {
                Some(Value::Array(items)) if items.len() <= for_each.max_items => return Ok(items),
                Some(Value::Array(items)) => {
                    let most = for_each.max_items;
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
            Err(Error::new(
                ErrorKind::ItemsRefused,
                format!("the value is {found}, but a list is required"),
            ))
        });
        let failed = |error: Error| self.fail_step(path, error.with_context("`for_each`"));
        let items = taken.map_err(failed)?;
        if self.progress.steps.get(path).is_none_or(|recorded| recorded.items.is_none()) {
            self.budget.check_steps(items.len()).map_err(failed)?;
            let taken = EventKind::ItemsTaken { step: path.to_owned(), items: items.len() };
            self.journal.append(taken);
        }
        Ok(items)
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
