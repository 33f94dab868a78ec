//! The files of the agent that read A2A, without the crate around them: it shows them to nobody.

#![allow(dead_code, reason = "each target reads a part, and none writes all")]

#[path = "../../src/a2a_server/request_params.rs"]
mod request_params;
#[path = "../../src/a2a/agent_card.rs"]
mod agent_card;
#[path = "../../src/a2a/model.rs"]
mod model;
#[path = "../../src/a2a/rpc.rs"]
mod rpc;
#[path = "../../src/a2a_server/status_messages.rs"]
mod status_messages;
#[path = "../../src/a2a/wire_versions.rs"]
mod wire_versions;

use serde_json::Value;
use url::Url;

use request_params::{Asked, hide_secrets};
use agent_card::Card;
use model::{Reply, Task, Update};
use rpc::{Call, Fault, Kind, Method};
use wire_versions::Version;

const VERSIONS: [Version; 2] = [Version::V0_3, Version::V1_0];

/// A card is refused, or leads to the host where it was found and has so much to say.
pub fn check_card(card: &Value) {
    let origin: Url = "http://agent.test/".parse().expect("a URL");
    match Card::read(card, &origin) {
        Ok(card) => {
            assert_eq!(card.endpoint.origin(), origin.origin());
            assert!(!card.name.is_empty() && card.skills.len() <= 500);
            let skills = card.skills.iter().flat_map(|skill| [&skill.name, &skill.description]);
            for text in skills.chain([&card.name, &card.description, &card.version]) {
                assert!(text.chars().count() <= 1_001 && !text.contains(char::is_control));
            }
        }
        Err(why) => assert!(!why.is_empty()),
    }
}

/// An answer or an event is refused, or means the same when it is written anew.
pub fn check_answer(answer: &Value) {
    for version in VERSIONS {
        let Ok(update) = version.read_update(answer) else {
            assert!(version.read_reply(answer).is_err());
            continue;
        };
        let write = |update: &Update| version.update("t", "c", update);
        let again = version.read_update(&write(&update)).expect("what is written is read");
        // 0.3 has no data but objects: a value is put into one, once.
        let third = version.read_update(&write(&again)).expect("what is written is read");
        assert_eq!(write(&again), write(&third));
        if version == Version::V1_0 {
            assert_eq!(update, again);
        }
        if let Update::Reply(Reply::Task(mut task)) = again {
            task.take(update);
            assert!(task.artifacts.len() <= 64 && task.history.is_empty());
        }
    }
    for version in VERSIONS {
        let _: Result<Task, String> = version.read_task(answer);
    }
}

/// A request is refused with an answer to its id, or is the same when it is read again.
pub fn check_request(bytes: &[u8]) {
    for header in [None, Some("0.3"), Some("1.0")] {
        match Call::read(bytes, header) {
            Ok(call) => {
                assert!(header.is_none_or(|header| Version::of(header) == Some(call.version)));
                assert_eq!(Call::of(call.whole.clone(), header).as_ref(), Ok(&call));
                assert_eq!(call.whole.get("id"), Some(&call.id));
                if call.method.hook().is_some() {
                    check_asked(call);
                }
            }
            Err((id, fault)) => check_fault(&fault, &id),
        }
    }
}

/// What is asked is refused in the same way, or the same when its secrets were hidden for a while.
fn check_asked(call: Call) {
    let asked = match Asked::read(&call) {
        Ok(asked) => asked,
        Err(fault) => return check_fault(&fault, &call.id),
    };
    let mut whole = call.whole;
    hide_secrets(&mut whole, &[]);
    let shown = Call::of(whole, None).expect("it is a request still");
    let mut again = Asked::read(&shown).expect("it asks for the same");
    again.reveal(&asked, &[]);
    if let (Asked::Message(one), Asked::Message(other)) = (&asked, &again) {
        assert_eq!(one.wish, other.wish);
    }
}

fn check_fault(fault: &Fault, id: &Value) {
    let answer = fault.answer(id);
    assert!(!fault.message.is_empty() && answer.get("id") == Some(id));
    assert!(answer.get("error").is_some_and(|error| error["code"].is_i64()));
}

/// What the desk says elsewhere.
fn no_task() -> Fault {
    Fault::new(Kind::NoTask, "no task")
}

fn never(_: Method) -> Fault {
    Fault::new(Kind::NoPush, "never")
}
