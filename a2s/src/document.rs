//! The document as a value that cannot be wrong: what [`crate::compile()`] makes of good bytes.

mod input_output;
mod parameter;
mod step;
mod step_control;
mod step_path;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use semver::{Version, VersionReq};
use serde_json::Value;

use crate::checksum::Digest;
use crate::decode::{Findings, Mode, decode_capability};
use crate::diagnostic::{Diagnostic, Position};
use crate::interface::Interface;
use crate::name::{CapabilityName, Domain, Permission};
use crate::template::Template;
use crate::tree;

pub use input_output::{Output, OutputSource, Place, TaskInputs};
pub use parameter::{Parameter, ValueType};
pub use step::{Action, Block, Step};
pub use step_control::{Backoff, Control, ForEach, OnError, Retry};
pub use step_path::{StepPath, StepPiece};

/// A document without errors: its content, its digest and the capability it describes.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub(crate) content: Value,
    pub(crate) digest: Digest,
    pub(crate) stated: StatedChecksum,
    pub(crate) capability: Capability,
    pub(crate) warnings: Vec<Diagnostic>,
    pub(crate) gathered: Gathered,
}

/// The interface of a document, once somebody has asked for it: each run of a capability does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gathered(OnceLock<Interface>);

/// It follows from the rest of the document.
impl PartialEq for Gathered {
    fn eq(&self, _: &Self) -> bool {
        true
    }
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
    pub fn interface(&self) -> &Interface {
        self.gathered.0.get_or_init(|| Interface::of(&self.capability))
    }

    /// The same interface with its inputs and outputs in the order of the author, for people to read.
    /// What runs goes by [`Self::interface`], whose order the checksum determines.
    #[must_use]
    pub fn interface_as_written(&self) -> Interface {
        let interface = self.interface().clone();
        let text = self.content.to_string();
        let (Some(written), _) = tree::parse(text.as_bytes()) else { return interface };
        match decode_capability(&written, Mode::Final, &mut Findings::default()) {
            Some(capability) => interface.in_order_of(&Interface::of(&capability)),
            None => interface,
        }
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
    /// What a caller must hold (1.1).
    pub permissions: Vec<Permission>,
    /// What the author says about inputs; the whole interface is [`Interface`].
    pub parameters: Vec<Parameter>,
    /// The capabilities that its steps use.
    pub dependencies: Vec<Dependency>,
    /// Runs that show what it does (1.1).
    pub examples: Vec<Example>,
    /// `execution.variables.shared`: readable on every branch.
    pub variables: BTreeMap<String, ValueType>,
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
            waiting.extend(step.children().into_iter().rev());
        }
    }

    /// The declared parameter of this name.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
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

/// A run that shows what a capability does: documentation, material for search, and a test (1.1).
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// What it shows.
    pub title: Option<String>,
    /// How somebody would ask for it.
    pub intent: Option<String>,
    /// A value for each input.
    pub inputs: serde_json::Map<String, Value>,
    /// What the services answer, by the way to the task step. One without the number of an
    /// iteration is for all of them.
    pub answers: BTreeMap<StepPath, Answer>,
    /// The result, when it is stated.
    pub output: Option<Value>,
}

/// The answer of a service in an example.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Headers by name.
    pub headers: BTreeMap<String, String>,
    /// The body; null when there is none.
    pub body: Value,
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
