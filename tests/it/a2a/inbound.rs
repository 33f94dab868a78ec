//! What other agents ask, in JSON as it travels.

use serde_json::{Value, json};

use super::{call, new, old, post, request, wait_until_asked, world};
use crate::agent::{VAULT, keeper};
use crate::harness::{World, redact};
use crate::http;

/// Requests with their answers, as they travel.
fn transcript(world: &World, requests: &[Value]) -> String {
    let each = requests.iter().map(|request| {
        let (status, body) = post(world, request);
        format!("> {request}\n< {status}\n{}\n", body.trim_end())
    });
    redact(&each.collect::<String>())
}

#[test]
fn agent_card_lists_skills_in_the_requested_version() {
    let world = world(&[]);
    let url = format!("{}.well-known/agent-card.json", world.url());
    for (name, headers) in [("0.3", &[][..]), ("1.0", &[("a2a-version", "1.0")])] {
        let (status, card) = http::get(&url, headers);
        assert_eq!(status, 200);
        let mut card: Value = serde_json::from_str(&card).unwrap();
        let skills = card["skills"].take();
        let breeds = skills.as_array().unwrap().iter().find(|skill| skill["id"] == "ListDogBreeds");
        card["skills"] = json!([breeds]);
        let card = redact(&serde_json::to_string_pretty(&card).unwrap());
        insta::assert_snapshot!(format!("card_of_{name}"), card);
    }
    let (status, problem) = http::get(&url, &[("a2a-version", "2.0")]);
    assert_eq!(status, 400, "{problem}");
}

#[test]
fn the_card_names_the_address_that_the_operator_gives() {
    let world = World::up(&["--agent-url", "https://agent.example.com/here/"]);
    let (_, card) = http::get(&format!("{}.well-known/agent-card.json", world.url()), &[]);
    let card: Value = serde_json::from_str(&card).unwrap();
    assert_eq!(card["url"], "https://agent.example.com/here/a2a");
    assert_eq!(card["supportedInterfaces"][1]["url"], card["url"]);
}

#[test]
fn a_message_is_a_turn_in_both_versions() {
    let world = world(&[]);
    insta::assert_snapshot!(transcript(
        &world,
        &[
            request("message/send", &old("tell me a joke")),
            request("SendMessage", &new("tell me a joke")),
            request("message/stream", &old("tell me a joke")),
            request("SendStreamingMessage", &new("tell me a joke")),
            request("message/send", &old("prove the Riemann hypothesis")),
            request("message/teleport", &old("tell me a joke")),
            json!([request("tasks/get", &json!({"id": "1"}))]),
        ],
    ));
}

#[test]
fn a_question_is_answered_in_its_task_and_in_no_other() {
    let world = world(&[]);
    let task = call(&world, "message/send", &old("tweet the weather in Paris"))["result"].take();
    assert_eq!(task["status"]["state"], "input-required", "{task}");
    let parts = &task["status"]["message"]["parts"];
    assert_eq!(parts[1]["data"]["fields"][0]["name"], "message", "{task}");
    let answer = |text: &str, task: &str, context: &Value| {
        let mut answer = old(text);
        answer["message"]["taskId"] = json!(task);
        answer["message"]["contextId"] = context.clone();
        call(&world, "message/send", &answer)
    };
    let id = task["id"].as_str().unwrap();
    let elsewhere = answer("Hello from Paris", id, &json!("another-conversation"));
    assert_eq!(elsewhere["error"]["code"], -32602, "{elsewhere}");
    let asks = answer("Hello from Paris", id, &task["contextId"])["result"].take();
    assert_eq!(asks["status"]["state"], "input-required", "{asks}");
    let actions = &asks["status"]["message"]["parts"][1]["data"]["actions"];
    assert_eq!(actions[0]["inputs"]["message"], "Hello from Paris", "{asks}");
    assert_eq!(world.standin("api.twitter.com").requests(), 0, "nothing is sent without a yes");
    let done = answer("yes", id, &task["contextId"])["result"].take();
    assert_eq!(done["status"]["state"], "completed", "{done}");
    assert_eq!((&done["id"], &done["contextId"]), (&task["id"], &task["contextId"]));
    let again = answer("yes", id, &task["contextId"]);
    assert_eq!(again["error"]["code"], -32004, "{again}");

    // A program gives the input by its name.
    let task =
        call(&world, "SendMessage", &new("tweet the weather in Paris"))["result"]["task"].take();
    let mut answer = new("As you asked.");
    answer["message"]["taskId"] = task["id"].clone();
    let parts = answer["message"]["parts"].as_array_mut().unwrap();
    parts.push(json!({"data": {"inputs": {"message": "Named"}}}));
    let asks = call(&world, "SendMessage", &answer)["result"]["task"].take();
    assert_eq!(asks["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{asks}");
    // No inputs say yes to it.
    let mut nothing = answer.clone();
    nothing["message"]["parts"].as_array_mut().unwrap().remove(0);
    assert_eq!(call(&world, "SendMessage", &nothing)["error"]["code"], -32602);
    let mut yes = new("yes");
    yes["message"]["taskId"] = task["id"].clone();
    let done = call(&world, "SendMessage", &yes)["result"]["task"].take();
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED", "{done}");

    // And needs no words for it, neither for the wish nor for the yes.
    let said = |data: &Value, task: Option<&Value>| {
        let mut message = new("");
        message["message"]["parts"] = json!([{ "data": data }]);
        if let Some(task) = task {
            message["message"]["taskId"] = task["id"].clone();
        }
        call(&world, "SendMessage", &message)["result"]["task"].take()
    };
    let task = said(&json!({"text": "tweet the weather in Paris"}), None);
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task}");
    let asks = said(&json!({"inputs": {"message": "Wordless"}}), Some(&task));
    let actions = &asks["status"]["message"]["parts"][1]["data"]["actions"];
    assert_eq!(actions[0]["inputs"]["message"], "Wordless", "{asks}");
    let done = said(&json!({"text": "yes"}), Some(&task));
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
}

#[test]
fn a_task_goes_on_by_itself_and_is_stopped_with_its_run() {
    let world = world(&[]);
    let mut begin = old("meditate in silence");
    begin["configuration"] = json!({"blocking": false});
    let task = call(&world, "message/send", &begin)["result"].take();
    assert_eq!(task["status"]["state"], "submitted", "{task}");
    let id = json!({"id": task["id"]});
    wait_until_asked(&world, 1);
    let now = call(&world, "tasks/get", &id)["result"].take();
    assert_eq!(now["status"]["state"], "working", "{now}");
    let stopped = call(&world, "tasks/cancel", &id)["result"].take();
    assert_eq!(stopped["status"]["state"], "canceled", "{stopped}");
    assert_eq!(call(&world, "tasks/cancel", &id)["error"]["code"], -32002);
    let runs = world.a2s(&["runs", "--json"]).exits(0).one();
    let run = runs["executions"][0]["id"].as_str().unwrap();
    // Its events end with it.
    let url = format!("{}v1/executions/{run}/events", world.url());
    let token = format!("Bearer {}", world.token());
    let headers = [("accept", "text/event-stream"), ("authorization", token.as_str())];
    let (_, events) = http::get(&url, &headers);
    assert!(events.contains("cancelled"), "{events}");
}

/// A secret goes to the service that it is for, and no guardian, log or task tells it.
#[test]
fn a_secret_is_given_by_name_and_told_to_nobody() {
    let mut world = World::among(vec![keeper()], &[]);
    let policy = world.write(
        "policy.yaml",
        "version: 1
default: allow
rules:
  - {id: named, on: message/send, when: 'has(params.payload.params) && size(params.payload.params.message.parts) == 2 && params.payload.params.message.parts[1].data.inputs.owner == \"Eve\"', decision: deny}
",
    );
    world.add_flags(&["--policy", &policy]);
    world.start();
    world.publish(VAULT);
    let task = call(&world, "message/send", &old("open the bank vault"))["result"].take();
    assert_eq!(task["status"]["state"], "input-required", "{task}");
    let answer = |owner: &str| {
        let mut answer = old("here you are");
        answer["message"]["taskId"] = task["id"].clone();
        let inputs = json!({"code": "opensesame", "owner": owner});
        let parts = answer["message"]["parts"].as_array_mut().unwrap();
        parts.push(json!({"kind": "data", "data": {"inputs": inputs}}));
        call(&world, "message/send", &answer)
    };
    // What was asked for and is no secret, guardians see.
    assert_eq!(answer("Eve")["error"]["code"], -32000);
    let done = answer("Ada");
    assert_eq!(done["result"]["status"]["state"], "completed", "{done}");
    let received = world.standin("vault.example.com").received().pop().unwrap();
    assert!(received.target.contains("opensesame") && received.target.contains("Ada"));
    let told = call(&world, "tasks/get", &json!({"id": task["id"]}))["result"].take();
    let history = told["history"].to_string();
    assert!(history.contains("(secret)") && history.contains("Ada"), "{told}");
    assert!(!told.to_string().contains("opensesame"), "{told}");
    let audit = world.a2s(&["guardian", "audit", "show"]).exits(0);
    assert!(audit.stdout.contains("message/send") && !audit.stdout.contains("opensesame"));
}

#[test]
fn guardians_are_asked_about_what_comes_in_and_what_goes_out() {
    let mut guarded = World::down(&[]);
    let policy = guarded.write(
        "policy.yaml",
        "version: 1
default: allow
rules:
  - {id: in, on: message/send, when: 'has(params.payload.params) && params.payload.params.message.parts.exists(p, p.text.contains(\"launch\"))', decision: deny, message: Not here.}
  - {id: artifacts, on: message/stream, when: 'has(params.payload.result) && has(params.payload.result.artifact)', decision: deny, message: Too funny.}
  - {id: end, on: message/stream, when: 'has(params.payload.result) && has(params.payload.result.status) && params.payload.result.status.state == \"completed\"', decision: deny, message: Too funny.}
  - {id: other, on: task/get, decision: modify, modify: {redact: [{regex: 'borrow', replacement: lend}]}}
",
    );
    guarded.add_flags(&["--policy", &policy]);
    guarded.start();
    let task =
        call(&guarded, "message/send", &old("tell me a joke about the launch"))["result"].take();
    assert_eq!(task["status"]["state"], "rejected", "{task}");
    assert!(task.to_string().contains("Not here."), "{task}");
    assert_eq!(guarded.standin("official-joke-api.appspot.com").requests(), 0);

    let (_, stream) = post(&guarded, &request("message/stream", &old("tell me a joke")));
    assert!(!stream.contains("borrow") && stream.contains("Too funny."), "{stream}");

    let told = call(&guarded, "message/send", &old("tell me a joke"))["result"].take();
    assert!(told.to_string().contains("borrow"), "{told}");
    let read = call(&guarded, "tasks/get", &json!({"id": told["id"]}))["result"].take();
    assert!(!read.to_string().contains("borrow") && read.to_string().contains("lend"), "{read}");
}

#[test]
fn a_guardian_cannot_say_yes_for_another_agent() {
    let mut world = World::down(&[]);
    let policy = world.write(
        "policy.yaml",
        "version: 1
default: allow
rules:
  - {id: eager, on: message/send, decision: modify, modify: {redact: [{regex: '^not now$', replacement: 'yes'}]}}
",
    );
    world.add_flags(&["--policy", &policy]);
    world.start();
    let chain = "GetCountryThenGetCityWeather";
    let is_published = || world.a2s(&["show", chain, "--json"]).code == 0;
    let wish = "look up the country FR and get the weather in its capital";
    let task = call(&world, "message/send", &old(wish))["result"].take();
    assert_eq!(task["status"]["state"], "input-required", "{task}");
    let reply = |text: &str| {
        let mut message = old(text);
        message["message"]["taskId"] = task["id"].clone();
        call(&world, "message/send", &message)
    };
    let refused = reply("not now");
    let words = "adds a consent that the user did not give";
    assert!(refused["error"]["message"].as_str().unwrap().contains(words), "{refused}");
    assert!(!is_published());
    let done = reply("yes");
    assert_eq!(done["result"]["status"]["state"], "completed", "{done}");
    assert!(is_published());
}
