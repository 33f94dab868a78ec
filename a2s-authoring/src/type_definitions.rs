//! Types of the inputs and outputs of capabilities, in the languages of the SDKs.
//!
//! A program that is compiled with these types does not compile any more when a new version has other inputs
//! or outputs. The names and texts come from publishers: a name that is no identifier is quoted or left out,
//! and a text cannot end its comment.

mod golang;
mod python;
mod typescript;

use std::collections::BTreeSet;

use a2s::{CapabilityInterface, CapabilityRef};
use serde_json::{Map, Value};

/// The maximum depth of a schema; what is deeper has any type.
const MAX_DEPTH: usize = 12;
/// The maximum number of values of an enumeration that becomes a type.
const MAX_LITERALS: usize = 50;
/// The maximum length of a comment, in characters.
const MAX_COMMENT: usize = 500;
/// The maximum number of members of an object that becomes a type.
const MAX_MEMBERS: usize = 200;

/// The language of type definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeLanguage {
    /// TypeScript.
    TypeScript,
    /// Python 3.11, or an older one with `typing_extensions`.
    Python,
    /// Go. The package is named by the text.
    Go,
}

/// A capability whose types are wanted.
#[derive(Debug, Clone)]
pub struct TypedCapability {
    /// The name, version and checksum.
    pub reference: CapabilityRef,
    /// Its description.
    pub description: String,
    /// Its inputs and outputs.
    pub interface: CapabilityInterface,
}

/// Writes the definitions of the types of capabilities. `package` is the name of the package in Go.
#[must_use]
pub fn write_types(
    language: TypeLanguage,
    capabilities: &[TypedCapability],
    package: &str,
) -> String {
    match language {
        TypeLanguage::TypeScript => typescript::write(capabilities),
        TypeLanguage::Python => python::write(capabilities),
        TypeLanguage::Go => golang::write(capabilities, package),
    }
}

/// The shape of a value.
#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Any,
    Null,
    Boolean,
    Integer,
    Number,
    Text,
    /// One of these values: texts, numbers, booleans or null.
    Literals(Vec<Value>),
    List(Box<Self>),
    Map(Box<Self>),
    /// An object, by the name of its definition.
    Object(String),
    Union(Vec<Self>),
}

/// A member of an object.
#[derive(Debug, Clone, PartialEq)]
struct Member {
    name: String,
    shape: Shape,
    required: bool,
    description: String,
}

/// The definition of an object with named members.
#[derive(Debug, Clone, PartialEq)]
struct Definition {
    name: String,
    description: String,
    members: Vec<Member>,
}

/// The definitions of one capability: the inputs, the outputs, and the objects in them, which come before
/// what uses them.
fn definitions(capability: &TypedCapability) -> Vec<Definition> {
    let name = capability.reference.name.as_str();
    let mut collector = Collector::default();
    let interface = &capability.interface;
    for (suffix, members) in [
        (
            "Inputs",
            interface
                .inputs
                .iter()
                .map(|input| {
                    let required = input.required && input.default.is_none();
                    (&input.name, &input.schema, required, input.description.as_deref())
                })
                .collect::<Vec<_>>(),
        ),
        (
            "Outputs",
            interface
                .outputs
                .iter()
                .map(|output| (&output.name, &output.schema, true, output.description.as_deref()))
                .collect(),
        ),
    ] {
        let owner = format!("{name}{suffix}");
        let members = members.into_iter().map(|(member, schema, required, description)| {
            let shape = collector.shape(schema, schema, &nested_name(&owner, member), 0);
            let described = || schema.get("description").and_then(Value::as_str);
            let description = description.or_else(described).unwrap_or_default().to_owned();
            Member { name: member.clone(), shape, required, description }
        });
        let members: Vec<_> = members.collect();
        let description = format!("The {} of {name}.", suffix.to_lowercase());
        collector.definitions.push(Definition { name: owner, description, members });
    }
    collector.definitions
}

/// Collects the definitions of objects.
#[derive(Default)]
struct Collector {
    definitions: Vec<Definition>,
    names: BTreeSet<String>,
}

impl Collector {
    /// Returns the shape of the values of a schema. `name` is for an object.
    fn shape(&mut self, schema: &Value, root: &Value, name: &str, depth: usize) -> Shape {
        let Some(schema) = schema.as_object().filter(|_| depth < MAX_DEPTH) else {
            return Shape::Any;
        };
        if let Some(pointer) = schema.get("$ref").and_then(Value::as_str) {
            let target = pointer.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
            return match target {
                Some(target) => self.shape(target, root, name, depth + 1),
                None => Shape::Any,
            };
        }
        if let Some(values) = literals(schema) {
            return Shape::Literals(values);
        }
        if let Some(all) = schema.get("allOf").and_then(Value::as_array) {
            return match all.as_slice() {
                [one] => self.shape(one, root, name, depth + 1),
                _ => Shape::Any,
            };
        }
        let choices = ["anyOf", "oneOf"].into_iter().find_map(|word| schema.get(word)?.as_array());
        if let Some(choices) = choices {
            let choices = choices.iter();
            return union(
                choices.map(|choice| self.shape(choice, root, name, depth + 1)).collect(),
            );
        }
        let mut shape = match schema.get("type") {
            Some(Value::String(kind)) => self.shape_of_type(kind, schema, root, name, depth),
            Some(Value::Array(kinds)) => {
                let kinds = kinds.iter().filter_map(Value::as_str);
                let shapes = kinds.map(|kind| self.shape_of_type(kind, schema, root, name, depth));
                union(shapes.collect())
            }
            _ if schema.contains_key("properties") => {
                self.shape_of_type("object", schema, root, name, depth)
            }
            _ => Shape::Any,
        };
        if schema.get("nullable") == Some(&Value::Bool(true)) {
            shape = union(vec![shape, Shape::Null]);
        }
        shape
    }

    fn shape_of_type(
        &mut self,
        kind: &str,
        schema: &Map<String, Value>,
        root: &Value,
        name: &str,
        depth: usize,
    ) -> Shape {
        match kind {
            "null" => Shape::Null,
            "boolean" => Shape::Boolean,
            "integer" => Shape::Integer,
            "number" => Shape::Number,
            "string" => Shape::Text,
            "array" => {
                let items = schema.get("items").unwrap_or(&Value::Null);
                Shape::List(Box::new(self.shape(items, root, name, depth + 1)))
            }
            "object" => {
                let properties = schema.get("properties").and_then(Value::as_object);
                let properties = properties.filter(|some| (1..=MAX_MEMBERS).contains(&some.len()));
                let Some(properties) = properties else {
                    let others = schema.get("additionalProperties").unwrap_or(&Value::Null);
                    return Shape::Map(Box::new(self.shape(others, root, name, depth + 1)));
                };
                self.object(properties, schema, root, name, depth)
            }
            _ => Shape::Any,
        }
    }

    fn object(
        &mut self,
        properties: &Map<String, Value>,
        schema: &Map<String, Value>,
        root: &Value,
        name: &str,
        depth: usize,
    ) -> Shape {
        let needed = schema.get("required").and_then(Value::as_array);
        let text = |value: &Value, word: &str| -> String {
            value.get(word).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let members = properties.iter().map(|(member, value)| Member {
            name: member.clone(),
            shape: self.shape(value, root, &nested_name(name, member), depth + 1),
            required: needed.is_some_and(|needed| needed.iter().any(|name| name == member)),
            description: text(value, "description"),
        });
        let members = members.collect();
        let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let name = self.free_name(name);
        let description = description.to_owned();
        self.definitions.push(Definition { name: name.clone(), description, members });
        Shape::Object(name)
    }

    /// The name, with a number when it is taken.
    fn free_name(&mut self, name: &str) -> String {
        let numbered = (2..).map(|number| format!("{name}{number}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        let free = names.find(|name| !self.names.contains(name)).unwrap_or_default();
        self.names.insert(free.clone());
        free
    }
}

/// The values of an enumeration, when all of them are plain.
fn literals(schema: &Map<String, Value>) -> Option<Vec<Value>> {
    let values = match (schema.get("const"), schema.get("enum")) {
        (Some(value), _) => vec![value.clone()],
        (None, Some(Value::Array(values))) => values.clone(),
        _ => return None,
    };
    let is_plain = |value: &Value| !value.is_array() && !value.is_object() && !value.is_f64();
    let is_usable = (1..=MAX_LITERALS).contains(&values.len()) && values.iter().all(is_plain);
    is_usable.then_some(values)
}

/// The union of shapes, without those that occur before.
fn union(shapes: Vec<Shape>) -> Shape {
    let mut all: Vec<Shape> = Vec::new();
    for shape in shapes {
        let parts = match shape {
            Shape::Union(parts) => parts,
            one => vec![one],
        };
        for part in parts {
            if !all.contains(&part) {
                all.push(part);
            }
        }
    }
    match all.len() {
        _ if all.contains(&Shape::Any) => Shape::Any,
        0 => Shape::Any,
        1 => all.remove(0),
        _ => Shape::Union(all),
    }
}

/// The name of the definition of a member's object.
fn nested_name(owner: &str, member: &str) -> String {
    format!("{owner}{}", pascal_case(member))
}

/// The words of a name in one word: `country_code` is `CountryCode`. Only ASCII letters and digits stay.
fn pascal_case(name: &str) -> String {
    let words = a2s::split_name(name);
    let word = |word: &str| {
        let mut letters = word.chars().filter(char::is_ascii_alphanumeric);
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    words.split(' ').map(word).collect()
}

/// Returns true for a name that all three languages accept as an identifier, apart from their own words.
fn is_identifier(name: &str) -> bool {
    let mut letters = name.chars();
    let starts = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    starts && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A text for a comment: one line, without what could end the comment.
fn comment(text: &str) -> String {
    a2s::to_single_line(text, MAX_COMMENT)
        .replace("*/", "* /")
        .replace("\"\"\"", "'''")
        .replace('\\', "/")
}

#[cfg(test)]
mod tests;
