//! `a2s validate`: every mistake of every file, and of every file towards the others.

mod check;
mod report;
mod watch;

use std::collections::BTreeSet;
use std::path::Path;

use a2s::{CapabilityName, DependencyIndex};

use self::check::CheckedFile;
use super::findability::FindabilityReporter;
use super::{dependency_loader, document};
use crate::cli::ValidateArgs;
use crate::cli_error::{CliError, CliExitCode};
use crate::client::ServiceClient;
use crate::output::CommandOutput;

/// The note for a dependency that is among the files, but not in the required version.
const AGAINST_FILES: &str =
    "versions were searched only in these files (--registry also searches the registry)";

pub(super) async fn validate(
    arguments: &ValidateArgs,
    client: impl FnOnce() -> Result<ServiceClient, CliError>,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let files = &arguments.files;
    if files.iter().filter(|file| *file == Path::new("-")).count() > 1 {
        return Err(CliError::invalid_argument("standard input can be given only once"));
    }
    let client = if arguments.registry { Some(client()?) } else { None };
    if arguments.watch {
        if files.iter().any(|file| file == Path::new("-")) {
            return Err(CliError::invalid_argument("standard input cannot be watched"));
        }
        return watch::watch(arguments, client.as_ref(), output).await;
    }
    let mut checked = check::check(document::find(files)?, arguments.registry);
    let linked = link(&mut checked, client.as_ref()).await;
    let asked = client.as_ref().filter(|_| linked.is_ok() && !arguments.quiet);
    let reporter = add_findability(&mut checked, asked).await;
    for file in &checked {
        report::print(file, arguments.quiet, output);
    }
    reporter.print_failure(output);
    let counts = report::count(&checked);
    report::print_counts(&counts, arguments.quiet, output);
    linked?;
    if counts.bad == 0 { Ok(()) } else { Err(CliError::already_printed(CliExitCode::Bad)) }
}

/// Checks the files against each other; with a client, against the published versions, too.
///
/// # Errors
/// The registry does not answer. The files are checked against each other all the same.
async fn link(
    checked: &mut [CheckedFile],
    mut client: Option<&ServiceClient>,
) -> Result<(), CliError> {
    let mut dependencies = DependencyIndex::default();
    for file in checked.iter() {
        file.add_to_index(&mut dependencies);
    }
    let own: BTreeSet<CapabilityName> = checked.iter().filter_map(CheckedFile::name).collect();
    let twice = check::find_conflicts(checked);
    let mut asked = BTreeSet::new();
    let mut result = Ok(());
    for (index, file) in checked.iter_mut().enumerate() {
        let mut notes = twice.get(&index).cloned().unwrap_or_default();
        if let Some(document) = file.document() {
            if let Some(registry) = client {
                result = dependency_loader::load_dependencies(
                    &mut dependencies,
                    &mut asked,
                    document.capability(),
                    registry,
                    drop,
                )
                .await;
                if result.is_err() {
                    client = None;
                }
            }
            notes.extend(check::unknown_dependencies(&dependencies, document.capability(), &own));
        }
        file.check_dependencies(&dependencies, notes);
        if client.is_none() && file.lacks_versions() {
            file.notes.push(AGAINST_FILES.to_owned());
        }
    }
    result
}

/// Asks the registry for the findability of each valid file that has no report yet.
async fn add_findability<'c>(
    checked: &mut [CheckedFile],
    client: Option<&'c ServiceClient>,
) -> FindabilityReporter<'c> {
    let mut reporter = FindabilityReporter::new(client);
    for file in checked.iter_mut().filter(|file| file.findability.is_none() && file.is_valid()) {
        file.findability = reporter.report(&file.source).await;
    }
    reporter
}
