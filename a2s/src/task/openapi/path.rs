//! Path templates: `/current/{city}`, `/files/{name}.{type}`, `/v1/{+parent}/items`.
//!
//! In the value of `{+name}` slashes stay as they are (RFC 6570, section 3.2.3; HTTP annotations of
//! Google's APIs); everything else is encoded as ever.

use percent_encoding::percent_decode_str;

use super::decode::OpenApiDecoder;
use super::parameter::{OperationParameter, ParameterLocation};
use crate::field_reader::shorten_for_message;
use crate::task::located_value::LocatedValue;

/// Checks that every `{name}` of the path has a parameter, and every path parameter a `{name}`. The
/// path may contain a name several times.
pub(super) fn check_path_template<'n>(
    decoder: &mut OpenApiDecoder<'n, '_>,
    path: &str,
    item: &LocatedValue<'n>,
    parameters: &[OperationParameter],
) {
    let mut named = Vec::new();
    for part in path.split('{').skip(1) {
        match part.split_once('}') {
            Some((name, _)) => {
                let name = name.strip_prefix('+').unwrap_or(name);
                if !named.contains(&name) {
                    named.push(name);
                }
            }
            None => decoder.error(item, "the path has `{` without `}`", "Close the brace."),
        }
    }
    let declared: Vec<_> = parameters
        .iter()
        .filter(|parameter| parameter.location == ParameterLocation::Path)
        .map(|parameter| parameter.name.as_str())
        .collect();
    for name in &named {
        if !declared.contains(name) {
            let message =
                format!("no path parameter is declared for `{{{}}}`", shorten_for_message(name));
            let hint = "Declare it under `parameters` with `in: path` and `required: true`.";
            decoder.error(item, message, hint);
        }
    }
    for name in declared {
        if !named.contains(&name) {
            let message = format!(
                "the path does not contain the path parameter `{}`",
                shorten_for_message(name)
            );
            let hint = format!(
                "Write `{{{}}}` into the path, or remove the parameter.",
                shorten_for_message(name)
            );
            decoder.error(item, message, hint);
        }
    }
    // Every parser of addresses would walk them, however they are encoded.
    let walks =
        |segment: &str| matches!(&*percent_decode_str(segment).decode_utf8_lossy(), "." | "..");
    if path.split('/').any(walks) {
        let message = "the path has a segment `.` or `..`";
        decoder.error(item, message, "Write the resulting path without these segments.");
    }
}
