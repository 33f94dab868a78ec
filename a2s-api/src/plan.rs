//! Plans of runs: a preview of the run, and the token that starts it.

use std::collections::BTreeMap;

use super::schema;
use a2s::{CapabilityName, Digest, Permission};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{CapabilityRef, DecisionRecord, ErrorHandlerKind, GuardianInfo, RunNotice, StateScope};

/// A request for the plan of a run, without running it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanRequest {
    /// Name of the capability.
    pub name: CapabilityName,
    /// Version or semver range; the newest stable one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::VersionSelector>)]
    pub version: Option<String>,
    /// The checksum that the planned version must have.
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
    /// The values of the inputs that are known so far. Null counts as no value.
    #[serde(default, deserialize_with = "super::given_inputs::deserialize")]
    #[schema(value_type = schema::Values)]
    pub inputs: Map<String, Value>,
    /// The session of the run. Its state may provide missing inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Set when the executor also asks the guardian about each task step with known inputs. The executor
    /// marks these questions as a preview and sends nothing to a service; a run asks again.
    #[serde(default)]
    pub preview: bool,
}

impl PlanRequest {
    /// Creates a request for a plan of exactly this version, without inputs.
    #[must_use]
    pub fn from_ref(pin: &CapabilityRef) -> Self {
        Self {
            name: pin.name.clone(),
            version: Some(pin.version.to_string()),
            digest: Some(pin.checksum),
            lock: None,
            inputs: Map::new(),
            session: None,
            preview: false,
        }
    }
}

/// The plan of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlanResponse {
    /// The capability.
    pub capability: CapabilityRef,
    /// The capabilities that it uses directly or indirectly.
    pub dependencies: Vec<CapabilityRef>,
    /// Notices about those of these versions that are yanked or deprecated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<RunNotice>,
    /// The required inputs that have no value yet.
    pub missing: Vec<String>,
    /// Inputs with remembered values, and the scope of each value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub recalled: BTreeMap<String, StateScope>,
    /// The hosts that receive requests, each with the upstream to which connections go instead, if
    /// configured.
    pub hosts: BTreeMap<String, Option<String>>,
    /// The credentials that the requests need. If one of them is missing, the executor rejects the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<PlannedCredential>,
    /// The guardians of its steps, in the order in which the executor asks them; empty when there is no
    /// guardian.
    pub guardians: Vec<GuardianInfo>,
    /// The policy of each guardian that reports one, by the guardian's own name for its content.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policies: BTreeMap<String, String>,
    /// The permissions that a caller must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<Permission>,
    /// The steps, in order.
    pub steps: Vec<PlannedStep>,
    /// The value of `plan` for `POST /v1/executions`, which runs exactly this, once. Present together with
    /// `expires_at` and `digest`; otherwise `no_token_reason` states why it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The expiry of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// One digest (RFC 8785, SHA-256) of everything in the plan: the contents of all capabilities, inputs,
    /// remembered values, upstreams, credentials without their values, and the guardians of the steps. The
    /// run that the token starts contains it in its first event. Secret inputs count as `(secret)`, so the
    /// digest does not help to guess them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The reason for the missing token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_token_reason: Option<String>,
}

/// A credential that requests of a plan need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedCredential {
    /// The host that receives it, with its port unless it is the default port.
    pub host: String,
    /// The name of the security scheme in the document.
    pub scheme: String,
    /// `api_key`, `basic`, `bearer`, `oauth2`, `mutual_tls`, or `unsupported`: the kind of the stored
    /// credential, or of the required one.
    pub kind: String,
    /// The steps that require it.
    pub steps: Vec<String>,
    /// True when the credential is available.
    pub stored: bool,
    /// The time at which it was stored; absent for a client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub set_at: Option<Timestamp>,
    /// The action to take when it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedStep {
    /// Path of the step: `checkWeather/getWeather`.
    pub step: String,
    /// The content.
    #[serde(flatten)]
    pub kind: PlannedStepKind,
    /// The list of a step that runs once for each item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<PlannedForEach>,
    /// The number of steps of a parallel step that run at the same time, if the document sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<usize>,
    /// The maximum number of times a request is sent, if the document sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// The timeout in milliseconds, if the document sets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The handler that keeps its failure from ending the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<ErrorHandlerKind>,
    /// The steps of its `catch`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(no_recursion)]
    pub catch: Vec<Self>,
    /// The guardian's preview decision; for task steps only, when requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<StepPreview>,
}

/// A guardian's preview decision about a step before a run exists. It permits nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StepPreview {
    /// The executor asked the guardian. If the guardian could not be asked, the decision has `source:
    /// failed_closed` or `failed_open`, as in a run.
    Decided {
        /// The decisions of the guardians that were asked, in order. If one denied, it is the last.
        decisions: Vec<DecisionRecord>,
    },
    /// The inputs of the step are not known yet, so the executor cannot ask the guardian about them.
    Unknown {
        /// The variables that are not known yet.
        needs: Vec<String>,
    },
    /// The executor did not ask the guardian.
    NotAsked {
        /// The reason.
        reason: String,
    },
    /// The step runs once for each item of a list that is known.
    Each {
        /// The previews, one for each item, in order.
        #[schema(no_recursion)]
        items: Vec<ItemPreview>,
    },
}

/// A guardian's preview decision about one iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ItemPreview {
    /// Path of the iteration, as in the events of a run: `notifyAll[3]/notify`.
    pub step: String,
    /// The preview decision.
    pub preview: StepPreview,
}

/// The list that a step of a plan runs over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedForEach {
    /// The list. References that are not known yet remain templates.
    pub items: Value,
    /// The variable that holds the item.
    pub name: String,
    /// The maximum number of items; the step fails for a longer list.
    pub max_items: usize,
    /// The number of iterations that run at the same time.
    pub max_concurrency: usize,
}

/// The kind and content of a planned step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PlannedStepKind {
    /// One request to a service.
    Task {
        /// `OpenAPI`, `GraphQL` or `MCP`.
        format: String,
        /// `GET`, `POST`, …
        method: String,
        /// The address, with placeholders in braces.
        url: String,
        /// The tool that the request calls, for an MCP server.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// The inputs by dotted path; references without a known value stay templates.
        #[schema(value_type = schema::Values)]
        inputs: Map<String, Value>,
    },
    /// Another capability.
    Capability {
        /// The capability that it runs.
        capability: CapabilityRef,
        /// Its inputs by name. References that are not known yet remain templates.
        #[serde(default)]
        #[schema(value_type = schema::Values)]
        inputs: Map<String, Value>,
        /// Its steps.
        #[schema(no_recursion)]
        steps: Vec<PlannedStep>,
    },
    /// Steps that run one after another.
    Sequence {
        /// The steps.
        #[schema(no_recursion)]
        steps: Vec<PlannedStep>,
    },
    /// Steps that run at the same time.
    Parallel {
        /// The steps.
        #[schema(no_recursion)]
        steps: Vec<PlannedStep>,
    },
    /// One of two branches.
    Condition {
        /// The condition, as written.
        condition: String,
        /// The branch for a true condition.
        #[schema(no_recursion)]
        if_true: Vec<PlannedStep>,
        /// The branch for a false condition.
        #[schema(no_recursion)]
        if_false: Vec<PlannedStep>,
    },
}

impl PlannedStepKind {
    /// A description of a task's request for a person: method, address, and the MCP tool if any. None for a
    /// step that sends nothing by itself.
    #[must_use]
    pub fn request_line(&self) -> Option<String> {
        let Self::Task { method, url, tool, .. } = self else { return None };
        Some(match tool {
            Some(tool) => format!("{method} {url} tool {tool}"),
            None => format!("{method} {url}"),
        })
    }

    /// Returns the sequences of steps directly below, in the order of the plan.
    #[must_use]
    pub fn children(&self) -> Vec<&[PlannedStep]> {
        match self {
            Self::Task { .. } => Vec::new(),
            Self::Capability { steps, .. }
            | Self::Sequence { steps }
            | Self::Parallel { steps } => vec![steps],
            Self::Condition { if_true, if_false, .. } => vec![if_true, if_false],
        }
    }

    /// Returns the sequences of steps directly below, in the order of the plan.
    pub fn children_mut(&mut self) -> Vec<&mut [PlannedStep]> {
        match self {
            Self::Task { .. } => Vec::new(),
            Self::Capability { steps, .. }
            | Self::Sequence { steps }
            | Self::Parallel { steps } => vec![steps],
            Self::Condition { if_true, if_false, .. } => vec![if_true, if_false],
        }
    }
}
