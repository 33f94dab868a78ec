//! A guardian in the process that responds before its records are durable.

use std::fmt;
use std::sync::{Arc, Mutex};

use a2s_api::RunStatus;
use aos::{FlushFuture, InProcessGuardian, VerdictFuture};
use serde_json::{Value, json};
use test_support::rpc_result;
use tokio::sync::Semaphore;

use super::guardian::publish;
use super::world::{ServiceDouble, World, allow, events, read, run, start, until_recorded};
use crate::{GuardianConfig, GuardianSettings};

/// A guardian that allows everything, and notes how it was called.
struct EarlyGuardian {
    service: Arc<ServiceDouble>,
    calls: Mutex<Vec<String>>,
    /// A flush takes one.
    flushes: Semaphore,
    is_durable: bool,
}

impl fmt::Debug for EarlyGuardian {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EarlyGuardian").field("calls", &self.calls).finish_non_exhaustive()
    }
}

impl EarlyGuardian {
    fn new(world: &mut World, flushes: usize, is_durable: bool) -> Arc<Self> {
        let guardian = Arc::new(Self {
            service: Arc::clone(&world.service),
            calls: Mutex::default(),
            flushes: Semaphore::new(flushes),
            is_durable,
        });
        let config = GuardianConfig::in_process(guardian.clone());
        world.config.guardian = GuardianSettings::Chain(vec![config]);
        guardian
    }

    fn note(&self, call: String) {
        self.calls.lock().unwrap().push(call);
    }

    fn respond(&self, how: &str, message: &[u8]) -> VerdictFuture<'_> {
        let question: Value = serde_json::from_slice(message).unwrap();
        self.note(format!("{how} {}", question["method"].as_str().unwrap()));
        let response = rpc_result(&question, allow()).0.to_string().into_bytes();
        Box::pin(async move { response })
    }
}

impl InProcessGuardian for EarlyGuardian {
    fn respond(&self, message: Vec<u8>) -> VerdictFuture<'_> {
        Self::respond(self, "recorded", &message)
    }

    fn respond_early(&self, message: Vec<u8>) -> VerdictFuture<'_> {
        Self::respond(self, "early", &message)
    }

    fn flush(&self) -> FlushFuture<'_> {
        Box::pin(async {
            self.flushes.acquire().await.unwrap().forget();
            self.note(format!("flushed, {} POST requests sent", self.service.count("POST /say")));
            self.is_durable
        })
    }
}

#[tokio::test]
async fn a_request_with_an_effect_waits_for_both_logs_at_once() {
    let mut world = World::new().await;
    let guardian = EarlyGuardian::new(&mut world, 0, true);
    publish(&world);
    let app = world.open().await;
    let id = start(&app, "Two", json!({"word": "x"})).await;
    // The journal does not wait for the guardian.
    until_recorded(&app, id, "POST /say", 1).await;
    guardian.flushes.add_permits(1);
    world.service.arrived("POST /say", 1).await;
    guardian.flushes.add_permits(1);
    events(&app, id).await;
    assert_eq!(read(&app, id).await.status, RunStatus::Succeeded);
    let (request, result) = ("early steps/toolCallRequest", "early steps/toolCallResult");
    let expected = [
        request,
        result,
        request,
        "flushed, 0 POST requests sent",
        result,
        "flushed, 1 POST requests sent",
    ];
    assert_eq!(*guardian.calls.lock().unwrap(), expected);
}

#[tokio::test]
async fn what_a_guardian_cannot_record_is_not_sent() {
    let mut world = World::new().await;
    EarlyGuardian::new(&mut world, 10, false);
    publish(&world);
    let app = world.open().await;
    let run = run(&app, "Two", json!({"word": "x"})).await;
    assert_eq!(run.status, RunStatus::Denied);
    let error = run.error.unwrap();
    assert_eq!((error.code.as_str(), error.step.as_deref()), ("A2S342", Some("write")));
    assert!(error.message.contains("cannot record its decisions"), "{}", error.message);
    assert!(error.repeat_safe, "only a read was sent");
    assert_eq!(world.service.count("POST /say"), 0);
}
