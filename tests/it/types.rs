//! `a2s types`: the compilers of the languages accept what is written, and find a program that does not fit.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use test_support::{fixture_document, http_step};

use crate::harness::{Ran, World, npm, python};

/// Reads the sky over a city. The second version takes a position instead.
fn sky(version: &str, parameter: &str) -> String {
    let inputs = json!({parameter: format!("${{{parameter}}}")});
    let call = format!("GET /sky/{{{parameter}}}");
    let step = http_step("api.example", "read", &call, inputs, json!({"sky": "$.sky"}));
    fixture_document(
        "ReadSky",
        &json!({
            "a2s": "1.1.0", "version": version, "domains": ["api.example"],
            "parameters": [{"name": parameter, "type": "string"}],
            "execution": {"type": "sequence", "steps": [step]},
        }),
    )
}

fn write_types(world: &World, language: &str, file: &Path, names: &[&str]) -> Ran {
    let all = [&["types", "--lang", language, "--output", file.to_str().unwrap()], names].concat();
    world.a2s(&all)
}

/// Names of all shipped capabilities.
fn shipped() -> Vec<String> {
    let files = std::fs::read_dir(crate::harness::root().join("capabilities")).unwrap();
    let names = files.filter_map(|file| {
        let path = file.unwrap().path();
        let is_document = path.extension().is_some_and(|extension| extension == "yaml");
        is_document.then(|| path.file_stem().unwrap().to_str().unwrap().to_owned())
    });
    names.collect()
}

/// Writes the types of all shipped capabilities and of `ReadSky`, and a program that uses the latter. Compiles
/// both, publishes a `ReadSky` with another input, writes the types again, and compiles again.
fn compile_twice(
    language: &str,
    types: &str,
    program: (&str, &str),
    compiler: impl Fn(&Path) -> Command,
) {
    let world = World::up(&[]);
    world.publish(&sky("1.0.0", "city"));
    let folder = world.folder().join(language);
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join(program.0), program.1).unwrap();
    let file = folder.join(types);
    let mut names = shipped();
    names.push("ReadSky".to_owned());
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    write_types(&world, language, &file, &names).exits(0);
    let check = [&names[..], &["--check"]].concat();
    write_types(&world, language, &file, &check).exits(0);
    let compile = || {
        let output = compiler(&folder).current_dir(&folder).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    let (good, told) = compile();
    assert!(good, "{told}");

    world.publish(&sky("2.0.0", "position"));
    let stale = write_types(&world, language, &file, &check).exits(1);
    assert!(stale.stderr.contains("has other types than the capabilities"), "{stale:?}");
    write_types(&world, language, &file, &names).exits(0);
    let (good, told) = compile();
    assert!(!good && told.to_lowercase().contains("city"), "{told}");
}

#[test]
fn a_stale_program_in_typescript_does_not_compile() {
    let Some(npm) = npm() else { return };
    let program = "import { ReadSky, type ReadSkyInputs, type Capabilities } from './capabilities.js';\n\
                   export const inputs = { city: 'Rome' } satisfies ReadSkyInputs;\n\
                   export const version: string = ReadSky.version;\n\
                   export function sky(outputs: Capabilities['ReadSky']['outputs']): unknown { return outputs.sky; }\n";
    compile_twice("ts", "capabilities.ts", ("program.ts", program), |_| {
        let mut tsc = Command::new(npm.join("node_modules/.bin/tsc"));
        tsc.args(["--noEmit", "--strict", "--module", "nodenext", "program.ts", "capabilities.ts"]);
        tsc
    });
}

#[test]
fn a_stale_program_in_python_fails_its_check() {
    let Some(python) = python() else { return };
    let program = "from capabilities import ReadSky, ReadSkyInputs\n\n\
                   inputs: ReadSkyInputs = {\"city\": \"Rome\"}\nversion: str = ReadSky[\"version\"]\n";
    compile_twice("python", "capabilities.py", ("program.py", program), |_| {
        let mut mypy = Command::new(python.join("mypy"));
        mypy.args(["--strict", "--no-incremental", "program.py", "capabilities.py"]);
        mypy
    });
}

#[test]
fn a_stale_program_in_go_does_not_compile() {
    if Command::new("go").arg("version").output().is_err() {
        return eprintln!("SKIPPED: there is no Go");
    }
    let program = "package capabilities\n\nvar Inputs = ReadSkyInputs{City: \"Rome\"}\n\n\
                   var Version string = ReadSky.Version\n";
    compile_twice("go", "capabilities.go", ("program.go", program), |folder| {
        std::fs::write(folder.join("go.mod"), "module example.com/capabilities\n\ngo 1.23\n")
            .unwrap();
        let mut go = Command::new("go");
        go.args(["vet", "./..."]);
        go
    });
}

#[test]
fn types_of_a_lock_are_those_of_the_locked_versions() {
    let world = World::up(&[]);
    let document = crate::harness::shipped("GetWeatherOfCities");
    let document = document.to_str().unwrap();
    let copy = world.write("Cities.yaml", &std::fs::read_to_string(document).unwrap());
    world.a2s(&["lock", &copy]).exits(0);
    let lock = copy.replace(".yaml", ".lock");
    let told = world.a2s(&["types", "--lang", "ts", "--lock", &lock]).exits(0);
    assert!(told.stdout.contains("export interface GetWeatherOfCitiesInputs"), "{told:?}");
    assert!(told.stdout.contains("export interface GetCityWeatherOutputs"), "{told:?}");
    world.a2s(&["types", "--lang", "ts"]).exits(2);
    world.a2s(&["types", "--lang", "ts", "GetJoke", "GetJoke@1.0.0"]).exits(2);
    world.a2s(&["types", "--lang", "ts", "NoSuchThing"]).exits(1);
}
