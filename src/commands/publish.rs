//! `a2s publish`: give documents to the registry.

use std::sync::Arc;

use a2s::Document;
use a2s_api::PublishResponse;
use rayon::prelude::*;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::json;

use tokio::runtime::Handle;

use super::test::{DocumentSet, print_outcome, run_example};
use super::{checksum, document};
use crate::cli::PublishArgs;
use crate::cli_error::{CliError, CliExitCode, EXAMPLE};
use crate::client::ServiceClient;
use crate::output::{BAD, CommandOutput, DIM, GOOD, NAME, sanitize};
use crate::publish_order::sort_by_dependency;

pub(super) async fn publish(
    arguments: &PublishArgs,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let mut documents = Vec::new();
    for file in document::expand(&arguments.files)? {
        let mut source = document::read(&file)?;
        if arguments.write_checksum {
            source = checksum::update_checksum(&file, source)?;
        }
        documents.push((file.display().to_string(), source));
    }
    let mut bench = DocumentSet::default();
    for document in documents.iter().filter_map(|(_, source)| Document::open(source).ok()) {
        bench.add(&Arc::new(document));
    }
    let mut exit = None;
    for (file, source) in sort_by_dependency(documents) {
        if !arguments.skip_tests
            && !run_examples(&file, &source, &mut bench, client, output).await?
        {
            exit = Some(CliError::already_printed(CliExitCode::Bad));
            continue;
        }
        match publish_document(&source, client).await {
            Ok(answer) => report(&file, &source, &answer, output),
            Err(failure) if failure.exit == CliExitCode::Unreachable => return Err(failure),
            Err(failure) => {
                exit = Some(CliError::already_printed(failure.exit));
                report_failure(&file, &source, &failure, output);
            }
        }
    }
    exit.map_or(Ok(()), Err)
}

/// Runs the examples of a document, and returns true when they pass. A document that cannot be run, because
/// it has errors or does not fit its dependencies, is left to the registry: it reports the reason.
///
/// # Errors
/// The registry is needed for that and does not answer.
async fn run_examples(
    file: &str,
    source: &[u8],
    bench: &mut DocumentSet,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<bool, CliError> {
    let Ok(document) = Document::open(source).map(Arc::new) else { return Ok(true) };
    let examples = &document.capability().examples;
    if examples.is_empty() {
        return Ok(true);
    }
    let trial = match bench.load_runner(&document, client).await {
        Ok(trial) => trial,
        Err(failure) if failure.exit == CliExitCode::Unreachable => return Err(failure),
        Err(_) => return Ok(true),
    };
    let runtime = Handle::current();
    let tried = examples.par_iter().map(|example| run_example(&trial, example, &runtime));
    let tried: Vec<_> = tried.collect();
    let failed = tried.iter().enumerate();
    let failed =
        failed.filter(|(_, tried)| !tried.as_ref().is_ok_and(executor::ExampleResult::is_success));
    let failed: Vec<_> = failed.collect();
    if failed.is_empty() {
        return Ok(true);
    }
    let message = match failed.len() {
        1 => "an example of the document fails".to_owned(),
        more => format!("{more} examples of the document fail"),
    };
    let hint =
        format!("`a2s test {file}` shows the cause; `--skip-tests` publishes without the tests.");
    let failure = CliError::new(CliExitCode::Bad, EXAMPLE, message).with_hint(hint);
    report_failure(file, source, &failure, output);
    if !output.is_json() {
        for (number, outcome) in failed {
            print_outcome(&document, number, outcome, output);
        }
    }
    Ok(false)
}

/// Publishes one document in the registry.
pub(crate) async fn publish_document(
    source: &[u8],
    client: &ServiceClient,
) -> Result<PublishResponse, CliError> {
    let request = client
        .request(Method::POST, &["v1", "capabilities"])
        .header(CONTENT_TYPE, document::media_type(source))
        .body(source.to_vec());
    Ok(client.json(request).await?)
}

fn report(file: &str, source: &[u8], answer: &PublishResponse, output: &mut CommandOutput) {
    let PublishResponse { name, version, checksum, created, warnings } = answer;
    if output.is_json() {
        let mut line = json!(answer);
        line["file"] = json!(file);
        output.json_line(&line);
        return;
    }
    let word = if *created { "published" } else { "unchanged" };
    output.line(format_args!(
        "{GOOD}{word}{GOOD:#}  {NAME}{name}{NAME:#} {version}  {DIM}{checksum}{DIM:#}"
    ));
    output.print_diagnostics(file, source, warnings);
}

fn report_failure(file: &str, source: &[u8], failure: &CliError, output: &mut CommandOutput) {
    if output.is_json() {
        let mut line = failure.to_json();
        line["file"] = json!(file);
        output.json_line(&line);
        return;
    }
    output.line(format_args!("{BAD}refused{BAD:#}    {}", sanitize(file)));
    output.print_diagnostics(file, source, &failure.diagnostics);
    if failure.diagnostics.is_empty() {
        output.print_error(failure);
    }
}
