//! A conversation as the A2S text prints it. Pure.

use std::collections::BTreeMap;

use a2s::api::{
    AgentEvent, AgentResponse, AgentStatus, CapabilityRef, Consent, Decision, Event, EventKind,
    GuardianDecision, PlanResponse, PlannedStep, PlannedStepKind, SkippedCandidate,
};

use crate::commands::run::{approve, shown};
use crate::output::{BAD, BOLD, DIM, GOOD, NAME, WARN, plain, shorten};

/// How wide the frame of a session is, in columns.
const WIDTH: usize = 76;
/// Below the speaker.
const BELOW: &str = "            ";
/// The most lines of an answer.
const MAX_LINES: usize = 60;
/// The most steps of a plan that are listed.
const MAX_STEPS: usize = 20;

/// The frame above.
pub(super) fn open() -> Vec<String> {
    let title = " A2S Chat Session ";
    let left = (WIDTH - 2 - title.len()) / 2;
    let right = WIDTH - 2 - title.len() - left;
    let hint = "Say what you want done. Ctrl-C stops what runs, Ctrl-D ends the session.";
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

/// The frame below.
pub(super) fn close() -> String {
    format!("{DIM}└{}┘{DIM:#}", "─".repeat(WIDTH - 2))
}

/// What stands before what a person writes. An editor counts its columns: it has no colours.
pub(super) fn prompt() -> String {
    "👤 [USER] > ".to_owned()
}

/// What a person has said, where they have not seen it yet.
pub(super) fn said(message: &str) -> String {
    format!("👤 {BOLD}[USER]{BOLD:#} > {}", plain(message))
}

/// One turn, as it goes.
#[derive(Debug, Default)]
pub(super) struct View {
    /// Whether the agent has said something in this turn.
    spoke: bool,
    /// What is told of steps that have not ended yet, by their paths.
    steps: BTreeMap<String, Vec<String>>,
}

impl View {
    /// What an event adds.
    pub(super) fn lines(&mut self, event: &AgentEvent) -> Vec<String> {
        match event {
            AgentEvent::Heard { decisions, .. } => self.hooks("your message", decisions),
            AgentEvent::Understood { intents, interpreter: by } => {
                let mut lines = Vec::new();
                if let Some(parts) = intents.get(1..).filter(|parts| !parts.is_empty()) {
                    lines.push(
                        self.say(&format!("{} {DIM}(read by {by}){DIM:#}", system("You want:"))),
                    );
                    lines.extend(tree(parts.iter().map(|part| plain(part).into_owned()).collect()));
                }
                lines.push(self.say(&system("Searching for matching capabilities…")));
                lines
            }
            AgentEvent::Degraded { message } => {
                vec![self.say(&format!("{WARN}[SYSTEM]{WARN:#} {}", plain(message)))]
            }
            AgentEvent::Found { decisions, .. } => self.hooks("what was found", decisions),
            AgentEvent::Proposed(proposal) => {
                let CapabilityRef { name, .. } = &proposal.capability;
                let mut lines =
                    vec![self.say(&format!("{GOOD}[PROPOSAL]{GOOD:#} {NAME}{name}{NAME:#}:"))];
                let document = proposal.document.lines();
                lines.extend(document.map(|line| format!("{BELOW}{DIM}│{DIM:#} {}", plain(line))));
                lines
            }
            AgentEvent::Chosen { description, plan, inputs } => {
                let mut lines = self.chosen(description, plan);
                if !inputs.is_empty() {
                    lines.push(self.say("Known so far:"));
                    let each = inputs.iter();
                    let each =
                        each.map(|(name, value)| format!("{} = {}", plain(name), shown(value)));
                    lines.extend(tree(each.collect()));
                }
                lines
            }
            AgentEvent::Running { capability, run } => {
                let CapabilityRef { name, .. } = capability;
                let text =
                    format!("{GOOD}[EXEC]{GOOD:#} Running {NAME}{name}{NAME:#} {DIM}{run}{DIM:#}");
                vec![self.say(&text)]
            }
            AgentEvent::Step { event } => self.step(event),
            AgentEvent::Delegated { agent, url, skill } => {
                let text = format!(
                    "{GOOD}[PEER]{GOOD:#} Asking {NAME}{}{NAME:#}, which offers {} {DIM}{}{DIM:#}",
                    plain(agent),
                    plain(skill),
                    plain(url)
                );
                vec![self.say(&text)]
            }
            AgentEvent::Unconfirmed { consent, capabilities, delegation } => {
                let why = match consent {
                    Consent::Given => "consent was given in advance (--yes)",
                    Consent::Off => "the configuration asks for no consent",
                };
                let names: Vec<_> = capabilities.iter().map(|pin| pin.name.to_string()).collect();
                let what = match delegation {
                    Some(delegation) => format!("{} is asked", plain(&delegation.agent)),
                    None => format!("{} runs", names.join(", ")),
                };
                let text = format!("{WARN}[UNCONFIRMED]{WARN:#} {what} without your yes: {why}");
                vec![self.say(&text)]
            }
            AgentEvent::CandidateSkipped(SkippedCandidate {
                capability, code, message, ..
            }) => {
                let code = code.as_ref().map_or_else(String::new, |code| format!("{code} "));
                let text = format!(
                    "{WARN}[SKIP]{WARN:#} {NAME}{}{NAME:#}: {WARN}{code}{WARN:#}{}",
                    capability.name,
                    plain(message)
                );
                vec![self.say(&text)]
            }
            AgentEvent::Response(answer) => self.answer(answer),
        }
    }

    /// That somebody stopped the turn.
    pub(super) fn interrupted(&mut self) -> String {
        self.say(&format!("{WARN}[STOP]{WARN:#} What runs is stopped."))
    }

    /// A line of the agent; the first of a turn has its face.
    fn say(&mut self, text: &str) -> String {
        let face = if std::mem::replace(&mut self.spoke, true) { "  " } else { "🤖" };
        format!("{face} {BOLD}[AGENT]{BOLD:#} > {text}")
    }

    fn chosen(&mut self, description: &str, plan: &PlanResponse) -> Vec<String> {
        let CapabilityRef { name, version, checksum } = &plan.capability;
        let hosts: Vec<_> = plan.hosts.keys().map(|host| plain(host).into_owned()).collect();
        let mut lines = vec![self.say(&format!(
            "Found capability: {NAME}{name}{NAME:#} {version}, {}",
            plain(description)
        ))];
        let digest = checksum.to_string();
        let mut about = vec![format!("{DIM}verified: {}{DIM:#}", shorten(&digest, 26))];
        if !hosts.is_empty() {
            about.insert(0, format!("Compatible with: {}", hosts.join(", ")));
        }
        about.extend(plan.guardians.is_empty().then(|| format!("{WARN}unguarded{WARN:#}")));
        lines.extend(tree(about));
        let mut steps = Vec::new();
        list_steps(&plan.steps, &mut steps);
        lines.push(self.say("Task breakdown:"));
        let more = steps.len().saturating_sub(MAX_STEPS);
        let mut listed: Vec<_> = steps
            .into_iter()
            .take(MAX_STEPS)
            .enumerate()
            .map(|(at, step)| format!("{}. {step}", at + 1))
            .collect();
        listed.extend((more > 0).then(|| format!("… and {more} more")));
        lines.extend(tree(listed));
        lines
    }

    /// What a guardian said, when it is more than a plain yes.
    fn hooks(&mut self, what: &str, decisions: &[GuardianDecision]) -> Vec<String> {
        let told = decisions.iter().filter(|decision| decision.decision != "allow");
        let told: Vec<_> = told
            .map(|decision| {
                let (name, words) = (decision.guardian.as_deref(), decision.message.as_str());
                format!("{} {what}{}", verdict(name, &decision.decision), said_why(words))
            })
            .collect();
        told.into_iter().map(|text| self.say(&text)).collect()
    }

    /// What an event of a run adds: the story of a task step, when it ends.
    fn step(&mut self, event: &Event) -> Vec<String> {
        match &event.kind {
            EventKind::Decided { step, decision, .. } => {
                let Decision { guardian, decision: word, message, .. } = decision;
                // A plain yes behind a step adds nothing to the one before it.
                if word != "allow" || decision.phase == a2s::api::GuardianPhase::Request {
                    let why = if word == "allow" { String::new() } else { said_why(message) };
                    self.note(step, format!("{}{why}", verdict(guardian.as_deref(), word)));
                }
                for change in &decision.changes {
                    let (name, to) = (plain(&change.name), shown(&change.to));
                    self.note(step, format!("{name} is now {to}"));
                }
                Vec::new()
            }
            EventKind::Sending { step, method, url, redirect: Some(number), .. } => {
                self.note(step, format!("→ {method} {} (redirect {number})", plain(url)));
                Vec::new()
            }
            EventKind::Sending { step, method, url, attempt, .. } => {
                let again =
                    if *attempt > 1 { format!(" (attempt {attempt})") } else { String::new() };
                self.note(step, format!("→ {method} {}{again}", plain(url)));
                Vec::new()
            }
            EventKind::Received { step, status, duration_ms, .. } => {
                self.note(step, format!("← {status} {DIM}in {duration_ms} ms{DIM:#}"));
                Vec::new()
            }
            EventKind::Warned { step, warning } => {
                let text = format!("{WARN}! {}{WARN:#} {}", warning.code, plain(&warning.message));
                self.note(step, text);
                Vec::new()
            }
            EventKind::Retrying { step, reason, pause_ms, .. } => {
                let text = format!("{WARN}again in {pause_ms} ms{WARN:#}: {}", plain(reason));
                self.note(step, text);
                Vec::new()
            }
            EventKind::ApprovalRequested { step, about, id, expires_at, .. } => {
                let command = approve(id, *expires_at);
                let text = format!(
                    "{WARN}[APPROVAL]{WARN:#} {BOLD}{}{BOLD:#} waits for approval{}: {command}",
                    plain(step),
                    about.words()
                );
                vec![self.say(&text)]
            }
            EventKind::StepFinished { step, outputs, duration_ms } => {
                let Some(mut told) = self.steps.remove(step) else { return Vec::new() };
                let outputs = outputs.iter();
                told.extend(
                    outputs.map(|(name, value)| format!("{} = {}", plain(name), shown(value))),
                );
                told.push(format!("status={GOOD}SUCCESS{GOOD:#} {DIM}in {duration_ms} ms{DIM:#}"));
                self.story(step, told)
            }
            EventKind::StepFailed { step, error, .. } => {
                let mut told = self.steps.remove(step).unwrap_or_default();
                told.push(format!(
                    "status={BAD}FAILED{BAD:#} {BAD}{}{BAD:#} {}",
                    error.code,
                    plain(&error.message)
                ));
                self.story(step, told)
            }
            _ => Vec::new(),
        }
    }

    fn note(&mut self, step: &str, text: String) {
        self.steps.entry(step.to_owned()).or_default().push(text);
    }

    fn story(&mut self, step: &str, told: Vec<String>) -> Vec<String> {
        let mut lines =
            vec![self.say(&format!("{DIM}[STEP]{DIM:#} {BOLD}{}{BOLD:#}:", plain(step)))];
        let last = told.len().saturating_sub(1);
        lines.extend(told.into_iter().enumerate().map(|(at, text)| {
            let edge = if at == last { "└" } else { "│" };
            format!("{BELOW}{DIM}{edge}{DIM:#} {text}")
        }));
        lines
    }

    fn answer(&mut self, answer: &AgentResponse) -> Vec<String> {
        let mut lines = self.hooks("my answer", &answer.decisions);
        let (tag, style) = match answer.status {
            AgentStatus::Completed => ("[OUTPUT] ", GOOD),
            AgentStatus::InputRequired | AgentStatus::Cancelled => ("", BOLD),
            AgentStatus::NothingFits | AgentStatus::Waiting => ("", WARN),
            AgentStatus::Denied | AgentStatus::Failed => ("", BAD),
        };
        let mut told = answer.message.lines();
        if let Some(first) = told.next() {
            lines.push(self.say(&format!("{style}{tag}{}{style:#}", plain(first))));
        }
        let more = told.clone().count().saturating_sub(MAX_LINES);
        lines.extend(told.take(MAX_LINES).map(|text| format!("{BELOW}{}", plain(text))));
        lines.extend((more > 0).then(|| format!("{BELOW}{DIM}… and {more} more lines{DIM:#}")));
        lines.push(String::new());
        lines
    }
}

fn system(text: &str) -> String {
    format!("{DIM}[SYSTEM]{DIM:#} {text}")
}

fn verdict(guardian: Option<&str>, word: &str) -> String {
    let style = match word {
        "allow" => GOOD,
        "deny" => BAD,
        _ => WARN,
    };
    let name = guardian.map_or_else(String::new, |name| format!(" {}", plain(name)));
    format!("guardian{name}: {style}{word}{style:#}")
}

fn said_why(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(" {DIM}({}){DIM:#}", plain(words)) }
}

/// Items below a line.
fn tree(items: Vec<String>) -> Vec<String> {
    let last = items.len().saturating_sub(1);
    let line = |(at, item): (usize, String)| {
        let edge = if at == last { "└─" } else { "├─" };
        format!("{BELOW}{DIM}{edge}{DIM:#} {item}")
    };
    items.into_iter().enumerate().map(line).collect()
}

/// The task steps of a plan, in order.
fn list_steps(steps: &[PlannedStep], listed: &mut Vec<String>) {
    for step in steps {
        match &step.kind {
            PlannedStepKind::Task { .. } => {
                let request = step.kind.request().unwrap_or_default();
                listed.push(format!("{} {DIM}{}{DIM:#}", plain(&step.step), plain(&request)));
            }
            PlannedStepKind::Capability { steps, .. }
            | PlannedStepKind::Sequence { steps }
            | PlannedStepKind::Parallel { steps } => list_steps(steps, listed),
            PlannedStepKind::Condition { condition, if_true, if_false } => {
                listed.push(format!("if {}", plain(condition)));
                list_steps(if_true, listed);
                list_steps(if_false, listed);
            }
        }
    }
}
