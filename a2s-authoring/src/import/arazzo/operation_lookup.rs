//! The operations that steps name.

use super::ArazzoImporter;
use crate::import::ImportRejection;
use crate::import::openapi::SpecOperation;
use crate::import::ref_resolver::quote_for_message;

/// An operation and the base address of its description; otherwise the reason why it is rejected, if known.
pub(super) type LookupResult<'a> =
    Result<(SpecOperation<'a>, Option<&'a url::Url>), Option<ImportRejection>>;

pub(super) fn find_by_id<'a>(importer: &ArazzoImporter<'a>, id: &str) -> LookupResult<'a> {
    // `$sourceDescriptions.NAME.ID`, or the id alone.
    let qualified = id.strip_prefix("$sourceDescriptions.").and_then(|rest| rest.split_once('.'));
    let (source, id) = qualified.map_or((None, id), |(source, id)| (Some(source), id));
    find(importer, source, |operation| operation.id() == Some(id), |_| false)
}

pub(super) fn find_by_path<'a>(importer: &ArazzoImporter<'a>, path: &str) -> LookupResult<'a> {
    let (source, pointer) = path.split_once('#').ok_or(None)?;
    let named = source.trim_start_matches("{$sourceDescriptions.").trim_end_matches(".url}");
    let known = importer.services.contains_key(named).then_some(named);
    let (path, method) =
        pointer.strip_prefix("/paths/").and_then(|rest| rest.rsplit_once('/')).ok_or(None)?;
    let decoded = percent_encoding(path).replace("~1", "/").replace("~0", "~");
    let plain = path.replace("~1", "/").replace("~0", "~");
    let label = format!("{} {}", method.to_ascii_uppercase(), quote_for_message(&plain));
    find(
        importer,
        known,
        |operation| {
            operation.method == method && (operation.path == plain || operation.path == decoded)
        },
        |refusal| refusal.source == label || refusal.source == plain,
    )
}

/// Decodes the braces of a path in a pointer: `%7B` is `{`, and `%7D` is `}`. Paths contain braces, but
/// addresses must not.
fn percent_encoding(path: &str) -> String {
    let braces = [("%7B", "{"), ("%7b", "{"), ("%7D", "}"), ("%7d", "}"), ("%20", " ")];
    braces.iter().fold(path.to_owned(), |path, (code, letter)| path.replace(code, letter))
}

fn find<'a>(
    importer: &ArazzoImporter<'a>,
    source: Option<&str>,
    is_meant: impl Fn(&SpecOperation<'_>) -> bool,
    is_refused: impl Fn(&ImportRejection) -> bool,
) -> LookupResult<'a> {
    let mut reason = None;
    for (name, service) in &importer.services {
        if source.is_some_and(|source| source != *name) {
            continue;
        }
        if let Some(operation) = service.operations.iter().find(|known| is_meant(known)) {
            return Ok((*operation, service.base));
        }
        let refused = || service.rejections.iter().find(|refusal| is_refused(refusal)).cloned();
        reason = reason.or_else(refused);
    }
    Err(reason)
}
