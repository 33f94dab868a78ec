//! Copies of the data folder: taken while services work, killed half-way, damaged, and put back.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};

use crate::harness::{RUNTIME, Ran, World, a2s_in, command};

const POLICY: &str = "version: 1
default: allow
rules:
  - {id: dogs, on: toolCallRequest, tool: ListDogBreeds.*, decision: approve, message: Dogs need a person.}
";
/// How often a copy and a return are killed.
const KILLS: u32 = 50;

/// A world in which one run has ended and one waits.
fn world() -> World {
    let mut world = World::down(&[]);
    let policy = world.write("policy.yaml", POLICY);
    world.add_flags(&["--policy", &policy]);
    world.start();
    world.a2s_reading("a-secret\n", &["secrets", "set", "dogapi.dog", "key"]).exits(0);
    world.a2s(&["run", "GetCountry", "--input", "country_code=FR"]).exits(0);
    let body = json!({"name": "ListDogBreeds", "wait": true});
    let started = RUNTIME.block_on(async {
        let request = crate::http::client().post(format!("{}v1/executions", world.url()));
        let request = request.bearer_auth(world.token()).json(&body);
        request.send().await.unwrap().json::<Value>().await.unwrap()
    });
    assert_eq!(started["status"], "waiting", "{started}");
    world
}

/// Runs a command on a data folder.
fn on(data: &Path, arguments: &[&str]) -> Ran {
    let flags = ["--data-dir", data.to_str().unwrap()];
    a2s_in(Path::new("."), &[], &[arguments, &flags].concat())
}

/// Starts services on another data folder.
fn moved(world: &World, data: &Path) -> World {
    let mut other = World::down(&[]);
    std::fs::rename(data, other.data()).unwrap();
    let policy = world.folder().join("policy.yaml");
    other.add_flags(&["--policy", policy.to_str().unwrap()]);
    other.start();
    other
}

#[test]
fn backup_of_running_services_is_whole() {
    let world = world();
    let copy = world.folder().join("copy");
    let key = world.folder().join("key");
    let key = key.to_str().unwrap();
    let made = on(&world.data(), &["backup", copy.to_str().unwrap(), "--with-key", key]).exits(0);
    assert!(made.stdout.starts_with("copied 3 files, "), "{made:?}");
    // What happens after the copy is not in it.
    world.a2s(&["run", "GetCountry", "--input", "country_code=FR"]).exits(0);
    let data = world.folder().join("restored");
    let arguments = ["restore", copy.to_str().unwrap(), "--with-key", key, "--json"];
    let told = on(&data, &arguments).exits(0).one();
    assert_eq!((&told["runs"], &told["waiting"]), (&json!(2), &json!(1)), "{told}");
    assert!(told["documents"].as_u64().unwrap() > 40, "{told}");
    assert!(told["audit_records"].as_u64().unwrap() > 2, "{told}");

    let restored = moved(&world, &data);
    assert_ne!(restored.token(), world.token());
    let runs = restored.a2s(&["runs", "--json"]).exits(0).one();
    let runs = runs["executions"].as_array().unwrap();
    let statuses: Vec<_> = runs.iter().map(|run| run["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["waiting", "succeeded"]);
    assert_eq!(runs[0]["error"]["code"], "A2S379", "{}", runs[0]);
    let id = runs[0]["id"].as_str().unwrap();
    assert_eq!(restored.standin("dogapi.dog").requests(), 0);
    // A person lets it go on: its guardian wants an approval, as before.
    let resumed = RUNTIME.block_on(async {
        let request = crate::http::client();
        let request = request.post(format!("{}v1/executions/{id}/resume", restored.url()));
        let request = request.bearer_auth(restored.token()).json(&json!({"decision": "repeat"}));
        request.send().await.unwrap().status()
    });
    assert!(resumed.is_success(), "{resumed}");
    loop {
        let waiting = restored.a2s(&["guardian", "approvals", "--json"]).exits(0).one();
        if waiting["approvals"].as_array().is_some_and(|waiting| !waiting.is_empty()) {
            break;
        }
    }
    assert_eq!(restored.standin("dogapi.dog").requests(), 0);
    let secrets = restored.a2s(&["secrets", "list", "--json"]).exits(0).one();
    assert_eq!(secrets["secrets"][0]["scheme"], "key");
    let found = restored.a2s(&["search", "list dog breeds", "--json"]).exits(0);
    assert!(found.stdout.contains("ListDogBreeds"), "{found:?}");
    restored.a2s(&["guardian", "audit", "verify"]).exits(0);
}

#[test]
fn damaged_or_overwriting_restore_is_refused() {
    let world = world();
    let copy = world.folder().join("copy");
    let [data, here] = [world.folder().join("restored"), world.data()];
    let text = copy.to_str().unwrap();
    on(&here, &["backup", text]).exits(0);
    let again = on(&here, &["backup", text]).exits(1);
    assert!(again.stderr.contains("A2S516") && again.stderr.contains("exists already"));
    let over = on(&here, &["restore", text]).exits(1);
    assert!(over.stderr.contains("already contains data"), "{over:?}");
    let nothing = on(&data, &["backup", text]).exits(1);
    assert!(nothing.stderr.contains("does not contain the data"), "{nothing:?}");
    for name in ["executor.sqlite", "registry.sqlite", "audit.jsonl", "backup.json"] {
        let file = copy.join(name);
        let whole = std::fs::read(&file).unwrap();
        let mut damaged = whole.clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        for bytes in [&damaged[..], &whole[..middle], b""] {
            std::fs::write(&file, bytes).unwrap();
            let refused = on(&data, &["restore", text]).exits(1);
            assert!(refused.stderr.contains("A2S516"), "{name}: {refused:?}");
            assert!(!data.exists(), "{name}");
        }
        std::fs::remove_file(&file).unwrap();
        on(&data, &["restore", text]).exits(1);
        std::fs::write(&file, whole).unwrap();
    }
    // A name in the manifest leads nowhere else.
    let manifest = std::fs::read_to_string(copy.join("backup.json")).unwrap();
    std::fs::write(copy.join("backup.json"), manifest.replace("\"audit.jsonl\"", "\"../a\""))
        .unwrap();
    assert!(on(&data, &["restore", text]).exits(1).stderr.contains("A2S516"));
    std::fs::write(copy.join("backup.json"), manifest).unwrap();
    on(&data, &["restore", text]).exits(0);
}

#[test]
fn a_backup_contains_no_token_and_no_key() {
    let world = world();
    let [copy, data] = ["copy", "restored"].map(|name| world.folder().join(name));
    let text = copy.to_str().unwrap();
    let made = on(&world.data(), &["backup", text]).exits(0);
    assert!(made.stdout.contains("the key for credentials is not in the backup"), "{made:?}");
    let files = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let mut found = files(&copy);
    found.sort();
    assert_eq!(found, ["audit.jsonl", "backup.json", "executor.sqlite", "registry.sqlite"]);
    let restored = on(&data, &["restore", text]).exits(0).stdout;
    assert!(restored.contains("the next start creates a new token"), "{restored}");
    assert!(restored.contains("the key for credentials is missing"), "{restored}");
    assert!(!data.join("token").exists() && !data.join("secrets.key").exists());
}

#[test]
fn a_key_is_copied_only_to_a_new_file_elsewhere() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = world();
    let [copy, key] = ["copy", "key"].map(|name| world.folder().join(name));
    let back_up = |file: &Path| {
        let file = file.to_str().unwrap();
        on(&world.data(), &["backup", copy.to_str().unwrap(), "--with-key", file])
    };
    std::fs::create_dir(&copy).unwrap();
    std::os::unix::fs::symlink(&copy, world.folder().join("link")).unwrap();
    let part = world.folder().join("copy.part");
    let link = world.folder().join("link");
    let inside = [copy.clone(), part.clone(), link, copy.join("../copy")];
    for file in inside.map(|folder| folder.join("key")) {
        let refused = back_up(&file).exits(1);
        assert!(refused.stderr.contains("is in the folder of the backup"), "{refused:?}");
        assert!(!file.exists() && !part.exists());
    }
    std::fs::write(&key, "precious").unwrap();
    let refused = back_up(&key).exits(1);
    assert!(refused.stderr.contains("exists already"), "{refused:?}");
    assert_eq!(std::fs::read(&key).unwrap(), b"precious");
    std::fs::remove_file(&key).unwrap();
    back_up(&key).exits(0);
    assert_eq!(
        std::fs::read(&key).unwrap(),
        std::fs::read(world.data().join("secrets.key")).unwrap()
    );
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::remove_file(world.data().join("secrets.key")).unwrap();
    std::fs::remove_dir_all(&copy).unwrap();
    std::fs::remove_file(&key).unwrap();
    let missing = back_up(&key).exits(1);
    assert!(missing.stderr.contains("secrets.key does not exist"), "{missing:?}");
}

/// Backups of earlier versions contained both.
#[test]
fn a_backup_with_token_and_key_is_restored_with_them() {
    let world = world();
    let [copy, data] = ["copy", "restored"].map(|name| world.folder().join(name));
    let text = copy.to_str().unwrap();
    on(&world.data(), &["backup", text]).exits(0);
    let path = copy.join("backup.json");
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for name in ["token", "secrets.key"] {
        let original = world.data().join(name);
        let bytes = std::fs::read(&original).unwrap();
        let checksum = a2s::Digest::of_reader(&bytes[..]).unwrap();
        manifest["files"][name] = json!({ "bytes": bytes.len(), "checksum": checksum });
        std::fs::copy(original, copy.join(name)).unwrap();
    }
    std::fs::write(&path, manifest.to_string()).unwrap();
    let refused = on(&data, &["restore", text, "--with-key", "key"]).exits(1);
    assert!(refused.stderr.contains("already contains secrets.key"), "{refused:?}");
    let restored = on(&data, &["restore", text]).exits(0).stdout;
    assert!(restored.contains("the backup contains token and secrets.key"), "{restored}");
    assert_eq!(moved(&world, &data).token(), world.token());
}

#[test]
fn a_backup_that_cannot_be_restored_is_refused() {
    let mut world = world();
    world.kill();
    let registry = world.data().join("registry.sqlite");
    RUNTIME.block_on(async {
        let options = SqliteConnectOptions::new().filename(&registry);
        let mut connection = options.connect().await.unwrap();
        connection.execute("UPDATE document SET source = 'x' WHERE version = 1").await.unwrap();
        connection.close().await.unwrap();
    });
    let copy = world.folder().join("copy");
    let refused = on(&world.data(), &["backup", copy.to_str().unwrap()]).exits(1);
    assert!(refused.stderr.contains("does not have the checksum"), "{refused:?}");
    assert!(!copy.exists() && !copy.with_extension("part").exists());
}

/// A process that stops in the middle of a rotation leaves no current segment.
#[test]
fn a_backup_of_closed_segments_alone_has_them() {
    let mut world = world();
    world.kill();
    let log = world.data().join("audit.jsonl");
    std::fs::rename(&log, world.data().join("audit.000001.jsonl")).unwrap();
    on(&world.data(), &["guardian", "audit", "verify"]).exits(0);
    let [copy, data] = ["copy", "restored"].map(|name| world.folder().join(name));
    let text = copy.to_str().unwrap();
    on(&world.data(), &["backup", text]).exits(0);
    let told = on(&data, &["restore", text, "--json"]).exits(0).one();
    assert!(told["audit_records"].as_u64().unwrap() > 2, "{told}");
    world.start();
    world.a2s(&["guardian", "audit", "verify"]).exits(0);
    let again =
        on(&world.data(), &["backup", copy.with_extension("second").to_str().unwrap()]).exits(0);
    assert!(again.stdout.starts_with("copied 5 files, "), "{again:?}");
}

/// Starts a command and kills it after so long, unless it has ended.
fn kill_after(wait: Duration, data: &Path, arguments: &[&str]) {
    let mut command = command(&[]);
    command.args(arguments).arg("--data-dir").arg(data);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // Where it is killed does not matter; that it is somewhere does.
    std::thread::park_timeout(wait);
    let _ = child.kill();
    child.wait().unwrap();
}

/// Moments to kill a command at that takes so long: from its beginning until after its end.
fn moments(took: Duration) -> impl Iterator<Item = Duration> {
    (0..KILLS).map(move |number| took * 3 * number / (2 * KILLS))
}

#[test]
fn a_copy_that_is_killed_at_any_moment_is_whole_or_refused() {
    let world = world();
    let [copy, data] = ["copy", "restored"].map(|name| world.folder().join(name));
    let text = copy.to_str().unwrap();
    let began = std::time::Instant::now();
    on(&world.data(), &["backup", text]).exits(0);
    let took = began.elapsed();
    let mut whole = 0;
    for moment in moments(took) {
        let _ = std::fs::remove_dir_all(&copy);
        kill_after(moment, &world.data(), &["backup", text]);
        match copy.exists() {
            true => {
                on(&data, &["restore", text]).exits(0);
                std::fs::remove_dir_all(&data).unwrap();
                whole += 1;
            }
            false => assert!(on(&data, &["restore", text]).exits(1).stderr.contains("A2S516")),
        }
    }
    eprintln!("{whole} of {KILLS} copies were made before they were killed");
    let _ = std::fs::remove_dir_all(&copy);
    on(&world.data(), &["backup", text]).exits(0);
}

#[test]
fn a_return_that_is_killed_at_any_moment_is_whole_or_not_there() {
    let world = world();
    let [copy, data] = ["copy", "restored"].map(|name| world.folder().join(name));
    let text = copy.to_str().unwrap();
    on(&world.data(), &["backup", text]).exits(0);
    let began = std::time::Instant::now();
    on(&data, &["restore", text]).exits(0);
    let took = began.elapsed();
    let check = |data: &Path| {
        // Everything that is in a whole one, as a copy of it is.
        let second = world.folder().join("second");
        on(data, &["backup", second.to_str().unwrap()]).exits(0);
        std::fs::remove_dir_all(second).unwrap();
    };
    check(&data);
    for moment in moments(took) {
        let _ = std::fs::remove_dir_all(&data);
        kill_after(moment, &data, &["restore", text]);
        if data.exists() {
            check(&data);
        }
    }
    let _ = std::fs::remove_dir_all(&data);
    on(&data, &["restore", text]).exits(0);
    moved(&world, &data);
}
