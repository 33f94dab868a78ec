//! `a2s import graphql`.

use std::borrow::Cow;

use a2s_authoring::{GraphqlOptions, decode_text, import_graphql};

use super::fetch::{SpecLocation, fetch, read};
use super::{find_author, import_failed, report};
use crate::cli::ImportGraphqlArgs;
use crate::cli_error::{BAD_ARGUMENT, CliError, CliExitCode};
use crate::output::CommandOutput;

pub(super) async fn import(
    arguments: ImportGraphqlArgs,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let ImportGraphqlArgs { schema: origin, operation, endpoint, common } = arguments;
    let schema = fetch(&SpecLocation::parse(&origin)?).await?.bytes;
    let text = |bytes: Vec<u8>, name: &str| {
        decode_text(&bytes).map(Cow::into_owned).map_err(|_| {
            CliError::new(CliExitCode::Bad, BAD_ARGUMENT, format!("{name} is not UTF-8"))
                .with_hint("Save the file as UTF-8, and import it again.")
        })
    };
    let schema = text(schema, &origin)?;
    let operations = match &operation {
        Some(file) => Some(text(read(file)?, &file.display().to_string())?),
        None => None,
    };
    let options = GraphqlOptions {
        endpoint,
        prefix: common.prefix.clone(),
        author: find_author(common.author.as_deref()),
    };
    let imported = import_graphql(&schema, operations.as_deref(), &options)
        .map_err(|error| import_failed(&origin, &error))?;
    report::write_all(&imported, &common, output)
}
