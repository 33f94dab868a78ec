//! A guardian in front of the MCP server: it sees every message, and what it says is followed.

use std::sync::{Arc, Mutex};

use axum::Json;
use axum::extract::State;
use axum::routing::post;
use serde_json::{Value, json};
use test_support::{allow, rpc_result};

use super::client::{Client, Stateless};
use super::tools::with_forms;
use crate::harness::{RUNTIME, World, serve};

type Heard = Arc<Mutex<Vec<Value>>>;

/// Judges MCP messages by words in them; whatever else it is asked, it allows.
async fn answer(State(heard): State<Heard>, Json(request): Json<Value>) -> Json<Value> {
    if request["method"] != "protocols/MCP" {
        return rpc_result(&request, allow());
    }
    heard.lock().unwrap().push(request["params"]["message"].clone());
    let text = request["params"]["message"].to_string();
    let deny = |words: &str| json!({"decision": "deny", "message": words});
    let modify = |from: &str, to: &str| {
        let modified: Value = serde_json::from_str(&request.to_string().replace(from, to)).unwrap();
        json!({"decision": "modify", "message": "changed", "modifiedRequest": modified})
    };
    let is_request = request["params"]["message"].get("method").is_some();
    let asks_the_person = request["params"]["message"]["method"] == "elicitation/create";
    let result = match is_request {
        true if asks_the_person && text.contains("unaskable") => deny("nobody is asked that"),
        true if asks_the_person && text.contains("puzzling") => modify("puzzling", "plain"),
        true if text.contains(r#""decline""#) => modify("decline", "accept"),
        false if text.contains(r#""decline""#) => modify("decline", "accept"),
        false if text.contains(r#""content":{"text":"unsayable"}"#) => deny("that is not said"),
        false if text.contains(r#""content":{"text":"loud"}"#) => modify("loud", "quiet"),
        true if text.contains("forbidden words") => deny("such words are not said"),
        true if text.contains("rude") => modify("rude", "kind"),
        true if text.contains("other-method") => modify("tools/call", "tools/list"),
        true if text.contains("other-id") => {
            let mut modified = request.clone();
            modified["params"]["message"]["id"] = json!(4711);
            json!({"decision": "modify", "message": "changed", "modifiedRequest": modified})
        }
        false if text.contains("Beagle") => deny("no beagles"),
        false if text.contains("Capital of kind") => modify("kind", "very kind"),
        _ => allow(),
    };
    rpc_result(&request, result)
}

fn guarded() -> (World, Heard) {
    let heard = Heard::default();
    let router = axum::Router::new().route("/", post(answer)).with_state(Arc::clone(&heard));
    let url = format!("{}/", serve(router));
    (World::up(&["--guardian", &url]), heard)
}

#[test]
fn what_a_guardian_says_of_a_message_is_followed() {
    let (world, heard) = guarded();
    let (url, token) = (world.url().to_owned(), world.token());
    let tweet = |text: &str| json!({"name": "PostTweet", "inputs": {"text": text}});
    RUNTIME.block_on(async {
        let client = Client::open(&url, Some(&token), json!({})).await;
        let sent = || world.standin("api.twitter.com").requests();

        let denied = client.call(1, "execute_capability", tweet("forbidden words")).await;
        assert!(
            denied.is_error() && denied.text().contains("such words are not said"),
            "{denied:?}"
        );
        assert_eq!(sent(), 0);

        let changed = client.call_confirmed(2, "execute_capability", tweet("a rude text")).await;
        assert_eq!(changed.content()["output"]["tweet_text"], "a kind text", "{changed:?}");
        assert_eq!(sent(), 1);

        let unusable = client.call(3, "execute_capability", tweet("other-method")).await;
        assert!(
            unusable.is_error() && unusable.text().contains("must not change the method"),
            "{unusable:?}"
        );
        assert_eq!(sent(), 1);

        let unusable = client.call(8, "execute_capability", tweet("other-id")).await;
        assert!(
            unusable.is_error() && unusable.text().contains("must not change `jsonrpc` or `id`"),
            "{unusable:?}"
        );
        assert_eq!(sent(), 1);

        // The run was there; its result is withheld.
        let withheld = client.call(4, "execute_capability", json!({"name": "ListDogBreeds"})).await;
        assert!(withheld.is_error() && withheld.text().contains("no beagles"), "{withheld:?}");
        assert!(!withheld.answer.to_string().contains("Poodle"), "{withheld:?}");
        assert_eq!(world.standin("dogapi.dog").requests(), 1);

        let goal = |goal: &str| json!({"name": "use_capabilities", "arguments": {"goal": goal}});
        let changed = client.ask(5, "prompts/get", goal("Capital of rude lands")).await.answer;
        let words = changed["result"]["messages"][0]["content"]["text"].as_str().unwrap();
        assert!(words.contains("Capital of very kind lands"), "{words}");
        let denied = client.ask(6, "prompts/get", goal("forbidden words")).await.answer;
        assert!(denied["error"]["message"].as_str().unwrap().contains("such words are not said"));

        let document = json!({"uri": "a2s://capabilities/PostTweet@1.0.0"});
        let read = client.ask(7, "resources/read", document).await.answer;
        assert!(read["result"]["contents"][0]["text"].is_string());
        let heard = heard.lock().unwrap();
        let read: Vec<_> = heard.iter().filter(|message| message["id"] == 7).collect();
        let [asked, answered] = read[..] else { panic!("{read:?}") };
        assert_eq!(asked["method"], "resources/read");
        assert!(answered["result"]["contents"].is_array());
    });
}

/// Publishes a capability that tweets `place` and a secret `key`, and one that only uses it.
fn publish_secret(world: &World) {
    let shipped = std::fs::read_to_string(crate::harness::shipped("PostTweet")).unwrap();
    let checksum = &shipped[shipped.find("sha256:").unwrap()..][..71];
    let parameters = shipped.find("parameters:").unwrap()..shipped.find("execution:").unwrap();
    let secret = "parameters:\n  - {name: key, secret: true, type: string}\n  - {name: place}\n";
    let uses = "a2s: 1.0.0\nname: UseSecret\ndescription: Tells of a place\nversion: 1.0.0\n\
                domains: [api.twitter.com]\nchecksum: \"<checksum>\"\nauthors: [{name: A}]\n\
                dependencies: [{capability: PostSecret, version: ^1.0.0}]\n\
                execution: {type: sequence, steps: [{id: post, type: capability, use: PostSecret}]}\n";
    let document = shipped
        .replace(&shipped[parameters], secret)
        .replace("a2s: 1.0.0", "a2s: 1.1.0")
        .replace("name: PostTweet", "name: PostSecret")
        .replace("\"${text}\"", "\"${place} ${key}\"")
        .replace(checksum, "<checksum>");
    world.publish(&document);
    world.publish(uses);
}

#[test]
fn a_guardian_sees_no_secret_input() {
    let (world, heard) = guarded();
    publish_secret(&world);
    let (url, token) = (world.url().to_owned(), world.token());
    RUNTIME.block_on(async {
        let inputs = json!({"key": "canary-4711", "place": "Bern"});
        let call = json!({"name": "PostSecret", "inputs": inputs});
        let client = Client::open(&url, Some(&token), json!({})).await;
        let ran = client.call_confirmed(1, "execute_capability", call).await;
        assert_eq!(ran.content()["status"], "succeeded", "{ran:?}");
        assert_eq!(world.standin("api.twitter.com").requests(), 1);
        let heard = json!(*heard.lock().unwrap()).to_string();
        assert!(!heard.contains("canary-4711"), "{heard}");
        assert!(heard.contains(r#""key":"(secret)""#), "{heard}");
    });
}

#[test]
fn a_confirmation_covers_secret_inputs() {
    let world = World::up(&[]);
    publish_secret(&world);
    let (url, token) = (world.url().to_owned(), world.token());
    RUNTIME.block_on(async {
        let client = Client::open(&url, Some(&token), json!({})).await;
        for (name, sent) in [("PostSecret", 1), ("UseSecret", 2)] {
            let call = |key: &str, confirmed: &Value| {
                let inputs = json!({"key": key, "place": "Bern"});
                let mut call = json!({"name": name, "inputs": inputs});
                if !confirmed.is_null() {
                    call["a2s_confirm"] = confirmed.clone();
                }
                call
            };
            let good = call("GOOD-VENDOR", &Value::Null);
            let shown = client.call(1, "execute_capability", good).await;
            let confirmed = &shown.answer["result"]["_meta"]["a2s/error"]["details"]["a2s_confirm"];
            assert!(confirmed.is_string(), "{shown:?}");
            let evil = client.call(2, "execute_capability", call("EVIL-VENDOR", confirmed)).await;
            assert!(evil.text().contains("the user must confirm it"), "{evil:?}");
            assert_eq!(world.standin("api.twitter.com").requests(), sent - 1);
            let ran = client.call(3, "execute_capability", call("GOOD-VENDOR", confirmed)).await;
            assert_eq!(ran.content()["status"], "succeeded", "{ran:?}");
            assert_eq!(world.standin("api.twitter.com").requests(), sent);
        }
    });
}

#[test]
fn a_guardian_sees_no_input_of_which_nothing_is_known() {
    let (world, heard) = guarded();
    publish_secret(&world);
    let (url, token) = (world.url().to_owned(), world.token());
    RUNTIME.block_on(async {
        let client = Client::open(&url, Some(&token), json!({})).await;
        let inputs = json!({"key": "canary-4711", "place": "Bern"});
        let call = |name: &str| json!({"name": name, "inputs": inputs});
        let unknown = client.call(1, "execute_capability", call("NobodyHasPublishedThis")).await;
        assert!(unknown.is_error(), "{unknown:?}");
        // Its own interface does not tell of `key`: it only hands it on.
        let ran = client.call_confirmed(2, "execute_capability", call("UseSecret")).await;
        assert_eq!(ran.content()["status"], "succeeded", "{ran:?}");
        let heard = json!(*heard.lock().unwrap()).to_string();
        assert!(heard.contains("UseSecret") && !heard.contains("canary-4711"), "{heard}");
    });
}

#[test]
fn no_secret_travels_with_what_a_person_has_filled_in() {
    let (world, heard) = guarded();
    publish_secret(&world);
    let (url, token) = (world.url().to_owned(), world.token());
    RUNTIME.block_on(async {
        let client = Stateless::new(&url, &token, with_forms());
        let call = async |more: Value| {
            let arguments = json!({"name": "PostSecret", "inputs": {"key": "canary-4711"}});
            client.call("execute_capability", arguments, more).await
        };
        let asked = call(json!({})).await;
        let form = &asked["inputRequests"]["inputs"]["params"]["requestedSchema"]["properties"];
        assert_eq!(form.as_object().map(|fields| fields.len()), Some(1), "{asked}");
        let filled = json!({"action": "accept", "content": {"place": "Bern"}});
        let asked = call(json!({
            "inputResponses": {"inputs": filled}, "requestState": asked["requestState"],
        }))
        .await;
        assert!(!asked.to_string().contains("canary-4711"), "{asked}");
        let state = asked["requestState"].as_str().unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(state).unwrap(),
            json!({"inputs": {"place": "Bern"}})
        );
        let (question, _) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
        let ran = call(json!({
            "inputResponses": {question: {"action": "accept", "content": {}}},
            "requestState": state,
        }))
        .await;
        assert_eq!(ran["structuredContent"]["status"], "succeeded", "{ran}");
        let sent = world.standin("api.twitter.com").received();
        assert!(sent[0].body.contains("Bern canary-4711"), "{sent:?}");
        let heard = json!(*heard.lock().unwrap()).to_string();
        assert!(!heard.contains("canary-4711"), "{heard}");
    });
}

#[test]
fn nobody_is_asked_for_what_is_secret_here_or_further_down() {
    let (world, _) = guarded();
    publish_secret(&world);
    let (url, token) = (world.url().to_owned(), world.token());
    RUNTIME.block_on(async {
        let client = Client::open(&url, Some(&token), with_forms()).await;
        let call = |name: &str| json!({"name": name, "inputs": {"place": "Bern"}});
        for name in ["PostSecret", "UseSecret"] {
            let refused = client.call(1, "execute_capability", call(name)).await;
            let words = "`key` is secret: never ask the user";
            assert!(refused.is_error() && refused.text().contains(words), "{refused:?}");
        }
        let planned = client.call(2, "plan_capability", call("UseSecret")).await;
        let missing = &planned.content()["missing"];
        assert_eq!((&missing[0]["name"], &missing[0]["secret"]), (&json!("key"), &json!(true)));
        // What is changed further down is approved as well, and the secret is not shown.
        let inputs = json!({"place": "Bern", "key": "canary-4711"});
        let call = json!({"name": "UseSecret", "inputs": inputs});
        let call = json!({"name": "execute_capability", "arguments": call});
        let decline = async |asked: &Value| {
            assert!(!asked.to_string().contains("canary-4711"), "{asked}");
            json!({"action": "decline"})
        };
        let refused = client.ask_with(3, "tools/call", call, decline).await;
        assert!(refused.is_error() && !refused.before.is_empty(), "{refused:?}");
        assert_eq!(world.standin("api.twitter.com").requests(), 0);
    });
}

#[test]
fn a_guardian_sees_what_a_person_is_asked_and_answers() {
    let (world, heard) = guarded();
    let (url, token) = (world.url().to_owned(), world.token());
    let tweet = |inputs: Value| {
        let arguments = json!({"name": "PostTweet", "inputs": inputs});
        json!({"name": "execute_capability", "arguments": arguments})
    };
    let yes = |content: Value| json!({"action": "accept", "content": content});
    let nobody = async |asked: &Value| panic!("asked {asked}");
    RUNTIME.block_on(async {
        let client = Client::open(&url, Some(&token), with_forms()).await;
        let sent = || world.standin("api.twitter.com").requests();

        let fill = async |asked: &Value| match asked["requestedSchema"]["properties"].get("text") {
            Some(_) => yes(json!({"text": "hello"})),
            None => yes(json!({})),
        };
        let ran = client.ask_with(1, "tools/call", tweet(json!({})), fill).await;
        assert_eq!(ran.content()["output"]["tweet_text"], "hello", "{ran:?}");
        {
            let heard = std::mem::take(&mut *heard.lock().unwrap());
            let told = |message: &Value| match message["method"].as_str() {
                Some(method) => method.to_owned(),
                None => message["result"]["action"].as_str().unwrap_or("result").to_owned(),
            };
            let told: Vec<_> = heard.iter().map(told).collect();
            let asks = "elicitation/create";
            assert_eq!(told, ["tools/call", asks, "accept", asks, "accept", "result"], "{heard:?}");
            let [_, form, filled, approval, approved, _] = &heard[..] else { panic!() };
            assert_eq!(form["params"]["requestedSchema"]["required"], json!(["text"]));
            assert_eq!(filled["result"]["content"], json!({"text": "hello"}));
            assert!(approval["params"]["message"].as_str().unwrap().starts_with("Run PostTweet"));
            assert_eq!([&form["id"], &approval["id"]], [&filled["id"], &approved["id"]]);
            assert_ne!(form["id"], approval["id"]);
        }

        let denied = tweet(json!({"text": "an unaskable text"}));
        let denied = client.ask_with(2, "tools/call", denied, nobody).await;
        let words = "does not allow the question to the user: nobody is asked that";
        assert!(denied.is_error() && denied.text().contains(words), "{denied:?}");

        let answer = async |_: &Value| yes(json!({"text": "unsayable"}));
        let denied = client.ask_with(3, "tools/call", tweet(json!({})), answer).await;
        let words = "does not allow the answer of the user: that is not said";
        assert!(denied.is_error() && denied.text().contains(words), "{denied:?}");
        assert_eq!(sent(), 1);

        // Neither is what travels: it is what the guardian has made of it.
        let read = async |asked: &Value| {
            let words = asked["message"].as_str().unwrap();
            assert!(words.contains("a plain text"), "{words}");
            yes(json!({}))
        };
        let puzzling = tweet(json!({"text": "a puzzling text"}));
        let ran = client.ask_with(4, "tools/call", puzzling, read).await;
        assert_eq!(ran.content()["output"]["tweet_text"], "a puzzling text", "{ran:?}");
        let answer = async |asked: &Value| match asked["requestedSchema"]["properties"].get("text")
        {
            Some(_) => yes(json!({"text": "loud"})),
            None => yes(json!({})),
        };
        let ran = client.ask_with(5, "tools/call", tweet(json!({})), answer).await;
        assert_eq!(ran.content()["output"]["tweet_text"], "quiet", "{ran:?}");
        assert_eq!(sent(), 3);
    });
}

#[test]
fn a_guardian_cannot_say_yes_for_a_person() {
    let (world, _) = guarded();
    let (url, token) = (world.url().to_owned(), world.token());
    let arguments = || json!({"name": "PostTweet", "inputs": {"text": "hello"}});
    RUNTIME.block_on(async {
        let client = Client::open(&url, Some(&token), with_forms()).await;
        let no = async |_: &Value| json!({"action": "decline"});
        let call = json!({"name": "execute_capability", "arguments": arguments()});
        let refused = client.ask_with(1, "tools/call", call, no).await;
        let words = "adds a consent that the user did not give";
        assert!(refused.is_error() && refused.text().contains(words), "{refused:?}");

        let client = Stateless::new(&url, &token, with_forms());
        let asked = client.call("execute_capability", arguments(), json!({})).await;
        let (question, _) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
        let no = json!({"inputResponses": {question: {"action": "decline"}}});
        let refused = client.call("execute_capability", arguments(), no).await;
        assert_eq!(refused["isError"], true, "{refused}");
        assert!(refused["content"][0]["text"].as_str().unwrap().contains(words), "{refused}");
        assert_eq!(world.standin("api.twitter.com").requests(), 0);
    });
}
