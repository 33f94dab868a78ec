use serde_json::json;

use super::database::{Behind, Folder};
use super::world::{TOKEN, World, clock, document};
use crate::store::ChangeSeq;
use crate::store::indexes::IndexId;
use crate::{App, Config};

fn shelf() -> [String; 3] {
    [
        document("ListDogBreeds", "1.0.0", "Retrieve a list of dog breeds"),
        document("GetWeather", "1.0.0", "Weather forecast for a city"),
        document("PostTweet", "1.0.0", "Publish a short message on Twitter"),
    ]
}

async fn finds_everything(world: &World) {
    for (intent, expected) in [
        ("which breeds of dogs are there", "ListDogBreeds"),
        ("weather in Rome", "GetWeather"),
        ("publish a message on twitter", "PostTweet"),
    ] {
        let names = world.search(intent).await.names();
        assert_eq!(names.first().map(String::as_str), Some(expected), "{intent}");
    }
}

#[tokio::test]
async fn everything_is_still_there_after_a_restart() {
    let world = World::new().await;
    world.publish_all(shelf()).await;
    world.app.close().await;
    let World { app, folder, .. } = world;
    drop(app);

    let world = World::open(folder).await;
    finds_everything(&world).await;
    assert_eq!(
        world.get("/v1/capabilities").await.json()["capabilities"].as_array().unwrap().len(),
        3
    );
    // The index on disk was good: it was not built again.
    assert_eq!(world.metric("index_rebuilds_total"), "0");
}

#[tokio::test]
async fn after_a_crash_what_was_acknowledged_is_found() {
    let world = World::with_index().await;
    world.publish_all(shelf()).await;
    world.app.reindex().await.unwrap();
    // In the index, but not brought to disk yet: one is withdrawn and one is new. Their number
    // stays the same, so only the place in the changes tells that something is missing.
    let database = world.database().await;
    for change in [
        "UPDATE version SET yanked = TRUE WHERE id = 2",
        "UPDATE capability SET head = NULL WHERE id = 2",
        "INSERT INTO change (capability, at) VALUES (2, 0)",
    ] {
        database.execute(change, &[]).await;
    }
    world.publish_all([document("FeedCat", "1.0.0", "Gives food to the cat")]).await;
    let world = World::open(world.folder.copy().await).await;
    assert_eq!(world.search("give food to the cat").await.names()[0], "FeedCat");
    let names = world.search("weather forecast for a city").await.names();
    assert!(!names.contains(&"GetWeather".to_owned()), "{names:?}");
}

#[tokio::test]
async fn dropping_without_closing_loses_nothing() {
    let world = World::new().await;
    world.publish_all(shelf()).await;
    let World { app, folder, .. } = world;
    drop(app);
    finds_everything(&World::open(folder).await).await;
}

#[tokio::test]
async fn missing_broken_or_foreign_index_is_rebuilt() {
    let world = World::with_index().await;
    world.publish_all(shelf()).await;
    world.app.close().await;
    let World { app, mut folder, .. } = world;
    drop(app);

    let damages = [
        ("it is gone", "DELETE FROM search_index"),
        ("its identity is garbage", "UPDATE search_index SET identity = '{garbage'"),
        (
            "another embedder made it",
            "UPDATE search_index SET identity = replace(identity, 'builtin', 'another')",
        ),
        (
            "it is of another database",
            "UPDATE search_index SET identity = replace(identity, '\"store\":\"', '\"store\":\"0')",
        ),
        ("its points are gone", "DELETE FROM search_point"),
        ("a point is garbage", "UPDATE search_point SET facts = '{' WHERE capability = 2"),
        ("a vector is too short", "UPDATE search_point SET dense = sparse WHERE capability = 2"),
        ("terms are no terms", "UPDATE search_point SET sparse = dense WHERE capability = 2"),
    ];
    for (what, damage) in damages {
        folder.database().await.execute(damage, &[]).await;
        let world = World::open(folder).await;
        // An index of an embedder that nobody has any more answers by words until there is another.
        world.app.shared.catalog.search.index.wait_until_built().await;
        finds_everything(&world).await;
        assert_eq!(world.metric("index_rebuilds_total"), "1", "{what}");
        world.app.close().await;
        let World { app, folder: same, .. } = world;
        drop(app);
        folder = same;
    }
}

#[tokio::test]
async fn a_copy_of_the_index_that_is_behind_catches_up() {
    let world = World::with_index().await;
    world.publish_all([document("FeedCat", "1.0.0", "Gives food to the cat")]).await;
    let folder = world.close().await;
    let database = folder.database().await;
    for table in ["search_index", "search_point"] {
        database.execute(&format!("CREATE TABLE old_{table} AS SELECT * FROM {table}"), &[]).await;
    }
    // Their number stays the same, so only the place in the changes tells that something is missing.
    let world = World::open(folder).await;
    world.turn("FeedCat/1.0.0", "yank").await;
    world.publish_all([document("WaterPlants", "1.0.0", "Waters the plants")]).await;
    let folder = world.close().await;
    folder.forget_indexes().await;
    for table in ["search_index", "search_point"] {
        database.execute(&format!("INSERT INTO {table} SELECT * FROM old_{table}"), &[]).await;
    }

    let world = World::open(folder).await;
    assert_eq!(world.search("water the plants").await.names(), ["WaterPlants"]);
    assert_eq!(world.search("give food to the cat").await.names(), [""; 0]);
    assert_eq!(world.metric("index_rebuilds_total"), "0");
}

#[tokio::test]
async fn a_store_knows_the_indexes_that_it_has_named() {
    let world = World::new().await;
    let store = &world.app.shared.catalog.versions.store;
    let (one, other) =
        (store.create_index_id().await.unwrap(), store.create_index_id().await.unwrap());
    assert_ne!(one, other);
    store.advance_index(&one, ChangeSeq(7)).await.unwrap();
    // Somebody who is behind takes nothing back.
    store.advance_index(&one, ChangeSeq(3)).await.unwrap();
    let indexed = async |index: &IndexId| store.load_indexed_seq(index).await.unwrap();
    assert_eq!(
        (indexed(&one).await, indexed(&other).await),
        (Some(ChangeSeq(7)), Some(ChangeSeq(0)))
    );
    store.delete_index(&one).await.unwrap();
    store.advance_index(&one, ChangeSeq(9)).await.unwrap();
    assert_eq!((indexed(&one).await, indexed(&other).await), (None, Some(ChangeSeq(0))));
}

#[tokio::test]
async fn a_changed_letter_is_noticed_everywhere() {
    let world = World::with_index().await;
    world.publish_all(shelf()).await;
    assert_eq!(world.search("which breeds of dogs are there").await.names()[0], "ListDogBreeds");
    world.tamper("list of dog breeds", "list of dog breads").await;

    let names = world.search("list of dog breeds").await.names();
    assert!(!names.contains(&"ListDogBreeds".to_owned()), "{names:?}");
    let listed = world.get("/v1/capabilities").await;
    assert!(!listed.text().contains("ListDogBreeds"), "{}", listed.text());

    let verified = world.post("/v1/verify", &json!({"name": "ListDogBreeds"})).await.json();
    assert_eq!(verified["valid"], false);
    assert_ne!(verified["computed"], verified["checksum"]);
    assert!(verified["message"].as_str().unwrap().contains("has the checksum"));

    let answer = world.get("/v1/capabilities/ListDogBreeds/1.0.0").await;
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (500, "A2S222"));
    assert!(!answer.text().contains("breads"));
    assert_ne!(world.metric("damaged_documents_total"), "0");

    // Nothing else suffers, and a fresh start notices it as well.
    assert_eq!(world.search("weather in Rome").await.names()[0], "GetWeather");
    let world = World::open(world.folder.copy().await).await;
    let names = world.search("list of dog breeds").await.names();
    assert!(!names.contains(&"ListDogBreeds".to_owned()), "{names:?}");

    // Back to what it was, it is as good as ever.
    world.tamper("list of dog breads", "list of dog breeds").await;
    assert_eq!(world.get("/v1/capabilities/ListDogBreeds/1.0.0").await.status, 200);
}

#[tokio::test]
async fn other_changes_by_hand_are_noticed_too() {
    let world = World::new().await;
    world.publish_all(shelf()).await;
    let database = world.database().await;
    let path = "/v1/capabilities/ListDogBreeds/1.0.0";
    for change in [
        // The recorded digest.
        "UPDATE version SET digest = 'sha256:' || substr(digest, 9) || '0' WHERE id = 1",
        // The checksum that the text states.
        "UPDATE document SET source = replace(source, (SELECT digest FROM version WHERE id = 1), 'sha256:0000000000000000000000000000000000000000000000000000000000000000') WHERE version = 1",
        "UPDATE document SET source = replace(source, 'checksum: \"sha256:', 'checksum: \"sha256:0') WHERE version = 1",
        // Another document in its place, together with its digest.
        "UPDATE document SET source = (SELECT source FROM document WHERE version = 2) WHERE version = 1",
        "UPDATE document SET source = 'garbage: [' WHERE version = 1",
        "DELETE FROM document WHERE version = 1",
    ] {
        let save = "CREATE TEMP TABLE saved AS SELECT v.digest, d.source FROM version v JOIN document d ON d.version = v.id WHERE v.id = 1";
        database.execute(save, &[]).await;
        database.execute(change, &[]).await;
        let answer = world.get(path).await;
        assert_eq!(answer.code(), "A2S222", "{change}");
        let names = world.search("list of dog breeds").await.names();
        assert!(!names.contains(&"ListDogBreeds".to_owned()), "{change}: {names:?}");
        for restore in [
            "UPDATE version SET digest = (SELECT digest FROM saved) WHERE id = 1",
            "INSERT INTO document (version, source) SELECT 1, source FROM saved WHERE TRUE \
             ON CONFLICT (version) DO UPDATE SET source = excluded.source",
            "DROP TABLE saved",
        ] {
            database.execute(restore, &[]).await;
        }
        assert_eq!(world.get(path).await.status, 200, "{change}");
    }
    // Both at once: the document is whole, but it is not the one of this row.
    for change in [
        "UPDATE document SET source = (SELECT source FROM document WHERE version = 2) WHERE version = 1",
        "UPDATE version SET digest = (SELECT digest FROM version WHERE id = 2) WHERE id = 1",
    ] {
        database.execute(change, &[]).await;
    }
    assert_eq!(world.get(path).await.code(), "A2S222");
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused() {
    let world = World::new().await;
    world.app.close().await;
    let database = world.database().await;
    let checksum = match database {
        Behind::Sqlite(_) => "x'00'",
        Behind::Postgres(_) => "'\\x00'",
    };
    let later = format!(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         VALUES (9999, 'later', TRUE, {checksum}, 0)"
    );
    database.execute(&later, &[]).await;
    database.close().await;
    let config = world.folder.config(Some(TOKEN));
    let mut metrics = prometheus_client::registry::Registry::default();
    let error = App::open(config, clock(), &mut metrics).await.unwrap_err();
    assert_eq!(error.code().id, "A2S261");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("registry.sqlite"), "not a database ".repeat(100)).unwrap();
    let config = Config::in_folder(folder.path(), None);
    let mut metrics = prometheus_client::registry::Registry::default();
    let error = App::open(config, clock(), &mut metrics).await.unwrap_err();
    assert_eq!(error.code().id, "A2S260");
    let config = Config { database: "mysql://x".into(), ..Config::in_folder(folder.path(), None) };
    let error = App::open(config, clock(), &mut metrics).await.unwrap_err();
    assert_eq!(error.code().id, "A2S260");
}

#[tokio::test]
async fn searches_go_on_while_the_index_is_built_anew() {
    let world = World::new().await;
    world.publish_all(shelf()).await;
    let searches = async {
        for _ in 0..20 {
            finds_everything(&world).await;
        }
    };
    let rebuilds = async {
        for _ in 0..3 {
            assert_eq!(world.app.reindex().await.unwrap(), 3);
        }
    };
    tokio::join!(searches, rebuilds);
    finds_everything(&world).await;
}

#[tokio::test]
async fn a_rolled_back_transaction_costs_no_later_one() {
    let world = World::open(Folder::with_file()).await;
    let [first, second, third] = shelf();
    assert_eq!(world.publish(first).await.status, 201);
    let fault = |place: &str| {
        // As SQLite does when the disk is full: the driver does not learn of it.
        format!("CREATE TRIGGER fault {place} BEGIN SELECT RAISE(ROLLBACK, 'full'); END")
    };
    let behind = world.database().await;
    behind.execute(&fault("BEFORE INSERT ON version"), &[]).await;
    for _ in 0..3 {
        assert_eq!(world.publish(second.clone()).await.status, 503);
    }
    behind.execute("DROP TRIGGER fault", &[]).await;
    // Readiness asks the connection that writes, and finds out by writing.
    behind.execute(&fault("BEFORE UPDATE ON registry"), &[]).await;
    for _ in 0..2 {
        assert_eq!(world.get("/readyz").await.status, 503);
    }
    behind.execute("DROP TRIGGER fault", &[]).await;
    behind.close().await;
    assert_eq!(world.get("/readyz").await.status, 204);
    assert_eq!(world.publish(second).await.status, 201);
    assert_eq!(world.publish(third).await.status, 201);
    finds_everything(&world).await;
}

#[tokio::test]
async fn a_database_that_was_not_closed_needs_its_log() {
    let world = World::open(Folder::with_file()).await;
    world.publish_all(shelf()).await;
    // As a process leaves the files that was killed.
    let killed = Folder::with_file();
    for suffix in ["", ".lock", "-wal", "-shm"] {
        let name = format!("registry.sqlite{suffix}");
        std::fs::copy(world.folder.path().join(&name), killed.path().join(&name)).unwrap();
    }
    let log = killed.path().join("registry.sqlite-wal");
    let bytes = std::fs::read(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    for _ in 0..2 {
        let mut metrics = prometheus_client::registry::Registry::default();
        let opened = App::open(killed.config(None), clock(), &mut metrics).await;
        let error = opened.map(drop).unwrap_err();
        assert_eq!(error.code().id, "A2S266", "{error}");
        assert!(error.to_string().contains("registry.sqlite.lock"), "{error}");
        assert!(std::error::Error::source(&error).is_none(), "nothing is said twice");
    }
    std::fs::write(&log, bytes).unwrap();
    let restored = World::open(killed).await;
    finds_everything(&restored).await;
    restored.app.close().await;
    // One that was closed has no log and needs none.
    let World { app, folder, .. } = restored;
    drop(app);
    assert!(!log.exists());
    // The lock of one database is not that of another.
    let another = Folder::with_file();
    let another = World::open(another).await.close().await;
    let lock = |folder: &Folder| folder.path().join("registry.sqlite.lock");
    std::fs::copy(lock(&folder), lock(&another)).unwrap();
    let mut metrics = prometheus_client::registry::Registry::default();
    let opened = App::open(another.config(None), clock(), &mut metrics).await;
    assert_eq!(opened.map(drop).unwrap_err().code().id, "A2S266");
    finds_everything(&World::open(folder).await).await;
}

#[tokio::test]
async fn a_lost_database_is_not_made_anew() {
    let world = World::open(Folder::with_file()).await;
    world.publish_all(shelf()).await;
    world.app.close().await;
    let World { app, folder, .. } = world;
    drop(app);
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(folder.path().join(format!("registry.sqlite{suffix}")));
    }
    for _ in 0..2 {
        let mut metrics = prometheus_client::registry::Registry::default();
        let opened = App::open(folder.config(None), clock(), &mut metrics).await;
        let error = opened.map(drop).unwrap_err();
        assert_eq!(error.code().id, "A2S266", "{error}");
        assert!(error.to_string().contains("registry.sqlite.lock"), "{error}");
    }
    // Without the lock file, a start makes a new database.
    std::fs::remove_file(folder.path().join("registry.sqlite.lock")).unwrap();
    let world = World::open(folder).await;
    assert_eq!(world.get("/v1/capabilities").await.json()["capabilities"], json!([]));
}
