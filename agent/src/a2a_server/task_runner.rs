//! A task being done: a turn of the agent that goes on when nobody listens.

use std::sync::Arc;

use a2s::api::{AgentRequest, AgentResponse};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use super::request_params::Incoming;
use super::{Desk, busy, no_task};
use crate::a2a::model::{Part, Status, Task, TaskState, Update};
use crate::a2a::rpc::{Fault, Kind};
use crate::a2a_server::status_messages::{Ending, progress};
use crate::a2a_server::tasks::{Entry, NoRoom, NotWaiting};
use crate::agent::turn::waiting::{Look, WaitingTurn};
use crate::error::Error;
use crate::state_store::EmptyState;

impl Desk {
    /// Begins a task with a message, or goes on with the one whose question it answers. Gives the
    /// task as it is before anything is done, and how many updates led to it.
    ///
    /// # Errors
    /// There is no such task, it takes no message, or too much is done at once.
    pub(super) fn begin(
        self: &Arc<Self>,
        incoming: Incoming,
    ) -> Result<(Arc<Entry>, (Task, usize)), Fault> {
        let permit = Arc::clone(&self.turns).try_acquire_owned();
        let permit = permit.map_err(|_| busy())?;
        let now = self.agent.outside.now();
        let Incoming { mut message, wish, context, task, .. } = incoming;
        let entry = match task {
            Some(id) => {
                let entry = self.tasks.get(id, self.owner.as_ref(), now).ok_or_else(no_task)?;
                if context.is_some_and(|context| context != entry.context) {
                    let text = "the task belongs to another `contextId`";
                    return Err(Fault::new(Kind::Params, text));
                }
                entry
            }
            None => {
                let new_id = || self.agent.outside.new_id();
                let context = context.unwrap_or_else(|| new_id().to_string());
                let owner = self.owner.clone();
                self.tasks.open(new_id(), owner, context, now).map_err(|NoRoom| busy())?
            }
        };
        if wish.text.trim().is_empty() && entry.asks_for_a_yes() {
            let text = "the message says nothing in words, and the question is whether to go on";
            return Err(Fault::new(Kind::Params, text));
        }
        message.context = Some(entry.context.clone());
        message.task = Some(entry.id.to_string());
        let waiting = entry.waiting_turn();
        let pending = entry.hear(message, now).map_err(|NotWaiting(state)| {
            let what = if state.is_final() { "is over" } else { "is being done" };
            Fault::new(Kind::Unsupported, format!("the task {what} and takes no message"))
        })?;
        let request = AgentRequest {
            message: wish.text,
            session: Some(entry.context.clone()),
            pending,
            inputs: wish.inputs,
            ..AgentRequest::default()
        };
        let before = entry.now();
        if let Some(waiting) = waiting {
            // Whatever the message says: the run has its inputs, and a person decides about it.
            self.follow_run(&entry, waiting, permit);
            return Ok((entry, before));
        }
        let (desk, worked_on) = (Arc::clone(self), Arc::clone(&entry));
        let work = tokio::spawn(async move {
            desk.work(&worked_on, request).await;
            drop(permit);
        });
        entry.attach(work.abort_handle());
        Ok((entry, before))
    }

    async fn work(self: &Arc<Self>, entry: &Arc<Entry>, request: AgentRequest) {
        let mut end = Unended { desk: self, entry, ended: false };
        let tell = |text: Option<String>| {
            self.change(entry, TaskState::Working, text.map(|text| vec![Part::Text(text)]));
        };
        tell(None);
        let mut hear = |event| {
            if let Some(text) = progress(&event) {
                tell(Some(text));
            }
        };
        let answered = self.agent.handle(request, &EmptyState, &mut hear).await;
        match answered {
            Ok(answer) => {
                if let Some(question) = &answer.question {
                    let open = question.fields.iter().filter(|field| !field.secret);
                    let open = open.map(|field| field.name.clone()).collect();
                    entry.ask(question.pending.clone(), open);
                }
                self.end_turn(entry, &answer, Ending::of(&answer));
            }
            Err(error) => self.put_ending(entry, Ending::failed(error.to_string())),
        }
        end.ended = true;
    }

    /// Looks at the run that a task waits for, where it waits for one, and lets the task go on when the
    /// run does. What has ended is there when this is over.
    pub(super) async fn look_again(self: &Arc<Self>, entry: &Arc<Entry>) {
        let Some(mut waiting) = entry.waiting_turn() else { return };
        if entry.now().0.status.state != TaskState::AuthRequired {
            return;
        }
        let now = self.agent.outside.now();
        match waiting.look(&self.agent).await {
            Ok(Look::Waits) => entry.await_run(Some(waiting)),
            Ok(Look::WaitsAnew(answer)) => {
                if entry.reopen(now) {
                    self.end_turn(entry, &answer, Ending::after_waiting(&answer));
                }
            }
            Ok(look @ (Look::GoesOn | Look::Ended)) => {
                // Without room the task is as it was, and may be asked for again.
                let Ok(permit) = Arc::clone(&self.turns).try_acquire_owned() else { return };
                if entry.reopen(now) {
                    self.follow_run(entry, waiting, permit);
                }
                if matches!(look, Look::Ended) {
                    entry.settle().await;
                }
            }
            Err(error @ Error::BadRequest(_)) => {
                if entry.reopen(now) {
                    entry.await_run(None);
                    self.put_ending(entry, Ending::failed(error.to_string()));
                }
            }
            Err(error) => tracing::debug!(%error, "a run that waits could not be read"),
        }
    }

    /// Follows the run of a task that has waited, until it ends or waits again.
    fn follow_run(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        waiting: WaitingTurn,
        permit: OwnedSemaphorePermit,
    ) {
        let (desk, worked_on) = (Arc::clone(self), Arc::clone(entry));
        let work = tokio::spawn(async move {
            let mut end = Unended { desk: &desk, entry: &worked_on, ended: false };
            desk.change(&worked_on, TaskState::Working, None);
            match waiting.follow(&desk.agent, &mut |_| {}).await {
                Ok(answer) => desk.end_turn(&worked_on, &answer, Ending::after_waiting(&answer)),
                Err(error @ Error::BadRequest(_)) => {
                    desk.put_ending(&worked_on, Ending::failed(error.to_string()));
                }
                // The run is where it was; only its executor does not answer.
                Err(error) => {
                    let parts = vec![Part::Text(format!("{error}. Ask for the task again."))];
                    desk.change(&worked_on, TaskState::AuthRequired, Some(parts));
                }
            }
            end.ended = true;
            drop(permit);
        });
        entry.attach(work.abort_handle());
    }

    fn end_turn(&self, entry: &Entry, answer: &AgentResponse, ending: Ending) {
        entry.note("a2s", json!({ "status": answer.status, "turn": answer.turn }));
        entry.await_run(WaitingTurn::of(answer));
        self.put_ending(entry, ending);
    }

    fn put_ending(&self, entry: &Entry, ending: Ending) {
        for artifact in ending.artifacts {
            entry.put(Update::Artifact(artifact), self.agent.outside.now());
        }
        self.change(entry, ending.state, Some(ending.parts));
    }

    fn change(&self, entry: &Entry, state: TaskState, parts: Option<Vec<Part>>) {
        let now = self.agent.outside.now();
        let message = parts.map(|parts| self.say(entry, parts));
        entry.put(Update::Status(Status { state, message, timestamp: Some(now) }), now);
    }
}

/// Says of a task whose work was lost that it failed, so that nobody waits for it.
struct Unended<'a> {
    desk: &'a Arc<Desk>,
    entry: &'a Arc<Entry>,
    ended: bool,
}

impl Drop for Unended<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let parts = Ending::failed("The agent was stopped.".to_owned()).parts;
            self.desk.change(self.entry, TaskState::Failed, Some(parts));
        }
    }
}
