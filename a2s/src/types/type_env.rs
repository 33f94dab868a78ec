//! The types of names, templates and answers of one capability.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;

use crate::document::{
    Capability, ForEach, OnError, OutputMapping, OutputSource, Parameter, Step, StepBlock,
    TaskStep, ValueType,
};
use indexmap::IndexMap;
use serde_json::Value;

use super::{InferredType, JsonTypes, MemberPresence, ObjectType, SchemaContext};
use crate::budget::AnalysisBudget;
use crate::task::{GraphqlTask, MediaType, OpenApiTask, Task};
use crate::template::{Template, VariableReference};

/// The types of the variables of a capability.
pub(crate) struct TypeEnv<'n> {
    pub(crate) capability: &'n Capability,
    pub(crate) budget: &'n AnalysisBudget,
    bindings: BTreeMap<&'n str, Vec<OutputBinding<'n>>>,
    /// The types of the responses that were already computed, by the pointer of the step.
    answers: RefCell<BTreeMap<&'n str, InferredType<'n>>>,
}

/// An output of a step, and the loops around it, the outermost first.
pub(super) struct OutputBinding<'n> {
    pub(super) step: &'n Step,
    pub(super) output: &'n OutputMapping,
    enclosing_loops: Vec<EnclosingLoop<'n>>,
    own_type: OnceCell<InferredType<'n>>,
}

/// A `for_each` around an output.
#[derive(Clone, Copy)]
struct EnclosingLoop<'n> {
    step: &'n Step,
    /// True when each successful iteration sets the output.
    always_sets: bool,
}

/// The scope of a reader: inside a loop, it sees the value of its own iteration, and not a list of all.
#[derive(Debug, Clone, Default)]
pub(crate) struct LoopScope<'n> {
    enclosing_loops: Vec<&'n str>,
    locals: Vec<(&'n str, InferredType<'n>)>,
}

impl<'n> LoopScope<'n> {
    /// Enters an iteration of a step with items of this type.
    pub(super) fn enter_loop(
        &mut self,
        step: &'n Step,
        for_each: &'n ForEach,
        item: InferredType<'n>,
    ) {
        self.enclosing_loops.push(&step.pointer);
        self.locals.push((&for_each.name, item));
    }

    pub(super) fn leave_loop(&mut self) {
        self.enclosing_loops.pop();
        self.locals.pop();
    }

    /// Enters the steps of `catch`, which can read the error under `name`.
    pub(super) fn enter_catch(&mut self, name: &'n str) {
        let status = JsonTypes::INTEGER.or(JsonTypes::NULL);
        let text = JsonTypes::STRING;
        let members = [("code", text), ("message", text), ("step", text), ("status", status)];
        let members = members.map(|(name, kinds)| {
            (name.to_owned(), (InferredType::Kinds(kinds), MemberPresence::Always))
        });
        let error = ObjectType { members: members.into_iter().collect(), open: false };
        self.locals.push((name, InferredType::Object(error)));
    }

    pub(super) fn leave_catch(&mut self) {
        self.locals.pop();
    }
}

impl<'n> TypeEnv<'n> {
    pub(crate) fn new(capability: &'n Capability, fuel: &'n AnalysisBudget) -> Self {
        let mut names = Self {
            capability,
            budget: fuel,
            bindings: BTreeMap::new(),
            answers: RefCell::new(BTreeMap::new()),
        };
        names.gather_block(&capability.execution, &mut Vec::new());
        names
    }

    fn gather_block(&mut self, block: &'n StepBlock, loops: &mut Vec<EnclosingLoop<'n>>) {
        let is_sure = block.choice().is_none();
        for step in block.children() {
            self.gather(step, is_sure, loops);
        }
    }

    /// Collects the outputs of a step and the steps below it. `is_sure` is true when the step runs whenever
    /// its enclosing block runs.
    fn gather(&mut self, step: &'n Step, is_sure: bool, loops: &mut Vec<EnclosingLoop<'n>>) {
        let around = loops.last().copied();
        if let (Some(innermost), false) = (loops.last_mut(), is_sure) {
            innermost.always_sets = false;
        }
        let entered = step.control.for_each.is_some();
        if entered {
            loops.push(EnclosingLoop { step, always_sets: true });
        }
        let stops = step.control.on_error == OnError::Stop;
        if let (Some(innermost), false) = (loops.last_mut(), stops) {
            innermost.always_sets = false;
        }
        for output in step.action.outputs() {
            let setter = OutputBinding {
                step,
                output,
                enclosing_loops: loops.clone(),
                own_type: OnceCell::new(),
            };
            self.bindings.entry(output.variable()).or_default().push(setter);
        }
        if let Some(block) = step.action.as_block() {
            self.gather_block(block, loops);
        }
        for caught in step.control.on_error.caught() {
            self.gather(caught, false, loops);
        }
        if entered {
            loops.pop();
        }
        if let (Some(innermost), Some(around)) = (loops.last_mut(), around) {
            *innermost = around;
        }
    }

    /// Returns the outputs that set a variable, or a member of it.
    pub(super) fn bindings(&self, variable: &str) -> &[OutputBinding<'n>] {
        self.bindings.get(variable).map_or(&[], Vec::as_slice)
    }

    /// Returns the only output that sets a variable, if it sets the complete variable and is outside of
    /// loops.
    pub(crate) fn only_output(&self, variable: &str) -> Option<(&'n Step, &'n OutputMapping)> {
        let [setter] = self.bindings(variable) else { return None };
        let is_whole = setter.enclosing_loops.is_empty() && setter.output.name.len() == 1;
        is_whole.then_some((setter.step, setter.output))
    }

    /// Returns every variable that steps set.
    pub(crate) fn set(&self) -> impl Iterator<Item = &'n str> {
        self.bindings.keys().copied()
    }

    /// The type of a variable, for a reader at `scope`.
    pub(crate) fn variable(&self, name: &str, scope: &LoopScope<'n>) -> InferredType<'n> {
        if let Some((_, local)) = scope.locals.iter().rev().find(|(local, _)| *local == name) {
            return local.clone();
        }
        let parameter = self.capability.parameter(name);
        let shared = self.capability.variables.get(name).copied();
        let setters = self.bindings(name);
        if setters.is_empty() {
            // It is an input.
            let declared =
                shared.map_or(InferredType::Unknown, |kind| InferredType::Kinds(kind.into()));
            return parameter.map_or(declared, parameter_type);
        }
        if !self.budget.spend(setters.len()) {
            return InferredType::Unknown;
        }
        let mut whole: Vec<InferredType<'n>> = parameter.map(parameter_type).into_iter().collect();
        whole.extend(shared.map(initial_type));
        let mut members = ObjectType::default();
        for setter in setters {
            let value = self.visible_type(setter, scope);
            match (setter.output.name.get(1..), shared) {
                (Some(below @ [_, ..]), _) => members.put(below, value),
                (_, Some(kind)) if value.is_unknown() => {
                    whole.push(InferredType::Kinds(kind.into()))
                }
                _ => whole.push(value),
            }
        }
        if !members.members.is_empty() {
            // A value set as a whole may have other members.
            members.open = whole.len() > usize::from(shared.is_some());
            whole.push(InferredType::Object(members));
        }
        InferredType::any_of(whole)
    }

    /// The type of an output for a reader at `scope`: the value inside the loops that it shares with the
    /// step, a list of values from outside.
    pub(super) fn visible_type(
        &self,
        setter: &OutputBinding<'n>,
        scope: &LoopScope<'n>,
    ) -> InferredType<'n> {
        let own = setter.own_type.get_or_init(|| self.output(setter.step, setter.output)).clone();
        let outside = setter.enclosing_loops.iter().rev();
        let outside =
            outside.take_while(|around| !scope.enclosing_loops.contains(&&*around.step.pointer));
        outside.fold(
            own,
            |value, around| {
                if around.always_sets { value.list() } else { value.or_null().list() }
            },
        )
    }

    fn output(&self, step: &'n Step, output: &'n OutputMapping) -> InferredType<'n> {
        let value = match &output.source {
            OutputSource::Header(_) => InferredType::Kinds(JsonTypes::STRING),
            OutputSource::Status => InferredType::Kinds(JsonTypes::INTEGER),
            OutputSource::Body(query) => {
                let found =
                    self.answer(step).select(&query.segments()).unwrap_or(InferredType::Unknown);
                if query.is_singular() { found } else { found.list() }
            }
        };
        match &output.default {
            Some(default) => value.or(InferredType::literal(default)),
            None => value,
        }
    }

    /// Returns the type of the body of a step's successful response.
    pub(super) fn answer(&self, step: &'n Step) -> InferredType<'n> {
        let Some(TaskStep { task, .. }) = step.action.as_task() else {
            return InferredType::Unknown;
        };
        if let Some(known) = self.answers.borrow().get(&*step.pointer) {
            return known.clone();
        }
        let answer = match &**task {
            Task::OpenApi(task) => openapi_answer(task, self.budget),
            Task::Graphql(task) => graphql_answer(task),
            Task::Mcp(task) => {
                let book = SchemaContext { schemas: task.outputs(), budget: self.budget };
                InferredType::from_schema(&task.output_schema, book)
            }
        };
        self.answers.borrow_mut().insert(&step.pointer, answer.clone());
        answer
    }

    /// Returns the type of the body of an operation's response with this status; `None` when the operation
    /// does not declare it.
    pub(super) fn answer_with(
        &self,
        task: &'n OpenApiTask,
        status: u16,
    ) -> Option<InferredType<'n>> {
        let names = [status.to_string(), format!("{}XX", status / 100), "default".to_owned()];
        let response = names.iter().find_map(|name| {
            let mut responses = task.responses.iter();
            responses.find(|(status, _)| status.eq_ignore_ascii_case(name))
        });
        let book = SchemaContext { schemas: task.into(), budget: self.budget };
        response.map(|(_, response)| response_type(response, book))
    }

    /// The type of a template's result.
    pub(crate) fn template(
        &self,
        template: &'n Template,
        scope: &LoopScope<'n>,
    ) -> InferredType<'n> {
        match template {
            Template::Literal(value) => InferredType::literal(value),
            Template::Text(_) => InferredType::Kinds(JsonTypes::STRING),
            Template::Reference(reference) => self.reference(reference, scope),
            Template::Array(items) => {
                // An item that may be left out shifts the later ones.
                if items.iter().any(|item| self.may_be_left_out(item)) {
                    let items = items.iter().map(|item| self.template(item, scope));
                    return InferredType::any_of(items).list();
                }
                InferredType::Tuple(items.iter().map(|item| self.template(item, scope)).collect())
            }
            Template::Object(members) => {
                let members = members.iter().map(|(name, member)| {
                    let presence = match self.may_be_left_out(member) {
                        true => MemberPresence::IfProvided,
                        false => MemberPresence::Always,
                    };
                    (name.clone(), (self.template(member, scope), presence))
                });
                InferredType::Object(ObjectType { members: members.collect(), open: false })
            }
        }
    }

    /// The type of a reference's target; unknown when it leads nowhere.
    pub(crate) fn reference(
        &self,
        reference: &VariableReference,
        scope: &LoopScope<'n>,
    ) -> InferredType<'n> {
        self.variable(reference.variable(), scope)
            .at(&reference.path_keys())
            .unwrap_or(InferredType::Unknown)
    }

    /// Returns true when a template is exactly an optional parameter, so that it is left out when there is
    /// no value.
    pub(super) fn may_be_left_out(&self, template: &Template) -> bool {
        let Template::Reference(reference) = template else { return false };
        let parameter = self.capability.parameter(reference.variable());
        reference.is_plain()
            && self.bindings(reference.variable()).is_empty()
            && parameter.is_some_and(|p| !p.required && p.default.is_none())
    }
}

impl<'s> ObjectType<'s> {
    /// Adds the type of a value that is set at a path of members.
    fn put(&mut self, way: &[String], value: InferredType<'s>) {
        let Some((name, below)) = way.split_first() else { return };
        let known = self.members.shift_remove(name).map(|(known, _)| known);
        let value = match (known, below.is_empty()) {
            (None, true) => value,
            (Some(known), true) => known.or(value),
            (known, false) => {
                match known.unwrap_or_else(|| InferredType::Object(ObjectType::default())) {
                    InferredType::Object(mut inner) => {
                        inner.put(below, value);
                        InferredType::Object(inner)
                    }
                    _ => InferredType::Unknown,
                }
            }
        };
        self.members.insert(name.clone(), (value, MemberPresence::Optional));
    }
}

fn parameter_type(parameter: &Parameter) -> InferredType<'_> {
    match (parameter.choices.as_slice(), parameter.kind) {
        ([], None) => InferredType::Unknown,
        ([], Some(kind)) => InferredType::Kinds(kind.into()),
        (choices, _) => InferredType::Choice(choices.iter().collect()),
    }
}

fn initial_type<'s>(kind: ValueType) -> InferredType<'s> {
    match kind {
        ValueType::Object => {
            InferredType::Object(ObjectType { members: IndexMap::new(), open: false })
        }
        ValueType::String
        | ValueType::Number
        | ValueType::Integer
        | ValueType::Boolean
        | ValueType::Array => InferredType::Kinds(JsonTypes::NULL),
    }
}

/// The type of a success response's body: unknown as soon as one of these responses does not declare it.
fn openapi_answer<'s>(task: &'s OpenApiTask, fuel: &'s AnalysisBudget) -> InferredType<'s> {
    let (responses, book) = (&task.responses, SchemaContext { schemas: task.into(), budget: fuel });
    let has_success = responses.iter().any(|(status, _)| status.starts_with('2'));
    let mut types = Vec::new();
    for (status, response) in responses {
        let is_success = match status.as_str() {
            "default" => !has_success,
            status => status.starts_with('2'),
        };
        if is_success {
            types.push(match status.as_str() {
                "204" | "205" => InferredType::Kinds(JsonTypes::NULL),
                _ => response_type(response, book),
            });
        }
    }
    InferredType::any_of(types)
}

/// Returns the type of a response: the type of its JSON, which requests prefer to all other media types.
fn response_type<'s>(response: &'s Value, book: SchemaContext<'s>) -> InferredType<'s> {
    let content = response.get("content").and_then(Value::as_object);
    let types = content.into_iter().flatten().filter_map(|(media_type, media)| {
        let media_type = MediaType::parse(media_type)?;
        let schema = media.get("schema").unwrap_or(&Value::Null);
        let is_json =
            media_type.is_json() || media_type.is("*/*") || media_type.is("application/*");
        is_json.then(|| InferredType::from_schema(schema, book))
    });
    InferredType::any_of(types)
}

fn graphql_answer<'s>(task: &GraphqlTask) -> InferredType<'s> {
    let Some(selection) = task.selection() else { return InferredType::Unknown };
    let data = (InferredType::Selection(selection), MemberPresence::Always);
    let other = || (InferredType::Unknown, MemberPresence::Optional);
    let members = [("data", data), ("errors", other()), ("extensions", other())];
    let members = members.map(|(name, member)| (name.to_owned(), member));
    InferredType::Object(ObjectType { members: members.into_iter().collect(), open: false })
}
