//! A prepared request as guardians see it: `context.request`. Pure.
//!
//! It is made of inputs without secrets, and masked once more. Credentials are no part of it: they
//! are added on the wire.

use a2s::{Digest, Task};
use serde_json::{Map, Value, json};
use url::Url;

use super::GuardedInputs;
use crate::request::{self, PreparedRequest, RedirectTarget, TaskContract, authority};
use crate::secrets::RunSecrets;

/// The maximum size of a body in a question, in bytes.
pub(super) const MAX_SHOWN_BODY: usize = 8 * 1024;

/// Returns the members of `context.request` for `prepared`, which was built from `inputs`. `redirect` is
/// the number of the redirect that led to it.
pub(super) fn describe_request(
    contract: &TaskContract,
    inputs: GuardedInputs<'_>,
    prepared: &PreparedRequest,
    redirect: Option<u32>,
    secrets: &RunSecrets,
) -> Map<String, Value> {
    // A secret of a few characters cannot be found in a text, so the request is built again from
    // the masked inputs.
    let remade =
        (inputs.masked != inputs.actual).then(|| request::prepare_masked(contract, inputs.masked));
    let remade = match (remade, redirect) {
        (None, _) => None,
        (Some(None), _) => return describe_template(contract.task(), prepared, redirect),
        (Some(Some(remade)), None) => Some(remade),
        (Some(Some(remade)), Some(_)) => {
            let (method, url) = (prepared.method().clone(), prepared.url().clone());
            let keeps_body = prepared.body().is_some();
            Some(remade.redirect_to(&RedirectTarget { method, url, keeps_body }))
        }
    };
    let request = remade.as_ref().unwrap_or(prepared);
    let url = request.url();
    let mut members = Map::new();
    members.insert("method".to_owned(), json!(request.method().as_str()));
    members.insert("url".to_owned(), json!(secrets.mask_text(url.as_str())));
    members.insert("host".to_owned(), json!(authority(url)));
    members.insert("path".to_owned(), json!(secrets.mask_text(url.path())));
    members.insert("query".to_owned(), json!(secrets.mask_text(url.query().unwrap_or_default())));
    members.insert("headers".to_owned(), describe_headers(request, secrets));
    if let Some(body) = request.full_body() {
        members.insert("body".to_owned(), describe_body(body, secrets));
    }
    if let Some(redirect) = redirect {
        members.insert("redirect".to_owned(), json!(redirect));
    }
    members
}

/// The members that are known without the inputs.
fn describe_template(
    task: &Task,
    prepared: &PreparedRequest,
    redirect: Option<u32>,
) -> Map<String, Value> {
    let (_, template) = request::method_and_url(task);
    let path = Url::parse(&template).map(|url| url.path().to_owned()).unwrap_or_default();
    let members = json!({
        "method": prepared.method().as_str(),
        "url": template,
        "host": authority(prepared.url()),
        "path": path,
        "query": "",
        "headers": {},
    });
    let mut members = members.as_object().cloned().unwrap_or_default();
    if let Some(redirect) = redirect {
        members.insert("redirect".to_owned(), json!(redirect));
    }
    members
}

/// Returns the headers by name. Several headers of one name become one text, as HTTP joins them.
fn describe_headers(request: &PreparedRequest, secrets: &RunSecrets) -> Value {
    let mut headers = Map::new();
    for name in request.headers().keys() {
        let values = request.headers().get_all(name).iter();
        let values = values.map(|value| String::from_utf8_lossy(value.as_bytes()));
        let joined = values.collect::<Vec<_>>().join(", ");
        headers.insert(name.as_str().to_owned(), json!(secrets.mask_text(&joined)));
    }
    Value::Object(headers)
}

/// Returns the checksum and size of the masked body, and its beginning if it is text. The checksum is that
/// of the masked body, so that a secret cannot be guessed from it.
fn describe_body(body: &[u8], secrets: &RunSecrets) -> Value {
    let text = String::from_utf8_lossy(body);
    let masked = secrets.mask_text(&text);
    let is_text = std::str::from_utf8(body).is_ok();
    // Bytes that are no text are hashed as they are, unless something was masked in them.
    let hashed = if is_text || masked != text { masked.as_bytes() } else { body };
    let mut members = Map::new();
    members.insert("checksum".to_owned(), json!(Digest::of_bytes(hashed)));
    members.insert("bytes".to_owned(), json!(hashed.len()));
    if is_text {
        let mut end = masked.len().min(MAX_SHOWN_BODY);
        while !masked.is_char_boundary(end) {
            end -= 1;
        }
        members.insert("text".to_owned(), json!(&masked[..end]));
        members.insert("truncated".to_owned(), json!(end < masked.len()));
    } else {
        members.insert("truncated".to_owned(), json!(true));
    }
    Value::Object(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_masked_before_it_is_hashed_and_cut() {
        let secrets = RunSecrets::new([1; 16]);
        secrets.learn(&json!("canary-0123456789")).unwrap();
        let shown = describe_body(b"{\"pin\":\"canary-0123456789\"}", &secrets);
        assert!(!shown.to_string().contains("canary"), "{shown}");
        let text = shown["text"].as_str().unwrap();
        assert_eq!(shown["checksum"], json!(Digest::of_bytes(text.as_bytes())));
        assert_eq!((&shown["bytes"], &shown["truncated"]), (&json!(text.len()), &json!(false)));
        let large = "ä".repeat(MAX_SHOWN_BODY);
        let shown = describe_body(large.as_bytes(), &secrets);
        assert_eq!(shown["text"].as_str().unwrap().len(), MAX_SHOWN_BODY);
        assert_eq!(shown["bytes"], json!(2 * MAX_SHOWN_BODY));
        assert_eq!(shown["truncated"], json!(true));
        let binary = describe_body(&[0xff, 0xfe, 0], &secrets);
        assert_eq!((&binary["bytes"], binary.get("text")), (&json!(3), None));
    }
}
