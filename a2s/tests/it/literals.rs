//! Content that is probably a mistake: keys of services, templates of other languages, and empty keys.

use a2s::{Diagnostic, compile, compile_to_publish, compile_with_checksum};
use serde_json::{Value, json};

/// A document whose step sends these inputs, with its checksum.
fn document(inputs: &Value, extra: &Value) -> String {
    let parameter =
        |name: &str, place: &str| json!({"name": name, "in": place, "schema": {"type": "string"}});
    let task = json!({
        "openapi": "3.0.3", "info": {"title": "T", "version": "1"},
        "servers": [{"url": "https://api.example"}],
        "paths": {"/": {"get": {
            "description": format!("Send a key such as {}_live_51H8abcdefgh1234.", "sk"),
            "parameters": [
                parameter("X-Api-Key", "header"), parameter("q", "query"), parameter("api_key", "query"),
                parameter("session-token", "cookie"), parameter("Idempotency-Key", "header"),
            ],
            "responses": {"200": {"description": ""}},
        }}},
    });
    let mut content = json!({
        "a2s": "1.1.0", "name": "Test", "description": "A test", "domains": ["api.example"],
        "version": "1.0.0", "authors": [{"name": "A"}],
        "parameters": [{"name": "number", "type": "string"}],
        "execution": {"type": "sequence", "steps": [
            {"id": "get", "format": "OpenAPI", "task": task, "input_mapping": inputs},
            {"id": "again", "format": "OpenAPI", "task": task, "input_mapping": {"q": "${number}"}},
        ]},
    });
    for (name, value) in extra.as_object().unwrap() {
        content[name] = value.clone();
    }
    content["checksum"] = json!(a2s::Digest::of_document(&content).unwrap().to_string());
    content.to_string()
}

/// The findings of a code.
fn findings(diagnostics: Vec<Diagnostic>, code: &str) -> Vec<Diagnostic> {
    diagnostics.into_iter().filter(|found| found.code == code).collect()
}

#[test]
fn a_key_in_a_document_is_refused_at_publishing_alone() {
    // The parts stand apart, so that no search for keys finds this file.
    let key = format!("{}_live_51H8abcdefgh1234", "sk");
    for inputs in [
        json!({"headerParameters": {"X-Api-Key": key}}),
        json!({"headerParameters": {"X-Api-Key": "any text"}}),
        json!({"queryParameters": {"api_key": "any text"}}),
        json!({"cookieParameters": {"session-token": "any text"}}),
        json!({"q": key}),
        json!({"q": format!("${{number}} {key}")}),
    ] {
        let text = document(&inputs, &json!({}));
        let published = compile_to_publish(text.as_bytes());
        assert!(published.document.is_none(), "{inputs}");
        let found = findings(published.diagnostics, "A2S023");
        assert!(found.len() == 1 && found[0].is_error(), "{inputs}: {found:?}");
        assert!(found[0].path.starts_with("execution.steps[0].input_mapping."), "{found:?}");
        assert!(!format!("{found:?}").contains(&key), "the message shows the key: {found:?}");
        let draft = findings(compile(text.as_bytes()).diagnostics, "A2S023");
        assert!(draft.len() == 1 && !draft[0].is_error(), "{inputs}: {draft:?}");
        // What was published before still runs.
        let run = compile_with_checksum(text.as_bytes());
        assert!(run.document.is_some(), "{inputs}: {:?}", run.diagnostics);
        assert!(findings(run.diagnostics, "A2S023").is_empty(), "{inputs}");
        // The author may state that it is public.
        let public = document(&inputs, &json!({"x-a2s-public-keys": true}));
        assert!(compile_to_publish(public.as_bytes()).document.is_some(), "{inputs}");
    }
}

#[test]
fn values_that_are_no_keys_of_the_author_are_accepted() {
    for inputs in [
        json!({"headerParameters": {"X-Api-Key": "${number}"}}),
        json!({"headerParameters": {"X-Api-Key": ""}}),
        json!({"headerParameters": {"Idempotency-Key": "order-1"}}),
        json!({"q": "sk-SK"}),
    ] {
        let text = document(&inputs, &json!({}));
        let found = findings(compile_to_publish(text.as_bytes()).diagnostics, "A2S023");
        assert!(found.is_empty(), "{inputs}: {found:?}");
    }
}

#[test]
fn a_literal_that_looks_like_a_template_is_remarked_on() {
    for (written, hint) in [
        ("{{number}}", "Write `${number}`."),
        ("$inputs.number", "Write `${number}`."),
        ("No. {number}", "Write `${number}`."),
        ("{{ other }}", "Write `${other}` for the value of a variable."),
    ] {
        let text = document(&json!({"q": written}), &json!({}));
        let published = compile_to_publish(text.as_bytes());
        assert!(published.document.is_some(), "{written}: {:?}", published.diagnostics);
        let found = findings(published.diagnostics, "A2S024");
        assert_eq!(found.len(), 1, "{written}");
        assert_eq!(found[0].path, "execution.steps[0].input_mapping.q");
        assert!(found[0].hint.as_ref().unwrap().starts_with(hint), "{found:?}");
        let run = compile_with_checksum(text.as_bytes());
        assert!(findings(run.diagnostics, "A2S024").is_empty(), "{written}");
    }
    for written in ["${number}", "$${number}", "US$ 5", "{other}", "{}"] {
        let text = document(&json!({"q": written}), &json!({}));
        let found = findings(compile_to_publish(text.as_bytes()).diagnostics, "A2S024");
        assert!(found.is_empty(), "{written}: {found:?}");
    }
}

#[test]
fn an_empty_key_is_refused_at_publishing_alone() {
    let colon = "the colon has no key before it";
    for source in
        [": 1\n", "x-a: {: 1}\n", "x-a:\n- : 1\n", "x-a: [: 1]\n", "? \n: 1\n", "&a : 1\n"]
    {
        let is_found = |diagnostics: Vec<Diagnostic>, is_error: bool| {
            let mut found = findings(diagnostics, "A2S006").into_iter();
            found.any(|found| found.message == colon && found.is_error() == is_error)
        };
        assert!(is_found(compile_to_publish(source.as_bytes()).diagnostics, true), "{source:?}");
        let draft = compile(source.as_bytes());
        assert!(draft.digest.is_some() && is_found(draft.diagnostics, false), "{source:?}");
        let run = compile_with_checksum(source.as_bytes());
        assert!(findings(run.diagnostics, "A2S006").is_empty(), "{source:?}");
    }
    for source in
        ["~: 1\n", "'': 1\n", "\"~\": 1\n", "? ~\n: 1\n", "a:\n", "- \n", "&a ~: 1\n", "{\"~\": 1}"]
    {
        let found = findings(compile_to_publish(source.as_bytes()).diagnostics, "A2S006");
        assert!(found.is_empty(), "{source:?}: {found:?}");
    }
}
