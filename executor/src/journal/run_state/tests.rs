use a2s_api::{CapabilityRef, WaitReason};
use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;

const STEPS: [&str; 6] = ["a", "a/b", "c", "a[0]", "a[1]", "a[1]/b"];

fn error(kind: ErrorKind, step: Option<&str>, repeat_safe: bool) -> RunError {
    crate::Error::new(kind, "words").to_run_error(step, Some(1), repeat_safe)
}

pub(crate) fn any_kind() -> impl Strategy<Value = EventKind> {
    let step = || prop::sample::select(&STEPS[..]).prop_map(str::to_owned);
    let any_error =
        || (any::<bool>(), prop::sample::select(ErrorKind::ALL), prop::option::of(step()));
    let any_error =
        move || any_error().prop_map(|(safe, kind, step)| error(kind, step.as_deref(), safe));
    prop_oneof![
        Just(EventKind::RunQueued {}),
        Just(EventKind::RunResumed {}),
        step().prop_map(|step| EventKind::StepStarted {
            step,
            kind: "task".to_owned(),
            capability: None
        }),
        (step(), any::<bool>()).prop_map(|(step, value)| EventKind::BranchTaken { step, value }),
        (step(), 0..9_usize).prop_map(|(step, items)| EventKind::ItemsTaken { step, items }),
        (step(), prop::sample::select(&[ErrorHandlerKind::Continue, ErrorHandlerKind::Catch][..]))
            .prop_map(|(step, by)| EventKind::ErrorHandled { step, handler: by }),
        (step(), 1..4_u32, any::<bool>()).prop_map(|(step, attempt, repeat_safe)| sending(
            &step,
            attempt,
            repeat_safe
        )),
        step().prop_map(|step| EventKind::Throttled {
            step,
            host: "a.example".to_owned(),
            reason: WaitReason::Rate,
            wait_ms: Some(1),
        }),
        (step(), any::<bool>()).prop_map(|(step, renewed)| EventKind::TokenRequested {
            step,
            attempt: 1,
            host: "login.example".to_owned(),
            scheme: "flow".to_owned(),
            renewed,
            duration_ms: 1,
            failure: None,
        }),
        step().prop_map(|step| EventKind::SessionOpened {
            step,
            attempt: 1,
            host: "mcp.example".to_owned(),
            revision: Some("2025-11-25".to_owned()),
            duration_ms: 1,
            failure: None,
        }),
        step().prop_map(|step| EventKind::Received {
            step,
            attempt: 1,
            status: 200,
            bytes: 0,
            duration_ms: 1
        }),
        step().prop_map(|step| EventKind::Retrying {
            step,
            attempt: 1,
            reason: String::new(),
            pause_ms: 1
        }),
        step().prop_map(|step| finished(&step)),
        (
            step(),
            prop::sample::select(
                &[StepResolution::Repeat, StepResolution::Skip, StepResolution::Set][..]
            )
        )
            .prop_map(|(step, decision)| EventKind::StepResolved {
                step,
                decision,
                outputs: Map::new(),
                resolved_by: None,
            }),
        step().prop_map(|step| EventKind::StepSkipped { step, reason: String::new() }),
        (step(), any_error()).prop_map(|(step, error)| EventKind::StepFailed {
            step,
            error,
            duration_ms: 1
        }),
        any_error().prop_map(|error| EventKind::RunWaiting { error }),
        prop::option::of(any_error()).prop_map(|error| EventKind::RunFinished {
            status: if error.is_some() { RunStatus::Failed } else { RunStatus::Succeeded },
            output: None,
            error,
            duration_ms: 1,
        }),
    ]
}

/// The beginning of a run of `Dogs` in a session: without inputs, and nobody guards it.
pub(crate) fn started(session: &str) -> EventKind {
    let capability = CapabilityRef {
        name: a2s::CapabilityName::new("Dogs").unwrap(),
        version: "1.0.0".parse().unwrap(),
        checksum: a2s::Digest::of_bytes(b"doc"),
    };
    EventKind::RunStarted(Box::new(RunStarted {
        principal: None,
        capability,
        dependencies: Vec::new(),
        notices: Vec::new(),
        inputs: Map::new(),
        secrets: Vec::new(),
        recalled: BTreeMap::new(),
        trigger: None,
        decisions: Vec::new(),
        session: session.to_owned(),
        guardians: Vec::new(),
        upstreams: BTreeMap::new(),
        plan: None,
        intent: None,
        trace: None,
    }))
}

fn sending(step: &str, attempt: u32, repeat_safe: bool) -> EventKind {
    EventKind::Sending {
        step: step.to_owned(),
        execution_id: Uuid::nil(),
        attempt,
        method: "POST".to_owned(),
        url: "https://api.example/".to_owned(),
        upstream: None,
        request_digest: a2s::Digest::of_bytes(b""),
        repeat_safe,
        redirect: None,
    }
}

fn finished(step: &str) -> EventKind {
    let outputs = json!({"x": 1}).as_object().unwrap().clone();
    EventKind::StepFinished { step: step.to_owned(), outputs, duration_ms: 5 }
}

pub(crate) fn journal(kinds: impl IntoIterator<Item = EventKind>) -> Vec<RunEvent> {
    let kinds = [started("s")].into_iter().chain(kinds).enumerate();
    kinds
        .map(|(index, kind)| RunEvent {
            v: 1,
            seq: index as u64 + 1,
            run: Uuid::from_u128(1),
            at: Timestamp::from_second(index as i64).unwrap(),
            kind,
        })
        .collect()
}

proptest! {
    #[test]
    fn any_prefix_of_any_journal_folds(kinds in prop::collection::vec(any_kind(), 0..40)) {
        let events = journal(kinds);
        prop_assert!(fold_events(&[]).is_none());
        prop_assert!(fold_events(&events[1..]).is_none());
        for end in 1..=events.len() {
            let prefix = &events[..end];
            let run = fold_events(prefix).unwrap();
            let progress = RunProgress::from_events(prefix);
            prop_assert_eq!(RunState::from_events(prefix).unwrap().last(), end as u64);
            prop_assert!(run.steps.len() <= STEPS.len());
            // What is over has no step that still goes on.
            if let EventKind::RunFinished { status, .. } = &prefix[end - 1].kind {
                prop_assert_eq!(run.status, *status);
                let open = run.steps.iter().any(|s| s.status == "running" || s.status == "waiting");
                prop_assert!(!open);
            }
            // What is in doubt and not safe to repeat counts as an effect.
            for step in progress.steps.values() {
                let doubt = step.unconfirmed.as_ref().is_some_and(|doubt| !doubt.repeat_safe);
                prop_assert!(!doubt || step.effects > 0);
            }
        }
    }

    #[test]
    fn events_survive_being_written_and_read(kind in any_kind()) {
        let event = journal([kind]).remove(1);
        let text = serde_json::to_string(&event).unwrap();
        prop_assert_eq!(serde_json::from_str::<RunEvent>(&text).unwrap(), event);
    }
}

/// Whether the step is in doubt after these events, whether it has ended, and how many requests may
/// have had an effect.
#[track_caller]
fn check(kinds: Vec<EventKind>, in_doubt: bool, ended: bool, effects: usize) {
    let progress = RunProgress::from_events(&journal(kinds));
    let step = &progress.steps["a"];
    assert_eq!(step.unconfirmed.is_some(), in_doubt, "{step:?}");
    assert_eq!(step.outputs.is_some() || step.error.is_some(), ended, "{step:?}");
    assert_eq!(progress.count_effects(), effects, "{step:?}");
}

#[test]
fn a_request_is_in_doubt_until_its_step_has_ended() {
    let start = || EventKind::StepStarted {
        step: "a".to_owned(),
        kind: "task".to_owned(),
        capability: None,
    };
    let received = || EventKind::Received {
        step: "a".to_owned(),
        attempt: 1,
        status: 200,
        bytes: 2,
        duration_ms: 3,
    };
    let retrying = || EventKind::Retrying {
        step: "a".to_owned(),
        attempt: 1,
        reason: String::new(),
        pause_ms: 3,
    };
    let failed = |kind, repeat_safe| EventKind::StepFailed {
        step: "a".to_owned(),
        error: error(kind, Some("a"), repeat_safe),
        duration_ms: 1,
    };
    check(vec![start()], false, false, 0);
    check(vec![start(), sending("a", 1, true)], true, false, 0);
    check(vec![start(), sending("a", 1, false)], true, false, 1);
    // An answer whose outputs were not recorded is as good as none.
    check(vec![start(), sending("a", 1, false), received()], true, false, 1);
    check(vec![start(), sending("a", 1, false), received(), finished("a")], false, true, 1);
    // A post is tried again only when nothing of it had left.
    check(vec![start(), sending("a", 1, false), retrying()], false, false, 0);
    check(
        vec![start(), sending("a", 1, false), retrying(), sending("a", 2, false)],
        true,
        false,
        1,
    );
    check(
        vec![start(), sending("a", 1, false), failed(ErrorKind::ConnectFailed, true)],
        false,
        true,
        0,
    );
    check(vec![start(), sending("a", 1, false), failed(ErrorKind::Timeout, false)], false, true, 1);
}

#[test]
fn a_step_shows_how_it_ended() {
    let status = |kind: EventKind| {
        let start = EventKind::StepStarted {
            step: "a".to_owned(),
            kind: "task".to_owned(),
            capability: None,
        };
        fold_events(&journal([start, kind])).unwrap().steps[0].status.clone()
    };
    let failed = |kind| EventKind::StepFailed {
        step: "a".to_owned(),
        error: error(kind, Some("a"), true),
        duration_ms: 1,
    };
    assert_eq!(status(finished("a")), "succeeded");
    assert_eq!(status(failed(ErrorKind::StatusError)), "failed");
    assert_eq!(status(failed(ErrorKind::GuardianDeniedRequest)), "denied");
    assert_eq!(status(failed(ErrorKind::GuardianUnreachable)), "denied");
    assert_eq!(status(failed(ErrorKind::Cancelled)), "cancelled");
    assert_eq!(
        status(EventKind::RunWaiting { error: error(ErrorKind::UnknownOutcome, Some("a"), false) }),
        "waiting"
    );
    assert_eq!(status(EventKind::RunResumed {}), "running");
}
