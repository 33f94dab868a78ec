//! The operations that steps name.

use super::ArazzoImporter;
use crate::import::ImportRejection;
use crate::import::openapi::SpecOperation;
use crate::import::ref_resolver::quote_for_message;

/// The most operations that a warning about several matches lists.
const MAX_LISTED: usize = 3;

/// The operation of a step.
pub(super) struct FoundOperation<'a> {
    pub(super) operation: SpecOperation<'a>,
    /// The base address of its description.
    pub(super) base: Option<&'a url::Url>,
    /// The list of all operations that match, when this is not the only one: their number, and the first of
    /// them with their descriptions.
    pub(super) matches: Option<(usize, String)>,
}

/// The operation; otherwise the reason why it is rejected, if known.
pub(super) type LookupResult<'a> = Result<FoundOperation<'a>, Option<ImportRejection>>;

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
    let is_searched = |name: &str| source.is_none_or(|source| source == name);
    let services = || importer.services.iter().filter(|(name, _)| is_searched(name));
    let matching: Vec<_> = services()
        .flat_map(|(name, service)| service.operations.iter().map(move |it| (*name, it, service)))
        .filter(|(_, operation, _)| is_meant(operation))
        .collect();
    let Some((_, operation, service)) = matching.first() else {
        let mut refused = services().flat_map(|(_, service)| &service.rejections);
        return Err(refused.find(|refusal| is_refused(refusal)).cloned());
    };
    let matches = (1 < matching.len()).then(|| {
        let listed = matching.iter().take(MAX_LISTED).map(|(name, operation, _)| {
            format!("`{}` of `{}`", operation.label(), quote_for_message(name))
        });
        let more = if MAX_LISTED < matching.len() { ", …" } else { "" };
        (matching.len(), format!("{}{more}", listed.collect::<Vec<_>>().join(", ")))
    });
    Ok(FoundOperation { operation: **operation, base: service.base, matches })
}
