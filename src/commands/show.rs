//! `a2s show`: what a published capability does, takes and gives.

use a2s::api::CapabilityVersions;
use a2s::{Action, Capability, Document, Interface};
use reqwest::Method;
use reqwest::header::ACCEPT;
use semver::{Version, VersionReq};
use serde_json::{Value, json};

use super::target::Target;
use crate::client::Client;
use crate::failure::{BAD_ANSWER, BAD_ARGUMENT, Exit, Failure};
use crate::output::{BOLD, DIM, NAME, Output, WARN};

pub(super) async fn show(
    capability: &str,
    yaml: bool,
    client: &Client,
    output: &mut Output,
) -> Result<(), Failure> {
    let Target { name, range } = Target::parse(capability)?;
    let versions: CapabilityVersions = client.get(&["v1", "capabilities", name.as_str()]).await?;
    let version = choose(&versions, range.as_deref())?;
    let path = ["v1", "capabilities", name.as_str(), &version.to_string()];
    let request = client.request(Method::GET, &path).header(ACCEPT, a2s::api::YAML);
    let source = client.bytes(request).await?;
    if yaml {
        output.raw(&String::from_utf8_lossy(&source));
        return Ok(());
    }
    let document = Document::open(&source).map_err(|diagnostics| {
        let message = format!("the registry gave a document of {name} {version} that is not valid");
        Failure { diagnostics, ..Failure::new(Exit::Bad, BAD_ANSWER, message) }
    })?;
    let interface = document.interface();
    if output.is_json() {
        output.json_line(&to_json(&document, &interface, &versions));
    } else {
        print(&document, &interface, &versions, output);
    }
    Ok(())
}

/// The newest version in the range; without a range the registry's choice. An exact version may be
/// yanked: whoever names it has it.
fn choose(versions: &CapabilityVersions, range: Option<&str>) -> Result<Version, Failure> {
    let none = |what: String| {
        let known: Vec<_> = versions.versions.iter().map(|v| v.version.to_string()).collect();
        Failure::new(Exit::Bad, BAD_ARGUMENT, format!("{} has no {what}", versions.name))
            .with_hint(format!("There are {}.", known.join(", ")))
    };
    let Some(range) = range else {
        return versions.latest.clone().ok_or_else(|| none("live stable version".to_owned()));
    };
    if let Ok(exact) = range.parse::<Version>() {
        let known = versions.versions.iter().find(|known| known.version == exact);
        return known
            .map(|known| known.version.clone())
            .ok_or_else(|| none(format!("version {exact}")));
    }
    let range: VersionReq = range.parse().map_err(|_| none(format!("version `{range}`")))?;
    versions
        .versions
        .iter()
        .filter(|version| !version.yanked && range.matches(&version.version))
        .map(|version| version.version.clone())
        .max()
        .ok_or_else(|| none(format!("live version in `{range}`")))
}

fn to_json(document: &Document, interface: &Interface, versions: &CapabilityVersions) -> Value {
    let capability = document.capability();
    json!({
        "name": capability.name,
        "version": capability.version,
        "checksum": document.digest(),
        "description": capability.description,
        "interface": interface,
        "versions": versions.versions,
        "document": document.content(),
    })
}

fn print(
    document: &Document,
    interface: &Interface,
    versions: &CapabilityVersions,
    output: &mut Output,
) {
    let capability = document.capability();
    let Capability { name, version, description, .. } = capability;
    output.line(format_args!("{NAME}{name}{NAME:#} {version}  {description}"));
    output.line(format_args!("{DIM}{}{DIM:#}", document.digest()));
    let yanked = versions.versions.iter().any(|v| v.version == *version && v.yanked);
    if yanked {
        output.line(format_args!("{WARN}yanked{WARN:#}: kept for those who pin it"));
    }
    let authors: Vec<_> = capability.authors.iter().map(|author| author.name.as_str()).collect();
    let services: Vec<_> = interface.services.iter().map(a2s::Domain::as_str).collect();
    let changes = match (interface.read_only, capability.dependencies.is_empty()) {
        (true, _) => "only reads",
        (false, true) => "changes something",
        (false, false) => "does what its dependencies do",
    };
    output.line(format_args!("  {BOLD}by{BOLD:#}        {}", authors.join(", ")));
    output.line(format_args!("  {BOLD}services{BOLD:#}  {}", services.join(", ")));
    output.line(format_args!(
        "  {BOLD}effort{BOLD:#}    {} complexity, {changes}",
        interface.complexity.as_str()
    ));
    output.line(format_args!(
        "  {BOLD}inputs{BOLD:#}    {}",
        if interface.inputs.is_empty() { "none" } else { "" }
    ));
    for input in &interface.inputs {
        let needed = if input.required { "" } else { " (optional)" };
        let about = input.description.as_deref().unwrap_or_default();
        let patterns = if input.patterns.is_empty() {
            String::new()
        } else {
            format!("  {DIM}{}{DIM:#}", input.patterns.join(" | "))
        };
        output.line(format_args!("    {}{needed}  {about}{patterns}", input.name));
    }
    output.line(format_args!("  {BOLD}gives{BOLD:#}     {}", interface.outputs.join(", ")));
    for dependency in &capability.dependencies {
        let pin =
            dependency.checksum.map_or_else(String::new, |pin| format!("  {DIM}{pin}{DIM:#}"));
        output.line(format_args!(
            "  {BOLD}uses{BOLD:#}      {} {}{pin}",
            dependency.capability, dependency.range
        ));
    }
    output.line(format_args!("  {BOLD}steps{BOLD:#}"));
    capability.for_each_step(|step| {
        let depth = step.pointer.matches("steps[").count();
        let what = match &step.action {
            Action::Task { task, .. } => format!("{} at {}", task.format(), task.url()),
            Action::Capability { capability, .. } => format!("uses {capability}"),
            Action::Block(a2s::Block::Condition { condition, .. }) => {
                format!("if {}", condition.source())
            }
            Action::Block(block) => block.kind().to_owned(),
        };
        output.line(format_args!("  {}{}  {DIM}{what}{DIM:#}", "  ".repeat(depth), step.id));
    });
}
