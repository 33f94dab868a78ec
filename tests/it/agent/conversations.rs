//! What people say, and what comes of it.

use axum::Router;
use axum::routing::{any, get};
use serde_json::{Value, json};
use test_support::mock_services::MockServiceBuilder;

use super::Turn;
use crate::harness::{RUNTIME, World};
use crate::http::send;

#[track_caller]
fn check(world: &World, message: &str, capability: &str, inputs: &Value, steps: &[&str]) {
    let turn = Turn::take(world, message, &["--yes"]);
    assert_eq!(turn.chosen(), (capability, inputs), "{message}: {:?}", turn.ran);
    assert_eq!(turn.steps(), steps, "{message}: {:?}", turn.ran);
}

#[test]
fn sentences_find_their_capability_with_its_inputs() {
    let world = World::up(&[]);
    check(
        &world,
        "what's the weather like in Paris, and can you tweet it saying 'Weather update:'?",
        "PostWeatherTweet",
        &json!({"location": "Paris", "message": "Weather update:"}),
        &["getWeather", "postTweet"],
    );
    let tweet = world.standin("api.twitter.com").received().pop().unwrap();
    let tweet: Value = serde_json::from_str(&tweet.body).unwrap();
    let weather = "Sunny with light clouds, high of 24 °C";
    assert_eq!(tweet["variables"]["text"], format!("Weather update: {weather}"));
    // Without a message there is nothing to run yet.
    check(
        &world,
        "check the weather forecast in Central Park and share it on Twitter",
        "PostWeatherTweet",
        &json!({"location": "Central Park"}),
        &[],
    );
    check(&world, "list dog breeds", "ListDogBreeds", &json!({}), &["listBreeds"]);
    // What the team follows is remembered, and nobody has to say it.
    world.a2s(&["state", "set", "team_topic=rescue"]).exits(0);
    check(
        &world,
        "warn the team if the river at Basel is dangerous",
        "WarnOfHighWater",
        &json!({"place": "Basel"}),
        &["readLevel", "judgeLevel", "judgeLevel/warnTeam", "judgeLevel/warnTeam/publish"],
    );
    let warning = world.standin("ntfy.sh").received().pop().unwrap().body;
    assert!(warning.contains("rescue") && warning.contains("Basel"), "{warning}");
}

/// Nothing does all of it, and what one gives is what another takes: a chain is shown, and published
/// and run on a yes.
#[test]
fn what_no_capability_does_alone_is_proposed_as_a_chain() {
    let world = World::up(&[]);
    let said = "look up the country FR and get the weather in its capital\nyes\nyes\n";
    let ran = world.a2s_reading(said, &["chat"]).exits(0);
    insta::assert_snapshot!("chain", ran.transcript());
    let weather = world.standin("geocoding-api.open-meteo.com").received().pop().unwrap();
    assert!(weather.target.contains("name=Paris"), "{weather:?}");
    // It is there for everybody now, and the same again is the same.
    let again = world.a2s_reading(said, &["chat"]).exits(0);
    assert!(again.stdout.contains("GetCountryThenGetCityWeather is done."), "{again:?}");
    let shown = world.a2s(&["show", "GetCountryThenGetCityWeather", "--json"]).exits(0).one();
    assert_eq!(shown["version"], "1.0.0", "{shown}");
}

#[test]
fn several_wishes_are_done_one_after_the_other() {
    let world = World::up(&[]);
    let turn = Turn::take(&world, "tell me a joke and list dog breeds", &[]);
    let answer = turn.answer();
    let done: Vec<_> =
        answer["runs"].as_array().unwrap().iter().map(|run| &run["capability"]["name"]).collect();
    assert_eq!(done, ["GetJoke", "ListDogBreeds"], "{answer}");
    assert_eq!(answer["status"], "completed");
    assert_eq!(turn.ran.code, 0);
}

/// The conversation that the A2S text prints, by a pipe.
#[test]
fn the_picnic_of_the_text() {
    let world = World::up(&[]);
    let said = "Hey, I'm planning a picnic this weekend in Central Park. Could you help me check \
                the weather forecast and share it on Twitter?\n\
                Yes please. Could you mention it's for a weekend picnic?\n\
                yes\n";
    let ran = world.a2s_reading(said, &["chat"]).exits(0);
    insta::assert_snapshot!("picnic", ran.transcript());
    let tweet = world.standin("api.twitter.com").received().pop().unwrap();
    let tweet: Value = serde_json::from_str(&tweet.body).unwrap();
    let weather = "Sunny with light clouds, high of 24 °C";
    assert_eq!(tweet["variables"]["text"], format!("it's for a weekend picnic {weather}"));
}

#[test]
fn a_question_is_answered_or_left() {
    let world = World::up(&[]);
    let wish = "check the weather forecast in Central Park and share it on Twitter";
    let turn = Turn::take(&world, wish, &[]);
    let answer = turn.answer();
    assert_eq!((&answer["status"], turn.ran.code), (&json!("input_required"), 1), "{answer}");
    assert_eq!(answer["question"]["fields"][0]["name"], "message");
    let pending = answer["question"]["pending"].clone();
    assert_eq!(pending["inputs"], json!({"location": "Central Park"}));

    let ask = |message: &str, pending: &Value| {
        let token = format!("Bearer {}", world.token());
        let body = json!({"message": message, "pending": pending}).to_string();
        let url = format!("{}v1/agent", world.url());
        let (status, text) = send("POST", &url, &[("authorization", &token)], Some(body));
        assert_eq!(status, 200, "{text}");
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let left = ask("no, thanks", &pending);
    assert_eq!(left["status"], "cancelled", "{left}");
    assert_eq!(world.standin("api.twitter.com").requests(), 0);
    // Then the agent shows what it would do, and a yes is for exactly that.
    let asks = ask("“Bring a blanket!”", &pending);
    assert_eq!(asks["status"], "input_required", "{asks}");
    let action = &asks["question"]["actions"][0];
    assert_eq!(action["capability"]["name"], "PostWeatherTweet", "{asks}");
    assert_eq!(action["inputs"]["message"], "Bring a blanket!", "{asks}");
    assert!(action["hosts"].as_array().unwrap().contains(&json!("api.twitter.com")), "{asks}");
    let confirmed = asks["question"]["pending"].clone();
    assert_eq!(ask("no", &confirmed)["status"], "cancelled");
    let mut altered = confirmed.clone();
    altered["inputs"]["message"] = json!("Something else");
    assert_eq!(
        ask("yes", &altered)["status"],
        "input_required",
        "a yes to other inputs asks again"
    );
    let mut unbound = confirmed.clone();
    unbound.as_object_mut().unwrap().remove("consent");
    assert_ne!(ask("yes", &unbound)["status"], "completed");
    assert_eq!(world.standin("api.twitter.com").requests(), 0);
    let done = ask("yes", &confirmed);
    assert_eq!(done["status"], "completed", "{done}");
    let tweet = world.standin("api.twitter.com").received().pop().unwrap().body;
    assert!(tweet.contains("Bring a blanket!"), "{tweet}");
}

/// An answer begins the turn anew: what had run by then would run twice.
#[test]
fn nothing_runs_before_everything_is_known() {
    let world = World::up(&[]);
    let wish = "tell me a joke, and check the weather in Oslo and share it on Twitter";
    let turn = Turn::take(&world, wish, &[]);
    let answer = turn.answer();
    assert_eq!(answer["status"], "input_required", "{answer}");
    assert_eq!(world.standin("official-joke-api.appspot.com").requests(), 0);
}

/// A secret is read from no message, asked for as what it is, and told to nobody.
#[test]
fn a_secret_is_given_as_an_input_alone() {
    let mut world = World::among(vec![keeper()], &[]);
    world.start();
    world.publish(VAULT);
    let wish = "open the bank vault with the code 12345 for Ada";
    let turn = Turn::take(&world, wish, &[]);
    assert_eq!(turn.chosen().1, &json!({"owner": "Ada"}), "{:?}", turn.ran);
    let question = &turn.answer()["question"];
    assert_eq!(
        (&question["fields"][0]["name"], &question["fields"][0]["secret"]),
        (&json!("code"), &json!(true))
    );

    let turn = Turn::take(&world, wish, &["--input", "code=opensesame"]);
    assert_eq!(turn.chosen().1, &json!({"owner": "Ada", "code": "(secret)"}));
    assert_eq!(turn.answer()["status"], "completed", "{:?}", turn.ran);
    assert!(!turn.ran.stdout.contains("opensesame"), "{:?}", turn.ran);
    let received = world.standin("vault.example.com").received().pop().unwrap();
    assert!(received.target.contains("opensesame"), "{received:?}");
}

/// A capability that takes a secret.
pub(crate) const VAULT: &str = r#"a2s: 1.1.0
name: OpenBankVault
description: Opens the vault of a bank for its owner
charset: utf-8
domains: [vault.example.com]
version: "1.0.0"
checksum: "<sha256>"
authors: [{name: A2S authors}]
parameters:
  - {name: owner, patterns: ["for *"]}
  - {name: code, patterns: ["code *"], secret: true, type: string}
execution:
  type: sequence
  steps:
    - id: openVault
      format: OpenAPI
      task:
        openapi: "3.0.3"
        info: {title: Vault, version: "1.0.0"}
        servers: [{url: "https://vault.example.com"}]
        paths:
          /open:
            get:
              parameters:
                - {name: owner, in: query, schema: {type: string}}
                - {name: code, in: query, schema: {type: string}}
              responses: {"200": {description: Open}}
      input_mapping: {owner: "${owner}", code: "${code}"}
      output_mapping: {open: "$.open"}
"#;

/// The service that it asks.
pub(crate) fn keeper() -> MockServiceBuilder {
    let router = Router::new().route("/open", any(async || axum::Json(json!({"open": true}))));
    MockServiceBuilder::for_host("vault.example.com", router)
}

/// Two places know capabilities, and one does not answer.
#[test]
fn several_registries_are_searched_and_a_silent_one_is_told() {
    let mut other = World::among(vec![keeper()], &[]);
    other.start();
    other.publish(VAULT);

    let mut world = World::down(&[]);
    let (url, token) = (other.url(), other.token());
    let settings = format!(
        "[[agent.registries]]\nurl = {url:?}\ntoken = {token:?}\n\
         [[agent.registries]]\nurl = \"http://127.0.0.1:1\"\n"
    );
    let settings = world.write("a2s.toml", &settings);
    world.add_flags(&["--config", &settings]);
    world.start();
    let flags = ["--input", "code=opensesame"];
    let turn = Turn::take(&world, "open the bank vault for Ada", &flags);
    assert_eq!(turn.answer()["status"], "completed", "{:?}", turn.ran);
    assert_eq!(turn.all("found")[0]["candidates"][0]["registry"], url);
    let silent = turn.all("degraded")[0]["message"].as_str().unwrap();
    assert!(silent.starts_with("http://127.0.0.1:1/"), "{silent}");
    assert_eq!(other.standin("vault.example.com").requests(), 1);
}

#[test]
fn inputs_that_are_given_by_name_count_more_than_what_is_said() {
    let world = World::up(&[]);
    let wish = "tweet the weather in Paris saying 'Hello'";
    let flags = ["--input", "location=Rome", "--input", "no_such=1"];
    let turn = Turn::take(&world, wish, &flags);
    assert_eq!(turn.chosen().1, &json!({"location": "Rome", "message": "Hello"}));
}

#[test]
fn nothing_is_run_when_nothing_fits() {
    let world = World::up(&[]);
    let turn = Turn::take(&world, "fold my laundry", &[]);
    let answer = turn.answer();
    assert_eq!((&answer["status"], turn.ran.code), (&json!("nothing_fits"), 1), "{answer}");
    assert!(!answer["nearest"].as_array().unwrap().is_empty(), "{answer}");
    assert_eq!(turn.all("running"), [&Value::Null; 0]);
}

#[test]
fn who_has_no_token_and_what_is_no_request_is_refused() {
    let world = World::up(&[]);
    let url = format!("{}v1/agent", world.url());
    let token = format!("Bearer {}", world.token());
    let ask = |token: &str, body: &str| {
        let (status, text) = send("POST", &url, &[("authorization", token)], Some(body.to_owned()));
        let problem: Value = serde_json::from_str(&text).unwrap();
        (status, problem["code"].as_str().unwrap_or_default().to_owned())
    };
    let joke = r#"{"message": "tell me a joke"}"#;
    assert_eq!(ask("Bearer wrong", joke), (401, "A2S601".to_owned()));
    assert_eq!(ask("", joke), (401, "A2S601".to_owned()));
    let bad = (400, "A2S600".to_owned());
    let long = json!({"message": "a".repeat(8_193)}).to_string();
    let session = json!({"message": "tell me a joke", "session": "two words"}).to_string();
    let own = r#"{"message": "tell me a joke", "strategy": "the_best"}"#;
    for body in
        ["", "{}", "[]", r#"{"message": " "}"#, r#"{"mesage": "a joke"}"#, &long, &session, own]
    {
        assert_eq!(ask(&token, body), bad, "{body}");
    }
    assert_eq!(world.standin("official-joke-api.appspot.com").requests(), 0);
}

/// Whoever asks and goes away does not leave a run behind.
#[test]
fn a_client_that_disappears_stops_its_run() {
    let (arrived, waits) = std::sync::mpsc::channel();
    let router = Router::new().route(
        "/random_joke",
        get(move || {
            let arrived = arrived.clone();
            async move {
                arrived.send(()).unwrap();
                std::future::pending::<()>().await;
            }
        }),
    );
    let service = MockServiceBuilder::for_host("official-joke-api.appspot.com", router);
    let mut world = World::among(vec![service], &[]);
    world.start();
    let url = format!("{}v1/agent", world.url());
    let token = format!("Bearer {}", world.token());
    RUNTIME.block_on(async {
        let client = crate::http::client();
        let request = client
            .post(url)
            .header("authorization", token)
            .header("accept", "text/event-stream")
            .body(json!({"message": "tell me a joke"}).to_string());
        let response = request.send().await.unwrap();
        let arrived = tokio::task::spawn_blocking(move || waits.recv());
        arrived.await.unwrap().unwrap();
        drop(response);
    });
    let status =
        || world.a2s(&["runs", "--json"]).exits(0).one()["executions"][0]["status"].clone();
    let ended = (0..1_000).map(|_| status()).find(|status| status != "running");
    assert_eq!(ended, Some(json!("cancelled")));
}
