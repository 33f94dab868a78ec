//! The command as a user types it: transcripts of what it prints, and how it exits.

mod arguments;
mod bom;
mod compose;
mod editing;
mod findability;
mod graph;
mod guardian;
mod lines;
mod lock;
mod planned;
mod replay;
mod show;
mod stats;
mod test;
mod validate;
mod watch;

use insta::assert_snapshot;

use crate::harness::{World, a2s, shipped};

/// A document with one GET step, to be broken in one place.
const DOCUMENT: &str = r#"a2s: 1.0.0
name: GetThing
description: Gets a thing by its id
domains: [api.weather.com]
version: 1.0.0
checksum: "<calculated_checksum>"
authors: [{name: Test}]
execution:
  type: sequence
  steps:
    - id: getThing
      format: OpenAPI
      task:
        openapi: 3.0.3
        info: {title: Things, version: 1.0.0}
        servers: [{url: "https://api.weather.com"}]
        paths:
          /current/{city}:
            get:
              parameters: [{name: city, in: path, required: true, schema: {type: string}}]
              responses: {"200": {description: The thing}}
      input_mapping: {city: "${city}"}
      output_mapping: {text: "$.weather.description"}
"#;

/// Writes the document with `from` replaced by `to` and its checksum filled in.
fn document(world: &World, name: &str, from: &str, to: &str) -> String {
    let text = DOCUMENT.replace("GetThing", name).replacen(from, to, 1);
    let path = world.write(&format!("{name}.yaml"), &text);
    world.a2s(&["checksum", "--write", &path]).exits(0);
    path
}

#[test]
fn help_and_usage() {
    let help = a2s(&["--help"]).exits(0);
    for command in [
        "demo",
        "up",
        "serve",
        "validate",
        "explain",
        "checksum",
        "verify",
        "publish",
        "search",
        "services",
        "graph",
        "show",
        "stats",
        "lock",
        "run",
        "runs",
        "new",
        "import",
        "fmt",
        "schema",
        "test",
        "guardian",
        "bom",
        "yank",
        "unyank",
        "deprecate",
        "owners",
        "tokens",
        "audit",
        "mirror",
    ] {
        assert!(help.stdout.contains(&format!("  {command} ")), "{command}");
        assert!(a2s(&[command, "--help"]).exits(0).stdout.contains("--json"), "{command}");
    }
    assert!(help.stdout.contains("Exit codes"));
    a2s(&["nonsense"]).exits(2);
    a2s(&["verify", "lower-case"]).exits(2);
    a2s(&["run", "Name", "--input", "no-equals-sign"]).exits(2);
}

#[test]
fn a_service_that_is_not_there() {
    let world = World::down(&[]);
    for arguments in [
        &["search", "x"][..],
        &["stats", "X"],
        &["show", "X"],
        &["run", "X"],
        &["runs"],
        &["verify", "X"],
    ] {
        let failed = world.a2s(arguments).exits(4);
        assert!(failed.stderr.contains("a2s up"), "{failed:?}");
    }
    let failed = world.a2s(&["search", "x", "--json"]).exits(4).one();
    assert_eq!(failed["error"]["code"], "A2S501");
}

#[test]
fn failed_start_reports_the_code_of_its_cause() {
    for (service, file, code) in
        [("registry", "registry.sqlite", "A2S260"), ("executor", "executor.sqlite", "A2S393")]
    {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().to_str().unwrap();
        std::fs::write(folder.path().join(file), "no database, however long it is").unwrap();
        let listen = ["--listen", "127.0.0.1:0", "--data-dir", data, "--json"];
        let refused = a2s(&[&["serve", service][..], &listen].concat()).exits(1);
        assert_eq!(refused.one()["error"]["code"], code, "{refused:?}");
    }
}

#[test]
fn checksum_prints_and_writes() {
    let world = World::down(&[]);
    let path = world.write("thing.yaml", DOCUMENT);
    world.a2s(&["verify", &path]).exits(1);
    let printed = world.a2s(&["checksum", &path]).exits(0).stdout;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), DOCUMENT, "printing writes nothing");
    assert_eq!(world.a2s(&["checksum", "--write", &path]).exits(0).stdout, printed);
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(written, DOCUMENT.replace("<calculated_checksum>", printed.trim()));
    world.a2s(&["verify", &path]).exits(0);
}

#[test]
fn transcripts_of_the_main_commands() {
    let world = World::up(&[]);
    assert_snapshot!("show", world.a2s(&["show", "PostWeatherTweet"]).transcript());
    assert_snapshot!(
        "plan",
        world
            .a2s(&["run", "PostWeatherTweet", "--dry-run", "--input", "location=Paris"])
            .transcript()
    );
    let arguments =
        ["run", "PostWeatherTweet", "--input", "location=Paris", "--input", "message=Now:"];
    assert_snapshot!("run", world.a2s(&arguments).transcript());
    let id =
        world.a2s(&["runs", "--json"]).one()["executions"][0]["id"].as_str().unwrap().to_owned();
    assert_snapshot!("runs", world.a2s(&["runs"]).transcript());
    assert_snapshot!("run_of_an_id", world.a2s(&["runs", &id]).transcript());
    assert_snapshot!(
        "publish_again",
        world.a2s(&["publish", shipped("GetJoke").to_str().unwrap()]).transcript()
    );
    assert_snapshot!("verify", world.a2s(&["verify", "ListDogBreeds@1.0.0"]).transcript());
}

/// Loops, attempts, time and errors that are handled (1.1).
const TOUR: &str = r##"a2s: 1.1.0
name: CityTour
description: Looks at the weather in several cities
domains: [api.weather.com]
version: 1.0.0
checksum: "<calculated_checksum>"
authors: [{name: Test}]
permissions: [weather.read]
parameters:
  - {name: cities, type: array}
tasks:
  current:
    openapi: 3.0.3
    info: {title: Weather, version: 1.0.0}
    servers: [{url: "https://api.weather.com"}]
    paths:
      /current/{city}:
        get:
          parameters: [{name: city, in: path, required: true, schema: {type: string}}]
          responses: {"200": {description: The weather}}
execution:
  type: sequence
  steps:
    - id: each
      for_each: {in: "${cities}", as: city, max_items: 10}
      retry: {max_attempts: 2, initial_delay: 1ms}
      timeout: 1m
      on_error: continue
      format: OpenAPI
      task: {$ref: "#/tasks/current"}
      input_mapping: {city: "${city}"}
      output_mapping: {texts: "$.weather.description"}
    - id: lost
      format: OpenAPI
      task: {$ref: "#/tasks/current"}
      input_mapping: {city: Atlantis}
      output_mapping: {last: "$.weather.description"}
      catch:
        as: error
        steps:
          - id: instead
            format: OpenAPI
            task: {$ref: "#/tasks/current"}
            input_mapping: {city: Paris}
            output_mapping: {last: "$.weather.description"}
"##;

#[test]
fn loops_and_handled_errors_are_shown() {
    let world = World::up(&[]);
    let path = world.write("CityTour.yaml", TOUR);
    world.a2s(&["checksum", "--write", &path]).exits(0);
    world.a2s(&["publish", &path]).exits(0);
    let cities = "cities=[\"Paris\", \"Atlantis\"]";
    let planned = world.a2s(&["run", "CityTour", "--dry-run", "--input", cities]);
    assert_snapshot!("plan_of_a_loop", planned.transcript());
    assert_snapshot!(
        "run_of_a_loop",
        world.a2s(&["run", "CityTour", "--input", cities]).transcript()
    );
}

#[test]
fn what_goes_wrong_in_a_run_names_step_place_and_remedy() {
    let world = World::up(&["--upstream", "nowhere.example=http://127.0.0.1:9"]);
    let cases = [
        ("MissingInput", "\0", "", vec![]),
        ("UnknownInput", "\0", "", vec!["city=Paris", "town=Paris"]),
        ("NotFound", "\0", "", vec!["city=Atlantis"]),
        ("ServerError", "\0", "", vec!["city=Brokenville"]),
        ("NotJson", "\0", "", vec!["city=Plaintown"]),
        ("PathMiss", "$.weather.description", "$.weather.text", vec!["city=Paris"]),
        ("Unreachable", "api.weather.com", "nowhere.example", vec!["city=Paris"]),
    ];
    for (name, from, to, inputs) in cases {
        let text = DOCUMENT.replace("GetThing", name).replace(from, to);
        world.publish(&text);
        let mut arguments = vec!["run", name];
        for input in &inputs {
            arguments.extend(["--input", input]);
        }
        let ran = world.a2s(&arguments).exits(1);
        assert_snapshot!(format!("fails_{name}"), ran.transcript());
    }
}

#[test]
fn an_answer_that_is_not_as_declared_is_a_warning_or_an_error() {
    let plain = r#"responses: {"200": {description: The thing}}"#;
    let declared = r#"responses: {"200": {description: The thing, content: {application/json: {schema: {
                type: object, properties: {weather: {type: object, required: [humidity], properties: {description: {type: integer}}}}}}}}}"#;
    for (name, flags) in [("Remarked", &[][..]), ("Misfit", &["--check-answers", "error"])] {
        let world = World::up(flags);
        let path = document(&world, name, plain, declared);
        world.a2s(&["publish", &path]).exits(0);
        let ran = world.a2s(&["run", name, "--input", "city=Paris"]);
        assert_snapshot!(format!("answer_{name}"), ran.transcript());
    }
}

#[test]
fn publishing_mistakes_reports_them_all() {
    let world = World::up(&[]);
    let foreign = document(&world, "Foreign", "https://api.weather.com", "https://evil.example");
    let refused = world.a2s(&["publish", &foreign, "--json"]).exits(1).one();
    let codes: Vec<_> = refused["error"]["diagnostics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["code"].clone())
        .collect();
    assert_eq!(codes, ["A2S052"]);
    world.a2s(&["show", "Foreign"]).exits(1);
}

#[test]
fn publishing_what_does_not_fit_its_dependencies_shows_where() {
    let world = World::up(&[]);
    let held = "a2s: 1.1.0\npermissions: [weather.read]";
    let child = document(&world, "Child", "a2s: 1.0.0", held);
    world.a2s(&["publish", &child]).exits(0);
    let parent = validate::user("Parent", "Child", "version: ^1.0.0", "{city: x, town: y}");
    let parent = world.write("Parent.yaml", &parent);
    world.a2s(&["checksum", "--write", &parent]).exits(0);
    assert_snapshot!("publish_refused", world.a2s(&["publish", "Parent.yaml"]).transcript());
}
