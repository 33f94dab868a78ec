//! Tasks outlive whoever follows them, and are followed again.

use serde_json::{Value, json};

use super::{SLOW, Stream, call, gated, new, old, wait_until_asked};
use crate::harness::{RUNTIME, World};

/// The states that a stream told, in order, each once.
fn states(events: &[Value]) -> Vec<String> {
    let of = |event: &Value| {
        let update = event.get("statusUpdate").unwrap_or(event);
        update["status"]["state"].as_str().map(str::to_owned)
    };
    let mut told: Vec<String> = events.iter().filter_map(of).collect();
    told.dedup();
    told
}

/// A task whose client has gone away in the middle of its stream.
fn left_alone(world: &World, method: &str, params: &Value) -> String {
    RUNTIME.block_on(async {
        let mut stream = Stream::open(world, method, params).await;
        let begun = stream.next().await.unwrap();
        let task = begun.get("task").unwrap_or(&begun);
        task["id"].as_str().unwrap().to_owned()
    })
}

#[test]
fn who_goes_away_follows_the_task_again_in_either_version() {
    let (world, gate) = gated(&[]);
    let id = json!({"id": left_alone(&world, "message/stream", &old("meditate in silence"))});
    wait_until_asked(&world, 1);
    let now = call(&world, "tasks/get", &id)["result"].take();
    assert_eq!(now["status"]["state"], "working", "{now}");
    let [mut before, mut after] = RUNTIME.block_on(async {
        let mut one = Stream::open(&world, "tasks/resubscribe", &id).await;
        let mut other = Stream::open(&world, "SubscribeToTask", &id).await;
        // Each begins with the task as it is.
        let (first, second) = (one.next().await.unwrap(), other.next().await.unwrap());
        assert_eq!((&first["kind"], &first["id"]), (&json!("task"), &id["id"]), "{first}");
        assert_eq!(first["status"]["state"], "working", "{first}");
        assert_eq!(second["task"]["status"]["state"], "TASK_STATE_WORKING", "{second}");
        gate.add_permits(1);
        let (one, other) = tokio::join!(one.rest(), other.rest());
        [one, other]
    });
    assert_eq!(states(&before), ["completed"], "{before:?}");
    assert_eq!(before.pop().unwrap()["final"], true);
    let artifact = before.pop().unwrap();
    assert_eq!(artifact["kind"], "artifact-update", "{artifact}");
    assert!(artifact.to_string().contains("those who wait"), "{artifact}");
    assert_eq!(states(&after), ["TASK_STATE_COMPLETED"], "{after:?}");
    let artifact = after.swap_remove(0);
    assert!(artifact["artifactUpdate"].to_string().contains("those who wait"), "{artifact}");

    // It was done once, and can be asked for as long as it is kept.
    assert_eq!(world.standin(SLOW).requests(), 1);
    let over = call(&world, "GetTask", &id)["result"].take();
    assert_eq!(over["status"]["state"], "TASK_STATE_COMPLETED", "{over}");
    assert!(over["artifacts"].to_string().contains("those who wait"), "{over}");
    for method in ["tasks/resubscribe", "SubscribeToTask"] {
        let refused = call(&world, method, &id);
        assert_eq!(refused["error"]["code"], -32004, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains("has ended"), "{refused}");
    }
    let unknown = call(&world, "SubscribeToTask", &json!({"id": world.token()}));
    assert_eq!(unknown["error"]["code"], -32001, "{unknown}");
}

#[test]
fn who_follows_hears_that_somebody_else_stopped_the_task() {
    let (world, _gate) = gated(&[]);
    let id = json!({"id": left_alone(&world, "SendStreamingMessage", &new("meditate in silence"))});
    wait_until_asked(&world, 1);
    let heard = RUNTIME.block_on(async {
        let mut stream = Stream::open(&world, "tasks/resubscribe", &id).await;
        stream.next().await.unwrap();
        let stopped = async {
            let body = super::request("CancelTask", &id).to_string();
            let request = crate::http::client().post(format!("{}a2a", world.url()));
            request.bearer_auth(world.token()).body(body).send().await.unwrap()
        };
        let (heard, _) = tokio::join!(stream.rest(), stopped);
        heard
    });
    assert_eq!(states(&heard), ["canceled"], "{heard:?}");
}

#[test]
fn a_task_takes_a_message_only_while_it_asks() {
    let (world, gate) = gated(&[]);
    let (id, context) = {
        let mut begin = new("meditate in silence");
        begin["configuration"] = json!({"returnImmediately": true});
        let task = call(&world, "SendMessage", &begin)["result"]["task"].take();
        (task["id"].clone(), task["contextId"].clone())
    };
    let more = |method: &str| {
        let mut message = if method == "SendMessage" { new("hurry up") } else { old("hurry up") };
        message["message"]["taskId"] = id.clone();
        call(&world, method, &message)
    };
    let refused = |answer: Value, why: &str| {
        assert_eq!(answer["error"]["code"], -32004, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(why), "{answer}");
    };
    wait_until_asked(&world, 1);
    refused(more("SendMessage"), "is in progress");
    refused(more("message/stream"), "is in progress");
    call(&world, "CancelTask", &json!({"id": id}));
    refused(more("message/send"), "has ended");
    // Nothing of what was refused is a part of the task, and its conversation goes on.
    let task = call(&world, "tasks/get", &json!({"id": id}))["result"].take();
    assert_eq!(task["history"].as_array().unwrap().len(), 1, "{task}");
    gate.add_permits(1);
    let mut again = old("tell me a joke");
    again["message"]["contextId"] = context.clone();
    let done = call(&world, "message/send", &again)["result"].take();
    assert_eq!((&done["status"]["state"], &done["contextId"]), (&json!("completed"), &context));
    assert_ne!(done["id"], id);
}

#[test]
fn so_much_of_what_was_said_is_told_as_is_asked_for() {
    let (world, _gate) = gated(&[]);
    let task = call(&world, "message/send", &old("tweet the weather in Paris"))["result"].take();
    let id = task["id"].as_str().unwrap();
    let mut answer = old("Hello from Paris");
    answer["message"]["taskId"] = json!(id);
    answer["configuration"] = json!({"historyLength": 1});
    let done = call(&world, "message/send", &answer)["result"].take();
    let said = |task: &Value| -> Vec<String> {
        let history = task["history"].as_array().into_iter().flatten();
        let role = |message: &Value| message["role"].as_str().unwrap().to_lowercase();
        history.map(|message| role(message).trim_start_matches("role_").to_owned()).collect()
    };
    assert_eq!(said(&done), ["user"], "{done}");
    assert!(done["history"].to_string().contains("Hello from Paris"), "{done}");
    for (length, expected) in [
        (json!(0), &[][..]),
        (json!(1), &["user"]),
        (json!(2), &["agent", "user"]),
        (json!(99), &["user", "agent", "user"]),
        (Value::Null, &["user", "agent", "user"]),
    ] {
        for method in ["tasks/get", "GetTask"] {
            let asked = json!({"id": id, "historyLength": length});
            let task = call(&world, method, &asked)["result"].take();
            assert_eq!(said(&task), expected, "{method} {length}: {task}");
        }
    }
    let wrong = call(&world, "GetTask", &json!({"id": id, "historyLength": -1}));
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
}
