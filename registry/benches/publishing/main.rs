//! The cost of a publish as a registry grows.
//!
//! ```text
//! cargo bench -p registry --bench publishing               # at 0, 1,000 and 10,000 capabilities
//! cargo bench -p registry --bench publishing -- 100000     # at other sizes
//! cargo bench -p registry --bench publishing -- --quality  # with the sentence encoder
//! ```
//!
//! Each publish is of a new name, by a token that is not the owner's, so it is compared with the names of
//! others and counted for the share of the token. The baseline is a bare transaction with one insert of the
//! same text, in a file of the same folder: on the disk when it returns, like a publish. Both are measured
//! at each size, because the speed of a disk varies.

#![expect(clippy::unwrap_used, reason = "a bench that cannot publish has to fail")]
#![expect(clippy::print_stdout, reason = "the table is what a bench is for")]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use a2s_api::{Caller, TokenScope, TokenSubject};
use futures::future::join_all;
use registry::embed::Embedder;
use registry::{App, Config, Secret};
use serde_json::json;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use test_support::fill_checksum;

/// The publishes of one measurement.
const PUBLISHES: usize = 400;
/// The publishers of the second measurement, and of those that fill the registry.
const PUBLISHERS: usize = 16;
/// The seed of the words.
const SEED: u64 = 48;

const WORDS: [&str; 24] = [
    "weather", "invoice", "parcel", "train", "museum", "recipe", "doctor", "garden", "hotel",
    "flight", "payment", "lesson", "concert", "library", "river", "engine", "battery", "passport",
    "harvest", "market", "bridge", "violin", "planet", "glacier",
];

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut sizes: Vec<usize> = arguments.iter().filter_map(|text| text.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![0, 1_000, 10_000];
    }
    sizes.sort_unstable();
    let is_quality = arguments.iter().any(|argument| argument == "--quality");
    print_machine(is_quality);
    let folder = tempfile::tempdir().unwrap();
    let bare = BareTable::create(folder.path()).await;
    let registry = Registry::open(folder.path(), is_quality).await;
    let mut published = 0;
    for size in sizes {
        registry.publish_concurrently((published..size).map(document).collect()).await;
        published = published.max(size);
        measure(&bare, &registry, size, &mut published).await;
    }
    registry.app.close().await;
}

fn print_machine(is_quality: bool) {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let model = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let model = model.trim_start_matches([' ', '\t', ':']);
    let build = if cfg!(debug_assertions) { "without optimisation" } else { "optimised" };
    let embedder = if is_quality { "quality" } else { "fast" };
    println!("{processors} processors {model}, {build}; seed {SEED}, embedder {embedder}");
    println!("{PUBLISHES} publishes each; × is the ratio to the bare insert of the same row");
    println!("| capabilities | bare insert | one publisher | {PUBLISHERS} publishers |");
    println!("|---|---|---|---|");
}

async fn measure(bare: &BareTable, registry: &Registry, size: usize, published: &mut usize) {
    // Made before the clock runs: a checksum takes time as well.
    let mut next = || {
        *published += PUBLISHES;
        (*published - PUBLISHES..*published).map(document).collect::<Vec<_>>()
    };
    let (alone, together) = (next(), next());
    let began = Instant::now();
    for source in &alone {
        bare.insert(source).await;
    }
    let bare = PUBLISHES as f64 / began.elapsed().as_secs_f64();
    let began = Instant::now();
    for source in alone {
        registry.publish(source).await;
    }
    let alone = PUBLISHES as f64 / began.elapsed().as_secs_f64();
    let began = Instant::now();
    registry.publish_concurrently(together).await;
    let together = PUBLISHES as f64 / began.elapsed().as_secs_f64();
    println!(
        "| {size} | {bare:.0}/s | {alone:.0}/s ({:.2} ×) | {together:.0}/s ({:.2} ×) |",
        alone / bare,
        together / bare
    );
}

/// A table in a file of its own.
struct BareTable(SqlitePool);

impl BareTable {
    async fn create(folder: &Path) -> Self {
        let options = SqliteConnectOptions::new()
            .filename(folder.join("bare.sqlite"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full);
        let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
        let table = "CREATE TABLE bare (id INTEGER PRIMARY KEY, source TEXT NOT NULL) STRICT";
        sqlx::query(table).execute(&pool).await.unwrap();
        Self(pool)
    }

    async fn insert(&self, source: &str) {
        let mut transaction = self.0.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let insert = sqlx::query("INSERT INTO bare (source) VALUES (?)").bind(source);
        insert.execute(&mut *transaction).await.unwrap();
        transaction.commit().await.unwrap();
    }
}

struct Registry {
    app: App,
    publisher: Caller,
}

impl Registry {
    async fn open(folder: &Path, is_quality: bool) -> Self {
        let mut config = Config::in_folder(folder, Some(Secret::new("owner".to_owned())));
        config.embedder = if is_quality { Embedder::built_in() } else { Embedder::fast() };
        config.limits.publisher_share.versions = u32::MAX;
        config.limits.publisher_share.bytes = i64::MAX;
        let clock: registry::Clock = Arc::new(|| "2026-03-01T12:00:00Z".parse().unwrap());
        let mut metrics = prometheus_client::registry::Registry::default();
        let app = App::open(config, clock, &mut metrics).await.unwrap();
        let subject = TokenSubject::new("publisher").unwrap();
        let scopes = [TokenScope::Publish].into();
        Self { app, publisher: Caller { subject, end_user: None, scopes } }
    }

    async fn publish(&self, source: String) {
        let published = self.app.publish(source.into_bytes(), &self.publisher).await;
        assert!(published.unwrap().created);
    }

    /// Publishes documents by several publishers at once.
    async fn publish_concurrently(&self, documents: Vec<String>) {
        let share = documents.len().div_ceil(PUBLISHERS).max(1);
        let publishers = documents.chunks(share).map(|share| async move {
            for source in share {
                self.publish(source.clone()).await;
            }
        });
        join_all(publishers).await;
    }
}

/// A document with a name of its own and words that depend on the seed.
fn document(number: usize) -> String {
    let mut state = SEED.wrapping_add(number as u64);
    let mut word = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        WORDS[(mixed >> 32) as usize % WORDS.len()]
    };
    let description = format!("Finds the {} and the {} of a {}", word(), word(), word());
    let task = json!({
        "openapi": "3.0.1",
        "info": {"title": "Bench", "version": "1.0.0"},
        "servers": [{"url": "https://api.example.com"}],
        "paths": {"/": {"get": {
            "parameters": [{"name": "q", "in": "query", "schema": {"type": "string"}}],
            "responses": {"200": {"description": "The response"}},
        }}},
    });
    fill_checksum(&format!(
        "a2s: 1.0.0\nname: Tool{number}\ndescription: {description}\ndomains: [api.example.com]\n\
         version: \"1.0.0\"\nchecksum: \"<sha256>\"\nauthors: [{{name: Jane Smith}}]\nexecution:\n  \
         type: sequence\n  steps:\n    - id: ask\n      format: OpenAPI\n      task: {task}\n      \
         input_mapping: {{queryParameters: {{q: \"${{q}}\"}}}}\n      \
         output_mapping: {{answer: \"$.data\"}}\n"
    ))
}
