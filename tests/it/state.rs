//! What is remembered for the inputs of runs, from the command line.

use insta::assert_snapshot;

use crate::harness::World;

#[test]
fn values_are_remembered_used_and_forgotten() {
    let world = World::up(&[]);
    let mut transcript = String::new();
    for arguments in [
        &["state", "list"][..],
        &["run", "GetCityWeather"],
        &["state", "set", "city=Paris", "note=[1, \"two\"]"],
        &["state", "set", "city=Oslo", "--session", "trip"],
        &["state", "list", "--session", "trip"],
        &["run", "GetCityWeather", "--dry-run", "--session", "trip"],
        &["run", "GetCityWeather", "--session", "trip"],
        &["run", "GetCityWeather"],
        &["state", "remove", "city", "--session", "trip"],
        &["state", "remove", "city", "--session", "trip"],
        &["state", "set", "city"],
        &["state", "set", "2nd=x"],
        &["--json", "state", "list"],
    ] {
        let line =
            format!("$ a2s {}\n{}\n", arguments.join(" "), world.a2s(arguments).transcript());
        transcript.push_str(&line);
    }
    assert_snapshot!(transcript);
}

#[test]
fn checksums_are_listed_accepted_and_forgotten() {
    let world = World::up(&[]);
    let list = || world.a2s(&["--json", "trust", "list"]).one();
    assert_eq!(list(), serde_json::json!({"versions": []}));
    world.a2s(&["run", "GetCityWeather", "--input", "city=Paris", "--dry-run"]).transcript();
    let seen = list();
    let find = |list: &serde_json::Value| {
        let versions = list["versions"].as_array().unwrap().iter();
        let mut found = versions.filter(|version| version["name"] == "GetCityWeather");
        found.next().cloned().expect("the planned version is remembered")
    };
    let first = find(&seen);
    let target = format!("GetCityWeather@{}", first["version"].as_str().unwrap());
    let other = format!("sha256:{}", "0".repeat(64));
    let accepted = world.a2s(&["trust", "accept", &target, "--checksum", &other]).stdout;
    assert!(accepted.contains(&other) && accepted.contains("accepted by owner"), "{accepted}");

    // The registry still gives the document that was there before.
    let refused = world.a2s(&["run", "GetCityWeather", "--input", "city=Paris"]).stderr;
    let command =
        format!("a2s trust accept {target} --checksum {}", first["checksum"].as_str().unwrap());
    assert!(refused.contains("A2S395") && refused.contains(&command), "{refused}");

    let forgotten = world.a2s(&["trust", "forget", &target]).stdout;
    assert!(forgotten.contains("forgot the checksum"), "{forgotten}");
    world.a2s(&["run", "GetCityWeather", "--input", "city=Paris", "--dry-run"]).transcript();
    assert_eq!(find(&list())["checksum"], first["checksum"]);
    let inexact = world.a2s(&["trust", "forget", "GetCityWeather@^1.0"]).stderr;
    assert!(inexact.contains("is not an exact version"), "{inexact}");
}
