//! The capability document: parse, validate, checksum and expressions.
//!
//! A capability is one YAML (or JSON) document that says how to do one thing over OpenAPI,
//! GraphQL and MCP services. This crate turns its bytes into a [`Document`] that cannot be wrong, or into
//! every [`Diagnostic`] there is to report. It opens no file and no socket and reads no clock.
//!
//! ```
//! let source = br#"
//! a2s: 1.0.0
//! name: ListDogBreeds
//! description: Retrieve a list of dog breeds
//! domains: [dogapi.dog]
//! version: "1.0"
//! checksum: "<calculated_checksum>"
//! authors: [{name: Jane Smith}]
//! execution:
//!   type: sequence
//!   steps:
//!     - id: listBreeds
//!       format: OpenAPI
//!       task:
//!         openapi: 3.0.1
//!         info: {title: Dog API, version: 1.0.0}
//!         servers: [{url: "https://dogapi.dog/api/v2"}]
//!         paths: {/breeds: {get: {responses: {200: {description: The breeds}}}}}
//!       output_mapping: {breeds: "$.data"}
//! "#;
//! let compilation = a2s::compile(source);
//! let digest = compilation.digest.expect("the document is well-formed");
//! // The only remark: the checksum is a placeholder, and this is its value.
//! assert_eq!(compilation.diagnostics.len(), 1);
//! assert!(compilation.diagnostics[0].message.contains(&digest.to_string()));
//! ```

mod budget;
mod capability_ref;
mod check;
mod checksum;
mod compile;
mod condition;
mod decode;
mod dependencies;
mod deprecation;
mod diagnostic;
mod display_safe;
mod document;
mod document_schema;
pub mod error_code;
mod evaluation_cost;
mod field_reader;
mod interface;
mod name;
mod query;
mod secret;
mod task;
mod template;
pub mod tree;
mod types;
mod variable_references;
pub mod version_schema;

pub use crate::capability_ref::CapabilityRef;
pub use crate::checksum::{Digest, DigestError, canonical_json};
pub use crate::compile::{
    Compilation, DeclaredChecksum, Document, compile, compile_to_publish, compile_with_checksum,
    parse_value,
};
pub use crate::condition::{Condition, ConditionError};
pub use crate::decode::MAX_STEPS;
pub use crate::dependencies::{
    CandidateVersion, ClosureSummary, DependencyIndex, DependencyInterface, MAX_DEPENDENCY_DEPTH,
    MAX_PINS, MissingDependency, PinError, VersionInfo, add_positions, check_pins, choose_pin,
    select_version,
};
pub use crate::deprecation::{Deprecation, SuccessorRef};
pub use crate::diagnostic::{
    Diagnostic, DiagnosticSeverity, RelatedPosition, SourcePosition, did_you_mean,
};
pub use crate::display_safe::{is_displayable, mark_hidden, to_single_line};
pub use crate::document::{
    Author, BackoffKind, Capability, CapabilityExample, CapabilityStep, Dependency,
    ExampleResponse, ForEach, OnError, OutputMapping, OutputSource, Parameter, RetryPolicy, Step,
    StepAction, StepBlock, StepChoice, StepControl, StepKind, StepPath, StepPathSegment,
    TaskInputs, TaskStep, ValueType,
};
pub use crate::document_schema::json_schema;
pub use crate::error_code::{CODES, ErrorCode};
pub use crate::evaluation_cost::{CHEAP_VISITS, EvaluationCost, SchemaWeight};
pub use crate::field_reader::is_placeholder;
pub use crate::interface::{CapabilityInterface, Complexity, InputField, OutputField};
pub use crate::name::{
    CapabilityName, Domain, InvalidName, Permission, StepId, pascal_case, split_name,
};
pub use crate::query::{JsonPathQuery, QueryError};
pub use crate::secret::{HIDDEN, Secret};
pub use crate::task::{
    ApiKeyLocation, BodyField, BodyFormat, CredentialKind, FieldHeader, FieldType, GraphqlTask,
    HeaderParameter, HttpMethod, HttpScheme, InputLocation, McpTask, MediaType, OAuthFlow,
    OAuthFlows, OpenApiTask, OpenApiVersion, OperationParameter, ParameterLocation, ParameterStyle,
    RequestBody, SchemaResolver, SecurityRequirement, SecurityScheme, Task, TaskFormat,
    ToolAnnotations, ValueStyle, VariableDefinition, find_key_conflict, is_scheme_name,
    names_idempotency_key, open_closed_all_of,
};
pub use crate::template::{
    MissingReference, Template, VariableReference, VariableSource, is_name as is_variable_name,
};
pub use crate::types::JsonTypes;
