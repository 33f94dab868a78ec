//! Plans that can be run: how they are stored, used up and forgotten.

use a2s::Digest;
use a2s_api::Principal;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::vault::Ciphertext;

/// The time during which a plan is still reported as ended or used.
const ENDED_PLAN_RETENTION: SignedDuration = SignedDuration::from_hours(1);

/// Stores a plan (id, end, key, nonce, sealed bytes) at a time, unless too many plans wait already; and
/// with its principal, unless too many plans of that principal wait.
pub(super) const INSERT_PLAN: &str =
    "INSERT INTO plan (id, expires_at, key_id, nonce, sealed, tenant)
     SELECT $1, $2, $3, $4, $5, $8
     WHERE (SELECT count(*) FROM plan WHERE expires_at > $6 AND used_by IS NULL) < $7
       AND (SELECT count(*) FROM plan
            WHERE expires_at > $6 AND used_by IS NULL AND tenant = $8) < $9
       AND (SELECT count(*) FROM plan WHERE expires_at > $6 AND used_by IS NULL
            AND {before_slash tenant} = $10) < $11";
/// Marks a plan as used by a run and deletes its content, if the plan can be run at the given time.
pub(super) const MARK_USED: &str =
    "UPDATE plan SET used_by = $2, key_id = NULL, nonce = NULL, sealed = NULL
     WHERE id = $1 AND used_by IS NULL AND expires_at > $3";
/// Deletes the contents of plans that have expired at the given time.
pub(super) const CLEAR_EXPIRED: &str = "UPDATE plan SET key_id = NULL, nonce = NULL, sealed = NULL
     WHERE expires_at <= $1 AND sealed IS NOT NULL";
/// Deletes plans that have expired at the given time.
pub(super) const DELETE_EXPIRED: &str = "DELETE FROM plan WHERE expires_at <= $1";

/// The data of a new plan.
#[derive(Debug)]
pub(crate) struct NewPlan {
    /// Digest of its token.
    pub(crate) id: Digest,
    /// The principal that it belongs to.
    pub(crate) tenant: Principal,
    /// The current time.
    pub(crate) now: Timestamp,
    /// The time at which it ends.
    pub(crate) expires_at: Timestamp,
    /// The sealed data that it was made from.
    pub(crate) sealed: Ciphertext,
    /// The most plans that may wait to be run.
    pub(crate) most: usize,
    /// The maximum number of plans of one principal that can still be run.
    pub(crate) most_own: usize,
    /// The maximum number of plans of all principals of one token that can still be run.
    pub(crate) most_of_token: usize,
}

/// A stored plan.
#[derive(Debug, Clone)]
pub(crate) struct StoredPlan {
    /// The principal that it belongs to.
    pub(crate) tenant: Principal,
    /// The time at which it ends.
    pub(crate) expires_at: Timestamp,
    /// The run that it has started.
    pub(crate) used_by: Option<Uuid>,
    /// The sealed data that it was made from; `None` when it was used or has ended.
    pub(crate) sealed: Option<Ciphertext>,
}

/// Returns the time at which a plan must have expired so that it is deleted at the time `now`.
pub(super) fn forgotten_before(now: Timestamp) -> i64 {
    now.checked_sub(ENDED_PLAN_RETENTION).unwrap_or(Timestamp::MIN).as_millisecond()
}
