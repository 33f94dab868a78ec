//! `a2s stats`, and what searching makes of it.

use insta::assert_snapshot;

use crate::harness::World;

#[test]
fn stats_tell_how_runs_ended_and_scores_are_explained() {
    let mut world = World::up(&[]);
    assert_snapshot!("stats_before", world.a2s(&["stats", "ListDogBreeds"]).transcript());
    world.a2s(&["run", "ListDogBreeds"]).exits(0);
    // Whoever is stopped has reported what is over.
    world.stop();
    world.start();
    assert_snapshot!("stats", world.a2s(&["stats", "ListDogBreeds@^1"]).transcript());
    let stats = world.a2s(&["stats", "ListDogBreeds", "--json"]).exits(0).one();
    assert_eq!((&stats["runs"], &stats["successes"]), (&1.into(), &1.into()));
    assert_eq!((&stats["reporters"], &stats["failures"]), (&1.into(), &serde_json::json!([])));

    let search = ["search", "kinds of dogs", "--limit", "1", "--explain"];
    let strategies = ["--strategy", "success_rate=1,success_rate>=0.99", "--strategy", "most_used"];
    let found = world.a2s(&[&search[..], &strategies].concat()).exits(0);
    assert!(found.stdout.contains("ranked by 2: most_used"), "{found:?}");
    let terms =
        ["relevance", "success_rate", "usage", "simplicity", "permissions", "service_health"];
    for term in terms {
        assert!(found.stdout.contains(&format!("      {term} ")), "{term} {found:?}");
    }
    let hit = world.a2s(&[&search[..4], &["--json"]].concat()).exits(0).one();
    let hit = &hit["capabilities"][0];
    let terms = hit["explanation"].as_array().unwrap();
    let sum: f64 = terms.iter().map(|term| term["contribution"].as_f64().unwrap()).sum();
    assert_eq!(hit["rank_score"].as_f64(), Some(sum));

    world.a2s(&["stats", "NoSuchThing"]).exits(1);
    world.a2s(&["search", "x", "--strategy", "colour=1"]).exits(2);
}
