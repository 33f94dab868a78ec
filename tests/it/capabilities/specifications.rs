//! Shipped documents beside the specifications that the services publish themselves.
//!
//! These specifications are no part of the repository: the tests read them from the folder that
//! `A2S_TEST_DATA` names.

use std::path::PathBuf;

use a2s::{Document, StepAction, Task};
use a2s_authoring::{OpenApiOptions, import_openapi};
use serde_json::{Value, json};

use super::{hosts, refuse, shipped};
use crate::harness::World;
use crate::mock_from_spec::Stage;

/// A document, its step, and the operation that it cuts out of a specification.
const CUT_FROM: [(&str, &str, &str, &str); 12] = [
    ("CheckGrammar", "check", "languagetool.org", "POST /check"),
    ("FindConcerts", "readEvents", "bandsintown.com", "GET /artists/{artistname}/events"),
    ("FindStatutoryInstruments", "search", "parliament.uk", "GET /api/v2/StatutoryInstrument"),
    ("GenerateApiClient", "generate", "swagger.io", "POST /gen/clients/{language}"),
    ("GetSunTimes", "readDays", "open-meteo", "GET /v1/forecast"),
    ("ListExchangeRates", "readRates", "exchangerate-api.com", "GET /latest/{base_currency}"),
    (
        "LocateTrafficSensors",
        "readSites",
        "highwaysengland.co.uk",
        "GET /v{version}/sites/{site_Ids}",
    ),
    ("LookUpFileHash", "lookUp", "circl.lu", "GET /lookup/sha256/{sha256}"),
    ("QuoteLovecraft", "readSentence", "randomlovecraft.com", "GET /sentences"),
    (
        "ReadGovernmentNews",
        "readPosts",
        "gov.bc.ca",
        "GET /api/Posts/Latest/{indexKind}/{indexKey}",
    ),
    ("SearchDomainNames", "search", "domainsdb.info", "GET /domains/search"),
    ("SearchVocaloidSongs", "search", "vocadb.net", "GET /api/songs"),
];

/// The folder with the specifications, when there is one.
#[expect(clippy::print_stderr, reason = "a test that is skipped has to say so")]
fn folder() -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("A2S_TEST_DATA") else {
        eprintln!("SKIPPED: A2S_TEST_DATA names no folder: no document beside its specification");
        return None;
    };
    let folder = PathBuf::from(folder).join("openapi");
    assert!(folder.is_dir(), "A2S_TEST_DATA is set, but {} is no folder", folder.display());
    Some(folder)
}

/// The task that one operation of a specification is, at the address that `document` names.
fn task(specification: &Value, operation: &str, document: &Document) -> Task {
    let mut server = None;
    document.capability().for_each_step(|step| {
        if let StepAction::Task { task, .. } = &step.action {
            server = Some(task.url().clone());
        }
    });
    let operations = vec![operation.to_owned()];
    let options = OpenApiOptions { operations, server, ..OpenApiOptions::default() };
    let imported = import_openapi(specification, &options).unwrap();
    assert_eq!(imported.refused, [], "{operation}");
    let imported = Document::open(imported.documents[0].text.as_bytes()).unwrap();
    let mut tasks = Vec::new();
    imported.capability().for_each_step(|step| {
        if let StepAction::Task { task, .. } = &step.action {
            tasks.push(Task::clone(task));
        }
    });
    tasks.remove(0)
}

/// What a document sends fits the specification of the service itself, the answers of its examples
/// do as well, and it can read any other answer that does.
#[test]
fn what_was_cut_out_fits_the_whole() {
    let Some(folder) = folder() else { return };
    let documents = shipped();
    let stage = Stage::default();
    let mut world = World::among(stage.services(hosts(&documents)), &[]);
    world.start();
    for (name, step, file, operation) in CUT_FROM {
        let path = folder.join(format!("{file}.json"));
        let specification = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let document = &documents[name];
        let task = task(&specification, operation, document);
        for example in &document.capability().examples {
            let inputs = world.write("inputs.json", &json!(example.inputs).to_string());
            let mut unanswered = example.clone();
            unanswered.answers.clear();
            for example in [example, &unanswered] {
                stage.set(name, Some(example), &documents);
                stage.replace(step, &task);
                let run = world.a2s(&["run", name, "--inputs", &inputs, "--json"]);
                assert_eq!(stage.refusals(), [""; 0], "{name}");
                let run = run.exits(0).one();
                assert_eq!(refuse(document, "output", &run["output"]), None, "{run}");
            }
        }
    }
}
