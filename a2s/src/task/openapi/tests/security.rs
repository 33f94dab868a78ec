//! Security: schemes, scopes, and what is missing.

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
    let key = SecurityScheme::ApiKey { place: ApiKeyPlace::Cookie, name: "sid".to_owned() };
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
    let read = check_warned(&task, "no security scheme `none` is defined", place);
    assert_eq!(read.security[0][0].scheme, None);
    task["components"] = json!({"securitySchemes": {"none": {"type": "apiKey", "name": "x"}}});
    let (severity, message, path) = remark(&task);
    assert_eq!((severity, path.as_str()), (Severity::Warning, ".components.securitySchemes.none"));
    assert!(message.starts_with("the security scheme `none` is malformed: "), "{message}");
    // An empty list of an operation takes back what holds for the others.
    task["security"] = json!([{"none": []}]);
    task["paths"]["/a"]["get"]["security"] = json!([]);
    assert_eq!(self::read(&task).security, Vec::<Vec<_>>::new());
    task["components"]["securitySchemes"]["none"]["in"] = json!("query");
    task["paths"]["/a"]["get"].as_object_mut().unwrap().shift_remove("security");
    check_warned(&task, "the operation wants credentials, and none are sent yet", "");
}
