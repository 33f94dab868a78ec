//! `a2s runs` and `a2s cancel`: what ran, how it ended, going on with it, and stopping it.

mod exchanges;
mod find;
mod replay;
#[cfg(feature = "console")]
mod run_file;

use a2s_api::{ExecutionList, ResumeRequest, Run, RunStatus, StepResolution};
use reqwest::Method;

use find::find_run;

use super::run::{RunTree, finish, follow_once, parse_assignment, print_result, watch_from};
use crate::cli::{ResumeArgs, RunsArgs, RunsCommand};
use crate::cli_error::CliError;
use crate::client::ServiceClient;
use crate::output::{BAD, BOLD, CommandOutput, DIM, GOOD, NAME, WARN, sanitize};

/// The minimum length of a shown id: the part with its time in milliseconds.
const SHORTEST_ID: usize = 13;

pub(super) async fn runs(
    arguments: RunsArgs,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    match (&arguments.command, &arguments.id) {
        (Some(RunsCommand::Resume(arguments)), _) => resume_run(arguments, client, output).await,
        (None, Some(id)) => show_run(&find_run(id, client).await?, client, output).await,
        (Some(RunsCommand::Replay { id, against }), _) => {
            let id = find_run(id, client).await?;
            replay::replay_run(&id, against.as_deref(), client, output).await
        }
        (Some(RunsCommand::Exchanges { id, step }), _) => {
            let id = find_run(id, client).await?;
            exchanges::show_exchanges(&id, step.as_deref(), client, output).await
        }
        #[cfg(feature = "console")]
        (Some(RunsCommand::Export { id, output: file }), _) => {
            let id = find_run(id, client).await?;
            run_file::export(&id, file.as_deref(), client, output).await
        }
        #[cfg(feature = "console")]
        (Some(RunsCommand::Verify { file, data_only }), _) => {
            run_file::verify(file, *data_only, client, output).await
        }
        (Some(RunsCommand::Delete { id }), _) => {
            delete_run(&find_run(id, client).await?, client, output).await
        }
        (None, None) => list_runs(&arguments, client, output).await,
    }
}

async fn delete_run(
    id: &str,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    client.send(client.request(Method::DELETE, &["v1", "executions", id])).await?;
    if output.is_json() {
        output.json_line(&serde_json::json!({"deleted": id}));
    } else {
        output.line(format_args!("deleted {id}"));
    }
    Ok(())
}

/// Sends the decision about a request with an unknown outcome, and watches the run continue.
async fn resume_run(
    arguments: &ResumeArgs,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let ResumeArgs { id, step, repeat, skip: _, outputs } = arguments;
    let id = &find_run(id, client).await?;
    let pair = |text: &String| parse_assignment(text, "--set NAME=VALUE");
    let outputs = outputs.iter().map(pair).collect::<Result<_, _>>()?;
    let decision = match (*repeat, &outputs) {
        (true, _) => StepResolution::Repeat,
        (false, set) if serde_json::Map::is_empty(set) => StepResolution::Skip,
        (false, _) => StepResolution::Set,
    };
    let request = ResumeRequest { step: step.clone(), decision, outputs };
    // Earlier events are not printed again, but the tree continues from them.
    let (mut seen, mut tree) = (0, RunTree::default());
    follow_once(id, &mut seen, client, |event| tree.apply(event)).await?;
    let _: Run = client.post(&["v1", "executions", id, "resume"], &request).await?;
    let run = watch_from(id, seen, tree, client, output).await?;
    finish(&run, output)
}

async fn list_runs(
    arguments: &RunsArgs,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let request = client.request(Method::GET, &["v1", "executions"]).query(&[
        ("limit", Some(arguments.limit.to_string())),
        ("status", arguments.status.map(|status| status.as_str().to_owned())),
        ("name", arguments.name.as_ref().map(ToString::to_string)),
        ("tenant", arguments.tenant.as_ref().map(ToString::to_string)),
    ]);
    let list: ExecutionList = client.json(request).await?;
    if output.is_json() {
        output.json_line(&list);
        return Ok(());
    }
    if list.executions.is_empty() {
        let RunsArgs { status, name, tenant, .. } = arguments;
        let any = status.is_none() && name.is_none() && tenant.is_none();
        let text = if any { "no runs yet" } else { "no matching runs" };
        output.note(format_args!("{text}"));
    }
    let ids: Vec<_> = list.executions.iter().map(|run| run.id.to_string()).collect();
    let rows = list.executions.iter().zip(&ids).map(|(run, id)| {
        let style = match run.status {
            RunStatus::Succeeded => GOOD,
            RunStatus::Failed | RunStatus::Denied => BAD,
            RunStatus::Queued | RunStatus::Running | RunStatus::Cancelled | RunStatus::Waiting => {
                WARN
            }
        };
        let status = format!("{:?}", run.status).to_lowercase();
        let code = run.error.as_ref().map_or_else(String::new, |error| error.code.clone());
        // The owner may be the only tenant.
        let tenant = run.tenant.as_ref().filter(|tenant| !tenant.is_owner());
        let tenant = tenant.map_or_else(String::new, |tenant| format!(" for {tenant}"));
        // Programs read whole ids.
        let id = if output.is_terminal() { short_id(id, &ids) } else { id };
        vec![
            id.to_owned(),
            format!("{style}{status}{style:#}"),
            format!("{NAME}{}{NAME:#} {}", run.name, run.version),
            format!("{DIM}{:.0}{tenant}{DIM:#}", run.started_at),
            format!("{DIM}{code}{DIM:#}"),
        ]
    });
    let rows: Vec<_> = rows.collect();
    output.table(["RUN", "STATUS", "CAPABILITY", "STARTED", "ERROR"], &rows);
    Ok(())
}

/// Returns the shortest unique prefix of an id among `ids`, which commands accept instead of the id.
fn short_id<'i>(id: &'i str, ids: &[String]) -> &'i str {
    let is_unique = |short: &&str| ids.iter().filter(|other| other.starts_with(*short)).count() < 2;
    let lengths = SHORTEST_ID..id.len();
    lengths.filter_map(|length| id.get(..length)).find(is_unique).unwrap_or(id)
}

async fn show_run(
    id: &str,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let run: Run = client.get(&["v1", "executions", id]).await?;
    if output.is_json() {
        output.json_line(&run);
        return Ok(());
    }
    output.line(format_args!(
        "{NAME}{}{NAME:#} {}  {DIM}{}{DIM:#}",
        run.name, run.version, run.checksum
    ));
    if let Some(tenant) = run.tenant.as_ref().filter(|tenant| !tenant.is_owner()) {
        output.line(format_args!("  for {tenant}"));
    }
    if let Some(plan) = run.plan {
        output.line(format_args!("  as planned  {DIM}{plan}{DIM:#}"));
    }
    for step in &run.steps {
        let decisions: Vec<_> = step
            .decisions
            .iter()
            .map(|decision| {
                let said = format!("{:?} {}", decision.phase, decision.decision).to_lowercase();
                // The one of the same process is the guardian where nothing else is said.
                match decision.guardian.as_deref() {
                    None | Some("builtin") => said,
                    Some(name) => format!("{said} by {}", sanitize(name)),
                }
            })
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
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let id = find_run(id, client).await?;
    let request = client.request(Method::POST, &["v1", "executions", &id, "cancel"]);
    let run: Run = client.json(request).await?;
    if output.is_json() {
        output.json_line(&run);
        return Ok(());
    }
    print_result(&run, output);
    if !run.status.is_final() {
        output.line(format_args!("the run ends after its current requests have ended"));
    }
    Ok(())
}
