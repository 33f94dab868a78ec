//! A guardian in front of the MCP server: it sees every message, and what it says is followed.

use std::sync::{Arc, Mutex};

use axum::Json;
use axum::extract::State;
use axum::routing::post;
use serde_json::{Value, json};

use super::client::Client;
use crate::harness::{RUNTIME, World};

type Heard = Arc<Mutex<Vec<Value>>>;

/// Judges MCP messages by words in them; whatever else it is asked, it allows.
async fn answer(State(heard): State<Heard>, Json(request): Json<Value>) -> Json<Value> {
    let allow = |request: &Value| json!({"jsonrpc": "2.0", "id": request["id"], "result": {"decision": "allow", "message": "fine"}});
    if request["method"] != "protocols/MCP" {
        return Json(allow(&request));
    }
    heard.lock().unwrap().push(request["params"]["message"].clone());
    let text = request["params"]["message"].to_string();
    let deny = |words: &str| json!({"decision": "deny", "message": words});
    let modify = |from: &str, to: &str| {
        let modified: Value = serde_json::from_str(&request.to_string().replace(from, to)).unwrap();
        json!({"decision": "modify", "message": "changed", "modifiedRequest": modified})
    };
    let is_request = request["params"]["message"].get("method").is_some();
    let result = match is_request {
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
        _ => return Json(allow(&request)),
    };
    Json(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}))
}

fn guarded() -> (World, Heard) {
    let heard = Heard::default();
    let router = axum::Router::new().route("/", post(answer)).with_state(Arc::clone(&heard));
    let url = RUNTIME.block_on(async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    });
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

        let changed = client.call(2, "execute_capability", tweet("a rude text")).await;
        assert_eq!(changed.content()["output"]["tweet_text"], "a kind text", "{changed:?}");
        assert_eq!(sent(), 1);

        let unusable = client.call(3, "execute_capability", tweet("other-method")).await;
        assert!(unusable.is_error() && unusable.text().contains("another method"), "{unusable:?}");
        assert_eq!(sent(), 1);

        let unusable = client.call(8, "execute_capability", tweet("other-id")).await;
        assert!(unusable.is_error() && unusable.text().contains("another message"), "{unusable:?}");
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

#[test]
fn a_guardian_sees_no_secret_input() {
    let (world, heard) = guarded();
    let document = std::fs::read_to_string(crate::harness::shipped("PostTweet")).unwrap();
    let document = document
        .replace("a2s: 1.0.0", "a2s: 1.1.0")
        .replace("name: PostTweet", "name: PostSecret")
        .replace("  - name: text\n", "  - name: text\n    secret: true\n")
        .replace(&document[document.find("sha256:").unwrap()..][..71], "<checksum>");
    let file = world.write("PostSecret.yaml", &document);
    world.a2s(&["checksum", "--write", &file]).exits(0);
    world.a2s(&["publish", "--skip-tests", &file]).exits(0);
    let (url, token) = (world.url().to_owned(), world.token());
    RUNTIME.block_on(async {
        let call = json!({"name": "PostSecret", "inputs": {"text": "canary-4711"}});
        let client = Client::open(&url, Some(&token), json!({})).await;
        let ran = client.call(1, "execute_capability", call).await;
        assert_eq!(ran.content()["status"], "succeeded", "{ran:?}");
        assert_eq!(world.standin("api.twitter.com").requests(), 1);
        let heard = json!(*heard.lock().unwrap()).to_string();
        assert!(!heard.contains("canary-4711"), "{heard}");
        assert!(heard.contains(r#""text":"(secret)""#), "{heard}");
    });
}
