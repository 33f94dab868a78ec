//! The inputs of a task with their values: as they are sent, and as they are shown.

use a2s::{InputLocation, MissingReference, Task, TaskInputs, VariableReference, VariableSource};
use indexmap::IndexMap;
use serde_json::Value;
use uuid::Uuid;

use super::PlanUnit;
use super::plan_analysis::SecretVariables;
use crate::error::{Error, ErrorKind};
use crate::request::mask_binary;
use crate::scope::VariableScope;
use crate::secrets::{MaskedInputs, RunSecrets, secret_placeholder};

/// The inputs of a task, ready to be sent.
pub(crate) struct BoundInputs {
    pub(crate) values: MaskedInputs,
    /// The id that correlates request and result.
    pub(crate) execution_id: Uuid,
    /// Set when the address contains a secret that could not be found in it.
    pub(crate) has_secret_address: bool,
}

/// The variables of a capability as they are shown. The literal text of a template is public, so only the
/// values of references are masked.
struct ShownVariables<'a, 'p> {
    scope: &'a VariableScope<'p>,
    sensitive: &'a SecretVariables,
    secrets: &'a RunSecrets,
}

impl VariableSource for ShownVariables<'_, '_> {
    fn variable(&self, name: &str) -> Option<&Value> {
        self.scope.variable(name)
    }

    fn is_absent(&self, name: &str) -> bool {
        self.scope.is_absent(name)
    }

    fn replacement(&self, reference: &VariableReference, value: &Value) -> Option<Value> {
        let is_hidden = self.sensitive.hides(reference, value);
        Some(if is_hidden { secret_placeholder() } else { self.secrets.mask(value) })
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
        let mut actual = IndexMap::with_capacity(inputs.len());
        let mut shown = (!secrets.is_empty()).then(IndexMap::new);
        let variables = ShownVariables { scope, sensitive: &self.sensitive, secrets };
        let mut hides_address = false;
        let mut bytes: usize = 0;
        for (place, template) in inputs {
            bytes = bytes.saturating_add(scope.estimate_size(template));
            if bytes > max_bytes {
                let message = format!("the inputs have more than {max_bytes} bytes");
                return Err(Error::new(ErrorKind::RequestTooLarge, message));
            }
            let unresolved = |missing: MissingReference| {
                Error::new(ErrorKind::TemplateError, missing.to_string())
                    .with_context(format_args!("`{place}`"))
            };
            let Some(value) = template.render_input(place, scope).map_err(unresolved)? else {
                continue;
            };
            if let Some(shown) = &mut shown {
                let masked = template.render_input(place, &variables).map_err(unresolved)?;
                let has_secret = |text: &str| secrets.mask_text(text) != text;
                shown.insert(place.clone(), mask_binary(masked.unwrap_or_default(), &has_secret));
                hides_address |= matches!(place, InputLocation::Path(_) | InputLocation::Query(_))
                    && self.sensitive.hides_secret(template, scope);
            }
            actual.insert(place.clone(), value);
        }
        if let Some(key) = task.idempotency_key()
            && !actual.keys().any(|place| key.is_at(place))
        {
            let place = key.input_location();
            // The same after a restart, and another for each step and iteration.
            let value = Value::String(execution_id.to_string());
            if let Some(shown) = &mut shown {
                shown.insert(place.clone(), value.clone());
            }
            actual.insert(place, value);
        }
        let values = match shown {
            Some(shown) => MaskedInputs::new(actual, shown),
            None => actual.into(),
        };
        Ok(BoundInputs { values, execution_id, has_secret_address: hides_address })
    }
}
