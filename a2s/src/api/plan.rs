//! A run before it is one: what it would do, and the token that it can be started with then.

use std::collections::BTreeMap;

use super::schema;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{CapabilityRef, Decision, ErrorHandlerKind, GuardianInfo, RunNotice, StateScope};
use crate::checksum::Digest;
use crate::name::{CapabilityName, Permission};

/// Plan a run without running it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanRequest {
    /// Name of the capability.
    pub name: CapabilityName,
    /// Version or semver range; the newest stable one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::VersionSelector>)]
    pub version: Option<String>,
    /// The checksum that must be planned.
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
    /// Values known so far.
    #[serde(default)]
    #[schema(value_type = schema::Values)]
    pub inputs: Map<String, Value>,
    /// The session of the run, whose state may fill in what is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Ask the guardian about each task step whose inputs are known. It is told that this is a
    /// preview; nothing is sent to a service, and a run asks again.
    #[serde(default)]
    pub preview: bool,
}

impl PlanRequest {
    /// A plan of exactly this version, without inputs.
    #[must_use]
    pub fn of(pin: &CapabilityRef) -> Self {
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

/// What a run would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlanResponse {
    /// The capability.
    pub capability: CapabilityRef,
    /// The capabilities that it uses, directly or not.
    pub dependencies: Vec<CapabilityRef>,
    /// Which of these versions were yanked or are deprecated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<RunNotice>,
    /// Inputs without a value; a run needs them.
    pub missing: Vec<String>,
    /// Inputs whose values are remembered, and for how long.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub recalled: BTreeMap<String, StateScope>,
    /// The hosts that requests go to, and where connections are sent instead, if configured.
    pub hosts: BTreeMap<String, Option<String>>,
    /// The credentials that its requests go with, or lack: without those a run is refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<PlannedCredential>,
    /// Who guards its steps, in the order in which they are asked; nobody when it is empty.
    pub guardians: Vec<GuardianInfo>,
    /// The policy of each guardian that tells one, by whatever name it has for its content.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policies: BTreeMap<String, String>,
    /// What a caller must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<Permission>,
    /// The steps, in order.
    pub steps: Vec<PlannedStep>,
    /// What `POST /v1/executions` takes as `plan` to run exactly this, once. It comes together with
    /// `expires_at` and `digest`, or `no_token` says why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// When the token ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// What the plan was made of, as one digest (RFC 8785, SHA-256): the contents of all
    /// capabilities, inputs, what was remembered, upstreams, credentials without their values, and
    /// how steps are guarded. The run that the token starts has it in its first event. Secret
    /// inputs count as `(secret)`, so that nobody can guess them from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Why there is no token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_token_reason: Option<String>,
}

/// A credential that requests of a plan go with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedCredential {
    /// The host that it is sent to, with its port when that is not the usual one.
    pub host: String,
    /// The name of the security scheme in the document.
    pub scheme: String,
    /// `api_key`, `basic`, `bearer`, `oauth2`, `mutual_tls`, or `unsupported`: of what is there, or
    /// of what is wanted.
    pub kind: String,
    /// The steps that want it.
    pub steps: Vec<String>,
    /// Whether it is there.
    pub stored: bool,
    /// When it was stored; absent for a client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub set_at: Option<Timestamp>,
    /// What is to be done when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedStep {
    /// Path of the step: `checkWeather/getWeather`.
    pub step: String,
    /// What it is.
    #[serde(flatten)]
    pub kind: PlannedStepKind,
    /// Runs once for each item of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<PlannedForEach>,
    /// How many of the steps of a parallel step run at the same time, when the document says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<usize>,
    /// How often a request is sent at the most, when the document says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// How long it may take, in milliseconds, when the document says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What keeps a failure of it from ending the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<ErrorHandlerKind>,
    /// The steps of its `catch`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(no_recursion)]
    pub catch: Vec<Self>,
    /// What the guardian says of it; of task steps alone, when it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<StepPreview>,
}

/// What a guardian says of a step before there is a run. It permits nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StepPreview {
    /// It was asked, or could not be: the decision has `source: failed_closed` or `failed_open`
    /// then, as that of a run would.
    Decided {
        /// What was decided, by each guardian that was asked, in order. If one denied, it is the last.
        decisions: Vec<Decision>,
    },
    /// The inputs of the step are not known yet, so there is nothing to ask.
    Unknown {
        /// The variables that it waits for.
        needs: Vec<String>,
    },
    /// It was not asked.
    NotAsked {
        /// Why.
        reason: String,
    },
    /// The step runs once for each item of a list that is known.
    Each {
        /// One for each item, in order.
        #[schema(no_recursion)]
        items: Vec<ItemPreview>,
    },
}

/// What a guardian says of one iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ItemPreview {
    /// Path of the iteration as a run has it: `notifyAll[3]/notify`.
    pub step: String,
    /// What is said of it.
    pub preview: StepPreview,
}

/// The list that a step of a plan runs over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedForEach {
    /// The list; references that are not known yet stay templates.
    pub items: Value,
    /// The variable that holds the item.
    pub name: String,
    /// A longer list fails the step.
    pub max_items: usize,
    /// How many iterations run at the same time.
    pub max_concurrency: usize,
}

/// What a step of a plan does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PlannedStepKind {
    /// One request to a service.
    Task {
        /// `OpenAPI`, `GraphQL` or `MCP`.
        format: String,
        /// `GET`, `POST`, …
        method: String,
        /// The address, with places still to be filled in braces.
        url: String,
        /// The tool that is called there, when it is an MCP server.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// The inputs by dotted place; references that are not known yet stay templates.
        #[schema(value_type = schema::Values)]
        inputs: Map<String, Value>,
    },
    /// Another capability.
    Capability {
        /// Which one.
        capability: CapabilityRef,
        /// Its inputs by name; references that are not known yet stay templates.
        #[serde(default)]
        #[schema(value_type = schema::Values)]
        inputs: Map<String, Value>,
        /// Its steps.
        #[schema(no_recursion)]
        steps: Vec<PlannedStep>,
    },
    /// Steps one after another.
    Sequence {
        /// The steps.
        #[schema(no_recursion)]
        steps: Vec<PlannedStep>,
    },
    /// Steps at the same time.
    Parallel {
        /// The steps.
        #[schema(no_recursion)]
        steps: Vec<PlannedStep>,
    },
    /// One of two branches.
    Condition {
        /// The condition, as written.
        condition: String,
        /// The branch when it holds.
        #[schema(no_recursion)]
        if_true: Vec<PlannedStep>,
        /// The branch when it does not.
        #[schema(no_recursion)]
        if_false: Vec<PlannedStep>,
    },
}

impl PlannedStepKind {
    /// What a task sends, for a person: method, address, and the tool that is called there. None of
    /// what sends nothing by itself.
    #[must_use]
    pub fn request(&self) -> Option<String> {
        let Self::Task { method, url, tool, .. } = self else { return None };
        Some(match tool {
            Some(tool) => format!("{method} {url} tool {tool}"),
            None => format!("{method} {url}"),
        })
    }
}
