//! Composition: a chain of several capabilities, for a sentence that no single capability fulfils.
//!
//! [`compose`] gets the requests of a sentence with the search hits for each. It proposes chains in which
//! outputs of some capabilities are inputs of others. A proposal is a document that the compiler has
//! accepted, and states the reason for each link. A wrong link is worse than a missing one: if the source
//! of an input is not clear, it stays an input of the chain. If a capability has no link to those before
//! it, there is no chain.
//!
//! Pure, except for [`collect_candidates()`], which asks a registry.

mod collect_candidates;
mod link_inference;

use std::collections::BTreeMap;
use std::sync::Arc;

use a2s::{CapabilityInterface, CapabilityName, Document};
use a2s_api::CapabilityRef;
use a2s_authoring::{ChainStep, write_chain};
use a2s_intent::coreference::Coreferences;
use a2s_intent::{extract_inputs, word_similarity};
use serde::Serialize;

pub use collect_candidates::collect_candidates;
use link_inference::LinkInference;

/// The maximum number of capabilities in a chain.
pub const MAX_STEPS: usize = 4;
/// The maximum number of candidates for each request.
const MAX_CANDIDATES: usize = 4;
/// The maximum number of proposals.
const MAX_PROPOSALS: usize = 3;
/// The smallest score of a candidate, as a share of the best one.
pub(crate) const MIN_RELATIVE_SCORE: f64 = 0.5;
/// The factor on the score of a chain for each required input that stays open.
const OPEN_INPUT_FACTOR: f64 = 0.98;

/// One request of a sentence, with its search hits.
#[derive(Debug, Clone)]
pub struct ChainRequest {
    /// The words of the user: "share it on Twitter".
    pub text: String,
    /// The capabilities that may fulfil the request, best first.
    pub candidates: Vec<ChainCandidate>,
}

/// A capability that may fulfil a request.
#[derive(Debug, Clone)]
pub struct ChainCandidate {
    /// Its checked document.
    pub document: Arc<Document>,
    /// The score of the search hit, 0 to 1, comparable between requests.
    pub score: f64,
}

/// A chain that may do all parts of the request.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChainProposal {
    /// The name of its document.
    pub name: CapabilityName,
    /// The description in its document.
    pub description: String,
    /// The capabilities of the chain, in the order of their runs.
    pub capabilities: Vec<CapabilityRef>,
    /// The links, with their reasons.
    pub links: Vec<ProposalLink>,
    /// The score, 0 to 1: how well the capabilities fit, and the confidence of the links.
    pub score: f64,
    /// The document as YAML, with its checksum.
    #[serde(rename = "document")]
    pub text: String,
    /// The document as the compiler read it.
    #[serde(skip)]
    pub document: Document,
}

/// A link from the outputs of one capability to an input of another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProposalLink {
    /// The capability with the outputs.
    pub from: CapabilityName,
    /// The outputs; several outputs are combined into one text.
    pub outputs: Vec<String>,
    /// The capability with the input.
    pub to: CapabilityName,
    /// The input.
    pub input: String,
    /// The confidence, 0 to 1.
    pub sure: f64,
    /// The reason, in words.
    pub because: String,
}

/// A capability in a chain, for the inference of links.
struct ChainMember<'r> {
    /// The words of the request for it.
    text: &'r str,
    document: &'r Document,
}

impl<'r> ChainMember<'r> {
    fn interface(&self) -> &'r CapabilityInterface {
        self.document.interface()
    }

    fn name(&self) -> &CapabilityName {
        &self.document.capability().name
    }

    /// Returns true when it changes something, according to its own steps and its name.
    fn changes(&self) -> bool {
        let mut changes = false;
        self.document.capability().for_each_task(|_, step| changes |= !step.task.is_read_only());
        let verb = word_similarity::words_of_name(self.name().as_str())
            .into_iter()
            .next()
            .unwrap_or_default();
        changes || word_similarity::CHANGING_VERBS.contains(&verb.as_str())
    }
}

/// Proposes chains for requests, best first; `author` is the author of the documents.
///
/// The result is empty for one request, or for more than four. For each request, the four best candidates
/// are considered, so that there are at most 256 possible chains.
#[must_use]
pub fn compose(requests: &[ChainRequest], author: &str) -> Vec<ChainProposal> {
    if !(2..=MAX_STEPS).contains(&requests.len()) {
        return Vec::new();
    }
    let parts: Vec<Vec<(ChainMember<'_>, f64)>> = requests.iter().map(members_of).collect();
    let references: Vec<_> = requests.iter().map(|r| Coreferences::from_text(&r.text)).collect();
    let chains = candidate_chains(&parts);
    let mut drafts: Vec<ChainDraft<'_, '_>> =
        chains.iter().filter_map(|chain| ChainDraft::infer(chain, &references)).collect();
    drafts.sort_by(|a, b| b.score.total_cmp(&a.score));
    drafts.into_iter().filter_map(|draft| draft.into_proposal(author)).take(MAX_PROPOSALS).collect()
}

fn members_of(request: &ChainRequest) -> Vec<(ChainMember<'_>, f64)> {
    let best = request.candidates.iter().map(|c| c.score).fold(0.0, f64::max);
    let near = request.candidates.iter().filter(|c| c.score >= MIN_RELATIVE_SCORE * best);
    let part = |candidate| {
        let ChainCandidate { document, score }: &ChainCandidate = candidate;
        (ChainMember { text: &request.text, document }, *score)
    };
    near.take(MAX_CANDIDATES).map(part).collect()
}

/// Returns all combinations of one candidate for each request, without repeated capabilities.
fn candidate_chains<'p, 'r>(
    parts: &'p [Vec<(ChainMember<'r>, f64)>],
) -> Vec<Vec<&'p (ChainMember<'r>, f64)>> {
    let mut chains: Vec<Vec<&(ChainMember<'_>, f64)>> = vec![Vec::new()];
    for candidates in parts {
        let longer = chains.iter().flat_map(|chain| {
            let fresh = candidates
                .iter()
                .filter(|(part, _)| chain.iter().all(|(other, _)| other.name() != part.name()));
            fresh.map(|candidate| chain.iter().copied().chain([candidate]).collect())
        });
        chains = longer.collect();
    }
    chains
}

/// A chain in which each capability has a link to an earlier one.
struct ChainDraft<'p, 'r> {
    parts: Vec<&'p ChainMember<'r>>,
    steps: Vec<ChainStep<'r>>,
    links: Vec<ProposalLink>,
    score: f64,
}

impl<'p, 'r> ChainDraft<'p, 'r> {
    fn infer(chain: &[&'p (ChainMember<'r>, f64)], references: &[Coreferences]) -> Option<Self> {
        let parts: Vec<&ChainMember<'_>> = chain.iter().map(|(part, _)| part).collect();
        let mut steps: Vec<ChainStep<'_>> = Vec::with_capacity(parts.len());
        let mut links = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let mut feeds = BTreeMap::new();
            if at > 0 {
                let found = extract_inputs(part.text, &part.interface().inputs);
                let refers = references.get(at)?;
                let inference = LinkInference {
                    earlier: parts.get(..at)?,
                    member: part,
                    found: &found,
                    coreferences: refers,
                };
                let judged = inference.infer_links();
                if judged.is_empty() {
                    return None;
                }
                for (feed, link) in judged {
                    feeds.insert(link.input.clone(), feed);
                    links.push(link);
                }
                for (input, feed) in inference.shared_inputs(&steps) {
                    feeds.entry(input).or_insert(feed);
                }
            }
            steps.push(ChainStep { document: part.document, bindings: feeds });
        }
        let fit = chain.iter().map(|(_, score)| score).sum::<f64>() / chain.len() as f64;
        let sure = links.iter().map(|link| link.sure).fold(1.0, f64::min);
        let open = parts.iter().zip(&steps).flat_map(|(part, step)| {
            let inputs = part.interface().inputs.iter();
            inputs.filter(|field| field.required && !step.bindings.contains_key(&field.name))
        });
        let open = i32::try_from(open.count()).unwrap_or(i32::MAX);
        Some(Self { parts, steps, links, score: fit * sure * OPEN_INPUT_FACTOR.powi(open) })
    }

    /// Creates the proposal, if the compiler accepts its document.
    fn into_proposal(self, author: &str) -> Option<ChainProposal> {
        let written = write_chain(&self.steps, author).ok()?;
        let capability = written.document.capability();
        let pins = self.parts.iter().map(|part| part.document.to_ref());
        Some(ChainProposal {
            name: capability.name.clone(),
            description: capability.description.clone(),
            capabilities: pins.collect(),
            links: self.links,
            score: self.score,
            text: written.text,
            document: written.document,
        })
    }
}

#[cfg(test)]
mod tests;
