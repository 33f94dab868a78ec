//! The checks of the targets `peer` and `request`.

use serde_json::Value;
use url::Url;

use crate::a2a::agent_card::PeerCard;
use crate::a2a::model::{A2aTask, MessageReply, TaskUpdate};
use crate::a2a::rpc::{RpcError, RpcRequest};
use crate::a2a::wire_versions::A2aVersion;
use crate::a2a_server::request_params::{ParsedRequest, hide_inputs};
use crate::guard::RedactedInputs;

const VERSIONS: [A2aVersion; 2] = [A2aVersion::V0_3, A2aVersion::V1_0];

/// Checks that a card is refused, or leads to the host where it was found and has texts of bounded length.
pub fn check_card(card: &Value) {
    let origin: Url = "http://agent.test/".parse().expect("a URL");
    match PeerCard::read(card, &origin) {
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

/// Checks that an answer or an event is refused, or means the same when it is written anew.
pub fn check_answer(answer: &Value) {
    for version in VERSIONS {
        let Ok(update) = version.read_update(answer) else {
            assert!(version.read_reply(answer).is_err());
            continue;
        };
        let write = |update: &TaskUpdate| version.update("t", "c", update);
        let again = version.read_update(&write(&update)).expect("what is written is read");
        // 0.3 has no data but objects: a value is put into one, once.
        let third = version.read_update(&write(&again)).expect("what is written is read");
        assert_eq!(write(&again), write(&third));
        if version == A2aVersion::V1_0 {
            assert_eq!(update, again);
        }
        if let TaskUpdate::Reply(MessageReply::Task(mut task)) = again {
            task.apply_update(update);
            assert!(task.artifacts.len() <= 64 && task.history.is_empty());
        }
    }
    for version in VERSIONS {
        let _: Result<A2aTask, String> = version.read_task(answer);
    }
}

/// Checks that a request is refused with an answer to its id, or is the same when it is read again.
pub fn check_request(bytes: &[u8]) {
    for header in [None, Some("0.3"), Some("1.0")] {
        match RpcRequest::read(bytes, header) {
            Ok(request) => {
                let version = header.map(A2aVersion::from_text);
                assert!(version.is_none_or(|version| version == Some(request.version)));
                assert_eq!(
                    RpcRequest::from_object(request.raw.clone(), header).as_ref(),
                    Ok(&request)
                );
                assert_eq!(request.raw.get("id"), Some(&request.id));
                if request.method.hook().is_some() {
                    check_parameters(request);
                }
            }
            Err((id, error)) => check_error(&error, &id),
        }
    }
}

/// Checks that parameters are refused in the same way, or have the same intent after their inputs were hidden
/// and restored.
fn check_parameters(request: RpcRequest) {
    let parsed = match ParsedRequest::read(&request) {
        Ok(parsed) => parsed,
        Err(error) => return check_error(&error, &request.id),
    };
    let hidden = RedactedInputs::all_except(Vec::new());
    let mut raw = request.raw;
    hide_inputs(&mut raw, &hidden);
    let shown = RpcRequest::from_object(raw, None).expect("it is a request still");
    let mut again = ParsedRequest::read(&shown).expect("it asks for the same");
    again.restore_inputs(&parsed, &hidden);
    if let (ParsedRequest::Message(one), ParsedRequest::Message(other)) = (&parsed, &again) {
        assert_eq!(one.intent, other.intent);
    }
}

fn check_error(error: &RpcError, id: &Value) {
    let answer = error.to_response(id);
    assert!(!error.message.is_empty() && answer.get("id") == Some(id));
    assert!(answer.get("error").is_some_and(|error| error["code"].is_i64()));
}
