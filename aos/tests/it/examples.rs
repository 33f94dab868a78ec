//! Every documented form of a message is read, and what is none is refused with its code and place.

use aos::message::{Limits, Method, MethodCall, Object, Request, Response, ResponseBody, code};
use serde_json::{Value, json};

/// The context as the hooks page shows it: without the `url` that the schema asks of an agent.
fn context() -> Value {
    json!({
        "agent": {
            "id": "a-1", "name": "Travel desk", "instructions": "Book what people ask for.", "version": "12",
            "provider": {"name": "Example", "url": "https://example.org/"}
        },
        "session": {"id": "s-1"},
        "turnId": "t-1",
        "stepId": "st-1",
        "timestamp": "2026-03-04T05:06:07.089Z",
        "user": {"id": "u-1", "email": "u@example.org", "organization": {"id": "o-1", "name": "Example"}}
    })
}

fn request(method: &str, params: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "id": "q-1", "method": method, "params": params.into()})
}

#[track_caller]
fn read(message: &Value) -> Request {
    Request::from_slice(message.to_string().as_bytes(), Limits::default()).unwrap()
}

/// Both spellings are read as the same question, and written as the second.
#[track_caller]
fn check_same(spelling: &Value, written: &Value) {
    let question = read(spelling);
    assert_eq!(question, read(written));
    assert_eq!(serde_json::to_value(&question).unwrap(), *written);
}

/// The call is refused with this code, and its answer names this place.
#[track_caller]
fn check_refused(message: &str, code: i64, id: &Value, place: &str) {
    let rejection = Request::from_slice(message.as_bytes(), Limits::default()).unwrap_err();
    let answer: Value = serde_json::from_slice(&rejection.to_response().to_vec()).unwrap();
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), id), "{answer}");
    assert!(answer["error"]["data"].to_string().contains(place), "{answer}");
}

#[test]
fn every_hook_is_read() {
    let text = json!([{"kind": "text", "text": "hello"}]);
    let hooks = [
        (
            Method::AgentTrigger,
            json!({"context": context(), "trigger": {
                "type": "autonomous", "event": {"type": "email", "id": "e-1"},
                "content": [{"kind": "data", "data": {"subject": "Booking"}}]
            }}),
        ),
        (
            Method::ToolCallRequest,
            json!({"context": context(), "reasoning": "The trip needs a train.", "toolCallRequest": {
                "executionId": "x-1", "toolId": "trains", "inputs": [{"name": "to", "value": "Paris"}]
            }}),
        ),
        (
            Method::ToolCallResult,
            json!({"context": context(), "reasoning": "Done.", "toolCallResult": {
                "executionId": "x-1", "result": {"outputs": [], "isError": false}
            }}),
        ),
        (
            Method::Message,
            json!({"context": context(), "message": {"role": "user", "id": "m-1", "content": text}}),
        ),
        (
            Method::Message,
            json!({"context": context(), "message": {"role": "agent", "id": "m-2", "content": text},
                "citations": [{"kind": "file", "id": "f-1", "name": "Trains.xlsx"}, {"kind": "site", "url": "https://example.org/"}]
            }),
        ),
        (
            Method::MemoryContextRetrieval,
            json!({"context": context(), "memory": ["[{\"role\":\"user\"}]"]}),
        ),
        (
            Method::MemoryStore,
            json!({"context": context(), "memory": ["prefers trains"], "reasoning": "Keep it."}),
        ),
        (
            Method::KnowledgeRetrieval,
            json!({"context": context(), "knowledgeStep": {
                "query": "trains", "keywords": ["train"], "results": [{"id": "f-1", "content": "TGV,Paris"}]
            }}),
        ),
        (
            Method::Mcp,
            json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "slots", "arguments": {}}}),
        ),
        (Method::Mcp, json!({"jsonrpc": "2.0", "id": 4, "result": {"content": "free at nine"}})),
        (
            Method::A2aMessageSend,
            json!({"payload": {"jsonrpc": "2.0", "id": 1, "method": "message/send"}, "context": {
                "from": {"agent": {"name": "a", "url": "https://a.example", "version": "1", "instruction": "…"}, "role": "client"},
                "to": {"agent": {"url": "https://b.example"}, "role": "server"}
            }}),
        ),
    ];
    for (method, params) in hooks {
        assert_eq!(read(&request(method.as_str(), params)).method(), method);
    }
}

#[test]
fn an_agent_without_url_is_read() {
    let question = read(&request("steps/memoryStore", json!({"context": context(), "memory": []})));
    assert_eq!(question.call.context().unwrap().agent.url, "");
}

/// The objects as the text under its older name, ASOP, has them: no `url`, and `null` where a type
/// may be missing.
#[test]
fn objects_of_the_older_name_are_read() {
    let mut context = context();
    context["agent"]["tools"] = json!([{
        "name": "Trains", "id": "trains", "type": "function_call", "outputs": null,
        "arguments": [{"name": "to", "type": "string", "mimeType": null, "required": true}]
    }]);
    context["agent"]["model"] = json!({"name": "M", "id": "m", "provider": {"name": "P"}});
    context["agent"]["mcpServers"] = json!([{"name": "calendar", "version": "1"}]);
    context["agent"]["resources"] = json!([{"name": "Trains", "id": "f-1", "content": "TGV"}]);
    let data = json!([{"kind": "data", "data": [1, 2]}]);
    let params =
        json!({"context": context, "message": {"id": "m", "role": "system", "content": data}});
    let question = read(&request("steps/message", params));
    let agent = &question.call.context().unwrap().agent;
    let tools = agent.tools.as_ref().unwrap();
    assert_eq!(tools[0].arguments.as_ref().unwrap()[0].mime_type, None);
    assert_eq!((tools[0].outputs.as_ref(), agent.url.as_str()), (None, ""));
}

#[test]
fn a_flat_tool_result_is_the_nested_one() {
    let result = json!({"outputs": [{"kind": "text", "text": "9:00"}], "isError": false});
    let mut context = context();
    context["agent"]["url"] = json!("https://agent.example/");
    // Written in the order of the schema, so that the comparison of values is one of content.
    let nested =
        json!({"context": context, "toolCallResult": {"executionId": "x", "result": result}});
    check_same(
        &request(
            "steps/toolCallResult",
            json!({"context": context, "executionId": "x", "result": result}),
        ),
        &request("steps/toolCallResult", nested.clone()),
    );
    let mut twice = nested;
    twice["executionId"] = json!("another");
    check_refused(
        &request("steps/toolCallResult", twice).to_string(),
        -32602,
        &json!("q-1"),
        "params.executionId",
    );
}

#[test]
fn other_spellings_are_the_same_question() {
    let mcp = json!({"jsonrpc": "2.0", "method": "tools/list", "id": 1});
    check_same(
        &request("protocols/MCP", mcp.clone()),
        &request("protocols/MCP", json!({"message": mcp})),
    );
    let a2a = json!({"payload": {"id": 1}, "context": {"to": {"role": "server"}}});
    for (spelling, written) in [
        ("tasks/get", "task/get"),
        ("tasks/pushNotificationConfig/get", "task/pushNotificationConfig/get"),
        ("tasks/pushNotificationConfig/set", "task/pushNotificationConfig/set"),
    ] {
        check_same(&request(spelling, a2a.clone()), &request(written, a2a.clone()));
    }
    let beside = json!({"jsonrpc": "2.0", "id": "q-1", "method": "tasks/cancel", "payload": {"id": 1}, "context": a2a["context"]});
    check_same(&beside, &request("tasks/cancel", a2a));
    // The tables of the text have no context.
    check_same(
        &request("message/send", json!({"payload": {"id": 1}})),
        &request("message/send", json!({"payload": {"id": 1}, "context": {}})),
    );
    let wrapped =
        request("protocols/A2A", json!({"message": {"method": "message/send"}, "reasoning": "r"}));
    check_same(&wrapped, &wrapped);
}

#[test]
fn a_ping_has_its_time_anywhere() {
    let time = json!("2026-03-04T05:06:07Z");
    let written = json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "timestamp": time, "params": {"timestamp": time}});
    check_same(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "timestamp": time}), &written);
    check_same(
        &json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"timestamp": time}}),
        &written,
    );
    check_same(
        &json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"timestamp": "2026-03-04T06:06:07+01:00"}}),
        &written,
    );
    let MethodCall::Ping(ping) = read(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).call
    else {
        panic!("no ping")
    };
    assert_eq!(ping.timestamp, None);
}

#[test]
fn unknown_members_survive() {
    let mut context = context();
    context["agent"]["url"] = json!("https://agent.example/");
    context["agent"]["team"] = json!("travel");
    context["trace"] = json!({"traceparent": "00-1-2-01"});
    let message = request(
        "steps/toolCallRequest",
        json!({"context": context, "toolCallRequest": {"executionId": "x", "toolId": "t", "inputs": [], "cost": 3}, "note": [1]}),
    );
    assert_eq!(serde_json::to_value(read(&message)).unwrap(), message);
}

#[test]
fn what_is_no_json_rpc_request_is_refused() {
    let null = Value::Null;
    check_refused("{", -32700, &null, "EOF");
    check_refused(r#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#, -32700, &null, "trailing");
    check_refused(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, -32700, &null, "duplicate");
    check_refused(&format!("{}{}", "[".repeat(100), "]".repeat(100)), -32700, &null, "deep");
    check_refused(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600, &null, "batch");
    check_refused("3", -32600, &null, "object");
    check_refused(r#"{"id":1,"method":"ping"}"#, -32600, &json!(1), "jsonrpc");
    check_refused(r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600, &json!(1), "jsonrpc");
    check_refused(r#"{"jsonrpc":"2.0","method":"ping"}"#, -32600, &null, "id");
    check_refused(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, &null, "id");
    check_refused(r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600, &null, "id");
    check_refused(r#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600, &json!(1), "method");
    check_refused(
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}"#,
        -32600,
        &json!(1),
        "params",
    );
    check_refused(
        r#"{"jsonrpc":"2.0","id":"q","method":"steps/toolcallrequest"}"#,
        -32601,
        &json!("q"),
        "null",
    );
}

#[test]
fn wrong_params_are_refused_with_their_place() {
    let check = |pointer: &str, value: Option<Value>, place: &str| {
        let call =
            json!({"executionId": "x", "toolId": "t", "inputs": [{"name": "a", "value": 1}]});
        let mut message = request(
            "steps/toolCallRequest",
            json!({"context": context(), "toolCallRequest": call}),
        );
        let (parent, member) = pointer.rsplit_once('/').unwrap();
        let parent = message.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            Some(value) => drop(parent.insert(member.to_owned(), value)),
            None => drop(parent.remove(member)),
        }
        check_refused(&message.to_string(), -32602, &json!("q-1"), place);
    };
    check("/params", None, "\"params\"");
    check("/params", Some(json!([])), "\"params\"");
    check("/params/context", None, "params.context");
    check(
        "/params/context/agent/provider",
        Some(json!("Example")),
        "params.context.agent.provider",
    );
    check("/params/context/session", Some(json!({})), "params.context.session.id");
    check("/params/context/timestamp", Some(json!("yesterday")), "params.context.timestamp");
    check("/params/context/timestamp", Some(json!("2026-03-04")), "params.context.timestamp");
    check("/params/context/traceparent", Some(json!("00-1")), "params.context.traceparent");
    check("/params/toolCallRequest/inputs", Some(json!({"a": 1})), "params.toolCallRequest.inputs");
    check("/params/toolCallRequest/inputs/0/name", None, "params.toolCallRequest.inputs[0].name");
    check("/params/toolCallRequest/inputs/0/value", None, "params.toolCallRequest.inputs[0].value");
    check("/params/toolCallRequest/toolId", Some(json!(7)), "params.toolCallRequest.toolId");
    check("/params/toolCallRequest/executionId", None, "params.toolCallRequest.executionId");
}

#[test]
fn the_size_is_bounded() {
    let message = request("ping", json!({"metadata": {"pad": "x".repeat(200)}})).to_string();
    let limits = Limits { bytes: 100, ..Limits::default() };
    let rejection = Request::from_slice(message.as_bytes(), limits).unwrap_err();
    assert!(rejection.to_string().contains("100 bytes"), "{rejection}");
}

#[test]
fn a_structured_tool_output_has_to_be_text() {
    let result = json!({"outputs": [{"kind": "data", "data": {}}], "isError": false});
    let params =
        json!({"context": context(), "toolCallResult": {"executionId": "x", "result": result}});
    check_refused(
        &request("steps/toolCallResult", params).to_string(),
        -32602,
        &json!("q-1"),
        "params.toolCallResult.result.outputs[0].kind",
    );
}

#[test]
fn a_modification_takes_only_what_the_hook_covers() {
    let message = |context: Value, tool: &str, execution: &str, value: i64| {
        let inputs = json!([{"name": "n", "value": value}]);
        let call = json!({"executionId": execution, "toolId": tool, "inputs": inputs});
        read(&request(
            "steps/toolCallRequest",
            json!({"context": context, "toolCallRequest": call}),
        ))
    };
    let question = message(context(), "t", "x", 1);
    let mut other = context();
    other["session"]["id"] = json!("another");
    assert_eq!(
        question.with_modification(message(other, "t", "x", 2)),
        Ok(message(context(), "t", "x", 2))
    );
    assert!(
        question
            .with_modification(message(context(), "t", "y", 2))
            .unwrap_err()
            .contains("executionId")
    );
    assert!(
        question.with_modification(message(context(), "u", "x", 2)).unwrap_err().contains("toolId")
    );
    let memory = read(&request("steps/memoryStore", json!({"context": context(), "memory": []})));
    assert!(question.with_modification(memory).unwrap_err().contains("steps/memoryStore"));
    let ping = read(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    assert!(ping.with_modification(ping.clone()).is_err());
}

/// What has no version, or neither a method nor an outcome, is no message of JSON-RPC.
#[test]
fn what_is_no_mcp_message_is_not_taken_for_one() {
    for params in [
        json!({"id": 1, "method": "tools/list"}),
        json!({"jsonrpc": null, "id": 1, "method": "tools/list"}),
        json!({"jsonrpc": "1.0", "id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": null}),
        json!({"jsonrpc": "2.0", "id": 1}),
    ] {
        let message =
            json!({"jsonrpc": "2.0", "id": 1, "method": "protocols/MCP", "params": params});
        check_refused(&message.to_string(), code::INVALID_PARAMS, &json!(1), "params.message");
    }
}

#[test]
fn an_error_is_read_as_it_was_written() {
    let refused =
        Request::from_slice(br#"{"jsonrpc":"2.0","id":1,"method":"none"}"#, Limits::default());
    let response = refused.unwrap_err().to_response();
    assert_eq!(Response::from_slice(&response.to_vec(), Limits::default()), Ok(response));
}

#[test]
fn answers_are_read_in_every_spelling() {
    let check = |result: Value, decision: &str, codes: &[&str]| {
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
        let response = Response::from_slice(answer.as_bytes(), Limits::default()).unwrap();
        let ResponseBody::Decision(answer) = response.body else { panic!("no decision: {answer}") };
        assert_eq!(
            (answer.decision.as_str(), answer.reason_codes),
            (decision, codes.iter().map(|&c| c.to_owned()).collect())
        );
    };
    check(json!({"decision": "allow", "message": "fine"}), "allow", &[]);
    check(
        json!({"decision": "allow", "message": "fine", "reasonCode": ["a", "b"]}),
        "allow",
        &["a", "b"],
    );
    check(
        json!({"decision": "allow", "message": "fine", "reasonCode": "a", "reasoning": null}),
        "allow",
        &["a"],
    );
    check(json!({"decision": "deny", "message": "no"}), "deny", &[]);
    check(json!({"decision": "block", "message": "no"}), "deny", &[]);
    // A deny stands, whatever else is wrong with it.
    check(json!({"decision": "deny"}), "deny", &[]);
    check(
        json!({"decision": "deny", "message": 7, "reasonCode": 7, "reasoning": [], "data": "x"}),
        "deny",
        &[],
    );
}

#[test]
fn answers_that_cannot_be_followed_are_told_apart() {
    let check = |answer: &str, reason: &str| {
        let error =
            Response::from_slice(answer.as_bytes(), Limits::default()).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    };
    check("no", "not JSON");
    check("[]", "not a JSON-RPC response");
    check(r#"{"jsonrpc":"2.0","id":1}"#, "neither result nor error");
    check(
        r#"{"jsonrpc":"2.0","id":1,"result":{"decision":"allow","message":""},"error":{"code":1,"message":""}}"#,
        "both",
    );
    check(r#"{"id":1,"result":{"decision":"allow","message":""}}"#, "jsonrpc");
    check(r#"{"jsonrpc":"2.0","id":1,"result":{"message":""}}"#, "unknown decision");
    for word in
        ["ALLOW", "Allow", "allow ", " allow", "DENY", "deny\\n", "BLOCK", "MODIFY", "allowed"]
    {
        let answer =
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"decision":"{word}","message":""}}}}"#);
        check(&answer, "unknown decision");
    }
    check(
        r#"{"jsonrpc":"2.0","id":1,"result":{"decision":"ask","message":""}}"#,
        "unknown decision \"ask\"",
    );
    check(r#"{"jsonrpc":"2.0","id":1,"result":{"decision":"allow"}}"#, "result.message");
    check(
        r#"{"jsonrpc":"2.0","id":1,"result":{"decision":"modify","message":""}}"#,
        "modifiedRequest: is missing",
    );
    check(
        r#"{"jsonrpc":"2.0","id":1,"result":{"decision":"modify","message":"","modifiedRequest":{"inputs":[]}}}"#,
        "modifiedRequest",
    );
    check(r#"{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}"#, "error.code");
}

#[test]
fn the_order_of_members_is_kept() {
    let inner: Object =
        ["z", "a", "m"].into_iter().map(|name| (name.to_owned(), json!(1))).collect();
    let message = request("protocols/MCP", json!({"message": inner}));
    assert!(String::from_utf8(read(&message).to_vec()).unwrap().contains(r#"{"z":1,"a":1,"m":1}"#));
}
