//! One turn of a conversation, from what somebody says to what is answered.

mod candidate_search;
mod compose_chain;
mod consent;
mod delegate;
mod execute_candidate;
mod intent;
pub(crate) mod parse_reply;
mod reply_text;
pub(crate) mod waiting;

use std::sync::Arc;

use a2s::Document;
use a2s::api::{
    AgentDelegation, AgentEvent, AgentQuestion, AgentRequest, AgentResponse, AgentRun, AgentStatus,
    CapabilityRef, Consent, DelegationResult, GuardianDecision, NearMiss, SkippedCandidate,
};
use aos::message::Role;
use serde_json::Value;
use uuid::Uuid;

use self::candidate_search::{Found, Task};
use self::execute_candidate::{Attempt, Prepared, Preparing};
use self::intent::Wish;
use crate::agent::{Agent, MAX_MESSAGE, MAX_SESSION};
use crate::error::Error;
use crate::guard::{Denied, GuardContext, GuardOutcome};
use crate::state_store::StateStore;

/// A turn that is being taken.
struct Turn<'a> {
    agent: &'a Agent,
    store: &'a dyn StateStore,
    tell: &'a mut (dyn FnMut(AgentEvent) + Send),
    session: String,
    id: Uuid,
    /// The same, as guardians see it.
    turn: String,
    /// Why actions run without a question; none when they do not.
    consent: Option<Consent>,
    /// The same, once some have.
    unconfirmed: Option<Consent>,
    runs: Vec<AgentRun>,
    skipped: Vec<SkippedCandidate>,
    /// The capabilities that were chosen and not run.
    not_started: Vec<CapabilityRef>,
    delegated: Option<DelegationResult>,
    /// What was fetched so far, by its source and pin.
    documents: Vec<(usize, CapabilityRef, Arc<Document>)>,
}

/// How a turn ends, before the guardians have read what is said.
struct Ending {
    status: AgentStatus,
    message: String,
    question: Option<AgentQuestion>,
    nearest: Vec<NearMiss>,
}

impl Ending {
    fn new(status: AgentStatus, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), question: None, nearest: Vec::new() }
    }
}

/// Takes a turn.
///
/// # Errors
/// The request cannot be used, or nobody answers who is needed.
pub(crate) async fn take(
    agent: &Agent,
    request: AgentRequest,
    store: &dyn StateStore,
    tell: &mut (dyn FnMut(AgentEvent) + Send),
) -> Result<AgentResponse, Error> {
    check(&request)?;
    let session = request.session.clone().unwrap_or_else(|| agent.outside.new_id().to_string());
    let given = request.consent.is_some().then_some(Consent::Given);
    let consent = agent.consent_off.then_some(Consent::Off).or(given);
    let mut turn = Turn { consent, ..Turn::new(agent, store, tell, session) };
    let ending = turn.go(request).await?;
    let answer = turn.answer(ending).await;
    (turn.tell)(AgentEvent::Response(Box::new(answer.clone())));
    Ok(answer)
}

fn check(request: &AgentRequest) -> Result<(), Error> {
    let asked = request.pending.as_ref().is_some_and(|pending| !pending.missing.is_empty());
    let answers_by_name = asked && !request.inputs.is_empty();
    if request.message.trim().is_empty() && !answers_by_name {
        return Err(Error::BadRequest("`message` says nothing".to_owned()));
    }
    if request.message.len() > MAX_MESSAGE {
        let length = request.message.len();
        return Err(Error::BadRequest(format!(
            "`message` has {length} bytes; at most are {MAX_MESSAGE}"
        )));
    }
    let pending = request.pending.as_ref();
    if pending.is_some_and(|pending| pending.query.len() > MAX_MESSAGE) {
        return Err(Error::BadRequest("`pending` has a query that nobody has sent".to_owned()));
    }
    if request.consent == Some(Consent::Off) {
        return Err(Error::BadRequest("`consent` is `given`, or is left out".to_owned()));
    }
    let is_session = |name: &String| {
        (1..=MAX_SESSION).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic())
    };
    if request.session.as_ref().is_some_and(|name| !is_session(name)) {
        return Err(Error::BadRequest(format!(
            "`session` has 1 to {MAX_SESSION} visible ASCII characters"
        )));
    }
    Ok(())
}

/// Why a turn goes no further: it is over, or it cannot be taken.
enum Stop {
    Over(Box<Ending>),
    Error(Error),
}

impl From<Ending> for Stop {
    fn from(ending: Ending) -> Self {
        Self::Over(Box::new(ending))
    }
}

impl<E: Into<Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

impl<'a> Turn<'a> {
    fn new(
        agent: &'a Agent,
        store: &'a dyn StateStore,
        tell: &'a mut (dyn FnMut(AgentEvent) + Send),
        session: String,
    ) -> Self {
        let id = agent.outside.new_id();
        Self {
            agent,
            store,
            tell,
            session,
            id,
            turn: id.to_string(),
            consent: None,
            unconfirmed: None,
            runs: Vec::new(),
            skipped: Vec::new(),
            not_started: Vec::new(),
            delegated: None,
            documents: Vec::new(),
        }
    }
}

impl Turn<'_> {
    async fn go(&mut self, request: AgentRequest) -> Result<Ending, Error> {
        match self.go_on(request).await {
            Ok(ending) => Ok(ending),
            Err(Stop::Over(ending)) => Ok(*ending),
            Err(Stop::Error(error)) => Err(error),
        }
    }

    async fn go_on(&mut self, mut request: AgentRequest) -> Result<Ending, Stop> {
        let heard = self.hear(&mut request).await?;
        if request.pending.is_some() && parse_reply::is_refusal(&heard) {
            return Ok(Ending::new(AgentStatus::Cancelled, "All right, nothing is run."));
        }
        let (strategy, filters) = (request.strategy.clone(), request.filters.clone());
        let mut wish = Wish::of(heard, request);
        self.understand(&mut wish).await;
        let found = self.find(&wish, strategy, filters).await?;
        let Found { tasks, nearest } =
            found.map_err(|denial| denied("I may not use what I have found", &denial))?;
        if tasks.is_empty() {
            if let Some(ending) = self.delegate(&wish).await {
                return Ok(ending);
            }
            let message = reply_text::nothing_fits(&nearest);
            return Ok(Ending { nearest, ..Ending::new(AgentStatus::NothingFits, message) });
        }
        let tasks = self.chain(tasks, &wish).await?;
        let prepared = self.prepare_all(tasks, &wish).await?;
        self.confirm(&prepared, &wish)?;
        let mut prepared = prepared.into_iter();
        while let Some((first, rest)) = prepared.next() {
            match self.do_one(first, rest, &wish).await {
                Ok(()) => {}
                // The answer to a question begins the turn anew, with all that it is for.
                Err(Stop::Over(ending)) if ending.question.is_none() => {
                    self.not_started = prepared.map(|(ready, _)| ready.pin().clone()).collect();
                    let message =
                        reply_text::not_started(ending.message.clone(), &self.not_started);
                    return Err(Ending { message, ..*ending }.into());
                }
                Err(stop) => return Err(stop),
            }
        }
        let message = self.tell_results(&wish).await;
        Ok(Ending::new(AgentStatus::Completed, message))
    }

    /// The best candidate of each task, with all that it needs. Whatever is lacking is asked for
    /// before anything is run: else an answer would begin the turn anew, and what was done would be
    /// done twice.
    async fn prepare_all(
        &mut self,
        tasks: Vec<Task>,
        wish: &Wish,
    ) -> Result<Vec<(Prepared, Task)>, Stop> {
        let mut prepared = Vec::with_capacity(tasks.len());
        for mut task in tasks {
            let before = self.skipped.len();
            let ready = self.next(&mut task, wish).await?;
            if before < self.skipped.len() && ready.reach.changes {
                return Err(self.ask_consent(&ready, wish).into());
            }
            prepared.push((ready, task));
        }
        Ok(prepared)
    }

    /// Asks for a yes to all actions that are not known to be read-only, unless the wish comes with
    /// one, or none is wanted.
    fn confirm(&mut self, prepared: &[(Prepared, Task)], wish: &Wish) -> Result<(), Stop> {
        let acting = prepared.iter().filter(|(prepared, _)| prepared.action.is_some());
        let acting: Vec<&Prepared> = acting.map(|(prepared, _)| prepared).collect();
        let Some(first) = acting.first() else { return Ok(()) };
        let actions: Vec<_> = acting.iter().filter_map(|it| it.action.clone()).collect();
        let digest = consent::digest(&actions);
        if wish.confirmed == Some(digest) {
            return Ok(());
        }
        if self.consent.is_some() {
            let capabilities = actions.into_iter().map(|action| action.capability).collect();
            self.go_unconfirmed(capabilities, None);
            return Ok(());
        }
        let message = reply_text::actions(&actions);
        let mut question = first.question(wish);
        question.actions = actions;
        question.pending.consent = Some(digest);
        for other in acting.iter().skip(1) {
            for (name, value) in other.question(wish).pending.inputs {
                question.pending.inputs.entry(name).or_insert(value);
            }
        }
        let ending = Ending::new(AgentStatus::InputRequired, message);
        Err(Ending { question: Some(question), ..ending }.into())
    }

    /// Says that actions are taken without a question.
    fn go_unconfirmed(
        &mut self,
        capabilities: Vec<CapabilityRef>,
        delegation: Option<AgentDelegation>,
    ) {
        let Some(consent) = self.consent else { return };
        self.unconfirmed = Some(consent);
        (self.tell)(AgentEvent::Unconfirmed { consent, capabilities, delegation });
    }

    /// Runs the best candidate of a task, or the next that may take its place.
    async fn do_one(&mut self, first: Prepared, mut rest: Task, wish: &Wish) -> Result<(), Stop> {
        let reach = first.reach.clone();
        let mut ready = first;
        loop {
            match self.attempt(ready).await? {
                Attempt::Done => return Ok(()),
                Attempt::Ended(status) => {
                    let message = match self.runs.last() {
                        Some(run) if status == AgentStatus::Waiting => reply_text::waits(run),
                        last => reply_text::failed(&self.skipped, last),
                    };
                    return Err(Ending::new(status, message).into());
                }
                Attempt::PassedOver => {}
            }
            ready = self.next(&mut rest, wish).await?;
            // What was not meant at first may do more than was wanted. But a yes begins the turn
            // anew, and would repeat what was done.
            let is_unasked = ready.action.is_some() && self.consent.is_none();
            if is_unasked || ready.reach.goes_beyond(&reach) {
                let nothing_ran = self.runs.is_empty();
                let ending =
                    if nothing_ran { self.ask_consent(&ready, wish) } else { self.nothing_left() };
                return Err(ending.into());
            }
        }
    }

    /// The next candidate that could be run as it is.
    async fn next(&mut self, task: &mut Task, wish: &Wish) -> Result<Prepared, Stop> {
        match self.prepare_next(task, wish).await? {
            Preparing::Ready(ready) => Ok(*ready),
            Preparing::Asks(question) => Err(ask(*question).into()),
            Preparing::Nothing => Err(self.nothing_left().into()),
        }
    }

    fn nothing_left(&self) -> Ending {
        Ending::new(AgentStatus::Failed, reply_text::failed(&self.skipped, None))
    }

    /// Asks whether this one may be used in the place of what was passed over.
    fn ask_consent(&self, prepared: &Prepared, wish: &Wish) -> Ending {
        let message = reply_text::consent(&self.skipped, prepared);
        let question = prepared.question(wish);
        Ending { question: Some(question), ..Ending::new(AgentStatus::InputRequired, message) }
    }

    /// What somebody said, as far as it may be acted on. The wish that a question was about comes
    /// from the caller, too, so the guardians read it again.
    async fn hear(&mut self, request: &mut AgentRequest) -> Result<String, Stop> {
        let said = request.message.trim();
        let guard = &self.agent.guard;
        let guarded = match said {
            // Inputs that were asked for are no words.
            "" => GuardOutcome { decisions: Vec::new(), outcome: Ok(String::new()) },
            _ => guard.message(self.scene("user"), Role::User, said.to_owned()).await,
        };
        let asks_for_a_yes = request.pending.as_ref().is_some_and(|it| it.missing.is_empty());
        let guarded = guarded.without_a_new_yes(|used| {
            asks_for_a_yes && parse_reply::is_consent(used) && !parse_reply::is_consent(said)
        });
        let message = guarded.outcome.as_ref().map_or(said, String::as_str).to_owned();
        let (mut outcome, mut decisions) = (guarded.outcome, guarded.decisions);
        if let (true, Some(pending)) = (outcome.is_ok(), &mut request.pending) {
            let wish = pending.query.clone();
            let guarded = guard.message(self.scene("wish"), Role::User, wish).await;
            decisions.extend(guarded.decisions);
            match guarded.outcome {
                Ok(wish) => pending.query = wish,
                Err(denial) => outcome = Err(denial),
            }
        }
        let (session, turn) = (self.session.clone(), self.id);
        (self.tell)(AgentEvent::Heard { session, turn, message, decisions });
        Ok(outcome.map_err(|denial| denied("I may not act on this", &denial))?)
    }

    fn scene<'s>(&'s self, step: &'s str) -> GuardContext<'s> {
        GuardContext { session: &self.session, turn: &self.turn, step }
    }

    /// Reads what is wanted: by the language model, where there is one that answers.
    async fn understand(&mut self, wish: &mut Wish) {
        let mut by = "patterns".to_owned();
        if let Some(model) = &self.agent.model {
            match model.read_intents(&wish.query).await {
                Ok(intents) => {
                    wish.set_intents(intents);
                    by = model.name().to_owned();
                }
                Err(error) => self.degraded(&error),
            }
        }
        (self.tell)(AgentEvent::Understood { intents: wish.intents.clone(), interpreter: by });
    }

    fn degraded(&mut self, why: &impl ToString) {
        (self.tell)(AgentEvent::Degraded { message: why.to_string() });
    }

    /// What came of it, in words: the language model's, where there is one that answers.
    async fn tell_results(&mut self, wish: &Wish) -> String {
        let plain = reply_text::done(&self.runs);
        let Some(model) = &self.agent.model else { return plain };
        let results: Value = self.runs.iter().filter_map(|run| run.output.clone()).collect();
        match model.phrase(&wish.query, &results).await {
            Ok(message) => message,
            Err(error) => {
                self.degraded(&error);
                plain
            }
        }
    }

    /// The answer, once the guardians have read it.
    async fn answer(&mut self, ending: Ending) -> AgentResponse {
        let Ending { mut status, message, mut question, nearest } = ending;
        let scene = self.scene("agent");
        let guarded = self.agent.guard.message(scene, Role::Agent, message).await;
        let decisions: Vec<GuardianDecision> = guarded.decisions;
        let mut runs = std::mem::take(&mut self.runs);
        let mut delegated = self.delegated.take();
        let message = guarded.outcome.unwrap_or_else(|denial| {
            status = AgentStatus::Denied;
            question = None;
            // What is withheld in words is not told by another name.
            runs.iter_mut().for_each(|run| run.output = None);
            delegated = None;
            format!("My answer is withheld: {denial}")
        });
        AgentResponse {
            session: self.session.clone(),
            turn: self.id,
            status,
            message,
            runs,
            skipped: std::mem::take(&mut self.skipped),
            not_started: std::mem::take(&mut self.not_started),
            delegated,
            question,
            consent: self.unconfirmed,
            nearest,
            decisions,
        }
    }
}

fn denied(what: &str, denial: &Denied) -> Ending {
    Ending::new(AgentStatus::Denied, format!("{what}: {denial}"))
}

fn ask(question: AgentQuestion) -> Ending {
    let message = reply_text::question(&question);
    Ending { question: Some(question), ..Ending::new(AgentStatus::InputRequired, message) }
}
