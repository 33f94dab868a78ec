//! Other agents: their requests to this agent, and its requests to them, in the terms of A2A.
//!
//! Two versions of the protocol are in use, 0.3 and 1.0. They mean the same and are written differently.
//! The types of [`model`] stand for both, and [`wire_versions`] writes and reads both.
//! `https://a2a-protocol.org` has the specification; comments name the section that a rule comes from.

mod agent_card;
mod client;
mod described;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzz;
mod http;
mod model;
mod peer;
mod rpc;
mod server;
#[cfg(test)]
mod tests;
mod wire_versions;

pub use agent_card::PeerCard;
pub use client::{A2aClient, A2aError, TaskStream, UnresolvedAgent};
pub use http::App;
pub use model::{
    A2aTask, Message, MessageReply, Part, Role, TaskArtifact, TaskState, TaskStatus, TaskUpdate,
};
pub use wire_versions::A2aVersion;
