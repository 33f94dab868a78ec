//! A message in, a decision out, whatever way they travel.

use std::panic::{AssertUnwindSafe, catch_unwind};

use aos::message::{
    Decision, DecisionResponse, ErrorObject, Limits, MethodCall, Object, Ping, Pong, PongStatus,
    Request, RequestId, Response, ResponseBody,
};
use aos::{FlushFuture, InProcessGuardian, VerdictFuture};
use serde_json::json;

use crate::App;
use crate::audit::{AuditRecord, DecidedStep};
use crate::error::RejectionCode;
use crate::policy::{Approval, ApprovalEffect, ParsedTexts, PolicyDecision, is_read_only};

/// The maximum length of a message that is evaluated on the current thread, in bytes. A longer message uses
/// another thread, so that it does not delay others.
const INLINE_BYTES: usize = 32 << 10;

/// The most nesting levels of a message.
const MAX_DEPTH: usize = 64;

impl App {
    /// Evaluates an AOS message, and records the decision before it returns it. `POST /aos` does the same
    /// with a body. For any input the response is one of JSON-RPC.
    pub async fn handle_message(&self, message: impl AsRef<[u8]> + Send + 'static) -> Vec<u8> {
        self.respond_to(message, false).await
    }

    /// Responds to an AOS message. With `waits_itself`, the agent calls [`flush`](Self::flush) before it does
    /// what this allows.
    async fn respond_to(
        &self,
        message: impl AsRef<[u8]> + Send + 'static,
        waits_itself: bool,
    ) -> Vec<u8> {
        let size = message.as_ref().len();
        if self.config.max_body_bytes < size {
            return self.reject(RejectionCode::TooLarge).to_vec();
        }
        // A short message is judged in less time than it takes to hand it over.
        let judged = if size <= INLINE_BYTES {
            evaluate_message(self, message.as_ref())
        } else {
            let app = self.clone();
            let judged =
                tokio::task::spawn_blocking(move || evaluate_message(&app, message.as_ref())).await;
            judged.unwrap_or_else(|_| internal_error(self, None))
        };
        let UnwrittenDecision { request, ruling, entries } = match judged {
            EvaluationResult::Response(response) => return response.to_vec(),
            EvaluationResult::Ping(id, ping) => {
                return self.respond_to_ping(id, &ping).await.to_vec();
            }
            EvaluationResult::AfterWriting(decided) => *decided,
        };
        // An allowed step that changes nothing may begin before its record is on the disk; so may any step
        // whose agent waits for the record itself. Everything that follows from a decision in another way
        // waits: denials, changes, approvals, what uses up a limit.
        let may_precede = self.is_ready()
            && ruling.has_no_consequence()
            && (waits_itself || is_read_only(&request.call));
        let written = if may_precede {
            self.audit.append_soon(entries).await.is_ok()
        } else {
            let written = self.audit.append(entries).await.is_ok();
            self.record_write_result(written);
            written
        };
        let answer = if written {
            self.publish_approval(ruling.effects.approval.as_ref());
            ruling.response
        } else {
            // Nothing comes of it, so nothing is used up by it.
            self.lock_policy_state().undo_effects(&ruling.effects);
            deny(RejectionCode::AuditUnavailable)
        };
        self.metrics.count_decision(request.method(), &answer.decision);
        Response { id: Some(request.id), body: ResponseBody::Decision(answer) }.to_vec()
    }

    /// Responds to a ping, after the withdrawals of approvals that it states. The response has an error
    /// status while the log cannot be written: the agent then sends them again.
    async fn respond_to_ping(&self, id: RequestId, ping: &Ping) -> Response {
        let is_done = self.withdraw_approvals(&ping.withdrawals()).await.is_ok();
        let status =
            if is_done && self.is_ready() { PongStatus::Connected } else { PongStatus::Error };
        let mut pong = Pong::new(status, env!("CARGO_PKG_VERSION").to_owned(), self.now());
        // Lets an agent check whether an earlier decision would be the same now.
        let policy = self.policy().digest().into();
        pong.metadata = Some(Object::from_iter([("policy".to_owned(), policy)]));
        Response { id: Some(id), body: ResponseBody::Pong(pong) }
    }

    /// Returns the response to a message that is not read.
    pub(crate) fn reject(&self, code: RejectionCode) -> Response {
        self.metrics.count_rejection(code);
        let row = code.mapping();
        let error = ErrorObject::standard(row.error, json!({"code": row.name, "reason": row.text}));
        Response { id: None, body: ResponseBody::Error(error) }
    }
}

/// An agent in the same process can call the guardian without a listener.
impl InProcessGuardian for App {
    fn respond(&self, message: Vec<u8>) -> VerdictFuture<'_> {
        Box::pin(self.handle_message(message))
    }

    fn respond_early(&self, message: Vec<u8>) -> VerdictFuture<'_> {
        Box::pin(self.respond_to(message, true))
    }

    fn flush(&self) -> FlushFuture<'_> {
        Box::pin(Self::flush(self))
    }
}

/// The result of evaluating a message.
enum EvaluationResult {
    /// The response can be sent at once.
    Response(Box<Response>),
    /// The agent asks whether the guardian is available, and may withdraw approvals.
    Ping(RequestId, Ping),
    /// The response can be sent after its decision is in the log.
    AfterWriting(Box<UnwrittenDecision>),
}

/// A decision that is not written yet.
struct UnwrittenDecision {
    request: Request,
    ruling: PolicyDecision,
    entries: Vec<AuditRecord>,
}

fn evaluate_message(app: &App, message: &[u8]) -> EvaluationResult {
    let limits = Limits { bytes: app.config.max_body_bytes, depth: MAX_DEPTH };
    let request = match Request::from_slice(message, limits) {
        Ok(request) => request,
        Err(rejection) => {
            app.metrics.count_rejection(RejectionCode::from_jsonrpc_code(rejection.error.code()));
            tracing::debug!(error = %rejection, "the guardian rejected a message");
            return EvaluationResult::Response(Box::new(rejection.to_response()));
        }
    };
    if let MethodCall::Ping(ping) = request.call {
        return EvaluationResult::Ping(request.id, ping);
    }
    // Whatever fails in here, the agent gets a denial: an error would let one that fails open go on.
    let decided = catch_unwind(AssertUnwindSafe(|| decide(app, &request)));
    match decided {
        Ok((ruling, entries)) => {
            EvaluationResult::AfterWriting(Box::new(UnwrittenDecision { request, ruling, entries }))
        }
        Err(_) => internal_error(app, Some(request.id)),
    }
}

fn decide(app: &App, request: &Request) -> (PolicyDecision, Vec<AuditRecord>) {
    let (policy, now) = (app.policy(), app.now());
    let mut opened = ParsedTexts::default();
    let ruling = policy.decide_within(request, &mut opened, &app.policy_state, now);
    let shadow = app.shadow_policy().map(|shadow| {
        let ruling = shadow.decide_within(request, &mut opened, &app.shadow_state, now);
        (ruling, shadow)
    });
    if let Some((would, _)) = &shadow {
        app.metrics.count_shadow(
            request.method(),
            &ruling.response.decision,
            &would.response.decision,
        );
    }
    let shadow = shadow.as_ref().map(|(ruling, policy)| (ruling, policy.as_ref()));
    let step = DecidedStep { request, ruling: &ruling, policy: &policy, shadow };
    let entries = AuditRecord::from_step(now, &step, &mut opened);
    if let Some(ApprovalEffect::Asked(asked)) = &ruling.effects.approval
        && let Some(entry) = entries.last()
    {
        // The approver sees the log entry, which is redacted. If rules have changed the message, they see
        // the changed one.
        let changed = ruling.approved_message.as_deref().map(|request| {
            let step = DecidedStep { request, ..step };
            AuditRecord::from_step(now, &step, &mut opened)
        });
        let entry = changed.as_ref().and_then(|entries| entries.last()).unwrap_or(entry);
        app.lock_policy_state()
            .set_approval(Approval { subject: entry.subject(), ..(**asked).clone() });
    }
    (ruling, entries)
}

fn internal_error(app: &App, id: Option<RequestId>) -> EvaluationResult {
    tracing::error!("the evaluation of a message panicked; the guardian denies the step");
    app.metrics.count_rejection(RejectionCode::Internal);
    EvaluationResult::Response(Box::new(Response {
        id,
        body: ResponseBody::Decision(deny(RejectionCode::Internal)),
    }))
}

fn deny(code: RejectionCode) -> DecisionResponse {
    let row = code.mapping();
    DecisionResponse {
        reason_codes: vec![row.name.to_owned()],
        ..DecisionResponse::new(Decision::Deny, row.text)
    }
}
