//! One turn of a conversation, from the message of the user to the response.

mod candidate_search;
mod compose_chain;
pub(crate) mod consent;
mod delegate;
mod execute_candidate;
mod intent;
mod reply_text;
mod supply;
pub(crate) mod waiting;

use std::sync::Arc;

use a2s::Document;
use a2s_api::{
    AgentCandidate, AgentDelegation, AgentEvent, AgentQuestion, AgentRequest, AgentResponse,
    AgentRun, AgentStatus, CapabilityRef, ConsentSource, DelegationResult, GuardianDecision,
    NearMiss, PendingQuestion, SkippedCandidate,
};
use a2s_intent::reply;
use a2s_intent::small_talk::{SmallTalk, small_talk};
use aos::message::Role;
use serde_json::{Map, Value};
use uuid::Uuid;

use self::candidate_search::{CandidateCapability, CandidateSearchResult, SubTask};
use self::execute_candidate::{AttemptResult, PrepareResult, PreparedRun};
use self::intent::UserIntent;
use crate::agent::{Agent, MAX_MESSAGE_BYTES, MAX_SESSION_CHARS};
use crate::error::Error;
use crate::guard::{GuardContext, GuardDenial, GuardOutcome};
use crate::state_store::StateStore;

/// The maximum number of values of a conversation, and the maximum length of one as JSON, in bytes.
const MAX_REMEMBERED: usize = 50;
const MAX_REMEMBERED_BYTES: usize = 1_000;

/// A turn in progress.
struct AgentTurn<'a> {
    agent: &'a Agent,
    store: &'a dyn StateStore,
    emit: &'a mut (dyn FnMut(AgentEvent) + Send),
    session: String,
    /// Set when the session begins with this turn.
    is_session_new: bool,
    id: Uuid,
    /// The id of the turn as guardians see it.
    turn: String,
    /// The reason why actions run without a question; none when they need one.
    consent: Option<ConsentSource>,
    record: TurnRecord,
    /// The weak matches that the user has accepted, and those of this turn that a question is needed for.
    accepted: Vec<CapabilityRef>,
    offered: Vec<CandidateCapability>,
    /// The documents that were fetched so far, by source and pin.
    documents: Vec<(usize, CapabilityRef, Arc<Document>)>,
}

/// The results of a turn so far.
#[derive(Default)]
struct TurnRecord {
    /// The reason why actions have run without a question; none when no action has.
    unconfirmed: Option<ConsentSource>,
    runs: Vec<AgentRun>,
    skipped: Vec<SkippedCandidate>,
    /// The chosen capabilities that have not run.
    not_started: Vec<CapabilityRef>,
    /// The values of inputs in the conversation, without secrets.
    values: Map<String, Value>,
    delegated: Option<DelegationResult>,
}

impl TurnRecord {
    /// Remembers the values of inputs for later turns, without secrets and without long ones.
    fn remember_values(&mut self, inputs: &Map<String, Value>, secrets: &[String]) {
        let kept = inputs.iter().filter(|(name, value)| {
            !secrets.contains(name) && value.to_string().len() <= MAX_REMEMBERED_BYTES
        });
        self.values.extend(kept.map(|(name, value)| (name.clone(), value.clone())));
        while self.values.len() > MAX_REMEMBERED {
            let first = self.values.keys().next().cloned();
            first.and_then(|first| self.values.shift_remove(&first));
        }
    }
}

/// The end of a turn, before the guardians have read the message.
struct TurnOutcome {
    status: AgentStatus,
    message: String,
    question: Option<AgentQuestion>,
    nearest: Vec<NearMiss>,
}

impl TurnOutcome {
    fn new(status: AgentStatus, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), question: None, nearest: Vec::new() }
    }
}

/// Takes a turn.
///
/// # Errors
/// The request cannot be used, or a service that is needed does not respond.
pub(crate) async fn run_turn(
    agent: &Agent,
    request: AgentRequest,
    store: &dyn StateStore,
    emit: &mut (dyn FnMut(AgentEvent) + Send),
) -> Result<AgentResponse, Error> {
    check_request(&request)?;
    let session = request.session.clone().unwrap_or_else(|| agent.clock.new_id().to_string());
    let given = request.consent.is_some().then_some(ConsentSource::Given);
    let consent = agent.consent_off.then_some(ConsentSource::Off).or(given);
    let is_session_new = request.session.is_none();
    let turn = AgentTurn::new(agent, store, emit, session);
    let mut turn = AgentTurn { consent, is_session_new, ..turn };
    let ending = turn.run(request).await?;
    let answer = turn.finish(ending).await;
    (turn.emit)(AgentEvent::Response(Box::new(answer.clone())));
    Ok(answer)
}

fn check_request(request: &AgentRequest) -> Result<(), Error> {
    let asked = request.pending.as_ref().is_some_and(|pending| !pending.missing.is_empty());
    let answers_by_name = asked && !request.inputs.is_empty();
    if request.message.trim().is_empty() && !answers_by_name {
        return Err(Error::BadRequest("`message` is empty".to_owned()));
    }
    if request.message.len() > MAX_MESSAGE_BYTES {
        let length = request.message.len();
        return Err(Error::BadRequest(format!(
            "`message` has {length} bytes; at most {MAX_MESSAGE_BYTES} are allowed"
        )));
    }
    let pending = request.pending.as_ref();
    if pending.is_some_and(|pending| pending.query.len() > MAX_MESSAGE_BYTES) {
        return Err(Error::BadRequest("`pending` has an invalid query".to_owned()));
    }
    if request.consent == Some(ConsentSource::Off) {
        return Err(Error::BadRequest("`consent` must be `given`, or absent".to_owned()));
    }
    let is_session = |name: &String| {
        (1..=MAX_SESSION_CHARS).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic())
    };
    if request.session.as_ref().is_some_and(|name| !is_session(name)) {
        return Err(Error::BadRequest(format!(
            "`session` must have 1 to {MAX_SESSION_CHARS} visible ASCII characters"
        )));
    }
    Ok(())
}

/// The reason why a turn stops: it is over, or it has an error.
enum TurnStop {
    Over(Box<TurnOutcome>),
    Error(Error),
}

impl From<TurnOutcome> for TurnStop {
    fn from(ending: TurnOutcome) -> Self {
        Self::Over(Box::new(ending))
    }
}

impl<E: Into<Error>> From<E> for TurnStop {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

impl<'a> AgentTurn<'a> {
    fn new(
        agent: &'a Agent,
        store: &'a dyn StateStore,
        emit: &'a mut (dyn FnMut(AgentEvent) + Send),
        session: String,
    ) -> Self {
        let id = agent.clock.new_id();
        Self {
            agent,
            store,
            emit,
            session,
            is_session_new: false,
            id,
            turn: id.to_string(),
            consent: None,
            record: TurnRecord::default(),
            accepted: Vec::new(),
            offered: Vec::new(),
            documents: Vec::new(),
        }
    }
}

impl AgentTurn<'_> {
    async fn run(&mut self, request: AgentRequest) -> Result<TurnOutcome, Error> {
        match self.run_steps(request).await {
            Ok(ending) => Ok(ending),
            Err(TurnStop::Over(ending)) => Ok(*ending),
            Err(TurnStop::Error(error)) => Err(error),
        }
    }

    async fn run_steps(&mut self, mut request: AgentRequest) -> Result<TurnOutcome, TurnStop> {
        let heard = self.read_message(&mut request).await?;
        if request.pending.is_some() && reply::is_refusal(&heard) {
            return Ok(TurnOutcome::new(AgentStatus::Cancelled, "All right, I run nothing."));
        }
        if request.pending.is_none()
            && let Some(talk) = small_talk(&heard)
        {
            let is_cancel = talk == SmallTalk::Cancel;
            let status = if is_cancel { AgentStatus::Cancelled } else { AgentStatus::Completed };
            return Ok(TurnOutcome::new(status, reply_text::small_talk(talk)));
        }
        let (strategy, filters) = (request.strategy.clone(), request.filters.clone());
        self.record.values.clone_from(&request.context);
        let mut intent = UserIntent::from_request(heard, request);
        self.accepted = std::mem::take(&mut intent.accepted);
        self.read_intents(&mut intent).await;
        let found = self.find_candidates(&intent, strategy, filters).await?;
        let CandidateSearchResult { tasks, nearest, language } = found.map_err(|denial| {
            denied_outcome("The guardian does not allow me to use the search results", &denial)
        })?;
        let is_weak = |task: &SubTask| {
            task.candidates.as_slice().first().is_some_and(|first| first.is_weak(&self.accepted))
        };
        if tasks.iter().all(is_weak) {
            // Another agent may do what is only similar here.
            if let Some(ending) = delegate::delegate(self, &intent).await {
                return Ok(ending);
            }
        }
        if tasks.is_empty() {
            let message = reply_text::nothing_fits(&nearest, language.as_deref());
            return Ok(TurnOutcome {
                nearest,
                ..TurnOutcome::new(AgentStatus::NothingFits, message)
            });
        }
        let tasks = compose_chain::propose_chain(self, tasks, &intent).await?;
        self.check_choice(&tasks, &intent)?;
        let prepared = self.prepare_all(tasks, &intent).await?;
        self.check_consent(&prepared, &intent)?;
        self.check_offers(&prepared, &intent)?;
        let mut prepared = prepared.into_iter();
        while let Some((first, rest)) = prepared.next() {
            match self.run_task(first, rest, &intent).await {
                Ok(()) => {}
                // The answer to a question starts the turn again, with all of its tasks.
                Err(TurnStop::Over(ending)) if ending.question.is_none() => {
                    self.record.not_started =
                        prepared.map(|(ready, _)| ready.pin().clone()).collect();
                    let message = reply_text::append_not_started(
                        ending.message.clone(),
                        &self.record.not_started,
                    );
                    return Err(TurnOutcome { message, ..*ending }.into());
                }
                Err(stop) => return Err(stop),
            }
        }
        let message = self.describe_results(&intent).await;
        Ok(TurnOutcome::new(AgentStatus::Completed, message))
    }

    /// The best candidate of each task, with all its inputs. Missing inputs are requested before any run,
    /// because the answer starts the turn again, and runs before it would be repeated.
    async fn prepare_all(
        &mut self,
        tasks: Vec<SubTask>,
        intent: &UserIntent,
    ) -> Result<Vec<(PreparedRun, SubTask)>, TurnStop> {
        let mut prepared = Vec::with_capacity(tasks.len());
        for mut task in tasks {
            let before = self.record.skipped.len();
            let ready = self.next_candidate(&mut task, intent).await?;
            if before < self.record.skipped.len() && ready.effects.changes {
                return Err(self.ask_consent(&ready, intent).into());
            }
            prepared.push((ready, task));
        }
        Ok(prepared)
    }

    /// Asks for confirmation of all actions that are not known to be read-only, unless the request confirms
    /// them or confirmation is off.
    fn check_consent(
        &mut self,
        prepared: &[(PreparedRun, SubTask)],
        intent: &UserIntent,
    ) -> Result<(), TurnStop> {
        let acting = prepared.iter().filter(|(prepared, _)| prepared.action.is_some());
        let acting: Vec<&PreparedRun> = acting.map(|(prepared, _)| prepared).collect();
        let Some(first) = acting.first() else { return Ok(()) };
        let digest = consent::digest(acting.iter().filter_map(|it| it.action.as_ref()));
        let actions = acting.iter().filter_map(|it| it.action.as_ref());
        let actions: Vec<_> = actions.map(|it| it.action.clone()).collect();
        if intent.confirmed == Some(digest) {
            return Ok(());
        }
        if self.consent.is_some() {
            let capabilities = actions.into_iter().map(|action| action.capability).collect();
            self.report_unconfirmed(capabilities, None);
            return Ok(());
        }
        let message = reply_text::actions(&actions);
        let mut question = first.question(intent);
        question.actions = actions;
        question.pending.consent = Some(digest);
        for other in acting.iter().skip(1) {
            for (name, value) in other.question(intent).pending.inputs {
                question.pending.inputs.entry(name).or_insert(value);
            }
        }
        Err(asking_outcome(message, question).into())
    }

    /// Asks which of two capabilities to use, when both fit equally.
    fn check_choice(&self, tasks: &[SubTask], intent: &UserIntent) -> Result<(), TurnStop> {
        let [task] = tasks else { return Ok(()) };
        let Some([first, second]) = task.equal_candidates().filter(|_| intent.preferred.is_none())
        else {
            return Ok(());
        };
        let choices = [first, second].map(|choice| self.to_event_candidate(choice)).to_vec();
        let pending = PendingQuestion {
            choices: vec![first.pin.clone(), second.pin.clone()],
            ..PendingQuestion::new(intent.query.clone(), None)
        };
        let message = reply_text::choice(&choices);
        let question = AgentQuestion { choices, ..AgentQuestion::new(pending) };
        Err(asking_outcome(message, question).into())
    }

    /// Asks whether the weak matches may be used, when nothing else was asked about them.
    fn check_offers(
        &self,
        prepared: &[(PreparedRun, SubTask)],
        intent: &UserIntent,
    ) -> Result<(), TurnStop> {
        let is_offered = |prepared: &&PreparedRun| {
            self.offered.iter().any(|offered| offered.pin == *prepared.pin())
        };
        let mut weak = prepared.iter().map(|(prepared, _)| prepared).filter(is_offered);
        let Some(first) = weak.next() else { return Ok(()) };
        // The text about the weak matches is added to every question.
        let message = reply_text::WEAK_MATCH_QUESTION.to_owned();
        Err(asking_outcome(message, first.question(intent)).into())
    }

    /// Reports that actions run without a question.
    fn report_unconfirmed(
        &mut self,
        capabilities: Vec<CapabilityRef>,
        delegation: Option<AgentDelegation>,
    ) {
        let Some(consent) = self.consent else { return };
        self.record.unconfirmed = Some(consent);
        (self.emit)(AgentEvent::Unconfirmed { consent, capabilities, delegation });
    }

    /// Runs the best candidate of a task, or the next one that may replace it.
    async fn run_task(
        &mut self,
        first: PreparedRun,
        mut rest: SubTask,
        intent: &UserIntent,
    ) -> Result<(), TurnStop> {
        let reach = first.effects.clone();
        let mut ready = first;
        loop {
            match self.run_candidate(ready).await? {
                AttemptResult::Done => return Ok(()),
                AttemptResult::Ended(status) => {
                    let message = match self.record.runs.last() {
                        Some(run) if status == AgentStatus::Waiting => {
                            reply_text::describe_waiting_run(run)
                        }
                        last => reply_text::describe_failure(&self.record.skipped, last),
                    };
                    return Err(TurnOutcome::new(status, message).into());
                }
                AttemptResult::Skipped => {}
            }
            ready = self.next_candidate(&mut rest, intent).await?;
            // A fallback candidate may do more than was wanted. But a consent would start the turn
            // again, and repeat earlier runs.
            let is_unasked =
                ready.action.is_some() && self.consent.is_none() || !self.offered.is_empty();
            if is_unasked || ready.effects.exceeds(&reach) {
                let nothing_ran = self.record.runs.is_empty();
                let ending = if nothing_ran {
                    self.ask_consent(&ready, intent)
                } else {
                    self.no_candidate_left()
                };
                return Err(ending.into());
            }
        }
    }

    /// Returns the next candidate that can run as it is.
    async fn next_candidate(
        &mut self,
        task: &mut SubTask,
        intent: &UserIntent,
    ) -> Result<PreparedRun, TurnStop> {
        match self.prepare_next(task, intent).await? {
            PrepareResult::Ready(ready) => Ok(*ready),
            PrepareResult::NeedsInput(question) => Err(question_outcome(*question).into()),
            PrepareResult::NoCandidate => Err(self.no_candidate_left().into()),
        }
    }

    fn no_candidate_left(&self) -> TurnOutcome {
        TurnOutcome::new(
            AgentStatus::Failed,
            reply_text::describe_failure(&self.record.skipped, None),
        )
    }

    /// Asks whether this candidate may replace the skipped ones.
    fn ask_consent(&self, prepared: &PreparedRun, intent: &UserIntent) -> TurnOutcome {
        let message = reply_text::consent(&self.record.skipped, prepared);
        asking_outcome(message, prepared.question(intent))
    }

    /// The message of the user, if it may be acted on. The query of a pending question also comes from the
    /// caller, so the guardians read it again.
    async fn read_message(&mut self, request: &mut AgentRequest) -> Result<String, TurnStop> {
        let said = request.message.trim();
        let guard = &self.agent.guard;
        let guarded = match said {
            // Inputs that were asked for are no words.
            "" => GuardOutcome { decisions: Vec::new(), outcome: Ok(String::new()) },
            _ => guard.check_message(self.guard_context("user"), Role::User, said.to_owned()).await,
        };
        let asks_for_a_yes = request.pending.as_ref().is_some_and(|it| it.missing.is_empty());
        let choices = request.pending.iter().flat_map(|pending| &pending.choices);
        let names: Vec<_> = choices.map(|pin| pin.name.as_str()).collect();
        let read_choice = |text: &str| reply::read_choice(text, names.iter().copied());
        let guarded = guarded.without_added_consent(|used| {
            asks_for_a_yes && reply::is_consent(used) && !reply::is_consent(said)
                || read_choice(used).is_some_and(|index| read_choice(said) != Some(index))
        });
        let message = guarded.outcome.as_ref().map_or(said, String::as_str).to_owned();
        let (mut outcome, mut decisions) = (guarded.outcome, guarded.decisions);
        if let (true, Some(pending)) = (outcome.is_ok(), &mut request.pending) {
            let intent = pending.query.clone();
            let guarded = guard.check_message(self.guard_context("wish"), Role::User, intent).await;
            decisions.extend(guarded.decisions);
            match guarded.outcome {
                Ok(intent) => pending.query = intent,
                Err(denial) => outcome = Err(denial),
            }
        }
        let (session, turn) = (self.session.clone(), self.id);
        (self.emit)(AgentEvent::Heard { session, turn, message, decisions });
        Ok(outcome.map_err(|denial| {
            denied_outcome("The guardian does not allow me to do this", &denial)
        })?)
    }

    /// Describes a candidate for events and questions.
    fn to_event_candidate(&self, choice: &CandidateCapability) -> AgentCandidate {
        let source = self.agent.backends.get(choice.source);
        AgentCandidate {
            capability: choice.pin.clone(),
            description: choice.description.clone(),
            score: choice.score,
            strength: choice.strength,
            registry: source.map_or_else(String::new, |source| source.registry.url().to_string()),
        }
    }

    fn guard_context<'s>(&'s self, step: &'s str) -> GuardContext<'s> {
        GuardContext { session: &self.session, turn: &self.turn, step }
    }

    /// Reads the intents: with the language model, if there is one that responds.
    async fn read_intents(&mut self, intent: &mut UserIntent) {
        let mut by = "patterns".to_owned();
        if let Some(model) = &self.agent.model {
            match model.read_intents(&intent.query).await {
                Ok(intents) => {
                    intent.set_intents(intents);
                    by = model.name().to_owned();
                }
                Err(error) => self.report_degraded(&error),
            }
        }
        (self.emit)(AgentEvent::Understood { intents: intent.intents.clone(), interpreter: by });
    }

    fn report_degraded(&mut self, why: &impl ToString) {
        (self.emit)(AgentEvent::Degraded { message: why.to_string() });
    }

    /// Describes the results: with the language model, if there is one that responds.
    async fn describe_results(&mut self, intent: &UserIntent) -> String {
        let plain = reply_text::describe_runs(&self.record.runs);
        let Some(model) = &self.agent.model else { return plain };
        let results: Value = self.record.runs.iter().filter_map(|run| run.output.clone()).collect();
        match model.write_summary(&intent.query, &results).await {
            Ok(message) => message,
            Err(error) => {
                self.report_degraded(&error);
                plain
            }
        }
    }

    /// Creates the response after the guardians have checked its message.
    async fn finish(&mut self, ending: TurnOutcome) -> AgentResponse {
        let TurnOutcome { mut status, mut message, mut question, nearest } = ending;
        if let Some(question) = question.as_mut().filter(|question| question.choices.is_empty()) {
            let offers: Vec<_> = std::mem::take(&mut self.offered);
            question.choices = offers.iter().map(|offer| self.to_event_candidate(offer)).collect();
            question.pending.accepted = std::mem::take(&mut self.accepted);
            question.pending.accepted.extend(offers.into_iter().map(|offer| offer.pin));
            message = reply_text::prepend_offers(&question.choices, message);
        }
        let scene = self.guard_context("agent");
        let guarded = self.agent.guard.check_message(scene, Role::Agent, message).await;
        let decisions: Vec<GuardianDecision> = guarded.decisions;
        let mut record = std::mem::take(&mut self.record);
        let message = guarded.outcome.unwrap_or_else(|denial| {
            status = AgentStatus::Denied;
            question = None;
            // A withheld message must not leave by another field.
            record.runs.iter_mut().for_each(|run| run.output = None);
            record.delegated = None;
            record.values.clear();
            format!("The guardian does not allow my response: {denial}")
        });
        let TurnRecord { unconfirmed: consent, runs, skipped, not_started, values, delegated } =
            record;
        AgentResponse {
            session: self.session.clone(),
            turn: self.id,
            status,
            message,
            runs,
            skipped,
            not_started,
            delegated,
            question,
            consent,
            nearest,
            values,
            decisions,
        }
    }
}

fn denied_outcome(what: &str, denial: &GuardDenial) -> TurnOutcome {
    TurnOutcome::new(AgentStatus::Denied, format!("{what}: {denial}"))
}

fn question_outcome(question: AgentQuestion) -> TurnOutcome {
    asking_outcome(reply_text::question(&question), question)
}

fn asking_outcome(message: String, question: AgentQuestion) -> TurnOutcome {
    TurnOutcome {
        question: Some(question),
        ..TurnOutcome::new(AgentStatus::InputRequired, message)
    }
}
