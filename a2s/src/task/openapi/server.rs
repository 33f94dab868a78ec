//! The server that requests go to, with its variables.

use openapiv3 as oas;
use url::Url;

use super::OpenApiVersion;
use super::decode::{Layers, OpenApiDecoder};
use crate::diagnostic::SourceLocation;
use crate::field_reader::shorten_for_message;
use crate::task::decode_url;
use crate::task::located_value::LocatedValue;

/// The extension that chooses a server other than the first, and values other than the defaults.
const CHOICE: &str = "x-a2s-server";
/// The maximum length of a server's address, in bytes, before and after its variables are replaced.
const MAX_ADDRESS: usize = 2048;

/// Reads the address of the server. This is the server that the document chooses, or the first server
/// of the operation, else of the path, else of the specification.
pub(super) fn decode_server<'n>(
    decoder: &mut OpenApiDecoder<'n, '_>,
    layers: &Layers<'n>,
) -> Option<(Url, SourceLocation)> {
    let root = decoder.root.clone();
    let servers = layers.iter().chain([&root]).find_map(|layer| {
        Some(layer.get("servers")?.items()).filter(|servers| !servers.is_empty())
    });
    let Some(servers) = servers else {
        let hint = "Add `servers` with the address of the service.";
        decoder.error(&root, "the specification has no `servers`", hint);
        return None;
    };
    let choice = root.get(CHOICE);
    let server = choose_server(decoder, &servers, choice.as_ref())?;
    check_variables(decoder, &server)?;
    let hint = "Write `- url: \"https://…\"`.";
    let mut typed: oas::Server = decoder.typed(&server, "the server", server.to_value(), hint)?;
    if let Some(values) = choice.and_then(|choice| choice.get("variables")) {
        choose_values(decoder, &values, &mut typed)?;
    }
    let url = server.get("url")?;
    let decoded = fill(&typed).and_then(|address| decode_url(&address));
    match decoded {
        Ok(address) => Some((address, url.location())),
        Err((message, hint)) => {
            decoder.error(&url, message, hint);
            None
        }
    }
}

/// The server with the `url` of the choice, as written; the first one without a `url`.
fn choose_server<'n>(
    decoder: &mut OpenApiDecoder<'n, '_>,
    servers: &[LocatedValue<'n>],
    choice: Option<&LocatedValue<'n>>,
) -> Option<LocatedValue<'n>> {
    let Some(choice) = choice else { return servers.first().cloned() };
    for (key, member) in choice.entries() {
        if !matches!(key, "url" | "variables") {
            let message = format!("`{CHOICE}` has no `{}`", shorten_for_message(key));
            decoder.error(&member, message, "Write `url`, `variables` or both.");
            return None;
        }
    }
    let Some(wanted) = choice.get("url") else { return servers.first().cloned() };
    let found = wanted
        .node
        .as_str()
        .and_then(|url| servers.iter().find(|server| server.text("url") == Some(url)).cloned());
    if found.is_none() {
        let known: Vec<_> = servers.iter().filter_map(|server| server.text("url")).collect();
        let known: Vec<_> =
            known.iter().take(5).map(|url| format!("`{}`", shorten_for_message(url))).collect();
        let hint = format!("Write one of {}.", known.join(", "));
        decoder.error(&wanted, "no server has this address", hint);
    }
    found
}

/// Replaces the defaults of server variables by the values that the document chooses.
fn choose_values<'n>(
    decoder: &mut OpenApiDecoder<'n, '_>,
    values: &LocatedValue<'n>,
    server: &mut oas::Server,
) -> Option<()> {
    for (name, value) in values.entries() {
        let known = server.variables.as_mut().and_then(|known| known.get_mut(name));
        let Some(variable) = known else {
            let message = format!("the server has no variable `{}`", shorten_for_message(name));
            decoder.error(&value, message, "Remove it, or correct its name.");
            return None;
        };
        let Some(text) = value.node.as_str() else {
            let message = format!(
                "the value of the server variable `{}` is not a text",
                shorten_for_message(name)
            );
            decoder.error(&value, message, "Write it in quotes.");
            return None;
        };
        if !variable.enumeration.is_empty() && !variable.enumeration.iter().any(|v| v == text) {
            let known = variable.enumeration.iter().take(10);
            let known: Vec<_> =
                known.map(|value| format!("`{}`", shorten_for_message(value))).collect();
            let message = format!(
                "the server variable `{}` does not accept this value",
                shorten_for_message(name)
            );
            decoder.error(&value, message, format!("Write one of {}.", known.join(", ")));
            return None;
        }
        text.clone_into(&mut variable.default);
    }
    Some(())
}

/// Checks that every variable has a default that is a text and one of the allowed values.
fn check_variables<'n>(
    decoder: &mut OpenApiDecoder<'n, '_>,
    server: &LocatedValue<'n>,
) -> Option<()> {
    let mut whole = Some(());
    let variables = server.get("variables");
    for (name, variable) in variables.map_or_else(Vec::new, |variables| variables.entries()) {
        let name = shorten_for_message(name);
        let default = variable.get("default");
        let Some(text) = default.as_ref().and_then(|default| default.node.as_str()) else {
            let message = match &default {
                None => format!("the server variable `{name}` has no `default`"),
                Some(found) => format!(
                    "the default of the server variable `{name}` is {}; a string is required here",
                    found.node.describe()
                ),
            };
            let hint = "Add `default` in quotes: requests use this value.";
            decoder.error(default.as_ref().unwrap_or(&variable), message, hint);
            whole = None;
            continue;
        };
        let Some(values) = variable.get("enum") else { continue };
        let values = values.items();
        if values.iter().any(|value| value.node.as_str() == Some(text)) {
            continue;
        }
        let message = format!(
            "the default `{}` of the server variable `{name}` is not in its `enum`",
            shorten_for_message(text)
        );
        let hint = "Use one of the values of `enum`.";
        let place = default.as_ref().unwrap_or(&variable);
        // OpenAPI 3.0 only recommends it.
        if decoder.version == OpenApiVersion::V3_0 {
            decoder.warn(place, message, hint);
        } else {
            decoder.error(place, message, hint);
            whole = None;
        }
    }
    whole
}

/// Returns the address with the defaults of its variables. Variables inside a default are not replaced.
fn fill(server: &oas::Server) -> Result<String, (String, String)> {
    let too_long = || {
        let message = format!("the server's address has more than {MAX_ADDRESS} bytes");
        (message, "Shorten it, or the defaults of its variables.".to_owned())
    };
    let mut address = String::new();
    let mut rest = server.url.as_str();
    if rest.len() > MAX_ADDRESS {
        return Err(too_long());
    }
    while let Some((before, (name, behind))) =
        rest.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        let variable = server.variables.as_ref().and_then(|variables| variables.get(name));
        let Some(variable) = variable else {
            let message = format!(
                "the server's address has `{{{0}}}`, but no variable `{0}`",
                shorten_for_message(name)
            );
            let hint = "Declare it under `variables` with a `default`, or write its value instead.";
            return Err((message, hint.to_owned()));
        };
        address.push_str(before);
        address.push_str(&variable.default);
        if address.len() > MAX_ADDRESS {
            return Err(too_long());
        }
        rest = behind;
    }
    address.push_str(rest);
    if address.len() > MAX_ADDRESS { Err(too_long()) } else { Ok(address) }
}
