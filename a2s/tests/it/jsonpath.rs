//! Output mapping against the public compliance tests of RFC 9535.

use std::collections::BTreeMap;

use a2s::{JsonPathQuery, QueryError};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::samples::{data_set, root};

/// How a case went.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// As the suite says.
    Complies,
    /// A query of the RFC is refused before anything runs.
    Refuses,
    /// Something that is no query is taken for one.
    Accepts,
    /// Another value comes out.
    Differs,
}

fn run_case(case: &Value) -> Outcome {
    let query = JsonPathQuery::parse(case["selector"].as_str().unwrap());
    if case["invalid_selector"] == true {
        return if query.is_err() { Outcome::Complies } else { Outcome::Accepts };
    }
    let Ok(query) = query else { return Outcome::Refuses };
    // The mapping gives the value of a singular query, the suite a list of one.
    let selected = match query.evaluate(&case["document"]) {
        Ok(value) if query.is_singular() => json!([value]),
        Ok(values) => values,
        Err(QueryError::NoMatch { .. }) => json!([]),
        Err(QueryError::TooExpensive { .. }) => return Outcome::Refuses,
    };
    let allowed = match case.get("results") {
        Some(several) => several.as_array().unwrap().contains(&selected),
        None => case["result"] == selected,
    };
    if allowed { Outcome::Complies } else { Outcome::Differs }
}

/// The deviations that `docs/jsonpath.md` owns up to: the first cell of each row of its first table.
fn documented_deviations() -> Vec<String> {
    let page = std::fs::read_to_string(root().join("docs/jsonpath.md")).unwrap();
    let (_, table) = page.split_once("| Case | ").expect("the page has the table of deviations");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.split('|').nth(1).unwrap().trim().trim_matches('`').to_owned()).collect()
}

#[test]
fn compliance_suite_passes_but_for_listed_deviations() {
    let Some(folder) = data_set("jsonpath-cts") else { return };
    let suite = std::fs::read_to_string(folder.join("cts.json")).unwrap();
    let suite: Value = serde_json::from_str(&suite).unwrap();
    let cases = suite["tests"].as_array().unwrap();
    assert!(cases.len() >= 703, "the suite has lost cases: {}", cases.len());
    let deviations: BTreeMap<&str, Outcome> = cases
        .iter()
        .map(|case| (case["name"].as_str().unwrap(), run_case(case)))
        .filter(|(_, outcome)| *outcome != Outcome::Complies)
        .collect();
    let found: Vec<&str> = deviations.keys().copied().collect();
    assert_eq!(found, documented_deviations(), "found {deviations:#?}, documented the others");
    let wrong = deviations.values().any(|outcome| *outcome != Outcome::Refuses);
    assert!(!wrong, "a query is refused rather than answered wrongly: {deviations:#?}");
}

/// Queries without filters, which two libraries evaluate independently.
fn any_query() -> impl Strategy<Value = String> {
    let selector = prop_oneof![
        "'[abc]'",
        "\"[abc]\"",
        (-3_i32..4).prop_map(|index| index.to_string()),
        Just("*".to_owned()),
        (prop::option::of(-3_i32..4), prop::option::of(-3_i32..4), prop::option::of(-2_i32..3))
            .prop_map(|(from, to, step)| {
                let part = |part: Option<i32>| part.map_or_else(String::new, |n| n.to_string());
                format!("{}:{}:{}", part(from), part(to), part(step))
            }),
    ];
    let selectors = prop::collection::vec(selector, 1..4).prop_map(|all| all.join(", "));
    let segment = prop_oneof![
        2 => "\\.[abc]",
        1 => Just(".*".to_owned()),
        1 => "\\.\\.[abc]",
        1 => Just("..*".to_owned()),
        2 => selectors.clone().prop_map(|selectors| format!("[{selectors}]")),
        1 => selectors.prop_map(|selectors| format!("..[{selectors}]")),
    ];
    prop::collection::vec(segment, 0..4).prop_map(|segments| format!("${}", segments.concat()))
}

fn any_answer() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..9).prop_map(Value::from)
    ];
    scalar.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abcd]", inner, 0..4)
                .prop_map(|members| members.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

proptest! {
    #[test]
    fn a_query_selects_what_another_implementation_selects(
        query in any_query(),
        answer in any_answer(),
    ) {
        // At most two `..` and few selectors stay within the budget.
        let Ok(ours) = JsonPathQuery::parse(&query) else { return Ok(()) };
        let theirs = serde_json_path::JsonPath::parse(&query).unwrap();
        let expected: Vec<Value> = theirs.query(&answer).all().into_iter().cloned().collect();
        let selected = match ours.evaluate(&answer) {
            Ok(value) if ours.is_singular() => json!([value]),
            Ok(values) => values,
            Err(QueryError::NoMatch { .. }) => json!([]),
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        prop_assert_eq!(selected, Value::from(expected), "{}", query);
    }

    #[test]
    fn no_text_makes_the_parser_of_queries_panic(
        text in prop_oneof![any::<String>(), "\\$[\\[\\]().*?@'\"$<=>!&|,: a-c0-9\\\\-]{0,60}"],
        answer in any_answer(),
    ) {
        if let Ok(query) = JsonPathQuery::parse(&text) {
            prop_assert_eq!(query.source(), &text);
            let _ = query.evaluate(&answer);
        }
    }
}
