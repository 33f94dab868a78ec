//! From verified documents to what a run will do. Pure: the same documents and inputs always give
//! the same plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use a2s::api::{Guarding, Pin, PlanAnswer, PlannedStep, PlannedStepKind};
use a2s::{Action, Block, CapabilityName, Digest, Document, Step};
use serde_json::{Map, Value};
use url::Url;

use crate::error::{Error, Kind};
use crate::request;
use crate::source::Library;

/// The longest chain of capabilities that use one another; publishing holds to the same.
const MAX_CHAIN: usize = 8;

/// A capability with all that it uses, ready to be walked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// The capability that runs.
    pub(crate) root: Arc<Unit>,
    /// All capabilities that it uses, directly or not, in order of name and version.
    pub(crate) dependencies: Vec<Pin>,
}

/// A capability in a plan.
#[derive(Debug, PartialEq)]
pub(crate) struct Unit {
    /// The document.
    pub(crate) document: Arc<Document>,
    /// Which one it is.
    pub(crate) pin: Pin,
    /// The capabilities that its steps use.
    pub(crate) uses: BTreeMap<CapabilityName, Arc<Self>>,
    /// What it takes, and whether it needs it: its own inputs, and the needs of what it uses as far
    /// as its steps neither map nor set them.
    pub(crate) inputs: BTreeMap<String, bool>,
    /// Task and capability steps, those of what it uses included, as often as they are used.
    steps: usize,
}

impl Plan {
    /// The plan of the library's root.
    ///
    /// # Errors
    /// When a dependency does not fit, or there are more than `max_steps` steps.
    pub(crate) fn new(library: &Library, max_steps: usize) -> Result<Self, Error> {
        let mut builder = Builder { library, made: BTreeMap::new(), chain: Vec::new() };
        let root = builder.build(library.root)?;
        if root.steps > max_steps {
            return Err(Error::new(
                Kind::BudgetExceeded,
                format!("`{}` has more than {max_steps} steps", root.pin.name),
            ));
        }
        let mut dependencies: Vec<Pin> = builder
            .made
            .values()
            .filter(|unit| unit.pin.checksum != root.pin.checksum)
            .map(|unit| unit.pin.clone())
            .collect();
        dependencies.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        Ok(Self { root, dependencies })
    }

    /// Inputs that are needed and not given.
    pub(crate) fn missing(&self, inputs: &Map<String, Value>) -> Vec<String> {
        self.root.missing(inputs)
    }

    /// Refuses inputs that are not taken, and the lack of those that are needed.
    pub(crate) fn check_inputs(&self, inputs: &Map<String, Value>) -> Result<(), Error> {
        self.check_known(inputs)?;
        let missing = self.missing(inputs);
        if missing.is_empty() {
            return Ok(());
        }
        let name = &self.root.pin.name;
        let flags: Vec<_> = missing.iter().map(|input| format!("--input {input}=…")).collect();
        Err(Error::new(Kind::MissingInput, format!("`{name}` needs {}", listed(&missing)))
            .hint(format!("Give a value for each: {}.", flags.join(" "))))
    }

    /// Refuses inputs that are not taken.
    pub(crate) fn check_known(&self, inputs: &Map<String, Value>) -> Result<(), Error> {
        let unknown: Vec<_> =
            inputs.keys().filter(|name| !self.root.inputs.contains_key(*name)).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let name = &self.root.pin.name;
        let taken: Vec<_> = self.root.inputs.keys().collect();
        let takes = if taken.is_empty() { "no inputs".to_owned() } else { listed(&taken) };
        Err(Error::new(
            Kind::UnknownInput,
            format!("`{name}` does not take {}; it takes {takes}", listed(&unknown)),
        ))
    }

    /// The addresses that tasks of the plan go to, one for each host.
    pub(crate) fn hosts(&self) -> BTreeMap<String, Url> {
        let mut hosts = BTreeMap::new();
        let mut waiting = vec![&self.root];
        let mut seen = BTreeSet::new();
        while let Some(unit) = waiting.pop() {
            if !seen.insert(unit.pin.checksum) {
                continue;
            }
            unit.document.capability().for_each_step(|step| {
                if let Action::Task { task, .. } = &step.action {
                    hosts.entry(host_of(task.url())).or_insert_with(|| task.url().clone());
                }
            });
            waiting.extend(unit.uses.values());
        }
        hosts
    }

    /// The plan as an answer. Inputs that are known are filled in; what is not known yet stays a
    /// template. `upstream_of` tells where connections for an address are sent instead.
    pub(crate) fn render(
        &self,
        inputs: &Map<String, Value>,
        guarding: Guarding,
        upstream_of: impl Fn(&Url) -> Option<String>,
    ) -> PlanAnswer {
        PlanAnswer {
            capability: self.root.pin.clone(),
            dependencies: self.dependencies.clone(),
            missing: self.missing(inputs),
            hosts: self.hosts().into_iter().map(|(host, url)| (host, upstream_of(&url))).collect(),
            guarding,
            steps: self.root.render("", inputs),
        }
    }
}

impl Unit {
    /// Inputs that are needed and not given.
    pub(crate) fn missing(&self, inputs: &Map<String, Value>) -> Vec<String> {
        let needed = self.inputs.iter().filter(|(_, required)| **required).map(|(name, _)| name);
        needed.filter(|name| !inputs.contains_key(*name)).cloned().collect()
    }

    /// Needs of `child` that the step does not map: they are read from the variables of this
    /// capability by the same name.
    pub(crate) fn unmapped<'c>(
        child: &'c Self,
        mapped: impl Fn(&str) -> bool + 'c,
    ) -> impl Iterator<Item = &'c str> {
        let needed = child.inputs.iter().filter(|(_, required)| **required);
        needed.map(|(name, _)| name.as_str()).filter(move |name| !mapped(name))
    }

    fn render(&self, path: &str, inputs: &Map<String, Value>) -> Vec<PlannedStep> {
        // The value of a variable that steps set depends on when it is read: it counts as unknown.
        let mut known = inputs.clone();
        self.document.capability().for_each_step(|step| {
            for output in step.action.outputs() {
                known.shift_remove(output.variable());
            }
        });
        match &self.document.capability().execution {
            Block::Sequence(steps) => self.render_steps(steps, path, &known),
            block @ (Block::Parallel { .. } | Block::Condition { .. }) => {
                let kind = self.render_block(block, path, &known);
                vec![PlannedStep { step: path.to_owned(), kind }]
            }
        }
    }

    fn render_steps(
        &self,
        steps: &[Step],
        path: &str,
        known: &Map<String, Value>,
    ) -> Vec<PlannedStep> {
        let render = |step: &Step| {
            let path = join(path, step.id.as_str());
            let kind = self.render_step(step, &path, known);
            PlannedStep { step: path, kind }
        };
        steps.iter().map(render).collect()
    }

    fn render_step(&self, step: &Step, path: &str, known: &Map<String, Value>) -> PlannedStepKind {
        match &step.action {
            Action::Task { task, inputs, .. } => {
                let (method, url) = request::address(task);
                let inputs = inputs
                    .iter()
                    .map(|(place, template)| (place.to_string(), template.preview(known)))
                    .collect();
                let format = task.format().to_owned();
                PlannedStepKind::Task { format, method: method.to_owned(), url, inputs }
            }
            Action::Capability { capability, inputs, .. } => {
                let mut shown = Map::new();
                let mut given = Map::new();
                for (name, template) in inputs {
                    shown.insert(name.clone(), template.preview(known));
                    if let Ok(value) = template.render(known) {
                        given.insert(name.clone(), value);
                    }
                }
                let Some(child) = self.uses.get(capability) else {
                    // `Builder` has seen to it that every capability step has a unit.
                    return PlannedStepKind::Sequence { steps: Vec::new() };
                };
                for name in Self::unmapped(child, |name| inputs.contains_key(name)) {
                    let value = known.get(name);
                    given.extend(value.map(|value| (name.to_owned(), value.clone())));
                    let reference = || Value::String(format!("${{{name}}}"));
                    shown.insert(name.to_owned(), value.cloned().unwrap_or_else(reference));
                }
                PlannedStepKind::Capability {
                    capability: child.pin.clone(),
                    inputs: shown,
                    steps: child.render(path, &given),
                }
            }
            Action::Block(block) => self.render_block(block, path, known),
        }
    }

    fn render_block(
        &self,
        block: &Block,
        path: &str,
        known: &Map<String, Value>,
    ) -> PlannedStepKind {
        let steps = |steps: &[Step]| self.render_steps(steps, path, known);
        match block {
            Block::Sequence(children) => PlannedStepKind::Sequence { steps: steps(children) },
            Block::Parallel { steps: children, .. } => {
                PlannedStepKind::Parallel { steps: steps(children) }
            }
            Block::Condition { condition, if_true, if_false } => PlannedStepKind::Condition {
                condition: condition.source().to_owned(),
                if_true: steps(if_true),
                if_false: steps(if_false),
            },
        }
    }
}

/// The path of a step: the ids of the steps around it and its own.
pub(crate) fn join(path: &str, id: &str) -> String {
    if path.is_empty() { id.to_owned() } else { format!("{path}/{id}") }
}

struct Builder<'l> {
    library: &'l Library,
    made: BTreeMap<Digest, Arc<Unit>>,
    /// The capabilities that are being made, outermost first.
    chain: Vec<CapabilityName>,
}

impl Builder<'_> {
    fn build(&mut self, digest: Digest) -> Result<Arc<Unit>, Error> {
        if let Some(unit) = self.made.get(&digest) {
            return Ok(Arc::clone(unit));
        }
        let refused = |message| Err(Error::new(Kind::DependencyRefused, message));
        let Some(document) = self.library.documents.get(&digest) else {
            return refused(format!("the document {digest} was not fetched"));
        };
        let capability = document.capability();
        let name = &capability.name;
        if self.chain.contains(name) {
            return refused(format!("`{name}` uses itself by way of {}", listed(&self.chain)));
        }
        if self.chain.len() > MAX_CHAIN {
            return refused(format!(
                "more than {MAX_CHAIN} capabilities use one another in a chain"
            ));
        }
        self.chain.push(name.clone());
        let mut uses = BTreeMap::new();
        for dependency in &capability.dependencies {
            let choices = self.library.choices.0.get(&digest);
            let Some(chosen) = choices.and_then(|choices| choices.get(&dependency.capability))
            else {
                return refused(format!(
                    "`{name}` uses `{}`, which was not found",
                    dependency.capability
                ));
            };
            let child = self.build(*chosen)?;
            check_fit(document, dependency, &child)?;
            uses.insert(dependency.capability.clone(), child);
        }
        self.chain.pop();

        let mut unit = Unit {
            document: Arc::clone(document),
            pin: Pin { name: name.clone(), version: capability.version.clone(), checksum: digest },
            inputs: BTreeMap::new(),
            uses,
            steps: 0,
        };
        take_stock(&mut unit)?;
        let unit = Arc::new(unit);
        self.made.insert(digest, Arc::clone(&unit));
        Ok(unit)
    }
}

/// Whether a dependency may be used by `document`: publishing checks the same, but a registry is
/// not trusted with it.
fn check_fit(document: &Document, dependency: &a2s::Dependency, child: &Unit) -> Result<(), Error> {
    let capability = document.capability();
    let Pin { name, version, checksum } = &child.pin;
    let refused = |why: String| {
        let message = format!("`{}` uses `{name}` {version}, {why}", capability.name);
        Err(Error::new(Kind::DependencyRefused, message))
    };
    if *name != dependency.capability {
        return refused(format!("where it means `{}`", dependency.capability));
    }
    if !dependency.range.matches(version) {
        return refused(format!("which lies outside `{}`", dependency.range));
    }
    if dependency.checksum.is_some_and(|pin| pin != *checksum) {
        return refused("which does not have the pinned checksum".to_owned());
    }
    let mut domains = child.document.capability().domains.iter();
    match domains.find(|domain| !capability.domains.contains(domain)) {
        Some(foreign) => {
            refused(format!("which talks to `{foreign}`, a host outside its `domains`"))
        }
        None => Ok(()),
    }
}

/// Counts the steps of a unit and gathers its inputs.
fn take_stock(unit: &mut Unit) -> Result<(), Error> {
    let document = Arc::clone(&unit.document);
    let capability = document.capability();
    let own = document.interface().inputs.into_iter().map(|field| (field.name, field.required));
    unit.inputs.extend(own);
    let mut set = BTreeSet::new();
    let mut steps = Vec::new();
    capability.for_each_step(|step| {
        set.extend(step.action.outputs().iter().map(|output| output.variable()));
        steps.push(step);
    });
    for step in steps {
        match &step.action {
            Action::Block(_) => {}
            Action::Task { .. } => unit.steps = unit.steps.saturating_add(1),
            Action::Capability { capability: name, inputs, .. } => {
                let refused = |why: String| {
                    let place = format!("step `{}` of `{}`", step.id.as_str(), capability.name);
                    Err(Error::new(Kind::DependencyRefused, format!("{place} {why}")))
                };
                let Some(child) = unit.uses.get(name) else {
                    return refused(format!("uses `{name}`, which is not declared"));
                };
                unit.steps = unit.steps.saturating_add(1).saturating_add(child.steps);
                if let Some(unknown) = inputs.keys().find(|key| !child.inputs.contains_key(*key)) {
                    return refused(format!("maps `{unknown}`, which `{name}` does not take"));
                }
                for needed in Unit::unmapped(child, |key| inputs.contains_key(key)) {
                    if !set.contains(needed) {
                        unit.inputs.insert(needed.to_owned(), true);
                    }
                }
            }
        }
    }
    Ok(())
}

/// The host of an address, with its port when it is not that of the scheme.
fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

fn listed(names: &[impl std::fmt::Display]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
