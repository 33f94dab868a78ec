//! Request bodies: which media type is sent, and in which form its value is given.

use std::collections::BTreeMap;

use openapiv3 as oas;
use serde_json::{Map, Value, json};

use super::decode::{OpenApiDecoder, outside_schemas};
use super::field::{BodyField, decode_fields, decode_order};
use super::{HttpMethod, OpenApiVersion};
use crate::checksum::compare_names;
use crate::field_reader::shorten_for_message;
use crate::task::MediaType;
use crate::task::located_value::LocatedValue;

/// The maximum number of media types of a body.
const MAX_MEDIA_TYPES: usize = 100;

/// A request body.
///
/// One media type is sent. When the operation accepts several, it is the first of: JSON (`application/json`
/// before others), a form, multipart, text, anything else. Concrete types come before ranges such as `*/*`.
/// A document that requires another type lists only that type.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestBody {
    /// True when a request without it is rejected.
    pub required: bool,
    /// The media type that is sent; a range when the value determines the type.
    pub media_type: MediaType,
    /// The form of the body's value.
    pub format: BodyFormat,
    /// The encoding of the fields of a form or multipart body, by name. Fields that are not listed are
    /// [plain](BodyField::default).
    pub fields: BTreeMap<String, BodyField>,
    /// The fields of a form or multipart body that are sent first, in this order. The other fields follow
    /// in the order of their names.
    pub order: Vec<String>,
    /// The JSON Schema of the body, as written; null when there is none. It describes the input value only
    /// when the body is sent as JSON: the values of other bodies contain files, or text in place of the
    /// value that the schema describes.
    pub schema: Value,
}

/// The form of a body's value.
///
/// Binary content, of a body or of a field, is an object `{base64: "…"}` or `{text: "…"}`, with `filename`
/// and `content_type` where they matter. A plain string represents its own characters, as UTF-8: it is
/// never read as Base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFormat {
    /// Any value; sent as JSON.
    Json,
    /// An object whose members become the fields of `application/x-www-form-urlencoded`.
    Form,
    /// An object whose members become parts; the items of an array become parts with the same name.
    Multipart,
    /// Text, XML, YAML and the like: a string, sent as it is.
    Text,
    /// Any other type: a string or binary content. For a range, the value determines the type: a string is
    /// sent as text, binary content with its `content_type`, and any other value as JSON.
    Other,
}

impl RequestBody {
    /// Returns the members of a form or multipart body in the order in which they are sent.
    #[must_use]
    pub fn order_fields<'v>(&self, fields: &'v Map<String, Value>) -> Vec<(&'v String, &'v Value)> {
        let rank = |name: &str| {
            self.order.iter().position(|listed| listed == name).unwrap_or(self.order.len())
        };
        let mut ordered: Vec<_> = fields.iter().collect();
        ordered.sort_by(|(one, _), (other, _)| {
            rank(one).cmp(&rank(other)).then_with(|| compare_names(one, other))
        });
        ordered
    }
}

impl BodyFormat {
    /// Returns the form of the value for a media type.
    pub fn from_media_type(media_type: &MediaType) -> Self {
        if media_type.is_json() {
            Self::Json
        } else if media_type.is("application/x-www-form-urlencoded") {
            Self::Form
        } else if media_type.essence().starts_with("multipart/") {
            Self::Multipart
        } else if media_type.is_text() {
            Self::Text
        } else {
            Self::Other
        }
    }

    /// Returns the rank in the order of preference.
    fn rank(self, media_type: &MediaType) -> (u8, bool) {
        let rank = match self {
            Self::Json if media_type.is("application/json") => 0,
            Self::Json => 1,
            Self::Form => 2,
            Self::Multipart => 3,
            Self::Text => 4,
            Self::Other => 5,
        };
        (rank, media_type.is_range())
    }
}

/// Reads the body. The outer `None` means that an error was reported.
#[expect(clippy::option_option, reason = "no body and a bad body are different things")]
pub(super) fn decode_body<'n>(
    decoder: &mut OpenApiDecoder<'n, '_>,
    method: HttpMethod,
    operation: &LocatedValue<'n>,
) -> Option<Option<RequestBody>> {
    let Some(holder) = operation.get("requestBody") else { return Some(None) };
    let body = decoder.follow(&holder)?;
    if method == HttpMethod::Trace {
        let message = "a TRACE request has no body";
        decoder.warn(&holder, message, "Remove `requestBody`: the executor does not send it.");
        return Some(None);
    }
    let fits = decoder.check_booleans(&body, &["required"]);
    let Some(content) = body.get("content").filter(LocatedValue::is_mapping) else {
        let message = "the request body has no `content`";
        decoder.error(&body, message, "Write `content` with a media type and its `schema`.");
        return None;
    };
    let (media_type, media) = match choose_media_type(decoder, &content) {
        Ok(chosen) => chosen?,
        Err(NoMediaType) => return Some(None),
    };
    let mut typed = outside_schemas(&body);
    typed.insert("content".to_owned(), json!({}));
    let hint = "Write `content` with a media type and its `schema`.";
    let what = "the request body";
    let typed: oas::RequestBody =
        decoder.typed(&body, what, Value::Object(typed), hint).filter(|_| fits)?;
    let format = BodyFormat::from_media_type(&media_type);
    let fields = match format {
        BodyFormat::Form | BodyFormat::Multipart => decode_fields(decoder, &media_type, &media)?,
        BodyFormat::Json | BodyFormat::Text | BodyFormat::Other => BTreeMap::new(),
    };
    let order = match format {
        BodyFormat::Form | BodyFormat::Multipart => decode_order(decoder, &media)?,
        BodyFormat::Json | BodyFormat::Text | BodyFormat::Other => Vec::new(),
    };
    let schema = media.get("schema").map_or(Value::Null, |schema| decoder.keep(&schema));
    let media_type = concrete(media_type, format);
    Some(Some(RequestBody { required: typed.required, media_type, format, fields, order, schema }))
}

/// Chooses the media type that is sent. The inner `None` means that an error was reported.
fn choose_media_type<'n>(
    decoder: &mut OpenApiDecoder<'n, '_>,
    content: &LocatedValue<'n>,
) -> Result<Option<(MediaType, LocatedValue<'n>)>, NoMediaType> {
    let mut entries = content.entries();
    entries.retain(|(text, _)| !text.starts_with("x-") || text.contains('/'));
    if entries.is_empty() {
        let message = "the request body has no media type, so the executor sends no body";
        decoder.warn(content, message, "Add the media type that the service accepts.");
        return Err(NoMediaType);
    }
    if entries.len() > MAX_MEDIA_TYPES {
        let count = entries.len();
        let message = format!(
            "the request body has {count} media types; at most {MAX_MEDIA_TYPES} are allowed"
        );
        decoder.error(content, message, "Keep only the media type to send.");
        return Ok(None);
    }
    let read =
        |(text, spot): &(&str, LocatedValue<'n>)| Some((MediaType::parse(text)?, spot.clone()));
    let chosen = entries
        .iter()
        .filter_map(read)
        .min_by_key(|(media_type, _)| BodyFormat::from_media_type(media_type).rank(media_type));
    if chosen.is_none()
        && let Some((text, spot)) = entries.first()
    {
        let message = format!("`{}` is not a media type", shorten_for_message(text));
        decoder.error(spot, message, "Write a media type such as `application/json`.");
    }
    Ok(chosen)
}

/// Returns true when the fields of this media type have styles: OpenAPI 3.0 has styles only in forms.
pub(super) fn has_styles(version: OpenApiVersion, media_type: &MediaType) -> bool {
    media_type.is("application/x-www-form-urlencoded")
        || (media_type.is("multipart/form-data") && version == OpenApiVersion::V3_1)
}

/// The error when the body does not have a media type.
struct NoMediaType;

/// Replaces a range by a media type, if the form of the value determines it.
fn concrete(media_type: MediaType, format: BodyFormat) -> MediaType {
    let named = match format {
        BodyFormat::Json => "application/json",
        BodyFormat::Multipart => "multipart/form-data",
        BodyFormat::Text => "text/plain",
        BodyFormat::Form | BodyFormat::Other => return media_type,
    };
    if !media_type.is_range() {
        return media_type;
    }
    MediaType::parse(named).unwrap_or(media_type)
}
