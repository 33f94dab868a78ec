//! `a2s yank`, `a2s unyank`, `a2s deprecate`: what becomes of a published version.

use a2s::CapabilityName;
use a2s::api::{DeprecateRequest, LifecycleResponse};
use agent::Registry;
use semver::Version;

use super::graph::print_impact;
use super::version_spec::Target;
use crate::cli::DeprecateArgs;
use crate::cli_error::Failure;
use crate::client::Client;
use crate::output::{DIM, GOOD, NAME, Output, WARN, plain};

/// Withdraws a version, or brings it back.
pub(super) async fn yank(
    target: &str,
    yanked: bool,
    client: &Client,
    output: &mut Output,
) -> Result<(), Failure> {
    let (name, version) = exact(target)?;
    let answer = Registry::new(client.clone()).yank(&name, &version, yanked, None).await?;
    report(&answer, if yanked { "yanked" } else { "brought back" }, output);
    Ok(())
}

/// Deprecates a version, or takes that back.
pub(super) async fn deprecate(
    arguments: DeprecateArgs,
    client: &Client,
    output: &mut Output,
) -> Result<(), Failure> {
    let DeprecateArgs { target, successor, message, undo } = arguments;
    let (name, version) = exact(&target)?;
    let request = DeprecateRequest { message, successor, undo };
    let answer = Registry::new(client.clone()).deprecate(&name, &version, &request, None).await?;
    report(&answer, if undo { "no longer deprecated" } else { "deprecated" }, output);
    Ok(())
}

/// `NAME@VERSION`, with a version and no range: nobody withdraws what they did not name.
fn exact(target: &str) -> Result<(CapabilityName, Version), Failure> {
    let Target { name, range } = Target::parse(target)?;
    let version = range.as_deref().and_then(|range| Version::parse(range).ok());
    match version {
        Some(version) => Ok((name, version)),
        None => Err(Failure::argument(format!("`{target}` names no exact version"))
            .with_hint(format!("Write {name}@1.2.0; `a2s show {name}` tells the newest."))),
    }
}

fn report(answer: &LifecycleResponse, done: &str, output: &mut Output) {
    if output.is_json() {
        output.json_line(answer);
        return;
    }
    let LifecycleResponse { name, version, checksum, changed, latest, .. } = answer;
    let word = if *changed { done } else { "unchanged" };
    output.line(format_args!(
        "{GOOD}{word}{GOOD:#}  {NAME}{name}{NAME:#} {version}  {DIM}{checksum}{DIM:#}"
    ));
    if let Some(deprecated) = &answer.deprecated {
        output.line(format_args!("  {}", plain(&deprecated.to_string())));
    }
    match latest {
        Some(latest) => output.line(format_args!("  {DIM}the newest is {latest}{DIM:#}")),
        None => output.line(format_args!("  {WARN}no version is left{WARN:#} that can be found")),
    }
    if let Some(impact) = &answer.impact {
        print_impact("by that", impact, output);
    }
}
