//! Asks the guardians about the messages, search hits and calls of an agent.
//!
//! The executor asks about the steps of a capability. This module asks about the rest: `steps/message`,
//! `steps/knowledgeRetrieval`, `protocols/MCP` and the methods of A2A (AOS, 4.2, 4.5 and 4.8 to 4.10).

mod redacted_inputs;

use a2s::to_single_line;
use a2s_api::{DecisionSource, GuardianDecision, SearchHit};
use aos::message::{
    A2aAgent, A2aContext, A2aMethod, A2aParty, A2aRole, A2aStep, Agent, AgentProvider, ContentPart,
    KnowledgeResult, KnowledgeRetrievalStep, KnowledgeStep, McpStep, Message, MessageStep, Method,
    MethodCall, Object, Request, Role, Session, StepContext, TextPart, User,
};
use aos::{GuardianChain, GuardianOutcome, Verdict, VerdictSource};
use reqwest::header::HeaderMap;
use serde_json::json;

pub use self::redacted_inputs::RedactedInputs;
use crate::clock_and_ids::ClockAndIds;
use crate::requester::Requester;

/// The most characters of a guardian's message that are reported.
const MAX_MESSAGE_CHARS: usize = 500;
/// The most reason codes that are reported, and the most characters of one.
const MAX_REASONS: usize = 20;
const MAX_REASON: usize = 100;
/// The message of the denial when a guardian adds a consent that the person did not give. A guardian may
/// change an answer and remove a consent, but it cannot give one.
pub const ADDED_CONSENT: &str = "it adds a consent that the user did not give";

/// The session, turn and step of a message, for the guardian.
#[derive(Debug, Clone, Copy)]
pub struct GuardContext<'a> {
    /// The session: a conversation.
    pub session: &'a str,
    /// The turn, unique in the session.
    pub turn: &'a str,
    /// The step, unique in the turn.
    pub step: &'a str,
}

/// The direction of an A2A message.
#[derive(Debug, Clone, Copy)]
pub enum MessageDirection<'a> {
    /// Another party sends a request to this agent.
    InboundRequest,
    /// This agent sends a response.
    OutboundResponse,
    /// This agent sends a request to another agent.
    OutboundRequest {
        /// The name that the other agent gives itself.
        name: &'a str,
        /// Its address.
        url: &'a str,
    },
    /// Another agent sends a response to this agent.
    InboundResponse {
        /// The name that the other agent gives itself.
        name: &'a str,
        /// Its address.
        url: &'a str,
    },
}

/// The decisions of the guardians on a value.
#[derive(Debug, Clone)]
pub struct GuardOutcome<T> {
    /// The decision of each guardian that was asked, in order.
    pub decisions: Vec<GuardianDecision>,
    /// The value that may be used, unchanged or as the guardians have modified it; an error if it may not
    /// be used.
    pub outcome: Result<T, GuardDenial>,
}

/// The reason why a value may not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct GuardDenial {
    /// The message of the guardian, or the reason why it could not be asked.
    pub message: String,
    /// True when a guardian has denied it. False when a guardian did not respond, or wants a modification
    /// that is not possible.
    pub by_guardian: bool,
}

/// The guardians of an agent.
#[derive(Debug, Clone)]
pub struct Guard {
    guardians: Option<GuardianChain>,
    agent: Agent,
    clock: ClockAndIds,
    /// The party on whose behalf the agent acts.
    requester: Requester,
}

impl Guard {
    /// Asks `guardians`. Without guardians, everything may pass and is reported as `unguarded`.
    #[must_use]
    pub fn new(guardians: Option<GuardianChain>, clock: ClockAndIds) -> Self {
        Self { guardians, agent: agent_identity(), clock, requester: Requester::anonymous() }
    }

    /// Returns the same guardians for one requester. They see it as the user of every message.
    #[must_use]
    pub fn with_requester(&self, requester: &Requester) -> Self {
        Self { requester: requester.clone(), ..self.clone() }
    }

    /// Asks about a message (`steps/message`): of the user before the agent acts on it, or of the agent
    /// before the user sees it. The outcome is the text to use, which the guardians may have changed.
    pub async fn check_message(
        &self,
        context: GuardContext<'_>,
        role: Role,
        text: String,
    ) -> GuardOutcome<String> {
        let content = vec![ContentPart::Text(TextPart::new(text.as_str()))];
        let message = Message::new(self.clock.new_id().to_string(), role, content);
        let step = MessageStep::new(self.step_context(context), message);
        let mut used = text;
        let guarded = self.ask(step, |modified| {
            let MethodCall::Message(step) = &modified.call else { return Err(other_hook()) };
            used = text_of(&step.message.content)?;
            Ok(())
        });
        guarded.await.map(|()| used)
    }

    /// Asks about search hits before they are used (`steps/knowledgeRetrieval`). A guardian may remove hits
    /// and change their descriptions, but not add hits.
    pub async fn check_search_hits(
        &self,
        context: GuardContext<'_>,
        query: &str,
        hits: Vec<SearchHit>,
    ) -> GuardOutcome<Vec<SearchHit>> {
        let id = |hit: &SearchHit| format!("{}@{}", hit.name, hit.version);
        let results = hits.iter().map(|hit| KnowledgeResult::new(id(hit), hit.description.clone()));
        let mut found = KnowledgeStep::new(results.collect::<Vec<_>>());
        found.query = Some(query.to_owned());
        let step = KnowledgeRetrievalStep::new(self.step_context(context), found);
        let mut used = hits;
        let guarded = self.ask(step, |modified| {
            let MethodCall::KnowledgeRetrieval(step) = &modified.call else {
                return Err(other_hook());
            };
            let wanted = &step.knowledge_step.results;
            let mut kept = Vec::with_capacity(wanted.len());
            for result in wanted {
                let hit = used.iter().find(|hit| id(hit) == result.id);
                let hit = hit.ok_or_else(|| {
                    format!(
                        "`{}` is not one of the results",
                        to_single_line(&result.id, MAX_REASON)
                    )
                })?;
                kept.push(SearchHit { description: result.content.clone(), ..hit.clone() });
            }
            used = kept;
            Ok(())
        });
        guarded.await.map(|()| used)
    }

    /// Asks about an MCP message (`protocols/MCP`): an inbound one before the agent acts on it, or an
    /// outbound one before it is sent. The outcome is the message to use, which the guardians may have
    /// changed.
    pub async fn check_mcp(
        &self,
        context: GuardContext<'_>,
        message: Object,
    ) -> GuardOutcome<Object> {
        let context = Some(self.step_context(context));
        let step = McpStep { context, ..McpStep::new(message.clone()) };
        let mut used = message;
        let guarded = self.ask(step, |modified| {
            let MethodCall::Mcp(step) = &modified.call else { return Err(other_hook()) };
            used.clone_from(&step.message);
            Ok(())
        });
        guarded.await.map(|()| used)
    }

    /// Asks about an A2A message: an inbound one before the agent acts on it, or an outbound one before it
    /// is sent. The outcome is the message to use, which the guardians may have changed. `fits` returns the
    /// reason why a changed message cannot be used.
    pub async fn check_a2a(
        &self,
        method: A2aMethod,
        direction: MessageDirection<'_>,
        message: Object,
        fits: impl Fn(&Object) -> Result<(), String>,
    ) -> GuardOutcome<Object> {
        let step = A2aStep::new(message.clone(), self.a2a_context(direction));
        let mut used = message;
        let guarded = self.ask((method, step), |modified| {
            let MethodCall::A2a(_, step) = &modified.call else { return Err(other_hook()) };
            fits(&step.payload)?;
            used.clone_from(&step.payload);
            Ok(())
        });
        guarded.await.map(|()| used)
    }

    /// The two parties of an A2A message. The schema expects incomplete agents here.
    fn a2a_context(&self, direction: MessageDirection<'_>) -> A2aContext {
        let party = |agent, role| A2aParty { agent, role: Some(role), ..A2aParty::default() };
        let own = A2aAgent {
            name: Some(self.agent.name.clone()),
            version: Some(self.agent.version.clone()),
            ..A2aAgent::default()
        };
        let peer = |name: &str, url: &str| A2aAgent {
            name: Some(name.to_owned()),
            url: Some(url.to_owned()),
            ..A2aAgent::default()
        };
        // The schema knows a party without an agent as two things at once, and so refuses it.
        let unnamed = A2aAgent::default();
        let (from, to) = match direction {
            MessageDirection::InboundRequest => {
                (party(Some(unnamed), A2aRole::Client), party(Some(own), A2aRole::Server))
            }
            MessageDirection::OutboundResponse => {
                (party(Some(own), A2aRole::Server), party(Some(unnamed), A2aRole::Client))
            }
            MessageDirection::OutboundRequest { name, url } => {
                (party(Some(own), A2aRole::Client), party(Some(peer(name, url)), A2aRole::Server))
            }
            MessageDirection::InboundResponse { name, url } => {
                (party(Some(peer(name, url)), A2aRole::Server), party(Some(own), A2aRole::Client))
            }
        };
        let mut extra = Object::new();
        extra.insert("user".to_owned(), json!({"id": self.requester.user_id()}));
        if let Some(caller) = self.requester.caller_id() {
            extra.insert("caller".to_owned(), json!({"id": caller}));
        }
        A2aContext { from: Some(from), to: Some(to), extra }
    }

    /// Asks about a call. `follow` applies the modification of a guardian, or returns the reason why it
    /// cannot.
    async fn ask(
        &self,
        call: impl Into<MethodCall>,
        mut follow: impl FnMut(&Request) -> Result<(), String>,
    ) -> GuardOutcome<()> {
        let question = Request::new(self.clock.new_id().to_string(), call);
        let method = question.method();
        let Some(guardians) = &self.guardians else {
            return GuardOutcome { decisions: vec![unguarded(method)], outcome: Ok(()) };
        };
        let follow = |modified: &mut Request| follow(modified);
        let consultation = guardians.ask_and_apply(&question, &HeaderMap::new(), follow).await;
        let decisions = consultation
            .outcomes
            .iter()
            .map(|(name, outcome)| decision(method, name, outcome))
            .collect();
        let outcome = match (consultation.verdict, consultation.outcomes.last()) {
            (Verdict::Deny, last) => Err(GuardDenial {
                message: last.map_or_else(String::new, |(_, last)| shorten_message(&last.message)),
                by_guardian: last.is_some_and(|(_, last)| last.origin == VerdictSource::Guardian),
            }),
            (Verdict::Allow | Verdict::Modify(_), _) => Ok(()),
        };
        GuardOutcome { decisions, outcome }
    }

    fn step_context(&self, context: GuardContext<'_>) -> StepContext {
        let session = Session::new(context.session.to_owned());
        let now = self.clock.now();
        let mut context =
            StepContext::new(self.agent.clone(), session, context.turn, context.step, now);
        context.user = Some(User::new(self.requester.user_id().to_owned()));
        if let Some(caller) = self.requester.caller_id() {
            let caller = Object::from_iter([("id".to_owned(), caller.into())]);
            context.extra.insert("caller".to_owned(), caller);
        }
        context
    }
}

impl<T> GuardOutcome<T> {
    /// Turns the outcome into a denial if its content `adds_a_yes`: a confirmation that a person did not
    /// give.
    pub fn without_added_consent(self, adds_a_yes: impl FnOnce(&T) -> bool) -> Self {
        match &self.outcome {
            Ok(used) if adds_a_yes(used) => {
                let denial = GuardDenial { message: ADDED_CONSENT.to_owned(), by_guardian: false };
                Self { outcome: Err(denial), ..self }
            }
            _ => self,
        }
    }

    /// Converts the content of the outcome.
    fn map<U>(self, f: impl FnOnce(T) -> U) -> GuardOutcome<U> {
        GuardOutcome { decisions: self.decisions, outcome: self.outcome.map(f) }
    }
}

fn other_hook() -> String {
    "its method differs from the original".to_owned()
}

/// Returns the text of a message that a guardian has modified.
fn text_of(content: &[ContentPart]) -> Result<String, String> {
    let parts = content.iter().map(|part| match part {
        ContentPart::Text(part) => Ok(part.text.as_str()),
        _ => Err("the content must be only text".to_owned()),
    });
    Ok(parts.collect::<Result<Vec<_>, _>>()?.join("\n"))
}

fn shorten_message(text: &str) -> String {
    to_single_line(text, MAX_MESSAGE_CHARS)
}

fn decision(method: Method, name: &str, outcome: &GuardianOutcome) -> GuardianDecision {
    let reasons = outcome.reason_codes.iter().take(MAX_REASONS);
    GuardianDecision {
        hook: method.as_str().to_owned(),
        guardian: Some(name.to_owned()),
        decision: outcome.verdict.as_str().to_owned(),
        source: match &outcome.origin {
            VerdictSource::Guardian => DecisionSource::Guardian,
            VerdictSource::FailedClosed(_) => DecisionSource::FailedClosed,
            VerdictSource::FailedOpen(_) => DecisionSource::FailedOpen,
        },
        message: shorten_message(&outcome.message),
        reason_codes: reasons.map(|code| to_single_line(code, MAX_REASON)).collect(),
    }
}

fn unguarded(method: Method) -> GuardianDecision {
    GuardianDecision {
        hook: method.as_str().to_owned(),
        guardian: None,
        decision: "unguarded".to_owned(),
        source: DecisionSource::Unguarded,
        message: "no guardian is configured".to_owned(),
        reason_codes: Vec::new(),
    }
}

/// Describes this agent. It does not have one address: the schema requires a URL, and a URN is one.
fn agent_identity() -> Agent {
    let provider = AgentProvider::new("A2S".to_owned(), "urn:a2s".to_owned());
    Agent::new(
        "a2s-agent".to_owned(),
        "A2S agent".to_owned(),
        "Find published capabilities for a request, and run them.".to_owned(),
        env!("CARGO_PKG_VERSION").to_owned(),
        provider,
        "urn:a2s:agent".to_owned(),
    )
}

#[cfg(test)]
pub(crate) mod tests;
