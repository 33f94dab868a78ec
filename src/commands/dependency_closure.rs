//! A document with everything that it leads to, from the registry or from a folder.

use std::collections::BTreeSet;
use std::path::Path;

use a2s::{DependencyIndex, Diagnostic, Document, ErrorCode, MissingDependency};

use super::{dependency_loader, document};
use crate::cli_error::{CliError, CliExitCode};
use crate::client::ServiceClient;
use crate::output::{CommandOutput, WARN, sanitize};

/// The code of a pin on a yanked version.
const YANKED_PIN: &str = "A2S065";

/// The direct and indirect dependencies of a document.
pub(super) struct DependencyClosure {
    /// The known versions.
    pub(super) index: DependencyIndex,
    /// Documents, with all their dependencies.
    pub(super) documents: Vec<Document>,
}

/// Loads all dependencies of a document, which have to fit it. `name` and `source` are of its text, for the
/// messages when they do not; `missing` is the code for a dependency that is not in the folder.
///
/// # Errors
/// A dependency is missing or does not fit, or the registry does not answer.
pub(super) async fn load_closure(
    root: &Document,
    (name, source): (&str, &[u8]),
    folder: Option<&Path>,
    missing: ErrorCode,
    client: impl FnOnce() -> Result<ServiceClient, CliError>,
    output: &mut CommandOutput,
) -> Result<DependencyClosure, CliError> {
    let capability = root.capability();
    let (mut index, mut below) = (DependencyIndex::default(), Vec::new());
    match folder {
        Some(folder) => add_folder(folder, &mut index, &mut below)?,
        None if capability.dependencies.is_empty() => {}
        None => {
            let keep = |document| below.push(document);
            dependency_loader::load_dependencies(
                &mut index,
                &mut BTreeSet::new(),
                capability,
                &client()?,
                keep,
            )
            .await?;
        }
    }
    let (yanked, found): (Vec<_>, Vec<_>) = index
        .check_dependencies(capability)
        .into_iter()
        .partition(|found| found.code == YANKED_PIN);
    if found.iter().any(Diagnostic::is_error) {
        return Err(document::report_invalid(
            name,
            source,
            &a2s::add_positions(source, found),
            output,
        ));
    }
    // A version yanked after it was pinned can still be run.
    for found in &yanked {
        output.note(format_args!("{WARN}note{WARN:#}: {}", sanitize(&found.message)));
    }
    if let Some(MissingDependency::Versions(unknown) | MissingDependency::Document(unknown, _)) =
        index.missing_dependencies(&capability.dependencies).first()
    {
        let message = format!("`{unknown}`, a dependency of `{name}`, is not in the folder");
        return Err(CliError::new(CliExitCode::Bad, missing, message)
            .with_hint("Put it into the folder, or leave `--folder` out to use the registry."));
    }
    Ok(DependencyClosure { index, documents: below })
}

/// Adds every valid document of a folder to the index.
fn add_folder(
    folder: &Path,
    index: &mut DependencyIndex,
    below: &mut Vec<Document>,
) -> Result<(), CliError> {
    for path in document::expand(&[folder.to_owned()])? {
        if let Some(document) = a2s::compile(&document::read(&path)?).document {
            index.add_document(&document);
            below.push(document);
        }
    }
    Ok(())
}
