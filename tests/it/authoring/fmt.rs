//! `a2s fmt`.

use std::io::Write as _;
use std::process::Stdio;

use a2s_authoring::format_document;

use super::Desk;
use crate::harness::{command, root};

const UNTIDY: &str = "\
# The file.

# called so
name:   GetThing   # really
a2s: 1.0.0
description: Gets a thing
domains: [ api.example.com ]
version: '1.0.0'
checksum: '<x>'
authors: [{name: Me}]
execution:
    steps:
    -   format: GraphQL
        id: getThing
        # the query
        task: {endpoint: 'https://api.example.com/graphql', query: '{ thing }'}
    type: sequence
";

const TIDY: &str = "\
# The file.

a2s: 1.0.0
# called so
name: GetThing # really
description: Gets a thing
domains: [api.example.com]
version: \"1.0.0\"
checksum: \"<x>\"
authors: [{name: Me}]
execution:
  type: sequence
  steps:
    - id: getThing
      format: GraphQL
      # the query
      task: {endpoint: \"https://api.example.com/graphql\", query: \"{ thing }\"}
";

#[test]
fn documents_are_laid_out_and_keep_their_checksum() {
    let desk = Desk::new();
    desk.write("a.yaml", UNTIDY);
    desk.write("b.yml", TIDY);
    let before = desk.a2s(&["checksum", "a.yaml"]).exits(0).stdout;

    let checked = desk.a2s(&["fmt", "--check", "."]).exits(1);
    assert!(checked.stdout.contains("a.yaml") && !checked.stdout.contains("b.yml"), "{checked:?}");
    assert_eq!(desk.read("a.yaml"), UNTIDY);
    let diff = desk.a2s(&["fmt", "--diff", "a.yaml"]).exits(0);
    let lines = ["-version: '1.0.0'\n", "+version: \"1.0.0\"\n"];
    assert!(lines.iter().all(|line| diff.stdout.contains(line)), "{diff:?}");
    assert_eq!(desk.read("a.yaml"), UNTIDY);

    desk.a2s(&["fmt", "."]).exits(0);
    assert_eq!(desk.read("a.yaml"), TIDY);
    assert_eq!(desk.a2s(&["checksum", "a.yaml"]).exits(0).stdout, before);
    desk.a2s(&["fmt", "--check", "."]).exits(0);
    let json = desk.a2s(&["fmt", "--json", "."]).exits(0).json();
    assert!(json.iter().all(|file| file["changed"] == false), "{json:?}");
    assert_eq!(desk.files("."), ["a.yaml", "b.yml"]);
}

#[test]
fn standard_input_is_laid_out_on_standard_output() {
    let fmt = |arguments: &[&str], text: &str| {
        let mut child = command(&[])
            .arg("fmt")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(fmt(&["-"], UNTIDY), (0, TIDY.to_owned()));
    assert_eq!(fmt(&["--check", "-"], UNTIDY), (1, String::new()));
    assert_eq!(fmt(&["--check", "-"], TIDY), (0, String::new()));
    let json = "{\"version\": \"1.0\", \"a2s\": \"1.0.0\"}";
    let tidy = "{\n  \"a2s\": \"1.0.0\",\n  \"version\": \"1.0\"\n}\n";
    assert_eq!(fmt(&["-"], json), (0, tidy.to_owned()));
}

#[test]
fn what_cannot_be_read_stays_as_it_is_and_the_rest_is_laid_out() {
    let desk = Desk::new();
    desk.write("bad.yaml", "a: [1\nb: 2\n");
    desk.write("good.yaml", UNTIDY);
    let ran = desk.a2s(&["fmt", "bad.yaml", "good.yaml", "missing.yaml"]).exits(1);
    assert!(ran.stdout.contains("A2S003") && ran.stderr.contains("missing.yaml"), "{ran:?}");
    assert_eq!(desk.read("bad.yaml"), "a: [1\nb: 2\n");
    assert_eq!(desk.read("good.yaml"), TIDY);
}

#[test]
fn shipped_documents_keep_their_checksum_and_come_to_rest() {
    for entry in std::fs::read_dir(root().join("capabilities")).unwrap() {
        let path = entry.unwrap().path();
        let source = std::fs::read(&path).unwrap();
        let formatted = format_document(&source).unwrap();
        let digest = |source: &[u8]| a2s::compile_with_checksum(source).document.unwrap().digest();
        assert_eq!(digest(formatted.as_bytes()), digest(&source), "{}", path.display());
        assert_eq!(format_document(formatted.as_bytes()).as_ref(), Ok(&formatted));
        let comments = |text: &str| text.matches(" # ").count() + text.matches("\n#").count();
        let before = String::from_utf8(source).unwrap();
        assert_eq!(comments(&formatted), comments(&before), "{}", path.display());
    }
}
