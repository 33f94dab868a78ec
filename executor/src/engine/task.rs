//! A tool step: ask, record, send, ask, use. In this order, always.

use std::sync::atomic::Ordering;

use a2s::api::{Decision, EventKind};
use a2s::{Task, TaskInputs};
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::answer::{Answer, Head};
use super::{Engine, Halt, Stop};
use crate::clock::{execution_id, milliseconds_between};
use crate::error::{Error, Kind};
use crate::gate::{Asker, Permitted};
use crate::outbound::Failure;
use crate::plan::Unit;
use crate::request::{PreparedRequest, RawResponse, read_response};

impl<'r> Engine<'r> {
    /// Runs a task and gives what its outputs are taken from.
    pub(super) async fn run_task(
        &self,
        unit: &'r Unit,
        path: &str,
        task: &'r Task,
        inputs: &'r TaskInputs,
        variables: &Map<String, Value>,
        halt: &Halt,
    ) -> Result<Answer, Stop> {
        let mut values = IndexMap::with_capacity(inputs.len());
        for (place, template) in inputs {
            let value = template.render(variables).map_err(|missing| {
                let error = Error::new(Kind::TemplateError, missing.to_string());
                self.failed(path, &error.at(format_args!("`{place}`")))
            })?;
            values.insert(place.clone(), value);
        }
        let asker = Asker {
            run: self.run,
            session: self.session,
            // The same after a restart and for every attempt: steps do not repeat yet.
            execution_id: execution_id(self.run, path, 0),
            step: path,
            capability: &unit.pin,
            root: &self.plan.root.pin,
            description: &unit.document.capability().description,
        };
        let asked = tokio::select! {
            asked = self.gate.ask_request(&asker, task, &values) => asked,
            why = halt.halted() => return Err(Stop::Halted(why)),
        };
        self.record_decision(&asker, asked.decision);
        let request = asked.verdict.map_err(|error| self.failed(path, &error))?;

        let (outcome, attempt) = self.send(&asker, &request, halt).await?;
        let failed = |error: &Error| {
            let error = error.to_run_error(Some(path), Some(attempt), self.is_repeat_safe());
            Stop::Failed(error)
        };
        let (answer, head) = match outcome {
            Err(failure) => (Err(failure.error), None),
            Ok(response) => {
                let answer = read_response(task, &response).map_err(Error::from);
                (answer, Some(Head { status: response.status, headers: response.headers }))
            }
        };
        // Not cut short by a halt: the request had its effect, and what came of it is recorded.
        let asked = self.gate.ask_result(&asker, task, answer).await;
        self.record_decision(&asker, asked.decision);
        let body = asked.verdict.map(Permitted::into_inner).map_err(|error| failed(&error))?;
        Ok(Answer { body, head })
    }

    /// Sends a request, again where that is safe and of use. Each attempt is on the disk before its
    /// connection is made.
    async fn send(
        &self,
        asker: &Asker<'_>,
        request: &Permitted<PreparedRequest>,
        halt: &Halt,
    ) -> Result<(Result<RawResponse, Failure>, u32), Stop> {
        let path = asker.step;
        let repeat_safe = request.repeat_safe();
        let effect = usize::from(!repeat_safe);
        let mut attempt = self.progress.steps.get(path).map_or(0, |recorded| recorded.attempts);
        loop {
            attempt += 1;
            if let Some(why) = halt.why() {
                return Err(Stop::Halted(why));
            }
            let sending = EventKind::Sending {
                step: path.to_owned(),
                execution_id: asker.execution_id,
                attempt,
                method: request.method().to_string(),
                url: request.url().to_string(),
                upstream: self.outbound.upstream_of(request.url()),
                request_digest: request.digest(),
                repeat_safe,
            };
            self.journal.commit(sending).await.map_err(Stop::Broken)?;
            self.effects.fetch_add(effect, Ordering::Relaxed);
            let began = self.clock.now();
            let outcome = if repeat_safe {
                tokio::select! {
                    outcome = self.outbound.send(request) => outcome,
                    why = halt.halted() => return Err(Stop::Halted(why)),
                }
            } else {
                // Never aborted: the service may be at work already. It has its own timeout.
                self.outbound.send(request).await
            };
            match &outcome {
                Ok(response) => {
                    self.metrics.request_ended(Some(response.status));
                    self.journal.note(EventKind::Received {
                        step: path.to_owned(),
                        attempt,
                        status: response.status,
                        bytes: response.bytes(),
                        duration_ms: milliseconds_between(began, self.clock.now()),
                    });
                }
                Err(failure) => {
                    self.metrics.request_ended(None);
                    if !failure.sent {
                        self.effects.fetch_sub(effect, Ordering::Relaxed);
                    }
                }
            }
            let (now, random) = (self.clock.now(), self.ids.random());
            let pause = self.retries.pause(repeat_safe, attempt, outcome.as_ref(), now, random);
            let Some(pause) = pause else { return Ok((outcome, attempt)) };
            self.journal.note(EventKind::Retrying {
                step: path.to_owned(),
                attempt,
                reason: pause.reason,
                pause_ms: u64::try_from(pause.length.as_millis()).unwrap_or(u64::MAX),
            });
            tokio::select! {
                () = tokio::time::sleep(pause.length) => {}
                why = halt.halted() => return Err(Stop::Halted(why)),
            }
        }
    }

    fn record_decision(&self, asker: &Asker<'_>, decision: Option<Decision>) {
        let Some(decision) = decision else { return };
        self.metrics.decided(&decision);
        self.journal.note(EventKind::Decided {
            step: asker.step.to_owned(),
            execution_id: asker.execution_id,
            decision,
        });
    }
}
