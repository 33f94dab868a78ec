//! `a2s trust`: the checksums that the executor remembers of versions.

use a2s::CapabilityName;
use a2s_api::{TrustList, TrustRequest, TrustedVersion};
use reqwest::Method;
use semver::Version;

use super::version_spec::VersionSpec;
use crate::cli::TrustCommand;
use crate::cli_error::CliError;
use crate::client::ServiceClient;
use crate::output::{CommandOutput, DIM, NAME, sanitize};

pub(super) async fn trust(
    command: TrustCommand,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    match command {
        TrustCommand::List => {
            let versions = read_all(client).await?;
            if output.is_json() {
                output.json_line(&TrustList { versions, next: None });
            } else if versions.is_empty() {
                output.line(format_args!("no remembered checksums"));
            } else {
                let rows: Vec<_> = versions.iter().map(cells).collect();
                output.table(["CAPABILITY", "REMEMBERED", "CHECKSUM"], &rows);
            }
        }
        TrustCommand::Accept { target, checksum } => {
            let (name, version) = read_target(&target)?;
            let path = ["v1", "trust", name.as_str(), &version.to_string()];
            let request = client.request(Method::PUT, &path).json(&TrustRequest { checksum });
            let trusted: TrustedVersion = client.json(request).await?;
            if output.is_json() {
                output.json_line(&trusted);
            } else {
                output.line(format_args!("{}", cells(&trusted).join("  ")));
            }
        }
        TrustCommand::Forget { target } => {
            let (name, version) = read_target(&target)?;
            let path = ["v1", "trust", name.as_str(), &version.to_string()];
            client.bytes(client.request(Method::DELETE, &path)).await?;
            if output.is_json() {
                output.json_line(&serde_json::json!({ "forgotten": target }));
            } else {
                output.line(format_args!("forgot the checksum of {NAME}{name}{NAME:#} {version}"));
            }
        }
    }
    Ok(())
}

/// Reads all pages of the list.
async fn read_all(client: &ServiceClient) -> Result<Vec<TrustedVersion>, CliError> {
    let mut versions = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let request = client.request(Method::GET, &["v1", "trust"]).query(&[("limit", "1000")]);
        let request = match &after {
            Some(after) => request.query(&[("after", after)]),
            None => request,
        };
        let page: TrustList = client.json(request).await?;
        versions.extend(page.versions);
        if page.next.is_none() || page.next == after {
            return Ok(versions);
        }
        after = page.next;
    }
}

/// Parses the exact version that the user gave.
fn read_target(text: &str) -> Result<(CapabilityName, Version), CliError> {
    let VersionSpec { name, range } = VersionSpec::parse(text)?;
    let version = range.and_then(|range| range.parse().ok()).ok_or_else(|| {
        CliError::invalid_argument(format!("`{text}` is not an exact version"))
            .with_hint("Write NAME@VERSION, such as ListDogBreeds@1.0.0.")
    })?;
    Ok((name, version))
}

fn cells(trusted: &TrustedVersion) -> Vec<String> {
    let TrustedVersion { name, version, checksum, remembered_at, accepted_by } = trusted;
    let how = match accepted_by {
        Some(principal) => format!("accepted by {}", sanitize(principal)),
        None => "first seen".to_owned(),
    };
    vec![
        format!("{NAME}{name}{NAME:#} {version}"),
        format!("{DIM}{how} {remembered_at:.0}{DIM:#}"),
        checksum.to_string(),
    ]
}
