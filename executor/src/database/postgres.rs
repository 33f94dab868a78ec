//! From an address to a PostgreSQL database that can be used.
//!
//! The tables are in a schema of their own, so that registry and executors can share a database.

use std::str::FromStr as _;
use std::time::Duration;

use a2s::Secret;
use sqlx::Connection as _;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use url::Url;

use crate::error::{Error, ErrorKind};

static MIGRATIONS: Migrator = sqlx::migrate!("migrations/postgres");

/// The schema. It is in the search path, so that names without a schema refer to it.
const SCHEMA: &str = "a2s_executor";
const SEARCH_PATH: [(&str, &str); 1] = [("search_path", SCHEMA)];
/// The time for which a request waits for a connection, or for a database that is not available.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// The session settings. With the timeouts, the server itself ends the transaction of an executor that
/// vanishes, and releases its locks for others. With the isolation level, a statement sees everything that
/// was committed before it began, whatever the configuration of the server is.
const SESSION: [(&str, &str); 4] = [
    ("default_transaction_isolation", "read committed"),
    ("statement_timeout", "20s"),
    ("lock_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "5s"),
];
/// The timeouts of a migration: it may take longer than other statements, and so may waiting for another
/// executor that performs it.
const MIGRATION_TIMEOUTS: [(&str, &str); 2] =
    [("statement_timeout", "30min"), ("lock_timeout", "30min")];
/// Version 13.0 in the server's notation: the oldest version with all features that are used here.
const MIN_VERSION: i32 = 130_000;
/// The parameters that may follow the `?` of an address. Others would be ignored and logged with their
/// values, and such a value may be a password with a typo before it.
const PARAMETERS: [&str; 16] = [
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "ssl-mode",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "user",
];

/// An existing database, with the options from its address.
#[derive(Debug, Clone)]
pub(crate) struct PostgresServer(PgConnectOptions);

impl PostgresServer {
    /// Parses the address. For missing parts, `PGPASSWORD`, `PGPASSFILE` and the other variables of libpq
    /// apply. Errors never show the address: it may contain a password.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Configuration`] when it is not the address of a PostgreSQL database.
    pub(crate) fn parse(address: &Secret) -> Result<Self, Error> {
        let address = address.expose_secret();
        let url = Url::parse(address)
            .map_err(|error| unusable(&format!("the database's address: {error}")))?;
        if url.fragment().is_some() {
            let message =
                "the database's address contains a `#`; in a name or password, write `%23` instead";
            return Err(unusable(&message));
        }
        let is_known = |name: &str| {
            PARAMETERS.contains(&name) || (name.starts_with("options[") && name.ends_with(']'))
        };
        if let Some((name, _)) = url.query_pairs().find(|(name, _)| !is_known(name)) {
            // A name with a character that no parameter has could be anything.
            let is_word =
                name.len() < 32 && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            let name = if is_word { format!(" `{name}`") } else { String::new() };
            let message = format!("the database's address has an unknown parameter{name}");
            return Err(unusable(&message));
        }
        PgConnectOptions::from_str(address).map(Self).map_err(|error| unusable(&error))
    }

    /// Creates the schema, or updates it. If several executors try at once, one does it and the others
    /// wait.
    ///
    /// # Errors
    /// Returns [`ErrorKind::StoreAway`] when the server does not respond, and [`ErrorKind::Configuration`]
    /// when it cannot be used.
    pub(crate) async fn migrate(&self) -> Result<(), Error> {
        let options = self.0.clone().options(MIGRATION_TIMEOUTS).options(SEARCH_PATH);
        let connecting = PgConnection::connect_with(&options);
        let mut connection = tokio::time::timeout(ACQUIRE_TIMEOUT, connecting)
            .await
            .map_err(|_| unavailable(&"the server did not accept the connection in time"))?
            .map_err(|error| to_open_error(&error))?;
        check(&mut connection).await?;
        make_schema(&mut connection).await.map_err(|error| to_open_error(&error))?;
        let result = match MIGRATIONS.run(&mut connection).await {
            Ok(()) => Ok(()),
            Err(MigrateError::VersionMissing(_) | MigrateError::VersionTooNew(..)) => {
                Err(super::newer_schema_error())
            }
            Err(MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) => {
                Err(to_open_error(&error))
            }
            Err(other) => Err(unusable(&other)),
        };
        // The work is done; an error of the server on closing changes nothing.
        let _ = connection.close().await;
        result
    }

    /// Creates a pool of at most `most` connections. Each connection is opened when it is needed. With
    /// `lazy_commits`, a commit does not wait for the server's disk.
    pub(crate) fn pool(&self, most: u32, lazy_commits: bool) -> PgPool {
        let mut options = self.0.clone().options(SESSION).options(SEARCH_PATH);
        if lazy_commits {
            options = options.options([("synchronous_commit", "off")]);
        }
        PgPoolOptions::new()
            .max_connections(most)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .connect_lazy_with(options)
    }
}

async fn check(connection: &mut PgConnection) -> Result<(), Error> {
    let (version, encoding): (i32, String) = sqlx::query_as(
        "SELECT current_setting('server_version_num')::integer, current_setting('server_encoding')",
    )
    .fetch_one(connection)
    .await
    .map_err(|error| to_open_error(&error))?;
    if version < MIN_VERSION {
        return Err(unusable(&"the server is older than PostgreSQL 13"));
    }
    if encoding != "UTF8" {
        return Err(unusable(&format!("the database's encoding is {encoding}, not UTF8")));
    }
    Ok(())
}

/// Creates the schema when it is missing. A user without the right to create one uses an existing schema.
async fn make_schema(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin().await?;
    // Two that make it at once would get in each other's way. The number is this lock's own.
    sqlx::query("SELECT pg_advisory_xact_lock(4702111234474983745)")
        .execute(&mut *transaction)
        .await?;
    let there: bool = sqlx::query_scalar("SELECT to_regnamespace($1) IS NOT NULL")
        .bind(SCHEMA)
        .fetch_one(&mut *transaction)
        .await?;
    if !there {
        sqlx::query("CREATE SCHEMA a2s_executor").execute(&mut *transaction).await?;
    }
    transaction.commit().await
}

/// Maps a failure to the error at the start of an executor: a server that is not available may come back; a
/// server that refuses keeps refusing until a person fixes the cause.
fn to_open_error(error: &sqlx::Error) -> Error {
    if super::is_unavailable(error) { unavailable(error) } else { unusable(error) }
}

fn unavailable(why: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::StoreAway, format!("the run database does not respond: {why}"))
}

fn unusable(why: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Configuration, format!("the run database cannot be opened: {why}"))
}
