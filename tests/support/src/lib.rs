//! What the tests and benches of several crates share: servers on loopback, guardians that allow and
//! deny, mock services, databases, certificates and documents.
//!
//! Only `[dev-dependencies]` name this crate. It does not depend on the services, because the unit
//! tests of a service would get a second copy of its types. A world that needs the types of a crate is
//! in the tests of that crate.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its world has to fail")]

#[cfg(feature = "certificates")]
mod certificates;
#[cfg(feature = "documents")]
mod documents;
mod files;
mod guardian;
#[cfg(feature = "mock-services")]
pub mod mock_services;
#[cfg(feature = "postgres")]
mod postgres;
mod servers;

#[cfg(feature = "certificates")]
pub use certificates::CertificateAuthority;
#[cfg(feature = "documents")]
pub use documents::{fill_checksum, fixture_document, http_step};
pub use files::copy_folder;
pub use guardian::{RecordingGuardian, allow, deny, modify, rpc_result, serve_guardian};
#[cfg(feature = "postgres")]
pub use postgres::{PostgresDatabase, postgres_server, require_postgres_server};
pub use servers::{serve, unused_address};
