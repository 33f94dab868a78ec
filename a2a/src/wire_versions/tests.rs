use super::*;

const BOTH: [A2aVersion; 2] = [A2aVersion::V0_3, A2aVersion::V1_0];

fn message() -> Message {
    Message {
        id: "m".to_owned(),
        context: Some("c".to_owned()),
        task: None,
        role: Role::User,
        parts: vec![Part::Text("hi".to_owned()), Part::Data(json!({"a": 1}))],
    }
}

fn task() -> A2aTask {
    let timestamp = "2026-01-02T03:04:05Z".parse().ok();
    A2aTask {
        id: "t".to_owned(),
        context: "c".to_owned(),
        status: TaskStatus { state: TaskState::Working, message: Some(message()), timestamp },
        artifacts: vec![TaskArtifact {
            id: "a".to_owned(),
            name: Some("n".to_owned()),
            description: None,
            parts: vec![Part::Data(json!({"output": [1]}))],
        }],
        history: Vec::new(),
        metadata: Map::new(),
    }
}

#[test]
fn what_is_written_in_a_version_is_read_in_it_and_in_no_other() {
    let updates = [
        TaskUpdate::Reply(MessageReply::Task(task())),
        TaskUpdate::Reply(MessageReply::Message(message())),
        TaskUpdate::Status(task().status),
        TaskUpdate::Artifact(task().artifacts.remove(0)),
    ];
    for update in updates {
        for (version, other) in BOTH.into_iter().zip(BOTH.into_iter().rev()) {
            let written = version.update("t", "c", &update);
            assert_eq!(version.read_update(&written), Ok(update.clone()), "{written}");
            assert!(other.read_update(&written).is_err(), "{written}");
        }
    }
}

#[test]
fn each_version_writes_as_its_text_prints() {
    let status = task().status;
    assert_eq!(
        A2aVersion::V0_3.update("t", "c", &TaskUpdate::Status(status)),
        json!({"kind": "status-update", "taskId": "t", "contextId": "c", "final": false, "status": {
            "state": "working", "timestamp": "2026-01-02T03:04:05Z",
            "message": {"kind": "message", "messageId": "m", "contextId": "c", "role": "user", "parts": [
                {"kind": "text", "text": "hi"}, {"kind": "data", "data": {"a": 1}},
            ]},
        }})
    );
    let ended = TaskStatus { state: TaskState::InputRequired, message: None, timestamp: None };
    let ended = TaskUpdate::Status(ended);
    assert_eq!(A2aVersion::V0_3.update("t", "c", &ended)["final"], true);
    assert_eq!(
        A2aVersion::V1_0.update("t", "c", &ended),
        json!({"statusUpdate": {
            "taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_INPUT_REQUIRED"},
        }})
    );
    assert_eq!(
        A2aVersion::V1_0.message(&message())["parts"],
        json!([{"text": "hi", "mediaType": "text/plain"}, {"data": {"a": 1}, "mediaType": "application/json"}])
    );
}

#[test]
fn versions_are_told_by_two_numbers() {
    for (text, version) in [
        ("0.3", Some(A2aVersion::V0_3)),
        ("0.3.0", Some(A2aVersion::V0_3)),
        (" 1.0 ", Some(A2aVersion::V1_0)),
        ("1.0.7", Some(A2aVersion::V1_0)),
        ("1", None),
        ("1.1", None),
        ("0.2.6", None),
        ("", None),
        ("one.zero", None),
    ] {
        assert_eq!(A2aVersion::from_text(text), version, "{text:?}");
    }
}

#[test]
fn wrong_shape_is_refused_and_unknown_kept() {
    let parts = json!([{"text": "x"}]);
    for (why, bad) in [
        ("`messageId`", json!({"role": "ROLE_USER", "parts": parts})),
        ("`messageId`", json!({"messageId": 7, "role": "ROLE_USER", "parts": parts})),
        ("200 bytes", json!({"messageId": "x".repeat(201), "role": "ROLE_USER", "parts": parts})),
        ("`role`", json!({"messageId": "m", "role": "user", "parts": parts})),
        ("`role`", json!({"messageId": "m", "role": ["ROLE_USER"], "parts": parts})),
        ("empty", json!({"messageId": "m", "role": "ROLE_USER"})),
        ("a list", json!({"messageId": "m", "role": "ROLE_USER", "parts": {"text": "x"}})),
        ("64", json!({"messageId": "m", "role": "ROLE_USER", "parts": vec![parts[0].clone(); 65]})),
        ("an object", json!({"messageId": "m", "role": "ROLE_USER", "parts": ["x"]})),
        (
            "text, data or a file",
            json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"kind": "text"}]}),
        ),
        ("a text", json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": 7}]})),
        ("an object", json!([])),
    ] {
        let error = A2aVersion::V1_0.read_message(&bad).unwrap_err();
        assert!(error.contains(why), "{error} of {bad}");
    }
    for bad in
        [json!({}), json!({"task": {}}), json!({"task": 1}), json!({"task": {}, "message": {}})]
    {
        assert!(A2aVersion::V1_0.read_update(&bad).is_err(), "{bad}");
    }
    let odd = json!({"id": "t", "status": {"state": "dreaming", "timestamp": "soon"}, "more": {}});
    let task = A2aVersion::V1_0.read_task(&odd).unwrap();
    assert_eq!((task.status.state, task.status.timestamp), (TaskState::Unknown, None));
    let file = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"raw": "AAAA"}]});
    assert_eq!(A2aVersion::V1_0.read_message(&file).unwrap().parts, [Part::File]);
}
