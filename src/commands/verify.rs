//! `a2s verify`: is a document what its checksum says?

use std::path::Path;

use a2s::Document;
use a2s_api::{VerifyRequest, VerifyResponse};
use serde_json::json;

use super::document;
use super::version_spec::VersionSpec;
use crate::cli_error::{CliError, CliExitCode};
use crate::client::ServiceClient;
use crate::output::{BAD, CommandOutput, GOOD, NAME, sanitize};

pub(super) async fn verify(
    target: &str,
    client: impl FnOnce() -> Result<ServiceClient, CliError>,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    if let Some(path) = VersionSpec::find_file(target) {
        return verify_file(path, output);
    }
    let VersionSpec { name, range } = VersionSpec::parse(target)?;
    verify_published(VerifyRequest { name, version: parse_exact(range)? }, &client()?, output).await
}

/// Parses a version, not a range: the command verifies one content.
fn parse_exact(range: Option<String>) -> Result<Option<semver::Version>, CliError> {
    range
        .map(|range| {
            range.parse().map_err(|_| {
                CliError::invalid_argument(format!("`{range}` is not an exact version"))
                    .with_hint("Write all three numbers: 1.0.0.")
            })
        })
        .transpose()
}

fn verify_file(path: &Path, output: &mut CommandOutput) -> Result<(), CliError> {
    let source = document::read(path)?;
    let name = path.display().to_string();
    match Document::open(&source) {
        Ok(document) => {
            let digest = document.digest();
            if output.is_json() {
                output.json_line(&json!({ "file": name, "valid": true, "checksum": digest }));
            } else {
                output.line(format_args!("{digest}  {GOOD}good{GOOD:#}  {}", sanitize(&name)));
            }
            Ok(())
        }
        Err(diagnostics) => {
            if output.is_json() {
                let digest = a2s::compile(&source).digest;
                output.json_line(&json!({
                    "file": name, "valid": false, "checksum": digest, "issues": diagnostics,
                }));
            } else {
                output.line(format_args!("{BAD}bad{BAD:#}   {}", sanitize(&name)));
                output.print_diagnostics(
                    &name,
                    &source,
                    diagnostics.iter().filter(|d| d.is_error()),
                );
            }
            Err(CliError::already_printed(CliExitCode::Bad))
        }
    }
}

async fn verify_published(
    request: VerifyRequest,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let answer: VerifyResponse = client.post(&["v1", "verify"], &request).await?;
    let VerifyResponse { name, version, checksum, .. } = &answer;
    if output.is_json() {
        output.json_line(&answer);
    } else if answer.valid {
        output.line(format_args!("{checksum}  {GOOD}good{GOOD:#}  {NAME}{name}{NAME:#} {version}"));
    } else {
        output.line(format_args!("{BAD}bad{BAD:#}   {NAME}{name}{NAME:#} {version}"));
        output.line(format_args!("  published  {checksum}"));
        if let Some(computed) = answer.computed {
            output.line(format_args!("  now        {computed}"));
        }
        if let Some(message) = &answer.message {
            output.line(format_args!("  {}", sanitize(message)));
        }
    }
    if answer.valid { Ok(()) } else { Err(CliError::already_printed(CliExitCode::Bad)) }
}
