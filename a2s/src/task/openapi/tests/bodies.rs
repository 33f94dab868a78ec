//! Bodies: which media type is sent, and what the fields are.

use super::*;
use crate::task::MediaType;

#[track_caller]
fn body(content: &Value) -> RequestBody {
    let task = specification("/a", "post", json!({"requestBody": {"content": content}}));
    read(&task).body.unwrap()
}

fn media(text: &str) -> MediaType {
    MediaType::parse(text).unwrap()
}

#[test]
fn endlessly_branching_schemas_are_bounded() {
    let twice = |name: &str| {
        let below = json!({"$ref": format!("#/components/schemas/{name}")});
        json!({"allOf": [below, below], "anyOf": [below, below]})
    };
    let names: Vec<String> = (0..40).map(|level| format!("S{level}")).collect();
    let mut schemas: serde_json::Map<_, _> =
        names.windows(2).map(|pair| (pair[0].clone(), twice(&pair[1]))).collect();
    schemas.insert("S39".to_owned(), twice("S0"));
    let content = json!({"multipart/form-data": {"schema": {
        "properties": {"a": {"$ref": "#/components/schemas/S0"}},
        "allOf": [{"$ref": "#/components/schemas/S0"}],
    }}});
    let mut task = specification("/a", "post", json!({"requestBody": {"content": content}}));
    task["components"] = json!({"schemas": schemas});
    assert_eq!(read(&task).body.unwrap().format, BodyFormat::Multipart);
}

#[test]
fn one_media_type_of_a_body_is_sent() {
    for (offered, sent, format) in [
        (
            &["text/plain", "application/json-patch+json", "application/json"][..],
            "application/json",
            BodyFormat::Json,
        ),
        (&["text/json", "application/*+json"], "text/json", BodyFormat::Json),
        (&["application/*+json"], "application/json", BodyFormat::Json),
        (
            &["*/*", "application/vnd.api+json; v=1"],
            "application/vnd.api+json; v=1",
            BodyFormat::Json,
        ),
        (
            &["application/xml", "multipart/form-data", "application/x-www-form-urlencoded"],
            "application/x-www-form-urlencoded",
            BodyFormat::Form,
        ),
        (&["text/csv", "multipart/mixed"], "multipart/mixed", BodyFormat::Multipart),
        (&["multipart/*"], "multipart/form-data", BodyFormat::Multipart),
        (&["image/png", "application/xml"], "application/xml", BodyFormat::Text),
        (&["text/*"], "text/plain", BodyFormat::Text),
        (&["*/*", "application/octet-stream"], "application/octet-stream", BodyFormat::Other),
        (&["*/*"], "*/*", BodyFormat::Other),
        (&["codecs=opus", "audio/ogg"], "audio/ogg", BodyFormat::Other),
    ] {
        let content: serde_json::Map<_, _> = offered
            .iter()
            .map(|name| ((*name).to_owned(), json!({"schema": {"title": name}})))
            .collect();
        let body = body(&Value::Object(content));
        assert_eq!((body.media_type.as_str(), body.format), (sent, format), "{offered:?}");
        if !sent.starts_with("text/plain") && offered.contains(&sent) {
            assert_eq!(body.schema["title"], sent);
        }
    }
}

#[test]
fn a_body_without_a_media_type_is_none() {
    let post = |body: Value| specification("/a", "post", json!({"requestBody": body}));
    let place = ".paths[\"/a\"].post.requestBody";
    let empty = post(json!({"content": {}, "required": true}));
    let message = "the request body has no media type, so the executor sends no body";
    assert_eq!(check_warned(&empty, message, &format!("{place}.content")).body, None);
    check_refused(&post(json!({})), "the request body has no `content`", place);
    let odd = post(json!({"content": {"json": {}}}));
    check_refused(&odd, "`json` is not a media type", &format!("{place}.content.json"));
    let task = specification("/a", "trace", json!({"requestBody": {"content": {"a/b": {}}}}));
    let message = "a TRACE request has no body";
    assert_eq!(check_warned(&task, message, ".paths[\"/a\"].trace.requestBody").body, None);
}

#[test]
fn schemas_and_encoding_tell_what_the_fields_are() {
    let schema = json!({
        "properties": {
            "name": {"type": "string"},
            "photo": {"type": "string", "format": "binary"},
            "files": {"type": "array", "items": {"type": "string", "format": "binary"}},
            "address": {"type": "object", "properties": {"text": {}}},
            "scan": {"type": "string"},
            "ids": {"type": "array", "items": {"type": "integer"}},
        },
        "allOf": [{"properties": {"either": {"anyOf": [
            {"type": "string"}, {"type": "string", "format": "binary"},
        ]}}}],
    });
    let encoding = json!({
        "scan": {"contentType": "image/png, image/*"},
        "address": {"contentType": "application/json; charset=utf-8"},
        "ids": {"style": "pipeDelimited"},
        "photo": {"headers": {
            "X-Kind": {"schema": {"enum": ["portrait"]}, "required": true},
            "X-Id": {"schema": {"type": "integer", "default": 7}},
            "X-Free": {"schema": {"type": "string", "enum": ["a", "b"]}},
            "content-type": {"schema": {"const": "a/b"}},
        }},
    });
    let fields_of = |version: &str, media_type: &str| {
        let content = json!({media_type: {"schema": schema, "encoding": encoding}});
        let mut task = specification("/a", "post", json!({"requestBody": {"content": content}}));
        task["openapi"] = json!(version);
        read(&task).body.unwrap().fields
    };
    let fields = fields_of("3.0.3", "multipart/form-data");
    let kinds: Vec<_> = fields.iter().map(|(name, field)| (name.as_str(), field.kind)).collect();
    assert_eq!(
        kinds,
        [
            ("address", FieldType::Json),
            ("either", FieldType::File),
            ("files", FieldType::File),
            ("ids", FieldType::ByValue),
            ("photo", FieldType::File),
            ("scan", FieldType::File),
        ]
    );
    assert_eq!(fields["scan"].content_types, [media("image/png"), media("image/*")]);
    let header = |name: &str, required, value: Option<&str>| FieldHeader {
        name: name.to_owned(),
        required,
        value: value.map(str::to_owned),
    };
    assert_eq!(
        fields["photo"].headers,
        [
            header("X-Free", false, None),
            header("X-Id", false, Some("7")),
            header("X-Kind", true, Some("portrait")),
        ]
    );
    // Styles belong to forms, and since 3.1 to multipart forms.
    assert_eq!(fields["ids"].style, None);
    let style =
        ValueStyle { style: ParameterStyle::PipeDelimited, explode: false, allow_reserved: false };
    assert_eq!(fields_of("3.1.0", "multipart/form-data")["ids"].style, Some(style));
    let form = fields_of("3.0.3", "application/x-www-form-urlencoded");
    assert_eq!(form["ids"].style, Some(style));
    assert_eq!(form["photo"].headers, []);
}

#[test]
fn a_schema_that_says_nothing_is_binary_since_3_1() {
    let schema = json!({"properties": {
        "any": {"description": "A file"},
        "image": {"type": "string", "contentMediaType": "image/png"},
        "encoded": {"type": "string", "contentMediaType": "image/png", "contentEncoding": "base64"},
        "note": {"type": "string", "contentMediaType": "text/html"},
        "many": {"type": "array", "items": {}},
        "nothing": {"type": ["object", "null"]},
    }});
    let content = json!({"multipart/form-data": {"schema": schema}});
    let mut task = specification("/a", "post", json!({"requestBody": {"content": content}}));
    let fields = read(&task).body.unwrap().fields;
    assert_eq!(fields.keys().collect::<Vec<_>>(), ["nothing"]);
    task["openapi"] = json!("3.1.0");
    let fields = read(&task).body.unwrap().fields;
    let files: Vec<_> =
        fields.iter().filter(|(_, f)| f.kind == FieldType::File).map(|(name, _)| name).collect();
    assert_eq!(files, ["any", "image", "many"]);
    assert_eq!(fields["nothing"].kind, FieldType::Json);
}
