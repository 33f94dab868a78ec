//! `a2s import`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::Redirect;
use axum::routing::get;
use insta::assert_snapshot;
use serde_json::json;

use super::Desk;
use crate::harness::{RUNTIME, World, root, serve};

/// A file for imports.
fn fixture(name: &str) -> String {
    root().join("tests/fixtures/import").join(name).to_str().unwrap().to_owned()
}

#[test]
fn operations_become_documents() {
    let desk = Desk::new();
    let shop = fixture("shop.yaml");
    let ran = desk.a2s(&["import", "openapi", &shop, "--out", "shop"]).exits(1);
    assert_snapshot!("import_openapi", ran.transcript());
    let files = ["GetItem.yaml", "ListItems.yaml", "PutItemsById.yaml"];
    assert_eq!(desk.files("shop"), files);
    for file in files {
        assert_snapshot!(format!("import_{file}"), desk.read(&format!("shop/{file}")));
    }
    desk.a2s(&["validate", "shop"]).exits(0);
    desk.a2s(&["fmt", "--check", "shop"]).exits(0);
    for file in files {
        desk.a2s(&["verify", &format!("shop/{file}")]).exits(0);
    }
}

#[test]
fn files_with_other_content_are_kept() {
    let desk = Desk::new();
    let shop = fixture("shop.yaml");
    let import = |more: &[&str]| {
        let arguments = ["import", "openapi", &shop, "--operation", "get-item", "--json"];
        desk.a2s(&[&arguments, more].concat())
    };
    let written = |ran: crate::harness::Ran| ran.one()["documents"][0]["written"].clone();
    assert_eq!(written(import(&[]).exits(0)), "new");
    let text = desk.read("GetItem.yaml");
    assert_eq!(written(import(&[]).exits(0)), "unchanged");
    desk.write("GetItem.yaml", "mine");
    assert_eq!(written(import(&[]).exits(1)), "kept");
    assert_eq!(desk.read("GetItem.yaml"), "mine");
    assert_eq!(written(import(&["--force"]).exits(0)), "replaced");
    assert_eq!(desk.read("GetItem.yaml"), text);
    // Names, author and address as told.
    import(&["--prefix", "corner", "--author", "Jane", "--server", "https://x.example"]).exits(0);
    let told = desk.read("CornerGetItem.yaml");
    for line in ["name: CornerGetItem", "  - name: Jane", "  - x.example"] {
        assert!(told.contains(line), "{line} in {told}");
    }
}

#[test]
fn operations_are_listed_and_found_by_name() {
    let desk = Desk::new();
    let shop = fixture("shop.yaml");
    let listed = desk.a2s(&["import", "openapi", &shop, "--list", "--json"]).exits(0).one();
    let names: Vec<_> = listed["operations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|operation| operation["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["ListItems", "GetItem", "PutItemsById", "UploadPicture"]);
    assert!(desk.files(".").is_empty());
    desk.a2s(&["import", "openapi", &shop, "--operation", "PUT /items/{id}"]).exits(0);
    assert_eq!(desk.files("."), ["PutItemsById.yaml"]);
    let unknown = desk.a2s(&["import", "openapi", &shop, "--operation", "listItem"]).exits(1);
    assert!(unknown.stderr.contains("Did you mean `listItems`?"), "{unknown:?}");
}

#[test]
fn what_is_remarked_about_many_operations_is_told_once() {
    let desk = Desk::new();
    let paths: serde_json::Map<String, serde_json::Value> = (1..=5)
        .map(|n| {
            let id = json!({"name": "id", "in": "path", "schema": {"type": "string"}});
            let answer = json!({"200": {"description": ""}});
            (format!("/a{n}/{{id}}"), json!({"get": {"parameters": [id], "responses": answer}}))
        })
        .collect();
    let servers = json!([{"url": "https://api.example.com"}]);
    let description = json!({
        "openapi": "3.0.3", "info": {"title": "T", "version": "1"}, "servers": servers, "paths": paths,
    });
    desk.write("api.json", &description.to_string());
    let told = |ran: crate::harness::Ran| {
        ran.stdout.matches("a path parameter is always required").count()
    };
    assert_eq!(told(desk.a2s(&["import", "openapi", "api.json"]).exits(0)), 1);
    // One that is imported alone says it itself, and so does what machines read.
    let one = ["import", "openapi", "api.json", "--operation", "GetA1ById"];
    assert_eq!(told(desk.a2s(&one).exits(0)), 1);
    assert_eq!(told(desk.a2s(&["import", "openapi", "api.json", "--json"]).exits(0)), 5);
    let again = desk.a2s(&["import", "openapi", "api.json", "--prefix", "42"]).exits(1);
    assert!(again.stderr.contains("the prefix `42` has no letter"), "{again:?}");
}

#[test]
fn duplicate_keys_are_reported_with_their_lines() {
    let desk = Desk::new();
    let get = r#"{responses: {"200": {description: ok}}}"#;
    let head =
        "openapi: 3.0.3\ninfo: {title: T, version: '1'}\nservers: [{url: 'https://a.example'}]\n";
    let paths = format!("paths:\n  /a:\n    get: {get}\n  /a:\n    put: {get}\n");
    desk.write("api.yaml", &format!("{head}{paths}"));
    let ran = desk.a2s(&["import", "openapi", "api.yaml"]).exits(0);
    let reason = "paths./a: the key appears at line 5, column 3 and again at line 7, column 3";
    assert!(ran.stdout.contains(reason), "{ran:?}");
    let listed = desk.a2s(&["import", "openapi", "api.yaml", "--list"]).exits(0);
    assert!(listed.stderr.contains(reason), "{listed:?}");
    let json = desk.a2s(&["import", "openapi", "api.yaml", "--json"]).exits(0).one();
    assert_eq!(json["remarks"][0]["place"], "paths./a");

    let flows = std::fs::read_to_string(fixture("flows.yaml")).unwrap();
    let shop = std::fs::read_to_string(fixture("shop.yaml")).unwrap();
    desk.write("shop.yaml", &shop.replace("\npaths:", "\npaths: {}\npaths:"));
    desk.write("flows.yaml", &format!("{flows}\ninfo: {{title: Other, version: '1'}}\n"));
    let json = desk.a2s(&["import", "arazzo", "flows.yaml", "--json"]).exits(1).one();
    let places = [&json["remarks"][0]["place"], &json["remarks"][1]["place"]];
    assert_eq!(places, ["info", "source shop: paths"]);
}

#[test]
fn other_files_are_refused_with_what_to_do() {
    let desk = Desk::new();
    desk.write("old.json", r#"{"swagger": "2.0", "paths": {}}"#);
    desk.write("none.yaml", "a: 1\n");
    desk.write("broken.yaml", "a: [\n");
    for (file, told) in [
        ("old.json", "swagger2openapi"),
        ("none.yaml", "not an OpenAPI description"),
        ("broken.yaml", "neither JSON nor YAML"),
        ("missing.yaml", "an address that starts with `https://`"),
    ] {
        let ran = desk.a2s(&["import", "openapi", file]).exits(1);
        assert!(ran.stderr.contains(told), "{told} in {ran:?}");
    }
}

#[test]
fn a_description_is_fetched_within_bounds() {
    let text = std::fs::read_to_string(fixture("shop.yaml")).unwrap();
    let relative = text.replace("https://api.shop.example/{version}", "/base/{version}");
    let routes = Router::new()
        .route("/shop.yaml", get(|| async { ([(header::CONTENT_TYPE, "text/plain")], relative) }))
        .route("/moved", get(|| async { Redirect::permanent("/shop.yaml") }))
        .route("/loop", get(|| async { Redirect::permanent("/loop") }))
        .route("/huge", get(|| async { "x".repeat((32 << 20) + 1) }))
        .route("/gone", get(|| async { StatusCode::GONE }));
    let port = RUNTIME.block_on(test_support::serve(routes)).port();
    let desk = Desk::new();
    let import = |path: &str| {
        let url = format!("http://localhost:{port}/{path}");
        desk.a2s(&["import", "openapi", &url, "--operation", "get-item", "--force"])
    };
    for path in ["shop.yaml", "moved"] {
        import(path).exits(0);
        // The address is relative to where the description was found.
        let expected = format!("- url: http://localhost:{port}/base/v2");
        assert!(desk.read("GetItem.yaml").contains(&expected));
    }
    assert!(import("huge").exits(1).stderr.contains("32 MiB"));
    assert!(import("gone").exits(1).stderr.contains("410 Gone"));
    import("loop").exits(4);
    desk.a2s(&["import", "openapi", "http://localhost:1/"]).exits(4);
}

#[test]
fn queries_become_documents() {
    let desk = Desk::new();
    let (schema, operations) = (fixture("things.graphql"), fixture("things-operations.graphql"));
    let endpoint = ["--endpoint", "https://api.things.example/graphql"];
    let import = ["import", "graphql", &schema, "--operation", &operations];
    desk.a2s(&[&import[..], &endpoint[..]].concat()).exits(0);
    let files = ["FindThings.yaml", "Give.yaml", "ThingOwner.yaml"];
    assert_eq!(desk.files("."), files);
    for file in files {
        assert_snapshot!(format!("import_{file}"), desk.read(file));
    }
    desk.a2s(&["validate", "."]).exits(0);
    desk.a2s(&["fmt", "--check", "."]).exits(0);

    desk.write("wrong.graphql", "query Q { nothing }\n");
    let import = ["import", "graphql", &schema, "--operation", "wrong.graphql"];
    let wrong = desk.a2s(&[&import[..], &endpoint[..]].concat()).exits(1);
    assert!(wrong.stderr.contains("line 1, column 11"), "{wrong:?}");
    desk.a2s(&import).exits(2);
}

#[test]
fn workflows_become_documents() {
    let desk = Desk::new();
    let flows = fixture("flows.yaml");
    let ran = desk.a2s(&["import", "arazzo", &flows, "--out", "flows"]).exits(1);
    assert_snapshot!("import_arazzo", ran.transcript());
    let files = ["FindNewest.yaml", "RepriceNewest.yaml"];
    assert_eq!(desk.files("flows"), files);
    for file in files {
        assert_snapshot!(format!("import_{file}"), desk.read(&format!("flows/{file}")));
    }
    desk.a2s(&["validate", "flows"]).exits(0);
    desk.a2s(&["fmt", "--check", "flows"]).exits(0);

    // Without the description of the service, every workflow says what it misses.
    desk.write("flows.yaml", &std::fs::read_to_string(&flows).unwrap());
    let alone = desk.a2s(&["import", "arazzo", "flows.yaml", "--json"]).exits(1);
    assert!(alone.stderr.contains("source `shop`"), "{alone:?}");
    assert_eq!(alone.one()["summary"]["refused"], 3);
    let source = format!("shop={}", fixture("shop.yaml"));
    desk.a2s(&["import", "arazzo", "flows.yaml", "--source", &source]).exits(1);
    assert_eq!(desk.read("FindNewest.yaml"), desk.read("flows/FindNewest.yaml"));
}

#[test]
fn workflows_read_only_their_folder_and_named_hosts() {
    let desk = Desk::new();
    std::fs::create_dir(desk.path().join("flows")).unwrap();
    let shop = std::fs::read_to_string(fixture("shop.yaml")).unwrap();
    let flows = std::fs::read_to_string(fixture("flows.yaml")).unwrap();
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    let address = serve(Router::new().fallback(async move || {
        counter.fetch_add(1, Ordering::Relaxed);
        shop
    }));
    let host = "127.0.0.1";
    for (source, reason) in [
        (format!("{address}/shop.yaml"), format!("--allow-host {host}")),
        ("../shop.yaml".to_owned(), "outside the folder".to_owned()),
    ] {
        desk.write("flows/flows.yaml", &flows.replace("./shop.yaml", &source));
        desk.write("shop.yaml", "openapi: 3.0.0");
        let refused = desk.a2s(&["import", "arazzo", "flows/flows.yaml"]).exits(1);
        assert!(refused.stderr.contains(&reason), "{source}: {refused:?}");
    }
    assert_eq!(requests.load(Ordering::Relaxed), 0);
    desk.write("flows/flows.yaml", &flows.replace("./shop.yaml", &format!("{address}/shop.yaml")));
    let allowed = ["import", "arazzo", "flows/flows.yaml", "--out", "out", "--allow-host", host];
    desk.a2s(&allowed).exits(1);
    assert_eq!(desk.files("out"), ["FindNewest.yaml", "RepriceNewest.yaml"]);
}

#[test]
fn what_was_imported_is_published_and_planned() {
    let world = World::up(&[]);
    let desk = Desk::new();
    desk.a2s(&["import", "openapi", &fixture("shop.yaml")]).exits(1);
    desk.a2s(&["import", "arazzo", &fixture("flows.yaml"), "--prefix", "Shop"]).exits(1);
    let files: Vec<String> = desk
        .files(".")
        .iter()
        .map(|file| desk.path().join(file).to_str().unwrap().to_owned())
        .collect();
    let publish: Vec<&str> =
        ["publish"].into_iter().chain(files.iter().map(String::as_str)).collect();
    world.a2s(&publish).exits(0);
    let plan = world.a2s(&["run", "GetItem", "--input", "id=7", "--dry-run", "--json"]).exits(0);
    assert!(plan.stdout.contains("https://api.shop.example/v2/items/{id}"), "{plan:?}");
    let missing = world.a2s(&["run", "ShopRepriceNewest", "--dry-run", "--json"]).exits(0);
    assert!(missing.stdout.contains("price"), "{missing:?}");
    let shown = world.a2s(&["show", "PutItemsById", "--json"]).exits(0).one();
    let inputs: Vec<_> = shown["interface"]["inputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|input| (input["name"].clone(), input["required"].clone()))
        .collect();
    assert_eq!(inputs[0], (json!("id"), json!(true)));
    assert!(inputs.contains(&(json!("title"), json!(true))));
    assert!(inputs.contains(&(json!("tags"), json!(false))));
}

#[test]
fn a_schema_alone_gives_a_document_for_each_field_at_the_top() {
    let desk = Desk::new();
    let schema = fixture("things.graphql");
    let endpoint = ["--endpoint", "https://api.things.example/graphql"];
    let ran = desk.a2s(&[&["import", "graphql", &schema, "--json"], &endpoint[..]].concat());
    let ran = ran.exits(0).one();
    let names: Vec<_> = ran["documents"].as_array().unwrap().iter().map(|d| &d["name"]).collect();
    assert_eq!(names, ["Things", "Thing", "Give"]);
    desk.a2s(&["validate", "."]).exits(0);
    // Their examples hold as they are.
    desk.a2s(&["test", "--require-examples", "."]).exits(0);
}

#[test]
fn a_server_is_told_for_workflows() {
    let desk = Desk::new();
    let server = ["--server", "https://elsewhere.example"];
    let flows = fixture("flows.yaml");
    desk.a2s(&[&["import", "arazzo", &flows, "--out", "told"], &server[..]].concat());
    for file in desk.files("told") {
        let text = desk.read(&format!("told/{file}"));
        assert!(text.contains("  - elsewhere.example"), "{file}: {text}");
    }
    assert!(!desk.files("told").is_empty());
}
