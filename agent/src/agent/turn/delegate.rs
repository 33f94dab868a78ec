//! Delegation: when no published capability fits, another agent with a matching skill is asked.

use a2s::split_name;
use a2s_api::{
    AgentDelegation, AgentEvent, AgentQuestion, AgentStatus, DelegationResult, PendingQuestion,
};
use a2s_intent::word_similarity::content_words;

use super::intent::UserIntent;
use super::{AgentTurn, TurnOutcome, asking_outcome, consent, reply_text};
use crate::peer::{PeerOutcome, PeerReply, PeerSkill};

/// Asks the first peer with a skill on its card that shares words with the query, after the caller has
/// confirmed it; none when there is no such peer.
pub(super) async fn delegate(turn: &mut AgentTurn<'_>, intent: &UserIntent) -> Option<TurnOutcome> {
    let agent = turn.agent;
    for peer in &agent.peers {
        let mut connection = match peer.connect(agent.guard.clone(), agent.clock.clone()).await {
            Ok(connection) => connection,
            Err(error) => {
                turn.report_degraded(&error);
                continue;
            }
        };
        let Some(skill) = choose_skill(&intent.query, connection.skills()) else { continue };
        let mut delegated = DelegationResult {
            agent: connection.name().to_owned(),
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
        if let Some(question) = confirm_delegation(turn, delegation, intent) {
            return Some(question);
        }
        (turn.emit)(AgentEvent::Delegated {
            agent: delegated.agent.clone(),
            url: delegated.url.clone(),
            skill: delegated.skill.clone(),
        });
        let reply = connection.ask(&intent.query).await;
        delegated.decisions = connection.take_decisions();
        let ending = to_turn_outcome(&mut delegated, reply);
        turn.record.delegated = Some(delegated);
        return Some(ending);
    }
    None
}

/// The question whether another agent may be asked, because its skill may change something. None when
/// the caller has confirmed this request, or no confirmation is needed.
fn confirm_delegation(
    turn: &mut AgentTurn<'_>,
    delegation: AgentDelegation,
    intent: &UserIntent,
) -> Option<TurnOutcome> {
    let digest = consent::delegation_digest(&delegation);
    if intent.confirmed == Some(digest) {
        return None;
    }
    if turn.consent.is_some() {
        turn.report_unconfirmed(Vec::new(), Some(delegation));
        return None;
    }
    let message = reply_text::delegation(&delegation);
    let question = AgentQuestion {
        delegation: Some(delegation),
        ..AgentQuestion::new(PendingQuestion {
            consent: Some(digest),
            ..PendingQuestion::new(intent.query.clone(), None)
        })
    };
    Some(asking_outcome(message, question))
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

/// Returns the end of the turn, and adds the response of the other agent to `delegated`.
fn to_turn_outcome(delegated: &mut DelegationResult, reply: PeerReply) -> TurnOutcome {
    let PeerReply { outcome, message: words, task, state, data } = reply;
    let name = &delegated.agent;
    let (status, message) = match outcome {
        PeerOutcome::Completed => (AgentStatus::Completed, format!("{name} says: {words}")),
        PeerOutcome::AsksBack => {
            let message = format!("{name} did not complete the task, and asks: {words}");
            (AgentStatus::Failed, message)
        }
        PeerOutcome::NotCompleted => {
            (AgentStatus::Failed, format!("{name} did not complete the task: {words}"))
        }
        PeerOutcome::Denied(denial) => {
            (AgentStatus::Denied, format!("The guardian does not allow me to ask {name}: {denial}"))
        }
        PeerOutcome::Failed(error) => {
            (AgentStatus::Failed, format!("{name} did not complete the task: {error}"))
        }
    };
    (delegated.message, delegated.task, delegated.state, delegated.data) =
        (words, task, state, data);
    TurnOutcome::new(status, message)
}

#[cfg(test)]
mod tests;
