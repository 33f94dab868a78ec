//! Stored credentials are for the owner's runs and for what they are granted to.

use super::*;

#[tokio::test]
async fn a_credential_is_the_owners_until_it_is_granted() {
    let (mut world, bouncer) = world().await;
    world.config.token = Some(Secret::new("root"));
    world.config.introspector = Some(Arc::new(NamedTokens(|_| &[TokenScope::Execute])));
    let scheme = json!({"my key": {"type": "http", "scheme": "bearer"}});
    for name in ["Wants", "Other"] {
        let step = guarded("get", "GET /a", json!([{"my key": []}]), scheme.clone());
        world.registry.publish(name, "1.0.0", &json!({"execution": sequence(json!([step]))}));
    }
    world.registry.set_owners("Wants", &["acme"]);
    world.registry.set_owners("Other", &["bob"]);
    let app = world.open().await;
    let call_as = async |who: &str, method: Method, path: &str, body: Value| {
        call(&app, method, path, &[("authorization", &format!("Bearer {who}"))], body).await
    };
    let path = "/v1/secrets/api.example/my%20key";
    let key = json!({"kind": "bearer", "token": "canary"});
    assert_eq!(call_as("root", Method::PUT, path, key.clone()).await.status, 201);
    let run = async |who: &str, name: &str| {
        let body = json!({"name": name, "wait": true});
        call_as(who, Method::POST, "/v1/executions", body).await
    };
    let check_refused = async |who: &str, name: &str| {
        let before = bouncer.heard().len();
        let (status, code, problem) = run(who, name).await.problem();
        assert_eq!((status, code.as_str()), (422, "A2S380"), "{who} {name}");
        assert_eq!(bouncer.heard().len(), before);
        problem
    };
    assert_succeeded(&run("root", "Wants").await.run());
    assert_eq!(bouncer.heard(), ["GET /a | Bearer canary |  |  | "]);
    let problem = check_refused("bob", "Wants").await;
    let detail =
        "step `Wants.get`: runs of `bob` may not use the credential `my key` for api.example";
    assert_eq!(problem.detail, detail);
    let hint = "The credential is stored, but this run may not use it. An administrator of the executor can allow \
                it: `a2s secrets allow api.example 'my key' --subject bob`, or `--capability Wants`.";
    assert_eq!(problem.hint.as_deref(), Some(hint));
    // Only those who administer say who may use it.
    let users = format!("{path}/users");
    let grant = async |grant: Value| call_as("root", Method::PUT, &users, grant).await;
    let own = call_as("bob", Method::PUT, &users, json!({"subjects": ["bob"]})).await;
    assert_eq!(own.problem().0, 403);
    check_refused("bob", "Wants").await;

    // To a subject: for that one, whatever it runs.
    let granted = grant(json!({"subjects": ["bob"]})).await;
    assert_eq!(granted.body["users"], json!({"subjects": ["bob"]}));
    assert!(!granted.body.to_string().contains("canary"));
    assert_succeeded(&run("bob", "Wants").await.run());
    assert_succeeded(&run("bob", "Other").await.run());
    check_refused("alice", "Wants").await;
    // To a capability: for everybody's runs of it, and no other.
    grant(json!({"capabilities": ["Wants"]})).await;
    assert_succeeded(&run("alice", "Wants").await.run());
    check_refused("bob", "Other").await;
    // To a publisher: for what it owns in the registry, as it is now.
    grant(json!({"publishers": ["acme"]})).await;
    assert_succeeded(&run("bob", "Wants").await.run());
    check_refused("bob", "Other").await;
    world.registry.set_owners("Wants", &["bob"]);
    check_refused("bob", "Wants").await;
    // The grants stay when the value is set anew, and the owner needs none.
    grant(json!({"subjects": ["bob"]})).await;
    assert_eq!(call_as("root", Method::PUT, path, key).await.status, 200);
    assert_succeeded(&run("bob", "Wants").await.run());
    grant(json!({})).await;
    check_refused("bob", "Wants").await;
    assert_succeeded(&run("root", "Wants").await.run());
}
