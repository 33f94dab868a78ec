//! Output mapping: JSONPath queries (RFC 9535) over an answer.

use jsonpath_rust::parser::model::{JpQuery, Segment, Selector};
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::{Queried, js_path_process};
use serde_json::Value;

/// The longest query, in bytes.
const MAX_BYTES: usize = 1_000;
/// The deepest nesting of brackets in a query: both parsers recurse.
const MAX_NESTING: usize = 16;
/// The most `..` segments: each may visit every value below every value of the one before.
const MAX_DESCENTS: usize = 2;
/// Stack for the parsers, which recurse per bracket.
const STACK: usize = 4 << 20;

/// A checked query.
#[derive(Debug, Clone)]
pub struct Query {
    source: String,
    parsed: JpQuery,
    /// The keys of a singular query (RFC 9535, section 2.3.5.1): it selects one value at the most.
    singular: Option<Vec<Key>>,
}

#[derive(Debug, Clone)]
enum Key {
    Name(String),
    Index(i64),
}

/// A singular query that selected nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{query}` finds nothing: {there}")]
pub struct QueryMiss {
    /// The query.
    pub query: String,
    /// Where the way ended, and what was there.
    pub there: String,
}

impl Query {
    /// Reads a query. Accepts what RFC 9535 and the evaluator both accept.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(source: &str) -> Result<Self, String> {
        if source.len() > MAX_BYTES {
            return Err(format!("the query has {} bytes; {MAX_BYTES} is the most", source.len()));
        }
        if nesting(source) > MAX_NESTING {
            return Err(format!("brackets are nested more than {MAX_NESTING} deep"));
        }
        stacker::grow(STACK, || {
            let strict = serde_json_path::JsonPath::parse(source);
            strict.map_err(|error| match source.get(error.position()..) {
                Some(_) if !source.starts_with('$') => {
                    format!("`{source}` is no JSONPath: it does not begin with `$`")
                }
                Some(rest) if !rest.is_empty() && error.position() > 0 => {
                    format!("`{source}` is no JSONPath: `{rest}` cannot be read")
                }
                _ => format!("`{source}` is no JSONPath"),
            })?;
            let parsed = parse_json_path(source).map_err(|_| {
                format!("`{source}` is valid JSONPath that cannot be evaluated here")
            })?;
            let descents = parsed.segments.iter().filter(|s| matches!(s, Segment::Descendant(_)));
            if descents.count() > MAX_DESCENTS {
                return Err(format!("a query has at most {MAX_DESCENTS} `..`"));
            }
            let singular = singular_keys(&parsed);
            Ok(Self { source: source.to_owned(), parsed, singular })
        })
    }

    /// A query that `source`, which is none, may have meant: `data.id` is `$.data.id`, and
    /// `$.a b` is `$['a b']`.
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

    /// The query as written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it selects one value at the most (RFC 9535, section 2.3.5.1).
    #[must_use]
    pub fn is_singular(&self) -> bool {
        self.singular.is_some()
    }

    /// The value of a singular query, or the array of what another query selects.
    ///
    /// # Errors
    /// When a singular query selects nothing.
    pub fn evaluate(&self, answer: &Value) -> Result<Value, QueryMiss> {
        match &self.singular {
            Some(keys) => self.walk(keys, answer).cloned(),
            None => {
                let selected: Queried<Vec<_>> = js_path_process(&self.parsed, answer);
                let selected = selected.map_err(|error| QueryMiss {
                    query: self.source.clone(),
                    there: error.to_string(),
                })?;
                Ok(selected.into_iter().map(|node| node.val().clone()).collect())
            }
        }
    }

    fn walk<'v>(&self, keys: &[Key], answer: &'v Value) -> Result<&'v Value, QueryMiss> {
        let mut value = answer;
        let mut walked = "$".to_owned();
        for key in keys {
            let next = match (key, value) {
                (Key::Name(name), Value::Object(members)) => members.get(name),
                (Key::Index(index), Value::Array(items)) => usize::try_from(*index)
                    .or_else(|_| {
                        usize::try_from(index.unsigned_abs())
                            .map(|back| items.len().checked_sub(back).unwrap_or(usize::MAX))
                    })
                    .ok()
                    .and_then(|index| items.get(index)),
                _ => None,
            };
            value = next.ok_or_else(|| QueryMiss {
                query: self.source.clone(),
                there: format!("`{walked}` is {}", describe(value)),
            })?;
            match key {
                Key::Name(name) => walked = format!("{walked}.{name}"),
                Key::Index(index) => walked = format!("{walked}[{index}]"),
            }
        }
        Ok(value)
    }
}

impl PartialEq for Query {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

fn singular_keys(query: &JpQuery) -> Option<Vec<Key>> {
    query
        .segments
        .iter()
        .map(|segment| match segment {
            Segment::Selector(Selector::Name(name)) => Some(Key::Name(name.clone())),
            Segment::Selector(Selector::Index(index)) => Some(Key::Index(*index)),
            _ => None,
        })
        .collect()
}

/// The deepest nesting of brackets and parentheses outside of quotes.
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

/// A value in words, without its content: what a person needs to see why a path ended there.
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
        Query::parse(query)?.evaluate(answer).map_err(|miss| miss.to_string())
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
    fn what_is_no_rfc_9535_query_is_refused_and_bombs_are_too() {
        for bad in ["", "data", "$.", "$[", "$.a b", "$.a[", "$[?]", "$.a\u{0}", " $"] {
            assert!(Query::parse(bad).is_err(), "{bad:?}");
        }
        assert!(Query::parse(&format!("$[?{}@{}]", "(".repeat(400), ")".repeat(400))).is_err());
        assert!(Query::parse(&format!("$[?{}@.a]", "!".repeat(900))).is_err());
        assert!(Query::parse(&format!("${}", ".a".repeat(499))).is_ok());
    }
}
