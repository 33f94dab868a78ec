//! Others, when they are installed: `benches/runs/install-peers FOLDER`, and
//! `A2S_BENCH_PEERS=FOLDER`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::Service;

/// The folder that has them.
#[derive(Debug)]
pub(crate) struct Peers {
    folder: PathBuf,
}

/// Somebody who runs workflows in Arazzo.
#[derive(Debug)]
pub(crate) struct Peer<'p> {
    kind: Kind,
    folder: &'p Path,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Timed in its own process, behind reading the workflow.
    ArazzoRunner,
    /// The whole process is timed: it has no other way in.
    Respect,
}

/// A workflow on the disk.
#[derive(Debug)]
pub(crate) struct Chain<'p> {
    peer: Peer<'p>,
    folder: TempDir,
}

impl Peers {
    /// Those that the environment names.
    pub(crate) fn find() -> Option<Self> {
        let folder = PathBuf::from(std::env::var_os("A2S_BENCH_PEERS")?);
        let folder = folder.canonicalize().expect("`A2S_BENCH_PEERS` names a folder");
        Some(Self { folder })
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = Peer<'_>> {
        let kinds = [Kind::ArazzoRunner, Kind::Respect].into_iter();
        kinds.map(|kind| Peer { kind, folder: &self.folder })
    }
}

impl<'p> Peer<'p> {
    pub(crate) fn name(&self) -> &'static str {
        match self.kind {
            Kind::ArazzoRunner => "arazzo-runner",
            Kind::Respect => "redocly respect",
        }
    }

    /// A chain of GET as a workflow: each step sends what the one before was answered.
    pub(crate) fn chain(self, service: &Service, steps: usize) -> Chain<'p> {
        let folder = TempDir::new().unwrap();
        let write = |name: &str, value: Value| {
            std::fs::write(folder.path().join(name), value.to_string()).unwrap();
        };
        let id =
            json!({"name": "id", "in": "path", "required": true, "schema": {"type": "string"}});
        let answer = json!({"application/json": {"schema": {"type": "object", "properties": {"value": {"type": "string"}}}}});
        let get = json!({
            "operationId": "getThing",
            "parameters": [id],
            "responses": {"200": {"description": "A thing", "content": answer}},
        });
        write(
            "openapi.json",
            json!({
                "openapi": "3.0.3",
                "info": {"title": "Things", "version": "1"},
                "servers": [{"url": service.url}],
                "paths": {"/things/{id}": {"get": get}},
            }),
        );
        let step = |index: usize| {
            let value = match index.checked_sub(1) {
                None => "$inputs.start".to_owned(),
                Some(before) => format!("$steps.step{before}.outputs.value"),
            };
            json!({
                "stepId": format!("step{index}"),
                "operationId": "getThing",
                "parameters": [{"name": "id", "in": "path", "value": value}],
                "successCriteria": [{"condition": "$statusCode == 200"}],
                "outputs": {"value": "$response.body#/value"},
            })
        };
        let inputs =
            json!({"type": "object", "properties": {"start": {"type": "string", "default": "a"}}});
        write(
            "chain.arazzo.json",
            json!({
                "arazzo": "1.0.1",
                "info": {"title": "Chain", "version": "1.0.0"},
                "sourceDescriptions": [{"name": "things", "url": "openapi.json", "type": "openapi"}],
                "workflows": [{
                    "workflowId": "chain",
                    "inputs": inputs,
                    "steps": (0..steps).map(step).collect::<Vec<_>>(),
                }],
            }),
        );
        Chain { peer: self, folder }
    }
}

impl Chain<'_> {
    /// How long one run takes.
    pub(crate) fn run(&self) -> Duration {
        let file = self.folder.path().join("chain.arazzo.json");
        let mut command = match self.peer.kind {
            Kind::ArazzoRunner => {
                let script = Path::new(env!("CARGO_MANIFEST_DIR"));
                let mut command = Command::new(self.peer.folder.join("venv/bin/python"));
                command
                    .arg(script.join("benches/runs/time_arazzo_runner.py"))
                    .arg(&file)
                    .arg("chain");
                command
            }
            Kind::Respect => {
                let mut command = Command::new(self.peer.folder.join("node_modules/.bin/redocly"));
                command.arg("respect").arg(&file).args(["--input", r#"{"start":"a"}"#]);
                command.env("REDOCLY_TELEMETRY", "off");
                command.env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true");
                command
            }
        };
        let begin = Instant::now();
        let output = command.current_dir(self.folder.path()).output().unwrap();
        let took = begin.elapsed();
        assert!(output.status.success(), "{output:?}");
        match self.peer.kind {
            Kind::ArazzoRunner => {
                let seconds = String::from_utf8(output.stdout).unwrap();
                Duration::from_secs_f64(seconds.trim().parse().unwrap())
            }
            Kind::Respect => took,
        }
    }
}
