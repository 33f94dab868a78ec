//! Capabilities and queries, made of the tools and queries of the retrieval sets.

use std::ops::RangeInclusive;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

const SETS: [&str; 5] = ["sealtools", "stabletoolbench", "bfcl", "toole", "apibank"];

/// The lengths of the queries that are measured, in word pieces: from a few words to a few clauses.
const QUERY_PIECES: RangeInclusive<usize> = 8..=40;

/// Returns about how many word pieces a text has: its words and marks, and the two ends.
fn count_pieces(text: &str) -> usize {
    let (mut count, mut is_in_word) = (2, false);
    for c in text.chars() {
        let is_of_word = c.is_alphanumeric();
        let begins = is_of_word && !is_in_word;
        let is_mark = !is_of_word && !c.is_whitespace();
        count += usize::from(begins || is_mark);
        is_in_word = is_of_word;
    }
    count
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    description_200: String,
    parameters: Vec<Parameter>,
}

#[derive(Deserialize)]
struct Parameter {
    name: String,
    #[serde(default)]
    description: Option<String>,
}

#[derive(Deserialize)]
struct Query {
    query: String,
}

pub(crate) struct Corpus {
    tools: Vec<Tool>,
    queries: Vec<String>,
}

impl Corpus {
    pub(crate) fn read(folder: &Path) -> Self {
        let retrieval = folder.join("retrieval");
        let folder = if retrieval.is_dir() { retrieval } else { folder.to_owned() };
        let (mut tools, mut queries) = (Vec::new(), Vec::new());
        for set in SETS {
            tools.extend(read_lines::<Tool>(&folder.join(set).join("tools.jsonl")));
            let of_set = read_lines::<Query>(&folder.join(set).join("queries.jsonl"));
            queries.push(of_set.into_iter().map(|query| query.query));
        }
        tools.retain(|tool| !tool.description_200.trim().is_empty());
        // One of each set in turn, so that any number of them is a mixture.
        let longest = queries.iter().map(ExactSizeIterator::len).max().unwrap();
        let queries = (0..longest)
            .flat_map(|_| queries.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>());
        let queries = queries.filter(|query| QUERY_PIECES.contains(&count_pieces(query))).collect();
        Self { tools, queries }
    }

    /// Queries, each once as long as there are enough.
    pub(crate) fn queries(&self, count: usize) -> impl Iterator<Item = &str> {
        self.queries.iter().map(String::as_str).cycle().take(count)
    }

    /// The document of a number, without its checksum. Behind the last tool, tools are told of with
    /// the words of another one, so that no two documents say the same.
    pub(crate) fn document(&self, number: usize) -> Value {
        let round = number / self.tools.len();
        let tool = &self.tools[number % self.tools.len()];
        let mut description = tool.description_200.clone();
        let mut name = to_pascal(&tool.name);
        if round > 0 {
            let other = &self.tools[(number * 7_919 + round) % self.tools.len()];
            description = format!("{description} For {}", other.description_200);
            name.push_str(&to_pascal(&other.name));
        }
        name.truncate(48);
        // Some texts have invisible characters, which documents may not have. An ellipsis comes on top.
        let description = a2s::to_single_line(&description, 199);
        let inputs: Vec<_> = tool
            .parameters
            .iter()
            .enumerate()
            .take(12)
            .map(|(index, parameter)| {
                (format!("p{index}_{}", to_pascal(&parameter.name)), parameter)
            })
            .collect();
        let parameters: Vec<_> = inputs
            .iter()
            .map(|(name, parameter)| match parameter.description.as_deref().map(str::trim) {
                None | Some("") => json!({ "name": name }),
                Some(text) => {
                    json!({ "name": name, "description": a2s::to_single_line(text, 199) })
                }
            })
            .collect();
        let query: Vec<_> = inputs
            .iter()
            .map(|(name, _)| json!({ "name": name, "in": "query", "schema": { "type": "string" } }))
            .collect();
        let mapping: Map<_, _> =
            inputs.iter().map(|(name, _)| (name.clone(), json!(format!("${{{name}}}")))).collect();
        let host = format!("s{}.example", number % 1_000);
        json!({
            "a2s": "1.0.0",
            "name": format!("{name}{number}"),
            "description": description.trim(),
            "domains": [host],
            "version": "1.0.0",
            "authors": [{ "name": "Bench" }],
            "parameters": parameters,
            "execution": {
                "type": "sequence",
                "steps": [{
                    "id": "call",
                    "format": "OpenAPI",
                    "task": {
                        "openapi": "3.0.3",
                        "info": { "title": "Bench", "version": "1" },
                        "servers": [{ "url": format!("https://{host}") }],
                        "paths": { "/call": { "get": {
                            "parameters": query,
                            "responses": { "200": { "description": "An answer" } },
                        } } },
                    },
                    "input_mapping": mapping,
                    "output_mapping": { "result": "$.result" },
                }],
            },
        })
    }
}

/// A name of letters and digits that begins with a capital letter.
fn to_pascal(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let pascal: String = words
        .map(|word| {
            let (first, rest) = word.split_at(1);
            format!("{}{rest}", first.to_ascii_uppercase())
        })
        .collect();
    match pascal.starts_with(|c: char| c.is_ascii_alphabetic()) {
        true => pascal,
        false => format!("T{pascal}"),
    }
}

fn read_lines<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
