//! Publish, search, verify, run, see what happened: with the command, over HTTP, and again after a
//! restart.

use serde_json::{Value, json};
use sqlx::{Connection as _, Row as _};

use crate::harness::{RUNTIME, World, shipped};
use crate::http::{get, send};

#[test]
fn everything_is_still_there_after_a_restart() {
    let mut world = World::up(&[]);
    let found = world.a2s(&["search", "canine breeds", "--json"]).exits(0).one();
    assert_eq!(found["capabilities"][0]["name"], "ListDogBreeds");
    let checksum = found["capabilities"][0]["checksum"].as_str().unwrap().to_owned();
    let run =
        world.a2s(&["run", "ListDogBreeds", "--checksum", &checksum, "--json"]).exits(0).one();
    assert_eq!(run["status"], "succeeded");
    assert_eq!(run["checksum"], checksum);
    let id = run["id"].as_str().unwrap().to_owned();

    for restart in ["stop", "kill"] {
        match restart {
            "stop" => drop(world.stop()),
            _ => world.kill(),
        }
        world.a2s(&["runs"]).exits(4);
        world.start();
        let verified = world.a2s(&["verify", "ListDogBreeds"]).exits(0);
        assert!(verified.stdout.starts_with(&checksum), "{verified:?}");
        assert_eq!(world.a2s(&["runs", &id, "--json"]).exits(0).one(), run);
        let found = world.a2s(&["search", "canine breeds", "--json"]).exits(0).one();
        assert_eq!(found["capabilities"][0]["name"], "ListDogBreeds");
        assert_eq!(found["capabilities"][0]["usage_count"], 1, "the outcome was reported");
        world.a2s(&["show", "PostWeatherTweet@^1"]).exits(0);
    }
}

#[test]
fn a_published_version_never_changes() {
    let world = World::up(&[]);
    let source = std::fs::read_to_string(shipped("GetJoke")).unwrap();
    let other = source.replacen("description: ", "description: Truly, ", 1);
    let other = world.write("other.yaml", &other);

    world.a2s(&["publish", &other]).exits(1);
    world.a2s(&["checksum", "--write", &other]).exits(0);
    let refused = world.a2s(&["publish", &other, "--json"]).exits(1).one();
    assert!(refused["error"]["message"].as_str().unwrap().contains("1.0.0"), "{refused}");

    let url = format!("{}v1/capabilities", world.url());
    let token = format!("Bearer {}", world.token());
    let headers = [("authorization", token.as_str()), ("content-type", "application/yaml")];
    let publish = |text: String| send("POST", &url, &headers, Some(text)).0;
    assert_eq!(publish(std::fs::read_to_string(&other).unwrap()), 409);
    assert_eq!(publish(source.clone()), 200);
    // Another spelling of the same content is the same version; the first text is kept.
    assert_eq!(publish(format!("# a remark\n{source}")), 200);
    let kept = world.a2s(&["show", "GetJoke", "--yaml"]).exits(0);
    assert_eq!(kept.stdout, source);
}

#[test]
fn a_row_changed_by_hand_is_never_offered_verified_or_run() {
    let mut world = World::up(&[]);
    world.stop();
    let database = format!("sqlite:{}", world.data().join("registry.sqlite").display());
    RUNTIME.block_on(async {
        let pool = sqlx::SqlitePool::connect(&database).await.unwrap();
        // Whatever the columns are called: the text of ListDogBreeds is changed wherever it stands.
        let tables = sqlx::query("SELECT m.name AS t, p.name AS c FROM sqlite_schema m JOIN pragma_table_info(m.name) p WHERE m.type = 'table'")
            .fetch_all(&pool).await.unwrap();
        let mut changed = 0;
        for row in tables {
            let (table, column): (String, String) = (row.get("t"), row.get("c"));
            let sql = format!(
                "UPDATE \"{table}\" SET \"{column}\" = CAST(replace(CAST(\"{column}\" AS TEXT), 'list of dog', 'lust of dog') AS BLOB) \
                 WHERE CAST(\"{column}\" AS TEXT) LIKE '%list of dog%' AND typeof(\"{column}\") = 'blob'"
            );
            changed += sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&pool).await.unwrap().rows_affected();
            let sql = format!(
                "UPDATE \"{table}\" SET \"{column}\" = replace(\"{column}\", 'list of dog', 'lust of dog') \
                 WHERE \"{column}\" LIKE '%list of dog%' AND typeof(\"{column}\") = 'text'"
            );
            changed += sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&pool).await.unwrap().rows_affected();
        }
        assert!(changed > 0);
        pool.close().await;
    });
    world.start();
    let found = world.a2s(&["search", "list dog breeds", "--json"]).exits(0).one();
    let names: Vec<_> =
        found["capabilities"].as_array().unwrap().iter().map(|hit| &hit["name"]).collect();
    assert!(!names.contains(&&json!("ListDogBreeds")), "{found}");
    let verified = world.a2s(&["verify", "ListDogBreeds", "--json"]).exits(1).one();
    assert_eq!(verified["valid"], false);
    let run = world.a2s(&["run", "ListDogBreeds", "--json"]);
    assert_ne!(run.code, 0, "{run:?}");
    assert!(run.one()["error"]["message"].is_string());
    assert_eq!(world.standin("dogapi.dog").requests(), 0);
}

#[test]
fn one_letter_changes_the_digest_and_layout_does_not() {
    let world = World::down(&[]);
    let source = std::fs::read_to_string(shipped("ListDogBreeds")).unwrap();
    let letter = world.write("letter.yaml", &source.replacen("list of dog", "lust of dog", 1));
    let refused = world.a2s(&["verify", &letter]).exits(1);
    assert!(refused.stdout.contains("A2S031"), "{refused:?}");
    let content = a2s::parse_value(source.as_bytes()).unwrap();
    let json =
        world.write("layout.json", &serde_json::to_string_pretty(&reversed(&content)).unwrap());
    let verified = world.a2s(&["verify", &json]).exits(0);
    let original = world.a2s(&["checksum", shipped("ListDogBreeds").to_str().unwrap()]).exits(0);
    assert_eq!(
        verified.stdout.split_whitespace().next(),
        original.stdout.split_whitespace().next()
    );
}

/// The same content with the members of every object in reverse order.
fn reversed(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            members.iter().rev().map(|(key, value)| (key.clone(), reversed(value))).collect()
        }
        Value::Array(items) => items.iter().map(reversed).collect(),
        scalar => scalar.clone(),
    }
}

#[test]
fn pins_are_filled_in_from_the_registry() {
    let world = World::up(&[]);
    let source = std::fs::read_to_string(shipped("WeatherAlertCapability")).unwrap();
    let placeholders: String = source
        .lines()
        .map(|line| match line.split_once("checksum: ") {
            Some((indent, _)) => format!("{indent}checksum: \"<later>\"\n"),
            None => format!("{line}\n"),
        })
        .collect();
    let path = world.write("pins.yaml", &placeholders);
    world.a2s(&["verify", &path]).exits(1);
    let printed = world.a2s(&["checksum", "--write", &path]).exits(0).stdout;
    assert_eq!(
        printed,
        world.a2s(&["checksum", shipped("WeatherAlertCapability").to_str().unwrap()]).stdout
    );
    world.a2s(&["verify", &path]).exits(0);
}

#[test]
fn without_its_guardian_a_run_sends_nothing() {
    let world = World::up(&["--guardian", "http://127.0.0.1:9/aos"]);
    let run = world.a2s(&["run", "ListDogBreeds"]).exits(4);
    assert!(run.stdout.contains("A2S342"), "{run:?}");
    assert_eq!(world.standin("dogapi.dog").requests(), 0);
}

#[test]
fn without_a_guardian_by_choice_every_surface_says_so() {
    let world = World::up(&["--guardian", "off"]);
    let plan = world.a2s(&["run", "ListDogBreeds", "--dry-run"]).exits(0);
    assert!(plan.stdout.contains("guardian off"), "{plan:?}");
    let run = world.a2s(&["run", "ListDogBreeds"]).exits(0);
    assert!(run.stdout.contains("unguarded"), "{run:?}");
}

#[test]
fn a_policy_denies_and_the_exit_code_says_so() {
    let policy = "version: 1\ndefault: deny\nrules: []\n";
    let mut world = World::down(&[]);
    let path = world.write("policy.yaml", policy);
    world.add_flags(&["--policy", &path]);
    world.start();
    let run = world.a2s(&["run", "ListDogBreeds", "--json"]).exits(3).one();
    assert_eq!(run["status"], "denied");
    assert_eq!(world.standin("dogapi.dog").requests(), 0);
}

#[test]
fn loopback_answers_its_own_names_and_the_owner_only() {
    let world = World::up(&[]);
    let search = format!("{}v1/search", world.url());
    let runs = format!("{}v1/executions", world.url());
    let post = |headers: &[(&str, &str)]| {
        let headers: Vec<_> =
            headers.iter().copied().chain([("content-type", "application/json")]).collect();
        send("POST", &search, &headers, Some(r#"{"intent": "dogs"}"#.to_owned())).0
    };
    assert_eq!(post(&[]), 200);
    assert_eq!(post(&[("host", "evil.example")]), 403);
    assert_eq!(post(&[("origin", "https://evil.example")]), 403);
    assert_eq!(post(&[("origin", "http://localhost:3000")]), 200);
    assert_eq!(get(&runs, &[]).0, 401);
    assert_eq!(get(&runs, &[("authorization", "Bearer wrong")]).0, 401);
    let token = format!("Bearer {}", world.token());
    assert_eq!(get(&runs, &[("authorization", &token)]).0, 200);
    let (status, body) = get(&format!("{}v1/nothing", world.url()), &[]);
    assert_eq!(status, 404);
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["code"], "A2S507");
    for page in ["healthz", "readyz", "metrics", "openapi.json", "docs/", "errors/A2S031"] {
        assert_eq!(get(&format!("{}{page}", world.url()), &[]).0, 200, "{page}");
    }
}

#[test]
fn what_is_missing_to_be_ready_is_told() {
    let world = World::up(&[]);
    // A supervisor has no token.
    let ask = || crate::harness::a2s(&["ready", "--json", "--url", world.url()]);
    assert_eq!(ask().exits(0).one(), json!({"ready": true}));
    let database = format!("sqlite:{}", world.data().join("registry.sqlite").display());
    let tell = |statement: &'static str| {
        RUNTIME.block_on(async {
            let mut database = sqlx::SqliteConnection::connect(&database).await.unwrap();
            sqlx::query(statement).execute(&mut database).await.unwrap();
        });
    };
    tell("ALTER TABLE change RENAME TO elsewhere");
    let missing = ask().exits(4).one();
    assert_eq!(missing["error"]["code"], "A2S513");
    let message = "the registry is not ready: the database did not respond";
    assert_eq!(missing["error"]["message"], message);
    // It is alive all the same.
    assert_eq!(get(&format!("{}healthz", world.url()), &[]).0, 200);
    tell("ALTER TABLE elsewhere RENAME TO change");
    ask().exits(0);
    let url = world.url().to_owned();
    drop(world);
    crate::harness::a2s(&["ready", "--url", &url]).exits(4);
}

#[test]
fn the_demo_holds_every_claim() {
    let demo = crate::harness::a2s(&["demo", "--json"]).exits(0).one();
    assert_eq!(demo["good"], true, "{demo}");
    assert!(demo["claims"].as_array().unwrap().len() >= 8);
}

#[test]
fn whoever_asks_a_guardian_cannot_approve() {
    let world = World::down(&[]);
    let guardian = world.service("guardian", &["--guardian-token", "for those who ask"]);
    let approvals = format!("{}v1/approvals", guardian.url());
    let owner = std::fs::read_to_string(world.data().join("token")).unwrap();
    let ask = |token: &str| {
        let shown = format!("Bearer {}", token.trim());
        get(&approvals, &[("authorization", &shown)]).0
    };
    assert_eq!(ask("for those who ask"), 401);
    assert_eq!(ask(&owner), 200);
    // On loopback, too, nobody asks it without a token.
    let aos = format!("{}aos", guardian.url());
    let ping = r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}"#;
    let ping = |token: Option<&str>| {
        let shown = token.map(|token| format!("Bearer {}", token.trim()));
        let shown = shown.as_ref().map(|shown| ("authorization", shown.as_str()));
        let headers: Vec<_> =
            shown.into_iter().chain([("content-type", "application/json")]).collect();
        send("POST", &aos, &headers, Some(ping.to_owned())).0
    };
    assert_eq!(ping(None), 401);
    assert_eq!(ping(Some("wrong")), 401);
    assert_eq!(ping(Some("for those who ask")), 200);
    assert_eq!(ping(Some(&owner)), 200);
    drop(guardian);
    let same = crate::harness::a2s_in(
        std::path::Path::new("."),
        &[("A2S_DATA_DIR", world.data().to_str().unwrap()), ("A2S_GUARDIAN_TOKEN", owner.trim())],
        &["serve", "guardian", "--listen", "127.0.0.1:0"],
    );
    assert!(same.exits(2).transcript().contains("the owner's"));
}

#[test]
fn three_services_apart_do_what_one_process_does() {
    let world = World::down(&[]);
    let guardian = world.service("guardian", &["--guardian-token", "of-agents"]);
    let registry = world.service("registry", &["--service-token", "of-services"]);
    let aos = format!("{}aos", guardian.url());
    let mut flags = vec!["--registry", registry.url(), "--guardian", aos.as_str()];
    flags.extend(["--registry-token", "of-services", "--guardian-token", "of-agents"]);
    flags.extend(world.upstreams());
    let executor = world.service("executor", &flags);

    let found = registry.a2s(&["search", "canine breeds", "--json"]).exits(0).one();
    assert_eq!(found["capabilities"][0]["name"], "ListDogBreeds");
    let run = executor.a2s(&["run", "ListDogBreeds", "--json"]).exits(0).one();
    assert_eq!(run["checksum"], found["capabilities"][0]["checksum"]);
    assert_eq!(world.standin("dogapi.dog").requests(), 1);
    assert_eq!(registry.a2s(&["run", "ListDogBreeds"]).code, 1, "a registry runs nothing");

    drop(guardian);
    executor.a2s(&["run", "ListDogBreeds"]).exits(4);
    assert_eq!(world.standin("dogapi.dog").requests(), 1);
    drop(registry);
    executor.a2s(&["run", "ListDogBreeds"]).exits(4);
}
