//! Data flow: every reference is an input, or an output that is surely set before it is read.

mod examples;
mod literal_templates;
mod optional_values;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::diagnostic::{Diagnostic, MAX_RELATED, SourcePosition, did_you_mean};
use crate::document::{Capability, CapabilityStep, OnError, OutputMapping, Step, StepBlock};
use crate::error_code;
use crate::field_reader::{CompileMode, DiagnosticSink};
use crate::template::VariableReference;
use crate::tree::{TreeNode, member_path};
use crate::variable_references::{VariableReader, locals, references};

/// The minimum length of a name for the detection of misspelt names. Shorter names are too similar to
/// others.
const MIN_LIKELY: usize = 4;

/// Checks the whole capability, which was read from `root`; errors and warnings go to `findings`.
pub(crate) fn check_data_flow(
    capability: &Capability,
    root: &TreeNode<'_>,
    mode: CompileMode,
    findings: &mut DiagnosticSink,
) {
    // Other errors change what is declared.
    let is_strict = mode != CompileMode::Final
        && !findings.has_errors()
        && !capability.parameters.is_empty()
        && capability.language.minor > 0;
    let mut flow = DataFlowChecker {
        capability,
        root,
        mode,
        is_strict,
        diagnostics: findings,
        setters: BTreeMap::new(),
        order: BTreeMap::new(),
        locals: BTreeMap::new(),
        inside: Vec::new(),
        parallel_steps: Vec::new(),
        doubted: BTreeSet::new(),
    };
    capability.for_each_step(|step| {
        let number = flow.order.len();
        flow.order.insert(&step.pointer, number);
        for output in step.action.outputs() {
            let setters = flow.setters.entry(output.variable()).or_default();
            if !setters.iter().any(|known| known.pointer == step.pointer) {
                setters.push(step);
            }
        }
        for (name, _) in locals(step) {
            flow.locals.entry(name).or_insert(step);
        }
    });
    flow.check_dependencies();
    let mut set = BTreeSet::new();
    flow.check_reader(VariableReader::Execution, &set);
    flow.walk(&capability.execution, &mut set);
    flow.check_reader(VariableReader::Output, &set);
    flow.check_use();
    flow.check_literals();
    // Other errors change what the inputs are.
    if flow.doubted.is_empty() && !flow.diagnostics.has_errors() {
        examples::check_examples(capability, root, findings);
    }
}

struct DataFlowChecker<'c, 'f> {
    capability: &'c Capability,
    root: &'c TreeNode<'c>,
    mode: CompileMode,
    /// True when every input must be declared.
    is_strict: bool,
    diagnostics: &'f mut DiagnosticSink,
    /// The steps that set each variable.
    setters: BTreeMap<&'c str, Vec<&'c Step>>,
    /// The number of each step in the order of the document, by pointer.
    order: BTreeMap<&'c str, usize>,
    /// The step that introduces each variable of `for_each` and `catch`.
    locals: BTreeMap<&'c str, &'c Step>,
    /// The `for_each` and `catch` variables that are readable at the current step.
    inside: Vec<&'c str>,
    /// The steps that run at the same time as the current step.
    parallel_steps: Vec<&'c Step>,
    /// Variables that were reported as misspelt.
    doubted: BTreeSet<&'c str>,
}

impl<'c> DataFlowChecker<'c, '_> {
    fn check_dependencies(&mut self) {
        let mut used = BTreeSet::new();
        let (capability, root) = (self.capability, self.root);
        capability.for_each_step(|step| {
            let Some(CapabilityStep { capability: name, .. }) = step.action.as_capability() else {
                return;
            };
            used.insert(name);
            if capability.dependency(name).is_some() {
                return;
            }
            let declared = capability.dependencies.iter().map(|d| d.capability.as_str());
            let hint = match did_you_mean(name.as_str(), declared) {
                Some(close) => format!("Did you mean `{close}`?"),
                None => error_code::UNDECLARED_DEPENDENCY.remedy.to_owned(),
            };
            let path = member_path(&step.pointer, "use");
            let at = root.at(&path).map_or(step.position, |node| node.position);
            let message = format!("`{name}` is not declared under `dependencies`");
            let code = error_code::UNDECLARED_DEPENDENCY;
            self.diagnostics.error_with_hint(code, (path, at), message, hint);
        });
        if self.diagnostics.has_errors() {
            // Perhaps the step that uses it could not be read.
            return;
        }
        for dependency in &capability.dependencies {
            if !used.contains(&dependency.capability) {
                let message = format!("no step uses `{}`", dependency.capability);
                let location = (&dependency.pointer, dependency.position);
                self.diagnostics.warning(error_code::UNUSED_DEPENDENCY, location, message);
            }
        }
    }

    /// Warns of literal texts that look like references to variables.
    fn check_literals(&mut self) {
        if self.mode == CompileMode::Final {
            return;
        }
        let is_variable = |name: &str| {
            self.capability.parameter(name).is_some()
                || self.capability.variables.contains_key(name)
                || self.setters.contains_key(name)
                || self.locals.contains_key(name)
        };
        literal_templates::check_literal_templates(
            self.capability,
            self.root,
            &is_variable,
            self.diagnostics,
        );
    }

    /// Warns of parameters and outputs that nothing reads.
    fn check_use(&mut self) {
        if self.diagnostics.has_errors() {
            return;
        }
        let (capability, root) = (self.capability, self.root);
        let read = references(capability);
        let position = |path: &str| root.at(path).map_or(root.position, |node| node.position);
        // A capability step may leave a required input of its child to the caller, by its name.
        if !capability.dependencies.is_empty() {
            return;
        }
        for (index, parameter) in capability.parameters.iter().enumerate() {
            if !read.contains(parameter.name.as_str()) {
                let path = format!("parameters[{index}]");
                let message = format!("no step uses the parameter `{}`", parameter.name);
                let location = (&path, position(&path));
                self.diagnostics.warning(error_code::UNUSED_PARAMETER, location, message);
            }
        }
        // Without `output`, everything that is set is part of the result.
        if capability.output.is_none() {
            return;
        }
        capability.for_each_step(|step| {
            for output in step.action.outputs() {
                if !read.contains(output.variable()) {
                    let name = output.dotted();
                    let mapping = member_path(&step.pointer, "output_mapping");
                    let member = root.at(&mapping).and_then(|node| node.member(&name));
                    let at = member.map_or(step.position, |member| member.position);
                    let message =
                        format!("no step reads the output `{name}`, and `output` does not list it");
                    let location = (member_path(&mapping, &name), at);
                    self.diagnostics.warning(error_code::UNUSED_OUTPUT, location, message);
                }
            }
        });
    }

    /// Walks a block with the variables that are surely `set` on entry, and adds those that are
    /// surely set when it ends.
    fn walk(&mut self, block: &'c StepBlock, set: &mut BTreeSet<&'c str>) {
        match block {
            StepBlock::Sequence(steps) => self.walk_steps(steps, set),
            StepBlock::Parallel { steps, .. } => {
                self.check_conflicts(steps);
                let entry = set.clone();
                for (index, step) in steps.iter().enumerate() {
                    let known = self.parallel_steps.len();
                    let others = steps.iter().enumerate().filter(|(other, _)| *other != index);
                    self.parallel_steps.extend(others.map(|(_, other)| other));
                    let mut own = entry.clone();
                    self.walk_step(step, &mut own);
                    set.extend(own);
                    self.parallel_steps.truncate(known);
                }
            }
            StepBlock::Condition { if_true, if_false, .. } => {
                let (mut one, mut other) = (set.clone(), set.clone());
                self.walk_steps(if_true, &mut one);
                self.walk_steps(if_false, &mut other);
                set.extend(one.intersection(&other));
            }
        }
    }

    fn walk_steps(&mut self, steps: &'c [Step], set: &mut BTreeSet<&'c str>) {
        for step in steps {
            self.walk_step(step, set);
        }
    }

    fn walk_step(&mut self, step: &'c Step, set: &mut BTreeSet<&'c str>) {
        self.check_locals(step);
        self.check_reader(VariableReader::Items(step), set);
        let around = self.inside.len();
        let loop_name = step.control.for_each.as_ref().map(|for_each| for_each.name.as_str());
        self.inside.extend(loop_name);
        // Iterations start with the variables set on entry, and leave them unchanged.
        let mut own = set.clone();
        self.check_reader(VariableReader::Step(step), &own);
        self.check_absent(step, &own);
        if let Some(block) = step.action.as_block() {
            self.walk(block, &mut own);
        }
        own.extend(step.action.outputs().iter().map(OutputMapping::variable));
        match &step.control.on_error {
            OnError::Stop => {}
            OnError::Continue => own.clone_from(set),
            OnError::Catch { name, steps } => {
                let mut caught = set.clone();
                self.inside.push(name);
                self.walk_steps(steps, &mut caught);
                own = own.intersection(&caught).copied().collect();
            }
        }
        self.inside.truncate(around);
        set.extend(own);
        if loop_name.is_some() {
            // After the loop, each name is the list of the iterations' values, null where not set.
            set.extend(writes(step).into_iter().map(|(_, output)| output.variable()));
        }
    }

    /// Checks that the names that a step introduces are not used for anything else.
    fn check_locals(&mut self, step: &'c Step) {
        for (name, field) in locals(step) {
            let taken = if self.capability.parameter(name).is_some() {
                Some("a parameter".to_owned())
            } else if self.capability.variables.contains_key(name) {
                Some("a shared variable".to_owned())
            } else if let Some(setter) = self.setters.get(name).and_then(|setters| setters.first())
            {
                Some(format!("an output of `{}`", setter.id))
            } else if self.inside.contains(&name) {
                Some("the variable of an enclosing step".to_owned())
            } else {
                None
            };
            let Some(taken) = taken else { continue };
            let path = member_path(&step.pointer, field);
            let node = self.root.at(&path);
            let at = node.and_then(|node| node.get("as")).or(node);
            let at = at.map_or(step.position, |node| node.position);
            let message = format!("`{name}` is already the name of {taken}");
            let hint = format!("Choose another name with `{field}: {{as: …}}`.");
            self.diagnostics.error_with_hint(error_code::DUPLICATE_ID, (path, at), message, hint);
        }
    }

    fn check_absent(&mut self, step: &Step, set: &BTreeSet<&str>) {
        let is_set = |name: &str| set.contains(name);
        let (capability, root) = (self.capability, self.root);
        optional_values::check_absent(capability, step, root, &is_set, self.diagnostics);
    }

    fn check_reader(&mut self, reader: VariableReader<'c>, set: &BTreeSet<&str>) {
        let mut reported = BTreeSet::new();
        for reference in reader.references(self.capability) {
            let name = reference.variable();
            let known = set.contains(name)
                || self.inside.contains(&name)
                || self.capability.variables.contains_key(name)
                || self.capability.parameter(name).is_some();
            if known || !reported.insert(reference) {
                continue;
            }
            if let Some(step) = self.locals.get(name) {
                let message = format!(
                    "{} reads `${{{reference}}}`, which exists only inside `{}`",
                    reader.subject(),
                    step.id
                );
                let hint = "To use the value outside, map it to an output of the step.";
                let location = reader.site(self.root, reference);
                self.diagnostics.error_with_hint(error_code::LATER_OUTPUT, location, message, hint);
                continue;
            }
            let Some(setters) = self.setters.get(name) else {
                self.report_uncertain(reader, reference);
                continue;
            };
            let (message, hint) = self.explain(reader, reference, setters);
            let location = reader.site(self.root, reference);
            let mut late = Diagnostic::error(error_code::LATER_OUTPUT, location, message);
            for step in setters.iter().take(MAX_RELATED) {
                let set_here = self.output_position(step, name);
                late = late.with_related(set_here, format!("`{}` sets it here", step.id));
            }
            self.diagnostics.diagnostics.push(late.with_hint(hint));
        }
    }

    /// The position where a step maps an output that sets `variable`, or a member of it.
    fn output_position(&self, step: &Step, variable: &str) -> SourcePosition {
        let mapping = self.root.at(&member_path(&step.pointer, "output_mapping"));
        let mut members = mapping.and_then(TreeNode::members).into_iter().flatten();
        let member = members.find(|member| member.key.split('.').next() == Some(variable));
        member.map_or(step.position, |member| member.position)
    }

    /// Explains why `reader` may find no value although `setters` set the variable, and suggests a fix.
    fn explain(
        &self,
        reader: VariableReader<'c>,
        reference: &VariableReference,
        setters: &[&'c Step],
    ) -> (String, String) {
        let ids: Vec<_> = setters.iter().map(|step| format!("`{}`", step.id)).collect();
        let (subject, ids) = (reader.subject(), ids.join(" or "));
        let declare = format!("declare `{}` in `execution.variables.shared`", reference.variable());
        let is_within = |step: &Step, outer: &Step| {
            let below = step.pointer.strip_prefix(outer.pointer.as_str());
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let number = match reader {
            VariableReader::Execution => None,
            VariableReader::Items(step) | VariableReader::Step(step) => {
                self.order.get(step.pointer.as_str()).copied()
            }
            VariableReader::Output => Some(usize::MAX),
        };
        let is_later = |step: &&Step| number < self.order.get(step.pointer.as_str()).copied();
        let is_itself = |step: &&Step| match reader {
            VariableReader::Items(own) | VariableReader::Step(own) => own.pointer == step.pointer,
            VariableReader::Execution | VariableReader::Output => false,
        };
        if setters.iter().all(is_itself) {
            return (
                format!(
                    "{subject} reads `${{{reference}}}` before it sets the name itself, and no other step sets it"
                ),
                format!("Set the name in an earlier step, or {declare}."),
            );
        }
        if setters.iter().all(|step| {
            self.parallel_steps.iter().any(|parallel_steps| is_within(step, parallel_steps))
        }) {
            return (
                format!("{subject} reads `${{{reference}}}`, which {ids} sets at the same time"),
                "Run the two steps in a sequence instead.".to_owned(),
            );
        }
        if setters.iter().all(|step| is_later(step) || is_itself(step)) {
            return (
                format!("{subject} reads `${{{reference}}}` before {ids} sets it"),
                format!("Read the name in a step after {ids}, or {declare}."),
            );
        }
        (
            format!(
                "{subject} reads `${{{reference}}}`, but {ids} sets it and does not always run"
            ),
            format!("Set the name on every branch, or {declare}."),
        )
    }

    /// Reports a variable that no step sets. A document of a2s 1.1 that declares parameters must also
    /// declare this one before publication. In other documents, the name is only reported when it is close
    /// to a known name. A version that was published before is not rejected.
    fn report_uncertain(&mut self, reader: VariableReader<'c>, reference: &'c VariableReference) {
        let name = reference.variable();
        let (declared, is_strict) = (&self.capability.parameters, self.is_strict);
        let known = self
            .setters
            .keys()
            .copied()
            .chain(self.capability.variables.keys().map(String::as_str))
            .chain(self.inside.iter().copied())
            .chain(declared.iter().map(|parameter| parameter.name.as_str()))
            .filter(|known| known.len() >= MIN_LIKELY);
        let close = did_you_mean(name, known).filter(|_| name.len() >= MIN_LIKELY);
        if (close.is_none() && !is_strict) || !self.doubted.insert(name) {
            return;
        }
        let location = reader.site(self.root, reference);
        let message = if is_strict {
            format!("`{name}` is neither an output of a step nor declared under `parameters`")
        } else {
            format!("no step sets `{name}`, so it becomes an input")
        };
        let hint = match close {
            Some(close) => {
                format!("Did you mean `{close}`? If not, declare `{name}` under `parameters`.")
            }
            None => format!("Declare `{name}` under `parameters`, or correct the name."),
        };
        let found = Diagnostic::error(error_code::LIKELY_MISSPELT, location, message);
        let found = if is_strict { self.mode.refuse_when_new(found) } else { found.into_warning() };
        self.diagnostics.diagnostics.push(found.with_hint(hint));
    }

    /// Checks that two parallel children do not set the same name, or a name and a path inside it.
    fn check_conflicts(&mut self, steps: &'c [Step]) {
        let written: Vec<Vec<(&Step, &OutputMapping)>> = steps.iter().map(writes).collect();
        for (index, outputs) in written.iter().enumerate() {
            for earlier in &written[..index] {
                let clash = outputs.iter().find_map(|(step, output)| {
                    let name = &output.name;
                    let first = earlier.iter().find(|(_, known)| {
                        name.starts_with(&known.name) || known.name.starts_with(name)
                    });
                    first.map(|first| (first, step, output))
                });
                let Some(((first_step, known), step, output)) = clash else { continue };
                let (one, other) = (known.dotted(), output.dotted());
                let (first, second) = (&first_step.id, &step.id);
                let message = match one.len().cmp(&other.len()) {
                    Ordering::Equal => {
                        format!("`{first}` and `{second}` both set `{one}` at the same time")
                    }
                    Ordering::Less => format!(
                        "`{second}` sets `{other}` while `{first}` sets the whole of `{one}`"
                    ),
                    Ordering::Greater => format!(
                        "`{second}` sets the whole of `{other}` while `{first}` sets `{one}`"
                    ),
                };
                let place = |step: &Step, name: &str| {
                    let mapping = self.root.at(&member_path(&step.pointer, "output_mapping"));
                    let member = mapping.and_then(|node| node.member(name));
                    member.map_or(step.position, |member| member.position)
                };
                let mapping = member_path(&step.pointer, "output_mapping");
                let path = member_path(&mapping, &other);
                let at = place(step, &other);
                let clash = Diagnostic::error(error_code::PARALLEL_CONFLICT, (path, at), message);
                let clash = clash.with_related(place(first_step, &one), "first set here");
                self.diagnostics.diagnostics.push(clash);
            }
        }
    }
}

/// The outputs that a step and the steps below it set.
fn writes(step: &Step) -> Vec<(&Step, &OutputMapping)> {
    let mut outputs: Vec<_> = step.action.outputs().iter().map(|output| (step, output)).collect();
    outputs.extend(step.children().into_iter().flat_map(writes));
    outputs
}
