//! Authoring: documents written, formatted, begun and imported. Pure: reads no file and no address.

mod format;
mod names;
mod text;
mod write;

pub use format::{FormatError, format_document};
pub use write::{write_json, write_yaml};
