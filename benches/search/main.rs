//! What a search costs beside the bare queries of the index, how fast is published, and what a
//! registry needs to start and to stay.
//!
//! ```text
//! export A2S_TEST_DATA=FOLDER                  # the folder of retrieval sets
//! cargo bench --bench search                   # 1,000, 10,000 and 100,000 capabilities
//! cargo bench --bench search -- 10000          # so many
//! ```
//!
//! All sides answer the same queries in turns, in this process and on the same files: the registry with
//! and without the sentence encoder, through its router, from the bytes of a request to the bytes of its
//! answer; a scan that compares each point with each clause. Memory and start are those of the program.

#![expect(clippy::unwrap_used, reason = "a bench that cannot set up its world has to fail")]
#![expect(clippy::print_stdout, reason = "the tables are what a bench is for")]

mod baseline;
mod corpus;
mod library;
mod process;
#[path = "../common/program.rs"]
mod program;

use std::path::Path;
use std::time::{Duration, Instant};

use mimalloc::MiMalloc;
use registry::embed::Embedder;
use registry::retrieval::BuiltInEmbedders;

use crate::baseline::{Bare, copy_folder};
use crate::corpus::Corpus;
use crate::library::Shelf;
use crate::process::Process;

/// As in the command.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Queries that are measured, after as many others that warm up both sides.
const QUERIES: usize = 1_000;

#[tokio::main]
async fn main() {
    let Some(folder) = std::env::var_os("A2S_TEST_DATA") else {
        // Nothing to measure is no failure: `cargo bench` runs every bench.
        return println!("A2S_TEST_DATA names no folder, so there is nothing to search in.");
    };
    let corpus = Corpus::read(folder.as_ref());
    let named: Vec<usize> = std::env::args().filter_map(|text| text.parse().ok()).collect();
    let sizes = if named.is_empty() { vec![1_000, 10_000, 100_000] } else { named };

    // The first start reads the program from the disk.
    drop(Process::start(tempfile::tempdir().unwrap()));
    let none = Process::start(tempfile::tempdir().unwrap());
    println!("ready with no capability: {:.0} ms", milliseconds(none.ready()));
    for size in sizes {
        println!();
        println!("{size} capabilities");
        measure(&corpus, size, none.ready()).await;
    }
}

async fn measure(corpus: &Corpus, size: usize, ready_with_none: Duration) {
    let folder = tempfile::tempdir().unwrap();
    let shelf = Shelf::open(folder.path(), Embedder::built_in()).await;
    let began = Instant::now();
    shelf.publish(corpus, size).await;
    let took = began.elapsed();
    println!(
        "  published in {:.1} s: {:.0}/s",
        took.as_secs_f64(),
        size as f64 / took.as_secs_f64()
    );
    shelf.settle().await;
    shelf.close().await;

    compare(corpus, size, folder.path()).await;
    let process = Process::start(folder);
    println!(
        "  ready in {:.0} ms ({:.2}× of none)",
        milliseconds(process.ready()),
        process.ready().as_secs_f64() / ready_with_none.as_secs_f64()
    );
    println!("  anonymous memory at rest      {:>6.1} MB", process.anonymous_memory());
    process.search(corpus.queries(QUERIES)).await;
    println!("  behind {QUERIES} searches         {:>6.1} MB", process.anonymous_memory());
}

/// Measures the registry with and without the sentence encoder beside the bare index.
async fn compare(corpus: &Corpus, size: usize, folder: &Path) {
    let bare = Bare::new(corpus, size);
    let copy = tempfile::tempdir().unwrap();
    copy_folder(folder, copy.path());
    let quality = Shelf::open(folder, Embedder::built_in()).await;
    let fast = Shelf::open(copy.path(), Embedder::fast()).await;
    let embedders = BuiltInEmbedders::fast();
    let mut times = [const { Vec::new() }; 3];
    for (number, query) in corpus.queries(2 * QUERIES).enumerate() {
        let probes: Vec<_> = embedders.probes(query).into_iter().map(|probe| probe.query).collect();
        let began = Instant::now();
        let is_found = quality.search(query).await;
        let quality_took = began.elapsed();
        let began = Instant::now();
        let is_found = is_found && fast.search(query).await;
        let fast_took = began.elapsed();
        let began = Instant::now();
        probes.iter().for_each(|probe| {
            std::hint::black_box(bare.query(probe));
        });
        let bare_took = began.elapsed();
        assert!(is_found, "{query}");
        if number >= QUERIES {
            for (times, took) in times.iter_mut().zip([quality_took, fast_took, bare_took]) {
                times.push(took);
            }
        }
    }
    println!("  per search     quality       fast   bare index   quality ÷ bare   fast ÷ bare");
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        let [quality, fast, bare] =
            times.each_mut().map(|times| milliseconds(quantile(times, share)));
        println!(
            "  {name}         {quality:>7.3} ms {fast:>7.3} ms {bare:>9.3} ms  {:>12.2}×  {:>11.2}×",
            quality / bare,
            fast / bare
        );
    }
    quality.close().await;
    fast.close().await;
}

fn quantile(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * share).round() as usize]
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
