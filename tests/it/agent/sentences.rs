//! How many sentences the agent understands on the first turn: `tests/data/sentences.yaml`, which has the
//! rule for judging.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Turn;
use crate::harness::{World, root};

#[derive(Deserialize)]
struct SentenceFile {
    sentences: Vec<Sentence>,
}

#[derive(Deserialize)]
struct Sentence {
    sentence: String,
    class: String,
    /// The inputs that the sentence gives, for each acceptable capability.
    accept: BTreeMap<String, Map<String, Value>>,
    half: Half,
    source: String,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Half {
    Tuning,
    KeptAside,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Verdict {
    Understood,
    /// The agent asks for an input, or whether to use the right capability.
    AskedFairly,
    /// Nothing fits, and the agent asks whether to use the closest capability.
    Offered,
    Wrong,
}

impl Sentence {
    fn judge(&self, turn: &Turn) -> Verdict {
        let answer = turn.answer();
        let question = &answer["question"];
        let choices = question["choices"].as_array().map_or(&[][..], Vec::as_slice);
        if self.class == "nothing" {
            return match answer["status"] == "nothing_fits" {
                true => Verdict::Understood,
                false if !choices.is_empty() => Verdict::Offered,
                false => Verdict::Wrong,
            };
        }
        let is_accepted = |choice: &Value| {
            self.accept.contains_key(choice["capability"]["name"].as_str().unwrap_or_default())
        };
        if turn.all("chosen").is_empty() {
            // "A or B?"
            let is_fair = choices.iter().any(is_accepted);
            return if is_fair { Verdict::AskedFairly } else { Verdict::Wrong };
        }
        let (name, inputs) = turn.chosen();
        let Some(expected) = self.accept.get(name) else { return Verdict::Wrong };
        if !expected.iter().all(|(input, value)| is_same(value, &inputs[input])) {
            return Verdict::Wrong;
        }
        let asks = question["fields"].as_array().is_some_and(|asked| !asked.is_empty());
        if asks || !choices.is_empty() { Verdict::AskedFairly } else { Verdict::Understood }
    }
}

fn is_same(expected: &Value, given: &Value) -> bool {
    let text = |value: &Value| -> String {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_lowercase);
        text.trim_matches(|c: char| c.is_whitespace() || "'\"“”‘’.".contains(c)).to_owned()
    };
    match (expected, given) {
        (Value::Array(all), Value::Array(given)) => {
            all.len() == given.len() && all.iter().zip(given).all(|(a, b)| is_same(a, b))
        }
        (Value::Array(any), given) => any.iter().any(|expected| is_same(expected, given)),
        _ => match (expected.as_f64(), given.as_f64()) {
            (Some(expected), Some(given)) => expected.total_cmp(&given).is_eq(),
            _ => text(expected) == text(given),
        },
    }
}

/// The minimum number of sentences of each half that are right, of the 53 that something fits, and of the 18
/// or 19 that nothing fits. A sentence that says "next year" means the year after the one of the file's header.
const MIN_RIGHT: usize = 25;
const MIN_TURNED_AWAY: usize = 14;

/// The figures of the release are in `docs/search-evaluation.md`.
#[test]
fn sentences_are_understood_or_lead_to_a_fair_question() {
    let text = std::fs::read_to_string(root().join("tests/data/sentences.yaml")).unwrap();
    let file: SentenceFile = serde_saphyr::from_str(&text).unwrap();
    // Nothing is sent anywhere.
    let mut world = World::down(&[]);
    let rule =
        "version: 1\ndefault: allow\nrules:\n  - {id: none, on: toolCallRequest, decision: deny}\n";
    let policy = world.write("policy.yaml", rule);
    world.add_flags(&["--policy", &policy]);
    world.start();
    let mut counts: BTreeMap<(Half, bool, Verdict), usize> = BTreeMap::new();
    let mut trial: BTreeMap<Verdict, usize> = BTreeMap::new();
    for sentence in &file.sentences {
        let verdict = sentence.judge(&Turn::take(&world, &sentence.sentence, &[]));
        let fits_something = sentence.class != "nothing";
        *counts.entry((sentence.half, fits_something, verdict)).or_default() += 1;
        if sentence.source.starts_with("trial") {
            *trial.entry(verdict).or_default() += 1;
        }
        // Results of the other half must not lead to a change of a rule.
        if sentence.half == Half::Tuning && verdict != Verdict::Understood {
            println!("{verdict:?}: {}", sentence.sentence);
        }
    }
    for ((half, fits_something, verdict), count) in &counts {
        println!("{half:?}, something fits: {fits_something}, {verdict:?}: {count}");
    }
    println!("the 22 sentences of the trial: {trial:?}");
    for half in [Half::Tuning, Half::KeptAside] {
        let count = |fits: bool, verdict| counts.get(&(half, fits, verdict)).copied().unwrap_or(0);
        let right = count(true, Verdict::Understood) + count(true, Verdict::AskedFairly);
        assert!(right >= MIN_RIGHT, "{half:?}: {right}");
        let turned_away = count(false, Verdict::Understood);
        assert!(turned_away >= MIN_TURNED_AWAY, "{half:?}: {turned_away}");
    }
}
