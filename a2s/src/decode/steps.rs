//! The execution section: steps, their tasks and their mappings.

mod control;
mod inputs;
mod outputs;
mod task;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::document::{OutputMapping, Step, StepAction, StepBlock, StepKind, ValueType};
use indexmap::IndexMap;

use self::control::{decode_concurrency, decode_retry};
use self::inputs::decode_inputs;
use self::outputs::decode_outputs;
use self::task::TaskDecoder;
use super::header::parse_named;
use crate::condition::Condition;
use crate::diagnostic::{Diagnostic, SourcePosition};
use crate::error_code;
use crate::field_reader::{DiagnosticSink, shorten_for_message};
use crate::field_reader::{DocumentField, ObjectReader};
use crate::name::{CapabilityName, Domain, StepId};
use crate::task::InputLocation;
use crate::task::Task;
use crate::template::{Template, is_name};
use crate::tree::NodeValue;

/// The maximum number of steps of a document.
pub const MAX_STEPS: usize = 200;
/// The maximum nesting depth of steps.
const MAX_NESTING: usize = 16;
/// The maximum number of members of a mapping.
const MAX_MAPPING: usize = 200;

/// The decoder of steps, with the shared tasks and the steps read so far.
pub(super) struct StepDecoder<'n, 'f> {
    tasks: TaskDecoder<'n, 'f>,
    findings: &'f mut DiagnosticSink,
    ids: BTreeMap<StepId, SourcePosition>,
    steps: usize,
}

impl<'n, 'f> StepDecoder<'n, 'f> {
    pub(super) fn new(
        tasks: Option<DocumentField<'n>>,
        domains: &'f [Domain],
        findings: &'f mut DiagnosticSink,
    ) -> Self {
        if let Some(tasks) = &tasks {
            tasks.entries(findings);
        }
        let tasks = TaskDecoder::new(tasks, domains);
        Self { tasks, findings, ids: BTreeMap::new(), steps: 0 }
    }

    /// Reads `execution`: its shared variables and the block of steps.
    pub(super) fn decode_execution(
        &mut self,
        field: &DocumentField<'n>,
    ) -> Option<(BTreeMap<String, ValueType>, StepBlock)> {
        let mut fields = ObjectReader::open(field, "`execution`", self.findings)?;
        let variables = match fields.take("variables") {
            Some(variables) => self.decode_variables(&variables),
            None => BTreeMap::new(),
        };
        let kind = fields.require("type", self.findings);
        let word = kind.as_ref().and_then(|kind| kind.string(self.findings));
        let block = match word.and_then(StepKind::from_type) {
            Some(StepKind::Condition) => self.decode_condition(&mut fields, 0),
            Some(StepKind::Parallel) => self.decode_parallel(&mut fields, 0),
            Some(StepKind::Sequence) => StepBlock::Sequence(self.require_steps(&mut fields, 0)),
            Some(StepKind::Task | StepKind::Capability) | None => {
                if let (Some(kind), Some(other)) = (&kind, word) {
                    let known = ["sequence", "parallel", "condition"];
                    self.findings.unknown_word(kind, "type of execution", other, &known);
                }
                let block = self.decode_unknown_block(&mut fields, 0);
                // The remaining fields depend on the intended type, except for a misspelt `type`.
                if kind.is_some() {
                    return Some((variables, block));
                }
                for field in ["condition", "if_true", "if_false"] {
                    fields.take(field);
                }
                block
            }
        };
        fields.explain("max_concurrency", "Only parallel steps have this field.");
        for field in ["for_each", "retry", "timeout", "on_error", "catch"] {
            fields.explain(
                field,
                "Write it on a step; if necessary, add a step that contains the others.",
            );
        }
        explain_other_words(&mut fields);
        fields.finish(self.findings);
        Some((variables, block))
    }

    fn decode_variables(&mut self, field: &DocumentField<'n>) -> BTreeMap<String, ValueType> {
        let mut variables = BTreeMap::new();
        let Some(mut fields) = ObjectReader::open(field, "`variables`", self.findings) else {
            return variables;
        };
        let shared = fields.take("shared");
        fields.finish(self.findings);
        for (name, entry) in shared.map_or_else(Vec::new, |shared| shared.entries(self.findings)) {
            if !is_name(name) {
                self.findings.error_with_hint(
                    error_code::BAD_NAME,
                    entry.at_key(),
                    format!("`{}` is not a valid name of a variable", shorten_for_message(name)),
                    "Start with a letter and use only letters, digits, `_` and `-`.",
                );
                continue;
            }
            let kind = entry.word("type of variable", &ValueType::NAMES, self.findings);
            let Some(kind) = kind else { continue };
            variables.insert(name.to_owned(), kind);
        }
        variables
    }

    fn require_steps(&mut self, fields: &mut ObjectReader<'n>, depth: usize) -> Vec<Step> {
        let steps = fields.require("steps", self.findings);
        steps.map_or_else(Vec::new, |steps| self.decode_steps(&steps, depth))
    }

    fn decode_parallel(&mut self, fields: &mut ObjectReader<'n>, depth: usize) -> StepBlock {
        let max_concurrency = decode_concurrency(fields, self.findings);
        StepBlock::Parallel { steps: self.require_steps(fields, depth), max_concurrency }
    }

    /// Decodes a block of unknown type, so that its content is still checked.
    fn decode_unknown_block(&mut self, fields: &mut ObjectReader<'n>, depth: usize) -> StepBlock {
        let steps = fields.take("steps");
        StepBlock::Sequence(steps.map_or_else(Vec::new, |steps| self.decode_steps(&steps, depth)))
    }

    /// Reads a condition block: `condition`, `if_true` (or plain `steps`) and `if_false`.
    fn decode_condition(&mut self, fields: &mut ObjectReader<'n>, depth: usize) -> StepBlock {
        let condition = fields.require("condition", self.findings).and_then(|field| {
            let text = field.string(self.findings)?;
            Condition::parse(text)
                .map_err(|message| {
                    self.findings.error(error_code::BAD_CONDITION, field.at_value(), message);
                })
                .ok()
        });
        let plain = fields.take("steps");
        let branch = fields.take("if_true");
        if let (Some(plain), Some(_)) = (&plain, &branch) {
            let message = "`steps` means the same as `if_true.steps`; keep one of the two";
            self.findings.error(error_code::DUPLICATE_KEY, plain.at_key(), message);
        }
        let if_true = match (plain, branch) {
            (Some(steps), None) => self.decode_steps(&steps, depth),
            (_, Some(branch)) => self.decode_branch(&branch, depth),
            (None, None) => {
                fields.require("if_true", self.findings);
                Vec::new()
            }
        };
        let if_false = match fields.take("if_false") {
            Some(branch) => self.decode_branch(&branch, depth),
            None => Vec::new(),
        };
        StepBlock::Condition {
            condition: condition.unwrap_or_else(Condition::substitute),
            if_true,
            if_false,
        }
    }

    fn decode_branch(&mut self, field: &DocumentField<'n>, depth: usize) -> Vec<Step> {
        if matches!(field.node.kind, NodeValue::Array(_)) {
            let message = "this is a list; a branch must be a mapping with the field `steps`";
            let hint = "Write `steps:` below the branch, and the list below `steps:`.";
            self.findings.error_with_hint(error_code::WRONG_TYPE, field.at_key(), message, hint);
            return self.decode_steps(field, depth);
        }
        let Some(mut fields) = ObjectReader::open(field, "a branch", self.findings) else {
            return Vec::new();
        };
        let steps = self.require_steps(&mut fields, depth);
        fields.finish(self.findings);
        steps
    }

    fn decode_steps(&mut self, field: &DocumentField<'n>, depth: usize) -> Vec<Step> {
        let items = field.items(self.findings);
        if matches!(field.node.kind, NodeValue::Array(_)) && items.is_empty() {
            let message = "the list of steps is empty; at least one step is required";
            let hint = "Add a step.";
            self.findings.error_with_hint(error_code::BAD_VALUE, field.at_value(), message, hint);
        }
        if depth >= MAX_NESTING || self.steps + items.len() > MAX_STEPS {
            let message = format!(
                "the document has more than {MAX_STEPS} steps, or more than {MAX_NESTING} levels of steps"
            );
            self.findings.error(error_code::TOO_MANY_STEPS, field.at_key(), message);
            return Vec::new();
        }
        self.steps += items.len();
        items.iter().filter_map(|item| self.decode_step(item, depth + 1)).collect()
    }

    /// Reads a step. Returns `None` only when the item is not a mapping. A part that cannot be read is
    /// replaced by a placeholder.
    fn decode_step(&mut self, item: &DocumentField<'n>, depth: usize) -> Option<Step> {
        let mut fields = ObjectReader::open(item, "a step", self.findings)?;
        let id = fields.require("id", self.findings);
        let id = id.and_then(|field| self.decode_id(&field)).unwrap_or_else(StepId::substitute);
        let kind = fields.take("type");
        let word = kind.as_ref().map(|kind| kind.string(self.findings));
        let (pointer, position) = (item.path.clone(), item.node.position);
        let Some(kind) = word.map_or(Some(StepKind::Task), |word| StepKind::from_type(word?))
        else {
            if let (Some(kind), Some(Some(word))) = (&kind, word) {
                self.wrong_step_type(kind, word);
            }
            // The remaining fields depend on the type.
            let action = if fields.has("steps") {
                StepAction::Block(self.decode_unknown_block(&mut fields, depth))
            } else if fields.has("use") {
                self.decode_capability_step(&mut fields)
            } else {
                self.decode_task_step(&mut fields, item, depth)
            };
            let control = self.decode_control(&mut fields, depth);
            return Some(Step { id, action, control, pointer, position });
        };
        let action = self.decode_action(kind, &mut fields, item, depth);
        let mut control = self.decode_control(&mut fields, depth);
        if kind == StepKind::Task {
            control.retry = decode_retry(&mut fields, self.findings);
        } else {
            fields.explain("retry", "Write it on the tasks inside; only requests can be repeated.");
        }
        if action.kind() != StepKind::Parallel {
            let hint =
                "Only parallel steps have this field; for `for_each`, write it inside `for_each`.";
            fields.explain("max_concurrency", hint);
        }
        explain_other_words(&mut fields);
        fields.finish(self.findings);
        Some(Step { id, action, control, pointer, position })
    }

    fn decode_action(
        &mut self,
        kind: StepKind,
        fields: &mut ObjectReader<'n>,
        item: &DocumentField<'n>,
        depth: usize,
    ) -> StepAction {
        match kind {
            StepKind::Task => return self.decode_task_step(fields, item, depth),
            StepKind::Capability => {
                fields.rename("a capability step");
                return self.decode_capability_step(fields);
            }
            StepKind::Sequence => fields.rename("a sequence step"),
            StepKind::Parallel => fields.rename("a parallel step"),
            StepKind::Condition => fields.rename("a condition step"),
        }
        for field in ["input_mapping", "input_template", "output_mapping"] {
            fields.explain(
                field,
                "Write it on the steps inside; only those steps have inputs and outputs.",
            );
        }
        StepAction::Block(match kind {
            StepKind::Condition => self.decode_condition(fields, depth),
            StepKind::Parallel => self.decode_parallel(fields, depth),
            StepKind::Sequence | StepKind::Task | StepKind::Capability => {
                StepBlock::Sequence(self.require_steps(fields, depth))
            }
        })
    }

    fn decode_id(&mut self, field: &DocumentField<'n>) -> Option<StepId> {
        let id = parse_named(field, "step id", StepId::new, self.findings)?;
        if let Some(first) = self.ids.insert(id.clone(), field.node.position) {
            let message = format!("the step on line {} already has the name `{id}`", first.line);
            let twice = Diagnostic::error(error_code::DUPLICATE_ID, field.at_value(), message);
            self.findings.diagnostics.push(twice.with_related(first, "first written here"));
        }
        Some(id)
    }

    fn wrong_step_type(&mut self, kind: &DocumentField<'n>, word: &str) {
        if word == "task" {
            let message = "a step with a task must not have `type`";
            let hint = "Remove `type`; `format` states the kind of the task.";
            self.findings.error_with_hint(error_code::BAD_VALUE, kind.at_value(), message, hint);
        } else {
            let known = StepKind::TYPES.map(StepKind::as_str);
            self.findings.unknown_word(kind, "type of step", word, &known);
        }
    }

    fn decode_capability_step(&mut self, fields: &mut ObjectReader<'n>) -> StepAction {
        let capability = fields.require("use", self.findings).and_then(|field| {
            parse_named(&field, "capability name", CapabilityName::new, self.findings)
        });
        let inputs = fields.take_either("input_mapping", "input_template", self.findings);
        let inputs = decode_templates(inputs, self.findings);
        let outputs = decode_outputs(fields, false, self.findings);
        match capability {
            Some(capability) => StepAction::Capability { capability, inputs, outputs },
            None => unreadable_task(inputs, outputs),
        }
    }

    fn decode_task_step(
        &mut self,
        fields: &mut ObjectReader<'n>,
        item: &DocumentField<'n>,
        depth: usize,
    ) -> StepAction {
        if let Some(key) = ["use", "condition", "steps"].into_iter().find(|key| fields.has(key)) {
            return self.decode_untyped_step(key, fields, item, depth);
        }
        let format = fields.take("format");
        let definition = fields.take_either("task", "definition", self.findings);
        match (&format, &definition) {
            (None, None) => self.findings.error_with_hint(error_code::MISSING_FIELD, item.at_value(), "the step has no action", "Give the step `format` and `task`, or `type: capability` and `use`, or a `type` with `steps`."),
            (None, Some(_)) => self.findings.error_with_hint(error_code::MISSING_FIELD, item.at_value(), "a step with a task requires the field `format`", "Write `format: OpenAPI`, `format: GraphQL` or `format: MCP`."),
            (Some(_), None) => {
                fields.require("task", self.findings);
            }
            (Some(_), Some(_)) => {}
        }
        let inputs = fields.take_either("input_mapping", "input_template", self.findings);
        let outputs = decode_outputs(fields, true, self.findings);
        let task = match (format, definition) {
            (Some(format), Some(definition)) => {
                self.tasks.decode(&format, &definition, self.findings)
            }
            _ => None,
        };
        match task {
            Some(task) => StepAction::Task {
                inputs: decode_inputs(&task, inputs, item, self.findings),
                task,
                outputs,
            },
            None => unreadable_task(decode_templates(inputs, self.findings), outputs),
        }
    }

    /// Decodes a step without `type`; its field `key` shows its kind.
    fn decode_untyped_step(
        &mut self,
        key: &'static str,
        fields: &mut ObjectReader<'n>,
        item: &DocumentField<'n>,
        depth: usize,
    ) -> StepAction {
        let kind = match key {
            "use" => StepKind::Capability,
            "condition" => StepKind::Condition,
            _ => StepKind::Sequence,
        };
        let message = format!("a step with `{key}` requires the field `type`");
        let hint = format!("Write `type: {}`.", kind.as_str());
        self.findings.error_with_hint(error_code::MISSING_FIELD, item.at_value(), message, hint);
        match kind {
            StepKind::Capability => self.decode_capability_step(fields),
            StepKind::Condition => StepAction::Block(self.decode_condition(fields, depth)),
            StepKind::Sequence | StepKind::Parallel | StepKind::Task => {
                StepAction::Block(self.decode_unknown_block(fields, depth))
            }
        }
    }
}

/// Reads a mapping from names to templates.
fn decode_templates(
    mapping: Option<DocumentField<'_>>,
    findings: &mut DiagnosticSink,
) -> IndexMap<String, Template> {
    let entries = mapping.map_or_else(Vec::new, |mapping| bounded_entries(&mapping, findings));
    entries
        .into_iter()
        .map(|(name, entry)| (name.to_owned(), Template::decode(entry.node, &entry.path, findings)))
        .collect()
}

/// Returns the entries of a mapping. Reports a mapping that is too large.
fn bounded_entries<'n>(
    field: &DocumentField<'n>,
    findings: &mut DiagnosticSink,
) -> Vec<(&'n str, DocumentField<'n>)> {
    let mut entries = field.entries(findings);
    if entries.len() > MAX_MAPPING {
        let message =
            format!("the mapping has {} entries; at most {MAX_MAPPING} are allowed", entries.len());
        findings.error(error_code::BAD_VALUE, field.at_value(), message);
        entries.truncate(MAX_MAPPING);
    }
    entries
}

/// A placeholder for a step with an unreadable task; its inputs and outputs are still known.
fn unreadable_task(inputs: IndexMap<String, Template>, outputs: Vec<OutputMapping>) -> StepAction {
    let inputs =
        inputs.into_iter().map(|(name, value)| (InputLocation::Variable(name), value)).collect();
    StepAction::Task { task: Arc::new(Task::substitute()), inputs, outputs }
}

/// Sets the hints for the words of other workflow languages.
fn explain_other_words(fields: &mut ObjectReader<'_>) {
    const CONDITION: &str = "Write `type: condition`, and the condition in the field `condition`.";
    const IF_TRUE: &str = "Write the steps for a true condition below `if_true`, in `steps`.";
    const IF_FALSE: &str = "Write the steps for a false condition below `if_false`, in `steps`.";
    const PARALLEL: &str = "Write `type: parallel`, and the steps in the field `steps`.";
    const ITEMS: &str = "Write the list in the field `for_each`.";
    const INPUTS: &str = "Write the inputs in the field `input_mapping`.";
    for (word, hint) in [
        ("if", CONDITION),
        ("when", CONDITION),
        ("then", IF_TRUE),
        ("else", IF_FALSE),
        ("otherwise", IF_FALSE),
        ("elif", "Write another condition step below `if_false`."),
        ("else_if", "Write another condition step below `if_false`."),
        ("uses", "Write the name of the capability in the field `use`."),
        ("parallel", PARALLEL),
        ("branches", PARALLEL),
        ("foreach", ITEMS),
        ("loop", ITEMS),
        ("with", INPUTS),
        ("inputs", INPUTS),
    ] {
        fields.explain(word, hint);
    }
}
