//! The types of the server's engine.
//!
//! A build without the feature `postgres` has the types of SQLite in their place. So the code for both
//! engines is the same in each build. Such a build has no connection to a server, because
//! [`PostgresServer::parse`](crate::PostgresServer::parse) refuses every address.

#[cfg(feature = "postgres")]
pub use sqlx::Postgres;
#[cfg(feature = "postgres")]
pub use sqlx::postgres::{PgConnection, PgPool, PgRow};

#[cfg(not(feature = "postgres"))]
pub use sqlx::Sqlite as Postgres;
#[cfg(not(feature = "postgres"))]
pub use sqlx::sqlite::{
    SqliteConnection as PgConnection, SqlitePool as PgPool, SqliteRow as PgRow,
};
