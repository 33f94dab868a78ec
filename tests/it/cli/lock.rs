//! `a2s lock`, and runs with a lock, through the real services.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::DOCUMENT;
use super::validate::user;
use crate::harness::World;

/// Writes the document of a version, whose result begins with `word`, with its checksum.
fn low(world: &World, version: &str, word: &str) -> String {
    let text = DOCUMENT.replace("GetThing", "Low").replacen(
        "version: 1.0.0",
        &format!("version: {version}"),
        1,
    ) + &format!("output: {{text: \"{word} ${{text}}\"}}\n");
    let path = world.write(&format!("Low-{version}.yaml"), &text);
    world.a2s(&["checksum", "--write", &path]).exits(0);
    path
}

/// Publishes `Low` 1.0.0 and `Top`, which uses it, and locks `Top`.
fn locked(world: &World) -> (String, String) {
    world.a2s(&["publish", &low(world, "1.0.0", "old")]).exits(0);
    let inputs = "{city: \"${city}\"}";
    let top = world.write("Top.yaml", &user("Top", "Low", "version: ^1.0.0", inputs));
    world.a2s(&["checksum", "--write", &top]).exits(0);
    world.a2s(&["publish", &top]).exits(0);
    world.a2s(&["lock", &top]).exits(0);
    let lock = top.replace(".yaml", ".lock");
    (top, lock)
}

fn run(world: &World, flags: &[&str]) -> Value {
    let arguments = ["run", "Top", "--input", "city=Paris", "--json"];
    let arguments: Vec<&str> = arguments.into_iter().chain(flags.iter().copied()).collect();
    world.a2s(&arguments).one()
}

#[test]
fn a_locked_run_is_the_same_whatever_is_published_later() {
    let world = World::up(&[]);
    let (top, lock) = locked(&world);
    assert_snapshot!("lock_again", world.a2s(&["lock", "Top.yaml"]).transcript());
    assert_snapshot!("lock_file", std::fs::read_to_string(&lock).unwrap());
    assert_snapshot!("lock_current", world.a2s(&["lock", "--check", "Top.yaml"]).transcript());
    let before = run(&world, &["--lock", &lock]);
    assert_eq!(before["status"], "succeeded", "{before}");
    assert!(before["output"]["text"].as_str().unwrap().starts_with("old "), "{before}");

    world.a2s(&["publish", &low(&world, "1.1.0", "new")]).exits(0);
    let unlocked = run(&world, &[]);
    assert!(unlocked["output"]["text"].as_str().unwrap().starts_with("new "), "{unlocked}");
    assert_eq!(run(&world, &["--lock", &lock])["output"], before["output"]);
    let plan = run(&world, &["--lock", &lock, "--dry-run"]);
    assert_eq!(plan["dependencies"][0]["version"], "1.0.0");
    assert_eq!(run(&world, &["--dry-run"])["dependencies"][0]["version"], "1.1.0");

    assert_snapshot!("lock_stale", world.a2s(&["lock", "--check", "Top.yaml"]).transcript());
    let changed = world.a2s(&["lock", "--check", "--json", &top]).exits(1).one();
    assert_eq!(changed["current"], false);
    assert_eq!(changed["changes"], json!(["Low 1.0.0 would be 1.1.0"]));
    world.a2s(&["lock", &top]).exits(0);
    world.a2s(&["lock", "--check", &top]).exits(0);
    assert_eq!(run(&world, &["--lock", &lock])["output"], unlocked["output"]);
}

#[test]
fn nothing_runs_that_the_lock_does_not_name() {
    let world = World::up(&[]);
    let (_, lock) = locked(&world);
    let sent = world.standin("api.weather.com").requests();
    let refuse = |change: &dyn Fn(&mut Value)| {
        let source = std::fs::read(&lock).unwrap();
        let mut content = a2s::parse_value(&source).unwrap();
        change(&mut content);
        // Whoever changes a lock can write its checksum, too.
        content["checksum"] = json!(a2s::Digest::of_document(&content).unwrap());
        let path = world.write("other.lock", &content.to_string());
        let arguments = ["run", "Top", "--input", "city=Paris", "--lock", &path, "--json"];
        let refused = world.a2s(&arguments).exits(1).one();
        refused["error"]["code"].as_str().unwrap_or_default().to_owned()
    };
    let other = json!(a2s::Digest::of_bytes(b"other"));
    assert_eq!(refuse(&|lock| lock["dependencies"] = json!([])), "A2S317");
    assert_eq!(refuse(&|lock| lock["dependencies"][0]["name"] = json!("Other")), "A2S317");
    assert_eq!(refuse(&|lock| lock["dependencies"][0]["version"] = json!("2.0.0")), "A2S317");
    assert_eq!(refuse(&|lock| lock["dependencies"][0]["version"] = json!("1.0.1")), "A2S312");
    assert_eq!(refuse(&|lock| lock["dependencies"][0]["checksum"] = other.clone()), "A2S313");
    assert_eq!(refuse(&|lock| lock["capability"]["checksum"] = other.clone()), "A2S313");
    assert_eq!(refuse(&|lock| lock["capability"]["name"] = json!("Low")), "A2S508");
    assert_eq!(refuse(&|lock| lock["lock"] = json!(2)), "A2S508");
    assert_eq!(world.standin("api.weather.com").requests(), sent, "nothing was sent");

    let text = std::fs::read_to_string(&lock).unwrap();
    world.write("edited.lock", &text.replacen("version: \"1.0.0\"", "version: \"1.0.1\"", 1));
    assert_snapshot!(
        "lock_edited",
        world.a2s(&["run", "Top", "--lock", "edited.lock"]).transcript()
    );
    world.a2s(&["run", "Top@^2", "--lock", &lock]).exits(1);
    world.a2s(&["run", "Top", "--lock", "missing.lock"]).exits(1);
}

#[test]
fn a_folder_is_locked_without_a_registry() {
    let world = World::down(&[]);
    std::fs::create_dir(world.folder().join("parts")).unwrap();
    let top = world.write("Top.yaml", &user("Top", "Low", "version: ^1.0.0", "{city: x}"));
    let missing = world.a2s(&["lock", &top, "--folder", "."]).exits(1);
    assert!(missing.stderr.contains("A2S508") && missing.stderr.contains("`Low`"), "{missing:?}");
    for (version, word) in [("1.0.0", "old"), ("1.2.0", "new"), ("2.0.0", "next")] {
        let path = low(&world, version, word);
        std::fs::rename(&path, world.folder().join(format!("parts/{version}.yaml"))).unwrap();
    }
    let locked = world.a2s(&["lock", &top, "--folder", "parts", "--json"]).exits(0).one();
    assert_eq!(locked["dependencies"][0]["version"], "1.2.0");
    assert_eq!(locked["dependencies"].as_array().unwrap().len(), 1);
    assert_eq!(locked["written"], true);
    let again = world.a2s(&["lock", &top, "--folder", "parts", "--json"]).exits(0).one();
    assert_eq!(again["written"], false);
    world.a2s(&["lock", "--check", &top, "--folder", "parts"]).exits(0);

    world.write("Bad.yaml", &user("Bad", "Low", "version: ^1.0.0", "{town: x}"));
    assert_snapshot!(
        "lock_refused",
        world.a2s(&["lock", "Bad.yaml", "--folder", "parts"]).transcript()
    );
    world.a2s(&["lock", "-"]).exits(2);
}
