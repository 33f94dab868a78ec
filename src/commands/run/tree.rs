//! A run as a tree of its steps: a fold over its events, and the lines that show it. Pure.
//!
//! However long a list is that a step runs over, the tree shows the iterations that are under way
//! and a few that failed; the others are counted.

use std::collections::BTreeMap;

use a2s_api::{
    DecisionRecord, DecisionSource, ErrorHandlerKind, EventSummary, GuardianPhase,
    IterationSummary, RequestChange, RunChange, RunEvent, SentRequest, StepChange, StepResolution,
    WaitReason, parent_path, path_of_loop,
};
use console::truncate_str;
use jiff::Timestamp;

use super::view::approve_command;
use crate::output::{BAD, BOLD, DIM, GOOD, WARN, sanitize};

/// The most failed iterations of a step that are shown.
const MAX_FAILED: usize = 5;
/// The frames in front of a step that is in progress, one after another.
const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// The time that each of them is shown, in milliseconds.
const FRAME_MS: i64 = 80;

/// The steps of a run, as far as its events report them.
#[derive(Debug, Default)]
pub(crate) struct RunTree {
    steps: BTreeMap<String, TreeStep>,
    /// The paths of the top-level steps, in order.
    top: Vec<String>,
    /// Set when decisions have to name their guardian.
    has_several_guardians: bool,
}

/// A step, or an iteration of a step.
#[derive(Debug)]
struct TreeStep {
    state: TreeStepState,
    kind: String,
    started: Timestamp,
    took_ms: Option<u64>,
    attempts: u32,
    /// The shown decisions of guardians before and after, each with true for a plain allow.
    decisions: Vec<(String, bool)>,
    iterations: Option<IterationSummary>,
    /// The current activity.
    current_action: Option<String>,
    warnings: Vec<String>,
    handled: Option<ErrorHandlerKind>,
    /// The paths of the steps below, in the order in which they began.
    below: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TreeStepState {
    Running,
    Done,
    Failed(String),
    Waiting,
    Skipped(String),
    Stopped,
}

/// A line that the tree can show.
struct TreeLine {
    text: String,
    /// Set when the step is in progress.
    is_active: bool,
}

impl RunTree {
    /// Applies an event to the tree. It ignores events of steps that the tree does not contain.
    pub(crate) fn apply(&mut self, event: &RunEvent) {
        match event.kind.summary() {
            EventSummary::Run(change) => self.apply_run_change(change),
            EventSummary::Step(step, change) => self.apply_step_change(step, change, event.at),
            EventSummary::Request(step, change) => {
                self.change(step, |step| step.apply_request_change(change));
            }
        }
    }

    fn apply_run_change(&mut self, change: RunChange<'_>) {
        match change {
            RunChange::Started(started) => self.has_several_guardians = started.guardians.len() > 1,
            RunChange::Queued => {}
            // What waited is asked about again.
            RunChange::Resumed => {
                let waits =
                    self.steps.values_mut().filter(|step| step.state == TreeStepState::Waiting);
                waits.for_each(|step| {
                    (step.state, step.current_action) = (TreeStepState::Running, None)
                });
            }
            RunChange::Waiting(error) => {
                if let Some(step) = &error.step {
                    self.change(step, |step| step.state = TreeStepState::Waiting);
                }
            }
            RunChange::Finished { .. } => {
                // Steps that are still open will never report an end.
                let open = |step: &&mut TreeStep| {
                    matches!(step.state, TreeStepState::Running | TreeStepState::Waiting)
                };
                self.steps
                    .values_mut()
                    .filter(open)
                    .for_each(|step| step.state = TreeStepState::Stopped);
            }
        }
    }

    fn apply_step_change(&mut self, step: &str, change: StepChange<'_>, at: Timestamp) {
        match change {
            StepChange::Started { kind, capability } => {
                let kind = match capability {
                    Some(used) => format!("{} {}", used.name, used.version),
                    None => kind.to_owned(),
                };
                self.add(step, kind, TreeStepState::Running, at);
            }
            StepChange::Skipped(reason) => {
                self.add(step, String::new(), TreeStepState::Skipped(reason.to_owned()), at);
            }
            StepChange::ItemsTaken(items) => {
                self.change(step, |step| step.iterations.get_or_insert_default().total = items);
            }
            StepChange::BranchTaken(value) => {
                self.change(step, |step| step.kind = format!("condition is {value}"));
            }
            StepChange::Decided { decision, .. } => {
                let described = describe_decision(decision, self.has_several_guardians);
                self.change(step, |step| step.decisions.extend(described));
            }
            StepChange::Warned(warning) => self.change(step, |step| {
                step.warnings.push(format!("{} {}", warning.code, warning.message));
            }),
            StepChange::Finished { duration_ms, .. } => {
                self.end(step, TreeStepState::Done, Some(duration_ms));
            }
            StepChange::Failed { error, duration_ms } => {
                let failure = format!("{} {}", error.code, error.message);
                self.end(step, TreeStepState::Failed(failure), Some(duration_ms));
            }
            StepChange::Resolved(StepResolution::Repeat) => {
                self.change(step, |step| step.state = TreeStepState::Running);
            }
            StepChange::Resolved(StepResolution::Skip) => {
                let reason = "by decision of a person".to_owned();
                self.end(step, TreeStepState::Skipped(reason), None);
            }
            StepChange::Resolved(StepResolution::Set) => self.end(step, TreeStepState::Done, None),
            StepChange::ErrorHandled(handler) => {
                self.change(step, |step| step.handled = Some(handler));
            }
            StepChange::ApprovalRequested { about, id, expires_at, .. } => {
                // The state says that it waits for an approval.
                let about = about.describe();
                let about = about.strip_prefix(" of ").map(|about| format!("{about}: "));
                let command = approve_command(id, expires_at);
                self.change(step, |step| {
                    step.state = TreeStepState::Waiting;
                    step.current_action = Some(about.unwrap_or_default() + &command);
                });
            }
        }
    }

    /// Returns the lines of the tree: at most `height` lines of at most `width` columns.
    pub(crate) fn lines(&self, width: usize, height: usize, now: Timestamp) -> Vec<String> {
        let mut lines = Vec::new();
        if width == 0 {
            return Vec::new();
        }
        self.top.iter().for_each(|path| self.add_lines(path, 1, now, &mut lines));
        let cut = |text: &str| truncate_str(text, width, "…").into_owned();
        fit_height(lines, height).iter().map(|line| cut(line)).collect()
    }

    fn add(&mut self, path: &str, kind: String, state: TreeStepState, at: Timestamp) {
        if let Some(step) = self.steps.get_mut(path) {
            step.state = state;
            return;
        }
        let step = TreeStep {
            state,
            kind,
            started: at,
            took_ms: None,
            attempts: 0,
            decisions: Vec::new(),
            iterations: None,
            current_action: None,
            warnings: Vec::new(),
            handled: None,
            below: Vec::new(),
        };
        self.steps.insert(path.to_owned(), step);
        match parent_path(path).and_then(|parent| self.steps.get_mut(parent)) {
            Some(parent) => parent.below.push(path.to_owned()),
            None => self.top.push(path.to_owned()),
        }
    }

    fn change(&mut self, path: &str, change: impl FnOnce(&mut TreeStep)) {
        if let Some(step) = self.steps.get_mut(path) {
            change(step);
        }
    }

    fn end(&mut self, path: &str, state: TreeStepState, took_ms: Option<u64>) {
        let failed = matches!(state, TreeStepState::Failed(_));
        self.change(path, |step| {
            step.state = state;
            step.took_ms = took_ms;
            step.current_action = None;
        });
        let Some(looping) = path_of_loop(path) else { return };
        let mut is_listed = false;
        self.change(looping, |step| {
            let iterations = step.iterations.get_or_insert_default();
            if failed {
                iterations.failed += 1;
                is_listed = iterations.failed <= MAX_FAILED;
            } else {
                iterations.succeeded += 1;
            }
        });
        if !is_listed {
            self.change(looping, |step| step.below.retain(|below| below != path));
            self.forget(path);
        }
    }

    /// Removes a step with all steps below it.
    fn forget(&mut self, path: &str) {
        for below in self.steps.remove(path).map(|step| step.below).unwrap_or_default() {
            self.forget(&below);
        }
    }

    fn add_lines(&self, path: &str, depth: usize, now: Timestamp, lines: &mut Vec<TreeLine>) {
        let Some(step) = self.steps.get(path) else { return };
        let indent = "  ".repeat(depth);
        let active = matches!(step.state, TreeStepState::Running | TreeStepState::Waiting);
        let text = format!("{indent}{}", step.line(name_of(path), now));
        lines.push(TreeLine { text, is_active: active });
        for warning in &step.warnings {
            let text = format!("{indent}  {WARN}!{WARN:#} {}", sanitize(warning));
            lines.push(TreeLine { text, is_active: false });
        }
        step.below.iter().for_each(|below| self.add_lines(below, depth + 1, now, lines));
    }
}

impl TreeStep {
    fn apply_request_change(&mut self, change: RequestChange<'_>) {
        self.current_action = match change {
            RequestChange::Throttled { host, reason, wait_ms } => {
                let time = wait_ms.map_or_else(String::new, |time| format!(" {time} ms"));
                let why = match reason {
                    WaitReason::Concurrency => "the end of another request",
                    WaitReason::Rate => "a free slot",
                    WaitReason::RetryAfter => "the service (Retry-After)",
                };
                Some(format!("waits{time} for {why}: {host}"))
            }
            RequestChange::Requesting { method, url, .. } => Some(format!("{method} {url}")),
            RequestChange::TokenRequested { scheme, failure, .. } => Some(match failure {
                None => format!("has a token for {scheme}"),
                Some(failure) => format!("no token for {scheme}: {}", failure.code),
            }),
            RequestChange::SessionOpened { host, failure, .. } => Some(match failure {
                None => format!("has a session with {host}"),
                Some(failure) => format!("no session with {host}: {}", failure.code),
            }),
            RequestChange::Sending(SentRequest { attempt, method, url, .. }) => {
                self.attempts = attempt;
                Some(format!("{method} {url}"))
            }
            RequestChange::Received { .. } => None,
            RequestChange::Retrying { reason, pause_ms, .. } => {
                Some(format!("again in {pause_ms} ms: {reason}"))
            }
        };
    }

    fn line(&self, name: &str, now: Timestamp) -> String {
        let name = sanitize(name);
        let mark = match &self.state {
            TreeStepState::Running => {
                let frame = now.as_millisecond().div_euclid(FRAME_MS).rem_euclid(10);
                let frame = usize::try_from(frame).ok().and_then(|frame| SPINNER.get(frame));
                format!("{BOLD}{}{BOLD:#}", frame.unwrap_or(&SPINNER[0]))
            }
            TreeStepState::Done => format!("{GOOD}✓{GOOD:#}"),
            TreeStepState::Failed(_) if self.handled.is_some() => format!("{WARN}✗{WARN:#}"),
            TreeStepState::Failed(_) => format!("{BAD}✗{BAD:#}"),
            TreeStepState::Waiting => format!("{WARN}?{WARN:#}"),
            TreeStepState::Skipped(_) => format!("{DIM}○{DIM:#}"),
            TreeStepState::Stopped => format!("{WARN}■{WARN:#}"),
        };
        let mut parts: Vec<String> = Vec::new();
        let mut dim = |text: String| {
            if !text.is_empty() {
                parts.push(format!("{DIM}{}{DIM:#}", sanitize(&text)));
            }
        };
        if let TreeStepState::Skipped(reason) = &self.state {
            dim(format!("skipped: {reason}"));
            return format!("{mark} {DIM}{name}{DIM:#}  {}", parts.concat());
        }
        dim(self.kind.clone());
        if let Some(IterationSummary { total, succeeded, failed }) = self.iterations {
            dim(format!("{}/{total}", succeeded + failed));
            if failed > 0 {
                parts.push(format!("{BAD}{failed} failed{BAD:#}"));
            }
        }
        let mut dim = |text: String| parts.push(format!("{DIM}{}{DIM:#}", sanitize(&text)));
        let passed = now.as_millisecond() - self.started.as_millisecond();
        match (self.took_ms, u64::try_from(passed).unwrap_or(0)) {
            (Some(took), _) => dim(duration(took)),
            // Shorter times are not useful.
            (None, passed) if self.state == TreeStepState::Running && passed >= 1_000 => {
                dim(format!("{} s", passed / 1_000));
            }
            (None, _) => {}
        }
        if self.attempts > 1 {
            dim(format!("{} attempts", self.attempts));
        }
        for (decision, is_plain) in &self.decisions {
            let style = if *is_plain { DIM } else { WARN };
            parts.push(format!("{style}{}{style:#}", sanitize(decision)));
        }
        match (&self.state, &self.current_action) {
            (TreeStepState::Failed(why), _) => parts.push(format!("{BAD}{}{BAD:#}", sanitize(why))),
            (TreeStepState::Waiting, Some(doing)) => {
                parts.push(format!("{WARN}waits for approval{WARN:#}: {}", sanitize(doing)));
            }
            (TreeStepState::Waiting, None) => {
                parts.push(format!("{WARN}waits for a person{WARN:#}"));
            }
            (TreeStepState::Running, Some(doing)) => parts.push(sanitize(doing).into_owned()),
            _ => {}
        }
        match self.handled {
            Some(ErrorHandlerKind::Continue) => parts.push(format!("{WARN}ignored{WARN:#}")),
            Some(ErrorHandlerKind::Catch) => parts.push(format!("{WARN}caught{WARN:#}")),
            None => {}
        }
        format!("{mark} {BOLD}{name}{BOLD:#}  {}", parts.join("  ")).trim_end().to_owned()
    }
}

/// Selects at most `height` of the lines: active ones first, then the latest ones. An extra line counts the
/// lines that are left out.
fn fit_height(lines: Vec<TreeLine>, height: usize) -> Vec<String> {
    if lines.len() <= height {
        return lines.into_iter().map(|line| line.text).collect();
    }
    let room = height.saturating_sub(1);
    let mut shown = vec![false; lines.len()];
    let active = (0..lines.len()).filter(|at| lines[*at].is_active);
    let others = (0..lines.len()).rev().filter(|at| !lines[*at].is_active);
    active.chain(others).take(room).for_each(|at| shown[at] = true);
    let hidden = lines.len() - room.min(lines.len());
    let more = format!("  {DIM}… {hidden} more{DIM:#}");
    let shown = lines.into_iter().zip(shown).filter(|(_, shown)| *shown);
    let shown = shown.map(|(line, _)| line.text);
    std::iter::once(more).take(height).chain(shown).collect()
}

/// Describes the decision of a guardian in a word or two; a plain allow of a result needs none.
fn describe_decision(decision: &DecisionRecord, several: bool) -> Option<(String, bool)> {
    let source = match decision.source {
        DecisionSource::Guardian | DecisionSource::Unguarded => "",
        DecisionSource::FailedClosed => " (failed closed)",
        DecisionSource::FailedOpen => " (failed open)",
    };
    let plain_yes = decision.source == DecisionSource::Guardian && decision.decision == "allow";
    // Where there is one, everybody knows which.
    let name = decision.guardian.as_ref().filter(|_| several);
    let name = name.map_or_else(String::new, |name| format!(" by {name}"));
    let words = format!("{}{name}{source}", decision.decision);
    match decision.phase {
        GuardianPhase::Request => Some((words, plain_yes)),
        GuardianPhase::Result | GuardianPhase::McpOutbound | GuardianPhase::McpInbound
            if plain_yes || decision.source == DecisionSource::Unguarded =>
        {
            None
        }
        // Before the first step.
        GuardianPhase::Trigger | GuardianPhase::Memory => None,
        GuardianPhase::Result => Some((format!("result {words}"), false)),
        GuardianPhase::McpOutbound => Some((format!("MCP message {words}"), false)),
        GuardianPhase::McpInbound => Some((format!("MCP response {words}"), false)),
    }
}

/// Formats a duration: `120 ms`, `3.2 s`, `2 min 5 s`.
fn duration(milliseconds: u64) -> String {
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000..60_000 => format!("{}.{} s", milliseconds / 1_000, milliseconds % 1_000 / 100),
        _ => format!("{} min {} s", milliseconds / 60_000, milliseconds / 1_000 % 60),
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests;
