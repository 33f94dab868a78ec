//! Expensive evaluations of expressions over foreign data.
//!
//! A run shares its thread with other runs, so an expression that is not known to be cheap
//! ([`a2s::EvaluationCost`]) is evaluated on a thread of its own. A pool bounds the number of these
//! threads, and each evaluation has a deadline.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use a2s::{Condition, EvaluationCost, OutputMapping, OutputSource, to_single_line};
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

use super::recorder::RunRecorder;
use super::{CancelReason, CancelToken, StepError};
use crate::error::{Error, ErrorKind};
use crate::journal::lock;
use crate::outbound::current_tenant;
use crate::plan::PlanUnit;
use crate::request::{RawResponse, SchemaViolation, TaskContract};
use crate::scope::VariableScope;
use crate::step_result::StepResult;

/// The maximum number of characters of an expression in a message.
const MAX_EXPRESSION: usize = 200;

/// The permits for expensive evaluations of one executor.
#[derive(Debug)]
pub(crate) struct EvaluationPool {
    permits: Arc<Semaphore>,
    /// The number of permits that all evaluations of one token may hold: a part of them, so that other
    /// tokens have the rest.
    share: usize,
    /// The permits of the tokens that have evaluations.
    shares: Mutex<BTreeMap<String, Weak<Semaphore>>>,
    timeout: Duration,
}

/// The permit for one evaluation, among all and among those of its token.
type EvaluationPermit = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// The reason for an evaluation without a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EvaluationError {
    /// The evaluation takes longer than the deadline allows.
    Overdue,
    /// The run, or this part of it, stops.
    Cancelled(CancelReason),
    /// The evaluation panicked, or the system has no thread for it.
    Broken,
}

impl EvaluationPool {
    /// Creates a pool with one permit for each processor, and at least four.
    pub(crate) fn new(timeout: Duration) -> Self {
        Self::with_permits(thread::available_parallelism().map_or(1, usize::from).max(4), timeout)
    }

    fn with_permits(permits: usize, timeout: Duration) -> Self {
        let share = permits.div_ceil(4);
        Self {
            permits: Arc::new(Semaphore::new(permits)),
            share,
            shares: Mutex::default(),
            timeout,
        }
    }

    /// Waits for the turn of the current tenant.
    async fn acquire(&self) -> Result<EvaluationPermit, EvaluationError> {
        let tenant = current_tenant();
        let token = tenant.split('/').next().unwrap_or_default();
        let own = {
            let mut shares = lock(&self.shares);
            shares.retain(|_, share| share.strong_count() > 0);
            let known = shares.get(token).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let own = Arc::new(Semaphore::new(self.share));
                shares.insert(token.to_owned(), Arc::downgrade(&own));
                own
            })
        };
        // Its own one first: who waits for it takes nothing from others.
        let of_token = own.acquire_owned().await.map_err(|_| EvaluationError::Broken)?;
        let of_all = Arc::clone(&self.permits).acquire_owned().await;
        Ok((of_token, of_all.map_err(|_| EvaluationError::Broken)?))
    }

    /// Takes every permit until the guard is dropped.
    #[cfg(test)]
    pub(crate) async fn occupy(&self) -> OwnedSemaphorePermit {
        let all = u32::try_from(self.permits.available_permits()).unwrap();
        Arc::clone(&self.permits).acquire_many_owned(all).await.unwrap()
    }

    /// Evaluates on another thread, unless `halt` ends the wait.
    async fn evaluate<T: Send + 'static>(
        &self,
        halt: &CancelToken,
        evaluation: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EvaluationError> {
        let mut finished = Box::pin(self.finish(evaluation));
        tokio::select! {
            ended = &mut finished => ended,
            why = halt.wait_for_cancel() => match why {
                // The request of this step may have had its effect. Its outcome is recorded if the
                // evaluation ends soon; otherwise a resumed run could not know it.
                CancelReason::Suspended | CancelReason::SiblingFailed => timeout(self.timeout, finished)
                    .await
                    .unwrap_or(Err(EvaluationError::Cancelled(why))),
                CancelReason::Cancelled | CancelReason::RunTimeout | CancelReason::LeaseLost | CancelReason::StepTimeout => {
                    Err(EvaluationError::Cancelled(why))
                }
            },
        }
    }

    /// Waits for a permit, and then for the value; without any time nothing begins. The deadline begins with the evaluation: a full
    /// pool delays a run, and does not fail it.
    async fn finish<T: Send + 'static>(
        &self,
        evaluation: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EvaluationError> {
        if self.timeout.is_zero() {
            return Err(EvaluationError::Overdue);
        }
        let permit = self.acquire().await?;
        let value = start_thread(permit, evaluation)?;
        match timeout(self.timeout, value).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(_)) => Err(EvaluationError::Broken),
            Err(_) => Err(EvaluationError::Overdue),
        }
    }
}

/// Starts an evaluation on a thread. The thread keeps the permit until it ends: an evaluation cannot
/// be stopped from outside, so those past their deadline still count, and their number stays bounded. Each
/// kind of evaluation rejects what costs too much before it begins, so the thread ends soon.
///
/// A thread and not `spawn_blocking`: a runtime that shuts down waits for all its blocking tasks.
fn start_thread<T: Send + 'static>(
    permit: EvaluationPermit,
    evaluation: impl FnOnce() -> T + Send + 'static,
) -> Result<oneshot::Receiver<T>, EvaluationError> {
    let (sender, receiver) = oneshot::channel();
    let work = move || {
        let value = evaluation();
        drop(permit);
        // The run may have given up.
        let _ = sender.send(value);
    };
    let started = thread::Builder::new().name("a2s-evaluation".to_owned()).spawn(work);
    started.map(|_| receiver).map_err(|error| {
        tracing::error!(%error, "cannot start a thread for the evaluation of an expression");
        EvaluationError::Broken
    })
}

/// Evaluates the expressions of one step: cheap ones at once, expensive ones on the pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepEvaluator<'a> {
    pub(super) pool: &'a EvaluationPool,
    /// The recorder of the walk.
    pub(super) recorder: &'a RunRecorder<'a>,
    /// The path of the step.
    pub(super) path: &'a str,
    /// Cancels the step.
    pub(super) cancel: &'a CancelToken,
}

impl StepEvaluator<'_> {
    /// Evaluates a condition.
    pub(super) async fn evaluate_condition(
        &self,
        condition: &Condition,
        scope: &VariableScope<'_>,
    ) -> Result<bool, StepError> {
        let holds = if condition.evaluation_cost(scope).is_expensive() {
            let variables = scope.variables_of(condition);
            let expression = format!("the condition `{}`", condition.source());
            let condition = condition.clone();
            let evaluation = move || condition.evaluate(&variables);
            let evaluated = Box::pin(self.evaluate_on_pool(expression, evaluation)).await?;
            evaluated.map_err(|error| self.recorder.fail_step(self.path, error))?
        } else {
            scope.evaluate_condition(condition)
        };
        holds.map_err(|error| {
            let error = Error::new(ErrorKind::ConditionError, error.to_string());
            self.recorder.fail_step(self.path, error.with_context("condition"))
        })
    }

    /// Returns the value of one output, and the result again, which moves to the pool during an expensive
    /// query.
    pub(super) async fn extract_output(
        &self,
        output: &OutputMapping,
        result: StepResult,
    ) -> Result<(Result<Value, Error>, StepResult), StepError> {
        match &output.source {
            OutputSource::Body(query) if query.evaluation_cost(&result.body).is_expensive() => {
                let taken = output.clone();
                let expression = format!("the query `{}`", query.source());
                let evaluation = move || (result.extract_output(&taken), result);
                let evaluated = Box::pin(self.evaluate_on_pool(expression, evaluation)).await?;
                evaluated.map_err(|error| self.recorder.fail_step(self.path, error))
            }
            OutputSource::Body(_) | OutputSource::Header(_) | OutputSource::Status => {
                Ok((result.extract_output(output), result))
            }
        }
    }

    /// Marks the secret values that a result will set, before anything about it is recorded or shown.
    pub(super) async fn learn_outputs(
        &self,
        unit: &PlanUnit,
        outputs: &[OutputMapping],
        mut result: StepResult,
    ) -> Result<StepResult, StepError> {
        let mut set = Map::new();
        for output in outputs.iter().filter(|output| unit.sensitive.contains(output.variable())) {
            let taken = self.extract_output(output, result).await?;
            if let Ok(value) = taken.0 {
                output.set(&mut set, value);
            }
            result = taken.1;
        }
        self.recorder.learn_secrets(self.path, unit, &set)?;
        Ok(result)
    }

    /// Returns the violations in the body of a response, or the error of a check that takes too long, and
    /// the body again.
    pub(super) async fn check_response(
        &self,
        contract: &Arc<TaskContract>,
        response: &RawResponse,
        body: Value,
    ) -> Result<(Result<Vec<SchemaViolation>, Error>, Value), StepError> {
        let check = "the check of the response against its schema";
        match contract.response_cost(response, &body) {
            EvaluationCost::Cheap => {
                return Ok((Ok(contract.check_response(response, &body)), body));
            }
            EvaluationCost::Expensive => {}
            EvaluationCost::Excessive => return Ok((Err(self.overdue(check)), body)),
        }
        let body = Arc::new(body);
        let (contract, response) = (Arc::clone(contract), response.clone());
        let checked = Arc::clone(&body);
        let evaluation = move || contract.check_response(&response, &checked);
        let violations = Box::pin(self.evaluate_on_pool(check.to_owned(), evaluation)).await?;
        Ok((violations, Arc::unwrap_or_clone(body)))
    }

    /// Evaluates an expensive expression. `Ok(Err)` is an evaluation past its deadline.
    async fn evaluate_on_pool<T: Send + 'static>(
        &self,
        expression: String,
        evaluation: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Result<T, Error>, StepError> {
        let Self { pool, path, .. } = self;
        match pool.evaluate(self.cancel, evaluation).await {
            Ok(value) => Ok(Ok(value)),
            Err(EvaluationError::Cancelled(why)) => Err(StepError::Cancelled(why)),
            Err(EvaluationError::Overdue) => Ok(Err(self.overdue(&expression))),
            Err(EvaluationError::Broken) => {
                let error =
                    Error::new(ErrorKind::Internal, "the evaluation of an expression failed");
                Err(self.recorder.fail_step(path, error))
            }
        }
    }

    /// The error for an expression that takes too long.
    fn overdue(&self, expression: &str) -> Error {
        let Self { pool, path, .. } = self;
        let step = if path.is_empty() { String::new() } else { format!(" of step `{path}`") };
        let expression = to_single_line(expression, MAX_EXPRESSION);
        let limit = pool.timeout;
        let message = format!("the evaluation of {expression}{step} takes longer than {limit:?}");
        Error::new(ErrorKind::EvaluationTimeout, message)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::outbound::with_tenant;

    const LONG: Duration = Duration::from_secs(3_600);

    #[tokio::test]
    async fn late_evaluation_keeps_its_permit_until_its_end() {
        let pool = EvaluationPool::with_permits(1, Duration::from_millis(1));
        let (release, blocked) = mpsc::channel::<()>();
        let overdue = pool.evaluate(&CancelToken::default(), move || blocked.recv()).await;
        assert_eq!(overdue, Err(EvaluationError::Overdue));
        assert_eq!(pool.permits.available_permits(), 0);

        let halt = CancelToken::default();
        let mut waiting = Box::pin(pool.evaluate(&halt, || ()));
        assert!(futures::poll!(&mut waiting).is_pending());
        halt.cancel(CancelReason::Cancelled);
        assert_eq!(waiting.await, Err(EvaluationError::Cancelled(CancelReason::Cancelled)));

        drop(release);
        drop(pool.permits.acquire().await.unwrap());
    }

    #[tokio::test]
    async fn an_evaluation_can_be_cancelled_and_one_that_panics_is_broken() {
        let pool = EvaluationPool::with_permits(1, LONG);
        let (release, blocked) = mpsc::channel::<()>();
        let halt = CancelToken::default();
        let mut waiting = Box::pin(pool.evaluate(&halt, move || blocked.recv()));
        assert!(futures::poll!(&mut waiting).is_pending());
        halt.cancel(CancelReason::RunTimeout);
        assert_eq!(waiting.await, Err(EvaluationError::Cancelled(CancelReason::RunTimeout)));

        // A part of the run that stops because of another one waits for the value.
        let sibling = CancelToken::default();
        sibling.cancel(CancelReason::SiblingFailed);
        drop(release);
        assert_eq!(pool.evaluate(&sibling, || 7).await, Ok(7));

        let panicked =
            pool.evaluate(&CancelToken::default(), || panic!("a fault of the test")).await;
        assert_eq!(panicked, Err::<(), _>(EvaluationError::Broken));
        assert_eq!(pool.evaluate(&CancelToken::default(), || 8).await, Ok(8));
    }

    #[tokio::test]
    async fn end_users_of_one_token_leave_permits_to_others() {
        let pool = EvaluationPool::with_permits(2, LONG);
        let halt = CancelToken::default();
        let (release, blocked) = mpsc::channel::<()>();
        let blocking = pool.evaluate(&halt, move || blocked.recv().is_err());
        let mut first = Box::pin(with_tenant("svc/ann".to_owned(), blocking));
        assert!(futures::poll!(&mut first).is_pending());
        let mut second = Box::pin(with_tenant("svc/bob".to_owned(), pool.evaluate(&halt, || ())));
        assert!(futures::poll!(&mut second).is_pending());
        assert_eq!(pool.permits.available_permits(), 1);
        let other = with_tenant("ci".to_owned(), pool.evaluate(&halt, || 7));
        assert_eq!(other.await, Ok(7));
        assert!(futures::poll!(&mut second).is_pending());
        drop(release);
        assert_eq!((first.await, second.await), (Ok(true), Ok(())));
        assert!(lock(&pool.shares).values().all(|share| share.strong_count() == 0));
    }
}
