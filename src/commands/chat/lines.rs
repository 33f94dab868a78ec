//! The source of a conversation's lines: a person who edits them, or a pipe.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::PathBuf;

use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};
use serde_json::{Map, Value};
use tokio::task::spawn_blocking;

use crate::cli_error::{Exit, FILE, Failure};

/// The most lines that are kept of earlier sessions.
const MAX_HISTORY: usize = 1_000;

/// What comes next.
#[derive(Debug)]
pub(super) enum Line {
    Text(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the end of the pipe.
    End,
}

/// The source of lines.
pub(super) enum Lines {
    Edited { editor: Box<DefaultEditor>, history: PathBuf },
    Piped,
}

impl Lines {
    pub(super) fn open(history: PathBuf) -> Result<Self, Failure> {
        if !io::stdin().is_terminal() {
            return Ok(Self::Piped);
        }
        let config =
            Config::builder().max_history_size(MAX_HISTORY).map_err(|error| broken(&error))?;
        let config = config.auto_add_history(true).build();
        let mut editor =
            Box::new(DefaultEditor::with_config(config).map_err(|error| broken(&error))?);
        // There is none yet, or it cannot be read: then it begins now.
        let _ = editor.load_history(&history);
        Ok(Self::Edited { editor, history })
    }

    /// Whether a person sees what they write.
    pub(super) fn is_edited(&self) -> bool {
        matches!(self, Self::Edited { .. })
    }

    /// The next line, behind `prompt` where somebody writes it.
    pub(super) async fn next(&mut self, prompt: &str) -> Result<Line, Failure> {
        let lines = std::mem::replace(self, Self::Piped);
        let prompt = prompt.to_owned();
        let read = spawn_blocking(move || lines.read(&prompt)).await;
        let (lines, line) = read.map_err(|error| Failure::argument(error.to_string()))?;
        *self = lines;
        line
    }

    fn read(self, prompt: &str) -> (Self, Result<Line, Failure>) {
        match self {
            Self::Piped => (Self::Piped, read_piped()),
            Self::Edited { mut editor, history } => {
                let line = match editor.readline(prompt) {
                    Ok(text) => Ok(Line::Text(text)),
                    Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
                    Err(ReadlineError::Eof) => Ok(Line::End),
                    Err(error) => Err(broken(&error)),
                };
                // A conversation does not end because its history cannot be kept.
                let _ = editor.save_history(&history);
                (Self::Edited { editor, history }, line)
            }
        }
    }

    /// Asks for secrets, which nobody sees and no history keeps. A pipe has none: they are left
    /// out, and the agent says that they are missing.
    pub(super) async fn secrets(&self, names: &[String]) -> Result<Map<String, Value>, Failure> {
        let mut secrets = Map::new();
        if !self.is_edited() {
            return Ok(secrets);
        }
        for name in names {
            let prompt = format!("{} (not shown): ", crate::output::plain(name));
            let asked = spawn_blocking(move || rpassword::prompt_password(prompt)).await;
            let asked = asked.map_err(|error| Failure::argument(error.to_string()))?;
            let secret = asked.map_err(|error| {
                Failure::new(Exit::Bad, FILE, format!("the terminal: {}", agent::in_words(&error)))
            })?;
            secrets.insert(name.clone(), secret.into());
        }
        Ok(secrets)
    }
}

fn read_piped() -> Result<Line, Failure> {
    let mut text = String::new();
    match io::stdin().lock().read_line(&mut text) {
        Ok(0) => Ok(Line::End),
        Ok(_) => Ok(Line::Text(text.trim_end_matches(['\r', '\n']).to_owned())),
        Err(error) => {
            let message = format!("standard input: {}", agent::in_words(&error));
            Err(Failure::new(Exit::Bad, FILE, message))
        }
    }
}

fn broken(error: &ReadlineError) -> Failure {
    Failure::new(Exit::Bad, FILE, format!("the terminal: {error}"))
}
