//! Runs of several tenants: whose a run is, how many each may have, and whose turn it is.

use std::sync::Arc;

use a2s::{Caller, Identify, Later, Scope, Secret, Subject};
use axum::http::Method;
use serde_json::{Value, json};

use super::world::{Answer, World, call, sequence, task};
use crate::App;

/// Takes a token for the name that it stands for; some may do more than run.
#[derive(Debug)]
struct Names;

impl Identify for Names {
    fn identify<'a>(&'a self, token: &'a Secret) -> Later<'a, Result<Option<Caller>, String>> {
        let subject = Subject::new(token.reveal()).ok();
        let caller = subject.map(|subject| {
            let mut scopes = std::collections::BTreeSet::from([Scope::Execute]);
            if subject.as_str() == "admin" {
                scopes.insert(Scope::Admin);
            }
            Caller { subject, scopes }
        });
        Box::pin(async move { Ok(caller) })
    }
}

/// A world in which every name is a token, and `root` the owner's.
async fn world() -> World {
    let mut world = World::new().await;
    world.config.token = Some(Secret::new("root"));
    world.config.others = Some(Arc::new(Names));
    let steps = json!([task("ask", "GET /echo/x", json!({}), json!({"x": "$.value"}))]);
    world.registry.publish("Ask", "1.0.0", &json!({"execution": sequence(steps)}));
    world
}

async fn call_as(app: &App, who: &str, method: Method, path: &str, body: Value) -> Answer {
    call(app, method, path, &[("authorization", &format!("Bearer {who}"))], body).await
}

#[tokio::test]
async fn a_run_belongs_to_whom_the_token_stands_for() {
    let world = world().await;
    let app = world.open().await;
    for who in ["root", "ci", "jane@example"] {
        let body = json!({"name": "Ask", "wait": true});
        call_as(&app, who, Method::POST, "/v1/executions", body).await.run();
    }
    let event = json!({"type": "mail", "id": "1"});
    let body = json!({"event": event, "execution": {"name": "Ask", "wait": true}});
    call_as(&app, "mailer", Method::POST, "/v1/triggers", body).await.run();
    let tenants = world.query("SELECT tenant FROM run ORDER BY id").await;
    assert_eq!(tenants, ["owner", "ci", "jane@example", "mailer"]);
    let refused = call(&app, Method::POST, "/v1/executions", &[], json!({"name": "Ask"})).await;
    assert_eq!(refused.problem().1, "A2S301");
}
