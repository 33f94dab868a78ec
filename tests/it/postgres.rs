//! A registry on PostgreSQL, as an operator sets it, on the server of `A2S_TEST_POSTGRES_URL`.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use test_support::{PostgresDatabase, require_postgres_server};
use url::Url;

use crate::harness::{RUNTIME, Ran, Server, a2s_in, shipped};
use crate::http::get;

/// A new database on the server; none, and a word about that, without a server.
pub(crate) fn create_database() -> Option<PostgresDatabase> {
    Some(RUNTIME.block_on(PostgresDatabase::create(&require_postgres_server()?)))
}

/// What is published there.
pub(crate) fn names(url: &str) -> Vec<String> {
    let (status, body) = get(&format!("{url}v1/capabilities"), &[]);
    assert_eq!(status, 200, "{body}");
    let list: Value = serde_json::from_str(&body).unwrap();
    let names = list["capabilities"].as_array().unwrap().iter();
    names.map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
}

/// A draft of one's own, to be published.
pub(crate) fn write_draft(folder: &Path) -> String {
    let text = std::fs::read_to_string(shipped("ListDogBreeds")).unwrap();
    let text = text.replace("ListDogBreeds", "ListCatBreeds").replace("dog breeds", "cat breeds");
    let path = folder.join("ListCatBreeds.yaml");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    a2s_in(Path::new("."), &[], &["checksum", "--write", &path]).exits(0);
    path
}

#[test]
fn a_registry_on_postgres_keeps_everything_there() {
    let Some(database) = create_database() else { return };
    let folder = TempDir::new().unwrap();
    let flags = ["--database", database.address.as_str()];
    let registry = Server::alone("registry", folder.path().join("one"), &flags);
    let before = names(registry.url());
    registry.a2s(&["publish", &write_draft(folder.path())]).exits(0);
    let finds = |registry: &Server| {
        let hits = registry.a2s(&["--json", "search", "list of cat breeds"]).exits(0).one();
        assert_eq!(hits["capabilities"][0]["name"], "ListCatBreeds", "{hits}");
    };
    finds(&registry);
    drop(registry);

    // Killed and started again; and from nothing but the database, by the file of settings.
    let registry = Server::alone("registry", folder.path().join("one"), &flags);
    finds(&registry);
    drop(registry);
    let config = folder.path().join("a2s.toml");
    std::fs::write(&config, format!("database = '{}'\n", database.address)).unwrap();
    let flags = ["--config", config.to_str().unwrap()];
    let registry = Server::alone("registry", folder.path().join("two"), &flags);
    assert_eq!(names(registry.url()).len(), before.len() + 1);
    finds(&registry);
    assert!(!folder.path().join("two/registry.sqlite").exists());
    drop(registry);

    let data = folder.path().join("two");
    let environment =
        [("A2S_DATA_DIR", data.to_str().unwrap()), ("A2S_DATABASE", database.address.as_str())];
    let indexed = a2s_in(Path::new("."), &environment, &["--json", "reindex"]).exits(0).one();
    assert_eq!(indexed["indexed"], before.len() + 1);
}

#[test]
fn a_database_that_is_not_there_is_told_without_its_password() {
    let Some(database) = create_database() else { return };
    let folder = TempDir::new().unwrap();
    let start = |change: &dyn Fn(&mut Url), variables: &[(&str, &str)]| -> Ran {
        let mut address = database.address.clone();
        change(&mut address);
        let mut environment = vec![("A2S_DATA_DIR", folder.path().to_str().unwrap())];
        environment.push(("A2S_DATABASE", address.as_str()));
        environment.extend(variables);
        let ran = a2s_in(Path::new("."), &environment, &["--json", "reindex"]);
        for text in [&ran.stdout, &ran.stderr] {
            assert!(
                !text.contains(database.address.password().unwrap()) && !text.contains("s3cret"),
                "{ran:?}"
            );
        }
        ran
    };
    for change in [
        &|url: &mut Url| url.set_path("nowhere"),
        &|url: &mut Url| url.set_password(Some("s3cret")).unwrap(),
        &|url: &mut Url| url.set_port(Some(1)).unwrap(),
        &|url: &mut Url| url.set_query(Some("pasword=s3cret")),
        &|url: &mut Url| url.set_scheme("mysql").unwrap(),
    ] as [&dyn Fn(&mut Url); 5]
    {
        start(change, &[]).exits(1);
    }
    // The password may be where `psql` looks for it.
    let without = |url: &mut Url| url.set_password(None).unwrap();
    start(&without, &[]).exits(1);
    start(&without, &[("PGPASSWORD", database.address.password().unwrap())]).exits(0);
    let file = folder.path().join("pgpass");
    let host = database.address.host_str().unwrap();
    std::fs::write(&file, format!("{host}:*:*:*:{}\n", database.address.password().unwrap()))
        .unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    start(&without, &[("PGPASSFILE", file.to_str().unwrap())]).exits(0);
}
