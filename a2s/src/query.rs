//! Output mapping: JSONPath queries (RFC 9535) over an answer.

mod evaluator_compat;
mod query_cost;

use std::fmt;

use jsonpath_rust::parser::model::{JpQuery, Segment, Selector};
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::{Queried, QueryRef, js_path_process};
use serde_json::Value;

use self::query_cost::ResponseSize;
use crate::evaluation_cost::EvaluationCost;

pub(crate) use self::query_cost::pattern_visits;

/// The maximum length of a query, in bytes.
const MAX_BYTES: usize = 1_000;
/// The maximum nesting depth of brackets in a query, because both parsers recurse.
const MAX_NESTING: usize = 16;
/// The stack that must be left for the parsers, in bytes. They recurse for each bracket, and use a third of
/// this stack in a debug build and a tenth in a release build.
const RED_ZONE: usize = 1 << 20;
/// The size of the new stack for them, in bytes, when less stack is left.
const STACK: usize = 4 << 20;
/// The maximum number of values that an evaluation returns, nested values included; 32 bytes of text count
/// as one value. The limit is twice the size of the response if that is more.
const MAX_SELECTED: usize = 4 << 20;

/// A checked JSONPath query.
#[derive(Debug, Clone)]
pub struct JsonPathQuery {
    source: String,
    evaluator: QueryEvaluator,
}

/// The evaluation method of a query.
#[derive(Debug, Clone)]
enum QueryEvaluator {
    /// Key by key: the query is singular (RFC 9535, section 2.3.5.1) and selects at most one value. A
    /// message can describe a miss in words.
    Singular(Vec<QueryKey>),
    /// Evaluation by `jsonpath-rust`.
    JsonPathRust(JpQuery),
    /// By `serde_json_path`, where `jsonpath-rust` would give another order. The second form serves to
    /// compute the cost.
    SerdeJsonPath(serde_json_path::JsonPath, JpQuery),
}

#[derive(Debug, Clone)]
enum QueryKey {
    Name(String),
    Index(i64),
}

/// The reason why a query gives nothing for a response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// A singular query selected nothing.
    #[error("`{query}` finds nothing: {there}")]
    NoMatch {
        /// The query.
        query: String,
        /// The point where the path ended, and the value there.
        there: String,
    },
    /// The response is too large for the query.
    #[error(
        "`{query}` visits too many values of this large response; select fewer values, or a single location"
    )]
    TooExpensive {
        /// The query.
        query: String,
    },
}

impl JsonPathQuery {
    /// Parses a query. Accepts only queries that both RFC 9535 and the evaluator accept.
    ///
    /// # Errors
    /// The mistake, in words.
    pub fn parse(source: &str) -> Result<Self, String> {
        if source.len() > MAX_BYTES {
            return Err(format!(
                "the query has {} bytes; at most {MAX_BYTES} are allowed",
                source.len()
            ));
        }
        if nesting(source) > MAX_NESTING {
            return Err(format!("brackets are nested more than {MAX_NESTING} deep"));
        }
        // `serde_json_path` 0.7.2 panics when the text ends inside of such an escape.
        if source.rsplit_once("\\u").is_some_and(|(_, after)| after.chars().count() < 2) {
            return Err(format!("`{source}` is not a JSONPath: it ends inside a string"));
        }
        if let Some(keys) = parse_short_keys(source) {
            let evaluator = QueryEvaluator::Singular(keys);
            return Ok(Self { source: source.to_owned(), evaluator });
        }
        stacker::maybe_grow(RED_ZONE, STACK, || {
            let strict = serde_json_path::JsonPath::parse(source);
            let strict = strict.map_err(|error| match source.get(error.position()..) {
                Some(_) if !source.starts_with('$') => {
                    format!("`{source}` is not a JSONPath: it does not start with `$`")
                }
                Some(rest) if !rest.is_empty() && error.position() > 0 => {
                    format!("`{source}` is not a JSONPath: `{rest}` cannot be parsed")
                }
                _ => format!("`{source}` is not a JSONPath"),
            })?;
            let mut parsed = parse_json_path(source).map_err(|_| {
                format!("`{source}` is valid JSONPath, but its evaluation is not supported")
            })?;
            if let Some(keys) = singular_keys(&parsed) {
                return Ok(Self {
                    source: source.to_owned(),
                    evaluator: QueryEvaluator::Singular(keys),
                });
            }
            evaluator_compat::adapt_query(&mut parsed)
                .map_err(|reason| format!("`{source}`: {reason}"))?;
            if query_cost::is_too_costly(&parsed) {
                return Err(format!("`{source}` can visit too many values; select fewer values"));
            }
            let way = if evaluator_compat::orders_by_selector(&parsed)
                && !evaluator_compat::has_filter(&parsed)
            {
                QueryEvaluator::SerdeJsonPath(strict, parsed)
            } else {
                QueryEvaluator::JsonPathRust(parsed)
            };
            Ok(Self { source: source.to_owned(), evaluator: way })
        })
    }

    /// Suggests a query for a `source` that is not a query: for `data.id` it is `$.data.id`, and for `$.a
    /// b` it is `$['a b']`.
    pub(crate) fn suggest(source: &str) -> Option<Self> {
        let names = source.strip_prefix('$').unwrap_or(source);
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let mut query = "$".to_owned();
        for name in names.strip_prefix('.').unwrap_or(names).split('.') {
            let (name, index) = name.split_at(name.find('[').unwrap_or(name.len()));
            if name.is_empty() {
                return None;
            }
            let plain = !name.starts_with(char::is_numeric) && name.chars().all(word);
            if !plain && !name.chars().all(|c| word(c) || matches!(c, ' ' | '-' | '@' | ':')) {
                return None;
            }
            let (open, close) = if plain { (".", "") } else { ("['", "']") };
            query.extend([open, name, close, index]);
        }
        Self::parse(&query).ok()
    }

    /// Returns the query as written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns true when it selects at most one value (RFC 9535, section 2.3.5.1).
    #[must_use]
    pub fn is_singular(&self) -> bool {
        matches!(self.evaluator, QueryEvaluator::Singular(_))
    }

    /// Returns the segments, in order.
    pub(crate) fn segments(&self) -> Vec<Segment> {
        let segment = |key: &QueryKey| match key {
            QueryKey::Name(name) => Segment::Selector(Selector::Name(name.clone())),
            QueryKey::Index(index) => Segment::Selector(Selector::Index(*index)),
        };
        match &self.evaluator {
            QueryEvaluator::Singular(keys) => keys.iter().map(segment).collect(),
            QueryEvaluator::JsonPathRust(parsed) | QueryEvaluator::SerdeJsonPath(_, parsed) => {
                parsed.segments.clone()
            }
        }
    }

    /// Returns the value of a singular query, or an array of the values that another query selects.
    ///
    /// # Errors
    /// Fails when a singular query selects nothing, or when the response is too large for the query.
    pub fn evaluate(&self, answer: &Value) -> Result<Value, QueryError> {
        let parsed = match &self.evaluator {
            QueryEvaluator::Singular(keys) => {
                return walk(keys, answer).cloned().map_err(|there| self.no_match(there));
            }
            QueryEvaluator::JsonPathRust(parsed) | QueryEvaluator::SerdeJsonPath(_, parsed) => {
                parsed
            }
        };
        let too_much = || QueryError::TooExpensive { query: self.source.clone() };
        if query_cost::is_too_costly_over(parsed, &ResponseSize::measure(answer)) {
            return Err(too_much());
        }
        let selected: Vec<&Value> = match &self.evaluator {
            QueryEvaluator::SerdeJsonPath(path, _) => path.query(answer).all(),
            QueryEvaluator::JsonPathRust(_) | QueryEvaluator::Singular(_) => {
                let selected: Queried<Vec<_>> = js_path_process(parsed, answer);
                let selected = selected.map_err(|error| self.no_match(error.to_string()))?;
                selected.into_iter().map(QueryRef::val).collect()
            }
        };
        let mut room = MAX_SELECTED.max(2 * weight(answer));
        for value in &selected {
            room = room.checked_sub(weight(value)).ok_or_else(too_much)?;
        }
        Ok(selected.into_iter().cloned().collect())
    }

    /// Estimates the cost of an evaluation on this response, without evaluating anything.
    #[must_use]
    pub fn evaluation_cost(&self, answer: &Value) -> EvaluationCost {
        match &self.evaluator {
            QueryEvaluator::Singular(_) => EvaluationCost::Cheap,
            QueryEvaluator::JsonPathRust(parsed) | QueryEvaluator::SerdeJsonPath(_, parsed) => {
                EvaluationCost::from_visits(query_cost::visits_over(
                    parsed,
                    &ResponseSize::measure(answer),
                ))
            }
        }
    }

    fn no_match(&self, there: String) -> QueryError {
        QueryError::NoMatch { query: self.source.clone(), there }
    }
}

/// The value that singular keys lead to; else the keys up to the point where the path ended, and the value
/// there.
fn walk<'v>(keys: &[QueryKey], answer: &'v Value) -> Result<&'v Value, String> {
    let mut value = answer;
    for (count, key) in keys.iter().enumerate() {
        let next = match (key, value) {
            (QueryKey::Name(name), Value::Object(members)) => members.get(name),
            (QueryKey::Index(index), Value::Array(items)) => {
                let back = usize::try_from(index.unsigned_abs()).ok();
                let at =
                    if *index < 0 { back.and_then(|b| items.len().checked_sub(b)) } else { back };
                at.and_then(|at| items.get(at))
            }
            _ => None,
        };
        value = next.ok_or_else(|| {
            let walked: String = keys[..count].iter().map(ToString::to_string).collect();
            format!("`${walked}` is {}", describe(value))
        })?;
    }
    Ok(value)
}

/// The number of values in a value, including itself, and one more for each 32 bytes of text.
fn weight(value: &Value) -> usize {
    let below = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len() / 32,
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, member)| name.len() / 32 + weight(member)).sum()
        }
    };
    below + 1
}

impl fmt::Display for QueryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, ".{name}"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl PartialEq for JsonPathQuery {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// Reads a query of member names and indexes in their short form: `$.days[0].text`. Most queries are of
/// this form, which both parsers accept, and they take a hundred times as long. Returns `None` for any
/// other text.
fn parse_short_keys(source: &str) -> Option<Vec<QueryKey>> {
    let mut rest = source.strip_prefix('$')?;
    let mut keys = Vec::new();
    while !rest.is_empty() {
        let (key, after) = if let Some(after) = rest.strip_prefix('.') {
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let (name, after) = after.split_at(after.find(|c| !is_word(c)).unwrap_or(after.len()));
            let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            (is_name.then(|| QueryKey::Name(name.to_owned()))?, after)
        } else {
            let (index, after) = rest.strip_prefix('[')?.split_once(']')?;
            // Up to 15 digits are within the exact integers of RFC 9535, section 2.1.
            let is_index = index == "0"
                || (index.len() <= 15
                    && index.starts_with(|c: char| matches!(c, '1'..='9'))
                    && index.bytes().all(|byte| byte.is_ascii_digit()));
            (QueryKey::Index(index.parse().ok().filter(|_| is_index)?), after)
        };
        keys.push(key);
        rest = after;
    }
    Some(keys)
}

fn singular_keys(query: &JpQuery) -> Option<Vec<QueryKey>> {
    query
        .segments
        .iter()
        .map(|segment| match segment {
            Segment::Selector(Selector::Name(name)) => Some(QueryKey::Name(name.clone())),
            Segment::Selector(Selector::Index(index)) => Some(QueryKey::Index(*index)),
            _ => None,
        })
        .collect()
}

/// Returns the maximum nesting depth of brackets and parentheses outside of quotes.
fn nesting(source: &str) -> usize {
    let (mut depth, mut deepest, mut quote, mut escaped) = (0_usize, 0, None, false);
    for c in source.chars() {
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(' | '[' | '!') => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            (None, ')' | ']') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
    }
    deepest
}

/// A value in words, without its content, to show a person why a path ended there.
pub(crate) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "a boolean".to_owned(),
        Value::Number(_) => "a number".to_owned(),
        Value::String(_) => "a string".to_owned(),
        Value::Array(items) if items.len() == 1 => "a list of 1 item".to_owned(),
        Value::Array(items) => format!("a list of {} items", items.len()),
        Value::Object(members) if members.is_empty() => "an empty object".to_owned(),
        Value::Object(members) => {
            let shown: Vec<_> = members
                .keys()
                .take(8)
                .map(|key| format!("`{}`", key.chars().take(40).collect::<String>()))
                .collect();
            let more = if members.len() > 8 { ", …" } else { "" };
            format!("an object with the members {}{more}", shown.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn evaluate(query: &str, answer: &Value) -> Result<Value, String> {
        JsonPathQuery::parse(query)?.evaluate(answer).map_err(|miss| miss.to_string())
    }

    #[test]
    fn short_queries_are_read_as_the_parsers_read_them() {
        for source in
            ["$", "$.a", "$._a1.b_C.null.length", "$[0]", "$.a[10][7].b", "$.a[999999999999999]"]
        {
            let keys = parse_short_keys(source).unwrap();
            assert!(serde_json_path::JsonPath::parse(source).is_ok(), "{source}");
            let parsed = singular_keys(&parse_json_path(source).unwrap()).unwrap();
            assert_eq!(format!("{keys:?}"), format!("{parsed:?}"), "{source}");
        }
        for source in [
            "",
            "a",
            "$a",
            "$.",
            "$.1",
            "$.a-b",
            "$.é",
            "$ .a",
            "$.a ",
            "$[01]",
            "$[-1]",
            "$[+1]",
            "$[]",
            "$[",
            "$['a']",
            "$..a",
            "$.*",
            "$[9007199254740992]",
        ] {
            assert!(parse_short_keys(source).is_none(), "{source}");
        }
    }

    #[test]
    fn a_singular_query_gives_the_value_and_others_an_array() {
        let answer = json!({"a": {"b c": [1, 2, 3]}, "n": null});
        assert_eq!(evaluate("$.a['b c'][-1]", &answer), Ok(json!(3)));
        assert_eq!(evaluate("$", &answer), Ok(answer.clone()));
        assert_eq!(evaluate("$.n", &answer), Ok(json!(null)));
        assert_eq!(evaluate("$.a['b c'][*]", &answer), Ok(json!([1, 2, 3])));
        assert_eq!(evaluate("$..[?@ > 1]", &answer), Ok(json!([2, 3])));
        assert_eq!(evaluate("$.x[*]", &answer), Ok(json!([])));
    }

    #[test]
    fn a_miss_says_where_the_way_ended() {
        let miss = evaluate("$.weather.text", &json!({"weather": {"description": "Sunny"}}));
        let expected = "`$.weather.text` finds nothing: `$.weather` is an object with the members `description`";
        assert_eq!(miss, Err(expected.to_owned()));
        assert!(evaluate("$[5]", &json!([1])).unwrap_err().contains("`$` is a list of 1 item"));
        assert!(evaluate("$[-2]", &json!([1])).is_err());
    }

    #[test]
    fn several_selectors_take_one_value_after_the_other() {
        let answer = json!({"items": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]});
        assert_eq!(evaluate("$.items[*]['id','name']", &answer), Ok(json!([1, "a", 2, "b"])));
        assert_eq!(evaluate("$..['id','name']", &answer), Ok(json!([1, "a", 2, "b"])));
        assert_eq!(evaluate("$.items['id','name']", &answer), Ok(json!([])));
    }

    #[test]
    fn nothing_counts_as_zero() {
        let answer = json!([{"tags": ["x"]}, {"tags": []}, {}, 1]);
        let check = |filter: &str, expected: Value| {
            assert_eq!(evaluate(&format!("$[?{filter}]"), &answer), Ok(expected), "{filter}");
        };
        check("count(@.tags[*]) == 0", json!([{"tags": []}, {}, 1]));
        check("count(@.tags[*]) < 1", json!([{"tags": []}, {}, 1]));
        check("1 > count(@.tags[*])", json!([{"tags": []}, {}, 1]));
        check("count(@.tags[*]) != 0", json!([{"tags": ["x"]}]));
        check("count(@.tags[*]) == 1", json!([{"tags": ["x"]}]));
        check("!(count(@.tags[*]) == 0)", json!([{"tags": ["x"]}]));
        check("count(@.tags[*]) == count(@.other)", json!([{"tags": []}, {}, 1]));
        check("count(@.tags[*]) == @.absent", json!([]));
        check("count(@.tags[*]) == 0 && @.tags", json!([{"tags": []}]));
    }

    #[test]
    fn a_query_that_costs_too_much_is_refused_before_it_begins() {
        // Each of these would select or visit a value over and over again.
        for bomb in ["[0,0]".repeat(60), "[*,*,*]".repeat(100), "..*".repeat(12)] {
            assert!(JsonPathQuery::parse(&format!("${bomb}")).is_err(), "{bomb}");
        }
        let too_much = |query: &str, answer: &Value| {
            let query = JsonPathQuery::parse(query).unwrap();
            matches!(query.evaluate(answer), Err(QueryError::TooExpensive { .. }))
        };
        let long = json!({ "k".repeat(500_000): vec![0; 2_000] });
        assert!(too_much("$.*[*]", &long), "each path to a value has the key in it");
        assert!(!too_much("$.k[*]", &json!({"k": vec![0; 2_000]})));
        let many = json!(vec![1; 20_000]);
        assert!(too_much("$[?count($[*]) > 1]", &many));
        assert!(too_much("$[?$ == $]", &many));
        assert!(too_much("$[?match(@, $[0])]", &many), "each pattern is compiled anew");
        assert!(too_much("$[?match(@, '(a{99}){99}')]", &many));
        let text = json!({"text": "x".repeat(1 << 20), "items": vec![1; 20_000]});
        assert!(too_much("$.items[?length($.text) > @]", &text));
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!({"a": deep, "b": ["x".repeat(50_000)]});
        }
        assert!(too_much("$..a", &deep), "each value stands inside of the one before");
    }

    #[test]
    fn ordinary_questions_over_large_answers_are_answered() {
        let item =
            |id| json!({"id": id, "zip": "12345", "tags": ["a", "b"], "at": {"x": 1, "y": 2}});
        let answer = json!({"items": (0..5_000).map(item).collect::<Vec<_>>(), "chosen": 7});
        for (query, found) in [
            ("$.items[*].id", 5_000),
            ("$.items[*]['id','zip']", 10_000),
            ("$.items[?@.zip == '12345'].at.x", 5_000),
            ("$.items[?match(@.zip, '[0-9]{5}')].id", 5_000),
            ("$.items[?@.id == $.chosen]", 1),
            ("$.items[?@.tags[?@ == 'a']].id", 5_000),
            ("$.items[-3:].id", 3),
            ("$..zip", 5_000),
        ] {
            let selected = evaluate(query, &answer).unwrap();
            assert_eq!(selected.as_array().unwrap().len(), found, "{query}");
        }
    }

    #[test]
    fn what_is_no_rfc_9535_query_is_refused_and_bombs_are_too() {
        for bad in ["", "data", "$.", "$[", "$.a b", "$.a[", "$[?]", "$.a\u{0}", " $", "$[?@[?@]]"]
        {
            assert!(JsonPathQuery::parse(bad).is_err(), "{bad:?}");
        }
        for escape in
            ["\\u", "\\uD", "\\ud8", "\\uD83D\\u", "\\uD83D\\uD", "\\uD83D\\uDE", "\\u1", "\\u00e"]
        {
            for start in ["$['", "$[\"", "$[?@ == '", "$[?match(@, \"a"] {
                let cut_off = format!("{start}{escape}");
                assert!(JsonPathQuery::parse(&cut_off).is_err(), "{cut_off}");
                assert!(JsonPathQuery::parse(&(cut_off + "'")).is_err());
            }
        }
        assert!(
            JsonPathQuery::parse(&format!("$[?{}@{}]", "(".repeat(400), ")".repeat(400))).is_err()
        );
        assert!(JsonPathQuery::parse(&format!("$[?{}@.a]", "!".repeat(900))).is_err());
        assert!(JsonPathQuery::parse(&format!("${}", ".a".repeat(499))).is_ok());
    }
}
