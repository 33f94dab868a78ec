//! Servers from npm, started by tests: processes that end with the test.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;

/// The most that the mock's answer may be.
const MAX_BODY: usize = 32 << 20;

/// Where the servers are installed; says so when they are not.
pub(in crate::tests) fn packages() -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("A2S_TEST_NPM") else {
        eprintln!("SKIPPED: A2S_TEST_NPM names no folder, so no server of others was asked");
        return None;
    };
    let folder = PathBuf::from(folder);
    let modules = folder.join("node_modules");
    assert!(modules.is_dir(), "A2S_TEST_NPM is set, but {} is no folder", modules.display());
    Some(folder)
}

/// A process that listens on loopback. It is killed when it is dropped.
pub(in crate::tests) struct Process {
    child: Child,
    pub(in crate::tests) url: String,
}

impl Process {
    /// Starts `node` with `arguments` and a free port behind them, and waits until it says `ready`.
    ///
    /// # Errors
    /// What it said when it ended instead.
    pub(in crate::tests) fn start<'a>(
        arguments: impl IntoIterator<Item = &'a OsStr>,
        ready: &str,
    ) -> Result<Self, String> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut child = Command::new("node")
            .args(arguments)
            .arg(port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("node is installed");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = String::new();
        for line in lines.by_ref() {
            let line = line.unwrap();
            if line.contains(ready) {
                // Read on, so that it is never kept from writing.
                std::thread::spawn(move || lines.for_each(drop));
                let errors = child.stderr.take().unwrap();
                std::thread::spawn(move || BufReader::new(errors).lines().for_each(drop));
                return Ok(Self { child, url: format!("http://127.0.0.1:{port}") });
            }
            said.push_str(&line);
        }
        let mut errors = String::new();
        let _ = child.stderr.take().unwrap().read_to_string(&mut errors);
        let _ = child.wait();
        Err(format!("{said} {errors}").chars().take(300).collect())
    }

    /// A mock of the description in a file, which refuses requests that do not fit.
    pub(super) fn prism(packages: &Path, description: &Path) -> Result<Self, String> {
        let command = packages.join("node_modules/@stoplight/prism-cli/dist/index.js");
        assert!(command.is_file(), "Prism is not installed in {}", packages.display());
        let arguments: [&OsStr; 8] = [
            command.as_os_str(),
            "mock".as_ref(),
            "--errors".as_ref(),
            "--multiprocess=false".as_ref(),
            description.as_os_str(),
            "--host".as_ref(),
            "127.0.0.1".as_ref(),
            "--port".as_ref(),
        ];
        Self::start(arguments, "Prism is listening")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended already is as good as killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Stands before the mock, and keeps what it answers.
#[derive(Clone, Default)]
pub(super) struct Witness(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    mock: String,
    last: Option<Verdict>,
}

/// What the mock made of a request.
#[derive(Debug, Clone)]
pub(super) enum Verdict {
    /// It took it, and answered.
    Taken,
    /// It took it, and could make no answer, for a reason of the description or its own.
    Unanswered(String),
    /// It refused it.
    Refused(String),
    /// It fell over.
    Fell,
}

impl Witness {
    /// Sends what follows to another mock.
    pub(super) fn turn_to(&self, mock: &str) {
        *self.0.lock().unwrap() = Seen { mock: mock.to_owned(), last: None };
    }

    /// The verdict on the last request, once.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        self.0.lock().unwrap().last.take()
    }

    pub(super) fn router(&self) -> Router {
        Router::new().fallback(pass_on).with_state(self.clone())
    }
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

async fn pass_on(State(witness): State<Witness>, request: Request) -> Response {
    let mock = witness.0.lock().unwrap().mock.clone();
    let (mut head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, MAX_BODY).await.unwrap();
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    head.headers.remove(http::header::HOST);
    let sent = client()
        .request(head.method, format!("{mock}{target}"))
        .headers(head.headers)
        .body(body)
        .send()
        .await;
    let Ok(answer) = sent else {
        witness.0.lock().unwrap().last = Some(Verdict::Fell);
        return http::StatusCode::BAD_GATEWAY.into_response();
    };
    let (status, headers) = (answer.status(), answer.headers().clone());
    let body = answer.bytes().await.unwrap_or_default();
    witness.0.lock().unwrap().last = Some(judge(status.as_u16(), &body));
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    for (name, value) in &headers {
        let is_framing =
            matches!(name.as_str(), "transfer-encoding" | "connection" | "content-length");
        if !is_framing {
            response.headers_mut().append(name, value.clone());
        }
    }
    response
}

/// What an answer of Prism says about the request.
fn judge(status: u16, body: &Bytes) -> Verdict {
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    let Some((_, kind)) =
        problem["type"].as_str().and_then(|kind| kind.split_once("stoplight.io/prism/errors#"))
    else {
        return Verdict::Taken;
    };
    let told = match problem["validation"].as_array() {
        Some(found) => {
            let found = found.iter().map(|one| {
                let place: Vec<_> = one["location"].as_array().map_or_else(Vec::new, |place| {
                    place.iter().filter_map(Value::as_str).collect()
                });
                format!("{}: {}", place.join("."), one["message"].as_str().unwrap_or_default())
            });
            found.take(2).collect::<Vec<_>>().join("; ")
        }
        None => problem["detail"].as_str().unwrap_or_default().to_owned(),
    };
    let told: String = format!("{status} {kind} {told}").chars().take(300).collect();
    match kind {
        // These come once the request was found to be good.
        "NO_RESPONSE_DEFINED"
        | "VIOLATIONS"
        | "SCHEMA_TOO_COMPLEX"
        | "NO_COMPLEX_OBJECT_TEXT"
        | "NOT_FOUND"
        | "UNKNOWN"
        | "NO_SUCCESS_RESPONSE_DEFINED" => Verdict::Unanswered(told),
        _ => Verdict::Refused(told),
    }
}
