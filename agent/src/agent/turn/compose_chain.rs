//! Several things that are wanted, where what one gives is what another takes.

use a2s_api::{
    AgentEvent, AgentProposal, AgentQuestion, AgentStatus, CapabilityRef, InputLink, MatchStrength,
    PendingQuestion,
};

use super::candidate_search::{CandidateCapability, SubTask};
use super::intent::UserIntent;
use super::{AgentTurn, TurnOutcome, TurnStop, asking_outcome, reply_text};
use crate::agent::Backend;
use crate::client::Error as ClientError;
use crate::compose::{ChainCandidate, ChainProposal, ChainRequest, compose};

/// The author of the documents that an agent writes.
const AUTHOR: &str = "A2S agent";
/// The index of the registry that supplies the parts of chains, and receives the published chains.
const FIRST_BACKEND: usize = 0;

/// Proposes one capability instead of several, if outputs of one are inputs of another; or publishes
/// the proposal that the user has consented to.
pub(super) async fn propose_chain(
    turn: &mut AgentTurn<'_>,
    tasks: Vec<SubTask>,
    intent: &UserIntent,
) -> Result<Vec<SubTask>, TurnStop> {
    if tasks.len() < 2 {
        return Ok(tasks);
    }
    let Some(source) = turn.agent.backends.get(FIRST_BACKEND) else { return Ok(tasks) };
    let proposals = compose_proposals(turn, source, &tasks).await;
    let Some(proposal) = proposals.into_iter().next() else { return Ok(tasks) };
    let pin = proposal.document.to_ref();
    if intent.preferred.as_ref() == Some(&pin) {
        return Ok(vec![publish(source, &proposal, pin).await?]);
    }
    let described = to_agent_proposal(&proposal);
    (turn.emit)(AgentEvent::Proposed(Box::new(described.clone())));
    let question = AgentQuestion {
        proposal: Some(described),
        ..AgentQuestion::new(PendingQuestion::new(intent.query.clone(), Some(pin)))
    };
    Err(asking_outcome(reply_text::proposal(&proposal), question).into())
}

/// Composes chains of the candidates, best first. Candidates that fail verification are left out.
async fn compose_proposals(
    turn: &mut AgentTurn<'_>,
    source: &Backend,
    tasks: &[SubTask],
) -> Vec<ChainProposal> {
    let mut requests = Vec::with_capacity(tasks.len());
    for task in tasks {
        let mut candidates = Vec::new();
        for choice in
            task.candidates.as_slice().iter().filter(|choice| choice.source == FIRST_BACKEND)
        {
            let document = turn.load_document(source, choice).await.ok();
            let score = choice.score;
            candidates.extend(document.map(|document| ChainCandidate { document, score }));
        }
        requests.push(ChainRequest { text: task.intent.clone(), candidates });
    }
    compose(&requests, AUTHOR)
}

/// Publishes a proposal, and returns it as the only remaining task.
async fn publish(
    source: &Backend,
    proposal: &ChainProposal,
    pin: CapabilityRef,
) -> Result<SubTask, TurnStop> {
    match source.registry.publish(proposal.text.clone().into_bytes()).await {
        Ok(_) => {}
        Err(ClientError::Refused { problem }) => {
            let message = format!("I could not publish {}: {problem}", pin.name);
            return Err(TurnOutcome::new(AgentStatus::Failed, message).into());
        }
        Err(error) => return Err(error.into()),
    }
    let choice = CandidateCapability {
        source: FIRST_BACKEND,
        pin,
        description: proposal.description.clone(),
        parameters: Vec::new(),
        score: 1.0,
        strength: MatchStrength::Strong,
        missing: 0,
        intent: None,
    };
    Ok(SubTask { intent: String::new(), candidates: vec![choice].into_iter() })
}

fn to_agent_proposal(proposal: &ChainProposal) -> AgentProposal {
    let link = |link: &crate::compose::ProposalLink| InputLink {
        from: link.from.clone(),
        outputs: link.outputs.clone(),
        to: link.to.clone(),
        input: link.input.clone(),
        because: link.because.clone(),
    };
    AgentProposal {
        capability: proposal.document.to_ref(),
        description: proposal.description.clone(),
        capabilities: proposal.capabilities.clone(),
        links: proposal.links.iter().map(link).collect(),
        document: proposal.text.clone(),
    }
}
