//! A disk that fills up and is freed again: the process stays, says so, and goes on by itself.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};

use crate::harness::{RUNTIME, World, shipped};
use crate::http::get;

const MEBIBYTE: usize = 1024 * 1024;
/// How often something is asked until it is as it should be: each answer takes the services some time.
const MOST_ATTEMPTS: usize = 20_000;

/// A file system in memory; unmounted with this.
struct Mount(PathBuf);

impl Mount {
    /// None where only root may mount, said aloud.
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    fn at(path: &Path, mebibytes: usize) -> Option<Self> {
        std::fs::create_dir_all(path).unwrap();
        let size = format!("size={mebibytes}m,mode=0700");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(path);
        if mount.output().is_ok_and(|output| output.status.success()) {
            return Some(Self(path.to_owned()));
        }
        eprintln!("SKIPPED: this user may not mount a file system in memory");
        None
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }

    fn free(&self) -> usize {
        usize::try_from(fs4::available_space(&self.0).unwrap()).unwrap() / MEBIBYTE
    }

    /// Fills it until so many mebibytes are left.
    fn fill(&self, left: usize) {
        let mut file = File::options().create(true).append(true).open(self.filler()).unwrap();
        let block = vec![0; MEBIBYTE];
        while self.free() > left && file.write_all(&block).is_ok() {}
        if left == 0 {
            while file.write_all(&block[..4096]).is_ok() {}
        }
    }

    fn clear(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "{}", self.0.display());
    }
}

fn ready(world: &World) -> (u16, String) {
    get(&format!("{}readyz?verbose", world.url()), &[])
}

fn wait_until(world: &World, is_so: impl Fn(u16, &str) -> bool) {
    let mut last = (0, String::new());
    for _ in 0..MOST_ATTEMPTS {
        last = ready(world);
        if is_so(last.0, &last.1) {
            return;
        }
    }
    panic!("the services stay so: {last:?}");
}

fn is_found(world: &World, intent: &str, name: &str) -> bool {
    let found = world.a2s(&["search", intent, "--json"]).exits(0).one();
    found["capabilities"].as_array().unwrap().iter().any(|hit| hit["name"] == name)
}

/// Another capability than those that are shipped, in a file.
fn another(world: &World, name: &str, description: &str) -> String {
    let text = std::fs::read_to_string(shipped("ListDogBreeds")).unwrap();
    let lines = text.lines().map(|line| match line.split_once(": ") {
        Some(("name", _)) => format!("name: {name}\n"),
        Some(("description", _)) => format!("description: {description}\n"),
        _ => format!("{line}\n"),
    });
    let path = world.write(&format!("{name}.yaml"), &lines.collect::<String>());
    world.a2s(&["checksum", "--write", &path]).exits(0);
    path
}

/// Takes the space that the logs of the databases have and do not use.
fn empty_logs(world: &World) {
    RUNTIME.block_on(async {
        for file in ["registry.sqlite", "executor.sqlite"] {
            let options = SqliteConnectOptions::new().filename(world.data().join(file));
            let mut connection = options.connect().await.unwrap();
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").await.unwrap();
            connection.close().await.unwrap();
        }
    });
}

#[test]
fn services_survive_a_full_disk() {
    let mut world = World::down(&[]);
    let Some(mount) = Mount::at(&world.data(), 64) else { return };
    world.start();
    let first = another(&world, "PolishTelescopes", "Polish the mirrors of telescopes");
    let second = another(&world, "ShearAlpacas", "Shear a herd of alpacas");
    wait_until(&world, |code, _| code == 200);
    world.a2s(&["publish", &first]).exits(0);
    assert!(is_found(&world, "polish a telescope", "PolishTelescopes"));

    // No space: the databases are not written, and nothing ends.
    empty_logs(&world);
    mount.fill(0);
    assert_ne!(world.a2s(&["publish", &second]).code, 0);
    assert_ne!(world.a2s(&["run", "ListDogBreeds", "--json"]).code, 0);
    assert_eq!(get(&format!("{}healthz", world.url()), &[]).0, 200);
    assert!(is_found(&world, "polish a telescope", "PolishTelescopes"));

    // Space again: everything goes on by itself.
    mount.clear();
    wait_until(&world, |code, text| code == 200 && text.contains("search index: ready"));
    world.a2s(&["publish", &second]).exits(0);
    assert!(is_found(&world, "shear the alpacas", "ShearAlpacas"));
    let run = world.a2s(&["run", "ListDogBreeds", "--json"]).exits(0);
    assert_eq!(run.one()["status"], json!("succeeded"));

    // A start takes the index from the database.
    world.kill();
    world.start();
    for (intent, name) in
        [("polish a telescope", "PolishTelescopes"), ("shear the alpacas", "ShearAlpacas")]
    {
        assert!(is_found(&world, intent, name), "{name}");
    }
}

#[test]
fn a_backup_to_a_full_disk_says_so_and_leaves_nothing() {
    let mut world = World::down(&[]);
    let folder = world.folder().join("backups");
    let Some(mount) = Mount::at(&folder, 64) else { return };
    world.start();
    wait_until(&world, |code, _| code == 200);
    let copy = folder.join("copy");
    let back_up = || world.a2s(&["backup", copy.to_str().unwrap()]);
    mount.fill(0);
    let full = back_up().exits(1);
    assert!(full.stderr.contains("A2S516") && full.stderr.contains("no space left"), "{full:?}");
    assert!(!copy.exists() && !folder.join("copy.part").exists(), "{full:?}");
    mount.clear();
    back_up().exits(0);
}
