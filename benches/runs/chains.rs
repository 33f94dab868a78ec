//! Time per step of chains beside a bare `reqwest` loop over the same service, and five steps side by
//! side beside one request.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::{Value, json};

use crate::peers::Peers;
use crate::world::{
    Method, Process, Questions, Service, chain, chain_name, document, mean, milliseconds,
    operation, task, thing,
};

const CHAINS: [usize; 4] = [1, 10, 100, 1_000];

/// How the journal is kept.
pub(crate) const DURABILITIES: [&str; 3] = ["full", "normal", "memory"];

/// Who is asked about each step.
#[derive(Clone, Copy)]
enum Guardian {
    Nobody,
    /// One that allows everything, at once.
    Allowing,
    /// One of ours, in a process of its own.
    Elsewhere,
    BuiltIn,
}

impl Guardian {
    const ALL: [Self; 4] = [Self::Nobody, Self::Allowing, Self::Elsewhere, Self::BuiltIn];

    fn words(self) -> &'static str {
        match self {
            Self::Nobody => "off",
            Self::Allowing => "that allows",
            Self::Elsewhere => "of ours, in a process of its own",
            Self::BuiltIn => "built-in",
        }
    }
}

pub(crate) async fn measure(client: &Client, rounds: usize, durabilities: &[&str]) {
    let service = Service::start();
    let first = Process::start(&service, &[]);
    let ready = first.ready();
    let again = first.restart(&service, &[]).ready();
    println!();
    println!("ready after start, with the shipped documents");
    println!("  empty folder, publishing them  {:>8.1} ms", milliseconds(ready));
    println!("  same folder again              {:>8.1} ms", milliseconds(again));
    println!("data flush of 4 KiB              {:>8.3} ms", milliseconds(data_flush(rounds)));

    let methods = [Method::Get, Method::Post];
    let mut questions = Vec::new();
    for method in methods {
        questions.push((method, service.questions(client, method).await));
    }
    for guardian in Guardian::ALL {
        for durability in durabilities {
            let flags = ["--durability", durability];
            let start = |guardian| {
                Process::start(&service, &[&flags[..], &["--guardian", guardian]].concat())
            };
            // Who else has to run, who runs the chains, and where the same questions are answered.
            let (elsewhere, process, url) = match guardian {
                Guardian::Nobody => (None, start("off"), None),
                Guardian::Allowing => {
                    let url = format!("{}/guardian", service.url);
                    (None, start(&url), Some(url))
                }
                Guardian::Elsewhere => {
                    let elsewhere = Process::start(&service, &flags);
                    let url = elsewhere.guardian();
                    let asking = ["--guardian", &url, "--guardian-token", &elsewhere.token];
                    let process = Process::start(&service, &[&flags[..], &asking].concat());
                    (Some(elsewhere), process, Some(url))
                }
                Guardian::BuiltIn => {
                    // It answers to others over HTTP.
                    let process = start("builtin");
                    let url = process.guardian();
                    (None, process, Some(url))
                }
            };
            // The service asks for no token.
            let token = &elsewhere.as_ref().unwrap_or(&process).token;
            println!();
            println!("journal {durability}, guardian {}", guardian.words());
            print_head();
            for (method, questions) in &questions {
                let posts = match &url {
                    None => vec![("", Posts::None)],
                    Some(url) => vec![
                        (", small", Posts::Small),
                        (", asked", Posts::Questions { url: url.clone(), token, questions }),
                    ],
                };
                measure_chains(client, &service, &process, *method, &posts, rounds).await;
            }
            measure_parallel(client, &service, &process, rounds.min(10)).await;
        }
    }
    println!();
    println!("bare: one request per step with its JSON read; with a guardian, two POSTs more:");
    println!("small, of a few bytes that nobody reads, or the same questions to the same guardian");
}

/// The time to write 4 KiB into a file that is long enough, and to wait until they are on the disk: the least
/// that durability can cost on the file system of the data folders.
fn data_flush(rounds: usize) -> Duration {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[0; 1 << 20]).unwrap();
    file.sync_all().unwrap();
    let mut flush = |round: usize| {
        let begun = Instant::now();
        file.seek(SeekFrom::Start((round as u64 % 256) << 12)).unwrap();
        file.write_all(&[1; 4 << 10]).unwrap();
        file.sync_data().unwrap();
        begun.elapsed()
    };
    mean(&mut (0..rounds).map(&mut flush).collect::<Vec<_>>())
}

/// What others make of the same chains.
pub(crate) async fn measure_peers(client: &Client, peers: &Peers, rounds: usize) {
    let service = Service::start();
    println!();
    println!("others, chains of GET");
    print_head();
    for steps in CHAINS {
        for peer in peers.all() {
            let name = peer.name();
            let chain = peer.chain(&service, steps);
            let (mut theirs, mut bare) = (Vec::new(), Vec::new());
            for _ in 0..rounds_of(rounds.min(10), steps) {
                theirs.push(chain.run());
                bare.push(run_bare(client, &service, Method::Get, steps, &Posts::None).await);
            }
            let each = |times: &mut Vec<Duration>| mean(times) / steps as u32;
            print_row(name, steps, each(&mut theirs), each(&mut bare));
        }
    }
}

/// What both sides took for each step, and the ratio.
fn print_row(name: &str, steps: usize, ours: Duration, bare: Duration) {
    println!(
        "  {name:<16} {steps:>5}  {:>8.3} ms  {:>8.3} ms  {:>6.2}×",
        milliseconds(ours),
        milliseconds(bare),
        ours.as_secs_f64() / bare.as_secs_f64()
    );
}

fn print_head() {
    println!("  {:<16} {:>5}  {:>11}  {:>11}  {:>7}", "", "steps", "a step", "bare", "ratio");
}

/// Fewer rounds where each takes longer.
fn rounds_of(rounds: usize, steps: usize) -> usize {
    (rounds / (steps / 100).max(1)).max(3)
}

/// `posts` with what they are called.
async fn measure_chains(
    client: &Client,
    service: &Service,
    process: &Process,
    method: Method,
    posts: &[(&str, Posts<'_>)],
    rounds: usize,
) {
    for steps in CHAINS {
        process.publish(&chain(method, steps));
        let name = chain_name(method, steps);
        let mut ours = Vec::new();
        let mut bare: Vec<_> = posts.iter().map(|_| Vec::new()).collect();
        for _ in 0..rounds_of(rounds, steps) {
            ours.push(process.run(client, &name).await);
            for ((_, posts), bare) in posts.iter().zip(&mut bare) {
                bare.push(run_bare(client, service, method, steps, posts).await);
            }
        }
        let each = |times: &mut Vec<Duration>| mean(times) / steps as u32;
        let ours = each(&mut ours);
        for ((words, _), bare) in posts.iter().zip(&mut bare) {
            print_row(&format!("{method:?}{words}"), steps, ours, each(bare));
        }
    }
}

/// Five requests of 200 ms side by side, as one step and with each failure handled, beside one.
async fn measure_parallel(client: &Client, service: &Service, process: &Process, rounds: usize) {
    let slow = json!({"/slow": {"get": {"responses": {"200": {"description": "A thing"}}}}});
    let tasks = json!({"Slow": operation(&slow)});
    for (name, version, handling) in [
        ("FiveSlow", "1.0.0", json!({})),
        ("FiveSlowHandled", "1.1.0", json!({"on_error": "continue"})),
    ] {
        let step = |index: usize| {
            let mut step =
                task(&format!("step{index}"), "Slow", &json!({}), &format!("out{index}"));
            step.as_object_mut().unwrap().extend(handling.as_object().unwrap().clone());
            step
        };
        let variables: serde_json::Map<_, _> =
            (0..5).map(|index| (format!("out{index}"), json!("string"))).collect();
        let steps: Vec<_> = (0..5).map(step).collect();
        let mut execution = json!({"type": "parallel", "steps": steps});
        execution["variables"] = json!({ "shared": variables });
        let members = json!({"a2s": version, "tasks": tasks, "execution": execution});
        process.publish(&[document(name, members)]);
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            ours.push(process.run(client, name).await);
            let begin = Instant::now();
            let request = client.get(format!("{}/slow", service.url));
            let _: Value = request.send().await.unwrap().json().await.unwrap();
            bare.push(begin.elapsed());
        }
        print_row(name, 5, mean(&mut ours), mean(&mut bare));
    }
}

/// What a bare loop posts before and after each request.
enum Posts<'a> {
    None,
    /// A few bytes, which are answered without being read.
    Small,
    /// What a guardian is asked by a2s about such a step.
    Questions {
        url: String,
        token: &'a str,
        questions: &'a Questions,
    },
}

impl Posts<'_> {
    async fn before(&self, client: &Client, service: &Service) {
        self.send(client, service, |questions| &questions.request).await;
    }

    async fn after(&self, client: &Client, service: &Service) {
        self.send(client, service, |questions| &questions.result).await;
    }

    async fn send(&self, client: &Client, service: &Service, which: fn(&Questions) -> &Value) {
        let answer = match self {
            Self::None => return,
            Self::Small => client.post(format!("{}/post", service.url)).json(&json!({ "id": "x" })),
            Self::Questions { url, token, questions } => {
                client.post(url).bearer_auth(token).json(which(questions))
            }
        };
        let answer: Value = answer.send().await.unwrap().json().await.unwrap();
        let decision = answer.pointer("/result/decision").or_else(|| answer.get("decision"));
        assert_eq!(decision, Some(&json!("allow")), "{answer}");
    }
}

async fn run_bare(
    client: &Client,
    service: &Service,
    method: Method,
    steps: usize,
    posts: &Posts<'_>,
) -> Duration {
    let begin = Instant::now();
    let mut id = "a".to_owned();
    for _ in 0..steps {
        posts.before(client, service).await;
        let request = match method {
            Method::Get => client.get(format!("{}/things/{id}", service.url)),
            Method::Post => client.post(format!("{}/things", service.url)).json(&thing(&id)),
        };
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        posts.after(client, service).await;
        id = answer["value"].as_str().unwrap().to_owned();
    }
    begin.elapsed()
}
