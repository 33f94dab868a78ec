//! The shipped capabilities: each compiles, fits the others, and runs against stand-ins.

mod samples;
mod specifications;

use std::collections::{BTreeMap, BTreeSet};

use a2s::{
    CapabilityExample, DependencyIndex, Document, Domain, OnError, OutputSource, Step, StepAction,
    StepBlock, StepPath, Task,
};
use serde_json::{Value, json};

use self::samples::samples;
use crate::harness::{World, a2s, assert_page, root};
use crate::mock_from_spec::Stage;

/// Every shipped document by the name of its file.
fn shipped() -> BTreeMap<String, Document> {
    std::fs::read_dir(root().join("capabilities"))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            assert_eq!(path.extension().unwrap(), "yaml", "{}", path.display());
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let source = std::fs::read(&path).unwrap();
            let document = Document::open(&source).unwrap_or_else(|errors| {
                panic!("{}: {}", path.display(), errors[0]);
            });
            (name, document)
        })
        .collect()
}

#[test]
fn every_document_is_named_as_its_file_and_without_remarks() {
    let documents = shipped();
    assert!(documents.len() >= 32);
    for (name, document) in &documents {
        let capability = document.capability();
        assert_eq!(capability.name.as_str(), name);
        assert_eq!(document.warnings(), [], "{name}");
        if capability.language.minor > 0 {
            // Those of 1.0 are kept as they were written.
            let source = std::fs::read(root().join(format!("capabilities/{name}.yaml"))).unwrap();
            let laid_out = a2s_authoring::format_document(&source).unwrap();
            assert!(
                laid_out.as_bytes() == source,
                "{name}: run `a2s fmt capabilities/{name}.yaml`"
            );
        }
        for parameter in &capability.parameters {
            assert!(!parameter.patterns.is_empty(), "{name}: {} has no pattern", parameter.name);
        }
    }
}

#[test]
fn every_document_fits_those_that_it_uses() {
    let documents = shipped();
    let mut shelf = DependencyIndex::default();
    documents.values().for_each(|document| shelf.add_document(document));
    for (name, document) in &documents {
        assert_eq!(shelf.missing_dependencies(&document.capability().dependencies), [], "{name}");
        assert_eq!(shelf.check_dependencies(document.capability()), [], "{name}");
        for dependency in &document.capability().dependencies {
            assert!(dependency.checksum.is_some(), "{name} does not pin {}", dependency.capability);
        }
    }
}

/// The parts of the language that a step shows.
fn shown_by(step: &Step) -> Vec<String> {
    let mut shown = vec![format!("step {}", step.action.kind().as_str())];
    match &step.action {
        StepAction::Task { task, .. } => {
            shown.push(task.format().to_string());
            if let Task::OpenApi(task) = &**task {
                let method = task.method.as_str();
                shown.push(match &task.body {
                    Some(body) => format!("{method} with {:?} body", body.format),
                    None => method.to_owned(),
                });
                shown.push(format!("OpenAPI {:?}", task.version));
                shown.extend(task.parameters.iter().map(|p| format!("{:?}", p.location)));
            }
        }
        StepAction::Block(StepBlock::Condition { if_true, .. }) => {
            shown.extend(
                if_true.iter().map(|s| format!("condition, then {}", s.action.kind().as_str())),
            );
        }
        StepAction::Block(StepBlock::Parallel { max_concurrency: Some(_), .. }) => {
            shown.push("parallel with max_concurrency".to_owned());
        }
        StepAction::Capability { .. } | StepAction::Block(_) => {}
    }
    for output in step.action.outputs() {
        shown.push(match (&output.source, &output.default) {
            (OutputSource::Header(_), _) => "output of a header".to_owned(),
            (OutputSource::Status, _) => "output of the status".to_owned(),
            (OutputSource::Body(_), Some(Value::Null)) => "optional output".to_owned(),
            (OutputSource::Body(_), Some(_)) => "output with a default".to_owned(),
            (OutputSource::Body(_), None) => "output".to_owned(),
        });
    }
    let control = &step.control;
    if let Some(for_each) = &control.for_each {
        shown.push(format!("for_each {}", step.action.kind().as_str()));
        if for_each.max_concurrency > 1 {
            shown.push("for_each with max_concurrency".to_owned());
        }
    }
    if let Some(retry) = &control.retry {
        shown.push(format!("retry {:?}", retry.backoff));
        if !retry.on_status.is_empty() {
            shown.push("retry on_status".to_owned());
        }
    }
    if control.timeout.is_some() {
        shown.push("timeout".to_owned());
    }
    match &control.on_error {
        OnError::Stop => {}
        OnError::Continue => shown.push(format!("on_error {}", step.action.kind().as_str())),
        OnError::Catch { .. } => shown.push("catch".to_owned()),
    }
    shown
}

#[test]
fn together_they_show_the_whole_language() {
    let mut shown = BTreeSet::new();
    for (name, document) in &shipped() {
        let capability = document.capability();
        shown.insert(format!("a2s {}", capability.language));
        shown.insert(format!("execution {}", capability.execution.kind().as_str()));
        let source = std::fs::read_to_string(root().join(format!("capabilities/{name}.yaml")));
        if source.unwrap().matches("$ref: \"#/tasks/").count() >= 2 {
            shown.insert("shared task".to_owned());
        }
        capability.for_each_step(|step| shown.extend(shown_by(step)));
        for parameter in &capability.parameters {
            shown.extend(parameter.kind.map(|kind| format!("parameter {}", kind.as_str())));
            let is_optional = !parameter.required && parameter.default.is_none();
            for (shows, what) in [
                (is_optional, "optional parameter"),
                (parameter.default.is_some(), "parameter with a default"),
                (!parameter.choices.is_empty(), "parameter with choices"),
                (parameter.secret, "secret parameter"),
            ] {
                shown.extend(shows.then(|| what.to_owned()));
            }
        }
        let inputs = &document.interface().inputs;
        for (shows, what) in [
            (inputs.iter().any(|i| capability.parameter(&i.name).is_none()), "free variable"),
            (!capability.permissions.is_empty(), "permissions"),
            (!capability.examples.is_empty(), "examples"),
            (!capability.variables.is_empty(), "shared variables"),
            (capability.output.is_some(), "result"),
        ] {
            shown.extend(shows.then(|| what.to_owned()));
        }
    }
    for wanted in [
        "a2s 1.0.0",
        "a2s 1.1.0",
        "execution sequence",
        "execution parallel",
        "execution condition",
        "step task",
        "step capability",
        "step sequence",
        "step parallel",
        "step condition",
        "condition, then parallel",
        "shared task",
        "OpenAPI",
        "OpenAPI V3_0",
        "OpenAPI V3_1",
        "GraphQL",
        "GET",
        "POST with Json body",
        "POST with Form body",
        "Path",
        "Query",
        "Header",
        "free variable",
        "shared variables",
        "result",
        "output",
        // 1.1
        "parameter string",
        "parameter number",
        "parameter integer",
        "parameter boolean",
        "parameter object",
        "parameter array",
        "optional parameter",
        "parameter with a default",
        "parameter with choices",
        "secret parameter",
        "permissions",
        "examples",
        "optional output",
        "output with a default",
        "output of a header",
        "output of the status",
        "for_each capability",
        "for_each task",
        "for_each with max_concurrency",
        "parallel with max_concurrency",
        "retry Exponential",
        "retry Constant",
        "retry on_status",
        "timeout",
        "on_error capability",
        "on_error parallel",
        "catch",
    ] {
        assert!(shown.contains(wanted), "no shipped document shows {wanted}: {shown:?}");
    }
}

/// The page that lists the shipped capabilities.
fn page(documents: &BTreeMap<String, Document>) -> String {
    let mut page = format!(
        "# Shipped capabilities\n\n\
         The {} documents of [capabilities/](../capabilities). `a2s up` publishes them on its first \
         start; `a2s show NAME` says more about each. Inputs in brackets may be left out. \
         This page is generated: `UPDATE_DOCS=1 cargo test --test it`.\n\n\
         | capability | what it does | inputs | services | uses |\n|---|---|---|---|---|\n",
        documents.len()
    );
    for (name, document) in documents {
        let capability = document.capability();
        let inputs = document.interface().inputs.iter().map(|input| {
            let secret = if input.secret { " (secret)" } else { "" };
            match input.required {
                true => format!("`{}`{secret}", input.name),
                false => format!("[`{}`]{secret}", input.name),
            }
        });
        let uses =
            capability.dependencies.iter().map(|dependency| dependency.capability.to_string());
        let cells = [
            format!("[{name}](../capabilities/{name}.yaml)"),
            capability.description.replace('|', "\\|"),
            inputs.collect::<Vec<_>>().join(", "),
            capability.domains.iter().map(Domain::as_str).collect::<Vec<_>>().join(", "),
            uses.collect::<Vec<_>>().join(", "),
        ];
        page.extend(["| ", cells.join(" | ").as_str(), " |\n"]);
    }
    page
}

#[test]
fn the_page_of_shipped_capabilities_is_current() {
    let current = page(&shipped());
    assert_page("docs/capabilities.md", &current);
}

/// The hosts of all shipped capabilities.
fn hosts(documents: &BTreeMap<String, Document>) -> BTreeSet<Domain> {
    documents.values().flat_map(|document| document.capability().domains.clone()).collect()
}

#[test]
fn every_stand_in_has_a_use() {
    let hosts = hosts(&shipped());
    for standin in test_support::mock_services::all() {
        assert!(hosts.contains(standin.host()), "{}", standin.host());
    }
}

/// The runs that show a capability: its examples, or the samples of a document that can have none.
fn scenes(document: &Document) -> Vec<CapabilityExample> {
    let capability = document.capability();
    let mut scenes = capability.examples.clone();
    let breeds = ("ListDogBreeds", json!({}), Value::Null);
    for (name, inputs, _) in samples().into_iter().chain([breeds]) {
        if name == capability.name.as_str() {
            let inputs = inputs.as_object().unwrap().clone();
            let answers = BTreeMap::new();
            scenes.push(CapabilityExample {
                title: None,
                intent: None,
                inputs,
                answers,
                output: None,
            });
        }
    }
    assert!(!scenes.is_empty(), "{} has no example", capability.name);
    scenes
}

/// Why a value is not what the interface of a capability promises.
fn refuse(document: &Document, part: &str, value: &Value) -> Option<String> {
    let capability = document.capability();
    let schema = document.interface().to_json_schema(capability.name.as_str(), "");
    let validator = jsonschema::validator_for(&schema[part]).unwrap();
    let error = validator.iter_errors(value).next()?;
    Some(format!("{}: {part}: {error} at `{}`", capability.name, error.instance_path()))
}

/// Every host is played by a stand-in that holds each request to the specification inside the
/// document that it comes from.
#[test]
fn every_capability_keeps_to_the_specifications_inside_it() {
    let documents = shipped();
    let stage = Stage::default();
    let mut world = World::among(stage.services(hosts(&documents)), &[]);
    world.start();
    let mut steps = BTreeSet::new();
    for (name, document) in &documents {
        document.capability().for_each_step(|step| {
            if matches!(step.action, StepAction::Task { .. }) {
                steps.insert((name.clone(), step.id.to_string()));
            }
        });
        for example in scenes(document) {
            stage.set(name, Some(&example), &documents);
            let inputs = Value::Object(example.inputs.clone());
            assert_eq!(refuse(document, "input", &inputs), None);
            let inputs = world.write("inputs.json", &inputs.to_string());
            let run = world.a2s(&["run", name, "--inputs", &inputs, "--json"]);
            assert_eq!(stage.refusals(), [""; 0], "{name}");
            let run = run.exits(0).one();
            assert_eq!(run["status"], "succeeded", "{name}: {run}");
            assert_eq!(refuse(document, "output", &run["output"]), None, "{run}");
            for secret in document.capability().parameters.iter().filter(|p| p.secret) {
                let value = example.inputs[&secret.name].as_str().unwrap();
                assert!(!run.to_string().contains(value), "{name} tells its secret: {run}");
            }
            if !answers_itself(&example) {
                continue;
            }
            let answers = example.answers.keys().map(ToString::to_string).collect();
            assert_eq!(stage.answered(), answers, "{name}: an answer that nobody asked for");
            let output = example.output.as_ref();
            let output = output.unwrap_or_else(|| panic!("{name}: an example has no output"));
            assert_eq!(run["output"], *output, "{name}: {run}");
        }
    }
    assert_eq!(stage.reached(), steps, "a step sends its request in no example");
}

/// Whether an example has answers that hold however often and from wherever its steps ask.
fn answers_itself(example: &CapabilityExample) -> bool {
    let is_plain = |way: &StepPath| matches!(way.segments(), [piece] if piece.iteration.is_none());
    !example.answers.is_empty() && example.answers.keys().all(is_plain)
}

/// The answers of other examples are for iterations, or for capabilities that are used: such an
/// example holds where the services behave as the stand-ins that are written by hand.
#[test]
fn capabilities_that_use_others_do_what_their_examples_say() {
    let documents = shipped();
    let mut compared = 0;
    for (name, document) in &documents {
        let examples = document.capability().examples.iter();
        let examples: Vec<_> = examples.filter(|example| !answers_itself(example)).collect();
        if examples.is_empty() {
            continue;
        }
        let stage = Stage::default();
        let by_hand = test_support::mock_services::all();
        let mut others = hosts(&documents);
        others.retain(|host| by_hand.iter().all(|standin| standin.host() != host));
        let services = by_hand.into_iter().chain(stage.services(others)).collect();
        // A world of its own, as some stand-ins count.
        let mut world = World::among(services, &[]);
        world.start();
        for example in examples {
            stage.set(name, Some(example), &documents);
            let inputs = Value::Object(example.inputs.clone()).to_string();
            let inputs = world.write("inputs.json", &inputs);
            let run = world.a2s(&["run", name, "--inputs", &inputs, "--json"]).exits(0).one();
            let output = example.output.as_ref();
            let output = output.unwrap_or_else(|| panic!("{name}: an example has no output"));
            assert_eq!(run["output"], *output, "{name}: {run}");
            assert_eq!(refuse(document, "output", output), None);
            assert_eq!(stage.refusals(), [""; 0], "{name}");
            compared += 1;
        }
    }
    assert!(compared >= 5, "{compared}");
}

/// With the answers that they have and without any service.
#[test]
fn every_example_holds_by_itself() {
    let folder = root().join("capabilities");
    let told = a2s(&["test", folder.to_str().unwrap(), "--json"]).exits(0).json();
    let (summary, told) = told.split_last().unwrap();
    let examples: usize =
        shipped().values().map(|document| document.capability().examples.len()).sum();
    assert_eq!(summary["summary"]["passed"], examples);
    assert_eq!(summary["summary"]["failed"], 0);
    for line in told.iter().filter(|line| line["example"].is_number()) {
        assert_eq!(line["unused"], json!([]), "{line}");
        assert_eq!(line["made_up"], json!([]), "a shipped example says what is answered: {line}");
    }
}

/// One after the other, as some stand-ins count.
#[test]
fn every_capability_runs_against_its_stand_ins() {
    let world = World::up(&[]);
    let mut ran = BTreeSet::new();
    for (name, inputs, expected) in samples() {
        let inputs = world.write("inputs.json", &inputs.to_string());
        let run = world.a2s(&["run", name, "--inputs", &inputs, "--json"]);
        let run = run.exits(0).one();
        assert_eq!(run["status"], "succeeded", "{name}: {run}");
        assert_eq!(run["output"], expected, "{name}: {run}");
        ran.insert(name.to_owned());
    }
    // Its result is long; that the breeds arrive whole is enough.
    let run = world.a2s(&["run", "ListDogBreeds", "--json"]).exits(0).one();
    assert_eq!(run["output"]["breeds"][3]["attributes"]["name"], "Poodle", "{run}");
    ran.insert("ListDogBreeds".to_owned());
    // Documents with examples are held to these.
    let documents = shipped();
    let others = documents.iter().filter(|(_, document)| document.capability().examples.is_empty());
    assert_eq!(ran, others.map(|(name, _)| name.clone()).collect());

    let received = world.standin("api.weather.com").received();
    assert_eq!(received[0].target, "/current/Central%20Park");
    let received = world.standin("openlibrary.org").received();
    assert!(
        received[0].target.contains("fields=key,title,author_name,first_publish_year")
            || received[0].target.contains("fields=key%2Ctitle%2Cauthor_name%2Cfirst_publish_year"),
        "{received:?}"
    );
    let received = world.standin("ntfy.sh").received();
    let body: Value = serde_json::from_str(&received[0].body).unwrap();
    assert_eq!(
        body,
        json!({
            "topic": "test-topic", "title": "A title", "message": "Two\nlines", "priority": 4, "tags": ["bell"]
        })
    );
}

/// An example says how somebody would ask for a capability: then it has to be found so.
#[test]
fn the_intent_of_an_example_finds_its_capability() {
    let world = World::up(&[]);
    let mut asked = 0;
    for (name, document) in &shipped() {
        let examples = document.capability().examples.iter();
        for intent in examples.filter_map(|example| example.intent.as_deref()) {
            let found = world.a2s(&["search", intent, "--limit", "3", "--json"]).exits(0).one();
            let mut hits = found["capabilities"].as_array().unwrap().iter();
            assert!(hits.any(|hit| hit["name"] == name.as_str()), "{intent}: {found}");
            asked += 1;
        }
    }
    assert!(asked >= 20, "{asked}");
}

/// What the services refuse is a failed run that names the step and the reason.
#[test]
fn a_refusal_by_a_service_names_step_and_reason() {
    let world = World::up(&[]);
    for (name, inputs, step, reason) in [
        (
            "PostWeatherTweet",
            json!({ "location": "Atlantis", "message": "x" }),
            "getWeather",
            "404",
        ),
        (
            "PostWeatherTweet",
            json!({ "location": "Brokenville", "message": "x" }),
            "getWeather",
            "500",
        ),
        (
            "PostWeatherTweet",
            json!({ "location": "Plaintown", "message": "x" }),
            "getWeather",
            "JSON",
        ),
        ("PostTweet", json!({ "text": " " }), "createTweet", "1 to 280 characters"),
        ("GetCountry", json!({ "country_code": "XX" }), "readCountry", "`$.data.country` is null"),
        (
            "GetCityWeather",
            json!({ "city": "Atlantis" }),
            "findCity",
            "`$` is an object with the members `generationtime_ms`",
        ),
        (
            "GetExchangeRate",
            json!({ "from_currency": "EUR", "to_currency": "XXX" }),
            "readRate",
            "422",
        ),
        (
            "SendNotification",
            json!({ "topic": "a b", "title": "t", "message": "m" }),
            "publish",
            "400",
        ),
    ] {
        let inputs = world.write("inputs.json", &inputs.to_string());
        let run = world.a2s(&["run", name, "--inputs", &inputs, "--json"]).exits(1).one();
        assert_eq!(run["status"], "failed", "{name}: {run}");
        assert_eq!(run["error"]["step"], step, "{name}: {run}");
        let message = run["error"]["message"].as_str().unwrap();
        assert!(message.contains(reason), "{name}: {message}");
    }
    assert_eq!(world.standin("api.twitter.com").requests(), 1, "no tweet without weather");
}
