//! `kill -9` while capabilities are published: what was acknowledged is there and is found, and
//! nothing is there by half.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::Client;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::harness::{RUNTIME, World};

/// Publishers at the same time: so many requests are under way when the end comes.
const PUBLISHERS: usize = 8;
/// Acknowledged between two ends, on average.
const ACKNOWLEDGED: usize = 100;

/// Kills, and capabilities at least.
#[expect(clippy::disallowed_methods, reason = "how long a test takes is set where it is run")]
fn extent() -> (usize, usize) {
    let kills = std::env::var("A2S_TEST_KILLS").ok();
    let kills = kills.map_or(4, |text| text.parse().expect("A2S_TEST_KILLS is a number"));
    (kills, kills * ACKNOWLEDGED)
}

/// A word of no language, different for each number.
fn word(mut number: usize) -> String {
    let mut word = String::from("zq");
    for _ in 0..4 {
        word.push(char::from(b'a' + u8::try_from(number % 20).unwrap()));
        number /= 20;
    }
    word.push('x');
    word
}

fn name(number: usize) -> String {
    let word = word(number);
    format!("ReadZ{}", &word[1..])
}

fn document(number: usize) -> (String, String) {
    let mut document = json!({
        "a2s": "1.0.0",
        "name": name(number),
        "description": format!("Read the water level at the gauge {}", word(number)),
        "domains": ["gauges.example"],
        "version": "1.0.0",
        "authors": [{"name": "Jane Smith"}],
        "execution": {"type": "sequence", "steps": [{
            "id": "read",
            "format": "OpenAPI",
            "task": {
                "openapi": "3.0.3",
                "info": {"title": "Gauges", "version": "1"},
                "servers": [{"url": "https://gauges.example"}],
                "paths": {"/level": {"get": {"responses": {"200": {"description": "The level"}}}}},
            },
            "output_mapping": {"level": "$.level"},
        }]},
    });
    let digest = a2s::compile(document.to_string().as_bytes()).digest.unwrap().to_string();
    document["checksum"] = json!(digest);
    (document.to_string(), digest)
}

/// A registry, as whoever publishes and searches sees it.
#[derive(Clone)]
struct Registry {
    client: Client,
    url: String,
    token: String,
}

impl Registry {
    async fn publish(&self, number: usize) -> Option<String> {
        let (document, digest) = document(number);
        let request = self.client.post(format!("{}v1/capabilities", self.url));
        let request = request.bearer_auth(&self.token).header("content-type", "application/json");
        let answer = request.body(document).send().await.ok()?;
        assert!(answer.status().is_success(), "{answer:?}");
        // The status alone has acknowledged it.
        Some(digest)
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let answer = self.client.get(format!("{}v1/{path}", self.url)).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.json().await.unwrap_or_default())
    }

    /// Whether a capability is there; it is whole and is found then.
    async fn has(&self, number: usize) -> bool {
        let (status, versions) = self.get(&format!("capabilities/{}", name(number))).await;
        if status == 404 {
            return false;
        }
        assert_eq!(status, 200, "{versions}");
        let expected = document(number).1;
        let request = self.client.post(format!("{}v1/verify", self.url));
        let answer = request.json(&json!({"name": name(number)})).send().await.unwrap();
        let verified: Value = answer.json().await.unwrap();
        assert_eq!((&verified["valid"], &verified["checksum"]), (&json!(true), &json!(expected)));
        let intent = format!("water level at the gauge {}", word(number));
        let request = self.client.post(format!("{}v1/search", self.url));
        let answer = request.json(&json!({"intent": intent, "limit": 3})).send().await.unwrap();
        let found: Value = answer.json().await.unwrap();
        let hits = found["capabilities"].as_array().unwrap_or_else(|| panic!("{found}"));
        let hit = hits.iter().find(|hit| hit["name"] == name(number).as_str());
        assert_eq!(hit.unwrap_or_else(|| panic!("{intent}: {found}"))["checksum"], expected);
        true
    }

    /// The names of all capabilities that are not shipped.
    async fn names(&self) -> BTreeSet<String> {
        let (mut names, mut after) = (BTreeSet::new(), String::new());
        loop {
            let (status, page) = self.get(&format!("capabilities?limit=100{after}")).await;
            assert_eq!(status, 200, "{page}");
            let listed = page["capabilities"].as_array().unwrap().iter();
            let listed = listed.map(|one| one["name"].as_str().unwrap().to_owned());
            names.extend(listed.filter(|name| name.starts_with("ReadZ")));
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => return names,
            }
        }
    }
}

#[test]
fn what_was_acknowledged_is_there_and_is_found_behind_a_kill() {
    let (kills, least) = extent();
    let mut world = World::among(Vec::new(), &[]);
    let next = Arc::new(AtomicUsize::new(0));
    // What is known of each number: whether it was acknowledged.
    let mut known: BTreeMap<usize, bool> = BTreeMap::new();
    let mut random = 7_usize;
    for _ in 0..kills {
        world.start();
        let registry = Registry {
            client: Client::builder().no_proxy().build().unwrap(),
            url: world.url().to_owned(),
            token: world.token(),
        };
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let moment = 1 + (random >> 33) % (2 * ACKNOWLEDGED);
        let (tell, mut told) = mpsc::unbounded_channel();
        let mut publishers = JoinSet::new();
        RUNTIME.block_on(async {
            for _ in 0..PUBLISHERS {
                let (registry, next, tell) = (registry.clone(), Arc::clone(&next), tell.clone());
                publishers.spawn(async move {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let acknowledged = registry.publish(number).await.is_some();
                        tell.send((number, acknowledged)).unwrap();
                        if !acknowledged {
                            return;
                        }
                    }
                });
            }
            drop(tell);
            for _ in 0..moment {
                let (number, acknowledged) = told.recv().await.unwrap();
                known.insert(number, acknowledged);
            }
        });
        world.kill();
        let fresh: Vec<_> = RUNTIME.block_on(async {
            let mut fresh: Vec<_> = known.keys().rev().take(moment).copied().collect();
            while let Some((number, acknowledged)) = told.recv().await {
                known.insert(number, acknowledged);
                fresh.push(number);
            }
            publishers.join_all().await;
            fresh
        });
        world.start();
        let registry = Registry { url: world.url().to_owned(), ..registry };
        RUNTIME.block_on(async {
            for number in fresh {
                let there = registry.has(number).await;
                assert!(there || !known[&number], "{} was acknowledged", name(number));
            }
        });
        world.kill();
    }
    world.start();
    let registry = Registry {
        client: Client::builder().no_proxy().build().unwrap(),
        url: world.url().to_owned(),
        token: world.token(),
    };
    let acknowledged = known.values().filter(|acknowledged| **acknowledged).count();
    RUNTIME.block_on(async {
        let mut there = BTreeSet::new();
        for (number, acknowledged) in &known {
            let is_there = registry.has(*number).await;
            assert!(is_there || !acknowledged, "{} was acknowledged", name(*number));
            if is_there {
                there.insert(name(*number));
            }
        }
        assert_eq!(registry.names().await, there, "what is listed is whole and is found");
    });
    println!(
        "{kills} kills: {acknowledged} acknowledged, all there and found, of {} sent",
        known.len()
    );
    assert!(acknowledged * 4 > least, "{acknowledged}");
}
