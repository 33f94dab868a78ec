//! Two executors on one PostgreSQL database, as an operator sets them up, and one of them is killed or
//! stopped in the middle of its runs. They use the server of `A2S_TEST_POSTGRES_URL`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{Request, State};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::{PostgresDatabase, fixture_document, http_step};
use tokio::sync::watch;

use crate::harness::{RUNTIME, Server, serve};
use crate::http;
use crate::postgres::create_database;
use crate::test_servers::Postgres;

const TOKEN: &str = "of-the-owner";
/// Executors show it to the registry.
const SERVICE: &str = "of-services";
/// Long enough that a busy machine keeps its leases, short enough to wait for.
const LEASE: &str = "lease=5s";

/// A service that takes orders, tells rates and takes notes, and holds back some of its answers.
struct Service {
    url: String,
    /// How often each request has come, by method and path.
    counts: watch::Receiver<BTreeMap<String, usize>>,
    /// Which requests are held back.
    held: watch::Sender<fn(&str) -> bool>,
}

#[derive(Clone)]
struct Shared {
    counts: Arc<watch::Sender<BTreeMap<String, usize>>>,
    held: watch::Receiver<fn(&str) -> bool>,
}

impl Service {
    fn start(held: fn(&str) -> bool) -> Self {
        let (tell, counts) = watch::channel(BTreeMap::new());
        let (hold, held) = watch::channel(held);
        let shared = Shared { counts: Arc::new(tell), held };
        let router = axum::Router::new().fallback(Self::answer).with_state(shared);
        let url = serve(router);
        Self { url, counts, held: hold }
    }

    async fn answer(State(mut shared): State<Shared>, request: Request) -> Json<Value> {
        let line = format!("{} {}", request.method(), request.uri().path());
        shared.counts.send_modify(|counts| *counts.entry(line.clone()).or_default() += 1);
        // Whoever holds it lets it go by holding less.
        let _ = shared.held.wait_for(|held| !held(&line)).await;
        Json(json!({ "value": line }))
    }

    /// Waits until so many different requests have come that are of this kind.
    fn wait_for(&mut self, kind: impl Fn(&str) -> bool, number: usize) {
        let enough = |counts: &BTreeMap<String, usize>| {
            counts.keys().filter(|line| kind(line)).count() >= number
        };
        RUNTIME.block_on(self.counts.wait_for(enough)).unwrap();
    }

    fn count(&self, line: &str) -> usize {
        self.counts.borrow().get(line).copied().unwrap_or_default()
    }

    fn hold(&self, held: fn(&str) -> bool) {
        self.held.send_replace(held);
    }
}

/// The number at the end of a request.
fn number_of(line: &str) -> usize {
    line.rsplit('/').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

fn document() -> String {
    let step = |id: &str, call: &str| {
        http_step("shop.example", id, call, json!({"n": "${n}"}), json!({id: "$.value"}))
    };
    let steps = json!([
        step("order", "POST /orders/{n}"),
        step("rate", "GET /rates/{n}"),
        step("note", "POST /notes/{n}"),
    ]);
    let members = json!({
        "description": "Orders, asks for a rate and notes it",
        "domains": ["shop.example"],
        "execution": {"type": "sequence", "steps": steps},
    });
    fixture_document("Shop", &members)
}

/// A registry and executors on one database.
struct Shop {
    folder: TempDir,
    /// The address of the executors' database.
    database: String,
    registry: Server,
    upstream: String,
    _database: Option<PostgresDatabase>,
}

impl Shop {
    /// None without a server.
    fn open(service: &Service) -> Option<Self> {
        let database = create_database()?;
        let address = database.address.as_str();
        let shop = Self::with(service, address, &["--database", address]);
        Some(Self { _database: Some(database), ..shop })
    }

    /// With executors on a database, and a registry that may keep its documents elsewhere.
    fn with(service: &Service, database: &str, registry: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let flags = [&["--token", TOKEN, "--service-token", SERVICE][..], registry].concat();
        let registry = Server::alone("registry", folder.path().join("registry"), &flags);
        let path = folder.path().join("shop.json");
        std::fs::write(&path, document()).unwrap();
        registry.a2s(&["publish", path.to_str().unwrap()]).exits(0);
        let upstream = format!("shop.example={}", service.url);
        Self { folder, database: database.to_owned(), registry, upstream, _database: None }
    }

    fn executor(&self, name: &str) -> Server {
        self.executor_with(name, &[])
    }

    fn executor_with(&self, name: &str, more: &[&str]) -> Server {
        let data = self.folder.path().join(name);
        write_key(&data);
        let flags = [
            "--token",
            TOKEN,
            "--database",
            &self.database,
            "--registry",
            self.registry.url(),
            "--registry-token",
            SERVICE,
            "--guardian",
            "off",
            "--upstream",
            &self.upstream,
            "--limit",
            LEASE,
            "--host-limit",
            "max-concurrency=1000",
        ];
        let log = self.folder.path().join(format!("{name}.log"));
        Server::alone_logging("executor", data, &[&flags[..], more].concat(), &log)
    }
}

/// What one executor has sealed the others have to open.
fn write_key(data: &Path) {
    std::fs::create_dir_all(data).unwrap();
    let key = data.join("secrets.key");
    std::fs::write(&key, "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\n").unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
}

fn send(executor: &Server, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    send_as(TOKEN, executor, method, path, body)
}

fn send_as(
    token: &str,
    executor: &Server,
    method: &str,
    path: &str,
    body: Option<Value>,
) -> (u16, Value) {
    let token = format!("Bearer {token}");
    let headers = [("authorization", token.as_str()), ("content-type", "application/json")];
    let url = format!("{}v1/executions{path}", executor.url());
    let (status, answer) = http::send(method, &url, &headers, body.map(|body| body.to_string()));
    (status, serde_json::from_str(&answer).unwrap_or(Value::String(answer)))
}

fn start(executor: &Server, n: usize) -> String {
    start_as(TOKEN, executor, n)
}

fn start_as(token: &str, executor: &Server, n: usize) -> String {
    let body = json!({"name": "Shop", "inputs": {"n": n.to_string()}});
    let (status, run) = send_as(token, executor, "POST", "", Some(body));
    assert_eq!(status, 202, "{run}");
    run["id"].as_str().unwrap().to_owned()
}

/// A run once nothing more happens in it by itself.
fn rest(executor: &Server, run: &str) -> Value {
    // The stream ends then.
    let (status, told) = send(executor, "GET", &format!("/{run}/events"), None);
    assert_eq!(status, 200, "{told}");
    send(executor, "GET", &format!("/{run}"), None).1
}

/// Which runs wait for a person when nothing more happens by itself; all others have ended well.
fn rest_all(executor: &Server, ids: &[String]) -> Vec<usize> {
    let mut waiting = Vec::new();
    for (n, id) in ids.iter().enumerate() {
        let run = rest(executor, id);
        if run["status"] == "waiting" {
            assert_eq!(run["error"]["step"], "note", "{run}");
            waiting.push(n);
        } else {
            assert_eq!(run["status"], "succeeded", "{run}");
        }
    }
    waiting
}

/// Says of runs that wait that their note was taken; they end well.
fn decide(executor: &Server, ids: &[String], waiting: Vec<usize>) {
    for n in waiting {
        let path = format!("/{}/resume", ids[n]);
        let body = json!({"decision": "set", "outputs": {"note": "it has it"}});
        let (status, run) = send(executor, "POST", &path, Some(body));
        assert_eq!(status, 202, "{run}");
        let run = rest(executor, &ids[n]);
        assert_eq!(run["status"], "succeeded", "{run}");
    }
}

/// Runs go on through two executors, and one is killed when all of them are in the middle: some read,
/// some write. Gives the time from there until all are over.
fn kill_one_of_two(runs: usize) -> Option<std::time::Duration> {
    let is_rate = |line: &str| line.contains("/rates/");
    let is_note = |line: &str| line.contains("/notes/");
    let mut service = Service::start(|line| line.contains("/rates/"));
    let shop = Shop::open(&service)?;
    let (one, other) = (shop.executor("one"), shop.executor("other"));
    let ids: Vec<String> =
        (0..runs).map(|n| start(if n % 2 == 0 { &one } else { &other }, n)).collect();
    service.wait_for(is_rate, runs);
    // Every third goes on to a write, which is not answered.
    service.hold(|line| match number_of(line) % 3 {
        0 => line.contains("/notes/"),
        _ => line.contains("/rates/"),
    });
    service.wait_for(is_note, runs.div_ceil(3));
    one.signal("KILL");
    drop(one);
    let killed = Instant::now();
    service.hold(|_| false);

    let waiting = rest_all(&other, &ids);
    let took = killed.elapsed();
    // What the one that died had written and never heard of; nothing else needs a person.
    let in_doubt: Vec<_> = (0..runs).filter(|n| n % 6 == 0).collect();
    assert_eq!(waiting, in_doubt);
    decide(&other, &ids, waiting);
    for n in 0..runs {
        assert_eq!(service.count(&format!("POST /orders/{n}")), 1, "order {n}");
        assert_eq!(service.count(&format!("POST /notes/{n}")), 1, "note {n}");
        // A read that the dead one had sent is sent again.
        let expected = if n % 2 == 0 && n % 3 != 0 { 2 } else { 1 };
        assert_eq!(service.count(&format!("GET /rates/{n}")), expected, "rate {n}");
    }
    let mut different = ids;
    different.sort();
    different.dedup();
    assert_eq!(different.len(), runs);
    Some(took)
}

#[test]
fn runs_of_a_killed_executor_go_on_in_another() {
    kill_one_of_two(12);
}

/// `A2S_TEST_POSTGRES_URL=… cargo test --test it -- --ignored --nocapture two_hundred`
#[test]
#[ignore = "takes long; docs/operations.md has its figures"]
fn two_hundred_runs_go_on_when_one_of_two_executors_is_killed() {
    if let Some(took) = kill_one_of_two(200) {
        eprintln!("200 runs, one of two executors killed: all at rest after {took:?}");
    }
}

/// Waits until the end of the order is on the disk. Without it, a takeover leaves the order to a person.
fn wait_for_order(executor: &Server, id: &str) {
    while send(executor, "GET", &format!("/{id}"), None).1["steps"][0]["status"] != "succeeded" {
        std::thread::yield_now();
    }
}

#[test]
fn stopped_executor_writes_nothing_after_takeover() {
    let mut service = Service::start(|line| line.contains("/rates/"));
    let Some(shop) = Shop::open(&service) else { return };
    let (one, other) = (shop.executor("one"), shop.executor("other"));
    let id = start(&one, 7);
    service.wait_for(|line| line == "GET /rates/7", 1);
    wait_for_order(&one, &id);
    one.signal("STOP");
    // The other one asks again, when the lease has run out.
    let again = |counts: &BTreeMap<String, usize>| counts.get("GET /rates/7") == Some(&2);
    RUNTIME.block_on(service.counts.wait_for(again)).unwrap();
    service.hold(|_| false);
    let run = rest(&other, &id);
    assert_eq!(run["status"], "succeeded", "{run}");
    one.signal("CONT");
    // It gets the answer that it had asked for, and is idle when it has let go of the run.
    one.stop();
    assert_eq!(service.count("POST /notes/7"), 1);
    assert_eq!(send(&other, "GET", &format!("/{id}"), None).1, run);
}

#[test]
fn queued_runs_start_fairly_on_any_executor() {
    let mut service = Service::start(|line| line.contains("/rates/"));
    let Some(shop) = Shop::open(&service) else { return };
    let made = shop.registry.a2s(&["tokens", "create", "ci", "--scope", "execute", "--json"]);
    let made = made.exits(0).one();
    let ci = made["token"].as_str().unwrap();
    let alone = ["--limit", "max-runs=1"];
    let (one, other) = (shop.executor_with("one", &alone), shop.executor_with("other", &alone));
    let mut ids: Vec<String> = (0..6).map(|n| start(&one, n)).collect();
    // The first has the place of the one, and the second that of the other.
    service.wait_for(|line| line.contains("/rates/"), 2);
    ids.push(start_as(ci, &one, 6));
    assert_eq!(send(&other, "GET", &format!("/{}", ids[6]), None).1["status"], "queued");
    service.hold(|line| line.contains("/rates/") && number_of(line) != 0);
    // What has come last comes next, as its tenant has nothing else.
    service.wait_for(|line| line == "GET /rates/6", 1);
    assert_eq!((2..6).map(|n| service.count(&format!("POST /orders/{n}"))).sum::<usize>(), 0);
    wait_for_order(&one, &ids[6]);
    one.signal("KILL");
    drop(one);
    service.hold(|_| false);
    for (n, id) in ids.iter().enumerate() {
        let run = rest(&other, id);
        assert_eq!(run["status"], "succeeded", "{run}");
        assert_eq!(run["tenant"], if n == 6 { "ci" } else { "owner" });
        assert_eq!(service.count(&format!("POST /orders/{n}")), 1, "order {n}");
        assert_eq!(service.count(&format!("POST /notes/{n}")), 1, "note {n}");
    }
}

#[test]
fn unrecorded_request_is_not_sent() {
    const RUNS: usize = 12;
    // It is stopped, so it cannot be that of other tests.
    let (Some(_), Some(postgres)) = (create_database(), Postgres::start()) else { return };
    let is_note = |line: &str| line.contains("/notes/");
    let mut service = Service::start(|line| line.contains("/rates/"));
    // The registry is there all the time.
    let shop = Shop::with(&service, postgres.url(), &[]);
    let executors = [shop.executor("one"), shop.executor("other")];
    let ids: Vec<String> = (0..RUNS).map(|n| start(&executors[n % 2], n)).collect();
    service.wait_for(|line| line.contains("/rates/"), RUNS);
    // Every third has a write under way.
    service.hold(|line| match number_of(line) % 3 {
        0 => line.contains("/notes/"),
        _ => line.contains("/rates/"),
    });
    service.wait_for(is_note, RUNS.div_ceil(3));
    postgres.stop();
    // Everything is answered, and nothing of it can be written down.
    service.hold(|_| false);
    let body = json!({"name": "Shop", "inputs": {"n": "refused"}});
    let read = format!("/{}", ids[0]);
    std::thread::scope(|scope| {
        for executor in &executors {
            for (method, path, body) in
                [("POST", "", Some(body.clone())), ("GET", read.as_str(), None)]
            {
                scope.spawn(move || {
                    let (status, problem) = send(executor, method, path, body);
                    assert_eq!((status, &problem["code"]), (503, &json!("A2S394")), "{problem}");
                });
            }
        }
    });
    assert_eq!(service.count("POST /orders/refused"), 0);
    let noted = |n: &usize| service.count(&format!("POST /notes/{n}")) > 0;
    assert_eq!((0..RUNS).filter(noted).collect::<Vec<_>>(), [0, 3, 6, 9]);
    postgres.start_again();

    // Those need a person whose write had an answer that could not be written down, and no others.
    let waiting = rest_all(&executors[0], &ids);
    assert!(waiting.iter().all(|n| n % 3 == 0), "{waiting:?}");
    decide(&executors[1], &ids, waiting);
    for n in 0..RUNS {
        assert_eq!(service.count(&format!("POST /orders/{n}")), 1, "order {n}");
        assert_eq!(service.count(&format!("POST /notes/{n}")), 1, "note {n}");
    }
}
