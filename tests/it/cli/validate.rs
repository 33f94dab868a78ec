//! `a2s validate`: files alone, against each other, and against what is published.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{DOCUMENT, document};
use crate::harness::World;

/// A document that uses another one.
pub(super) fn user(name: &str, uses: &str, dependency: &str, inputs: &str) -> String {
    format!(
        r#"a2s: 1.1.0
name: {name}
description: Uses another one
domains: [api.weather.com]
version: 1.0.0
checksum: "<calculated_checksum>"
authors: [{{name: Test}}]
dependencies:
  - capability: {uses}
    {dependency}
execution:
  type: sequence
  steps:
    - id: useIt
      type: capability
      use: {uses}
      input_mapping: {inputs}
      output_mapping: {{text: "$.text"}}
"#
    )
}

#[test]
fn every_mistake_of_every_file_is_reported() {
    let world = World::down(&[]);
    let text = DOCUMENT
        .replacen("description: Gets", "descripton: Gets", 1)
        .replacen("\"$.weather.description\"", "\"weather\"", 1)
        .replacen("city: \"${city}\"", "town: \"in ${city\", x: \"${a} and ${b.}\"", 1);
    world.write("bad.yaml", &text);
    world.write("good.yaml", DOCUMENT);
    world.write("broken.yaml", "a: [1, 2\nb: }");
    world.write("empty.yaml", "");
    world.write("twice.yaml", &DOCUMENT.replacen("version:", "name: GetThing\nversion:", 1));
    let files = ["bad.yaml", "good.yaml", "broken.yaml", "empty.yaml", "twice.yaml"];
    let arguments: Vec<&str> = ["validate"].into_iter().chain(files).collect();
    assert_snapshot!(world.a2s(&arguments).transcript());
    world.a2s(&["validate", "missing.yaml"]).exits(1);
    world.a2s(&["validate", "good.yaml"]).exits(0);
}

#[test]
fn a_folder_gives_one_line_for_each_file_and_a_summary() {
    let world = World::down(&[]);
    world.write("b.yaml", DOCUMENT);
    world.write("a.yaml", "a: 1");
    world.write("c.txt", "no document");
    let folder = world.folder();
    std::fs::create_dir_all(folder.join("sub/.hidden")).unwrap();
    std::fs::write(folder.join("sub/d.json"), "{}").unwrap();
    std::fs::write(folder.join("sub/.hidden/e.yaml"), "{}").unwrap();
    std::fs::write(folder.join("latin.yaml"), b"name: caf\xe9\n").unwrap();
    std::fs::write(folder.join("huge.yaml"), vec![b' '; 5 << 20]).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        symlink(folder, folder.join("sub/up")).unwrap();
        symlink("nowhere.yaml", folder.join("dangling.yaml")).unwrap();
        symlink("loop.yaml", folder.join("loop.yaml")).unwrap();
    }
    let mut lines = world.a2s(&["validate", "--json", "."]).exits(1).json();
    let summary = lines.pop().unwrap();
    let counts =
        json!({"files": 7, "valid": 1, "invalid": 6, "warnings": summary["summary"]["warnings"]});
    assert_eq!(summary["summary"], counts);
    let found: Vec<Value> = lines
        .iter()
        .map(|line| {
            let code = [&line["issues"][0]["code"], &line["error"]["code"]];
            json!([line["file"], line["valid"], code.into_iter().find(|code| code.is_string())])
        })
        .collect();
    assert_eq!(
        found,
        [
            json!(["./a.yaml", false, "A2S010"]),
            json!(["./b.yaml", true, "A2S030"]),
            json!(["./dangling.yaml", false, "A2S500"]),
            json!(["./huge.yaml", false, "A2S001"]),
            json!(["./latin.yaml", false, "A2S002"]),
            json!(["./loop.yaml", false, "A2S500"]),
            json!(["./sub/d.json", false, "A2S010"]),
        ]
    );
    let quiet = world.a2s(&["validate", "--quiet", "."]).exits(1).stdout;
    assert!(!quiet.contains("b.yaml") && !quiet.contains("warning"), "{quiet}");
    assert!(quiet.contains("a.yaml") && quiet.contains("dangling.yaml"), "{quiet}");
    assert_eq!(world.a2s(&["validate", "-q", "b.yaml"]).exits(0).stdout, "");
    world.a2s(&["validate", "sub/.hidden"]).exits(1);
    std::fs::create_dir(folder.join("empty")).unwrap();
    world.a2s(&["validate", "b.yaml", "empty"]).exits(2);
}

#[test]
fn many_files_are_reported_in_order() {
    let world = World::down(&[]);
    for index in 0..300 {
        world.write(&format!("{index:03}.yaml"), if index % 7 == 0 { "" } else { DOCUMENT });
    }
    let mut lines = world.a2s(&["validate", "--json", "."]).exits(1).json();
    assert_eq!(lines.pop().unwrap()["summary"]["invalid"], 43);
    let names: Vec<&str> = lines.iter().map(|line| line["file"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 300);
    assert!(names.is_sorted());
    assert!(lines.iter().enumerate().all(|(index, line)| line["valid"] == (index % 7 != 0)));
}

#[test]
fn foreign_text_does_nothing_to_the_terminal() {
    let world = World::down(&[]);
    let name = "\\e[2J\\e]0;owned\\a\u{202e}";
    let text = DOCUMENT
        .replacen("description: Gets", &format!("\"{name}\": 1\ndescription: Gets"), 1)
        .replacen("$.weather.description", name, 1);
    world.write("bad.yaml", &text);
    let ran = world.a2s(&["validate", "--color", "always", "bad.yaml"]).exits(1);
    let styles = regex::Regex::new("\u{1b}\\[[0-9;]*m").unwrap();
    let shown = styles.replace_all(&ran.stdout, "");
    assert!(shown.contains("owned"), "{shown}");
    assert!(!shown.chars().any(|c| c.is_control() && c != '\n' || c == '\u{202e}'), "{shown:?}");
}

#[test]
fn files_are_checked_against_each_other() {
    let world = World::down(&[]);
    world.write("GetThing.yaml", DOCUMENT);
    let write = |name: &str, uses: &str, dependency: &str, inputs: &str| {
        world.write(&format!("{name}.yaml"), &user(name, uses, dependency, inputs));
    };
    write("Good", "GetThing", "version: ^1.0.0", "{city: Paris}");
    write("Newer", "GetThing", "version: ^2.0.0", "{city: Paris}");
    write("Misspelt", "GetThing", "version: ^1.0.0", "{city: Paris, cty: Rome}");
    let pin = format!("version: ^1.0.0\n    checksum: \"sha256:{}\"", "0".repeat(64));
    write("Pinned", "GetThing", &pin, "{city: Paris}");
    write("Elsewhere", "Unknown", "version: ^1.0.0", "{}");
    write("OnBroken", "Broken", "version: ^1.0.0", "{}");
    world.write("Broken.yaml", &DOCUMENT.replace("GetThing", "Broken").replace("domains", "x"));
    world.write("Again.yaml", &DOCUMENT.replace("by its id", "by its name"));
    assert_snapshot!(world.a2s(&["validate", "."]).transcript());
    // Alone, nothing is known of the others.
    let alone = world.a2s(&["validate", "--json", "Newer.yaml"]).exits(0).json();
    assert_eq!(alone[0]["notes"].as_array().unwrap().len(), 1);
}

#[test]
fn the_registry_is_asked_when_that_is_wanted() {
    let world = World::up(&[]);
    world.a2s(&["publish", &document(&world, "Published", "\0", "")]).exits(0);
    let check = |dependency: &str, flags: &[&str]| {
        let path = world.write("User.yaml", &user("User", "Published", dependency, "{city: x}"));
        let arguments: Vec<&str> =
            ["validate", "--json", &path].into_iter().chain(flags.iter().copied()).collect();
        let line = world.a2s(&arguments).json().remove(0);
        let errors = line["issues"].as_array().unwrap().iter();
        let codes: Vec<String> = errors
            .filter(|issue| issue["severity"] == "error")
            .map(|issue| issue["code"].as_str().unwrap().to_owned())
            .collect();
        (codes.join(" "), line["notes"].as_array().map_or(0, Vec::len))
    };
    assert_eq!(check("version: ^2.0.0", &[]), (String::new(), 1));
    assert_eq!(check("version: ^2.0.0", &["--registry"]), ("A2S062".to_owned(), 0));
    assert_eq!(check("version: ^1.0.0", &["--registry"]), (String::new(), 0));
    // A newer version among the files counts as if it were published.
    let newer =
        DOCUMENT.replace("GetThing", "Published").replace("version: 1.0.0", "version: 2.1.0");
    world.write("newer.yaml", &newer.replacen("version: 2.1.0}", "version: 1.0.0}", 1));
    assert_eq!(check("version: ^2.0.0", &["newer.yaml"]), (String::new(), 0));
    assert_eq!(check("version: ^1.0.0", &["newer.yaml"]), ("A2S062".to_owned(), 1));
    assert_eq!(check("version: ^1.0.0", &["newer.yaml", "--registry"]), (String::new(), 0));

    let unreachable = ["validate", "User.yaml", "--registry", "--url", "http://127.0.0.1:1"];
    let failed = world.a2s(&unreachable).exits(4);
    assert!(failed.stdout.contains("User.yaml"), "the files are checked all the same: {failed:?}");
}
