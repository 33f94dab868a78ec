//! The shared parts of the description of the HTTP API: the answers to requests
//! that are refused, and unions in the form that generators of clients read.

use std::collections::{BTreeMap, BTreeSet};

use a2s::pascal_case;
use serde_json::Value;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{
    AdditionalProperties, Discriminator, Object, OneOf, SchemaType, Type,
};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Schema, Server};

use super::PROBLEM_JSON;

/// The statuses of error responses, each with the name of its component and its description.
const ERROR_RESPONSES: [(u16, &str, &str); 16] = [
    (400, "BadRequest", "A parameter, a header or the body is malformed"),
    (401, "Unauthorized", "The request has no token, or the token is unknown"),
    (
        403,
        "Forbidden",
        "The token or the guardian does not allow the request, or `Host` or `Origin` names another site",
    ),
    (404, "NotFound", "The resource does not exist, or it belongs to another principal"),
    (406, "NotAcceptable", "None of the media types of `Accept` is available"),
    (408, "RequestTimeout", "The body did not arrive in time"),
    (409, "Conflict", "The request conflicts with the current state"),
    (410, "Gone", "The resource has expired"),
    (413, "ContentTooLarge", "The body is larger than the limit"),
    (415, "UnsupportedMediaType", "The media type of the body is not supported"),
    (
        422,
        "UnprocessableContent",
        "The request is well-formed, but the service cannot carry it out",
    ),
    (429, "TooManyRequests", "The caller has reached its limit of concurrent work"),
    (500, "InternalServerError", "The service failed; its log contains the cause"),
    (502, "BadGateway", "An upstream service failed or is not reachable"),
    (503, "ServiceUnavailable", "The service, or an upstream service, is not available now"),
    (504, "GatewayTimeout", "An upstream service did not respond in time"),
];

/// Statuses whose responses state when to try again.
const WITH_RETRY_AFTER: [u16; 2] = [429, 503];

/// Adds to each operation the responses to rejected requests.
///
/// These are the responses that the form of the operation implies. Responses that the operation itself
/// names get problem details (RFC 9457) as content; one without a description also gets the description of
/// its status. A second call changes nothing.
pub fn add_error_responses(openapi: &mut OpenApi) {
    let components = openapi.components.get_or_insert_default();
    for (status, name, description) in ERROR_RESPONSES {
        let response = error_response(status, description);
        components.responses.insert(name.to_owned(), response.into());
    }
    operations_mut(openapi).for_each(|operation| {
        operation.parameters.iter_mut().flatten().for_each(forbid_null);
        add_missing_responses(operation);
    });
}

/// Removes null from the types of a parameter: an omitted parameter has no value, and a text cannot be
/// null.
fn forbid_null(parameter: &mut RefOr<Parameter>) {
    let RefOr::T(Parameter { schema: Some(schema), .. }) = parameter else { return };
    match schema {
        RefOr::T(Schema::Object(object)) => {
            if let SchemaType::Array(types) = &object.schema_type
                && let [one, Type::Null] | [Type::Null, one] = types.as_slice()
            {
                object.schema_type = SchemaType::Type(one.clone());
            }
        }
        RefOr::T(Schema::OneOf(one)) => {
            let null = SchemaType::Type(Type::Null);
            let is_null = |item: &RefOr<Schema>| match item {
                RefOr::T(Schema::Object(object)) => object.schema_type == null,
                _ => false,
            };
            one.items.retain(|item| !is_null(item));
            if let [only] = one.items.as_slice() {
                *schema = only.clone();
            }
        }
        _ => {}
    }
}

/// Adds the defaults of every service: it listens at the root of its address, and an operation without stated
/// security needs no token.
///
/// Call it after [`add_error_responses`], which reads the stated security.
pub fn add_defaults(openapi: &mut OpenApi) {
    openapi.servers = Some(vec![Server::new("/")]);
    operations_mut(openapi).for_each(|operation| {
        operation.security.get_or_insert_default();
    });
}

/// Returns the operations of a description.
pub fn operations_mut(openapi: &mut OpenApi) -> impl Iterator<Item = &mut Operation> {
    let items = openapi.paths.paths.values_mut();
    items.flat_map(|item| {
        [&mut item.get, &mut item.put, &mut item.post, &mut item.delete].into_iter().flatten()
    })
}

fn error_response(status: u16, description: &str) -> Response {
    let problem = Ref::from_schema_name("Problem");
    let content = ContentBuilder::new().schema(Some(problem)).build();
    let mut response =
        ResponseBuilder::new().description(description).content(PROBLEM_JSON, content);
    if WITH_RETRY_AFTER.contains(&status) {
        let header =
            HeaderBuilder::new().description(Some("Seconds to wait before the next attempt"));
        response = response.header("Retry-After", header.build());
    }
    if status == 401 {
        response = response.header("WWW-Authenticate", HeaderBuilder::new().build());
    }
    response.build()
}

fn add_missing_responses(operation: &mut Operation) {
    let parameters = operation.parameters.as_deref().unwrap_or_default();
    let has_path = parameters.iter().any(|parameter| {
        matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Path)
    });
    let has_body = operation.request_body.is_some();
    let implied = [
        (400, !parameters.is_empty() || has_body),
        (401, operation.security.is_some()),
        (403, true),
        (404, has_path),
        (408, has_body),
        (413, has_body),
        (500, true),
        (503, true),
    ];
    let responses = &mut operation.responses.responses;
    for (status, _) in implied.into_iter().filter(|(_, is_implied)| *is_implied) {
        responses.entry(status.to_string()).or_insert_with(|| Response::new("").into());
    }
    for (status, name, _) in ERROR_RESPONSES {
        let Some(response) = responses.get_mut(&status.to_string()) else { continue };
        let RefOr::T(named) = response else { continue };
        if named.description.is_empty() {
            *response = Ref::from_response_name(name).into();
        } else if named.content.is_empty() {
            *named = error_response(status, &named.description);
        }
    }
}

/// Unions in requests of clients, whose objects must not have additional members.
const CLOSED_UNIONS: [&str; 1] = ["Credential"];

/// Writes each union of objects as the list of its variants.
///
/// Each variant is a component with all of its members, and its tag identifies it. `serde` flattens tagged
/// unions into objects, which utoipa describes as `allOf` of a `oneOf`; client generators cannot read that,
/// nor unions that contain themselves. A second call changes nothing.
pub fn flatten_unions(openapi: &mut OpenApi) {
    let Some(components) = &mut openapi.components else { return };
    let known = components.schemas.clone();
    let mut parts = BTreeSet::new();
    for (name, schema) in &known {
        let RefOr::T(Schema::AllOf(_) | Schema::OneOf(_)) = schema else { continue };
        let Some(found) = variants(schema, &known, &mut parts).filter(|found| found.len() > 1)
        else {
            continue;
        };
        let Some(tag) = found.iter().find_map(find_tag).map(|(tag, _)| tag.to_owned()) else {
            if let Some(RefOr::T(Schema::OneOf(union))) = components.schemas.get_mut(name) {
                union.items.iter_mut().for_each(close_variant);
            }
            continue;
        };
        let mut discriminator = Discriminator::new(&tag);
        let mut items = Vec::new();
        for mut object in found {
            let Some((_, value)) = find_tag(&object) else { continue };
            let value = value.to_owned();
            let variant = format!("{name}{}", pascal_case(&value));
            if CLOSED_UNIONS.contains(&name.as_str()) {
                forbid_others(&mut object);
            }
            let reference = Ref::from_schema_name(&variant);
            discriminator.mapping.insert(value, reference.ref_location.clone());
            items.push(reference.into());
            components.schemas.insert(variant, Schema::Object(object).into());
        }
        let description = match schema {
            RefOr::T(Schema::AllOf(all)) => all.description.clone(),
            RefOr::T(Schema::OneOf(one)) => one.description.clone(),
            _ => None,
        };
        let discriminator = Some(discriminator);
        let union = OneOf { items, description, discriminator, ..OneOf::default() };
        components.schemas.insert(name.clone(), Schema::OneOf(union).into());
    }
    remove_unused(openapi, parts);
}

/// Forbids additional members where the name of the only member identifies the variant.
fn close_variant(variant: &mut RefOr<Schema>) {
    if let RefOr::T(Schema::Object(object)) = variant
        && object.properties.len() == 1
        && object.required.len() == 1
    {
        forbid_others(object);
    }
}

fn forbid_others(object: &mut Object) {
    object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
}

/// The property that identifies a variant, and its value in this variant.
fn find_tag(object: &Object) -> Option<(&str, &str)> {
    object.properties.iter().find_map(|(name, schema)| match schema {
        RefOr::T(Schema::Object(Object { enum_values: Some(values), .. })) => match &**values {
            [Value::String(value)] => Some((name.as_str(), value.as_str())),
            _ => None,
        },
        _ => None,
    })
}

/// Removes the schemas in `names` that nothing refers to, and then the variants of removed unions.
fn remove_unused(openapi: &mut OpenApi, mut names: BTreeSet<String>) {
    while !names.is_empty() {
        let text = serde_json::to_string(openapi).unwrap_or_default();
        names.retain(|name| !text.contains(&format!("\"{}\"", schema_location(name))));
        let Some(components) = &mut openapi.components else { return };
        let removed = names.iter().filter_map(|name| components.schemas.remove(name));
        let unions = removed.filter_map(|schema| match schema {
            RefOr::T(Schema::OneOf(union)) => Some(union),
            _ => None,
        });
        names = unions.flat_map(|union| union.items).filter_map(referenced_name).collect();
    }
}

fn schema_location(name: &str) -> String {
    Ref::from_schema_name(name).ref_location
}

fn referenced_name(schema: RefOr<Schema>) -> Option<String> {
    let RefOr::Ref(reference) = schema else { return None };
    Some(reference.ref_location.rsplit('/').next()?.to_owned())
}

/// Returns the objects that a schema allows; `None` when it also allows other values. Adds the names of the
/// schemas that it consists of to `parts`.
fn variants(
    schema: &RefOr<Schema>,
    known: &BTreeMap<String, RefOr<Schema>>,
    parts: &mut BTreeSet<String>,
) -> Option<Vec<Object>> {
    match schema {
        RefOr::Ref(reference) => {
            let name = reference.ref_location.rsplit('/').next()?;
            parts.insert(name.to_owned());
            variants(known.get(name)?, known, parts)
        }
        RefOr::T(Schema::Object(object)) if object.enum_values.is_none() => {
            Some(vec![object.clone()])
        }
        RefOr::T(Schema::OneOf(one)) => {
            let found = one.items.iter().map(|item| variants(item, known, parts));
            Some(found.collect::<Option<Vec<_>>>()?.concat())
        }
        RefOr::T(Schema::AllOf(all)) => {
            all.items.iter().try_fold(vec![Object::default()], |before, item| {
                let others = variants(item, known, parts)?;
                let pairs = before.iter().flat_map(|one| others.iter().map(move |it| (one, it)));
                Some(pairs.map(|(one, other)| merge_objects(one, other)).collect())
            })
        }
        RefOr::T(_) => None,
    }
}

/// Returns an object with the members of both objects.
fn merge_objects(one: &Object, other: &Object) -> Object {
    let mut object = other.clone();
    object.properties = one.properties.clone();
    object.properties.extend(other.properties.clone());
    object.required = [one.required.as_slice(), &other.required].concat();
    object.description = one.description.clone().or(object.description);
    object
}

/// Returns true when a description has this status for a request. The request may match no operation; the
/// result is then true as well. For the tests of services.
#[must_use]
pub fn has_status(openapi: &Value, method: &str, path: &str, status: u16) -> bool {
    let fits = |template: &str| {
        let (template, path) = (template.split('/'), path.split('/'));
        template.clone().count() == path.clone().count()
            && template.zip(path).all(|(wanted, given)| wanted.starts_with('{') || wanted == given)
    };
    // Of `/a/b` and `/a/{name}` the first is meant.
    let paths = openapi["paths"].as_object().into_iter().flatten();
    let found = paths.filter(|(template, _)| fits(template));
    let found = found.min_by_key(|(template, _)| template.matches('{').count());
    let operation = found.and_then(|(_, item)| item.get(method.to_ascii_lowercase()));
    operation.is_none_or(|operation| operation["responses"].get(status.to_string()).is_some())
}
