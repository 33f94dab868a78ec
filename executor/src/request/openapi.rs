//! OpenAPI tasks: parameters and body, each at its place in the request.

mod binary;
mod body;
mod body_view;
mod form;
mod multipart;
mod parameter;

use a2s::{
    HIDDEN, HttpMethod, InputLocation, MediaType, OpenApiTask, OperationParameter,
    ParameterLocation,
};
use bytes::Bytes;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, COOKIE, HeaderName, HeaderValue};
use indexmap::IndexMap;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::Value;
use url::Url;

pub(crate) use self::binary::mask_binary;
pub(super) use self::body_view::BodyView;
use self::parameter::ParameterValue;
use super::parameter_style::StyledValue;
use super::{PrepareError, PreparedRequest, header_value, is_reserved_header};

/// The encode set for the literal text of a path template: it keeps the characters that RFC 3986 allows in
/// a segment, and the `%` of text that is already encoded.
const LITERAL: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@')
    .remove(b'%');

/// Prepares the request of an operation; `accepted` are its [`accepted_types`].
pub(super) fn prepare(
    task: &OpenApiTask,
    accepted: HeaderValue,
    inputs: &IndexMap<InputLocation, Value>,
) -> Result<PreparedRequest, PrepareError> {
    check_places(task, inputs)?;
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, accepted);
    write_headers(task, inputs, &mut headers)?;
    let body = write_body(task, inputs, &mut headers)?;
    Ok(new_request(task, write_url(task, inputs)?, headers, body))
}

/// Returns the request that masked inputs result in. A part that they cannot result in is a placeholder.
/// `url` is the true address.
pub(super) fn prepare_masked(
    task: &OpenApiTask,
    accepted: HeaderValue,
    shown: &IndexMap<InputLocation, Value>,
    url: &Url,
) -> PreparedRequest {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, accepted);
    if write_headers(task, shown, &mut headers).is_err() {
        headers.clear();
    }
    let body = write_body(task, shown, &mut headers).unwrap_or_else(|_| {
        let mut shown = shown.clone();
        if let Some(body) = shown.get_mut(&InputLocation::Body) {
            *body = binary::with_readable_content(body);
        }
        let media_type = task.body.as_ref().and_then(|body| header_value(body.media_type.as_str()));
        write_body(task, &shown, &mut headers).unwrap_or_else(|_| {
            headers.extend(media_type.map(|media_type| (CONTENT_TYPE, media_type)));
            Some(Bytes::from_static(HIDDEN.as_bytes()))
        })
    });
    let url = write_url(task, shown).unwrap_or_else(|_| {
        let mut url = url.clone();
        url.set_path(HIDDEN);
        url.set_query(url.query().is_some().then_some(HIDDEN));
        url
    });
    new_request(task, url, headers, body)
}

fn new_request(
    task: &OpenApiTask,
    url: Url,
    headers: HeaderMap,
    body: Option<Bytes>,
) -> PreparedRequest {
    PreparedRequest {
        method: method(task.method),
        url,
        headers,
        body,
        whole_body: None,
        session_body: None,
        repeat_safe: false,
        own_trace: false,
        shown: None,
        access: None,
    }
}

/// Returns the method and the address, with parameters in braces.
pub(super) fn address(task: &OpenApiTask) -> (&'static str, String) {
    let server = task.server.as_str().trim_end_matches('/');
    (task.method.as_str(), format!("{server}/{}", task.path.trim_start_matches('/')))
}

fn method(method: HttpMethod) -> http::Method {
    match method {
        HttpMethod::Get => http::Method::GET,
        HttpMethod::Put => http::Method::PUT,
        HttpMethod::Post => http::Method::POST,
        HttpMethod::Delete => http::Method::DELETE,
        HttpMethod::Options => http::Method::OPTIONS,
        HttpMethod::Head => http::Method::HEAD,
        HttpMethod::Patch => http::Method::PATCH,
        HttpMethod::Trace => http::Method::TRACE,
    }
}

/// Returns the input for a parameter.
pub(super) fn find_input<'a>(
    inputs: &'a IndexMap<InputLocation, Value>,
    parameter: &OperationParameter,
) -> Option<&'a Value> {
    inputs.iter().find(|(place, _)| parameter.is_at(place)).map(|(_, value)| value)
}

fn check_places(
    task: &OpenApiTask,
    inputs: &IndexMap<InputLocation, Value>,
) -> Result<(), PrepareError> {
    let known = |given: &InputLocation| match given {
        InputLocation::Body => task.body.is_some(),
        place => task.parameters.iter().any(|parameter| parameter.is_at(place)),
    };
    match inputs.keys().find(|place| !known(place)) {
        Some(place) => Err(PrepareError::Unknown(place.clone())),
        None => Ok(()),
    }
}

/// The parameters of one location that have a value, in the order of the operation.
///
/// A parameter without value is left out, or an error when it is required. A default in its schema is the
/// value that the service assumes, so it is not sent.
fn given_parameters<'a>(
    task: &'a OpenApiTask,
    inputs: &'a IndexMap<InputLocation, Value>,
    wanted: ParameterLocation,
) -> Result<Vec<ParameterValue<'a>>, PrepareError> {
    let mut found = Vec::new();
    for parameter in task.parameters.iter().filter(|parameter| parameter.location == wanted) {
        // OpenAPI leaves these to the operation itself and to its security schemes.
        if wanted == ParameterLocation::Header && is_ignored_header(&parameter.name) {
            continue;
        }
        let value = find_input(inputs, parameter).unwrap_or(&Value::Null);
        let given = ParameterValue { parameter, value };
        if given.is_defined() {
            found.push(given);
        } else if parameter.required {
            return Err(PrepareError::Missing(parameter.input_location()));
        }
    }
    Ok(found)
}

/// Returns true when a value is sent for a parameter, so that its schema applies. An empty value does not
/// count where the parameter allows empty values.
pub(super) fn is_sent(parameter: &OperationParameter, value: &Value) -> bool {
    let is_ignored =
        parameter.location == ParameterLocation::Header && is_ignored_header(&parameter.name);
    let has_nothing =
        value.as_str().map_or_else(|| StyledValue::from_value(value).is_none(), str::is_empty);
    let is_empty = parameter.allow_empty_value && has_nothing;
    let given = ParameterValue { parameter, value };
    !is_ignored && !is_empty && given.is_defined()
}

/// Returns true for headers that are never parameters (OpenAPI 3.1.1, "Parameter Object"). The compiler
/// leaves them out as well.
fn is_ignored_header(name: &str) -> bool {
    ["accept", "authorization", "content-type"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

fn write_url(
    task: &OpenApiTask,
    inputs: &IndexMap<InputLocation, Value>,
) -> Result<Url, PrepareError> {
    let mut url = task.server.clone();
    let path = format!("{}{}", url.path().trim_end_matches('/'), write_path(task, inputs)?);
    url.set_path(&path);
    if url.path() != path {
        // The parser of addresses would have read the path differently from us.
        return Err(PrepareError::Task(format!(
            "its path {:?} is not valid in an address",
            task.path
        )));
    }
    url.set_fragment(None);
    url.set_query(None);
    let mut query: Vec<String> = task.server.query().map(str::to_owned).into_iter().collect();
    for given in given_parameters(task, inputs, ParameterLocation::Query)? {
        let pairs = given.query_pairs().map_err(|reason| given.to_error(reason))?;
        query.extend(pairs.into_iter().map(|(name, value)| format!("{name}={value}")));
    }
    if !query.is_empty() {
        url.set_query(Some(&query.join("&")));
    }
    Ok(url)
}

/// Fills the path template, segment by segment. A value never adds or removes a segment, except for
/// `{+name}`, which keeps its slashes.
fn write_path(
    task: &OpenApiTask,
    inputs: &IndexMap<InputLocation, Value>,
) -> Result<String, PrepareError> {
    let values = given_parameters(task, inputs, ParameterLocation::Path)?;
    let mut path = String::new();
    for segment in task.path.strip_prefix('/').unwrap_or(&task.path).split('/') {
        path.push('/');
        path.push_str(&write_segment(segment, &values)?);
    }
    Ok(path)
}

fn write_segment(template: &str, values: &[ParameterValue<'_>]) -> Result<String, PrepareError> {
    let mut written = String::new();
    let mut filled_by = None;
    let mut rest = template;
    while let Some((literal, name, behind)) = next_expression(rest) {
        written.extend(utf8_percent_encode(literal, LITERAL));
        let (name, keeps_slashes) = match name.strip_prefix('+') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let given = values
            .iter()
            .find(|given| given.parameter.name == name)
            .ok_or_else(|| PrepareError::Missing(InputLocation::Path(name.to_owned())))?;
        let mut value = given.path_text().map_err(|reason| given.to_error(reason))?;
        if keeps_slashes {
            value = value.replace("%2F", "/");
        }
        written.push_str(&value);
        filled_by = Some(given);
        rest = behind;
    }
    written.extend(utf8_percent_encode(rest, LITERAL));
    let Some(given) = filled_by else { return Ok(written) };
    for segment in written.split('/') {
        let decoded = percent_decode_str(segment).decode_utf8_lossy();
        // Every parser of addresses removes such segments, however they are encoded.
        if matches!(&*decoded, "." | "..") {
            return Err(given.to_error("`.` and `..` would change the path"));
        }
        if decoded.is_empty() {
            return Err(given.to_error("an empty segment would change the path"));
        }
    }
    Ok(written)
}

/// The text before the next `{name}`, the name, and the text after it.
fn next_expression(text: &str) -> Option<(&str, &str, &str)> {
    let (literal, rest) = text.split_once('{')?;
    let (name, behind) = rest.split_once('}')?;
    Some((literal, name, behind))
}

fn write_headers(
    task: &OpenApiTask,
    inputs: &IndexMap<InputLocation, Value>,
    headers: &mut HeaderMap,
) -> Result<(), PrepareError> {
    for given in given_parameters(task, inputs, ParameterLocation::Header)? {
        let name = HeaderName::from_bytes(given.parameter.name.as_bytes())
            .map_err(|_| given.to_error("its name is not a valid header name"))?;
        if is_reserved_header(&name) {
            let reason = "this header is reserved for the connection or for credentials";
            return Err(given.to_error(reason));
        }
        let text = given.header_text().map_err(|reason| given.to_error(reason))?;
        let reason = "a header must have visible ASCII characters on one line";
        let value = header_value(&text).ok_or_else(|| given.to_error(reason))?;
        headers.insert(name, value);
    }
    let mut cookies = Vec::new();
    for given in given_parameters(task, inputs, ParameterLocation::Cookie)? {
        let pairs = given.cookie_pairs().map_err(|reason| given.to_error(reason))?;
        cookies.extend(pairs.into_iter().map(|(name, value)| format!("{name}={value}")));
    }
    // Names and values are encoded or checked, so they are always fit for a header.
    if let Some(value) = header_value(&cookies.join("; ")).filter(|value| !value.is_empty()) {
        headers.insert(COOKIE, value);
    }
    Ok(())
}

fn write_body(
    task: &OpenApiTask,
    inputs: &IndexMap<InputLocation, Value>,
    headers: &mut HeaderMap,
) -> Result<Option<Bytes>, PrepareError> {
    let Some(declared) = &task.body else { return Ok(None) };
    let Some(value) = inputs.get(&InputLocation::Body).filter(|value| !value.is_null()) else {
        return if declared.required {
            Err(PrepareError::Missing(InputLocation::Body))
        } else {
            Ok(None)
        };
    };
    let (media_type, bytes) = body::write(declared, value)?;
    // Media types are made of visible ASCII.
    let media_type = header_value(&media_type)
        .ok_or_else(|| PrepareError::Task(format!("{media_type:?} is not a media type")))?;
    headers.insert(CONTENT_TYPE, media_type);
    Ok(Some(Bytes::from(bytes)))
}

/// The maximum number of media types in the `Accept` header.
const MAX_ACCEPTED: usize = 8;

/// The media types that the operation declares for success, JSON first, because steps read its members. Any
/// other type comes last: if the response cannot be read, the executor explains it better than a rejection
/// by the service. For an operation that declares nothing, JSON comes first.
pub(super) fn accepted_types(task: &OpenApiTask) -> HeaderValue {
    let mut declared: Vec<(&str, bool)> = Vec::new();
    for (status, response) in &task.responses {
        let content = response.get("content").and_then(Value::as_object);
        let success = status.starts_with('2') || status == "default";
        for (text, _) in content.into_iter().flatten().filter(|_| success) {
            let Some(media) = MediaType::parse(text) else { continue };
            // Another weight than ours, or a comma, would make it something else.
            let is_plain = !text.contains(',') && media.parameter("q").is_none();
            if is_plain && !media.is("*/*") && !declared.iter().any(|(known, _)| known == text) {
                declared.push((text, media.is_json()));
            }
        }
    }
    let has_json = declared.iter().any(|(_, is_json)| *is_json);
    // The sort keeps the order of the document.
    declared.sort_by_key(|(_, is_json)| !is_json);
    declared.truncate(MAX_ACCEPTED);
    let mut types: Vec<String> = Vec::new();
    for (text, is_json) in &declared {
        let is_second = has_json && !is_json;
        types.push(if is_second { format!("{text};q=0.5") } else { (*text).to_owned() });
    }
    if types.is_empty() {
        types.push("application/json".to_owned());
    }
    let accepted = header_value(&format!("{}, */*;q=0.1", types.join(", ")));
    accepted.unwrap_or(HeaderValue::from_static("application/json, */*;q=0.1"))
}

#[cfg(test)]
mod tests;
