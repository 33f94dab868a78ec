//! `a2s mcp`: standard input and output joined to the MCP server of `a2s up`.

use std::io::Write as _;

use crate::cli_error::{BAD_ANSWER, CliError, CliExitCode, NOT_REACHABLE};
use crate::client::ServiceClient;

pub(crate) async fn mcp(client: &ServiceClient) -> Result<(), CliError> {
    check(client).await?;
    mcp::bridge(client).await.map_err(|error| {
        CliError::new(CliExitCode::Bad, BAD_ANSWER, error.to_string())
            .with_hint("Check the log of `a2s up`, then start the MCP client again.")
    })?;
    // A read of standard input that goes on must not keep the process.
    std::io::stdout().flush().map_err(|error| CliError::invalid_argument(error.to_string()))
}

/// Reports at once that the service is not reachable: an MCP client shows the text on standard error.
async fn check(client: &ServiceClient) -> Result<(), CliError> {
    let url = client.url();
    match client.bytes(client.request(reqwest::Method::GET, &["healthz"])).await {
        Ok(_) => Ok(()),
        Err(agent::ClientError::Unreachable { .. }) => {
            let message = format!("no response at {url}");
            Err(CliError::new(CliExitCode::Unreachable, NOT_REACHABLE, message)
                .with_hint("Start `a2s up`, or give its address with --url."))
        }
        Err(error) => Err(error.into()),
    }
}
