//! The optional parameters that an import leaves out.

use std::collections::BTreeSet;

use a2s::did_you_mean;

use super::extract_operation::ExtractError;
use super::operation::SpecOperation;
use super::parameter::TaskParameter;
use crate::import::ImportError;
use crate::import::ref_resolver::quote_for_message;

/// The most names that a hint lists.
const MAX_LISTED: usize = 10;

/// Removes the parameters of an operation with one of these names.
///
/// # Errors
/// Fails when the operation requires one of them.
pub(super) fn omit_parameters(
    operation: SpecOperation<'_>,
    names: &[String],
    parameters: &mut Vec<TaskParameter<'_>>,
) -> Result<(), ExtractError> {
    for name in names {
        let required = parameters.iter().find(|known| known.is_called(name) && known.required);
        if let Some(required) = required {
            let reason = format!(
                "the operation requires the {} parameter `{}`; the import can leave out only optional parameters",
                required.location.as_str(),
                quote_for_message(&required.name)
            );
            let hint = "Import this operation without `--without` for this parameter.";
            return Err(ExtractError::new(operation.location(), reason).with_hint(hint));
        }
        parameters.retain(|known| !known.is_called(name));
    }
    Ok(())
}

/// Checks that each name is the name of a parameter of one of the operations.
///
/// # Errors
/// Fails for the first name that is not.
pub(super) fn check_names<'a>(
    names: &[String],
    operations: impl Iterator<Item = SpecOperation<'a>>,
) -> Result<(), ImportError> {
    if names.is_empty() {
        return Ok(());
    }
    let mut missing: Vec<&String> = names.iter().collect();
    let mut optional = BTreeSet::new();
    for operation in operations {
        // An operation whose parameters cannot be read is rejected later, with the reason.
        let Ok(parameters) = TaskParameter::read_all(operation, &mut Vec::new()) else { continue };
        missing.retain(|name| !parameters.iter().any(|known| known.is_called(name)));
        let fitting = parameters.into_iter().filter(|known| !known.required);
        optional.extend(fitting.map(|known| known.name));
    }
    let Some(name) = missing.first() else { return Ok(()) };
    let message = format!("no imported operation has a parameter `{}`", quote_for_message(name));
    Err(ImportError::new(message, describe_names(name, &optional)))
}

/// Returns the hint for an unknown name: the closest optional parameter, or the first ones.
fn describe_names(name: &str, optional: &BTreeSet<String>) -> String {
    if let Some(close) = did_you_mean(name, optional.iter().map(String::as_str)) {
        return format!("Did you mean `{}`?", quote_for_message(close));
    }
    if optional.is_empty() {
        return "The operations have no optional parameters.".to_owned();
    }
    let listed = optional.iter().take(MAX_LISTED);
    let listed: Vec<String> = listed.map(|name| format!("`{}`", quote_for_message(name))).collect();
    let more = match optional.len() - listed.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("The optional parameters are {}{more}.", listed.join(", "))
}
