//! What the guardian says of a plan's steps before there is a run. Nothing that it says here permits
//! anything.

use std::collections::BTreeMap;

use a2s::api::{PlanRequest, PlannedStep, PlannedStepKind, Preview};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use http::HeaderMap;
use uuid::Uuid;

use super::Runs;
use super::prepare::Prepared;
use crate::clock::{execution_id, new_run_id};
use crate::error::Error;
use crate::gate::Asker;
use crate::plan::{Foreseen, Plan};
use crate::request::Contracts;
use crate::secrets::Secrets;

/// Questions that are asked at the same time.
const AT_ONCE: usize = 8;

/// What one preview goes with.
struct Occasion<'p> {
    /// Stands in the place of a run, and of no run.
    id: Uuid,
    session: String,
    plan: &'p Plan,
    secrets: Secrets,
    contracts: Contracts,
}

impl Runs {
    /// Asks about each task step whose inputs are known, and writes the answers to the steps.
    ///
    /// # Errors
    /// When there are more secrets than can be kept.
    pub(super) async fn preview(
        &self,
        request: &PlanRequest,
        prepared: &Prepared,
        steps: &mut [PlannedStep],
    ) -> Result<(), Error> {
        let Prepared { plan, inputs, .. } = prepared;
        let id = new_run_id(&self.clock, &self.ids);
        let secrets = Secrets::new(self.ids.random());
        let foreseen = plan.foresee(inputs, &secrets)?;
        let session = request.session.clone().unwrap_or_else(|| id.to_string());
        let contracts = Contracts::default();
        let occasion = Occasion { id, session, plan, secrets, contracts };
        let most = self.config.limits.max_previews;
        let mut left = most;
        let mut questions: Vec<BoxFuture<'_, (String, Preview)>> = Vec::new();
        for step in foreseen {
            let is_known = step.needs.is_empty();
            let is_asked = is_known && left > 0;
            left -= usize::from(is_asked);
            questions.push(if is_asked {
                Box::pin(self.ask_about(step, &occasion))
            } else {
                let preview = if is_known {
                    let reason = format!("{most} steps are asked about at the most");
                    Preview::NotAsked { reason }
                } else {
                    Preview::Unknown { needs: step.needs.into_iter().collect() }
                };
                Box::pin(std::future::ready((step.path, preview)))
            });
        }
        let asked = futures::stream::iter(questions).buffer_unordered(AT_ONCE);
        let mut previews: BTreeMap<_, _> = asked.collect().await;
        attach(steps, &mut previews);
        Ok(())
    }

    async fn ask_about(&self, step: Foreseen<'_>, occasion: &Occasion<'_>) -> (String, Preview) {
        let Occasion { id, session, plan, secrets, contracts } = occasion;
        let capability = step.unit.document.capability();
        let execution_id = execution_id(*id, &step.path);
        let asker = Asker {
            run: *id,
            session,
            execution_id,
            step: &step.path,
            capability: &step.unit.pin,
            root: &plan.root.pin,
            description: &capability.description,
            permissions: &capability.permissions,
            domains: &capability.domains,
            secrets,
            // Nothing is run, so there is nothing to be traced.
            trace: &HeaderMap::new(),
        };
        let most = self.config.limits.max_request_bytes;
        let decided = match step.fill(execution_id, secrets, most) {
            Ok(filled) => {
                let contract = contracts.of(step.task);
                self.gate.preview_request(&asker, &contract, filled.inputs()).await
            }
            Err(error) => Err(error),
        };
        let preview = match decided {
            Ok(mut decision) => {
                secrets.mask_decision(&mut decision);
                Preview::Decided { decision }
            }
            Err(error) => Preview::NotAsked { reason: secrets.mask_text(&error.message) },
        };
        (step.path, preview)
    }
}

/// Gives each step what is said of it.
fn attach(steps: &mut [PlannedStep], previews: &mut BTreeMap<String, Preview>) {
    for step in steps {
        match &mut step.kind {
            PlannedStepKind::Task { .. } => step.preview = previews.remove(&step.step),
            PlannedStepKind::Capability { steps, .. }
            | PlannedStepKind::Sequence { steps }
            | PlannedStepKind::Parallel { steps } => attach(steps, previews),
            PlannedStepKind::Condition { if_true, if_false, .. } => {
                attach(if_true, previews);
                attach(if_false, previews);
            }
        }
        attach(&mut step.catch, previews);
    }
}
