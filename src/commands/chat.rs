//! `a2s chat`: a conversation with the agent, in the terminal.

mod lines;
mod view;

use std::path::PathBuf;

use a2s::InputField;
use a2s_api::{
    AgentEvent, AgentQuestion, AgentRequest, AgentResponse, AgentStatus, ConsentSource,
    PendingQuestion,
};
use agent::RemoteAgent;
use serde_json::{Map, Value};
use tokio::signal;

use self::lines::{InputLine, LineSource};
use self::view::ChatView;
use crate::cli::ChatArgs;
use crate::cli_error::{CliError, CliExitCode};
use crate::client::ServiceClient;
use crate::commands::search::strategy;
use crate::output::CommandOutput;

/// The reply of an empty line to a question for consent.
const DEFAULT_REPLY: &str = "no";
/// The inputs that end a session.
const END_COMMANDS: [&str; 4] = ["exit", "quit", "/exit", "/quit"];

/// Runs a conversation until the user ends it. With a message as the argument, it runs one turn.
pub(super) async fn chat(
    arguments: ChatArgs,
    client: &ServiceClient,
    history: PathBuf,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let ChatArgs { message, session, inputs, yes, strategy } = arguments;
    let inputs = super::run::parse_inputs(&inputs)?;
    let request = AgentRequest {
        session,
        inputs,
        strategy: strategy::parse(&strategy.strategy)?,
        consent: yes.then_some(ConsentSource::Given),
        ..AgentRequest::default()
    };
    let mut talk = ChatSession { agent: RemoteAgent::new(client.clone()), request, output };
    match message {
        Some(message) => {
            let mut answer = talk.take_turn(message, None, Map::new()).await?;
            // A person in front of a terminal is asked; a script says --yes.
            while let Some(pending) = talk.pending_consent(answer.as_ref()) {
                let mut lines = LineSource::open(history.clone())?;
                if !lines.is_interactive() {
                    break;
                }
                let said = match lines.next_line(&view::prompt()).await? {
                    InputLine::Text(text) if !text.trim().is_empty() => text,
                    _ => DEFAULT_REPLY.to_owned(),
                };
                answer = talk.take_turn(said, Some(pending), Map::new()).await?;
            }
            match answer.as_ref().map(|answer| answer.status) {
                Some(AgentStatus::Completed | AgentStatus::Cancelled) => Ok(()),
                Some(AgentStatus::Denied) => Err(CliError::already_printed(CliExitCode::Denied)),
                _ => Err(CliError::already_printed(CliExitCode::Bad)),
            }
        }
        None => talk.run_conversation(history).await,
    }
}

struct ChatSession<'o> {
    agent: RemoteAgent,
    /// The part of the request that every turn of the session has.
    request: AgentRequest,
    output: &'o mut CommandOutput,
}

impl ChatSession<'_> {
    /// Returns the pending action that a response asks consent for; none when it asks for none.
    fn pending_consent(&self, answer: Option<&AgentResponse>) -> Option<PendingQuestion> {
        let question = answer?.question.as_ref().filter(|question| question.is_consent_request());
        question.filter(|_| !self.output.is_json()).map(|question| question.pending.clone())
    }

    /// Runs turn after turn until the input ends.
    async fn run_conversation(&mut self, history: PathBuf) -> Result<(), CliError> {
        let mut lines = LineSource::open(history)?;
        if !self.output.is_json() {
            view::frame_top().iter().for_each(|line| self.output.line(format_args!("{line}")));
        }
        let mut question: Option<AgentQuestion> = None;
        // Those of the last answer: a yes to what they are for needs them again.
        let mut kept = Map::new();
        loop {
            let message = match lines.next_line(&view::prompt()).await? {
                InputLine::Text(text) if END_COMMANDS.contains(&text.trim()) => break,
                InputLine::Text(text) if text.trim().is_empty() => match &question {
                    Some(question) if question.is_consent_request() => DEFAULT_REPLY.to_owned(),
                    _ => continue,
                },
                InputLine::Text(text) => text,
                // A user who does not answer is not asked again.
                InputLine::Interrupted if question.is_some() => {
                    question = None;
                    continue;
                }
                InputLine::Interrupted | InputLine::End => break,
            };
            if !lines.is_interactive() && !self.output.is_json() {
                let line = view::user_line(&message);
                self.output.line(format_args!("{line}"));
            }
            let (pending, secrets) = match question.take() {
                None => (None, Map::new()),
                Some(question) if question.is_consent_request() => {
                    (Some(question.pending), std::mem::take(&mut kept))
                }
                Some(AgentQuestion { fields, pending, .. }) => {
                    kept = lines.read_secrets(&secret_names(&fields)).await?;
                    (Some(pending), kept.clone())
                }
            };
            // What goes wrong with one turn does not end the conversation.
            match self.take_turn(message, pending, secrets).await {
                Ok(answer) => question = answer.and_then(|answer| answer.question),
                Err(failure) if failure.exit == CliExitCode::Unreachable => return Err(failure),
                Err(failure) => self.output.print_error(&failure),
            }
            if self.output.is_closed() {
                break;
            }
        }
        if !self.output.is_json() {
            let line = view::frame_bottom();
            self.output.line(format_args!("{line}"));
        }
        Ok(())
    }

    /// Runs one turn, and prints its events as they come; none when it was interrupted.
    async fn take_turn(
        &mut self,
        message: String,
        pending: Option<PendingQuestion>,
        secrets: Map<String, Value>,
    ) -> Result<Option<AgentResponse>, CliError> {
        let mut request = AgentRequest { message, pending, ..self.request.clone() };
        request.inputs.extend(secrets);
        let mut turn = self.agent.take_turn(&request).await?;
        let mut view = ChatView::default();
        loop {
            let event = tokio::select! {
                event = turn.next() => event?,
                // If the turn is dropped, the agent stops its runs.
                interrupted = signal::ctrl_c() => {
                    interrupted.map_err(|error| CliError::invalid_argument(error.to_string()))?;
                    if !self.output.is_json() {
                        let line = view.interrupted_line();
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
                for line in view.event_lines(&event) {
                    self.output.line(format_args!("{line}"));
                }
            }
            if let AgentEvent::Response(answer) = event {
                self.request.context.clone_from(&answer.values);
                return Ok(Some(*answer));
            }
        }
    }
}

fn secret_names(fields: &[InputField]) -> Vec<String> {
    fields.iter().filter(|field| field.secret).map(|field| field.name.clone()).collect()
}
