//! `a2s search`: find capabilities by intent.

use a2s::api::{Hit, Nearest, SearchAnswer, SearchRequest, Strategy};

use crate::client::Client;
use crate::failure::Failure;
use crate::output::{BOLD, DIM, NAME, Output, WARN, count};

pub(super) async fn search(
    intent: String,
    limit: usize,
    strategy: Option<String>,
    client: &Client,
    output: &mut Output,
) -> Result<(), Failure> {
    let strategy = strategy.map(Strategy::Preset);
    let request = SearchRequest { intent, limit: Some(limit), strategy, filters: None };
    let answer: SearchAnswer = client.post(&["v1", "search"], &request).await?;
    if output.is_json() {
        output.json_line(&answer);
    } else {
        print_answer(&answer, output);
    }
    Ok(())
}

/// Prints an answer for a person.
pub(crate) fn print_answer(answer: &SearchAnswer, output: &mut Output) {
    for hit in &answer.capabilities {
        print_hit(hit, output);
    }
    let metadata = &answer.metadata;
    if let Some(message) = &metadata.message {
        // The names are below, with more about them.
        let message = message.split(';').next().unwrap_or(message);
        output.line(format_args!("{WARN}{message}{WARN:#}"));
    }
    for near in &metadata.nearest {
        let Nearest { name, version, similarity, description } = near;
        output.line(format_args!(
            "{DIM}nearest {similarity:.2}  {DIM:#}{NAME}{name}{NAME:#} {version}  {description}"
        ));
    }
    let matches = match metadata.total_matches {
        1 => "1 capability".to_owned(),
        more => format!("{more} capabilities"),
    };
    output.line(format_args!("{DIM}{matches} in {:.1} ms{DIM:#}", metadata.search_time_ms));
}

fn print_hit(hit: &Hit, output: &mut Output) {
    let Hit { name, version, description, score, similarity, .. } = hit;
    output.line(format_args!(
        "{BOLD}{score:.2}{BOLD:#}  {NAME}{name}{NAME:#} {version}  {description}"
    ));
    let inputs: Vec<_> = hit
        .parameters
        .iter()
        .map(|input| format!("{}{}", input.name, if input.required { "" } else { "?" }))
        .collect();
    let inputs = if inputs.is_empty() { "none".to_owned() } else { inputs.join(", ") };
    let record = match hit.success_rate {
        Some(rate) => format!("{:.0} % of {} good", rate * 100.0, count(runs(hit), "run")),
        None => "not run yet".to_owned(),
    };
    let complexity = hit.complexity.as_str();
    output.line(format_args!("      inputs: {inputs}"));
    output.line(format_args!(
        "      {DIM}similarity {similarity:.2}, {complexity} complexity, {record}{DIM:#}"
    ));
    let terms: Vec<_> = hit
        .explanation
        .iter()
        .map(|term| format!("{} {:.2}×{:.2}", term.term, term.value, term.weight))
        .collect();
    output.line(format_args!("      {DIM}{} = {score:.2}{DIM:#}", terms.join(" + ")));
    output.line(format_args!("      {DIM}{}{DIM:#}", hit.checksum));
}

fn runs(hit: &Hit) -> usize {
    usize::try_from(hit.usage_count).unwrap_or(usize::MAX)
}
