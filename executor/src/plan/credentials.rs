//! The credentials that the steps of a plan want.

use a2s::Action;
use a2s::api::PlannedCredential;

use super::Plan;
use crate::access::{Access, Held};
use crate::error::Error;

/// The most steps that are named with one credential.
const MAX_NAMED: usize = 100;

impl Plan {
    /// Each credential once, with the steps that want it.
    pub(crate) fn credentials(&self, held: &Held) -> Vec<PlannedCredential> {
        let mut planned: Vec<PlannedCredential> = Vec::new();
        for (step, access) in self.accesses() {
            for credential in access.plan(held) {
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

    /// Whether any step asks who is let in.
    pub(crate) fn wants_credentials(&self) -> bool {
        !self.accesses().is_empty()
    }

    /// Refuses a plan with a step that lacks credentials, so that no run stops halfway for them.
    ///
    /// # Errors
    /// [`crate::Kind::CredentialMissing`], naming the first such step and what to do.
    pub(crate) fn check_credentials(&self, held: &Held) -> Result<(), Error> {
        for (step, access) in self.accesses() {
            if let Err(lack) = access.choose(held) {
                return Err(lack.into_error().at(format_args!("step `{step}`")));
            }
        }
        Ok(())
    }

    /// What each task step says about who is let in, by the name that policies know it by.
    fn accesses(&self) -> Vec<(String, Access)> {
        let mut accesses = Vec::new();
        for unit in self.units() {
            let capability = unit.document.capability();
            capability.for_each_step(|step| {
                if let Action::Task { task, .. } = &step.action
                    && let Some(access) = Access::of(task, &capability.domains)
                {
                    let name = format!("{}.{}", capability.name, step.id.as_str());
                    accesses.push((name, access));
                }
            });
        }
        accesses
    }
}
