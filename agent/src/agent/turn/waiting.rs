//! Runs that wait for a person: the approvals that they wait for, and a later look at one of them.

use std::collections::BTreeMap;
use std::time::Duration;

use a2s_api::{
    AgentApproval, AgentEvent, AgentResponse, AgentRun, AgentStatus, CapabilityRef, EventKind, Run,
    RunStatus, SkippedCandidate,
};
use uuid::Uuid;

use super::{AgentTurn, TurnOutcome, TurnRecord, reply_text};
use crate::agent::{Agent, Backend};
use crate::client::Error as ClientError;
use crate::error::Error;
use crate::state_store::EmptyState;

/// The HTTP status of a response about an unknown run.
const NOT_FOUND: u16 = 404;
/// The maximum number of approvals of one run in a response.
const MAX_APPROVALS: usize = 100;
/// The time limit for reading the events of a run that waits.
const MAX_CHECK_TIME: Duration = Duration::from_secs(5);

/// The approvals that a run waits for, by step, as its events report them.
#[derive(Debug, Default)]
pub(super) struct OpenApprovals(BTreeMap<String, AgentApproval>);

impl OpenApprovals {
    /// Reads the known approvals of a run.
    fn from_run(run: &AgentRun) -> Self {
        let by_step = run.approvals.iter().map(|it| (it.step.clone(), it.clone()));
        Self(by_step.collect())
    }

    /// Applies the next event of the run.
    pub(super) fn apply_event(&mut self, event: &EventKind) {
        match event {
            // Steps that need an approval will request it again.
            EventKind::RunResumed {} => self.0.clear(),
            EventKind::ApprovalRequested { step, about, guardian, id, expires_at, .. }
                if self.0.len() < MAX_APPROVALS =>
            {
                let approval = AgentApproval {
                    step: step.clone(),
                    about: *about,
                    id: id.clone(),
                    guardian: guardian.clone(),
                    expires_at: *expires_at,
                };
                self.0.insert(step.clone(), approval);
            }
            _ => {}
        }
    }

    /// Describes the run, with the approvals that it waits for.
    pub(super) fn describe(self, run: Run, capability: CapabilityRef) -> AgentRun {
        let Run { id, status, output, error, .. } = run;
        let waits = status == RunStatus::Waiting;
        let approvals = if waits { self.0.into_values().collect() } else { Vec::new() };
        AgentRun { id, capability, status, output, error, approvals }
    }
}

/// A turn with a last run that waits for a person.
#[derive(Debug, Clone)]
pub struct WaitingTurn {
    session: String,
    /// The earlier runs of the turn.
    done: Vec<AgentRun>,
    run: AgentRun,
    /// The chosen capabilities after this run, which have not started.
    not_started: Vec<CapabilityRef>,
    /// The number of the last event that was read.
    seen: u64,
}

/// The result of a later look at the run.
#[derive(Debug)]
pub enum RunCheck {
    /// The run still waits for the same approvals.
    StillWaiting,
    /// The run waits for other approvals.
    WaitsForOther(Box<AgentResponse>),
    /// The run continues.
    Resumed,
    /// The run has ended.
    Ended,
}

impl WaitingTurn {
    /// Returns the waiting turn of a response, if its last run waits.
    pub fn from_response(answer: &AgentResponse) -> Option<Self> {
        let (run, done) = answer.runs.split_last()?;
        (answer.status == AgentStatus::Waiting).then(|| Self {
            session: answer.session.clone(),
            done: done.to_vec(),
            run: run.clone(),
            not_started: answer.not_started.clone(),
            seen: 0,
        })
    }

    /// Checks the state of the run without waiting.
    ///
    /// # Errors
    /// Fails when none of the executors knows the run, or when a required executor does not respond.
    pub async fn check_run(&mut self, agent: &Agent) -> Result<RunCheck, Error> {
        let (source, run) = find_run(agent, self.run.id).await?;
        match run.status {
            RunStatus::Waiting => {}
            RunStatus::Queued | RunStatus::Running => return Ok(RunCheck::Resumed),
            status if status.is_final() => return Ok(RunCheck::Ended),
            _ => return Ok(RunCheck::Resumed),
        }
        let reading = self.read_events(source);
        // A run that is let go on just now has events until it ends.
        let Ok(approvals) = tokio::time::timeout(MAX_CHECK_TIME, reading).await else {
            return Ok(RunCheck::Resumed);
        };
        let now = approvals?.describe(run, self.run.capability.clone());
        if now.approvals == self.run.approvals {
            return Ok(RunCheck::StillWaiting);
        }
        self.run = now;
        let answer = self.clone().finish(agent, &mut |_| {}).await;
        Ok(RunCheck::WaitsForOther(Box::new(answer)))
    }

    /// Follows the run until it has ended or waits again, and returns the response of the turn. When the
    /// future is dropped, the run continues.
    ///
    /// # Errors
    /// Fails when none of the executors knows the run, or when an executor does not respond.
    pub async fn follow(
        mut self,
        agent: &Agent,
        emit: &mut (dyn FnMut(AgentEvent) + Send),
    ) -> Result<AgentResponse, Error> {
        let (source, _) = find_run(agent, self.run.id).await?;
        let approvals = self.read_events(source).await?;
        let run = source.executor.get_run(self.run.id).await?;
        self.run = approvals.describe(run, self.run.capability.clone());
        Ok(self.finish(agent, emit).await)
    }

    /// Cancels the run.
    ///
    /// # Errors
    /// Fails when none of the executors knows the run, when the run is over, or when an executor does not
    /// respond.
    pub async fn cancel(&self, agent: &Agent) -> Result<(), Error> {
        let (source, _) = find_run(agent, self.run.id).await?;
        source.executor.cancel(self.run.id).await?;
        Ok(())
    }

    async fn read_events(&mut self, source: &Backend) -> Result<OpenApprovals, ClientError> {
        let mut approvals = OpenApprovals::from_run(&self.run);
        let mut events = source.executor.stream_events(self.run.id, self.seen);
        while let Some(event) = events.next().await? {
            approvals.apply_event(&event.kind);
            self.seen = event.seq;
        }
        Ok(approvals)
    }

    async fn finish(
        self,
        agent: &Agent,
        emit: &mut (dyn FnMut(AgentEvent) + Send),
    ) -> AgentResponse {
        let mut turn = AgentTurn::new(agent, &EmptyState, emit, self.session);
        let record =
            TurnRecord { runs: self.done, not_started: self.not_started, ..TurnRecord::default() };
        turn.record = record;
        let ending = turn.record.end_waiting_run(self.run);
        turn.finish(ending).await
    }
}

impl TurnRecord {
    /// Adds the last run, which has waited for a person, and returns the end of the turn.
    fn end_waiting_run(&mut self, run: AgentRun) -> TurnOutcome {
        let (status, message) = match run.status {
            RunStatus::Succeeded if self.not_started.is_empty() => {
                (AgentStatus::Completed, reply_text::describe_runs(std::slice::from_ref(&run)))
            }
            RunStatus::Succeeded => {
                let done = reply_text::describe_runs(std::slice::from_ref(&run));
                (AgentStatus::Failed, reply_text::append_not_started(done, &self.not_started))
            }
            RunStatus::Waiting => (AgentStatus::Waiting, reply_text::describe_waiting_run(&run)),
            RunStatus::Queued | RunStatus::Running => {
                (AgentStatus::Waiting, reply_text::describe_running(&run))
            }
            RunStatus::Denied | RunStatus::Failed | RunStatus::Cancelled => {
                self.skipped.push(skipped_run(&run));
                let is_denied = run.status == RunStatus::Denied;
                let status = if is_denied { AgentStatus::Denied } else { AgentStatus::Failed };
                let message = reply_text::describe_failure(&self.skipped, Some(&run));
                (status, reply_text::append_not_started(message, &self.not_started))
            }
        };
        self.runs.push(run);
        TurnOutcome::new(status, message)
    }
}

/// Returns the candidate of a run that did not succeed, with the reason.
pub(super) fn skipped_run(run: &AgentRun) -> SkippedCandidate {
    let error = run.error.as_ref();
    SkippedCandidate {
        capability: run.capability.clone(),
        code: error.map(|error| error.code.clone()),
        message: error.map_or_else(
            || format!("its run ended with the status {}", run.status.as_str()),
            |error| error.message.clone(),
        ),
        run: Some(run.id),
    }
}

/// A run, and the source with the executor that knows it.
async fn find_run(agent: &Agent, run: Uuid) -> Result<(&Backend, Run), Error> {
    let mut failure = Error::BadRequest(format!("unknown run {run}"));
    for source in &agent.backends {
        match source.executor.get_run(run).await {
            Ok(found) => return Ok((source, found)),
            Err(ClientError::Refused { problem }) if problem.status == NOT_FOUND => {}
            // An executor that does not answer may be the one that knows it.
            Err(error) => failure = error.into(),
        }
    }
    Err(failure)
}
