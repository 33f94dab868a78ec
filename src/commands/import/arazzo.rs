//! `a2s import arazzo`.

use std::collections::BTreeMap;

use a2s_authoring::{ApiDescription, ArazzoOptions, ArazzoSource, arazzo_sources, import_arazzo};

use super::fetch::{SpecLocation, fetch_description};
use super::{find_author, import_failed, report};
use crate::cli::ImportArazzoArgs;
use crate::cli_error::CliError;
use crate::output::{CommandOutput, WARN};

pub(super) async fn import(
    arguments: ImportArazzoArgs,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let ImportArazzoArgs { file, sources: given, allowed_hosts, server, common } = arguments;
    let place = SpecLocation::parse(&file)?;
    let (ApiDescription { value: document, mut remarks }, _) =
        fetch_description(&place, None).await?;
    let named = arazzo_sources(&document).map_err(|error| import_failed(&file, &error))?;
    if let Some((unknown, _)) =
        given.iter().find(|(name, _)| !named.iter().any(|s| s.name == *name))
    {
        let known: Vec<_> = named.iter().map(|source| source.name.as_str()).collect();
        let message = format!("unknown source `{unknown}` of the document");
        let hint = format!("Known names are {}.", known.join(", "));
        return Err(CliError::invalid_argument(message).with_hint(hint));
    }
    let mut sources = BTreeMap::new();
    for source in named {
        let named = given.iter().find(|(name, _)| *name == source.name);
        let found = match named {
            Some((_, spec)) => SpecLocation::parse(spec),
            None => place.resolve(&source.url, &allowed_hosts).map_err(|reason| {
                CliError::invalid_argument(format!(
                    "the source `{}` cannot be read: {reason}",
                    source.name
                ))
            }),
        };
        let read = match found {
            Ok(place) => {
                let hosts = named.is_none().then_some(&*allowed_hosts);
                fetch_description(&place, hosts).await
            }
            Err(failure) => Err(failure),
        };
        match read {
            Ok((ApiDescription { value: description, remarks: more }, base)) => {
                remarks.extend(more.into_iter().map(|remark| remark.in_source(&source.name)));
                sources.insert(source.name, ArazzoSource { description, base });
            }
            // What needs it is refused, and says so.
            Err(failure) => output.note(format_args!(
                "{WARN}note{WARN:#} source `{}`: {} (use --source {}=SPEC for another location)",
                source.name, failure.message, source.name
            )),
        }
    }
    let options = ArazzoOptions {
        prefix: common.prefix.clone(),
        author: find_author(common.author.as_deref()),
        server,
    };
    let mut imported = import_arazzo(&document, &sources, &options)
        .map_err(|error| import_failed(&file, &error))?;
    imported.remarks.splice(0..0, remarks);
    report::write_all(&imported, &common, output)
}
