//! A prepared request as guardians see it: `context.request`, and the parts of a question whose shown value is
//! not the true one: `context.hidden`. Pure.
//!
//! The request is made of masked inputs, so nothing that a document states itself is searched for secrets. A
//! part that differs from the true request is hidden. Credentials are no part of it: they are added on the
//! wire.

use a2s::{Digest, InputLocation};
use aos::message::StepContext;
use serde_json::{Map, Value, json};
use url::Url;

use crate::error::Error;
use crate::request::{self, PreparedRequest, RedirectTarget, TaskContract, authority};
use crate::secrets::{HiddenPaths, MaskedInputs, RunSecrets, join_pointer};
use crate::vault::Vault;

/// The maximum size of a body in a question, in bytes.
pub(super) const MAX_SHOWN_BODY: usize = 8 * 1024;

/// The facts about a request in a question.
#[derive(Clone)]
pub(super) struct RequestFacts {
    members: Map<String, Value>,
    /// Set when a secret was replaced in the request or in its inputs.
    is_masked: bool,
    /// Set when the shown request is not the true one.
    hidden: HiddenPaths,
}

impl RequestFacts {
    /// Describes a request that was made of `inputs`. `asks_again` is set when the guardians are asked
    /// again after a change of the inputs.
    pub(super) fn new(
        contract: &TaskContract,
        inputs: &MaskedInputs,
        prepared: &PreparedRequest,
        asks_again: bool,
    ) -> Self {
        let actual = describe_request(prepared, address(prepared.url()));
        let shown = inputs.is_masked().then(|| {
            let shown = request::prepare_masked(contract, inputs.shown(), prepared);
            describe_request(&shown, address(shown.url()))
        });
        let mut facts = Self::compare(actual, shown, inputs);
        if asks_again {
            facts.members.insert("asksAgain".to_owned(), json!(true));
        }
        facts
    }

    /// Describes the request to the target of a redirect. The service chose the address, so it is searched
    /// for secrets.
    pub(super) fn from_redirect(
        contract: &TaskContract,
        inputs: &MaskedInputs,
        prepared: &PreparedRequest,
        (hop, number): (&RedirectTarget, u32),
        secrets: &RunSecrets,
    ) -> Self {
        let actual = describe_request(prepared, address(prepared.url()));
        let shown = (!secrets.is_empty()).then(|| {
            let remade = inputs.is_masked().then(|| {
                request::prepare_masked(contract, inputs.shown(), prepared).redirect_to(hop)
            });
            let address = address(prepared.url()).map(|part| secrets.mask_text(&part));
            describe_request(remade.as_ref().unwrap_or(prepared), address)
        });
        let mut facts = Self::compare(actual, shown, inputs);
        facts.members.insert("redirect".to_owned(), json!(number));
        facts
    }

    fn compare(
        actual: Map<String, Value>,
        shown: Option<Map<String, Value>>,
        inputs: &MaskedInputs,
    ) -> Self {
        let is_masked = inputs.is_masked() || shown.as_ref().is_some_and(|shown| *shown != actual);
        let mut hidden = HiddenPaths::default();
        for (name, shown) in shown.iter().flatten() {
            let (path, actual) = (join_pointer("/request", name), actual.get(name));
            match actual.filter(|_| name != "body") {
                Some(actual) => hidden.compare(&path, actual, shown),
                // Its size and its checksum are those of the shown text.
                None if actual != Some(shown) => hidden.add(path),
                None => {}
            }
        }
        let members = shown.unwrap_or(actual);
        if members.get("body").is_some_and(|body| body["truncated"] == true) {
            hidden.add("/request/body/text".to_owned());
        }
        Self { members, is_masked, hidden }
    }

    /// Adds the keyed digest of the true request when a part of it is masked. An approval of the request
    /// covers its secrets by this digest.
    ///
    /// # Errors
    /// Returns [`ErrorKind::VaultKey`](crate::error::ErrorKind::VaultKey) without a key.
    pub(super) fn seal(mut self, prepared: &PreparedRequest, vault: &Vault) -> Result<Self, Error> {
        if self.is_masked {
            let digest = vault.keyed_digest("request", prepared.digest())?;
            self.members.insert("sealed".to_owned(), json!(digest.to_hex()));
        }
        Ok(self)
    }

    /// Adds the facts to the question about `inputs`. `path` returns the path of an input there.
    pub(super) fn add_to(
        self,
        context: &mut StepContext,
        inputs: &MaskedInputs,
        path: impl Fn(&InputLocation) -> String,
    ) {
        let Self { members, mut hidden, .. } = self;
        context.extra.insert("request".to_owned(), members);
        hidden.compare_inputs(inputs, path);
        add_hidden(context, hidden);
    }
}

/// Names the parts of a question whose shown value is not the true one.
pub(super) fn add_hidden(context: &mut StepContext, hidden: HiddenPaths) {
    if let Some(paths) = hidden.into_paths() {
        let members = Map::from_iter([("paths".to_owned(), json!(paths))]);
        context.extra.insert("hidden".to_owned(), members);
    }
}

/// Returns an address, its host, its path and its query.
fn address(url: &Url) -> [String; 4] {
    let query = url.query().unwrap_or_default();
    [url.to_string(), authority(url), url.path().to_owned(), query.to_owned()]
}

fn describe_request(
    request: &PreparedRequest,
    [url, host, path, query]: [String; 4],
) -> Map<String, Value> {
    let members = json!({
        "method": request.method().as_str(),
        "url": url,
        "host": host,
        "path": path,
        "query": query,
        "headers": describe_headers(request),
        "body": describe_body(request.full_body().map(|body| &**body).unwrap_or_default()),
    });
    match members {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Returns the headers by name. Several headers of one name become one text, as HTTP joins them.
fn describe_headers(request: &PreparedRequest) -> Value {
    let mut headers = Map::new();
    for name in request.headers().keys() {
        let values = request.headers().get_all(name).iter();
        let values = values.map(|value| String::from_utf8_lossy(value.as_bytes()));
        let joined = values.collect::<Vec<_>>().join(", ");
        headers.insert(name.as_str().to_owned(), json!(joined));
    }
    Value::Object(headers)
}

/// Returns the checksum and size of a body, and its beginning if it is text.
fn describe_body(body: &[u8]) -> Value {
    let mut members = json!({
        "checksum": Digest::of_bytes(body), "bytes": body.len(), "truncated": true,
    });
    if let Ok(text) = std::str::from_utf8(body) {
        let end = text.floor_char_boundary(MAX_SHOWN_BODY);
        members["text"] = json!(&text[..end]);
        members["truncated"] = json!(end < text.len());
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_body_is_cut_and_binary_content_is_left_out() {
        let large = "ä".repeat(MAX_SHOWN_BODY);
        let shown = describe_body(large.as_bytes());
        assert_eq!(shown["text"].as_str().unwrap().len(), MAX_SHOWN_BODY);
        assert_eq!(shown["bytes"], json!(2 * MAX_SHOWN_BODY));
        assert_eq!(shown["truncated"], json!(true));
        let binary = describe_body(&[0xff, 0xfe, 0]);
        assert_eq!((&binary["bytes"], binary.get("text")), (&json!(3), None));
        assert_eq!(binary["truncated"], json!(true));
    }
}
