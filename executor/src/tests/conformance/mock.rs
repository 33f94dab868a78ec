//! Servers from npm, started by tests: processes that end with the test.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use http::HeaderMap;
use http::request::Parts;
use serde_json::{Value, json};

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
    /// Starts `node` with `arguments`, and waits until it says `listening on` an address. It takes a
    /// port that is free: one that was chosen for it could be taken by the time it is used.
    ///
    /// # Errors
    /// What it said when it ended instead.
    pub(in crate::tests) fn start<'a>(
        arguments: impl IntoIterator<Item = &'a OsStr>,
    ) -> Result<Self, String> {
        let mut child = Command::new("node")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("node is installed");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = String::new();
        for line in lines.by_ref() {
            let line = line.unwrap();
            if let Some((_, url)) = line.split_once("listening on ") {
                // Read on, so that it is never kept from writing.
                std::thread::spawn(move || lines.for_each(drop));
                let errors = child.stderr.take().unwrap();
                std::thread::spawn(move || BufReader::new(errors).lines().for_each(drop));
                return Ok(Self { child, url: url.to_owned() });
            }
            said.push_str(&line);
        }
        let mut errors = String::new();
        let _ = child.stderr.take().unwrap().read_to_string(&mut errors);
        let _ = child.wait();
        Err(format!("{said} {errors}"))
    }

    /// A mock of the description in a file, which refuses requests that do not fit.
    pub(super) fn prism(packages: &Path, description: &Path) -> Result<Self, String> {
        let command = packages.join("node_modules/@stoplight/prism-cli/dist/index.js");
        assert!(command.is_file(), "Prism is not installed in {}", packages.display());
        let arguments: [&OsStr; 9] = [
            command.as_os_str(),
            "mock".as_ref(),
            "--errors".as_ref(),
            "--multiprocess=false".as_ref(),
            description.as_os_str(),
            "--host".as_ref(),
            "127.0.0.1".as_ref(),
            "--port".as_ref(),
            "0".as_ref(),
        ];
        Self::start(arguments)
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
    control: Control,
}

/// Whether the mock would have seen a mistake: bodies that it took, sent once more as the number 0.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Control {
    pub(super) sent: usize,
    pub(super) refused: usize,
}

/// What the mock made of a request.
#[derive(Debug, Clone)]
pub(super) enum Verdict {
    /// It took it, and answered.
    Taken,
    /// It took it, and could make no answer, for a reason of the description or its own.
    Unanswered(Objection),
    /// It refused it.
    Refused(Objection),
    /// It fell over.
    Fell,
}

/// What the mock has against a request, or against its own answer.
#[derive(Debug, Clone)]
pub(super) struct Objection {
    /// Its name for that: `UNPROCESSABLE_ENTITY`.
    pub(super) kind: String,
    /// Its words.
    pub(super) told: String,
}

impl Witness {
    /// Sends what follows to another mock.
    pub(super) fn turn_to(&self, mock: &str) {
        let mut seen = self.0.lock().unwrap();
        mock.clone_into(&mut seen.mock);
        seen.last = None;
    }

    /// The verdict on the last request, once.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        self.0.lock().unwrap().last.take()
    }

    pub(super) fn control(&self) -> Control {
        self.0.lock().unwrap().control
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
    let send = |head: &Parts, body: Bytes| {
        let request = client().request(head.method.clone(), format!("{mock}{target}"));
        request.headers(head.headers.clone()).body(body).send()
    };
    let content_type = head.headers.get(http::header::CONTENT_TYPE).cloned();
    let Ok(answer) = send(&head, body).await else {
        witness.0.lock().unwrap().last = Some(Verdict::Fell);
        return http::StatusCode::BAD_GATEWAY.into_response();
    };
    let (status, headers) = (answer.status(), answer.headers().clone());
    let body = answer.bytes().await.unwrap_or_default();
    let verdict = judge(&headers, &body);
    let is_json = content_type.is_some_and(|media| media == "application/json");
    if is_json && matches!(verdict, Verdict::Taken | Verdict::Unanswered(_)) {
        head.headers.remove(http::header::CONTENT_LENGTH);
        if let Ok(answer) = send(&head, Bytes::from_static(b"0")).await {
            let headers = answer.headers().clone();
            let refused = judge(&headers, &answer.bytes().await.unwrap_or_default());
            let control = &mut witness.0.lock().unwrap().control;
            control.sent += 1;
            control.refused += usize::from(matches!(refused, Verdict::Refused(_)));
        }
    }
    witness.0.lock().unwrap().last = Some(verdict);
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
///
/// A request that does not fit gets the answer that the description has for such requests, if it has
/// one; that it did not fit is told by a header alone.
fn judge(headers: &HeaderMap, body: &Bytes) -> Verdict {
    let violations = headers.get("sl-violations").and_then(|text| text.to_str().ok());
    let violations: Value = violations.map_or(Value::Null, |text| {
        // Too many of them are cut off; those of the request come first.
        let first = || json!([{"location": [text.contains("[\"request\"").then_some("request")]}]);
        serde_json::from_str(text).unwrap_or_else(|_| first())
    });
    let of_request = violations.as_array().into_iter().flatten();
    let of_request =
        of_request.filter(|one| one["severity"] != "Warning" && one["location"][0] == "request");
    let of_request: Vec<&Value> = of_request.collect();
    if !of_request.is_empty() {
        let kind = "UNPROCESSABLE_ENTITY".to_owned();
        return Verdict::Refused(Objection { kind, told: told(&of_request) });
    }
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    let Some((_, kind)) =
        problem["type"].as_str().and_then(|kind| kind.split_once("stoplight.io/prism/errors#"))
    else {
        return Verdict::Taken;
    };
    let told = match problem["validation"].as_array() {
        Some(found) => told(&found.iter().collect::<Vec<_>>()),
        None => problem["detail"].as_str().unwrap_or_default().to_owned(),
    };
    let objection = Objection { kind: kind.to_owned(), told };
    match kind {
        // These come once the request was found to be good.
        "NO_RESPONSE_DEFINED"
        | "VIOLATIONS"
        | "SCHEMA_TOO_COMPLEX"
        | "NO_COMPLEX_OBJECT_TEXT"
        | "NOT_FOUND"
        | "UNKNOWN"
        | "NO_SUCCESS_RESPONSE_DEFINED" => Verdict::Unanswered(objection),
        _ => Verdict::Refused(objection),
    }
}

/// What was found, the first two of it. The messages name the place.
fn told(found: &[&Value]) -> String {
    let messages = found.iter().filter_map(|one| one["message"].as_str());
    messages.take(2).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(violations: &str, body: &str) -> Verdict {
        let mut headers = HeaderMap::new();
        if !violations.is_empty() {
            headers.insert("sl-violations", violations.parse().unwrap());
        }
        judge(&headers, &Bytes::from(body.to_owned()))
    }

    #[test]
    fn a_refusal_is_seen_behind_an_answer_of_the_description() {
        let request = r#"[{"location":["request","body"],"severity":"Error","message":"No."}]"#;
        let response = r#"[{"location":["response","body"],"severity":"Error","message":"No."}]"#;
        let warning = r#"[{"location":["request","query"],"severity":"Warning","message":"Old."}]"#;
        assert!(matches!(verdict(request, "{}"), Verdict::Refused(one) if one.told == "No."));
        assert!(matches!(verdict(response, "{}"), Verdict::Taken));
        assert!(matches!(verdict(warning, "{}"), Verdict::Taken));
        let cut = format!("Too many violations! {}", &request[..40]);
        assert!(matches!(verdict(&cut, ""), Verdict::Refused(_)));
        assert!(matches!(verdict("", ""), Verdict::Taken));
        let problem =
            r#"{"type": "https://stoplight.io/prism/errors#VIOLATIONS", "detail": "No."}"#;
        assert!(matches!(verdict(response, problem), Verdict::Unanswered(_)));
        assert!(matches!(verdict(request, problem), Verdict::Refused(_)));
        let problem = problem.replace("VIOLATIONS", "NO_PATH_MATCHED_ERROR");
        assert!(matches!(verdict("", &problem), Verdict::Refused(one) if one.told == "No."));
    }
}
