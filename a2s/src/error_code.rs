//! The one table of what can be wrong with a document: codes A2S001 to A2S199.

/// A stable code, its meaning, and its remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorCode {
    /// `A2S` and three digits; never reused.
    pub id: &'static str,
    /// The general meaning of the code, in a few words.
    pub title: &'static str,
    /// The suggested fix; may be empty when each message contains it.
    pub remedy: &'static str,
}

/// Declares the one table of errors of a crate. A new error is one row.
///
/// A table of codes declares a constant for each row:
///
/// ```
/// a2s::error_table! {
///     /// Every code of this example, in order.
///     pub const CODES;
///     NOT_FOUND = "A2S998", "not found", "Correct the name.";
///     TOO_LARGE = "A2S999", "too large", "Send less.";
/// }
/// assert_eq!(CODES[1], TOO_LARGE);
/// ```
///
/// A table of kinds declares an enum, whose variants have a code and an HTTP status:
///
/// ```
/// # mod example {
/// a2s::error_table! {
///     /// Every code of this example, in order.
///     pub const CODES;
///     /// The kinds of errors.
///     pub enum ErrorKind;
///     NotFound = "A2S998", 404, "not found", "Correct the name.";
///     Broken = "A2S999", 500, "broken", "Report it.";
/// }
/// # }
/// # use example::ErrorKind;
/// assert_eq!(ErrorKind::NotFound.status(), 404);
/// assert_eq!(ErrorKind::Broken.code().id, "A2S999");
/// ```
///
/// After the enum, `column NAME: TYPE;` adds a private method with the value of a further column, and the
/// list `ALL`.
#[macro_export]
macro_rules! error_table {
    (
        $(#[$doc:meta])* $vis:vis const $codes:ident;
        $($name:ident = $id:literal, $title:literal, $remedy:literal;)*
    ) => {
        $(
            #[doc = $title]
            $vis const $name: $crate::ErrorCode =
                $crate::ErrorCode { id: $id, title: $title, remedy: $remedy };
        )*
        $(#[$doc])*
        $vis const $codes: &[$crate::ErrorCode] = &[$($name),*];
    };
    (
        $(#[$doc:meta])* $vis:vis const $codes:ident;
        $(#[$kind_doc:meta])* $kind_vis:vis enum $kind:ident;
        $($name:ident = $id:literal, $status:literal, $title:literal, $remedy:literal;)*
    ) => {
        $(#[$doc])*
        $vis const $codes: &[$crate::ErrorCode] =
            &[$($crate::ErrorCode { id: $id, title: $title, remedy: $remedy }),*];

        $(#[$kind_doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        $kind_vis enum $kind {
            $(#[doc = concat!($id, ": ", $title, ".")] $name,)*
        }

        impl $kind {
            /// Returns the code, with its title and remedy.
            #[must_use]
            $kind_vis fn code(self) -> &'static $crate::ErrorCode {
                // Kinds and codes come from one table, in one order.
                &$codes[self as usize]
            }

            /// Returns the HTTP status for an error that is the response to a request.
            #[must_use]
            $kind_vis fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }
        }
    };
    (
        $(#[$doc:meta])* $vis:vis const $codes:ident;
        $(#[$kind_doc:meta])* $kind_vis:vis enum $kind:ident;
        $(#[$column_doc:meta])* column $column:ident: $type:ty;
        $($name:ident = $id:literal, $status:literal, $value:expr, $title:literal, $remedy:literal;)*
    ) => {
        $crate::error_table! {
            $(#[$doc])* $vis const $codes;
            $(#[$kind_doc])* $kind_vis enum $kind;
            $($name = $id, $status, $title, $remedy;)*
        }

        impl $kind {
            /// All kinds, in the order of their codes.
            $kind_vis const ALL: &[Self] = &[$(Self::$name),*];

            $(#[$column_doc])*
            fn $column(self) -> $type {
                match self { $(Self::$name => $value,)* }
            }
        }
    };
}

error_table! {
    /// Every code of this crate, in order.
    pub const CODES;
    // Reading: bytes to tree.
    TOO_LARGE = "A2S001", "document too large", "Keep the document under 1 MiB; move parts of it into separate capabilities.";
    NOT_UTF8 = "A2S002", "not UTF-8", "Save the document as UTF-8 without other encodings.";
    SYNTAX = "A2S003", "not valid YAML or JSON", "Correct the syntax at the location that the message names.";
    BUDGET = "A2S004", "document with too many levels, nodes or aliases", "Simplify the document: use fewer levels of nesting, fewer nodes and fewer aliases.";
    DUPLICATE_KEY = "A2S005", "duplicate key", "Remove one of the two.";
    YAML_FEATURE = "A2S006", "YAML feature that documents must not use", "Write the value in full; tags, merge keys, several documents and complex keys are not allowed.";
    NUMBER = "A2S007", "number without a canonical form", "Write the number as a string, or use a number between -(2^53 - 1) and 2^53 - 1.";
    TOO_MANY_FINDINGS = "A2S008", "too many findings to list", "Fix the listed findings, then compile the document again.";
    // Shape: tree to model.
    MISSING_FIELD = "A2S010", "required field missing", "Add the field.";
    UNKNOWN_FIELD = "A2S011", "unknown field", "Remove the field, correct its spelling, or begin its name with `x-`.";
    WRONG_TYPE = "A2S012", "value of the wrong type", "Write a value of the type that the field accepts.";
    BAD_VALUE = "A2S013", "value that the field does not accept", "Write one of the values that the field accepts.";
    BAD_NAME = "A2S014", "malformed name", "Follow the rule for this kind of name.";
    BAD_VERSION = "A2S015", "malformed version", "Write a semantic version in quotes: \"1.0.0\".";
    LANGUAGE_VERSION = "A2S016", "unknown language version", "Use `a2s: 1.0.0` or `a2s: 1.1.0`.";
    DUPLICATE_ID = "A2S017", "name used twice", "Give each step and each parameter a unique name.";
    PLACEHOLDER = "A2S018", "template placeholder not replaced", "Replace `<…>` with a value.";
    BAD_REF = "A2S019", "`$ref` that cannot be used", "Point `$ref` at `#/tasks/NAME`, and define that task.";
    TOO_MANY_STEPS = "A2S020", "too many steps or too deep", "Split the capability; a document has at most 200 steps, nested at most 16 deep.";
    NEWER_FIELD = "A2S021", "field of a newer language version", "Write `a2s: 1.1.0` at the top, or remove the field.";
    TEXT_CONTROL = "A2S022", "character that hides or changes how text is shown", "Remove the character; write the text on one line.";
    LITERAL_KEY = "A2S023", "key in a document", "Remove the key, and revoke it at the service: describe it under `securitySchemes` of the task, and store it with `a2s secrets set`. If the key is public, write `x-a2s-public-keys: true` at the top.";
    LITERAL_TEMPLATE = "A2S024", "literal text that looks like a template", "Write `${name}` for the value of a variable.";
    // Checksum.
    CHECKSUM_MISSING = "A2S030", "checksum not filled in", "Fill in the right checksum; for a file, `a2s checksum --write FILE` does it.";
    CHECKSUM_MISMATCH = "A2S031", "checksum does not match the content", "If you meant to change the document, give it a new version and run `a2s checksum --write FILE`; if not, restore the original.";
    // Expressions and data flow.
    BAD_TEMPLATE = "A2S040", "malformed template", "Write `${name}`, `${name.member[0]}`, or `$${` for the characters `${`.";
    BAD_CONDITION = "A2S041", "malformed condition", "Write a CEL expression over references such as `${severity} == 'high'`.";
    BAD_QUERY = "A2S042", "malformed JSONPath", "Write an RFC 9535 query such as `$.data[0].id`.";
    LATER_OUTPUT = "A2S043", "output read before it is certain to be set", "Move the step that reads the output after the step that sets it, or declare the name in `execution.variables.shared`.";
    PARALLEL_CONFLICT = "A2S044", "two parallel steps set the same output", "Give the outputs different names.";
    UNUSED_PARAMETER = "A2S045", "unused parameter", "Use the parameter as `${name}`, or remove it.";
    BAD_OUTPUT_NAME = "A2S046", "malformed output name", "Write a name such as `tweet_id` or `ids.tweet`.";
    LIKELY_MISSPELT = "A2S047", "possible typo in a reference", "Correct the name, or declare it under `parameters`.";
    ABSENT_INPUT = "A2S048", "optional parameter where a value is required", "Give the parameter a default, or make it required.";
    UNUSED_OUTPUT = "A2S049", "unused output", "Remove the output, or read it as `${name}`.";
    // Tasks.
    BAD_OPENAPI = "A2S050", "malformed OpenAPI task", "Correct the specification at the location that the message names.";
    BAD_GRAPHQL = "A2S051", "malformed GraphQL task", "Give `endpoint` and `query`, and correct the query at the location that the message names.";
    FOREIGN_HOST = "A2S052", "host outside `domains`", "Add the host to `domains`, or correct the address.";
    UNKNOWN_INPUT = "A2S053", "input that the task does not accept", "Use the names of the operation's parameters, or add the parameter to the specification.";
    AMBIGUOUS_INPUT = "A2S054", "input with several possible locations", "Write the input under `pathParameters`, `queryParameters`, `headerParameters` or `cookieParameters`.";
    MISSING_INPUT = "A2S055", "required input of a task not mapped", "Map the input in `input_mapping`.";
    UNSUPPORTED = "A2S056", "valid, but not supported yet", "Express the task without this feature for now.";
    WRONG_KIND = "A2S057", "input of a type that the task does not accept", "Map a value of the type that the specification declares.";
    QUERY_MISS = "A2S058", "JSONPath that cannot match the declared response", "Correct the path, or the response's schema in the task.";
    BAD_EXAMPLE = "A2S059", "example that does not match the capability", "Give each input a value that it accepts, and give `answers` for the task steps.";
    // Dependencies.
    UNDECLARED_DEPENDENCY = "A2S060", "capability used but not declared", "Declare the capability under `dependencies` with a version range.";
    UNUSED_DEPENDENCY = "A2S061", "unused dependency", "Remove the dependency, or use it in a `capability` step.";
    DEPENDENCY_MISSING = "A2S062", "dependency not published", "Publish the dependency first, or correct the name and the range.";
    DEPENDENCY_CHECKSUM = "A2S063", "pinned checksum that no published version has", "Replace the pin with a checksum that `a2s show` prints.";
    DEPENDENCY_RANGE = "A2S064", "pinned version outside the range", "Correct the range or the pin.";
    DEPENDENCY_YANKED = "A2S065", "pinned version was yanked", "Pin a version that is not yanked.";
    DEPENDENCY_CYCLE = "A2S066", "capability depends on itself", "Remove the dependency that closes the cycle.";
    DEPENDENCY_DOMAINS = "A2S067", "domains of a dependency not declared", "Add the dependency's domains to `domains`.";
    DEPENDENCY_PIN = "A2S068", "dependency pin is a placeholder", "Write the checksum that `a2s show` prints, or leave `checksum` out.";
    DEPENDENCY_DEPTH = "A2S069", "dependencies nested too deep", "Keep chains of capabilities at most 8 deep.";
    DEPENDENCY_PERMISSIONS = "A2S070", "permissions of a dependency not declared", "Add the dependency's permissions to `permissions`.";
    DEPENDENCY_INPUTS = "A2S071", "inputs that a dependency does not accept", "Map the inputs that `a2s show` lists.";
    DEPENDENCY_CONFLICT = "A2S072", "capability used in two versions at once", "Make both dependencies resolve to one version. You may also keep both versions: each dependency gets its own.";
    DEPENDENCY_DEPRECATED = "A2S073", "dependency is deprecated", "Use the replacement that its publisher names, or keep the dependency for now.";
    // More of tasks.
    BAD_MCP = "A2S080", "malformed MCP task", "Give `server` and `tool`, and copy the schemas as `tools/list` returns them.";
    AMBIGUOUS_PATH = "A2S081", "path with several spellings", "Write the path without `;`, `\\` and encoded slashes, if the service has such a path.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_ordered_and_explained() {
        assert!(CODES.is_sorted_by(|a, b| a.id < b.id));
        for code in CODES {
            assert!(code.id.len() == 6 && code.id.starts_with("A2S"), "{}", code.id);
            assert!(!code.title.is_empty() && !code.remedy.is_empty(), "{}", code.id);
        }
    }
}
