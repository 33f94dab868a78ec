//! Reads rows, with one implementation for every engine: a column means the same in each.

use std::collections::{BTreeMap, BTreeSet};

use a2s::{CapabilityName, Complexity, Domain, Permission, TaskFormat};
use a2s_api::{
    AuditEntry, FailureClass, FailureCount, FaultAttribution, RegistryAction, ServiceSummary,
};
use a2s_api::{TokenScope, TokenSubject};
use jiff::Timestamp;
use semver::Version;
use serde::de::DeserializeOwned;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;

use super::tokens::TokenRow;
use super::{CapabilityId, Error, RunOutcome, RunStats, VersionEntry, VersionId};
use crate::outcome_weighting::{ReporterWeights, RunWeight, sum_reporters};

/// The most titles and permissions of a service in a response.
const MAX_TITLES: usize = 5;
const MAX_PERMISSIONS: usize = 50;

/// The columns of a [`VersionEntry`]. They are a macro, because the text of a query must be constant.
macro_rules! concat_entry {
    ($($rest:expr),+ $(,)?) => {
        concat!(
            "SELECT capability.id AS capability, version.id AS id, capability.name AS name, \
             version.version AS version, digest, complexity, permissions, published_at, yanked, \
             deprecated, runs, \
             successes, faults, good, bad, used, weighed_at \
             FROM version JOIN capability ON capability.id = version.capability ",
            $($rest),+
        )
    };
}
pub(super) use concat_entry;

/// A row of any engine. A null in an `optional_` column is none; in other columns it is an error.
pub(super) trait RowColumns {
    fn number(&self, column: &str) -> Result<i64, Error>;
    fn optional_number(&self, column: &str) -> Result<Option<i64>, Error>;
    fn real(&self, column: &str) -> Result<f64, Error>;
    fn flag(&self, column: &str) -> Result<bool, Error>;
    fn text(&self, column: &str) -> Result<String, Error>;
    fn optional_text(&self, column: &str) -> Result<Option<String>, Error>;

    /// Reads a number that cannot be negative.
    fn count(&self, column: &str) -> Result<u64, Error> {
        Ok(self.number(column)?.max(0).unsigned_abs())
    }

    /// Reads a time in milliseconds since 1970.
    fn time(&self, column: &str) -> Result<Timestamp, Error> {
        Timestamp::from_millisecond(self.number(column)?).map_err(Error::unavailable)
    }
}

macro_rules! columns_of {
    ($row:ty) => {
        impl RowColumns for $row {
            fn number(&self, column: &str) -> Result<i64, Error> {
                Ok(self.try_get(column)?)
            }
            fn optional_number(&self, column: &str) -> Result<Option<i64>, Error> {
                Ok(self.try_get(column)?)
            }
            fn real(&self, column: &str) -> Result<f64, Error> {
                Ok(self.try_get(column)?)
            }
            fn flag(&self, column: &str) -> Result<bool, Error> {
                Ok(self.try_get(column)?)
            }
            fn text(&self, column: &str) -> Result<String, Error> {
                Ok(self.try_get(column)?)
            }
            fn optional_text(&self, column: &str) -> Result<Option<String>, Error> {
                Ok(self.try_get(column)?)
            }
        }
    };
}
columns_of!(SqliteRow);
columns_of!(PgRow);

/// Maps the rows that can be read. One row that was damaged by hand must not hide the others.
fn map_readable<R, T>(rows: &[R], what: &str, read: impl Fn(&R) -> Result<T, Error>) -> Vec<T> {
    let read = |row| {
        read(row)
            .inspect_err(|error| tracing::error!(%error, "{what} cannot be read and is left out"))
    };
    rows.iter().filter_map(|row| read(row).ok()).collect()
}

pub(super) fn to_entries(rows: &[impl RowColumns]) -> Vec<VersionEntry> {
    map_readable(rows, "a version", to_entry)
}

pub(super) fn to_entry(row: &impl RowColumns) -> Result<VersionEntry, Error> {
    Ok(VersionEntry {
        capability: CapabilityId(row.number("capability")?),
        id: VersionId(row.number("id")?),
        name: CapabilityName::new(&row.text("name")?).map_err(Error::unavailable)?,
        version: Version::parse(&row.text("version")?).map_err(Error::unavailable)?,
        digest: row.text("digest")?.parse().map_err(Error::unavailable)?,
        complexity: match row.number("complexity")? {
            0 => Complexity::Low,
            1 => Complexity::Medium,
            _ => Complexity::High,
        },
        permissions: row.number("permissions")?.try_into().map_err(Error::unavailable)?,
        published_at: row.time("published_at")?,
        yanked: row.flag("yanked")?,
        // Words that cannot be read say that there are some.
        deprecated: row
            .optional_text("deprecated")?
            .map(|words| serde_json::from_str(&words).unwrap_or_default()),
        stats: RunStats {
            runs: row.count("runs")?,
            successes: row.count("successes")?,
            faults: row.count("faults")?,
            weight: RunWeight {
                good: row.real("good")?,
                bad: row.real("bad")?,
                runs: row.real("used")?,
            },
            weighed_at: row.number("weighed_at")?,
        },
    })
}

pub(super) fn complexity_to_number(complexity: Complexity) -> i64 {
    match complexity {
        Complexity::Low => 0,
        Complexity::Medium => 1,
        Complexity::High => 2,
    }
}

/// Returns the version for a user who requests none, of those that are not yanked: the newest stable one,
/// or, when there is none, the newest pre-release. Rows have `id` and `version`.
pub(super) fn find_newest_version(rows: &[impl RowColumns]) -> Result<Option<i64>, Error> {
    let mut newest: Option<(bool, Version, i64)> = None;
    for row in rows {
        let Ok(version) = Version::parse(&row.text("version")?) else { continue };
        let candidate = (version.pre.is_empty(), version, row.number("id")?);
        if newest.as_ref().is_none_or(|newest| *newest < candidate) {
            newest = Some(candidate);
        }
    }
    Ok(newest.map(|(_, _, id)| id))
}

pub(super) fn to_events(rows: &[impl RowColumns]) -> Vec<AuditEntry> {
    map_readable(rows, "an event", to_event)
}

fn to_event(row: &impl RowColumns) -> Result<AuditEntry, Error> {
    let action = row.text("action")?;
    let detail =
        row.optional_text("detail")?.map(|detail| serde_json::from_str(&detail)).transpose();
    let name = row.optional_text("name")?.map(|name| CapabilityName::new(&name)).transpose();
    let version = row.optional_text("version")?.map(|text| Version::parse(&text)).transpose();
    let digest = row.optional_text("digest")?.map(|digest| digest.parse()).transpose();
    Ok(AuditEntry {
        seq: row.count("seq")?,
        at: row.time("at")?,
        actor: row.optional_text("actor")?.as_deref().map(to_subject).transpose()?,
        action: RegistryAction::from_name(&action)
            .ok_or_else(|| Error::unavailable(format!("unknown action `{action}`")))?,
        name: name.map_err(Error::unavailable)?,
        version: version.map_err(Error::unavailable)?,
        checksum: digest.map_err(Error::unavailable)?,
        subject: row.optional_text("subject")?.as_deref().map(to_subject).transpose()?,
        detail: detail.map_err(Error::unavailable)?,
    })
}

fn to_subject(text: &str) -> Result<TokenSubject, Error> {
    TokenSubject::new(text).map_err(Error::unavailable)
}

pub(super) fn to_subjects(texts: &[String]) -> Result<Vec<TokenSubject>, Error> {
    texts.iter().map(|text| to_subject(text)).collect()
}

pub(super) fn to_token(row: &impl RowColumns) -> Result<TokenRow, Error> {
    let (name, scopes) = (row.text("name")?, row.text("scopes")?);
    let scopes: Result<BTreeSet<TokenScope>, _> =
        scopes.split_whitespace().map(str::parse).collect();
    let expires_at = row.optional_number("expires_at")?.map(Timestamp::from_millisecond);
    Ok(TokenRow {
        name: to_subject(&name)?,
        scopes: scopes.map_err(Error::unavailable)?,
        created_at: row.time("created_at")?,
        expires_at: expires_at.transpose().map_err(Error::unavailable)?,
    })
}

pub(super) fn to_failure(row: &impl RowColumns) -> Result<FailureCount, Error> {
    let text = |column| Ok::<_, Error>(Some(row.text(column)?).filter(|text| !text.is_empty()));
    let (class, blame) = (text("class")?, text("blame")?);
    Ok(FailureCount {
        code: text("code")?,
        class: FailureClass::ALL.iter().copied().find(|c| class.as_deref() == Some(c.as_str())),
        attribution: FaultAttribution::ALL
            .iter()
            .copied()
            .find(|b| blame.as_deref() == Some(b.as_str())),
        count: row.count("count")?,
    })
}

/// Adds a run to the weights of its executor, and returns those with the sum over all executors. The rows
/// are those of the version, with `reporter`, `sessions` and `at`.
pub(super) fn add_run(
    rows: &[impl RowColumns],
    outcome: &RunOutcome,
) -> Result<(ReporterWeights, RunWeight), Error> {
    let now = outcome.at.as_millisecond();
    let mut own = ReporterWeights::default();
    let mut weights = Vec::with_capacity(rows.len() + 1);
    for row in rows {
        let sessions = parse(&row.text("sessions")?)?;
        let mut reporter = ReporterWeights { sessions, at: row.number("at")? };
        if row.number("reporter")? == i64::from(outcome.reporter_key.reporter) {
            own = reporter;
        } else {
            reporter.decay_to(now);
            weights.push(reporter.weight());
        }
    }
    let session = usize::from(outcome.reporter_key.session);
    own.count(session, outcome.run_end(), outcome.ended_at.as_millisecond(), now);
    weights.push(own.weight());
    let weight = sum_reporters(&weights);
    Ok((own, weight))
}

/// Builds the services of hosts from rows with the number of their capabilities (`host`, `capabilities`),
/// by host.
pub(super) fn to_services(
    rows: &[impl RowColumns],
) -> Result<BTreeMap<String, ServiceSummary>, Error> {
    let to_service = |row| {
        let host = RowColumns::text(row, "host")?;
        let service = ServiceSummary {
            host: Domain::new(&host).map_err(Error::unavailable)?,
            titles: Vec::new(),
            capabilities: RowColumns::count(row, "capabilities")?,
            formats: Vec::new(),
            permissions: Vec::new(),
        };
        Ok((host, service))
    };
    rows.iter().map(to_service).collect()
}

/// Adds titles and formats (`host`, `title`, `format`), the most used first.
pub(super) fn add_titles(
    services: &mut BTreeMap<String, ServiceSummary>,
    rows: &[impl RowColumns],
) -> Result<(), Error> {
    for row in rows {
        let Some(service) = services.get_mut(&row.text("host")?) else { continue };
        if let Some(title) = row.optional_text("title")?
            && service.titles.len() < MAX_TITLES
            && !service.titles.contains(&title)
        {
            service.titles.push(title);
        }
        let format = row.optional_text("format")?.and_then(|format| TaskFormat::from_name(&format));
        service.formats.extend(format);
        service.formats.sort_unstable();
        service.formats.dedup();
    }
    Ok(())
}

/// Adds permissions (`host`, `permission`) in the order of the rows.
pub(super) fn add_permissions(
    services: &mut BTreeMap<String, ServiceSummary>,
    rows: &[impl RowColumns],
) -> Result<(), Error> {
    for row in rows {
        if let Some(service) = services.get_mut(&row.text("host")?)
            && service.permissions.len() < MAX_PERMISSIONS
            && let Ok(permission) = Permission::new(&row.text("permission")?)
        {
            service.permissions.push(permission);
        }
    }
    Ok(())
}

/// Parses JSON that the registry has written.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(Error::unavailable)
}

/// Converts a value to JSON.
pub(super) fn to_json(value: &impl serde::Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(Error::unavailable)
}
