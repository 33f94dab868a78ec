//! What the tools do for a client that means well.

use serde_json::{Value, json};

use super::client::{Client, Heard, Stateless};
use crate::harness::{RUNTIME, World};

/// A client that shows forms.
pub(super) fn with_forms() -> Value {
    json!({"elicitation": {"form": {}}})
}

#[test]
fn a_capability_is_found_planned_and_run_with_progress() {
    let world = World::up(&[]);
    let (url, token) = (world.url().to_owned(), world.token());
    RUNTIME.block_on(async {
        let client = Client::open(&url, Some(&token), json!({})).await;
        let found =
            client.call(1, "search_capabilities", json!({"intent": "list dog breeds"})).await;
        let hit = found.content()["capabilities"][0].clone();
        assert_eq!(hit["name"], "ListDogBreeds", "{found:?}");
        let shown = client.call(2, "describe_capability", json!({"name": hit["name"]})).await;
        assert_eq!(shown.content()["checksum"], hit["checksum"]);
        assert_eq!(shown.content()["read_only"], true);
        let which =
            json!({"name": hit["name"], "version": hit["version"], "checksum": hit["checksum"]});
        let planned = client.call(3, "plan_capability", which.clone()).await;
        assert_eq!(planned.content()["missing"], json!([]), "{planned:?}");
        assert_eq!(world.standin("dogapi.dog").requests(), 0);
        let mut wanted = which;
        wanted["plan"] = planned.content()["plan"].clone();
        let call = json!({
            "name": "execute_capability", "arguments": wanted, "_meta": {"progressToken": "p"},
        });
        let ran = client.ask(4, "tools/call", call).await;
        assert_eq!(ran.content()["status"], "succeeded", "{ran:?}");
        assert_eq!(ran.content()["checksum"], hit["checksum"]);
        assert!(ran.content()["output"]["breeds"].is_array(), "{ran:?}");
        let progress: Vec<_> = ran
            .before
            .iter()
            .map(|told| (told["params"]["progress"].as_f64(), told["params"]["message"].as_str()))
            .collect();
        let expected =
            [(Some(1.0), Some("listBreeds: started")), (Some(2.0), Some("listBreeds: finished"))];
        assert_eq!(progress, expected);
        assert!(ran.before.iter().all(|told| told["params"]["progressToken"] == "p"));
        let verified = client.call(5, "verify_capability", json!({"name": "ListDogBreeds"})).await;
        assert_eq!(verified.content()["valid"], true);
    });
}

#[test]
fn missing_inputs_and_writes_are_asked_for() {
    let world = World::up(&[]);
    let (url, token) = (world.url().to_owned(), world.token());
    RUNTIME.block_on(async {
        let tweet = json!({"name": "execute_capability", "arguments": {"name": "PostTweet"}});
        let client = Client::open(&url, Some(&token), with_forms()).await;
        let fill = async |asked: &Value| match asked["requestedSchema"]["properties"].get("text") {
            Some(field) => {
                assert_eq!(field["type"], "string");
                json!({"action": "accept", "content": {"text": "hello"}})
            }
            None => {
                let words = asked["message"].as_str().unwrap();
                assert!(words.contains("POST https://api.twitter.com/graphql"), "{words}");
                assert!(words.contains("text: \"hello\""), "{words}");
                json!({"action": "accept", "content": {}})
            }
        };
        let ran = client.ask_with(1, "tools/call", tweet.clone(), fill).await;
        assert_eq!(ran.content()["output"]["tweet_text"], "hello", "{ran:?}");
        assert_eq!(ran.before.len(), 2);
        assert_eq!(world.standin("api.twitter.com").requests(), 1);

        let decline = async |_: &Value| json!({"action": "decline"});
        let hello = json!({
            "name": "execute_capability",
            "arguments": {"name": "PostTweet", "inputs": {"text": "hello"}},
        });
        let refused = client.ask_with(2, "tools/call", hello, decline).await;
        assert!(refused.is_error() && refused.text().contains("did not approve"), "{refused:?}");
        assert_eq!(world.standin("api.twitter.com").requests(), 1);

        // Whoever cannot be asked is told what is missing, and of what kind it is.
        let mute = Client::open(&url, Some(&token), json!({})).await;
        let refused = mute.ask(3, "tools/call", tweet).await;
        assert!(refused.is_error() && refused.text().contains("A2S320"), "{refused:?}");
        let error = &refused.answer["result"]["_meta"]["a2s/error"];
        assert_eq!(error["next"], "change_request");
        assert_eq!(error["details"]["missing"][0]["name"], "text", "{error}");
        assert_eq!(error["details"]["missing"][0]["schema"]["type"], "string", "{error}");
    });
}

#[test]
fn approval_covers_one_plan_when_the_client_returns() {
    let world = World::up(&[]);
    let (url, token) = (world.url().to_owned(), world.token());
    RUNTIME.block_on(async {
        // 2026-07-28: no session, and questions are answers.
        let client = Stateless::new(&url, &token, with_forms());
        let post = async |text: &str, answers: Value| -> Value {
            let arguments = json!({"name": "PostTweet", "inputs": {"text": text}});
            let answers = json!({"inputResponses": answers});
            client.call("execute_capability", arguments, answers).await
        };
        let asked = post("hello", json!({})).await;
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let questions = asked["inputRequests"].as_object().unwrap();
        let (question, _) = questions.iter().next().unwrap();
        let mut yes = json!({});
        yes[question] = json!({"action": "accept", "content": {}});
        // A yes to one text is none to another.
        let other = post("something else", yes.clone()).await;
        assert_eq!(other["resultType"], "input_required", "{other}");
        assert_eq!(world.standin("api.twitter.com").requests(), 0);
        let ran = post("hello", yes).await;
        assert_eq!(ran["structuredContent"]["output"]["tweet_text"], "hello", "{ran}");
    });
}

#[test]
fn a_plan_that_was_shown_is_the_only_one_that_runs() {
    let world = World::up(&[]);
    let (url, token) = (world.url().to_owned(), world.token());
    RUNTIME.block_on(async {
        let client = Client::open(&url, Some(&token), json!({})).await;
        let shown = json!({"name": "PostTweet", "inputs": {"text": "one"}});
        let planned = client.call(1, "plan_capability", shown).await;
        let plan = &planned.content()["plan"];
        let other = json!({"name": "PostTweet", "inputs": {"text": "two"}, "plan": plan});
        let refused = client.call(2, "execute_capability", other).await;
        assert!(refused.is_error() && refused.text().contains("would differ from the plan"));
        assert_eq!(world.standin("api.twitter.com").requests(), 0);
        let same = json!({"name": "PostTweet", "inputs": {"text": "one"}, "plan": plan});
        let ran = client.call_confirmed(3, "execute_capability", same).await;
        assert_eq!(ran.content()["status"], "succeeded", "{ran:?}");
        assert_eq!(world.standin("api.twitter.com").requests(), 1);
    });
}

#[test]
fn a_client_without_forms_confirms_exactly_what_runs() {
    let world = World::up(&[]);
    let (url, token) = (world.url().to_owned(), world.token());
    RUNTIME.block_on(async {
        let client = Client::open(&url, Some(&token), json!({})).await;
        let sent = || world.standin("api.twitter.com").requests();
        let tweet = |text: &str, confirmed: &Value| {
            let inputs = json!({"text": text});
            let mut call = json!({"name": "PostTweet", "inputs": inputs});
            if !confirmed.is_null() {
                call["a2s_confirm"] = confirmed.clone();
            }
            call
        };
        let asked = client.call(1, "execute_capability", tweet("one", &Value::Null)).await;
        assert!(asked.is_error(), "{asked:?}");
        for told in
            ["POST https://api.twitter.com/graphql", "text: \"one\"", "if the user says yes"]
        {
            let text = asked.text().to_lowercase();
            assert!(text.contains(&told.to_lowercase()), "{told}: {asked:?}");
        }
        let confirmed = &asked.answer["result"]["_meta"]["a2s/error"]["details"]["a2s_confirm"];
        // Another text, or a digest that nobody was shown.
        let other = client.call(2, "execute_capability", tweet("two", confirmed)).await;
        assert!(other.is_error() && other.text().contains("the user must confirm it"), "{other:?}");
        let made_up = json!(format!("sha256:{}", "0".repeat(64)));
        let other = client.call(3, "execute_capability", tweet("one", &made_up)).await;
        assert!(other.is_error() && other.text().contains("the user must confirm it"), "{other:?}");
        let none = client.call(4, "execute_capability", tweet("one", &json!("yes"))).await;
        assert!(none.is_error(), "{none:?}");
        assert_eq!(sent(), 0);
        let ran = client.call(5, "execute_capability", tweet("one", confirmed)).await;
        assert_eq!(ran.content()["status"], "succeeded", "{ran:?}");
        assert_eq!(sent(), 1);
    });
}

#[test]
fn consent_that_is_off_is_told_with_every_action() {
    let world = World::up(&["--consent", "off"]);
    let (url, token) = (world.url().to_owned(), world.token());
    RUNTIME.block_on(async {
        let client = Client::open(&url, Some(&token), json!({})).await;
        let tweet = json!({"name": "PostTweet", "inputs": {"text": "one"}});
        let ran = client.call(1, "execute_capability", tweet).await;
        assert_eq!(ran.content()["status"], "succeeded", "{ran:?}");
        assert!(ran.text().contains("It ran without confirmation: consent is off."), "{ran:?}");
        let read = client.call(2, "execute_capability", json!({"name": "ListDogBreeds"})).await;
        assert!(!read.text().contains("consent"), "{read:?}");
    });
}

#[test]
fn documents_are_resources_and_a_prompt_explains() {
    let world = World::up(&[]);
    let (url, token) = (world.url().to_owned(), world.token());
    RUNTIME.block_on(async {
        let client = Client::open(&url, Some(&token), json!({})).await;
        let mut names = Vec::new();
        let mut cursor = json!({});
        loop {
            let page = client.ask(1, "resources/list", cursor).await.answer;
            for resource in page["result"]["resources"].as_array().unwrap() {
                names.push(resource["uri"].as_str().unwrap().to_owned());
                assert_eq!(resource["mimeType"], "application/yaml");
            }
            match page["result"].get("nextCursor") {
                Some(next) => cursor = json!({"cursor": next}),
                None => break,
            }
        }
        let breeds = "a2s://capabilities/ListDogBreeds@1.0.0";
        assert!(names.iter().any(|name| name == breeds), "{names:?}");
        let read = client.ask(2, "resources/read", json!({"uri": breeds})).await.answer;
        let text = read["result"]["contents"][0]["text"].as_str().unwrap();
        let published = std::fs::read_to_string(crate::harness::shipped("ListDogBreeds")).unwrap();
        assert_eq!(text, published);
        for unknown in ["a2s://capabilities/Nothing@1.0.0", "file:///etc/passwd", "a2s://x"] {
            let refused = client.ask(3, "resources/read", json!({"uri": unknown})).await.answer;
            assert_eq!(refused["error"]["code"], -32002, "{refused}");
        }
        let goal = json!({"name": "use_capabilities", "arguments": {"goal": "list dog breeds"}});
        let prompt = client.ask(4, "prompts/get", goal).await.answer;
        let words = prompt["result"]["messages"][0]["content"]["text"].as_str().unwrap();
        assert!(words.contains("list dog breeds") && words.contains("search_capabilities"));
        let template = "a2s://capabilities/{name}@{version}";
        let typed = json!({
            "ref": {"type": "ref/resource", "uri": template},
            "argument": {"name": "name", "value": "postt"},
        });
        let completed = client.ask(5, "completion/complete", typed).await.answer;
        assert_eq!(completed["result"]["completion"]["values"], json!(["PostTweet"]));
    });
}

#[test]
fn of_the_five_tools_one_may_change_something() {
    let world = World::up(&[]);
    let url = world.url().to_owned();
    RUNTIME.block_on(async {
        let client = Client::open(&url, None, json!({})).await;
        let tools = client.ask(1, "tools/list", json!({})).await.answer;
        for tool in tools["result"]["tools"].as_array().unwrap() {
            let runs = tool["name"] == "execute_capability";
            let hints = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
            let hints = hints.map(|hint| tool["annotations"][hint].as_bool().unwrap());
            assert_eq!(hints, [!runs, runs, !runs, runs], "{tool}");
        }
    });
}

#[test]
fn what_is_listed_is_a_tool_of_its_own() {
    let mut world = World::down(&["--mcp-tool", "GetCountry@^1", "--mcp-tool", "host:dogapi.dog"]);
    let config = world.write("a2s.toml", "[agent]\nmcp-tools = [\"PostTweet\"]\n");
    world.add_flags(&["--config", &config]);
    world.start();
    let (url, token) = (world.url().to_owned(), world.token());
    RUNTIME.block_on(async {
        let client = Client::open(&url, Some(&token), json!({})).await;
        let tools = client.ask(1, "tools/list", json!({})).await.answer;
        let tools = tools["result"]["tools"].as_array().unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names[5..], ["GetCountry", "ListDogBreeds", "PostTweet"]);
        let [country, breeds, tweet] = &tools[5..] else { panic!("{names:?}") };
        assert_eq!(country["inputSchema"]["required"], json!(["country_code"]), "{country}");
        assert_eq!(breeds["annotations"]["readOnlyHint"], true);
        assert_eq!(tweet["annotations"]["destructiveHint"], true);
        assert_eq!(tweet["annotations"]["idempotentHint"], false);
        assert!(breeds["_meta"]["a2s/checksum"].as_str().unwrap().starts_with("sha256:"));
        let ran = client.call(2, "ListDogBreeds", json!({})).await;
        assert_eq!(ran.content()["checksum"], breeds["_meta"]["a2s/checksum"], "{ran:?}");
        let ran = client.call_confirmed(3, "PostTweet", json!({"text": "hello"})).await;
        assert_eq!(ran.content()["output"]["tweet_text"], "hello", "{ran:?}");
    });
}

#[test]
fn what_is_deprecated_says_so_where_it_is_found_and_listed() {
    let world = World::up(&["--mcp-tool", "ListDogBreeds"]);
    let words = ["--message", "the service goes away", "--successor", "GetJoke"];
    world.a2s(&[&["deprecate", "ListDogBreeds@1.0.0"][..], &words].concat()).exits(0);
    let (url, token) = (world.url().to_owned(), world.token());
    RUNTIME.block_on(async {
        let client = Client::open(&url, Some(&token), json!({})).await;
        let tools = client.ask(1, "tools/list", json!({})).await.answer;
        let listed = tools["result"]["tools"].as_array().unwrap().last().unwrap();
        let told = "deprecated; use GetJoke instead: the service goes away";
        let description = listed["description"].as_str().unwrap();
        assert!(description.starts_with(&format!("[{told}] ")), "{description}");
        let intent = json!({"intent": "list of dog breeds"});
        let found = client.call(2, "search_capabilities", intent).await;
        assert_eq!(found.content()["capabilities"][0]["deprecated"], told, "{found:?}");
        let pin = json!({"name": "ListDogBreeds", "version": "1.0.0"});
        let described = client.call(3, "describe_capability", pin.clone()).await;
        assert_eq!(described.content()["deprecated"], told, "{described:?}");
        assert!(described.content().get("yanked").is_none(), "{described:?}");
        // What was read once is remembered; what became of it since is asked for.
        world.a2s(&["yank", "ListDogBreeds@1.0.0"]).exits(0);
        let described = client.call(4, "describe_capability", pin).await;
        assert_eq!(described.content()["yanked"], true, "{described:?}");
    });
}

/// Publishes `ListDogBreeds` 1.1.0.
fn publish_newer_breeds(world: &World) {
    let document = std::fs::read_to_string(crate::harness::shipped("ListDogBreeds")).unwrap();
    world.publish(&document.replace("version: \"1.0\"", "version: \"1.1\""));
}

#[test]
fn a_client_is_told_when_other_tools_are_listed() {
    let world = World::up(&["--mcp-tool", "ListDogBreeds"]);
    let (url, token) = (world.url().to_owned(), world.token());
    let version = |tools: &Value| {
        let tools = tools["result"]["tools"].as_array().unwrap();
        tools.last().unwrap()["_meta"]["a2s/version"].as_str().unwrap().to_owned()
    };
    const CHANGED: &str = "notifications/tools/list_changed";
    RUNTIME.block_on(async {
        let client = Client::open(&url, Some(&token), json!({})).await;
        let before = client.ask(1, "tools/list", json!({})).await.answer;
        assert_eq!(version(&before), "1.0.0");
        let mut heard = client.listen().await;
        let stateless = Stateless::new(&url, &token, json!({}));
        let wanted =
            json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}});
        let subscribed = stateless.post(7, "subscriptions/listen", wanted).await;
        let mut subscribed = Heard::of(subscribed);
        let agreed = subscribed.until("notifications/subscriptions/acknowledged").await;
        let agreed = &agreed["params"]["notifications"];
        assert_eq!(*agreed, json!({"toolsListChanged": true}));

        publish_newer_breeds(&world);
        // Somebody looks; otherwise it takes seconds to be seen.
        let other = Client::open(&url, Some(&token), json!({})).await;
        other.ask(1, "tools/list", json!({})).await;
        heard.until(CHANGED).await;
        let told = subscribed.until(CHANGED).await;
        let of = &told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!(*of, 7, "{told}");
        let after = client.ask(2, "tools/list", json!({})).await.answer;
        assert_eq!(version(&after), "1.1.0");
    });
}

#[test]
fn nobody_is_lent_the_owner_s_token() {
    let world = World::up(&[]);
    let url = world.url().to_owned();
    RUNTIME.block_on(async {
        for token in [None, Some("wrong")] {
            let client = Client::open(&url, token, json!({})).await;
            let found =
                client.call(1, "search_capabilities", json!({"intent": "dog breeds"})).await;
            assert_eq!(found.content()["capabilities"][0]["name"], "ListDogBreeds");
            let refused =
                client.call(2, "execute_capability", json!({"name": "ListDogBreeds"})).await;
            assert!(refused.is_error() && refused.text().starts_with("A2S301"), "{refused:?}");
            assert!(refused.text().contains("Authorization: Bearer"), "{refused:?}");
        }
        assert_eq!(world.standin("dogapi.dog").requests(), 0);
    });
}
