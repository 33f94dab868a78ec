//! Steps that belong together: one after another, side by side, or one of two ways.

use a2s::{Condition, OnError, Step, StepBlock};
use a2s_api::{ErrorHandlerKind, EventKind};
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};

use super::step::is_catchable;
use super::{CancelReason, CancelToken, Engine, ServiceTransport, StepError};
use crate::error::{Error, ErrorKind};
use crate::plan::{PlanUnit, join_path};
use crate::scope::VariableScope;

/// The result of one of several walks: its number, and its value or error.
pub(super) type WalkResult<T> = (usize, Result<T, StepError>);

impl<'r> Engine<'r> {
    /// Runs the block of a step. When the failure of the block would be handled, the outputs that its steps
    /// have set are discarded.
    pub(super) async fn run_child_block(
        &self,
        unit: &'r PlanUnit,
        path: &str,
        step: &'r Step,
        block: &'r StepBlock,
        scope: &mut VariableScope<'r>,
        halt: &CancelToken,
    ) -> Result<(), StepError> {
        let on_error = &step.control.on_error;
        let tolerant = *on_error == OnError::Continue;
        if *on_error == OnError::Stop {
            return self.run_block(unit, path, block, tolerant, scope, halt).await;
        }
        let mut inner = scope.snapshot();
        self.run_block(unit, path, block, tolerant, &mut inner, halt).await?;
        scope.merge(&inner);
        Ok(())
    }

    /// Runs a block. When the block is `tolerant` and runs its steps in parallel, the failure of one step
    /// does not stop the others or fail the block.
    pub(super) async fn run_block(
        &self,
        unit: &'r PlanUnit,
        path: &str,
        block: &'r StepBlock,
        tolerant: bool,
        scope: &mut VariableScope<'r>,
        halt: &CancelToken,
    ) -> Result<(), StepError> {
        match block {
            StepBlock::Sequence(steps) => self.run_sequence(unit, path, steps, scope, halt).await,
            StepBlock::Parallel { steps, max_concurrency } => {
                let width = max_concurrency.unwrap_or(usize::MAX);
                self.run_parallel(unit, path, steps, width, tolerant, scope, halt).await
            }
            StepBlock::Condition { condition, if_true, if_false } => {
                let holds = self.evaluate_branch(path, condition, scope, halt).await?;
                let (taken, skipped) =
                    if holds { (if_true, if_false) } else { (if_false, if_true) };
                for step in skipped {
                    let reason = format!("`{}` is {holds}", condition.source());
                    self.skip_step(&join_path(path, step.id.as_str()), reason);
                }
                self.run_sequence(unit, path, taken, scope, halt).await
            }
        }
    }

    pub(super) async fn run_sequence(
        &self,
        unit: &'r PlanUnit,
        path: &str,
        steps: &'r [Step],
        scope: &mut VariableScope<'r>,
        halt: &CancelToken,
    ) -> Result<(), StepError> {
        for step in steps {
            self.run_step(unit, path, step, scope, halt).await?;
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the block's own fields are three of them")]
    async fn run_parallel(
        &self,
        unit: &'r PlanUnit,
        path: &str,
        steps: &'r [Step],
        width: usize,
        tolerant: bool,
        scope: &mut VariableScope<'r>,
        halt: &CancelToken,
    ) -> Result<(), StepError> {
        let halt = halt.child();
        let entry = scope.snapshot();
        let mut walks: Vec<BoxFuture<'_, _>> = Vec::with_capacity(steps.len());
        for (index, step) in steps.iter().enumerate() {
            let (entry, halt) = (&entry, &halt);
            walks.push(Box::pin(async move {
                let mut scope = entry.view();
                let ended = match self.run_step(unit, path, step, &mut scope, halt).await {
                    Ok(()) => Ok(Some(scope)),
                    Err(StepError::Failed(error)) if tolerant && is_catchable(&error) => {
                        self.note_handled(
                            &join_path(path, step.id.as_str()),
                            ErrorHandlerKind::Continue,
                        );
                        Ok(None)
                    }
                    Err(stop) => Err(stop),
                };
                (index, ended)
            }));
        }
        let width = width.min(self.max_parallel);
        let scopes = self.run_side_by_side(walks.into_iter(), width, &halt).await?;
        // In the order of the document, whichever ended first: the same run always ends with the
        // same variables.
        scopes.iter().flatten().for_each(|other| scope.merge(other));
        Ok(())
    }

    /// Awaits walks, at most `width` at the same time, and returns their values in order. All walks that
    /// began are awaited in any case, so that a request under way is never forgotten. `halt` belongs to
    /// these walks and is cancelled when one of them fails.
    pub(super) async fn run_side_by_side<'w, T: 'w>(
        &self,
        walks: impl Iterator<Item = BoxFuture<'w, WalkResult<T>>>,
        width: usize,
        halt: &CancelToken,
    ) -> Result<Vec<T>, StepError> {
        // Recorded responses come all at once: cancelling siblings would give random results.
        let heeds = matches!(self.transport, ServiceTransport::Live(_));
        let mut walks = stream::iter(walks).buffer_unordered(width.max(1));
        let mut done = Vec::new();
        let mut stop: Option<StepError> = None;
        while let Some((index, ended)) = walks.next().await {
            match ended {
                Ok(value) => done.push((index, value)),
                Err(next) => {
                    if heeds && matches!(next, StepError::Failed(_) | StepError::Broken(_)) {
                        halt.cancel(CancelReason::SiblingFailed);
                    }
                    stop = match stop {
                        Some(first) if first.priority() >= next.priority() => Some(first),
                        _ => Some(next),
                    };
                }
            }
        }
        if let Some(stop) = stop {
            return Err(stop);
        }
        done.sort_by_key(|(index, _)| *index);
        Ok(done.into_iter().map(|(_, value)| value).collect())
    }

    /// Evaluates a condition. A recorded branch stays the same after a restart.
    async fn evaluate_branch(
        &self,
        path: &str,
        condition: &Condition,
        scope: &VariableScope<'_>,
        halt: &CancelToken,
    ) -> Result<bool, StepError> {
        if let Some(holds) = self.progress.branches.get(path) {
            return Ok(*holds);
        }
        let holds = if condition.evaluation_cost(scope).is_expensive() {
            let variables = scope.variables_of(condition);
            let place = format!("the condition `{}`", condition.source());
            let condition = condition.clone();
            let evaluation = move || condition.evaluate(&variables);
            let evaluated = Box::pin(self.evaluate(path, place, halt, evaluation)).await?;
            evaluated.map_err(|error| self.fail_step(path, error))?
        } else {
            scope.evaluate_condition(condition)
        };
        let holds = holds.map_err(|error| {
            let error = Error::new(ErrorKind::ConditionError, error.to_string());
            self.fail_step(path, error.with_context("condition"))
        })?;
        self.journal.append(EventKind::BranchTaken { step: path.to_owned(), value: holds });
        Ok(holds)
    }
}
