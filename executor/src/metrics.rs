//! What is counted, for `/metrics`.

use a2s::api::{Decision, DecisionSource, Phase, RunStatus, WaitReason};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// The counters of one executor. Labels take few values: never names of capabilities or hosts,
/// which callers choose.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    runs: Family<StatusLabel, Counter>,
    run_seconds: Histogram,
    live: Gauge,
    resumed: Counter,
    steps: Family<StepLabel, Counter>,
    step_seconds: Family<KindLabel, Histogram>,
    requests: Family<StatusLabel, Counter>,
    decisions: Family<DecisionLabel, Counter>,
    reports: Family<StatusLabel, Counter>,
    waits: Family<ReasonLabel, Counter>,
    spans: Family<StatusLabel, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabel {
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabel {
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabel {
    phase: &'static str,
    decision: String,
    source: &'static str,
}

impl Metrics {
    /// Metrics that are registered in `registry`, whose prefix is the program's choice.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        // 1 ms to about 16 minutes.
        let seconds = || Histogram::new(exponential_buckets(0.001, 4.0, 11));
        let metrics = Self {
            runs: Family::default(),
            run_seconds: seconds(),
            live: Gauge::default(),
            resumed: Counter::default(),
            steps: Family::default(),
            step_seconds: Family::new_with_constructor(seconds),
            requests: Family::default(),
            decisions: Family::default(),
            reports: Family::default(),
            waits: Family::default(),
            spans: Family::default(),
        };
        registry.register("runs", "Runs that ended, by status", metrics.runs.clone());
        registry.register("run_seconds", "How long runs took", metrics.run_seconds.clone());
        registry.register("runs_live", "Runs under way here", metrics.live.clone());
        registry.register("runs_resumed", "Runs taken over", metrics.resumed.clone());
        registry.register("steps", "Steps that ended, by outcome", metrics.steps.clone());
        registry.register("step_seconds", "How long steps took", metrics.step_seconds.clone());
        registry.register(
            "requests",
            "Requests to services, by class of status, or `failed` without one",
            metrics.requests.clone(),
        );
        registry.register("waits", "Requests that waited for their turn", metrics.waits.clone());
        registry.register("decisions", "Decisions of guardians", metrics.decisions.clone());
        registry.register("reports", "Reports of outcomes", metrics.reports.clone());
        registry.register("spans", "Spans of traces, exported or dropped", metrics.spans.clone());
        metrics
    }

    /// A run began or went on here.
    pub(crate) fn run_began(&self, resumed: bool) {
        self.live.inc();
        if resumed {
            self.resumed.inc();
        }
    }

    /// A run is not under way here any more.
    pub(crate) fn run_left(&self) {
        self.live.dec();
    }

    /// A run ended, or began to wait.
    pub(crate) fn run_ended(&self, status: RunStatus, milliseconds: u64) {
        self.runs.get_or_create(&StatusLabel { status: status.as_str() }).inc();
        if status.is_final() {
            self.run_seconds.observe(seconds(milliseconds));
        }
    }

    /// A step ended.
    pub(crate) fn step_ended(&self, kind: &'static str, outcome: &'static str, milliseconds: u64) {
        self.steps.get_or_create(&StepLabel { kind, outcome }).inc();
        self.step_seconds.get_or_create(&KindLabel { kind }).observe(seconds(milliseconds));
    }

    /// A service answered, or not.
    pub(crate) fn request_ended(&self, status: Option<u16>) {
        let status = match status.map(|status| status / 100) {
            Some(1) => "1xx",
            Some(2) => "2xx",
            Some(3) => "3xx",
            Some(4) => "4xx",
            Some(_) => "5xx",
            None => "failed",
        };
        self.requests.get_or_create(&StatusLabel { status }).inc();
    }

    /// A request waits for its turn.
    pub(crate) fn waited(&self, reason: WaitReason) {
        self.waits.get_or_create(&ReasonLabel { reason: reason.as_str() }).inc();
    }

    /// A guardian was asked.
    pub(crate) fn decided(&self, decision: &Decision) {
        let phase = match decision.phase {
            Phase::Request => "request",
            Phase::Result => "result",
        };
        let source = match decision.source {
            DecisionSource::Guardian => "guardian",
            DecisionSource::FailedClosed => "failed_closed",
            DecisionSource::FailedOpen => "failed_open",
            DecisionSource::Unguarded => "unguarded",
        };
        let decision = decision.decision.clone();
        self.decisions.get_or_create(&DecisionLabel { phase, decision, source }).inc();
    }

    /// An outcome was reported, or could not be.
    pub(crate) fn reported(&self, success: bool) {
        let status = if success { "sent" } else { "failed" };
        self.reports.get_or_create(&StatusLabel { status }).inc();
    }

    /// Spans were taken by their receiver.
    pub(crate) fn exported(&self, spans: usize) {
        self.spans.get_or_create(&StatusLabel { status: "exported" }).inc_by(spans as u64);
    }

    /// Spans were taken by nobody.
    pub(crate) fn spans_dropped(&self, spans: usize) {
        self.spans.get_or_create(&StatusLabel { status: "dropped" }).inc_by(spans as u64);
    }
}

fn seconds(milliseconds: u64) -> f64 {
    std::time::Duration::from_millis(milliseconds).as_secs_f64()
}
