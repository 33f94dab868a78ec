//! A run as its journal and its sealed values describe it.

use std::sync::Arc;

use a2s_api::RunEvent;
use uuid::Uuid;

use super::context::RunContext;
use super::not_found;
use crate::error::Error;
use crate::journal::run_state::{RunHeader, RunProgress, RunState};
use crate::journal::sealed_values::restore_values;
use crate::secrets::RunSecrets;

/// A run that can continue.
#[derive(Debug)]
pub(super) struct RestoredRun {
    pub(super) state: RunState,
    pub(super) header: RunHeader,
    pub(super) progress: RunProgress,
    /// The secret values that the run has had so far.
    pub(super) secrets: Arc<RunSecrets>,
    /// The error of sealed values that cannot be opened: then they are missing in the rest.
    pub(super) lost: Option<Error>,
}

impl RestoredRun {
    /// Restores a run from its events, which get the values that they leave out.
    ///
    /// # Errors
    /// When there are no events, or the sealed values cannot be read.
    pub(super) async fn from_events(
        context: &RunContext,
        run: Uuid,
        events: &mut [RunEvent],
    ) -> Result<Self, Error> {
        let state = RunState::from_events(events).ok_or_else(|| not_found(run))?;
        let sealed = context.store.read_sealed(run).await?;
        let secrets = context.new_secrets();
        let restored = restore_values(events, &sealed, &context.vault, &secrets);
        let (progress, lost) = match restored {
            Ok(wait_points) => (RunProgress::with_wait_points(events, wait_points), None),
            Err(error) => (RunProgress::from_events(events), Some(error)),
        };
        let header = RunHeader::from_events(events).ok_or_else(|| not_found(run))?;
        Ok(Self { state, header, progress, secrets, lost })
    }

    /// Returns the run with all its values.
    ///
    /// # Errors
    /// When the sealed values could not be opened.
    pub(super) fn complete(self) -> Result<Self, Error> {
        match self.lost {
            None => Ok(self),
            Some(error) => Err(error),
        }
    }
}
