use super::*;

#[track_caller]
fn check(body: &str, header: Option<&str>, expected: Result<(A2aVersion, RpcMethod), i32>) {
    let read = RpcRequest::read(body.as_bytes(), header);
    let read = read.map(|call| (call.version, call.method)).map_err(|(_, fault)| fault.kind.code());
    assert_eq!(read, expected, "{body} with {header:?}");
}

fn request(method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{}}}}"#)
}

#[test]
fn a_method_says_its_version_and_a_header_must_agree() {
    let (old, new) = ((A2aVersion::V0_3, RpcMethod::Send), (A2aVersion::V1_0, RpcMethod::Send));
    check(&request("message/send"), None, Ok(old));
    check(&request("message/send"), Some(""), Ok(old));
    check(&request("message/send"), Some("0.3"), Ok(old));
    check(&request("SendMessage"), None, Ok(new));
    check(&request("SendMessage"), Some("1.0"), Ok(new));
    check(&request("SendMessage"), Some("0.3"), Err(-32009));
    check(&request("message/send"), Some("1.0"), Err(-32009));
    check(&request("SendMessage"), Some("2.0"), Err(-32009));
    check(&request("sendmessage"), None, Err(-32601));
    check(&request("message/send/"), None, Err(-32601));
}

#[test]
fn every_method_has_one_name_in_each_version() {
    for (name, version, method) in METHODS {
        check(&request(name), None, Ok((version, method)));
    }
    for method in
        [RpcMethod::Send, RpcMethod::Stream, RpcMethod::Get, RpcMethod::Cancel, RpcMethod::Follow]
    {
        for version in [A2aVersion::V0_3, A2aVersion::V1_0] {
            check(&request(method.name(version)), None, Ok((version, method)));
            assert!(method.hook().is_some());
        }
    }
}

#[test]
fn invalid_request_error_has_its_id() {
    let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"x"}}"#, "x".repeat(201));
    let deep = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{}"#, "[".repeat(100_000));
    for (body, code, id) in [
        ("", -32700, Value::Null),
        ("{", -32700, Value::Null),
        (&deep, -32700, Value::Null),
        ("7", -32600, Value::Null),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"tasks/get"}]"#, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","method":"tasks/get"}"#, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"tasks/get"}"#, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":true,"method":"tasks/get"}"#, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":{},"method":"tasks/get"}"#, -32600, Value::Null),
        (&long, -32600, Value::Null),
        (r#"{"jsonrpc":"1.0","id":"a","method":"tasks/get"}"#, -32600, json!("a")),
        (r#"{"id":-3,"method":"tasks/get"}"#, -32600, json!(-3)),
        (r#"{"jsonrpc":"2.0","id":null}"#, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":"","method":7}"#, -32600, json!("")),
        (r#"{"jsonrpc":"2.0","id":9,"method":"tasks/get","params":[1]}"#, -32602, json!(9)),
        (r#"{"jsonrpc":"2.0","id":9,"method":"tasks/get","params":null}"#, -32602, json!(9)),
    ] {
        let (answered, fault) = RpcRequest::read(body.as_bytes(), None).unwrap_err();
        let short: String = body.chars().take(80).collect();
        assert_eq!((fault.kind.code(), &answered), (code, &id), "{short}");
        let answer = Value::Object(fault.to_response(&answered));
        assert_eq!((&answer["jsonrpc"], &answer["error"]["code"]), (&json!("2.0"), &json!(code)));
        assert_eq!(answer["error"]["data"][0]["domain"], "a2a-protocol.org");
    }
}
