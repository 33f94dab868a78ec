//! Where the executors of tests keep what they are told: in a file, or, with
//! `A2S_TEST_POSTGRES_URL`, in a database of their own on that server.

use std::path::PathBuf;

use a2s::Secret;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _};
use url::Url;

use crate::ExecutorDatabase;

/// The server of `A2S_TEST_POSTGRES_URL`.
#[expect(clippy::disallowed_methods, reason = "tests are told by the environment alone")]
pub(crate) fn server() -> Option<String> {
    std::env::var("A2S_TEST_POSTGRES_URL").ok().filter(|url| !url.is_empty())
}

/// The same, and what is tried on it alone says aloud when there is none.
pub(crate) fn configured_server() -> Option<String> {
    let server = server();
    if server.is_none() {
        eprintln!("SKIPPED: A2S_TEST_POSTGRES_URL names no server");
    }
    server
}

/// A database of its own on a server; dropped with this.
#[derive(Debug)]
pub(crate) struct Made {
    server: String,
    name: String,
}

impl Made {
    #[expect(clippy::disallowed_methods, reason = "a server may have databases of other tests")]
    pub(crate) async fn on(server: &str) -> Self {
        let name = format!("a2s_test_{}", uuid::Uuid::new_v4().simple());
        let made = Self { server: server.to_owned(), name };
        made.tell("CREATE DATABASE", " TEMPLATE template0").await;
        made
    }

    pub(crate) fn address(&self) -> Url {
        let mut url = Url::parse(&self.server).unwrap();
        url.set_path(&self.name);
        url
    }

    async fn tell(&self, verb: &str, how: &str) {
        let mut connection = PgConnection::connect(&self.server).await.unwrap();
        let sql = format!("{verb} {}{how}", self.name);
        connection.execute(AssertSqlSafe(sql)).await.unwrap();
        connection.close().await.unwrap();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // Nobody waits in a destructor, so another thread does.
        let dropped = std::thread::scope(|scope| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let drop = || runtime.unwrap().block_on(self.tell("DROP DATABASE", " WITH (FORCE)"));
            scope.spawn(drop).join()
        });
        if dropped.is_err() {
            eprintln!("the database {} stays on the server", self.name);
        }
    }
}

/// A database for one test, in `file` or on the server.
pub(crate) async fn make(file: PathBuf) -> (ExecutorDatabase, Option<Made>) {
    match server() {
        Some(server) => {
            let made = Made::on(&server).await;
            (ExecutorDatabase::Postgres(Secret::new(made.address())), Some(made))
        }
        None => (ExecutorDatabase::File(file), None),
    }
}

/// A way into a database behind its executor's back.
pub(crate) enum Behind {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Behind {
    pub(crate) async fn to(database: &ExecutorDatabase) -> Self {
        match database {
            ExecutorDatabase::File(path) => {
                let options = SqliteConnectOptions::new().filename(path);
                Self::Sqlite(options.connect().await.unwrap())
            }
            ExecutorDatabase::Postgres(address) => {
                let options: PgConnectOptions = address.expose_secret().parse().unwrap();
                // Texts that somebody looks for are found in bytes, too.
                let options =
                    options.options([("search_path", "a2s_executor"), ("bytea_output", "escape")]);
                Self::Postgres(options.connect().await.unwrap())
            }
        }
    }

    /// Runs statements.
    pub(crate) async fn change(&mut self, sql: &str) {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        match self {
            Self::Sqlite(connection) => drop(sql.execute(connection).await.unwrap()),
            Self::Postgres(connection) => drop(sql.execute(connection).await.unwrap()),
        }
    }

    /// The texts of a query with one column.
    pub(crate) async fn texts(&mut self, sql: &str) -> Vec<String> {
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Self::Sqlite(connection) => sqlx::query_scalar(sql).fetch_all(connection).await,
            Self::Postgres(connection) => sqlx::query_scalar(sql).fetch_all(connection).await,
        }
        .unwrap()
    }

    /// The number of a query with one.
    pub(crate) async fn number(&mut self, sql: &str) -> i64 {
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Self::Sqlite(connection) => sqlx::query_scalar(sql).fetch_one(connection).await,
            Self::Postgres(connection) => sqlx::query_scalar(sql).fetch_one(connection).await,
        }
        .unwrap()
    }

    /// Everything in all tables, as text.
    pub(crate) async fn everything(&mut self) -> String {
        let tables = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'a2s_executor'";
        let mut text = String::new();
        for table in self.texts(tables).await {
            text += &self.texts(&format!("SELECT rows::text FROM {table} rows")).await.join("\n");
        }
        text
    }

    pub(crate) async fn close(self) {
        match self {
            Self::Sqlite(connection) => connection.close().await,
            Self::Postgres(connection) => connection.close().await,
        }
        .unwrap();
    }
}
