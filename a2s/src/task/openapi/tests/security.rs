//! Security: schemes, scopes, and what is missing.

use crate::task::{ApiKeyLocation, HttpScheme, SecurityRequirement, SecurityScheme};

use super::*;

#[test]
fn security_is_read_into_types() {
    let mut task = get(json!({}));
    task["security"] = json!([
        {"key": [], "login": []},
        {"flows": ["read", "write"]},
        {"identity": ["openid"]},
        {"token": []},
        {"digest": []},
        {"certificate": []},
        {},
    ]);
    task["components"] = json!({"securitySchemes": {
        "key": {"type": "apiKey", "in": "cookie", "name": "sid"},
        "login": {"$ref": "#/components/securitySchemes/basic"},
        "basic": {"type": "http", "scheme": "Basic"},
        "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
        "digest": {"type": "http", "scheme": "Digest"},
        "certificate": {"type": "mutualTLS", "description": "A card"},
        "identity": {"type": "openIdConnect", "openIdConnectUrl": "/.well-known"},
        "flows": {"type": "oauth2", "flows": {
            "clientCredentials": {"tokenUrl": "/token", "scopes": {"read": "Read"}},
            "authorizationCode": {
                "authorizationUrl": "/ask", "tokenUrl": "/token", "refreshUrl": "/again", "scopes": {},
            },
        }},
    }});
    // Everybody is let in by the last way, so nothing is missing.
    let security = read(&task).security;
    let scheme = |way: usize, index: usize| security[way][index].scheme.clone().unwrap();
    let key = SecurityScheme::ApiKey { location: ApiKeyLocation::Cookie, name: "sid".to_owned() };
    assert_eq!(scheme(0, 0), key);
    assert_eq!(security[0][1].name, "login");
    let http = |scheme, format: Option<&str>| SecurityScheme::Http {
        scheme,
        bearer_format: format.map(str::to_owned),
    };
    assert_eq!(scheme(0, 1), http(HttpScheme::Basic, None));
    assert_eq!(security[1][0].scopes, ["read", "write"]);
    let SecurityScheme::OAuth2(flows) = scheme(1, 0) else { panic!() };
    let machine = flows.client_credentials.unwrap();
    assert_eq!((machine.token_url.as_deref(), machine.authorization_url), (Some("/token"), None));
    assert_eq!(machine.scopes["read"], "Read");
    let person = flows.authorization_code.unwrap();
    assert_eq!(person.refresh_url.as_deref(), Some("/again"));
    assert_eq!((flows.implicit, flows.password), (None, None));
    assert_eq!(scheme(2, 0), SecurityScheme::OpenIdConnect { url: "/.well-known".to_owned() });
    assert_eq!(scheme(3, 0), http(HttpScheme::Bearer, Some("JWT")));
    assert_eq!(scheme(4, 0), http(HttpScheme::Other("digest".to_owned()), None));
    assert_eq!(scheme(5, 0), SecurityScheme::MutualTls);
    assert_eq!(security[6], []);
}

#[test]
fn what_is_wrong_with_security_is_a_warning() {
    let mut task = get(json!({"security": [{"none": []}, {}]}));
    let place = ".paths[\"/a\"].get.security[0].none";
    let read = check_warned(&task, "unknown security scheme `none`", place);
    assert_eq!(read.security[0][0].scheme, None);
    task["components"] = json!({"securitySchemes": {"none": {"type": "apiKey", "name": "x"}}});
    let (severity, message, path) = remark(&task);
    assert_eq!(
        (severity, path.as_str()),
        (DiagnosticSeverity::Warning, ".components.securitySchemes.none")
    );
    assert!(message.starts_with("the security scheme `none` is malformed: "), "{message}");
    // An empty list of an operation takes back what holds for the others.
    task["security"] = json!([{"none": []}]);
    task["paths"]["/a"]["get"]["security"] = json!([]);
    assert_eq!(self::read(&task).security, Vec::<Vec<_>>::new());
    task["components"]["securitySchemes"]["none"]["in"] = json!("query");
    task["paths"]["/a"]["get"].as_object_mut().unwrap().shift_remove("security");
    self::read(&task);
}

#[test]
fn credentials_that_are_not_sent_are_a_warning() {
    let mut task = get(json!({"security": [{"a": []}]}));
    for (scheme, warning) in [
        (
            json!({"type": "http", "scheme": "digest"}),
            "credentials that the executor does not send: `a` (HTTP digest)",
        ),
        (
            json!({"type": "apiKey", "in": "header", "name": "Host"}),
            "does not send: `a` (an API key in a header)",
        ),
        (
            json!({"type": "openIdConnect", "openIdConnectUrl": "/x"}),
            "cannot fetch tokens for `a` (OpenID Connect)",
        ),
        (
            json!({"type": "oauth2", "flows": {"implicit": {"authorizationUrl": "/ask", "scopes": {}}}}),
            "the executor cannot fetch tokens for `a` (OAuth 2.0); store a token as a bearer token",
        ),
    ] {
        task["components"]["securitySchemes"]["a"] = scheme;
        let (severity, message, _) = remark(&task);
        assert_eq!(severity, DiagnosticSeverity::Warning);
        assert!(message.contains(warning), "{message}");
    }
    for scheme in [
        json!({"type": "apiKey", "in": "header", "name": "Authorization"}),
        json!({"type": "apiKey", "in": "cookie", "name": "sid"}),
        json!({"type": "http", "scheme": "basic"}),
        json!({"type": "mutualTLS"}),
        json!({"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "token", "scopes": {}}}}),
    ] {
        task["components"]["securitySchemes"]["a"] = scheme;
        read(&task);
    }
    // Another way in that can be gone is enough.
    task["components"]["securitySchemes"]["b"] = json!({"type": "http", "scheme": "digest"});
    task["paths"]["/a"]["get"]["security"] = json!([{"b": []}, {"a": []}]);
    read(&task);
}

#[test]
fn a_host_that_gives_tokens_belongs_to_the_domains() {
    let mut task = get(json!({"security": [{"a": []}]}));
    let flow = |url: &str| json!({"clientCredentials": {"tokenUrl": url, "scopes": {}}});
    task["components"]["securitySchemes"]["a"] =
        json!({"type": "oauth2", "flows": flow("https://login.example/token")});
    let (severity, message, _) = remark(&task);
    assert_eq!(severity, DiagnosticSeverity::Warning);
    assert_eq!(message, "the task gets tokens from `login.example`, which `domains` does not list");
    task["components"]["securitySchemes"]["a"]["flows"] = flow("oauth/token");
    let task = Task::OpenApi(Box::new(read(&task)));
    let SecurityScheme::OAuth2(flows) = task.security()[0][0].scheme.clone().unwrap() else {
        panic!()
    };
    let url = task.token_address(flows.client_token_url().unwrap()).unwrap();
    assert_eq!(url.as_str(), "https://api.example/v1/oauth/token");
    assert_eq!(task.token_address("ftp://api.example/x"), None);
}

#[test]
fn names_that_no_credential_can_be_stored_under() {
    let requirement = |name: &str| SecurityRequirement {
        name: name.to_owned(),
        scopes: Vec::new(),
        scheme: Some(SecurityScheme::Http { scheme: HttpScheme::Basic, bearer_format: None }),
    };
    for good in ["basic", "API Key", "é", "a'b"] {
        assert!(!requirement(good).credential_kinds().is_empty(), "{good}");
    }
    for bad in ["", "-x", " x", "a\nb", &"x".repeat(101)] {
        assert!(requirement(bad).credential_kinds().is_empty(), "{bad}");
    }
}
