//! `a2s ready`: whether the services at an address can work.

use reqwest::Method;
use serde_json::json;

use crate::client::Client;
use crate::failure::Failure;
use crate::output::Output;

pub(super) async fn ready(client: &Client, output: &mut Output) -> Result<(), Failure> {
    client.bytes(client.request(Method::GET, &["readyz"])).await?;
    if output.is_json() {
        output.json_line(&json!({ "ready": true }));
    } else {
        output.line(format_args!("{} is ready", client.url()));
    }
    Ok(())
}
