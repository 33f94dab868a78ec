//! The agent: sentences that people write, and what is found, asked, run and answered.

mod asking;
mod conversations;
mod falling_back;
mod guarded;
mod models;
mod sentences;

use serde_json::Value;

pub(crate) use conversations::{VAULT, keeper};

use crate::harness::{Ran, World};

/// One turn: how it ended, with all its events.
struct Turn {
    ran: Ran,
    events: Vec<Value>,
}

impl Turn {
    fn take(world: &World, message: &str, flags: &[&str]) -> Self {
        let arguments: Vec<&str> =
            ["chat", message, "--json"].iter().chain(flags).copied().collect();
        let ran = world.a2s(&arguments);
        let events = ran.json();
        Self { ran, events }
    }

    /// The events of a type.
    fn all(&self, kind: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["type"] == kind).collect()
    }

    /// The answer: the last event.
    #[track_caller]
    fn answer(&self) -> &Value {
        let last = self.events.last().unwrap_or(&Value::Null);
        assert_eq!(last["type"], "response", "{:?}", self.ran);
        last
    }

    /// The capability that was chosen first, and the inputs that are known for it.
    #[track_caller]
    fn chosen(&self) -> (&str, &Value) {
        let chosen = self.all("chosen");
        let chosen = chosen.first().unwrap_or_else(|| panic!("{:?}", self.ran));
        (chosen["plan"]["capability"]["name"].as_str().unwrap(), &chosen["inputs"])
    }

    /// The ids of the steps that were run, in the order in which they began.
    fn steps(&self) -> Vec<&str> {
        let events = self.all("step");
        let started = events.iter().map(|event| &event["event"]);
        let started = started.filter(|event| event["type"] == "step_started");
        started.map(|event| event["step"].as_str().unwrap()).collect()
    }
}
