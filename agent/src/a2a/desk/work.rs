//! A task being done: a turn of the agent that goes on when nobody listens.

use std::sync::Arc;

use a2s::api::AgentRequest;
use serde_json::json;

use super::asked::Incoming;
use super::{Desk, busy, no_task};
use crate::a2a::model::{Part, Status, Task, TaskState, Update};
use crate::a2a::rpc::{Fault, Kind};
use crate::a2a::tasks::{Entry, NoRoom, NotWaiting};
use crate::a2a::tell::{Ending, progress};
use crate::state::NoState;

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
        message.context = Some(entry.context.clone());
        message.task = Some(entry.id.to_string());
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
        let answered = self.agent.handle(request, &NoState, &mut hear).await;
        let ending = match answered {
            Ok(answer) => {
                let ending = Ending::of(&answer);
                entry.note("a2s", json!({ "status": answer.status, "turn": answer.turn }));
                if let Some(question) = answer.question {
                    let open = question.fields.into_iter().filter(|field| !field.secret);
                    entry.ask(question.pending, open.map(|field| field.name).collect());
                }
                ending
            }
            Err(error) => Ending::failed(error.to_string()),
        };
        for artifact in ending.artifacts {
            entry.put(Update::Artifact(artifact), self.agent.outside.now());
        }
        self.change(entry, ending.state, Some(ending.parts));
        end.ended = true;
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
