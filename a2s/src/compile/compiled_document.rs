//! A document without errors.

use std::sync::OnceLock;

use serde_json::Value;

use crate::capability_ref::CapabilityRef;
use crate::checksum::Digest;
use crate::decode::decode_capability;
use crate::diagnostic::Diagnostic;
use crate::document::Capability;
use crate::field_reader::{CompileMode, DiagnosticSink};
use crate::interface::CapabilityInterface;
use crate::tree;

/// A document without errors: its content, its digest and the capability it describes.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub(crate) digest: Digest,
    pub(crate) declared_checksum: DeclaredChecksum,
    pub(crate) capability: Capability,
    pub(crate) warnings: Vec<Diagnostic>,
    pub(crate) source: DocumentSource,
    pub(crate) cached_interface: CachedInterface,
}

/// The text of a document, and its content as a value, which is read at its first use: publication and
/// runs use only the capability.
#[derive(Debug, Clone)]
pub(crate) struct DocumentSource {
    text: Box<[u8]>,
    content: OnceLock<Value>,
}

/// Always equal, because the digest and the declared checksum determine the content.
impl PartialEq for DocumentSource {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl DocumentSource {
    pub(crate) fn new(text: &[u8]) -> Self {
        Self { text: text.into(), content: OnceLock::new() }
    }
}

/// The interface of a document, computed at its first use: each run of a capability uses it.
#[derive(Debug, Clone, Default)]
pub(crate) struct CachedInterface(OnceLock<CapabilityInterface>);

/// Always equal, because the interface follows from the rest of the document.
impl PartialEq for CachedInterface {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Document {
    /// Compiles `source` and requires a present and correct checksum.
    ///
    /// # Errors
    /// Returns all errors, including those of the checksum.
    pub fn open(source: &[u8]) -> Result<Self, Vec<Diagnostic>> {
        let compilation = super::compile_with_checksum(source);
        compilation.document.ok_or(compilation.diagnostics)
    }

    /// Returns the content as parsed, including `checksum`.
    #[must_use]
    pub fn content(&self) -> &Value {
        self.source.content.get_or_init(|| {
            let (root, _) = tree::parse(&self.source.text);
            root.map_or(Value::Null, |root| root.to_value())
        })
    }

    /// Returns the digest of the content.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the reference to exactly this version.
    #[must_use]
    pub fn to_ref(&self) -> CapabilityRef {
        let Capability { name, version, .. } = &self.capability;
        CapabilityRef { name: name.clone(), version: version.clone(), checksum: self.digest }
    }

    /// Returns the checksum that the document states.
    #[must_use]
    pub fn declared_checksum(&self) -> DeclaredChecksum {
        self.declared_checksum
    }

    /// The capability that the document describes.
    #[must_use]
    pub fn capability(&self) -> &Capability {
        &self.capability
    }

    /// Returns the warnings, which did not prevent the compilation.
    #[must_use]
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The inputs, outputs and needs of the capability, as far as the document alone states them.
    #[must_use]
    pub fn interface(&self) -> &CapabilityInterface {
        self.cached_interface
            .0
            .get_or_init(|| CapabilityInterface::from_capability(&self.capability))
    }

    /// The same interface with its inputs and outputs in the order of the author, for people to read. Runs
    /// use [`Self::interface`], whose order the checksum determines.
    #[must_use]
    pub fn interface_as_written(&self) -> CapabilityInterface {
        let interface = self.interface().clone();
        let (Some(written), _) = tree::parse(&self.source.text) else { return interface };
        match decode_capability(&written, CompileMode::Final, &mut DiagnosticSink::default()) {
            Some(capability) => {
                interface.in_order_of(&CapabilityInterface::from_capability(&capability))
            }
            None => interface,
        }
    }
}

/// The value of the field `checksum`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeclaredChecksum {
    /// The document states no checksum: the field is absent, null or a placeholder.
    Missing,
    /// A digest.
    Given(Digest),
}
