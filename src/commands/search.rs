//! `a2s search`: find capabilities by intent.

pub(super) mod strategy;

use a2s_api::{BatchSearchResponse, NearMiss, ScoreTerm, SearchHit, SearchRequest, SearchResponse};

use crate::cli::SearchArgs;
use crate::cli_error::{CliError, CliExitCode};
use crate::client::ServiceClient;
use crate::output::{BOLD, CommandOutput, DIM, NAME, WARN, count, sanitize};

/// The maximum number of hits in one page.
const MAX_PAGE_SIZE: usize = 100;

pub(super) async fn search(
    arguments: SearchArgs,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let SearchArgs { intent, also, limit, cursor, strategy, explain, filters } = arguments;
    let mut request = SearchRequest {
        limit: Some(limit.min(MAX_PAGE_SIZE)),
        cursor,
        strategy: strategy::parse(&strategy.strategy)?,
        filters: filters.into_filters(),
        ..SearchRequest::default()
    };
    if also.is_empty() {
        request.intent = intent;
        let answer = fetch_pages(&mut request, limit, client).await?;
        if output.is_json() {
            output.json_line(&answer);
        } else {
            print_response(&answer, explain, output);
        }
        return fail_without_hits(std::iter::once(&answer));
    }
    request.intents = std::iter::once(intent).chain(also).collect();
    let answers: BatchSearchResponse = client.post(&["v1", "search"], &request).await?;
    if output.is_json() {
        output.json_line(&answers);
    } else {
        for answer in &answers.responses {
            output.line(format_args!("{BOLD}{}{BOLD:#}", sanitize(&answer.intent)));
            print_response(&answer.answer, explain, output);
        }
    }
    fail_without_hits(answers.responses.iter().map(|answer| &answer.answer))
}

/// Fails, without another message, when no capability fits one of the intents. A page that continues
/// others has no hits when there are no more.
fn fail_without_hits<'a>(
    mut answers: impl Iterator<Item = &'a SearchResponse>,
) -> Result<(), CliError> {
    let is_nothing = |answer: &SearchResponse| {
        answer.capabilities.is_empty() && answer.metadata.message.is_some()
    };
    if answers.any(is_nothing) {
        return Err(CliError::already_printed(CliExitCode::Bad));
    }
    Ok(())
}

/// Requests as many pages as the limit needs, and combines them in one response.
async fn fetch_pages(
    request: &mut SearchRequest,
    limit: usize,
    client: &ServiceClient,
) -> Result<SearchResponse, CliError> {
    let mut answer: SearchResponse = client.post(&["v1", "search"], request).await?;
    while let Some(next) = answer.next.take() {
        let left = limit.saturating_sub(answer.capabilities.len());
        if left == 0 {
            answer.next = Some(next);
            break;
        }
        request.limit = Some(left.min(MAX_PAGE_SIZE));
        request.cursor = Some(next);
        let page: SearchResponse = client.post(&["v1", "search"], request).await?;
        answer.capabilities.extend(page.capabilities);
        answer.next = page.next;
        answer.metadata.total_matches = page.metadata.total_matches;
        answer.metadata.search_time_ms += page.metadata.search_time_ms;
    }
    Ok(answer)
}

/// Prints a response for a person; with `explain`, also the terms of the rank scores.
pub(crate) fn print_response(answer: &SearchResponse, explain: bool, output: &mut CommandOutput) {
    for hit in &answer.capabilities {
        print_hit(hit, output);
        if explain {
            print_terms(hit, output);
        }
    }
    let metadata = &answer.metadata;
    if let Some(degraded) = &metadata.degraded {
        output.line(format_args!("{WARN}{}{WARN:#}", sanitize(degraded)));
    }
    if let Some(message) = &metadata.message {
        // The names are below, with more about them.
        let message = message.split("; the nearest are").next().unwrap_or(message);
        output.line(format_args!("{WARN}{message}{WARN:#}"));
    }
    for near in &metadata.nearest {
        let NearMiss { name, version, score, description, .. } = near;
        output.line(format_args!(
            "{DIM}nearest {score:.2}  {DIM:#}{NAME}{name}{NAME:#} {version}  {description}"
        ));
    }
    let matches = match metadata.total_matches {
        1 => "1 capability".to_owned(),
        more => format!("{more} capabilities"),
    };
    let strategy = match &metadata.strategy {
        Some(name) if explain => format!(", ranked by {name}"),
        _ => String::new(),
    };
    let time = metadata.search_time_ms;
    output.line(format_args!("{DIM}{matches} in {time:.1} ms{strategy}{DIM:#}"));
    if answer.next.is_some() {
        output.line(format_args!("{DIM}there are more: raise --limit{DIM:#}"));
    }
}

fn print_hit(hit: &SearchHit, output: &mut CommandOutput) {
    let SearchHit { name, version, description, score, similarity, .. } = hit;
    let strength = hit.strength.as_str();
    output.line(format_args!(
        "{BOLD}{score:.2} {strength:<6}{BOLD:#}  {NAME}{name}{NAME:#} {version}  {description}"
    ));
    if let Some(contradiction) = &hit.contradiction {
        output.line(format_args!("      {WARN}{}{WARN:#}", sanitize(contradiction)));
    }
    if let Some(deprecated) = &hit.deprecated {
        output.line(format_args!("      {WARN}{}{WARN:#}", sanitize(&deprecated.to_string())));
    }
    if let Some(needing) = &hit.needed_by {
        output.line(format_args!(
            "      {WARN}needed by {}{WARN:#}, which takes what this finds as `{}`",
            needing.name,
            sanitize(&needing.input)
        ));
    }
    let inputs: Vec<_> = hit
        .parameters
        .iter()
        .map(|input| match hit.extracted.get(&input.name) {
            Some(value) => format!("{}={}", input.name, sanitize(&value.to_string())),
            None => format!("{}{}", input.name, if input.required { "" } else { "?" }),
        })
        .collect();
    let inputs = if inputs.is_empty() { "none".to_owned() } else { inputs.join(", ") };
    let record = match hit.success_rate {
        Some(rate) => format!("{:.0} % of {} good", rate * 100.0, count(hit.usage_count, "run")),
        None => "not run yet".to_owned(),
    };
    let complexity = hit.complexity.as_str();
    output.line(format_args!("      inputs: {inputs}"));
    output.line(format_args!(
        "      {DIM}similarity {similarity:.2}, {complexity} complexity, {record}{DIM:#}"
    ));
    output.line(format_args!("      {DIM}{}{DIM:#}", hit.checksum));
}

/// Prints the parts of the rank score: the value, the weight and the contribution of each term.
fn print_terms(hit: &SearchHit, output: &mut CommandOutput) {
    for term in &hit.explanation {
        let ScoreTerm { term, value, weight, contribution } = term;
        output.line(format_args!(
            "      {DIM}{term:<14} {value:.3} × {weight:.3} = {contribution:.4}{DIM:#}"
        ));
    }
    output.line(format_args!(
        "      {DIM}{:<14}                 {:.4}{DIM:#}",
        "rank_score", hit.rank_score
    ));
}
