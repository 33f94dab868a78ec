//! Runs that wait until an executor has a free slot, and the order of their turns.
//!
//! A waiting run is under way, but has not begun on any executor. When an executor has a free slot, the
//! next turn goes to the tenant with the fewest begun runs; among several, to the one with the oldest last
//! turn; and its oldest run begins. So a tenant with a thousand waiting runs delays the only run of another
//! tenant by one turn.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use a2s_api::RunStatus;
use a2s_api::{Principal, TokenSubject};

/// The limits on the number of runs of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TenantQuota {
    /// The maximum number of concurrent runs; `None` when only the free slots limit it.
    pub(crate) max_begun: Option<NonZeroU32>,
    /// The maximum number of waiting runs.
    pub(crate) max_queued: u32,
}

/// The most runs of each tenant that may be begun at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TenantCaps {
    /// The limit of a tenant that is not named.
    pub(crate) default: Option<NonZeroU32>,
    /// The limits for the principals of the tokens with these names: each principal has its own count.
    pub(crate) by_tenant: BTreeMap<TokenSubject, NonZeroU32>,
}

/// The number of runs of one tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TenantLoad {
    /// The number of runs that have begun.
    pub(crate) begun: i64,
    /// The number of runs that wait.
    pub(crate) queued: i64,
    /// The number of waiting runs of all principals of its token.
    pub(crate) queued_of_token: i64,
}

/// The decision on a new run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueDecision {
    Start,
    Queue,
    /// The run is refused.
    Refuse,
}

impl TenantQuota {
    /// Returns true when another run may begin wherever it gets a slot, and has one: then no run has to be
    /// counted.
    pub(super) fn needs_slot_only(self, is_placed: bool) -> bool {
        is_placed && self.max_begun.is_none()
    }

    /// Decides on another run of a tenant, with or without a slot for it at an executor. Calls `load` only
    /// when it matters.
    pub(super) fn decide(
        self,
        is_placed: bool,
        load: impl FnOnce() -> TenantLoad,
    ) -> QueueDecision {
        if self.needs_slot_only(is_placed) {
            return QueueDecision::Start;
        }
        let load = load();
        let most = self.max_begun.map_or(i64::MAX, |most| i64::from(most.get()));
        // What has come before and waits has its turn first.
        let is_its_turn = load.queued == 0 && load.begun < most;
        if is_placed && is_its_turn {
            QueueDecision::Start
        } else if self.has_room(load) {
            QueueDecision::Queue
        } else {
            QueueDecision::Refuse
        }
    }

    /// Returns true when another run may wait: the principal has its own limit, and all principals of its
    /// token, which may name any number of end users, have twice as much together.
    pub(crate) fn has_room(self, load: TenantLoad) -> bool {
        let most = i64::from(self.max_queued);
        load.queued < most && load.queued_of_token < 2 * most
    }
}

impl TenantCaps {
    /// The most runs of a principal that may be begun at the same time; `None` when only free slots limit
    /// them.
    pub(super) fn limit_for(&self, principal: &Principal) -> Option<NonZeroU32> {
        self.by_tenant.get(&principal.token).copied().or(self.default)
    }

    /// The parameters of [`NEXT_TURNS`]: the limits of named tenants as JSON, and the limit of all others.
    pub(super) fn to_columns(&self) -> (String, i64) {
        let own: serde_json::Map<_, _> = self
            .by_tenant
            .iter()
            .map(|(tenant, most)| (tenant.to_string(), most.get().into()))
            .collect();
        let default = self.default.map_or(i64::MAX, |most| i64::from(most.get()));
        (serde_json::Value::Object(own).to_string(), default)
    }
}

/// The number of runs that a tenant has begun, the number that wait, and the number of waiting runs of all
/// tenants with the token $2.
pub(super) const LOAD: &str = "SELECT count(*) FILTER (WHERE queued = 0 AND tenant = $1),
            count(*) FILTER (WHERE queued = 1 AND tenant = $1), count(*) FILTER (WHERE queued = 1)
     FROM run WHERE status = 'running' AND queued IN (0, 1) AND {before_slash tenant} = $2";

/// True when any run waits.
pub(super) const IS_ANY: &str =
    "SELECT EXISTS (SELECT 1 FROM run WHERE status = 'running' AND queued = 1)";

/// The SQL statement for the runs that begin next, with their tenants, in order. Its parameters are the
/// maximum numbers of begun runs of the tenants, as JSON by the names of tokens; the maximum for tenants
/// that are not in it; and the maximum number of runs to begin. The name of the token is the text of a
/// tenant up to the first slash.
///
/// The statement chooses the same runs together that it would choose one after the other. The first waiting
/// run of a tenant with `n` begun runs has the number `n + 1`, and so on. Runs with the smallest number
/// come first. Of runs with the same number, those come first whose tenants have had no turn in this choice
/// yet, in the order of their last turn, and then the others in their order.
pub(super) const NEXT_TURNS: &str = "WITH own (tenant, most) AS ({pairs $1}), load AS (
         SELECT tenant, count(*) AS begun FROM run
         WHERE status = 'running' AND queued = 0 GROUP BY tenant
     ), waiting AS (
         SELECT id, tenant, row_number() OVER (PARTITION BY tenant ORDER BY id) AS place,
                min(id) OVER (PARTITION BY tenant) AS head
         FROM run WHERE status = 'running' AND queued = 1
     )
     SELECT waiting.id, waiting.tenant FROM waiting
     LEFT JOIN load ON load.tenant = waiting.tenant
     LEFT JOIN turn ON turn.tenant = waiting.tenant
     LEFT JOIN own ON own.tenant = {before_slash waiting.tenant}
     WHERE coalesce(load.begun, 0) + place <= coalesce(own.most, $2)
     ORDER BY coalesce(load.begun, 0) + place, place, coalesce(turn.number, 0), head
     LIMIT $3";

/// The SQL statement that records the turns of tenants, from JSON with the position of the last turn of
/// each.
pub(super) const NOTE_TURNS: &str = "WITH had (tenant, place) AS ({pairs $1})
     INSERT INTO turn (tenant, number)
     SELECT tenant, place + (SELECT coalesce(max(number), 0) FROM turn) FROM had WHERE true
     ON CONFLICT (tenant) DO UPDATE SET number = excluded.number";

/// The parameter of [`NOTE_TURNS`], from runs with their tenants in the order of their turns.
pub(super) fn turns_json(begun: &[(String, String)]) -> String {
    let places = begun.iter().zip(1_i64..).map(|((_, tenant), place)| (tenant.as_str(), place));
    serde_json::json!(places.collect::<BTreeMap<_, _>>()).to_string()
}

/// Returns the columns `status` and `queued` for a status.
pub(super) fn status_columns(status: RunStatus) -> (&'static str, i64) {
    match status {
        RunStatus::Queued => (RunStatus::Running.as_str(), 1),
        other => (other.as_str(), 0),
    }
}
