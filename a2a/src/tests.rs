//! A guardian for tests, which answers as a function says.

use agent::{ClockAndIds, Guard};
use aos::{GuardianChain, GuardianClient, Options};
use serde_json::Value;
use test_support::serve_guardian;
use uuid::Uuid;

/// The result that the guardian gives for a request.
pub(crate) type Answer = fn(Value) -> Value;

/// Returns a guard with a guardian that answers like this, until the test is over.
pub(crate) async fn guard(answer: Answer) -> Guard {
    let client = GuardianClient::new(serve_guardian(answer).await, Options::default()).unwrap();
    let time = "2026-01-02T03:04:05Z".parse().unwrap();
    let clock = ClockAndIds::new(move || time, || Uuid::from_u128(7));
    Guard::new(Some(GuardianChain::new("stand-in", client)), clock)
}
