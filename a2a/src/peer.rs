//! Delegation of a turn to another agent that speaks A2A.

use a2s::to_single_line;
use a2s_api::GuardianDecision;
use agent::{ClockAndIds, Guard, PeerAgent, PeerConnection, PeerOutcome, PeerReply, PeerSkill};
use async_trait::async_trait;
use serde_json::Value;
use url::Url;

use crate::client::{A2aClient, A2aError, UnresolvedAgent};
use crate::model::{
    A2aTask, Message, MessageReply, Part, TaskArtifact, TaskState, TaskStatus, TaskUpdate,
};
use crate::wire_versions::A2aVersion;

/// The most characters of another agent's message that are reported.
const MAX_MESSAGE_CHARS: usize = 2_000;
/// The most values of another agent that are reported, and their bytes together.
const MAX_DATA: usize = 20;
const MAX_DATA_BYTES: usize = 256 << 10;
#[async_trait]
impl PeerAgent for UnresolvedAgent {
    fn url(&self) -> &Url {
        Self::url(self)
    }

    async fn connect(
        &self,
        guard: Guard,
        clock: ClockAndIds,
    ) -> Result<Box<dyn PeerConnection>, String> {
        let client = self.resolve(guard, clock).await.map_err(|error| error.to_string())?;
        Ok(Box::new(client))
    }
}

#[async_trait]
impl PeerConnection for A2aClient {
    fn name(&self) -> &str {
        &self.card().name
    }

    fn skills(&self) -> &[PeerSkill] {
        &self.card().skills
    }

    async fn ask(&mut self, query: &str) -> PeerReply {
        match send_and_follow(self, query).await {
            Ok(reply) => to_peer_reply(reply),
            Err(A2aError::Denied(denial)) => PeerReply::new(PeerOutcome::Denied(denial)),
            Err(error) => PeerReply::new(PeerOutcome::Failed(error.to_string())),
        }
    }

    fn take_decisions(&mut self) -> Vec<GuardianDecision> {
        Self::take_decisions(self)
    }
}

/// Sends the query, and follows the other agent until its task is over or waits. Cancels the task when the
/// other agent asks back or sends a message that the guardians withhold, or when this future is dropped.
async fn send_and_follow(client: &mut A2aClient, intent: &str) -> Result<MessageReply, A2aError> {
    let message = client.new_message(intent, None);
    if !client.card().streaming {
        return client.send(&message, true).await;
    }
    let mut underway = DelegatedTask { client: client.clone(), task: None };
    let mut updates = client.stream(&message).await?;
    while let Some(update) = updates.next().await? {
        match (update, &mut underway.task) {
            (TaskUpdate::Reply(MessageReply::Task(begun)), task) => *task = Some(begun),
            (update, Some(task)) => task.apply_update(update),
            (TaskUpdate::Reply(MessageReply::Message(message)), None) => {
                return Ok(MessageReply::Message(message));
            }
            // What happens to a task that was never named is nothing to us.
            (_, None) => {}
        }
    }
    match underway.task.clone() {
        Some(task) => Ok(MessageReply::Task(task)),
        None => Err(updates.no_task_error()),
    }
}

/// A task of another agent. Dropping it cancels a task that has not ended.
struct DelegatedTask {
    client: A2aClient,
    task: Option<A2aTask>,
}

impl Drop for DelegatedTask {
    fn drop(&mut self) {
        let Some(task) = self.task.take().filter(|task| !task.status.state.is_final()) else {
            return;
        };
        // Without a runtime the process ends, and cannot send the request.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let mut client = self.client.clone();
            runtime.spawn(async move { client.cancel(&task.id).await });
        }
    }
}

/// Converts the end of a task, or a message without a task.
fn to_peer_reply(answered: MessageReply) -> PeerReply {
    let mut reply = PeerReply::new(PeerOutcome::Completed);
    match answered {
        MessageReply::Message(message) => record_message(&mut reply, &message),
        MessageReply::Task(task) => {
            let A2aTask { id, status, artifacts, .. } = task;
            let TaskStatus { state, message, .. } = status;
            if let Some(message) = message {
                record_message(&mut reply, &message);
            }
            record_artifacts(&mut reply, &artifacts);
            reply.task = Some(to_single_line(&id, MAX_MESSAGE_CHARS));
            reply.state = Some(A2aVersion::V0_3.state(state).to_owned());
            reply.outcome = match state {
                TaskState::Completed => PeerOutcome::Completed,
                TaskState::InputRequired | TaskState::AuthRequired => PeerOutcome::AsksBack,
                _ => PeerOutcome::NotCompleted,
            };
        }
    }
    reply
}

fn record_message(reply: &mut PeerReply, message: &Message) {
    reply.message = to_single_line(&message.text(), MAX_MESSAGE_CHARS);
    record_parts(reply, &message.parts);
}

fn record_artifacts(reply: &mut PeerReply, artifacts: &[TaskArtifact]) {
    for artifact in artifacts {
        record_parts(reply, &artifact.parts);
    }
}

fn record_parts(reply: &mut PeerReply, parts: &[Part]) {
    for part in parts {
        let Part::Data(data) = part else { continue };
        let known: usize = reply.data.iter().map(|known| known.to_string().len()).sum();
        let fits = known + data.to_string().len() <= MAX_DATA_BYTES;
        if fits && reply.data.len() < MAX_DATA {
            reply.data.push(Value::clone(data));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_agent_gives_is_bounded() {
        let mut reply = PeerReply::new(PeerOutcome::Completed);
        record_parts(&mut reply, &vec![Part::Data(Value::from("x".repeat(100 << 10))); 100]);
        assert_eq!(reply.data.len(), 2);
        reply.data.clear();
        record_parts(&mut reply, &vec![Part::Data(Value::from(1)); 100]);
        assert_eq!(reply.data.len(), MAX_DATA);
    }
}
