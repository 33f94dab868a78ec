//! The run database as a test reads and changes it, behind the executor's back.

use a2s::api::Event;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, SqliteConnection};

use super::World;

impl World {
    /// Makes `events` the journal of their run, as if the executor had died behind the last one.
    pub(crate) async fn rewrite_journal(&self, events: &[Event]) {
        let run = events[0].run;
        let rows = events.iter().map(|event| {
            let value = serde_json::to_value(event).unwrap();
            let kind = value["type"].as_str().unwrap();
            let text = value.to_string().replace('\'', "''");
            format!("('{run}', {}, '{kind}', '{text}')", event.seq)
        });
        let rows = rows.collect::<Vec<_>>().join(", ");
        self.change_database(&format!(
            "DELETE FROM event WHERE run = '{run}';
             INSERT INTO event VALUES {rows};
             UPDATE run SET status = 'running' WHERE id = '{run}'"
        ))
        .await;
    }

    pub(crate) async fn change_stored_document(&self, from: &str, to: &str) {
        self.change_database(&format!(
            "UPDATE document SET source = CAST(replace(CAST(source AS TEXT), '{from}', '{to}') AS BLOB)"
        ))
        .await;
    }

    /// Changes the database by hand.
    pub(crate) async fn change_database(&self, sql: &str) {
        let mut connection = self.connect().await;
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }

    /// How many rows a table has.
    pub(crate) async fn count_rows(&self, table: &str) -> i64 {
        let mut connection = self.connect().await;
        let sql = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let count = sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        count
    }

    /// The texts of a query with one column.
    pub(crate) async fn query(&self, sql: &str) -> Vec<String> {
        let mut connection = self.connect().await;
        let rows = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        rows
    }

    /// Every byte of the run database, its log included.
    pub(crate) fn database_bytes(&self) -> Vec<u8> {
        let folder = self.config.database.parent().unwrap();
        let read = || {
            let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
            let files = files.filter(|path| path.extension().is_none_or(|end| end != "key"));
            files.map(|path| std::fs::read(path).ok()).collect::<Option<Vec<_>>>()
        };
        // Whoever crashed may just be closing it: then its log goes while it is read.
        std::iter::repeat_with(read).take(100).flatten().next().expect("the files stay").concat()
    }

    async fn connect(&self) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(&self.config.database);
        options.connect().await.unwrap()
    }
}
