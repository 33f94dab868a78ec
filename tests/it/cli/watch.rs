//! `a2s validate --watch`, as an editor's user lives with it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;

use super::DOCUMENT;
use super::validate::user;
use crate::harness::{World, command};

/// The command at work, and what it prints. It is killed when it is dropped.
struct Watch {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Watch {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut child = command(&[])
            .args(["validate", "--watch"])
            .args(arguments)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "it has ended");
        line.trim_end().to_owned()
    }

    /// What is said until the next summary that satisfies `is_enough`: files by name, then the
    /// summary. A save may be seen in parts.
    fn until(&mut self, is_enough: impl Fn(&Value) -> bool) -> (Vec<Value>, Value) {
        let mut files = Vec::new();
        loop {
            let mut line: Value = serde_json::from_str(&self.line()).unwrap();
            if line["summary"].is_null() {
                files.push(line);
            } else if is_enough(&line["summary"]) {
                return (files, line["summary"].take());
            }
        }
    }

    /// Ends it from the keyboard.
    fn interrupt(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        let told = std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap();
        assert!(told.success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // One that has ended already is as good as killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn of<'v>(files: &'v [Value], name: &str) -> &'v Value {
    files.iter().rev().find(|file| file["file"] == name).unwrap_or(&Value::Null)
}

#[test]
fn what_changes_is_checked_again() {
    let world = World::down(&[]);
    let folder = world.folder().join("documents");
    std::fs::create_dir(&folder).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("a.yaml", DOCUMENT);
    let mut watch = Watch::start(&folder, &["--json", "."]);
    let (files, summary) = watch.until(|_| true);
    assert_eq!(files.len(), 1);
    assert_eq!((&summary["files"], &summary["invalid"]), (&Value::from(1), &Value::from(0)));
    assert!(summary["at"].is_string());

    // Another file appears, and uses the first.
    write("b.yaml", &user("User", "GetThing", "version: ^1.0.0", "{city: x}"));
    let (files, _) = watch.until(|summary| summary["files"] == 2 && summary["invalid"] == 0);
    assert_eq!(of(&files, "./b.yaml")["valid"], true);
    assert_eq!(of(&files, "./a.yaml"), &Value::Null, "what did not change is not reported");

    // A change of one shows in the other.
    write("a.yaml", &DOCUMENT.replacen("version: 1.0.0", "version: 2.0.0", 1));
    // An empty file, seen in the middle of the save, is invalid as well.
    loop {
        let (files, _) = watch.until(|summary| summary["invalid"] == 1);
        if of(&files, "./b.yaml")["issues"][1]["code"] == "A2S062" {
            break;
        }
    }

    // As editors save: a new file takes the place of the old one.
    write("a.yaml.new", DOCUMENT);
    std::fs::rename(folder.join("a.yaml.new"), folder.join("a.yaml")).unwrap();
    let (files, _) = watch.until(|summary| summary["invalid"] == 0);
    assert_eq!(of(&files, "./b.yaml")["valid"], true);

    // A folder appears with a file in it, and goes.
    std::fs::create_dir(folder.join("sub")).unwrap();
    write("sub/c.yaml", "");
    let (files, _) = watch.until(|summary| summary["files"] == 3 && summary["invalid"] == 1);
    assert_eq!(of(&files, "./sub/c.yaml")["valid"], false);
    std::fs::remove_dir_all(folder.join("sub")).unwrap();
    let (files, _) = watch.until(|summary| summary["files"] == 2);
    assert_eq!(of(&files, "./sub/c.yaml")["gone"], true);

    assert_eq!(watch.interrupt(), Some(0));
}

#[test]
fn a_person_reads_a_verdict_for_each_save() {
    let world = World::down(&[]);
    world.write("a.yaml", DOCUMENT);
    world.write("b.yaml", "a: 1");
    let mut watch = Watch::start(world.folder(), &["a.yaml", "b.yaml"]);
    let verdict = |line: &str| {
        let (time, verdict) = line.split_once("  ").unwrap_or_default();
        let is_time = time.len() == 8 && time.bytes().filter(|b| *b == b':').count() == 2;
        is_time.then(|| verdict.to_owned())
    };
    let mut until_verdict = |ending: &str| {
        let mut before = Vec::new();
        loop {
            let line = watch.line();
            if verdict(&line).is_some_and(|verdict| verdict.starts_with(ending)) {
                return before;
            }
            before.push(line);
        }
    };
    until_verdict("bad   1 of 2 files");
    // Saving the good one says again that the other is bad, in one line.
    world.write("a.yaml", &format!("# saved\n{DOCUMENT}"));
    let lines = until_verdict("bad   1 of 2 files");
    assert!(lines.iter().any(|line| line.starts_with("good  a.yaml")), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("bad   b.yaml")), "{lines:?}");
    world.write("b.yaml", &DOCUMENT.replace("GetThing", "Other"));
    let lines = until_verdict("good  2 files");
    assert!(lines.iter().any(|line| line.starts_with("good  b.yaml")), "{lines:?}");
}
