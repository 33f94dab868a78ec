//! The canonical form and the digest: the published vectors, and what changes a digest.

use std::collections::BTreeSet;

use a2s::{Digest, DigestError, canonical_json, compile, parse_value};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};

use crate::samples::{any_content, any_value, data_set, documents, places, root};
use crate::writer::write;

/// `value` as canonical text.
fn canonical(value: &Value) -> String {
    String::from_utf8(canonical_json(value).unwrap()).unwrap()
}

fn digest(content: &Value) -> Digest {
    Digest::of_document(content).unwrap()
}

#[test]
fn the_published_vectors_of_rfc_8785_come_out() {
    let Some(folder) = data_set("jcs") else { return };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder.join("input")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let expected = std::fs::read_to_string(folder.join("output").join(&name)).unwrap();
        // A document is a mapping; the vectors may be lists.
        let input = format!("{{\"v\": {}}}", std::fs::read_to_string(&path).unwrap());
        let value = parse_value(input.as_bytes());
        if name == "values.json" {
            // It has 1E30, an integral number that no two languages need agree on.
            assert_eq!(value.unwrap_err()[0].code, "A2S007");
            let value = parse_value(input.replace("1E30,", "").as_bytes()).unwrap();
            assert_eq!(canonical(&value["v"]), expected.replace("1e+30,", ""));
        } else {
            assert_eq!(canonical(&value.unwrap()["v"]), expected, "{name}");
        }
        let bytes =
            std::fs::read_to_string(folder.join("outhex").join(name.replace("json", "txt")));
        let bytes: Vec<u8> = bytes
            .unwrap()
            .split_ascii_whitespace()
            .map(|byte| u8::from_str_radix(byte, 16).unwrap())
            .collect();
        assert_eq!(bytes, expected.as_bytes(), "{name}: the vector contradicts itself");
        names.push(name);
    }
    assert!(names.len() >= 6, "vectors are missing: {names:?}");
}

/// RFC 8785, appendix B: the bits of a double and its text.
#[test]
fn numbers_are_written_as_in_the_table_of_rfc_8785() {
    for (bits, expected) in [
        (0x0000_0000_0000_0000, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ] {
        assert_eq!(canonical(&json!(f64::from_bits(bits))), expected, "{bits:x}");
    }
    // The rest of the table is integral beyond 2^53 - 1, which documents may not have.
    for bits in [
        0x7fef_ffff_ffff_ffff,
        0xffef_ffff_ffff_ffff,
        0x4340_0000_0000_0000,
        0xc340_0000_0000_0000,
        0x4430_0000_0000_0000,
        0x44b5_2d02_c7e1_4af5,
        0x44b5_2d02_c7e1_4af6,
        0x44b5_2d02_c7e1_4af7,
        0x444b_1ae4_d6e2_ef4e,
        0x444b_1ae4_d6e2_ef4f,
        0x444b_1ae4_d6e2_ef50,
    ] {
        let error = canonical_json(&json!(f64::from_bits(bits))).unwrap_err();
        assert!(matches!(error, DigestError::UnsafeInteger(_)), "{bits:x}");
    }
}

#[test]
fn every_document_means_the_same_in_every_writing() {
    for (name, source) in documents() {
        let content = parse_value(source.as_bytes()).unwrap();
        let original = compile(source.as_bytes()).document.unwrap();
        for seed in 0..8 {
            let written = write(&content, &[seed, 3, 1, 4, 1, 5, 9, 2, 6, 5, 35, 89, 79, 323, 846]);
            let compilation = compile(written.as_bytes());
            let errors = &compilation.diagnostics;
            let document = compilation.document.as_ref();
            let document = document.unwrap_or_else(|| panic!("{name}: {errors:?}\n{written}"));
            assert_eq!(document.digest(), original.digest(), "{name}\n{written}");
            let codes = |document: &a2s::Document| -> BTreeSet<String> {
                document.warnings().iter().map(|warning| warning.code.clone()).collect()
            };
            assert_eq!(codes(document), codes(&original), "{name}\n{written}");
        }
    }
}

/// One change of `content` at `place`, or none where this kind does not fit.
fn change(content: &Value, place: &str, kind: usize) -> Option<Value> {
    let mut changed = content.clone();
    let here = changed.pointer_mut(place)?;
    match (kind, &mut *here) {
        // Another value.
        (0, scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_))) => {
            *scalar = match scalar.take() {
                Value::Null => json!(""),
                Value::Bool(value) => json!(!value),
                Value::String(text) => json!(text + "x"),
                number => json!(number.to_string()),
            };
        }
        // Another kind of value.
        (1, Value::Null) => *here = json!(false),
        (1, _) => *here = Value::Null,
        // One more, one fewer.
        (2, Value::Array(items)) => items.push(Value::Null),
        (2, Value::Object(members)) => drop(members.insert("one-more".to_owned(), Value::Null)),
        (3, Value::Array(items)) if !items.is_empty() => drop(items.pop()),
        (3, Value::Object(members)) if !members.is_empty() => {
            let key = members.keys().next()?.clone();
            members.shift_remove(&key);
        }
        // Another key.
        (4, Value::Object(members)) if !members.is_empty() => {
            let key = members.keys().next_back()?.clone();
            let value = members.shift_remove(&key)?;
            members.insert(format!("{key}x"), value);
        }
        // Another order of a list, and one level more.
        (5, Value::Array(items)) if items.len() > 1 && items.first() != items.last() => {
            let last = items.len() - 1;
            items.swap(0, last);
        }
        (6, _) => *here = json!([here.take()]),
        _ => return None,
    }
    Some(changed)
}

#[test]
fn every_change_at_every_place_of_a_document_changes_its_digest() {
    let mut count = 0;
    for (name, source) in documents() {
        let mut content = parse_value(source.as_bytes()).unwrap();
        content.as_object_mut().unwrap().shift_remove("checksum");
        let before = digest(&content);
        for place in places(&content).iter().filter(|place| !place.is_empty()) {
            for kind in 0..7 {
                let Some(changed) = change(&content, place, kind) else { continue };
                assert_ne!(digest(&changed), before, "{name}, {place}, change {kind}");
                count += 1;
            }
        }
    }
    assert!(count > 5_000, "only {count} changes were tried");
}

proptest! {
    #[test]
    fn the_writing_does_not_change_the_digest(
        content in any_content(),
        choices in prop::collection::vec(any::<usize>(), 1..60),
    ) {
        let written = write(&content, &choices);
        let compilation = compile(written.as_bytes());
        prop_assert_eq!(
            compilation.digest, Some(digest(&content)), "{:?}\n{}", compilation.diagnostics, written
        );
    }

    #[test]
    fn a_checksum_at_the_top_does_not_change_the_digest(content in any_content(), checksum in any_value()) {
        let mut with = content.clone();
        with.as_object_mut().unwrap().insert("checksum".to_owned(), checksum);
        prop_assert_eq!(digest(&with), digest(&content));
    }

    #[test]
    fn a_change_changes_the_digest(content in any_content(), place in any::<Index>(), kind in 0_usize..7) {
        let places = places(&content);
        let place = place.get(&places);
        prop_assume!(!place.is_empty());
        let Some(changed) = change(&content, place, kind) else { return Ok(()) };
        prop_assert_ne!(digest(&changed), digest(&content), "{} {}", changed, content);
    }

    #[test]
    fn canonical_text_reads_back_as_what_was_written(value in any_value()) {
        let text = canonical(&json!({ "value": value }));
        let read = parse_value(text.as_bytes()).unwrap();
        prop_assert_eq!(canonical(&read), text);
        // Numbers may be spelt in another way; everything else is the same.
        prop_assert_eq!(without_spelling(read["value"].clone()), without_spelling(value));
    }

    #[test]
    fn members_are_sorted_by_their_utf_16_code_units(keys in prop::collection::btree_set(any::<String>(), 2..8)) {
        let value: Value = keys.iter().map(|key| (key.clone(), Value::Null)).collect::<Map<_, _>>().into();
        let read: Map<String, Value> = serde_json::from_str(&canonical(&value)).unwrap();
        let units: Vec<Vec<u16>> = read.keys().map(|key| key.encode_utf16().collect()).collect();
        prop_assert!(units.is_sorted());
        prop_assert_eq!(units.len(), keys.len());
    }
}

/// The value with integral floats as integers.
fn without_spelling(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.fract() == 0.0 => json!(float as i64),
            _ => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(without_spelling).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(key, value)| (key, without_spelling(value)))
            .collect::<Map<_, _>>()
            .into(),
        other => other,
    }
}

/// `docs/checksum.md` is what other implementers read: its example has to be right.
#[test]
fn the_example_of_the_page_is_right() {
    let page = std::fs::read_to_string(root().join("docs/checksum.md")).unwrap();
    let block = |language: &str| {
        let (_, after) = page.split_once(&format!("```{language}\n")).unwrap();
        after.split_once("\n```").unwrap().0.to_owned()
    };
    let mut content = parse_value(block("yaml").as_bytes()).unwrap();
    assert_eq!(content["checksum"], block("text"), "it states its own checksum");
    content.as_object_mut().unwrap().shift_remove("checksum");
    assert_eq!(canonical(&content), block("json"));
    assert_eq!(compile(block("yaml").as_bytes()).digest.unwrap().to_string(), block("text"));
}

/// The vectors beside the page. They are made by a script in another language that shares nothing
/// with this crate.
#[test]
fn the_vectors_of_the_page_come_out() {
    let vectors = root().join("tests/fixtures/checksum/vectors.json");
    let vectors = std::fs::read_to_string(vectors).unwrap();
    let vectors: Vec<Value> = serde_json::from_str(&vectors).unwrap();
    let refused = vectors.iter().filter(|vector| vector.get("refused").is_some()).count();
    assert!(vectors.len() - refused >= 50 && refused >= 25, "{} and {refused}", vectors.len());
    for vector in vectors {
        let name = vector["name"].as_str().unwrap();
        let source = vector["document"].as_str().unwrap();
        let compilation = compile(source.as_bytes());
        if let Some(code) = vector["refused"].as_str() {
            let codes: Vec<&str> = compilation.diagnostics.iter().map(|d| &*d.code).collect();
            assert!(compilation.digest.is_none() && codes.contains(&code), "{name}: {codes:?}");
            continue;
        }
        let mut content = parse_value(source.as_bytes()).unwrap();
        content.as_object_mut().unwrap().shift_remove("checksum");
        assert_eq!(canonical(&content), vector["canonical"], "{name}");
        assert_eq!(compilation.digest.unwrap().to_string(), vector["digest"], "{name}");
    }
}

/// `value` with the members of every object in an order that `seed` chooses.
fn shuffle(value: &Value, seed: &mut u64) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| shuffle(item, seed)).collect(),
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            for at in (1..members.len()).rev() {
                *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                members.swap(at, (*seed >> 33) as usize % (at + 1));
            }
            let member = |(name, value): (&String, &Value)| (name.clone(), shuffle(value, seed));
            Value::Object(members.into_iter().map(member).collect())
        }
        other => other.clone(),
    }
}

/// The model of a document, without the positions in its text. Requests are prepared from it and
/// from inputs alone, so equal models send equal bytes.
fn model(content: &Value) -> String {
    let compilation = compile(content.to_string().as_bytes());
    let document = compilation.document.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics));
    let mut model = format!("{:?}", document.capability());
    while let Some(from) = model.find("position: SourcePosition {") {
        let end = model[from..].find('}').unwrap();
        model.replace_range(from..=from + end, "");
    }
    model
}

#[test]
fn the_order_of_keys_changes_no_shipped_capability() {
    let documents = std::fs::read_dir(root().join("capabilities")).unwrap();
    let mut seen = 0;
    for entry in documents {
        let path = entry.unwrap().path();
        let content = parse_value(&std::fs::read(&path).unwrap()).unwrap();
        let expected = model(&content);
        for mut seed in 1..4 {
            let shuffled = shuffle(&content, &mut seed);
            assert_eq!(model(&shuffled), expected, "{}", path.display());
        }
        seen += 1;
    }
    assert!(seen >= 30, "{seen} documents");
}

#[test]
fn media_type_choice_ignores_order() {
    let document = |content: Value| {
        json!({
            "a2s": "1.1.0", "name": "Patch", "description": "Patches", "domains": ["a.example"],
            "version": "1.0.0", "authors": [{"name": "Tester"}],
            "execution": {"type": "sequence", "steps": [{
                "id": "patch", "format": "OpenAPI", "input_mapping": {"body": {"z": 1, "a": 2}},
                "task": {
                    "openapi": "3.0.3", "info": {"title": "T", "version": "1"},
                    "servers": [{"url": "https://a.example"}],
                    "paths": {"/x": {"patch": {
                        "requestBody": {"content": content},
                        "responses": {"200": {"description": "OK"}}
                    }}}
                }
            }]}
        })
    };
    let (merge, strategic) =
        ("application/merge-patch+json", "application/strategic-merge-patch+json");
    let one = document(json!({merge: {}, strategic: {}}));
    let other = document(json!({strategic: {}, merge: {}}));
    assert_ne!(one.to_string(), other.to_string());
    assert_eq!(digest(&one), digest(&other));
    assert_eq!(model(&one), model(&other));
    for content in [one, other] {
        let document = compile(content.to_string().as_bytes()).document.unwrap();
        document.capability().for_each_step(|step| {
            let a2s::StepAction::Task { task, .. } = &step.action else { panic!("it is a task") };
            let a2s::Task::OpenApi(task) = &**task else { panic!("it is an OpenAPI task") };
            assert_eq!(task.body.as_ref().unwrap().media_type.as_str(), merge);
        });
    }
}

#[test]
fn field_order_lists_existing_fields_only() {
    let compiled = |order: Value| {
        let content = json!({
            "a2s": "1.1.0", "name": "Send", "description": "Sends", "domains": ["a.example"],
            "version": "1.0.0", "authors": [{"name": "Tester"}],
            "execution": {"type": "sequence", "steps": [{
                "id": "send", "format": "OpenAPI", "input_mapping": {"body": {"key": 1, "file": 2}},
                "task": {
                    "openapi": "3.0.3", "info": {"title": "T", "version": "1"},
                    "servers": [{"url": "https://a.example"}],
                    "paths": {"/x": {"post": {
                        "requestBody": {"content": {"multipart/form-data": {
                            "schema": {"properties": {"key": {}, "file": {}}}, "x-a2s-order": order
                        }}},
                        "responses": {"200": {"description": "OK"}}
                    }}}
                }
            }]}
        });
        compile(content.to_string().as_bytes())
    };
    assert!(compiled(json!(["key", "file"])).document.is_some());
    for (order, message) in [
        (json!(["key", "key"]), "names `key` twice"),
        (json!(["key", "fiel"]), "names `fiel`"),
        (json!("key"), "must be a list of names of fields"),
        (json!([1]), "must be a list of names of fields"),
    ] {
        let found = compiled(order.clone()).diagnostics;
        let errors: Vec<_> = found.iter().filter(|found| found.is_error()).collect();
        assert!(errors.len() == 1 && errors[0].message.contains(message), "{order}: {found:?}");
    }
}

/// A document with a description and an author.
fn shown(description: &str, author: &str) -> String {
    let mut content = json!({
        "a2s": "1.0.0", "name": "Tester", "description": description, "version": "1.0.0",
        "domains": ["api.example.com"], "authors": [{"name": author}],
        "execution": {"type": "sequence", "steps": [{
            "id": "ask", "format": "GraphQL", "output_mapping": {"given": "$.data"},
            "task": {"endpoint": "https://api.example.com/", "query": "{ x }"}
        }]}
    });
    content["checksum"] = json!(digest(&content).to_string());
    content.to_string()
}

#[test]
fn hidden_text_is_refused_only_at_publishing() {
    for hidden in [
        "\u{202e}",
        "\u{2066}",
        "\u{1b}",
        "\0",
        "\u{7f}",
        "\u{9b}",
        "\n",
        "\r",
        "\t",
        "\u{2028}",
        "\u{ad}",
        "\u{34f}",
        "\u{115f}",
        "\u{200b}",
        "\u{200d}",
        "\u{3164}",
        "\u{fe0f}",
        "\u{feff}",
        "\u{e0041}",
        "\u{e0080}",
        "\u{e0165}",
        "\u{e01f0}",
    ] {
        let text = shown(&format!("Sends {hidden}money"), &format!("A{hidden}da"));
        let refused = a2s::compile_to_publish(text.as_bytes());
        assert!(refused.document.is_none(), "{hidden:?}");
        let mut paths: Vec<_> = refused.diagnostics.iter().map(|d| (&*d.code, &*d.path)).collect();
        paths.sort_unstable();
        assert_eq!(paths, [("A2S022", "authors[0].name"), ("A2S022", "description")], "{hidden:?}");
        assert!(a2s::compile_with_checksum(text.as_bytes()).document.is_some());
        assert!(compile(text.as_bytes()).diagnostics.iter().any(|d| d.code == "A2S022"));
    }
    // The last line of a block of YAML has an end, and writing needs some of these characters.
    for text in ["Sends money\n", "Sends 🌦\u{fe0f} money", "پول می\u{200c}فرستد", "👩\u{200d}🚒"]
    {
        let published = a2s::compile_to_publish(shown(text, "Ada").as_bytes());
        assert!(published.document.is_some(), "{text:?}: {:?}", published.diagnostics);
    }
}

#[test]
fn text_of_an_older_version_is_read_as_one_line() {
    let forged = "Gets a rate\r\n0.99 strong  Pay 9.9.9\u{1b}[2J\u{e0165}";
    let text = shown(forged, "A\nda");
    let document = a2s::compile_with_checksum(text.as_bytes()).document.unwrap();
    let capability = document.capability();
    assert_eq!(capability.description, "Gets a rate 0.99 strong Pay 9.9.9[2J");
    assert_eq!(capability.authors[0].name, "A da");
}

#[test]
fn path_with_several_spellings_is_a_warning() {
    let check = |path: &str, style: &str, expected: bool| {
        let parameter = json!({
            "name": "id", "in": "path", "required": true, "style": style, "schema": {"type": "string"},
        });
        let mut content = json!({
            "a2s": "1.0.0", "name": "Tester", "description": "Reads a thing", "version": "1.0.0",
            "domains": ["api.example.com"], "authors": [{"name": "Ada"}],
            "execution": {"type": "sequence", "steps": [{
                "id": "read", "format": "OpenAPI", "output_mapping": {"given": "$.data"},
                "input_mapping": {"pathParameters": {"id": "${id}"}},
                "task": {
                    "openapi": "3.0.3", "info": {"title": "Things", "version": "1"},
                    "servers": [{"url": "https://api.example.com"}],
                    "paths": {path: {"get": {
                        "parameters": [parameter], "responses": {"200": {"description": "It"}}
                    }}}
                }
            }]}
        });
        content["checksum"] = json!(digest(&content).to_string());
        let published = a2s::compile_to_publish(content.to_string().as_bytes());
        let codes: Vec<_> = published.diagnostics.iter().map(|found| &*found.code).collect();
        assert_eq!(codes, if expected { vec!["A2S081"] } else { vec![] }, "{path} {style}");
        assert!(published.document.is_some(), "{path}");
    };
    check("/things/{id}", "simple", false);
    check("/things/{id}", "matrix", true);
    check("/things/{id}", "label", true);
    for path in ["/a/..;/{id}", "/a%2Fb/{id}", "/a%5cb/{id}", "/a\\b/{id}"] {
        check(path, "simple", true);
    }
}
