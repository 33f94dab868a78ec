//! `a2s bom`: what others make of the bills.

use serde_json::{Value, json};

use super::DOCUMENT;
use super::validate::user;
use crate::harness::{World, a2s, asked_others, root};

/// Bills as a validator of others judges them, where there is one.
fn validate(bills: &[Value]) {
    let lines: String = bills.iter().map(|bill| format!("{bill}\n")).collect();
    if let Some(judged) = asked_others("check_bom.py", lines.as_bytes()) {
        let judged: Vec<_> = judged.lines().collect();
        assert_eq!(judged.len(), bills.len());
        for (judgement, bill) in judged.iter().zip(bills) {
            assert_eq!(*judgement, "good", "{}", bill["metadata"]["component"]["name"]);
        }
    }
}

#[test]
fn bills_of_all_shipped_capabilities_are_valid() {
    let folder = root().join("capabilities");
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let folder = folder.to_str().unwrap();
    let bills: Vec<_> = files
        .iter()
        .map(|file| {
            a2s(&["bom", file.to_str().unwrap(), "--folder", folder, "--json"]).exits(0).one()
        })
        .collect();
    assert!(bills.len() > 30);
    let of = |name: &str| bills.iter().find(|bill| bill["metadata"]["component"]["name"] == name);
    let bill = of("PostWeatherTweet").unwrap();
    let hosts: Vec<_> = bill["services"]
        .as_array()
        .unwrap()
        .iter()
        .map(|service| service["name"].clone())
        .collect();
    assert_eq!(hosts, ["api.twitter.com", "api.weather.com"]);
    validate(&bills);
}

/// A document with everything that makes trouble: each kind of character, long texts, many tools,
/// and fifty dependencies, each with a service of its own.
#[test]
fn a_hostile_capability_has_a_valid_bill() {
    let world = World::down(&[]);
    std::fs::create_dir(world.folder().join("all")).unwrap();
    let nasty = "\u{202e}<b>&amp;\"'\\\u{1f469}\u{200d}\u{1f680}\u{0}\u{7f}\u{feff}\n\t]]>\u{301}\u{10ffff}";
    let step = |id: String, host: &str, path: &str| {
        json!({
            "id": id, "format": "OpenAPI",
            "task": {
                "openapi": "3.1.0", "info": {"title": nasty, "version": nasty},
                "servers": [{"url": format!("https://{host}/%F0%9F%9A%80/{}", "v".repeat(1_000))}],
                "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "query", "name": "k"}}},
                "paths": {path: {"get": {
                    "summary": nasty.repeat(100), "security": [{"key": []}],
                    "responses": {"200": {"description": nasty}},
                }}},
            },
        })
    };
    let write = |name: &str, hosts: &[String], steps: Vec<Value>, uses: &[String]| {
        let calls = uses
            .iter()
            .map(|name| json!({"id": format!("use{name}"), "type": "capability", "use": name}));
        let steps: Vec<_> = steps.into_iter().chain(calls).collect();
        let dependencies: Vec<_> =
            uses.iter().map(|name| json!({"capability": name, "version": "*"})).collect();
        let content = json!({
            "a2s": "1.1.0", "name": name, "description": nasty, "domains": hosts,
            "version": "1.0.0+build.7", "checksum": "<checksum>",
            "authors": [{"name": nasty, "email": "no address"}, {"name": "x", "email": nasty.replace('<', "@")}],
            "dependencies": dependencies, "execution": {"type": "sequence", "steps": steps},
        });
        world.write(&format!("all/{name}.json"), &content.to_string())
    };
    let names: Vec<String> = (0..50).map(|n| format!("Below{n}")).collect();
    let hosts: Vec<String> = (0..50).map(|n| format!("h{n}.example:{}", 8_000 + n)).collect();
    for (name, host) in names.iter().zip(&hosts) {
        write(name, std::slice::from_ref(host), vec![step("get".to_owned(), host, "/a")], &[]);
    }
    let own: Vec<_> = (0..100)
        .map(|n| {
            step(format!("own{n}"), &hosts[n % 50], &format!("/\u{1f680}/<b>&amp;'\u{301}/{n}"))
        })
        .collect();
    let top = write("Top", &hosts, own, &names);
    let folder = world.folder().join("all");
    let arguments = ["bom", &top, "--folder", folder.to_str().unwrap(), "--json"];
    let bill = a2s(&arguments).exits(0).one();
    assert_eq!(bill["components"].as_array().unwrap().len(), 50 + 100 + 50);
    assert_eq!(bill["services"].as_array().unwrap().len(), 50);
    let shown = a2s::to_single_line(nasty, usize::MAX);
    assert_eq!(bill["metadata"]["component"]["description"], shown);
    assert_eq!(a2s(&arguments).one(), bill);
    validate(&[bill]);
}

#[test]
fn a_bill_is_made_of_what_is_published_or_lies_in_a_folder() {
    let world = World::up(&[]);
    let low = world.write("Low.yaml", &DOCUMENT.replace("GetThing", "Low"));
    let top =
        world.write("Top.yaml", &user("Top", "Low", "version: ^1.0.0", "{city: \"${city}\"}"));
    let missing = world.a2s(&["bom", &top]).exits(1);
    assert!(missing.stdout.contains("Low"), "{missing:?}");
    for file in [&low, &top] {
        world.a2s(&["checksum", "--write", file]).exits(0);
        world.a2s(&["publish", file]).exits(0);
    }
    let printed = world.a2s(&["bom", "Top@1.0.0"]).exits(0).stdout;
    let folder = world.folder().to_str().unwrap().to_owned();
    assert_eq!(world.a2s(&["bom", &top, "--folder", &folder]).exits(0).stdout, printed);
    assert_eq!(world.a2s(&["bom", &top]).exits(0).stdout, printed);
    let bill: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(world.a2s(&["bom", "Top", "--json"]).exits(0).one(), bill);
    assert_eq!(bill["metadata"].get("timestamp"), None);
    let names: Vec<_> =
        bill["components"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names[0], "Low");
    assert_eq!(names.last().unwrap(), "Low.getThing");

    let written = world.a2s(&["bom", "Top", "--output", "top.cdx.json"]).exits(0);
    assert!(written.stdout.contains("top.cdx.json"), "{written:?}");
    assert_eq!(std::fs::read_to_string(world.folder().join("top.cdx.json")).unwrap(), printed);
    let told = world.a2s(&["bom", "Top", "-o", "top.cdx.json", "--json"]).exits(0).one();
    assert_eq!(told["serialNumber"], bill["serialNumber"]);
    assert_eq!((&told["components"], &told["services"]), (&json!(names.len()), &json!(1)));
    let timed = world.a2s(&["bom", "Top", "--timestamp", "--json"]).exits(0).one();
    assert!(timed["metadata"]["timestamp"].is_string());
    validate(&[bill, timed]);
}
