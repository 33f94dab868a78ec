//! A registry whose search index is on Qdrant, as an operator sets it up, with a server of the test's
//! own: `A2S_TEST_QDRANT_BIN` names the program.

#[path = "../../benches/search/corpus.rs"]
mod corpus;

use std::collections::BTreeSet;
use std::path::Path;

use futures::StreamExt as _;
use serde_json::{Value, json};
use tempfile::TempDir;

use self::corpus::Corpus;
use crate::harness::{RUNTIME, Ran, Server, World, a2s_in};
use crate::http::get;
use crate::metric_samples::Registry;
use crate::postgres::{names, write_draft};
use crate::test_servers::Qdrant;

const KEY: &str = "s3cret";
const TOKEN: &str = "of-the-owner";

/// Asks until searches are answered.
fn wait_for(url: &str) {
    while get(&format!("{url}readyz"), &[]).0 != 200 {}
}

#[test]
fn a_registry_on_qdrant_keeps_its_index_there() {
    let Some(qdrant) = Qdrant::start(KEY) else { return };
    let mut world = World::among(Vec::new(), &[]);
    let settings = |key: &str| format!("[qdrant]\nurl = '{}'\nkey = '{key}'\n", qdrant.url());
    let config = world.write("a2s.toml", &settings(KEY));
    world.add_flags(&["--config", &config]);
    world.start();
    world.a2s(&["publish", &write_draft(world.folder())]).exits(0);
    let all = names(world.url()).len();
    let is_found = |url: &str, search: &dyn Fn(&[&str]) -> Ran| {
        wait_for(url);
        let hits = search(&["--json", "search", "list of cat breeds"]).exits(0).one();
        assert_eq!(hits["capabilities"][0]["name"], "ListCatBreeds", "{hits}");
    };
    is_found(world.url(), &|search| world.a2s(search));
    // Killed and started again.
    world.kill();
    world.start();
    is_found(world.url(), &|search| world.a2s(search));
    world.stop();

    let data = world.data();
    let reindex = |arguments: &[&str]| -> Ran {
        let environment = [("A2S_DATA_DIR", data.to_str().unwrap())];
        let ran =
            a2s_in(Path::new("."), &environment, &[&["--json", "reindex"][..], arguments].concat());
        assert!(!ran.stdout.contains(KEY) && !ran.stderr.contains(KEY), "{ran:?}");
        ran
    };
    assert_eq!(reindex(&["--config", &config]).exits(0).one()["indexed"], all);
    let refused = reindex(&["--qdrant", qdrant.url()]).exits(1);
    assert!(refused.stdout.contains("rejects the key"), "{refused:?}");
    assert_eq!(refused.one()["error"]["code"], "A2S265");
    let wrong = world.write("wrong.toml", &settings("s3cret too"));
    reindex(&["--config", &wrong]).exits(1);
    world.start();
    is_found(world.url(), &|search| world.a2s(search));
    world.stop();

    // Elsewhere the index is built from the documents: in memory, and on a server that has none.
    let registry = world.service("registry", &[]);
    is_found(registry.url(), &|search| registry.a2s(search));
    drop(registry);
    let Some(other) = Qdrant::start("") else { return };
    let registry = world.service("registry", &["--qdrant", other.url()]);
    is_found(registry.url(), &|search| registry.a2s(search));
    // It is killed, and so is its server, which forgets nothing.
    drop(registry);
    other.stop();
    reindex(&["--qdrant", other.url()]).exits(1);
    other.start_again();
    let registry = world.service("registry", &["--qdrant", other.url()]);
    is_found(registry.url(), &|search| registry.a2s(search));
}

/// `A2S_TEST_DATA=FOLDER A2S_TEST_QDRANT_BIN=… cargo test --test it -- --ignored --nocapture alike`:
/// 8,000 capabilities of the retrieval sets, or so many as `A2S_TEST_SIZE` says.
#[test]
#[ignore = "takes long, and needs the retrieval sets; docs/operations.md has its figures"]
#[expect(clippy::disallowed_methods, reason = "how long a test takes is set where it is run")]
fn ranking_is_the_same_on_edge_and_qdrant() {
    const QUERIES: usize = 1_000;
    let Some(data) = std::env::var_os("A2S_TEST_DATA") else {
        return eprintln!("SKIPPED: A2S_TEST_DATA names no folder of retrieval sets");
    };
    let Some(qdrant) = Qdrant::start("") else { return };
    let size = std::env::var("A2S_TEST_SIZE").ok();
    let size = size.map_or(8_000, |text| text.parse().expect("A2S_TEST_SIZE is a number"));
    let corpus = Corpus::read(data.as_ref());
    let folder = TempDir::new().unwrap();
    let serve = |name: &str, flags: &[&str]| {
        Server::alone(
            "registry",
            folder.path().join(name),
            &[&["--token", TOKEN][..], flags].concat(),
        )
    };
    let servers = [serve("folder", &[]), serve("server", &["--qdrant", qdrant.url()])];
    let registries = servers.each_ref().map(|server| Registry::at(server.url(), TOKEN));
    let documents = names(servers[0].url()).len() + size;
    let answers: Vec<[Vec<String>; 2]> = RUNTIME.block_on(async {
        for registry in &registries {
            let publish = async |number| {
                let mut document = corpus.document(number);
                let digest = a2s::compile(document.to_string().as_bytes()).digest;
                document["checksum"] = json!(digest);
                registry.publish_json(document.to_string()).await.body();
            };
            futures::stream::iter(0..size).for_each_concurrent(8, publish).await;
            while registry.get("index").await.json()["points"] != documents {}
        }
        let ask = async |registry: &Registry, query: &str| -> Vec<String> {
            let found: Value = registry.search_for(query, 10).await.json();
            let hits = found["capabilities"].as_array().unwrap().iter();
            hits.map(|hit| hit["name"].as_str().unwrap().to_owned()).collect()
        };
        futures::stream::iter(corpus.queries(QUERIES))
            .then(async |query| {
                [ask(&registries[0], query).await, ask(&registries[1], query).await]
            })
            .collect()
            .await
    });
    let overlap = |[one, other]: &[Vec<String>; 2]| {
        let one: BTreeSet<_> = one.iter().collect();
        let both = other.iter().filter(|name| one.contains(name)).count();
        match one.len().max(other.len()) {
            0 => 1.0,
            longer => both as f64 / longer as f64,
        }
    };
    let share = |is: &dyn Fn(&[Vec<String>; 2]) -> bool| {
        answers.iter().filter(|answer| is(answer)).count() as f64 / answers.len() as f64
    };
    let mean = answers.iter().map(overlap).sum::<f64>() / answers.len() as f64;
    eprintln!(
        "{documents} capabilities, {} queries: of the first ten {:.2} % are the same, \
         {:.1} % of the lists are the same, {:.1} % have the same first",
        answers.len(),
        100.0 * mean,
        100.0 * share(&|[one, other]| one == other),
        100.0 * share(&|[one, other]| one.first() == other.first())
    );
    assert!(answers.iter().any(|[one, _]| one.len() == 10));
    assert!(mean > 0.95, "{mean}");
}
