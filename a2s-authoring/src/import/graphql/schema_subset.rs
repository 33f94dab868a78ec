//! The part of a schema that one operation needs: with it in the task, inputs and outputs are known.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use apollo_compiler::ast::{InputValueDefinition, Type};
use apollo_compiler::executable::{Operation, Selection, SelectionSet};
use apollo_compiler::schema::{ExtendedType, FieldDefinition};
use apollo_compiler::{ExecutableDocument, Name, Schema};

use crate::sanitize;

/// The maximum length of a schema's text in a task, in bytes.
pub(super) const MAX_TEXT: usize = 100_000;
/// The maximum length of an input field's description, in characters.
const MAX_DESCRIPTION: usize = 200;
/// A placeholder field for a type that needs no other field: a type must have at least one.
const NO_FIELD: &str = "_: String";

/// Writes the types that an operation uses, with only the fields that it selects.
///
/// # Errors
/// Returns the size of the text in bytes when it is larger than [`MAX_TEXT`].
pub(super) fn used_part_of_schema(
    schema: &Schema,
    document: &ExecutableDocument,
    operation: &Operation,
) -> Result<String, usize> {
    let mut needed = SchemaSubset::new(schema);
    needed.visit(&operation.selection_set, document, &mut BTreeSet::new());
    for variable in &operation.variables {
        needed.take_input(&variable.ty);
    }
    needed.complete();
    let text = needed.write();
    if text.len() <= MAX_TEXT { Ok(text) } else { Err(text.len()) }
}

struct SchemaSubset<'s> {
    schema: &'s Schema,
    /// The selected fields of each object, interface and union, by its name.
    fields: BTreeMap<&'s Name, BTreeSet<&'s Name>>,
    /// The arguments in use, by the names of their fields.
    arguments: BTreeMap<&'s Name, BTreeSet<&'s Name>>,
    /// Inputs, enumerations and scalars of the service.
    others: BTreeSet<&'s Name>,
}

impl<'s> SchemaSubset<'s> {
    fn new(schema: &'s Schema) -> Self {
        let (fields, arguments) = (BTreeMap::new(), BTreeMap::new());
        Self { schema, fields, arguments, others: BTreeSet::new() }
    }

    /// Finds the name of a type in the schema.
    fn name(&self, name: &Name) -> Option<&'s Name> {
        self.schema.types.get_key_value(name).map(|(name, _)| name)
    }

    fn field(&self, of: &Name, name: &Name) -> Option<(&'s Name, &'s FieldDefinition)> {
        let fields = match self.schema.types.get(of)? {
            ExtendedType::Object(object) => &object.fields,
            ExtendedType::Interface(interface) => &interface.fields,
            _ => return None,
        };
        fields.get_key_value(name).map(|(name, field)| (name, &***field))
    }

    fn visit(
        &mut self,
        set: &SelectionSet,
        document: &ExecutableDocument,
        seen: &mut BTreeSet<Name>,
    ) {
        let Some(of) = self.name(&set.ty) else { return };
        self.fields.entry(of).or_default();
        for selection in &set.selections {
            match selection {
                Selection::Field(field) => {
                    if let Some((name, definition)) = self.field(of, &field.name) {
                        self.fields.entry(of).or_default().insert(name);
                        self.take_other(definition.ty.inner_named_type());
                        for argument in &definition.arguments {
                            let given = field.arguments.iter().any(|g| g.name == argument.name);
                            if given || argument.is_required() {
                                self.arguments.entry(name).or_default().insert(&argument.name);
                                self.take_input(&argument.ty);
                            }
                        }
                    }
                    if !field.selection_set.selections.is_empty() {
                        self.visit(&field.selection_set, document, seen);
                    }
                }
                Selection::InlineFragment(inline) => {
                    self.visit(&inline.selection_set, document, seen);
                }
                Selection::FragmentSpread(spread) => {
                    if let Some(fragment) = document.fragments.get(&spread.fragment_name)
                        && seen.insert(spread.fragment_name.clone())
                    {
                        self.visit(&fragment.selection_set, document, seen);
                    }
                }
            }
        }
    }

    /// Adds an enumeration or a scalar of the service, but not any other type.
    fn take_other(&mut self, name: &Name) {
        let is_leaf = matches!(
            self.schema.types.get(name),
            Some(ExtendedType::Enum(_) | ExtendedType::Scalar(_))
        );
        if is_leaf {
            self.others.extend(self.name(name));
        }
    }

    /// Adds the type of a variable or an argument, and the types of its fields.
    fn take_input(&mut self, ty: &Type) {
        let mut waiting = vec![ty.inner_named_type().clone()];
        while let Some(name) = waiting.pop() {
            let Some(name) = self.name(&name).filter(|name| self.others.insert(name)) else {
                continue;
            };
            if let Some(ExtendedType::InputObject(object)) = self.schema.types.get(name) {
                waiting.extend(object.fields.values().map(|f| f.ty.inner_named_type().clone()));
            }
        }
    }

    /// Adds the fields of interfaces to the types that implement them, so that these types are valid, and
    /// the types of these fields.
    fn complete(&mut self) {
        let mut waiting: Vec<&'s Name> = self.fields.keys().copied().collect();
        while let Some(of) = waiting.pop() {
            for interface in self.interfaces(of) {
                let more = self.fields.get(interface).cloned().unwrap_or_default();
                for name in more {
                    let Some((_, definition)) = self.field(of, name) else { continue };
                    if !self.fields.entry(of).or_default().insert(name) {
                        continue;
                    }
                    let inner = definition.ty.inner_named_type();
                    self.take_other(inner);
                    let inner = self.name(inner).filter(|inner| self.is_composite(inner));
                    if let Some(inner) = inner.filter(|inner| !self.fields.contains_key(inner)) {
                        self.fields.insert(inner, BTreeSet::new());
                        // The type may be an interface of types that are complete already.
                        waiting = self.fields.keys().copied().collect();
                    }
                }
            }
        }
    }

    fn is_composite(&self, name: &Name) -> bool {
        let kind = self.schema.types.get(name);
        matches!(
            kind,
            Some(ExtendedType::Object(_) | ExtendedType::Interface(_) | ExtendedType::Union(_))
        )
    }

    /// Returns the object types that are named in the text without a field: the type of queries, and members
    /// of unions.
    fn types_without_fields(&self, query: &'s str) -> BTreeSet<&'s str> {
        let unions = self.fields.keys().filter_map(|name| match self.schema.types.get(*name) {
            Some(ExtendedType::Union(union)) => Some(union),
            _ => None,
        });
        let members = unions.flat_map(|union| union.members.iter().map(|m| m.name.as_str()));
        let known: BTreeSet<&str> = self.fields.keys().map(|name| name.as_str()).collect();
        members.chain([query]).filter(|name| !known.contains(name)).collect()
    }

    /// Returns those interfaces of a type that are also in use.
    fn interfaces(&self, of: &Name) -> Vec<&'s Name> {
        let all = match self.schema.types.get(of) {
            Some(ExtendedType::Object(object)) => &object.implements_interfaces,
            Some(ExtendedType::Interface(interface)) => &interface.implements_interfaces,
            _ => return Vec::new(),
        };
        let named = all.iter().filter_map(|interface| self.name(&interface.name));
        named.filter(|name| self.fields.contains_key(name)).collect()
    }

    fn write(&self) -> String {
        let mut text = String::new();
        let definition = &self.schema.schema_definition;
        let query = definition.query.as_ref().map_or("Query", |query| query.name.as_str());
        let mutation = definition.mutation.as_ref().filter(|m| self.fields.contains_key(&m.name));
        let mutation = mutation.map_or_else(String::new, |m| format!(" mutation: {}", m.name));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "schema {{ query: {query}{mutation} }}");
        for name in self.types_without_fields(query) {
            let _ = writeln!(text, "type {name} {{ {NO_FIELD} }}");
        }
        for (of, fields) in &self.fields {
            self.write_composite(of, fields, &mut text);
        }
        for name in &self.others {
            self.write_other(name, &mut text);
        }
        text
    }

    fn write_composite(&self, of: &Name, fields: &BTreeSet<&'s Name>, text: &mut String) {
        let word = match self.schema.types.get(of) {
            Some(ExtendedType::Object(_)) => "type",
            Some(ExtendedType::Interface(_)) => "interface",
            Some(ExtendedType::Union(union)) => {
                let members: Vec<&str> = union.members.iter().map(|m| m.name.as_str()).collect();
                let _ = writeln!(text, "union {of} = {}", members.join(" | "));
                return;
            }
            _ => return,
        };
        let interfaces = self.interfaces(of);
        let interfaces = match interfaces.as_slice() {
            [] => String::new(),
            some => {
                let names: Vec<&str> = some.iter().map(|name| name.as_str()).collect();
                format!(" implements {}", names.join(" & "))
            }
        };
        let written: Vec<String> = fields
            .iter()
            .filter_map(|name| {
                let (_, definition) = self.field(of, name)?;
                let given = self.arguments.get(name);
                let arguments = definition.arguments.iter().filter(|argument| {
                    argument.is_required()
                        || given.is_some_and(|given| given.contains(&argument.name))
                });
                let arguments: Vec<String> = arguments.map(|a| input_value(a, false)).collect();
                let arguments = match arguments.as_slice() {
                    [] => String::new(),
                    some => format!("({})", some.join(", ")),
                };
                Some(format!("{name}{arguments}: {}", definition.ty))
            })
            .collect();
        let written = if written.is_empty() { NO_FIELD.to_owned() } else { written.join(" ") };
        let _ = writeln!(text, "{word} {of}{interfaces} {{ {written} }}");
    }

    fn write_other(&self, name: &Name, text: &mut String) {
        match self.schema.types.get(name) {
            Some(ExtendedType::Enum(choices)) => {
                let names: Vec<&str> = choices.values.keys().map(Name::as_str).collect();
                let _ = writeln!(text, "enum {name} {{ {} }}", names.join(" "));
            }
            Some(scalar @ ExtendedType::Scalar(_)) if !scalar.is_built_in() => {
                let _ = writeln!(text, "scalar {name}");
            }
            Some(ExtendedType::InputObject(object)) => {
                let one_of = if object.directives.has("oneOf") { " @oneOf" } else { "" };
                let _ = writeln!(text, "input {name}{one_of} {{");
                for field in object.fields.values() {
                    let _ = writeln!(text, "  {}", input_value(field, true));
                }
                let _ = writeln!(text, "}}");
            }
            _ => {}
        }
    }
}

/// Writes `name: InferredType = default`, after the description.
fn input_value(value: &InputValueDefinition, described: bool) -> String {
    let about = value.description.as_ref().filter(|_| described);
    let about = about.map(|about| sanitize::clean_line(about, MAX_DESCRIPTION)).unwrap_or_default();
    let about = if about.is_empty() {
        String::new()
    } else {
        // Text of JSON is text of GraphQL.
        format!("{} ", serde_json::Value::String(about))
    };
    let default = value.default_value.as_ref();
    let default = default.map_or_else(String::new, |value| format!(" = {value}"));
    format!("{about}{}: {}{default}", value.name, value.ty)
}
