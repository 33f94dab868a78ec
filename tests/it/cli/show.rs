//! `a2s show` and `a2s explain`: what is there to read.

use insta::assert_snapshot;

use super::{DOCUMENT, document};
use crate::harness::{World, a2s, shipped};

/// What language 1.1 says about inputs and steps.
const TYPED: &str = r#"a2s: 1.1.0
name: ShowEverything
description: "Shows \e[31mall\e[0m that an interface has"
domains: [api.weather.com]
version: 1.2.0
checksum: "<calculated_checksum>"
authors: [{name: Test}, {name: Other}]
permissions: [weather.read, "social:write"]
parameters:
  - {name: cities, type: array, description: Where to look, patterns: ["in *"]}
  - {name: unit, enum: [metric, imperial], default: metric}
  - {name: token, type: string, secret: true}
  - {name: limit, type: integer, required: false}
execution:
  type: sequence
  steps:
    - id: each
      for_each: {in: "${cities}", as: city}
      retry: {max_attempts: 3}
      format: OpenAPI
      task:
        openapi: 3.0.3
        info: {title: Things, version: 1.0.0}
        servers: [{url: "https://api.weather.com"}]
        paths:
          /current/{city}:
            get:
              parameters:
                - {name: city, in: path, required: true, schema: {type: string}}
                - {name: unit, in: query, schema: {type: string}}
                - {name: limit, in: query, schema: {type: integer}}
                - {name: X-Token, in: header, schema: {type: string}}
              responses:
                "200":
                  description: The weather
                  content:
                    application/json:
                      schema:
                        type: object
                        properties: {text: {type: string}}
      input_mapping: {city: "${city}", unit: "${unit}", limit: "${limit}", X-Token: "${token}"}
      output_mapping: {texts: "$.text"}
"#;

#[test]
fn a_file_shows_its_interface() {
    let world = World::down(&[]);
    world.write("typed.yaml", TYPED);
    assert_snapshot!("show_file", world.a2s(&["show", "typed.yaml"]).transcript());
    let shown = world.a2s(&["show", "--json", "./typed.yaml"]).exits(0).one();
    assert_eq!(shown["interface"]["inputs"][1]["default"], "metric");
    assert_eq!(shown["interface"]["permissions"][1], "social:write");
    let schema = world.a2s(&["show", "--schema", "typed.yaml"]).exits(0).stdout;
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    assert_eq!(schema["input"]["properties"]["limit"]["type"], "integer");
    jsonschema::meta::validate(&schema["input"]).unwrap();
    jsonschema::meta::validate(&schema["output"]).unwrap();
    world.write("bad.yaml", "a: 1");
    world.a2s(&["show", "bad.yaml"]).exits(1);
    world.a2s(&["show", "no/such/file"]).exits(1);
    let again = a2s(&["show", shipped("GetJoke").to_str().unwrap()]).exits(0);
    assert!(again.stdout.starts_with("GetJoke 1.0.0"), "{again:?}");
}

#[test]
fn the_registry_chooses_the_version() {
    let world = World::up(&[]);
    for version in ["1.0.0", "1.2.0", "1.3.0-beta.1", "2.0.0-rc.1"] {
        let path = document(&world, "Many", "version: 1.0.0", &format!("version: {version}"));
        world.a2s(&["publish", &path]).exits(0);
    }
    let shown = |target: &str| {
        let line = world.a2s(&["show", target, "--json"]).exits(0).one();
        assert_eq!(line["versions"].as_array().unwrap().len(), 4);
        line["version"].as_str().unwrap().to_owned()
    };
    assert_eq!(shown("Many"), "1.2.0");
    assert_eq!(shown("Many@^1"), "1.2.0");
    assert_eq!(shown("Many@1.0.0"), "1.0.0");
    assert_eq!(shown("Many@2.0.0-rc.1"), "2.0.0-rc.1");
    let missing = world.a2s(&["show", "Many@^3"]).exits(1);
    assert!(missing.stderr.contains("A2S221") && missing.stderr.contains("1.2.0"), "{missing:?}");
}

#[test]
fn a_code_is_explained() {
    let explained = a2s(&["explain", "a2s011"]).exits(0);
    assert_snapshot!("explain", explained.transcript());
    let line = a2s(&["explain", "A2S011", "--json"]).exits(0).one();
    assert_eq!(line["code"], "A2S011");
    assert!(line["mistake"].is_string() && line["repair"].is_string());
    let world = World::down(&[]);
    world.write("bad.yaml", &DOCUMENT.replacen("description", "descripton", 1));
    let said = world.a2s(&["validate", "bad.yaml"]).exits(1).stdout;
    assert!(said.contains("a2s explain"), "{said}");
    a2s(&["explain", "A2S999"]).exits(2);
    assert_eq!(a2s(&["explain", "11"]).exits(0).stdout, explained.stdout);
    a2s(&["explain", "0"]).exits(2);
    for code in a2s::CODES {
        a2s(&["explain", code.id]).exits(0);
    }
}
