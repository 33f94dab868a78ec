//! PostgreSQL in a build without it: every address is refused.

use crate::Error;
use crate::server_types::{PgConnection, PgPool};

/// A server, which a build without the feature `postgres` cannot have.
#[derive(Debug, Clone)]
pub enum PostgresServer {}

impl PostgresServer {
    /// Refuses an address.
    ///
    /// # Errors
    /// Always, because this build does not contain PostgreSQL.
    pub fn parse(_address: &str, _schema: Option<&'static str>) -> Result<Self, Error> {
        let message =
            "this build does not contain PostgreSQL; build it with the feature `postgres`";
        Err(Error::unusable(message))
    }

    /// Connects to the server. There is none.
    ///
    /// # Errors
    /// Never, because there is no server.
    pub async fn connect(&self) -> Result<PgConnection, Error> {
        match *self {}
    }

    /// Returns the connections to the server. There is none.
    pub fn pool(&self, _most: u32, _settings: &[(&str, &str)]) -> PgPool {
        match *self {}
    }
}
