//! The effects of the shipped capabilities, and what sentences ask for.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its case has to fail")]

use a2s::Document;
use a2s_intent::effect::{CapabilityEffects, contradiction, wanted_effect};

fn capability(name: &str) -> (CapabilityEffects, Vec<String>) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../capabilities");
    let source = std::fs::read(format!("{folder}/{name}.yaml")).unwrap();
    let document = Document::open(&source).unwrap();
    let capability = document.capability();
    let read_only = document.interface().read_only;
    let effects =
        CapabilityEffects::new(capability.name.as_str(), &capability.description, read_only);
    let intents = capability.examples.iter().filter_map(|example| example.intent.clone());
    (effects, intents.collect())
}

#[test]
fn shipped_capabilities_do_not_contradict_their_intents() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../capabilities");
    let mut names = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let (effects, intents) = capability(name);
        for intent in intents {
            if let Some(wanted) = wanted_effect(&intent) {
                assert!(!contradiction(wanted, &effects), "{name} {effects}: {intent}");
            }
        }
        names += 1;
    }
    assert_eq!(names, 42);
}

#[track_caller]
fn check_fit(sentence: &str, name: &str, contradicts: bool) {
    let (effects, _) = capability(name);
    let wanted = wanted_effect(sentence);
    let found = wanted.is_some_and(|wanted| contradiction(wanted, &effects));
    assert_eq!(found, contradicts, "{sentence}: {wanted:?}, {name} {effects}");
}

#[test]
fn a_capability_with_the_opposite_effect_contradicts() {
    check_fit("delete my tweet", "PostTweet", true);
    check_fit("cancel my concert ticket", "FindConcerts", true);
    check_fit("book a flight to the moon", "SearchBooks", true);
    check_fit("book a hotel room in Oslo", "SearchBooks", true);
    check_fit("register the domain example.com", "SearchDomainNames", true);
    check_fit("create a github issue", "GetRepository", true);
    check_fit("buy a concert ticket for Taylor Swift", "FindConcerts", true);

    check_fit("send an email to my boss", "SendNotification", false);
    check_fit("make a chart of my sales", "CreateChart", false);
    check_fit("create a pie chart of 3 and 4", "CreateChart", false);
    check_fit("find books about dragons", "SearchBooks", false);
    check_fit("create an api client in rust", "GenerateApiClient", false);
    check_fit("tell my followers that it rains", "ReachFollowers", false);
    check_fit("tweet the weather in Rome", "GetWeatherForecast", false);
    check_fit("what's the weather in Rome", "PostWeatherTweet", false);
}
