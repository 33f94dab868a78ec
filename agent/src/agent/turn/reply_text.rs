//! The texts of responses that no language model writes. Pure.

use a2s::InputField;
use a2s::to_single_line;
use a2s_api::{
    AgentAction, AgentCandidate, AgentDelegation, AgentQuestion, AgentRun, CapabilityRef, NearMiss,
    RunApproval, SkippedCandidate,
};
use a2s_intent::small_talk::SmallTalk;
use serde_json::Value;

use super::execute_candidate::PreparedRun;
use crate::compose::{ChainProposal, ProposalLink};

/// The maximum length of a text from a service in a response, in characters.
const MAX_TEXT: usize = 400;
/// The most parts of a result that are reported: members of an object, items of a list, levels.
const MAX_MEMBERS: usize = 20;
const MAX_ITEMS: usize = 10;
const MAX_DEPTH: usize = 4;

/// The response to a message that asks for nothing.
pub(super) fn small_talk(talk: SmallTalk) -> &'static str {
    match talk {
        SmallTalk::Help | SmallTalk::Abilities => {
            "I find published capabilities and run them. Say what you want in your own words, for \
             example \"tell me a joke\". I show what I understood, ask for missing inputs, and ask \
             before I run anything that may change something. `a2s services` lists the services \
             that I can use."
        }
        SmallTalk::Thanks => "You are welcome.",
        SmallTalk::Greeting => "Hello. What would you like to do?",
        SmallTalk::Cancel => "Nothing is running.",
    }
}

/// The results, run by run.
pub(super) fn describe_runs(runs: &[AgentRun]) -> String {
    let mut lines = Vec::new();
    for run in runs {
        lines.push(format!("{} is done.", run.capability.name));
        if let Some(output) = &run.output {
            lines.extend(value_lines(output, 0).into_iter().map(|line| format!("  {line}")));
        }
    }
    lines.join("\n")
}

/// Formats a value, with a line for each of its parts.
fn value_lines(value: &Value, depth: usize) -> Vec<String> {
    match value {
        Value::Object(members) if depth < MAX_DEPTH && !members.is_empty() => {
            let mut lines = Vec::new();
            for (name, value) in members.iter().take(MAX_MEMBERS) {
                let name = to_single_line(name, MAX_TEXT);
                let inner = value_lines(value, depth + 1);
                match value {
                    Value::Array(items) if has_own_lines(value, depth + 1) => {
                        lines.push(format!("{name}: {}", count(items.len())));
                        lines.extend(inner.into_iter().map(|line| format!("  {line}")));
                    }
                    Value::Object(_) if has_own_lines(value, depth + 1) => {
                        lines.push(format!("{name}:"));
                        lines.extend(inner.into_iter().map(|line| format!("  {line}")));
                    }
                    _ => lines.push(format!("{name}: {}", inner.concat())),
                }
            }
            lines.extend(remainder_line(members.len(), MAX_MEMBERS));
            lines
        }
        Value::Array(items) if depth < MAX_DEPTH && !items.is_empty() => {
            let mut lines = Vec::new();
            for item in items.iter().take(MAX_ITEMS) {
                let inner = value_lines(item, depth + 1).into_iter().enumerate();
                lines.extend(inner.map(|(at, line)| match at {
                    0 => format!("- {line}"),
                    _ => format!("  {line}"),
                }));
            }
            lines.extend(remainder_line(items.len(), MAX_ITEMS));
            lines
        }
        Value::String(text) => vec![to_single_line(text, MAX_TEXT)],
        other => vec![to_single_line(&other.to_string(), MAX_TEXT)],
    }
}

/// Returns true when the parts of a value have lines of their own.
fn has_own_lines(value: &Value, depth: usize) -> bool {
    let parts = match value {
        Value::Object(members) => members.len(),
        Value::Array(items) => items.len(),
        _ => 0,
    };
    depth < MAX_DEPTH && parts > 0
}

fn remainder_line(of: usize, shown: usize) -> Option<String> {
    (of > shown).then(|| format!("… and {} more", of - shown))
}

fn count(items: usize) -> String {
    match items {
        1 => "1 item".to_owned(),
        more => format!("{more} items"),
    }
}

/// The text of a question.
pub(super) fn question(question: &AgentQuestion) -> String {
    let name = question.pending.capability.as_ref().map_or("It", |pin| pin.name.as_str());
    match question.fields.as_slice() {
        [field] => {
            format!(
                "Which value should I use for `{}`? {name} requires it{} Say no to stop.",
                field.name,
                describe_field(field)
            )
        }
        fields => {
            let each =
                fields.iter().map(|field| format!("- `{}`{}", field.name, describe_field(field)));
            format!("{name} requires more values:\n{}", each.collect::<Vec<_>>().join("\n"))
        }
    }
}

/// The meaning of an input, its possible values, and how to give it.
fn describe_field(field: &InputField) -> String {
    let description = field.description.as_ref().map(|description| {
        format!(": {}", to_single_line(description, MAX_TEXT).trim_end_matches('.'))
    });
    let choices = field.schema.get("enum").and_then(Value::as_array).map(|choices| {
        let choices: Vec<_> = choices.iter().take(MAX_ITEMS).map(ToString::to_string).collect();
        format!(" (one of {})", to_single_line(&choices.join(", "), MAX_TEXT))
    });
    let secret = field.secret.then_some(" (a secret: give it as an input, not in a message)");
    let parts = [description.as_deref(), choices.as_deref(), secret, Some(".")];
    parts.into_iter().flatten().collect()
}

/// The question for a weak match.
pub(super) const WEAK_MATCH_QUESTION: &str = "Shall I use it? [y/N]";

/// Adds the descriptions of weak matches to the beginning of a question.
pub(super) fn prepend_offers(offers: &[AgentCandidate], question: String) -> String {
    let lines = offers.iter().map(|offer| {
        let CapabilityRef { name, version, .. } = &offer.capability;
        let description = to_single_line(&offer.description, MAX_TEXT);
        format!("Nothing matches well. The closest is {name} {version}: {description}")
    });
    lines.chain([question]).collect::<Vec<_>>().join("\n")
}

/// Asks which of several capabilities to use.
pub(super) fn choice(choices: &[AgentCandidate]) -> String {
    let lines = choices.iter().zip(1..).map(|(choice, number)| {
        let CapabilityRef { name, version, .. } = &choice.capability;
        let description = to_single_line(&choice.description, MAX_TEXT);
        format!("{number}. {name} {version}: {description}")
    });
    let first = "Several capabilities match equally. Which one shall I use?".to_owned();
    std::iter::once(first).chain(lines).collect::<Vec<_>>().join("\n")
}

/// Asks whether another candidate may be used, with more effects than the intended one.
pub(super) fn consent(skipped: &[SkippedCandidate], prepared: &PreparedRun) -> String {
    let name = &prepared.pin().name;
    let hosts: Vec<_> = prepared.effects.hosts.iter().map(String::as_str).collect();
    let mut lines = vec!["The best match could not be used:".to_owned()];
    lines.extend(skipped.iter().map(describe_skipped));
    lines.push(format!(
        "Shall I use {name} instead? It may change something at {}.",
        to_single_line(&hosts.join(", "), MAX_TEXT)
    ));
    lines.join("\n")
}

/// Asks the user to confirm actions: shows their requests, hosts and inputs.
pub(super) fn actions(actions: &[AgentAction]) -> String {
    let mut lines = vec!["This may change something:".to_owned()];
    for action in actions.iter().take(MAX_ITEMS) {
        let CapabilityRef { name, version, .. } = &action.capability;
        let description = to_single_line(&action.description, MAX_TEXT);
        lines.push(format!("- {name} {version}: {description}"));
        let requests = action.requests.iter().take(MAX_ITEMS);
        lines.extend(requests.map(|request| format!("  {}", to_single_line(request, MAX_TEXT))));
        lines.extend(
            remainder_line(action.requests.len(), MAX_ITEMS).map(|rest| format!("  {rest}")),
        );
        let inputs = action.inputs.iter().take(MAX_MEMBERS).map(|(name, value)| {
            let value = to_single_line(&value.to_string(), MAX_TEXT);
            format!("  {} = {value}", to_single_line(name, MAX_TEXT))
        });
        lines.extend(inputs);
        lines.extend(
            remainder_line(action.inputs.len(), MAX_MEMBERS).map(|rest| format!("  {rest}")),
        );
    }
    lines.extend(remainder_line(actions.len(), MAX_ITEMS));
    lines.push("Shall I do it? [y/N]".to_owned());
    lines.join("\n")
}

/// Asks the user to confirm a request to another agent: shows its text and its address.
pub(super) fn delegation(delegation: &AgentDelegation) -> String {
    let AgentDelegation { agent, url, skill, message } = delegation;
    let line = |text: &str| to_single_line(text, MAX_TEXT);
    let (agent, url, skill) = (line(agent), line(url), line(skill));
    format!(
        "No published capability matches this. Another agent offers it: {agent} at {url}, \
         with its skill {skill}. It may change something.\n  message to send: {}\n\
         Shall I ask it? [y/N]",
        line(message)
    )
}

/// The text of a proposal for a chain of several capabilities.
pub(super) fn proposal(proposal: &ChainProposal) -> String {
    let names: Vec<_> = proposal.capabilities.iter().map(|pin| pin.name.as_str()).collect();
    let mut lines = vec![format!(
        "No single capability does all of this, but {} together can, as {}:",
        names.join(" and "),
        proposal.name
    )];
    lines.extend(proposal.links.iter().map(|link| {
        let outputs: Vec<_> = link.outputs.iter().map(|name| format!("`{name}`")).collect();
        let ProposalLink { from, to, input, because, .. } = link;
        format!("- {} of {from} becomes `{input}` of {to}: {because}", outputs.join(" and "))
    }));
    lines.push("Shall I publish it, and run it?".to_owned());
    lines.join("\n")
}

/// Reports that no capability fits, with the nearest ones.
pub(super) fn nothing_fits(nearest: &[NearMiss], language: Option<&str>) -> String {
    let mut lines = vec!["No published capability matches this.".to_owned()];
    lines.extend(language.map(|language| {
        let language = to_single_line(language, MAX_TEXT);
        format!("It seems to be in {language}, but the search knows English: try it in English.")
    }));
    lines.extend(nearest.iter().map(|near| {
        let description = to_single_line(&near.description, MAX_TEXT);
        format!("- nearest: {} {}: {description}", near.name, near.version)
    }));
    lines.join("\n")
}

/// Describes a run that waits for a person, and the next action of that person.
pub(super) fn describe_waiting_run(run: &AgentRun) -> String {
    let name = &run.capability.name;
    if run.approvals.is_empty() {
        let mut lines = vec![format!("{name} waits for a person: run {}.", run.id)];
        let error = run.error.as_ref();
        lines.extend(error.map(|error| to_single_line(&error.message, MAX_TEXT)));
        lines.extend(error.map(|error| to_single_line(&error.hint, MAX_TEXT)));
        return lines.join("\n");
    }
    let mut lines = vec![format!("{name} waits for a person to approve it: run {}.", run.id)];
    lines.extend(run.approvals.iter().take(MAX_ITEMS).map(|approval| {
        let RunApproval { step, about, id, expires_at, .. } = approval;
        let until = expires_at.map_or_else(String::new, |at| format!(", until {at:.0}"));
        let (step, id) = (to_single_line(step, MAX_TEXT), to_single_line(id, MAX_TEXT));
        let about = about.describe();
        let about =
            about.strip_prefix(" of ").map(|about| format!(" ({about})")).unwrap_or_default();
        format!("- {step}{about}: `a2s guardian approve {id}` or `a2s guardian reject {id}`{until}")
    }));
    lines.extend(remainder_line(run.approvals.len(), MAX_ITEMS));
    lines.push("The run then continues without further action.".to_owned());
    lines.join("\n")
}

/// Describes a run that continues after it waited for a person.
pub(super) fn describe_running(run: &AgentRun) -> String {
    format!("{} continues: run {}.", run.capability.name, run.id)
}

/// Adds the chosen capabilities that have not run to a message.
pub(super) fn append_not_started(message: String, left: &[CapabilityRef]) -> String {
    let names: Vec<_> = left.iter().map(|pin| pin.name.to_string()).collect();
    match names.as_slice() {
        [] => message,
        _ => format!("{message}\nNot started: {}. Ask for it again.", names.join(", ")),
    }
}

/// The text of a failure.
pub(super) fn describe_failure(skipped: &[SkippedCandidate], ended: Option<&AgentRun>) -> String {
    let mut lines = vec![match ended {
        None => "None of the matching capabilities could be run.".to_owned(),
        Some(run) if run.error.as_ref().is_some_and(|error| error.repeat_safe) => {
            format!("{} failed, and has changed nothing.", run.capability.name)
        }
        Some(run) => format!(
            "{} failed, and may have changed something, so I tried nothing else.",
            run.capability.name
        ),
    }];
    lines.extend(skipped.iter().map(describe_skipped));
    let error = ended.and_then(|run| run.error.as_ref());
    lines.extend(error.map(|error| to_single_line(&error.hint, MAX_TEXT)));
    lines.join("\n")
}

fn describe_skipped(passed: &SkippedCandidate) -> String {
    let CapabilityRef { name, version, .. } = &passed.capability;
    let code = passed.code.as_ref().map_or_else(String::new, |code| format!(" ({code})"));
    format!("- {name} {version}: {}{code}", to_single_line(&passed.message, MAX_TEXT))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(output: &Value, expected: &[&str]) {
        assert_eq!(value_lines(output, 0), expected);
    }

    #[test]
    fn a_result_is_told_part_by_part() {
        check(&json!("Sunny"), &["Sunny"]);
        check(&json!({"weather": "Sunny", "high": 24}), &["weather: Sunny", "high: 24"]);
        check(
            &json!({"breeds": [{"name": "Beagle", "size": {"cm": 38}}, "Boxer"]}),
            &["breeds: 2 items", "  - name: Beagle", "    size:", "      cm: 38", "  - Boxer"],
        );
        check(&json!({"none": [], "nothing": {}}), &["none: []", "nothing: {}"]);
        check(&json!([[1, 2], 3]), &["- - 1", "  - 2", "- 3"]);
    }

    #[test]
    fn what_a_service_says_stays_on_its_line_and_within_bounds() {
        check(&json!({"text": "one\ntwo\u{1b}[2J"}), &["text: one two[2J"]);
        let long = value_lines(&json!((0..12).collect::<Vec<_>>()), 0);
        assert_eq!((long.len(), long[10].as_str()), (11, "… and 2 more"));
        let deep = (0..100).fold(json!("x"), |inner, _| json!({"in": inner}));
        let shown = value_lines(&deep, 0);
        assert_eq!(shown.len(), MAX_DEPTH);
        assert!(shown.iter().all(|line| line.chars().count() <= MAX_TEXT + 20), "{shown:?}");
    }
}
