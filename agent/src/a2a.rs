//! Other agents: what they ask of this one, and what it asks of them, in the words of A2A.
//!
//! Two versions of the protocol are in use, 0.3 and 1.0. They mean the same and write it otherwise,
//! so everything here is said once in the types of [`model`], and [`wire_versions`] writes and reads both.
//! `https://a2a-protocol.org` has the text; sections are named where something follows them.

pub(crate) mod agent_card;
pub(crate) mod client;
pub(crate) mod described;
pub(crate) mod model;
pub(crate) mod rpc;
pub(crate) mod wire_versions;

pub use agent_card::{PeerCard, PeerSkill};
pub use client::{A2aClient, A2aError, TaskStream, UnresolvedAgent};
pub use model::{
    A2aTask, Message, MessageReply, Part, Role, TaskArtifact, TaskState, TaskStatus, TaskUpdate,
};
pub use wire_versions::A2aVersion;
