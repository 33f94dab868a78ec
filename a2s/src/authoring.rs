//! Authoring: documents written, formatted, begun, chained and imported. Pure: reads no file and no address.

mod chain;
mod format;
mod import;
mod naming;
mod sanitize;
mod scaffold;
mod yaml_writer;

pub use chain::{ChainDocument, ChainStep, InputBinding, OutputRef, write_chain};
pub use format::{FormatError, format_document};
pub use import::{
    ArazzoOptions, ArazzoSource, DescriptionError, GraphqlOptions, ImportError, ImportRejection,
    ImportResult, ImportWarning, ImportedDocument, MAX_DESCRIPTION_BYTES, OpenApiOptions,
    OperationSummary, SourceDescription, arazzo_sources, import_arazzo, import_graphql,
    import_openapi, list_openapi, read_description,
};
pub use scaffold::{StarterTemplate, starter_document, suggest_name};
pub use yaml_writer::{write_json, write_yaml};
