//! Type definitions in Python.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Definition, Shape, TypedCapability, comment, definitions, is_identifier};

/// The words that are no names in Python.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

const HEAD: &str = "\
# Made by `a2s types`. Do not edit.
from __future__ import annotations

import sys
from typing import Any, Dict, Final, List, Literal, Union

if sys.version_info >= (3, 11):
    from typing import NotRequired, TypedDict
else:
    from typing_extensions import NotRequired, TypedDict


class CapabilityReference(TypedDict):
    \"\"\"A version of a capability, and its checksum.\"\"\"

    name: str
    version: str
    checksum: str
";

pub(super) fn write(capabilities: &[TypedCapability]) -> String {
    let mut text = HEAD.to_owned();
    for capability in capabilities {
        let reference = &capability.reference;
        for definition in definitions(capability) {
            write_definition(&definition, &mut text);
        }
        let _ = write!(
            text,
            "\n\n# {}\n{}: Final[CapabilityReference] = {{\n    \"name\": {},\n    \"version\": {},\n    \
             \"checksum\": {},\n}}\n",
            comment(&capability.description),
            reference.name,
            json!(reference.name),
            json!(reference.version.to_string()),
            json!(reference.checksum),
        );
    }
    text
}

fn write_definition(definition: &Definition, text: &mut String) {
    let Definition { name, description, members } = definition;
    let is_plain = |name: &str| is_identifier(name) && !KEYWORDS.contains(&name);
    let kind = |member: &super::Member| {
        let kind = shape(&member.shape);
        if member.required { kind } else { format!("NotRequired[{kind}]") }
    };
    if members.iter().all(|member| is_plain(&member.name)) {
        let _ = write!(text, "\n\nclass {name}(TypedDict):\n");
        let about = if description.is_empty() { "An object." } else { description };
        let _ = writeln!(text, "    \"\"\"{}\"\"\"", comment(about).trim_end_matches('"'));
        if !members.is_empty() {
            text.push('\n');
        }
        for member in members {
            if !member.description.is_empty() {
                let _ = writeln!(text, "    # {}", comment(&member.description));
            }
            let _ = writeln!(text, "    {}: {}", member.name, kind(member));
        }
        return;
    }
    // A name that is no identifier needs the other notation, whose types are evaluated at once.
    let _ = writeln!(text, "\n\n{name} = TypedDict(\n    \"{name}\",\n    {{");
    for member in members {
        let _ = writeln!(text, "        {}: {},", json!(member.name), kind(member));
    }
    text.push_str("    },\n)\n");
}

fn shape(of: &Shape) -> String {
    match of {
        Shape::Any => "Any".to_owned(),
        Shape::Null => "None".to_owned(),
        Shape::Boolean => "bool".to_owned(),
        Shape::Integer => "int".to_owned(),
        Shape::Number => "float".to_owned(),
        Shape::Text => "str".to_owned(),
        Shape::Literals(values) => {
            let literal = |value: &Value| match value {
                Value::Null => "None".to_owned(),
                Value::Bool(true) => "True".to_owned(),
                Value::Bool(false) => "False".to_owned(),
                other => other.to_string(),
            };
            format!("Literal[{}]", values.iter().map(literal).collect::<Vec<_>>().join(", "))
        }
        Shape::List(items) => format!("List[{}]", shape(items)),
        Shape::Map(values) => format!("Dict[str, {}]", shape(values)),
        Shape::Object(name) => name.clone(),
        Shape::Union(parts) => {
            format!("Union[{}]", parts.iter().map(shape).collect::<Vec<_>>().join(", "))
        }
    }
}
