//! The bench itself once more, as a service: so whoever asks it pays the same for that.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// The argument that makes a bench its own service.
pub(crate) const SERVE: &str = "--serve";

/// It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Itself {
    pub(crate) child: Child,
    /// The line in which it said where it answers.
    pub(crate) said: String,
}

impl Itself {
    pub(crate) fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg(SERVE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        Self { child, said: said.trim().to_owned() }
    }
}

impl Drop for Itself {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
