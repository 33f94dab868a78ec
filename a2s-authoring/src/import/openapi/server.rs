//! The address of a service.

use a2s::Domain;
use serde_json::{Map, Value, json};
use url::Url;

use super::extract_operation::ExtractError;
use super::operation::SpecOperation;
use crate::import::ref_resolver::quote_for_message;

/// The address that a task is sent to.
#[derive(Debug, Clone)]
pub(super) struct TaskServer {
    /// The server in the task.
    pub(super) value: Value,
    /// The host for `domains`.
    pub(super) domain: String,
}

const HINT: &str = "Give the address of the service: `--server https://api.example.com`.";

impl TaskServer {
    /// Chooses the server: the requested one, else the first usable server of the operation, of its path or
    /// of the description.
    pub(super) fn of(
        operation: SpecOperation<'_>,
        asked: Option<&Url>,
        base: Option<&Url>,
    ) -> Result<Self, ExtractError> {
        if let Some(url) = asked {
            let server = Self::at(url, json!({ "url": url.as_str() }));
            return server.map_err(|reason| ExtractError::new("servers", reason).with_hint(HINT));
        }
        let lists = [
            (operation.raw.get("servers"), format!("{}.servers", operation.location())),
            (
                operation.item.get("servers"),
                format!("paths.{}.servers", quote_for_message(operation.path)),
            ),
            (operation.source.get("servers"), "servers".to_owned()),
        ];
        let named = lists.into_iter().find_map(|(servers, place)| {
            Some((servers?.as_array().filter(|servers| !servers.is_empty())?, place))
        });
        let Some((servers, place)) = named else {
            // OpenAPI 3.0.3, section 4.7.1.1: without servers, the address is `/`.
            let base = base.and_then(|base| base.join("/").ok());
            let server = base.and_then(|url| Self::at(&url, json!({ "url": url.as_str() })).ok());
            let none = "the description has no address of the service";
            return server.ok_or_else(|| ExtractError::new("servers", none).with_hint(HINT));
        };
        let mut first = None;
        for (index, server) in servers.iter().enumerate() {
            match Self::named(server, base) {
                Ok(server) => return Ok(server),
                Err(reason) => {
                    let flaw =
                        || ExtractError::new(format!("{place}[{index}]"), reason).with_hint(HINT);
                    first.get_or_insert_with(flaw);
                }
            }
        }
        Err(first.unwrap_or_else(|| {
            ExtractError::new(place, "no server has a usable address").with_hint(HINT)
        }))
    }

    fn named(server: &Value, base: Option<&Url>) -> Result<Self, String> {
        let template = server.get("url").and_then(Value::as_str).unwrap_or_default().trim();
        let mut filled = template.to_owned();
        let mut variables = Map::new();
        for (name, variable) in
            server.get("variables").and_then(Value::as_object).into_iter().flatten()
        {
            let braces = format!("{{{name}}}");
            if !filled.contains(&braces) {
                continue;
            }
            let text = |value: &Value| match value {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                Value::Bool(bool) => Some(bool.to_string()),
                _ => None,
            };
            let default = variable.get("default").and_then(text);
            let default = default.ok_or_else(|| {
                format!("the variable `{}` of its address has no default", quote_for_message(name))
            })?;
            filled = filled.replace(&braces, &default);
            let choices = variable.get("enum").and_then(Value::as_array);
            let choices: Vec<String> = choices.into_iter().flatten().filter_map(text).collect();
            let mut kept = json!({ "default": default });
            if choices.contains(&default) {
                kept["enum"] = json!(choices);
            }
            variables.insert(name.clone(), kept);
        }
        if filled.contains(['{', '}']) {
            return Err(format!("`{}` has an undeclared variable", quote_for_message(template)));
        }
        let unknown = || format!("`{}` is not a valid address", quote_for_message(template));
        let (url, value) = match Url::parse(&filled) {
            Ok(url) if variables.is_empty() => (url, json!({ "url": template })),
            Ok(url) => (url, json!({ "url": template, "variables": variables })),
            Err(_) => {
                let relative = || {
                    format!(
                        "`{}` is relative, but its base address is unknown",
                        quote_for_message(template)
                    )
                };
                let url = base.ok_or_else(relative)?.join(&filled).map_err(|_| unknown())?;
                let value = json!({ "url": url.as_str() });
                (url, value)
            }
        };
        Self::at(&url, value)
    }

    fn at(url: &Url, value: Value) -> Result<Self, String> {
        let shown = quote_for_message(url.as_str());
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("`{shown}` does not start with `https://` or `http://`"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(format!("`{shown}` contains `?` or `#`"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("the address contains a user name or a password".to_owned());
        }
        let domain = Self::domain_of(url)
            .map_err(|error| format!("the host of `{shown}` cannot be used: {error}"))?;
        Ok(Self { value, domain })
    }

    /// Returns the host of an address, with its port, as `domains` lists it.
    pub(super) fn domain_of(url: &Url) -> Result<String, String> {
        let host = url.host_str().unwrap_or_default();
        let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
        let domain = Domain::new(&format!("{host}{port}")).map_err(|error| error.to_string())?;
        Ok(domain.as_str().to_owned())
    }
}
