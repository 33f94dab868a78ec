//! An operation cut out of its description: the task of a step.

use a2s::ValueType;
use serde_json::{Map, Value, json};
use url::Url;

use super::body::OperationBody;
use super::omission::omit_parameters;
use super::operation::SpecOperation;
use super::parameter::{ParameterIn, TaskParameter};
use super::response::OperationResponse;
use super::server::TaskServer;
use crate::import::ImportWarning;
use crate::import::ref_resolver::{RefResolver, UnresolvedRef, quote_for_message};
use crate::import::schema::{SchemaDetail, SchemaImporter};
use crate::{naming, sanitize};

/// The reason why an operation cannot be extracted.
#[derive(Debug, Clone)]
pub(in crate::import) struct ExtractError {
    pub(in crate::import) location: String,
    pub(in crate::import) reason: String,
    pub(in crate::import) hint: Option<String>,
}

impl ExtractError {
    pub(in crate::import) fn new(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { location: place.into(), reason: reason.into(), hint: None }
    }

    /// Creates the error for an unresolved `$ref` without which the request cannot be sent.
    pub(super) fn unresolved(place: &str, error: &UnresolvedRef) -> Self {
        Self::new(place, error.to_string()).with_hint(error.hint())
    }

    pub(super) fn with_hint(self, hint: &str) -> Self {
        Self { hint: Some(hint.to_owned()), ..self }
    }
}

/// The options of the extraction of an operation.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::import) struct ExtractOptions<'o> {
    /// The address of the service, in place of the one in the description.
    pub(in crate::import) server: Option<&'o Url>,
    /// The base of relative addresses.
    pub(in crate::import) base: Option<&'o Url>,
    /// The preferred media type of the body.
    pub(in crate::import) media_type: Option<&'o str>,
    /// The names of the optional parameters to leave out.
    pub(in crate::import) without: &'o [String],
}

/// An operation with exactly the parts that it needs.
#[derive(Debug)]
pub(in crate::import) struct ExtractedOperation<'a> {
    operation: SpecOperation<'a>,
    /// The path without its query (`?`) and fragment (`#`).
    path: String,
    server: TaskServer,
    /// The other hosts from which the executor gets tokens.
    token_hosts: Vec<String>,
    parameters: Vec<TaskParameter<'a>>,
    body: Option<OperationBody<'a>>,
    /// The responses. The success response, if any, is the first.
    responses: Vec<OperationResponse<'a>>,
    security: Vec<Value>,
    schemes: Map<String, Value>,
    warnings: Vec<ImportWarning>,
}

impl<'a> ExtractedOperation<'a> {
    pub(in crate::import) fn extract(
        operation: SpecOperation<'a>,
        options: ExtractOptions<'_>,
    ) -> Result<Self, ExtractError> {
        let mut remarks = Vec::new();
        let server = TaskServer::of(operation, options.server, options.base)?;
        let mut parameters = TaskParameter::read_all(operation, &mut remarks)?;
        let path = adjust_path(operation, &mut parameters, &mut remarks)?;
        omit_parameters(operation, options.without, &mut parameters)?;
        let body = OperationBody::choose_media_type(operation, options.media_type, &mut remarks)?;
        let answers = OperationResponse::read_all(operation, &mut remarks);
        let (mut security, mut schemes) = security_of(operation, &mut remarks);
        if security.is_empty() {
            authorize_by_header(operation, &mut security, &mut schemes, &mut remarks);
        }
        let token_hosts = token_hosts(&schemes, &server.domain);
        for host in &token_hosts {
            let place = format!("{}.security", operation.location());
            let reason =
                format!("`domains` lists `{host}`, because the executor gets tokens there");
            remarks.push(ImportWarning::new(&place, reason));
        }
        Ok(Self {
            operation,
            path,
            server,
            token_hosts,
            parameters,
            body,
            responses: answers,
            security,
            schemes,
            warnings: remarks,
        })
    }

    pub(in crate::import) fn source(&self) -> RefResolver<'a> {
        self.operation.source
    }

    /// Returns the host of the task's address.
    pub(in crate::import) fn domain(&self) -> &str {
        &self.server.domain
    }

    /// Returns the hosts that the executor sends requests to: that of the task, then those of tokens.
    pub(in crate::import) fn domains(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.domain()).chain(self.token_hosts.iter().map(String::as_str))
    }

    pub(in crate::import) fn parameters(&self) -> &[TaskParameter<'a>] {
        &self.parameters
    }

    pub(in crate::import) fn body(&self) -> Option<&OperationBody<'a>> {
        self.body.as_ref()
    }

    pub(in crate::import) fn remarks(&self) -> &[ImportWarning] {
        &self.warnings
    }

    /// Returns true when the success response is declared to have this top-level member.
    pub(in crate::import) fn has_response_member(&self, name: &str) -> bool {
        self.responses.iter().take(1).any(|answer| answer.has_member(self.source(), name))
    }

    /// The type at a pointer into the success response; the pointer is given as tokens.
    pub(in crate::import) fn kind_at(&self, tokens: &[&str]) -> Option<ValueType> {
        self.responses.first()?.kind_at(self.source(), tokens)
    }

    /// The outputs that a capability takes from the success response.
    pub(super) fn outputs(
        &self,
        taken: &mut naming::UsedNames,
        remarks: &mut Vec<ImportWarning>,
    ) -> Map<String, Value> {
        let answer = &self.responses[0];
        if answer.status().starts_with(['4', '5']) {
            // Nothing says what success looks like.
            return Map::new();
        }
        answer.outputs(self.operation, taken, remarks)
    }

    /// Builds the task.
    pub(in crate::import) fn task(
        &self,
        detail: SchemaDetail,
        remarks: &mut Vec<ImportWarning>,
    ) -> Value {
        let version = self.source().get("openapi");
        let is_newer = match version {
            Some(Value::String(version)) => version.starts_with("3.1"),
            Some(version) => version.to_string().starts_with("3.1"),
            None => false,
        };
        let exact = version.and_then(Value::as_str).filter(|v| v.split('.').count() == 3);
        let otherwise = if is_newer { "3.1.0" } else { "3.0.3" };
        let mut schemas = SchemaImporter::new(self.source(), detail, is_newer, remarks);
        let operation = self.operation_value(detail, &mut schemas);

        let mut components = Map::new();
        let carried = schemas.components();
        if !carried.is_empty() {
            components.insert("schemas".to_owned(), Value::Object(carried));
        }
        if !self.schemes.is_empty() {
            components.insert("securitySchemes".to_owned(), json!(self.schemes));
        }
        let mut task = Map::new();
        task.insert("openapi".to_owned(), json!(exact.unwrap_or(otherwise)));
        task.insert("info".to_owned(), self.info());
        task.insert("servers".to_owned(), json!([self.server.value]));
        task.insert(
            "paths".to_owned(),
            json!({ &self.path: { self.operation.method: operation } }),
        );
        if !components.is_empty() {
            task.insert("components".to_owned(), Value::Object(components));
        }
        Value::Object(task)
    }

    fn info(&self) -> Value {
        let info = self.source().get("info");
        let field = |key: &str, otherwise: &str| {
            let text = match info.and_then(|info| info.get(key)) {
                Some(Value::String(text)) => sanitize::clean_line(text, 100),
                Some(Value::Number(number)) => number.to_string(),
                _ => String::new(),
            };
            if text.is_empty() { otherwise.to_owned() } else { text }
        };
        json!({ "title": field("title", "Untitled"), "version": field("version", "1") })
    }

    fn operation_value(&self, detail: SchemaDetail, schemas: &mut SchemaImporter<'a, '_>) -> Value {
        let mut value = Map::new();
        if let Some(id) = self.operation.id() {
            value.insert("operationId".to_owned(), json!(sanitize::clean_line(id, 200)));
        }
        let summary = ["summary", "description"].iter().find_map(|key| {
            let text = sanitize::sentence(self.operation.raw.get(*key)?.as_str()?, 200);
            (!text.is_empty()).then_some(text)
        });
        if let Some(summary) = summary {
            value.insert("summary".to_owned(), json!(summary));
        }
        if !self.parameters.is_empty() {
            let parameters = self.parameters.iter().map(|parameter| parameter.value(schemas));
            value.insert("parameters".to_owned(), parameters.collect());
        }
        if let Some(body) = &self.body {
            value.insert("requestBody".to_owned(), body.value(schemas));
        }
        let answers: Map<String, Value> = self
            .responses
            .iter()
            .map(|answer| (answer.status().to_owned(), answer.value(detail, schemas)))
            .collect();
        value.insert("responses".to_owned(), Value::Object(answers));
        if !self.security.is_empty() {
            value.insert("security".to_owned(), json!(self.security));
        }
        Value::Object(value)
    }
}

/// The path of the request. The part after `?` becomes query parameters with one value. Every `{name}` gets
/// a parameter; path parameters without a `{name}` are removed.
fn adjust_path(
    operation: SpecOperation<'_>,
    parameters: &mut Vec<TaskParameter<'_>>,
    remarks: &mut Vec<ImportWarning>,
) -> Result<String, ExtractError> {
    let place = format!("paths.{}", quote_for_message(operation.path));
    let (path, fragment) = match operation.path.split_once('#') {
        Some((path, fragment)) => (path, Some(fragment)),
        None => (operation.path, None),
    };
    if fragment.is_some() {
        remarks.push(ImportWarning::new(&place, "the import drops the text after `#`"));
    }
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    add_query_parameters(query, path, &place, parameters, remarks)?;
    if !path.starts_with('/') || path.chars().any(char::is_control) {
        return Err(ExtractError::new(place, "a path must start with `/`"));
    }
    match_path_parameters(path, &place, parameters, remarks)?;
    Ok(path.to_owned())
}

/// Turns the part of a path after `?` into query parameters.
fn add_query_parameters(
    query: &str,
    path: &str,
    place: &str,
    parameters: &mut Vec<TaskParameter<'_>>,
    remarks: &mut Vec<ImportWarning>,
) -> Result<(), ExtractError> {
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let only = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let parameter = match only.filter(|only| !only.is_empty() && !only.contains(['{', '}'])) {
            Some(only) => {
                let reason = format!(
                    "the value of `{{{}}}` after `?` comes from the caller",
                    quote_for_message(only)
                );
                remarks.push(ImportWarning::new(place, reason));
                set_by_query(only, &name, path, parameters)
            }
            None if name.is_empty() || name.contains('{') || value.contains('{') => {
                let reason = "the text after `?` contains a `{…}` that is not a whole value";
                return Err(ExtractError::new(place, reason));
            }
            None => TaskParameter::text(&name, ParameterIn::Query, Some(value.into_owned())),
        };
        parameters.retain(|known| known.location != ParameterIn::Query || known.name != name);
        parameters.push(parameter);
    }
    Ok(())
}

/// Gives every `{name}` of a path its parameter, and removes path parameters without one.
fn match_path_parameters(
    path: &str,
    place: &str,
    parameters: &mut Vec<TaskParameter<'_>>,
    remarks: &mut Vec<ImportWarning>,
) -> Result<(), ExtractError> {
    let mut named = Vec::new();
    for part in path.split('{').skip(1) {
        match part.split_once('}') {
            // `{+name}` lets slashes through (RFC 6570, section 3.2.3).
            Some((name, _)) if !name.is_empty() && name != "+" => {
                named.push(name.strip_prefix('+').unwrap_or(name));
            }
            _ => return Err(ExtractError::new(place, "the path has a `{` without a name and `}`")),
        }
    }
    for parameter in
        parameters.iter_mut().filter(|parameter| parameter.location == ParameterIn::Path)
    {
        let declared = named.contains(&parameter.name.as_str());
        let close = named.iter().find(|name| name.eq_ignore_ascii_case(&parameter.name));
        if let (false, Some(close)) = (declared, close) {
            parameter.name = (*close).to_owned();
        }
    }
    parameters.retain(|parameter| {
        let stays =
            parameter.location != ParameterIn::Path || named.contains(&parameter.name.as_str());
        if !stays {
            let reason = format!(
                "the path has no `{{{}}}`; the import drops the parameter",
                quote_for_message(&parameter.name)
            );
            remarks.push(ImportWarning::new(place, reason));
        }
        stays
    });
    for name in &named {
        let known = parameters
            .iter()
            .any(|known| known.location == ParameterIn::Path && known.name == *name);
        if !known {
            let reason = format!(
                "`{{{}}}` is not declared; the import accepts text for it",
                quote_for_message(name)
            );
            remarks.push(ImportWarning::new(place, reason));
            parameters.push(TaskParameter::text(name, ParameterIn::Path, None));
        }
    }
    Ok(())
}

/// The query parameter `name` of a path that ends with `?name={only}`, as declared for `name` or for
/// `only`. `only` is then not a parameter of the path.
fn set_by_query<'a>(
    only: &str,
    name: &str,
    path: &str,
    parameters: &mut Vec<TaskParameter<'a>>,
) -> TaskParameter<'a> {
    let is_in = |place: ParameterIn, name: &str, known: &TaskParameter<'_>| {
        known.location == place && known.is_called(name)
    };
    let own = parameters.iter().find(|known| is_in(ParameterIn::Query, name, known));
    let other = || parameters.iter().find(|known| is_in(ParameterIn::Query, only, known));
    let above = || parameters.iter().find(|known| is_in(ParameterIn::Path, only, known));
    let found = own.or_else(other).or_else(above).map(|known| known.in_query(name));
    let stays = path.contains(&format!("{{{only}}}"));
    parameters.retain(|known| {
        !is_in(ParameterIn::Query, only, known) && (stays || !is_in(ParameterIn::Path, only, known))
    });
    found.unwrap_or_else(|| TaskParameter::text(name, ParameterIn::Query, None))
}

/// The security requirements of an operation, and the schemes that they name.
fn security_of(
    operation: SpecOperation<'_>,
    remarks: &mut Vec<ImportWarning>,
) -> (Vec<Value>, Map<String, Value>) {
    let source = operation.source;
    let demanded = operation.raw.get("security").or_else(|| source.get("security"));
    let known = source.get("components").and_then(|c| c.get("securitySchemes"));
    let (mut security, mut schemes) = (Vec::new(), Map::new());
    for demand in demanded.and_then(Value::as_array).into_iter().flatten() {
        let Some(demand) = demand.as_object() else { continue };
        let mut kept = Map::new();
        let mut whole = true;
        for (name, scopes) in demand {
            let raw = known.and_then(|known| known.get(name)).and_then(|s| source.resolve(s).ok());
            let scopes: Vec<&str> =
                scopes.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            match raw.and_then(|raw| scheme(raw, &scopes)) {
                Some(scheme) => {
                    kept.insert(name.clone(), json!(scopes));
                    merge_scheme(&mut schemes, name, scheme);
                }
                None => {
                    let place =
                        format!("{}.security.{}", operation.location(), quote_for_message(name));
                    remarks.push(ImportWarning::new(
                        &place,
                        "the description has no security scheme with this name",
                    ));
                    whole = false;
                }
            }
        }
        if whole {
            security.push(Value::Object(kept));
        }
    }
    (security, schemes)
}

/// Declares a security scheme for a header parameter `Authorization`, which OpenAPI ignores: the
/// credential comes from the caller.
fn authorize_by_header(
    operation: SpecOperation<'_>,
    security: &mut Vec<Value>,
    schemes: &mut Map<String, Value>,
    remarks: &mut Vec<ImportWarning>,
) {
    let levels = [operation.raw, operation.item];
    let listed = levels.into_iter().filter_map(|level| level.get("parameters")?.as_array());
    let mut headers = listed
        .flatten()
        .filter_map(|raw| operation.source.resolve(raw).ok())
        .filter(|raw| raw.get("in").is_some_and(|place| place == "header"));
    let is_meant = |raw: &&Value| {
        let name = raw.get("name").and_then(Value::as_str);
        name.is_some_and(|name| name.eq_ignore_ascii_case("authorization"))
    };
    let Some(raw) = headers.find(is_meant) else { return };
    let scheme_text = raw.to_string().to_ascii_lowercase();
    let is_basic = scheme_text.contains("basic") && !scheme_text.contains("bearer");
    let scheme = if is_basic { "basic" } else { "bearer" };
    schemes.insert("Authorization".to_owned(), json!({ "type": "http", "scheme": scheme }));
    security.push(json!({ "Authorization": [] }));
    if raw.get("required") != Some(&json!(true)) {
        security.push(json!({}));
    }
    let place = format!("{}.security", operation.location());
    let reason = format!(
        "the header parameter `Authorization` became a security scheme (HTTP {scheme}); the caller provides its credential"
    );
    remarks.push(ImportWarning::new(&place, reason));
}

/// A security scheme with the parts that a request needs, and only the required scopes.
fn scheme(raw: &Value, scopes: &[&str]) -> Option<Value> {
    let kind = raw.get("type")?.as_str()?;
    let mut kept = Map::new();
    for key in ["type", "in", "name", "scheme", "bearerFormat", "openIdConnectUrl"] {
        if let Some(text) = raw.get(key).and_then(Value::as_str) {
            kept.insert(key.to_owned(), json!(sanitize::clean_line(text, 500)));
        }
    }
    if kind == "oauth2" {
        let flows = raw.get("flows").and_then(Value::as_object)?;
        let flows = flows.iter().filter(|(_, flow)| flow.is_object()).map(|(name, flow)| {
            let mut one = Map::new();
            for key in ["authorizationUrl", "tokenUrl", "refreshUrl"] {
                if let Some(url) = flow.get(key).and_then(Value::as_str) {
                    one.insert(key.to_owned(), json!(sanitize::clean_line(url, 500)));
                }
            }
            let describe_scope = |scope: &str| {
                let text = flow.get("scopes").and_then(|scopes| scopes.get(scope));
                sanitize::clean_line(text.and_then(Value::as_str).unwrap_or_default(), 120)
            };
            let demanded: Map<String, Value> = scopes
                .iter()
                .map(|scope| ((*scope).to_owned(), json!(describe_scope(scope))))
                .collect();
            one.insert("scopes".to_owned(), Value::Object(demanded));
            (name.clone(), Value::Object(one))
        });
        kept.insert("flows".to_owned(), Value::Object(flows.collect()));
    }
    Some(Value::Object(kept))
}

/// Returns the hosts other than `domain` from which the executor gets and renews tokens for the schemes.
fn token_hosts(schemes: &Map<String, Value>, domain: &str) -> Vec<String> {
    let mut hosts: Vec<String> = Vec::new();
    for flows in schemes.values().filter_map(|scheme| scheme.get("flows")) {
        let url = |flow: &str, key: &str| flows.get(flow)?.get(key)?.as_str();
        let renewal = ["authorizationCode", "password", "implicit", "clientCredentials"]
            .into_iter()
            .find_map(|flow| url(flow, "refreshUrl").or_else(|| url(flow, "tokenUrl")));
        // A relative address is at the host of the task.
        let urls = [url("clientCredentials", "tokenUrl"), renewal];
        for url in urls.into_iter().flatten().filter_map(|url| Url::parse(url).ok()) {
            let Ok(host) = TaskServer::domain_of(&url) else { continue };
            if host != domain && !hosts.contains(&host) {
                hosts.push(host);
            }
        }
    }
    hosts
}

/// Adds a scheme. If the scheme exists already, adds only its newly required scopes.
fn merge_scheme(schemes: &mut Map<String, Value>, name: &str, scheme: Value) {
    let Some(known) = schemes.get_mut(name) else {
        schemes.insert(name.to_owned(), scheme);
        return;
    };
    let flows = scheme.get("flows").and_then(Value::as_object);
    for (flow, new) in flows.into_iter().flatten() {
        let scopes = new.get("scopes").and_then(Value::as_object).cloned().unwrap_or_default();
        if let Some(Value::Object(old)) = known.pointer_mut(&format!("/flows/{flow}/scopes")) {
            old.extend(scopes);
        }
    }
}
