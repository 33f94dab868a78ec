//! Authoring: documents written, formatted, begun, chained and imported. Pure: reads no file and no address.

mod chain;
mod format;
mod import;
mod naming;
mod sanitize;
mod scaffold;
mod yaml_writer;

pub use chain::{Chain, ChainStep, Feed, Given, write_chain};
pub use format::{FormatError, format_document};
pub use import::{
    ArazzoOptions, ArazzoSource, DescriptionError, GraphqlOptions, ImportError, Imported,
    ImportedDocument, MAX_DESCRIPTION_BYTES, OpenApiOptions, OperationSummary, Refusal, Remark,
    SourceDescription, arazzo_sources, import_arazzo, import_graphql, import_openapi, list_openapi,
    read_description,
};
pub use scaffold::{Starter, starter_document, suggest_name};
pub use yaml_writer::{write_json, write_yaml};
