//! `a2s compose`: what no capability does alone.

use serde_json::json;

use crate::harness::World;

#[test]
fn a_chain_is_proposed_published_and_runs() {
    let world = World::up(&[]);
    let intent = "look up facts about the country FR and get the weather in its capital";
    let told = world.a2s(&["compose", intent, "--author", "Jane Smith"]).exits(0);
    assert!(
        told.stdout.starts_with("a2s: \"1.1.0\"\nname: GetCountryThenGetCityWeather\n"),
        "{told:?}"
    );
    assert!(told.stderr.contains("GetCountry.capital -> GetCityWeather.city"), "{told:?}");

    let answer = world.a2s(&["compose", intent, "--publish", "--json"]).exits(0).one();
    assert_eq!(answer["published"]["created"], true, "{answer}");
    assert_eq!(answer["proposals"][0]["links"][0]["outputs"], json!(["capital"]));
    let input = ["--input", "country_code=FR", "--json"];
    let run = [&["run", "GetCountryThenGetCityWeather"], &input[..]].concat();
    let run = world.a2s(&run).exits(0).one();
    assert_eq!(
        (&run["status"], &run["output"]["place"]),
        (&json!("succeeded"), &json!("Paris, France"))
    );
    assert_eq!(run["output"]["currency"], "EUR", "{run}");
}

#[test]
fn where_nothing_links_there_is_no_chain() {
    let world = World::up(&[]);
    for intent in ["list dog breeds", "list dog breeds and tell me a joke"] {
        let told = world.a2s(&["compose", intent, "--publish"]).exits(1);
        assert!(told.stderr.contains("A2S512") && told.stdout.is_empty(), "{told:?}");
    }
}
