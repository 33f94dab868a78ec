//! The credentials that the steps of a plan want.

use a2s::api::PlannedCredential;
use a2s::{Principal, StepAction};

use super::ExecutionPlan;
use crate::credential_requirements::{AvailableCredentials, CredentialRequirement, CredentialUser};
use crate::error::Error;

/// The most steps that are named with one credential.
const MAX_NAMED: usize = 100;

/// The requests of a plan that want credentials, and the credentials that there are for them.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlanCredentials {
    /// By the name of the step that policies know.
    pub(crate) accesses: Vec<(String, CredentialRequirement)>,
    pub(crate) available: AvailableCredentials,
}

impl PlanCredentials {
    /// Each credential once, with the steps that want it.
    pub(crate) fn list(&self) -> Vec<PlannedCredential> {
        let mut planned: Vec<PlannedCredential> = Vec::new();
        for (step, access) in &self.accesses {
            for credential in access.plan_credentials(&self.available) {
                let same = planned.iter_mut().find(|known| {
                    known.host == credential.host
                        && known.scheme == credential.scheme
                        && known.kind == credential.kind
                });
                match same {
                    Some(known) if known.steps.len() < MAX_NAMED => known.steps.push(step.clone()),
                    Some(_) => {}
                    None => {
                        let steps = vec![step.clone()];
                        planned.push(PlannedCredential { steps, ..credential });
                    }
                }
            }
        }
        planned
    }

    /// Refuses a plan with a step that lacks credentials, so that no run stops halfway for them.
    ///
    /// # Errors
    /// [`crate::ErrorKind::CredentialMissing`], naming the first such step and what to do.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for (step, access) in &self.accesses {
            if let Err(lack) = access.choose_alternative(&self.available) {
                return Err(lack.into_error().with_context(format_args!("step `{step}`")));
            }
        }
        Ok(())
    }
}

impl ExecutionPlan {
    /// The requests that want credentials, in a run of `principal`.
    pub(crate) fn accesses(&self, principal: &Principal) -> Vec<(String, CredentialRequirement)> {
        let mut accesses = Vec::new();
        for unit in self.units() {
            let capability = unit.document.capability();
            let user = CredentialUser {
                principal: principal.clone(),
                capability: capability.name.clone(),
            };
            capability.for_each_step(|step| {
                if let StepAction::Task { task, .. } = &step.action
                    && let Some(access) =
                        CredentialRequirement::from_task(task, &capability.domains, user.clone())
                {
                    let name = format!("{}.{}", capability.name, step.id.as_str());
                    accesses.push((name, access));
                }
            });
        }
        accesses
    }
}
