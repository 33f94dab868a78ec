//! From an address to a database that can be used.

use std::str::FromStr as _;
use std::time::Duration;

use reqwest::Url;
use sqlx::Connection as _;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};

use super::PostgresStore;
use crate::store::Error;

static MIGRATIONS: Migrator = sqlx::migrate!("migrations/postgres");

/// The maximum number of connections of one registry.
const MAX_CONNECTIONS: u32 = 8;
/// The time that a request waits for a connection, or for a database that is away.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeouts of the server. If a registry disappears in the middle of a transaction, its lock is free for
/// others after that time.
const TIMEOUTS: [(&str, &str); 3] = [
    ("statement_timeout", "20s"),
    ("lock_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "20s"),
];
/// The timeouts of a migration. A new schema may take longer, and so may the wait for another registry that
/// migrates.
const MIGRATION_TIMEOUTS: [(&str, &str); 2] =
    [("statement_timeout", "30min"), ("lock_timeout", "30min")];
/// The minimum version of the server, 13.0, in the server's notation. It is the oldest version with all
/// required features.
const MIN_SERVER_VERSION: i32 = 130_000;
/// The parameters that an address may have after the `?`. The driver would ignore other names and log them
/// with their values, one of which could be a password after a mistyped name.
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

impl PostgresStore {
    /// Connects to the database and updates its schema.
    pub(crate) async fn open(address: &str) -> Result<Self, Error> {
        let options = parse_address(address)?;
        migrate(&options).await?;
        let pool = PgPoolOptions::new()
            .max_connections(MAX_CONNECTIONS)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .connect_lazy_with(options.options(TIMEOUTS));
        Ok(Self { pool })
    }
}

/// Parses the address; the missing parts come from `PGPASSWORD`, `PGPASSFILE` and the other variables of
/// libpq. Errors never show the address, because it may contain a password.
fn parse_address(address: &str) -> Result<PgConnectOptions, Error> {
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
        let is_word = name.len() < 32 && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        let name = if is_word { format!(" `{name}`") } else { String::new() };
        let message = format!("the database's address has an unknown parameter{name}");
        return Err(Error::unusable(message));
    }
    PgConnectOptions::from_str(address).map_err(Error::unusable)
}

/// Updates the schema. When several registries start at once, one updates it and the others wait.
async fn migrate(options: &PgConnectOptions) -> Result<(), Error> {
    let options = options.clone().options(MIGRATION_TIMEOUTS);
    let connecting = PgConnection::connect_with(&options);
    let mut connection = tokio::time::timeout(ACQUIRE_TIMEOUT, connecting)
        .await
        .map_err(|_| Error::unavailable("the server did not accept the connection in time"))?
        .map_err(to_open_error)?;
    check_server(&mut connection).await?;
    let result = match MIGRATIONS.run(&mut connection).await {
        Ok(()) => Ok(()),
        // The database knows a migration that this program does not: it is newer, or not ours.
        Err(error @ (MigrateError::VersionMissing(_) | MigrateError::VersionTooNew(..))) => {
            match is_registry_database(&mut connection).await? {
                true => Err(Error::newer(error)),
                false => Err(Error::unusable("the database belongs to another program")),
            }
        }
        Err(MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) => {
            Err(to_open_error(error))
        }
        Err(other) => Err(Error::unusable(other)),
    };
    // The work is done; an error of the server on closing changes nothing.
    let _ = connection.close().await;
    result
}

async fn check_server(connection: &mut PgConnection) -> Result<(), Error> {
    let (version, encoding): (i32, String) = sqlx::query_as(
        "SELECT current_setting('server_version_num')::integer, current_setting('server_encoding')",
    )
    .fetch_one(&mut *connection)
    .await
    .map_err(to_open_error)?;
    if version < MIN_SERVER_VERSION {
        return Err(Error::unusable("the server is older than PostgreSQL 13"));
    }
    if encoding != "UTF8" {
        return Err(Error::unusable(format!("the database's encoding is {encoding}, not UTF8")));
    }
    Ok(())
}

async fn is_registry_database(connection: &mut PgConnection) -> Result<bool, Error> {
    let found = sqlx::query_scalar(
        "SELECT to_regclass('registry') IS NOT NULL AND to_regclass('capability') IS NOT NULL",
    );
    found.fetch_one(&mut *connection).await.map_err(to_open_error)
}

/// The meaning of an error at the start: a server that is away may come back; one that refuses keeps
/// refusing until an operator fixes it.
fn to_open_error(error: sqlx::Error) -> Error {
    let may_pass = match &error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut => true,
        // Connections, resources, an operator who stops or starts the server, its disk.
        sqlx::Error::Database(error) => error.code().is_some_and(|code| {
            ["08", "53", "57", "58"].iter().any(|class| code.starts_with(class))
        }),
        _ => false,
    };
    if may_pass { Error::unavailable(error) } else { Error::unusable(error) }
}
