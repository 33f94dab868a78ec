//! The shipped documents: all of them are there at last, whatever failed while they were published.

use std::path::{Path, PathBuf};

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _};
use tempfile::TempDir;

use crate::harness::{RUNTIME, Server};
use crate::http::get;

/// How often readiness is asked, at most: each answer takes the registry some time.
const MOST_ATTEMPTS: usize = 100_000;

/// Runs statements on the database of a registry, without its knowledge.
fn change(data: &Path, sql: &str) {
    RUNTIME.block_on(async {
        let mut file = open(data).await;
        file.execute(AssertSqlSafe(sql.to_owned())).await.unwrap();
        file.close().await.unwrap();
    });
}

async fn open(data: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(data.join("registry.sqlite"));
    options.create_if_missing(true).connect().await.unwrap()
}

fn status(server: &Server, path: &str) -> u16 {
    get(&format!("{}{path}", server.url()), &[]).0
}

fn wait_until_ready(server: &Server) {
    let is_ready = (0..MOST_ATTEMPTS).any(|_| status(server, "readyz") == 200);
    assert!(is_ready, "the registry is not ready after its database was repaired");
}

/// A data folder whose registry takes some documents and fails with others.
fn broken() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    RUNTIME.block_on(async {
        let mut file = open(&data).await;
        sqlx::migrate!("registry/migrations/sqlite").run(&mut file).await.unwrap();
        file.close().await.unwrap();
    });
    change(
        &data,
        "CREATE TRIGGER fault BEFORE INSERT ON capability
             WHEN NEW.name IN ('GetWikipediaSummary', 'GetJoke')
         BEGIN SELECT RAISE(ROLLBACK, 'the disk is full'); END",
    );
    (folder, data)
}

fn assert_complete(server: &Server) {
    for name in ["GetWikipediaSummary", "GetJoke", "ListDogBreeds"] {
        assert_eq!(status(server, &format!("v1/capabilities/{name}")), 200, "{name}");
    }
}

#[test]
fn failed_bundled_publish_is_retried_later() {
    let (_folder, data) = broken();
    // It serves all the same, and says that it is not complete.
    let server = Server::alone("registry", data.clone(), &[]);
    assert_eq!(status(&server, "healthz"), 200);
    let (code, problem) = get(&format!("{}readyz", server.url()), &[]);
    assert_eq!(code, 503, "{problem}");
    assert_eq!(status(&server, "v1/capabilities/GetJoke"), 404);
    change(&data, "DROP TRIGGER fault");
    wait_until_ready(&server);
    assert_complete(&server);
    server.stop();
}

#[test]
fn a_first_start_that_was_cut_off_is_completed_by_the_next() {
    let (_folder, data) = broken();
    // It is killed when it is dropped.
    drop(Server::alone("registry", data.clone(), &[]));
    change(&data, "DROP TRIGGER fault");
    let server = Server::alone("registry", data, &[]);
    wait_until_ready(&server);
    assert_complete(&server);
    server.stop();
}
