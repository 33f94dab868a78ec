//! The task steps of a plan before there is a run: which of them have all their inputs already.

use std::collections::BTreeSet;
use std::sync::Arc;

use a2s::{
    ForEach, OnError, Step, StepAction, StepBlock, Task, TaskInputs, Template, VariableReference,
    VariableSource as _,
};
use indexmap::IndexMap;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{BoundInputs, ExecutionPlan, PlanUnit, add_outputs, join_path};
use crate::error::Error;
use crate::scope::VariableScope;
use crate::secrets::RunSecrets;

/// The maximum number of steps in a preview that lists iterations one by one.
const MAX_PREVIEWED_STEPS: usize = 1000;

/// A task step, or an iteration of one, before there is a run.
#[derive(Debug)]
pub(crate) struct PreviewableStep<'p> {
    /// Its path in the plan, without iterations.
    pub(crate) step: String,
    /// Its path in a run.
    pub(crate) path: String,
    /// The capability that contains it.
    pub(crate) unit: &'p PlanUnit,
    /// Its task.
    pub(crate) task: &'p Arc<Task>,
    /// The variables without a value that its inputs wait for.
    pub(crate) needs: BTreeSet<String>,
    /// The templates of its inputs.
    pub(crate) inputs: &'p TaskInputs,
    scope: VariableScope<'p>,
}

impl PreviewableStep<'_> {
    /// Returns its inputs, when it needs nothing more.
    ///
    /// # Errors
    /// Fails when a reference cannot be resolved, or when there would be more than `max_bytes`.
    pub(crate) fn bind_inputs(
        &self,
        execution_id: Uuid,
        secrets: &RunSecrets,
        max_bytes: usize,
    ) -> Result<BoundInputs, Error> {
        self.unit.bind_inputs(self.task, self.inputs, execution_id, &self.scope, secrets, max_bytes)
    }
}

impl ExecutionPlan {
    /// Every task step in the order of the documents, on all branches; once for each item where the list is
    /// known. Learns along the way which values are secret.
    ///
    /// # Errors
    /// When there are more secrets than can be kept.
    pub(crate) fn list_previewable_steps(
        &self,
        inputs: &Map<String, Value>,
        secrets: &RunSecrets,
    ) -> Result<Vec<PreviewableStep<'_>>, Error> {
        let mut found = Vec::new();
        let root = StepPaths { plan: String::new(), run: String::new() };
        visit_unit(&self.root, &root, inputs, BTreeSet::new(), secrets, &mut found)?;
        Ok(found)
    }
}

/// Collects the steps of one capability. `unknown` contains the inputs that will be given, but are not
/// known yet.
fn visit_unit<'p>(
    unit: &'p PlanUnit,
    paths: &StepPaths,
    given: &Map<String, Value>,
    unknown: BTreeSet<&'p str>,
    secrets: &RunSecrets,
    found: &mut Vec<PreviewableStep<'p>>,
) -> Result<(), Error> {
    let capability = unit.document.capability();
    let inputs = unit.with_defaults(given);
    unit.sensitive.secret_values(&inputs).into_iter().try_for_each(|value| secrets.learn(value))?;
    let scope = VariableScope::from_capability(capability, &inputs);
    let mut walk = PreviewWalk { unit, scope, unknown, secrets, found };
    walk.visit_block(&capability.execution, paths)
}

/// The path of a step in the plan, and in a run.
#[derive(Debug, Clone)]
struct StepPaths {
    plan: String,
    run: String,
}

impl StepPaths {
    fn join(&self, id: &str) -> Self {
        Self { plan: join_path(&self.plan, id), run: join_path(&self.run, id) }
    }

    fn item(&self, index: usize) -> Self {
        Self { plan: self.plan.clone(), run: format!("{}[{index}]", self.run) }
    }
}

struct PreviewWalk<'w, 'p> {
    unit: &'p PlanUnit,
    scope: VariableScope<'p>,
    /// The variables with values that are not known yet, even if the scope has one.
    unknown: BTreeSet<&'p str>,
    secrets: &'w RunSecrets,
    found: &'w mut Vec<PreviewableStep<'p>>,
}

impl<'p> PreviewWalk<'_, 'p> {
    fn visit_block(&mut self, block: &'p StepBlock, around: &StepPaths) -> Result<(), Error> {
        match block {
            StepBlock::Sequence(steps) => self.visit_steps(steps, around),
            StepBlock::Parallel { steps, .. } => {
                steps.iter().try_for_each(|step| self.visit_step(step, around))
            }
            StepBlock::Condition { if_true, if_false, .. } => {
                self.visit_steps(if_true, around)?;
                self.visit_steps(if_false, around)
            }
        }
    }

    /// Collects steps that run one after another: an output of a step is unknown to those after it.
    fn visit_steps(&mut self, steps: &'p [Step], around: &StepPaths) -> Result<(), Error> {
        let outside = self.unknown.clone();
        for step in steps {
            self.visit_step(step, around)?;
            add_outputs(step, &mut self.unknown);
        }
        self.unknown = outside;
        Ok(())
    }

    fn visit_step(&mut self, step: &'p Step, around: &StepPaths) -> Result<(), Error> {
        let paths = around.join(step.id.as_str());
        let Some(for_each) = &step.control.for_each else { return self.visit_once(step, &paths) };
        let outside = self.unknown.clone();
        match self.known_items(for_each) {
            Some(items) => {
                self.unknown.remove(for_each.name.as_str());
                for (index, item) in items.into_iter().enumerate() {
                    let mut scope = self.scope.view();
                    scope.set_local(&for_each.name, item);
                    let scope = std::mem::replace(&mut self.scope, scope);
                    let walked = self.visit_once(step, &paths.item(index));
                    self.scope = scope;
                    walked?;
                }
            }
            None => {
                self.unknown.insert(&for_each.name);
                self.visit_once(step, &paths)?;
            }
        }
        self.unknown = outside;
        Ok(())
    }

    /// Collects a step without iterations, or one iteration.
    fn visit_once(&mut self, step: &'p Step, paths: &StepPaths) -> Result<(), Error> {
        match &step.action {
            StepAction::Task { task, inputs, .. } => {
                let references = inputs.values().flat_map(Template::references);
                let needs =
                    references.filter(|r| !self.is_known(r)).map(|r| r.variable().to_owned());
                let needs = needs.collect();
                let StepPaths { plan: step, run: path } = paths.clone();
                let (unit, scope) = (self.unit, self.scope.view());
                self.found.push(PreviewableStep { step, path, unit, task, needs, inputs, scope });
            }
            StepAction::Capability { capability, inputs, .. } => {
                if let Some(child) = self.unit.uses.get(capability) {
                    self.visit_capability(child, inputs, paths)?;
                }
            }
            StepAction::Block(block) => self.visit_block(block, paths)?,
        }
        if let OnError::Catch { name, steps } = &step.control.on_error {
            let outside = self.unknown.clone();
            self.unknown.insert(name);
            // A part of the failed step may have set its outputs.
            add_outputs(step, &mut self.unknown);
            self.visit_steps(steps, paths)?;
            self.unknown = outside;
        }
        Ok(())
    }

    /// Returns the list of a step, when it is known, is a list, and is not too long.
    fn known_items(&self, for_each: &ForEach) -> Option<Vec<Value>> {
        let most = for_each.max_items.min(MAX_PREVIEWED_STEPS.saturating_sub(self.found.len()));
        let known =
            for_each.items.references().into_iter().all(|reference| self.is_known(reference));
        match self.scope.render_optional(&for_each.items) {
            Ok(Some(Value::Array(items))) if known && items.len() <= most => Some(items),
            _ => None,
        }
    }

    fn visit_capability(
        &mut self,
        child: &'p PlanUnit,
        mapped: &'p IndexMap<String, Template>,
        paths: &StepPaths,
    ) -> Result<(), Error> {
        let mut given = Map::new();
        let mut unknown = BTreeSet::new();
        for (name, template) in mapped {
            let known = template.references().into_iter().all(|reference| self.is_known(reference));
            match self.scope.render_optional(template) {
                Ok(value) if known => given.extend(value.map(|value| (name.clone(), value))),
                _ => drop(unknown.insert(name.as_str())),
            }
        }
        for (name, _) in PlanUnit::unmapped_inputs(child, |name| mapped.contains_key(name)) {
            match self.scope.get(name) {
                Some(value) if !self.unknown.contains(name) => {
                    if !self.scope.is_absent(name) {
                        given.insert(name.to_owned(), value.clone());
                    }
                }
                _ => drop(unknown.insert(name)),
            }
        }
        visit_unit(child, paths, &given, unknown, self.secrets, self.found)
    }

    fn is_known(&self, reference: &VariableReference) -> bool {
        let name = reference.variable();
        !self.unknown.contains(name) && self.scope.get(name).is_some()
    }
}
