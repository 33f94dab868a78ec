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
