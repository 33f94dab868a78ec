//! Answers made up from what an operation declares: always the same for the same operation.

use a2s::{MediaType, OpenApiTask, OutputMapping, OutputSource, SchemaResolver, Task};
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use serde_json::Value;

use super::declared_response::{json_media_type, set_content_type, to_bytes, tool_result};
use crate::request::RawResponse;

/// The maximum number of examples of a description that are tried.
const MAX_SHOWN: usize = 4;
/// The maximum number of generated headers.
const MAX_HEADERS: usize = 50;

/// Generates responses that a service may send, the most likely first. The caller checks each one, because
/// a description may contradict itself. The iterator is lazy, as the first response is good in most cases.
pub(super) fn generate_responses<'t>(
    task: &'t Task,
    outputs: &'t [OutputMapping],
) -> Box<dyn Iterator<Item = RawResponse> + 't> {
    match task {
        Task::OpenApi(task) => operation_responses(task, outputs),
        Task::Graphql(task) => {
            let sample = task.sample(outputs.iter().filter_map(OutputMapping::query));
            let of = |value: &Value| response(200, HeaderMap::new(), &json_media_type(), value);
            Box::new(sample.into_iter().filter_map(move |value| of(&value)))
        }
        Task::Mcp(task) => {
            let samples = task.outputs().samples(&task.output_schema);
            let samples = samples.take_while(|_| !task.output_schema.is_null());
            let of = |value: &Value| {
                response(200, HeaderMap::new(), &json_media_type(), &tool_result(value))
            };
            Box::new(samples.filter_map(move |value| of(&value)))
        }
    }
}

fn operation_responses<'t>(
    task: &'t OpenApiTask,
    outputs: &'t [OutputMapping],
) -> Box<dyn Iterator<Item = RawResponse> + 't> {
    let (status, declared) = success_response(task);
    let headers = declared_headers(task, declared, outputs);
    let content = declared.get("content").and_then(Value::as_object);
    let Some((media_type, media)) = content.and_then(|content| preferred_media_type(content))
    else {
        let bodiless = RawResponse { status, headers, body: Vec::new().into(), redirects: 0 };
        return Box::new(std::iter::once(bodiless));
    };
    let schema = media.get("schema").unwrap_or(&Value::Null);
    let shown = declared_examples(task, media);
    let values = shown.into_iter().chain(SchemaResolver::from(task).samples(schema));
    Box::new(values.filter_map(move |value| response(status, headers.clone(), &media_type, &value)))
}

fn response(
    status: u16,
    headers: HeaderMap,
    media_type: &MediaType,
    value: &Value,
) -> Option<RawResponse> {
    let body = to_bytes(media_type, value).ok()?.into();
    let mut response = RawResponse { status, headers, body, redirects: 0 };
    set_content_type(&mut response, media_type);
    Some(response)
}

/// The first declared success, or else the declaration for every status.
fn success_response(task: &OpenApiTask) -> (u16, &Value) {
    let named = task.responses.iter().filter_map(|(status, response)| {
        let status = status.parse::<u16>().ok().filter(|status| (200..300).contains(status));
        Some((status?, response))
    });
    let named = named.min_by_key(|(status, _)| *status);
    let other = |name: &str| {
        let found = task.responses.iter().find(|(status, _)| status.eq_ignore_ascii_case(name));
        found.map(|(_, response)| (200, response))
    };
    named.or_else(|| other("2XX")).or_else(|| other("default")).unwrap_or((200, &Value::Null))
}

/// The media type of a response, JSON if possible, and its declaration.
fn preferred_media_type(content: &serde_json::Map<String, Value>) -> Option<(MediaType, &Value)> {
    let json = json_media_type();
    let types = || {
        let types = content.iter();
        types.filter_map(|(text, media)| Some((MediaType::parse(text)?, media)))
    };
    let declared = types().find(|(one, _)| one.is_json());
    let ranged =
        || types().find(|(one, _)| one.covers(&json)).map(|(_, media)| (json.clone(), media));
    declared.or_else(ranged).or_else(|| types().find(|(one, _)| !one.is_range()))
}

/// Returns the examples of a description.
fn declared_examples(task: &OpenApiTask, media: &Value) -> Vec<Value> {
    let several = media.get("examples").and_then(Value::as_object).into_iter().flatten();
    let several = several.filter_map(|(_, example)| {
        let target = example.get("$ref").and_then(Value::as_str);
        let example = target.and_then(|target| task.schema_at(target)).unwrap_or(example);
        example.get("value")
    });
    media.get("example").into_iter().chain(several).take(MAX_SHOWN).cloned().collect()
}

/// Returns the headers that outputs are taken from, if the operation declares them.
fn declared_headers(task: &OpenApiTask, declared: &Value, outputs: &[OutputMapping]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let known = declared.get("headers").and_then(Value::as_object);
    for output in outputs.iter().take(MAX_HEADERS) {
        let OutputSource::Header(name) = &output.source else { continue };
        let mut named = known.into_iter().flatten();
        let Some((_, header)) = named.find(|(known, _)| known.eq_ignore_ascii_case(name)) else {
            continue;
        };
        let target = header.get("$ref").and_then(Value::as_str);
        let header = target.and_then(|target| task.schema_at(target)).unwrap_or(header);
        let value = declared_examples(task, header).into_iter().next();
        let value = value.unwrap_or_else(|| {
            let schema = header.get("schema").unwrap_or(&Value::Null);
            SchemaResolver::from(task).samples(schema).next().unwrap_or_default()
        });
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(&text))
            && name != CONTENT_TYPE
        {
            headers.insert(name, value);
        }
    }
    headers
}

#[cfg(test)]
mod tests;
