//! The source of a conversation's lines: a person who edits them, or a pipe.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::PathBuf;

use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};
use serde_json::{Map, Value};
use tokio::task::spawn_blocking;

use crate::cli_error::{CliError, CliExitCode, FILE};

/// The maximum number of stored lines from earlier sessions.
const MAX_HISTORY: usize = 1_000;

/// The next input.
#[derive(Debug)]
pub(super) enum InputLine {
    Text(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the end of the pipe.
    End,
}

/// The source of lines.
pub(super) enum LineSource {
    Edited { editor: Box<DefaultEditor>, history: PathBuf },
    Piped,
}

impl LineSource {
    pub(super) fn open(history: PathBuf) -> Result<Self, CliError> {
        if !io::stdin().is_terminal() {
            return Ok(Self::Piped);
        }
        let config = Config::builder()
            .max_history_size(MAX_HISTORY)
            .map_err(|error| terminal_error(&error))?;
        let config = config.auto_add_history(true).build();
        let mut editor =
            Box::new(DefaultEditor::with_config(config).map_err(|error| terminal_error(&error))?);
        // There is none yet, or it cannot be read: then it begins now.
        let _ = editor.load_history(&history);
        Ok(Self::Edited { editor, history })
    }

    /// Returns true when a person edits the lines on a terminal.
    pub(super) fn is_interactive(&self) -> bool {
        matches!(self, Self::Edited { .. })
    }

    /// Reads the next line, after `prompt` when a person writes it.
    pub(super) async fn next_line(&mut self, prompt: &str) -> Result<InputLine, CliError> {
        let lines = std::mem::replace(self, Self::Piped);
        let prompt = prompt.to_owned();
        let read = spawn_blocking(move || lines.read(&prompt)).await;
        let (lines, line) = read.map_err(|error| CliError::invalid_argument(error.to_string()))?;
        *self = lines;
        line
    }

    fn read(self, prompt: &str) -> (Self, Result<InputLine, CliError>) {
        match self {
            Self::Piped => (Self::Piped, read_piped()),
            Self::Edited { mut editor, history } => {
                let line = match editor.readline(prompt) {
                    Ok(text) => Ok(InputLine::Text(text)),
                    Err(ReadlineError::Interrupted) => Ok(InputLine::Interrupted),
                    Err(ReadlineError::Eof) => Ok(InputLine::End),
                    Err(error) => Err(terminal_error(&error)),
                };
                // A conversation does not end because its history cannot be kept.
                let _ = editor.save_history(&history);
                (Self::Edited { editor, history }, line)
            }
        }
    }

    /// Asks for secrets, which are not shown and not kept in the history. A pipe has none: they are left
    /// out, and the agent reports that they are missing.
    pub(super) async fn read_secrets(
        &self,
        names: &[String],
    ) -> Result<Map<String, Value>, CliError> {
        let mut secrets = Map::new();
        if !self.is_interactive() {
            return Ok(secrets);
        }
        for name in names {
            let prompt = format!("{} (not shown): ", crate::output::sanitize(name));
            let asked = spawn_blocking(move || rpassword::prompt_password(prompt)).await;
            let asked = asked.map_err(|error| CliError::invalid_argument(error.to_string()))?;
            let secret = asked.map_err(|error| {
                CliError::new(
                    CliExitCode::Bad,
                    FILE,
                    format!("the terminal: {}", agent::describe_os_error(&error)),
                )
            })?;
            secrets.insert(name.clone(), secret.into());
        }
        Ok(secrets)
    }
}

fn read_piped() -> Result<InputLine, CliError> {
    let mut text = String::new();
    match io::stdin().lock().read_line(&mut text) {
        Ok(0) => Ok(InputLine::End),
        Ok(_) => Ok(InputLine::Text(text.trim_end_matches(['\r', '\n']).to_owned())),
        Err(error) => {
            let message = format!("standard input: {}", agent::describe_os_error(&error));
            Err(CliError::new(CliExitCode::Bad, FILE, message))
        }
    }
}

fn terminal_error(error: &ReadlineError) -> CliError {
    CliError::new(CliExitCode::Bad, FILE, format!("the terminal: {error}"))
}
