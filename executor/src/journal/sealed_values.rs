//! Values that events leave out, sealed with them until the run is over.
//!
//! Readers see only the event with placeholders in place of secrets, which is not enough to resume the run.
//! So the true values are stored sealed with it, together with the secrets learned until then: values that
//! were secret before a crash stay secret after it.

use std::collections::BTreeMap;

use a2s_api::{EventKind, RunEvent};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;
use zeroize::Zeroizing;

use super::wait_point::{WaitPoint, WaitPoints};
use crate::error::{Error, ErrorKind};
use crate::secrets::{NewSecrets, RunSecrets};
use crate::vault::{Ciphertext, Vault};

/// The values that an event leaves out.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct SealedValues {
    /// The true inputs of the run, or the true outputs of the step; `None` where the event contains them.
    pub(crate) values: Option<Map<String, Value>>,
    /// The secrets learned since the last event.
    pub(crate) secrets: NewSecrets,
    /// The point at which a step waits for an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wait_point: Option<WaitPoint>,
}

impl SealedValues {
    /// The values in an event before it is masked. `None` when nothing is secret.
    pub(crate) fn from_event(kind: &EventKind, secrets: &RunSecrets) -> Option<Self> {
        let outputs = recorded_outputs(kind).filter(|_| !secrets.is_empty())?;
        Some(Self { values: Some(outputs.clone()), ..Self::default() })
    }

    /// The wait point of a step. It is sealed alone, because it is deleted when the step ends.
    pub(crate) fn from_wait_point(wait_point: WaitPoint) -> Self {
        Self { wait_point: Some(wait_point), ..Self::default() }
    }

    /// The values that the masked event leaves out. `None` when it contains everything.
    pub(crate) fn without_recorded(self, masked: &EventKind, secrets: &RunSecrets) -> Option<Self> {
        let recorded = recorded_outputs(masked);
        let values = self.values.filter(|values| Some(values) != recorded);
        let secrets = secrets.take_new();
        (values.is_some() || !secrets.is_empty()).then(|| Self {
            values,
            secrets,
            wait_point: None,
        })
    }

    /// Seals the values for their event.
    ///
    /// # Errors
    /// Fails when there is no key.
    pub(crate) fn seal(&self, vault: &Vault, run: Uuid, seq: u64) -> Result<Ciphertext, Error> {
        let plain = serde_json::to_vec(self).map(Zeroizing::new).map_err(|_| {
            Error::new(
                ErrorKind::Internal,
                "the sealed values of an event could not be written as JSON",
            )
        })?;
        vault.seal_event(run, seq, &plain)
    }
}

/// The outputs of a step in its event.
fn recorded_outputs(kind: &EventKind) -> Option<&Map<String, Value>> {
    match kind {
        EventKind::StepFinished { outputs, .. } | EventKind::StepResolved { outputs, .. } => {
            Some(outputs)
        }
        _ => None,
    }
}

/// Restores the true values in events, in memory, and adds the secrets among them to `secrets`. Returns the
/// wait points of steps.
///
/// # Errors
/// Returns [`ErrorKind::VaultKey`] when a sealed value cannot be opened.
pub(crate) fn restore_values(
    events: &mut [RunEvent],
    sealed: &BTreeMap<u64, Ciphertext>,
    vault: &Vault,
    secrets: &RunSecrets,
) -> Result<WaitPoints, Error> {
    let mut wait_points = WaitPoints::new();
    for event in events {
        let Some(row) = sealed.get(&event.seq) else {
            if matches!(&event.kind, EventKind::RunStarted(started) if !started.secrets.is_empty())
            {
                return Err(Error::new(ErrorKind::VaultKey, "the secret inputs are missing"));
            }
            continue;
        };
        let plain = vault.open_event(event.run, event.seq, row)?;
        let hidden: SealedValues = serde_json::from_slice(&plain).map_err(|_| {
            Error::new(ErrorKind::VaultKey, "the sealed values of an event cannot be read")
        })?;
        if let Some(wait_point) = hidden.wait_point {
            wait_points.insert(event.seq, wait_point);
            continue;
        }
        secrets.restore_secrets(hidden.secrets)?;
        let Some(values) = hidden.values else { continue };
        match &mut event.kind {
            EventKind::RunStarted(started) => started.inputs = values,
            EventKind::StepFinished { outputs, .. } | EventKind::StepResolved { outputs, .. } => {
                *outputs = values;
            }
            _ => {}
        }
    }
    Ok(wait_points)
}
