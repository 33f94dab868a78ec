//! The program, serving a registry.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct Process {
    child: Child,
    url: String,
    /// From its start until it said that it is ready.
    pub(crate) ready: Duration,
    _folder: TempDir,
}

impl Process {
    pub(crate) fn start(folder: TempDir) -> Self {
        let began = Instant::now();
        let mut child = Command::new(env!("CARGO_BIN_EXE_a2s"))
            .args(["serve", "registry", "--json", "--log", "error", "--listen", "127.0.0.1:0"])
            .arg("--data-dir")
            .arg(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready = began.elapsed();
        let said: Value = serde_json::from_str(&line).unwrap();
        let url = said["url"].as_str().unwrap().to_owned();
        Self { child, url, ready, _folder: folder }
    }

    pub(crate) async fn search(&self, queries: impl Iterator<Item = &str>) {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        for query in queries {
            let request = client.post(format!("{}v1/search", self.url));
            let answer = request.json(&json!({ "intent": query })).send().await.unwrap();
            assert!(answer.status().is_success(), "{answer:?}");
            answer.bytes().await.unwrap();
        }
    }

    /// Memory that is no file's, in MB.
    pub(crate) fn anonymous_memory(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse::<f64>().unwrap() * 1024.0 / 1e6
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
