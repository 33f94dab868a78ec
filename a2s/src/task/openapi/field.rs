//! The fields of forms and multipart bodies: what their schemas and `encoding` say.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::OpenApiVersion;
use super::body::has_styles;
use super::decode::OpenApiDecoder;
use super::parameter::{ParameterStyle, ValueStyle, decode_named_style};
use crate::diagnostic::did_you_mean;
use crate::field_reader::shorten_for_message;
use crate::task::located_value::LocatedValue;
use crate::task::{MediaType, is_header_name};
use crate::tree::{NodeValue, TreeNode};

/// The extension of a media type that states the order of the fields of a form or multipart body.
const ORDER: &str = "x-a2s-order";
/// The maximum number of fields of a body that are examined.
const MAX_FIELDS: usize = 1000;
/// The maximum number of schemas that are examined to find the fields of a body.
const MAX_SCHEMAS: usize = 2000;
/// The maximum number of headers of a field.
const MAX_HEADERS: usize = 20;

/// The encoding of one field of a form or multipart body.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BodyField {
    /// The kind of its values.
    pub kind: FieldType,
    /// The media types that `encoding` allows; the first one is sent. When there are none, the value
    /// determines the type.
    pub content_types: Vec<MediaType>,
    /// The style that `encoding` names; it takes precedence over media types.
    pub style: Option<ValueStyle>,
    /// The headers of its part (multipart only).
    pub headers: Vec<FieldHeader>,
}

/// The kind of a field's values, according to its schema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FieldType {
    /// The value decides: text, numbers and booleans are text, objects that look like binary content are
    /// binary content, others are JSON.
    #[default]
    ByValue,
    /// Objects: always JSON.
    Json,
    /// Binary content. A plain string is the text of the file.
    File,
}

/// A header of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldHeader {
    /// Its name.
    pub name: String,
    /// True when a part without it is rejected.
    pub required: bool,
    /// Its value, if the schema allows only one value or has a default. Otherwise the value of the field
    /// may contain it, as a member of `headers`.
    pub value: Option<String>,
}

/// Reads the fields of a body that `encoding` lists, or that have a kind according to their schema.
pub(super) fn decode_fields<'n>(
    decoder: &mut OpenApiDecoder<'n, '_>,
    media_type: &MediaType,
    media: &LocatedValue<'n>,
) -> Option<BTreeMap<String, BodyField>> {
    let mut fields = BTreeMap::<String, BodyField>::new();
    let mut search =
        SchemaSearch { root: decoder.root.clone(), version: decoder.version, left: MAX_SCHEMAS };
    let mut properties = BTreeMap::new();
    if let Some(schema) = media.get("schema") {
        search.properties(&schema, &mut properties);
    }
    for (name, schema) in properties {
        let kind = search.kind(&schema);
        if kind != FieldType::ByValue {
            fields.entry(name.to_owned()).or_default().kind = kind;
        }
    }
    let Some(encoding) = media.get("encoding") else { return Some(fields) };
    let entries = encoding.entries();
    if entries.len() > MAX_FIELDS {
        let message =
            format!("`encoding` has {} fields; at most {MAX_FIELDS} are allowed", entries.len());
        decoder.error(&encoding, message, "Keep only those that the step sends.");
        return None;
    }
    let mut whole = Some(());
    for (name, encoding) in entries {
        let kind = fields.get(name).map_or(FieldType::ByValue, |field| field.kind);
        match decode_encoding(decoder, media_type, &encoding, kind) {
            Some(field) => {
                fields.insert(name.to_owned(), field);
            }
            None => whole = None,
        }
    }
    whole.map(|()| fields)
}

/// Reads the fields that `x-a2s-order` of a media type names, in this order.
pub(super) fn decode_order<'n>(
    decoder: &mut OpenApiDecoder<'n, '_>,
    media: &LocatedValue<'n>,
) -> Option<Vec<String>> {
    let Some(order) = media.get(ORDER) else { return Some(Vec::new()) };
    let NodeValue::Array(items) = &order.node.kind else {
        let message = format!("`{ORDER}` must be a list of names of fields");
        decoder.error(&order, message, "Write a list such as `[key, policy, file]`.");
        return None;
    };
    if items.len() > MAX_FIELDS {
        let message =
            format!("`{ORDER}` has {} names; at most {MAX_FIELDS} are allowed", items.len());
        decoder.error(&order, message, "Keep only the fields whose order matters.");
        return None;
    }
    let known = known_fields(decoder, media);
    let mut names = Vec::<String>::new();
    for item in items {
        let Some(name) = item.as_str() else {
            let message = format!("`{ORDER}` must be a list of names of fields");
            decoder.error(&order, message, "Write each name as a text.");
            return None;
        };
        if names.iter().any(|listed| listed == name) {
            let message = format!("`{ORDER}` names `{}` twice", shorten_for_message(name));
            decoder.error(&order, message, "Remove one of the two.");
            return None;
        }
        if !known.is_empty() && !known.contains(name) {
            let message = format!(
                "`{ORDER}` names `{}`, which is not a field of the body",
                shorten_for_message(name)
            );
            let hint = match did_you_mean(name, known.iter().copied()) {
                Some(close) => format!("Did you mean `{close}`?"),
                None => "Name a property of the schema, or a field of `encoding`.".to_owned(),
            };
            decoder.error(&order, message, &hint);
            return None;
        }
        names.push(name.to_owned());
    }
    Some(names)
}

/// Returns the fields that the schema or `encoding` of a media type names.
fn known_fields<'n>(
    decoder: &OpenApiDecoder<'n, '_>,
    media: &LocatedValue<'n>,
) -> BTreeSet<&'n str> {
    let mut search =
        SchemaSearch { root: decoder.root.clone(), version: decoder.version, left: MAX_SCHEMAS };
    let mut properties = BTreeMap::new();
    if let Some(schema) = media.get("schema") {
        search.properties(&schema, &mut properties);
    }
    let mut known: BTreeSet<&'n str> = properties.into_keys().collect();
    if let Some(encoding) = media.get("encoding") {
        known.extend(encoding.entries().into_iter().map(|(name, _)| name));
    }
    known
}

fn decode_encoding<'n>(
    decoder: &mut OpenApiDecoder<'n, '_>,
    media_type: &MediaType,
    encoding: &LocatedValue<'n>,
    kind: FieldType,
) -> Option<BodyField> {
    let mut field = BodyField { kind, ..BodyField::default() };
    if let Some(named) = encoding.get("contentType") {
        for text in named.node.as_str().unwrap_or_default().split(',') {
            let Some(media_type) = MediaType::parse(text) else {
                let message = format!("`{}` is not a media type", shorten_for_message(text.trim()));
                decoder.error(&named, message, "Write a media type such as `image/png`.");
                return None;
            };
            field.content_types.push(media_type);
        }
        let binary = |media: &MediaType| !media.is_text() && !media.is_json();
        if kind == FieldType::ByValue && field.content_types.iter().all(binary) {
            field.kind = FieldType::File;
        }
    }
    if !decoder.check_booleans(encoding, &["explode", "allowReserved"]) {
        return None;
    }
    let says = ["style", "explode", "allowReserved"].iter().any(|key| encoding.get(key).is_some());
    if says && has_styles(decoder.version, media_type) {
        let known = [
            ParameterStyle::Form,
            ParameterStyle::SpaceDelimited,
            ParameterStyle::PipeDelimited,
            ParameterStyle::DeepObject,
        ];
        let style = match encoding.get("style") {
            Some(named) => decode_named_style(decoder, &named, &known, "a field")?,
            None => ParameterStyle::Form,
        };
        field.style = Some(ValueStyle {
            style,
            explode: boolean(encoding, "explode").unwrap_or_else(|| style.explodes_by_default()),
            allow_reserved: boolean(encoding, "allowReserved").unwrap_or_default(),
        });
    }
    if media_type.essence().starts_with("multipart/") {
        field.headers = decode_headers(decoder, encoding)?;
    }
    Some(field)
}

fn decode_headers<'n>(
    decoder: &mut OpenApiDecoder<'n, '_>,
    encoding: &LocatedValue<'n>,
) -> Option<Vec<FieldHeader>> {
    let mut headers = Vec::new();
    let entries = encoding.get("headers").map_or_else(Vec::new, |headers| headers.entries());
    if entries.len() > MAX_HEADERS {
        let message =
            format!("a field has {} headers; at most {MAX_HEADERS} are allowed", entries.len());
        decoder.error(encoding, message, "Keep only those that the step sends.");
        return None;
    }
    for (name, header) in entries {
        // OpenAPI says that it is ignored here; `contentType` says it.
        if name.eq_ignore_ascii_case("content-type") {
            continue;
        }
        if !is_header_name(name) {
            let message = format!("`{}` is not a header name", shorten_for_message(name));
            decoder.error(&header, message, "Use letters, digits and dashes.");
            return None;
        }
        let header = decoder.follow(&header)?;
        if !decoder.check_booleans(&header, &["required"]) {
            return None;
        }
        let schema = match header.get("schema") {
            Some(schema) => Some(decoder.follow(&schema)?),
            None => None,
        };
        headers.push(FieldHeader {
            name: name.to_owned(),
            required: boolean(&header, "required").unwrap_or_default(),
            value: schema.and_then(|schema| only_value(&schema)),
        });
    }
    Some(headers)
}

/// Returns the value that a schema determines: its constant, its only value, or its default.
fn only_value(schema: &LocatedValue<'_>) -> Option<String> {
    let only = schema.get("enum").map_or_else(Vec::new, |values| values.items());
    let only = if let [value] = only.as_slice() { Some(value.clone()) } else { None };
    match schema.get("const").or(only).or_else(|| schema.get("default"))?.to_value() {
        Value::String(text) => Some(text),
        value @ (Value::Number(_) | Value::Bool(_)) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn boolean(spot: &LocatedValue<'_>, key: &str) -> Option<bool> {
    match spot.get(key)?.node.kind {
        NodeValue::Bool(value) => Some(value),
        _ => None,
    }
}

/// A bounded search through schemas. Parts beyond the bound count as absent.
struct SchemaSearch<'n> {
    root: LocatedValue<'n>,
    version: OpenApiVersion,
    left: usize,
}

/// The depth to which schemas are searched.
const MAX_DEPTH: usize = 16;

impl<'n> SchemaSearch<'n> {
    /// Gathers the properties of a schema and of its parts. The first property with each name counts.
    fn properties(
        &mut self,
        schema: &LocatedValue<'n>,
        found: &mut BTreeMap<&'n str, LocatedValue<'n>>,
    ) {
        self.properties_at(schema, found, 0);
    }

    fn properties_at(
        &mut self,
        schema: &LocatedValue<'n>,
        found: &mut BTreeMap<&'n str, LocatedValue<'n>>,
        depth: usize,
    ) {
        for schema in self.parts(schema, depth) {
            let properties = schema.get("properties");
            for (name, property) in properties.map_or_else(Vec::new, |all| all.entries()) {
                if found.len() < MAX_FIELDS {
                    found.entry(name).or_insert(property);
                }
            }
        }
    }

    fn kind(&mut self, schema: &LocatedValue<'n>) -> FieldType {
        self.kind_at(schema, 0)
    }

    fn kind_at(&mut self, schema: &LocatedValue<'n>, depth: usize) -> FieldType {
        let mut kind = FieldType::ByValue;
        for schema in self.parts(schema, depth) {
            let is = |name: &str| has_type(schema.node, name);
            let found = if is("array") {
                match schema.get("items").filter(|_| depth < MAX_DEPTH) {
                    Some(items) => self.kind_at(&items, depth + 1),
                    None => FieldType::ByValue,
                }
            } else if is_binary(schema.node, self.version) {
                FieldType::File
            } else if is("object") || schema.get("properties").is_some() {
                FieldType::Json
            } else {
                FieldType::ByValue
            };
            match found {
                FieldType::File => return found,
                FieldType::Json => kind = found,
                FieldType::ByValue => {}
            }
        }
        kind
    }

    /// Returns the schema, the target of its `$ref`, and the schemas of its `allOf`, `anyOf` and `oneOf`.
    fn parts(&mut self, schema: &LocatedValue<'n>, depth: usize) -> Vec<LocatedValue<'n>> {
        let mut parts = Vec::new();
        let mut waiting = vec![(schema.clone(), depth)];
        while let Some((schema, depth)) = waiting.pop() {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            if depth < MAX_DEPTH {
                let target = schema.step(&self.root).ok().flatten();
                waiting.extend(target.map(|target| (target, depth + 1)));
                for key in ["oneOf", "anyOf", "allOf"] {
                    let below = schema.get(key).map_or_else(Vec::new, |all| all.items());
                    waiting.extend(below.into_iter().rev().map(|below| (below, depth + 1)));
                }
            }
            parts.push(schema);
        }
        parts
    }
}

/// Returns true when a schema's `type` is `name`, alone or in the list of OpenAPI 3.1.
fn has_type(schema: &TreeNode<'_>, name: &str) -> bool {
    match schema.get("type").map(|kind| &kind.kind) {
        Some(NodeValue::String(kind)) => kind == name,
        Some(NodeValue::Array(kinds)) => kinds.iter().any(|kind| kind.as_str() == Some(name)),
        _ => false,
    }
}

/// Returns true when values of a schema are binary: `format: binary`, a `contentMediaType` without
/// `contentEncoding`, or, since OpenAPI 3.1, a schema without any constraint.
fn is_binary(schema: &TreeNode<'_>, version: OpenApiVersion) -> bool {
    if schema.get("format").and_then(TreeNode::as_str) == Some("binary") {
        return true;
    }
    if version == OpenApiVersion::V3_0 || schema.get("contentEncoding").is_some() {
        return false;
    }
    let media =
        schema.get("contentMediaType").and_then(TreeNode::as_str).and_then(MediaType::parse);
    match media {
        Some(media) => !media.is_text() && !media.is_json(),
        None => {
            const SAY_NOTHING: [&str; 7] = [
                "title",
                "description",
                "deprecated",
                "readOnly",
                "writeOnly",
                "example",
                "examples",
            ];
            let members = schema.members().unwrap_or_default();
            let says = |key: &str| !SAY_NOTHING.contains(&key) && !key.starts_with("x-");
            !members.iter().any(|member| says(&member.key))
        }
    }
}
