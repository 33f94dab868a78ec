//! Guardians read what an agent hears, finds and says.

use serde_json::{Value, json};

use super::Turn;
use crate::harness::World;
use crate::http::send;

/// A world with these rules, everything else allowed.
fn world(rules: &str) -> World {
    let mut world = World::down(&[]);
    let policy =
        world.write("policy.yaml", &format!("version: 1\ndefault: allow\nrules:\n{rules}"));
    world.add_flags(&["--policy", &policy]);
    world.start();
    world
}

fn jokes(world: &World) -> usize {
    world.standin("official-joke-api.appspot.com").requests()
}

#[test]
fn what_is_said_may_be_denied_and_changed() {
    let world = world(
        "  - {id: no-secrets, on: steps/message, when: 'texts.exists(t, t.contains(\"launch\"))', decision: deny, message: Not here.}
  - {id: mail, on: steps/message, decision: modify, modify: {redact: [{regex: 'Paris', replacement: Rome}]}}
",
    );
    let turn = Turn::take(&world, "tell me a joke about the launch codes", &[]);
    assert_eq!((&turn.answer()["status"], turn.ran.code), (&json!("denied"), 3), "{:?}", turn.ran);
    assert_eq!(turn.all("found"), [&Value::Null; 0]);
    let heard = turn.all("heard")[0];
    assert_eq!(heard["decisions"][0]["decision"], "deny");
    assert_eq!(heard["decisions"][0]["hook"], "steps/message");

    let turn = Turn::take(&world, "tweet the weather in Paris saying 'Hello'", &["--yes"]);
    assert_eq!(turn.chosen().1["location"], "Rome", "{:?}", turn.ran);
    assert_eq!(turn.all("heard")[0]["message"], "tweet the weather in Rome saying 'Hello'");
}

#[test]
fn what_is_found_may_be_denied_and_changed() {
    let denied = world(
        "  - {id: no-search, on: steps/knowledgeRetrieval, decision: deny, message: No searching.}\n",
    );
    let turn = Turn::take(&denied, "tell me a joke", &[]);
    assert_eq!(turn.answer()["status"], "denied", "{:?}", turn.ran);
    assert_eq!(turn.all("found")[0]["candidates"], json!([]));
    assert_eq!(jokes(&denied), 0);

    let changed = world(
        "  - {id: sober, on: steps/knowledgeRetrieval, decision: modify, modify: {redact: [{regex: laugh, replacement: think}]}}\n",
    );
    let turn = Turn::take(&changed, "tell me a joke", &[]);
    let found = &turn.all("found")[0]["candidates"][0];
    assert!(found["description"].as_str().unwrap().contains("make someone think"), "{found}");
    assert_eq!(turn.answer()["status"], "completed", "{:?}", turn.ran);
}

#[test]
fn an_answer_may_be_withheld_with_all_that_it_tells() {
    let world = world(
        "  - {id: quiet, on: steps/message, when: 'texts.exists(t, t.contains(\"punch\") || t.contains(\"borrow\"))', decision: deny, message: Too funny.}\n",
    );
    let turn = Turn::take(&world, "tell me a joke", &[]);
    let answer = turn.answer();
    assert_eq!((&answer["status"], turn.ran.code), (&json!("denied"), 3), "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("Too funny."), "{answer}");
    assert!(!answer.to_string().contains("borrow"), "{answer}");
    assert_eq!(jokes(&world), 1, "the run itself was allowed");
}

#[test]
fn without_a_guardian_every_event_says_so() {
    let world = World::up(&["--guardian", "off"]);
    let turn = Turn::take(&world, "tell me a joke", &[]);
    assert_eq!(turn.answer()["decisions"][0]["decision"], "unguarded", "{:?}", turn.ran);
    assert_eq!(turn.all("heard")[0]["decisions"][0]["source"], "unguarded");
}

#[test]
fn a_silent_guardian_means_no() {
    let world = World::up(&["--guardian", "http://127.0.0.1:1/aos"]);
    let turn = Turn::take(&world, "tell me a joke", &[]);
    assert_eq!(turn.answer()["status"], "denied", "{:?}", turn.ran);
    assert_eq!(turn.all("heard")[0]["decisions"][0]["source"], "failed_closed");
    assert_eq!(jokes(&world), 0);
}

/// What is pending comes from the caller, like a message, and is read like one.
#[test]
fn a_wish_that_comes_back_is_read_again() {
    let world = world(
        "  - {id: no-secrets, on: steps/message, when: 'texts.exists(t, t.contains(\"launch\"))', decision: deny, message: Not here.}\n",
    );
    let launch = reply(&world, "yes", "tell me a joke about the launch codes");
    assert_eq!(launch["status"], "denied");
    assert_eq!(jokes(&world), 0);
    assert_eq!(reply(&world, "yes", "tell me a joke")["status"], "completed");
}

/// It may take one away.
#[test]
fn a_guardian_cannot_say_yes_for_a_person() {
    let world = world(
        "  - {id: eager, on: steps/message, decision: modify, modify: {redact: [{regex: '^not now$', replacement: 'yes'}, {regex: '^go ahead$', replacement: 'no'}]}}
",
    );
    let refused = reply(&world, "not now", "tell me a joke");
    assert_eq!(refused["status"], "denied", "{refused}");
    let words = "adds a consent that the user did not give";
    assert!(refused["message"].as_str().unwrap().contains(words), "{refused}");
    assert_eq!(reply(&world, "go ahead", "tell me a joke")["status"], "cancelled");
    assert_eq!(jokes(&world), 0);
    assert_eq!(reply(&world, "yes", "tell me a joke")["status"], "completed");
}

/// What is answered to the one who was asked whether `query` may be done.
fn reply(world: &World, message: &str, query: &str) -> Value {
    let pin = json!({"name": "GetJoke", "version": "1.0.0", "checksum": format!("sha256:{}", "0".repeat(64))});
    let pending = json!({"query": query, "capability": pin, "missing": []});
    let body = json!({"message": message, "pending": pending});
    let token = format!("Bearer {}", world.token());
    let url = format!("{}v1/agent", world.url());
    let (_, text) = send("POST", &url, &[("authorization", &token)], Some(body.to_string()));
    serde_json::from_str(&text).unwrap()
}

/// A conversation reports the approval that a run waits for, with the command, as `a2s run` does.
#[test]
fn a_run_that_waits_for_an_approval_names_the_command() {
    let world = world(
        "  - {id: jokes, on: toolCallRequest, tool: GetJoke.*, decision: approve, message: Jokes need a person.}\n",
    );
    let ran = world.a2s(&["chat", "tell me a joke"]).exits(1);
    let approvals = world.a2s(&["guardian", "approvals", "--json"]).exits(0).one();
    let id = approvals["approvals"][0]["id"].as_str().unwrap();
    let line = ran.stdout.lines().find(|line| line.contains("[APPROVAL]")).unwrap();
    assert!(line.contains(&format!("waits for approval: `a2s guardian approve {id}`")), "{line}");
    let turn = Turn::take(&world, "tell me a joke", &[]);
    let answer = turn.answer();
    assert_eq!(answer["status"], "waiting", "{answer}");
    let run = &answer["runs"][0];
    let id = run["approvals"][0]["id"].as_str().unwrap();
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains(&format!("`a2s guardian approve {id}`")), "{message}");
    assert!(message.contains(run["id"].as_str().unwrap()), "{message}");
    assert_eq!(turn.all("skipped"), [&Value::Null; 0], "it may go on yet");
    assert_eq!(jokes(&world), 0);
}
