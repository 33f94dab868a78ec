//! Requests to servers that nobody here wrote: what we send for each operation of a description is
//! held to that description by [Prism](https://github.com/stoplightio/prism).
//!
//! A small sample is part of the gate. The whole data set takes long: see `docs/conformance.md`.

mod copies;
pub(super) mod mock;
mod report;
mod values;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use a2s::{Document, InputLocation, OpenApiTask, StepAction, Task, TaskInputs, Template};
use a2s_api::RunStatus;
use a2s_authoring::{OpenApiOptions, import_openapi, read_description};
use http::Method;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::world::{Published, World, call, read};
use crate::App;
use copies::Part;
use mock::{Process, Verdict, Witness};
use report::Tally;
use values::Maker;

const BEGIN: &str = "<!-- figures: begin -->\n";
const END: &str = "<!-- figures: end -->\n";

/// A world whose service is whatever mock the witness turns to.
async fn world(witness: &Witness) -> World {
    let mut world = World::new().await;
    let address = super::world::serve(witness.router()).await;
    let url = format!("http://{address}/").parse().unwrap();
    world.config.upstreams.insert(a2s::Domain::new("mock.example").unwrap(), url);
    world.config.guardian = crate::GuardianSettings::Off;
    world.config.limits.max_attempts = 1;
    // A mock that fails is asked on, and as fast as it answers.
    world.config.hosts.default.breaker_failures = 0;
    world.config.hosts.default.requests_per_second = None;
    world
}

/// The inputs of a capability with which its step gets these values.
fn invert(template: &Template, value: &Value, inputs: &mut Map<String, Value>) {
    match template {
        Template::Reference(reference) => {
            inputs.insert(reference.variable().to_owned(), value.clone());
        }
        Template::Object(members) => {
            for (name, member) in members {
                if let Some(value) = value.get(name) {
                    invert(member, value, inputs);
                }
            }
        }
        Template::Literal(_) | Template::Text(_) | Template::Array(_) => {}
    }
}

fn inputs_of(task: &OpenApiTask, mapping: &TaskInputs, everything: bool) -> Map<String, Value> {
    let maker = Maker { task, everything };
    let mut inputs = Map::new();
    for (place, template) in mapping {
        let parameter = task.parameters.iter().find(|one| one.is_at(place));
        let value = match (place, parameter, &task.body) {
            (_, Some(parameter), _) if parameter.required || everything => {
                maker.parameter(parameter)
            }
            // An import asks for what a body requires, whether or not the body is required.
            (InputLocation::Body, _, Some(body)) => Some(maker.body(body)),
            _ => None,
        };
        if let Some(value) = value {
            invert(template, &value, &mut inputs);
        }
    }
    inputs
}

async fn call_all(
    app: &App,
    world: &World,
    witness: &Witness,
    name: &str,
    documents: &Value,
    (mock, restart): (&mut Process, impl Fn() -> Process),
    tally: &mut Tally,
) {
    // Names are unique in a registry, and parts are published one after another.
    let prefix = Some(format!("P{}", tally.parts));
    let imported = import_openapi(documents, &OpenApiOptions { prefix, ..Default::default() });
    let imported = imported.unwrap();
    for refusal in &imported.refused {
        tally.no_document(&refusal.reason, name);
    }
    for document in &imported.documents {
        tally.operations += 1;
        let read = Document::open(document.text.as_bytes()).unwrap();
        let capability = read.capability();
        let mut found = None;
        capability.for_each_step(|step| {
            if let StepAction::Task { task, inputs, .. } = &step.action {
                found = Some((task.clone(), inputs.clone()));
            }
        });
        let Some((task, mapping)) = found else { continue };
        let Task::OpenApi(task) = &*task else { continue };
        world.registry.publish_raw(
            capability.name.as_str(),
            Published {
                version: capability.version.to_string(),
                checksum: read.digest(),
                etag: read.digest(),
                source: document.text.clone().into_bytes(),
                yanked: false,
                damaged: false,
            },
        );
        let all = inputs_of(task, &mapping, true);
        let required = inputs_of(task, &mapping, false);
        let mut variants = vec![("all", all)];
        if required != variants[0].1 {
            variants.push(("required", required));
        }
        for (variant, inputs) in variants {
            let case = format!("{name} {} ({variant})", document.source);
            if call_one(app, witness, capability.name.as_str(), inputs, &case, tally).await {
                *mock = restart();
                witness.turn_to(&mock.url);
            }
        }
    }
}

/// Calls an operation; says whether the mock fell over.
async fn call_one(
    app: &App,
    witness: &Witness,
    name: &str,
    inputs: Map<String, Value>,
    case: &str,
    tally: &mut Tally,
) -> bool {
    tally.calls += 1;
    let body = json!({"name": name, "inputs": inputs, "wait": true});
    let answer = call(app, Method::POST, "/v1/executions", &[], body).await;
    if !answer.status.is_success() {
        let why = format!("{} {}", answer.body["code"], answer.body["detail"]);
        tally.not_sent(&why, case);
        return false;
    }
    let run = answer.run();
    match witness.verdict() {
        Some(Verdict::Taken) => tally.taken += 1,
        Some(Verdict::Unanswered(objection)) => {
            tally.taken += 1;
            tally.unanswered(&objection, case);
        }
        Some(Verdict::Refused(objection)) => tally.refused(&objection, case),
        Some(Verdict::Fell) => {
            tally.fell(case);
            return true;
        }
        None => {
            let error = run.error.as_ref();
            let why = error.map(|error| format!("{} {}", error.code, error.message));
            tally.not_sent(&why.unwrap_or_default(), case);
        }
    }
    let run = read(app, run.id).await;
    tally.succeeded += usize::from(run.status == RunStatus::Succeeded);
    tally.warned += usize::from(run.steps.iter().any(|step| !step.warnings.is_empty()));
    false
}

/// Calls every operation of the descriptions in the files, one mock after another.
async fn call_everything(packages: &Path, files: &[PathBuf]) -> Tally {
    let witness = Witness::default();
    let world = world(&witness).await;
    let app = world.open().await;
    let folder = TempDir::new().unwrap();
    let mut tally = Tally::default();
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let source = std::fs::read(file).unwrap();
        tally.descriptions += 1;
        let before = tally.calls - tally.taken;
        for Part { documents, mock } in copies::parts(read_description(&source).unwrap().value) {
            let copy = folder.path().join(format!("{}.json", tally.parts));
            tally.parts += 1;
            std::fs::write(&copy, mock.to_string()).unwrap();
            match Process::prism(packages, &copy) {
                Ok(mut mock) => {
                    witness.turn_to(&mock.url);
                    let restart = || Process::prism(packages, &copy).unwrap();
                    let mock = (&mut mock, restart);
                    call_all(&app, &world, &witness, &name, &documents, mock, &mut tally).await;
                }
                Err(said) => tally.no_mock(&said, &name),
            }
        }
        if tally.calls - tally.taken > before {
            tally.failing.insert(name);
        }
    }
    tally.control = witness.control();
    tally
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mock_of_others_takes_what_is_sent() {
    let Some(packages) = mock::packages() else { return };
    let tally = call_everything(&packages, &files_in(&root().join("tests/fixtures/openapi"))).await;
    assert!(tally.operations >= 30, "{}", tally.operations);
    assert_eq!(tally.taken, tally.calls, "{}", tally.figures());
    assert_eq!(tally.succeeded, tally.calls, "{}", tally.figures());
    assert_eq!(tally.warned, 0, "{}", tally.figures());
    let control = tally.control;
    assert!(0 < control.sent && control.refused == control.sent, "{control:?}");
    assert!(tally.lost_nothing(), "{}", tally.figures());
}

/// Writes `docs/conformance.md` anew with `UPDATE_DOCS`; `A2S_ONLY` names descriptions, with
/// commas between them.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long: A2S_TEST_DATA=… A2S_TEST_NPM=… cargo test -p executor conform -- --ignored"]
async fn every_operation_of_the_data_set_is_taken_by_a_mock_of_others() {
    let packages = mock::packages().expect("A2S_TEST_NPM names the folder of the packages");
    let data = std::env::var_os("A2S_TEST_DATA").expect("A2S_TEST_DATA names the data set");
    let mut files = files_in(&PathBuf::from(data).join("openapi"));
    if let Some(only) = std::env::var_os("A2S_ONLY") {
        let only = only.into_string().unwrap();
        let only: Vec<_> = only.split(',').map(OsStr::new).collect();
        files.retain(|file| file.file_stem().is_some_and(|stem| only.contains(&stem)));
    }
    let tally = call_everything(&packages, &files).await;
    let figures = tally.figures();
    let failing: Vec<_> = tally.failing.iter().map(String::as_str).collect();
    eprintln!("{figures}\nNot all was taken: A2S_ONLY={}", failing.join(","));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let path = root().join("docs/conformance.md");
        let text = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = text.split_once(BEGIN).unwrap();
        let (_, after) = rest.split_once(END).unwrap();
        std::fs::write(&path, format!("{before}{BEGIN}\n{figures}{END}{after}")).unwrap();
    }
}
