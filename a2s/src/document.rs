//! The document as a value that cannot be wrong: what [`crate::compile()`] makes of good bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use indexmap::IndexMap;
use semver::{Version, VersionReq};
use serde_json::Value;

use crate::checksum::Digest;
use crate::condition::Condition;
use crate::diagnostic::{Diagnostic, Position};
use crate::interface::Interface;
use crate::name::{CapabilityName, Domain, StepId};
use crate::query::Query;
use crate::task::Task;
use crate::template::Template;

/// A document without errors: its content, its digest and the capability it describes.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub(crate) content: Value,
    pub(crate) digest: Digest,
    pub(crate) stated: StatedChecksum,
    pub(crate) capability: Capability,
    pub(crate) warnings: Vec<Diagnostic>,
}

impl Document {
    /// Compiles `source` and demands that its checksum is filled in and right.
    ///
    /// # Errors
    /// Every error there is, the checksum's among them.
    pub fn open(source: &[u8]) -> Result<Self, Vec<Diagnostic>> {
        let compilation = crate::compile::compile_with_checksum(source);
        compilation.document.ok_or(compilation.diagnostics)
    }

    /// The content as parsed, `checksum` included.
    #[must_use]
    pub fn content(&self) -> &Value {
        &self.content
    }

    /// The digest of the content.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The checksum that the document states.
    #[must_use]
    pub fn stated(&self) -> StatedChecksum {
        self.stated
    }

    /// What the document describes.
    #[must_use]
    pub fn capability(&self) -> &Capability {
        &self.capability
    }

    /// Remarks that did not stand in the way.
    #[must_use]
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The inputs, outputs and needs of the capability, as far as the document alone tells.
    #[must_use]
    pub fn interface(&self) -> Interface {
        Interface::of(&self.capability)
    }
}

/// What the field `checksum` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatedChecksum {
    /// Nothing yet: the field is absent, null or a placeholder.
    Missing,
    /// A digest.
    Given(Digest),
}

/// One capability: a header, a tree of steps, and the result they make (A2S, "Core Concepts").
#[derive(Debug, Clone, PartialEq)]
pub struct Capability {
    /// Version of the language (`a2s`).
    pub language: Version,
    /// Unique in a registry.
    pub name: CapabilityName,
    /// What it does: 1 to 200 characters.
    pub description: String,
    /// The only hosts that its tasks may address.
    pub domains: Vec<Domain>,
    /// Its own version.
    pub version: Version,
    /// At least one.
    pub authors: Vec<Author>,
    /// What the author says about inputs; the whole interface is [`Interface`].
    pub parameters: Vec<Parameter>,
    /// The capabilities that its steps use.
    pub dependencies: Vec<Dependency>,
    /// `execution.variables.shared`: readable on every branch.
    pub variables: BTreeMap<String, VariableType>,
    /// The steps.
    pub execution: Block,
    /// Shapes the result; without it, the result is every variable that steps set.
    pub output: Option<Template>,
}

impl Capability {
    /// Calls `visit` with every step, parents before children, in the order of the document.
    pub fn for_each_step<'a>(&'a self, mut visit: impl FnMut(&'a Step)) {
        let mut waiting: Vec<&Step> = self.execution.children().into_iter().rev().collect();
        while let Some(step) = waiting.pop() {
            visit(step);
            if let Action::Block(block) = &step.action {
                waiting.extend(block.children().into_iter().rev());
            }
        }
    }

    /// The dependency that a `capability` step uses.
    #[must_use]
    pub fn dependency(&self, name: &CapabilityName) -> Option<&Dependency> {
        self.dependencies.iter().find(|dependency| dependency.capability == *name)
    }
}

/// Who made a capability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// Name of a person or team.
    pub name: String,
    /// Where to write to.
    pub email: Option<String>,
    /// Who they work for.
    pub organization: Option<String>,
    /// Account on GitHub.
    pub github: Option<String>,
}

/// A declared input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Name of the variable.
    pub name: String,
    /// What it means.
    pub description: Option<String>,
    /// Patterns that extract it from a query: `in *`.
    pub patterns: Vec<String>,
}

/// A capability that steps use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// Its name.
    pub capability: CapabilityName,
    /// The versions that will do.
    pub range: VersionReq,
    /// The one content that will do, when pinned.
    pub checksum: Option<Digest>,
    /// Where it is declared: `dependencies[0]`.
    pub pointer: String,
    /// Where that stands in the text.
    pub position: Position,
}

/// The type that a shared variable is declared with. `object` starts as `{}`, others as null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableType {
    /// Text.
    String,
    /// Any number.
    Number,
    /// A whole number.
    Integer,
    /// True or false.
    Boolean,
    /// Members by name.
    Object,
    /// Items in order.
    Array,
}

impl VariableType {
    /// The value before any step has set it.
    #[must_use]
    pub fn initial(self) -> Value {
        match self {
            Self::Object => Value::Object(serde_json::Map::new()),
            Self::String | Self::Number | Self::Integer | Self::Boolean | Self::Array => {
                Value::Null
            }
        }
    }
}

/// Steps that belong together.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// One after another.
    Sequence(Vec<Step>),
    /// At the same time: each sees the variables as they were on entry.
    Parallel(Vec<Step>),
    /// One of two sequences.
    Condition {
        /// What decides.
        condition: Condition,
        /// Run when it holds.
        if_true: Vec<Step>,
        /// Run when it does not.
        if_false: Vec<Step>,
    },
}

impl Block {
    /// The steps directly below, in the order of the document.
    #[must_use]
    pub fn children(&self) -> Vec<&Step> {
        match self {
            Self::Sequence(steps) | Self::Parallel(steps) => steps.iter().collect(),
            Self::Condition { if_true, if_false, .. } => if_true.iter().chain(if_false).collect(),
        }
    }

    /// `sequence`, `parallel` or `condition`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Sequence(_) => "sequence",
            Self::Parallel(_) => "parallel",
            Self::Condition { .. } => "condition",
        }
    }
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Unique in the document.
    pub id: StepId,
    /// What it does.
    pub action: Action,
    /// Where it stands: `execution.steps[0]`.
    pub pointer: String,
    /// Where that stands in the text.
    pub position: Position,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// One request to a service.
    Task {
        /// Which request.
        task: Task,
        /// What it is filled with.
        inputs: TaskInputs,
        /// What is taken from the answer.
        outputs: Vec<Output>,
    },
    /// Another capability.
    Capability {
        /// Which one; declared under `dependencies`.
        capability: CapabilityName,
        /// Its inputs by name.
        inputs: IndexMap<String, Template>,
        /// What is taken from its result.
        outputs: Vec<Output>,
    },
    /// Steps below this one.
    Block(Block),
}

impl Action {
    /// `task`, `capability`, `sequence`, `parallel` or `condition`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Task { .. } => "task",
            Self::Capability { .. } => "capability",
            Self::Block(block) => block.kind(),
        }
    }

    /// What the step takes from its answer; blocks take nothing themselves.
    #[must_use]
    pub fn outputs(&self) -> &[Output] {
        match self {
            Self::Task { outputs, .. } | Self::Capability { outputs, .. } => outputs,
            Self::Block(_) => &[],
        }
    }
}

/// What fills a task, each value at its place.
pub type TaskInputs = IndexMap<Place, Template>;

/// A place in a request. Written with dots, as a guardian sees it: `pathParameters.city`,
/// `variables.text`, `body`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A path parameter of an OpenAPI operation.
    Path(String),
    /// A query parameter of an OpenAPI operation.
    Query(String),
    /// A header parameter of an OpenAPI operation.
    Header(String),
    /// A cookie parameter of an OpenAPI operation.
    Cookie(String),
    /// The request body of an OpenAPI operation.
    Body,
    /// A variable of a GraphQL operation.
    Variable(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(name) => write!(f, "pathParameters.{name}"),
            Self::Query(name) => write!(f, "queryParameters.{name}"),
            Self::Header(name) => write!(f, "headerParameters.{name}"),
            Self::Cookie(name) => write!(f, "cookieParameters.{name}"),
            Self::Body => f.write_str("body"),
            Self::Variable(name) => write!(f, "variables.{name}"),
        }
    }
}

impl FromStr for Place {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text == "body" {
            return Ok(Self::Body);
        }
        let (group, name) = text.split_once('.').ok_or(())?;
        let name = name.to_owned();
        match group {
            "pathParameters" => Ok(Self::Path(name)),
            "queryParameters" => Ok(Self::Query(name)),
            "headerParameters" => Ok(Self::Header(name)),
            "cookieParameters" => Ok(Self::Cookie(name)),
            "variables" => Ok(Self::Variable(name)),
            _ => Err(()),
        }
    }
}

/// A value that a step takes from its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// The variable and, for a dotted name, the members below it: `notification_ids.sms`.
    pub name: Vec<String>,
    /// Where the value stands in the answer.
    pub query: Query,
}

impl Output {
    /// The name with dots.
    #[must_use]
    pub fn dotted(&self) -> String {
        self.name.join(".")
    }

    /// The variable that it sets, or sets a member of.
    #[must_use]
    pub fn variable(&self) -> &str {
        self.name.first().map_or("", String::as_str)
    }

    /// Sets this output in `variables`. Members of a dotted name are made where they are missing;
    /// a value in their way that is not an object is replaced.
    pub fn set(&self, variables: &mut serde_json::Map<String, Value>, value: Value) {
        let Some((last, parents)) = self.name.split_last() else { return };
        let mut members = variables;
        for parent in parents {
            let slot = members.entry(parent.clone()).or_insert(Value::Null);
            if !slot.is_object() {
                *slot = Value::Object(serde_json::Map::new());
            }
            let Value::Object(inner) = slot else { return };
            members = inner;
        }
        members.insert(last.clone(), value);
    }
}
