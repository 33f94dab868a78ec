//! The wire types of the HTTP APIs, and the check of who calls.
//!
//! Registry, executor, guardian, agents and their clients exchange these types. They are plain data: the
//! service that responds holds the rules about them. [`AuthGuard`] authorizes a caller by its token in
//! front of every service, and [`StreamQuota`] bounds the streams that a caller holds.

mod agent;
mod auth;
mod changes;
mod decision;
mod description;
mod drafts;
mod event_summary;
mod exchange;
mod findability;
mod given_inputs;
mod graph;
mod host;
mod index;
mod lifecycle;
mod outcome;
mod path;
mod plan;
mod problem;
mod registry;
mod replay;
mod run;
pub mod schema;
mod secrets;
mod services;
mod single_line;
mod state;
mod strategy;
mod stream_quota;
mod tokens;
mod trust;
mod usage;
mod whole_number;

pub use agent::{
    AgentAction, AgentCandidate, AgentDelegation, AgentEvent, AgentProposal, AgentQuestion,
    AgentRequest, AgentResponse, AgentRun, AgentStatus, ConsentSource, DelegationResult,
    GuardianDecision, InputLink, PendingQuestion, SkippedCandidate,
};
pub use auth::{
    AuthError, AuthGuard, AuthenticatedCaller, BoxFuture, Caller, CallerHeaders, EndUser,
    ON_BEHALF_OF, Principal, TokenIntrospector, TokenScope, TokenSubject, bearer_token,
};
pub use changes::{
    AuditEntry, AuditPage, ChangePage, MirrorList, MirroredRegistry, RegistryAction,
    RegistryChange, TrimAuditRequest, TrimAuditResponse,
};
pub use decision::{
    ApprovalSubject, DecisionRecord, DecisionSource, GuardianChange, GuardianPhase,
};
pub use description::{
    add_defaults, add_error_responses, flatten_unions, has_status, operations_mut,
};
pub use drafts::{Draft, DraftList, DraftRequest, SkippedOperation};
pub use event_summary::{EventSummary, RequestChange, RunChange, SentRequest, StepChange};
pub use exchange::{ExchangeList, RecordedResponse, StepExchange};
pub use findability::{FindabilityReport, Rival, TextFindability, TextOrigin};
pub use graph::{
    BrokenDependent, CapabilityGraph, ChangedDependency, CompatibleIo, GraphEdge, GraphNode,
    PrerequisiteSearch, SharedService, YankImpact,
};
pub use host::{HostList, HostState, WaitReason};
pub use index::{IndexBuilding, IndexStatus};
pub use lifecycle::{DeprecateRequest, LifecycleResponse, RunNotice};
pub use outcome::{
    CapabilityStats, FailureClass, FailureCount, FaultAttribution, ForgetResponse, HostHealth,
    Latency, OutcomeReport, OutcomeWeights,
};
pub use path::{parent_path, path_of_loop};
pub use plan::{
    ItemPreview, PlanRequest, PlanResponse, PlannedCredential, PlannedForEach, PlannedStep,
    PlannedStepKind, StepPreview,
};
pub use problem::Problem;
pub use registry::{
    BatchSearchResponse, CapabilityList, CapabilitySummary, CapabilityVersions,
    IntentSearchResponse, MAX_INTENT_LENGTH, MatchStrength, NearMiss, NeededBy, PublishResponse,
    ScoreTerm, SearchFilters, SearchHit, SearchLevel, SearchMetadata, SearchMode, SearchRequest,
    SearchResponse, VerifyRequest, VerifyResponse, is_intent,
};
pub use replay::{ReplayRequest, ReplayResponse, ReplayTarget, ReplayedStep, StepDiff, ValueDiff};
pub use run::{
    ErrorHandlerKind, EventKind, ExecutionList, ExecutionRequest, GuardianInfo, IterationSummary,
    NextAction, RequestPurpose, ResumeRequest, Run, RunApproval, RunError, RunEvent, RunStarted,
    RunStatus, StepResolution, StepSummary, StepWarning, TraceContext, TriggerEvent,
    TriggerRequest,
};
pub use secrets::{
    ClientAuthentication, Credential, CredentialSubject, CredentialUsers, KeyLocation,
    StoredCredential, StoredCredentials,
};
pub use services::{
    ServiceCapabilities, ServiceHit, ServiceList, ServiceMatch, ServiceSearchResponse,
    ServiceSummary,
};
pub use state::{StateEntry, StateFor, StateList, StateScope};
pub use strategy::{SelectionStrategy, StrategyWeights};
pub use stream_quota::{StreamLimits, StreamPermit, StreamQuota, StreamRejection, token_share};
pub use tokens::{
    IntrospectionRequest, IntrospectionResponse, NewToken, OwnerList, OwnerUpdate, TokenEntry,
    TokenList, TokenRequest,
};
pub use trust::{TrustList, TrustRequest, TrustedVersion};
pub use usage::{
    CapabilityUsage, ErrorUsage, RunCounts, SearchCounts, SearchHour, TenantUsage, UsageInterval,
    UsageReport, UsageUnit,
};

pub use a2s::{CapabilityRef, CredentialKind, Deprecation, SuccessorRef};

/// The media type of documents in YAML (RFC 9512).
pub const YAML: &str = "application/yaml";
/// The header in which a mirror names the registry that it copies.
pub const MIRROR: &str = "a2s-mirror";
/// The header in which a mirror names the checksum of the version that it yanks, brings back or
/// deprecates.
pub const MIRROR_CHECKSUM: &str = "a2s-mirror-checksum";
/// The media type of error responses with problem details (RFC 9457).
pub const PROBLEM_JSON: &str = "application/problem+json";
