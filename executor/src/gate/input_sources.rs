//! The variables that fill the inputs of a step, for errors about their values.

use a2s::{Document, InputLocation, TaskInputs, Template, VariableReference};

use super::GuardedStep;
use crate::error::Error;
use crate::request::PrepareError;

/// The templates of a step's inputs, with the document that contains the step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InputSources<'a> {
    pub(crate) document: &'a Document,
    pub(crate) templates: &'a TaskInputs,
}

impl GuardedStep<'_> {
    /// Converts an error about the inputs. It begins with the name of the input, or the reference, that
    /// gives the value: callers do not know the location in the request.
    pub(super) fn to_input_error(self, error: PrepareError) -> Error {
        let location = error.value_location();
        let source = location.and_then(|(place, at)| self.sources?.describe_source(place, at));
        let error = Error::from(error);
        match source {
            Some(source) => error.with_context(source),
            None => error,
        }
    }
}

impl InputSources<'_> {
    /// Describes the variable that fills the part `at` of an input, such as `.items[3].name`. Returns `None`
    /// for a value that the document itself states, or several variables.
    fn describe_source(&self, place: &InputLocation, at: &str) -> Option<String> {
        let reference = find_reference(self.templates.get(place)?, at)?;
        let name = reference.variable();
        let is_input = self.document.interface().inputs.iter().any(|input| input.name == name);
        Some(match is_input {
            true => format!("input `{name}`"),
            false => format!("`${{{reference}}}`"),
        })
    }
}

/// Finds the only reference that fills the part `at` of a template.
fn find_reference<'t>(template: &'t Template, at: &str) -> Option<&'t VariableReference> {
    match template {
        Template::Literal(_) => None,
        Template::Reference(reference) => Some(reference),
        Template::Text(_) => {
            let references = template.references();
            let (first, others) = references.split_first()?;
            others.iter().all(|other| other == first).then_some(*first)
        }
        Template::Array(items) => {
            let (index, rest) = at.strip_prefix('[')?.split_once(']')?;
            find_reference(items.get(index.parse::<usize>().ok()?)?, rest)
        }
        Template::Object(members) => {
            let at = at.strip_prefix('.')?;
            members.iter().find_map(|(name, member)| {
                let rest = at.strip_prefix(name.as_str())?;
                let is_whole = rest.is_empty() || rest.starts_with(['.', '[']);
                is_whole.then(|| find_reference(member, rest)).flatten()
            })
        }
    }
}
