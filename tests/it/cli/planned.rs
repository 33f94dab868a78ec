//! A plan that is shown, and run as it was shown.

use insta::assert_snapshot;
use serde_json::Value;

use crate::harness::{World, shipped};

const POLICY: &str = "
version: 1
default: allow
rules:
  - id: no-atlantis
    on: [steps/toolCallRequest]
    when: has(inputs.pathParameters) && inputs.pathParameters.city == 'Atlantis'
    decision: deny
    message: There is no such place.
";

#[test]
fn what_was_shown_is_run_once_or_it_is_told_what_differs() {
    let mut world = World::down(&[]);
    let policy = world.write("policy.yaml", POLICY);
    world.add_flags(&["--policy", &policy]);
    world.start();
    let mut transcript = String::new();
    let mut tell = |arguments: &[&str]| {
        let ran = world.a2s(arguments);
        let line: Vec<_> = arguments.iter().map(|argument| without_id(argument)).collect();
        let told = format!("$ a2s {}\n{}\n", line.join(" "), ran.transcript());
        transcript.push_str(&told);
        ran
    };
    let tweet = ["run", "PostWeatherTweet", "--input", "location=Paris", "--input", "message=Now:"];
    let dry = |more: &[&'static str]| [&tweet[..], &["--dry-run"], more].concat();

    let shown = tell(&dry(&["--preview"])).exits(0);
    let token = token_in(&shown.stdout);
    let run = tell(&["run", "--plan", &token]).exits(0);
    let (id, _) = run.stdout.split_once('\n').unwrap();
    tell(&["runs", id.rsplit(' ').next().unwrap()]).exits(0);
    tell(&["run", "--plan", &token]).exits(1);

    // A newer version is published between the plan and its run.
    let token = world.a2s(&dry(&["--json"])).one()["token"].as_str().unwrap().to_owned();
    let source = std::fs::read_to_string(shipped("PostWeatherTweet")).unwrap();
    let newer = source.replace("\nversion: \"1.0\"\n", "\nversion: \"1.1\"\n");
    assert_ne!(source, newer);
    world.publish(&newer);
    tell(&["run", "--plan", &token]).exits(1);

    tell(&["run", "PostWeatherTweet", "--dry-run", "--preview", "--input", "location=Atlantis"])
        .exits(0);
    tell(&["run", "--plan", "0123456789abcdef0123456789abcdef"]).exits(1);
    assert_snapshot!(transcript);
}

/// An argument, or what it is when it is another one in each run.
fn without_id(argument: &str) -> &str {
    match argument.len() {
        32 if argument.chars().all(|c| c.is_ascii_hexdigit()) => "<token>",
        36 if argument.matches('-').count() == 4 => "<id>",
        _ => argument,
    }
}

/// The token in the text of a plan.
fn token_in(text: &str) -> String {
    let token = text.split_once("--plan ").map_or("", |(_, rest)| rest);
    token.chars().take_while(char::is_ascii_hexdigit).collect()
}

#[test]
fn a_plan_has_all_of_it_in_json() {
    let world = World::up(&[]);
    let plan = world.a2s(&[
        "run",
        "GetCityWeather",
        "--input",
        "city=Paris",
        "--dry-run",
        "--preview",
        "--json",
    ]);
    let plan = plan.exits(0).one();
    assert_eq!(plan["token"].as_str().map(str::len), Some(32));
    assert!(plan["digest"].as_str().is_some_and(|digest| digest.starts_with("sha256:")));
    assert!(plan["policies"]["builtin"].is_string() && plan["expires_at"].is_string());
    assert_eq!(plan["steps"][0]["preview"]["decisions"][0]["decision"], "allow");
    let run = world.a2s(&["run", "--plan", plan["token"].as_str().unwrap(), "--json"]).exits(0);
    assert_eq!(run.one()["plan"], plan["digest"]);

    let lacking = world.a2s(&["run", "GetCityWeather", "--dry-run", "--json"]).exits(0).one();
    assert_eq!([&lacking["token"], &lacking["digest"]], [&Value::Null, &Value::Null]);
    assert!(lacking["no_token_reason"].as_str().is_some_and(|why| why.contains("requires `city`")));
    for wrong in [
        &["run"][..],
        &["run", "GetJoke", "--plan", "x"],
        &["run", "--plan", "x", "--input", "a=1"],
        &["run", "--plan", "x", "--dry-run"],
        &["run", "GetJoke", "--preview"],
    ] {
        world.a2s(wrong).exits(2);
    }
}
