//! Clients that generators of others make of the description of the API: they compile, and search, plan, run
//! and follow.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::{World, npm, printed, python, root};

const TYPESCRIPT: &str = r#"{
    "compilerOptions": {
        "strict": true, "noUncheckedIndexedAccess": true, "module": "nodenext", "target": "es2022",
        "types": ["node"], "outDir": "made"
    },
    "files": ["api_client.ts"]
}"#;

/// The name of the package, and that documents in YAML are sent as they are.
const PYTHON: &str = "project_name_override: a2s-client
package_name_override: a2s_client
content_type_overrides: {application/yaml: application/octet-stream}
";

#[test]
fn generated_typescript_client_searches_plans_and_runs() {
    let Some(npm) = npm() else { return };
    // Below the packages, where programs look for them.
    let folder = tempfile::tempdir_in(&npm).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("tsconfig.json", TYPESCRIPT);
    write("package.json", r#"{"type": "module"}"#);
    fs::copy(root().join("tests/npm/api_client.ts"), folder.path().join("api_client.ts")).unwrap();
    let program = |name: &str| {
        let mut program = Command::new(npm.join("node_modules/.bin").join(name));
        program.current_dir(folder.path());
        program
    };
    let description = root().join("docs/openapi.json");
    printed(program("openapi-typescript").arg(description).args(["-o", "schema.d.ts"]));
    printed(program("tsc").args(["-p", "."]));
    let world = World::up(&[]);
    let mut client = Command::new("node");
    client.current_dir(folder.path()).args(["made/api_client.js", world.url(), &world.token()]);
    assert_eq!(
        printed(&mut client),
        "search: ListDogBreeds 1.0.0
plan: GET https://dogapi.dog/api/v2/breeds
run: succeeded breeds
follow: run_started run_finished
finished: succeeded
"
    );
}

#[test]
fn a_generated_client_in_python_searches_plans_runs_and_follows() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.yaml");
    fs::write(&config, PYTHON).unwrap();
    let made = printed(
        Command::new(python.join("openapi-python-client"))
            .env("PATH", with_programs_of(&python))
            .args(["generate", "--meta", "none", "--path"])
            .arg(root().join("docs/openapi.json"))
            .arg("--config")
            .arg(config)
            .arg("--output-path")
            .arg(folder.path().join("a2s_client")),
    );
    assert!(!made.contains("Unable") && !made.contains("Cannot"), "{made}");
    let world = World::up(&[]);
    let script = root().join("tests/python/api_client.py");
    let mut client = Command::new(python.join("python"));
    client.arg(script).arg(folder.path()).args([world.url(), &world.token()]);
    assert_eq!(
        printed(&mut client),
        "search: ListDogBreeds 1.0.0
plan: GET https://dogapi.dog/api/v2/breeds
run: succeeded
follow: run_started run_finished
"
    );
}

/// The search path, with the programs of a folder first: a generator has others format what it made.
fn with_programs_of(folder: &Path) -> OsString {
    let mut path = OsString::from(folder);
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    path
}
