//! What a decision costs: the reference guardian, with its audit log, beside an axum handler that
//! only reads the same message and sends it back.
//!
//! Both are processes of their own, and asked in turns over connections that stay open, by a client
//! that does no more than write a request and find the end of the answer. So read the ratios.
//!
//! ```text
//! cargo bench --bench guardian              # everything
//! cargo bench --bench guardian -- --quick   # a look
//! ```

#![expect(clippy::unwrap_used, reason = "a bench that cannot set up its world has to fail")]
#![expect(clippy::print_stdout, reason = "the table is what a bench is for")]

mod client;
#[path = "../common/itself.rs"]
mod itself;
mod messages;
#[path = "../common/program.rs"]
#[expect(dead_code, reason = "what other benches ask of a program, too")]
mod program;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;
use tempfile::TempDir;

use client::Client;
use itself::{Itself, SERVE};
use program::Program;

/// How many rules there are, and how safely decisions are written.
const RULES: [usize; 2] = [3, 100];
const DURABILITIES: [&str; 2] = ["normal", "full"];
/// How many ask at the same time where decisions per second are counted.
const CLIENTS: usize = 8;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if has(SERVE) {
        return serve();
    }
    let (rounds, asked) = if has("--quick") { (5, 200) } else { (40, 250) };
    // The handler that echoes.
    let echo = Itself::start();
    let address: SocketAddr = echo.said.parse().unwrap();
    let calls: Vec<Vec<u8>> = messages::all();
    let sizes: Vec<_> = calls.iter().map(Vec::len).collect();
    println!("messages of {sizes:?} bytes, {rounds} rounds of {asked}, then {CLIENTS} at once");
    println!(
        "log | rules | | p50 | p99 | p99 of a round | a second | core, one after another | core, at once"
    );
    for durability in DURABILITIES {
        for rules in RULES {
            let guardian = Guardian::start(rules, durability);
            let mut sides = [
                Side::new("echo", address, echo.child.id(), &calls),
                Side::new("guardian", guardian.address(), guardian.program.child.id(), &calls),
            ];
            for _ in 0..rounds {
                sides.iter_mut().for_each(|side| side.ask(asked));
            }
            for _ in 0..rounds {
                sides.iter_mut().for_each(|side| side.crowd(asked));
            }
            let [echo, guardian] = sides.map(Side::figures);
            for figures in [&echo, &guardian] {
                println!("{durability} | {rules} | {figures}");
            }
            let ratio = |of: fn(&Figures) -> Duration| {
                of(&guardian).as_secs_f64() / of(&echo).as_secs_f64()
            };
            println!(
                "{durability} | {rules} | ratio | {:.2} x | {:.2} x | {:.2} x | {:.2} x | {:.2} x | {:.2} x",
                ratio(|figures| figures.p50),
                ratio(|figures| figures.p99),
                ratio(|figures| figures.p99_of_round),
                echo.rate / guardian.rate,
                ratio(|figures| figures.busy),
                ratio(|figures| figures.busy_in_crowd),
            );
        }
    }
}

/// Who is asked, and how long it took.
struct Side<'a> {
    name: &'static str,
    address: SocketAddr,
    process: u32,
    calls: &'a [Vec<u8>],
    client: Client,
    /// How long each answer took, by rounds.
    rounds: Vec<Vec<Duration>>,
    /// How long it has kept a core busy with these.
    busy: Duration,
    crowds: Crowds,
}

/// What those who asked at the same time were told.
#[derive(Default)]
struct Crowds {
    answers: usize,
    took: Duration,
    /// How long a core was busy.
    busy: Duration,
}

struct Figures {
    name: &'static str,
    p50: Duration,
    p99: Duration,
    /// The p99 of a round, in the middle of all rounds: spells in which the machine is slow, which
    /// take some rounds of one side or the other, are not in it.
    p99_of_round: Duration,
    rate: f64,
    /// How long a message keeps a core busy.
    busy: Duration,
    busy_in_crowd: Duration,
}

impl<'a> Side<'a> {
    fn new(name: &'static str, address: SocketAddr, process: u32, calls: &'a [Vec<u8>]) -> Self {
        let mut client = Client::open(address);
        // What is only done once is not what is measured.
        (0..200).for_each(|index| client.ask(&calls[index % calls.len()]));
        let (rounds, busy, crowds) = Default::default();
        Self { name, address, process, calls, client, rounds, busy, crowds }
    }

    /// One after another, so many times.
    fn ask(&mut self, times: usize) {
        let before = busy(self.process);
        let ask = |index: usize| {
            let began = Instant::now();
            self.client.ask(&self.calls[index % self.calls.len()]);
            began.elapsed()
        };
        self.rounds.push((0..times).map(ask).collect());
        self.busy += busy(self.process).saturating_sub(before);
    }

    /// The same from several sides at once.
    fn crowd(&mut self, times: usize) {
        let before = busy(self.process);
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let mut client = Client::open(self.address);
                    (0..times).for_each(|index| client.ask(&self.calls[index % self.calls.len()]));
                });
            }
        });
        self.crowds.answers += CLIENTS * times;
        self.crowds.took += began.elapsed();
        self.crowds.busy += busy(self.process).saturating_sub(before);
    }

    fn figures(self) -> Figures {
        let of_rounds = self.rounds.iter().map(|round| percentile(round.clone(), 99)).collect();
        let times = self.rounds.concat();
        let asked = times.len();
        let Crowds { answers, took, busy } = self.crowds;
        Figures {
            name: self.name,
            p50: percentile(times.clone(), 50),
            p99: percentile(times, 99),
            p99_of_round: percentile(of_rounds, 50),
            rate: answers as f64 / took.as_secs_f64(),
            busy: self.busy.div_f64(asked as f64),
            busy_in_crowd: busy.div_f64(answers as f64),
        }
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let Self { name, p50, p99, p99_of_round, rate, busy, busy_in_crowd } = self;
        let [p50, p99, of_round] = [p50, p99, p99_of_round].map(|time| micros(*time));
        let [busy, crowd] = [busy, busy_in_crowd].map(|time| micros(*time));
        write!(f, "{name} | {p50:.0} µs | {p99:.0} µs | {of_round:.0} µs | ")?;
        write!(f, "{rate:.0} | {busy:.1} µs | {crowd:.1} µs")
    }
}

fn percentile(mut times: Vec<Duration>, percent: usize) -> Duration {
    times.sort();
    times[times.len() * percent / 100]
}

/// How long the threads of a process have kept a core busy.
fn busy(process: u32) -> Duration {
    let of_thread = |thread: std::fs::DirEntry| {
        // It may have ended meanwhile.
        let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().unwrap().parse::<u64>().unwrap_or_default()
    };
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    Duration::from_nanos(threads.map(|thread| of_thread(thread.unwrap())).sum())
}

/// Our guardian: alone with records on the disk, and as a part of `a2s up` where the system may
/// write them later.
struct Guardian {
    program: Program,
    _folder: TempDir,
}

impl Guardian {
    fn start(rules: usize, durability: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let policy = folder.path().join("policy.yaml");
        std::fs::write(&policy, messages::policy(rules)).unwrap();
        let (policy, data) = (policy.to_str().unwrap(), folder.path().join("data"));
        let served: &[&str] = match durability {
            "full" => &["serve", "guardian"],
            other => &["up", "--durability", other],
        };
        let files = ["--policy", policy, "--data-dir", data.to_str().unwrap(), "--token", "bench"];
        let arguments: Vec<&str> = served.iter().copied().chain(files).collect();
        Self { program: Program::start(arguments), _folder: folder }
    }

    fn address(&self) -> SocketAddr {
        self.program.url.trim_start_matches("http://").trim_end_matches('/').parse().unwrap()
    }
}

/// Reads JSON and sends it back, until standard input ends.
#[tokio::main]
async fn serve() {
    let router =
        Router::new().route("/aos", post(async |Json(message): Json<Value>| Json(message)));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    let server = axum::serve(listener, router).into_future();
    let orphaned = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
    tokio::select! {
        served = server => served.unwrap(),
        _ = orphaned => {}
    }
}
