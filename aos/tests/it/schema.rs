//! Everything that is written validates against the published schema.

use aos::message::{
    Decision, DecisionResponse, ErrorObject, Limits, MethodCall, Pong, PongStatus, Request,
    Response, ResponseBody, code,
};
use jsonschema::{Draft, Validator};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::generate::requests;

pub(crate) const REPAIRED: &str = include_str!("../schema/aos_schema.repaired.json");
const OFFICIAL: &str = include_str!("../schema/aos_schema.json");

/// A validator for one definition. The root of the file has no rule of its own and accepts anything.
pub(crate) fn validator(schema: &str, definition: &str) -> Validator {
    let mut schema: Value = serde_json::from_str(schema).unwrap();
    schema["$ref"] = Value::from(format!("#/$defs/{definition}"));
    jsonschema::options()
        .with_draft(Draft::Draft7)
        .should_validate_formats(true)
        .build(&schema)
        .unwrap()
}

/// The definition of the official file for a call. Those of MCP and A2A do not compile there.
fn official_definition(call: &MethodCall) -> Option<&'static str> {
    match call {
        MethodCall::AgentTrigger(_) => Some("AgentTriggerStep"),
        MethodCall::Message(_) => Some("MessageStep"),
        MethodCall::ToolCallRequest(_) => Some("ToolCallRequestStep"),
        MethodCall::ToolCallResult(_) => Some("ToolCallResultStep"),
        MethodCall::KnowledgeRetrieval(_) => Some("KnowledgeRetrievalStep"),
        MethodCall::MemoryStore(_) => Some("MemoryStoreStep"),
        MethodCall::MemoryContextRetrieval(_) => Some("MemoryContextRetrievalStep"),
        MethodCall::Ping(_) => Some("PingRequest"),
        MethodCall::Mcp(_) | MethodCall::A2a(..) => None,
    }
}

pub(crate) fn assert_valid(validator: &Validator, message: &[u8]) {
    let message: Value = serde_json::from_slice(message).unwrap();
    let faults: Vec<_> =
        validator.iter_errors(&message).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(faults.is_empty(), "{message:#}\n{faults:#?}");
}

#[test]
fn every_request_validates() {
    let repaired = validator(REPAIRED, "ASOPRequest");
    let official: std::collections::BTreeMap<_, _> = [
        "AgentTriggerStep",
        "MessageStep",
        "ToolCallRequestStep",
        "ToolCallResultStep",
        "KnowledgeRetrievalStep",
        "MemoryStoreStep",
        "MemoryContextRetrievalStep",
        "PingRequest",
    ]
    .map(|definition| (definition, validator(OFFICIAL, definition)))
    .into();
    proptest!(ProptestConfig::with_cases(200), |(request in requests())| {
        let message = request.to_vec();
        assert_valid(&repaired, &message);
        if let Some(definition) = official_definition(&request.call) {
            assert_valid(&official[definition], &message);
        }
    });
}

#[test]
fn every_response_validates() {
    let response = validator(REPAIRED, "ASOPResponse");
    let explained = |decision| DecisionResponse {
        reasoning: Some("because".to_owned()),
        reason_codes: vec!["one".to_owned(), "two".to_owned()],
        data: Some([("k".to_owned(), json!(1))].into_iter().collect()),
        ..DecisionResponse::new(decision, "said")
    };
    let pong = Pong::new(
        PongStatus::Connected,
        "1.0.0".to_owned(),
        "2026-01-02T03:04:05.678Z".parse().unwrap(),
    );
    let mut bodies = vec![
        ResponseBody::Decision(DecisionResponse::new(Decision::Allow, "")),
        ResponseBody::Decision(explained(Decision::Allow)),
        ResponseBody::Decision(explained(Decision::Deny)),
        ResponseBody::Pong(pong),
        ResponseBody::Error(ErrorObject::new(-32001, "busy".to_owned(), Value::Null)),
    ];
    for code in
        [code::PARSE_ERROR, code::INVALID_REQUEST, code::METHOD_NOT_FOUND, code::INVALID_PARAMS]
    {
        bodies.push(ResponseBody::Error(ErrorObject::standard(code, Value::Null)));
    }
    for body in bodies {
        assert_valid(&response, &Response { id: Some("7".into()), body: body.clone() }.to_vec());
        assert_valid(&response, &Response { id: Some(7.into()), body }.to_vec());
    }
    proptest!(ProptestConfig::with_cases(50), |(request in requests())| {
        let body = ResponseBody::Decision(explained(Decision::Modify(Box::new(request))));
        assert_valid(&response, &Response { id: Some("7".into()), body }.to_vec());
    });
}

/// The refusal of a method is the one error whose data the schema fixes.
#[test]
fn a_refused_method_has_the_form_of_the_schema() {
    let refusal = validator(REPAIRED, "MethodNotFoundError");
    let rejection = Request::from_slice(
        br#"{"jsonrpc":"2.0","id":1,"method":"steps/none"}"#,
        Limits::default(),
    );
    let response: Value =
        serde_json::from_slice(&rejection.unwrap_err().to_response().to_vec()).unwrap();
    assert_valid(&refusal, response["error"].to_string().as_bytes());
}
