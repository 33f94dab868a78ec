//! What is remembered between runs: values for inputs, of one session or of all.
//!
//! A run that lacks a value for an input that it needs finds it here, in its session first; what
//! the caller gives always wins. Secret inputs are never taken from here, because these values are
//! stored as they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use a2s::api::{StateEntry, StateScope};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::clock::Clock;
use crate::database::{Pool, failed, on};
use crate::error::{Error, Kind};
use crate::request::one_line;

/// As errors call it.
const WHAT: &str = "what is remembered";
/// The longest name.
const MAX_NAME: usize = 100;
/// The longest name of a session.
pub(crate) const MAX_SESSION: usize = 200;
/// The largest value, in bytes of JSON.
const MAX_VALUE: usize = 64 << 10;
/// The most values of one session, or of all runs.
const MAX_ENTRIES: i64 = 1_000;

/// Sets a value of a session by its name, to a text and at a time, unless there are so many.
const SET: &str = "INSERT INTO state (session, name, value, updated_at)
     SELECT $1, $2, $3, $4
     WHERE (SELECT count(*) FROM state WHERE session = $1 AND name <> $2) < $5
     ON CONFLICT (session, name)
     DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at";

/// Whose values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Those of one session.
    Session(String),
    /// Those of all runs.
    Everybody,
}

impl Holder {
    /// A session by its name.
    ///
    /// # Errors
    /// When it cannot be the name of one.
    pub(crate) fn session(name: &str) -> Result<Self, Error> {
        if name.is_empty() || name.len() > MAX_SESSION {
            let message = format!("`session` takes 1 to {MAX_SESSION} bytes");
            return Err(Error::new(Kind::BadRequest, message));
        }
        if name.contains('\0') {
            // PostgreSQL takes none.
            return Err(Error::new(Kind::BadRequest, "`session` takes no NUL"));
        }
        Ok(Self::Session(name.to_owned()))
    }

    /// The name of the session, if it is one.
    pub(crate) fn session_name(&self) -> Option<&str> {
        match self {
            Self::Session(name) => Some(name),
            Self::Everybody => None,
        }
    }

    /// As the table has it.
    fn key(&self) -> &str {
        self.session_name().unwrap_or_default()
    }
}

/// Values that a run took from here, and from where each.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Recalled {
    /// The values.
    pub(crate) values: Map<String, Value>,
    /// How long each is remembered.
    pub(crate) scopes: BTreeMap<String, StateScope>,
}

/// The store of what is remembered, in the executor's database.
#[derive(Debug)]
pub(crate) struct States {
    pool: Pool,
    clock: Arc<dyn Clock>,
}

impl States {
    /// The store in a database that has been migrated.
    pub(crate) fn new(pool: Pool, clock: Arc<dyn Clock>) -> Self {
        Self { pool, clock }
    }

    /// Everything that is remembered of one holder, by name.
    pub(crate) async fn list(&self, holder: &Holder) -> Result<Vec<StateEntry>, Error> {
        self.read(holder, None).await
    }

    /// What is remembered of one holder for these names, or for all, by name.
    async fn read(
        &self,
        holder: &Holder,
        names: Option<&[String]>,
    ) -> Result<Vec<StateEntry>, Error> {
        let sql = match &self.pool {
            Pool::Sqlite(_) => {
                "SELECT name, value, updated_at FROM state
                 WHERE session = $1
                   AND ($2 IS NULL OR name IN (SELECT value FROM json_each($2)))
                 ORDER BY name"
            }
            Pool::Postgres(_) => {
                "SELECT name, value, updated_at FROM state
                 WHERE session = $1
                   AND ($2 IS NULL OR name IN (SELECT jsonb_array_elements_text($2::jsonb)))
                 ORDER BY name"
            }
        };
        let names = names.map(|names| serde_json::json!(names).to_string());
        let rows: Result<Vec<(String, String, i64)>, _> = on!(&self.pool, |pool| {
            sqlx::query_as(sql).bind(holder.key()).bind(names).fetch_all(pool).await
        });
        let rows = rows.map_err(failed(WHAT))?;
        let entry = |(name, value, updated_at): (String, String, i64)| {
            Ok(StateEntry {
                name,
                value: serde_json::from_str(&value).map_err(failed(WHAT))?,
                updated_at: Timestamp::from_millisecond(updated_at).map_err(failed(WHAT))?,
            })
        };
        rows.into_iter().map(entry).collect()
    }

    /// Whether a value can be remembered by this name.
    ///
    /// # Errors
    /// When the name is not one of an input, or the value is too large.
    pub(crate) fn check(name: &str, value: &Value) -> Result<(), Error> {
        let refused =
            |message: String, hint: &str| Err(Error::new(Kind::BadRequest, message).hint(hint));
        if name.len() > MAX_NAME || !a2s::is_variable_name(name) {
            let message = format!("`{}` cannot name an input", one_line(name, MAX_NAME));
            return refused(message, "Use the name of an input; `a2s show` lists them.");
        }
        if value.to_string().len() > MAX_VALUE {
            let message = format!("the value of `{name}` has more than {MAX_VALUE} bytes");
            return refused(message, "Give it with each run instead.");
        }
        Ok(())
    }

    /// Remembers a value, in place of the one that was remembered by this name.
    ///
    /// # Errors
    /// When the name is not one of an input, the value is too large, or there are too many.
    pub(crate) async fn set(
        &self,
        holder: &Holder,
        name: &str,
        value: Value,
    ) -> Result<StateEntry, Error> {
        Self::check(name, &value)?;
        let text = value.to_string();
        let updated_at = self.clock.now();
        let milliseconds = updated_at.as_millisecond();
        let written = on!(&self.pool, |pool| {
            let query = sqlx::query(SET).bind(holder.key()).bind(name).bind(text);
            let query = query.bind(milliseconds).bind(MAX_ENTRIES);
            query.execute(pool).await.map(|done| done.rows_affected())
        });
        let written = written.map_err(failed(WHAT))?;
        if written == 0 {
            let message = format!("{MAX_ENTRIES} values are remembered here, and that is the most");
            let error = Error::new(Kind::BadRequest, message);
            return Err(error.hint("Forget some with `a2s state remove`."));
        }
        Ok(StateEntry { name: name.to_owned(), value, updated_at })
    }

    /// Forgets a value.
    ///
    /// # Errors
    /// [`Kind::StateNotFound`] when there is none of this name.
    pub(crate) async fn remove(&self, holder: &Holder, name: &str) -> Result<(), Error> {
        const SQL: &str = "DELETE FROM state WHERE session = $1 AND name = $2";
        let removed = on!(&self.pool, |pool| {
            let query = sqlx::query(SQL).bind(holder.key()).bind(name);
            query.execute(pool).await.map(|done| done.rows_affected())
        });
        if removed.map_err(failed(WHAT))? == 0 {
            let message =
                format!("nothing is remembered by the name `{}`", one_line(name, MAX_NAME));
            return Err(Error::new(Kind::StateNotFound, message));
        }
        Ok(())
    }

    /// What is remembered for these names: in the session first.
    pub(crate) async fn recall(
        &self,
        session: Option<&str>,
        names: &[String],
    ) -> Result<Recalled, Error> {
        let mut recalled = Recalled::default();
        if names.is_empty() {
            return Ok(recalled);
        }
        let session = session.map(|name| (StateScope::Session, Holder::Session(name.to_owned())));
        let holders = session.into_iter().chain([(StateScope::Persistent, Holder::Everybody)]);
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
