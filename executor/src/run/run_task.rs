//! Driving one run: its plan is walked until it ends or must be released.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use a2s_api::{EventKind, Principal, RunError, RunStatus};
use futures::FutureExt as _;
use serde_json::Value;
use uuid::Uuid;

use super::cancelled;
use super::context::RunContext;
use super::scheduler::{ActiveRun, RunSlot};
use crate::clock::milliseconds_between;
use crate::engine::{
    CancelReason, Engine, LiveTransport, RunBudget, RunRecorder, ServiceTransport, StepError,
};
use crate::error::{Error, ErrorKind};
use crate::journal::run_state::{RunHeader, RunProgress};
use crate::plan::ExecutionPlan;
use crate::request::ContractCache;
use crate::telemetry::RunTrace;

/// A run that is about to be driven.
pub(super) struct RunTask {
    pub(super) run: Uuid,
    /// The principal that it belongs to.
    pub(super) principal: Principal,
    pub(super) active: Arc<ActiveRun>,
    pub(super) plan: ExecutionPlan,
    pub(super) header: RunHeader,
    pub(super) progress: RunProgress,
    pub(super) slot: RunSlot,
}

impl RunTask {
    /// Walks the plan of a run, and returns the event to record at its end.
    pub(super) async fn walk(&self, context: &RunContext) -> Option<EventKind> {
        let Self { run, principal, active, plan, header, progress, slot: _ } = self;
        let limits = &context.config.limits;
        let exported = context.sinks.exports_spans();
        let trace = RunTrace::from_caller(*run, header.trace.as_deref(), exported);
        let engine = Engine {
            run: *run,
            session: &header.session,
            plan,
            recorder: RunRecorder {
                progress,
                effects: AtomicUsize::new(progress.count_effects()),
                budget: RunBudget::new(limits, progress.count_begun()),
                secrets: &active.secrets,
                journal: &active.journal,
                clock: &context.clock,
                metrics: &context.metrics,
                keep_answer_bytes: limits.keep_answer_bytes,
            },
            transport: ServiceTransport::Live(LiveTransport {
                trace: Some(&trace),
                propagate: context.config.telemetry.propagate,
                ..context.live_transport(principal)
            }),
            contracts: ContractCache::default(),
            evaluations: &context.evaluations,
            max_parallel: limits.max_parallel,
            max_request_bytes: limits.max_request_bytes,
        };
        let walk = AssertUnwindSafe(engine.walk(&header.inputs, &active.cancel)).catch_unwind();
        let mut walk = std::pin::pin!(walk);
        let ended = tokio::select! {
            ended = &mut walk => ended,
            () = tokio::time::sleep(limits.max_run_time) => {
                active.cancel.cancel(CancelReason::RunTimeout);
                walk.await
            }
        };
        let ended = ended.unwrap_or_else(|_| {
            // The panic itself was reported where it happened.
            let error = Error::new(ErrorKind::Internal, "the executor failed during this run");
            Err(StepError::Failed(error.to_run_error(None, None, engine.is_repeat_safe())))
        });
        let duration_ms = milliseconds_between(header.at, context.clock.now());
        last_event(ended, engine.is_repeat_safe(), duration_ms)
    }
}

/// The event to record when a walk has ended; `None` when the run continues later.
pub(super) fn last_event(
    ended: Result<Value, StepError>,
    repeat_safe: bool,
    duration_ms: u64,
) -> Option<EventKind> {
    let failed = |error: RunError| {
        let denied = ErrorKind::from_code(&error.code).is_some_and(ErrorKind::is_denial);
        let status = if denied { RunStatus::Denied } else { RunStatus::Failed };
        Some(EventKind::RunFinished { status, output: None, error: Some(error), duration_ms })
    };
    let of_kind = |kind, words| {
        let error: Error = Error::new(kind, words);
        error.to_run_error(None, None, repeat_safe)
    };
    match ended {
        Ok(output) => Some(EventKind::RunFinished {
            status: RunStatus::Succeeded,
            output: Some(output),
            error: None,
            duration_ms,
        }),
        Err(StepError::Failed(error)) => failed(error),
        Err(StepError::Waiting(error)) => Some(EventKind::RunWaiting { error }),
        Err(StepError::Cancelled(CancelReason::Cancelled)) => {
            Some(cancelled(repeat_safe, duration_ms))
        }
        Err(StepError::Cancelled(CancelReason::RunTimeout)) => {
            failed(of_kind(ErrorKind::BudgetExceeded, CancelReason::RunTimeout.message()))
        }
        Err(StepError::Cancelled(CancelReason::Suspended | CancelReason::LeaseLost)) => None,
        // Only parts of a run stop for these; the step that failed is the reason of the whole.
        Err(StepError::Cancelled(CancelReason::SiblingFailed | CancelReason::StepTimeout)) => {
            failed(of_kind(ErrorKind::Internal, "a run ended before its last step"))
        }
        Err(StepError::Broken(error)) => {
            tracing::error!(%error, "the executor stops a run, because it cannot record events");
            None
        }
    }
}
