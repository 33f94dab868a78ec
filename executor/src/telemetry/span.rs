//! A span, as OpenTelemetry knows it, within bounds. Pure.

use a2s_api::CapabilityRef;
use a2s_api::Principal;
use jiff::Timestamp;
use url::Url;

use super::context::SpanId;
use a2s::to_single_line;

/// The maximum number of span events in one span; the default of OpenTelemetry.
const MAX_EVENTS: usize = 128;
/// The maximum number of characters of a text in an attribute.
const MAX_TEXT: usize = 1_024;

/// The methods of HTTP that the semantic conventions know (RFC 9110, and PATCH of RFC 5789).
const KNOWN_METHODS: [&str; 9] =
    ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"];

/// A piece of work, with its start and end.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Span {
    pub(super) id: SpanId,
    pub(super) parent: Option<SpanId>,
    pub(super) name: String,
    pub(super) kind: SpanKind,
    pub(super) start: Timestamp,
    /// The end; `None` while the work has not ended.
    pub(super) end: Option<Timestamp>,
    pub(super) attributes: Attributes,
    pub(super) events: Vec<SpanEvent>,
    /// The number of events beyond the maximum.
    pub(super) dropped_events: u32,
    /// The code of the error.
    pub(super) error: Option<String>,
}

/// An event at one moment of a span.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SpanEvent {
    pub(super) at: Timestamp,
    pub(super) name: &'static str,
    pub(super) attributes: Attributes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpanKind {
    Internal,
    /// Work for a remote caller.
    Server,
    /// A request to a remote service.
    Client,
}

/// The attributes of a span or an event, by name.
pub(super) type Attributes = Vec<(&'static str, AttributeValue)>;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum AttributeValue {
    Text(String),
    Texts(Vec<String>),
    Number(i64),
    Truth(bool),
}

impl Span {
    pub(super) fn new(id: SpanId, parent: Option<SpanId>, name: &str, start: Timestamp) -> Self {
        Self {
            id,
            parent,
            name: shorten_text(name),
            kind: SpanKind::Internal,
            start,
            end: None,
            attributes: Vec::new(),
            events: Vec::new(),
            dropped_events: 0,
            error: None,
        }
    }

    /// Sets an attribute, in place of an earlier one with this name.
    pub(super) fn set_attribute(&mut self, name: &'static str, value: AttributeValue) {
        match self.attributes.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.attributes.push((name, value)),
        }
    }

    /// Sets the principal that the span belongs to.
    pub(super) fn set_principal(&mut self, principal: &Principal) {
        self.set_attribute("enduser.id", text(principal.user_id()));
        if let Some(token) = principal.caller_id() {
            self.set_attribute("a2s.caller.id", text(token));
        }
    }

    pub(super) fn set_capability(&mut self, capability: &CapabilityRef) {
        self.set_attribute("a2s.capability.name", text(&capability.name));
        self.set_attribute("a2s.capability.version", text(&capability.version));
        self.set_attribute("a2s.capability.digest", text(&capability.checksum));
    }

    /// Marks the span as a request (HTTP semantic conventions). The address does not contain the values of
    /// its query.
    pub(super) fn set_request(
        &mut self,
        attempt: u32,
        method: &str,
        url: &str,
        upstream: Option<&str>,
    ) {
        self.kind = SpanKind::Client;
        if KNOWN_METHODS.contains(&method) {
            self.set_attribute("http.request.method", text(method));
        } else {
            "HTTP".clone_into(&mut self.name);
            self.set_attribute("http.request.method", text("_OTHER"));
            self.set_attribute("http.request.method_original", text(method));
        }
        if attempt > 1 {
            self.set_attribute("http.request.resend_count", number(attempt - 1));
        }
        let Ok(mut url) = Url::parse(url) else { return };
        if url.query().is_some() {
            let names: Vec<_> = url.query_pairs().map(|(name, _)| name.into_owned()).collect();
            let mut pairs = url.query_pairs_mut();
            pairs.clear();
            names.iter().for_each(|name| {
                pairs.append_pair(name, "REDACTED");
            });
        }
        self.set_attribute("url.full", text(&url));
        self.set_attribute("server.address", text(url.host_str().unwrap_or_default()));
        self.attributes.extend(url.port_or_known_default().map(|p| ("server.port", number(p))));
        let upstream = upstream.and_then(|upstream| Url::parse(upstream).ok());
        if let Some(host) = upstream.as_ref().and_then(Url::host_str) {
            self.set_attribute("a2s.upstream", text(host));
        }
    }

    pub(super) fn add_event(&mut self, at: Timestamp, name: &'static str, attributes: Attributes) {
        if self.events.len() < MAX_EVENTS {
            self.events.push(SpanEvent { at, name, attributes });
        } else {
            self.dropped_events += 1;
        }
    }

    pub(super) fn set_error(&mut self, code: String) {
        self.set_attribute("error.type", text(&code));
        self.error = Some(code);
    }

    /// Ends the span, once. The end is not before the start, even if the clock went back.
    pub(super) fn finish(&mut self, at: Timestamp) {
        self.end.get_or_insert_with(|| at.max(self.start));
    }
}

pub(super) fn text<T: ToString + ?Sized>(value: &T) -> AttributeValue {
    AttributeValue::Text(shorten_text(&value.to_string()))
}

pub(super) fn shorten_text(text: &str) -> String {
    to_single_line(text, MAX_TEXT)
}

pub(super) fn number(value: impl TryInto<i64>) -> AttributeValue {
    AttributeValue::Number(value.try_into().unwrap_or(i64::MAX))
}
