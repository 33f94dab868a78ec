//! The wire types of the two HTTP APIs: what registry, executor and their clients say to each
//! other. Plain data; every rule about it lives with the service that answers.

mod agent;
mod changes;
mod decision;
mod graph;
mod host;
mod index;
mod life;
mod outcome;
mod path;
mod plan;
mod problem;
mod registry;
mod replay;
mod run;
mod secrets;
mod services;
mod state;
mod strategy;
mod tokens;
mod trust;

pub use agent::{
    AgentAction, AgentAnswer, AgentApproval, AgentDelegation, AgentEvent, AgentLink, AgentProposal,
    AgentQuestion, AgentRequest, AgentRun, AgentStatus, Candidate, Consent, Delegated,
    HookDecision, PassedOver, Pending,
};
pub use changes::{
    Action, AuditEntry, AuditPage, ChangePage, RegistryChange, TrimAuditRequest, TrimAuditResponse,
};
pub use decision::{ApprovalSubject, Change, Decision, DecisionSource, Phase};
pub use graph::{
    Broken, CapabilityGraph, Feed, GraphEdge, GraphNode, Impact, Moved, SharedService,
};
pub use host::{HostList, HostState, WaitReason};
pub use index::{IndexBuilding, IndexStatus};
pub use life::{DeprecateRequest, Deprecation, LifeAnswer, Notice, Successor};
pub use outcome::{
    Blame, CapabilityStats, FailureClass, FailureCount, HostHealth, Latency, OutcomeReport,
    Standing,
};
pub use path::{around, loop_of};
pub use plan::{
    ItemPreview, PlanAnswer, PlanRequest, PlannedCredential, PlannedLoop, PlannedStep,
    PlannedStepKind, Preview,
};
pub use problem::Problem;
pub use registry::{
    CapabilityList, CapabilitySummary, CapabilityVersions, Hit, IntentAnswer, Nearest,
    PublishAnswer, SearchAnswer, SearchAnswers, SearchFilters, SearchLevel, SearchMetadata,
    SearchRequest, Term, VerifyAnswer, VerifyRequest,
};
pub use replay::{Difference, Drift, Replay, ReplayRequest, ReplayTarget, ReplayedStep};
pub use run::{
    Event, EventKind, ExecutionList, ExecutionRequest, Guarding, Handler, Iterations, NextAction,
    Pin, RequestPurpose, Resolution, ResumeRequest, Run, RunError, RunStarted, RunStatus,
    StepSummary, TraceContext, TriggerEvent, TriggerRequest, Warning,
};
pub use secrets::{
    ClientAuthentication, Credential, CredentialKind, CredentialSubject, CredentialUsers, KeyPlace,
    StoredCredential, StoredCredentials,
};
pub use services::{
    Service, ServiceAnswer, ServiceCapabilities, ServiceHit, ServiceList, ServiceMatch,
};
pub use state::{StateEntry, StateFor, StateList, StateScope};
pub use strategy::{Strategy, Weights};
pub use tokens::{
    Introspection, IntrospectionRequest, NewToken, OwnerChange, OwnerList, TokenEntry, TokenList,
    TokenRequest,
};
pub use trust::{TrustList, TrustRequest, TrustedVersion};

/// The media type of documents in YAML (RFC 9512).
pub const YAML: &str = "application/yaml";
/// The header in which a mirror names the registry that it copies.
pub const MIRROR: &str = "a2s-mirror";
/// The header in which a mirror names the checksum of the version that it yanks, brings back or
/// deprecates.
pub const MIRROR_CHECKSUM: &str = "a2s-mirror-checksum";
/// The media type of problem answers (RFC 9457).
pub const PROBLEM_JSON: &str = "application/problem+json";
