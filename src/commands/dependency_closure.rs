//! A document with everything that it leads to, from the registry or from a folder.

use std::collections::BTreeSet;
use std::path::Path;

use a2s::{Code, Diagnostic, Document, Need, Shelf};

use super::{dependency_loader, document};
use crate::cli_error::{Exit, Failure};
use crate::client::Client;
use crate::output::{Output, WARN, plain};

/// The code of a pin on a version that was withdrawn.
const YANKED: &str = "A2S065";

/// What a document leads to.
pub(super) struct Closure {
    /// What is known of versions.
    pub(super) shelf: Shelf,
    /// Documents, with all that it leads to among them.
    pub(super) below: Vec<Document>,
}

/// Finds everything that a document leads to, which has to fit it. `name` and `source` are of its
/// text, for what is printed when it does not; `missing` is the code of what is not in the folder.
///
/// # Errors
/// When something is not there or does not fit, or the registry does not answer.
pub(super) async fn gather(
    root: &Document,
    (name, source): (&str, &[u8]),
    folder: Option<&Path>,
    missing: Code,
    client: impl FnOnce() -> Result<Client, Failure>,
    output: &mut Output,
) -> Result<Closure, Failure> {
    let capability = root.capability();
    let (mut shelf, mut below) = (Shelf::default(), Vec::new());
    match folder {
        Some(folder) => put_up(folder, &mut shelf, &mut below)?,
        None if capability.dependencies.is_empty() => {}
        None => {
            let keep = |document| below.push(document);
            dependency_loader::fill(&mut shelf, &mut BTreeSet::new(), capability, &client()?, keep)
                .await?;
        }
    }
    let (yanked, found): (Vec<_>, Vec<_>) =
        shelf.link(capability).into_iter().partition(|found| found.code == YANKED);
    if found.iter().any(Diagnostic::is_error) {
        return Err(document::refuse(name, source, &a2s::locate(source, found), output));
    }
    // What was withdrawn after it was pinned can still be run.
    for found in &yanked {
        output.note(format_args!("{WARN}note{WARN:#}: {}", plain(&found.message)));
    }
    if let Some(Need::Versions(unknown) | Need::Document(unknown, _)) =
        shelf.needs(&capability.dependencies).first()
    {
        let message = format!("`{unknown}`, which `{name}` leads to, is not in the folder");
        return Err(Failure::new(Exit::Bad, missing, message)
            .with_hint("Put it there, or leave `--folder` out to ask the registry."));
    }
    Ok(Closure { shelf, below })
}

/// Puts every good document of a folder on the shelf.
fn put_up(folder: &Path, shelf: &mut Shelf, below: &mut Vec<Document>) -> Result<(), Failure> {
    for path in document::expand(&[folder.to_owned()])? {
        if let Some(document) = a2s::compile(&document::read(&path)?).document {
            shelf.add(&document);
            below.push(document);
        }
    }
    Ok(())
}
