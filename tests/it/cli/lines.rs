//! A run off a terminal: line by line.

use crate::harness::World;

#[test]
fn lines_of_steps_that_run_side_by_side_say_whose_they_are() {
    let world = World::up(&[]);
    let inputs = ["--input", "first_city=Oslo", "--input", "second_city=Nairobi"];
    let ran = world.a2s(&[&["run", "CompareCityWeather"][..], &inputs].concat()).exits(0);
    let (mut heading, mut requests) = ("", 0);
    for line in ran.stdout.lines() {
        let text = line.trim_start();
        if text.starts_with("firstCity") || text.starts_with("secondCity") {
            heading = text.split_whitespace().next().unwrap();
        }
        let own = if text.contains("name=Oslo") {
            "firstCity/findFirst"
        } else if text.contains("name=Nairobi") {
            "secondCity/findSecond"
        } else {
            continue;
        };
        assert_eq!(heading, own, "{line}\n{}", ran.stdout);
        requests += 1;
    }
    assert_eq!(requests, 2, "{}", ran.stdout);
}
