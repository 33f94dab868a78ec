//! `/metrics`: what every request over HTTP is counted by, and the two text formats of the page.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tokio::time::Instant;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The route of requests without a matching route: their paths have no bound.
const NO_ROUTE: &str = "none";

/// The metrics of the requests that this process has handled.
#[derive(Debug, Clone)]
pub(super) struct HttpMetrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RouteLabels, Histogram>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    route: String,
}

impl HttpMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        // 1 ms to about 16 s.
        let seconds = || Histogram::new(exponential_buckets(0.001, 4.0, 8));
        let metrics =
            Self { requests: Family::default(), seconds: Family::new_with_constructor(seconds) };
        let help = "Requests, by method, route and status";
        registry.register("http_requests", help, metrics.requests.clone());
        let help = "Time from a request to the head of its response, by method and route";
        registry.register("http_request_seconds", help, metrics.seconds.clone());
        metrics
    }
}

/// Counts a request when the head of its response is ready.
pub(super) async fn count(
    State(metrics): State<HttpMetrics>,
    request: Request,
    next: Next,
) -> Response {
    let method = known(request.method());
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or(NO_ROUTE, MatchedPath::as_str).to_owned();
    let began = Instant::now();
    let response = next.run(request).await;
    let status = response.status().as_u16();
    let elapsed = began.elapsed().as_secs_f64();
    metrics.seconds.get_or_create(&RouteLabels { method, route: route.clone() }).observe(elapsed);
    metrics.requests.get_or_create(&RequestLabels { method, route, status }).inc();
    response
}

/// Returns the method as a label; unknown methods, which a client can send, become `other`.
fn known(method: &Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or("other")
}

/// Returns the page with the metrics: `OpenMetrics` for a client that accepts it, else the older text
/// format of Prometheus.
pub(super) async fn show(State(metrics): State<Arc<Registry>>, headers: HeaderMap) -> Response {
    let mut text = String::new();
    if encode(&mut text, &metrics).is_err() {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    let accepted = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    if accepted.is_some_and(|accept| accept.contains("application/openmetrics-text")) {
        return ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response();
    }
    ([(CONTENT_TYPE, PROMETHEUS)], to_prometheus(&text)).into_response()
}

/// Converts `OpenMetrics` to the text format 0.0.4: the description of a counter uses the name of its
/// sample, and the mark at the end is missing.
fn to_prometheus(text: &str) -> String {
    let is_counter = |line: &str| {
        line.strip_prefix("# TYPE ").and_then(|rest| rest.strip_suffix(" counter")).is_some()
    };
    let mut converted = String::with_capacity(text.len());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        // `# HELP` comes before the `# TYPE` of the same metric.
        let counts = is_counter(line) || lines.peek().is_some_and(|next| is_counter(next));
        match line.strip_prefix("# ").and_then(|rest| rest.split_once(' ')) {
            None if line == "# EOF" => continue,
            Some((keyword @ ("HELP" | "TYPE"), rest)) if counts => {
                let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                converted.extend(["# ", keyword, " ", name, "_total ", rest]);
            }
            _ => converted.push_str(line),
        }
        converted.push('\n');
    }
    converted
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;

    #[test]
    fn the_older_format_describes_counters_by_their_samples() {
        let mut registry = Registry::with_prefix("a2s");
        let (counter, gauge) = (Counter::<u64>::default(), Gauge::<i64>::default());
        registry.register("runs", "Runs that ended", counter.clone());
        registry.register("runs_live", "Runs under way", gauge);
        counter.inc();
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        assert_eq!(
            to_prometheus(&text),
            "# HELP a2s_runs_total Runs that ended.\n# TYPE a2s_runs_total counter\n\
             a2s_runs_total 1\n\
             # HELP a2s_runs_live Runs under way.\n# TYPE a2s_runs_live gauge\na2s_runs_live 0\n"
        );
    }
}
