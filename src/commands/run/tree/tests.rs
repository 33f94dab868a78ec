use anstream::adapter::strip_str;
use serde_json::{Value, json};

use super::*;

const NIL: &str = "00000000-0000-0000-0000-000000000000";

/// Events of these members, a second apart.
fn events(kinds: impl IntoIterator<Item = Value>) -> Vec<RunEvent> {
    let event = |(second, mut kind): (usize, Value)| {
        let at = Timestamp::from_second(second as i64).unwrap();
        let head = json!({"v": 1, "seq": second + 1, "run": NIL, "at": at});
        let members = kind.as_object_mut().unwrap();
        members.extend(head.as_object().unwrap().clone());
        serde_json::from_value(kind).unwrap()
    };
    kinds.into_iter().enumerate().map(event).collect()
}

/// The tree of these events a second behind the last, without colours, with the spinner at rest.
fn shown_in(width: usize, height: usize, kinds: Vec<Value>) -> Vec<String> {
    let now = Timestamp::from_second(kinds.len() as i64).unwrap();
    let mut tree = RunTree::default();
    events(kinds).iter().for_each(|event| tree.apply(event));
    let lines = tree.lines(width, height, now);
    let at_rest = |line: &String| strip_str(line).to_string().replace(SPINNER, "⠋");
    lines.iter().map(at_rest).collect()
}

fn shown(kinds: Vec<Value>) -> Vec<String> {
    shown_in(200, 100, kinds)
}

fn started(step: &str, kind: &str) -> Value {
    json!({"type": "step_started", "step": step, "kind": kind})
}

fn finished(step: &str) -> Value {
    json!({"type": "step_finished", "step": step, "outputs": {"x": 1}, "duration_ms": 120})
}

fn failed(step: &str) -> Value {
    let error = json!({
        "code": "A2S357", "step": step, "message": "no luck", "hint": "", "repeat_safe": true,
    });
    json!({"type": "step_failed", "step": step, "error": error, "duration_ms": 65_000})
}

fn decided(step: &str, phase: &str, decision: &str) -> Value {
    json!({
        "type": "decided", "step": step, "execution_id": NIL,
        "decision": {"phase": phase, "decision": decision, "source": "guardian", "message": ""},
    })
}

fn sending(step: &str, attempt: u32) -> Value {
    json!({
        "type": "sending", "step": step, "execution_id": NIL, "attempt": attempt,
        "method": "GET", "url": "https://api.example/x",
        "request_digest": a2s::Digest::of_bytes(b""), "repeat_safe": true,
    })
}

#[test]
fn steps_stand_below_one_another_with_what_became_of_them() {
    let uses = json!({"name": "Inner", "version": "1.0.0", "checksum": a2s::Digest::of_bytes(b"")});
    let capability =
        json!({"type": "step_started", "step": "use", "kind": "capability", "capability": uses});
    let kinds = vec![
        capability,
        started("use/get", "task"),
        decided("use/get", "request", "allow"),
        sending("use/get", 1),
        json!({"type": "retrying", "step": "use/get", "attempt": 1, "reason": "status 503", "pause_ms": 250}),
        sending("use/get", 2),
        json!({"type": "received", "step": "use/get", "attempt": 2, "status": 200, "bytes": 1, "duration_ms": 1}),
        json!({"type": "warned", "step": "use/get", "code": "A2S365", "message": "odd"}),
        decided("use/get", "result", "modify"),
        finished("use/get"),
        finished("use"),
        started("fork", "condition"),
        json!({"type": "branch_taken", "step": "fork", "value": true}),
        json!({"type": "step_skipped", "step": "fork/no", "reason": "`x` is true"}),
        started("fork/yes", "task"),
        failed("fork/yes"),
        json!({"type": "error_handled", "step": "fork/yes", "handler": "continue"}),
        started("fork/last", "task"),
        decided("fork/last", "request", "allow"),
        sending("fork/last", 1),
    ];
    assert_eq!(
        shown(kinds.clone()),
        [
            "  ✓ use  Inner 1.0.0  120 ms",
            "    ✓ get  task  120 ms  2 attempts  allow  result modify",
            "      ! A2S365 odd",
            "  ⠋ fork  condition is true  9 s",
            "    ○ no  skipped: `x` is true",
            "    ✗ yes  task  1 min 5 s  A2S357 no luck  ignored",
            "    ⠋ last  task  3 s  allow  GET https://api.example/x",
        ]
    );
    // While it happens.
    assert_eq!(
        shown(kinds[..5].to_vec())[1],
        "    ⠋ get  task  4 s  allow  again in 250 ms: status 503"
    );
    let waits = json!({"type": "throttled", "step": "fork/last", "host": "api.example", "reason": "rate", "wait_ms": 40});
    let waits = shown(kinds.iter().cloned().chain([waits]).collect());
    assert_eq!(waits[6], "    ⠋ last  task  4 s  allow  waits 40 ms for a free slot: api.example");
    // What never told how it ended.
    let over = json!({"type": "run_finished", "status": "cancelled", "duration_ms": 9});
    let over = shown(kinds.into_iter().chain([over]).collect());
    assert_eq!(over[3], "  ■ fork  condition is true");
}

/// A step over 1,000 items, of which these have begun, ended and failed.
fn looping(begun: usize, ended: usize, failing: usize) -> Vec<Value> {
    let mut kinds = vec![
        started("each", "task"),
        json!({"type": "items_taken", "step": "each", "items": 1_000}),
    ];
    for index in 0..begun {
        let path = format!("each[{index}]");
        kinds.push(started(&path, "sequence"));
        kinds.push(started(&format!("{path}/get"), "task"));
        if index < failing {
            kinds.push(failed(&path));
        } else if index < ended {
            kinds.push(finished(&format!("{path}/get")));
            kinds.push(finished(&path));
        }
    }
    kinds
}

#[test]
fn iterations_are_counted_and_those_under_way_are_shown() {
    let lines = shown(looping(1_000, 998, 0));
    assert_eq!(
        lines,
        [
            "  ⠋ each  task  998/1000  3998 s",
            "    ⠋ each[998]  sequence  4 s",
            "      ⠋ get  task  3 s",
            "    ⠋ each[999]  sequence  2 s",
            "      ⠋ get  task  1 s",
        ]
    );
    let failing = shown(looping(30, 30, 20));
    assert!(failing[0].contains("30/1000  20 failed"), "{failing:#?}");
    assert_eq!(failing.iter().filter(|line| line.contains("✗ each[")).count(), MAX_FAILED);
    // What is not shown is not kept either.
    let mut tree = RunTree::default();
    events(looping(1_000, 1_000, 900)).iter().for_each(|event| tree.apply(event));
    assert!(tree.steps.len() < 20, "{}", tree.steps.len());
}

#[test]
fn a_tree_that_is_too_high_shows_where_something_happens() {
    let many =
        (0..40).flat_map(|n| [started(&format!("s{n}"), "task"), finished(&format!("s{n}"))]);
    let kinds: Vec<Value> = [started("first", "task")].into_iter().chain(many).collect();
    assert_eq!(
        shown_in(80, 5, kinds.clone()),
        [
            "  … 37 more",
            "  ⠋ first  task  81 s",
            "  ✓ s37  task  120 ms",
            "  ✓ s38  task  120 ms",
            "  ✓ s39  task  120 ms",
        ]
    );
    for height in 0..60 {
        assert!(shown_in(80, height, kinds.clone()).len() <= height, "{height}");
    }
    assert_eq!(shown_in(80, 41, kinds).len(), 41);
}

#[test]
fn no_line_is_wider_than_the_terminal_or_does_anything_to_it() {
    let evil = "wide 東京 \u{1b}[2J\u{1b}]0;x\u{7} \u{202e} and\nmore";
    let kinds = vec![started(evil, evil), failed(evil), started(&format!("{evil}/b"), "task")];
    for width in 0..40 {
        let mut tree = RunTree::default();
        events(kinds.clone()).iter().for_each(|event| tree.apply(event));
        for line in tree.lines(width, 9, Timestamp::UNIX_EPOCH) {
            assert!(console::measure_text_width(&line) <= width, "{width}: {line:?}");
            let bare = strip_str(&line).to_string();
            assert!(!bare.chars().any(|c| c.is_control() || c == '\u{202e}'), "{line:?}");
            // Styles and nothing else.
            let codes = line.matches('\u{1b}').count();
            assert_eq!(codes, line.matches("\u{1b}[").count(), "{line:?}");
            assert!(!line.contains("[2J") || bare.contains("␛[2J"), "{line:?}");
        }
    }
}

#[test]
fn events_of_unknown_steps_show_nothing() {
    assert_eq!(shown(vec![finished("a"), failed("b[0]"), sending("c", 1)]), [""; 0]);
}

#[test]
fn several_guardians_are_told_apart() {
    let by = |guardian: &str, phase: &str, decision: &str, source: &str| {
        let mut event = decided("get", phase, decision);
        event["decision"]["guardian"] = json!(guardian);
        event["decision"]["source"] = json!(source);
        event
    };
    let begun = |guardians: &[&str]| {
        let pin =
            json!({"name": "Top", "version": "1.0.0", "checksum": a2s::Digest::of_bytes(b"")});
        let guarding =
            guardians.iter().map(|name| json!({"guardian": name, "fail_mode": "closed"}));
        json!({
            "type": "run_started", "capability": pin, "dependencies": [], "inputs": {},
            "session": "s", "guardians": guarding.collect::<Vec<_>>(), "upstreams": {},
        })
    };
    let kinds = |guardians: &[&str]| {
        vec![
            begun(guardians),
            started("get", "task"),
            by("company", "request", "allow", "guardian"),
            by("team", "request", "allow", "failed_open"),
            by("company", "result", "allow", "guardian"),
            by("team", "result", "deny", "guardian"),
        ]
    };
    assert_eq!(
        shown(kinds(&["company", "team"])),
        ["  ⠋ get  task  5 s  allow by company  allow by team (failed open)  result deny by team"]
    );
    assert_eq!(
        shown(kinds(&["company"])),
        ["  ⠋ get  task  5 s  allow  allow (failed open)  result deny"]
    );
}
