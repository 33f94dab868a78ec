//! Requests to an agent, its responses and events.

use super::schema;
use a2s::{CapabilityName, Digest, InputField};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    CapabilityRef, DecisionSource, MatchStrength, NearMiss, PlanResponse, RunApproval, RunError,
    RunEvent, RunStatus, SearchFilters, SelectionStrategy,
};

/// One turn of a conversation with the agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentRequest {
    /// The user's message: a request in plain words, or the answer to a question of the agent. At most 8
    /// KiB. Empty only where `inputs` answer a question for inputs.
    #[schema(max_length = 8192)]
    pub message: String,
    /// The id of the conversation: 1 to 200 visible ASCII characters. When it is absent, a new conversation
    /// begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200, pattern = "^[!-~]+$")]
    pub session: Option<String>,
    /// The unchanged `pending` value of the question that this message responds to. The agent itself stores
    /// nothing about a conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingQuestion>,
    /// Known inputs by name. They take precedence over the message. Only here may a client send secret
    /// inputs. Null counts as no value.
    #[serde(
        default,
        deserialize_with = "super::given_inputs::deserialize",
        skip_serializing_if = "Map::is_empty"
    )]
    #[schema(value_type = schema::Values)]
    pub inputs: Map<String, Value>,
    /// The `values` of the last response of the conversation. When the message refers to earlier ones ("and
    /// tomorrow?", "the same there"), inputs that it does not give have these values.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = schema::Values)]
    pub context: Map<String, Value>,
    /// The strategy that ranks the capabilities that fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<SelectionStrategy>,
    /// The conditions that every considered capability must meet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<SearchFilters>,
    /// `given` when the caller confirms every action of this turn in advance. Otherwise the agent asks
    /// before it runs an action that is not known to be read-only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consent: Option<ConsentSource>,
}

/// The reason for which actions run without a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Consent)]
pub enum ConsentSource {
    /// The request gave consent in advance.
    Given,
    /// The configuration of the agent does not require consent.
    Off,
}

/// An action that is not known to be read-only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentAction {
    /// The capability that would run.
    pub capability: CapabilityRef,
    /// The function that it performs.
    #[serde(deserialize_with = "super::single_line::deserialize")]
    pub description: String,
    /// The requests that it sends: method, address, and the tool of an MCP server.
    pub requests: Vec<String>,
    /// The hosts to which it sends requests.
    pub hosts: Vec<String>,
    /// Its inputs. The value of a secret input is `(secret)`.
    #[schema(value_type = schema::Values)]
    pub inputs: Map<String, Value>,
}

/// A request to another agent, which the agent here would send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentDelegation {
    /// The name on the other agent's card.
    pub agent: String,
    /// The address of the other agent.
    pub url: String,
    /// The skill on that card that shares the most words with the request.
    pub skill: String,
    /// The text that the agent would send.
    pub message: String,
}

/// The state of an open question. The client sends it back together with the response to the question. It
/// contains no secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Pending)]
pub struct PendingQuestion {
    /// The original request.
    pub query: String,
    /// The capability that the question is about; absent when the question is about another agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<CapabilityRef>,
    /// The inputs that are known so far.
    #[serde(default)]
    #[schema(value_type = schema::Values)]
    pub inputs: Map<String, Value>,
    /// The inputs that the agent asked for; empty when it asked for consent.
    pub missing: Vec<String>,
    /// The digest of the actions that a yes confirms: capabilities with their checksums and inputs, or
    /// another agent with the message to it. If the actions have changed, the agent asks again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consent: Option<Digest>,
    /// The weak matches that the user accepts by any answer but a no.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<CapabilityRef>,
    /// The capabilities that fit equally. The answer names one of them, or gives its number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<CapabilityRef>,
}

/// The events of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentEvent {
    /// The guardians have decided about the message. A guardian may have changed its text.
    Heard {
        /// The id of the conversation.
        session: String,
        /// The id of this turn.
        turn: Uuid,
        /// The message.
        message: String,
        /// The guardians' decisions about it.
        decisions: Vec<GuardianDecision>,
    },
    /// The intents of the message.
    Understood {
        /// The whole message, then its parts if it asks for several things.
        intents: Vec<String>,
        /// The interpreter of the message: `patterns`, or the name of a language model.
        interpreter: String,
    },
    /// The agent works with limits: a registry or the language model does not respond.
    Degraded {
        /// The limitation and its cause.
        message: String,
    },
    /// The capabilities found for one intent, best first.
    Found {
        /// The intent.
        intent: String,
        /// The candidates.
        candidates: Vec<AgentCandidate>,
        /// The nearest capabilities when nothing fits.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        nearest: Vec<NearMiss>,
        /// The guardians' decisions about it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        decisions: Vec<GuardianDecision>,
    },
    /// No published capability does the whole task, but this proposal would.
    Proposed(Box<AgentProposal>),
    /// The agent tries this capability.
    Chosen {
        /// The function that it performs.
        description: String,
        /// The plan of the run, without its token.
        plan: Box<PlanResponse>,
        /// The inputs that are known. The value of a secret input is `(secret)`.
        #[schema(value_type = schema::Values)]
        inputs: Map<String, Value>,
    },
    /// The run of the capability has started.
    Running {
        /// The run.
        run: Uuid,
        /// The capability.
        capability: CapabilityRef,
    },
    /// The run has a new event.
    Step {
        /// The event of the run.
        event: Box<RunEvent>,
    },
    /// No published capability fits, so the agent sends the request to another agent.
    Delegated {
        /// The name on the agent's card.
        agent: String,
        /// The agent's address.
        url: String,
        /// The skill that the agent states on its card.
        skill: String,
    },
    /// The agent runs actions, or asks another agent, without asking the user for consent.
    Unconfirmed {
        /// The reason.
        consent: ConsentSource,
        /// The capabilities.
        capabilities: Vec<CapabilityRef>,
        /// The request to another agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delegation: Option<AgentDelegation>,
    },
    /// The agent does not use this capability, and tries the next one, if any.
    #[serde(alias = "passed_over")]
    CandidateSkipped(SkippedCandidate),
    /// The turn is over.
    #[serde(alias = "answer")]
    Response(Box<AgentResponse>),
}

/// A capability that may fit the user's request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Candidate)]
pub struct AgentCandidate {
    /// The capability.
    pub capability: CapabilityRef,
    /// The function that it performs.
    #[serde(deserialize_with = "super::single_line::deserialize")]
    pub description: String,
    /// The probability that it does what the intent asks for, 0 to 1.
    pub score: f64,
    /// The strength of the match.
    #[serde(default, rename = "match")]
    pub strength: MatchStrength,
    /// The registry that contains it.
    pub registry: String,
}

/// The reason why a capability was not used, or did not finish.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SkippedCandidate {
    /// The capability.
    pub capability: CapabilityRef,
    /// The code: `A2S321`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The reason.
    pub message: String,
    /// The id of the run that did not succeed, if a run was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Uuid>,
}

/// The outcome of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentStatus {
    /// The agent did everything that the user wanted.
    Completed,
    /// The agent asks for missing information; the client responds with `pending`.
    InputRequired,
    /// The user declined, so the agent runs nothing.
    Cancelled,
    /// No published capability fits.
    NothingFits,
    /// A guardian denied the message, the search results or the response.
    Denied,
    /// The fitting capabilities failed or could not run.
    Failed,
    /// A run waits for a person: for an approval, or because the outcome of a step is not known.
    Waiting,
}

/// The agent's response at the end of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentResponse {
    /// The id of the conversation.
    pub session: String,
    /// The id of this turn.
    pub turn: Uuid,
    /// The final status.
    pub status: AgentStatus,
    /// The text of the response.
    pub message: String,
    /// The runs of the turn, in order. The responses of services are data, not instructions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<AgentRun>,
    /// The capabilities that the agent tried and did not use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedCandidate>,
    /// The capabilities that the agent had chosen and has not run, because a run before them waits or
    /// did not succeed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_started: Vec<CapabilityRef>,
    /// The result of delegation to another agent, when no published capability fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegated: Option<DelegationResult>,
    /// The question of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<AgentQuestion>,
    /// The reason for which actions ran without a question, if any did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consent: Option<ConsentSource>,
    /// The nearest capabilities when nothing fits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<NearMiss>,
    /// The values of inputs in this conversation, by name, without secrets: for `context` of the next request.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = schema::Values)]
    pub values: Map<String, Value>,
    /// The guardians' decisions about this response.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<GuardianDecision>,
}

/// A run of a turn, with its final state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentRun {
    /// Its id.
    pub id: Uuid,
    /// The capability that ran.
    pub capability: CapabilityRef,
    /// The final status.
    pub status: RunStatus,
    /// Its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The error of a run that did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// The approvals that it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<RunApproval>,
}

/// The result of a request to another agent. The response of that agent is data, not instructions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DelegationResult {
    /// The name on the agent's card.
    pub agent: String,
    /// The agent's address.
    pub url: String,
    /// The skill that the agent states on its card.
    pub skill: String,
    /// The id of the task that the other agent created, if it created one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The state of that task, by its name in A2A 0.3: `completed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The text of the other agent's response.
    pub message: String,
    /// The data in the other agent's response.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<Value>,
    /// The guardians' decisions about the sent message and about the response.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<GuardianDecision>,
}

/// The information that the agent needs to continue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentQuestion {
    /// The inputs that the agent asks for. Empty when it asks for consent: to a proposal, to a weak match, or
    /// to use a capability that may change more than the best one, which could not be used. The client sends
    /// secret inputs in `inputs` of its response, never in a message.
    pub fields: Vec<InputField>,
    /// The weak matches that the question is about, or the capabilities that fit equally.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<AgentCandidate>,
    /// The proposal, when no published capability does the whole task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<AgentProposal>,
    /// The actions that need the user's consent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<AgentAction>,
    /// The request to another agent that needs the user's consent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegation: Option<AgentDelegation>,
    /// The state that the client sends back with its response.
    pub pending: PendingQuestion,
}

impl PendingQuestion {
    /// Creates the state of a question about a request, without inputs.
    #[must_use]
    pub fn new(query: String, capability: Option<CapabilityRef>) -> Self {
        Self {
            query,
            capability,
            inputs: Map::new(),
            missing: Vec::new(),
            consent: None,
            accepted: Vec::new(),
            choices: Vec::new(),
        }
    }
}

impl AgentQuestion {
    /// Creates a question that asks for a yes and not for inputs.
    #[must_use]
    pub fn new(pending: PendingQuestion) -> Self {
        Self {
            fields: Vec::new(),
            choices: Vec::new(),
            proposal: None,
            actions: Vec::new(),
            delegation: None,
            pending,
        }
    }

    /// Returns true when the question asks for consent to actions or to a delegation. A missing response
    /// then means no.
    #[must_use]
    pub fn is_consent_request(&self) -> bool {
        !self.actions.is_empty() || self.delegation.is_some()
    }
}

/// A capability that the agent proposes when no published one does the whole task.
///
/// It combines several published capabilities: outputs of one are inputs of another. After a yes, the agent
/// publishes and runs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentProposal {
    /// The capability under which the agent would publish the proposal.
    pub capability: CapabilityRef,
    /// The function that it performs.
    #[serde(deserialize_with = "super::single_line::deserialize")]
    pub description: String,
    /// The capabilities that it runs, in their order.
    pub capabilities: Vec<CapabilityRef>,
    /// The links from outputs to inputs.
    pub links: Vec<InputLink>,
    /// The document, as YAML.
    pub document: String,
}

/// Outputs that feed an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InputLink {
    /// The capability with the outputs.
    pub from: CapabilityName,
    /// The outputs that feed the input. The agent combines several outputs into one text.
    pub outputs: Vec<String>,
    /// The capability with the input.
    pub to: CapabilityName,
    /// The input that receives the outputs.
    pub input: String,
    /// The reason for the link, in words.
    #[serde(rename = "reason")]
    pub because: String,
}

/// A guardian's decision about something that an agent received, found, answered or forwarded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GuardianDecision {
    /// The AOS method of the request to the guardian: `steps/message`, `steps/knowledgeRetrieval`,
    /// `protocols/MCP`, or a method of A2A.
    pub hook: String,
    /// The guardian; absent when there is no guardian.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guardian: Option<String>,
    /// `allow`, `deny`, `modify`, or `unguarded` when the guardian is off.
    pub decision: String,
    /// The source of the decision.
    pub source: DecisionSource,
    /// The message of the guardian, or the reason why it could not be asked.
    pub message: String,
    /// The guardian's reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reason_codes: Vec<String>,
}
