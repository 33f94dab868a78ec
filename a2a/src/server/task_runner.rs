//! The work on a task: a turn of the agent that continues even without a listener.

use std::sync::Arc;

use a2s_api::{AgentRequest, AgentResponse};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use super::request_params::IncomingMessage;
use super::{A2aServer, busy_error, task_not_found};
use crate::model::{A2aTask, Part, TaskState, TaskStatus, TaskUpdate};
use crate::rpc::{Kind, RpcError};
use crate::server::status_messages::{TaskOutcome, progress_text};
use crate::server::tasks::{TaskEntry, TaskNotWaiting, TaskStoreFull};
use agent::EmptyState;
use agent::Error;
use agent::{RunCheck, WaitingTurn};

impl A2aServer {
    /// Begins a task with a message, or continues the task with the question that the message answers.
    /// Returns the task before any work, and the number of updates so far.
    ///
    /// # Errors
    /// The task does not exist, does not accept a message, or too many turns run at once.
    pub(super) fn start_task(
        self: &Arc<Self>,
        incoming: IncomingMessage,
    ) -> Result<(Arc<TaskEntry>, (A2aTask, usize)), RpcError> {
        let permit = Arc::clone(&self.turns).try_acquire_owned();
        let permit = permit.map_err(|_| busy_error())?;
        let now = self.agent.clock().now();
        let IncomingMessage { mut message, intent, context, task, .. } = incoming;
        let entry = match task {
            Some(id) => {
                let entry =
                    self.tasks.get(id, self.owner.as_ref(), now).ok_or_else(task_not_found)?;
                if context.is_some_and(|context| context != entry.context) {
                    let text = "the task belongs to another `contextId`";
                    return Err(RpcError::new(Kind::Params, text));
                }
                entry
            }
            None => {
                let new_id = || self.agent.clock().new_id();
                let context = context.unwrap_or_else(|| new_id().to_string());
                let owner = self.owner.clone();
                self.tasks
                    .create(new_id(), owner, context, now)
                    .map_err(|TaskStoreFull| busy_error())?
            }
        };
        if intent.text.trim().is_empty() && entry.asks_for_consent() {
            let text = "the message has no text, but the agent asked for a yes or no";
            return Err(RpcError::new(Kind::Params, text));
        }
        message.context = Some(entry.context.clone());
        message.task = Some(entry.id.to_string());
        let waiting = entry.waiting_turn();
        let pending = entry.accept_message(message, now).map_err(|TaskNotWaiting(state)| {
            let what = if state.is_final() { "has ended" } else { "is in progress" };
            RpcError::new(
                Kind::Unsupported,
                format!("the task {what} and does not accept messages"),
            )
        })?;
        let request = AgentRequest {
            message: intent.text,
            session: Some(entry.context.clone()),
            pending,
            inputs: intent.inputs,
            ..AgentRequest::default()
        };
        let before = entry.snapshot();
        if let Some(waiting) = waiting {
            // Whatever the message says: the run has its inputs, and a person decides about it.
            self.follow_run(&entry, waiting, permit);
            return Ok((entry, before));
        }
        let (server, worked_on) = (Arc::clone(self), Arc::clone(&entry));
        let work = tokio::spawn(async move {
            server.run_turn(&worked_on, request).await;
            drop(permit);
        });
        entry.set_abort_handle(work.abort_handle());
        Ok((entry, before))
    }

    async fn run_turn(self: &Arc<Self>, entry: &Arc<TaskEntry>, request: AgentRequest) {
        let mut end = TaskDropGuard { server: self, entry, ended: false };
        let report = |text: Option<String>| {
            self.set_status(entry, TaskState::Working, text.map(|text| vec![Part::Text(text)]));
        };
        report(None);
        let mut hear = |event| {
            if let Some(text) = progress_text(&event) {
                report(Some(text));
            }
        };
        let answered = self.agent.handle(request, &EmptyState, &mut hear).await;
        match answered {
            Ok(answer) => {
                if let Some(question) = &answer.question {
                    let open = question.fields.iter().filter(|field| !field.secret);
                    let open = open.map(|field| field.name.clone()).collect();
                    entry.set_question(question.pending.clone(), open);
                }
                self.end_turn(entry, &answer, TaskOutcome::from_response(&answer));
            }
            Err(error) => self.apply_outcome(entry, TaskOutcome::failed(error.to_string())),
        }
        end.ended = true;
    }

    /// Checks the run that a task waits for, if there is one, and continues the task when the run
    /// continues. If the run has ended, the task has its result when this function returns.
    pub(super) async fn refresh_waiting_task(self: &Arc<Self>, entry: &Arc<TaskEntry>) {
        let Some(mut waiting) = entry.waiting_turn() else { return };
        if entry.snapshot().0.status.state != TaskState::AuthRequired {
            return;
        }
        let now = self.agent.clock().now();
        match waiting.check_run(&self.agent).await {
            Ok(RunCheck::StillWaiting) => entry.await_run(Some(waiting)),
            Ok(RunCheck::WaitsForOther(answer)) => {
                if entry.resume(now) {
                    self.end_turn(entry, &answer, TaskOutcome::after_waiting(&answer));
                }
            }
            Ok(look @ (RunCheck::Resumed | RunCheck::Ended)) => {
                // Without room the task is as it was, and may be asked for again.
                let Ok(permit) = Arc::clone(&self.turns).try_acquire_owned() else { return };
                if entry.resume(now) {
                    self.follow_run(entry, waiting, permit);
                }
                if matches!(look, RunCheck::Ended) {
                    entry.wait_until_settled().await;
                }
            }
            Err(error @ Error::BadRequest(_)) => {
                if entry.resume(now) {
                    entry.await_run(None);
                    self.apply_outcome(entry, TaskOutcome::failed(error.to_string()));
                }
            }
            Err(error) => tracing::debug!(%error, "a waiting run could not be read"),
        }
    }

    /// Follows the run of a task that waited, until the run ends or waits again.
    fn follow_run(
        self: &Arc<Self>,
        entry: &Arc<TaskEntry>,
        waiting: WaitingTurn,
        permit: OwnedSemaphorePermit,
    ) {
        let (server, worked_on) = (Arc::clone(self), Arc::clone(entry));
        let work = tokio::spawn(async move {
            let mut end = TaskDropGuard { server: &server, entry: &worked_on, ended: false };
            server.set_status(&worked_on, TaskState::Working, None);
            match waiting.follow(&server.agent, &mut |_| {}).await {
                Ok(answer) => {
                    server.end_turn(&worked_on, &answer, TaskOutcome::after_waiting(&answer))
                }
                Err(error @ Error::BadRequest(_)) => {
                    server.apply_outcome(&worked_on, TaskOutcome::failed(error.to_string()));
                }
                // The run is where it was; only its executor does not answer.
                Err(error) => {
                    let parts = vec![Part::Text(format!("{error}. Send the request again."))];
                    server.set_status(&worked_on, TaskState::AuthRequired, Some(parts));
                }
            }
            end.ended = true;
            drop(permit);
        });
        entry.set_abort_handle(work.abort_handle());
    }

    fn end_turn(&self, entry: &TaskEntry, answer: &AgentResponse, ending: TaskOutcome) {
        entry.set_metadata("a2s", json!({ "status": answer.status, "turn": answer.turn }));
        entry.await_run(WaitingTurn::from_response(answer));
        self.apply_outcome(entry, ending);
    }

    fn apply_outcome(&self, entry: &TaskEntry, ending: TaskOutcome) {
        for artifact in ending.artifacts {
            entry.apply_update(TaskUpdate::Artifact(artifact), self.agent.clock().now());
        }
        self.set_status(entry, ending.state, Some(ending.parts));
    }

    fn set_status(&self, entry: &TaskEntry, state: TaskState, parts: Option<Vec<Part>>) {
        let now = self.agent.clock().now();
        let message = parts.map(|parts| self.new_message(entry, parts));
        entry.apply_update(
            TaskUpdate::Status(TaskStatus { state, message, timestamp: Some(now) }),
            now,
        );
    }
}

/// Marks a task as failed when its work is lost, so that callers do not wait for it.
struct TaskDropGuard<'a> {
    server: &'a Arc<A2aServer>,
    entry: &'a Arc<TaskEntry>,
    ended: bool,
}

impl Drop for TaskDropGuard<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let parts = TaskOutcome::failed("The agent was stopped.".to_owned()).parts;
            self.server.set_status(self.entry, TaskState::Failed, Some(parts));
        }
    }
}
