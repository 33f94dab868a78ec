//! Pieces of content: `Part` (text 3.4) and `Source` (text 3.7).

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::codec::{InvalidMember, NestedError, Object, objects, read, take};

/// One piece of content.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(try_from = "Value", untagged)]
pub enum ContentPart {
    /// Plain text.
    Text(TextPart),
    /// A file, or its address.
    File(FilePart),
    /// Structured data.
    Data(DataPart),
}

/// Plain text (text 3.4.1). The only kind of output that a tool result may have: structured output
/// is sent as its JSON text.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "kind", rename = "text")]
pub struct TextPart {
    /// The text.
    pub text: String,
    /// Further data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
    /// Members that the text does not define, unchanged.
    #[serde(flatten, deserialize_with = "text_members")]
    pub extra: Object,
}

/// A file (text 3.4.2).
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "kind", rename = "file")]
pub struct FilePart {
    /// The bytes or the address of the file.
    pub file: FileContent,
    /// Further data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
    /// Members that the text does not define, unchanged.
    #[serde(flatten, deserialize_with = "file_members")]
    pub extra: Object,
}

/// Structured data (text 3.4.3).
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "kind", rename = "data")]
pub struct DataPart {
    /// The data.
    pub data: DataContent,
    /// Further data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
    /// Members that the text does not define, unchanged.
    #[serde(flatten, deserialize_with = "data_members")]
    pub extra: Object,
}

/// The content of a [`DataPart`].
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(try_from = "Value", untagged)]
pub enum DataContent {
    /// An object: the form to send.
    Object(Object),
    /// An array. The text allows it, the schema does not: it is read, but should not be sent.
    Array(Vec<Value>),
}

/// The file of a [`FilePart`].
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(try_from = "Value", untagged)]
pub enum FileContent {
    /// The bytes themselves (text 3.5.1).
    Bytes(FileWithBytes),
    /// An address (text 3.5.2).
    Uri(FileWithUri),
}

objects! {
    /// A file in the form of its bytes (text 3.5.1).
    FileWithBytes {
        required {
            /// The bytes in base64.
            bytes "bytes": String,
        }
        optional {
            /// Its name.
            name "name": String,
            /// Its media type.
            mime_type "mimeType": String,
        }
    }

    /// A file in the form of its address (text 3.5.2).
    FileWithUri {
        required {
            /// Its address.
            uri "uri": String,
        }
        optional {
            /// Its name.
            name "name": String,
            /// Its media type.
            mime_type "mimeType": String,
        }
    }

    /// A file that a response cites (text 3.7.1).
    FileSource {
        required {
            /// Its id, the same as in the agent's resources.
            id "id": String,
            /// Its name.
            name "name": String,
        }
        optional {
            /// Its address.
            url "url": String,
        }
    }

    /// A web page that a response cites (text 3.7.2).
    SiteSource {
        required {
            /// Its address.
            url "url": String,
        }
    }
}

/// A source that the agent cites (text 3.7).
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(try_from = "Value", tag = "kind", rename_all = "lowercase")]
pub enum CitationSource {
    /// A file.
    File(FileSource),
    /// A web page.
    Site(SiteSource),
}

impl TextPart {
    /// Creates a text without metadata.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), metadata: None, extra: Object::new() }
    }
}

impl FilePart {
    /// Creates a file without metadata.
    pub fn new(file: FileContent) -> Self {
        Self { file, metadata: None, extra: Object::new() }
    }
}

impl DataPart {
    /// Creates data without metadata.
    pub fn new(data: Object) -> Self {
        Self { data: DataContent::Object(data), metadata: None, extra: Object::new() }
    }
}

fn text_members<'de, D: Deserializer<'de>>(members: D) -> Result<Object, D::Error> {
    members_of_kind(members, "text")
}

fn file_members<'de, D: Deserializer<'de>>(members: D) -> Result<Object, D::Error> {
    members_of_kind(members, "file")
}

fn data_members<'de, D: Deserializer<'de>>(members: D) -> Result<Object, D::Error> {
    members_of_kind(members, "data")
}

/// Reads the unknown members of a part. Checks and removes `kind`, which identifies the type in a union.
/// Some writers leave it out.
fn members_of_kind<'de, D: Deserializer<'de>>(members: D, word: &str) -> Result<Object, D::Error> {
    let mut members = Object::deserialize(members)?;
    let kind = take::<Option<String>>(&mut members, "kind");
    match kind.map_err(|e| D::Error::custom(NestedError::from(e)))? {
        Some(kind) if kind != word => {
            let invalid = InvalidMember::new(format!("must be {word:?}, found {kind:?}"));
            Err(D::Error::custom(NestedError::from(invalid.in_member("kind"))))
        }
        _ => Ok(members),
    }
}

impl TryFrom<Value> for ContentPart {
    type Error = NestedError;

    fn try_from(value: Value) -> Result<Self, NestedError> {
        let kind = match value.get("kind") {
            Some(Value::Null) | None => ["text", "file", "data"]
                .into_iter()
                .find(|name| value.get(name).is_some())
                .map(str::to_owned)
                .ok_or_else(|| {
                    InvalidMember::new("must be a part: an object with kind text, file or data")
                })?,
            Some(kind) => read(kind.clone()).map_err(|e| e.in_member("kind"))?,
        };
        match kind.as_str() {
            "text" => Ok(Self::Text(read(value)?)),
            "file" => Ok(Self::File(read(value)?)),
            "data" => Ok(Self::Data(read(value)?)),
            _ => {
                Err(InvalidMember::new("must be one of text, file, data").in_member("kind").into())
            }
        }
    }
}

impl TryFrom<Value> for DataContent {
    type Error = NestedError;

    fn try_from(value: Value) -> Result<Self, NestedError> {
        match value {
            Value::Array(items) => Ok(Self::Array(items)),
            other => Ok(Self::Object(read(other)?)),
        }
    }
}

impl TryFrom<Value> for FileContent {
    type Error = NestedError;

    fn try_from(value: Value) -> Result<Self, NestedError> {
        match (value.get("bytes").is_some(), value.get("uri").is_some()) {
            (true, false) => Ok(Self::Bytes(read(value)?)),
            (false, true) => Ok(Self::Uri(read(value)?)),
            _ => Err(InvalidMember::new("must have either bytes or uri").into()),
        }
    }
}

impl TryFrom<Value> for CitationSource {
    type Error = NestedError;

    fn try_from(value: Value) -> Result<Self, NestedError> {
        let mut members: Object = read(value)?;
        let kind: String = take(&mut members, "kind")?;
        match kind.as_str() {
            "file" => Ok(Self::File(read(Value::Object(members))?)),
            "site" => Ok(Self::Site(read(Value::Object(members))?)),
            _ => Err(InvalidMember::new("must be one of file, site").in_member("kind").into()),
        }
    }
}
