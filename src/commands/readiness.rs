//! `a2s ready`: whether the services at an address can work.

use reqwest::Method;
use serde_json::json;

use crate::cli::ReadyArgs;
use crate::cli_error::CliError;
use crate::client::ServiceClient;
use crate::output::CommandOutput;

pub(super) async fn ready(
    arguments: &ReadyArgs,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let request = client.request(Method::GET, &["readyz"]);
    let request = if arguments.deep { request.query(&[("deep", "1")]) } else { request };
    client.bytes(request).await?;
    if output.is_json() {
        output.json_line(&json!({ "ready": true }));
    } else {
        let and = if arguments.deep { ", and so are the services that it uses" } else { "" };
        output.line(format_args!("{} is ready{and}", client.url()));
    }
    Ok(())
}
