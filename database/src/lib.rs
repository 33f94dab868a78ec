//! SQLite and PostgreSQL for services that can use either: opening a database, queries and transactions.
//!
//! SQL is written once, with `$1` for the first value. The few clauses that the engines write in different
//! ways have names, which stand in braces in the text: see [`dialect`].

pub mod dialect;
mod error;
mod lock_file;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(not(feature = "postgres"))]
mod postgres_left_out;
mod query;
pub mod server_types;
mod sqlite;

pub use error::{DiskFault, Error, ErrorKind, find_disk_fault, is_unavailable};
pub use lock_file::{CommitRecorder, DatabaseLock, DatabaseLoss, open_private_file};
#[cfg(feature = "postgres")]
pub use postgres::PostgresServer;
#[cfg(not(feature = "postgres"))]
pub use postgres_left_out::PostgresServer;
pub use query::{Column, FromRow, Pool, Query, Row, Transaction, Value};
pub use sqlite::{lock_file, sqlite_options};
