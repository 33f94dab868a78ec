//! Delegation: when no published capability fits, another agent with a matching skill is asked.

use std::collections::BTreeSet;

use a2s::api::{
    AgentDelegation, AgentEvent, AgentQuestion, AgentStatus, DelegationResult, Pending,
};
use a2s::{one_line, split_name};
use serde_json::{Map, Value};

use super::intent::Wish;
use super::{Ending, Turn, consent, reply_text};
use crate::a2a::{
    A2aClient, A2aError, Artifact, Message, Part, Reply, Skill, Status, Task, TaskState, Update,
    Version,
};

/// The longest words of another agent that are told, in characters.
const MAX_WORDS: usize = 2_000;
/// The most values of another agent that are told, and their bytes together.
const MAX_DATA: usize = 20;
const MAX_DATA_BYTES: usize = 256 << 10;
/// Words that say nothing of what is wanted.
const EMPTY: [&str; 52] = [
    "about", "agent", "all", "and", "any", "are", "but", "can", "could", "data", "does", "find",
    "for", "from", "get", "give", "given", "has", "have", "how", "into", "its", "let", "list",
    "make", "may", "need", "not", "one", "our", "out", "please", "post", "say", "send", "show",
    "some", "tell", "that", "the", "their", "them", "this", "use", "user", "want", "what", "when",
    "which", "with", "you", "your",
];

impl Turn<'_> {
    /// Asks the first of the peers whose card has a skill that shares words with the wish, once the
    /// caller has confirmed it; none when there is no such peer.
    pub(super) async fn delegate(&mut self, wish: &Wish) -> Option<Ending> {
        let agent = self.agent;
        for peer in &agent.peers {
            let mut client = match peer.meet(agent.guard.clone(), agent.outside.clone()).await {
                Ok(client) => client,
                Err(error) => {
                    self.degraded(&error);
                    continue;
                }
            };
            let Some(skill) = choose(&wish.query, &client.card().skills) else { continue };
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
                message: wish.query.clone(),
            };
            if let Some(question) = self.confirm_delegation(delegation, wish) {
                return Some(question);
            }
            (self.tell)(AgentEvent::Delegated {
                agent: delegated.agent.clone(),
                url: delegated.url.clone(),
                skill: delegated.skill.clone(),
            });
            let answered = ask(&mut client, &wish.query).await;
            delegated.decisions = client.take_decisions();
            let ending = end(&mut delegated, answered);
            self.delegated = Some(delegated);
            return Some(ending);
        }
        None
    }

    /// The question whether another agent may be asked: nothing tells that it would change nothing.
    /// None when the wish comes with a yes to this request, or no yes is wanted.
    fn confirm_delegation(&mut self, delegation: AgentDelegation, wish: &Wish) -> Option<Ending> {
        let digest = consent::delegation_digest(&delegation);
        if wish.confirmed == Some(digest) {
            return None;
        }
        if self.consent.is_some() {
            self.go_unconfirmed(Vec::new(), Some(delegation));
            return None;
        }
        let message = reply_text::delegation(&delegation);
        let question = AgentQuestion {
            delegation: Some(delegation),
            ..AgentQuestion::new(Pending {
                query: wish.query.clone(),
                capability: None,
                inputs: Map::new(),
                missing: Vec::new(),
                consent: Some(digest),
            })
        };
        let ending = Ending::new(AgentStatus::InputRequired, message);
        Some(Ending { question: Some(question), ..ending })
    }
}

/// The skill that shares the most words with a wish, and at least one.
fn choose<'s>(wish: &str, skills: &'s [Skill]) -> Option<&'s Skill> {
    let wanted = words(wish);
    let shared = |skill: &Skill| {
        let mut text = format!("{} {}", split_name(&skill.name), skill.description);
        for more in skill.tags.iter().chain(&skill.examples) {
            text.push(' ');
            text.push_str(more);
        }
        words(&text).intersection(&wanted).count()
    };
    let mut best: Option<(usize, &Skill)> = None;
    for skill in skills {
        let count = shared(skill);
        if count > best.map_or(0, |(most, _)| most) {
            best = Some((count, skill));
        }
    }
    best.map(|(_, skill)| skill)
}

/// The words that say what is wanted, in one form for singular and plural.
fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    let words = words.filter(|word| word.chars().count() > 2 && !EMPTY.contains(&word.as_str()));
    words.map(|word| word.strip_suffix('s').unwrap_or(&word).to_owned()).collect()
}

/// Sends the wish, and follows what the other agent does until it is over or waits. It is told to
/// stop when nobody here wants it any more: it asks back, says what may not be read, or this future is
/// dropped.
async fn ask(client: &mut A2aClient, wish: &str) -> Result<Reply, A2aError> {
    let message = client.say(wish, None);
    if !client.card().streaming {
        return client.send(&message, true).await;
    }
    let mut underway = Underway { client: client.clone(), task: None };
    let mut updates = client.stream(&message).await?;
    while let Some(update) = updates.next().await? {
        match (update, &mut underway.task) {
            (Update::Reply(Reply::Task(begun)), task) => *task = Some(begun),
            (update, Some(task)) => task.take(update),
            (Update::Reply(Reply::Message(message)), None) => return Ok(Reply::Message(message)),
            // What happens to a task that was never named is nothing to us.
            (_, None) => {}
        }
    }
    match underway.task.clone() {
        Some(task) => Ok(Reply::Task(task)),
        None => Err(updates.pointless()),
    }
}

/// What another agent does for us.
struct Underway {
    client: A2aClient,
    task: Option<Task>,
}

impl Drop for Underway {
    fn drop(&mut self) {
        let Some(task) = self.task.take().filter(|task| !task.status.state.is_final()) else {
            return;
        };
        // Without a runtime the process ends, and nobody is left to say it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let mut client = self.client.clone();
            runtime.spawn(async move { client.cancel(&task.id).await });
        }
    }
}

/// How the turn ends, with what the other agent said.
fn end(delegated: &mut DelegationResult, answered: Result<Reply, A2aError>) -> Ending {
    let name = delegated.agent.clone();
    let (status, message) = match answered {
        Ok(Reply::Message(message)) => {
            tell_message(delegated, &message);
            (AgentStatus::Completed, format!("{name} says: {}", delegated.message))
        }
        Ok(Reply::Task(task)) => {
            let Task { id, status, artifacts, .. } = task;
            let Status { state, message, .. } = status;
            if let Some(message) = message {
                tell_message(delegated, &message);
            }
            tell_artifacts(delegated, &artifacts);
            delegated.task = Some(one_line(&id, MAX_WORDS));
            delegated.state = Some(Version::V0_3.state(state).to_owned());
            let words = &delegated.message;
            match state {
                TaskState::Completed => (AgentStatus::Completed, format!("{name} says: {words}")),
                TaskState::InputRequired | TaskState::AuthRequired => {
                    let message = format!("{name} did not do it, and asks: {words}");
                    (AgentStatus::Failed, message)
                }
                _ => (AgentStatus::Failed, format!("{name} did not do it: {words}")),
            }
        }
        Err(A2aError::Denied(denial)) => {
            (AgentStatus::Denied, format!("I may not ask {name}: {denial}"))
        }
        Err(error) => (AgentStatus::Failed, format!("{name} did not do it: {error}")),
    };
    Ending::new(status, message)
}

fn tell_message(delegated: &mut DelegationResult, message: &Message) {
    delegated.message = one_line(&message.text(), MAX_WORDS);
    tell_parts(delegated, &message.parts);
}

fn tell_artifacts(delegated: &mut DelegationResult, artifacts: &[Artifact]) {
    for artifact in artifacts {
        tell_parts(delegated, &artifact.parts);
    }
}

fn tell_parts(delegated: &mut DelegationResult, parts: &[Part]) {
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
