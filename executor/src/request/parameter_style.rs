//! Styles of parameters in a request (OpenAPI 3.1.1, "Style Values"; RFC 6570).
//!
//! Where the specification leaves a choice: in a query, nested arrays and objects are written as JSON text,
//! as most clients do; elsewhere they are rejected. With `deepObject`, names nest (`a[b][c]=1`), the
//! scalars of an array share one name (`a[b][]=1`), and a scalar is written as in a form.

use a2s::{ParameterStyle, ValueStyle};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

/// All characters except the unreserved ones of RFC 3986, section 2.3.
const VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The encode set for `allowReserved`: it keeps all characters that a query may contain and that neither
/// end nor change a value (`#[]&+;'` do, in some parsers).
const RESERVED_VALUE: &AsciiSet = &VALUE
    .remove(b':')
    .remove(b'/')
    .remove(b'?')
    .remove(b'@')
    .remove(b'!')
    .remove(b'$')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b',')
    .remove(b'=');

/// The greatest nesting depth of names with `deepObject`.
const MAX_NESTING: usize = 16;

/// The reason why a value cannot be written.
pub(super) type Reason = &'static str;

/// Encodes text so that no character has a special meaning in any part of an address.
pub(super) fn encode(text: &str) -> String {
    utf8_percent_encode(text, VALUE).to_string()
}

/// The set of characters of a value that are percent-encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EscapeMode {
    /// All characters that are not unreserved.
    All,
    /// Fewer, as `allowReserved` asks; text that is already encoded stays.
    Reserved,
    /// No characters: the text is in a location where no character has a special meaning.
    Nothing,
}

impl EscapeMode {
    /// Returns the mode that a style requires in a query or a form.
    pub(super) fn from_style(style: ValueStyle) -> Self {
        if style.allow_reserved { Self::Reserved } else { Self::All }
    }

    fn escape_value(self, text: &str) -> String {
        match self {
            Self::All => encode(text),
            Self::Nothing => text.to_owned(),
            Self::Reserved => {
                let mut parts = text.split('%');
                let mut written = encode_reserved(parts.next().unwrap_or_default());
                for part in parts {
                    let digits = part.as_bytes().iter().take(2);
                    let encoded = digits.filter(|byte| byte.is_ascii_hexdigit()).count() == 2;
                    written.push_str(if encoded { "%" } else { "%25" });
                    written.push_str(&encode_reserved(part));
                }
                written
            }
        }
    }

    fn escape_name(self, text: &str) -> String {
        if self == Self::Nothing { text.to_owned() } else { encode(text) }
    }

    /// Returns a separator in the spelling that matches the encoded values.
    fn separator(self, plain: &'static str, encoded: &'static str) -> &'static str {
        if self == Self::Nothing { plain } else { encoded }
    }
}

fn encode_reserved(text: &str) -> String {
    utf8_percent_encode(text, RESERVED_VALUE).to_string()
}

/// A value in a form that styles can write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StyledValue {
    /// Text, a number or a boolean.
    Scalar(String),
    /// Scalars in order; never empty.
    List(Vec<String>),
    /// Scalars by name; never empty.
    Map(Vec<(String, String)>),
}

impl StyledValue {
    /// Converts a value that contains only scalars.
    pub(super) fn from_scalars(value: &Value) -> Result<Option<Self>, Reason> {
        let is_scalar = |value: &Value| !matches!(value, Value::Array(_) | Value::Object(_));
        match value {
            Value::Array(items) if !items.iter().all(is_scalar) => {
                Err("an array must contain only texts, numbers and booleans here")
            }
            Value::Object(members) if !members.values().all(is_scalar) => {
                Err("an object must contain only texts, numbers and booleans here")
            }
            value => Ok(Self::from_value(value)),
        }
    }

    /// The shape of a value, with nested arrays and objects as JSON. `None` for null and for an array or
    /// object without items, which RFC 6570 calls undefined. Null items and members are left out.
    pub(super) fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Null => None,
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                Some(Self::Scalar(plain_text(value)))
            }
            Value::Array(items) => {
                let items = items.iter().filter(|item| !item.is_null());
                let items: Vec<_> = items.map(plain_text).collect();
                (!items.is_empty()).then_some(Self::List(items))
            }
            Value::Object(members) => {
                let members = members.iter().filter(|(_, value)| !value.is_null());
                let members: Vec<_> =
                    members.map(|(name, value)| (name.clone(), plain_text(value))).collect();
                (!members.is_empty()).then_some(Self::Map(members))
            }
        }
    }

    fn map_text(self, name: impl Fn(&str) -> String, value: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Scalar(text) => Self::Scalar(value(&text)),
            Self::List(items) => Self::List(items.iter().map(|item| value(item)).collect()),
            Self::Map(members) => {
                Self::Map(members.iter().map(|(key, text)| (name(key), value(text))).collect())
            }
        }
    }

    /// Joins items, or names and values in turn.
    fn join_flat(self, separator: &str) -> String {
        match self {
            Self::Scalar(text) => text,
            Self::List(items) => items.join(separator),
            Self::Map(members) => {
                let members = members.into_iter().flat_map(|(name, text)| [name, text]);
                members.collect::<Vec<_>>().join(separator)
            }
        }
    }

    /// Joins items, or `name=value` pairs.
    fn join_pairs(self, separator: &str) -> String {
        match self {
            Self::Map(members) => {
                let pairs = members.into_iter().map(|(name, text)| format!("{name}={text}"));
                pairs.collect::<Vec<_>>().join(separator)
            }
            other @ (Self::Scalar(_) | Self::List(_)) => other.join_flat(separator),
        }
    }
}

/// Returns text unchanged, and every other value as JSON.
pub(super) fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Writes a path parameter, encoded.
pub(super) fn write_path(
    name: &str,
    shape: StyledValue,
    style: ValueStyle,
) -> Result<String, Reason> {
    let shape = shape.map_text(encode, encode);
    let name = encode(name);
    Ok(match (style.style, style.explode) {
        (ParameterStyle::Simple, false) => shape.join_flat(","),
        (ParameterStyle::Simple, true) => shape.join_pairs(","),
        (ParameterStyle::Label, false) => format!(".{}", shape.join_flat(",")),
        (ParameterStyle::Label, true) => format!(".{}", shape.join_pairs(".")),
        (ParameterStyle::Matrix, explode) => match shape {
            StyledValue::Scalar(text) => matrix_pair(&name, &text),
            StyledValue::List(items) if explode => {
                items.iter().map(|item| matrix_pair(&name, item)).collect()
            }
            StyledValue::Map(members) if explode => {
                members.iter().map(|(name, text)| matrix_pair(name, text)).collect()
            }
            shape => format!(";{name}={}", shape.join_flat(",")),
        },
        (
            ParameterStyle::Form
            | ParameterStyle::SpaceDelimited
            | ParameterStyle::PipeDelimited
            | ParameterStyle::DeepObject,
            _,
        ) => {
            return Err("its style is not valid for a path parameter");
        }
    })
}

/// Writes a pair of the matrix style. An empty value has no `=` (RFC 6570, section 3.2.7).
fn matrix_pair(name: &str, text: &str) -> String {
    if text.is_empty() { format!(";{name}") } else { format!(";{name}={text}") }
}

/// Writes a query parameter, or the field of a form, as pairs; no pairs for an undefined value.
pub(super) fn write_query(
    name: &str,
    value: &Value,
    style: ValueStyle,
    escape: EscapeMode,
) -> Result<Vec<(String, String)>, Reason> {
    let separator = match style.style {
        ParameterStyle::Form => ",",
        ParameterStyle::SpaceDelimited => escape.separator(" ", "%20"),
        ParameterStyle::PipeDelimited => escape.separator("|", "%7C"),
        ParameterStyle::DeepObject => {
            let mut pairs = Vec::new();
            write_deep(&escape.escape_name(name), value, escape, 0, &mut pairs)?;
            return Ok(pairs);
        }
        ParameterStyle::Simple | ParameterStyle::Label | ParameterStyle::Matrix => {
            return Err("its style is not valid for a query parameter");
        }
    };
    let Some(shape) = StyledValue::from_value(value) else { return Ok(Vec::new()) };
    let shape = shape.map_text(|name| escape.escape_name(name), |text| escape.escape_value(text));
    let name = escape.escape_name(name);
    Ok(match shape {
        StyledValue::List(items) if style.explode => {
            items.into_iter().map(|item| (name.clone(), item)).collect()
        }
        StyledValue::Map(members) if style.explode => members,
        shape => vec![(name, shape.join_flat(separator))],
    })
}

fn write_deep(
    name: &str,
    value: &Value,
    escape: EscapeMode,
    depth: usize,
    pairs: &mut Vec<(String, String)>,
) -> Result<(), Reason> {
    if depth > MAX_NESTING {
        return Err("it is nested too deep");
    }
    let (open, close) = (escape.separator("[", "%5B"), escape.separator("]", "%5D"));
    match value {
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            pairs.push((name.to_owned(), escape.escape_value(&plain_text(value))));
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let name = match item {
                    Value::Array(_) | Value::Object(_) => format!("{name}{open}{index}{close}"),
                    _ => format!("{name}{open}{close}"),
                };
                write_deep(&name, item, escape, depth + 1, pairs)?;
            }
        }
        Value::Object(members) => write_members(name, members, escape, depth, pairs)?,
    }
    Ok(())
}

fn write_members(
    name: &str,
    members: &Map<String, Value>,
    escape: EscapeMode,
    depth: usize,
    pairs: &mut Vec<(String, String)>,
) -> Result<(), Reason> {
    let (open, close) = (escape.separator("[", "%5B"), escape.separator("]", "%5D"));
    for (key, member) in members {
        let name = format!("{name}{open}{}{close}", escape.escape_name(key));
        write_deep(&name, member, escape, depth + 1, pairs)?;
    }
    Ok(())
}

/// Writes a header parameter. Headers have no encoding: the caller rejects text that a header cannot
/// contain.
pub(super) fn write_header(shape: StyledValue, explode: bool) -> String {
    if explode { shape.join_pairs(",") } else { shape.join_flat(",") }
}

#[cfg(test)]
mod tests;
