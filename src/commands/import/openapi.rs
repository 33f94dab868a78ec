//! `a2s import openapi`.

use a2s_authoring::{ApiDescription, OpenApiOptions, import_openapi, list_openapi};
use serde_json::json;

use super::fetch::{SpecLocation, fetch_description};
use super::{find_author, import_failed, report};
use crate::cli::ImportOpenapiArgs;
use crate::cli_error::CliError;
use crate::output::{CommandOutput, DIM, NAME};

pub(super) async fn import(
    arguments: ImportOpenapiArgs,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let ImportOpenapiArgs { spec, operations, list, server, without, common } = arguments;
    let place = SpecLocation::parse(&spec)?;
    let (ApiDescription { value: description, remarks }, base) =
        fetch_description(&place, None).await?;
    let options = OpenApiOptions {
        operations,
        prefix: common.prefix.clone(),
        server,
        base,
        author: find_author(common.author.as_deref()),
        without,
        ..OpenApiOptions::default()
    };
    if list {
        let operations =
            list_openapi(&description, &options).map_err(|error| import_failed(&spec, &error))?;
        report::note_all(&remarks, output);
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
    let mut imported =
        import_openapi(&description, &options).map_err(|error| import_failed(&spec, &error))?;
    imported.remarks.splice(0..0, remarks);
    report::write_all(&imported, &common, output)
}
