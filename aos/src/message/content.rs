//! Pieces of content: `Part` (text 3.4) and `Source` (text 3.7).

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::codec::{
    InvalidMember, Object, ObjectMembers, ReadJson, objects, type_error, write_extra,
    write_optional,
};

/// One piece of content.
#[derive(Clone, Debug, PartialEq)]
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
#[derive(Clone, Debug, PartialEq)]
pub struct TextPart {
    /// The text.
    pub text: String,
    /// Further data.
    pub metadata: Option<Object>,
    /// Members that the text does not define, unchanged.
    pub extra: Object,
}

/// A file (text 3.4.2).
#[derive(Clone, Debug, PartialEq)]
pub struct FilePart {
    /// The bytes or the address of the file.
    pub file: FileContent,
    /// Further data.
    pub metadata: Option<Object>,
    /// Members that the text does not define, unchanged.
    pub extra: Object,
}

/// Structured data (text 3.4.3).
#[derive(Clone, Debug, PartialEq)]
pub struct DataPart {
    /// The data.
    pub data: DataContent,
    /// Further data.
    pub metadata: Option<Object>,
    /// Members that the text does not define, unchanged.
    pub extra: Object,
}

/// The content of a [`DataPart`].
#[derive(Clone, Debug, PartialEq)]
pub enum DataContent {
    /// An object: the form to send.
    Object(Object),
    /// An array. The text allows it, the schema does not: it is read, but should not be sent.
    Array(Vec<Value>),
}

/// The file of a [`FilePart`].
#[derive(Clone, Debug, PartialEq)]
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
#[derive(Clone, Debug, PartialEq)]
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

/// Removes and checks `kind`, which identifies the type in a union. Some writers leave it out.
fn take_kind(members: &mut ObjectMembers, word: &str) -> Result<(), InvalidMember> {
    match members.optional::<String>("kind")? {
        Some(kind) if kind != word => {
            Err(InvalidMember::new(format!("must be {word:?}, found {kind:?}")).in_member("kind"))
        }
        _ => Ok(()),
    }
}

impl ReadJson for ContentPart {
    fn read(value: Value) -> Result<Self, InvalidMember> {
        let kind = match value.get("kind") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(Value::Null) | None => ["text", "file", "data"]
                .into_iter()
                .find(|name| value.get(name).is_some())
                .ok_or_else(|| {
                    InvalidMember::new("must be a part: an object with kind text, file or data")
                })?,
            Some(other) => return Err(type_error("a string", other).in_member("kind")),
        };
        match kind {
            "text" => TextPart::read(value).map(Self::Text),
            "file" => FilePart::read(value).map(Self::File),
            "data" => DataPart::read(value).map(Self::Data),
            _ => Err(InvalidMember::new("must be one of text, file, data").in_member("kind")),
        }
    }
}

impl ReadJson for TextPart {
    fn read(value: Value) -> Result<Self, InvalidMember> {
        let mut members = ObjectMembers::from_value(value)?;
        take_kind(&mut members, "text")?;
        Ok(Self {
            text: members.required("text")?,
            metadata: members.optional("metadata")?,
            extra: members.into_remaining(),
        })
    }
}

impl ReadJson for FilePart {
    fn read(value: Value) -> Result<Self, InvalidMember> {
        let mut members = ObjectMembers::from_value(value)?;
        take_kind(&mut members, "file")?;
        Ok(Self {
            file: members.required("file")?,
            metadata: members.optional("metadata")?,
            extra: members.into_remaining(),
        })
    }
}

impl ReadJson for DataPart {
    fn read(value: Value) -> Result<Self, InvalidMember> {
        let mut members = ObjectMembers::from_value(value)?;
        take_kind(&mut members, "data")?;
        Ok(Self {
            data: members.required("data")?,
            metadata: members.optional("metadata")?,
            extra: members.into_remaining(),
        })
    }
}

impl ReadJson for DataContent {
    fn read(value: Value) -> Result<Self, InvalidMember> {
        match value {
            Value::Object(object) => Ok(Self::Object(object)),
            Value::Array(items) => Ok(Self::Array(items)),
            other => Err(type_error("an object", &other)),
        }
    }
}

impl ReadJson for FileContent {
    fn read(value: Value) -> Result<Self, InvalidMember> {
        match (value.get("bytes").is_some(), value.get("uri").is_some()) {
            (true, false) => FileWithBytes::read(value).map(Self::Bytes),
            (false, true) => FileWithUri::read(value).map(Self::Uri),
            _ => Err(InvalidMember::new("must have either bytes or uri")),
        }
    }
}

impl ReadJson for CitationSource {
    fn read(value: Value) -> Result<Self, InvalidMember> {
        let mut members = ObjectMembers::from_value(value)?;
        let kind: String = members.required("kind")?;
        let rest = Value::Object(members.into_remaining());
        match kind.as_str() {
            "file" => FileSource::read(rest).map(Self::File),
            "site" => SiteSource::read(rest).map(Self::Site),
            _ => Err(InvalidMember::new("must be one of file, site").in_member("kind")),
        }
    }
}

/// Writes an object of the union: its kind, content, metadata and unknown members.
fn write_part<S: Serializer, T: Serialize>(
    serializer: S,
    kind: &str,
    content: (&'static str, &T),
    metadata: Option<&Object>,
    extra: &Object,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("kind", kind)?;
    map.serialize_entry(content.0, content.1)?;
    write_optional(&mut map, "metadata", metadata)?;
    write_extra(&mut map, &["kind", content.0, "metadata"], extra)?;
    map.end()
}

impl Serialize for TextPart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_part(serializer, "text", ("text", &self.text), self.metadata.as_ref(), &self.extra)
    }
}

impl Serialize for FilePart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_part(serializer, "file", ("file", &self.file), self.metadata.as_ref(), &self.extra)
    }
}

impl Serialize for DataPart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_part(serializer, "data", ("data", &self.data), self.metadata.as_ref(), &self.extra)
    }
}

impl Serialize for ContentPart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(part) => part.serialize(serializer),
            Self::File(part) => part.serialize(serializer),
            Self::Data(part) => part.serialize(serializer),
        }
    }
}

impl Serialize for DataContent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Object(object) => object.serialize(serializer),
            Self::Array(items) => items.serialize(serializer),
        }
    }
}

impl Serialize for FileContent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bytes(file) => file.serialize(serializer),
            Self::Uri(file) => file.serialize(serializer),
        }
    }
}

impl Serialize for CitationSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct TaggedSource<'a, T> {
            kind: &'static str,
            #[serde(flatten)]
            source: &'a T,
        }
        match self {
            Self::File(source) => TaggedSource { kind: "file", source }.serialize(serializer),
            Self::Site(source) => TaggedSource { kind: "site", source }.serialize(serializer),
        }
    }
}
