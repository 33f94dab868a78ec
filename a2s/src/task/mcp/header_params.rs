//! Arguments that go into headers as well: `x-mcp-header` (MCP, "Custom Headers from Tool
//! Parameters").

use std::collections::BTreeSet;

use super::report;
use crate::field_reader::{DiagnosticSink, DocumentField, shorten_for_message};
use crate::task::is_header_name;
use crate::tree::{NodeValue, TreeNode, item_path, member_path};

/// The keyword that marks an argument for a header.
const KEYWORD: &str = "x-mcp-header";
/// Keywords that contain values or names, not schemas.
const VALUES: [&str; 6] = ["default", "const", "enum", "examples", "dependentRequired", "required"];
/// Keywords that contain schemas by name.
const BY_NAME: [&str; 5] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties"];

/// An argument, or a member of one, that is also sent in a header, so that an intermediary need not read
/// the body of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderParameter {
    /// The names on the path to it, starting with the argument.
    pub path: Vec<String>,
    /// The end of the header's name: `Region` of `Mcp-Param-Region`.
    pub header: String,
}

/// Finds the arguments that a schema wants in headers; errors go to `findings`.
pub(super) fn read_header_parameters(
    schema: &DocumentField<'_>,
    findings: &mut DiagnosticSink,
) -> Vec<HeaderParameter> {
    let mut reading = HeaderParameterReader {
        findings,
        found: Vec::new(),
        names: BTreeSet::new(),
        path: Vec::new(),
    };
    let root = DocumentField { node: schema.node, path: schema.path.clone(), key: schema.key };
    reading.schema(&root, SchemaPosition::Root);
    reading.found
}

/// The location of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SchemaPosition {
    Root,
    /// Only below `properties`.
    BelowProperties,
    Elsewhere,
}

struct HeaderParameterReader<'f> {
    findings: &'f mut DiagnosticSink,
    found: Vec<HeaderParameter>,
    /// The headers so far, in lower case.
    names: BTreeSet<String>,
    path: Vec<String>,
}

impl HeaderParameterReader<'_> {
    /// Searches a schema for arguments that are sent in headers. It may recurse, because the tree of
    /// schemas is not deep.
    fn schema(&mut self, schema: &DocumentField<'_>, stands: SchemaPosition) {
        let Some(members) = schema.node.members() else { return };
        for member in members {
            let key = &*member.key;
            let path = member_path(&schema.path, key);
            let value = DocumentField { node: &member.value, path, key: member.position };
            match key {
                KEYWORD => self.take(schema.node, &value, stands),
                "properties" => {
                    let inner = match stands {
                        SchemaPosition::Root | SchemaPosition::BelowProperties => {
                            SchemaPosition::BelowProperties
                        }
                        SchemaPosition::Elsewhere => SchemaPosition::Elsewhere,
                    };
                    self.each_named(&value, inner);
                }
                _ if VALUES.contains(&key) => {}
                _ if BY_NAME.contains(&key) => self.each_named(&value, SchemaPosition::Elsewhere),
                _ => match &value.node.kind {
                    NodeValue::Array(items) => {
                        for (index, node) in items.iter().enumerate() {
                            let path = item_path(&value.path, index);
                            let item = DocumentField { node, path, key: node.position };
                            self.schema(&item, SchemaPosition::Elsewhere);
                        }
                    }
                    _ => self.schema(&value, SchemaPosition::Elsewhere),
                },
            }
        }
    }

    fn each_named(&mut self, schemas: &DocumentField<'_>, stands: SchemaPosition) {
        for member in schemas.node.members().unwrap_or_default() {
            let path = member_path(&schemas.path, &member.key);
            let schema = DocumentField { node: &member.value, path, key: member.position };
            self.path.push(member.key.as_ref().to_owned());
            self.schema(&schema, stands);
            self.path.pop();
        }
    }

    fn take(&mut self, schema: &TreeNode<'_>, keyword: &DocumentField<'_>, stands: SchemaPosition) {
        let name = keyword.node.as_str().unwrap_or_default();
        let kind = schema.get("type").and_then(TreeNode::as_str);
        let problem = if stands != SchemaPosition::BelowProperties {
            Some((
                "only a property can be sent as a header, not a part of `$ref`, of a list or of an alternative",
                "Remove `x-mcp-header` here.",
            ))
        } else if !is_header_name(name) {
            Some(("the end of a header name is required here", "Use letters, digits and dashes."))
        } else if !matches!(kind, Some("string" | "integer" | "boolean")) {
            let hint = "Give the property one of these types, or remove `x-mcp-header`.";
            Some(("a header must be a string, a whole number or a boolean", hint))
        } else if !self.names.insert(name.to_ascii_lowercase()) {
            Some(("two properties use this header", "Give each property its own header."))
        } else {
            None
        };
        match problem {
            None => {
                let (path, header) = (self.path.clone(), name.to_owned());
                self.found.push(HeaderParameter { path, header });
            }
            Some((message, hint)) => {
                let message = format!("`{KEYWORD}: {}`: {message}", shorten_for_message(name));
                report(keyword, (message, hint.to_owned()), self.findings);
            }
        }
    }
}
