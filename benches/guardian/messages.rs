//! What the guardian is asked, and by which rules it goes.

use serde_json::{Value, json};

/// A call as the executor tells it, and its result: a list of twenty people.
pub(crate) fn all() -> Vec<Vec<u8>> {
    let inputs = json!([
        {"name": "pathParameters.account", "value": "4711"},
        {"name": "body", "value": {"amount": 20, "currency": "EUR", "to": {"name": "Ada", "iban": "X1"}}},
    ]);
    let call = json!({"executionId": "x", "toolId": "PayBill.pay", "inputs": inputs});
    let people: Vec<_> = (0..20)
        .map(|n| json!({"id": n, "name": format!("Person {n}"), "address": format!("{n} High Street")}))
        .collect();
    let text = json!({"people": people}).to_string();
    let result = json!({"outputs": [{"kind": "text", "text": text}], "isError": false});
    [
        ("steps/toolCallRequest", json!({"toolCallRequest": call})),
        (
            "steps/toolCallResult",
            json!({"toolCallResult": {"executionId": "x", "result": result}, "toolId": "PayBill.pay"}),
        ),
    ]
    .map(|(method, params)| message(method, params).to_string().into_bytes())
    .into()
}

fn message(method: &str, mut params: Value) -> Value {
    let digest = "sha256:0627121490c34046ca103967b9aa015152df463e0ebd463a87b0deeb79fb38ec";
    params["reasoning"] = "Step pay of PayBill: Pay a bill of a customer.".into();
    params["context"] = json!({
        "agent": {
            "id": "a2s-executor", "name": "A2S executor", "version": "0.1.0", "url": "urn:a2s:executor",
            "instructions": "Run published capabilities exactly as their documents say.",
            "provider": {"name": "A2S", "url": "urn:a2s"},
        },
        "session": {"id": "0198b3a2-6a34-7a10-9f44-0d0f7e2a5c11"},
        "turnId": "0198b3a2-6a34-7a10-9f44-0d0f7e2a5c12",
        "stepId": "pay",
        "timestamp": "2026-05-06T07:08:09Z",
        "user": {"id": "ada", "email": "ada@example.org"},
        "capability": {
            "name": "PayBill", "version": "1.0.0", "digest": digest, "format": "OpenAPI", "method": "POST",
            "root": {"name": "PayBill", "version": "1.0.0", "checksum": digest},
            "url": "https://api.bank.example/accounts/{account}/payments", "host": "api.bank.example",
            "readOnly": false, "permissions": ["payments"], "run": "0198b3a2-6a34-7a10-9f44-0d0f7e2a5c12",
        },
    });
    json!({"jsonrpc": "2.0", "id": "7c1f6a52-9d43-4f07-9a0a-0f4f1c2f7d90", "method": method, "params": params})
}

/// So many rules, of which none decides: each is looked at for each message.
pub(crate) fn policy(rules: usize) -> String {
    let rule = |n: usize| {
        let rule = match (n, n % 5) {
            (0, _) => {
                "on: toolCallRequest, limit: {calls: 1000000000, per: session}, decision: deny"
                    .to_owned()
            }
            (1, _) => "on: toolCallResult, decision: modify, modify: {redact: [{pattern: email}]}"
                .to_owned(),
            (_, 0) => format!(
                "on: toolCallRequest, tool: 'Pay{n}*.*', when: inputs.body.amount > 100, decision: deny"
            ),
            (_, 1) => format!(
                "host: '*.internal{n}.example', user: '*@contractor.example', decision: deny"
            ),
            (_, 2) => format!(
                "on: toolCallRequest, when: has(inputs.body) && inputs.body.amount > {n}00, decision: deny"
            ),
            (_, 3) => format!(
                "on: toolCallResult, decision: modify, modify: {{redact: [{{path: 'people[*].secret{n}'}}]}}"
            ),
            _ => format!(
                "on: toolCallResult, when: \"texts.exists(t, t.contains('forbidden {n}'))\", decision: deny"
            ),
        };
        format!("  - {{id: r{n}, {rule}}}\n")
    };
    let rules: String = (0..rules).map(rule).collect();
    format!("version: 1\ndefault: allow\nrules:\n{rules}")
}
