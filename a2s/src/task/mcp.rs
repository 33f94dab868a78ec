//! MCP tasks: one tool of one server of the Model Context Protocol, called over streamable HTTP.
//!
//! The task holds the data that `tools/list` returns for the tool, under the same names. The author is
//! responsible for this copy: a server may return other data later, and its claims about its own safety do
//! not count.

mod header_params;

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use url::Url;

use super::security::{SecurityRequirement, read_security};
use super::{HeaderRules, Problem, SchemaResolver, decode_headers, decode_url};
use crate::diagnostic::SourceLocation;
use crate::error_code;
use crate::field_reader::{
    DiagnosticSink, DocumentField, ExpectedType, ObjectReader, shorten_for_message,
};
use crate::tree::{NodeValue, member_path};

pub use header_params::HeaderParameter;

/// The maximum length of the name of a tool, in characters (MCP, "Tool Names").
const MAX_NAME: usize = 128;
/// Keywords that allow arguments which `properties` does not name.
const WIDENING: [&str; 9] = [
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "dependentSchemas",
    "patternProperties",
    "unevaluatedProperties",
];

/// One tool of an MCP server.
#[derive(Debug, Clone, PartialEq)]
pub struct McpTask {
    /// The address that messages are posted to.
    pub server: Url,
    /// The name of the tool.
    pub tool: String,
    /// Its purpose, described for a person.
    pub description: Option<String>,
    /// JSON Schema of the arguments; null when the document has none.
    pub input_schema: Value,
    /// JSON Schema of the structured content of the result; null when the document has none.
    pub output_schema: Value,
    /// Arguments that go into headers as well (`x-mcp-header`).
    pub header_parameters: Vec<HeaderParameter>,
    /// The document's statements about the effect of a call.
    pub hints: ToolAnnotations,
    /// Headers that the document sets, without the headers that belong to the protocol.
    pub headers: BTreeMap<String, String>,
    /// The authentication alternatives, as in an OpenAPI task.
    pub security: Vec<Vec<SecurityRequirement>>,
}

/// A document's statements about the effect of a call, in the words of MCP's `annotations`. Without them, a
/// call may change something, and a second call may change it again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolAnnotations {
    /// `readOnlyHint`: the tool changes nothing.
    pub read_only: bool,
    /// `idempotentHint`: another call with the same arguments changes nothing more.
    pub idempotent: bool,
}

impl McpTask {
    /// Returns the schema of an argument, if the document has one.
    #[must_use]
    pub fn argument_schema(&self, name: &str) -> Option<&Value> {
        self.properties()?.get(name)
    }

    /// Returns the arguments that the schema names, in the order of the schema.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.properties().into_iter().flatten().map(|(name, _)| name.as_str())
    }

    /// Returns the arguments that every call requires.
    pub fn required(&self) -> impl Iterator<Item = &str> {
        let required = self.input_schema.get("required").and_then(Value::as_array);
        required.into_iter().flatten().filter_map(Value::as_str)
    }

    /// Returns true when an argument may have a name that the schema does not list: there is no schema, it
    /// allows other names (`additionalProperties`), or it lists names by keywords that are not followed
    /// here. A schema that names its properties and does not mention others allows only these: another name
    /// is a typo.
    #[must_use]
    pub fn accepts_other_arguments(&self) -> bool {
        let Some(schema) = self.input_schema.as_object() else { return true };
        let closed = match schema.get("additionalProperties") {
            None => schema.contains_key("properties"),
            Some(others) => *others == Value::Bool(false),
        };
        !closed || WIDENING.iter().any(|keyword| schema.contains_key(*keyword))
    }

    /// The schema that the `$ref`s of the arguments' schemas point into.
    #[must_use]
    pub fn inputs(&self) -> SchemaResolver<'_> {
        SchemaResolver::Json(&self.input_schema)
    }

    /// The schema that the `$ref`s of the schema of structured content point into.
    #[must_use]
    pub fn outputs(&self) -> SchemaResolver<'_> {
        SchemaResolver::Json(&self.output_schema)
    }

    fn properties(&self) -> Option<&Map<String, Value>> {
        self.input_schema.get("properties")?.as_object()
    }
}

/// Reads an MCP task, and returns it with the location of its address. Errors go to `findings`.
pub(crate) fn decode_mcp(
    field: &DocumentField<'_>,
    findings: &mut DiagnosticSink,
) -> Option<(McpTask, SourceLocation)> {
    let mut fields = ObjectReader::open(field, "an MCP task", findings)?;
    let server = fields.require("server", findings);
    let tool = fields.require("tool", findings);
    let description = fields.take("description");
    let input_schema = fields.take("inputSchema");
    let output_schema = fields.take("outputSchema");
    let annotations = fields.take("annotations");
    let headers = fields.take("headers");
    let security = fields.take("security");
    let schemes = fields.take("securitySchemes");
    fields.explain("arguments", "Write them under `input_mapping` of the step, below `arguments`.");
    fields.explain("name", "Write the name of the tool in the field `tool`.");
    fields.explain("url", "The address of the server is the field `server`.");
    fields.explain("endpoint", "The address of the server is the field `server`.");
    fields.explain(
        "command",
        "Use a server over HTTP; the executor does not start programs for a step.",
    );
    fields.finish(findings);

    let code = error_code::BAD_MCP;
    let security = read_security(field, security.as_ref(), schemes.as_ref(), code, findings);
    let headers = headers.map_or_else(BTreeMap::new, |headers| {
        decode_headers(&headers, HeaderRules { code, own: is_own_header }, findings)
    });
    let description = description.and_then(|field| field.string(findings)).map(str::to_owned);
    let hints = annotations.map(|field| decode_hints(&field, findings)).unwrap_or_default();
    let mirrored = match &input_schema {
        Some(field) => {
            check_input_schema(field, findings);
            header_params::read_header_parameters(field, findings)
        }
        None => Vec::new(),
    };
    if let Some(field) = &output_schema {
        check_schema(field, findings);
    }
    let tool = tool.and_then(|field| {
        let name = field.string(findings)?;
        check_name(name).map_err(|problem| report(&field, problem, findings)).ok()?;
        Some(name.to_owned())
    });
    let server = server?;
    let url = decode_url(server.string(findings)?);
    let url = url.map_err(|problem| report(&server, problem, findings)).ok()?;
    let value =
        |field: Option<DocumentField<'_>>| field.map_or(Value::Null, |field| field.node.to_value());
    let task = McpTask {
        server: url,
        tool: tool?,
        description,
        input_schema: value(input_schema),
        output_schema: value(output_schema),
        header_parameters: mirrored,
        hints,
        headers,
        security,
    };
    Some((task, server.at_value()))
}

/// Returns true for headers that each request has, and that describe the content of its body.
fn is_own_header(name: &str) -> bool {
    name.starts_with("mcp-") || matches!(name, "accept" | "last-event-id")
}

fn check_name(name: &str) -> Result<(), Problem> {
    let length = name.chars().count();
    if (1..=MAX_NAME).contains(&length) && !name.chars().any(char::is_control) {
        return Ok(());
    }
    let message = format!(
        "`{}` is not a valid name of a tool",
        shorten_for_message(&name.escape_debug().to_string())
    );
    Err((message, format!("Write the name from `tools/list`, with at most {MAX_NAME} characters.")))
}

/// Reads `annotations`. Annotations that do not concern repeated calls are only for people.
fn decode_hints(field: &DocumentField<'_>, findings: &mut DiagnosticSink) -> ToolAnnotations {
    let Some(mut fields) = ObjectReader::open(field, "`annotations`", findings) else {
        return ToolAnnotations::default();
    };
    if let Some(title) = fields.take("title") {
        title.string(findings);
    }
    let mut hint = |name| match fields.take(name) {
        Some(field) => field.boolean(findings).map(|value| (value, field)),
        None => None,
    };
    let [read_only, destructive, idempotent, _] =
        ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"].map(&mut hint);
    fields.finish(findings);
    let says = |hint: &Option<(bool, DocumentField<'_>)>| matches!(hint, Some((true, _)));
    if let (true, Some((true, field))) = (says(&read_only), &destructive) {
        let message = "a read-only tool cannot be destructive".to_owned();
        let hint = "Remove `readOnlyHint` or `destructiveHint`.".to_owned();
        report(field, (message, hint), findings);
    }
    ToolAnnotations {
        read_only: says(&read_only),
        idempotent: says(&read_only) || says(&idempotent),
    }
}

/// Checks that a schema is an object, `true` or `false`.
fn check_schema(field: &DocumentField<'_>, findings: &mut DiagnosticSink) {
    if !matches!(field.node.kind, NodeValue::Object(_) | NodeValue::Bool(_)) {
        findings.wrong_type(field, ExpectedType::Mapping, "a JSON Schema must be a mapping");
    }
}

/// Checks that the schema of a tool's arguments is the schema of an object.
fn check_input_schema(field: &DocumentField<'_>, findings: &mut DiagnosticSink) {
    if field.node.members().is_none() {
        findings.wrong_type(
            field,
            ExpectedType::Mapping,
            "a JSON Schema of an object must be a mapping",
        );
        return;
    }
    let below = |key: &'static str| {
        let member = field.node.member(key)?;
        let path = member_path(&field.path, key);
        Some(DocumentField { node: &member.value, path, key: member.position })
    };
    if let Some(kind) = below("type")
        && kind.node.as_str() != Some("object")
    {
        let message = "the arguments of a tool must be an object".to_owned();
        report(&kind, (message, "Write `type: object`.".to_owned()), findings);
    }
    if let Some(properties) = below("properties") {
        properties.entries(findings);
    }
    for name in below("required").map_or_else(Vec::new, |required| required.items(findings)) {
        name.string(findings);
    }
}

fn report(field: &DocumentField<'_>, (message, hint): Problem, findings: &mut DiagnosticSink) {
    findings.error_with_hint(error_code::BAD_MCP, field.at_value(), message, hint);
}

#[cfg(test)]
mod tests;
