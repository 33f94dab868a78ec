//! `a2s mirror`: a copy of another registry, whatever happens on the way.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use registry::{App, Config, Secret};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::harness::{RUNTIME, Ran, a2s_in, command};
use crate::http;

const TOKEN: &str = "the owner's token";

/// An empty registry behind a listener. It stops when it is dropped.
struct Bare {
    url: String,
    server: JoinHandle<()>,
    _folder: TempDir,
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn serve(router: Router) -> (String, JoinHandle<()>) {
    RUNTIME.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (url, server)
    })
}

impl Bare {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = Config::in_folder(folder.path(), Some(Secret::new(TOKEN)));
        let clock: registry::Clock = Arc::new(|| "2026-03-01T12:00:00Z".parse().unwrap());
        let mut metrics = prometheus_client::registry::Registry::default();
        let app = RUNTIME.block_on(App::open(config, clock, &mut metrics)).unwrap();
        let (url, server) = serve(app.router());
        Self { url, server, _folder: folder }
    }

    fn send(&self, method: &str, path: &str, kind: &str, body: String) -> Value {
        let authorization = format!("Bearer {TOKEN}");
        let headers = [("authorization", &*authorization), ("content-type", kind)];
        let url = format!("{}v1/capabilities{path}", self.url);
        let (status, answer) = http::send(method, &url, &headers, Some(body));
        assert!((200..300).contains(&status), "{status} {answer}");
        serde_json::from_str(&answer).unwrap()
    }

    /// A token for a mirror.
    fn token(&self, name: &str, scopes: &[&str]) -> String {
        let authorization = format!("Bearer {TOKEN}");
        let headers = [("authorization", &*authorization), ("content-type", "application/json")];
        let request = json!({"name": name, "scopes": scopes}).to_string();
        let url = format!("{}v1/tokens", self.url);
        let (status, answer) = http::send("POST", &url, &headers, Some(request));
        assert_eq!(status, 201, "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["token"].as_str().unwrap().to_owned()
    }

    fn publish(&self, name: &str, version: &str) {
        self.send("POST", "", "application/yaml", document(name, version));
    }

    fn turn(&self, target: &str, verb: &str) {
        self.send("POST", &format!("/{target}/{verb}"), "application/json", "{}".to_owned());
    }

    /// Every change in order, without what only this registry knows.
    fn changes(&self) -> Vec<Value> {
        let (status, body) = http::get(&format!("{}v1/changes?limit=1000", self.url), &[]);
        assert_eq!(status, 200);
        let page: Value = serde_json::from_str(&body).unwrap();
        let told = ["action", "name", "version", "checksum", "deprecated"];
        let changes = page["changes"].as_array().unwrap().iter();
        changes.map(|c| told.iter().map(|key| c[*key].clone()).collect()).collect()
    }

    /// Something of everything: 25 changes.
    fn busy() -> Self {
        let source = Self::new();
        for number in 0..10 {
            source.publish(&format!("Tool{number}"), "1.0.0");
        }
        for number in 0..5 {
            source.publish(&format!("Tool{number}"), "1.1.0");
            source.turn(&format!("Tool{number}/1.1.0"), "yank");
        }
        source.turn("Tool0/1.1.0", "unyank");
        source.turn("Tool9/1.0.0", "deprecate");
        source.turn("Tool0/1.1.0", "yank");
        source.publish("Tool0", "1.2.0");
        let undo = json!({"undo": true}).to_string();
        source.send("POST", "/Tool9/1.0.0/deprecate", "application/json", undo);
        assert_eq!(source.changes().len(), 25);
        source
    }
}

fn document(name: &str, version: &str) -> String {
    let draft = format!(
        r#"{{"a2s": "1.0.0", "name": "{name}", "description": "Tells about {name}", "domains":
        ["api.example.com"], "version": "{version}", "checksum": "<sha256>", "authors": [{{"name":
        "Test"}}], "execution": {{"type": "sequence", "steps": [{{"id": "ask", "format": "OpenAPI",
        "task": {{"openapi": "3.0.1", "info": {{"title": "T", "version": "1"}}, "servers": [{{"url":
        "https://api.example.com"}}], "paths": {{"/": {{"get": {{"responses": {{"200":
        {{"description": "x"}}}}}}}}}}}}, "output_mapping": {{"answer": "$.data"}}}}]}}}}"#
    );
    let digest = a2s::compile(draft.as_bytes()).digest.unwrap();
    draft.replace("<sha256>", &digest.to_string())
}

/// Where a mirror remembers how far it came, and where it copies to.
struct Mirror<'t> {
    data: TempDir,
    target: &'t Bare,
    token: String,
}

impl<'t> Mirror<'t> {
    fn into(target: &'t Bare) -> Self {
        Self::named("mirror", target)
    }

    /// With a token of this name.
    fn named(name: &str, target: &'t Bare) -> Self {
        let token = target.token(name, &["publish"]);
        Self { data: tempfile::tempdir().unwrap(), target, token }
    }

    fn environment(&self) -> [(&str, &str); 3] {
        let data = self.data.path().to_str().unwrap();
        [("A2S_URL", &self.target.url), ("A2S_DATA_DIR", data), ("A2S_TOKEN", &self.token)]
    }

    fn run(&self, source: &str, flags: &[&str]) -> Ran {
        let arguments = [&["mirror", source][..], flags].concat();
        a2s_in(self.data.path(), &self.environment(), &arguments)
    }

    /// What it all came to: made, unchanged and refused.
    #[track_caller]
    fn once(&self, source: &str, exit: i32) -> [u64; 3] {
        let ran = self.run(source, &["--once", "--json"]).exits(exit);
        let all = ran.json();
        let all = all.iter().find(|line| line["made"].is_number()).unwrap();
        ["made", "unchanged", "refused"].map(|key| all[key].as_u64().unwrap())
    }
}

#[test]
fn a_mirror_has_what_the_other_registry_has_in_the_same_order() {
    let (source, target) = (Bare::busy(), Bare::new());
    let mirror = Mirror::into(&target);
    assert_eq!(mirror.once(&source.url, 0), [25, 0, 0]);
    assert_eq!(target.changes(), source.changes());
    // Nothing is left to do; and everything again changes nothing but back and forth.
    assert_eq!(mirror.once(&source.url, 0), [0, 0, 0]);
    source.publish("Late", "1.0.0");
    assert_eq!(mirror.once(&source.url, 0), [1, 0, 0]);
    assert_eq!(target.changes(), source.changes());
    let shown = mirror.run(&source.url, &["--once"]).exits(0);
    assert!(shown.stdout.contains("0 made, 0 unchanged, 0 refused"), "{shown:?}");
    // A mirror of the mirror is the same.
    let third = Bare::new();
    assert_eq!(Mirror::into(&third).once(&target.url, 0), [26, 0, 0]);
    assert_eq!(third.changes(), source.changes());
}

#[test]
fn a_mirror_that_stops_half_way_goes_on_there() {
    let (source, target) = (Bare::busy(), Bare::new());
    let mirror = Mirror::into(&target);
    for _ in 0..3 {
        let ran = mirror.run(&source.url, &["--once", "--most", "7", "--json"]).exits(1);
        assert!(ran.stdout.contains("stopped after 7 changes"), "{ran:?}");
    }
    assert_eq!(target.changes().len(), 21);
    assert_eq!(mirror.once(&source.url, 0), [4, 0, 0]);
    assert_eq!(target.changes(), source.changes());
}

#[test]
fn killed_mirror_loses_and_repeats_nothing() {
    let (source, target) = (Bare::busy(), Bare::new());
    let mirror = Mirror::into(&target);
    for lines in [1, 4, 2, 6, 3] {
        let mut child = command(&mirror.environment())
            .args(["mirror", &source.url, "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        for _ in 0..lines {
            stdout.next().unwrap().unwrap();
        }
        // As a power cut would: wherever it is now.
        child.kill().unwrap();
        child.wait().unwrap();
    }
    mirror.once(&source.url, 0);
    assert_eq!(target.changes(), source.changes());
}

#[test]
fn a_mirror_follows_what_happens_and_outlives_its_source() {
    let (source, target) = (Bare::new(), Bare::new());
    source.publish("First", "1.0.0");
    let mirror = Mirror::into(&target);
    let mut child = command(&mirror.environment())
        .args(["mirror", &source.url, "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut told = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!((&told()["name"], target.changes().len()), (&json!("First"), 1));
    source.publish("Second", "1.0.0");
    assert_eq!(told()["name"], "Second");
    source.turn("First/1.0.0", "yank");
    let line = told();
    assert_eq!((&line["action"], &line["result"]), (&json!("yank"), &json!("made")));
    assert_eq!(target.changes(), source.changes());
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(child.wait().unwrap().success());
}

#[test]
fn mirror_copies_a_replaced_source_from_the_start() {
    let target = Bare::new();
    let mirror = Mirror::into(&target);
    let other = Arc::new(Mutex::new("one"));
    let feed = Arc::clone(&other);
    let page = async move || {
        let feed = *feed.lock().unwrap();
        axum::Json(
            json!({"feed": feed, "changes": [change(1, "Same")], "next": 1, "has_more": false}),
        )
    };
    let router = Router::new()
        .route("/v1/changes", get(page))
        .route("/v1/capabilities/{name}/{version}", get(good_document));
    let (url, _server) = serve(router);
    // Its pages do not even begin behind what was asked for; that is not followed twice.
    assert_eq!(mirror.once(&url, 0), [1, 0, 0]);
    assert_eq!(mirror.run(&url, &["--once"]).exits(1).stdout.lines().count(), 1);
    *other.lock().unwrap() = "another";
    assert_eq!(mirror.once(&url, 0), [0, 1, 0]);
}

/// A change of a hostile registry.
fn change(seq: u64, name: &str) -> Value {
    let digest = a2s::compile(document(name, "1.0.0").as_bytes()).digest.unwrap();
    json!({
        "seq": seq, "at": "2026-03-01T12:00:00Z", "action": "publish", "name": name,
        "version": "1.0.0", "checksum": digest,
    })
}

async fn good_document(Path((name, version)): Path<(String, String)>) -> String {
    document(&name, &version)
}

/// How a registry can be hostile in its documents.
async fn bad_document(Path((name, _)): Path<(String, String)>) -> Response {
    match name.as_str() {
        // Not what the feed said.
        "Changed" => document(&name, "1.0.0").replace("Tells about", "Sells").into_response(),
        // Resealed, so that it fits itself.
        "Resealed" => {
            let text = document(&name, "1.0.0").replace("Tells about", "Sells");
            let (before, rest) = text.split_once("\"checksum\": \"").unwrap();
            let draft = format!("{before}\"checksum\": \"<sha256>{}", &rest[71..]);
            let digest = a2s::compile(draft.as_bytes()).digest.unwrap();
            draft.replace("<sha256>", &digest.to_string()).into_response()
        }
        "Another" => document("Good", "1.0.0").into_response(),
        "Huge" => "# x\n".repeat(1 << 20).into_response(),
        "Deep" => "[".repeat(500_000).into_response(),
        "Gone" => axum::http::StatusCode::NOT_FOUND.into_response(),
        "Binary" => vec![0_u8; 1000].into_response(),
        _ => document(&name, "1.0.0").into_response(),
    }
}

#[test]
fn what_is_not_what_it_was_said_to_be_is_refused_and_told() {
    let target = Bare::new();
    let names =
        ["Changed", "Good", "Resealed", "Another", "Huge", "Deep", "Gone", "Binary", "Fine"];
    let changes: Vec<_> = (1..).zip(names).map(|(seq, name)| change(seq, name)).collect();
    let mut changes = changes;
    // What was never published cannot be yanked either.
    let mut yank = change(10, "Changed");
    yank["action"] = json!("yank");
    changes.push(yank);
    let page = async move |Query(query): Query<Value>| {
        let since: u64 = query["since"].as_str().unwrap().parse().unwrap();
        let behind: Vec<_> =
            changes.iter().filter(|c| since < c["seq"].as_u64().unwrap()).collect();
        axum::Json(json!({"feed": "f", "changes": behind, "next": 10, "has_more": false}))
    };
    let router = Router::new()
        .route("/v1/changes", get(page))
        .route("/v1/capabilities/{name}/{version}", get(bad_document));
    let (url, _server) = serve(router);
    let mirror = Mirror::into(&target);
    let ran = mirror.run(&url, &["--once", "--json"]).exits(1);
    let lines = ran.json();
    let refused: Vec<_> = lines.iter().filter(|line| line["result"] == "refused").collect();
    let named: Vec<_> = refused.iter().map(|line| line["name"].as_str().unwrap()).collect();
    assert_eq!(
        named,
        ["Changed", "Resealed", "Another", "Huge", "Deep", "Gone", "Binary", "Changed"],
        "{ran:?}"
    );
    assert!(refused.iter().all(|line| !line["why"].as_str().unwrap().is_empty()));
    assert!(refused[1]["why"].as_str().unwrap().contains("its data was changed"), "{ran:?}");
    assert!(refused[3]["why"].as_str().unwrap().contains("more than 2097152 bytes"), "{ran:?}");
    let copied: Vec<_> = target.changes().iter().map(|change| change[1].clone()).collect();
    assert_eq!(copied, ["Good", "Fine"]);
    // It is not asked again and again for what it does not have, unless somebody wants that.
    assert_eq!(mirror.once(&url, 0), [0, 0, 0]);
    let again = mirror.run(&url, &["--once", "--again", "--json"]).exits(1);
    assert!(again.stdout.contains("\"unchanged\":2"), "{again:?}");
}

/// A registry whose feed is these changes, and the changes, to be added to. It stops with the tests.
fn feeding(changes: Vec<Value>) -> (String, Arc<Mutex<Vec<Value>>>) {
    let changes = Arc::new(Mutex::new(changes));
    let fed = Arc::clone(&changes);
    let page = async move |Query(query): Query<Value>| {
        let since: u64 = query["since"].as_str().unwrap().parse().unwrap();
        let fed = fed.lock().unwrap();
        let behind: Vec<_> = fed.iter().filter(|c| since < c["seq"].as_u64().unwrap()).collect();
        axum::Json(json!({"feed": "f", "changes": behind, "next": 99, "has_more": false}))
    };
    let router = Router::new()
        .route("/v1/changes", get(page))
        .route("/v1/capabilities/{name}/{version}", get(good_document));
    (serve(router).0, changes)
}

fn other_change(seq: u64, action: &str, name: &str, version: &str) -> Value {
    let digest = a2s::compile(document(name, version).as_bytes()).digest.unwrap();
    let mut change = json!({
        "seq": seq, "at": "2026-03-01T12:00:00Z", "action": action, "name": name,
        "version": version, "checksum": digest,
    });
    if action == "deprecate" {
        change["deprecated"] = json!({"message": "use ours"});
    }
    change
}

#[test]
fn mirror_source_changes_only_its_own_versions() {
    let target = Bare::new();
    target.publish("GetJoke", "1.0.0");
    target.publish("Weather", "1.0.0");
    let (url, feed) = feeding(vec![
        other_change(1, "publish", "GetJoke", "99.0.0"),
        other_change(2, "yank", "Weather", "1.0.0"),
        other_change(3, "deprecate", "GetJoke", "1.0.0"),
        other_change(4, "publish", "Weather", "1.0.0"),
        other_change(5, "yank", "Weather", "1.0.0"),
        other_change(6, "publish", "Theirs", "1.0.0"),
        other_change(7, "publish", "Theirs", "1.1.0"),
        other_change(8, "yank", "Theirs", "1.0.0"),
        other_change(9, "deprecate", "Theirs", "1.1.0"),
    ]);
    let mirror = Mirror::into(&target);
    let ran = mirror.run(&url, &["--once", "--json"]).exits(1);
    let lines = ran.json();
    let refused = lines.iter().filter(|line| line["result"] == "refused");
    let refused: Vec<_> =
        refused.map(|line| [&line["action"], &line["name"]].map(|v| v.as_str().unwrap())).collect();
    let expected = [
        ["publish", "GetJoke"],
        ["yank", "Weather"],
        ["deprecate", "GetJoke"],
        ["yank", "Weather"],
    ];
    assert_eq!(refused, expected, "{ran:?}");
    let why = lines.iter().find_map(|line| line["why"].as_str()).unwrap();
    assert!(why.contains("was published here"), "{why}");
    let changes: Vec<_> = target.changes().iter().map(|c| format!("{} {}", c[0], c[1])).collect();
    let ours = [r#""publish" "GetJoke""#, r#""publish" "Weather""#];
    let theirs = [r#""publish" "Theirs""#; 2];
    let after = [r#""yank" "Theirs""#, r#""deprecate" "Theirs""#];
    assert_eq!(changes, [&ours[..], &theirs, &after].concat());

    // Another source does not change what the first has created, even with the same token.
    let (other, _) = feeding(vec![
        other_change(1, "publish", "Theirs", "2.0.0"),
        other_change(2, "unyank", "Theirs", "1.0.0"),
    ]);
    assert_eq!(mirror.once(&other, 1), [0, 0, 2]);
    // Nor does the source change what its name's owners have published here since.
    target.publish("Theirs", "1.2.0");
    feed.lock().unwrap().push(other_change(10, "yank", "Theirs", "1.2.0"));
    assert_eq!(mirror.once(&url, 1), [0, 0, 1]);
}

#[test]
fn a_mirror_is_given_no_token_that_owns_the_names_of_others() {
    let (source, target) = (Bare::new(), Bare::new());
    source.publish("First", "1.0.0");
    let admin = target.token("root", &["publish", "admin"]);
    for token in [TOKEN.to_owned(), admin] {
        let mirror = Mirror { data: tempfile::tempdir().unwrap(), target: &target, token };
        let ran = mirror.run(&source.url, &["--once"]).exits(1);
        assert!(ran.stderr.contains("A2S217"), "{ran:?}");
        assert!(ran.stderr.contains("a2s tokens create mirror --scope publish"), "{ran:?}");
    }
    assert_eq!(target.changes(), [] as [Value; 0]);
}

/// How a registry can be hostile in its feed.
#[derive(Clone, Copy)]
enum Feed {
    Endless,
    Backwards,
    Empty,
    Renamed,
    Crowded,
    Garbage,
}

async fn bad_feed(State(feed): State<Feed>, Query(query): Query<Value>) -> Response {
    static CALLS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let since: u64 = query["since"].as_str().unwrap().parse().unwrap();
    let page = |name: &str, seqs: &[u64], more: bool| {
        let changes: Vec<_> = seqs.iter().map(|seq| change(*seq, "Good")).collect();
        axum::Json(json!({"feed": name, "changes": changes, "next": 7, "has_more": more}))
            .into_response()
    };
    match feed {
        Feed::Endless => page("f", &[since + 1, since + 2], true),
        Feed::Backwards => page("f", &[since + 2, since + 1], true),
        Feed::Empty => page("f", &[], true),
        Feed::Renamed => {
            let call = CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            page(&format!("f{call}"), &[], true)
        }
        Feed::Crowded => page("f", &(since + 1..since + 300).collect::<Vec<_>>(), false),
        Feed::Garbage => "<html>".into_response(),
    }
}

#[test]
fn a_feed_that_leads_nowhere_is_left() {
    for (feed, words) in [
        (Feed::Endless, "stopped after 40 changes"),
        (Feed::Backwards, "returned changes in the wrong order"),
        (Feed::Empty, "returned an invalid page of changes"),
        (Feed::Renamed, "returned an invalid name of its feed"),
        (Feed::Crowded, "returned an invalid page of changes"),
        (Feed::Garbage, "sent an invalid response"),
    ] {
        let target = Bare::new();
        let router = Router::new()
            .route("/v1/changes", get(bad_feed))
            .route("/v1/capabilities/{name}/{version}", get(good_document))
            .with_state(feed);
        let (url, _server) = serve(router);
        let ran = Mirror::into(&target).run(&url, &["--once", "--most", "40"]).exits(1);
        assert!(ran.stderr.contains(words), "{words}: {ran:?}");
        assert!(target.changes().len() <= 1, "{words}");
    }
}

#[test]
fn a_mirror_says_what_it_lacks() {
    let (source, target) = (Bare::busy(), Bare::new());
    let mirror = Mirror::into(&target);
    // No such source, no such target, no token that opens the target, and itself.
    mirror.run("http://127.0.0.1:1/", &["--once"]).exits(4);
    let data = mirror.data.path().to_str().unwrap();
    let away = [("A2S_URL", "http://127.0.0.1:1/"), ("A2S_DATA_DIR", data), ("A2S_TOKEN", TOKEN)];
    a2s_in(mirror.data.path(), &away, &["mirror", &source.url, "--once"]).exits(4);
    let shut = [("A2S_URL", &*target.url), ("A2S_DATA_DIR", data), ("A2S_TOKEN", "wrong")];
    let ran = a2s_in(mirror.data.path(), &shut, &["mirror", &source.url, "--once"]).exits(1);
    assert!(ran.stderr.contains("A2S207"), "{ran:?}");
    mirror.run(&target.url, &["--once"]).exits(2);
    // None of that has counted as done.
    assert_eq!(mirror.once(&source.url, 0), [25, 0, 0]);
}
