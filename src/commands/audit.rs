//! `a2s audit`: who changed what in the registry.

use a2s_api::{AuditEntry, AuditPage, TrimAuditRequest, TrimAuditResponse};
use jiff::SignedDuration;
use reqwest::Method;

use crate::cli::{AuditArgs, RegistryAuditCommand};
use crate::cli_error::CliError;
use crate::client::ServiceClient;
use crate::clock;
use crate::output::{BOLD, CommandOutput, DIM, NAME, sanitize};

/// The maximum number of entries in one page.
const LARGEST_PAGE: u32 = 1_000;

pub(super) async fn audit(
    arguments: AuditArgs,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let AuditArgs { command, name, limit, mut before } = arguments;
    if let Some(RegistryAuditCommand::Trim { older_than }) = command {
        return trim(older_than, client, output).await;
    }
    let mut left = limit;
    while left > 0 && !output.is_closed() {
        let mut query = vec![("limit", left.min(LARGEST_PAGE).to_string())];
        query.extend(before.map(|before| ("before", before.to_string())));
        query.extend(name.as_ref().map(|name| ("name", name.to_string())));
        let request = client.request(Method::GET, &["v1", "audit"]).query(&query);
        let AuditPage { entries, next } = client.json(request).await?;
        left = left.saturating_sub(u32::try_from(entries.len()).unwrap_or(left).max(1));
        entries.iter().for_each(|entry| print(entry, output));
        let Some(next) = next.filter(|next| before.is_none_or(|before| *next < before)) else {
            return Ok(());
        };
        before = Some(next);
    }
    Ok(())
}

async fn trim(
    older_than: SignedDuration,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let before = clock::now().saturating_sub(older_than);
    let before = before.map_err(|error| CliError::invalid_argument(error.to_string()))?;
    let trimmed: TrimAuditResponse =
        client.post(&["v1", "audit", "trim"], &TrimAuditRequest { before }).await?;
    if output.is_json() {
        output.json_line(&trimmed);
    } else {
        let entries = if trimmed.removed == 1 { "entry" } else { "entries" };
        output.line(format_args!("removed {} {entries} from before {before:.0}", trimmed.removed));
    }
    Ok(())
}

fn print(entry: &AuditEntry, output: &mut CommandOutput) {
    if output.is_json() {
        output.json_line(entry);
        return;
    }
    let AuditEntry { seq, at, action, .. } = entry;
    let by = entry.actor.as_ref().map_or("unknown", |by| by.as_str());
    let mut words = Vec::new();
    words.extend(entry.name.as_ref().map(ToString::to_string));
    words.extend(entry.version.as_ref().map(ToString::to_string));
    words.extend(entry.subject.as_ref().map(ToString::to_string));
    words.extend(entry.detail.as_ref().map(ToString::to_string));
    let (words, action) = (sanitize(&words.join(" ")).into_owned(), action.as_str());
    output.line(format_args!(
        "{DIM}{seq:>6}  {at:.0}{DIM:#}  {NAME}{by}{NAME:#}  {BOLD}{action}{BOLD:#}  {words}"
    ));
}
