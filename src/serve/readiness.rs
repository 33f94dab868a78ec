//! `/readyz`: whether the services of this process can work; with `?verbose` how each of them is, and
//! with `?deep` whether those of other processes can that they work with.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use tokio::sync::watch;

use super::dependencies::RemoteDependencies;
use super::middleware::problem;
use super::services::ServiceApps;
use super::shipping::ShippingProgress;
use crate::cli_error::NOT_READY;

/// The parts that readiness depends on.
#[derive(Debug, Clone)]
pub(super) struct ReadinessCheck {
    services: Arc<ServiceApps>,
    shipping: Option<watch::Receiver<ShippingProgress>>,
    dependencies: RemoteDependencies,
}

/// A part of this process, and its state.
#[derive(Debug, PartialEq)]
struct ReadinessPart {
    name: String,
    /// The reason why the part is not ready.
    lacking: Option<String>,
    /// Set when the process can work all the same.
    is_optional: bool,
}

impl ReadinessPart {
    fn new(name: &str, is_ready: bool, lacking: &str) -> Self {
        let lacking = (!is_ready).then(|| lacking.to_owned());
        Self { name: name.to_owned(), lacking, is_optional: false }
    }

    /// Creates the part of a service from its own check, whose error is safe to show.
    fn from_check<E: std::fmt::Display>(service: &str, check: Result<(), E>) -> Self {
        let lacking = check.err().map(|error| format!("the {service} is not ready: {error}"));
        Self { name: service.to_owned(), lacking, is_optional: false }
    }
}

impl ReadinessCheck {
    pub(super) fn new(
        services: Arc<ServiceApps>,
        shipping: Option<watch::Receiver<ShippingProgress>>,
        dependencies: RemoteDependencies,
    ) -> Self {
        Self { services, shipping, dependencies }
    }

    /// Returns the parts of this process and, with `is_deep`, the services elsewhere that it uses.
    async fn parts(&self, is_deep: bool) -> Vec<ReadinessPart> {
        let mut parts = self.own_parts().await;
        if is_deep {
            let findings = self.dependencies.check_all().await.into_iter();
            parts.extend(findings.map(|(name, lacking)| {
                let lacking = lacking.map(|why| format!("{name}: {why}"));
                ReadinessPart { name, lacking, is_optional: false }
            }));
        }
        parts
    }

    async fn own_parts(&self) -> Vec<ReadinessPart> {
        let ServiceApps { registry, executor, guardian } = &*self.services;
        let registry_part = async {
            let app = registry.as_ref()?;
            Some(ReadinessPart::from_check("registry", app.check_ready().await))
        };
        let executor_part = async {
            let app = executor.as_ref()?;
            Some(ReadinessPart::from_check("executor", app.check_ready().await))
        };
        let index = async {
            let lag = registry.as_ref()?.index_lag().await.ok()?;
            let lacking = format!("changes that it does not have yet: {lag}");
            Some(ReadinessPart {
                is_optional: true,
                ..ReadinessPart::new("search index", lag == 0, &lacking)
            })
        };
        let (registry_part, executor_part, index) =
            tokio::join!(registry_part, executor_part, index);
        let guardian = guardian.as_ref().map(|app| {
            ReadinessPart::new(
                "guardian",
                app.is_ready(),
                "the guardian cannot write its audit log",
            )
        });
        let shipped = self.shipping.as_ref().map(|shipping| {
            let progress = *shipping.borrow();
            let lacking = match progress {
                ShippingProgress::Delayed => {
                    "the shipped documents are not all published yet: the registry's database does not \
                     accept them; the log has the cause"
                }
                ShippingProgress::UnderWay | ShippingProgress::Complete => {
                    "the shipped documents are not all published yet"
                }
            };
            let is_complete = progress == ShippingProgress::Complete;
            ReadinessPart::new("shipped documents", is_complete, lacking)
        });
        [registry_part, executor_part, guardian, shipped, index].into_iter().flatten().collect()
    }
}

/// Handles `GET /readyz`.
pub(super) async fn show(
    State(readiness): State<ReadinessCheck>,
    RawQuery(query): RawQuery,
) -> Response {
    let query = query.unwrap_or_default();
    let parts = readiness.parts(has_parameter(&query, "deep")).await;
    let faults: Vec<&str> = parts.iter().filter_map(blocking_reason).collect();
    match (faults.is_empty(), has_parameter(&query, "verbose")) {
        (true, true) => describe(&parts).into_response(),
        (false, true) => (StatusCode::SERVICE_UNAVAILABLE, describe(&parts)).into_response(),
        (true, false) => "ready\n".into_response(),
        (false, false) => problem(StatusCode::SERVICE_UNAVAILABLE, &NOT_READY, &faults.join("; ")),
    }
}

/// Returns true when a query has a parameter, with any value or none.
fn has_parameter(query: &str, name: &str) -> bool {
    query.split('&').any(|pair| pair.split('=').next() == Some(name))
}

/// Returns the reason why a part prevents the process from working.
fn blocking_reason(part: &ReadinessPart) -> Option<&str> {
    part.lacking.as_deref().filter(|_| !part.is_optional)
}

/// Returns a line for each part.
fn describe(parts: &[ReadinessPart]) -> String {
    let line = |part: &ReadinessPart| {
        format!("{}: {}\n", part.name, part.lacking.as_deref().unwrap_or("ready"))
    };
    parts.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_is_not_ready_gives_its_reason() {
        let full = "the run database cannot be written, because its disk is full";
        let executor = ReadinessPart::from_check("executor", Err(full));
        let registry = ReadinessPart::from_check::<String>("registry", Ok(()));
        let expected = format!("executor: the executor is not ready: {full}\nregistry: ready\n");
        assert_eq!(describe(&[executor, registry]), expected);
    }

    #[test]
    fn an_optional_part_is_described_and_keeps_nothing_from_working() {
        let registry = ReadinessPart::new("registry", true, "away");
        let index = ReadinessPart {
            is_optional: true,
            ..ReadinessPart::new("search index", false, "behind")
        };
        let guardian = ReadinessPart::new("guardian", false, "no log");
        assert_eq!(describe(&[registry, index]), "registry: ready\nsearch index: behind\n");
        let index = ReadinessPart {
            is_optional: true,
            ..ReadinessPart::new("search index", false, "behind")
        };
        assert_eq!([&index, &guardian].map(blocking_reason), [None, Some("no log")]);
        assert!(has_parameter("deep&verbose", "verbose") && has_parameter("verbose=1", "verbose"));
        assert!(!has_parameter("verboses", "verbose") && !has_parameter("", "deep"));
    }
}
