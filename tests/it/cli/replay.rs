//! `a2s runs replay`: the same run again, and against a version that does other things.

use insta::assert_snapshot;

use super::TOUR;
use crate::harness::World;

#[test]
fn replay_needs_no_services_and_shows_drift() {
    let mut world = World::up(&[]);
    world.publish(TOUR);
    let cities = "cities=[\"Paris\", \"Atlantis\"]";
    let run = world.a2s(&["run", "CityTour", "--input", cities, "--json"]).exits(0).one();
    let id = run["id"].as_str().unwrap();
    let other = TOUR
        .replace("version: 1.0.0\nchecksum", "version: 2.0.0\nchecksum")
        .replace("city: Atlantis", "city: Lisbon")
        .replace("texts: \"$.weather.description\"", "texts: \"$.weather.humidity\"");
    world.publish(&other);

    // Nothing answers there any more.
    world.stop();
    world.add_flags(&["--upstream", "api.weather.com=http://127.0.0.1:9"]);
    world.start();
    world.a2s(&["run", "CityTour", "--input", cities]).exits(1);
    let same = world.a2s(&["runs", "replay", id]).exits(0);
    assert_snapshot!("replay", same.transcript());
    let drift = world.a2s(&["runs", "replay", id, "--against", "CityTour@2"]).exits(1);
    assert_snapshot!("replay_against", drift.transcript());
    let drift = world.a2s(&["runs", "replay", id, "--against", "CityTour@^2", "--json"]);
    let drift = drift.exits(1).one();
    assert_eq!(
        (&drift["unchanged"], &drift["against"]["version"]),
        (&false.into(), &"2.0.0".into())
    );
}
