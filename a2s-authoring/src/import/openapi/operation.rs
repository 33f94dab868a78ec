//! The operations of a description.

use serde_json::Value;

use crate::import::ImportRejection;
use crate::import::ref_resolver::{RefResolver, quote_for_message};
use crate::naming;

/// The maximum number of operations in a description.
const MAX_OPERATIONS: usize = 20_000;
/// The methods, as descriptions write them.
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// An operation of a description.
#[derive(Debug, Clone, Copy)]
pub(in crate::import) struct SpecOperation<'a> {
    pub(in crate::import) source: RefResolver<'a>,
    /// The path template, as written.
    pub(in crate::import) path: &'a str,
    /// The method in lower case.
    pub(in crate::import) method: &'static str,
    /// The path item.
    pub(in crate::import) item: &'a Value,
    /// The operation itself.
    pub(in crate::import) raw: &'a Value,
}

impl<'a> SpecOperation<'a> {
    /// `operationId`, when there is one.
    pub(in crate::import) fn id(&self) -> Option<&'a str> {
        self.raw.get("operationId").and_then(Value::as_str).filter(|id| !id.is_empty())
    }

    /// Returns method and path: `GET /users/{id}`.
    pub(in crate::import) fn label(&self) -> String {
        format!("{} {}", self.method.to_ascii_uppercase(), quote_for_message(self.path))
    }

    /// Returns true when `text` is the operation's method and path: `get /users/{id}`.
    pub(super) fn is_at(&self, text: &str) -> bool {
        text.split_once(' ').is_some_and(|(method, path)| {
            self.method.eq_ignore_ascii_case(method) && self.path == path.trim()
        })
    }

    /// Returns its location in the description.
    pub(in crate::import) fn location(&self) -> String {
        format!("paths.{}.{}", quote_for_message(self.path), self.method)
    }

    /// Builds a name from method and path: `GET /users/{id}` is `GetUsersById`.
    pub(super) fn name_by_path(&self) -> String {
        let words = self.path.split('/').map(|segment| match segment.strip_prefix('{') {
            Some(parameter) => format!("by {parameter}"),
            None => segment.to_owned(),
        });
        let text = words.fold(self.method.to_owned(), |text, word| text + " " + &word);
        naming::capability_name(&text).unwrap_or_else(|| "Operation".to_owned())
    }
}

/// Returns every operation in the order of the description, and the paths that cannot be read.
pub(in crate::import) fn operations(
    source: RefResolver<'_>,
) -> (Vec<SpecOperation<'_>>, Vec<ImportRejection>) {
    let (mut operations, mut refused) = (Vec::new(), Vec::new());
    let paths = source.get("paths").and_then(Value::as_object);
    for (path, item) in paths.into_iter().flatten().filter(|(path, _)| !path.starts_with("x-")) {
        let place = format!("paths.{}", quote_for_message(path));
        let item = match source.resolve(item) {
            Ok(item) => item,
            Err(error) => {
                let refusal = ImportRejection::new(path, &place, error.to_string());
                refused.push(refusal.with_hint(error.hint()));
                continue;
            }
        };
        for method in METHODS {
            let Some(raw) = item.get(method).filter(|raw| raw.is_object()) else { continue };
            if operations.len() == MAX_OPERATIONS {
                let reason = format!("a description has at most {MAX_OPERATIONS} operations");
                refused.push(ImportRejection::new(path, &place, reason).with_hint(
                    "Split the description; the import drops the operations after this location.",
                ));
                return (operations, refused);
            }
            match source.resolve(raw) {
                Ok(raw) => operations.push(SpecOperation { source, path, method, item, raw }),
                Err(error) => {
                    let label =
                        format!("{} {}", method.to_ascii_uppercase(), quote_for_message(path));
                    let refusal = ImportRejection::new(&label, &place, error.to_string());
                    refused.push(refusal.with_hint(error.hint()));
                }
            }
        }
    }
    (operations, refused)
}
