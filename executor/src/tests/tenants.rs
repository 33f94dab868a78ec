//! Runs of several tenants: whose a run is, how many each may have, and whose turn it is.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use a2s::Secret;
use a2s_api::{ExecutionList, RunStatus};
use a2s_api::{Principal, TokenScope, TokenSubject};
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use test_support::require_postgres_server;
use tower::ServiceExt as _;
use uuid::Uuid;

use super::world::{
    Answer, NamedTokens, World, assert_gapless, assert_succeeded, call, events, read, sequence,
    start, task, transcript,
};
use crate::{App, TenantLimits};

/// Every token may run, and that of the admin may do more.
fn scopes(token: &str) -> &'static [TokenScope] {
    match token {
        "admin" => &[TokenScope::Execute, TokenScope::Admin],
        _ => &[TokenScope::Execute],
    }
}

/// A world in which every name is a token, and `root` the owner's.
async fn world() -> World {
    let mut world = World::new().await;
    world.config.token = Some(Secret::new("root"));
    world.config.introspector = Some(Arc::new(NamedTokens(scopes)));
    let steps = json!([task("ask", "GET /echo/x", json!({}), json!({"x": "$.value"}))]);
    world.registry.publish("Ask", "1.0.0", &json!({"execution": sequence(steps)}));
    world
}

async fn call_as(app: &App, who: &str, method: Method, path: &str, body: Value) -> Answer {
    call(app, method, path, &[("authorization", &format!("Bearer {who}"))], body).await
}

#[tokio::test]
async fn an_idempotency_key_is_of_its_tenant() {
    let world = world().await;
    let app = world.open().await;
    let start = async |who: &str| {
        let shown = format!("Bearer {who}");
        let headers = [("authorization", shown.as_str()), ("idempotency-key", "1")];
        let body = json!({"name": "Ask", "wait": true});
        call(&app, Method::POST, "/v1/executions", &headers, body).await.run().id
    };
    let mut ids = Vec::new();
    for who in ["root", "ci", "jane@example"] {
        ids.push(start(who).await);
        assert_eq!(start(who).await, ids[ids.len() - 1], "{who}");
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[tokio::test]
async fn the_failures_of_one_tenant_leave_a_host_open_for_others() {
    let mut world = world().await;
    world.config.hosts.default.breaker_failures = 2;
    let steps = json!([task("ask", "GET /status/503", json!({}), json!({"x": "$.value"}))]);
    world.registry.publish("Broken", "1.0.0", &json!({"execution": sequence(steps)}));
    let app = world.open().await;
    let run = async |who: &str, name: &str| {
        let body = json!({"name": name, "wait": true});
        call_as(&app, who, Method::POST, "/v1/executions", body).await.run()
    };
    run("bob", "Broken").await;
    assert_eq!(run("bob", "Ask").await.error.unwrap().code, "A2S360");
    assert_succeeded(&run("alice", "Ask").await);
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

#[tokio::test]
async fn only_admins_see_the_tenant_of_a_run() {
    let world = world().await;
    let app = world.open().await;
    let body = json!({"name": "Ask", "wait": true});
    let start = async |who: &str| {
        call_as(&app, who, Method::POST, "/v1/executions", body.clone()).await.run()
    };
    let (of_ci, of_owner) = (start("ci").await, start("root").await);
    assert_eq!((of_ci.tenant, of_owner.tenant), (None, None));
    let path = format!("/v1/executions/{}", of_ci.id);
    let list = async |who: &str, query: &str| {
        let path = format!("/v1/executions?{query}");
        call_as(&app, who, Method::GET, &path, Value::Null).await
    };
    let ci: Principal = "ci".parse().unwrap();
    for who in ["root", "admin"] {
        let run = call_as(&app, who, Method::GET, &path, Value::Null).await.run();
        assert_eq!(run.tenant.as_ref(), Some(&ci));
        let all: ExecutionList = serde_json::from_value(list(who, "").await.body).unwrap();
        let tenants: Vec<_> = all.executions.into_iter().map(|run| run.tenant.unwrap()).collect();
        assert_eq!(tenants, [Principal::owner(), ci.clone()]);
        let own: ExecutionList = serde_json::from_value(list(who, "tenant=ci").await.body).unwrap();
        assert_eq!(own.executions.iter().map(|run| run.id).collect::<Vec<_>>(), [of_ci.id]);
    }
    // Others see their own, and nothing of what is not theirs.
    let run = call_as(&app, "ci", Method::GET, &path, Value::Null).await;
    assert_eq!(run.run().tenant, None);
    for (who, query, expected) in
        [("ci", "", vec![of_ci.id]), ("ci", "tenant=ci", vec![of_ci.id]), ("jane", "", vec![])]
    {
        let own = list(who, query).await;
        assert!(!own.body.to_string().contains("tenant"), "{}", own.body);
        let own: ExecutionList = serde_json::from_value(own.body).unwrap();
        let ids: Vec<_> = own.executions.iter().map(|run| run.id).collect();
        assert_eq!(ids, expected, "{who} {query}");
    }
    for (who, query) in [("jane", "tenant=ci"), ("ci", "tenant=owner"), ("ci", "tenant=ci/ann")] {
        let (status, code, _) = list(who, query).await.problem();
        assert_eq!((status, code.as_str()), (403, "A2S318"), "{who} {query}");
    }
}

/// A world with room for so many runs, each of which is held by the service.
async fn narrow(room: usize) -> World {
    let mut world = world().await;
    world.config.limits.max_runs = room;
    publish_held(&world);
    world
}

/// `Hold` asks for `/hold/WORD` and is held there.
fn publish_held(world: &World) {
    let inputs = json!({"pathParameters": {"word": "${word}"}});
    let steps = json!([task("ask", "GET /hold/{word}", inputs, json!({"x": "$.value"}))]);
    world.registry.publish("Hold", "1.0.0", &json!({"execution": sequence(steps)}));
}

/// Starts a run that is held at a word.
async fn hold(app: &App, who: &str, word: &str) -> Answer {
    let body = json!({"name": "Hold", "inputs": {"word": word}});
    call_as(app, who, Method::POST, "/v1/executions", body).await
}

async fn read_as_owner(app: &App, run: Uuid) -> a2s_api::Run {
    let path = format!("/v1/executions/{run}");
    call_as(app, "root", Method::GET, &path, Value::Null).await.run()
}

/// Waits until a run is at rest.
async fn rest(app: &App, run: Uuid) -> a2s_api::Run {
    let path = format!("/v1/executions/{run}/events");
    call_as(app, "root", Method::GET, &path, Value::Null).await;
    read_as_owner(app, run).await
}

#[tokio::test]
async fn a_run_without_room_waits_and_begins_when_there_is_some() {
    let mut world = World::new().await;
    world.config.limits.max_runs = 1;
    // Nothing is seen in time by looking now and then.
    world.config.limits.lease = Duration::from_secs(3_600);
    publish_held(&world);
    let app = world.open().await;
    let first = start(&app, "Hold", json!({"word": "a"})).await;
    world.service.arrived("GET /hold/a", 1).await;
    let body = json!({"name": "Hold", "inputs": {"word": "b"}});
    let key = [("idempotency-key", "k")];
    let answer = call(&app, Method::POST, "/v1/executions", &key, body.clone()).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED);
    let waiting = answer.run();
    assert_eq!(waiting.status, RunStatus::Queued);
    assert_eq!(read(&app, waiting.id).await.status, RunStatus::Queued);
    // The same key is the same run, and is awaited with its time in the queue.
    let again = call(&app, Method::POST, "/v1/executions", &key, body.clone()).await;
    assert_eq!((again.status, again.run()), (StatusCode::ACCEPTED, waiting.clone()));
    let list = async |status: &str| {
        let path = format!("/v1/executions?status={status}");
        let list = call(&app, Method::GET, &path, &[], Value::Null).await;
        let list: ExecutionList = serde_json::from_value(list.body).unwrap();
        list.executions.iter().map(|run| run.id).collect::<Vec<_>>()
    };
    assert_eq!((list("queued").await, list("running").await), (vec![waiting.id], vec![first]));
    let path = format!("/v1/executions/{}", waiting.id);
    let refused = call(&app, Method::DELETE, &path, &[], Value::Null).await;
    assert_eq!(refused.problem().1, "A2S309");
    let mut awaited = body;
    awaited["wait"] = json!(true);
    let (ended, recorded, ()) = tokio::join!(
        call(&app, Method::POST, "/v1/executions", &key, awaited),
        events(&app, waiting.id),
        async {
            assert_eq!(world.service.count("GET /hold/b"), 0);
            world.service.release("a");
            world.service.arrived("GET /hold/b", 1).await;
            world.service.release("b");
        }
    );
    assert_succeeded(&ended.run());
    assert_gapless(&recorded);
    assert_eq!(transcript(&recorded)[..3], ["run Hold 1.0.0", "queued", "resumed"]);
    assert_succeeded(&read(&app, first).await);
    assert!(world.metrics().contains("runs_queued_total 1"), "{}", world.metrics());
}

#[tokio::test]
async fn queued_run_is_cancelled_at_once() {
    let world = narrow(1).await;
    let app = world.open().await;
    let first = hold(&app, "root", "a").await.run().id;
    let waiting = hold(&app, "root", "b").await.run().id;
    let path = format!("/v1/executions/{waiting}/cancel");
    let run = call_as(&app, "root", Method::POST, &path, Value::Null).await.run();
    assert_eq!((run.status, run.error.unwrap().repeat_safe), (RunStatus::Cancelled, true));
    let last = hold(&app, "root", "c").await.run().id;
    world.service.release("a");
    world.service.release("c");
    assert_succeeded(&rest(&app, last).await);
    assert_succeeded(&rest(&app, first).await);
    assert_eq!(world.service.count("GET /hold/b"), 0);
    let again = call_as(&app, "root", Method::POST, &path, Value::Null).await;
    assert_eq!(again.problem().1, "A2S305");
}

#[tokio::test]
async fn tenant_does_not_wait_for_runs_of_another() {
    let world = narrow(2).await;
    let app = world.open().await;
    let mut many = Vec::new();
    for number in 0..6 {
        many.push(hold(&app, "many", &format!("m{number}")).await.run());
    }
    let statuses: Vec<_> = many.iter().map(|run| run.status).collect();
    assert_eq!(statuses[..2], [RunStatus::Running; 2]);
    assert_eq!(statuses[2..], [RunStatus::Queued; 4]);
    let one = hold(&app, "one", "x").await.run();
    assert_eq!(one.status, RunStatus::Queued);
    world.service.arrived("GET /hold/m1", 1).await;
    world.service.release("m0");
    world.service.arrived("GET /hold/x", 1).await;
    assert_eq!(read_as_owner(&app, many[2].id).await.status, RunStatus::Queued);
    // What is free then goes to the one who waits.
    world.service.release("x");
    world.service.arrived("GET /hold/m2", 1).await;
    for number in 1..6 {
        world.service.release(&format!("m{number}"));
    }
    for run in many {
        assert_succeeded(&rest(&app, run.id).await);
    }
}

#[tokio::test]
async fn tenant_quota_does_not_delay_other_tenants() {
    let mut world = narrow(10).await;
    world.config.limits.max_tenant_runs = NonZeroU32::new(1);
    world.config.limits.max_tenant_queued = 1;
    let more = TenantLimits { max_runs: NonZeroU32::new(2), max_queued: Some(0) };
    world.config.tenants.insert(TokenSubject::new("more").unwrap(), more);
    let app = world.open().await;
    let status = async |who: &str, word: &str| hold(&app, who, word).await.run().status;
    assert_eq!(status("ci", "a").await, RunStatus::Running);
    let waiting = hold(&app, "ci", "b").await.run();
    assert_eq!(waiting.status, RunStatus::Queued);
    let refused = hold(&app, "ci", "c").await;
    assert_eq!(refused.headers["retry-after"], "5");
    let (status_code, code, problem) = refused.problem();
    assert_eq!((status_code, code.as_str()), (429, "A2S306"));
    let message = "too many runs wait for a free slot: the limit is 1 for `ci`, and twice as many for all end users of `ci`";
    assert_eq!(problem.detail, message);
    // The others have limits of their own, and room.
    for who in ["root", "jane"] {
        let run = hold(&app, who, "d").await.run();
        world.service.release("d");
        assert_succeeded(&rest(&app, run.id).await);
    }
    assert_eq!(status("more", "e").await, RunStatus::Running);
    assert_eq!(status("more", "f").await, RunStatus::Running);
    assert_eq!(hold(&app, "more", "g").await.problem().1, "A2S306");
    assert_eq!(read_as_owner(&app, waiting.id).await.status, RunStatus::Queued);
    world.service.release("a");
    world.service.release("b");
    assert_succeeded(&rest(&app, waiting.id).await);
    assert_eq!(world.service.count("GET /hold/c"), 0);
}

#[tokio::test]
async fn what_waits_at_an_executor_that_stops_is_begun_by_the_next() {
    let world = narrow(1).await;
    let app = world.open().await;
    let first = hold(&app, "a", "a").await.run().id;
    let second = hold(&app, "b", "b").await.run().id;
    world.service.arrived("GET /hold/a", 1).await;
    app.shutdown(Duration::ZERO).await;
    drop(app);
    world.service.idle().await;
    let app = world.open().await;
    // What has begun goes on before anything else begins.
    world.service.arrived("GET /hold/a", 2).await;
    assert_eq!(read_as_owner(&app, second).await.status, RunStatus::Queued);
    world.service.release("a");
    world.service.release("b");
    for run in [first, second] {
        assert_succeeded(&rest(&app, run).await);
    }
    let recorded = world.query("SELECT type FROM event WHERE type = 'run_queued'").await;
    assert_eq!(recorded.len(), 1);
}

#[tokio::test]
async fn a_run_that_one_executor_has_no_room_for_begins_at_another() {
    if require_postgres_server().is_none() {
        return;
    }
    let mut world = narrow(1).await;
    // Nothing is seen in time by looking now and then.
    world.config.limits.lease = Duration::from_secs(3_600);
    let (one, other) = (world.open().await, world.open().await);
    let first = hold(&one, "a", "a").await.run().id;
    world.service.arrived("GET /hold/a", 1).await;
    let second = hold(&one, "a", "b").await.run();
    assert_eq!(second.status, RunStatus::Queued);
    world.service.arrived("GET /hold/b", 1).await;
    // Both are full now, and what waits goes to the first that is not.
    let third = hold(&other, "b", "c").await.run();
    assert_eq!(third.status, RunStatus::Queued);
    world.service.release("a");
    world.service.arrived("GET /hold/c", 1).await;
    world.service.release("b");
    world.service.release("c");
    for run in [first, second.id, third.id] {
        assert_succeeded(&rest(&other, run).await);
    }
}

#[tokio::test]
async fn each_caller_has_its_share_of_event_streams() {
    let world = world().await;
    publish_held(&world);
    let app = world.open().await;
    let follow = async |who: &str, run: Uuid| {
        let request = Request::get(format!("/v1/executions/{run}/events"))
            .header("authorization", format!("Bearer {who}"));
        app.router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    };
    let run = hold(&app, "ci", "held").await.run().id;
    let mut streams = Vec::new();
    for _ in 0..128 {
        streams.push(follow("ci", run).await);
        assert_eq!(streams[streams.len() - 1].status(), StatusCode::OK);
    }
    let path = format!("/v1/executions/{run}/events");
    let refused = call_as(&app, "ci", Method::GET, &path, Value::Null).await.problem();
    assert_eq!((refused.0, refused.1.as_str()), (429, "A2S396"));
    assert_eq!(follow("root", run).await.status(), StatusCode::OK);

    streams.pop();
    assert_eq!(follow("ci", run).await.status(), StatusCode::OK);
    world.service.release("held");
}

/// Each counts their own runs, and an administrator those of all.
#[tokio::test]
async fn usage_is_counted_over_time_by_capability_tenant_and_error() {
    let world = world().await;
    let steps = json!([task("ask", "GET /status/404", json!({}), json!({}))]);
    world.registry.publish("Bad", "1.0.0", &json!({"execution": sequence(steps)}));
    let app = world.open().await;
    let run = async |who: &str, name: &str| {
        let body = json!({"name": name, "wait": true});
        call_as(&app, who, Method::POST, "/v1/executions", body).await.run()
    };
    run("ci", "Ask").await;
    world.pass(Duration::from_secs(3600));
    run("root", "Ask").await;
    let bad = run("ci", "Bad").await;
    let usage = async |who: &str, query: &str| {
        let path = format!("/v1/usage?{query}");
        call_as(&app, who, Method::GET, &path, Value::Null).await
    };
    let own = usage("ci", "").await.body;
    assert_eq!((&own["total"]["runs"], &own["total"]["succeeded"]), (&json!(2), &json!(1)));
    assert_eq!(own["tenants"], Value::Null, "who else runs is for administrators");
    assert_eq!(own["complete"], true);
    let runs: Vec<_> =
        own["intervals"].as_array().unwrap().iter().map(|one| &one["runs"]).collect();
    assert_eq!((runs.len(), &runs[23..]), (25, &[&json!(1), &json!(1)][..]), "{own}");
    assert_eq!(own["errors"], json!([{"code": "A2S357", "runs": 1, "latest": bad.id}]));

    let all = usage("admin", "unit=day").await.body;
    assert_eq!(all["total"]["runs"], 3);
    let used: Vec<_> = all["capabilities"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (
                one["name"].as_str().unwrap(),
                one["runs"].as_u64().unwrap(),
                one["failed"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(used, [("Ask", 2, 0), ("Bad", 1, 1)]);
    let tenants: Vec<_> =
        all["tenants"].as_array().unwrap().iter().map(|one| &one["tenant"]).collect();
    assert_eq!(tenants, ["ci", "owner"]);
    assert!(all["total"]["p50_ms"].is_u64(), "{all}");

    let long = usage("ci", "unit=minute&since=2020-01-01T00:00:00Z").await.body;
    assert_eq!(
        (&long["complete"], long["intervals"].as_array().unwrap().len()),
        (&json!(false), 401)
    );
    let (status, _, _) = usage("ci", "unit=week").await.problem();
    assert_eq!(status, 400);
}
