//! `a2s usage`: runs and searches over time.

use a2s_api::{RunCounts, SearchCounts, UsageReport};
use jiff::Timestamp;
use reqwest::Method;
use serde_json::json;

use crate::cli::UsageArgs;
use crate::cli_error::CliError;
use crate::client::{MissingPart, ServiceClient};
use crate::clock;
use crate::output::{BOLD, CommandOutput, DIM, WARN, count, sanitize};

pub(super) async fn usage(
    arguments: &UsageArgs,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let since = clock::now().saturating_sub(arguments.within);
    let since = since.map_err(|error| CliError::invalid_argument(error.to_string()))?;
    let query = [("since", since.to_string()), ("unit", arguments.unit.as_str().to_owned())];
    let request = client.request(Method::GET, &["v1", "usage"]).query(&query);
    let runs: UsageReport = client.json(request).await?;
    // An executor alone counts no searches, and only an administrator sees them.
    let searches: Option<SearchCounts> = match client.get(&["v1", "search-counts"]).await {
        Ok(searches) => Some(searches),
        Err(error) => {
            if let MissingPart::Failed(error) = error.into() {
                let message = sanitize(&error.message);
                output.note(format_args!("{WARN}note{WARN:#} without searches: {message}"));
            }
            None
        }
    };
    if output.is_json() {
        output.json_line(&json!({ "runs": runs, "searches": searches }));
        return Ok(());
    }
    print(&runs, output);
    if let Some(searches) = searches {
        print_searches(&searches, since, output);
    }
    Ok(())
}

fn print(usage: &UsageReport, output: &mut CommandOutput) {
    let runs = count(usage.total.runs, "run");
    output.line(format_args!("{BOLD}{runs}{BOLD:#} since {:.0}", usage.since));
    if !usage.complete {
        output.line(format_args!("{WARN}only the latest are counted{WARN:#}"));
    }
    if usage.total.runs == 0 {
        return;
    }
    let used = usage.intervals.iter().filter(|interval| 0 < interval.counts.runs);
    let rows = used.map(|interval| cells(&format!("{:.0}", interval.from), &interval.counts));
    table("time", rows, output);
    let rows = usage.capabilities.iter().map(|row| cells(row.name.as_str(), &row.counts));
    table("capability", rows, output);
    let rows = usage.tenants.iter().map(|row| cells(&row.tenant.to_string(), &row.counts));
    table("who", rows, output);
    for error in &usage.errors {
        output.line(format_args!(
            "{:>6} × {BOLD}{}{BOLD:#}  {DIM}latest {}{DIM:#}",
            error.runs, error.code, error.latest
        ));
    }
}

fn table(name: &'static str, rows: impl Iterator<Item = Vec<String>>, output: &mut CommandOutput) {
    output.line(format_args!(""));
    let rows: Vec<_> = rows.collect();
    output.table(
        [name, "runs", "good", "failed", "denied", "cancelled", "open", "p50", "p95"],
        &rows,
    );
}

fn cells(name: &str, counts: &RunCounts) -> Vec<String> {
    let RunCounts { runs, succeeded, failed, denied, cancelled, open, p50_ms, p95_ms } = counts;
    let time = |time: &Option<u64>| time.map_or_else(String::new, |time| format!("{time} ms"));
    let numbers = [runs, succeeded, failed, denied, cancelled, open];
    let mut cells = vec![sanitize(name).into_owned()];
    cells.extend(numbers.map(ToString::to_string));
    cells.extend([time(p50_ms), time(p95_ms)]);
    cells
}

fn print_searches(searches: &SearchCounts, since: Timestamp, output: &mut CommandOutput) {
    let hours = searches.hours.iter().filter(|hour| since <= hour.from);
    let sums = hours.fold((0, 0, 0), |(all, weak, without), hour| {
        (all + hour.searches, weak + hour.weak, without + hour.without_hit)
    });
    let (all, weak, without) = sums;
    let word = if all == 1 { "search" } else { "searches" };
    output.line(format_args!(""));
    output.line(format_args!(
        "{BOLD}{all} {word}{BOLD:#} since {:.0}: {weak} with a weak best hit, {without} without a hit",
        searches.since.max(since),
    ));
}
