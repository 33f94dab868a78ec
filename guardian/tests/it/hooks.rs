//! The examples of the published page of hooks, as an agent that follows it would send them.

use serde_json::{Value, json};

use crate::world::World;

const PAGE: &str = include_str!("../../../aos/tests/schema/hooks.md");

/// The page has commas before closing brackets, and line breaks in strings.
fn mend(block: &str) -> String {
    let mut mended = String::new();
    let (mut in_string, mut is_escaped) = (false, false);
    for c in block.chars() {
        match c {
            '\n' if in_string => mended.push_str("\\n"),
            '}' | ']' if !in_string => {
                mended.truncate(mended.trim_end().trim_end_matches(',').len());
                mended.push(c);
            }
            _ => mended.push(c),
        }
        in_string ^= c == '"' && !is_escaped;
        is_escaped = in_string && c == '\\' && !is_escaped;
    }
    mended
}

/// The examples of the page.
pub(crate) fn examples() -> Vec<Value> {
    let blocks = PAGE.split("```json").skip(1).map(|block| block.split("```").next().unwrap());
    blocks.map(|block| serde_json::from_str(&mend(block)).unwrap()).collect()
}

#[tokio::test]
async fn every_example_of_the_page_is_judged() {
    let world = World::new(
        "
version: 1
default: allow
rules:
  - {id: accounts, decision: modify, modify: {redact: [{regex: '\\b\\d{12}\\b', replacement: '[account]'}]}}
  - {id: sms, on: toolCallRequest, when: 'inputs.phone_number.startsWith(\"+33\")', decision: deny}
",
    );
    let mut decisions = Vec::new();
    for sent in examples() {
        let body = sent.to_string().into_bytes();
        let (status, answer) = world.send("POST", "/aos", None, body).await;
        assert_eq!((status, &answer["jsonrpc"], &answer["id"]), (200, &json!("2.0"), &sent["id"]));
        decisions.push(answer["result"]["decision"].as_str().unwrap().to_owned());
        let text = answer.to_string();
        assert!(!text.contains("000123456789"), "{text}");
    }
    let [allow, deny, modify] = ["allow", "deny", "modify"].map(str::to_owned);
    assert_eq!(
        decisions,
        [
            allow.clone(),
            deny,
            allow.clone(),
            allow.clone(),
            modify.clone(),
            modify.clone(),
            modify.clone(),
            modify,
            allow.clone(),
            allow,
        ]
    );
    world.records();
}
