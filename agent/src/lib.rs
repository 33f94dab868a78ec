//! Access for agents: finds capabilities by intent and runs them.
//!
//! [`RemoteRegistry`] and [`RemoteExecutor`] are the two remote services over HTTP; a [`ServiceClient`]
//! reaches each. This crate reads no environment: its user passes addresses and tokens.
//!
//! ```no_run
//! use a2s_api::{ExecutionRequest, SearchRequest};
//! use agent::{ServiceClient, RemoteExecutor, RemoteRegistry};
//!
//! # async fn example() -> Result<(), agent::ClientError> {
//! let client = ServiceClient::new(&"http://127.0.0.1:8740".parse().unwrap(), None)?;
//! let (registry, executor) = (RemoteRegistry::new(client.clone()), RemoteExecutor::new(client));
//! let intent = "list dog breeds".to_owned();
//! let found = registry.search(&SearchRequest { intent, ..SearchRequest::default() }).await?;
//! if let Some(hit) = found.capabilities.first() {
//!     let (name, digest) = (Some(hit.name.clone()), Some(hit.checksum));
//!     let request = ExecutionRequest { name, digest, ..ExecutionRequest::default() };
//!     let run = executor.start(&request).await?;
//!     let mut events = executor.stream_events(run.id, 0);
//!     while let Some(event) = events.next().await? {
//!         println!("{:?}", event.kind);
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod agent;
mod client;
mod clock_and_ids;
pub mod compose;
mod error;
mod executor;
mod guard;
mod http;
mod model;
mod peer;
mod registry;
mod remote_agent;
mod requester;
mod state_store;
mod token_introspection;

pub use agent::turn::consent::collect_requests;
pub use agent::turn::waiting::{RunCheck, WaitingTurn};
pub use agent::{Agent, Backend, MAX_MESSAGE_BYTES, MAX_SESSION_CHARS};
pub use client::{
    Error as ClientError, ServiceClient, ServiceClients, SseEvent, SseItem, SseStream,
    describe_os_error, is_loopback, root_cause,
};
pub use clock_and_ids::ClockAndIds;
pub use error::{CODES, Error};
pub use executor::{RemoteExecutor, RunEventStream, RunGuard};
pub use guard::{
    ADDED_CONSENT, Guard, GuardContext, GuardDenial, GuardOutcome, MessageDirection, RedactedInputs,
};
pub use http::App;
pub use model::{Error as ModelError, LanguageModel};
pub use peer::{PeerAgent, PeerConnection, PeerOutcome, PeerReply, PeerSkill};
pub use registry::{RegistryChangeStream, RemoteRegistry};
pub use remote_agent::{RemoteAgent, RemoteTurn};
pub use requester::Requester;
pub use state_store::{EmptyState, StateStore};
pub use token_introspection::RegistryTokenIntrospector;
