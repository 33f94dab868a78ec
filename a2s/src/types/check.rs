//! The checks: each step is looked at where it stands, with the types that it sees.

mod conditions;
mod examples;
mod inputs;
mod mismatch_message;
mod outputs;
mod references;

use std::collections::BTreeSet;

use self::conditions::check_condition;
use self::examples::check_examples;
use self::inputs::check_inputs;
use self::outputs::{check_outputs, check_shared};
use self::references::{check_items, check_reads, check_reference};
use super::type_path::PathNotFound;
use super::{LoopScope, TypeEnv};
use crate::budget::AnalysisBudget;
use crate::diagnostic::{Diagnostic, MAX_RELATED, SourceLocation, SourcePosition, did_you_mean};
use crate::document::{
    Capability, CapabilityStep, OnError, Step, StepBlock, StepChoice, TaskStep, find_input,
};
use crate::field_reader::{CompileMode, DiagnosticSink, shorten_for_message};
use crate::tree::{TreeNode, member_path};

/// The maximum number of names that a hint lists.
const MAX_LISTED: usize = 8;

/// Checks the types of a capability, which was read from `root`; errors and warnings go to
/// `findings`.
pub(crate) fn check_types(
    capability: &Capability,
    root: &TreeNode<'_>,
    mode: CompileMode,
    findings: &mut DiagnosticSink,
) {
    let fuel = AnalysisBudget::for_document();
    let names = TypeEnv::new(capability, &fuel);
    let found = findings.diagnostics.iter().filter(|known| known.is_error());
    let mistaken = found.map(|known| known.path.clone()).collect();
    let scope = LoopScope::default();
    let mut checker = TypeChecker {
        names: &names,
        root,
        mode,
        diagnostics: findings,
        paths_with_errors: mistaken,
        scope,
    };
    check_shared(&mut checker);
    checker.check_block(&capability.execution, "execution");
    if let (Some(output), Some(node)) = (&capability.output, root.get("output")) {
        check_reads(&mut checker, output, node, "output");
    }
    check_examples(&mut checker);
}

struct TypeChecker<'n, 'f> {
    names: &'f TypeEnv<'n>,
    root: &'n TreeNode<'n>,
    mode: CompileMode,
    diagnostics: &'f mut DiagnosticSink,
    /// The locations of other mistakes.
    paths_with_errors: BTreeSet<String>,
    scope: LoopScope<'n>,
}

impl<'n> TypeChecker<'n, '_> {
    /// Checks a block with its fields at `path`.
    fn check_block(&mut self, block: &'n StepBlock, path: &str) {
        if let Some(StepChoice { condition, .. }) = block.choice() {
            let path = member_path(path, "condition");
            let position = self.root.at(&path).map_or(self.root.position, |node| node.position);
            for reference in condition.references() {
                let site = SourceLocation { path: path.clone(), position };
                check_reference(self, reference, &site);
            }
            check_condition(self, condition, &SourceLocation { path, position });
        }
        for step in block.children() {
            self.check_step(step);
        }
    }

    fn check_step(&mut self, step: &'n Step) {
        let Some(node) = self.root.at(&step.pointer) else { return };
        if let Some(for_each) = &step.control.for_each {
            let path = member_path(&step.pointer, "for_each");
            let items = check_items(self, &for_each.items, node, &path);
            self.scope.enter_loop(step, for_each, items);
        }
        if let Some(TaskStep { task, inputs, .. }) = step.action.as_task() {
            check_inputs(self, step, task, inputs, node);
            check_outputs(self, step, node);
        }
        if let Some(CapabilityStep { inputs, .. }) = step.action.as_capability() {
            for (name, template) in inputs {
                if let Some((path, node)) = find_input(step, node, None, name) {
                    check_reads(self, template, node, &path);
                }
            }
        }
        if let Some(block) = step.action.as_block() {
            self.check_block(block, &step.pointer);
        }
        if let OnError::Catch { name, steps } = &step.control.on_error {
            self.scope.enter_catch(name);
            steps.iter().for_each(|step| self.check_step(step));
            self.scope.leave_catch();
        }
        if step.control.for_each.is_some() {
            self.scope.leave_loop();
        }
    }

    /// The positions of the steps and declarations that give a variable its value, when the text contains
    /// them.
    fn sources(&self, variable: &str) -> Vec<(SourcePosition, String)> {
        let mut sources = Vec::new();
        let parameters = &self.names.capability.parameters;
        if let Some(index) = parameters.iter().position(|parameter| parameter.name == variable)
            && let Some(node) = self.root.at(&format!("parameters[{index}]"))
        {
            sources.push((node.position, format!("`{variable}` is declared here")));
        }
        for setter in self.names.bindings(variable) {
            let Some(node) = self.root.at(&setter.step.pointer) else { continue };
            let mapping = node.get("output_mapping");
            if let Some(member) = mapping.and_then(|node| node.member(&setter.output.dotted())) {
                sources.push((member.position, format!("`{}` sets it here", setter.step.id)));
            }
        }
        sources
    }

    /// Reports a diagnostic, unless the same location already has an error.
    fn report(&mut self, finding: Diagnostic, sources: Vec<(SourcePosition, String)>) {
        if self.paths_with_errors.contains(&finding.path) {
            return;
        }
        let related = sources.into_iter().take(MAX_RELATED);
        let finding = related.fold(finding, |finding, (at, text)| finding.with_related(at, text));
        self.diagnostics.diagnostics.push(finding);
    }
}

/// The names available where a path leads out of a type, for a hint; `name` is the name that was not found.
fn names_there(leaves: &PathNotFound, name: Option<&str>) -> Option<String> {
    if let Some(close) =
        name.and_then(|name| did_you_mean(name, leaves.names.iter().map(String::as_str)))
    {
        return Some(format!("Did you mean `{}`?", shorten_for_message(close)));
    }
    let listed: Vec<_> = leaves
        .names
        .iter()
        .take(MAX_LISTED)
        .map(|name| format!("`{}`", shorten_for_message(name)))
        .collect();
    let more = if leaves.names.len() > MAX_LISTED { ", …" } else { "" };
    (!listed.is_empty()).then(|| format!("Known names are {}{more}.", listed.join(", ")))
}

#[cfg(test)]
mod tests;
