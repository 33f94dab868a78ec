//! Requests to an executor, its responses, and the events of a run.

use std::collections::BTreeMap;

use super::schema;
use a2s::{CapabilityName, CapabilityRef, Digest};
use jiff::Timestamp;
use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{ApprovalSubject, DecisionRecord, FaultAttribution, RunNotice, StateScope, WaitReason};
use crate::auth::Principal;

/// A request to start a run: of a capability by its `name`, or of a plan by its token in `plan`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionRequest {
    /// Name of the capability.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<CapabilityName>,
    /// The token of a plan, instead of all other fields except `intent` and `wait`: the plan already contains name,
    /// version, inputs and session. A token starts one run. It starts no run when anything differs from the
    /// plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Version or semver range; the newest stable one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::VersionSelector>)]
    pub version: Option<String>,
    /// The checksum that the version must have, as in a search hit.
    #[serde(
        default,
        rename = "checksum",
        alias = "digest",
        skip_serializing_if = "Option::is_none"
    )]
    pub digest: Option<Digest>,
    /// The only allowed versions of dependencies, from a lock. Without a lock, each dependency resolves to
    /// the newest version in its range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<Vec<CapabilityRef>>,
    /// A value for each input. Null counts as no value.
    #[serde(default, deserialize_with = "super::given_inputs::deserialize")]
    #[schema(value_type = schema::Values)]
    pub inputs: Map<String, Value>,
    /// The session that the run belongs to, as the guardian sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The words of the search that led to this run. When the run succeeds, the executor reports them to its
    /// registry, which may learn from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// True to respond with the finished run instead of immediately.
    #[serde(default)]
    pub wait: bool,
}

impl ExecutionRequest {
    /// Creates a request to run exactly this version, without inputs.
    #[must_use]
    pub fn from_ref(pin: &CapabilityRef) -> Self {
        Self {
            name: Some(pin.name.clone()),
            version: Some(pin.version.to_string()),
            digest: Some(pin.checksum),
            ..Self::default()
        }
    }
}

/// A request to start a run because of an event: a mail, a message, a scheduled time. The executor asks the
/// guardian about the event (`steps/agentTrigger`). A repeated event does not start a second run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TriggerRequest {
    /// A description of the event.
    pub event: TriggerEvent,
    /// The run to start; its `inputs` are values from the event. The field `plan` is not allowed.
    pub execution: ExecutionRequest,
}

/// An event of a mail, chat or schedule system (AOS, 3.6.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TriggerEvent {
    /// Its kind, for instance `email` or `schedule`: 1 to 100 visible ASCII characters.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its id, unique among the events of this kind: 1 to 100 visible ASCII characters.
    pub id: String,
}

/// A request to continue a run that waits: because the outcome of a request is not known, or because the
/// run was set aside. For a run that was set aside, send `repeat` without a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeRequest {
    /// Path of the step; optional when only one step is in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The decision about it.
    pub decision: StepResolution,
    /// The values that the step sets, by the names of its `output_mapping`; only with `set`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = schema::Values)]
    pub outputs: Map<String, Value>,
}

/// A person's decision about a step whose request may have taken effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepResolution {
    /// The request did not take effect: the executor sends it again.
    Repeat,
    /// The step counts as finished, without outputs.
    Skip,
    /// The request took effect: the step counts as finished, with these outputs.
    Set,
}

/// A position in a trace, in the format of W3C Trace Context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TraceContext {
    /// `00-TRACE-SPAN-FLAGS`: the trace, the parent span, and a flag for recorded traces.
    pub traceparent: String,
    /// Vendor data that tracing systems have added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

/// The handler that keeps the failure of a step from ending the run.
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
    /// The guardian's name in the configuration, its address, or `builtin`.
    pub guardian: String,
    /// The guardian's address, unless the name is the address or the guardian is the builtin one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The effect of a missing response: `closed` (deny) or `open` (allow, recorded).
    #[serde(alias = "fail")]
    pub fail_mode: String,
    /// The effect for each hook that has a different one: `{"steps/toolCallResult": "open"}`.
    #[serde(default, alias = "fail_hooks", skip_serializing_if = "BTreeMap::is_empty")]
    pub fail_mode_by_hook: BTreeMap<String, String>,
}

impl GuardianInfo {
    /// True when some message may pass without the guardian's response.
    #[must_use]
    pub fn can_fail_open(&self) -> bool {
        std::iter::once(&self.fail_mode)
            .chain(self.fail_mode_by_hook.values())
            .any(|fail| fail == "open")
    }

    /// The effect of a missing response, in words: `closed, open for steps/toolCallResult`.
    #[must_use]
    pub fn describe_fail_mode(&self) -> String {
        let own = self.fail_mode_by_hook.iter().map(|(hook, fail)| format!(", {fail} for {hook}"));
        std::iter::once(self.fail_mode.clone()).chain(own).collect()
    }
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// The run is accepted. It waits for a free slot of an executor, and for its turn.
    Queued,
    /// The run is in progress.
    Running,
    /// The run succeeded.
    Succeeded,
    /// The run ended with an error.
    Failed,
    /// A guardian's denial ended the run.
    Denied,
    /// The run ended on request.
    Cancelled,
    /// The run waits for a person: the outcome of a step is unknown and it is not safe to repeat the step,
    /// or the executors that run it crash.
    Waiting,
}

impl RunStatus {
    /// Returns `queued`, `running`, `succeeded`, `failed`, `denied`, `cancelled` or `waiting`.
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

    /// True when nothing more will happen.
    #[must_use]
    pub fn is_final(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed | Self::Denied | Self::Cancelled => true,
            Self::Queued | Self::Running | Self::Waiting => false,
        }
    }

    /// True when the run continues by itself.
    #[must_use]
    pub fn is_in_progress(self) -> bool {
        matches!(self, Self::Queued | Self::Running)
    }
}

/// A run: its state after all its events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    /// The id of the run, a `UUIDv7`.
    pub id: Uuid,
    /// The state.
    pub status: RunStatus,
    /// Name of the capability.
    pub name: CapabilityName,
    /// Version that runs.
    #[schema(value_type = schema::Version)]
    pub version: Version,
    /// The checksum of the document that runs.
    pub checksum: Digest,
    /// The digest of the plan, when a plan's token started the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Digest>,
    /// The tenant of the run: the subject of the token that started it, or `owner`. Only administrators see
    /// it when they read or list runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Principal>,
    /// The start time.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    /// The end time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at: Option<Timestamp>,
    /// The result of a run that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The error of a run that did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// The approvals that it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<RunApproval>,
    /// The summary of each step, in the order of starting.
    #[serde(default)]
    pub steps: Vec<StepSummary>,
}

/// An approval that a step of a run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunApproval {
    /// Path of the step.
    pub step: String,
    /// The subject of the approval.
    #[serde(flatten)]
    pub about: ApprovalSubject,
    /// The id that the guardian uses for the approval.
    pub id: String,
    /// The guardian.
    pub guardian: String,
    /// The expiry of the approval, if the guardian states one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
}

/// A page of runs, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExecutionList {
    /// The runs of this page, without their steps.
    pub executions: Vec<Run>,
    /// Pass as `before` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Uuid>,
}

/// The summary of one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StepSummary {
    /// Path of the step; `step[3]` is the iteration of a `for_each` over the item with that index.
    /// Iterations that succeeded are counted in `iterations` and not listed.
    pub step: String,
    /// `running`, `succeeded`, `failed`, `denied`, `skipped`, `cancelled` or `waiting`.
    pub status: String,
    /// The handler that kept its failure from ending the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handled: Option<ErrorHandlerKind>,
    /// The summary of its iterations, for a step with `for_each`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<IterationSummary>,
    /// The number of requests that it sent, including those of iterations that are not listed.
    pub attempts: u32,
    /// The guardian's decisions, in order.
    pub decisions: Vec<DecisionRecord>,
    /// The warnings of the step, which did not stop it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<StepWarning>,
    /// The duration in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// A problem that does not stop a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Warning)]
pub struct StepWarning {
    /// The code: `A2S365`.
    pub code: String,
    /// The content.
    pub message: String,
}

/// The number of iterations of a step, by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct IterationSummary {
    /// The number of items in the list.
    pub total: usize,
    /// The number of iterations that succeeded.
    pub succeeded: usize,
    /// The number of iterations that failed or were stopped. The first of them are listed as steps.
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
    /// The HTTP status of the service's response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// A description of the event.
    pub message: String,
    /// The next action for a person.
    pub hint: String,
    /// The party responsible for the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<FaultAttribution>,
    /// The next action for a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<NextAction>,
    /// True when it is safe to run the capability again: the requests changed nothing.
    pub repeat_safe: bool,
}

/// The action of a program after the error of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NextAction {
    /// Run it again later: the problem may disappear, and it is safe to repeat the run.
    Repeat,
    /// Find out from the service whether the request took effect, before you run anything again.
    CheckService,
    /// Provide other inputs, or correct the request.
    ChangeRequest,
    /// Try another capability: only its publisher or the operator of its service can fix this one.
    ChooseAnother,
    /// Ask the person who maintains the guardian's policy.
    AskGuardian,
    /// Have a person approve it with the command in the message. The run then continues by itself.
    Approve,
    /// Ask the operator of the executor: a setting, a limit or a credential is missing.
    AskOperator,
    /// No action is necessary.
    Nothing,
}

/// One event of a run. The journal, the SSE stream and the live view contain these events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Event)]
pub struct RunEvent {
    /// Version of this format: 1.
    pub v: u8,
    /// The number of the event in the run, from 1, without gaps. It is also the id of the SSE event.
    pub seq: u64,
    /// The run.
    pub run: Uuid,
    /// The time of the event.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// A description of the event.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// The first event of a run.
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
    /// Notices about those of these versions that are yanked or deprecated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<RunNotice>,
    /// The inputs, with defaults filled in. The value of a secret input is `(secret)`.
    #[schema(value_type = schema::Values)]
    pub inputs: Map<String, Value>,
    /// The names of the secret inputs. No event contains their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// The inputs that the caller did not provide and the executor took from remembered values, each with
    /// its scope.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub recalled: BTreeMap<String, StateScope>,
    /// The event that started the run, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Box<TriggerEvent>>,
    /// The guardian's decisions before the run began: about the event, and about remembered values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<DecisionRecord>,
    /// The session, as the guardian sees it.
    pub session: String,
    /// The guardians of its steps, in the order in which the executor asks them; empty when there is no
    /// guardian.
    #[serde(alias = "guarding")]
    pub guardians: Vec<GuardianInfo>,
    /// The upstreams to which connections for a host go instead.
    pub upstreams: BTreeMap<String, String>,
    /// The digest of the plan, when a plan's token started the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Digest>,
    /// The words of the search that led to the run, when its caller has given them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// The trace of the caller. Without one, the run begins a new trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Box<TraceContext>>,
}

/// The type and content of an event. Secret values are never part of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// The run was accepted.
    RunStarted(Box<RunStarted>),
    /// The run waits for a free slot of an executor and for its turn: no slot was free when it was
    /// accepted, or a person continued a run that was set aside.
    RunQueued {},
    /// An executor continued a run that waited for a free slot, or that another executor left unfinished.
    RunResumed {},
    /// A person decided about a request with an unknown outcome. The run continues.
    StepResolved {
        /// The step.
        step: String,
        /// The decision about it.
        decision: StepResolution,
        /// The values that the step sets.
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
        /// The value of the condition.
        value: bool,
    },
    /// The list of a `for_each` was evaluated; iterations follow as steps `step[0]`, `step[1]`, …
    ItemsTaken {
        /// Path of the step.
        step: String,
        /// The number of items.
        items: usize,
    },
    /// The executor asked a guardian, or could not ask it.
    Decided {
        /// Path of the step.
        step: String,
        /// The id by which the guardian correlates its messages.
        execution_id: Uuid,
        /// The decision.
        decision: DecisionRecord,
    },
    /// A request waits before it is sent, because of the limits for its host.
    Throttled {
        /// Path of the step.
        step: String,
        /// The host.
        host: String,
        /// The reason for the wait.
        reason: WaitReason,
        /// The duration of the wait in milliseconds, when known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait_ms: Option<u64>,
    },
    /// The executor requested an OAuth 2.0 token, which a request needs for authorization. No event
    /// contains the token itself.
    TokenRequested {
        /// Path of the step.
        step: String,
        /// The attempt that needs it, from 1.
        attempt: u32,
        /// Host and port of the authorization server.
        host: String,
        /// The name of the security scheme that requires it.
        scheme: String,
        /// True when it replaces an earlier token, which expired or was refused.
        renewed: bool,
        /// The duration in milliseconds.
        duration_ms: u64,
        /// The reason for a missing token; absent on success.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<StepWarning>,
    },
    /// The executor requested an MCP session, which a server of an older revision requires before a tool
    /// call.
    SessionOpened {
        /// Path of the step.
        step: String,
        /// The attempt that needs it, from 1.
        attempt: u32,
        /// Host and port of the server.
        host: String,
        /// The MCP revision of the session; absent when there is no session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revision: Option<String>,
        /// The duration in milliseconds.
        duration_ms: u64,
        /// The reason for a missing session; absent on success.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<StepWarning>,
    },
    /// An additional request that the step needs is about to leave: for a token, or for an MCP session.
    Requesting {
        /// Path of the step.
        step: String,
        /// The attempt that needs it, from 1.
        attempt: u32,
        /// The purpose of the request.
        purpose: RequestPurpose,
        /// `POST` or `DELETE`.
        method: String,
        /// The address.
        url: String,
    },
    /// The executor is about to send a request, which may take effect from now on. Each redirect is a
    /// separate request with a separate event.
    Sending {
        /// Path of the step.
        step: String,
        /// The id by which the guardian correlates its messages.
        execution_id: Uuid,
        /// The attempt, from 1.
        attempt: u32,
        /// `GET`, `POST`, …
        method: String,
        /// The address, as the document names it.
        url: String,
        /// The upstream to which the connection goes instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        upstream: Option<String>,
        /// The SHA-256 digest of method, address, headers and body.
        request_digest: Digest,
        /// True when it is safe to repeat this request and every earlier request of this attempt.
        repeat_safe: bool,
        /// The number of the redirect that led to it, from 1; absent for the first request of an
        /// attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        redirect: Option<u32>,
    },
    /// A response arrived.
    Received {
        /// Path of the step.
        step: String,
        /// The attempt, from 1.
        attempt: u32,
        /// HTTP status.
        status: u16,
        /// Size of the body in bytes.
        bytes: u64,
        /// The duration in milliseconds.
        duration_ms: u64,
    },
    /// A problem occurred that does not stop the step.
    Warned {
        /// Path of the step.
        step: String,
        /// The content.
        #[serde(flatten)]
        warning: StepWarning,
    },
    /// No usable response arrived, and another attempt follows.
    Retrying {
        /// Path of the step.
        step: String,
        /// The attempt that failed, from 1.
        attempt: u32,
        /// The reason.
        reason: String,
        /// The pause in milliseconds.
        pause_ms: u64,
    },
    /// A step succeeded. Later steps can use its outputs.
    StepFinished {
        /// Path of the step.
        step: String,
        /// The values that the step set, by name.
        #[schema(value_type = schema::Values)]
        outputs: Map<String, Value>,
        /// The duration in milliseconds.
        duration_ms: u64,
    },
    /// A step did not run: the other branch was taken, or a sibling failed first.
    StepSkipped {
        /// Path of the step.
        step: String,
        /// The reason.
        reason: String,
    },
    /// A step failed.
    StepFailed {
        /// Path of the step.
        step: String,
        /// The reason.
        error: RunError,
        /// The duration in milliseconds.
        duration_ms: u64,
    },
    /// The failure of a step does not end the run: the document ignores it, or the `catch` of the step
    /// succeeded.
    ErrorHandled {
        /// Path of the step.
        step: String,
        /// The handler of the error.
        #[serde(alias = "by")]
        handler: ErrorHandlerKind,
    },
    /// A guardian requires a person's approval of a request that a step is about to send, or of a response
    /// to it. The run waits for it once the parallel steps have ended, and then continues at that point.
    ApprovalRequested {
        /// Path of the step.
        step: String,
        /// The subject of the approval.
        #[serde(flatten)]
        about: ApprovalSubject,
        /// The id by which the guardian identifies the question. A repeated question has the same id.
        execution_id: Uuid,
        /// The guardian.
        guardian: String,
        /// The id that the guardian uses for the approval.
        id: String,
        /// The expiry of the approval, if the guardian states one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>, format = DateTime)]
        expires_at: Option<Timestamp>,
    },
    /// The run waits for a person.
    RunWaiting {
        /// The reason.
        error: RunError,
    },
    /// The run ended.
    RunFinished {
        /// The final status.
        status: RunStatus,
        /// The result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Value>,
        /// The error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<RunError>,
        /// The duration in milliseconds.
        duration_ms: u64,
    },
}

/// The purpose of an additional request that a step needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequestPurpose {
    /// A token of OAuth 2.0, from an authorization server.
    Token,
    /// A session of MCP: opened, confirmed or ended.
    Session,
}
