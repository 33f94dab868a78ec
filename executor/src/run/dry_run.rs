//! Rehearsals: a plan is walked with responses that are already available. Nothing is sent, no guardian is
//! asked, and nothing is stored.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use a2s_api::RunEvent;
use prometheus_client::registry::Registry;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::run_task::last_event;
use crate::clock::{Clock, RandomSource, milliseconds_between};
use crate::config::Limits;
use crate::engine::{
    CancelToken, CannedResponses, Engine, EvaluationPool, RunBudget, RunRecorder, ServiceTransport,
};
use crate::journal::Journal;
use crate::journal::run_state::RunProgress;
use crate::metrics::Metrics;
use crate::plan::ExecutionPlan;
use crate::request::ContractCache;
use crate::secrets::RunSecrets;

/// A plan that is walked with available responses.
#[derive(Debug)]
pub(crate) struct DryRun<'r> {
    /// The run that it represents: ids that are made for services are derived from it.
    pub(crate) run: Uuid,
    /// Its session.
    pub(crate) session: &'r str,
    /// The plan to walk.
    pub(crate) plan: &'r ExecutionPlan,
    /// The steps that count as done.
    pub(crate) progress: &'r RunProgress,
    /// The inputs, with defaults.
    pub(crate) inputs: &'r Map<String, Value>,
    /// The source of the responses.
    pub(crate) answers: &'r dyn CannedResponses,
    /// The permits for expensive evaluations.
    pub(crate) evaluations: &'r EvaluationPool,
    /// The limits of the walk.
    pub(crate) limits: &'r Limits,
    /// The clock.
    pub(crate) clock: Arc<dyn Clock>,
    /// The source of randomness.
    pub(crate) ids: Arc<dyn RandomSource>,
}

impl DryRun<'_> {
    /// Walks the plan, and returns its events as in the journal of a run, without the first one.
    pub(crate) async fn walk(self) -> Vec<RunEvent> {
        let Self { run, session, plan, progress, inputs, answers, .. } = self;
        let Self { evaluations, limits, clock, ids, .. } = self;
        let secrets = Arc::new(RunSecrets::new(ids.random_bytes()));
        let journal = Journal::in_memory(run, Arc::clone(&clock), Arc::clone(&secrets));
        let metrics = Metrics::register(&mut Registry::default());
        let began = clock.now();
        let engine = Engine {
            run,
            session,
            plan,
            recorder: RunRecorder {
                progress,
                effects: AtomicUsize::new(0),
                budget: RunBudget::new(limits, 0),
                secrets: &secrets,
                journal: &journal,
                clock: &clock,
                metrics: &metrics,
                keep_answer_bytes: 0,
            },
            transport: ServiceTransport::Canned(answers),
            contracts: ContractCache::default(),
            evaluations,
            max_parallel: limits.max_parallel,
            max_request_bytes: limits.max_request_bytes,
        };
        let ended = engine.walk(inputs, &CancelToken::default()).await;
        let duration_ms = milliseconds_between(began, clock.now());
        if let Some(kind) = last_event(ended, true, duration_ms) {
            journal.append(kind);
        }
        journal.into_events()
    }
}
