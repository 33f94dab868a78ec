//! The program, serving a registry.

use std::ffi::OsStr;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use crate::program::Program;

pub(crate) struct Process {
    program: Program,
    _folder: TempDir,
}

impl Process {
    pub(crate) fn start(folder: TempDir) -> Self {
        let serve = ["serve", "registry", "--data-dir"].map(OsStr::new);
        let program = Program::start(serve.into_iter().chain([folder.path().as_os_str()]));
        Self { program, _folder: folder }
    }

    /// From its start until it said that it is ready.
    pub(crate) fn ready(&self) -> Duration {
        self.program.ready
    }

    pub(crate) async fn search(&self, queries: impl Iterator<Item = &str>) {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        for query in queries {
            let request = client.post(format!("{}v1/search", self.program.url));
            let answer = request.json(&json!({ "intent": query })).send().await.unwrap();
            assert!(answer.status().is_success(), "{answer:?}");
            answer.bytes().await.unwrap();
        }
    }

    /// Memory that is no file's, in MB.
    pub(crate) fn anonymous_memory(&self) -> f64 {
        self.program.memory("RssAnon") as f64 / 1e6
    }
}
