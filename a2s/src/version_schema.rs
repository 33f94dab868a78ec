//! Schemas of versions and ranges, which are types of another crate, for descriptions of an API.

use std::borrow::Cow;

use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

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
    // The reader of ranges takes 32 of them.
    format!("{comparator}( ?, ?{comparator}){{0,31}}")
}

/// Returns the pattern of a range of versions.
pub(crate) fn range() -> String {
    format!(r"(\*|{})", comparators())
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
        256, range(), "^1.2";
    VersionSelector, "An exact version, a range, or `latest`.",
        128, format!("(latest|{})", range()), "^1.2";
}
