//! AOS, the guardian protocol: an agent asks before and after each step, a guardian decides.
//!
//! An agent sends what it is about to do as a JSON-RPC request over HTTP, and gets `allow`, `deny`
//! or `modify`. This crate has the messages ([`message`]) and the agent's side of the
//! conversation ([`GuardianClient`] for one guardian, [`GuardianChain`] for several); a guardian reads
//! with [`message::Request::from_slice`] and answers with [`message::Response`], and one in the
//! process of its agent is an [`InProcess`]. It follows version 0.1.0 of the text, writes what its
//! JSON Schema accepts, and reads every form that text, schema and examples show.
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
//! // Nobody listens on port 1, so this guardian is silent, and silence is a deny.
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
//! # Example: answer as a guardian
//!
//! ```
//! use aos::message::{Answer, Body, Call, Decision, Limits, Request, Response};
//!
//! fn judge(bytes: &[u8]) -> Vec<u8> {
//!     let response = match Request::from_slice(bytes, Limits::default()) {
//!         Err(rejection) => rejection.to_response(),
//!         Ok(request) => {
//!             let answer = match &request.call {
//!                 Call::ToolCallRequest(step) if step.tool_call_request.tool_id == "shell" => {
//!                     Answer::new(Decision::Deny, "No shell here.")
//!                 }
//!                 _ => Answer::new(Decision::Allow, "Nothing against it."),
//!             };
//!             Response { id: Some(request.id), body: Body::Decision(answer) }
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
//! **A verdict is one of three, always.** A guardian that is silent, broken or not understood is
//! turned into a deny, or by configuration into an allow, in one place; [`Outcome::origin`] says
//! that it was. What a guardian has said and cannot be followed never becomes an allow, and neither
//! does a failure that the step itself could bring about ([`Failure::may_fail_open`]).
//!
//! **A modification is not trusted to stay on the subject.** [`Verdict::Modify`] holds the question
//! with only that part exchanged which the hook covers.
//!
//! **Nothing is lost on the way.** Members that this crate does not know are kept in `extra` and
//! written back.

pub mod message;

mod client;

pub use client::{
    BearerToken, BuildError, ChainVerdict, ClientIdentity, FailMode, GuardianChain, GuardianClient,
    GuardianError, GuardianOutcome, InProcessGuardian, Options, TrustRoots, Verdict, VerdictFuture,
    VerdictSource,
};
