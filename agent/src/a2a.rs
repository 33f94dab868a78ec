//! Other agents: what they ask of this one, and what it asks of them, in the words of A2A.
//!
//! Two versions of the protocol are in use, 0.3 and 1.0. They mean the same and write it otherwise,
//! so everything here is said once in the types of [`model`], and [`wire`] writes and reads both.
//! `https://a2a-protocol.org` has the text; sections are named where something follows them.

mod card;
mod client;
mod described;
mod desk;
mod http;
mod model;
mod rpc;
mod tasks;
mod tell;
mod wire;

pub use card::{Card, Skill};
pub use client::{A2aClient, A2aError, Peer, Updates};
pub(crate) use desk::Desk;
pub(crate) use http::{open_routes, openapi, routes};
pub use model::{Artifact, Message, Part, Reply, Role, Status, Task, TaskState, Update};
pub use wire::Version;
