//! Requests and answers of an operation of an HTTP API.

use std::collections::{BTreeMap, BTreeSet};

use a2s::{
    BodyFormat, ExampleResponse, InputLocation, MediaType, OpenApiTask, OperationParameter,
    ParameterLocation, ParameterStyle, RequestBody,
};
use axum::response::Response;
use serde_json::{Map, Value};

use super::schema::Schemas;
use super::{Misfit, Request, Values, respond};

/// What is sent once or more under one name, as written.
type Pairs = Vec<(String, String)>;

/// Holds a request to the specification.
pub(super) fn check(task: &OpenApiTask, request: &Request) -> Result<Values, Misfit> {
    if !request.host.covers(&task.server) || task.method.as_str() != request.method.as_str() {
        return Err(Misfit::Elsewhere);
    }
    let segments = match_path(task, &request.path).ok_or(Misfit::Elsewhere)?;
    let pairs = split_query(&request.query);
    let wrong = Misfit::Wrong;
    let mut values = Values::new();
    for parameter in &task.parameters {
        let sent: Vec<&str> = match parameter.location {
            ParameterLocation::Path => {
                segments.get(&parameter.name).map(String::as_str).into_iter().collect()
            }
            ParameterLocation::Query => {
                let named = pairs.iter().filter(|(name, _)| *name == parameter.name);
                named.map(|(_, value)| value.as_str()).collect()
            }
            ParameterLocation::Header => {
                let named = request.headers.get_all(&parameter.name);
                named.iter().filter_map(|value| value.to_str().ok()).collect()
            }
            ParameterLocation::Cookie => {
                return Err(wrong("the stand-in reads no cookies".to_owned()));
            }
        };
        let value = read_parameter(task, parameter, &sent).map_err(wrong)?;
        match value {
            Some(value) => {
                values.insert(parameter.input_location(), value);
            }
            None if parameter.required => {
                return Err(wrong(format!("`{}` is missing", parameter.name)));
            }
            None => {}
        }
    }
    let known: BTreeSet<&str> = task
        .parameters
        .iter()
        .filter(|parameter| parameter.location == ParameterLocation::Query)
        .map(|parameter| parameter.name.as_str())
        .collect();
    if let Some((name, _)) = pairs.iter().find(|(name, _)| !known.contains(name.as_str())) {
        return Err(wrong(format!("there is no query parameter `{name}`")));
    }
    if !task.security.is_empty() && task.security.iter().all(|schemes| !schemes.is_empty()) {
        return Err(wrong("the service wants credentials".to_owned()));
    }
    match (&task.body, request.body.is_empty()) {
        (Some(body), false) => {
            values.insert(InputLocation::Body, read_body(task, body, request)?);
        }
        (Some(body), true) if body.required => {
            return Err(wrong("the body is missing".to_owned()));
        }
        (None, false) => return Err(wrong("the operation does not accept a body".to_owned())),
        (Some(_) | None, true) => {}
    }
    Ok(values)
}

/// The values in the path, still encoded.
fn match_path(task: &OpenApiTask, path: &str) -> Option<BTreeMap<String, String>> {
    let template = format!("{}{}", task.server.path().trim_end_matches('/'), task.path);
    let mut pattern = "^".to_owned();
    let mut names = Vec::new();
    let mut rest = template.as_str();
    while let Some((literal, expression)) = rest.split_once('{') {
        let (name, behind) = expression.split_once('}')?;
        pattern.push_str(&regex::escape(literal));
        pattern.push_str("([^/]+)");
        names.push(name.to_owned());
        rest = behind;
    }
    pattern.push_str(&regex::escape(rest));
    pattern.push('$');
    let found = regex::Regex::new(&pattern).ok()?.captures(path)?;
    let values = found.iter().skip(1).map(|value| value.map_or("", |value| value.as_str()));
    Some(names.into_iter().zip(values.map(str::to_owned)).collect())
}

/// The pairs of a query or a form; values still encoded, as a comma may separate items.
fn split_query(query: &str) -> Pairs {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), value.to_owned())
        })
        .collect()
}

/// Decodes what stands between the separators of a query or a form.
fn decode(text: &str) -> String {
    let pair = format!("={text}");
    let mut pairs = url::form_urlencoded::parse(pair.as_bytes());
    pairs.next().map_or_else(String::new, |(_, value)| value.into_owned())
}

fn read_parameter(
    task: &OpenApiTask,
    parameter: &OperationParameter,
    sent: &[&str],
) -> Result<Option<Value>, String> {
    let schemas = Schemas(task);
    let name = &parameter.name;
    if sent.is_empty() {
        return Ok(None);
    }
    let decode_here = |text: &str| match parameter.location {
        // In a path, these are themselves.
        ParameterLocation::Path => decode(&text.replace('+', "%2B").replace('&', "%26")),
        ParameterLocation::Query => decode(text),
        ParameterLocation::Header | ParameterLocation::Cookie => text.to_owned(),
    };
    let types = schemas.types(&parameter.schema);
    let value = if parameter.content.as_ref().is_some_and(MediaType::is_json) {
        let text = decode_here(sent[0]);
        serde_json::from_str(&text).map_err(|error| format!("`{name}` is not JSON: {error}"))?
    } else if types.contains(&"array") {
        let items: Vec<&str> = match (parameter.style.style, parameter.style.explode) {
            (ParameterStyle::Form, true) => sent.to_vec(),
            (ParameterStyle::Form | ParameterStyle::Simple, _) if sent.len() == 1 => {
                sent[0].split(',').collect()
            }
            (style, _) => return Err(format!("`{name}`: no list is read as {}", style.as_str())),
        };
        let any = Value::Null;
        let schema = schemas.resolve(&parameter.schema).get("items").unwrap_or(&any);
        items.into_iter().map(|item| schemas.read(schema, &decode_here(item))).collect()
    } else if types.contains(&"object") {
        return Err(format!("`{name}`: objects are not read"));
    } else if let [text] = sent {
        schemas.read(&parameter.schema, &decode_here(text))
    } else {
        return Err(format!("`{name}` is given {} times", sent.len()));
    };
    match schemas.refuse(&parameter.schema, &value) {
        Some(reason) => Err(format!("`{name}`: {reason}")),
        None => Ok(Some(value)),
    }
}

fn read_body(
    task: &OpenApiTask,
    declared: &RequestBody,
    request: &Request,
) -> Result<Value, Misfit> {
    let sent = request.media_type();
    if sent != declared.media_type.essence() {
        let wanted = declared.media_type.essence();
        return Err(Misfit::Wrong(format!("the body is {sent:?}, not {wanted:?}")));
    }
    let value = match declared.format {
        BodyFormat::Json => request.json()?,
        BodyFormat::Form => read_form(task, declared, request).map_err(Misfit::Wrong)?,
        BodyFormat::Text | BodyFormat::Other => {
            Value::String(String::from_utf8_lossy(&request.body).into_owned())
        }
        BodyFormat::Multipart => {
            return Err(Misfit::Wrong("the stand-in reads no multipart bodies".to_owned()));
        }
    };
    match Schemas(task).refuse(&declared.schema, &value) {
        Some(reason) => Err(Misfit::Wrong(format!("body: {reason}"))),
        None => Ok(value),
    }
}

fn read_form(
    task: &OpenApiTask,
    declared: &RequestBody,
    request: &Request,
) -> Result<Value, String> {
    let schemas = Schemas(task);
    let schema = schemas.resolve(&declared.schema);
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut fields = Map::new();
    for (name, text) in split_query(&String::from_utf8_lossy(&request.body)) {
        let property = properties.and_then(|properties| properties.get(&name));
        let property = property.ok_or_else(|| format!("the form has no field `{name}`"))?;
        let value = schemas.read(property, &decode(&text));
        if fields.insert(name.clone(), value).is_some() {
            return Err(format!("the field `{name}` is given twice"));
        }
    }
    Ok(Value::Object(fields))
}

/// The answer of an example, or the one that the specification shows, or a made-up one.
///
/// # Errors
/// When it does not fit the specification itself.
pub(super) fn answer(
    task: &OpenApiTask,
    answer: Option<&ExampleResponse>,
) -> Result<Response, String> {
    let schemas = Schemas(task);
    let nothing = BTreeMap::new();
    let (status, headers) = match answer {
        Some(answer) => (answer.status, &answer.headers),
        None => (success(task), &nothing),
    };
    let media = media_of(task, status)?;
    let (media_type, media) = match media {
        Some((media_type, media)) => (media_type, Some(media)),
        None => ("application/json", None),
    };
    let schema = media.and_then(|media| media.get("schema"));
    let body = match (answer, media) {
        (Some(answer), _) => Some(answer.body.clone()).filter(|body| !body.is_null()),
        (None, None) => None,
        (None, Some(media)) => {
            let first =
                || media.get("examples").and_then(Value::as_object)?.values().next()?.get("value");
            let shown = media.get("example").or_else(first).cloned();
            // The first one that fits; when none does, the check below says why.
            let made_up = |schema| {
                let fits = |value: &Value| schemas.refuse(schema, value).is_none();
                let samples = || a2s::SchemaResolver::from(task).samples(schema);
                samples().find(fits).or_else(|| samples().next())
            };
            shown.or_else(|| schema.and_then(made_up))
        }
    };
    if let (Some(schema), Some(body)) = (schema, &body)
        && let Some(reason) = schemas.refuse(schema, body)
    {
        return Err(format!("its own answer does not fit: {reason}"));
    }
    Ok(respond(status, headers, media_type, body.as_ref()))
}

/// The status of success that the specification names.
fn success(task: &OpenApiTask) -> u16 {
    let mut statuses = task.responses.iter().map(|(status, _)| status.as_str());
    statuses
        .find_map(|status| status.parse().ok().filter(|n| (200..300).contains(n)))
        .unwrap_or(200)
}

/// The media type that an answer of this status has, and what is said of it: JSON if possible.
fn media_of(task: &OpenApiTask, status: u16) -> Result<Option<(&str, &Value)>, String> {
    let class = format!("{}XX", status / 100);
    let names = [status.to_string(), class, "default".to_owned()];
    let response = names.iter().find_map(|name| {
        let found = task.responses.iter().find(|(known, _)| known == name);
        found.map(|(_, response)| response)
    });
    let Some(response) = response else {
        return Err(format!("the specification knows no status {status}"));
    };
    let content = response.get("content").and_then(Value::as_object);
    let types: Vec<_> = content.into_iter().flatten().collect();
    let is_json = |text: &str| MediaType::parse(text).is_some_and(|media| media.is_json());
    let best = types.iter().find(|(text, _)| is_json(text)).or_else(|| types.first());
    Ok(best.map(|(text, media)| (text.as_str(), *media)))
}
