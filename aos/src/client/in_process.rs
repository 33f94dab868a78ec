//! A guardian that is in the process of the agent.

use std::fmt;
use std::pin::Pin;

/// The future response of a guardian.
pub type VerdictFuture<'a> = Pin<Box<dyn Future<Output = Vec<u8>> + Send + 'a>>;

/// The future end of a flush: true when all records of a guardian are durable.
pub type FlushFuture<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// A guardian that needs no network to be asked: it takes what would be the body of a `POST` to it,
/// and gives what would be the body of its response. [`GuardianClient::in_process`] asks it.
///
/// It speaks the protocol like any other: a message of JSON-RPC in, one out, also where it refuses.
/// Its answer is not trusted more than that of another.
///
/// ```
/// use std::sync::Arc;
///
/// use aos::message::{DecisionResponse, ResponseBody, Decision, Limits, Ping, PongStatus, Request, Response};
/// use aos::message::{MethodCall, Pong};
/// use aos::{VerdictFuture, GuardianClient, InProcessGuardian, Options};
///
/// #[derive(Debug)]
/// struct NeverMind;
///
/// impl InProcessGuardian for NeverMind {
///     fn respond(&self, message: Vec<u8>) -> VerdictFuture<'_> {
///         let response = match Request::from_slice(&message, Limits::default()) {
///             Err(rejection) => rejection.to_response(),
///             Ok(Request { id, call: MethodCall::Ping(_) }) => {
///                 let now = "2026-01-02T03:04:05Z".parse().unwrap();
///                 let pong = Pong::new(PongStatus::Connected, "1.0.0".into(), now);
///                 Response { id: Some(id), body: ResponseBody::Pong(pong) }
///             }
///             Ok(Request { id, .. }) => {
///                 let answer = DecisionResponse::new(Decision::Allow, "Never mind.");
///                 Response { id: Some(id), body: ResponseBody::Decision(answer) }
///             }
///         };
///         Box::pin(async move { response.to_vec() })
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let guardian = GuardianClient::in_process(Arc::new(NeverMind), Options::default());
/// let pong = guardian.ping("1", Ping::default()).await?;
/// assert_eq!(pong.status, PongStatus::Connected);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`GuardianClient::in_process`]: super::GuardianClient::in_process
pub trait InProcessGuardian: fmt::Debug + Send + Sync {
    /// Judges a message. There is no time limit for the guardian itself, but the client drops the future
    /// after its timeout.
    fn respond(&self, message: Vec<u8>) -> VerdictFuture<'_>;

    /// Judges a message of an agent that calls [`flush`](Self::flush) before anything comes of the response
    /// that cannot be taken back. So a guardian with a log may respond before its record is durable.
    fn respond_early(&self, message: Vec<u8>) -> VerdictFuture<'_> {
        self.respond(message)
    }

    /// Waits until the records of all its responses are durable. Returns false when that fails: then the
    /// agent must not do what they allow.
    fn flush(&self) -> FlushFuture<'_> {
        Box::pin(std::future::ready(true))
    }
}
