//! The services that all runs of an executor share.

use std::sync::Arc;

use a2s_api::{Caller, Principal, Run, RunEvent};
use database::Pool;
use uuid::Uuid;

use super::ownership::may_touch;
use super::{PAGE, not_found};
use crate::clock::{Clock, RandomSource, new_run_id};
use crate::config::Config;
use crate::engine::{EvaluationPool, LiveTransport};
use crate::error::Error;
use crate::gate::GuardianGate;
use crate::journal::Journal;
use crate::journal::lease::RunLease;
use crate::journal::run_state::{RunState, fold_events};
use crate::journal::store::{LeaseEpoch, LeaseTerms, RunRow, RunStore};
use crate::metrics::Metrics;
use crate::outbound::{OutboundClient, RetrySchedule};
use crate::registry_client::RegistryClient;
use crate::secrets::RunSecrets;
use crate::telemetry::TelemetrySinks;
use crate::vault::Vault;

/// The services that all runs of an executor share.
#[derive(Debug)]
pub(super) struct RunContext {
    pub(super) config: Config,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn RandomSource>,
    pub(super) metrics: Metrics,
    pub(super) store: RunStore,
    pub(super) vault: Arc<Vault>,
    pub(super) gate: GuardianGate,
    pub(super) outbound: Arc<OutboundClient>,
    pub(super) retries: RetrySchedule,
    /// The permits for expensive evaluations, for all runs together.
    pub(super) evaluations: EvaluationPool,
    /// The receivers of traces and security events.
    pub(super) sinks: TelemetrySinks,
    /// The id of this executor in leases.
    pub(super) owner: Uuid,
}

impl RunContext {
    /// Opens the store of runs and the clients of services and guardians. `pool` is the database for
    /// everything that is not a run.
    ///
    /// # Errors
    /// Fails when a setting cannot be used or the database cannot be opened.
    pub(super) async fn open(
        config: Config,
        (clock, ids): (Arc<dyn Clock>, Arc<dyn RandomSource>),
        metrics: Metrics,
        registry: &Arc<RegistryClient>,
    ) -> Result<(Self, Pool), Error> {
        let store = RunStore::open(&config.database, config.durability).await?;
        let pool = crate::database::open(&config.database).await?;
        let vault = Vault::open(&config, pool.clone(), Arc::clone(&clock), Arc::clone(&ids));
        let vault = Arc::new(vault.await?);
        let its_vault = Arc::clone(&vault);
        let gate = GuardianGate::new(
            &config.guardian,
            metrics.clone(),
            its_vault,
            Arc::clone(&clock),
            Arc::clone(&ids),
        )?;
        let (its_vault, its_registry) = (Arc::clone(&vault), Arc::clone(registry));
        let outbound = OutboundClient::new(&config, its_vault, its_registry, Arc::clone(&clock))?;
        let context = Self {
            gate,
            store,
            vault,
            outbound: Arc::new(outbound),
            retries: RetrySchedule::from_limits(&config.limits),
            evaluations: EvaluationPool::new(config.limits.evaluation_timeout),
            sinks: TelemetrySinks::open(&config.telemetry, &metrics)?,
            owner: Uuid::from_bytes(ids.random_bytes()),
            metrics,
            clock,
            ids,
            config,
        };
        Ok((context, pool))
    }

    /// The transport of a walk for a principal, without a trace.
    pub(super) fn live_transport<'r>(&'r self, principal: &'r Principal) -> LiveTransport<'r> {
        LiveTransport {
            principal,
            gate: &self.gate,
            outbound: &self.outbound,
            retries: &self.retries,
            ids: &self.ids,
            response_validation: self.config.response_validation,
            trace: None,
            propagate: false,
            approval_poll: None,
        }
    }

    pub(super) fn lease(&self) -> LeaseTerms {
        LeaseTerms { owner: self.owner, length: self.config.limits.lease }
    }

    pub(super) fn new_run_id(&self) -> Uuid {
        new_run_id(&self.clock, &self.ids)
    }

    pub(super) fn new_secrets(&self) -> Arc<RunSecrets> {
        Arc::new(RunSecrets::new(self.ids.random_bytes()))
    }

    /// All events of a run.
    pub(super) async fn read_events(&self, run: Uuid) -> Result<Vec<RunEvent>, Error> {
        self.store.read_all_events(run, PAGE).await
    }

    /// The run that its events describe.
    pub(super) async fn read_run(&self, run: Uuid) -> Result<Run, Error> {
        let events = self.read_events(run).await?;
        fold_events(&events).ok_or_else(|| not_found(run))
    }

    /// The stored data of a run that exists.
    pub(super) async fn read_row(&self, run: Uuid) -> Result<RunRow, Error> {
        self.store.read_run(run).await?.ok_or_else(|| not_found(run))
    }

    /// Finds a run that a caller may see and change.
    ///
    /// # Errors
    /// Returns [`ErrorKind::RunNotFound`](crate::error::ErrorKind::RunNotFound) when it does not exist or
    /// belongs to another principal: the response is the same.
    pub(super) async fn find(&self, run: Uuid, caller: &Caller) -> Result<RunRow, Error> {
        let row = self.store.read_run(run).await?;
        row.filter(|row| may_touch(caller, &row.tenant)).ok_or_else(|| not_found(run))
    }

    /// The journal for a decision about a run that no executor drives.
    pub(super) fn journal_without_lease(
        &self,
        state: RunState,
        epoch: LeaseEpoch,
        secrets: Arc<RunSecrets>,
    ) -> Journal {
        self.journal(state, Arc::new(RunLease::without_lease(epoch)), secrets)
    }

    /// The journal of a run that this executor drives.
    pub(super) fn journal(
        &self,
        state: RunState,
        run_lease: Arc<RunLease>,
        secrets: Arc<RunSecrets>,
    ) -> Journal {
        let (clock, vault) = (Arc::clone(&self.clock), Arc::clone(&self.vault));
        let given = (self.lease(), run_lease);
        Journal::resume(state, given, self.store.clone(), clock, vault, secrets)
    }
}
