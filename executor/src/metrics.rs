//! The metrics of the executor, for `/metrics`.

use std::borrow::Cow;

use a2s_api::{DecisionRecord, RunStatus, WaitReason};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};

use crate::config::GuardianHook;

/// The statuses of requests without a response, and of deliveries.
const FAILED: &str = "failed";
const SENT: &str = "sent";

/// The counters of one executor. Labels have few values: never names of capabilities or hosts, which
/// callers choose. Names of guardians are allowed, because guardians are few and the operator names them.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    runs: RunMetrics,
    steps: Family<StepLabel, Counter>,
    step_seconds: Family<KindLabel, Histogram>,
    requests: Family<StatusLabel, Counter>,
    waits: Family<ReasonLabel, Counter>,
    decisions: Family<DecisionLabel, Counter>,
    guardian_failures: Family<FailureLabel, Counter>,
    deliveries: DeliveryMetrics,
    waiting: Gauge,
}

/// The metrics of runs on this executor.
#[derive(Debug, Clone)]
struct RunMetrics {
    ended: Family<StatusLabel, Counter>,
    seconds: Histogram,
    live: Gauge,
    resumed: Counter,
    queued: Counter,
}

/// The metrics of what the executor delivers to others.
#[derive(Debug, Clone)]
struct DeliveryMetrics {
    reports: Family<StatusLabel, Counter>,
    spans: Family<StatusLabel, Counter>,
    security_events: Family<SinkLabel, Counter>,
    alarms: Family<StatusLabel, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabel {
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SinkLabel {
    sink: &'static str,
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
    hook: &'static str,
    guardian: Cow<'static, str>,
    decision: Cow<'static, str>,
    source: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabel {
    hook: &'static str,
    guardian: String,
    reason: &'static str,
}

impl Metrics {
    /// Creates the metrics and registers them in `registry`. The program chooses the prefix of the
    /// registry.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        // 1 ms to about 16 minutes.
        let seconds = || Histogram::new(exponential_buckets(0.001, 4.0, 11));
        let metrics = Self {
            runs: RunMetrics {
                ended: register(registry, "runs", "Runs that ended, by status"),
                seconds: register_metric(registry, "run_seconds", "Duration of runs", seconds()),
                live: register(registry, "runs_live", "Runs in progress on this executor"),
                resumed: register(registry, "runs_resumed", "Runs taken over"),
                queued: register(registry, "runs_queued", "Runs that had to wait for a free slot"),
            },
            steps: register(registry, "steps", "Steps that ended, by kind and outcome"),
            step_seconds: register_metric(
                registry,
                "step_seconds",
                "Duration of steps, by kind",
                Family::new_with_constructor(seconds),
            ),
            requests: register(
                registry,
                "requests",
                "Requests to services, by class of the status, or failed for requests without a status",
            ),
            waits: register(registry, "waits", "Requests that waited for a permit, by reason"),
            decisions: register(
                registry,
                "decisions",
                "Decisions of guardians, by hook, guardian, decision and source",
            ),
            guardian_failures: register(
                registry,
                "guardian_failures",
                "Requests to guardians without a usable response, including previews, by hook, guardian and reason",
            ),
            deliveries: DeliveryMetrics {
                reports: register(registry, "reports", "Reports of outcomes, by status"),
                spans: register(
                    registry,
                    "spans",
                    "Spans of traces, by status: exported or dropped",
                ),
                security_events: register(
                    registry,
                    "security_events",
                    "Security events, by sink (file or http) and status (exported or dropped)",
                ),
                alarms: register(registry, "alarms", "Alarms, by status: sent or dropped"),
            },
            waiting: register(
                registry,
                "runs_waiting",
                "Runs that wait for a person, in the whole database",
            ),
        };
        metrics.begin_at_zero();
        metrics
    }

    /// Creates the series with labels that are known beforehand, so that a rate can be computed from the
    /// first event on.
    fn begin_at_zero(&self) {
        use RunStatus::{Cancelled, Denied, Failed, Succeeded, Waiting};
        use WaitReason::{Concurrency, Rate, RetryAfter};

        for status in [Succeeded, Failed, Denied, Cancelled, Waiting].map(RunStatus::as_str) {
            self.runs.ended.get_or_create(&StatusLabel { status }).inc_by(0);
        }
        for status in ["2xx", "3xx", "4xx", "5xx", FAILED] {
            self.requests.get_or_create(&StatusLabel { status }).inc_by(0);
        }
        for status in [SENT, FAILED] {
            self.deliveries.reports.get_or_create(&StatusLabel { status }).inc_by(0);
        }
        for reason in [Concurrency, Rate, RetryAfter].map(WaitReason::as_str) {
            self.waits.get_or_create(&ReasonLabel { reason }).inc_by(0);
        }
        self.span_counters();
        self.alarm_counters();
        for sink in ["file", "http"] {
            self.security_event_counters(sink);
        }
    }

    /// Sets the number of runs that wait for a person.
    pub(crate) fn set_waiting_runs(&self, count: u64) {
        self.waiting.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Returns the counters for the delivery of alarms.
    pub(crate) fn alarm_counters(&self) -> DeliveryCounters {
        let count = |status| self.deliveries.alarms.get_or_create(&StatusLabel { status }).clone();
        DeliveryCounters { accepted: count(SENT), dropped: count("dropped") }
    }

    /// Counts a run that began or continued here.
    pub(crate) fn run_began(&self, resumed: bool) {
        self.runs.live.inc();
        if resumed {
            self.runs.resumed.inc();
        }
    }

    /// Counts a run that has to wait for a slot.
    pub(crate) fn run_queued(&self) {
        self.runs.queued.inc();
    }

    /// Removes a run from the count of runs under way here.
    pub(crate) fn run_left(&self) {
        self.runs.live.dec();
    }

    /// Counts a run that ended or began to wait.
    pub(crate) fn run_ended(&self, status: RunStatus, milliseconds: u64) {
        self.runs.ended.get_or_create(&StatusLabel { status: status.as_str() }).inc();
        if status.is_final() {
            self.runs.seconds.observe(seconds(milliseconds));
        }
    }

    /// Records the end of a step.
    pub(crate) fn step_ended(&self, kind: &'static str, outcome: &'static str, milliseconds: u64) {
        self.steps.get_or_create(&StepLabel { kind, outcome }).inc();
        self.step_seconds.get_or_create(&KindLabel { kind }).observe(seconds(milliseconds));
    }

    /// Counts a request with the status of its response, or without a response.
    pub(crate) fn request_ended(&self, status: Option<u16>) {
        let status = match status.map(|status| status / 100) {
            Some(1) => "1xx",
            Some(2) => "2xx",
            Some(3) => "3xx",
            Some(4) => "4xx",
            Some(_) => "5xx",
            None => FAILED,
        };
        self.requests.get_or_create(&StatusLabel { status }).inc();
    }

    /// Counts a request that waits for its turn.
    pub(crate) fn waited(&self, reason: WaitReason) {
        self.waits.get_or_create(&ReasonLabel { reason: reason.as_str() }).inc();
    }

    /// Counts the decision of a guardian, or a step without a guardian.
    pub(crate) fn decided(&self, hook: GuardianHook, decision: &DecisionRecord) {
        let label = DecisionLabel {
            hook: hook.as_str(),
            guardian: decision.guardian.clone().map_or(Cow::Borrowed("off"), Cow::Owned),
            decision: decision.decision.clone(),
            source: decision.source.as_str(),
        };
        self.decisions.get_or_create(&label).inc();
    }

    /// Counts a guardian that gave no usable response.
    pub(crate) fn guardian_failed(&self, hook: GuardianHook, guardian: &str, reason: &'static str) {
        let label = FailureLabel { hook: hook.as_str(), guardian: guardian.to_owned(), reason };
        self.guardian_failures.get_or_create(&label).inc();
    }

    /// Counts an outcome that was reported or could not be reported.
    pub(crate) fn reported(&self, success: bool) {
        let status = if success { SENT } else { FAILED };
        self.deliveries.reports.get_or_create(&StatusLabel { status }).inc();
    }

    /// Returns the counters for the delivery of spans.
    pub(crate) fn span_counters(&self) -> DeliveryCounters {
        let count = |status| self.deliveries.spans.get_or_create(&StatusLabel { status }).clone();
        DeliveryCounters { accepted: count("exported"), dropped: count("dropped") }
    }

    /// Returns the counters for the delivery of security events to `sink`.
    pub(crate) fn security_event_counters(&self, sink: &'static str) -> DeliveryCounters {
        let count = |status| {
            self.deliveries.security_events.get_or_create(&SinkLabel { sink, status }).clone()
        };
        DeliveryCounters { accepted: count("exported"), dropped: count("dropped") }
    }
}

/// The outcomes of deliveries.
#[derive(Debug, Clone)]
pub(crate) struct DeliveryCounters {
    /// Items that a receiver accepted.
    pub(crate) accepted: Counter,
    /// Items that were not delivered.
    pub(crate) dropped: Counter,
}

fn seconds(milliseconds: u64) -> f64 {
    std::time::Duration::from_millis(milliseconds).as_secs_f64()
}

/// Creates a metric that starts at its default, and registers it.
fn register<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    register_metric(registry, name, help, M::default())
}

/// Registers a metric, and returns it.
fn register_metric<M: Metric + Clone>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    metric: M,
) -> M {
    registry.register(name, help, metric.clone());
    metric
}
