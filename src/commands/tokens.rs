//! `a2s tokens`: make, list and revoke what others show.

use std::path::Path;

use a2s_api::{NewToken, TokenEntry, TokenList, TokenRequest};
use reqwest::Method;
use serde_json::json;

use crate::cli::TokensCommand;
use crate::cli_error::CliError;
use crate::client::{ServiceClient, require_private_connection};
use crate::output::{CommandOutput, DIM, NAME, WARN};
use crate::serve::write_private;

pub(super) async fn tokens(
    command: TokensCommand,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    match command {
        TokensCommand::Create { name, scopes, expires, output: file } => {
            require_private_connection(client)?;
            let expires_in_s = expires.map(|life| life.as_secs().unsigned_abs());
            let request = TokenRequest { name, scopes: scopes.into_iter().collect(), expires_in_s };
            let made: NewToken = client.post(&["v1", "tokens"], &request).await?;
            if let Some(file) = &file {
                write_token(file, &made)?;
            }
            if output.is_json() {
                match &file {
                    Some(_) => output.json_line(&made.entry),
                    None => output.json_line(&made),
                }
                return Ok(());
            }
            match &file {
                Some(file) => output.line(format_args!("wrote {}", file.display())),
                // Standard output has the token alone, for `TOKEN=$(a2s tokens create …)`.
                None => output.line(format_args!("{}", made.token.expose_secret())),
            }
            output.note(format_args!("{}", cells(&made.entry).join("  ")));
            if file.is_none() {
                output.note(format_args!(
                    "{DIM}the token is shown only once; set it as A2S_TOKEN{DIM:#}"
                ));
            }
            if made.entry.expires_at.is_none() {
                output.note(format_args!(
                    "{WARN}hint:{WARN:#} this token never expires. Set an expiry for the token of a person or a job: \
                     --expires 90d"
                ));
            }
        }
        TokensCommand::List => {
            let list: TokenList = client.get(&["v1", "tokens"]).await?;
            if output.is_json() {
                output.json_line(&list);
                return Ok(());
            }
            if list.tokens.is_empty() {
                output.line(format_args!("no tokens except the owner's"));
            }
            let rows: Vec<_> = list.tokens.iter().map(cells).collect();
            output.table(["NAME", "SCOPES", "MADE", "ENDS"], &rows);
        }
        TokensCommand::Revoke { name } => {
            let path = ["v1", "tokens", name.as_str()];
            client.bytes(client.request(Method::DELETE, &path)).await?;
            if output.is_json() {
                output.json_line(&json!({ "revoked": name }));
            } else {
                output.line(format_args!("revoked {NAME}{name}{NAME:#}"));
            }
        }
    }
    Ok(())
}

/// Writes a new token to a file. After a failure the token is lost, because the registry keeps only its digest.
fn write_token(file: &Path, made: &NewToken) -> Result<(), CliError> {
    let text = format!("{}\n", made.token.expose_secret());
    write_private(file, text.as_bytes()).map_err(|error| {
        let name = &made.entry.name;
        CliError::file_error(file, &error).with_hint(format!(
            "The token is lost. Revoke it with `a2s tokens revoke {name}`, and create it again."
        ))
    })
}

fn cells(token: &TokenEntry) -> Vec<String> {
    let scopes: Vec<_> = token.scopes.iter().map(|scope| scope.as_str()).collect();
    let scopes = scopes.join(", ");
    let (name, made) = (&token.name, token.created_at);
    let end = match token.expires_at {
        None => format!("{DIM}never expires{DIM:#}"),
        Some(end) if token.expired => format!("{WARN}expired{WARN:#} {DIM}{end:.0}{DIM:#}"),
        Some(end) => format!("{DIM}until {end:.0}{DIM:#}"),
    };
    vec![format!("{NAME}{name}{NAME:#}"), scopes, format!("{DIM}created {made:.0}{DIM:#}"), end]
}
