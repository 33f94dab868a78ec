//! The search for the task step that an example or a mock names.

use super::{Capability, CapabilityStep, Step, StepAction, StepPath};
use crate::diagnostic::did_you_mean;

/// The task step at a step path; `None` when the path leads into another capability, because only the
/// document of that capability shows the step.
///
/// # Errors
/// A message, and possibly a hint, when the path does not lead to a task.
pub(crate) fn find_task<'c>(
    capability: &'c Capability,
    way: &StepPath,
) -> Result<Option<&'c Step>, (String, Option<String>)> {
    let mut steps = capability.execution.children();
    let mut found: Option<&Step> = None;
    for piece in way.segments() {
        if let Some(StepAction::Capability { .. }) = found.map(|step| &step.action)
            && !steps.iter().any(|step| step.id == piece.id)
        {
            return Ok(None);
        }
        let Some(step) = Step::path_to(&steps, &piece.id).and_then(|way| way.last().copied())
        else {
            let tasks = tasks_of(capability);
            let close = did_you_mean(piece.id.as_str(), tasks.iter().copied());
            let hint = close.map(|close| format!("Did you mean `{close}`?"));
            return Err((format!("unknown task step `{way}`"), hint));
        };
        if piece.iteration.is_some() && step.control.for_each.is_none() {
            let message = format!("`{}` has no `for_each`, so it has no iterations", step.id);
            return Err((message, Some(format!("Write `{}`.", piece.id))));
        }
        steps = step.children();
        found = Some(step);
    }
    let action = found.map(|step| &step.action);
    if action.is_some_and(|action| action.as_task().is_some()) {
        return Ok(found);
    }
    match action.and_then(StepAction::as_capability) {
        Some(CapabilityStep { capability, .. }) => {
            let message = format!("`{way}` is not a task step: it uses `{capability}`");
            let hint = format!("Name a task step of `{capability}`: `{way}/STEP`.");
            Err((message, Some(hint)))
        }
        None => Err((format!("`{way}` is a block of steps, not a task step"), None)),
    }
}

fn tasks_of(capability: &Capability) -> Vec<&str> {
    let mut tasks = Vec::new();
    capability.for_each_step(|step| {
        if matches!(step.action, StepAction::Task { .. }) {
            tasks.push(step.id.as_str());
        }
    });
    tasks
}
