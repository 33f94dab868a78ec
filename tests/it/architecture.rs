//! The rules of ARCHITECTURE.md that can be checked by reading the repository.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::{assert_page, root};

/// Every Rust file below a folder.
fn sources(folder: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        if folder.is_file() {
            files.push(folder);
            continue;
        }
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// The packages of the workspace, as cargo describes them.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline", "--locked"])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// The folders of the crates. The command is in the root, and its code in `src`.
fn crate_folders() -> Vec<String> {
    let folders = packages().into_iter().map(|package| {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        let folder = manifest.parent().unwrap().strip_prefix(root()).unwrap();
        folder.to_str().unwrap().to_owned()
    });
    folders.map(|folder| if folder.is_empty() { "src".to_owned() } else { folder }).collect()
}

/// The folders with the code of the product.
fn product_folders() -> Vec<String> {
    let source = |folder: String| if folder == "src" { folder } else { format!("{folder}/src") };
    crate_folders().into_iter().filter(|folder| !folder.starts_with("tests")).map(source).collect()
}

/// Returns true for a file of tests beside the code.
fn is_test(file: &Path) -> bool {
    file.with_extension("").components().any(|part| part.as_os_str() == "tests")
}

/// The lines of a file that are not in a test.
fn code(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().take_while(|line| *line != "#[cfg(test)]").map(str::to_owned).collect()
}

#[test]
fn crates_depend_on_each_other_as_the_map_says() {
    let packages = packages();
    let members: BTreeSet<&str> =
        packages.iter().map(|package| package["name"].as_str().unwrap()).collect();
    let arrows = |is_kind: fn(&Value) -> bool| -> BTreeMap<&str, BTreeSet<&str>> {
        let inner = packages.iter().map(|package| {
            let dependencies = package["dependencies"].as_array().unwrap().iter();
            let names = dependencies.filter(|dependency| is_kind(&dependency["kind"]));
            let names = names.map(|dependency| dependency["name"].as_str().unwrap());
            let names = names.filter(|name| members.contains(name));
            (package["name"].as_str().unwrap(), names.collect())
        });
        inner.collect()
    };
    let expected = BTreeMap::from([
        ("a2a", BTreeSet::from(["a2s", "a2s-api", "a2s-intent", "agent", "aos"])),
        ("a2s", BTreeSet::from(["bounded-cel"])),
        ("a2s-api", BTreeSet::from(["a2s"])),
        ("a2s-authoring", BTreeSet::from(["a2s"])),
        ("a2s-intent", BTreeSet::from(["a2s"])),
        ("agent", BTreeSet::from(["a2s", "a2s-api", "a2s-authoring", "a2s-intent", "aos"])),
        ("aos", BTreeSet::new()),
        ("bounded-cel", BTreeSet::new()),
        ("database", BTreeSet::new()),
        ("mcp", BTreeSet::from(["a2s", "a2s-api", "agent"])),
        (
            "registry",
            BTreeSet::from([
                "a2s",
                "a2s-api",
                "a2s-authoring",
                "a2s-intent",
                "database",
                "sentence-encoder",
            ]),
        ),
        ("sentence-encoder", BTreeSet::new()),
        ("executor", BTreeSet::from(["a2s", "a2s-api", "aos", "database"])),
        ("guardian", BTreeSet::from(["aos", "bounded-cel"])),
        (
            "a2s-cli",
            BTreeSet::from([
                "a2a",
                "a2s",
                "a2s-api",
                "a2s-authoring",
                "agent",
                "aos",
                "executor",
                "guardian",
                "mcp",
                "registry",
            ]),
        ),
        ("test-support", BTreeSet::from(["a2s"])),
    ]);
    // No arrow of the product leads to `test-support`. The conformance tests of the executor import, and a
    // property of what it shows is one of the policies that judge it.
    assert_eq!(arrows(|kind| kind != "dev"), expected);
    for (name, dependencies) in arrows(|kind| kind == "dev") {
        assert!(
            dependencies
                .iter()
                .all(|inner| ["test-support", "a2s-authoring", "guardian"].contains(inner)),
            "{name}: {dependencies:?}"
        );
    }
}

#[test]
fn the_core_touches_no_network_file_clock_or_environment() {
    const PURE: [&str; 34] = [
        "a2s/src",
        "a2s-authoring/src",
        "a2s-intent/src",
        "bounded-cel/src",
        "aos/src/message.rs",
        "aos/src/message",
        "a2a/src/wire_versions.rs",
        "executor/src/engine/send/send_progress.rs",
        "executor/src/outbound/retry.rs",
        "executor/src/plan.rs",
        "executor/src/request.rs",
        "executor/src/request",
        "executor/src/telemetry/pre_run_decisions.rs",
        "executor/src/telemetry/context.rs",
        "executor/src/telemetry/ocsf.rs",
        "executor/src/telemetry/ocsf/event.rs",
        "executor/src/telemetry/ocsf/event_builder.rs",
        "executor/src/telemetry/otlp.rs",
        "executor/src/telemetry/spans.rs",
        "executor/src/telemetry/spans",
        "executor/src/telemetry/step_tracker.rs",
        "registry/src/rank_fusion.rs",
        "registry/src/latency_histogram.rs",
        "registry/src/io_matching.rs",
        "registry/src/rank.rs",
        "registry/src/rank",
        "registry/src/retrieval.rs",
        "registry/src/host_health.rs",
        "registry/src/outcome_weighting.rs",
        "guardian/src/policy_tests.rs",
        "guardian/src/policy_tests",
        "guardian/src/policy.rs",
        "guardian/src/policy",
        "src/commands/run/tree.rs",
    ];
    const IMPURE: [&str; 9] = [
        "tokio::",
        "reqwest::",
        "std::fs",
        "std::net::Tcp",
        "std::env",
        "SystemTime",
        "Instant::now",
        "Timestamp::now",
        "async fn",
    ];
    let mut found = Vec::new();
    for file in PURE.iter().flat_map(|path| sources(path)) {
        for line in code(&file) {
            if let Some(impure) = IMPURE.iter().find(|impure| line.contains(**impure))
                && !line.trim_start().starts_with("//")
            {
                found.push(format!("{}: {impure}", file.display()));
            }
        }
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn files_are_short_enough_to_read() {
    let files = product_folders().into_iter().flat_map(|folder| sources(&folder));
    let long: Vec<_> = files.filter(|file| code(file).len() > 800).collect();
    assert_eq!(long, Vec::<PathBuf>::new());
}

#[test]
fn only_the_command_prints_and_reads_the_environment() {
    for folder in product_folders().into_iter().filter(|folder| folder != "src") {
        // Tests find the servers of others by variables, and say so when there are none.
        for file in sources(&folder).into_iter().filter(|file| !is_test(file)) {
            for line in code(&file).iter().filter(|line| !line.trim_start().starts_with("//")) {
                for word in ["println!", "print!(", "env::var", "env::args"] {
                    assert!(!line.contains(word), "{}: {line}", file.display());
                }
            }
        }
    }
}

#[test]
fn the_page_of_error_codes_is_current() {
    let current = a2s_cli::error_codes_markdown();
    assert_page("docs/errors.md", &current);
}

#[test]
fn the_page_of_settings_is_current() {
    assert_page("docs/configuration.md", &a2s_cli::configuration_markdown());
}

#[test]
fn what_a_newcomer_reads_is_there() {
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"] {
        assert!(root().join(name).is_file(), "{name}");
    }
}

#[test]
fn every_promise_of_the_threat_model_has_its_test() {
    let page = std::fs::read_to_string(root().join("docs/threat-model.md")).unwrap();
    let (_, promises) = page.split_once("\n## Promises\n").unwrap();
    let (promises, _) = promises.split_once("\n## Not promised\n").unwrap();
    let mut tests = String::new();
    for file in all_sources() {
        tests.push_str(&std::fs::read_to_string(file).unwrap());
    }
    let mut named = 0;
    for row in promises.lines().filter(|line| line.starts_with("| ") && line.ends_with("` |")) {
        let (_, names) = row.trim_end_matches(" |").rsplit_once(" | ").unwrap();
        for name in names.split(", ") {
            let name = name.trim_matches('`');
            assert!(tests.contains(&format!("fn {name}(")), "no test is called `{name}`");
            named += 1;
        }
    }
    assert!(named > 40, "the table cannot be read: {named} tests");
}

/// Every file with code: of the crates, their tests and benches.
fn all_sources() -> Vec<PathBuf> {
    let mut folders = crate_folders();
    folders.extend(["benches".to_owned(), "tests".to_owned()]);
    folders.iter().flat_map(|folder| sources(folder)).collect()
}

#[test]
fn the_map_of_the_code_is_true() {
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let files: Vec<PathBuf> = all_sources();
    let code: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    for path in map.split('`').skip(1).step_by(2).filter(|quoted| quoted.ends_with(".rs")) {
        // A path without its crate continues in the crate that the page named last.
        assert!(files.iter().any(|file| file.ends_with(path)), "there is no file `{path}`");
    }
    let (_, invariants) = map.split_once("\n## Invariants\n").unwrap();
    let (invariants, _) = invariants.split_once("\n## ").unwrap();
    let tests: Vec<&str> = invariants
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|quoted| quoted.contains('_') && !quoted.contains(['/', '.', ' ']))
        .collect();
    assert!(tests.len() >= 15, "the tests of the invariants cannot be read: {tests:?}");
    for name in tests {
        assert!(code.contains(&format!("fn {name}(")), "no test is called `{name}`");
    }
}

#[test]
fn the_image_is_built_from_every_crate() {
    let ignored = std::fs::read_to_string(root().join(".dockerignore")).unwrap();
    for folder in crate_folders().iter().filter(|folder| !folder.is_empty()) {
        let kept = format!("!{folder}");
        assert!(ignored.lines().any(|line| line == kept), ".dockerignore has no line `{kept}`");
    }
}

#[test]
fn names_of_tests_are_short() {
    let mut long = Vec::new();
    for file in all_sources() {
        let text = std::fs::read_to_string(&file).unwrap();
        let mut is_test = false;
        for line in text.lines().map(str::trim_start) {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test) else { continue };
            is_test = false;
            let name = rest.split('(').next().unwrap();
            if name.len() > 60 {
                long.push(name.to_owned());
            }
        }
    }
    assert_eq!(long, [""; 0]);
}

#[test]
fn doc_comments_open_with_what_they_describe() {
    const QUESTIONS: [&str; 9] =
        ["What", "Who", "Whether", "How", "Where", "Why", "When", "Which", "Whose"];
    let mut found = Vec::new();
    let files = product_folders().into_iter().flat_map(|folder| sources(&folder));
    for file in files.filter(|file| !is_test(file)) {
        let text = std::fs::read_to_string(&file).unwrap();
        let mut before = "";
        for line in text.lines().map(str::trim_start) {
            let doc = ["/// ", "//! "].iter().find_map(|mark| line.strip_prefix(mark));
            let opens = !before.starts_with("///") && !before.starts_with("//!");
            let word = doc.unwrap_or_default().split(' ').next().unwrap();
            if opens && QUESTIONS.contains(&word) {
                found.push(format!("{}: {line}", file.display()));
            }
            before = line;
        }
    }
    assert_eq!(found, [""; 0]);
}
