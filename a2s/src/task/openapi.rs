//! OpenAPI tasks: a specification cut down to exactly one path and one operation.

use openapiv3 as oas;
use serde_json::{Map, Value, json};
use url::Url;

use super::{Problem, check_header_name, decode_url};
use crate::code;
use crate::decode::{Findings, Site, Taken, short};
use crate::document::Place;
use crate::tree::{Kind, item_path, member_path};

/// The most parameters of an operation.
const MAX_PARAMETERS: usize = 200;
/// How many `$ref`s may lead to one another.
const MAX_REFS: usize = 8;

/// One operation of an HTTP API.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenApiTask {
    /// The server, its variables replaced by their defaults; the path is appended to it.
    pub server: Url,
    /// The method.
    pub method: Method,
    /// The path template: `/current/{city}`.
    pub path: String,
    /// `operationId`, when given.
    pub operation_id: Option<String>,
    /// `summary` or `description`, for a person.
    pub summary: Option<String>,
    /// The parameters of path item and operation together, references resolved.
    pub parameters: Vec<OperationParameter>,
    /// The request body, when the operation takes one.
    pub body: Option<RequestBody>,
    /// The responses by status (`200`, `2XX`, `default`), references at the top resolved.
    pub responses: Vec<(String, Value)>,
    /// `components` of the specification as written, null when there are none: what most `$ref`s
    /// of schemas point into.
    pub components: Value,
    /// The specification as written, but for `components`: what other `$ref`s may point into.
    pub specification: Value,
}

/// An HTTP method that OpenAPI knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Method {
    Get,
    Put,
    Post,
    Delete,
    Options,
    Head,
    Patch,
    Trace,
}

/// A parameter of an operation.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationParameter {
    /// Its name on the wire.
    pub name: String,
    /// Where it goes.
    pub place: ParameterPlace,
    /// Whether a request without it is refused.
    pub required: bool,
    /// What it means.
    pub description: Option<String>,
    /// How arrays and objects are written (OpenAPI 3.0.3, "Style Values").
    pub style: Style,
    /// Whether items of arrays and members of objects become parameters of their own.
    pub explode: bool,
    /// JSON Schema of the value, as written; null when there is none.
    pub schema: Value,
}

/// Where a parameter goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterPlace {
    /// Into the path template.
    Path,
    /// Behind the `?`.
    Query,
    /// A header.
    Header,
    /// The `Cookie` header.
    Cookie,
}

/// How a value that is not a scalar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the OpenAPI specification")]
pub enum Style {
    Simple,
    Form,
    Label,
    Matrix,
    SpaceDelimited,
    PipeDelimited,
    DeepObject,
}

/// A request body.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestBody {
    /// Whether a request without it is refused.
    pub required: bool,
    /// The media type that is sent: the operation's first JSON type.
    pub media_type: String,
    /// JSON Schema of the body, as written; null when there is none.
    pub schema: Value,
}

impl Method {
    const ALL: [(&'static str, Self); 8] = [
        ("get", Self::Get),
        ("put", Self::Put),
        ("post", Self::Post),
        ("delete", Self::Delete),
        ("options", Self::Options),
        ("head", Self::Head),
        ("patch", Self::Patch),
        ("trace", Self::Trace),
    ];

    /// `GET`, `POST`, …
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
            Self::Head => "HEAD",
            Self::Patch => "PATCH",
            Self::Trace => "TRACE",
        }
    }

    /// Whether it only reads (RFC 9110, section 9.2.1).
    #[must_use]
    pub fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options | Self::Trace)
    }

    /// Whether doing it twice is doing it once (RFC 9110, section 9.2.2).
    #[must_use]
    pub fn is_idempotent(self) -> bool {
        self.is_safe() || matches!(self, Self::Put | Self::Delete)
    }
}

impl ParameterPlace {
    /// The place whose inputs stand below `key` in a mapping: `pathParameters`, ….
    pub(crate) fn of_group(key: &str) -> Option<Self> {
        match key {
            "pathParameters" => Some(Self::Path),
            "queryParameters" => Some(Self::Query),
            "headerParameters" => Some(Self::Header),
            "cookieParameters" => Some(Self::Cookie),
            _ => None,
        }
    }

    /// Whether an input belongs to this place.
    pub(crate) fn holds(self, place: &Place) -> bool {
        matches!(
            (self, place),
            (Self::Path, Place::Path(_))
                | (Self::Query, Place::Query(_))
                | (Self::Header, Place::Header(_))
                | (Self::Cookie, Place::Cookie(_))
        )
    }
}

impl OperationParameter {
    /// The place of its value in a request.
    #[must_use]
    pub fn input_place(&self) -> Place {
        let name = self.name.clone();
        match self.place {
            ParameterPlace::Path => Place::Path(name),
            ParameterPlace::Query => Place::Query(name),
            ParameterPlace::Header => Place::Header(name),
            ParameterPlace::Cookie => Place::Cookie(name),
        }
    }
}

impl OpenApiTask {
    /// What a `$ref` such as `#/components/schemas/Pet` points to, exactly as written: it may hold
    /// further `$ref`s, or be one. Only pointers into the task itself lead anywhere.
    #[must_use]
    pub fn schema_at(&self, reference: &str) -> Option<&Value> {
        let pointer = reference.strip_prefix('#')?;
        match pointer.strip_prefix("/components") {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => self.components.pointer(rest),
            Some(_) | None => self.specification.pointer(pointer),
        }
    }

    /// Status, media type and schema of each answer that means success, as written: those of `2…`
    /// statuses, or of `default` when there are none. Media types without a schema are left out.
    #[must_use]
    pub fn success_schemas(&self) -> Vec<(&str, &str, &Value)> {
        let has_success = self.responses.iter().any(|(status, _)| status.starts_with('2'));
        let wanted = |status: &str| match status {
            "default" => !has_success,
            _ => status.starts_with('2'),
        };
        let mut schemas = Vec::new();
        for (status, response) in self.responses.iter().filter(|(status, _)| wanted(status)) {
            let content = response.get("content").and_then(Value::as_object);
            for (media_type, media) in content.into_iter().flatten() {
                if let Some(schema) = media.get("schema") {
                    schemas.push((status.as_str(), media_type.as_str(), schema));
                }
            }
        }
        schemas
    }
}

/// Reads an OpenAPI task and finds the place of its server's address; errors go to `findings`.
pub(crate) fn decode_openapi(
    field: &Taken<'_>,
    findings: &mut Findings,
) -> Option<(OpenApiTask, Site)> {
    let before = findings.diagnostics.len();
    let task = Decoder { root: field.node.to_value(), field, findings }.decode();
    task.filter(|_| !findings.diagnostics[before..].iter().any(|d| d.is_error()))
}

struct Decoder<'a, 'n> {
    root: Value,
    field: &'a Taken<'n>,
    findings: &'a mut Findings,
}

/// What to do about a specification without an essential part.
const ADD_IT: &str = "Add it, as the service's own specification has it.";

impl Decoder<'_, '_> {
    fn decode(&mut self) -> Option<(OpenApiTask, Site)> {
        self.check_header();
        let (path, path_item) = self.only_path()?;
        let (key, method, operation) = self.only_operation(&path, &path_item)?;
        let raw = |member: &str| operation.get(member).and_then(Value::as_str).map(str::to_owned);
        let levels = [vec!["paths", &path, key], vec!["paths", &path], Vec::new()];
        let server = self.decode_server(&levels, &path_item, &operation);
        let parameters = self.decode_parameters(&levels, &path_item, &operation);
        let body = self.decode_body(&levels[0], &operation);
        let responses = self.decode_responses(&levels[0], &operation);
        self.warn_of_security(&operation);
        let (server, site) = server?;
        let mut specification = std::mem::take(&mut self.root);
        let components =
            specification.as_object_mut().and_then(|root| root.shift_remove("components"));
        let task = OpenApiTask {
            server,
            method,
            operation_id: raw("operationId"),
            summary: raw("summary").or_else(|| raw("description")),
            parameters: parameters?,
            body: body?,
            responses,
            path,
            components: components.unwrap_or(Value::Null),
            specification,
        };
        Some((task, site))
    }

    fn error(&mut self, message: impl Into<String>, hint: impl Into<String>) {
        self.error_at(&[], message, hint);
    }

    fn error_at(&mut self, below: &[&str], message: impl Into<String>, hint: impl Into<String>) {
        let Site { path, position } = self.site(below);
        self.findings.error_with_hint(code::BAD_OPENAPI, &path, position, message, hint);
    }

    /// The place that keys and indexes lead to below the task, as far as there is something.
    fn site(&self, below: &[&str]) -> Site {
        let (mut path, mut node, mut position) =
            (self.field.path.clone(), self.field.node, self.field.key);
        for key in below {
            (path, node, position) = match (&node.kind, node.member(key), key.parse::<usize>()) {
                (_, Some(member), _) => (member_path(&path, key), &member.value, member.position),
                (Kind::Array(items), None, Ok(index)) if index < items.len() => {
                    (item_path(&path, index), &items[index], items[index].position)
                }
                _ => break,
            };
        }
        Site { path, position }
    }

    fn unsupported(&mut self, below: &[&str], message: impl Into<String>) {
        let Site { path, position } = self.site(below);
        self.findings.error(code::UNSUPPORTED, &path, position, message);
    }

    fn check_header(&mut self) {
        match self.root.get("openapi") {
            Some(Value::String(version)) if version.starts_with("3.0.") => {}
            Some(Value::String(version)) if version.starts_with("3.1.") => {
                let message = format!("OpenAPI {version} is not read yet; 3.0 is");
                self.unsupported(&["openapi"], message);
            }
            Some(Value::String(version)) => {
                let message = format!("OpenAPI `{}` is not read; 3.0 is", short(version));
                self.error_at(&["openapi"], message, "Write `openapi: \"3.0.3\"`.");
            }
            Some(_) => self.error_at(
                &["openapi"],
                "the version of OpenAPI is a string",
                "Write `openapi: \"3.0.3\"`.",
            ),
            None if self.root.get("swagger").is_some() => self.error_at(
                &["swagger"],
                "this is a Swagger 2 specification; OpenAPI 3.0 is read",
                "Convert it to OpenAPI 3.0 first.",
            ),
            None => self.error("the specification has no `openapi`", "Write `openapi: \"3.0.3\"`."),
        }
        match self.root.get("info") {
            None => {
                self.error("the specification has no `info`", "Add `info` with title and version.")
            }
            Some(info) => {
                if let Err(error) = serde_json::from_value::<oas::Info>(info.clone()) {
                    let hint = "Give `info` a title and a version, both as strings.";
                    self.error_at(&["info"], format!("`info` is malformed: {error}"), hint);
                }
            }
        }
    }

    fn only_path(&mut self) -> Option<(String, Value)> {
        let Some(Value::Object(paths)) = self.root.get("paths") else {
            self.error("the specification has no `paths`", ADD_IT);
            return None;
        };
        let mut paths: Vec<_> = paths.iter().filter(|(path, _)| !path.starts_with("x-")).collect();
        if paths.len() != 1 {
            let message = format!("a task has exactly one path; there are {}", paths.len());
            self.error_at(&["paths"], message, "Keep the one path that the step requests.");
            return None;
        }
        let (path, item) = paths.pop()?;
        let (path, item) = (path.clone(), item.clone());
        if !path.starts_with('/') || path.contains(['?', '#']) || path.chars().any(char::is_control)
        {
            let message = "a path begins with `/` and has no `?` and no `#`";
            let hint = "Declare what stands behind `?` as query parameters.";
            self.error_at(&["paths", &path], message, hint);
            return None;
        }
        Some((path, item))
    }

    fn only_operation(
        &mut self,
        path: &str,
        item: &Value,
    ) -> Option<(&'static str, Method, Value)> {
        let mut operations: Vec<_> = Method::ALL
            .iter()
            .filter_map(|(key, method)| Some((*key, *method, item.get(key)?.clone())))
            .collect();
        if operations.len() != 1 {
            let message = match operations.as_slice() {
                [] => "a task has exactly one operation; there is none".to_owned(),
                several => {
                    let keys: Vec<_> = several.iter().map(|(key, ..)| format!("`{key}`")).collect();
                    format!("a task has exactly one operation; there are {}", keys.join(", "))
                }
            };
            self.error_at(
                &["paths", path],
                message,
                "Keep the one operation that the step requests.",
            );
            return None;
        }
        operations.pop()
    }

    /// The first server of the operation, else of the path, else of the specification.
    fn decode_server(
        &mut self,
        levels: &[Vec<&str>; 3],
        item: &Value,
        operation: &Value,
    ) -> Option<(Url, Site)> {
        let named =
            [operation, item, &self.root].into_iter().zip(levels).find_map(|(raw, level)| {
                let server = raw.get("servers").and_then(|servers| servers.get(0))?;
                Some((server.clone(), [level.as_slice(), &["servers", "0"]].concat()))
            });
        let Some((server, mut below)) = named else {
            self.error(
                "the specification names no server",
                "Add `servers` with the address of the service.",
            );
            return None;
        };
        let server = match serde_json::from_value::<oas::Server>(server) {
            Ok(server) => server,
            Err(error) => {
                let message = format!("the server is malformed: {error}");
                self.error_at(&below, message, "Write `- url: \"https://…\"`.");
                return None;
            }
        };
        let mut url = server.url.clone();
        for (name, variable) in server.variables.iter().flatten() {
            url = url.replace(&format!("{{{name}}}"), &variable.default);
        }
        below.push("url");
        match decode_url(&url) {
            Ok(url) => Some((url, self.site(&below))),
            Err((message, hint)) => {
                self.error_at(&below, message, hint);
                None
            }
        }
    }

    /// What `value` is, or what its `$ref` points to inside the task.
    fn resolve(&self, value: &Value) -> Result<Value, Problem> {
        let mut value = value;
        for _ in 0..MAX_REFS {
            let Some(reference) = value.get("$ref") else { return Ok(value.clone()) };
            let pointer = reference.as_str().and_then(|text| text.strip_prefix('#'));
            value = pointer.and_then(|pointer| self.root.pointer(pointer)).ok_or_else(|| {
                let target = reference.as_str().unwrap_or("that is no string");
                let message = format!("`$ref: {}` leads nowhere inside the task", short(target));
                (message, "Add what it points to, or write it out here.".to_owned())
            })?;
        }
        let message = format!("more than {MAX_REFS} `$ref`s lead to one another");
        Err((message, "Write it out here.".to_owned()))
    }

    fn decode_parameters(
        &mut self,
        levels: &[Vec<&str>; 3],
        item: &Value,
        operation: &Value,
    ) -> Option<Vec<OperationParameter>> {
        let mut parameters: Vec<OperationParameter> = Vec::new();
        let mut whole = true;
        // The operation's parameters override those of the path item (OpenAPI 3.0.3, 4.7.9.1).
        for (raw, level) in [operation, item].into_iter().zip(levels) {
            let raw =
                raw.get("parameters").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            if raw.len() > MAX_PARAMETERS {
                let message = format!(
                    "the operation has {} parameters; {MAX_PARAMETERS} is the most",
                    raw.len()
                );
                self.error_at(level, message, "Keep those that the step uses.");
                return None;
            }
            for (index, value) in raw.iter().enumerate() {
                match self.resolve(value).and_then(|value| decode_parameter(&value)) {
                    Ok(parameter) => {
                        let known = parameters.iter().any(|known| {
                            known.name == parameter.name && known.place == parameter.place
                        });
                        if !known {
                            parameters.push(parameter);
                        }
                    }
                    Err((message, hint)) => {
                        let index = index.to_string();
                        let below = [level.as_slice(), &["parameters", &index]].concat();
                        self.error_at(&below, message, hint);
                        whole = false;
                    }
                }
            }
        }
        if whole {
            self.check_path_template(&levels[1], &parameters);
        }
        whole.then_some(parameters)
    }

    /// Every `{name}` of the path has a parameter, and every path parameter a `{name}`.
    fn check_path_template(&mut self, below: &[&str], parameters: &[OperationParameter]) {
        let path = below.last().copied().unwrap_or_default();
        let mut named = Vec::new();
        for part in path.split('{').skip(1) {
            match part.split_once('}') {
                Some((name, _)) => named.push(name),
                None => self.error_at(below, "the path has `{` without `}`", "Close the brace."),
            }
        }
        let declared: Vec<_> = parameters
            .iter()
            .filter(|parameter| parameter.place == ParameterPlace::Path)
            .map(|parameter| parameter.name.as_str())
            .collect();
        for name in &named {
            if !declared.contains(name) {
                let message = format!("`{{{}}}` has no path parameter", short(name));
                let hint = "Declare it under `parameters` with `in: path` and `required: true`.";
                self.error_at(below, message, hint);
            }
        }
        for name in declared {
            if !named.contains(&name) {
                let message =
                    format!("the path parameter `{}` has no place in the path", short(name));
                let hint = format!("Write `{{{}}}` into the path, or remove it.", short(name));
                self.error_at(below, message, hint);
            }
        }
    }

    /// The JSON body; the outer `None` means that an error was reported.
    #[expect(clippy::option_option, reason = "no body and a bad body are different things")]
    fn decode_body(&mut self, level: &[&str], operation: &Value) -> Option<Option<RequestBody>> {
        let Some(body) = operation.get("requestBody") else { return Some(None) };
        let below = [level, &["requestBody"]].concat();
        let body = match self.resolve(body) {
            Ok(body) => body,
            Err((message, hint)) => {
                self.error_at(&below, message, hint);
                return None;
            }
        };
        let typed = without_schemas(&body);
        let typed = match serde_json::from_value::<oas::RequestBody>(typed) {
            Ok(typed) => typed,
            Err(error) => {
                let message = format!("the request body is malformed: {error}");
                self.error_at(
                    &below,
                    message,
                    "Write `content` with a media type and its `schema`.",
                );
                return None;
            }
        };
        let is_json = |media: &&String| {
            let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            media == "application/json" || media.ends_with("+json")
        };
        let Some(media_type) = typed.content.keys().find(is_json) else {
            let types: Vec<_> = typed.content.keys().map(|media| short(media)).collect();
            let message =
                format!("only JSON bodies are sent yet; this operation takes {}", types.join(", "));
            self.unsupported(&below, message);
            return None;
        };
        let schema = body["content"][media_type.as_str()].get("schema").cloned();
        Some(Some(RequestBody {
            required: typed.required,
            media_type: media_type.clone(),
            schema: schema.unwrap_or(Value::Null),
        }))
    }

    fn decode_responses(&mut self, level: &[&str], operation: &Value) -> Vec<(String, Value)> {
        let responses = operation.get("responses").and_then(Value::as_object);
        let Some(responses) = responses.filter(|responses| !responses.is_empty()) else {
            self.error_at(level, "the operation has no `responses`", ADD_IT);
            return Vec::new();
        };
        let mut resolved = Vec::new();
        for (status, response) in responses.iter().filter(|(status, _)| !status.starts_with("x-")) {
            let well_formed = status == "default"
                || (status.len() == 3
                    && status.starts_with(|c: char| ('1'..='5').contains(&c))
                    && (status.ends_with("XX") || status.bytes().all(|b| b.is_ascii_digit())));
            let below = [level, &["responses", status]].concat();
            if !well_formed {
                let message = format!("`{}` is no response status", short(status));
                let hint = "Write a status such as \"200\", a range such as \"2XX\", or `default`.";
                self.error_at(&below, message, hint);
                continue;
            }
            match self.resolve(response) {
                Ok(response) => resolved.push((status.clone(), response)),
                Err((message, hint)) => self.error_at(&below, message, hint),
            }
        }
        resolved
    }

    fn warn_of_security(&mut self, operation: &Value) {
        let security = operation.get("security").or_else(|| self.root.get("security"));
        let requirements = security.and_then(Value::as_array);
        let needed = requirements.is_some_and(|requirements| {
            !requirements.is_empty()
                && requirements.iter().all(|one| one.as_object().is_some_and(|one| !one.is_empty()))
        });
        if needed {
            self.findings.warning(
                code::UNSUPPORTED,
                &self.field.path,
                self.field.key,
                "the operation wants credentials, and none are sent yet",
            );
        }
    }
}

fn decode_parameter(raw: &Value) -> Result<OperationParameter, Problem> {
    let name = short(raw.get("name").and_then(Value::as_str).unwrap_or_default());
    let place = match raw.get("in").and_then(Value::as_str) {
        Some("path") => ParameterPlace::Path,
        Some("query") => ParameterPlace::Query,
        Some("header") => ParameterPlace::Header,
        Some("cookie") => ParameterPlace::Cookie,
        _ => {
            let hint = "Write `in: path`, `in: query`, `in: header` or `in: cookie`.";
            return Err((format!("the parameter `{name}` has no `in`"), hint.to_owned()));
        }
    };
    if raw.get("content").is_some() {
        let message = format!("the parameter `{name}` has `content`, which is not sent yet");
        return Err((message, "Describe it with `schema`.".to_owned()));
    }
    if raw.get("schema").is_none() {
        let message = format!("the parameter `{name}` has no `schema`");
        return Err((message, "Add `schema` with the type, such as `type: string`.".to_owned()));
    }
    let typed: oas::Parameter = serde_json::from_value(without_schemas(raw)).map_err(|error| {
        (
            format!("the parameter `{name}` is malformed: {error}"),
            code::BAD_OPENAPI.remedy.to_owned(),
        )
    })?;
    let (style, data) = match &typed {
        oas::Parameter::Path { style, parameter_data } => (
            match style {
                oas::PathStyle::Simple => Style::Simple,
                oas::PathStyle::Label => Style::Label,
                oas::PathStyle::Matrix => Style::Matrix,
            },
            parameter_data,
        ),
        oas::Parameter::Query { style, parameter_data, .. } => (
            match style {
                oas::QueryStyle::Form => Style::Form,
                oas::QueryStyle::SpaceDelimited => Style::SpaceDelimited,
                oas::QueryStyle::PipeDelimited => Style::PipeDelimited,
                oas::QueryStyle::DeepObject => Style::DeepObject,
            },
            parameter_data,
        ),
        oas::Parameter::Header { parameter_data, .. } => (Style::Simple, parameter_data),
        oas::Parameter::Cookie { parameter_data, .. } => (Style::Form, parameter_data),
    };
    if data.name.is_empty() || data.name.chars().any(char::is_control) {
        return Err(("a parameter has no name".to_owned(), "Add `name`.".to_owned()));
    }
    if place == ParameterPlace::Header {
        check_header_name(&data.name)?;
    }
    if place == ParameterPlace::Path && !data.required {
        let message = format!("the path parameter `{name}` is not marked as required");
        return Err((message, "Add `required: true`; a path cannot do without it.".to_owned()));
    }
    Ok(OperationParameter {
        name: data.name.clone(),
        place,
        required: data.required,
        description: data.description.clone(),
        style,
        // OpenAPI 3.0.3, 4.7.12.2: the default is true for `form` and false for all others.
        explode: data.explode.unwrap_or(style == Style::Form),
        schema: raw.get("schema").cloned().unwrap_or(Value::Null),
    })
}

/// The value with every `schema` of a parameter or media type emptied: schemas stay raw, and what
/// is wrong inside one is no reason to refuse the operation.
fn without_schemas(raw: &Value) -> Value {
    let Value::Object(members) = raw else { return raw.clone() };
    let mut members: Map<String, Value> = members.clone();
    members.shift_remove("example");
    members.shift_remove("examples");
    if members.contains_key("schema") {
        members.insert("schema".to_owned(), json!({}));
    }
    if let Some(Value::Object(content)) = members.get_mut("content") {
        for media in content.values_mut() {
            *media = json!({});
        }
    }
    Value::Object(members)
}
