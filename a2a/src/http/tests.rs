//! What strangers may send to the door, with an agent that knows nothing and can do nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use a2s::Secret;
use reqwest::StatusCode;
use serde_json::{Value, json};
use test_support::modify;
use tokio::net::TcpListener;
use uuid::Uuid;

use crate::tests::{Answer, guard};
use agent::{Agent, ClockAndIds};

use crate::App;
use agent::Guard;

/// The door of an agent, until the test is over.
struct Door {
    url: String,
    http: reqwest::Client,
}

impl Door {
    async fn open(guardian: Option<Answer>) -> Self {
        let count = AtomicU64::new(0);
        let ids = move || Uuid::from_u64_pair(1, count.fetch_add(1, Ordering::Relaxed));
        let outside = ClockAndIds::new(|| jiff::Timestamp::UNIX_EPOCH, ids);
        let guard = match guardian {
            Some(answer) => guard(answer).await,
            None => Guard::new(None, outside.clone()),
        };
        let agent = Agent::new(outside).with_guard(guard);
        let app = App::new(&agent::App::new(agent, Some(Secret::new("t"))));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app.routes()).await });
        Self { url, http: reqwest::Client::builder().no_proxy().build().unwrap() }
    }

    async fn post(&self, body: impl Into<reqwest::Body>) -> reqwest::Response {
        let request = self.http.post(format!("{}/a2a", self.url)).bearer_auth("t");
        request.body(body).send().await.unwrap()
    }

    async fn call(&self, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let answer = self.post(body.to_string()).await;
        assert_eq!(answer.status(), StatusCode::OK);
        let answer: Value = answer.json().await.unwrap();
        assert_eq!(answer["id"], 7, "{answer}");
        answer
    }
}

fn said(text: &str) -> Value {
    json!({"message": {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": text}]}})
}

#[tokio::test]
async fn without_the_token_there_is_a_card_and_nothing_else() {
    let door = Door::open(None).await;
    let card: Value = door
        .http
        .get(format!("{}/.well-known/agent-card.json", door.url))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(card["url"], format!("{}/a2a", door.url));
    let refused = door.http.post(format!("{}/a2a", door.url)).body("{}").send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn too_large_request_gets_a_protocol_error() {
    let door = Door::open(None).await;
    let answer: Value = door.post("x".repeat(super::MAX_BODY + 1)).await.json().await.unwrap();
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &Value::Null));
}

#[tokio::test]
async fn messages_that_cannot_be_used_make_no_task() {
    let door = Door::open(None).await;
    let with = |change: fn(&mut Value)| {
        let mut params = said("hi");
        change(&mut params);
        params
    };
    for (params, code) in [
        (json!({}), -32602),
        (json!({"message": []}), -32602),
        (with(|p| p["message"]["role"] = json!("agent")), -32602),
        (with(|p| p["message"]["contextId"] = json!("with space")), -32602),
        (with(|p| p["message"]["parts"] = json!([])), -32602),
        (with(|p| p["configuration"] = json!([])), -32602),
        (with(|p| p["configuration"] = json!({"blocking": "no"})), -32602),
        (with(|p| p["configuration"] = json!({"historyLength": -1})), -32602),
        (
            with(|p| p["configuration"] = json!({"pushNotificationConfig": {"url": "http://x/"}})),
            -32003,
        ),
        (
            with(|p| {
                p["message"]["parts"][0] = json!({"kind": "file", "file": {"uri": "http://x/"}})
            }),
            -32005,
        ),
        (with(|p| p["message"]["taskId"] = json!("1")), -32001),
        (with(|p| p["message"]["taskId"] = json!("00000000-0000-0001-0000-0000000003e7")), -32001),
    ] {
        let answer = door.call("message/send", params.clone()).await;
        assert_eq!(answer["error"]["code"], code, "{params}: {answer}");
    }
}

#[tokio::test]
async fn tasks_are_found_by_the_ids_that_were_given_and_by_no_others() {
    let door = Door::open(None).await;
    let task = door.call("message/send", said("do something")).await["result"].take();
    assert_eq!(task["status"]["state"], "failed", "{task}");
    assert_eq!(task["history"][0]["parts"][0]["text"], "do something");
    let id = &task["id"];
    let same = door.call("GetTask", json!({"id": id, "historyLength": 0})).await["result"].take();
    assert_eq!((&same["id"], &same["history"]), (id, &Value::Null));
    assert_eq!(same["status"]["state"], "TASK_STATE_FAILED");

    let after = |mut params: Value| {
        params["message"]["taskId"] = id.clone();
        params
    };
    for (method, params, code) in [
        ("tasks/get", json!({"id": "00000000-0000-0001-0000-0000000003e7"}), -32001),
        ("tasks/get", json!({"id": "../1"}), -32001),
        ("tasks/get", json!({"id": 1}), -32602),
        ("tasks/get", json!({}), -32602),
        ("tasks/cancel", json!({"id": id}), -32002),
        ("tasks/resubscribe", json!({"id": id}), -32004),
        ("message/send", after(said("more")), -32004),
        ("message/stream", after(said("more")), -32004),
        ("ListTasks", json!({"pageSize": 0}), -32602),
        ("ListTasks", json!({"pageSize": 101}), -32602),
        ("ListTasks", json!({"pageToken": "4711"}), -32602),
        ("ListTasks", json!({"status": "completed"}), -32602),
        ("ListTasks", json!({"status": 9}), -32602),
        ("ListTasks", json!({"status": -1}), -32602),
        ("ListTasks", json!({"status": 1.5}), -32602),
        ("ListTasks", json!({"historyLength": -1}), -32602),
        ("ListTasks", json!({"statusTimestampAfter": "yesterday"}), -32602),
        ("tasks/pushNotificationConfig/set", json!({}), -32003),
        ("GetExtendedAgentCard", json!({}), -32007),
    ] {
        let answer = door.call(method, params).await;
        assert_eq!(answer["error"]["code"], code, "{method}: {answer}");
    }
}

#[tokio::test]
async fn a_guardian_may_refuse_a_message_and_change_it() {
    let denied =
        Door::open(Some(|question| match question["params"]["context"]["to"]["role"].as_str() {
            Some("server") => {
                json!({"decision": "deny", "message": "Not today.", "reasonCode": []})
            }
            _ => json!({"decision": "allow", "message": ""}),
        }));
    let denied = denied.await;
    let task = denied.call("message/send", said("launch it")).await["result"].take();
    assert_eq!(task["status"]["state"], "rejected", "{task}");
    assert!(task.to_string().contains("Not today.") && !task.to_string().contains("launch it"));
    let answer = denied.call("tasks/get", json!({"id": task["id"]})).await;
    assert_eq!(answer["error"]["code"], -32000, "{answer}");

    let changed = Door::open(Some(|question| match question["method"].as_str() {
        Some("message/send") if question["params"]["context"]["to"]["role"] == "server" => {
            modify(question, |params| {
                params["payload"]["params"]["message"]["parts"][0]["text"] = json!("unknown");
            })
        }
        _ => json!({"decision": "allow", "message": ""}),
    }));
    let task = changed.await.call("message/send", said("launch it")).await["result"].take();
    assert_eq!(task["history"][0]["parts"][0]["text"], "unknown", "{task}");
}

#[tokio::test]
async fn guardians_and_tasks_are_not_told_what_may_be_secret() {
    let door = Door::open(Some(|question| {
        let seen = question.to_string().contains("opensesame");
        json!({"decision": if seen { "deny" } else { "allow" }, "message": "", "reasonCode": []})
    }));
    let door = door.await;
    for (method, mut params) in
        [("message/send", said("open it")), ("SendMessage", said_new("open it"))]
    {
        let parts = params["message"]["parts"].as_array_mut().unwrap();
        let inputs = json!({"inputs": {"code": "opensesame", "rows": [{"key": "opensesame"}]}});
        parts.push(json!({"kind": "data", "data": inputs}));
        let task = door.call(method, params).await["result"].take();
        let history = task.get("task").unwrap_or(&task)["history"][0].clone();
        let hidden = json!({"inputs": {"code": "(secret)", "rows": "(secret)"}});
        assert_eq!(history["parts"][1]["data"], hidden, "{task}");
    }
}

#[tokio::test]
async fn a_guardian_may_withhold_an_answer_and_change_it() {
    let withheld =
        Door::open(Some(|question| match question["params"]["context"]["from"]["role"].as_str() {
            Some("server") => json!({"decision": "deny", "message": "Mine.", "reasonCode": []}),
            _ => json!({"decision": "allow", "message": ""}),
        }));
    let answer = withheld.await.call("message/send", said("do something")).await;
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
    assert_eq!(answer["result"], Value::Null);

    let changed = Door::open(Some(|question| match question["params"]["context"]["from"]["role"]
        .as_str()
    {
        Some("server") => modify(question, |params| {
            params["payload"] = json!({"id": "not mine to choose", "result": {"task": "hidden"}});
        }),
        _ => json!({"decision": "allow", "message": ""}),
    }));
    let answer = changed.await.call("SendMessage", said_new("do something")).await;
    assert_eq!(answer["result"], json!({"task": "hidden"}));
}

fn said_new(text: &str) -> Value {
    json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}})
}

#[tokio::test]
async fn a_stream_begins_with_the_task_and_ends_with_its_end() {
    let door = Door::open(None).await;
    for (method, params) in
        [("message/stream", said("do it")), ("SendStreamingMessage", said_new("do it"))]
    {
        let body = json!({"jsonrpc": "2.0", "id": "s", "method": method, "params": params});
        let answer = door.post(body.to_string()).await;
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let text = answer.text().await.unwrap();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let events: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
        assert!(events.iter().all(|event| event["id"] == "s"), "{events:?}");
        let (first, last) = (&events[0]["result"], &events[events.len() - 1]["result"]);
        if method == "message/stream" {
            assert_eq!(
                (&first["kind"], &first["status"]["state"]),
                (&json!("task"), &json!("submitted"))
            );
            assert_eq!(
                (&last["final"], &last["status"]["state"]),
                (&json!(true), &json!("failed"))
            );
        } else {
            assert_eq!(first["task"]["status"]["state"], "TASK_STATE_SUBMITTED");
            assert_eq!(last["statusUpdate"]["status"]["state"], "TASK_STATE_FAILED");
        }
    }
}

#[tokio::test]
async fn a_card_is_the_same_as_before_until_it_changes() {
    let door = Door::open(None).await;
    let url = format!("{}/.well-known/agent-card.json", door.url);
    let tag = door.http.get(&url).send().await.unwrap().headers()["etag"].clone();
    let request =
        door.http.get(&url).header("if-none-match", format!("\"x\", {}", tag.to_str().unwrap()));
    assert_eq!(request.send().await.unwrap().status(), StatusCode::NOT_MODIFIED);
    let other = door.http.get(&url).header("host", "other.test").send().await.unwrap();
    assert_ne!(other.headers()["etag"], tag);
    assert_eq!(other.json::<Value>().await.unwrap()["url"], "http://other.test/a2a");
}
