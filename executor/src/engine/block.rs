//! Steps that belong together: one after another, side by side, or one of two ways.

use a2s::{Condition, OnError, Step, StepBlock};
use a2s_api::ErrorHandlerKind;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};

use super::step::is_catchable;
use super::{CancelReason, CancelToken, Engine, ServiceTransport, StepError, WalkPosition};
use crate::scope::VariableScope;

/// The result of one of several walks: its number, and its value or error.
pub(super) type WalkResult<T> = (usize, Result<T, StepError>);

impl<'r> Engine<'r> {
    /// Runs the block of a step. When the failure of the block would be handled, the outputs that its steps
    /// have set are discarded.
    pub(super) async fn run_child_block(
        &self,
        at: WalkPosition<'_, 'r>,
        step: &'r Step,
        block: &'r StepBlock,
        scope: &mut VariableScope<'r>,
    ) -> Result<(), StepError> {
        let on_error = &step.control.on_error;
        let tolerant = *on_error == OnError::Continue;
        if *on_error == OnError::Stop {
            return self.run_block(at, block, tolerant, scope).await;
        }
        let mut inner = scope.snapshot();
        self.run_block(at, block, tolerant, &mut inner).await?;
        scope.merge(&inner);
        Ok(())
    }

    /// Runs a block. When the block is `tolerant` and runs its steps in parallel, the failure of one step
    /// does not stop the others or fail the block.
    pub(super) async fn run_block(
        &self,
        at: WalkPosition<'_, 'r>,
        block: &'r StepBlock,
        tolerant: bool,
        scope: &mut VariableScope<'r>,
    ) -> Result<(), StepError> {
        match block {
            StepBlock::Sequence(steps) => self.run_sequence(at, steps, scope).await,
            StepBlock::Parallel { steps, max_concurrency } => {
                let width = max_concurrency.unwrap_or(usize::MAX);
                self.run_parallel(at, steps, width, tolerant, scope).await
            }
            StepBlock::Condition { condition, if_true, if_false } => {
                let holds = self.evaluate_branch(at, condition, scope).await?;
                let (taken, skipped) =
                    if holds { (if_true, if_false) } else { (if_false, if_true) };
                for step in skipped {
                    let reason = format!("`{}` is {holds}", condition.source());
                    self.recorder.skip_step(&at.child_path(step), reason);
                }
                self.run_sequence(at, taken, scope).await
            }
        }
    }

    pub(super) async fn run_sequence(
        &self,
        at: WalkPosition<'_, 'r>,
        steps: &'r [Step],
        scope: &mut VariableScope<'r>,
    ) -> Result<(), StepError> {
        for step in steps {
            self.run_step(at, step, scope).await?;
        }
        Ok(())
    }

    async fn run_parallel(
        &self,
        around: WalkPosition<'_, 'r>,
        steps: &'r [Step],
        width: usize,
        tolerant: bool,
        scope: &mut VariableScope<'r>,
    ) -> Result<(), StepError> {
        let cancel = around.cancel.child();
        let at = WalkPosition { cancel: &cancel, ..around };
        let entry = scope.snapshot();
        let mut walks: Vec<BoxFuture<'_, _>> = Vec::with_capacity(steps.len());
        for (index, step) in steps.iter().enumerate() {
            let entry = &entry;
            walks.push(Box::pin(async move {
                let mut scope = entry.view();
                let ended = match self.run_step(at, step, &mut scope).await {
                    Ok(()) => Ok(Some(scope)),
                    Err(StepError::Failed(error)) if tolerant && is_catchable(&error) => {
                        let path = at.child_path(step);
                        self.recorder.record_handled(&path, ErrorHandlerKind::Continue);
                        Ok(None)
                    }
                    Err(stop) => Err(stop),
                };
                (index, ended)
            }));
        }
        let width = width.min(self.max_parallel);
        let scopes = self.run_side_by_side(walks.into_iter(), width, &cancel).await?;
        // In the order of the document, whichever ended first: the same run always ends with the
        // same variables.
        scopes.iter().flatten().for_each(|other| scope.merge(other));
        Ok(())
    }

    /// Awaits walks, at most `width` at the same time, and returns their values in order. All walks that
    /// began are awaited in any case, so that a request under way is never forgotten. `cancel` belongs to
    /// these walks and is cancelled when one of them fails.
    pub(super) async fn run_side_by_side<'w, T: 'w>(
        &self,
        walks: impl Iterator<Item = BoxFuture<'w, WalkResult<T>>>,
        width: usize,
        cancel: &CancelToken,
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
                        cancel.cancel(CancelReason::SiblingFailed);
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
        at: WalkPosition<'_, 'r>,
        condition: &Condition,
        scope: &VariableScope<'_>,
    ) -> Result<bool, StepError> {
        if let Some(holds) = self.recorder.recorded_branch(at.path) {
            return Ok(holds);
        }
        let holds = self.evaluator(at).evaluate_condition(condition, scope).await?;
        self.recorder.record_branch(at.path, holds);
        Ok(holds)
    }
}
