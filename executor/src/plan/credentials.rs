//! The credentials that the steps of a plan want.

use a2s::TaskStep;
use a2s_api::{PlannedCredential, Principal};

use super::ExecutionPlan;
use crate::credential_requirements::{AvailableCredentials, CredentialRequirement, CredentialUser};
use crate::error::Error;

/// The maximum number of steps that are named with one credential.
const MAX_NAMED: usize = 100;

/// The requests of a plan that require credentials, and the available credentials.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlanCredentials {
    /// The requests, by the step names that policies use.
    pub(crate) accesses: Vec<(String, CredentialRequirement)>,
    pub(crate) available: AvailableCredentials,
}

impl PlanCredentials {
    /// Returns each credential once, with the steps that require it.
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

    /// Refuses a plan with a step that lacks credentials, so that a run does not stop halfway.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::CredentialMissing`] with the first such step and the remedy.
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
    /// Returns the requests that require credentials, in a run of `principal`.
    pub(crate) fn accesses(&self, principal: &Principal) -> Vec<(String, CredentialRequirement)> {
        let mut accesses = Vec::new();
        for unit in self.units() {
            let capability = unit.document.capability();
            let user = CredentialUser {
                principal: principal.clone(),
                capability: capability.name.clone(),
            };
            capability.for_each_task(|step, TaskStep { task, .. }| {
                if let Some(access) =
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
