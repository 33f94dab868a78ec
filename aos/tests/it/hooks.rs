//! The examples of the published page of hooks, as printed there but for what is no JSON.

use aos::message::{Decision, DecisionResponse, Limits, Method, Request, Response, ResponseBody};
use serde_json::Value;

use crate::schema::{REPAIRED, assert_valid, validator};

const PAGE: &str = include_str!("../schema/hooks.md");

/// The blocks of the page that are marked as JSON, mended.
fn examples() -> Vec<String> {
    let mut blocks = Vec::new();
    let mut rest = PAGE;
    while let Some((_, after)) = rest.split_once("```json") {
        let (block, after) = after.split_once("```").unwrap();
        blocks.push(mend(block));
        rest = after;
    }
    blocks
}

/// Takes out commas before a closing bracket, and writes line breaks in strings as JSON does.
fn mend(block: &str) -> String {
    let mut mended = String::new();
    let (mut in_string, mut is_escaped) = (false, false);
    for c in block.chars() {
        match c {
            '\n' if in_string => mended.push_str("\\n"),
            '}' | ']' if !in_string => {
                let kept = mended.trim_end().trim_end_matches(',').len();
                mended.truncate(kept);
                mended.push(c);
            }
            _ => mended.push(c),
        }
        in_string ^= c == '"' && !is_escaped;
        is_escaped = in_string && c == '\\' && !is_escaped;
    }
    mended
}

#[test]
fn every_example_of_the_page_fits_the_schema() {
    let (requests, responses) =
        (validator(REPAIRED, "ASOPRequest"), validator(REPAIRED, "ASOPResponse"));
    let mut methods = Vec::new();
    for example in examples() {
        let printed: Value = serde_json::from_str(&example).unwrap();
        let question = Request::from_slice(example.as_bytes(), Limits::default()).unwrap();
        assert_eq!(printed["method"], question.method().as_str());
        assert_eq!(printed["id"], question.id.to_string());
        methods.push(question.method());
        let written = question.to_vec();
        assert_valid(&requests, &written);
        assert_eq!(Request::from_slice(&written, Limits::default()).as_ref(), Ok(&question));
        // As the answer of a guardian that changes it, too.
        let modified: Value = serde_json::from_str(&example).unwrap();
        let answer = serde_json::json!({"jsonrpc": "2.0", "id": printed["id"], "result": {
            "decision": "modify", "message": "", "modifiedRequest": modified
        }});
        let answer = Response::from_slice(answer.to_string().as_bytes(), Limits::default());
        let answer = answer.unwrap();
        let expected = DecisionResponse::new(Decision::Modify(Box::new(question.clone())), "");
        assert_eq!(answer.body, ResponseBody::Decision(expected));
        assert_valid(&responses, &answer.to_vec());
        assert_eq!(question.with_modification(question.clone()).as_ref(), Ok(&question));
    }
    assert_eq!(
        methods,
        [
            Method::AgentTrigger,
            Method::ToolCallRequest,
            Method::ToolCallResult,
            Method::Message,
            Method::MemoryContextRetrieval,
            Method::KnowledgeRetrieval,
            Method::MemoryStore,
            Method::Message,
            Method::Mcp,
            Method::Mcp,
        ]
    );
}
