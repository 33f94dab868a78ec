//! `a2s test`: documents held to their own examples.

mod example_documents;
mod report;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use a2s::{CapabilityExample, Document};
use executor::{ExampleResult, ExampleRunner};
use rayon::prelude::*;
use tokio::runtime::Handle;

use self::report::ExampleCounts;
use super::document::{self, FoundFile};
use super::version_spec::VersionSpec;
use super::{checksum, dependency_loader};
use crate::cli::TestArgs;
use crate::cli_error::{CliError, CliExitCode};
use crate::client::ServiceClient;
use crate::clock::SystemClockAndIds;
use crate::output::{CommandOutput, WARN, sanitize};

pub(super) use example_documents::DocumentSet;
pub(super) use report::print_outcome;

/// A document that the command tests.
struct TestSubject {
    /// The file, or the name that the user gave.
    origin: String,
    source: Vec<u8>,
    /// The document, or the reason why it cannot be used.
    document: Result<Arc<Document>, CliError>,
    /// Set when the checksum in the file is that of other content.
    is_stale: bool,
}

/// The results of the examples of a document.
struct TestedDocument {
    subject: TestSubject,
    /// The runner of its examples, or the reason why there is none.
    runner: Option<Result<ExampleRunner, CliError>>,
    /// The results of the examples that ran, with their numbers.
    results: Vec<(usize, Result<ExampleResult, ExecutorPanic>)>,
    /// The number of examples that the filter left out.
    left_out: usize,
}

/// The executor panicked. This is a defect of this program; the other examples still run.
#[derive(Debug)]
pub(super) struct ExecutorPanic;

pub(super) async fn test(
    arguments: &TestArgs,
    client: impl FnOnce() -> Result<ServiceClient, CliError>,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let client = client()?;
    let mut bench = DocumentSet::default();
    let mut subjects = read(&arguments.targets, &client).await?;
    for subject in &mut subjects {
        if let Ok(document) = &subject.document {
            bench.add(document);
        }
    }
    let mut tested = Vec::new();
    for subject in subjects {
        tested
            .push(prepare_runner(subject, &mut bench, &client, arguments.filter.as_deref()).await);
    }
    let runtime = Handle::current();
    let tested: Vec<TestedDocument> =
        tested.into_par_iter().map(|one| one.run(&runtime, arguments.filter.as_deref())).collect();
    let mut counts = ExampleCounts::default();
    for one in &tested {
        report::print(one, arguments.require_examples, &mut counts, output);
        if one.subject.is_stale {
            output.note(format_args!(
                "{WARN}note{WARN:#} {}: the checksum does not match the content; `a2s checksum --write` or `a2s publish --write-checksum` corrects it",
                sanitize(&one.subject.origin)
            ));
        }
    }
    counts.print(output);
    let is_unreachable = |failure: &CliError| failure.exit == CliExitCode::Unreachable;
    if tested.iter().filter_map(TestedDocument::failure).any(is_unreachable) {
        return Err(CliError::already_printed(CliExitCode::Unreachable));
    }
    if counts.is_good() { Ok(()) } else { Err(CliError::already_printed(CliExitCode::Bad)) }
}

/// Runs an example, and catches a panic so that the other examples can still run.
pub(super) fn run_example(
    trial: &ExampleRunner,
    example: &CapabilityExample,
    runtime: &Handle,
) -> Result<ExampleResult, ExecutorPanic> {
    let run = trial.run(example, Arc::new(SystemClockAndIds), Arc::new(SystemClockAndIds));
    // Of a few examples some are tried where the command itself runs.
    let wait = || tokio::task::block_in_place(|| runtime.block_on(run));
    catch_unwind(AssertUnwindSafe(wait)).map_err(|_| ExecutorPanic)
}

/// Reads all documents that the targets name.
///
/// # Errors
/// Fails when a target is invalid, or when the registry does not respond.
async fn read(targets: &[String], client: &ServiceClient) -> Result<Vec<TestSubject>, CliError> {
    let mut subjects = Vec::new();
    let mut files: Vec<PathBuf> = Vec::new();
    for target in targets {
        let folder = Some(Path::new(target)).filter(|path| path.is_dir());
        match folder.or_else(|| VersionSpec::find_file(target)) {
            Some(path) => files.push(path.to_owned()),
            None => subjects.push(fetch(target, client).await?),
        }
    }
    if files.iter().filter(|file| *file == Path::new("-")).count() > 1 {
        return Err(CliError::invalid_argument("standard input can be given only once"));
    }
    if !files.is_empty() {
        let found = document::find(&files)?;
        subjects.extend(found.into_par_iter().map(TestSubject::read).collect::<Vec<_>>());
    }
    Ok(subjects)
}

/// Fetches a document from the registry.
async fn fetch(target: &str, client: &ServiceClient) -> Result<TestSubject, CliError> {
    let (source, document) =
        dependency_loader::fetch_document(&VersionSpec::parse(target)?, client).await?;
    Ok(TestSubject {
        origin: target.to_owned(),
        source,
        document: Ok(Arc::new(document)),
        is_stale: false,
    })
}

impl TestSubject {
    fn read(found: FoundFile) -> Self {
        let origin = found.path.display().to_string();
        let source = match found.error {
            Some(error) => Err(CliError::file_error(&found.path, &error)),
            None => document::read(&found.path),
        };
        match source {
            Err(failure) => {
                Self { origin, source: Vec::new(), document: Err(failure), is_stale: false }
            }
            Ok(source) => {
                // Authors test a document before they write its checksum.
                let refreshed = checksum::refresh_checksum(&source);
                let compilation = a2s::compile(refreshed.as_deref().unwrap_or(&source));
                let document = compilation.document.map(Arc::new).ok_or_else(|| CliError {
                    diagnostics: compilation.diagnostics,
                    ..CliError::already_printed(CliExitCode::Bad)
                });
                let is_stale = refreshed.is_some() && document.is_ok();
                Self { origin, source, document, is_stale }
            }
        }
    }
}

/// Prepares the runner for the examples of a document. A document without selected examples needs none.
async fn prepare_runner(
    subject: TestSubject,
    bench: &mut DocumentSet,
    client: &ServiceClient,
    filter: Option<&str>,
) -> TestedDocument {
    let trial = match &subject.document {
        Ok(document) if examples(document, filter).next().is_some() => {
            Some(bench.load_runner(document, client).await)
        }
        Ok(_) | Err(_) => None,
    };
    TestedDocument { subject, runner: trial, results: Vec::new(), left_out: 0 }
}

/// Returns the examples of a document that match the filter, with their numbers.
fn examples<'d>(
    document: &'d Document,
    filter: Option<&'d str>,
) -> impl Iterator<Item = (usize, &'d CapabilityExample)> {
    let filter = filter.map(str::to_lowercase);
    let capability = document.capability();
    let wanted = move |(number, example): &(usize, &CapabilityExample)| {
        let Some(filter) = &filter else { return true };
        let name = format!("{} {}", capability.name, report::title(*number, example));
        name.to_lowercase().contains(filter)
    };
    capability.examples.iter().enumerate().filter(wanted)
}

impl TestedDocument {
    fn run(mut self, runtime: &Handle, filter: Option<&str>) -> Self {
        let Ok(document) = &self.subject.document else { return self };
        let wanted: Vec<_> = examples(document, filter).collect();
        self.left_out = document.capability().examples.len() - wanted.len();
        if let Some(Ok(trial)) = &self.runner {
            let wanted = wanted.into_par_iter();
            let tried = wanted.map(|(number, one)| (number, run_example(trial, one, runtime)));
            self.results = tried.collect();
        }
        self
    }

    /// Returns the reason why no example could be run.
    fn failure(&self) -> Option<&CliError> {
        let trial = self.runner.as_ref().and_then(|trial| trial.as_ref().err());
        self.subject.document.as_ref().err().or(trial)
    }
}
