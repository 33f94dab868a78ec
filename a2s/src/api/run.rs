//! Requests to an executor, its responses, and the events of a run.

use std::collections::BTreeMap;

use super::schema;
use jiff::Timestamp;
use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{ApprovalSubject, Decision, FaultAttribution, RunNotice, StateScope, WaitReason};
use crate::auth::Principal;
use crate::checksum::Digest;
use crate::name::CapabilityName;

/// Start a run: of a capability by its `name`, or of a `plan` that was shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionRequest {
    /// Name of the capability.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<CapabilityName>,
    /// The token of a plan, in the place of everything else but `wait`: the plan has name, version,
    /// inputs and session already. It starts one run, and none when anything would not be as the
    /// plan showed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Version or semver range; the newest stable one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::VersionSelector>)]
    pub version: Option<String>,
    /// The checksum that must run, as a search hit names it.
    #[serde(
        default,
        rename = "checksum",
        alias = "digest",
        skip_serializing_if = "Option::is_none"
    )]
    pub digest: Option<Digest>,
    /// The only contents that dependencies may have, as a lock names them; without it, each
    /// dependency means the newest version in its range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<Vec<CapabilityRef>>,
    /// A value for each input.
    #[serde(default)]
    #[schema(value_type = schema::Values)]
    pub inputs: Map<String, Value>,
    /// The session that the run belongs to, as the guardian sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Answer with the finished run instead of at once.
    #[serde(default)]
    pub wait: bool,
}

impl ExecutionRequest {
    /// A run of exactly this version, without inputs.
    #[must_use]
    pub fn of(pin: &CapabilityRef) -> Self {
        Self {
            name: Some(pin.name.clone()),
            version: Some(pin.version.to_string()),
            digest: Some(pin.checksum),
            ..Self::default()
        }
    }
}

/// Start a run because something happened: a mail, a message, an hour. The guardian is asked about it
/// (`steps/agentTrigger`), and an event that comes again starts nothing again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TriggerRequest {
    /// What happened.
    pub event: TriggerEvent,
    /// What is run then; its `inputs` are what was taken from the event. A plan cannot be.
    pub execution: ExecutionRequest,
}

/// An event of a mail, chat or schedule system (AOS, 3.6.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TriggerEvent {
    /// Its kind, for instance `email` or `schedule`: 1 to 100 visible ASCII characters.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its id, which no other event of this kind has: 1 to 100 visible ASCII characters.
    pub id: String,
}

/// Go on with a run that waits: because the outcome of a request is not known, or because it was set
/// aside, which `repeat` without a step ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeRequest {
    /// The step, by its path; it may be left out when one step alone is in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// What becomes of it.
    pub decision: StepResolution,
    /// What the step set, by the names of its `output_mapping`; with `set` alone.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = schema::Values)]
    pub outputs: Map<String, Value>,
}

/// What a person decides about a step whose request may have taken effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepResolution {
    /// It did not: the request is sent again.
    Repeat,
    /// The step counts as finished, and has set nothing.
    Skip,
    /// It did: the step counts as finished, and has set these outputs.
    Set,
}

/// An exact version of a capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CapabilityRef {
    /// Name of the capability.
    pub name: CapabilityName,
    /// Its version.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// Its digest.
    pub checksum: Digest,
}

/// A place in a trace, as W3C Trace Context writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TraceContext {
    /// `00-TRACE-SPAN-FLAGS`: which trace, below which span, and whether it is recorded.
    pub traceparent: String,
    /// What tracing systems have added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

/// What keeps the failure of a step from ending the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorHandlerKind {
    /// `on_error: continue`, of the step or of the parallel step around it.
    Continue,
    /// The steps of its `catch`.
    Catch,
}

/// One of the guardians of a run's steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GuardianInfo {
    /// What it is called: its name in the configuration, its address, or `builtin`.
    pub guardian: String,
    /// Where it answers, unless the name says it or it is the builtin one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// What happens without its answer: `closed` (deny) or `open` (allow, recorded).
    #[serde(alias = "fail")]
    pub fail_mode: String,
    /// The same of the hooks for which it is another: `{"steps/toolCallResult": "open"}`.
    #[serde(default, alias = "fail_hooks", skip_serializing_if = "BTreeMap::is_empty")]
    pub fail_mode_by_hook: BTreeMap<String, String>,
}

impl GuardianInfo {
    /// Whether something may pass without its answer.
    #[must_use]
    pub fn may_fail_open(&self) -> bool {
        std::iter::once(&self.fail_mode)
            .chain(self.fail_mode_by_hook.values())
            .any(|fail| fail == "open")
    }

    /// What happens without its answer, in words: `closed, open for steps/toolCallResult`.
    #[must_use]
    pub fn fail_words(&self) -> String {
        let own = self.fail_mode_by_hook.iter().map(|(hook, fail)| format!(", {fail} for {hook}"));
        std::iter::once(self.fail_mode.clone()).chain(own).collect()
    }
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Accepted; begins when an executor has room, and it is its turn.
    Queued,
    /// Under way.
    Running,
    /// Ended as it should.
    Succeeded,
    /// Ended by an error.
    Failed,
    /// Ended by a guardian's refusal.
    Denied,
    /// Ended on request.
    Cancelled,
    /// Waits for a person: the outcome of a step is unknown and repeating it is not safe, or its
    /// executors do not survive it.
    Waiting,
}

impl RunStatus {
    /// `queued`, `running`, `succeeded`, `failed`, `denied`, `cancelled` or `waiting`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
            Self::Waiting => "waiting",
        }
    }

    /// Whether nothing more will happen.
    #[must_use]
    pub fn is_final(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed | Self::Denied | Self::Cancelled => true,
            Self::Queued | Self::Running | Self::Waiting => false,
        }
    }

    /// Whether it goes on by itself.
    #[must_use]
    pub fn is_under_way(self) -> bool {
        matches!(self, Self::Queued | Self::Running)
    }
}

/// A run: the fold over its events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    /// `UUIDv7`.
    pub id: Uuid,
    /// The state.
    pub status: RunStatus,
    /// Name of the capability.
    pub name: CapabilityName,
    /// Version that runs.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// Digest that runs.
    pub checksum: Digest,
    /// The digest of the plan that was shown before, when it was started by its token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Digest>,
    /// Whose it is: the name that the token stands for which has started it, or `owner`. Those who may
    /// administer are told, when they read or list runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Principal>,
    /// When it was started.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at: Option<Timestamp>,
    /// The result, once it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// What became of each step, in the order of starting.
    #[serde(default)]
    pub steps: Vec<StepSummary>,
}

/// Runs, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExecutionList {
    /// The runs of this page, without their steps.
    pub executions: Vec<Run>,
    /// Pass as `before` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Uuid>,
}

/// What became of one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StepSummary {
    /// Path of the step; `step[3]` is the iteration of a `for_each` over the item of that index.
    /// Iterations that ended as they should are counted in `iterations` and not listed.
    pub step: String,
    /// `running`, `succeeded`, `failed`, `denied`, `skipped`, `cancelled` or `waiting`.
    pub status: String,
    /// What kept its failure from ending the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handled: Option<ErrorHandlerKind>,
    /// How its iterations went, of a step with `for_each`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<IterationSummary>,
    /// How many requests it sent; its iterations that are not listed included.
    pub attempts: u32,
    /// The guardian's decisions, in order.
    pub decisions: Vec<Decision>,
    /// What was not as it should be, and did not keep it from going on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// How long it took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// What is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Warning {
    /// The code: `A2S365`.
    pub code: String,
    /// What it is.
    pub message: String,
}

/// How the iterations of a step went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct IterationSummary {
    /// Items of the list.
    pub total: usize,
    /// Iterations that ended as they should.
    pub succeeded: usize,
    /// Iterations that failed, or were stopped; the first of them are listed as steps.
    pub failed: usize,
}

/// An error that a machine can act on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunError {
    /// The code: `A2S321`.
    pub code: String,
    /// Path of the step; absent when the run itself failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The attempt that failed, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The HTTP status that the service answered with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What happened.
    pub message: String,
    /// What to do next.
    pub hint: String,
    /// Who is to blame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<FaultAttribution>,
    /// What a program does next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<NextAction>,
    /// Whether running the capability again is safe: nothing was changed by what was sent.
    pub repeat_safe: bool,
}

/// What a program does about the error of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NextAction {
    /// Run it again later: what failed may pass, and repeating is safe.
    Repeat,
    /// Find out from the service whether the request took effect, before anything is run again.
    CheckService,
    /// Give other inputs, or correct what was asked for.
    ChangeRequest,
    /// Try another capability: this one, or its service, has to be mended by somebody else.
    ChooseAnother,
    /// Ask who keeps the guardian's policy.
    AskGuardian,
    /// Have a person approve it, which the message names the command for: the run goes on by itself then.
    Approve,
    /// Ask who runs the executor: a setting, a limit or a credential is missing.
    AskOperator,
    /// Nothing is left to be done.
    Nothing,
}

/// One event of a run. The journal, the SSE stream and the live view all show these.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Version of this format: 1.
    pub v: u8,
    /// Place in the run, from 1, without gaps; the id of the SSE event.
    pub seq: u64,
    /// The run.
    pub run: Uuid,
    /// When it happened.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// How a run begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunStarted {
    /// The principal that the run belongs to: `token`, or `token/end user`. Absent in runs of older
    /// executors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Principal>,
    /// The capability that runs.
    pub capability: CapabilityRef,
    /// All capabilities that it uses.
    pub dependencies: Vec<CapabilityRef>,
    /// Which of these versions were yanked or are deprecated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<RunNotice>,
    /// The inputs, with defaults filled in. Those that are secret read `(secret)`.
    #[schema(value_type = schema::Values)]
    pub inputs: Map<String, Value>,
    /// The inputs that are secret. No event tells them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Those of the inputs that nobody gave: they were remembered, and for how long.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub recalled: BTreeMap<String, StateScope>,
    /// The event that has started it, when it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Box<TriggerEvent>>,
    /// What the guardian said before it began: of the event, and of what is remembered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<Decision>,
    /// The session, as the guardian sees it.
    pub session: String,
    /// Who guards its steps, in the order in which they are asked; nobody when it is empty.
    #[serde(alias = "guarding")]
    pub guardians: Vec<GuardianInfo>,
    /// Where connections for a host are sent instead.
    pub upstreams: BTreeMap<String, String>,
    /// The digest of the plan that was shown before, when it was started by its token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Digest>,
    /// The trace that the caller was in; without one, the run is a trace of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Box<TraceContext>>,
}

/// What happened in a run. Secret values are never part of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// The run was accepted.
    RunStarted(Box<RunStarted>),
    /// The run waits until an executor has room and it is its turn: there was none when it was accepted, or
    /// a person lets it go on that was set aside.
    RunQueued {},
    /// An executor went on with a run that waited for room, or that another one left.
    RunResumed {},
    /// A person said what became of a request whose outcome is not known. The run goes on.
    StepResolved {
        /// The step.
        step: String,
        /// What becomes of it.
        decision: StepResolution,
        /// What it has set.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        #[schema(value_type = schema::Values)]
        outputs: Map<String, Value>,
        /// The principal that decided. Absent in runs of older executors.
        #[serde(default, alias = "by", skip_serializing_if = "Option::is_none")]
        resolved_by: Option<Principal>,
    },
    /// A step began.
    StepStarted {
        /// Path of the step.
        step: String,
        /// `task`, `capability`, `sequence`, `parallel` or `condition`.
        kind: String,
        /// The capability that it uses, when it uses one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        capability: Option<CapabilityRef>,
    },
    /// A condition was evaluated.
    BranchTaken {
        /// Path of the step.
        step: String,
        /// What it came to.
        value: bool,
    },
    /// The list of a `for_each` was evaluated; iterations follow as steps `step[0]`, `step[1]`, …
    ItemsTaken {
        /// Path of the step.
        step: String,
        /// How many items there are.
        items: usize,
    },
    /// A guardian was asked, or could not be.
    Decided {
        /// Path of the step.
        step: String,
        /// The id that the guardian correlates by.
        execution_id: Uuid,
        /// What was decided.
        decision: Decision,
    },
    /// A request waits until it may leave: its host is treated politely.
    Throttled {
        /// Path of the step.
        step: String,
        /// The host.
        host: String,
        /// For what it waits.
        reason: WaitReason,
        /// How long, in milliseconds, when that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait_ms: Option<u64>,
    },
    /// A token was asked for (OAuth 2.0), which a request needs to be let in. The token itself is
    /// told to nobody.
    TokenRequested {
        /// Path of the step.
        step: String,
        /// The attempt that it is for, from 1.
        attempt: u32,
        /// Host and port of the authorization server.
        host: String,
        /// The name of the security scheme that wants it.
        scheme: String,
        /// Whether it takes the place of an earlier one, which has ended or was refused.
        renewed: bool,
        /// How long it took, in milliseconds.
        duration_ms: u64,
        /// Why none came; absent when one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Warning>,
    },
    /// A server of MCP wanted a session, as servers of older revisions do, before it takes the call
    /// of a tool.
    SessionOpened {
        /// Path of the step.
        step: String,
        /// The attempt that it is for, from 1.
        attempt: u32,
        /// Host and port of the server.
        host: String,
        /// The revision of MCP that is spoken in it; absent when there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revision: Option<String>,
        /// How long it took, in milliseconds.
        duration_ms: u64,
        /// Why there is none; absent when there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Warning>,
    },
    /// A request beside the step's own is about to leave, which the step needs: for a token, or for
    /// a session of MCP.
    Requesting {
        /// Path of the step.
        step: String,
        /// The attempt that it is for, from 1.
        attempt: u32,
        /// What the request is for.
        purpose: RequestPurpose,
        /// `POST` or `DELETE`.
        method: String,
        /// The address.
        url: String,
    },
    /// A request is about to leave; from here on its effect is possible. A redirect is a request of
    /// its own, and has an event of its own.
    Sending {
        /// Path of the step.
        step: String,
        /// The id that the guardian correlates by.
        execution_id: Uuid,
        /// The attempt, from 1.
        attempt: u32,
        /// `GET`, `POST`, …
        method: String,
        /// The address, as the document names it.
        url: String,
        /// Where the connection goes instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        upstream: Option<String>,
        /// SHA-256 over method, address, headers and body.
        request_digest: Digest,
        /// Whether repeating it is safe, and every request of this attempt before it.
        repeat_safe: bool,
        /// The number of the redirect that led to it, from 1; absent for the first request of an
        /// attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        redirect: Option<u32>,
    },
    /// An answer came.
    Received {
        /// Path of the step.
        step: String,
        /// The attempt, from 1.
        attempt: u32,
        /// HTTP status.
        status: u16,
        /// Size of the body in bytes.
        bytes: u64,
        /// How long it took, in milliseconds.
        duration_ms: u64,
    },
    /// Something is not as it should be, and the step goes on all the same.
    Warned {
        /// Path of the step.
        step: String,
        /// What it is.
        #[serde(flatten)]
        warning: Warning,
    },
    /// No usable answer came, and another attempt follows.
    Retrying {
        /// Path of the step.
        step: String,
        /// The attempt that failed, from 1.
        attempt: u32,
        /// Why.
        reason: String,
        /// How long the pause is, in milliseconds.
        pause_ms: u64,
    },
    /// A step ended as it should; its outputs are known to later steps.
    StepFinished {
        /// Path of the step.
        step: String,
        /// What it set, by name.
        #[schema(value_type = schema::Values)]
        outputs: Map<String, Value>,
        /// How long it took, in milliseconds.
        duration_ms: u64,
    },
    /// A step was not run: the other branch was taken, or a sibling failed first.
    StepSkipped {
        /// Path of the step.
        step: String,
        /// Why.
        reason: String,
    },
    /// A step failed.
    StepFailed {
        /// Path of the step.
        step: String,
        /// Why.
        error: RunError,
        /// How long it took, in milliseconds.
        duration_ms: u64,
    },
    /// A step that failed does not end the run: it is ignored, or its `catch` ended as it should.
    ErrorHandled {
        /// Path of the step.
        step: String,
        /// What handled it.
        #[serde(alias = "by")]
        handler: ErrorHandlerKind,
    },
    /// A guardian wants a person to approve what a step is about to send, or what it was answered. The run
    /// waits for that once the steps beside this one have ended, and goes on at that place.
    ApprovalRequested {
        /// Path of the step.
        step: String,
        /// What is to be approved.
        #[serde(flatten)]
        about: ApprovalSubject,
        /// The id that the guardian knows the question by; asked again, it is the same.
        execution_id: Uuid,
        /// The guardian.
        guardian: String,
        /// The id of the approval, as the guardian calls it.
        id: String,
        /// The end of the time for it, where the guardian names one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>, format = DateTime)]
        expires_at: Option<Timestamp>,
    },
    /// The run waits for a person.
    RunWaiting {
        /// Why.
        error: RunError,
    },
    /// The run ended.
    RunFinished {
        /// How.
        status: RunStatus,
        /// The result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Value>,
        /// The error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<RunError>,
        /// How long it took, in milliseconds.
        duration_ms: u64,
    },
}

impl EventKind {
    /// The path of the step that it is about; none for the run as a whole.
    #[must_use]
    pub fn step(&self) -> Option<&str> {
        match self {
            Self::StepResolved { step, .. }
            | Self::StepStarted { step, .. }
            | Self::BranchTaken { step, .. }
            | Self::ItemsTaken { step, .. }
            | Self::Decided { step, .. }
            | Self::Throttled { step, .. }
            | Self::TokenRequested { step, .. }
            | Self::SessionOpened { step, .. }
            | Self::Requesting { step, .. }
            | Self::Sending { step, .. }
            | Self::Received { step, .. }
            | Self::Warned { step, .. }
            | Self::Retrying { step, .. }
            | Self::StepFinished { step, .. }
            | Self::StepSkipped { step, .. }
            | Self::StepFailed { step, .. }
            | Self::ErrorHandled { step, .. }
            | Self::ApprovalRequested { step, .. } => Some(step),
            Self::RunStarted(_)
            | Self::RunQueued {}
            | Self::RunResumed {}
            | Self::RunWaiting { .. }
            | Self::RunFinished { .. } => None,
        }
    }
}

/// The purpose of a request that a step needs beside its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequestPurpose {
    /// A token of OAuth 2.0, from an authorization server.
    Token,
    /// A session of MCP: opened, confirmed or ended.
    Session,
}
