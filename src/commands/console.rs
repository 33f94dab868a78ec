//! `a2s console`: opens the console in the browser, signed in.

use serde_json::json;

use crate::cli_error::CliError;
use crate::client::{ServiceClient, require_private_connection};
use crate::output::{CommandOutput, DIM, NAME};
use crate::serve::console::{SignInCode, sign_in_link};

pub(super) async fn console(
    print: bool,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    require_private_connection(client)?;
    let code: SignInCode = client.post(&["session", "codes"], &json!({})).await?;
    let (link, expires_at) = (sign_in_link(client.url(), &code), code.expires_at);
    if output.is_json() {
        output.json_line(&json!({ "url": link, "expires_at": expires_at }));
        return Ok(());
    }
    output.line(format_args!("{NAME}{link}{NAME:#}"));
    output.note(format_args!("{DIM}the link signs one browser in, until {expires_at:.0}{DIM:#}"));
    if !print && let Err(error) = open::that_detached(&link) {
        output.note(format_args!("no browser could be opened ({error}): open the link yourself"));
    }
    Ok(())
}
