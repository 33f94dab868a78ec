//! `a2s runs` and `a2s cancel`: what ran, how it ended, and stopping it.

use a2s::api::{ExecutionList, Run, RunStatus};
use reqwest::Method;

use super::run::print_result;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{BAD, BOLD, DIM, GOOD, NAME, Output, WARN};

pub(super) async fn list_runs(
    limit: usize,
    client: &Client,
    output: &mut Output,
) -> Result<(), Failure> {
    let request = client.request(Method::GET, &["v1", "executions"]).query(&[("limit", limit)]);
    let list: ExecutionList = client.json(request).await?;
    if output.is_json() {
        output.json_line(&list);
        return Ok(());
    }
    if list.executions.is_empty() {
        output.line(format_args!("nothing has run yet"));
    }
    for run in &list.executions {
        let style = match run.status {
            RunStatus::Succeeded => GOOD,
            RunStatus::Failed | RunStatus::Denied => BAD,
            RunStatus::Running | RunStatus::Cancelled | RunStatus::Waiting => WARN,
        };
        let status = format!("{:?}", run.status).to_lowercase();
        let code = run.error.as_ref().map_or_else(String::new, |error| format!("  {}", error.code));
        output.line(format_args!(
            "{}  {style}{status:<9}{style:#}  {NAME}{}{NAME:#} {}{DIM}  {:.0}{code}{DIM:#}",
            run.id, run.name, run.version, run.started_at
        ));
    }
    Ok(())
}

pub(super) async fn show_run(
    id: &str,
    client: &Client,
    output: &mut Output,
) -> Result<(), Failure> {
    let run: Run = client.get(&["v1", "executions", id]).await?;
    if output.is_json() {
        output.json_line(&run);
        return Ok(());
    }
    output.line(format_args!(
        "{NAME}{}{NAME:#} {}  {DIM}{}{DIM:#}",
        run.name, run.version, run.checksum
    ));
    for step in &run.steps {
        let decisions: Vec<_> = step
            .decisions
            .iter()
            .map(|decision| format!("{:?} {}", decision.phase, decision.decision).to_lowercase())
            .collect();
        let attempts = match step.attempts {
            0 => String::new(),
            1 => ", 1 attempt".to_owned(),
            more => format!(", {more} attempts"),
        };
        let took = step.duration_ms.map_or_else(String::new, |ms| format!(", {ms} ms"));
        output.line(format_args!(
            "  {BOLD}{}{BOLD:#} {}{DIM}{attempts}{took}  {}{DIM:#}",
            step.step,
            step.status,
            decisions.join(", ")
        ));
    }
    print_result(&run, output);
    Ok(())
}

pub(super) async fn cancel_run(
    id: &str,
    client: &Client,
    output: &mut Output,
) -> Result<(), Failure> {
    let request = client.request(Method::POST, &["v1", "executions", id, "cancel"]);
    let run: Run = client.json(request).await?;
    if output.is_json() {
        output.json_line(&run);
        return Ok(());
    }
    print_result(&run, output);
    if !run.status.is_final() {
        output.line(format_args!("the run ends when what is in flight has come back"));
    }
    Ok(())
}
