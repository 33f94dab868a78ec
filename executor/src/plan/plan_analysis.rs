//! The analysis of a capability: its inputs, the number of its steps, its secret variables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use a2s::{Action, ForEach, OnError, Reference, Step, Template};
use serde_json::{Map, Value};

use super::{Input, Unit};
use crate::error::{Error, Kind};
use crate::scope::Scope;
use crate::secrets::can_be_found;

/// The variables whose values are told to nobody: parameters that are declared so, and whatever
/// goes into a parameter of another capability that is.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sensitive {
    /// Secret as a whole.
    names: BTreeSet<String>,
    /// Secret in a part.
    parts: BTreeSet<Reference>,
}

impl Sensitive {
    /// Whether nothing is secret.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.parts.is_empty()
    }

    /// Whether a variable is secret, as a whole or in a part.
    pub(crate) fn covers(&self, variable: &str) -> bool {
        self.names.contains(variable) || self.parts.iter().any(|part| part.variable() == variable)
    }

    /// The secret values among `variables`.
    pub(crate) fn values<'v>(&self, variables: &'v Map<String, Value>) -> Vec<&'v Value> {
        let whole = self.names.iter().filter_map(|name| variables.get(name));
        whole.chain(self.parts.iter().filter_map(|part| part.resolve(variables).ok())).collect()
    }

    /// Whether a template brings in a secret that could not be found again where it goes.
    pub(crate) fn hides(&self, template: &Template, scope: &Scope<'_>) -> bool {
        if self.is_empty() {
            return false;
        }
        let references = template.references().into_iter();
        let references = references.filter(|r| self.covers(r.variable()));
        let mut values = references.filter_map(|r| r.resolve(scope).ok());
        values.any(|value| !can_be_found(value))
    }
}

/// Counts the steps of a unit, gathers its inputs, and marks what is secret.
pub(super) fn take_stock(unit: &mut Unit) -> Result<(), Error> {
    let document = Arc::clone(&unit.document);
    let capability = document.capability();
    let mut set = BTreeSet::new();
    capability.for_each_step(|step| {
        set.extend(step.action.outputs().iter().map(|output| output.variable()));
    });
    let mut survey = Survey {
        unit,
        set,
        inside: Vec::new(),
        needs: BTreeMap::new(),
        sensitive: Sensitive::default(),
        loops: Vec::new(),
        steps: 0,
    };
    let secret = capability.parameters.iter().filter(|parameter| parameter.secret);
    survey.sensitive.names.extend(secret.map(|parameter| parameter.name.clone()));
    for step in capability.execution.children() {
        survey.visit(step)?;
    }
    let Survey { needs, mut sensitive, loops, steps, .. } = survey;
    // An item of a secret list is secret; a list may be the item of another.
    for _ in 0..loops.len() {
        for for_each in &loops {
            if for_each.items.references().iter().any(|r| sensitive.covers(r.variable())) {
                sensitive.names.insert(for_each.name.clone());
            }
        }
    }
    for field in &document.interface().inputs {
        let parameters = capability.parameter(&field.name).cloned().into_iter().collect();
        let input = Input { required: field.required, secret: false, parameters };
        unit.inputs.insert(field.name.clone(), input);
    }
    for (name, need) in needs {
        let input = unit.inputs.entry(name).or_default();
        input.required = true;
        input.parameters.extend(need.parameters);
    }
    for (name, input) in &mut unit.inputs {
        input.secret = sensitive.covers(name);
    }
    unit.sensitive = sensitive;
    unit.steps = steps;
    Ok(())
}

struct Survey<'s> {
    unit: &'s Unit,
    /// The variables that steps set.
    set: BTreeSet<&'s str>,
    /// The variables of the `for_each` and `catch` around, innermost last.
    inside: Vec<(&'s str, Option<&'s ForEach>)>,
    /// What the capabilities that are used need and get from nobody.
    needs: BTreeMap<String, Input>,
    sensitive: Sensitive,
    loops: Vec<&'s ForEach>,
    steps: usize,
}

impl<'s> Survey<'s> {
    fn visit(&mut self, step: &'s Step) -> Result<(), Error> {
        let around = self.inside.len();
        if let Some(for_each) = &step.control.for_each {
            self.inside.push((&for_each.name, Some(for_each)));
            self.loops.push(for_each);
        }
        match &step.action {
            Action::Task { .. } => self.steps = self.steps.saturating_add(1),
            Action::Capability { .. } => self.visit_use(step)?,
            Action::Block(block) => {
                block.children().into_iter().try_for_each(|child| self.visit(child))?;
            }
        }
        if let OnError::Catch { name, steps } = &step.control.on_error {
            self.inside.push((name, None));
            steps.iter().try_for_each(|child| self.visit(child))?;
        }
        self.inside.truncate(around);
        Ok(())
    }

    fn visit_use(&mut self, step: &'s Step) -> Result<(), Error> {
        let Action::Capability { capability: name, inputs, .. } = &step.action else {
            return Ok(());
        };
        let user = &self.unit.pin.name;
        let refused = |why: String| {
            let place = format!("step `{}` of `{user}`", step.id.as_str());
            Err(Error::new(Kind::DependencyRefused, format!("{place} {why}")))
        };
        let unit = self.unit;
        let Some(child) = unit.uses.get(name) else {
            return refused(format!("uses `{name}`, which is not declared"));
        };
        self.steps = self.steps.saturating_add(1).saturating_add(child.steps);
        for (key, template) in inputs {
            let Some(input) = child.inputs.get(key) else {
                return refused(format!("maps `{key}`, which `{name}` does not take"));
            };
            if input.secret {
                for reference in template.references() {
                    self.mark(reference.variable(), Some(reference), self.inside.len());
                }
            }
        }
        for (needed, input) in Unit::unmapped(child, |key| inputs.contains_key(key)) {
            if input.secret {
                self.mark(needed, None, self.inside.len());
            }
            let is_local = self.inside.iter().any(|(local, _)| *local == needed);
            if !is_local && !self.set.contains(needed) {
                let need = self.needs.entry(needed.to_owned()).or_default();
                need.parameters.extend(input.parameters.iter().cloned());
            }
        }
        Ok(())
    }

    /// Marks the value of `variable` as secret, or the part of it that `reference` names. For the item of
    /// an iteration, also marks the list that it comes from. Local names are searched in the outermost
    /// `depth` scopes.
    fn mark(&mut self, variable: &str, reference: Option<&Reference>, depth: usize) {
        let local = self.inside[..depth].iter().rposition(|(local, _)| *local == variable);
        if let Some(place) = local {
            // What a `catch` is told of an error is masked already.
            if let (_, Some(for_each)) = self.inside[place] {
                self.sensitive.names.insert(variable.to_owned());
                for reference in for_each.items.references() {
                    self.mark(reference.variable(), Some(reference), place);
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
