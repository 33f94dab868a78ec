//! Operations for a schema without any: one for each field at its top.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use apollo_compiler::collections::IndexMap;
use apollo_compiler::schema::{Component, ExtendedType, FieldDefinition, UnionType};
use apollo_compiler::validation::Valid;
use apollo_compiler::{Name, Schema};

use crate::import::ImportWarning;
use crate::naming;

/// The depth to which an operation selects below its top-level field.
const MAX_DEPTH: usize = 3;
/// The maximum number of selected fields at one level.
const MAX_FIELDS: usize = 60;
/// The maximum number of arguments of an operation.
const MAX_ARGUMENTS: usize = 80;
/// The maximum number of members of a union whose fields an operation selects.
const MAX_MEMBERS: usize = 20;
/// The most selections of `__typename` alone that the warnings about an operation list.
const MAX_EMPTY: usize = 5;
/// The names of lists that hold the items of a page.
const PAGES: [&str; 5] = ["edges", "nodes", "items", "results", "data"];

/// The operations for a schema.
#[derive(Debug, Default)]
pub(super) struct WrittenOperations {
    pub(super) text: String,
    /// The warnings about what an operation does not select, by the name of the operation.
    pub(super) warnings: BTreeMap<String, Vec<ImportWarning>>,
}

/// Writes a query or mutation for each top-level field of a schema, with all of its arguments as variables.
pub(super) fn write_operations(schema: &Valid<Schema>) -> WrittenOperations {
    let mut written = WrittenOperations::default();
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
            let warnings =
                write_operation(schema, word, &operation, name, field, &mut written.text);
            if !warnings.is_empty() {
                written.warnings.insert(operation, warnings);
            }
        }
    }
    written
}

/// Appends an operation to `text`. Returns the warnings about what it does not select.
fn write_operation(
    schema: &Schema,
    word: &str,
    operation: &str,
    name: &Name,
    field: &FieldDefinition,
    text: &mut String,
) -> Vec<ImportWarning> {
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
    let mut selector = FieldSelector::new(schema);
    let below = selector.select_field(name, field);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{word} {operation}{declared} {{\n  {name}{given}{below}\n}}\n");
    selector.into_warnings()
}

/// The reason why a selection has no field of its type, and is `__typename` alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EmptySelection {
    /// No field can be selected without arguments.
    NeedsArguments,
    /// No member of the union has a scalar field that can be selected.
    NoScalarOfMember,
    /// The fields are objects that the import does not select.
    NoScalar,
}

impl EmptySelection {
    fn describe(self) -> &'static str {
        match self {
            Self::NeedsArguments => "each field of its type requires arguments or is deprecated",
            Self::NoScalarOfMember => {
                "no member of the union has a scalar field that needs no arguments"
            }
            Self::NoScalar => "its type has no scalar field that needs no arguments",
        }
    }
}

/// Writes the selections of one operation.
struct FieldSelector<'s> {
    schema: &'s Schema,
    /// The types around the current selection.
    types: Vec<&'s Name>,
    /// The fields that lead to the current selection.
    fields: Vec<&'s Name>,
    /// The locations of the selections that are `__typename` alone: at most [`MAX_EMPTY`].
    empty: Vec<(String, EmptySelection)>,
    /// The number of the other such selections.
    unlisted: usize,
}

impl<'s> FieldSelector<'s> {
    fn new(schema: &'s Schema) -> Self {
        let (types, fields, empty) = (Vec::new(), Vec::new(), Vec::new());
        Self { schema, types, fields, empty, unlisted: 0 }
    }

    /// Writes the selection of the type of a field; empty for a scalar or an enumeration.
    fn select_field(&mut self, name: &'s Name, field: &'s FieldDefinition) -> String {
        self.fields.push(name);
        let selection = match self.schema.types.get(field.ty.inner_named_type()) {
            Some(ExtendedType::Object(object)) => self.select_object(&object.name, &object.fields),
            Some(ExtendedType::Interface(interface)) => {
                self.select_object(&interface.name, &interface.fields)
            }
            Some(ExtendedType::Union(union)) => {
                let selected = select_members(self.schema, union);
                if selected.is_empty() {
                    self.record_empty(EmptySelection::NoScalarOfMember);
                }
                let all = std::iter::once("__typename".to_owned()).chain(selected);
                format!(" {{ {} }}", all.collect::<Vec<_>>().join(" "))
            }
            _ => String::new(),
        };
        self.fields.pop();
        selection
    }

    fn select_object(
        &mut self,
        of: &'s Name,
        fields: &'s IndexMap<Name, Component<FieldDefinition>>,
    ) -> String {
        self.types.push(of);
        let mut selected = Vec::new();
        for (name, field) in fields {
            if !is_selectable(field) || selected.len() == MAX_FIELDS {
                continue;
            }
            let inner = field.ty.inner_named_type();
            let is_long = field.ty.is_list() && !PAGES.contains(&name.as_str());
            if is_leaf(self.schema, inner) {
                selected.push(name.to_string());
            } else if !is_long && self.types.len() < MAX_DEPTH && !self.types.contains(&inner) {
                let below = self.select_field(name, field);
                selected.push(format!("{name}{below}"));
            }
        }
        self.types.pop();
        if selected.is_empty() {
            selected.push("__typename".to_owned());
            let is_selectable = fields.values().any(|field| is_selectable(field));
            self.record_empty(match is_selectable {
                true => EmptySelection::NoScalar,
                false => EmptySelection::NeedsArguments,
            });
        }
        format!(" {{ {} }}", selected.join(" "))
    }

    fn record_empty(&mut self, reason: EmptySelection) {
        if self.empty.len() == MAX_EMPTY {
            self.unlisted += 1;
            return;
        }
        let path: Vec<&str> = self.fields.iter().map(|name| name.as_str()).collect();
        self.empty.push((path.join("."), reason));
    }

    fn into_warnings(self) -> Vec<ImportWarning> {
        let warn = |(path, reason): &(String, EmptySelection)| {
            let reason = format!(
                "the operation selects only `__typename` there, because {}; to select more, write the operation and import it with `--operation FILE`",
                reason.describe()
            );
            ImportWarning::new(path, reason)
        };
        let mut warnings: Vec<ImportWarning> = self.empty.iter().map(warn).collect();
        if self.unlisted > 0 {
            let reason =
                format!("the operation selects only `__typename` of {} more fields", self.unlisted);
            warnings.push(ImportWarning::new("", reason));
        }
        warnings
    }
}

/// Returns true when an operation can select a field without arguments, and the field is not deprecated.
fn is_selectable(field: &FieldDefinition) -> bool {
    !field.arguments.iter().any(|argument| argument.is_required())
        && !field.directives.has("deprecated")
}

fn is_leaf(schema: &Schema, name: &Name) -> bool {
    matches!(schema.types.get(name), Some(ExtendedType::Scalar(_) | ExtendedType::Enum(_)) | None)
}

/// Writes the selections of the members of a union: the scalar fields of each. A field whose type differs
/// from the one of an earlier member gets an alias, because the fields of all members are in one object.
fn select_members(schema: &Schema, union: &UnionType) -> Vec<String> {
    let mut selected = Vec::new();
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
    selected
}
