//! The inputs of a task, filled in: as they are sent, and as they are told.

use a2s::{Place, Task, TaskInputs};
use indexmap::IndexMap;
use serde_json::Value;
use uuid::Uuid;

use super::Unit;
use crate::error::{Error, Kind};
use crate::gate::Inputs;
use crate::scope::Scope;
use crate::secrets::{Secrets, hidden};

/// The inputs of a task, ready to be sent.
pub(crate) struct Filled {
    truth: IndexMap<Place, Value>,
    /// The same as they may be told, where that is something else.
    shown: Option<IndexMap<Place, Value>>,
    /// What request and result are correlated by.
    pub(crate) execution_id: Uuid,
    /// Whether the address has a secret that could not be found in it.
    pub(crate) hides_address: bool,
}

impl Filled {
    /// As they are sent, and as a guardian sees them.
    pub(crate) fn inputs(&self) -> Inputs<'_> {
        Inputs { truth: &self.truth, shown: self.shown.as_ref().unwrap_or(&self.truth) }
    }
}

impl Unit {
    /// Fills the places of a task of this capability. What is absent is left out.
    ///
    /// # Errors
    /// When a reference has no value, or there would be more than `max_bytes`.
    pub(crate) fn fill(
        &self,
        task: &Task,
        inputs: &TaskInputs,
        execution_id: Uuid,
        scope: &Scope<'_>,
        secrets: &Secrets,
        max_bytes: usize,
    ) -> Result<Filled, Error> {
        let mut truth = IndexMap::with_capacity(inputs.len());
        let mut shown = (!secrets.is_empty()).then(IndexMap::new);
        let mut hides_address = false;
        let mut bytes: usize = 0;
        for (place, template) in inputs {
            bytes = bytes.saturating_add(scope.weigh(template));
            if bytes > max_bytes {
                let message = format!("the inputs have more than {max_bytes} bytes");
                return Err(Error::new(Kind::RequestTooLarge, message));
            }
            let value = scope.render(template).map_err(|missing| {
                Error::new(Kind::TemplateError, missing.to_string()).at(format_args!("`{place}`"))
            })?;
            let Some(value) = value else { continue };
            if let Some(shown) = &mut shown {
                let hides = self.sensitive.hides(template, scope);
                let may_be_told = if hides { hidden() } else { secrets.mask(&value) };
                shown.insert(place.clone(), may_be_told);
                hides_address |= hides && matches!(place, Place::Path(_) | Place::Query(_));
            }
            truth.insert(place.clone(), value);
        }
        if let Some(key) = task.idempotency_key()
            && !truth.keys().any(|place| key.is_at(place))
        {
            let place = key.input_place();
            // The same after a restart, and another for each step and iteration.
            let value = Value::String(execution_id.to_string());
            if let Some(shown) = &mut shown {
                shown.insert(place.clone(), value.clone());
            }
            truth.insert(place, value);
        }
        Ok(Filled { truth, shown, execution_id, hides_address })
    }
}
