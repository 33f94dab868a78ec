//! How values are written into the places of a request (OpenAPI 3.0.4, "Style Values"; RFC 6570).

use a2s::Style;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// Everything but the unreserved characters of RFC 3986, section 2.3.
const VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes text so that it stands for itself in any part of an address.
pub(super) fn encode(text: &str) -> String {
    utf8_percent_encode(text, VALUE).to_string()
}

/// A value as far as styles can write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shape {
    /// Text, a number or a boolean.
    Scalar(String),
    /// Scalars in order; never empty.
    List(Vec<String>),
    /// Scalars by name; never empty.
    Map(Vec<(String, String)>),
}

impl Shape {
    /// The shape of a value; none for null and for what has no items, which RFC 6570 calls
    /// undefined. Null items and members are left out.
    pub(super) fn of(value: &Value) -> Result<Option<Self>, &'static str> {
        Ok(match value {
            Value::Null => None,
            Value::Bool(_) | Value::Number(_) | Value::String(_) => scalar(value).map(Self::Scalar),
            Value::Array(items) => {
                let items = items.iter().filter(|item| !item.is_null());
                let items: Option<Vec<String>> = items.map(scalar).collect();
                let items = items.ok_or("an array here holds text, numbers and booleans only")?;
                (!items.is_empty()).then_some(Self::List(items))
            }
            Value::Object(members) => {
                let members = members.iter().filter(|(_, value)| !value.is_null());
                let members = members.map(|(name, value)| Some((name.clone(), scalar(value)?)));
                let members: Option<Vec<_>> = members.collect();
                let members =
                    members.ok_or("an object here holds text, numbers and booleans only")?;
                (!members.is_empty()).then_some(Self::Map(members))
            }
        })
    }

    fn map_text(self, change: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Scalar(text) => Self::Scalar(change(&text)),
            Self::List(items) => Self::List(items.iter().map(|item| change(item)).collect()),
            Self::Map(members) => {
                Self::Map(members.iter().map(|(name, text)| (change(name), change(text))).collect())
            }
        }
    }

    /// Items, or names and values in turn.
    fn flat(self, separator: &str) -> String {
        match self {
            Self::Scalar(text) => text,
            Self::List(items) => items.join(separator),
            Self::Map(members) => {
                let members = members.into_iter().flat_map(|(name, text)| [name, text]);
                members.collect::<Vec<_>>().join(separator)
            }
        }
    }

    /// Items, or `name=value` pairs.
    fn paired(self, separator: &str) -> String {
        match self {
            Self::Map(members) => {
                let pairs = members.into_iter().map(|(name, text)| format!("{name}={text}"));
                pairs.collect::<Vec<_>>().join(separator)
            }
            other @ (Self::Scalar(_) | Self::List(_)) => other.flat(separator),
        }
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Writes a path parameter, encoded.
pub(super) fn write_path(
    name: &str,
    shape: Shape,
    style: Style,
    explode: bool,
) -> Result<String, &'static str> {
    let shape = shape.map_text(encode);
    let name = encode(name);
    Ok(match (style, explode) {
        (Style::Simple, false) => shape.flat(","),
        (Style::Simple, true) => shape.paired(","),
        (Style::Label, false) => format!(".{}", shape.flat(",")),
        (Style::Label, true) => format!(".{}", shape.paired(".")),
        (Style::Matrix, explode) => match shape {
            Shape::Scalar(text) if text.is_empty() => format!(";{name}"),
            Shape::List(items) if explode => {
                items.iter().map(|item| format!(";{name}={item}")).collect()
            }
            shape @ Shape::Map(_) if explode => format!(";{}", shape.paired(";")),
            shape => format!(";{name}={}", shape.flat(",")),
        },
        (Style::Form | Style::SpaceDelimited | Style::PipeDelimited | Style::DeepObject, _) => {
            return Err("its style is not one of a path parameter");
        }
    })
}

/// Writes a query parameter as encoded pairs.
pub(super) fn write_query(
    name: &str,
    shape: Shape,
    style: Style,
    explode: bool,
) -> Result<Vec<(String, String)>, &'static str> {
    let shape = shape.map_text(encode);
    let name = encode(name);
    let delimiter = match style {
        Style::Form => ",",
        Style::SpaceDelimited => "%20",
        Style::PipeDelimited => "%7C",
        Style::DeepObject => {
            let Shape::Map(members) = shape else {
                return Err("the style deepObject takes an object");
            };
            let members = members.into_iter();
            return Ok(members.map(|(key, text)| (format!("{name}%5B{key}%5D"), text)).collect());
        }
        Style::Simple | Style::Label | Style::Matrix => {
            return Err("its style is not one of a query parameter");
        }
    };
    Ok(match shape {
        Shape::List(items) if explode => items.into_iter().map(|i| (name.clone(), i)).collect(),
        Shape::Map(members) if explode => members,
        shape => vec![(name, shape.flat(delimiter))],
    })
}

/// Writes a header parameter. Headers know no encoding: what a header cannot hold is refused by
/// the caller.
pub(super) fn write_header(shape: Shape, explode: bool) -> String {
    if explode { shape.paired(",") } else { shape.flat(",") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The values of the style table of the OpenAPI specification, with one that needs encoding.
    fn shapes() -> [Shape; 4] {
        [
            json!(""),
            json!("blue"),
            json!(["blue", "bl,ack", "brown"]),
            json!({"R": 100, "G&": 200, "B": 150}),
        ]
        .map(|value| Shape::of(&value).unwrap().unwrap())
    }

    #[track_caller]
    fn check_path(style: Style, explode: bool, expected: [&str; 4]) {
        let written = shapes().map(|shape| write_path("color", shape, style, explode).unwrap());
        assert_eq!(written, expected);
    }

    #[track_caller]
    fn check_query(style: Style, explode: bool, expected: [&str; 4]) {
        let written = shapes().map(|shape| {
            let Ok(pairs) = write_query("color", shape, style, explode) else {
                return "refused".to_owned();
            };
            pairs.into_iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join("&")
        });
        assert_eq!(written, expected);
    }

    #[test]
    fn path_styles_follow_the_table() {
        let simple = ["", "blue", "blue,bl%2Cack,brown", "R,100,G%26,200,B,150"];
        check_path(Style::Simple, false, simple);
        let simple = ["", "blue", "blue,bl%2Cack,brown", "R=100,G%26=200,B=150"];
        check_path(Style::Simple, true, simple);
        let label = [".", ".blue", ".blue,bl%2Cack,brown", ".R,100,G%26,200,B,150"];
        check_path(Style::Label, false, label);
        let label = [".", ".blue", ".blue.bl%2Cack.brown", ".R=100.G%26=200.B=150"];
        check_path(Style::Label, true, label);
        let lists = ";color=blue,bl%2Cack,brown";
        check_path(
            Style::Matrix,
            false,
            [";color", ";color=blue", lists, ";color=R,100,G%26,200,B,150"],
        );
        let lists = ";color=blue;color=bl%2Cack;color=brown";
        check_path(Style::Matrix, true, [";color", ";color=blue", lists, ";R=100;G%26=200;B=150"]);
    }

    #[test]
    fn query_styles_follow_the_table() {
        let exploded = "color=blue&color=bl%2Cack&color=brown";
        check_query(Style::Form, true, ["color=", "color=blue", exploded, "R=100&G%26=200&B=150"]);
        check_query(
            Style::Form,
            false,
            ["color=", "color=blue", "color=blue,bl%2Cack,brown", "color=R,100,G%26,200,B,150"],
        );
        check_query(
            Style::SpaceDelimited,
            false,
            [
                "color=",
                "color=blue",
                "color=blue%20bl%2Cack%20brown",
                "color=R%20100%20G%26%20200%20B%20150",
            ],
        );
        check_query(
            Style::PipeDelimited,
            false,
            [
                "color=",
                "color=blue",
                "color=blue%7Cbl%2Cack%7Cbrown",
                "color=R%7C100%7CG%26%7C200%7CB%7C150",
            ],
        );
        check_query(
            Style::DeepObject,
            true,
            [
                "refused",
                "refused",
                "refused",
                "color%5BR%5D=100&color%5BG%26%5D=200&color%5BB%5D=150",
            ],
        );
    }

    #[test]
    fn what_has_no_items_is_no_value_and_nesting_is_refused() {
        for nothing in [json!(null), json!([]), json!({}), json!([null]), json!({"a": null})] {
            assert_eq!(Shape::of(&nothing), Ok(None), "{nothing}");
        }
        for nested in [json!([[1]]), json!([{"a": 1}]), json!({"a": {"b": 1}}), json!({"a": [1]})] {
            assert!(Shape::of(&nested).is_err(), "{nested}");
        }
    }
}
