//! The task steps of a plan before there is a run: which of them have all their inputs already.

use std::collections::BTreeSet;
use std::sync::Arc;

use a2s::{Action, ForEach, OnError, Reference, Step, Task, TaskInputs, Template, Variables as _};
use indexmap::IndexMap;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Filled, Plan, Unit, join};
use crate::error::Error;
use crate::scope::Scope;
use crate::secrets::Secrets;

/// The most steps of which iterations are foreseen one by one.
const MAX_FORESEEN: usize = 1000;

/// A task step, or an iteration of one, before there is a run.
#[derive(Debug)]
pub(crate) struct Foreseen<'p> {
    /// Its path in the plan, which has no iterations.
    pub(crate) step: String,
    /// Its path in a run.
    pub(crate) path: String,
    /// The capability that it stands in.
    pub(crate) unit: &'p Unit,
    /// Its task.
    pub(crate) task: &'p Arc<Task>,
    /// The variables without a value that its inputs wait for.
    pub(crate) needs: BTreeSet<String>,
    inputs: &'p TaskInputs,
    scope: Scope<'p>,
}

impl Foreseen<'_> {
    /// Its inputs, when it needs nothing more.
    ///
    /// # Errors
    /// When a reference leads nowhere, or there would be more than `max_bytes`.
    pub(crate) fn fill(
        &self,
        execution_id: Uuid,
        secrets: &Secrets,
        max_bytes: usize,
    ) -> Result<Filled, Error> {
        self.unit.fill(self.task, self.inputs, execution_id, &self.scope, secrets, max_bytes)
    }
}

impl Plan {
    /// Every task step in the order of the documents, on all branches; once for each item where the list is
    /// known. Learns along the way which values are secret.
    ///
    /// # Errors
    /// When there are more secrets than can be kept.
    pub(crate) fn foresee(
        &self,
        inputs: &Map<String, Value>,
        secrets: &Secrets,
    ) -> Result<Vec<Foreseen<'_>>, Error> {
        let mut found = Vec::new();
        let root = Paths { plan: String::new(), run: String::new() };
        foresee_unit(&self.root, &root, inputs, BTreeSet::new(), secrets, &mut found)?;
        Ok(found)
    }
}

/// The steps of one capability. `unknown` are inputs that will be given, and are not known yet.
fn foresee_unit<'p>(
    unit: &'p Unit,
    paths: &Paths,
    given: &Map<String, Value>,
    unknown: BTreeSet<&'p str>,
    secrets: &Secrets,
    found: &mut Vec<Foreseen<'p>>,
) -> Result<(), Error> {
    let capability = unit.document.capability();
    let inputs = unit.complete(given);
    unit.sensitive.values(&inputs).into_iter().try_for_each(|value| secrets.learn(value))?;
    let mut unknown = unknown;
    // What a step sets is known when it has run, whatever stands there before.
    capability.for_each_step(|step| {
        unknown.extend(step.action.outputs().iter().map(|output| output.variable()));
    });
    let scope = Scope::enter(capability, &inputs);
    let mut walk = Walk { unit, scope, unknown, secrets, found };
    walk.steps(&capability.execution.children(), paths)
}

/// The path of a step in the plan, and in a run.
#[derive(Debug, Clone)]
struct Paths {
    plan: String,
    run: String,
}

impl Paths {
    fn join(&self, id: &str) -> Self {
        Self { plan: join(&self.plan, id), run: join(&self.run, id) }
    }

    fn item(&self, index: usize) -> Self {
        Self { plan: self.plan.clone(), run: format!("{}[{index}]", self.run) }
    }
}

struct Walk<'w, 'p> {
    unit: &'p Unit,
    scope: Scope<'p>,
    /// The variables with values that are not known yet, even if the scope has one.
    unknown: BTreeSet<&'p str>,
    secrets: &'w Secrets,
    found: &'w mut Vec<Foreseen<'p>>,
}

impl<'p> Walk<'_, 'p> {
    fn steps(&mut self, steps: &[&'p Step], around: &Paths) -> Result<(), Error> {
        steps.iter().try_for_each(|step| self.step(step, around))
    }

    fn step(&mut self, step: &'p Step, around: &Paths) -> Result<(), Error> {
        let paths = around.join(step.id.as_str());
        let Some(for_each) = &step.control.for_each else { return self.once(step, &paths) };
        let outside = self.unknown.clone();
        match self.items(for_each) {
            Some(items) => {
                self.unknown.remove(for_each.name.as_str());
                for (index, item) in items.into_iter().enumerate() {
                    let mut scope = self.scope.view();
                    scope.set_local(&for_each.name, item);
                    let scope = std::mem::replace(&mut self.scope, scope);
                    let walked = self.once(step, &paths.item(index));
                    self.scope = scope;
                    walked?;
                }
            }
            None => {
                self.unknown.insert(&for_each.name);
                self.once(step, &paths)?;
            }
        }
        self.unknown = outside;
        Ok(())
    }

    /// A step without iterations, or one iteration.
    fn once(&mut self, step: &'p Step, paths: &Paths) -> Result<(), Error> {
        match &step.action {
            Action::Task { task, inputs, .. } => {
                let references = inputs.values().flat_map(Template::references);
                let needs = references.filter(|r| !self.knows(r)).map(|r| r.variable().to_owned());
                let needs = needs.collect();
                let Paths { plan: step, run: path } = paths.clone();
                let (unit, scope) = (self.unit, self.scope.view());
                self.found.push(Foreseen { step, path, unit, task, needs, inputs, scope });
            }
            Action::Capability { capability, inputs, .. } => {
                if let Some(child) = self.unit.uses.get(capability) {
                    self.using(child, inputs, paths)?;
                }
            }
            Action::Block(block) => self.steps(&block.children(), paths)?,
        }
        if let OnError::Catch { name, steps } = &step.control.on_error {
            let is_new = self.unknown.insert(name);
            self.steps(&steps.iter().collect::<Vec<_>>(), paths)?;
            if is_new {
                self.unknown.remove(name.as_str());
            }
        }
        Ok(())
    }

    /// The list of a step, when it is known, is one, and is not too long to be gone through.
    fn items(&self, for_each: &ForEach) -> Option<Vec<Value>> {
        let most = for_each.max_items.min(MAX_FORESEEN.saturating_sub(self.found.len()));
        let known = for_each.items.references().into_iter().all(|reference| self.knows(reference));
        match self.scope.render(&for_each.items) {
            Ok(Some(Value::Array(items))) if known && items.len() <= most => Some(items),
            _ => None,
        }
    }

    fn using(
        &mut self,
        child: &'p Unit,
        mapped: &'p IndexMap<String, Template>,
        paths: &Paths,
    ) -> Result<(), Error> {
        let mut given = Map::new();
        let mut unknown = BTreeSet::new();
        for (name, template) in mapped {
            let known = template.references().into_iter().all(|reference| self.knows(reference));
            match self.scope.render(template) {
                Ok(value) if known => given.extend(value.map(|value| (name.clone(), value))),
                _ => drop(unknown.insert(name.as_str())),
            }
        }
        for (name, _) in Unit::unmapped(child, |name| mapped.contains_key(name)) {
            match self.scope.get(name) {
                Some(value) if !self.unknown.contains(name) => {
                    if !self.scope.is_absent(name) {
                        given.insert(name.to_owned(), value.clone());
                    }
                }
                _ => drop(unknown.insert(name)),
            }
        }
        foresee_unit(child, paths, &given, unknown, self.secrets, self.found)
    }

    fn knows(&self, reference: &Reference) -> bool {
        let name = reference.variable();
        !self.unknown.contains(name) && self.scope.get(name).is_some()
    }
}
