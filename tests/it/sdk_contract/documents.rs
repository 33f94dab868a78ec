//! Calls about documents: reading, verifying, publishing.

use super::*;

/// A version of `Greet` as a document.
fn greet(version: &str, description: &str) -> Value {
    let text =
        capability("Greet", version, description, "GET /sky/{city}", json!({"sky": "$.sky"}));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn documents() {
    let world = world();
    let mut recorder = Recorder::new(&world);
    let joke = reference(&world, "GetJoke");
    let path = "/v1/capabilities/GetJoke/1.0.0";
    let document = recorder.call(
        "documents/a version",
        "get_capability",
        json!({"name": "GetJoke", "version": "1.0.0"}),
        &Sent::get(path),
    );
    let latest = Sent::get("/v1/capabilities/GetJoke/latest");
    recorder.call("documents/the latest", "get_capability", json!({"name": "GetJoke"}), &latest);
    let verify = |recorder: &mut Recorder<'_>,
                  name: &str,
                  capability: &Value,
                  exchanges: &[&Exchange]| {
        let arguments = json!({"capability": capability});
        recorder.record(name, "verify_checksum", arguments, exchanges, json!({"result": document}));
    };
    let fetched = recorder.exchange(&Sent::get(path));
    verify(&mut recorder, "documents/verify a reference", &joke, &[&fetched]);
    verify(&mut recorder, "documents/verify a document", &document, &[]);
    let found = recorder
        .exchange(&Sent::post("/v1/search", json!({"intent": "tell me a joke", "limit": 1})));
    let hit = found.body["capabilities"][0].clone();
    verify(&mut recorder, "documents/verify a hit", &hit, &[&fetched]);

    let mut changed = document.clone();
    changed["description"] = json!("Tells a joke, and sends your secrets away");
    let computed = a2s::Digest::of_document(&changed).unwrap().to_string();
    let response = json!({
        "status": 200, "headers": {"content-type": "application/json"}, "body": changed,
    });
    let lie = answered_with(&fetched, response);
    let error = json!({"error": {
        "class": "ChecksumMismatch", "code": null, "expected": joke["checksum"], "computed": computed,
    }});
    for (name, capability) in [("a reference", &joke), ("a hit", &hit)] {
        recorder.record(
            &format!("documents/a registry that lies about {name}"),
            "verify_checksum",
            json!({"capability": capability}),
            &[&lie],
            error.clone(),
        );
    }
    recorder.record(
        "documents/a registry that lies about a version",
        "get_capability",
        json!({"name": "GetJoke", "version": "1.0.0"}),
        &[&lie],
        error.clone(),
    );
    recorder.record(
        "documents/a document that was changed",
        "verify_checksum",
        json!({"capability": changed}),
        &[],
        error,
    );

    read(&mut recorder);
    publish(&mut recorder);
    change(&mut recorder);
    recorder.finish("documents");
}

/// Reads what the registry knows.
fn read(recorder: &mut Recorder<'_>) {
    let pages = |recorder: &mut Recorder<'_>,
                 name: &str,
                 call: &str,
                 arguments: Value,
                 first: &str,
                 list: &str| {
        let (mut exchanges, mut items) = (Vec::new(), Vec::new());
        let mut path = first.to_owned();
        loop {
            let exchange = recorder.exchange(&Sent::get(&path));
            items.extend(exchange.body[list].as_array().unwrap().clone());
            let next = exchange.body["next"].as_str().map(str::to_owned);
            exchanges.push(exchange);
            let Some(next) = next else { break };
            let (route, query) = first.split_once('?').unwrap();
            path = format!("{route}?after={next}&{query}");
        }
        assert!(exchanges.len() > 1, "{name} has one page");
        let exchanges: Vec<_> = exchanges.iter().collect();
        recorder.record(name, call, arguments, &exchanges, json!({"result": items}));
    };
    let limit = json!({"limit": 4});
    pages(
        recorder,
        "documents/list capabilities",
        "list_capabilities",
        limit,
        "/v1/capabilities?limit=4",
        "capabilities",
    );
    let limit = json!({"limit": 3});
    pages(
        recorder,
        "documents/list services",
        "list_services",
        limit,
        "/v1/services?limit=3",
        "services",
    );
    let arguments = json!({"host": HOST, "limit": 2});
    let path = format!("/v1/services/{HOST}?limit=2");
    pages(
        recorder,
        "documents/capabilities of a service",
        "list_service_capabilities",
        arguments,
        &path,
        "capabilities",
    );

    let name = json!({"name": "GetJoke"});
    for (title, call, arguments, path) in [
        ("versions", "list_versions", name.clone(), "/v1/capabilities/GetJoke"),
        ("a graph", "get_graph", name.clone(), "/v1/capabilities/GetJoke/graph"),
        (
            "a graph with impact",
            "get_graph",
            json!({"name": "GetJoke", "version": "1.0.0", "depth": 2, "impact": true}),
            "/v1/capabilities/GetJoke/1.0.0/graph?depth=2&impact=true",
        ),
        (
            "statistics",
            "get_stats",
            json!({"name": "GetJoke", "version": "1.0.0"}),
            "/v1/capabilities/GetJoke/1.0.0/stats",
        ),
        ("owners", "list_owners", name, "/v1/capabilities/GetJoke/owners"),
        ("the index", "get_index", json!({}), "/v1/index"),
    ] {
        recorder.call(&format!("documents/{title}"), call, arguments, &Sent::get(path));
    }
    let stored = json!({"name": "GetJoke", "version": "1.0.0"});
    let sent = Sent::post("/v1/verify", stored.clone());
    recorder.call("documents/verify in the registry", "verify_stored", stored, &sent);

    let description = json!({"description": crate::access::DESCRIPTION});
    let sent = Sent::post("/v1/drafts", description.clone());
    recorder.call("documents/drafts", "create_drafts", description, &sent);
    let wrong = json!({"description": "{}"});
    let sent = Sent::post("/v1/drafts", wrong.clone());
    let title = "documents/drafts of another text";
    recorder.fails(title, "InvalidInput", ("create_drafts", wrong), &sent);

    let (mut exchanges, mut changes, mut since) = (Vec::new(), Vec::new(), 0);
    loop {
        let path = format!("/v1/changes?limit=4&since={since}");
        let exchange = recorder.exchange(&Sent::get(&path));
        changes.extend(exchange.body["changes"].as_array().unwrap().clone());
        since = exchange.body["next"].as_u64().unwrap();
        let has_more = exchange.body["has_more"] == true;
        exchanges.push(exchange);
        if !has_more {
            break;
        }
    }
    let exchanges: Vec<_> = exchanges.iter().collect();
    let arguments = json!({"since": 0, "limit": 4});
    recorder.record(
        "documents/changes",
        "list_changes",
        arguments,
        &exchanges,
        json!({"result": changes}),
    );

    for (title, call, arguments, path) in [
        (
            "an unknown capability",
            "list_versions",
            json!({"name": "NoSuchThing"}),
            "/v1/capabilities/NoSuchThing",
        ),
        (
            "an unknown version",
            "get_capability",
            json!({"name": "GetJoke", "version": "9.9.9"}),
            "/v1/capabilities/GetJoke/9.9.9",
        ),
        (
            "an unknown service",
            "list_service_capabilities",
            json!({"host": "no.example"}),
            "/v1/services/no.example",
        ),
    ] {
        recorder.fails(
            &format!("documents/{title}"),
            "NotFound",
            (call, arguments),
            &Sent::get(path),
        );
    }
    let bad = Sent::get("/v1/capabilities/GetJoke/not-a-version");
    let arguments = json!({"name": "GetJoke", "version": "not-a-version"});
    recorder.fails(
        "documents/a version that is none",
        "InvalidInput",
        ("get_capability", arguments),
        &bad,
    );
}

fn publish(recorder: &mut Recorder<'_>) {
    let document = greet("1.0.0", "Greets a city");
    let arguments = json!({"document": document});
    for name in ["documents/publish", "documents/publish again"] {
        let sent = Sent::post("/v1/capabilities", document.clone());
        recorder.call(name, "publish", arguments.clone(), &sent);
    }
    let text = greet("1.1.0", "Greets a city and its mayor").to_string();
    let sent = Sent::post("/v1/capabilities", json!(text));
    recorder.call("documents/publish text", "publish", json!({"document": text}), &sent);

    let other = greet("1.0.0", "Greets a city in another way");
    let sent = Sent::post("/v1/capabilities", other.clone());
    let call = ("publish", json!({"document": other}));
    recorder.fails("documents/publish other content", "Conflict", call, &sent);

    let broken = "a2s: 1.1.0\nname: lower\nchecksum: x\n";
    for (name, call, route) in [
        ("documents/publish with errors", "publish", "/v1/capabilities"),
        ("documents/validate with errors", "validate", "/v1/findability"),
    ] {
        let sent = Sent::post(route, json!(broken));
        recorder.fails(name, "InvalidDocument", (call, json!({"document": broken})), &sent);
    }
    let document = greet("1.2.0", "Says hello to a city");
    let sent = Sent::post("/v1/findability", document.clone());
    recorder.call("documents/validate", "validate", json!({"document": document}), &sent);

    recorder.token = "none".to_owned();
    let sent = Sent::post("/v1/capabilities", document.clone());
    let call = ("publish", json!({"document": document}));
    recorder.fails("documents/publish without a token", "Unauthorized", call, &sent);
    recorder.token = recorder.world.token();
}

fn change(recorder: &mut Recorder<'_>) {
    let version = json!({"name": "Greet", "version": "1.0.0"});
    for call in ["yank", "unyank"] {
        let path = format!("/v1/capabilities/Greet/1.0.0/{call}");
        let sent = Sent::new(Method::POST, &path, Value::Null);
        recorder.call(&format!("documents/{call}"), call, version.clone(), &sent);
    }
    let path = "/v1/capabilities/Greet/1.0.0/deprecate";
    for (name, body) in [
        ("deprecate", json!({"message": "Use the newer one.", "successor": "Greet@^1.1"})),
        ("undo a deprecation", json!({"undo": true})),
    ] {
        let mut arguments = version.clone();
        arguments.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        recorder.call(
            &format!("documents/{name}"),
            "deprecate",
            arguments,
            &Sent::post(path, body),
        );
    }
    let path = "/v1/capabilities/Greet/owners";
    recorder.exchange(&Sent::post("/v1/tokens", json!({"name": "ann", "scopes": ["publish"]})));
    for (name, body) in
        [("add an owner", json!({"add": "ann"})), ("remove an owner", json!({"remove": "ann"}))]
    {
        let mut arguments = json!({"name": "Greet"});
        arguments.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        recorder.call(
            &format!("documents/{name}"),
            "change_owners",
            arguments,
            &Sent::post(path, body),
        );
    }
    let sent = Sent::new(Method::DELETE, "/v1/capabilities/Greet/learned", Value::Null);
    recorder.call("documents/forget intents", "forget_intents", json!({"name": "Greet"}), &sent);
    let sent = Sent::new(Method::POST, "/v1/capabilities/Greet/7.0.0/yank", Value::Null);
    let call = ("yank", json!({"name": "Greet", "version": "7.0.0"}));
    recorder.fails("documents/yank an unknown version", "NotFound", call, &sent);
}
