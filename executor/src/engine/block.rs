//! Steps that belong together: one after another, side by side, or one of two ways.

use a2s::api::{ErrorHandlerKind, EventKind};
use a2s::{Block, Condition, OnError, Step};
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};

use super::step::is_catchable;
use super::{Engine, Halt, Services, Stop, Why};
use crate::error::{Error, Kind};
use crate::plan::{Unit, join};
use crate::scope::Scope;

/// One of several walks: its number, and how it ended.
pub(super) type Ended<T> = (usize, Result<T, Stop>);

impl<'r> Engine<'r> {
    /// Runs the block of a step. When its failure would be handled, what its steps have set until
    /// then is forgotten.
    pub(super) async fn run_child_block(
        &self,
        unit: &'r Unit,
        path: &str,
        step: &'r Step,
        block: &'r Block,
        scope: &mut Scope<'r>,
        halt: &Halt,
    ) -> Result<(), Stop> {
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

    /// Runs a block. When it is `tolerant` and runs its steps side by side, the failure of one
    /// leaves the others alone, and is none of the block.
    pub(super) async fn run_block(
        &self,
        unit: &'r Unit,
        path: &str,
        block: &'r Block,
        tolerant: bool,
        scope: &mut Scope<'r>,
        halt: &Halt,
    ) -> Result<(), Stop> {
        match block {
            Block::Sequence(steps) => self.run_sequence(unit, path, steps, scope, halt).await,
            Block::Parallel { steps, max_concurrency } => {
                let width = max_concurrency.unwrap_or(usize::MAX);
                self.run_parallel(unit, path, steps, width, tolerant, scope, halt).await
            }
            Block::Condition { condition, if_true, if_false } => {
                let holds = self.decide(path, condition, scope, halt).await?;
                let (taken, skipped) =
                    if holds { (if_true, if_false) } else { (if_false, if_true) };
                for step in skipped {
                    let reason = format!("`{}` is {holds}", condition.source());
                    self.skip(&join(path, step.id.as_str()), reason);
                }
                self.run_sequence(unit, path, taken, scope, halt).await
            }
        }
    }

    pub(super) async fn run_sequence(
        &self,
        unit: &'r Unit,
        path: &str,
        steps: &'r [Step],
        scope: &mut Scope<'r>,
        halt: &Halt,
    ) -> Result<(), Stop> {
        for step in steps {
            self.run_step(unit, path, step, scope, halt).await?;
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the block's own fields are three of them")]
    async fn run_parallel(
        &self,
        unit: &'r Unit,
        path: &str,
        steps: &'r [Step],
        width: usize,
        tolerant: bool,
        scope: &mut Scope<'r>,
        halt: &Halt,
    ) -> Result<(), Stop> {
        let halt = halt.child();
        let entry = scope.snapshot();
        let mut walks: Vec<BoxFuture<'_, _>> = Vec::with_capacity(steps.len());
        for (index, step) in steps.iter().enumerate() {
            let (entry, halt) = (&entry, &halt);
            walks.push(Box::pin(async move {
                let mut scope = entry.view();
                let ended = match self.run_step(unit, path, step, &mut scope, halt).await {
                    Ok(()) => Ok(Some(scope)),
                    Err(Stop::Failed(error)) if tolerant && is_catchable(&error) => {
                        self.note_handled(
                            &join(path, step.id.as_str()),
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

    /// Awaits walks, at most `width` at the same time, and gives what they gave in their order. All
    /// that began are awaited, whatever becomes of them, so that none is forgotten while its request
    /// is under way; `halt` is their own, and stopped when one fails.
    pub(super) async fn run_side_by_side<'w, T: 'w>(
        &self,
        walks: impl Iterator<Item = BoxFuture<'w, Ended<T>>>,
        width: usize,
        halt: &Halt,
    ) -> Result<Vec<T>, Stop> {
        // Answers at hand all come at once: what was there before a failure would depend on chance.
        let heeds = matches!(self.services, Services::Real(_));
        let mut walks = stream::iter(walks).buffer_unordered(width.max(1));
        let mut done = Vec::new();
        let mut stop: Option<Stop> = None;
        while let Some((index, ended)) = walks.next().await {
            match ended {
                Ok(value) => done.push((index, value)),
                Err(next) => {
                    if heeds && matches!(next, Stop::Failed(_) | Stop::Broken(_)) {
                        halt.stop(Why::Sibling);
                    }
                    stop = match stop {
                        Some(first) if first.rank() >= next.rank() => Some(first),
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

    /// How a condition comes out. What was decided once holds after a restart.
    async fn decide(
        &self,
        path: &str,
        condition: &Condition,
        scope: &Scope<'_>,
        halt: &Halt,
    ) -> Result<bool, Stop> {
        if let Some(holds) = self.progress.branches.get(path) {
            return Ok(*holds);
        }
        let holds = if condition.evaluation_cost(scope).is_expensive() {
            let variables = scope.variables_of(condition);
            let place = format!("the condition `{}`", condition.source());
            let condition = condition.clone();
            let evaluation = move || condition.evaluate(&variables);
            let evaluated = Box::pin(self.evaluate(path, place, halt, evaluation)).await?;
            evaluated.map_err(|error| self.failed(path, error))?
        } else {
            scope.holds(condition)
        };
        let holds = holds.map_err(|error| {
            let error = Error::new(Kind::ConditionError, error.to_string());
            self.failed(path, error.at("condition"))
        })?;
        self.journal.note(EventKind::BranchTaken { step: path.to_owned(), value: holds });
        Ok(holds)
    }
}
