//! `a2s import openapi`.

use a2s::authoring::{OpenApiOptions, import_openapi, list_openapi};
use serde_json::json;

use super::fetch::{Place, fetch_description};
use super::{author_of, refused, report};
use crate::cli::ImportOpenapiArgs;
use crate::cli_error::Failure;
use crate::output::{DIM, NAME, Output};

pub(super) async fn import(
    arguments: ImportOpenapiArgs,
    output: &mut Output,
) -> Result<(), Failure> {
    let ImportOpenapiArgs { spec, operations, list, server, common } = arguments;
    let place = Place::of(&spec)?;
    let (description, base) = fetch_description(&place).await?;
    let options = OpenApiOptions {
        operations,
        prefix: common.prefix.clone(),
        server,
        base,
        author: author_of(common.author.as_deref()),
    };
    if list {
        let operations =
            list_openapi(&description, &options).map_err(|error| refused(&spec, &error))?;
        if output.is_json() {
            output.json_line(&json!({ "operations": operations }));
            return Ok(());
        }
        for operation in operations {
            let (name, method, path) = (operation.name, operation.method, operation.path);
            let id = operation.id.map_or_else(String::new, |id| format!("  {id}"));
            output.line(format_args!("{NAME}{name}{NAME:#}  {method} {path}{DIM}{id}{DIM:#}"));
            output.line(format_args!("      {}", operation.description));
        }
        return Ok(());
    }
    let imported =
        import_openapi(&description, &options).map_err(|error| refused(&spec, &error))?;
    report::write_all(&imported, &common, output)
}
