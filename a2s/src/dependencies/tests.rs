use serde_json::{Map, Value, json};

use super::*;
use crate::diagnostic::SourcePosition;

/// A document with one request and one step for each of `uses`: name, range, pin and mapping.
fn document(name: &str, version: &str, uses: &[(&str, &str, Option<Digest>, Value)]) -> Document {
    document_with(name, version, uses, &json!({}))
}

/// The same with further fields.
fn document_with(
    name: &str,
    version: &str,
    uses: &[(&str, &str, Option<Digest>, Value)],
    more: &Value,
) -> Document {
    let dependencies: Vec<Value> = uses
        .iter()
        .map(|(name, range, pin, _)| {
            let mut dependency = json!({"capability": name, "version": range});
            if let Some(pin) = pin {
                dependency["checksum"] = json!(pin);
            }
            dependency
        })
        .collect();
    let calls = uses.iter().enumerate().map(|(index, (name, _, _, inputs))| {
        json!({"id": format!("use{index}"), "type": "capability", "use": name, "input_mapping": inputs})
    });
    let mut steps = vec![json!({
        "id": "ask",
        "format": "OpenAPI",
        "task": {
            "openapi": "3.0.3",
            "info": {"title": "Things", "version": "1.0.0"},
            "servers": [{"url": "https://things.example"}],
            "paths": {"/things/{id}": {"get": {
                "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
                "responses": {"200": {"description": "The thing"}},
            }}},
        },
        "input_mapping": {"id": "${id}"},
        "output_mapping": {"thing": "$.thing"},
    })];
    steps.extend(calls);
    let mut content = json!({
        "a2s": "1.1.0",
        "name": name,
        "description": "Does something",
        "domains": ["things.example"],
        "version": version,
        "authors": [{"name": "Test"}],
        "execution": {"type": "sequence", "steps": steps},
    });
    let members: &mut Map<String, Value> = content.as_object_mut().unwrap();
    if !dependencies.is_empty() {
        members.insert("dependencies".to_owned(), json!(dependencies));
    }
    members.extend(more.as_object().unwrap().clone());
    let compilation = crate::compile(content.to_string().as_bytes());
    compilation.document.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics))
}

fn shelf<'d>(documents: impl IntoIterator<Item = &'d Document>) -> DependencyIndex {
    let mut shelf = DependencyIndex::default();
    documents.into_iter().for_each(|document| shelf.add_document(document));
    shelf
}

/// What linking says: code, whether it is an error, and a part of the message.
#[track_caller]
fn check(shelf: &DependencyIndex, root: &Document, expected: &[(&str, bool, &str)]) {
    let found = shelf.check_dependencies(root.capability());
    let told: Vec<_> = found.iter().map(|d| (&*d.code, d.is_error(), &*d.message)).collect();
    assert_eq!(told.len(), expected.len(), "{told:?}");
    for ((code, is_error, message), (a_code, an_error, part)) in told.iter().zip(expected) {
        assert_eq!((code, is_error), (a_code, an_error), "{message}");
        assert!(message.contains(part), "{message}");
    }
}

fn yank(shelf: &mut DependencyIndex, document: &Document) {
    let capability = document.capability();
    let (version, checksum) = (capability.version.clone(), document.digest());
    shelf.add_versions(
        &capability.name,
        [VersionInfo { version, checksum, yanked: true, deprecated: None }],
    );
}

#[test]
fn range_selects_newest_stable_and_pin_its_content() {
    let [old, new, beta, next] =
        ["1.0.0", "1.2.0", "1.3.0-beta.1", "2.0.0"].map(|version| document("Low", version, &[]));
    let mut shelf = shelf([&beta, &old, &next, &new]);
    let closure = |shelf: &DependencyIndex, range: &str, pin: Option<Digest>| {
        let root = document("Top", "1.0.0", &[("Low", range, pin, json!({"id": "1"}))]);
        let pins = shelf.closure(&root.capability().dependencies);
        pins.iter().map(|pin| pin.version.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(closure(&shelf, "^1.0.0", None), ["1.2.0"]);
    assert_eq!(closure(&shelf, ">=1.3.0-beta.1, <2", None), ["1.3.0-beta.1"]);
    assert_eq!(closure(&shelf, "^1.0.0", Some(old.digest())), ["1.0.0"]);
    yank(&mut shelf, &new);
    assert_eq!(closure(&shelf, "^1.0.0", None), ["1.0.0"]);
    assert_eq!(closure(&shelf, "^1.0.0", Some(new.digest())), ["1.2.0"]);
    assert_eq!(closure(&shelf, "^3.0.0", None), [""; 0]);
}

#[test]
fn a_dependency_has_to_be_there_live_in_its_range_and_as_pinned() {
    let low = document("Low", "1.2.0", &[]);
    let mut shelf = shelf([&low]);
    let root = |range: &str, pin| document("Top", "1.0.0", &[("Low", range, pin, json!({}))]);
    check(&shelf, &root("^1.0.0", None), &[]);
    check(
        &shelf,
        &root("^2.0.0", None),
        &[("A2S062", true, "matches `^2.0.0`; published versions: 1.2.0")],
    );
    let other = Some(Digest::of_bytes(b"other"));
    check(&shelf, &root("^1.0.0", other), &[("A2S063", true, "no version of `Low` has")]);
    let pin = Some(low.digest());
    check(&shelf, &root("^2.0.0", pin), &[("A2S064", true, "1.2.0 of `Low` is outside")]);
    yank(&mut shelf, &low);
    check(&shelf, &root("^1.0.0", pin), &[("A2S065", true, "1.2.0 of `Low` was yanked")]);
    let unknown = document("Top", "1.0.0", &[("Other", "^1.0.0", None, json!({}))]);
    check(&shelf, &unknown, &[]);
    assert_eq!(shelf.missing_dependencies(&unknown.capability().dependencies).len(), 1);
    shelf.add_versions(&CapabilityName::new("Other").unwrap(), []);
    check(&shelf, &unknown, &[("A2S062", true, "`Other` is not published")]);
}

#[test]
fn what_is_missing_further_below_is_reported_too() {
    let [low, middle] = [("Low", "Lower"), ("Middle", "Low")]
        .map(|(name, below)| document(name, "1.0.0", &[(below, "^1.0.0", None, json!({}))]));
    let top = document("Top", "1.0.0", &[("Middle", "*", None, json!({}))]);
    let mut all = shelf([&low, &middle]);
    // Nobody knows yet whether it is there.
    check(&all, &top, &[]);
    assert_eq!(all.missing_dependencies(&top.capability().dependencies).len(), 1);
    all.add_versions(&CapabilityName::new("Lower").unwrap(), []);
    check(&all, &top, &[("A2S062", true, "`Middle` 1.0.0 depends on `Lower` in `^1.0.0`")]);
    all.add_document(&document("Lower", "1.0.0", &[]));
    check(&all, &top, &[]);
}

#[test]
fn a_capability_never_uses_itself_and_chains_end() {
    let loops = document("Top", "1.0.0", &[("Low", "^1.0.0", None, json!({}))]);
    let low = document("Low", "1.0.0", &[("Top", "^1.0.0", None, json!({}))]);
    let both = shelf([&loops, &low]);
    check(&both, &loops, &[("A2S066", true, "`Low` 1.0.0 uses `Top`")]);
    check(&both, &low, &[("A2S066", true, "`Top` 1.0.0 uses `Low`")]);
    let own = document("Top", "1.1.0", &[("Top", "^1.0.0", None, json!({}))]);
    check(&shelf([&document("Top", "1.0.0", &[])]), &own, &[("A2S066", true, "uses itself")]);

    let mut chain = vec![document("C0", "1.0.0", &[])];
    for index in 1..=9 {
        let below = format!("C{}", index - 1);
        chain.push(document(&format!("C{index}"), "1.0.0", &[(&below, "*", None, json!({}))]));
    }
    let all = shelf(&chain);
    check(&all, &chain[8], &[]);
    check(&all, &chain[9], &[("A2S069", true, "has a dependency chain of 8 capabilities")]);
    assert_eq!(all.closure(&chain[9].capability().dependencies).len(), 9);
}

#[test]
fn hosts_and_permissions_of_what_it_uses_are_declared() {
    let more =
        json!({"domains": ["things.example", "else.example"], "permissions": ["a.read", "b"]});
    let low = document_with("Low", "1.0.0", &[], &more);
    let shelf = shelf([&low]);
    let uses = [("Low", "^1.0.0", None, json!({"id": "1"}))];
    let part = json!({"permissions": ["b"]});
    check(
        &shelf,
        &document_with("Top", "1.0.0", &uses, &part),
        &[("A2S067", true, "`else.example`"), ("A2S070", true, "requires `a.read`, which")],
    );
    let all =
        json!({"domains": ["things.example", "else.example"], "permissions": ["b", "a.read"]});
    check(&shelf, &document_with("Top", "1.0.0", &uses, &all), &[]);
}

#[test]
fn only_known_inputs_with_fitting_values_are_mapped() {
    let parameters = json!({"parameters": [
        {"name": "id", "type": "string"},
        {"name": "count", "type": "integer", "default": 1},
        {"name": "unit", "enum": ["m", "km"], "required": false},
    ]});
    let low = document_with("Low", "1.0.0", &[], &parameters);
    let shelf = shelf([&low]);
    let check = |inputs: Value, expected: &[(&str, bool, &str)]| {
        let parameters = json!({"parameters": [
            {"name": "id"},
            {"name": "flag", "type": "boolean"},
            {"name": "size", "type": "number"},
            {"name": "maybe", "type": "string", "required": false},
        ]});
        let uses = [("Low", "^1.0.0", None, inputs)];
        check(&shelf, &document_with("Top", "1.0.0", &uses, &parameters), expected);
    };
    let error = |part| [("A2S071", true, part)];
    check(json!({"id": "${thing}", "count": "${size}", "unit": "km"}), &[]);
    check(json!({"id": "x", "cuont": 1}), &error("`Low` 1.0.0 has no input `cuont`"));
    check(json!({"id": 1}), &error("`id` accepts a string"));
    check(json!({"id": "x", "unit": "mile"}), &error("`unit` accepts only"));
    check(json!({"id": "x", "count": "${flag}"}), &error("`count` accepts a whole number, not"));
    check(json!({"id": "x", "count": "no ${id}"}), &error("`count` accepts a whole number, not"));
    check(json!({"id": "${maybe}"}), &error("it requires a value, but `maybe` is optional"));
    check(json!({"id": "x", "unit": "${maybe}"}), &[]);
    check(json!({"id": {"a": "${thing}"}}), &error("`id` accepts a string, not an object"));
}

#[test]
fn what_is_passed_through_counts_as_an_input() {
    let more = json!({"output": {"thing": "${thing}", "place": "${place}"}});
    let low = document_with("Low", "1.0.0", &[], &more);
    let top = document("Top", "1.0.0", &[("Middle", "*", None, json!({"id": "1", "place": "x"}))]);
    // It maps nothing: its caller gives the `place` of `Low`, and may do so by mapping.
    let middle = document("Middle", "1.0.0", &[("Low", "*", None, json!({}))]);
    check(&shelf([&low, &middle]), &top, &[]);
    let covers = document("Middle", "1.0.0", &[("Low", "*", None, json!({"place": "${thing}"}))]);
    let all = shelf([&low, &covers]);
    check(&all, &top, &[("A2S071", true, "`Middle` 1.0.0 has no input `place`")]);
    assert_eq!(
        all.check_dependencies(top.capability())[0].hint.as_deref(),
        Some("Known inputs are `id`.")
    );
}

#[test]
fn one_capability_with_two_contents_is_reported() {
    let (one, two) = (document("Low", "1.0.0", &[]), document("Low", "2.0.0", &[]));
    let use_low = |name: &str, low: &Document| {
        document(name, "1.0.0", &[("Low", "*", Some(low.digest()), json!({"id": "1"}))])
    };
    let (left, right, third) =
        (use_low("Left", &one), use_low("Right", &two), use_low("Third", &one));
    let all = shelf([&one, &two, &left, &right, &third]);
    let uses = |names: &[&'static str]| {
        let uses: Vec<_> =
            names.iter().map(|name| (*name, "*", None, json!({"id": "1"}))).collect();
        document("Top", "1.0.0", &uses)
    };
    check(&all, &uses(&["Left", "Third"]), &[]);
    let conflict = "`Low` is used in two versions: 1.0.0 through `Left`, 2.0.0 through `Right`";
    check(&all, &uses(&["Left", "Right"]), &[("A2S072", false, conflict)]);
    let top = uses(&["Left", "Right"]);
    assert_eq!(all.check_dependencies(top.capability())[0].related.len(), 1);
    assert_eq!(all.closure(&top.capability().dependencies).len(), 4);
    // Whoever uses `Top` was told when `Top` was written.
    let above = document("Above", "1.0.0", &[("Top", "*", None, json!({"id": "1"}))]);
    check(&shelf([&one, &two, &left, &right, &top]), &above, &[]);
}

#[test]
fn a_remark_moves_to_the_place_of_its_path() {
    let source = b"execution:\n  steps:\n    - use: Low\n      input_mapping: {id: 1, cuont: 2}\n";
    let remark = |path: &str| {
        Diagnostic::error(
            error_code::DEPENDENCY_INPUTS,
            (path, SourcePosition::default()),
            String::new(),
        )
    };
    let moved = add_positions(
        source,
        vec![remark("execution.steps[0].input_mapping.cuont"), remark("nothing.there")],
    );
    assert_eq!(moved[0].position, SourcePosition { line: 4, column: 30 });
    assert_eq!(moved[1].position, SourcePosition::default());
}

#[test]
fn a_document_amounts_to_what_it_and_everything_below_do() {
    let permission = |text: &str| Permission::new(text).unwrap();
    let low = document_with("Low", "1.0.0", &[], &json!({"permissions": ["low.read"]}));
    let mut content = document("Writer", "1.0.0", &[]).content().clone();
    let task = &mut content["execution"]["steps"][0]["task"]["paths"]["/things/{id}"];
    let operation = task["get"].take();
    *task = json!({"delete": operation});
    let writer = crate::compile(content.to_string().as_bytes()).document.unwrap();
    let held = json!({"permissions": ["low.read", "own.read"]});
    let reader =
        document_with("Reader", "1.0.0", &[("Low", "^1", None, json!({"id": "1"}))], &held);
    let top = document_with("Top", "1.0.0", &[("Reader", "^1", None, json!({"id": "1"}))], &held);
    let bad = document("Bad", "1.0.0", &[("Writer", "^1", None, json!({"id": "1"}))]);
    let hollow = document("Hollow", "1.0.0", &[("Low", "^2", None, json!({"id": "1"}))]);

    let mut shelf = DependencyIndex::default();
    for document in [&low, &writer, &reader, &top, &bad] {
        shelf.add_document(document);
    }
    let whole = |document: &Document| {
        shelf.summarize_closure(&DependencyInterface::from_capability(document.capability()))
    };
    assert!(whole(&top).read_only && whole(&low).read_only);
    assert_eq!(whole(&low).permissions, BTreeSet::from([permission("low.read")]));
    assert_eq!(whole(&top).permissions.len(), 2);
    assert_eq!(whole(&top).formats, BTreeSet::from([TaskFormat::OpenApi]));
    assert!(!whole(&writer).read_only && !whole(&bad).read_only);
    // Of what is not known, nothing good is believed.
    assert!(!whole(&hollow).read_only);
    assert!(
        !DependencyIndex::default()
            .summarize_closure(&DependencyInterface::from_capability(top.capability()))
            .read_only
    );
}
