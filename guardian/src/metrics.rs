//! The metrics of the guardian.

use aos::message::{Decision, Method};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::error::RejectionCode;

type Labels<const N: usize> = [(&'static str, &'static str); N];

#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    decisions: Family<Labels<2>, Counter>,
    shadow: Family<Labels<3>, Counter>,
    rejections: Family<Labels<1>, Counter>,
    audit_failures: Counter,
}

impl Metrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "decisions",
            "Decisions, by method and decision",
            metrics.decisions.clone(),
        );
        registry.register(
            "shadow_decisions",
            "Decisions with the decisions of the shadow policy, by method, decision and shadow",
            metrics.shadow.clone(),
        );
        registry.register(
            "rejections",
            "Rejected messages without a decision, by code",
            metrics.rejections.clone(),
        );
        registry.register(
            "audit_failures",
            "Audit records that could not be written",
            metrics.audit_failures.clone(),
        );
        metrics
    }

    pub(crate) fn count_decision(&self, method: Method, decision: &Decision) {
        let labels = [("method", method.as_str()), ("decision", decision.as_str())];
        self.decisions.get_or_create(&labels).inc();
    }

    pub(crate) fn count_shadow(&self, method: Method, decision: &Decision, would: &Decision) {
        let (method, decision, would) = (method.as_str(), decision.as_str(), would.as_str());
        let labels = [("method", method), ("decision", decision), ("shadow", would)];
        self.shadow.get_or_create(&labels).inc();
    }

    pub(crate) fn count_rejection(&self, code: RejectionCode) {
        self.rejections.get_or_create(&[("code", code.mapping().name)]).inc();
    }

    pub(crate) fn count_audit_failure(&self) {
        self.audit_failures.inc();
    }
}
