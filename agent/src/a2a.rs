//! Other agents: what they ask of this one, and what it asks of them, in the words of A2A.
//!
//! Two versions of the protocol are in use, 0.3 and 1.0. They mean the same and write it otherwise,
//! so everything here is said once in the types of [`model`], and [`wire_versions`] writes and reads both.
//! `https://a2a-protocol.org` has the text; sections are named where something follows them.

mod agent_card;
mod client;
mod described;
mod http;
mod model;
mod rpc;
mod server;
mod status_messages;
mod tasks;
mod wire_versions;

pub use agent_card::{Card, Skill};
pub use client::{A2aClient, A2aError, TaskStream, UnresolvedAgent};
pub(crate) use http::{open_routes, openapi, routes};
pub use model::{Artifact, Message, Part, Reply, Role, Status, Task, TaskState, Update};
pub(crate) use server::Desk;
pub use wire_versions::Version;
