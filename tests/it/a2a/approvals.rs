//! Tasks whose runs wait for a person's approval.

use serde_json::{Value, json};

use super::{Stream, call, new, old};
use crate::harness::{RUNTIME, World};

const POLICY: &str = "version: 1
default: allow
rules:
  - {id: dogs, on: toolCallRequest, tool: ListDogBreeds.*, decision: approve, message: Dogs need a person.}
";
const WISH: &str = "list dog breeds";

fn guarded() -> World {
    guarded_by(POLICY)
}

fn guarded_by(policy: &str) -> World {
    let mut world = World::down(&[]);
    let policy = world.write("policy.yaml", policy);
    world.add_flags(&["--policy", &policy]);
    world.start();
    world
}

/// What the status of a task that waits says: the words, the run and the id of the approval.
#[track_caller]
fn waiting(task: &Value) -> (String, String, String) {
    let parts = &task["status"]["message"]["parts"];
    let text = parts[0]["text"].as_str().unwrap().to_owned();
    let data = &parts[1]["data"];
    let [approval] = &data["approvals"].as_array().unwrap()[..] else { panic!("{task}") };
    let [run, id] = [&data["run"], &approval["id"]].map(|id| id.as_str().unwrap().to_owned());
    assert!(text.contains(&format!("`a2s guardian approve {id}`")), "{text}");
    assert!(text.contains(&run), "{text}");
    assert_eq!(data["capability"]["name"], "ListDogBreeds");
    assert!(approval["expires_at"].is_string(), "{approval}");
    (text, run, id)
}

/// Has the guardian asked at once about a run that a person has decided about, and follows it to its
/// end. The executor asks by itself as well, and may be first.
fn finish(world: &World, run: &str) {
    for _ in 0..100 {
        world.a2s(&["runs", "resume", run, "--repeat"]);
        let now = world.a2s(&["runs", run, "--json"]).one();
        if !matches!(now["status"].as_str(), Some("waiting" | "queued" | "running")) {
            return;
        }
    }
    panic!("{run} does not end");
}

fn get(world: &World, task: &Value) -> Value {
    call(world, "tasks/get", &json!({"id": task["id"]}))["result"].take()
}

/// A run that waits is no failure: the task goes on when a person has approved it.
#[test]
fn a_task_waits_for_an_approval_and_goes_on_with_its_run() {
    let world = guarded();
    let task = call(&world, "message/send", &old(WISH))["result"].take();
    assert_eq!(task["status"]["state"], "auth-required", "{task}");
    let (_, run, id) = waiting(&task);
    assert_eq!(task["metadata"]["a2s"]["status"], "waiting");

    // Whoever asks again, or says something else in it, finds it waiting.
    let again = get(&world, &task);
    assert_eq!(again["status"], task["status"], "nothing has happened since");
    let mut more = old("is it done?");
    more["message"]["taskId"] = task["id"].clone();
    let again = call(&world, "message/send", &more)["result"].take();
    assert_eq!(again["status"]["state"], "auth-required", "{again}");
    assert_eq!(waiting(&again).2, id);
    assert_eq!(world.standin("dogapi.dog").requests(), 0);

    world.a2s(&["guardian", "approve", &id]).exits(0);
    finish(&world, &run);
    let done = get(&world, &task);
    assert_eq!(done["status"]["state"], "completed", "{done}");
    assert_eq!(done["artifacts"][0]["artifactId"], json!(run));
    assert!(done["artifacts"][0]["parts"][0]["data"]["output"].is_object(), "{done}");
    assert_eq!(world.standin("dogapi.dog").requests(), 1, "it was run once");
    let over = call(&world, "message/send", &more);
    assert_eq!(over["error"]["code"], -32004, "{over}");
}

/// The service was asked already: its answer waits, and it is not asked again.
#[test]
fn a_task_waits_for_the_approval_of_a_result() {
    let world = guarded_by(&POLICY.replace("toolCallRequest", "toolCallResult"));
    let task = call(&world, "message/send", &old(WISH))["result"].take();
    assert_eq!(task["status"]["state"], "auth-required", "{task}");
    let (text, run, id) = waiting(&task);
    assert!(text.contains("(the result)"), "{text}");
    let approval = &task["status"]["message"]["parts"][1]["data"]["approvals"][0];
    assert_eq!(approval["phase"], "result");
    let listed = world.a2s(&["guardian", "approvals", "--json"]).one();
    assert!(listed.to_string().contains(&id), "{listed}");
    assert_eq!(world.standin("dogapi.dog").requests(), 1);

    world.a2s(&["guardian", "approve", &id]).exits(0);
    finish(&world, &run);
    let done = get(&world, &task);
    assert_eq!(done["status"]["state"], "completed", "{done}");
    assert!(done["artifacts"][0]["parts"][0]["data"]["output"].is_object(), "{done}");
    assert_eq!(world.standin("dogapi.dog").requests(), 1, "it was asked once");
}

#[test]
fn a_message_finds_the_end_of_a_run_that_has_waited() {
    let world = guarded();
    let task = call(&world, "SendMessage", &new(WISH))["result"]["task"].take();
    assert_eq!(task["status"]["state"], "TASK_STATE_AUTH_REQUIRED", "{task}");
    let (_, run, id) = waiting(&task);
    world.a2s(&["guardian", "approve", &id]).exits(0);
    finish(&world, &run);
    let mut more = new("is it done?");
    more["message"]["taskId"] = task["id"].clone();
    let stream = RUNTIME.block_on(async {
        let stream = Stream::open(&world, "SendStreamingMessage", &more).await;
        stream.rest().await
    });
    let states: Vec<_> =
        stream.iter().filter_map(|it| it["statusUpdate"]["status"]["state"].as_str()).collect();
    assert_eq!(states.last(), Some(&"TASK_STATE_COMPLETED"), "{stream:?}");
    assert!(stream.iter().any(|it| it["artifactUpdate"]["artifact"]["artifactId"] == json!(run)));
}

#[test]
fn rejected_approval_rejects_task_and_cancel_ends_run() {
    let world = guarded();
    let task = call(&world, "message/send", &old(WISH))["result"].take();
    let (_, run, _) = waiting(&task);
    let cancelled = call(&world, "tasks/cancel", &json!({"id": task["id"]}))["result"].take();
    assert_eq!(cancelled["status"]["state"], "canceled", "{cancelled}");
    let run = world.a2s(&["runs", &run, "--json"]).one();
    assert_eq!(run["status"], "cancelled", "{run}");

    let task = call(&world, "message/send", &old(WISH))["result"].take();
    let (_, run, id) = waiting(&task);
    world.a2s(&["guardian", "reject", &id, "--reason", "no dogs today"]).exits(0);
    finish(&world, &run);
    let rejected = get(&world, &task);
    assert_eq!(rejected["status"]["state"], "rejected", "{rejected}");
    let words = &rejected["status"]["message"]["parts"][0]["text"];
    assert!(words.as_str().unwrap().contains("A person rejected it."), "{words}");
    assert!(words.as_str().unwrap().contains("has changed nothing"), "{words}");
    assert_eq!(world.standin("dogapi.dog").requests(), 0);
}
