//! Runs that wait for a person: the approvals that they wait for, and a later look at one of them.

use a2s_api::{
    AgentEvent, AgentResponse, AgentRun, AgentStatus, CapabilityRef, Run, RunStatus,
    SkippedCandidate,
};
use uuid::Uuid;

use super::{AgentTurn, TurnOutcome, TurnRecord, reply_text};
use crate::agent::{Agent, Backend};
use crate::client::Error as ClientError;
use crate::error::Error;
use crate::state_store::EmptyState;

/// The HTTP status of a response about an unknown run.
const NOT_FOUND: u16 = 404;

/// Describes a run of a capability, with the approvals that it waits for.
pub(super) fn describe_run(run: Run, capability: CapabilityRef) -> AgentRun {
    let Run { id, status, output, error, approvals, .. } = run;
    let waits = status == RunStatus::Waiting;
    AgentRun {
        id,
        capability,
        status,
        output,
        error,
        approvals: if waits { approvals } else { Vec::new() },
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
        })
    }

    /// Checks the state of the run without waiting.
    ///
    /// # Errors
    /// Fails when none of the executors knows the run, or when a required executor does not respond.
    pub async fn check_run(&mut self, agent: &Agent) -> Result<RunCheck, Error> {
        let (_, run) = find_run(agent, self.run.id).await?;
        match run.status {
            RunStatus::Waiting => {}
            RunStatus::Queued | RunStatus::Running => return Ok(RunCheck::Resumed),
            status if status.is_final() => return Ok(RunCheck::Ended),
            _ => return Ok(RunCheck::Resumed),
        }
        let now = describe_run(run, self.run.capability.clone());
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
        let mut events = source.executor.stream_events(self.run.id, 0);
        while events.next().await?.is_some() {}
        let run = source.executor.get_run(self.run.id).await?;
        self.run = describe_run(run, self.run.capability.clone());
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
