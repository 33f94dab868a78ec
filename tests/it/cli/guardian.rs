//! `a2s guardian`: policies held to cases, approvals, and the audit log.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use insta::assert_snapshot;
use serde_json::json;

use crate::harness::{World, a2s, command};

const POLICY: &str = "version: 1
default: allow
rules:
  - {id: dogs, on: toolCallRequest, tool: ListDogBreeds.*, decision: approve, message: Dogs need a person.}
";

const CASES: &str = "cases:
  - name: dogs wait for a person
    request: {tool: ListDogBreeds.listBreeds}
    expect: {decision: deny, reason_codes: approval_required}
  - {name: cats do not, request: {tool: ListCats.list}, expect: allow}
";

#[test]
fn a_policy_is_held_to_cases() {
    let world = World::down(&[]);
    let policy = world.write("policy.yaml", POLICY);
    let cases = world.write("cases.yaml", CASES);
    let test = ["guardian", "test", &policy, &cases];
    assert_snapshot!(a2s(&test).exits(0).transcript(), @r#"
    exit 0
    -- stdout
    ok      dogs wait for a person
    ok      cats do not
    good    2 passed, 0 failed
    -- stderr
    "#);
    let wrong = CASES.replace("expect: allow", "expect: {decision: deny, rules: dogs}");
    let wrong = world.write("wrong.yaml", &wrong);
    assert_snapshot!(a2s(&["guardian", "test", &policy, &wrong]).exits(1).transcript(), @r#"
    exit 1
    -- stdout
    ok      dogs wait for a person
    FAILED  cats do not
            step 1: decision is "allow", expected "deny"
              Allowed by policy.
            step 1: rules is [], expected ["dogs"]
    bad     1 passed, 1 failed
    -- stderr
    "#);
    let json = a2s(&["guardian", "test", &policy, &wrong, "--json"]).exits(1).json();
    assert_eq!(
        json[0],
        json!({"case": "dogs wait for a person", "passed": true, "differences": []})
    );
    assert_eq!(json[1]["differences"][0]["found"], "allow");
    assert_eq!(json[2], json!({"summary": {"passed": 1, "failed": 1, "left_out": 0}}));
    let some = a2s(&["guardian", "test", &policy, &wrong, "--filter", "DOGS", "--json"]).exits(0);
    assert_eq!(some.json()[1], json!({"summary": {"passed": 1, "failed": 0, "left_out": 1}}));
}

#[test]
fn faults_of_a_policy_are_told_with_file_and_line_once() {
    let mut world = World::down(&[]);
    let text = "version: 1\ndefault: allow\nrules:\n  - {id: a, decision: dny}\n";
    let policy = world.write("policy.yaml", text);
    let cases = world.write("cases.yaml", CASES);
    let told = a2s(&["guardian", "test", &policy, &cases]).exits(1);
    let text = told.stderr.replace(&policy, "policy.yaml");
    assert_snapshot!(text, @r#"
    error[A2S510]: policy.yaml has 1 error
      error[A2S510]: unknown variant `dny`, expected one of allow, deny, modify, approve; did you mean `deny`? at line 4, column 23 (policy.yaml)
    "#);
    let started =
        world.a2s(&["serve", "guardian", "--listen", "127.0.0.1:0", "--policy", &policy]).exits(1);
    assert_eq!(started.stderr.matches("unknown variant").count(), 1, "{}", started.stderr);
    let gone = world.a2s(&["serve", "guardian", "--policy", "/nowhere.yaml"]).exits(1);
    assert_eq!(gone.stderr.matches("No such file").count(), 1, "{}", gone.stderr);
    world.add_flags(&["--policy", &policy]);
}

/// `a2s run` in the background, once it waits for an approval, and what it says of that.
fn start_waiting(world: &World) -> (Child, String) {
    let data = world.data();
    let environment = [("A2S_URL", world.url()), ("A2S_DATA_DIR", data.to_str().unwrap())];
    let mut command = command(&environment);
    command.args(["run", "ListDogBreeds", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut told).unwrap();
    (child, told)
}

#[test]
fn an_approval_is_for_one_run_and_ends_with_it() {
    let mut world = World::down(&[]);
    let policy = world.write("policy.yaml", POLICY);
    world.add_flags(&["--policy", &policy]);
    world.start();
    let waiting = [start_waiting(&world).0, start_waiting(&world).0];
    let listed = world.a2s(&["guardian", "approvals", "--json"]).exits(0).one();
    let field = |n: usize, pointer: &str| {
        listed["approvals"][n].pointer(pointer).unwrap().as_str().unwrap().to_owned()
    };
    let [first, second] = [0, 1].map(|n| (field(n, "/id"), field(n, "/subject/capability/run")));
    assert!(first.0 != second.0 && first.1 != second.1, "{listed}");
    let shown = world.a2s(&["guardian", "approvals"]).exits(0).stdout;
    assert!(shown.contains(&first.1) && shown.contains(&second.1), "{shown}");

    world.a2s(&["cancel", &first.1]).exits(0);
    let gone = world.a2s(&["guardian", "approve", &first.0]).exits(1);
    assert!(gone.stderr.contains("is withdrawn: the run was cancelled"), "{gone:?}");
    let left = world.a2s(&["guardian", "approvals", "--json"]).exits(0).one();
    assert_eq!(left["approvals"].as_array().map(Vec::len), Some(1), "{left}");
    let closed = ["guardian", "approvals", "--status", "withdrawn"];
    assert!(world.a2s(&closed).exits(0).stdout.contains(&first.0));

    world.a2s(&["guardian", "approve", &second.0]).exits(0);
    let ended = waiting.map(|waiting| waiting.wait_with_output().unwrap().status.code());
    assert_eq!(ended[1], Some(0), "{ended:?}");
    let (third, _) = start_waiting(&world);
    assert_eq!(world.standin("dogapi.dog").requests(), 1, "the third run waits for its own");
    let listed = world.a2s(&["guardian", "approvals", "--json"]).exits(0).one();
    let id = listed["approvals"][0]["id"].as_str().unwrap();
    world.a2s(&["guardian", "reject", id]).exits(0);
    assert_eq!(third.wait_with_output().unwrap().status.code(), Some(3));
}

/// A run names the approval that it waits for, its owner gives it, and the run goes on, once.
#[test]
fn a_person_approves_and_the_log_tells_it() {
    let mut world = World::down(&[]);
    let policy = world.write("policy.yaml", POLICY);
    let shadow = world.write("shadow.yaml", "version: 1\ndefault: deny\n");
    world.add_flags(&["--policy", &policy, "--shadow", &shadow]);
    world.start();
    assert_eq!(world.a2s(&["guardian", "approvals"]).exits(0).stdout, "no pending approvals\n");
    let (waiting, told) = start_waiting(&world);
    let listed = world.a2s(&["guardian", "approvals", "--json"]).exits(0).one();
    let approval = &listed["approvals"][0];
    let id = approval["id"].as_str().unwrap();
    assert!(told.contains(&format!("waits for approval: `a2s guardian approve {id}`")), "{told}");
    assert_eq!(world.standin("dogapi.dog").requests(), 0);
    assert_eq!((&approval["rule"], &approval["state"]), (&json!("dogs"), &json!("waiting")));

    let settle = ["guardian", "approve", id, "--by", "ada", "--reason", "nice dogs"];
    assert!(world.a2s(&settle).exits(0).stdout.contains("approved"));
    let data = world.data();
    let environment = [("A2S_URL", world.url()), ("A2S_DATA_DIR", data.to_str().unwrap())];
    let again = || command(&environment).args(settle).stdout(Stdio::null()).spawn().unwrap();
    let again: Vec<Child> = (0..10).map(|_| again()).collect();
    for mut approving in again {
        assert!(approving.wait().unwrap().success(), "the same decision is no error");
    }
    // It goes on by itself, and who watches it sees its end.
    let ended = waiting.wait_with_output().unwrap();
    let run: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!((ended.status.code(), &run["status"]), (Some(0), &json!("succeeded")), "{run}");
    assert_eq!(world.standin("dogapi.dog").requests(), 1);
    // Another run needs another approval, and ends when that is refused.
    let (other, _) = start_waiting(&world);
    let listed = world.a2s(&["guardian", "approvals", "--json"]).exits(0).one();
    let id = listed["approvals"][0]["id"].as_str().unwrap();
    world.a2s(&["guardian", "reject", id]).exits(0);
    assert_eq!(other.wait_with_output().unwrap().status.code(), Some(3));
    assert_eq!(world.standin("dogapi.dog").requests(), 1);

    let again = world.a2s(&["guardian", "approve", id]).exits(1);
    assert!(again.stderr.contains("approval_not_waiting"), "{again:?}");
    assert!(again.stderr.contains("already rejected"), "{again:?}");

    let show = |filter: &[&str]| {
        let arguments = [&["guardian", "audit", "show", "--json"], filter].concat();
        world.a2s(&arguments).exits(0).json()
    };
    let decisions: Vec<_> = show(&["--event", "decision"]);
    let told: Vec<_> =
        decisions.iter().map(|record| record["decision"].as_str().unwrap()).collect();
    // The executor has asked again until it was allowed, and once more before it sent.
    assert_eq!((told.first(), told.last()), (Some(&"deny"), Some(&"deny")));
    let allowed = decisions.iter().find(|record| record["decision"] == "allow").unwrap();
    let execution = allowed["execution"].as_str().unwrap();
    let events: Vec<_> =
        show(&["--execution", execution]).iter().map(|r| r["event"].clone()).collect();
    assert_eq!(events.iter().filter(|event| **event == "outcome").count(), 1, "{events:?}");
    assert_eq!(show(&["--event", "approval"])[0]["approval"]["reason"], "nice dogs");
    assert_eq!(show(&["--rule", "dogs", "--decision", "deny", "--last", "1"]).len(), 1);
    assert_eq!(show(&["--tool", "Cats"]).len(), 0);
    assert!(show(&["--differs"]).len() >= 2, "what was allowed would be denied");
    let shown = world.a2s(&["guardian", "audit", "show", "--last", "3"]).exits(0).stdout;
    assert!(shown.contains("Dogs need a person."), "{shown}");

    let verified = world.a2s(&["guardian", "audit", "verify", "--json"]).exits(0).one();
    let head = verified["head"].as_str().unwrap().to_owned();
    world.stop();
    world.a2s(&["guardian", "audit", "verify", "--head", &head]).exits(0);
    let log = world.data().join("audit.jsonl");
    let text = std::fs::read_to_string(&log).unwrap();
    let cut = text.trim_end().rsplit_once('\n').unwrap().0.to_owned() + "\n";
    std::fs::write(&log, cut).unwrap();
    world.a2s(&["guardian", "audit", "verify"]).exits(0);
    let missing = world.a2s(&["guardian", "audit", "verify", "--head", &head]).exits(1);
    assert!(missing.stderr.contains("A2S511"), "{missing:?}");
    std::fs::write(&log, text.replace("nice dogs", "nice cats")).unwrap();
    let broken = world.a2s(&["guardian", "audit", "verify"]).exits(1);
    assert!(broken.stderr.contains("has a wrong digest"), "{broken:?}");
}
