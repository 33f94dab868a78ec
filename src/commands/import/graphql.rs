//! `a2s import graphql`.

use a2s::authoring::{GraphqlOptions, import_graphql};

use super::fetch::{Place, fetch, read};
use super::{author_of, refused, report};
use crate::cli::ImportGraphqlArgs;
use crate::cli_error::{BAD_ARGUMENT, Exit, Failure};
use crate::output::Output;

pub(super) async fn import(
    arguments: ImportGraphqlArgs,
    output: &mut Output,
) -> Result<(), Failure> {
    let ImportGraphqlArgs { schema: origin, operation, endpoint, common } = arguments;
    let schema = fetch(&Place::of(&origin)?).await?.bytes;
    let text = |bytes: Vec<u8>, name: &str| {
        String::from_utf8(bytes)
            .map_err(|_| Failure::new(Exit::Bad, BAD_ARGUMENT, format!("{name} is not UTF-8")))
    };
    let schema = text(schema, &origin)?;
    let operations = match &operation {
        Some(file) => Some(text(read(file)?, &file.display().to_string())?),
        None => None,
    };
    let options = GraphqlOptions {
        endpoint,
        prefix: common.prefix.clone(),
        author: author_of(common.author.as_deref()),
    };
    let imported = import_graphql(&schema, operations.as_deref(), &options)
        .map_err(|error| refused(&origin, &error))?;
    report::write_all(&imported, &common, output)
}
