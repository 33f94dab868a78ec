//! Where the executors of tests keep what they are told: in a file, or, with
//! `A2S_TEST_POSTGRES_URL`, in a database of their own on that server.

use std::path::PathBuf;

use a2s::Secret;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};
use test_support::{PostgresDatabase, postgres_server};

use crate::ExecutorDatabase;

/// A database for one test, in `file` or on the server.
pub(crate) async fn make(file: PathBuf) -> (ExecutorDatabase, Option<PostgresDatabase>) {
    match postgres_server() {
        Some(server) => {
            let database = PostgresDatabase::create(&server).await;
            (ExecutorDatabase::Postgres(Secret::new(database.address.clone())), Some(database))
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
