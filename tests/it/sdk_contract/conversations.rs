//! Calls of the agent.

use super::*;

/// One turn with its events, as an SDK takes it.
fn turn(recorder: &Recorder<'_>, body: Value) -> (Exchange, Value) {
    let exchange =
        recorder.exchange(&Sent::post("/v1/agent", body).with("accept", "text/event-stream"));
    let answer = events(&exchange.body).into_iter().find(|event| event["type"] == "response");
    let mut answer = answer.unwrap_or_else(|| panic!("{}", exchange.body));
    answer.as_object_mut().unwrap().remove("type");
    (exchange, answer)
}

#[test]
fn conversations() {
    let world = world();
    let mut recorder = Recorder::new(&world);
    for (name, arguments) in [
        ("a request", json!({"query": "tell me a joke"})),
        ("small talk", json!({"query": "thanks"})),
        ("nothing fits", json!({"query": "prove the Riemann hypothesis"})),
        ("a denial", json!({"query": "check the grammar of the text \"me like it\""})),
        (
            "options",
            json!({
                "query": "tell me a joke", "session": "s-7", "strategy": "most_reliable",
                "filters": {"read_only": true}, "context": {"city": "Rome"},
            }),
        ),
    ] {
        let mut body = arguments.clone();
        let members = body.as_object_mut().unwrap();
        let message = members.remove("query").unwrap();
        members.insert("message".to_owned(), message);
        let (exchange, answer) = turn(&recorder, body);
        let ending = json!({"result": answer});
        recorder.record(
            &format!("agent/{name}"),
            "handle_request",
            arguments,
            &[&exchange],
            ending,
        );
    }

    let query = json!({"message": "read the sky over a city"});
    let (first, asked) = turn(&recorder, query.clone());
    assert_eq!(asked["status"], "input_required", "{asked}");
    let arguments = json!({"query": query["message"]});
    let ending = json!({"result": asked});
    recorder.record(
        "agent/a question without a callback",
        "handle_request",
        arguments,
        &[&first],
        ending,
    );
    let reply = |answer: &Value, message: &str| {
        json!({
            "message": message, "session": answer["session"], "pending": answer["question"]["pending"],
        })
    };
    for (name, given) in [
        ("a question answered with inputs", json!({"city": "Rome"})),
        ("a question answered in words", json!("Rome")),
    ] {
        let (first, asked) = turn(&recorder, query.clone());
        let mut body = reply(&asked, given.as_str().unwrap_or_default());
        if given.is_object() {
            body["inputs"] = given.clone();
        }
        let (second, done) = turn(&recorder, body);
        assert_eq!(done["status"], "completed", "{done}");
        let arguments = json!({"query": query["message"], "on_question": [given]});
        let exchanges = [&first, &second];
        recorder.record(
            &format!("agent/{name}"),
            "handle_request",
            arguments,
            &exchanges,
            json!({"result": done}),
        );
    }
    let (first, asked) = turn(&recorder, query.clone());
    let arguments = json!({"query": query["message"], "on_question": [null]});
    let ending = json!({"result": asked});
    recorder.record(
        "agent/a question that is left",
        "handle_request",
        arguments,
        &[&first],
        ending,
    );

    for (name, consent, word) in
        [("consent is given", true, "yes"), ("consent is refused", false, "no")]
    {
        let (first, asked) = turn(&recorder, json!({"message": "tweet hello world"}));
        assert!(asked["question"]["actions"].is_array(), "{asked}");
        let (second, done) = turn(&recorder, reply(&asked, word));
        let arguments = json!({"query": "tweet hello world", "on_consent": [consent]});
        let exchanges = [&first, &second];
        recorder.record(
            &format!("agent/{name}"),
            "handle_request",
            arguments,
            &exchanges,
            json!({"result": done}),
        );
    }
    let sent = Sent::post("/v1/agent", json!({"message": ""})).with("accept", "text/event-stream");
    let exchange = recorder.exchange(&sent);
    let problem = events(&exchange.body).remove(0);
    let ending = json!({"error": problem_error("InvalidInput", &problem)});
    let arguments = json!({"query": ""});
    recorder.record("agent/an empty message", "handle_request", arguments, &[&exchange], ending);
    recorder.finish("conversations");
}
