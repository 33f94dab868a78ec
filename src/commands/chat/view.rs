//! A conversation as the A2S text prints it. Pure.

use std::collections::BTreeMap;

use a2s_api::{
    AgentEvent, AgentResponse, AgentStatus, CapabilityRef, ConsentSource, DecisionRecord,
    EventSummary, GuardianDecision, GuardianPhase, PlanResponse, PlannedStep, PlannedStepKind,
    RequestChange, RunChange, RunEvent, SkippedCandidate, StepChange,
};
use serde_json::{Map, Value};

use crate::commands::run::{
    approve_command, decision_style, format_value, retry_text, warning_text,
};
use crate::output::{BAD, BOLD, DIM, GOOD, NAME, WARN, sanitize, shorten};

/// The width of the frame of a session, in columns.
const WIDTH: usize = 76;
/// The indentation of lines below the line of a speaker.
const INDENT: &str = "            ";
/// The maximum number of lines of a response.
const MAX_LINES: usize = 60;
/// The maximum number of listed steps of a plan.
const MAX_STEPS: usize = 20;

/// Returns the upper frame.
pub(super) fn frame_top() -> Vec<String> {
    let title = " A2S Chat Session ";
    let left = (WIDTH - 2 - title.len()) / 2;
    let right = WIDTH - 2 - title.len() - left;
    let hint = "Describe your task. Ctrl-C stops the current turn, Ctrl-D ends the session.";
    vec![
        format!(
            "{DIM}┌{}{DIM:#}{BOLD}{title}{BOLD:#}{DIM}{}┐{DIM:#}",
            "─".repeat(left),
            "─".repeat(right)
        ),
        format!("{DIM}{hint}{DIM:#}"),
        String::new(),
    ]
}

/// Returns the lower frame.
pub(super) fn frame_bottom() -> String {
    format!("{DIM}└{}┘{DIM:#}", "─".repeat(WIDTH - 2))
}

/// The prompt for a person. An editor counts its columns: it has no colours.
pub(super) fn prompt() -> String {
    "👤 [USER] > ".to_owned()
}

/// The line of a person's message, when the terminal has not shown it yet.
pub(super) fn user_line(message: &str) -> String {
    format!("👤 {BOLD}[USER]{BOLD:#} > {}", sanitize(message))
}

/// The view of one turn while it runs.
#[derive(Debug, Default)]
pub(super) struct ChatView {
    /// Set when the agent has written a line in this turn.
    has_spoken: bool,
    /// The lines about steps that have not ended yet, by their paths.
    steps: BTreeMap<String, Vec<String>>,
}

impl ChatView {
    /// Returns the lines that an event adds.
    pub(super) fn event_lines(&mut self, event: &AgentEvent) -> Vec<String> {
        match event {
            AgentEvent::Heard { decisions, .. } => self.decision_lines("your message", decisions),
            AgentEvent::Understood { intents, interpreter } => {
                self.intent_lines(intents, interpreter)
            }
            AgentEvent::Degraded { message } => {
                vec![self.agent_line(&format!("{WARN}[SYSTEM]{WARN:#} {}", sanitize(message)))]
            }
            AgentEvent::Found { decisions, .. } => {
                self.decision_lines("the search results", decisions)
            }
            AgentEvent::Proposed(proposal) => {
                let CapabilityRef { name, .. } = &proposal.capability;
                let mut lines = vec![
                    self.agent_line(&format!("{GOOD}[PROPOSAL]{GOOD:#} {NAME}{name}{NAME:#}:")),
                ];
                let document = proposal.document.lines();
                lines.extend(
                    document.map(|line| format!("{INDENT}{DIM}│{DIM:#} {}", sanitize(line))),
                );
                lines
            }
            AgentEvent::Chosen { description, plan, inputs } => {
                let mut lines = self.plan_lines(description, plan);
                if !inputs.is_empty() {
                    lines.push(self.agent_line("Known so far:"));
                    lines.extend(tree_lines(value_lines(inputs).collect()));
                }
                lines
            }
            AgentEvent::Running { capability, run } => {
                let CapabilityRef { name, .. } = capability;
                let text =
                    format!("{GOOD}[EXEC]{GOOD:#} Running {NAME}{name}{NAME:#} {DIM}{run}{DIM:#}");
                vec![self.agent_line(&text)]
            }
            AgentEvent::Step { event } => self.run_lines(event),
            AgentEvent::Delegated { agent, url, skill } => {
                let text = format!(
                    "{GOOD}[PEER]{GOOD:#} Asking {NAME}{}{NAME:#}, which offers {} {DIM}{}{DIM:#}",
                    sanitize(agent),
                    sanitize(skill),
                    sanitize(url)
                );
                vec![self.agent_line(&text)]
            }
            AgentEvent::Unconfirmed { consent, capabilities, delegation } => {
                let why = match consent {
                    ConsentSource::Given => "consent was given in advance (--yes)",
                    ConsentSource::Off => "the configuration turns consent off",
                };
                let names: Vec<_> = capabilities.iter().map(|pin| pin.name.to_string()).collect();
                let what = match delegation {
                    Some(delegation) => format!("asking {}", sanitize(&delegation.agent)),
                    None => format!("running {}", names.join(", ")),
                };
                let text =
                    format!("{WARN}[UNCONFIRMED]{WARN:#} {what} without your consent: {why}");
                vec![self.agent_line(&text)]
            }
            AgentEvent::CandidateSkipped(SkippedCandidate {
                capability, code, message, ..
            }) => {
                let code = code.as_ref().map_or_else(String::new, |code| format!("{code} "));
                let text = format!(
                    "{WARN}[SKIP]{WARN:#} {NAME}{}{NAME:#}: {WARN}{code}{WARN:#}{}",
                    capability.name,
                    sanitize(message)
                );
                vec![self.agent_line(&text)]
            }
            AgentEvent::Response(answer) => self.response_lines(answer),
        }
    }

    /// Returns the line about a stopped turn.
    pub(super) fn interrupted_line(&mut self) -> String {
        self.agent_line(&format!("{WARN}[STOP]{WARN:#} Stopped."))
    }

    /// Formats a line of the agent; the first line of a turn has the agent's icon.
    fn agent_line(&mut self, text: &str) -> String {
        let face = if std::mem::replace(&mut self.has_spoken, true) { "  " } else { "🤖" };
        format!("{face} {BOLD}[AGENT]{BOLD:#} > {text}")
    }

    fn intent_lines(&mut self, intents: &[String], interpreter: &str) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(parts) = intents.get(1..).filter(|parts| !parts.is_empty()) {
            let wanted = system_line("You want:");
            lines.push(self.agent_line(&format!("{wanted} {DIM}(read by {interpreter}){DIM:#}")));
            lines
                .extend(tree_lines(parts.iter().map(|part| sanitize(part).into_owned()).collect()));
        }
        lines.push(self.agent_line(&system_line("Searching for matching capabilities…")));
        lines
    }

    fn plan_lines(&mut self, description: &str, plan: &PlanResponse) -> Vec<String> {
        let CapabilityRef { name, version, checksum } = &plan.capability;
        let hosts: Vec<_> = plan.hosts.keys().map(|host| sanitize(host).into_owned()).collect();
        let mut lines = vec![self.agent_line(&format!(
            "Found capability: {NAME}{name}{NAME:#} {version}, {}",
            sanitize(description)
        ))];
        let digest = checksum.to_string();
        let mut about = vec![format!("{DIM}verified: {}{DIM:#}", shorten(&digest, 26))];
        if !hosts.is_empty() {
            about.insert(0, format!("Compatible with: {}", hosts.join(", ")));
        }
        about.extend(plan.guardians.is_empty().then(|| format!("{WARN}unguarded{WARN:#}")));
        lines.extend(tree_lines(about));
        let mut steps = Vec::new();
        list_steps(&plan.steps, &mut steps);
        lines.push(self.agent_line("Task breakdown:"));
        let more = steps.len().saturating_sub(MAX_STEPS);
        let mut listed: Vec<_> = steps
            .into_iter()
            .take(MAX_STEPS)
            .enumerate()
            .map(|(at, step)| format!("{}. {step}", at + 1))
            .collect();
        listed.extend((more > 0).then(|| format!("… and {more} more")));
        lines.extend(tree_lines(listed));
        lines
    }

    /// Returns the lines about decisions of guardians other than a plain allow.
    fn decision_lines(&mut self, what: &str, decisions: &[GuardianDecision]) -> Vec<String> {
        let texts = decisions.iter().filter(|decision| decision.decision != "allow");
        let texts: Vec<_> = texts
            .map(|decision| {
                let (name, words) = (decision.guardian.as_deref(), decision.message.as_str());
                format!(
                    "{} {what}{}",
                    format_verdict(name, &decision.decision),
                    format_reason(words)
                )
            })
            .collect();
        texts.into_iter().map(|text| self.agent_line(&text)).collect()
    }

    /// Returns the lines that an event of a run adds: the summary of a task step, when it ends.
    fn run_lines(&mut self, event: &RunEvent) -> Vec<String> {
        match event.kind.summary() {
            EventSummary::Run(
                RunChange::Started(_)
                | RunChange::Queued
                | RunChange::Resumed
                | RunChange::Waiting(_)
                | RunChange::Finished { .. },
            ) => Vec::new(),
            EventSummary::Step(step, change) => self.step_lines(step, change),
            EventSummary::Request(step, change) => {
                self.add_request_line(step, change);
                Vec::new()
            }
        }
    }

    fn step_lines(&mut self, step: &str, change: StepChange<'_>) -> Vec<String> {
        match change {
            StepChange::Decided { decision, .. } => self.add_decision_lines(step, decision),
            StepChange::Warned(warning) => self.add_step_line(step, warning_text(warning)),
            StepChange::ApprovalRequested { about, id, expires_at, .. } => {
                let command = approve_command(id, expires_at);
                let text = format!(
                    "{WARN}[APPROVAL]{WARN:#} {BOLD}{}{BOLD:#} waits for approval{}: {command}",
                    sanitize(step),
                    about.describe()
                );
                return vec![self.agent_line(&text)];
            }
            StepChange::Finished { outputs, duration_ms } => {
                let Some(mut texts) = self.steps.remove(step) else { return Vec::new() };
                texts.extend(value_lines(outputs));
                texts.push(format!("status={GOOD}SUCCESS{GOOD:#} {DIM}in {duration_ms} ms{DIM:#}"));
                return self.step_summary(step, texts);
            }
            StepChange::Failed { error, .. } => {
                let mut texts = self.steps.remove(step).unwrap_or_default();
                texts.push(format!(
                    "status={BAD}FAILED{BAD:#} {BAD}{}{BAD:#} {}",
                    error.code,
                    sanitize(&error.message)
                ));
                return self.step_summary(step, texts);
            }
            StepChange::Started { .. }
            | StepChange::BranchTaken(_)
            | StepChange::ItemsTaken(_)
            | StepChange::Skipped(_)
            | StepChange::Resolved(_)
            | StepChange::ErrorHandled(_) => {}
        }
        Vec::new()
    }

    fn add_decision_lines(&mut self, step: &str, decision: &DecisionRecord) {
        let DecisionRecord { guardian, decision: word, message, .. } = decision;
        // A plain allow after a step adds nothing to the last one.
        if word != "allow" || decision.phase == GuardianPhase::Request {
            let why = if word == "allow" { String::new() } else { format_reason(message) };
            self.add_step_line(step, format!("{}{why}", format_verdict(guardian.as_deref(), word)));
        }
        for change in &decision.changes {
            let (name, to) = (sanitize(&change.name), format_value(&change.to));
            self.add_step_line(step, format!("{name} is now {to}"));
        }
    }

    fn add_request_line(&mut self, step: &str, change: RequestChange<'_>) {
        let text = match change {
            RequestChange::Sending(request) => {
                let (method, url) = (request.method, sanitize(request.url));
                format!("→ {method} {url}{}", request.repetition())
            }
            RequestChange::Received { status, duration_ms, .. } => {
                format!("← {status} {DIM}in {duration_ms} ms{DIM:#}")
            }
            RequestChange::Retrying { reason, pause_ms, .. } => retry_text(reason, pause_ms),
            RequestChange::Throttled { .. }
            | RequestChange::Requesting { .. }
            | RequestChange::TokenRequested { .. }
            | RequestChange::SessionOpened { .. } => return,
        };
        self.add_step_line(step, text);
    }

    fn add_step_line(&mut self, step: &str, text: String) {
        self.steps.entry(step.to_owned()).or_default().push(text);
    }

    fn step_summary(&mut self, step: &str, texts: Vec<String>) -> Vec<String> {
        let mut lines =
            vec![self.agent_line(&format!("{DIM}[STEP]{DIM:#} {BOLD}{}{BOLD:#}:", sanitize(step)))];
        let last = texts.len().saturating_sub(1);
        lines.extend(texts.into_iter().enumerate().map(|(at, text)| {
            let edge = if at == last { "└" } else { "│" };
            format!("{INDENT}{DIM}{edge}{DIM:#} {text}")
        }));
        lines
    }

    fn response_lines(&mut self, answer: &AgentResponse) -> Vec<String> {
        let mut lines = self.decision_lines("my response", &answer.decisions);
        let (tag, style) = match answer.status {
            AgentStatus::Completed => ("[OUTPUT] ", GOOD),
            AgentStatus::InputRequired | AgentStatus::Cancelled => ("", BOLD),
            AgentStatus::NothingFits | AgentStatus::Waiting => ("", WARN),
            AgentStatus::Denied | AgentStatus::Failed => ("", BAD),
        };
        let mut texts = answer.message.lines();
        if let Some(first) = texts.next() {
            lines.push(self.agent_line(&format!("{style}{tag}{}{style:#}", sanitize(first))));
        }
        let more = texts.clone().count().saturating_sub(MAX_LINES);
        lines.extend(texts.take(MAX_LINES).map(|text| format!("{INDENT}{}", sanitize(text))));
        lines.extend((more > 0).then(|| format!("{INDENT}{DIM}… and {more} more lines{DIM:#}")));
        lines.push(String::new());
        lines
    }
}

fn value_lines(values: &Map<String, Value>) -> impl Iterator<Item = String> {
    values.iter().map(|(name, value)| format!("{} = {}", sanitize(name), format_value(value)))
}

fn system_line(text: &str) -> String {
    format!("{DIM}[SYSTEM]{DIM:#} {text}")
}

fn format_verdict(guardian: Option<&str>, word: &str) -> String {
    let style = decision_style(word);
    let name = guardian.map_or_else(String::new, |name| format!(" {}", sanitize(name)));
    format!("guardian{name}: {style}{word}{style:#}")
}

fn format_reason(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(" {DIM}({}){DIM:#}", sanitize(words)) }
}

/// Formats items as a tree below a line.
fn tree_lines(items: Vec<String>) -> Vec<String> {
    let last = items.len().saturating_sub(1);
    let line = |(at, item): (usize, String)| {
        let edge = if at == last { "└─" } else { "├─" };
        format!("{INDENT}{DIM}{edge}{DIM:#} {item}")
    };
    items.into_iter().enumerate().map(line).collect()
}

/// Lists the task steps of a plan, in order.
fn list_steps(steps: &[PlannedStep], listed: &mut Vec<String>) {
    for step in steps {
        if let Some(request) = step.kind.request_line() {
            listed.push(format!("{} {DIM}{}{DIM:#}", sanitize(&step.step), sanitize(&request)));
        }
        if let PlannedStepKind::Condition { condition, .. } = &step.kind {
            listed.push(format!("if {}", sanitize(condition)));
        }
        for below in step.kind.children() {
            list_steps(below, listed);
        }
    }
}
