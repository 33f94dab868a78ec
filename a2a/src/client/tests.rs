//! What other agents may do to us, and what guardians let them.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse as _, Redirect};
use axum::routing::{get, post};
use axum::{Json, Router};
use test_support::modify;
use tokio::net::TcpListener;
use uuid::Uuid;

use super::*;
use crate::model::TaskState;
use crate::tests::{Answer, guard};

/// Serves until the test is over.
async fn serve(router: impl FnOnce(&str) -> Router) -> Url {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let router = router(&url);
    tokio::spawn(async move { axum::serve(listener, router).await });
    url.parse().unwrap()
}

fn outside() -> ClockAndIds {
    ClockAndIds::new(|| jiff::Timestamp::UNIX_EPOCH, Uuid::nil)
}

const ID: &str = "00000000-0000-0000-0000-000000000000";

fn card(url: &str) -> Value {
    json!({"name": "Other", "url": url, "protocolVersion": "0.3.0", "capabilities": {"streaming": true}})
}

/// An agent whose answer to everything is this.
async fn agent(answer: fn(Value) -> axum::response::Response) -> Url {
    serve(|url| {
        let card = card(url);
        Router::new()
            .route("/.well-known/agent-card.json", get(async move || Json(card)))
            .route("/", post(async move |Json(question): Json<Value>| answer(question)))
    })
    .await
}

async fn meet(url: &Url, guard: Guard) -> Result<A2aClient, A2aError> {
    UnresolvedAgent::new(url, Some(Secret::new("secret"))).unwrap().resolve(guard, outside()).await
}

async fn guarded(answer: Answer) -> Guard {
    guard(answer).await
}

fn task(state: &str) -> Value {
    json!({"kind": "task", "id": "t", "contextId": "c", "status": {"state": state}})
}

fn rpc(result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": ID, "result": result})
}

fn events(events: impl Iterator<Item = Value> + Send + 'static) -> axum::response::Response {
    let events = events.map(|event| Ok::<_, Infallible>(format!("data: {event}\r\n\r\n")));
    let body = Body::from_stream(futures::stream::iter(events));
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}

fn unguarded() -> Guard {
    Guard::new(None, outside())
}

#[tokio::test]
async fn a_card_that_is_large_elsewhere_or_no_card_is_not_followed() {
    let large = serve(|url| {
        let card = json!({"name": "x".repeat(MAX_RESPONSE), "url": url});
        Router::new().route("/.well-known/agent-card.json", get(async move || Json(card)))
    });
    let elsewhere = serve(|_| {
        let card = card("http://127.0.0.1:1/");
        Router::new().route("/.well-known/agent-card.json", get(async move || Json(card)))
    });
    let redirect = serve(|_| {
        let to = get(async || Redirect::temporary("http://127.0.0.1:1/card.json"));
        Router::new().route("/.well-known/agent-card.json", to)
    });
    let none = serve(|_| Router::new().fallback(async || (StatusCode::OK, "[1")));
    for (url, why) in [
        (large.await, "sent more than 1048576 bytes"),
        (elsewhere.await, "other hosts"),
        (redirect.await, "307"),
        (none.await, "sent an invalid response"),
    ] {
        let error = meet(&url, unguarded()).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn an_answer_is_to_the_question_or_it_is_none() {
    for (answer, why) in [
        (
            (|_| Json(json!({"id": ID, "result": {"kind": "poem"}})).into_response())
                as fn(Value) -> _,
            "a task, a message or an update",
        ),
        (
            |_| Json(json!({"id": "other", "result": task("working")})).into_response(),
            "another request",
        ),
        (|_| Json(json!({"id": ID})).into_response(), "no `result`"),
        (|_| Json(json!([])).into_response(), "is invalid"),
        (|_| "x".repeat(MAX_RESPONSE + 1).into_response(), "sent more than"),
        (|_| (StatusCode::FOUND, [(LOCATION, "http://127.0.0.1:1/")]).into_response(), "302"),
        (
            |_| {
                Json(json!({"id": ID, "error": {"code": -32001, "message": "a\n\u{1b}b"}}))
                    .into_response()
            },
            "rejected the request (-32001): a b",
        ),
    ] {
        let mut client = meet(&agent(answer).await, unguarded()).await.unwrap();
        let error =
            client.send(&client.new_message("hi", None), true).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn a_stream_ends_with_the_task_whatever_comes_behind_it() {
    let url = agent(|_| {
        let status = |state: &str| json!({"kind": "status-update", "taskId": "t", "contextId": "c", "final": false, "status": {"state": state}});
        events([task("submitted"), status("working"), status("completed"), json!("more")].map(|event| rpc(&event)).into_iter())
    })
    .await;
    let mut client = meet(&url, unguarded()).await.unwrap();
    let message = client.new_message("hi", None);
    let mut updates = client.stream(&message).await.unwrap();
    let mut states = Vec::new();
    while let Some(update) = updates.next().await.unwrap() {
        states.push(match update {
            TaskUpdate::Reply(MessageReply::Task(task)) => task.status.state,
            TaskUpdate::Status(status) => status.state,
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(states, [TaskState::Submitted, TaskState::Working, TaskState::Completed]);
}

#[tokio::test]
async fn a_stream_without_an_end_is_left() {
    for (stream, why) in [
        (
            (|_| events(std::iter::repeat_with(|| rpc(&task("working"))))) as fn(Value) -> _,
            "too many events",
        ),
        (
            |_| {
                events(std::iter::repeat_with(
                    || json!({"id": ID, "result": "x".repeat(2 * MAX_RESPONSE)}),
                ))
            },
            "too large",
        ),
        (|_| events(std::iter::once(rpc(&task("working")))), "ended before"),
        (|_| Json(rpc(&task("working"))).into_response(), "not a stream"),
    ] {
        let mut client = meet(&agent(stream).await, unguarded()).await.unwrap();
        let message = client.new_message("hi", None);
        let error = match client.stream(&message).await {
            Err(error) => error,
            Ok(mut updates) => loop {
                match updates.next().await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("{why}"),
                    Err(error) => break error,
                }
            },
        };
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[tokio::test]
async fn guardians_read_what_goes_out_and_what_comes_in() {
    // The other agent says what it was asked.
    let url = agent(|question| {
        let text = question["params"]["message"]["parts"][0]["text"].clone();
        let message = json!({"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": text}]});
        Json(rpc(&message)).into_response()
    })
    .await;
    let text = |reply: MessageReply| match reply {
        MessageReply::Message(message) => message.text(),
        MessageReply::Task(task) => panic!("{task:?}"),
    };
    let out = guarded(|question| {
        assert_eq!(question["method"], "message/send");
        match question["params"]["context"]["from"]["role"].as_str() {
            Some("client") => modify(question, |params| {
                params["payload"]["params"]["message"]["parts"][0]["text"] = json!("Rome")
            }),
            _ => json!({"decision": "allow", "message": ""}),
        }
    });
    let mut client = meet(&url, out.await).await.unwrap();
    let reply = client.send(&client.new_message("Paris", None), true).await.unwrap();
    assert_eq!(text(reply), "Rome");
    let decisions: Vec<_> = client.take_decisions().into_iter().map(|d| d.decision).collect();
    assert_eq!(decisions, ["modify", "allow"]);

    let denied_in =
        guarded(|question| match question["params"]["context"]["from"]["role"].as_str() {
            Some("client") => json!({"decision": "allow", "message": ""}),
            _ => json!({"decision": "deny", "message": "Not that.", "reasonCode": []}),
        });
    let mut client = meet(&url, denied_in.await).await.unwrap();
    let error = client.send(&client.new_message("Paris", None), true).await.unwrap_err();
    assert!(matches!(&error, A2aError::Denied(denial) if denial.message == "Not that."), "{error}");
}

#[tokio::test]
async fn what_may_not_go_out_is_not_sent() {
    let url = agent(|_| panic!("it was sent")).await;
    for (answer, why) in [
        (
            (|_| json!({"decision": "deny", "message": "Stay.", "reasonCode": []})) as Answer,
            "Stay.",
        ),
        (
            |question| {
                modify(question, |params| params["payload"]["method"] = json!("tasks/cancel"))
            },
            "the id or the method",
        ),
        (
            |question| modify(question, |params| params["payload"] = json!({})),
            "the id or the method",
        ),
    ] {
        let mut client = meet(&url, guarded(answer).await).await.unwrap();
        let error =
            client.send(&client.new_message("Paris", None), true).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
