//! Reads the arguments of a built-in tool, and says which of them does not fit.

use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use super::tool_result::ToolError;

/// The longest example in a hint, in bytes.
const MAX_EXAMPLE: usize = 300;

/// Reads the arguments of a tool.
///
/// # Errors
/// Names the argument that does not fit, with the expected type.
pub(super) fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, ToolError> {
    let arguments = Value::Object(arguments);
    serde_path_to_error::deserialize(&arguments).map_err(|error| {
        let name = error.path().iter().find_map(|segment| match segment {
            Segment::Map { key } => Some(key.as_str()),
            _ => None,
        });
        let argument = name.and_then(|name| Some((name, arguments.get(name)?)));
        let why = error.inner().to_string();
        match (argument, expected_type(&why)) {
            (Some((name, value)), Some(expected)) => mismatch_error(name, value, expected),
            _ => ToolError::for_caller(
                format!("the arguments are invalid: {why}"),
                "Give arguments that match the tool's input schema.",
            ),
        }
    })
}

/// Returns the words for the type that a value lacks, by the message of the reader.
fn expected_type(why: &str) -> Option<&str> {
    let why = why.strip_prefix("invalid type: ").or_else(|| why.strip_prefix("invalid value: "))?;
    let (_, expected) = why.rsplit_once(", expected ")?;
    Some(match expected {
        "a map" => "a JSON object",
        "a sequence" => "a list",
        "a string" => "a string",
        "a boolean" => "`true` or `false`",
        "usize" => "a whole number of at least 0",
        other => other,
    })
}

fn mismatch_error(name: &str, value: &Value, expected: &str) -> ToolError {
    let message = format!("the argument `{name}` must be {expected}, not {}", type_of(value));
    // A known fault of clients: JSON as text.
    let meant = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let hint = match meant.filter(|meant| !meant.is_string()).map(|meant| meant.to_string()) {
        Some(meant) if meant.len() <= MAX_EXAMPLE => {
            format!("Give the value itself, not its JSON text: \"{name}\": {meant}")
        }
        Some(_) => format!("Give the value of `{name}` itself, not its JSON text."),
        None => format!("Give `{name}` as the tool's input schema says."),
    };
    ToolError::for_caller(message, hint)
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a JSON object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tools::{ExecuteArgs, SearchToolArgs, VerifyArgs};

    /// Returns the message and the hint for arguments that do not fit.
    fn refused<T: DeserializeOwned>(arguments: Value) -> (String, String) {
        let Value::Object(arguments) = arguments else { panic!("no object") };
        let Err(error) = read::<T>(arguments) else { panic!("it was read") };
        let error = serde_json::to_value(error).unwrap();
        let text = |member: &str| error[member].as_str().unwrap_or_default().to_owned();
        (text("message"), text("hint"))
    }

    #[test]
    fn an_argument_that_does_not_fit_is_named_with_its_type() {
        let as_text = json!({"name": "Tool", "inputs": "{\"tags\":[1]}"});
        let (message, hint) = refused::<ExecuteArgs>(as_text);
        assert_eq!(message, "the argument `inputs` must be a JSON object, not a string");
        assert_eq!(hint, "Give the value itself, not its JSON text: \"inputs\": {\"tags\":[1]}");
        for (value, found) in
            [(json!(""), "a string"), (json!([]), "a list"), (json!(7), "a number")]
        {
            let (message, hint) = refused::<ExecuteArgs>(json!({"name": "Tool", "inputs": value}));
            assert_eq!(
                message,
                format!("the argument `inputs` must be a JSON object, not {found}")
            );
            assert_eq!(hint, "Give `inputs` as the tool's input schema says.");
        }
        let (message, hint) = refused::<SearchToolArgs>(json!({"intent": "x", "limit": "5"}));
        assert_eq!(
            message,
            "the argument `limit` must be a whole number of at least 0, not a string"
        );
        assert_eq!(hint, "Give the value itself, not its JSON text: \"limit\": 5");
        let (message, _) =
            refused::<SearchToolArgs>(json!({"intent": "x", "services": "a.example"}));
        assert_eq!(message, "the argument `services` must be a list, not a string");
        let (message, _) = refused::<VerifyArgs>(json!({"name": {"name": "Tool"}}));
        assert_eq!(message, "the argument `name` must be a string, not a JSON object");
    }

    #[test]
    fn a_missing_or_unknown_argument_is_named() {
        let (message, _) = refused::<VerifyArgs>(json!({}));
        assert_eq!(message, "the arguments are invalid: missing field `name`");
        let (message, _) = refused::<VerifyArgs>(json!({"name": "Tool", "nmae": "Tool"}));
        assert!(message.contains("unknown field `nmae`"), "{message}");
    }

    #[test]
    fn a_long_text_is_not_repeated() {
        let long = json!({"text": "x".repeat(1_000)}).to_string();
        let (message, hint) = refused::<ExecuteArgs>(json!({"name": "Tool", "inputs": long}));
        assert!(message.len() + hint.len() < 300, "{message} {hint}");
    }
}
