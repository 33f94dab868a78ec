//! A message in, a decision out, whatever way they travel.

use std::panic::{AssertUnwindSafe, catch_unwind};

use aos::message::{
    Answer, Body, Call, Decision, ErrorObject, Id, Limits, Object, Pong, PongStatus, Request,
    Response,
};
use aos::{InProcess, VerdictFuture};
use serde_json::json;

use crate::App;
use crate::audit::{Entry, Step};
use crate::error::Code;
use crate::policy::{Approval, ApprovalTrace, Opened, PolicyDecision};

/// Above this a message is judged on a thread of its own, so that it does not hold up others.
const INLINE_BYTES: usize = 32 << 10;

/// How deep a message may nest.
const MAX_DEPTH: usize = 64;

impl App {
    /// Judge a message of AOS, and record what was decided before it is told: what `POST /aos`
    /// does with a body. Whatever it is given, the answer is one of JSON-RPC.
    pub async fn answer(&self, message: impl AsRef<[u8]> + Send + 'static) -> Vec<u8> {
        let size = message.as_ref().len();
        if self.config.max_body_bytes < size {
            return self.refuse(Code::TooLarge).to_vec();
        }
        // A short message is judged in less time than it takes to hand it over.
        let judged = if size <= INLINE_BYTES {
            judge(self, message.as_ref())
        } else {
            let app = self.clone();
            let judged = tokio::task::spawn_blocking(move || judge(&app, message.as_ref())).await;
            judged.unwrap_or_else(|_| broken(self, None))
        };
        let Decided { request, ruling, entries } = match judged {
            Judged::At(response) => return response.to_vec(),
            Judged::Decided(decided) => *decided,
        };
        let written = self.audit.append(entries).await.is_ok();
        self.note_audit(written);
        let answer = if written {
            self.publish_approval(ruling.traces.approval.as_ref());
            ruling.answer
        } else {
            // Nothing comes of it, so nothing is used up by it.
            self.memory().undo(&ruling.traces);
            deny(Code::AuditUnavailable)
        };
        self.metrics.count_decision(request.method(), &answer.decision);
        Response { id: Some(request.id), body: Body::Decision(answer) }.to_vec()
    }

    /// The answer to a message that is not read.
    pub(crate) fn refuse(&self, code: Code) -> Response {
        self.metrics.count_rejection(code);
        let row = code.row();
        let error = ErrorObject::standard(row.error, json!({"code": row.name, "reason": row.text}));
        Response { id: None, body: Body::Error(error) }
    }
}

/// An agent of the same process need not go through a listener.
impl InProcess for App {
    fn answer(&self, message: Vec<u8>) -> VerdictFuture<'_> {
        Box::pin(self.answer(message))
    }
}

/// What judging a message comes to.
enum Judged {
    /// This is the answer.
    At(Box<Response>),
    /// This is the answer once it is in the log.
    Decided(Box<Decided>),
}

/// A decision that is not written yet.
struct Decided {
    request: Request,
    ruling: PolicyDecision,
    entries: Vec<Entry>,
}

fn judge(app: &App, message: &[u8]) -> Judged {
    let limits = Limits { bytes: app.config.max_body_bytes, depth: MAX_DEPTH };
    let request = match Request::from_slice(message, limits) {
        Ok(request) => request,
        Err(rejection) => {
            app.metrics.count_rejection(Code::of_error(rejection.error.code()));
            tracing::debug!(error = %rejection, "a message is refused");
            return Judged::At(Box::new(rejection.to_response()));
        }
    };
    if let Call::Ping(_) = request.call {
        let status = if app.is_ready() { PongStatus::Connected } else { PongStatus::Error };
        let mut pong = Pong::new(status, env!("CARGO_PKG_VERSION").to_owned(), app.now());
        // So that an agent can tell whether what it was told before would be told again.
        let policy = app.policy().digest().into();
        pong.metadata = Some(Object::from_iter([("policy".to_owned(), policy)]));
        let response = Response { id: Some(request.id), body: Body::Pong(pong) };
        return Judged::At(Box::new(response));
    }
    // Whatever fails in here, the agent gets a denial: an error would let one that fails open go on.
    let decided = catch_unwind(AssertUnwindSafe(|| decide(app, &request)));
    match decided {
        Ok((ruling, entries)) => Judged::Decided(Box::new(Decided { request, ruling, entries })),
        Err(_) => broken(app, Some(request.id)),
    }
}

fn decide(app: &App, request: &Request) -> (PolicyDecision, Vec<Entry>) {
    let (policy, now) = (app.policy(), app.now());
    let mut opened = Opened::default();
    let ruling = policy.decide_within(request, &mut opened, &app.memory, now);
    let shadow = app.shadow_policy().map(|shadow| {
        let ruling = shadow.decide_within(request, &mut opened, &app.shadow_memory, now);
        (ruling, shadow)
    });
    if let Some((would, _)) = &shadow {
        app.metrics.count_shadow(request.method(), &ruling.answer.decision, &would.answer.decision);
    }
    let shadow = shadow.as_ref().map(|(ruling, policy)| (ruling, policy.as_ref()));
    let step = Step { request, ruling: &ruling, policy: &policy, shadow };
    let entries = Entry::of_step(now, &step, &mut opened);
    if let Some(ApprovalTrace::Asked(asked)) = &ruling.traces.approval
        && let Some(entry) = entries.last()
    {
        // Who is asked sees what the log has, which is redacted.
        app.memory().set(Approval { subject: entry.subject(), ..(**asked).clone() });
    }
    (ruling, entries)
}

fn broken(app: &App, id: Option<Id>) -> Judged {
    tracing::error!("judging a message panicked, the step is denied");
    app.metrics.count_rejection(Code::Internal);
    Judged::At(Box::new(Response { id, body: Body::Decision(deny(Code::Internal)) }))
}

fn deny(code: Code) -> Answer {
    let row = code.row();
    Answer { reason_codes: vec![row.name.to_owned()], ..Answer::new(Decision::Deny, row.text) }
}
