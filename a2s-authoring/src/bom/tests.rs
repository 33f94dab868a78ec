use serde_json::{Value, json};

use super::*;

fn task(id: &str, server: &str, security: &Value) -> Value {
    json!({
        "id": id, "format": "OpenAPI",
        "task": {
            "openapi": "3.0.3", "info": {"title": "Things", "version": "1.0.0"},
            "servers": [{"url": server}],
            "components": {"securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
            }},
            "paths": {"/things": {"get": {
                "summary": "Get \u{202e}things", "security": security,
                "responses": {"200": {"description": "The thing"}},
            }}},
        },
    })
}

fn document(name: &str, steps: &[Value], uses: &[&str]) -> Document {
    let calls = uses
        .iter()
        .map(|name| json!({"id": format!("use{name}"), "type": "capability", "use": name}));
    let steps: Vec<_> = steps.iter().cloned().chain(calls).collect();
    let dependencies: Vec<_> =
        uses.iter().map(|name| json!({"capability": name, "version": "*"})).collect();
    let content = json!({
        "a2s": "1.1.0", "name": name, "description": "Does \"it\" \u{0}\u{1f600}\n<b>",
        "domains": ["things.example", "other.example:8443"], "version": "1.2.0",
        "authors": [{"name": "Zoë", "email": "zoe@example.com"}, {"name": "x", "email": "none"}],
        "permissions": ["things:read"], "dependencies": dependencies,
        "execution": {"type": "sequence", "steps": steps},
    });
    let compilation = a2s::compile(content.to_string().as_bytes());
    let found = compilation.diagnostics;
    compilation.document.unwrap_or_else(|| panic!("{found:#?}"))
}

fn bill(root: &Document, below: &[Document], made_at: Option<Timestamp>) -> (Bom, Value) {
    let mut shelf = DependencyIndex::default();
    below.iter().for_each(|document| shelf.add_document(document));
    let bom = Bom::of(root, below, &shelf, made_at);
    let told = serde_json::to_value(&bom).unwrap();
    (bom, told)
}

fn open() -> Value {
    json!([])
}

#[test]
fn bill_lists_capabilities_tools_services_and_their_uses() {
    let low = document(
        "Low",
        &[task("get", "https://other.example:8443/v1", &json!([{"key": []}]))],
        &[],
    );
    let steps = [
        task("ask", "https://things.example/a", &open()),
        task("tell", "https://things.example/b", &open()),
    ];
    let top = document("Top", &steps, &["Low"]);
    let (bom, told) = bill(&top, std::slice::from_ref(&low), None);
    assert_eq!((bom.component_count(), bom.service_count()), (4, 2));
    let (own, below) = (top.digest().to_string(), low.digest().to_string());
    let component = &told["metadata"]["component"];
    assert_eq!(component["hashes"], json!([{"alg": "SHA-256", "content": top.digest().to_hex()}]));
    assert_eq!((&component["bom-ref"], &component["version"]), (&json!(own), &json!("1.2.0")));
    assert_eq!(
        component["authors"],
        json!([{"name": "Zoë", "email": "zoe@example.com"}, {"name": "x"}])
    );
    assert_eq!(component["description"], top.capability().description.as_str());
    assert!(
        component["properties"]
            .as_array()
            .unwrap()
            .contains(&json!({"name": "a2s:permission", "value": "things:read"}))
    );
    let names: Vec<_> = told["components"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["Low", "Top.ask", "Top.tell", "Low.get"]);
    assert_eq!(
        told["services"],
        json!([
            {
                "bom-ref": "service:other.example:8443", "name": "other.example:8443",
                "description": "Things", "endpoints": ["https://other.example:8443/v1"],
                "authenticated": true, "x-trust-boundary": true,
                "properties": [
                    {"name": "a2s:format", "value": "OpenAPI"},
                    {"name": "a2s:operation", "value": "GET /things"},
                    {"name": "a2s:security-scheme", "value": "key (apiKey)"},
                ],
            },
            {
                "bom-ref": "service:things.example", "name": "things.example",
                "description": "Things",
                "endpoints": ["https://things.example/a", "https://things.example/b"],
                "authenticated": false, "x-trust-boundary": true,
                "properties": [
                    {"name": "a2s:format", "value": "OpenAPI"},
                    {"name": "a2s:operation", "value": "GET /things"},
                ],
            },
        ])
    );
    let uses = |reference: &str| {
        let all = told["dependencies"].as_array().unwrap();
        let found = all.iter().find(|one| one["ref"] == reference).unwrap();
        found.get("dependsOn").cloned().unwrap_or_default()
    };
    let mut expected = vec![below.clone(), format!("{own}#ask"), format!("{own}#tell")];
    expected.sort();
    assert_eq!(uses(&own), json!(expected));
    assert_eq!(uses(&below), json!([format!("{below}#get")]));
    assert_eq!(uses(&format!("{below}#get")), json!(["service:other.example:8443"]));
    assert_eq!(uses("service:things.example"), Value::Null);
}

#[test]
fn bom_is_reproducible_with_a_serial_of_its_content() {
    let low = document("Low", &[task("get", "https://things.example", &open())], &[]);
    let other = document("Low", &[task("gets", "https://things.example", &open())], &[]);
    let more = document("More", &[task("get", "https://things.example", &open())], &[]);
    let top = document("Top", &[], &["Low", "More"]);
    let make = |below: &[Document]| bill(&top, below, None).0;
    let bom = make(&[low.clone(), more.clone()]);
    assert_eq!(bom.to_string(), make(&[more.clone(), low]).to_string());
    assert_ne!(bom.serial_number(), make(&[other, more]).serial_number());
    assert!(!bom.to_string().contains("timestamp"));
    assert_eq!(bom.serial_number().get_version_num(), 5);
}

#[test]
fn a_time_is_told_when_it_is_given() {
    let top = document("Top", &[task("get", "https://things.example", &open())], &[]);
    let at = "2026-01-02T03:04:05Z";
    let (bom, told) = bill(&top, &[], Some(at.parse().unwrap()));
    assert_eq!(told["metadata"]["timestamp"], at);
    assert_eq!(bom.serial_number(), bill(&top, &[], None).0.serial_number());
    assert_eq!(told["serialNumber"], bom.serial_number().urn().to_string());
}

#[test]
fn of_what_is_not_there_name_version_and_digest_are_told() {
    let low = document("Low", &[task("get", "https://things.example", &open())], &[]);
    let top = document("Top", &[], &["Low"]);
    let mut shelf = DependencyIndex::default();
    shelf.add_document(&low);
    let told = serde_json::to_value(Bom::of(&top, &[], &shelf, None)).unwrap();
    assert_eq!(told["components"][0]["bom-ref"], low.digest().to_string());
    assert_eq!(told["components"].as_array().unwrap().len(), 1);
    let known: Vec<_> =
        told["dependencies"].as_array().unwrap().iter().map(|one| one["ref"].clone()).collect();
    assert!(known.contains(&json!(low.digest())), "{known:?}");
}

#[test]
fn a_tool_of_an_mcp_server_is_told_by_its_name_and_its_effect() {
    let step = json!({
        "id": "ask", "format": "MCP",
        "task": {
            "server": "https://things.example/mcp", "tool": "get_forecast",
            "description": "Tells the weather", "annotations": {"readOnlyHint": true},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "security": [{"key": []}],
        },
    });
    let (_, told) = bill(&document("Top", &[step], &[]), &[], None);
    let tool = &told["components"][0];
    assert_eq!(
        (&tool["name"], &tool["description"]),
        (&json!("Top.ask"), &json!("Tells the weather"))
    );
    let is = |name: &str, value: &str| json!({"name": format!("a2s:{name}"), "value": value});
    let [format, operation] = [is("format", "MCP"), is("operation", "tools/call get_forecast")];
    let expected = json!([is("kind", "tool"), format, operation, is("read-only", "true")]);
    assert_eq!(tool["properties"], expected);
    let service = json!({
        "bom-ref": "service:things.example", "name": "things.example",
        "endpoints": ["https://things.example/mcp"], "authenticated": true,
        "x-trust-boundary": true,
        "properties": [format, operation, is("security-scheme", "key (http)")],
    });
    assert_eq!(told["services"], json!([service]));
}
