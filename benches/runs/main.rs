//! What runs cost: time per step beside a bare `reqwest` loop over the same loopback service, a
//! thousand runs at once, and what others make of the same work.
//!
//! Everything is measured in one run, in turns, so that a machine that changes its speed changes
//! both sides: read the ratios.
//!
//! ```text
//! cargo bench --bench runs                # everything
//! cargo bench --bench runs -- --quick     # a look
//! cargo bench --bench runs -- chains      # or crowd, or others
//! cargo bench --bench runs -- chains memory
//! ```
//!
//! Others take part when `A2S_BENCH_PEERS` names a folder that has them: see `peers`.

#![expect(clippy::unwrap_used, reason = "a bench that cannot set up its world has to fail")]
#![expect(clippy::print_stdout, reason = "the table is what a bench is for")]

mod chains;
mod concurrent_runs;
#[path = "../common/itself.rs"]
mod itself;
mod peers;
#[path = "../common/program.rs"]
mod program;
mod world;

use reqwest::Client;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if has(itself::SERVE) {
        return world::serve().await;
    }
    let parts = ["chains", "crowd", "others"];
    let all = !parts.iter().any(|part| has(part));
    let (rounds, runs) = if has("--quick") { (20, 100) } else { (100, 1_000) };
    let client = Client::builder().no_proxy().build().unwrap();
    println!(
        "a2s {}, {rounds} rounds or fewer, mean of each without the slowest tenth",
        env!("CARGO_PKG_VERSION")
    );
    if all || has("chains") {
        let named = chains::DURABILITIES.into_iter().filter(|durability| has(durability));
        let mut durabilities: Vec<_> = named.collect();
        if durabilities.is_empty() {
            durabilities.extend(chains::DURABILITIES);
        }
        chains::measure(&client, rounds, &durabilities).await;
    }
    if all || has("crowd") {
        concurrent_runs::measure(&client, runs).await;
    }
    if (all || has("others"))
        && let Some(peers) = peers::Peers::find()
    {
        chains::measure_peers(&client, &peers, rounds).await;
    }
}
