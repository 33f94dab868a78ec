//! Redirects: each is a request of its own, for the guardian, the journal and the service.

use std::collections::BTreeSet;

use a2s_api::{EventKind, RunEvent, RunStatus};
use serde_json::{Value, json};

use super::world::{
    World, allow, assert_gapless, assert_succeeded, deny, events, output, read, run, sequence,
    start, task, transcript, until_recorded,
};

fn publish(world: &World, name: &str, call: &str, inputs: Value) {
    let step = task("step", call, inputs, json!({"x": "$.value"}));
    world.registry.publish_newer(name, &json!({"execution": sequence(json!([step]))}));
}

/// Execution ids and addresses of the requests that were sent.
fn sent(events: &[RunEvent]) -> Vec<(String, String, Option<u32>)> {
    let sent = events.iter().filter_map(|event| match &event.kind {
        EventKind::Sending { execution_id, method, url, redirect, .. } => {
            Some((execution_id.to_string(), format!("{method} {url}"), *redirect))
        }
        _ => None,
    });
    sent.collect()
}

/// The guardian denies what goes to `/admin`.
fn deny_admin(world: &World) {
    world.guardian.decide(|question| {
        let path = question["params"]["context"]["request"]["path"].as_str();
        if path.is_some_and(|path| path.starts_with("/admin")) { deny() } else { allow() }
    });
}

#[tokio::test]
async fn no_redirect_leads_past_the_guardian() {
    let world = World::new().await;
    deny_admin(&world);
    let app = world.open().await;
    for status in [301, 302, 303, 307, 308] {
        for method in ["GET", "PUT", "POST"] {
            let (mapping, inputs) = match method {
                "GET" => (json!({}), json!({})),
                _ => (json!({"body": "${word}"}), json!({"word": "hello"})),
            };
            let name = format!("Hop{method}{status}");
            publish(&world, &name, &format!("{method} /hop/{status}/admin/x"), mapping);
            let run = run(&app, &name, inputs).await;
            // A POST is not repeated at all.
            let expected = match (method, status) {
                ("POST", 307 | 308) => RunStatus::Failed,
                _ => RunStatus::Denied,
            };
            assert_eq!(run.status, expected, "{name}: {:?}", run.error);
        }
    }
    let reached: Vec<_> =
        world.service.asked().into_iter().filter(|(call, _)| call.contains(" /admin")).collect();
    assert!(reached.is_empty(), "{reached:?}");
}

#[tokio::test]
async fn every_hop_has_a_verdict_and_a_record() {
    let world = World::new().await;
    publish(&world, "Chain", "POST /hop/303/hop/302/echo/end", json!({"body": "${word}"}));
    let app = world.open().await;
    let run = run(&app, "Chain", json!({"word": "hello"})).await;
    assert_succeeded(&run);
    assert_eq!(output(&run)["x"], json!("end"));
    let events = events(&app, run.id).await;
    assert_gapless(&events);
    let sent = sent(&events);
    let told: Vec<_> = sent.iter().map(|(_, call, hop)| (call.as_str(), *hop)).collect();
    assert_eq!(
        told,
        [
            ("POST https://api.example/hop/303/hop/302/echo/end", None),
            ("GET https://api.example/hop/302/echo/end", Some(1)),
            ("GET https://api.example/echo/end", Some(2)),
        ]
    );
    let ids: BTreeSet<_> = sent.iter().map(|(id, ..)| id).collect();
    assert_eq!(ids.len(), 3);
    // The guardian was asked about each, by the same ids, and saw what was sent.
    let asked = world.guardian.asked();
    let requests = asked.iter().filter(|asked| asked["method"] == "steps/toolCallRequest");
    let requests: Vec<_> = requests
        .map(|asked| {
            let params = &asked["params"];
            let request = &params["context"]["request"];
            let call = [&request["method"], &request["url"]].map(|text| text.as_str().unwrap());
            let id = params["toolCallRequest"]["executionId"].as_str().unwrap().to_owned();
            let hop = request.get("redirect").map(|hop| hop.as_u64().unwrap() as u32);
            (id, call.join(" "), hop)
        })
        .collect();
    assert_eq!(requests, sent);
    let body = &asked[0]["params"]["context"]["request"]["body"];
    assert_eq!((&body["text"], &body["truncated"]), (&json!("\"hello\""), &json!(false)));
    assert_eq!(world.service.heard().len(), 3);
}

#[tokio::test]
async fn five_redirects_are_followed_and_a_sixth_is_not() {
    let world = World::new().await;
    let chain = |hops: usize| format!("GET {}/echo/end", "/hop/302".repeat(hops));
    publish(&world, "Five", &chain(5), json!({}));
    publish(&world, "Six", &chain(6), json!({}));
    let app = world.open().await;
    assert_succeeded(&run(&app, "Five", json!({})).await);
    let six = run(&app, "Six", json!({})).await;
    let error = six.error.unwrap();
    assert_eq!((six.status, error.code.as_str()), (RunStatus::Failed, "A2S356"));
    assert!(error.message.contains("more than 5 times"), "{}", error.message);
    assert_eq!(world.service.count("GET /echo/end"), 1);
}

#[tokio::test]
async fn a_post_is_not_repeated_by_a_redirect() {
    let world = World::new().await;
    let app = world.open().await;
    for status in [307, 308] {
        let (post, put) = (format!("Post{status}"), format!("Put{status}"));
        publish(&world, &post, &format!("POST /hop/{status}/say"), json!({"body": "${word}"}));
        publish(&world, &put, &format!("PUT /hop/{status}/say"), json!({"body": "${word}"}));
        let post = run(&app, &post, json!({"word": "hello"})).await;
        let error = post.error.unwrap();
        assert_eq!((error.code.as_str(), error.repeat_safe), ("A2S356", false));
        assert!(error.message.contains("a repetition is not safe"), "{}", error.message);
        assert_succeeded(&run(&app, &put, json!({"word": "hello"})).await);
    }
    assert_eq!(world.service.count("POST /say"), 0);
    assert_eq!(world.service.count("PUT /say"), 2);
}

#[tokio::test]
async fn a_crash_between_two_hops_is_seen() {
    let world = World::new().await;
    publish(&world, "Get", "GET /hop/302/hold/get", json!({}));
    publish(&world, "Post", "POST /hop/303/hold/post", json!({"body": "${word}"}));
    let app = world.open().await;
    let get = start(&app, "Get", json!({})).await;
    let post = start(&app, "Post", json!({"word": "hello"})).await;
    world.service.arrived("GET /hold/get", 1).await;
    world.service.arrived("GET /hold/post", 1).await;
    until_recorded(&app, get, "GET /hold/get", 1).await;
    world.crash(app).await;

    let app = world.open().await;
    world.service.arrived("GET /hold/get", 2).await;
    world.service.release("get");
    let events = events(&app, get).await;
    assert_succeeded(&read(&app, get).await);
    let sent = sent(&events);
    assert_eq!(sent.len(), 4, "{:?}", transcript(&events));
    assert_eq!((&sent[0].0, &sent[1].0), (&sent[2].0, &sent[3].0));
    // What the POST did cannot be known from here, though its second request only reads.
    let post = loop {
        let post = read(&app, post).await;
        if post.status != RunStatus::Running && post.status != RunStatus::Queued {
            break post;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(post.status, RunStatus::Waiting);
    assert_eq!(world.service.count("POST /hop/303/hold/post"), 1);
}

#[tokio::test]
async fn a_modified_request_is_shown_once_more() {
    let world = World::new().await;
    publish(&world, "City", "GET /echo/{city}", json!({"pathParameters": {"city": "${city}"}}));
    world.guardian.decide(|question| {
        let mut modified = question.clone();
        let input = &mut modified["params"]["toolCallRequest"]["inputs"][0]["value"];
        if *input == json!("Bern") {
            *input = json!("../admin");
            return json!({"decision": "modify", "message": "x", "modifiedRequest": modified});
        }
        let path = question["params"]["context"]["request"]["path"].as_str();
        if path.is_some_and(|path| path.contains("admin")) { deny() } else { allow() }
    });
    let app = world.open().await;
    let run = run(&app, "City", json!({"city": "Bern"})).await;
    assert_eq!(run.status, RunStatus::Denied, "{:?}", run.error);
    let paths = world.guardian.asked();
    let paths = paths.iter().map(|asked| asked["params"]["context"]["request"]["path"].clone());
    assert_eq!(paths.collect::<Vec<_>>(), [json!("/echo/Bern"), json!("/echo/..%2Fadmin")]);
    assert!(world.service.asked().is_empty());
}
