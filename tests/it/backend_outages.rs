//! Two registries on one PostgreSQL and one Qdrant, under load while one of them is killed and started
//! again, and each of the servers goes away and comes back: whatever was acknowledged is there, and
//! whatever was refused was refused clearly.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

use crate::harness::{RUNTIME, Server};
use crate::metric_samples::{End, Registry, hit, name};
use crate::test_servers::{Postgres, Qdrant};

const TOKEN: &str = "of-the-owner";
const REPLICAS: usize = 2;
/// The replica that is killed.
const KILLED: usize = 1;
/// Who asks each replica; each sends its next request when it has an answer, and not sooner than after
/// this pause.
const WORKERS: [Kind; 4] = [Kind::Publish, Kind::Search, Kind::Search, Kind::Outcome];
const PACE: Duration = Duration::from_millis(200);
/// Capabilities that are there before the load, and whose runs are reported.
const REPORTED: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Publish,
    Search,
    Outcome,
}

/// What is going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    AllThere,
    ReplicaKilled,
    NoQdrant,
    QdrantBack,
    NoPostgres,
    PostgresBack,
}

/// In this order.
const STAGES: [Stage; 9] = [
    Stage::AllThere,
    Stage::ReplicaKilled,
    Stage::AllThere,
    Stage::NoQdrant,
    Stage::QdrantBack,
    Stage::AllThere,
    Stage::NoPostgres,
    Stage::PostgresBack,
    Stage::AllThere,
];

impl Stage {
    /// Whether something that is not there explains what came of a request.
    fn explains(self, told: &Told) -> bool {
        match self {
            Self::AllThere => false,
            Self::ReplicaKilled => told.replica == KILLED && matches!(told.came, Came::Silence(_)),
            Self::NoQdrant | Self::QdrantBack => {
                told.kind == Kind::Search && told.came.is_refused(503, "A2S252")
            }
            Self::NoPostgres | Self::PostgresBack => told.came.is_refused(503, "A2S251"),
        }
    }
}

/// How long a stage takes at least: so many answers to requests of each kind by each replica that runs,
/// which were sent in it, and this time.
#[derive(Debug, Clone, Copy)]
struct Least {
    answers: usize,
    time: Duration,
}

/// What came of a request.
#[derive(Debug)]
enum Came {
    Done,
    /// A search found something else.
    Missed,
    Refused(u16, String),
    Silence(#[expect(dead_code, reason = "shown when nothing explains it")] String),
}

impl Came {
    fn is_refused(&self, status: u16, code: &str) -> bool {
        matches!(self, Self::Refused(s, c) if (*s, c.as_str()) == (status, code))
    }

    fn is_answer(&self) -> bool {
        matches!(self, Self::Done | Self::Missed)
    }
}

/// A request and what came of it.
#[derive(Debug)]
struct Told {
    replica: usize,
    kind: Kind,
    number: usize,
    /// When it was sent, and when that came.
    stages: RangeInclusive<usize>,
    took: Duration,
    came: Came,
}

/// What those share who send requests.
struct Load {
    replicas: [RwLock<Registry>; REPLICAS],
    stage: AtomicUsize,
    next: AtomicUsize,
    /// What may be searched for.
    published: Mutex<Vec<usize>>,
}

impl Load {
    fn stage(&self) -> usize {
        self.stage.load(Ordering::SeqCst)
    }

    async fn work(self: Arc<Self>, replica: usize, kind: Kind, tell: mpsc::UnboundedSender<Told>) {
        let mut pace = tokio::time::interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            pace.tick().await;
            // Read before it is known where the replica is.
            let sent = self.stage();
            if sent == STAGES.len() {
                return;
            }
            let registry = self.replicas[replica].read().unwrap().clone();
            let mut number = self.next.fetch_add(1, Ordering::SeqCst);
            let began = Instant::now();
            let end = match kind {
                Kind::Publish => registry.publish(number).await,
                Kind::Search => {
                    number = {
                        let published = self.published.lock().unwrap();
                        published[number % published.len()]
                    };
                    registry.search(number).await
                }
                Kind::Outcome => registry.report(number % REPORTED, run(number)).await,
            };
            let took = began.elapsed();
            let came = match end {
                End::Well(body) if kind == Kind::Search => {
                    match serde_json::from_slice(&body)
                        .is_ok_and(|found| hit(&found, number).is_some())
                    {
                        true => Came::Done,
                        false => Came::Missed,
                    }
                }
                End::Well(_) => Came::Done,
                End::Refused(status, code) => Came::Refused(status, code),
                End::Silence(why) => Came::Silence(why),
            };
            if kind == Kind::Publish && came.is_answer() {
                self.published.lock().unwrap().push(number);
            }
            let stages = sent..=self.stage();
            tell.send(Told { replica, kind, number, stages, took, came }).unwrap();
        }
    }
}

/// The run that is reported under a number.
fn run(number: usize) -> Uuid {
    Uuid::from_u128((1 << 100) + number as u128)
}

/// Two registries with their servers, under load.
struct World {
    load: Arc<Load>,
    workers: JoinSet<()>,
    told: mpsc::UnboundedReceiver<Told>,
    /// What was told so far, and how long each stage took.
    known: Vec<Told>,
    times: Vec<Duration>,
    since: Instant,
    /// The dead are none.
    replicas: Vec<Option<Server>>,
    qdrant: Qdrant,
    postgres: Postgres,
    folder: TempDir,
}

impl World {
    /// None without servers.
    fn open() -> Option<Self> {
        let (qdrant, postgres) = (Qdrant::start("")?, Postgres::start()?);
        let folder = TempDir::new().unwrap();
        let (tell, told) = mpsc::unbounded_channel();
        let start = |replica| Self::start(replica, &folder, &postgres, &qdrant);
        let replicas: Vec<_> = (0..REPLICAS).map(start).collect();
        let urls = [replicas[0].url(), replicas[1].url()];
        let load = Arc::new(Load {
            replicas: urls.map(|url| RwLock::new(Registry::at(url, TOKEN))),
            stage: AtomicUsize::new(0),
            next: AtomicUsize::new(REPORTED),
            published: Mutex::new((0..REPORTED).collect()),
        });
        let first = load.replicas[0].read().unwrap().clone();
        let mut workers = JoinSet::new();
        RUNTIME.block_on(async {
            for number in 0..REPORTED {
                first.publish(number).await.body();
            }
            for replica in 0..REPLICAS {
                for kind in WORKERS {
                    workers.spawn(Arc::clone(&load).work(replica, kind, tell.clone()));
                }
            }
        });
        let replicas = replicas.into_iter().map(Some).collect();
        let (known, times, since) = (Vec::new(), Vec::new(), Instant::now());
        Some(Self { load, workers, told, known, times, since, replicas, qdrant, postgres, folder })
    }

    fn start(replica: usize, folder: &TempDir, postgres: &Postgres, qdrant: &Qdrant) -> Server {
        let data = folder.path().join(format!("replica{replica}"));
        let flags = ["--token", TOKEN, "--database", postgres.url(), "--qdrant", qdrant.url()];
        Server::alone_logging("registry", data, &flags, &log(folder, replica))
    }

    /// Waits until this stage has had its time.
    fn stay(&mut self, least: Least) {
        let began = Instant::now();
        let stage = self.load.stage();
        let kinds = [Kind::Publish, Kind::Search, Kind::Outcome];
        let wanted: BTreeSet<_> = (0..REPLICAS)
            .filter(|replica| self.replicas[*replica].is_some())
            .flat_map(|replica| kinds.map(|kind| (replica, kind)))
            .collect();
        let is_back = matches!(STAGES[stage], Stage::QdrantBack | Stage::PostgresBack);
        let mut counts: BTreeMap<_, usize> = BTreeMap::new();
        let is_over = |counts: &BTreeMap<_, usize>| {
            wanted.iter().all(|one| counts.get(one) >= Some(&least.answers))
        };
        while !is_over(&counts) || began.elapsed() < least.time {
            let told = RUNTIME.block_on(self.told.recv()).unwrap();
            // What was away is back when it is of use again.
            if *told.stages.start() == stage && (!is_back || told.came.is_answer()) {
                *counts.entry((told.replica, told.kind)).or_default() += 1;
            }
            self.known.push(told);
        }
    }

    /// The next stage begins.
    fn go_on(&mut self) {
        self.times.push(self.since.elapsed());
        self.since = Instant::now();
        self.load.stage.fetch_add(1, Ordering::SeqCst);
    }

    fn kill(&mut self) {
        // Dropped, it is killed.
        self.replicas[KILLED] = None;
    }

    fn start_again(&mut self) {
        let server = Self::start(KILLED, &self.folder, &self.postgres, &self.qdrant);
        *self.load.replicas[KILLED].write().unwrap() = Registry::at(server.url(), TOKEN);
        self.replicas[KILLED] = Some(server);
    }

    /// Ends the load.
    fn rest(&mut self) {
        RUNTIME.block_on(async {
            while let Some(ended) = self.workers.join_next().await {
                ended.unwrap();
            }
            while let Ok(told) = self.told.try_recv() {
                self.known.push(told);
            }
        });
    }

    fn registries(&self) -> Vec<Registry> {
        self.load.replicas.iter().map(|registry| registry.read().unwrap().clone()).collect()
    }

    /// Which requests of a kind were acknowledged, and of which nobody knows.
    fn numbers(&self, kind: Kind) -> (BTreeSet<usize>, BTreeSet<usize>) {
        let of_kind = self.known.iter().filter(|told| told.kind == kind);
        let (known, doubtful): (Vec<_>, Vec<_>) = of_kind.partition(|told| told.came.is_answer());
        let numbers = |told: Vec<&Told>| told.iter().map(|told| told.number).collect();
        (numbers(known), numbers(doubtful))
    }
}

impl Drop for World {
    #[expect(clippy::print_stderr, reason = "what a replica has met is gone with its folder")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            for replica in 0..REPLICAS {
                let log = self.log_of(replica);
                let lines: Vec<_> = log.lines().rev().take(100).collect();
                eprintln!("replica {replica}, the last first:\n{}", lines.join("\n"));
            }
        }
    }
}

/// Where a replica writes its log.
fn log(folder: &TempDir, replica: usize) -> PathBuf {
    folder.path().join(format!("replica{replica}.log"))
}

/// Does all of it, and gives a table of what was seen. None without servers.
#[expect(clippy::print_stderr, reason = "what was seen helps to judge what is amiss")]
fn keep_what_was_acknowledged(there: Least, away: Least) -> Option<String> {
    let mut world = World::open()?;
    let back = Least { answers: 1, time: Duration::ZERO };
    world.stay(there);

    world.go_on();
    world.kill();
    world.stay(away);
    world.start_again();
    world.go_on();
    world.stay(there);

    world.go_on();
    world.qdrant.stop();
    world.stay(away);
    world.go_on();
    world.qdrant.start_again();
    world.stay(back);
    world.go_on();
    world.stay(there);

    world.go_on();
    world.postgres.stop();
    world.stay(away);
    world.go_on();
    world.postgres.start_again();
    world.stay(back);
    world.go_on();
    world.stay(there);

    world.go_on();
    world.rest();
    let mut table = world.to_table();
    eprintln!("{table}");
    world.judge_answers();
    let registries = world.registries();
    RUNTIME.block_on(async {
        world.judge_publishing(&registries, &mut table).await;
        world.judge_outcomes(&registries, &mut table).await;
    });
    // What was there is used again, by the one that was killed, and when a server is back.
    let built = |replica| world.log_of(replica).matches("the search index is built").count();
    assert_eq!((0..REPLICAS).map(built).sum::<usize>(), 1, "{table}");
    Some(table)
}

impl World {
    fn log_of(&self, replica: usize) -> String {
        std::fs::read_to_string(log(&self.folder, replica)).unwrap_or_default()
    }

    /// Every answer is a good one, or one that what was away explains; and one came to every request
    /// that was not sent to the dead.
    fn judge_answers(&self) {
        let is_unexplained = |told: &&Told| {
            let stages = STAGES.iter().enumerate().filter(|(at, _)| told.stages.contains(at));
            !told.came.is_answer() && !stages.into_iter().any(|(_, stage)| stage.explains(told))
        };
        let unexplained: Vec<_> = self.known.iter().filter(is_unexplained).collect();
        let some = &unexplained[..unexplained.len().min(20)];
        assert!(some.is_empty(), "{} answers: {some:#?}", unexplained.len());
    }

    /// Everything published that was acknowledged is there, whole, and found, wherever one asks; and
    /// nothing is there that nobody has sent.
    async fn judge_publishing(&self, registries: &[Registry], table: &mut String) {
        // Changes are followed in their order: behind the last one there is nothing to wait for.
        let last = self.load.next.fetch_add(1, Ordering::SeqCst);
        registries[0].publish(last).await.body();
        for registry in registries {
            until(async || hit(&registry.search(last).await.json(), last).is_some()).await;
        }
        let (mut acknowledged, doubtful) = self.numbers(Kind::Publish);
        acknowledged.extend((0..REPORTED).chain([last]));
        for registry in registries {
            futures::stream::iter(&acknowledged)
                .for_each_concurrent(8, |number| async move {
                    assert!(registry.has(*number).await, "{} was acknowledged", name(*number));
                })
                .await;
        }
        let names: Vec<_> = futures::future::join_all(registries.iter().map(Registry::names)).await;
        assert_eq!(names[0], names[1]);
        let stored = doubtful.iter().filter(|number| names[0].contains(&name(**number))).count();
        assert_eq!(names[0].len(), acknowledged.len() + stored, "nobody has sent the others");
        // Sending them again is safe.
        for number in &doubtful {
            registries[1].publish(*number).await.body();
        }
        assert_eq!(registries[0].names().await.len(), acknowledged.len() + doubtful.len());
        let (acknowledged, doubtful) = (acknowledged.len(), doubtful.len());
        writeln!(
            table,
            "published: {acknowledged} acknowledged, all of them there byte for byte and found by both; \
             {doubtful} in doubt, of which {stored} were there"
        )
        .unwrap();
    }

    /// Every outcome that was acknowledged is counted, and once, however often it is reported.
    async fn judge_outcomes(&self, registries: &[Registry], table: &mut String) {
        let (acknowledged, doubtful) = self.numbers(Kind::Outcome);
        let count = async || {
            let mut counts = Vec::new();
            for registry in registries {
                let mut count = 0;
                for number in 0..REPORTED {
                    count += registry.runs(number).await;
                }
                counts.push(usize::try_from(count).unwrap());
            }
            assert_eq!(counts[0], counts[1]);
            counts[0]
        };
        let counted = count().await;
        let stored = counted.checked_sub(acknowledged.len());
        let stored = stored.filter(|stored| *stored <= doubtful.len());
        let stored = stored.unwrap_or_else(|| {
            panic!("{counted} of {} and {} in doubt", acknowledged.len(), doubtful.len())
        });
        for number in acknowledged.iter().chain(&doubtful) {
            registries[number % 2].report(number % REPORTED, run(*number)).await.body();
        }
        let all = acknowledged.len() + doubtful.len();
        assert_eq!(count().await, all, "each counts once");
        // What each of them ranks by.
        for registry in registries {
            for number in 0..REPORTED {
                let runs = registry.runs(number).await;
                until(async || {
                    let found = registry.search(number).await.json();
                    hit(&found, number).is_some_and(|hit| hit["usage_count"] == runs)
                })
                .await;
            }
        }
        writeln!(
            table,
            "outcomes: {} acknowledged and {counted} counted; {} in doubt, of which {stored} were there",
            acknowledged.len(),
            doubtful.len()
        )
        .unwrap();
    }

    fn to_table(&self) -> String {
        let mut table = String::from(
            "| | seconds | published | searched | found nothing yet | reported | refused | unanswered | \
             slowest |\n|---|---|---|---|---|---|---|---|---|\n",
        );
        for (number, (stage, time)) in STAGES.iter().zip(&self.times).enumerate() {
            let told: Vec<_> =
                self.known.iter().filter(|told| *told.stages.start() == number).collect();
            let count = |is: &dyn Fn(&Told) -> bool| told.iter().filter(|told| is(told)).count();
            let done = |kind| count(&|told| told.kind == kind && matches!(told.came, Came::Done));
            let missed = count(&|told| matches!(told.came, Came::Missed));
            let silent = count(&|told| matches!(told.came, Came::Silence(_)));
            let mut refused: BTreeMap<&str, usize> = BTreeMap::new();
            for told in &told {
                if let Came::Refused(_, code) = &told.came {
                    *refused.entry(code).or_default() += 1;
                }
            }
            let refused: Vec<_> =
                refused.iter().map(|(code, count)| format!("{count} × {code}")).collect();
            let slowest = told.iter().map(|told| told.took).max().unwrap_or_default();
            writeln!(
                table,
                "| {stage:?} | {:.1} | {} | {} | {missed} | {} | {} | {silent} | {:.1} s |",
                time.as_secs_f64(),
                done(Kind::Publish),
                done(Kind::Search),
                done(Kind::Outcome),
                refused.join(", "),
                slowest.as_secs_f64()
            )
            .unwrap();
        }
        table
    }
}

/// Asks until it is so; what is to be waited for comes within seconds.
async fn until(is_so: impl AsyncFn() -> bool) {
    let asked = async { while !is_so().await {} };
    tokio::time::timeout(Duration::from_secs(120), asked).await.expect("it never came");
}

#[test]
fn two_registries_survive_backend_outages() {
    let least = |answers| Least { answers, time: Duration::ZERO };
    if let Some(table) = keep_what_was_acknowledged(least(15), least(2)) {
        println!("{table}");
    }
}

/// `A2S_TEST_QDRANT_BIN=… cargo test --test it -- --ignored --nocapture five_minutes`, or so many
/// seconds as `A2S_TEST_SECONDS` says.
#[test]
#[ignore = "takes long; docs/operations.md has its figures"]
#[expect(clippy::disallowed_methods, reason = "how long a test takes is set where it is run")]
fn two_registries_under_load_lose_no_write() {
    let seconds = std::env::var("A2S_TEST_SECONDS").ok();
    let seconds = seconds.map_or(300, |text| text.parse().expect("A2S_TEST_SECONDS is a number"));
    let away = Duration::from_secs(20);
    let all = Duration::from_secs(seconds);
    // The rest is for the four stages in which everything is there.
    let there = all.saturating_sub(3 * away) / 4;
    let least = |time| Least { answers: 2, time };
    if let Some(table) = keep_what_was_acknowledged(least(there), least(away)) {
        eprintln!("{table}");
    }
}
