//! Plans that are run: exactly as they were shown, once, for a quarter of an hour, or not at all.

use std::time::Duration;

use a2s::{Domain, Secret};
use a2s_api::{EventKind, PlanResponse};
use axum::http::{Method, StatusCode};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::credentials::{guarded, set};
use super::world::{
    Answer, World, assert_succeeded, call, events, output, read, run, sequence, task, wait_for,
};
use crate::{App, FailMode, GuardianSettings};

const MINUTES: Duration = Duration::from_secs(60);

/// A capability that needs `city`, in so many versions.
fn publish(world: &World, version: &str) {
    world.registry.publish(
        "Echo",
        version,
        &json!({"execution": sequence(json!([
            task("read", "GET /echo/{city}", json!({"city": "${city}"}), json!({"heard": "$.value"})),
            task("write", "POST /say", json!({"body": "${heard}"}), json!({"said": "$.body"})),
        ]))}),
    );
}

async fn plan(app: &App, request: Value) -> PlanResponse {
    let answer = call(app, Method::POST, "/v1/plans", &[], request).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    serde_json::from_value(answer.body).unwrap()
}

/// The token of a plan that can be run.
async fn token(app: &App, request: Value) -> String {
    let plan = plan(app, request).await;
    assert_eq!(plan.no_token_reason, None);
    plan.token.unwrap()
}

async fn run_plan(app: &App, token: &str, headers: &[(&str, &str)]) -> Answer {
    let body = json!({"plan": token, "wait": true});
    call(app, Method::POST, "/v1/executions", headers, body).await
}

async fn put(app: &App, path: &str, value: Value) {
    let answer = call(app, Method::PUT, path, &[], value).await;
    assert!(answer.status.is_success(), "{path} {}", answer.body);
}

/// What is told of a plan that does not hold any more.
async fn differences(app: &App, token: &str) -> String {
    let (status, code, problem) = run_plan(app, token, &[]).await.problem();
    assert_eq!((status, code.as_str()), (409, "A2S378"), "{problem}");
    assert!(problem.hint.unwrap().contains("a2s run NAME --dry-run"));
    let told = problem.detail.strip_prefix("the run would differ from the plan: ");
    assert_eq!(told, Some(problem.differences.join("; ").as_str()));
    told.unwrap().to_owned()
}

fn echo() -> Value {
    json!({"name": "Echo", "inputs": {"city": "Paris"}})
}

#[tokio::test]
async fn a_plan_is_run_as_it_was_shown_and_only_once() {
    let world = World::new().await;
    publish(&world, "1.0.0");
    let app = world.open().await;
    let shown =
        plan(&app, json!({"name": "Echo", "inputs": {"city": "Paris"}, "session": "s"})).await;
    let token = shown.token.unwrap();
    assert!(token.len() == 32 && shown.no_token_reason.is_none());
    let run = run_plan(&app, &token, &[]).await.run();
    assert_succeeded(&run);
    assert_eq!((run.plan, output(&run)["heard"].as_str()), (shown.digest, Some("Paris")));
    let told = events(&app, run.id).await;
    let EventKind::RunStarted(started) = &told[0].kind else { panic!() };
    assert_eq!((started.plan, started.session.as_str()), (shown.digest, "s"));
    assert_eq!(read(&app, run.id).await.plan, shown.digest);

    let (status, code, problem) = run_plan(&app, &token, &[]).await.problem();
    assert_eq!((status, code.as_str()), (409, "A2S377"));
    assert!(problem.detail.contains(&run.id.to_string()), "{problem}");
    assert_eq!(world.service.count("POST /say"), 1);
    // A plan stays used when its run is forgotten.
    let path = format!("/v1/executions/{}", run.id);
    assert_eq!(call(&app, Method::DELETE, &path, &[], Value::Null).await.status, 204);
    assert_eq!(run_plan(&app, &token, &[]).await.problem().1, "A2S377");

    let (status, code, _) = run_plan(&app, &"0".repeat(32), &[]).await.problem();
    assert_eq!((status, code.as_str()), (404, "A2S375"));
    // A run that was started by its name has no plan.
    assert_eq!(super::world::run(&app, "Echo", json!({"city": "Rome"})).await.plan, None);
}

#[tokio::test]
async fn two_starts_at_once_make_one_run() {
    let world = World::new().await;
    publish(&world, "1.0.0");
    let app = world.open().await;
    for _ in 0..8 {
        let token = token(&app, echo()).await;
        let before = world.count_rows("run").await;
        let starts = (0..8).map(|_| run_plan(&app, &token, &[]));
        let answers = futures::future::join_all(starts).await;
        let (started, refused): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|answer| answer.status.is_success());
        assert_eq!((started.len(), refused.len()), (1, 7));
        for answer in refused {
            assert_eq!(answer.problem().1, "A2S377");
        }
        assert_eq!(world.count_rows("run").await, before + 1);
    }
}

#[tokio::test]
async fn same_idempotency_key_returns_the_same_run() {
    let world = World::new().await;
    publish(&world, "1.0.0");
    let app = world.open().await;
    let first = token(&app, echo()).await;
    let key = [("idempotency-key", "k")];
    let starts = (0..8).map(|_| run_plan(&app, &first, &key));
    let runs = futures::future::join_all(starts).await;
    let ids: std::collections::BTreeSet<_> = runs.into_iter().map(|run| run.run().id).collect();
    assert_eq!((ids.len(), world.service.count("POST /say")), (1, 1));
    // Long after the plan has expired, too.
    world.pass(MINUTES * 120);
    let app = world.crash_and_open(app).await;
    assert_eq!(run_plan(&app, &first, &key).await.run().id, *ids.first().unwrap());
    // Without the key, or with another plan under it, it is another request.
    assert_eq!(run_plan(&app, &first, &[]).await.problem().1, "A2S375");
    let second = token(&app, echo()).await;
    assert_eq!(run_plan(&app, &second, &key).await.problem().1, "A2S303");
    // And that has not used the plan up.
    assert_succeeded(&run_plan(&app, &second, &[]).await.run());
}

#[tokio::test]
async fn a_plan_ends_after_a_quarter_of_an_hour() {
    let world = World::new().await;
    publish(&world, "1.0.0");
    let app = world.open().await;
    let shown = plan(&app, echo()).await;
    let expires_at = shown.expires_at.unwrap();
    let (early, late) = (token(&app, echo()).await, shown.token.unwrap());
    world.pass(MINUTES * 14 + MINUTES / 2);
    assert_succeeded(&run_plan(&app, &early, &[]).await.run());
    world.pass(MINUTES / 2);
    let (status, code, problem) = run_plan(&app, &late, &[]).await.problem();
    assert_eq!((status, code.as_str()), (410, "A2S376"));
    assert!(problem.detail.contains(&format!("{expires_at:.0}")), "{problem}");

    // What has ended is emptied, and forgotten a while later.
    let app = world.crash_and_open(app).await;
    assert_eq!(run_plan(&app, &late, &[]).await.problem().1, "A2S376");
    assert_eq!(world.count_rows("plan WHERE sealed IS NOT NULL").await, 0);
    assert_eq!(world.count_rows("plan").await, 2);
    world.pass(MINUTES * 60);
    let app = world.crash_and_open(app).await;
    assert_eq!(world.count_rows("plan").await, 0);
    assert_eq!(run_plan(&app, &late, &[]).await.problem().1, "A2S375");
}

#[tokio::test]
async fn published_or_yanked_version_is_a_plan_difference() {
    let world = World::new().await;
    publish(&world, "1.2.0");
    let app = world.open().await;
    let ranged =
        token(&app, json!({"name": "Echo", "version": "^1", "inputs": {"city": "x"}})).await;
    let exact =
        token(&app, json!({"name": "Echo", "version": "1.2.0", "inputs": {"city": "x"}})).await;
    publish(&world, "1.3.0");
    assert_eq!(differences(&app, &ranged).await, "`Echo` is now version 1.3.0, and was 1.2.0");
    // A refusal uses nothing up, and changes nothing.
    assert_eq!(differences(&app, &ranged).await, "`Echo` is now version 1.3.0, and was 1.2.0");
    assert_eq!(run_plan(&app, &exact, &[]).await.run().version.to_string(), "1.2.0");

    let newest = token(&app, echo()).await;
    world.registry.tamper("Echo", |published| published.yanked = true);
    // Another version was withdrawn: nothing differs.
    let run = run_plan(&app, &newest, &[]).await.run();
    assert_eq!(run.version.to_string(), "1.3.0");
    let old = json!({"name": "Echo", "version": "~1.2", "inputs": {"city": "x"}});
    let gone = call(&app, Method::POST, "/v1/plans", &[], old.clone()).await;
    assert_eq!(gone.problem().1, "A2S312");
    world.registry.tamper("Echo", |published| published.yanked = false);
    let withdrawn = token(&app, old).await;
    world.registry.tamper("Echo", |published| published.yanked = true);
    let told = differences(&app, &withdrawn).await;
    assert!(told.contains("no live version that matches `~1.2`"), "{told}");
    assert!(world.service.count("POST /say") == 2);
}

#[tokio::test]
async fn a_dependency_that_is_published_meanwhile_is_a_difference() {
    let world = World::new().await;
    let inner = |version: &str| {
        let ask =
            task("ask", "GET /echo/{city}", json!({"city": "${city}"}), json!({"x": "$.value"}));
        world.registry.publish("Inner", version, &json!({"execution": sequence(json!([ask]))}));
    };
    inner("1.0.0");
    let call_it =
        json!({"id": "call", "type": "capability", "use": "Inner", "output_mapping": {"x": "$.x"}});
    world.registry.publish(
        "Outer",
        "1.0.0",
        &json!({
            "dependencies": [{"capability": "Inner", "version": "^1"}],
            "execution": sequence(json!([call_it])),
        }),
    );
    let app = world.open().await;
    let token = token(&app, json!({"name": "Outer", "inputs": {"city": "x"}})).await;
    inner("1.1.0");
    assert_eq!(
        differences(&app, &token).await,
        "the version of `Inner` is now 1.1.0, and was 1.0.0"
    );
    assert!(world.service.asked().is_empty());
}

#[tokio::test]
async fn changed_state_is_a_plan_difference() {
    let world = World::new().await;
    publish(&world, "1.0.0");
    let app = world.open().await;
    put(&app, "/v1/state/city", json!("Paris")).await;
    let request = || json!({"name": "Echo", "session": "mine"});
    let token = token(&app, request()).await;
    put(&app, "/v1/state/city", json!("Oslo")).await;
    assert_eq!(differences(&app, &token).await, "state `city` has changed");
    put(&app, "/v1/sessions/mine/state/city", json!("Paris")).await;
    assert_eq!(
        differences(&app, &token).await,
        "state `city` now comes from session state, and came from persistent state"
    );
    for path in ["/v1/sessions/mine/state/city", "/v1/state/city"] {
        assert_eq!(call(&app, Method::DELETE, path, &[], Value::Null).await.status, 204);
    }
    assert_eq!(differences(&app, &token).await, "state `city` is not remembered any more");
    put(&app, "/v1/state/city", json!("Paris")).await;
    let run = run_plan(&app, &token, &[]).await.run();
    assert_eq!(output(&run)["heard"], "Paris");
    assert_eq!(world.service.count("POST /say"), 1);
}

#[tokio::test]
async fn a_credential_that_is_replaced_or_removed_is_a_difference() {
    let world = World::new().await;
    let schemes = json!({"key": {"type": "http", "scheme": "bearer"}});
    let step = guarded("ask", "GET /echo/x", json!([{"key": []}]), schemes);
    world.registry.publish("Wants", "1.0.0", &json!({"execution": sequence(json!([step]))}));
    let app = world.open().await;
    let lacking = plan(&app, json!({"name": "Wants"})).await;
    assert_eq!((lacking.token, lacking.digest, lacking.expires_at), (None, None, None));
    let why = lacking.no_token_reason.unwrap();
    assert!(why.contains("the credential `key` for api.example is missing"), "{why}");

    let bearer = |token: &str| json!({"kind": "bearer", "token": token});
    set(&app, "api.example", "key", bearer("canary-one")).await;
    let shown = plan(&app, json!({"name": "Wants"})).await;
    assert!(shown.credentials[0].set_at.is_some());
    let token = shown.token.unwrap();
    set(&app, "api.example", "key", bearer("canary-two")).await;
    let told = differences(&app, &token).await;
    assert_eq!(told, "credential `key` for api.example was replaced");
    let path = "/v1/secrets/api.example/key";
    assert_eq!(call(&app, Method::DELETE, path, &[], Value::Null).await.status, 204);
    let told = differences(&app, &token).await;
    assert_eq!(told, "credential `key` for api.example is not sent any more");
}

#[tokio::test]
async fn upstreams_and_guardian_settings_are_part_of_a_plan() {
    let mut world = World::new().await;
    publish(&world, "1.0.0");
    world.guardian.set_policy("strict");
    let app = world.open().await;
    let shown = plan(&app, echo()).await;
    let name = shown.guardians[0].guardian.clone();
    assert_eq!(shown.policies[&name], "strict");
    let token = shown.token.unwrap();
    world.guardian.set_policy("lax");
    let differs = format!("the policy of guardian {name} is now lax, and was strict");
    assert_eq!(differences(&app, &token).await, differs);
    world.guardian.set_policy("strict");
    world.crash(app).await;

    let before = world.config.clone();
    let host = Domain::new("api.example").unwrap();
    world.config.upstreams.insert(host.clone(), "http://127.0.0.1:9/".parse().unwrap());
    let guardian = world.guarded_by();
    guardian.fail = FailMode::Open.into();
    let app = world.open().await;
    let was = &before.upstreams[&host];
    assert_eq!(
        differences(&app, &token).await,
        format!(
            "connections for api.example now go to http://127.0.0.1:9/, and went to {was}; \
             the fail mode of guardian {name} is now open, and was closed"
        )
    );
    world.crash(app).await;
    world.config.upstreams.remove(&host);
    world.config.guardian = GuardianSettings::Off;
    let app = world.open().await;
    let told = differences(&app, &token).await;
    assert!(told.contains(&format!("now go to the host itself, and went to {was}")), "{told}");
    assert!(told.contains("the guardian is now off, and was http://127.0.0.1:"), "{told}");
    let policy = format!("the policy of guardian {name} is now unknown, and was strict");
    assert!(told.contains(&policy), "{told}");
    world.crash(app).await;

    world.config = before;
    let app = world.open().await;
    assert_succeeded(&run_plan(&app, &token, &[]).await.run());
}

#[tokio::test]
async fn a_plan_that_could_not_be_run_has_no_token_and_says_why() {
    let mut world = World::new().await;
    publish(&world, "1.0.0");
    world.config.limits.max_plans = 2;
    let app = world.open().await;
    let refused = async |request: Value, expected: &str| {
        let shown = plan(&app, request).await;
        assert_eq!((shown.token, shown.digest), (None, None));
        let why = shown.no_token_reason.unwrap();
        assert!(why.contains(expected), "{why}");
    };
    refused(json!({"name": "Echo"}), "`Echo` requires `city`").await;
    let large = json!({"name": "Echo", "inputs": {"city": 9_007_199_254_740_993_u64}});
    refused(large, "no canonical form").await;
    let long = json!({"name": "Echo", "inputs": {"city": "x".repeat(600 << 10)}});
    refused(long, "more than 1048576 bytes").await;
    let full = "too many unused plans: the limit is 2 plans in total, 250 plans for one caller";
    let first = token(&app, echo()).await;
    token(&app, echo()).await;
    refused(echo(), full).await;
    // One that was run waits no more, and neither does one that has ended.
    assert_succeeded(&run_plan(&app, &first, &[]).await.run());
    token(&app, echo()).await;
    refused(echo(), full).await;
    world.pass(MINUTES * 15);
    token(&app, echo()).await;
}

#[tokio::test]
async fn a_plan_takes_the_place_of_everything_else() {
    let world = World::new().await;
    publish(&world, "1.0.0");
    let app = world.open().await;
    let token = token(&app, echo()).await;
    for more in [
        json!({"name": "Echo"}),
        json!({"version": "1.0.0"}),
        json!({"inputs": {"city": "Rome"}}),
        json!({"session": "s"}),
        json!({"lock": []}),
    ] {
        let mut body = json!({"plan": token});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let refused = call(&app, Method::POST, "/v1/executions", &[], body).await;
        assert_eq!(refused.problem().1, "A2S300", "{more}");
    }
    let neither = call(&app, Method::POST, "/v1/executions", &[], json!({"inputs": {}})).await;
    assert!(neither.problem().2.detail.contains("`name` or `plan`"));
    assert_succeeded(&run_plan(&app, &token, &[]).await.run());
}

#[tokio::test]
async fn what_fails_in_the_middle_loses_neither_plan_nor_run() {
    let world = World::new().await;
    publish(&world, "1.0.0");
    let app = world.open().await;
    let token = token(&app, echo()).await;
    // The database fails behind the mark on the plan, and behind the run's own row.
    for place in ["AFTER UPDATE ON plan", "BEFORE INSERT ON event"] {
        world.break_database(place).await;
        let (status, code, _) = run_plan(&app, &token, &[]).await.problem();
        assert_eq!((status, code.as_str()), (500, "A2S390"), "{place}");
        world.mend_database().await;
        assert_eq!(world.count_rows("run").await, 0, "{place}");
        assert_eq!(world.count_rows("plan WHERE used_by IS NULL AND sealed IS NOT NULL").await, 1);
    }
    let body = json!({"plan": token});
    let id = call(&app, Method::POST, "/v1/executions", &[], body).await.run().id;
    world.crash(app).await;
    // Both are there behind a crash.
    let app = world.open().await;
    wait_for(&app, id, |kind| matches!(kind, EventKind::RunFinished { .. })).await;
    assert_succeeded(&read(&app, id).await);
    assert_eq!(run_plan(&app, &token, &[]).await.problem().1, "A2S377");
    assert_eq!(world.service.count("POST /say"), 1);
}

#[tokio::test]
async fn plans_of_runs_in_memory_are_in_memory() {
    let mut world = World::new().await;
    world.config.durability = crate::Durability::Memory;
    publish(&world, "1.0.0");
    let app = world.open().await;
    let token = token(&app, echo()).await;
    assert_eq!(world.count_rows("plan").await, 0);
    assert_succeeded(&run_plan(&app, &token, &[]).await.run());
    assert_eq!(run_plan(&app, &token, &[]).await.problem().1, "A2S377");
}

#[tokio::test]
async fn secret_input_is_not_in_a_plan() {
    const SECRET: &str = "hunter2 canary/&%";
    let world = World::new().await;
    let keep = |secret: bool| {
        json!({
            "parameters": [{"name": "token", "type": "string", "secret": secret}, {"name": "note"}],
            "execution": sequence(json!([
                task("say", "POST /say", json!({"body": ["${token}", "${note}"]}), json!({"said": "$.body"})),
            ])),
        })
    };
    world.registry.publish_newer("Keep", &keep(true));
    let app = world.open().await;
    let request = |secret: &str| json!({"name": "Keep", "inputs": {"token": secret, "note": format!("see {secret}")}});
    let answer = call(&app, Method::POST, "/v1/plans", &[], request(SECRET)).await;
    let shown: PlanResponse = serde_json::from_value(answer.body.clone()).unwrap();
    let token = shown.token.unwrap();
    let stored = String::from_utf8_lossy(&world.database_bytes().await).into_owned();
    for (what, text) in [("the plan", answer.body.to_string()), ("the database", stored)] {
        assert!(!text.contains("canary") && !text.contains("hunter2"), "{what}: {text}");
        // Nothing is in the database of the token either.
        assert!(what == "the plan" || !text.contains(&token));
    }
    // The digest is keyed: it differs for another secret, and the secret cannot be guessed from it.
    assert_ne!(plan(&app, request("another one")).await.digest, shown.digest);
    assert_eq!(plan(&app, request(SECRET)).await.digest, shown.digest);
    world.crash(app).await;

    // It needs to be given no second time, and is used.
    let app = world.open().await;
    assert_eq!(plan(&app, request(SECRET)).await.digest, shown.digest, "after a restart, too");
    let run = run_plan(&app, &token, &[]).await.run();
    assert_succeeded(&run);
    let sent = json!([SECRET, format!("see {SECRET}")]);
    assert_eq!(world.service.asked(), [("POST /say".to_owned(), sent)]);
    assert_eq!(output(&run)["said"], json!(["(secret)", "see (secret)"]));
    let told = json!(events(&app, run.id).await).to_string();
    assert!(!told.contains("canary"), "{told}");
    let stored = String::from_utf8_lossy(&world.database_bytes().await).into_owned();
    assert!(!stored.contains("canary"));
}

#[tokio::test]
async fn moved_or_resealed_plan_starts_nothing() {
    let world = World::new().await;
    publish(&world, "1.0.0");
    let app = world.open().await;
    let (first, second) = (token(&app, echo()).await, token(&app, echo()).await);
    world
        .change_database(
            "UPDATE plan SET nonce = (SELECT nonce FROM plan ORDER BY expires_at LIMIT 1),
                 sealed = (SELECT sealed FROM plan ORDER BY expires_at LIMIT 1)",
        )
        .await;
    assert_eq!(run_plan(&app, &second, &[]).await.problem().1, "A2S383");
    assert_succeeded(&run_plan(&app, &first, &[]).await.run());
    let third = token(&app, echo()).await;
    world.crash(app).await;
    let mut world = world;
    let key = "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk=";
    world.config.secret_key = crate::SecretKeySource::Given(Secret::new(key));
    world.forget_key().await;
    let app = world.open().await;
    assert_eq!(run_plan(&app, &third, &[]).await.problem().1, "A2S383");
    assert_eq!(world.count_rows("run").await, 1);
}

#[tokio::test]
async fn planning_and_running_a_plan_need_the_token_of_the_executor() {
    let mut world = World::new().await;
    publish(&world, "1.0.0");
    world.config.token = Some(Secret::new("right"));
    let app = world.open().await;
    let right = [("authorization", "Bearer right")];
    let answer = call(&app, Method::POST, "/v1/plans", &[], echo()).await;
    assert_eq!(answer.problem().1, "A2S301");
    let answer = call(&app, Method::POST, "/v1/plans", &right, echo()).await;
    let token = answer.body["token"].as_str().unwrap();
    // The token of a plan is no token of the executor.
    let bearer = format!("Bearer {token}");
    for headers in [&[][..], &[("authorization", bearer.as_str())]] {
        assert_eq!(run_plan(&app, token, headers).await.problem().1, "A2S301");
    }
    assert_succeeded(&run_plan(&app, token, &right).await.run());
}

#[tokio::test]
async fn a_journal_from_before_there_were_plans_is_read() {
    let world = World::new().await;
    publish(&world, "1.0.0");
    let app = world.open().await;
    let run = run(&app, "Echo", json!({"city": "Paris"})).await;
    let mut first = json!(events(&app, run.id).await[0]);
    assert_eq!(first.get("plan"), None, "what has no plan says nothing of one");
    let read: a2s_api::RunEvent = serde_json::from_value(first.clone()).unwrap();
    assert!(matches!(&read.kind, EventKind::RunStarted(started) if started.plan.is_none()));
    first["plan"] = json!(run.checksum);
    let read: a2s_api::RunEvent = serde_json::from_value(first).unwrap();
    assert!(matches!(&read.kind, EventKind::RunStarted(started) if started.plan.is_some()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Nothing but what is asked for and what is there goes into a digest: no time, no token, no
    /// order of members.
    #[test]
    fn equal_plans_have_equal_digests(
        city in "\\PC{0,20}",
        other in "\\PC{0,20}",
        extra in prop::collection::btree_map("[a-z]{1,6}", any::<i32>(), 0..4),
    ) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            // Hundreds of them would be made on a server.
            let world = World::in_file().await;
            publish(&world, "1.0.0");
            let app = world.open().await;
            let request = |city: &str, reversed: bool| {
                let mut members: Vec<_> = extra.iter().collect();
                if reversed {
                    members.reverse();
                }
                let members = members.into_iter().map(|(k, v)| (k.clone(), json!(v)));
                let inner: serde_json::Map<_, _> = members.collect();
                json!({"name": "Echo", "inputs": {"city": {"name": city, "more": inner}}})
            };
            let first = plan(&app, request(&city, false)).await;
            world.pass(MINUTES);
            let again = plan(&app, request(&city, true)).await;
            assert_eq!(first.digest, again.digest);
            assert_ne!(first.token, again.token);
            let another = plan(&app, request(&other, false)).await;
            assert_eq!(first.digest == another.digest, city == other);
            let app = world.crash_and_open(app).await;
            assert_eq!(plan(&app, request(&city, false)).await.digest, first.digest);
        });
    }
}
