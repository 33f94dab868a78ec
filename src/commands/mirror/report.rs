//! The report of a mirror.

use std::time::Duration;

use a2s_api::RegistryChange;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::output::{BAD, CommandOutput, DIM, GOOD, NAME, WARN, sanitize};

/// The outcome of a change.
pub(super) enum ChangeOutcome {
    /// The change was applied.
    Made,
    /// The target already had this state.
    Same,
    /// The change was rejected, with the reason.
    Refused(String),
}

/// Counts and prints the outcomes of changes.
pub(super) struct MirrorReport<'o> {
    output: &'o mut CommandOutput,
    bar: ProgressBar,
    /// Set when only refused changes get a line, as for a copy of a whole registry.
    is_brief: bool,
    made: u64,
    same: u64,
    refused: u64,
}

impl<'o> MirrorReport<'o> {
    pub(super) fn new(is_brief: bool, output: &'o mut CommandOutput) -> Self {
        // The bar is hidden without a terminal.
        let bar =
            if output.is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        let bar = match ProgressStyle::with_template("{spinner} {pos} changes, {per_sec}  {msg}") {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
        Self { output, bar, is_brief, made: 0, same: 0, refused: 0 }
    }

    pub(super) fn add_change(&mut self, change: &RegistryChange, outcome: &ChangeOutcome) {
        let RegistryChange { seq, action, name, version, .. } = change;
        let (word, style, why) = match outcome {
            ChangeOutcome::Made => (action.as_str(), GOOD, None),
            ChangeOutcome::Same => ("unchanged", DIM, None),
            ChangeOutcome::Refused(why) => ("refused", BAD, Some(why)),
        };
        *match outcome {
            ChangeOutcome::Made => &mut self.made,
            ChangeOutcome::Same => &mut self.same,
            ChangeOutcome::Refused(_) => &mut self.refused,
        } += 1;
        self.bar.inc(1);
        self.bar.set_message(format!("{name} {version}"));
        let result = match outcome {
            ChangeOutcome::Made => "made",
            ChangeOutcome::Same => "unchanged",
            ChangeOutcome::Refused(_) => "refused",
        };
        let output = &mut *self.output;
        if output.is_json() {
            let mut line = json!({
                "seq": seq, "action": action, "name": name, "version": version, "result": result,
            });
            if let Some(why) = why {
                line["why"] = json!(why);
            }
            output.json_line(&line);
        } else if !self.is_brief || why.is_some() {
            self.bar.suspend(|| {
                output.line(format_args!("{style}{word}{style:#}  {NAME}{name}{NAME:#} {version}"));
                if let Some(why) = why {
                    output.line(format_args!("  {}", sanitize(why)));
                }
            });
        }
    }

    /// Prints that a registry does not respond, and the pause before the retry.
    pub(super) fn print_waiting(&mut self, why: &str, pause: Duration) {
        let output = &mut *self.output;
        let seconds = pause.as_secs();
        self.bar.suspend(|| {
            output.note(format_args!(
                "{WARN}waiting{WARN:#}: {}; again in {seconds} s",
                sanitize(why)
            ));
        });
    }

    /// Prints that the other registry has a different database than before.
    pub(super) fn print_restart(&mut self) {
        let output = &mut *self.output;
        self.bar.suspend(|| {
            output.note(format_args!(
                "{WARN}note{WARN:#}: the other registry has a new feed; starting again from the beginning"
            ));
        });
    }

    /// Prints the totals. Returns true when a change was refused.
    pub(super) fn finish(self, next: u64) -> bool {
        self.bar.finish_and_clear();
        let Self { output, made, same, refused, .. } = self;
        if output.is_json() {
            let all = json!({ "made": made, "unchanged": same, "refused": refused, "next": next });
            output.json_line(&all);
        } else {
            output.line(format_args!(
                "{made} made, {same} unchanged, {refused} refused  {DIM}up to {next}{DIM:#}"
            ));
        }
        refused > 0
    }
}
