//! Schemas for the API description: of types of other crates, and of types whose JSON differs from their
//! fields.

use std::borrow::Cow;

use serde_json::{Map, Value};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::{CredentialSubject, SuccessorRef};
use crate::Principal;

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

/// The pattern of one number in a version.
const NUMBER: &str = r"(0|[1-9]\d{0,15})";

/// Returns the pattern of the pre-release and the build of a version.
fn suffix() -> String {
    let identifier = r"(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)";
    format!(r"(-{identifier}(\.{identifier})*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?")
}

fn version() -> String {
    format!(r"{NUMBER}\.{NUMBER}\.{NUMBER}{}", suffix())
}

/// Returns the pattern of one or several comparators.
fn comparators() -> String {
    let partial = format!(r"{NUMBER}(\.{NUMBER}(\.{NUMBER}{})?)?", suffix());
    let wildcard = format!(r"{NUMBER}\.([*xX](\.[*xX])?|{NUMBER}\.[*xX])");
    let comparator = format!(r"((=|>=?|<=?|~|\^)? ?{partial}|{wildcard})");
    format!("{comparator}( ?, ?{comparator})*")
}

/// Describes versions and ranges, whose patterns share the same parts.
macro_rules! versions {
    ($($name:ident, $description:literal, $max_length:literal, $pattern:expr, $example:literal;)*) => {$(
        #[doc = $description]
        #[derive(Debug)]
        pub struct $name;

        impl PartialSchema for $name {
            #[expect(deprecated, reason = "other texts have `example`, which their derive writes")]
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .description(Some($description))
                    .max_length(Some($max_length))
                    .pattern(Some(format!("^{}$", $pattern)))
                    .example(Some($example.into()))
                    .into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                stringify!($name).into()
            }
        }
    )*};
}

versions! {
    Version, "An exact version (Semantic Versioning 2.0.0).", 256, version(), "1.4.0";
    VersionRange, "A range of versions (Semantic Versioning 2.0.0), with comparators separated by commas.",
        256, format!(r"(\*|{})", comparators()), "^1.2";
    VersionSelector, "An exact version, a range, or `latest`.",
        128, format!(r"(latest|\*|{})", comparators()), "^1.2";
}

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
    SuccessorRef, "Successor", "A capability and its acceptable versions; without versions, any version is acceptable.",
        "^[A-Z][A-Za-z0-9]*(@.+)?$", ["GetWeather", "GetWeather@^2"];
}
