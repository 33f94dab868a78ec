//! Values that events leave out, sealed beside them for as long as the run is not over.
//!
//! An event with a placeholder where a secret stood is all that anybody may read, and not enough to
//! resume the run. So the values as they are lie sealed beside it, with the secrets that had been
//! learnt by then: what a run kept to itself before a crash, it keeps to itself behind it.

use std::collections::BTreeMap;

use a2s::api::{Event, EventKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;
use zeroize::Zeroizing;

use super::wait_point::{WaitPoint, WaitPoints};
use crate::error::{Error, Kind};
use crate::secrets::{News, Secrets};
use crate::vault::{Sealed, Vault};

/// What an event does not tell.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Hidden {
    /// The inputs of the run, or what the step set, as they are; none where the event tells them.
    pub(crate) values: Option<Map<String, Value>>,
    /// What was learnt to be secret since the last event.
    pub(crate) secrets: News,
    /// The place at which a step waits for an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wait_point: Option<WaitPoint>,
}

impl Hidden {
    /// What an event would tell of values, before it is masked. None when nothing is secret.
    pub(crate) fn of(kind: &EventKind, secrets: &Secrets) -> Option<Self> {
        let outputs = outputs(kind).filter(|_| !secrets.is_empty())?;
        Some(Self { values: Some(outputs.clone()), ..Self::default() })
    }

    /// The place at which a step waits. Nothing else is sealed with it, because it goes when the step ends.
    pub(crate) fn at(wait_point: WaitPoint) -> Self {
        Self { wait_point: Some(wait_point), ..Self::default() }
    }

    /// What is left to be hidden beside the masked event. None when it tells everything.
    pub(crate) fn unless_told(self, masked: &EventKind, secrets: &Secrets) -> Option<Self> {
        let told = outputs(masked);
        let values = self.values.filter(|values| Some(values) != told);
        let secrets = secrets.take_news();
        (values.is_some() || !secrets.is_empty()).then(|| Self {
            values,
            secrets,
            wait_point: None,
        })
    }

    /// Seals it for its event.
    ///
    /// # Errors
    /// When there is no key.
    pub(crate) fn seal(&self, vault: &Vault, run: Uuid, seq: u64) -> Result<Sealed, Error> {
        let plain = serde_json::to_vec(self).map(Zeroizing::new).map_err(|_| {
            Error::new(Kind::Internal, "what an event hides could not be written as JSON")
        })?;
        vault.seal_event(run, seq, &plain)
    }
}

/// What a step set, as its event tells it.
fn outputs(kind: &EventKind) -> Option<&Map<String, Value>> {
    match kind {
        EventKind::StepFinished { outputs, .. } | EventKind::StepResolved { outputs, .. } => {
            Some(outputs)
        }
        _ => None,
    }
}

/// Puts the true values back into events, in memory, and teaches `secrets` what must not be told. Gives the
/// places at which steps wait.
///
/// # Errors
/// [`Kind::VaultKey`] when something does not open.
pub(crate) fn reveal(
    events: &mut [Event],
    sealed: &BTreeMap<u64, Sealed>,
    vault: &Vault,
    secrets: &Secrets,
) -> Result<WaitPoints, Error> {
    let mut wait_points = WaitPoints::new();
    for event in events {
        let Some(row) = sealed.get(&event.seq) else {
            if matches!(&event.kind, EventKind::RunStarted(started) if !started.secrets.is_empty())
            {
                return Err(Error::new(Kind::VaultKey, "the secret inputs are not there"));
            }
            continue;
        };
        let plain = vault.open_event(event.run, event.seq, row)?;
        let hidden: Hidden = serde_json::from_slice(&plain)
            .map_err(|_| Error::new(Kind::VaultKey, "what an event hides cannot be read"))?;
        if let Some(wait_point) = hidden.wait_point {
            wait_points.insert(event.seq, wait_point);
            continue;
        }
        secrets.relearn(hidden.secrets)?;
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
