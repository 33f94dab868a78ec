//! Trust on first use: the checksum that each version had when it was first run or planned.
//!
//! A registry lists the checksums of its own documents, so it could give another document for the same
//! version tomorrow. The executor remembers the first checksum and refuses another one until an
//! administrator accepts it.

use std::collections::BTreeMap;
use std::sync::Arc;

use a2s::{CapabilityName, Digest};
use a2s_api::Principal;
use a2s_api::{CapabilityRef, TrustList, TrustedVersion};
use database::Pool;
use jiff::Timestamp;
use semver::Version;

use crate::clock::Clock;
use crate::database::to_store_error;
use crate::error::{Error, ErrorKind};

/// The name of the table in errors.
const WHAT: &str = "the remembered checksums";

/// The name, version, checksum, time, and the principal who accepted it.
type Columns = (String, String, String, i64, Option<String>);

/// Remembers the checksums of versions, from a JSON list, at a time, unless others are remembered.
macro_rules! insert_pins {
    ($pins:literal, $now:literal) => {
        concat!(
            "INSERT INTO trusted_version (name, version, checksum, remembered_at)
             SELECT element ->> 0, element ->> 1, element ->> 2, ",
            $now,
            " FROM ({elements ",
            $pins,
            "}) AS pin WHERE TRUE
             ORDER BY 1, 2
             ON CONFLICT (name, version) DO NOTHING"
        )
    };
}
pub(crate) use insert_pins;

/// The table of remembered checksums, in the executor's database.
#[derive(Debug)]
pub(crate) struct TrustedVersions {
    pool: Pool,
    clock: Arc<dyn Clock>,
}

impl TrustedVersions {
    /// Creates the table in a migrated database.
    pub(crate) fn new(pool: Pool, clock: Arc<dyn Clock>) -> Self {
        Self { pool, clock }
    }

    /// Compares pins with the remembered checksums. Returns the pins with a version that is not remembered.
    ///
    /// # Errors
    /// Returns [`ErrorKind::ChecksumChanged`] when a version has another checksum than the remembered one.
    pub(crate) async fn check(&self, pins: &[CapabilityRef]) -> Result<Vec<CapabilityRef>, Error> {
        const SQL: &str = "SELECT t.name, t.version, t.checksum, t.remembered_at, t.accepted_by
             FROM ({elements $1}) AS pin JOIN trusted_version AS t
               ON t.name = pin.element ->> 0 AND t.version = pin.element ->> 1";
        let listed = pins_to_json(pins);
        let rows: Vec<Columns> =
            self.pool.query(SQL).bind(listed).fetch_all().await.map_err(to_store_error(WHAT))?;
        let known = rows.into_iter().map(read_row);
        let known: Vec<TrustedVersion> = known.collect::<Result<_, _>>()?;
        let known: BTreeMap<_, _> =
            known.iter().map(|known| ((&known.name, &known.version), known)).collect();
        let mut unknown = Vec::new();
        for pin in pins {
            match known.get(&(&pin.name, &pin.version)) {
                Some(trusted) if trusted.checksum == pin.checksum => {}
                Some(trusted) => return Err(refuse(pin, trusted)),
                None => unknown.push(pin.clone()),
            }
        }
        Ok(unknown)
    }

    /// Remembers the checksums of versions that are not remembered yet. Writes nothing when there are none.
    /// A run remembers its checksums in the transaction that records it.
    ///
    /// # Errors
    /// Returns [`ErrorKind::ChecksumChanged`] when another executor of this database has just remembered
    /// another checksum.
    pub(crate) async fn remember(&self, pins: &[CapabilityRef]) -> Result<(), Error> {
        if pins.is_empty() {
            return Ok(());
        }
        const SQL: &str = insert_pins!("$1", "$2");
        let (listed, now) = (pins_to_json(pins), self.clock.now().as_millisecond());
        let written = self.pool.query(SQL).bind(listed).bind(now).execute().await;
        written.map_err(to_store_error(WHAT))?;
        // Of two executors that remember a version at the same time, one was first.
        self.check(pins).await.map(drop)
    }

    /// Returns a page of the remembered checksums after a version, by name and version.
    pub(crate) async fn list(
        &self,
        after: Option<(&CapabilityName, &Version)>,
        limit: usize,
    ) -> Result<TrustList, Error> {
        const SQL: &str = "SELECT name, version, checksum, remembered_at, accepted_by
             FROM trusted_version WHERE name > $1 OR (name = $1 AND version > $2)
             ORDER BY name, version LIMIT $3";
        let (name, version) = match after {
            Some((name, version)) => (name.as_str(), version.to_string()),
            None => ("", String::new()),
        };
        let most = i64::try_from(limit + 1).unwrap_or(i64::MAX);
        let rows: Vec<Columns> = self
            .pool
            .query(SQL)
            .bind(name)
            .bind(version)
            .bind(most)
            .fetch_all()
            .await
            .map_err(to_store_error(WHAT))?;
        let more = rows.len() > limit;
        let versions = rows.into_iter().take(limit).map(read_row);
        let versions: Vec<TrustedVersion> = versions.collect::<Result<_, _>>()?;
        let last = versions.last().filter(|_| more);
        let next = last.map(|last| format!("{}@{}", last.name, last.version));
        Ok(TrustList { versions, next })
    }

    /// Accepts a checksum for a version, and replaces the remembered one.
    pub(crate) async fn accept(
        &self,
        pin: CapabilityRef,
        principal: &Principal,
    ) -> Result<TrustedVersion, Error> {
        const SQL: &str =
            "INSERT INTO trusted_version (name, version, checksum, remembered_at, accepted_by)
             VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (name, version) DO UPDATE SET checksum = excluded.checksum,
                 remembered_at = excluded.remembered_at, accepted_by = excluded.accepted_by";
        let CapabilityRef { name, version, checksum } = pin;
        let milliseconds = self.clock.now().as_millisecond();
        let accepted_by = principal.to_string();
        let written = self
            .pool
            .query(SQL)
            .bind(name.as_str())
            .bind(version.to_string())
            .bind(checksum.to_string())
            .bind(milliseconds)
            .bind(&accepted_by)
            .execute()
            .await;
        written.map_err(to_store_error(WHAT))?;
        tracing::info!(%name, %version, %checksum, %principal, "checksum accepted");
        let remembered_at =
            Timestamp::from_millisecond(milliseconds).map_err(to_store_error(WHAT))?;
        let accepted_by = Some(accepted_by);
        Ok(TrustedVersion { name, version, checksum, remembered_at, accepted_by })
    }

    /// Forgets the checksum of a version: the next one that is run or planned is remembered.
    ///
    /// # Errors
    /// Returns [`ErrorKind::StateNotFound`] when none is remembered.
    pub(crate) async fn forget(
        &self,
        name: &CapabilityName,
        version: &Version,
        principal: &Principal,
    ) -> Result<(), Error> {
        const SQL: &str = "DELETE FROM trusted_version WHERE name = $1 AND version = $2";
        let removed =
            self.pool.query(SQL).bind(name.as_str()).bind(version.to_string()).execute().await;
        if removed.map_err(to_store_error(WHAT))? == 0 {
            let message = format!("the executor remembers no checksum of `{name}` {version}");
            let error = Error::new(ErrorKind::StateNotFound, message);
            return Err(error.with_hint("List the remembered checksums with `a2s trust list`."));
        }
        tracing::info!(%name, %version, %principal, "checksum forgotten");
        Ok(())
    }
}

/// Converts the pins to a JSON list of name, version and checksum.
pub(crate) fn pins_to_json(pins: &[CapabilityRef]) -> String {
    let pins = pins.iter().map(|CapabilityRef { name, version, checksum }| {
        serde_json::json!([name, version.to_string(), checksum])
    });
    serde_json::Value::from_iter(pins).to_string()
}

fn read_row(row: Columns) -> Result<TrustedVersion, Error> {
    let (name, version, checksum, remembered_at, accepted_by) = row;
    let read = || {
        Some(TrustedVersion {
            name: CapabilityName::new(&name).ok()?,
            version: version.parse().ok()?,
            checksum: checksum.parse::<Digest>().ok()?,
            remembered_at: Timestamp::from_millisecond(remembered_at).ok()?,
            accepted_by,
        })
    };
    read().ok_or_else(|| Error::new(ErrorKind::Store, "a remembered checksum cannot be read"))
}

fn refuse(pin: &CapabilityRef, trusted: &TrustedVersion) -> Error {
    let CapabilityRef { name, version, checksum } = pin;
    let TrustedVersion { checksum: known, remembered_at, accepted_by, .. } = trusted;
    let since = match accepted_by {
        Some(principal) => format!("which `{principal}` accepted at {remembered_at:.0}"),
        None => format!("which was first seen at {remembered_at:.0}"),
    };
    let message = format!(
        "the registry returns `{name}` {version} with the checksum {checksum}, but this executor remembers {known}, {since}"
    );
    let hint = format!(
        "A published version never changes: find out why the registry returns another document. If it \
         is right, accept it with `a2s trust accept {name}@{version} --checksum {checksum}`."
    );
    Error::new(ErrorKind::ChecksumChanged, message).with_hint(hint)
}
