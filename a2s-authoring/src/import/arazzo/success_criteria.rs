//! Success criteria. A step checks the status anyway; other criteria become conditions.

use a2s::Condition;
use serde_json::{Map, Value, json};

/// A criterion of a step or an action.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SuccessCriterion {
    /// The criterion depends only on the status: the statuses that meet it.
    Status(Vec<u16>),
    /// The criterion depends on other values: a condition in CEL.
    Condition(String),
    /// The import does not support the criterion: the reason.
    Other(String),
}

/// Reads a criterion. `reference` returns the reference for an expression.
pub(super) fn read(
    raw: &Value,
    mut reference: impl FnMut(&str) -> Result<String, String>,
) -> SuccessCriterion {
    let text = |key: &str| raw.get(key).and_then(Value::as_str).unwrap_or_default();
    let kind = match raw.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(other) => other.get("type").and_then(Value::as_str).unwrap_or_default(),
        None => "simple",
    };
    let condition = text("condition").trim();
    if kind == "regex" && text("context") == "$statusCode" {
        let cel = format!("string(${{status}}).matches({})", quoted(condition));
        return statuses_of_condition(&cel).map_or_else(
            || SuccessCriterion::Other("its pattern is not supported".to_owned()),
            SuccessCriterion::Status,
        );
    }
    if kind == "simple" && reads_only_status(condition) {
        let cel = to_cel(condition, |_| Ok("status".to_owned()));
        let statuses = cel.ok().and_then(|cel| statuses_of_condition(&cel));
        return match statuses {
            Some(statuses) => SuccessCriterion::Status(statuses),
            None => SuccessCriterion::Other("it is not a condition".to_owned()),
        };
    }
    let cel = match kind {
        "simple" => to_cel(condition, reference),
        "regex" => reference(text("context"))
            .map(|context| format!("string(${{{context}}}).matches({})", quoted(condition))),
        other => Err(format!("conditions of the type `{other}` are not supported")),
    };
    match cel.and_then(|cel| Condition::parse(&cel).map(|_| cel)) {
        Ok(cel) => SuccessCriterion::Condition(cel),
        Err(reason) => SuccessCriterion::Other(reason),
    }
}

/// Returns true when a condition depends only on the status.
fn reads_only_status(condition: &str) -> bool {
    condition.contains("$statusCode") && !condition.replace("$statusCode", "").contains('$')
}

/// Returns the statuses from 200 to 599 that meet a condition on `${status}`.
fn statuses_of_condition(cel: &str) -> Option<Vec<u16>> {
    if let Some(statuses) = statuses_of_comparison(cel) {
        return Some(statuses);
    }
    let condition = Condition::parse(cel).ok()?;
    let mut met = Vec::new();
    for status in 200..600 {
        let mut variables = Map::new();
        variables.insert("status".to_owned(), json!(status));
        if condition.evaluate(&variables).ok()? {
            met.push(status);
        }
    }
    Some(met)
}

/// Returns the statuses from 200 to 599 that meet a single comparison with a number. Most conditions have
/// this form.
fn statuses_of_comparison(cel: &str) -> Option<Vec<u16>> {
    let rest = cel.strip_prefix("${status}")?.trim_start();
    let (operator, number) = rest.split_at(rest.find(|c: char| !"=<>!".contains(c))?);
    let number: u16 = number.trim().parse().ok()?;
    let met = |status: &u16| match operator {
        "==" => Some(*status == number),
        "!=" => Some(*status != number),
        "<" => Some(*status < number),
        "<=" => Some(*status <= number),
        ">" => Some(*status > number),
        ">=" => Some(*status >= number),
        _ => None,
    };
    met(&0)?;
    Some((200..600).filter(|status| met(status) == Some(true)).collect())
}

/// Converts a simple condition to CEL: the operators are the same, but strings have other quotes.
fn to_cel(
    condition: &str,
    mut reference: impl FnMut(&str) -> Result<String, String>,
) -> Result<String, String> {
    let mut cel = String::new();
    let mut rest = condition;
    while let Some(first) = rest.chars().next() {
        if first == '$' {
            let end = rest.find(|c: char| c.is_whitespace() || "=<>!&|()'\"".contains(c));
            let (expression, after) = rest.split_at(end.unwrap_or(rest.len()));
            let inner = reference(expression)?;
            cel.extend(["${", &inner, "}"]);
            rest = after;
        } else if first == '\'' || first == '"' {
            let (text, after) =
                parse_string(&rest[1..], first).ok_or("it contains an unclosed text")?;
            cel += &quoted(&text);
            rest = after;
        } else if first.is_ascii_alphabetic() {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            if !matches!(word, "true" | "false" | "null") {
                return Err(format!("it contains the unsupported word `{word}`"));
            }
            cel += word;
            rest = after;
        } else if first.is_ascii_digit() || first.is_whitespace() || "=<>!&|().-".contains(first) {
            cel.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            return Err(format!("it contains the unsupported character `{first}`"));
        }
    }
    Ok(cel)
}

/// The text before its closing quote, and the rest after it. A doubled quote is a quote inside the text.
fn parse_string(text: &str, quote: char) -> Option<(String, &str)> {
    let mut inside = String::new();
    let mut rest = text;
    loop {
        let at = rest.find(quote)?;
        inside += &rest[..at];
        rest = &rest[at + 1..];
        match rest.strip_prefix(quote) {
            Some(after) => {
                inside.push(quote);
                rest = after;
            }
            None => return Some((inside, rest)),
        }
    }
}

/// Returns a CEL string. The function escapes `$`, because a condition must not contain `${` in a string.
fn quoted(text: &str) -> String {
    let mut quoted = "'".to_owned();
    for c in text.chars() {
        match c {
            '\'' | '\\' => quoted.extend(['\\', c]),
            '$' => quoted += "\\u0024",
            '\n' => quoted += "\\n",
            c if c.is_control() => {}
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(condition: &str) -> SuccessCriterion {
        super::read(&json!({ "condition": condition }), |text| match text {
            "$response.body#/state" => Ok("a.state".to_owned()),
            other => Err(format!("{other} is unknown")),
        })
    }

    #[test]
    fn statuses_are_counted_out() {
        assert_eq!(read("$statusCode == 200"), SuccessCriterion::Status(vec![200]));
        assert_eq!(read("$statusCode >= 598"), SuccessCriterion::Status(vec![598, 599]));
        let either = read("($statusCode == 201) || $statusCode==204");
        assert_eq!(either, SuccessCriterion::Status(vec![201, 204]));
        let regex = json!({"context": "$statusCode", "type": "regex", "condition": "^42.$"});
        let statuses = super::read(&regex, |_| Err(String::new()));
        assert_eq!(statuses, SuccessCriterion::Status((420..430).collect()));
    }

    #[test]
    fn other_values_become_conditions() {
        let condition = |text: &str| SuccessCriterion::Condition(text.to_owned());
        assert_eq!(
            read("$response.body#/state == 'it''s $ok' && true"),
            condition("${a.state} == 'it\\'s \\u0024ok' && true")
        );
        for other in [
            "$response.body#/other == 1",
            "$statusCode == ok",
            "len($response.body#/state)",
            "'open",
        ] {
            assert!(matches!(read(other), SuccessCriterion::Other(_)), "{other}");
        }
    }
}
