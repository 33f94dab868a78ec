//! Delegation: when no published capability fits, another agent with a matching skill is asked.

use a2s::{split_name, to_single_line};
use a2s_api::{
    AgentDelegation, AgentEvent, AgentQuestion, AgentStatus, DelegationResult, PendingQuestion,
};
use a2s_intent::word_similarity::content_words;
use serde_json::{Map, Value};

use super::intent::UserIntent;
use super::{AgentTurn, TurnOutcome, consent, reply_text};
use crate::a2a::{
    A2aClient, A2aError, A2aTask, A2aVersion, Message, MessageReply, Part, PeerSkill, TaskArtifact,
    TaskState, TaskStatus, TaskUpdate,
};

/// The most characters of another agent's message that are reported.
const MAX_MESSAGE_CHARS: usize = 2_000;
/// The most values of another agent that are reported, and their bytes together.
const MAX_DATA: usize = 20;
const MAX_DATA_BYTES: usize = 256 << 10;
impl AgentTurn<'_> {
    /// Asks the first peer with a skill on its card that shares words with the query, after the caller has
    /// confirmed it; none when there is no such peer.
    pub(super) async fn delegate(&mut self, intent: &UserIntent) -> Option<TurnOutcome> {
        let agent = self.agent;
        for peer in &agent.peers {
            let mut client = match peer.resolve(agent.guard.clone(), agent.clock.clone()).await {
                Ok(client) => client,
                Err(error) => {
                    self.report_degraded(&error);
                    continue;
                }
            };
            let Some(skill) = choose_skill(&intent.query, &client.card().skills) else { continue };
            let mut delegated = DelegationResult {
                agent: client.card().name.clone(),
                url: peer.url().to_string(),
                skill: skill.name.clone(),
                task: None,
                state: None,
                message: String::new(),
                data: Vec::new(),
                decisions: Vec::new(),
            };
            let delegation = AgentDelegation {
                agent: delegated.agent.clone(),
                url: delegated.url.clone(),
                skill: delegated.skill.clone(),
                message: intent.query.clone(),
            };
            if let Some(question) = self.confirm_delegation(delegation, intent) {
                return Some(question);
            }
            (self.emit)(AgentEvent::Delegated {
                agent: delegated.agent.clone(),
                url: delegated.url.clone(),
                skill: delegated.skill.clone(),
            });
            let answered = send_and_follow(&mut client, &intent.query).await;
            delegated.decisions = client.take_decisions();
            let ending = to_turn_outcome(&mut delegated, answered);
            self.delegated = Some(delegated);
            return Some(ending);
        }
        None
    }

    /// The question whether another agent may be asked, because its skill may change something. None when
    /// the caller has confirmed this request, or no confirmation is needed.
    fn confirm_delegation(
        &mut self,
        delegation: AgentDelegation,
        intent: &UserIntent,
    ) -> Option<TurnOutcome> {
        let digest = consent::delegation_digest(&delegation);
        if intent.confirmed == Some(digest) {
            return None;
        }
        if self.consent.is_some() {
            self.report_unconfirmed(Vec::new(), Some(delegation));
            return None;
        }
        let message = reply_text::delegation(&delegation);
        let question = AgentQuestion {
            delegation: Some(delegation),
            ..AgentQuestion::new(PendingQuestion {
                query: intent.query.clone(),
                capability: None,
                inputs: Map::new(),
                missing: Vec::new(),
                consent: Some(digest),
            })
        };
        let ending = TurnOutcome::new(AgentStatus::InputRequired, message);
        Some(TurnOutcome { question: Some(question), ..ending })
    }
}

/// Returns the skill that shares the most words with the intent, and at least one.
fn choose_skill<'s>(intent: &str, skills: &'s [PeerSkill]) -> Option<&'s PeerSkill> {
    let wanted = content_words(intent);
    let shared = |skill: &PeerSkill| {
        let mut text = format!("{} {}", split_name(&skill.name), skill.description);
        for more in skill.tags.iter().chain(&skill.examples) {
            text.push(' ');
            text.push_str(more);
        }
        content_words(&text).intersection(&wanted).count()
    };
    let mut best: Option<(usize, &PeerSkill)> = None;
    for skill in skills {
        let count = shared(skill);
        if count > best.map_or(0, |(most, _)| most) {
            best = Some((count, skill));
        }
    }
    best.map(|(_, skill)| skill)
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

/// The end of the turn, with the response of the other agent.
fn to_turn_outcome(
    delegated: &mut DelegationResult,
    answered: Result<MessageReply, A2aError>,
) -> TurnOutcome {
    let name = delegated.agent.clone();
    let (status, message) = match answered {
        Ok(MessageReply::Message(message)) => {
            record_message(delegated, &message);
            (AgentStatus::Completed, format!("{name} says: {}", delegated.message))
        }
        Ok(MessageReply::Task(task)) => {
            let A2aTask { id, status, artifacts, .. } = task;
            let TaskStatus { state, message, .. } = status;
            if let Some(message) = message {
                record_message(delegated, &message);
            }
            record_artifacts(delegated, &artifacts);
            delegated.task = Some(to_single_line(&id, MAX_MESSAGE_CHARS));
            delegated.state = Some(A2aVersion::V0_3.state(state).to_owned());
            let words = &delegated.message;
            match state {
                TaskState::Completed => (AgentStatus::Completed, format!("{name} says: {words}")),
                TaskState::InputRequired | TaskState::AuthRequired => {
                    let message = format!("{name} did not complete the task, and asks: {words}");
                    (AgentStatus::Failed, message)
                }
                _ => (AgentStatus::Failed, format!("{name} did not complete the task: {words}")),
            }
        }
        Err(A2aError::Denied(denial)) => {
            (AgentStatus::Denied, format!("The guardian does not allow me to ask {name}: {denial}"))
        }
        Err(error) => (AgentStatus::Failed, format!("{name} did not complete the task: {error}")),
    };
    TurnOutcome::new(status, message)
}

fn record_message(delegated: &mut DelegationResult, message: &Message) {
    delegated.message = to_single_line(&message.text(), MAX_MESSAGE_CHARS);
    record_parts(delegated, &message.parts);
}

fn record_artifacts(delegated: &mut DelegationResult, artifacts: &[TaskArtifact]) {
    for artifact in artifacts {
        record_parts(delegated, &artifact.parts);
    }
}

fn record_parts(delegated: &mut DelegationResult, parts: &[Part]) {
    for part in parts {
        let Part::Data(data) = part else { continue };
        let known: usize = delegated.data.iter().map(|known| known.to_string().len()).sum();
        let fits = known + data.to_string().len() <= MAX_DATA_BYTES;
        if fits && delegated.data.len() < MAX_DATA {
            delegated.data.push(Value::clone(data));
        }
    }
}

#[cfg(test)]
mod tests;
