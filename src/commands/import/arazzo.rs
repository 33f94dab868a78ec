//! `a2s import arazzo`.

use std::collections::BTreeMap;

use a2s::authoring::{ArazzoOptions, ArazzoSource, arazzo_sources, import_arazzo};

use super::fetch::{Place, fetch_description};
use super::{author_of, refused, report};
use crate::cli::ImportArazzoArgs;
use crate::cli_error::Failure;
use crate::output::{Output, WARN};

pub(super) async fn import(
    arguments: ImportArazzoArgs,
    output: &mut Output,
) -> Result<(), Failure> {
    let ImportArazzoArgs { file, sources: told, server, common } = arguments;
    let place = Place::of(&file)?;
    let (document, _) = fetch_description(&place).await?;
    let named = arazzo_sources(&document).map_err(|error| refused(&file, &error))?;
    if let Some((unknown, _)) = told.iter().find(|(name, _)| !named.iter().any(|s| s.name == *name))
    {
        let known: Vec<_> = named.iter().map(|source| source.name.as_str()).collect();
        let message = format!("the document has no source `{unknown}`");
        let hint = format!("It has {}.", known.join(", "));
        return Err(Failure::argument(message).with_hint(hint));
    }
    let mut sources = BTreeMap::new();
    for source in named {
        let found = match told.iter().find(|(name, _)| *name == source.name) {
            Some((_, spec)) => Place::of(spec),
            None => place.join(&source.url).map_err(|reason| {
                Failure::argument(format!("the source `{}` is not read: {reason}", source.name))
            }),
        };
        let read = match found {
            Ok(place) => fetch_description(&place).await,
            Err(failure) => Err(failure),
        };
        match read {
            Ok((description, base)) => {
                sources.insert(source.name, ArazzoSource { description, base });
            }
            // What needs it is refused, and says so.
            Err(failure) => output.note(format_args!(
                "{WARN}note{WARN:#} source `{}`: {} (--source {}=SPEC names another place)",
                source.name, failure.message, source.name
            )),
        }
    }
    let options = ArazzoOptions {
        prefix: common.prefix.clone(),
        author: author_of(common.author.as_deref()),
        server,
    };
    let imported =
        import_arazzo(&document, &sources, &options).map_err(|error| refused(&file, &error))?;
    report::write_all(&imported, &common, output)
}
