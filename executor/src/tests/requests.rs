//! What callers ask: starting, reading, following, cancelling and planning, and what is refused.

use std::sync::{Arc, Mutex};

use a2s::Digest;
use a2s_api::{EventKind, PlanResponse, PlannedStepKind, RunStatus};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use serde_json::{Value, json};

use super::world::{
    Published, World, assert_gapless, assert_succeeded, call, cancel, document, events,
    events_after, read, run, sequence, serve, task,
};
use crate::{App, Secret};

fn publish_echo(world: &World) -> Digest {
    world.registry.publish(
        "Echo",
        "1.0.0",
        &json!({"execution": sequence(json!([
            task("step", "GET /echo/{word}", json!({"word": "${word}"}), json!({"heard": "$.value"})),
        ]))}),
    )
}

fn publish_slow(world: &World) {
    world.registry.publish(
        "Slow",
        "1.0.0",
        &json!({"execution": sequence(json!([
            task("first", "GET /echo/1", json!({}), json!({"a": "$.value"})),
            task("slow", "GET /hold/slow", json!({}), json!({"b": "$.value"})),
        ]))}),
    );
}

async fn refuse(app: &App, body: Value) -> (u16, String, String) {
    let answer = call(app, Method::POST, "/v1/executions", &[], body).await;
    let (status, code, problem) = answer.problem();
    assert_eq!(problem.kind, format!("/errors/{code}"));
    assert!(problem.hint.is_some());
    (status, code, problem.detail)
}

#[tokio::test]
async fn starting_answers_at_once_with_what_will_run() {
    let world = World::new().await;
    publish_slow(&world);
    let app = world.open().await;
    let answer =
        call(&app, Method::POST, "/v1/executions", &[], json!({"name": "Slow", "version": "^1"}))
            .await;
    assert_eq!(answer.status, StatusCode::ACCEPTED);
    let run = answer.run();
    assert_eq!((run.status, run.version.to_string()), (RunStatus::Running, "1.0.0".to_owned()));
    assert_eq!(run.id.get_version_num(), 7);
    world.service.release("slow");
    assert_gapless(&events(&app, run.id).await);
    assert_succeeded(&read(&app, run.id).await);
}

#[tokio::test]
async fn inputs_are_checked_before_anything_is_sent() {
    let world = World::new().await;
    publish_echo(&world);
    let app = world.open().await;
    let missing = refuse(&app, json!({"name": "Echo"})).await;
    assert_eq!((missing.0, missing.1.as_str()), (422, "A2S320"));
    assert_eq!(refuse(&app, json!({"name": "Echo", "inputs": {"word": null}})).await, missing);
    assert!(missing.2.contains("`word`"), "{}", missing.2);
    let unknown = refuse(&app, json!({"name": "Echo", "inputs": {"wrd": 1}})).await;
    assert_eq!((unknown.0, unknown.1.as_str()), (422, "A2S321"));
    assert!(unknown.2.contains("`wrd`") && unknown.2.contains("`word`"), "{}", unknown.2);
    for body in
        [json!({}), json!({"name": "echo"}), json!({"name": "Echo", "input": {}}), json!([])]
    {
        assert_eq!(refuse(&app, body).await.1, "A2S300");
    }
    assert_eq!(refuse(&app, json!({"name": "Echo", "version": "soon"})).await.1, "A2S315");
    assert_eq!(refuse(&app, json!({"name": "Echo", "version": "2"})).await.1, "A2S312");
    let gone = refuse(&app, json!({"name": "Nothing"})).await;
    assert_eq!((gone.0, gone.1.as_str()), (404, "A2S312"));
    let large = json!({"name": "Echo", "inputs": {"word": "x".repeat(2 << 20)}});
    assert_eq!(refuse(&app, large).await.0, 413);
    assert!(world.service.asked().is_empty() && world.guardian.asked().is_empty());
    let list = call(&app, Method::GET, "/v1/executions", &[], Value::Null).await;
    assert_eq!(list.body["executions"], json!([]), "a refused request leaves no run");
}

#[tokio::test]
async fn only_the_digest_that_was_asked_for_runs() {
    let world = World::new().await;
    let digest = publish_echo(&world);
    let app = world.open().await;
    let body =
        |digest| json!({"name": "Echo", "checksum": digest, "inputs": {"word": "x"}, "wait": true});
    let answer = call(&app, Method::POST, "/v1/executions", &[], body(json!(digest))).await;
    assert_eq!(answer.run().checksum, digest);
    let other = Digest::of_bytes(b"other");
    let (status, code, detail) = refuse(&app, body(json!(other))).await;
    assert_eq!((status, code.as_str()), (409, "A2S313"));
    assert!(detail.contains(&other.to_string()), "{detail}");
}

#[tokio::test]
async fn a_changed_document_is_refused_wherever_it_was_changed() {
    let other = Digest::of_bytes(b"other");
    type Change = Box<dyn FnOnce(&mut Published)>;
    let changes: [(&str, Change); 6] = [
        (
            "one letter of the description",
            Box::new(|p: &mut Published| {
                let text = String::from_utf8(p.source.clone()).unwrap();
                p.source = text.replace("Echo for tests", "echo for tests").into_bytes();
            }),
        ),
        ("what the registry itself has noticed", Box::new(|p: &mut Published| p.damaged = true)),
        ("the entity tag", Box::new(move |p: &mut Published| p.etag = other)),
        ("the list", Box::new(move |p: &mut Published| p.checksum = other)),
        (
            "the content, with a checksum of its own",
            Box::new(|p: &mut Published| {
                let steps = json!([task("step", "GET /echo/evil", json!({}), json!({}))]);
                p.source = document("Echo", "1.0.0", &json!({"execution": sequence(steps)}));
            }),
        ),
        (
            "the whole document",
            Box::new(|p: &mut Published| {
                let steps = json!([task("step", "GET /echo/evil", json!({}), json!({}))]);
                p.source = document("Other", "1.0.0", &json!({"execution": sequence(steps)}));
                p.checksum = a2s::Document::open(&p.source).unwrap().digest();
                p.etag = p.checksum;
            }),
        ),
    ];
    for (what, change) in changes {
        let world = World::new().await;
        let pin = publish_echo(&world);
        let mut app = world.open().await;
        assert_succeeded(&run(&app, "Echo", json!({"word": "x"})).await);
        let mut sent = 1;
        let mut listed = pin;
        world.registry.tamper("Echo", |published| {
            change(published);
            listed = published.checksum;
        });
        if listed == pin {
            // The verified copy of this executor is used as long as the registry lists its checksum.
            assert_succeeded(&run(&app, "Echo", json!({"word": "x"})).await);
            sent += 1;
            app = world.crash_and_open(app).await;
        }
        let refused = refuse(&app, json!({"name": "Echo", "inputs": {"word": "x"}})).await;
        assert_eq!((refused.0, refused.1.as_str()), (409, "A2S313"), "{what}: {}", refused.2);
        assert_eq!(world.service.asked().len(), sent, "{what}");
    }
}

#[tokio::test]
async fn a_dependency_that_does_not_fit_is_refused() {
    let world = World::new().await;
    let inner =
        json!({"execution": sequence(json!([task("step", "GET /echo/1", json!({}), json!({}))]))});
    let digest = world.registry.publish("Inner", "1.0.0", &inner);
    let outer = |version: &str, pin: Value| {
        let mut dependency = json!({"capability": "Inner", "version": version});
        if !pin.is_null() {
            dependency["checksum"] = pin;
        }
        json!({
            "dependencies": [dependency],
            "execution": sequence(json!([{"id": "call", "type": "capability", "use": "Inner"}])),
        })
    };
    let other = Digest::of_bytes(b"other");
    world.registry.publish("Good", "1.0.0", &outer("^1.0.0", json!(digest)));
    world.registry.publish("Newer", "1.0.0", &outer("^2.0.0", Value::Null));
    world.registry.publish("Pinned", "1.0.0", &outer("^1.0.0", json!(other)));
    world.registry.publish("Outside", "1.0.0", &outer("^2.0.0", json!(digest)));
    let app = world.open().await;
    assert_succeeded(&run(&app, "Good", json!({})).await);
    for name in ["Newer", "Pinned", "Outside"] {
        let (status, code, detail) = refuse(&app, json!({"name": name})).await;
        assert_eq!((status, code.as_str()), (422, "A2S316"), "{name}: {detail}");
        assert!(detail.contains("Inner"), "{detail}");
    }
}

#[tokio::test]
async fn a_registry_that_is_not_there_is_named() {
    let mut world = World::new().await;
    world.config.registry = World::nowhere();
    let app = world.open().await;
    let (status, code, detail) = refuse(&app, json!({"name": "Echo"})).await;
    assert_eq!((status, code.as_str()), (502, "A2S310"));
    assert!(detail.contains(world.config.registry.as_str()), "{detail}");
}

#[tokio::test]
async fn an_idempotency_key_belongs_to_one_request() {
    let world = World::new().await;
    publish_echo(&world);
    let app = world.open().await;
    let send = async |key: &str, body: Value| {
        call(&app, Method::POST, "/v1/executions", &[("idempotency-key", key)], body).await
    };
    let body = json!({"name": "Echo", "inputs": {"word": "x"}});
    let mut waiting = body.clone();
    waiting["wait"] = json!(true);
    let first = send("k1", waiting.clone()).await.run();
    // How the answer is waited for is no part of the request.
    let second = send("k1", body.clone()).await.run();
    assert_eq!(first.id, second.id);
    assert_eq!(world.service.count("GET /echo/x"), 1);
    let (status, code, _) =
        send("k1", json!({"name": "Echo", "inputs": {"word": "y"}})).await.problem();
    assert_eq!((status, code.as_str()), (422, "A2S303"));
    assert_ne!(send("k2", waiting).await.run().id, first.id);
    assert_eq!(send("", body.clone()).await.problem().1, "A2S300");
    assert_eq!(send(&"k".repeat(256), body).await.problem().1, "A2S300");
}

#[tokio::test]
async fn requests_with_one_key_at_the_same_time_start_one_run() {
    let world = World::new().await;
    publish_echo(&world);
    let app = world.open().await;
    let body = json!({"name": "Echo", "inputs": {"word": "x"}, "wait": true});
    let calls = (0..8).map(|_| {
        let (app, body) = (app.clone(), body.clone());
        async move {
            call(&app, Method::POST, "/v1/executions", &[("idempotency-key", "k")], body)
                .await
                .run()
                .id
        }
    });
    let ids = futures::future::join_all(calls).await;
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(world.service.count("GET /echo/x"), 1);
}

#[tokio::test]
async fn events_can_be_taken_up_anywhere_without_gaps_or_repeats() {
    let world = World::new().await;
    publish_slow(&world);
    let (app, id) = world.open_until("Slow", json!({}), "GET /hold/slow").await;
    // Three readers begin while the run is under way: at the start, in the middle, and ahead of it.
    let readers = [0, 5, 11].map(|after| {
        let app = app.clone();
        tokio::spawn(async move { (after, events_after(&app, id, after).await) })
    });
    world.service.release("slow");
    let mut streams = Vec::new();
    for reader in readers {
        streams.push(reader.await.unwrap());
    }
    let all = events(&app, id).await;
    assert_gapless(&all);
    assert!(matches!(all.last().unwrap().kind, EventKind::RunFinished { .. }));
    for (after, stream) in streams {
        assert_eq!(stream, all[usize::try_from(after).unwrap()..], "after {after}");
    }
    for after in 0..=all.len() {
        assert_eq!(events_after(&app, id, after as u64).await, all[after..], "after {after}");
    }
    // Nothing is left: a client that comes back by itself is told not to.
    let path = format!("/v1/executions/{id}/events");
    let last = all.len().to_string();
    let answer = call(&app, Method::GET, &path, &[("last-event-id", &last)], Value::Null).await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT);
    for malformed in ["x", "-1", "9223372036854775808"] {
        let headers = [("last-event-id", malformed)];
        let response = call(&app, Method::GET, &path, &headers, Value::Null).await;
        assert_eq!(response.problem().1, "A2S300", "{malformed}");
    }
}

#[tokio::test]
async fn cancelling_gives_up_a_read() {
    let world = World::new().await;
    publish_slow(&world);
    let (app, id) = world.open_until("Slow", json!({}), "GET /hold/slow").await;
    let answer = cancel(&app, id).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED);
    assert_gapless(&events(&app, id).await);
    let run = read(&app, id).await;
    assert_eq!(run.status, RunStatus::Cancelled);
    assert_eq!(run.error.unwrap().code, "A2S370");
    assert_eq!(run.steps[1].status, "cancelled");
    let again = cancel(&app, id).await;
    assert_eq!(again.problem().1, "A2S305");
}

#[tokio::test]
async fn cancelling_awaits_a_post_and_records_what_came_of_it() {
    let world = World::new().await;
    world.registry.publish(
        "Pay",
        "1.0.0",
        &json!({"execution": sequence(json!([
            task("pay", "POST /hold/pay", json!({}), json!({"receipt": "$.value"})),
            task("next", "GET /echo/next", json!({}), json!({})),
        ]))}),
    );
    let (app, id) = world.open_until("Pay", json!({}), "POST /hold/pay").await;
    let answer = cancel(&app, id).await;
    assert_eq!(answer.run().status, RunStatus::Running);
    world.service.release("pay");
    let events = events(&app, id).await;
    let recorded = |kind: &EventKind| matches!(kind, EventKind::StepFinished { step, outputs, .. } if step == "pay" && outputs["receipt"] == "pay");
    assert!(events.iter().any(|event| recorded(&event.kind)));
    let run = read(&app, id).await;
    assert_eq!(run.status, RunStatus::Cancelled);
    assert!(!run.error.unwrap().repeat_safe);
    assert_eq!(world.service.count("GET /echo/next"), 0);
}

#[tokio::test]
async fn runs_are_listed_newest_first_in_pages() {
    let world = World::new().await;
    publish_echo(&world);
    let app = world.open().await;
    let mut ids = Vec::new();
    for word in ["a", "b", "c"] {
        ids.push(run(&app, "Echo", json!({"word": word})).await.id.to_string());
    }
    ids.reverse();
    let list = async |query: &str| {
        let path = format!("/v1/executions{query}");
        call(&app, Method::GET, &path, &[], Value::Null).await
    };
    let ids_of = |body: &Value| -> Vec<String> {
        let runs = body["executions"].as_array().unwrap();
        runs.iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
    };
    let all = list("").await;
    assert_eq!(ids_of(&all.body), ids);
    assert_eq!(all.body["executions"][0]["status"], "succeeded");
    assert_eq!(all.body["executions"][0]["steps"], json!([]));
    assert_eq!(all.body.get("next"), None);
    let page = list("?limit=2").await;
    assert_eq!(ids_of(&page.body), ids[..2]);
    let next = page.body["next"].as_str().unwrap();
    let page = list(&format!("?limit=2&before={next}")).await;
    assert_eq!(ids_of(&page.body), ids[2..]);
    assert_eq!(page.body.get("next"), None);
    for bad in ["?limit=0", "?limit=101", "?limit=x", "?before=x", "?page=1"] {
        assert_eq!(list(bad).await.problem().1, "A2S300", "{bad}");
    }
}

#[tokio::test]
async fn everything_about_runs_needs_the_token() {
    let mut world = World::new().await;
    world.config.token = Some(Secret::new("right"));
    publish_echo(&world);
    let app = world.open().await;
    let id = uuid::Uuid::nil();
    let body = json!({"name": "Echo", "inputs": {"word": "x"}});
    let requests = [
        (Method::POST, "/v1/executions".to_owned(), body.clone()),
        (Method::GET, "/v1/executions".to_owned(), Value::Null),
        (Method::GET, format!("/v1/executions/{id}"), Value::Null),
        (Method::GET, format!("/v1/executions/{id}/events"), Value::Null),
        (Method::DELETE, format!("/v1/executions/{id}"), Value::Null),
        (Method::POST, format!("/v1/executions/{id}/cancel"), Value::Null),
        (Method::POST, format!("/v1/executions/{id}/resume"), json!({"decision": "skip"})),
        (Method::POST, format!("/v1/executions/{id}/replay"), json!({})),
        (Method::GET, format!("/v1/executions/{id}/exchanges"), Value::Null),
        (
            Method::POST,
            "/v1/triggers".to_owned(),
            json!({"event": {"type": "email", "id": "1"}, "execution": body}),
        ),
        (Method::POST, "/v1/plans".to_owned(), body),
        (Method::GET, "/v1/hosts".to_owned(), Value::Null),
        (Method::GET, "/v1/usage".to_owned(), Value::Null),
        (Method::GET, "/v1/state".to_owned(), Value::Null),
        (Method::PUT, "/v1/state/a".to_owned(), json!(1)),
        (Method::DELETE, "/v1/state/a".to_owned(), Value::Null),
        (Method::GET, "/v1/sessions/s/state".to_owned(), Value::Null),
        (Method::PUT, "/v1/sessions/s/state/a".to_owned(), json!(1)),
        (Method::DELETE, "/v1/sessions/s/state/a".to_owned(), Value::Null),
        (Method::GET, "/v1/secrets".to_owned(), Value::Null),
        (Method::PUT, "/v1/secrets/api.example/key".to_owned(), Value::Null),
        (Method::DELETE, "/v1/secrets/api.example/key".to_owned(), Value::Null),
        (Method::PUT, "/v1/secrets/api.example/key/users".to_owned(), json!({})),
        (Method::GET, "/v1/trust".to_owned(), Value::Null),
        (Method::PUT, "/v1/trust/Say/1.0.0".to_owned(), Value::Null),
        (Method::DELETE, "/v1/trust/Say/1.0.0".to_owned(), Value::Null),
    ];
    let paths = App::openapi().paths.paths;
    let guarded = paths.keys().filter(|path| path.starts_with("/v1/")).count();
    assert_eq!(guarded, 20, "a new route needs a line above");
    for (method, path, body) in requests {
        for headers in [
            &[][..],
            &[("authorization", "Bearer wrong")],
            &[("authorization", "Basic right")],
            &[("authorization", "right")],
        ] {
            let answer = call(&app, method.clone(), &path, headers, body.clone()).await;
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
            let (status, code, _) = answer.problem();
            assert_eq!((status, code.as_str()), (401, "A2S301"), "{method} {path}");
        }
        let right = [("authorization", "bearer right")];
        let answer = call(&app, method, &path, &right, body).await;
        assert_ne!(answer.status, StatusCode::UNAUTHORIZED);
    }
    for probe in ["/healthz", "/readyz"] {
        assert_eq!(call(&app, Method::GET, probe, &[], Value::Null).await.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn an_unknown_run_is_not_found() {
    let world = World::new().await;
    let app = world.open().await;
    for id in ["00000000-0000-7000-8000-000000000000", "latest"] {
        for (method, path) in [
            (Method::GET, format!("/v1/executions/{id}")),
            (Method::GET, format!("/v1/executions/{id}/events")),
            (Method::POST, format!("/v1/executions/{id}/cancel")),
        ] {
            let (status, code, _) = call(&app, method, &path, &[], Value::Null).await.problem();
            assert_eq!((status, code.as_str()), (404, "A2S302"), "{path}");
        }
    }
}

#[tokio::test]
async fn a_plan_shows_what_is_known_and_sends_nothing() {
    let world = World::new().await;
    let inner = world.registry.publish(
        "Inner",
        "1.0.0",
        &json!({"execution": sequence(json!([
            task("ask", "GET /echo/{city}", json!({"city": "${city}"}), json!({"heard": "$.value"})),
        ]))}),
    );
    world.registry.publish(
        "Outer",
        "1.0.0",
        &json!({
            "dependencies": [{"capability": "Inner", "version": "^1"}],
            "execution": sequence(json!([
                {"id": "call", "type": "capability", "use": "Inner", "output_mapping": {"heard": "$.heard"}},
                task("say", "POST /say", json!({"body": {"text": "${city}: ${heard} for ${whom}"}}), json!({})),
            ])),
        }),
    );
    let app = world.open().await;
    let body = json!({"name": "Outer", "inputs": {"city": "Paris"}});
    let answer = call(&app, Method::POST, "/v1/plans", &[], body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    let plan: PlanResponse = serde_json::from_value(answer.body).unwrap();
    assert_eq!(plan.missing, ["whom"]);
    assert_eq!(plan.dependencies.len(), 1);
    let upstream = plan.hosts["api.example"].as_deref();
    assert!(upstream.is_some_and(|upstream| upstream.starts_with("http://127.0.0.1:")));
    assert_eq!(plan.guardians[0].fail_mode, "closed");
    let PlannedStepKind::Capability { capability, inputs, steps } = &plan.steps[0].kind else {
        panic!()
    };
    assert_eq!((capability.checksum, &inputs["city"]), (inner, &json!("Paris")));
    assert_eq!(steps[0].step, "call/ask");
    let PlannedStepKind::Task { method, url, inputs, .. } = &steps[0].kind else { panic!() };
    assert_eq!((method.as_str(), url.as_str()), ("GET", "https://api.example/echo/{city}"));
    assert_eq!(inputs["pathParameters.city"], "Paris");
    let PlannedStepKind::Task { inputs, .. } = &plan.steps[1].kind else { panic!() };
    assert_eq!(inputs["body"], json!({"text": "Paris: ${heard} for ${whom}"}));
    assert!(world.service.asked().is_empty() && world.guardian.asked().is_empty());
    let body = json!({"name": "Outer", "inputs": {"town": "Paris"}});
    let answer = call(&app, Method::POST, "/v1/plans", &[], body).await;
    assert_eq!(answer.problem().1, "A2S321");
}

/// What arrived at a service: the path with its query, the media type, and the body.
type Arrived = Arc<Mutex<Vec<(String, String, Vec<u8>)>>>;

/// A service that keeps what arrives, and answers with nothing.
async fn start_recorder() -> (url::Url, Arrived) {
    async fn keep(State(arrived): State<Arrived>, uri: Uri, headers: HeaderMap, body: Bytes) {
        let media_type = headers.get("content-type").map(|value| value.to_str().unwrap());
        let media_type = media_type.unwrap_or_default().to_owned();
        arrived.lock().unwrap().push((uri.to_string(), media_type, body.to_vec()));
    }
    let arrived = Arrived::default();
    let router = Router::new().fallback(keep).with_state(arrived.clone());
    let address = format!("http://{}/", serve(router).await);
    (address.parse().unwrap(), arrived)
}

#[tokio::test]
async fn every_kind_of_body_arrives_as_its_media_type_has_it() {
    let mut world = World::new().await;
    let (address, arrived) = start_recorder().await;
    world.config.upstreams.values_mut().for_each(|url| url.clone_from(&address));
    let step = |id: &str, media_type: &str, schema: Value, body: Value| {
        let parameter = json!({"name": "q", "in": "query", "content": {"application/json": {}}});
        let operation = json!({
            "parameters": [parameter],
            "requestBody": {"required": true, "content": {media_type: {"schema": schema}}},
        });
        json!({
            "id": id,
            "format": "OpenAPI",
            "task": {
                "openapi": "3.1.0",
                "info": {"title": "Test", "version": "1"},
                "servers": [{"url": "https://{name}.example", "variables": {"name": {"default": "api"}}}],
                "paths": {"/upload": {"post": operation}},
            },
            "input_mapping": {"q": {"a": ["${word}"]}, "body": body},
        })
    };
    let file = json!({"type": "string", "format": "binary"});
    let upload = json!({"type": "object", "properties": {"photo": file}});
    let photo =
        json!({"base64": "${photo}", "filename": "${word}.png", "content_type": "image/png"});
    let steps = json!([
        step("upload", "multipart/form-data", upload, json!({"note": "${word}", "photo": photo})),
        step(
            "form",
            "application/x-www-form-urlencoded",
            json!({}),
            json!({"note": "${word} & more"})
        ),
        step("xml", "application/xml", json!({"type": "object"}), json!("<a>${word}</a>")),
        step("raw", "application/octet-stream", json!({}), json!({"base64": "${photo}"})),
    ]);
    world.registry.publish("Upload", "1.0.0", &json!({"execution": sequence(steps)}));
    let app = world.open().await;
    assert_succeeded(&run(&app, "Upload", json!({"word": "é", "photo": "/wCA"})).await);
    let arrived = arrived.lock().unwrap().clone();
    assert_eq!(arrived.len(), 4);
    assert!(
        arrived.iter().all(|(path, ..)| path == "/upload?q=%7B%22a%22%3A%5B%22%C3%A9%22%5D%7D")
    );
    let (_, media_type, body) = &arrived[0];
    let boundary = media_type.strip_prefix("multipart/form-data; boundary=").unwrap();
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\né\r\n--{boundary}\r\n\
         Content-Disposition: form-data; name=\"photo\"; filename=\"é.png\"\r\n\
         Content-Type: image/png\r\n\r\n",
    );
    let tail = format!("\r\n--{boundary}--\r\n");
    assert_eq!(*body, [head.as_bytes(), &[0xff, 0, 0x80], tail.as_bytes()].concat());
    let rest: Vec<_> =
        arrived[1..].iter().map(|(_, name, body)| (name.as_str(), &**body)).collect();
    assert_eq!(
        rest,
        [
            ("application/x-www-form-urlencoded", "note=%C3%A9+%26+more".as_bytes()),
            ("application/xml", "<a>é</a>".as_bytes()),
            ("application/octet-stream", &[0xff, 0, 0x80]),
        ]
    );
}

#[tokio::test]
async fn what_happens_is_counted() {
    let mut world = World::new().await;
    "company".clone_into(&mut world.guarded_by().name);
    publish_echo(&world);
    let app = world.open().await;
    run(&app, "Echo", json!({"word": "x"})).await;
    // The report is the last thing that is counted.
    world.registry.outcome().await;
    app.shutdown(std::time::Duration::from_secs(30)).await;
    let text = world.metrics();
    for line in [
        "runs_total{status=\"succeeded\"} 1",
        "runs_live 0",
        "steps_total{kind=\"task\",outcome=\"succeeded\"} 1",
        "requests_total{status=\"2xx\"} 1",
        "decisions_total{hook=\"steps/toolCallRequest\",guardian=\"company\",decision=\"allow\",source=\"guardian\"} 1",
        "decisions_total{hook=\"steps/toolCallResult\",guardian=\"company\",decision=\"allow\",source=\"guardian\"} 1",
        "reports_total{status=\"sent\"} 1",
        "run_seconds_count 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

#[test]
fn every_route_is_described_with_its_answers() {
    let document = App::openapi();
    let operations =
        document.paths.paths.values().flat_map(|item| {
            [&item.get, &item.post, &item.put, &item.delete].into_iter().flatten()
        });
    let mut ids = std::collections::BTreeSet::new();
    for operation in operations {
        let id = operation.operation_id.as_deref().unwrap();
        assert!(ids.insert(id), "{id} twice");
        assert!(operation.summary.as_ref().is_some_and(|summary| !summary.is_empty()), "{id}");
        let good = ["200", "202", "204"];
        assert!(
            good.iter().any(|status| operation.responses.responses.contains_key(*status)),
            "{id}"
        );
    }
    assert_eq!(ids.len(), 28);
}

#[tokio::test]
async fn repeated_headers_of_caller_and_key_are_refused() {
    let world = World::new().await;
    let app = world.open().await;
    for name in ["authorization", "a2s-on-behalf-of", "idempotency-key"] {
        let headers = [(name, "one"), (name, "two")];
        let body = json!({"name": "Say"});
        let answer = call(&app, Method::POST, "/v1/executions", &headers, body).await;
        let (status, code, problem) = answer.problem();
        assert_eq!(status, 400, "{name} {code}");
        assert!(problem.detail.contains("more than once"), "{}", problem.detail);
    }
}
