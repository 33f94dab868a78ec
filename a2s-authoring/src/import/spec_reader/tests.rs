use serde_json::json;

use super::*;

#[test]
fn yaml_and_json_are_read_alike() {
    let yaml = b"# c\nopenapi: 3.0.3\nversion: 1.10\npaths:\n  /a:\n    get: {responses: {200: {description: no}}}\n";
    let value = json!({
        "openapi": "3.0.3",
        "version": 1.1,
        "paths": {"/a": {"get": {"responses": {"200": {"description": "no"}}}}},
    });
    assert_eq!(read_description(yaml).unwrap().value, value);
    assert_eq!(read_description(value.to_string().as_bytes()).unwrap().value, value);
}

#[test]
fn what_documents_may_not_use_is_read_here() {
    let yaml = b"base: &b {x: 1, y: 2}\nmore: {<<: *b, y: 3}\nbig: 9223372036854775808\ntag: !!str 12\nx: [1, 1]\n";
    let ApiDescription { value, remarks } = read_description(yaml).unwrap();
    assert_eq!(remarks, []);
    assert_eq!(value["more"], json!({"y": 3, "x": 1}));
    assert_eq!(value["tag"], "12");
    assert!(value["big"].is_f64());
}

#[test]
fn duplicate_yaml_key_is_reported_with_both_positions() {
    let yaml =
        b"paths:\n  /a:\n    get: 1\n  /b: [{x: 1, x: 2}]\n  /a:\n    200: no\n    '200': yes\n";
    let ApiDescription { value, remarks } = read_description(yaml).unwrap();
    assert_eq!(value["paths"]["/a"], json!({"200": "yes"}));
    let remarks: Vec<_> = remarks.iter().map(|r| (r.place.as_str(), r.reason.as_str())).collect();
    let reason = |first: &str, second: &str| {
        format!(
            "the key appears at {first} and again at {second}; the import uses the later value only"
        )
    };
    assert_eq!(
        remarks,
        [
            ("paths./b[0].x", &*reason("line 4, column 9", "line 4, column 15")),
            ("paths./a", &*reason("line 2, column 3", "line 5, column 3")),
            ("paths./a.200", &*reason("line 6, column 5", "line 7, column 5")),
        ]
    );
}

#[test]
fn values_of_a_text_are_kept_as_written() {
    let read = |yaml: &str| read_description(yaml.as_bytes()).unwrap().value;
    assert_eq!(
        read("{enum: [1.9, 1.10, 01234, 0x10, 1e5, yes, true], type: string, default: 1.10}"),
        json!({
            "enum": ["1.9", "1.10", "01234", "0x10", "1e5", "yes", "true"],
            "type": "string",
            "default": "1.10",
        })
    );
    assert_eq!(read("{type: string, const: 007}")["const"], "007");
    assert_eq!(
        read("type: string\nenum:\n- 10\n- null\n- '1'\n")["enum"],
        json!(["10", null, "1"])
    );
    // Values of other types, and values below them, are numbers.
    assert_eq!(read("{type: number, enum: [1.10]}")["enum"], json!([1.1]));
    assert_eq!(read("{type: [string, number], enum: [1.10]}")["enum"], json!([1.1]));
    assert_eq!(read("{type: string, minLength: 1}")["minLength"], 1);
    assert_eq!(read("{properties: {type: {default: 1}}}")["properties"]["type"]["default"], 1);
}

#[test]
fn values_of_a_text_are_kept_as_written_in_json() {
    let read = |json: &str| read_description(json.as_bytes()).unwrap().value;
    assert_eq!(
        read(
            r#"{"enum": [1.9, 1.10, 1e5, -0, true, null, "1.10"], "type": "string", "default": 1.10}"#
        ),
        json!({
            "enum": ["1.9", "1.10", "1e5", "-0", "true", null, "1.10"],
            "type": "string",
            "default": "1.10",
        })
    );
    let long = "12345678901234567890.10";
    let text = format!(r#"{{"x": [{{"type": "string", "const": {long}, "example": 1E400}}]}}"#);
    assert_eq!(read(&text), json!({"x": [{"type": "string", "const": long, "example": "1E400"}]}));
    // Values of other types, and values below them, are numbers.
    assert_eq!(read(r#"{"type": "number", "enum": [1.10]}"#)["enum"], json!([1.1]));
    assert_eq!(read(r#"{"type": "string", "minLength": 1}"#)["minLength"], 1);
    let below = read(r#"{"type": "string", "default": {"a": [1.0]}}"#);
    assert_eq!(below["default"], json!({"a": [1.0]}));
    // Of two values of a key, the later counts.
    assert_eq!(read(r#"{"const": 1.10, "const": "a", "type": "string"}"#)["const"], "a");
    assert_eq!(read(r#"{"const": 1.10, "const": 1.20, "type": "string"}"#)["const"], "1.20");
}

#[test]
fn json_is_read_as_a_json_parser_reads_it() {
    let text = r#" {"a\u0062\"{": ["\ud83d\ude00 \/\t[,:", -0.0, 1E+2, 18446744073709551615, {}, [], "", true,
        null], "<<": {"x": 1}, "": {"ü": false}} "#;
    let expected: Value = serde_json::from_str(text).unwrap();
    assert_eq!(read_description(text.as_bytes()).unwrap().value, expected);
    for scalar in ["[\"a\"]", "[ 1 ]", "{}"] {
        let expected: Value = serde_json::from_str(scalar).unwrap();
        assert_eq!(read_description(scalar.as_bytes()).unwrap().value, expected);
    }
    assert!(read_description(br#"{"a": "\ud83d"}"#).is_err());
}

fn places(text: &str) -> Vec<String> {
    let warnings = read_description(text.as_bytes()).unwrap().remarks;
    warnings.into_iter().map(|warning| format!("{}: {}", warning.place, warning.reason)).collect()
}

#[test]
fn json_keys_are_compared_within_their_object_only() {
    assert!(places(r#"{"a": {"b": 1}, "b": [{"b": "a\": {"}, {"b": 2}]}"#).is_empty());
}

#[test]
fn duplicate_json_key_is_reported_with_both_positions() {
    let text =
        "{\"p\": {\"/a\": 1,\n  \"b\": [0, {\"ü\": 1, \"x\": 2, \"\\u00fc\": 3}]},\n \"p\": 2}";
    let at = "the key appears at line";
    let only = "the import uses the later value only";
    assert_eq!(
        places(text),
        [
            format!("p.b[1].ü: {at} 2, column 13 and again at line 2, column 29; {only}"),
            format!("p: {at} 1, column 2 and again at line 3, column 2; {only}"),
        ]
    );
}

#[test]
fn listed_keys_are_bounded() {
    let text = format!("{{{}\"a\": 1}}", "\"a\": 1, ".repeat(60));
    let found = places(&text);
    assert_eq!(found.len(), 51);
    assert_eq!(found.last().unwrap(), ": 10 more keys appear twice");
}

#[test]
fn several_yaml_documents_are_reported() {
    let several = |text: &str| !read_description(text.as_bytes()).unwrap().remarks.is_empty();
    assert!(several("a: 1\n---\nb: 2\n"));
    assert!(!several("---\na: 1\n...\n"));
}

#[test]
fn text_may_have_a_byte_order_mark() {
    let utf16 = |mark: [u8; 2], unit: fn(u16) -> [u8; 2]| {
        let units = "{\"a\": \"ü\"}".encode_utf16().flat_map(unit);
        mark.into_iter().chain(units).collect::<Vec<u8>>()
    };
    for source in [
        b"\xef\xbb\xbf{\"a\": \"\xc3\xbc\"}".to_vec(),
        utf16([0xff, 0xfe], u16::to_le_bytes),
        utf16([0xfe, 0xff], u16::to_be_bytes),
    ] {
        assert_eq!(read_description(&source).unwrap().value, json!({"a": "ü"}));
    }
    assert_eq!(read_description(b"\xff\xfea"), Err(DescriptionError::NotUtf8));
}

#[test]
fn bombs_are_refused() {
    let deep = "[".repeat(100_000);
    assert!(read_description(deep.as_bytes()).is_err());
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}, ", level - 1).repeat(10);
        let line = format!("a{level}: &a{level} [{}]\n", before.trim_end_matches(", "));
        bomb.push_str(&line);
    }
    assert_eq!(read_description(bomb.as_bytes()), Err(DescriptionError::TooComplex));
    let many = format!("[{}0]", "0,".repeat(MAX_NODES));
    assert_eq!(read_description(many.as_bytes()), Err(DescriptionError::TooComplex));
    let commas = format!(r#"["\"{}"]"#, ",".repeat(MAX_NODES));
    assert!(read_description(commas.as_bytes()).is_ok());
    assert_eq!(read_description(b"\xff"), Err(DescriptionError::NotUtf8));
    assert!(matches!(read_description(b"a: [1"), Err(DescriptionError::Syntax(_))));
}
