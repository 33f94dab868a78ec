//! `a2s publish`: give documents to the registry.

use std::sync::Arc;

use a2s::Document;
use a2s_api::PublishResponse;
use rayon::prelude::*;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::json;

use tokio::runtime::Handle;

use super::findability::{self, FindabilityReporter};
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
    let mut published = Vec::new();
    let documents = sort_by_dependency(documents);
    let result =
        publish_all(documents, arguments, &mut bench, client, &mut published, output).await;
    let is_reachable =
        !result.as_ref().is_err_and(|failure| failure.exit == CliExitCode::Unreachable);
    report_findability(&published, client, is_reachable, output).await;
    result
}

/// A document that the registry has, and its response.
struct PublishedDocument {
    file: String,
    source: Vec<u8>,
    answer: PublishResponse,
}

/// Publishes documents in this order, and prints each result; as JSON only the failures.
async fn publish_all(
    documents: Vec<(String, Vec<u8>)>,
    arguments: &PublishArgs,
    bench: &mut DocumentSet,
    client: &ServiceClient,
    published: &mut Vec<PublishedDocument>,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let mut exit = None;
    for (file, source) in documents {
        if !arguments.skip_tests && !run_examples(&file, &source, bench, client, output).await? {
            exit = Some(CliError::already_printed(CliExitCode::Bad));
            continue;
        }
        match publish_document(&source, client).await {
            Ok(answer) => {
                if !output.is_json() {
                    print_response(&file, &source, &answer, output);
                }
                published.push(PublishedDocument { file, source, answer });
            }
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

/// Prints the findability of the published documents, after all of them are published: they may be confused
/// with each other.
async fn report_findability(
    published: &[PublishedDocument],
    client: &ServiceClient,
    is_reachable: bool,
    output: &mut CommandOutput,
) {
    let mut reporter = FindabilityReporter::new(is_reachable.then_some(client));
    for PublishedDocument { file, source, answer } in published {
        let report = reporter.report(source).await;
        if output.is_json() {
            let mut line = json!(answer);
            line["file"] = json!(file);
            if let Some(report) = report {
                line["findability"] = json!(report);
            }
            output.json_line(&line);
        } else if let Some(report) = report {
            findability::print(&report, published.len() > 1, output);
        }
    }
    reporter.print_failure(output);
}

fn print_response(file: &str, source: &[u8], answer: &PublishResponse, output: &mut CommandOutput) {
    let PublishResponse { name, version, checksum, created, warnings } = answer;
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
