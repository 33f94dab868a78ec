//! `a2s stats`: how the runs of a capability ended.

use a2s_api::{CapabilityStats, FailureCount, FaultAttribution};

use super::version_spec::VersionSpec;
use crate::cli_error::CliError;
use crate::client::ServiceClient;
use crate::output::{BOLD, CommandOutput, DIM, NAME, count};

pub(super) async fn stats(
    target: &str,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let VersionSpec { name, range } = VersionSpec::parse(target)?;
    let version = range.as_deref().unwrap_or("latest");
    let path = ["v1", "capabilities", name.as_str(), version, "stats"];
    let stats: CapabilityStats = client.get(&path).await?;
    if output.is_json() {
        output.json_line(&stats);
    } else {
        print(&stats, output);
    }
    Ok(())
}

fn print(stats: &CapabilityStats, output: &mut CommandOutput) {
    let CapabilityStats {
        name, version, checksum, runs, successes, faults, weights: standing, ..
    } = stats;
    output.line(format_args!("{NAME}{name}{NAME:#} {version}  {DIM}{checksum}{DIM:#}"));
    let Some(last_run) = stats.last_run else {
        output.line(format_args!("  not run yet"));
        return;
    };
    let neither = runs.saturating_sub(successes + faults);
    output.line(format_args!(
        "  {BOLD}{}{BOLD:#}: {successes} good, {faults} bad, {neither} neutral",
        count(*runs, "run")
    ));
    let rate = match standing.success_rate {
        Some(rate) => format!("{:.1} %", rate * 100.0),
        None => "unknown".to_owned(),
    };
    output.line(format_args!(
        "  success rate {rate}, ranked as {:.1} %",
        standing.success_rate_lower * 100.0
    ));
    output.line(format_args!(
        "  {DIM}weighs {:.1} good, {:.1} bad, {:.1} runs; half after {} days{DIM:#}",
        standing.successes, standing.faults, standing.runs, standing.half_life_days
    ));
    if let Some(latency) = stats.latency {
        output.line(format_args!(
            "  half took at most {:.0} ms, 95 of 100 at most {:.0} ms",
            latency.p50_ms, latency.p95_ms
        ));
    }
    output.line(format_args!(
        "  {DIM}reported by {}, last run {last_run}{DIM:#}",
        count(stats.reporters, "executor")
    ));
    for failure in &stats.failures {
        print_failure(failure, output);
    }
}

fn print_failure(failure: &FailureCount, output: &mut CommandOutput) {
    let code = failure.code.as_deref().unwrap_or("no code");
    let class = failure.class.map_or(String::new(), |class| format!(" ({})", class.as_str()));
    let blame = match failure.attribution {
        None => "unknown cause: counts",
        Some(FaultAttribution::Capability) => "the capability: counts",
        Some(FaultAttribution::Service) => "the service: counts",
        Some(FaultAttribution::Caller) => "the caller",
        Some(FaultAttribution::Guardian) => "the guardian",
        Some(FaultAttribution::Executor) => "the executor",
    };
    let times = failure.count;
    output.line(format_args!("  {times:>6} × {BOLD}{code}{BOLD:#}{class}  {DIM}{blame}{DIM:#}"));
}
