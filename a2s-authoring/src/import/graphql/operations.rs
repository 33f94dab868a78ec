//! Operations for a schema without any: one for each field at its top.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use apollo_compiler::schema::{ExtendedType, FieldDefinition, UnionType};
use apollo_compiler::validation::Valid;
use apollo_compiler::{Name, Schema};

use crate::naming;

/// The depth to which an operation selects below its top-level field.
const MAX_DEPTH: usize = 3;
/// The maximum number of selected fields at one level.
const MAX_FIELDS: usize = 60;
/// The maximum number of arguments of an operation.
const MAX_ARGUMENTS: usize = 80;
/// The maximum number of members of a union whose fields an operation selects.
const MAX_MEMBERS: usize = 20;
/// The names of lists that hold the items of a page.
const PAGES: [&str; 5] = ["edges", "nodes", "items", "results", "data"];

/// Writes a query or mutation for each top-level field of a schema, with all of its arguments as variables.
pub(super) fn write_operations(schema: &Valid<Schema>) -> String {
    let mut text = String::new();
    let mut taken = naming::UsedNames::default();
    let roots = [
        ("query", schema.schema_definition.query.as_ref()),
        ("mutation", schema.schema_definition.mutation.as_ref()),
    ];
    for (word, root) in roots {
        let Some(root) = root.and_then(|root| schema.get_object(root)) else { continue };
        for (name, field) in &root.fields {
            let plain = naming::capability_name(name).unwrap_or_else(|| "Operation".to_owned());
            let operation = taken.reserve(&plain);
            write_operation(schema, word, &operation, name, field, &mut text);
        }
    }
    text
}

fn write_operation(
    schema: &Schema,
    word: &str,
    operation: &str,
    name: &Name,
    field: &FieldDefinition,
    text: &mut String,
) {
    let (mut declared, mut given) = (Vec::new(), Vec::new());
    let optional = |required: bool| {
        field.arguments.iter().filter(move |argument| argument.is_required() == required)
    };
    for argument in optional(true).chain(optional(false)).take(MAX_ARGUMENTS) {
        let default = argument.default_value.as_ref();
        let default = default.map_or_else(String::new, |value| format!(" = {value}"));
        declared.push(format!("${}: {}{default}", argument.name, argument.ty));
        given.push(format!("{0}: ${0}", argument.name));
    }
    let group = |list: &[String]| match list {
        [] => String::new(),
        list => format!("({})", list.join(", ")),
    };
    let (declared, given) = (group(&declared), group(&given));
    let mut path = Vec::new();
    let below = select(schema, field.ty.inner_named_type(), &mut path);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{word} {operation}{declared} {{\n  {name}{given}{below}\n}}\n");
}

/// Writes the selection of a type; empty for a scalar or an enumeration.
fn select<'s>(schema: &'s Schema, name: &'s Name, path: &mut Vec<&'s Name>) -> String {
    let fields = match schema.types.get(name) {
        Some(ExtendedType::Object(object)) => &object.fields,
        Some(ExtendedType::Interface(interface)) => &interface.fields,
        Some(ExtendedType::Union(union)) => return select_members(schema, union),
        _ => return String::new(),
    };
    path.push(name);
    let mut selected = Vec::new();
    for (name, field) in fields {
        if !is_selectable(field) || selected.len() == MAX_FIELDS {
            continue;
        }
        let inner = field.ty.inner_named_type();
        let is_leaf = is_leaf(schema, inner);
        let is_long = field.ty.is_list() && !PAGES.contains(&name.as_str());
        if is_leaf {
            selected.push(name.to_string());
        } else if !is_long && path.len() < MAX_DEPTH && !path.contains(&inner) {
            let below = select(schema, inner, path);
            selected.push(format!("{name}{below}"));
        }
    }
    path.pop();
    if selected.is_empty() {
        selected.push("__typename".to_owned());
    }
    format!(" {{ {} }}", selected.join(" "))
}

/// Returns true when an operation can select a field without arguments, and the field is not deprecated.
fn is_selectable(field: &FieldDefinition) -> bool {
    !field.arguments.iter().any(|argument| argument.is_required())
        && !field.directives.has("deprecated")
}

fn is_leaf(schema: &Schema, name: &Name) -> bool {
    matches!(schema.types.get(name), Some(ExtendedType::Scalar(_) | ExtendedType::Enum(_)) | None)
}

/// Writes the selection of a union: the name of the type, and the scalar fields of each member. A field
/// whose type differs from the one of an earlier member gets an alias, because the fields of all members
/// are in one object.
fn select_members(schema: &Schema, union: &UnionType) -> String {
    let mut selected = vec!["__typename".to_owned()];
    let mut types: BTreeMap<String, String> = BTreeMap::new();
    for member in union.members.iter().take(MAX_MEMBERS) {
        let Some(object) = schema.get_object(&member.name) else { continue };
        let fields = object.fields.iter().filter(|(_, field)| {
            is_selectable(field) && is_leaf(schema, field.ty.inner_named_type())
        });
        let fields: Vec<String> = fields
            .take(MAX_FIELDS)
            .map(|(name, field)| {
                let of_type = field.ty.to_string();
                let known = types.entry(name.to_string()).or_insert_with(|| of_type.clone());
                if *known == of_type {
                    return name.to_string();
                }
                let mut alias = format!("{}_{name}", naming::variable_name(&member.name));
                while types.get(&alias).is_some_and(|known| *known != of_type) {
                    alias.push('_');
                }
                types.insert(alias.clone(), of_type);
                format!("{alias}: {name}")
            })
            .collect();
        if !fields.is_empty() {
            selected.push(format!("... on {} {{ {} }}", member.name, fields.join(" ")));
        }
    }
    format!(" {{ {} }}", selected.join(" "))
}
