//! The selection of a query: the members of its response.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use apollo_compiler::ast;

use crate::budget::AnalysisBudget;

/// The maximum number of selections that are examined for one query.
const MAX_SELECTIONS: usize = 200_000;

/// The selections at one location of a query; fragments are looked up when they are met.
#[derive(Debug, Clone)]
pub(crate) struct FieldSelection {
    fragments: Rc<QueryFragments>,
    sets: Rc<[Vec<ast::Selection>]>,
}

#[derive(Debug)]
struct QueryFragments {
    by_name: BTreeMap<String, Vec<ast::Selection>>,
    fuel: AnalysisBudget,
}

/// The selected value under a name.
#[derive(Debug, Clone)]
pub(crate) enum SelectedField {
    /// A field with nested selections: an object, or a list of objects.
    Nested(FieldSelection),
    /// A field without nested selections: a scalar of any type, or a list of scalars.
    Leaf,
    /// Nothing.
    NotSelected,
    /// A value that the document does not describe.
    Unknown,
}

impl FieldSelection {
    pub(crate) fn new(document: &ast::Document, operation: &ast::OperationDefinition) -> Self {
        let fragments = document.definitions.iter().filter_map(|definition| match definition {
            ast::Definition::FragmentDefinition(fragment) => {
                Some((fragment.name.to_string(), fragment.selection_set.clone()))
            }
            _ => None,
        });
        let fragments = QueryFragments {
            by_name: fragments.collect(),
            fuel: AnalysisBudget::with_amount(MAX_SELECTIONS),
        };
        let sets = [operation.selection_set.clone()];
        Self { fragments: Rc::new(fragments), sets: Rc::new(sets) }
    }

    /// The selected value under `name`, which is the alias if there is one.
    pub(crate) fn member(&self, name: &str) -> SelectedField {
        let (fields, whole) = self.fields();
        let found: Vec<_> = fields.iter().filter(|field| key(field) == name).collect();
        if found.is_empty() {
            return if whole { SelectedField::NotSelected } else { SelectedField::Unknown };
        }
        let sets: Vec<_> = found.iter().map(|field| field.selection_set.clone()).collect();
        if sets.iter().all(Vec::is_empty) {
            return SelectedField::Leaf;
        }
        SelectedField::Nested(Self { fragments: Rc::clone(&self.fragments), sets: sets.into() })
    }

    /// Returns the selections below `name`, if there are any.
    pub(crate) fn below(&self, name: &str) -> Option<Self> {
        match self.member(name) {
            SelectedField::Nested(below) => Some(below),
            SelectedField::Leaf | SelectedField::NotSelected | SelectedField::Unknown => None,
        }
    }

    /// Returns the names of the members.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for field in self.fields().0 {
            let key = key(field);
            if !names.iter().any(|name| name == key) {
                names.push(key.to_owned());
            }
        }
        names
    }

    /// Returns the fields, including the fields of fragments, and true when these are all fields.
    fn fields(&self) -> (Vec<&ast::Field>, bool) {
        let mut fields = Vec::new();
        let mut met = BTreeSet::new();
        let mut whole = true;
        let mut waiting: Vec<&[ast::Selection]> =
            self.sets.iter().rev().map(Vec::as_slice).collect();
        while let Some(set) = waiting.pop() {
            let Some((first, rest)) = set.split_first() else { continue };
            if !self.fragments.fuel.spend(1) {
                return (fields, false);
            }
            waiting.push(rest);
            match first {
                ast::Selection::Field(field) => fields.push(&**field),
                ast::Selection::InlineFragment(fragment) => waiting.push(&fragment.selection_set),
                ast::Selection::FragmentSpread(spread) => {
                    let name = spread.fragment_name.as_str();
                    match self.fragments.by_name.get(name) {
                        Some(set) if met.insert(name) => waiting.push(set),
                        Some(_) => {}
                        None => whole = false,
                    }
                }
            }
        }
        (fields, whole)
    }
}

/// Returns the name of a field in the response.
fn key(field: &ast::Field) -> &str {
    field.alias.as_ref().unwrap_or(&field.name).as_str()
}
