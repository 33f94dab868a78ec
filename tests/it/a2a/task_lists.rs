//! Lists of tasks: those of whoever asks, page by page.

use serde_json::{Value, json};

use super::{new, request};
use crate::harness::World;
use crate::http;

fn list(world: &World, token: &str, params: &Value) -> Value {
    let authorization = format!("Bearer {token}");
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    let body = request("ListTasks", params).to_string();
    let (status, body) = http::send("POST", &format!("{}a2a", world.url()), &headers, Some(body));
    assert_eq!(status, 200, "{body}");
    serde_json::from_str::<Value>(&body).unwrap()["result"].take()
}

fn ids(page: &Value) -> Vec<&str> {
    page["tasks"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap()).collect()
}

#[test]
fn tasks_are_listed_to_their_owner_page_by_page() {
    let world = World::up(&[]);
    let own = world.token();
    let begin = |text: &str, context: &str| {
        let mut message = new(text);
        message["message"]["contextId"] = json!(context);
        let mut task = super::call(&world, "SendMessage", &message)["result"]["task"].take();
        task["id"].take().as_str().unwrap().to_owned()
    };
    let first = begin("tell me a joke", "one");
    let second = begin("tweet the weather in Paris", "two");
    let third = begin("tell me a joke", "one");

    let all = list(&world, &own, &json!({}));
    assert_eq!(ids(&all), [&third, &second, &first], "the last one comes first");
    assert_eq!((&all["totalSize"], &all["pageSize"]), (&json!(3), &json!(3)));
    assert_eq!(all["nextPageToken"], "");
    let task = &all["tasks"][0];
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!((task.get("artifacts"), task.get("history")), (None, None), "{task}");

    let page = list(&world, &own, &json!({"pageSize": 2}));
    assert_eq!((ids(&page), &page["totalSize"]), (vec![&*third, &*second], &json!(3)));
    let token = &page["nextPageToken"];
    let page = list(&world, &own, &json!({"pageSize": 2, "pageToken": token}));
    assert_eq!((ids(&page), &page["nextPageToken"]), (vec![&*first], &json!("")));

    let of_one = list(&world, &own, &json!({"contextId": "one"}));
    assert_eq!(ids(&of_one), [&third, &first]);
    let asking = list(&world, &own, &json!({"status": "TASK_STATE_INPUT_REQUIRED"}));
    assert_eq!(ids(&asking), [&second]);
    // By its number, and by the number that means no filter.
    assert_eq!(ids(&list(&world, &own, &json!({"status": 6}))), [&second]);
    assert_eq!(ids(&list(&world, &own, &json!({"status": 0}))).len(), 3);
    let since = &all["tasks"][1]["status"]["timestamp"];
    let newer = list(&world, &own, &json!({"statusTimestampAfter": since}));
    assert_eq!(ids(&newer), [&third, &second]);
    let later = list(&world, &own, &json!({"statusTimestampAfter": "2999-01-01T00:00:00Z"}));
    assert_eq!((ids(&later).len(), &later["pageSize"]), (0, &json!(0)));
    let whole = list(&world, &own, &json!({"includeArtifacts": true, "historyLength": 1}));
    assert_eq!(whole["tasks"][0]["artifacts"].as_array().unwrap().len(), 1);
    assert_eq!(whole["tasks"][0]["history"].as_array().unwrap().len(), 1);

    let made = world.a2s(&["tokens", "create", "bob", "--scope", "execute", "--json"]).exits(0);
    let other = made.one()["token"].as_str().unwrap().to_owned();
    assert_eq!(list(&world, &other, &json!({}))["totalSize"], 0, "others have none of them");
}
