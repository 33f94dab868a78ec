//! Schemas for the API description: of types of other crates, and of types whose JSON differs from their
//! fields.

use std::borrow::Cow;

use serde_json::{Map, Value};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::CredentialSubject;
use crate::Principal;

pub use a2s::version_schema::{Version, VersionRange, VersionSelector};

/// The name of an input.
#[derive(Debug, ToSchema)]
#[schema(max_length = 100, pattern = "^[A-Za-z_][A-Za-z0-9_-]*$", example = "city")]
#[expect(dead_code, reason = "it describes a part of a path")]
pub struct InputName(String);

/// The name of a security scheme.
#[derive(Debug, ToSchema)]
#[schema(
    max_length = 100,
    pattern = r"^[^\x00-\x20\x7f-\x9f.-][^\x00-\x1f\x7f-\x9f]*$",
    example = "token"
)]
#[expect(dead_code, reason = "it describes a part of a path")]
pub struct SchemeName(String);

/// A secret to store, without control characters.
#[derive(Debug, ToSchema)]
#[schema(format = Password, min_length = 4, max_length = 8192, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
#[expect(dead_code, reason = "it stands for `Secret`")]
pub struct SecretText(String);

/// Values by name.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "it stands for `serde_json::Map`")]
pub(super) struct Values(Map<String, Value>);

/// Describes types whose JSON form is one string.
macro_rules! texts {
    ($($type:ty, $name:literal, $description:literal, $pattern:literal, $examples:expr;)*) => {$(
        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .description(Some($description))
                    .pattern(Some($pattern))
                    .examples($examples)
                    .into()
            }
        }

        impl ToSchema for $type {
            fn name() -> Cow<'static, str> {
                $name.into()
            }
        }
    )*};
}

texts! {
    Principal, "Principal", "A token, or the end user that it acts for.",
        "^[A-Za-z0-9][A-Za-z0-9._@-]*(/[!-~]+)?$", ["ci", "ci/ann", "owner"];
    CredentialSubject, "CredentialSubject",
        "A token with all end users that it acts for, one of these end users, or every principal (`*`).",
        r"^(\*|[A-Za-z0-9][A-Za-z0-9._@-]*(/[!-~]+)?)$", ["*", "ci", "ci/ann"];
}
