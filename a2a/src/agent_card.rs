//! The card of an agent (A2A 1.0, sections 4.4 and 8): the card that this agent publishes, and the cards of
//! others. Pure.

use a2s::{split_name, to_single_line};
use a2s_api::CapabilitySummary;
use serde_json::{Map, Value, json};
use url::Url;

use agent::PeerSkill;

use super::wire_versions::A2aVersion;

/// The maximum number of skills on a card.
pub(crate) const MAX_SKILLS: usize = 100;
/// The maximum number of skills that are read from the card of another agent, and the maximum lengths of
/// its texts and names, in characters.
const MAX_READ: usize = 500;
const MAX_TEXT: usize = 1_000;
const MAX_NAME: usize = 100;

const DESCRIPTION: &str = "Finds published capabilities for a request, and runs them \
                           while guardians check every step before and after it.";
const MORE: &str = " It has more skills than this card lists.";

/// Writes the card of this agent in the notation of one version. `endpoint` is its address.
///
/// The card of 0.3 also lists the interfaces of 1.0, as the official SDKs do: a reader of 1.0 that sends no
/// header A2A-Version finds them there, and a reader of 0.3 ignores the members that it does not know.
pub(crate) fn write_card(
    endpoint: &Url,
    skills: &[CapabilitySummary],
    has_more: bool,
    version: A2aVersion,
) -> Value {
    let interfaces = [A2aVersion::V1_0, A2aVersion::V0_3].map(|version| {
        json!({
            "url": endpoint, "protocolBinding": "JSONRPC", "protocolVersion": version.as_str(),
        })
    });
    let token = "A token of this service with the scope `execute`.";
    let description =
        if has_more { format!("{DESCRIPTION}{MORE}") } else { DESCRIPTION.to_owned() };
    let mut card = json!({
        "name": "A2S agent",
        "description": description,
        "version": env!("CARGO_PKG_VERSION"),
        "supportedInterfaces": interfaces,
        "capabilities": { "streaming": true, "pushNotifications": false },
        "defaultInputModes": ["text/plain", "application/json"],
        "defaultOutputModes": ["text/plain", "application/json"],
        "skills": skills.iter().map(skill).collect::<Vec<_>>(),
    });
    match version {
        A2aVersion::V1_0 => {
            card["capabilities"]["extendedAgentCard"] = false.into();
            let scheme = json!({ "scheme": "Bearer", "description": token });
            card["securitySchemes"] = json!({ "token": { "httpAuthSecurityScheme": scheme } });
            card["securityRequirements"] = json!([{ "schemes": { "token": { "list": [] } } }]);
        }
        A2aVersion::V0_3 => {
            card["protocolVersion"] = "0.3.0".into();
            card["url"] = endpoint.as_str().into();
            card["preferredTransport"] = "JSONRPC".into();
            card["supportsAuthenticatedExtendedCard"] = false.into();
            let scheme = json!({ "type": "http", "scheme": "bearer", "description": token });
            card["securitySchemes"] = json!({ "token": scheme });
            card["security"] = json!([{ "token": [] }]);
        }
    }
    card
}

fn skill(capability: &CapabilitySummary) -> Value {
    let domains = capability.domains.iter().map(|domain| domain.as_str().to_owned());
    let tags: Vec<String> = domains.chain(["capability".to_owned()]).collect();
    json!({
        "id": capability.name,
        "name": split_name(capability.name.as_str()),
        "description": capability.description_with_deprecation(),
        "tags": tags,
    })
}

/// The card of another agent, with the parts that this agent needs. All its content comes from the other
/// agent.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerCard {
    /// Its name for itself.
    pub name: String,
    /// Its description of itself.
    pub description: String,
    /// Its version.
    pub version: String,
    /// Set when it supports streams.
    pub streaming: bool,
    /// The skills that it claims to have.
    pub skills: Vec<PeerSkill>,
    /// The address for requests, and the version for them.
    pub(crate) endpoint: Url,
    pub(crate) protocol: A2aVersion,
}

impl PeerCard {
    /// Reads a card that was found at `origin`. The agent's endpoint must have the same host, because a
    /// token for one host is not sent to another.
    pub(crate) fn read(value: &Value, origin: &Url) -> Result<Self, String> {
        let members = value.as_object().ok_or("it is not an object")?;
        let (endpoint, protocol) = find_endpoint(members, origin)?;
        let skills = list(members, "skills").iter().filter_map(read_skill).take(MAX_READ);
        let capabilities = members.get("capabilities");
        let streaming = capabilities.and_then(|capabilities| capabilities.get("streaming"));
        Ok(Self {
            name: text(members, "name", MAX_NAME).ok_or("it has no `name`")?,
            description: text(members, "description", MAX_TEXT).unwrap_or_default(),
            version: text(members, "version", MAX_NAME).unwrap_or_default(),
            streaming: streaming.and_then(Value::as_bool).unwrap_or_default(),
            skills: skills.collect(),
            endpoint,
            protocol,
        })
    }
}

fn read_skill(value: &Value) -> Option<PeerSkill> {
    let members = value.as_object()?;
    let texts = |name: &str| -> Vec<String> {
        let texts = list(members, name).iter().filter_map(Value::as_str);
        texts.take(20).map(|text| to_single_line(text, MAX_NAME)).collect()
    };
    Some(PeerSkill {
        id: text(members, "id", MAX_NAME)?,
        name: text(members, "name", MAX_NAME)?,
        description: text(members, "description", MAX_TEXT).unwrap_or_default(),
        tags: texts("tags"),
        examples: texts("examples"),
    })
}

/// Finds the address for requests: the newest version that this crate speaks, among the addresses at this
/// host.
fn find_endpoint(members: &Map<String, Value>, origin: &Url) -> Result<(Url, A2aVersion), String> {
    let at = |value: &Value, name: &str| -> Option<String> {
        value.get(name).and_then(Value::as_str).map(str::to_owned)
    };
    let mut offered = Vec::new();
    for interface in list(members, "supportedInterfaces") {
        let version =
            at(interface, "protocolVersion").and_then(|text| A2aVersion::from_text(&text));
        offered.push((at(interface, "url"), at(interface, "protocolBinding"), version));
    }
    // 0.3 has one address with a version for the whole card, and additional ones.
    let whole = Value::Object(members.clone());
    let version = at(&whole, "protocolVersion").unwrap_or_else(|| "0.3".to_owned());
    let version = A2aVersion::from_text(&version);
    let transport = at(&whole, "preferredTransport").or_else(|| Some("JSONRPC".to_owned()));
    offered.push((at(&whole, "url"), transport, version));
    for interface in list(members, "additionalInterfaces") {
        offered.push((at(interface, "url"), at(interface, "transport"), version));
    }
    let mut usable: Vec<(Url, A2aVersion)> = offered
        .into_iter()
        .filter(|(_, binding, _)| binding.as_deref() == Some("JSONRPC"))
        .filter_map(|(url, _, version)| Some((url?.parse().ok()?, version?)))
        .collect();
    if usable.is_empty() {
        return Err("it has no address for JSON-RPC in version 0.3 or 1.0".to_owned());
    }
    usable.retain(|(url, _)| url.origin() == origin.origin());
    let newest = usable.iter().position(|(_, version)| *version == A2aVersion::V1_0);
    let chosen = usable.into_iter().nth(newest.unwrap_or_default());
    chosen.ok_or_else(|| "all its addresses are on other hosts".to_owned())
}

fn text(members: &Map<String, Value>, name: &str, most: usize) -> Option<String> {
    let text = to_single_line(members.get(name)?.as_str()?, most);
    (!text.is_empty()).then_some(text)
}

fn list<'v>(members: &'v Map<String, Value>, name: &str) -> &'v [Value] {
    members.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests;
