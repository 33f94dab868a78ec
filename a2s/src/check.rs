//! Data flow: every reference is an input, or an output that is surely set before it is read.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::code;
use crate::decode::{Findings, Site};
use crate::diagnostic::did_you_mean;
use crate::document::{Action, Block, Capability, Output, Step};
use crate::template::{Reference, Template};
use crate::tree::{Kind, Node, item_path, member_path};

/// Names shorter than this are too much alike to take one for a misspelt other.
const MIN_LIKELY: usize = 4;

/// Every variable that a capability reads.
pub(crate) fn references(capability: &Capability) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut add = |reader: Reader<'_>| {
        let read = reader.references(capability);
        names.extend(read.into_iter().map(|reference| reference.variable().to_owned()));
    };
    add(Reader::Execution);
    capability.for_each_step(|step| add(Reader::Step(step)));
    add(Reader::Output);
    names
}

/// Checks the whole capability, which was read from `root`; errors and warnings go to `findings`.
pub(crate) fn check_data_flow(capability: &Capability, root: &Node, findings: &mut Findings) {
    let mut flow = Flow {
        capability,
        root,
        findings,
        setters: BTreeMap::new(),
        order: BTreeMap::new(),
        beside: Vec::new(),
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
    });
    flow.check_dependencies();
    let mut set = BTreeSet::new();
    flow.check_reader(Reader::Execution, &set);
    flow.walk(&capability.execution, &mut set);
    flow.check_reader(Reader::Output, &set);
    flow.check_parameters();
}

/// What can read variables.
#[derive(Debug, Clone, Copy)]
enum Reader<'c> {
    /// The condition of `execution` itself.
    Execution,
    /// A step, without the steps below it.
    Step(&'c Step),
    /// The top-level `output`.
    Output,
}

impl<'c> Reader<'c> {
    fn references(self, capability: &'c Capability) -> Vec<&'c Reference> {
        let of_block = |block: &'c Block| match block {
            Block::Condition { condition, .. } => condition.references().iter().collect(),
            Block::Sequence(_) | Block::Parallel(_) => Vec::new(),
        };
        match self {
            Self::Execution => of_block(&capability.execution),
            Self::Step(step) => match &step.action {
                Action::Task { inputs, .. } => {
                    inputs.values().flat_map(Template::references).collect()
                }
                Action::Capability { inputs, .. } => {
                    inputs.values().flat_map(Template::references).collect()
                }
                Action::Block(block) => of_block(block),
            },
            Self::Output => capability.output.iter().flat_map(Template::references).collect(),
        }
    }

    /// The place where it reads `reference`.
    fn site(self, root: &Node, reference: &Reference) -> Site {
        let (owner, fields): (_, &[&str]) = match self {
            Self::Execution => ("execution", &["condition"]),
            Self::Step(step) => {
                (step.pointer.as_str(), &["condition", "input_mapping", "input_template"])
            }
            Self::Output => ("", &["output"]),
        };
        let node = root.at(owner).unwrap_or(root);
        let found = fields.iter().find_map(|field| {
            let value = &node.member(field)?.value;
            find_reference(value, &member_path(owner, field), reference)
        });
        found.unwrap_or_else(|| Site { path: owner.to_owned(), position: node.position })
    }

    fn subject(self) -> String {
        match self {
            Self::Execution => "the condition of `execution`".to_owned(),
            Self::Step(step) => format!("`{}`", step.id),
            Self::Output => "`output`".to_owned(),
        }
    }
}

/// The first string at or below `node` that holds `reference`.
fn find_reference(node: &Node, path: &str, reference: &Reference) -> Option<Site> {
    match &node.kind {
        Kind::String(text) => text
            .match_indices("${")
            .filter_map(|(at, _)| text[at + 2..].split('}').next())
            .any(|inner| Reference::parse(inner).as_ref() == Ok(reference))
            .then(|| Site { path: path.to_owned(), position: node.position }),
        Kind::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| find_reference(item, &item_path(path, index), reference)),
        Kind::Object(members) => members.iter().find_map(|member| {
            find_reference(&member.value, &member_path(path, &member.key), reference)
        }),
        Kind::Null | Kind::Bool(_) | Kind::Number(_) => None,
    }
}

struct Flow<'c, 'f> {
    capability: &'c Capability,
    root: &'c Node,
    findings: &'f mut Findings,
    /// The steps that set each variable.
    setters: BTreeMap<&'c str, Vec<&'c Step>>,
    /// The steps by pointer, counted in the order of the document.
    order: BTreeMap<&'c str, usize>,
    /// The steps that run at the same time as the one that is walked.
    beside: Vec<&'c Step>,
    /// Variables that were reported as misspelt.
    doubted: BTreeSet<&'c str>,
}

impl<'c> Flow<'c, '_> {
    fn check_dependencies(&mut self) {
        let mut used = BTreeSet::new();
        let (capability, root) = (self.capability, self.root);
        capability.for_each_step(|step| {
            let Action::Capability { capability: name, .. } = &step.action else { return };
            used.insert(name);
            if capability.dependency(name).is_some() {
                return;
            }
            let declared = capability.dependencies.iter().map(|d| d.capability.as_str());
            let hint = match did_you_mean(name.as_str(), declared) {
                Some(close) => format!("Did you mean `{close}`?"),
                None => code::UNDECLARED_DEPENDENCY.remedy.to_owned(),
            };
            let path = member_path(&step.pointer, "use");
            let at = root.at(&path).map_or(step.position, |node| node.position);
            let message = format!("`{name}` is not declared under `dependencies`");
            let code = code::UNDECLARED_DEPENDENCY;
            self.findings.error_with_hint(code, &path, at, message, hint);
        });
        if self.findings.has_errors() {
            // Perhaps the step that uses it could not be read.
            return;
        }
        for dependency in &capability.dependencies {
            if !used.contains(&dependency.capability) {
                let message = format!("no step uses `{}`", dependency.capability);
                let (path, at) = (&dependency.pointer, dependency.position);
                self.findings.warning(code::UNUSED_DEPENDENCY, path, at, message);
            }
        }
    }

    fn check_parameters(&mut self) {
        // A capability step may leave a required input of its child to the caller, by its name.
        let may_pass_on = !self.capability.dependencies.is_empty();
        if may_pass_on || self.findings.has_errors() {
            return;
        }
        let read = references(self.capability);
        for (index, parameter) in self.capability.parameters.iter().enumerate() {
            if !read.contains(&parameter.name) {
                let path = format!("parameters[{index}]");
                let at = self.root.at(&path).map_or(self.root.position, |node| node.position);
                let message = format!("nothing reads the parameter `{}`", parameter.name);
                self.findings.warning(code::UNUSED_PARAMETER, &path, at, message);
            }
        }
    }

    /// Walks a block with the variables that are surely `set` on entry, and adds those that are
    /// surely set when it ends.
    fn walk(&mut self, block: &'c Block, set: &mut BTreeSet<&'c str>) {
        match block {
            Block::Sequence(steps) => self.walk_steps(steps, set),
            Block::Parallel(steps) => {
                self.check_conflicts(steps);
                let entry = set.clone();
                for (index, step) in steps.iter().enumerate() {
                    let known = self.beside.len();
                    let others = steps.iter().enumerate().filter(|(other, _)| *other != index);
                    self.beside.extend(others.map(|(_, other)| other));
                    let mut own = entry.clone();
                    self.walk_step(step, &mut own);
                    set.extend(own);
                    self.beside.truncate(known);
                }
            }
            Block::Condition { if_true, if_false, .. } => {
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
        self.check_reader(Reader::Step(step), set);
        if let Action::Block(block) = &step.action {
            self.walk(block, set);
        }
        set.extend(step.action.outputs().iter().map(Output::variable));
    }

    fn check_reader(&mut self, reader: Reader<'c>, set: &BTreeSet<&str>) {
        let mut reported = BTreeSet::new();
        for reference in reader.references(self.capability) {
            let name = reference.variable();
            let known = set.contains(name)
                || self.capability.variables.contains_key(name)
                || self.capability.parameters.iter().any(|parameter| parameter.name == name);
            if known || !reported.insert(reference) {
                continue;
            }
            let Some(setters) = self.setters.get(name) else {
                self.doubt(reader, reference);
                continue;
            };
            let (message, hint) = self.explain(reader, reference, setters);
            let Site { path, position } = reader.site(self.root, reference);
            self.findings.error_with_hint(code::LATER_OUTPUT, &path, position, message, hint);
        }
    }

    /// Why `reader` may find nothing although `setters` set what it reads, and what to do.
    fn explain(
        &self,
        reader: Reader<'c>,
        reference: &Reference,
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
            Reader::Execution => None,
            Reader::Step(step) => self.order.get(step.pointer.as_str()).copied(),
            Reader::Output => Some(usize::MAX),
        };
        let is_later = |step: &&Step| number < self.order.get(step.pointer.as_str()).copied();
        let is_itself =
            |step: &&Step| matches!(reader, Reader::Step(own) if own.pointer == step.pointer);
        if setters.iter().all(is_itself) {
            return (
                format!("{subject} reads `${{{reference}}}`, which only it sets, afterwards"),
                format!("Set it in a step before, or {declare}."),
            );
        }
        if setters.iter().all(|step| self.beside.iter().any(|beside| is_within(step, beside))) {
            return (
                format!("{subject} reads `${{{reference}}}`, which {ids} sets at the same time"),
                "Put the two into a sequence instead.".to_owned(),
            );
        }
        if setters.iter().all(|step| is_later(step) || is_itself(step)) {
            return (
                format!("{subject} reads `${{{reference}}}`, which {ids} sets only later"),
                format!("Read it in a step behind {ids}, or {declare}."),
            );
        }
        (
            format!("{subject} reads `${{{reference}}}`, but {ids}, which sets it, may not run"),
            format!("Set it on every branch, or {declare}."),
        )
    }

    /// Warns of a variable that no step sets, when its name is close to one that is known.
    fn doubt(&mut self, reader: Reader<'c>, reference: &'c Reference) {
        let name = reference.variable();
        let known = self
            .setters
            .keys()
            .copied()
            .chain(self.capability.variables.keys().map(String::as_str))
            .chain(self.capability.parameters.iter().map(|parameter| parameter.name.as_str()))
            .filter(|known| known.len() >= MIN_LIKELY);
        let Some(close) = did_you_mean(name, known).filter(|_| name.len() >= MIN_LIKELY) else {
            return;
        };
        if self.doubted.insert(name) {
            let Site { path, position } = reader.site(self.root, reference);
            let message = format!("no step sets `{name}`, so it becomes an input");
            let hint = format!("Did you mean `{close}`? Else declare `{name}` under `parameters`.");
            self.findings.warning_with_hint(code::LIKELY_MISSPELT, &path, position, message, hint);
        }
    }

    /// Two parallel children may not set one name, or a name and a path inside it.
    fn check_conflicts(&mut self, steps: &'c [Step]) {
        let written: Vec<Vec<(&Step, &Output)>> = steps.iter().map(writes).collect();
        for (index, outputs) in written.iter().enumerate() {
            for earlier in &written[..index] {
                let clash = outputs.iter().find_map(|(step, output)| {
                    let name = &output.name;
                    let first = earlier.iter().find(|(_, known)| {
                        name.starts_with(&known.name) || known.name.starts_with(name)
                    });
                    first.map(|first| (first, step, output))
                });
                let Some(((first, known), step, output)) = clash else { continue };
                let (one, other) = (known.dotted(), output.dotted());
                let (first, second) = (&first.id, &step.id);
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
                let mapping = member_path(&step.pointer, "output_mapping");
                let member = self.root.at(&mapping).and_then(|node| node.member(&other));
                let at = member.map_or(step.position, |member| member.position);
                let path = member_path(&mapping, &other);
                self.findings.error(code::PARALLEL_CONFLICT, &path, at, message);
            }
        }
    }
}

/// What a step and those below it set.
fn writes(step: &Step) -> Vec<(&Step, &Output)> {
    let mut outputs: Vec<_> = step.action.outputs().iter().map(|output| (step, output)).collect();
    if let Action::Block(block) = &step.action {
        outputs.extend(block.children().into_iter().flat_map(writes));
    }
    outputs
}
