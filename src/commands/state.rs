//! `a2s state`: the stored values for the inputs of runs.

use a2s_api::{StateEntry, StateList};
use reqwest::{Method, RequestBuilder};

use super::run::parse_assignment;
use crate::cli::StateCommand;
use crate::cli_error::CliError;
use crate::client::ServiceClient;
use crate::output::{CommandOutput, DIM, NAME, sanitize};

pub(super) async fn state(
    command: StateCommand,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    match command {
        StateCommand::List { everybody, session } => {
            let path = path(session.as_deref(), None);
            let request = with_scope(client.request(Method::GET, &path), everybody);
            let list: StateList = client.json(request).await?;
            if output.is_json() {
                output.json_line(&list);
            } else if list.entries.is_empty() {
                output.line(format_args!("no remembered values"));
            }
            print(&list.entries, output);
        }
        StateCommand::Set { values, everybody, session } => {
            let values = values.iter().map(|text| parse_assignment(text, "NAME=VALUE"));
            // All are read before the first is sent.
            for (name, value) in values.collect::<Result<Vec<_>, _>>()? {
                let path = path(session.as_deref(), Some(&name));
                let request =
                    with_scope(client.request(Method::PUT, &path), everybody).json(&value);
                let entry: StateEntry = client.json(request).await?;
                if output.is_json() {
                    output.json_line(&entry);
                }
                print(&[entry], output);
            }
        }
        StateCommand::Remove { names, everybody, session } => {
            for name in &names {
                let path = path(session.as_deref(), Some(name));
                let request = with_scope(client.request(Method::DELETE, &path), everybody);
                client.bytes(request).await?;
                if output.is_json() {
                    output.json_line(&serde_json::json!({ "removed": name }));
                } else {
                    output.line(format_args!("deleted {NAME}{}{NAME:#}", sanitize(name)));
                }
            }
        }
    }
    Ok(())
}

fn print(entries: &[StateEntry], output: &mut CommandOutput) {
    if output.is_json() {
        return;
    }
    for StateEntry { name, value, updated_at } in entries {
        let value = value.to_string();
        output.line(format_args!(
            "{NAME}{}{NAME:#} = {}  {DIM}{updated_at:.0}{DIM:#}",
            sanitize(name),
            sanitize(&value)
        ));
    }
}

/// Adds the scope to a request: with `everybody`, it is about the values for the runs of all callers.
fn with_scope(request: RequestBuilder, everybody: bool) -> RequestBuilder {
    if everybody { request.query(&[("for", "everybody")]) } else { request }
}

/// Returns the path of the state of a session, or of all runs.
fn path<'a>(session: Option<&'a str>, name: Option<&'a str>) -> Vec<&'a str> {
    let mut path = vec!["v1"];
    if let Some(session) = session {
        path.extend(["sessions", session]);
    }
    path.push("state");
    path.extend(name);
    path
}
