//! Who asks: what a principal may see and touch, and what guardians hear of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use a2s::Secret;
use a2s_api::{EventKind, RunStatus};
use a2s_api::{TokenScope, TokenSubject};
use axum::http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::database::Behind;
use super::world::{
    Answer, NamedTokens, World, allow, assert_succeeded, call, deny, sequence, task, tool,
};
use crate::App;

/// Callers in the order of the matrix: a token, and the end user that it acts for.
type Who = (&'static str, Option<&'static str>);

const OWNER: Who = ("root", None);
const ALICE: Who = ("alice", None);
const BOB: Who = ("bob", None);
const ANN: Who = ("alice", Some("ann"));
const BEN: Who = ("alice", Some("ben"));
const ADMIN: Who = ("admin", None);

/// What a token may do.
fn scopes(token: &str) -> &'static [TokenScope] {
    match token {
        "wrong" => &[],
        "admin" => &[TokenScope::Execute, TokenScope::Admin],
        "reader" => &[TokenScope::Publish],
        _ => &[TokenScope::Execute, TokenScope::Delegate],
    }
}

async fn call_as(app: &App, who: Who, method: Method, path: &str, body: Value) -> Answer {
    let (token, end_user) = who;
    let shown = format!("Bearer {token}");
    let mut headers = vec![("authorization", shown.as_str())];
    headers.extend(end_user.map(|name| (a2s_api::ON_BEHALF_OF, name)));
    call(app, method, path, &headers, body).await
}

async fn get(app: &App, who: Who, path: &str) -> Answer {
    call_as(app, who, Method::GET, path, Value::Null).await
}

/// A world with the capabilities of these tests, in which every name is a token.
async fn world() -> World {
    let mut world = World::new().await;
    world.config.token = Some(Secret::new("root"));
    world.config.introspector = Some(Arc::new(NamedTokens(scopes)));
    let city = json!({"pathParameters": {"city": "${city}"}});
    let ask = task("ask", "GET /echo/{city}", city, json!({"heard": "$.value"}));
    let steps = json!([ask, tool("say", json!({"text": "${heard}"}), json!({"said": "$"}))]);
    let parameters = json!([{"name": "city", "type": "string"}]);
    let content =
        json!({"parameters": parameters, "execution": sequence(steps), "output": "${city}"});
    world.registry.publish_newer("Ask", &content);
    let pay = task("pay", "POST /hold/pay", json!({"body": "5"}), json!({"paid": "$.value"}));
    let tell = task("tell", "POST /say", json!({"body": "${paid}"}), json!({"told": "$.body"}));
    let content = json!({"execution": sequence(json!([pay, tell]))});
    world.registry.publish_newer("Pay", &content);
    world
}

async fn run_ask(app: &App, who: Who) -> a2s_api::Run {
    let body = json!({"name": "Ask", "inputs": {"city": "Rome"}, "wait": true});
    let run = call_as(app, who, Method::POST, "/v1/executions", body).await.run();
    assert_succeeded(&run);
    run
}

/// Runs of these callers that wait for a person, because their executor died while they paid.
async fn in_doubt(world: &World, whose: &[Who]) -> (App, Vec<Uuid>) {
    let app = world.open().await;
    let mut ids = Vec::new();
    for who in whose {
        let body = json!({"name": "Pay"});
        ids.push(call_as(&app, *who, Method::POST, "/v1/executions", body).await.run().id);
        world.service.arrived("POST /hold/pay", ids.len()).await;
    }
    let app = world.crash_and_open(app).await;
    for (who, id) in whose.iter().zip(&ids) {
        assert_eq!(rest(&app, *who, *id).await.status, RunStatus::Waiting);
    }
    (app, ids)
}

/// Waits until a run is at rest.
async fn rest(app: &App, who: Who, run: Uuid) -> a2s_api::Run {
    get(app, who, &format!("/v1/executions/{run}/events")).await;
    get(app, who, &format!("/v1/executions/{run}")).await.run()
}

/// Every route with the id of a run, in an order in which one caller can use them all.
fn routes(run: Uuid) -> Vec<(Method, String, Value)> {
    let path = format!("/v1/executions/{run}");
    vec![
        (Method::GET, path.clone(), Value::Null),
        (Method::GET, format!("{path}/events"), Value::Null),
        (Method::POST, format!("{path}/replay"), json!({})),
        (Method::POST, format!("{path}/resume"), json!({"decision": "skip"})),
        (Method::POST, format!("{path}/cancel"), Value::Null),
        (Method::DELETE, path, Value::Null),
    ]
}

#[tokio::test]
async fn run_of_another_tenant_is_not_found_on_any_route() {
    let world = world().await;
    let (app, ids) = in_doubt(&world, &[ALICE, ANN, OWNER]).await;
    let others: [(Uuid, &[Who]); 3] =
        [(ids[0], &[BOB, ANN]), (ids[1], &[BOB, ALICE, BEN]), (ids[2], &[BOB, ALICE, ANN])];
    for (run, strangers) in others {
        let unknown = Uuid::from_u128(7);
        for ((method, path, body), (_, absent, _)) in routes(run).into_iter().zip(routes(unknown)) {
            for who in strangers {
                let answer = call_as(&app, *who, method.clone(), &path, body.clone()).await;
                let none = call_as(&app, *who, method.clone(), &absent, body.clone()).await;
                assert_eq!(answer.status.as_u16(), 404, "{who:?} {method} {path}");
                let shown = answer.body.to_string().replace(&run.to_string(), "ID");
                assert_eq!(shown, none.body.to_string().replace(&unknown.to_string(), "ID"));
            }
            let none = call(&app, method.clone(), &path, &[], body.clone()).await;
            assert_eq!(none.status.as_u16(), 401, "{method} {path}");
            for (token, status) in [("wrong", 401), ("reader", 403)] {
                let answer =
                    call_as(&app, (token, None), method.clone(), &path, body.clone()).await;
                assert_eq!(answer.status.as_u16(), status, "{token} {method} {path}");
            }
        }
    }
    // Their own principals, administrators and the owner pass everywhere.
    for (run, who) in [(ids[0], ALICE), (ids[1], ADMIN), (ids[2], OWNER)] {
        for (method, path, body) in routes(run) {
            if path.ends_with("cancel") {
                // Skipped, its second step has no value: the run is over.
                assert_eq!(rest(&app, who, run).await.status, RunStatus::Failed);
                let ended = call_as(&app, who, method, &path, body).await.problem();
                assert_eq!((ended.0, ended.1.as_str()), (409, "A2S305"));
                continue;
            }
            let answer = call_as(&app, who, method.clone(), &path, body).await;
            assert!(answer.status.is_success(), "{who:?} {method} {path}: {}", answer.body);
        }
    }
}

#[tokio::test]
async fn a_plan_is_run_by_its_principal_or_an_administrator() {
    let mut world = world().await;
    world.config.limits.max_tenant_plans = 2;
    let app = world.open().await;
    let plan = async |who: Who| {
        let body = json!({"name": "Ask", "inputs": {"city": "Rome"}});
        call_as(&app, who, Method::POST, "/v1/plans", body).await.body
    };
    let run = async |who: Who, token: &Value| {
        let body = json!({"plan": token, "wait": true});
        call_as(&app, who, Method::POST, "/v1/executions", body).await
    };
    let token = plan(ANN).await["token"].clone();
    let unknown = run(BOB, &json!("0".repeat(32))).await.problem();
    for who in [BOB, ALICE, BEN] {
        assert_eq!(run(who, &token).await.problem(), unknown, "{who:?}");
    }
    assert_succeeded(&run(ANN, &token).await.run());
    assert_succeeded(&run(ADMIN, &plan(ALICE).await["token"]).await.run());
    // One principal cannot take all places.
    for _ in 0..2 {
        assert!(plan(BOB).await["token"].is_string());
    }
    let refused = plan(BOB).await;
    assert!(
        refused["no_token_reason"].as_str().unwrap().contains("2 plans for one caller"),
        "{refused}"
    );
    assert!(plan(ALICE).await["token"].is_string());
}

#[tokio::test]
async fn remembered_values_belong_to_a_principal() {
    let world = world().await;
    let app = world.open().await;
    let put = async |who: Who, path: &str, value: &str| {
        call_as(&app, who, Method::PUT, path, json!(value)).await.status.as_u16()
    };
    let city = async |who: Who| {
        let body = json!({"name": "Ask", "session": "trip", "wait": true});
        let answer = call_as(&app, who, Method::POST, "/v1/executions", body).await;
        if answer.status.is_success() { answer.run().output.unwrap() } else { Value::Null }
    };
    // What one writes, nobody else is given: neither without a session nor in one of the same name.
    assert_eq!(put(BOB, "/v1/state/city", "evil").await, 200);
    assert_eq!(put(BOB, "/v1/sessions/trip/state/city", "worse").await, 200);
    for who in [ALICE, ANN, OWNER] {
        assert_eq!(city(who).await, Value::Null, "{who:?}");
        for path in ["/v1/state", "/v1/sessions/trip/state"] {
            assert_eq!(get(&app, who, path).await.body["entries"], json!([]), "{who:?}");
            let path = format!("{path}/city");
            let gone = call_as(&app, who, Method::DELETE, &path, Value::Null).await;
            assert_eq!(gone.status.as_u16(), 404, "{who:?}");
        }
    }
    assert_eq!(city(BOB).await, "worse");
    // Values for everybody are written by administrators, and read where there is no own one.
    let everybody = "/v1/state/city?for=everybody";
    for who in [ALICE, BOB, ANN] {
        assert_eq!(put(who, everybody, "evil").await, 403, "{who:?}");
        let refused = call_as(&app, who, Method::DELETE, everybody, Value::Null).await;
        assert_eq!(refused.status.as_u16(), 403, "{who:?}");
    }
    assert_eq!(put(ADMIN, everybody, "Paris").await, 200);
    let listed = get(&app, BOB, "/v1/state?for=everybody").await.body;
    assert_eq!(listed["entries"][0]["value"], "Paris");
    assert_eq!((city(ALICE).await, city(ANN).await), (json!("Paris"), json!("Paris")));
    assert_eq!(put(ALICE, "/v1/state/city", "Rome").await, 200);
    assert_eq!((city(ALICE).await, city(ANN).await), (json!("Rome"), json!("Paris")));
    assert_eq!(put(ANN, "/v1/sessions/trip/state/city", "Oslo").await, 200);
    assert_eq!((city(ANN).await, city(BEN).await), (json!("Oslo"), json!("Paris")));
    assert_eq!(put(BOB, "/v1/state/city?for=all", "x").await, 400);
}

#[tokio::test]
async fn one_principal_cannot_take_all_places_for_values() {
    let mut world = world().await;
    world.config.limits.max_tenant_values = 2;
    world.config.limits.max_values = 4;
    let app = world.open().await;
    let put = async |who: Who, path: &str| {
        call_as(&app, who, Method::PUT, path, json!(1)).await.status.as_u16()
    };
    assert_eq!(put(BOB, "/v1/state/a").await, 200);
    assert_eq!(put(BOB, "/v1/sessions/s/state/a").await, 200);
    assert_eq!(put(BOB, "/v1/sessions/t/state/a").await, 400);
    assert_eq!(put(BOB, "/v1/state/a").await, 200);
    assert_eq!(put(ALICE, "/v1/state/a").await, 200);
    assert_eq!(put(ADMIN, "/v1/state/a?for=everybody").await, 200);
    assert_eq!(put(ALICE, "/v1/state/b").await, 400);
    assert_eq!(put(ALICE, "/v1/state/a").await, 200);
}

#[tokio::test]
async fn end_users_of_a_token_leave_plans_and_values_to_others() {
    let mut world = world().await;
    let limits = &mut world.config.limits;
    (limits.max_tenant_plans, limits.max_plans) = (1, 4);
    (limits.max_tenant_values, limits.max_values) = (1, 4);
    let app = world.open().await;
    for (who, has_room) in [(ANN, true), (BEN, true), (ALICE, false), (BOB, true)] {
        let value = call_as(&app, who, Method::PUT, "/v1/state/a", json!(1)).await;
        assert_eq!(value.status == 200, has_room, "{who:?}");
        let body = json!({"name": "Ask", "inputs": {"city": "Rome"}});
        let plan = call_as(&app, who, Method::POST, "/v1/plans", body).await;
        assert_eq!(plan.body["token"].is_string(), has_room, "{who:?}");
    }
}

/// The principal that each question names, with the method.
fn named(asked: &[Value]) -> BTreeSet<(String, String, String)> {
    let name = |question: &Value| {
        let context = &question["params"]["context"];
        let method = question["method"].as_str().unwrap().to_owned();
        (method, context["user"].to_string(), context["caller"].to_string())
    };
    asked.iter().map(name).filter(|(method, ..)| method != "ping").collect()
}

#[tokio::test]
async fn guardians_learn_the_principal_at_every_hook() {
    let world = world().await;
    let app = world.open().await;
    let methods = [
        "protocols/MCP",
        "steps/agentTrigger",
        "steps/memoryContextRetrieval",
        "steps/memoryStore",
        "steps/toolCallRequest",
        "steps/toolCallResult",
    ];
    let mut before = 0;
    for (who, user, caller) in [
        (ANN, json!({"id": "ann"}), json!({"id": "alice"})),
        (BOB, json!({"id": "bob"}), Value::Null),
        (OWNER, json!({"id": "owner"}), Value::Null),
    ] {
        call_as(&app, who, Method::PUT, "/v1/state/city", json!("Rome")).await;
        let plan = json!({"name": "Ask", "preview": true});
        call_as(&app, who, Method::POST, "/v1/plans", plan).await;
        let execution = json!({"name": "Ask", "wait": true});
        let body = json!({"event": {"type": "mail", "id": "1"}, "execution": execution});
        let run = call_as(&app, who, Method::POST, "/v1/triggers", body).await.run();
        assert_succeeded(&run);
        let asked = world.guardian.asked().split_off(before);
        before += asked.len();
        let is_preview = |question: &&Value| {
            question["params"]["context"]["capability"]["preview"] == json!(true)
        };
        assert!(asked.iter().any(|question| is_preview(&question)));
        let expected =
            methods.map(|method| (method.to_owned(), user.to_string(), caller.to_string()));
        assert_eq!(named(&asked), BTreeSet::from(expected), "{who:?}");
    }
}

#[tokio::test]
async fn a_run_keeps_its_principal_over_a_takeover() {
    let world = world().await;
    let (app, ids) = in_doubt(&world, &[ANN]).await;
    let before = world.guardian.asked().len();
    // An administrator lets it go on: it is still the run of its principal.
    world.service.release("pay");
    let path = format!("/v1/executions/{}/resume", ids[0]);
    call_as(&app, ADMIN, Method::POST, &path, json!({"decision": "repeat"})).await.run();
    assert_succeeded(&rest(&app, ANN, ids[0]).await);
    let asked = world.guardian.asked().split_off(before);
    assert!(!asked.is_empty());
    for (method, user, caller) in named(&asked) {
        assert_eq!((&*user, &*caller), (r#"{"id":"ann"}"#, r#"{"id":"alice"}"#), "{method}");
    }
    let told = get(&app, ANN, &format!("/v1/executions/{}/events", ids[0])).await.body;
    let told = told.as_str().unwrap();
    assert!(told.contains("\"principal\":\"alice/ann\""), "{told}");
    assert!(told.contains("\"resolved_by\":\"admin\""), "{told}");
}

#[tokio::test]
async fn outputs_that_a_person_sets_pass_the_guardian() {
    let world = world().await;
    let (app, ids) = in_doubt(&world, &[ALICE]).await;
    let run = ids[0];
    let path = format!("/v1/executions/{run}");
    let about_result = |question: &Value| question["method"] == "steps/toolCallResult";
    let set = async |paid: &str| {
        let body = json!({"decision": "set", "outputs": {"paid": paid}});
        call_as(&app, ALICE, Method::POST, &format!("{path}/resume"), body).await
    };
    let before = get(&app, ALICE, &format!("{path}/events")).await.body;
    world.guardian.decide(move |question| if about_result(question) { deny() } else { allow() });
    let (_, code, problem) = set("forged").await.problem();
    assert_eq!(code, "A2S341");
    assert!(problem.detail.contains("not today"), "{}", problem.detail);
    assert_eq!(get(&app, ALICE, &path).await.run().status, RunStatus::Waiting);
    assert_eq!(get(&app, ALICE, &format!("{path}/events")).await.body, before);
    let asked = world.guardian.asked();
    let last = asked.last().unwrap();
    let shown = last["params"]["toolCallResult"]["result"]["outputs"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(shown).unwrap(), json!({"paid": "forged"}));
    let reasoning = last["params"]["reasoning"].as_str().unwrap();
    assert!(reasoning.contains("alice sets its outputs by hand"), "{reasoning}");
    // A guardian may change them, but not add what the step does not set.
    let modify = |outputs: Value| {
        move |question: &Value| {
            if question["params"]["reasoning"].as_str().is_none_or(|text| !text.contains("by hand"))
            {
                return allow();
            }
            let mut modified = question.clone();
            let text = &mut modified["params"]["toolCallResult"]["result"]["outputs"][0]["text"];
            *text = json!(outputs.to_string());
            json!({"decision": "modify", "message": "less", "modifiedRequest": modified})
        }
    };
    world.guardian.decide(modify(json!({"paid": "x", "more": 1})));
    assert_eq!(set("forged").await.problem().1, "A2S343");
    assert_eq!(get(&app, ALICE, &path).await.run().status, RunStatus::Waiting);
    world.guardian.decide(modify(json!({"paid": "less"})));
    set("much").await.run();
    assert_succeeded(&rest(&app, ALICE, run).await);
    assert!(world.service.asked().contains(&("POST /say".to_owned(), json!("less"))));
    let told = super::world::events_as(&app, &["authorization", "Bearer alice"], run).await;
    let resolved = told.iter().find_map(|event| match &event.kind {
        EventKind::StepResolved { resolved_by, outputs, .. } => {
            Some((resolved_by.clone(), outputs.clone()))
        }
        _ => None,
    });
    let (by, outputs) = resolved.unwrap();
    assert_eq!((by, outputs["paid"].clone()), (Some("alice".parse().unwrap()), json!("less")));
}

#[tokio::test]
async fn limits_of_a_token_hold_for_each_of_its_principals() {
    let mut world = world().await;
    let one = crate::TenantLimits { max_runs: std::num::NonZeroU32::new(1), max_queued: Some(0) };
    world.config.tenants.insert(TokenSubject::new("alice").unwrap(), one);
    let app = world.open().await;
    let start = async |who: Who| {
        let body = json!({"name": "Pay"});
        call_as(&app, who, Method::POST, "/v1/executions", body).await.status.as_u16()
    };
    for who in [ALICE, ANN, BEN] {
        assert_eq!((start(who).await, start(who).await), (202, 429), "{who:?}");
    }
    assert_eq!((start(BOB).await, start(BOB).await), (202, 202));
    app.crash().await;
}

#[tokio::test]
async fn a_run_is_listed_for_its_principal() {
    let world = world().await;
    let app = world.open().await;
    let run = run_ask(&app, ANN).await.id;
    let ids = async |who: Who| {
        let list = get(&app, who, "/v1/executions").await.body;
        list["executions"].as_array().unwrap().iter().map(|r| r["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(ANN).await, [json!(run)]);
    assert_eq!(ids(ADMIN).await, [json!(run)]);
    for who in [ALICE, BEN, BOB] {
        assert!(ids(who).await.is_empty(), "{who:?}");
    }
}

/// Brings the tables of what is remembered back to how an older executor has left them.
async fn downgrade(world: &World) {
    let mut behind = Behind::to(&world.config.database).await;
    let version = match &behind {
        Behind::Sqlite(_) => {
            behind
                .change(
                    "DROP TABLE state;
                     CREATE TABLE state (session TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
                         updated_at INTEGER NOT NULL, PRIMARY KEY (session, name)
                     ) STRICT, WITHOUT ROWID",
                )
                .await;
            13
        }
        Behind::Postgres(_) => {
            behind
                .change(
                    "ALTER TABLE state DROP CONSTRAINT state_pkey;
                     ALTER TABLE state DROP COLUMN tenant;
                     ALTER TABLE state ADD CONSTRAINT state_pkey PRIMARY KEY (session, name)",
                )
                .await;
            5
        }
    };
    behind
        .change(&format!(
            "ALTER TABLE plan DROP COLUMN tenant;
             DELETE FROM _sqlx_migrations WHERE version = {version};
             INSERT INTO state VALUES ('', 'city', '\"Paris\"', 1), ('trip', 'city', '\"Rome\"', 1760000000000)"
        ))
        .await;
    behind.close().await;
}

#[tokio::test]
async fn values_of_older_executors_keep_their_meaning() {
    let world = world().await;
    world.open().await.crash().await;
    downgrade(&world).await;
    let app = world.open().await;
    for (who, path, value) in [
        (ALICE, "/v1/state?for=everybody", json!("Paris")),
        (OWNER, "/v1/sessions/trip/state", json!("Rome")),
        (OWNER, "/v1/state", Value::Null),
        (ALICE, "/v1/sessions/trip/state", Value::Null),
    ] {
        let listed = get(&app, who, path).await.body;
        assert_eq!(listed["entries"][0]["value"], value, "{who:?} {path}");
    }
}
