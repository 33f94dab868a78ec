//! The analysis of a capability: its inputs, the number of its steps, its secret variables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use a2s::{CapabilityName, ForEach, OnError, Step, StepAction, Template, VariableReference};
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::{PlanInput, PlanUnit};
use crate::error::{Error, ErrorKind};
use crate::scope::VariableScope;
use crate::secrets::is_maskable;

/// The variables with secret values: parameters that are declared secret, and all values for a secret
/// parameter of another capability.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SecretVariables {
    /// The variables that are secret as a whole.
    names: BTreeSet<String>,
    /// The parts of variables that are secret.
    parts: BTreeSet<VariableReference>,
}

impl SecretVariables {
    /// Returns true when nothing is secret.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.parts.is_empty()
    }

    /// Returns true when a variable is secret, as a whole or in a part.
    pub(crate) fn contains(&self, variable: &str) -> bool {
        self.names.contains(variable) || self.parts.iter().any(|part| part.variable() == variable)
    }

    /// Returns the secret values among `variables`.
    pub(crate) fn secret_values<'v>(&self, variables: &'v Map<String, Value>) -> Vec<&'v Value> {
        let whole = self.names.iter().filter_map(|name| variables.get(name));
        whole.chain(self.parts.iter().filter_map(|part| part.resolve(variables).ok())).collect()
    }

    /// Returns true when a template contains a secret that could not be found in the result.
    pub(crate) fn hides_secret(&self, template: &Template, scope: &VariableScope<'_>) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut references = template.references().into_iter();
        references.any(|r| r.resolve(scope).is_ok_and(|value| self.hides(r, value)))
    }

    /// Returns true when the value of a reference contains a secret that could not be found in a text.
    pub(super) fn hides(&self, reference: &VariableReference, value: &Value) -> bool {
        self.contains(reference.variable()) && !is_maskable(value)
    }
}

/// Counts the steps of a unit, collects its inputs, and marks its secret values.
pub(super) fn analyze_unit(unit: &mut PlanUnit) -> Result<(), Error> {
    let document = Arc::clone(&unit.document);
    let capability = document.capability();
    let mut set = BTreeSet::new();
    capability.for_each_step(|step| {
        set.extend(step.action.outputs().iter().map(|output| output.variable()));
    });
    let mut survey = PlanAnalysis {
        unit,
        assigned: set,
        enclosing: Vec::new(),
        needs: BTreeMap::new(),
        sensitive: SecretVariables::default(),
        loops: Vec::new(),
        steps: 0,
    };
    let secret = capability.parameters.iter().filter(|parameter| parameter.secret);
    survey.sensitive.names.extend(secret.map(|parameter| parameter.name.clone()));
    for step in capability.execution.children() {
        survey.visit_step(step)?;
    }
    let PlanAnalysis { needs, mut sensitive, loops, steps, .. } = survey;
    // An item of a secret list is secret; a list may be the item of another.
    for _ in 0..loops.len() {
        for for_each in &loops {
            if for_each.items.references().iter().any(|r| sensitive.contains(r.variable())) {
                sensitive.names.insert(for_each.name.clone());
            }
        }
    }
    for field in &document.interface().inputs {
        let parameters = capability.parameter(&field.name).cloned().into_iter().collect();
        let input = PlanInput { required: field.required, secret: false, parameters };
        unit.inputs.insert(field.name.clone(), input);
    }
    for (name, need) in needs {
        let input = unit.inputs.entry(name).or_default();
        input.required = true;
        input.parameters.extend(need.parameters);
    }
    for (name, input) in &mut unit.inputs {
        input.secret = sensitive.contains(name);
    }
    unit.sensitive = sensitive;
    unit.steps = steps;
    Ok(())
}

struct PlanAnalysis<'s> {
    unit: &'s PlanUnit,
    /// The variables that steps set.
    assigned: BTreeSet<&'s str>,
    /// The variables of the enclosing `for_each` and `catch`, innermost last.
    enclosing: Vec<(&'s str, Option<&'s ForEach>)>,
    /// The needs of used capabilities that no step maps or sets.
    needs: BTreeMap<String, PlanInput>,
    sensitive: SecretVariables,
    loops: Vec<&'s ForEach>,
    steps: usize,
}

impl<'s> PlanAnalysis<'s> {
    fn visit_step(&mut self, step: &'s Step) -> Result<(), Error> {
        let around = self.enclosing.len();
        if let Some(for_each) = &step.control.for_each {
            self.enclosing.push((&for_each.name, Some(for_each)));
            self.loops.push(for_each);
        }
        match &step.action {
            StepAction::Task { .. } => self.steps = self.steps.saturating_add(1),
            StepAction::Capability { capability, inputs, .. } => {
                self.visit_capability(step, capability, inputs)?;
            }
            StepAction::Block(block) => {
                block.children().into_iter().try_for_each(|child| self.visit_step(child))?;
            }
        }
        if let OnError::Catch { name, steps } = &step.control.on_error {
            self.enclosing.push((name, None));
            steps.iter().try_for_each(|child| self.visit_step(child))?;
        }
        self.enclosing.truncate(around);
        Ok(())
    }

    fn visit_capability(
        &mut self,
        step: &'s Step,
        name: &'s CapabilityName,
        inputs: &'s IndexMap<String, Template>,
    ) -> Result<(), Error> {
        let user = &self.unit.pin.name;
        let refused = |why: String| {
            let place = format!("step `{}` of `{user}`", step.id.as_str());
            Err(Error::new(ErrorKind::DependencyRefused, format!("{place} {why}")))
        };
        let unit = self.unit;
        let Some(child) = unit.uses.get(name) else {
            return refused(format!("uses `{name}`, which is not declared"));
        };
        self.steps = self.steps.saturating_add(1).saturating_add(child.steps);
        for (key, template) in inputs {
            let Some(input) = child.inputs.get(key) else {
                return refused(format!("maps `{key}`, which is not an input of `{name}`"));
            };
            if input.secret {
                for reference in template.references() {
                    self.mark_secret(reference.variable(), Some(reference), self.enclosing.len());
                }
            }
        }
        for (needed, input) in PlanUnit::unmapped_inputs(child, |key| inputs.contains_key(key)) {
            if input.secret {
                self.mark_secret(needed, None, self.enclosing.len());
            }
            let is_local = self.enclosing.iter().any(|(local, _)| *local == needed);
            if !is_local && !self.assigned.contains(needed) {
                let need = self.needs.entry(needed.to_owned()).or_default();
                need.parameters.extend(input.parameters.iter().cloned());
            }
        }
        Ok(())
    }

    /// Marks the value of `variable` as secret, or the part of it that `reference` names. For the item of
    /// an iteration, also marks the list that it comes from. Local names are searched in the outermost
    /// `depth` scopes.
    fn mark_secret(&mut self, variable: &str, reference: Option<&VariableReference>, depth: usize) {
        let local = self.enclosing[..depth].iter().rposition(|(local, _)| *local == variable);
        if let Some(place) = local {
            // The error in a `catch` is masked already.
            if let (_, Some(for_each)) = self.enclosing[place] {
                self.sensitive.names.insert(variable.to_owned());
                for reference in for_each.items.references() {
                    self.mark_secret(reference.variable(), Some(reference), place);
                }
            }
            return;
        }
        match reference.filter(|reference| !reference.is_plain()) {
            Some(part) => {
                self.sensitive.parts.insert(part.clone());
            }
            None => {
                self.sensitive.names.insert(variable.to_owned());
            }
        }
    }
}
