//! An operation cut out of its description: the task of a step.

use serde_json::{Map, Value, json};
use url::Url;

use super::body::Body;
use super::operation::Operation;
use super::parameter::{Parameter, Place};
use super::response::Answer;
use super::server::Server;
use crate::authoring::import::Remark;
use crate::authoring::import::ref_resolver::{Source, Unresolved, shown};
use crate::authoring::import::schema::{Detail, Schemas};
use crate::authoring::{naming, sanitize};
use crate::document::ValueType;

/// Why an operation cannot be cut out.
#[derive(Debug, Clone)]
pub(in crate::authoring::import) struct Flaw {
    pub(in crate::authoring::import) place: String,
    pub(in crate::authoring::import) reason: String,
    pub(in crate::authoring::import) hint: Option<String>,
}

impl Flaw {
    pub(in crate::authoring::import) fn new(
        place: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self { place: place.into(), reason: reason.into(), hint: None }
    }

    /// A `$ref` without which nothing can be sent leads nowhere.
    pub(super) fn unresolved(place: &str, error: &Unresolved) -> Self {
        Self::new(place, error.to_string()).with_hint(error.hint())
    }

    pub(super) fn with_hint(self, hint: &str) -> Self {
        Self { hint: Some(hint.to_owned()), ..self }
    }
}

/// An operation with exactly what it needs.
#[derive(Debug)]
pub(in crate::authoring::import) struct Cut<'a> {
    operation: Operation<'a>,
    /// The path without what stands behind `?` and `#`.
    path: String,
    server: Server,
    parameters: Vec<Parameter<'a>>,
    body: Option<Body<'a>>,
    /// The answer of success, when there is one, is the first.
    answers: Vec<Answer<'a>>,
    security: Vec<Value>,
    schemes: Map<String, Value>,
    remarks: Vec<Remark>,
}

impl<'a> Cut<'a> {
    /// Cuts an operation out. `server` stands in place of the description's own, relative
    /// addresses are relative to `base`, and the body is of `media_type` where there is a choice.
    pub(in crate::authoring::import) fn of(
        operation: Operation<'a>,
        server: Option<&Url>,
        base: Option<&Url>,
        media_type: Option<&str>,
    ) -> Result<Self, Flaw> {
        let mut remarks = Vec::new();
        let server = Server::of(operation, server, base)?;
        let mut parameters = Parameter::all_of(operation, &mut remarks)?;
        let path = fit_path(operation, &mut parameters, &mut remarks)?;
        let body = Body::of(operation, media_type, &mut remarks)?;
        let answers = Answer::all_of(operation, &mut remarks);
        let (mut security, mut schemes) = security_of(operation, &mut remarks);
        if security.is_empty() {
            authorize_by_header(operation, &mut security, &mut schemes, &mut remarks);
        }
        Ok(Self { operation, path, server, parameters, body, answers, security, schemes, remarks })
    }

    pub(in crate::authoring::import) fn source(&self) -> Source<'a> {
        self.operation.source
    }

    /// The host that the task addresses.
    pub(in crate::authoring::import) fn domain(&self) -> &str {
        &self.server.domain
    }

    pub(in crate::authoring::import) fn parameters(&self) -> &[Parameter<'a>] {
        &self.parameters
    }

    pub(in crate::authoring::import) fn body(&self) -> Option<&Body<'a>> {
        self.body.as_ref()
    }

    pub(in crate::authoring::import) fn remarks(&self) -> &[Remark] {
        &self.remarks
    }

    /// Whether the answer of success is declared to have this member at its top.
    pub(in crate::authoring::import) fn answers_with(&self, name: &str) -> bool {
        self.answers.iter().take(1).any(|answer| answer.has_member(self.source(), name))
    }

    /// The type of what the tokens of a pointer into the answer of success lead to.
    pub(in crate::authoring::import) fn kind_at(&self, tokens: &[&str]) -> Option<ValueType> {
        self.answers.first()?.kind_at(self.source(), tokens)
    }

    /// What a capability takes from the answer of success.
    pub(super) fn outputs(
        &self,
        taken: &mut naming::Taken,
        remarks: &mut Vec<Remark>,
    ) -> Map<String, Value> {
        let answer = &self.answers[0];
        if answer.status().starts_with(['4', '5']) {
            // Nothing says what success looks like.
            return Map::new();
        }
        answer.outputs(self.operation, taken, remarks)
    }

    /// The task.
    pub(in crate::authoring::import) fn task(
        &self,
        detail: Detail,
        remarks: &mut Vec<Remark>,
    ) -> Value {
        let version = self.source().get("openapi");
        let is_newer = match version {
            Some(Value::String(version)) => version.starts_with("3.1"),
            Some(version) => version.to_string().starts_with("3.1"),
            None => false,
        };
        let exact = version.and_then(Value::as_str).filter(|v| v.split('.').count() == 3);
        let otherwise = if is_newer { "3.1.0" } else { "3.0.3" };
        let mut schemas = Schemas::new(self.source(), detail, is_newer, remarks);
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
                Some(Value::String(text)) => sanitize::line(text, 100),
                Some(Value::Number(number)) => number.to_string(),
                _ => String::new(),
            };
            if text.is_empty() { otherwise.to_owned() } else { text }
        };
        json!({ "title": field("title", "Untitled"), "version": field("version", "1") })
    }

    fn operation_value(&self, detail: Detail, schemas: &mut Schemas<'a, '_>) -> Value {
        let mut value = Map::new();
        if let Some(id) = self.operation.id() {
            value.insert("operationId".to_owned(), json!(sanitize::line(id, 200)));
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
            .answers
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

/// The path that is requested. What stands behind `?` becomes query parameters with one value;
/// every `{name}` gets a parameter, and parameters without one go.
fn fit_path(
    operation: Operation<'_>,
    parameters: &mut Vec<Parameter<'_>>,
    remarks: &mut Vec<Remark>,
) -> Result<String, Flaw> {
    let place = format!("paths.{}", shown(operation.path));
    let (path, fragment) = match operation.path.split_once('#') {
        Some((path, fragment)) => (path, Some(fragment)),
        None => (operation.path, None),
    };
    if fragment.is_some() {
        remarks.push(Remark::new(&place, "what stands behind `#` is not sent"));
    }
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let only = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let parameter = match only.filter(|only| !only.is_empty() && !only.contains(['{', '}'])) {
            Some(only) => {
                let reason = format!("`{{{}}}` behind `?` is taken from the caller", shown(only));
                remarks.push(Remark::new(&place, reason));
                filled_by(only, &name, path, parameters)
            }
            None if name.is_empty() || name.contains('{') || value.contains('{') => {
                let reason = "behind its `?` is a `{…}` that is no whole value";
                return Err(Flaw::new(place, reason));
            }
            None => Parameter::text(&name, Place::Query, Some(value.into_owned())),
        };
        parameters.retain(|known| known.place != Place::Query || known.name != name);
        parameters.push(parameter);
    }
    if !path.starts_with('/') || path.chars().any(char::is_control) {
        return Err(Flaw::new(place, "a path begins with `/`"));
    }
    let path = path.to_owned();
    let mut named = Vec::new();
    for part in path.split('{').skip(1) {
        match part.split_once('}') {
            // `{+name}` lets slashes through (RFC 6570, section 3.2.3).
            Some((name, _)) if !name.is_empty() && name != "+" => {
                named.push(name.strip_prefix('+').unwrap_or(name));
            }
            _ => return Err(Flaw::new(place, "the path has a `{` without a name and `}`")),
        }
    }
    for parameter in parameters.iter_mut().filter(|parameter| parameter.place == Place::Path) {
        let declared = named.contains(&parameter.name.as_str());
        let close = named.iter().find(|name| name.eq_ignore_ascii_case(&parameter.name));
        if let (false, Some(close)) = (declared, close) {
            parameter.name = (*close).to_owned();
        }
    }
    parameters.retain(|parameter| {
        let stays = parameter.place != Place::Path || named.contains(&parameter.name.as_str());
        if !stays {
            let reason = format!(
                "the path has no `{{{}}}`; the parameter is not sent",
                shown(&parameter.name)
            );
            remarks.push(Remark::new(&place, reason));
        }
        stays
    });
    for name in &named {
        let known =
            parameters.iter().any(|known| known.place == Place::Path && known.name == *name);
        if !known {
            let reason = format!("`{{{}}}` is not declared; text is taken there", shown(name));
            remarks.push(Remark::new(&place, reason));
            parameters.push(Parameter::text(name, Place::Path, None));
        }
    }
    Ok(path)
}

/// The query parameter `name` of a path that ends with `?name={only}`: what is declared of it, or
/// of `only`, which is no parameter of the path then.
fn filled_by<'a>(
    only: &str,
    name: &str,
    path: &str,
    parameters: &mut Vec<Parameter<'a>>,
) -> Parameter<'a> {
    let is_in = |place: Place, name: &str, known: &Parameter<'_>| {
        known.place == place && known.is_called(name)
    };
    let own = parameters.iter().find(|known| is_in(Place::Query, name, known));
    let other = || parameters.iter().find(|known| is_in(Place::Query, only, known));
    let above = || parameters.iter().find(|known| is_in(Place::Path, only, known));
    let found = own.or_else(other).or_else(above).map(|known| known.in_query(name));
    let stays = path.contains(&format!("{{{only}}}"));
    parameters.retain(|known| {
        !is_in(Place::Query, only, known) && (stays || !is_in(Place::Path, only, known))
    });
    found.unwrap_or_else(|| Parameter::text(name, Place::Query, None))
}

/// What an operation demands of its caller, and the schemes that it names.
fn security_of(
    operation: Operation<'_>,
    remarks: &mut Vec<Remark>,
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
                    let place = format!("{}.security.{}", operation.place(), shown(name));
                    remarks
                        .push(Remark::new(&place, "no security scheme of this name is described"));
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
    operation: Operation<'_>,
    security: &mut Vec<Value>,
    schemes: &mut Map<String, Value>,
    remarks: &mut Vec<Remark>,
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
    let told = raw.to_string().to_ascii_lowercase();
    let is_basic = told.contains("basic") && !told.contains("bearer");
    let scheme = if is_basic { "basic" } else { "bearer" };
    schemes.insert("Authorization".to_owned(), json!({ "type": "http", "scheme": scheme }));
    security.push(json!({ "Authorization": [] }));
    if raw.get("required") != Some(&json!(true)) {
        security.push(json!({}));
    }
    let place = format!("{}.security", operation.place());
    let reason = format!(
        "the header parameter `Authorization` became a security scheme (HTTP {scheme}); its credential comes from the caller"
    );
    remarks.push(Remark::new(&place, reason));
}

/// A security scheme with what a request needs of it, and of its scopes those that are demanded.
fn scheme(raw: &Value, scopes: &[&str]) -> Option<Value> {
    let kind = raw.get("type")?.as_str()?;
    let mut kept = Map::new();
    for key in ["type", "in", "name", "scheme", "bearerFormat", "openIdConnectUrl"] {
        if let Some(text) = raw.get(key).and_then(Value::as_str) {
            kept.insert(key.to_owned(), json!(sanitize::line(text, 500)));
        }
    }
    if kind == "oauth2" {
        let flows = raw.get("flows").and_then(Value::as_object)?;
        let flows = flows.iter().filter(|(_, flow)| flow.is_object()).map(|(name, flow)| {
            let mut one = Map::new();
            for key in ["authorizationUrl", "tokenUrl", "refreshUrl"] {
                if let Some(url) = flow.get(key).and_then(Value::as_str) {
                    one.insert(key.to_owned(), json!(sanitize::line(url, 500)));
                }
            }
            let told = |scope: &str| {
                let text = flow.get("scopes").and_then(|scopes| scopes.get(scope));
                sanitize::line(text.and_then(Value::as_str).unwrap_or_default(), 120)
            };
            let demanded: Map<String, Value> =
                scopes.iter().map(|scope| ((*scope).to_owned(), json!(told(scope)))).collect();
            one.insert("scopes".to_owned(), Value::Object(demanded));
            (name.clone(), Value::Object(one))
        });
        kept.insert("flows".to_owned(), Value::Object(flows.collect()));
    }
    Some(Value::Object(kept))
}

/// Adds a scheme; when it is known already, the scopes that are demanded this time.
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
