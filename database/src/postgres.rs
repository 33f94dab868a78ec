//! From an address to a PostgreSQL database that can be used.

use std::str::FromStr as _;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _};
use url::Url;

use crate::Error;

/// The time for which a request waits for a connection, or for a database that is not available.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// The session settings. With the timeouts, the server itself ends a statement of a service that vanishes,
/// and releases its locks for others. With the isolation level, a statement sees everything that was
/// committed before it began, whatever the configuration of the server is.
const SESSION: [(&str, &str); 3] = [
    ("default_transaction_isolation", "read committed"),
    ("statement_timeout", "20s"),
    ("lock_timeout", "10s"),
];
/// The timeouts of a migration: it may take longer than other statements, and so may waiting for another
/// service that performs it.
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
pub struct PostgresServer {
    options: PgConnectOptions,
    schema: Option<&'static str>,
}

impl PostgresServer {
    /// Parses the address. For missing parts, `PGPASSWORD`, `PGPASSFILE` and the other variables of libpq
    /// apply. With `schema`, the tables are in this schema, so that several services can share a database.
    ///
    /// # Errors
    /// Fails when it is not the address of a PostgreSQL database. Errors never show the address: it may
    /// contain a password.
    pub fn parse(address: &str, schema: Option<&'static str>) -> Result<Self, Error> {
        let url = Url::parse(address)
            .map_err(|error| Error::unusable(format!("the database's address: {error}")))?;
        if url.fragment().is_some() {
            let message =
                "the database's address contains a `#`; in a name or password, write `%23` instead";
            return Err(Error::unusable(message));
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
            return Err(Error::unusable(message));
        }
        let options = PgConnectOptions::from_str(address).map_err(Error::unusable)?;
        // In the search path, names without a schema refer to it.
        let options = options.options(schema.map(|schema| ("search_path", schema)));
        Ok(Self { options, schema })
    }

    /// Opens a connection for a migration, and creates the schema when it is missing. Run the migrations on
    /// it: if several services try at once, one does it and the others wait.
    ///
    /// # Errors
    /// Fails when the server does not respond or cannot be used.
    pub async fn connect(&self) -> Result<PgConnection, Error> {
        let options = self.options.clone().options(MIGRATION_TIMEOUTS);
        let connecting = PgConnection::connect_with(&options);
        let mut connection = tokio::time::timeout(ACQUIRE_TIMEOUT, connecting)
            .await
            .map_err(|_| Error::unavailable("the server did not accept the connection in time"))?
            .map_err(Error::from_open)?;
        check_server(&mut connection).await?;
        if let Some(schema) = self.schema {
            create_schema(&mut connection, schema).await.map_err(Error::from_open)?;
        }
        Ok(connection)
    }

    /// Creates a pool of at most `most` connections with these settings. Each connection is opened when it
    /// is needed.
    pub fn pool(&self, most: u32, settings: &[(&str, &str)]) -> PgPool {
        let settings = SESSION.iter().chain(settings).copied();
        PgPoolOptions::new()
            .max_connections(most)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .connect_lazy_with(self.options.clone().options(settings))
    }
}

async fn check_server(connection: &mut PgConnection) -> Result<(), Error> {
    let (version, encoding): (i32, String) = sqlx::query_as(
        "SELECT current_setting('server_version_num')::integer, current_setting('server_encoding')",
    )
    .fetch_one(connection)
    .await
    .map_err(Error::from_open)?;
    if version < MIN_VERSION {
        return Err(Error::unusable("the server is older than PostgreSQL 13"));
    }
    if encoding != "UTF8" {
        return Err(Error::unusable(format!("the database's encoding is {encoding}, not UTF8")));
    }
    Ok(())
}

/// Creates the schema when it is missing. A user without the right to create one uses an existing schema.
async fn create_schema(
    connection: &mut PgConnection,
    schema: &'static str,
) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin().await?;
    // Two that make it at once would get in each other's way. The number is this lock's own.
    sqlx::query("SELECT pg_advisory_xact_lock(4702111234474983745)")
        .execute(&mut *transaction)
        .await?;
    let there: bool = sqlx::query_scalar("SELECT to_regnamespace($1) IS NOT NULL")
        .bind(schema)
        .fetch_one(&mut *transaction)
        .await?;
    if !there {
        let create = AssertSqlSafe(format!("CREATE SCHEMA {schema}"));
        sqlx::query(create).execute(&mut *transaction).await?;
    }
    transaction.commit().await
}
