//! Tools for authors of capability documents: import, format, scaffold, chain, lock and bill of materials; and
//! types for programs that use capabilities.
//!
//! The functions are pure: they read no file and no address.

mod bom;
mod chain;
mod format;
mod import;
pub mod lock;
mod naming;
mod sanitize;
mod scaffold;
mod type_definitions;
mod yaml_writer;

pub use bom::Bom;
pub use chain::{ChainDocument, ChainStep, InputBinding, OutputRef, write_chain};
pub use format::{FormatError, format_document};
pub use import::{
    ApiDescription, ArazzoOptions, ArazzoSource, DescriptionError, GraphqlOptions, ImportError,
    ImportRejection, ImportResult, ImportStop, ImportWarning, ImportedDocument,
    MAX_DESCRIPTION_BYTES, OpenApiOptions, OperationSummary, SourceDescription, arazzo_sources,
    decode_text, import_arazzo, import_graphql, import_openapi, list_openapi, read_description,
};
pub use scaffold::{StarterTemplate, starter_document, suggest_name};
pub use type_definitions::{TypeLanguage, TypedCapability, write_types};
pub use yaml_writer::{write_json, write_yaml};
