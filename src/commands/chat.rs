//! `a2s chat`: a conversation with the agent, in the terminal.

mod lines;
mod view;

use std::path::PathBuf;

use a2s::InputField;
use a2s::api::{
    AgentEvent, AgentQuestion, AgentRequest, AgentResponse, AgentStatus, Consent, Pending,
};
use agent::RemoteAgent;
use serde_json::{Map, Value};
use tokio::signal;

use self::lines::{Line, Lines};
use self::view::View;
use crate::cli::ChatArgs;
use crate::cli_error::{Exit, Failure};
use crate::client::Client;
use crate::commands::search::strategy;
use crate::output::Output;

/// What an empty line says to a question whether something may be done.
const NO: &str = "no";
/// What ends a session.
const ENDS: [&str; 4] = ["exit", "quit", "/exit", "/quit"];

/// Talks until there is nothing more to say. One message as the argument is one turn.
pub(super) async fn chat(
    arguments: ChatArgs,
    client: &Client,
    history: PathBuf,
    output: &mut Output,
) -> Result<(), Failure> {
    let ChatArgs { message, session, inputs, yes, strategy } = arguments;
    let inputs = super::run::read_pairs(&inputs)?;
    let request = AgentRequest {
        session,
        inputs,
        strategy: strategy::parse(&strategy.strategy)?,
        consent: yes.then_some(Consent::Given),
        ..AgentRequest::default()
    };
    let mut talk = Talk { agent: RemoteAgent::new(client.clone()), request, output };
    match message {
        Some(message) => {
            let mut answer = talk.take_turn(message, None, Map::new()).await?;
            // A person in front of a terminal is asked; a script says --yes.
            while let Some(pending) = talk.unconfirmed(answer.as_ref()) {
                let mut lines = Lines::open(history.clone())?;
                if !lines.is_edited() {
                    break;
                }
                let said = match lines.next(&view::prompt()).await? {
                    Line::Text(text) if !text.trim().is_empty() => text,
                    _ => NO.to_owned(),
                };
                answer = talk.take_turn(said, Some(pending), Map::new()).await?;
            }
            match answer.as_ref().map(|answer| answer.status) {
                Some(AgentStatus::Completed | AgentStatus::Cancelled) => Ok(()),
                Some(AgentStatus::Denied) => Err(Failure::told(Exit::Denied)),
                _ => Err(Failure::told(Exit::Bad)),
            }
        }
        None => talk.go(history).await,
    }
}

struct Talk<'o> {
    agent: RemoteAgent,
    /// What every turn of the session has.
    request: AgentRequest,
    output: &'o mut Output,
}

impl Talk<'_> {
    /// What belongs to the yes that an answer asks for; none when it asks for none.
    fn unconfirmed(&self, answer: Option<&AgentResponse>) -> Option<Pending> {
        let question = answer?.question.as_ref().filter(|question| question.is_consent());
        question.filter(|_| !self.output.is_json()).map(|question| question.pending.clone())
    }

    /// Turn after turn, until the lines end.
    async fn go(&mut self, history: PathBuf) -> Result<(), Failure> {
        let mut lines = Lines::open(history)?;
        if !self.output.is_json() {
            view::open().iter().for_each(|line| self.output.line(format_args!("{line}")));
        }
        let mut question: Option<AgentQuestion> = None;
        // Those of the last answer: a yes to what they are for needs them again.
        let mut kept = Map::new();
        loop {
            let message = match lines.next(&view::prompt()).await? {
                Line::Text(text) if ENDS.contains(&text.trim()) => break,
                Line::Text(text) if text.trim().is_empty() => match &question {
                    Some(question) if question.is_consent() => NO.to_owned(),
                    _ => continue,
                },
                Line::Text(text) => text,
                // Whoever does not want to answer is not asked again.
                Line::Interrupted if question.is_some() => {
                    question = None;
                    continue;
                }
                Line::Interrupted | Line::End => break,
            };
            if !lines.is_edited() && !self.output.is_json() {
                let line = view::said(&message);
                self.output.line(format_args!("{line}"));
            }
            let (pending, secrets) = match question.take() {
                None => (None, Map::new()),
                Some(question) if question.is_consent() => {
                    (Some(question.pending), std::mem::take(&mut kept))
                }
                Some(AgentQuestion { fields, pending, .. }) => {
                    kept = lines.secrets(&secret_names(&fields)).await?;
                    (Some(pending), kept.clone())
                }
            };
            // What goes wrong with one turn does not end the conversation.
            match self.take_turn(message, pending, secrets).await {
                Ok(answer) => question = answer.and_then(|answer| answer.question),
                Err(failure) if failure.exit == Exit::Unreachable => return Err(failure),
                Err(failure) => self.output.failure(&failure),
            }
            if self.output.is_gone() {
                break;
            }
        }
        if !self.output.is_json() {
            let line = view::close();
            self.output.line(format_args!("{line}"));
        }
        Ok(())
    }

    /// One turn, told as it goes; none when it was interrupted.
    async fn take_turn(
        &mut self,
        message: String,
        pending: Option<Pending>,
        secrets: Map<String, Value>,
    ) -> Result<Option<AgentResponse>, Failure> {
        let mut request = AgentRequest { message, pending, ..self.request.clone() };
        request.inputs.extend(secrets);
        let mut turn = self.agent.take_turn(&request).await?;
        let mut view = View::default();
        loop {
            let event = tokio::select! {
                event = turn.next() => event?,
                // When the turn is dropped, the agent stops what it runs.
                interrupted = signal::ctrl_c() => {
                    interrupted.map_err(|error| Failure::argument(error.to_string()))?;
                    if !self.output.is_json() {
                        let line = view.interrupted();
                        self.output.line(format_args!("{line}"));
                    }
                    return Ok(None);
                }
            };
            let Some(event) = event else { return Ok(None) };
            if let AgentEvent::Heard { session, .. } = &event {
                self.request.session = Some(session.clone());
            }
            if self.output.is_json() {
                self.output.json_line(&event);
            } else {
                for line in view.lines(&event) {
                    self.output.line(format_args!("{line}"));
                }
            }
            if let AgentEvent::Response(answer) = event {
                return Ok(Some(*answer));
            }
        }
    }
}

fn secret_names(fields: &[InputField]) -> Vec<String> {
    fields.iter().filter(|field| field.secret).map(|field| field.name.clone()).collect()
}
