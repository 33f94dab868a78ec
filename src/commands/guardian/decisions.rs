//! `a2s guardian decisions|policy|try`: the decisions of a running guardian, and policies tried on them.

use agent::ClientError;
use guardian::{GuardianRecordList, Policy, PolicyTrial, RecordFilter, TrialDecision};
use reqwest::Method;
use serde_json::{Value, json};

use super::{audit, test};
use crate::cli::{DecisionsArgs, TryPolicyArgs};
use crate::cli_error::{CliError, CliExitCode};
use crate::client::ServiceClient;
use crate::output::{CommandOutput, DIM, NAME, WARN, count, sanitize, shorten};

/// The most records that the guardian returns at once.
const LARGEST_PAGE: usize = 500;
/// The maximum length of a shown message, in characters.
const MAX_MESSAGE: usize = 160;

pub(super) async fn list(
    arguments: DecisionsArgs,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let DecisionsArgs { filter, limit } = arguments;
    let filter = audit::to_filter(filter, Some("decision".to_owned()));
    let mut left = limit;
    let mut before = None;
    while left > 0 && !output.is_closed() {
        let page = read_page(client, &filter, left, before).await?;
        page.records.iter().for_each(|record| audit::print(record, output));
        left = left.saturating_sub(page.records.len());
        match page.next.filter(|next| before.is_none_or(|before| *next < before)) {
            Some(next) => before = Some(next),
            None => break,
        }
    }
    if left == limit && !output.is_json() {
        output.line(format_args!("no such decisions"));
    }
    Ok(())
}

/// Reads records of a running guardian before a number, the newest first.
pub(in crate::commands) async fn read_page(
    client: &ServiceClient,
    filter: &RecordFilter,
    limit: usize,
    before: Option<u64>,
) -> Result<GuardianRecordList, ClientError> {
    let request = client.request(Method::GET, &["v1", "guardian", "records"]).query(filter);
    let request = request.query(&[("limit", limit.min(LARGEST_PAGE))]);
    let request = request.query(&before.map(|before| [("before", before)]));
    client.json(request).await
}

pub(super) async fn show_policy(
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let policy: Value =
        client.json(client.request(Method::GET, &["v1", "guardian", "policy"])).await?;
    if output.is_json() {
        output.json_line(&policy);
        return Ok(());
    }
    let text = policy["text"].as_str().unwrap_or_default();
    for line in text.lines() {
        output.line(format_args!("{}", sanitize(line)));
    }
    Ok(())
}

pub(super) async fn try_policy(
    arguments: &TryPolicyArgs,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let policy = test::read(&arguments.policy, Policy::parse)?;
    let body = json!({ "policy": policy.text(), "last": arguments.last });
    let trial: PolicyTrial = client.post(&["v1", "guardian", "trials"], &body).await?;
    if output.is_json() {
        output.json_line(&trial);
    } else {
        print(&trial, output);
    }
    if trial.tried == trial.unchanged {
        Ok(())
    } else {
        Err(CliError::already_printed(CliExitCode::Bad))
    }
}

fn print(trial: &PolicyTrial, output: &mut CommandOutput) {
    for one in &trial.differences {
        let about = one.tool.as_ref().unwrap_or(&one.method);
        let mark = if one.partial { "  (the record is partial)" } else { "" };
        output.line(format_args!(
            "{DIM}{:.0}{DIM:#}  {} {DIM}→{DIM:#} {}  {NAME}{}{NAME:#}{WARN}{mark}{WARN:#}",
            one.time,
            outcome(&one.was),
            outcome(&one.would_be),
            sanitize(about),
        ));
        let rules = one.would_be.rules.join(", ");
        output.line(format_args!(
            "    {DIM}{}{DIM:#}{}",
            if rules.is_empty() {
                "by default: ".to_owned()
            } else {
                format!("rule {}: ", sanitize(&rules))
            },
            shorten(&sanitize(&one.would_be.message), MAX_MESSAGE),
        ));
    }
    output.line(format_args!(
        "{} tried: {} the same, {} different, {} with a partial record",
        count(trial.tried, "decision"),
        trial.unchanged,
        trial.tried - trial.unchanged,
        trial.partial,
    ));
    if 0 < trial.unknown {
        let records = count(trial.unknown, "record");
        output.line(format_args!("{WARN}{records} left out too much to try{WARN:#}"));
    }
    for rule in &trial.rules {
        let style = if rule.count == 0 { WARN } else { DIM };
        let times = count(rule.count, "decision");
        output.line(format_args!("  {style}rule {}: {times}{style:#}", sanitize(&rule.rule)));
    }
}

fn outcome(decision: &TrialDecision) -> String {
    let word = decision.decision.as_str();
    let style = audit::style_of(word);
    format!("{style}{word}{style:#}")
}
