//! AOS, the guardian protocol: an agent asks before and after each step, and a guardian decides.
//!
//! An agent sends the step as a JSON-RPC request over HTTP, and gets `allow`, `deny` or `modify`. This
//! crate has the messages ([`message`]) and the agent's side of the conversation ([`GuardianClient`] for
//! one guardian, [`GuardianChain`] for several). A guardian reads with [`message::Request::from_slice`] and
//! responds with [`message::Response`]; a guardian in the process of its agent is an [`InProcessGuardian`].
//! The crate follows version 0.1.0 of the AOS text. It writes messages that the JSON Schema accepts, and
//! reads every form that the text, the schema and the examples show.
//!
//! # Example: ask before a tool is called
//!
//! ```
//! use aos::message::{
//!     Agent, AgentProvider, Request, Session, StepContext, ToolArgumentValue, ToolCallRequest, ToolCallRequestStep,
//! };
//! use aos::{GuardianClient, Options, VerdictSource, Verdict};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let provider = AgentProvider::new("Example".into(), "https://example.org".into());
//! let agent = Agent::new(
//!     "agent-1".into(),
//!     "Travel desk".into(),
//!     "Book what people ask for.".into(),
//!     "1.0.0".into(),
//!     provider,
//!     "https://agent.example.org".into(),
//! );
//! let now = "2026-01-02T03:04:05Z".parse()?;
//! let context = StepContext::new(agent, Session::new("session-1".into()), "turn-1", "step-1", now);
//! let inputs = vec![ToolArgumentValue::new("city".into(), "Paris".into())];
//! let call = ToolCallRequest::new("execution-1".into(), "weather".into(), inputs);
//! let question = Request::new("question-1", ToolCallRequestStep::new(context, call));
//!
//! // No server listens on port 1: the guardian cannot be reached, so the step is denied.
//! let guardian = GuardianClient::new("http://127.0.0.1:1/aos".parse()?, Options::default())?;
//! let outcome = guardian.ask(&question).await;
//! assert_eq!(outcome.verdict, Verdict::Deny);
//! assert!(matches!(outcome.origin, VerdictSource::FailedClosed(_)));
//! assert_eq!(outcome.reason_codes, ["guardian_unreachable"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Example: respond as a guardian
//!
//! ```
//! use aos::message::{DecisionResponse, ResponseBody, MethodCall, Decision, Limits, Request, Response};
//!
//! fn judge(bytes: &[u8]) -> Vec<u8> {
//!     let response = match Request::from_slice(bytes, Limits::default()) {
//!         Err(rejection) => rejection.to_response(),
//!         Ok(request) => {
//!             let answer = match &request.call {
//!                 MethodCall::ToolCallRequest(step) if step.tool_call_request.tool_id == "shell" => {
//!                     DecisionResponse::new(Decision::Deny, "The shell is not allowed.")
//!                 }
//!                 _ => DecisionResponse::new(Decision::Allow, "No rule is against it."),
//!             };
//!             Response { id: Some(request.id), body: ResponseBody::Decision(answer) }
//!         }
//!     };
//!     response.to_vec()
//! }
//!
//! let answer = judge(br#"{"jsonrpc":"2.0","id":1,"method":"steps/none","params":{}}"#);
//! assert_eq!(
//!     answer,
//!     br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found","data":null}}"#
//! );
//! ```
//!
//! # Design
//!
//! **A verdict is always one of three.** One place turns a guardian that is silent, broken or not
//! understood into a deny, or by configuration into an allow; [`GuardianOutcome::origin`] records it. A
//! response that cannot be followed never becomes an allow, and neither does a failure that the step itself
//! could cause ([`GuardianError::can_fail_open`]).
//!
//! **A modification cannot change the subject.** [`Verdict::Modify`] holds the question, in which only the
//! part that the hook covers is replaced.
//!
//! **No member is lost.** Members that this crate does not know are kept in `extra` and written back.

pub mod message;

mod client;

pub use client::{
    BearerToken, BuildError, ChainVerdict, ClientIdentity, FailMode, FlushFuture, GuardianChain,
    GuardianClient, GuardianError, GuardianOutcome, InProcessGuardian, Options, TrustRoots,
    Verdict, VerdictFuture, VerdictSource,
};
