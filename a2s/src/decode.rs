//! Tree to model: reads each part of a document, and reports everything that is not as the
//! language says. Reading goes on after an error, so that one answer names them all.

mod examples;
mod header;
mod parameters;
mod steps;

use semver::Version;

use crate::document::Capability;
use crate::error_code;
use crate::field_reader::{CompileMode, DiagnosticSink, DocumentField, ObjectReader};
use crate::name::{CapabilityName, Domain, Permission};
use crate::template::Template;
use crate::tree::{NodeValue, TreeNode};

pub(crate) use header::decode_digest;
use header::named_list;
pub use steps::MAX_STEPS;

/// Reads a whole document. A part that cannot be read gets a placeholder, so that the rest is still
/// checked; only `findings` shows that there were errors.
pub(crate) fn decode_capability(
    root: &TreeNode<'_>,
    mode: CompileMode,
    findings: &mut DiagnosticSink,
) -> Option<Capability> {
    if matches!(root.kind, NodeValue::Null) {
        let hint = "Start the document with `a2s: 1.0.0` and the `name` of the capability.";
        let message = "the document is empty";
        findings.error_with_hint(error_code::MISSING_FIELD, ("", root.position), message, hint);
        return None;
    }
    let mut fields = ObjectReader::open(&DocumentField::root(root), "a capability", findings)?;
    let language = header::decode_language(fields.require("a2s", findings), findings);
    findings.older = language.as_ref().is_some_and(|version| version.minor == 0);
    let name = header::decode_name(fields.require("name", findings), findings);
    let description = header::decode_description(fields.require("description", findings), findings);
    header::decode_charset(fields.take("charset"), findings);
    let domains = fields.require("domains", findings);
    let domains = domains.map(|field| named_list(&field, "domain", Domain::new, findings));
    let domains = domains.unwrap_or_default();
    let version = fields.require("version", findings);
    let version = version.and_then(|field| header::decode_version(&field, findings));
    // Compared with the digest by the compiler.
    fields.take("checksum");
    let authors = header::decode_authors(fields.require("authors", findings), findings);
    let permissions = fields.take_since_1_1("permissions", findings);
    let permissions =
        permissions.map(|field| named_list(&field, "permission", Permission::new, findings));
    let parameters = parameters::decode_parameters(fields.take("parameters"), findings);
    let dependencies = header::decode_dependencies(fields.take("dependencies"), mode, findings);
    let examples = examples::decode_examples(fields.take_since_1_1("examples", findings), findings);
    let tasks = fields.take("tasks");
    let execution = fields.require("execution", findings);
    let output =
        fields.take("output").map(|field| Template::decode(field.node, &field.path, findings));
    fields.finish(findings);

    let mut steps = steps::StepDecoder::new(tasks, &domains, findings);
    let (variables, execution) = steps.decode_execution(&execution?)?;
    Some(Capability {
        language: language.unwrap_or(Version::new(1, 0, 0)),
        name: name.unwrap_or_else(CapabilityName::substitute),
        description: description.unwrap_or_default(),
        domains,
        version: version.unwrap_or(Version::new(1, 0, 0)),
        authors,
        permissions: permissions.unwrap_or_default(),
        parameters,
        dependencies,
        examples,
        variables,
        execution,
        output,
    })
}
