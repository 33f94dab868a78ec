//! Where the registries of tests keep what they are told: in a file, or, with
//! `A2S_TEST_POSTGRES_URL`, in a database of their own on that server; and their search index: in
//! memory, or, with `A2S_TEST_QDRANT_URL`, on that server, where each database has indexes of its own.

use std::path::Path;

use sqlx::AssertSqlSafe;
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};
use tempfile::TempDir;
use test_support::{PostgresDatabase, postgres_server};

use crate::{Config, IndexLocation, QdrantConfig, Secret};

/// The server of `A2S_TEST_QDRANT_URL`, with the key of `QDRANT_KEY`.
#[expect(clippy::disallowed_methods, reason = "tests are told by the environment alone")]
pub(crate) fn qdrant() -> Option<QdrantConfig> {
    let url = std::env::var("A2S_TEST_QDRANT_URL").ok().filter(|url| !url.is_empty())?;
    let key = std::env::var("QDRANT_KEY").ok().filter(|key| !key.is_empty());
    let url = reqwest::Url::parse(&url).unwrap();
    Some(QdrantConfig { url, key: key.map(Secret::new), shards: None, replicas: None })
}

/// The folder of a registry, and its database, wherever that is. Both are gone with it.
#[derive(Debug)]
pub(crate) struct Folder {
    folder: TempDir,
    postgres: Option<PostgresDatabase>,
    qdrant: Option<QdrantConfig>,
}

impl Folder {
    /// One whose index is in memory, whatever the environment says: for tests of its copy.
    pub(crate) async fn with_index() -> Self {
        Self { qdrant: None, ..Self::new().await }
    }

    pub(crate) async fn new() -> Self {
        let postgres = match postgres_server() {
            Some(server) => Some(PostgresDatabase::create(&server).await),
            None => None,
        };
        Self { postgres, qdrant: qdrant(), ..Self::with_file() }
    }

    /// One with the database in a file, whatever the environment says.
    pub(crate) fn with_file() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), postgres: None, qdrant: None }
    }

    /// A folder whose database is there already.
    pub(crate) fn over(database: PostgresDatabase) -> Self {
        Self { postgres: Some(database), ..Self::with_file() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What a registry in it is made of.
    pub(crate) fn config(&self, token: Option<&str>) -> Config {
        let mut config = Config::in_folder(self.path(), token.map(Secret::new));
        if let Some(database) = &self.postgres {
            config.database = database.address.to_string().into();
        }
        if let Some(qdrant) = &self.qdrant {
            config.index = IndexLocation::Qdrant(qdrant.clone());
        }
        config
    }

    /// A copy, as a crash at this moment would leave it.
    pub(crate) async fn copy(&self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let postgres = match &self.postgres {
            Some(database) => Some(database.copy().await),
            None => None,
        };
        for entry in std::fs::read_dir(self.path()).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
            }
        }
        assert!(self.qdrant.is_none(), "an index on a server is not copied with its folder");
        Self { folder, postgres, qdrant: None }
    }

    /// Removes the copies of all indexes in memory.
    pub(crate) async fn forget_indexes(&self) {
        self.database().await.execute("DELETE FROM search_index", &[]).await;
    }

    /// The database, as someone with a shell on the machine has it.
    pub(crate) async fn database(&self) -> Behind {
        match &self.postgres {
            Some(database) => {
                let options = PgPoolOptions::new().max_connections(1);
                Behind::Postgres(options.connect(database.address.as_str()).await.unwrap())
            }
            None => Behind::Sqlite(self.file().await),
        }
    }

    /// The same when it is in a file.
    pub(crate) async fn file(&self) -> SqlitePool {
        let file = self.path().join("registry.sqlite");
        let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
        SqlitePoolOptions::new().max_connections(1).connect_with(options).await.unwrap()
    }
}

/// A way into a database behind its registry's back.
#[derive(Debug)]
pub(crate) enum Behind {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

impl Behind {
    /// Runs a statement that both engines understand, with `$1` for the first text, and tells how
    /// many rows it changed.
    pub(crate) async fn execute(&self, sql: &str, texts: &[&str]) -> u64 {
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Self::Sqlite(pool) => {
                let query = texts.iter().fold(sqlx::query(sql), |query, text| query.bind(*text));
                query.execute(pool).await.unwrap().rows_affected()
            }
            Self::Postgres(pool) => {
                let query = texts.iter().fold(sqlx::query(sql), |query, text| query.bind(*text));
                query.execute(pool).await.unwrap().rows_affected()
            }
        }
    }

    pub(crate) async fn close(self) {
        match self {
            Self::Sqlite(pool) => pool.close().await,
            Self::Postgres(pool) => pool.close().await,
        }
    }
}
