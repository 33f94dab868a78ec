//! The intent of a caller, and the inputs that are known for it. Pure.

use a2s::{Digest, InputField};
use a2s_api::{AgentRequest, CapabilityRef};
use a2s_intent::coreference::continues_conversation;
use a2s_intent::{missing_inputs, reply, split_requests, understand_inputs};
use jiff::civil::Date;
use serde_json::{Map, Value};

/// The maximum number of intents of one message, including the complete message.
const MAX_INTENTS: usize = 8;

/// The intent of the user.
#[derive(Debug)]
pub(super) struct UserIntent {
    /// The request in the user's words; when the message answers a question, the words of the first
    /// message.
    pub(super) query: String,
    /// The complete request, and then its parts when it asks for several things.
    pub(super) intents: Vec<String>,
    /// The capability that the question was about. It is tried first.
    pub(super) preferred: Option<CapabilityRef>,
    /// The answer to a question, and the inputs that it asked for.
    reply: Option<(String, Vec<String>)>,
    /// The digest of the confirmed actions.
    pub(super) confirmed: Option<Digest>,
    /// The weak matches that the user has accepted.
    pub(super) accepted: Vec<CapabilityRef>,
    /// The inputs that were given by name.
    given: Map<String, Value>,
    /// The values of earlier turns, when the message refers to them.
    context: Map<String, Value>,
}

impl UserIntent {
    /// Reads the intent from `heard`, the part of the message of `request` that may be acted on.
    pub(super) fn from_request(heard: String, request: AgentRequest) -> Self {
        let mut given = request.inputs;
        let (mut confirmed, mut accepted) = (None, Vec::new());
        let (query, preferred, reply) = match request.pending {
            None => (heard, None, None),
            Some(pending) if !pending.choices.is_empty() => {
                let names = pending.choices.iter().map(|pin| pin.name.as_str());
                match reply::read_choice(&heard, names) {
                    Some(at) => (pending.query, pending.choices.into_iter().nth(at), None),
                    None => (heard, None, None),
                }
            }
            // A user who was asked for consent and answers otherwise has a new request.
            Some(pending) if pending.missing.is_empty() && !reply::is_consent(&heard) => {
                (heard, None, None)
            }
            Some(pending) => {
                accepted = pending.accepted;
                confirmed = pending.consent.filter(|_| pending.missing.is_empty());
                for (name, value) in pending.inputs {
                    given.entry(name).or_insert(value);
                }
                (pending.query, pending.capability, Some((heard, pending.missing)))
            }
        };
        let intents = intents(&query, split_requests(&query));
        let mut context = request.context;
        if !continues_conversation(&query) {
            context.clear();
        }
        Self { query, intents, preferred, reply, confirmed, accepted, given, context }
    }

    /// Replaces the parts. The whole query stays the same.
    pub(super) fn set_intents(&mut self, parts: Vec<String>) {
        self.intents = intents(&self.query, parts);
    }

    /// The values for `fields`: those given by name, else the answer to a question, else the query itself, else
    /// those of earlier turns that the query refers to.
    /// Secrets are never read from a message. `today` is the date that "tomorrow" is relative to.
    pub(super) fn known_inputs(&self, fields: &[InputField], today: Date) -> Map<String, Value> {
        let open: Vec<InputField> = fields.iter().filter(|field| !field.secret).cloned().collect();
        let mut inputs = understand_inputs(&self.query, &open, today).extracted;
        if let Some((text, missing)) = &self.reply {
            let asked: Vec<InputField> =
                open.iter().filter(|field| missing.contains(&field.name)).cloned().collect();
            inputs.extend(reply::read_values(text, &asked));
        }
        let named =
            |field: &InputField| Some((field.name.clone(), self.given.get(&field.name)?.clone()));
        inputs.extend(fields.iter().filter_map(named));
        let earlier = missing_inputs(&open, &inputs)
            .filter_map(|field| Some((field.name.clone(), self.context.get(&field.name)?.clone())));
        inputs.extend(earlier.collect::<Vec<_>>());
        inputs
    }

    /// Returns the number of required inputs whose values the user has not given.
    pub(super) fn count_missing(&self, fields: &[InputField], today: Date) -> usize {
        missing_inputs(fields, &self.known_inputs(fields, today)).count()
    }
}

/// Returns the complete request, and its parts when there are several.
fn intents<P: Into<String>>(query: &str, parts: Vec<P>) -> Vec<String> {
    let parts = if parts.len() > 1 { parts } else { Vec::new() };
    let whole = std::iter::once(query.to_owned());
    whole.chain(parts.into_iter().map(Into::into)).take(MAX_INTENTS).collect()
}
