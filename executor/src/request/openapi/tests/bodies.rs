//! Bodies in every media type.

use std::collections::BTreeMap;

use a2s::{
    BodyField, BodyFormat, FieldHeader, FieldType, MediaType, ParameterStyle, RequestBody,
    ValueStyle,
};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn media(text: &str) -> MediaType {
    MediaType::parse(text).unwrap()
}

fn declared(media_type: &str, format: BodyFormat, fields: &[(&str, BodyField)]) -> RequestBody {
    RequestBody {
        required: true,
        media_type: media(media_type),
        format,
        fields: fields.iter().map(|(name, field)| ((*name).to_owned(), field.clone())).collect(),
        order: Vec::new(),
        schema: json!({}),
    }
}

#[test]
fn fields_are_sent_in_stated_order_then_by_name() {
    let value = json!({"z": 1, "file": 2, "b": 3, "key": 4});
    let mut body = form(&[]);
    let sent = |body: &RequestBody| send(body.clone(), value.clone()).unwrap().1;
    assert_eq!(sent(&body), b"b=3&file=2&key=4&z=1");
    body.order = vec!["key".to_owned(), "z".to_owned()];
    assert_eq!(sent(&body), b"key=4&z=1&b=3&file=2");
    let mut body = multipart(&[]);
    body.order = ["key", "z", "b", "file"].map(str::to_owned).to_vec();
    let text = String::from_utf8(sent(&body)).unwrap();
    let places = ["key", "z", "b", "file"].map(|name| text.find(&format!("name=\"{name}\"")));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
}

/// The media type and the body that are sent.
fn send(body: RequestBody, value: Value) -> Result<(String, Vec<u8>), PrepareError> {
    let mut operation = operation(HttpMethod::Post, SERVER, "/a", &[]);
    operation.body = Some(body);
    let request = prepare(&Task::OpenApi(Box::new(operation)), &inputs([("body", value)]))?;
    let named = request.headers()["content-type"].to_str().unwrap().to_owned();
    Ok((named, request.body().unwrap().to_vec()))
}

#[track_caller]
fn check(media_type: &str, format: BodyFormat, value: Value, named: &str, expected: &str) {
    let (sent_type, sent) = send(declared(media_type, format, &[]), value).unwrap();
    assert_eq!((sent_type.as_str(), String::from_utf8_lossy(&sent).as_ref()), (named, expected));
}

#[track_caller]
fn check_refused(body: RequestBody, value: Value, reason: &str) {
    let expected = format!("the value of `body` cannot be sent: {reason}");
    assert_eq!(send(body, value).unwrap_err().to_string(), expected);
}

#[test]
fn json_is_sent_as_the_type_that_is_declared() {
    let text = "application/vnd.api+json; v=1";
    check(text, BodyFormat::Json, json!({"b": [1, "é"]}), text, r#"{"b":[1,"é"]}"#);
    check("application/json", BodyFormat::Json, json!("x"), "application/json", "\"x\"");
}

#[test]
fn text_is_sent_as_it_is() {
    check("text/plain", BodyFormat::Text, json!("a & b"), "text/plain", "a & b");
    check("text/csv", BodyFormat::Text, json!("é"), "text/csv; charset=utf-8", "é");
    check("text/csv; charset=UTF-8", BodyFormat::Text, json!("é"), "text/csv; charset=UTF-8", "é");
    check("text/plain", BodyFormat::Text, json!(7), "text/plain", "7");
    let xml = "<?xml version=\"1.0\"?><a>é</a>";
    check("application/xml", BodyFormat::Text, json!(xml), "application/xml", xml);
    check("image/svg+xml", BodyFormat::Text, json!({"text": "<svg/>"}), "image/svg+xml", "<svg/>");
    let yaml = json!({"a": [1]});
    check("application/yaml", BodyFormat::Text, yaml, "application/yaml", r#"{"a":[1]}"#);
    let latin = declared("text/plain; charset=iso-8859-1", BodyFormat::Text, &[]);
    check_refused(
        latin,
        json!("é"),
        "text with characters outside ASCII can only be sent as UTF-8",
    );
    let xml = declared("application/xml", BodyFormat::Text, &[]);
    check_refused(xml, json!({"a": 1}), "a body of type application/xml must be a string");
}

#[test]
fn binary_content_is_base64_or_text() {
    let octets = "application/octet-stream";
    let (_, sent) = send(
        declared(octets, BodyFormat::Other, &[]),
        json!({"base64": "/wCA", "filename": "x", "content_type": octets}),
    )
    .unwrap();
    assert_eq!(sent, [0xff, 0, 0x80]);
    check("image/png", BodyFormat::Other, json!("aGk="), "image/png", "aGk=");
    let png = || declared("image/png", BodyFormat::Other, &[]);
    let other = json!({"text": "x", "content_type": "image/gif"});
    check_refused(png(), other, "its `content_type` is not image/png");
    check_refused(png(), json!({"base64": "?"}), "`base64` is not Base64");
    let reason = "binary content must be a string, `{base64: …}` or `{text: …}`";
    check_refused(png(), json!([1]), reason);
}

#[test]
fn under_a_range_the_value_decides() {
    let any = |value, named, expected| check("*/*", BodyFormat::Other, value, named, expected);
    any(json!("x"), "text/plain; charset=utf-8", "x");
    any(json!({"a": 1}), "application/json", r#"{"a":1}"#);
    any(json!({"base64": "aGk="}), "application/octet-stream", "hi");
    any(json!({"text": "x", "content_type": "a/b; c=d"}), "a/b; c=d", "x");
    let octets = "application/octet-stream";
    check("application/*", BodyFormat::Other, json!("x"), octets, "x");
    let image = || declared("image/*", BodyFormat::Other, &[]);
    let (named, _) = send(image(), json!({"text": "x", "content_type": "image/gif"})).unwrap();
    assert_eq!(named, "image/gif");
    let pdf = json!({"text": "x", "content_type": "application/pdf"});
    check_refused(image(), pdf, "its `content_type` is not image/*");
    let reason = "the body must be image/*: write `{base64: …, content_type: …}`";
    check_refused(image(), json!("x"), reason);
}

fn form(fields: &[(&str, BodyField)]) -> RequestBody {
    declared("application/x-www-form-urlencoded", BodyFormat::Form, fields)
}

fn form_text(fields: &[(&str, BodyField)], value: Value) -> String {
    let (named, sent) = send(form(fields), value).unwrap();
    assert_eq!(named, "application/x-www-form-urlencoded");
    String::from_utf8(sent).unwrap()
}

#[test]
fn a_form_has_a_field_for_each_member() {
    let value = json!({
        "id": 7, "ok": true, "none": null, "text": "a b&c=d+é", "list": ["x", null, 2], "empty": [],
        "address": {"zip": "99999+1234"},
    });
    assert_eq!(
        form_text(&[], value),
        "address=%7B%22zip%22%3A%2299999%2B1234%22%7D&id=7&list=x&list=2&ok=true\
         &text=a+b%26c%3Dd%2B%C3%A9",
    );
    assert_eq!(form_text(&[], json!({})), "");
    check_refused(form(&[]), json!("a=b"), "a form must be an object of its fields");
}

#[test]
fn encoding_says_how_fields_of_a_form_are_written() {
    let styled = |style, explode| BodyField {
        style: Some(ValueStyle { style, explode, allow_reserved: style == ParameterStyle::Form }),
        ..BodyField::default()
    };
    let json = BodyField { content_types: vec![media("application/json")], ..BodyField::default() };
    let fields = [
        ("comma", styled(ParameterStyle::Form, false)),
        ("space", styled(ParameterStyle::SpaceDelimited, false)),
        ("deep", styled(ParameterStyle::DeepObject, true)),
        ("json", json),
    ];
    let value = json!({
        "comma": ["a/b", "c d"], "space": [1, 2], "deep": {"k": "v w"}, "json": "x",
    });
    let expected = "comma=a/b,c+d&deep%5Bk%5D=v+w&json=%22x%22&space=1+2";
    assert_eq!(form_text(&fields, value), expected);
    // A form is text, so binary content stays Base64.
    assert_eq!(form_text(&[], json!({"icon": {"base64": "aGk="}})), "icon=aGk%3D");
    let object = BodyField { kind: FieldType::Json, ..BodyField::default() };
    let text = form_text(&[("icon", object)], json!({"icon": {"base64": "aGk="}}));
    assert_eq!(text, "icon=%7B%22base64%22%3A%22aGk%3D%22%7D");
}

/// A part that was read back: its headers in lower case, and its content.
type ReadPart = (BTreeMap<String, String>, Vec<u8>);

/// Reads a multipart body as its receiver does.
fn read_parts(media_type: &str, body: &[u8]) -> Vec<ReadPart> {
    let boundary = media_type.split_once("boundary=").unwrap().1;
    let delimiter = format!("--{boundary}");
    let find = |from: usize, what: &[u8]| {
        body[from..].windows(what.len()).position(|window| window == what).map(|at| from + at)
    };
    let mut parts = Vec::new();
    let mut at = find(0, delimiter.as_bytes()).unwrap() + delimiter.len();
    assert!(at == delimiter.len(), "nothing stands before the first part");
    while !body[at..].starts_with(b"--") {
        let start = at + 2;
        let end = find(start, format!("\r\n{delimiter}").as_bytes()).unwrap();
        let part = &body[start..end];
        let split = part.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head = std::str::from_utf8(&part[..split]).unwrap();
        let headers = head.split("\r\n").map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_ascii_lowercase(), value.to_owned())
        });
        parts.push((headers.collect(), part[split + 4..].to_vec()));
        at = end + 2 + delimiter.len();
    }
    assert_eq!(&body[at..], b"--\r\n");
    parts
}

fn multipart(fields: &[(&str, BodyField)]) -> RequestBody {
    declared("multipart/form-data", BodyFormat::Multipart, fields)
}

/// Each part as disposition, media type and content.
fn parts_of(fields: &[(&str, BodyField)], value: Value) -> Vec<(String, String, String)> {
    let (named, sent) = send(multipart(fields), value).unwrap();
    let parts = read_parts(&named, &sent).into_iter();
    let part = |(mut headers, content): ReadPart| {
        let mut header = |name: &str| headers.remove(name).unwrap_or_default();
        let disposition = header("content-disposition");
        let disposition = disposition.strip_prefix("form-data; ").unwrap().to_owned();
        (disposition, header("content-type"), String::from_utf8(content).unwrap())
    };
    parts.map(part).collect()
}

fn part(disposition: &str, media_type: &str, content: &str) -> (String, String, String) {
    (disposition.to_owned(), media_type.to_owned(), content.to_owned())
}

fn file() -> BodyField {
    BodyField { kind: FieldType::File, ..BodyField::default() }
}

#[test]
fn a_multipart_body_has_a_part_for_each_value() {
    let value = json!({
        "id": 7, "none": null, "note": "a\r\nb", "list": ["x", null, {"y": 1}, [1]],
        "address": {"zip": "1"}, "icon": {"text": "i", "filename": "i.txt"}, "scan": "raw",
    });
    assert_eq!(
        parts_of(&[("scan", file())], value),
        [
            part("name=\"address\"", "application/json", r#"{"zip":"1"}"#),
            part("name=\"icon\"; filename=\"i.txt\"", "application/octet-stream", "i"),
            part("name=\"id\"", "", "7"),
            part("name=\"list\"", "", "x"),
            part("name=\"list\"", "application/json", r#"{"y":1}"#),
            part("name=\"list\"", "application/json", "[1]"),
            part("name=\"note\"", "", "a\r\nb"),
            part("name=\"scan\"; filename=\"scan\"", "application/octet-stream", "raw"),
        ]
    );
    assert_eq!(parts_of(&[], json!({})), []);
    check_refused(multipart(&[]), json!([]), "a multipart body must be an object of its fields");
}

#[test]
fn several_files_share_a_name() {
    let value = json!({"files": [
        {"base64": "aGk=", "filename": "a.png", "content_type": "image/png"},
        {"text": "x", "filename": "é b\"\r\n\\\u{1}"},
    ]});
    let image = BodyField { content_types: vec![media("image/*"), media("text/plain")], ..file() };
    assert_eq!(
        parts_of(&[("files", image)], value),
        [
            part("name=\"files\"; filename=\"a.png\"", "image/png", "hi"),
            part("name=\"files\"; filename=\"é b%22%0D%0A%5C%01\"", "text/plain", "x"),
        ]
    );
}

#[test]
fn encoding_says_how_parts_are_written() {
    let of_type = |text: &str, kind| BodyField {
        kind,
        content_types: vec![media(text)],
        ..BodyField::default()
    };
    let style =
        ValueStyle { style: ParameterStyle::DeepObject, explode: true, allow_reserved: false };
    let fields = [
        ("meta", of_type("application/json", FieldType::Json)),
        ("rows", of_type("text/csv", FieldType::ByValue)),
        ("deep", BodyField { style: Some(style), ..BodyField::default() }),
        ("note", BodyField { kind: FieldType::Json, ..BodyField::default() }),
    ];
    let value = json!({
        "meta": {"a": 1}, "rows": "a,b", "deep": {"k k": "v&"}, "note": {"text": "not a file"},
    });
    assert_eq!(
        parts_of(&fields, value),
        [
            part("name=\"deep[k k]\"", "", "v&"),
            part("name=\"meta\"", "application/json", r#"{"a":1}"#),
            part("name=\"note\"", "application/json", r#"{"text":"not a file"}"#),
            part("name=\"rows\"", "text/csv", "a,b"),
        ]
    );
    // Of several types, the value takes the first that can hold it.
    let types = ["text/plain", "application/ld+json", "application/json"].map(media).to_vec();
    let several = BodyField { content_types: types, ..BodyField::default() };
    assert_eq!(
        parts_of(&[("a", several)], json!({"a": ["x", {"y": 1}]})),
        [
            part("name=\"a\"", "text/plain", "x"),
            part("name=\"a\"", "application/ld+json", r#"{"y":1}"#),
        ]
    );
    let rows = || multipart(&[("rows", of_type("text/csv", FieldType::ByValue))]);
    let reason = "field `rows`: its media type is not JSON, so it must be a string";
    check_refused(rows(), json!({"rows": {"a": 1}}), reason);
    let png = || multipart(&[("scan", of_type("image/png", FieldType::File))]);
    let gif = json!({"scan": {"text": "x", "content_type": "image/gif"}});
    check_refused(png(), gif, "field `scan`: its `content_type` is not one that the field accepts");
    let reason = "field `scan`: binary content must be a string, `{base64: …}` or `{text: …}`";
    check_refused(png(), json!({"scan": {"a": 1}}), reason);
    // A name that is not from the specification is data, and shown nowhere.
    let reason = "`base64` is not Base64";
    check_refused(png(), json!({"secret": {"base64": "?"}}), reason);
}

#[test]
fn parts_have_the_headers_of_their_field() {
    let header = |name: &str, required, value: Option<&str>| FieldHeader {
        name: name.to_owned(),
        required,
        value: value.map(str::to_owned),
    };
    let headers = vec![
        header("X-Kind", true, Some("portrait")),
        header("X-Id", true, None),
        header("X-Free", false, None),
        header("Content-Disposition", false, Some("attachment")),
    ];
    let field = BodyField { headers, ..file() };
    let body = || multipart(&[("photo", field.clone())]);
    let with = |headers: Value| json!({"photo": {"text": "x", "headers": headers}});
    let (named, sent) = send(body(), with(json!({"x-id": 7, "X-Kind": "other"}))).unwrap();
    let [(headers, _)] = &read_parts(&named, &sent)[..] else { panic!("one part") };
    assert_eq!((headers["x-kind"].as_str(), headers["x-id"].as_str()), ("other", "7"));
    assert!(headers["content-disposition"].starts_with("form-data;"));
    assert!(!headers.contains_key("x-free"));
    let reason = "field `photo`: a required header of the field has no value";
    check_refused(body(), with(json!({})), reason);
    let reason = "field `photo`: the field does not declare this header";
    check_refused(body(), with(json!({"X-Id": 1, "X-Other": 1})), reason);
    let reason = "field `photo`: a header must have visible ASCII characters on one line";
    check_refused(body(), with(json!({"X-Id": "1\r\nX-Evil: 1"})), reason);
}

#[test]
fn the_same_parts_are_the_same_bytes_and_others_are_not() {
    let sent = |value: Value| send(multipart(&[]), value).unwrap();
    let one = sent(json!({"a": "1", "b": "2"}));
    assert_eq!(one, sent(json!({"a": "1", "b": "2"})));
    assert_ne!(one.0, sent(json!({"a": "1", "b": "3"})).0);
    let body = declared("multipart/mixed; boundary=x", BodyFormat::Multipart, &[]);
    let (named, _) = send(body, json!({"a": 1})).unwrap();
    assert!(named.starts_with("multipart/mixed; boundary=a2s-"), "{named}");
    let related = "multipart/related; Boundary=\"x\"; type=\"application/json\"";
    let (named, _) = send(declared(related, BodyFormat::Multipart, &[]), json!({"a": 1})).unwrap();
    let related = "multipart/related; type=\"application/json\"; boundary=a2s-";
    assert!(named.starts_with(related), "{named}");
}

#[test]
fn a_body_of_too_many_parts_is_refused() {
    let many: Vec<_> = (0..1001).collect();
    let refused = send(multipart(&[]), json!({"a": many})).unwrap_err();
    assert!(matches!(refused, PrepareError::TooLarge { .. }), "{refused}");
}

proptest! {
    #[test]
    fn forms_read_back(fields in proptest::collection::btree_map("(?s).{1,9}", "(?s).{0,20}", 0..6)) {
        let value: Value = fields.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
        let (_, sent) = send(form(&[]), value).unwrap();
        let read: BTreeMap<String, String> =
            url::form_urlencoded::parse(&sent).into_owned().collect();
        prop_assert_eq!(read, fields);
    }

    #[test]
    fn parts_read_back(
        fields in proptest::collection::btree_map(
            "[^\"\\\\\\x00-\\x1f\\x7f-\\u{9f}]{1,9}",
            proptest::collection::vec(any::<u8>(), 0..60),
            1..6,
        ),
    ) {
        use base64::Engine as _;
        let encode = |bytes: &Vec<u8>| base64::prelude::BASE64_STANDARD.encode(bytes);
        let value: Value =
            fields.iter().map(|(k, v)| (k.clone(), json!({"base64": encode(v)}))).collect();
        let (named, sent) = send(multipart(&[]), value).unwrap();
        let read: Vec<_> = read_parts(&named, &sent);
        prop_assert_eq!(read.len(), fields.len());
        // Names go by their UTF-16 code units (RFC 8785), a map's keys by code points.
        let mut sorted: Vec<_> = fields.iter().collect();
        sorted.sort_by(|a, b| a.0.encode_utf16().cmp(b.0.encode_utf16()));
        for ((headers, content), (name, expected)) in read.iter().zip(sorted) {
            let disposition = format!("form-data; name=\"{name}\"; filename=\"{name}\"");
            prop_assert_eq!(&headers["content-disposition"], &disposition);
            prop_assert_eq!(content, expected);
        }
    }
}
