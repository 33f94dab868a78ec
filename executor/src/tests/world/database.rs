//! The run database as a test reads and changes it, behind the executor's back.

use std::path::PathBuf;

use a2s_api::RunEvent;

use super::World;
use crate::ExecutorDatabase;
use crate::tests::database::Behind;

impl World {
    /// Makes `events` the journal of their run, as if the executor had died behind the last one.
    pub(crate) async fn rewrite_journal(&self, events: &[RunEvent]) {
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
        let (text, bytes) = match &self.config.database {
            ExecutorDatabase::File(_) => ("CAST(source AS TEXT)", "CAST(replaced AS BLOB)"),
            ExecutorDatabase::Postgres(_) => {
                ("convert_from(source, 'UTF8')", "convert_to(replaced, 'UTF8')")
            }
        };
        let replaced = bytes.replace("replaced", &format!("replace({text}, '{from}', '{to}')"));
        self.change_database(&format!("UPDATE document SET source = {replaced}")).await;
    }

    /// Lets every change fail that `place` names (`AFTER UPDATE ON plan`), until it is mended.
    pub(crate) async fn break_database(&self, place: &str) {
        let sql = match &self.config.database {
            ExecutorDatabase::File(_) => {
                format!(
                    "CREATE TRIGGER fault {place} BEGIN SELECT RAISE(ABORT, 'the disk is gone'); END"
                )
            }
            ExecutorDatabase::Postgres(_) => format!(
                "CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql
                     AS 'BEGIN RAISE EXCEPTION ''the disk is gone''; END';
                 CREATE TRIGGER fault {place} FOR EACH ROW EXECUTE FUNCTION fault()"
            ),
        };
        self.change_database(&sql).await;
    }

    /// Lets the whole transaction of such a change end, as SQLite does when the disk is full: the driver
    /// does not learn that it was rolled back.
    pub(crate) async fn break_transactions(&self, place: &str) {
        match &self.config.database {
            ExecutorDatabase::File(_) => {
                let fault = "SELECT RAISE(ROLLBACK, 'the disk is full')";
                self.change_database(&format!("CREATE TRIGGER fault {place} BEGIN {fault}; END"))
                    .await;
            }
            ExecutorDatabase::Postgres(_) => self.break_database(place).await,
        }
    }

    pub(crate) async fn mend_database(&self) {
        let sql = match &self.config.database {
            ExecutorDatabase::File(_) => "DROP TRIGGER fault",
            ExecutorDatabase::Postgres(_) => "DROP FUNCTION fault CASCADE",
        };
        self.change_database(sql).await;
    }

    /// Lets the next executor seal with a key of its own, as an operator does who changes the key.
    pub(crate) async fn forget_key(&self) {
        if let ExecutorDatabase::Postgres(_) = &self.config.database {
            self.change_database(
                "DO $$ BEGIN UPDATE executor SET key_id = NULL;
                       EXCEPTION WHEN undefined_table THEN NULL; END $$",
            )
            .await;
        }
    }

    /// Changes the database by hand.
    pub(crate) async fn change_database(&self, sql: &str) {
        let mut behind = Behind::to(&self.config.database).await;
        behind.change(sql).await;
        behind.close().await;
    }

    /// How many rows a table has.
    pub(crate) async fn count_rows(&self, table: &str) -> i64 {
        let mut behind = Behind::to(&self.config.database).await;
        let count = behind.number(&format!("SELECT count(*) FROM {table}")).await;
        behind.close().await;
        count
    }

    /// The texts of a query with one column.
    pub(crate) async fn query(&self, sql: &str) -> Vec<String> {
        let mut behind = Behind::to(&self.config.database).await;
        let texts = behind.texts(sql).await;
        behind.close().await;
        texts
    }

    /// Every byte of the run database, its log included; of one on a server, everything that can be
    /// read.
    pub(crate) async fn database_bytes(&self) -> Vec<u8> {
        let ExecutorDatabase::File(path) = &self.config.database else {
            let mut behind = Behind::to(&self.config.database).await;
            let everything = behind.everything().await;
            behind.close().await;
            return everything.into_bytes();
        };
        let folder = path.parent().unwrap();
        let read = || {
            let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
            let files = files.filter(|path| path.extension().is_none_or(|end| end != "key"));
            files.map(|path| std::fs::read(path).ok()).collect::<Option<Vec<_>>>()
        };
        // Whoever crashed may just be closing it: then its log goes while it is read.
        std::iter::repeat_with(read).take(100).flatten().next().expect("the files stay").concat()
    }

    /// A file in the folder of the executor.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("data").join(name)
    }
}
