//! `a2s test`, and what publishing makes of examples that fail.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::DOCUMENT;
use super::validate::user;
use crate::harness::World;

/// What makes a document of the language 1.1 with examples.
fn with_examples(name: &str, examples: &str) -> String {
    let text = DOCUMENT.replace("GetThing", name).replacen("a2s: 1.0.0", "a2s: 1.1.0", 1);
    format!("{text}examples:\n{examples}")
}

const GOOD: &str = "  - title: Sunny\n    inputs: {city: Paris}\n    answers: {getThing: {body: {weather: {description: sunny}}}}\n    output: {text: sunny}\n";
const OTHER: &str = "  - title: Not what it seems\n    inputs: {city: Paris}\n    answers: {getThing: {body: {weather: {description: sunny}}}}\n    output: {text: cloudy}\n";
const FAILING: &str = "  - inputs: {city: Atlantis}\n    answers: {getThing: {status: 404}}\n";
const UNANSWERED: &str = "  - inputs: {city: Paris}\n";

#[test]
fn a_folder_is_tried_as_a_test_runner_does() {
    let world = World::down(&[]);
    std::fs::create_dir(world.folder().join("all")).unwrap();
    world.write("all/a.yaml", &with_examples("Alpha", GOOD));
    world.write(
        "all/b.yaml",
        &with_examples("Beta", &format!("{GOOD}{OTHER}{FAILING}{UNANSWERED}")),
    );
    world.write("all/c.yaml", DOCUMENT);
    assert_snapshot!("test_folder", world.a2s(&["test", "all"]).transcript());

    let told = world.a2s(&["test", "all", "--json"]).exits(1).json();
    assert_eq!(told.len(), 7, "{told:?}");
    assert_eq!((&told[0]["name"], &told[0]["passed"]), (&json!("Alpha"), &json!(true)));
    assert_eq!((&told[2]["example"], &told[2]["passed"]), (&json!(1), &json!(false)));
    let difference = json!([{"path": "$.text", "expected": "cloudy", "found": "sunny"}]);
    assert_eq!(told[2]["failures"], json!([{ "output": difference }]));
    assert_eq!(told[3]["failures"][0]["error"]["code"], "A2S357");
    assert_eq!(told[4]["failures"][0]["error"]["code"], "A2S329");
    assert_eq!(told[5], json!({"target": "all/c.yaml", "name": "GetThing", "examples": 0}));
    let summary = json!({"passed": 2, "failed": 3, "bad": 0, "without_examples": 1});
    assert_eq!(told[6], json!({ "summary": summary }));

    world.a2s(&["test", "all/a.yaml", "all/c.yaml"]).exits(0);
    world.a2s(&["test", "all/a.yaml", "all/c.yaml", "--require-examples"]).exits(1);
    let some = world.a2s(&["test", "all", "--filter", "SUNNY"]).exits(0);
    assert!(some.stdout.contains("2 passed, 0 failed, 1 without examples, 3 left out"), "{some:?}");
    world.a2s(&["test"]).exits(2);
    world.a2s(&["test", "no-such-name"]).exits(2);
}

#[test]
fn what_cannot_be_tried_is_bad_and_the_rest_is_tried() {
    let world = World::down(&[]);
    world.write("good.yaml", &with_examples("Alpha", GOOD));
    let broken = with_examples("Broken", GOOD).replace("title: Sunny", "titel: Sunny");
    world.write("broken.yaml", &broken);
    let targets = ["test", "good.yaml", "broken.yaml", "gone.yaml"];
    assert_snapshot!("test_bad", world.a2s(&targets).transcript());
    let typed = world.a2s_reading(&with_examples("Alpha", GOOD), &["test", "-"]);
    assert!(typed.exits(0).stdout.contains("1 passed"));
}

/// A document that uses another one, with an example that answers inside of that.
fn top(range: &str) -> String {
    let text = user("Top", "Low", range, "{city: \"${city}\"}");
    let example = "examples:\n  - inputs: {city: Paris}\n    answers: {use/getThing: {body: {weather: {description: sunny}}}}\n    output: {text: sunny}\n";
    let text = text.replacen("a2s: 1.0.0", "a2s: 1.1.0", 1);
    let id = a2s::compile(text.as_bytes()).document.unwrap();
    let step = id.capability().execution.children()[0].id.to_string();
    format!("{text}{}", example.replace("use/", &format!("{step}/")))
}

#[test]
fn what_is_used_comes_from_the_files_or_else_from_the_registry() {
    let alone = World::down(&[]);
    let low = DOCUMENT.replace("GetThing", "Low");
    alone.write("top.yaml", &top("version: ^1.0.0"));
    let missing = alone.a2s(&["test", "top.yaml"]).exits(4);
    assert!(
        missing.stdout.contains("uses `Low`, but no matching version is available"),
        "{missing:?}"
    );
    alone.write("low.yaml", &low);
    alone.a2s(&["test", "top.yaml", "low.yaml"]).exits(0);

    let world = World::up(&[]);
    world.publish(&low);
    world.write("top.yaml", &top("version: ^1.0.0"));
    let tried = world.a2s(&["test", "top.yaml", "--json"]).exits(0).json();
    assert_eq!(tried[0]["made_up"], json!([]));
    world.write("newer.yaml", &top("version: ^2.0.0"));
    let tried = world.a2s(&["test", "newer.yaml", "--json"]).exits(1).json();
    assert_eq!(tried[0]["error"]["code"], "A2S316", "{tried:?}");

    world.a2s(&["checksum", "--write", "top.yaml"]).exits(0);
    world.a2s(&["publish", "top.yaml"]).exits(0);
    let named = world.a2s(&["test", "Top@^1", "ListDogBreeds"]).exits(0);
    assert!(named.stdout.contains("1 passed, 0 failed, 1 without examples"), "{named:?}");
    world.a2s(&["test", "NobodyPublishedThis"]).exits(1);
    assert_eq!(world.standin("api.weather.com").requests(), 0, "nothing is sent");
}

#[test]
fn a_document_is_not_published_when_its_examples_fail() {
    let world = World::up(&[]);
    let path = world.write("Beta.yaml", &with_examples("Beta", &format!("{GOOD}{OTHER}")));
    world.a2s(&["checksum", "--write", &path]).exits(0);
    assert_snapshot!("publish_failing_example", world.a2s(&["publish", "Beta.yaml"]).transcript());
    let refused: Value = world.a2s(&["publish", "Beta.yaml", "--json"]).exits(1).one();
    assert_eq!(refused["error"]["code"], "A2S509");
    world.a2s(&["show", "Beta"]).exits(1);
    world.a2s(&["publish", "Beta.yaml", "--skip-tests"]).exits(0);
    world.a2s(&["show", "Beta"]).exits(0);
}
