//! What a user types wrong, or short.

use serde_json::json;

use crate::harness::{World, a2s};

#[test]
fn a_mistake_in_the_arguments_is_json_where_json_is_asked_for() {
    for arguments in
        [&["serach", "x", "--json"][..], &["run", "--json"], &["--json", "search", "--limit", "x"]]
    {
        let refused = a2s(arguments).exits(2);
        let error = &refused.one()["error"];
        assert_eq!(error["code"], "A2S503", "{refused:?}");
        assert!(!error["message"].as_str().unwrap().is_empty(), "{refused:?}");
        assert_eq!(refused.stderr, "");
    }
    let hint = a2s(&["serach", "x", "--json"]).exits(2).one()["error"]["hint"].to_string();
    assert!(hint.contains("search"), "{hint}");
    let shown = a2s(&["serach", "x"]).exits(2);
    assert_eq!(shown.stdout, "");
    assert!(shown.stderr.contains("serach"), "{shown:?}");
    assert!(a2s(&["--help", "--json"]).exits(0).stdout.contains("Usage"));
}

#[test]
fn a_run_goes_by_the_beginning_of_its_id() {
    let world = World::up(&[]);
    let ids: Vec<String> = (0..2)
        .map(|_| {
            let run = world.a2s(&["run", "ListDogBreeds", "--json"]).exits(0).one();
            run["id"].as_str().unwrap().to_owned()
        })
        .collect();
    // Both began within minutes, so a few digits mean both.
    let several = world.a2s(&["runs", &ids[0][..4], "--json"]).exits(1).one();
    assert_eq!(several["error"]["code"], "A2S517", "{several}");
    let hint = several["error"]["hint"].as_str().unwrap();
    assert!(ids.iter().all(|id| hint.contains(id)), "{hint}");
    let shown = world.a2s(&["runs", &ids[1][..30], "--json"]).exits(0).one();
    assert_eq!(shown["id"], json!(ids[1]));
    let none = world.a2s(&["runs", "ffffffff", "--json"]).exits(1).one();
    assert_eq!(none["error"]["code"], "A2S517");
    world.a2s(&["runs", "delete", &ids[0][..30]]).exits(0);
    world.a2s(&["runs", &ids[0]]).exits(1);
    world.a2s(&["runs", &ids[1]]).exits(0);
}

#[test]
fn a_registry_without_examples_is_empty() {
    let world = World::up(&["--no-examples"]);
    let list = world.a2s(&["search", "list dog breeds", "--json"]);
    assert!(!list.stdout.contains("ListDogBreeds"), "{list:?}");
    world.a2s(&["show", "ListDogBreeds"]).exits(1);
}
