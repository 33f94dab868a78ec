//! Requests to servers that nobody here wrote: what we send for each operation of a description is
//! held to that description by [Prism](https://github.com/stoplightio/prism).
//!
//! A small sample is part of the gate. The whole data set takes long: see `docs/conformance.md`.

pub(super) mod mock;
mod values;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use a2s::api::RunStatus;
use a2s::author::{OpenApiOptions, import_openapi, read_description};
use a2s::{Action, Document, OpenApiTask, Place, Task, TaskInputs, Template};
use http::Method;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::world::{Published, World, call, read};
use crate::App;
use mock::{Process, Verdict, Witness};
use values::Maker;

const BEGIN: &str = "<!-- figures: begin -->\n";
const END: &str = "<!-- figures: end -->\n";

/// What became of the calls.
#[derive(Default)]
struct Tally {
    descriptions: usize,
    operations: usize,
    calls: usize,
    taken: usize,
    /// Runs that ended as they should, and those in which an answer was remarked on.
    succeeded: usize,
    warned: usize,
    /// Why not, with how often and one case.
    reasons: BTreeMap<String, (usize, String)>,
    /// Why the mock had no answer for a request that it took.
    unanswered: BTreeMap<String, (usize, String)>,
    /// Descriptions that the mock does not load, and operations that became no document.
    lost: BTreeMap<String, (usize, String)>,
}

fn count(reasons: &mut BTreeMap<String, (usize, String)>, reason: String, case: &str) {
    reasons.entry(reason).or_insert_with(|| (0, case.to_owned())).0 += 1;
}

impl Tally {
    fn share(&self) -> f64 {
        100.0 * self.taken as f64 / self.calls.max(1) as f64
    }
}

/// A world whose service is whatever mock the witness turns to.
async fn world(witness: &Witness) -> World {
    let mut world = World::new().await;
    let address = super::world::serve(witness.router()).await;
    let url = format!("http://{address}/").parse().unwrap();
    world.config.upstreams.insert(a2s::Domain::new("mock.example").unwrap(), url);
    world.config.guardian = crate::Guardian::Off;
    world.config.limits.max_attempts = 1;
    // A mock that fails is asked on, and as fast as it answers.
    world.config.hosts.default.breaker_failures = 0;
    world.config.hosts.default.requests_per_second = None;
    world
}

/// The description as mock and documents get it: without security, at one address without a path.
fn prepare(mut description: Value) -> Value {
    let servers = json!([{"url": "https://mock.example"}]);
    description["servers"] = servers;
    let remove = |holder: &mut Value, keys: &[&str]| {
        if let Some(members) = holder.as_object_mut() {
            members.retain(|key, _| !keys.contains(&key.as_str()));
        }
    };
    remove(&mut description, &["security"]);
    let paths = description["paths"].as_object_mut().into_iter().flatten();
    for (_, item) in paths {
        remove(item, &["servers"]);
        for (_, operation) in item.as_object_mut().into_iter().flatten() {
            remove(operation, &["security", "servers"]);
        }
    }
    description
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
        let parameter = task.parameters.iter().find(|one| one.input_place() == *place);
        let value = match (place, parameter, &task.body) {
            (_, Some(parameter), _) if parameter.required || everything => {
                maker.parameter(parameter)
            }
            // An import asks for what a body requires, whether or not the body is required.
            (Place::Body, _, Some(body)) => maker.body(body),
            _ => continue,
        };
        invert(template, &value, &mut inputs);
    }
    inputs
}

async fn call_all(
    app: &App,
    world: &World,
    witness: &Witness,
    name: &str,
    description: &Value,
    (mock, restart): (&mut Process, impl Fn() -> Process),
    tally: &mut Tally,
) {
    let prefix = Some(format!("D{}", tally.descriptions));
    let imported = import_openapi(description, &OpenApiOptions { prefix, ..Default::default() });
    let imported = imported.unwrap();
    for refusal in &imported.refused {
        count(&mut tally.lost, format!("no document: {}", kind_of(&refusal.reason)), name);
    }
    for document in &imported.documents {
        tally.operations += 1;
        let read = Document::open(document.text.as_bytes()).unwrap();
        let capability = read.capability();
        let mut found = None;
        capability.for_each_step(|step| {
            if let Action::Task { task, inputs, .. } = &step.action {
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
        let reason = format!("not sent: {} {}", answer.body["code"], answer.body["detail"]);
        count(&mut tally.reasons, kind_of(&reason), &format!("{case}: {reason}"));
        return false;
    }
    let run = answer.run();
    let error = run.error.as_ref().map(|error| format!("{} {}", error.code, error.message));
    match witness.verdict() {
        Some(Verdict::Taken) => tally.taken += 1,
        Some(Verdict::Unanswered(reason)) => {
            tally.taken += 1;
            count(&mut tally.unanswered, kind_of(&reason), &format!("{case}: {reason}"));
        }
        Some(Verdict::Refused(reason)) => {
            count(&mut tally.reasons, kind_of(&reason), &format!("{case}: {reason}"));
        }
        Some(Verdict::Fell) => {
            count(&mut tally.reasons, "the mock fell over".to_owned(), case);
            return true;
        }
        None => {
            let reason = format!("not sent: {}", error.unwrap_or_default());
            count(&mut tally.reasons, kind_of(&reason), &format!("{case}: {reason}"));
        }
    }
    let run = read(app, run.id).await;
    tally.succeeded += usize::from(run.status == RunStatus::Succeeded);
    tally.warned += usize::from(run.steps.iter().any(|step| !step.warnings.is_empty()));
    false
}

/// A reason without what it says of one case.
fn kind_of(reason: &str) -> String {
    let plain: String = reason.split('`').step_by(2).collect::<Vec<_>>().join("…");
    let plain = plain.split(" (schema:").next().unwrap_or_default();
    plain.chars().take(110).collect()
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
        let description = prepare(read_description(&source).unwrap());
        let copy = folder.path().join(format!("{}.json", tally.descriptions));
        std::fs::write(&copy, description.to_string()).unwrap();
        tally.descriptions += 1;
        match Process::prism(packages, &copy) {
            Ok(mut mock) => {
                witness.turn_to(&mock.url);
                let restart = || Process::prism(packages, &copy).unwrap();
                let mock = (&mut mock, restart);
                call_all(&app, &world, &witness, &name, &description, mock, &mut tally).await;
            }
            Err(reason) => count(&mut tally.lost, format!("no mock: {reason}"), &name),
        }
    }
    tally
}

fn table(title: &str, reasons: &BTreeMap<String, (usize, String)>, markdown: &mut String) {
    if reasons.is_empty() {
        return;
    }
    let mut rows: Vec<_> = reasons.iter().collect();
    rows.sort_by_key(|(reason, (count, _))| (std::cmp::Reverse(*count), *reason));
    let plain = |text: &str| text.replace('|', "\\|").replace('\n', " ");
    let _ = writeln!(markdown, "| {title} | times | for example |\n|---|---:|---|");
    for (reason, (count, case)) in rows {
        let _ = writeln!(markdown, "| {} | {count} | {} |", plain(reason), plain(case));
    }
    let _ = writeln!(markdown);
}

fn figures(tally: &Tally) -> String {
    let mut markdown = String::new();
    let _ = writeln!(
        markdown,
        "{} descriptions, {} operations, {} calls; the mock took {} of them ({:.2} %). {} runs succeeded; in {} of all runs the mock's answer was not as its description declares it.\n",
        tally.descriptions,
        tally.operations,
        tally.calls,
        tally.taken,
        tally.share(),
        tally.succeeded,
        tally.warned,
    );
    table("Why a call was not taken", &tally.reasons, &mut markdown);
    table("Why a call that was taken got no answer", &tally.unanswered, &mut markdown);
    table("What was not called", &tally.lost, &mut markdown);
    markdown
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
    assert_eq!(tally.taken, tally.calls, "{}", figures(&tally));
    assert_eq!(tally.succeeded, tally.calls, "{}", figures(&tally));
    assert_eq!(tally.warned, 0, "{}", figures(&tally));
    assert!(tally.lost.is_empty(), "{}", figures(&tally));
}

/// Writes `docs/conformance.md` anew with `UPDATE_DOCS`; `A2S_ONLY` names one description.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long: A2S_TEST_DATA=… A2S_TEST_NPM=… cargo test -p executor conform -- --ignored"]
async fn every_operation_of_the_data_set_is_taken_by_a_mock_of_others() {
    let packages = mock::packages().expect("A2S_TEST_NPM names the folder of the packages");
    let data = std::env::var_os("A2S_TEST_DATA").expect("A2S_TEST_DATA names the data set");
    let mut files = files_in(&PathBuf::from(data).join("openapi"));
    if let Some(only) = std::env::var_os("A2S_ONLY") {
        files.retain(|file| file.file_stem() == Some(&only));
    }
    let tally = call_everything(&packages, &files).await;
    let figures = figures(&tally);
    eprintln!("{figures}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let path = root().join("docs/conformance.md");
        let text = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = text.split_once(BEGIN).unwrap();
        let (_, after) = rest.split_once(END).unwrap();
        std::fs::write(&path, format!("{before}{BEGIN}\n{figures}{END}{after}")).unwrap();
    }
}
