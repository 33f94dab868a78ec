//! Sealing, keys, and what is refused.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use sqlx::sqlite::SqlitePool;

use super::*;
use crate::config::{GuardianSettings, SecretKeySource};

/// Times and ids that count.
#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Clock for Counter {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.0.fetch_add(1, Ordering::Relaxed) as i64).unwrap()
    }
}

impl RandomSource for Counter {
    fn random_bytes(&self) -> [u8; 16] {
        u128::from(self.0.fetch_add(1, Ordering::Relaxed)).to_le_bytes()
    }
}

async fn open(folder: &Path, key: SecretKeySource) -> Result<Vault, Error> {
    let registry = "http://127.0.0.1:1".parse().unwrap();
    let mut config = Config::new(folder.join("executor.sqlite"), registry, GuardianSettings::Off);
    config.secret_key = key;
    crate::run::create_database(&config).await.unwrap();
    open_made(&config).await
}

async fn open_made(config: &Config) -> Result<Vault, Error> {
    let pool = crate::database::open(&config.database).await?;
    Vault::open(config, pool, Arc::new(Counter::default()), Arc::new(Counter::default())).await
}

/// The database behind the vault's back.
async fn connect(folder: &Path) -> SqlitePool {
    let options = sqlx::sqlite::SqliteConnectOptions::new();
    SqlitePool::connect_with(options.filename(folder.join("executor.sqlite"))).await.unwrap()
}

fn given(byte: u8) -> SecretKeySource {
    SecretKeySource::Given(Secret::new(STANDARD.encode([byte; 32])))
}

fn host(name: &str) -> Domain {
    Domain::new(name).unwrap()
}

fn api_key(value: &str) -> Credential {
    Credential::ApiKey { value: Secret::new(value), place: None }
}

/// Every byte of the database files.
fn bytes(folder: &Path) -> Vec<u8> {
    let files = std::fs::read_dir(folder).unwrap();
    files.flat_map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
}

#[tokio::test]
async fn a_credential_comes_back_and_is_never_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let vault = open(folder.path(), given(1)).await.unwrap();
    let credential: Credential = serde_json::from_value(json!({
        "kind": "oauth2", "client_id": "me", "client_secret": "canary-secret",
        "refresh_token": "canary-refresh", "token_hosts": ["login.example"],
    }))
    .unwrap();
    let (stored, created) =
        vault.set(host("api.example:8443"), "my key", &credential).await.unwrap();
    assert!(created);
    assert!(!vault.set(host("api.example:8443"), "my key", &credential).await.unwrap().1);
    assert_eq!(vault.list().await.unwrap().len(), 1);
    assert_eq!((stored.kind.as_str(), stored.host.as_str()), ("oauth2", "api.example:8443"));
    drop(vault);
    let vault = open(folder.path(), given(1)).await.unwrap();
    let opened = vault.open_credential(&host("api.example:8443"), "my key").await.unwrap().unwrap();
    assert_eq!(opened.credential, credential);
    let all = String::from_utf8_lossy(&bytes(folder.path())).into_owned();
    assert!(all.contains("api.example:8443") && !all.contains("canary"));
    assert!(!format!("{vault:?} {opened:?}").contains("canary"));

    // A server that changes the refresh token changes nothing else.
    vault
        .replace_refresh_token(
            &host("api.example:8443"),
            "my key",
            &opened,
            &Secret::new("another"),
        )
        .await
        .unwrap();
    let rotated =
        vault.open_credential(&host("api.example:8443"), "my key").await.unwrap().unwrap();
    assert_eq!(rotated.set_at, opened.set_at);
    let Credential::Oauth2 { refresh_token, client_secret, .. } = rotated.credential else {
        panic!()
    };
    assert_eq!(refresh_token.unwrap().expose_secret(), "another");
    assert_eq!(client_secret.expose_secret(), "canary-secret");

    vault.remove(&host("api.example:8443"), "my key").await.unwrap();
    assert!(vault.open_credential(&host("api.example:8443"), "my key").await.unwrap().is_none());
    let error = vault.remove(&host("api.example:8443"), "my key").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::CredentialNotFound);
}

#[tokio::test]
async fn a_row_that_was_moved_or_changed_does_not_open() {
    let folder = tempfile::tempdir().unwrap();
    let vault = open(folder.path(), given(1)).await.unwrap();
    vault.set(host("api.example"), "key", &api_key("canary")).await.unwrap();
    let pool = connect(folder.path()).await;
    let change = async |sql: &'static str| {
        sqlx::query(sql).execute(&pool).await.unwrap();
    };
    for (there, at, back) in [
        (
            "UPDATE credential SET host = 'evil.example'",
            ("evil.example", "key"),
            "UPDATE credential SET host = 'api.example'",
        ),
        (
            "UPDATE credential SET scheme = 'other'",
            ("api.example", "other"),
            "UPDATE credential SET scheme = 'key'",
        ),
        (
            "UPDATE credential SET nonce = zeroblob(24)",
            ("api.example", "key"),
            "UPDATE credential SET nonce = x'00'",
        ),
    ] {
        change(there).await;
        let error = vault.open_credential(&host(at.0), at.1).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::VaultKey, "{there}");
        assert!(error.message.contains("changed or moved"), "{}", error.message);
        change(back).await;
    }
}

#[tokio::test]
async fn a_wrong_key_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let vault = open(folder.path(), given(1)).await.unwrap();
    vault.set(host("api.example"), "key", &api_key("canary")).await.unwrap();
    let vault = open(folder.path(), given(2)).await.unwrap();
    let error = vault.open_credential(&host("api.example"), "key").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::VaultKey);
    assert!(error.message.contains("was sealed with the key"), "{}", error.message);
    // It can be set anew, and is sealed with the new key then.
    vault.set(host("api.example"), "key", &api_key("another")).await.unwrap();
    assert!(vault.open_credential(&host("api.example"), "key").await.unwrap().is_some());
    for text in ["", "short", "AAAA", &STANDARD.encode([1; 31]), &STANDARD.encode([1; 33])] {
        let error =
            open(folder.path(), SecretKeySource::Given(Secret::new(text))).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Configuration);
        assert!(error.message.contains("32 bytes in base64"), "{}", error.message);
    }
}

#[tokio::test]
async fn a_key_file_is_made_once_and_is_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secrets.key");
    let file = || SecretKeySource::File(path.clone());
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    let chmod =
        |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    let vault = open(folder.path(), file()).await.unwrap();
    assert!(!path.exists(), "nothing is stored, so there is no key");
    vault.set(host("api.example"), "key", &api_key("canary")).await.unwrap();
    assert_eq!(mode(), 0o600);
    let text = std::fs::read_to_string(&path).unwrap();
    let vault = open(folder.path(), file()).await.unwrap();
    assert!(vault.open_credential(&host("api.example"), "key").await.unwrap().is_some());
    vault.set(host("api.example"), "other", &api_key("canary")).await.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    for open_mode in [0o640, 0o604, 0o620, 0o644] {
        chmod(open_mode);
        let error = open(folder.path(), file()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Configuration);
        assert!(error.message.contains("users other than its owner"), "{}", error.message);
        assert!(error.hint.contains("chmod 600"), "{}", error.hint);
    }
    chmod(0o600);
    std::fs::write(&path, "not a key").unwrap();
    assert!(open(folder.path(), file()).await.unwrap_err().message.contains("32 bytes"));
    // Without the file nothing opens, and what is said is that it is gone.
    std::fs::remove_file(&path).unwrap();
    let vault = open(folder.path(), file()).await.unwrap();
    let error = vault.open_credential(&host("api.example"), "key").await.unwrap_err();
    assert!(
        error.kind == ErrorKind::VaultKey && error.message.contains("is missing"),
        "{}",
        error.message
    );
}

#[test]
fn processes_that_make_the_key_at_once_have_one_key() {
    const PROCESSES: usize = 8;
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let source = SecretKeySource::File(folder.path().join("secrets.key"));
        let start = std::sync::Barrier::new(PROCESSES);
        let ids: Arc<dyn RandomSource> = Arc::new(Counter::default());
        let make = || {
            start.wait();
            // One that starts meanwhile finds a whole key or none.
            let keys = KeyLoader::new(source.clone())?;
            Ok::<_, Error>(keys.key_for_sealing(&ids)?.id().to_owned())
        };
        let made: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..PROCESSES).map(|_| scope.spawn(make)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
        });
        assert!(made.iter().all(|id| *id == made[0]), "{made:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
    }
}

#[tokio::test]
async fn key_file_may_link_only_to_a_private_file() {
    let folder = tempfile::tempdir().unwrap();
    let (link, target) = (folder.path().join("secrets.key"), folder.path().join("target"));
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let vault = open(folder.path(), SecretKeySource::File(link.clone())).await.unwrap();
    let error = vault.set(host("api.example"), "key", &api_key("canary")).await.unwrap_err();
    assert!(error.message.contains("a link to a missing file"), "{}", error.message);
    std::fs::write(&target, STANDARD.encode([1; 32])).unwrap();
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = vault.set(host("api.example"), "key", &api_key("canary")).await.unwrap_err();
    assert!(error.message.contains("users other than its owner"), "{}", error.message);
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o400)).unwrap();
    vault.set(host("api.example"), "key", &api_key("canary")).await.unwrap();
    std::fs::remove_file(&link).unwrap();
    std::fs::create_dir(&link).unwrap();
    let error = open(folder.path(), SecretKeySource::File(link)).await.unwrap_err();
    assert!(error.message.contains("cannot be used"), "{}", error.message);
}

#[tokio::test]
async fn replaced_credential_has_another_id() {
    let folder = tempfile::tempdir().unwrap();
    let mut vault = open(folder.path(), given(1)).await.unwrap();
    vault.clock = Arc::new(crate::request::test_fixtures::Still);
    let set = async || vault.set(host("api.example"), "key", &api_key("canary")).await.unwrap().0;
    assert!(set().await.set_at < set().await.set_at);
}

#[tokio::test]
async fn a_full_vault_takes_no_more_and_lets_what_is_there_be_changed() {
    let folder = tempfile::tempdir().unwrap();
    let vault = open(folder.path(), given(1)).await.unwrap();
    vault.set(host("api.example"), "key", &api_key("canary")).await.unwrap();
    let pool = connect(folder.path()).await;
    let fill = "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
                INSERT INTO credential SELECT 'h' || i || '.example', 'key', 'api_key', 0, '', x'', x'', NULL FROM n";
    sqlx::query(fill).execute(&pool).await.unwrap();
    vault.set(host("api.example"), "key", &api_key("another")).await.unwrap();
    let error = vault.set(host("new.example"), "key", &api_key("canary")).await.unwrap_err();
    assert!(error.message.contains("10000 credentials are stored"), "{}", error.message);
}

#[tokio::test]
async fn a_database_that_was_cut_off_is_an_error_and_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let vault = open(folder.path(), given(1)).await.unwrap();
    vault.set(host("api.example"), "key", &api_key("canary")).await.unwrap();
    let pool = connect(folder.path()).await;
    for sql in [
        "UPDATE credential SET sealed = substr(sealed, 1, 20)",
        "UPDATE credential SET sealed = x''",
    ] {
        sqlx::query(sql).execute(&pool).await.unwrap();
        let error = vault.open_credential(&host("api.example"), "key").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::VaultKey, "{sql}");
    }
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&pool).await.unwrap();
    let bytes = std::fs::read(folder.path().join("executor.sqlite")).unwrap();
    let path = folder.path().join("cut.sqlite");
    std::fs::write(&path, &bytes[..5_000]).unwrap();
    let registry = "http://127.0.0.1:1".parse().unwrap();
    let config = Config::new(path, registry, GuardianSettings::Off);
    let opened = open_made(&config).await;
    assert_eq!(opened.map(|_| ()).unwrap_err().kind, ErrorKind::Store);
}

#[tokio::test]
async fn unsendable_secret_is_refused_without_its_text() {
    let vault = Vault::in_memory(Arc::new(Counter::default()), Arc::new(Counter::default()));
    for (credential, says) in [
        (json!({"kind": "api_key", "value": "abc"}), "`value` has fewer than 4 characters"),
        (json!({"kind": "api_key", "value": "canary\n"}), "`value` has a control character"),
        (json!({"kind": "api_key", "value": "\u{feff}canary"}), "`value` has a byte order mark"),
        (
            json!({"kind": "basic", "user": "can\u{feff}ary", "password": "canary"}),
            "`user` has a byte order mark",
        ),
        (
            json!({"kind": "oauth2", "client_id": "a", "client_secret": "canary\u{feff}"}),
            "`client_secret` has a byte order mark",
        ),
        (json!({"kind": "api_key", "value": "canary".repeat(2_000)}), "1 to 8192 bytes"),
        (
            json!({"kind": "basic", "user": "can:ary", "password": "canary"}),
            "must not contain a colon",
        ),
        (json!({"kind": "bearer", "token": "can ary"}), "`token` contains a space"),
        (
            json!({"kind": "bearer", "token": "Bearer canary"}),
            "`token` begins with the name of a scheme",
        ),
        (
            json!({"kind": "bearer", "token": "canäry"}),
            "characters that are not allowed in a header",
        ),
        (
            json!({"kind": "oauth2", "client_id": "", "client_secret": "canary"}),
            "`client_id` must have 1 to",
        ),
    ] {
        let credential = serde_json::from_value(credential).unwrap();
        let error = vault.set(host("api.example"), "key", &credential).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadRequest);
        assert!(
            error.message.contains(says) && !error.message.contains("ary"),
            "{}",
            error.message
        );
    }
    for scheme in ["", "-x", " x", "a\nb", ".", "..", &"x".repeat(101)] {
        let error = vault.set(host("api.example"), scheme, &api_key("canary")).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadRequest, "{scheme}");
    }
    assert!(vault.list().await.unwrap().is_empty());
}
