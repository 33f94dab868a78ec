//! The life of a published version, and who may lead it: commands, executor and registry together.

mod mirror;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::harness::{Ran, Server, World, a2s_in, root};
use crate::http;

/// The command as somebody with a token of their own.
fn a2s_as(token: &str, url: &str, arguments: &[&str]) -> Ran {
    a2s_in(std::path::Path::new("."), &[("A2S_URL", url), ("A2S_TOKEN", token)], arguments)
}

/// Makes a token.
fn token(world: &World, name: &str, scopes: &str) -> String {
    let made = ["tokens", "create", name, "--scope", scopes, "--json"];
    world.a2s(&made).exits(0).one()["token"].as_str().unwrap().to_owned()
}

#[test]
fn yanked_version_runs_by_number_with_warning() {
    let world = World::up(&[]);
    assert_snapshot!("yank", world.a2s(&["yank", "ListDogBreeds@1.0.0"]).transcript());
    let again = world.a2s(&["yank", "ListDogBreeds@1.0.0", "--json"]).exits(0).one();
    assert_eq!((&again["changed"], &again["latest"]), (&json!(false), &Value::Null));
    let found = world.a2s(&["search", "list of dog breeds", "--json"]).exits(1).one();
    assert!(!found["capabilities"].to_string().contains("ListDogBreeds"), "{found}");
    let shown = world.a2s(&["show", "ListDogBreeds@1.0.0"]).exits(0);
    assert!(shown.stdout.contains("yanked: kept for documents that pin it"), "{shown:?}");
    world.a2s(&["run", "ListDogBreeds"]).exits(1);
    let ran = world.a2s(&["run", "ListDogBreeds@1.0.0"]).exits(0);
    assert!(ran.stdout.contains("warning: ListDogBreeds 1.0.0 was yanked"), "{ran:?}");
    let plan = world.a2s(&["run", "ListDogBreeds@1.0.0", "--dry-run", "--json"]).exits(0).one();
    assert_eq!(plan["notices"][0]["yanked"], true, "{plan}");
    world.a2s(&["unyank", "ListDogBreeds@1.0.0"]).exits(0);
    let ran = world.a2s(&["run", "ListDogBreeds"]).exits(0);
    assert!(!ran.stdout.contains("warning"), "{ran:?}");

    // A lock goes on as before, and says what it stands on.
    let file = uses_dogs(&world);
    world.a2s(&["publish", &file]).exits(0);
    world.a2s(&["lock", &file]).exits(0);
    let refused = world.a2s(&["yank", "ListDogBreeds@1.0.0"]).exits(1);
    assert!(refused.stderr.contains("A2S224"), "{refused:?}");
    assert!(refused.stderr.contains("UsesDogs@1.0.0"), "{refused:?}");
    let forced = ["yank", "ListDogBreeds@1.0.0", "--force", "--json"];
    let yanked = world.a2s(&forced).exits(0).one();
    assert_eq!(yanked["impact"]["broken"][0]["id"], "UsesDogs@1.0.0", "{yanked}");
    world.a2s(&["run", "UsesDogs"]).exits(1);
    let lock = file.replace(".yaml", ".lock");
    let ran = world.a2s(&["run", "UsesDogs", "--lock", &lock]).exits(0);
    assert!(ran.stdout.contains("warning: ListDogBreeds 1.0.0 was yanked"), "{ran:?}");

    for (target, exit) in [("ListDogBreeds", 2), ("ListDogBreeds@^1", 2), ("Nothing@1.0.0", 1)] {
        world.a2s(&["yank", target]).exits(exit);
    }
}

/// A document that uses `ListDogBreeds`, with its checksum filled in.
fn uses_dogs(world: &World) -> String {
    let text = std::fs::read_to_string(root().join("tests/it/lifecycle/UsesDogs.yaml")).unwrap();
    let file = world.write("UsesDogs.yaml", &text);
    world.a2s(&["checksum", "--write", &file]).exits(0);
    file
}

#[test]
fn a_deprecated_version_says_so_wherever_it_is_met() {
    let world = World::up(&[]);
    let words = ["--successor", "GetJoke@^1", "--message", "the service ends in May"];
    let deprecate = [&["deprecate", "ListDogBreeds@1.0.0"][..], &words].concat();
    assert_snapshot!("deprecate", world.a2s(&deprecate).transcript());
    let told = "deprecated; use GetJoke@^1 instead: the service ends in May";
    for arguments in [
        &["show", "ListDogBreeds"][..],
        &["search", "list of dog breeds"],
        &["run", "ListDogBreeds", "--dry-run"],
        &["run", "ListDogBreeds"],
    ] {
        let ran = world.a2s(arguments).exits(0);
        assert!(ran.stdout.contains(told), "{arguments:?}: {ran:?}");
    }
    let file = uses_dogs(&world);
    let valid = world.a2s(&["validate", "--registry", &file]).exits(0);
    assert!(valid.stdout.contains("A2S073") && valid.stdout.contains(told), "{valid:?}");
    let published = world.a2s(&["publish", &file]).exits(0);
    assert!(published.stdout.contains("A2S073"), "{published:?}");
    world.a2s(&["deprecate", "ListDogBreeds@1.0.0", "--undo"]).exits(0);
    let shown = world.a2s(&["show", "ListDogBreeds"]).exits(0);
    assert!(!shown.stdout.contains("deprecated"), "{shown:?}");
    world.a2s(&["deprecate", "ListDogBreeds@1.0.0", "--undo", "--message", "x"]).exits(2);
    world.a2s(&["deprecate", "ListDogBreeds@1.0.0", "--successor", "no name"]).exits(2);
}

#[test]
fn tokens_open_what_they_say_in_every_service() {
    let world = World::up(&[]);
    let publish = token(&world, "ci", "publish");
    let execute = token(&world, "runner", "execute");
    let admin = token(&world, "boss", "admin");
    let url = world.url();
    let shipped = crate::harness::shipped("GetJoke");
    let shipped = shipped.to_str().unwrap();

    // The executor asks the registry.
    a2s_as(&execute, url, &["run", "ListDogBreeds"]).exits(0);
    for token in [&publish, &admin] {
        let ran = a2s_as(token, url, &["run", "ListDogBreeds", "--json"]).exits(1);
        assert_eq!(ran.one()["error"]["code"], "A2S318");
    }
    let ran = a2s_as("a2s_unknown", url, &["run", "ListDogBreeds", "--json"]).exits(1);
    assert_eq!(ran.one()["error"]["code"], "A2S301");
    a2s_as(&admin, url, &["secrets", "list"]).exits(0);
    let refused = a2s_as(&execute, url, &["secrets", "list", "--json"]).exits(1);
    assert_eq!(refused.one()["error"]["code"], "A2S318");
    a2s_as(&admin, url, &["trust", "list"]).exits(0);
    a2s_as(&execute, url, &["trust", "list"]).exits(1);
    let digest = format!("sha256:{}", "0".repeat(64));
    let accept = ["trust", "accept", "GetJoke@7.0.0", "--checksum", &digest, "--json"];
    for refused in [&accept[..], &["trust", "forget", "GetJoke@7.0.0", "--json"]] {
        let refused = a2s_as(&execute, url, refused).exits(1);
        assert_eq!(refused.one()["error"]["code"], "A2S318");
    }
    assert_eq!(a2s_as(&admin, url, &accept).exits(0).one()["accepted_by"], "boss");

    // And so does the agent.
    let ask = |token: &str| {
        let authorization = format!("Bearer {token}");
        let headers = [("authorization", &*authorization), ("content-type", "application/json")];
        let body = Some(json!({"message": "list dog breeds"}).to_string());
        http::send("POST", &format!("{url}v1/agent"), &headers, body)
    };
    assert_eq!(ask(&execute).0, 200);
    let (status, body) = ask(&publish);
    assert!(status == 403 && body.contains("A2S604"), "{status} {body}");
    assert_eq!(ask("wrong").0, 401);

    // What is shipped is the owner's: others may not publish there.
    let joke = std::fs::read_to_string(shipped).unwrap();
    let next = joke
        .replace("version: 1.0.0", "version: 1.0.1")
        .replace("version: \"1.0.0\"", "version: \"1.0.1\"");
    let file = world.write("GetJoke.yaml", &next);
    world.a2s(&["checksum", "--write", &file]).exits(0);
    let refused = a2s_as(&publish, url, &["publish", &file, "--skip-tests", "--json"]).exits(1);
    assert_eq!(refused.json()[0]["error"]["code"], "A2S214", "{refused:?}");
    world.a2s(&["owners", "GetJoke", "--add", "ci"]).exits(0);
    a2s_as(&publish, url, &["publish", &file, "--skip-tests"]).exits(0);
    assert_snapshot!("owners", world.a2s(&["owners", "GetJoke"]).transcript());
    world.a2s(&["owners", "GetJoke", "--add", "ci", "--remove", "owner"]).exits(2);

    assert_snapshot!("tokens", world.a2s(&["tokens", "list"]).transcript());
    world.a2s(&["tokens", "revoke", "ci"]).exits(0);
    a2s_as(&publish, url, &["publish", &file, "--skip-tests"]).exits(1);
    let audit = world.a2s(&["audit", "GetJoke", "--json"]).exits(0).json();
    let told: Vec<_> = audit.iter().map(|entry| (&entry["actor"], &entry["action"])).collect();
    let (ci, owner) = (json!("ci"), json!("owner"));
    let (publish, add) = (json!("publish"), json!("add_owner"));
    assert_eq!(told, [(&ci, &publish), (&owner, &add), (&owner, &publish)]);
    let shown = world.a2s(&["audit", "--limit", "2"]).exits(0).stdout;
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines.len() == 2 && lines[0].ends_with("owner  revoke_token  ci"), "{shown}");
    assert!(lines[1].ends_with("ci  publish  GetJoke 1.0.1"), "{shown}");
    for wrong in [
        &["tokens", "create", "x"][..],
        &["tokens", "create", "x", "--scope", "root"],
        &["tokens", "create", "two words", "--scope", "admin"],
        &["tokens", "create", "x", "--scope", "admin", "--expires", "soon"],
    ] {
        world.a2s(wrong).exits(2);
    }
    let brief = ["tokens", "create", "brief", "--scope", "publish,execute", "--expires", "30d"];
    let made = world.a2s(&[&brief[..], &["--json"]].concat()).exits(0).one();
    assert_eq!(made["scopes"], json!(["publish", "execute"]));
    assert!(made["expires_at"].is_string(), "{made}");
}

#[test]
fn separate_executor_needs_its_registry_for_tokens() {
    let world = World::down(&[]);
    let registry = world.service("registry", &[]);
    let owner = world.token();
    let url = registry.url().to_owned();
    let made = registry.a2s(&["tokens", "create", "ci", "--scope", "execute", "--json"]);
    let ci = made.exits(0).one()["token"].as_str().unwrap().to_owned();
    let made = registry.a2s(&["tokens", "create", "executor", "--scope", "service", "--json"]);
    let service = made.exits(0).one()["token"].as_str().unwrap().to_owned();
    let flags = ["--registry", &url, "--guardian", "off", "--registry-token", &service];
    let executor = Server::alone("executor", world.data(), &flags);
    let runs = |token: &str| {
        let authorization = format!("Bearer {token}");
        http::get(&format!("{}v1/executions", executor.url()), &[("authorization", &authorization)])
    };
    assert_eq!(runs(&ci).0, 200);
    assert_eq!(runs("wrong").0, 401);
    // The service's own token opens nothing of a run.
    assert_eq!(runs(&service).0, 403);
    drop(registry);
    // What is not known cannot be asked any more; the owner needs nobody.
    let (status, body) = runs("another");
    assert!(status == 503 && body.contains("A2S319"), "{status} {body}");
    assert_eq!(runs(&owner).0, 200);
}

#[test]
fn created_token_is_the_only_output() {
    let world = World::up(&[]);
    let made = world.a2s(&["tokens", "create", "ci", "--scope", "execute"]).exits(0);
    assert!(made.stdout.starts_with("a2s_") && made.stdout.lines().count() == 1, "{made:?}");
    assert!(made.stderr.contains("this token never expires"), "{made:?}");
    assert!(made.stderr.contains("--expires 90d"), "{made:?}");
    // What a shell takes from it opens what it should.
    a2s_as(made.stdout.trim(), world.url(), &["runs"]).exits(0);
    let brief = ["tokens", "create", "brief", "--scope", "execute", "--expires", "90d"];
    let brief = world.a2s(&brief).exits(0);
    assert!(!brief.stderr.contains("never expires"), "{brief:?}");
    assert!(brief.stderr.contains("until "), "{brief:?}");
    let broken = format!("{}\nmore", made.stdout.trim());
    let refused = a2s_as(&broken, world.url(), &["runs"]).exits(2);
    assert!(refused.stderr.contains("A2S_TOKEN"), "{refused:?}");
    // A token goes to other machines over TLS alone.
    let refused = a2s_as(made.stdout.trim(), "http://a2s.example:1", &["runs"]).exits(2);
    assert!(refused.stderr.contains("--allow-insecure-tokens"), "{refused:?}");
}

#[test]
fn learned_intents_are_forgotten_once() {
    let world = World::up(&["--learn"]);
    let intent = ["run", "ListDogBreeds", "--intent", "which pooches exist"];
    world.a2s(&intent).exits(0);
    // The report comes after the run.
    loop {
        let answer = world.a2s(&["forget-intents", "ListDogBreeds", "--json"]).exits(0).one();
        assert_eq!(answer["name"], "ListDogBreeds");
        if answer["changed"] == true {
            break;
        }
    }
    let told = world.a2s(&["forget-intents", "ListDogBreeds"]).exits(0);
    assert_eq!(told.stdout, "nothing was learned  ListDogBreeds\n");
    world.a2s(&["forget-intents", "NoSuchThing"]).exits(1);
}
