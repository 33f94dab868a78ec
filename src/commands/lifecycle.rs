//! `a2s yank`, `a2s unyank`, `a2s deprecate`: what becomes of a published version. And
//! `a2s forget-intents`.

use a2s::CapabilityName;
use a2s_api::{DeprecateRequest, ForgetResponse, LifecycleResponse};
use agent::RemoteRegistry;
use reqwest::Method;
use semver::Version;

use super::graph::print_impact;
use super::version_spec::VersionSpec;
use crate::cli::{DeprecateArgs, YankArgs};
use crate::cli_error::CliError;
use crate::client::ServiceClient;
use crate::output::{CommandOutput, DIM, GOOD, NAME, WARN, sanitize};

/// Yanks a version. The registry refuses without `force` when published versions would break.
pub(super) async fn yank(
    YankArgs { target, force }: &YankArgs,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let (name, version) = parse_exact(target)?;
    let registry = RemoteRegistry::new(client.clone());
    let response = match force {
        true => registry.force_yank(&name, &version).await?,
        false => registry.yank(&name, &version, true, None).await?,
    };
    report(&response, "yanked", output);
    Ok(())
}

/// Restores a yanked version.
pub(super) async fn unyank(
    target: &str,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let (name, version) = parse_exact(target)?;
    let response = RemoteRegistry::new(client.clone()).yank(&name, &version, false, None).await?;
    report(&response, "unyanked", output);
    Ok(())
}

/// Deprecates a version, or removes the deprecation.
pub(super) async fn deprecate(
    arguments: DeprecateArgs,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let DeprecateArgs { target, successor, message, undo } = arguments;
    let (name, version) = parse_exact(&target)?;
    let request = DeprecateRequest { message, successor, undo };
    let answer =
        RemoteRegistry::new(client.clone()).deprecate(&name, &version, &request, None).await?;
    report(&answer, if undo { "no longer deprecated" } else { "deprecated" }, output);
    Ok(())
}

/// Removes the accepted intents of a capability.
pub(super) async fn forget_intents(
    name: &CapabilityName,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let path = ["v1", "capabilities", name.as_str(), "learned"];
    let answer: ForgetResponse = client.json(client.request(Method::DELETE, &path)).await?;
    if output.is_json() {
        output.json_line(&answer);
    } else {
        let word = if answer.changed { "forgotten" } else { "nothing was learned" };
        output.line(format_args!("{GOOD}{word}{GOOD:#}  {NAME}{name}{NAME:#}"));
    }
    Ok(())
}

/// Parses `NAME@VERSION`, with a version and not a range: a withdrawal needs the exact version.
fn parse_exact(target: &str) -> Result<(CapabilityName, Version), CliError> {
    let VersionSpec { name, range } = VersionSpec::parse(target)?;
    let version = range.as_deref().and_then(|range| Version::parse(range).ok());
    match version {
        Some(version) => Ok((name, version)),
        None => Err(CliError::invalid_argument(format!("`{target}` is not an exact version"))
            .with_hint(format!("Write {name}@1.2.0; `a2s show {name}` shows the newest version."))),
    }
}

fn report(answer: &LifecycleResponse, done: &str, output: &mut CommandOutput) {
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
        output.line(format_args!("  {}", sanitize(&deprecated.to_string())));
    }
    match latest {
        Some(latest) => output.line(format_args!("  {DIM}the newest is {latest}{DIM:#}")),
        None => output.line(format_args!(
            "  {WARN}all versions{WARN:#} of {name} are yanked: searches and ranges do not find it"
        )),
    }
    if let Some(impact) = &answer.impact {
        print_impact("effects", impact, output);
    }
}
