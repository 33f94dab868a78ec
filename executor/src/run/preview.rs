//! Previews of a guardian's decisions about a plan's steps. Nothing that it says here permits
//! anything.

use std::collections::BTreeMap;

use a2s_api::Principal;
use a2s_api::{ItemPreview, PlanRequest, PlannedStep, PlannedStepKind, StepPreview};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use http::HeaderMap;
use uuid::Uuid;

use super::context::RunContext;
use super::resolver::PreparedRun;
use crate::clock::execution_id;
use crate::error::Error;
use crate::gate::{GuardedStep, InputSources};
use crate::plan::{ExecutionPlan, PreviewableStep};
use crate::request::ContractCache;
use crate::secrets::RunSecrets;

/// The maximum number of concurrent questions.
const MAX_CONCURRENT_PREVIEWS: usize = 8;

/// The previews of one plan.
struct PlanPreview<'p> {
    context: &'p RunContext,
    /// The principal that requested it.
    principal: &'p Principal,
    /// An id in place of a run id; it does not belong to a run.
    id: Uuid,
    session: String,
    plan: &'p ExecutionPlan,
    secrets: RunSecrets,
    contracts: ContractCache,
}

/// Asks the guardians about each task step with known inputs, and attaches their decisions to the steps.
///
/// # Errors
/// When there are more secrets than can be kept.
pub(super) async fn preview_plan(
    context: &RunContext,
    request: &PlanRequest,
    principal: &Principal,
    prepared: &PreparedRun,
    steps: &mut [PlannedStep],
) -> Result<(), Error> {
    let PreparedRun { plan, inputs, .. } = prepared;
    let id = context.new_run_id();
    let secrets = RunSecrets::new(context.ids.random_bytes());
    let previewable = plan.list_previewable_steps(inputs, &secrets)?;
    let session = request.session.clone().unwrap_or_else(|| id.to_string());
    let contracts = ContractCache::default();
    let preview = PlanPreview { context, principal, id, session, plan, secrets, contracts };
    let most = context.config.limits.max_previews;
    let mut left = most;
    let mut questions: Vec<BoxFuture<'_, PreviewedStep>> = Vec::new();
    for step in previewable {
        let is_known = step.needs.is_empty();
        let is_asked = is_known && left > 0;
        left -= usize::from(is_asked);
        questions.push(if is_asked {
            Box::pin(preview.ask(step))
        } else {
            let preview = if is_known {
                let reason = format!("the guardian previews at most {most} steps");
                StepPreview::NotAsked { reason }
            } else {
                StepPreview::Unknown { needs: step.needs.into_iter().collect() }
            };
            let PreviewableStep { step, path, .. } = step;
            Box::pin(std::future::ready(PreviewedStep { step, path, preview }))
        });
    }
    let mut answers = futures::stream::iter(questions).buffered(MAX_CONCURRENT_PREVIEWS);
    let mut previews: BTreeMap<String, Vec<ItemPreview>> = BTreeMap::new();
    while let Some(PreviewedStep { step, path, preview }) = answers.next().await {
        previews.entry(step).or_default().push(ItemPreview { step: path, preview });
    }
    attach_previews(steps, &mut previews);
    Ok(())
}

impl PlanPreview<'_> {
    /// Asks the guardians about one step.
    async fn ask(&self, step: PreviewableStep<'_>) -> PreviewedStep {
        let Self { context, principal, id, session, plan, secrets, contracts } = self;
        let capability = step.unit.document.capability();
        let execution_id = execution_id(*id, &step.path);
        let asker = GuardedStep {
            principal,
            run: *id,
            session,
            execution_id,
            step: &step.path,
            capability: &step.unit.pin,
            root: &plan.root.pin,
            description: &capability.description,
            permissions: &capability.permissions,
            domains: &capability.domains,
            sources: Some(InputSources { document: &step.unit.document, templates: step.inputs }),
            secrets,
            // Nothing is run, so there is nothing to be traced.
            trace: &&HeaderMap::new(),
        };
        let most = context.config.limits.max_request_bytes;
        let decided = match step.bind_inputs(execution_id, secrets, most) {
            Ok(filled) => {
                let contract = contracts.contract_for(step.task);
                context.gate.preview_request(&asker, &contract, &filled.values).await
            }
            Err(error) => Err(error),
        };
        let preview = match decided {
            Ok(mut decisions) => {
                decisions.iter_mut().for_each(|decision| secrets.mask_decision(decision));
                StepPreview::Decided { decisions }
            }
            Err(error) => StepPreview::NotAsked { reason: secrets.mask_text(&error.message) },
        };
        let PreviewableStep { step, path, .. } = step;
        PreviewedStep { step, path, preview }
    }
}

/// The preview of one step, or of one iteration of it.
struct PreviewedStep {
    /// Its path in the plan.
    step: String,
    /// Its path in a run.
    path: String,
    preview: StepPreview,
}

/// Attaches the previews to their steps.
fn attach_previews(steps: &mut [PlannedStep], previews: &mut BTreeMap<String, Vec<ItemPreview>>) {
    for step in steps {
        if let PlannedStepKind::Task { .. } = step.kind {
            // A step without previews gets an empty list.
            let mut items = previews.remove(&step.step).unwrap_or_default();
            step.preview = match items.as_slice() {
                [item] if item.step == step.step => items.pop().map(|item| item.preview),
                _ => Some(StepPreview::Each { items }),
            };
        }
        for below in step.kind.children_mut() {
            attach_previews(below, previews);
        }
        attach_previews(&mut step.catch, previews);
    }
}
