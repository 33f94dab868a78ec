//! `a2s graph` and `a2s services`: how capabilities hang together, and whom they talk to.

use std::io::Write as _;
use std::process::{Command, Stdio};

use insta::assert_snapshot;

use super::{document, validate};
use crate::harness::World;

/// `Base` in two versions, and who uses it: the newest, a pin, one version alone, and one more above.
fn web() -> World {
    let world = World::up(&[]);
    for version in ["1.0.0", "1.1.0"] {
        let path = document(&world, "Base", "version: 1.0.0", &format!("version: {version}"));
        world.a2s(&["publish", &path]).exits(0);
    }
    let pin = world.a2s(&["show", "Base", "--json"]).one()["checksum"].as_str().unwrap().to_owned();
    for (name, used, range) in [
        ("Moving", "Base", "version: ^1.0.0".to_owned()),
        ("Exact", "Base", "version: \"=1.1.0\"".to_owned()),
        ("Pinned", "Base", format!("version: ^1.0.0\n    checksum: \"{pin}\"")),
        ("Above", "Exact", "version: ^1.0.0".to_owned()),
    ] {
        let text = validate::user(name, used, &range, "{}");
        world.publish(&text);
    }
    world
}

/// Whether Graphviz is installed; a test that needs it says when it is not.
#[expect(clippy::print_stderr, reason = "a test that was skipped has to say so")]
fn has_dot() -> bool {
    let found = Command::new("dot").arg("-V").stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("SKIPPED: there is no `dot`, so that no drawing was made");
    }
    found
}

#[test]
fn a_graph_is_shown_and_drawn() {
    let world = web();
    assert_snapshot!("graph", world.a2s(&["graph", "Base", "--impact"]).transcript());
    assert_snapshot!("graph_near", world.a2s(&["graph", "Above", "--depth", "1"]).transcript());
    let dot = world.a2s(&["graph", "Base", "--impact", "--dot"]).exits(0).stdout;
    assert_snapshot!("graph_dot", dot);
    assert_snapshot!(
        "graph_mermaid",
        world.a2s(&["graph", "Base", "--impact", "--mermaid"]).exits(0).stdout
    );
    let json = world.a2s(&["graph", "Base@1.0.0", "--json"]).exits(0).one();
    assert_eq!(json["root"], "Base@1.0.0");
    world.a2s(&["graph", "Base", "--dot", "--mermaid"]).exits(2);
    world.a2s(&["graph", "Base", "--depth", "17"]).exits(2);
    assert!(world.a2s(&["graph", "Nobody"]).exits(1).stderr.contains("A2S220"));
    if !has_dot() {
        return;
    }
    let mut child = Command::new("dot")
        .arg("-Tplain")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(dot.as_bytes()).unwrap();
    let drawn = child.wait_with_output().unwrap();
    assert!(drawn.status.success());
    let drawn = String::from_utf8(drawn.stdout).unwrap();
    let count = |kind: &str| drawn.lines().filter(|line| line.starts_with(kind)).count();
    assert_eq!((count("node "), count("edge ")), (5, 4), "{drawn}");
}

#[test]
fn services_are_listed_and_found() {
    let world = World::up(&[]);
    let path =
        document(&world, "GetWeatherNow", "Gets a thing by its id", "Current weather in a city");
    world.a2s(&["publish", &path]).exits(0);
    let listed = world.a2s(&["services", "--json"]).exits(0).one();
    let hosts: Vec<_> =
        listed["services"].as_array().unwrap().iter().map(|s| s["host"].clone()).collect();
    assert!(hosts.contains(&"api.weather.com".into()) && hosts.len() > 5, "{hosts:?}");
    assert!(hosts.is_sorted_by(|a, b| a.as_str() < b.as_str()));
    let few = world.a2s(&["services", "--limit", "2"]).exits(0).stdout;
    assert!(few.contains("raise --limit"), "{few}");
    assert_snapshot!("service", world.a2s(&["services", "--host", "api.weather.com"]).transcript());
    let found = world.a2s(&["services", "current weather in a city"]).exits(0).stdout;
    assert!(found.lines().next().unwrap().contains("api.weather.com"), "{found}");
    let none = world.a2s(&["services", "weather", "--domain", "nobody.example"]).exits(0).stdout;
    assert!(none.contains("no capability"), "{none}");
    assert!(
        world.a2s(&["services", "--host", "no.such.example"]).exits(1).stderr.contains("A2S223")
    );
    world.a2s(&["services", "--read-only"]).exits(2);
}

#[test]
fn a_search_is_filtered_walked_and_asked_for_several_things() {
    let world = World::up(&[]);
    let search = |arguments: &[&str]| {
        let mut all = vec!["search", "weather in a city", "--json"];
        all.extend(arguments);
        world.a2s(&all).exits(0).one()
    };
    let all = search(&["--limit", "100"]);
    let names = |answer: &serde_json::Value| -> Vec<String> {
        let hits = answer["capabilities"].as_array().unwrap();
        hits.iter().map(|hit| hit["name"].as_str().unwrap().to_owned()).collect()
    };
    let weather = search(&["--service", "api.weather.com", "--limit", "100"]);
    assert!(!names(&weather).is_empty() && names(&weather).len() < names(&all).len());
    let read_only = search(&["--read-only", "--format", "OpenAPI", "--limit", "100"]);
    assert!(names(&read_only).iter().all(|name| !name.starts_with("Post")), "{read_only}");
    for arguments in
        [&["--author", "nobody at all"][..], &["--version", "^99"], &["--domain", "nobody.example"]]
    {
        let all = [&["search", "weather in a city", "--json"], arguments].concat();
        assert_eq!(names(&world.a2s(&all).exits(1).one()), [""; 0], "{arguments:?}");
    }
    let free = search(&["--no-permissions", "--limit", "100"]);
    assert!(
        free["capabilities"]
            .as_array()
            .unwrap()
            .iter()
            .all(|hit| hit["required_permissions"] == serde_json::json!([]))
    );
    // A page, and the next one.
    let first = search(&["--limit", "1"]);
    let next = first["next"].as_str().unwrap();
    let second = search(&["--limit", "1", "--cursor", next]);
    assert_eq!([names(&first), names(&second)].concat(), names(&all)[..2]);
    let foreign = world.a2s(&["search", "dog breeds", "--cursor", next]).exits(1);
    assert!(foreign.stderr.contains("A2S233"), "{foreign:?}");
    let shown = world.a2s(&["search", "weather in a city", "--limit", "1"]).exits(0).stdout;
    assert!(shown.contains("raise --limit"), "{shown}");

    let several = world
        .a2s(&["search", "weather in a city", "--also", "dog breeds", "--limit", "1", "--json"])
        .exits(0)
        .one();
    assert_eq!(several["responses"][1]["intent"], "dog breeds");
    assert_eq!(several["responses"][1]["capabilities"][0]["name"], "ListDogBreeds");
    let shown = world.a2s(&["search", "a joke", "--also", "dog breeds"]).exits(0).stdout;
    let (joke, dogs) = (shown.find("GetJoke").unwrap(), shown.find("ListDogBreeds").unwrap());
    assert!(joke < dogs, "{shown}");
    for wrong in [
        &["--limit", "0"][..],
        &["--version", "new"],
        &["--permission", "No Such"],
        &["--format", "soap"],
    ] {
        let mut all = vec!["search", "x"];
        all.extend(wrong);
        world.a2s(&all).exits(2);
    }
}
