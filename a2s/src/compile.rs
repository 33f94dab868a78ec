//! The compiler: bytes in, a document or every error out.

mod compiled_document;
mod literal_keys;

use serde::{Serialize, Serializer};

use crate::check::check_data_flow;
use crate::checksum::{Digest, is_content};
use crate::decode::{decode_capability, decode_digest};
use crate::diagnostic::{Diagnostic, SourcePosition};
use crate::display_safe::mark_hidden;
use crate::error_code;
use crate::field_reader::{CompileMode, DiagnosticSink, DocumentField, is_placeholder};
use crate::tree::{self, NodeMember, NodePath, NodeValue, TreeNode};
use crate::types::check_types;

use compiled_document::{CachedInterface, DocumentSource};
pub use compiled_document::{DeclaredChecksum, Document};

/// The result of a compilation.
#[derive(Debug, Clone, PartialEq)]
pub struct Compilation {
    /// The digest of the content, when the text could be read.
    pub digest: Option<Digest>,
    /// The checksum that the document states, when the text could be read.
    pub declared_checksum: Option<DeclaredChecksum>,
    /// The name as written, when there is one; not yet checked.
    pub name: Option<String>,
    /// Errors and warnings, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
    /// The document, when there is no error.
    pub document: Option<Document>,
}

/// Compiles a draft of a document: a checksum or pin that is missing or still a placeholder is a warning,
/// which states the checksum.
#[must_use]
pub fn compile(source: &[u8]) -> Compilation {
    compile_in(source, CompileMode::Draft)
}

/// Compiles a document for publication.
///
/// Every checksum must be filled in, and content that a new version may not have is an error.
/// [`compile_with_checksum`] still reads and runs a version that was published before.
#[must_use]
pub fn compile_to_publish(source: &[u8]) -> Compilation {
    compile_in(source, CompileMode::Publish)
}

/// Compiles a document that is to be run: every checksum has to be filled in.
#[must_use]
pub fn compile_with_checksum(source: &[u8]) -> Compilation {
    compile_in(source, CompileMode::Final)
}

/// Reads any YAML or JSON value under the limits of documents: inputs of a run, for example.
///
/// # Errors
/// Returns all errors in the text.
pub fn parse_value(source: &[u8]) -> Result<serde_json::Value, Vec<Diagnostic>> {
    match tree::parse(source) {
        (Some(root), diagnostics) if diagnostics.is_empty() => Ok(root.to_value()),
        (_, diagnostics) => Err(diagnostics.into_vec()),
    }
}

fn compile_in(source: &[u8], mode: CompileMode) -> Compilation {
    let (root, diagnostics) = tree::parse(source);
    let mut findings = DiagnosticSink { diagnostics, ..DiagnosticSink::default() };
    let Some(root) = root else {
        return Compilation {
            digest: None,
            declared_checksum: None,
            name: None,
            diagnostics: findings.diagnostics.into_vec(),
            document: None,
        };
    };
    // The model is read from the canonical form, so that the checksum determines it: the order of keys
    // is in neither.
    let root = root.into_canonical();
    // A tree with a refused number or a lost key has no digest that means anything.
    let digest =
        if findings.has_errors() { None } else { Digest::of_canonical(&DigestContent(&root)).ok() };
    let name = root.get("name").and_then(TreeNode::as_str).map(str::to_owned);
    let stated = check_checksum(&root, digest, mode, &mut findings);
    check_shown_text(&root, mode, &mut findings);
    check_keys(&root, mode, &mut findings);
    literal_keys::check_literal_keys(&root, mode, &mut findings);
    let capability = decode_capability(&root, mode, &mut findings);
    if let Some(capability) = &capability {
        check_data_flow(capability, &root, mode, &mut findings);
        check_types(capability, &root, mode, &mut findings);
    }
    let DiagnosticSink { mut diagnostics, incomplete, older: _ } = findings;
    for diagnostic in diagnostics.iter_mut() {
        if diagnostic.position == SourcePosition::default() {
            diagnostic.position = root.position;
        }
    }
    let diagnostics = diagnostics.into_sorted();
    let document = match (capability, digest, stated) {
        (Some(capability), Some(digest), Some(stated))
            if !incomplete && !diagnostics.iter().any(Diagnostic::is_error) =>
        {
            Some(Document {
                digest,
                declared_checksum: stated,
                capability,
                warnings: diagnostics.clone(),
                source: DocumentSource::new(source),
                cached_interface: CachedInterface::default(),
            })
        }
        _ => None,
    };
    Compilation { digest, declared_checksum: stated, name, diagnostics, document }
}

/// The content of a document that its digest covers, in canonical form.
struct DigestContent<'n>(&'n TreeNode<'n>);

impl Serialize for DigestContent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(members) = self.0.members() else { return self.0.serialize(serializer) };
        let content = members.iter().filter(|member| is_content(&member.key));
        serializer.collect_map(content.map(|member| (&*member.key, &member.value)))
    }
}

/// Reports keys that a new version must not have. A version that was published before keeps its keys.
fn check_keys(root: &TreeNode<'_>, mode: CompileMode, findings: &mut DiagnosticSink) {
    if mode == CompileMode::Final {
        return;
    }
    let mut report = |is_wanted: fn(&NodeMember<'_>) -> bool, code, message: String, hint: &str| {
        let Some(place) = tree::find_member(root, &NodePath::Start(""), is_wanted) else { return };
        let found = Diagnostic::error(code, place, message).with_hint(hint);
        findings.diagnostics.push(mode.refuse_when_new(found));
    };
    report(
        |member| member.key.len() > tree::MAX_KEY_BYTES,
        error_code::BUDGET,
        format!("a key has more than {} bytes", tree::MAX_KEY_BYTES),
        "Shorten the key; write long text as a value.",
    );
    report(
        |member| member.has_empty_key,
        error_code::YAML_FEATURE,
        "the colon has no key before it".to_owned(),
        "Write the name of the field before the `:`; write `'':` for an empty name.",
    );
}

/// Reports characters that are hidden or change the display of text, in the texts by which people choose
/// capabilities. Each of these texts is one line.
fn check_shown_text(root: &TreeNode<'_>, mode: CompileMode, findings: &mut DiagnosticSink) {
    if mode == CompileMode::Final {
        return;
    }
    let top = NodePath::Start("");
    for field in ["name", "description", "authors"] {
        if let Some(node) = root.get(field) {
            check_text(&NodePath::Member(&top, field), node, mode, findings);
        }
    }
    let all = NodePath::Member(&top, "parameters");
    let parameters = root.get("parameters").and_then(TreeNode::items).unwrap_or_default();
    for (at, parameter) in parameters.iter().enumerate() {
        let path = NodePath::Item(&all, at);
        for field in ["name", "description", "patterns"] {
            if let Some(node) = parameter.get(field) {
                check_text(&NodePath::Member(&path, field), node, mode, findings);
            }
        }
    }
}

fn check_text(
    path: &NodePath<'_>,
    node: &TreeNode<'_>,
    mode: CompileMode,
    findings: &mut DiagnosticSink,
) {
    match &node.kind {
        NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) => {}
        NodeValue::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                check_text(&NodePath::Item(path, at), item, mode, findings);
            }
        }
        NodeValue::Object(members) => {
            for member in members {
                let path = NodePath::Member(path, &member.key);
                check_text(&path, &member.value, mode, findings);
            }
        }
        NodeValue::String(text) => {
            // A block of YAML ends with the end of its last line.
            let mut hidden = mark_hidden(text.trim_end()).filter(|(_, is_hidden)| *is_hidden);
            let Some((c, _)) = hidden.next() else { return };
            let code = error_code::TEXT_CONTROL;
            let message = match c {
                '\n' | '\r' => "the text has more than one line".to_owned(),
                _ => format!(
                    "the text has the character U+{:04X}, which is not shown or changes how the text is shown",
                    u32::from(c)
                ),
            };
            if mode == CompileMode::Publish {
                findings.error(code, (path, node.position), message);
            } else {
                findings.warning(code, (path, node.position), message);
            }
        }
    }
}

fn check_checksum(
    root: &TreeNode<'_>,
    digest: Option<Digest>,
    mode: CompileMode,
    findings: &mut DiagnosticSink,
) -> Option<DeclaredChecksum> {
    let field = root.member("checksum").map(|member| DocumentField {
        node: &member.value,
        path: "checksum".to_owned(),
        key: member.position,
    });
    let at = field.as_ref().map_or(root.position, |field| field.node.position);
    let location = ("checksum", at);
    let filled = field.filter(|field| match &field.node.kind {
        NodeValue::Null => false,
        NodeValue::String(text) => !text.is_empty() && !is_placeholder(text),
        _ => true,
    });
    let Some(field) = filled else {
        let message = match digest {
            Some(digest) => {
                format!("the checksum is a placeholder; the right checksum is {digest}")
            }
            None => "the checksum is a placeholder".to_owned(),
        };
        match mode {
            CompileMode::Draft => findings.warning(error_code::CHECKSUM_MISSING, location, message),
            CompileMode::Final | CompileMode::Publish => {
                findings.error(error_code::CHECKSUM_MISSING, location, message)
            }
        }
        return Some(DeclaredChecksum::Missing);
    };
    let text = field.string(findings)?;
    let stated = decode_digest(&field, text, "`a2s checksum` prints", findings)?;
    if let Some(digest) = digest
        && digest != stated
    {
        let message =
            format!("the document states the checksum {stated}, but its content has {digest}");
        findings.error(error_code::CHECKSUM_MISMATCH, location, message);
    }
    Some(DeclaredChecksum::Given(stated))
}
