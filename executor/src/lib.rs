//! The executor: plan and run capabilities, asking a guardian around every tool step.
//!
//! A run is: find the exact version and digest in a registry, verify it, plan it, walk the plan. The
//! executor asks the guardian before each request to a service, and again before it uses the response.
//! Everything that happens is first an event in the run's journal. An interrupted run continues from its
//! journal, and the state of a run is computed from its journal.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use executor::{App, Clock, Config, GuardianSettings, GuardianConfig, RandomSource};
//!
//! /// Real time and randomness come from the program, never from this crate.
//! #[derive(Debug)]
//! struct System;
//!
//! impl Clock for System {
//!     fn now(&self) -> jiff::Timestamp {
//!         jiff::Timestamp::now()
//!     }
//! }
//!
//! impl RandomSource for System {
//!     fn random_bytes(&self) -> [u8; 16] {
//!         *uuid::Uuid::new_v4().as_bytes()
//!     }
//! }
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let guardian = GuardianConfig::new("http://127.0.0.1:8743/aos".parse()?);
//! let guardian = GuardianSettings::Chain(vec![guardian]);
//! let config =
//!     Config::new("data/executor.sqlite".into(), "http://127.0.0.1:8740".parse()?, guardian);
//! let mut metrics = prometheus_client::registry::Registry::default();
//!
//! let app = App::open(config, Arc::new(System), Arc::new(System), &mut metrics).await?;
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8742").await?;
//! axum::serve(listener, app.router().merge(app.probes())).await?;
//!
//! // Runs under way get ten seconds to end; the rest goes on when the database is opened again.
//! app.shutdown(std::time::Duration::from_secs(10)).await;
//! # Ok(())
//! # }
//! ```
//!
//! # Design
//!
//! Types decide which requests may reach a service: the only client of the data plane accepts a permitted
//! request, and only the gate, which asks the guardian, can make one. The journal decides which requests
//! may be repeated: `sending` is on the disk before a connection is made, and `step_finished` before a step
//! that depends on it begins. So after a crash each step is surely done, surely not begun, or in doubt; one
//! in doubt is repeated only when that is safe.
//!
//! A step that runs over a list is many steps: the path of an iteration, `step[3]`, is its name in the
//! journal, to the guardian and in its `executionId`, so an iteration is as durable as any step. The
//! handling of failures is read from the document again after a crash; the journal only records that the
//! step failed. Failures that belong to the run and not to a step (a denial, a cancellation, a limit, an
//! unknown outcome) are of a kind that no document may catch.
//!
//! Steps work with secret values; a journal, a guardian and an error get values that one module has masked.
//! Values that the journal masks are stored encrypted next to it until the run ends, so that the run can be
//! resumed.
//!
//! Credentials for services are stored encrypted in the database. [`outbound`] adds them to a permitted
//! request just before it sends it, and removes them from the response before anything reads it. So nothing
//! in between can reveal them: the gate, the journal and the engine never see one.
//!
//! Runs are kept in an SQLite file, or in a PostgreSQL database that several executors share. There a run
//! belongs to one executor for a bounded time, which the executor extends while it is alive. Each time that
//! a run is given to an executor it gets a new epoch, and the database rejects writes of an older one.

mod backup;
mod clock;
mod config;
mod control_plane;
mod credential_requirements;
mod database;
mod engine;
mod error;
mod example;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzz;
mod gate;
mod http;
mod journal;
mod metrics;
mod outbound;
mod plan;
mod registry_client;
mod report;
mod request;
mod run;
mod scope;
mod secrets;
mod session_state;
mod step_result;
mod telemetry;
#[cfg(test)]
mod tests;
mod thread_local_clients;
mod trust;
mod vault;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;

pub use crate::backup::{RestoredRuns, check_runs, copy_runs, restore_runs};
pub use crate::clock::{Clock, RandomSource};
pub use a2s::Secret;

pub use crate::config::{
    ClientCertificate, Config, Durability, ExecutorCertificate, ExecutorDatabase, FailMode,
    FailModes, GuardianConfig, GuardianEndpoint, GuardianHook, GuardianSettings, HostLimitSet,
    HostLimits, HttpEndpoint, Limits, OcsfFile, OtlpExport, ResponseValidation, SecretKeySource,
    TelemetryConfig, TenantLimits,
};
pub use crate::error::{CODES, Error, ErrorKind, ExitClass};
pub use crate::example::{ExampleFailure, ExampleResult, ExampleRunner, OutputDifference};

use crate::run::RunService;

/// An executor. Cloning it is cheap; when the last clone and the last router of it are gone, its
/// runs stop where they are, and go on when the database is opened again.
#[derive(Debug, Clone)]
pub struct App {
    inner: Arc<AppInner>,
}

/// Ends the tasks of the executor when the last handle is gone. The tasks hold the scheduler of runs,
/// so they would not end on their own.
#[derive(Debug)]
struct AppInner {
    runs: RunService,
}

impl Drop for AppInner {
    fn drop(&mut self) {
        self.runs.abort();
    }
}

impl App {
    /// Opens the database, and goes on with runs that another process left.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] when a setting cannot be used, [`ErrorKind::Store`] when the database
    /// fails.
    pub async fn open(
        config: Config,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn RandomSource>,
        metrics: &mut Registry,
    ) -> Result<Self, Error> {
        let metrics = metrics::Metrics::register(metrics);
        let runs = RunService::open(config, clock, ids, metrics).await?;
        Ok(Self { inner: Arc::new(AppInner { runs }) })
    }

    /// The routes under `/v1`: starting, reading, following and cancelling runs, and plans. Checks
    /// the token, but neither `Host` nor `Origin`, and has no fallback.
    pub fn router(&self) -> axum::Router {
        http::router(self.clone())
    }

    /// `/healthz` and `/readyz`, apart, because a program with several services answers them for
    /// all: see [`check_ready`](Self::check_ready).
    pub fn probes(&self) -> axum::Router {
        http::probes(self.clone())
    }

    /// The OpenAPI document of all routes.
    #[must_use]
    pub fn openapi() -> utoipa::openapi::OpenApi {
        http::openapi()
    }

    /// Checks that runs can be started.
    ///
    /// # Errors
    /// When the executor is shutting down or its database fails.
    pub async fn check_ready(&self) -> Result<(), Error> {
        self.runs().check_ready().await
    }

    /// Takes no more runs, and waits `grace` for those under way. Then the rest is stopped at the
    /// next place from which it can go on later; a request that may not be aborted is awaited as
    /// long as a request may take.
    pub async fn shutdown(&self, grace: Duration) {
        self.runs().shut_down(grace).await;
    }

    /// Ends as a killed process does: everything stops where it is, and nothing is tidied up.
    #[cfg(test)]
    async fn crash(self) {
        self.inner.runs.crash().await;
    }

    fn runs(&self) -> &RunService {
        &self.inner.runs
    }
}
