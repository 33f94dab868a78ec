//! The program `a2s`, serving.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) child: Child,
    pub(crate) url: String,
    /// From its start until it said that it is ready.
    pub(crate) ready: Duration,
}

impl Program {
    /// Starts it with a command that serves, on a port that is free.
    pub(crate) fn start<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Self {
        let began = Instant::now();
        let mut child = Command::new(env!("CARGO_BIN_EXE_a2s"))
            .args(arguments)
            .args(["--json", "--log", "error", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready = began.elapsed();
        let said: Value = serde_json::from_str(&line).unwrap();
        let url = said["url"].as_str().unwrap().to_owned();
        Self { child, url, ready }
    }

    /// Its memory in bytes, by a line of `/proc/PID/status`.
    pub(crate) fn memory(&self, line: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let text = status.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(':'));
        text.unwrap().trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
