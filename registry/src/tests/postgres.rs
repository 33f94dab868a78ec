//! What only a database can show that several registries share: they are those of
//! `A2S_TEST_POSTGRES_URL`, and without it these tests say that they were skipped.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use a2s::{Complexity, Digest};
use a2s_api::Caller;
use futures::future::join_all;
use jiff::Timestamp;
use serde_json::json;
use test_support::{PostgresDatabase, fill_checksum, require_postgres_server};

use super::database::Folder;
use super::world::{TOKEN, World, clock, document};
use crate::store::dependency_rows::RelationRows;
use crate::store::lifecycle::{AuditActor, HistoryQuery};
use crate::store::{
    self, ChangeSeq, DatabaseAddress, ErrorKind, NewVersion, PublicationResult, RegistryStore,
};
use crate::{App, IndexLocation};

async fn open(database: &PostgresDatabase) -> Arc<dyn RegistryStore> {
    store::open(&database.address.to_string().into()).await.unwrap()
}

fn version(name: &str, version: &str, content: &str) -> NewVersion {
    NewVersion {
        name: name.parse().unwrap(),
        version: version.parse().unwrap(),
        digest: Digest::of_bytes(content.as_bytes()),
        source: content.to_owned(),
        complexity: Complexity::Low,
        permissions: 0,
        relations: RelationRows::default(),
    }
}

fn owner() -> AuditActor {
    AuditActor::from_caller(&Caller::owner(), Timestamp::UNIX_EPOCH)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_concurrent_publish_of_a_version_wins() {
    let Some(server) = require_postgres_server() else { return };
    let database = PostgresDatabase::create(&server).await;
    let stores = [open(&database).await, open(&database).await];
    for round in 0..20 {
        // A new name each time: who claims it is decided, too.
        let name = format!("Tool{round}");
        let attempts = (0..8).map(|attempt| {
            let store = Arc::clone(&stores[attempt % 2]);
            let new = version(&name, "1.0.0", &format!("content {attempt}"));
            let actor = AuditActor { is_admin: false, ..owner() };
            async move { (new.digest, store.publish(&new, &actor).await.unwrap()) }
        });
        let results = join_all(attempts.map(tokio::spawn)).await;
        let results: Vec<_> = results.into_iter().map(Result::unwrap).collect();
        let created: Vec<_> = results
            .iter()
            .filter(|(_, result)| matches!(result, PublicationResult::Created(_)))
            .map(|(digest, _)| *digest)
            .collect();
        assert_eq!(created.len(), 1, "{results:?}");
        for (digest, result) in &results {
            match result {
                PublicationResult::Created(_) => {}
                PublicationResult::Conflict(published) => assert_eq!(*published, created[0]),
                other => panic!("{digest}: {other:?}"),
            }
        }
        let stored = stores[1].list_versions(&name.parse().unwrap()).await.unwrap();
        assert_eq!(stored.iter().map(|entry| entry.digest).collect::<Vec<_>>(), created);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_two_names_with_one_id_is_taken() {
    let Some(server) = require_postgres_server() else { return };
    let database = PostgresDatabase::create(&server).await;
    let stores = [open(&database).await, open(&database).await];
    for round in 0..20 {
        let names = [format!("GetHTTP{round}"), format!("GetHttp{round}")];
        let attempts = names.clone().map(|name| {
            let new = version(&name, "1.0.0", &name);
            let store = Arc::clone(&stores[usize::from(name.contains("HTTP"))]);
            tokio::spawn(async move { store.publish(&new, &owner()).await.unwrap() })
        });
        let results: Vec<_> = join_all(attempts).await.into_iter().map(Result::unwrap).collect();
        let taken = |result: &PublicationResult| matches!(result, PublicationResult::NameTaken(by) if names.contains(by));
        let created = |result: &PublicationResult| matches!(result, PublicationResult::Created(_));
        assert_eq!(results.iter().filter(|result| taken(result)).count(), 1, "{results:?}");
        assert_eq!(results.iter().filter(|result| created(result)).count(), 1, "{results:?}");
    }
}

/// Whoever reads while others write sees numbers come in order: what follows one that was seen has a
/// larger one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn changes_and_events_are_seen_in_the_order_of_their_numbers() {
    let Some(server) = require_postgres_server() else { return };
    let database = PostgresDatabase::create(&server).await;
    let stores = [open(&database).await, open(&database).await];
    let writers: Vec<_> = (0..8)
        .map(|writer: usize| {
            let store = Arc::clone(&stores[writer % 2]);
            tokio::spawn(async move {
                for minor in 0..25 {
                    let number = format!("1.{minor}.0");
                    // Long ones take longer to store than short ones.
                    let content = "x".repeat(if writer < 4 { 200_000 } else { 10 });
                    let new = version(&format!("Tool{writer}"), &number, &content);
                    let published = store.publish(&new, &owner()).await.unwrap();
                    assert!(matches!(published, PublicationResult::Created(_)));
                }
            })
        })
        .collect();
    let (mut changes, mut events) = (Vec::new(), Vec::new());
    loop {
        let is_over = writers.iter().all(tokio::task::JoinHandle::is_finished);
        let after = changes.last().map_or(ChangeSeq(0), |(seq, _)| *seq);
        changes.extend(stores[0].read_outbox(after, 1000).await.unwrap().changes);
        let after =
            events.last().map_or(ChangeSeq(0), |seq: &u64| ChangeSeq(i64::try_from(*seq).unwrap()));
        let read = stores[1].list_history(HistoryQuery::FeedAfter(after), 1000).await.unwrap();
        events.extend(read.iter().map(|event| event.seq));
        if is_over {
            break;
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    // Nothing came behind the reader's back.
    assert_eq!(changes, stores[0].read_outbox(ChangeSeq(0), 1000).await.unwrap().changes);
    assert_eq!((changes.len(), events.len()), (200, 200));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_new_database_is_made_once_by_many() {
    let Some(server) = require_postgres_server() else { return };
    let database = PostgresDatabase::create(&server).await;
    let opened = join_all((0..6).map(|_| open(&database))).await;
    let mut identities = Vec::new();
    for store in &opened {
        identities.push(store.read_outbox(ChangeSeq(0), 0).await.unwrap().identity);
    }
    identities.dedup();
    assert_eq!(identities.len(), 1, "{identities:?}");
    assert_eq!(identities[0].len(), 32);
}

/// Pages go on behind a name, so all engines and servers have to agree on what comes behind it.
#[tokio::test]
async fn names_are_sorted_by_bytes_in_any_locale() {
    let Some(server) = require_postgres_server() else { return };
    let database = PostgresDatabase::create(&server).await;
    let store = open(&database).await;
    let names = ["AB", "ABc", "Aa", "B", "Ba"];
    for name in ["Aa", "Ba", "AB", "B", "ABc"] {
        store.publish(&version(name, "1.0.0", name), &owner()).await.unwrap();
    }
    let all = store.live_versions(store::LiveVersionQuery::AfterName(None, 10)).await.unwrap();
    assert_eq!(all.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), names);
    let rest =
        store.live_versions(store::LiveVersionQuery::AfterName(Some("ABc"), 10)).await.unwrap();
    assert_eq!(rest.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), names[2..]);
}

#[tokio::test]
async fn runs_that_come_again_push_nothing_out() {
    let Some(server) = require_postgres_server() else { return };
    let database = PostgresDatabase::create(&server).await;
    let store = open(&database).await;
    store.publish(&version("Tool", "1.0.0", "a"), &owner()).await.unwrap();
    let outcome = |run| store::RunOutcome {
        run: uuid::Uuid::from_u128(run),
        name: "Tool".parse().unwrap(),
        version: "1.0.0".parse().unwrap(),
        digest: Digest::of_bytes(b"a"),
        failure: None,
        duration_ms: 1,
        ended_at: Timestamp::UNIX_EPOCH,
        reporter_key: store::ReporterKey { reporter: 1, session: 1 },
        at: Timestamp::UNIX_EPOCH,
        forget_before: Timestamp::UNIX_EPOCH,
    };
    for _ in 0..5 {
        store.record_outcome(&outcome(1)).await.unwrap();
    }
    // Many at once count once each.
    let again =
        join_all((0..8).map(|run| store.record_outcome(Box::leak(Box::new(outcome(run % 4))))))
            .await;
    let new =
        again.iter().filter(|told| *told.as_ref().unwrap() == store::RecordResult::New).count();
    assert_eq!(new, 3);
    let entry = &store.list_versions(&"Tool".parse().unwrap()).await.unwrap()[0];
    assert_eq!((entry.stats.runs, entry.stats.successes), (4, 4));
    let folder = Folder::over(database);
    let database = folder.database().await;
    assert_eq!(database.execute("DELETE FROM outcome WHERE seq > 4", &[]).await, 0);
}

#[tokio::test]
async fn runs_that_are_reported_to_one_registry_weigh_in_the_others() {
    if require_postgres_server().is_none() {
        return;
    }
    let one = World::with_index().await;
    one.publish_all([document("FeedCat", "1.0.0", "Gives food to the cat")]).await;
    let mut metrics = prometheus_client::registry::Registry::default();
    let folder = Folder::with_file();
    let mut config = one.folder.config(Some(TOKEN));
    config.index = IndexLocation::Memory;
    let other = World::around(App::open(config, clock(), &mut metrics).await.unwrap(), folder);
    let hit = async || {
        let answer = other.search("give food to the cat").await;
        assert_eq!(answer.names(), ["FeedCat"]);
        answer.json()["capabilities"][0].clone()
    };
    // What it has told is in its memory.
    let told = hit().await;
    assert_eq!(told["usage_count"], 0);
    for run in 1_u32..=3 {
        let report = json!({
            "run": uuid::Uuid::from_u128(run.into()),
            "name": "FeedCat",
            "version": "1.0.0",
            "checksum": told["checksum"],
            "success": true,
            "duration_ms": 12,
        });
        assert_eq!(one.post("/v1/outcomes", &report).await.status, 204);
        let known = async { while hit().await["usage_count"] != run {} };
        let known = tokio::time::timeout(Duration::from_secs(120), known).await;
        known.expect("it never learns of the run");
    }
    other.app.close().await;
}

/// Texts that SQLite takes as they are, and PostgreSQL does not.
#[tokio::test]
async fn nul_in_titles_and_pages_and_long_versions_do_no_harm() {
    let world = World::new().await;
    let titled = fill_checksum(&super::world::document_of(
        "Tool",
        "Waters the plants",
        &serde_json::json!([super::world::http_step("a", "get", "api.example.com", "a\0b")]),
        &serde_json::json!({}),
    ));
    let answer = world.publish(titled).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let long = format!("1.0.0-{}", "a".repeat(20_000));
    let answer = world.publish(document("Other", &long, "Feeds the cat")).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    for path in ["/v1/capabilities?after=%00", "/v1/services?after=%00", "/v1/services/%00"] {
        let status = world.get(path).await.status.as_u16();
        assert!(status < 500, "{path}: {status}");
    }
}

#[tokio::test]
async fn what_cannot_be_a_registry_is_refused_and_says_so() {
    let Some(server) = require_postgres_server() else { return };
    let kind = async |address: String| {
        let error = store::open(&DatabaseAddress::from(address)).await.unwrap_err();
        (error.kind(), error.to_string())
    };
    let database = PostgresDatabase::create(&server).await;
    let url = database.address.clone();
    let with = |change: &dyn Fn(&mut reqwest::Url)| {
        let mut url = url.clone();
        change(&mut url);
        String::from(url)
    };
    for (what, address, expected) in [
        ("no server", with(&|url| url.set_port(Some(1)).unwrap()), ErrorKind::Unavailable),
        ("no database", with(&|url| url.set_path("nowhere")), ErrorKind::Unusable),
        (
            "wrong password",
            with(&|url| url.set_password(Some("s3cret")).unwrap()),
            ErrorKind::Unusable,
        ),
        (
            "unknown parameter",
            with(&|url| url.set_query(Some("pasword=s3cret"))),
            ErrorKind::Unusable,
        ),
        ("odd parameter", with(&|url| url.set_query(Some("s3cret%21=1"))), ErrorKind::Unusable),
        ("unknown mode", with(&|url| url.set_query(Some("sslmode=maybe"))), ErrorKind::Unusable),
        ("a slip", "postgres://me:12#s3cret@127.0.0.1/db".to_owned(), ErrorKind::Unusable),
        ("another slip", "postgres://me:s3cret/x@127.0.0.1/db".to_owned(), ErrorKind::Unusable),
        ("no TLS there", with(&|url| url.set_query(Some("sslmode=require"))), ErrorKind::Unusable),
    ] {
        let (kind, text) = kind(address).await;
        assert_eq!(kind, expected, "{what}: {text}");
        assert!(!text.contains("s3cret") && !text.contains(url.password().unwrap()), "{text}");
    }

    // One that belongs to another program, in two ways.
    let folder = Folder::over(database);
    let database = folder.database().await;
    database.execute("CREATE TABLE capability (id BIGINT)", &[]).await;
    assert_eq!(kind(url.to_string()).await.0, ErrorKind::Unusable);
    database.execute("DROP TABLE capability", &[]).await;
    database
        .execute(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
             VALUES (20240101000000, 'theirs', TRUE, '\\x00', 0)",
            &[],
        )
        .await;
    let (refused, text) = kind(url.to_string()).await;
    assert_eq!(
        (refused, text.as_str()),
        (ErrorKind::Unusable, "the database belongs to another program")
    );
    database.execute("DELETE FROM _sqlx_migrations", &[]).await;
    let store = store::open(&folder.config(None).database).await.unwrap();
    store.close().await;
    assert!(!format!("{:?}", folder.config(None)).contains(url.password().unwrap()));
}

/// A cluster of one test's own, started by the same script as the shared one.
struct Cluster {
    folder: tempfile::TempDir,
    address: String,
}

impl Cluster {
    fn script(name: &str) -> Command {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/postgres");
        Command::new(scripts.join(name))
    }

    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // The server's user has to get there.
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let open = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(folder.path(), open).unwrap();
        }
        let started = Self::script("start").arg(folder.path().join("cluster")).output().unwrap();
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        let address = String::from_utf8(started.stdout).unwrap().trim().to_owned();
        Self { folder, address }
    }

    /// Tells the server something, as an operator does.
    fn control(&self, arguments: &[&str]) {
        let cluster = self.folder.path().join("cluster");
        let told = Self::script("control").arg(cluster).args(arguments).output().unwrap();
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let stopped = Self::script("stop").arg(self.folder.path().join("cluster")).status();
        assert!(stopped.unwrap().success());
    }
}

#[tokio::test]
async fn a_server_that_goes_and_comes_back_is_missed_and_found_again() {
    if require_postgres_server().is_none() {
        return;
    }
    let cluster = Cluster::start();
    let store = store::open(&cluster.address.as_str().into()).await.unwrap();
    let tool = "Tool".parse().unwrap();
    for (round, mode) in ["fast", "immediate"].into_iter().enumerate() {
        let number = format!("1.{round}.0");
        let published = store.publish(&version("Tool", &number, &number), &owner()).await.unwrap();
        assert!(matches!(published, PublicationResult::Created(_)));

        cluster.control(&["stop", "--mode", mode]);
        let lost = version("Tool", "9.9.9", "lost");
        let reads = async { store.list_versions(&tool).await.map(drop) };
        let writes = async { store.publish(&lost, &owner()).await.map(drop) };
        let opens = async { store::open(&cluster.address.as_str().into()).await.map(drop) };
        let (reads, writes, opens) = tokio::join!(reads, writes, opens);
        for missed in [reads, writes, opens] {
            let error = missed.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }

        cluster.control(&["start"]);
        // What was acknowledged is there, and nothing else.
        let versions = store.list_versions(&tool).await.unwrap();
        assert_eq!(versions.len(), round + 1);
        assert_eq!(versions[0].version.to_string(), number);
    }
    store.close().await;
}
