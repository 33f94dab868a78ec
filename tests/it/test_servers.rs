//! Servers of a test's own, which it may stop and start: PostgreSQL by `tests/postgres`, Qdrant by
//! `tests/qdrant`. With everything they keep, they are gone when they are dropped.

use std::process::{Command, Output};

use tempfile::TempDir;

use crate::harness::root;

/// A server on loopback. It answers at one address, however often it is stopped and started.
#[derive(Debug)]
struct Own {
    /// The folder of its scripts, in `tests`.
    scripts: &'static str,
    folder: TempDir,
    /// What Qdrant asks its clients for.
    key: &'static str,
    url: String,
}

impl Own {
    fn start(scripts: &'static str, key: &'static str) -> Self {
        let folder = TempDir::new().unwrap();
        // The server's own user has to come in.
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))
                .unwrap();
        }
        let mut own = Self { scripts, folder, key, url: String::new() };
        own.url = String::from_utf8(own.run("start", &[]).stdout).unwrap().trim().to_owned();
        own
    }

    fn command(&self, script: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(root().join("tests").join(self.scripts).join(script));
        command.arg(self.folder.path().join("server")).args(arguments).env("QDRANT_KEY", self.key);
        command
    }

    fn run(&self, script: &str, arguments: &[&str]) -> Output {
        let ran = self.command(script, arguments).output().unwrap();
        assert!(ran.status.success(), "{script}: {}", String::from_utf8_lossy(&ran.stderr));
        ran
    }
}

/// A PostgreSQL server with one database.
#[derive(Debug)]
pub(crate) struct Postgres(Own);

impl Postgres {
    /// None where it is not installed, said aloud.
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    pub(crate) fn start() -> Option<Self> {
        let found = Command::new(root().join("tests/postgres/bin")).output();
        if !found.is_ok_and(|found| found.status.success()) {
            eprintln!("SKIPPED: PostgreSQL is not installed");
            return None;
        }
        Some(Self(Own::start("postgres", "")))
    }

    /// The address of its database.
    pub(crate) fn url(&self) -> &str {
        &self.0.url
    }

    /// Stops it as an operator does: what is under way is broken off.
    pub(crate) fn stop(&self) {
        self.0.run("control", &["stop", "--mode=fast"]);
    }

    pub(crate) fn start_again(&self) {
        self.0.run("control", &["start"]);
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // What is left of it shows in the list of processes.
        let _ = self.0.command("stop", &[]).output();
    }
}

/// A Qdrant server.
#[derive(Debug)]
pub(crate) struct Qdrant(Own);

impl Qdrant {
    /// None without the program that `A2S_TEST_QDRANT_BIN` names, said aloud. An empty key is none.
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    pub(crate) fn start(key: &'static str) -> Option<Self> {
        if std::env::var_os("A2S_TEST_QDRANT_BIN").is_none() {
            eprintln!("SKIPPED: A2S_TEST_QDRANT_BIN names no program");
            return None;
        }
        Some(Self(Own::start("qdrant", key)))
    }

    /// The address of its gRPC API.
    pub(crate) fn url(&self) -> &str {
        &self.0.url
    }

    /// Kills it.
    pub(crate) fn stop(&self) {
        self.0.run("stop", &[]);
    }

    pub(crate) fn start_again(&self) {
        self.0.run("start", &[]);
    }
}

impl Drop for Qdrant {
    fn drop(&mut self) {
        let _ = self.0.command("stop", &["--remove"]).output();
    }
}
