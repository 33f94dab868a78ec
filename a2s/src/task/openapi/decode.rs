//! Reads a specification: its header, the one path, the one operation, and its responses.
//!
//! Both versions are read alike. `openapiv3` types what stands outside schemas: there 3.1 only
//! adds to 3.0. `oas3` refuses what 3.1 allows (relative addresses under `info` and in OAuth
//! flows) and gives no places, so it is not used. Schemas are never typed: they stay as written.

use std::sync::Arc;

use openapiv3 as oas;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::body::decode_body;
use super::parameter::decode_parameters;
use super::server::decode_server;
use super::{HttpMethod, OpenApiTask, OpenApiVersion};
use crate::diagnostic::SourceLocation;
use crate::error_code;
use crate::field_reader::{DiagnosticSink, DocumentField, shorten_for_message};
use crate::task::located_value::{LocatedValue, MAX_REFS, too_many_refs};
use crate::task::security::{SecurityReader, SecurityRequirement};
use crate::tree::{NodeValue, TreeNode};

/// The maximum size of a task in memory after its `$ref`s are followed, in values. A document without
/// `$ref`s stays far below it.
const MAX_WEIGHT: usize = 400_000;

/// The hint for a specification without an essential part.
const ADD_IT: &str = "Add it as in the specification of the service.";

/// Reads an OpenAPI task, and returns it with the location of its server's address. Errors go to
/// `findings`.
pub(crate) fn decode_openapi(
    field: &DocumentField<'_>,
    findings: &mut DiagnosticSink,
) -> Option<(OpenApiTask, SourceLocation)> {
    let before = findings.diagnostics.error_count();
    let version = OpenApiVersion::V3_0;
    let task = OpenApiDecoder {
        root: LocatedValue::from_field(field),
        version,
        findings,
        weight: MAX_WEIGHT,
    }
    .decode();
    task.filter(|_| findings.diagnostics.error_count() == before)
}

pub(super) struct OpenApiDecoder<'n, 'f> {
    pub(super) root: LocatedValue<'n>,
    pub(super) version: OpenApiVersion,
    findings: &'f mut DiagnosticSink,
    /// The weight of values that the task may still keep.
    weight: usize,
}

/// A path item, or an operation followed by its path item: a later layer supplies what an earlier one does
/// not state.
pub(super) type Layers<'n> = [LocatedValue<'n>];

impl<'n> OpenApiDecoder<'n, '_> {
    fn decode(&mut self) -> Option<(OpenApiTask, SourceLocation)> {
        self.check_header();
        let (path, item) = self.only_path()?;
        let layers = self.layers(item)?;
        let (method, operation) = self.only_operation(&layers)?;
        let layers: Vec<_> = std::iter::once(operation.clone()).chain(layers).collect();
        let server = decode_server(self, &layers);
        let parameters = decode_parameters(self, path, &layers);
        let body = decode_body(self, method, &operation);
        let responses = self.decode_responses(&operation);
        let security = self.decode_security(&operation);
        let (server, site) = server?;
        let raw = |member: &str| operation.text(member).map(str::to_owned);
        let summary = raw("summary").or_else(|| raw("description"));
        let operation_id = raw("operationId");
        let (components, specification) = self.keep_specification();
        let task = OpenApiTask {
            version: self.version,
            server,
            method,
            operation_id,
            summary,
            parameters: parameters?,
            body: body?,
            responses,
            security,
            path: path.to_owned(),
            components,
            specification,
        };
        Some((task, site))
    }

    fn check_header(&mut self) {
        let quoted = "Write `openapi: \"3.0.3\"`.";
        let root = self.root.clone();
        match (root.get("openapi"), root.get("swagger")) {
            (Some(field), _) => match field.node.as_str() {
                Some(version) => {
                    let mut parts = version.split('.');
                    match (parts.next(), parts.next()) {
                        (Some("3"), Some("0")) => {}
                        (Some("3"), Some("1")) => self.version = OpenApiVersion::V3_1,
                        _ => {
                            let version = shorten_for_message(version);
                            let message =
                                format!("OpenAPI `{version}` is not supported; use 3.0 or 3.1");
                            self.error(&field, message, quoted);
                        }
                    }
                }
                None => self.error(&field, "the version of OpenAPI must be a string", quoted),
            },
            (None, Some(field)) => {
                let message = "this is a Swagger 2 specification; use OpenAPI 3.0";
                self.error(&field, message, "Convert it to OpenAPI 3.0 first.");
            }
            (None, None) => self.error(&root, "the specification has no `openapi`", quoted),
        }
        match root.get("info") {
            None => {
                let hint = "Add `info` with title and version.";
                self.error(&root, "the specification has no `info`", hint);
            }
            Some(info) => {
                if let Err(error) = serde_json::from_value::<oas::Info>(info.to_value()) {
                    let hint = "Give `info` a title and a version, both as strings.";
                    self.error(&info, format!("`info` is malformed: {error}"), hint);
                }
            }
        }
    }

    fn only_path(&mut self) -> Option<(&'n str, LocatedValue<'n>)> {
        let root = self.root.clone();
        let Some(paths) = root.get("paths").filter(LocatedValue::is_mapping) else {
            self.error(&root, "the specification has no `paths`", ADD_IT);
            return None;
        };
        let mut entries = paths.entries();
        entries.retain(|(path, _)| !path.starts_with("x-"));
        if entries.len() != 1 {
            let message =
                format!("a task must have exactly one path; this one has {}", entries.len());
            self.error(&paths, message, "Keep only the path that the step requests.");
            return None;
        }
        let (path, item) = entries.pop()?;
        if !path.starts_with('/') || path.contains(['?', '#']) || path.chars().any(char::is_control)
        {
            let message = "a path must start with `/` and must not contain `?` or `#`";
            let hint = "Declare the text after `?` as query parameters.";
            self.error(&item, message, hint);
            return None;
        }
        Some((path, item))
    }

    /// Reads the authentication alternatives of the operation, or of the whole API if the operation does
    /// not state any.
    fn decode_security(&mut self, operation: &LocatedValue<'n>) -> Vec<Vec<SecurityRequirement>> {
        let root = self.root.clone();
        // An empty list says that nothing is wanted, so only a missing one is inherited.
        let holder = if operation.get("security").is_some() { operation } else { &root };
        let alternatives = self.list(holder, "security");
        let schemes = root.get("components").and_then(|all| all.get("securitySchemes"));
        let reader = SecurityReader {
            root: root.clone(),
            schemes,
            location: "components.securitySchemes",
            code: error_code::BAD_OPENAPI,
            findings: self.findings,
        };
        reader.read(&alternatives, holder)
    }

    /// A path item and the targets of its `$ref`s. Members next to a `$ref` take precedence.
    fn layers(&mut self, item: LocatedValue<'n>) -> Option<Vec<LocatedValue<'n>>> {
        let mut layers = vec![item];
        while let Some(last) = layers.last() {
            match last.step(&self.root) {
                Ok(None) => return Some(layers),
                Ok(Some(next)) if layers.len() <= MAX_REFS => layers.push(next),
                Ok(Some(_)) => {
                    let (message, hint) = too_many_refs();
                    self.error(&layers[0], message, hint);
                    return None;
                }
                Err((message, hint)) => {
                    let last = last.clone();
                    self.error(&last, message, hint);
                    return None;
                }
            }
        }
        None
    }

    fn only_operation(&mut self, item: &Layers<'n>) -> Option<(HttpMethod, LocatedValue<'n>)> {
        let mut operations: Vec<_> = HttpMethod::ALL
            .iter()
            .filter_map(|(key, method)| {
                let operation = item.iter().find_map(|layer| layer.get(key))?;
                Some((*key, *method, operation))
            })
            .collect();
        if operations.len() != 1 {
            let message = match operations.as_slice() {
                [] => "a task must have exactly one operation; this one has none".to_owned(),
                several => {
                    let keys: Vec<_> = several.iter().map(|(key, ..)| format!("`{key}`")).collect();
                    format!(
                        "a task must have exactly one operation; this one has {}",
                        keys.join(", ")
                    )
                }
            };
            self.error(&item[0], message, "Keep only the operation that the step requests.");
            return None;
        }
        let (_, method, operation) = operations.pop()?;
        if !operation.is_mapping() {
            let message = "the operation must be a mapping";
            let hint = "Write the fields of the operation below it: `responses` and others.";
            self.error(&operation, message, hint);
            return None;
        }
        Some((method, operation))
    }

    fn decode_responses(&mut self, operation: &LocatedValue<'n>) -> Vec<(String, Value)> {
        let found = operation.get("responses").filter(LocatedValue::is_mapping);
        let entries = found.map_or_else(Vec::new, |responses| responses.entries());
        if entries.is_empty() {
            // OpenAPI 3.1 does not ask for them any more.
            if self.version == OpenApiVersion::V3_0 || operation.get("responses").is_some() {
                self.error(operation, "the operation has no `responses`", ADD_IT);
            }
            return Vec::new();
        }
        let mut responses = Vec::new();
        for (status, response) in entries {
            if status.starts_with("x-") {
                continue;
            }
            let well_formed = status == "default"
                || (status.len() == 3
                    && status.starts_with(|c: char| ('1'..='5').contains(&c))
                    && (status.ends_with("XX") || status.bytes().all(|b| b.is_ascii_digit())));
            if !well_formed {
                let message = format!("`{}` is not a response status", shorten_for_message(status));
                let hint = "Write a status such as \"200\", a range such as \"2XX\", or `default`.";
                self.error(&response, message, hint);
                continue;
            }
            if let Some(target) = self.follow(&response) {
                let value = self.keep(&target);
                responses.push((status.to_owned(), value));
            }
        }
        responses
    }

    fn keep_specification(&mut self) -> (Arc<Value>, Arc<Value>) {
        let root = self.root.clone();
        let components = root.get("components").map_or(Value::Null, |spot| self.keep(&spot));
        // The task contains the operation already; only such a reference needs its text.
        let needs_paths = refers_beyond_components(root.node);
        let is_kept = |key: &str| key != "components" && (key != "paths" || needs_paths);
        let entries = root.entries().into_iter().filter(|(key, _)| is_kept(key));
        let rest: Map<_, _> =
            entries.map(|(key, spot)| (key.to_owned(), self.keep(&spot))).collect();
        (Arc::new(components), Arc::new(Value::Object(rest)))
    }

    /// Returns the value at `spot`. When `$ref`s have made the task too large, it reports an error and
    /// returns null.
    pub(super) fn keep(&mut self, spot: &LocatedValue<'_>) -> Value {
        let weight = spot.weight(self.weight);
        if weight < self.weight {
            self.weight -= weight;
            return spot.to_value();
        }
        if self.weight > 0 {
            self.weight = 0;
            let message = "the task is too large with the content of its `$ref`s";
            let hint = "Keep only the parameters and responses that the step needs.";
            self.findings.error_with_hint(error_code::BUDGET, spot.location(), message, hint);
        }
        Value::Null
    }

    /// The value `spot` itself, or the target of its `$ref`; reports a target that does not exist.
    pub(super) fn follow(&mut self, spot: &LocatedValue<'n>) -> Option<LocatedValue<'n>> {
        match spot.follow(&self.root) {
            Ok(target) => Some(target),
            Err((message, hint)) => {
                self.error(spot, message, hint);
                None
            }
        }
    }

    /// Returns the list `key` of `spot`; empty when it is missing. Reports a value that is not a list.
    pub(super) fn list(&mut self, spot: &LocatedValue<'n>, key: &str) -> Vec<LocatedValue<'n>> {
        let Some(list) = spot.get(key) else { return Vec::new() };
        if !matches!(list.node.kind, NodeValue::Array(_)) {
            let message = format!("`{key}` is {}; a list is required here", list.node.describe());
            self.error(&list, message, "Write each item on its own line after `- `.");
        }
        list.items()
    }

    /// Returns true when every member of `spot` in `keys` is a boolean or missing; reports the others.
    pub(super) fn check_booleans(&mut self, spot: &LocatedValue<'_>, keys: &[&str]) -> bool {
        let mut fit = true;
        for key in keys {
            let Some(member) = spot.get(key) else { continue };
            if !matches!(member.node.kind, NodeValue::Bool(_)) {
                let message = format!(
                    "`{key}` is {}; `true` or `false` is required here",
                    member.node.describe()
                );
                self.error(&member, message, "Write `true` or `false` without quotes.");
                fit = false;
            }
        }
        fit
    }

    /// Converts `value`, which comes from `spot`, to a type. Reports a malformed value; the message calls
    /// it `what`.
    pub(super) fn typed<T: DeserializeOwned>(
        &mut self,
        spot: &LocatedValue<'_>,
        what: &str,
        value: Value,
        hint: &str,
    ) -> Option<T> {
        match serde_json::from_value(value) {
            Ok(typed) => Some(typed),
            Err(error) => {
                self.error(spot, format!("{what} is malformed: {error}"), hint);
                None
            }
        }
    }

    pub(super) fn error(
        &mut self,
        spot: &LocatedValue<'_>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.findings.error_with_hint(error_code::BAD_OPENAPI, spot.location(), message, hint);
    }

    pub(super) fn warn(
        &mut self,
        spot: &LocatedValue<'_>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.findings.warning_with_hint(error_code::BAD_OPENAPI, spot.location(), message, hint);
    }
}

/// Returns true when a text at or below `node` may be a reference to another part of the specification than
/// its `components`.
fn refers_beyond_components(node: &TreeNode<'_>) -> bool {
    match &node.kind {
        NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) => false,
        NodeValue::String(text) => text.starts_with('#') && !text.starts_with("#/components/"),
        NodeValue::Array(items) => items.iter().any(refers_beyond_components),
        NodeValue::Object(members) => {
            members.iter().any(|member| refers_beyond_components(&member.value))
        }
    }
}

/// The typed members of `spot`, which are neither schemas nor examples. A mistake inside a schema is not a
/// reason to reject the operation.
pub(super) fn outside_schemas(spot: &LocatedValue<'_>) -> Map<String, Value> {
    let left_out = ["schema", "content", "example", "examples"];
    let kept = |key: &str| !left_out.contains(&key) && !key.starts_with("x-");
    let members = spot.node.members().unwrap_or_default().iter();
    let members = members.filter(|member| kept(&member.key));
    members.map(|member| (member.key.as_ref().to_owned(), member.value.to_value())).collect()
}
