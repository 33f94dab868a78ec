//! Asks the guardian before and after every tool step, and does what it says.
//!
//! Only this module makes a [`Permitted`], and the data-plane client takes nothing else. A
//! permitted request is always made here, from the very inputs that the guardian was shown or that
//! it gave back: no other value can get the mark. Without a usable answer there is none, unless the
//! configuration lets steps pass, and then the record says so.

mod answer;
mod question;
mod token;

use std::ops::Deref;
use std::sync::Arc;

use a2s::api::{Change, Decision, DecisionSource, Phase, Pin};
use a2s::{Domain, Permission, Place, Task};
use aos::message::{Call, Ping, Request};
use aos::{Bearer, Failure, GuardianClient, Options, Origin, Outcome, Verdict};
use http::HeaderMap;
use indexmap::IndexMap;
use serde_json::Value;
use uuid::{Builder, Uuid};

use crate::access::Access;
use crate::clock::{Clock, Ids};
use crate::config::{FailMode, Guardian};
use crate::error::{Error, Kind};
use crate::request::{self, Contract, PreparedRequest, one_line};
use crate::secrets::{Secrets, restore};
pub(crate) use question::tool_id;

/// The most characters of a guardian's words that are kept.
const MAX_WORDS: usize = 1_000;
/// The most characters of the name of a policy.
const MAX_POLICY: usize = 200;
/// The most reason codes that are kept.
const MAX_REASONS: usize = 16;

/// Something that may be used, because a guardian allowed it or nobody guards.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Permitted<T>(T);

impl<T> Permitted<T> {
    /// The value, without the mark.
    pub(crate) fn into_inner(self) -> T {
        self.0
    }
}

impl Permitted<PreparedRequest> {
    /// The same request with all that it means written out, for a service that asks for that: the
    /// guardian was asked about the task and its inputs, which it does not change.
    pub(crate) fn whole(&self) -> Option<Self> {
        self.0.whole().map(Self)
    }
}

impl<T> Deref for Permitted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The step on whose behalf a guardian is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker<'a> {
    /// The run: the turn, in the guardian's words.
    pub(crate) run: Uuid,
    /// The session.
    pub(crate) session: &'a str,
    /// What request and result are correlated by.
    pub(crate) execution_id: Uuid,
    /// Path of the step in the run: `checkWeather/getWeather`.
    pub(crate) step: &'a str,
    /// The capability whose document has the step.
    pub(crate) capability: &'a Pin,
    /// The capability that the run was started for.
    pub(crate) root: &'a Pin,
    /// What that capability is for.
    pub(crate) description: &'a str,
    /// What its callers must hold.
    pub(crate) permissions: &'a [Permission],
    /// The only hosts that its tasks may address.
    pub(crate) domains: &'a [Domain],
    /// What no guardian is told.
    pub(crate) secrets: &'a Secrets,
    /// The headers of a question that say which span it belongs to.
    pub(crate) trace: &'a HeaderMap,
}

/// The inputs of a task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inputs<'a> {
    /// As they are sent.
    pub(crate) truth: &'a IndexMap<Place, Value>,
    /// As a guardian sees them: the same places, without secrets.
    pub(crate) shown: &'a IndexMap<Place, Value>,
}

/// What came of a question.
#[derive(Debug)]
pub(crate) struct Asked<T> {
    /// For the journal; none only when the inputs fit no request, so that nothing was to be asked.
    pub(crate) decision: Option<Decision>,
    /// What may be used, or why nothing may.
    pub(crate) verdict: Result<Permitted<T>, Error>,
}

/// Why a guardian is asked about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occasion {
    /// The request is about to be sent.
    Run,
    /// Somebody wants to know what it would say; nothing is sent.
    Preview,
}

/// The same as [`Asked`], before anything is permitted.
struct Judged<T> {
    decision: Option<Decision>,
    verdict: Result<T, Error>,
}

impl<T> Judged<T> {
    fn permit(self) -> Asked<T> {
        Asked { decision: self.decision, verdict: self.verdict.map(Permitted) }
    }
}

/// The way to the guardian, if there is one.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    guardian: Option<GuardianClient>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl Gate {
    /// A gate with the guardian of the configuration. Nothing is sent yet.
    ///
    /// # Errors
    /// [`Kind::Configuration`] when its token cannot stand in a header, or no client can be made.
    pub(crate) fn new(
        guardian: &Guardian,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Result<Self, Error> {
        let guardian = match guardian {
            Guardian::Off => None,
            Guardian::At(config) => {
                let bearer = config.token.as_ref().map(|token| {
                    Bearer::new(token.reveal()).ok_or_else(|| {
                        let message = "the guardian's token has characters that no header takes";
                        Error::new(Kind::Configuration, message)
                    })
                });
                let fail_mode = match config.fail {
                    FailMode::Closed => aos::FailMode::Closed,
                    FailMode::Open => aos::FailMode::Open,
                };
                let options = Options {
                    timeout: config.timeout,
                    fail_mode,
                    bearer: bearer.transpose()?,
                    ..Options::default()
                };
                let client = GuardianClient::new(config.url.clone(), options);
                Some(client.map_err(|e| Error::new(Kind::Configuration, e.to_string()))?)
            }
        };
        Ok(Self { guardian, clock, ids })
    }

    /// Asks whether the task of `contract` may be run with `inputs` (`steps/toolCallRequest`), and makes the
    /// request from them, or from those that the guardian wants instead. What the guardian leaves
    /// as it was shown stands for the true value.
    pub(crate) async fn ask_request(
        &self,
        asker: &Asker<'_>,
        contract: &Contract,
        inputs: Inputs<'_>,
    ) -> Asked<PreparedRequest> {
        self.judge_request(asker, contract, inputs, Occasion::Run).await.permit()
    }

    /// Asks the same before there is a run, and says so. What the guardian would permit is not
    /// given, so nothing can be sent of it.
    ///
    /// # Errors
    /// Why the inputs fit no request, so that nothing was to be asked.
    pub(crate) async fn preview_request(
        &self,
        asker: &Asker<'_>,
        contract: &Contract,
        inputs: Inputs<'_>,
    ) -> Result<Decision, Error> {
        let judged = self.judge_request(asker, contract, inputs, Occasion::Preview).await;
        match (judged.decision, judged.verdict) {
            (Some(decision), _) => Ok(decision),
            (None, Err(error)) => Err(error),
            (None, Ok(_)) => Err(Error::new(Kind::Internal, "nobody has decided")),
        }
    }

    async fn judge_request(
        &self,
        asker: &Asker<'_>,
        contract: &Contract,
        inputs: Inputs<'_>,
        occasion: Occasion,
    ) -> Judged<PreparedRequest> {
        let task = contract.task();
        let prepare = |inputs: &IndexMap<Place, Value>| {
            let access = Access::of(task, asker.domains);
            request::prepare(contract, inputs).map(|prepared| prepared.with_access(access))
        };
        let prepared = match prepare(inputs.truth) {
            Ok(prepared) => prepared,
            Err(error) => return Judged { decision: None, verdict: Err(error.into()) },
        };
        let Some(guardian) = &self.guardian else {
            return unguarded(Phase::Request, Ok(prepared));
        };
        let call = question::about_request(asker, task, inputs.shown, occasion, self.clock.now());
        let question = Request::new(self.new_message_id(), call);
        let outcome = guardian.ask_with(&question, asker.trace.clone()).await;
        let mut changes = Vec::new();
        let verdict = match &outcome.verdict {
            Verdict::Allow => Ok(prepared),
            Verdict::Deny => Err(denial(Phase::Request, &outcome)),
            Verdict::Modify(modified) => {
                answer::modified_inputs(inputs.shown, modified).and_then(|(modified, made)| {
                    changes = made;
                    let modified = answer::restore_inputs(inputs, modified)?;
                    prepare(&modified).map_err(|error| {
                        answer::unusable(format_args!("the inputs fit no request: {error}"))
                    })
                })
            }
        };
        judged(Phase::Request, &outcome, changes, verdict)
    }

    /// What the guardian calls the content of its policy, if it tells that: `metadata.policy` of its
    /// answer to a ping.
    pub(crate) async fn policy(&self) -> Option<String> {
        let pong = self.guardian.as_ref()?.ping(self.new_message_id(), Ping::default()).await;
        let policy =
            pong.ok()?.metadata?.get("policy")?.as_str().map(|name| one_line(name, MAX_POLICY));
        policy.filter(|name| !name.is_empty())
    }

    /// Asks whether the result of a task may be used (`steps/toolCallResult`). A failure of the
    /// service is reported too; it stays an error, whatever the guardian says, but the guardian
    /// may change its words.
    pub(crate) async fn ask_result(
        &self,
        asker: &Asker<'_>,
        task: &Task,
        result: Result<Value, Error>,
    ) -> Asked<Value> {
        let Some(guardian) = &self.guardian else {
            return unguarded(Phase::Result, result).permit();
        };
        let shown = match &result {
            Ok(value) => Ok(asker.secrets.mask(value)),
            Err(error) => Err(asker.secrets.mask_error(error.clone())),
        };
        let call = question::about_result(asker, task, &shown, self.clock.now());
        let question = Request::new(self.new_message_id(), call);
        let outcome = guardian.ask_with(&question, asker.trace.clone()).await;
        let mut changes = Vec::new();
        let verdict = match &outcome.verdict {
            Verdict::Allow => result,
            Verdict::Deny => Err(denial(Phase::Result, &outcome)),
            Verdict::Modify(modified) => match answer::modified_result(&shown, modified) {
                Ok((made_of_it, made)) => {
                    changes = made;
                    match (&shown, &result, made_of_it) {
                        (Ok(shown), Ok(truth), Ok(made)) => Ok(restore(shown, truth, made)),
                        (_, _, made) => made,
                    }
                }
                Err(error) => Err(error),
            },
        };
        judged(Phase::Result, &outcome, changes, verdict).permit()
    }

    /// An id for one message, so that its answer is known by it.
    fn new_message_id(&self) -> String {
        Builder::from_random_bytes(self.ids.random()).into_uuid().to_string()
    }
}

fn unguarded<T>(phase: Phase, result: Result<T, Error>) -> Judged<T> {
    let decision = Decision {
        phase,
        decision: "unguarded".to_owned(),
        source: DecisionSource::Unguarded,
        message: "no guardian is configured".to_owned(),
        reason_codes: Vec::new(),
        changes: Vec::new(),
    };
    Judged { decision: Some(decision), verdict: result }
}

/// Why a step that was denied may not go on.
fn denial(phase: Phase, outcome: &Outcome) -> Error {
    let (kind, asked_for) = match phase {
        Phase::Request => (Kind::GuardianDeniedRequest, "the request"),
        Phase::Result => (Kind::GuardianDeniedResult, "the result"),
    };
    let words = one_line(&outcome.message, MAX_WORDS);
    match &outcome.origin {
        Origin::FailedClosed(Failure::Modification(_)) => {
            Error::new(Kind::GuardianModification, words)
        }
        Origin::FailedClosed(_) | Origin::FailedOpen(_) => {
            let effect = match phase {
                Phase::Request => "so nothing was sent",
                Phase::Result => "so the answer of the service is not used",
            };
            Error::new(Kind::GuardianUnreachable, format!("{words}, {effect}"))
        }
        Origin::Guardian => Error::new(kind, format!("the guardian denied {asked_for}: {words}")),
    }
}

/// Puts outcome and verdict together: a decision that cannot be followed is a deny in the record.
fn judged<T>(
    phase: Phase,
    outcome: &Outcome,
    changes: Vec<Change>,
    verdict: Result<T, Error>,
) -> Judged<T> {
    let mut decision = Decision {
        phase,
        decision: outcome.verdict.as_str().to_owned(),
        source: match &outcome.origin {
            Origin::Guardian => DecisionSource::Guardian,
            Origin::FailedClosed(_) => DecisionSource::FailedClosed,
            Origin::FailedOpen(_) => DecisionSource::FailedOpen,
        },
        message: one_line(&outcome.message, MAX_WORDS),
        reason_codes: outcome
            .reason_codes
            .iter()
            .take(MAX_REASONS)
            .map(|c| one_line(c, 100))
            .collect(),
        changes,
    };
    if let Err(error) = &verdict
        && error.kind == Kind::GuardianModification
        && decision.decision == "modify"
    {
        decision.decision = "deny".to_owned();
        decision.message = error.message.clone();
        decision.reason_codes.push("guardian_bad_modification".to_owned());
    }
    Judged { decision: Some(decision), verdict }
}

#[cfg(test)]
mod tests;
