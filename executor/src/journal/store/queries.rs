//! Queries about runs.

use std::collections::BTreeMap;

use a2s::{CapabilityName, Digest};
use a2s_api::Principal;
use a2s_api::{RunEvent, RunStatus};
use jiff::Timestamp;
use uuid::Uuid;

use super::persisted_item::{OUTLINE, TURNS};
use super::run_queue::{LOAD, TenantLoad, status_columns};
use super::{
    LeaseEpoch, RunFilter, RunRow, RunStore, RunSummaryEvents, StoreBackend, StoredPlan, WHAT,
    parse_owner_of_key,
};
use crate::database::to_store_error;
use crate::error::{Error, ErrorKind};
use crate::journal::recorded_exchange::RecordedExchange;
use crate::vault::Ciphertext;

/// The connections that read. For runs in memory, returns the value from there instead.
macro_rules! reads {
    ($store:expr, |$memory:ident| $read:expr) => {
        match &$store.backend {
            StoreBackend::Sql { reads, .. } => reads,
            StoreBackend::Memory($memory) => return Ok($read),
        }
    };
}

impl RunStore {
    /// Reads at most `limit` events of a run after number `after`.
    pub(crate) async fn read_events(
        &self,
        run: Uuid,
        after: u64,
        limit: usize,
    ) -> Result<Vec<RunEvent>, Error> {
        const SQL: &str =
            "SELECT event FROM event WHERE run = $1 AND seq > $2 ORDER BY seq LIMIT $3";
        let reads = reads!(self, |memory| memory.events(run, after, limit));
        let run = run.to_string();
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows: Vec<String> = reads
            .query(SQL)
            .bind(run)
            .bind(after)
            .bind(limit)
            .fetch_values()
            .await
            .map_err(to_store_error(WHAT))?;
        rows.iter().map(|row| parse_event(row)).collect()
    }

    /// Reads all events of a run, at most `page` of them at a time.
    pub(crate) async fn read_all_events(
        &self,
        run: Uuid,
        page: usize,
    ) -> Result<Vec<RunEvent>, Error> {
        let mut events = Vec::new();
        loop {
            let last = events.last().map_or(0, |event: &RunEvent| event.seq);
            let more = self.read_events(run, last, page).await?;
            let ended = more.len() < page;
            events.extend(more);
            if ended {
                return Ok(events);
            }
        }
    }

    /// The sealed values that the events of a run leave out, by the numbers of the events.
    pub(crate) async fn read_sealed(&self, run: Uuid) -> Result<BTreeMap<u64, Ciphertext>, Error> {
        const SQL: &str = "SELECT seq, key_id, nonce, sealed FROM sealed WHERE run = $1";
        let reads = reads!(self, |memory| memory.sealed(run));
        let run = run.to_string();
        type Columns = (i64, String, Vec<u8>, Vec<u8>);
        let rows: Vec<Columns> =
            reads.query(SQL).bind(run).fetch_all().await.map_err(to_store_error(WHAT))?;
        let rows = rows.into_iter().map(|(seq, key_id, nonce, bytes)| {
            (u64::try_from(seq).unwrap_or_default(), Ciphertext { key_id, nonce, bytes })
        });
        Ok(rows.collect())
    }

    /// The requests and responses of the steps of a run, by their paths.
    pub(crate) async fn read_exchanges(
        &self,
        run: Uuid,
    ) -> Result<BTreeMap<String, RecordedExchange>, Error> {
        const SQL: &str = "SELECT step, exchange FROM exchange WHERE run = $1";
        let reads = reads!(self, |memory| memory.exchanges(run));
        let run = run.to_string();
        let rows: Vec<(String, String)> =
            reads.query(SQL).bind(run).fetch_all().await.map_err(to_store_error(WHAT))?;
        let read = |(step, text): (String, String)| {
            let exchange = serde_json::from_str(&text).map_err(|error| {
                Error::new(ErrorKind::Store, format!("stored response of `{step}`: {error}"))
            })?;
            Ok((step, exchange))
        };
        rows.into_iter().map(read).collect()
    }

    /// Reads the events that begin, suspend and end runs, for at most `limit` runs that match a filter. The
    /// newest run comes first, with its events in order.
    pub(crate) async fn read_summary_events(
        &self,
        filter: &RunFilter,
        limit: usize,
    ) -> Result<Vec<RunSummaryEvents>, Error> {
        const SQL: &str = "SELECT run.tenant, event.event FROM event JOIN run ON run.id = event.run
             WHERE event.run IN (SELECT id FROM run
                           WHERE ($1 IS NULL OR id < $1)
                             AND ($3 IS NULL OR (status = $3 AND queued = $5))
                             AND ($4 IS NULL OR name = $4)
                             AND ($6 IS NULL OR tenant = $6)
                           ORDER BY id DESC LIMIT $2)
               AND type {among $7}
             ORDER BY event.run DESC, seq";
        let reads = reads!(self, |memory| memory.summary_events(filter, limit));
        let before = filter.before.map(|run| run.to_string());
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let (status, queued) = filter.status.map(status_columns).unzip();
        let name = filter.name.as_ref().map(CapabilityName::as_str);
        let tenant = filter.tenant.as_ref().map(ToString::to_string);
        let rows: Vec<(String, String)> = reads
            .query(SQL)
            .bind(before)
            .bind(limit)
            .bind(status)
            .bind(name)
            .bind(queued)
            .bind(tenant)
            .bind_list(TURNS.iter().copied())
            .fetch_all()
            .await
            .map_err(to_store_error(WHAT))?;
        let mut lives: Vec<RunSummaryEvents> = Vec::new();
        for (tenant, row) in &rows {
            let event = parse_event(row)?;
            match lives.last_mut() {
                Some(life) if life.events.first().is_some_and(|first| first.run == event.run) => {
                    life.events.push(event);
                }
                _ => lives
                    .push(RunSummaryEvents { tenant: parse_tenant(tenant)?, events: vec![event] }),
            }
        }
        Ok(lives)
    }

    /// The stored data of a run, without its events.
    pub(crate) async fn read_run(&self, run: Uuid) -> Result<Option<RunRow>, Error> {
        const SQL: &str = "SELECT status, queued, tenant, choices, cancel_requested, epoch FROM run WHERE id = $1";
        type Columns = (String, i64, String, String, i64, i64);
        let reads = reads!(self, |memory| memory.run(run));
        let run = run.to_string();
        let row: Option<Columns> =
            reads.query(SQL).bind(run).fetch_optional().await.map_err(to_store_error(WHAT))?;
        let Some(columns) = row else { return Ok(None) };
        let (status, queued, tenant, choices, cancel_requested, epoch) = columns;
        let status = match queued {
            0 => serde_json::from_value(status.into()).map_err(to_store_error(WHAT))?,
            _ => RunStatus::Queued,
        };
        let cancel_requested = cancel_requested != 0;
        let (tenant, epoch) = (parse_tenant(&tenant)?, LeaseEpoch(epoch));
        Ok(Some(RunRow { status, tenant, choices, cancel_requested, epoch }))
    }

    /// The number of runs of a tenant.
    pub(crate) async fn read_load(&self, tenant: &Principal) -> Result<TenantLoad, Error> {
        let reads = reads!(self, |memory| memory.tenant_load(tenant));
        let read = reads.query(LOAD).bind(tenant.to_string()).bind(tenant.token.as_str());
        let (begun, queued, queued_of_token) =
            read.fetch_one().await.map_err(to_store_error(WHAT))?;
        Ok(TenantLoad { begun, queued, queued_of_token })
    }

    /// The run that an idempotency key belongs to, and the digest of the request that used it.
    pub(crate) async fn find_by_key(&self, key: &str) -> Result<Option<(Uuid, Digest)>, Error> {
        const SQL: &str = "SELECT id, request_digest FROM run WHERE idempotency_key = $1";
        let reads = reads!(self, |memory| memory.key(key));
        let row: Option<(String, String)> =
            reads.query(SQL).bind(key).fetch_optional().await.map_err(to_store_error(WHAT))?;
        row.map(|(id, digest)| parse_owner_of_key(&id, &digest)).transpose()
    }

    /// Reads the documents with these digests, as the registry sent them.
    pub(crate) async fn read_documents(
        &self,
        digests: &[Digest],
    ) -> Result<BTreeMap<Digest, Vec<u8>>, Error> {
        const SQL: &str = "SELECT source FROM document WHERE digest = $1";
        let reads = reads!(self, |memory| memory.documents(digests));
        let mut documents = BTreeMap::new();
        for digest in digests {
            let text = digest.to_string();
            let source: Option<Vec<u8>> = reads
                .query(SQL)
                .bind(text)
                .fetch_optional_value()
                .await
                .map_err(to_store_error(WHAT))?;
            documents.extend(source.map(|source| (*digest, source)));
        }
        Ok(documents)
    }

    /// Reads the plan with an id.
    pub(crate) async fn read_plan(&self, id: Digest) -> Result<Option<StoredPlan>, Error> {
        const SQL: &str =
            "SELECT tenant, expires_at, used_by, key_id, nonce, sealed FROM plan WHERE id = $1";
        type Columns =
            (String, i64, Option<String>, Option<String>, Option<Vec<u8>>, Option<Vec<u8>>);
        let reads = reads!(self, |memory| memory.plan(id));
        let id = id.to_string();
        let row: Option<Columns> =
            reads.query(SQL).bind(id).fetch_optional().await.map_err(to_store_error(WHAT))?;
        let Some(columns) = row else { return Ok(None) };
        let (tenant, expires_at, used_by, key_id, nonce, sealed) = columns;
        let sealed = match (key_id, nonce, sealed) {
            (Some(key_id), Some(nonce), Some(bytes)) => Some(Ciphertext { key_id, nonce, bytes }),
            _ => None,
        };
        Ok(Some(StoredPlan {
            tenant: parse_tenant(&tenant)?,
            expires_at: Timestamp::from_millisecond(expires_at).map_err(to_store_error(WHAT))?,
            used_by: used_by.map(|run| run.parse()).transpose().map_err(to_store_error(WHAT))?,
            sealed,
        }))
    }

    /// At most `limit` runs that are over and not reported, after a run, in order of id.
    pub(crate) async fn read_unreported(
        &self,
        after: Uuid,
        limit: u32,
    ) -> Result<Vec<Uuid>, Error> {
        const SQL: &str = "SELECT id FROM run
             WHERE reported = 0 AND ended_at IS NOT NULL AND id > $1 ORDER BY id LIMIT $2";
        let reads = reads!(self, |memory| memory.unreported(after, limit as usize));
        let after = after.to_string();
        let ids: Vec<String> = reads
            .query(SQL)
            .bind(after)
            .bind(i64::from(limit))
            .fetch_values()
            .await
            .map_err(to_store_error(WHAT))?;
        ids.iter().map(|id| id.parse().map_err(to_store_error::<uuid::Error>(WHAT))).collect()
    }

    /// The time of the latest end of a run.
    pub(crate) async fn read_newest_end(&self) -> Result<Option<Timestamp>, Error> {
        const SQL: &str = "SELECT coalesce(max(ended_at), -1) FROM run WHERE ended_at IS NOT NULL";
        let reads = reads!(self, |memory| memory.newest_end());
        let at: i64 = reads.query(SQL).fetch_value().await.map_err(to_store_error(WHAT))?;
        Ok(Timestamp::from_millisecond(at).ok().filter(|_| at >= 0))
    }

    /// The number of runs that wait for a person.
    pub(crate) async fn count_waiting(&self) -> Result<u64, Error> {
        const SQL: &str = "SELECT count(*) FROM run WHERE status = 'waiting'";
        let reads = reads!(self, |memory| memory.count_waiting());
        let count: i64 = reads.query(SQL).fetch_value().await.map_err(to_store_error(WHAT))?;
        Ok(count.unsigned_abs())
    }

    /// Reads the events that begin and end a run, and those of its requests and approvals.
    pub(crate) async fn read_outline(&self, run: Uuid) -> Result<Vec<RunEvent>, Error> {
        const SQL: &str = "SELECT event FROM event
             WHERE run = $1 AND type {among $2} ORDER BY seq";
        let reads = reads!(self, |memory| memory.outline(run));
        let run = run.to_string();
        let rows: Vec<String> = reads
            .query(SQL)
            .bind(run)
            .bind_list(OUTLINE.iter().copied())
            .fetch_values()
            .await
            .map_err(to_store_error(WHAT))?;
        rows.iter().map(|row| parse_event(row)).collect()
    }
}

fn parse_tenant(name: &str) -> Result<Principal, Error> {
    name.parse()
        .map_err(|error: String| Error::new(ErrorKind::Store, format!("stored tenant: {error}")))
}

fn parse_event(row: &str) -> Result<RunEvent, Error> {
    serde_json::from_str(row).map_err(to_store_error(WHAT))
}
