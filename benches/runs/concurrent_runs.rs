//! A thousand runs of ten steps at the same time on one machine: whether all of them end, how many
//! steps a second that is, and how much memory it takes.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use reqwest::Client;
use serde_json::{Value, json};

use crate::world::{Method, Process, Service, chain, chain_name};

const STEPS: usize = 10;
/// How many requests that start runs are under way at the same time.
const STARTERS: usize = 32;

pub(crate) async fn measure(client: &Client, runs: usize) {
    println!();
    println!("{runs} runs of {STEPS} steps at once");
    println!(
        "  {:<8} {:<9} {:>9} {:>9} {:>11} {:>9} {:>10} {:>10}",
        "journal",
        "guardian",
        "succeeded",
        "requests",
        "steps/s",
        "seconds",
        "MiB before",
        "MiB at most"
    );
    for durability in ["full", "normal", "memory"] {
        for guardian in ["off", "builtin"] {
            let service = Service::start();
            let flags = ["--durability", durability, "--guardian", guardian];
            let process = Process::start(&service, &flags);
            process.publish(&chain(Method::Get, STEPS));
            process.run(client, &chain_name(Method::Get, STEPS)).await;
            let (before, counted) = (process.peak_memory(), service.count(client).await);

            let begin = Instant::now();
            let started = futures::stream::iter(0..runs).map(|_| start(client, &process));
            started.buffer_unordered(STARTERS).collect::<Vec<()>>().await;
            while count(client, &process, "running").await > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let took = begin.elapsed().as_secs_f64();
            // The one before is among them.
            let succeeded = count(client, &process, "succeeded").await - 1;
            let requests = service.count(client).await - counted;
            println!(
                "  {durability:<8} {guardian:<9} {succeeded:>9} {requests:>9} {:>11.0} {took:>9.2} {:>10.0} {:>10.0}",
                (runs * STEPS) as f64 / took,
                mebibytes(before),
                mebibytes(process.peak_memory()),
            );
            assert_eq!((succeeded, requests), (runs, runs * STEPS), "a run was lost");
        }
    }
}

async fn start(client: &Client, process: &Process) {
    let request =
        client.post(format!("{}v1/executions", process.url())).bearer_auth(&process.token);
    let request = request.json(&json!({ "name": chain_name(Method::Get, STEPS) }));
    let answer = request.send().await.unwrap();
    let status = answer.status();
    assert!(status.is_success(), "{status}: {}", answer.text().await.unwrap());
}

/// How many runs are in a state.
async fn count(client: &Client, process: &Process, status: &str) -> usize {
    let mut number = 0;
    let mut before = None;
    loop {
        let request = client
            .get(format!("{}v1/executions", process.url()))
            .bearer_auth(&process.token)
            .query(&[
                ("status", Some(status)),
                ("limit", Some("100")),
                ("before", before.as_deref()),
            ]);
        let page: Value = request.send().await.unwrap().json().await.unwrap();
        number += page["executions"].as_array().unwrap().len();
        match page["next"].as_str() {
            Some(next) => before = Some(next.to_owned()),
            None => return number,
        }
        if status == "running" {
            // One page is enough to know that it is not over.
            return number;
        }
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
