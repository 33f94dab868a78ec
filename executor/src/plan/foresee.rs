//! The task steps of a plan before there is a run: which of them have all their inputs already.

use std::collections::BTreeSet;
use std::sync::Arc;

use a2s::{Action, OnError, Reference, Step, Task, TaskInputs, Template};
use indexmap::IndexMap;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Filled, Plan, Unit, join};
use crate::error::Error;
use crate::scope::Scope;
use crate::secrets::Secrets;

/// A task step before there is a run.
#[derive(Debug)]
pub(crate) struct Foreseen<'p> {
    /// Its path, without iterations.
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
    /// Every task step in the order of the documents, whatever branches a run would take. Learns on
    /// the way what is secret.
    ///
    /// # Errors
    /// When there are more secrets than can be kept.
    pub(crate) fn foresee(
        &self,
        inputs: &Map<String, Value>,
        secrets: &Secrets,
    ) -> Result<Vec<Foreseen<'_>>, Error> {
        let mut found = Vec::new();
        foresee_unit(&self.root, "", inputs, BTreeSet::new(), secrets, &mut found)?;
        Ok(found)
    }
}

/// The steps of one capability. `unknown` are inputs that will be given, and are not known yet.
fn foresee_unit<'p>(
    unit: &'p Unit,
    path: &str,
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
    walk.steps(&capability.execution.children(), path)
}

struct Walk<'w, 'p> {
    unit: &'p Unit,
    scope: Scope<'p>,
    /// The variables whose values are not known yet, whatever the scope says.
    unknown: BTreeSet<&'p str>,
    secrets: &'w Secrets,
    found: &'w mut Vec<Foreseen<'p>>,
}

impl<'p> Walk<'_, 'p> {
    fn steps(&mut self, steps: &[&'p Step], around: &str) -> Result<(), Error> {
        steps.iter().try_for_each(|step| self.step(step, around))
    }

    fn step(&mut self, step: &'p Step, around: &str) -> Result<(), Error> {
        let path = join(around, step.id.as_str());
        let outside = self.unknown.clone();
        if let Some(for_each) = &step.control.for_each {
            self.unknown.insert(&for_each.name);
        }
        match &step.action {
            Action::Task { task, inputs, .. } => {
                let references = inputs.values().flat_map(Template::references);
                let needs = references.filter(|r| !self.knows(r)).map(|r| r.variable().to_owned());
                let needs = needs.collect();
                let (unit, scope) = (self.unit, self.scope.view());
                self.found.push(Foreseen { path: path.clone(), unit, task, needs, inputs, scope });
            }
            Action::Capability { capability, inputs, .. } => {
                if let Some(child) = self.unit.uses.get(capability) {
                    self.using(child, inputs, &path)?;
                }
            }
            Action::Block(block) => self.steps(&block.children(), &path)?,
        }
        if let OnError::Catch { name, steps } = &step.control.on_error {
            self.unknown.insert(name);
            self.steps(&steps.iter().collect::<Vec<_>>(), &path)?;
        }
        self.unknown = outside;
        Ok(())
    }

    fn using(
        &mut self,
        child: &'p Unit,
        mapped: &'p IndexMap<String, Template>,
        path: &str,
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
        foresee_unit(child, path, &given, unknown, self.secrets, self.found)
    }

    fn knows(&self, reference: &Reference) -> bool {
        let name = reference.variable();
        !self.unknown.contains(name) && self.scope.get(name).is_some()
    }
}
