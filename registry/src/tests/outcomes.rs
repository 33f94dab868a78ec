//! How runs end, and what comes of it for those who search.

use insta::assert_json_snapshot;
use serde_json::{Value, json};
use sqlx::migrate::Migrator;

use super::database::Folder;
use super::world::{World, document, settled};

/// Two capabilities that nothing tells apart but their names.
async fn two_alike() -> World {
    let world = World::new().await;
    world
        .publish_all([
            document("WeatherAlpha", "1.0.0", "Weather forecast for a city"),
            document("WeatherBravo", "1.0.0", "Weather forecast for a city"),
        ])
        .await;
    world
}

async fn search(world: &World, strategy: Value) -> Value {
    let request = json!({"intent": "weather forecast for a city", "strategy": strategy});
    world.post("/v1/search", &request).await.json()
}

async fn hit(world: &World, name: &str) -> Value {
    let answer = search(world, json!("highest_score")).await;
    let hits = answer["capabilities"].as_array().unwrap();
    hits.iter().find(|hit| hit["name"] == name).unwrap().clone()
}

/// A report on a hit.
fn report(run: u128, hit: &Value, more: &Value) -> Value {
    let mut report = json!({
        "run": uuid::Uuid::from_u128(run),
        "name": hit["name"],
        "version": hit["version"],
        "checksum": hit["checksum"],
        "success": true,
        "duration_ms": 12,
    });
    for (member, value) in more.as_object().unwrap() {
        report[member] = value.clone();
    }
    report
}

fn fault(blame: Option<&str>) -> Value {
    match blame {
        Some(blame) => json!({"success": false, "attribution": blame}),
        None => json!({"success": false}),
    }
}

/// Reports that the registry takes.
async fn tell(world: &World, reports: impl IntoIterator<Item = Value>) {
    for report in reports {
        let answer = world.post("/v1/outcomes", &report).await;
        assert_eq!(answer.status, 204, "{report} {}", answer.text());
    }
}

async fn stats(world: &World, name: &str) -> Value {
    world.get(&format!("/v1/capabilities/{name}/latest/stats")).await.json()
}

#[tokio::test]
async fn outcomes_count_once_and_only_against_whom_they_concern() {
    let world = two_alike().await;
    let hit = async || hit(&world, "WeatherAlpha").await;
    let before = hit().await;
    assert_eq!((&before["usage_count"], &before["success_rate"]), (&json!(0), &json!(null)));

    // What the caller or a guardian is to blame for is a run, but says nothing.
    let others = [(1, "caller"), (2, "guardian"), (3, "executor")];
    tell(&world, others.map(|(run, blame)| report(run, &before, &fault(Some(blame))))).await;
    let after = hit().await;
    assert_eq!((&after["usage_count"], &after["success_rate"]), (&json!(3), &json!(null)));

    tell(&world, (0..3).map(|_| report(4, &before, &json!({})))).await;
    let against = [(5, Some("service")), (6, Some("capability")), (7, None)];
    tell(&world, against.map(|(run, blame)| report(run, &before, &fault(blame)))).await;
    let after = hit().await;
    assert_eq!((&after["usage_count"], &after["success_rate"]), (&json!(7), &json!(0.25)));
}

#[tokio::test]
async fn reports_that_make_no_sense_are_refused() {
    let world = two_alike().await;
    let hit = hit(&world, "WeatherAlpha").await;
    let hosts = |count: usize, health: f64| {
        let host = |n: usize| json!({"host": format!("h{n}.example"), "health": health});
        json!({"hosts": (0..count).map(host).collect::<Vec<_>>()})
    };
    for (more, code) in [
        (json!({"checksum": format!("sha256:{}", "0".repeat(64))}), "A2S241"),
        (json!({"version": "7.0.0"}), "A2S221"),
        (json!({"attribution": "caller"}), "A2S240"),
        (json!({"class": "service"}), "A2S240"),
        (json!({"success": false, "code": "500 Internal Server Error"}), "A2S240"),
        (json!({"reporter": "x".repeat(65)}), "A2S240"),
        (json!({"session": "x".repeat(65)}), "A2S240"),
        (json!({"intent": "x".repeat(2001)}), "A2S240"),
        (json!({"intent": " "}), "A2S240"),
        (hosts(65, 1.0), "A2S240"),
        (hosts(1, 1.5), "A2S240"),
        // The world's clock stands at 2026-03-01.
        (json!({"finished_at": "2026-01-29T00:00:00Z"}), "A2S240"),
        (json!({"success": "yes"}), "A2S205"),
    ] {
        let answer = world.post("/v1/outcomes", &report(1, &hit, &more)).await;
        assert_eq!(answer.code(), code, "{more} {}", answer.text());
    }
    assert_eq!(stats(&world, "WeatherAlpha").await["runs"], 0);
}

#[tokio::test]
async fn stats_tell_how_runs_ended() {
    let world = two_alike().await;
    let empty = stats(&world, "WeatherBravo").await;
    assert_eq!(
        (&empty["runs"], &empty["latency"], &empty["last_run"]),
        (&json!(0), &json!(null), &json!(null))
    );

    let hit = hit(&world, "WeatherAlpha").await;
    let late =
        json!({"finished_at": "2026-02-15T12:00:00Z", "reporter": "other", "duration_ms": 900});
    let status = json!({
        "success": false, "code": "A2S357", "class": "service", "attribution": "service", "reporter": "one",
    });
    let input = json!({
        "success": false, "code": "A2S322", "class": "input", "attribution": "caller", "reporter": "one",
    });
    // Nothing ends in the future.
    let early = json!({"finished_at": "2027-01-01T00:00:00Z", "reporter": "one"});
    let reports = [&late, &status, &status, &input, &early].into_iter().zip(1..);
    tell(&world, reports.map(|(more, run)| report(run, &hit, more))).await;
    assert_json_snapshot!(settled(stats(&world, "WeatherAlpha").await), @r#"
    {
      "name": "WeatherAlpha",
      "version": "1.0.0",
      "checksum": "[digest]",
      "runs": 5,
      "successes": 2,
      "faults": 2,
      "failures": [
        {
          "code": "A2S357",
          "class": "service",
          "attribution": "service",
          "count": 2
        },
        {
          "code": "A2S322",
          "class": "input",
          "attribution": "caller",
          "count": 1
        }
      ],
      "weights": {
        "successes": 1.5,
        "faults": 2.0,
        "runs": 4.5,
        "success_rate": 0.428571,
        "success_rate_lower": 0.492013,
        "half_life_days": 14.0
      },
      "latency": {
        "p50_ms": 12.337687,
        "p95_ms": 939.01214
      },
      "reporters": 2,
      "last_run": "2026-03-01T12:00:00Z"
    }
    "#);
    assert_eq!(world.get("/v1/capabilities/Nobody/latest/stats").await.code(), "A2S220");
    assert_eq!(world.get("/v1/capabilities/WeatherAlpha/2.0.0/stats").await.code(), "A2S221");
}

#[tokio::test]
async fn of_two_alike_the_one_that_works_comes_first() {
    let world = two_alike().await;
    for (name, more) in [("WeatherAlpha", fault(None)), ("WeatherBravo", json!({}))] {
        let hit = hit(&world, name).await;
        let base = if name == "WeatherAlpha" { 0 } else { 100 };
        tell(&world, (0..10).map(|run| report(base + run, &hit, &more))).await;
    }
    let answer = search(&world, json!("highest_score")).await;
    assert_eq!(answer["capabilities"][0]["name"], "WeatherBravo", "{answer:#}");
    assert_eq!(answer["metadata"]["strategy"], "highest_score");
}

#[tokio::test]
async fn failing_session_does_not_sink_a_capability() {
    let world = two_alike().await;
    let alpha = hit(&world, "WeatherAlpha").await;
    let session = |n: u128| json!({"reporter": "one", "session": format!("s{n}")});
    tell(&world, (0..100).map(|run| report(run, &alpha, &session(run)))).await;
    let mut noisy = fault(Some("service"));
    noisy["reporter"] = json!("one");
    noisy["session"] = json!("loop");
    tell(&world, (1_000..1_300).map(|run| report(run, &alpha, &noisy))).await;
    let stats = stats(&world, "WeatherAlpha").await;
    assert_eq!((&stats["successes"], &stats["faults"]), (&json!(100), &json!(300)));
    let rate = stats["weights"]["success_rate"].as_f64().unwrap();
    assert!(rate > 0.85, "{stats:#}");
}

#[tokio::test]
async fn a_service_that_is_down_moves_its_capabilities_behind_others() {
    let world = World::new().await;
    let on = |name: &str, host: &str| {
        super::world::document_for(name, "1.0.0", "Weather forecast for a city", host, &[])
    };
    world.publish_all([on("WeatherAlpha", "a.example"), on("WeatherBravo", "b.example")]).await;
    let first = async || search(&world, json!("highest_score")).await["capabilities"][0].clone();
    let usual = first().await;
    let host = if usual["name"] == "WeatherAlpha" { "a.example" } else { "b.example" };
    // It is the caller's fault, and tells of the host all the same.
    let mut down = fault(Some("caller"));
    down["hosts"] = json!([{"host": host, "health": 0.0}]);
    tell(&world, [report(1, &usual, &down)]).await;
    assert_ne!(first().await["name"], usual["name"]);
    let behind = hit(&world, usual["name"].as_str().unwrap()).await;
    let health = behind["explanation"].as_array().unwrap().last().unwrap();
    assert_eq!((&health["term"], &health["value"]), (&json!("service_health"), &json!(0.0)));
    let up = json!({"hosts": [{"host": host, "health": 1.0}]});
    tell(&world, [report(2, &usual, &up)]).await;
    assert_eq!(first().await["name"], usual["name"]);
}

#[tokio::test]
async fn strategies_fall_back_and_say_so() {
    let world = two_alike().await;
    let proven = json!({"successRate": 1, "minimum": {"success_rate": 0.7}});
    let answer = search(&world, json!([proven, "most_similar"])).await;
    assert_eq!(answer["metadata"]["strategy"], "2: most_similar");
    assert_eq!(answer["metadata"]["total_matches"], 2);
    let none = search(&world, proven.clone()).await;
    assert_eq!(
        none["metadata"]["message"],
        "2 capabilities match, but the strategy requires `success_rate` at least 0.7"
    );
    assert_eq!(none["metadata"]["total_matches"], 0);

    let bravo = hit(&world, "WeatherBravo").await;
    tell(&world, (0..20).map(|run| report(run, &bravo, &json!({})))).await;
    let answer = search(&world, json!([proven, "most_similar"])).await;
    assert_eq!(answer["metadata"]["strategy"], "1: weights");
    let hits = answer["capabilities"].as_array().unwrap();
    assert_eq!(hits.iter().map(|hit| &hit["name"]).collect::<Vec<_>>(), ["WeatherBravo"]);
    let sum: f64 = hits[0]["explanation"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["contribution"].as_f64().unwrap())
        .sum();
    assert_eq!(json!(sum), hits[0]["rank_score"]);
}

#[tokio::test]
async fn runs_without_a_session_are_not_taken_for_those_of_one() {
    let world = two_alike().await;
    let alpha = hit(&world, "WeatherAlpha").await;
    let told = (0..60).map(|run| report(run, &alpha, &json!({"reporter": "one"})));
    tell(&world, told).await;
    let stats = world.get("/v1/capabilities/WeatherAlpha/1.0.0/stats").await.json();
    // One session would have a weight of 8.
    assert!(stats["weights"]["runs"].as_f64().unwrap() > 40.0, "{stats}");
}

#[tokio::test]
async fn equal_scores_are_in_order_of_similarity_and_then_of_name() {
    let world = World::new().await;
    world
        .publish_all([
            document("Bravo", "1.0.0", "北京的天气"),
            document("Alpha", "1.0.0", "北京的天气"),
            document("Hail", "1.0.0", "Storms of the last years"),
            document("Zephyr", "1.0.0", "Weather forecast for a city"),
        ])
        .await;
    let names = async |intent: &str| {
        let request = json!({"intent": intent, "strategy": {"complexity": 1}});
        world.post("/v1/search", &request).await.names()
    };
    let near = names("weather forecast and storms in a city").await;
    assert_eq!(near[..2], ["Zephyr", "Hail"]);
    // The embedder knows no word of it, so both are equally similar.
    assert_eq!(names("北京的天气").await, ["Alpha", "Bravo"]);
}

/// What was counted before weights were kept goes on to count.
#[tokio::test]
async fn outcomes_of_an_older_database_are_kept() {
    static MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");
    let folder = Folder::with_file();
    let pool = folder.file().await;
    let first = MIGRATIONS.iter().take(1).cloned().collect::<Vec<_>>();
    Migrator { migrations: first.into(), ..Migrator::DEFAULT }.run(&pool).await.unwrap();
    let source = document("WeatherAlpha", "1.0.0", "Weather forecast for a city");
    let digest = a2s::compile(source.as_bytes()).digest.unwrap();
    for sql in [
        "INSERT INTO capability (id, name, slug) VALUES (1, 'WeatherAlpha', 'weather-alpha')",
        "INSERT INTO version (id, capability, version, digest, complexity, published_at, runs, \
         successes, faults) VALUES (1, 1, '1.0.0', ?1, 0, 0, 40, 30, 10)",
        "UPDATE capability SET head = 1",
        "INSERT INTO document (version, source) VALUES (1, ?2)",
        "INSERT INTO change (capability, at) VALUES (1, 0)",
        // One of four failed, at the time where the clock of the world stands.
        "INSERT INTO outcome (run, version, success, code, blame, duration_ms, at) \
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 40) \
         SELECT printf('%08x-0000-0000-0000-000000000000', i), 1, i % 4 > 0, \
         iif(i % 4, NULL, 'A2S357'), iif(i % 4, NULL, 'service'), 10, 1772366400000 FROM n",
    ] {
        let query = sqlx::query(sqlx::AssertSqlSafe(sql));
        let query = match (sql.contains("?1"), sql.contains("?2")) {
            (true, _) => query.bind(digest.to_string()),
            (_, true) => query.bind("").bind(&source),
            _ => query,
        };
        query.execute(&pool).await.unwrap();
    }
    pool.close().await;

    let world = World::open(folder).await;
    let after = stats(&world, "WeatherAlpha").await;
    assert_eq!((&after["runs"], &after["reporters"]), (&json!(40), &json!(1)));
    assert_eq!(
        after["failures"],
        json!([{"code": "A2S357", "attribution": "service", "count": 10}])
    );
    assert_eq!(after["weights"]["success_rate"], 0.75);
    assert_eq!(after["weights"]["runs"], 8.0);
    // A run that was reported before does not count again.
    let alpha = hit(&world, "WeatherAlpha").await;
    tell(&world, [report(1 << 96, &alpha, &json!({}))]).await;
    assert_eq!(stats(&world, "WeatherAlpha").await["runs"], 40);
}
