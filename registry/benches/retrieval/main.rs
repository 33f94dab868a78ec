//! How well intents find capabilities, on sets of queries with known answers.
//!
//! ```text
//! export A2S_TEST_DATA=FOLDER                  # one folder per set
//! cargo bench --bench retrieval                # recall, NDCG and MRR of each method
//! cargo bench --bench retrieval -- misfits     # "nothing fits", right and wrong
//! cargo bench --bench retrieval -- labels      # the same by labels of foreign queries
//! cargo bench --bench retrieval -- examples    # what example intents are worth
//! cargo bench --bench retrieval -- learning    # what accepted intents are worth
//! cargo bench --bench retrieval -- calibrate   # the model of the score, and its calibration
//! ```
//!
//! `-- misfits figures` measures both. `--json` prints one JSON document instead of tables, `--sets a,b`
//! takes some sets only, `--fast` measures without the sentence encoder. What is
//! measured is the code that the registry runs: index text, vectors, keywords, clauses, fusion and
//! verdict; the index is the exact scan of `registry::retrieval`, which a test holds to the engine.
//!
//! Constants are chosen on the tuning sets alone.

#![expect(clippy::unwrap_used, reason = "a bench that cannot read its sets has to fail")]
#![expect(clippy::print_stdout, reason = "the tables are what a bench is for")]

mod calibrate;
mod examples;
mod figures;
mod labels;
mod learning;
mod method;
mod model;
mod off_topic_queries;
mod set;

use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::model::Model;
use crate::set::{TEST, TUNING};

const HELP: &str = "\
A2S_TEST_DATA names no folder, so there is nothing to measure.
It should hold one folder per set, such as `toole`, and in each
  tools.jsonl     {\"group\", \"namespace\", \"name\", \"description_200\", \"parameters\": [{\"name\", \"description\"}]}
  queries.jsonl   {\"query\", \"gold\": [group]}
  examples.jsonl  {\"group\", \"intents\": [text]}, for `-- examples`
docs/search.md says where the sets come from.";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let Some(folder) = std::env::var_os("A2S_TEST_DATA").map(PathBuf::from) else {
        // Nothing to measure is no failure: `cargo bench` runs every bench.
        return println!("{HELP}");
    };
    let behind = |flag: &str| arguments.iter().skip_while(|argument| *argument != flag).nth(1);
    let wanted = behind("--sets");
    let wanted: Option<Vec<&str>> = wanted.map(|list| list.split(',').collect());
    let is_wanted = |name: &&str| wanted.as_ref().is_none_or(|wanted| wanted.contains(name));
    let tuning: Vec<_> = TUNING.into_iter().filter(is_wanted).collect();
    let test: Vec<_> = TEST.into_iter().filter(is_wanted).collect();
    let model = Model::new(has("--fast"));
    let all = [tuning.clone(), test.clone()].concat();
    let mut found = Map::new();
    let mut measured = 0;
    let mut measure = |name: &str, of: &dyn Fn() -> Value| {
        if has(name) || name == "figures" && measured == 0 {
            measured += 1;
            found.extend(of().as_object().cloned().unwrap_or_default());
        }
    };
    measure("calibrate", &|| calibrate::measure(&model, &folder, &tuning, &test));
    measure("misfits", &|| off_topic_queries::measure(&model, &folder, &tuning, &test));
    measure("labels", &|| labels::measure(&model, &folder, &all));
    measure("examples", &|| examples::measure(&model, &folder, &all));
    measure("learning", &|| learning::measure(&model, &folder, &all));
    // Without a word, these.
    measure("figures", &|| figures::measure(&model, &folder, &all));
    let found = Value::from(found);
    if has("--json") {
        println!("{found:#}");
    } else {
        print_tables(&found);
    }
}

/// Prints each member as a table: a list of objects with the same fields.
fn print_tables(found: &Value) {
    for (title, rows) in found.as_object().unwrap() {
        println!("\n## {title}\n");
        let rows: Vec<_> =
            rows.as_array().unwrap().iter().map(|r| r.as_object().unwrap()).collect();
        let Some(first) = rows.first() else { continue };
        let line = |cells: Vec<String>| println!("| {} |", cells.join(" | "));
        line(first.keys().cloned().collect());
        line(first.keys().map(|_| "---".to_owned()).collect());
        for row in rows {
            line(row.values().map(to_cell).collect());
        }
    }
}

fn to_cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(ends) => ends.iter().map(to_cell).collect::<Vec<_>>().join(" to "),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
