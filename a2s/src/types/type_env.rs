//! The types of names, templates and answers of one capability.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde_json::Value;

use super::{Book, Kinds, Object, Presence, Type};
use crate::budget::Fuel;
use crate::document::{
    Action, Block, Capability, ForEach, OnError, Output, OutputSource, Parameter, Step, ValueType,
};
use crate::task::{GraphqlTask, MediaType, OpenApiTask, Task};
use crate::template::{Reference, Template};

/// The types of the names of a capability.
pub(crate) struct Names<'n> {
    pub(crate) capability: &'n Capability,
    pub(crate) fuel: &'n Fuel,
    setters: BTreeMap<&'n str, Vec<Setter<'n>>>,
    /// The answers of steps that were asked for, by pointer.
    answers: RefCell<BTreeMap<&'n str, Type<'n>>>,
}

/// An output of a step, and the loops around it, the outermost first.
pub(super) struct Setter<'n> {
    pub(super) step: &'n Step,
    pub(super) output: &'n Output,
    loops: Vec<Loop<'n>>,
    own: OnceCell<Type<'n>>,
}

/// A `for_each` around an output.
#[derive(Clone, Copy)]
struct Loop<'n> {
    step: &'n Step,
    /// Whether each iteration that ends well sets the output.
    sure: bool,
}

/// The place of a reader: what it sees as an iteration does, and not as a list of all.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope<'n> {
    inside: Vec<&'n str>,
    locals: Vec<(&'n str, Type<'n>)>,
}

impl<'n> Scope<'n> {
    /// Goes into an iteration of a step, whose items are of this type.
    pub(super) fn enter_loop(&mut self, step: &'n Step, for_each: &'n ForEach, item: Type<'n>) {
        self.inside.push(&step.pointer);
        self.locals.push((&for_each.name, item));
    }

    pub(super) fn leave_loop(&mut self) {
        self.inside.pop();
        self.locals.pop();
    }

    /// Goes into the steps of `catch`, which see what happened under `name`.
    pub(super) fn enter_catch(&mut self, name: &'n str) {
        let status = Kinds::INTEGER.or(Kinds::NULL);
        let text = Kinds::STRING;
        let members = [("code", text), ("message", text), ("step", text), ("status", status)];
        let members =
            members.map(|(name, kinds)| (name.to_owned(), (Type::Kinds(kinds), Presence::Sure)));
        let error = Object { members: members.into_iter().collect(), open: false };
        self.locals.push((name, Type::Object(error)));
    }

    pub(super) fn leave_catch(&mut self) {
        self.locals.pop();
    }
}

impl<'n> Names<'n> {
    pub(crate) fn of(capability: &'n Capability, fuel: &'n Fuel) -> Self {
        let mut names = Self {
            capability,
            fuel,
            setters: BTreeMap::new(),
            answers: RefCell::new(BTreeMap::new()),
        };
        names.gather_block(&capability.execution, &mut Vec::new());
        names
    }

    fn gather_block(&mut self, block: &'n Block, loops: &mut Vec<Loop<'n>>) {
        let is_sure = !matches!(block, Block::Condition { .. });
        for step in block.children() {
            self.gather(step, is_sure, loops);
        }
    }

    /// Gathers the outputs of a step and those below it. `is_sure` says that the step runs
    /// whenever what is around it does.
    fn gather(&mut self, step: &'n Step, is_sure: bool, loops: &mut Vec<Loop<'n>>) {
        let around = loops.last().copied();
        if let (Some(innermost), false) = (loops.last_mut(), is_sure) {
            innermost.sure = false;
        }
        let entered = step.control.for_each.is_some();
        if entered {
            loops.push(Loop { step, sure: true });
        }
        let stops = step.control.on_error == OnError::Stop;
        if let (Some(innermost), false) = (loops.last_mut(), stops) {
            innermost.sure = false;
        }
        for output in step.action.outputs() {
            let setter = Setter { step, output, loops: loops.clone(), own: OnceCell::new() };
            self.setters.entry(output.variable()).or_default().push(setter);
        }
        if let Action::Block(block) = &step.action {
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

    /// The outputs that set a variable, or a member of it.
    pub(super) fn setters(&self, variable: &str) -> &[Setter<'n>] {
        self.setters.get(variable).map_or(&[], Vec::as_slice)
    }

    /// The only output that sets a variable, as a whole and outside of loops.
    pub(crate) fn only_output(&self, variable: &str) -> Option<(&'n Step, &'n Output)> {
        let [setter] = self.setters(variable) else { return None };
        let is_whole = setter.loops.is_empty() && setter.output.name.len() == 1;
        is_whole.then_some((setter.step, setter.output))
    }

    /// Every variable that steps set.
    pub(crate) fn set(&self) -> impl Iterator<Item = &'n str> {
        self.setters.keys().copied()
    }

    /// What a variable holds, for a reader at `scope`.
    pub(crate) fn variable(&self, name: &str, scope: &Scope<'n>) -> Type<'n> {
        if let Some((_, local)) = scope.locals.iter().rev().find(|(local, _)| *local == name) {
            return local.clone();
        }
        let parameter = self.capability.parameter(name);
        let shared = self.capability.variables.get(name).copied();
        let setters = self.setters(name);
        if setters.is_empty() {
            // It is an input.
            let declared = shared.map_or(Type::Unknown, |kind| Type::Kinds(kind.into()));
            return parameter.map_or(declared, parameter_type);
        }
        if !self.fuel.burn(setters.len()) {
            return Type::Unknown;
        }
        let mut whole: Vec<Type<'n>> = parameter.map(parameter_type).into_iter().collect();
        whole.extend(shared.map(initial_type));
        let mut members = Object::default();
        for setter in setters {
            let value = self.seen(setter, scope);
            match (setter.output.name.get(1..), shared) {
                (Some(below @ [_, ..]), _) => members.put(below, value),
                (_, Some(kind)) if value.is_unknown() => whole.push(Type::Kinds(kind.into())),
                _ => whole.push(value),
            }
        }
        if !members.members.is_empty() {
            // What is set as a whole may bring other members.
            members.open = whole.len() > usize::from(shared.is_some());
            whole.push(Type::Object(members));
        }
        Type::any_of(whole)
    }

    /// What a reader at `scope` sees of an output: the value inside the loops that it shares with
    /// the step, a list of them from outside.
    pub(super) fn seen(&self, setter: &Setter<'n>, scope: &Scope<'n>) -> Type<'n> {
        let own = setter.own.get_or_init(|| self.output(setter.step, setter.output)).clone();
        let outside = setter.loops.iter().rev();
        let outside = outside.take_while(|around| !scope.inside.contains(&&*around.step.pointer));
        outside.fold(
            own,
            |value, around| {
                if around.sure { value.list() } else { value.or_null().list() }
            },
        )
    }

    fn output(&self, step: &'n Step, output: &'n Output) -> Type<'n> {
        let value = match &output.source {
            OutputSource::Header(_) => Type::Kinds(Kinds::STRING),
            OutputSource::Status => Type::Kinds(Kinds::INTEGER),
            OutputSource::Body(query) => {
                let found = self.answer(step).select(&query.segments()).unwrap_or(Type::Unknown);
                if query.is_singular() { found } else { found.list() }
            }
        };
        match &output.default {
            Some(default) => value.or(Type::literal(default)),
            None => value,
        }
    }

    /// The body of a step's answer, when it means success.
    pub(super) fn answer(&self, step: &'n Step) -> Type<'n> {
        let Action::Task { task, .. } = &step.action else { return Type::Unknown };
        if let Some(known) = self.answers.borrow().get(&*step.pointer) {
            return known.clone();
        }
        let answer = match &**task {
            Task::OpenApi(task) => openapi_answer(task, self.fuel),
            Task::Graphql(task) => graphql_answer(task),
            Task::Mcp(task) => {
                let book = Book { schemas: task.outputs(), fuel: self.fuel };
                Type::of_schema(&task.output_schema, book)
            }
        };
        self.answers.borrow_mut().insert(&step.pointer, answer.clone());
        answer
    }

    /// The body of an operation's answer with a status; none when that status is not declared.
    pub(super) fn answer_with(&self, task: &'n OpenApiTask, status: u16) -> Option<Type<'n>> {
        let names = [status.to_string(), format!("{}XX", status / 100), "default".to_owned()];
        let response = names.iter().find_map(|name| {
            let mut responses = task.responses.iter();
            responses.find(|(status, _)| status.eq_ignore_ascii_case(name))
        });
        let book = Book { schemas: task.into(), fuel: self.fuel };
        response.map(|(_, response)| response_type(response, book))
    }

    /// What a template gives.
    pub(crate) fn template(&self, template: &'n Template, scope: &Scope<'n>) -> Type<'n> {
        match template {
            Template::Literal(value) => Type::literal(value),
            Template::Text(_) => Type::Kinds(Kinds::STRING),
            Template::Reference(reference) => self.reference(reference, scope),
            Template::Array(items) => {
                // An item that may be left out moves those behind it.
                if items.iter().any(|item| self.may_be_left_out(item)) {
                    let items = items.iter().map(|item| self.template(item, scope));
                    return Type::any_of(items).list();
                }
                Type::Tuple(items.iter().map(|item| self.template(item, scope)).collect())
            }
            Template::Object(members) => {
                let members = members.iter().map(|(name, member)| {
                    let presence = match self.may_be_left_out(member) {
                        true => Presence::IfGiven,
                        false => Presence::Sure,
                    };
                    (name.clone(), (self.template(member, scope), presence))
                });
                Type::Object(Object { members: members.collect(), open: false })
            }
        }
    }

    /// What a reference leads to; unknown when it leads nowhere.
    pub(crate) fn reference(&self, reference: &Reference, scope: &Scope<'n>) -> Type<'n> {
        self.variable(reference.variable(), scope).at(&reference.way()).unwrap_or(Type::Unknown)
    }

    /// Whether a template is exactly an optional parameter, without which it is left out.
    pub(super) fn may_be_left_out(&self, template: &Template) -> bool {
        let Template::Reference(reference) = template else { return false };
        let parameter = self.capability.parameter(reference.variable());
        reference.is_plain()
            && self.setters(reference.variable()).is_empty()
            && parameter.is_some_and(|p| !p.required && p.default.is_none())
    }
}

impl<'s> Object<'s> {
    /// Puts a value to the members below which it is set.
    fn put(&mut self, way: &[String], value: Type<'s>) {
        let Some((name, below)) = way.split_first() else { return };
        let known = self.members.shift_remove(name).map(|(known, _)| known);
        let value = match (known, below.is_empty()) {
            (None, true) => value,
            (Some(known), true) => known.or(value),
            (known, false) => match known.unwrap_or_else(|| Type::Object(Object::default())) {
                Type::Object(mut inner) => {
                    inner.put(below, value);
                    Type::Object(inner)
                }
                _ => Type::Unknown,
            },
        };
        self.members.insert(name.clone(), (value, Presence::Perhaps));
    }
}

fn parameter_type(parameter: &Parameter) -> Type<'_> {
    match (parameter.choices.as_slice(), parameter.kind) {
        ([], None) => Type::Unknown,
        ([], Some(kind)) => Type::Kinds(kind.into()),
        (choices, _) => Type::Choice(choices.iter().collect()),
    }
}

fn initial_type<'s>(kind: ValueType) -> Type<'s> {
    match kind {
        ValueType::Object => Type::Object(Object { members: IndexMap::new(), open: false }),
        ValueType::String
        | ValueType::Number
        | ValueType::Integer
        | ValueType::Boolean
        | ValueType::Array => Type::Kinds(Kinds::NULL),
    }
}

/// The body of an answer that means success: unknown as soon as one of the answers does not tell.
fn openapi_answer<'s>(task: &'s OpenApiTask, fuel: &'s Fuel) -> Type<'s> {
    let (responses, book) = (&task.responses, Book { schemas: task.into(), fuel });
    let has_success = responses.iter().any(|(status, _)| status.starts_with('2'));
    let mut types = Vec::new();
    for (status, response) in responses {
        let is_success = match status.as_str() {
            "default" => !has_success,
            status => status.starts_with('2'),
        };
        if is_success {
            types.push(match status.as_str() {
                "204" | "205" => Type::Kinds(Kinds::NULL),
                _ => response_type(response, book),
            });
        }
    }
    Type::any_of(types)
}

/// The type of a response: that of its JSON, which is asked for before all else.
fn response_type<'s>(response: &'s Value, book: Book<'s>) -> Type<'s> {
    let content = response.get("content").and_then(Value::as_object);
    let types = content.into_iter().flatten().filter_map(|(media_type, media)| {
        let media_type = MediaType::parse(media_type)?;
        let schema = media.get("schema").unwrap_or(&Value::Null);
        let is_json =
            media_type.is_json() || media_type.is("*/*") || media_type.is("application/*");
        is_json.then(|| Type::of_schema(schema, book))
    });
    Type::any_of(types)
}

fn graphql_answer<'s>(task: &GraphqlTask) -> Type<'s> {
    let Some(selection) = task.selection() else { return Type::Unknown };
    let data = (Type::Selection(selection), Presence::Sure);
    let other = || (Type::Unknown, Presence::Perhaps);
    let members = [("data", data), ("errors", other()), ("extensions", other())];
    let members = members.map(|(name, member)| (name.to_owned(), member));
    Type::Object(Object { members: members.into_iter().collect(), open: false })
}
