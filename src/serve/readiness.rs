//! `/readyz`: whether the services of this process can work, and with `?verbose` how each of them is.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use tokio::sync::watch;

use super::front::problem;
use super::shipping::Shipping;
use super::stack::Services;
use crate::failure::NOT_READY;

/// Everything that readiness depends on.
#[derive(Debug, Clone)]
pub(super) struct Readiness {
    services: Arc<Services>,
    shipping: Option<watch::Receiver<Shipping>>,
}

/// A part of this process, and its state.
#[derive(Debug, PartialEq)]
struct Part {
    name: &'static str,
    /// The reason why it is not as it should be.
    lacking: Option<&'static str>,
    /// Whether the process can work all the same.
    is_optional: bool,
}

impl Part {
    fn new(name: &'static str, is_ready: bool, lacking: &'static str) -> Self {
        Self { name, lacking: (!is_ready).then_some(lacking), is_optional: false }
    }
}

impl Readiness {
    pub(super) fn of(services: Arc<Services>, shipping: Option<watch::Receiver<Shipping>>) -> Self {
        Self { services, shipping }
    }

    async fn parts(&self) -> Vec<Part> {
        let Services { registry, executor, guardian } = &*self.services;
        let registry_part = async {
            let app = registry.as_ref()?;
            let is_ready = app.check_ready().await.is_ok();
            Some(Part::new("registry", is_ready, "the registry is not ready"))
        };
        let executor_part = async {
            let app = executor.as_ref()?;
            let is_ready = app.check_ready().await.is_ok();
            Some(Part::new("executor", is_ready, "the executor is not ready"))
        };
        let (registry_part, executor_part) = tokio::join!(registry_part, executor_part);
        let index = registry.as_ref().map(|app| Part {
            is_optional: true,
            ..Part::new(
                "search index",
                !app.is_index_paused(),
                "not written, because its disk has too little space; searches are answered from \
                 what it has",
            )
        });
        let guardian = guardian.as_ref().map(|app| {
            Part::new("guardian", app.is_ready(), "the guardian cannot write its audit log")
        });
        let shipped = self.shipping.as_ref().map(|shipping| {
            let is_complete = *shipping.borrow() == Shipping::Complete;
            let lacking = "the shipped documents are not all published yet";
            Part::new("shipped documents", is_complete, lacking)
        });
        [registry_part, executor_part, guardian, shipped, index].into_iter().flatten().collect()
    }
}

/// Answers `GET /readyz`.
pub(super) async fn show(
    State(readiness): State<Readiness>,
    RawQuery(query): RawQuery,
) -> Response {
    let parts = readiness.parts().await;
    let is_verbose = query.is_some_and(|query| query.split('&').any(is_verbose));
    match (parts.iter().find_map(fault), is_verbose) {
        (None, true) => describe(&parts).into_response(),
        (Some(_), true) => (StatusCode::SERVICE_UNAVAILABLE, describe(&parts)).into_response(),
        (None, false) => "ready\n".into_response(),
        (Some(lacking), false) => problem(StatusCode::SERVICE_UNAVAILABLE, &NOT_READY, lacking),
    }
}

fn is_verbose(parameter: &str) -> bool {
    parameter == "verbose" || parameter.starts_with("verbose=")
}

/// The reason why a part keeps the process from working.
fn fault(part: &Part) -> Option<&'static str> {
    part.lacking.filter(|_| !part.is_optional)
}

/// A line for each part.
fn describe(parts: &[Part]) -> String {
    let line = |part: &Part| format!("{}: {}\n", part.name, part.lacking.unwrap_or("ready"));
    parts.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_optional_part_is_described_and_keeps_nothing_from_working() {
        let registry = Part::new("registry", true, "away");
        let index = Part { is_optional: true, ..Part::new("search index", false, "paused") };
        let guardian = Part::new("guardian", false, "no log");
        assert_eq!(describe(&[registry, index]), "registry: ready\nsearch index: paused\n");
        let index = Part { is_optional: true, ..Part::new("search index", false, "paused") };
        assert_eq!([&index, &guardian].map(fault), [None, Some("no log")]);
        assert!(is_verbose("verbose") && is_verbose("verbose=1") && !is_verbose("verboses"));
    }
}
