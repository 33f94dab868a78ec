//! Several things that are wanted, where what one gives is what another takes.

use a2s::api::{
    AgentEvent, AgentProposal, AgentQuestion, AgentStatus, CapabilityRef, InputLink, Pending,
};
use serde_json::Map;

use super::candidate_search::{Choice, Task};
use super::intent::Wish;
use super::{Ending, Stop, Turn, reply_text};
use crate::agent::Backend;
use crate::client::Error as ClientError;
use crate::compose::{Candidate, ChainProposal, Request, compose};

/// Who answers for the documents that an agent writes.
const AUTHOR: &str = "A2S agent";
/// The registry that chains are made of, and published in.
const OWN: usize = 0;

impl Turn<'_> {
    /// Proposes one capability in the place of several, where what one gives is what another takes;
    /// or publishes the one that somebody has said yes to.
    pub(super) async fn chain(&mut self, tasks: Vec<Task>, wish: &Wish) -> Result<Vec<Task>, Stop> {
        if tasks.len() < 2 {
            return Ok(tasks);
        }
        let Some(source) = self.agent.sources.get(OWN) else { return Ok(tasks) };
        let proposals = self.propose(source, &tasks).await;
        let Some(proposal) = proposals.into_iter().next() else { return Ok(tasks) };
        let pin = pin(&proposal);
        if wish.preferred.as_ref() == Some(&pin) {
            return Ok(vec![publish(source, &proposal, pin).await?]);
        }
        let told = told(&proposal);
        (self.tell)(AgentEvent::Proposed(Box::new(told.clone())));
        let question = AgentQuestion {
            proposal: Some(told),
            ..AgentQuestion::new(Pending {
                query: wish.query.clone(),
                capability: Some(pin),
                inputs: Map::new(),
                missing: Vec::new(),
                consent: None,
            })
        };
        let message = reply_text::proposal(&proposal);
        let ending =
            Ending { question: Some(question), ..Ending::new(AgentStatus::InputRequired, message) };
        Err(ending.into())
    }

    /// Chains of the candidates, best first. What does not verify is no part of any.
    async fn propose(&mut self, source: &Backend, tasks: &[Task]) -> Vec<ChainProposal> {
        let mut requests = Vec::with_capacity(tasks.len());
        for task in tasks {
            let mut candidates = Vec::new();
            for choice in task.choices.as_slice().iter().filter(|choice| choice.source == OWN) {
                let document = self.document(source, choice).await.ok();
                let similarity = choice.similarity;
                candidates.extend(document.map(|document| Candidate { document, similarity }));
            }
            requests.push(Request { text: task.intent.clone(), candidates });
        }
        compose(&requests, AUTHOR)
    }
}

/// Publishes a proposal, which is then all that is to be done.
async fn publish(
    source: &Backend,
    proposal: &ChainProposal,
    pin: CapabilityRef,
) -> Result<Task, Stop> {
    match source.registry.publish(proposal.text.clone().into_bytes()).await {
        Ok(_) => {}
        Err(ClientError::Refused { problem }) => {
            let message = format!("I could not publish {}: {problem}", pin.name);
            return Err(Ending::new(AgentStatus::Failed, message).into());
        }
        Err(error) => return Err(error.into()),
    }
    let choice = Choice {
        source: OWN,
        pin,
        description: proposal.description.clone(),
        parameters: Vec::new(),
        similarity: 1.0,
    };
    Ok(Task { intent: String::new(), choices: vec![choice].into_iter() })
}

fn pin(proposal: &ChainProposal) -> CapabilityRef {
    let capability = proposal.document.capability();
    CapabilityRef {
        name: capability.name.clone(),
        version: capability.version.clone(),
        checksum: proposal.document.digest(),
    }
}

fn told(proposal: &ChainProposal) -> AgentProposal {
    let link = |link: &crate::compose::Link| InputLink {
        from: link.from.clone(),
        outputs: link.outputs.clone(),
        to: link.to.clone(),
        input: link.input.clone(),
        because: link.because.clone(),
    };
    AgentProposal {
        capability: pin(proposal),
        description: proposal.description.clone(),
        capabilities: proposal.capabilities.clone(),
        links: proposal.links.iter().map(link).collect(),
        document: proposal.text.clone(),
    }
}
