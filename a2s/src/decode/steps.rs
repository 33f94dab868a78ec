//! The execution section: steps, their tasks and their mappings.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;

use super::Findings;
use super::fields::{Fields, Taken, is_placeholder};
use super::header::parse_named;
use crate::code;
use crate::condition::Condition;
use crate::diagnostic::{Position, did_you_mean};
use crate::document::{Action, Block, Output, Place, Step, TaskInputs, VariableType};
use crate::name::{CapabilityName, Domain, StepId};
use crate::query::Query;
use crate::task::{ParameterPlace, Task, decode_graphql, decode_openapi};
use crate::template::{Template, is_name};
use crate::tree::{Kind, member_path};

/// The most steps of a document.
const MAX_STEPS: usize = 200;
/// The deepest nesting of steps.
const MAX_NESTING: usize = 16;
/// The most members of a mapping.
const MAX_MAPPING: usize = 200;

/// Reads steps; knows the shared tasks and what was seen so far.
pub(super) struct Decoder<'n, 'f> {
    tasks: Option<Taken<'n>>,
    domains: &'f [Domain],
    findings: &'f mut Findings,
    ids: BTreeMap<StepId, Position>,
    steps: usize,
}

impl<'n, 'f> Decoder<'n, 'f> {
    pub(super) fn new(
        tasks: Option<Taken<'n>>,
        domains: &'f [Domain],
        findings: &'f mut Findings,
    ) -> Self {
        if let Some(tasks) = &tasks {
            tasks.entries(findings);
        }
        Self { tasks, domains, findings, ids: BTreeMap::new(), steps: 0 }
    }

    /// Reads `execution`: its shared variables and the block of steps.
    pub(super) fn decode_execution(
        &mut self,
        field: &Taken<'n>,
    ) -> Option<(BTreeMap<String, VariableType>, Block)> {
        let mut fields = Fields::open(field, "`execution`", self.findings)?;
        let variables = match fields.take("variables") {
            Some(variables) => self.decode_variables(&variables),
            None => BTreeMap::new(),
        };
        let kind = fields.require("type", self.findings);
        let block = match kind.as_ref().and_then(|kind| kind.string(self.findings)) {
            Some("condition") => self.decode_condition(&mut fields, 0),
            Some("parallel") => Block::Parallel(self.require_steps(&mut fields, 0)),
            Some("sequence") => Block::Sequence(self.require_steps(&mut fields, 0)),
            other => {
                if let (Some(kind), Some(other)) = (&kind, other) {
                    let known = ["sequence", "parallel", "condition"];
                    self.unknown_word(kind, "type of execution", other, &known);
                }
                return Some((variables, self.decode_unknown_block(&mut fields, 0)));
            }
        };
        fields.finish(self.findings);
        Some((variables, block))
    }

    fn decode_variables(&mut self, field: &Taken<'n>) -> BTreeMap<String, VariableType> {
        let mut variables = BTreeMap::new();
        let Some(mut fields) = Fields::open(field, "`variables`", self.findings) else {
            return variables;
        };
        let shared = fields.take("shared");
        fields.finish(self.findings);
        for (name, entry) in shared.map_or_else(Vec::new, |shared| shared.entries(self.findings)) {
            if !is_name(name) {
                self.findings.error_with_hint(
                    code::BAD_NAME,
                    &entry.path,
                    entry.key,
                    format!("`{}` cannot name a variable", short(name)),
                    "Begin with a letter and use letters, digits, `_` and `-`.",
                );
                continue;
            }
            let kind = match entry.string(self.findings) {
                Some("string") => VariableType::String,
                Some("number") => VariableType::Number,
                Some("integer") => VariableType::Integer,
                Some("boolean") => VariableType::Boolean,
                Some("object") => VariableType::Object,
                Some("array") => VariableType::Array,
                Some(other) => {
                    let types = ["string", "number", "integer", "boolean", "object", "array"];
                    self.unknown_word(&entry, "type of variable", other, &types);
                    continue;
                }
                None => continue,
            };
            variables.insert(name.to_owned(), kind);
        }
        variables
    }

    /// Reports a word that is none of the `known` ones; `what` is what they are.
    fn unknown_word(&mut self, field: &Taken<'_>, what: &str, found: &str, known: &[&str]) {
        if is_placeholder(found) {
            self.findings.placeholder(field, found);
            return;
        }
        let list: Vec<_> = known.iter().map(|kind| format!("`{kind}`")).collect();
        let hint = match did_you_mean(found, known.iter().copied()) {
            Some(close) => format!("Did you mean `{close}`?"),
            None => format!("Write one of {}.", list.join(", ")),
        };
        let message = format!("`{}` is no {what}", short(found));
        let at = field.node.position;
        self.findings.error_with_hint(code::BAD_VALUE, &field.path, at, message, hint);
    }

    fn require_steps(&mut self, fields: &mut Fields<'n>, depth: usize) -> Vec<Step> {
        let steps = fields.require("steps", self.findings);
        steps.map_or_else(Vec::new, |steps| self.decode_steps(&steps, depth))
    }

    /// A block whose type was not understood: what stands in it is checked all the same.
    fn decode_unknown_block(&mut self, fields: &mut Fields<'n>, depth: usize) -> Block {
        let steps = fields.take("steps");
        Block::Sequence(steps.map_or_else(Vec::new, |steps| self.decode_steps(&steps, depth)))
    }

    /// A condition block: `condition`, `if_true` (or plain `steps`) and `if_false`.
    fn decode_condition(&mut self, fields: &mut Fields<'n>, depth: usize) -> Block {
        let condition = fields.require("condition", self.findings).and_then(|field| {
            let text = field.string(self.findings)?;
            Condition::parse(text)
                .map_err(|message| {
                    self.findings.error(
                        code::BAD_CONDITION,
                        &field.path,
                        field.node.position,
                        message,
                    );
                })
                .ok()
        });
        let plain = fields.take("steps");
        let branch = fields.take("if_true");
        if let (Some(plain), Some(_)) = (&plain, &branch) {
            let message = "`steps` is another name of `if_true.steps`; keep one";
            self.findings.error(code::DUPLICATE_KEY, &plain.path, plain.key, message);
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
        Block::Condition {
            condition: condition.unwrap_or_else(Condition::substitute),
            if_true,
            if_false,
        }
    }

    fn decode_branch(&mut self, field: &Taken<'n>, depth: usize) -> Vec<Step> {
        if matches!(field.node.kind, Kind::Array(_)) {
            self.findings.error_with_hint(
                code::WRONG_TYPE,
                &field.path,
                field.key,
                "this is a list; a branch is a mapping with the field `steps`",
                "Write `steps:` between the branch and its steps.",
            );
            return self.decode_steps(field, depth);
        }
        let Some(mut fields) = Fields::open(field, "a branch", self.findings) else {
            return Vec::new();
        };
        let steps = self.require_steps(&mut fields, depth);
        fields.finish(self.findings);
        steps
    }

    fn decode_steps(&mut self, field: &Taken<'n>, depth: usize) -> Vec<Step> {
        let items = field.items(self.findings);
        if matches!(field.node.kind, Kind::Array(_)) && items.is_empty() {
            self.findings.error_with_hint(
                code::BAD_VALUE,
                &field.path,
                field.node.position,
                "there are no steps; at least one belongs here",
                "Add a step.",
            );
        }
        if depth >= MAX_NESTING || self.steps + items.len() > MAX_STEPS {
            let message = format!(
                "there are more than {MAX_STEPS} steps, or more than {MAX_NESTING} levels of them"
            );
            self.findings.error(code::TOO_MANY_STEPS, &field.path, field.key, message);
            return Vec::new();
        }
        self.steps += items.len();
        items.iter().filter_map(|item| self.decode_step(item, depth + 1)).collect()
    }

    /// A step. Gives none only when there is nothing to read; what cannot be read of it has a
    /// substitute.
    fn decode_step(&mut self, item: &Taken<'n>, depth: usize) -> Option<Step> {
        let mut fields = Fields::open(item, "a step", self.findings)?;
        let id = fields.require("id", self.findings);
        let id = id.and_then(|field| self.decode_id(&field)).unwrap_or_else(StepId::substitute);
        let step =
            |action| Step { id, action, pointer: item.path.clone(), position: item.node.position };
        let kind = fields.take("type");
        let action = match kind.as_ref().map(|kind| kind.string(self.findings)) {
            None => self.decode_task_step(&mut fields, item, depth),
            Some(Some("capability")) => {
                fields.rename("a capability step");
                self.decode_capability_step(&mut fields)
            }
            Some(Some(block @ ("sequence" | "parallel" | "condition"))) => {
                Action::Block(self.decode_block_step(block, &mut fields, depth))
            }
            Some(word) => {
                if let (Some(kind), Some(word)) = (&kind, word) {
                    self.wrong_step_type(kind, word);
                }
                // What is left over depends on what was meant.
                let action = if fields.has("steps") {
                    Action::Block(self.decode_unknown_block(&mut fields, depth))
                } else if fields.has("use") {
                    self.decode_capability_step(&mut fields)
                } else {
                    self.decode_task_step(&mut fields, item, depth)
                };
                return Some(step(action));
            }
        };
        fields.finish(self.findings);
        Some(step(action))
    }

    fn decode_id(&mut self, field: &Taken<'n>) -> Option<StepId> {
        let id = parse_named(field, "step id", StepId::new, self.findings)?;
        let at = field.node.position;
        if let Some(first) = self.ids.insert(id.clone(), at) {
            let message = format!("the step on line {} is called `{id}` already", first.line);
            self.findings.error(code::DUPLICATE_ID, &field.path, at, message);
        }
        Some(id)
    }

    fn wrong_step_type(&mut self, kind: &Taken<'n>, word: &str) {
        if word == "task" {
            self.findings.error_with_hint(
                code::BAD_VALUE,
                &kind.path,
                kind.node.position,
                "a step with a task has no `type`",
                "Leave `type` out; `format` says what the task is.",
            );
        } else {
            let known = ["capability", "sequence", "parallel", "condition"];
            self.unknown_word(kind, "type of step", word, &known);
        }
    }

    fn decode_block_step(&mut self, kind: &str, fields: &mut Fields<'n>, depth: usize) -> Block {
        for field in ["input_mapping", "input_template", "output_mapping"] {
            fields.explain(field, "Write it on the steps inside; only they take and give values.");
        }
        match kind {
            "condition" => {
                fields.rename("a condition step");
                self.decode_condition(fields, depth)
            }
            "parallel" => {
                fields.rename("a parallel step");
                Block::Parallel(self.require_steps(fields, depth))
            }
            _ => {
                fields.rename("a sequence step");
                Block::Sequence(self.require_steps(fields, depth))
            }
        }
    }

    fn decode_capability_step(&mut self, fields: &mut Fields<'n>) -> Action {
        let capability = fields.require("use", self.findings).and_then(|field| {
            parse_named(&field, "capability name", CapabilityName::new, self.findings)
        });
        let inputs = fields.take_either("input_mapping", "input_template", self.findings);
        let inputs = self.decode_templates(inputs);
        let outputs = self.decode_outputs(fields);
        match capability {
            Some(capability) => Action::Capability { capability, inputs, outputs },
            None => unreadable_task(inputs, outputs),
        }
    }

    fn decode_task_step(
        &mut self,
        fields: &mut Fields<'n>,
        item: &Taken<'n>,
        depth: usize,
    ) -> Action {
        if let Some(key) = ["use", "condition", "steps"].into_iter().find(|key| fields.has(key)) {
            return self.decode_untyped_step(key, fields, item, depth);
        }
        let format = fields.take("format");
        let definition = fields.take_either("task", "definition", self.findings);
        match (&format, &definition) {
            (None, None) => self.findings.error_with_hint(
                code::MISSING_FIELD,
                &item.path,
                item.node.position,
                "the step does not say what to do",
                "Give it `format` and `task`, or `type: capability` and `use`, or a `type` with `steps`.",
            ),
            (None, Some(_)) => self.findings.error_with_hint(
                code::MISSING_FIELD,
                &item.path,
                item.node.position,
                "a step with a task needs the field `format`",
                "Write `format: OpenAPI` or `format: GraphQL`.",
            ),
            (Some(_), None) => {
                fields.require("task", self.findings);
            }
            (Some(_), Some(_)) => {}
        }
        let inputs = fields.take_either("input_mapping", "input_template", self.findings);
        let outputs = self.decode_outputs(fields);
        let task = match (format, definition) {
            (Some(format), Some(definition)) => self.decode_task(&format, definition),
            _ => None,
        };
        match task {
            Some(task) => {
                Action::Task { inputs: self.decode_inputs(&task, inputs, item), task, outputs }
            }
            None => unreadable_task(self.decode_templates(inputs), outputs),
        }
    }

    /// A step without `type` whose field `key` shows what it is.
    fn decode_untyped_step(
        &mut self,
        key: &'static str,
        fields: &mut Fields<'n>,
        item: &Taken<'n>,
        depth: usize,
    ) -> Action {
        let kind = match key {
            "use" => "capability",
            "condition" => "condition",
            _ => "sequence",
        };
        self.findings.error_with_hint(
            code::MISSING_FIELD,
            &item.path,
            item.node.position,
            format!("a step with `{key}` needs the field `type`"),
            format!("Write `type: {kind}`."),
        );
        match kind {
            "capability" => self.decode_capability_step(fields),
            "condition" => Action::Block(self.decode_condition(fields, depth)),
            _ => Action::Block(self.decode_unknown_block(fields, depth)),
        }
    }

    fn decode_task(&mut self, format: &Taken<'n>, definition: Taken<'n>) -> Option<Task> {
        let format_text = format.string(self.findings)?;
        let definition = self.follow_ref(definition)?;
        let (task, address) = match format_text {
            "OpenAPI" => {
                let (task, address) = decode_openapi(&definition, self.findings)?;
                (Task::OpenApi(Box::new(task)), address)
            }
            "GraphQL" => {
                let (task, address) = decode_graphql(&definition, self.findings)?;
                (Task::Graphql(Box::new(task)), address)
            }
            other => {
                self.unknown_word(format, "format", other, &["OpenAPI", "GraphQL"]);
                return None;
            }
        };
        if !self.domains.is_empty() && !self.domains.iter().any(|domain| domain.covers(task.url()))
        {
            let host = task.url().host_str().unwrap_or_default();
            let port = task.url().port().map_or_else(String::new, |port| format!(":{port}"));
            self.findings.error_with_hint(
                code::FOREIGN_HOST,
                &address.path,
                address.position,
                format!("the task addresses `{host}{port}`, which `domains` does not name"),
                format!("Add `{host}{port}` to `domains`, or correct the address."),
            );
        }
        Some(task)
    }

    /// The task itself, or the shared one that `$ref: "#/tasks/NAME"` points to.
    fn follow_ref(&mut self, field: Taken<'n>) -> Option<Taken<'n>> {
        let Some(reference) = field.node.get("$ref") else { return Some(field) };
        let only = field.node.members().is_some_and(|members| members.len() == 1);
        let target = reference.as_str().and_then(|text| text.strip_prefix("#/tasks/"));
        let name = target.map(|name| name.replace("~1", "/").replace("~0", "~"));
        let found = name.as_deref().and_then(|name| {
            let tasks = self.tasks.as_ref()?;
            let member = tasks.node.member(name)?;
            let path = member_path(&tasks.path, name);
            Some(Taken { node: &member.value, path, key: member.position })
        });
        if !only || found.is_none() {
            let known: Vec<_> = self
                .tasks
                .iter()
                .filter_map(|tasks| tasks.node.members())
                .flatten()
                .map(|member| format!("`#/tasks/{}`", member.key))
                .collect();
            let message = match (only, &name) {
                (false, _) => "`$ref` stands alone in its mapping".to_owned(),
                (true, Some(name)) => format!("`tasks` has no `{}`", short(name)),
                (true, None) => "`$ref` does not begin with `#/tasks/`".to_owned(),
            };
            let hint = match (only, known.is_empty()) {
                (false, _) => "Remove what stands beside it.".to_owned(),
                (true, true) => code::BAD_REF.remedy.to_owned(),
                (true, false) => format!("Point at one of {}.", known.join(", ")),
            };
            let path = member_path(&field.path, "$ref");
            let at = reference.position;
            self.findings.error_with_hint(code::BAD_REF, &path, at, message, hint);
            return None;
        }
        found
    }

    fn decode_outputs(&mut self, fields: &mut Fields<'n>) -> Vec<Output> {
        let Some(mapping) = fields.take("output_mapping") else { return Vec::new() };
        let mut outputs = Vec::new();
        for (name, entry) in self.entries(&mapping) {
            let parts: Vec<String> = name.split('.').map(str::to_owned).collect();
            let named = parts.iter().all(|part| is_name(part)) && parts.len() <= 8;
            if !named {
                let message = format!("`{}` cannot name an output", short(name));
                self.findings.error(code::BAD_OUTPUT_NAME, &entry.path, entry.key, message);
            }
            let Some(text) = entry.string(self.findings) else { continue };
            match Query::parse(text) {
                Ok(query) if named => outputs.push(Output { name: parts, query }),
                Ok(_) => {}
                Err(message) => {
                    let hint = match Query::suggest(text) {
                        _ if text.contains("${") => {
                            "A path into the answer begins with `$.`; `${…}` belongs into inputs."
                                .to_owned()
                        }
                        Some(query) => format!("Did you mean `{}`?", query.source()),
                        None => code::BAD_QUERY.remedy.to_owned(),
                    };
                    let at = entry.node.position;
                    self.findings.error_with_hint(code::BAD_QUERY, &entry.path, at, message, hint);
                }
            }
        }
        outputs
    }

    /// Templates by name, wherever they will go.
    fn decode_templates(&mut self, mapping: Option<Taken<'n>>) -> IndexMap<String, Template> {
        let entries = mapping.map_or_else(Vec::new, |mapping| self.entries(&mapping));
        entries
            .into_iter()
            .map(|(name, entry)| {
                (name.to_owned(), Template::decode(entry.node, &entry.path, self.findings))
            })
            .collect()
    }

    /// The entries of a mapping that is not too large.
    fn entries(&mut self, field: &Taken<'n>) -> Vec<(&'n str, Taken<'n>)> {
        let mut entries = field.entries(self.findings);
        if entries.len() > MAX_MAPPING {
            let message = format!("there are {} entries; {MAX_MAPPING} is the most", entries.len());
            self.findings.error(code::BAD_VALUE, &field.path, field.node.position, message);
            entries.truncate(MAX_MAPPING);
        }
        entries
    }

    /// Gives each input its place in the request, and reports those that have none and those that
    /// are missing.
    fn decode_inputs(
        &mut self,
        task: &Task,
        mapping: Option<Taken<'n>>,
        step: &Taken<'n>,
    ) -> TaskInputs {
        let mut inputs = Inputs { placed: TaskInputs::new(), meant: BTreeSet::new() };
        for (key, entry) in mapping.map_or_else(Vec::new, |mapping| self.entries(&mapping)) {
            match (task, key) {
                (Task::OpenApi(operation), "body") => {
                    if operation.body.is_none() {
                        self.findings.error_with_hint(
                            code::UNKNOWN_INPUT,
                            &entry.path,
                            entry.key,
                            "the operation takes no body",
                            "Add `requestBody` to the operation, or remove the input.",
                        );
                    }
                    let template = Template::decode(entry.node, &entry.path, self.findings);
                    inputs.placed.insert(Place::Body, template);
                }
                (Task::OpenApi(_), _) => match ParameterPlace::of_group(key) {
                    Some(group) => {
                        for (name, entry) in self.entries(&entry) {
                            self.place(task, Some(group), name, &entry, &mut inputs);
                        }
                    }
                    None => self.place(task, None, key, &entry, &mut inputs),
                },
                (Task::Graphql(_), "variables") => {
                    for (name, entry) in self.entries(&entry) {
                        self.place(task, None, name, &entry, &mut inputs);
                    }
                }
                (Task::Graphql(_), _) => {
                    self.findings.error_with_hint(
                        code::UNKNOWN_INPUT,
                        &entry.path,
                        entry.key,
                        format!("a GraphQL step takes `variables`, not `{}`", short(key)),
                        "Write the values below `variables`.",
                    );
                    // Which of them are missing is only known once they stand there.
                    inputs.meant.extend(required_places(task));
                }
            }
        }
        for place in required_places(task) {
            if !inputs.placed.contains_key(&place) && !inputs.meant.contains(&place) {
                let message = format!("the task needs `{place}`, which the step does not map");
                let hint = format!("Add it to `input_mapping`: `{place}`.");
                let at = step.node.position;
                self.findings.error_with_hint(code::MISSING_INPUT, &step.path, at, message, hint);
            }
        }
        inputs.placed
    }

    /// Places one named input: a parameter of the operation, or a variable of the query.
    fn place(
        &mut self,
        task: &Task,
        group: Option<ParameterPlace>,
        name: &str,
        entry: &Taken<'n>,
        inputs: &mut Inputs,
    ) {
        let template = Template::decode(entry.node, &entry.path, self.findings);
        let places = parameter_places(task);
        let called: Vec<&Place> =
            places.iter().filter(|place| place_is_called(place, name)).collect();
        let fitting: Vec<&Place> = called
            .iter()
            .copied()
            .filter(|place| group.is_none_or(|group| group.holds(place)))
            .collect();
        match fitting.as_slice() {
            [place] => {
                if inputs.placed.insert((*place).clone(), template).is_some() {
                    let message = format!("`{place}` is mapped twice");
                    let at = entry.key;
                    self.findings.error(code::DUPLICATE_KEY, &entry.path, at, message);
                }
            }
            [] => {
                let (hint, meant) = suggest_place(&called, &places, name);
                let message = format!("the task takes no input `{}` here", short(name));
                let at = entry.key;
                self.findings.error_with_hint(code::UNKNOWN_INPUT, &entry.path, at, message, hint);
                inputs.meant.extend(meant.cloned());
            }
            [_, _, ..] => {
                let list: Vec<_> = fitting.iter().map(|place| format!("`{place}`")).collect();
                let message = format!("`{name}` could be {}", list.join(" or "));
                let hint = format!("Write it under {}.", groups_of(&fitting));
                let at = entry.key;
                self.findings.error_with_hint(
                    code::AMBIGUOUS_INPUT,
                    &entry.path,
                    at,
                    message,
                    hint,
                );
                inputs.meant.extend(fitting.into_iter().cloned());
            }
        }
    }
}

/// The inputs of a task while they are read.
struct Inputs {
    placed: TaskInputs,
    /// The places of inputs that are wrong in another way: they are not missing as well.
    meant: BTreeSet<Place>,
}

/// Stands for a step whose task could not be read: what flows in and out of it is still known.
fn unreadable_task(inputs: IndexMap<String, Template>, outputs: Vec<Output>) -> Action {
    let inputs = inputs.into_iter().map(|(name, value)| (Place::Variable(name), value)).collect();
    Action::Task { task: Task::substitute(), inputs, outputs }
}

/// What to do about an input `name` that has no place, and the place that was meant.
fn suggest_place<'p>(
    called: &[&'p Place],
    places: &'p [Place],
    name: &str,
) -> (String, Option<&'p Place>) {
    if let Some(place) = called.first() {
        return (format!("Write it under {}.", groups_of(&[place])), Some(place));
    }
    let close = did_you_mean(name, places.iter().map(place_name));
    let meant = close.and_then(|close| places.iter().find(|place| place_name(place) == close));
    let hint = match meant {
        Some(place) => format!("Did you mean `{}`?", place_name(place)),
        None if places.is_empty() => "The task takes no inputs.".to_owned(),
        None => {
            let list: Vec<_> = places.iter().map(|place| format!("`{place}`")).collect();
            format!("It takes {}.", list.join(", "))
        }
    };
    (hint, meant)
}

/// The mappings that hold these places: "`pathParameters` or `queryParameters`".
fn groups_of(places: &[&Place]) -> String {
    let groups: Vec<_> = places
        .iter()
        .map(|place| match place {
            Place::Path(_) => "`pathParameters`",
            Place::Query(_) => "`queryParameters`",
            Place::Header(_) => "`headerParameters`",
            Place::Cookie(_) => "`cookieParameters`",
            Place::Variable(_) => "`variables`",
            Place::Body => "`body`",
        })
        .collect();
    groups.join(" or ")
}

/// Every named place of a task.
fn parameter_places(task: &Task) -> Vec<Place> {
    match task {
        Task::OpenApi(operation) => {
            operation.parameters.iter().map(|parameter| parameter.input_place()).collect()
        }
        Task::Graphql(operation) => {
            operation.variables.iter().map(|v| Place::Variable(v.name.clone())).collect()
        }
    }
}

/// The places without which the task cannot be sent.
fn required_places(task: &Task) -> Vec<Place> {
    match task {
        Task::OpenApi(operation) => {
            let body = operation.body.as_ref().is_some_and(|body| body.required);
            operation
                .parameters
                .iter()
                .filter(|parameter| parameter.required)
                .map(|parameter| parameter.input_place())
                .chain(body.then_some(Place::Body))
                .collect()
        }
        Task::Graphql(operation) => operation
            .variables
            .iter()
            .filter(|variable| variable.required)
            .map(|variable| Place::Variable(variable.name.clone()))
            .collect(),
    }
}

fn place_name(place: &Place) -> &str {
    match place {
        Place::Path(name)
        | Place::Query(name)
        | Place::Header(name)
        | Place::Cookie(name)
        | Place::Variable(name) => name,
        Place::Body => "body",
    }
}

/// Header names do not tell case apart (RFC 9110, 5.1); all others do.
fn place_is_called(place: &Place, name: &str) -> bool {
    match place {
        Place::Header(header) => header.eq_ignore_ascii_case(name),
        _ => place_name(place) == name,
    }
}

/// A foreign text cut to a length that fits a message.
pub(crate) fn short(text: &str) -> String {
    if text.chars().count() <= 60 {
        text.to_owned()
    } else {
        text.chars().take(59).chain(['…']).collect()
    }
}
