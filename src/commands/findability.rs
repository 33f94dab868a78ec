//! The findability of documents, as `a2s publish` and `a2s validate --registry` report it. It is advice: a
//! registry that does not report it is not an error.

use std::fmt::Display;

use a2s_api::{FindabilityReport, Rival, TextFindability, TextOrigin};
use agent::RemoteRegistry;

use crate::cli_error::CliError;
use crate::client::ServiceClient;
use crate::output::{CommandOutput, DIM, GOOD, NAME, WARN, count, sanitize};

/// The registry's code for an unknown path: a registry of an older version.
const UNKNOWN_PATH: &str = "A2S200";

/// A reporter of the findability of documents. After the first failure it asks no more.
#[derive(Debug)]
pub(super) struct FindabilityReporter<'c> {
    client: Option<&'c ServiceClient>,
    failure: Option<CliError>,
}

impl<'c> FindabilityReporter<'c> {
    /// Creates a reporter; without a client it reports nothing.
    pub(super) fn new(client: Option<&'c ServiceClient>) -> Self {
        Self { client, failure: None }
    }

    /// Returns the report of the registry about a document.
    pub(super) async fn report(&mut self, source: &[u8]) -> Option<FindabilityReport> {
        let registry = RemoteRegistry::new(self.client?.clone());
        match registry.report_findability(source.to_vec()).await {
            Ok(report) => Some(report),
            Err(error) => {
                self.client = None;
                self.failure = (error.code() != Some(UNKNOWN_PATH)).then(|| CliError::from(error));
                None
            }
        }
    }

    /// Prints for a person why reports are missing.
    pub(super) fn print_failure(self, output: &mut CommandOutput) {
        let Some(failure) = self.failure.filter(|_| !output.is_json()) else { return };
        output.note(format_args!(
            "{WARN}note{WARN:#}: the registry reports no findability: {}",
            failure.message
        ));
    }
}

/// Prints a report for a person. Of `several` documents, one that is the first for all its texts gets one
/// line.
pub(super) fn print(report: &FindabilityReport, several: bool, output: &mut CommandOutput) {
    let FindabilityReport { name, texts, degraded, .. } = report;
    if let Some(degraded) = degraded {
        output.line(format_args!("{WARN}{}{WARN:#}", sanitize(degraded)));
    }
    if several && texts.iter().all(TextFindability::is_clear) {
        let intents = count(texts.len(), "intent");
        let texts: &dyn Display = match texts.first().map(|text| text.from) {
            Some(TextOrigin::Intent) => &intents,
            Some(TextOrigin::Description) | None => &"its description",
        };
        output.line(format_args!("{GOOD}first{GOOD:#}      {NAME}{name}{NAME:#} for {texts}"));
        return;
    }
    if several {
        output.line(format_args!("{NAME}{name}{NAME:#}"));
    }
    for text in texts {
        print_text(text, output);
    }
}

fn print_text(text: &TextFindability, output: &mut CommandOutput) {
    let (style, place) = match text.rank.filter(|_| text.fits) {
        Some(1) if text.is_clear() => (GOOD, "first".to_owned()),
        Some(1) => (WARN, "first".to_owned()),
        Some(rank) => (WARN, format!("rank {rank}")),
        None => (WARN, "not found".to_owned()),
    };
    let from = match text.from {
        TextOrigin::Intent => "",
        TextOrigin::Description => "description: ",
    };
    let shown = sanitize(&text.text);
    output.line(format_args!("{style}{place:<9}{style:#}  {DIM}{from}{DIM:#}{shown}"));
    for Rival { name, version, description, rank } in &text.confused_with {
        let side = if text.rank == Some(1) { "close behind" } else { "before it" };
        let description = sanitize(description);
        output.line(format_args!(
            "           {side}: rank {rank}  {NAME}{name}{NAME:#} {version}  {DIM}{description}{DIM:#}"
        ));
    }
    for (label, words) in [
        ("words that the description lacks", &text.missing_words),
        ("words that only this capability has", &text.distinct_words),
    ] {
        if !words.is_empty() {
            output.line(format_args!("           {label}: {}", sanitize(&words.join(", "))));
        }
    }
}
