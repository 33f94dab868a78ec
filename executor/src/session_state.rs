//! State between runs: values for inputs. They belong to a principal, in one session of that principal or
//! for all its runs; other values are for the runs of all principals.
//!
//! A run that lacks a value for a needed input looks here: first in its session, then among the values of
//! its principal, then among those for all. A value from the caller always takes precedence. Secret inputs
//! are never read from here, because these values are stored unencrypted.

use std::collections::BTreeMap;
use std::sync::Arc;

use a2s_api::Principal;
use a2s_api::{StateEntry, StateScope};
use database::Pool;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::clock::Clock;
use crate::config::Limits;
use crate::database::to_store_error;
use crate::error::{Error, ErrorKind};
use a2s::to_single_line;

/// The name of the stored data in errors.
const WHAT: &str = "the remembered values";
/// The maximum length of a name, in bytes.
const MAX_NAME: usize = 100;
/// The maximum length of the name of a session, in bytes.
pub(crate) const MAX_SESSION: usize = 200;
/// The maximum size of a value, in bytes of JSON.
const MAX_VALUE: usize = 64 << 10;
/// The maximum number of values of one holder.
const MAX_ENTRIES: i64 = 1_000;
/// The session of values for the runs of all principals, as guardians see it.
const SHARED_SESSION: &str = "urn:a2s:everybody";

/// Sets a value of a holder, by name. Does nothing when the holder, its principal or the table has the
/// maximum number of values; an existing value is replaced in any case.
const SET: &str = "INSERT INTO state (tenant, session, name, value, updated_at)
     SELECT $1, $2, $3, $4, $5
     WHERE EXISTS (SELECT 1 FROM state WHERE tenant = $1 AND session = $2 AND name = $3)
        OR ((SELECT count(*) FROM state WHERE tenant = $1 AND session = $2) < $6
            AND ($1 = '' OR (SELECT count(*) FROM state WHERE tenant = $1) < $7)
            AND ($1 = '' OR (SELECT count(*) FROM state WHERE {before_slash tenant} = $9) < $10)
            AND (SELECT count(*) FROM state) < $8)
     ON CONFLICT (tenant, session, name)
     DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at";

/// The most values of one principal, and of all holders together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StateQuotas {
    principal: u32,
    /// The most values of all principals of one token.
    token: u32,
    total: u32,
}

impl StateQuotas {
    /// The quotas of the configuration.
    pub(crate) fn from_limits(limits: &Limits) -> Self {
        let (total, principal) = (limits.max_values, limits.max_tenant_values);
        Self { principal, token: (total / 2).max(principal), total }
    }
}

/// The owner of values: the runs that use them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StateOwner {
    /// The runs of one session of a principal.
    Session(Principal, String),
    /// All runs of a principal.
    Principal(Principal),
    /// The runs of all principals.
    Everybody,
}

impl StateOwner {
    /// Creates a session of a principal from its name.
    ///
    /// # Errors
    /// Fails when it is not a valid name of a session.
    pub(crate) fn from_session(principal: &Principal, name: &str) -> Result<Self, Error> {
        if name.is_empty() || name.len() > MAX_SESSION {
            let message = format!("`session` must have 1 to {MAX_SESSION} bytes");
            return Err(Error::new(ErrorKind::BadRequest, message));
        }
        if name.contains('\0') {
            // PostgreSQL takes none.
            return Err(Error::new(ErrorKind::BadRequest, "`session` must not contain NUL"));
        }
        Ok(Self::Session(principal.clone(), name.to_owned()))
    }

    /// Returns the session as guardians see it.
    pub(crate) fn session_id(&self) -> String {
        match self {
            Self::Session(_, name) => name.clone(),
            Self::Principal(principal) => format!("urn:a2s:principal:{principal}"),
            Self::Everybody => SHARED_SESSION.to_owned(),
        }
    }

    /// Returns the columns `tenant` and `session`.
    fn to_columns(&self) -> (String, &str) {
        match self {
            Self::Session(principal, name) => (principal.to_string(), name),
            Self::Principal(principal) => (principal.to_string(), ""),
            Self::Everybody => (String::new(), ""),
        }
    }
}

/// The remembered values that a run uses, with the scope of each.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RecalledInputs {
    /// The values.
    pub(crate) values: Map<String, Value>,
    /// The scope of each, which determines how long it is remembered.
    pub(crate) scopes: BTreeMap<String, StateScope>,
}

/// The store of remembered values, in the executor's database.
#[derive(Debug)]
pub(crate) struct StateTable {
    pool: Pool,
    clock: Arc<dyn Clock>,
    quotas: StateQuotas,
}

impl StateTable {
    /// Creates the store in a migrated database.
    pub(crate) fn new(pool: Pool, clock: Arc<dyn Clock>, quotas: StateQuotas) -> Self {
        Self { pool, clock, quotas }
    }

    /// Returns everything that is remembered for one holder, by name.
    pub(crate) async fn list(&self, holder: &StateOwner) -> Result<Vec<StateEntry>, Error> {
        self.read(holder, None).await
    }

    /// The remembered values of one holder for these names, or for all, by name.
    async fn read(
        &self,
        holder: &StateOwner,
        names: Option<&[String]>,
    ) -> Result<Vec<StateEntry>, Error> {
        let (tenant, session) = holder.to_columns();
        let query = match names {
            None => self.pool.query(
                "SELECT name, value, updated_at FROM state
                 WHERE tenant = $1 AND session = $2 ORDER BY name",
            ),
            Some(_) => self.pool.query(
                "SELECT name, value, updated_at FROM state
                 WHERE tenant = $1 AND session = $2 AND name {among $3} ORDER BY name",
            ),
        };
        let mut query = query.bind(tenant).bind(session);
        if let Some(names) = names {
            query = query.bind_list(names.iter().map(String::as_str));
        }
        let rows: Vec<(String, String, i64)> =
            query.fetch_all().await.map_err(to_store_error(WHAT))?;
        let entry = |(name, value, updated_at): (String, String, i64)| {
            Ok(StateEntry {
                name,
                value: serde_json::from_str(&value).map_err(to_store_error(WHAT))?,
                updated_at: Timestamp::from_millisecond(updated_at)
                    .map_err(to_store_error(WHAT))?,
            })
        };
        rows.into_iter().map(entry).collect()
    }

    /// Deletes the values of sessions that were set before a time.
    pub(crate) async fn forget_sessions(&self, before: Timestamp) -> Result<(), Error> {
        const SQL: &str = "DELETE FROM state WHERE session <> '' AND updated_at < $1";
        let before = before.as_millisecond();
        let gone = self.pool.query(SQL).bind(before).execute().await;
        gone.map(drop).map_err(to_store_error(WHAT))
    }

    /// Checks that a value can be remembered by this name.
    ///
    /// # Errors
    /// When the name is not one of an input, or the value is too large.
    pub(crate) fn check(name: &str, value: &Value) -> Result<(), Error> {
        let refused = |message: String, hint: &str| {
            Err(Error::new(ErrorKind::BadRequest, message).with_hint(hint))
        };
        if name.len() > MAX_NAME || !a2s::is_variable_name(name) {
            let message =
                format!("`{}` is not a valid name of an input", to_single_line(name, MAX_NAME));
            return refused(message, "Use the name of an input; `a2s show` lists them.");
        }
        if value.to_string().len() > MAX_VALUE {
            let message = format!("the value of `{name}` has more than {MAX_VALUE} bytes");
            return refused(message, "Give the value with each run instead.");
        }
        Ok(())
    }

    /// Remembers a value, and replaces an earlier value of this name.
    ///
    /// # Errors
    /// Fails when the name is not valid for an input, when the value is too large, or when there are too
    /// many.
    pub(crate) async fn set(
        &self,
        holder: &StateOwner,
        name: &str,
        value: Value,
    ) -> Result<StateEntry, Error> {
        Self::check(name, &value)?;
        let text = value.to_string();
        let updated_at = self.clock.now();
        let milliseconds = updated_at.as_millisecond();
        let (tenant, session) = holder.to_columns();
        let StateQuotas { principal, token, total } = self.quotas;
        let own_token = tenant.split('/').next().unwrap_or_default().to_owned();
        let written = self
            .pool
            .query(SET)
            .bind(tenant)
            .bind(session)
            .bind(name)
            .bind(text)
            .bind(milliseconds)
            .bind(MAX_ENTRIES)
            .bind(i64::from(principal))
            .bind(i64::from(total))
            .bind(own_token)
            .bind(i64::from(token))
            .execute()
            .await
            .map_err(to_store_error(WHAT))?;
        if written == 0 {
            let message = format!(
                "no more values can be remembered: the limits are {MAX_ENTRIES} values for one scope, {principal} for \
                 one caller, {token} for all callers with one token, and {total} in total"
            );
            let error = Error::new(ErrorKind::BadRequest, message);
            return Err(error.with_hint("Delete some values with `a2s state remove`."));
        }
        Ok(StateEntry { name: name.to_owned(), value, updated_at })
    }

    /// Deletes a value.
    ///
    /// # Errors
    /// Returns [`ErrorKind::StateNotFound`] when there is no value with this name.
    pub(crate) async fn remove(&self, holder: &StateOwner, name: &str) -> Result<(), Error> {
        const SQL: &str = "DELETE FROM state WHERE tenant = $1 AND session = $2 AND name = $3";
        let (tenant, session) = holder.to_columns();
        let removed = self.pool.query(SQL).bind(tenant).bind(session).bind(name).execute().await;
        if removed.map_err(to_store_error(WHAT))? == 0 {
            let message = format!("unknown remembered value `{}`", to_single_line(name, MAX_NAME));
            return Err(Error::new(ErrorKind::StateNotFound, message));
        }
        Ok(())
    }

    /// The remembered values for these names: from the session first, then of the principal, then for all.
    pub(crate) async fn recall_inputs(
        &self,
        session: Option<StateOwner>,
        principal: &Principal,
        names: &[String],
    ) -> Result<RecalledInputs, Error> {
        let mut recalled = RecalledInputs::default();
        if names.is_empty() {
            return Ok(recalled);
        }
        let session = session.map(|session| (StateScope::Session, session));
        let persistent = [StateOwner::Principal(principal.clone()), StateOwner::Everybody];
        let persistent = persistent.map(|holder| (StateScope::Persistent, holder));
        let holders = session.into_iter().chain(persistent);
        for (scope, holder) in holders {
            for entry in self.read(&holder, Some(names)).await? {
                if !recalled.values.contains_key(&entry.name) {
                    recalled.scopes.insert(entry.name.clone(), scope);
                    recalled.values.insert(entry.name, entry.value);
                }
            }
        }
        Ok(recalled)
    }
}
