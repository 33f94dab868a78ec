//! Type definitions in TypeScript.

use std::fmt::Write as _;

use serde_json::json;

use super::{Definition, Shape, TypedCapability, comment, definitions, is_identifier};

pub(super) fn write(capabilities: &[TypedCapability]) -> String {
    let mut text = "// Made by `a2s types`. Do not edit.\n".to_owned();
    for capability in capabilities {
        let reference = &capability.reference;
        for definition in definitions(capability) {
            write_definition(&definition, &mut text);
        }
        let fields = json!({
            "name": reference.name, "version": reference.version, "checksum": reference.checksum,
        });
        let _ = write!(
            text,
            "\n/** {} */\nexport const {} = {fields} as const;\n",
            comment(&capability.description),
            reference.name
        );
    }
    text.push_str(
        "\n/** The types of each capability, by its name. */\nexport interface Capabilities {\n",
    );
    for TypedCapability { reference, .. } in capabilities {
        let name = &reference.name;
        let _ = writeln!(
            text,
            "  {name}: {{ reference: typeof {name}; inputs: {name}Inputs; outputs: {name}Outputs }};"
        );
    }
    text.push_str("}\n");
    text
}

fn write_definition(definition: &Definition, text: &mut String) {
    let Definition { name, description, members } = definition;
    text.push('\n');
    if !description.is_empty() {
        let _ = writeln!(text, "/** {} */", comment(description));
    }
    let _ = writeln!(text, "export interface {name} {{");
    for member in members {
        if !member.description.is_empty() {
            let _ = writeln!(text, "  /** {} */", comment(&member.description));
        }
        let name = if is_identifier(&member.name) {
            member.name.clone()
        } else {
            json!(member.name).to_string()
        };
        let optional = if member.required { "" } else { "?" };
        let _ = writeln!(text, "  {name}{optional}: {};", shape(&member.shape));
    }
    text.push_str("}\n");
}

fn shape(of: &Shape) -> String {
    match of {
        Shape::Any => "unknown".to_owned(),
        Shape::Null => "null".to_owned(),
        Shape::Boolean => "boolean".to_owned(),
        Shape::Integer | Shape::Number => "number".to_owned(),
        Shape::Text => "string".to_owned(),
        Shape::Literals(values) => {
            values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ")
        }
        Shape::List(items) => format!("Array<{}>", shape(items)),
        Shape::Map(values) => format!("Record<string, {}>", shape(values)),
        Shape::Object(name) => name.clone(),
        Shape::Union(parts) => parts.iter().map(shape).collect::<Vec<_>>().join(" | "),
    }
}
