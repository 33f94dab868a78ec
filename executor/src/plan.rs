//! Turns verified documents into a plan for a run. Pure: the same documents and inputs always give the same
//! plan.

mod bind_inputs;
mod credentials;
mod plan_analysis;
mod plan_view;
mod preview_steps;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use a2s::{
    CapabilityName, CapabilityStep, Digest, Document, InputField, Parameter, Step, StepPath,
    StepPathSegment, TaskStep,
};
use a2s_api::{CapabilityRef, GuardianInfo, PlanResponse, StateScope};
use serde_json::{Map, Value};
use url::Url;

use crate::error::{Error, ErrorDetails, ErrorKind};
use crate::registry_client::RunDocuments;
use crate::secrets::RunSecrets;
pub(crate) use bind_inputs::BoundInputs;
pub(crate) use credentials::PlanCredentials;
use plan_analysis::{SecretVariables, analyze_unit};
pub(crate) use preview_steps::PreviewableStep;

/// The maximum length of a chain of capabilities that use one another; publishing has the same limit.
const MAX_DEPENDENCY_DEPTH: usize = 8;

/// A capability with all capabilities that it uses, ready to run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExecutionPlan {
    /// The capability that runs.
    pub(crate) root: Arc<PlanUnit>,
    /// All capabilities that it uses, directly or not, in order of name and version.
    pub(crate) dependencies: Vec<CapabilityRef>,
}

/// A capability in a plan.
#[derive(Debug, PartialEq)]
pub(crate) struct PlanUnit {
    /// The document.
    pub(crate) document: Arc<Document>,
    /// The name, version and checksum of the capability.
    pub(crate) pin: CapabilityRef,
    /// The capabilities that its steps use.
    pub(crate) uses: BTreeMap<CapabilityName, Arc<Self>>,
    /// The inputs: its own, and the needs of the capabilities that it uses, unless its steps map or set
    /// them.
    pub(crate) inputs: BTreeMap<String, PlanInput>,
    /// The variables with secret values.
    pub(crate) sensitive: SecretVariables,
    /// The number of task and capability steps, including those of used capabilities, once for each use.
    steps: usize,
}

/// An input of a capability.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PlanInput {
    /// Set when a run needs it.
    pub(crate) required: bool,
    /// Set when its value is secret.
    pub(crate) secret: bool,
    /// The parameters that it sets, here and in used capabilities: each has its own type.
    parameters: Vec<Parameter>,
}

impl ExecutionPlan {
    /// Creates the plan of the library's root.
    ///
    /// # Errors
    /// Fails when a dependency does not fit, or when there are more than `max_steps` steps.
    pub(crate) fn new(library: &RunDocuments, max_steps: usize) -> Result<Self, Error> {
        let mut builder = PlanBuilder { library, made: BTreeMap::new(), chain: Vec::new() };
        let root = builder.build(library.root)?;
        if root.steps > max_steps {
            return Err(Error::new(
                ErrorKind::BudgetExceeded,
                format!("`{}` has more than {max_steps} steps", root.pin.name),
            ));
        }
        let mut dependencies: Vec<CapabilityRef> = builder
            .made
            .values()
            .filter(|unit| unit.pin.checksum != root.pin.checksum)
            .map(|unit| unit.pin.clone())
            .collect();
        dependencies.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        Ok(Self { root, dependencies })
    }

    /// Returns the required inputs that are not given.
    pub(crate) fn missing_inputs(&self, inputs: &Map<String, Value>) -> Vec<String> {
        self.root.missing_inputs(inputs)
    }

    /// Refuses unknown inputs, values that do not fit, and missing required inputs.
    pub(crate) fn check_inputs(&self, inputs: &Map<String, Value>) -> Result<(), Error> {
        self.check_given(inputs)?;
        let missing = self.missing_inputs(inputs);
        if missing.is_empty() {
            return Ok(());
        }
        let name = &self.root.pin.name;
        let flags: Vec<_> = missing.iter().map(|input| format!("--input {input}=…")).collect();
        let error = Error::new(
            ErrorKind::MissingInput,
            format!("`{name}` requires {}", join_names(&missing)),
        )
        .with_hint(format!(
            "Give a value for each input: {}; or store it with `a2s state set`.",
            flags.join(" ")
        ));
        let fields = &self.root.document.interface().inputs;
        let missing = missing.iter().map(|name| InputField::find(fields, name)).collect();
        Err(error.with_details(ErrorDetails::MissingInputs(missing)))
    }

    /// Refuses unknown inputs, and values that do not fit.
    pub(crate) fn check_given(&self, inputs: &Map<String, Value>) -> Result<(), Error> {
        let unknown: Vec<_> =
            inputs.keys().filter(|name| !self.root.inputs.contains_key(*name)).collect();
        if unknown.is_empty() {
            return self.root.check_types(inputs);
        }
        let name = &self.root.pin.name;
        let taken: Vec<_> = self.root.inputs.keys().collect();
        let takes = if taken.is_empty() { "no inputs".to_owned() } else { join_names(&taken) };
        let message =
            format!("`{name}` does not accept {}; it accepts {takes}", join_names(&unknown));
        let error = Error::new(ErrorKind::UnknownInput, message);
        let close = unknown
            .first()
            .and_then(|unknown| a2s::did_you_mean(unknown, taken.iter().map(|name| name.as_str())));
        Err(match close {
            Some(close) => error.with_hint(format!("Did you mean `{close}`?")),
            None => error,
        })
    }

    /// Returns the step at a path, which may be the path of an iteration, and the capability that contains
    /// it.
    pub(crate) fn find_step(&self, path: &str) -> Option<(&PlanUnit, &Step)> {
        let mut places = vec![self.root.top_steps()];
        let mut segments = path.split('/').peekable();
        loop {
            let id = segments.next()?.split('[').next()?;
            let (unit, step) = places.iter().find_map(|(unit, steps)| {
                Some((*unit, *steps.iter().find(|step| step.id.as_str() == id)?))
            })?;
            if segments.peek().is_none() {
                return Some((unit, step));
            }
            places = unit.steps_below(step);
        }
    }

    /// Returns the full path to a task step, in the form of a run, with the blocks that `way` leaves out.
    /// Returns `None` when the path does not lead to a task step, or names an iteration of a step without
    /// iterations.
    pub(crate) fn full_path(&self, way: &StepPath) -> Option<Vec<StepPathSegment>> {
        let mut places = vec![self.root.top_steps()];
        let mut whole = Vec::new();
        let mut found = None;
        for piece in way.segments() {
            let (unit, around) = places
                .iter()
                .find_map(|(unit, steps)| Some((*unit, Step::path_to(steps, &piece.id)?)))?;
            let (step, blocks) = around.split_last()?;
            if piece.iteration.is_some() && step.control.for_each.is_none() {
                return None;
            }
            let blocks =
                blocks.iter().map(|step| StepPathSegment { id: step.id.clone(), iteration: None });
            whole.extend(blocks);
            whole.push(piece.clone());
            places = unit.steps_below(step);
            found = Some(*step);
        }
        found.is_some_and(|step| step.action.as_task().is_some()).then_some(whole)
    }

    /// Returns the addresses of the tasks of the plan, one for each host.
    pub(crate) fn hosts(&self) -> BTreeMap<String, Url> {
        let mut hosts = BTreeMap::new();
        for unit in self.units() {
            unit.document.capability().for_each_task(|_, TaskStep { task, .. }| {
                hosts.entry(host_of(task.url())).or_insert_with(|| task.url().clone());
            });
        }
        hosts
    }

    /// The plan as a response, without a token. Known inputs are filled in, except secret ones; unknown
    /// values stay templates. `upstream_of` returns the replacement address for connections.
    ///
    /// # Errors
    /// When there are more secrets than can be kept.
    pub(crate) fn to_response(
        &self,
        inputs: &Map<String, Value>,
        recalled: BTreeMap<String, StateScope>,
        guardians: Vec<GuardianInfo>,
        credentials: &PlanCredentials,
        upstream_of: impl Fn(&Url) -> Option<String>,
    ) -> Result<PlanResponse, Error> {
        let inputs = self.root.with_defaults(inputs);
        let shown = self.root.masked_inputs(&inputs, &RunSecrets::default())?;
        Ok(PlanResponse {
            capability: self.root.pin.clone(),
            dependencies: self.dependencies.clone(),
            notices: Vec::new(),
            missing: self.missing_inputs(&inputs),
            recalled,
            hosts: self.hosts().into_iter().map(|(host, url)| (host, upstream_of(&url))).collect(),
            credentials: credentials.list(),
            guardians,
            permissions: self.root.document.capability().permissions.clone(),
            steps: self.root.to_planned_steps(
                "",
                &shown,
                &[],
                &Cell::new(plan_view::MAX_FILLED_BYTES),
            ),
            policies: BTreeMap::new(),
            token: None,
            expires_at: None,
            digest: None,
            no_token_reason: None,
        })
    }

    /// Returns every capability of the plan, once.
    fn units(&self) -> Vec<&PlanUnit> {
        let mut waiting = vec![&self.root];
        let mut seen = BTreeSet::new();
        let mut units = Vec::new();
        while let Some(unit) = waiting.pop() {
            if seen.insert(unit.pin.checksum) {
                units.push(&**unit);
                waiting.extend(unit.uses.values());
            }
        }
        units
    }
}

impl PlanUnit {
    /// Returns the required inputs that are not given.
    pub(crate) fn missing_inputs(&self, inputs: &Map<String, Value>) -> Vec<String> {
        let needed = self.inputs.iter().filter(|(_, input)| input.required).map(|(name, _)| name);
        needed.filter(|name| !inputs.contains_key(*name)).cloned().collect()
    }

    /// Refuses values that do not fit their parameters.
    pub(crate) fn check_types(&self, inputs: &Map<String, Value>) -> Result<(), Error> {
        let refused = inputs
            .iter()
            .filter_map(|(name, value)| self.inputs.get(name)?.describe_mismatch(value));
        let refused: Vec<String> = refused.collect();
        if refused.is_empty() {
            return Ok(());
        }
        let message = format!("`{}`: {}", self.pin.name, refused.join("; "));
        Err(Error::new(ErrorKind::WrongInput, message))
    }

    /// Returns its steps at the top level.
    fn top_steps(&self) -> (&Self, Vec<&Step>) {
        (self, self.document.capability().execution.children())
    }

    /// The steps directly below one of its own steps, with the unit that they belong to: those of a block
    /// or a `catch`, and those of the capability that it uses.
    fn steps_below<'u>(&'u self, step: &'u Step) -> Vec<(&'u Self, Vec<&'u Step>)> {
        let mut places = vec![(self, step.children())];
        if let Some(CapabilityStep { capability, .. }) = step.action.as_capability() {
            places.extend(self.uses.get(capability).map(|unit| unit.top_steps()));
        }
        places
    }

    /// Returns the inputs with the defaults of those that are not given.
    pub(crate) fn with_defaults(&self, inputs: &Map<String, Value>) -> Map<String, Value> {
        let mut complete = inputs.clone();
        for parameter in &self.document.capability().parameters {
            if let Some(default) = &parameter.default
                && !complete.contains_key(&parameter.name)
            {
                complete.insert(parameter.name.clone(), default.clone());
            }
        }
        complete
    }

    /// Inputs without secret values. Also adds their secret values to `secrets`.
    ///
    /// # Errors
    /// When there are more secrets than can be kept.
    pub(crate) fn masked_inputs(
        &self,
        inputs: &Map<String, Value>,
        secrets: &RunSecrets,
    ) -> Result<Map<String, Value>, Error> {
        self.sensitive
            .secret_values(inputs)
            .into_iter()
            .try_for_each(|value| secrets.learn(value))?;
        let shown = inputs.iter().map(|(name, value)| {
            let is_secret = self.inputs.get(name).is_some_and(|input| input.secret);
            let value =
                if is_secret { crate::secrets::secret_placeholder() } else { secrets.mask(value) };
            (name.clone(), value)
        });
        Ok(shown.collect())
    }

    /// Returns the required inputs of `child` that the step does not map. They are read from the variables
    /// of this capability with the same name.
    pub(crate) fn unmapped_inputs<'c>(
        child: &'c Self,
        mapped: impl Fn(&str) -> bool + 'c,
    ) -> impl Iterator<Item = (&'c str, &'c PlanInput)> {
        let needed = child.inputs.iter().filter(|(_, input)| input.required);
        needed.map(|(name, input)| (name.as_str(), input)).filter(move |(name, _)| !mapped(name))
    }
}

impl PlanInput {
    /// The reason for which a value does not fit, without the value.
    fn describe_mismatch(&self, value: &Value) -> Option<String> {
        self.parameters.iter().find_map(|parameter| {
            let reason = parameter.find_violation(value)?;
            if !self.secret {
                return Some(reason);
            }
            let takes = parameter.kind.map_or_else(String::new, |kind| {
                format!("; it requires a value of the type `{}`", kind.as_str())
            });
            Some(format!("the value of `{}` is not valid{takes}", parameter.name))
        })
    }

    /// The text of a remembered integer or boolean, if the input accepts only that.
    ///
    /// `a2s state set id=42` stores a number, because no document states the type of `id` at that time. A
    /// fraction has lost its spelling (1.10 is 1.1), so it has no text.
    pub(crate) fn text_of(&self, value: &Value) -> Option<Value> {
        let has_text = value.is_boolean() || value.is_i64() || value.is_u64();
        let text = Value::String(value.to_string());
        let accepts = |value| self.describe_mismatch(value).is_none();
        (has_text && !accepts(value) && accepts(&text)).then_some(text)
    }
}

/// Adds the variables that a step, and the steps below it, may set.
fn add_outputs<'s>(step: &'s Step, variables: &mut BTreeSet<&'s str>) {
    variables.extend(step.action.outputs().iter().map(|output| output.variable()));
    step.children().into_iter().for_each(|child| add_outputs(child, variables));
}

/// Returns the path of a step: the ids of the enclosing steps and its own.
pub(crate) fn join_path(path: &str, id: &str) -> String {
    if path.is_empty() { id.to_owned() } else { format!("{path}/{id}") }
}

struct PlanBuilder<'l> {
    library: &'l RunDocuments,
    made: BTreeMap<Digest, Arc<PlanUnit>>,
    /// The capabilities that are being built, outermost first.
    chain: Vec<CapabilityName>,
}

impl PlanBuilder<'_> {
    fn build(&mut self, digest: Digest) -> Result<Arc<PlanUnit>, Error> {
        if let Some(unit) = self.made.get(&digest) {
            return Ok(Arc::clone(unit));
        }
        let refused = |message| Err(Error::new(ErrorKind::DependencyRefused, message));
        let Some(document) = self.library.documents.get(&digest) else {
            return refused(format!("the document {digest} was not fetched"));
        };
        let capability = document.capability();
        let name = &capability.name;
        if self.chain.contains(name) {
            return refused(format!("`{name}` uses itself through {}", join_names(&self.chain)));
        }
        if self.chain.len() > MAX_DEPENDENCY_DEPTH {
            return refused(format!(
                "the chain of dependencies has more than {MAX_DEPENDENCY_DEPTH} capabilities"
            ));
        }
        self.chain.push(name.clone());
        let mut uses = BTreeMap::new();
        for dependency in &capability.dependencies {
            let choices = self.library.resolved.0.get(&digest);
            let Some(chosen) = choices.and_then(|choices| choices.get(&dependency.capability))
            else {
                return refused(format!(
                    "`{name}` uses `{}`, which was not found",
                    dependency.capability
                ));
            };
            let child = self.build(*chosen)?;
            check_compatibility(document, dependency, &child)?;
            uses.insert(dependency.capability.clone(), child);
        }
        self.chain.pop();

        let mut unit = PlanUnit {
            document: Arc::clone(document),
            pin: CapabilityRef {
                name: name.clone(),
                version: capability.version.clone(),
                checksum: digest,
            },
            inputs: BTreeMap::new(),
            sensitive: SecretVariables::default(),
            uses,
            steps: 0,
        };
        analyze_unit(&mut unit)?;
        let unit = Arc::new(unit);
        self.made.insert(digest, Arc::clone(&unit));
        Ok(unit)
    }
}

/// Checks that `document` may use a dependency: publishing checks the same, but the executor does not trust
/// a registry with it.
fn check_compatibility(
    document: &Document,
    dependency: &a2s::Dependency,
    child: &PlanUnit,
) -> Result<(), Error> {
    let capability = document.capability();
    let CapabilityRef { name, version, checksum } = &child.pin;
    let refused = |why: String| {
        let message = format!("`{}` uses `{name}` {version}, {why}", capability.name);
        Err(Error::new(ErrorKind::DependencyRefused, message))
    };
    if *name != dependency.capability {
        return refused(format!("but it declares `{}`", dependency.capability));
    }
    if !dependency.range.matches(version) {
        return refused(format!("which is outside `{}`", dependency.range));
    }
    if dependency.checksum.is_some_and(|pin| pin != *checksum) {
        return refused("which does not have the pinned checksum".to_owned());
    }
    let used = child.document.capability();
    if let Some(foreign) = used.domains.iter().find(|domain| !capability.domains.contains(domain)) {
        return refused(format!(
            "which sends requests to `{foreign}`, a host outside its `domains`"
        ));
    }
    let mut permissions = used.permissions.iter();
    match permissions.find(|permission| !capability.permissions.contains(permission)) {
        Some(more) => {
            refused(format!("which requires `{more}`, but its `permissions` do not list it"))
        }
        None => Ok(()),
    }
}

/// Returns the host of an address, with its port when it is not that of the scheme.
fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

fn join_names(names: &[impl std::fmt::Display]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
