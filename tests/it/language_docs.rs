//! The documents of docs/language.md: each compiles without a remark, and does what the page says.

use serde_json::{Value, json};

use crate::harness::{World, root};

/// Every whole document of the page, with its checksum filled in.
fn documents() -> Vec<String> {
    let page = std::fs::read_to_string(root().join("docs/language.md")).unwrap();
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let whole = blocks.filter(|block| block.starts_with("a2s:"));
    whole
        .map(|text| {
            let compilation = a2s::compile(text.as_bytes());
            let remarks: Vec<_> = compilation.diagnostics.iter().map(ToString::to_string).collect();
            assert_eq!(remarks.len(), 1, "{text}\n{remarks:#?}");
            assert_eq!(compilation.diagnostics[0].code, "A2S030", "{text}");
            let digest = compilation.digest.unwrap().to_string();
            text.replace("<calculated_checksum>", &digest)
        })
        .collect()
}

#[test]
fn every_document_of_the_reference_does_what_its_examples_say() {
    let world = World::up(&[]);
    let mut ran = 0;
    for text in documents() {
        let name = a2s::compile(text.as_bytes()).name.unwrap();
        let file = world.write(&format!("{name}.yaml"), &text);
        world.a2s(&["publish", &file, "--json"]).exits(0);
        let content = a2s::parse_value(text.as_bytes()).unwrap();
        let none = Vec::new();
        let examples = content["examples"].as_array().unwrap_or(&none);
        for example in examples {
            let inputs = world.write("inputs.json", &example["inputs"].to_string());
            let run = world.a2s(&["run", &name, "--inputs", &inputs, "--json"]).exits(0).one();
            assert_eq!(run["output"], example["output"], "{name}: {run}");
            ran += 1;
        }
        if examples.is_empty() {
            let run = world.a2s(&["run", &name, "--json"]).exits(0).one();
            assert_ne!(run["output"], Value::Null, "{name}: {run}");
        }
    }
    assert!(ran >= 8, "{ran}");
}

/// With the answers that are written there, and without any service.
#[test]
fn every_example_of_the_reference_holds_by_itself() {
    let world = World::down(&[]);
    let folder = world.folder().join("page");
    std::fs::create_dir(&folder).unwrap();
    for (number, text) in documents().into_iter().enumerate() {
        std::fs::write(folder.join(format!("{number}.yaml")), text).unwrap();
    }
    let told = world.a2s(&["test", "page", "--json"]).exits(0).json();
    let summary = &told.last().unwrap()["summary"];
    assert!(summary["passed"].as_u64() >= Some(8), "{summary}");
    for line in told.iter().filter(|line| line["example"].is_number()) {
        assert_eq!([&line["made_up"], &line["unused"]], [&json!([]); 2], "{line}");
    }
}
