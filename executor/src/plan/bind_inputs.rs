//! The inputs of a task with their values: as they are sent, and as they are shown.

use a2s::{InputLocation, Task, TaskInputs};
use indexmap::IndexMap;
use serde_json::Value;
use uuid::Uuid;

use super::PlanUnit;
use crate::error::{Error, ErrorKind};
use crate::gate::GuardedInputs;
use crate::scope::VariableScope;
use crate::secrets::{RunSecrets, secret_placeholder};

/// The inputs of a task, ready to be sent.
pub(crate) struct BoundInputs {
    actual: IndexMap<InputLocation, Value>,
    /// The inputs as they are shown, where that differs.
    masked: Option<IndexMap<InputLocation, Value>>,
    /// The id that correlates request and result.
    pub(crate) execution_id: Uuid,
    /// Set when the address contains a secret that could not be found in it.
    pub(crate) has_secret_address: bool,
}

impl BoundInputs {
    /// Returns the inputs as they are sent, and as a guardian sees them.
    pub(crate) fn to_guarded(&self) -> GuardedInputs<'_> {
        GuardedInputs { actual: &self.actual, masked: self.masked.as_ref().unwrap_or(&self.actual) }
    }
}

impl PlanUnit {
    /// Fills the inputs of a task of this capability. Absent values are left out.
    ///
    /// # Errors
    /// When a reference has no value, or there would be more than `max_bytes`.
    pub(crate) fn bind_inputs(
        &self,
        task: &Task,
        inputs: &TaskInputs,
        execution_id: Uuid,
        scope: &VariableScope<'_>,
        secrets: &RunSecrets,
        max_bytes: usize,
    ) -> Result<BoundInputs, Error> {
        let mut truth = IndexMap::with_capacity(inputs.len());
        let mut shown = (!secrets.is_empty()).then(IndexMap::new);
        let mut hides_address = false;
        let mut bytes: usize = 0;
        for (place, template) in inputs {
            bytes = bytes.saturating_add(scope.estimate_size(template));
            if bytes > max_bytes {
                let message = format!("the inputs have more than {max_bytes} bytes");
                return Err(Error::new(ErrorKind::RequestTooLarge, message));
            }
            let value = scope.render_optional(template).map_err(|missing| {
                Error::new(ErrorKind::TemplateError, missing.to_string())
                    .with_context(format_args!("`{place}`"))
            })?;
            let Some(value) = value else { continue };
            if let Some(shown) = &mut shown {
                let hides = self.sensitive.hides_secret(template, scope);
                let is_public = if hides { secret_placeholder() } else { secrets.mask(&value) };
                shown.insert(place.clone(), is_public);
                hides_address |=
                    hides && matches!(place, InputLocation::Path(_) | InputLocation::Query(_));
            }
            truth.insert(place.clone(), value);
        }
        if let Some(key) = task.idempotency_key()
            && !truth.keys().any(|place| key.is_at(place))
        {
            let place = key.input_location();
            // The same after a restart, and another for each step and iteration.
            let value = Value::String(execution_id.to_string());
            if let Some(shown) = &mut shown {
                shown.insert(place.clone(), value.clone());
            }
            truth.insert(place, value);
        }
        Ok(BoundInputs {
            actual: truth,
            masked: shown,
            execution_id,
            has_secret_address: hides_address,
        })
    }
}
