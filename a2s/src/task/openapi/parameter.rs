//! Parameters: names, places, and how their values are written.

use openapiv3 as oas;
use serde_json::{Value, json};

use super::OpenApiVersion;
use super::decode::{Layers, OpenApiDecoder, outside_schemas};
use super::path::check_path_template;
use crate::field_reader::shorten_for_message;
use crate::task::InputLocation;
use crate::task::located_value::LocatedValue;
use crate::task::{MediaType, is_header_name, is_set_for_requests};

/// The maximum number of parameters of an operation.
const MAX_PARAMETERS: usize = 200;

/// A parameter of an operation.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationParameter {
    /// Its name in the request.
    pub name: String,
    /// Its location in the request.
    pub location: ParameterLocation,
    /// True when a request without it is rejected.
    pub required: bool,
    /// Its meaning, in words.
    pub description: Option<String>,
    /// The style of its value, unless `content` decides that.
    pub style: ValueStyle,
    /// True when an empty value is sent instead of none: `?name=` (query only).
    pub allow_empty_value: bool,
    /// The media type of the value: JSON is written as JSON, any other type as text. Most parameters do not
    /// have one.
    pub content: Option<MediaType>,
    /// The JSON Schema of the value, as written; null when there is none, and any value is accepted.
    pub schema: Value,
}

/// The location of a parameter in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterLocation {
    /// In the path template.
    Path,
    /// After the `?`.
    Query,
    /// A header.
    Header,
    /// The `Cookie` header.
    Cookie,
}

/// The notation of a value (OpenAPI 3.1.1, "Style Values").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueStyle {
    /// The style of the whole value.
    pub style: ParameterStyle,
    /// True when items of arrays and members of objects become separate parameters.
    pub explode: bool,
    /// True when reserved characters stay as they are (query and forms only).
    pub allow_reserved: bool,
}

/// The notation of a value that is not a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the OpenAPI specification")]
pub enum ParameterStyle {
    Simple,
    Form,
    Label,
    Matrix,
    SpaceDelimited,
    PipeDelimited,
    DeepObject,
}

/// The result of reading a parameter object.
enum DeclaredParameter {
    Parameter(OperationParameter),
    /// A parameter that OpenAPI ignores, or that the connection sets.
    Ignored,
}

impl ParameterLocation {
    /// The location whose inputs are below `key` in a mapping: `pathParameters`, ….
    pub(crate) fn from_group(key: &str) -> Option<Self> {
        match key {
            "pathParameters" => Some(Self::Path),
            "queryParameters" => Some(Self::Query),
            "headerParameters" => Some(Self::Header),
            "cookieParameters" => Some(Self::Cookie),
            _ => None,
        }
    }

    /// Returns true when an input belongs to this location.
    pub(crate) fn holds(self, place: &InputLocation) -> bool {
        matches!(
            (self, place),
            (Self::Path, InputLocation::Path(_))
                | (Self::Query, InputLocation::Query(_))
                | (Self::Header, InputLocation::Header(_))
                | (Self::Cookie, InputLocation::Cookie(_))
        )
    }

    /// Returns the styles that a parameter at this location may have.
    fn styles(self) -> &'static [ParameterStyle] {
        match self {
            Self::Path => &[ParameterStyle::Simple, ParameterStyle::Label, ParameterStyle::Matrix],
            Self::Query => &[
                ParameterStyle::Form,
                ParameterStyle::SpaceDelimited,
                ParameterStyle::PipeDelimited,
                ParameterStyle::DeepObject,
            ],
            Self::Header => &[ParameterStyle::Simple],
            Self::Cookie => &[ParameterStyle::Form],
        }
    }
}

impl ValueStyle {
    /// Returns the style of parameters at `place` that do not name a style.
    #[must_use]
    pub fn default_for(place: ParameterLocation) -> Self {
        let style = match place {
            ParameterLocation::Path | ParameterLocation::Header => ParameterStyle::Simple,
            ParameterLocation::Query | ParameterLocation::Cookie => ParameterStyle::Form,
        };
        Self { style, explode: style.explodes_by_default(), allow_reserved: false }
    }
}

impl ParameterStyle {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Form => "form",
            Self::Label => "label",
            Self::Matrix => "matrix",
            Self::SpaceDelimited => "spaceDelimited",
            Self::PipeDelimited => "pipeDelimited",
            Self::DeepObject => "deepObject",
        }
    }

    /// Returns true when it explodes values by default, without `explode`.
    pub(super) fn explodes_by_default(self) -> bool {
        self == Self::Form
    }
}

/// Returns true when a header is the idempotency key: see [`OperationParameter::is_idempotency_key`].
pub fn names_idempotency_key(header: &str) -> bool {
    header.eq_ignore_ascii_case("idempotency-key")
}

impl OperationParameter {
    /// Returns the location of its value in a request.
    #[must_use]
    pub fn input_location(&self) -> InputLocation {
        let name = self.name.clone();
        match self.location {
            ParameterLocation::Path => InputLocation::Path(name),
            ParameterLocation::Query => InputLocation::Query(name),
            ParameterLocation::Header => InputLocation::Header(name),
            ParameterLocation::Cookie => InputLocation::Cookie(name),
        }
    }

    /// Returns true when a location is [its own](Self::input_location). Header names are case-insensitive (RFC
    /// 9110, 5.1).
    #[must_use]
    pub fn is_at(&self, place: &InputLocation) -> bool {
        match (self.location, place) {
            (ParameterLocation::Path, InputLocation::Path(name))
            | (ParameterLocation::Query, InputLocation::Query(name))
            | (ParameterLocation::Cookie, InputLocation::Cookie(name)) => *name == self.name,
            (ParameterLocation::Header, InputLocation::Header(name)) => {
                name.eq_ignore_ascii_case(&self.name)
            }
            _ => false,
        }
    }

    /// Returns true when it is the header by which a service recognizes a repeated request, so that sending
    /// it twice has the same effect as once (draft-ietf-httpapi-idempotency-key-header). The executor fills
    /// it in where a step does not.
    #[must_use]
    pub fn is_idempotency_key(&self) -> bool {
        self.location == ParameterLocation::Header && names_idempotency_key(&self.name)
    }

    /// Compares header names without regard to case (RFC 9110, 5.1), and all other names exactly.
    fn is_same(&self, other: &Self) -> bool {
        self.location == other.location
            && match self.location {
                ParameterLocation::Header => self.name.eq_ignore_ascii_case(&other.name),
                _ => self.name == other.name,
            }
    }
}

/// Reads the parameters of the operation, which is the first of `layers`, and of its path item.
pub(super) fn decode_parameters<'n>(
    decoder: &mut OpenApiDecoder<'n, '_>,
    path: &str,
    layers: &Layers<'n>,
) -> Option<Vec<OperationParameter>> {
    let mut parameters: Vec<OperationParameter> = Vec::new();
    let mut whole = true;
    // The operation's parameters override those of the path item (OpenAPI 3.0.3, 4.7.9.1).
    for layer in layers {
        let declared = decoder.list(layer, "parameters");
        if declared.len() > MAX_PARAMETERS {
            let count = declared.len();
            let message = format!(
                "the operation has {count} parameters; at most {MAX_PARAMETERS} are allowed"
            );
            decoder.error(layer, message, "Keep only the parameters that the step uses.");
            return None;
        }
        let inherited = parameters.len();
        for holder in declared {
            let target = decoder.follow(&holder);
            match target.and_then(|target| decode_parameter(decoder, &holder, &target)) {
                Some(DeclaredParameter::Parameter(parameter)) => {
                    let known = parameters.iter().position(|known| known.is_same(&parameter));
                    match known {
                        None => parameters.push(parameter),
                        Some(index) if index < inherited => {}
                        Some(_) => {
                            let name = shorten_for_message(&parameter.name);
                            let message = format!("the parameter `{name}` is declared twice");
                            let hint = "Remove this one; the first one is used.";
                            decoder.warn(&holder, message, hint);
                        }
                    }
                }
                Some(DeclaredParameter::Ignored) => {}
                None => whole = false,
            }
        }
    }
    if whole && let Some(item) = layers.get(1) {
        check_path_template(decoder, path, item, &parameters);
    }
    whole.then_some(parameters)
}

/// Reads the parameter at `target`, to which `holder` refers.
fn decode_parameter<'n>(
    decoder: &mut OpenApiDecoder<'n, '_>,
    holder: &LocatedValue<'n>,
    target: &LocatedValue<'n>,
) -> Option<DeclaredParameter> {
    if !target.is_mapping() {
        let message = format!("a parameter must be a mapping, not {}", target.node.describe());
        decoder.error(target, message, "Write `name`, `in` and `schema`.");
        return None;
    }
    let name = shorten_for_message(target.text("name").unwrap_or_default());
    let place = match target.text("in") {
        Some("path") => ParameterLocation::Path,
        Some("query") => ParameterLocation::Query,
        Some("header") => ParameterLocation::Header,
        Some("cookie") => ParameterLocation::Cookie,
        _ => {
            let hint = "Write `in: path`, `in: query`, `in: header` or `in: cookie`.";
            decoder.error(target, format!("the parameter `{name}` has no `in`"), hint);
            return None;
        }
    };
    if name.is_empty() || name.chars().any(char::is_control) {
        decoder.error(target, "a parameter has no name", "Add `name`.");
        return None;
    }
    if place == ParameterLocation::Header && !check_header_parameter(decoder, target, &name)? {
        return Some(DeclaredParameter::Ignored);
    }
    let style = decode_style(decoder, target, place, &name);
    let fits = decoder
        .check_booleans(target, &["required", "explode", "allowReserved", "allowEmptyValue"]);
    let content = decode_parameter_content(decoder, target, &name);
    let style = style.filter(|_| fits)?;
    let (content, schema) = content?;
    let mut typed = outside_schemas(target);
    typed.insert("schema".to_owned(), json!({}));
    let what = format!("the parameter `{name}`");
    let hint = crate::error_code::BAD_OPENAPI.remedy;
    let typed: oas::Parameter = decoder.typed(target, &what, Value::Object(typed), hint)?;
    let (allow_reserved, allow_empty_value) = match &typed {
        oas::Parameter::Query { allow_reserved, allow_empty_value, .. } => {
            (*allow_reserved, allow_empty_value.unwrap_or_default())
        }
        _ => (false, false),
    };
    let data = typed.parameter_data();
    if place == ParameterLocation::Path && !data.required {
        let message = format!("the path parameter `{name}` is not marked as required");
        let hint = "Add `required: true`; a path parameter is always required.";
        decoder.error(target, message, hint);
        return None;
    }
    // OpenAPI 3.1 lets a reference have a description of its own.
    let sibling = holder.text("description").filter(|_| decoder.version == OpenApiVersion::V3_1);
    Some(DeclaredParameter::Parameter(OperationParameter {
        name: data.name,
        location: place,
        required: data.required,
        description: sibling.map(str::to_owned).or(data.description),
        style: ValueStyle {
            style,
            explode: data.explode.unwrap_or_else(|| style.explodes_by_default()),
            allow_reserved,
        },
        allow_empty_value,
        content,
        schema: schema.map_or(Value::Null, |schema| decoder.keep(&schema)),
    }))
}

/// Returns true when a header parameter is a real input; `None` when its name is not a header name.
fn check_header_parameter<'n>(
    decoder: &mut OpenApiDecoder<'n, '_>,
    target: &LocatedValue<'n>,
    name: &str,
) -> Option<bool> {
    if !is_header_name(name) {
        let message = format!("`{name}` is not a header name");
        decoder.error(target, message, "Use letters, digits and dashes.");
        return None;
    }
    let lower = name.to_ascii_lowercase();
    let (message, hint) = match lower.as_str() {
        "authorization" => (
            format!("OpenAPI ignores the header parameter `{name}`"),
            "Remove it, and declare a security scheme: the caller provides credentials.",
        ),
        "accept" | "content-type" => (
            format!("OpenAPI ignores the header parameter `{name}`"),
            "Remove it: the media types of the body and the responses set this header.",
        ),
        other if is_set_for_requests(other) => (
            format!("the header `{name}` cannot be an input of a request"),
            "Remove it: the connection sets it for each request.",
        ),
        _ => return Some(true),
    };
    decoder.warn(target, message, hint);
    Some(false)
}

/// Returns the style that the parameter names, or the default of the location. Reports a style that the
/// location does not support.
fn decode_style<'n>(
    decoder: &mut OpenApiDecoder<'n, '_>,
    target: &LocatedValue<'n>,
    place: ParameterLocation,
    name: &str,
) -> Option<ParameterStyle> {
    let Some(named) = target.get("style") else {
        return Some(ValueStyle::default_for(place).style);
    };
    decode_named_style(decoder, &named, place.styles(), &format!("the parameter `{name}`"))
}

/// Reads the style at `named`. Reports a style that is not one of `known`.
pub(super) fn decode_named_style<'n>(
    decoder: &mut OpenApiDecoder<'n, '_>,
    named: &LocatedValue<'n>,
    known: &[ParameterStyle],
    what: &str,
) -> Option<ParameterStyle> {
    let text = named.node.as_str();
    let style = known.iter().find(|style| Some(style.as_str()) == text);
    if style.is_none() {
        let list: Vec<_> = known.iter().map(|style| format!("`{}`", style.as_str())).collect();
        let found = text.map_or_else(
            || named.node.describe().to_owned(),
            |t| format!("`{}`", shorten_for_message(t)),
        );
        let message = format!("{what} cannot have the style {found} at this location");
        decoder.error(named, message, format!("Write {}.", list.join(" or ")));
    }
    style.copied()
}

/// Reads the media type of a parameter, if it has one, and its schema.
fn decode_parameter_content<'n>(
    decoder: &mut OpenApiDecoder<'n, '_>,
    target: &LocatedValue<'n>,
    name: &str,
) -> Option<(Option<MediaType>, Option<LocatedValue<'n>>)> {
    let schema = target.get("schema");
    let Some(content) = target.get("content") else { return Some((None, schema)) };
    if schema.is_some() {
        let message = format!("the parameter `{name}` has both `schema` and `content`");
        decoder.error(&content, message, "Remove one of the two.");
        return None;
    }
    let mut entries = content.entries();
    let count = entries.len();
    let (Some((text, media)), true) = (entries.pop(), count == 1) else {
        let message = format!(
            "the `content` of the parameter `{name}` must have one media type, not {count}"
        );
        decoder.error(&content, message, "Keep only the media type to send.");
        return None;
    };
    let Some(media_type) = MediaType::parse(text) else {
        let message = format!("`{}` is not a media type", shorten_for_message(text));
        decoder.error(&media, message, "Write a media type such as `application/json`.");
        return None;
    };
    Some((Some(media_type), media.get("schema")))
}
