//! Access for agents: finds capabilities by intent and runs them.
//!
//! [`RemoteRegistry`] and [`RemoteExecutor`] are the two remote services over HTTP; a [`ServiceClient`]
//! reaches each. This crate reads no environment: its user passes addresses and tokens.
//!
//! ```no_run
//! use a2s::api::{ExecutionRequest, SearchRequest};
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

pub mod a2a;
mod a2a_server;
mod agent;
mod client;
mod clock_and_ids;
pub mod compose;
mod error;
mod executor;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzz;
mod guard;
mod http;
pub mod mcp;
mod model;
mod registry;
mod remote_agent;
mod requester;
mod state_store;
mod token_introspection;

pub use agent::{Agent, Backend, MAX_MESSAGE_BYTES, MAX_SESSION_CHARS};
pub use client::{
    Error as ClientError, ServiceClient, ServiceClients, describe_os_error, is_loopback, root_cause,
};
pub use clock_and_ids::ClockAndIds;
pub use error::{CODES, Error};
pub use executor::{RemoteExecutor, RunEventStream, RunGuard};
pub use guard::{Guard, GuardContext, GuardDenial, GuardOutcome, MessageDirection};
pub use http::App;
pub use model::{Error as ModelError, LanguageModel};
pub use registry::{RegistryChangeStream, RemoteRegistry};
pub use remote_agent::{RemoteAgent, RemoteTurn};
pub use requester::Requester;
pub use state_store::{EmptyState, StateStore};
pub use token_introspection::RegistryTokenIntrospector;
