//! Writing documents: `a2s new`, `a2s fmt`, `a2s import`.

mod everything;
mod fmt;
mod import;

use std::path::Path;

use tempfile::TempDir;

use crate::harness::{Ran, a2s_in};

/// A folder of its own, and the command in it.
struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs the command in the folder.
    fn a2s(&self, arguments: &[&str]) -> Ran {
        a2s_in(self.path(), &[], arguments)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    /// The names of the files, in order.
    fn files(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path().join(folder)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn a_new_document_is_valid_and_replaces_nothing() {
    let desk = Desk::new();
    for (name, flag) in
        [("GetOne", "--openapi"), ("GetTwo", "--graphql"), ("GetThree", "--sequence")]
    {
        desk.a2s(&["new", name, flag]).exits(0);
        let file = format!("{name}.yaml");
        let validated = desk.a2s(&["validate", "--json", &file]).exits(0).json();
        assert_eq!(validated[0]["name"], name);
        // All that is left to do is the checksum.
        assert_eq!(validated[0]["issues"].as_array().unwrap().len(), 1);
        assert_eq!(validated[0]["issues"][0]["code"], "A2S030");
        desk.a2s(&["fmt", "--check", &file]).exits(0);
        desk.a2s(&["checksum", "--write", &file]).exits(0);
        desk.a2s(&["verify", &file]).exits(0);
    }

    desk.write("Mine.yaml", "mine");
    let refused = desk.a2s(&["new", "Mine"]).exits(1);
    assert!(refused.stderr.contains("Mine.yaml exists already"), "{refused:?}");
    assert_eq!(desk.read("Mine.yaml"), "mine");
    desk.a2s(&["new", "Mine", "--out", "Other.yaml"]).exits(0);
    assert!(desk.read("Other.yaml").contains("name: Mine"));

    let printed = desk.a2s(&["new", "GetFour", "--out", "-"]).exits(0);
    assert!(printed.stdout.contains("name: GetFour"));
    let close = desk.a2s(&["new", "not-a-name"]).exits(2);
    assert!(close.stderr.contains("Did you mean `NotAName`?"), "{close:?}");
    desk.a2s(&["new", "GetFive", "--graphql", "--sequence"]).exits(2);
    assert!(!desk.path().join("GetFive.yaml").exists());
}
