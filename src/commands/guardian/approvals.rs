//! `a2s guardian approvals|approve|reject`: what waits for a person.

use futures::StreamExt as _;
use guardian::{Approval, ApprovalState};
use reqwest::Method;
use reqwest::header::ACCEPT;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cli::SettleArgs;
use crate::cli_error::{CliError, CliExitCode, NOT_REACHABLE};
use crate::client::{ServiceClient, require_private_connection};
use crate::output::{BAD, CommandOutput, DIM, GOOD, NAME, WARN, sanitize, shorten};

/// The maximum length of a shown input value, in characters.
const MAX_VALUE: usize = 200;

#[derive(Debug, Serialize, Deserialize)]
struct ApprovalsResponse {
    approvals: Vec<Approval>,
}

pub(super) async fn list(
    status: Option<&str>,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let request = client.request(Method::GET, &["v1", "approvals"]);
    let request = request.query(&status.map(|status| [("status", status)]));
    let list: ApprovalsResponse = client.json(request).await?;
    if output.is_json() {
        output.json_line(&list);
        return Ok(());
    }
    if list.approvals.is_empty() {
        output.line(format_args!("no pending approvals"));
    }
    for approval in &list.approvals {
        print(approval, output);
    }
    Ok(())
}

/// Shows the waiting requests and each change, until the guardian closes the stream or the output is
/// closed.
pub(super) async fn watch(
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let request = client.request(Method::GET, &["v1", "approvals"]).query(&[("follow", "")]);
    let response = client.send(request.header(ACCEPT, "text/event-stream")).await?;
    let (mut stream, mut text) = (response.bytes_stream(), Vec::new());
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| {
            CliError::new(
                CliExitCode::Unreachable,
                NOT_REACHABLE,
                format!("the connection to the guardian is lost: {error}"),
            )
        })?;
        text.extend_from_slice(&chunk);
        while let Some(end) = text.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            let Some(data) = line.strip_prefix(b"data:") else { continue };
            let Ok(approval) = serde_json::from_slice::<Approval>(data) else { continue };
            match output.is_json() {
                true => output.json_line(&approval),
                false => print(&approval, output),
            }
        }
        if output.is_closed() {
            return Ok(());
        }
    }
    let message = "the guardian has ended the stream of approvals; start the command again";
    Err(CliError::new(CliExitCode::Unreachable, NOT_REACHABLE, message))
}

pub(super) async fn settle(
    arguments: &SettleArgs,
    word: &str,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    require_private_connection(client)?;
    let words = json!({ "decided_by": arguments.by, "reason": arguments.reason });
    let path = ["v1", "approvals", arguments.id.as_str(), word];
    let approval: Approval = client.json(client.request(Method::POST, &path).json(&words)).await?;
    if output.is_json() {
        output.json_line(&approval);
    } else {
        print(&approval, output);
    }
    Ok(())
}

fn print(approval: &Approval, output: &mut CommandOutput) {
    let Approval { id, rule, requested_at: asked, expires_at: until, subject, .. } = approval;
    let (style, word) = match approval.state {
        ApprovalState::Waiting => (WARN, "waits"),
        ApprovalState::Approved => (GOOD, "approved"),
        ApprovalState::Rejected => (BAD, "rejected"),
        ApprovalState::Used => (DIM, "used"),
        ApprovalState::Expired => (DIM, "expired"),
        ApprovalState::Withdrawn => (DIM, "withdrawn"),
    };
    let text = |value: &Value| sanitize(value.as_str().unwrap_or_default()).into_owned();
    let tool = subject.get("tool").or_else(|| subject.get("method")).map(text).unwrap_or_default();
    output.line(format_args!(
        "{NAME}{id}{NAME:#}  {style}{word}{style:#}  {tool}  {DIM}rule {rule}, since {asked:.0}, until {until:.0}{DIM:#}"
    ));
    let reason = approval.reason.as_deref().unwrap_or_default();
    match &approval.decided_by {
        Some(by) if reason.is_empty() => output.line(format_args!("  by {}", sanitize(by))),
        Some(by) => output.line(format_args!("  by {}: {}", sanitize(by), sanitize(reason))),
        None if reason.is_empty() => {}
        None => output.line(format_args!("  {}", sanitize(reason))),
    }
    for (label, pointer) in [
        ("agent", "/agent/name"),
        ("user", "/user"),
        ("caller", "/caller"),
        ("session", "/session"),
        ("run", "/capability/run"),
        ("step", "/step"),
        ("capability", "/capability/name"),
        ("host", "/capability/host"),
        ("method", "/prepared/method"),
        ("url", "/prepared/url"),
    ] {
        if let Some(value) = subject.pointer(pointer) {
            output.line(format_args!("  {DIM}{label}{DIM:#} {}", text(value)));
        }
    }
    let inputs = subject.pointer("/content/toolCallRequest/inputs").and_then(Value::as_array);
    match inputs {
        Some(inputs) => {
            for input in inputs {
                let value = input["value"].to_string();
                output.line(format_args!(
                    "  {} = {}",
                    text(&input["name"]),
                    sanitize(&shorten(&value, MAX_VALUE))
                ));
            }
        }
        None => {
            let content = subject["content"].to_string();
            output.line(format_args!("  {}", sanitize(&shorten(&content, MAX_VALUE))));
        }
    }
}
