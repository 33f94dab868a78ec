//! Actions after success and failure. The import keeps `retry`; the other actions either match the normal
//! behavior of a run, or have no equivalent.

use serde_json::{Map, Value, json};

use super::success_criteria::{self, SuccessCriterion};
use super::value_scope::WorkflowScope;
use crate::import::ref_resolver::{RefResolver, quote_for_message};

/// The maximum number of attempts of a request.
const MAX_ATTEMPTS: u64 = 10;
/// The maximum number of statuses for a retry. Of a longer list, the import uses only those in
/// [`DEFAULT_RETRY_STATUSES`].
const MAX_STATUSES: usize = 12;
/// The statuses after which another attempt is likely to succeed.
const DEFAULT_RETRY_STATUSES: [u16; 7] = [408, 425, 429, 500, 502, 503, 504];

/// Builds the `retry` of a step from its actions and those of its workflow.
pub(super) fn retry(
    source: RefResolver<'_>,
    step: &Value,
    workflow: &Value,
    place: &str,
    scope: &mut WorkflowScope<'_>,
) -> Option<Value> {
    for (owner, key) in [(step, "onSuccess"), (workflow, "successActions")] {
        for action in actions(source, owner, key, "successActions") {
            let kind = action.get("type").and_then(Value::as_str).unwrap_or_default();
            scope.add_warning(
                place,
                format!("the import drops the action `{}` after success", quote_for_message(kind)),
            );
        }
    }
    let mut retry = None;
    for (owner, key) in [(step, "onFailure"), (workflow, "failureActions")] {
        for action in actions(source, owner, key, "failureActions") {
            let elsewhere = action.get("stepId").or_else(|| action.get("workflowId")).is_some();
            match action.get("type").and_then(Value::as_str).unwrap_or_default() {
                // A step that failed ends the run.
                "end" => {}
                "retry" if !elsewhere && retry.is_none() => {
                    retry = Some(read_retry_action(action, place, scope));
                }
                "retry" if !elsewhere => {
                    scope.add_warning(place, "a step has one `retry`; the import drops the others");
                }
                kind => {
                    let message = format!(
                        "the import drops the action `{}` to another step after failure",
                        quote_for_message(kind)
                    );
                    scope.add_warning(place, message);
                }
            }
        }
    }
    retry
}

fn actions<'v>(
    source: RefResolver<'v>,
    owner: &'v Value,
    key: &str,
    component: &str,
) -> Vec<&'v Value> {
    let actions = owner.get(key).and_then(Value::as_array);
    let resolve = |action: &'v Value| match action.get("reference").and_then(Value::as_str) {
        Some(reference) => {
            let name = reference.strip_prefix("$components.")?.strip_prefix(component)?;
            source.get("components")?.get(component)?.get(name.strip_prefix('.')?)
        }
        None => Some(action),
    };
    actions.into_iter().flatten().filter_map(resolve).collect()
}

fn read_retry_action(action: &Value, place: &str, scope: &mut WorkflowScope<'_>) -> Value {
    let limit = action.get("retryLimit").and_then(Value::as_u64).unwrap_or(1);
    let attempts = limit.saturating_add(1);
    if attempts > MAX_ATTEMPTS {
        scope.add_warning(
            place,
            format!("a request has at most {MAX_ATTEMPTS} attempts, not {attempts}"),
        );
    }
    let mut retry = Map::new();
    retry.insert("max_attempts".to_owned(), json!(attempts.min(MAX_ATTEMPTS)));
    let seconds = action.get("retryAfter").and_then(Value::as_f64).filter(|s| *s > 0.0);
    if let Some(seconds) = seconds {
        // At most a day, as the language has it.
        let whole = (seconds.min(86_400.0) * 1_000.0).round();
        let delay = if whole % 1_000.0 == 0.0 {
            format!("{}s", whole / 1_000.0)
        } else {
            format!("{}ms", whole.max(1.0))
        };
        retry.insert("initial_delay".to_owned(), json!(delay));
        retry.insert("backoff".to_owned(), json!("constant"));
    }
    let mut statuses: Option<Vec<u16>> = None;
    for criterion in action.get("criteria").and_then(Value::as_array).into_iter().flatten() {
        match success_criteria::read(criterion, |_| {
            Err("it depends on more than the status".to_owned())
        }) {
            SuccessCriterion::Status(met) => {
                let known = statuses.get_or_insert_with(|| met.clone());
                known.retain(|status| met.contains(status));
            }
            SuccessCriterion::Condition(_) | SuccessCriterion::Other(_) => {
                let condition = criterion.get("condition").and_then(Value::as_str);
                let message = format!(
                    "the import drops the criterion `{}` of `retry`",
                    quote_for_message(condition.unwrap_or_default())
                );
                scope.add_warning(place, message);
            }
        }
    }
    if let Some(mut statuses) = statuses {
        statuses.retain(|status| *status >= 400);
        if statuses.len() > MAX_STATUSES {
            statuses.retain(|status| DEFAULT_RETRY_STATUSES.contains(status));
            let listed: Vec<String> = statuses.iter().map(u16::to_string).collect();
            scope.add_warning(
                place,
                format!("the import keeps only these statuses of `retry`: {}", listed.join(", ")),
            );
        }
        if !statuses.is_empty() {
            retry.insert("on_status".to_owned(), json!(statuses));
        }
    }
    Value::Object(retry)
}
