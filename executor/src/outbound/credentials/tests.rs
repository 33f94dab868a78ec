//! What is put onto the wire, where it may go, and where not.

use a2s::{Domain, Task};
use serde_json::json;

use super::*;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

fn wire() -> WireAdditions {
    let mut wire = WireAdditions::for_origin_of(&url("https://api.example/a"));
    wire.query.push(("my key".to_owned(), Zeroizing::new("k%20y".to_owned())));
    wire.cookies.push(("sid".to_owned(), Zeroizing::new("canary".to_owned())));
    wire.add_header(AUTHORIZATION, sensitive_header("Bearer canary").unwrap()).unwrap();
    wire.add_field("client_secret", "a b&c");
    wire
}

#[test]
fn a_key_takes_the_place_of_whatever_has_its_name() {
    let (wire, asked) = (wire(), url("https://api.example/a"));
    for (target, expected) in [
        ("http://127.0.0.1:1/a", "http://127.0.0.1:1/a?my%20key=k%20y"),
        ("https://api.example/a?x=1%2F&&y", "https://api.example/a?x=1%2F&y&my%20key=k%20y"),
        (
            "https://api.example/a?my+key=evil&my%20key=2&x=1",
            "https://api.example/a?x=1&my%20key=k%20y",
        ),
    ] {
        assert_eq!(wire.address(&asked, &url(target)).as_str(), expected);
    }
    let given = HeaderMap::from_iter([
        (COOKIE, HeaderValue::from_static("theme=dark; sid=evil")),
        (AUTHORIZATION, HeaderValue::from_static("Basic evil")),
    ]);
    let headers = wire.headers(&asked, &given);
    assert_eq!(headers[COOKIE], "theme=dark; sid=canary");
    assert_eq!(headers.get_all(AUTHORIZATION).iter().collect::<Vec<_>>(), ["Bearer canary"]);
    assert!(!format!("{headers:?} {wire:?}").contains("canary"));
    let body = wire.body(&asked, Some(&Bytes::from_static(b"grant_type=x"))).unwrap();
    assert_eq!(&body[..], b"grant_type=x&client_secret=a+b%26c");
}

#[test]
fn credentials_go_to_their_own_origin_alone() {
    let wire = wire();
    for other in [
        "http://api.example/a",
        "https://api.example:8443/a",
        "https://www.api.example/a",
        "https://api.example.evil.example/a",
    ] {
        let other = url(other);
        assert_eq!(wire.address(&other, &other), other);
        assert!(wire.headers(&other, &HeaderMap::new()).is_empty());
        assert_eq!(wire.body(&other, None), None);
    }
    assert_ne!(
        wire.address(&url("https://api.example/b"), &url("https://api.example/b")).query(),
        None
    );
    assert_eq!(wire.headers(&url("https://api.example:443/b"), &HeaderMap::new()).len(), 2);
}

#[test]
fn two_credentials_do_not_share_a_header() {
    let error = wire().add_header(AUTHORIZATION, HeaderValue::from_static("x")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::CredentialRefused);
}

#[test]
fn basic_is_utf_8_and_learnt_as_it_is_sent() {
    let secrets = RunSecrets::default();
    // The example of RFC 7617, section 2.1.
    let header = basic_header("test", "123\u{a3}", &secrets).unwrap();
    assert_eq!(header, "Basic dGVzdDoxMjPCow==");
    assert_eq!(secrets.mask_text("it was dGVzdDoxMjPCow=="), "it was (secret)");
}

/// An OpenAPI task at `server` that wants the key `key`.
fn task(server: &str) -> Task {
    let document = json!({
        "a2s": "1.0.0", "name": "Test", "description": "A test", "domains": ["api.example", "localhost"],
        "version": "1.0.0", "authors": [{"name": "Tester"}],
        "execution": {"type": "sequence", "steps": [{
            "id": "step", "format": "OpenAPI",
            "task": {
                "openapi": "3.0.3", "info": {"title": "Test", "version": "1"}, "servers": [{"url": server}],
                "security": [{"key": []}],
                "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
                "paths": {"/a": {"get": {"responses": {"200": {"description": "Good"}}}}},
            },
        }]},
    });
    let compilation = a2s::compile(document.to_string().as_bytes());
    let document = compilation.document.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics));
    let mut found = None;
    document.capability().for_each_step(|step| {
        if let a2s::StepAction::Task { task, .. } = &step.action {
            found = Some((**task).clone());
        }
    });
    found.unwrap()
}

async fn authorize(server: &str, upstream: Option<&str>) -> Result<(), ErrorKind> {
    let mut config = super::super::tests::config(None, "");
    if let Some(upstream) = upstream {
        config.upstreams.insert(Domain::new("api.example").unwrap(), url(upstream));
    }
    let outbound = super::super::tests::open(&config).unwrap();
    let host = url(server).host_str().unwrap().parse().unwrap();
    let key = Credential::ApiKey { value: Secret::new("canary"), place: None };
    outbound.vault.set(host, "key", &key).await.unwrap();
    let request = super::super::tests::permit(&task(server), &[]).await;
    let secrets = RunSecrets::default();
    outbound.authorize(&request, &secrets).await.map(|_| ()).map_err(|error| error.kind)
}

#[tokio::test]
async fn nothing_secret_goes_over_plain_http() {
    assert_eq!(authorize("http://api.example", None).await, Err(ErrorKind::CredentialRefused));
    assert_eq!(authorize("https://api.example", None).await, Ok(()));
    assert_eq!(authorize("http://localhost", None).await, Ok(()));
    // Somebody has chosen this one.
    assert_eq!(authorize("http://api.example", Some("http://10.0.0.1/")).await, Ok(()));
}
