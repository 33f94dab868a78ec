//! PostgreSQL databases, on the server that `A2S_TEST_POSTGRES_URL` names.

use std::process::{Command, Stdio};

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};
use url::Url;

/// The server that `A2S_TEST_POSTGRES_URL` names.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the environment names the server of tests")]
pub fn postgres_server() -> Option<String> {
    std::env::var("A2S_TEST_POSTGRES_URL").ok().filter(|url| !url.is_empty())
}

/// The same, for tests that need a server: without one, it prints that the test is skipped.
#[must_use]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub fn require_postgres_server() -> Option<String> {
    let server = postgres_server();
    if server.is_none() {
        eprintln!("SKIPPED: A2S_TEST_POSTGRES_URL names no server");
    }
    server
}

/// A new database on a server. It is dropped with this value.
#[derive(Debug)]
pub struct PostgresDatabase {
    server: String,
    /// The address of the database.
    pub address: Url,
}

impl PostgresDatabase {
    /// Creates an empty database.
    #[expect(clippy::disallowed_methods, reason = "a server may have databases of other tests")]
    pub async fn create(server: &str) -> Self {
        let mut address = Url::parse(server).unwrap();
        address.set_path(&format!("a2s_test_{}", uuid::Uuid::new_v4().simple()));
        let database = Self { server: server.to_owned(), address };
        database.execute("CREATE DATABASE", " TEMPLATE template0").await;
        database
    }

    async fn execute(&self, verb: &str, how: &str) {
        let mut connection = PgConnection::connect(&self.server).await.unwrap();
        let name = self.address.path().trim_start_matches('/');
        connection.execute(AssertSqlSafe(format!("{verb} {name}{how}"))).await.unwrap();
        connection.close().await.unwrap();
    }

    /// Creates another database with the same content.
    pub async fn copy(&self) -> Self {
        let copy = Self::create(&self.server).await;
        let mut dump = Command::new("pg_dump")
            .args(["--dbname", self.address.as_str()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let restored = Command::new("psql")
            .args(["--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1"])
            .args(["--dbname", copy.address.as_str()])
            .stdin(dump.stdout.take().unwrap())
            .stdout(Stdio::null())
            .status();
        assert!(restored.unwrap().success() && dump.wait().unwrap().success());
        copy
    }
}

impl Drop for PostgresDatabase {
    #[expect(clippy::print_stderr, reason = "a database that stays takes space")]
    fn drop(&mut self) {
        // A destructor cannot wait for a future, so another thread does.
        let dropped = std::thread::scope(|scope| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let drop = || runtime.unwrap().block_on(self.execute("DROP DATABASE", " WITH (FORCE)"));
            scope.spawn(drop).join()
        });
        if dropped.is_err() {
            eprintln!("the database {} stays on the server", self.address.path());
        }
    }
}
