//! A run by the beginning of its id, as long as only one begins so.

use a2s_api::{ExecutionList, Run};
use reqwest::Method;
use uuid::Uuid;

use crate::cli_error::{CliError, CliExitCode, NO_RUN};
use crate::client::ServiceClient;

/// The minimum number of digits to search for an id.
const MIN_DIGITS: usize = 4;
/// The maximum number of digits of an id.
const MAX_DIGITS: usize = 32;
/// The most runs that are searched, the newest first, and the number that is requested at once.
const MAX_RUNS: usize = 1000;
const PAGE_SIZE: usize = 100;
/// The most runs that a message names.
const MAX_NAMED: usize = 5;

/// Returns the id of the run that `text` names: a complete id, or the beginning of the id of one of the
/// newest runs.
///
/// # Errors
/// Fails when no id begins with `text`, or when several do.
pub(super) async fn find_run(text: &str, client: &ServiceClient) -> Result<String, CliError> {
    let Some(digits) = id_prefix(text) else { return Ok(text.to_owned()) };
    let mut found: Vec<Run> = Vec::new();
    let mut before: Option<Uuid> = None;
    for _ in 0..MAX_RUNS / PAGE_SIZE {
        let request = client.request(Method::GET, &["v1", "executions"]).query(&[
            ("limit", Some(PAGE_SIZE.to_string())),
            ("before", before.map(|run| run.to_string())),
        ]);
        let ExecutionList { executions, .. } = client.json(request).await?;
        let is_last = executions.len() < PAGE_SIZE;
        before = executions.last().map(|run| run.id);
        let fitting = |run: &Run| run.id.simple().to_string().starts_with(&digits);
        found.extend(executions.into_iter().filter(fitting));
        if is_last {
            break;
        }
    }
    match found.as_slice() {
        [run] => Ok(run.id.to_string()),
        [] => Err(CliError::new(
            CliExitCode::Bad,
            NO_RUN,
            format!("no run has an id that starts with `{text}`"),
        )
        .with_hint("`a2s runs` lists the newest runs; for an older run, give the whole id.")),
        several => {
            let named: Vec<_> =
                several.iter().take(MAX_NAMED).map(|run| run.id.to_string()).collect();
            let message = format!("{} runs have an id that starts with `{text}`", several.len());
            Err(CliError::new(CliExitCode::Bad, NO_RUN, message).with_hint(named.join(", ")))
        }
    }
}

/// Returns the digits of the beginning of an id; none for a whole id, or for other text.
fn id_prefix(text: &str) -> Option<String> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let is_beginning = (MIN_DIGITS..MAX_DIGITS).contains(&digits.len())
        && digits.chars().all(|digit| digit.is_ascii_hexdigit());
    is_beginning.then(|| digits.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_an_id_is_told_from_a_whole_one() {
        for (text, expected) in [
            ("01a210c3", Some("01a210c3")),
            ("01A210C3-080a-7161", Some("01a210c3080a7161")),
            ("01a", None),
            ("01a210c3-080a-7161-9723-225c57f4364a", None),
            ("latest", None),
            ("../secrets", None),
        ] {
            assert_eq!(id_prefix(text).as_deref(), expected, "{text}");
        }
    }
}
