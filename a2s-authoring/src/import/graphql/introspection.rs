//! The answer to an introspection query as a schema in the schema language.

use std::fmt::Write as _;

use serde_json::Value;

use super::{ImportError, ImportWarning};
use crate::import::ref_resolver::quote_for_message;
use crate::import::spec_reader::{ApiDescription, read_description};

/// The deepest nesting of list and non-null types.
const MAX_WRAPPED: usize = 20;
/// The types that every schema has.
const BUILT_IN: [&str; 5] = ["Int", "Float", "String", "Boolean", "ID"];

/// Converts the response to an introspection query to a schema (GraphQL, October 2021, section 4). The text
/// is the whole response, a list of one response, its `data`, or only `__schema`. Also returns the remarks about the text.
pub(super) fn to_sdl(response: &str) -> Result<(String, Vec<ImportWarning>), ImportError> {
    let hint = "Use a schema in the schema language, or the response to an introspection query.";
    let ApiDescription { value, remarks } = read_description(response.as_bytes())
        .map_err(|error| ImportError::new(format!("the schema cannot be read: {error}"), hint))?;
    let locations = ["/data/__schema", "/__schema", "", "/0/data/__schema"];
    let mut schemas = locations.iter().filter_map(|location| value.pointer(location));
    let schema = schemas
        .find(|schema| schema.get("types").is_some_and(Value::is_array))
        .ok_or_else(|| ImportError::new("the JSON has no `__schema` with `types`", hint))?;
    let mut sdl = String::new();
    write_schema(schema, &mut sdl).map_err(|place| {
        ImportError::new(format!("the introspection is malformed at {place}"), hint)
    })?;
    Ok((sdl, remarks))
}

/// The location of the malformed part.
type Malformed = String;

fn write_schema(schema: &Value, sdl: &mut String) -> Result<(), Malformed> {
    let mut roots = Vec::new();
    for (key, word) in
        [("queryType", "query"), ("mutationType", "mutation"), ("subscriptionType", "subscription")]
    {
        if let Some(root) = schema.get(key).filter(|root| !root.is_null()) {
            roots.push(format!("{word}: {}", name(root, key)?));
        }
    }
    line(sdl, format_args!("schema {{ {} }}", roots.join(" ")));
    for kind in items(schema, "types") {
        let name = name(kind, "types")?;
        if !name.starts_with("__") && !BUILT_IN.contains(&name) {
            write_type(kind, name, sdl)?;
        }
    }
    Ok(())
}

fn write_type(kind: &Value, name: &str, sdl: &mut String) -> Result<(), Malformed> {
    describe(kind, sdl);
    match kind.get("kind").and_then(Value::as_str).unwrap_or_default() {
        "SCALAR" => line(sdl, format_args!("scalar {name}")),
        word @ ("OBJECT" | "INTERFACE") => {
            let word = if word == "OBJECT" { "type" } else { "interface" };
            let above: Vec<&str> = items(kind, "interfaces")
                .map(|interface| self::name(interface, name))
                .collect::<Result<_, _>>()?;
            let above = match above.is_empty() {
                true => String::new(),
                false => format!(" implements {}", above.join(" & ")),
            };
            line(sdl, format_args!("{word} {name}{above} {{"));
            for field in items(kind, "fields") {
                describe(field, sdl);
                let field_name = self::name(field, name)?;
                let arguments = arguments(field, "args", field_name)?;
                let arguments = match arguments.is_empty() {
                    true => String::new(),
                    false => format!("({})", arguments.join("\n")),
                };
                let kind = type_of(field.get("type"), field_name)?;
                let is_deprecated = is_set(field, "isDeprecated");
                let directive = if is_deprecated { " @deprecated" } else { "" };
                line(sdl, format_args!("{field_name}{arguments}: {kind}{directive}"));
            }
            line(sdl, format_args!("}}"));
        }
        "UNION" => {
            let members: Vec<&str> = items(kind, "possibleTypes")
                .map(|member| self::name(member, name))
                .collect::<Result<_, _>>()?;
            line(sdl, format_args!("union {name} = {}", members.join(" | ")));
        }
        "ENUM" => {
            line(sdl, format_args!("enum {name} {{"));
            for value in items(kind, "enumValues") {
                describe(value, sdl);
                line(sdl, format_args!("{}", self::name(value, name)?));
            }
            line(sdl, format_args!("}}"));
        }
        "INPUT_OBJECT" => {
            let fields = arguments(kind, "inputFields", name)?;
            let directive = if is_set(kind, "isOneOf") { " @oneOf" } else { "" };
            line(sdl, format_args!("input {name}{directive} {{\n{}\n}}", fields.join("\n")));
        }
        other => {
            return Err(format!(
                "`{}`: unknown kind `{}`",
                quote_for_message(name),
                quote_for_message(other)
            ));
        }
    }
    Ok(())
}

/// Writes the arguments of a field, or the fields of an input: `name: InferredType = default`.
fn arguments(owner: &Value, key: &str, at: &str) -> Result<Vec<String>, Malformed> {
    let argument = |argument: &Value| {
        let mut text = String::new();
        describe(argument, &mut text);
        let name = name(argument, at)?;
        let kind = type_of(argument.get("type"), name)?;
        let default = match argument.get("defaultValue").and_then(Value::as_str) {
            Some(default) => format!(" = {default}"),
            None => String::new(),
        };
        Ok(format!("{text}{name}: {kind}{default}"))
    };
    items(owner, key).map(argument).collect()
}

/// Writes a type with its wrappers: `[String!]`.
fn type_of(kind: Option<&Value>, at: &str) -> Result<String, Malformed> {
    let mut wrappers = Vec::new();
    let mut kind = kind;
    for _ in 0..MAX_WRAPPED {
        let Some(inner) = kind else { break };
        match inner.get("kind").and_then(Value::as_str) {
            Some(wrapper @ ("NON_NULL" | "LIST")) => {
                wrappers.push(wrapper);
                kind = inner.get("ofType");
            }
            _ => {
                let plain = name(inner, at)?.to_owned();
                let wrap = |text: String, wrapper: &&str| match *wrapper {
                    "LIST" => format!("[{text}]"),
                    _ => format!("{text}!"),
                };
                return Ok(wrappers.iter().rev().fold(plain, wrap));
            }
        }
    }
    Err(format!("`{}`: the type is missing", quote_for_message(at)))
}

/// Reads a name. Other text is an error, because it could contain any syntax of the schema language.
fn name<'v>(value: &'v Value, at: &str) -> Result<&'v str, Malformed> {
    let name = value.get("name").and_then(Value::as_str).unwrap_or_default();
    let shaped = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if shaped {
        Ok(name)
    } else {
        Err(format!("`{}`: `{}` is not a name", quote_for_message(at), quote_for_message(name)))
    }
}

fn is_set(value: &Value, flag: &str) -> bool {
    value.get(flag).and_then(Value::as_bool).unwrap_or_default()
}

fn items<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn describe(value: &Value, sdl: &mut String) {
    let text = value.get("description").and_then(Value::as_str);
    if let Some(text) = text.and_then(|text| crate::sanitize::description(text, 400)) {
        // A JSON string is a string of GraphQL.
        line(sdl, format_args!("{}", Value::String(text)));
    }
}

fn line(sdl: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(sdl, "{text}");
}
