//! `a2s show`: the description, inputs and outputs of a capability.

use std::path::Path;

use a2s::{
    Capability, CapabilityInterface, CapabilityStep, Document, InputField, OnError, Step,
    StepBlock, StepChoice, TaskStep,
};
use a2s_api::CapabilityVersions;
use serde_json::{Value, json};

use super::version_spec::VersionSpec;
use super::{dependency_loader, document};
use crate::cli::ShowArgs;
use crate::cli_error::CliError;
use crate::client::ServiceClient;
use crate::output::{BOLD, CommandOutput, DIM, NAME, WARN, sanitize};

/// The maximum number of listed values of an `enum`.
const MAX_CHOICES: usize = 8;
/// The maximum width of the column of names, in characters.
const MAX_COLUMN: usize = 24;
/// The nesting depth up to which a type is described.
const MAX_NESTING: usize = 3;

pub(super) async fn show(
    arguments: &ShowArgs,
    client: impl FnOnce() -> Result<ServiceClient, CliError>,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let target = arguments.target.as_str();
    let (source, shown) = match VersionSpec::find_file(target) {
        Some(path) => from_file(path, output)?,
        None => from_registry(VersionSpec::parse(target)?, &client()?).await?,
    };
    if arguments.yaml {
        output.raw(&String::from_utf8_lossy(&source));
    } else if arguments.schema {
        let capability = shown.document.capability();
        let (title, description) = (capability.name.as_str(), &capability.description);
        let schema = shown.document.interface_as_written().to_json_schema(title, description);
        output.print_schema(&schema);
    } else if output.is_json() {
        output.json_line(&shown.to_json());
    } else {
        shown.print(output);
    }
    Ok(())
}

/// A capability, and its published versions.
struct ShownCapability {
    document: Document,
    versions: Option<CapabilityVersions>,
}

fn from_file(
    path: &Path,
    output: &mut CommandOutput,
) -> Result<(Vec<u8>, ShownCapability), CliError> {
    let (source, document) = document::open(path, output)?;
    Ok((source, ShownCapability { document, versions: None }))
}

async fn from_registry(
    target: VersionSpec,
    client: &ServiceClient,
) -> Result<(Vec<u8>, ShownCapability), CliError> {
    let (source, document) = dependency_loader::fetch_document(&target, client).await?;
    let name = &target.name;
    let versions = client.get(&["v1", "capabilities", name.as_str()]).await?;
    Ok((source, ShownCapability { document, versions: Some(versions) }))
}

impl ShownCapability {
    fn to_json(&self) -> Value {
        let capability = self.document.capability();
        let mut line = json!({
            "name": capability.name,
            "version": capability.version,
            "checksum": self.document.digest(),
            "description": capability.description,
            "interface": self.document.interface_as_written(),
            "dependencies": capability.dependencies.iter().map(|dependency| json!({
                "name": dependency.capability,
                "range": dependency.range,
                "checksum": dependency.checksum,
            })).collect::<Vec<_>>(),
            "document": self.document.content(),
        });
        if let Some(versions) = &self.versions {
            line["versions"] = json!(versions.versions);
        }
        line
    }
}
impl ShownCapability {
    fn print(&self, output: &mut CommandOutput) {
        let (capability, interface) = (self.document.capability(), self.document.interface());
        let Capability { name, version, description, .. } = capability;
        output.line(format_args!("{NAME}{name}{NAME:#} {version}  {}", sanitize(description)));
        output.line(format_args!("{DIM}{}{DIM:#}", self.document.digest()));
        let known = self.versions.iter().flat_map(|known| &known.versions);
        if let Some(known) = known.into_iter().find(|known| known.version == *version) {
            if known.yanked {
                output.line(format_args!("{WARN}yanked{WARN:#}: kept for documents that pin it"));
            }
            if let Some(deprecated) = &known.deprecated {
                output.line(format_args!("{WARN}{}{WARN:#}", sanitize(&deprecated.to_string())));
            }
        }
        let authors: Vec<_> =
            capability.authors.iter().map(|author| sanitize(&author.name)).collect();
        print_about("by", &authors.join(", "), output);
        print_about("services", &joined(&interface.services), output);
        let changes = match (interface.read_only, capability.dependencies.is_empty()) {
            (true, _) => "only reads",
            (false, true) => "changes something",
            (false, false) => "changes what its dependencies change",
        };
        let complexity = interface.complexity.as_str();
        print_about("effort", &format!("{complexity} complexity, {changes}"), output);
        if !interface.permissions.is_empty() {
            print_about("needs", &joined(&interface.permissions), output);
        }
        for dependency in &capability.dependencies {
            let pin =
                dependency.checksum.map_or_else(String::new, |pin| format!("  {DIM}{pin}{DIM:#}"));
            let used = format!("{} {}{pin}", dependency.capability, dependency.range);
            print_about("uses", &used, output);
        }
        self.print_fields(output);
        output.line(format_args!("  {BOLD}steps{BOLD:#}"));
        capability.execution.children().into_iter().for_each(|step| print_step(step, 2, output));
    }

    fn print_fields(&self, output: &mut CommandOutput) {
        let CapabilityInterface { inputs, outputs, uses_others, .. } =
            &self.document.interface_as_written();
        let names = inputs.iter().map(|input| &input.name);
        let names = names.chain(outputs.iter().map(|field| &field.name));
        let width = names.map(|name| name.chars().count()).max().unwrap_or(0).min(MAX_COLUMN);
        let none = if inputs.is_empty() { "    none" } else { "" };
        output.line(format_args!("  {BOLD}inputs{BOLD:#}{none}"));
        for input in inputs {
            let about = input.description.as_deref();
            print_field((&input.name, width), &describe_input(input), about, output);
            if !input.patterns.is_empty() {
                let patterns = input.patterns.join(" | ");
                output.line(format_args!("      {DIM}{}{DIM:#}", sanitize(&patterns)));
            }
        }
        if *uses_others {
            output.line(format_args!(
                "    {DIM}and the other permissions of its dependencies{DIM:#}"
            ));
        }
        let none = if outputs.is_empty() { "     nothing" } else { "" };
        output.line(format_args!("  {BOLD}gives{BOLD:#}{none}"));
        for field in outputs {
            let kind = describe_schema(&field.schema, 0);
            print_field((&field.name, width), &kind, field.description.as_deref(), output);
        }
    }
}

/// Describes the values that an input accepts.
fn describe_input(input: &InputField) -> String {
    let mut words = Vec::new();
    let kind = describe_schema(&input.schema, 0);
    if !kind.is_empty() {
        words.push(kind);
    }
    match &input.default {
        Some(default) => words.push(format!("default {default}")),
        None if !input.required => words.push("optional".to_owned()),
        None => {}
    }
    if input.secret {
        words.push("secret".to_owned());
    }
    words.join(", ")
}

/// Describes the values that a JSON Schema allows; the description is empty when it allows any value.
fn describe_schema(schema: &Value, depth: usize) -> String {
    if depth > MAX_NESTING {
        return "…".to_owned();
    }
    if let Some(choices) = schema["enum"].as_array() {
        let more = if choices.len() > MAX_CHOICES { ", …" } else { "" };
        let choices: Vec<_> = choices.iter().take(MAX_CHOICES).map(ToString::to_string).collect();
        return format!("one of {}{more}", choices.join(", "));
    }
    for members in ["anyOf", "oneOf"] {
        if let Some(members) = schema[members].as_array() {
            let mut kinds: Vec<_> =
                members.iter().map(|one| describe_schema(one, depth + 1)).collect();
            kinds.dedup();
            let known = kinds.iter().all(|kind| !kind.is_empty());
            return if known { kinds.join(" or ") } else { String::new() };
        }
    }
    let item = describe_schema(schema.get("items").unwrap_or(&Value::Null), depth + 1);
    let name = |kind: &Value| match kind.as_str().unwrap_or_default() {
        "array" if !item.is_empty() => format!("array of {item}"),
        kind => kind.to_owned(),
    };
    match &schema["type"] {
        Value::Array(kinds) => kinds.iter().map(name).collect::<Vec<_>>().join(" or "),
        kind => name(kind),
    }
}

/// Prints a line about a field; the column of the name has `width` characters.
fn print_field(
    (name, width): (&str, usize),
    kind: &str,
    about: Option<&str>,
    output: &mut CommandOutput,
) {
    let name = sanitize(name);
    let kind =
        if kind.is_empty() { String::new() } else { format!("  {DIM}{}{DIM:#}", sanitize(kind)) };
    let about = about.map_or_else(String::new, |about| format!("  {}", sanitize(about)));
    let width = if kind.is_empty() && about.is_empty() { 0 } else { width };
    output.line(format_args!("    {BOLD}{name:width$}{BOLD:#}{kind}{about}"));
}

/// Prints a text after its heading.
fn print_about(heading: &str, text: &str, output: &mut CommandOutput) {
    output.line(format_args!("  {BOLD}{heading:9}{BOLD:#} {text}"));
}

fn joined(names: &[impl std::fmt::Display]) -> String {
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn print_step(step: &Step, depth: usize, output: &mut CommandOutput) {
    let block = step.action.as_block();
    let choice = block.and_then(StepBlock::choice);
    let what = if let Some(TaskStep { task, .. }) = step.action.as_task() {
        let tool = task.tool().map_or_else(String::new, |tool| format!(" tool {tool}"));
        format!("{}{tool} at {}", task.format(), task.url())
    } else if let Some(CapabilityStep { capability, .. }) = step.action.as_capability() {
        format!("uses {capability}")
    } else if let Some(StepChoice { condition, .. }) = choice {
        format!("if {}", condition.source())
    } else {
        step.action.kind().as_str().to_owned()
    };
    let mut words = vec![what];
    if let Some(for_each) = &step.control.for_each {
        words.push(format!("for each {}", for_each.name));
    }
    if let Some(retry) = &step.control.retry {
        words.push(format!("up to {} attempts", retry.max_attempts));
    }
    if step.control.on_error == OnError::Continue {
        words.push("may fail".to_owned());
    }
    let (indent, words) = ("  ".repeat(depth), words.join(", "));
    output.line(format_args!("{indent}{}  {DIM}{}{DIM:#}", step.id, sanitize(&words)));
    if let Some(StepChoice { if_true, if_false, .. }) = choice {
        if_true.iter().for_each(|step| print_step(step, depth + 1, output));
        if !if_false.is_empty() {
            output.line(format_args!("{indent}{DIM}else{DIM:#}"));
            if_false.iter().for_each(|step| print_step(step, depth + 1, output));
        }
    } else if let Some(block) = block {
        block.children().into_iter().for_each(|step| print_step(step, depth + 1, output));
    }
    if let OnError::Catch { steps, .. } = &step.control.on_error {
        output.line(format_args!("{indent}{DIM}on failure{DIM:#}"));
        steps.iter().for_each(|step| print_step(step, depth + 1, output));
    }
}
